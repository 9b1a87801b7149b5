/*
 * Convolutions of one image by one thread block on the tensor cores: stride 1, zero padding, maps of octets.
 *
 * The map is copied to shared memory with a frame of zeros, a strip of rows at a time, in planes of 16 bytes per
 * pixel: of the operand with 16 pixels and 16 (tap, channel) pairs, eight rows of 16 bytes lie side by side wherever
 * the tap shifts them. The other operand, the weights, is stored as lanes hold it (octet_weight). A sum takes its
 * terms tap by tap, 16 channels at a time, whatever shares the work.
 */
#ifndef NN_OCTET_CONV_CUH
#define NN_OCTET_CONV_CUH

#include "nn/block.cuh"

enum { OCTET_WARPS = BLOCK_THREADS / 32, OCTET_STRIP = 40 * 1024, OCTET_SLICES = 9 * NORM_MAX_CHANNELS / 8 + 1 };

/* A slice is eight channels of a tap: s = tap * planes + plane. Two of them are a step of a product. */
ESPER_RULE int octet_steps(int kernel, int planes)
{
    return (kernel * kernel * planes + 1) / 2;
}

/* Words of a weight as an operand: [two steps][plane of the result][lane][step][2]. */
ESPER_RULE uint32_t octet_weight_words(int kernel, int in, int out)
{
    return (uint32_t)((octet_steps(kernel, in) + 1) / 2 * out * 128);
}

/* Rows of a map that are in shared memory at a time, and the bytes that they take. */
ESPER_RULE int octet_rows(int height, int width, int kernel, int planes)
{
    const int frame = kernel / 2 * 2, row = (width + frame) * planes * 16, rows = OCTET_STRIP / row - frame;
    return rows < 1 ? 1 : rows < height ? rows : height;
}
ESPER_RULE uint32_t octet_bytes(int height, int width, int kernel, int planes)
{
    const int frame = kernel / 2 * 2;
    return (uint32_t)((octet_rows(height, width, kernel, planes) + frame) * (width + frame) * planes * 16);
}

/* out = add + in * weight; the gradient of an input is the same with other weights. Planes, not channels. */
struct octet_convolution {
    int height, width, kernel, in, out;
    const struct octet *from;
    const uint4 *weight;
    const struct octet *add; /* or NULL */
    struct octet *to;
    const float *centre; /* where moments are asked for: of so many channels; and where they are, in shared memory */
    int channels;
    uint32_t moments;
};

/* Moments about the centre of what a convolution stores, each warp's own: [warp][stored channel][2]. */
ESPER_RULE uint32_t octet_moments_bytes(int out)
{
    return (uint32_t)(OCTET_WARPS * 8 * out * 2) * (uint32_t)sizeof(float);
}
DEVICE uint32_t octet_moment(const struct octet_convolution &job, int warp, int channel)
{
    return job.moments + (uint32_t)(4 * 2 * (warp * 8 * job.out + channel));
}

/* A lane's part of them, for two channels of each of NT planes. */
template <int NT> struct octet_tally {
    float centre[NT][2], sum[NT][2], square[NT][2];
    int plane; /* the first; -1: none yet */

    __device__ __forceinline__ void begin(const struct octet_convolution &job, int first)
    {
        plane = first;
#pragma unroll
        for (int k = 0; k < 2 * NT; k++) {
            const int c = 8 * (first + k / 2) + 2 * ((int)threadIdx.x & 3) + k % 2;
            centre[k / 2][k % 2] = c < job.channels ? job.centre[c] : 0;
            sum[k / 2][k % 2] = square[k / 2][k % 2] = 0;
        }
    }
    /* Zero where there is no pixel: sums begin at zero, which that changes to nothing else. */
    __device__ __forceinline__ void take(int n, uint32_t pair, bool there)
    {
        const float x[2] = {there ? bf16_lo(pair) - centre[n][0] : 0, there ? bf16_hi(pair) - centre[n][1] : 0};
#pragma unroll
        for (int k = 0; k < 2; k++) {
            sum[n][k] += x[k];
            square[n][k] = fmaf(x[k], x[k], square[n][k]);
        }
    }
    /* The warp's pixels, added up in pairs of lanes, to what it has already. */
    __device__ __forceinline__ void end(const struct octet_convolution &job) const
    {
        const int lane = (int)threadIdx.x % 32;
#pragma unroll
        for (int k = 0; k < 2 * NT; k++) {
            float one = sum[k / 2][k % 2], two = square[k / 2][k % 2];
#pragma unroll
            for (int mask = 4; mask < 32; mask *= 2) {
                one += exchange(one, mask);
                two += exchange(two, mask);
            }
            const uint32_t at = octet_moment(job, (int)threadIdx.x / 32, 8 * (plane + k / 2) + 2 * lane + k % 2);
            if (lane < 4) {
                store_shared_float(at, load_shared_float(at) + one);
                store_shared_float(at + 4, load_shared_float(at + 4) + two);
            }
        }
    }
};

