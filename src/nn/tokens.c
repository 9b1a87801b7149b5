#include "nn/tokens.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "nn/exponent.h"
#include "nn/rows.h"

/* ---- sums over a row -------------------------------------------------------------------------------------------- */

enum { STREAMS = 16 }; /* fixed partial sums: the order of addition is part of the result */

static inline real total_of(const real part[STREAMS])
{
    real eight[8], four[4];
    for (int k = 0; k < 8; k++)
        eight[k] = part[k] + part[k + 8];
    for (int k = 0; k < 4; k++)
        four[k] = eight[k] + eight[k + 4];
    return (four[0] + four[2]) + (four[1] + four[3]);
}

static inline real row_sum(int width, const real *x)
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

static inline real row_dot(int width, const real *x, const real *y)
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

/* A vector of its own: compilers do not see that the order of comparisons does not matter. */
static inline vec16 larger_of(vec16 a, vec16 b)
{
    const mask16 first = a > b;
    return (vec16)(((mask16)a & first) | ((mask16)b & ~first));
}

static inline real row_largest(int width, const real *x)
{
    vec16 part = (vec16){0} + x[0];
    int i = 0;
    for (; i + STREAMS <= width; i += STREAMS)
        part = larger_of(*(const vec16 *)(x + i), part);
    for (int k = 0; i + k < width; k++)
        part[k] = x[i + k] > part[k] ? x[i + k] : part[k];
    real at[STREAMS];
    memcpy(at, &part, sizeof at);
    for (int half = STREAMS / 2; half >= 1; half /= 2)
        for (int k = 0; k < half; k++)
            at[k] = at[k + half] > at[k] ? at[k + half] : at[k];
    return at[0];
}

/* ---- LayerNorm -------------------------------------------------------------------------------------------------- */

void layer_norm_forward(int rows, int width, const real *restrict x, const real *restrict gamma,
                        const real *restrict beta, real *restrict hat, real *restrict rstd, real *restrict out)
{
    for (int r = 0; r < rows; r++, x += width, hat += width, out += width) {
        const real mean = row_sum(width, x) / (real)width;
        for (int i = 0; i < width; i++)
            hat[i] = x[i] - mean;
        const double variance = (double)row_dot(width, hat, hat) / width;
        const real scale = rstd[r] = (real)(1 / sqrt(variance + LAYER_NORM_EPS));
        for (int i = 0; i < width; i++) {
            hat[i] *= scale;
            out[i] = gamma[i] * hat[i] + beta[i];
        }
    }
}

void layer_norm_again(int rows, int width, const real *restrict hat, const real *restrict gamma,
                      const real *restrict beta, real *restrict out)
{
    for (int r = 0; r < rows; r++, hat += width, out += width)
        for (int i = 0; i < width; i++)
            out[i] = gamma[i] * hat[i] + beta[i];
}

void layer_norm_backward(int rows, int width, const real *restrict hat, const real *restrict rstd,
                         const real *restrict gamma, real *restrict dy, real *restrict dx, real *restrict dgamma,
                         real *restrict dbeta)
{
    for (int r = 0; r < rows; r++, hat += width, dy += width, dx += width) {
        for (int i = 0; dgamma && i < width; i++) {
            dgamma[i] += dy[i] * hat[i];
            dbeta[i] += dy[i];
        }
        for (int i = 0; i < width; i++)
            dy[i] *= gamma[i];
        const real mean = row_sum(width, dy) / (real)width, slope = row_dot(width, dy, hat) / (real)width;
        for (int i = 0; i < width; i++)
            dx[i] += rstd[r] * (dy[i] - mean - hat[i] * slope);
    }
}

/* ---- GELU ------------------------------------------------------------------------------------------------------- */

/*
 * Phi(-a) = exp(-a^2 / 2) R(a) for a >= 0, where R is a polynomial in t = 1 / (1 + 0.24 a), fitted in t over a up to
 * 13.2 with a relative error below 4e-9. One exponential serves Phi and the density, and small tails keep their
 * relative accuracy.
 */
