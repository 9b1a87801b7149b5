/*
 * The forward pass of a sequence. The stream is in registers; only attention and what it reads pass through the team's
 * sheets. In training the tape keeps what the backward pass will ask for.
 */
#ifndef TRANSFORMER_BF16_FORWARD_CUH
#define TRANSFORMER_BF16_FORWARD_CUH

#include "transformer/bf16/attention.cuh"

/* ---- the host ---------------------------------------------------------------------------------------------------- */

template <int C> DEVICE struct lines<C> embedded(const struct team &team, const uint8_t *tokens) {
    const struct exact_view &net = *team.net;
    struct lines<C> stream;
    const int g = lane_of() / 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int t = team.row() + g + 8 * half;
        const bool within = t < net.context;
        const float *entry = lane_row(team.frame().host + net.tokens + (within ? (uint32_t)tokens[t] * C : 0)),
                    *position = lane_row(team.frame().host + net.positions + (within ? (uint32_t)t * C : 0));
#pragma unroll
        for (int j = 0; j < C / 8; j++) {
            const float2 from = two_at(position, j), own = two_at(entry, j);
            stream.v[j][2 * half] = within ? from.x + own.x : 0.0f;
            stream.v[j][2 * half + 1] = within ? from.y + own.y : 0.0f;
        }
    }
    return stream;
}

/* The norm before a half: rounded rows and 1 / deviation to the tape, and what it yields. */
template <int C>
DEVICE struct pairs<C> norm_forward(const struct team &team, const struct lines<C> &x, const struct norm_view &norm,
                                    uint32_t place, uint32_t numbers, int which) {
    float rstd[2];
    const struct pairs<C> hat = rounded(normalised<C>(x, rstd, (float)LAYER_NORM_EPS));
    tape_write<C>(team, place, hat);
    tape_write_two(team, numbers, which, rstd);
    return scaled<C>(hat, team.frame().host + norm.gamma, team.frame().host + norm.beta);
}

/* to += what attention makes of x, for the tape what it mixes; where it does not `mix` in, for the tape alone. The belt
 * has been started. */
template <int C, int D>
DEVICE void attention_forward(const struct team &team, struct lines<C> &to, const struct branch_at<C> &branch,
                              const struct pairs<C> &x, const struct small_tape &tape, bool mixes)
{
    const auto belt = belt_of<C>(team, attention_course<C>(branch));
    attention_first<C>(team, branch, x, belt, 0);
    const struct pairs<C> mixed = attention_mixed<C, D>(team, team.logs(tape.logs));
    tape_write<C>(team, tape.mixed, mixed);
    if (!mixes)
        return;
    multiply_lot<C, LOT_ROWS>(to, mixed, belt.next(3));
    if (branch.biased)
        belt.add_bias(to, 3);
}

template <int C> DEVICE void layer_forward(const struct team &team, struct lines<C> &stream, int layer)
{
    const struct small_tape &tape = team.small->layer[layer];
#pragma unroll 1
    for (int half = 0; half < 2; half++) {
        belt_of<C>(team, forward_course<C>(half_branch<C>(team, layer, half))).start();
        const struct pairs<C> x = norm_forward<C>(team, stream, team.net->layer[layer].half[half].norm,
                                                  half ? tape.second : tape.first, tape.numbers, half);
        if (half)
            inner_forward<C>(team, stream, half_branch<C>(team, layer, 1), x);
        else
            attention_forward<C, 16>(team, stream, half_branch<C>(team, layer, 0), x, tape, true);
    }
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

/* W1 of a slot's gate net, rounded: of its row and its column, or 0 beyond the last row. */
struct gate_weights {
    const float *w1;
    int rows, width;

    DEVICE_MEMBER float at(int row, int column) const
    {
        return row < rows ? __ldg(w1 + row * width + column) : 0.0f;
    }
};

DEVICE struct gate_weights gate_weights_of(const struct team &team, int slot)
{
    const struct exact_view &net = *team.net;
    return {gate_params(team.frame(), slot) + net.gate_branch.w1, net.gate_hidden, net.width};
}

/* The gate net's hidden layer of a slot: W1 x + b1, before ReLU. */
template <int C> DEVICE struct lines<TILE> gate_hidden_of(const struct team &team, int slot, const struct pairs<C> &x) {
    const struct exact_view &net = *team.net;
    const struct gate_weights w = gate_weights_of(team, slot);
    const float *bias = gate_params(team.frame(), slot) + net.gate_branch.b1;
    struct lines<TILE> hidden;
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const int row = 8 * j + lane_of() / 4;
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int k = column_of(j) + e % 2;
            hidden.v[j][e] = k < net.gate_hidden ? __ldg(bias + k) : 0.0f;
        }
#pragma unroll
        for (int k = 0; k < C / TILE; k++) {
            const int left = column_of(2 * k), right = column_of(2 * k + 1);
            mma_bf16(hidden.v[j], x.a[k], pack_bf16(w.at(row, left), w.at(row, left + 1)),
                     pack_bf16(w.at(row, right), w.at(row, right + 1)));
        }
    }
    return hidden;
}

