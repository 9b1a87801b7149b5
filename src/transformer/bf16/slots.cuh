/* Slots in the backward pass: the blend, the seed, and its gate net. Seeds in TRAINING take the gradient after the slot
 * as it is, and give nothing back. */
#ifndef TRANSFORMER_BF16_SLOTS_CUH
#define TRANSFORMER_BF16_SLOTS_CUH

#include "transformer/bf16/backward.cuh"

DEVICE float *slot_slab(const struct trainer &t, int slot)
{
    return t.desk->slab + t.net->host_storage + (size_t)slot * (t.small->seed_slab + t.small->gate_slab);
}

/* A norm seed: from u, the gradient of its output, to its parameters' and, in its place, what passes through it. */
template <int C>
DEVICE void norm_seed_backward(const struct trainer &t, int slot, struct lines<C> &u, const struct pairs<C> &x,
                               struct wanted wanted)
{
    const struct exact_seed &seed = seed_of(t.frame(), slot);
    const float *params = seed_params(t.frame(), slot), *gamma = params + seed.norm_at.gamma,
                *beta = params + seed.norm_at.beta, mix = norm_mix(t.frame(), slot);
    float *slab = slot_slab(t, slot), rstd[2], sigma[2], mean[2], slope[2];
    struct lines<C> from;
#pragma unroll
    for (int j = 0; j < C / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            from.v[j][e] = number_of(x, j, e);
    const struct pairs<C> hat = rounded(normalised<C>(from, rstd, (float)LAYER_NORM_EPS));
    const auto gain = [&](int j, int e) { return __ldg(gamma + column_of(j) + e % 2); };
    if (wanted.learns) {
        row_sums<C>(sigma, [&](int j, int e) {
            return u.v[j][e] *
                   (fmaf(gain(j, e), number_of(hat, j, e), __ldg(beta + column_of(j) + e % 2)) - number_of(x, j, e));
        });
        block_columns<C, TILE>(
            t, 1, [&](int which, int, int e) { return which ? 0.0f : (1 - mix * mix) * sigma[e / 2]; },
            slab + t.small->seed_norm.sigma, slab + t.small->seed_norm.sigma + 1);
        block_columns<C, C>(
            t, C,
            [&](int which, int j, int e) { return which ? mix * u.v[j][e] : mix * u.v[j][e] * number_of(hat, j, e); },
            slab + t.small->seed_norm.gamma, slab + t.small->seed_norm.beta);
    }
    row_sums<C>(mean, [&](int j, int e) { return mix * u.v[j][e] * gain(j, e); });
    row_sums<C>(slope, [&](int j, int e) { return mix * u.v[j][e] * gain(j, e) * number_of(hat, j, e); });
#pragma unroll
    for (int j = 0; j < C / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const float own = mix * u.v[j][e] * gain(j, e) - mean[e / 2] / (float)C -
                              number_of(hat, j, e) * (slope[e / 2] / (float)C);
            u.v[j][e] = wanted.passes ? u.v[j][e] - mix * u.v[j][e] + rstd[e / 2] * own : 0.0f;
        }
}

/* The gate net, from d, the gradient of what enters its sigmoid, of a lane's two tokens. */
template <int C>
DEVICE void gate_backward(const struct trainer &t, int slot, const float d[2], const struct pairs<C> &x,
                          struct lines<C> &dh, struct wanted wanted)
{
    const struct small_view &small = *t.small;
    const struct lines<TILE> hidden = gate_hidden_of<C>(t, slot, x);
    struct lines<TILE> back;
#pragma unroll
    for (int e = 0; e < 8; e++) {
        const float w = gate_weight(t, slot, column_of(e / 4) + e % 2);
        back.v[e / 4][e % 4] = hidden.v[e / 4][e % 4] > 0 ? d[e % 4 / 2] * w : 0.0f;
    }
    const struct pairs<TILE> own = rounded(back);
    if (wanted.passes)
        gate_pass_back<C>(t, slot, own, dh);
    if (!wanted.learns)
        return;
    float *slab = slot_slab(t, slot) + small.seed_slab;
    block_columns<C, TILE>(
        t, TILE, [&](int which, int j, int e) { return which ? d[e / 2] : d[e / 2] * fmaxf(hidden.v[j][e], 0.0f); },
        slab + small.gate_w2, slab + small.gate_b2);
    sheet_store<TILE>(sheet_of<C>(t, 0), t.row(), 0, own.a);
    sheet_store<C>(sheet_of<C>(t, 1), t.row(), 0, x.a);
    const struct outer first[1] = {{0, 1, TILE, C, slab + small.gate_w1, C / 8, slab + small.gate_b1}};
    outer_products<C>(t, first);
}

/* dh after the slot becomes the gradient of the seed's output; what goes past the seed's branch, into the bank. `gate`:
 * of what enters the gate's sigmoid. */
template <int C>
DEVICE void blend_backward(const struct trainer &t, int slot, struct lines<C> &dh, const struct pairs<C> &x,
                           float gate[2])
{
    const struct slot_exec &exec = t.frame().exec[slot];
    const struct pairs<C> d = tape_read<C>(t, t.small->slot[slot].second);
    const bool multiply = exec.algorithm == ALGORITHM_MULTIPLY, passes = slot_passes(t.frame(), slot),
               through = passes && !seed_of(t.frame(), slot).norm; /* s = x + ... */
    struct lines<C> over;
    float q[2], a[2], total[2];
    tape_read_two(t, t.small->slot[slot].numbers, 0, q);
    seed_weights(t, slot, q, a);
    row_sums<C>(total, [&](int j, int e) { return dh.v[j][e] * number_of(d, j, e); });
    for (int r = 0; r < 2; r++)
        gate[r] = slot_amplitude(exec) * total[r] * q[r] * (1 - q[r]);
#pragma unroll
    for (int j = 0; j < C / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const float g = dh.v[j][e], weight = a[e / 2];
            float past = (1 - weight) * g, ds = weight * g;
            if (multiply) {
                const float bend = tanhf(number_of(d, j, e));
                ds = g * number_of(x, j, e) * (weight * (1 - bend * bend));
                past = g * (1 + weight * bend) - (passes ? ds : 0.0f);
            }
            dh.v[j][e] = ds;
            over.v[j][e] = past + (through ? ds : 0.0f);
        }
    bank_put<C>(t, over);
}

/* dh, the gradient of the seed's output, becomes what passes through its branch; 0 where nothing does. */
template <int C> DEVICE void seed_backward(const struct trainer &t, int slot, struct lines<C> &dh, struct wanted wanted)
{
    const struct branch_at<C> branch = seed_branch<C>(t, slot, slot_slab(t, slot));
    const struct small_tape &tape = t.small->slot[slot];
    const struct pairs<C> kept = tape_read<C>(t, tape.first), dy = rounded(dh);
    const auto input = [](const struct pairs<C> &x) { return x; };
    if (branch.kind == BRANCH_NONE || (!wanted.learns && !wanted.passes))
        dh = lines_zero<C>();
    else if (branch.kind == BRANCH_ATTENTION)
        attention_backward<C, C / SEED_HEADS>(t, branch, dy, kept, input, tape.mixed, t.logs(tape.logs), dh, wanted);
    else
        inner_backward<C>(t, branch, dy, kept, input, dh, wanted);
}

template <int C> DEVICE void slot_backward(const struct trainer &t, struct lines<C> &dh, int slot)
{
    if (!slot_runs(t.frame(), slot))
        return;
    const struct exact_seed &seed = seed_of(t.frame(), slot);
    const struct wanted wanted = {slot_learns(t.frame().exec[slot]), slot_passes(t.frame(), slot)};
    const uint32_t place = t.small->slot[slot].first; /* the stream that entered */
    float gate[2];
    bank_put<C>(t, dh);
    if (slot_mixes(t.frame(), slot))
        blend_backward<C>(t, slot, dh, tape_read<C>(t, place), gate);
    if (seed.norm)
        norm_seed_backward<C>(t, slot, dh, tape_read<C>(t, place), wanted);
    else
        seed_backward<C>(t, slot, dh, wanted);
    bank_add<C>(t, dh);
    if (slot_gated(t.frame(), slot))
        gate_backward<C>(t, slot, gate, tape_read<C>(t, place), dh, wanted);
    if (wanted.learns)
        outer_settle();
}

#endif
