/*
 * Blocks of 16 input channels and more, of any size of map that has rows of eight pixels: forward and backward as in
 * fast_forward and fast_backward, with loops where those have constants. Weights stay in shared memory.
 *
 * Pixels are taken by pairs of tiles: eight pixels of an even row and the eight below them, so that pool windows lie in
 * a lane; two pairs side by side (or, on maps of eight, one below the other) pool to eight pixels in a row.
 */
#include "cuda/runtime.cuh"

#include "morph/fast_conv.cuh"
#include "morph/fast_grad.cuh"

template <int CIN, int COUT, int SIZE> struct deep {
    enum {
        DEEP = CIN / 16,
        HIGH = COUT / 16,
        ROW = (SIZE + 2) * 16, /* bytes of a row with its border */
        PLANE = (SIZE + 2) * ROW,
        MAP = CIN / 8 * PLANE,
        GRAD_MAP = COUT / 8 * PLANE,
        ACROSS = SIZE / 8,                          /* tiles of a row */
        PAIRS = SIZE / 2 * ACROSS,                  /* of tiles in an image */
        WEIGHTS = HIGH * 9 * DEEP * FRAGMENT_A * 4, /* bytes of fragments, either way */
        IN_AREA = SIZE * SIZE,
        OUT_AREA = SIZE * SIZE / 4,
        ROUND = SIZE > 8 ? 2 : 4, /* images that the backward pass takes at a time */
        RESIDENT = SIZE > 8 ? 2 : 1
    };
    static_assert(CIN % 16 == 0 && COUT == 2 * CIN && SIZE % 8 == 0, "whole tiles");
};

/* Offset of a pair of tiles in a plane with border: the pixel up and left of its first. */
template <class D> DEVICE uint32_t pair_at(int pair)
{
    return (uint32_t)(pair / D::ACROSS * 2 * D::ROW + pair % D::ACROSS * 128);
}

/* Lane address within a pair: matrices (even row, plane 0), (even row, plane 1), (odd row, plane 0), (odd row, plane
 * 1). */
template <class D> DEVICE uint32_t pair_lane(int lane)
{
    const int matrix = lane >> 3, n = lane & 7;
    return (uint32_t)((matrix >> 1) * D::ROW + n * 16 + (matrix & 1) * D::PLANE);
}

/* The same for operands with channels as rows: (plane 0, even row), (plane 1, even), (plane 0, odd), (plane 1, odd). */

