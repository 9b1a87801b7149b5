/*
 * Operations of one thread block on the maps of one image: element-wise passes, sums per channel,
 * normalisation. Maps are dense, in global memory, of floats or of octets (nn/octet.cuh). Every function is called by
 * all threads of the block and ends with a barrier: any thread can read what it wrote. The order of a sum depends on
 * the shape alone.
 */
#ifndef NN_BLOCK_CUH
#define NN_BLOCK_CUH

#include "nn/octet.cuh"

extern "C" {
#include "nn/norm.h"
}

/* Threads of a block that works on an image, and such blocks per SM at a time: registers are divided accordingly. */
enum { BLOCK_THREADS = 128, BLOCKS_PER_PROCESSOR = 4 };
#define IMAGE_KERNEL KERNEL void __launch_bounds__(BLOCK_THREADS, BLOCKS_PER_PROCESSOR)

/* Large functions with several call sites: one copy of each per kernel. */
#define DEVICE_CALL [[maybe_unused]] static __device__ __noinline__

/* a / b of pixels, which are few: a and a / b below 2^20 and 2^14, so that half of 1 / b is more than the product's
 * rounding error. */
DEVICE int small_quotient(int a, int b)
{
    return (int)(((float)a + 0.5f) * (1.0f / (float)b));
}

/* each_value for maps of octets whose planes are divided evenly: what is read together has its channels in common,
 * whose coefficients are read once. */
template <int AHEAD, class Value, class Put> DEVICE void each_of_plane(int pixels, int planes, Value value, Put put)
{
    int i = (int)threadIdx.x;
    for (int plane = 0; plane < planes; plane++)
        for (int left = pixels; left > 0; left -= AHEAD * BLOCK_THREADS, i += AHEAD * BLOCK_THREADS) {
            decltype(value(0, 0)) v[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; k++)
                v[k] = value(i + k * BLOCK_THREADS, 8 * plane);
#pragma unroll
            for (int k = 0; k < AHEAD; k++)
                put(i + k * BLOCK_THREADS, v[k]);
        }
    __syncthreads();
}

/* put(index, value(index, channel)) for every element of a map. Several are read before the first is put, to hide the
 * latency of memory. */
