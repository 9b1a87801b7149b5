/*
 * A training step of a host in plain loops and double precision, rounded to bf16 where the kernels of cnn_bf16 round
 * (src/cnn/bf16/host.cuh): the reference for their gradients.
 */
#ifndef TESTS_FAST_MODEL_H
#define TESTS_FAST_MODEL_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

extern "C" {
#include "cnn/shape.h"
}

static double rounded(double x)
{
    float f = (float)x;
    uint32_t u;
    memcpy(&u, &f, 4);
    u = (u + 0x7fffu + (u >> 16 & 1u)) & 0xffff0000u;
    memcpy(&f, &u, 4);
    return f;
}

static double bf16_of(uint32_t bits)
{
    uint32_t u = bits << 16;
    float f;
    memcpy(&f, &u, 4);
    return (double)f;
}

typedef std::vector<double> values;

struct model_block {
    int cin, cout, size;
    std::vector<double> weight, scale, shift, mean, var, rstd, sign;
    values in, raw, pooled, act, grad; /* NHWC; grad: of the block's output */
    std::vector<int> winner;
};

struct model {
    int images;
    double loss, correct;
    std::vector<struct model_block> block;
    std::vector<double> gradient; /* in the parameters' layout */
};

static void model_forward(struct model_block &b, int images, const float *gamma, const float *beta)
{
    const int s = b.size, half = s / 2, pixels = images * s * s;
    b.raw.assign((size_t)(pixels * b.cout), 0);
    for (int n = 0; n < images; n++)
        for (int y = 0; y < s; y++)
            for (int x = 0; x < s; x++)
                for (int tap = 0; tap < 9; tap++) {
                    const int iy = y + tap / 3 - 1, ix = x + tap % 3 - 1;
                    if (iy < 0 || iy >= s || ix < 0 || ix >= s)
                        continue;
                    const double *in = &b.in[(size_t)(((n * s + iy) * s + ix) * b.cin)];
                    double *out = &b.raw[(size_t)(((n * s + y) * s + x) * b.cout)];
                    for (int o = 0; o < b.cout; o++)
                        for (int i = 0; i < b.cin; i++)
                            out[o] += in[i] * b.weight[(size_t)((o * 9 + tap) * b.cin + i)];
                }
    b.mean.assign((size_t)b.cout, 0);
    b.var = b.rstd = b.scale = b.shift = b.mean;
    for (size_t i = 0; i < b.raw.size(); i++)
        b.mean[i % (size_t)b.cout] += b.raw[i] / pixels;
    for (size_t i = 0; i < b.raw.size(); i++)
        b.var[i % (size_t)b.cout] += pow(b.raw[i] - b.mean[i % (size_t)b.cout], 2) / pixels;
    for (size_t c = 0; c < (size_t)b.cout; c++) {
        b.rstd[c] = 1 / sqrt(b.var[c] + 1e-5);
        b.scale[c] = fabs(gamma[c]) * b.rstd[c];
        b.shift[c] = beta[c] - b.scale[c] * b.mean[c];
    }
    b.pooled.assign((size_t)(images * half * half * b.cout), 0);
    b.act = b.pooled;
    b.winner.assign(b.pooled.size(), 0);
    for (int n = 0; n < images; n++)
        for (int y = 0; y < half; y++)
            for (int x = 0; x < half; x++)
                for (int c = 0; c < b.cout; c++) {
                    const size_t at = (size_t)(((n * half + y) * half + x) * b.cout + c);
                    for (int k = 0; k < 4; k++) {
                        int from = ((n * s + 2 * y + k / 2) * s + 2 * x + k % 2) * b.cout + c;
                        if (k == 0 || b.raw[(size_t)from] > b.raw[(size_t)b.winner[at]])
                            b.winner[at] = from;
                    }
                    b.pooled[at] = rounded(b.raw[(size_t)b.winner[at]]);
                    b.act[at] = std::max(0.0, b.pooled[at] * b.scale[(size_t)c] + b.shift[(size_t)c]);
                }
}

/* From b.grad to the gradients of weight, gamma, beta, and of the input (rounded) where requested. */
static void model_backward(struct model_block &b, int images, double *dweight, double *dgamma, double *dbeta,
                           values *dx)
{
    const int s = b.size;
    const double count = (double)images * s * s;
    std::vector<double> sum((size_t)b.cout, 0), moment(sum);
    values dz(b.raw.size(), 0);
    for (size_t i = 0; i < b.grad.size(); i++) {
        const size_t c = i % (size_t)b.cout;
        const double g = b.act[i] > 0 ? b.grad[i] : 0;
        sum[c] += g;
        moment[c] += g * (b.pooled[i] - b.mean[c]) * b.rstd[c];
        dz[(size_t)b.winner[i]] = g;
    }
    for (size_t i = 0; i < dz.size(); i++) {
        const size_t c = i % (size_t)b.cout;
        const double hat = (b.raw[i] - b.mean[c]) * b.rstd[c];
        dz[i] = rounded(b.scale[c] * (dz[i] - sum[c] / count - hat * moment[c] / count));
    }
    for (size_t c = 0; c < (size_t)b.cout; c++) {
        dgamma[c] = b.sign[c] * moment[c];
        dbeta[c] = sum[c];
    }
    if (dx)
        dx->assign(b.in.size(), 0);
    for (int n = 0; n < images; n++)
        for (int y = 0; y < s; y++)
            for (int x = 0; x < s; x++)
                for (int tap = 0; tap < 9; tap++) {
                    const int iy = y + tap / 3 - 1, ix = x + tap % 3 - 1;
                    if (iy < 0 || iy >= s || ix < 0 || ix >= s)
                        continue;
                    const size_t in = (size_t)(((n * s + iy) * s + ix) * b.cin);
                    const double *g = &dz[(size_t)(((n * s + y) * s + x) * b.cout)];
                    for (int o = 0; o < b.cout; o++)
                        for (int i = 0; i < b.cin; i++) {
                            const size_t w = (size_t)((o * 9 + tap) * b.cin + i);
                            dweight[w] += b.sign[(size_t)o] * g[o] * b.in[in + (size_t)i];
                            if (dx)
                                (*dx)[in + (size_t)i] += g[o] * b.weight[w];
                        }
                }
    if (dx)
        for (double &v : *dx)
            v = rounded(v);
}

