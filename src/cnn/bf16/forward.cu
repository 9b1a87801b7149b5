/*
 * The forward pass of a block for all envs: convolution, BatchNorm's sums and max pooling of the raw output, in one
 * pass over the images. A warp processes an image (half of one in the first block) at a time while the next one is
 * being loaded.
 */
#include "cuda/runtime.cuh"

#include "cnn/bf16/conv.cuh"

template <int COUT> DEVICE float *sums_of(const struct fast_host &host, int i, int env, int chunk)
{
    return host.block[i].sums + ((size_t)env * host.chunks + chunk) * 2 * COUT;
}

/* ---- first ------------------------------------------------------------------------------------------------------- */

template <int COUT> struct first_shared {
    enum { SUMS = FAST_WARPS * 2 * COUT * 4, STRIPS = 2 * SUMS, BYTES = STRIPS + FAST_WARPS * 2 * FIRST_STRIP };
};

/* Two output rows of eight channels: sums, pooled pixels and, where seeds need them, the raw pixels. */
template <bool SEEDED>
DEVICE void first_store(const float (*acc)[4], uint32_t *pooled, uint32_t *raw, float &sum, float &square)
{
    float top[4];
#pragma unroll
    for (int j = 0; j < 4; j++)
        top[j] = window(acc[j][0], acc[j][1], acc[j][2], acc[j][3], sum, square);
    store_pixels(pooled, pack_bf16(top[0], top[1]));
    store_pixels(pooled + 8 * 4, pack_bf16(top[2], top[3]));
    if (SEEDED)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int r = 0; r < 2; r++)
                store_pixels(raw + (r * FIRST_SIZE + 8 * j) * 4, pack_bf16(acc[j][2 * r], acc[j][2 * r + 1]));
}

template <int COUT, bool SEEDED> DEVICE void first_chunks(const struct fast_host &host, uint32_t base)
{
    enum { AREA = FIRST_SIZE * FIRST_SIZE };
    const int env = (int)blockIdx.y, warp = (int)threadIdx.x >> 5, lane = (int)threadIdx.x & 31, g = lane >> 2;
    uint32_t strip = base + first_shared<COUT>::STRIPS + warp * 2 * FIRST_STRIP, other = strip + FIRST_STRIP;
    struct walk walk = walk_start(host, 2, FAST_WARPS, warp);
    const uint2 *pixels = host.pixels + image_at(host, env, 0) * AREA;
    uint32_t a[COUT / 8][3][4];
    load_fragments<COUT / 8 * 3>(&a[0][0],
                                 host.fragments + (size_t)env * host.fragment_size + host.block[0].forward_frag);
    if (walk_first(walk) < walk_limit(walk))
        first_fetch(strip, pixels + (size_t)(walk_first(walk) >> 1) * AREA, warp & 1, lane);

    for (; walk.chunk < walk.end; walk.chunk++) {
        float sum[COUT / 8], square[COUT / 8];
#pragma unroll
        for (int e = 0; e < COUT / 8; e++)
            sum[e] = square[e] = 0;
        for (int task = walk_first(walk); task < walk_limit(walk); task += FAST_WARPS) {
            const size_t image = image_at(host, env, task >> 1);
            const int next = walk_ahead(walk, task), half = task & 1;
            uint32_t *pooled =
                         plane_word(host.block[0].pooled, COUT, AREA / 4, image, 0, half * AREA / 8 + paired_pixel(g)),
                     *raw = SEEDED ? plane_word(host.block[0].raw, COUT, AREA, image, 0, half * AREA / 2 + g) : NULL;
            copy_wait<0>();
            __syncwarp();
            if (next >= 0)
                first_fetch(other, pixels + (size_t)(next >> 1) * AREA, half, lane);
            uint32_t x[2][2][4], third[2][4];
            uint32_t columns = strip + first_columns(lane), thirds = strip + first_third(lane);
            load_matrix(x[0][0], columns);
            load_matrix(x[0][1], columns + 256);
#pragma unroll 1
            for (int i = 0; i < 4; i++) {
#pragma unroll
                for (int u = 0; u < 2; u++) {
                    load_matrix(x[1 - u][0], columns + (u + 1) * FIRST_PAIR);
                    load_matrix(x[1 - u][1], columns + (u + 1) * FIRST_PAIR + 256);
                    load_matrix(third[0], thirds + u * FIRST_PAIR);
                    load_matrix(third[1], thirds + u * FIRST_PAIR + 256);
#pragma unroll
                    for (int m = 0; m < COUT / 8; m++) {
                        float acc[4][4];
                        first_rows(acc, a[m], x[u], x[1 - u], third);
                        first_store<SEEDED>(acc, pooled + (m * AREA / 4 + u * FIRST_SIZE / 2) * 4,
                                            raw + (m * AREA + u * 2 * FIRST_SIZE) * 4, sum[m], square[m]);
                    }
                }
                columns += 2 * FIRST_PAIR;
                thirds += 2 * FIRST_PAIR;
                pooled += FIRST_SIZE * 4;
                raw += 4 * FIRST_SIZE * 4;
            }
            uint32_t swap = strip;
            strip = other;
            other = swap;
        }
        if (walk.chunk + 1 == walk.end)
            device_release();
        uint32_t at = base + (walk.chunk & 1) * first_shared<COUT>::SUMS;
        share_sums<COUT>(at + warp * 2 * COUT * 4, sum, square, lane);
        add_warps<2 * COUT>(at, sums_of<COUT>(host, 0, env, walk.chunk));
    }
}

