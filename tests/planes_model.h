/*
 * The same step as bf16_model.h has it, rounded where the kernels of cnn_planes round (src/cnn/planes/planes.cuh): the
 * reference for their gradients. Square images of any size, any kernel and number of pools.
 */
#ifndef TESTS_PLANES_MODEL_H
#define TESTS_PLANES_MODEL_H

#include "bf16_model.h"

/* Of a map, element by element. */
template <class F> static map_of mapped(const map_of &x, F f)
{
    map_of y(x.size());
    for (size_t k = 0; k < x.size(); k++)
        y[k] = model::r(f(k));
    return y;
}

/* One seed on one image, whose output s is stored: forward keeps what backward needs. */
struct planes_seed {
    model m;
    const struct seed_blueprint *b;
    const float *w;
    struct param_layout layout;
    map_of x, s, in[CHAIN_STEPS], pre[CHAIN_STEPS];
    model_norm norm[CHAIN_STEPS];
    model_attention attention;

    planes_seed(const model &model_, int blueprint, const float *w_) : m(model_), b(blueprint_at(blueprint)), w(w_)
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
    size_t channel(size_t k) const
    {
        return k / (size_t)m.area();
    }
    static bool normed(const struct chain_step &step)
    {
        return step.act == ACT_NORM || step.act == ACT_NORM_RELU;
    }
    static bool cut(const struct chain_step &step)
    {
        return step.act == ACT_RELU || step.act == ACT_NORM_RELU;
    }
    /* What a step makes of pre[i], before a ReLU. */
    double affine(int i, size_t k) const
    {
        const double v = pre[i][k];
        return normed(b->step[i]) ? v * norm[i].scale[channel(k)] + norm[i].shift[channel(k)] : v;
    }

    void chain_forward()
    {
        map_of now = x;
        for (int i = 0, t = 0; i < b->steps; i++) {
            const struct chain_step &step = b->step[i];
            const int to = width(step.to), kernel = step.kind == STEP_CONV3 ? 3 : 1;
            in[i] = now;
            pre[i] = step.kind == STEP_DEPTHWISE ? m.depthwise(now, tensor(t), false)
                                                 : m.convolve(now, width(step.from), to, kernel, tensor(t), false);
            m.round(pre[i]);
            t++;
            if (normed(step)) {
                norm[i].forward(m, pre[i], to, tensor(t), tensor(t + 1));
                t += 2;
            }
            const bool last = i + 1 == b->steps;
            now = mapped(pre[i], [&](size_t k) {
                const double z = affine(i, k), v = cut(step) && !(z > 0) ? 0 : z;
                return last ? v + x[k] : v;
            });
        }
        s = now;
    }
    void attention_forward()
    {
        attention.forward(w, layout, x, m.area());
        s = mapped(x, [&](size_t k) { return x[k] * attention.open[channel(k)]; });
    }
    double mix() const
    {
        return std::tanh((double)tensor(2)[0]);
    }
    void forward(const map_of &input)
    {
        s = x = input;
        if (b->kind == SEED_CHAIN) {
            chain_forward();
        } else if (b->kind == SEED_ATTENTION) {
            attention_forward();
        } else if (b->kind == SEED_NORM) {
            norm[0].forward(m, x, m.channels, tensor(0), tensor(1));
            s = mapped(x, [&](size_t k) {
                const size_t c = channel(k);
                return x[k] * (1 - mix() + mix() * norm[0].scale[c]) + mix() * norm[0].shift[c];
            });
        }
    }

