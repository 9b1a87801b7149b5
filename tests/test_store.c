/* The record: every column of every table comes back, missing is NULL, whole batches or none; access rights. */
#include <signal.h>

#include "base/build.h"
#include "testing_record.h"

static struct esper_error error;

/* ---- content ----------------------------------------------------------------------------------------------------- */

static void assert_value(sqlite3_stmt *statement, int at, enum column_type type, const char *field)
{
    int64_t whole;
    double real;
    const char *name;
    memcpy(&whole, field, sizeof whole);
    memcpy(&real, field, sizeof real);
    memcpy(&name, field, sizeof name);
    int kind = sqlite3_column_type(statement, at);
    switch (type) {
    case COLUMN_INTEGER:
    case COLUMN_OPTIONAL:
        if (whole == RECORD_NONE)
            break;
        assert_int_equal(kind, SQLITE_INTEGER);
        assert_int_equal(sqlite3_column_int64(statement, at), whole);
        return;
    case COLUMN_NUMBER:
        if (!isfinite(real))
            break;
        assert_int_equal(kind, SQLITE_FLOAT);
        assert_true(sqlite3_column_double(statement, at) == real);
        return;
    case COLUMN_TEXT:
    case COLUMN_PASSAGE:
        name = *field ? field : NULL;
        /* fall through */
    case COLUMN_NAME:
        if (!name)
            break;
        assert_int_equal(kind, SQLITE_TEXT);
        assert_string_equal((const char *)sqlite3_column_text(statement, at), name);
        return;
    }
    assert_int_equal(kind, SQLITE_NULL);
}

/* The table holds these rows, in this order, and no more. */
static void assert_table(struct store *store, const struct record_row *rows, int count)
{
    const struct store_layout *layout = &store_layouts[rows[0].kind];
    sqlite3_stmt *statement = NULL;
    char sql[64];
    snprintf(sql, sizeof sql, "SELECT * FROM %s", layout->name);
    assert_int_equal(sqlite3_prepare_v2(store_sql(store), sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_column_count(statement), layout->count);
    for (int row = 0; row < count; row++) {
        const char *field = (const char *)&rows[row].record;
        assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
        for (int i = 0; i < layout->count; field += column_bytes(layout->columns[i].type), i++) {
            assert_string_equal(sqlite3_column_name(statement, i), layout->columns[i].name);
            assert_value(statement, i, layout->columns[i].type, field);
        }
    }
    assert_int_equal(sqlite3_step(statement), SQLITE_DONE);
    sqlite3_finalize(statement);
}

enum { SAMPLES = 7 };

static void every_column_comes_back(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    create_run(&run, "columns", &config);
    struct store *writer = must_open(&run);
    /* whole; missing; zero is not missing; the largest; infinities are missing */
    static const double reals[SAMPLES] = {0, NAN, 0, 1e308, INFINITY, -INFINITY, -5e-324};
    static struct record_row rows[RECORD_KIND_COUNT][SAMPLES];
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++)
        for (int i = 0; i < SAMPLES; i++)
            fill_row(&rows[kind][i], (enum record_kind)kind, 1000 + 100 * i, i > 0, reals[i]);
    must_write(writer, rows[0], RECORD_KIND_COUNT * SAMPLES); /* all tables in one transaction */

    struct store *reader = must_read(&run);
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++)
        assert_table(reader, rows[kind], SAMPLES);

    struct outcome_record *outcomes;
    int count;
    assert_int_equal(store_outcomes(reader, &outcomes, &count, &error), ESPER_OK);
    assert_int_equal(count, SAMPLES);
    rows[RECORD_OUTCOME][0].record.outcome.schedule = NULL; /* names are left out */
    assert_memory_equal(&outcomes[0], &rows[RECORD_OUTCOME][0].record.outcome, sizeof outcomes[0]);
    assert_true(isnan(outcomes[1].reward));
    assert_true(outcomes[2].reward == 0);
    assert_true(isnan(outcomes[4].reward)); /* an infinity comes back as missing */
    memory_free(outcomes);
    store_close(reader);
    store_close(writer);
    run_close(&run);
}

