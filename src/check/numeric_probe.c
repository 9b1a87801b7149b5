#include "check/numeric_probe.h"

#include <math.h>

#define FD_STEP 1e-6

enum { FD_SAMPLES = 10 }; /* elements tried per array */

double probe_error(const struct probe *probe, real *values, const real *grads, size_t count, uint32_t key)
{
    double worst = 0, largest = 1e-3; /* below which a gradient may be nothing but rounding */
    for (size_t i = 0; i < count; i++)
        if (fabs((double)grads[i]) > largest)
            largest = fabs((double)grads[i]);
    size_t samples = count < FD_SAMPLES ? count : FD_SAMPLES;
    for (size_t k = 0; k < samples; k++) {
        size_t i = count <= FD_SAMPLES ? k : random_word_of(key, (uint32_t)k) % count;
        real kept = values[i];
        values[i] = kept + (real)FD_STEP;
        double above = probe->loss(probe->context);
        values[i] = kept - (real)FD_STEP;
        double below = probe->loss(probe->context);
        values[i] = kept;
        double error = fabs((above - below) / (2 * FD_STEP) - (double)grads[i]) / largest;
        if (error > worst || error != error)
            worst = error;
    }
    return worst;
}

void probe_layout(struct check_report *report, const struct probe *probe, const struct param_layout *layout,
                  real *params, const real *grads, const char *what)
{
    for (int t = 0; t < layout->count; t++) {
        const struct tensor_layout *tensor = &layout->tensor[t];
        double error = probe_error(probe, params + tensor->offset, grads + tensor->offset, tensor->size, (uint32_t)t);
        case_error(report, error, FD_LIMIT, "%s %s (I-12)", what, tensor->name);
    }
}
