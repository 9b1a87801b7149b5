/*
 * A training step of a host with its seeds in plain loops and double precision, after blueprint.h, rounded to bf16
 * where the kernels of cnn_bf16 round (src/cnn/bf16/host.cuh, seed.cuh): the reference for their gradients.
 */
#ifndef TESTS_BF16_MODEL_H
#define TESTS_BF16_MODEL_H

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

/* ---- the host ---------------------------------------------------------------------------------------------------- */

/* What a slot holds, and where its gradients go. */
struct model_slot {
    struct slot_exec exec;
    const float *seed, *gate;
    double *seed_grad, *gate_grad;
};

struct model_block {
    model full, half;
    int cin, images;
    std::vector<float> weight; /* negated where gamma is negative: the norm then has a positive scale */
    std::vector<double> mean, var, rstd, scale, shift, sign;
    std::vector<map_of> in, raw, pooled, h, y, p, out, grad; /* of every image; grad: of the output */
    std::vector<std::vector<size_t>> winner;                 /* of a window, among exact values */
    std::vector<model_blend> blend[SLOT_ROWS];

    int channels() const
    {
        return full.channels;
    }
    /* The block's output before the slots, of a value as it is stored. */
    double active(double z, int c) const
    {
        return std::max(0.0, z * scale[(size_t)c] + shift[(size_t)c]);
    }

    void normalise(const float *gamma, const float *beta)
    {
        const int area = full.area();
        const double count = (double)images * area;
        mean.assign((size_t)channels(), 0);
        var = rstd = scale = shift = mean;
        for (const map_of &m : raw)
            for (size_t k = 0; k < m.size(); k++)
                mean[k / (size_t)area] += m[k] / count;
        for (const map_of &m : raw)
            for (size_t k = 0; k < m.size(); k++)
                var[k / (size_t)area] += std::pow(m[k] - mean[k / (size_t)area], 2) / count;
        for (size_t c = 0; c < mean.size(); c++) {
            rstd[c] = 1 / std::sqrt(var[c] + 1e-5);
            scale[c] = std::fabs(gamma[c]) * rstd[c];
            shift[c] = beta[c] - scale[c] * mean[c];
        }
    }

    void forward(const float *gamma, const float *beta, const struct model_slot slot[SLOT_ROWS])
    {
        const int size = full.size, area = full.area(), few = half.area();
        for (const map_of &x : in)
            raw.push_back(full.convolve(x, cin, channels(), 3, weight.data(), false));
        normalise(gamma, beta);
        for (const map_of &z : raw) {
            std::vector<size_t> best((size_t)(channels() * few));
            map_of top(best.size()), whole = z, small(best.size());
            for (size_t k = 0; k < best.size(); k++) {
                const size_t w = k % (size_t)few, s = (size_t)size,
                             at = k / (size_t)few * (size_t)area + w / (s / 2) * 2 * s + w % (s / 2) * 2;
                best[k] = at;
                for (size_t other : {at + 1, at + s, at + s + 1})
                    best[k] = z[other] > z[best[k]] ? other : best[k];
                top[k] = model::r(z[best[k]]);
                small[k] = active(top[k], (int)k / few);
            }
            for (size_t k = 0; k < whole.size(); k++)
                whole[k] = model::r(active(model::r(z[k]), (int)k / area));
            winner.push_back(best);
            pooled.push_back(top);
            h.push_back(whole);
            out.push_back(small); /* exact for the head; the next block reads it rounded */
            model::round(small);
            map_of after = whole;
            for (int row = 0; row < SLOT_ROWS; row++)
                blend[row].emplace_back(row ? half : full, slot[row].exec, slot[row].seed, slot[row].gate);
            if (slot[0].exec.mode == SLOT_BLEND) {
                after = blend[0].back().forward(whole);
                small = out.back() = pooled_of(after, channels(), size);
            }
            y.push_back(after);
            p.push_back(small);
            if (slot[1].exec.mode == SLOT_BLEND)
                out.back() = blend[1].back().forward(small);
        }
    }

    /* From the gradient of the output to that of every pixel's input of the ReLU; sums as the norm needs them. */
    map_of through_slots(size_t n, const struct model_slot slot[SLOT_ROWS], std::vector<double> &sum,
                         std::vector<double> &moment)
    {
        const int area = full.area(), few = half.area();
        map_of g = grad[n], at(raw[n].size());
        if (slot[1].exec.mode == SLOT_BLEND) {
            g = blend[1][n].backward(g, slot[1].seed_grad, slot[1].gate_grad);
            model::round(g);
        } else if (slot[1].exec.mode == SLOT_STE) {
            model_seed leaf(half, slot[1].exec.blueprint, slot[1].seed);
            leaf.forward(p[n]);
            leaf.backward(g, slot[1].seed_grad);
        }
        if (slot[0].exec.mode == SLOT_BLEND) {
            at = blend[0][n].backward(unpool(y[n], g, channels(), full.size), slot[0].seed_grad, slot[0].gate_grad);
            for (size_t k = 0; k < at.size(); k++) {
                at[k] = h[n][k] > 0 ? model::r(at[k]) : 0;
                sum[k / (size_t)area] += at[k];
                moment[k / (size_t)area] += at[k] * model::r(raw[n][k]);
            }
            return at;
        }
        if (slot[0].exec.mode == SLOT_STE) {
            model_seed leaf(full, slot[0].exec.blueprint, slot[0].seed);
            leaf.forward(h[n]);
            leaf.backward(unpool(h[n], g, channels(), full.size), slot[0].seed_grad);
        }
        for (size_t k = 0; k < g.size(); k++) {
            const double v = p[n][k] > 0 ? g[k] : 0;
            sum[k / (size_t)few] += v;
            moment[k / (size_t)few] += v * pooled[n][k];
            at[winner[n][k]] = v;
        }
        return at;
    }

