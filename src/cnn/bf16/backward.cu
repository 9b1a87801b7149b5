/*
 * The backward pass of a block for all envs: the convolution is repeated; the gradient of its output follows from the
 * gradient after the pool (or, with a blended seed, before it) and BatchNorm's sums, and goes straight into the weight
 * gradient and the gradient of the block's input. Nothing of full size is ever stored.
 */
#include "cuda/runtime.cuh"

#include "cnn/bf16/conv.cuh"
#include "cnn/bf16/grad.cuh"

/* TILES accumulators of every warp at `area`, added over warps in order, to `out`. The area is free before and after.
 */
template <int TILES> DEVICE void add_tiles(uint32_t area, const float (*acc)[4], float *out, int warp, int lane)
{
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            store_shared_float(area + ((warp * TILES * 4 + i * 4 + e) * 32 + lane) * 4, acc[i][e]);
    __syncthreads();
    for (int j = (int)threadIdx.x; j < TILES * 128; j += FAST_THREADS) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < FAST_WARPS; w++)
            sum += load_shared_float(area + (w * TILES * 128 + j) * 4);
        out[j] = sum;
    }
}

/* ---- first ------------------------------------------------------------------------------------------------------- */

template <int COUT> struct first_back_shared {
    enum {
        BACK = 0,
        TILES = 3 * COUT * 4 + (16 - 3 * COUT * 4 % 16) % 16,
        STRIPS = TILES + FAST_WARPS * 6 * 128 * 4,
        BYTES = STRIPS + FAST_WARPS * 2 * FIRST_STRIP
    };
};

/* The gradient of two raw rows of eight channels: two rows x four tiles of eight pixels. */
template <bool FULL>
DEVICE void first_gradient(const float (*acc)[4], const uint32_t pooled[2], const uint32_t *full,
                           const struct slopes &s, uint32_t (*dz)[4])
{
#pragma unroll
    for (int j = 0; j < 4; j++) {
        if (FULL) {
#pragma unroll
            for (int r = 0; r < 2; r++)
                dz[r][j] =
                    spread(acc[j][2 * r], acc[j][2 * r + 1], load_pixels(full + (r * FIRST_SIZE + 8 * j) * 4), s);
        } else {
            const float g = j & 1 ? bf16_hi(pooled[j >> 1]) : bf16_lo(pooled[j >> 1]);
            struct window_grad w = route(acc[j][0], acc[j][1], acc[j][2], acc[j][3], g, s);
            dz[0][j] = w.top;
            dz[1][j] = w.bottom;
        }
    }
}

