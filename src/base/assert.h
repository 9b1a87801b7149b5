/*
 * ESPER_ASSERT(condition): what the code takes for granted about indices and layouts. A debug build (make DEBUG=1)
 * stops where it does not hold, on the host and in kernels, and names the place; any other build does not even evaluate
 * it.
 */
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

#ifdef ESPER_DEBUG
#include <stdio.h>
#include <stdlib.h>

#ifdef __CUDA_ARCH__
#define ESPER_ASSERT(condition)                                                                                        \
    ((condition) ? (void)0 : (printf("esper: %s:%d: %s does not hold\n", __FILE__, __LINE__, #condition), __trap()))
#else
#define ESPER_ASSERT(condition)                                                                                        \
    ((condition) ? (void)0                                                                                             \
                 : (fprintf(stderr, "esper: %s:%d: %s does not hold\n", __FILE__, __LINE__, #condition), abort()))
#endif
#else
#define ESPER_ASSERT(condition) ((void)sizeof(!(condition)))
#endif

#endif