/* The longest text that fits, and one that fills its field as far as a string may. */
static void texts_fit(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    struct record_row row;
    create_run(&run, "texts", &config);
    struct store *store = must_open(&run);
    fill_row(&row, RECORD_ALERT, 1, false, 0);
    memset(row.record.alert.text, 'x', RECORD_TEXT - 1);
    must_write(store, &row, 1);
    assert_int_equal(query_number(store, "SELECT length(text) FROM alert"), RECORD_TEXT - 1);
    store_close(store);
    run_close(&run);
}

static void a_newer_row_takes_the_place(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    struct record_row rows[2];
    create_run(&run, "newer", &config);
    struct store *store = must_open(&run);
    for (int i = 0; i < 2; i++) {
        fill_row(&rows[i], RECORD_CHECKPOINT, 1, false, 0);
        rows[i].record.checkpoint.bytes = 5 + i;
    }
    must_write(store, &rows[0], 1);
    must_write(store, &rows[1], 1);
    assert_table(store, &rows[1], 1);
    must_write(store, rows, 2); /* also within one transaction: the later one counts */
    assert_table(store, &rows[1], 1);
    must_write(store, rows, 0); /* nothing at all is fine */
    bool has = false;
    assert_int_equal(store_has_checkpoint(store, rows[0].record.checkpoint.file, &has, &error), ESPER_OK);
    assert_true(has);
    assert_int_equal(store_has_checkpoint(store, "text", &has, &error), ESPER_OK);
    assert_false(has);
    store_close(store);
    run_close(&run);
}

static void the_run_is_described(void **state)
{
    (void)state;
    struct config config = sample_config();
    assert_int_equal(config_set(&config, "seed=18446744073709551615", &error), ESPER_OK);
    assert_int_equal(config_set(&config, "policy.kind=heuristic", &error), ESPER_OK);
    struct run run;
    create_run(&run, "described", &config);
    store_close(must_open(&run));
    struct store *store = must_open(&run); /* a second time: the row stays one */
    assert_string_equal(query_text(store,
                                   "SELECT name || ' ' || task || ' ' || policy || ' ' || seed || ' ' || evaluate || "
                                   "' ' || kernels FROM run"),
                        "described sample heuristic 18446744073709551615 0 base");
    assert_string_equal(query_text(store, "SELECT version FROM run"), esper_build);
    assert_int_equal(query_number(store, "SELECT count(*) FROM run"), 1);
    assert_string_equal(query_text(store, "SELECT created FROM run"), run.created);
    assert_int_equal(query_number(store, "SELECT json_extract(configuration, '$.envs') + 1 FROM run"), 5);

    assert_int_equal(query_number(store, "PRAGMA user_version"), STORE_VERSION);
    assert_int_equal(query_number(store, "PRAGMA application_id"), STORE_APPLICATION);
    assert_int_equal(query_number(store, "PRAGMA page_size"), 8192);
    assert_string_equal(query_text(store, "PRAGMA journal_mode"), "wal");
    assert_int_equal(query_number(store, "PRAGMA synchronous"), 1);
    assert_int_equal(query_number(store, "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND strict "
                                         "AND name NOT LIKE 'sqlite%'"),
                     RECORD_KIND_COUNT + 1);
    /* every column says what it is */
    assert_int_equal(query_number(store, "SELECT count(*) FROM sqlite_master m, pragma_table_info(m.name) c WHERE "
                                         "m.type = 'table' AND m.sql NOT GLOB '* ' || c.name || ' *-- ?*'"),
                     0);
    store_close(store);
    run_close(&run);
}

static void counts_add_up(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    const struct record_row rows[] = {
        {RECORD_DROPS, {.drops = {3, 4, "step", "full", 10, 100, 120}}},
        {RECORD_DROPS, {.drops = {3, 4, "step", "thinned", 5, RECORD_NONE, RECORD_NONE}}},
        {RECORD_DROPS, {.drops = {3, 4, "step", "full", 1, 90, 90}}},
        {RECORD_DROPS, {.drops = {3, 4, "step", "thinned", 6, RECORD_NONE, RECORD_NONE}}},
        {RECORD_DROPS, {.drops = {3, 5, "step", "full", 7, 300, 400}}},
        {RECORD_DROPS, {.drops = {3, 4, "step", "full", 2, 200, 210}}},
    };
    const struct record_row sums[] = {
        {RECORD_DROPS, {.drops = {3, 4, "step", "full", 13, 90, 210}}},
        {RECORD_DROPS, {.drops = {3, 4, "step", "thinned", 11, RECORD_NONE, RECORD_NONE}}},
        {RECORD_DROPS, {.drops = {3, 5, "step", "full", 7, 300, 400}}},
    };
    create_run(&run, "sums", &config);
    struct store *store = must_open(&run);
    must_write(store, rows, 4);
    must_write(store, rows + 4, 2);
    assert_table(store, sums, 3);
    store_close(store);
    run_close(&run);
}

