/* Golden vectors of single modules: blueprints_cnn, seeds and the gate net alone. */
#ifndef CHECK_NUMERIC_MODULES_H
#define CHECK_NUMERIC_MODULES_H

#include "check/numeric_source.h"

struct module_case {
    const char *name;
    int blueprint; /* -1: the gate net */
    int images, height, width, channels;
    size_t pixels; /* of all images */
    const struct st_tensor *x, *y, *dy, *dx;
    struct param_layout layout;
    real *w, *g;                   /* [layout.storage] */
    real *in, *upstream, *out, *d; /* as stored; the gate's upstream and out are one value per image */
    real *dense;
};

/* From in, upstream and w to out, d and g; on the CPU or on a device. false: no memory. */
bool module_run(struct module_case *c, struct scrap *scrap);

void check_blueprints(const struct source *source);

#endif
