/*
 * `esper bench`: what is measured, in which order, and the results. Nothing here prints.
 *
 * Everything is repeated in rounds, one short repetition of each measure per round, so that a disturbance hits all of
 * them a little instead of ruining one of them.
 */
#ifndef BENCH_SUITE_H
#define BENCH_SUITE_H

#include "bench/kernels.h"
#include "bench/machine.h"
#include "bench/roof.h"
#include "bench/steps.h"

struct suite_options {
    bool roof;    /* also the machine's peaks */
    bool kernels; /* the convolution kernels alone */
    bool peer;    /* the training steps that bench/torch_peer.py compares, within seconds */
    int threads;  /* and networks */
};

struct suite {
    struct suite_options options;
    struct machine machine;
    const char *variant;
    struct pool *pool;
    int rounds;             /* done */
    struct roof roof;       /* if options.roof */
    struct kernels kernels; /* count 0, or */
    struct steps steps;     /* cases 0, where they are not asked for */
};

enum esper_status suite_create(struct suite **out, const struct suite_options *options, struct esper_error *error);
void suite_free(struct suite *suite);

/* Called before each measure; done counts up to total. */
typedef void suite_progress(void *context, int done, int total);
void suite_run(struct suite *suite, suite_progress *progress, void *context);

/* GFLOP/s of a step, and what share a speed is of the peak for that many threads; 0 when the peak was not measured. */
double suite_step_gflops(const struct step_case *step);
double suite_step_ms(const struct step_case *step); /* all networks do one step, images in place */
double suite_roof_share(const struct suite *suite, double gflops, bool all_threads);

#endif
