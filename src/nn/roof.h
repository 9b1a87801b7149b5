/* The machine's arithmetic roof, measured with the vectors that this variant computes with. */
#ifndef NN_ROOF_H
#define NN_ROOF_H

/* Nothing but independent multiply-adds; returns the floating-point operations done. The caller takes the time. */
double roof_multiply_add(long rounds);

#endif
