#include "bench/measure.h"

#include "base/clock.h"

struct repetition {
    const struct measure *measure;
    double rate[POOL_MAX_THREADS]; /* [item] */
};

static void repeat_item(void *context, int item, int thread)
{
    struct repetition *repetition = context;
    const struct measure *measure = repetition->measure;
    double done = 0, start = clock_seconds(), now;
    (void)thread;
    do {
        done += measure->work(measure->subject, item);
        now = clock_seconds();
    } while (now - start < measure->seconds);
    repetition->rate[item] = done / (now - start);
}

void measure_repeat(struct measure *measure, struct pool *pool)
{
    struct repetition repetition = {.measure = measure};
    double rate = 0;
    pool_run(pool, repeat_item, &repetition, measure->items);
    for (int item = 0; item < measure->items; item++)
        rate += repetition.rate[item];
    if (rate > measure->best)
        measure->best = rate;
}