/* Where the slices of a pixel are, relative to the first tap's in the first plane: the first or second ones of every
 * two steps. */
DEVICE uint2 *octet_slices(int half)
{
    __shared__ uint2 slices[2][(OCTET_SLICES + 3) / 4];
    return slices[half];
}

/* A strip in shared memory. */
struct octet_strip {
    uint32_t at;
    int first, rows; /* of the result */
    int pitch, tall; /* framed: pixels of a row, rows of a plane */
};

/* put(place in the strip, index in the map or -1) for every pixel of `planes` framed planes. */
template <class Put>
DEVICE void each_framed(int height, int width, int reach, int planes, const struct octet_strip &strip, Put put)
{
    /* How column, row and plane go on from one of a thread's pixels to the next: no divisions on the way. */
    const int lines = BLOCK_THREADS / strip.pitch, step_x = BLOCK_THREADS % strip.pitch;
    const int step_y = lines % strip.tall, step_plane = lines / strip.tall, line = (int)threadIdx.x / strip.pitch;
    int x = (int)threadIdx.x % strip.pitch, y = line % strip.tall, plane = line / strip.tall;
    for (int place = (int)threadIdx.x; place < planes * strip.tall * strip.pitch; place += BLOCK_THREADS) {
        const int row = strip.first + y - reach, column = x - reach;
        const bool inside = row >= 0 && row < height && column >= 0 && column < width;
        put(place, inside ? (plane * height + row) * width + column : -1);
        x += step_x;
        y += step_y;
        plane += step_plane;
        if (x >= strip.pitch) {
            x -= strip.pitch;
            y++;
        }
        if (y >= strip.tall) {
            y -= strip.tall;
            plane++;
        }
    }
}

/* Products of two steps, or of the first of them. */
template <int STEPS, int MT, int NT>
DEVICE void octet_products(float sum[MT][NT][4], const uint32_t at[MT], const uint2 &slice, const uint4 weight[NT])
{
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        uint32_t a[MT][4];
#pragma unroll
        for (int m = 0; m < MT; m++)
            load_matrix(a[m], at[m] + (step ? slice.y : slice.x));
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int n = 0; n < NT; n++)
                mma_bf16(sum[m][n], a[m], step ? weight[n].z : weight[n].x, step ? weight[n].w : weight[n].y);
    }
}

/* All terms of a unit's sums. Weights come from far: those of the next two steps are on their way. */
template <int MT, int NT>
DEVICE void octet_unit_sums(const struct octet_convolution &job, int plane, const uint32_t at[MT], float sum[MT][NT][4])
{
    const int lane = (int)threadIdx.x % 32, steps = octet_steps(job.kernel, job.in), stride = 32 * job.out;
    const uint2 *slices = octet_slices(lane >> 4);
    const uint4 *from = job.weight + plane * 32 + lane;
    uint4 next[NT];
#pragma unroll
    for (int n = 0; n < NT; n++)
        next[n] = load_global_128(from + 32 * n);
#pragma unroll 2
    for (int k = 0; k + 1 < steps; k += 2) {
        uint4 weight[NT];
#pragma unroll
        for (int n = 0; n < NT; n++)
            weight[n] = next[n];
        from += k + 2 < steps ? stride : 0;
#pragma unroll
        for (int n = 0; n < NT; n++)
            next[n] = load_global_128(from + 32 * n);
        octet_products<2, MT, NT>(sum, at, slices[k / 2], weight);
    }
    if (steps % 2)
        octet_products<1, MT, NT>(sum, at, slices[steps / 2], next);
}

