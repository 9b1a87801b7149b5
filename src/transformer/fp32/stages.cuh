/*
 * The forward pass in stages, each done by all threads of the blocks that share a frame: in training by a kernel per
 * stage, in an evaluation by one block, with a barrier after each. What a stage reads, earlier ones wrote. P is the
 * precision of products (exact.cuh): arrays that only they read, and what they yield for others, are P's operands.
 */
#ifndef TRANSFORMER_FP32_STAGES_CUH
#define TRANSFORMER_FP32_STAGES_CUH

#include "transformer/fp32/exact.cuh"

/* f(row) for this block's share of the rows, by a warp each. */
template <class F> DEVICE void each_row(int rows, const struct share &share, F f)
{
    for (int row = share.index * STAGE_WARPS + (int)threadIdx.x / WARP_LANES; row < rows;
         row += share.count * STAGE_WARPS)
        f(row);
}

/* ---- arrays and parameters --------------------------------------------------------------------------------------- */

template <class P> DEVICE typename P::operand *operands(const struct frame &frame, place_t place)
{
    return (typename P::operand *)at(frame, place);
}

/* Numbers of the stream or its gradient from index i on. */
template <class P, class F>
DEVICE void put_stream(const struct frame &frame, const struct stream_place &place, size_t i, const F &value)
{
    keep(at(frame, place.exact) + i, value);
    if (!std::is_same<typename P::operand, float>::value && place.operand != place.exact)
        keep(operands<P>(frame, place.operand) + i, value);
}

/* Parameters of the host, a seed or a gate net: as they are, and as operands. */
template <class P> struct params {
    const float *at;
    const typename P::operand *weights;
};

template <class P> DEVICE struct params<P> host_of(const struct frame &frame) {
    return {frame.host, P::rounded(frame, 0, frame.host)};
}

template <class P>
DEVICE struct params<P> seed_at(const struct frame &frame, int slot) {
    const struct exact_view &net = *frame.net;
    return {seed_params(frame, slot),
            P::rounded(frame, (size_t)net.host_storage + net.slot[slot].seed, seed_params(frame, slot))};
}

template <class P>
DEVICE struct params<P> gate_at(const struct frame &frame, int slot) {
    const struct exact_view &net = *frame.net;
    return {
        gate_params(frame, slot),
        P::rounded(frame, (size_t)net.host_storage + net.seed_storage + net.slot[slot].gate, gate_params(frame, slot))};
}

/* The gradient of the seed's output: in TRAINING that after the slot, straight through. */
template <class P>
DEVICE const typename P::operand *seed_gradient(const struct frame &frame, int slot)
{
    const struct exact_slot &view = frame.net->slot[slot];
    return operands<P>(frame, frame.exec[slot].mode == SLOT_STE ? view.dy.operand : view.ds);
}

/* ---- the host ---------------------------------------------------------------------------------------------------- */

DEVICE int token_of(const struct frame &frame, int row)
{
    const int n = row / frame.net->context, t = row % frame.net->context;
    return frame.tokens[(size_t)n * (size_t)frame.token_stride + (size_t)t];
}

template <class P> DEVICE void stage_embed(const struct frame &frame, const struct share &share)
{
    const struct exact_view &net = *frame.net;
    each_row(frame.rows, share, [&](int row) {
        const float *entry = frame.host + net.tokens + (size_t)token_of(frame, row) * (size_t)net.width,
                    *position = frame.host + net.positions + (size_t)(row % net.context) * (size_t)net.width;
        const size_t first = (size_t)row * (size_t)net.width;
        each_few<P::BESIDE>(net.width, [&](int i) {
            put_stream<P>(frame, net.embedding, first + (size_t)i,
                          paired(few_at<P::BESIDE>(position + i), few_at<P::BESIDE>(entry + i),
                                 [](float a, float b) { return a + b; }));
        });
    });
}

template <class P>
DEVICE void stage_norm(const struct frame &frame, const struct norm_view &norm, const struct norm_places &places,
                       place_t from, const struct share &share)
{
    const int width = frame.net->width;
    const float *gamma = frame.host + norm.gamma, *beta = frame.host + norm.beta;
    each_row(frame.rows, share, [&](int row) {
        const size_t first = (size_t)row * (size_t)width;
        at(frame, places.rstd)[row] = P::normalise(width, at(frame, from) + first, gamma, beta,
                                                   operands<P>(frame, places.hat) + first,
                                                   operands<P>(frame, places.normed) + first);
    });
}

template <class P>
DEVICE void stage_first(const struct frame &frame, const struct branch_view &branch, const struct branch_places &places,
                        const struct params<P> &params, const typename P::operand *x, const struct share &share)
{
    typename P::operand *hidden = operands<P>(frame, places.hidden), *mixed = operands<P>(frame, places.mixed);
    P::forward(frame, frame.net->width, branch.hidden, params.weights + branch.w1,
               branch.biased ? params.at + branch.b1 : nullptr, x, share, nothing_beside(),
               [&](int row, int column, const auto &sum, const auto &) {
                   const size_t i = (size_t)row * (size_t)branch.hidden + (size_t)column;
                   if (branch.kind != BRANCH_MLP) {
                       keep(hidden + i, sum);
                       return;
                   }
                   P::keep_gelu(mixed + i, hidden + i, sum);
               });
}

