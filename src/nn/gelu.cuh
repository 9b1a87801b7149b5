/* GELU on the device, quickly: for numbers that will be rounded to bf16. */
#ifndef NN_GELU_CUH
#define NN_GELU_CUH

#include "cuda/warp.cuh"

/*
 * Of two numbers at once, in fp16. Phi(x) as (1 + tanh(x (a + b x x))) / 2, right at 0. x Phi is off by 1.3e-3 x at
 * most and its slope by 2.4e-3; for normal x, the root of the mean square is 2.8e-4 and 3.6e-4, where rounding to bf16
 * adds 1.1e-3 and 1.3e-3. The instruction's own error of the tangent, 2^-11, comes on top by half. Of what is added up
 * for the slope nothing may be infinite; the tangent's argument may.
 */
#define GELU_TANH_0     0x3a623a62u /* a: 0.79785, the root of 2 / pi */
#define GELU_TANH_1     0x28952895u /* b: 0.035797 */
#define GELU_BEND_0     0x36623662u /* a / 2 */
#define GELU_BEND_1     0x2adc2adcu /* 3 b / 2: 0.053589 */
#define GELU_PAIR_HALF  0x38003800u
#define GELU_PAIR_ONE   0x3c003c00u
#define GELU_PAIR_LIMIT 0x54005400u /* 64 */

DEVICE uint32_t gelu_pair_tanh(uint32_t x, uint32_t square)
{
    return quick_tanh_f16(multiply_f16(x, fma_f16(square, GELU_TANH_1, GELU_TANH_0)));
}

DEVICE uint32_t gelu_pair_rounded(uint32_t y)
{
    return pack_bf16(f16_lo(y), f16_hi(y));
}

/* All yield pairs of bf16. */
DEVICE uint32_t gelu_pair(float lo, float hi)
{
    const uint32_t x = pack_f16(lo, hi), t = gelu_pair_tanh(x, multiply_f16(x, x));
    return gelu_pair_rounded(multiply_f16(x, fma_f16(t, GELU_PAIR_HALF, GELU_PAIR_HALF)));
}

DEVICE uint32_t gelu_pair_both(float lo, float hi, uint32_t *slope)
{
    const uint32_t x = pack_f16(lo, hi), square = min_f16(multiply_f16(x, x), GELU_PAIR_LIMIT),
                   t = gelu_pair_tanh(x, square), share = fma_f16(t, GELU_PAIR_HALF, GELU_PAIR_HALF),
                   bend = fma_f16(square, GELU_BEND_1, GELU_BEND_0), steep = fnma_f16(t, t, GELU_PAIR_ONE);
    *slope = gelu_pair_rounded(fma_f16(multiply_f16(x, steep), bend, share));
    return gelu_pair_rounded(multiply_f16(x, share));
}

#endif
