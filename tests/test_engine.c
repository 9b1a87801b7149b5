/* The engine: determinism, isolation of envs, growth, snapshot and rollback. */
#include "testing_engine.h"

#include <malloc.h>
#include <stdlib.h>

/* ---- rigging ----------------------------------------------------------------------------------------------------- */

static struct config static_config(int envs, int threads)
{
    struct config config = small_config(envs, threads, 2);
    config.policy.kind = POLICY_STATIC;
    return config;
}

/* A life with every operator: three seeds, one after the other. */
static void grow_everything(struct engine *engine)
{
    step_all(engine, germinate(0, BLUEPRINT_CONV_LIGHT, STYLE_LINEAR_ADD));
    step_all(engine, germinate(1, BLUEPRINT_BOTTLENECK, STYLE_GATED_GATE));
    step_all(engine, germinate(2, BLUEPRINT_DEPTHWISE, STYLE_LINEAR_MULTIPLY));
    wait_steps(engine, 16);
    step_all(engine, (struct action){.op = OP_FOSSILIZE, .slot = 0});
    step_all(engine, (struct action){.op = OP_PRUNE, .slot = 1, .alpha_speed = 1});
    wait_steps(engine, 2);
}

/* Every saved row of `a`'s env `ea` equals that of `b`'s env `eb`, bit for bit. */
static void assert_env_equal(const struct world *a, int ea, const struct world *b, int eb)
{
    for (int i = 0; i < a->table.count; i++) {
        const struct table_row *row = &a->table.rows[i], *other = table_find(&b->table, row->name);
        assert_non_null(other);
        if (!row->saved || row->shape[0] != (size_t)a->envs || row->dims == 1)
            continue;
        size_t bytes = row->bytes / (size_t)a->envs;
        if (memcmp((char *)row->data + (size_t)ea * bytes, (char *)other->data + (size_t)eb * bytes, bytes) != 0)
            fail_msg("%s differs", row->name);
    }
    assert_memory_equal(&a->val_loss[ea], &b->val_loss[eb], sizeof(double));
    assert_memory_equal(&a->train_loss[ea], &b->train_loss[eb], sizeof(double));
}

/* ---- determinism ------------------------------------------------------------------------------------------------- */

/* I-66, E-01: the number of threads and envs changes nothing; another seed does. */
static void test_same_bits(void **state)
{
    (void)state;
    struct config eight = static_config(8, 2), eight_one = static_config(8, 1), alone = static_config(1, 1);
    struct engine *a = start(&eight), *b = start(&eight_one), *c = start(&alone);
    grow_everything(a);
    grow_everything(b);
    grow_everything(c);
    assert_int_equal(hash_of(a), hash_of(b));
    for (int env = 0; env < 8; env++)
        assert_env_equal(engine_world(a), env, engine_world(b), env);
    assert_env_equal(engine_world(a), 0, engine_world(c), 0);
    assert_true(engine_world(a)->val_loss[0] != engine_world(a)->val_loss[1]);

    alone.seed = 7;
    struct engine *d = start(&alone);
    grow_everything(d);
    assert_true(engine_world(d)->val_loss[0] != engine_world(c)->val_loss[0]);
    engine_free(a);
    engine_free(b);
    engine_free(c);
    engine_free(d);
}

/* A second round starts afresh, and the first round can be repeated. */
static void test_rounds(void **state)
{
    (void)state;
    struct config config = static_config(2, 2);
    struct engine *engine = start(&config);
    wait_steps(engine, 2);
    uint64_t first = hash_of(engine);
    engine_reset(engine, 1);
    wait_steps(engine, 2);
    assert_true(hash_of(engine) != first);
    engine_reset(engine, 0);
    *engine_world(engine)->total_env_steps = 0; /* the only count that goes on */
    wait_steps(engine, 2);
    assert_int_equal(hash_of(engine), first);
    engine_free(engine);
}

/* ---- growth ------------------------------------------------------------------------------------------------------ */

static void fill_nan(float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = NAN;
}

