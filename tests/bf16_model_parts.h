/*
 * What the bf16 models of tests are made of, in plain loops and double precision: rounding, convolutions, norms, seeds,
 * blends and pools.
 */
#ifndef TESTS_BF16_MODEL_PARTS_H
#define TESTS_BF16_MODEL_PARTS_H

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

extern "C" {
#include "check/networks.h"
#include "nn/norm.h"
}

#include "attention_model.h"

/* Sums in another order differ in their last bits. That moves some values across a boundary of rounding or a kink, and
 * those move gradients: how far, a model shows whose values are off by up to this much, relative, before they are
 * rounded. */
static double blur;
static uint64_t blur_state;

static float rounded(float x)
{
    uint32_t u;
    if (blur > 0) {
        blur_state = blur_state * 6364136223846793005u + 1442695040888963407u;
        x *= (float)(1 + blur * ((double)(blur_state >> 32) / 2147483648.0 - 1));
    }
    memcpy(&u, &x, 4);
    u = (u + 0x7fffu + (u >> 16 & 1u)) & 0xffff0000u;
    memcpy(&x, &u, 4);
    return x;
}

typedef std::vector<double> map_of; /* [channel][y][x] of one image */

struct model { /* of a map's size */
    int channels, size;
    static double r(double x)
    {
        return (double)rounded((float)x);
    }
    static void round(map_of &m)
    {
        for (double &x : m)
            x = r(x);
    }
    int area() const
    {
        return size * size;
    }

    /* out[o] = sum w[o][tap][i] in[i]; transposed where `back` */
    map_of convolve(const map_of &in, int cin, int cout, int kernel, const float *w, bool back) const
    {
        const int from = back ? cout : cin, to = back ? cin : cout, taps = kernel * kernel, half = kernel / 2;
        map_of out((size_t)(to * area()));
        for (int o = 0; o < to; o++)
            for (int i = 0; i < from; i++)
                for (int t = 0; t < taps; t++) {
                    const int dy = t / kernel - half, dx = t % kernel - half;
                    const double c = r(back ? w[(i * taps + taps - 1 - t) * cin + o] : w[(o * taps + t) * cin + i]);
                    for (int y = std::max(0, -dy); y < std::min(size, size - dy); y++)
                        for (int x = std::max(0, -dx); x < std::min(size, size - dx); x++)
                            out[(size_t)(o * area() + y * size + x)] +=
                                c * in[(size_t)(i * area() + (y + dy) * size + x + dx)];
                }
        return out;
    }
    void convolve_weights(const map_of &in, const map_of &g, int cin, int cout, int kernel, double *dw) const
    {
        const int taps = kernel * kernel, half = kernel / 2;
        for (int o = 0; o < cout; o++)
            for (int i = 0; i < cin; i++)
                for (int t = 0; t < taps; t++) {
                    const int dy = t / kernel - half, dx = t % kernel - half;
                    double sum = 0;
                    for (int y = std::max(0, -dy); y < std::min(size, size - dy); y++)
                        for (int x = std::max(0, -dx); x < std::min(size, size - dx); x++)
                            sum += g[(size_t)(o * area() + y * size + x)] *
                                   in[(size_t)(i * area() + (y + dy) * size + x + dx)];
                    dw[(o * taps + t) * cin + i] += sum;
                }
    }
    map_of depthwise(const map_of &in, const float *w, bool back) const
    {
        map_of out(in.size());
        for (int c = 0; c < channels; c++)
            for (int t = 0; t < 9; t++)
                for (int y = 0; y < size; y++)
                    for (int x = 0; x < size; x++) {
                        const int v = y + t / 3 - 1, u = x + t % 3 - 1;
                        if (v >= 0 && v < size && u >= 0 && u < size)
                            out[(size_t)(c * area() + y * size + x)] += r(w[(back ? 8 - t : t) * channels + c]) *
                                                                        in[(size_t)(c * area() + v * size + u)];
                    }
        return out;
    }
    void depthwise_weights(const map_of &in, const map_of &g, double *dw) const
    {
        for (int c = 0; c < channels; c++)
            for (int t = 0; t < 9; t++)
                for (int y = 0; y < size; y++)
                    for (int x = 0; x < size; x++) {
                        const int v = y + t / 3 - 1, u = x + t % 3 - 1;
                        if (v >= 0 && v < size && u >= 0 && u < size)
                            dw[t * channels + c] += g[(size_t)(c * area() + y * size + x)] *
                                                    in[(size_t)(c * area() + v * size + u)];
                    }
    }
};

