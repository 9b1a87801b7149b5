/* GELU on the device, quickly: for numbers that will be rounded to bf16. */
#ifndef NN_GELU_CUH
#define NN_GELU_CUH

#include "cuda/warp.cuh"

/*
 * Phi(x) as 1 / (1 + exp(-x p(x x))), p a fitted polynomial: x Phi to 3e-5 and its slope to 1.1e-4, Phi itself to 4 %
 * of it down to x = -4. In base 2. Beyond 8, where Phi is 0 or 1, the polynomial is held: it would turn round.
 */
#define GELU_FIT_0   1.59501416f
#define GELU_FIT_1   0.0740131659f
#define GELU_FIT_2   -0.0007034263f
#define GELU_LOG     1.44269504f
#define GELU_SQUARES 64.0f

DEVICE float gelu_share(float x, float square)
{
    const float p = fmaf(fmaf(GELU_LOG * GELU_FIT_2, square, GELU_LOG * GELU_FIT_1), square, GELU_LOG * GELU_FIT_0);
    return quick_reciprocal(1 + quick_exp2(-x * p));
}

DEVICE float gelu(float x)
{
    return x * gelu_share(x, fminf(x * x, GELU_SQUARES));
}

DEVICE float gelu_both(float x, float *slope)
{
    const float square = fminf(x * x, GELU_SQUARES), share = gelu_share(x, square),
                bend = fmaf(fmaf(5 * GELU_FIT_2, square, 3 * GELU_FIT_1), square, GELU_FIT_0);
    *slope = fmaf(fmaf(-share, share, share), x * bend, share);
    return x * share;
}

#endif