template <class M, int AHEAD = map_form<M>::AHEAD, class Value, class Put>
DEVICE void each_value(int pixels, int channels, Value value, Put put)
{
    enum { WIDTH = map_form<M>::WIDTH };
    const int planes = map_planes<M>(channels), count = pixels * planes;
    if (WIDTH > 1 && pixels % (AHEAD * BLOCK_THREADS) == 0) {
        each_of_plane<AHEAD>(pixels, planes, value, put);
        return;
    }
    /* How the index within the inner dimension, channels or pixels, and the outer one go on from element to element. */
    const int inner = WIDTH == 1 ? channels : pixels, step = BLOCK_THREADS % inner, leap = BLOCK_THREADS / inner;
    int at = (int)threadIdx.x % inner, plane = (int)threadIdx.x / inner;
    for (int first = (int)threadIdx.x; first < count; first += AHEAD * BLOCK_THREADS) {
        decltype(value(0, 0)) v[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const int i = first + k * BLOCK_THREADS;
            const int c = WIDTH == 1 ? at : WIDTH * (plane < planes ? plane : planes - 1);
            v[k] = value(i < count ? i : first, c);
            at += step;
            plane += leap;
            if (at >= inner) {
                at -= inner;
                plane++;
            }
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (first + k * BLOCK_THREADS < count)
                put(first + k * BLOCK_THREADS, v[k]);
    }
    __syncthreads();
}

/* The same, written to a map. */
template <class M, int AHEAD = map_form<M>::AHEAD, class Value>
DEVICE void map_set(int pixels, int channels, M *out, Value value)
{
    each_value<M, AHEAD>(pixels, channels, value, [&](int i, const value_of<M> &v) { store(out, i, v); });
}

DEVICE double *sums_scratch()
{
    __shared__ double scratch[3 * BLOCK_THREADS];
    return scratch;
}

/* Two values per channel for the step after a sum: statistics, or the layers of a small dense net. */
DEVICE double *channel_scratch()
{
    __shared__ double scratch[2 * NORM_MAX_CHANNELS];
    return scratch;
}

/*
 * K sums per channel over the rows of a matrix: value(row, channel, v) yields the terms, put(channel, total) receives
 * the sums. A thread sums every n-th row in T; the threads of a channel are then added up in double.
 */
template <int K, class T, class Value, class Put> DEVICE void channel_sums(int rows, int channels, Value value, Put put)
{
    double *part = sums_scratch();
    for (int first = 0; first < channels; first += BLOCK_THREADS) {
        const int left = channels - first, width = left < BLOCK_THREADS ? left : BLOCK_THREADS;
        const int lanes = BLOCK_THREADS / width, lane = (int)threadIdx.x / width, c = (int)threadIdx.x % width;
        T sum[K] = {};
#pragma unroll 4
        for (int r = lane; lane < lanes && r < rows; r += lanes) {
            T v[K];
            value(r, first + c, v);
            for (int k = 0; k < K; k++)
                sum[k] += v[k];
        }
        for (int k = 0; k < K; k++)
            part[k * BLOCK_THREADS + (int)threadIdx.x] = (double)sum[k];
        __syncthreads();
        if ((int)threadIdx.x < width) {
            double total[K] = {};
            for (int l = 0; l < lanes; l++)
                for (int k = 0; k < K; k++)
                    total[k] += part[k * BLOCK_THREADS + l * width + c];
            put(first + c, total);
        }
        __syncthreads();
    }
}

/* Lanes of a team; two sums of eight channels per team. */
enum { TEAM_LEAST = 4, OCTET_SCRATCH = BLOCK_THREADS / TEAM_LEAST * 16 };

DEVICE float *octet_scratch()
{
    __shared__ float scratch[OCTET_SCRATCH];
    return scratch;
}

/* N sums of `near` neighbouring lanes, a power of two, to `to`. While lanes are left to share them, either half of two
 * lanes' sums goes on with one of the two. */
template <int N> DEVICE void octet_fold(float sum[N], int near, float *to)
{
    const int lane = (int)threadIdx.x % 32;
    int mask = near / 2, first = 0, count = N;
#pragma unroll
    for (int n = N / 2; n > 0; n /= 2)
        if (mask > 0) {
            const bool upper = lane & mask;
#pragma unroll
            for (int i = 0; i < n; i++) {
                const float kept = upper ? sum[i + n] : sum[i], given = upper ? sum[i] : sum[i + n];
                sum[i] = kept + exchange(given, mask);
            }
            first += upper ? n : 0;
            count = n;
            mask /= 2;
        }
    const int rest = mask;
    for (; mask > 0; mask /= 2)
        sum[0] += exchange(sum[0], mask);
    if (rest > 0 && lane % (2 * rest) != 0)
        return;
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i < count)
            to[first + i] = sum[i];
}

/* A thread's share of K sums over a plane: of so many pixels from the first one on, at intervals of `lanes`. Several
 * elements are read before the first is added. */
template <int K, class Value>
DEVICE void octet_share(struct eight sum[K], int first, int end, int lanes, int base, int c, Value value)
{
    enum { AHEAD = K == 1 ? 4 : 2 };
    const auto add = [&](const struct eight *v) {
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int e = 0; e < 8; e++)
                sum[k].v[e] += v[k].v[e];
    };
    int p = first;
    for (; p + (AHEAD - 1) * lanes < end; p += AHEAD * lanes) {
        struct eight v[AHEAD][K];
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            value(base + p + a * lanes, c, v[a]);
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            add(v[a]);
    }
#pragma unroll 1
    for (; p < end; p += lanes) {
        struct eight v[K];
        value(base + p, c, v);
        add(v);
    }
}

