#include "bench/suite.h"

#include "base/clock.h"
#include "base/memory.h"
#include "variant/variant.h"

enum { ROUNDS = 5 };
static const double budget_seconds = 36, peer_budget_seconds = 4.5;

static enum esper_status create_parts(struct suite *suite, struct esper_error *error)
{
    const struct suite_options *options = &suite->options;
    TRY(pool_create(options->threads, &suite->pool, error));
    if (options->roof)
        TRY(roof_init(&suite->roof, options->threads, error));
    if (options->kernels || !options->peer)
        TRY(kernels_init(&suite->kernels, error));
    if (options->peer || !options->kernels)
        TRY(steps_init(&suite->steps, options->threads, options->peer, error));
    return ESPER_OK;
}

enum esper_status suite_create(struct suite **out, const struct suite_options *options, struct esper_error *error)
{
    struct suite *suite = memory_alloc(1, sizeof *suite, error);
    if (!suite)
        return ESPER_FAILED;
    suite->options = *options;
    suite->variant = variant_best()->name;
    machine_describe(&suite->machine);
    enum esper_status status = create_parts(suite, error);
    if (status != ESPER_OK)
        suite_free(suite);
    else
        *out = suite;
    return status;
}

void suite_free(struct suite *suite)
{
    if (!suite)
        return;
    roof_free(&suite->roof);
    kernels_free(&suite->kernels);
    steps_free(&suite->steps);
    pool_free(suite->pool);
    memory_free(suite);
}

/* A walk over every measure: counts them, or repeats each once. */
struct round {
    struct suite *suite;
    bool count_only;
    int done, total;
    suite_progress *progress;
    void *context;
};

static void visit(struct round *round, struct measure *measure)
{
    if (!round->count_only) {
        if (round->progress)
            round->progress(round->context, round->done, round->total);
        measure_repeat(measure, round->suite->pool);
    }
    round->done++;
}

static void visit_all(struct round *round)
{
    struct suite *suite = round->suite;
    for (int kind = 0; suite->options.roof && kind < ROOF_KINDS; kind++) {
        visit(round, &suite->roof.one[kind]);
        visit(round, &suite->roof.all[kind]);
    }
    for (int i = 0; i < suite->kernels.count; i++)
        for (int d = 0; d < KERNEL_DIRECTIONS; d++)
            if (kernel_measured(&suite->kernels.cases[i], (enum kernel_direction)d))
                visit(round, &suite->kernels.cases[i].measure[d]);
    for (int i = 0; i < suite->steps.cases; i++) {
        visit(round, &suite->steps.step[i].in_place);
        visit(round, &suite->steps.step[i].gathered);
    }
    for (int i = 0; i < suite->steps.evaluations; i++)
        visit(round, &suite->steps.evaluation[i].measure);
}

void suite_run(struct suite *suite, suite_progress *progress, void *context)
{
    struct round round = {.suite = suite, .count_only = true, .progress = progress, .context = context};
    visit_all(&round);
    round.total = ROUNDS * round.done;
    round.count_only = false;
    round.done = 0;
    double start = clock_seconds(), budget = suite->options.peer ? peer_budget_seconds : budget_seconds, last = 0;
    /* On a slow machine fewer rounds must do. */
    while (suite->rounds == 0 || (suite->rounds < ROUNDS && clock_seconds() - start + last < budget)) {
        double begin = clock_seconds();
        visit_all(&round);
        last = clock_seconds() - begin;
        suite->rounds++;
    }
    if (progress)
        progress(context, round.total, round.total);
}

double suite_step_gflops(const struct step_case *step)
{
    return 1e-9 * step->in_place.best * host_train_flops(&step->host->host.shape, step->grown);
}

double suite_step_ms(const struct step_case *step)
{
    return 1e3 * step->host->nets * step->host->host.config.data_batch / step->in_place.best;
}

double suite_roof_share(const struct suite *suite, double gflops, bool all_threads)
{
    const struct measure *roof = all_threads ? suite->roof.all : suite->roof.one;
    double best = roof[ROOF_MULTIPLY_ADD].best;
    return best > 0 ? 1e9 * gflops / best : 0;
}
