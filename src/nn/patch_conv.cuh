/*
 * Convolutions that leave their results in registers (patch.cuh): 3x3 from a map in shared memory, 1x1 from registers
 * to registers. done(m, n, d) receives the accumulators of a tile. Weights are the fragments of tile_weights.
 */
#ifndef NN_PATCH_CONV_CUH
#define NN_PATCH_CONV_CUH

#include "nn/patch.cuh"
#include "nn/tile_conv.cuh"

/* The usual done(): packs the tile into a patch. */
template <class MAP> struct patch_put {
    patch<MAP> &to;
    DEVICE_MEMBER patch_put(patch<MAP> &p) : to(p)
    {
    }
    DEVICE_MEMBER void operator()(int m, int n, const float *d) const
    {
        to.pair[m][n][0] = pack_bf16(d[0], d[1]);
        to.pair[m][n][1] = pack_bf16(d[2], d[3]);
    }
};

/* From 8 channels, rows of at least 16: four rows at a time, every ldmatrix serves up to three of them. */
template <class IN, class OUT, class F>
DEVICE void patch_conv_rows(uint32_t in, uint32_t weights, const patch_place<IN> &at, F done)
{
    constexpr int M = patch<IN>::M, N = OUT::PLANES, ROWS = M < 4 ? M : 4, ROW = IN::PITCH * 16;
    const int part = at.lane / 8;
    uint32_t all[N][9];
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int tap = 0; tap < 9; tap++)
            all[n][tap] = load_shared_32(weights + (uint32_t)((n * 9 + tap) * 32 + at.lane) * 4);
#pragma unroll
    for (int m0 = 0; m0 < M; m0 += ROWS) {
        const uint32_t first = in + at.origin() + (uint32_t)(at.lane % 8 + part % 2 * 8) * 16 +
                               (uint32_t)((at.row(m0, 0) - 1) * ROW + (at.column(m0, 0) - 1) * 16);
        const uint32_t xs = first + (uint32_t)(part / 2) * 16, ys = first + (uint32_t)(part / 2 * ROW + 32);
        uint32_t x[ROWS + 2][4], last[ROWS / 2 + 1][4];
#pragma unroll
        for (int r = 0; r < ROWS + 2; r++)
            load_matrix(x[r], xs + (uint32_t)(r * ROW));
#pragma unroll
        for (int r = 0; r < ROWS / 2 + 1; r++)
            load_matrix(last[r], ys + (uint32_t)(2 * r * ROW));
#pragma unroll
        for (int n = 0; n < N; n++) {
            const uint32_t *w = all[n];
#pragma unroll
            for (int o = 0; o < ROWS; o += 2) {
                const uint32_t *here = last[o / 2], *next = last[o / 2 + 1];
                float upper[4], lower[4];
                tile_zero(upper);
                tile_zero(lower);
#pragma unroll
                for (int ky = 0; ky < 3; ky++) {
                    mma_bf16(upper, x[o + ky], w[3 * ky], w[3 * ky + 1]);
                    mma_bf16(lower, x[o + 1 + ky], w[3 * ky], w[3 * ky + 1]);
                }
                mma_bf16(upper, here, w[2], w[5]);
                mma_bf16(lower, next, w[5], w[8]);
                mma_bf16_k8(upper, next[0], next[1], w[8]);
                mma_bf16_k8(lower, here[2], here[3], w[2]);
                done(m0 + o, n, upper);
                done(m0 + o + 1, n, lower);
            }
        }
    }
}

