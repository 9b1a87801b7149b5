/*
 * E-03: an env that fails takes no other with it. A NAN is put into one env's weights at a random step; up to the next
 * update of the policy, every bit of the other envs is what it is without that. 6 times, 100 with ESPER_SOAK.
 * ESPER_TEST_DEVICE=cuda plays on the device (or, with ESPER_CUDA_LIBRARY, on its emulation, which is slow): twice, 10
 * times with ESPER_SOAK, in shorter episodes.
 */
#include "testing_engine.h"

#include <math.h>
#include <stdlib.h>

#include "base/philox.h"

enum { ENVS = 4 };

static struct config poison_config(void)
{
    struct config config = small_config(ENVS, 2, 1);
    config.device = on_device() ? WISH_CUDA : WISH_CPU;
    config.data_batch = 8;
    config.data_val_images = config.data_test_images = on_device() ? 8 : 16;
    config.steps = on_device() ? 10 : 24;
    config.policy.feature_dim = config.policy.hidden = 16;
    config.ppo.epochs = 1;
    return config;
}

static void play(struct engine *engine)
{
    engine_train(engine);
    engine_evaluate(engine);
    engine_decide(engine);
    engine_apply(engine);
}

/* The scale of rewards is one for all envs. */
static size_t blocks_of(const struct table_row *row)
{
    return row->saved && strcmp(row->name, "rollout.reward") != 0 ? env_blocks(row) : 0;
}

static int compare_others(const struct world *a, const struct world *b, int env, int step)
{
    int compared = 0;
    for (int i = 0; i < a->table.count; i++) {
        const struct table_row *row = &a->table.rows[i];
        const size_t blocks = blocks_of(row), bytes = blocks ? row->bytes / blocks / ENVS : 0;
        for (size_t at = 0; at < blocks * ENVS; at++)
            if (at % ENVS != (size_t)env && memcmp((const char *)row->data + at * bytes,
                                                   (const char *)b->table.rows[i].data + at * bytes, bytes) != 0)
                fail_msg("a NAN in env %d before step %d changes %s of env %zu", env, step, row->name, at % ENVS);
        compared += blocks > 0;
    }
    return compared;
}

/* ---- the poison -------------------------------------------------------------------------------------------------- */

/* Into a weight of the host, one of a seed's, or a statistic; seeds may be live or not. */
static void poison(struct engine *engine, int env, struct random_site site)
{
    const struct world *world = engine_world(engine);
    const struct net_params params = world_params(world, env);
    const size_t sizes[] = {world->shape.host.storage, world->shape.seed_storage, world->shape.stats};
    float *const parts[] = {params.host, params.seed, params.stats};
    const uint32_t part = random_word(site, 3) % 4 % 3; /* the host twice as often */
    engine_read(engine);
    parts[part][random_word(site, 4) % sizes[part]] = NAN;
    engine_write(engine);
}

static void copy_world(struct engine *to, struct engine *from)
{
    const struct table *target = &engine_world(to)->table, *source = &engine_world(from)->table;
    engine_read(from);
    for (int i = 0; i < target->count; i++)
        if (target->rows[i].bytes)
            memcpy(target->rows[i].data, source->rows[i].data, target->rows[i].bytes);
    engine_write(to);
}

static void test_poison(void **state)
{
    (void)state;
    const struct config config = poison_config();
    const int few = on_device() ? 2 : 6, many = on_device() ? 10 : 100, times = getenv("ESPER_SOAK") ? many : few;
    struct engine *calm = start(&config), *ill = start(&config);
    const struct world *healthy = engine_world(calm), *sick = engine_world(ill);
    uint32_t rollbacks = 0;
    for (int i = 0; i < times; i++) {
        const struct random_site site = {.seed = 18, .a = (uint32_t)i};
        const int env = (int)(random_word(site, 0) % ENVS), when = (int)(random_word(site, 1) % (uint32_t)config.steps);
        for (int step = 0; step < config.steps; step++) {
            if (step == when)
                poison(ill, env, site);
            play(calm);
            play(ill);
            engine_read(calm);
            engine_read(ill);
            assert_true(compare_others(healthy, sick, env, step + 1) > 90);
        }
        rollbacks += sick->episode.rollbacks[env];
        struct outcome_record outcomes[ENVS];
        struct update_report record;
        struct head_report heads[HEAD_COUNT];
        engine_finish(calm, outcomes);
        engine_update(calm, 0, &record, heads);
        engine_reset(calm, *healthy->round + 1);
        copy_world(ill, calm);
    }
    assert_true(rollbacks > 0); /* some were fatal */
    engine_free(calm);
    engine_free(ill);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_poison)};
    return cmocka_run_group_tests_name("poison", tests, NULL, NULL);
}
