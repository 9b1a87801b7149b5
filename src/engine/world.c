#include "engine/world.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"

/* The slot rows have accessors of their own (slot_load, slot_store) that the device shares. */
static void add_slots(struct table *table, struct slot_arrays *arrays, const char *prefix, int dims, size_t *shape)
{
    char label[TABLE_NAME];
    SLOT_FIELDS(STATE_ADD)
}

static void register_networks(struct world *w)
{
    struct table *t = &w->table;
    size_t envs = (size_t)w->envs, host = w->shape.host.storage, stats = w->shape.stats;
    size_t seed = w->shape.seed_storage, gate = w->shape.gate_storage;
    TABLE_ADD(t, &w->host, "host.w", TYPE_F32, CLASS_PARAM, true, envs, host);
    TABLE_ADD(t, &w->stats, "host.stats", TYPE_F32, CLASS_PARAM, true, envs, stats);
    TABLE_ADD(t, &w->seed, "seed.w", TYPE_F32, CLASS_PARAM, true, envs, seed);
    TABLE_ADD(t, &w->gate, "gate.w", TYPE_F32, CLASS_PARAM, true, envs, gate);
    TABLE_ADD(t, &w->host_momentum, "host.m", TYPE_F32, CLASS_OPT, true, envs, host);
    TABLE_ADD(t, &w->seed_momentum, "seed.m", TYPE_F32, CLASS_OPT, true, envs, seed);
    TABLE_ADD(t, &w->gate_momentum, "gate.m", TYPE_F32, CLASS_OPT, true, envs, gate);
    TABLE_ADD(t, &w->saved_host, "snapshot.host", TYPE_F32, CLASS_STATE, true, envs, host);
    TABLE_ADD(t, &w->saved_stats, "snapshot.stats", TYPE_F32, CLASS_STATE, true, envs, stats);
    TABLE_ADD(t, &w->saved_seed, "snapshot.seed", TYPE_F32, CLASS_STATE, true, envs, seed);
    TABLE_ADD(t, &w->saved_gate, "snapshot.gate", TYPE_F32, CLASS_STATE, true, envs, gate);
    TABLE_ADD(t, &w->best.host, "best.host", TYPE_F32, CLASS_STATE, true, host);
    TABLE_ADD(t, &w->best.stats, "best.stats", TYPE_F32, CLASS_STATE, true, stats);
    TABLE_ADD(t, &w->best.seed, "best.seed", TYPE_F32, CLASS_STATE, true, seed);
    TABLE_ADD(t, &w->best.gate, "best.gate", TYPE_F32, CLASS_STATE, true, gate);
}

static void register_rules(struct world *w)
{
    struct table *t = &w->table;
    size_t env[TABLE_DIMS] = {(size_t)w->envs}, slot[TABLE_DIMS] = {(size_t)w->envs, (size_t)w->shape.slots};
    add_slots(t, &w->slots, "slot", 2, slot);
    add_slots(t, &w->saved_slots, "snapshot.slot", 2, slot);
    add_slots(t, &w->best.slots, "best.slot", 1, slot + 1);
    tracker_add(&w->tracker, t, "tracker", 1, env);
    governor_add(&w->governor, t, "governor", 1, env);
    heuristic_add(&w->heuristic, t, "heuristic", 1, env);
    episode_add(&w->episode, t, "episode", 1, env);
    env_memory_add(&w->env_memory, t, "memory", 1, env);
    slot_memory_add(&w->slot_memory, t, "slot_memory", 2, slot);
    reward_state_add(&w->reward_state, t, "reward", 1, env);
    reward_slot_add(&w->reward_slot, t, "reward_slot", 2, slot);
    size_t envs = (size_t)w->envs;
    TABLE_ADD(t, &w->boost, "reward.boost", TYPE_F64, CLASS_STATE, true, envs, HEAD_MAX_SLOTS, HEAD_MAX_SLOTS);
    TABLE_ADD(t, &w->boost_step, "reward.boost_step", TYPE_U32, CLASS_STATE, true, envs, HEAD_MAX_SLOTS,
              HEAD_MAX_SLOTS);
    TABLE_ADD(t, &w->components, "reward.components", TYPE_F64, CLASS_STATE, true, envs, REWARD_COMPONENT_COUNT);
}

