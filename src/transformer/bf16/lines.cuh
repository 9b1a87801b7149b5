/*
 * Sixteen tokens of a sequence in the registers of a warp, in the layouts of the tensor cores (cuda/warp.cuh): a lane
 * 4 g + t has of the tokens g and g + 8 the columns 2 t and 2 t + 1 of every eight. Sums are fp32 `lines`, operands
 * bf16 `pairs`; one becomes the other in place. Operands whose rows other warps need are in shared memory, in *sheets*:
 * 64 rows of 128 bytes, [token][column], swizzled as warpgroups expect it (cuda/warpgroup.cuh).
 */
#ifndef TRANSFORMER_BF16_LINES_CUH
#define TRANSFORMER_BF16_LINES_CUH

#include "cuda/warpgroup.cuh"
#include "nn/gelu.cuh"

#define DEVICE_MEMBER __device__ __forceinline__

enum { TILE = 16, TILE_LANES = 32, TEAM_TOKENS = 64, TEAM_WARPS = 4, TEAM_THREADS = 128 };

template <int C> struct lines {
    float v[C / 8][4]; /* (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1) of eight columns each */
};
template <int C> struct pairs {
    uint32_t a[C / 16][4]; /* A of m16n8k16 */
};

/* As if the compiler had never seen it: what follows from it is computed where it is needed. Otherwise addresses of all
 * kinds are computed ahead and kept, and there are no registers for them. */
DEVICE uint32_t fresh(uint32_t x)
{
#ifndef EMULATE
    asm volatile("" : "+r"(x));
#endif
    return x;
}

DEVICE int lane_of()
{
    return (int)(fresh(threadIdx.x) % TILE_LANES);
}

/* The column of v[j][0] and a row's two halves. */
DEVICE int column_of(int j)
{
    return 8 * j + 2 * (lane_of() % 4);
}

/* A lane's two neighbouring numbers of every eight of a row of parameters: the address once, and what follows from it.
 */
DEVICE const float *lane_row(const float *row)
{
    return row + column_of(0);
}