template <class P>
DEVICE const typename P::operand *mixed_of(const struct frame &frame, const struct branch_view &branch,
                                           const struct branch_places &places)
{
    return operands<P>(frame, branch.kind == BRANCH_LORA ? places.hidden : places.mixed);
}

/* to = from + the branch's output. */
template <class P>
DEVICE void stage_second(const struct frame &frame, const struct branch_view &branch,
                         const struct branch_places &places, const struct params<P> &params, place_t from_place,
                         const struct stream_place &to, const struct share &share)
{
    const int width = frame.net->width;
    const float *from = at(frame, from_place);
    P::forward(frame, branch.mixed, width, params.weights + branch.w2, branch.biased ? params.at + branch.b2 : nullptr,
               mixed_of<P>(frame, branch, places), share, numbers_beside(from, width),
               [&](int row, int column, const auto &sum, const auto &past) {
                   put_stream<P>(frame, to, (size_t)row * (size_t)width + (size_t)column,
                                 paired(past, sum, [](float a, float b) { return a + b; }));
               });
}

/* Attention's view of a sequence. */
template <class P>
DEVICE struct attended<typename P::operand> sequence_of(const struct frame &frame, const struct branch_places &places,
                                                        int heads, int n) {
    const size_t row = (size_t)n * (size_t)frame.net->context, width = (size_t)frame.net->width;
    attended<typename P::operand> a = {};
    a.length = frame.net->context;
    a.heads = heads;
    a.head = frame.net->width / heads;
    a.qkv = operands<P>(frame, places.hidden) + row * 3 * width;
    a.out = operands<P>(frame, places.mixed) + row * width;
    a.logs = at(frame, places.logs) + row * (size_t)heads;
    a.dout = operands<P>(frame, frame.net->dmixed) + row * width;
    a.dqkv = operands<P>(frame, places.dhidden) + row * 3 * width;
    return a;
}

/* f(sequence, head, k) for this block's share of `count` pieces of work on every head, the first piece of all heads
 * first: it should be the longest, or blocks that began late would work alone in the end. */
template <class F>
DEVICE void each_attended(const struct frame &frame, int heads, int count, const struct share &share, F f)
{
    const int all = frame.sequences * heads;
    for (int item = share.index; item < all * count; item += share.count)
        f(item % all / heads, item % heads, item / all);
}

template <class P, int HEAD>
DEVICE void stage_attend(const struct frame &frame, const struct branch_places &places, int heads,
                         const struct share &share)
{
    const int parts = P::attend_parts(frame.net->context, frame.net->width / heads);
    const auto attend = [&](int n, int head, int k) {
        const int part = parts - 1 - k; /* the last queries see most */
        P::template attend<HEAD>(sequence_of<P>(frame, places, heads, n), head, part);
    };
    each_attended(frame, heads, parts, share, attend);
}

template <class P> DEVICE void stage_logits(const struct frame &frame, const struct share &share)
{
    const struct exact_view &net = *frame.net;
    float *logits = at(frame, net.logits);
    P::forward(frame, net.width, net.vocabulary, host_of<P>(frame).weights + net.tokens, nullptr,
               operands<P>(frame, net.last_places.normed), share, nothing_beside(),
               [&](int row, int column, const auto &sum, const auto &) {
                   keep(logits + (size_t)row * (size_t)net.vocabulary + (size_t)column, sum);
               });
}

