/*
 * The forward pass in stages, each done by all threads of the blocks that share a frame: in training by a kernel per
 * stage, in an evaluation by one block, with a barrier after each. What a stage reads, earlier ones wrote.
 */
#ifndef TRANSFORMER_FP32_STAGES_CUH
#define TRANSFORMER_FP32_STAGES_CUH

#include "transformer/fp32/net.cuh"

/* f(row) for this block's share of the rows, by a warp each. */
template <class F> DEVICE void each_row(int rows, const struct share &share, F f)
{
    for (int row = share.index * STAGE_WARPS + (int)threadIdx.x / WARP_LANES; row < rows;
         row += share.count * STAGE_WARPS)
        f(row);
}

/* ---- the host ---------------------------------------------------------------------------------------------------- */

DEVICE void stage_embed(const struct frame &frame, const struct share &share)
{
    const struct exact_view &net = *frame.net;
    float *stream = at(frame, net.stream);
    each_row(frame.rows, share, [&](int row) {
        const int n = row / net.context, t = row % net.context;
        const size_t token = frame.tokens[(size_t)n * (size_t)frame.token_stride + (size_t)t];
        const float *entry = frame.host + net.tokens + token * (size_t)net.width,
                    *position = frame.host + net.positions + (size_t)t * (size_t)net.width;
        float *to = stream + (size_t)row * (size_t)net.width;
        each_lane(net.width, [&](int i) { to[i] = position[i] + entry[i]; });
    });
}

DEVICE void stage_norm(const struct frame &frame, const struct norm_view &norm, const struct norm_places &places,
                       const struct share &share)
{
    const int width = frame.net->width;
    const float *gamma = frame.host + norm.gamma, *beta = frame.host + norm.beta;
    each_row(frame.rows, share, [&](int row) {
        const size_t first = (size_t)row * (size_t)width;
        float *hat = at(frame, places.hat) + first, *normed = at(frame, places.normed) + first;
        at(frame, places.rstd)[row] = row_normalise(width, at(frame, frame.net->stream) + first, hat);
        each_lane(width, [&](int i) { normed[i] = gamma[i] * hat[i] + beta[i]; });
    });
}

/* put(row, column, value) for every element of x W^T + b; b may be NULL. */
template <class Put>
DEVICE void linear_forward(const struct frame &frame, int in, int out, const float *weight, const float *bias,
                           const float *x, const struct share &share, Put put)
{
    const struct matmul product = {frame.rows, out, in, x, weight, in, in};
    matmul_share<BY_DEPTH, BY_DEPTH>(
        product, share, [&](int column) { return bias ? bias[column] : 0.0f; }, put);
}

DEVICE void stage_first(const struct frame &frame, const struct branch_view &branch, const struct branch_places &places,
                        const float *params, const float *x, const struct share &share)
{
    float *hidden = at(frame, places.hidden), *mixed = at(frame, places.mixed);
    linear_forward(frame, frame.net->width, branch.hidden, params + branch.w1,
                   branch.biased ? params + branch.b1 : nullptr, x, share, [&](int row, int column, float sum) {
                       const size_t i = (size_t)row * (size_t)branch.hidden + (size_t)column;
                       if (branch.kind == BRANCH_MLP)
                           mixed[i] = gelu(sum, &hidden[i]);
                       else
                           hidden[i] = sum;
                   });
}

DEVICE const float *mixed_of(const struct frame &frame, const struct branch_view &branch,
                             const struct branch_places &places)
{
    return at(frame, branch.kind == BRANCH_LORA ? places.hidden : places.mixed);
}

/* to = from + the branch's output. */
DEVICE void stage_second(const struct frame &frame, const struct branch_view &branch,
                         const struct branch_places &places, const float *params, const float *from, float *to,
                         const struct share &share)
{
    const int width = frame.net->width;
    linear_forward(frame, branch.mixed, width, params + branch.w2, branch.biased ? params + branch.b2 : nullptr,
                   mixed_of(frame, branch, places), share, [&](int row, int column, float sum) {
                       const size_t i = (size_t)row * (size_t)width + (size_t)column;
                       to[i] = from[i] + sum;
                   });
}

