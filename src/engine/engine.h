/*
 * The engine: a world, its data and the phases that advance it, each a function over all envs.
 *
 *     engine_reset(engine, round);
 *     for each step: engine_train, engine_evaluate, engine_decide, engine_apply;
 *     engine_finish; engine_update;
 *
 * On the CPU a phase runs whole envs on the pool's threads: there is no barrier inside, and an env's numbers do not
 * depend on which thread runs it or on how many there are. On a GPU (engine/choose.h) a phase is enqueued and the host
 * goes on. Nothing is allocated after engine_create.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "engine/world.h"
#include "telemetry/record.h"

struct engine;

/* The configuration is copied; it must have passed config_check. The world is empty: call engine_begin, or fill its
 * table from a checkpoint and call engine_restored. */
enum esper_status engine_create(struct engine **out, const struct config *config, struct esper_error *error);
/* Of some envs of the run alone: they play the same episodes. `group` are the processes that play the rest, in the
 * parts that group_part gives them (NULL: nobody does). Then creation, engine_join_record, engine_finish,
 * engine_update, engine_reported, engine_read and engine_restored are called by all of them together. */
struct group;
enum esper_status engine_create_part(struct engine **out, const struct config *config, struct env_part envs,
                                     struct group *group, struct esper_error *error);
void engine_free(struct engine *engine);

/* A fresh run: a new policy, no best network, and the first round. */
void engine_begin(struct engine *engine);
/* The rows of the whole world's table were read from a file: adopt them, if they agree with each other and with the
 * images. */
enum esper_status engine_restored(struct engine *engine, struct esper_error *error);
/* Likewise rows of the run in engine_world, which every rank has read for itself after engine_fetch. */
enum esper_status engine_took(struct engine *engine, struct esper_error *error);

/* From here on rows go to the recorder; NULL: none are recorded. `zero` is clock_seconds when the run was created;
 * `spans` records the time of every env's part of a phase. Recording changes nothing in the world. */
struct recorder;
void engine_record(struct engine *engine, struct recorder *recorder, double zero, bool spans);
/* After the leading rank did so: the others report what its record keeps. */
void engine_join_record(struct engine *engine);
/* A span of work on the caller's thread that began at `start` and ends now. */
void engine_span(struct engine *engine, const char *name, double start);

struct world *engine_world(struct engine *engine); /* of the envs that are played here */
struct world *engine_whole(struct engine *engine); /* of all envs, on the leading rank; elsewhere NULL */
struct device_use;
const struct device_use *engine_device(const struct engine *engine); /* where it computes (engine/choose.h) */
const char *engine_kernels(const struct engine *engine);             /* name of the variant in use */
struct dataset;
const struct dataset *engine_data(const struct engine *engine);
int engine_threads(const struct engine *engine);
uint32_t engine_batches(const struct engine *engine); /* training batches of a step */

/* Start a round: a fresh episode for every env, an empty rollout. */
void engine_reset(struct engine *engine, uint32_t round);
/*
 * Where rewards are relative to a twin (reward.mode = gain), a round begins with its twins: the same hosts on the same
 * images, bare (E-20). Whether they are still being played, and one step of them all; engine_train plays what is left.
 */
bool engine_plays_twins(const struct engine *engine);
void engine_twin_step(struct engine *engine);
/* One step of training for all envs: the step's batches, gradient statistics on the last one. */
void engine_train(struct engine *engine);
/* Validate every subset of the blended seeds. */
void engine_evaluate(struct engine *engine);
/* The governor's verdict, the slots' bookkeeping, then observe, mask and sample: one action per env. */
void engine_decide(struct engine *engine);
/* For whoever decides from outside. engine_ask, after engine_decide: the rollout's rows of the decision hold what was
 * observed, and this is what may be done, [env]. Then replace decided actions, which are executed if they are allowed.
 * Last, what the step came to, [env], until the next one is applied. */
struct masks;
const struct masks *engine_ask(struct engine *engine);
void engine_override(struct engine *engine, int env, const struct action *action);
struct step_report;
const struct step_report *engine_reports(struct engine *engine);
/* Reward, execution and tick, or rollback; then the rollout's row. Ends the step. */
void engine_apply(struct engine *engine);

/* After the last step: test every network, fill outcomes [env of the run] on the leading rank, keep the best network,
 * update the totals. */
void engine_finish(struct engine *engine, struct outcome_record *outcomes);
/* One PPO update from the round's rollout; false if the policy does not learn. `progress` is the share of the run
 * done. */
bool engine_update(struct engine *engine, double progress, struct update_report *record,
                   struct head_report heads[HEAD_COUNT]);

/* What was found out when the lessons of a run end with the round in progress, after engine_finish; false: they do not.
 */
struct lesson_result {
    const struct schedule *best;
    int schedules;        /* that were tried */
    uint32_t plays;       /* of the best */
    double earned, error; /* by it at the full price, on average, and the standard error of that */
};
bool engine_lessons_end(struct engine *engine, struct lesson_result *out);

/* Current accuracy of the networks on the test images in percent, [env]. */
void engine_test(struct engine *engine, double *accuracy);

/* All steps so far are in the record, whoever played them. */
void engine_reported(struct engine *engine);

/*
 * Where the phases run on a device, its copy of the world is the valid one. engine_fetch copies the saved rows to the
 * host's world, engine_read gathers those of all ranks in the whole world as well (before a checkpoint, for example),
 * engine_write copies the host's to the device; engine_wait returns when nothing is in progress. On the CPU, alone,
 * there is one world and nothing to wait for.
 */
void engine_fetch(struct engine *engine);
void engine_read(struct engine *engine);
void engine_write(struct engine *engine);
void engine_wait(struct engine *engine);
/* The first error of the device, after which it executes nothing more. Check once per step. */
enum esper_status engine_check(struct engine *engine, struct esper_error *error);
struct device_counters;
bool engine_counters(const struct engine *engine, struct device_counters *out); /* false: there is no device */

#endif