template <int COUT>
KERNEL void __launch_bounds__(FAST_THREADS, 2) forward_first(const __grid_constant__ struct fast_host host)
{
    SHARED_BYTES(shared);
    const uint32_t base = smem(shared);
    const int warp = (int)threadIdx.x >> 5, lane = (int)threadIdx.x & 31;
    clear_shared(base + first_shared<COUT>::STRIPS + warp * 2 * FIRST_STRIP, 2 * FIRST_STRIP, lane, 32);
    __syncwarp();
    device_wait();
    if (block_use_of(host, (int)blockIdx.y, 0).keep_raw)
        first_chunks<COUT, true>(host, base);
    else
        first_chunks<COUT, false>(host, base);
}

/* ---- eight ------------------------------------------------------------------------------------------------------- */

template <int COUT> struct eight_shared {
    enum {
        NORM = 0,
        SUMS = 2 * 8 * 4,
        ONE = FAST_WARPS * 2 * COUT * 4,
        MAPS = SUMS + 2 * ONE,
        STAGE = 16 * 16 * 16,
        WARP = EIGHT_MAP + STAGE,
        BYTES = MAPS + FAST_WARPS * WARP
    };
};

template <int COUT, bool SEEDED>
DEVICE void eight_chunks(const struct fast_host &host, int index, uint32_t base, const uint32_t (*a)[6][4],
                         bool blended, bool keep_raw)
{
    typedef struct eight_shared<COUT> area;
    const int env = (int)blockIdx.y, warp = (int)threadIdx.x >> 5, lane = (int)threadIdx.x & 31, g = lane >> 2;
    const uint32_t map = base + area::MAPS + warp * area::WARP, stage = map + EIGHT_MAP;
    const struct fast_block &block = host.block[index], &under = host.block[index - 1];
    const uint4 *input = (SEEDED && blended ? under.act : under.pooled) + image_at(host, env, 0) * 256;
    struct walk walk = walk_start(host, 1, FAST_WARPS, warp);
    if (walk_first(walk) < walk_limit(walk))
        fetch<8>(stage, input + (size_t)walk_first(walk) * 256, lane);
    share_norm(host, index - 1, env, base + area::NORM, blockIdx.x == 0);
    __syncthreads();

    const uint32_t put = map + ((lane >> 4) + 1) * EIGHT_ROW + ((lane & 15) + 1) * 16;
    for (; walk.chunk < walk.end; walk.chunk++) {
        float sum[COUT / 8], square[COUT / 8];
#pragma unroll
        for (int e = 0; e < COUT / 8; e++)
            sum[e] = square[e] = 0;
        for (int task = walk_first(walk); task < walk_limit(walk); task += FAST_WARPS) {
            const size_t image = image_at(host, env, task);
            const int next = walk_ahead(walk, task);
            uint32_t *pooled = plane_word(block.pooled, COUT, 64, image, 0, paired_pixel(g)),
                     *raw = SEEDED ? plane_word(block.raw, COUT, 256, image, 0, g) : NULL;
            struct affine8 affine;
            load_affine(affine, base + area::NORM, base + area::NORM + 8 * 4);
            copy_wait<0>();
#pragma unroll
            for (int k = 0; k < 8; k++) {
                uint32_t v[4];
                load_shared_128(v, stage + (k * 32 + lane) * 16);
                if (!SEEDED || !blended)
                    activate(v, affine);
                store_shared_128(put + 2 * k * EIGHT_ROW, v[0], v[1], v[2], v[3]);
            }
            __syncwarp();
            if (next >= 0)
                fetch<8>(stage, input + (size_t)next * 256, lane);

            uint32_t x[2][2][4], third[2][4], columns = map + eight_columns(lane, false),
                                              thirds = map + eight_third(lane, false);
            load_matrix(x[0][0], columns);
            load_matrix(x[0][1], columns + EIGHT_ROW);
            load_matrix(third[0], thirds);
#pragma unroll 1
            for (int i = 0; i < 4; i++) {
#pragma unroll
                for (int u = 0; u < 2; u++) {
                    load_matrix(x[1 - u][0], columns + (2 * u + 2) * EIGHT_ROW);
                    load_matrix(x[1 - u][1], columns + (2 * u + 3) * EIGHT_ROW);
                    load_matrix(third[1 - u], thirds + (2 * u + 2) * EIGHT_ROW);
#pragma unroll
                    for (int m = 0; m < COUT / 16; m++) {
                        float acc[2][2][4];
                        eight_rows(acc, a[m], x[u][0], x[u][1], x[1 - u][0], x[1 - u][1], third[u], third[1 - u]);
#pragma unroll
                        for (int e = 0; e < 2; e++) {
                            const int plane = 2 * m + e;
                            float top[2];
#pragma unroll
                            for (int half = 0; half < 2; half++)
                                top[half] = window(acc[0][half][2 * e], acc[0][half][2 * e + 1], acc[1][half][2 * e],
                                                   acc[1][half][2 * e + 1], sum[plane], square[plane]);
                            store_pixels(pooled + (plane * 64 + u * 8) * 4, pack_bf16(top[0], top[1]));
                            if (SEEDED && keep_raw)
#pragma unroll
                                for (int k = 0; k < 4; k++)
                                    store_pixels(raw + (plane * 256 + (2 * u + (k >> 1)) * 16 + 8 * (k & 1)) * 4,
                                                 pack_bf16(acc[k >> 1][k & 1][2 * e], acc[k >> 1][k & 1][2 * e + 1]));
                        }
                    }
                }
                columns += 4 * EIGHT_ROW;
                thirds += 4 * EIGHT_ROW;
                pooled += 16 * 4;
                raw += 64 * 4;
            }
            __syncwarp();
        }
        if (walk.chunk + 1 == walk.end)
            device_release();
        uint32_t at = base + area::SUMS + (walk.chunk & 1) * area::ONE;
        share_sums<COUT>(at + warp * 2 * COUT * 4, sum, square, lane);
        add_warps<2 * COUT>(at, sums_of<COUT>(host, index, env, walk.chunk));
    }
}