/* Attention's view of a sequence. */
DEVICE struct attended sequence_of(const struct frame &frame, const struct branch_places &places, int heads, int n)
{
    const size_t row = (size_t)n * (size_t)frame.net->context, width = (size_t)frame.net->width;
    struct attended a = {};
    a.length = frame.net->context;
    a.heads = heads;
    a.head = frame.net->width / heads;
    a.qkv = at(frame, places.hidden) + row * 3 * width;
    a.out = at(frame, places.mixed) + row * width;
    a.logs = at(frame, places.logs) + row * (size_t)heads;
    a.dout = at(frame, frame.net->dmixed) + row * width;
    a.dqkv = at(frame, places.dhidden) + row * 3 * width;
    return a;
}

/* f(sequence, head, tile) for this block's share of `times` tiles per tile of every head. */
template <class F>
DEVICE void each_attended(const struct frame &frame, int heads, int times, const struct share &share, F f)
{
    const int tiles = times * attend_tiles(frame.net->context, frame.net->width / heads);
    for (int item = share.index; item < frame.sequences * heads * tiles; item += share.count)
        f(item / tiles / heads, item / tiles % heads, item % tiles);
}

DEVICE void stage_attend(const struct frame &frame, const struct branch_places &places, int heads,
                         const struct share &share, unsigned char *shared)
{
    each_attended(frame, heads, 1, share, [&](int n, int head, int tile) {
        attend_forward(sequence_of(frame, places, heads, n), head, tile, shared);
    });
}

/* Where the stream goes after a layer: a slot keeps what enters it. */
DEVICE float *stream_after(const struct frame &frame, int layer, int half)
{
    const struct exact_view &net = *frame.net;
    const int slot = half == 1 ? net.layer[layer].slot : -1;
    return at(frame, slot < 0 ? net.stream : net.slot[slot].x);
}

DEVICE void stage_logits(const struct frame &frame, const struct share &share)
{
    const struct exact_view &net = *frame.net;
    float *logits = at(frame, net.logits);
    linear_forward(
        frame, net.width, net.vocabulary, frame.host + net.tokens, nullptr, at(frame, net.last_places.normed), share,
        [&](int row, int column, float sum) { logits[(size_t)row * (size_t)net.vocabulary + (size_t)column] = sum; });
}

