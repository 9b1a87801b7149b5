#include "nn/rows.h"

#include <math.h>

#include "nn/exponent.h"

/* ---- sums over a row -------------------------------------------------------------------------------------------- */

enum { STREAMS = 16 }; /* fixed partial sums: the order of addition is part of the result */

static double total_of(const real part[STREAMS])
{
    double total = 0;
    for (int k = 0; k < STREAMS; k++)
        total += (double)part[k];
    return total;
}

static double row_sum(int width, const real *x)
{
    real part[STREAMS] = {0};
    int i = 0;
    for (; i + STREAMS <= width; i += STREAMS)
        for (int k = 0; k < STREAMS; k++)
            part[k] += x[i + k];
    for (int k = 0; i + k < width; k++)
        part[k] += x[i + k];
    return total_of(part);
}

static double row_dot(int width, const real *x, const real *y)
{
    real part[STREAMS] = {0};
    int i = 0;
    for (; i + STREAMS <= width; i += STREAMS)
        for (int k = 0; k < STREAMS; k++)
            part[k] += x[i + k] * y[i + k];
    for (int k = 0; i + k < width; k++)
        part[k] += x[i + k] * y[i + k];
    return total_of(part);
}

/* ---- LayerNorm -------------------------------------------------------------------------------------------------- */

real layer_norm_row(int width, const real *x, real *hat)
{
    real mean = (real)(row_sum(width, x) / width);
    for (int i = 0; i < width; i++)
        hat[i] = x[i] - mean;
    real rstd = (real)(1 / sqrt(row_dot(width, hat, hat) / width + LAYER_NORM_EPS));
    for (int i = 0; i < width; i++)
        hat[i] *= rstd;
    return rstd;
}

void layer_norm_row_backward(int width, const real *hat, real rstd, const real *gamma, const real *dy, real *dx)
{
    for (int i = 0; i < width; i++)
        dx[i] = dy[i] * gamma[i];
    real mean = (real)(row_sum(width, dx) / width), slope = (real)(row_dot(width, dx, hat) / width);
    for (int i = 0; i < width; i++)
        dx[i] = rstd * (dx[i] - mean - hat[i] * slope);
}

void affine_row(int width, const real *restrict hat, const real *restrict gamma, const real *restrict beta,
                real *restrict out)
{
    for (int i = 0; i < width; i++)
        out[i] = gamma[i] * hat[i] + beta[i];
}

void relu_row(int width, real *x)
{
    for (int i = 0; i < width; i++)
        x[i] = x[i] <= 0 ? 0 : x[i]; /* NAN propagates */
}

void relu_row_backward(int width, const real *restrict y, real *restrict d)
{
    for (int i = 0; i < width; i++) {
        real v = d[i]; /* read unconditionally, so that the loop vectorises */
        d[i] = y[i] > 0 ? v : 0;
    }
}

/* ---- LSTM ------------------------------------------------------------------------------------------------------- */

/* Accurate to a few units in the last place; the double variant uses libm. */

static inline real sigmoid_of(real x)
{
    if (sizeof(real) == 8)
        return (real)(1 / (1 + exp(-(double)x)));
    float size = x < 0 ? (float)-x : (float)x;
    struct exponential low = exponential_of(size < 87 ? -size : -87.0f);
    float e = low.power + low.power * low.excess, s = (x < 0 ? e : 1.0f) / (1 + e);
    return x != x ? x : (real)s;
}

/* e / (e + 2) with e = exp(2x) - 1, without cancellation for x >= 0. */
static inline real tanh_of(real x)
{
    if (sizeof(real) == 8)
        return (real)tanh((double)x);
    float size = x < 0 ? (float)-x : (float)x;
    struct exponential high = exponential_of(size < 15 ? 2 * size : 30.0f);
    float e = (high.power - 1) + high.power * high.excess, t = e / (e + 2);
    return x != x ? x : (real)(x < 0 ? -t : t);
}

void lstm_cell(int units, ptrdiff_t stride, real *restrict gate, const real *restrict c_in, real *restrict c,
               real *restrict tanh_c, real *restrict h)
{
    real *restrict i = gate, *restrict f = gate + stride, *restrict g = gate + 2 * stride,
                   *restrict o = gate + 3 * stride;
    for (int u = 0; u < units; u++) {
        i[u] = sigmoid_of(i[u]);
        f[u] = sigmoid_of(f[u]);
        g[u] = tanh_of(g[u]);
        o[u] = sigmoid_of(o[u]);
    }
    for (int u = 0; u < units; u++) {
        c[u] = f[u] * c_in[u] + i[u] * g[u];
        tanh_c[u] = tanh_of(c[u]);
        h[u] = o[u] * tanh_c[u];
    }
}

void lstm_cell_backward(int units, ptrdiff_t stride, const real *restrict gate, const real *restrict c_in,
                        const real *restrict tanh_c, const real *restrict dh, real *restrict dc, real *restrict d)
{
    const real *i = gate, *f = gate + stride, *g = gate + 2 * stride, *o = gate + 3 * stride;
    real *restrict di = d, *restrict df = d + stride, *restrict dg = d + 2 * stride, *restrict dout = d + 3 * stride;
    for (int u = 0; u < units; u++) {
        real dcell = dc[u] + dh[u] * o[u] * (1 - tanh_c[u] * tanh_c[u]);
        di[u] = dcell * g[u] * i[u] * (1 - i[u]);
        df[u] = dcell * c_in[u] * f[u] * (1 - f[u]);
        dg[u] = dcell * i[u] * (1 - g[u] * g[u]);
        dout[u] = dh[u] * tanh_c[u] * o[u] * (1 - o[u]);
        dc[u] = dcell * f[u];
    }
}