struct model_norm {
    std::vector<double> mean, rstd, scale, shift;
    void forward(const model &m, const map_of &z, int channels, const float *gamma, const float *beta)
    {
        const int groups = group_count(channels), each = channels / groups, area = m.area();
        mean.assign((size_t)channels, 0);
        rstd = scale = shift = mean;
        for (int g = 0; g < groups; g++) {
            double sum = 0, square = 0, count = (double)each * area;
            for (int k = g * each * area; k < (g + 1) * each * area; k++)
                sum += z[(size_t)k];
            for (int k = g * each * area; k < (g + 1) * each * area; k++)
                square += (z[(size_t)k] - sum / count) * (z[(size_t)k] - sum / count);
            for (int c = g * each; c < (g + 1) * each; c++) {
                mean[(size_t)c] = sum / count;
                rstd[(size_t)c] = 1 / std::sqrt(square / count + 1e-5);
                scale[(size_t)c] = gamma[c] * rstd[(size_t)c];
                shift[(size_t)c] = beta[c] - mean[(size_t)c] * scale[(size_t)c];
            }
        }
    }
    map_of backward(const model &m, const map_of &z, const map_of &v, int channels, const float *gamma, double *dgamma,
                    double *dbeta) const
    {
        const int groups = group_count(channels), each = channels / groups, area = m.area();
        map_of out(z.size());
        for (int g = 0; g < groups; g++) {
            double mean_v = 0, mean_vx = 0, count = (double)each * area;
            for (int c = g * each; c < (g + 1) * each; c++) {
                double sum = 0, moment = 0;
                for (int p = 0; p < area; p++) {
                    sum += v[(size_t)(c * area + p)];
                    moment += v[(size_t)(c * area + p)] * (z[(size_t)(c * area + p)] - mean[(size_t)c]) *
                              rstd[(size_t)c];
                }
                dgamma[c] += moment;
                dbeta[c] += sum;
                mean_v += gamma[c] * sum / count;
                mean_vx += gamma[c] * moment / count;
            }
            for (int c = g * each; c < (g + 1) * each; c++)
                for (int p = 0; p < area; p++) {
                    const size_t k = (size_t)(c * area + p);
                    out[k] = rstd[(size_t)c] *
                             (gamma[c] * v[k] - mean_v - (z[k] - mean[(size_t)c]) * rstd[(size_t)c] * mean_vx);
                }
        }
        return out;
    }
};

/* One seed on one image: forward keeps what backward needs. */
struct model_seed {
    model m;
    int blueprint;
    const float *w;
    struct param_layout layout;
    map_of x, in[CHAIN_STEPS], pre[CHAIN_STEPS], d; /* d: what is added to the input */
    model_norm norm[CHAIN_STEPS];
    model_attention attention;

    model_seed(const model &model_, int blueprint_, const float *w_) : m(model_), blueprint(blueprint_), w(w_)
    {
        blueprint_layout(blueprint, m.channels, &layout);
    }
    const float *tensor(int t) const
    {
        return w + layout.tensor[t].offset;
    }
    int width(int which) const
    {
        return which == WIDTH_SLOT ? m.channels : blueprint_neck(m.channels);
    }

    void forward(const map_of &input)
    {
        const struct seed_blueprint *b = blueprint_at(blueprint);
        const int area = m.area(), c = m.channels;
        x = input;
        d.assign(x.size(), 0);
        if (b->kind == SEED_CHAIN) {
            map_of now = x;
            int t = 0;
            for (int i = 0; i < b->steps; i++) {
                const struct chain_step &step = b->step[i];
                const int to = width(step.to);
                in[i] = now;
                if (step.kind == STEP_DEPTHWISE)
                    pre[i] = m.depthwise(now, tensor(t++), false);
                else
                    pre[i] = m.convolve(now, width(step.from), to, step.kind == STEP_CONV3 ? 3 : 1, tensor(t++), false);
                const bool normed = step.act == ACT_NORM || step.act == ACT_NORM_RELU;
                if (normed) {
                    norm[i].forward(m, pre[i], to, tensor(t), tensor(t + 1));
                    t += 2;
                }
                m.round(pre[i]);
                now = pre[i];
                for (int k = 0; k < to * area; k++) {
                    double &v = now[(size_t)k];
                    if (normed)
                        v = v * norm[i].scale[(size_t)(k / area)] + norm[i].shift[(size_t)(k / area)];
                    if (step.act == ACT_RELU || step.act == ACT_NORM_RELU)
                        v = v > 0 ? v : 0;
                }
                m.round(now);
            }
            d = now;
        } else if (b->kind == SEED_NORM) {
            norm[0].forward(m, x, c, tensor(0), tensor(1));
            const double mix = std::tanh((double)tensor(2)[0]);
            for (int k = 0; k < c * area; k++)
                d[(size_t)k] = mix * (x[(size_t)k] * norm[0].scale[(size_t)(k / area)] +
                                      norm[0].shift[(size_t)(k / area)] - x[(size_t)k]);
            m.round(d);
        } else if (b->kind == SEED_ATTENTION) {
            attention.forward(w, layout, x, area);
            for (int k = 0; k < c * area; k++)
                d[(size_t)k] = x[(size_t)k] * (attention.open[(size_t)(k / area)] - 1);
            m.round(d);
        }
    }