/* ROWS x 16 rows of the product by two pairs of tiles, over 9 taps of 16 CHANNELS each. flip: taps in reverse. */
template <class D, int ROWS, int CHANNELS, bool BACK>
DEVICE void deep_product(float (*acc)[2][2][4], uint32_t weights, uint32_t map, int pair, int lane)
{
#pragma unroll
    for (int m = 0; m < ROWS; m++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            clear4(acc[m][i >> 1][i & 1]);
    const uint32_t from[2] = {map + pair_lane<D>(lane) + pair_at<D>(pair),
                              map + pair_lane<D>(lane) + pair_at<D>(pair + 1)};
#pragma unroll 1
    for (int ky = 0; ky < 3; ky++)
#pragma unroll
        for (int kx = 0; kx < 3; kx++)
#pragma unroll
            for (int k = 0; k < CHANNELS; k++) {
                uint32_t a[ROWS][4], b[2][4];
#pragma unroll
                for (int m = 0; m < ROWS; m++)
                    load_shared_128(a[m], weights + ((BACK ? ((kx * CHANNELS + k) * 3 + ky) * ROWS + m
                                                           : (m * 9 + 3 * ky + kx) * CHANNELS + k) *
                                                         32 +
                                                     lane) *
                                                        16);
#pragma unroll
                for (int p = 0; p < 2; p++)
                    load_matrix(b[p], from[p] + 2 * k * D::PLANE +
                                          (BACK ? (2 - ky) * D::ROW + (2 - kx) * 16 : ky * D::ROW + kx * 16));
#pragma unroll
                for (int m = 0; m < ROWS; m++)
#pragma unroll
                    for (int p = 0; p < 2; p++)
#pragma unroll
                        for (int r = 0; r < 2; r++)
                            mma_bf16(acc[m][p][r], a[m], b[p][2 * r], b[p][2 * r + 1]);
            }
}

/* The inputs of an image, activated, into its map; by `threads` threads. */
template <int CIN, int COUT, int SIZE>
DEVICE void deep_activate(uint32_t map, const uint4 *image, uint32_t norm, bool ready, int thread, int threads)
{
    typedef struct deep<CIN, COUT, SIZE> D;
#pragma unroll 1
    for (int plane = 0; plane < CIN / 8; plane++) {
        struct affine8 affine;
        load_affine(affine, norm + plane * 32, norm + (CIN + 8 * plane) * 4);
#pragma unroll 2
        for (int p = thread; p < D::IN_AREA; p += threads) {
            uint32_t v[4];
            load_words(v, reinterpret_cast<const uint32_t *>(image + plane * D::IN_AREA + p));
            if (!ready)
                activate(v, affine);
            store_shared_128(map + plane * D::PLANE + (p / SIZE + 1) * D::ROW + (p % SIZE + 1) * 16, v[0], v[1], v[2],
                             v[3]);
        }
    }
}

/* The word of pixel g of a row of a pair of tiles, in planes without border. */
template <class D> DEVICE int pair_pixel(int pair, int row, int size)
{
    return (pair / D::ACROSS * 2 + row) * size + pair % D::ACROSS * 8;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

template <int CIN, int COUT, int SIZE> struct deep_forward {
    enum {
        NORM = 0,
        SUMS = 2 * CIN * 4,
        ONE = FAST_WARPS * 2 * COUT * 4,
        WEIGHTS = SUMS + 2 * ONE,
        MAPS = WEIGHTS + deep<CIN, COUT, SIZE>::WEIGHTS,
        BYTES = MAPS + FAST_WARPS * deep<CIN, COUT, SIZE>::MAP
    };
};

template <int CIN, int COUT, int SIZE>
KERNEL void __launch_bounds__(FAST_THREADS, 2) forward_deep(const __grid_constant__ struct fast_host host, int index)
{
    SHARED_BYTES(shared);
    typedef struct deep<CIN, COUT, SIZE> D;
    typedef struct deep_forward<CIN, COUT, SIZE> area;
    const uint32_t base = smem(shared);
    const int env = (int)blockIdx.y, warp = (int)threadIdx.x >> 5, lane = (int)threadIdx.x & 31, g = lane >> 2;
    const uint32_t map = base + area::MAPS + warp * D::MAP;
    const struct fast_block &block = host.block[index], &under = host.block[index - 1];
    clear_shared(map, D::MAP, lane, 32);
    share_fragments<D::WEIGHTS / 4>(base + area::WEIGHTS,
                                    host.fragments + (size_t)env * host.fragment_size + block.forward_frag);
    device_wait();
    const bool blended = block_use_of(host, env, index - 1).blended, keep_raw = block_use_of(host, env, index).keep_raw;
    const uint4 *input = blended ? under.act : under.pooled;
    share_norm(host, index - 1, env, base + area::NORM, blockIdx.x == 0);
    __syncthreads();

    for (struct walk walk = walk_start(host, 1, FAST_WARPS, warp); walk.chunk < walk.end; walk.chunk++) {
        float sum[COUT / 8], square[COUT / 8];
#pragma unroll
        for (int e = 0; e < COUT / 8; e++)
            sum[e] = square[e] = 0;
        for (int task = walk_first(walk); task < walk_limit(walk); task += FAST_WARPS) {
            const size_t image = image_at(host, env, task);
            deep_activate<CIN, COUT, SIZE>(map, plane_at(input, CIN, D::IN_AREA, image, 0, 0), base + area::NORM,
                                           blended, lane, 32);
            __syncwarp();
#pragma unroll 1
            for (int pair = 0; pair < D::PAIRS; pair += 2) {
                uint32_t *pooled = plane_word(block.pooled, COUT, D::OUT_AREA, image, 0, 4 * pair + paired_pixel(g));
#pragma unroll
                for (int m = 0; m < D::HIGH; m += 2) {
                    float acc[2][2][2][4];
                    deep_product<D, 2, D::DEEP, false>(acc, base + area::WEIGHTS + m * 9 * D::DEEP * FRAGMENT_A * 4,
                                                       map, pair, lane);
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        const int plane = 2 * m + e, k = 2 * (e & 1);
                        float(*z)[2][4] = acc[e >> 1], top[2];
#pragma unroll
                        for (int p = 0; p < 2; p++)
                            top[p] = window(z[p][0][k], z[p][0][k + 1], z[p][1][k], z[p][1][k + 1], sum[plane],
                                            square[plane]);
                        store_pixels(pooled + plane * D::OUT_AREA * 4, pack_bf16(top[0], top[1]));
                        if (keep_raw)
#pragma unroll
                            for (int i = 0; i < 4; i++)
                                store_pixels(plane_word(block.raw, COUT, D::IN_AREA, image, plane,
                                                        pair_pixel<D>(pair + (i >> 1), i & 1, SIZE) + g),
                                             pack_bf16(z[i >> 1][i & 1][k], z[i >> 1][i & 1][k + 1]));
                    }
                }
            }
            __syncwarp();
        }
        if (walk.chunk + 1 == walk.end)
            device_release();
        uint32_t at = base + area::SUMS + (walk.chunk & 1) * area::ONE;
        share_sums<COUT>(at + warp * 2 * COUT * 4, sum, square, lane);
        add_warps<2 * COUT>(at, host.block[index].sums + ((size_t)env * host.chunks + walk.chunk) * 2 * COUT);
    }
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

template <int CIN, int COUT, int SIZE> struct deep_backward {
    typedef struct deep<CIN, COUT, SIZE> D;
    enum {
        NORM = 0,
        BACK = 2 * CIN * 4,
        SUMS = BACK + 3 * COUT * 4,
        ONE = FAST_WARPS * 2 * CIN * 4,
        FORWARD = SUMS + 2 * ONE,
        WEIGHTS = FORWARD + D::WEIGHTS,
        MAPS = WEIGHTS + D::WEIGHTS,
        GRADS = MAPS + D::ROUND * D::MAP,
        BYTES = GRADS + D::ROUND * D::GRAD_MAP,
        /* Weight gradients: 16 x 8 channels are an item, or half of its taps where there are few. */
        ITEMS = D::HIGH * CIN / 8,
        SPLIT = ITEMS < FAST_WARPS ? 2 : 1,
        TAPS = SPLIT == 2 ? 5 : 9,
        EACH = ITEMS * SPLIT / FAST_WARPS
    };
    static_assert(ITEMS * SPLIT % FAST_WARPS == 0, "items divide evenly");
};

/* The raw gradient of 32 output channels at two pairs of tiles, into the image's planes. */
template <int CIN, int COUT, int SIZE>
DEVICE void deep_gradient(const struct fast_block &block, size_t image, bool full, uint32_t map, uint32_t grads,
                          uint32_t weights, uint32_t back, int m, int pair, int lane)
{
    typedef struct deep<CIN, COUT, SIZE> D;
    const int g = lane >> 2, matrix = lane >> 3, n = lane & 7;
    float acc[2][2][2][4];
    deep_product<D, 2, D::DEEP, false>(acc, weights + m * 9 * D::DEEP * FRAGMENT_A * 4, map, pair, lane);
#pragma unroll
    for (int half = 0; half < 2; half++) { /* 16 channels */
        uint32_t q[2][2][2];               /* [pair][row][plane] */
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int plane = 2 * (m + half) + e, k = 2 * e;
            const struct slopes s = load_slopes(back, COUT, 8 * plane + g);
            const uint32_t pooled =
                full ? 0
                     : load_pixels(plane_word(block.grad, COUT, D::OUT_AREA, image, plane, 4 * pair + paired_pixel(g)));
#pragma unroll
            for (int p = 0; p < 2; p++) {
                float(*z)[4] = acc[half][p];
                if (full) {
#pragma unroll
                    for (int r = 0; r < 2; r++)
                        q[p][r][e] = spread(z[r][k], z[r][k + 1],
                                            load_pixels(plane_word(block.grad_full, COUT, D::IN_AREA, image, plane,
                                                                   pair_pixel<D>(pair + p, r, SIZE) + g)),
                                            s);
                } else {
                    struct window_grad w =
                        route(z[0][k], z[0][k + 1], z[1][k], z[1][k + 1], p ? bf16_hi(pooled) : bf16_lo(pooled), s);
                    q[p][0][e] = w.top;
                    q[p][1][e] = w.bottom;
                }
            }
        }
#pragma unroll
        for (int p = 0; p < 2; p++)
            store_matrix_transposed(grads + (2 * (m + half) + (matrix & 1)) * D::PLANE + pair_at<D>(pair + p) +
                                        (1 + (matrix >> 1)) * D::ROW + (n + 1) * 16,
                                    q[p][0][0], q[p][0][1], q[p][1][0], q[p][1][1]);
    }
}

/* The gradient of the input at two pairs of tiles, all channels. */
template <int CIN, int COUT, int SIZE>
DEVICE void deep_input(const struct fast_block &under, const struct block_use &below, size_t image, uint32_t map,
                       uint32_t grads, uint32_t weights, int pair, float (*d)[4], int lane)
{
    typedef struct deep<CIN, COUT, SIZE> D;
    const int g = lane >> 2, matrix = lane >> 3, n = lane & 7;
    float acc[D::DEEP][2][2][4];
    deep_product<D, D::DEEP, D::HIGH, true>(acc, weights, grads, pair, lane);
#pragma unroll
    for (int m = 0; m < D::DEEP; m++)
#pragma unroll
        for (int p = 0; p < 2; p++) {
            uint32_t h[4]; /* activations: [row][plane] */
            load_matrix_transposed(h, map + (2 * m + (matrix & 1)) * D::PLANE + pair_at<D>(pair + p) +
                                          (1 + (matrix >> 1)) * D::ROW + (n + 1) * 16);
#pragma unroll
            for (int e = 0; e < 2; e++) {
                uint32_t y[2], z[2];
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    const int pixel = pair_pixel<D>(pair + p, r, SIZE) + g;
                    y[r] = pack_bf16(acc[m][p][r][2 * e], acc[m][p][r][2 * e + 1]);
                    if (below.keep_grad)
                        store_pixels(plane_word(under.grad_out, CIN, D::IN_AREA, image, 2 * m + e, pixel), y[r]);
                    y[r] &= positive_mask(h[2 * r + e]);
                    z[r] = 0;
                    if (!below.blended) {
                        store_pixels(plane_word(under.grad, CIN, D::IN_AREA, image, 2 * m + e, pixel), y[r]);
                        z[r] = load_pixels(plane_word(under.pooled, CIN, D::IN_AREA, image, 2 * m + e, pixel));
                    }
                }
                const uint32_t ones[4] = {z[0], TWO_ONES, z[1], TWO_ONES};
                mma_bf16(d[2 * m + e], ones, y[0], y[1]);
            }
        }
}

