#include "cnn/device.cuh"

const struct net_device_kernels *cnn_bf16_for(const struct net_shape *shape, int batch)
{
    return cnn_bf16_fits(shape, batch) ? &cnn_bf16 : cnn_planes_fit(shape, batch) ? &cnn_planes : nullptr;
}

/* cnn_planes stores channels by the eight: a host that begins with one is no faster than in fp32, and smaller images
 * than these have not been timed. */
static bool bf16_pays(const struct net_shape *shape, int batch)
{
    const struct block_shape *first = &cnn_shape_of(shape)->block[0];
    return cnn_bf16_fits(shape, batch) || (first->cout > 1 && first->height >= 32);
}

const struct host_device cnn_device = {&cnn_fp32, cnn_bf16_for, bf16_pays, cnn_trial_run};
