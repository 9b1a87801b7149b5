/*
 * Matrix products: one kernel for every linear layer, in the forward pass, the backward pass and for weight gradients.
 *
 *     c[row][column] = start[row][column] + sum over k of a[row][k] * b[k][column]
 *
 * b is stored in panels of PANEL columns. Every element is one sum in the order of k, whatever the number of rows,
 * columns and calls that compute it: results depend neither on the batch nor on how work is distributed over threads.
 */
#ifndef NN_LINEAR_H
#define NN_LINEAR_H

#include <stdbool.h>

#include "nn/real.h"

#if VECTOR == 16
enum { PANEL = 32 };
#else
enum { PANEL = 16 };
#endif

enum { PANEL_DEPTH = 16 * 512 / PANEL }; /* of k, at a time: 32 KiB of floats, which stay in the L1 cache */

static inline int panel_count(int columns)
{
    return (columns + PANEL - 1) / PANEL;
}

/* Reals of a packed k x columns matrix. */
static inline size_t packed_size(int k, int columns)
{
    return (size_t)k * (size_t)panel_count(columns) * PANEL;
}

/* Pack b[k][column] = from[k * k_stride + column * column_stride] for panels first .. last-1. */
void linear_pack(int k, int columns, const real *from, ptrdiff_t k_stride, ptrdiff_t column_stride, int first, int last,
                 real *packed);

struct product {
    int rows, k, columns;
    const real *a;
    ptrdiff_t a_stride;
    const real *b;     /* packed */
    const real *start; /* NULL: zero. A bias has stride 0; pass c itself to accumulate */
    ptrdiff_t start_stride;
    real *c;
    ptrdiff_t c_stride;
    bool across; /* a is stored [k][row], k by k a_stride apart: as the first factor of a weight gradient is */
};

/* Panels first .. last-1 of c. */
void linear_product(const struct product *product, int first, int last);

/* to[column][row] = from[row][column] */
void linear_transpose(int rows, int columns, const real *from, ptrdiff_t from_stride, real *to, ptrdiff_t to_stride);

#endif
