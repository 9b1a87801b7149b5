#include "engine/world.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "search/catalogue.h"

/* The slot rows have their own accessors (slot_load, slot_store), shared with the device. */
static void add_slots(struct table *table, struct slot_arrays *arrays, const char *prefix, enum table_scope scope,
                      int dims, size_t *shape)
{
    char label[TABLE_NAME];
    SLOT_FIELDS(STATE_ADD)
}

static void register_networks(struct world *w)
{
    struct table *t = &w->table;
    size_t envs = (size_t)w->envs, host = w->shape.host.storage, stats = w->shape.stats;
    size_t seed = w->shape.seed_storage, gate = w->shape.gate_storage;
    TABLE_ADD(t, &w->host, "host.w", TYPE_F32, CLASS_PARAM, true, SCOPE_ENV, envs, host);
    TABLE_ADD(t, &w->stats, "host.stats", TYPE_F32, CLASS_PARAM, true, SCOPE_ENV, envs, stats);
    TABLE_ADD(t, &w->seed, "seed.w", TYPE_F32, CLASS_PARAM, true, SCOPE_ENV, envs, seed);
    TABLE_ADD(t, &w->gate, "gate.w", TYPE_F32, CLASS_PARAM, true, SCOPE_ENV, envs, gate);
    TABLE_ADD(t, &w->host_momentum, "host.m", TYPE_F32, CLASS_OPT, true, SCOPE_ENV, envs, host);
    TABLE_ADD(t, &w->seed_momentum, "seed.m", TYPE_F32, CLASS_OPT, true, SCOPE_ENV, envs, seed);
    TABLE_ADD(t, &w->gate_momentum, "gate.m", TYPE_F32, CLASS_OPT, true, SCOPE_ENV, envs, gate);
    if (w->adamw) {
        TABLE_ADD(t, &w->host_second, "host.v", TYPE_F32, CLASS_OPT, true, SCOPE_ENV, envs, host);
        TABLE_ADD(t, &w->seed_second, "seed.v", TYPE_F32, CLASS_OPT, true, SCOPE_ENV, envs, seed);
        TABLE_ADD(t, &w->gate_second, "gate.v", TYPE_F32, CLASS_OPT, true, SCOPE_ENV, envs, gate);
        TABLE_ADD(t, &w->updates, "updates", TYPE_U32, CLASS_OPT, true, SCOPE_ENV, envs,
                  (size_t)net_parts(w->shape.slots));
    }
    TABLE_ADD(t, &w->saved_host, "snapshot.host", TYPE_F32, CLASS_STATE, true, SCOPE_ENV, envs, host);
    TABLE_ADD(t, &w->saved_stats, "snapshot.stats", TYPE_F32, CLASS_STATE, true, SCOPE_ENV, envs, stats);
    TABLE_ADD(t, &w->saved_seed, "snapshot.seed", TYPE_F32, CLASS_STATE, true, SCOPE_ENV, envs, seed);
    TABLE_ADD(t, &w->saved_gate, "snapshot.gate", TYPE_F32, CLASS_STATE, true, SCOPE_ENV, envs, gate);
    TABLE_ADD(t, &w->best.host, "best.host", TYPE_F32, CLASS_STATE, true, SCOPE_RUN, host);
    TABLE_ADD(t, &w->best.stats, "best.stats", TYPE_F32, CLASS_STATE, true, SCOPE_RUN, stats);
    TABLE_ADD(t, &w->best.seed, "best.seed", TYPE_F32, CLASS_STATE, true, SCOPE_RUN, seed);
    TABLE_ADD(t, &w->best.gate, "best.gate", TYPE_F32, CLASS_STATE, true, SCOPE_RUN, gate);
}

