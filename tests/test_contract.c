/* What host families share: points, births from a normal distribution, and what an optimiser remembers. */
#include "testing.h"

#include <math.h>

#include "base/memory.h"
#include "base/normal.h"
#include "engine/orders.h"

/* ---- points ------------------------------------------------------------------------------------------------------ */

static void points_of_classifiers_are_percent(void **state)
{
    (void)state;
    const struct net_score score = {.loss = 1e9, .hits = 37, .count = 60};
    assert_true(net_points(false, 10, &score) == 100.0 * 37 / 60);
}

static void points_by_loss_are_the_share_of_guessing_that_is_gone(void **state)
{
    (void)state;
    const double guess = log(256.0);
    const struct net_score perfect = {0, 0, 7}, guessing = {7 * guess, 0, 7}, half = {7 * guess / 2, 7, 7},
                           worse = {8 * guess, 7, 7}, lost = {(double)NAN, 7, 7}, endless = {INFINITY, 7, 7};
    assert_true(net_points(true, 256, &perfect) == 100);
    assert_true(net_points(true, 256, &guessing) == 0);
    assert_true(fabs(net_points(true, 256, &half) - 50) < 1e-12);
    assert_true(net_points(true, 256, &worse) == 0);
    assert_true(net_points(true, 256, &lost) == 0);
    assert_true(net_points(true, 256, &endless) == 0);
}

static void scores_add_up(void **state)
{
    (void)state;
    struct net_score sum = {1.5, 2, 3};
    net_score_add(&sum, (struct net_score){0.25, 1, 4});
    assert_true(sum.loss == 1.75 && sum.hits == 3 && sum.count == 7);
}

/* ---- births ------------------------------------------------------------------------------------------------------ */

/* Logarithm, sine and cosine against the machine's: no more than a few units in the last place. */
static void normals_are_those_of_box_and_muller(void **state)
{
    (void)state;
    const double quarter = acos(-1.0) / 2;
    uint32_t word = 0;
    for (int i = 0; i < 200000; i++, word = word * 1664525u + 1013904223u) {
        const uint32_t radius = i < 64 ? (i < 32 ? 1u << i : ~0u << (i - 32)) : word, angle = word * 2654435761u;
        const double u = ((double)radius + 1) * 0x1p-32, length = sqrt(-2 * log(u));
        const double at = ((angle >> 30) + (double)(angle & 0x3FFFFFFF) * 0x1p-30 - 0.5) * quarter;
        const struct normals pair = normals_of(radius, angle);
        assert_true(fabs(normal_log(radius) - log(u)) <= 4e-16 * fabs(log(u)) + 1e-300);
        assert_true(fabs(pair.first - length * cos(at)) < 4e-15);
        assert_true(fabs(pair.second - length * sin(at)) < 4e-15);
    }
}

enum { NORMALS = 100003 };

static void normal_births_have_their_mean_and_deviation(void **state)
{
    (void)state;
    static float drawn[NORMALS + LAYOUT_ALIGN];
    const double deviation = 0.02;
    struct param_layout layout = {0};
    layout_add_normal(&layout, "w", deviation, 1, (const int[]){NORMALS});
    layout_init(&layout, 42, STREAM_HOST_INIT, 1, 2, 0, drawn);
    double sum = 0, square = 0, fourth = 0;
    int within = 0;
    for (int i = 0; i < NORMALS; i++) {
        const double x = (double)drawn[i] / (double)(float)deviation;
        sum += x;
        square += x * x;
        fourth += x * x * x * x;
        within += fabs(x) < 1;
    }
    /* five standard errors each */
    assert_true(fabs(sum / NORMALS) < 5 / sqrt(NORMALS));
    assert_true(fabs(square / NORMALS - 1) < 5 * sqrt(2.0 / NORMALS));
    assert_true(fabs(fourth / NORMALS - 3) < 5 * sqrt(96.0 / NORMALS));
    assert_true(fabs((double)within / NORMALS - 0.682689) < 5 * sqrt(0.2166 / NORMALS));
    for (int i = NORMALS; i < NORMALS + LAYOUT_ALIGN - NORMALS % LAYOUT_ALIGN; i++)
        assert_true(drawn[i] == 0);
}

