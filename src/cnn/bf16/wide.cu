/*
 * The backward pass of a block of 16 to 32 channels on maps of 8 x 8: eight images at a time, one per warp, in phases
 * separated by barriers of the thread block: activations; raw gradient (a warp takes 16 output channels of two images);
 * input gradient (a warp takes its own image); weight gradient (a warp takes a quarter of the weights for every second
 * image).
 */
#include "cuda/runtime.cuh"

#include "cnn/bf16/conv.cuh"
#include "cnn/bf16/grad.cuh"

template <int COUT> struct wide_back_shared {
    enum {
        NORM = 0,
        BACK = 2 * 16 * 4,
        SUMS = BACK + 3 * COUT * 4,
        ONE = FAST_WARPS * 2 * 16 * 4,
        WEIGHTS = SUMS + 2 * ONE,
        MAPS = WEIGHTS + COUT / 16 * 9 * FRAGMENT_A * 4,
        GRAD_MAP = COUT / 8 * WIDE_PLANE,
        GRADS = MAPS + FAST_WARPS * WIDE_MAP, /* they also serve the sums of weight gradients */
        STAGE = 2 * 64 * 16,
        STAGES = GRADS + FAST_WARPS * GRAD_MAP,
        BYTES = STAGES + FAST_WARPS * STAGE,
        TILES = 4 * 9 * 128 * 4 /* bytes of four warps' weight gradients */
    };
};

/* The raw gradient of 16 output channels of an image, into its planes. */
template <int COUT, bool FULL>
DEVICE void wide_gradient(const struct fast_host &host, int index, const uint32_t (*a)[4], size_t image, uint32_t map,
                          uint32_t grads, int group, const struct slopes *s, int lane)
{
    const struct fast_block &block = host.block[index];
    const int g = lane >> 2, matrix = lane >> 3, n = lane & 7;
    const uint32_t columns = map + wide_columns(lane), thirds = map + wide_third(lane),
                   put = grads + (2 * group + (matrix & 1)) * WIDE_PLANE + ((matrix >> 1) + 1) * WIDE_ROW +
                         (n + 1) * 16;
    const uint32_t *grad = plane_word(block.grad, COUT, 16, image, 2 * group, paired_pixel(g)),
                   *full = FULL ? plane_word(block.grad_full, COUT, 64, image, 2 * group, g) : NULL;
    uint32_t pooled[2][2], x[4][3][2]; /* [two pooled rows][plane]; input rows, cyclic */
#pragma unroll
    for (int i = 0; i < 4; i++)
        pooled[i >> 1][i & 1] = FULL ? 0 : load_pixels(grad + ((i & 1) * 16 + (i >> 1) * 8) * 4);
    wide_load(x, columns, thirds);
#pragma unroll
    for (int r = 0; r < 4; r++) {
        wide_load(x + 2 - 2 * (r & 1), columns + (2 * r + 2) * WIDE_ROW, thirds + (2 * r + 2) * WIDE_ROW);
        float acc[2][4];
#pragma unroll
        for (int tap = 0; tap < 9; tap++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if (tap == 0)
                    clear4(acc[i]);
                const uint32_t *b = x[(2 * r + i + tap / 3) & 3][tap % 3];
                mma_bf16(acc[i], a[tap], b[0], b[1]);
            }
        uint32_t q[2][2]; /* [row][plane] */
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const float *z0 = acc[0] + 2 * e, *z1 = acc[1] + 2 * e;
            if (FULL) {
                const uint32_t *at = full + (e * 64 + 2 * r * 8) * 4;
                q[0][e] = spread(z0[0], z0[1], load_pixels(at), s[e]);
                q[1][e] = spread(z1[0], z1[1], load_pixels(at + 8 * 4), s[e]);
            } else {
                const uint32_t pair = pooled[r >> 1][e];
                struct window_grad w = route(z0[0], z0[1], z1[0], z1[1], r & 1 ? bf16_hi(pair) : bf16_lo(pair), s[e]);
                q[0][e] = w.top;
                q[1][e] = w.bottom;
            }
        }
        store_matrix_transposed(put + 2 * r * WIDE_ROW, q[0][0], q[0][1], q[1][0], q[1][1]);
    }
}

