"""libesper.so through ctypes: where it is, what its functions take, and what all handles have in common."""
import ctypes
import functools
import os
import threading
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from pathlib import Path

import numpy as np

ABI = 1
HEADS, OPS, COMPONENTS = 8, 6, 19

# ---- what goes wrong -------------------------------------------------------------------------------------------------


class Error(RuntimeError):
    """What the library says in one line; `status` is its number in esper.h."""

    status = 1


class Invalid(Error, ValueError):
    """The caller's input is wrong: a key, a value, an action, a file."""

    status = 2


class Unsupported(Error):
    """This build or this machine lacks what is needed."""

    status = 3


_KINDS = {kind.status: kind for kind in (Invalid, Unsupported)}


class _ErrorText(ctypes.Structure):
    _fields_ = [("status", c_int), ("text", c_char * 512)]


# ---- structs of esper.h ----------------------------------------------------------------------------------------------


class EnvInfo(ctypes.Structure):
    _fields_ = [(name, c_uint32) for name in ("envs", "steps", "features", "slots", "choices")]
    _fields_ += [("head_size", c_uint32 * HEADS)]


class NetworkInfo(ctypes.Structure):
    _fields_ = [(name, c_uint32) for name in ("text", "size", "bytes", "targets", "classes")]
    _fields_ += [("source", c_char * 512)]


# Arrays of structs are numpy's: columns of them are views, and nothing is copied.
STEP = np.dtype([("reward", "f8"), ("component", "f8", COMPONENTS), ("train_loss", "f8"), ("train_score", "f8"),
                 ("val_loss", "f8"), ("val_score", "f8"), ("result", "i4"), ("ended", "i4")])
OUTCOME = np.dtype([(name, "f8") for name in ("val_score", "test_score", "val_loss", "twin_score", "gain", "reward",
                                              "stability", "forward_macs", "train_work")]
                   + [("host_params", "i8"), ("added_params", "i8")]
                   + [(name, "u4") for name in ("episode", "env", "germinated", "pruned", "rollbacks", "fossilized",
                                                "live", "success")])


class _Abi(ctypes.Structure):
    _fields_ = [(name, c_uint32) for name in ("abi", "error", "env_info", "step", "outcome", "network_info")]


# ---- the library -----------------------------------------------------------------------------------------------------

_HANDLE, _OUT, _ERROR, _ARRAY = c_void_p, POINTER(c_void_p), POINTER(_ErrorText), c_void_p
_TEXTS = POINTER(c_char_p)
_CALLS = {  # name: arguments; all return a status
    "esper_abi_check": [POINTER(_Abi), _ERROR],
    "esper_env_open": [_OUT, c_char_p, _TEXTS, c_size_t, _ERROR],
    "esper_env_open_run": [_OUT, c_char_p, _TEXTS, c_size_t, _ERROR],
    "esper_env_resume": [_OUT, c_char_p, _ERROR],
    "esper_env_close": [_OUT],
    "esper_env_describe": [_HANDLE, POINTER(EnvInfo), _ERROR],
    "esper_env_reset": [_HANDLE, _ERROR],
    "esper_env_reset_to": [_HANDLE, c_uint32, _ERROR],
    "esper_env_observe": [_HANDLE, _ARRAY, c_size_t, _ERROR],
    "esper_env_blueprints": [_HANDLE, _ARRAY, c_size_t, _ERROR],
    "esper_env_masks": [_HANDLE, _ARRAY, c_size_t, _ARRAY, c_size_t, _ERROR],
    "esper_env_allowed": [_HANDLE, _ARRAY, c_size_t, _ARRAY, c_size_t, _ERROR],
    "esper_env_step": [_HANDLE, _ARRAY, c_size_t, _ARRAY, c_size_t, _ERROR],
    "esper_env_outcomes": [_HANDLE, _ARRAY, c_size_t, _ERROR],
    "esper_env_save": [_HANDLE, c_char_p, _ERROR],
    "esper_policy_open": [_OUT, c_char_p, _ERROR],
    "esper_policy_close": [_OUT],
    "esper_policy_act": [_HANDLE, _HANDLE, c_int, _ARRAY, c_size_t, _ERROR],
    "esper_network_open": [_OUT, c_char_p, _ERROR],
    "esper_network_close": [_OUT],
    "esper_network_describe": [_HANDLE, POINTER(NetworkInfo), _ERROR],
    "esper_network_infer": [_HANDLE, _ARRAY, c_size_t, _ARRAY, c_size_t, _ERROR],
    "esper_run_open": [_OUT, c_char_p, _ERROR],
    "esper_run_close": [_OUT],
    "esper_run_ask": [_HANDLE, c_char_p, POINTER(c_size_t), POINTER(c_uint32), _ERROR],
    "esper_run_integers": [_HANDLE, c_uint32, _ARRAY, c_size_t, _ERROR],
    "esper_run_reals": [_HANDLE, c_uint32, _ARRAY, c_size_t, _ERROR],
    "esper_run_texts": [_HANDLE, c_uint32, _TEXTS, c_size_t, _ERROR],
    "esper_run_column_kind": [_HANDLE, c_uint32],
    "esper_op_uses": [c_uint32, c_uint32],
}
_NAMES = {  # those that return a text
    "esper_version": [],
    "esper_head_name": [c_uint32],
    "esper_op_name": [c_uint32],
    "esper_component_name": [c_uint32],
    "esper_env_slot_name": [_HANDLE, c_uint32],
    "esper_env_blueprint_name": [_HANDLE, c_uint32],
    "esper_run_path": [_HANDLE],
    "esper_run_help": [c_char_p, c_char_p],
    "esper_run_column_name": [_HANDLE, c_uint32],
}


