/* The machine's peak arithmetic rate, measured with the vectors that this variant uses. */
#ifndef NN_ROOF_H
#define NN_ROOF_H

/* Nothing but independent multiply-adds; returns the floating-point operations done. The caller measures the time. */
double roof_multiply_add(long rounds);

#endif
