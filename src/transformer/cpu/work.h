/*
 * The workspace behind struct net, shared by its source files.
 *
 * Nothing couples the sequences of a batch, so a group of them, few enough to stay in the cache, goes forward and
 * backward through the whole network before the next one. All arrays below hold one group: [rows][numbers], a row per
 * token, the sequences one after another.
 */
#ifndef TRANSFORMER_CPU_WORK_H
#define TRANSFORMER_CPU_WORK_H

#include "nn/attention.h"
#include "nn/bump.h"
#include "nn/dense.h"
#include "transformer/net.h"

enum { GROUP_ROWS = 64 }; /* tokens of a group, at least; but never more than one sequence that is longer */

/* W2 f(W1 x + b1) + b2: half a layer of the host, or a seed. */
struct branch {
    enum branch_kind kind;
    struct attention attention;
    struct dense first, second;
    real *hidden;  /* kept: W1 x + b1, which attention reads again; an MLP keeps GELU's slope there */
    real *mixed;   /* kept: f of it; a LORA's is `hidden` */
    real *weights; /* kept: attention's probabilities */
};

struct layer_norm {
    const real *gamma, *beta;
    real *dgamma, *dbeta;
    real *hat, *rstd; /* kept */
};

struct layer {
    struct layer_norm norm[2];
    struct branch branch[2]; /* attention, then MLP */
};

/* What a slot holds, whatever grows in it. */
struct site {
    struct branch branch;
    struct layer_norm norm;
    struct dense gate;     /* its first layer */
    real *x, *s;           /* kept: the features that enter, and the seed's output */
    real *gate_hidden, *q; /* kept: of the gate net; q [rows] */
};

/* A live seed during one batch. */
struct seed {
    const struct seed_plan *plan; /* NULL: NOOP, s = x */
    bool awake;                   /* it takes part in the pass */
    struct param_layout layout;
};

struct net {
    const struct transformer_shape *shape;
    int batch, group; /* sequences, of a batch and of a group */
    uint8_t *tokens;  /* [batch][context + 1] */
    const uint8_t *targets;
    size_t target_stride;
    struct layer layer[TRANSFORMER_LAYERS];
    struct layer_norm last;
    struct dense classifier;
    struct site site[SHAPE_SLOTS];
    struct seed seed[SHAPE_SLOTS];
    struct param_layout gate_layout;

    real *stream;                   /* the features on their way up */
    real *normed;                   /* [width] a norm's output */
    real *added;                    /* [width] a branch's output */
    real *logits;                   /* [vocabulary] */
    real *grad;                     /* [width] the gradient on its way down */
    real *grad_part, *grad_seed;    /* [width] */
    real *grad_mixed, *grad_hidden; /* [MLP_WIDER * width] inside a branch */
    real *gate_grad;                /* [rows] */
    real *workspace;                /* of products and of attention */
    real *level[SHAPE_SLOTS + 1];   /* evaluation: the stream of each branching depth */
    struct net_params grads;
};

static inline size_t net_rows(const struct net *net, int sequences)
{
    return (size_t)sequences * (size_t)net->shape->context;
}

/* branch.c. y = the branch's output for x; dx = the gradient of x, where it is given. */
struct branch_params { /* offsets of its tensors, and where the arrays begin; w and b NULL without biases */
    const real *w1, *b1, *w2, *b2;
    real *dw1, *db1, *dw2, *db2;
};
/* Memory for a branch whose `hidden` and `mixed` numbers per row are at most these. */
void branch_lay_out(struct branch *branch, int width, int hidden, const struct attention *attention, size_t rows,
                    struct bump *bump);
void branch_begin(struct branch *branch, enum branch_kind kind, int width, int hidden, struct branch_params params,
                  bool backward);
void branch_forward(const struct branch *branch, const struct net *net, int sequences, const real *x, real *y);
void branch_backward(const struct branch *branch, const struct net *net, int sequences, const real *x, const real *dy,
                     real *dx);

/* seed.c */
void site_lay_out(struct site *site, const struct transformer_shape *shape, size_t rows, struct bump *bump);
/* Set up the seeds that `exec` says are in use. */
void seeds_begin(struct net *net, const struct net_params *params, const struct slot_exec *exec, bool evaluating);
/* The seed's output and the gate's values for features x, left in the site. */
void site_forward(const struct net *net, const struct net_params *params, const struct slot_exec *exec, int slot,
                  int sequences, const real *x);
/* The gate net alone, on the x in the site: one q per token, from its own features; and from dq, in net->gate_grad, to
 * its gradients, where it learns, and dx +=, where that is given. */
void site_gate_forward(const struct net *net, const struct net_params *params, int slot, size_t rows);
void site_gate_backward(const struct net *net, const struct net_params *params, int slot, size_t rows, bool train,
                        real *dx);
/* The operator alone: y, which may not be the site's x. */
void site_blend(const struct net *net, const struct slot_exec *exec, int slot, real alpha, int sequences, real *y);
/* From the gradient after the slot to the one before it, in place; the site's x must be there. */
void site_backward(const struct net *net, const struct net_params *params, const struct slot_exec *exec, int slot,
                   int sequences, real *grad);

/* forward.c: the host's parts, shared by training and evaluation. */
void host_begin(struct net *net, const struct net_params *params, bool backward);
void host_embed(const struct net *net, const struct net_params *params, int first, int sequences, real *stream);
void host_layer(const struct net *net, int layer, int sequences, real *stream);
/* Leaves the logits in the net. */
void host_classify(const struct net *net, int sequences, const real *stream);

static inline const real *host_tensor(const struct net *net, const real *host, int tensor)
{
    return host + net->shape->net.host.tensor[tensor].offset;
}

static inline real *host_grad(const struct net *net, int tensor)
{
    return net->grads.host + net->shape->net.host.tensor[tensor].offset;
}

#endif
