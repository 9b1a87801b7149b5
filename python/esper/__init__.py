"""Esper trains networks that grow. This package plays its environments, lets its policies act and its networks infer,
and reads the records of its runs, through libesper.so.

    env = esper.VectorEnv("quickstart", num_envs=8)      a Gymnasium vector environment, with Gymnasium or without
    policy = esper.Policy("runs/first")                  what `esper train` learned: policy.act(env)
    network = esper.Network("grown.onnx")                what `esper export` wrote: network.infer(images)
    run = esper.Run("runs/first")                        the record as numpy columns: run["round"]["reward_mean"]
"""
from .env import COMPONENT_NAMES, HEAD_NAMES, OP_NAMES, OP_USES_HEAD, RESULT_NAMES, VectorEnv
from .library import Error, Invalid, Unsupported, text
from .network import Network
from .policy import Policy
from .run import Run

__version__ = text("esper_version").split()[0]
__all__ = ["COMPONENT_NAMES", "Error", "HEAD_NAMES", "Invalid", "Network", "OP_NAMES", "OP_USES_HEAD", "Policy",
           "RESULT_NAMES", "Run", "Unsupported", "VectorEnv", "__version__"]