    map_of chain_backward(const map_of &u, double *grad)
    {
        map_of g = u;
        for (int i = b->steps - 1, t = layout.count; i >= 0; i--) {
            const struct chain_step &step = b->step[i];
            const int to = width(step.to), from = width(step.from), kernel = step.kind == STEP_CONV3 ? 3 : 1;
            t -= normed(step) ? 3 : 1;
            for (size_t k = 0; k < pre[i].size(); k++)
                g[k] = cut(step) && !(affine(i, k) > 0) ? 0 : g[k];
            if (normed(step)) {
                g = norm[i].backward(m, pre[i], g, to, tensor(t + 1), grad + layout.tensor[t + 1].offset,
                                     grad + layout.tensor[t + 2].offset);
                m.round(g);
            }
            double *dw = grad + layout.tensor[t].offset;
            if (step.kind == STEP_DEPTHWISE) {
                m.depthwise_weights(in[i], g, dw);
                g = m.depthwise(g, tensor(t), true);
            } else {
                m.convolve_weights(in[i], g, from, to, kernel, dw);
                g = m.convolve(g, from, to, kernel, tensor(t), true);
            }
            g = mapped(g, [&](size_t k) { return i == 0 ? g[k] + u[k] : g[k]; });
        }
        return g;
    }
    map_of attention_backward(const map_of &u, double *grad)
    {
        const std::vector<double> dm = attention.backward(w, layout, u, x, grad);
        return mapped(u, [&](size_t k) { return u[k] * attention.open[channel(k)] + dm[channel(k)] / m.area(); });
    }
    map_of scale_backward(const map_of &u, double *grad)
    {
        std::vector<double> dgamma((size_t)m.channels), dbeta((size_t)m.channels);
        const map_of inner = norm[0].backward(m, x, u, m.channels, tensor(0), dgamma.data(), dbeta.data());
        for (size_t c = 0; c < dgamma.size(); c++) {
            grad[layout.tensor[0].offset + c] += mix() * dgamma[c];
            grad[layout.tensor[1].offset + c] += mix() * dbeta[c];
        }
        for (size_t k = 0; k < u.size(); k++)
            grad[layout.tensor[2].offset] += (1 - mix() * mix()) * u[k] *
                                             (x[k] * norm[0].scale[channel(k)] + norm[0].shift[channel(k)] - x[k]);
        return mapped(u, [&](size_t k) { return (1 - mix()) * u[k] + mix() * inner[k]; });
    }
    /* From the gradient of s to that of x. */
    map_of backward(const map_of &u, double *grad)
    {
        return b->kind == SEED_CHAIN       ? chain_backward(u, grad)
               : b->kind == SEED_ATTENTION ? attention_backward(u, grad)
               : b->kind == SEED_NORM      ? scale_backward(u, grad)
                                           : u;
    }
};

/* A slot on one image: its seed is mixed in, looks on, or is not there. */
struct planes_slot {
    struct model_slot slot;
    planes_seed seed;
    struct param_layout gates;
    double q = 1;
    std::vector<double> mean, hidden;

    planes_slot(const model &m, const struct model_slot &s) : slot(s), seed(m, s.exec.blueprint, s.seed)
    {
        gate_layout(m.channels, &gates);
    }
    bool mixes() const
    {
        return slot.exec.mode == SLOT_BLEND && slot.exec.alpha > 0;
    }
    double gate(int tensor, int at) const
    {
        return slot.gate[gates.tensor[tensor].offset + (size_t)at];
    }
    map_of forward(const map_of &x)
    {
        const int c = seed.m.channels, n = blueprint_neck(c);
        seed.forward(x);
        if (slot.exec.gate) {
            mean.assign((size_t)c, 0);
            hidden.assign((size_t)n, 0);
            for (size_t k = 0; k < x.size(); k++)
                mean[seed.channel(k)] += x[k] / seed.m.area();
            double z = gate(3, 0);
            for (int o = 0; o < n; o++) {
                hidden[(size_t)o] = gate(1, o);
                for (int i = 0; i < c; i++)
                    hidden[(size_t)o] += gate(0, o * c + i) * mean[(size_t)i];
                hidden[(size_t)o] = std::max(0.0, hidden[(size_t)o]);
                z += gate(2, o) * hidden[(size_t)o];
            }
            q = 1 / (1 + std::exp(-z));
        }
        const double a = slot.exec.alpha * q;
        return mapped(x, [&](size_t k) {
            const double d = seed.s[k] - x[k];
            return slot.exec.algorithm == ALGORITHM_MULTIPLY ? x[k] * (1 + a * std::tanh(d)) : x[k] + a * d;
        });
    }
    map_of backward(const map_of &g)
    {
        const double a = slot.exec.alpha * q;
        const bool multiply = slot.exec.algorithm == ALGORITHM_MULTIPLY;
        map_of u(g.size()), direct(g.size());
        double da = 0;
        for (size_t k = 0; k < g.size(); k++) {
            const double d = seed.s[k] - seed.x[k], t = std::tanh(d);
            const double ds = multiply ? g[k] * seed.x[k] * a * (1 - t * t) : a * g[k];
            u[k] = model::r(ds);
            direct[k] = model::r(multiply ? g[k] * (1 + a * t) - ds : (1 - a) * g[k]);
            da += g[k] * d;
        }
        const map_of dx = seed.backward(u, slot.seed_grad);
        map_of out = mapped(g, [&](size_t k) { return direct[k] + dx[k]; });
        return slot.exec.gate ? gate_backward(da * slot.exec.alpha * q * (1 - q), out) : out;
    }
    map_of gate_backward(double dout, const map_of &g)
    {
        const int c = seed.m.channels, n = blueprint_neck(c);
        std::vector<double> dmean((size_t)c);
        slot.gate_grad[gates.tensor[3].offset] += dout;
        for (int o = 0; o < n; o++) {
            const double d = hidden[(size_t)o] > 0 ? dout * gate(2, o) : 0;
            slot.gate_grad[gates.tensor[2].offset + (size_t)o] += dout * hidden[(size_t)o];
            slot.gate_grad[gates.tensor[1].offset + (size_t)o] += d;
            for (int i = 0; i < c; i++) {
                slot.gate_grad[gates.tensor[0].offset + (size_t)(o * c + i)] += d * mean[(size_t)i];
                dmean[(size_t)i] += d * gate(0, o * c + i);
            }
        }
        return mapped(g, [&](size_t k) { return g[k] + dmean[seed.channel(k)] / seed.m.area(); });
    }
    /* A seed in TRAINING. */
    void look_on(const map_of &x, const map_of &g)
    {
        if (slot.exec.mode != SLOT_STE)
            return;
        seed.forward(x);
        seed.backward(g, slot.seed_grad);
    }
};