template <int COUT, bool FULL> DEVICE void first_chunks(const struct fast_host &host, uint32_t base, struct walk walk)
{
    typedef struct first_back_shared<COUT> area;
    enum { AREA = FIRST_SIZE * FIRST_SIZE, GROUPS = COUT / 8 };
    const int env = (int)blockIdx.y, warp = (int)threadIdx.x >> 5, lane = (int)threadIdx.x & 31, g = lane >> 2;
    uint32_t strip = base + area::STRIPS + warp * 2 * FIRST_STRIP, other = strip + FIRST_STRIP;
    const uint2 *pixels = host.pixels + image_at(host, env, 0) * AREA;
    uint32_t a[GROUPS][3][4];
    load_fragments<GROUPS * 3>(&a[0][0],
                               host.fragments + (size_t)env * host.fragment_size + host.block[0].forward_frag);
    struct slopes s[GROUPS];
#pragma unroll
    for (int m = 0; m < GROUPS; m++)
        s[m] = load_slopes(base + area::BACK, COUT, 8 * m + g);

    for (; walk.chunk < walk.end; walk.chunk++) {
        float dw[GROUPS][6][4]; /* [row of the pair][operand] */
#pragma unroll
        for (int i = 0; i < GROUPS * 6; i++)
            clear4(dw[i / 6][i % 6]);
        for (int task = walk_first(walk); task < walk_limit(walk); task += FAST_WARPS) {
            const size_t image = image_at(host, env, task >> 1);
            const int next = walk_ahead(walk, task), half = task & 1;
            const uint32_t *grad = plane_word(host.block[0].grad, COUT, AREA / 4, image, 0,
                                              half * AREA / 8 + paired_pixel(g)),
                           *full = FULL ? plane_word(host.block[0].grad_full, COUT, AREA, image, 0, half * AREA / 2 + g)
                                        : NULL;
            uint32_t ahead[GROUPS][2]; /* gradients of the next two rows, being loaded */
#pragma unroll
            for (int m = 0; m < GROUPS; m++)
#pragma unroll
                for (int q = 0; q < 2; q++)
                    ahead[m][q] = FULL ? 0 : __ldcg(grad + (m * AREA / 4 + 8 * q) * 4);
            copy_wait<0>();
            __syncwarp();
            if (next >= 0)
                first_fetch(other, pixels + (size_t)(next >> 1) * AREA, half, lane);

            uint32_t x[2][2][4], third[2][4], turned[2][2][4], turned_third[2][4];
            uint32_t columns = strip + first_columns(lane), thirds = strip + first_third(lane);
#pragma unroll
            for (int h = 0; h < 2; h++) {
                load_matrix(x[0][h], columns + 256 * h);
                load_matrix_transposed(turned[0][h], columns + 256 * h);
            }
#pragma unroll 1
            for (int i = 0; i < 4; i++) {
#pragma unroll
                for (int u = 0; u < 2; u++) {
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        load_matrix(x[1 - u][h], columns + (u + 1) * FIRST_PAIR + 256 * h);
                        load_matrix(third[h], thirds + u * FIRST_PAIR + 256 * h);
                        load_matrix_transposed(turned[1 - u][h], columns + (u + 1) * FIRST_PAIR + 256 * h);
                        load_matrix_transposed(turned_third[h], thirds + u * FIRST_PAIR + 256 * h);
                    }
                    if (u == 1 && i < 3)
                        grad += FIRST_SIZE * 4;
#pragma unroll
                    for (int m = 0; m < GROUPS; m++) {
                        uint32_t pooled[2], dz[2][4];
#pragma unroll
                        for (int q = 0; q < 2; q++) {
                            pooled[q] = FULL ? 0 : transpose_matrix(ahead[m][q]);
                            /* the last iteration reads the previous ones again */
                            ahead[m][q] = FULL ? 0
                                               : __ldcg(grad + (m * AREA / 4 + (1 - u) * FIRST_SIZE / 2 + 8 * q) * 4);
                        }
                        float acc[4][4];
                        first_rows(acc, a[m], x[u], x[1 - u], third);
                        first_gradient<FULL>(acc, pooled, full + (m * AREA + 2 * u * FIRST_SIZE) * 4, s[m], dz);
#pragma unroll
                        for (int h = 0; h < 2; h++)
#pragma unroll
                            for (int k = 0; k < 3; k++) {
                                const uint32_t *rows = k == 0   ? turned[u][h]
                                                       : k == 1 ? turned[1 - u][h]
                                                                : turned_third[h];
                                mma_bf16(dw[m][k], rows, dz[0][2 * h], dz[0][2 * h + 1]);
                                mma_bf16(dw[m][3 + k], rows, dz[1][2 * h], dz[1][2 * h + 1]);
                            }
                    }
                }
                columns += 2 * FIRST_PAIR;
                thirds += 2 * FIRST_PAIR;
                full += 4 * FIRST_SIZE * 4;
            }
            uint32_t swap = strip;
            strip = other;
            other = swap;
        }
        if (walk.chunk + 1 == walk.end)
            device_release();
#pragma unroll
        for (int m = 0; m < GROUPS; m++)
            add_tiles<6>(base + area::TILES, dw[m], part_of(host, 0, env, walk.chunk) + m * 6 * 128, warp, lane);
    }
}

