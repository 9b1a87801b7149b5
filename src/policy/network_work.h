/* The internals of a policy network; only for network*.c. */
#ifndef POLICY_NETWORK_WORK_H
#define POLICY_NETWORK_WORK_H

#include "nn/linear.h"
#include "policy/network.h"

enum { GATES = 4 };

/* The linear layers. The LSTM's matrices count as four layers each, one per gate: a panel is then a range of units. */
enum layer_index {
    LAYER_FEATURE,
    LAYER_PROJECT,                          /* no outputs where feature and hidden width are equal */
    LAYER_INPUT,                            /* w_ih, b_ih by gate */
    LAYER_STATE = LAYER_INPUT + GATES,      /* w_hh, b_hh by gate */
    LAYER_HEAD1 = LAYER_STATE + GATES,      /* by head */
    LAYER_HEAD2 = LAYER_HEAD1 + HEAD_COUNT, /* by head */
    LAYER_BLUEPRINT3 = LAYER_HEAD2 + HEAD_COUNT,
    LAYER_VALUE1,
    LAYER_VALUE2,
    LAYER_VALUE3,
    LAYER_VALUE4,
    LAYER_COUNT
};

struct layer {
    int in, out;
    size_t weight, bias;      /* in the flat array */
    real *forward, *backward; /* packed: in x out, and out x in */
    real *bias_values;        /* of w_ih: the sum of the LSTM's two */
    const real *x;            /* its input, in the unroll's trace */
    ptrdiff_t x_stride;
    real *dy; /* [out][rows]: gradients of its output, transposed */
};

enum norm_index { NORM_FEATURE, NORM_LSTM, NORM_VALUE1, NORM_VALUE2, NORM_COUNT };

struct layer_norm {
    int width;
    size_t gamma, beta; /* in the flat array */
    real *gamma_values, *beta_values;
};

/* What the forward pass keeps of a row. Arrays are [row][width]. */
struct trace {
    real *in;               /* [inputs] */
    real *feature, *x;      /* [feature], [hidden]: the same array without projection */
    real *gate;             /* [4 * hidden]: i, f, g, o */
    real *h_in, *c_in;      /* [hidden] before the step; one step more than the rest: the state after the last */
    real *tanh_c;           /* [hidden] */
    real *z;                /* [hidden] */
    real *wide;             /* [5 * hidden]: first layers of the heads, then V's */
    real *blueprint2;       /* [hidden / 2] */
    real *value2, *value3;  /* [hidden / 4], [hidden / 8] */
    real *hat[NORM_COUNT];  /* normalised rows */
    real *rstd[NORM_COUNT]; /* [1] */
};

/* Gradients in the backward pass, like the trace. */
struct gradient_trace {
    real *wide, *blueprint2, *value2, *value3;
    real *z, *h;              /* of z, and of h; at first only through z */
    real *gate;               /* of the gates' sums */
    real *c;                  /* [env][hidden] passed from step to step */
    real *x, *feature;        /* feature is x without projection */
    real *in;                 /* where the embeddings are */
    real *affine[NORM_COUNT]; /* of gamma * hat + beta */
};

/* A panel of the weight gradients: the unit of work that threads share. */
struct weight_item {
    int16_t layer, panel;
};

struct policy_net {
    struct policy_shape shape;
    int envs, steps;
    int rows;              /* steps * envs */
    ptrdiff_t rows_stride; /* of the transposed gradients */
    struct pool *pool;
    struct layer layer[LAYER_COUNT];
    struct layer_norm norm[NORM_COUNT];
    real *embed; /* [14][4] */
    size_t b_hh; /* second bias of the LSTM, in the flat array */
    struct trace act, unroll;
    int last_steps, last_envs; /* of the last unroll */
    struct gradient_trace back;
    struct weight_item *items;
    int item_count;
};

/* Column of a head's first layer in trace.wide; head HEAD_COUNT is V's. */
static inline int wide_column(const struct policy_shape *shape, int head)
{
    return (head + (head > HEAD_BLUEPRINT)) * (shape->hidden / 2);
}

static inline int wide_columns(const struct policy_shape *shape)
{
    return 5 * shape->hidden;
}

static inline int layer_panels(const struct layer *layer)
{
    return panel_count(layer->out);
}

/* How rows are distributed over threads: chunks of neighbouring rows, enough to keep every thread busy. */
struct chunks {
    int count, rows; /* rows of one chunk; the last may be shorter */
};
struct chunks policy_chunks(const struct policy_net *net, int rows);

/* How many threads to wake for a piece of work: 1, or all. */
int policy_shares(const struct policy_net *net, double multiplies);

/* Whether each thread should walk its own envs through time, or all threads each step together. */
bool policy_by_envs(const struct policy_net *net);

/* The embedding's row of a blueprint; an empty slot has its own. */
static inline int policy_embed_row(int blueprint)
{
    return blueprint >= 0 && blueprint < POLICY_EMBED_ROWS - 1 ? blueprint : POLICY_EMBED_ROWS - 1;
}

static inline bool is_reset(const struct policy_sequence *sequence, int step, int env)
{
    return sequence->reset && sequence->reset[step * sequence->envs + env];
}

#endif
