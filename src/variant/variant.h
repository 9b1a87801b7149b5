/*
 * The numeric code, compiled once per instruction set, behind one table of entry points each.
 */
#ifndef VARIANT_VARIANT_H
#define VARIANT_VARIANT_H

#include "base/status.h"
#include "morph/family.h"
#include "morph/net.h"
#include "nn/conv.h"
#include "policy/network.h"

/*
 * SET(name, whether this machine runs it): the sets that the Makefile builds for this architecture, best first. With a
 * sanitizer (FEW_VARIANTS) the widest and the narrowest must do: kernels take it minutes to compile.
 */
#if defined(__x86_64__)
#define VARIANT_AVX512(SET)                                                                                            \
    SET(avx512, __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&                             \
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
#ifdef FEW_VARIANTS
#define VARIANTS(SET) VARIANT_AVX512(SET) SET(base, true)
#else
#define VARIANTS(SET)                                                                                                  \
    VARIANT_AVX512(SET) SET(avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) SET(base, true)
#endif
#elif defined(__aarch64__)
#define VARIANTS(SET) SET(neon, true)
#else
#define VARIANTS(SET) SET(base, true)
#endif

struct variant {
    const char *name;

    const struct net_kernels *net[FAMILY_COUNT];
    struct policy_kernels policy;

    /* For `esper bench`. */
    size_t (*conv_table_bytes)(int height, int width);
    void (*conv_init)(struct conv *conv, int height, int width, int cin, int cout, int kernel, void *table);
    size_t (*conv_packed_size)(const struct conv *conv);
    void (*conv_pack_forward)(const struct conv *conv, const real *weight, real *packed);
    void (*conv_pack_backward)(const struct conv *conv, const real *weight, real *packed);
    void (*conv_forward)(const struct conv *conv, int images, const real *in, const real *packed, real *out);
    void (*conv_backward_data)(const struct conv *conv, int images, const real *grad, const real *packed, real *out);
    void (*conv_backward_weights)(const struct conv *conv, int images, const real *in, const real *grad, real *sums);
    double (*roof_multiply_add)(long rounds); /* peak arithmetic: operations done; the caller measures time */
};

/* Every variant in this build that this machine can run, best first; NULL past the end. */
const struct variant *variant_at(int index);
/* The kernels that training uses here: the best, or those that $ESPER_KERNELS names, for the bits of another machine.
 */
const struct variant *variant_best(void);
/* Refuses an $ESPER_KERNELS that names none of them. */
enum esper_status variant_check(struct esper_error *error);

#endif
