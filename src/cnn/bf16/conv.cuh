/*
 * 3 x 3 convolutions on tensor cores, a warp at a time, and the memory layout of their operands.
 *
 * In shared memory an image is planes with a border of zeros, 16 bytes per pixel: a tap of the kernel is a shift by 16
 * bytes, and eight pixels of a row are the rows of an 8 x 8 matrix, so that a plain ldmatrix gathers the operands
 * without bank conflicts. Output channels are the rows of the product and pixels its columns: a lane (4 g + t) holds
 * pixels 2t and 2t + 1 of channel g, which with the same pixels of the next row are one pool window.
 *
 * Three kinds of convolution, by input channels:
 *   first   3 (as 4): a pixel's 16 bytes are two rows, four channels each; the product's 16 rows are eight output
 *           channels in two rows of the map, so that K = 4 rows x 3 columns x 4 channels = 48 wastes only the border
 *   eight   8: K = 16 takes two taps at a time
 *   wide    16: K = 16 is one tap
 */
#ifndef CNN_BF16_CONV_CUH
#define CNN_BF16_CONV_CUH

#include "cnn/bf16/host.cuh"

/* ---- operands of weights ----------------------------------------------------------------------------------------- */

/* Position of element (row, k) of A (m16n8k16) in a fragment [lane][8], and of (k, column) of B in [lane][4]; in
 * halves. */
DEVICE int fragment_a(int row, int k)
{
    return ((row & 7) * 4 + ((k & 7) >> 1)) * 8 + ((k >> 3) * 2 + (row >> 3)) * 2 + (k & 1);
}

DEVICE int fragment_b(int k, int column)
{
    return (column * 4 + ((k & 7) >> 1)) * 4 + (k >> 3) * 2 + (k & 1);
}

enum { FRAGMENT_A = 128, FRAGMENT_B = 64 }; /* words of a fragment */

/* The words of a block's fragments: forward, and for the gradient of its input. */
static inline uint32_t forward_words(int cin, int cout)
{
    return (uint32_t)(cin < 8 ? cout / 8 * 3 : cin == 8 ? cout / 16 * 6 : cout / 16 * 9) * FRAGMENT_A;
}

static inline uint32_t back_words(int cin, int cout)
{
    return cin < 8 ? 0 : (uint32_t)(cout / 16 * 9) * (cin == 8 ? FRAGMENT_B : FRAGMENT_A);
}

/* The floats of a chunk's weight gradient: tiles of 16 x 8, [tile][4][lane]. */
static inline uint32_t part_floats(int cin, int cout)
{
    return (uint32_t)(cin < 8 ? cout / 8 * 6 : cout / 16 * 9 * (cin / 8)) * 128;
}

/* The first convolution's operand and index in K for input row `row` (0 to 3 around two output rows) and column kx. */
DEVICE int first_operand(int row, int kx)
{
    return kx < 2 ? row >> 1 : 2;
}

DEVICE int first_k(int row, int kx, int ci)
{
    return kx < 2 ? kx * 8 + (row & 1) * 4 + ci : row * 4 + ci;
}

/* Store weight (co, ky, kx, ci), as bf16 bits, everywhere the kernels read it. */
DEVICE void place_weight(const struct fast_block &block, uint32_t *env_fragments, int co, int ky, int kx, int ci,
                         uint16_t bits)
{
    uint16_t *forward = reinterpret_cast<uint16_t *>(env_fragments + block.forward_frag);
    uint16_t *back = reinterpret_cast<uint16_t *>(env_fragments + block.back_frag);
    const int a = 2 * FRAGMENT_A, b = 2 * FRAGMENT_B, tap = 3 * ky + kx;
    if (block.cin < 8) {
        forward += co / 8 * 3 * a;
        for (int e = 0; e < 2; e++)
            forward[first_operand(ky + e, kx) * a + fragment_a(co % 8 + 8 * e, first_k(ky + e, kx, ci))] = bits;
    } else if (block.cin == 8) {
        forward += co / 16 * 6 * a;
        const int row = co % 16;
        if (kx < 2)
            forward[ky * a + fragment_a(row, kx * 8 + ci)] = bits;
        else { /* the third column in pairs of rows, once for each output row of a pair; the remainder has K = 8 */
            if (ky < 2)
                forward[3 * a + fragment_a(row, ky * 8 + ci)] = bits;
            if (ky > 0)
                forward[4 * a + fragment_a(row, (ky - 1) * 8 + ci)] = bits;
            if (ky != 1)
                forward[5 * a + fragment_a(row, (ky == 0 ? 8 : 0) + ci)] = bits;
        }
        back[(co / 16 * 9 + tap) * b + fragment_b(row, ci)] = bits;
    } else {
        const int high = block.cout / 16;
        forward[(co / 16 * 9 + tap) * a + fragment_a(co % 16, ci)] = bits;
        back[((kx * high + co / 16) * 3 + ky) * a + fragment_a(ci, co % 16)] = bits;
    }
}

