/*
 * Matrix products of the policy on the device: C = A B + biases, tables of them in one launch. Sums over k are cut into
 * segments (operands stored apart), processed in order; the order does not depend on the number of rows, and so neither
 * do a row's bits.
 *
 * Products are tf32 with fp32 sums (m16n8k8), or plain fp32 (EXACT): both give a lane the same elements of C.
 */
#ifndef POLICY_PRODUCT_CUH
#define POLICY_PRODUCT_CUH

#include "cuda/warp.cuh"

enum { PRODUCT_SEGMENTS = 9 };

struct product_segment {
    const float *a, *b;
    int k, a_stride, b_stride;
};

struct product {
    int m, n, segments;
    struct product_segment segment[PRODUCT_SEGMENTS];
    const float *bias, *bias2; /* [n] or NULL */
    const float *start;        /* [m][n] added, or NULL */
    const float *gate; /* [m][n]: the result is 0 where this is not positive (backward through a relu), or NULL */
    float *c;
    int start_stride, gate_stride, c_stride;
    bool relu;
    int first_tile, tile_columns; /* set by product_table_close */
};

/* Which index of an operand is contiguous in memory. */
enum operand { BY_K, BY_ROW }; /* [row][k], or [k][row]; the rows of B are the columns of C */

/* A thread block's piece of C, and how its warps share it: over rows, columns, and k within a tile. */
template <int M_, int N_, int K_, int WM_, int WN_, int WK_, int STAGES_> struct tiling {
    static constexpr int M = M_, N = N_, K = K_, WM = WM_, WN = WN_, WK = WK_, STAGES = STAGES_;
    static constexpr int THREADS = 32 * WM * WN * WK;
    static constexpr int TM = M / WM, TN = N / WN, TK = K / WK; /* of a warp */
};
#ifdef EMULATE /* smaller, or the emulator would multiply little but the zeros around a test's matrices */
using tiling_wide = tiling<64, 64, 16, 2, 4, 1, 4>;
#else
using tiling_wide = tiling<128, 128, 16, 2, 4, 1, 4>; /* many rows */
#endif
using tiling_flat = tiling<16, 16, 128, 1, 1, 8, 4>; /* few rows: as many blocks as possible, k split over 8 warps */

/* A tile in shared memory. The padding keeps the lanes of a fragment in different banks. */
template <int ROWS, int K, enum operand ORDER>
struct tile {
    static constexpr int LINES = ORDER == BY_K ? ROWS : K, LENGTH = ORDER == BY_K ? K : ROWS;
    static constexpr int STRIDE = ORDER == BY_K ? K + 4 : ROWS + 8; static constexpr int FLOATS = LINES * STRIDE;

    static __device__ __forceinline__ float at(const float *data, int row, int k){
        return ORDER == BY_K ? data[row * STRIDE + k] : data[k * STRIDE + row];}

/* Loads from `from`, which has `rows` x `k` elements; the rest becomes zero. */
template <int THREADS>
static __device__ __forceinline__ void load(float *data, const float *from, int stride, int rows, int k)
{
    const int lines = ORDER == BY_K ? rows : k, length = ORDER == BY_K ? k : rows;
    const bool aligned = stride % 4 == 0 && (uintptr_t)from % 16 == 0;
    for (int i = threadIdx.x; i < LINES * (LENGTH / 4); i += THREADS) {
        const int line = i / (LENGTH / 4), column = i % (LENGTH / 4) * 4;
        float *to = data + line * STRIDE + column;
        const float *source = from + (ptrdiff_t)line * stride + column;
        if (aligned && line < lines && column + 4 <= length) {
            copy_async(smem(to), source);
            continue;
        }
        for (int e = 0; e < 4; e++)
            to[e] = line < lines && column + e < length ? source[e] : 0.0f;
    }
}
}
;

