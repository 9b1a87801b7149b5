/* A test rig: a seed by itself. Compiled into every variant. */
#ifndef CHECK_NUMERIC_SOLO_H
#define CHECK_NUMERIC_SOLO_H

#include "check/numeric_util.h"
#include "cnn/cpu/work.h"

/* One slot's seed, without a host around it. */
struct solo {
    struct seed_site site;
    struct seed_scratch scratch;
};
void solo_init(struct solo *solo, struct scrap *scrap, int channels, int height, int width, int images);
struct seed solo_seed(const struct solo *solo, int blueprint, const real *w, real *g);

#endif
