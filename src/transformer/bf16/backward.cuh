/*
 * The backward pass of a sequence, by the team that took it forward. The gradient of the stream is in registers; while
 * a branch is worked on it waits in shared memory. Hidden layers, queries, keys and values are computed once more.
 */
#ifndef TRANSFORMER_BF16_BACKWARD_CUH
#define TRANSFORMER_BF16_BACKWARD_CUH

#include "transformer/bf16/outer.cuh"

/* ---- norms ------------------------------------------------------------------------------------------------------- */

/* d, the gradient after the norm, becomes that before it; gamma's and beta's go to the slab. */
template <int C>
DEVICE void norm_backward(const struct trainer &t, struct lines<C> &d, const struct pairs<C> &hat, const float rstd[2],
                          const struct norm_view &norm)
{
    const float *gains = lane_row(t.frame().host + norm.gamma);
    float mean[2], slope[2];
    block_columns<C, C>(
        t, C, [&](int which, int j, int e) { return which ? d.v[j][e] : d.v[j][e] * number_of(hat, j, e); },
        t.desk->slab + norm.gamma, t.desk->slab + norm.beta);
#pragma unroll
    for (int j = 0; j < C / 8; j++) {
        const float2 gain = two_at(gains, j);
#pragma unroll
        for (int e = 0; e < 4; e++)
            d.v[j][e] *= e % 2 ? gain.y : gain.x;
    }
    row_sums<C>(mean, [&](int j, int e) { return d.v[j][e]; });
    row_products<C>(
        slope, [&](int j, int e) { return d.v[j][e]; }, [&](int j, int e) { return number_of(hat, j, e); });
    for (int r = 0; r < 2; r++) {
        mean[r] /= (float)C;
        slope[r] /= (float)C;
    }
#pragma unroll
    for (int j = 0; j < C / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            d.v[j][e] = rstd[e / 2] * fmaf(-number_of(hat, j, e), slope[e / 2], d.v[j][e] - mean[e / 2]);
}

/* ---- MLP and LORA ------------------------------------------------------------------------------------------------ */

/* What is wanted of a branch: gradients of its parameters, that of its input. */
struct wanted {
    bool learns, passes;
};

/* Parts of the hidden layer: what makes their gradients, then what makes them and what their gradients make. */
template <int C> DEVICE auto parts_course(const struct branch_at<C> &branch)
{
    return [=](int lot) {
        return lot >= 2 * branch.parts ? lot_at{} : lot % 2 ? branch.w1(lot / 2) : branch.w2(lot / 2);
    };
}

/* GELU of x, and its slope times `back` in place of that. */
template <int C> DEVICE void through_gelu(const struct lines<C> &x, struct pairs<C> &act, struct pairs<C> &back)
{
#pragma unroll
    for (int j = 0; j < C / 8; j++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t slope, &own = back.a[j / 2][j % 2 * 2 + half];
            act.a[j / 2][j % 2 * 2 + half] = gelu_pair_both(x.v[j][2 * half], x.v[j][2 * half + 1], &slope);
            own = multiply_bf16(slope, own);
        }
}

/* C columns of the hidden layer: f of them to sheet 2, their gradients to sheet 3 and, through W1, to dx. The gradient
 * of the branch's output is in sheet 0, its input in sheet 1. */
template <int C, class Course>
DEVICE void inner_part(const struct trainer &t, const struct branch_at<C> &branch, struct lines<C> &dx,
                       struct wanted wanted, int part, const struct belt<C, Course> &belt)
{
    struct lines<C> sum = lines_zero<C>();
    multiply_sheet<C, LOT_COLUMNS>(sum, sheet_of<C>(t, 0), t.row(), belt.next(2 * part, part > 0 && wanted.learns));
    struct pairs<C> back = rounded(sum), act;
    sum = first_part<C>(t, branch, sheet_of<C>(t, 1), belt, 2 * part + 1);
    if (branch.kind == BRANCH_MLP)
        through_gelu<C>(sum, act, back);
    else
        act = rounded(sum);
    if (part > 0 && wanted.learns)
        outer_settle();
    sheet_store<C>(sheet_of<C>(t, 2), t.row(), 0, act.a);
    sheet_store<C>(sheet_of<C>(t, 3), t.row(), 0, back.a);
    if (wanted.passes)
        multiply_lot<C, LOT_COLUMNS>(dx, back, belt.stage(2 * part + 1));
}

/* From dy, the gradient of the branch's output, and what makes its input of what the tape has: dx, which is zero where
 * it is not wanted, and the slab's. The sheets are not settled. */
template <int C, class Input>
DEVICE void inner_backward(const struct trainer &t, const struct branch_at<C> &branch, const struct pairs<C> &dy,
                           const struct pairs<C> &kept, Input input, struct lines<C> &dx, struct wanted wanted)
{
    const auto belt = belt_of<C>(t, parts_course<C>(branch));
    {
        belt.start();
        const struct pairs<C> x = input(kept);
        sheet_store<C>(sheet_of<C>(t, 0), t.row(), 0, dy.a);
        sheet_store<C>(sheet_of<C>(t, 1), t.row(), 0, x.a);
    }
    dx = lines_zero<C>();
#pragma unroll 1
    for (int part = 0; part < branch.parts; part++) {
        inner_part<C>(t, branch, dx, wanted, part, belt);
        if (!wanted.learns)
            continue;
        const int first = part * C;
        const struct outer both[2] = {{0, 2, C, min(branch.columns() - first, C),
                                       branch.slab + branch.at_w2() + first * TILE, branch.columns() / 8,
                                       branch.biased && part == 0 ? branch.slab + branch.at_b2() : nullptr},
                                      {3, 1, min(branch.rows() - first, C), C, branch.slab + first * C, C / 8,
                                       branch.biased ? branch.slab + branch.at_b1() + first : nullptr}};
        outer_products<C>(t, both);
        belt.send(2 * part + 1 + t.crew.lots); /* all have met, so W1 has been multiplied */
    }
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* Natural: of the gradient of q k. */
template <int D> DEVICE float gradient_scale()
{
    return D == 16 ? 0.25f : 0.35355339f;
}

/* Sums over keys, for the warp's queries: dq. */
template <int C, int D> DEVICE void head_queries(const struct trainer &t, int head, float (*dq)[4])
{
    const int g = lane_of() / 4, column = head * D;
    uint32_t q[4], dout[4], b[4];
    uint32_t mark[2][2];
    head_own<D>(q, sheet_of<C>(t, 0), t.row(), column);
    head_own<D>(dout, sheet_of<C>(t, 3), t.row(), column);
    for (int r = 0; r < 2; r++)
        load_shared_64(mark[r], t.marks<C>(head, t.row() + g + 8 * r));
#pragma unroll 1
    for (int n = 0; n <= t.warp(); n++) {
        struct lines<TILE> s = lines_zero<TILE>(), d = lines_zero<TILE>();
        head_rows<D>(b, sheet_of<C>(t, 1), n * TILE, column);
        mma_bf16(s.v[0], q, b[0], b[1]);
        mma_bf16(s.v[1], q, b[2], b[3]);
        head_rows<D>(b, sheet_of<C>(t, 2), n * TILE, column);
        mma_bf16(d.v[0], dout, b[0], b[1]);
        mma_bf16(d.v[1], dout, b[2], b[3]);
        if (n == t.warp())
            hide_future<false>(s.v);
#pragma unroll
        for (int e = 0; e < 8; e++) {
            const float log = __uint_as_float(mark[e % 4 / 2][0]), dot = __uint_as_float(mark[e % 4 / 2][1]);
            const float p = quick_exp2(fmaf(s.v[e / 4][e % 4], head_scale<D>(), -log));
            d.v[e / 4][e % 4] = p * (d.v[e / 4][e % 4] - dot);
        }
        const struct pairs<TILE> ds = rounded(d);
        head_add<D>(dq, ds.a[0], sheet_of<C>(t, 1), n * TILE, column);
    }
}

/* Sums over queries, for the warp's keys and values: dk and dv. */
template <int C, int D> DEVICE void head_keys(const struct trainer &t, int head, float (*dk)[4], float (*dv)[4])
{
    const int column = head * D;
    uint32_t k[4], v[4], b[4];
    head_own<D>(k, sheet_of<C>(t, 1), t.row(), column);
    head_own<D>(v, sheet_of<C>(t, 2), t.row(), column);
#pragma unroll 1
    for (int n = t.warp(); n < TEAM_WARPS; n++) {
        struct lines<TILE> p = lines_zero<TILE>(), d = lines_zero<TILE>();
        head_rows<D>(b, sheet_of<C>(t, 0), n * TILE, column);
        mma_bf16(p.v[0], k, b[0], b[1]);
        mma_bf16(p.v[1], k, b[2], b[3]);
        head_rows<D>(b, sheet_of<C>(t, 3), n * TILE, column);
        mma_bf16(d.v[0], v, b[0], b[1]);
        mma_bf16(d.v[1], v, b[2], b[3]);
        if (n == t.warp())
            hide_future<true>(p.v);
#pragma unroll
        for (int j = 0; j < 2; j++) {
            uint32_t mark[4]; /* of two queries */
            load_shared_128(mark, t.marks<C>(head, n * TILE + column_of(j)));
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const float log = __uint_as_float(mark[e % 2 * 2]), dot = __uint_as_float(mark[e % 2 * 2 + 1]);
                p.v[j][e] = quick_exp2(fmaf(p.v[j][e], head_scale<D>(), -log));
                d.v[j][e] = p.v[j][e] * (d.v[j][e] - dot);
            }
        }
        const struct pairs<TILE> weights = rounded(p), ds = rounded(d);
        head_add<D>(dv, weights.a[0], sheet_of<C>(t, 3), n * TILE, column);
        head_add<D>(dk, ds.a[0], sheet_of<C>(t, 0), n * TILE, column);
    }
}

/* Queries, keys and values in the sheets 0 to 2 become their gradients; sheet 3 has that of what was mixed. */
template <int C, int D> DEVICE void heads_backward(const struct trainer &t)
{
#pragma unroll 1
    for (int head = 0; head < C / D; head++) {
        float dq[D / 8][4] = {}, dk[D / 8][4] = {}, dv[D / 8][4] = {};
        head_queries<C, D>(t, head, dq);
        head_keys<C, D>(t, head, dk, dv);
#pragma unroll
        for (int e = 0; e < D / 2; e++) {
            dq[e / 4][e % 4] *= gradient_scale<D>();
            dk[e / 4][e % 4] *= gradient_scale<D>();
        }
        team_meet(t); /* nobody reads this head's columns any more */
        head_store<D>(sheet_of<C>(t, 0), t.row(), head * D, dq);
        head_store<D>(sheet_of<C>(t, 1), t.row(), head * D, dk);
        head_store<D>(sheet_of<C>(t, 2), t.row(), head * D, dv);
    }
}

/* The gradient of what was mixed to sheet 3, and head by head its product with what was, and the logarithm; W2 is
 * the belt's first lot. */
template <int C, int D, class Course>
DEVICE void mixed_backward(const struct trainer &t, const struct pairs<C> &dy, const struct pairs<C> &mixed,
                           const float *logs, const struct belt<C, Course> &belt)
{
    struct lines<C> d = lines_zero<C>();
    float log[C / D][2];
    const int first = t.row() + lane_of() / 4;
#pragma unroll
    for (int head = 0; head < C / D; head++)
#pragma unroll
        for (int r = 0; r < 2; r++) /* on their way meanwhile */
            log[head][r] = logs[head * TEAM_TOKENS + first + 8 * r];
    multiply_lot<C, LOT_COLUMNS>(d, dy, belt.next(0));
#pragma unroll
    for (int head = 0; head < C / D; head++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float dot = 0;
#pragma unroll
            for (int j = head * D / 8; j < (head + 1) * D / 8; j++)
#pragma unroll
                for (int e = 2 * r; e < 2 * r + 2; e++)
                    dot = fmaf(d.v[j][e], number_of(mixed, j, e), dot);
            dot = quad_sum(dot);
            if (lane_of() % 4 == 0)
                store_shared_64(t.marks<C>(head, first + 8 * r), __float_as_uint(log[head][r]), __float_as_uint(dot));
        }
    const struct pairs<C> out = rounded(d);
    sheet_store<C>(sheet_of<C>(t, 3), t.row(), 0, out.a);
}

/* W2; W1, for queries, keys and values; and, where it passes back, W1 once more for their gradients. */
template <int C> DEVICE auto thirds_course(const struct branch_at<C> &branch, bool passes)
{
    return [=](int lot) {
        return lot == 0 ? branch.w2(0) : lot < (passes ? 7 : 4) ? branch.w1((lot - 1) % 3) : lot_at{};
    };
}

/* As inner_backward. */
template <int C, int D, class Input>
DEVICE void attention_backward(const struct trainer &t, const struct branch_at<C> &branch, const struct pairs<C> &dy,
                               const struct pairs<C> &kept, Input input, uint32_t mixed_place, const float *logs,
                               struct lines<C> &dx, struct wanted wanted)
{
    const auto belt = belt_of<C>(t, thirds_course<C>(branch, wanted.passes));
    {
        const struct pairs<C> mixed = tape_read<C>(t, mixed_place);
        belt.start();
        if (wanted.learns) {
            sheet_store<C>(sheet_of<C>(t, 0), t.row(), 0, dy.a);
            sheet_store<C>(sheet_of<C>(t, 1), t.row(), 0, mixed.a);
            const struct outer w2[1] = {
                {0, 1, C, C, branch.slab + branch.at_w2(), C / 8, branch.slab + branch.at_b2()}};
            outer_products<C>(t, w2);
        }
        mixed_backward<C, D>(t, dy, mixed, logs, belt);
    }
    const struct pairs<C> x = input(kept);
    if (wanted.learns)
        outer_settle();
    attention_first<C>(t, branch, x, belt, 1);
    heads_backward<C, D>(t);
    dx = lines_zero<C>();
    if (wanted.passes)
#pragma unroll 1
        for (int third = 0; third < 3; third++)
            multiply_sheet<C, LOT_COLUMNS>(dx, sheet_of<C>(t, third), t.row(), belt.next(4 + third));
    if (!wanted.learns)
        return;
    sheet_store<C>(sheet_of<C>(t, 3), t.row(), 0, x.a);
    const struct outer w1[1] = {{0, 3, 3 * C, C, branch.slab, C / 8, branch.slab + branch.at_b1()}};
    outer_products<C>(t, w1);
}

/* ---- the host ---------------------------------------------------------------------------------------------------- */

template <int C> DEVICE void layer_backward(const struct trainer &t, struct lines<C> &dh, int layer)
{
    const struct small_tape &tape = t.small->layer[layer];
    const struct wanted all = {true, true};
#pragma unroll 1
    for (int half = 1; half >= 0; half--) {
        const struct norm_view &norm = t.net->layer[layer].half[half].norm;
        const uint32_t place = half ? tape.second : tape.first;
        const struct pairs<C> kept = tape_read<C>(t, place), dy = rounded(dh);
        const auto input = [&](const struct pairs<C> &hat) {
            return scaled<C>(hat, t.frame().host + norm.gamma, t.frame().host + norm.beta);
        };
        bank_put<C>(t, dh);
        if (half)
            inner_backward<C>(t, half_branch<C>(t, layer, 1), dy, kept, input, dh, all);
        else
            attention_backward<C, 16>(t, half_branch<C>(t, layer, 0), dy, kept, input, tape.mixed, t.logs(tape.logs),
                                      dh, all);
        float rstd[2];
        tape_read_two(t, tape.numbers, half, rstd);
        norm_backward<C>(t, dh, tape_read<C>(t, place), rstd, norm);
        bank_add<C>(t, dh);
    }
}

/* ---- the classifier ---------------------------------------------------------------------------------------------- */

/* From the last stream to losses and, `scale` times, the stream's gradient. */
template <int C>
DEVICE struct lines<C> classify(const struct trainer &t, const struct lines<C> &stream, const uint8_t *targets,
                                float scale, struct token_verdict verdict[2]) {
    const struct exact_view &net = *t.net;
    const struct small_tape &tape = t.small->last;
    struct lines<C> dn = lines_zero<C>();
    int target[2];
    {
        const struct pairs<C> x = norm_forward<C>(t, stream, net.last, tape.first, tape.numbers, 0);
        targets_of(t, targets, target);
        judge_tokens<C>(t, x, target, verdict);
        float own[2];
        for (int r = 0; r < 2; r++)
            own[r] = t.row() + lane_of() / 4 + 8 * r < net.context ? scale : 0.0f;
        team_meet(t); /* nobody reads the sheets any more */
        sheet_store<C>(sheet_of<C>(t, 0), t.row(), 0, x.a);
        const auto belt = belt_of<C>(t, logits_course<C>(t));
        belt.start();
#pragma unroll 1
        for (int part = 0; part < logit_parts<C>::ALL; part++) {
            const uint32_t lot = belt.next(part);
            struct lines<C> d = logits_of<C>(x, lot);
            const int left = part * C + column_of(0);
#pragma unroll
            for (int j = 0; j < C / 8; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int r = e / 2, byte = left + 8 * j + e % 2;
                    const float p = quick_exp2(fmaf(d.v[j][e], LOG_OF_TWO, -verdict[r].log));
                    d.v[j][e] = own[r] * (p - (byte == target[r] ? 1.0f : 0.0f));
                }
            const struct pairs<C> out = rounded(d);
            if (part > 0 && part % 2 == 0)
                outer_settle();
            sheet_store<C>(sheet_of<C>(t, 2 + part % 2), t.row(), 0, out.a);
            multiply_lot<C, LOT_COLUMNS>(dn, out, lot);
            if (part % 2 == 0)
                continue;
            const struct outer entries[1] = {
                {2, 0, 2 * C, C, t.desk->slab + t.small->tokens.slab + (part - 1) * C * C, C / 8, nullptr}};
            outer_products<C>(t, entries);
        }
    }
    float rstd[2];
    tape_read_two(t, tape.numbers, 0, rstd);
    norm_backward<C>(t, dn, tape_read<C>(t, tape.first), rstd, net.last);
    return dn;
}

#endif
