/*
 * What is to be played next, from what is known of the runs: the whole decision of a sweep, and nothing but that.
 *
 * Asynchronous successive halving: nobody waits for a rung to fill. Whoever is free looks from the highest rung down
 * for a configuration that is among the best 1/halving of those that have finished a rung, and has not been played
 * further; if there is none, the next one that has not begun begins. A rung that nobody can reach any more lets pass
 * its best, so that one configuration at least is played to its end. A configuration has finished a rung when all of
 * its seeds have; its score there is their mean.
 */
#ifndef SWEEP_HALVING_H
#define SWEEP_HALVING_H

#include "sweep/plan.h"

enum { SWEEP_TRIES = 2 }; /* a run that failed is tried once more, and then given up */

struct sweep_state {
    int done;     /* rungs finished */
    int failures; /* times that it failed */
    bool busy;    /* somebody is at it */
    double score[SWEEP_RUNGS];
};

struct sweep_choice {
    int run, rung;
};

/* The next run and the rung to play it to; false: there is none now. `states` [runs]. */
enum esper_status sweep_next(const struct sweep *sweep, const struct sweep_state *states, bool *found,
                             struct sweep_choice *choice, struct esper_error *error);

/* Rungs that a configuration has finished, with all of its seeds; -1: it was given up. */
int sweep_finished(const struct sweep *sweep, const struct sweep_state *states, int config);
/* Its score at a rung that it has finished. */
double sweep_score(const struct sweep *sweep, const struct sweep_state *states, int config, int rung);
/* The configurations, best first: those that came furthest, by their score there; given up ones last. [configs] */
enum esper_status sweep_rank(const struct sweep *sweep, const struct sweep_state *states, int *order,
                             struct esper_error *error);

#endif
