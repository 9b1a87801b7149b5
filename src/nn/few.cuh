/* Numbers on the device as they are kept: fp32, or bf16 where products read them; one at a time, or a few neighbours.
 */
#ifndef NN_FEW_CUH
#define NN_FEW_CUH

#include <type_traits>

#include "cuda/warp.cuh"

struct bf16 {
    uint16_t bits;
};

/* Neighbours of a row, from a multiple of N on. */
template <int N> struct few {
    float v[N];
};

DEVICE float number(float x)
{
    return x;
}

DEVICE float number(struct bf16 x)
{
    return __uint_as_float((uint32_t)x.bits << 16);
}

DEVICE void keep(float *to, float x)
{
    *to = x;
}

DEVICE void keep(struct bf16 *to, float x)
{
    to->bits = (uint16_t)pack_bf16(x, 0);
}

DEVICE void keep(float *to, const struct few<1> &x)
{
    *to = x.v[0];
}

DEVICE void keep(float *to, const struct few<2> &x)
{
    *(float2 *)to = make_float2(x.v[0], x.v[1]);
}

DEVICE void keep(struct bf16 *to, const struct few<2> &x)
{
    *(uint32_t *)to = pack_bf16(x.v[0], x.v[1]);
}

DEVICE void keep(float *to, const struct few<4> &x)
{
    *(float4 *)to = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
}

DEVICE void keep(float *to, const struct few<8> &x)
{
    ((float4 *)to)[0] = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
    ((float4 *)to)[1] = make_float4(x.v[4], x.v[5], x.v[6], x.v[7]);
}

DEVICE void keep(struct bf16 *to, const struct few<4> &x)
{
    *(uint2 *)to = make_uint2(pack_bf16(x.v[0], x.v[1]), pack_bf16(x.v[2], x.v[3]));
}

DEVICE void keep(struct bf16 *to, const struct few<8> &x)
{
    *(uint4 *)to = make_uint4(pack_bf16(x.v[0], x.v[1]), pack_bf16(x.v[2], x.v[3]), pack_bf16(x.v[4], x.v[5]),
                              pack_bf16(x.v[6], x.v[7]));
}

template <int N> DEVICE struct few<N> few_at(const float *from) {
    if constexpr (N == 8) {
        const float4 a = ((const float4 *)from)[0], b = ((const float4 *)from)[1];
        return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
    } else if constexpr (N == 4) {
        const float4 four = *(const float4 *)from;
        return {{four.x, four.y, four.z, four.w}};
    } else if constexpr (N == 2) {
        const float2 two = *(const float2 *)from;
        return {{two.x, two.y}};
    } else {
        return {{*from}};
    }
}

template <int N>
DEVICE struct few<N> few_at(const struct bf16 *from) {
    static_assert(N == 2 || N == 4 || N == 8, "words of 32, 64 or 128 bits");
    if constexpr (N == 8) {
        const uint4 w = *(const uint4 *)from;
        return {{bf16_lo(w.x), bf16_hi(w.x), bf16_lo(w.y), bf16_hi(w.y), bf16_lo(w.z), bf16_hi(w.z), bf16_lo(w.w),
                 bf16_hi(w.w)}};
    } else if constexpr (N == 4) {
        const uint2 w = *(const uint2 *)from;
        return {{bf16_lo(w.x), bf16_hi(w.x), bf16_lo(w.y), bf16_hi(w.y)}};
    } else {
        const uint32_t pair = *(const uint32_t *)from;
        return {{bf16_lo(pair), bf16_hi(pair)}};
    }
}

/* What is read or written once and then not for long (cuda/warp.cuh). */
DEVICE struct few<4>
few_once(const float *from) {
    const float4 four = read_once((const float4 *)from);
    return {{four.x, four.y, four.z, four.w}};
}

DEVICE void
keep_once(float *to, const struct few<4> &x)
{
    write_once((float4 *)to, make_float4(x.v[0], x.v[1], x.v[2], x.v[3]));
}

DEVICE void keep_once(struct bf16 *to, const struct few<2> &x)
{
    write_once((uint32_t *)to, pack_bf16(x.v[0], x.v[1]));
}

/* f(x, y), number by number. */
template <int N, class F> DEVICE struct few<N> paired(const struct few<N> &x, const struct few<N> &y, F f) {
    struct few<N> z;
#pragma unroll
    for (int i = 0; i < N; i++)
        z.v[i] = f(x.v[i], y.v[i]);
    return z;
}

/* What lies beside a product's elements: f(row, column, how many neighbours, as a type). Nothing, or numbers in rows of
 * `stride`; NULL: zeros. */
struct nothing_beside {
    template <class N> __device__ __forceinline__ struct few<1> operator()(int, int, N) const {
        return {};
    }
};

template <class T> struct numbers_beside {
    const T *from;
    int stride;

    __device__ __forceinline__ numbers_beside(const T *first, int apart) : from(first), stride(apart)
    {
    }
    template <class N> __device__ __forceinline__ struct few<N::value> operator()(int row, int column, N) const {
        if (!from)
            return {};
        return few_at<N::value>(from + (size_t)row * (size_t)stride + (size_t)column);
    }
};

#endif