    /* From the gradient of d to what reaches the input through it. */
    map_of backward(const map_of &u, double *grad)
    {
        const struct seed_blueprint *b = blueprint_at(blueprint);
        const int area = m.area(), c = m.channels;
        map_of dx(u.size());
        if (b->kind == SEED_CHAIN) {
            map_of g = u;
            int t = layout.count;
            for (int i = b->steps - 1; i >= 0; i--) {
                const struct chain_step &step = b->step[i];
                const int to = width(step.to), from = width(step.from);
                const bool normed = step.act == ACT_NORM || step.act == ACT_NORM_RELU;
                t -= normed ? 3 : 1;
                for (int k = 0; k < to * area; k++) {
                    double v = pre[i][(size_t)k];
                    if (normed)
                        v = v * norm[i].scale[(size_t)(k / area)] + norm[i].shift[(size_t)(k / area)];
                    if ((step.act == ACT_RELU || step.act == ACT_NORM_RELU) && !(v > 0))
                        g[(size_t)k] = 0;
                }
                if (normed) {
                    g = norm[i].backward(m, pre[i], g, to, tensor(t + 1), grad + layout.tensor[t + 1].offset,
                                         grad + layout.tensor[t + 2].offset);
                    m.round(g);
                }
                double *dw = grad + layout.tensor[t].offset;
                if (step.kind == STEP_DEPTHWISE) {
                    m.depthwise_weights(in[i], g, dw);
                    g = m.depthwise(g, tensor(t), true);
                } else {
                    const int kernel = step.kind == STEP_CONV3 ? 3 : 1;
                    m.convolve_weights(in[i], g, from, to, kernel, dw);
                    g = m.convolve(g, from, to, kernel, tensor(t), true);
                }
                m.round(g);
            }
            dx = g;
        } else if (b->kind == SEED_NORM) {
            const double mix = std::tanh((double)tensor(2)[0]);
            std::vector<double> dgamma((size_t)c), dbeta((size_t)c);
            map_of inner = norm[0].backward(m, x, u, c, tensor(0), dgamma.data(), dbeta.data());
            for (int k = 0; k < c; k++) {
                grad[layout.tensor[0].offset + (size_t)k] += mix * dgamma[(size_t)k];
                grad[layout.tensor[1].offset + (size_t)k] += mix * dbeta[(size_t)k];
            }
            for (int k = 0; k < c * area; k++) {
                const size_t e = (size_t)k, ch = (size_t)(k / area);
                dx[e] = mix * (inner[e] - u[e]);
                grad[layout.tensor[2].offset] += (1 - mix * mix) * u[e] *
                                                 (x[e] * norm[0].scale[ch] + norm[0].shift[ch] - x[e]);
            }
            m.round(dx);
        } else if (b->kind == SEED_ATTENTION) {
            const std::vector<double> dm = attention.backward(w, layout, u, x, grad);
            for (int k = 0; k < c * area; k++)
                dx[(size_t)k] = u[(size_t)k] * (attention.open[(size_t)(k / area)] - 1) + dm[(size_t)(k / area)] / area;
            m.round(dx);
        }
        return dx;
    }
};

/* A blended slot on one image. */
struct model_blend {
    model_seed seed;
    struct slot_exec exec;
    const float *gate;
    struct param_layout gates;
    double q, a;
    std::vector<double> mean, hidden;
    map_of h;