DEVICE float2 two_at(const float *lane_row, int j)
{
    return __ldg(reinterpret_cast<const float2 *>(lane_row + 8 * j));
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

/* pair(a, b) of all that are neighbours in a row. */
template <int C, class F>
DEVICE struct pairs<C> in_pairs(const struct lines<C> &x, F pair) {
    struct pairs<C> y;
#pragma unroll
    for (int j = 0; j < C / 8; j++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            y.a[j / 2][j % 2 * 2 + half] = pair(x.v[j][2 * half], x.v[j][2 * half + 1]);
    return y;
}

template <int C>
DEVICE struct pairs<C> rounded(const struct lines<C> &x) {
    return in_pairs<C>(x, pack_bf16);
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

/* The same of f(j, e) times g(j, e). */
template <int C, class F, class G> DEVICE void row_products(float sum[2], F f, G g)
{
    sum[0] = sum[1] = 0;
#pragma unroll
    for (int j = 0; j < C / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            sum[e / 2] = fmaf(f(j, e), g(j, e), sum[e / 2]);
    sum[0] = quad_sum(sum[0]);
    sum[1] = quad_sum(sum[1]);
}

/* ---- sheets ------------------------------------------------------------------------------------------------------ */

/* Eight rows are one swizzled pattern: a chunk of 16 bytes of row r is at chunk ^ (r % 8). Of narrower networks, the
 * second half of a row is nobody's. */
enum { SHEET_ROW = 128, SHEET_PATTERN = 8 * SHEET_ROW, SHEET_BYTES = TEAM_TOKENS * SHEET_ROW };

DEVICE uint32_t sheet_chunk(uint32_t row, uint32_t chunk)
{
    return row * SHEET_ROW + ((chunk ^ row) & 7) * 16;
}

/* A lane's row of four 8 x 8 matrices at a row that is a multiple of eight, in columns that are: down first (A as it
 * lies, B transposed), or across first (A transposed, B as it lies). Of matrices of an odd number of eight columns,
 * those beside them are nobody's. */
DEVICE uint32_t down_first(uint32_t sheet, int row, int column)
{
    const uint32_t lane = (uint32_t)lane_of();
    return sheet + (uint32_t)row * SHEET_ROW + (sheet_chunk(lane % 16, lane / 16) ^ (uint32_t)(2 * column));
}

DEVICE uint32_t across_first(uint32_t sheet, int row, int column)
{
    const uint32_t lane = (uint32_t)lane_of();
    return sheet + (uint32_t)row * SHEET_ROW +
           (sheet_chunk(lane / 16 * 8 + lane % 8, lane / 8 % 2) ^ (uint32_t)(2 * column));
}

/* The warp's sixteen tokens, from token `row` of a sheet and column `column`, N columns in all. */
template <int N> DEVICE void sheet_store(uint32_t sheet, int row, int column, const uint32_t (*a)[4])
{
    const uint32_t at = down_first(sheet, row, column);
#pragma unroll
    for (int k = 0; k < N / TILE; k++)
        store_matrix(at ^ (uint32_t)(2 * k * TILE), a[k][0], a[k][1], a[k][2], a[k][3]);
}

template <int N> DEVICE void sheet_load(uint32_t (*a)[4], uint32_t sheet, int row, int column)
{
    const uint32_t at = down_first(sheet, row, column);
#pragma unroll
    for (int k = 0; k < N / TILE; k++)
        load_matrix(a[k], at ^ (uint32_t)(2 * k * TILE));
}

/* B of sixteen outputs, the rows from `row`, and a depth of sixteen columns. */
DEVICE void sheet_rows(uint32_t b[4], uint32_t sheet, int row, int column)
{
    load_matrix(b, across_first(sheet, row, column));
}

/* B of sixteen outputs, the columns from `column`, and a depth of sixteen rows. */
DEVICE void sheet_columns(uint32_t b[4], uint32_t sheet, int row, int column)
{
    load_matrix_transposed(b, down_first(sheet, row, column));
}

/* A of sixteen columns and a depth of sixteen rows. */
DEVICE void sheet_turned(uint32_t a[4], uint32_t sheet, int row, int column)
{
    load_matrix_transposed(a, across_first(sheet, row, column));
}

/* ---- a norm ------------------------------------------------------------------------------------------------------ */

/* Rows normalised; rstd of a lane's two. */
template <int C> DEVICE struct lines<C> normalised(const struct lines<C> &x, float rstd[2], float eps) {
    struct lines<C> hat;
    float mean[2], square[2] = {0, 0};
    row_sums<C>(mean, [&](int j, int e) { return x.v[j][e]; });
    mean[0] /= (float)C;
    mean[1] /= (float)C;
#pragma unroll
    for (int j = 0; j < C / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            hat.v[j][e] = x.v[j][e] - mean[e / 2];
            square[e / 2] = fmaf(hat.v[j][e], hat.v[j][e], square[e / 2]);
        }
    for (int r = 0; r < 2; r++)
        rstd[r] = 1 / sqrtf(quad_sum(square[r]) / (float)C + eps);
#pragma unroll
    for (int j = 0; j < C / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            hat.v[j][e] *= rstd[e / 2];
    return hat;
}

/* gamma hat + beta. */
template <int C>
DEVICE struct pairs<C> scaled(const struct pairs<C> &hat, const float *gamma, const float *beta) {
    struct pairs<C> y;
    const float *gains = lane_row(gamma), *shifts = lane_row(beta);
#pragma unroll
    for (int j = 0; j < C / 8; j++) {
        const float2 gain = two_at(gains, j), shift = two_at(shifts, j);
#pragma unroll
        for (int half = 0; half < 2; half++)
            y.a[j / 2][j % 2 * 2 + half] = pack_bf16(fmaf(gain.x, number_of(hat, j, 2 * half), shift.x),
                                                     fmaf(gain.y, number_of(hat, j, 2 * half + 1), shift.y));
    }
    return y;
}

#endif
