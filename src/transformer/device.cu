#include "morph/net_device.cuh"

/* No kernels: transformers are computed on the CPU alone. */
const struct host_device transformer_device = {nullptr, nullptr, nullptr, nullptr};