/* to += what the gate net's hidden layer passes back. */
template <int C>
DEVICE void gate_pass_back(const struct team &team, int slot, const struct pairs<TILE> &hidden, struct lines<C> &to)
{
    const struct gate_weights w = gate_weights_of(team, slot);
    const int upper = column_of(0), lower = column_of(1);
#pragma unroll
    for (int j = 0; j < C / 8; j++) {
        const int column = 8 * j + lane_of() / 4;
        mma_bf16(to.v[j], hidden.a[0], pack_bf16(w.at(upper, column), w.at(upper + 1, column)),
                 pack_bf16(w.at(lower, column), w.at(lower + 1, column)));
    }
}

/* W2 of the gate net at a lane's column, or 0 beyond. */
DEVICE float gate_weight(const struct team &team, int slot, int column)
{
    const struct exact_view &net = *team.net;
    return column < net.gate_hidden ? __ldg(gate_params(team.frame(), slot) + net.gate_branch.w2 + column) : 0.0f;
}

/* The gate net's value of a lane's two tokens. */
template <int C> DEVICE void gate_values(const struct team &team, int slot, const struct pairs<C> &x, float q[2])
{
    const struct lines<TILE> hidden = gate_hidden_of<C>(team, slot, x);
    const float bias = __ldg(gate_params(team.frame(), slot) + team.net->gate_branch.b2);
    float sum[2];
    row_sums<TILE>(
        sum, [&](int j, int e) { return fmaxf(hidden.v[j][e], 0.0f) * gate_weight(team, slot, column_of(j) + e % 2); });
    for (int r = 0; r < 2; r++)
        q[r] = 1 / (1 + expf(-(sum[r] + bias)));
}

template <int C> DEVICE void norm_seed_forward(const struct team &team, int slot, struct lines<C> &d)
{
    const struct exact_seed &seed = seed_of(team.frame(), slot);
    const float *params = seed_params(team.frame(), slot), t = norm_mix(team.frame(), slot),
                *gamma = params + seed.norm_at.gamma, *beta = params + seed.norm_at.beta;
    float rstd[2];
    const struct lines<C> hat = normalised<C>(d, rstd, (float)LAYER_NORM_EPS);
#pragma unroll
    for (int j = 0; j < C / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int c = column_of(j) + e % 2;
            d.v[j][e] = t * (fmaf(__ldg(gamma + c), hat.v[j][e], __ldg(beta + c)) - d.v[j][e]);
        }
}

/* d is the stream that enters a seed, and becomes what the seed adds to it; 0 for NOOP. In TRAINING only attention
 * runs, for the tape. */
template <int C> DEVICE void seed_forward(const struct team &team, int slot, struct lines<C> &d, bool mixes)
{
    const struct exact_seed &seed = seed_of(team.frame(), slot);
    const struct small_tape &tape = team.small->slot[slot];
    const struct branch_at<C> branch = seed_branch<C>(team, slot, nullptr);
    if (seed.norm && mixes) {
        norm_seed_forward<C>(team, slot, d);
        return;
    }
    const struct pairs<C> x = rounded(d);
    d = lines_zero<C>();
    if (branch.kind == BRANCH_NONE || (branch.kind != BRANCH_ATTENTION && !mixes))
        return;
    belt_of<C>(team, forward_course<C>(branch)).start();
    if (branch.kind == BRANCH_ATTENTION)
        attention_forward<C, C / SEED_HEADS>(team, d, branch, x, tape, mixes);
    else
        inner_forward<C>(team, d, branch, x);
}

/* The weight of a seed for a lane's two tokens. */
DEVICE void seed_weights(const struct team &team, int slot, const float q[2], float a[2])
{
    const struct slot_exec &exec = team.frame().exec[slot];
    for (int r = 0; r < 2; r++) {
        const float scaled_by = exec.gate ? slot_amplitude(exec) * q[r] : slot_amplitude(exec);
        a[r] = scaled_by < 0 ? 0 : scaled_by > 1 ? 1 : scaled_by;
    }
}

