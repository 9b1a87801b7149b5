#include "cnn/device.cuh"

const struct net_device_kernels *cnn_bf16_for(const struct net_shape *shape, int batch)
{
    return cnn_bf16_fits(shape, batch) ? &cnn_bf16 : cnn_planes_fit(shape, batch) ? &cnn_planes : nullptr;
}

/* What `precision=auto` takes in bf16: cnn_planes has run on the emulated device alone. */
static bool bf16_tried(const struct net_shape *shape, int batch)
{
    return cnn_bf16_for(shape, batch) == &cnn_bf16;
}

const struct host_device cnn_device = {&cnn_fp32, cnn_bf16_for, bf16_tried, cnn_trial_run};