/* 8 channels to 8, smaller maps. */
template <class MAP, class F>
DEVICE void patch_conv_eight(uint32_t in, uint32_t weights, const patch_place<MAP> &at, F done)
{
    constexpr int ROW = MAP::PITCH * 16;
    const int part = at.lane / 8, row = part % 2 * 8 + at.lane % 8;
    const uint32_t from = in + at.origin() + (uint32_t)(row / MAP::SIZE * ROW + row % MAP::SIZE * 16);
    const uint32_t side = (uint32_t)(part / 2) * 16, below = side * MAP::PITCH;
    uint32_t w[9];
#pragma unroll
    for (int tap = 0; tap < 9; tap++)
        w[tap] = load_shared_32(weights + (uint32_t)(tap * 32 + at.lane) * 4);
#pragma unroll
    for (int m = 0; m < patch<MAP>::M; m++) {
        const uint32_t tile = from + (uint32_t)(at.row(m, 0) * ROW);
        uint32_t a[5][4];
#pragma unroll
        for (int ky = 0; ky < 3; ky++)
            load_matrix(a[ky], tile + side + (uint32_t)tile_tap<MAP>(3 * ky));
        load_matrix(a[3], tile + below + (uint32_t)tile_tap<MAP>(2));
        load_matrix(a[4], tile + below + (uint32_t)tile_tap<MAP>(5));
        float d[4];
        tile_zero(d);
#pragma unroll
        for (int ky = 0; ky < 3; ky++)
            mma_bf16(d, a[ky], w[3 * ky], w[3 * ky + 1]);
        mma_bf16(d, a[3], w[2], w[5]);
        mma_bf16_k8(d, a[4][2], a[4][3], w[8]);
        done(m, 0, d);
    }
}

/* From 16 channels and more: for every column of taps, rows are loaded once and serve three taps. */
template <class MAP, class OUT, class F>
DEVICE void patch_conv_wide(uint32_t in, uint32_t weights, const patch_place<MAP> &at, F done)
{
    constexpr int M = patch<MAP>::M, N = OUT::PLANES, K = MAP::C / 16, ROW = MAP::PITCH * 16;
    const int part = at.lane / 8, row = part % 2 * 8 + at.lane % 8;
    const uint32_t from = in + at.origin() + (uint32_t)(row / MAP::SIZE * ROW + row % MAP::SIZE * 16) +
                          (uint32_t)(part / 2 * MAP::PLANE_BYTES);
    float d[M][N][4];
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < N; n++)
            tile_zero(d[m][n]);
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int kx = 0; kx < 3; kx++) {
            constexpr int LOADS = MAP::SIZE == 16 ? M + 2 : MAP::SIZE == 8 ? M + 1 : 3 * M;
            const uint32_t here = from + (uint32_t)(2 * k * MAP::PLANE_BYTES + (kx - 1) * 16 - ROW);
            uint32_t rows[LOADS][4];
#pragma unroll
            for (int r = 0; r < LOADS; r++) /* SIZE 8: two rows at a time */
                load_matrix(rows[r], here + (uint32_t)(r * (MAP::SIZE == 8 ? 2 : 1) * ROW));
#pragma unroll
            for (int ky = 0; ky < 3; ky++) {
#pragma unroll
                for (int n = 0; n < N; n++) {
                    uint32_t b[2];
                    load_shared_64(b, weights + (uint32_t)((((3 * ky + kx) * K + k) * N + n) * 32 + at.lane) * 8);
#pragma unroll
                    for (int m = 0; m < M; m++) {
                        if constexpr (MAP::SIZE == 8) {
                            const uint32_t between[4] = {rows[m][1], rows[m + 1][0], rows[m][3], rows[m + 1][2]};
                            mma_bf16(d[m][n], ky == 0 ? rows[m] : ky == 1 ? between : rows[m + 1], b[0], b[1]);
                        } else {
                            mma_bf16(d[m][n], rows[m + ky], b[0], b[1]);
                        }
                    }
                }
            }
        }
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int m = 0; m < M; m++)
            done(m, n, d[m][n]);
}

/* A 3x3 convolution. The map must be complete. */
template <class IN, class OUT = IN, class F>
DEVICE void patch_conv(uint32_t in, uint32_t weights, const patch_place<IN> &at, F done)
{
    static_assert(IN::SIZE == OUT::SIZE && IN::IMAGES == OUT::IMAGES, "maps of one size");
    if constexpr (IN::C == 8 && IN::SIZE >= 16) {
        patch_conv_rows<IN, OUT>(in, weights, at, done);
    } else if constexpr (IN::C == 8) {
        static_assert(OUT::C == 8, "all that is needed");
        patch_conv_eight<IN>(in, weights, at, done);
    } else {
        patch_conv_wide<IN, OUT>(in, weights, at, done);
    }
}

