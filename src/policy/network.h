/*
 * The recurrent policy network: embedding, feature layer, LSTM, eight heads and V(s) (P-09). Compiled once per
 * variant; the rest of the program reaches it through struct variant.
 *
 * Parameters are stored in one flat array whose layout policy_shape gives; gradients and Adam's moments have the same
 * layout. Tensors are stored as in PyTorch, [out][in]. A row's results never depend on how many rows come with it, nor
 * on the number of threads: products are split over outputs and rows, never over the summed index.
 */
#ifndef POLICY_NETWORK_H
#define POLICY_NETWORK_H

#include "base/pool.h"
#include "nn/adam.h"
#include "nn/real.h"
#include "policy/heads.h"

enum { POLICY_EMBED_ROWS = 14, POLICY_EMBED = 4, POLICY_MAX_TENSORS = 64, POLICY_TENSOR_NAME = 40 };

struct policy_tensor {
    char name[POLICY_TENSOR_NAME]; /* "lstm0.w_ih", "head.op.l2.weight", ... as in the golden vectors */
    int rows, columns;             /* columns 1: a vector of `rows` */
    size_t offset;                 /* in the flat array, on a 64-byte boundary */
};

/* Which part of the network a tensor belongs to, for norms by part: 0..7 the heads, then: */
enum policy_part { POLICY_PART_VALUE = HEAD_COUNT, POLICY_PART_TRUNK, POLICY_PART_COUNT };

struct policy_shape {
    int slots, obs, feature, hidden; /* obs: numbers of an observation, without the embedding */
    int inputs, logits;              /* obs + 4 * slots; 38 + slots */
    int count;                       /* of tensors */
    struct policy_tensor tensor[POLICY_MAX_TENSORS];
    uint8_t part[POLICY_MAX_TENSORS]; /* enum policy_part of each tensor */
    size_t params;                    /* trainable parameters */
    size_t storage;                   /* reals of the flat array; the gaps stay zero */
};

/* shape.c: plain code. `hidden` is a multiple of 8. */
void policy_shape_init(struct policy_shape *shape, int obs, int slots, int feature, int hidden);
int policy_shape_find(const struct policy_shape *shape, const char *name); /* index of a tensor, -1 when absent */
/* Orthogonal initialisation (P-10) from stream 1 (a = tensor). Uses the pool: well under a second for width 512. */
void policy_init_weights(const struct policy_shape *shape, uint64_t seed, struct pool *pool, float *w);
/* Adds to the biases of the op head, whose logits these then are, nearly (P-19). */
void policy_add_prior(const struct policy_shape *shape, const double prior[OP_COUNT], float *w);

/* ---- one per variant -------------------------------------------------------------------------------------------- */

struct policy_net;

/* A workspace for acting in `envs` envs and for unrolling steps x envs rows. Memory: zeroed, 64-byte aligned. With
 * steps 0 it can only act. Every call below uses the pool, so none may come from one of the pool's threads. */
size_t policy_net_bytes(const struct policy_shape *shape, int envs, int steps);
struct policy_net *policy_net_init(const struct policy_shape *shape, int envs, int steps, struct pool *pool,
                                   void *memory);

/* Load new weights: call after every change of w and before acting or unrolling. */
void policy_net_pack(struct policy_net *net, const real *w);

/* One step of `rows` envs. h and c [rows][hidden] are replaced. bp: -1 for an empty slot. */
struct policy_step {
    int rows;
    const real *obs;  /* [rows][obs], normalised */
    const int8_t *bp; /* [rows][slots] */
    real *h, *c;      /* [rows][hidden] */
    real *logits;     /* [rows][logits] out */
    real *value;      /* [rows] out */
};
void policy_net_act(struct policy_net *net, const struct policy_step *step);

/* A whole rollout, [step][env]. The state is zero before step 0 (or h0, c0 where given) and where reset says so. */
struct policy_sequence {
    int steps, envs;
    const real *obs;      /* [step][env][obs] */
    const int8_t *bp;     /* [step][env][slots] */
    const uint8_t *reset; /* [step][env]; NULL: none */
    const real *h0, *c0;  /* [env][hidden]; NULL: zero */
};
/* logits [step][env][logits], value [step][env]. What backward needs stays in the workspace. */
void policy_net_unroll(struct policy_net *net, const struct policy_sequence *sequence, real *logits, real *value);
/* Gradients of the last unroll, written (not added) to grad in the parameters' layout. Rows whose derivatives are zero
 * contribute exactly nothing. */
void policy_net_backward(struct policy_net *net, const struct policy_sequence *sequence, const real *dlogits,
                         const real *dvalue, real *grad);
/* Of the last unroll: z [step][env][hidden], and h, c after the last step, [env][hidden]. */
const real *policy_net_trunk(const struct policy_net *net);
void policy_net_state(const struct policy_net *net, const real **h, const real **c);

/* The interface to the rest of the program: part of struct variant. Adam's step and the squared norm are nn/'s. */
struct policy_kernels {
    size_t (*net_bytes)(const struct policy_shape *shape, int envs, int steps);
    struct policy_net *(*net_init)(const struct policy_shape *shape, int envs, int steps, struct pool *pool,
                                   void *memory);
    void (*pack)(struct policy_net *net, const real *w);
    void (*act)(struct policy_net *net, const struct policy_step *step);
    void (*unroll)(struct policy_net *net, const struct policy_sequence *sequence, real *logits, real *value);
    void (*backward)(struct policy_net *net, const struct policy_sequence *sequence, const real *dlogits,
                     const real *dvalue, real *grad);
    void (*state)(const struct policy_net *net, const real **h, const real **c);
    double (*square_norm)(size_t count, const real *g);
    void (*adam_step)(const struct adam *adam, size_t count, real factor, const real *g, real *w, real *m, real *v);
};

#endif
