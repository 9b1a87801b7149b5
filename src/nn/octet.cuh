/*
 * What maps are made of on the device: floats, [pixel][channel], or octets, eight channels of a pixel in bf16,
 * [channel / 8][pixel]. Channels beyond the last are zero. Formulas are written for one number and applied to whatever
 * an element of a map holds; they are computed in fp32, and what is stored in an octet is rounded.
 */
#ifndef NN_OCTET_CUH
#define NN_OCTET_CUH

#include "cuda/warp.cuh"

struct octet {
    uint4 bits;
};

/* An octet's numbers. */
struct eight {
    float v[8];
};

template <class M> struct map_form;
template <> struct map_form<float> {
    typedef float value;
    /* Channels of an element; elements, and windows of a pool, that a thread reads before it writes one. */
    enum { WIDTH = 1, AHEAD = 4, WINDOWS_AHEAD = 4 };
};
template <> struct map_form<struct octet> {
    typedef struct eight value;
    enum { WIDTH = 8, AHEAD = 2, WINDOWS_AHEAD = 1 };
};
template <class M> using value_of = typename map_form<M>::value;

/* Elements across the channels of a pixel, and channels that are stored. */
template <class M> ESPER_RULE int map_planes(int channels)
{
    return (channels + map_form<M>::WIDTH - 1) / map_form<M>::WIDTH;
}
template <class M> ESPER_RULE int map_channels(int channels)
{
    return map_planes<M>(channels) * map_form<M>::WIDTH;
}
template <class M> ESPER_RULE size_t map_floats(int pixels, int channels) /* the room that a map takes */
{
    return (size_t)pixels * (size_t)map_planes<M>(channels) * sizeof(M) / sizeof(float);
}

DEVICE float load(const float *map, int i)
{
    return map[i];
}

DEVICE struct eight numbers_of(const uint4 &four)
{
    return {{bf16_lo(four.x), bf16_hi(four.x), bf16_lo(four.y), bf16_hi(four.y), bf16_lo(four.z), bf16_hi(four.z),
             bf16_lo(four.w), bf16_hi(four.w)}};
}

DEVICE struct eight load(const struct octet *map, int i)
{
    return numbers_of(map[i].bits);
}

DEVICE void store(float *map, int i, float v)
{
    map[i] = v;
}

DEVICE void store(struct octet *map, int i, const struct eight &x)
{
    map[i].bits = make_uint4(pack_bf16(x.v[0], x.v[1]), pack_bf16(x.v[2], x.v[3]), pack_bf16(x.v[4], x.v[5]),
                             pack_bf16(x.v[6], x.v[7]));
}

/* A coefficient per channel, of an element's channels from c on; the array has as many entries as channels are stored.
 */
template <class M> DEVICE value_of<M> channels_of(const float *array, int c)
{
    if constexpr (map_form<M>::WIDTH == 1) {
        return array[c];
    } else {
        const float4 a = *reinterpret_cast<const float4 *>(array + c),
                     b = *reinterpret_cast<const float4 *>(array + c + 4);
        return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
    }
}

/* The same of an array that has only real channels, the others being zero. */
template <class M, class T> DEVICE value_of<M> real_channels_of(const T *array, int c, int channels)
{
    if constexpr (map_form<M>::WIDTH == 1) {
        return (float)array[c];
    } else {
        struct eight x;
#pragma unroll
        for (int e = 0; e < 8; e++)
            x.v[e] = c + e < channels ? (float)array[c + e] : 0;
        return x;
    }
}

/* f of the pairs of four octets, in any order. */
template <class F> DEVICE uint4 octets_merged(const uint4 &a, const uint4 &b, const uint4 &c, const uint4 &d, F f)
{
    return make_uint4(f(f(a.x, b.x), f(c.x, d.x)), f(f(a.y, b.y), f(c.y, d.y)), f(f(a.z, b.z), f(c.z, d.z)),
                      f(f(a.w, b.w), f(c.w, d.w)));
}

/* ---- formulas ---------------------------------------------------------------------------------------------------- */

DEVICE float element(float x, int)
{
    return x;
}

DEVICE float element(const struct eight &x, int e)
{
    return x.v[e];
}

/* f(x, ...), number by number; a float among octets' numbers is the same for all of them. */
template <class F, class... V> DEVICE float apply(F f, float x, V... rest)
{
    return f(x, rest...);
}

template <class F, class... V> DEVICE struct eight apply(F f, const struct eight &x, const V &...rest)
{
    struct eight y;
#pragma unroll
    for (int e = 0; e < 8; e++)
        y.v[e] = f(x.v[e], element(rest, e)...);
    return y;
}

/* f(y, x, ...) for formulas with N results. */
template <int N, class F, class... V> DEVICE void apply_to(float *y, F f, float x, V... rest)
{
    f(y, x, rest...);
}

template <int N, class F, class... V>
DEVICE void apply_to(struct eight *y, F f, const struct eight &x, const V &...rest)
{
#pragma unroll
    for (int e = 0; e < 8; e++) {
        float one[N];
        f(one, x.v[e], element(rest, e)...);
#pragma unroll
        for (int k = 0; k < N; k++)
            y[k].v[e] = one[k];
    }
}

#endif
