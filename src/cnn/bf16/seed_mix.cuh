/* The blend operators: how host and seed are mixed. */
#ifndef CNN_BF16_SEED_MIX_CUH
#define CNN_BF16_SEED_MIX_CUH

#include "cnn/bf16/seed.cuh"
#include "cnn/bf16/seed_kinds.cuh"

extern "C" {
#include "morph/slot.h"
}

DEVICE float blend_tanh(float x)
{
#ifdef EMULATE
    return tanhf(x);
#else
    float y; /* accurate to 2^-11, an eighth of bf16's precision */
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

/* How much of the seed the thread's image gets. */
template <class T> DEVICE float blend_amplitude(const T &tile, const seed_gate<T> &gate, const struct blend &blend)
{
    return blend.gate ? fminf(fmaxf(blend.alpha * gate.q()[tile.at.image], 0.0f), 1.0f) : blend.alpha;
}

/* y from x and d; y may be x or d. The operators branch outside their loops: registers are scarce. */
template <class MAP>
DEVICE void blend_mix(patch<MAP> &y, const patch<MAP> &x, const patch<MAP> &d, float amplitude, bool multiply)
{
    if (multiply)
        patch_each<MAP>([&](int m, int n, int h) INLINED {
            const float2 v = pair_floats(x.pair[m][n][h]), e = pair_floats(d.pair[m][n][h]);
            y.pair[m][n][h] =
                pack_bf16(v.x * fmaf(amplitude, blend_tanh(e.x), 1.0f), v.y * fmaf(amplitude, blend_tanh(e.y), 1.0f));
        });
    else
        patch_each<MAP>([&](int m, int n, int h) INLINED {
            const float2 v = pair_floats(x.pair[m][n][h]), e = pair_floats(d.pair[m][n][h]);
            y.pair[m][n][h] = pack_bf16(fmaf(amplitude, e.x, v.x), fmaf(amplitude, e.y, v.y));
        });
}

/*
 * Backward through a product: g, the gradient of y, becomes the part that reaches x directly; that of d is the
 * amplitude times u. For a sum both are g, unchanged.
 */
template <class MAP>
DEVICE void blend_unmix(patch<MAP> &g, patch<MAP> &u, const patch<MAP> &x, const patch<MAP> &d, float amplitude)
{
    patch_each<MAP>([&](int m, int n, int h) INLINED {
        const float2 v = pair_floats(g.pair[m][n][h]), e = pair_floats(d.pair[m][n][h]),
                     at = pair_floats(x.pair[m][n][h]);
        const float s = blend_tanh(e.x), t = blend_tanh(e.y);
        u.pair[m][n][h] = pack_bf16(v.x * at.x * fmaf(-s, s, 1.0f), v.y * at.y * fmaf(-t, t, 1.0f));
        g.pair[m][n][h] = pack_bf16(fmaf(amplitude * s, v.x, v.x), fmaf(amplitude * t, v.y, v.y));
    });
}

/* The thread's part of the gradient of a learned amplitude (never of a product). */
template <class MAP> DEVICE float blend_of_amplitude(const patch<MAP> &g, const patch<MAP> &d)
{
    float sum = 0;
    patch_each<MAP>([&](int m, int n, int h) INLINED {
        const float2 v = pair_floats(g.pair[m][n][h]), e = pair_floats(d.pair[m][n][h]);
        sum = fmaf(v.x, e.x, fmaf(v.y, e.y, sum));
    });
    return sum;
}

#endif
