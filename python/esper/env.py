"""A task of Esper as a vector environment, in the manner of Gymnasium 1.x."""
import operator
from ctypes import byref, c_char_p, c_void_p

import numpy as np

from . import library
from .library import COMPONENTS, HEADS, OPS, OUTCOME, STEP, Error, Handle, Invalid, address, exclusive, lib, path_bytes, text
from .spaces import AutoresetMode, HAVE_GYMNASIUM, Base, Box, Heads, MultiDiscrete

HEAD_NAMES = tuple(text("esper_head_name", i) for i in range(HEADS))
OP_NAMES = tuple(text("esper_op_name", i) for i in range(OPS))
COMPONENT_NAMES = tuple(text("esper_component_name", i) for i in range(COMPONENTS))
RESULT_NAMES = ("done", "refused", "void", "rolled_back")
# [ops][heads]: whether a head matters to an op; what is chosen in the others is ignored.
OP_USES_HEAD = np.array([[bool(lib.esper_op_uses(op, head)) for head in range(HEADS)] for op in range(OPS)])

_TOLD = ("result", "train_loss", "train_score", "val_loss", "val_score")  # of a step, in info


def _setting(key, value):
    """As `esper train --set` takes it."""
    if isinstance(value, (bool, np.bool_)):
        value = "true" if value else "false"
    elif isinstance(value, (list, tuple)):
        value = ",".join(str(item) for item in value)
    elif isinstance(value, (float, np.floating)):
        value = repr(float(value))
    assignment = f"{key}={value}".encode()
    if b"\0" in assignment:
        raise Invalid(f"{key}: a setting has no zero byte")
    return assignment


def _mode(given):
    if isinstance(given, AutoresetMode):
        return given
    for mode in AutoresetMode:
        if given in (mode.value, mode.name):
            return mode
    raise Invalid(f"autoreset_mode = {given!r}: it is one of {', '.join(repr(mode.value) for mode in AutoresetMode)}")