/* A unit of 16 MT pixels and NT planes of the result per warp. */
template <bool MOMENTS, int MT, int NT>
DEVICE_CALL void octet_tiles(const struct octet_convolution job, const struct octet_strip strip)
{
    const int lane = (int)threadIdx.x % 32, g = lane >> 2, t = lane & 3, area = job.height * job.width;
    const int pixels = strip.rows * job.width, units = (pixels + 16 * MT - 1) / (16 * MT);
    struct octet_tally<NT> tally;
    tally.plane = -1;
    int unit = (int)threadIdx.x / 32, plane = 0; /* the unit among those of its planes */
    for (; plane < job.out; unit += OCTET_WARPS) {
        for (; unit >= units; unit -= units)
            plane += NT;
        if (plane >= job.out)
            break;
        const int first = unit * 16 * MT, left = pixels - first - g;
        uint32_t at[MT];
        float sum[MT][NT][4] = {};
        if (MOMENTS && plane != tally.plane) {
            if (tally.plane >= 0)
                tally.end(job);
            tally.begin(job, plane);
        }
#pragma unroll
        for (int m = 0; m < MT; m++) {
            int p = first + 16 * m + (lane & 15);
            p = p < pixels ? p : pixels - 1;
            const int y = small_quotient(p, job.width);
            at[m] = strip.at + (uint32_t)(16 * (y * (strip.pitch - job.width) + p));
        }
        octet_unit_sums<MT, NT>(job, plane, at, sum);
        const size_t start = (size_t)(plane * area + strip.first * job.width + first + g) * 4 + (size_t)t;
        if (job.add) { /* all of them read before the first store */
            const uint32_t *add = reinterpret_cast<const uint32_t *>(job.add) + start;
            uint32_t more[NT][2 * MT];
#pragma unroll
            for (int k = 0; k < 2 * MT * NT; k++)
                more[k / (2 * MT)][k % (2 * MT)] =
                    8 * (k % (2 * MT)) < left ? add[k / (2 * MT) * 4 * area + 32 * (k % (2 * MT))] : 0;
#pragma unroll
            for (int k = 0; k < 2 * MT * NT; k++) {
                float *x = &sum[k / 2 % MT][k / (2 * MT)][2 * (k % 2)];
                x[0] += bf16_lo(more[k / (2 * MT)][k % (2 * MT)]);
                x[1] += bf16_hi(more[k / (2 * MT)][k % (2 * MT)]);
            }
        }
        uint32_t *to = reinterpret_cast<uint32_t *>(job.to) + start;
#pragma unroll
        for (int n = 0; n < NT; n++, to += 4 * area)
#pragma unroll
            for (int k = 0; k < 2 * MT; k++) {
                const uint32_t pair = pack_bf16(sum[k / 2][n][2 * (k % 2)], sum[k / 2][n][2 * (k % 2) + 1]);
                if (8 * k < left)
                    to[32 * k] = pair;
                if (MOMENTS)
                    tally.take(n, pair, 8 * k < left);
            }
    }
    if (MOMENTS && tally.plane >= 0)
        tally.end(job);
}

/* Larger units have more products per operand, but every warp should have one. */
template <bool MOMENTS>
DEVICE void octet_convolve_strip(const struct octet_convolution &job, const struct octet_strip &strip)
{
    const int pixels = strip.rows * job.width, quads = job.out % 4 == 0 ? job.out / 4 : 0;
    const int pairs = job.out % 2 == 0 ? job.out / 2 : 0;
    if (pixels >= 32 * OCTET_WARPS) {
        if (quads)
            octet_tiles<MOMENTS, 2, 4>(job, strip);
        else if (pairs)
            octet_tiles<MOMENTS, 2, 2>(job, strip);
        else
            octet_tiles<MOMENTS, 2, 1>(job, strip);
    } else {
        const int units = (pixels + 15) / 16;
        if (quads && units * quads >= OCTET_WARPS)
            octet_tiles<MOMENTS, 1, 4>(job, strip);
        else if (pairs && units * pairs >= OCTET_WARPS)
            octet_tiles<MOMENTS, 1, 2>(job, strip);
        else
            octet_tiles<MOMENTS, 1, 1>(job, strip);
    }
}

