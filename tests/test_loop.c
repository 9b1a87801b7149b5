/* The closed loop: decide, apply and update of the engine, its determinism, rollbacks and restarts. */
#include "testing_engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "session/checkpoint.h"

static struct config loop_config(int envs, int threads)
{
    struct config config = small_config(envs, threads, 1);
    config.steps = 24;
    config.policy.feature_dim = 24;
    config.policy.hidden = 16;
    return config;
}

static void step(struct engine *engine)
{
    engine_train(engine);
    engine_evaluate(engine);
    engine_decide(engine);
    engine_apply(engine);
}

static void steps(struct engine *engine, int count)
{
    for (int i = 0; i < count; i++)
        step(engine);
}

static void finish(struct engine *engine)
{
    struct outcome_record outcomes[64];
    struct update_report record;
    struct head_report heads[HEAD_COUNT];
    struct world *world = engine_world(engine);
    engine_finish(engine, outcomes);
    engine_update(engine, 0, &record, heads);
    engine_reset(engine, *world->round + 1);
}

static void rounds(struct engine *engine, int count)
{
    for (int i = 0; i < count; i++) {
        steps(engine, engine_world(engine)->config.steps);
        finish(engine);
    }
}

/* ---- determinism ------------------------------------------------------------------------------------------------- */

/* E-01: the same seed gives the same bits, twice and on any number of threads; another seed does not. */
static void test_same_bits(void **state)
{
    (void)state;
    struct config two = loop_config(4, 2), one = loop_config(4, 1), other = loop_config(4, 2);
    other.seed = 43;
    struct engine *a = start(&two), *b = start(&two), *c = start(&one), *d = start(&other);
    rounds(a, 2);
    rounds(b, 2);
    rounds(c, 2);
    rounds(d, 2);
    assert_int_equal(hash_of(a), hash_of(b));
    assert_int_equal(hash_of(a), hash_of(c));
    assert_int_not_equal(hash_of(a), hash_of(d));
    assert_true(*engine_world(a)->learner.updates == 2); /* it did learn */
    engine_free(a);
    engine_free(b);
    engine_free(c);
    engine_free(d);
}

/* The part of a row that belongs to env `env`: of [env]... and of [step][env]... rows. */
static bool same_env(const struct table_row *a, int envs_a, const struct table_row *b, int envs_b, int step_count,
                     bool by_step)
{
    size_t outer = by_step ? (size_t)step_count : 1;
    size_t bytes_a = a->bytes / outer / (size_t)envs_a, bytes_b = b->bytes / outer / (size_t)envs_b;
    if (bytes_a != bytes_b)
        return false;
    for (size_t t = 0; t < outer; t++)
        if (memcmp((char *)a->data + t * (size_t)envs_a * bytes_a, (char *)b->data + t * (size_t)envs_b * bytes_b,
                   bytes_a) != 0)
            return false;
    return true;
}

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Env 0 alone and env 0 among 8 are identical up to the first update: weights, observations, actions, raw rewards. */
static void test_alone_and_among_eight(void **state)
{
    (void)state;
    struct config many = loop_config(8, 2), single = loop_config(1, 1);
    struct engine *a = start(&many), *b = start(&single);
    steps(a, many.steps);
    steps(b, many.steps);
    const struct table *table = &engine_world(a)->table;
    int compared = 0;
    for (int i = 0; i < table->count; i++) {
        const struct table_row *row = &table->rows[i], *other = table_find(&engine_world(b)->table, row->name);
        assert_non_null(other);
        if (!row->saved || starts_with(row->name, "learner.") || strcmp(row->name, "rollout.reward") == 0)
            continue; /* the reward normaliser is shared by all envs */
        bool by_step = starts_with(row->name, "rollout.");
        bool by_env = by_step || (row->shape[0] == 8 && other->shape[0] == 1);
        if (!by_env)
            continue;
        if (!same_env(row, 8, other, 1, many.steps, by_step))
            fail_msg("%s differs", row->name);
        compared++;
    }
    assert_true(compared > 90);
    int acted = 0;
    for (int t = 0; t < many.steps; t++)
        acted += engine_world(a)->rollout.effective_op[t * 8] != OP_WAIT;
    assert_true(acted > 0); /* and something happened to compare */
    engine_free(a);
    engine_free(b);
}

/* ---- rows and rewards -------------------------------------------------------------------------------------------- */

