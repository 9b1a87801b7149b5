#include "cnn/device.cuh"

const struct host_device cnn_device = {&cnn_fp32, &cnn_bf16, cnn_bf16_fits, cnn_trial_run};
