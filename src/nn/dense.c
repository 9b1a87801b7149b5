#include "nn/dense.h"

#include "nn/linear.h"
#include "nn/tokens.h"

size_t dense_packed(int in, int out)
{
    size_t forward = packed_size(in, out), backward = packed_size(out, in);
    return forward > backward ? forward : backward;
}

size_t dense_workspace(int rows, int in)
{
    return packed_size(rows, in);
}

void dense_pack(const struct dense *d, bool backward)
{
    linear_pack(d->in, d->out, d->weight, 1, d->in, 0, panel_count(d->out), d->packed[0]);
    if (backward)
        linear_pack(d->out, d->in, d->weight, d->in, 1, 0, panel_count(d->in), d->packed[1]);
}

void dense_forward(const struct dense *d, int rows, const real *x, real *y)
{
    const struct product product = {.rows = rows,
                                    .k = d->in,
                                    .columns = d->out,
                                    .a = x,
                                    .a_stride = d->in,
                                    .b = d->packed[0],
                                    .start = d->bias,
                                    .c = y,
                                    .c_stride = d->out};
    linear_product(&product, 0, panel_count(d->out));
}

/* dW += dy^T x, with the rows as the products' k. */
static void weight_gradient(const struct dense *d, int rows, const real *x, const real *dy, real *workspace)
{
    linear_pack(rows, d->in, x, d->in, 1, 0, panel_count(d->in), workspace);
    const struct product product = {.rows = d->out,
                                    .k = rows,
                                    .columns = d->in,
                                    .a = dy,
                                    .a_stride = d->out,
                                    .across = true,
                                    .b = workspace,
                                    .start = d->dweight,
                                    .start_stride = d->in,
                                    .c = d->dweight,
                                    .c_stride = d->in};
    linear_product(&product, 0, panel_count(d->in));
}

void dense_backward(const struct dense *d, int rows, const real *x, const real *dy, real *dx, real *workspace)
{
    if (d->dweight)
        weight_gradient(d, rows, x, dy, workspace);
    if (d->dbias)
        column_sums(rows, d->out, dy, d->dbias);
    if (!dx)
        return;
    const struct product product = {.rows = rows,
                                    .k = d->out,
                                    .columns = d->in,
                                    .a = dy,
                                    .a_stride = d->out,
                                    .b = d->packed[1],
                                    .c = dx,
                                    .c_stride = d->in};
    linear_product(&product, 0, panel_count(d->in));
}