template <int COUT>
KERNEL void __launch_bounds__(FAST_THREADS, 2) backward_first(const __grid_constant__ struct fast_host host)
{
    SHARED_BYTES(shared);
    typedef struct first_back_shared<COUT> area;
    const uint32_t base = smem(shared);
    const int env = (int)blockIdx.y, warp = (int)threadIdx.x >> 5, lane = (int)threadIdx.x & 31;
    const uint32_t strip = base + area::STRIPS + warp * 2 * FIRST_STRIP;
    struct walk walk = walk_start(host, 2, FAST_WARPS, warp);
    clear_shared(strip, 2 * FIRST_STRIP, lane, 32);
    __syncwarp();
    if (walk_first(walk) < walk_limit(walk))
        first_fetch(strip, host.pixels + image_at(host, env, walk_first(walk) >> 1) * FIRST_SIZE * FIRST_SIZE, warp & 1,
                    lane);
    device_wait();
    share_back(host, 0, env, base + area::BACK, 0);
    __syncthreads();
    if (block_use_of(host, env, 0).full)
        first_chunks<COUT, true>(host, base, walk);
    else
        first_chunks<COUT, false>(host, base, walk);
}

/* ---- eight: two warps for an image, eight rows each -------------------------------------------------------------- */

template <int COUT> struct eight_back_shared {
    enum {
        NORM = 0,                   /* scale, shift of the input */
        BACK = 2 * 8 * 4,           /* gain, slope, offset of the output */
        SUMS = BACK + 3 * COUT * 4, /* [2][warp][2][8] */
        ONE = FAST_WARPS * 2 * 8 * 4,
        FORWARD = SUMS + 2 * ONE, /* fragments of the weights */
        WEIGHTS = FORWARD + COUT / 16 * 6 * FRAGMENT_A * 4,
        TEAMS = WEIGHTS + COUT / 16 * 9 * FRAGMENT_B * 4,
        GRAD_ROW = COUT / 8 * EIGHT_ROW, /* the raw gradient: rows of planes, with borders at the sides only */
        GRAD_MAP = 16 * GRAD_ROW,
        GRADS = TEAMS + FAST_WARPS / 2 * EIGHT_MAP, /* those of all teams side by side: they also serve add_tiles */
        STAGE = 8 * 16 * 16,                        /* half an image of the input, twice per warp */
        STAGES = GRADS + FAST_WARPS / 2 * GRAD_MAP,
        BYTES = STAGES + FAST_WARPS * 2 * STAGE
    };
};

/* Zeros to the left and right of the team's raw gradient. */
template <int COUT> DEVICE void eight_borders(uint32_t grads, int thread)
{
    for (int i = thread; i < 16 * COUT / 8 * 2; i += 64)
        store_shared_128(grads + (i >> 1) * EIGHT_ROW + (i & 1) * 17 * 16, 0, 0, 0, 0);
}

/* Two rows of the raw gradient as a couts x pixels operand: q[row][2 * half + plane]. */
template <bool FULL>
DEVICE void eight_gradient(const float (*acc)[2][4], const uint32_t pooled[2], const uint32_t *full,
                           const struct slopes *s, uint32_t (*q)[4])
{
#pragma unroll
    for (int e = 0; e < 2; e++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float *z0 = acc[0][half] + 2 * e, *z1 = acc[1][half] + 2 * e;
            if (FULL) {
                const uint32_t *at = full + (e * 256 + 8 * half) * 4;
                q[0][2 * half + e] = spread(z0[0], z0[1], load_pixels(at), s[e]);
                q[1][2 * half + e] = spread(z1[0], z1[1], load_pixels(at + 16 * 4), s[e]);
            } else {
                const float g = half ? bf16_hi(pooled[e]) : bf16_lo(pooled[e]);
                struct window_grad w = route(z0[0], z0[1], z1[0], z1[1], g, s[e]);
                q[0][2 * half + e] = w.top;
                q[1][2 * half + e] = w.bottom;
            }
        }
}

/*
 * The gradient of eight rows of the input: products of pixels x couts by couts x cins, over three rows of the raw
 * gradient at a time. Masked by the ReLU below, it goes to grad with its sums in d; unmasked, to grad_out.
 */
