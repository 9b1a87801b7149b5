/*
 * Operations of a transformer on the rows of a sequence, each row a token, by one warp per row: nn/tokens.h on the
 * device. A lane has every 32nd number of a row in each of them, so what it wrote it may read again without a barrier.
 */
#ifndef NN_TOKEN_ROWS_CUH
#define NN_TOKEN_ROWS_CUH

#include "nn/few.cuh"

extern "C" {
#include "nn/rows.h"
}

enum { WARP_LANES = 32 };

/* The same in every lane. */
template <class T> DEVICE T lanes_sum(T v)
{
#pragma unroll
    for (int apart = WARP_LANES / 2; apart > 0; apart /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, apart);
    return v;
}

template <class F> DEVICE void each_lane(int width, F f)
{
    for (int i = (int)threadIdx.x % WARP_LANES; i < width; i += WARP_LANES)
        f(i);
}

/* f(i) for every Nth number of a row, which begins N neighbours. */
template <int N, class F> DEVICE void each_few(int width, F f)
{
    for (int i = N * ((int)threadIdx.x % WARP_LANES); i < width; i += N * WARP_LANES)
        f(i);
}

template <class F> DEVICE float row_total(int width, F f)
{
    float sum = 0;
    each_lane(width, [&](int i) { sum += f(i); });
    return lanes_sum(sum);
}

/* hat: the row normalised. Returns 1 / deviation. */
template <class T> DEVICE float row_normalise(int width, const float *x, T *hat)
{
    const float mean = row_total(width, [&](int i) { return x[i]; }) / (float)width;
    const float square = row_total(width, [&](int i) { return (x[i] - mean) * (x[i] - mean); });
    const float rstd = (float)(1 / sqrt((double)square / width + LAYER_NORM_EPS));
    each_lane(width, [&](int i) { keep(&hat[i], (x[i] - mean) * rstd); });
    return rstd;
}

/* From v(i), the gradient of hat, to put(i, that of x). */
template <class T, class Value, class Put>
DEVICE void row_normalise_backward(int width, const T *hat, float rstd, Value v, Put put)
{
    const float mean = row_total(width, [&](int i) { return v(i); }) / (float)width,
                slope = row_total(width, [&](int i) { return v(i) * number(hat[i]); }) / (float)width;
    each_lane(width, [&](int i) { put(i, rstd * (v(i) - mean - number(hat[i]) * slope)); });
}

/* ---- rows in registers ------------------------------------------------------------------------------------------- */

/* A row of at most ROW_PAIRS * 64 numbers, an even number of them. All of it is read before anything is computed, but
 * for gamma and beta: every row needs them, so they are near, and there are registers for more rows at once. */
enum { ROW_PAIRS = 8 };
struct row_pairs {
    struct few<2> pair[ROW_PAIRS];
};

/* f(k, i) for this lane's pairs: pair k begins with number i. */
template <class F> DEVICE void each_pair(int width, F f)
{
    const size_t own = 2 * (threadIdx.x % WARP_LANES); /* of pointers' size: one address serves all pairs */
#pragma unroll
    for (int k = 0; k < ROW_PAIRS; k++) {
        if ((int)own + 2 * WARP_LANES * k < width)
            f(k, own + (size_t)(2 * WARP_LANES * k));
    }
}

template <class T> DEVICE struct row_pairs row_read(int width, const T *from)
{
    struct row_pairs row;
    each_pair(width, [&](int k, size_t i) { row.pair[k] = few_at<2>(from + i); });
    return row;
}

/* hat and gamma hat + beta. Returns 1 / deviation. */
template <class T>
DEVICE float pairs_normalise(int width, const float *x, const float *gamma, const float *beta, T *hat, T *normed)
{
    const struct row_pairs row = row_read(width, x);
    float sum = 0, square = 0;
    each_pair(width, [&](int k, size_t) { sum += row.pair[k].v[0] + row.pair[k].v[1]; });
    const float mean = lanes_sum(sum) / (float)width;
    each_pair(width, [&](int k, size_t) {
        for (const float v : row.pair[k].v)
            square += (v - mean) * (v - mean);
    });
    const float rstd = 1 / sqrtf(lanes_sum(square) / (float)width + (float)LAYER_NORM_EPS);
    each_pair(width, [&](int k, size_t i) {
        const struct few<2> scale = few_at<2>(gamma + i), shift = few_at<2>(beta + i);
        struct few<2> own, out;
        for (int e = 0; e < 2; e++) {
            own.v[e] = (row.pair[k].v[e] - mean) * rstd;
            out.v[e] = scale.v[e] * own.v[e] + shift.v[e];
        }
        keep_once(hat + i, own); /* for the backward pass */
        keep(normed + i, out);
    });
    return rstd;
}

