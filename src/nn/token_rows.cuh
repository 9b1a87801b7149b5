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