template <int COUT, bool SEEDED>
DEVICE void eight_input(const struct fast_host &host, int index, const struct block_use &below, size_t image, int top,
                        uint32_t map, uint32_t grads, uint32_t stage, uint32_t weights, float d[4], int lane)
{
    const struct fast_block &under = host.block[index - 1];
    const int g = lane >> 2, t = lane & 3, matrix = lane >> 3, n = lane & 7;
    const uint32_t rows = grads + (matrix >> 1) * EIGHT_ROW + (8 * (matrix & 1) + n + 1) * 16 +
                          (top - 1) * eight_back_shared<COUT>::GRAD_ROW;
    const uint32_t act = map + (top + 1) * EIGHT_ROW + (g + 1) * 16 + t * 4;
    const uint32_t raw = stage + ((matrix >> 1) * 16 + 8 * (matrix & 1) + n) * 16;
    uint32_t *masked = plane_word(under.grad, 8, 256, image, 0, top * 16 + g),
             *whole = SEEDED ? plane_word(under.grad_out, 8, 256, image, 0, top * 16 + g) : NULL;
    uint32_t w[9][2], z[4] = {0, 0, 0, 0};
#pragma unroll
    for (int k = 0; k < 9; k++)
        load_shared_64(w[k], weights + (k * 32 + lane) * 8);
    float e0[4], e1[4], e2[4]; /* rows that lack zero, one, two rows of the kernel */
    clear4(e0);
    clear4(e1);
#pragma unroll
    for (int q = 0; q < 10; q++) { /* row top - 1 + q of the raw gradient */
        clear4(e2);
        if (!(q == 0 && top == 0) && !(q == 9 && top > 0)) {
#pragma unroll
            for (int kx = 0; kx < 3; kx++) {
                uint32_t x[4];
                load_matrix(x, rows + q * eight_back_shared<COUT>::GRAD_ROW + (1 - kx) * 16);
                if (q >= 2)
                    mma_bf16(e0, x, w[kx][0], w[kx][1]);
                if (q >= 1 && q <= 8)
                    mma_bf16(e1, x, w[3 + kx][0], w[3 + kx][1]);
                if (q <= 7)
                    mma_bf16(e2, x, w[6 + kx][0], w[6 + kx][1]);
            }
        }
        if (q >= 2) {
            const int o = q - 2;
            uint32_t y[2] = {pack_bf16(e0[0], e0[1]), pack_bf16(e0[2], e0[3])}; /* pixels g and g + 8 */
            if (SEEDED && below.keep_grad) {
                whole[o * 16 * 4] = y[0];
                whole[(o * 16 + 8) * 4] = y[1];
            }
            if (!SEEDED || !below.blended) {
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    y[h] &= positive_mask(load_shared_32(act + o * EIGHT_ROW + h * 8 * 16));
                    masked[(o * 16 + 8 * h) * 4] = y[h];
                }
                if ((o & 1) == 0)
                    load_matrix_transposed(z, raw + o * 16 * 16);
                const uint32_t ones[4] = {z[2 * (o & 1)], TWO_ONES, z[2 * (o & 1) + 1], TWO_ONES};
                mma_bf16(d, ones, transpose_matrix(y[0]), transpose_matrix(y[1]));
            }
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            e0[e] = e1[e];
            e1[e] = e2[e];
        }
    }
}

