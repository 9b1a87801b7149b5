/*
 * BatchNorm and GroupNorm: statistics and coefficients. The passes over the pixels are in channels.h.
 *
 * Coefficient arrays have cp entries; entries beyond the real channels are kept zero.
 */
#ifndef NN_NORM_H
#define NN_NORM_H

#include <stdbool.h>

#include "nn/real.h"

#define NORM_EPS          1e-5
#define NORM_MOMENTUM     0.1
#define NORM_MAX_CHANNELS 512

/* One layer's coefficients for the current batch (BatchNorm) or image (GroupNorm). */
struct norm {
    real *centre, *rstd;         /* mean and 1/sqrt(var + eps) per channel */
    real *scale, *shift;         /* forward: x * scale + shift */
    real *gain, *slope, *offset; /* backward: gain * v + slope * x + offset */
};
enum { NORM_ARRAYS = 7 };

/* Lay the seven arrays out one after the other, cp reals each. */
struct norm norm_in(real *memory, int cp);

/* sum and square are those of channel_sums about `centre`, here the running mean: near enough to avoid cancellation. */
void batch_norm_forward(struct norm *norm, int c, int cp, double count, const double *sum, const double *square,
                        const real *gamma, const real *beta, real *running_mean, real *running_var);
void batch_norm_eval(struct norm *norm, int c, int cp, const real *gamma, const real *beta, const real *running_mean,
                     const real *running_var);
/* sum and moment are those of channel_grad_sums. */
void batch_norm_backward(struct norm *norm, int c, int cp, double count, const double *sum, const double *moment,
                         real *dgamma, real *dbeta);

/* The largest of 32, 16, ... 1 that divides c into groups of at least 16 channels, or else just divides c. */
static inline int group_count(int c)
{
    for (int g = 32; g >= 1; g /= 2)
        if (c % g == 0 && c / g >= 16)
            return g;
    for (int g = 32; g > 1; g /= 2)
        if (c % g == 0)
            return g;
    return 1;
}

/* Statistics of one image. */
void group_norm_forward(struct norm *norm, int pixels, int c, int cp, const real *x, const real *gamma,
                        const real *beta);
/* dgamma and dbeta accumulate over images. */
void group_norm_backward(struct norm *norm, int pixels, int c, int cp, const real *x, const real *g, bool relu,
                         const real *gamma, double *dgamma, double *dbeta);

#endif