/*
 * K sums per channel over the elements of a map of octets: value(index, channel, v) yields the terms of eight channels.
 * A team of threads has a plane, and pixels in turn; its lanes are added up in pairs, its warps in double.
 */
template <int K, class Value, class Put> DEVICE void octet_sums(int pixels, int channels, Value value, Put put)
{
    float(*part)[8 * K] = reinterpret_cast<float(*)[8 * K]>(octet_scratch());
    int lanes = TEAM_LEAST;
    while (lanes < pixels && lanes < BLOCK_THREADS)
        lanes *= 2;
    const int planes = map_planes<struct octet>(channels), teams = BLOCK_THREADS / lanes;
    const int near = lanes < 32 ? lanes : 32, each = lanes / near; /* lanes of a warp; warps of a team */
    const int lane = (int)threadIdx.x % lanes, team = (int)threadIdx.x / lanes;
    const int rows = BLOCK_THREADS / near,
              turns = OCTET_SCRATCH / (8 * K * rows); /* planes of a team between barriers */
    for (int first = 0; first < planes; first += turns * teams) {
        const int left = planes - first, some = left < turns * teams ? left : turns * teams;
        for (int turn = 0; turn * teams < some; turn++) {
            const int plane = first + turn * teams + team;
            struct eight sum[K] = {};
            octet_share<K>(sum, lane, plane < planes ? pixels : 0, lanes, plane * pixels, 8 * plane, value);
            float *to = part[turn * rows + (int)threadIdx.x / near];
            if (near == 32)
                octet_fold<8 * K>(&sum[0].v[0], 32, to);
            else
                octet_fold<8 * K>(&sum[0].v[0], near, to);
        }
        __syncthreads();
        for (int j = (int)threadIdx.x; j < 8 * some; j += BLOCK_THREADS) {
            const int c = 8 * first + j;
            double total[K] = {};
#pragma unroll 1
            for (int w = 0; w < each; w++)
#pragma unroll
                for (int k = 0; k < K; k++)
                    total[k] += (double)part[j / 8 * each + w][8 * k + j % 8];
            if (c < channels)
                put(c, total);
        }
        __syncthreads();
    }
}

/* K sums per channel over a map; value(index, channel, v) yields the terms. */
template <int K, class M, class Value, class Put> DEVICE void map_sums(int pixels, int channels, Value value, Put put)
{
    if constexpr (map_form<M>::WIDTH == 1)
        channel_sums<K, float>(
            pixels, channels, [&](int p, int c, float *v) { value(p * channels + c, c, v); }, put);
    else
        octet_sums<K>(pixels, channels, value, put);
}

/* The sum of value(index) over all numbers of a map, put by one thread. */
template <class M, class Value, class Put> DEVICE void map_total(int pixels, int channels, Value value, Put put)
{
    if constexpr (map_form<M>::WIDTH == 1) {
        channel_sums<1, float>(
            pixels * channels, 1, [&](int i, int, float *v) { v[0] = value(i); },
            [&](int, const double *total) { put(total[0]); });
    } else {
        double *sums = channel_scratch();
        octet_sums<1>(
            pixels, channels, [&](int i, int, struct eight *v) { v[0] = value(i); },
            [&](int c, const double *total) { sums[c] = total[0]; });
        if (threadIdx.x == 0) {
            double sum = 0;
            for (int c = 0; c < channels; c++)
                sum += sums[c];
            put(sum);
        }
        __syncthreads();
    }
}

/* NAN propagates. */
DEVICE float relu(float z)
{
    return z <= 0 ? 0 : z;
}

/* ---- where values come from -------------------------------------------------------------------------------------- */

/* A map as it is, or relu(map * scale + shift). */
template <class M> struct source {
    const M *map;
    const float *scale, *shift; /* scale NULL: as it is */
};

