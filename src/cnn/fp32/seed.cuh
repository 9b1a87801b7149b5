/*
 * Seeds and slots on one image, by one thread block: forward, backward, blending. The device's counterpart of
 * cnn/cpu/seed.h and of the slots' part of net.c; see there for the meaning. The backward pass reads what the forward
 * pass left in the image's frame; the terms of vectors' gradients are in its figures.
 */
#ifndef CNN_FP32_SEED_CUH
#define CNN_FP32_SEED_CUH

#include "cnn/fp32/net.cuh"

/* One seed working on one image. */
struct seed_job {
    const struct net_view *net;
    const struct slot_view *slot;
    const struct seed_view *seed;
    float *frame;
    double *figures;
    const float *w, *packed; /* of the slot's part of the pool; of the env */
};

DEVICE struct seed_job seed_job_of(const struct image &image, int slot)
{
    struct seed_job job;
    job.net = image.net;
    job.slot = &image.net->slot[slot];
    job.seed = &job.slot->seed_of[image.exec[slot].blueprint];
    job.frame = image.frame;
    job.figures = image.figures;
    job.w = image.seed + job.slot->seed;
    job.packed = image.packed;
    return job;
}

DEVICE struct norm seed_norm(const struct seed_job &job, int number)
{
    return norm_at(job.frame + job.slot->norms + number * NORM_ARRAYS * job.slot->stored, job.slot->stored);
}

DEVICE double *seed_dgamma(const struct seed_job &job, int number)
{
    return job.figures + job.slot->sums + 2 * number * job.slot->channels;
}

DEVICE double *seed_dbeta(const struct seed_job &job, int number)
{
    return seed_dgamma(job, number) + job.slot->channels;
}

/* ---- chains: s = x + chain(x) ------------------------------------------------------------------------------------ */

/* From the saved output of the linear part to `out`, plus `residual` where that is given. */
template <class P>
DEVICE void step_act(const struct seed_job &job, const struct step_view &step, const typename P::map *residual,
                     typename P::map *out)
{
    typedef typename P::map M;
    const M *pre = map_at<P>(job.frame, step.pre);
    const bool cut = step.relu;
    if (step.norm < 0) { /* only inside a chain: no residual */
        map_set(job.slot->pixels, step.cout, out,
                [&](int i, int) { return apply([&](float x) { return cut ? relu(x) : x; }, load(pre, i)); });
        return;
    }
    const struct norm norm = seed_norm(job, step.norm);
    group_norm_forward(norm, job.slot->pixels, step.cout, step.groups, pre, job.w + step.gamma, job.w + step.beta);
    map_set(job.slot->pixels, step.cout, out, [&](int i, int c) {
        const value_of<M> z = apply(
            [&](float x, float scale, float shift) {
                float y = fmaf(x, scale, shift);
                return cut ? relu(y) : y;
            },
            load(pre, i), channels_of<M>(norm.scale, c), channels_of<M>(norm.shift, c));
        return residual ? apply([](float x, float more) { return x + more; }, z, load(residual, i)) : z;
    });
}

template <class P>
DEVICE void step_act_backward(const struct seed_job &job, const struct step_view &step, const typename P::map *g)
{
    const typename P::map *pre = map_at<P>(job.frame, step.pre);
    typename P::map *out = map_at<P>(job.frame, step.grad);
    if (step.norm < 0) {
        const bool cut = step.relu;
        map_set(job.slot->pixels, step.cout, out, [&](int i, int) {
            return apply([&](float x, float from) { return !cut || x > 0 ? from : 0; }, load(pre, i), load(g, i));
        });
        return;
    }
    const struct norm norm = seed_norm(job, step.norm);
    group_norm_backward(norm, job.slot->pixels, step.cout, step.groups, step.relu, pre, g, job.w + step.gamma,
                        seed_dgamma(job, step.norm), seed_dbeta(job, step.norm));
    norm_grad(job.slot->pixels, step.cout, norm, step.relu, pre, g, out);
}