/* The stream waits in the bank for what the seed adds to it. */
template <int C> DEVICE void slot_forward(const struct team &team, struct lines<C> &stream, int slot)
{
    if (!slot_runs(team.frame(), slot))
        return;
    const bool mixes = slot_mixes(team.frame(), slot),
               multiply = team.frame().exec[slot].algorithm == ALGORITHM_MULTIPLY;
    const struct small_tape &tape = team.small->slot[slot];
    float q[2] = {1, 1}, a[2];
    bank_put<C>(team, stream);
    tape_write<C>(team, tape.first, rounded(stream));
    seed_forward<C>(team, slot, stream, mixes);
    if (!mixes) {
        stream = bank_get<C>(team);
        return;
    }
    tape_write<C>(team, tape.second, rounded(stream));
    if (slot_gated(team.frame(), slot))
        gate_values<C>(team, slot, rounded(bank_get<C>(team)), q);
    seed_weights(team, slot, q, a);
    tape_write_two(team, tape.numbers, 0, q);
    const struct lines<C> x = bank_get<C>(team);
#pragma unroll
    for (int j = 0; j < C / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const float s = x.v[j][e] + stream.v[j][e];
            stream.v[j][e] = blended(multiply, a[e / 2], x.v[j][e], &s);
        }
}

/* ---- the classifier ---------------------------------------------------------------------------------------------- */

struct token_verdict {
    float log; /* base 2, of the sum of exponentials */
    float loss;
    bool hit; /* the target is the first of the largest */
};

/* Lots of C logits. */
template <int C> struct logit_parts {
    enum { ALL = TRANSFORMER_BYTES / C };
};

template <int C> DEVICE auto logits_course(const struct team &team)
{
    const uint4 *lots = team.desk->lots + team.small->tokens.lots;
    return [=](int part) {
        return part < logit_parts<C>::ALL ? lot_at{lots + (uint32_t)part * lot_size(C), nullptr} : lot_at{};
    };
}

#define LOG_OF_TWO 1.44269504f /* a logit in base 2 */

/* C logits of the warp's tokens. */
template <int C> DEVICE struct lines<C> logits_of(const struct pairs<C> &x, uint32_t lot) {
    struct lines<C> logits = lines_zero<C>();
    multiply_lot<C, LOT_ROWS>(logits, x, lot);
    return logits;
}

/* Of a lane's two tokens, the same in the four lanes that share them. */
template <int C>
DEVICE void judge_tokens(const struct team &team, const struct pairs<C> &x, const int target[2],
                         struct token_verdict out[2])
{
    float top[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0}, wanted[2] = {0, 0};
    int first[2] = {TRANSFORMER_BYTES, TRANSFORMER_BYTES};
    const auto belt = belt_of<C>(team, logits_course<C>(team));
    belt.start();
#pragma unroll 1
    for (int part = 0; part < logit_parts<C>::ALL; part++) {
        const struct lines<C> logits = logits_of<C>(x, belt.next(part));
        const int left = part * C + column_of(0);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float before = top[r];
#pragma unroll
            for (int i = 0; i < C / 4; i++) {
                const float own = logits.v[i / 2][2 * r + i % 2];
                const int k = left + i / 2 * 8 + i % 2;
                first[r] = own > top[r] ? k : first[r];
                top[r] = fmaxf(top[r], own);
                wanted[r] = k == target[r] ? own : wanted[r];
            }
            const float shift = -LOG_OF_TWO * top[r];
            total[r] *= quick_exp2(fmaf(before, LOG_OF_TWO, shift));
#pragma unroll
            for (int i = 0; i < C / 4; i++)
                total[r] += quick_exp2(fmaf(logits.v[i / 2][2 * r + i % 2], LOG_OF_TWO, shift));
        }
    }
    for (int r = 0; r < 2; r++) {
        const float top_of_all = quad_max(top[r]);
        int best = top[r] == top_of_all ? first[r] : TRANSFORMER_BYTES;
        for (int mask = 1; mask < 4; mask *= 2)
            best = min(best, __shfl_xor_sync(~0u, best, mask));
        total[r] = quad_sum(total[r] * quick_exp2((top[r] - top_of_all) * LOG_OF_TWO));
        out[r].log = fmaf(top_of_all, LOG_OF_TWO, log2f(total[r]));
        out[r].loss = fmaf(log2f(total[r]), 0.69314718f, top_of_all - quad_sum(wanted[r]));
        out[r].hit = best == target[r];
    }
}

/* The targets of a lane's two tokens; 0 beyond the sequence. */
DEVICE void targets_of(const struct team &team, const uint8_t *targets, int target[2])
{
    for (int r = 0; r < 2; r++) {
        const int t = team.row() + lane_of() / 4 + 8 * r;
        target[r] = t < team.net->context ? targets[t] : 0;
    }
}

#endif
