/*
 * How many rounds a run is to have, and since when. The number matters to what is learned (the entropy bonus falls
 * until the last round), so 60 rounds and two more are not the same run as 62: whoever wants to do it again must know.
 *
 * run.json has the number that the run began with. From the first change on RUN/plan.json lists all that ever counted,
 * replaced by rename, and run_open takes config.rounds from its end.
 */
#ifndef TELEMETRY_RUN_PLAN_H
#define TELEMETRY_RUN_PLAN_H

#include "telemetry/run.h"

/* From the round on that follows `from` done ones. */
struct run_stage {
    unsigned from;
    int rounds; /* of the run */
    char kernels[32], version[32];
};

/* The stages in their order, at least one, from 0 on. Release with memory_free. */
enum esper_status run_plan_read(const struct run *run, struct run_stage **stages, int *count,
                                struct esper_error *error);
/* From here on, with `done` rounds done, the run is to have so many and is played on these kernels. Stages from later
 * on are forgotten: their rounds will be played again. */
enum esper_status run_plan_change(struct run *run, unsigned done, int rounds, const char *kernels,
                                  struct esper_error *error);

#endif
