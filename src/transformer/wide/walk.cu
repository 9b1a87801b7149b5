#include "transformer/fp32/walk.cuh"

#include "transformer/wide/wide.cuh"

void wide_walk(struct transformer_net *device, struct exact_pass pass)
{
    const int all = device->setup.envs;
    for (int first = 0; first < all; first += device->view.group) {
        const int envs = all - first < device->view.group ? all - first : device->view.group;
        wide_round(device, first, envs);
        enqueue_walk<walked>(device, pass, first, envs);
    }
}

void wide_allow_walk(struct transformer_net *device)
{
    allow_walk<walked>(device);
}