/* The gradient of an image's input, 16 channels: products of cins x couts by couts x pixels. */
template <int COUT, bool SEEDED>
DEVICE void wide_input(const struct fast_host &host, int index, const struct block_use &below, size_t image,
                       uint32_t map, uint32_t grads, uint32_t stage, uint32_t weights, float (*d)[4], int lane)
{
    const struct fast_block &under = host.block[index - 1];
    const int g = lane >> 2, matrix = lane >> 3, n = lane & 7;
    const uint32_t rows = grads + (matrix & 1) * WIDE_PLANE + ((matrix >> 1) + 1) * WIDE_ROW + (n + 1) * 16;
    float acc[8][4];
#pragma unroll
    for (int y = 0; y < 8; y++)
        clear4(acc[y]);
#pragma unroll
    for (int kx = 0; kx < 3; kx++)
#pragma unroll
        for (int k = 0; k < COUT / 16; k++) {
            uint32_t w[3][4], b[4][4]; /* b: two rows of 16 couts each */
#pragma unroll
            for (int ky = 0; ky < 3; ky++)
                load_shared_128(w[ky], weights + (((kx * (COUT / 16) + k) * 3 + ky) * 32 + lane) * 16);
#pragma unroll
            for (int r = 0; r < 4; r++)
                load_matrix(b[r], rows + 2 * k * WIDE_PLANE + 2 * r * WIDE_ROW + (1 - kx) * 16);
#pragma unroll
            for (int ky = 0; ky < 3; ky++)
#pragma unroll
                for (int r = 0; r < 8; r++) {
                    const int y = r - 1 + ky;
                    if (y >= 0 && y < 8)
                        mma_bf16(acc[y], w[ky], b[r >> 1][2 * (r & 1)], b[r >> 1][2 * (r & 1) + 1]);
                }
        }
    uint32_t *masked = plane_word(under.grad, 16, 64, image, 0, g),
             *whole = SEEDED ? plane_word(under.grad_out, 16, 64, image, 0, g) : NULL;
    const uint32_t act = map + (matrix & 1) * WIDE_PLANE + ((matrix >> 1) + 1) * WIDE_ROW + (n + 1) * 16,
                   raw = stage + (matrix & 1) * 64 * 16 + ((matrix >> 1) * 8 + n) * 16;
#pragma unroll
    for (int r = 0; r < 4; r++) { /* two rows: [row][plane] */
        uint32_t y[2][2], h[4], z[4];
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                y[i][e] = pack_bf16(acc[2 * r + i][2 * e], acc[2 * r + i][2 * e + 1]);
                if (SEEDED && below.keep_grad)
                    store_pixels(whole + (e * 64 + (2 * r + i) * 8) * 4, y[i][e]);
            }
        if (SEEDED && below.blended)
            continue;
        load_matrix_transposed(h, act + 2 * r * WIDE_ROW);
        load_matrix_transposed(z, raw + 2 * r * 8 * 16);
#pragma unroll
        for (int e = 0; e < 2; e++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                y[i][e] &= positive_mask(h[2 * i + e]);
                store_pixels(masked + (e * 64 + (2 * r + i) * 8) * 4, y[i][e]);
            }
            const uint32_t ones[4] = {z[e], TWO_ONES, z[2 + e], TWO_ONES};
            mma_bf16(d[e], ones, y[0][e], y[1][e]);
        }
    }
}

/* An image's share of the weight gradient of 16 output and 8 input channels. An operand is two adjacent registers, so
 * the rows of the middle of the kernel are read once more, in separate pairs. */
