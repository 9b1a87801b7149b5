/*
 * What a step leaves in the record: rows made from the world's state as it passes by. Nothing here changes the world or
 * draws a random number, so a run is the same at every level. Any thread may emit the rows of its env.
 */
#ifndef ENGINE_EMIT_H
#define ENGINE_EMIT_H

#include "engine/parts.h"

/* An env's step as apply saw it. */
struct step_view {
    int env;
    const struct slot_state *before; /* [slot] as the decision found them */
    const struct subsets *subsets;
    const char *result;       /* done, refused, void or rolled_back */
    bool forced;              /* no choice */
    const double *components; /* of the reward; NULL: rolled back, there was none */
    double reward;
};

/* The rows `step`, `seed` and `subset` of an env. */
void emit_step(struct engine *engine, const struct step_view *view);

/* What happened to the seeds: a log per slot, and the slots before and after. */
void emit_life(struct engine *engine, int env, const struct life_log *logs, const struct slot_state *before,
               const struct slot_state *after);

/* A span of work that began at `start` (clock_seconds) and ends now; env -1: for all of them. */
void emit_phase(struct engine *engine, const char *name, int thread, int env, double start);

#endif
