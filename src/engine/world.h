/*
 * The world: all state of all envs, each array registered once in one table. A phase reads and writes these arrays and
 * nothing else, so the table's saved rows are all that a checkpoint must hold.
 */
#ifndef ENGINE_WORLD_H
#define ENGINE_WORLD_H

#include "base/assert.h"
#include "base/envs.h"
#include "base/lanes.h"
#include "base/state.h"
#include "data/conditions.h"
#include "engine/episode.h"
#include "host/families.h"
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

/* Totals over the whole run, which the record must agree with. */
#define TOTAL_FIELDS(FIELD)                                                                                            \
    FIELD(episodes) FIELD(env_steps) FIELD(germinations) FIELD(fossilizations) FIELD(prunes) FIELD(rollbacks)

/* The best network so far: the env with the highest final validation accuracy, in its state at that time. */
struct world_best {
    double *accuracy;      /* [1]; below 0 while there is none */
    uint32_t *round, *env; /* its number */
    float *host, *stats, *seed, *gate;
    struct slot_arrays slots; /* [slot] */
};

/* A topology to start episodes from (policy.kind = replay): a fossil of this blueprint in each marked slot. */
struct world_replay {
    uint8_t *present, *blueprint, *algorithm; /* [slot] */
};

struct world {
    int envs, first_env; /* of this process: how many, and the number of the first */
    bool learns;         /* the policy is a network */
    bool adamw;          /* hosts or seeds learn by AdamW */
    struct config config;
    struct births births;
    union {
        struct net_shape shape;      /* what rules and phases see */
        union host_shape host_shape; /* what the host's family sees */
    };
    struct growth growth;
    struct table table;

    uint32_t *round, *step;              /* [1] the round in progress; steps of it that are done */
    struct conditions_arrays conditions; /* [env] of its episodes; the host's, like round and step */
    double *price_factor;                /* [env] of reward.price, likewise; NULL: all of it */

    /* what envs try and recite before the policy acts (search/lessons.h); the host's, likewise; NULL: nothing */
    uint16_t *lesson_schedule;           /* [env] */
    uint16_t *lesson_tried;              /* [lesson.tries][config.envs] (struct played) */
    double *lesson_earned, *lesson_cost; /* likewise */

    /* parameters [env][layout]; what the optimiser remembers likewise */
    float *host, *host_momentum;
    float *stats; /* running means and variances */
    float *seed, *seed_momentum;
    float *gate, *gate_momentum;
    float *host_second, *seed_second, *gate_second; /* AdamW's second moments; NULL: nothing learns by it */
    uint32_t *updates;                              /* [env][net_parts] its steps since birth; likewise */

    struct slot_arrays slots; /* [env][slot] */

    /* the rules' memory, [env] or [env][slot] */
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
    double *earned; /* [step][env] rewards before they are scaled; NULL: all envs are here, and a step scales them */

