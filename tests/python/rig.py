"""What the tests of the Python package share: small environments, and the run that run_python.sh trained."""
import os
import unittest

import numpy as np

import esper

SMALL = {"steps": 12, "data.batch": 16, "data.batches": 1, "data.val_images": 32, "data.test_images": 32, "threads": 1,
         "reward.mode": "shaped"}
RUN = os.environ.get("ESPER_TEST_RUN", "")  # a folder: runs/first, runs/first-eval-ppo, grown.onnx, logits.safetensors


def small(num_envs=2, **named):
    settings = dict(SMALL, **named.pop("settings", {}))
    return esper.VectorEnv("quickstart", num_envs, settings=settings, **named)


def play(env, episodes=1, seed=1):
    """Episodes at random within the masks: the rewards of each env, and how many steps were taken."""
    rng = np.random.default_rng(seed)
    total, steps = np.zeros(env.num_envs), 0
    while episodes:
        _, rewards, terminated, truncated, _ = env.step(env.unwrapped.sample_actions(rng))
        assert not truncated.any()
        total += rewards
        steps += 1
        episodes -= bool(terminated.all())
    return total, steps


class Case(unittest.TestCase):
    def refused(self, words, function, *arguments, kind=esper.Invalid, **named):
        """One line that says so."""
        with self.assertRaises(kind) as caught:
            function(*arguments, **named)
        self.assertIn(words, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))