/* However many threads share the work; a constant and a uniform tensor next to it are what they always were. */
static void births_do_not_depend_on_the_threads(void **state)
{
    (void)state;
    enum { TENSORS = 3, STORAGE = 3 * 48 };
    struct param_layout layout = {0};
    layout_add_normal(&layout, "normal", 0.5, 2, (const int[]){5, 7});
    layout_add(&layout, "uniform", 9, 0, 2, (const int[]){5, 7});
    layout_add(&layout, "constant", 0, 1.5f, 1, (const int[]){35});
    assert_int_equal(layout.storage, STORAGE);
    const struct random_site site = random_at(7, STREAM_SEED_INIT, 3, 4, 5);
    const struct birth birth = birth_of(&layout);
    float alone[STORAGE], shared[STORAGE];
    layout_fill(&layout, site, 0, 1, alone);
    for (uint32_t threads = 1; threads <= 5; threads++) {
        memset(shared, 0xFF, sizeof shared);
        for (uint32_t thread = threads; thread-- > 0;)
            birth_fill(&birth, site, thread, threads, shared);
        assert_memory_equal(alone, shared, sizeof alone);
    }
    for (int i = 0; i < 35; i++) {
        const struct random_site second = random_at(7, STREAM_SEED_INIT, 3, 4, 6);
        assert_true(alone[48 + i] == random_symmetric(random_word(second, (uint32_t)i), 1.0 / 3));
        assert_true(alone[96 + i] == 1.5f);
    }
}

/* ---- what an optimiser remembers --------------------------------------------------------------------------------- */

static struct world *world_of(enum optimiser_kind seeds)
{
    struct esper_error error = {0};
    struct config config;
    struct world *world;
    config_defaults(&config);
    config.envs = 2;
    config.seed_optimizer = 1 + (int)seeds; /* no rule of the family is asked */
    assert_int_equal(world_create(&world, &config, &error), ESPER_OK);
    world_begin(world);
    return world;
}

static void fill(float *x, size_t count)
{
    for (size_t i = 0; x && i < count; i++)
        x[i] = 7;
}

static void fill_memory(const struct world *world, int env)
{
    const struct net_memory memory = world_memory(world, env);
    const struct net_params parts[] = {memory.first, memory.second};
    for (int i = 0; i < 2; i++) {
        fill(parts[i].host, world->shape.host.storage);
        fill(parts[i].seed, world->shape.seed_storage);
        fill(parts[i].gate, world->shape.gate_storage);
    }
    for (int part = 0; part < net_parts(world->shape.slots); part++)
        *net_updates(&memory, part) = 7;
}

static void assert_all(const float *x, size_t count, float value)
{
    for (size_t i = 0; i < count; i++)
        assert_true(x[i] == value);
}

/* Of each part of the env: forgotten, or as fill_memory left it. */
static void assert_forgotten(const struct world *world, int env, bool host, uint32_t seeds, uint32_t gates)
{
    const struct net_memory memory = world_memory(world, env);
    const struct net_params moments[] = {memory.first, memory.second};
    const int slots = world->shape.slots;
    assert_int_equal(memory.updates[NET_HOST], host ? 0 : 7);
    for (int i = 0; i < 2; i++)
        assert_all(moments[i].host, world->shape.host.storage, host ? 0 : 7);
    for (int j = 0; j < slots; j++) {
        const struct slot_shape *slot = &world->shape.slot[j];
        const bool seed = seeds >> j & 1u, gate = gates >> j & 1u;
        assert_int_equal(memory.updates[net_seed_part(j)], seed ? 0 : 7);
        assert_int_equal(memory.updates[net_gate_part(slots, j)], gate ? 0 : 7);
        for (int i = 0; i < 2; i++) {
            assert_all(moments[i].seed + slot->seed, slot->seed_storage, seed ? 0 : 7);
            assert_all(moments[i].gate + slot->gate, slot->gate_storage, gate ? 0 : 7);
        }
    }
}

