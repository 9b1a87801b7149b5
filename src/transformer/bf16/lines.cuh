/*
 * Sixteen tokens of a sequence in the registers of a warp, in the layouts of the tensor cores (cuda/warp.cuh): a lane
 * 4 g + t has of the tokens g and g + 8 the columns 2 t and 2 t + 1 of every eight. Sums are fp32 `lines`, operands
 * bf16 `pairs`; one becomes the other in place. Weights are packed into tiles of 16 outputs by 16 inputs, a uint4 per
 * lane; operands whose rows other warps need are in shared memory, [token][column].
 */
#ifndef TRANSFORMER_BF16_LINES_CUH
#define TRANSFORMER_BF16_LINES_CUH

#include "nn/gelu.cuh"

#define DEVICE_MEMBER __device__ __forceinline__

enum { TILE = 16, TILE_LANES = 32, TEAM_TOKENS = 64, TEAM_WARPS = 4, TEAM_THREADS = 128 };

template <int C> struct lines {
    float v[C / 8][4]; /* (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1) of eight columns each */
};
template <int C> struct pairs {
    uint32_t a[C / 16][4]; /* A of m16n8k16 */
};

DEVICE int lane_of()
{
    return (int)threadIdx.x % TILE_LANES;
}

/* The column of v[j][e] and a row's two halves. */
DEVICE int column_of(int j)
{
    return 8 * j + 2 * (lane_of() % 4);
}

/* A lane's two neighbouring numbers of a row of parameters, from an even column. */
DEVICE float2 two_at(const float *x)
{
    return __ldg(reinterpret_cast<const float2 *>(x));
}

