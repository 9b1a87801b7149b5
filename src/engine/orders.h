/*
 * Orders: what the rules request for the parameters of an env. Rules change only rows - slots, counters, memories - and
 * they do so at once; initialising, zeroing and copying parameters is left to the end of the phase, where one function
 * executes all of it, on the device with many threads per env.
 *
 * The delay changes nothing. A snapshot copies the host and the fossils, which no order initialises: a seed is born in
 * an empty slot, its gate net before it can become a fossil. And a step that rolls back takes no snapshot.
 */
#ifndef ENGINE_ORDERS_H
#define ENGINE_ORDERS_H

#include "engine/world.h"

struct env_orders {
    uint8_t begin;              /* a new host, no momentum anywhere */
    uint8_t restore;            /* host and fossils as in the snapshot, no momentum anywhere */
    uint8_t snapshot;           /* save host and fossils */
    uint32_t slot[SHAPE_SLOTS]; /* bits of enum effect */
};

ESPER_RULE void orders_clear(struct env_orders *orders)
{
    orders->begin = orders->restore = orders->snapshot = 0;
    for (int j = 0; j < SHAPE_SLOTS; j++)
        orders->slot[j] = 0;
}

/* ---- giving orders ----------------------------------------------------------------------------------------------- */

/* Save host and fossils in their current state. */
ESPER_RULE void orders_snapshot_by(const struct world *world, int env, struct env_orders *orders, struct lanes lanes)
{
    LANES_EACH (j, world->shape.slots, lanes) {
        struct slot_state slot = world_slot(world, env, j);
        slot_store(&world->saved_slots, world_slot_row(world, env, j), &slot);
    }
    if (lanes_first(lanes))
        orders->snapshot = 1;
}

ESPER_RULE void orders_snapshot(const struct world *world, int env, struct env_orders *orders)
{
    orders_snapshot_by(world, env, orders, lanes_alone());
}

/* What a rule requested for a slot; the slot's row in the world is already changed. */
ESPER_RULE void orders_effects(const struct world *world, int env, int slot, uint32_t effects,
                               struct env_orders *orders)
{
    ESPER_ASSERT(slot >= 0 && slot < world->shape.slots);
    orders->slot[slot] |= effects;
    if (effects & EFFECT_SNAPSHOT)
        orders_snapshot(world, env, orders);
}

/* Restore host and fossils, prune every other live seed and clear all momentum (E-07). `logs` holds one log per
 * slot. */
ESPER_RULE void orders_rollback(const struct world *world, int env, int reason, struct life_log *logs,
                                struct env_orders *orders)
{
    for (int j = 0; j < world->shape.slots; j++) {
        struct slot_state slot = slot_load(&world->saved_slots, world_slot_row(world, env, j));
        if (slot.stage != STAGE_FOSSILIZED) { /* a snapshot follows every fossilisation: none can be missing (D-06) */
            slot = world_slot(world, env, j);
            slot_rollback(&slot, reason, &logs[j]);
        }
        world_set_slot(world, env, j, &slot);
    }
    orders->restore = 1;
}

/* ---- executing orders: thread `thread` of `threads`, in three parts that all threads finish one by one ----------- */

ESPER_RULE void orders_copy(const float *from, size_t count, uint32_t thread, uint32_t threads, float *to)
{
    if (threads == 1) {
        memcpy(to, from, sizeof *to * count);
        return;
    }
    for (size_t i = thread; i < count; i += threads)
        to[i] = from[i];
}

ESPER_RULE void orders_zero(size_t count, uint32_t thread, uint32_t threads, float *to)
{
    if (threads == 1) {
        memset(to, 0, sizeof *to * count);
        return;
    }
    for (size_t i = thread; i < count; i += threads)
        to[i] = 0;
}

/* Host, statistics and fossils; the snapshot's rows say which slots hold fossils. */
ESPER_RULE void orders_copy_env(const struct world *world, int env, struct net_params from, struct net_params to,
                                uint32_t thread, uint32_t threads)
{
    orders_copy(from.host, world->shape.host.storage, thread, threads, to.host);
    orders_copy(from.stats, world->shape.stats, thread, threads, to.stats);
    for (int j = 0; j < world->shape.slots; j++) {
        const struct slot_shape *shape = &world->shape.slot[j];
        if (world->saved_slots.stage[world_slot_row(world, env, j)] != STAGE_FOSSILIZED)
            continue;
        orders_copy(from.seed + shape->seed, shape->seed_storage, thread, threads, to.seed + shape->seed);
        orders_copy(from.gate + shape->gate, shape->gate_storage, thread, threads, to.gate + shape->gate);
    }
}

/* What the optimiser remembers of `size` parameters, `first` of their pool, and of how often they were updated. */
ESPER_RULE void orders_forget(float *first, float *second, size_t at, size_t size, uint32_t *updates, uint32_t thread,
                              uint32_t threads)
{
    orders_zero(size, thread, threads, first + at);
    if (second)
        orders_zero(size, thread, threads, second + at);
    if (updates && thread == 0)
        *updates = 0;
}

ESPER_RULE void orders_forget_host(const struct world *world, int env, uint32_t thread, uint32_t threads)
{
    const struct net_memory memory = world_memory(world, env);
    orders_forget(memory.first.host, memory.second.host, 0, world->shape.host.storage, net_updates(&memory, NET_HOST),
                  thread, threads);
}

