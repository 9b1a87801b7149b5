/* The hosts that are measured: those of the shipped tasks, and one that is wide enough to compare kernels on. */
#ifndef BENCH_HOSTS_H
#define BENCH_HOSTS_H

#include "cnn/shape.h"
#include "morph/slot.h"

#define WIDE_HOST "host_32_64_128" /* performance.md's measure of convolutions; not a task */

enum { HOST_COUNT = 12 };

struct bench_host {
    struct config config;
    struct cnn_shape shape; /* points into config: a host must stay where it is */
};

const char *host_name(int index); /* 0 .. HOST_COUNT - 1 */
enum esper_status host_load(struct bench_host *host, const char *name, struct esper_error *error);

/* How a slot is run: empty, or with conv_light blended half in, which is what a grown network costs. */
struct slot_exec host_slot_exec(bool grown);

/* Floating-point operations of a training step per image, each multiply-accumulate two. */
double host_train_flops(const struct cnn_shape *shape, bool grown);

#endif
