/* The CNN's networks on a device: fp32 takes every host and is the reference for the others; bf16 is made for hosts of
 * one form, planes is bf16 for the rest. */
#ifndef CNN_DEVICE_CUH
#define CNN_DEVICE_CUH

#include "morph/net_device.cuh"

extern "C" {
#include "cnn/shape.h"
}

extern const struct net_device_kernels cnn_fp32, cnn_bf16, cnn_planes;

bool cnn_bf16_fits(const struct net_shape *shape, int batch);
bool cnn_planes_fit(const struct net_shape *shape, int batch); /* maps that shared memory has room for */
/* The faster of those that fit; NULL: neither. */
const struct net_device_kernels *cnn_bf16_for(const struct net_shape *shape, int batch);
enum esper_status cnn_trial_run(struct net_trial *trial, struct esper_error *error);

#endif