static void second_moments_are_there_for_adamw_alone(void **state)
{
    (void)state;
    static const char *const rows[] = {"host.v", "seed.v", "gate.v", "updates"};
    struct world *sgd = world_of(OPTIMISER_SGD), *adamw = world_of(OPTIMISER_ADAMW);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_null(table_find(&sgd->table, rows[i]));
        const struct table_row *row = table_find(&adamw->table, rows[i]);
        assert_non_null(row);
        assert_true(row->saved && row->scope == SCOPE_ENV);
    }
    const struct net_memory none = world_memory(sgd, 1), memory = world_memory(adamw, 1);
    assert_true(!none.second.host && !none.second.seed && !none.second.gate && !none.updates);
    assert_non_null(none.first.host);
    assert_true(memory.updates == adamw->updates + net_parts(adamw->shape.slots));
    assert_true(memory.second.seed == adamw->seed_second + adamw->shape.seed_storage);
    world_free(sgd);
    world_free(adamw);
}

static void who_is_born_anew_is_remembered_as_newborn(void **state)
{
    (void)state;
    struct world *world = world_of(OPTIMISER_ADAMW);
    struct env_orders orders;
    for (int j = 0; j < world->shape.slots; j++)
        world->slots.blueprint[world_slot_row(world, 0, j)] = BLUEPRINT_CONV_LIGHT;
    const struct {
        uint32_t effects;
        uint32_t seeds, gates;
    } cases[] = {{EFFECT_INIT_SEED, 2, 0}, {EFFECT_INIT_GATE, 0, 2}, {EFFECT_ZERO_MOMENTUM, 2, 2}, {0, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fill_memory(world, 0);
        fill_memory(world, 1);
        orders_clear(&orders);
        orders.slot[1] = cases[i].effects;
        orders_do(world, 0, &orders);
        assert_forgotten(world, 0, false, cases[i].seeds, cases[i].gates);
        assert_forgotten(world, 1, false, 0, 0);
    }
    for (int rollback = 0; rollback < 2; rollback++) { /* as an episode begins, and when the governor restores */
        fill_memory(world, 0);
        fill_memory(world, 1);
        orders_clear(&orders);
        orders.begin = !rollback;
        orders.restore = (uint8_t)rollback;
        for (uint32_t thread = 0; thread < 3; thread++)
            orders_do_host(world, 0, &orders, thread, 3);
        assert_forgotten(world, 0, true, ~0u, ~0u);
        assert_forgotten(world, 1, false, 0, 0);
    }
    world_free(world);
}

static void optimisers_are_those_of_the_keys(void **state)
{
    (void)state;
    struct config config;
    config_defaults(&config);
    struct net_rates rates = host_rates(&config);
    assert_true(rates.host.kind == OPTIMISER_SGD && rates.seed.kind == OPTIMISER_SGD); /* auto, of a CNN */
    assert_true(rates.host.lr == 0.01f && rates.host.momentum == 0.9f && rates.host.weight_decay == 0.0005f);
    assert_true(rates.seed.weight_decay == 0);
    config.host_optimizer = 1 + OPTIMISER_ADAMW;
    config.seed_optimizer = 1 + OPTIMISER_SGD;
    rates = host_rates(&config);
    assert_true(rates.host.kind == OPTIMISER_ADAMW && rates.seed.kind == OPTIMISER_SGD);
    assert_true(rates.host.second == 0.95f && rates.host.epsilon == 1e-8f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_of_classifiers_are_percent),
        cmocka_unit_test(points_by_loss_are_the_share_of_guessing_that_is_gone),
        cmocka_unit_test(scores_add_up),
        cmocka_unit_test(normals_are_those_of_box_and_muller),
        cmocka_unit_test(normal_births_have_their_mean_and_deviation),
        cmocka_unit_test(births_do_not_depend_on_the_threads),
        cmocka_unit_test(second_moments_are_there_for_adamw_alone),
        cmocka_unit_test(who_is_born_anew_is_remembered_as_newborn),
        cmocka_unit_test(optimisers_are_those_of_the_keys),
    };
    return cmocka_run_group_tests_name("contract", tests, NULL, NULL);
}
