/* The transformer's networks on a device: fp32 takes every host; bf16 those for which
 * its kernels were made, small ones and wide ones. */
#ifndef TRANSFORMER_DEVICE_CUH
#define TRANSFORMER_DEVICE_CUH

#include "morph/net_device.cuh"

extern "C" {
#include "transformer/shape.h"
}

extern const struct net_device_kernels transformer_fp32, transformer_bf16;

bool transformer_bf16_fits(const struct net_shape *shape, int batch);

enum esper_status transformer_trial_run(struct net_trial *trial, struct esper_error *error);

#endif
