/*
 * How everything here is timed: short repetitions, the best of which counts. Other programs and the clock governor can
 * only slow a repetition down, so the best is the closest to what the machine does.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "base/pool.h"

struct measure {
    double (*work)(void *subject, int item); /* do a little and return how much: images, operations, bytes */
    void *subject;
    int items;      /* run side by side, each on its own thread */
    double seconds; /* length of a repetition; a piece of work that has begun is always finished */
    double best;    /* work per second, all items together, of the best repetition so far */
};

/* One repetition. Every item keeps its own time, so that none waits for another. */
void measure_repeat(struct measure *measure, struct pool *pool);

#endif
