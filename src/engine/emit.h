/*
 * A step's rows in the record, made from the envs' reports. Nothing here reads or changes the world or draws a random
 * number, so a run is the same at every level, and reports may come late. Any thread may emit.
 */
#ifndef ENGINE_EMIT_H
#define ENGINE_EMIT_H

#include "engine/parts.h"

/* The rows `rollback`, `step`, `seed`, `subset` and `life` of an env's step, from its report alone. */
void emit_report(struct engine *engine, const struct step_report *report);

/* The last of the first `step` steps of a round, `rounds` rounds into the run, that has rows for certain. */
uint32_t emit_last_kept(uint32_t rounds, uint32_t step);

/* A span of work that began at `start` (clock_seconds) and ends now; env -1: for all of them. */
void emit_phase(struct engine *engine, const char *name, int thread, int env, double start);
/* A phase that the device executed for all envs between two times (clock_seconds). */
void emit_device_phase(struct engine *engine, const char *name, uint32_t round, uint32_t step, double start,
                       double end);

#endif