    /* what a step measured, [env] */
    double *train_loss, *train_accuracy, *val_loss, *val_accuracy;
    double *twin_accuracy; /* [step][env of the run] validation accuracy of the env's host without growth; NULL: nobody
                              asks */
    uint32_t *twin_known;  /* [1] whether this round's are there */
    uint32_t *subset_count, *subset_all; /* [env] */
    uint32_t *subset_mask;               /* [env][SUBSETS_MAX] */
    double *subset_score;                /* likewise: points */

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
/* Of some envs of the run alone. */
enum esper_status world_create_part(struct world **out, const struct config *config, struct env_part part,
                                    struct esper_error *error);
void world_free(struct world *world);

/* In world_create: the range of every number of the table (engine/world_bounds.c). */
void world_bound(struct world *world);
/* After the table was read from a file, which checks the ranges: whether its rows agree with each other. What passes
 * can be played. Likewise a topology alone. */
enum esper_status world_check(const struct world *world, struct esper_error *error);
enum esper_status world_check_replay(const struct world *world, struct esper_error *error);

/* The initial state of a run besides its weights: no best network, no totals. */
void world_begin(struct world *world);
/* Keep the network of an env of `from`, which may be another world of the run, as the best so far. */
void world_keep_best(struct world *world, const struct world *from, int env);

/* ---- the parts of one env; rules, so that the device shares them ------------------------------------------------- */

/* The env's number in the run, as every report and every row of the record has it. */
ESPER_RULE uint32_t world_env_number(const struct world *world, int env)
{
    return env_number(world->first_env, env);
}

/* The number of the env whose birth it has. */
ESPER_RULE uint32_t world_birth(const struct world *world, int env)
{
    return births_first(world->births, *world->round, world_env_number(world, env));
}

/* Where an env draws in the round in progress. */
ESPER_RULE struct random_site world_random(const struct world *world, enum random_stream stream, int env, uint32_t a)
{
    return random_at(world->config.seed, stream, *world->round, world_env_number(world, env), a);
}

/* Index of (env, slot) in the arrays [env][slot]. */
ESPER_RULE size_t world_slot_row(const struct world *world, int env, int slot)
{
    ESPER_ASSERT(env >= 0 && env < world->envs && slot >= 0 && slot < world->shape.slots);
    return (size_t)env * (size_t)world->shape.slots + (size_t)slot;
}

/* Index of (step, env) in the rows of a round, which have room for all envs of the run. */
ESPER_RULE size_t world_round_row(const struct world *world, uint32_t step, int env)
{
    ESPER_ASSERT(env >= 0 && env < world->envs && step < (uint32_t)world->config.steps);
    ESPER_ASSERT(world_env_number(world, env) < (uint32_t)world->config.envs);
    return (size_t)step * (size_t)world->config.envs + world_env_number(world, env);
}

/* Index of (step in progress, env) in the rollout. */
ESPER_RULE size_t world_rollout_row(const struct world *world, int env)
{
    return world_round_row(world, *world->step, env);
}

/* Is a step, counted from 0, one whose phases are timed? */
ESPER_RULE bool world_times_step(const struct world *world, uint32_t step)
{
    const int every = world->config.timers;
    return world->config.telemetry != TELEMETRY_OFF && every > 0 && step % (uint32_t)every == 0;
}

/* Is the step in progress the episode's last? */
ESPER_RULE bool world_last_step(const struct world *world)
{
    return *world->step + 1 == (uint32_t)world->config.steps;
}

/* Validation samples of the step in progress. */
ESPER_RULE int world_val_images(const struct world *world)
{
    return config_val_images(&world->config, world_last_step(world));
}

ESPER_RULE struct net_params world_params(const struct world *world, int env)
{
    const struct net_shape *shape = &world->shape;
    size_t e = (size_t)env;
    ESPER_ASSERT(env >= 0 && env < world->envs);
    struct net_params params = {world->host + e * shape->host.storage, world->stats + e * shape->stats,
                                world->seed + e * shape->seed_storage, world->gate + e * shape->gate_storage};
    return params;
}

ESPER_RULE struct net_memory world_memory(const struct world *world, int env)
{
    const struct net_shape *shape = &world->shape;
    size_t e = (size_t)env;
    ESPER_ASSERT(env >= 0 && env < world->envs);
    struct net_memory memory = {{world->host_momentum + e * shape->host.storage, NULL,
                                 world->seed_momentum + e * shape->seed_storage,
                                 world->gate_momentum + e * shape->gate_storage},
                                {NULL, NULL, NULL, NULL},
                                NULL};
    if (world->updates) {
        memory.second.host = world->host_second + e * shape->host.storage;
        memory.second.seed = world->seed_second + e * shape->seed_storage;
        memory.second.gate = world->gate_second + e * shape->gate_storage;
        memory.updates = world->updates + e * (size_t)net_parts(shape->slots);
    }
    return memory;
}

ESPER_RULE struct net_params world_saved(const struct world *world, int env)
{
    const struct net_shape *shape = &world->shape;
    size_t e = (size_t)env;
    ESPER_ASSERT(env >= 0 && env < world->envs);
    struct net_params saved = {world->saved_host + e * shape->host.storage, world->saved_stats + e * shape->stats,
                               world->saved_seed + e * shape->seed_storage,
                               world->saved_gate + e * shape->gate_storage};
    return saved;
}

ESPER_RULE struct slot_state world_slot(const struct world *world, int env, int slot)
{
    return slot_load(&world->slots, world_slot_row(world, env, slot));
}

ESPER_RULE void world_set_slot(const struct world *world, int env, int slot, const struct slot_state *state)
{
    slot_store(&world->slots, world_slot_row(world, env, slot), state);
}

/* All slots of an env at once. */
ESPER_RULE void world_slots(const struct world *world, int env, struct slot_state slot[SHAPE_SLOTS])
{
    for (int j = 0; j < world->shape.slots; j++)
        slot[j] = world_slot(world, env, j);
}

/* Ready once the lanes have met. */
ESPER_RULE void world_subsets_by(const struct world *world, int env, struct subsets *subsets, struct lanes lanes)
{
    const size_t at = (size_t)env * SUBSETS_MAX;
    LANES_EACH (k, SUBSETS_MAX, lanes) {
        subsets->mask[k] = world->subset_mask[at + (size_t)k];
        subsets->score[k] = world->subset_score[at + (size_t)k];
    }
    if (!lanes_first(lanes))
        return;
    subsets->all = world->subset_all[env];
    subsets->count = (int)world->subset_count[env];
    ESPER_ASSERT(env >= 0 && env < world->envs && subsets->count >= 0 && subsets->count <= SUBSETS_MAX);
    subsets->seeds = 0;
    for (int j = 0; j < SUBSETS_SLOTS; j++)
        subsets->seeds += (subsets->all >> j) & 1u;
}

ESPER_RULE struct subsets world_subsets(const struct world *world, int env)
{
    struct subsets subsets;
    world_subsets_by(world, env, &subsets, lanes_alone());
    return subsets;
}

ESPER_RULE void world_set_subsets(const struct world *world, int env, const struct subsets *subsets)
{
    size_t at = (size_t)env * SUBSETS_MAX;
    ESPER_ASSERT(env >= 0 && env < world->envs && subsets->count >= 0 && subsets->count <= SUBSETS_MAX);
    world->subset_all[env] = subsets->all;
    world->subset_count[env] = (uint32_t)subsets->count;
    for (int k = 0; k < SUBSETS_MAX; k++) {
        world->subset_mask[at + (size_t)k] = subsets->mask[k];
        world->subset_score[at + (size_t)k] = subsets->score[k];
    }
}

/* Boosts between existing slots; the rest stays zero. */
ESPER_RULE void world_pairs(const struct world *world, int env, struct reward_pairs *pairs, struct lanes lanes)
{
    const int slots = world->shape.slots;
    LANES_EACH (pair, slots * slots, lanes) {
        const int i = pair / slots, j = pair % slots;
        size_t at = ((size_t)env * REWARD_SLOTS + (size_t)i) * REWARD_SLOTS + (size_t)j;
        pairs->boost[i][j] = world->boost[at];
        pairs->boost_step[i][j] = world->boost_step[at];
    }
}

ESPER_RULE void world_set_pairs(const struct world *world, int env, const struct reward_pairs *pairs,
                                struct lanes lanes)
{
    const int slots = world->shape.slots;
    LANES_EACH (pair, slots * slots, lanes) {
        const int i = pair / slots, j = pair % slots;
        size_t at = ((size_t)env * REWARD_SLOTS + (size_t)i) * REWARD_SLOTS + (size_t)j;
        world->boost[at] = pairs->boost[i][j];
        world->boost_step[at] = pairs->boost_step[i][j];
    }
}

/* The env's fossils, as a mask of slots. */
ESPER_RULE uint32_t world_committed(const struct world *world, int env)
{
    uint32_t mask = 0;
    for (int j = 0; j < world->shape.slots; j++)
        mask |= (world->slots.stage[world_slot_row(world, env, j)] == STAGE_FOSSILIZED ? 1u : 0u) << j;
    return mask;
}

/* Parameters that the committed network has beyond the host's. */
ESPER_RULE uint32_t world_added_params(const struct world *world, int env)
{
    uint32_t params = 0;
    for (int j = 0; j < world->shape.slots; j++) {
        struct slot_state slot = world_slot(world, env, j);
        params += slot.stage == STAGE_FOSSILIZED ? slot_params(&slot) : 0;
    }
    return params;
}

/* Validation accuracy of the committed network, after the last step. */
ESPER_RULE double world_committed_accuracy(const struct world *world, int env)
{
    struct subsets subsets = world_subsets(world, env);
    return subset_score(&subsets, world_committed(world, env));
}

/* Multiply-accumulates of a forward pass of the committed network, per image. */
ESPER_RULE double world_committed_macs(const struct world *world, int env)
{
    double macs = world->growth.host_macs;
    for (int j = 0; j < world->shape.slots; j++) {
        const size_t row = world_slot_row(world, env, j);
        if (world->slots.stage[row] == STAGE_FOSSILIZED)
            macs += world->growth.seed_macs[j][world->slots.blueprint[row]];
    }
    return macs;
}

/*
 * What the step's seeds cost in training, in episodes of the bare host: forward pass and two gradients of each seed
 * that trained, wherever it is in its life.
 */
ESPER_RULE double world_step_work(const struct world *world, const struct slot_state *slot)
{
    double macs = 0;
    for (int j = 0; j < world->shape.slots; j++)
        if (slot_exec_of(&slot[j]).mode != SLOT_SKIP)
            macs += 3 * world->growth.seed_macs[j][slot[j].blueprint];
    return macs / (world->growth.host_train_macs * world->config.steps);
}

/* Does the world have all envs of its run? */
ESPER_RULE bool world_is_whole(const struct world *world)
{
    return world->envs == world->config.envs;
}

/* Whether the round's twins are still being played: the same hosts on the same images, before the round itself. */
ESPER_RULE bool world_plays_twins(const struct world *world)
{
    return world->twin_accuracy && !*world->twin_known;
}

/* Who acts in a round: the policy, or a schedule for it to learn from. */
enum lesson { LESSON_NONE, LESSON_TRY, LESSON_RECITAL };

/* For all envs, in the round in progress. */
ESPER_RULE enum lesson world_lesson(const struct world *world)
{
    const struct lesson_config *lesson = &world->config.lesson;
    const uint32_t tries = (uint32_t)lesson->tries, all = tries + (uint32_t)lesson->recitals;
    if (!world->lesson_schedule || *world->round >= all)
        return LESSON_NONE;
    return *world->round < tries ? LESSON_TRY : LESSON_RECITAL;
}

/* For one of them: the first ones may go on reciting. */
ESPER_RULE enum lesson world_lesson_of(const struct world *world, int env)
{
    const enum lesson lesson = world_lesson(world);
    const bool goes_on = world->lesson_schedule &&
                         world_env_number(world, env) < (uint32_t)world->config.lesson.reciters;
    return lesson == LESSON_NONE && goes_on ? LESSON_RECITAL : lesson;
}

/* What an episode pays of reward.price. */
ESPER_RULE double world_price_factor(const struct world *world, int env)
{
    return world->price_factor ? world->price_factor[env] : 1.0;
}

/* The twin's validation accuracy at the step in progress; 0 where there is none. */
ESPER_RULE double world_twin_accuracy(const struct world *world, int env)
{
    return world->twin_accuracy ? world->twin_accuracy[world_rollout_row(world, env)] : 0.0;
}

/* Parameters that a seed of this blueprint would add to a slot; none for an unknown blueprint. */
ESPER_RULE struct seed_size world_seed_size(const struct world *world, int slot, int blueprint)
{
    struct seed_size size = {0, 0};
    if (blueprint >= 0 && blueprint < BLUEPRINT_MAX) {
        size.seed_params = world->growth.seed[slot][blueprint].params;
        size.gate_params = world->growth.gate[slot].params;
    }
    return size;
}

/* Resets the recurrent state. */
ESPER_RULE void world_forget_recurrent(const struct world *world, int env)
{
    const size_t hidden = (size_t)world->config.policy.hidden, at = (size_t)env * hidden;
    if (!world->learns)
        return;
    for (size_t i = 0; i < hidden; i++)
        world->hidden[at + i] = world->cell[at + i] = 0;
}

#endif
