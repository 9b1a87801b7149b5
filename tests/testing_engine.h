/* Small engines for the tests: the quick start with few images, and steps in which all envs do the same. */
#ifndef TESTS_TESTING_ENGINE_H
#define TESTS_TESTING_ENGINE_H

#include <stdlib.h>

#include "engine/engine.h"
#include "engine/orders.h"
#include "testing.h"

static inline struct config quickstart_config(int envs)
{
    struct config config;
    struct esper_error error = {0};
    config_defaults(&config);
    assert_int_equal(config_load_task(&config, "quickstart", &error), ESPER_OK);
    config.envs = envs;
    config.reward.mode = REWARD_SHAPED; /* no twins to be played before the first step; test_gain.c has them */
    return config;
}

static inline struct config small_config(int envs, int threads, int batches)
{
    struct config config = quickstart_config(envs);
    config.threads = threads;
    config.data_batches = batches;
    config.data_batch = 16;
    config.data_val_images = 32;
    config.data_test_images = 32;
    return config;
}

static inline struct engine *start(const struct config *config)
{
    struct engine *engine;
    struct esper_error error = {0};
    if (config_check(config, &error) != ESPER_OK || engine_create(&engine, config, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    engine_begin(engine);
    return engine;
}

/* How many blocks of [env] a row has: 1, one per step, or none where it is the run's or empty. */
static inline size_t env_blocks(const struct table_row *row)
{
    return !row->bytes || row->scope == SCOPE_RUN ? 0 : row->scope == SCOPE_ENV ? 1 : row->shape[0];
}

static inline uint64_t hash_of(struct engine *engine)
{
    return table_hash(&engine_world(engine)->table);
}

static inline struct action germinate(int slot, int blueprint, int style)
{
    return (struct action){.op = OP_GERMINATE,
                           .slot = (uint8_t)slot,
                           .blueprint = (uint8_t)blueprint,
                           .style = (uint8_t)style,
                           .alpha_target = 2};
}

/* One step in which every env takes the same action, and none refuses it. */
static inline void step_all(struct engine *engine, struct action action)
{
    struct world *world = engine_world(engine);
    engine_train(engine);
    engine_evaluate(engine);
    engine_decide(engine);
    for (int env = 0; env < world->envs; env++)
        engine_override(engine, env, &action);
    engine_apply(engine);
    for (int env = 0; env < world->envs; env++)
        assert_true(world->env_memory.last_success[env] || world->episode.panicked[env]);
}

static inline void wait_steps(struct engine *engine, int steps)
{
    for (int i = 0; i < steps; i++)
        step_all(engine, (struct action){.op = OP_WAIT});
}

#endif