/* The same, as words. */
struct row_words {
    uint32_t pair[ROW_PAIRS];
};

DEVICE struct row_words row_words_read(int width, const struct bf16 *from)
{
    struct row_words row;
    each_pair(width, [&](int k, size_t i) { row.pair[k] = *(const uint32_t *)(from + i); });
    return row;
}

/* From dy, the gradient of gamma hat + beta, to put(i, two neighbours of the gradient of x, past added): NULL: 0. */
template <class Put>
DEVICE void pairs_normalise_backward(int width, const struct bf16 *hat, float rstd, const struct bf16 *dy,
                                     const float *gamma, const float *past, Put put)
{
    const struct row_words words = row_words_read(width, hat), given = row_words_read(width, dy);
    const auto x = [&](int k) { return few<2>{{bf16_lo(words.pair[k]), bf16_hi(words.pair[k])}}; };
    struct row_pairs v, beside = {};
    if (past)
        beside = row_read(width, past);
    float sum = 0, product = 0;
    each_pair(width, [&](int k, size_t i) {
        const struct few<2> scale = few_at<2>(gamma + i), own = x(k);
        v.pair[k] = {{bf16_lo(given.pair[k]), bf16_hi(given.pair[k])}};
        for (int e = 0; e < 2; e++) {
            v.pair[k].v[e] *= scale.v[e];
            sum += v.pair[k].v[e];
            product += v.pair[k].v[e] * own.v[e];
        }
    });
    const float mean = lanes_sum(sum) / (float)width, slope = lanes_sum(product) / (float)width;
    each_pair(width, [&](int k, size_t i) {
        const struct few<2> own = x(k);
        struct few<2> dx;
        for (int e = 0; e < 2; e++)
            dx.v[e] = beside.pair[k].v[e] + rstd * (v.pair[k].v[e] - mean - own.v[e] * slope);
        put(i, dx);
    });
}

/* ---- elements and verdicts --------------------------------------------------------------------------------------- */

/* x * Phi(x), and its derivative. */
DEVICE float gelu(float x, float *slope)
{
    const float phi = 0.5f * erfcf(-0.70710678f * x);
    *slope = phi + x * 0.39894228f * expf(-0.5f * x * x);
    return x * phi;
}

/* Softmax cross entropy of a row of logits: the loss in nats, and whether the target is the first of the largest.
 * put(k, gradient) gets `scale` times the gradients. */
struct row_verdict {
    double loss;
    bool hit;
};
template <class Put>
DEVICE struct row_verdict row_judge(int classes, const float *logits, int target, float scale, Put put)
{
    float largest = logits[0];
    int first = classes;
    each_lane(classes, [&](int k) { largest = logits[k] > largest ? logits[k] : largest; });
#pragma unroll
    for (int apart = WARP_LANES / 2; apart > 0; apart /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, largest, apart);
        largest = other > largest ? other : largest;
    }
    each_lane(classes, [&](int k) { first = logits[k] == largest && k < first ? k : first; });
#pragma unroll
    for (int apart = WARP_LANES / 2; apart > 0; apart /= 2) {
        const int other = __shfl_xor_sync(0xffffffffu, first, apart);
        first = other < first ? other : first;
    }
    const double total = (double)row_total(classes, [&](int k) { return expf(logits[k] - largest); });
    const float factor = (float)((double)scale / total);
    each_lane(classes, [&](int k) { put(k, expf(logits[k] - largest) * factor - (k == target ? scale : 0.0f)); });
    struct row_verdict verdict = {log(total) + (double)largest - (double)logits[target], first == target};
    return verdict;
}

#endif
