/* The blend operators on a tile: how host and seed are mixed. */
#ifndef MORPH_OLD_SEED_MIX_CUH
#define MORPH_OLD_SEED_MIX_CUH

#include "morph/old_kinds.cuh"

extern "C" {
#include "morph/slot.h"
}

/* How a slot's seed is mixed in. */
struct blend {
    int blueprint; /* BLUEPRINT_NOOP where nothing of the seed is in the output */
    bool multiply, gate, train;
    float alpha;
};

DEVICE struct blend blend_of(const struct slot_exec &exec)
{
    struct blend blend;
    blend.alpha = exec.alpha < 0 ? 0 : exec.alpha > 1 ? 1 : exec.alpha;
    blend.blueprint = blend.alpha == 0 ? (int)BLUEPRINT_NOOP : (int)exec.blueprint;
    blend.multiply = exec.algorithm == ALGORITHM_MULTIPLY;
    blend.gate = exec.gate;
    blend.train = exec.train;
    return blend;
}

DEVICE float blend_tanh(float x)
{
#ifdef EMULATE
    return tanhf(x);
#else
    float y; /* good to 2^-11, an eighth of what bf16 shows */
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

/* Coefficients of the output and amplitude of this thread's cells. */
template <class T, class SEED> struct blend_own {
    tile_own<typename T::MAP> own;
    float a[8], b[8], amplitude;

    DEVICE_MEMBER blend_own(const SEED &seed, const seed_gate<T> &gate, const struct blend &blend)
    {
        tile_coefficients(a, seed.norm().scale + own.channel());
        tile_coefficients(b, seed.norm().shift + own.channel());
        amplitude = blend.gate ? fminf(fmaxf(blend.alpha * gate.q()[own.image], 0.0f), 1.0f) : blend.alpha;
    }
    /* Input x and output s of the seed. */
    DEVICE_MEMBER void load(float x[8], float s[8], const T &tile, const SEED &seed, uint32_t cell) const
    {
        float z[8];
        tile_load(x, tile.x + cell);
        if (SEED::RESIDUAL)
            tile_load(z, seed.z() + cell);
#pragma unroll
        for (int i = 0; i < 8; i++)
            s[i] = seed_output<SEED>(x[i], SEED::RESIDUAL ? z[i] : 0, a[i], b[i]);
    }
    DEVICE_MEMBER void mix(float y[8], const float x[8], const float s[8], bool multiply) const
    {
#pragma unroll
        for (int i = 0; i < 8; i++)
            y[i] = multiply ? x[i] * fmaf(amplitude, blend_tanh(s[i] - x[i]), 1.0f)
                            : fmaf(amplitude, s[i] - x[i], x[i]);
    }
};

#endif
