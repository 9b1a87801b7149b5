"""A policy that `esper train` learned."""
import numpy as np

from .library import HEADS, Handle, address, exclusive, lib, path_bytes
from .spaces import AutoresetMode


class Policy(Handle):
    """A policy of a run (its directory, or its name under runs/) or of a file, which `esper export --policy` writes."""

    _close = "esper_policy_close"

    def __init__(self, source):
        Handle.__init__(self)
        self._open("esper_policy_open", path_bytes(source))

    @exclusive
    def act(self, env, greedy=False):
        """Actions [envs][heads] for all envs, ready for env.step(). Sampled, the draws are those of `esper eval`."""
        env = env.unwrapped
        actions = np.zeros((env.num_envs, HEADS), np.uint8)
        if env._over and env._mode == AutoresetMode.NEXT_STEP:  # the step that follows takes no action
            return actions.astype(np.int64)
        env._enter()
        try:
            self._call(lib.esper_policy_act, env._pointer, int(greedy), address(actions), actions.size)
        finally:
            env._busy.release()
        return actions.astype(np.int64)