template <class T, enum operand A, enum operand B> struct product_tiles {
    using a_tile = tile<T::M, T::K, A>;
    using b_tile = tile<T::N, T::K, B>;
    static constexpr int STAGE = a_tile::FLOATS + b_tile::FLOATS;
    static constexpr int SUMS = T::WK > 1 ? T::WK *T::M *T::N : 0; /* partial sums of WK warps, in the same memory */
    static constexpr size_t BYTES = sizeof(float) * (T::STAGES * STAGE > SUMS ? T::STAGES * STAGE : SUMS);
};

/* Walks the segments' k in steps of a tile. */
struct product_cursor {
    int segment, k;
};

template <class T, enum operand A, enum operand B>
DEVICE void product_load(const struct product *p, struct product_cursor *at, int row, int column, float *stage)
{
    using tiles = product_tiles<T, A, B>;
    if (at->segment < p->segments) {
        const struct product_segment *s = &p->segment[at->segment];
        const ptrdiff_t a = A == BY_K ? (ptrdiff_t)row * s->a_stride + at->k : (ptrdiff_t)at->k * s->a_stride + row;
        const ptrdiff_t b = B == BY_K ? (ptrdiff_t)column * s->b_stride + at->k
                                      : (ptrdiff_t)at->k * s->b_stride + column;
        tiles::a_tile::template load<T::THREADS>(stage, s->a + a, s->a_stride, p->m - row, s->k - at->k);
        tiles::b_tile::template load<T::THREADS>(stage + tiles::a_tile::FLOATS, s->b + b, s->b_stride, p->n - column,
                                                 s->k - at->k);
        at->k += T::K;
        if (at->k >= s->k) {
            at->segment++;
            at->k = 0;
        }
    }
    copy_commit();
}

/* A warp's share of one tile. Lane 4 g + t holds, of each 16 x 8 piece, rows g and g + 8, columns 2 t and 2 t + 1. */
template <class T, enum operand A, enum operand B>
DEVICE void product_tile_exact(const float *stage, int row, int column, int k, float sum[T::TM / 16][T::TN / 8][4])
{
    using a_tile = typename product_tiles<T, A, B>::a_tile;
    using b_tile = typename product_tiles<T, A, B>::b_tile;
    const float *a = stage, *b = stage + a_tile::FLOATS;
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll 4
    for (int i = k; i < k + T::TK; i++) {
        float x[T::TM / 8], y[T::TN / 4];
#pragma unroll
        for (int r = 0; r < T::TM / 8; r++)
            x[r] = a_tile::at(a, row + 8 * r + g, i);
#pragma unroll
        for (int c = 0; c < T::TN / 4; c++)
            y[c] = b_tile::at(b, column + 8 * (c / 2) + 2 * t + c % 2, i);
#pragma unroll
        for (int r = 0; r < T::TM / 8; r++)
#pragma unroll
            for (int c = 0; c < T::TN / 4; c++) {
                float *to = &sum[r / 2][c / 2][2 * (r % 2) + c % 2];
                *to = fmaf(x[r], y[c], *to);
            }
    }
}