/* Position of the gradient of weight (co, ky, kx, ci) in a chunk's part of the first convolution, which holds it twice:
 * for even rows of the map and for odd ones. */
DEVICE int first_part_place(int co, int ky, int kx, int ci, int odd)
{
    const int k = first_k(ky + odd, kx, ci), tile = (co / 8 * 2 + odd) * 3 + first_operand(ky + odd, kx);
    return (tile * 4 + (k >> 3) * 2 + (co & 1)) * 32 + (k & 7) * 4 + (co % 8 >> 1);
}

/* The weight whose gradient is at `place` in a chunk's part of another convolution: its index in the tensor. */
DEVICE int part_weight(const struct fast_block &block, int place)
{
    const int lane = place & 31, e = place >> 5 & 3, tap = (place >> 7) % 9, group = (place >> 7) / 9;
    const int co = group / (block.cin / 8) * 16 + (e >> 1) * 8 + (lane >> 2);
    const int ci = group % (block.cin / 8) * 8 + (lane & 3) * 2 + (e & 1);
    return (co * 9 + tap) * block.cin + ci;
}

/* ---- small pieces ------------------------------------------------------------------------------------------------ */

DEVICE void load_words(uint32_t r[4], const uint32_t *at)
{
    uint4 v = __ldcg(reinterpret_cast<const uint4 *>(at));
    r[0] = v.x;
    r[1] = v.y;
    r[2] = v.z;
    r[3] = v.w;
}

/* COUNT fragments of A for this lane. */
template <int COUNT> DEVICE void load_fragments(uint32_t (*a)[4], const uint32_t *fragments)
{
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        load_words(a[i], fragments + (i * 32 + (threadIdx.x & 31)) * 4);
}

DEVICE void clear4(float d[4])
{
    d[0] = d[1] = d[2] = d[3] = 0;
}

/* Clears `bytes` of shared memory; a multiple of 16. */
DEVICE void clear_shared(uint32_t at, int bytes, int thread, int threads)
{
    for (int i = thread * 16; i < bytes; i += threads * 16)
        store_shared_128(at + i, 0, 0, 0, 0);
}

/*
 * Two pixels of channel g in each lane <-> the planes: `at` is the lane's word there, channels 2t and 2t + 1 of the
 * pixel that is g-th in the order (2t of lane 0, 2t + 1 of lane 0, 2t of lane 1, ...).
 */
DEVICE void store_pixels(uint32_t *at, uint32_t pair)
{
    *at = transpose_matrix(pair);
}

DEVICE uint32_t *plane_word(uint4 *planes, int channels, int pixels, size_t image, int plane, int pixel)
{
    return reinterpret_cast<uint32_t *>(plane_at(planes, channels, pixels, image, plane, pixel)) + (threadIdx.x & 3);
}

/* The pixel that comes g-th when lanes hold pixel t of one tile of four and pixel t of the next. */
DEVICE int paired_pixel(int g)
{
    return 4 * (g & 1) + (g >> 1);
}

/* The affine map of eight channels. */
struct affine8 {
    uint32_t scale[8], shift[8]; /* floats */
};

DEVICE void load_affine(struct affine8 &affine, uint32_t scale_at, uint32_t shift_at)
{
    load_shared_128(affine.scale, scale_at);
    load_shared_128(affine.scale + 4, scale_at + 16);
    load_shared_128(affine.shift, shift_at);
    load_shared_128(affine.shift + 4, shift_at + 16);
}

/* relu(x * scale + shift) of eight channels of a pixel. */
DEVICE void activate(uint32_t v[4], const struct affine8 &affine)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        v[i] = pack_bf16_relu(
            fmaf(bf16_lo(v[i]), __uint_as_float(affine.scale[2 * i]), __uint_as_float(affine.shift[2 * i])),
            fmaf(bf16_hi(v[i]), __uint_as_float(affine.scale[2 * i + 1]), __uint_as_float(affine.shift[2 * i + 1])));
}