class VectorEnv(Handle, Base):
    """Many hosts that learn side by side, each waiting to be told how to grow; an episode ends in all of them at once.

    task      name of a task, or the path of its file; or run=RUN: the episodes that `esper eval RUN` plays
    num_envs  how many hosts (the task's own number)
    seed      of every random number (the task's own)
    settings  any other keys, as `esper config` lists them: {"steps": 20, "reward.mode": "sparse"}
    autoreset_mode  "NextStep": the step after the last one begins the next episode, whatever its actions;
              "SameStep": the last step does, and tells the end in info["final_obs"] and info["final_info"];
              "Disabled": reset() does
    illegal   what becomes of an action that the masks do not allow: "raise" an error, or "wait" instead
    copy      False: observations and masks are always the same arrays, which the next step overwrites
    """

    _close = "esper_env_close"

    def __init__(self, task=None, num_envs=None, *, run=None, seed=None, settings=None, autoreset_mode="NextStep",
                 illegal="raise", copy=True):
        Handle.__init__(self)
        if task is not None and run is not None:
            raise Invalid("task and run: a run has its own task; leave out one of the two")
        self._source = ("esper_env_open_run", path_bytes(run)) if run is not None else (
            "esper_env_open", path_bytes("quickstart" if task is None else task))
        self._settings = dict(settings or {})
        self._settings.update({} if num_envs is None else {"envs": operator.index(num_envs)})
        self._settings.update({} if seed is None else {"seed": operator.index(seed)})
        self._begin(_mode(autoreset_mode), illegal, copy)

    @classmethod
    def resume(cls, path, *, autoreset_mode="NextStep", illegal="raise", copy=True):
        """From where save_next() left off, to the same bits. Go on with observe(), or reset() for the next episode."""
        env = cls.__new__(cls)
        Handle.__init__(env)
        env._source = ("esper_env_resume", path_bytes(path))
        env._settings = None
        env._begin(_mode(autoreset_mode), illegal, copy)
        return env

    def _begin(self, mode, illegal, copy):
        if illegal not in ("raise", "wait"):
            raise Invalid(f"illegal = {illegal!r}: it is 'raise' or 'wait'")
        self.metadata = {"autoreset_mode": mode}
        self._mode, self._wait, self._copy = mode, illegal == "wait", copy
        self._save_path = None
        self._over = False  # the episode has ended
        self._outcomes = None
        self._handle_open()
        info = library.EnvInfo()
        self._call(lib.esper_env_describe, byref(info))
        self.num_envs, self.steps, self.features = info.envs, info.steps, info.features
        self.head_sizes = tuple(info.head_size)
        self.slots = tuple(text("esper_env_slot_name", self._pointer, i) for i in range(info.slots))
        self.blueprints = tuple(text("esper_env_blueprint_name", self._pointer, i)
                                for i in range(info.head_size[HEAD_NAMES.index("blueprint")]))
        self.single_observation_space = Box(-np.inf, np.inf, (self.features,), np.float32)
        self.single_action_space = Heads(np.array(self.head_sizes))
        self.observation_space = Box(-np.inf, np.inf, (self.num_envs, self.features), np.float32)
        self.action_space = MultiDiscrete(np.tile(np.array(self.head_sizes), (self.num_envs, 1)))
        self._actions = np.zeros((self.num_envs, HEADS), np.uint8)
        self._allowed = np.zeros(self.num_envs, np.uint8)
        self._all = np.ones(self.num_envs, bool)
        self._all.flags.writeable = False
        self._fresh()
        self._mask[:], self._slot_by_op[:] = 0, 0  # nothing may be done yet

    def _handle_open(self):
        name, source = self._source
        if self._settings is None:
            self._open(name, source)
            return
        sets = [_setting(key, value) for key, value in self._settings.items()]
        self._open(name, source, (c_char_p * len(sets))(*sets), len(sets))

    def _fresh(self):
        """Arrays for the library to write to: those that the caller will see."""
        envs = self.num_envs
        self._seen = np.empty((envs, self.features), np.float32)
        self._mask = np.empty((envs, sum(self.head_sizes)), np.int8)
        self._slot_by_op = np.empty((envs, OPS, len(self.slots)), np.int8)
        self._grown = np.empty((envs, len(self.slots)), np.int8)
        self._places = tuple(address(array) for array in (self._seen, self._mask, self._slot_by_op, self._grown))

    def _look(self):
        """The hosts learn for a step and are measured."""
        if self._copy:
            self._fresh()
        seen, mask, slots, grown = self._places
        self._call(lib.esper_env_observe, seen, self._seen.size)
        self._call(lib.esper_env_masks, mask, self._mask.size, slots, self._slot_by_op.size)
        self._call(lib.esper_env_blueprints, grown, self._grown.size)

    def _look_back(self):
        """After the last step: what there was to see before it, again, in arrays of its own. There are no new masks."""
        mask, slot_by_op = self._mask, self._slot_by_op
        if self._copy:
            self._fresh()
            self._mask[:], self._slot_by_op[:] = mask, slot_by_op
        self._call(lib.esper_env_observe, self._places[0], self._seen.size)
        self._call(lib.esper_env_blueprints, self._places[3], self._grown.size)

    def _masks(self):
        return {"action_mask": self._mask, "_action_mask": self._all, "slot_by_op": self._slot_by_op,
                "_slot_by_op": self._all, "blueprints": self._grown, "_blueprints": self._all}

    # ---- Gymnasium's functions ---------------------------------------------------------------------------------------

    @exclusive
    def reset(self, *, seed=None, options=None):
        """Begin the next episode; with a seed, the first one of that seed; options={"episode": n}: that one, from 0."""
        options = dict(options or {})
        episode = options.pop("episode", None)
        mask = options.pop("reset_mask", None)
        if options:
            raise Invalid(f"options: {', '.join(options)}: there are episode and reset_mask")
        if mask is not None and not np.all(mask):
            raise Invalid("options['reset_mask']: all envs begin and end together, so all of it is True")
        if seed is not None:
            self._seed_with(seed)
            episode = 0 if episode is None else episode
        self._begin_episode(episode)
        self._look()
        return self._seen, self._masks()

    def _seed_with(self, seed):
        if not isinstance(seed, (int, np.integer)):
            raise Invalid(f"seed = {seed!r}: one number serves all envs")
        if seed < 0:
            raise Invalid(f"seed = {seed}: seeds are counted from 0")
        if HAVE_GYMNASIUM:
            Base.reset(self, seed=int(seed))
        if self._settings is None:
            raise Invalid("seed: an environment that was resumed keeps its own")
        if self._settings.get("seed") != int(seed):
            before, had = self._pointer, self._settings
            self._pointer, self._settings = c_void_p(), dict(had, seed=int(seed))
            try:
                self._handle_open()
            except Error:
                self._pointer, self._settings = before, had
                raise
            lib.esper_env_close(byref(before))

    def _begin_episode(self, episode=None):
        if episode is None:
            self._call(lib.esper_env_reset)
        else:
            if not isinstance(episode, (int, np.integer)) or not 0 <= episode < 1 << 32:
                raise Invalid(f"episode = {episode!r}: they are numbered from 0")
            self._call(lib.esper_env_reset_to, int(episode))
        self._over = False
        self._save_if_asked()

    @exclusive
    def step(self, actions):
        """Take a step with actions [envs][heads]; the hosts then learn up to the next decision."""
        if self._over and self._mode == AutoresetMode.NEXT_STEP:
            self._begin_episode()
            self._look()
            envs = self.num_envs
            return self._seen, np.zeros(envs), np.zeros(envs, bool), np.zeros(envs, bool), self._masks()
        self._take(actions)
        steps = np.empty(self.num_envs, STEP)
        self._call(lib.esper_env_step, address(self._actions), self._actions.size, address(steps), steps.size)
        self._over = bool(steps["ended"][0])
        if self._over:
            self._outcomes = np.empty(self.num_envs, OUTCOME)
            self._call(lib.esper_env_outcomes, address(self._outcomes), self._outcomes.size)
            self._look_back()
            info = self._told(steps)
            if self._mode == AutoresetMode.SAME_STEP:
                info = self._next_at_once(info)
        else:
            self._save_if_asked()
            self._look()
            info = self._told(steps)
        ended = np.full(self.num_envs, bool(steps["ended"][0]))
        return self._seen, steps["reward"], ended, np.zeros(self.num_envs, bool), info

    def close(self, **ignored):
        """Release the environment; twice is harmless."""
        Handle.close(self)
        self.closed = True

    def render(self):
        raise NotImplementedError("there is nothing to render; watch runs with: esper tui, esper serve")

    # ---- what a step is made of --------------------------------------------------------------------------------------

    def _take(self, actions):
        given = np.asarray(actions)
        if given.shape != self._actions.shape or given.dtype.kind not in "iu":
            raise Invalid(f"actions: {given.dtype} {given.shape}; integers {self._actions.shape} are needed, a choice "
                          f"per head: {', '.join(HEAD_NAMES)}")
        if given.dtype != np.uint8 and (given.min() < 0 or given.max() > 255):
            raise Invalid(f"actions: {given.min()} to {given.max()}: choices are counted from 0")
        self._actions[:] = given
        if self._wait:
            self._call(lib.esper_env_allowed, address(self._actions), self._actions.size, address(self._allowed),
                       self._allowed.size)
            self._actions[self._allowed == 0] = 0

    def _told(self, steps):
        """What a step came to. At the end the masks are the last ones again: nothing is to be decided."""
        info = self._masks()
        for name in _TOLD:
            info[name] = steps[name]
            info["_" + name] = self._all
        info["components"], info["_components"] = steps["component"], self._all
        if self._over:
            info["outcome"] = {name: self._outcomes[name] for name in OUTCOME.names}
            info["_outcome"] = self._all
        return info

    def _next_at_once(self, last):
        """The next episode begins in the step that ended this one."""
        final = np.empty(self.num_envs, object)
        for env, seen in enumerate(self._seen.copy()):
            final[env] = seen
        if not self._copy:
            last.update({name: last[name].copy() for name in ("action_mask", "slot_by_op", "blueprints")})
        self._begin_episode()
        self._look()
        return dict(self._masks(), final_obs=final, _final_obs=self._all, final_info=last, _final_info=self._all)

    def _save_if_asked(self):
        if self._save_path is not None:
            path, self._save_path = self._save_path, None
            self._call(lib.esper_env_save, path)

    # ---- more than Gymnasium asks for --------------------------------------------------------------------------------

    @exclusive
    def observe(self):
        """The observations and masks of the decision that is due, without a step: after resume(), for example."""
        (self._look_back if self._over else self._look)()
        return self._seen, self._masks()

    @property
    def outcomes(self):
        """What the last episode that ended came to, an element per env with fields by name; None before that."""
        return self._outcomes

    def save_next(self, path):
        """Write a checkpoint at the next reset, or step that does not end the episode: before the hosts learn on."""
        self._save_path = path_bytes(path)

    def sample_actions(self, rng=None):
        """Actions at random that the masks allow, [envs][heads]."""
        rng = rng or np.random.default_rng()
        keys = rng.random(self._mask.shape)
        keys[self._mask == 0] = -1
        bounds = np.cumsum((0,) + self.head_sizes)
        actions = np.stack([keys[:, first:last].argmax(1) for first, last in zip(bounds, bounds[1:])], 1)
        ops = self._slot_by_op[np.arange(self.num_envs), actions[:, HEAD_NAMES.index("op")]]
        keys = rng.random(ops.shape)
        keys[ops == 0] = -1
        actions[:, HEAD_NAMES.index("slot")] = keys.argmax(1)
        return actions

    def __repr__(self):
        return f"esper.VectorEnv({self._source[1].decode(errors='replace')}, num_envs={self.num_envs})"

    __str__ = __repr__


if HAVE_GYMNASIUM:
    import gymnasium

    if "Esper-v0" not in gymnasium.registry:
        gymnasium.register(id="Esper-v0", vector_entry_point="esper:VectorEnv")
