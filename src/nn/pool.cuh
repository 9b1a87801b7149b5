/* Max pooling 2x2, stride 2, of one image by one thread block, alone and after a norm; height and width are even. */
#ifndef NN_POOL_CUH
#define NN_POOL_CUH

#include "nn/block.cuh"

/* Index of the window's first value, from that of the pooled one, and the way to its neighbours. */
struct window {
    int at, right, below;
};

template <class M> DEVICE struct window pool_window(int i, int c, int height, int width, int channels)
{
    const int half = width / 2;
    if constexpr (map_form<M>::WIDTH == 1) {
        const int p = i / channels, at = 2 * (p / half) * width + 2 * (p % half);
        return {at * channels + c, channels, width * channels};
    } else {
        const int plane = c / map_form<M>::WIDTH, p = i - plane * (height / 2 * half), y = small_quotient(p, half);
        return {(plane * height + 2 * y) * width + 2 * (p - y * half), 1, width};
    }
}

template <class M> DEVICE void pool_forward(int height, int width, int channels, const struct source<M> &in, M *out)
{
    map_set<M, map_form<M>::WINDOWS_AHEAD>(height / 2 * (width / 2), channels, out, [&](int i, int c) {
        const struct window w = pool_window<M>(i, c, height, width, channels);
        const int below = w.at + w.below;
        return apply(
            [](float y0, float y1, float y2, float y3) {
                float top = y1 > y0 ? y1 : y0, bottom = y3 > y2 ? y3 : y2;
                return bottom > top ? bottom : top;
            },
            source_at(in, w.at, c), source_at(in, w.at + w.right, c), source_at(in, below, c),
            source_at(in, below + w.right, c));
    });
}

/* Octets: the largest of a window is compared as it is stored. A norm keeps the order of its channel's values, or,
 * where its scale is negative, turns it round, and rounding keeps it. */
DEVICE void pool_forward(int height, int width, int channels, const struct source<struct octet> &in, struct octet *out)
{
    map_set(height / 2 * (width / 2), channels, out, [&](int i, int c) {
        const struct window w = pool_window<struct octet>(i, c, height, width, channels);
        const struct octet *from = in.map + w.at;
        const uint4 x0 = from[0].bits, x1 = from[w.right].bits, x2 = from[w.below].bits,
                    x3 = from[w.below + w.right].bits;
        const struct eight most = numbers_of(octets_merged(x0, x1, x2, x3, max_bf16));
        if (!in.scale)
            return most;
        const struct eight least = numbers_of(octets_merged(x0, x1, x2, x3, min_bf16));
        return apply([](float high, float low, float scale,
                        float shift) { return normed(scale < 0 ? low : high, scale, shift); },
                     most, least, channels_of<struct octet>(in.scale, c), channels_of<struct octet>(in.shift, c));
    });
}

/* On ties the gradient goes to the first maximum in row-major order. */
template <class M>
DEVICE void pool_backward(int height, int width, int channels, const struct source<M> &in, const M *g, M *out)
{
    struct routed {
        struct window window;
        value_of<M> g[4];
    };
    each_value<M, map_form<M>::WINDOWS_AHEAD>(
        height / 2 * (width / 2), channels,
        [&](int i, int c) {
            struct routed routed;
            const struct window w = routed.window = pool_window<M>(i, c, height, width, channels);
            const int below = w.at + w.below;
            apply_to<4>(
                routed.g,
                [](float *to, float y0, float y1, float y2, float y3, float from) {
                    bool right0 = y1 > y0, right1 = y3 > y2, low = (right1 ? y3 : y2) > (right0 ? y1 : y0);
                    const int place = low ? 2 + right1 : (int)right0;
#pragma unroll
                    for (int k = 0; k < 4; k++)
                        to[k] = place == k ? from : 0;
                },
                source_at(in, w.at, c), source_at(in, w.at + w.right, c), source_at(in, below, c),
                source_at(in, below + w.right, c), load(g, i));
            return routed;
        },
        [&](int, const struct routed &routed) {
#pragma unroll
            for (int k = 0; k < 4; k++)
                store(out, routed.window.at + k / 2 * routed.window.below + k % 2 * routed.window.right, routed.g[k]);
        });
}