template <int COUT>
KERNEL void __launch_bounds__(FAST_THREADS, 2) forward_eight(const __grid_constant__ struct fast_host host, int index)
{
    SHARED_BYTES(shared);
    const uint32_t base = smem(shared);
    const int env = (int)blockIdx.y, warp = (int)threadIdx.x >> 5, lane = (int)threadIdx.x & 31;
    clear_shared(base + eight_shared<COUT>::MAPS + warp * eight_shared<COUT>::WARP, EIGHT_MAP, lane, 32);
    uint32_t a[COUT / 16][6][4];
    load_fragments<COUT / 16 * 6>(&a[0][0],
                                  host.fragments + (size_t)env * host.fragment_size + host.block[index].forward_frag);
    device_wait();
    const bool blended = block_use_of(host, env, index - 1).blended, keep_raw = block_use_of(host, env, index).keep_raw;
    if (blended || keep_raw)
        eight_chunks<COUT, true>(host, index, base, a, blended, keep_raw);
    else
        eight_chunks<COUT, false>(host, index, base, a, false, false);
}

/* ---- wide -------------------------------------------------------------------------------------------------------- */

template <int COUT> struct wide_shared {
    enum {
        NORM = 0,
        SUMS = 2 * 16 * 4,
        ONE = FAST_WARPS * 2 * COUT * 4,
        MAPS = SUMS + 2 * ONE,
        STAGE = 2 * 64 * 16,
        WARP = WIDE_MAP + STAGE,
        BYTES = MAPS + FAST_WARPS * WARP
    };
};

