/*
 * The convolution kernels, one thread, on every shape that the hosts and their conv_light seeds use.
 */
#ifndef BENCH_KERNELS_H
#define BENCH_KERNELS_H

#include "bench/hosts.h"
#include "bench/measure.h"
#include "nn/conv.h"

enum kernel_direction { KERNEL_FORWARD, KERNEL_DATA, KERNEL_WEIGHTS, KERNEL_DIRECTIONS };
enum { KERNELS_MAX = HOST_COUNT * (SHAPE_BLOCKS + SHAPE_SLOTS) };

struct kernels;

struct kernel_case {
    int kernel, cin, cout, size; /* maps are size x size */
    int images;                  /* per call */
    bool first_block;            /* of a host: its input needs no gradient, so KERNEL_DATA is not measured */
    struct conv conv;
    const struct kernels *owner;
    struct measure measure[KERNEL_DIRECTIONS]; /* images per second */
};

struct kernels {
    int count;
    struct kernel_case cases[KERNELS_MAX];
    int32_t *tables;
    real *in, *grad, *out, *packed, *sums; /* shared by all: only their addresses matter to the time */
};

/* `kernels` must stay where it is: the measures point into it. */
enum esper_status kernels_init(struct kernels *kernels, struct esper_error *error);
void kernels_free(struct kernels *kernels);

const char *kernel_direction_name(enum kernel_direction direction);
bool kernel_measured(const struct kernel_case *kernel, enum kernel_direction direction);
/* Floating-point operations per image, of any direction. */
double kernel_flops(const struct kernel_case *kernel);

#endif
