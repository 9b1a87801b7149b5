"""A grown network that `esper export` wrote."""
from ctypes import byref

import numpy as np

from . import library
from .library import Handle, Invalid, address, exclusive, lib, path_bytes


class Network(Handle):
    """A safetensors or ONNX file that `esper export` wrote, or a run, whose best network it is then.

    text    whether it reads text       source  where it comes from, in one line
    shape   of a sample: bytes          classes of an answer
    """

    _close = "esper_network_close"

    def __init__(self, source):
        Handle.__init__(self)
        self._open("esper_network_open", path_bytes(source))
        info = library.NetworkInfo()
        self._call(lib.esper_network_describe, byref(info))
        self.text, self.classes, self.targets = bool(info.text), info.classes, info.targets
        self.shape = (info.bytes,) if info.text else (info.size, info.size, 3)
        self.source = info.source.decode(errors="replace")

    @exclusive
    def infer(self, samples):
        """Logits of samples uint8 [n][shape]: float32 [n][classes] of images, [n][places][classes] of text."""
        given = np.asarray(samples)
        if given.dtype != np.uint8 or given.ndim == 0 or given.shape[1:] != self.shape:
            raise Invalid(f"samples: {given.dtype} {given.shape}; uint8 (n, {', '.join(map(str, self.shape))}) is needed")
        given = np.ascontiguousarray(given)
        logits = np.empty((len(given), self.targets, self.classes), np.float32)
        if len(given):
            self._call(lib.esper_network_infer, address(given), given.size, address(logits), logits.size)
        return logits if self.text else logits[:, 0]