/* ---- a pool right after a norm and its ReLU -----------------------------------------------------------------------
 */

/*
 * norm_grad_sums and norm_grad from the gradient after the pool, which the first maximum of a window takes, without a
 * map of it before the pool. A window's values are compared before the ReLU: where that cuts them all, none passes.
 */
template <class M> struct window_values {
    value_of<M> x[4], scale, shift;
};

template <class M>
DEVICE struct window_values<M> window_load(const struct norm &norm, const M *x, const struct window &w, int c) {
    struct window_values<M> v;
#pragma unroll
    for (int k = 0; k < 4; k++)
        v.x[k] = load(x, w.at + k / 2 * w.below + k % 2 * w.right);
    v.scale = channels_of<M>(norm.scale, c);
    v.shift = channels_of<M>(norm.shift, c);
    return v;
}

/* Which of the four the gradient goes to; 4: none. */
DEVICE int
window_winner(float x0, float x1, float x2, float x3, float scale, float shift)
{
    const float z0 = fmaf(x0, scale, shift), z1 = fmaf(x1, scale, shift), z2 = fmaf(x2, scale, shift),
                z3 = fmaf(x3, scale, shift);
    const bool right0 = z1 > z0, right1 = z3 > z2;
    const float top = right0 ? z1 : z0, bottom = right1 ? z3 : z2;
    const bool low = bottom > top;
    return !((low ? bottom : top) > 0) ? 4 : low ? 2 + right1 : (int)right0;
}

template <class M, class Put>
DEVICE void pool_grad_sums(int height, int width, int channels, const struct norm &norm, const M *x, const M *g,
                           Put put)
{
    map_sums<2, M>(
        height / 2 * (width / 2), channels,
        [&](int i, int c, value_of<M> *v) {
            const struct window_values<M> of = window_load(norm, x, pool_window<M>(i, c, height, width, channels), c);
            apply_to<2>(
                v,
                [](float *term, float x0, float x1, float x2, float x3, float scale, float shift, float from,
                   float centre) {
                    const int place = window_winner(x0, x1, x2, x3, scale, shift);
                    const float won = place < 2 ? (place == 0 ? x0 : x1) : place == 2 ? x2 : x3;
                    term[0] = place < 4 ? from : 0;
                    term[1] = term[0] * (won - centre);
                },
                of.x[0], of.x[1], of.x[2], of.x[3], of.scale, of.shift, load(g, i), channels_of<M>(norm.centre, c));
        },
        put);
}

template <class M>
DEVICE void pool_grad(int height, int width, int channels, const struct norm &norm, const M *x, const M *g, M *out)
{
    struct spread {
        struct window window;
        value_of<M> g[4];
    };
    each_value<M, map_form<M>::WINDOWS_AHEAD>(
        height / 2 * (width / 2), channels,
        [&](int i, int c) {
            struct spread spread;
            spread.window = pool_window<M>(i, c, height, width, channels);
            const struct window_values<M> of = window_load(norm, x, spread.window, c);
            apply_to<4>(
                spread.g,
                [](float *to, float x0, float x1, float x2, float x3, float scale, float shift, float from, float slope,
                   float offset) {
                    const int place = window_winner(x0, x1, x2, x3, scale, shift);
                    to[0] = fmaf(x0, slope, offset) + (place == 0 ? from : 0);
                    to[1] = fmaf(x1, slope, offset) + (place == 1 ? from : 0);
                    to[2] = fmaf(x2, slope, offset) + (place == 2 ? from : 0);
                    to[3] = fmaf(x3, slope, offset) + (place == 3 ? from : 0);
                },
                of.x[0], of.x[1], of.x[2], of.x[3], of.scale, of.shift,
                apply([](float from, float gain) { return from * gain; }, load(g, i), channels_of<M>(norm.gain, c)),
                channels_of<M>(norm.slope, c), channels_of<M>(norm.offset, c));
            return spread;
        },
        [&](int, const struct spread &spread) {
#pragma unroll
            for (int k = 0; k < 4; k++)
                store(out, spread.window.at + k / 2 * spread.window.below + k % 2 * spread.window.right, spread.g[k]);
        });
}

#endif
