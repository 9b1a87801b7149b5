#include "cuda/runtime.cuh"

#include "morph/net_device.cuh"

size_t net_budget = 0;

size_t net_frame_bytes(void)
{
    const size_t most = (size_t)40 << 30;
    size_t available = most, total = 0;
    if (net_budget)
        return net_budget;
#ifndef EMULATE
    if (cudaMemGetInfo(&available, &total) != cudaSuccess)
        return most;
#endif
    (void)total;
    return available / 2 < most ? available / 2 : most;
}
