/* The CNN's networks on a device: fp32 takes every host and is the reference for the other; bf16 takes the hosts that
 * its tensor-core kernels fit. */
#ifndef CNN_DEVICE_CUH
#define CNN_DEVICE_CUH

#include "morph/net_device.cuh"

extern "C" {
#include "cnn/shape.h"
}

extern const struct net_device_kernels cnn_fp32, cnn_bf16;

bool cnn_bf16_fits(const struct net_shape *shape, int batch);
enum esper_status cnn_trial_run(struct net_trial *trial, struct esper_error *error);

#endif