static inline float normal_tail(float t)
{
    float p = 0.02540101597158856f;
    p = p * t - 0.1239652374042784f;
    p = p * t + 0.20391097128959815f;
    p = p * t - 0.1421827273894688f;
    p = p * t + 0.13970558769422986f;
    p = p * t + 0.02910597572347623f;
    p = p * t + 0.0874243792941853f;
    p = p * t + 0.08900975608164603f;
    p = p * t + 0.09584767806867803f;
    p = p * t + 0.09574260198565131f;
    return p * t;
}

static inline void gelu_of(real x, real *act, real *slope)
{
    const double root_half = 0.70710678118654752440, root_2pi = 0.39894228040143267794;
    if (sizeof(real) == 8) {
        double v = (double)x, phi = 0.5 * erfc(-v * root_half);
        *act = (real)(v * phi);
        *slope = (real)(phi + v * root_2pi * exp(-0.5 * v * v));
    } else {
        float v = (float)x, a = v < 0 ? -v : v, bell = (float)exp_below((real)(-0.5f * a * a));
        float tail = bell * normal_tail(1 / (1 + 0.24f * a)), phi = v < 0 ? tail : 1 - tail;
        *act = (real)(v * phi);
        *slope = (real)(phi + v * (float)root_2pi * bell);
    }
}

void gelu_forward(size_t count, const real *x, real *act, real *slope)
{
#pragma GCC ivdep /* slope may be x, element for element */
    for (size_t i = 0; i < count; i++) {
        real a, s;
        gelu_of(x[i], &a, &s);
        act[i] = a;
        slope[i] = s;
    }
}

void multiply_into(size_t count, const real *restrict x, real *restrict out)
{
    for (size_t i = 0; i < count; i++)
        out[i] *= x[i];
}

void column_sums(int rows, int width, const real *restrict x, real *restrict sum)
{
    for (int r = 0; r < rows; r++, x += width)
        for (int i = 0; i < width; i++)
            sum[i] += x[i];
}

/* ---- loss ------------------------------------------------------------------------------------------------------- */

static bool is_first_of(int target, real largest, const real *x)
{
    bool earlier = false;
    for (int k = 0; k < target; k++)
        earlier |= x[k] == largest;
    return x[target] == largest && !earlier;
}

void token_loss(int rows, int classes, real *restrict logits, const uint8_t *targets, real scale,
                struct token_score *score)
{
    for (int r = 0; r < rows; r++, logits += classes) {
        const real largest = row_largest(classes, logits), own = logits[targets[r]];
        score->hits += is_first_of(targets[r], largest, logits);
        for (int k = 0; k < classes; k++)
            logits[k] = exp_below(logits[k] - largest);
        const double total = (double)row_sum(classes, logits);
        score->loss += log(total) + (double)largest - (double)own;
        if (scale == 0)
            continue;
        const real factor = (real)((double)scale / total);
        for (int k = 0; k < classes; k++)
            logits[k] *= factor;
        logits[targets[r]] -= scale;
    }
}

/* ---- softmax ---------------------------------------------------------------------------------------------------- */

/* Whole streams: where the row goes on with what may be written, there is no remainder to do one by one. */
static inline int whole_streams(int count)
{
    return (count + STREAMS - 1) / STREAMS * STREAMS;
}

void softmax_row(int count, int room, real scale, real *x)
{
    const int whole = whole_streams(count);
    for (int k = count; k < whole; k++)
        x[k] = x[0];
    const real largest = row_largest(whole, x) * scale;
    for (int i = 0; i < whole; i += STREAMS)
        for (int k = 0; k < STREAMS; k++)
            x[i + k] = exp_below(x[i + k] * scale - largest);
    memset(x + count, 0, sizeof(real) * (size_t)(room - count));
    const real factor = 1 / row_sum(whole, x);
    for (int i = 0; i < whole; i += STREAMS)
        for (int k = 0; k < STREAMS; k++)
            x[i + k] *= factor;
}

void softmax_row_backward(int count, int room, real scale, const real *restrict p, real *restrict d)
{
    const int whole = whole_streams(count);
    memset(d + count, 0, sizeof(real) * (size_t)(room - count));
    const real mean = row_dot(whole, p, d);
    for (int i = 0; i < whole; i += STREAMS)
        for (int k = 0; k < STREAMS; k++)
            d[i + k] = scale * p[i + k] * (d[i + k] - mean);
}