    model_blend(const model &m, const struct slot_exec &e, const float *w, const float *gate_)
        : seed(m, e.blueprint, w), exec(e), gate(gate_), q(1), a(e.alpha)
    {
        gate_layout(m.channels, &gates);
    }
    map_of forward(const map_of &input)
    {
        const int c = seed.m.channels, area = seed.m.area(), n = blueprint_neck(c);
        h = input;
        seed.forward(h);
        if (exec.gate) {
            mean.assign((size_t)c, 0);
            hidden.assign((size_t)n, 0);
            for (int k = 0; k < c * area; k++)
                mean[(size_t)(k / area)] += h[(size_t)k] / area;
            double z = gate[gates.tensor[3].offset];
            for (int o = 0; o < n; o++) {
                hidden[(size_t)o] = gate[gates.tensor[1].offset + (size_t)o];
                for (int i = 0; i < c; i++)
                    hidden[(size_t)o] += gate[gates.tensor[0].offset + (size_t)(o * c + i)] * mean[(size_t)i];
                hidden[(size_t)o] = std::max(0.0, hidden[(size_t)o]);
                z += gate[gates.tensor[2].offset + (size_t)o] * hidden[(size_t)o];
            }
            q = 1 / (1 + std::exp(-z));
        }
        a = exec.alpha * q;
        map_of y = h;
        for (size_t k = 0; k < y.size() && exec.alpha > 0; k++)
            y[k] = exec.algorithm == ALGORITHM_MULTIPLY ? h[k] * (1 + a * std::tanh(seed.d[k])) : h[k] + a * seed.d[k];
        seed.m.round(y);
        return y;
    }
    map_of backward(const map_of &g, double *grad, double *gate_grad)
    {
        if (exec.alpha == 0)
            return g;
        const int c = seed.m.channels, area = seed.m.area(), n = blueprint_neck(c);
        map_of dh = g, ds = g;
        double da = 0;
        for (size_t k = 0; k < g.size(); k++) {
            if (exec.algorithm == ALGORITHM_MULTIPLY) {
                const double t = std::tanh(seed.d[k]);
                ds[k] = a * seed.m.r(g[k] * h[k] * (1 - t * t));
                dh[k] = g[k] * (1 + a * t);
            } else {
                ds[k] = a * g[k];
                da += g[k] * seed.d[k];
            }
        }
        seed.m.round(dh);
        map_of dx = seed.backward(ds, grad);
        for (size_t k = 0; k < g.size(); k++)
            dh[k] += dx[k];
        if (exec.gate) {
            const double dout = da * exec.alpha * q * (1 - q);
            gate_grad[gates.tensor[3].offset] += dout;
            for (int o = 0; o < n; o++) {
                gate_grad[gates.tensor[2].offset + (size_t)o] += dout * hidden[(size_t)o];
                const double d = hidden[(size_t)o] > 0 ? dout * gate[gates.tensor[2].offset + (size_t)o] : 0;
                gate_grad[gates.tensor[1].offset + (size_t)o] += d;
                for (int i = 0; i < c; i++) {
                    gate_grad[gates.tensor[0].offset + (size_t)(o * c + i)] += d * mean[(size_t)i];
                    for (int p = 0; p < area; p++)
                        dh[(size_t)(i * area + p)] += d * gate[gates.tensor[0].offset + (size_t)(o * c + i)] / area;
                }
            }
        }
        return dh;
    }
};

static map_of pooled_of(const map_of &x, int channels, int size)
{
    const int half = size / 2;
    map_of out((size_t)(channels * half * half));
    for (int c = 0; c < channels; c++)
        for (int k = 0; k < half * half; k++) {
            const double *w = &x[(size_t)(c * size * size + k / half * 2 * size + k % half * 2)];
            out[(size_t)(c * half * half + k)] = std::max(std::max(w[0], w[1]), std::max(w[size], w[size + 1]));
        }
    return out;
}

static map_of unpool(const map_of &x, const map_of &g, int channels, int size)
{
    const int half = size / 2;
    map_of out(x.size());
    for (int c = 0; c < channels; c++)
        for (int k = 0; k < half * half; k++) {
            const size_t at = (size_t)(c * size * size + k / half * 2 * size + k % half * 2);
            const size_t cell[4] = {at, at + 1, at + (size_t)size, at + (size_t)size + 1};
            int best = 0;
            for (int i = 1; i < 4; i++)
                best = x[cell[i]] > x[cell[best]] ? i : best;
            out[cell[best]] = g[(size_t)(c * half * half + k)];
        }
    return out;
}

#endif
