/*
 * ESPER_RULE marks the functions that say what Esper *means*: lifecycle, gates, schedules, random numbers. They are
 * static inline over plain structs and compile unchanged for the host and for the device, so that the two backends
 * cannot disagree. Where they are compiled, floating-point contraction is off.
 */
#ifndef BASE_RULE_H
#define BASE_RULE_H

#ifdef __CUDACC__
#define ESPER_RULE static inline __host__ __device__
#else
#define ESPER_RULE static inline
#endif

#endif