/* The raw gradient of eight rows of an image, into the team's planes, and its share of the weight gradient. */
template <int COUT, bool FULL>
DEVICE void eight_rows_back(const struct fast_host &host, int index, size_t image, int top, uint32_t map,
                            uint32_t grads, uint32_t weights, const uint32_t *grad, uint32_t *ahead,
                            const struct slopes *s, float (*dw)[4], int lane)
{
    const int matrix = lane >> 3, n = lane & 7;
    const uint32_t columns = map + top * EIGHT_ROW + eight_columns(lane, false),
                   thirds = map + top * EIGHT_ROW + eight_third(lane, false),
                   turned_columns = map + top * EIGHT_ROW + eight_columns(lane, true),
                   turned_thirds = map + top * EIGHT_ROW + eight_third(lane, true),
                   put = grads + top * eight_back_shared<COUT>::GRAD_ROW + (matrix & 1) * EIGHT_ROW +
                         (8 * (matrix >> 1) + n + 1) * 16;
    const uint32_t *full = FULL ? plane_word(host.block[index].grad_full, COUT, 256, image, 0, top * 16 + (lane >> 2))
                                : NULL;
    uint32_t x[2][2][4], third[2][4];
    load_matrix(x[0][0], columns);
    load_matrix(x[0][1], columns + EIGHT_ROW);
    load_matrix(third[0], thirds);
#pragma unroll
    for (int r = 0; r < 4; r++) { /* rows top + 2r, top + 2r + 1 */
        const int u = r & 1;
        uint32_t pooled[2], q[2][4];
#pragma unroll
        for (int e = 0; e < 2; e++) {
            pooled[e] = FULL ? 0 : transpose_matrix(ahead[e]);
            if (!FULL && r < 3)
                ahead[e] = __ldcg(grad + (e * 64 + (r + 1) * 8) * 4);
        }
#pragma unroll
        for (int i = 0; i < 2; i++)
            load_matrix(x[1 - u][i], columns + (2 * r + 2 + i) * EIGHT_ROW);
        load_matrix(third[1 - u], thirds + (2 * r + 2) * EIGHT_ROW);
        {
            uint32_t a[6][4]; /* reloaded every time: registers are more expensive */
            float acc[2][2][4];
#pragma unroll
            for (int k = 0; k < 6; k++)
                load_shared_128(a[k], weights + (k * 32 + lane) * 16);
            eight_rows(acc, a, x[u][0], x[u][1], x[1 - u][0], x[1 - u][1], third[u], third[1 - u]);
            eight_gradient<FULL>(acc, pooled, full + 2 * r * 16 * 4, s, q);
        }
#pragma unroll
        for (int i = 0; i < 2; i++)
            store_matrix_transposed(put + (2 * r + i) * eight_back_shared<COUT>::GRAD_ROW, q[i][0], q[i][1], q[i][2],
                                    q[i][3]);
#pragma unroll
        for (int row = 0; row < 4; row++) { /* of the input: it contributes to output row i at ky = row - i */
            uint32_t b[4], c[4];
            load_matrix_transposed(b, turned_columns + (2 * r + row) * EIGHT_ROW);
            if ((row & 1) == 0)
                load_matrix_transposed(c, turned_thirds + (2 * r + row) * EIGHT_ROW);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int ky = row - i;
                if (ky < 0 || ky > 2)
                    continue;
                mma_bf16(dw[3 * ky], q[i], b[0], b[1]);
                mma_bf16(dw[3 * ky + 1], q[i], b[2], b[3]);
                mma_bf16(dw[3 * ky + 2], q[i], c[2 * (row & 1)], c[2 * (row & 1) + 1]);
            }
        }
    }
}

