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
#include "morph/score.h"
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

/* What the optimiser remembers of a network, in the layout of its parameters. */
struct net_memory {
    struct net_params first, second; /* momentum; AdamW's second moment, NULL for SGD. No stats. */
    uint32_t *updates;               /* [net_parts] steps since birth, counted by who takes them; NULL for SGD */
};

/* The parts of a network that are born one by one: the host, then the seeds, then the gate nets. */
enum { NET_HOST };
ESPER_RULE int net_parts(int slots)
{
    return 1 + 2 * slots;
}
ESPER_RULE int net_seed_part(int slot)
{
    return 1 + slot;
}
ESPER_RULE int net_gate_part(int slots, int slot)
{
    return 1 + slots + slot;
}

/* Where the updates of a part are counted; NULL where nobody counts. */
ESPER_RULE uint32_t *net_updates(const struct net_memory *memory, int part)
{
    return memory->updates ? memory->updates + part : NULL;
}

struct net_batch {
    int samples;                  /* at most the batch the net was made for; they are in input() */
    const struct slot_exec *exec; /* [slots] */
};

struct net_result {
    struct net_score score;
    double host_norm;              /* L2 norm of the host's gradient before clipping */
    double slot_norm[SHAPE_SLOTS]; /* likewise of seed and gate together */
    struct slot_grads grads[SHAPE_SLOTS];
};

struct net_rates {
    struct optimiser host, seed;
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
 * diverge at the first slot where their alphas differ. Scores accumulate; a family that is not scored by loss may leave
 * out the loss of all configurations but the first.
 */
struct net_eval {
    int samples;
    const struct slot_exec *exec;
    int configs;
    const float (*alpha)[SHAPE_SLOTS]; /* [configs] */
    struct net_score *score;           /* [configs] += */
    real *logits;                      /* [configs][targets][classes] or NULL */
};
enum { NET_MAX_CONFIGS = 64 };

/*
 * Where a batch is written. Images: pixels of the first, how far apart images and their rows are, and a label each.
 * Text: a row of bytes per sample, the targets being the inputs one byte later.
 */
struct net_input {
    real *pixels;
    size_t image_stride, row_stride;
    uint16_t *labels; /* [batch] */
    uint8_t *tokens;  /* [batch][context + 1], rows token_stride apart; NULL where samples are images, and vice versa */
    size_t token_stride;
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
    /* Clip host and slots separately, and step. */
    void (*update)(struct net *net, const struct net_params *params, const struct net_memory *memory,
                   const struct net_batch *batch, const struct net_rates *rates, struct net_result *result);
    void (*evaluate)(struct net *net, const struct net_params *params, struct net_eval *eval);
};

#define KERNELS_DECLARED(with, NAME, name) extern const struct net_kernels name##_kernels;
FAMILIES(KERNELS_DECLARED, )

#endif
