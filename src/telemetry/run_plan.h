/*
 * The planned number of rounds of a run, and since when. The number affects learning (the entropy bonus falls until the
 * last round), so 60 rounds plus two more are not the same run as 62: reproducing a run takes its history.
 *
 * run.json has the number that the run started with. From the first change on, RUN/plan.json (replaced by rename) lists
 * all that were ever in force, and run_open takes config.rounds from its end.
 */
#ifndef TELEMETRY_RUN_PLAN_H
#define TELEMETRY_RUN_PLAN_H

#include "telemetry/run.h"

/* In force once `from` rounds are done. */
struct run_stage {
    unsigned from;
    int rounds; /* of the run */
    char kernels[32], version[32];
};

/* The stages in order, at least one, starting at 0. Release with memory_free. */
enum esper_status run_plan_read(const struct run *run, struct run_stage **stages, int *count,
                                struct esper_error *error);
/* From now on, with `done` rounds done, the run is planned to have `rounds` rounds and uses these kernels. Later stages
 * are dropped: their rounds will be played again. */
enum esper_status run_plan_change(struct run *run, unsigned done, int rounds, const char *kernels,
                                  struct esper_error *error);

#endif
