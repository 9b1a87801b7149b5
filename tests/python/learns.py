"""examples/python/ppo.py learns the quick start to within five points of `esper train`, in the same env-steps.

usage: learns.py ESPER [ROUNDS]

Both play the same evaluation episodes afterwards: their seeds are the same. The full 60 rounds take minutes; fewer say
only that both run.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
program = os.path.abspath(sys.argv[1])
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 60
os.environ["ESPER_LIBRARY"] = str(Path(program).parent / "libesper.so")
os.environ["PYTHONPATH"] = str(ROOT / "python")

import esper  # noqa: E402

LIMIT, EPISODES = 5.0, 64

with tempfile.TemporaryDirectory() as folder:
    os.environ["ESPER_TASKS"] = str(ROOT / "tasks")
    os.chdir(folder)
    for arguments in (["train", "--task", "quickstart", "--rounds", str(rounds), "--name", "first", "--device", "cpu"],
                      ["eval", "first", "--episodes", str(EPISODES), "--device", "cpu"]):
        subprocess.run([program, *arguments, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    with esper.Run("first-eval-ppo") as run:
        own = run.query("select avg(test_accuracy) as score from outcome")["score"][0]
    said = subprocess.run([sys.executable, str(ROOT / "examples" / "python" / "ppo.py"), "--rounds", str(rounds),
                           "--evaluate", str(EPISODES)], check=True, stdout=subprocess.PIPE, text=True).stdout
    theirs = float(re.search(r"^evaluation: test score ([0-9.]+) over %d episodes" % EPISODES, said, re.M)[1])

print(f"{rounds} rounds, {EPISODES} evaluation episodes: esper train {own:.2f}, ppo.py {theirs:.2f} points of test score")
if rounds >= 60 and theirs < own - LIMIT:
    sys.exit(f"more than {LIMIT} points behind")
