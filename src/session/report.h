/* The report of a finished round, gathered from the world and the episodes' outcomes. */
#ifndef SESSION_REPORT_H
#define SESSION_REPORT_H

#include "engine/engine.h"
#include "telemetry/recorder.h"

struct round_report {
    struct round_record round;
    struct update_report ppo;
    struct head_report heads[HEAD_COUNT];
    bool has_ppo;                    /* false: nothing was learned */
    struct outcome_record *outcomes; /* [env], the caller's memory */
};

/* Slots by stage, all envs. */
void report_stages(const struct world *world, int stages[STAGE_LIMIT]);
/* Everything from the outcomes except the times, which only the caller knows. */
void report_round(struct engine *engine, const struct outcome_record *outcomes, struct round_record *out);
/* Record it. */
void report_emit(const struct round_report *report, int envs, struct recorder *recorder);

#endif