template <class M> DEVICE struct source<M> source_plain(const M *map) {
    struct source<M> source = {
        map, nullptr, nullptr
    };
    return source;
}

template <class M>
DEVICE struct source<M> source_normed(const M *map, const struct norm &norm) {
    struct source<M> source = {
        map, norm.scale, norm.shift
    };
    return source;
}

DEVICE float
normed(float x, float scale, float shift)
{
    return relu(fmaf(x, scale, shift));
}

template <class M> DEVICE value_of<M> source_at(const struct source<M> &source, int i, int c)
{
    const value_of<M> x = load(source.map, i);
    return source.scale ? apply(normed, x, channels_of<M>(source.scale, c), channels_of<M>(source.shift, c)) : x;
}

template <class M> DEVICE void map_write(int pixels, int channels, const struct source<M> &source, M *out)
{
    map_set(pixels, channels, out, [&](int i, int c) { return source_at(source, i, c); });
}

/* ---- normalisation ----------------------------------------------------------------------------------------------- */

/* The seven coefficient arrays one after the other, as norm_in lays them out. */
DEVICE struct norm norm_at(float *memory, int channels)
{
    struct norm norm;
    norm.centre = memory;
    norm.rstd = memory + channels;
    norm.scale = memory + 2 * channels;
    norm.shift = memory + 3 * channels;
    norm.gain = memory + 4 * channels;
    norm.slope = memory + 5 * channels;
    norm.offset = memory + 6 * channels;
    return norm;
}

DEVICE void norm_set(const struct norm &norm, int c, double mean, double rstd, float gamma, float beta)
{
    norm.centre[c] = (float)mean;
    norm.rstd[c] = (float)rstd;
    norm.scale[c] = (float)((double)gamma * rstd);
    norm.shift[c] = (float)((double)beta - mean * (double)gamma * rstd);
}

/* dx = gamma * rstd * (v - mean(v) - xhat * mean(v * xhat)) as gain * v + slope * x + offset; the means carry gamma. */
DEVICE void norm_set_backward(const struct norm &norm, int c, double gamma, double mean_v, double mean_vx)
{
    const double rstd = (double)norm.rstd[c];
    norm.gain[c] = (float)(gamma * rstd);
    norm.slope[c] = (float)(-rstd * rstd * mean_vx);
    norm.offset[c] = (float)(-rstd * mean_v + rstd * rstd * mean_vx * (double)norm.centre[c]);
}

/* g where the ReLU after the norm passed. */
DEVICE float norm_passed(bool cut, float x, float g, float scale, float shift)
{
    return !cut || fmaf(x, scale, shift) > 0 ? g : 0;
}

/* out = gain * v + slope * x + offset; out may be g. */
template <class M>
DEVICE void norm_grad(int pixels, int channels, const struct norm &norm, bool cut, const M *x, const M *g, M *out)
{
    map_set(pixels, channels, out, [&](int i, int c) {
        return apply(
            [&](float a, float b, float scale, float shift, float gain, float slope, float offset) {
                float v = norm_passed(cut, a, b * gain, scale, shift);
                return v + fmaf(a, slope, offset);
            },
            load(x, i), load(g, i), channels_of<M>(norm.scale, c), channels_of<M>(norm.shift, c),
            channels_of<M>(norm.gain, c), channels_of<M>(norm.slope, c), channels_of<M>(norm.offset, c));
    });
}

/* Sums of v and of v * (x - centre) per channel, with v as in norm_grad. */
template <class M, class Put>
DEVICE void norm_grad_sums(int pixels, int channels, const struct norm &norm, bool cut, const M *x, const M *g, Put put)
{
    map_sums<2, M>(
        pixels, channels,
        [&](int i, int c, value_of<M> *v) {
            apply_to<2>(
                v,
                [&](float *term, float a, float b, float scale, float shift, float centre) {
                    term[0] = norm_passed(cut, a, b, scale, shift);
                    term[1] = term[0] * (a - centre);
                },
                load(x, i), load(g, i), channels_of<M>(norm.scale, c), channels_of<M>(norm.shift, c),
                channels_of<M>(norm.centre, c));
        },
        put);
}

