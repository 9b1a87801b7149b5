/* Gradients against central differences (I-12); for the double variant. */
#ifndef CHECK_NUMERIC_PROBE_H
#define CHECK_NUMERIC_PROBE_H

#include "check/numeric_util.h"
#include "morph/layout.h"

#define FD_LIMIT 1e-5

struct probe {
    double (*loss)(void *context);
    void *context;
};

/* The worst difference between `grads` and the slope of the loss, relative to the largest gradient of the array. */
double probe_error(const struct probe *probe, real *values, const real *grads, size_t count, uint32_t key);
/* One case per tensor of the layout. */
void probe_layout(struct check_report *report, const struct probe *probe, const struct param_layout *layout,
                  real *params, const real *grads, const char *what);

#endif
