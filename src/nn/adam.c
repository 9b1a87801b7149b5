#include "nn/adam.h"

#include <math.h>

void adam_step(const struct adam *adam, size_t count, real factor, const real *restrict g, real *restrict w,
               real *restrict m, real *restrict v)
{
    double step = (double)adam->step;
    const real rate = (real)(adam->lr / (1 - pow(adam->beta1, step)));
    const real root_scale = (real)(1 / sqrt(1 - pow(adam->beta2, step)));
    const real keep1 = (real)adam->beta1, add1 = (real)(1 - adam->beta1);
    const real keep2 = (real)adam->beta2, add2 = (real)(1 - adam->beta2), epsilon = (real)adam->epsilon;
    for (size_t i = 0; i < count; i++) {
        real d = factor * g[i];
        m[i] = keep1 * m[i] + add1 * d;
        v[i] = keep2 * v[i] + add2 * (d * d);
        real root = sizeof(real) == 8 ? (real)sqrt((double)v[i]) : (real)sqrtf((float)v[i]);
        w[i] -= rate * m[i] / (root * root_scale + epsilon);
    }
}
