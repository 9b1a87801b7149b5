"""Environments: with Gymnasium or, given ESPER_ALONE=1, without."""
import os
import sys
import threading
import unittest

if os.environ.get("ESPER_ALONE"):
    sys.modules["gymnasium"] = None  # as if it were not installed

import numpy as np

import esper
from rig import Case, play, small


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Playing(Case):
    def test_shapes(self):
        env = small(3)
        seen, info = env.reset(seed=5)
        self.assertIn(seen, env.observation_space)
        self.assertIn(seen[0], env.single_observation_space)
        self.assertEqual((seen.dtype, seen.shape), (np.float32, (3, env.features)))
        self.assertEqual(info["action_mask"].shape, (3, sum(env.head_sizes)))
        self.assertEqual(info["slot_by_op"].shape, (3, len(esper.OP_NAMES), len(env.slots)))
        self.assertEqual(tuple(env.single_action_space.nvec), env.head_sizes)
        self.assertEqual(info["blueprints"].tolist(), [[-1] * len(env.slots)] * 3)
        self.assertEqual(esper.HEAD_NAMES[-1], "op")
        actions = env.sample_actions()
        self.assertIn(actions, env.action_space)
        seen, rewards, terminated, truncated, info = env.step(actions)
        for told in (rewards, terminated, truncated, info["val_score"], info["_val_score"]):
            self.assertEqual(told.shape, (3,))
        self.assertTrue(np.isfinite(seen).all())
        np.testing.assert_allclose(info["components"].sum(1), rewards, atol=1e-9)
        env.close()
        env.close()
        self.assertTrue(env.closed)
        self.refused("is closed", env.step, actions)

    def test_next_step(self):
        env = small()
        env.reset()
        for step in range(12):
            before, masks = env.observe()
            seen, rewards, terminated, _, info = env.step(env.sample_actions())
            self.assertEqual(terminated.all(), step == 11)
            self.assertEqual(terminated.any(), step == 11)
            self.assertEqual("outcome" in info, step == 11)
        self.assertIsNot(seen, before)
        np.testing.assert_array_equal(seen, before)  # what there was to see before it ended
        np.testing.assert_array_equal(info["action_mask"], masks["action_mask"])
        np.testing.assert_array_equal(env.observe()[0], before)
        self.assertEqual(list(info["outcome"]["episode"]), [0, 0])
        first, rewards, terminated, _, info = env.step(np.full((2, 8), 99))  # whatever the actions
        self.assertFalse(terminated.any() or rewards.any() or "outcome" in info)
        again, _ = env.reset(options={"episode": 1})
        np.testing.assert_array_equal(first, again)
        self.assertEqual(list(env.outcomes["episode"]), [0, 0])  # still to be read
        total, steps = play(env)
        self.assertEqual(steps, 12)
        np.testing.assert_allclose(env.outcomes["reward"], total)
        self.assertEqual(play(env)[1], 13)  # the step that resets counts

    def test_same_step(self):
        env, other = small(autoreset_mode="SameStep"), small(autoreset_mode="SameStep", copy=False)
        for at in (env, other):
            at.reset(seed=9)
            for _ in range(12):
                last = at.observe()[0].copy()
                seen, _, terminated, _, info = at.step(at.sample_actions(np.random.default_rng(3)))
            self.assertTrue(terminated.all() and info["_final_obs"].all())
            np.testing.assert_array_equal(np.stack(info["final_obs"]), last)
            self.assertEqual(list(info["final_info"]["outcome"]["episode"]), [0, 0])
            self.assertFalse("outcome" in info)
            np.testing.assert_array_equal(seen, at.reset(options={"episode": 1})[0])
            self.assertEqual(play(at)[1], 12)
        np.testing.assert_array_equal(env.outcomes["test_score"], other.outcomes["test_score"])

    def test_disabled(self):
        env = small(autoreset_mode="Disabled")
        env.reset(options={"reset_mask": np.ones(2, bool)})
        self.assertEqual(play(env)[1], 12)
        self.refused("is over", env.step, env.sample_actions())
        self.refused("begin and end together", env.reset, options={"reset_mask": np.array([True, False])})
        env.reset()
        self.assertEqual(play(env)[1], 12)
        self.assertEqual(list(env.outcomes["episode"]), [1, 1])

    def test_seeds(self):
        env = small()
        first = env.reset(seed=7)[0]
        following = env.reset()[0]
        other = env.reset(seed=8)[0]
        self.assertFalse(np.array_equal(first, following) or np.array_equal(first, other))
        np.testing.assert_array_equal(first, env.reset(seed=7)[0])
        np.testing.assert_array_equal(following, env.reset()[0])
        np.testing.assert_array_equal(first, small(seed=7).reset()[0])
        self.refused("one number", env.reset, seed=[1, 2])
        self.refused("seed", env.reset, seed=-1)
        env.reset()  # and goes on as before
        play(env)

    def test_copies(self):
        kept, shared = small(), small(copy=False)
        for env, same in ((kept, False), (shared, True)):
            seen, info = env.reset()
            more, _, _, _, later = env.step(env.sample_actions())
            self.assertEqual(seen is more, same)
            self.assertEqual(info["action_mask"] is later["action_mask"], same)

    def test_saving(self):
        path = os.path.join(os.environ["ESPER_TEST_FOLDER"], "middle.ckpt")
        env, rng = small(), np.random.default_rng(4)
        env.reset()
        for _ in range(5):
            env.step(env.sample_actions(rng))
        env.save_next(path)
        actions = [env.sample_actions(rng)]
        env.step(actions[0])
        resumed = esper.VectorEnv.resume(path)
        np.testing.assert_array_equal(resumed.observe()[0], env.observe()[0])
        for _ in range(6):
            actions = env.sample_actions(rng)
            told, again = env.step(actions), resumed.step(actions)
            np.testing.assert_array_equal(told[0], again[0])
        self.assertTrue(told[2].all() and again[2].all())
        self.assertEqual(env.outcomes.tobytes(), resumed.outcomes.tobytes())
        self.refused("keeps its own", resumed.reset, seed=3)
        np.testing.assert_array_equal(env.reset()[0], resumed.reset()[0])
        env.save_next("/nowhere/x.ckpt")
        self.refused("/nowhere", env.step, env.sample_actions(), kind=esper.Error)

    def test_illegal(self):
        env, gentle = small(), small(illegal="wait")
        env.reset(), gentle.reset()
        wild = np.array([[0] * 7 + [4], [0, 1, 0, 0, 2, 0, 0, 1]])  # FOSSILIZE of nothing, and GERMINATE
        self.refused("env 0: op = 4 (fossilize)", env.step, wild)
        wild = np.array([[0] * 8, [0, 1, 0, 0, 2, 0, 0, 1]])
        one, other = env.step(wild), gentle.step(np.array([[9] * 8, [0, 1, 0, 0, 2, 0, 0, 1]]))
        np.testing.assert_array_equal(one[0], other[0])
        self.assertEqual(env.blueprints[one[4]["blueprints"][1, 0]], "conv_light")
        for _ in range(30):
            gentle.step(gentle.action_space.sample())

    def test_wrong(self):
        env = small()
        self.refused("call esper_env_reset first", env.step, np.zeros((2, 8), int))
        self.refused("call esper_env_reset first", env.step, env.sample_actions())
        self.refused("call esper_env_reset first", env.observe)
        env.reset()
        self.refused("integers (2, 8)", env.step, np.zeros((3, 8), int))
        self.refused("integers (2, 8)", env.step, np.zeros((2, 8)))
        self.refused("integers (2, 8)", env.step, None)
        self.refused("-1 to 0", env.step, np.array([[-1] + [0] * 7, [0] * 8]))
        self.refused("0 to 256", env.step, np.array([[256] + [0] * 7, [0] * 8]))  # it would not come round to 0
        self.refused("there are episode and reset_mask", env.reset, options={"epsiode": 1})
        self.refused("episode = -1", env.reset, options={"episode": -1})
        self.refused("episode = 1.5", env.reset, options={"episode": 1.5})
        self.refused("there are episodes 0 to", env.reset, options={"episode": 1 << 30})
        self.refused("unknown task", esper.VectorEnv, "quikstart")
        self.refused("leave out one", esper.VectorEnv, "quickstart", run="first")
        self.refused("envs", esper.VectorEnv, "quickstart", num_envs=0)
        self.refused("illegal", small, illegal="shrug")
        self.refused("autoreset_mode", small, autoreset_mode="Sometimes")
        self.refused("steps", small, settings={"setps": 3})
        self.refused("zero byte", esper.VectorEnv, "quick\0start")
        self.refused("zero byte", small, settings={"task": "a\0b"})
        self.refused("cuda", small, settings={"device": "cuda:7"}, kind=esper.Unsupported)
        self.refused("cannot open", esper.VectorEnv, run="/nowhere/run")
        self.refused("/nowhere", esper.VectorEnv.resume, "/nowhere/x.ckpt")
        play(env)

    def test_text(self):
        env = esper.VectorEnv("text_quick", 2, settings={"steps": 3, "data.batches": 1, "data.batch": 8, "data.val_images": 8,
                                                         "data.test_images": 8, "reward.mode": "shaped"})
        env.reset()
        self.assertIn("mlp", env.blueprints)
        self.assertEqual(play(env)[1], 3)
        self.assertTrue((env.outcomes["val_loss"] > 0).all())

    def test_memory(self):
        env = small()
        for episode in range(1000):
            env.reset()
            if episode == 50:
                before = resident()
        growth = resident() - before
        print(f"1000 resets: {growth // 1024} KiB more")
        self.assertLess(growth, 1 << 20)


class Threads(Case):
    def test_in_use(self):
        env = small(settings={"data.batches": 200})
        thread = threading.Thread(target=env.reset)
        thread.start()
        while not env._busy.locked() and thread.is_alive():
            pass
        self.refused("another thread", env.observe)
        self.refused("not closed", env.close)
        thread.join()
        env.observe()
        env.close()

    def test_fork(self):
        env = small()
        env.reset()
        child = os.fork()
        if child == 0:
            said = ""
            try:
                env.observe()
            except esper.Invalid as problem:
                said = str(problem)
            env.close()
            os._exit(0 if "process that opened it" in said else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        env.observe()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
