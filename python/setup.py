"""What pyproject.toml cannot say: the version is that of esper.h, and the built libesper.so goes into the package."""
import os
import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = Path(os.environ.get("ESPER_LIBRARY", ROOT / "build" / "libesper.so"))


class Build(build_py):
    def run(self):
        if not LIBRARY.exists():
            raise SystemExit(f"esper: {LIBRARY} is missing; build it with: make")
        super().run()
        shutil.copy(LIBRARY, Path(self.build_lib) / "esper" / "libesper.so")


class Wheel(bdist_wheel):
    """For this machine's kind, and for any Python: the library knows nothing of it."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


setup(version=re.search(r'ESPER_VERSION "(.*)"', (ROOT / "include" / "esper.h").read_text())[1],
      cmdclass={"build_py": Build, "bdist_wheel": Wheel})