struct planes_block {
    const struct block_shape *shape;
    int kernel;
    model full, half;
    const float *weight;
    std::vector<double> mean, rstd, scale, shift;
    std::vector<map_of> in, raw, y, seen, x1, out, grad; /* of every image; y: after the ReLU, seen: by the pool */
    std::vector<planes_slot> slot[SLOT_ROWS];

    size_t channel(size_t k) const
    {
        return k / (size_t)full.area();
    }
    void normalise(const float *gamma, const float *beta)
    {
        const double count = (double)raw.size() * full.area();
        mean.assign((size_t)full.channels, 0);
        std::vector<double> var = mean;
        rstd = scale = shift = mean;
        for (const map_of &z : raw)
            for (size_t k = 0; k < z.size(); k++)
                mean[channel(k)] += z[k] / count;
        for (const map_of &z : raw)
            for (size_t k = 0; k < z.size(); k++)
                var[channel(k)] += std::pow(z[k] - mean[channel(k)], 2) / count;
        for (size_t c = 0; c < mean.size(); c++) {
            rstd[c] = 1 / std::sqrt(var[c] + 1e-5);
            scale[c] = gamma[c] * rstd[c];
            shift[c] = beta[c] - scale[c] * mean[c];
        }
    }
    void forward(const float *gamma, const float *beta, const struct model_slot given[SLOT_ROWS])
    {
        for (const map_of &x : in) {
            raw.push_back(full.convolve(x, shape->cin, shape->cout, kernel, weight, false));
            model::round(raw.back());
        }
        normalise(gamma, beta);
        for (const map_of &z : raw) {
            map_of active(z.size());
            for (size_t k = 0; k < z.size(); k++)
                active[k] = std::max(0.0, z[k] * scale[channel(k)] + shift[channel(k)]);
            y.push_back(active);
            for (int row = 0; row < SLOT_ROWS; row++)
                slot[row].emplace_back(row ? half : full, given[row]);
            if (slot[0].back().mixes()) {
                model::round(active);
                active = slot[0].back().forward(active);
            }
            seen.push_back(active);
            map_of pooled = shape->pool ? pooled_of(active, full.channels, full.size) : active;
            model::round(pooled);
            x1.push_back(pooled);
            out.push_back(slot[1].back().mixes() ? slot[1].back().forward(pooled) : pooled);
        }
    }
    /* The gradient after the ReLU. */
    map_of through_slots(size_t n)
    {
        map_of g = grad[n];
        if (slot[1][n].mixes())
            g = slot[1][n].backward(g);
        else
            slot[1][n].look_on(x1[n], g);
        if (shape->pool)
            g = unpool(seen[n], g, full.channels, full.size);
        if (slot[0][n].mixes())
            return slot[0][n].backward(g);
        map_of x = y[n];
        model::round(x);
        slot[0][n].look_on(x, g);
        return g;
    }
    void backward(double *dweight, double *dgamma, double *dbeta, std::vector<map_of> *dx)
    {
        const double count = (double)raw.size() * full.area();
        std::vector<double> sum((size_t)full.channels, 0), moment(sum);
        std::vector<map_of> v;
        for (size_t n = 0; n < raw.size(); n++) {
            v.push_back(through_slots(n));
            for (size_t k = 0; k < v[n].size(); k++) {
                v[n][k] = y[n][k] > 0 ? v[n][k] : 0;
                sum[channel(k)] += v[n][k];
                moment[channel(k)] += v[n][k] * (raw[n][k] - mean[channel(k)]) * rstd[channel(k)];
            }
        }
        for (size_t c = 0; c < sum.size(); c++) {
            dgamma[c] = moment[c];
            dbeta[c] = sum[c];
        }
        for (size_t n = 0; n < raw.size(); n++) {
            const map_of g = mapped(raw[n], [&](size_t k) {
                const size_t c = channel(k);
                return scale[c] * (v[n][k] - sum[c] / count - (raw[n][k] - mean[c]) * rstd[c] * moment[c] / count);
            });
            full.convolve_weights(in[n], g, shape->cin, shape->cout, kernel, dweight);
            if (dx) {
                dx->push_back(full.convolve(g, shape->cin, shape->cout, kernel, weight, true));
                model::round(dx->back());
            }
        }
    }
};