/* I-30: pools of empty slots are never read. */
static void test_sleeping_pools(void **state)
{
    (void)state;
    struct config config = static_config(1, 1);
    struct engine *clean = start(&config), *poisoned = start(&config);
    struct world *world = engine_world(poisoned);
    fill_nan(world->seed, world->shape.seed_storage);
    fill_nan(world->gate, world->shape.gate_storage);
    fill_nan(world->seed_momentum, world->shape.seed_storage);
    fill_nan(world->gate_momentum, world->shape.gate_storage);
    struct engine *both[] = {clean, poisoned};
    for (int i = 0; i < 2; i++) {
        wait_steps(both[i], 1);
        step_all(both[i], germinate(1, BLUEPRINT_NORM, STYLE_LINEAR_ADD));
        wait_steps(both[i], 16);
    }
    const struct world *a = engine_world(clean), *b = world;
    assert_memory_equal(a->host, b->host, sizeof(float) * a->shape.host.storage);
    assert_memory_equal(a->stats, b->stats, sizeof(float) * a->shape.stats);
    assert_true(a->val_loss[0] == b->val_loss[0] && a->val_accuracy[0] == b->val_accuracy[0]);
    struct slot_state sa = world_slot(a, 0, 1), sb = world_slot(b, 0, 1);
    assert_int_equal(sa.stage, STAGE_HOLDING);
    assert_true(sa.grad_norm == sb.grad_norm && sa.grad_health == sb.grad_health && sa.contribution == sb.contribution);
    engine_free(clean);
    engine_free(poisoned);
}

/* I-24: hosts with seeds in TRAINING take exactly the steps of bare hosts; the seed learns meanwhile. */
static void check_isolation(int base)
{
    struct config config = static_config(2, 2);
    config.host_base = base;
    struct engine *bare = start(&config), *seeded = start(&config);
    step_all(bare, (struct action){.op = OP_WAIT});
    step_all(seeded, germinate(0, BLUEPRINT_CONV_HEAVY, STYLE_LINEAR_ADD));
    struct world *world = engine_world(seeded);
    size_t count = world->shape.slot[0].seed_storage;
    float *born = malloc(sizeof(float) * count);
    assert_non_null(born);
    memcpy(born, world_params(world, 0).seed, sizeof(float) * count);
    wait_steps(bare, 9);
    wait_steps(seeded, 9);
    assert_int_equal(world_slot(world, 0, 0).stage, STAGE_TRAINING);
    assert_memory_equal(engine_world(bare)->host, world->host, sizeof(float) * 2 * world->shape.host.storage);
    assert_memory_equal(engine_world(bare)->host_momentum, world->host_momentum,
                        sizeof(float) * 2 * world->shape.host.storage);
    assert_memory_equal(engine_world(bare)->val_loss, world->val_loss, sizeof(double) * 2);
    assert_memory_not_equal(born, world_params(world, 0).seed, sizeof(float) * count);
    free(born);
    engine_free(bare);
    engine_free(seeded);
}

static void test_training_is_isolated(void **state)
{
    (void)state;
    check_isolation(4);
    check_isolation(1); /* the first block runs in planes */
}

/* D-37: germinated at step t, it trains in t+1 ... t+10 and blends from t+11 on. */
static void test_timing(void **state)
{
    (void)state;
    struct config config = static_config(1, 1);
    struct engine *engine = start(&config);
    step_all(engine, germinate(0, BLUEPRINT_CONV_LIGHT, STYLE_LINEAR_ADD));
    for (int t = 1; t <= 10; t++) {
        assert_int_equal(world_slot(engine_world(engine), 0, 0).stage, STAGE_TRAINING);
        wait_steps(engine, 1);
    }
    struct slot_state slot = world_slot(engine_world(engine), 0, 0);
    assert_int_equal(slot.stage, STAGE_BLENDING);
    assert_true(slot.alpha > 0); /* D-09: the first step of alpha comes with the entry */
    engine_free(engine);
}

/* I-26: while alpha falls the seed's weights and momentum do not change; the host goes on learning. */
static void test_frozen(void **state)
{
    (void)state;
    struct config config = static_config(1, 1);
    struct engine *engine = start(&config);
    struct world *world = engine_world(engine);
    step_all(engine, germinate(0, BLUEPRINT_CONV_LIGHT, STYLE_GATED_GATE));
    wait_steps(engine, 16);
    step_all(engine, (struct action){.op = OP_PRUNE, .slot = 0, .alpha_speed = 3});
    struct slot_state slot = world_slot(world, 0, 0);
    assert_int_equal(slot.alpha_mode, ALPHA_DOWN);
    size_t seeds = world->shape.seed_storage, gates = world->shape.gate_storage, host = world->shape.host.storage;
    float *before = malloc(sizeof(float) * (2 * seeds + 2 * gates + host));
    assert_non_null(before);
    float *momentum = before + seeds, *gate = momentum + seeds, *gate_momentum = gate + gates,
          *hosts = gate_momentum + gates;
    memcpy(before, world->seed, sizeof(float) * seeds);
    memcpy(momentum, world->seed_momentum, sizeof(float) * seeds);
    memcpy(gate, world->gate, sizeof(float) * gates);
    memcpy(gate_momentum, world->gate_momentum, sizeof(float) * gates);
    memcpy(hosts, world->host, sizeof(float) * host);
    wait_steps(engine, 3);
    assert_memory_equal(before, world->seed, sizeof(float) * seeds);
    assert_memory_equal(momentum, world->seed_momentum, sizeof(float) * seeds);
    assert_memory_equal(gate, world->gate, sizeof(float) * gates);
    assert_memory_equal(gate_momentum, world->gate_momentum, sizeof(float) * gates);
    assert_memory_not_equal(hosts, world->host, sizeof(float) * host);
    free(before);
    engine_free(engine);
}

