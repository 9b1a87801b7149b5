/*
 * The world: all state of all envs, each array registered once in one table. A phase reads and writes these arrays and
 * nothing else, so the table's saved rows are all that a checkpoint must hold.
 */
#ifndef ENGINE_WORLD_H
#define ENGINE_WORLD_H

#include "engine/episode.h"
#include "engine/state.h"
#include "learn/learner.h"
#include "morph/action.h"
#include "morph/governor.h"
#include "morph/lifecycle.h"
#include "morph/net.h"
#include "morph/subsets.h"
#include "policy/heuristic.h"
#include "policy/observe.h"
#include "policy/tracker.h"
#include "reward/reward.h"

STATE_OF_FIELDS_AND_ARRAYS(tracker, TRACKER_FIELDS)
STATE_OF_FIELDS_AND_ARRAYS(governor, GOVERNOR_FIELDS)
STATE_OF_FIELDS_AND_ARRAYS(heuristic, HEURISTIC_FIELDS)
STATE_OF_FIELDS_AND_ARRAYS(episode, EPISODE_FIELDS)
STATE_OF_FIELDS(env_memory, ENV_MEMORY_FIELDS)
STATE_OF_FIELDS(slot_memory, SLOT_MEMORY_FIELDS)
STATE_OF_FIELDS(reward_state, REWARD_STATE_FIELDS)
STATE_OF_FIELDS(reward_slot, REWARD_SLOT_FIELDS)

/* Counts over the whole run; what the record must agree with. */
#define TOTAL_FIELDS(FIELD)                                                                                            \
    FIELD(episodes) FIELD(env_steps) FIELD(germinations) FIELD(fossilizations) FIELD(prunes) FIELD(rollbacks)

/* The best network so far: the env with the highest final validation accuracy, as it stood then. */
struct world_best {
    double *accuracy; /* [1]; below 0 while there is none */
    uint32_t *round, *env;
    float *host, *stats, *seed, *gate;
    struct slot_arrays slots; /* [slot] */
};

/* A topology to start episodes from (policy.kind = replay): a fossil of this blueprint in each marked slot. */
struct world_replay {
    uint8_t *present, *blueprint, *algorithm; /* [slot] */
};

struct world {
    int envs;
    bool learns; /* the policy is a network */
    struct config config;
    struct net_shape shape;
    struct table table;

    uint32_t *round, *step; /* [1] the round in progress; steps of it that are done */

    /* parameters [env][layout], momentum alike */
    float *host, *host_momentum;
    float *stats; /* running means and variances */
    float *seed, *seed_momentum;
    float *gate, *gate_momentum;

    struct slot_arrays slots; /* [env][slot] */

    /* what the rules remember, [env] or [env][slot] */
    struct tracker_arrays tracker;
    struct governor_arrays governor;
    struct heuristic_arrays heuristic;
    struct env_memory_arrays env_memory;
    struct slot_memory_arrays slot_memory;
    struct reward_state_arrays reward_state;
    struct reward_slot_arrays reward_slot;
    double *boost;        /* [env][16][16] struct reward_pairs */
    uint32_t *boost_step; /* likewise */
    struct episode_arrays episode;

    /* the policy: recurrent state [env][hidden], its learner and the round's rows */
    float *hidden, *cell;
    struct learner learner;
    struct rollout rollout;
    double *components; /* [env][REWARD_COMPONENT_COUNT] of the step's reward */

    /* what a step measured, [env] */
    double *train_loss, *train_accuracy, *val_loss, *val_accuracy;
    uint32_t *subset_count, *subset_all;    /* [env] */
    uint32_t *subset_mask, *subset_correct; /* [env][SUBSETS_MAX] */

    /* the governor's snapshot: host, and the fossils among the slots */
    float *saved_host, *saved_stats, *saved_seed, *saved_gate;
    struct slot_arrays saved_slots;

#define WORLD_TOTAL(name) uint64_t *total_##name; /* [1] */
    TOTAL_FIELDS(WORLD_TOTAL)
#undef WORLD_TOTAL
    double *best_round_accuracy; /* [1] best mean validation accuracy of a round; below 0: none yet */
    struct world_best best;
    struct world_replay replay;
};

/* `config` is copied and must have passed config_check. */
enum esper_status world_create(struct world **out, const struct config *config, struct esper_error *error);
void world_free(struct world *world);

/* Place of (env, slot) in the arrays [env][slot]. */
static inline size_t world_slot_row(const struct world *world, int env, int slot)
{
    return (size_t)env * (size_t)world->shape.slots + (size_t)slot;
}

/* The pieces of one env. */
struct net_params world_params(const struct world *world, int env);
struct net_params world_momentum(const struct world *world, int env);
struct slot_state world_slot(const struct world *world, int env, int slot);
void world_set_slot(struct world *world, int env, int slot, const struct slot_state *state);
struct subsets world_subsets(const struct world *world, int env);
void world_set_subsets(struct world *world, int env, const struct subsets *subsets);

struct reward_pairs world_pairs(const struct world *world, int env);
void world_set_pairs(struct world *world, int env, const struct reward_pairs *pairs);

/* All slots of an env in one go. */
void world_slots(const struct world *world, int env, struct slot_state slot[SHAPE_SLOTS]);
/* Parameters of the env's live seeds. */
uint32_t world_added_params(const struct world *world, int env);

/* Parameters that a seed of this blueprint would bring to a slot; nothing for an unknown one. */
struct seed_size world_seed_size(const struct world *world, int slot, int blueprint);

/* What a run starts with beside its weights: no best network, no totals. */
void world_begin(struct world *world);
/* Keep the env's network as the best so far. */
void world_keep_best(struct world *world, int env);

/* A fresh episode: new host, empty slots, zero momentum, a snapshot of that. */
void world_reset(struct world *world, int env);

/* Carry out what a rule asked for: initialise parameters, zero momentum, snapshot. */
void world_effects(struct world *world, int env, int slot, uint32_t effects);

/* Remember host and fossils; bring them back, prune every other live seed and forget all momentum (kasmina 12.6).
 * `logs` holds one log per slot. */
void world_snapshot(struct world *world, int env);
void world_rollback(struct world *world, int env, enum prune_reason reason, struct life_log *logs);

#endif
