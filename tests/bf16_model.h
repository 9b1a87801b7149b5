/*
 * A training step of a host with its seeds in plain loops and double precision, after blueprint.h, rounded to bf16
 * where the kernels of cnn_bf16 round (src/cnn/bf16/host.cuh, seed.cuh): the reference for their gradients.
 */
#ifndef TESTS_BF16_MODEL_H
#define TESTS_BF16_MODEL_H

#include "bf16_model_parts.h"

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
