/* Adam (L-10): one flat pass over parameters and moments. */
#ifndef NN_ADAM_H
#define NN_ADAM_H

#include <stdint.h>

#include "nn/real.h"

struct adam {
    double lr, beta1, beta2, epsilon;
    uint64_t step; /* number of the step to take, from 1 */
};

/* g is multiplied by `factor` (the clip) as it is read. */
void adam_step(const struct adam *adam, size_t count, real factor, const real *g, real *w, real *m, real *v);

#endif