static void register_rules(struct world *w)
{
    struct table *t = &w->table;
    size_t env[TABLE_DIMS] = {(size_t)w->envs}, slot[TABLE_DIMS] = {(size_t)w->envs, (size_t)w->shape.slots};
    add_slots(t, &w->slots, "slot", SCOPE_ENV, 2, slot);
    add_slots(t, &w->saved_slots, "snapshot.slot", SCOPE_ENV, 2, slot);
    add_slots(t, &w->best.slots, "best.slot", SCOPE_RUN, 1, slot + 1);
    tracker_add(&w->tracker, t, "tracker", SCOPE_ENV, 1, env);
    governor_add(&w->governor, t, "governor", SCOPE_ENV, 1, env);
    heuristic_add(&w->heuristic, t, "heuristic", SCOPE_ENV, 1, env);
    episode_add(&w->episode, t, "episode", SCOPE_ENV, 1, env);
    conditions_add(&w->conditions, t, "conditions", SCOPE_ENV, 1, env);
    if (config_mixes_prices(&w->config))
        TABLE_ADD(t, &w->price_factor, "conditions.price_factor", TYPE_F64, CLASS_STATE, true, SCOPE_ENV, w->envs);
    if (config_tries(&w->config) > 0) {
        const size_t tries = (size_t)config_tries(&w->config) * (size_t)w->config.envs;
        TABLE_ADD(t, &w->lesson_schedule, "lesson.schedule", TYPE_U16, CLASS_STATE, true, SCOPE_ENV, w->envs);
        TABLE_ADD(t, &w->lesson_tried, "lesson.tried", TYPE_U16, CLASS_STATE, true, SCOPE_RUN, tries);
        TABLE_ADD(t, &w->lesson_earned, "lesson.earned", TYPE_F64, CLASS_STATE, true, SCOPE_RUN, tries);
        TABLE_ADD(t, &w->lesson_cost, "lesson.cost", TYPE_F64, CLASS_STATE, true, SCOPE_RUN, tries);
    }
    env_memory_add(&w->env_memory, t, "memory", SCOPE_ENV, 1, env);
    slot_memory_add(&w->slot_memory, t, "slot_memory", SCOPE_ENV, 2, slot);
    reward_state_add(&w->reward_state, t, "reward", SCOPE_ENV, 1, env);
    reward_slot_add(&w->reward_slot, t, "reward_slot", SCOPE_ENV, 2, slot);
    size_t envs = (size_t)w->envs;
    TABLE_ADD(t, &w->boost, "reward.boost", TYPE_F64, CLASS_STATE, true, SCOPE_ENV, envs, HEAD_MAX_SLOTS,
              HEAD_MAX_SLOTS);
    TABLE_ADD(t, &w->boost_step, "reward.boost_step", TYPE_U32, CLASS_STATE, true, SCOPE_ENV, envs, HEAD_MAX_SLOTS,
              HEAD_MAX_SLOTS);
    TABLE_ADD(t, &w->components, "reward.components", TYPE_F64, CLASS_STATE, true, SCOPE_ENV, envs,
              REWARD_COMPONENT_COUNT);
}

/* What a step measures. */
static void register_measurements(struct world *w)
{
    struct table *t = &w->table;
    size_t envs = (size_t)w->envs;
    TABLE_ADD(t, &w->train_loss, "train.loss", TYPE_F64, CLASS_STATE, true, SCOPE_ENV, envs);
    TABLE_ADD(t, &w->train_accuracy, "train.accuracy", TYPE_F64, CLASS_STATE, true, SCOPE_ENV, envs);
    TABLE_ADD(t, &w->val_loss, "val.loss", TYPE_F64, CLASS_STATE, true, SCOPE_ENV, envs);
    TABLE_ADD(t, &w->val_accuracy, "val.accuracy", TYPE_F64, CLASS_STATE, true, SCOPE_ENV, envs);
    if (w->config.reward.mode == REWARD_GAIN) {
        size_t steps = (size_t)w->config.steps, all = (size_t)w->config.envs;
        TABLE_ADD(t, &w->twin_accuracy, "twin.accuracy", TYPE_F64, CLASS_STATE, true, SCOPE_STEP_ENV, steps, all);
        TABLE_ADD(t, &w->twin_known, "twin.known", TYPE_U32, CLASS_STATE, true, SCOPE_RUN, 1);
    }
    TABLE_ADD(t, &w->subset_count, "subset.count", TYPE_U32, CLASS_STATE, true, SCOPE_ENV, envs);
    TABLE_ADD(t, &w->subset_all, "subset.all", TYPE_U32, CLASS_STATE, true, SCOPE_ENV, envs);
    TABLE_ADD(t, &w->subset_mask, "subset.mask", TYPE_U32, CLASS_STATE, true, SCOPE_ENV, envs, SUBSETS_MAX);
    TABLE_ADD(t, &w->subset_score, "subset.score", TYPE_F64, CLASS_STATE, true, SCOPE_ENV, envs, SUBSETS_MAX);
}

/* The policy's part. A run whose policy is not a network has no weights. */
static void register_policy(struct world *w)
{
    int slots = w->shape.slots, obs = observe_size(slots), all = w->config.envs;
    if (w->learns) {
        size_t envs = (size_t)w->envs, hidden = (size_t)w->config.policy.hidden;
        TABLE_ADD(&w->table, &w->hidden, "policy.h", TYPE_F32, CLASS_STATE, true, SCOPE_ENV, envs, hidden);
        TABLE_ADD(&w->table, &w->cell, "policy.c", TYPE_F32, CLASS_STATE, true, SCOPE_ENV, envs, hidden);
        learner_register(&w->learner, &w->table, &w->config, all, w->config.steps, obs, slots);
    }
    rollout_register(&w->rollout, &w->table, w->config.steps, all, slots, obs);
    if (w->learns && !world_is_whole(w))
        TABLE_ADD(&w->table, &w->earned, "rollout.earned", TYPE_F64, CLASS_ACT, false, SCOPE_STEP_ENV,
                  (size_t)w->config.steps, (size_t)all);
}

