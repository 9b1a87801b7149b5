"""Gymnasium's own checks and vector wrappers over esper.VectorEnv. Skipped where Gymnasium is not installed."""
import sys
import unittest
import warnings

import numpy as np

try:
    import gymnasium
    from gymnasium.utils import env_checker, passive_env_checker
    from gymnasium.vector import AutoresetMode
    from gymnasium.wrappers import vector as wrappers
except ImportError:
    print("skipped: Gymnasium is not installed; add it with: pip install gymnasium")
    raise SystemExit(0)

import esper
from rig import Case, SMALL, play, small



class Single(gymnasium.Env):
    """One env of it, for checks that know single environments alone."""

    def __init__(self):
        self.many = small(1, illegal="wait", autoreset_mode="Disabled")
        self.observation_space, self.action_space = self.many.single_observation_space, self.many.single_action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        seen, info = self.many.reset(seed=seed, options=options)
        return seen[0], {"action_mask": info["action_mask"][0]}

    def step(self, action):
        seen, reward, terminated, _, info = self.many.step(np.asarray(action)[None])
        return seen[0], float(reward[0]), bool(terminated[0]), False, {"action_mask": info["action_mask"][0]}


class Checks(Case):
    def test_spaces(self):
        env = small()
        for space in (env.observation_space, env.single_observation_space):
            passive_env_checker.check_observation_space(space)
        for space in (env.action_space, env.single_action_space):
            passive_env_checker.check_action_space(space)
        self.assertIsInstance(env, gymnasium.vector.VectorEnv)
        self.assertIs(env.metadata["autoreset_mode"], AutoresetMode.NEXT_STEP)
        self.assertEqual(env.observation_space, gymnasium.vector.utils.batch_space(env.single_observation_space, 2))
        self.assertEqual(env.action_space, gymnasium.vector.utils.batch_space(env.single_action_space, 2))
        seen, info = env.reset()
        passive_env_checker.check_obs(seen, env.observation_space, "reset")
        bounds = np.cumsum(env.head_sizes)[:-1]
        for masks in info["action_mask"]:  # the masks are what spaces take
            self.assertIn(env.single_action_space.sample(mask=tuple(np.split(masks, bounds))), env.single_action_space)

    def test_determinism(self):
        env = small(illegal="wait")
        env_checker.check_reset_seed_determinism(env)
        env_checker.check_reset_options(env)
        env_checker.check_reset_return_type(env)
        env_checker.check_reset_return_info_deprecation(env)
        env_checker.check_seed_deprecation(env)

    def test_single(self):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*(minimum|maximum) value is -?infinity")  # that is what they are
            warnings.filterwarnings("ignore", ".*not able to test alternative render modes")  # the adapter has no spec
            env_checker.check_env(Single(), skip_render_check=True)

    def test_made(self):
        env = gymnasium.make_vec("Esper-v0", num_envs=3, task="quickstart", settings=SMALL)
        self.assertEqual(env.num_envs, 3)
        self.assertEqual(env.spec.id, "Esper-v0")
        env.reset(seed=1)
        env_checker.check_reset_seed_determinism(env)
        self.assertEqual(play(env)[1], 12)
        env.close()


class Wrappers(Case):
    def test_statistics(self):
        for mode in AutoresetMode:
            env = wrappers.RecordEpisodeStatistics(small(3, autoreset_mode=mode))
            env.reset(seed=1)
            for episode in range(1, 4):
                rng, total, done = np.random.default_rng(episode), np.zeros(3), False
                while not done:
                    _, rewards, terminated, _, info = env.step(env.unwrapped.sample_actions(rng))
                    total += rewards
                    done = terminated.all()
                np.testing.assert_allclose(info["episode"]["r"], total)
                self.assertEqual(list(info["episode"]["l"]), [12] * 3)
                np.testing.assert_allclose(env.unwrapped.outcomes["reward"], total)
                self.assertEqual(env.episode_count, 3 * episode)
                if mode is AutoresetMode.DISABLED:
                    env.reset()

    def test_lists(self):
        env = wrappers.DictInfoToList(wrappers.RecordEpisodeStatistics(small()))
        _, info = env.reset()
        self.assertEqual(info[1]["slot_by_op"].shape, (6, 3))
        for _ in range(12):
            _, rewards, _, _, info = env.step(env.unwrapped.sample_actions())
        self.assertEqual(info[1]["episode"]["l"], 12)
        self.assertEqual(info[1]["outcome"]["env"], 1)
        self.assertEqual(info[0]["val_score"], info[0]["outcome"]["val_score"] if info[0]["outcome"]["live"] == 0
                         else info[0]["val_score"])

    def test_observations_and_rewards(self):
        env = small()
        env = wrappers.NormalizeObservation(env)
        env = wrappers.ClipReward(wrappers.NormalizeReward(env), -2, 2)
        env = wrappers.TransformReward(env, lambda reward: 3 * reward)
        env = wrappers.DtypeObservation(env, np.float64)
        env = wrappers.TransformObservation(env, lambda seen: seen[..., :4],
                                            single_observation_space=gymnasium.spaces.Box(-9e9, 9e9, (4,), np.float64))
        seen, _ = env.reset(seed=1)
        self.assertEqual((seen.dtype, seen.shape), (np.float64, (2, 4)))
        for _ in range(30):
            seen, rewards, _, _, _ = env.step(env.unwrapped.sample_actions())
            self.assertIn(seen, env.observation_space)
            self.assertTrue((abs(rewards) <= 6).all())

    def test_actions(self):
        env = wrappers.TransformAction(small(), lambda actions: actions * 0)  # everybody waits
        env.reset()
        for _ in range(12):
            _, _, terminated, _, info = env.step(env.action_space.sample())
        self.assertTrue(terminated.all() and not info["outcome"]["germinated"].any())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], warnings="error")  # what Gymnasium warns of is wrong, too
