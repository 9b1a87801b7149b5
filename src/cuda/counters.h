#ifndef CUDA_COUNTERS_H
#define CUDA_COUNTERS_H

#include <stdint.h>

/* What the device was asked to do since the engine was created. */
struct device_counters {
    uint64_t launches;       /* kernels launched one by one */
    uint64_t graph_launches; /* captured phases replayed */
    uint64_t graph_nodes;    /* kernels, copies and fills inside them */
    uint64_t captures;       /* phases captured */
    uint64_t syncs;          /* times the host waited */
    uint64_t allocations;
    uint64_t copies;               /* to and from the device, outside graphs ... */
    uint64_t bytes_to, bytes_from; /* ... and their bytes */
};

/* What a captured phase consists of. */
struct device_graph {
    const char *name;                        /* the phase */
    uint32_t kernels, copies, fills, others; /* its nodes by kind */
    const char *const *kernel;               /* [kernels] how each was launched: its name, then its arguments */
};

#endif
