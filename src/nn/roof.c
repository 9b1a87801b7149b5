#include "nn/roof.h"

#include "nn/real.h"

typedef real widest __attribute__((vector_size(4 * VECTOR))); /* bytes: a register of this variant's machine */

#if defined(__aarch64__) || VECTOR == 16
enum { CHAINS = 24 }; /* of 32 registers: more chains than latency times units, with room for the operands */
#else
enum { CHAINS = 12 }; /* of 16 registers */
#endif

#if defined(__aarch64__)
#define IN_VECTOR "w"
#elif defined(__x86_64__)
#define IN_VECTOR "v"
#else
#define IN_VECTOR "m"
#endif

/* Fully unrolled, or the sums would live in memory. */
#define EVERY_CHAIN _Pragma("GCC unroll 32") for (int i = 0; i < CHAINS; i++)

double roof_multiply_add(long rounds)
{
    widest sum[CHAINS], factor = (widest){0} + (real)0.999, other = (widest){0} + (real)0.001;
    EVERY_CHAIN sum[i] = (widest){0} + (real)i;
    for (long r = 0; r < rounds; r++) {
        EVERY_CHAIN
        {
            __asm__ volatile("" : "+" IN_VECTOR(factor)); /* new as far as the compiler knows: no product is shared */
            sum[i] += factor * other;
        }
    }
    real total = 0;
    EVERY_CHAIN total += sum[i][0];
    volatile real sink = total;
    (void)sink;
    return 2.0 * CHAINS * (double)(sizeof(widest) / sizeof(real)) * (double)rounds;
}