template <int COUT, bool SEEDED>
DEVICE void wide_chunks(const struct fast_host &host, int index, uint32_t base, const uint32_t (*a)[9][4], bool blended,
                        bool keep_raw)
{
    typedef struct wide_shared<COUT> area;
    const int env = (int)blockIdx.y, warp = (int)threadIdx.x >> 5, lane = (int)threadIdx.x & 31, g = lane >> 2;
    const uint32_t map = base + area::MAPS + warp * area::WARP, stage = map + WIDE_MAP;
    const struct fast_block &block = host.block[index], &under = host.block[index - 1];
    const uint4 *input = (SEEDED && blended ? under.act : under.pooled) + image_at(host, env, 0) * 128;
    struct walk walk = walk_start(host, 1, FAST_WARPS, warp);
    if (walk_first(walk) < walk_limit(walk))
        fetch<4>(stage, input + (size_t)walk_first(walk) * 128, lane);
    share_norm(host, index - 1, env, base + area::NORM, blockIdx.x == 0);
    __syncthreads();

    for (; walk.chunk < walk.end; walk.chunk++) {
        float sum[COUT / 8], square[COUT / 8];
#pragma unroll
        for (int e = 0; e < COUT / 8; e++)
            sum[e] = square[e] = 0;
        for (int task = walk_first(walk); task < walk_limit(walk); task += FAST_WARPS) {
            const size_t image = image_at(host, env, task);
            const int next = walk_ahead(walk, task);
            uint32_t *pooled = plane_word(block.pooled, COUT, 16, image, 0, paired_pixel(g)),
                     *raw = SEEDED ? plane_word(block.raw, COUT, 64, image, 0, g) : NULL;
            copy_wait<0>();
            wide_activate(map, stage, base + area::NORM, SEEDED && blended, lane);
            __syncwarp();
            if (next >= 0)
                fetch<4>(stage, input + (size_t)next * 128, lane);

            uint32_t x[4][3][2], columns = map + wide_columns(lane), thirds = map + wide_third(lane);
            wide_load(x, columns, thirds);
#pragma unroll 1
            for (int i = 0; i < 2; i++) {
                float top[COUT / 8];
#pragma unroll
                for (int u = 0; u < 2; u++) {
                    wide_load(x + 2 - 2 * u, columns + (2 * u + 2) * WIDE_ROW, thirds + (2 * u + 2) * WIDE_ROW);
                    float acc[COUT / 16][2][4];
#pragma unroll
                    for (int tap = 0; tap < 9; tap++)
#pragma unroll
                        for (int m = 0; m < COUT / 16; m++)
#pragma unroll
                            for (int r = 0; r < 2; r++) {
                                if (tap == 0)
                                    clear4(acc[m][r]);
                                const uint32_t *b = x[(2 * u + r + tap / 3) & 3][tap % 3];
                                mma_bf16(acc[m][r], a[m][tap], b[0], b[1]);
                            }
#pragma unroll
                    for (int e = 0; e < COUT / 8; e++) {
                        float(*z)[4] = acc[e >> 1];
                        const int k = 2 * (e & 1);
                        const float most = window(z[0][k], z[0][k + 1], z[1][k], z[1][k + 1], sum[e], square[e]);
                        if (u == 0)
                            top[e] = most;
                        else
                            store_pixels(pooled + e * 16 * 4, pack_bf16(top[e], most));
                        if (SEEDED && keep_raw)
#pragma unroll
                            for (int r = 0; r < 2; r++)
                                store_pixels(raw + (e * 64 + (2 * u + r) * 8) * 4, pack_bf16(z[r][k], z[r][k + 1]));
                    }
                }
                columns += 4 * WIDE_ROW;
                thirds += 4 * WIDE_ROW;
                pooled += 8 * 4;
                raw += 32 * 4;
            }
            __syncwarp();
        }
        if (walk.chunk + 1 == walk.end)
            device_release();
        uint32_t at = base + area::SUMS + (walk.chunk & 1) * area::ONE;
        share_sums<COUT>(at + warp * 2 * COUT * 4, sum, square, lane);
        add_warps<2 * COUT>(at, sums_of<COUT>(host, index, env, walk.chunk));
    }
}

