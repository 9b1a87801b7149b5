#include "cnn/bf16/seed_passes.cuh"

template struct seed_form<32, 4, 1>;