/* What a step measures. */
static void register_measurements(struct world *w)
{
    struct table *t = &w->table;
    size_t envs = (size_t)w->envs;
    TABLE_ADD(t, &w->train_loss, "train.loss", TYPE_F64, CLASS_STATE, true, envs);
    TABLE_ADD(t, &w->train_accuracy, "train.accuracy", TYPE_F64, CLASS_STATE, true, envs);
    TABLE_ADD(t, &w->val_loss, "val.loss", TYPE_F64, CLASS_STATE, true, envs);
    TABLE_ADD(t, &w->val_accuracy, "val.accuracy", TYPE_F64, CLASS_STATE, true, envs);
    TABLE_ADD(t, &w->subset_count, "subset.count", TYPE_U32, CLASS_STATE, true, envs);
    TABLE_ADD(t, &w->subset_all, "subset.all", TYPE_U32, CLASS_STATE, true, envs);
    TABLE_ADD(t, &w->subset_mask, "subset.mask", TYPE_U32, CLASS_STATE, true, envs, SUBSETS_MAX);
    TABLE_ADD(t, &w->subset_correct, "subset.correct", TYPE_U32, CLASS_STATE, true, envs, SUBSETS_MAX);
}

/* The policy's part. A run whose policy is no network carries no weights. */
static void register_policy(struct world *w)
{
    int slots = w->shape.slots, obs = observe_size(slots);
    if (w->learns) {
        size_t envs = (size_t)w->envs, hidden = (size_t)w->config.policy.hidden;
        TABLE_ADD(&w->table, &w->hidden, "policy.h", TYPE_F32, CLASS_STATE, true, envs, hidden);
        TABLE_ADD(&w->table, &w->cell, "policy.c", TYPE_F32, CLASS_STATE, true, envs, hidden);
        learner_register(&w->learner, &w->table, &w->config, w->envs, w->config.steps, obs, slots);
    }
    rollout_register(&w->rollout, &w->table, w->config.steps, w->envs, slots, obs);
}

static void register_run(struct world *w)
{
    struct table *t = &w->table;
    size_t slots = (size_t)w->shape.slots;
    TABLE_ADD(t, &w->round, "round", TYPE_U32, CLASS_STATE, true, 1);
    TABLE_ADD(t, &w->step, "step", TYPE_U32, CLASS_STATE, true, 1);
#define ADD_TOTAL(name) TABLE_ADD(t, &w->total_##name, "total." #name, TYPE_U64, CLASS_STATE, true, 1);
    TOTAL_FIELDS(ADD_TOTAL)
#undef ADD_TOTAL
    TABLE_ADD(t, &w->best_round_accuracy, "best.round_accuracy", TYPE_F64, CLASS_STATE, true, 1);
    TABLE_ADD(t, &w->best.accuracy, "best.accuracy", TYPE_F64, CLASS_STATE, true, 1);
    TABLE_ADD(t, &w->best.round, "best.round", TYPE_U32, CLASS_STATE, true, 1);
    TABLE_ADD(t, &w->best.env, "best.env", TYPE_U32, CLASS_STATE, true, 1);
    TABLE_ADD(t, &w->replay.present, "replay.present", TYPE_U8, CLASS_STATE, true, slots);
    TABLE_ADD(t, &w->replay.blueprint, "replay.blueprint", TYPE_U8, CLASS_STATE, true, slots);
    TABLE_ADD(t, &w->replay.algorithm, "replay.algorithm", TYPE_U8, CLASS_STATE, true, slots);
}

