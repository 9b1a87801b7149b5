/* Small engines for the tests: the quick start with few images. */
#ifndef TESTS_TESTING_ENGINE_H
#define TESTS_TESTING_ENGINE_H

#include "engine/engine.h"
#include "testing.h"

static inline struct config quickstart_config(int envs)
{
    struct config config;
    struct esper_error error = {0};
    config_defaults(&config);
    assert_int_equal(config_load_task(&config, "quickstart", &error), ESPER_OK);
    config.envs = envs;
    return config;
}

static inline struct config small_config(int envs, int threads, int batches)
{
    struct config config = quickstart_config(envs);
    config.threads = threads;
    config.data_batches = batches;
    config.data_val_images = 64;
    config.data_test_images = 64;
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

static inline uint64_t hash_of(struct engine *engine)
{
    return table_hash(&engine_world(engine)->table);
}

#endif
