/* What a finished round has to report, gathered from the world and the episodes' outcomes. */
#ifndef ENGINE_REPORT_H
#define ENGINE_REPORT_H

#include "engine/engine.h"

/* Slots by stage, all envs. */
void report_stages(const struct world *world, int stages[STAGE_LIMIT]);
/* The governor's interventions of the round, in order of step and env; out has room for steps x envs. */
int report_rollbacks(const struct world *world, struct rollback_record *out);
/* All but the times, which only the caller knows. */
void report_round(struct engine *engine, const struct outcome_record *outcomes, struct round_record *out);

#endif