/* D-04: a gate net is born with the start of blending and learns from then on. */
static void test_gate_learns(void **state)
{
    (void)state;
    struct config config = static_config(1, 1);
    struct engine *engine = start(&config);
    struct world *world = engine_world(engine);
    step_all(engine, germinate(0, BLUEPRINT_CONV_LIGHT, STYLE_GATED_GATE));
    wait_steps(engine, 10);
    float born[512], zero[512] = {0};
    size_t bytes = sizeof(float) * world->shape.slot[0].gate_storage;
    assert_true(bytes <= sizeof born);
    memcpy(born, world->gate, bytes);
    assert_memory_not_equal(born, zero, bytes);
    assert_memory_equal(world->gate_momentum, zero, bytes);
    wait_steps(engine, 2);
    assert_memory_not_equal(world->gate, born, bytes);
    assert_memory_not_equal(world->gate_momentum, zero, bytes);
    engine_free(engine);
}

/* I-62: validation leaves parameters, statistics and momentum as they are, whatever it measures. */
static void test_evaluation_changes_nothing(void **state)
{
    (void)state;
    struct config config = static_config(2, 2);
    struct engine *engine = start(&config);
    struct world *world = engine_world(engine);
    step_all(engine, germinate(0, BLUEPRINT_CONV_LIGHT, STYLE_LINEAR_ADD));
    step_all(engine, germinate(1, BLUEPRINT_ATTENTION, STYLE_LINEAR_MULTIPLY));
    wait_steps(engine, 13);
    float *host = malloc(world->table.arena_bytes[CLASS_PARAM]), *moment = malloc(world->table.arena_bytes[CLASS_OPT]);
    assert_non_null(host);
    assert_non_null(moment);
    memcpy(host, world->table.arena[CLASS_PARAM], world->table.arena_bytes[CLASS_PARAM]);
    memcpy(moment, world->table.arena[CLASS_OPT], world->table.arena_bytes[CLASS_OPT]);
    engine_evaluate(engine);
    struct subsets subsets = world_subsets(world, 0);
    assert_int_equal(subsets.seeds, 2);
    assert_int_equal(subsets.count, 4);
    assert_memory_equal(host, world->table.arena[CLASS_PARAM], world->table.arena_bytes[CLASS_PARAM]);
    assert_memory_equal(moment, world->table.arena[CLASS_OPT], world->table.arena_bytes[CLASS_OPT]);
    free(host);
    free(moment);
    engine_free(engine);
}

/* I-65: steps allocate nothing. */
static void test_no_allocation(void **state)
{
    (void)state;
    struct config config = static_config(4, 2);
    struct engine *engine = start(&config);
    step_all(engine, germinate(0, BLUEPRINT_CONV_LIGHT, STYLE_LINEAR_ADD));
    struct mallinfo2 before = mallinfo2();
    wait_steps(engine, 15);
    struct mallinfo2 after = mallinfo2();
    assert_int_equal(before.uordblks + before.hblkhd, after.uordblks + after.hblkhd);
    engine_free(engine);
}

/* D-34: a network that has diverged says so; no ReLU or pool may swallow a NAN. */
static void test_nan_shows(void **state)
{
    (void)state;
    struct config config = static_config(2, 1);
    struct engine *engine = start(&config);
    struct world *world = engine_world(engine);
    wait_steps(engine, 1);
    world_params(world, 0).host[0] = NAN;
    wait_steps(engine, 1);
    assert_true(isnan(world->train_loss[0]) && isnan(world->val_loss[0]));
    assert_true(isfinite(world->train_loss[1]) && isfinite(world->val_loss[1]));
    engine_free(engine);
}

/* ---- snapshot and rollback --------------------------------------------------------------------------------------- */

