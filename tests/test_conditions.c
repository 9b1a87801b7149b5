/* Tasks that are distributions (E-22): what an episode draws, and what it does to an env. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "data/data_set.h"
#include "engine/engine.h"
#include "engine/world.h"

enum { IMAGES = 45000, DRAWS = 20000 };

static struct config mixed_config_of(double least, double noise, double factor)
{
    struct config config;
    config_defaults(&config);
    config.mixed = (struct mixed_config){least, noise, factor, 1, 0};
    return config;
}

static void a_task_that_mixes_nothing_is_plain(void **state)
{
    (void)state;
    struct config config;
    config_defaults(&config);
    const struct conditions plain = conditions_plain(IMAGES);
    for (uint32_t i = 0; i < 1000; i++) {
        struct conditions drawn = conditions_draw(&config, i, i % 7, IMAGES);
        assert_memory_equal(&drawn, &plain, sizeof plain);
    }
    for (uint32_t image = 0; image < 1000; image++)
        assert_int_equal(conditions_label(&plain, 1, 2, 3, image, 7, 10), 7);
}

static void draws_have_their_ranges_and_means(void **state)
{
    (void)state;
    const struct config config = mixed_config_of(0.02, 0.4, 3);
    double few = 0, noise = 0, slow = 0, both = 0, least = 1e9, most = 0;
    for (uint32_t i = 0; i < DRAWS; i++) {
        struct conditions c = conditions_draw(&config, i / 16, i % 16, IMAGES);
        assert_true(c.images >= 900 && c.images <= IMAGES);
        assert_true(c.label_noise >= 0 && c.label_noise < 0.4f);
        assert_true(c.lr_factor >= 1 / 3.001f && c.lr_factor <= 3);
        least = fmin(least, c.images);
        most = fmax(most, c.images);
        few += c.images < IMAGES * sqrt(0.02); /* half of them, on a logarithmic scale */
        slow += c.lr_factor < 1;
        both += c.images < IMAGES * sqrt(0.02) && c.lr_factor < 1;
        noise += (double)c.label_noise;
    }
    assert_true(least < 950 && most > 44000);
    assert_true(fabs(few / DRAWS - 0.5) < 0.02 && fabs(slow / DRAWS - 0.5) < 0.02);
    assert_true(fabs(both / DRAWS - 0.25) < 0.02); /* one says nothing about the other */
    assert_true(fabs(noise / DRAWS - 0.2) < 0.005);
}

static void draws_are_keyed(void **state)
{
    (void)state;
    struct config config = mixed_config_of(0.02, 0.4, 3);
    const struct conditions one = conditions_draw(&config, 5, 3, IMAGES),
                            again = conditions_draw(&config, 5, 3, IMAGES);
    assert_memory_equal(&one, &again, sizeof one);
    for (int k = 0; k < 3; k++) {
        config.seed = 42 + (k == 2);
        struct conditions other = conditions_draw(&config, 5 + (k == 0), 3 + (k == 1), IMAGES);
        assert_true(other.images != one.images && other.label_noise != one.label_noise &&
                    other.lr_factor != one.lr_factor);
    }
    config = mixed_config_of(1, 0.4, 3); /* what is not mixed changes nothing in the rest */
    config.seed = 42;
    const struct conditions rest = conditions_draw(&config, 5, 3, IMAGES);
    assert_int_equal(rest.images, IMAGES);
    assert_true(rest.label_noise == one.label_noise && rest.lr_factor == one.lr_factor);
}

