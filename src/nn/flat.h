/*
 * Element-wise operations on flat arrays, blending of host and seed features, loss, and the optimiser's arithmetic.
 * Plain loops: the compiler vectorises them for each variant.
 */
#ifndef NN_FLAT_H
#define NN_FLAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vocabulary.h"
#include "nn/real.h"

void relu_forward(size_t count, const real *x, real *out);
/* out = g where x > 0, else 0. */
void relu_backward(size_t count, const real *x, const real *g, real *out);
void add_into(size_t count, const real *x, real *out);
void subtract_from(size_t count, const real *x, real *out);

/*
 * The blend operators on `count` values of one image, with amplitude a in [0, 1]. a == 0 selects h bit for bit and
 * never reads s, whatever it holds (I-20); ADD at a == 1 gives s bit for bit (I-21). GATE is ADD at a * q.
 */
void blend_add_forward(size_t count, const real *h, const real *s, real a, real *y);
void blend_add_backward(size_t count, const real *g, real a, real *dh, real *ds);
void blend_multiply_forward(size_t count, const real *h, const real *s, real a, real *y);
/* dx = -ds is the gradient of the seed-input reference; the caller adds it to dh where the slot is not isolated. */
void blend_multiply_backward(size_t count, const real *h, const real *s, const real *g, real a, real *dh, real *ds);
/* sum of g * (s - h): the gradient of the effective amplitude. */
real blend_amplitude_grad(size_t count, const real *h, const real *s, const real *g);

/* Softmax cross entropy, rows `stride` apart. Gradients (of the mean over rows) where dlogits is given; sums in double.
 */
struct loss_sums {
    double loss;
    uint32_t correct;
};
enum { LOSS_CLASSES = 1000 }; /* at most */
void cross_entropy(int rows, int classes, int stride, const real *logits, const uint16_t *labels, real *dlogits,
                   struct loss_sums *sums);

/* Squared L2 norm in double. */
double square_norm(size_t count, const real *g);
/* How parameters learn. SGD: momentum, weight decay added to the gradient. AdamW: momentum and `second` are its betas,
 * weight decay shrinks the parameters themselves. */
struct optimiser {
    enum optimiser_kind kind;
    real lr, momentum;
    real second, epsilon; /* AdamW's alone */
    real weight_decay;
};
static inline struct optimiser optimiser_sgd(real lr, real momentum, real weight_decay)
{
    struct optimiser sgd = {OPTIMISER_SGD, lr, momentum, 0, 0, weight_decay};
    return sgd;
}
/* A piece of the parameters and what the optimiser remembers of it; `second` is NULL for SGD. */
struct optimiser_piece {
    real *w, *first, *second;
};
/* One step of `count` parameters, the gradient clipped by `factor`, weight decay after clipping. `update` is the number
 * of the step since the parameters' birth, from 1; SGD does not ask. */
void optimiser_step(const struct optimiser *optimiser, size_t count, uint32_t update, real factor, const real *g,
                    struct optimiser_piece piece);

#endif
