#!/usr/bin/python3
"""What the Python package costs: the same episodes, with the same actions, by a loop in C and by esper.VectorEnv, in turn.

usage: bench/python.py [--envs 16] [--episodes 9] [--library build/libesper.so]

First the quick start as it is, then hosts that have next to nothing to learn, where the cost itself can be seen. Needs a C
compiler. Times are of the processor, all threads together, and of the clock; each figure is a median over pairs of episodes.
"""
import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
options = argparse.ArgumentParser()
options.add_argument("--envs", type=int, default=16)
options.add_argument("--episodes", type=int, default=9)
options.add_argument("--library", default=str(ROOT / "build" / "libesper.so"))
options = options.parse_args()
os.environ["ESPER_LIBRARY"] = options.library

import esper  # noqa: E402
from esper.library import OUTCOME, STEP, address  # noqa: E402


def compiled(folder):
    """The loop in C, over the library that Python has already opened."""
    target = f"{folder}/loop.so"
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", f"-I{ROOT}/include",
                    str(ROOT / "bench" / "python_loop.c"), options.library, f"-Wl,-rpath,{Path(options.library).parent}",
                    "-o", target], check=True)
    function = ctypes.CDLL(target).play
    function.argtypes = [ctypes.c_void_p, ctypes.c_uint32] + 6 * [ctypes.c_void_p]
    return function


def legal_episode(env, episode, seed):
    """Actions at random, once, for both loops to replay."""
    rng, actions = np.random.default_rng(seed), []
    env.reset(options={"episode": episode})
    for _ in range(env.steps):
        actions.append(env.sample_actions(rng).astype(np.uint8))
        env.step(actions[-1])
    return np.stack(actions)


def in_c(function, env, episode, actions, arrays):
    assert function(env._pointer, episode, address(actions), *(address(array) for array in arrays)) == 0
    return arrays[-1].tobytes()


def in_python(env, episode, actions):
    env.reset(options={"episode": episode})
    for step in range(len(actions)):
        env.step(actions[step])
    return env.outcomes.tobytes()


def timed(function, *arguments):
    clock, processor = time.perf_counter(), time.process_time()
    result = function(*arguments)
    return time.perf_counter() - clock, time.process_time() - processor, result


def compare(function, title, settings, pairs):
    env = esper.VectorEnv("quickstart", options.envs, settings=settings, autoreset_mode="Disabled")
    envs = options.envs
    arrays = (np.empty((envs, env.features), np.float32), np.empty((envs, sum(env.head_sizes)), np.uint8),
              np.empty((envs, len(esper.OP_NAMES), len(env.slots)), np.uint8), np.empty(envs, STEP),
              np.empty(envs, OUTCOME))
    actions = [legal_episode(env, episode, episode) for episode in range(3)]
    clock, processor, extra, seconds = [], [], [], []
    for pair in range(pairs):
        episode = pair % len(actions)
        first = timed(in_c, function, env, episode, actions[episode], arrays)
        second = timed(in_python, env, episode, actions[episode])
        assert first[2] == second[2], "not the same episode"
        clock.append(second[0] / first[0] - 1)
        processor.append(second[1] / first[1] - 1)
        extra.append((second[1] - first[1]) / env.steps)
        seconds.append(first[1] / env.steps)
    step, cost = statistics.median(seconds), statistics.median(extra)
    print(f"{title}: {envs} envs x {env.steps} steps, {pairs} pairs; a step takes {1e3 * step:.3f} ms of processor in C; "
          f"Python adds {100 * statistics.median(processor):+.2f} % (clock {100 * statistics.median(clock):+.2f} %), "
          f"{1e6 * cost:+.0f} us")
    env.close()
    return step, cost


with tempfile.TemporaryDirectory() as folder:
    loop = compiled(folder)
    real, _ = compare(loop, "quickstart", {}, options.episodes)
    tiny = {"data.batches": 1, "data.batch": 4, "data.val_images": 4, "data.test_images": 4, "threads": 1,
            "reward.mode": "shaped"}
    _, cost = compare(loop, "next to nothing to learn", tiny, 20 * options.episodes)
    share = 100 * cost / real
    print(f"the package costs {1e6 * cost:.0f} us a step: {share:.3f} % of a step of {options.envs} envs of quickstart")
    sys.exit(0 if share < 3 else 1)
