#include "engine/world.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"

/* Types of the slot fields as the table knows them. */
#define TABLE_TYPE(type)                                                                                               \
    _Generic((type)0, uint8_t : TYPE_U8, uint16_t : TYPE_U16, uint32_t : TYPE_U32, float : TYPE_F32, double : TYPE_F64)

static void add_slots(struct world *world, struct slot_arrays *arrays, const char *prefix)
{
    size_t envs = (size_t)world->envs, slots = (size_t)world->shape.slots;
    char name[TABLE_NAME];
#define ADD_FIELD(type, field)                                                                                         \
    snprintf(name, sizeof name, "%s.%s", prefix, #field);                                                              \
    TABLE_ADD(&world->table, &arrays->field, name, TABLE_TYPE(type), CLASS_STATE, true, envs, slots);
    SLOT_FIELDS(ADD_FIELD)
#undef ADD_FIELD
}

static void register_arrays(struct world *w)
{
    struct table *t = &w->table;
    size_t envs = (size_t)w->envs, host = w->shape.host.storage, stats = w->shape.stats;
    size_t seed = w->shape.seed_storage, gate = w->shape.gate_storage;

    TABLE_ADD(t, &w->round, "round", TYPE_U32, CLASS_STATE, true, 1);
    TABLE_ADD(t, &w->step, "step", TYPE_U32, CLASS_STATE, true, 1);
    TABLE_ADD(t, &w->host, "host.w", TYPE_F32, CLASS_PARAM, true, envs, host);
    TABLE_ADD(t, &w->stats, "host.stats", TYPE_F32, CLASS_PARAM, true, envs, stats);
    TABLE_ADD(t, &w->seed, "seed.w", TYPE_F32, CLASS_PARAM, true, envs, seed);
    TABLE_ADD(t, &w->gate, "gate.w", TYPE_F32, CLASS_PARAM, true, envs, gate);
    TABLE_ADD(t, &w->host_momentum, "host.m", TYPE_F32, CLASS_OPT, true, envs, host);
    TABLE_ADD(t, &w->seed_momentum, "seed.m", TYPE_F32, CLASS_OPT, true, envs, seed);
    TABLE_ADD(t, &w->gate_momentum, "gate.m", TYPE_F32, CLASS_OPT, true, envs, gate);
    add_slots(w, &w->slots, "slot");
    TABLE_ADD(t, &w->train_loss, "train.loss", TYPE_F64, CLASS_STATE, true, envs);
    TABLE_ADD(t, &w->train_accuracy, "train.accuracy", TYPE_F64, CLASS_STATE, true, envs);
    TABLE_ADD(t, &w->val_loss, "val.loss", TYPE_F64, CLASS_STATE, true, envs);
    TABLE_ADD(t, &w->val_accuracy, "val.accuracy", TYPE_F64, CLASS_STATE, true, envs);
    TABLE_ADD(t, &w->subset_count, "subset.count", TYPE_U32, CLASS_STATE, true, envs);
    TABLE_ADD(t, &w->subset_all, "subset.all", TYPE_U32, CLASS_STATE, true, envs);
    TABLE_ADD(t, &w->subset_mask, "subset.mask", TYPE_U32, CLASS_STATE, true, envs, SUBSETS_MAX);
    TABLE_ADD(t, &w->subset_correct, "subset.correct", TYPE_U32, CLASS_STATE, true, envs, SUBSETS_MAX);
    TABLE_ADD(t, &w->saved_host, "snapshot.host", TYPE_F32, CLASS_STATE, true, envs, host);
    TABLE_ADD(t, &w->saved_stats, "snapshot.stats", TYPE_F32, CLASS_STATE, true, envs, stats);
    TABLE_ADD(t, &w->saved_seed, "snapshot.seed", TYPE_F32, CLASS_STATE, true, envs, seed);
    TABLE_ADD(t, &w->saved_gate, "snapshot.gate", TYPE_F32, CLASS_STATE, true, envs, gate);
    add_slots(w, &w->saved_slots, "snapshot.slot");
}

enum esper_status world_create(struct world **out, const struct config *config, struct esper_error *error)
{
    struct world *world = memory_alloc(1, sizeof *world, error);
    if (!world)
        return ESPER_FAILED;
    world->config = *config;
    world->envs = config->envs;
    shape_init(&world->shape, &world->config);
    register_arrays(world);
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

static size_t slot_index(const struct world *world, int env, int slot)
{
    return (size_t)env * (size_t)world->shape.slots + (size_t)slot;
}

struct slot_state world_slot(const struct world *world, int env, int slot)
{
    return slot_load(&world->slots, slot_index(world, env, slot));
}

void world_set_slot(struct world *world, int env, int slot, const struct slot_state *state)
{
    slot_store(&world->slots, slot_index(world, env, slot), state);
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

/* ---- episodes and effects -----------------------------------------------------------------------------------------
 */

static void clear_momentum(struct world *world, int env)
{
    struct net_params momentum = world_momentum(world, env);
    memset(momentum.host, 0, sizeof(float) * world->shape.host.storage);
    memset(momentum.seed, 0, sizeof(float) * world->shape.seed_storage);
    memset(momentum.gate, 0, sizeof(float) * world->shape.gate_storage);
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
        slot_store(&world->saved_slots, slot_index(world, env, j), &slot);
        if (slot.stage == STAGE_FOSSILIZED)
            copy_slot(world, j, &params, &saved);
    }
}

void world_rollback(struct world *world, int env, enum prune_reason reason, struct life_log *log)
{
    struct net_params params = world_params(world, env), saved = world_saved(world, env);
    copy_env(world, &saved, &params);
    for (int j = 0; j < world->shape.slots; j++) {
        struct slot_state slot = world_slot(world, env, j);
        struct slot_state before = slot_load(&world->saved_slots, slot_index(world, env, j));
        if (before.stage == STAGE_FOSSILIZED) { /* fossils are snapshot as they are made: none can be missing (D-06) */
            copy_slot(world, j, &saved, &params);
            slot = before;
        } else {
            slot_rollback(&slot, reason, log);
        }
        world_set_slot(world, env, j, &slot);
    }
    clear_momentum(world, env);
}
