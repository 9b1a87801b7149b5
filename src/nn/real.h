/*
 * The number type and the vectors of the numeric code.
 *
 * Everything under nn/, and the networks built from it, is written over `real` and compiled once per variant: float for
 * each instruction set, double for the finite-difference checks. Vectors are GCC vector extensions, so one source
 * serves NEON, AVX2 and AVX-512.
 *
 * Activations are NHWC with the channel count rounded up to four: a pixel is always a whole number of vectors. The
 * padding lanes hold zeros at all times; every operation below preserves that.
 */
#ifndef NN_REAL_H
#define NN_REAL_H

#include <stddef.h>
#include <stdint.h>

#ifndef REAL
#define REAL float /* the rest of the program sees the float variants only */
#endif

typedef REAL real;

enum { LANES = 4 }; /* the granule of channel padding, and the vector that every machine has */

#ifndef __cplusplus /* device code has its own vectors */
typedef real vec4 __attribute__((vector_size(4 * sizeof(real)), aligned(sizeof(real)), may_alias));
typedef real vec8 __attribute__((vector_size(8 * sizeof(real)), aligned(sizeof(real)), may_alias));
typedef real vec16 __attribute__((vector_size(16 * sizeof(real)), aligned(sizeof(real)), may_alias));

/* The integer masks that go with them: the type of a comparison between two vectors. */
typedef __typeof__(__builtin_choose_expr(sizeof(real) == 4, (int32_t)0, (int64_t)0)) real_bits;
typedef real_bits mask4 __attribute__((vector_size(4 * sizeof(real_bits))));
typedef real_bits mask8 __attribute__((vector_size(8 * sizeof(real_bits))));
typedef real_bits mask16 __attribute__((vector_size(16 * sizeof(real_bits))));

#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Channels as stored. */
static inline int padded(int channels)
{
    return (channels + LANES - 1) / LANES * LANES;
}

#endif
