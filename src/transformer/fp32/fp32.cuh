/* The passes in fp32: what net.cu puts together. */
#ifndef TRANSFORMER_FP32_FP32_CUH
#define TRANSFORMER_FP32_FP32_CUH

#include "transformer/fp32/net.cuh"

void fp32_learn(struct transformer_net *device, int first, int envs);
void fp32_walk(struct transformer_net *device, struct exact_pass pass);
std::vector<exact_work> fp32_work(const struct exact_view *net);

/* Once, in create. */
void fp32_allow_train(struct transformer_net *device);
void fp32_allow_walk(struct transformer_net *device);

#endif