/* Log-uniform, keyed as the rest, and no word of the rest's. */
static void prices_are_drawn_by_themselves(void **state)
{
    (void)state;
    struct config config = mixed_config_of(0.02, 0.4, 3);
    double low = 0, both = 0, least = 1, most = 0;
    assert_true(conditions_price_factor(&config, 5, 3) == 1);
    const struct conditions rest = conditions_draw(&config, 5, 3, IMAGES);
    config.mixed.price_least = 0.01;
    const struct conditions same = conditions_draw(&config, 5, 3, IMAGES);
    assert_memory_equal(&rest, &same, sizeof rest);
    assert_true(conditions_price_factor(&config, 5, 3) == conditions_price_factor(&config, 5, 3));
    assert_true(conditions_price_factor(&config, 5, 3) != conditions_price_factor(&config, 6, 3));
    for (uint32_t i = 0; i < DRAWS; i++) {
        const double factor = conditions_price_factor(&config, i / 16, i % 16);
        least = fmin(least, factor);
        most = fmax(most, factor);
        low += factor < 0.1; /* half of them, on a logarithmic scale */
        both += factor < 0.1 && conditions_draw(&config, i / 16, i % 16, IMAGES).lr_factor < 1;
    }
    assert_true(least >= 0.01 && least < 0.0105 && most <= 1 && most > 0.99);
    assert_true(fabs(low / DRAWS - 0.5) < 0.02 && fabs(both / DRAWS - 0.25) < 0.02);
}

/* Some pay nothing; the prices of the rest are drawn as they were. */
static void some_episodes_are_free(void **state)
{
    (void)state;
    struct config config = mixed_config_of(1, 0, 1);
    config.mixed.price_least = 0.01;
    config.mixed.price_free = 0.25;
    double none = 0, low = 0, least = 1, most = 0;
    for (uint32_t i = 0; i < DRAWS; i++) {
        const double factor = conditions_price_factor(&config, i / 16, i % 16);
        none += factor == 0;
        low += factor > 0 && factor < 0.1;
        least = factor > 0 ? fmin(least, factor) : least;
        most = fmax(most, factor);
    }
    assert_true(least >= 0.01 && least < 0.0105 && most <= 1 && most > 0.99);
    assert_true(fabs(none / DRAWS - 0.25) < 0.02 && fabs(low / DRAWS - 0.375) < 0.02);
    config.mixed.price_least = 1; /* the full price or nothing */
    for (uint32_t i = 0; i < 64; i++) {
        const double factor = conditions_price_factor(&config, i, 0);
        assert_true(factor == 0 || factor == 1);
    }
}

static void wrong_labels_have_their_share_and_are_wrong(void **state)
{
    (void)state;
    const struct conditions c = {IMAGES, 0.3f, 1};
    int wrong = 0, of[10] = {0}, differs = 0;
    for (uint32_t image = 0; image < DRAWS; image++) {
        const uint16_t label = (uint16_t)(image % 10), shown = conditions_label(&c, 42, 1, 2, image, label, 10);
        assert_true(shown < 10);
        assert_int_equal(shown, conditions_label(&c, 42, 1, 2, image, label, 10));
        wrong += shown != label;
        of[(shown + 10 - label) % 10]++;
        differs += shown != conditions_label(&c, 42, 1, 3, image, label, 10);
    }
    assert_true(fabs((double)wrong / DRAWS - 0.3) < 0.01);
    assert_int_equal(of[0], DRAWS - wrong);
    for (int other = 1; other < 10; other++) /* all others are as likely */
        assert_true(fabs((double)of[other] / DRAWS - 0.3 / 9) < 0.005);
    assert_true(differs > DRAWS / 3); /* every env has its own */
    const struct conditions all = {IMAGES, 1, 1};
    for (uint32_t image = 0; image < 1000; image++)
        assert_int_not_equal(conditions_label(&all, 42, 1, 2, image, 4, 10), 4);
}

/* ---- in an engine ------------------------------------------------------------------------------------------------ */