/* A 1x1 convolution: packed accumulators serve as operands. */
template <class IN, class OUT, class F> DEVICE void patch_point(const patch<IN> &x, uint32_t weights, F done)
{
    constexpr int N = OUT::PLANES, K = IN::C / 16 ? IN::C / 16 : 1;
    const uint32_t lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < N; n++) {
        uint32_t b[K][2];
#pragma unroll
        for (int k = 0; k < K; k++) {
            if constexpr (IN::C == 8)
                b[k][0] = load_shared_32(weights + ((uint32_t)n * 32 + lane) * 4);
            else
                load_shared_64(b[k], weights + ((uint32_t)(k * N + n) * 32 + lane) * 8);
        }
#pragma unroll
        for (int m = 0; m < patch<IN>::M; m++) {
            float d[4];
            tile_zero(d);
            if constexpr (IN::C == 8) {
                mma_bf16_k8(d, x.pair[m][0][0], x.pair[m][0][1], b[0][0]);
            } else {
#pragma unroll
                for (int k = 0; k < K; k++) {
                    const uint32_t a[4] = {x.pair[m][2 * k][0], x.pair[m][2 * k][1], x.pair[m][2 * k + 1][0],
                                           x.pair[m][2 * k + 1][1]};
                    mma_bf16(d, a, b[k][0], b[k][1]);
                }
            }
            done(m, n, d);
        }
    }
}

/* Gradient of its weights, each warp for its own pixels: tiles of 16 inputs (of which 8 may be empty) and 8 outputs. */
template <class IN, class OUT> struct patch_grad {
    static constexpr int K = IN::C / 16 ? IN::C / 16 : 1, N = OUT::PLANES, COUNT = K * N * 4;
    static constexpr int SCRATCH = TILE_WARPS * COUNT * 32 * 4; /* bytes */
    float acc[K][N][4];

    DEVICE_MEMBER void clear()
    {
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int n = 0; n < N; n++)
                tile_zero(acc[k][n]);
    }
    DEVICE_MEMBER void add(const patch<IN> &x, const patch<OUT> &g)
    {
#pragma unroll
        for (int m = 0; m < patch<IN>::M; m++) {
            uint32_t a[K][4];
#pragma unroll
            for (int k = 0; k < K; k++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    a[k][i] = IN::C == 8 && i % 2 ? 0 : transpose_matrix(x.pair[m][2 * k + i % 2 * (IN::C > 8)][i / 2]);
#pragma unroll
            for (int n = 0; n < N; n++) {
                const uint32_t b0 = transpose_matrix(g.pair[m][n][0]), b1 = transpose_matrix(g.pair[m][n][1]);
#pragma unroll
                for (int k = 0; k < K; k++)
                    mma_bf16(acc[k][n], a[k], b0, b1);
            }
        }
    }
    /* As tile_grad: SCRATCH bytes, a barrier in between; [OUT][IN]. */
    DEVICE_MEMBER void leave(float *scratch) const
    {
        float *mine = scratch + (int)threadIdx.x / 32 * (COUNT * 32) + (int)threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            mine[i * 32] = acc[i / 4 / N][i / 4 % N][i % 4];
    }
    DEVICE_MEMBER static void gather(const float *scratch, float *out)
    {
#pragma unroll 1
        for (int k = (int)threadIdx.x; k < COUNT * 32; k += TILE_THREADS) {
            const int lane = k % 32, i = k / 32;
            const int input = i / 4 / N * 16 + lane / 4 + i % 4 / 2 * 8, output = i / 4 % N * 8 + lane % 4 * 2 + i % 2;
            float sum = scratch[k];
#pragma unroll
            for (int warp = 1; warp < TILE_WARPS; warp++)
                sum += scratch[warp * (COUNT * 32) + k];
            if (input < IN::C)
                out[output * IN::C + input] = sum;
        }
    }
};

/* A depthwise 3x3 convolution, weights of tile_diagonal. */
template <class MAP, class F> DEVICE void patch_depthwise(uint32_t in, uint32_t weights, F done)
{
    using DIAGONAL = tile_diagonal<MAP::C>;
    using GROUP = tile_map<DIAGONAL::GROUP, MAP::SIZE, MAP::IMAGES>;
    const patch_place<GROUP> at;
#pragma unroll
    for (int k = 0; k < DIAGONAL::GROUPS; k++)
        patch_conv<GROUP>(in + (uint32_t)(k * GROUP::BYTES), weights + (uint32_t)(k * DIAGONAL::GROUP_BYTES), at,
                          [&](int m, int n, const float *d) INLINED { done(m, k * GROUP::PLANES + n, d); });
}

#endif