/* Each lane fetches only what it will read back itself: no barrier is needed. */
template <int COUNT> DEVICE void fetch(uint32_t stage, const uint4 *from, int lane)
{
#pragma unroll
    for (int k = 0; k < COUNT; k++)
        copy_async(stage + (k * 32 + lane) * 16, from + k * 32 + lane);
    copy_commit();
}

/* Sum over the lanes of a quad. */
DEVICE float quad_sum(float v)
{
    v += exchange(v, 1);
    return v + exchange(v, 2);
}

/* ---- tasks of a warp --------------------------------------------------------------------------------------------- */

/* The chunks of this thread block, and a warp's tasks in them: `per_chunk` tasks in each, `total` in the batch. */
struct walk {
    int chunk, end; /* the current one, and the end */
    int per_chunk, total, step, first;
};

DEVICE struct walk walk_start(const struct fast_host &host, int tasks_per_image, int step, int first)
{
    const int each = (host.chunks + (int)gridDim.x - 1) / (int)gridDim.x;
    struct walk walk;
    walk.chunk = (int)blockIdx.x * each;
    walk.end = min(walk.chunk + each, host.chunks);
    walk.per_chunk = host.chunk_images * tasks_per_image;
    walk.total = host.batch * tasks_per_image;
    walk.step = step;
    walk.first = first;
    return walk;
}

DEVICE int walk_limit(const struct walk &walk)
{
    return min((walk.chunk + 1) * walk.per_chunk, walk.total);
}

/* First task of the current chunk; at or beyond walk_limit if it has none. */
DEVICE int walk_first(const struct walk &walk)
{
    return walk.chunk * walk.per_chunk + walk.first;
}

/* The task after `task`, which may be in the next chunk; -1 if there is none. */
DEVICE int walk_ahead(const struct walk &walk, int task)
{
    int next = task + walk.step;
    if (next >= walk_limit(walk)) {
        next = (walk.chunk + 1) * walk.per_chunk + walk.first;
        if (walk.chunk + 1 >= walk.end || next >= walk.total)
            next = -1;
    }
    return next;
}

/* ---- BatchNorm's coefficients in shared memory ------------------------------------------------------------------- */

/*
 * Writes scale[channel], shift[channel] of block i to `at`, by the first `cout` threads; where `running`, the running
 * statistics advance and both are kept for the leaf jobs. The caller synchronises.
 */
DEVICE void share_norm(const struct fast_host &host, int i, int env, uint32_t at, bool running)
{
    const int channel = (int)threadIdx.x, channels = host.block[i].cout;
    if (channel >= channels)
        return;
    struct channel_norm norm = block_norm(host, i, env, channel);
    store_shared_float(at + channel * 4, norm.scale);
    store_shared_float(at + (channels + channel) * 4, norm.shift);
    if (running) {
        float *kept = host.block[i].norm + (size_t)env * 2 * channels;
        kept[channel] = norm.scale;
        kept[channels + channel] = norm.shift;
        block_running(host, i, env, channel, norm);
    }
}

/* Writes gain, slope, offset [3][channel] of block i to `at`, by threads from `thread0` on. */
DEVICE void share_back(const struct fast_host &host, int i, int env, uint32_t at, int thread0)
{
    const int channel = (int)threadIdx.x - thread0, channels = host.block[i].cout;
    if (channel < 0 || channel >= channels)
        return;
    struct channel_norm norm = block_norm(host, i, env, channel);
    struct channel_back back = block_back(host, i, env, channel, norm);
    store_shared_float(at + channel * 4, back.gain);
    store_shared_float(at + (channels + channel) * 4, back.slope);
    store_shared_float(at + (2 * channels + channel) * 4, back.offset);
}

/*
 * Sums of a chunk: VALUES floats of every warp at `at` [warp][VALUES] go to `out`, warps in order. `at` alternates
 * between two addresses from chunk to chunk, so one barrier is enough.
 */
template <int VALUES> DEVICE void add_warps(uint32_t at, float *out)
{
    static_assert(VALUES <= FAST_THREADS, "a thread each");
    __syncthreads();
    if ((int)threadIdx.x < VALUES) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < FAST_WARPS; w++)
            sum += load_shared_float(at + (w * VALUES + (int)threadIdx.x) * 4);
        out[threadIdx.x] = sum;
    }
}