/* Shared memory: octet_bytes from `memory` on. */
template <bool MOMENTS> DEVICE_CALL void octet_convolve(const struct octet_convolution job, uint32_t memory)
{
    const int reach = job.kernel / 2, rows = octet_rows(job.height, job.width, job.kernel, job.in);
    struct octet_strip strip = {memory, 0, 0, job.width + 2 * reach, rows + 2 * reach};
    const int steps = octet_steps(job.kernel, job.in), all = job.kernel * job.kernel * job.in;
    for (int s = (int)threadIdx.x; s < 2 * steps; s += BLOCK_THREADS) {
        const int tap = s < all ? s / job.in : 0, plane = s < all ? s % job.in : 0;
        reinterpret_cast<uint32_t *>(octet_slices(s % 2))[s / 2] =
            (uint32_t)(16 * ((plane * strip.tall + tap / job.kernel) * strip.pitch + tap % job.kernel));
    }
    for (int k = (int)threadIdx.x; MOMENTS && k < OCTET_WARPS * 8 * job.out * 2; k += BLOCK_THREADS)
        store_shared_float(job.moments + (uint32_t)(4 * k), 0);
    for (; strip.first < job.height; strip.first += rows) {
        const int left = job.height - strip.first;
        strip.rows = left < rows ? left : rows;
        each_framed(job.height, job.width, reach, job.in, strip, [&](int place, int i) {
            copy_async_or_zero(memory + (uint32_t)(16 * place), job.from + (i < 0 ? 0 : i), i >= 0);
        });
        copy_commit();
        copy_wait<0>();
        __syncthreads();
        octet_convolve_strip<MOMENTS>(job, strip);
        __syncthreads();
    }
}

/* put(channel, total) of the moments that a convolution left. */
template <class Put> DEVICE void octet_moments(const struct octet_convolution &job, Put put)
{
    for (int c = (int)threadIdx.x; c < job.channels; c += BLOCK_THREADS) {
        double total[2] = {};
        for (int warp = 0; warp < OCTET_WARPS; warp++)
            for (int k = 0; k < 2; k++)
                total[k] += (double)load_shared_float(octet_moment(job, warp, c) + (uint32_t)(4 * k));
        put(c, total);
    }
    __syncthreads();
}

/* Depthwise 3x3, weights [9][stored channels]; reversed taps give the gradient of the input. */
DEVICE_CALL void octet_depthwise(int height, int width, int channels, const struct octet *in, const float *weight,
                                 bool reverse, const struct octet *add, struct octet *out)
{
    const int stored = map_channels<struct octet>(channels), pixels = height * width;
    map_set(pixels, channels, out, [&](int i, int c) {
        const int p = i % pixels, y = p / width, x = p % width;
        struct eight sum = {};
        for (int t = 0; t < 9; t++) {
            const int row = t / 3 - 1, column = t % 3 - 1;
            if (y + row >= 0 && y + row < height && x + column >= 0 && x + column < width)
                sum = apply([](float s, float w, float v) { return fmaf(w, v, s); }, sum,
                            channels_of<struct octet>(weight + (reverse ? 8 - t : t) * stored, c),
                            load(in, i + row * width + column));
        }
        return add ? apply([](float s, float more) { return more + s; }, sum, load(add, i)) : sum;
    });
}

/* The two words of a weight's operand at `word` / 2, from w(tap, input channel, output channel). */
template <class W> DEVICE uint2 octet_weight(int kernel, int in, int out, uint32_t pair, W w)
{
    const int lane = (int)(pair / 2 % 32), n = (int)(pair / 64) % out,
              step = (int)(pair / 64) / out * 2 + (int)(pair % 2);
    const int g = lane >> 2, t = lane & 3, all = kernel * kernel * in;
    uint32_t word[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int s = 2 * step + half, tap = s / in, i = s % in * 8 + 2 * t, o = 8 * n + g;
        word[half] = s < all ? pack_bf16(w(tap, i, o), w(tap, i + 1, o)) : 0;
    }
    return make_uint2(word[0], word[1]);
}

#endif