template <int COUT>
KERNEL void __launch_bounds__(FAST_THREADS, 2) forward_wide(const __grid_constant__ struct fast_host host, int index)
{
    SHARED_BYTES(shared);
    const uint32_t base = smem(shared);
    const int env = (int)blockIdx.y, warp = (int)threadIdx.x >> 5, lane = (int)threadIdx.x & 31;
    clear_shared(base + wide_shared<COUT>::MAPS + warp * wide_shared<COUT>::WARP, WIDE_MAP, lane, 32);
    uint32_t a[COUT / 16][9][4];
    load_fragments<COUT / 16 * 9>(&a[0][0],
                                  host.fragments + (size_t)env * host.fragment_size + host.block[index].forward_frag);
    device_wait();
    const bool blended = block_use_of(host, env, index - 1).blended, keep_raw = block_use_of(host, env, index).keep_raw;
    if (blended || keep_raw)
        wide_chunks<COUT, true>(host, index, base, a, blended, keep_raw);
    else
        wide_chunks<COUT, false>(host, index, base, a, false, false);
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

void fast_forward(struct bf16_net *net, int block)
{
    struct runtime *rt = net->runtime;
    struct fast_host &host = net->host;
    struct launch shape = fast_launch(net, 2);
    if (block == 0) {
        shape.shared = first_shared<8>::BYTES;
        runtime_launch(rt, forward_first<8>, shape, host);
    } else if (block == 1) {
        shape.shared = eight_shared<16>::BYTES;
        runtime_launch(rt, forward_eight<16>, shape, host, block);
    } else {
        shape.shared = wide_shared<32>::BYTES;
        runtime_launch(rt, forward_wide<32>, shape, host, block);
    }
}

void fast_forward_prepare(struct runtime *rt)
{
    fast_allow<first_shared<8>::BYTES>(rt, forward_first<8>);
    fast_allow<eight_shared<16>::BYTES>(rt, forward_eight<16>);
    fast_allow<wide_shared<32>::BYTES>(rt, forward_wide<32>);
}