template <class P> DEVICE void chain_forward(const struct seed_job &job, const typename P::map *x, typename P::map *s)
{
    const typename P::map *in = x;
    for (int i = 0; i < job.seed->steps; i++) {
        const struct step_view &step = job.seed->step[i];
        const bool last = i + 1 == job.seed->steps;
        typename P::map *out = last ? s : map_at<P>(job.frame, step.act);
        P::step_forward(job, step, in, map_at<P>(job.frame, step.pre));
        step_act<P>(job, step, last ? x : nullptr, out);
        in = out;
    }
}

template <class P>
DEVICE void chain_backward(const struct seed_job &job, const typename P::map *u, typename P::map *between,
                           typename P::map *dx)
{
    const typename P::map *g = u;
    for (int i = job.seed->steps - 1; i >= 0; i--) {
        const struct step_view &step = job.seed->step[i];
        step_act_backward<P>(job, step, g);
        if (i > 0)
            P::step_backward(job, step, nullptr, between);
        else if (dx)
            P::step_backward(job, step, u, dx);
        g = between;
    }
}

/* ---- norm: s = x + tanh(sigma) * (GN(x) - x) --------------------------------------------------------------------- */

enum { SCALE_GAMMA, SCALE_BETA, SCALE_SIGMA };

DEVICE const float *seed_tensor(const struct seed_job &job, int tensor)
{
    return job.w + job.seed->tensor[tensor].offset;
}

template <class M> DEVICE void scale_forward(const struct seed_job &job, const M *x, M *s)
{
    const struct slot_view &slot = *job.slot;
    const double t = tanh((double)seed_tensor(job, SCALE_SIGMA)[0]);
    const struct norm norm = seed_norm(job, 0);
    group_norm_forward(norm, slot.pixels, slot.channels, slot.groups, x, seed_tensor(job, SCALE_GAMMA),
                       seed_tensor(job, SCALE_BETA));
    map_set(slot.pixels, slot.channels, s, [&](int i, int c) {
        return apply(
            [&](float v, float scale, float shift) {
                return fmaf(v, (float)(1 - t + t * (double)scale), (float)(t * (double)shift));
            },
            load(x, i), channels_of<M>(norm.scale, c), channels_of<M>(norm.shift, c));
    });
}