/* 6 rounds of 2 steps, each with a checkpoint between its steps and one after them; go on from 4 rounds and 1 step. */
static void forgetting(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    create_run(&run, "forget", &config);
    struct store *store = must_open(&run);
    for (int round = 0; round < 6; round++) {
        struct record_row rows[RECORD_KIND_COUNT * 2];
        for (int kind = 0; kind < RECORD_KIND_COUNT; kind++)
            for (int step = 0; step < 2; step++) /* tables without steps get one row from the two */
                fill_row(&rows[2 * kind + step], (enum record_kind)kind, 1000 * (round + 1), false, 0);
        for (int step = 0; step < 2; step++) {
#define SET_ROUND(NAME, name, lane, level, key, help) rows[2 * RECORD_##NAME + step].record.name.round = round;
            RECORD_KINDS(SET_ROUND)
#undef SET_ROUND
            rows[2 * RECORD_STEP + step].record.step.step = step + 1;
            rows[2 * RECORD_SEED + step].record.seed.step = step + 1;
            rows[2 * RECORD_LIFE + step].record.life.step = step + 1;
            rows[2 * RECORD_SUBSET + step].record.subset.step = step + 1;
            rows[2 * RECORD_ROLLBACK + step].record.rollback.step = step + 1;
            rows[2 * RECORD_PHASE + step].record.phase.step = step + 1;
            rows[2 * RECORD_DROPS + step].record.drops.step = step + 1;
            struct checkpoint_record *checkpoint = &rows[2 * RECORD_CHECKPOINT + step].record.checkpoint;
            checkpoint->round = round + step; /* step 1 of this round, then the next one's beginning */
            checkpoint->step = 1 - step;
            snprintf(checkpoint->file, RECORD_TEXT, "r%06d-s%03d.ckpt", round + step, 1 - step);
        }
        must_write(store, rows, RECORD_KIND_COUNT * 2);
    }
    assert_int_equal(store_forget(store, 4, 1, &error), ESPER_OK);
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        char sql[128];
        const char *name = store_layouts[kind].name;
        bool steps = store_has_steps((enum record_kind)kind);
        snprintf(sql, sizeof sql, "SELECT count(*) FROM %s WHERE round > 3%s", name, steps ? " AND step > 1" : "");
        assert_int_equal(query_number(store, sql), 0);
        assert_int_equal(rows_in(store, name), kind == RECORD_CHECKPOINT ? 9 : steps ? 9 : 4);
    }
    assert_string_equal(query_text(store, "SELECT max(file) FROM checkpoint"), "r000004-s001.ckpt"); /* its own */
    assert_int_equal(store_forget(store, 0, 0, &error), ESPER_OK);
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++)
        assert_int_equal(rows_in(store, store_layouts[kind].name), 0);
    assert_int_equal(rows_in(store, "run"), 1);
    store_close(store);
    run_close(&run);
}

static void a_batch_is_whole_or_absent(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    struct record_row rows[ROUND_ROWS];
    create_run(&run, "whole", &config);
    struct store *store = must_open(&run);
    write_round(store, 0);
    fill_round(rows, 1);
    fill_row(&rows[ROUND_ROWS - 1], RECORD_PHASE, 1, false, 0);
    rows[ROUND_ROWS - 1].record.phase.name = NULL; /* the last row of all is refused: a part of its key is missing */
    assert_int_equal(store_write(store, rows, ROUND_ROWS, &error), ESPER_FAILED);
    assert_says(&error, "NOT NULL");
    assert_says(&error, "telemetry.db");
    assert_int_equal(rows_in(store, "round"), 1);
    assert_int_equal(rows_in(store, "outcome"), ROUND_OUTCOMES);
    write_round(store, 1); /* and it goes on */
    assert_int_equal(rows_in(store, "round"), 2);
    store_close(store);
    run_close(&run);
}

/* ---- readers ----------------------------------------------------------------------------------------------------- */

