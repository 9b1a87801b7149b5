/*
 * One growing network as the kernels see it: forward, backward and update of a host with its seeds, and evaluation
 * under many settings of alpha. Compiled once per variant; the rest of the program reaches it through struct variant.
 *
 * A `struct net` is a workspace: geometry, packed weights, activations and gradients for one batch, all laid out in one
 * piece of memory. It belongs to a thread, not to an env; parameters and statistics belong to the env and come with
 * each job.
 */
#ifndef MORPH_NET_H
#define MORPH_NET_H

#include "morph/gradient.h"
#include "morph/shape.h"
#include "morph/slot.h"
#include "nn/flat.h"
#include "nn/real.h"

struct net;

/* The arrays of one env that make up a network. Layouts are the shape's. */
struct net_params {
    real *host, *stats; /* parameters, running statistics */
    real *seed, *gate;  /* slot pools; empty slots are never read (I-30) */
};

struct net_batch {
    int images; /* at most the batch the net was made for; pixels are in net_input_of(), labels here */
    const uint8_t *labels;
    const struct slot_exec *exec; /* [slots] */
};

struct net_result {
    double loss; /* summed over images */
    uint32_t correct;
    double host_norm;              /* L2 norm of the host's gradient before clipping */
    double slot_norm[SHAPE_SLOTS]; /* likewise of seed and gate together */
    struct slot_grads grads[SHAPE_SLOTS];
};

struct net_rates {
    struct sgd host, seed;
    double max_grad_norm;
};

/* The rates of an env whose conditions multiply the learning rates. */
static inline struct net_rates net_rates_times(struct net_rates rates, float factor)
{
    rates.host.lr *= factor;
    rates.seed.lr *= factor;
    return rates;
}

/*
 * Evaluation with running statistics. Configuration k sets slot j to alpha[k][j]; slots must be given their own alpha
 * where they are not overridden, 0 for one that is not blended. Work shared by configurations is done once: they
 * diverge at the first slot where their alphas differ. Counts accumulate; the loss is that of configuration 0.
 */
struct net_eval {
    int images;
    const uint8_t *labels;
    const struct slot_exec *exec;
    int configs;
    const float (*alpha)[SHAPE_SLOTS]; /* [configs] */
    uint32_t *correct;                 /* [configs] += */
    double loss;                       /* += summed over images */
    real *logits;                      /* [configs][images][classes] or NULL */
};
enum { NET_MAX_CONFIGS = 64 };

/* Where samples are written: the first of a batch, and how far apart they and their rows are. */
struct net_input {
    real *pixels;
    size_t image_stride, row_stride;
};

/* A family's networks on one instruction set. */
struct net_kernels {
    /* Memory for a net of this shape and batch, and the net in it. The memory must be zeroed and aligned to 64 bytes.
     * The shape is a whole one (union host_shape) and outlives the net. */
    size_t (*bytes)(const struct net_shape *shape, int batch);
    struct net *(*init)(const struct net_shape *shape, int batch, void *memory);
    struct net_input (*input)(struct net *net);
    /* Forward and backward of one batch in training mode; running statistics advance. Gradients stay in the net. */
    void (*gradients)(struct net *net, const struct net_params *params, const struct net_batch *batch,
                      struct net_result *result);
    /* Gradient statistics of the batch just run (D-35), before clipping. */
    void (*measure)(struct net *net, const struct net_batch *batch, struct net_result *result);
    /* Clip host and slots separately, and step. Momentum has the layout of the parameters. */
    void (*update)(struct net *net, const struct net_params *params, const struct net_params *momentum,
                   const struct net_batch *batch, const struct net_rates *rates, struct net_result *result);
    void (*evaluate)(struct net *net, const struct net_params *params, struct net_eval *eval);
};

#define KERNELS_DECLARED(with, NAME, name) extern const struct net_kernels name##_kernels;
FAMILIES(KERNELS_DECLARED, )

#endif