DEVICE int target_of(const struct frame &frame, int row)
{
    const int n = row / frame.net->context, t = row % frame.net->context;
    return frame.targets[(size_t)n * (size_t)frame.target_stride + (size_t)t];
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

DEVICE bool seed_has_branch(const struct frame &frame, int slot)
{
    return slot_runs(frame, slot) && seed_of(frame, slot).branch.kind != BRANCH_NONE;
}

DEVICE void stage_seed_first(const struct frame &frame, int slot, const struct share &share)
{
    const struct exact_slot &view = frame.net->slot[slot];
    if (seed_has_branch(frame, slot))
        stage_first(frame, seed_of(frame, slot).branch, view.places, seed_params(frame, slot), at(frame, view.x),
                    share);
}

DEVICE void stage_seed_attend(const struct frame &frame, int slot, const struct share &share, unsigned char *shared)
{
    if (seed_has_branch(frame, slot) && seed_of(frame, slot).branch.kind == BRANCH_ATTENTION)
        stage_attend(frame, frame.net->slot[slot].places, SEED_HEADS, share, shared);
}

DEVICE void stage_seed_second(const struct frame &frame, int slot, const struct share &share)
{
    const struct exact_slot &view = frame.net->slot[slot];
    if (slot_mixes(frame, slot) && seed_of(frame, slot).branch.kind != BRANCH_NONE)
        stage_second(frame, seed_of(frame, slot).branch, view.places, seed_params(frame, slot), at(frame, view.x),
                     at(frame, view.s), share);
}

DEVICE void stage_gate(const struct frame &frame, int slot, const struct share &share)
{
    const struct exact_view &net = *frame.net;
    const float *params = gate_params(frame, slot);
    float *hidden = at(frame, net.slot[slot].gate_hidden);
    if (slot_gated(frame, slot))
        linear_forward(frame, net.width, net.gate_hidden, params + net.gate_branch.w1, params + net.gate_branch.b1,
                       at(frame, net.slot[slot].x), share, [&](int row, int column, float sum) {
                           hidden[(size_t)row * (size_t)net.gate_hidden + (size_t)column] = sum <= 0 ? 0 : sum;
                       });
}

/* The gate net's value for a token. */
DEVICE float gate_value(const struct frame &frame, int slot, int row)
{
    const struct exact_view &net = *frame.net;
    const float *w = gate_params(frame, slot) + net.gate_branch.w2,
                *hidden = at(frame, net.slot[slot].gate_hidden) + (size_t)row * (size_t)net.gate_hidden;
    double sum = 0;
    each_lane(net.gate_hidden, [&](int k) { sum += (double)w[k] * (double)hidden[k]; });
    sum = lanes_sum(sum) + (double)gate_params(frame, slot)[net.gate_branch.b2];
    return (float)(sum >= 0 ? 1 / (1 + exp(-sum)) : exp(sum) / (1 + exp(sum)));
}

/* How far a norm seed goes from x to its LayerNorm. */
DEVICE float norm_mix(const struct frame &frame, int slot)
{
    return (float)tanh((double)seed_params(frame, slot)[seed_of(frame, slot).sigma]);
}

/* The output of a seed that is no branch, for a token; a norm's statistics are kept. */
DEVICE void seed_row(const struct frame &frame, int slot, int row)
{
    const struct exact_slot &view = frame.net->slot[slot];
    const struct exact_seed &seed = seed_of(frame, slot);
    const int width = frame.net->width;
    const size_t first = (size_t)row * (size_t)width;
    const float *x = at(frame, view.x) + first, *params = seed_params(frame, slot);
    float *s = at(frame, view.s) + first, *hat = at(frame, view.hat) + first;
    if (!seed.norm) {
        each_lane(width, [&](int i) { s[i] = x[i]; });
        return;
    }
    const float t = norm_mix(frame, slot), *gamma = params + seed.norm_at.gamma, *beta = params + seed.norm_at.beta;
    at(frame, view.rstd)[row] = row_normalise(width, x, hat);
    each_lane(width, [&](int i) { s[i] = x[i] + t * (gamma[i] * hat[i] + beta[i] - x[i]); });
}

/* The weight of a token's seed: alpha, scaled by the gate where there is one. */
DEVICE float amplitude_of(const struct frame &frame, int slot, int row)
{
    const float a = slot_amplitude(frame.exec[slot]);
    if (!frame.exec[slot].gate)
        return a;
    const float scaled = a * at(frame, frame.net->slot[slot].q)[row];
    return scaled < 0 ? 0 : scaled > 1 ? 1 : scaled;
}

/* nn/flat.h: a == 0 selects h and never reads s (I-20); ADD at a == 1 gives s bit for bit (I-21). */
DEVICE float blended(bool multiply, float a, float h, const float *s)
{
    if (a == 0)
        return h;
    if (multiply)
        return h * (1 + a * tanhf(*s - h));
    return a < 0.5f ? h + a * (*s - h) : *s - (*s - h) * (1 - a);
}

/* The stream after the slot. */
DEVICE void stage_mix(const struct frame &frame, int slot, const struct share &share)
{
    const struct exact_slot &view = frame.net->slot[slot];
    const int width = frame.net->width;
    const bool mixes = slot_mixes(frame, slot), gated = slot_gated(frame, slot),
               plain = slot_runs(frame, slot) && !seed_has_branch(frame, slot),
               multiply = frame.exec[slot].algorithm == ALGORITHM_MULTIPLY;
    each_row(frame.rows, share, [&](int row) {
        const size_t first = (size_t)row * (size_t)width;
        const float *x = at(frame, view.x) + first, *s = at(frame, view.s) + first;
        float *stream = at(frame, frame.net->stream) + first;
        if (plain)
            seed_row(frame, slot, row);
        if (gated) {
            const float q = gate_value(frame, slot, row);
            at(frame, view.q)[row] = q; /* the same in every lane */
        }
        const float a = mixes ? amplitude_of(frame, slot, row) : 0;
        each_lane(width, [&](int i) { stream[i] = blended(multiply, a, x[i], &s[i]); });
    });
}

#endif