/* Four raw values of a channel: two rows of two pixels. Adds them to the sums and returns the largest. */
DEVICE float window(float z0, float z1, float z2, float z3, float &sum, float &square)
{
    sum += (z0 + z1) + (z2 + z3);
    square = fmaf(z0, z0, square);
    square = fmaf(z1, z1, square);
    square = fmaf(z2, z2, square);
    square = fmaf(z3, z3, square);
    return fmaxf(fmaxf(z0, z1), fmaxf(z2, z3));
}

/* The sums of channels 8 e + g, over a quad, to this warp's row [2][COUT] at `at`. */
template <int COUT> DEVICE void share_sums(uint32_t at, const float *sum, const float *square, int lane)
{
#pragma unroll
    for (int e = 0; e < COUT / 8; e++) {
        float s = quad_sum(sum[e]), q = quad_sum(square[e]);
        if ((lane & 3) == 0) {
            store_shared_float(at + (8 * e + (lane >> 2)) * 4, s);
            store_shared_float(at + (COUT + 8 * e + (lane >> 2)) * 4, q);
        }
    }
}

/* WORDS of fragments to shared memory. */
template <int WORDS> DEVICE void share_fragments(uint32_t at, const uint32_t *from)
{
#pragma unroll
    for (int i = 0; i < WORDS / 4; i += FAST_THREADS) {
        const int k = i + (int)threadIdx.x;
        if (k < WORDS / 4) {
            uint32_t v[4];
            load_words(v, from + 4 * k);
            store_shared_128(at + 16 * k, v[0], v[1], v[2], v[3]);
        }
    }
}

/* ---- the first convolution --------------------------------------------------------------------------------------- */

enum {
    FIRST_SIZE = 32,
    FIRST_PAIR = (FIRST_SIZE + 2) * 16, /* bytes of two input rows */
    FIRST_STRIP = 9 * FIRST_PAIR        /* 18 input rows around 16 rows of the map: half an image, a warp's task */
};

/* The strip's rows, in pairs; rows outside the image are not touched: they stay zero. */
DEVICE void first_fetch(uint32_t strip, const uint2 *image, int half, int lane)
{
    const uint2 *from = image + (16 * half - 1) * FIRST_SIZE + lane;
    const uint32_t to = strip + (lane + 1) * 16;
    if (half)
        copy_async_8(to, from);
#pragma unroll
    for (int r = 1; r < 17; r++)
        copy_async_8(to + (r >> 1) * FIRST_PAIR + (r & 1) * 8, from + r * FIRST_SIZE);
    if (!half)
        copy_async_8(to + 8 * FIRST_PAIR + 8, from + 17 * FIRST_SIZE);
    copy_commit();
}

/* Lane addresses: columns kx 0 and 1 of two tiles of eight pixels; column kx 2 of a pair of rows and the next. */
DEVICE uint32_t first_columns(int lane)
{
    const int matrix = lane >> 3, n = lane & 7;
    return (8 * (matrix >> 1) + n + (matrix & 1)) * 16;
}

DEVICE uint32_t first_third(int lane)
{
    const int matrix = lane >> 3, n = lane & 7;
    return (matrix & 1) * FIRST_PAIR + (8 * (matrix >> 1) + n + 2) * 16;
}

/* Two output rows of 32 pixels: acc[tile] = (row 0, row 1) x two pixels of channel g. x: input rows in pairs. */
DEVICE void first_rows(float (*acc)[4], const uint32_t (*a)[4], const uint32_t (*x0)[4], const uint32_t (*x1)[4],
                       const uint32_t (*third)[4])
{
#pragma unroll
    for (int j = 0; j < 4; j++) {
        clear4(acc[j]);
        mma_bf16(acc[j], a[0], x0[j >> 1][2 * (j & 1)], x0[j >> 1][2 * (j & 1) + 1]);
    }
#pragma unroll
    for (int j = 0; j < 4; j++)
        mma_bf16(acc[j], a[1], x1[j >> 1][2 * (j & 1)], x1[j >> 1][2 * (j & 1) + 1]);
#pragma unroll
    for (int j = 0; j < 4; j++)
        mma_bf16(acc[j], a[2], third[j >> 1][2 * (j & 1)], third[j >> 1][2 * (j & 1) + 1]);
}

/* ---- eight input channels, maps of 16 x 16 ----------------------------------------------------------------------- */

