/* How much is recorded changes nothing but the record: levels, spans, thinning. */
#include "testing_sessions.h"
#include "view/questions.h"

/* ---- levels ------------------------------------------------------------------------------------------------------ */

static uint64_t run_level(enum telemetry_level level, bool spans, const char *name)
{
    struct config config = small_session(POLICY_PPO);
    struct session_progress progress;
    struct session *session = NULL;
    struct esper_error error = {0};
    struct session_options options = {.runs = folder, .name = name, .command = "a test", .spans = spans};
    config.telemetry = level;
    config.threads = 2;
    config.checkpoint.rounds = 1;
    restless(&config, 0.3, 2.5);
    assert_int_equal(session_create(&session, &config, &options, &error), ESPER_OK);
    run_rounds(session, config.rounds, &progress);
    uint64_t hash = session_hash(session);
    finish(session);
    return hash;
}

static void test_levels(void **state)
{
    (void)state;
    static const char *const kept[] = {"run", "round", "outcome", "rollback", "checkpoint"};
    static const char *const names[] = {"off", "normal", "debug", "traced"};
    char hashes[4][256];
    uint64_t off = run_level(TELEMETRY_OFF, false, names[0]);
    assert_int_equal(off, run_level(TELEMETRY_NORMAL, false, names[1]));
    assert_int_equal(off, run_level(TELEMETRY_DEBUG, false, names[2]));
    assert_int_equal(off, run_level(TELEMETRY_NORMAL, true, names[3]));
    for (int i = 0; i < 4; i++) {
        struct store *store = record_of(names[i]);
        snprintf(hashes[i], sizeof hashes[i], "%.255s",
                 query_text(store, "SELECT group_concat(file || ' ' || hash, ' ') FROM checkpoint"));
        store_close(store);
        assert_string_equal(hashes[0], hashes[i]);
    }
    struct store *store = record_of("off");
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        assert_true(rows_in(store, kept[i]) > 0);
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        bool wanted = false;
        for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
            wanted |= strcmp(store_layouts[kind].name, kept[i]) == 0;
        if (!wanted)
            assert_true(rows_in(store, store_layouts[kind].name) == 0);
    }
    store_close(store);

    store = record_of("debug");
    assert_true(number(store, "SELECT count(DISTINCT round * 1000000 + step * 1000 + env) FROM subset") == 2 * 2 * 40);
    store_close(store);
}

/* Every span is there: one of each phase, and with --trace one of each env's part of it, nested within it. */
static void test_spans(void **state)
{
    (void)state;
    static const char *const names[] = {"normal", "traced"};
    for (int traced = 0; traced < 2; traced++) {
        struct store *store = record_of(names[traced]); /* of test_levels: 2 envs, 40 steps, 2 rounds */
        assert_true(number(store, "SELECT count(*) FROM phase WHERE env < 0 AND name IN ('train', 'evaluate', "
                                  "'observe', 'decide', 'apply')") == 5 * 40 * 2);
        assert_true(number(store, "SELECT count(*) FROM phase WHERE env < 0 AND name IN ('test', 'update', "
                                  "'reset')") == 3 * 2);
        assert_true(number(store, "SELECT count(*) FROM phase WHERE env >= 0 AND name IN ('train', 'evaluate', "
                                  "'observe', 'apply')") == traced * 4 * 40 * 2 * 2);
        assert_true(number(store, "SELECT count(*) FROM phase WHERE env >= 0 AND name IN ('test', 'reset')") ==
                    traced * 2 * 2 * 2);
        assert_none(store, "SELECT count(*) FROM phase WHERE start_us < 0 OR duration_us < 0 OR thread NOT IN (0, 1)");
        assert_none(store, "SELECT count(*) FROM phase a JOIN phase b ON a.thread = b.thread AND a.start_us < "
                           "b.start_us AND b.start_us < a.start_us + a.duration_us AND b.start_us + b.duration_us > "
                           "a.start_us + a.duration_us");
        store_close(store);
    }
}

/* telemetry.timers: every so many steps, from the first on; phases of a round are always there, and what is shown of
 * the round's time is about the same. */
static void test_timers(void **state)
{
    (void)state;
    static const int every[] = {7, 0};
    static const double timed[] = {6, 0}; /* steps 1, 8, 15, 22, 29, 36 of 40 */
    for (int i = 0; i < 2; i++) {
        char name[16];
        struct esper_error error = {0};
        struct config config = small_session(POLICY_RANDOM);
        config.timers = every[i];
        config.rounds = 1;
        snprintf(name, sizeof name, "timed%d", every[i]);
        run_whole(&config, name);
        struct store *store = record_of(name);
        assert_true(number(store, "SELECT count(*) FROM phase WHERE name IN ('train', 'evaluate', 'observe', 'decide', "
                                  "'apply')") == 5 * timed[i]);
        assert_none(store, "SELECT count(*) FROM phase WHERE name = 'train' AND step %% 7 <> 1");
        assert_true(number(store, "SELECT count(*) FROM phase WHERE name IN ('test', 'reset')") == 2);
        if (timed[i] > 0) {
            char sql[QUESTION_BYTES];
            struct question_values values = question_all();
            values.round = 0;
            assert_int_equal(question_fill("phases", &values, sql, sizeof sql, &error), ESPER_OK);
            assert_true(fabs(number(store, "SELECT seconds FROM (%s) WHERE name = 'train'", sql) -
                             40 / timed[i] * 1e-6 *
                                 number(store, "SELECT sum(duration_us) FROM phase WHERE name = 'train'")) < 1e-9);
        }
        store_close(store);
    }
}

/* ---- thinning ---------------------------------------------------------------------------------------------------- */

/* From round 200 on, steps in which nothing was done are kept one in ten; what is left out is counted. */
static void test_thinning(void **state)
{
    (void)state;
    struct config config = small_session(POLICY_RANDOM);
    config.envs = 1;
    config.steps = 12;
    config.rounds = 206;
    config.data_batch = 8;
    config.data_val_images = config.data_test_images = 8;
    config.checkpoint.rounds = 1000;
    run_whole(&config, "thinned");
    struct store *store = record_of("thinned");
    assert_true(number(store, "SELECT count(*) FROM step WHERE round < 200") == 200 * 12);
    assert_none(store, "SELECT count(*) FROM step WHERE round >= 200 AND op = 'wait' AND result <> 'rolled_back' AND "
                       "step %% 10 <> 0 AND step <> 12");
    assert_true(number(store, "SELECT count(*) FROM step WHERE round >= 200 AND step IN (10, 12)") == 2 * 6);
    double thinned = number(store, "SELECT sum(count) FROM drops WHERE name = 'step' AND reason = 'thinned'");
    assert_true(thinned > 0 && thinned + (double)rows_in(store, "step") == 206 * 12);
    assert_true(number(store, STAYS "SELECT sum(last - first + 1) FROM stays WHERE stage IN " LIVE, 12) ==
                (double)rows_in(store, "seed") +
                    number(store, "SELECT total(count) FROM drops WHERE name = 'seed' AND reason = 'thinned'"));
    assert_none(store, "SELECT count(*) FROM drops WHERE reason <> 'thinned' OR name NOT IN ('step', 'seed') OR "
                       "round < 200 OR first_sequence IS NOT NULL");
    assert_true(number(store, "SELECT count(*) FROM step WHERE op = 'germinate' AND result = 'done'") ==
                (double)total("thinned", "total.germinations"));
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_spans),
        cmocka_unit_test(test_timers),
        cmocka_unit_test(test_thinning),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