static void model_head(struct model &m, const struct net_shape *shape, const float *params, const uint8_t *labels)
{
    struct model_block &last = m.block.back();
    const int features = cnn_shape_of(shape)->features, pixels = last.size * last.size / 4;
    const size_t weight = shape->host.tensor[cnn_shape_of(shape)->fc_weight].offset,
                 bias = shape->host.tensor[cnn_shape_of(shape)->fc_bias].offset;
    last.grad.assign(last.act.size(), 0);
    for (int n = 0; n < m.images; n++) {
        std::vector<double> mean((size_t)features, 0), d((size_t)features, 0);
        double logit[SHAPE_CLASSES], total = 0;
        for (int p = 0; p < pixels; p++)
            for (int c = 0; c < features; c++)
                mean[(size_t)c] += last.act[(size_t)((n * pixels + p) * features + c)] / pixels;
        int best = 0;
        for (int k = 0; k < SHAPE_CLASSES; k++) {
            logit[k] = (double)params[bias + (size_t)k];
            for (int c = 0; c < features; c++)
                logit[k] += mean[(size_t)c] * (double)params[weight + (size_t)(k * features + c)];
            best = logit[k] > logit[best] ? k : best;
        }
        for (double v : logit)
            total += exp(v - logit[best]);
        m.loss += log(total) + logit[best] - logit[labels[n]];
        m.correct += best == labels[n];
        for (int k = 0; k < SHAPE_CLASSES; k++) {
            const double g = (exp(logit[k] - logit[best]) / total - (k == labels[n])) / m.images;
            m.gradient[bias + (size_t)k] += g;
            for (int c = 0; c < features; c++) {
                m.gradient[weight + (size_t)(k * features + c)] += g * mean[(size_t)c];
                d[(size_t)c] += g * (double)params[weight + (size_t)(k * features + c)];
            }
        }
        for (int p = 0; p < pixels; p++)
            for (int c = 0; c < features; c++)
                last.grad[(size_t)((n * pixels + p) * features + c)] = rounded(d[(size_t)c] / pixels);
    }
}

/* Loss and gradients of a batch: pixels as gathered, [image][y][x][4]. */
static struct model model_of(const struct net_shape *shape, const float *params, const uint2 *pixels,
                             const uint8_t *labels, int images)
{
    struct model m = {};
    m.images = images;
    m.gradient.assign(shape->host.storage, 0);
    for (int i = 0; i < cnn_shape_of(shape)->blocks; i++) {
        const struct block_shape *from = &cnn_shape_of(shape)->block[i];
        const float *gamma = params + shape->host.tensor[from->gamma].offset;
        struct model_block b = {};
        b.cin = from->cin;
        b.cout = from->cout;
        b.size = from->height;
        for (int o = 0; o < b.cout; o++) {
            b.sign.push_back(gamma[o] < 0 ? -1 : 1);
            for (int k = 0; k < 9 * b.cin; k++)
                b.weight.push_back(
                    b.sign.back() *
                    rounded((double)params[shape->host.tensor[from->weight].offset + (size_t)(o * 9 * b.cin + k)]));
        }
        if (i == 0)
            for (size_t p = 0; p < (size_t)(images * b.size * b.size); p++) {
                const double rgb[3] = {bf16_of(pixels[p].x & 0xffffu), bf16_of(pixels[p].x >> 16),
                                       bf16_of(pixels[p].y & 0xffffu)};
                b.in.insert(b.in.end(), rgb, rgb + 3);
            }
        else
            for (double v : m.block.back().act)
                b.in.push_back(rounded(v));
        model_forward(b, images, gamma, params + shape->host.tensor[from->beta].offset);
        m.block.push_back(std::move(b));
    }
    model_head(m, shape, params, labels);
    for (int i = cnn_shape_of(shape)->blocks - 1; i >= 0; i--) {
        const struct block_shape *from = &cnn_shape_of(shape)->block[i];
        double *g = m.gradient.data();
        model_backward(m.block[(size_t)i], images, g + shape->host.tensor[from->weight].offset,
                       g + shape->host.tensor[from->gamma].offset, g + shape->host.tensor[from->beta].offset,
                       i ? &m.block[(size_t)i - 1].grad : NULL);
    }
    return m;
}

#endif