enum { EIGHT_ROW = 18 * 16, EIGHT_MAP = 18 * EIGHT_ROW };

/* Lane addresses in the map, for pixels x channels operands (`turned`: channels x pixels): columns 0 and 1 of both
 * halves of a row; column 2 of a row and the next. */
DEVICE uint32_t eight_columns(int lane, bool turned)
{
    const int matrix = lane >> 3, n = lane & 7, half = turned ? matrix & 1 : matrix >> 1,
              column = turned ? matrix >> 1 : matrix & 1;
    return (8 * half + n + column) * 16;
}

DEVICE uint32_t eight_third(int lane, bool turned)
{
    const int matrix = lane >> 3, n = lane & 7, half = turned ? matrix & 1 : matrix >> 1,
              row = turned ? matrix >> 1 : matrix & 1;
    return row * EIGHT_ROW + (8 * half + n + 2) * 16;
}

/* Two output rows: acc[row][half]. x: input rows 0 to 3, third: rows 0 and 1, rows 2 and 3. */
DEVICE void eight_rows(float (*acc)[2][4], const uint32_t (*a)[4], const uint32_t *x0, const uint32_t *x1,
                       const uint32_t *x2, const uint32_t *x3, const uint32_t *third0, const uint32_t *third1)
{
    const uint32_t *x[4] = {x0, x1, x2, x3};
#pragma unroll
    for (int ky = 0; ky < 3; ky++)
#pragma unroll
        for (int row = 0; row < 2; row++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                if (ky == 0)
                    clear4(acc[row][half]);
                mma_bf16(acc[row][half], a[ky], x[row + ky][2 * half], x[row + ky][2 * half + 1]);
            }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        mma_bf16(acc[0][half], a[3], third0[2 * half], third0[2 * half + 1]);
        mma_bf16(acc[1][half], a[4], third1[2 * half], third1[2 * half + 1]);
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        mma_bf16_k8(acc[0][half], a[5][0], a[5][1], third1[2 * half]);
        mma_bf16_k8(acc[1][half], a[5][2], a[5][3], third0[2 * half + 1]);
    }
}

/* ---- sixteen input channels, maps of 8 x 8 ----------------------------------------------------------------------- */

enum { WIDE_ROW = 10 * 16, WIDE_PLANE = 10 * WIDE_ROW, WIDE_MAP = 2 * WIDE_PLANE };

/* Lane addresses: columns 0 and 1 of both planes of a row; column 2 of both planes of a row and the next. */
DEVICE uint32_t wide_columns(int lane)
{
    const int matrix = lane >> 3, n = lane & 7;
    return ((matrix >> 1) + n) * 16 + (matrix & 1) * WIDE_PLANE;
}

DEVICE uint32_t wide_third(int lane)
{
    const int matrix = lane >> 3, n = lane & 7;
    return (matrix >> 1) * WIDE_ROW + (2 + n) * 16 + (matrix & 1) * WIDE_PLANE;
}

/* Operands of two input rows: x[row][column][plane]. */
DEVICE void wide_load(uint32_t (*x)[3][2], uint32_t columns, uint32_t third)
{
    uint32_t r[4];
#pragma unroll
    for (int row = 0; row < 2; row++) {
        load_matrix(r, columns + row * WIDE_ROW);
        x[row][0][0] = r[0];
        x[row][0][1] = r[1];
        x[row][1][0] = r[2];
        x[row][1][1] = r[3];
    }
    load_matrix(r, third);
    x[0][2][0] = r[0];
    x[0][2][1] = r[1];
    x[1][2][0] = r[2];
    x[1][2][1] = r[3];
}

/* From 2 KB of planes fetched by this warp to the map: activated, or unchanged if they already are. */
DEVICE void wide_activate(uint32_t map, uint32_t stage, uint32_t norm, bool ready, int lane)
{
#pragma unroll
    for (int plane = 0; plane < 2; plane++) {
        struct affine8 affine;
        load_affine(affine, norm + plane * 32, norm + 64 + plane * 32);
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const int pixel = 32 * k + lane;
            uint32_t v[4];
            load_shared_128(v, stage + (plane * 64 + pixel) * 16);
            if (!ready)
                activate(v, affine);
            store_shared_128(map + plane * WIDE_PLANE + (pixel / 8 + 1) * WIDE_ROW + (pixel % 8 + 1) * 16, v[0], v[1],
                             v[2], v[3]);
        }
    }
}

#endif
