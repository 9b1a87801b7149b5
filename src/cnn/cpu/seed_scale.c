/*
 * Seeds that rescale their input: `norm`, s = x + tanh(sigma) * (GN(x) - x), and `attention` (squeeze and excite),
 * s = x * sigmoid(W2 relu(W1 mean(x)) + b2). Also the gate net, which has the same form as the latter.
 */
#include <math.h>
#include <string.h>

#include "cnn/cpu/seed.h"
#include "nn/channels.h"

/* ---- norm ------------------------------------------------------------------------------------------------------- */

enum { NORM_GAMMA, NORM_BETA, NORM_SIGMA };

void scale_begin(const struct seed *seed)
{
    const struct seed_site *site = seed->site;
    memset(site->dgamma, 0, sizeof(double) * (size_t)site->cp);
    memset(site->dbeta, 0, sizeof(double) * (size_t)site->cp);
    seed_grad(seed, NORM_SIGMA)[0] = 0;
}

void scale_end(const struct seed *seed)
{
    for (int k = 0; k < seed->site->channels; k++) {
        seed_grad(seed, NORM_GAMMA)[k] = (real)seed->site->dgamma[k];
        seed_grad(seed, NORM_BETA)[k] = (real)seed->site->dbeta[k];
    }
}

void scale_forward(const struct seed *seed, int first, int images, const real *x, real *s)
{
    const struct seed_site *site = seed->site;
    double t = tanh((double)seed_tensor(seed, NORM_SIGMA)[0]);
    for (int n = 0; n < images; n++) {
        struct norm norm = seed_norm(site, 0, first + n);
        real scale[NORM_MAX_CHANNELS], shift[NORM_MAX_CHANNELS];
        size_t at = (size_t)n * site->map;
        group_norm_forward(&norm, site->pixels, site->channels, site->cp, x + at, seed_tensor(seed, NORM_GAMMA),
                           seed_tensor(seed, NORM_BETA));
        for (int k = 0; k < site->cp; k++) {
            scale[k] = (real)(1 - t + t * (double)norm.scale[k]);
            shift[k] = (real)(t * (double)norm.shift[k]);
        }
        channel_affine(site->pixels, site->cp, x + at, scale, shift, false, NULL, s + at);
    }
}

void scale_backward(const struct seed *seed, int first, int images, const real *x, const real *u, real *dx)
{
    const struct seed_site *site = seed->site;
    const real *gamma = seed_tensor(seed, NORM_GAMMA), *beta = seed_tensor(seed, NORM_BETA);
    double t = tanh((double)seed_tensor(seed, NORM_SIGMA)[0]), dsigma = 0;
    for (int n = 0; n < images; n++) {
        struct norm norm = seed_norm(site, 0, first + n);
        double sum_ux[NORM_MAX_CHANNELS] = {0}, sum_u[NORM_MAX_CHANNELS] = {0}; /* of u * xhat, and of u */
        size_t at = (size_t)n * site->map;
        group_norm_backward(&norm, site->pixels, site->channels, site->cp, x + at, u + at, false, gamma, sum_ux, sum_u);
        for (int k = 0; k < site->channels; k++) {
            double normed = (double)gamma[k] * sum_ux[k] + (double)beta[k] * sum_u[k];
            double off = norm.rstd[k] > 0 ? sum_ux[k] / (double)norm.rstd[k] : 0; /* of u * (x - centre) */
            double plain = off + (double)norm.centre[k] * sum_u[k];
            dsigma += (1 - t * t) * (normed - plain);
            site->dgamma[k] += t * sum_ux[k];
            site->dbeta[k] += t * sum_u[k];
        }
        if (dx) { /* the norm's own input gradient is linear in u: scale it by t and add the direct path */
            real gain[NORM_MAX_CHANNELS], slope[NORM_MAX_CHANNELS], offset[NORM_MAX_CHANNELS];
            for (int k = 0; k < site->cp; k++) {
                gain[k] = (real)(1 - t + t * (double)norm.gain[k]);
                slope[k] = (real)(t * (double)norm.slope[k]);
                offset[k] = (real)(t * (double)norm.offset[k]);
            }
            channel_grad(1, 1, site->pixels, site->cp, x + at, u + at, norm.scale, norm.shift, false, gain, slope,
                         offset, placed_dense(dx + at, 1, site->pixels, site->cp));
        }
    }
    seed_grad(seed, NORM_SIGMA)[0] += (real)dsigma;
}

