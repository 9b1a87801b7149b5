#include "host/device.cuh"

#include "cnn/device.cuh"

const struct host_device host_devices[FAMILY_COUNT] = {
    {&cnn_fp32, &cnn_bf16, cnn_bf16_fits, cnn_trial_run},
};