/* Loss, gradients of the classifier, and what they leave at the last block's output. */
static void planes_head(struct model_step &step, struct planes_block &last, const struct cnn_shape &shape,
                        const float *params, const std::vector<int> &labels)
{
    const int features = shape.features, classes = shape.classes;
    const size_t weight = shape.net.host.tensor[shape.fc_weight].offset,
                 bias = shape.net.host.tensor[shape.fc_bias].offset;
    for (size_t n = 0; n < labels.size(); n++) {
        const size_t pixels = last.out[n].size() / (size_t)features;
        std::vector<double> mean((size_t)features, 0), d(mean), logit((size_t)classes, 0);
        double total = 0;
        for (size_t k = 0; k < last.out[n].size(); k++)
            mean[k / pixels] += last.out[n][k] / (double)pixels;
        for (int k = 0; k < classes; k++) {
            logit[(size_t)k] = (double)params[bias + (size_t)k];
            for (int c = 0; c < features; c++)
                logit[(size_t)k] += mean[(size_t)c] * (double)params[weight + (size_t)(k * features + c)];
        }
        const double best = *std::max_element(logit.begin(), logit.end());
        for (double v : logit)
            total += std::exp(v - best);
        step.loss += std::log(total) + best - logit[(size_t)labels[n]];
        for (int k = 0; k < classes; k++) {
            const double g = (std::exp(logit[(size_t)k] - best) / total - (k == labels[n])) / (double)labels.size();
            step.host_grad[bias + (size_t)k] += g;
            for (int c = 0; c < features; c++) {
                step.host_grad[weight + (size_t)(k * features + c)] += g * mean[(size_t)c];
                d[(size_t)c] += g * (double)params[weight + (size_t)(k * features + c)];
            }
        }
        last.grad.push_back(mapped(last.out[n], [&](size_t k) { return d[k / pixels] / (double)pixels; }));
    }
}

/* Loss and gradients of a batch of images [channel][y][x]; slot[block][row]. */
static struct model_step planes_of(const struct cnn_shape &shape, const float *params,
                                   const std::vector<map_of> &images, const std::vector<int> &labels,
                                   const struct model_slot (*slot)[SLOT_ROWS])
{
    struct model_step step;
    std::vector<struct planes_block> blocks;
    const auto at = [&](int tensor) { return shape.net.host.tensor[tensor].offset; };
    step.host_grad.assign(shape.net.host.storage, 0);
    for (int i = 0; i < shape.blocks; i++) {
        const struct block_shape &from = shape.block[i];
        struct planes_block b = {};
        b.shape = &from;
        b.kernel = shape.kernel;
        b.full = {from.cout, from.height};
        b.half = {from.cout, from.pool ? from.height / 2 : from.height};
        b.weight = params + at(from.weight);
        b.in = i ? blocks.back().out : images;
        for (map_of &m : b.in)
            model::round(m);
        b.forward(params + at(from.gamma), params + at(from.beta), slot[i]);
        blocks.push_back(std::move(b));
    }
    planes_head(step, blocks.back(), shape, params, labels);
    for (int i = shape.blocks - 1; i >= 0; i--) {
        const struct block_shape &from = shape.block[i];
        double *g = step.host_grad.data();
        blocks[(size_t)i].backward(g + at(from.weight), g + at(from.gamma), g + at(from.beta),
                                   i ? &blocks[(size_t)i - 1].grad : nullptr);
    }
    return step;
}

#endif
