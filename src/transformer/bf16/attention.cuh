/* Causal attention of a team's sequence, forward: what W1 yields is in the team's sheets, so that every warp sees it.
 */
#ifndef TRANSFORMER_BF16_ATTENTION_CUH
#define TRANSFORMER_BF16_ATTENTION_CUH

#include "transformer/bf16/belt.cuh"

/* What W1 yields, into the sheets 0 (queries), 1 (keys) and 2 (values), which nobody reads any more; W1 begins with
 * lot `first` of the belt. */
template <int C, class Course>
DEVICE void attention_first(const struct team &team, const struct branch_at<C> &branch, const struct pairs<C> &x,
                            const struct belt<C, Course> &belt, int first)
{
    const uint32_t from = sheet_of<C>(team, 2); /* until the values come */
    sheet_store<C>(from, team.row(), 0, x.a);
#pragma unroll 1
    for (int third = 0; third < 3; third++) {
        const struct pairs<C> out = rounded(first_part<C>(team, branch, from, belt, first + third));
        if (third == 2)
            team_meet(team);
        sheet_store<C>(sheet_of<C>(team, third), team.row(), 0, out.a);
    }
    team_meet(team);
}

/* Operands of heads of 16 columns, or of 8: the rest of the depth is zero. */
template <int D> DEVICE void head_own(uint32_t a[4], uint32_t sheet, int row, int column)
{
    uint32_t four[1][4];
    sheet_load<TILE>(four, sheet, row, column);
    for (int k = 0; k < 4; k++)
        a[k] = D < TILE && k >= 2 ? 0 : four[0][k];
}

template <int D> DEVICE void head_rows(uint32_t b[4], uint32_t sheet, int row, int column)
{
    sheet_rows(b, sheet, row, column);
    if (D < TILE)
        b[1] = b[3] = 0;
}

/* to [D / 8] += a times sixteen rows of a sheet. */
template <int D> DEVICE void head_add(float (*to)[4], const uint32_t a[4], uint32_t sheet, int row, int column)
{
    uint32_t b[4];
    sheet_columns(b, sheet, row, column);
    mma_bf16(to[0], a, b[0], b[1]);
    if (D == TILE)
        mma_bf16(to[D / 8 - 1], a, b[2], b[3]);
}

/* Columns of a head, rounded, into the warp's own rows of a sheet. */
template <int D> DEVICE void head_store(uint32_t sheet, int row, int column, const float (*x)[4])
{
    const uint32_t lane = (uint32_t)lane_of(), line = (uint32_t)row + lane / 4;
#pragma unroll
    for (int j = 0; j < D / 8; j++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            store_shared_32(sheet + sheet_chunk(line + 8 * (uint32_t)half, (uint32_t)(column / 8 + j)) + lane % 4 * 4,
                            pack_bf16(x[j][2 * half], x[j][2 * half + 1]));
}

/* Base 2, as the tape's logarithms: of softmax(q k / sqrt(D)). */
template <int D> DEVICE float head_scale()
{
    return D == 16 ? 0.25f * 1.44269504f : 0.35355339f * 1.44269504f;
}

/* Sixteen tokens against themselves, rows queries and columns keys, or turned: a key after its query counts nothing. */
template <bool TURNED> DEVICE void hide_future(float (*x)[4])
{
    const int top = lane_of() / 4, left = column_of(0);
#pragma unroll
    for (int e = 0; e < 8; e++) {
        const int row = top + e % 4 / 2 * 8, column = left + e / 4 * 8 + e % 2;
        if (TURNED ? row > column : column > row)
            x[e / 4][e % 4] = -INFINITY;
    }
}

/* Sixteen queries of a head against all keys up to them; the output goes to their rows of sheet 3. From head to head a
 * warp takes other queries: early ones have fewer keys. */
template <int C, int D> DEVICE void head_forward(const struct team &team, int head, float *logs)
{
    const int tile = (team.warp() + head) % TEAM_WARPS, row = tile * TILE;
    uint32_t q[4], b[4];
    float s[TEAM_TOKENS / 8][4], top[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0}, out[D / 8][4] = {};
    const int g = lane_of() / 4, column = head * D;
    head_own<D>(q, sheet_of<C>(team, 0), row, column);
#pragma unroll
    for (int n = 0; n < TEAM_WARPS; n++) {
#pragma unroll
        for (int e = 0; e < 8; e++)
            s[2 * n + e / 4][e % 4] = 0;
        if (n > tile)
            continue;
        head_rows<D>(b, sheet_of<C>(team, 1), n * TILE, column);
        mma_bf16(s[2 * n], q, b[0], b[1]);
        mma_bf16(s[2 * n + 1], q, b[2], b[3]);
        if (n == tile)
            hide_future<false>(&s[2 * n]);
#pragma unroll
        for (int e = 0; e < 8; e++)
            top[e % 4 / 2] = fmaxf(top[e % 4 / 2], s[2 * n + e / 4][e % 4]);
    }
    top[0] = quad_max(top[0]) * head_scale<D>();
    top[1] = quad_max(top[1]) * head_scale<D>();
#pragma unroll
    for (int n = 0; n < TEAM_WARPS; n++) {
        if (n > tile)
            continue;
        struct lines<TILE> p;
#pragma unroll
        for (int e = 0; e < 8; e++) {
            p.v[e / 4][e % 4] = quick_exp2(fmaf(s[2 * n + e / 4][e % 4], head_scale<D>(), -top[e % 4 / 2]));
            total[e % 4 / 2] += p.v[e / 4][e % 4];
        }
        const struct pairs<TILE> weights = rounded(p);
        head_add<D>(out, weights.a[0], sheet_of<C>(team, 2), n * TILE, column);
    }
    for (int r = 0; r < 2; r++) {
        total[r] = quad_sum(total[r]);
        if (logs && lane_of() % 4 == 0)
            logs[head * TEAM_TOKENS + row + g + 8 * r] = top[r] + log2f(total[r]);
        total[r] = 1 / total[r];
    }
#pragma unroll
    for (int j = 0; j < D / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            out[j][e] *= total[e / 2];
    head_store<D>(sheet_of<C>(team, 3), row, column, out);
}

/* What attention mixes of the sheets, of the warp's tokens; `logs` NULL: nobody will ask. */
template <int C, int D> DEVICE struct pairs<C> attention_mixed(const struct team &team, float *logs) {
    struct pairs<C> mixed;
#pragma unroll 1
    for (int head = 0; head < C / D; head++)
        head_forward<C, D>(team, head, logs);
    team_meet(team);
    sheet_load<C>(mixed.a, sheet_of<C>(team, 3), team.row(), 0);
    return mixed;
}

#endif