template <class M> DEVICE void scale_backward(const struct seed_job &job, const M *x, const M *u, M *dx)
{
    const struct slot_view &slot = *job.slot;
    const float *gamma = seed_tensor(job, SCALE_GAMMA), *beta = seed_tensor(job, SCALE_BETA);
    const double t = tanh((double)seed_tensor(job, SCALE_SIGMA)[0]);
    const struct norm norm = seed_norm(job, 0);
    double *dgamma = seed_dgamma(job, 0), *dbeta = seed_dbeta(job, 0), *change = channel_scratch();
    group_norm_backward(norm, slot.pixels, slot.channels, slot.groups, false, x, u, gamma, dgamma, dbeta);
    for (int c = (int)threadIdx.x; c < slot.channels; c += BLOCK_THREADS) {
        double sum_ux = dgamma[c], sum_u = dbeta[c]; /* of u * xhat, and of u */
        double normed = (double)gamma[c] * sum_ux + (double)beta[c] * sum_u;
        double off = norm.rstd[c] > 0 ? sum_ux / (double)norm.rstd[c] : 0; /* of u * (x - centre) */
        change[c] = (1 - t * t) * (normed - (off + (double)norm.centre[c] * sum_u));
        dgamma[c] = t * sum_ux;
        dbeta[c] = t * sum_u;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        job.figures[slot.sigma] = group_sum(change, 0, slot.channels);
    if (dx) /* the norm's own input gradient is linear in u: scale it by t and add the direct path */
        map_set(slot.pixels, slot.channels, dx, [&](int i, int c) {
            return apply(
                [&](float v, float from, float gain, float slope, float offset) {
                    gain = (float)(1 - t + t * (double)gain);
                    slope = (float)(t * (double)slope);
                    return fmaf(from, gain, fmaf(v, slope, (float)(t * (double)offset)));
                },
                load(x, i), load(u, i), channels_of<M>(norm.gain, c), channels_of<M>(norm.slope, c),
                channels_of<M>(norm.offset, c));
        });
    __syncthreads();
}

/* ---- small dense layers on one row ------------------------------------------------------------------------------- */

DEVICE double sigmoid(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

/* put(output, w in + bias) */
template <class Put>
DEVICE void dense_forward(int outputs, int inputs, const float *w, const float *bias, const float *in, Put put)
{
    for (int o = (int)threadIdx.x; o < outputs; o += BLOCK_THREADS) {
        double sum = bias ? (double)bias[o] : 0;
        for (int i = 0; i < inputs; i++)
            sum += (double)w[o * inputs + i] * (double)in[i];
        put(o, sum);
    }
    __syncthreads();
}

/* put(input, w^T dout) */
template <class Put> DEVICE void dense_backward(int outputs, int inputs, const float *w, const double *dout, Put put)
{
    for (int i = (int)threadIdx.x; i < inputs; i += BLOCK_THREADS) {
        double sum = 0;
        for (int o = 0; o < outputs; o++)
            sum += (double)w[o * inputs + i] * dout[o];
        put(i, sum);
    }
    __syncthreads();
}

/* A sum per channel as a share of each pixel. */
template <class M> DEVICE value_of<M> shares_of(const double *sums, double pixels, int c, int channels)
{
    if constexpr (map_form<M>::WIDTH == 1) {
        return (float)(sums[c] / pixels);
    } else {
        struct eight x;
#pragma unroll
        for (int e = 0; e < 8; e++)
            x.v[e] = c + e < channels ? (float)(sums[c + e] / pixels) : 0;
        return x;
    }
}

/* ---- attention: s = x * sigmoid(W2 relu(W1 mean(x)) + b2) -------------------------------------------------------- */

enum { SQUEEZE_W1, SQUEEZE_W2, SQUEEZE_B2 };

/* Saved in the norm's arrays: the mean in `centre`, the gate in `scale`, the hidden layer in `gain`. */
template <class M> DEVICE void attention_forward(const struct seed_job &job, const M *x, M *s)
{
    const struct slot_view &slot = *job.slot;
    const struct norm kept = seed_norm(job, 0);
    mean_forward(slot.pixels, slot.channels, x, kept.centre);
    dense_forward(slot.squeeze, slot.channels, seed_tensor(job, SQUEEZE_W1), nullptr, kept.centre,
                  [&](int o, double z) { kept.gain[o] = (float)(z > 0 ? z : 0); });
    dense_forward(slot.channels, slot.squeeze, seed_tensor(job, SQUEEZE_W2), seed_tensor(job, SQUEEZE_B2), kept.gain,
                  [&](int o, double z) { kept.scale[o] = (float)sigmoid(z); });
    map_set(slot.pixels, slot.channels, s, [&](int i, int c) {
        return apply([](float v, float scale) { return v * scale; }, load(x, i), channels_of<M>(kept.scale, c));
    });
}

/* Left in the sums: the gradient before the sigmoid in dgamma, of the hidden layer in dbeta. */
template <class M> DEVICE void attention_backward(const struct seed_job &job, const M *x, const M *u, M *dx)
{
    const struct slot_view &slot = *job.slot;
    const struct norm kept = seed_norm(job, 0);
    double *dz = seed_dgamma(job, 0), *dhidden = seed_dbeta(job, 0), *dmean = channel_scratch();
    map_sums<1, M>(
        slot.pixels, slot.channels,
        [&](int i, int, value_of<M> *v) {
            v[0] = apply([](float a, float b) { return a * b; }, load(u, i), load(x, i));
        },
        [&](int c, const double *total) {
            double e = (double)kept.scale[c];
            dz[c] = total[0] * e * (1 - e);
        });
    dense_backward(slot.channels, slot.squeeze, seed_tensor(job, SQUEEZE_W2), dz,
                   [&](int i, double d) { dhidden[i] = kept.gain[i] > 0 ? d : 0; });
    if (!dx)
        return;
    dense_backward(slot.squeeze, slot.channels, seed_tensor(job, SQUEEZE_W1), dhidden,
                   [&](int i, double d) { dmean[i] = d; });
    const double share = slot.pixels;
    map_set(slot.pixels, slot.channels, dx, [&](int i, int c) {
        return apply([](float from, float scale, float mean) { return fmaf(from, scale, mean); }, load(u, i),
                     channels_of<M>(kept.scale, c), shares_of<M>(dmean, share, c, slot.channels));
    });
}

/* ---- any seed ---------------------------------------------------------------------------------------------------- */

template <class P> DEVICE void seed_forward(const struct seed_job &job, const typename P::map *x, typename P::map *s)
{
    switch (job.seed->kind) {
    case SEED_CHAIN:
        chain_forward<P>(job, x, s);
        break;
    case SEED_NORM:
        scale_forward(job, x, s);
        break;
    case SEED_ATTENTION:
        attention_forward(job, x, s);
        break;
    case SEED_NOOP:
        map_write(job.slot->pixels, job.slot->channels, source_plain(x), s);
        break;
    }
}

/* u = dL/ds; dx, if given, receives dL/dx. `between` is a map for the chain's own gradients. */
template <class P>
DEVICE void seed_backward(const struct seed_job &job, const typename P::map *x, const typename P::map *u,
                          typename P::map *between, typename P::map *dx)
{
    switch (job.seed->kind) {
    case SEED_CHAIN:
        chain_backward<P>(job, u, between, dx);
        break;
    case SEED_NORM:
        scale_backward(job, x, u, dx);
        break;
    case SEED_ATTENTION:
        attention_backward(job, x, u, dx);
        break;
    case SEED_NOOP:
        if (dx)
            map_write(job.slot->pixels, job.slot->channels, source_plain(u), dx);
        break;
    }
}

/* ---- the gate net ------------------------------------------------------------------------------------------------ */

DEVICE const float *gate_weights(const struct image &image, const struct slot_view &slot, int tensor)
{
    return image.gate + slot.gate + slot.gate_tensor[tensor].offset;
}

template <class M> DEVICE void gate_forward(const struct image &image, const struct slot_view &slot, const M *x)
{
    float *mean = image.frame + slot.gate_mean, *hidden = image.frame + slot.gate_hidden;
    mean_forward(slot.pixels, slot.channels, x, mean);
    dense_forward(slot.neck, slot.channels, gate_weights(image, slot, GATE_W1), gate_weights(image, slot, GATE_B1),
                  mean, [&](int o, double z) { hidden[o] = (float)(z > 0 ? z : 0); });
    dense_forward(1, slot.neck, gate_weights(image, slot, GATE_W2), gate_weights(image, slot, GATE_B2), hidden,
                  [&](int, double z) { image.frame[slot.gate_out] = (float)sigmoid(z); });
}

/* dq: the gradient of the gate's value. Adds that of its input to g where that is given. */
template <class M> DEVICE void gate_backward(const struct image &image, const struct slot_view &slot, double dq, M *g)
{
    const float *hidden = image.frame + slot.gate_hidden;
    double *dout = image.figures + slot.gate_sums, *dhidden = dout + 1, *dmean = channel_scratch();
    const double q = (double)image.frame[slot.gate_out];
    if (threadIdx.x == 0)
        dout[0] = dq * q * (1 - q);
    __syncthreads();
    dense_backward(1, slot.neck, gate_weights(image, slot, GATE_W2), dout,
                   [&](int i, double d) { dhidden[i] = hidden[i] > 0 ? d : 0; });
    if (!g)
        return;
    dense_backward(slot.neck, slot.channels, gate_weights(image, slot, GATE_W1), dhidden,
                   [&](int i, double d) { dmean[i] = d; });
    const float share = (float)slot.pixels;
    map_set(slot.pixels, slot.channels, g, [&](int i, int c) {
        return apply([&](float from, float mean) { return from + mean / share; }, load(g, i),
                     real_channels_of<M>(dmean, c, slot.channels));
    });
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

/* The weight of the image's seed: alpha, scaled by the gate where there is one. */
DEVICE float image_amplitude(const struct image &image, int slot)
{
    const struct slot_exec &exec = image.exec[slot];
    const float a = slot_amplitude(exec);
    if (!exec.gate)
        return a;
    const float mixed = a * image.frame[image.net->slot[slot].gate_out];
    return mixed < 0 ? 0 : mixed > 1 ? 1 : mixed;
}

/* y from x through a seed that mixes; s is left in the frame. */
template <class P>
DEVICE_CALL void slot_forward(const struct image &image, int slot, const typename P::map *x, typename P::map *y)
{
    const struct slot_view &view = image.net->slot[slot];
    const struct slot_exec &exec = image.exec[slot];
    typename P::map *s = map_at<P>(image.frame, view.s);
    seed_forward<P>(seed_job_of(image, slot), x, s);
    if (exec.gate)
        gate_forward(image, view, x);
    const float a = image_amplitude(image, slot);
    const auto mix = [&](auto blend) {
        map_set(view.pixels, view.channels, y, [&](int i, int) { return apply(blend, load(x, i), load(s, i)); });
    };
    if (a == 0) /* whatever the seed holds */
        map_write(view.pixels, view.channels, source_plain(x), y);
    else if (exec.algorithm == ALGORITHM_MULTIPLY)
        mix([&](float from, float to) { return from * fmaf(a, tanhf(to - from), 1.0f); });
    else if (a < 0.5f)
        mix([&](float from, float to) { return fmaf(a, to - from, from); });
    else
        mix([&](float from, float to) { return fmaf(-(to - from), 1 - a, to); });
}

/* The gradient after a slot that mixes becomes the one before it, direct and through the seed. */
template <class P>
DEVICE_CALL void slot_backward(const struct image &image, int slot, const typename P::map *x, typename P::map *g)
{
    typedef typename P::map M;
    struct both {
        value_of<M> of[2]; /* gradients of the seed's output, and of the slot's input */
    };
    const struct slot_view &view = image.net->slot[slot];
    const struct slot_exec &exec = image.exec[slot];
    const M *s = map_at<P>(image.frame, view.s);
    M *u = map_at<P>(image.frame, image.net->u), *dx = map_at<P>(image.frame, image.net->dx),
      *between = map_at<P>(image.frame, image.net->chain);
    const float a = slot_amplitude(exec), mixed = image_amplitude(image, slot);
    double *dq = channel_scratch() + 2 * NORM_MAX_CHANNELS - 1;
    const auto part = [&](int i, const struct both &both) {
        store(u, i, both.of[0]);
        store(g, i, both.of[1]);
    };
    if (exec.algorithm == ALGORITHM_MULTIPLY) {
        const bool isolate = exec.isolate;
        each_value<M>(
            view.pixels, view.channels,
            [&](int i, int) {
                struct both both;
                apply_to<2>(
                    both.of,
                    [&](float *of, float to, float from, float grad) {
                        float t = tanhf(to - from), ds = grad * from * (a * (1 - t * t)), dh = grad * fmaf(a, t, 1.0f);
                        of[0] = ds;
                        of[1] = isolate ? dh : dh - ds;
                    },
                    load(s, i), load(x, i), load(g, i));
                return both;
            },
            part);
    } else {
        if (exec.gate)
            map_total<M>(
                view.pixels, view.channels,
                [&](int i) {
                    return apply([](float to, float from, float grad) { return grad * (to - from); }, load(s, i),
                                 load(x, i), load(g, i));
                },
                [&](double total) { *dq = (double)a * total; });
        each_value<M>(
            view.pixels, view.channels,
            [&](int i, int) {
                struct both both;
                apply_to<2>(
                    both.of,
                    [&](float *of, float grad) {
                        of[0] = mixed * grad;
                        of[1] = (1 - mixed) * grad;
                    },
                    load(g, i));
                return both;
            },
            part);
    }
    const double gate_grad = exec.gate ? *dq : 0; /* read by all threads before the scratch is reused */
    __syncthreads();
    if (exec.train || !exec.isolate)
        seed_backward<P>(seed_job_of(image, slot), x, u, between, exec.isolate ? nullptr : dx);
    if (!exec.isolate)
        map_set(view.pixels, view.channels, g, [&](int i, int) {
            return apply([](float direct, float through) { return direct + through; }, load(g, i), load(dx, i));
        });
    if (exec.gate)
        gate_backward(image, view, gate_grad, exec.isolate ? nullptr : g);
}

/* A seed in TRAINING: learns from the gradient at its boundary, changes nothing (I-24). */
template <class P>
DEVICE_CALL void slot_look_on(const struct image &image, int slot, const typename P::map *x, const typename P::map *g)
{
    const struct seed_job job = seed_job_of(image, slot);
    seed_forward<P>(job, x, map_at<P>(image.frame, job.slot->s));
    seed_backward<P>(job, x, g, map_at<P>(image.frame, image.net->chain), nullptr);
}

#endif