static void register_run(struct world *w)
{
    struct table *t = &w->table;
    size_t slots = (size_t)w->shape.slots;
    TABLE_ADD(t, &w->round, "round", TYPE_U32, CLASS_STATE, true, SCOPE_RUN, 1);
    TABLE_ADD(t, &w->step, "step", TYPE_U32, CLASS_STATE, true, SCOPE_RUN, 1);
#define ADD_TOTAL(name) TABLE_ADD(t, &w->total_##name, "total." #name, TYPE_U64, CLASS_STATE, true, SCOPE_RUN, 1);
    TOTAL_FIELDS(ADD_TOTAL)
#undef ADD_TOTAL
    TABLE_ADD(t, &w->best_round_accuracy, "best.round_accuracy", TYPE_F64, CLASS_STATE, true, SCOPE_RUN, 1);
    TABLE_ADD(t, &w->best.accuracy, "best.accuracy", TYPE_F64, CLASS_STATE, true, SCOPE_RUN, 1);
    TABLE_ADD(t, &w->best.round, "best.round", TYPE_U32, CLASS_STATE, true, SCOPE_RUN, 1);
    TABLE_ADD(t, &w->best.env, "best.env", TYPE_U32, CLASS_STATE, true, SCOPE_RUN, 1);
    TABLE_ADD(t, &w->replay.present, "replay.present", TYPE_U8, CLASS_STATE, true, SCOPE_RUN, slots);
    TABLE_ADD(t, &w->replay.blueprint, "replay.blueprint", TYPE_U8, CLASS_STATE, true, SCOPE_RUN, slots);
    TABLE_ADD(t, &w->replay.algorithm, "replay.algorithm", TYPE_U8, CLASS_STATE, true, SCOPE_RUN, slots);
}

static enum esper_status check_part(const struct config *config, struct env_part part, struct esper_error *error)
{
    const int end = part.first + part.count;
    if (part.first < 0 || part.count < 1 || end > config->envs)
        return error_set(error, ESPER_INVALID, "envs %d to %d: the run has envs 0 to %d", part.first, end - 1,
                         config->envs - 1);
    return ESPER_OK;
}

enum esper_status world_create(struct world **out, const struct config *config, struct esper_error *error)
{
    return world_create_part(out, config, (struct env_part){0, config->envs}, error);
}

enum esper_status world_create_part(struct world **out, const struct config *config, struct env_part part,
                                    struct esper_error *error)
{
    TRY(check_part(config, part, error));
    struct world *world = memory_alloc(1, sizeof *world, error);
    if (!world)
        return ESPER_FAILED;
    world->config = *config;
    world->envs = part.count;
    world->first_env = part.first;
    world->learns = config->policy.kind == POLICY_PPO;
    world->births = births_of(config);
    const struct net_rates rates = host_rates(config);
    world->adamw = rates.host.kind == OPTIMISER_ADAMW || rates.seed.kind == OPTIMISER_ADAMW;
    host_shape_init(&world->host_shape, &world->config);
    host_growth_init(&world->growth, &world->config);
    register_run(world);
    register_networks(world);
    register_rules(world);
    register_measurements(world);
    register_policy(world);
    world_bound(world);
    enum esper_status status = table_allocate(&world->table, error);
    if (status != ESPER_OK) {
        world_free(world);
        return status;
    }
    *out = world;
    return ESPER_OK;
}

void world_free(struct world *world)
{
    if (!world)
        return;
    table_free(&world->table);
    memory_free(world);
}

/* ---- the run ------------------------------------------------------------------------------------------------------
 */

void world_begin(struct world *world)
{
    *world->best.accuracy = *world->best_round_accuracy = -1;
    for (int j = 0; j < world->shape.slots; j++) {
        struct slot_state slot;
        slot_clear(&slot);
        slot_store(&world->best.slots, (size_t)j, &slot);
    }
}

void world_keep_best(struct world *world, const struct world *from, int env)
{
    struct net_params params = world_params(from, env);
    *world->best.accuracy = world_committed_accuracy(from, env);
    *world->best.round = *world->round;
    *world->best.env = world_env_number(from, env);
    memcpy(world->best.host, params.host, sizeof(float) * world->shape.host.storage);
    memcpy(world->best.stats, params.stats, sizeof(float) * world->shape.stats);
    memcpy(world->best.seed, params.seed, sizeof(float) * world->shape.seed_storage);
    memcpy(world->best.gate, params.gate, sizeof(float) * world->shape.gate_storage);
    for (int j = 0; j < world->shape.slots; j++) {
        struct slot_state slot = world_slot(from, env, j);
        if (slot.stage != STAGE_FOSSILIZED) /* the committed network */
            slot_clear(&slot);
        slot_store(&world->best.slots, (size_t)j, &slot);
    }
}
