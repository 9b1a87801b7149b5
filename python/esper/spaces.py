"""Spaces and modes of Gymnasium, where it is installed; otherwise as much of them as an environment needs."""
from copy import deepcopy
from enum import Enum

import numpy as np

try:
    from gymnasium.spaces import Box, MultiDiscrete
    from gymnasium.vector import AutoresetMode
    from gymnasium.vector import VectorEnv as Base
    from gymnasium.vector.utils import batch_space

    HAVE_GYMNASIUM = True

    class Heads(MultiDiscrete):
        """Choices, one per head. Many of them are MultiDiscrete, too, where Gymnasium would make a Box of integers."""

    @batch_space.register(Heads)
    def _many(space, n=1):
        return MultiDiscrete(np.tile(space.nvec, (n, 1)), seed=deepcopy(space.np_random))
except ImportError:
    HAVE_GYMNASIUM = False

    class AutoresetMode(Enum):
        """When an episode that has ended is followed by the next one."""

        NEXT_STEP = "NextStep"
        SAME_STEP = "SameStep"
        DISABLED = "Disabled"

    class Base:
        """What gymnasium.vector.VectorEnv offers besides the functions that esper.VectorEnv has anyway."""

        metadata, spec, render_mode, closed = {}, None, None, False

        @property
        def unwrapped(self):
            return self

    class _Space:
        def __init__(self, shape, dtype):
            self.shape, self.dtype = tuple(shape), np.dtype(dtype)
            self._random = np.random.default_rng()

        def seed(self, seed=None):
            self._random = np.random.default_rng(seed)

        def __contains__(self, x):
            return self.contains(x)

    class Box(_Space):
        """Arrays of numbers between two bounds."""

        def __init__(self, low, high, shape, dtype=np.float32):
            super().__init__(shape, dtype)
            self.low, self.high = np.full(shape, low, dtype), np.full(shape, high, dtype)

        def contains(self, x):
            x = np.asarray(x)
            return x.shape == self.shape and bool(np.all(x >= self.low) and np.all(x <= self.high))

        def sample(self):
            return self._random.normal(size=self.shape).astype(self.dtype)

        def __repr__(self):
            return f"Box({self.low.flat[0]}, {self.high.flat[0]}, {self.shape}, {self.dtype})"

    class MultiDiscrete(_Space):
        """Arrays of choices, each from 0 to its number of them, exclusive."""

        def __init__(self, nvec, dtype=np.int64):
            self.nvec = np.asarray(nvec, dtype)
            super().__init__(self.nvec.shape, dtype)

        def contains(self, x):
            x = np.asarray(x)
            return x.shape == self.shape and x.dtype.kind in "iu" and bool(np.all(x >= 0) and np.all(x < self.nvec))

        def sample(self):
            return self._random.integers(self.nvec, dtype=self.dtype)

        def __repr__(self):
            return f"MultiDiscrete({self.nvec})"

    Heads = MultiDiscrete
