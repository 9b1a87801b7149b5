/*
 * Products of a team on the tensor cores, where the card has warpgroups by all four warps at once, otherwise by each of
 * them. Weights are in shared memory in *lots* of C x C numbers, laid out as sheets are: a row of a lot is an output's
 * weights. A product reads a lot by its rows (y = W x) or by its columns (dx = W^T dy).
 */
#ifndef TRANSFORMER_BF16_PRODUCTS_CUH
#define TRANSFORMER_BF16_PRODUCTS_CUH

#include "transformer/bf16/lines.cuh"

enum lot_side { LOT_ROWS, LOT_COLUMNS };

/* ---- tokens times weights ---------------------------------------------------------------------------------------- */

template <int C, enum lot_side SIDE> DEVICE void warp_lot(struct lines<C> &to, const struct pairs<C> &x, uint32_t lot)
{
#pragma unroll
    for (int n = 0; n < C / TILE; n++)
#pragma unroll
        for (int k = 0; k < C / TILE; k++) {
            uint32_t w[4];
            if (SIDE == LOT_ROWS)
                sheet_rows(w, lot, n * TILE, k * TILE);
            else
                sheet_columns(w, lot, k * TILE, n * TILE);
            mma_bf16(to.v[2 * n], x.a[k], w[0], w[1]);
            mma_bf16(to.v[2 * n + 1], x.a[k], w[2], w[3]);
        }
}

/* A sheet or a lot. Of its depth, sixteen columns, or sixteen rows where lines are contiguous in these, are one step.
 */
DEVICE uint64_t sheet_operand(uint32_t sheet)
{
    return group_operand(alike(sheet), SHEET_PATTERN, SHEET_PATTERN);
}

DEVICE uint64_t sheet_step(uint64_t operand, bool by_lines, int step)
{
    return group_ahead(operand, (uint32_t)(step * TILE * (by_lines ? SHEET_ROW : 2)));
}

/* to += x times a lot that has been published, by all of the team. */
template <int C, enum lot_side SIDE, bool GROUPS = true>
DEVICE void multiply_lot(struct lines<C> &to, struct pairs<C> x, uint32_t lot)
{
    if constexpr (GROUPS && WARPGROUPS) {
        group_settle(to.v);
        group_settle(x.a);
        group_fence();
        const uint64_t weights = sheet_operand(lot);
#pragma unroll
        for (int k = 0; k < C / TILE; k++)
            group_mma<SIDE == LOT_COLUMNS>(to.v, x.a[k], sheet_step(weights, SIDE == LOT_COLUMNS, k));
        group_commit();
        group_wait<0>();
        group_settle(to.v);
    } else {
        warp_lot<C, SIDE>(to, x, lot);
    }
}

/* The same of tokens in a sheet, which has been published as well; `row`: the warp's first. */
template <int C, enum lot_side SIDE, bool GROUPS = true>
DEVICE void multiply_sheet(struct lines<C> &to, uint32_t sheet, int row, uint32_t lot)
{
    if constexpr (GROUPS && WARPGROUPS) {
        group_settle(to.v);
        group_fence();
        const uint64_t x = sheet_operand(sheet), weights = sheet_operand(lot);
#pragma unroll
        for (int k = 0; k < C / TILE; k++)
            group_mma<false, SIDE == LOT_COLUMNS>(to.v, sheet_step(x, false, k),
                                                  sheet_step(weights, SIDE == LOT_COLUMNS, k));
        group_commit();
        group_wait<0>();
        group_settle(to.v);
    } else {
        struct pairs<C> x;
        sheet_load<C>(x.a, sheet, row, 0);
        warp_lot<C, SIDE>(to, x, lot);
    }
}

/* ---- sums over tokens -------------------------------------------------------------------------------------------- */

/* [64][N] = sums over tokens of one sheet's columns times N of another's, `side` those of the first one's columns: a
 * warp has sixteen of its columns, in the layout of sums. Those of columns that nobody has are nobody's. */
template <int N> struct token_sums {
    float v[N / 8][4], side[1][4];
};

template <int N> DEVICE void warp_tokens(struct token_sums<N> &sums, bool sided, uint32_t a_at, uint32_t b_at, int row)
{
#pragma unroll
    for (int k = 0; k < TEAM_TOKENS; k += TILE) {
        uint32_t a[4], b[4];
        sheet_turned(a, a_at, k, row);
#pragma unroll
        for (int n = 0; n < N / TILE; n++) {
            sheet_columns(b, b_at & ~(SHEET_ROW - 1u), k, (int)(b_at % SHEET_ROW / 2) + n * TILE);
            mma_bf16(sums.v[2 * n], a, b[0], b[1]);
            mma_bf16(sums.v[2 * n + 1], a, b[2], b[3]);
        }
        if (sided)
            mma_bf16(sums.side[0], a, TWO_ONES, TWO_ONES);
    }
}

/* multiply(a, b) for every sixteen tokens of `count` teams, to `sums`, and no other products meanwhile. */
template <int TILES, class F>
DEVICE void over_tokens(float (&sums)[TILES][4], uint32_t a_at, uint32_t b_at, int count, uint32_t apart, F multiply)
{
    uint64_t a = sheet_operand(a_at), b = sheet_operand(b_at);
    int team = 0;
    group_settle(sums);
#pragma unroll 1
    do { /* at least one: the compiler must see that nothing but products makes sums */
        group_fence();
#pragma unroll
        for (int k = 0; k < TEAM_TOKENS / TILE; k++)
            multiply(sheet_step(a, true, k), sheet_step(b, true, k));
        group_commit();
        a = group_ahead(a, apart);
        b = group_ahead(b, apart);
    } while (++team < count);
    group_wait<0>();
    group_settle(sums);
}

/* Over the sheets of `count` teams, `apart` bytes from one to the next; `ones`: a pattern of them; `row`: the first of
 * the warp. */
template <int N, bool GROUPS = true>
DEVICE struct token_sums<N> sum_tokens(uint32_t a_at, uint32_t b_at, int count, uint32_t apart, bool sided,
                                       uint32_t ones, int row) {
    struct token_sums<N> sums = {
    };
    if constexpr (GROUPS && WARPGROUPS) {
        if (alike((int)sided))
            over_tokens(sums.side, a_at, b_at, count, apart,
                        [&](uint64_t a, uint64_t) { group_mma<true, false>(sums.side, a, sheet_operand(ones)); });
        over_tokens(sums.v, a_at, b_at, count, apart,
                    [&](uint64_t a, uint64_t b) { group_mma<true, true>(sums.v, a, b); });
    } else {
#pragma unroll 1
        for (int team = 0; team < count; team++, a_at += apart, b_at += apart)
            warp_tokens<N>(sums, sided, a_at, b_at, row);
    }
    return sums;
}

#endif
