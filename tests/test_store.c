/* The record: every column comes back, missing is NULL, whole rounds or none, readable whatever happened. */
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>

#include "telemetry/store_schema.h"
#include "testing_runs.h"

static struct esper_error error;

static struct store *must_open(const struct run *run)
{
    struct store *store = NULL;
    if (store_open(&store, run, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    return store;
}

static struct store *must_read(const struct run *run)
{
    struct store *store = NULL;
    if (store_open_reader(&store, run, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    return store;
}

/* The first value of a query as text; "NULL" when it is that. The next call overwrites it. */
static const char *query(struct store *store, const char *sql)
{
    static char text[8192];
    sqlite3_stmt *statement = NULL;
    snprintf(text, sizeof text, "(error)");
    if (sqlite3_prepare_v2(store_sql(store), sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW) {
        const unsigned char *value = sqlite3_column_text(statement, 0);
        snprintf(text, sizeof text, "%s", value ? (const char *)value : "NULL");
    }
    sqlite3_finalize(statement);
    return text;
}

static double query_number(struct store *store, const char *sql)
{
    return strtod(query(store, sql), NULL);
}

/* A report whose every field differs from every other one. */
struct sample {
    struct round_report report;
    struct outcome_record outcomes[3];
    struct rollback_record rollbacks[2];
};

static void fill_record(enum store_table table, void *record, double base, double missing)
{
    const struct store_layout *layout = &store_layouts[table];
    for (int i = 0; i < layout->count; i++)
        if (layout->columns[i].real)
            *(double *)((char *)record + layout->columns[i].offset) = isnan(missing) ? base + i + 0.1 : missing;
        else
            *(int64_t *)((char *)record + layout->columns[i].offset) = (int64_t)base + i;
}

static void fill_sample(struct sample *sample, int64_t round, double missing)
{
    memset(sample, 0, sizeof *sample);
    fill_record(TABLE_ROUND, &sample->report.round, 1000, missing);
    fill_record(TABLE_PPO, &sample->report.ppo, 2000, missing);
    for (int i = 0; i < 3; i++) {
        fill_record(TABLE_OUTCOME, &sample->outcomes[i], 3000 + 100 * i, missing);
        sample->outcomes[i].round = round;
        sample->outcomes[i].env = i;
    }
    for (int i = 0; i < 2; i++) {
        fill_record(TABLE_ROLLBACK, &sample->rollbacks[i], 4000 + 100 * i, missing);
        sample->rollbacks[i].round = round;
        sample->rollbacks[i].step = 5;
        sample->rollbacks[i].env = i;
    }
    sample->report.round.round = round;
    sample->report.has_ppo = true;
    sample->report.outcomes = sample->outcomes;
    sample->report.outcome_count = 3;
    sample->report.rollbacks = sample->rollbacks;
    sample->report.rollback_count = 2;
}

static void write_round(struct store *store, int64_t round)
{
    struct sample sample;
    fill_sample(&sample, round, NAN);
    if (store_round(store, &sample.report, &error) != ESPER_OK)
        fail_msg("%s", error.text);
}

/* ---- content ----------------------------------------------------------------------------------------------------- */

static void assert_row(struct store *store, enum store_table table, const void *record, const char *where)
{
    const struct store_layout *layout = &store_layouts[table];
    for (int i = 0; i < layout->count; i++) {
        char sql[256];
        const char *field = (const char *)record + layout->columns[i].offset;
        sqlite3_stmt *statement = NULL;
        snprintf(sql, sizeof sql, "SELECT %s FROM %s WHERE %s", layout->columns[i].name, layout->name, where);
        assert_int_equal(sqlite3_prepare_v2(store_sql(store), sql, -1, &statement, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
        if (!layout->columns[i].real) {
            assert_int_equal(sqlite3_column_type(statement, 0), SQLITE_INTEGER);
            assert_int_equal(sqlite3_column_int64(statement, 0), *(const int64_t *)(const void *)field);
        } else if (isfinite(*(const double *)(const void *)field)) {
            assert_int_equal(sqlite3_column_type(statement, 0), SQLITE_FLOAT);
            assert_true(sqlite3_column_double(statement, 0) == *(const double *)(const void *)field);
        } else {
            assert_int_equal(sqlite3_column_type(statement, 0), SQLITE_NULL);
        }
        assert_int_equal(sqlite3_step(statement), SQLITE_DONE);
        sqlite3_finalize(statement);
    }
}

static void assert_sample(struct store *store, const struct sample *sample)
{
    char where[64];
    snprintf(where, sizeof where, "round = %lld", (long long)sample->report.round.round);
    assert_row(store, TABLE_ROUND, &sample->report.round, where);
    assert_row(store, TABLE_PPO, &sample->report.ppo, where);
    for (int i = 0; i < 3; i++) {
        snprintf(where, sizeof where, "round = %lld AND env = %d", (long long)sample->report.round.round, i);
        assert_row(store, TABLE_OUTCOME, &sample->outcomes[i], where);
        if (i < 2)
            assert_row(store, TABLE_ROLLBACK, &sample->rollbacks[i], where);
    }
}

static void every_column_comes_back(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    create_run(&run, "columns", &config);
    struct store *writer = must_open(&run);
    const double missing[] = {NAN, 0, 1e308, INFINITY, -INFINITY};
    struct sample samples[5];
    for (int i = 0; i < 5; i++) {
        fill_sample(&samples[i], i, missing[i]);
        assert_int_equal(store_round(writer, &samples[i].report, &error), ESPER_OK);
    }
    fill_sample(&samples[4], 5, NAN); /* and NAN itself */
    samples[4].report.round.seconds = samples[4].report.ppo.kl = samples[4].outcomes[1].reward = NAN;
    assert_int_equal(store_round(writer, &samples[4].report, &error), ESPER_OK);

    struct store *reader = must_read(&run);
    for (int i = 0; i < 5; i++)
        assert_sample(reader, &samples[i]);
    assert_string_equal(query(reader, "SELECT seconds IS NULL FROM round WHERE round = 5"), "1");

    struct outcome_record *outcomes;
    int count;
    assert_int_equal(store_outcomes(reader, &outcomes, &count, &error), ESPER_OK);
    assert_int_equal(count, 18);
    assert_memory_equal(outcomes, samples[0].outcomes, sizeof samples[0].outcomes);
    assert_true(isnan(outcomes[9].reward)); /* an infinity comes back as missing */
    assert_true(isnan(outcomes[16].reward));
    assert_int_equal(outcomes[17].round, 5);
    memory_free(outcomes);
    store_close(reader);
    store_close(writer);
    run_close(&run);
}

static void without_learning(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    struct sample sample;
    create_run(&run, "unlearned", &config);
    struct store *store = must_open(&run);
    fill_sample(&sample, EVALUATION_ROUND, NAN);
    sample.report.has_ppo = false;
    sample.report.rollback_count = 0;
    assert_int_equal(store_round(store, &sample.report, &error), ESPER_OK);
    assert_int_equal(query_number(store, "SELECT count(*) FROM ppo"), 0);
    assert_int_equal(query_number(store, "SELECT round FROM round"), 8388608);
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
    assert_string_equal(query(store, "SELECT name || ' ' || task || ' ' || policy || ' ' || seed || ' ' || evaluate || "
                                     "' ' || version || ' ' || kernels FROM run"),
                        "described sample heuristic 18446744073709551615 0 " ESPER_VERSION " base");
    assert_int_equal(query_number(store, "SELECT count(*) FROM run"), 1);
    assert_string_equal(query(store, "SELECT created FROM run"), run.created);
    assert_int_equal(query_number(store, "SELECT json_extract(configuration, '$.envs') + 1 FROM run"), 5);

    assert_int_equal(query_number(store, "PRAGMA user_version"), STORE_VERSION);
    assert_int_equal(query_number(store, "PRAGMA application_id"), STORE_APPLICATION);
    assert_int_equal(query_number(store, "PRAGMA page_size"), 8192);
    assert_string_equal(query(store, "PRAGMA journal_mode"), "wal");
    assert_int_equal(query_number(store, "PRAGMA synchronous"), 1);
    assert_int_equal(query_number(store, "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND strict "
                                         "AND name IN ('run','round','ppo','outcome','rollback','checkpoint')"),
                     6);
    /* every column says what it is */
    assert_int_equal(query_number(store, "SELECT count(*) FROM sqlite_master m, pragma_table_info(m.name) c WHERE "
                                         "m.type = 'table' AND m.sql NOT GLOB '* ' || c.name || ' *-- ?*'"),
                     0);
    store_close(store);
    run_close(&run);
}

static void checkpoints_are_listed(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    create_run(&run, "checkpoints", &config);
    struct store *store = must_open(&run);
    put_file(in_folder("checkpoints/checkpoints/best.ckpt"), "12345", 5);
    assert_int_equal(store_checkpoint(store, "r000002-s000.ckpt", "periodic", 2, 0, 0xABCull, &error), ESPER_OK);
    assert_int_equal(store_checkpoint(store, "best.ckpt", "best", 1, 0, 1, &error), ESPER_OK);
    assert_int_equal(store_checkpoint(store, "best.ckpt", "best", 2, 0, UINT64_MAX, &error), ESPER_OK); /* replaced */
    assert_int_equal(query_number(store, "SELECT count(*) FROM checkpoint"), 2);
    assert_string_equal(query(store, "SELECT hash || kind || bytes FROM checkpoint WHERE file = 'best.ckpt'"),
                        "ffffffffffffffffbest5");
    assert_string_equal(query(store, "SELECT hash FROM checkpoint WHERE round = 2 AND kind = 'periodic'"),
                        "0000000000000abc");
    assert_string_equal(query(store, "SELECT bytes FROM checkpoint WHERE kind = 'periodic'"), "NULL");
    store_close(store);
    run_close(&run);
}

static void forgetting(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    create_run(&run, "forget", &config);
    struct store *store = must_open(&run);
    for (uint32_t round = 0; round < 6; round++) {
        char file[32];
        snprintf(file, sizeof file, "r%06u-s000.ckpt", round + 1);
        write_round(store, round);
        assert_int_equal(store_checkpoint(store, file, "periodic", round + 1, 0, round, &error), ESPER_OK);
    }
    assert_int_equal(store_forget(store, 4, &error), ESPER_OK); /* go on from r000004-s000 */
    static const char *const tables[] = {"round", "ppo", "outcome", "rollback"};
    static const int rows[] = {4, 4, 12, 8};
    for (int i = 0; i < 4; i++) {
        char sql[64];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", tables[i]);
        assert_int_equal(query_number(store, sql), rows[i]);
        snprintf(sql, sizeof sql, "SELECT max(round) FROM %s", tables[i]);
        assert_int_equal(query_number(store, sql), 3);
    }
    assert_int_equal(query_number(store, "SELECT max(round) FROM checkpoint"), 4);
    write_round(store, 4);
    write_round(store, 5);
    assert_int_equal(query_number(store, "SELECT count(*) FROM outcome"), 18);
    store_close(store);
    run_close(&run);
}

static void a_round_is_whole_or_absent(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    struct sample sample;
    create_run(&run, "whole", &config);
    struct store *store = must_open(&run);
    write_round(store, 0);
    fill_sample(&sample, 1, NAN);
    sample.rollbacks[1] = sample.rollbacks[0]; /* the last row of all is refused */
    assert_int_equal(store_round(store, &sample.report, &error), ESPER_FAILED);
    assert_says(&error, "UNIQUE");
    assert_says(&error, "telemetry.db");
    assert_int_equal(query_number(store, "SELECT count(*) FROM round"), 1);
    assert_int_equal(query_number(store, "SELECT count(*) FROM outcome"), 3);
    write_round(store, 1); /* and it goes on */
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
        assert_int_equal(query_number(reader, "SELECT count(*) FROM round"), round + 1);
    }
    assert_int_equal(sqlite3_exec(store_sql(reader), "DELETE FROM round", NULL, NULL, NULL), SQLITE_READONLY);
    /* a reader in the middle of a query does not hold the writer up */
    sqlite3_stmt *walk = NULL;
    assert_int_equal(sqlite3_prepare_v2(store_sql(reader), "SELECT round FROM outcome", -1, &walk, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(walk), SQLITE_ROW);
    write_round(writer, 5);
    sqlite3_finalize(walk);
    store_close(writer);
    assert_int_equal(query_number(reader, "SELECT count(*) FROM round"), 6);
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
        return 10; /* the test would show nothing */
    if (run_open(&run, ".", reading->path, &error) != ESPER_OK || store_open_reader(&store, &run, &error) != ESPER_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 11;
    }
    int rounds = (int)query_number(store, "SELECT count(*) FROM round");
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
        struct sample sample;
        fill_sample(&sample, round, NAN);
        if (store_round(store, &sample.report, NULL) != ESPER_OK)
            return 1;
    }
    if (write(ready[1], "x", 1) != 1)
        return 1;
    pause();
    return 0;
}

/* Someone who may read but not write sees all of a live, a crashed and a finished run. */
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
    assert_int_equal(run_create(&run, runs, "x", &config, "base", "", &error), ESPER_OK);
    struct store *store = must_open(&run);
    write_round(store, 0);
    store_close(store);
    store = must_read(&run);
    assert_int_equal(query_number(store, "SELECT count(*) FROM round"), 1);
    store_close(store);
    run_close(&run);
}

/* ---- what is not a record ---------------------------------------------------------------------------------------- */

static void refused(const struct run *run, const char *says)
{
    struct store *store = NULL;
    assert_int_equal(store_open_reader(&store, run, &error), ESPER_INVALID);
    assert_says(&error, says);
    assert_int_equal(store_open(&store, run, &error), ESPER_INVALID);
    assert_says(&error, says);
    assert_says(&error, "telemetry.db");
}

static void make_database(const char *path, const char *sql)
{
    sqlite3 *db;
    unlink(path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void foreign_files(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    struct store *store = NULL;
    char path[2 * PATH_MAX], noise[4096];
    create_run(&run, "alien", &config);
    snprintf(path, sizeof path, "%s/telemetry.db", run.path);
    memset(noise, 'n', sizeof noise);
    put_file(path, noise, sizeof noise);
    refused(&run, "not an SQLite database");
    make_database(path, "CREATE TABLE x (y)");
    refused(&run, "not the record of a run");
    make_database(path, "PRAGMA application_id = 0x45737072; PRAGMA user_version = 7; CREATE TABLE x (y)");
    refused(&run, "version 7");
    put_file(path, "", 0); /* killed before the first page */
    assert_int_equal(store_open_reader(&store, &run, &error), ESPER_INVALID);
    assert_says(&error, "no record yet");
    store = must_open(&run);
    for (int i = 0; i < 20; i++)
        write_round(store, i);
    store_close(store);

    FILE *file = fopen(path, "r+b"); /* damage beyond the first page */
    assert_non_null(file);
    fseek(file, 8192, SEEK_SET);
    for (int i = 0; i < 30; i++)
        fwrite(noise, 1, sizeof noise, file);
    fclose(file);
    struct outcome_record *outcomes;
    int count;
    enum esper_status status = store_open_reader(&store, &run, &error);
    if (status == ESPER_OK) {
        status = store_outcomes(store, &outcomes, &count, &error);
        store_close(store);
    }
    assert_int_equal(status, ESPER_INVALID);
    assert_says(&error, "damaged");
    remove_tree(run.path);
    assert_int_equal(store_open_reader(&store, &run, &error), ESPER_INVALID);
    assert_int_equal(store_open(&store, &run, &error), ESPER_FAILED);
    assert_says(&error, "cannot open");
    run_close(&run);
}

/* A limit on the size of files stands for a disk that fills up. */
static int write_until_full(const void *context)
{
    const struct run *run = context;
    struct store *store = NULL;
    struct sample sample;
    const struct rlimit limit = {1000000, 1000000};
    signal(SIGXFSZ, SIG_IGN);
    if (store_open(&store, run, NULL) != ESPER_OK || setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 1;
    for (int round = 0; round < 10000; round++) {
        fill_sample(&sample, round, NAN);
        enum esper_status status = store_round(store, &sample.report, &error);
        if (status == ESPER_OK)
            continue;
        bool clear = status == ESPER_FAILED && strstr(error.text, "telemetry.db: cannot write") &&
                     !strchr(error.text, '\n') && round > 10;
        bool whole = query_number(store, "SELECT count(*) FROM round") == round;
        return clear && whole ? 0 : 2;
    }
    return 3;
}

static void full_disk(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    create_run(&run, "full", &config);
    assert_int_equal(exit_code(start_child(write_until_full, &run)), 0);
    struct store *store = must_open(&run);
    assert_string_equal(query(store, "PRAGMA integrity_check"), "ok");
    int rounds = (int)query_number(store, "SELECT count(*) FROM round");
    assert_true(rounds > 10);
    write_round(store, rounds); /* there is room again */
    store_close(store);
    run_close(&run);
}

static void held_by_another(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    struct sample sample;
    create_run(&run, "busy", &config);
    struct store *store = must_open(&run), *other = must_open(&run);
    sqlite3_busy_timeout(store_sql(store), 50);
    assert_int_equal(sqlite3_exec(store_sql(other), "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    fill_sample(&sample, 0, NAN);
    assert_int_equal(store_round(store, &sample.report, &error), ESPER_FAILED);
    assert_says(&error, "another program holds the record");
    assert_int_equal(sqlite3_exec(store_sql(other), "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(store_round(store, &sample.report, &error), ESPER_OK);
    store_close(other);
    store_close(store);
    run_close(&run);
}

/* ---- kill -9 ----------------------------------------------------------------------------------------------------- */

/* What a resumed trainer does: open, forget what comes after its checkpoint, write. Tells the parent what is committed.
 */
static int train_until_killed(const void *context)
{
    const int *out = context;
    struct run run;
    struct store *store = NULL;
    if (run_open_to_train(&run, victim->path, NULL) != ESPER_OK || store_open(&store, &run, NULL) != ESPER_OK)
        return 1;
    int round = (int)query_number(store, "SELECT count(*) FROM round");
    round = round > 2 ? round - 2 : 0;
    if (store_forget(store, (uint32_t)round, NULL) != ESPER_OK)
        return 1;
    for (;; round++) {
        struct sample sample;
        fill_sample(&sample, round, NAN);
        if (store_round(store, &sample.report, NULL) != ESPER_OK || write(out[1], &round, sizeof round) < 0)
            return 1;
        run_set_status(&run, RUN_RUNNING, (unsigned)round, 0, NULL);
    }
}

static void check_after_kill(int committed)
{
    struct run run;
    struct run_status status;
    if (run_open(&run, ".", victim->path, &error) != ESPER_OK || run_get_status(&run, &status, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    assert_string_equal(run_state_name(&status), "crashed");
    struct store *store = must_read(&run);
    assert_string_equal(query(store, "PRAGMA integrity_check"), "ok");
    int rounds = (int)query_number(store, "SELECT count(*) FROM round");
    assert_true(rounds >= committed + 1); /* what was told is there */
    assert_int_equal(query_number(store, "SELECT coalesce(max(round), -1) + 1 FROM round"), rounds);
    assert_int_equal(query_number(store, "SELECT count(*) FROM ppo"), rounds);
    assert_int_equal(query_number(store, "SELECT count(*) FROM outcome"), 3 * rounds);
    assert_int_equal(query_number(store, "SELECT count(*) FROM rollback"), 2 * rounds);
    store_close(store);
}

static void kills_at_any_instant(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    unsigned noise = 12345;
    create_run(&run, "killed", &config);
    run_close(&run);
    victim = &run;
    store_close(must_open(&run));
    int kills = getenv("ESPER_SOAK") ? 200 : 10, seen = 0;
    for (int i = 0; i < kills; i++) {
        int out[2], round, committed = -1;
        assert_int_equal(pipe(out), 0);
        pid_t pid = start_child(train_until_killed, out);
        close(out[1]);
        noise = noise * 1664525u + 1013904223u;
        usleep(2000 + (noise >> 8) % 60000);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(exit_code(pid), 128 + SIGKILL);
        while (read(out[0], &round, sizeof round) == sizeof round)
            committed = round;
        close(out[0]);
        check_after_kill(committed);
        seen += committed >= 0;
    }
    assert_true(seen > kills / 2); /* most kills came while rounds were written */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_column_comes_back),
        cmocka_unit_test(without_learning),
        cmocka_unit_test(the_run_is_described),
        cmocka_unit_test(checkpoints_are_listed),
        cmocka_unit_test(forgetting),
        cmocka_unit_test(a_round_is_whole_or_absent),
        cmocka_unit_test(readers_and_a_writer),
        cmocka_unit_test(readers_without_permission),
        cmocka_unit_test(odd_paths),
        cmocka_unit_test(foreign_files),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(held_by_another),
        cmocka_unit_test(kills_at_any_instant),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
