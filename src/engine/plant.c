#include "engine/plant.h"

#include "engine/orders.h"

static struct slot_state seed_of(const struct world *world, int slot, int blueprint, enum stage stage)
{
    struct slot_state state;
    struct seed_size size = world_seed_size(world, slot, blueprint);
    slot_clear(&state);
    state.stage = (uint8_t)stage;
    state.prev_stage = stage == STAGE_TRAINING ? STAGE_GERMINATED : STAGE_TRAINING;
    state.blueprint = (uint8_t)blueprint;
    state.algorithm = ALGORITHM_ADD;
    state.germinations = 1;
    state.alpha_curve = CURVE_LINEAR;
    state.steepness = STEEPNESS_DEFAULT;
    state.alpha = stage == STAGE_TRAINING ? 0.0f : 0.5f;
    state.alpha_start = state.alpha_target = state.alpha;
    state.seed_params = size.seed_params;
    state.gate_params = size.gate_params;
    return state;
}

void plant_seeds(struct engine *engine, int blueprint, enum stage stage)
{
    const struct world *world = engine_world(engine);
    engine_read(engine);
    for (int env = 0; env < world->envs; env++) {
        struct env_orders orders;
        orders_clear(&orders);
        for (int j = 0; j < world->shape.slots; j++) {
            struct slot_state state = seed_of(world, j, blueprint, stage);
            world_set_slot(world, env, j, &state);
            orders_effects(world, env, j, EFFECT_INIT_SEED, &orders);
        }
        orders_snapshot(world, env, &orders);
        orders_do(world, env, &orders);
    }
    engine_write(engine);
}
