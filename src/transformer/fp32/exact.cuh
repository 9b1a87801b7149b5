/*
 * What the passes are made of, in fp32. A precision P says what operands of products are and computes products and
 * attention; transformer/wide/wide.cuh is the other one. The passes themselves (stages.cuh, passes.cuh, gradients.cuh,
 * walk.cuh) are the same for all.
 */
#ifndef TRANSFORMER_FP32_EXACT_CUH
#define TRANSFORMER_FP32_EXACT_CUH

#include <type_traits>

#include "transformer/fp32/net.cuh"

struct exact {
    typedef float operand;
    typedef std::integral_constant<int, 1> one;
    enum {
        LEAST = 1,     /* numbers of a row of an operand, at least */
        FUSED = false, /* the classifier judges as well, and tokens enter embeddings' gradients by a product */
        BESIDE = 1,    /* numbers that a lane copies at once */
        SUMMED = 1,    /* neighbours that a thread sums over the rows */
        THREADS = STAGE_THREADS, /* of products */
        CLASSIFIER_ROWS = MATMUL_TILE
    };

    /* ---- for launches ---- */

    static __host__ __device__ int tiles(int rows, int columns)
    {
        return matmul_tiles(rows, columns);
    }
    static size_t product_shared()
    {
        return 0; /* beyond what is declared */
    }
    static size_t classifier_shared()
    {
        return 0;
    }
    static size_t attend_bytes(int head, bool)
    {
        return attend_shared(head);
    }
    static __host__ __device__ int attend_parts(int length, int head)
    {
        return attend_tiles(length, head);
    }
    /* f(the size of a head, where kernels are made for it). */
    template <class F> static __host__ __device__ __forceinline__ void with_head(int, F f)
    {
        f(std::integral_constant<int, 0>());
    }

    /* ---- for kernels ---- */

    static __device__ __forceinline__ const float *rounded(const struct frame &, size_t, const float *params)
    {
        return params;
    }
    static __device__ __forceinline__ void keep_gelu(float *value, float *slope, const struct few<1> &x)
    {
        *value = gelu(x.v[0], slope);
    }
    /* A token's hat and gamma hat + beta; returns 1 / deviation. */
    static __device__ __forceinline__ float normalise(int width, const float *x, const float *gamma, const float *beta,
                                                      float *hat, float *normed)
    {
        const float rstd = row_normalise(width, x, hat);
        each_lane(width, [&](int i) { normed[i] = gamma[i] * hat[i] + beta[i]; });
        return rstd;
    }
    /* put(i, value) for a token's gradient before a norm, from that after it; `past`, which may be NULL, is added. */
    template <class Put>
    static __device__ __forceinline__ void normalise_backward(int width, const float *hat, float rstd, const float *dy,
                                                              const float *gamma, const float *past, Put put)
    {
        row_normalise_backward(
            width, hat, rstd, [&](int i) { return dy[i] * gamma[i]; },
            [&](int i, float dx) { put(i, few<1>{{(past ? past[i] : 0.0f) + dx}}); });
    }
    /* put(row, column, value, beside(row, column, how many)) for every element of x W^T + b, or some neighbours; b may
     * be NULL. */
    template <class Beside, class Put>
    static __device__ __forceinline__ void forward(const struct frame &frame, int in, int out, const float *weight,
                                                   const float *bias, const float *x, const struct share &share,
                                                   Beside beside, Put put)
    {
        const struct matmul product = {frame.rows, out, in, x, weight, in, in};
        matmul_share<BY_DEPTH, BY_DEPTH>(
            product, share, [&](int column) { return bias ? bias[column] : 0.0f; },
            [&](int row, int column, float sum) { put(row, column, few<1>{{sum}}, beside(row, column, one())); });
    }
    /* The same of dy W. */
    template <class Beside, class Put>
    static __device__ __forceinline__ void backward(const struct frame &frame, int in, int out, const float *weight,
                                                    const float *dy, const struct share &share, Beside beside, Put put)
    {
        const struct matmul product = {frame.rows, in, out, dy, weight, out, in};
        matmul_share<BY_DEPTH, BY_LINE>(
            product, share, [](int) { return 0.0f; },
            [&](int row, int column, float sum) { put(row, column, few<1>{{sum}}, beside(row, column, one())); });
    }
    /* dW = dy^T x over so many rows, one tile; the first of a row of tiles adds up dy for the bias as well. */
    template <class Linear>
    static __device__ __forceinline__ void weights(const Linear &linear, int tile, size_t first, int rows, float *to)
    {
        const int across = (linear.in + MATMUL_TILE - 1) / MATMUL_TILE,
                  own = tile / across * MATMUL_TILE + (int)threadIdx.x;
        const bool sums = linear.biased && tile % across == 0 && threadIdx.x < MATMUL_TILE && own < linear.out;
        const struct matmul product = {
            linear.out, linear.in, rows, linear.dy + first * (size_t)linear.out, linear.x + first * (size_t)linear.in,
            linear.out, linear.in};
        float bias = 0;
        matmul_tile<BY_LINE, BY_LINE>(
            product, tile, [](int) { return 0.0f; },
            [&](int i, int j, float sum) { to[linear.weight + (size_t)i * (size_t)linear.in + (size_t)j] = sum; },
            [&](const struct matmul_slab &slab, int count) {
                for (int k = 0; sums && k < count; k++)
                    bias += slab.at[k][threadIdx.x];
            });
        if (sums)
            to[linear.bias + (size_t)own] = bias;
    }
    template <int HEAD>
    static __device__ __forceinline__ void attend(const struct attended<float> &a, int head, int part)
    {
        SHARED_BYTES(shared);
        attend_forward(a, head, part, shared);
    }
    template <int HEAD>
    static __device__ __forceinline__ void attend_queries(const struct attended<float> &a, int head, int part)
    {
        SHARED_BYTES(shared);
        attend_backward_queries(a, head, part, shared);
    }
    template <int HEAD>
    static __device__ __forceinline__ void attend_keys(const struct attended<float> &a, int head, int part)
    {
        SHARED_BYTES(shared);
        attend_backward_keys(a, head, part, shared);
    }
};

#endif
