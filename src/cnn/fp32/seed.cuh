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
    const struct slot_view *slot;
    const struct seed_view *seed;
    float *frame;
    double *figures;
    const float *w, *packed; /* of the slot's part of the pool */
};

DEVICE struct seed_job seed_job_of(const struct image &image, int slot)
{
    struct seed_job job;
    job.slot = &image.net->slot[slot];
    job.seed = &job.slot->seed_of[image.exec[slot].blueprint];
    job.frame = image.frame;
    job.figures = image.figures;
    job.w = image.seed + job.slot->seed;
    job.packed = image.packed_seed + job.slot->seed;
    return job;
}

DEVICE struct norm seed_norm(const struct seed_job &job, int number)
{
    return norm_at(job.frame + job.slot->norms + number * NORM_ARRAYS * job.slot->channels, job.slot->channels);
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

DEVICE void step_linear(const struct seed_job &job, const struct step_view &step, const float *in, float *out)
{
    const struct slot_view &slot = *job.slot;
    if (step.kind == STEP_DEPTHWISE)
        convolve_depthwise(slot.height, slot.width, step.cout, in, job.w + step.weight, false, nullptr, out);
    else
        convolve(convolution_forward(slot.height, slot.width, step.kernel, step.cin, step.cout, in,
                                     job.packed + step.weight, out));
}

DEVICE void step_linear_backward(const struct seed_job &job, const struct step_view &step, const float *add, float *dx)
{
    const struct slot_view &slot = *job.slot;
    const float *g = job.frame + step.grad;
    if (step.kind == STEP_DEPTHWISE)
        convolve_depthwise(slot.height, slot.width, step.cout, g, job.w + step.weight, true, add, dx);
    else
        convolve(convolution_backward(slot.height, slot.width, step.kernel, step.cin, step.cout, g, job.w + step.weight,
                                      add, dx));
}

/* From the saved output of the linear part to `out`, plus `residual` where that is given. */
DEVICE void step_act(const struct seed_job &job, const struct step_view &step, const float *residual, float *out)
{
    const float *pre = job.frame + step.pre;
    if (step.norm < 0) { /* only inside a chain: no residual */
        map_set(job.slot->pixels, step.cout, out, [&](int i, int) { return step.relu ? relu(pre[i]) : pre[i]; });
        return;
    }
    const struct norm norm = seed_norm(job, step.norm);
    group_norm_forward(norm, job.slot->pixels, step.cout, step.groups, pre, job.w + step.gamma, job.w + step.beta);
    map_set(job.slot->pixels, step.cout, out, [&](int i, int c) {
        float z = fmaf(pre[i], norm.scale[c], norm.shift[c]);
        z = step.relu ? relu(z) : z;
        return residual ? z + residual[i] : z;
    });
}

DEVICE void step_act_backward(const struct seed_job &job, const struct step_view &step, const float *g)
{
    const float *pre = job.frame + step.pre;
    float *out = job.frame + step.grad;
    if (step.norm < 0) {
        map_set(job.slot->pixels, step.cout, out, [&](int i, int) { return !step.relu || pre[i] > 0 ? g[i] : 0; });
        return;
    }
    const struct norm norm = seed_norm(job, step.norm);
    group_norm_backward(norm, job.slot->pixels, step.cout, step.groups, step.relu, pre, g, job.w + step.gamma,
                        seed_dgamma(job, step.norm), seed_dbeta(job, step.norm));
    norm_grad(job.slot->pixels, step.cout, norm, step.relu, pre, g, out);
}

DEVICE void chain_forward(const struct seed_job &job, const float *x, float *s)
{
    const float *in = x;
    for (int i = 0; i < job.seed->steps; i++) {
        const struct step_view &step = job.seed->step[i];
        const bool last = i + 1 == job.seed->steps;
        float *out = last ? s : job.frame + step.act;
        step_linear(job, step, in, job.frame + step.pre);
        step_act(job, step, last ? x : nullptr, out);
        in = out;
    }
}

DEVICE void chain_backward(const struct seed_job &job, const float *u, float *between, float *dx)
{
    const float *g = u;
    for (int i = job.seed->steps - 1; i >= 0; i--) {
        const struct step_view &step = job.seed->step[i];
        step_act_backward(job, step, g);
        if (i > 0)
            step_linear_backward(job, step, nullptr, between);
        else if (dx)
            step_linear_backward(job, step, u, dx);
        g = between;
    }
}

/* ---- norm: s = x + tanh(sigma) * (GN(x) - x) --------------------------------------------------------------------- */

enum { SCALE_GAMMA, SCALE_BETA, SCALE_SIGMA };

DEVICE const float *seed_tensor(const struct seed_job &job, int tensor)
{
    return job.w + job.seed->tensor[tensor].offset;
}

DEVICE void scale_forward(const struct seed_job &job, const float *x, float *s)
{
    const struct slot_view &slot = *job.slot;
    const double t = tanh((double)seed_tensor(job, SCALE_SIGMA)[0]);
    const struct norm norm = seed_norm(job, 0);
    group_norm_forward(norm, slot.pixels, slot.channels, slot.groups, x, seed_tensor(job, SCALE_GAMMA),
                       seed_tensor(job, SCALE_BETA));
    map_set(slot.pixels, slot.channels, s, [&](int i, int c) {
        float scale = (float)(1 - t + t * (double)norm.scale[c]), shift = (float)(t * (double)norm.shift[c]);
        return fmaf(x[i], scale, shift);
    });
}

DEVICE void scale_backward(const struct seed_job &job, const float *x, const float *u, float *dx)
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
            float gain = (float)(1 - t + t * (double)norm.gain[c]), slope = (float)(t * (double)norm.slope[c]);
            return fmaf(u[i], gain, fmaf(x[i], slope, (float)(t * (double)norm.offset[c])));
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

/* ---- attention: s = x * sigmoid(W2 relu(W1 mean(x)) + b2) -------------------------------------------------------- */

enum { SQUEEZE_W1, SQUEEZE_W2, SQUEEZE_B2 };

/* Saved in the norm's arrays: the mean in `centre`, the gate in `scale`, the hidden layer in `gain`. */
DEVICE void attention_forward(const struct seed_job &job, const float *x, float *s)
{
    const struct slot_view &slot = *job.slot;
    const struct norm kept = seed_norm(job, 0);
    mean_forward(slot.pixels, slot.channels, x, kept.centre);
    dense_forward(slot.squeeze, slot.channels, seed_tensor(job, SQUEEZE_W1), nullptr, kept.centre,
                  [&](int o, double z) { kept.gain[o] = (float)(z > 0 ? z : 0); });
    dense_forward(slot.channels, slot.squeeze, seed_tensor(job, SQUEEZE_W2), seed_tensor(job, SQUEEZE_B2), kept.gain,
                  [&](int o, double z) { kept.scale[o] = (float)sigmoid(z); });
    map_set(slot.pixels, slot.channels, s, [&](int i, int c) { return x[i] * kept.scale[c]; });
}

/* Left in the sums: the gradient before the sigmoid in dgamma, of the hidden layer in dbeta. */
DEVICE void attention_backward(const struct seed_job &job, const float *x, const float *u, float *dx)
{
    const struct slot_view &slot = *job.slot;
    const struct norm kept = seed_norm(job, 0);
    double *dz = seed_dgamma(job, 0), *dhidden = seed_dbeta(job, 0), *dmean = channel_scratch();
    channel_sums<1, float>(
        slot.pixels, slot.channels,
        [&](int p, int c, float *v) { v[0] = u[p * slot.channels + c] * x[p * slot.channels + c]; },
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
    map_set(slot.pixels, slot.channels, dx,
            [&](int i, int c) { return fmaf(u[i], kept.scale[c], (float)(dmean[c] / slot.pixels)); });
}

/* ---- any seed ---------------------------------------------------------------------------------------------------- */

DEVICE void seed_forward(const struct seed_job &job, const float *x, float *s)
{
    switch (job.seed->kind) {
    case SEED_CHAIN:
        chain_forward(job, x, s);
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
DEVICE void seed_backward(const struct seed_job &job, const float *x, const float *u, float *between, float *dx)
{
    switch (job.seed->kind) {
    case SEED_CHAIN:
        chain_backward(job, u, between, dx);
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

DEVICE void gate_forward(const struct image &image, const struct slot_view &slot, const float *x)
{
    float *mean = image.frame + slot.gate_mean, *hidden = image.frame + slot.gate_hidden;
    mean_forward(slot.pixels, slot.channels, x, mean);
    dense_forward(slot.neck, slot.channels, gate_weights(image, slot, GATE_W1), gate_weights(image, slot, GATE_B1),
                  mean, [&](int o, double z) { hidden[o] = (float)(z > 0 ? z : 0); });
    dense_forward(1, slot.neck, gate_weights(image, slot, GATE_W2), gate_weights(image, slot, GATE_B2), hidden,
                  [&](int, double z) { image.frame[slot.gate_out] = (float)sigmoid(z); });
}

/* dq: the gradient of the gate's value. Adds that of its input to g where that is given. */
DEVICE void gate_backward(const struct image &image, const struct slot_view &slot, double dq, float *g)
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
    map_set(slot.pixels, slot.channels, g, [&](int i, int c) { return g[i] + (float)dmean[c] / (float)slot.pixels; });
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
DEVICE_CALL void slot_forward(const struct image &image, int slot, const float *x, float *y)
{
    const struct slot_view &view = image.net->slot[slot];
    const struct slot_exec &exec = image.exec[slot];
    float *s = image.frame + view.s;
    seed_forward(seed_job_of(image, slot), x, s);
    if (exec.gate)
        gate_forward(image, view, x);
    const float a = image_amplitude(image, slot);
    const bool multiply = exec.algorithm == ALGORITHM_MULTIPLY;
    map_set(view.pixels, view.channels, y, [&](int i, int) {
        if (a == 0) /* whatever the seed holds */
            return x[i];
        if (multiply)
            return x[i] * fmaf(a, tanhf(s[i] - x[i]), 1.0f);
        return a < 0.5f ? fmaf(a, s[i] - x[i], x[i]) : fmaf(-(s[i] - x[i]), 1 - a, s[i]);
    });
}

/* The gradient after a slot that mixes becomes the one before it, direct and through the seed. */
DEVICE_CALL void slot_backward(const struct image &image, int slot, const float *x, float *g)
{
    const struct slot_view &view = image.net->slot[slot];
    const struct slot_exec &exec = image.exec[slot];
    const float *s = image.frame + view.s;
    float *u = image.frame + image.net->u, *dx = image.frame + image.net->dx, *between = image.frame + image.net->chain;
    const float a = slot_amplitude(exec), mixed = image_amplitude(image, slot);
    double *dq = channel_scratch() + 2 * NORM_MAX_CHANNELS - 1;
    const auto part = [&](int i, float2 both) {
        u[i] = both.x;
        g[i] = both.y;
    };
    if (exec.algorithm == ALGORITHM_MULTIPLY) {
        each_value(
            view.pixels, view.channels,
            [&](int i, int) {
                float t = tanhf(s[i] - x[i]), ds = g[i] * x[i] * (a * (1 - t * t)), dh = g[i] * fmaf(a, t, 1.0f);
                return make_float2(ds, exec.isolate ? dh : dh - ds);
            },
            part);
    } else {
        if (exec.gate)
            channel_sums<1, float>(
                view.pixels * view.channels, 1, [&](int i, int, float *v) { v[0] = g[i] * (s[i] - x[i]); },
                [&](int, const double *total) { *dq = (double)a * total[0]; });
        each_value(
            view.pixels, view.channels, [&](int i, int) { return make_float2(mixed * g[i], (1 - mixed) * g[i]); },
            part);
    }
    const double gate_grad = exec.gate ? *dq : 0; /* read by all threads before the scratch is reused */
    __syncthreads();
    if (exec.train || !exec.isolate)
        seed_backward(seed_job_of(image, slot), x, u, between, exec.isolate ? nullptr : dx);
    if (!exec.isolate)
        map_set(view.pixels, view.channels, g, [&](int i, int) { return g[i] + dx[i]; });
    if (exec.gate)
        gate_backward(image, view, gate_grad, exec.isolate ? nullptr : g);
}

/* A seed in TRAINING: learns from the gradient at its boundary, changes nothing (I-24). */
DEVICE_CALL void slot_look_on(const struct image &image, int slot, const float *x, const float *g)
{
    const struct seed_job job = seed_job_of(image, slot);
    seed_forward(job, x, image.frame + job.slot->s);
    seed_backward(job, x, g, image.frame + image.net->chain, nullptr);
}

#endif