template <int C> DEVICE struct lines<C> lines_zero() {
    struct lines<C> zero;
#pragma unroll
    for (int j = 0; j < C / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            zero.v[j][e] = 0;
    return zero;
}

/* Every token the same: a bias; NULL: zeros. */
template <int C>
DEVICE struct lines<C> lines_of(const float *bias) {
    struct lines<C> all;
#pragma unroll
    for (int j = 0; j < C / 8; j++) {
        const float2 two = bias ? two_at(bias + column_of(j)) : make_float2(0, 0);
        all.v[j][0] = all.v[j][2] = two.x;
        all.v[j][1] = all.v[j][3] = two.y;
    }
    return all;
}

template <int C>
DEVICE struct pairs<C> rounded(const struct lines<C> &x) {
    struct pairs<C> y;
#pragma unroll
    for (int j = 0; j < C / 8; j++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            y.a[j / 2][j % 2 * 2 + half] = pack_bf16(x.v[j][2 * half], x.v[j][2 * half + 1]);
    return y;
}

/* What v[j][e] was before it was rounded. */
template <int C>
DEVICE float number_of(const struct pairs<C> &x, int j, int e)
{
    const uint32_t pair = x.a[j / 2][j % 2 * 2 + e / 2];
    return e % 2 ? bf16_hi(pair) : bf16_lo(pair);
}

/* The sum over a row, whose numbers four lanes have. */
DEVICE float quad_sum(float v)
{
    v += exchange(v, 1);
    return v + exchange(v, 2);
}

DEVICE float quad_max(float v)
{
    v = fmaxf(v, exchange(v, 1));
    return fmaxf(v, exchange(v, 2));
}

/* f(j, e) summed over each of a lane's two rows. */
template <int C, class F> DEVICE void row_sums(float sum[2], F f)
{
    sum[0] = sum[1] = 0;
#pragma unroll
    for (int j = 0; j < C / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            sum[e / 2] += f(j, e);
    sum[0] = quad_sum(sum[0]);
    sum[1] = quad_sum(sum[1]);
}

/* ---- products with packed weights -------------------------------------------------------------------------------- */

/* to[8 n..] += a of a depth of K times tiles: those of 16 outputs are `across` apart. For what is not worth a belt. */
template <int K, int N> DEVICE void product(float (*to)[4], const uint32_t (*a)[4], const uint4 *tiles, int across)
{
    const uint4 *at = tiles + lane_of();
#pragma unroll
    for (int n = 0; n < N / TILE; n++)
#pragma unroll
        for (int k = 0; k < K / TILE; k++) {
            const uint4 w = __ldg(at + (n * across + k) * TILE_LANES);
            mma_bf16(to[2 * n], a[k], w.x, w.y);
            mma_bf16(to[2 * n + 1], a[k], w.z, w.w);
        }
}

/* ---- shared memory ----------------------------------------------------------------------------------------------- */

/* Bytes of a token's row: padded, so that eight rows lie in different banks. */
template <int C> struct sheet {
    enum { ROW = 2 * (C + 8), BYTES = TEAM_TOKENS * ROW };
};

/* Byte offsets of a lane's row of four 8 x 8 matrices: down first (A as it lies, B transposed), or across first (A
 * transposed, B as it lies). */
template <int C> DEVICE uint32_t down_first()
{
    const int lane = lane_of();
    return (uint32_t)(((lane >> 3 & 1) * 8 + (lane & 7)) * sheet<C>::ROW + (lane >> 4) * 16);
}

template <int C> DEVICE uint32_t across_first()
{
    const int lane = lane_of();
    return (uint32_t)(((lane >> 4) * 8 + (lane & 7)) * sheet<C>::ROW + (lane >> 3 & 1) * 16);
}

/* The warp's sixteen tokens, from token `row` of a sheet and column `column`, N columns in all. */
template <int C, int N> DEVICE void sheet_store(uint32_t sheet_at, int row, int column, const uint32_t (*a)[4])
{
    const uint32_t at = sheet_at + (uint32_t)(row * sheet<C>::ROW + 2 * column) + down_first<C>();
#pragma unroll
    for (int k = 0; k < N / TILE; k++)
        store_matrix(at + (uint32_t)(k * 2 * TILE), a[k][0], a[k][1], a[k][2], a[k][3]);
}

template <int C, int N> DEVICE void sheet_load(uint32_t (*a)[4], uint32_t sheet_at, int row, int column)
{
    const uint32_t at = sheet_at + (uint32_t)(row * sheet<C>::ROW + 2 * column) + down_first<C>();
#pragma unroll
    for (int k = 0; k < N / TILE; k++)
        load_matrix(a[k], at + (uint32_t)(k * 2 * TILE));
}

/* B of sixteen outputs, the rows from `row`, and a depth of sixteen columns. */
template <int C> DEVICE void sheet_rows(uint32_t b[4], uint32_t sheet_at, int row, int column)
{
    load_matrix(b, sheet_at + (uint32_t)(row * sheet<C>::ROW + 2 * column) + across_first<C>());
}

/* B of sixteen outputs, the columns from `column`, and a depth of sixteen rows. */
template <int C> DEVICE void sheet_columns(uint32_t b[4], uint32_t sheet_at, int row, int column)
{
    load_matrix_transposed(b, sheet_at + (uint32_t)(row * sheet<C>::ROW + 2 * column) + down_first<C>());
}

/* A of sixteen columns and a depth of sixteen rows. */
template <int C> DEVICE void sheet_turned(uint32_t a[4], uint32_t sheet_at, int row, int column)
{
    load_matrix_transposed(a, sheet_at + (uint32_t)(row * sheet<C>::ROW + 2 * column) + across_first<C>());
}

/* ---- a norm ------------------------------------------------------------------------------------------------------ */

/* Rows normalised; rstd of a lane's two. */
template <int C> DEVICE struct lines<C> normalised(const struct lines<C> &x, float rstd[2], float eps) {
    struct lines<C> hat;
    float mean[2], square[2];
    row_sums<C>(mean, [&](int j, int e) { return x.v[j][e]; });
    mean[0] /= (float)C;
    mean[1] /= (float)C;
    row_sums<C>(square, [&](int j, int e) {
        const float apart = x.v[j][e] - mean[e / 2];
        return apart * apart;
    });
    for (int r = 0; r < 2; r++)
        rstd[r] = 1 / sqrtf(square[r] / (float)C + eps);
#pragma unroll
    for (int j = 0; j < C / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            hat.v[j][e] = (x.v[j][e] - mean[e / 2]) * rstd[e / 2];
    return hat;
}

/* gamma hat + beta. */
template <int C>
DEVICE struct pairs<C> scaled(const struct pairs<C> &hat, const float *gamma, const float *beta) {
    struct pairs<C> y;
#pragma unroll
    for (int j = 0; j < C / 8; j++) {
        const float2 gain = two_at(gamma + column_of(j)), shift = two_at(beta + column_of(j));
#pragma unroll
        for (int half = 0; half < 2; half++)
            y.a[j / 2][j % 2 * 2 + half] = pack_bf16(fmaf(gain.x, number_of(hat, j, 2 * half), shift.x),
                                                     fmaf(gain.y, number_of(hat, j, 2 * half + 1), shift.y));
    }
    return y;
}

#endif