ESPER_RULE void orders_forget_seed(const struct world *world, int env, int slot, uint32_t thread, uint32_t threads)
{
    const struct net_memory memory = world_memory(world, env);
    const struct slot_shape *shape = &world->shape.slot[slot];
    orders_forget(memory.first.seed, memory.second.seed, shape->seed, shape->seed_storage,
                  net_updates(&memory, net_seed_part(slot)), thread, threads);
}

ESPER_RULE void orders_forget_gate(const struct world *world, int env, int slot, uint32_t thread, uint32_t threads)
{
    const struct net_memory memory = world_memory(world, env);
    const struct slot_shape *shape = &world->shape.slot[slot];
    orders_forget(memory.first.gate, memory.second.gate, shape->gate, shape->gate_storage,
                  net_updates(&memory, net_gate_part(world->shape.slots, slot)), thread, threads);
}

ESPER_RULE void orders_forget_all(const struct world *world, int env, uint32_t thread, uint32_t threads)
{
    orders_forget_host(world, env, thread, threads);
    for (int j = 0; j < world->shape.slots; j++) {
        orders_forget_seed(world, env, j, thread, threads);
        orders_forget_gate(world, env, j, thread, threads);
    }
}

ESPER_RULE void orders_fill_stats(const struct net_shape *shape, uint32_t thread, uint32_t threads, float *stats)
{
    for (int i = 0; i < shape->stats_parts; i++) {
        const struct stats_part *part = &shape->stats_part[i];
        for (size_t k = thread; k < part->count; k += threads)
            stats[part->first + k] = part->value;
    }
}

/* First: the host, new or restored. */
ESPER_RULE void orders_do_host(const struct world *world, int env, const struct env_orders *orders, uint32_t thread,
                               uint32_t threads)
{
    struct net_params params = world_params(world, env);
    if (orders->begin) {
        layout_fill(&world->shape.host,
                    random_at(world->config.seed, STREAM_HOST_INIT, *world->round, world_birth(world, env), 0), thread,
                    threads, params.host);
        orders_fill_stats(&world->shape, thread, threads, params.stats);
    }
    if (orders->restore)
        orders_copy_env(world, env, world_saved(world, env), params, thread, threads);
    if (orders->begin || orders->restore)
        orders_forget_all(world, env, thread, threads);
}

/* Tensors of the gate net draw after the seed's own: blueprints have fewer than this many. */
enum { GATE_TENSOR = 16 };

/* Then: newborn seeds and gate nets, and momentum to clear. */
ESPER_RULE void orders_do_slot(const struct world *world, int env, int slot, uint32_t effects, uint32_t thread,
                               uint32_t threads)
{
    const struct slot_shape *shape = &world->shape.slot[slot];
    const size_t row = world_slot_row(world, env, slot);
    struct net_params params = world_params(world, env);
    ESPER_ASSERT(world->slots.blueprint[row] < BLUEPRINT_MAX);
    ESPER_ASSERT(shape->seed + shape->seed_storage <= world->shape.seed_storage);
    ESPER_ASSERT(shape->gate + shape->gate_storage <= world->shape.gate_storage);
    struct random_site site =
        world_random(world, STREAM_SEED_INIT, env, (world->slots.germinations[row] << 16) + ((uint32_t)slot << 8));
    if (effects & EFFECT_INIT_SEED)
        birth_fill(&world->growth.seed[slot][world->slots.blueprint[row]], site, thread, threads,
                   params.seed + shape->seed);
    site.a += GATE_TENSOR;
    if (effects & EFFECT_INIT_GATE)
        birth_fill(&world->growth.gate[slot], site, thread, threads, params.gate + shape->gate);
    if (effects & (EFFECT_INIT_SEED | EFFECT_ZERO_MOMENTUM))
        orders_forget_seed(world, env, slot, thread, threads);
    if (effects & (EFFECT_INIT_GATE | EFFECT_ZERO_MOMENTUM))
        orders_forget_gate(world, env, slot, thread, threads);
}

ESPER_RULE void orders_do_slots(const struct world *world, int env, const struct env_orders *orders, uint32_t thread,
                                uint32_t threads)
{
    for (int j = 0; j < world->shape.slots; j++)
        if (orders->slot[j])
            orders_do_slot(world, env, j, orders->slot[j], thread, threads);
}

/* Last: the snapshot. */
ESPER_RULE void orders_do_snapshot(const struct world *world, int env, const struct env_orders *orders, uint32_t thread,
                                   uint32_t threads)
{
    if (orders->snapshot)
        orders_copy_env(world, env, world_params(world, env), world_saved(world, env), thread, threads);
}

/* Whether the snapshot reads nothing that the others write, so that no thread need wait for another: always, except
 * where an episode begins. */
ESPER_RULE bool orders_are_apart(const struct world *world, int env, const struct env_orders *orders)
{
    if (!orders->snapshot)
        return true;
    for (int j = 0; j < world->shape.slots; j++)
        if (world->saved_slots.stage[world_slot_row(world, env, j)] == STAGE_FOSSILIZED &&
            (orders->slot[j] & (uint32_t)(EFFECT_INIT_SEED | EFFECT_INIT_GATE)))
            return false;
    return !orders->begin && !orders->restore;
}

/* All of it on one thread. */
ESPER_RULE void orders_do(const struct world *world, int env, const struct env_orders *orders)
{
    orders_do_host(world, env, orders, 0, 1);
    orders_do_slots(world, env, orders, 0, 1);
    orders_do_snapshot(world, env, orders, 0, 1);
}

#endif