/* I-64: host and fossils come back bit for bit, also a fossil younger than the last periodic snapshot. */
static void test_rollback(void **state)
{
    (void)state;
    struct config config = static_config(2, 1);
    struct engine *engine = start(&config);
    struct world *world = engine_world(engine);
    step_all(engine, germinate(0, BLUEPRINT_CONV_LIGHT, STYLE_LINEAR_ADD));
    wait_steps(engine, 15);
    step_all(engine, (struct action){.op = OP_FOSSILIZE, .slot = 0}); /* step 17: snapshots were taken at 15 and now */
    struct net_params params = world_params(world, 0);
    size_t host = world->shape.host.storage, seed = world->shape.slot[0].seed_storage;
    float *saved = malloc(sizeof(float) * (host + world->shape.stats + seed));
    assert_non_null(saved);
    memcpy(saved, params.host, sizeof(float) * host);
    memcpy(saved + host, params.stats, sizeof(float) * world->shape.stats);
    memcpy(saved + host + world->shape.stats, params.seed, sizeof(float) * seed);

    step_all(engine, germinate(1, BLUEPRINT_NORM, STYLE_LINEAR_ADD));
    engine_train(engine);
    fill_nan(params.host, host); /* divergence */
    fill_nan(params.seed, seed);
    struct life_log logs[SHAPE_SLOTS] = {0};
    uint64_t other = 0;
    memcpy(&other, &world_params(world, 1).host[0], sizeof(float));
    struct env_orders orders;
    orders_clear(&orders);
    orders_rollback(world, 0, PRUNE_GOVERNOR_NAN, logs, &orders);
    orders_do(world, 0, &orders);
    assert_true(logs[0].count == 0 && logs[1].count == 2 && logs[2].count == 0); /* the seed of slot 1 has gone */

    assert_memory_equal(saved, params.host, sizeof(float) * host);
    assert_memory_equal(saved + host, params.stats, sizeof(float) * world->shape.stats);
    assert_memory_equal(saved + host + world->shape.stats, params.seed, sizeof(float) * seed);
    struct slot_state fossil = world_slot(world, 0, 0), pruned = world_slot(world, 0, 1),
                      empty = world_slot(world, 0, 2);
    assert_int_equal(fossil.stage, STAGE_FOSSILIZED);
    assert_int_equal(pruned.stage, STAGE_PRUNED);
    assert_int_equal(pruned.prune_reason, PRUNE_GOVERNOR_NAN);
    assert_true(slot_has(&pruned, SLOT_AUTO_PRUNED));
    assert_false(slot_has(&empty, SLOT_AUTO_PRUNED)); /* D-07 */
    for (size_t i = 0; i < host; i++)
        assert_true(world_memory(world, 0).first.host[i] == 0);
    uint64_t other_now = 0;
    memcpy(&other_now, &world_params(world, 1).host[0], sizeof(float));
    assert_int_equal(other, other_now);
    assert_int_equal(world_slot(world, 1, 1).stage, STAGE_TRAINING); /* the neighbour's seed lives */
    wait_steps(engine, 1);                                           /* and the env goes on */
    assert_true(isfinite(world->val_loss[0]));
    free(saved);
    engine_free(engine);
}

/* ---- subsets ----------------------------------------------------------------------------------------------------- */

static void test_subsets(void **state)
{
    (void)state;
    struct subsets s;
    for (uint32_t mask = 0; mask < 16; mask++) { /* all subsets, the whole set first, the empty one last */
        subsets_plan(&s, mask, 0);
        assert_int_equal(s.count, 1 << __builtin_popcount(mask));
        assert_int_equal(s.mask[0], mask);
        assert_int_equal(s.mask[s.count - 1], 0);
    }
    subsets_plan(&s, 0x3f, 0x03);
    assert_int_equal(s.count, 2 * 6 + 3);
    assert_true(subset_find(&s, 0x3f) == 0 && subset_find(&s, 0x03) > 0 && subset_find(&s, 0x1f) > 0 &&
                subset_find(&s, 0x20) > 0);
    subsets_plan(&s, 0xffff, 0);
    assert_true(s.count <= SUBSETS_MAX);

    /* f(none) 10, f(a) 30, f(b) 20, f(ab) 70 of 100: contributions 50 and 40, interaction 30 */
    subsets_plan(&s, 0x3, 0);
    for (int k = 0; k < s.count; k++)
        s.score[k] = (const double[]){10, 30, 20, 70}[s.mask[k]];
    assert_true(subset_contribution(&s, 0) == 50 && subset_contribution(&s, 1) == 40);
    assert_true(subset_interaction(&s, 0) == 30 && subset_interaction(&s, 1) == 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),      cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_sleeping_pools), cmocka_unit_test(test_training_is_isolated),
        cmocka_unit_test(test_timing),         cmocka_unit_test(test_frozen),
        cmocka_unit_test(test_gate_learns),    cmocka_unit_test(test_evaluation_changes_nothing),
        cmocka_unit_test(test_no_allocation),  cmocka_unit_test(test_nan_shows),
        cmocka_unit_test(test_rollback),       cmocka_unit_test(test_subsets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