/* Every executed row is a legal draw whose components add up, and the last one ends the episode. */
static void test_rows(void **state)
{
    (void)state;
    struct config config = loop_config(4, 2);
    struct engine *engine = start(&config);
    struct world *world = engine_world(engine);
    double sums[4] = {0};
    for (int t = 0; t < config.steps; t++) {
        step(engine);
        for (int env = 0; env < 4; env++) {
            size_t row = (size_t)t * 4 + (size_t)env;
            const uint8_t *choice = world->rollout.choice + row * HEAD_COUNT;
            uint64_t mask = mask_effective(world->rollout.mask[row], 3, choice[HEAD_OP]);
            for (int head = 0; head < HEAD_COUNT; head++)
                assert_true(mask >> (head_offset(3, head) + choice[head]) & 1u);
            assert_true(world->rollout.effective_op[row] == choice[HEAD_OP]); /* legal draws are executed */
            uint8_t flags = world->rollout.flags[row];
            assert_true((flags & ROW_VALID) && !(flags & (ROW_TRUNCATED | ROW_RESET)));
            assert_int_equal((flags & ROW_DONE) != 0, t == config.steps - 1);
            for (int k = 0; k < REWARD_COMPONENT_COUNT; k++)
                sums[env] += world->components[env * REWARD_COMPONENT_COUNT + k];
            assert_true(fabsf(world->rollout.reward[row]) <= 10.0f);
        }
    }
    for (int env = 0; env < 4; env++)
        assert_true(fabs(sums[env] - world->episode.reward_sum[env]) < 1e-9);
    engine_free(engine);
}

/* Statistics stay frozen while a round is collected (E-15) and move with the update. */
static void test_normaliser_is_frozen(void **state)
{
    (void)state;
    struct config config = loop_config(2, 1);
    struct engine *engine = start(&config);
    struct world *world = engine_world(engine);
    double before = world->learner.obs_mean[1];
    steps(engine, config.steps);
    assert_true(world->learner.obs_mean[1] == before);
    finish(engine);
    assert_true(world->learner.obs_mean[1] != before);
    engine_free(engine);
}

/* Evaluation learns nothing and numbers its rounds separately. */
static void test_evaluation(void **state)
{
    (void)state;
    struct config config = loop_config(2, 1);
    config.evaluate = true;
    struct engine *engine = start(&config);
    struct world *world = engine_world(engine);
    float first = world->learner.w[0];
    double count = *world->learner.reward_count;
    assert_int_equal(*world->round, EVALUATION_ROUND);
    rounds(engine, 1);
    assert_true(world->learner.w[0] == first && *world->learner.reward_count == count);
    assert_int_equal(*world->learner.updates, 0);
    assert_int_equal(*world->total_episodes, 2);
    engine_free(engine);
}

/* What a policy of the same fresh weights chooses in the first steps, in training or evaluation. */
static void first_choices(bool evaluate, bool greedy, double temperature, uint8_t choice[6 * 2 * HEAD_COUNT])
{
    struct config config = loop_config(2, 1);
    config.evaluate = evaluate;
    config.policy.greedy = greedy;
    config.policy.temperature = temperature;
    struct engine *engine = start(&config);
    steps(engine, 6);
    memcpy(choice, engine_world(engine)->rollout.choice, 6 * 2 * HEAD_COUNT);
    engine_free(engine);
}

/* P-11: training draws as ever; an evaluation that is cold enough plays the likeliest action, and a warmer one does
 * not. */
static void test_temperature(void **state)
{
    (void)state;
    enum { BYTES = 6 * 2 * HEAD_COUNT };
    uint8_t one[BYTES], other[BYTES];
    first_choices(false, false, 1, one);
    first_choices(false, false, 0.01, other);
    assert_memory_equal(one, other, BYTES);
    first_choices(true, true, 1, one);
    first_choices(true, false, 1e-9, other); /* fresh logits are close to each other */
    assert_memory_equal(one, other, BYTES);
    first_choices(true, false, 1, other);
    assert_true(memcmp(one, other, BYTES) != 0);
}

/* ---- rollback ---------------------------------------------------------------------------------------------------- */

static void poison(struct engine *engine, int env)
{
    world_params(engine_world(engine), env).host[0] = NAN;
}

/* L-14, E-07: the last executed row pays and ends its segment, the panic step leaves no row,
 * the next one starts afresh; the other envs are not affected. */
