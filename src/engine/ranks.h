/*
 * What the ranks of a run pass each other (base/group.h), as the engine's phases need it. Alone, none of it does
 * anything: the process's world is the run's.
 *
 * Each rank plays its envs. The update is every rank's, the same everywhere: the columns of the rollout are brought
 * together before it, and the rewards scaled in the order of steps and envs, as one process would (E-25). Rank 0 has a
 * second world on the host, of all envs: what progress, outcomes and checkpoints are made from.
 */
#ifndef ENGINE_RANKS_H
#define ENGINE_RANKS_H

#include "engine/parts.h"

/* Room for all of this, and rank 0's world. */
enum esper_status ranks_create(struct engine *engine, struct group *group, struct esper_error *error);
void ranks_free(struct engine *engine);

/* The reports of a step, [env] of this process: to the record of rank 0, without waiting for it. */
void ranks_report(struct engine *engine, const struct step_report *reports);
/* Together: what was reported so far is in the record. */
void ranks_report_end(struct engine *engine);

/* A round begins. */
void ranks_reset(struct engine *engine);
/* Together, before an update: all columns of the rollout, with scaled rewards, on every rank. */
void ranks_share_rollout(struct engine *engine);
/* Together, before a checkpoint: the rewards of all steps so far are scaled. */
void ranks_settle(struct engine *engine);
/* Together: what outcomes are made from, to rank 0's world; test accuracies to its `accuracy`. */
void ranks_gather_outcomes(struct engine *engine, double *accuracy);
/* Together: the parameters of an env, to rank 0's world. */
void ranks_gather_network(struct engine *engine, int number);
/* Together, with the host's copy of the world up to date: all saved rows to rank 0's world, and back from there. */
void ranks_gather(struct engine *engine);
void ranks_scatter(struct engine *engine);

#endif
