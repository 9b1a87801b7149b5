/*
 * exp as a loop body that the compiler can vectorise, accurate to a few units in the last place. NAN propagates.
 */
#ifndef NN_EXPONENT_H
#define NN_EXPONENT_H

#include <math.h>

#include "nn/real.h"

/* x = n ln 2 + r gives exp(x) = power + power * excess with power = 2^n and excess = exp(r) - 1. |x| <= 87. */
struct exponential {
    float power, excess;
};

static inline struct exponential exponential_of(float x)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer, in the lowest bits */
    union {
        float f;
        uint32_t i;
    } shifted = {.f = x * 1.44269504f + shift}, power;
    const float n = shifted.f - shift;
    float r = (x - n * 0.693145751953125f) - n * 1.42860682030941723e-6f;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * (r * r) + r;
    power.i = (shifted.i - 0x4b400000u + 127) << 23; /* of NAN anything: the rest is NAN */
    return (struct exponential){power.f, p};
}

/* exp(x) for x <= 0, never below exp(-87); the double variant uses libm. */
static inline real exp_below(real x)
{
    if (sizeof(real) == 8)
        return (real)exp((double)x);
    struct exponential e = exponential_of(x < -87 ? -87.0f : (float)x);
    return (real)(e.power + e.power * e.excess);
}

#endif
