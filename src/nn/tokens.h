/*
 * Operations of a transformer on the rows of a sequence, each row a token: LayerNorm, GELU, and the loss over a
 * vocabulary. A row's results depend on the row alone.
 */
#ifndef NN_TOKENS_H
#define NN_TOKENS_H

#include "nn/real.h"

/* hat: the rows normalised; rstd [rows]; out = gamma * hat + beta. */
void layer_norm_forward(int rows, int width, const real *x, const real *gamma, const real *beta, real *hat, real *rstd,
                        real *out);
/* out, once more, from hat. */
void layer_norm_again(int rows, int width, const real *hat, const real *gamma, const real *beta, real *out);
/* From the gradient dy of out, which is used up: dx += that of x; dgamma and dbeta += where they are given. */
void layer_norm_backward(int rows, int width, const real *hat, const real *rstd, const real *gamma, real *dy, real *dx,
                         real *dgamma, real *dbeta);

/* act = x * Phi(x), Phi the normal distribution's; slope is the derivative and may be x. */
void gelu_forward(size_t count, const real *x, real *act, real *slope);
void multiply_into(size_t count, const real *x, real *out);

/* sum[column] += each row in turn. */
void column_sums(int rows, int width, const real *x, real *sum);

/*
 * x becomes softmax(scale * x), scale > 0; backward: from the gradient d of that, p, to the gradient of x before it.
 * The row has `room` for more, a multiple of 16, which becomes 0.
 */
void softmax_row(int count, int room, real scale, real *x);
void softmax_row_backward(int count, int room, real scale, const real *p, real *d);

/*
 * Softmax cross entropy of rows of logits: the loss in nats, summed row by row, and how many targets are the first of
 * the largest logits. The logits become `scale` times their gradients; for a scale of 0 they are used up.
 */
struct token_score {
    double loss, hits;
};
void token_loss(int rows, int classes, real *logits, const uint8_t *targets, real scale, struct token_score *score);

#endif
