/* The record in trouble: files that are not records, a full disk, a locked or moved file, kill -9 at any instant. */
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>

#include "testing_record.h"

static struct esper_error error;
static const struct run *victim;

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
    refused(&run, "a record of version 7, by a newer Esper; this one (" ESPER_VERSION
                  ") reads versions up to 6: use the newer one");
    make_database(path, "PRAGMA application_id = 0x45737072; PRAGMA user_version = 1; CREATE TABLE round (round)");
    refused(&run, "a record of version 1; this Esper (" ESPER_VERSION ") reads versions from 2 on");
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
    struct record_row rows[ROUND_ROWS];
    const struct rlimit limit = {1000000, 1000000};
    signal(SIGXFSZ, SIG_IGN);
    if (store_open(&store, run, NULL) != ESPER_OK || setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 1;
    for (int round = 0; round < 10000; round++) {
        enum esper_status status = store_write(store, rows, fill_round(rows, round), &error);
        if (status == ESPER_OK)
            continue;
        bool clear = status == ESPER_FAILED && strstr(error.text, "telemetry.db: cannot write") &&
                     !strchr(error.text, '\n') && round > 10;
        bool whole = rows_in(store, "round") == round;
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
    assert_string_equal(query_text(store, "PRAGMA integrity_check"), "ok");
    int rounds = (int)rows_in(store, "round");
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
    struct record_row rows[ROUND_ROWS];
    create_run(&run, "busy", &config);
    struct store *store = must_open(&run), *other = must_open(&run);
    assert_int_equal(sqlite3_exec(store_sql(other), "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    fill_round(rows, 0);
    assert_int_equal(store_write(store, rows, ROUND_ROWS, &error), ESPER_FAILED);
    assert_says(&error, "another program holds the record");
    assert_int_equal(sqlite3_exec(store_sql(other), "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    must_write(store, rows, ROUND_ROWS);
    store_close(other);
    store_close(store);
    run_close(&run);
}

/* Rows written to a file that can no longer be found would be lost silently. */
static void moved_away(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    struct record_row rows[ROUND_ROWS];
    char away[2 * PATH_MAX];
    create_run(&run, "moved", &config);
    struct store *store = must_open(&run);
    write_round(store, 0);
    snprintf(away, sizeof away, "%s.away", run.path);
    assert_int_equal(rename(run.path, away), 0);
    fill_round(rows, 1);
    assert_int_equal(store_write(store, rows, ROUND_ROWS, &error), ESPER_FAILED);
    assert_says(&error, "telemetry.db: cannot write: the file was moved or removed");
    assert_int_equal(rename(away, run.path), 0);
    must_write(store, rows, ROUND_ROWS); /* it is back */
    assert_int_equal(rows_in(store, "round"), 2);
    remove_tree(run.path);
    assert_int_equal(store_write(store, rows, ROUND_ROWS, &error), ESPER_FAILED);
    store_close(store);
    run_close(&run);
}

/* ---- kill -9 ----------------------------------------------------------------------------------------------------- */

/* What a resumed trainer does: open, forget what comes after its checkpoint, write. Reports commits to its parent. */
static int train_until_killed(const void *context)
{
    const int *out = context;
    struct run run;
    struct store *store = NULL;
    if (run_open_to_train(&run, victim->path, NULL) != ESPER_OK || store_open(&store, &run, NULL) != ESPER_OK)
        return 1;
    int round = (int)rows_in(store, "round");
    round = round > 2 ? round - 2 : 0;
    if (store_forget(store, (uint32_t)round, 0, NULL) != ESPER_OK)
        return 1;
    for (;; round++) {
        struct record_row rows[ROUND_ROWS];
        if (store_write(store, rows, fill_round(rows, round), NULL) != ESPER_OK ||
            write(out[1], &round, sizeof round) < 0)
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
    assert_string_equal(query_text(store, "PRAGMA integrity_check"), "ok");
    int rounds = (int)rows_in(store, "round");
    assert_true(rounds >= committed + 1); /* what was reported is there */
    assert_int_equal(query_number(store, "SELECT coalesce(max(round), -1) + 1 FROM round"), rounds);
    assert_int_equal(rows_in(store, "ppo"), rounds);
    assert_int_equal(rows_in(store, "outcome"), ROUND_OUTCOMES * rounds);
    assert_int_equal(rows_in(store, "step"), ROUND_OUTCOMES * ROUND_STEPS * rounds);
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
        if (i % 2) /* every other kill certainly comes while rounds are written, however busy the machine is */
            poll(&(struct pollfd){.fd = out[0], .events = POLLIN}, 1, 10000);
        usleep(2000 + (noise >> 8) % 60000);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(exit_code(pid), 128 + SIGKILL);
        while (read(out[0], &round, sizeof round) == sizeof round)
            committed = round;
        close(out[0]);
        check_after_kill(committed);
        seen += committed >= 0;
    }
    assert_true(seen >= kills / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(foreign_files),        cmocka_unit_test(full_disk),
        cmocka_unit_test(held_by_another),      cmocka_unit_test(moved_away),
        cmocka_unit_test(kills_at_any_instant),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