DEVICE void wide_weights(uint32_t grads, uint32_t map, float (*dw)[4], int lane)
{
    const int matrix = lane >> 3, n = lane & 7;
    const uint32_t couts = grads + (matrix & 1) * WIDE_PLANE + ((matrix >> 1) + 1) * WIDE_ROW + (n + 1) * 16,
                   outer = map + matrix * WIDE_ROW + n * 16,
                   middle = map + (1 + (matrix & 1)) * WIDE_ROW + (n + (matrix >> 1)) * 16;
#pragma unroll
    for (int r = 0; r < 4; r++) {
        uint32_t a[4], b[4], c[4]; /* b: rows 0 to 3; c: rows 1 and 2 of two columns */
        load_matrix_transposed(a, couts + 2 * r * WIDE_ROW);
#pragma unroll
        for (int kx = 0; kx < 3; kx++) {
            load_matrix_transposed(b, outer + 2 * r * WIDE_ROW + kx * 16);
            if (kx != 1)
                load_matrix_transposed(c, middle + 2 * r * WIDE_ROW + (kx ? 1 : 0) * 16);
            mma_bf16(dw[kx], a, b[0], b[1]);
            mma_bf16(dw[6 + kx], a, b[2], b[3]);
            mma_bf16(dw[3 + kx], a, c[kx ? 2 : 0], c[kx ? 3 : 1]);
        }
    }
}

template <int COUT, bool SEEDED>
DEVICE void wide_chunks(const struct fast_host &host, int index, uint32_t base, const struct block_use &below,
                        bool full)
{
    typedef struct wide_back_shared<COUT> area;
    const int env = (int)blockIdx.y, warp = (int)threadIdx.x >> 5, lane = (int)threadIdx.x & 31, g = lane >> 2;
    const int group = warp & 1; /* of 16 output channels, in the raw and the weight gradient */
    const uint32_t map = base + area::MAPS + warp * WIDE_MAP, stage = base + area::STAGES + warp * area::STAGE;
    const struct fast_block &block = host.block[index], &under = host.block[index - 1];
    const uint32_t *forward = host.fragments + (size_t)env * host.fragment_size + block.forward_frag +
                              group * 9 * FRAGMENT_A;
    const uint4 *input = (SEEDED && below.blended ? under.act : under.pooled) + image_at(host, env, 0) * 128;
    struct walk walk = walk_start(host, 1, FAST_WARPS, warp);
    if (walk_first(walk) < walk_limit(walk))
        fetch<4>(stage, input + (size_t)walk_first(walk) * 128, lane);
    share_norm(host, index - 1, env, base + area::NORM, false);
    share_back(host, index, env, base + area::BACK, 32);
    __syncthreads();
    struct slopes s[2];
#pragma unroll
    for (int e = 0; e < 2; e++)
        s[e] = load_slopes(base + area::BACK, COUT, 16 * group + 8 * e + g);

    for (; walk.chunk < walk.end; walk.chunk++) {
        float dw[9][4], d[2][4];
        clear4(d[0]);
        clear4(d[1]);
#pragma unroll
        for (int k = 0; k < 9; k++)
            clear4(dw[k]);
        const int limit = walk_limit(walk);
        for (int task0 = walk.chunk * walk.per_chunk; task0 < limit; task0 += FAST_WARPS) {
            const int task = task0 + warp; /* this warp's own image: its map, its input gradient */
            copy_wait<0>();
            if (task < limit)
                wide_activate(map, stage, base + area::NORM, SEEDED && below.blended, lane);
            {
                uint32_t a[9][4];
                load_fragments<9>(a, forward);
                __syncthreads();
#pragma unroll 1
                for (int i = warp & ~1; i <= (warp | 1) && task0 + i < limit; i++) {
                    const size_t image = image_at(host, env, task0 + i);
                    const uint32_t from = base + area::MAPS + i * WIDE_MAP,
                                   to = base + area::GRADS + i * area::GRAD_MAP;
                    if (SEEDED && full)
                        wide_gradient<COUT, true>(host, index, a, image, from, to, group, s, lane);
                    else
                        wide_gradient<COUT, false>(host, index, a, image, from, to, group, s, lane);
                }
            }
            __syncthreads();
            if (task < limit) {
                wide_input<COUT, SEEDED>(host, index, below, image_at(host, env, task), map,
                                         base + area::GRADS + warp * area::GRAD_MAP, stage, base + area::WEIGHTS, d,
                                         lane);
                __syncwarp();
                const int next = walk_ahead(walk, task);
                if (next >= 0)
                    fetch<4>(stage, input + (size_t)next * 128, lane);
            }
#pragma unroll 1
            for (int i = warp >> 2; i < FAST_WARPS && task0 + i < limit; i += 2)
                wide_weights(base + area::GRADS + i * area::GRAD_MAP + 2 * group * WIDE_PLANE,
                             base + area::MAPS + i * WIDE_MAP + (warp >> 1 & 1) * WIDE_PLANE, dw, lane);
            __syncthreads();
        }
        if (walk.chunk + 1 == walk.end)
            device_release();
        if (!SEEDED || !below.blended) {
            uint32_t at = base + area::SUMS + (walk.chunk & 1) * area::ONE;
            share_back_sums(at + warp * 32 * 4, 16, 0, d[0], lane);
            share_back_sums(at + warp * 32 * 4, 16, 8, d[1], lane);
            add_warps<32>(at, back_row(host, index - 1, env, walk.chunk));
        }
        /* Two warps share a quarter of the weights: those that took the odd images pass their sums on. */
        const uint32_t tiles = base + area::GRADS + (warp & 3) * 9 * 128 * 4 + lane * 4;
        if (warp >= 4)
#pragma unroll
            for (int k = 0; k < 36; k++)
                store_shared_float(tiles + k * 128, dw[k >> 2][k & 3]);
        __syncthreads();
        if (warp < 4) {
            float *out = part_of(host, index, env, walk.chunk) + (2 * group + (warp >> 1 & 1)) * 9 * 128 + lane;
#pragma unroll
            for (int k = 0; k < 36; k++)
                out[k * 32] = dw[k >> 2][k & 3] + load_shared_float(tiles + k * 128);
        }
        __syncthreads();
        clear_shared(base + area::GRADS, area::TILES, (int)threadIdx.x, FAST_THREADS);
        __syncthreads();
    }
}