/* ---- small dense layers on one row ------------------------------------------------------------------------------ */

static double sigmoid(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

/* out = w in (+ bias) */
static void dense_forward(int outputs, int inputs, const real *w, const real *bias, const real *in, double *out)
{
    for (int o = 0; o < outputs; o++) {
        double sum = bias ? (double)bias[o] : 0;
        for (int i = 0; i < inputs; i++)
            sum += (double)w[o * inputs + i] * (double)in[i];
        out[o] = sum;
    }
}

/* dw += dout in^T, dbias += dout, din = w^T dout; each only where given. */
static void dense_backward(int outputs, int inputs, const real *w, const real *in, const double *dout, real *dw,
                           real *dbias, double *din)
{
    for (int i = 0; din && i < inputs; i++)
        din[i] = 0;
    for (int o = 0; o < outputs; o++) {
        for (int i = 0; i < inputs; i++) {
            if (dw)
                dw[o * inputs + i] += (real)(dout[o] * (double)in[i]);
            if (din)
                din[i] += (double)w[o * inputs + i] * dout[o];
        }
        if (dbias)
            dbias[o] += (real)dout[o];
    }
}

/* ---- attention -------------------------------------------------------------------------------------------------- */

enum { SE_W1, SE_W2, SE_B2 };

void attention_begin(const struct seed *seed)
{
    memset(seed->g, 0, sizeof(real) * seed->layout->storage);
}

/* Saved per image in the norm's arrays: the mean in `centre`, the gate in `scale`, the hidden layer in `gain`. */
void attention_forward(const struct seed *seed, int first, int images, const real *x, real *s)
{
    const struct seed_site *site = seed->site;
    int hidden = blueprint_squeeze(site->channels);
    for (int n = 0; n < images; n++) {
        struct norm kept = seed_norm(site, 0, first + n);
        double z[NORM_MAX_CHANNELS];
        size_t at = (size_t)n * site->map;
        mean_forward(1, site->pixels, site->cp, x + at, kept.centre);
        dense_forward(hidden, site->channels, seed_tensor(seed, SE_W1), NULL, kept.centre, z);
        for (int k = 0; k < hidden; k++)
            kept.gain[k] = (real)(z[k] > 0 ? z[k] : 0);
        dense_forward(site->channels, hidden, seed_tensor(seed, SE_W2), seed_tensor(seed, SE_B2), kept.gain, z);
        for (int k = 0; k < site->cp; k++) {
            kept.scale[k] = k < site->channels ? (real)sigmoid(z[k]) : 0;
            kept.shift[k] = 0;
        }
        channel_affine(site->pixels, site->cp, x + at, kept.scale, kept.shift, false, NULL, s + at);
    }
}

void attention_backward(const struct seed *seed, int first, int images, const real *x, const real *u, real *dx)
{
    const struct seed_site *site = seed->site;
    int c = site->channels, hidden = blueprint_squeeze(c);
    const real zero[NORM_MAX_CHANNELS] = {0};
    for (int n = 0; n < images; n++) {
        struct norm kept = seed_norm(site, 0, first + n);
        double sum_u[NORM_MAX_CHANNELS] = {0}, sum_ux[NORM_MAX_CHANNELS] = {0};
        double dz[NORM_MAX_CHANNELS], dhidden[NORM_MAX_CHANNELS], dmean[NORM_MAX_CHANNELS];
        size_t at = (size_t)n * site->map;
        channel_grad_sums(site->pixels, site->cp, x + at, u + at, kept.scale, kept.shift, false, zero, sum_u, sum_ux);
        for (int k = 0; k < c; k++) {
            double e = (double)kept.scale[k];
            dz[k] = sum_ux[k] * e * (1 - e);
        }
        dense_backward(c, hidden, seed_tensor(seed, SE_W2), kept.gain, dz, seed->train ? seed_grad(seed, SE_W2) : NULL,
                       seed->train ? seed_grad(seed, SE_B2) : NULL, dhidden);
        for (int k = 0; k < hidden; k++)
            dhidden[k] = kept.gain[k] > 0 ? dhidden[k] : 0;
        dense_backward(hidden, c, seed_tensor(seed, SE_W1), kept.centre, dhidden,
                       seed->train ? seed_grad(seed, SE_W1) : NULL, NULL, dmean);
        if (dx) {
            real offset[NORM_MAX_CHANNELS];
            for (int k = 0; k < site->cp; k++)
                offset[k] = k < c ? (real)(dmean[k] / site->pixels) : 0;
            channel_grad(1, 1, site->pixels, site->cp, x + at, u + at, kept.scale, kept.shift, false, kept.scale, zero,
                         offset, placed_dense(dx + at, 1, site->pixels, site->cp));
        }
    }
}

/* ---- gate net --------------------------------------------------------------------------------------------------- */

enum { GATE_W1, GATE_B1, GATE_W2, GATE_B2 };

static size_t gate_offset(const struct seed_site *site, int tensor)
{
    return site->gate_layout.tensor[tensor].offset;
}

void gate_forward(const struct seed_site *site, const real *w, int first, int images, const real *x)
{
    for (int n = 0; n < images; n++) {
        real *mean = gate_mean(site, first + n), *hidden = gate_hidden(site, first + n);
        double z[NORM_MAX_CHANNELS], out;
        mean_forward(1, site->pixels, site->cp, x + (size_t)n * site->map, mean);
        dense_forward(site->neck, site->channels, w + gate_offset(site, GATE_W1), w + gate_offset(site, GATE_B1), mean,
                      z);
        for (int k = 0; k < site->neck; k++)
            hidden[k] = (real)(z[k] > 0 ? z[k] : 0);
        dense_forward(1, site->neck, w + gate_offset(site, GATE_W2), w + gate_offset(site, GATE_B2), hidden, &out);
        *gate_value(site, first + n) = (real)sigmoid(out);
    }
}

void gate_backward(const struct seed_site *site, const real *w, int first, int images, const real *dq, real *g,
                   real *dx)
{
    for (int n = 0; n < images; n++) {
        const real *mean = gate_mean(site, first + n), *hidden = gate_hidden(site, first + n);
        double q = (double)*gate_value(site, first + n), dout = (double)dq[n] * q * (1 - q);
        double dhidden[NORM_MAX_CHANNELS], dmean[NORM_MAX_CHANNELS];
        dense_backward(1, site->neck, w + gate_offset(site, GATE_W2), hidden, &dout,
                       g ? g + gate_offset(site, GATE_W2) : NULL, g ? g + gate_offset(site, GATE_B2) : NULL, dhidden);
        for (int k = 0; k < site->neck; k++)
            dhidden[k] = hidden[k] > 0 ? dhidden[k] : 0;
        dense_backward(site->neck, site->channels, w + gate_offset(site, GATE_W1), mean, dhidden,
                       g ? g + gate_offset(site, GATE_W1) : NULL, g ? g + gate_offset(site, GATE_B1) : NULL,
                       dx ? dmean : NULL);
        if (dx) {
            real row[NORM_MAX_CHANNELS];
            for (int k = 0; k < site->cp; k++)
                row[k] = k < site->channels ? (real)dmean[k] : 0;
            mean_backward(1, site->pixels, site->cp, row, false, dx + (size_t)n * site->map);
        }
    }
}
