/* reset: a fresh episode - a new host, empty slots, no memory, and a snapshot of that. */
#ifndef ENGINE_FRESH_H
#define ENGINE_FRESH_H

#include "engine/step.h"

ESPER_RULE void fresh_memories(const struct world *world, int env)
{
    const size_t row = (size_t)env;
    struct env_memory env_memory;
    struct reward_state reward_state;
    struct tracker tracker;
    struct governor governor;
    struct heuristic heuristic;
    struct episode episode;
    tracker_clear(&tracker);
    governor_clear(&governor);
    heuristic_clear(&heuristic);
    env_memory_clear(&env_memory);
    reward_state_clear(&reward_state);
    episode_clear(&episode);
    tracker_store(&world->tracker, row, &tracker);
    governor_store(&world->governor, row, &governor);
    heuristic_store(&world->heuristic, row, &heuristic);
    env_memory_store(&world->env_memory, row, &env_memory);
    reward_state_store(&world->reward_state, row, &reward_state);
    episode_store(&world->episode, row, &episode);
    for (int i = 0; i < REWARD_COMPONENT_COUNT; i++)
        world->components[row * REWARD_COMPONENT_COUNT + (size_t)i] = 0;
    world_forget_recurrent(world, env);
}

ESPER_RULE void fresh_slots(const struct world *world, int env, struct reward_pairs *pairs)
{
    struct slot_state slot;
    struct slot_memory memory;
    struct reward_slot reward_slot;
    slot_clear(&slot);
    slot_memory_clear(&memory);
    reward_slot_clear(&reward_slot);
    reward_pairs_clear(pairs);
    for (int j = 0; j < world->shape.slots; j++) {
        world_set_slot(world, env, j, &slot);
        slot_memory_store(&world->slot_memory, world_slot_row(world, env, j), &memory);
        reward_slot_store(&world->reward_slot, world_slot_row(world, env, j), &reward_slot);
    }
    world_set_pairs(world, env, pairs, lanes_alone());
}

/* The replayed topology: fossils with fresh weights, present from the first step. */
ESPER_RULE void fresh_replay(const struct world *world, int env, struct env_orders *orders)
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
        orders_effects(world, env, j,
                       (uint32_t)EFFECT_INIT_SEED | (slot_has_gate(&slot) ? (uint32_t)EFFECT_INIT_GATE : 0u), orders);
    }
}

/* `pairs` is working memory. The orders are given here and executed later. */
ESPER_RULE void step_reset_env(const struct step *step, int env, struct reward_pairs *pairs)
{
    const struct world *world = step->world;
    struct env_orders *orders = &step->orders[env];
    struct subsets none;
    orders_clear(orders);
    orders->begin = 1;
    subsets_plan(&none, 0, 0);
    world_set_subsets(world, env, &none);
    world->train_loss[env] = world->train_accuracy[env] = world->val_loss[env] = world->val_accuracy[env] = 0;
    fresh_memories(world, env);
    fresh_slots(world, env, pairs);
    if (!world_plays_twins(world)) /* which never grow */
        fresh_replay(world, env, orders);
    orders_snapshot(world, env, orders);
}

#endif
