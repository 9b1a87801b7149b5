/*
 * The row-wise operations of a recurrent network: LayerNorm and the LSTM cell. A row's results depend on the row alone.
 */
#ifndef NN_ROWS_H
#define NN_ROWS_H

#include "nn/real.h"

#define LAYER_NORM_EPS 1e-5

/* hat = (x - mean) / sqrt(variance + eps), population variance; x may be hat. Returns 1 / sqrt(variance + eps). */
real layer_norm_row(int width, const real *x, real *hat);
/* From the gradient dy of gamma * hat + beta to that of x, which may be dy. */
void layer_norm_row_backward(int width, const real *hat, real rstd, const real *gamma, const real *dy, real *dx);

/* out = gamma * hat + beta */
void affine_row(int width, const real *hat, const real *gamma, const real *beta, real *out);

/* In place. The derivative is that of y = relu(x): d where y > 0, else 0. */
void relu_row(int width, real *x);
void relu_row_backward(int width, const real *y, real *d);

/*
 * The cell of `units` neighbouring units. gate: sums on entry, activations on return; the gates i, f, g, o are `stride`
 * apart. tanh_c is kept for the backward pass.
 */
void lstm_cell(int units, ptrdiff_t stride, real *gate, const real *c_in, real *c, real *tanh_c, real *h);
/* d: gradients of the gates' sums, laid out like gate. dc: gradient of c on entry, of c_in on return. */
void lstm_cell_backward(int units, ptrdiff_t stride, const real *gate, const real *c_in, const real *tanh_c,
                        const real *dh, real *dc, real *d);

#endif