static struct engine *engine_in_groups(struct mixed_config mixed, double lr, int group)
{
    struct config config;
    struct engine *engine;
    struct esper_error error = {0};
    config_defaults(&config);
    config.mixed = mixed;
    config.group = group;
    config.envs = 3;
    config.steps = 2;
    config.threads = 1;
    config.device = WISH_CPU;
    config.host_base = 4;
    config.host_kernel = 1;
    config.host_lr = lr;
    config.data_set = DATA_SYNTHETIC;
    config.data_size = 16;
    config.data_batch = 8;
    config.data_batches = 2;
    config.data_val_images = config.data_test_images = 16;
    config.policy.kind = POLICY_STATIC;
    if (config_check(&config, &error) != ESPER_OK || engine_create(&engine, &config, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    engine_begin(engine);
    return engine;
}

static struct engine *engine_of(struct mixed_config mixed, double lr)
{
    return engine_in_groups(mixed, lr, 1);
}

static void step(struct engine *engine)
{
    engine_train(engine);
    engine_evaluate(engine);
    engine_decide(engine);
    engine_apply(engine);
}

/* An env that draws a factor learns, to the bit, as one whose task has that learning rate. */
static void each_env_learns_at_its_own_rate(void **state)
{
    (void)state;
    struct engine *mixed = engine_of((struct mixed_config){1, 0, 3, 1, 0}, 0.01);
    const struct world *world = engine_world(mixed);
    const size_t host = world->shape.host.storage;
    step(mixed);
    for (size_t env = 0; env < 3; env++) {
        const float factor = world->conditions.lr_factor[env];
        assert_true(factor != 1.0f);
        struct engine *plain = engine_of((struct mixed_config){1, 0, 1, 1, 0}, (double)(0.01f * factor));
        step(plain);
        assert_memory_equal(world->host + env * host, engine_world(plain)->host + env * host, sizeof(float) * host);
        engine_free(plain);
    }
    engine_free(mixed);
}

/* Outcomes say under which conditions they came about; a round's are those of its number. */
static void outcomes_name_the_conditions(void **state)
{
    (void)state;
    struct outcome_record outcomes[3];
    struct engine *engine = engine_of((struct mixed_config){0.05, 0.5, 2, 1, 0}, 0.01);
    const struct world *world = engine_world(engine);
    for (uint32_t round = 0; round < 2; round++) {
        if (round > 0)
            engine_reset(engine, round);
        step(engine);
        step(engine);
        engine_finish(engine, outcomes);
        for (uint32_t env = 0; env < 3; env++) {
            const struct conditions drawn = conditions_draw(&world->config, round, env, 10000);
            assert_int_equal(outcomes[env].images, drawn.images);
            assert_true(outcomes[env].label_noise == (double)drawn.label_noise);
            assert_true(outcomes[env].lr_factor == (double)drawn.lr_factor);
            assert_in_range(outcomes[env].images, 500, 10000);
        }
    }
    engine_free(engine);
}

/* Envs of one birth differ in what they grow, and in nothing else (E-21). */
static void a_group_shares_its_conditions(void **state)
{
    (void)state;
    struct engine *engine = engine_in_groups((struct mixed_config){0.01, 0.5, 3, 1, 0}, 0.01, 3);
    const struct world *world = engine_world(engine);
    step(engine);
    for (int env = 1; env < 3; env++) {
        assert_int_equal(world->conditions.images[env], world->conditions.images[0]);
        assert_true(world->conditions.lr_factor[env] == world->conditions.lr_factor[0]);
        assert_true(world->train_loss[env] == world->train_loss[0] && world->val_loss[env] == world->val_loss[0]);
    }
    engine_free(engine);
}

/* Wrong labels and few images change what is learned from, never what is judged by. */
static void validation_is_always_right(void **state)
{
    (void)state;
    struct engine *plain = engine_of((struct mixed_config){1, 0, 1, 1, 0}, 0),
                  *wrong = engine_of((struct mixed_config){0.01, 1, 1, 1, 0}, 0);
    const struct world *a = engine_world(plain), *b = engine_world(wrong);
    engine_evaluate(plain);
    engine_evaluate(wrong);
    assert_memory_equal(a->val_loss, b->val_loss, sizeof(double) * 3);
    step(plain);
    step(wrong);
    for (int env = 0; env < 3; env++)
        assert_true(a->train_loss[env] != b->train_loss[env]);
    engine_free(plain);
    engine_free(wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_that_mixes_nothing_is_plain),
        cmocka_unit_test(draws_have_their_ranges_and_means),
        cmocka_unit_test(draws_are_keyed),
        cmocka_unit_test(prices_are_drawn_by_themselves),
        cmocka_unit_test(some_episodes_are_free),
        cmocka_unit_test(wrong_labels_have_their_share_and_are_wrong),
        cmocka_unit_test(each_env_learns_at_its_own_rate),
        cmocka_unit_test(outcomes_name_the_conditions),
        cmocka_unit_test(a_group_shares_its_conditions),
        cmocka_unit_test(validation_is_always_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
