/*
 * The networks of all envs on the device: one interface, which each family implements once or, in other precisions,
 * more often.
 *
 * train, evaluate and test only enqueue work on the runtime's stream, the same kernels with the same shapes every time,
 * so a phase can be captured once and replayed. What they do depends on device memory alone.
 */
#ifndef MORPH_NET_DEVICE_CUH
#define MORPH_NET_DEVICE_CUH

#include "cuda/runtime.cuh"
#include "data/gather.cuh"

extern "C" {
#include "morph/net.h"
#include "morph/subsets.h"
}

/*
 * All that the networks are told. The CPU's get the same with each job: the shape, the arrays of the envs, the clock
 * and the splits.
 */
struct net_setup {
    struct net_shape shape;
    const struct net_shape *host_shape;              /* host memory: the whole of the family's shape */
    int envs, val_images, final_images, test_images; /* final: validation samples of an episode's last step */
    struct net_rates rates;
    bool scored_by_loss; /* what points tell, and of how many classes (struct growth) */
    int classes;
    struct gather_source source; /* the samples, their order, and the clock */

    /* device memory: the networks ... */
    float *host, *host_momentum, *stats; /* [env][layout of the shape] */
    float *seed, *seed_momentum, *gate, *gate_momentum;
    float *host_second, *seed_second, *gate_second; /* likewise, where AdamW is used; otherwise NULL */
    uint32_t *updates;                              /* [env][net_parts], likewise */
    struct slot_arrays slots;                       /* [env][slot] */

    /* ... and what the phases write */
    struct slot_exec *exec;   /* [env][slot] how the passes treat each slot */
    struct slot_grads *grads; /* [env][slot] of the step's last batch */
    double *train_loss, *train_accuracy, *val_loss, *val_accuracy, *test_accuracy; /* [env] */
    uint32_t *subset_count, *subset_all;                                           /* [env] */
    uint32_t *subset_mask;                                                         /* [env][SUBSETS_MAX] */
    double *subset_score;                                                          /* likewise: points */
};

/* The common base of all implementations; each derives its own. */
struct net_device {
    struct runtime *runtime;
    struct net_setup setup;   /* for the host to pass on */
    struct net_setup *placed; /* the same in device memory, for kernels to read */
};

enum { NET_SETS_MAX = 512 };

/* Sets of blended slots for which an env's network is measured; device memory of env 0, those of successive envs are
 * `stride` bytes apart. No set occurs twice; a count of 0 leaves the env out. */
struct net_sets {
    const int *count;
    const uint32_t *mask;
    double *score; /* points of each mask */
    size_t stride;
};
template <class T> static inline __host__ __device__ T *net_sets_of(T *first, const struct net_sets &sets, size_t env)
{
    return first + env * (sets.stride / sizeof(T));
}

/* Whose gradients have a norm: the host and, with its gate, every slot's seed. */
enum { NET_NORMS = 1 + SHAPE_SLOTS };

struct net_device_kernels {
    /* Allocates all that is ever needed. NULL: the runtime has failed, or the kernels do not fit the host. */
    struct net_device *(*create)(struct runtime *rt, const struct net_setup *setup);
    void (*free)(struct net_device *net);
    /* A step: how slots are treated, every batch, gradient statistics on the last one. Writes parameters, momentum,
     * stats, exec, grads, train_loss and train_accuracy. */
    void (*train)(struct net_device *net);
    /* So many validation samples under every subset of the blended seeds. Writes exec, subset_*, val_loss and
     * val_accuracy. */
    void (*evaluate)(struct net_device *net, int images);
    /* Likewise under other sets, the slots as they were in the last evaluate. Fills `score`. */
    void (*measure)(struct net_device *net, struct net_sets sets, int images);
    /* The test samples through the committed network. Writes exec and test_accuracy. */
    void (*test)(struct net_device *net);
};

struct net_trial;

/* The most validation samples of an evaluation. */
static inline int net_most_images(const struct net_setup *setup)
{
    return setup->final_images > setup->val_images ? setup->final_images : setup->val_images;
}

/* How a family computes on a device. */
struct host_device {
    const struct net_device_kernels *fp32; /* NULL: it does not */
    /* The bf16 kernels that know such a host, or NULL. */
    const struct net_device_kernels *(*bf16)(const struct net_shape *shape, int batch);
    /* Does `precision=auto` take them? Where nobody measured them to be faster they must be asked for. */
    bool (*bf16_pays)(const struct net_shape *shape, int batch);
    enum esper_status (*try_net)(struct net_trial *trial, struct esper_error *error);
};
#define DEVICE_DECLARED(with, NAME, name) extern const struct host_device name##_device;
FAMILIES(DEVICE_DECLARED, )

/* Bytes of device memory that a group's frames may take: what net_budget says or, where it is 0, half of what is free,
 * and no more than is useful. Tests set it. */
extern size_t net_budget;
size_t net_frame_bytes(void);

/* In create: the base's part. */
static inline void net_device_begin(struct net_device *net, struct runtime *rt, const struct net_setup *setup)
{
    net->runtime = rt;
    net->setup = *setup;
    net->placed = runtime_alloc<struct net_setup>(rt, 1);
    runtime_copy_to(rt, net->placed, &net->setup, sizeof net->setup);
    runtime_wait(rt); /* a create that fails frees the net */
}

#endif