def _places():
    """Where the library may be: as the user says, in the package, in the tree that was built, where the loader looks."""
    here = Path(__file__).resolve().parent
    if os.environ.get("ESPER_LIBRARY"):
        return [os.environ["ESPER_LIBRARY"]]
    found = [str(path) for path in (here / "libesper.so", here.parents[1] / "build" / "libesper.so") if path.exists()]
    return found or [f"libesper.so.{ABI}"]


def _load():
    path = _places()[0]
    try:
        loaded = ctypes.CDLL(path)
    except OSError as problem:
        raise ImportError(f"{problem}; build libesper.so with: make, or say where it is: ESPER_LIBRARY=FILE") from None
    for names, result in ((_CALLS, c_int), (_NAMES, c_char_p)):
        for name, arguments in names.items():
            try:
                function = getattr(loaded, name)
            except AttributeError:
                raise ImportError(f"{path}: is older than this package: it has no {name}") from None
            function.argtypes, function.restype = arguments, result
    here = _Abi(ABI, ctypes.sizeof(_ErrorText), ctypes.sizeof(EnvInfo), STEP.itemsize, OUTCOME.itemsize,
                ctypes.sizeof(NetworkInfo))
    error = _ErrorText()
    if loaded.esper_abi_check(byref(here), byref(error)):
        raise ImportError(f"{path}: {error.text.decode()}")
    return loaded


lib = _load()


def text(name, *arguments):
    """What a function that returns a name says; None where there is none."""
    said = getattr(lib, name)(*arguments)
    return None if said is None else said.decode(errors="replace")


def path_bytes(path):
    given = os.fsencode(os.fspath(path))
    if b"\0" in given:
        raise Invalid(f"{path!r}: a path has no zero byte")
    return given


# ---- handles ---------------------------------------------------------------------------------------------------------


def address(array):
    return array.__array_interface__["data"][0]


def exclusive(method):
    """A method that has the handle for itself: it is several calls of the library, and one step for its caller."""

    @functools.wraps(method)
    def alone(self, *arguments, **named):
        self._enter()
        try:
            return method(self, *arguments, **named)
        finally:
            self._busy.release()

    return alone


class Handle:
    """One of the library's handles. It serves one call at a time, in the process that opened it."""

    _close = None  # name of the function that closes it

    def __init__(self):
        self._pointer = c_void_p()
        self._error = _ErrorText()
        self._error_ref = byref(self._error)
        self._busy = threading.Lock()
        self._process = os.getpid()

    def _raise(self, status):
        raise _KINDS.get(status, Error)(self._error.text.decode(errors="replace"))

    def _open(self, name, *arguments):
        status = getattr(lib, name)(byref(self._pointer), *arguments, self._error_ref)
        if status:
            self._raise(status)

    def _enter(self):
        if not self._busy.acquire(blocking=False):
            raise Invalid(f"{type(self).__name__}: is in use on another thread; it serves one at a time")
        if not self._pointer or self._process != os.getpid():
            self._busy.release()
            raise Invalid(f"{type(self).__name__}: is closed" if not self._pointer else
                          f"{type(self).__name__}: belongs to the process that opened it; open another one here")

    def _call(self, function, *arguments):
        """A function that takes this handle first and an error last; within what is `exclusive`."""
        status = function(self._pointer, *arguments, self._error_ref)
        if status:
            self._raise(status)

    def close(self, **ignored):
        """Release it; twice is harmless. Refused while another thread uses it."""
        if not self._pointer:
            return
        if self._process != os.getpid():  # a child has the memory, but none of the threads
            self._pointer = c_void_p()
            return
        if not self._busy.acquire(blocking=False):
            raise Invalid(f"{type(self).__name__}: is in use on another thread; it is not closed")
        try:
            getattr(lib, self._close)(byref(self._pointer))
        finally:
            self._busy.release()

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.close()

    def __del__(self):
        if getattr(self, "_pointer", None) and lib is not None:
            try:
                self.close()
            except Error:
                pass
