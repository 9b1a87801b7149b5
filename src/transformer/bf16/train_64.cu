#include "cuda/runtime.cuh"

#include "transformer/bf16/train.cuh"

SMALL_TRAIN(64)
