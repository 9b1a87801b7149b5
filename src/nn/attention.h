/*
 * Causal attention over one sequence: token i sees tokens 0 to i. Queries, keys and values are the thirds of a row,
 * q | k | v, each the heads one after another. Products are cut along the diagonal in blocks of a panel, so that
 * nearly half of them are never computed.
 */
#ifndef NN_ATTENTION_H
#define NN_ATTENTION_H

#include "nn/real.h"

struct attention {
    int length, heads, head; /* tokens, heads, and numbers per head */
};

/* Reals of the probabilities, which the backward pass reads, and of the workspace of either pass. */
size_t attention_kept(const struct attention *attention);
size_t attention_workspace(const struct attention *attention);

/* qkv [length][3 * heads * head], out [length][heads * head]. */
void attend_forward(const struct attention *attention, const real *qkv, real *kept, real *out, real *workspace);
void attend_backward(const struct attention *attention, const real *qkv, const real *kept, const real *dout, real *dqkv,
                     real *workspace);

#endif
