#include "transformer/device.cuh"

const struct host_device transformer_device = {&transformer_fp32, &transformer_bf16, transformer_bf16_fits,
                                               transformer_trial_run};
