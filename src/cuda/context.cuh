/* What the parts of the device backend share. */
#ifndef CUDA_CONTEXT_CUH
#define CUDA_CONTEXT_CUH

#include "cuda/runtime.cuh"

extern "C" {
#include "data/gather.h"
#include "engine/world.h"
}

/* The images on the device: u8 NHWC, with 16 readable bytes after the last. */
struct device_data {
    const uint8_t *images[SPLIT_COUNT], *labels[SPLIT_COUNT];
    uint32_t count[SPLIT_COUNT];
    int size;
};

struct context {
    struct runtime *runtime;
    const struct world *host; /* shape, configuration, sizes; its arrays are stale while the device runs */
    struct world view;        /* the same with device addresses, for the host to pass on */
    struct world *world;      /* that struct in device memory, for kernels to read */
    struct device_data data;
    struct gather_table normalise;
    uint32_t batches; /* of a step */
    struct net_rates rates;
    struct gate_rules gates;
    const struct action *script;      /* the host's, [step][env]; NULL where the policy is not a script */
    const struct schedule *schedules; /* the host's, [schedule_count]; NULL where the policy is not a schedule */
    int schedule_count;
    bool exact; /* fp32 everywhere */

    /* device memory; what one phase leaves for the next */
    struct slot_grads *grads; /* [env][slot] of the step's last batch */
    struct slot_exec *exec;   /* [env][slot] how the step's passes treat each slot */
    double *test_accuracy;    /* [env] */
};

#endif