/* Sum over the channels of c's group. */
DEVICE double group_sum(const double *values, int c, int size)
{
    double sum = 0;
    for (int k = c / size * size, end = k + size; k < end; k++)
        sum += values[k];
    return sum;
}

/* Sums of x - centre and of its square, per channel. */
template <class M, class Put> DEVICE void moments(int pixels, int channels, const M *x, const float *centre, Put put)
{
    map_sums<2, M>(
        pixels, channels,
        [&](int i, int c, value_of<M> *v) {
            apply_to<2>(
                v,
                [](float *term, float a, float b) {
                    term[0] = a - b;
                    term[1] = term[0] * term[0];
                },
                load(x, i), real_channels_of<M>(centre, c, channels));
        },
        put);
}

/* Statistics of one image; two passes, mean first: with one value per group the variance must be exactly zero. */
template <class M>
DEVICE void group_norm_forward(const struct norm &norm, int pixels, int channels, int groups, const M *x,
                               const float *gamma, const float *beta)
{
    const int size = channels / groups;
    const double count = (double)pixels * size;
    double *sum = channel_scratch(), *square = sum + NORM_MAX_CHANNELS;
    map_sums<1, M>(
        pixels, channels, [&](int i, int, value_of<M> *v) { v[0] = load(x, i); },
        [&](int c, const double *total) { sum[c] = total[0]; });
    for (int c = (int)threadIdx.x; c < channels; c += BLOCK_THREADS)
        norm.centre[c] = (float)(group_sum(sum, c, size) / count);
    __syncthreads();
    moments<M>(pixels, channels, x, norm.centre, [&](int c, const double *total) {
        sum[c] = total[0];
        square[c] = total[1];
    });
    for (int c = (int)threadIdx.x; c < channels; c += BLOCK_THREADS) {
        double off = group_sum(sum, c, size) / count; /* the rounding error of the mean */
        double var = group_sum(square, c, size) / count - off * off;
        var = var < 0 ? 0 : var;
        /* A single value is its own mean: its output is exactly beta and no gradient passes. */
        double mean = (double)norm.centre[c] + off, rstd = count > 1 ? 1 / sqrt(var + NORM_EPS) : 0;
        norm_set(norm, c, mean, rstd, gamma[c], beta[c]);
    }
    __syncthreads();
}

/* The backward coefficients of one image; sums of v * xhat and v go to dgamma and dbeta. */
template <class M>
DEVICE void group_norm_backward(const struct norm &norm, int pixels, int channels, int groups, bool cut, const M *x,
                                const M *g, const float *gamma, double *dgamma, double *dbeta)
{
    const int size = channels / groups;
    const double count = (double)pixels * size;
    double *sum = channel_scratch(), *sum_x = sum + NORM_MAX_CHANNELS; /* times gamma */
    norm_grad_sums(pixels, channels, norm, cut, x, g, [&](int c, const double *total) {
        dbeta[c] = total[0];
        dgamma[c] = total[1] * (double)norm.rstd[c];
        sum[c] = (double)gamma[c] * total[0];
        sum_x[c] = (double)gamma[c] * dgamma[c];
    });
    for (int c = (int)threadIdx.x; c < channels; c += BLOCK_THREADS)
        norm_set_backward(norm, c, (double)gamma[c], group_sum(sum, c, size) / count,
                          group_sum(sum_x, c, size) / count);
    __syncthreads();
}

/* Mean over the pixels of each channel. */
template <class M> DEVICE void mean_forward(int pixels, int channels, const M *x, float *mean)
{
    map_sums<1, M>(
        pixels, channels, [&](int i, int, value_of<M> *v) { v[0] = load(x, i); },
        [&](int c, const double *total) { mean[c] = (float)(total[0] / pixels); });
}

#endif
