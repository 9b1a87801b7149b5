/*
 * Operations of one thread block on the maps of one image: element-wise passes, sums per channel, pooling,
 * normalisation. Maps are dense, [pixel][channel], in global memory. Every function is called by all threads of the
 * block and ends with a barrier: any thread can read what it wrote. The order of a sum depends on the shape alone.
 */
#ifndef NN_BLOCK_CUH
#define NN_BLOCK_CUH

#include "cuda/runtime.cuh"

extern "C" {
#include "nn/norm.h"
}

/* Threads of a block that works on an image, and such blocks per SM at a time: registers are divided accordingly. */
enum { BLOCK_THREADS = 128, BLOCKS_PER_PROCESSOR = 4 };
#define IMAGE_KERNEL KERNEL void __launch_bounds__(BLOCK_THREADS, BLOCKS_PER_PROCESSOR)

/* Large functions with several call sites: one copy of each per kernel. */
#define DEVICE_CALL [[maybe_unused]] static __device__ __noinline__

/* put(index, value(index, channel)) for every value of a map. Several are read before the first is put, to hide the
 * latency of memory. */
template <class Value, class Put> DEVICE void each_value(int pixels, int channels, Value value, Put put)
{
    enum { AHEAD = 4 };
    const int step = BLOCK_THREADS % channels, count = pixels * channels;
    int c = (int)threadIdx.x % channels;
    for (int first = (int)threadIdx.x; first < count; first += AHEAD * BLOCK_THREADS) {
        decltype(value(0, 0)) v[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const int i = first + k * BLOCK_THREADS;
            v[k] = value(i < count ? i : first, c);
            c += step;
            c -= c >= channels ? channels : 0;
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (first + k * BLOCK_THREADS < count)
                put(first + k * BLOCK_THREADS, v[k]);
    }
    __syncthreads();
}

/* The same, written to a map. */
template <class Value> DEVICE void map_set(int pixels, int channels, float *out, Value value)
{
    each_value(pixels, channels, value, [&](int i, float v) { out[i] = v; });
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

/* NAN propagates. */
DEVICE float relu(float z)
{
    return z <= 0 ? 0 : z;
}

/* ---- where values come from -------------------------------------------------------------------------------------- */

/* A map as it is, or relu(map * scale + shift). */
struct source {
    const float *map, *scale, *shift; /* scale NULL: as it is */
};

DEVICE struct source source_plain(const float *map)
{
    struct source source = {map, nullptr, nullptr};
    return source;
}

DEVICE struct source source_normed(const float *map, const struct norm &norm)
{
    struct source source = {map, norm.scale, norm.shift};
    return source;
}

DEVICE float source_at(const struct source &source, int i, int c)
{
    float x = source.map[i];
    return source.scale ? relu(fmaf(x, source.scale[c], source.shift[c])) : x;
}

DEVICE void map_write(int pixels, int channels, const struct source &source, float *out)
{
    map_set(pixels, channels, out, [&](int i, int c) { return source_at(source, i, c); });
}

/* ---- max pooling 2x2, stride 2; height and width are even -------------------------------------------------------- */

/* Index of the window's first value, from that of the pooled one. */
DEVICE int pool_window(int i, int c, int width, int channels)
{
    const int p = i / channels, half = width / 2, y = p / half, x = p % half;
    return (2 * y * width + 2 * x) * channels + c;
}

DEVICE void pool_forward(int height, int width, int channels, const struct source &in, float *out)
{
    map_set(height / 2 * (width / 2), channels, out, [&](int i, int c) {
        const int at = pool_window(i, c, width, channels), below = at + width * channels;
        float y0 = source_at(in, at, c), y1 = source_at(in, at + channels, c);
        float y2 = source_at(in, below, c), y3 = source_at(in, below + channels, c);
        float top = y1 > y0 ? y1 : y0, bottom = y3 > y2 ? y3 : y2;
        return bottom > top ? bottom : top;
    });
}

/* On ties the gradient goes to the first maximum in row-major order. */
DEVICE void pool_backward(int height, int width, int channels, const struct source &in, const float *g, float *out)
{
    struct winner {
        int at, place; /* the window; which of its four values */
        float g;
    };
    each_value(
        height / 2 * (width / 2), channels,
        [&](int i, int c) {
            const int at = pool_window(i, c, width, channels), below = at + width * channels;
            float y0 = source_at(in, at, c), y1 = source_at(in, at + channels, c);
            float y2 = source_at(in, below, c), y3 = source_at(in, below + channels, c);
            bool right0 = y1 > y0, right1 = y3 > y2, low = (right1 ? y3 : y2) > (right0 ? y1 : y0);
            struct winner winner = {at, low ? 2 + right1 : (int)right0, g[i]};
            return winner;
        },
        [&](int, const struct winner &winner) {
            for (int k = 0; k < 4; k++)
                out[winner.at + (k / 2 * width + k % 2) * channels] = winner.place == k ? winner.g : 0;
        });
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
DEVICE float norm_passed(const struct norm &norm, bool cut, float x, float g, int c)
{
    return !cut || fmaf(x, norm.scale[c], norm.shift[c]) > 0 ? g : 0;
}

/* out = gain * v + slope * x + offset; out may be g. */
DEVICE void norm_grad(int pixels, int channels, const struct norm &norm, bool cut, const float *x, const float *g,
                      float *out)
{
    map_set(pixels, channels, out, [&](int i, int c) {
        float v = norm_passed(norm, cut, x[i], g[i] * norm.gain[c], c);
        return v + fmaf(x[i], norm.slope[c], norm.offset[c]);
    });
}

/* Sums of v and of v * (x - centre) per channel, with v as in norm_grad. */
template <class Put>
DEVICE void norm_grad_sums(int pixels, int channels, const struct norm &norm, bool cut, const float *x, const float *g,
                           Put put)
{
    channel_sums<2, float>(
        pixels, channels,
        [&](int p, int c, float *v) {
            const int i = p * channels + c;
            v[0] = norm_passed(norm, cut, x[i], g[i], c);
            v[1] = v[0] * (x[i] - norm.centre[c]);
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

/* Statistics of one image; two passes, mean first: with one value per group the variance must be exactly zero. */
DEVICE void group_norm_forward(const struct norm &norm, int pixels, int channels, int groups, const float *x,
                               const float *gamma, const float *beta)
{
    const int size = channels / groups;
    const double count = (double)pixels * size;
    double *sum = channel_scratch(), *square = sum + NORM_MAX_CHANNELS;
    channel_sums<1, float>(
        pixels, channels, [&](int p, int c, float *v) { v[0] = x[p * channels + c]; },
        [&](int c, const double *total) { sum[c] = total[0]; });
    for (int c = (int)threadIdx.x; c < channels; c += BLOCK_THREADS)
        norm.centre[c] = (float)(group_sum(sum, c, size) / count);
    __syncthreads();
    channel_sums<2, float>(
        pixels, channels,
        [&](int p, int c, float *v) {
            v[0] = x[p * channels + c] - norm.centre[c];
            v[1] = v[0] * v[0];
        },
        [&](int c, const double *total) {
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
DEVICE void group_norm_backward(const struct norm &norm, int pixels, int channels, int groups, bool cut, const float *x,
                                const float *g, const float *gamma, double *dgamma, double *dbeta)
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
DEVICE void mean_forward(int pixels, int channels, const float *x, float *mean)
{
    channel_sums<1, float>(
        pixels, channels, [&](int p, int c, float *v) { v[0] = x[p * channels + c]; },
        [&](int c, const double *total) { mean[c] = (float)(total[0] / pixels); });
}

#endif