template <int COUT, bool SEEDED>
DEVICE void eight_chunks(const struct fast_host &host, int index, uint32_t base, const struct block_use &below,
                         bool full)
{
    typedef struct eight_back_shared<COUT> area;
    const int env = (int)blockIdx.y, warp = (int)threadIdx.x >> 5, lane = (int)threadIdx.x & 31, g = lane >> 2;
    const int team = warp >> 1, top = 8 * (warp & 1), thread = (int)threadIdx.x & 63;
    const uint32_t map = base + area::TEAMS + team * EIGHT_MAP, grads = base + area::GRADS + team * area::GRAD_MAP;
    uint32_t stage = base + area::STAGES + warp * 2 * area::STAGE, other = stage + area::STAGE;
    const struct fast_block &block = host.block[index], &under = host.block[index - 1];
    const uint4 *input = (SEEDED && below.blended ? under.act : under.pooled) + image_at(host, env, 0) * 256 + top * 16;
    struct walk walk = walk_start(host, 1, FAST_WARPS / 2, team);
    if (walk_first(walk) < walk_limit(walk))
        fetch<4>(stage, input + (size_t)walk_first(walk) * 256, lane);
    share_norm(host, index - 1, env, base + area::NORM, false);
    share_back(host, index, env, base + area::BACK, 32);
    __syncthreads();
    struct slopes s[2];
#pragma unroll
    for (int e = 0; e < 2; e++)
        s[e] = load_slopes(base + area::BACK, COUT, 8 * e + g);
    const uint32_t put = map + (top + (lane >> 4) + 1) * EIGHT_ROW + ((lane & 15) + 1) * 16;

    for (; walk.chunk < walk.end; walk.chunk++) {
        float dw[9][4], d[4];
        clear4(d);
#pragma unroll
        for (int k = 0; k < 9; k++)
            clear4(dw[k]);
        for (int task = walk_first(walk); task < walk_limit(walk); task += FAST_WARPS / 2) {
            const size_t image = image_at(host, env, task);
            const int next = walk_ahead(walk, task);
            const uint32_t *grad = plane_word(block.grad, COUT, 64, image, 0, top / 2 * 8 + paired_pixel(g));
            uint32_t ahead[2] = {__ldcg(grad), __ldcg(grad + 64 * 4)};
            struct affine8 affine;
            load_affine(affine, base + area::NORM, base + area::NORM + 8 * 4);
            copy_wait<0>();
#pragma unroll
            for (int k = 0; k < 4; k++) {
                uint32_t v[4];
                load_shared_128(v, stage + (k * 32 + lane) * 16);
                if (!SEEDED || !below.blended)
                    activate(v, affine);
                store_shared_128(put + 2 * k * EIGHT_ROW, v[0], v[1], v[2], v[3]);
            }
            team_sync(1 + team, 64);
            if (SEEDED && full)
                eight_rows_back<COUT, true>(host, index, image, top, map, grads, base + area::FORWARD, grad, ahead, s,
                                            dw, lane);
            else
                eight_rows_back<COUT, false>(host, index, image, top, map, grads, base + area::FORWARD, grad, ahead, s,
                                             dw, lane);
            team_sync(1 + team, 64);
            if (next >= 0)
                fetch<4>(other, input + (size_t)next * 256, lane);
            eight_input<COUT, SEEDED>(host, index, below, image, top, map, grads, stage, base + area::WEIGHTS, d, lane);
            __syncwarp();
            uint32_t swap = stage;
            stage = other;
            other = swap;
        }
        if (walk.chunk + 1 == walk.end)
            device_release();
        if (!SEEDED || !below.blended) {
            uint32_t at = base + area::SUMS + (walk.chunk & 1) * area::ONE;
            share_back_sums(at + warp * 16 * 4, 8, 0, d, lane);
            add_warps<16>(at, back_row(host, index - 1, env, walk.chunk));
        }
        add_tiles<9>(base + area::GRADS, dw, part_of(host, index, env, walk.chunk), warp, lane);
        __syncthreads();
        eight_borders<COUT>(grads, thread);
    }
}

template <int COUT>
KERNEL void __launch_bounds__(FAST_THREADS, 2) backward_eight(const __grid_constant__ struct fast_host host, int index)
{
    static_assert(COUT == 16, "one tile of output channels");
    SHARED_BYTES(shared);
    typedef struct eight_back_shared<COUT> area;
    const uint32_t base = smem(shared);
    const int env = (int)blockIdx.y, team = (int)threadIdx.x >> 6, thread = (int)threadIdx.x & 63;
    const uint32_t *fragments = host.fragments + (size_t)env * host.fragment_size;
    clear_shared(base + area::TEAMS + team * EIGHT_MAP, EIGHT_MAP, thread, 64);
    eight_borders<COUT>(base + area::GRADS + team * area::GRAD_MAP, thread);
    share_fragments<6 * FRAGMENT_A>(base + area::FORWARD, fragments + host.block[index].forward_frag);
    share_fragments<9 * FRAGMENT_B>(base + area::WEIGHTS, fragments + host.block[index].back_frag);
    device_wait();
    const struct block_use below = block_use_of(host, env, index - 1);
    const bool full = block_use_of(host, env, index).full;
    if (full || below.keep_grad)
        eight_chunks<COUT, true>(host, index, base, below, full);
    else
        eight_chunks<COUT, false>(host, index, base, below, false);
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

void fast_backward(struct bf16_net *net, int block)
{
    struct runtime *rt = net->runtime;
    struct fast_host &host = net->host;
    struct launch shape = fast_launch(net, 2);
    if (block == 0) {
        shape.shared = first_back_shared<8>::BYTES;
        runtime_launch(rt, backward_first<8>, shape, host);
    } else if (block == 1) {
        shape.shared = eight_back_shared<16>::BYTES;
        runtime_launch(rt, backward_eight<16>, shape, host, block);
    } else {
        fast_wide_backward(net, block);
    }
}

void fast_backward_prepare(struct runtime *rt)
{
    fast_allow<first_back_shared<8>::BYTES>(rt, backward_first<8>);
    fast_allow<eight_back_shared<16>::BYTES>(rt, backward_eight<16>);
    fast_wide_prepare(rt);
}
