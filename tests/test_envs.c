/*
 * Envs have numbers: those of a world that holds some envs of a run play the episodes that they play among all of them,
 * to the bit, and their rows of the record are the same. And every array of the table says whether it is the envs' or
 * the run's. ESPER_TEST_DEVICE=cuda plays on the device, as in test_poison.c, in shorter episodes.
 */
#include <math.h>

#include "base/group.h"
#include "engine/parts.h"
#include "testing_engine.h"
#include "testing_recorder.h"

static struct engine *start_part(const struct config *config, struct env_part part)
{
    struct engine *engine;
    struct esper_error error = {0};
    if (config_check(config, &error) != ESPER_OK || engine_create_part(&engine, config, part, NULL, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    return engine;
}

/* ---- episodes ---------------------------------------------------------------------------------------------------- */

enum { ENVS = 5, FIRST = 3, COUNT = 2, ROUND = 7 };

/* A round of an engine, recorded in a run of this name. */
static struct engine *play_round(const struct config *config, struct env_part part, const char *name)
{
    struct run run;
    struct outcome_record outcomes[ENVS];
    struct engine *engine = start_part(config, part);
    create_run(&run, name, config);
    struct recorder *recorder = must_start(&run, TELEMETRY_DEBUG);
    engine_record(engine, recorder, clock_seconds(), true);
    engine_begin(engine);
    engine_reset(engine, ROUND);
    while (engine_plays_twins(engine))
        engine_twin_step(engine);
    for (int step = 0; step < config->steps; step++) {
        engine_train(engine);
        engine_evaluate(engine);
        engine_decide(engine);
        engine_apply(engine);
    }
    engine_finish(engine, outcomes);
    for (int env = 0; env < part.count; env++)
        recorder_emit(recorder, RECORD_OUTCOME, &outcomes[env]);
    engine_record(engine, NULL, 0, false);
    must_stop(recorder);
    run_close(&run);
    engine_read(engine);
    return engine;
}

/* All that the envs of the part have, but for the rewards that are scaled by those of all envs. */
static void compare_arrays(const struct world *part, const struct world *whole)
{
    int compared = 0;
    for (int i = 0; i < part->table.count; i++) {
        const struct table_row *row = &part->table.rows[i], *all = &whole->table.rows[i];
        const size_t blocks = row->saved ? env_blocks(row) : 0;
        const bool round = row->scope == SCOPE_STEP_ENV; /* has room for all envs */
        const size_t envs = round ? ENVS : COUNT, first = round ? FIRST : 0;
        const size_t bytes = blocks ? row->bytes / blocks / envs : 0;
        if (blocks == 0 || strcmp(row->name, "rollout.reward") == 0)
            continue;
        for (size_t k = 0; k < blocks; k++)
            if (memcmp((const char *)row->data + (k * envs + first) * bytes,
                       (const char *)all->data + (k * ENVS + FIRST) * bytes, COUNT * bytes) != 0)
                fail_msg("%s of env %d or %d is another one (block %zu)", row->name, FIRST, FIRST + 1, k);
        compared++;
    }
    assert_true(compared > 90);
}

static int64_t count_of(sqlite3 *db, const char *format, const char *table)
{
    char sql[256];
    sqlite3_stmt *statement = NULL;
    snprintf(sql, sizeof sql, format, table, table);
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK || sqlite3_step(statement) != SQLITE_ROW)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    int64_t count = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return count;
}

/* Every row, in both directions. Spans have their own times: what they say of envs is which. */
static void compare_records(bool spans)
{
    static const char *const tables[] = {"step", "seed", "life", "subset", "rollback", "outcome"};
    char attach[512];
    sqlite3 *db = NULL;
    snprintf(attach, sizeof attach, "ATTACH '%s' AS whole", in_folder("whole/telemetry.db"));
    if (sqlite3_open(in_folder("part/telemetry.db"), &db) != SQLITE_OK ||
        sqlite3_exec(db, attach, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s", sqlite3_errmsg(db));
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const char *other = "SELECT count(*) FROM (SELECT * FROM main.%s EXCEPT SELECT * FROM whole.%s)";
        if (count_of(db, other, tables[i]) != 0)
            fail_msg("the rows in %s differ", tables[i]);
        assert_int_equal(count_of(db, "SELECT count(*) FROM main.%s", tables[i]),
                         count_of(db, "SELECT count(*) FROM whole.%s WHERE env >= 3", tables[i]));
    }
    assert_true(count_of(db, "SELECT count(*) FROM main.%s", "seed") > 0);
    assert_true(count_of(db, "SELECT count(*) FROM main.%s", "life") > 0);
    assert_true(count_of(db, "SELECT count(*) FROM main.%s", "outcome") == COUNT);
    assert_true(!spans ||
                count_of(db, "SELECT count(DISTINCT env) FROM main.%s WHERE env IN (3, 4)", "phase") == COUNT);
    assert_true(count_of(db, "SELECT count(*) FROM main.%s WHERE env NOT IN (-1, 3, 4)", "phase") == 0);
    sqlite3_close(db);
}

static void compare_best(const struct world *part, const struct world *whole)
{
    assert_in_range(*part->best.env, FIRST, FIRST + COUNT - 1);
    if (*whole->best.env >= FIRST)
        assert_int_equal(*part->best.env, *whole->best.env);
}

/* Episodes of different conditions, so that nothing about two envs is equal by chance. */
static struct config episode_config(enum policy_kind kind)
{
    struct config config = small_config(ENVS, 2, 1);
    config.device = on_device() ? WISH_CUDA : WISH_CPU;
    config.data_batch = config.data_val_images = config.data_test_images = on_device() ? 4 : 8;
    config.steps = on_device() ? 6 : 24;
    config.mixed = (struct mixed_config){.images_least = 0.1, .label_noise = 0.5, .lr_factor = 2, .price_least = 0.1};
    config.reward.price = 2;
    config.policy.kind = kind;
    config.policy.feature_dim = config.policy.hidden = 16;
    return config;
}

static bool is_earned(const struct table_row *row)
{
    return strcmp(row->name, "rollout.earned") == 0;
}

/* What is kept for the other processes are the rewards of these envs, each at its step. */
static void check_earned(struct engine *engine)
{
    const struct world *world = engine_world(engine);
    if (!world->earned)
        return;
    engine_read_rows(engine, is_earned);
    for (int env = 0; env < world->envs; env++) {
        double sum = 0;
        for (int step = 0; step < world->config.steps; step++)
            sum += world->earned[world_round_row(world, (uint32_t)step, env)];
        assert_true(world->episode.rollbacks[env] > 0 || fabs(sum - world->episode.reward_sum[env]) < 1e-9);
    }
}

static void check_episodes(const struct config *config)
{
    remove_tree(in_folder("whole"));
    remove_tree(in_folder("part"));
    struct engine *whole = play_round(config, (struct env_part){0, ENVS}, "whole");
    struct engine *part = play_round(config, (struct env_part){FIRST, COUNT}, "part");
    compare_arrays(engine_world(part), engine_world(whole));
    compare_records(!on_device());
    compare_best(engine_world(part), engine_world(whole));
    check_earned(part);
    engine_free(whole);
    engine_free(part);
}

/* Env 3 has the birth of env 2, which is not there. */
static void random_play_in_groups(void **state)
{
    (void)state;
    struct config config = episode_config(POLICY_RANDOM);
    config.group = 2;
    config.reward.mode = REWARD_GAIN;
    check_episodes(&config);
}

/* And is rolled back whenever the loss rises. */
static void a_policy_acts(void **state)
{
    (void)state;
    struct config config = episode_config(POLICY_PPO);
    config.host_lr = 0.1;
    config.governor.loss_limit = config.governor.factor = config.governor.sigmas = 0;
    config.governor.streak = 1;
    check_episodes(&config);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void schedules_in_turn(void **state)
{
    (void)state;
    struct config config = episode_config(POLICY_SCHEDULE);
    const char *lines = in_folder("lines");
    write_file(lines, "conv_light/3@1\nr0c2=norm/3@2\n");
    snprintf(config.policy.schedule, sizeof config.policy.schedule, "@%s", lines);
    check_episodes(&config);
}

/* Six seeds at once, one of which differs from env to env: their shares are sampled at the last step. */
static void a_script_names_envs(void **state)
{
    (void)state;
    struct config config = episode_config(POLICY_SCRIPT);
    const char *lines = in_folder("lines");
    assert_int_equal(config_set(&config, "slots=r0c0,r0c1,r0c2,r1c0,r1c1,r1c2", NULL), ESPER_OK);
    write_file(lines,
               "[{\"step\": 1, \"op\": \"germinate\", \"slot\": \"r0c0\", \"blueprint\": \"conv_light\", \"tempo\": 3},"
               "{\"step\": 2, \"op\": \"germinate\", \"slot\": \"r0c1\", \"blueprint\": \"norm\", \"tempo\": 3},"
               "{\"step\": 3, \"op\": \"germinate\", \"slot\": \"r0c2\", \"blueprint\": \"norm\", \"tempo\": 3},"
               "{\"step\": 4, \"op\": \"germinate\", \"slot\": \"r1c0\", \"blueprint\": \"norm\", \"tempo\": 3},"
               "{\"step\": 5, \"op\": \"germinate\", \"slot\": \"r1c1\", \"blueprint\": \"norm\", \"tempo\": 3},"
               "{\"step\": 6, \"env\": 0, \"op\": \"germinate\", \"slot\": \"r1c2\", \"blueprint\": \"norm\"},"
               "{\"step\": 6, \"env\": 3, \"op\": \"germinate\", \"slot\": \"r1c2\", \"blueprint\": \"attention\"},"
               "{\"step\": 6, \"env\": 4, \"op\": \"germinate\", \"slot\": \"r1c2\", \"blueprint\": \"depthwise\"}]");
    snprintf(config.policy.script, sizeof config.policy.script, "%s", lines);
    check_episodes(&config);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* A dimension counts envs if it grows with them. */
static void every_row_has_its_scope(void **state)
{
    (void)state;
    struct config few = episode_config(POLICY_PPO), many;
    struct world *two, *five;
    int scopes[3] = {0};
    few.reward.mode = REWARD_GAIN; /* the most rows */
    few.envs = COUNT;
    many = few;
    many.envs = ENVS;
    assert_int_equal(world_create(&two, &few, NULL), ESPER_OK);
    assert_int_equal(world_create(&five, &many, NULL), ESPER_OK);
    assert_int_equal(two->table.count, five->table.count);
    for (int i = 0; i < two->table.count; i++) {
        const struct table_row *row = &two->table.rows[i], *wide = &five->table.rows[i];
        assert_string_equal(row->name, wide->name);
        assert_int_equal(row->scope, wide->scope);
        for (int d = 0; d < row->dims; d++) {
            const bool env = d == table_env_dim(row->scope);
            if (row->shape[d] != (env ? COUNT : wide->shape[d]) || (env && wide->shape[d] != ENVS))
                fail_msg("%s: dimension %d of its scope has %zu with %d envs, %zu with %d", row->name, d, row->shape[d],
                         COUNT, wide->shape[d], ENVS);
        }
        scopes[row->scope]++;
    }
    assert_true(scopes[SCOPE_RUN] > 20 && scopes[SCOPE_ENV] > 90 && scopes[SCOPE_STEP_ENV] > 10);
    world_free(two);
    world_free(five);
}

static void parts_are_of_the_run(void **state)
{
    (void)state;
    static const struct env_part parts[] = {{-1, 2}, {0, 0}, {4, 2}, {0, 6}};
    struct config config = episode_config(POLICY_PPO);
    struct world *world;
    struct esper_error error = {0};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        assert_int_equal(world_create_part(&world, &config, parts[i], &error), ESPER_INVALID);
    assert_string_equal(error.text, "envs 0 to 5: the run has envs 0 to 4");

    config.group = 2; /* 0 and 1, 2 and 3, 4 */
    assert_int_equal(world_create_part(&world, &config, (struct env_part){3, 2}, &error), ESPER_OK);
    assert_int_equal(world_env_number(world, 1), 4);
    assert_int_equal(world_birth(world, 0), 2);
    world_free(world);
}

/* Each env has one rank, which has one or more and hardly more than another. */
static void ranks_divide_the_envs(void **state)
{
    (void)state;
    for (int envs = 1; envs <= 40; envs++)
        for (int ranks = 1; ranks <= envs; ranks++)
            for (int rank = 0, next = 0; rank < ranks; rank++) {
                const struct env_part part = env_part_of(rank, ranks, envs);
                assert_int_equal(part.first, next);
                assert_in_range(part.count, envs / ranks, (envs + ranks - 1) / ranks);
                next += part.count;
                assert_true(rank + 1 < ranks || next == envs);
            }
    assert_int_equal(group_started(), 1);
    assert_int_equal(group_part(NULL, 7).count, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_divide_the_envs), cmocka_unit_test(every_row_has_its_scope),
        cmocka_unit_test(parts_are_of_the_run),  cmocka_unit_test(random_play_in_groups),
        cmocka_unit_test(a_policy_acts),         cmocka_unit_test(schedules_in_turn),
        cmocka_unit_test(a_script_names_envs),
    };
    return cmocka_run_group_tests_name("envs", tests, folder_make, folder_clear);
}
