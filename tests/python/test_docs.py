"""What docs/python.md shows, run as it stands, in the folder that run_python.sh made; then the examples.

usage: test_docs.py PROJECT
"""
import io
import os
import re
import subprocess
import sys
import xml.dom.minidom
from contextlib import redirect_stdout

import numpy as np

root = sys.argv[1]
with open(os.path.join(root, "docs", "python.md")) as file:
    blocks = re.findall(r"```python\n(.*?)```", file.read(), re.S)
assert len(blocks) >= 2, blocks
scope, said = {"images": np.zeros((3, 16, 16, 3), np.uint8)}, io.StringIO()
with redirect_stdout(said):
    for code in blocks:
        exec(compile(code, "docs/python.md", "exec"), scope)
assert scope["env"].outcomes is not None and scope["logits"].shape == (3, 10), said.getvalue()
assert "reward" in said.getvalue()


def example(name, *arguments):
    return subprocess.run([sys.executable, os.path.join(root, "examples", "python", name), *arguments], check=True,
                          stdout=subprocess.PIPE, text=True).stdout


example("plot_run.py", "runs/first", "first.svg")
assert len(xml.dom.minidom.parse("first.svg").getElementsByTagName("polyline")) == 5
try:
    import torch  # noqa: F401
except ImportError:
    print("skipped: PyTorch is not installed, examples/python/ppo.py was not run; add it with: apt-get install python3-torch")
else:
    learned = example("ppo.py", "--rounds", "2", "--num-envs", "2", "--evaluate", "4", "--csv", "learned.csv", "--save", "p.pt")
    assert re.search(r"^round 2: reward .*\nevaluation: test score [0-9.]+ over 4 episodes", learned, re.M), learned
    assert os.path.getsize("p.pt") > 1000 and open("learned.csv").read().count("\n") == 3
