/*
 * A linear layer on rows, y = x W^T + b, forward and backward, from products of nn/linear.h. A row of y and of dx
 * depends on its own row alone; gradients of the weights are summed row by row, so they do not depend on how the rows
 * of a batch are divided into calls.
 */
#ifndef NN_DENSE_H
#define NN_DENSE_H

#include <stdbool.h>

#include "nn/real.h"

struct dense {
    int in, out;
    const real *weight, *bias; /* [out][in]; bias [out] or NULL */
    real *dweight, *dbias;     /* += ; NULL where the layer does not learn */
    real *packed[2];           /* dense_packed(in, out) reals each: for y, and for dx */
};

/* Reals of one packed array, and of the workspace that dense_backward needs for so many rows. */
size_t dense_packed(int in, int out);
size_t dense_workspace(int rows, int in);

/* Weights into `packed`; for an evaluation the second array is not needed. */
void dense_pack(const struct dense *dense, bool backward);
void dense_forward(const struct dense *dense, int rows, const real *x, real *y);
/* dx = dy W where dx is given. */
void dense_backward(const struct dense *dense, int rows, const real *x, const real *dy, real *dx, real *workspace);

#endif