static void test_rollback(void **state)
{
    (void)state;
    struct config config = loop_config(2, 1);
    struct engine *engine = start(&config), *calm = start(&config);
    struct world *world = engine_world(engine);
    steps(engine, 8);
    steps(calm, 8);
    float earlier = world->rollout.reward[6 * 2];
    double sum = world->episode.reward_sum[0], last = world->episode.last_reward[0];
    poison(engine, 0);
    step(engine);
    step(calm);
    assert_true(world->rollout.reward[7 * 2] == -10.0f && world->rollout.flags[7 * 2] & ROW_DONE);
    assert_true(world->rollout.reward[6 * 2] == earlier); /* earlier rewards stay */
    assert_int_equal(world->rollout.flags[8 * 2], 0);     /* no row */
    assert_true(fabs(world->episode.reward_sum[0] - (sum - last - 10)) < 1e-12);
    assert_int_equal(world->episode.panicked[0], PRUNE_GOVERNOR_NAN);
    assert_int_equal(world->episode.unattributed[0], 0);
    assert_int_equal(world->env_memory.last_op[0], OP_WAIT);
    for (int k = 0; k < config.policy.hidden; k++)
        assert_true(world->hidden[k] == 0 && world->cell[k] == 0);
    step(engine);
    step(calm);
    assert_true(world->rollout.flags[9 * 2] & ROW_RESET && world->rollout.flags[9 * 2] & ROW_VALID);
    assert_true(isfinite(world->val_loss[0]));
    assert_int_equal(world->episode.rollbacks[0], 1);

    const struct world *other = engine_world(calm); /* env 1 of both */
    assert_true(world->val_loss[1] == other->val_loss[1]);
    size_t host = world->shape.host.storage;
    assert_memory_equal(world_params(world, 1).host, world_params(other, 1).host, sizeof(float) * host);
    assert_memory_equal(world->rollout.choice + 9 * 2 * HEAD_COUNT + HEAD_COUNT,
                        other->rollout.choice + 9 * 2 * HEAD_COUNT + HEAD_COUNT, HEAD_COUNT);
    steps(engine, config.steps - 10);
    finish(engine); /* the update copes with the hole */
    for (size_t i = 0; i < world->learner.shape.storage; i++)
        assert_true(isfinite(world->learner.w[i]));
    assert_int_equal(*world->total_rollbacks, 1);
    engine_free(engine);
    engine_free(calm);
}

/* A panic before any row is counted and blames no row; nor does one right after a rollback. */
static void test_unattributed(void **state)
{
    (void)state;
    struct config config = loop_config(2, 1);
    struct engine *engine = start(&config);
    struct world *world = engine_world(engine);
    poison(engine, 0);
    step(engine);
    assert_int_equal(world->episode.unattributed[0], 1);
    assert_int_equal(world->rollout.flags[0], 0);
    poison(engine, 0);
    step(engine);
    assert_int_equal(world->episode.unattributed[0], 2);
    step(engine);
    assert_true(world->rollout.flags[2 * 2] & ROW_VALID && isfinite(world->val_loss[0]));
    engine_free(engine);
}

/* All envs panic at once, all the time: nothing breaks. At the last step nobody is rolled back (E-19), so the policy
 * learns from that step alone. */
static void test_everybody_panics(void **state)
{
    (void)state;
    struct config config = loop_config(2, 1);
    struct engine *engine = start(&config);
    struct world *world = engine_world(engine);
    for (int t = 0; t < config.steps; t++) {
        poison(engine, 0);
        poison(engine, 1);
        step(engine);
    }
    finish(engine);
    assert_true(isfinite(world->learner.w[0]) && *world->best.accuracy < 0);
    assert_int_equal(*world->total_rollbacks, 2 * (uint64_t)(config.steps - 1));
    engine_free(engine);
}

/* E-21, L-23: a group shares births and images, not seeds; its episodes are paid relative to one another. */
static void test_groups(void **state)
{
    (void)state;
    struct config config = loop_config(5, 1);
    config.group = 2;
    config.reward.mode = REWARD_GAIN;
    config.reward.flop_price = 1;
    struct engine *engine = start(&config);
    struct world *world = engine_world(engine);
    for (int env = 0; env < 4; env += 2) {
        assert_memory_equal(world_params(world, env).host, world_params(world, env + 1).host,
                            sizeof(float) * world->shape.host.storage);
        assert_true(world_params(world, 4).host[0] != world_params(world, env).host[0]);
    }
    steps(engine, config.steps);
    for (int t = 0; t < config.steps; t++)
        assert_true(world->twin_accuracy[t * 5] == world->twin_accuracy[t * 5 + 1]);
    const double *sum = world->episode.reward_sum;
    const float *paid = world->rollout.reward + (size_t)(config.steps - 1) * 5;
    struct moments moments = {*world->learner.reward_count, *world->learner.reward_mean, *world->learner.reward_m2};
    double scale = reward_scale(moments);
    assert_true(sum[0] != 0 && sum[0] != sum[1]);
    for (int env = 0; env < 5; env++) {
        double own = world->episode.last_reward[env], other = env == 4 ? 0 : sum[env ^ 1];
        assert_true(fabs((double)paid[env] - (own - other) / scale) < 1e-4 * (1 + fabs(other / scale)));
    }
    engine_free(engine);

    config.evaluate = true; /* where schedules are compared with each other */
    config.policy.kind = POLICY_STATIC;
    engine = start(&config);
    world = engine_world(engine);
    steps(engine, 3);
    assert_true(world->val_loss[0] == world->val_loss[1] && world->val_loss[0] != world->val_loss[2]);
    engine_free(engine);
}

