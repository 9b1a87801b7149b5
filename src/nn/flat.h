/*
 * Element-wise operations on flat arrays, blending of host and seed features, loss, and the optimiser's arithmetic.
 * Plain loops: the compiler vectorises them for each variant.
 */
#ifndef NN_FLAT_H
#define NN_FLAT_H

#include <stdbool.h>
#include <stdint.h>

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
void cross_entropy(int rows, int classes, int stride, const real *logits, const uint8_t *labels, real *dlogits,
                   struct loss_sums *sums);

/* Squared L2 norm in double. */
double square_norm(size_t count, const real *g);
struct sgd {
    real lr, momentum, weight_decay;
};
/* w and m after one step with the gradient clipped by `factor`: weight decay is added after clipping. */
void sgd_step(const struct sgd *sgd, size_t count, real factor, const real *g, real *w, real *m);

#endif
