/*
 * All that struct seed_form needs. Every form of slots is a file of its own, seed_{channels}x{size}.cu: one takes the
 * compiler a minute or two, so they are compiled side by side.
 */
#ifndef CNN_BF16_SEED_PASSES_CUH
#define CNN_BF16_SEED_PASSES_CUH

#include "cnn/bf16/seed_backward.cuh"
#include "cnn/bf16/seed_forward.cuh"
#include "cnn/bf16/seed_leaf.cuh"

#endif