static void readers_and_a_writer(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    create_run(&run, "shared", &config);
    struct store *missing = NULL;
    assert_int_equal(store_open_reader(&missing, &run, &error), ESPER_INVALID);
    assert_says(&error, "no record yet");

    struct store *writer = must_open(&run), *reader = must_read(&run);
    for (int round = 0; round < 5; round++) {
        write_round(writer, round);
        assert_int_equal(rows_in(reader, "round"), round + 1);
    }
    assert_int_equal(sqlite3_exec(store_sql(reader), "DELETE FROM round", NULL, NULL, NULL), SQLITE_READONLY);
    /* a reader in the middle of a query does not hold the writer up */
    sqlite3_stmt *walk = NULL;
    assert_int_equal(sqlite3_prepare_v2(store_sql(reader), "SELECT round FROM outcome", -1, &walk, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(walk), SQLITE_ROW);
    write_round(writer, 5);
    sqlite3_finalize(walk);
    store_close(writer);
    assert_int_equal(rows_in(reader, "round"), 6);
    store_close(reader);
    run_close(&run);
}

struct reading {
    char path[PATH_MAX];
    int rounds;
};

static int read_unprivileged(const void *context)
{
    const struct reading *reading = context;
    struct run run;
    struct store *store = NULL;
    drop_privileges();
    if (access(reading->path, W_OK) == 0)
        return 10; /* the test would prove nothing */
    if (run_open(&run, ".", reading->path, &error) != ESPER_OK || store_open_reader(&store, &run, &error) != ESPER_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 11;
    }
    int rounds = (int)rows_in(store, "round");
    store_close(store);
    return rounds == reading->rounds ? 0 : 12;
}

static const struct run *victim;

static int write_and_wait(const void *context)
{
    const int *ready = context;
    struct store *store = NULL;
    if (store_open(&store, victim, NULL) != ESPER_OK)
        return 1;
    for (int round = 0; round < 3; round++) {
        struct record_row rows[ROUND_ROWS];
        if (store_write(store, rows, fill_round(rows, round), NULL) != ESPER_OK)
            return 1;
    }
    if (write(ready[1], "x", 1) != 1)
        return 1;
    pause();
    return 0;
}

/* A user who may read but not write sees all of a live, a crashed and a finished run. */
static void readers_without_permission(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    create_run(&run, "foreign", &config);
    victim = &run;
    chmod(folder, 0755);
    chmod(run.path, 0755);
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t writer = start_child(write_and_wait, ready);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    struct reading reading = {.rounds = 3};
    snprintf(reading.path, sizeof reading.path, "%s", run.path);
    assert_int_equal(exit_code(start_child(read_unprivileged, &reading)), 0); /* live */

    kill(writer, SIGKILL);
    exit_code(writer);
    close(ready[0]);
    close(ready[1]);
    run_close(&run);
    assert_int_equal(access(in_folder("foreign/telemetry.db-wal"), F_OK), 0);
    assert_int_equal(exit_code(start_child(read_unprivileged, &reading)), 0); /* crashed */

    struct store *store = must_open(&run);
    store_close(store);
    assert_int_not_equal(access(in_folder("foreign/telemetry.db-wal"), F_OK), 0);
    assert_int_equal(exit_code(start_child(read_unprivileged, &reading)), 0); /* closed in order */
}

static void odd_paths(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    char runs[PATH_MAX];
    snprintf(runs, sizeof runs, "%s", in_folder("a b%41?c#d&mode=rwc"));
    assert_int_equal(run_create(&run, runs, "x", &config, "base", "", "", &error), ESPER_OK);
    struct store *store = must_open(&run);
    write_round(store, 0);
    store_close(store);
    store = must_read(&run);
    assert_int_equal(rows_in(store, "round"), 1);
    store_close(store);
    run_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_column_comes_back),
        cmocka_unit_test(texts_fit),
        cmocka_unit_test(a_newer_row_takes_the_place),
        cmocka_unit_test(the_run_is_described),
        cmocka_unit_test(counts_add_up),
        cmocka_unit_test(forgetting),
        cmocka_unit_test(a_batch_is_whole_or_absent),
        cmocka_unit_test(readers_and_a_writer),
        cmocka_unit_test(readers_without_permission),
        cmocka_unit_test(odd_paths),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