template <class T, enum operand A, enum operand B>
DEVICE void product_tile_tf32(const float *stage, int row, int column, int k, float sum[T::TM / 16][T::TN / 8][4])
{
    using a_tile = typename product_tiles<T, A, B>::a_tile;
    using b_tile = typename product_tiles<T, A, B>::b_tile;
    const float *a = stage, *b = stage + a_tile::FLOATS;
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = k; i < k + T::TK; i += 8) {
        uint32_t x[T::TM / 16][4], y[T::TN / 8][2];
#pragma unroll
        for (int r = 0; r < T::TM / 16; r++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                x[r][e] = to_tf32(a_tile::at(a, row + 16 * r + g + 8 * (e % 2), i + t + 4 * (e / 2)));
#pragma unroll
        for (int c = 0; c < T::TN / 8; c++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                y[c][e] = to_tf32(b_tile::at(b, column + 8 * c + g, i + t + 4 * e));
#pragma unroll
        for (int r = 0; r < T::TM / 16; r++)
#pragma unroll
            for (int c = 0; c < T::TN / 8; c++)
                mma_tf32(sum[r][c], x[r], y[c][0], y[c][1]);
    }
}

DEVICE void product_store(const struct product *p, int row, int column, float sum)
{
    if (row >= p->m || column >= p->n)
        return;
    if (p->bias)
        sum += p->bias2 ? p->bias[column] + p->bias2[column] : p->bias[column];
    if (p->start)
        sum += p->start[(ptrdiff_t)row * p->start_stride + column];
    if (p->relu)
        sum = sum <= 0 ? 0 : sum; /* NAN propagates */
    if (p->gate)
        sum = p->gate[(ptrdiff_t)row * p->gate_stride + column] > 0 ? sum : 0;
    p->c[(ptrdiff_t)row * p->c_stride + column] = sum;
}

/* Block = tile of one of the table's products. Does nothing if *stop is set. */
template <class T, enum operand A, enum operand B, bool EXACT>
KERNEL void __launch_bounds__(T::THREADS, 2)
    product_kernel(const struct product *table, int count, const uint32_t *stop)
{
    using tiles = product_tiles<T, A, B>;
    SHARED_BYTES(shared);
    float *stages = (float *)shared;
    device_wait();
    if (stop && *stop)
        return;
    int index = 0;
    while (index + 1 < count && (int)blockIdx.x >= table[index + 1].first_tile)
        index++;
    const struct product *p = &table[index];
    const int place = (int)blockIdx.x - p->first_tile;
    const int row = place / p->tile_columns * T::M, column = place % p->tile_columns * T::N;
    const int warp = threadIdx.x / 32, wk = warp % T::WK, wn = warp / T::WK % T::WN, wm = warp / T::WK / T::WN;

    int turns = 0;
    for (int s = 0; s < p->segments; s++)
        turns += (p->segment[s].k + T::K - 1) / T::K;
    struct product_cursor cursor = {0, 0};
    for (int s = 0; s < T::STAGES - 1; s++)
        product_load<T, A, B>(p, &cursor, row, column, stages + s * tiles::STAGE);

    float sum[T::TM / 16][T::TN / 8][4] = {};
    for (int turn = 0; turn < turns; turn++) {
        copy_wait<T::STAGES - 2>();
        __syncthreads();
        product_load<T, A, B>(p, &cursor, row, column, stages + (turn + T::STAGES - 1) % T::STAGES * tiles::STAGE);
        const float *stage = stages + turn % T::STAGES * tiles::STAGE;
        if constexpr (EXACT)
            product_tile_exact<T, A, B>(stage, wm * T::TM, wn * T::TN, wk * T::TK, sum);
        else
            product_tile_tf32<T, A, B>(stage, wm * T::TM, wn * T::TN, wk * T::TK, sum);
    }
    copy_wait<0>();

    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    if (T::WK > 1)
        __syncthreads(); /* the sums overwrite the tiles */
#pragma unroll
    for (int r = 0; r < T::TM / 16; r++)
#pragma unroll
        for (int c = 0; c < T::TN / 8; c++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int i = wm * T::TM + 16 * r + g + 8 * (e / 2), j = wn * T::TN + 8 * c + 2 * t + e % 2;
                if (T::WK == 1)
                    product_store(p, row + i, column + j, sum[r][c][e]);
                else
                    stages[(wk * T::M + i) * T::N + j] = sum[r][c][e];
            }
    if (T::WK == 1)
        return;
    __syncthreads();
    for (int i = threadIdx.x; i < T::M * T::N; i += T::THREADS) {
        float total = 0;
        for (int w = 0; w < T::WK; w++)
            total += stages[w * T::M * T::N + i];
        product_store(p, row + i / T::N, column + i % T::N, total);
    }
}

#endif
