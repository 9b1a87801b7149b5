#include "nn/norm.h"

#include <math.h>
#include <string.h>

#include "nn/channels.h"

struct norm norm_in(real *memory, int cp)
{
    return (struct norm){memory,          memory + cp,     memory + 2 * cp, memory + 3 * cp,
                         memory + 4 * cp, memory + 5 * cp, memory + 6 * cp};
}

static void norm_set(struct norm *norm, int i, double mean, double rstd, real gamma, real beta)
{
    norm->centre[i] = (real)mean;
    norm->rstd[i] = (real)rstd;
    norm->scale[i] = (real)((double)gamma * rstd);
    norm->shift[i] = (real)((double)beta - mean * (double)gamma * rstd);
}

static void norm_clear_padding(struct norm *norm, int c, int cp)
{
    for (int i = c; i < cp; i++)
        norm->centre[i] = norm->rstd[i] = norm->scale[i] = norm->shift[i] = 0;
}

void batch_norm_forward(struct norm *norm, int c, int cp, double count, const double *sum, const double *square,
                        const real *gamma, const real *beta, real *running_mean, real *running_var)
{
    for (int i = 0; i < c; i++) {
        double off = sum[i] / count, mean = (double)running_mean[i] + off, var = square[i] / count - off * off;
        if (var < 0)
            var = 0;
        norm_set(norm, i, mean, 1 / sqrt(var + NORM_EPS), gamma[i], beta[i]);
        /* The running variance is the unbiased one; a single value has none and keeps the biased zero. */
        double unbiased = count > 1 ? var * count / (count - 1) : var;
        running_mean[i] = (real)((1 - NORM_MOMENTUM) * (double)running_mean[i] + NORM_MOMENTUM * mean);
        running_var[i] = (real)((1 - NORM_MOMENTUM) * (double)running_var[i] + NORM_MOMENTUM * unbiased);
    }
    norm_clear_padding(norm, c, cp);
}

void batch_norm_eval(struct norm *norm, int c, int cp, const real *gamma, const real *beta, const real *running_mean,
                     const real *running_var)
{
    for (int i = 0; i < c; i++)
        norm_set(norm, i, (double)running_mean[i], 1 / sqrt((double)running_var[i] + NORM_EPS), gamma[i], beta[i]);
    norm_clear_padding(norm, c, cp);
}

/*
 * dx = gamma * rstd * (v - mean(v) - xhat * mean(v * xhat)), with `mean_v` and `mean_vx` already carrying gamma where
 * channels of a group share them, written as gain * v + slope * x + offset.
 */
static void norm_set_backward(struct norm *norm, int i, double gamma, double mean_v, double mean_vx)
{
    double rstd = (double)norm->rstd[i];
    norm->gain[i] = (real)(gamma * rstd);
    norm->slope[i] = (real)(-rstd * rstd * mean_vx);
    norm->offset[i] = (real)(-rstd * mean_v + rstd * rstd * mean_vx * (double)norm->centre[i]);
}

static void norm_clear_backward(struct norm *norm, int c, int cp)
{
    for (int i = c; i < cp; i++)
        norm->gain[i] = norm->slope[i] = norm->offset[i] = 0;
}

void batch_norm_backward(struct norm *norm, int c, int cp, double count, const double *sum, const double *moment,
                         real *dgamma, real *dbeta)
{
    for (int i = 0; i < c; i++) {
        double rstd = (double)norm->rstd[i], gamma = rstd > 0 ? (double)norm->scale[i] / rstd : 0;
        double sum_vx = moment[i] * rstd;
        dgamma[i] = (real)sum_vx;
        dbeta[i] = (real)sum[i];
        norm_set_backward(norm, i, gamma, gamma * sum[i] / count, gamma * sum_vx / count);
    }
    norm_clear_backward(norm, c, cp);
}

/* Two passes, mean first: with one value per group the variance must come out as exactly zero. */
void group_norm_forward(struct norm *norm, int pixels, int c, int cp, const real *x, const real *gamma,
                        const real *beta)
{
    double sum[NORM_MAX_CHANNELS] = {0}, square[NORM_MAX_CHANNELS] = {0};
    int groups = group_count(c), size = c / groups;
    double count = (double)pixels * size;

    channel_sums(pixels, cp, x, NULL, sum, square);
    for (int i = 0; i < c; i += size) {
        double mean = 0;
        for (int k = 0; k < size; k++)
            mean += sum[i + k];
        for (int k = 0; k < size; k++)
            norm->centre[i + k] = (real)(mean / count);
    }
    for (int i = c; i < cp; i++)
        norm->centre[i] = 0;
    memset(sum, 0, sizeof sum[0] * cp);
    memset(square, 0, sizeof square[0] * cp);
    channel_sums(pixels, cp, x, norm->centre, sum, square);
    for (int i = 0; i < c; i += size) {
        double off = 0, var = 0;
        for (int k = 0; k < size; k++) {
            off += sum[i + k]; /* the rounding error of the mean */
            var += square[i + k];
        }
        off /= count;
        var = var / count - off * off;
        if (var < 0)
            var = 0;
        /* A single value is its own mean: its output is exactly beta and no gradient passes. 1/sqrt(eps) would amplify
           the rounding error of either 300 times. */
        double mean = (double)norm->centre[i] + off, rstd = count > 1 ? 1 / sqrt(var + NORM_EPS) : 0;
        for (int k = 0; k < size; k++)
            norm_set(norm, i + k, mean, rstd, gamma[i + k], beta[i + k]);
    }
    norm_clear_padding(norm, c, cp);
}

void group_norm_backward(struct norm *norm, int pixels, int c, int cp, const real *x, const real *g, bool relu,
                         const real *gamma, double *dgamma, double *dbeta)
{
    double sum[NORM_MAX_CHANNELS] = {0}, moment[NORM_MAX_CHANNELS] = {0};
    int groups = group_count(c), size = c / groups;
    double count = (double)pixels * size;

    channel_grad_sums(pixels, cp, x, g, norm->scale, norm->shift, relu, norm->centre, sum, moment);
    for (int i = 0; i < c; i += size) {
        double rstd = (double)norm->rstd[i], mean_v = 0, mean_vx = 0;
        for (int k = i; k < i + size; k++) {
            double sum_vx = moment[k] * rstd;
            dgamma[k] += sum_vx;
            dbeta[k] += sum[k];
            mean_v += (double)gamma[k] * sum[k];
            mean_vx += (double)gamma[k] * sum_vx;
        }
        for (int k = i; k < i + size; k++)
            norm_set_backward(norm, k, (double)gamma[k], mean_v / count, mean_vx / count);
    }
    norm_clear_backward(norm, c, cp);
}