/* ---- restarts ---------------------------------------------------------------------------------------------------- */

/* Saving in the middle of a round and going on in a new process equals never having stopped (E-02). */
static void check_restart(struct config config, int before, int after)
{
    char path[] = "/tmp/esper-loop-XXXXXX";
    struct esper_error error = {0};
    struct checkpoint_info info;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct engine *whole = start(&config), *first = start(&config), *second;
    rounds(whole, 1);
    steps(whole, before + after);
    rounds(first, 1);
    steps(first, before);
    struct world *world = engine_world(first);
    if (checkpoint_write(path, &world->table, &config, *world->round, *world->step, &info, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    engine_free(first);
    assert_int_equal(engine_create(&second, &config, &error), ESPER_OK);
    if (checkpoint_read(path, &engine_world(second)->table, &config, &info, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    if (engine_restored(second, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    steps(second, after);
    assert_int_equal(hash_of(whole), hash_of(second));
    engine_free(whole);
    engine_free(second);
    unlink(path);
}

static void test_restart(void **state)
{
    (void)state;
    static const enum policy_kind kinds[] = {POLICY_PPO, POLICY_HEURISTIC, POLICY_RANDOM, POLICY_STATIC};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        struct config config = loop_config(2, 1);
        config.policy.kind = kinds[k];
        check_restart(config, 7, config.steps - 7);
    }
    struct config strict = loop_config(3, 2);
    strict.auto_g1 = strict.auto_g2 = strict.auto_g3 = false;
    strict.gates_permissive = false;
    strict.reward.mode = REWARD_ESCROW;
    check_restart(strict, 13, 5);
    struct config gain = loop_config(2, 1);
    gain.reward.mode = REWARD_GAIN;
    check_restart(gain, 0, 3); /* before the twins were played, and after */
    check_restart(gain, 9, 5);
    struct config lessons = loop_config(2, 1);
    lessons.lesson.tries = 3;
    check_restart(lessons, 7, 5);
}

/* ---- every mode runs --------------------------------------------------------------------------------------------- */

static void test_reward_modes(void **state)
{
    (void)state;
    for (int mode = REWARD_SHAPED; mode < REWARD_MODE_COUNT; mode++)
        for (int rules = REWARD_RULES_ESPER; rules <= REWARD_RULES_ORIGINAL; rules++) {
            struct config config = loop_config(2, 1);
            config.reward.mode = mode;
            config.reward.rules = rules;
            config.steps = 20;
            struct engine *engine = start(&config);
            struct world *world = engine_world(engine);
            for (int t = 0; t < config.steps; t++) {
                step(engine);
                for (int env = 0; env < 2; env++)
                    assert_true(isfinite(world->episode.last_reward[env]));
            }
            finish(engine);
            engine_free(engine);
        }
}

/* A replayed topology exists from the first step, with its own weights, and is never changed. */
static void test_replay(void **state)
{
    (void)state;
    struct config config = loop_config(2, 1);
    config.policy.kind = POLICY_REPLAY;
    snprintf(config.policy.from, sizeof config.policy.from, "elsewhere");
    struct engine *engine;
    struct esper_error error = {0};
    assert_int_equal(engine_create(&engine, &config, &error), ESPER_OK);
    struct world *world = engine_world(engine);
    world->replay.present[1] = 1;
    world->replay.blueprint[1] = BLUEPRINT_CONV_LIGHT;
    world->replay.algorithm[1] = ALGORITHM_GATE;
    engine_begin(engine);
    struct slot_state slot = world_slot(world, 1, 1);
    assert_int_equal(slot.stage, STAGE_FOSSILIZED);
    assert_true(slot.alpha == 1.0f && slot.seed_params > 0 && slot.gate_params > 0);
    size_t at = world->shape.slot[1].seed;
    assert_true(world_params(world, 0).seed[at] != world_params(world, 1).seed[at]);
    steps(engine, config.steps);
    assert_int_equal(world_slot(world, 0, 1).stage, STAGE_FOSSILIZED);
    struct outcome_record outcomes[2];
    engine_finish(engine, outcomes);
    assert_int_equal(outcomes[0].fossilized, 1);
    assert_int_equal(outcomes[0].germinated, 0);
    assert_int_equal(outcomes[0].added_params, slot.seed_params + slot.gate_params);
    engine_free(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_alone_and_among_eight),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_normaliser_is_frozen),
        cmocka_unit_test(test_evaluation),
        cmocka_unit_test(test_temperature),
        cmocka_unit_test(test_rollback),
        cmocka_unit_test(test_unattributed),
        cmocka_unit_test(test_everybody_panics),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_reward_modes),
        cmocka_unit_test(test_replay),
        cmocka_unit_test(test_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
