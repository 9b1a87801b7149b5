#include "transformer/fp32/walk.cuh"

#include "transformer/fp32/fp32.cuh"

void fp32_walk(struct transformer_net *device, struct exact_pass pass)
{
    enqueue_walk<exact>(device, pass, 0, device->setup.envs);
}

void fp32_allow_walk(struct transformer_net *device)
{
    allow_walk<exact>(device);
}