DEVICE int target_of(const struct frame &frame, int row)
{
    const int n = row / frame.net->context, t = row % frame.net->context;
    return frame.targets[(size_t)n * (size_t)frame.target_stride + (size_t)t];
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

/* Whether there is anything to do for the next three stages: seed_has_branch, seed_adds_branch, slot_gated. */
DEVICE bool seed_has_branch(const struct frame &frame, int slot)
{
    return slot_runs(frame, slot) && seed_of(frame, slot).branch.kind != BRANCH_NONE;
}

/* What the branch yields is asked for as well: a seed in TRAINING changes nothing. */
DEVICE bool seed_adds_branch(const struct frame &frame, int slot)
{
    return slot_mixes(frame, slot) && seed_of(frame, slot).branch.kind != BRANCH_NONE;
}

template <class P> DEVICE void stage_seed_first(const struct frame &frame, int slot, const struct share &share)
{
    const struct exact_slot &view = frame.net->slot[slot];
    stage_first<P>(frame, seed_of(frame, slot).branch, view.places, seed_at<P>(frame, slot),
                   operands<P>(frame, view.x.operand), share);
}

template <class P> DEVICE void stage_seed_second(const struct frame &frame, int slot, const struct share &share)
{
    const struct exact_slot &view = frame.net->slot[slot];
    const struct stream_place s = {view.s, view.s};
    stage_second<P>(frame, seed_of(frame, slot).branch, view.places, seed_at<P>(frame, slot), view.x.exact, s, share);
}

template <class P> DEVICE void stage_gate(const struct frame &frame, int slot, const struct share &share)
{
    const struct exact_view &net = *frame.net;
    const struct params<P> params = gate_at<P>(frame, slot);
    typename P::operand *hidden = operands<P>(frame, net.slot[slot].gate_hidden);
    P::forward(frame, net.width, net.gate_hidden, params.weights + net.gate_branch.w1, params.at + net.gate_branch.b1,
               operands<P>(frame, net.slot[slot].x.operand), share, nothing_beside(),
               [&](int row, int column, const auto &sum, const auto &) {
                   keep(hidden + (size_t)row * (size_t)net.gate_hidden + (size_t)column,
                        paired(sum, sum, [](float x, float) { return x <= 0 ? 0 : x; }));
               });
}

/* The gate net's value for a token. */
template <class P> DEVICE float gate_value(const struct frame &frame, int slot, int row)
{
    const struct exact_view &net = *frame.net;
    const float *w = gate_params(frame, slot) + net.gate_branch.w2;
    const typename P::operand *hidden = operands<P>(frame, net.slot[slot].gate_hidden) +
                                        (size_t)row * (size_t)net.gate_hidden;
    double sum = 0;
    each_lane(net.gate_hidden, [&](int k) { sum += (double)w[k] * (double)number(hidden[k]); });
    sum = lanes_sum(sum) + (double)gate_params(frame, slot)[net.gate_branch.b2];
    return (float)(sum >= 0 ? 1 / (1 + exp(-sum)) : exp(sum) / (1 + exp(sum)));
}

/* How far a norm seed goes from x to its LayerNorm. */
DEVICE float norm_mix(const struct frame &frame, int slot)
{
    return (float)tanh((double)seed_params(frame, slot)[seed_of(frame, slot).sigma]);
}

/* The output of a seed that is no branch, for a token; a norm's statistics are kept. */
template <class P> DEVICE void seed_row(const struct frame &frame, int slot, int row)
{
    const struct exact_slot &view = frame.net->slot[slot];
    const struct exact_seed &seed = seed_of(frame, slot);
    const int width = frame.net->width;
    const size_t first = (size_t)row * (size_t)width;
    const float *x = at(frame, view.x.exact) + first, *params = seed_params(frame, slot);
    float *s = at(frame, view.s) + first;
    typename P::operand *hat = operands<P>(frame, view.hat) + first;
    if (!seed.norm) {
        each_lane(width, [&](int i) { s[i] = x[i]; });
        return;
    }
    const float t = norm_mix(frame, slot), *gamma = params + seed.norm_at.gamma, *beta = params + seed.norm_at.beta;
    at(frame, view.rstd)[row] = row_normalise(width, x, hat);
    each_lane(width, [&](int i) { s[i] = x[i] + t * (gamma[i] * number(hat[i]) + beta[i] - x[i]); });
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
template <class P> DEVICE void stage_mix(const struct frame &frame, int slot, const struct share &share)
{
    const struct exact_slot &view = frame.net->slot[slot];
    const int width = frame.net->width;
    const bool mixes = slot_mixes(frame, slot), gated = slot_gated(frame, slot),
               plain = slot_runs(frame, slot) && !seed_has_branch(frame, slot),
               multiply = frame.exec[slot].algorithm == ALGORITHM_MULTIPLY;
    each_row(frame.rows, share, [&](int row) {
        const size_t first = (size_t)row * (size_t)width;
        const float *x = at(frame, view.x.exact) + first, *s = at(frame, view.s) + first;
        const auto put = [&](int i, const auto &value) { put_stream<P>(frame, view.to, first + (size_t)i, value); };
        if (!mixes && !plain) {
            each_few<P::BESIDE>(width, [&](int i) { put(i, few_at<P::BESIDE>(x + i)); });
            return;
        }
        if (plain)
            seed_row<P>(frame, slot, row);
        if (gated) {
            const float q = gate_value<P>(frame, slot, row);
            at(frame, view.q)[row] = q; /* the same in every lane */
        }
        const float a = mixes ? amplitude_of(frame, slot, row) : 0;
        each_lane(width, [&](int i) { put(i, blended(multiply, a, x[i], &s[i])); });
    });
}

/* ---- past slots, in training ------------------------------------------------------------------------------------- */

/* The slot hands on what enters it, and nothing else: between layers nobody copies that. Who reads the stream, or its
 * gradient, finds it where it entered the slot. */
DEVICE bool slot_idle(const struct frame &frame, int slot)
{
    return !slot_mixes(frame, slot) && (!slot_runs(frame, slot) || seed_has_branch(frame, slot));
}

/* The stream that a norm reads, `slot` before it. */
DEVICE place_t stream_after(const struct frame &frame, int slot)
{
    return slot >= 0 && slot_idle(frame, slot) ? frame.net->slot[slot].x.exact : frame.net->stream.exact;
}

/* The gradient of the stream after a half. */
DEVICE const struct stream_place &gradient_after(const struct frame &frame, const struct exact_half &half)
{
    return half.after >= 0 && slot_idle(frame, half.after) ? frame.net->slot[half.after].dy : half.dy;
}

#endif