/* An image's share of the weight gradient of 16 output and 8 input channels; taps first .. first + TAPS - 1. */
template <class D, int TAPS> DEVICE void deep_weights(uint32_t grads, uint32_t map, int first, float (*dw)[4], int lane)
{
    const int matrix = lane >> 3, n = lane & 7;
    const uint32_t couts = grads + (matrix & 1) * D::PLANE + (1 + (matrix >> 1)) * D::ROW + (n + 1) * 16,
                   cins = map + (matrix & 1) * D::ROW + (n + (matrix >> 1)) * 16; /* two rows of two columns */
#pragma unroll 1
    for (int pair = 0; pair < D::PAIRS; pair++) {
        uint32_t a[4], b[4];
        load_matrix_transposed(a, couts + pair_at<D>(pair));
#pragma unroll
        for (int i = 0; i < TAPS; i++) {
            const int tap = first + i < 9 ? first + i : 8;
            load_matrix_transposed(b, cins + pair_at<D>(pair) + tap / 3 * D::ROW + tap % 3 * 16);
            mma_bf16(dw[i], a, b[0], b[1]);
        }
    }
}

template <int CIN, int COUT, int SIZE>
KERNEL void __launch_bounds__(FAST_THREADS, (deep<CIN, COUT, SIZE>::RESIDENT))
    backward_deep(const __grid_constant__ struct fast_host host, int index)
{
    SHARED_BYTES(shared);
    typedef struct deep<CIN, COUT, SIZE> D;
    typedef struct deep_backward<CIN, COUT, SIZE> area;
    enum { ROUND = D::ROUND, GROUPS = D::PAIRS / 2 };
    const uint32_t base = smem(shared);
    const int env = (int)blockIdx.y, warp = (int)threadIdx.x >> 5, lane = (int)threadIdx.x & 31;
    const struct fast_block &block = host.block[index], &under = host.block[index - 1];
    const uint32_t *fragments = host.fragments + (size_t)env * host.fragment_size;
    clear_shared(base + area::MAPS, ROUND * (D::MAP + D::GRAD_MAP), (int)threadIdx.x, FAST_THREADS);
    share_fragments<D::WEIGHTS / 4>(base + area::FORWARD, fragments + block.forward_frag);
    share_fragments<D::WEIGHTS / 4>(base + area::WEIGHTS, fragments + block.back_frag);
    device_wait();
    const struct block_use below = block_use_of(host, env, index - 1);
    const bool full = block_use_of(host, env, index).full;
    const uint4 *input = below.blended ? under.act : under.pooled;
    share_norm(host, index - 1, env, base + area::NORM, false);
    share_back(host, index, env, base + area::BACK, CIN);
    __syncthreads();

    for (struct walk walk = walk_start(host, 1, 1, 0); walk.chunk < walk.end; walk.chunk++) {
        float dw[area::EACH][area::TAPS][4], d[CIN / 8][4];
#pragma unroll
        for (int e = 0; e < CIN / 8; e++)
            clear4(d[e]);
#pragma unroll
        for (int i = 0; i < area::EACH * area::TAPS; i++)
            clear4(dw[i / area::TAPS][i % area::TAPS]);
        const int limit = walk_limit(walk);
        for (int first = walk_first(walk); first < limit; first += ROUND) {
            const int images = min((int)ROUND, limit - first);
            for (int i = 0; i < images; i++)
                deep_activate<CIN, COUT, SIZE>(base + area::MAPS + i * D::MAP,
                                               plane_at(input, CIN, D::IN_AREA, image_at(host, env, first + i), 0, 0),
                                               base + area::NORM, below.blended, (int)threadIdx.x, FAST_THREADS);
            __syncthreads();
#pragma unroll 1
            for (int item = warp; item < images * GROUPS * D::HIGH / 2; item += FAST_WARPS) {
                const int i = item / (GROUPS * D::HIGH / 2), part = item % (GROUPS * D::HIGH / 2);
                deep_gradient<CIN, COUT, SIZE>(block, image_at(host, env, first + i), full,
                                               base + area::MAPS + i * D::MAP, base + area::GRADS + i * D::GRAD_MAP,
                                               base + area::FORWARD, base + area::BACK, part / GROUPS * 2,
                                               part % GROUPS * 2, lane);
            }
            __syncthreads();
#pragma unroll 1
            for (int item = warp; item < images * GROUPS; item += FAST_WARPS)
                deep_input<CIN, COUT, SIZE>(under, below, image_at(host, env, first + item / GROUPS),
                                            base + area::MAPS + item / GROUPS * D::MAP,
                                            base + area::GRADS + item / GROUPS * D::GRAD_MAP, base + area::WEIGHTS,
                                            item % GROUPS * 2, d, lane);
#pragma unroll
            for (int k = 0; k < area::EACH; k++) {
                const int item = (k * FAST_WARPS + warp) / area::SPLIT, half = (k * FAST_WARPS + warp) % area::SPLIT;
                for (int i = 0; i < images; i++)
                    deep_weights<D, area::TAPS>(base + area::GRADS + i * D::GRAD_MAP + item / (CIN / 8) * 2 * D::PLANE,
                                                base + area::MAPS + i * D::MAP + item % (CIN / 8) * D::PLANE,
                                                half * area::TAPS, dw[k], lane);
            }
            __syncthreads();
        }
        if (walk.chunk + 1 == walk.end)
            device_release();
        if (!below.blended) {
            uint32_t at = base + area::SUMS + (walk.chunk & 1) * area::ONE;
#pragma unroll
            for (int e = 0; e < CIN / 8; e++)
                share_back_sums(at + warp * 2 * CIN * 4, CIN, 8 * e, d[e], lane);
            add_warps<2 * CIN>(at, back_row(host, index - 1, env, walk.chunk));
        }
        float *out = part_of(host, index, env, walk.chunk) + lane;
#pragma unroll
        for (int k = 0; k < area::EACH; k++) {
            const int item = (k * FAST_WARPS + warp) / area::SPLIT, half = (k * FAST_WARPS + warp) % area::SPLIT;
#pragma unroll
            for (int i = 0; i < area::TAPS; i++)
                if (half * area::TAPS + i < 9)
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        out[((item * 9 + half * area::TAPS + i) * 4 + e) * 32] = dw[k][i][e];
        }
    }
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

#define DEEP_FORMS(FORM) FORM(16, 32, 16) FORM(32, 64, 8)

void fast_deep_prepare(struct runtime *rt)
{
#define FORM(cin, cout, size)                                                                                          \
    runtime_allow_shared(rt, forward_deep<cin, cout, size>, deep_forward<cin, cout, size>::BYTES);                     \
    runtime_allow_shared(rt, backward_deep<cin, cout, size>, deep_backward<cin, cout, size>::BYTES);
    DEEP_FORMS(FORM)
#undef FORM
}

bool fast_deep_fits(int cin, int cout, int size)
{
#define FORM(a, b, c)                                                                                                  \
    if (cin == a && cout == b && size == c)                                                                            \
        return true;
    DEEP_FORMS(FORM)
#undef FORM
    return false;
}

void fast_deep_forward(struct net_device *net, int block)
{
    const struct fast_block &b = net->host.block[block];
    struct launch shape = fast_launch(net, 2);
#define FORM(cin_, cout_, size_)                                                                                       \
    if (b.cin == cin_ && b.cout == cout_ && b.size == size_) {                                                         \
        shape.shared = deep_forward<cin_, cout_, size_>::BYTES;                                                        \
        runtime_launch(net->context->runtime, forward_deep<cin_, cout_, size_>, shape, net->host, block);              \
    }
    DEEP_FORMS(FORM)
#undef FORM
}

void fast_deep_backward(struct net_device *net, int block)
{
    const struct fast_block &b = net->host.block[block];
#define FORM(cin_, cout_, size_)                                                                                       \
    if (b.cin == cin_ && b.cout == cout_ && b.size == size_) {                                                         \
        struct launch shape = fast_launch(net, deep<cin_, cout_, size_>::RESIDENT);                                    \
        shape.shared = deep_backward<cin_, cout_, size_>::BYTES;                                                       \
        runtime_launch(net->context->runtime, backward_deep<cin_, cout_, size_>, shape, net->host, block);             \
    }
    DEEP_FORMS(FORM)
#undef FORM
}
