#include "variant/variant.h"

extern const struct variant variant_double;
#if defined(__x86_64__)
extern const struct variant variant_avx512, variant_avx2, variant_base;
#elif defined(__aarch64__)
extern const struct variant variant_neon;
#else
extern const struct variant variant_base;
#endif

const struct variant *variant_at(int index)
{
    const struct variant *usable[8];
    int count = 0;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq"))
        usable[count++] = &variant_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        usable[count++] = &variant_avx2;
    usable[count++] = &variant_base;
#elif defined(__aarch64__)
    usable[count++] = &variant_neon;
#else
    usable[count++] = &variant_base;
#endif
    usable[count++] = &variant_double;
    return index >= 0 && index < count ? usable[index] : NULL;
}

const struct variant *variant_best(void)
{
    return variant_at(0);
}
