/*
 * The networks of all envs on the device: one interface, two implementations. net_fp32 takes every host and is the
 * reference for the other; net_bf16 takes the hosts that its tensor-core kernels fit.
 *
 * train, evaluate and test only enqueue work on the context's stream, the same kernels with the same shapes every time,
 * so a phase can be captured once and replayed. What they do depends on device memory alone.
 */
#ifndef MORPH_NET_DEVICE_H
#define MORPH_NET_DEVICE_H

#ifdef __cplusplus
extern "C" {
#endif

#include "morph/shape.h"

struct context;

/* The common base of all implementations; each derives its own. */
struct net_device {
    struct context *context;
};

enum { NET_SETS_MAX = 512 };

/* Sets of blended slots for which an env's network is measured; device memory of env 0, those of successive envs are
 * `stride` words apart. No set occurs twice; a count of 0 leaves the env out. */
struct net_sets {
    const int *count;
    const uint32_t *mask;
    uint32_t *correct; /* of each mask; starts at 0 */
    size_t stride;
};

struct net_device_kernels {
    /* Allocates all that is ever needed. NULL: the runtime has failed, or (net_bf16) the host does not fit. */
    struct net_device *(*create)(struct context *context);
    void (*free)(struct net_device *net);
    /* A step: how slots are treated, every batch, gradient statistics on the last one. Writes the world's train_loss,
     * train_accuracy, parameters, momentum and running statistics, and the context's exec and grads. */
    void (*train)(struct net_device *net);
    /* The validation images under every subset of the blended seeds. Writes the world's subset_*, val_loss and
     * val_accuracy. */
    void (*evaluate)(struct net_device *net);
    /* The validation images under other sets, the slots as they were in the last evaluate. Fills `correct`. */
    void (*measure)(struct net_device *net, struct net_sets sets);
    /* The test images through the whole network. Writes the context's test_accuracy. */
    void (*test)(struct net_device *net);
};

extern const struct net_device_kernels net_fp32, net_bf16;

bool net_bf16_fits(const struct net_shape *shape, int batch);

#ifdef __cplusplus
}
#endif

#endif
