/* GELU on the device, quickly: for numbers that will be rounded to bf16. */
#ifndef NN_GELU_CUH
#define NN_GELU_CUH

#include "cuda/warp.cuh"

/* Phi(x): erf by a polynomial in 1 / (1 + p |z|) times the bell exp(-x x / 2), which the derivative needs as well, to
 * 2e-7. */
DEVICE float bell_sum(float x, float *bell)
{
    const float t = quick_reciprocal(fmaf(0.23164189f, fabsf(x), 1.0f));
    const float tail =
        fmaf(fmaf(fmaf(fmaf(0.5307027145f, t, -0.7265760135f), t, 0.7107068705f), t, -0.142248368f), t, 0.127414796f);
    *bell = quick_exp2(x * x * -0.72134752f);
    const float above = tail * t * *bell; /* Phi(-|x|) */
    return x < 0 ? above : 1 - above;
}

DEVICE float gelu(float x)
{
    float bell;
    return x * bell_sum(x, &bell);
}

DEVICE float gelu_both(float x, float *slope)
{
    float bell;
    const float phi = bell_sum(x, &bell);
    *slope = fmaf(x * 0.39894228f, bell, phi);
    return x * phi;
}

#endif