enum esper_status world_create(struct world **out, const struct config *config, struct esper_error *error)
{
    struct world *world = memory_alloc(1, sizeof *world, error);
    if (!world)
        return ESPER_FAILED;
    world->config = *config;
    world->envs = config->envs;
    world->learns = config->policy.kind == POLICY_PPO;
    shape_init(&world->shape, &world->config);
    register_run(world);
    register_networks(world);
    register_rules(world);
    register_measurements(world);
    register_policy(world);
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

/* ---- the pieces of one env ----------------------------------------------------------------------------------------
 */

struct net_params world_params(const struct world *w, int env)
{
    size_t e = (size_t)env;
    return (struct net_params){w->host + e * w->shape.host.storage, w->stats + e * w->shape.stats,
                               w->seed + e * w->shape.seed_storage, w->gate + e * w->shape.gate_storage};
}

struct net_params world_momentum(const struct world *w, int env)
{
    size_t e = (size_t)env;
    return (struct net_params){w->host_momentum + e * w->shape.host.storage, NULL,
                               w->seed_momentum + e * w->shape.seed_storage,
                               w->gate_momentum + e * w->shape.gate_storage};
}

static struct net_params world_saved(const struct world *w, int env)
{
    size_t e = (size_t)env;
    return (struct net_params){w->saved_host + e * w->shape.host.storage, w->saved_stats + e * w->shape.stats,
                               w->saved_seed + e * w->shape.seed_storage, w->saved_gate + e * w->shape.gate_storage};
}

struct slot_state world_slot(const struct world *world, int env, int slot)
{
    return slot_load(&world->slots, world_slot_row(world, env, slot));
}

void world_set_slot(struct world *world, int env, int slot, const struct slot_state *state)
{
    slot_store(&world->slots, world_slot_row(world, env, slot), state);
}

struct subsets world_subsets(const struct world *world, int env)
{
    struct subsets subsets = {.all = world->subset_all[env], .count = (int)world->subset_count[env]};
    size_t at = (size_t)env * SUBSETS_MAX;
    memcpy(subsets.mask, world->subset_mask + at, sizeof subsets.mask);
    memcpy(subsets.correct, world->subset_correct + at, sizeof subsets.correct);
    for (int j = 0; j < SUBSETS_SLOTS; j++)
        subsets.seeds += (subsets.all >> j) & 1u;
    return subsets;
}

void world_set_subsets(struct world *world, int env, const struct subsets *subsets)
{
    size_t at = (size_t)env * SUBSETS_MAX;
    world->subset_all[env] = subsets->all;
    world->subset_count[env] = (uint32_t)subsets->count;
    memcpy(world->subset_mask + at, subsets->mask, sizeof subsets->mask);
    memcpy(world->subset_correct + at, subsets->correct, sizeof subsets->correct);
}

struct reward_pairs world_pairs(const struct world *world, int env)
{
    struct reward_pairs pairs;
    size_t count = (size_t)HEAD_MAX_SLOTS * HEAD_MAX_SLOTS, at = (size_t)env * count;
    memcpy(pairs.boost, world->boost + at, sizeof(double) * count);
    memcpy(pairs.boost_step, world->boost_step + at, sizeof(uint32_t) * count);
    return pairs;
}

void world_set_pairs(struct world *world, int env, const struct reward_pairs *pairs)
{
    size_t count = (size_t)HEAD_MAX_SLOTS * HEAD_MAX_SLOTS, at = (size_t)env * count;
    memcpy(world->boost + at, pairs->boost, sizeof(double) * count);
    memcpy(world->boost_step + at, pairs->boost_step, sizeof(uint32_t) * count);
}

void world_slots(const struct world *world, int env, struct slot_state slot[SHAPE_SLOTS])
{
    for (int j = 0; j < world->shape.slots; j++)
        slot[j] = world_slot(world, env, j);
}

uint32_t world_added_params(const struct world *world, int env)
{
    uint32_t params = 0;
    for (int j = 0; j < world->shape.slots; j++) {
        struct slot_state slot = world_slot(world, env, j);
        params += slot_params(&slot);
    }
    return params;
}

/* ---- episodes and effects -----------------------------------------------------------------------------------------
 */

static void clear_momentum(struct world *world, int env)
{
    struct net_params momentum = world_momentum(world, env);
    memset(momentum.host, 0, sizeof(float) * world->shape.host.storage);
    memset(momentum.seed, 0, sizeof(float) * world->shape.seed_storage);
    memset(momentum.gate, 0, sizeof(float) * world->shape.gate_storage);
}

static void reset_rules(struct world *world, int env)
{
    size_t row = (size_t)env;
    struct tracker tracker;
    struct governor governor;
    struct heuristic heuristic;
    struct env_memory env_memory;
    struct slot_memory slot_memory;
    struct reward_state reward_state;
    struct reward_slot reward_slot;
    struct reward_pairs pairs;
    struct episode episode;
    tracker_clear(&tracker);
    governor_clear(&governor);
    heuristic_clear(&heuristic);
    env_memory_clear(&env_memory);
    slot_memory_clear(&slot_memory);
    reward_state_clear(&reward_state);
    reward_slot_clear(&reward_slot);
    reward_pairs_clear(&pairs);
    episode_clear(&episode);
    tracker_store(&world->tracker, row, &tracker);
    governor_store(&world->governor, row, &governor);
    heuristic_store(&world->heuristic, row, &heuristic);
    env_memory_store(&world->env_memory, row, &env_memory);
    reward_state_store(&world->reward_state, row, &reward_state);
    world_set_pairs(world, env, &pairs);
    episode_store(&world->episode, row, &episode);
    for (int j = 0; j < world->shape.slots; j++) {
        slot_memory_store(&world->slot_memory, world_slot_row(world, env, j), &slot_memory);
        reward_slot_store(&world->reward_slot, world_slot_row(world, env, j), &reward_slot);
    }
    memset(world->components + row * REWARD_COMPONENT_COUNT, 0, sizeof(double) * REWARD_COMPONENT_COUNT);
    if (world->learns) {
        size_t hidden = (size_t)world->config.policy.hidden;
        memset(world->hidden + row * hidden, 0, sizeof(float) * hidden);
        memset(world->cell + row * hidden, 0, sizeof(float) * hidden);
    }
}

/* The replayed topology: fossils with fresh weights, there from the first step. */
static void plant_replay(struct world *world, int env)
{
    for (int j = 0; j < world->shape.slots; j++) {
        if (!world->replay.present[j])
            continue;
        struct slot_state slot;
        struct seed_size size = world_seed_size(world, j, world->replay.blueprint[j]);
        slot_clear(&slot);
        slot.stage = STAGE_FOSSILIZED;
        slot.prev_stage = STAGE_HOLDING;
        slot.blueprint = world->replay.blueprint[j];
        slot.algorithm = world->replay.algorithm[j];
        slot.germinations = 1;
        slot.alpha = slot.alpha_start = slot.alpha_target = 1.0f;
        slot.alpha_curve = CURVE_LINEAR;
        slot.steepness = STEEPNESS_DEFAULT;
        slot.seed_params = size.seed_params;
        slot.gate_params = size.gate_params;
        world_set_slot(world, env, j, &slot);
        world_effects(world, env, j, EFFECT_INIT_SEED | (slot_has_gate(&slot) ? EFFECT_INIT_GATE : 0));
    }
}

void world_reset(struct world *world, int env)
{
    struct net_params params = world_params(world, env);
    struct subsets none;
    layout_init(&world->shape.host, world->config.seed, STREAM_HOST_INIT, *world->round, (uint32_t)env, 0, params.host);
    for (int i = 0; i < world->shape.blocks; i++) {
        const struct block_shape *b = &world->shape.block[i];
        for (int c = 0; c < b->cout; c++) {
            params.stats[b->mean + (size_t)c] = 0;
            params.stats[b->var + (size_t)c] = 1;
        }
    }
    clear_momentum(world, env);
    for (int j = 0; j < world->shape.slots; j++) {
        struct slot_state slot;
        slot_clear(&slot);
        world_set_slot(world, env, j, &slot);
    }
    subsets_plan(&none, 0, 0);
    world_set_subsets(world, env, &none);
    world->train_loss[env] = world->train_accuracy[env] = world->val_loss[env] = world->val_accuracy[env] = 0;
    reset_rules(world, env);
    plant_replay(world, env);
    world_snapshot(world, env);
}

/* Tensors of the gate net draw after the seed's own: blueprints have fewer than this many. */
enum { GATE_TENSOR = 16 };

void world_effects(struct world *world, int env, int slot, uint32_t effects)
{
    const struct slot_shape *shape = &world->shape.slot[slot];
    struct slot_state state = world_slot(world, env, slot);
    struct net_params params = world_params(world, env), momentum = world_momentum(world, env);
    uint32_t a = (state.germinations << 16) + ((uint32_t)slot << 8);
    struct param_layout layout;
    if (effects & EFFECT_INIT_SEED) {
        blueprint_layout(state.blueprint, shape->channels, &layout);
        layout_init(&layout, world->config.seed, STREAM_SEED_INIT, *world->round, (uint32_t)env, a,
                    params.seed + shape->seed);
    }
    if (effects & EFFECT_INIT_GATE) {
        gate_layout(shape->channels, &layout);
        layout_init(&layout, world->config.seed, STREAM_SEED_INIT, *world->round, (uint32_t)env, a + GATE_TENSOR,
                    params.gate + shape->gate);
    }
    if (effects & (EFFECT_INIT_SEED | EFFECT_ZERO_MOMENTUM))
        memset(momentum.seed + shape->seed, 0, sizeof(float) * shape->seed_storage);
    if (effects & (EFFECT_INIT_GATE | EFFECT_ZERO_MOMENTUM))
        memset(momentum.gate + shape->gate, 0, sizeof(float) * shape->gate_storage);
    if (effects & EFFECT_SNAPSHOT)
        world_snapshot(world, env);
}

struct seed_size world_seed_size(const struct world *world, int slot, int blueprint)
{
    struct seed_size size = {0};
    struct param_layout layout;
    int channels = world->shape.slot[slot].channels;
    if (!blueprint_at(blueprint))
        return size;
    blueprint_layout(blueprint, channels, &layout);
    size.seed_params = (uint32_t)layout.params;
    gate_layout(channels, &layout);
    size.gate_params = (uint32_t)layout.params;
    return size;
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

void world_keep_best(struct world *world, int env)
{
    struct net_params params = world_params(world, env);
    *world->best.accuracy = world->val_accuracy[env];
    *world->best.round = *world->round;
    *world->best.env = (uint32_t)env;
    memcpy(world->best.host, params.host, sizeof(float) * world->shape.host.storage);
    memcpy(world->best.stats, params.stats, sizeof(float) * world->shape.stats);
    memcpy(world->best.seed, params.seed, sizeof(float) * world->shape.seed_storage);
    memcpy(world->best.gate, params.gate, sizeof(float) * world->shape.gate_storage);
    for (int j = 0; j < world->shape.slots; j++) {
        struct slot_state slot = world_slot(world, env, j);
        slot_store(&world->best.slots, (size_t)j, &slot);
    }
}

/* ---- snapshot and rollback ----------------------------------------------------------------------------------------
 */

static void copy_env(const struct world *world, const struct net_params *from, const struct net_params *to)
{
    memcpy(to->host, from->host, sizeof(float) * world->shape.host.storage);
    memcpy(to->stats, from->stats, sizeof(float) * world->shape.stats);
}

static void copy_slot(const struct world *world, int slot, const struct net_params *from, const struct net_params *to)
{
    const struct slot_shape *shape = &world->shape.slot[slot];
    memcpy(to->seed + shape->seed, from->seed + shape->seed, sizeof(float) * shape->seed_storage);
    memcpy(to->gate + shape->gate, from->gate + shape->gate, sizeof(float) * shape->gate_storage);
}

void world_snapshot(struct world *world, int env)
{
    struct net_params params = world_params(world, env), saved = world_saved(world, env);
    copy_env(world, &params, &saved);
    for (int j = 0; j < world->shape.slots; j++) {
        struct slot_state slot = world_slot(world, env, j);
        slot_store(&world->saved_slots, world_slot_row(world, env, j), &slot);
        if (slot.stage == STAGE_FOSSILIZED)
            copy_slot(world, j, &params, &saved);
    }
}

void world_rollback(struct world *world, int env, enum prune_reason reason, struct life_log *logs)
{
    struct net_params params = world_params(world, env), saved = world_saved(world, env);
    copy_env(world, &saved, &params);
    for (int j = 0; j < world->shape.slots; j++) {
        struct slot_state slot = world_slot(world, env, j);
        struct slot_state before = slot_load(&world->saved_slots, world_slot_row(world, env, j));
        if (before.stage == STAGE_FOSSILIZED) { /* fossils are snapshot as they are made: none can be missing (D-06) */
            copy_slot(world, j, &saved, &params);
            slot = before;
        } else {
            slot_rollback(&slot, reason, &logs[j]);
        }
        world_set_slot(world, env, j, &slot);
    }
    clear_momentum(world, env);
}