    void backward(const struct model_slot slot[SLOT_ROWS], double *dweight, double *dgamma, double *dbeta,
                  std::vector<map_of> *dx)
    {
        const size_t area = (size_t)full.area();
        const double count = (double)images * (double)area;
        std::vector<double> sum((size_t)channels(), 0), moment(sum);
        std::vector<map_of> dz;
        for (size_t n = 0; n < raw.size(); n++)
            dz.push_back(through_slots(n, slot, sum, moment));
        for (size_t c = 0; c < sum.size(); c++) {
            moment[c] = (moment[c] - mean[c] * sum[c]) * rstd[c];
            dgamma[c] = sign[c] * moment[c];
            dbeta[c] = sum[c];
        }
        for (size_t n = 0; n < raw.size(); n++) {
            for (size_t k = 0; k < dz[n].size(); k++) {
                const size_t c = k / area;
                const double hat = (raw[n][k] - mean[c]) * rstd[c];
                dz[n][k] = model::r(scale[c] * (dz[n][k] - sum[c] / count - hat * moment[c] / count));
            }
            full.convolve_weights(in[n], dz[n], cin, channels(), 3, dweight);
            if (dx) {
                dx->push_back(full.convolve(dz[n], cin, channels(), 3, weight.data(), true));
                model::round(dx->back());
            }
        }
        for (size_t k = 0; k < weight.size(); k++)
            dweight[k] *= sign[k / (size_t)(9 * cin)];
    }
};

struct model_step {
    double loss = 0, correct = 0;
    std::vector<double> host_grad; /* in the parameters' layout */
    std::vector<struct model_block> block;
};

static void model_head(struct model_step &step, const struct cnn_shape &shape, const float *params,
                       const std::vector<int> &labels)
{
    struct model_block &last = step.block.back();
    const int features = shape.features, pixels = last.half.area();
    const size_t weight = shape.net.host.tensor[shape.fc_weight].offset,
                 bias = shape.net.host.tensor[shape.fc_bias].offset;
    for (size_t n = 0; n < labels.size(); n++) {
        std::vector<double> mean((size_t)features, 0), d((size_t)features, 0);
        double logit[SHAPE_CLASSES], total = 0;
        for (size_t k = 0; k < last.out[n].size(); k++)
            mean[k / (size_t)pixels] += last.out[n][k] / pixels;
        int best = 0;
        for (int k = 0; k < SHAPE_CLASSES; k++) {
            logit[k] = (double)params[bias + (size_t)k];
            for (int c = 0; c < features; c++)
                logit[k] += mean[(size_t)c] * (double)params[weight + (size_t)(k * features + c)];
            best = logit[k] > logit[best] ? k : best;
        }
        for (double v : logit)
            total += std::exp(v - logit[best]);
        step.loss += std::log(total) + logit[best] - logit[labels[n]];
        step.correct += best == labels[n];
        for (int k = 0; k < SHAPE_CLASSES; k++) {
            const double g = (std::exp(logit[k] - logit[best]) / total - (k == labels[n])) / (double)labels.size();
            step.host_grad[bias + (size_t)k] += g;
            for (int c = 0; c < features; c++) {
                step.host_grad[weight + (size_t)(k * features + c)] += g * mean[(size_t)c];
                d[(size_t)c] += g * (double)params[weight + (size_t)(k * features + c)];
            }
        }
        map_of grad(last.out[n].size());
        for (size_t k = 0; k < grad.size(); k++)
            grad[k] = model::r(d[k / (size_t)pixels] / pixels);
        last.grad.push_back(grad);
    }
}

/* Loss and gradients of a batch of images [channel][y][x]; slot[block][row]. */
static struct model_step model_of(const struct cnn_shape &shape, const float *params, const std::vector<map_of> &images,
                                  const std::vector<int> &labels, const struct model_slot (*slot)[SLOT_ROWS])
{
    struct model_step step;
    step.host_grad.assign(shape.net.host.storage, 0);
    for (int i = 0; i < shape.blocks; i++) {
        const struct block_shape &from = shape.block[i];
        const float *gamma = params + shape.net.host.tensor[from.gamma].offset,
                    *weight = params + shape.net.host.tensor[from.weight].offset;
        struct model_block b = {};
        b.full = {from.cout, from.height};
        b.half = {from.cout, from.height / 2};
        b.cin = from.cin;
        b.images = (int)images.size();
        for (int o = 0; o < from.cout; o++) {
            b.sign.push_back(gamma[o] < 0 ? -1 : 1);
            for (int k = 0; k < 9 * from.cin; k++)
                b.weight.push_back((float)b.sign.back() * weight[o * 9 * from.cin + k]);
        }
        b.in = i ? step.block.back().out : images;
        for (map_of &m : b.in)
            model::round(m);
        b.forward(gamma, params + shape.net.host.tensor[from.beta].offset, slot[i]);
        step.block.push_back(std::move(b));
    }
    model_head(step, shape, params, labels);
    for (int i = shape.blocks - 1; i >= 0; i--) {
        const struct block_shape &from = shape.block[i];
        double *g = step.host_grad.data();
        step.block[(size_t)i].backward(
            slot[i], g + shape.net.host.tensor[from.weight].offset, g + shape.net.host.tensor[from.gamma].offset,
            g + shape.net.host.tensor[from.beta].offset, i ? &step.block[(size_t)i - 1].grad : nullptr);
    }
    return step;
}

#endif