template <int COUT>
KERNEL void __launch_bounds__(FAST_THREADS, 2) backward_wide(const __grid_constant__ struct fast_host host, int index)
{
    static_assert(COUT == 32,
                  "two groups of 16 output channels, two planes of input: a quarter of the weights per warp");
    SHARED_BYTES(shared);
    typedef struct wide_back_shared<COUT> area;
    const uint32_t base = smem(shared);
    const int env = (int)blockIdx.y;
    clear_shared(base + area::MAPS, FAST_WARPS * (WIDE_MAP + area::GRAD_MAP), (int)threadIdx.x, FAST_THREADS);
    share_fragments<COUT / 16 * 9 * FRAGMENT_A>(
        base + area::WEIGHTS, host.fragments + (size_t)env * host.fragment_size + host.block[index].back_frag);
    device_wait();
    const struct block_use below = block_use_of(host, env, index - 1);
    const bool full = block_use_of(host, env, index).full;
    if (full || below.keep_grad)
        wide_chunks<COUT, true>(host, index, base, below, full);
    else
        wide_chunks<COUT, false>(host, index, base, below, false);
}

void fast_wide_backward(struct bf16_net *net, int block)
{
    struct launch shape = fast_launch(net, 2);
    shape.shared = wide_back_shared<32>::BYTES;
    runtime_launch(net->runtime, backward_wide<32>, shape, net->host, block);
}

void fast_wide_prepare(struct runtime *rt)
{
    fast_allow<wide_back_shared<32>::BYTES>(rt, backward_wide<32>);
}
