/* The recorder when the record cannot be written: training never waits, the operator is told once, and what the lanes
 * hold is there once it can. */
#include <signal.h>
#include <sys/resource.h>

#include "testing_recorder.h"

static struct esper_error error;
static char text[RECORDER_NOTICE];

/* Rows to the bulk lane and, every tenth time, to the critical one; fewer than they hold. Returns the seconds it took.
 */
enum { SOME = 3000 };

static double emit_some(struct recorder *recorder, int64_t round)
{
    double start = clock_seconds();
    for (int i = 0; i < SOME; i++) {
        emit_step(recorder, round, i);
        if (i % 10 == 0)
            emit_life(recorder, round, i);
    }
    return clock_seconds() - start;
}

/* All of them take milliseconds; if each waited for the store, it would be an hour. */
static double at_once(void)
{
    return 0.5 * patience();
}

/* Long enough for what the store should do. */
#define FLUSH (10 * patience())

static bool wait_for_notice(struct recorder *recorder, double seconds)
{
    double start = clock_seconds();
    while (clock_seconds() < start + seconds) {
        if (recorder_notice(recorder, text))
            return true;
        usleep(5000);
    }
    return false;
}

static bool notice_says(const char *word)
{
    return strstr(text, word) && !strchr(text, '\n');
}

static void assert_complete(const struct run *run, int64_t rounds)
{
    struct store *store = must_read(run);
    assert_string_equal(query_text(store, "PRAGMA integrity_check"), "ok");
    assert_int_equal(rows_in(store, "step"), rounds * SOME);
    assert_int_equal(rows_in(store, "life"), rounds * SOME / 10);
    assert_int_equal(rows_in(store, "drops"), 0);
    store_close(store);
}

/* ---- another program holds the database -------------------------------------------------------------------------- */

static void a_locked_database(void **state)
{
    (void)state;
    struct run run;
    struct recorder *recorder = start_run(&run, "locked", TELEMETRY_NORMAL);
    emit_some(recorder, 0);
    assert_true(recorder_flush(recorder, FLUSH));
    assert_false(recorder_notice(recorder, text)); /* all is well */

    sqlite3 *other = hold_database(&run);
    assert_true(emit_some(recorder, 1) < at_once());
    double start = clock_seconds();
    assert_false(recorder_flush(recorder, 0.1)); /* it is not, and no call waits longer than requested */
    assert_true(clock_seconds() - start < 0.1 + at_once());
    assert_true(wait_for_notice(recorder, FLUSH));
    if (!notice_says("telemetry.db: cannot write: another program holds the record") ||
        !notice_says("training goes on, and writing the record will be retried"))
        fail_msg("%s", text);
    assert_true(emit_some(recorder, 2) < at_once());
    assert_false(recorder_flush(recorder, FLUSH)); /* another attempt, and no second notice */
    assert_false(recorder_notice(recorder, text));
    struct recorder_totals totals = totals_of(recorder);
    assert_int_equal(totals.written, SOME + SOME / 10);
    assert_int_equal(totals.waiting, 2 * (SOME + SOME / 10));

    release_database(other);
    assert_true(recorder_flush(recorder, FLUSH));
    assert_true(recorder_notice(recorder, text));
    if (!notice_says("the record is being written again; 0 rows were lost"))
        fail_msg("%s", text);
    emit_some(recorder, 3);
    assert_true(recorder_flush(recorder, FLUSH));
    assert_false(recorder_notice(recorder, text));
    must_stop(recorder);
    assert_complete(&run, 4);
    run_close(&run);
}

/* A brief lock is not reported. */
static void a_short_lock(void **state)
{
    (void)state;
    struct run run;
    struct recorder *recorder = start_run(&run, "moment", TELEMETRY_NORMAL);
    sqlite3 *other = hold_database(&run);
    emit_some(recorder, 0);
    usleep(200000);
    release_database(other);
    assert_true(recorder_flush(recorder, FLUSH));
    assert_false(recorder_notice(recorder, text));
    must_stop(recorder);
    assert_complete(&run, 1);
    run_close(&run);
}

static void stopping_while_locked(void **state)
{
    (void)state;
    struct run run;
    struct recorder *recorder = start_run(&run, "hopeless", TELEMETRY_NORMAL);
    sqlite3 *other = hold_database(&run);
    emit_some(recorder, 0);
    double start = clock_seconds();
    assert_int_equal(recorder_stop(recorder, 100, &error), ESPER_FAILED); /* one attempt, not the whole time */
    assert_true(clock_seconds() - start < 4 * patience());
    assert_says(&error, "another program holds the record");
    assert_says(&error, "3300 rows of the record are lost");
    release_database(other);
    struct store *store = must_read(&run);
    assert_int_equal(rows_in(store, "step"), 0);
    store_close(store);
    run_close(&run);
}

/* ---- a full disk ------------------------------------------------------------------------------------------------- */

static bool limit_files(rlim_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
           setrlimit(RLIMIT_FSIZE, &(struct rlimit){bytes, limit.rlim_max}) == 0;
}

/* A limit on the size of files stands for a disk that fills up; files do not shrink, so it is lifted later. */
static int record_until_full(const void *context)
{
    const struct run *run = context;
    struct store *store = NULL;
    struct recorder *recorder = NULL;
    signal(SIGXFSZ, SIG_IGN);
    if (store_open(&store, run, NULL) != ESPER_OK ||
        recorder_start(&recorder, store, TELEMETRY_NORMAL, PLANNED, NULL) != ESPER_OK)
        return 10;
    emit_some(recorder, 0);
    if (!recorder_flush(recorder, FLUSH) || !limit_files(1000000))
        return 11;
    bool quick = true;
    for (int64_t round = 1; round < 3; round++) /* some of it may still fit */
        quick = quick && emit_some(recorder, round) < at_once();
    if (recorder_flush(recorder, FLUSH) || !quick)
        return 12;
    if (!recorder_notice(recorder, text) || !notice_says("telemetry.db: cannot write"))
        return 13;
    if (recorder_flush(recorder, FLUSH) || recorder_notice(recorder, text))
        return 14; /* told twice */
    /* nothing calls it any more: it finds out by itself that there is room */
    if (!limit_files(RLIM_INFINITY) || !wait_for_notice(recorder, 15) ||
        !notice_says("the record is being written again") || !recorder_flush(recorder, FLUSH))
        return 15;
    emit_some(recorder, 3);
    recorder_count(recorder, 0, 0);
    return recorder_stop(recorder, 10, NULL) == ESPER_OK ? 0 : 16;
}

static int stop_when_full(const void *context)
{
    const struct run *run = context;
    struct store *store = NULL;
    struct recorder *recorder = NULL;
    signal(SIGXFSZ, SIG_IGN);
    if (store_open(&store, run, NULL) != ESPER_OK || !limit_files(1000) ||
        recorder_start(&recorder, store, TELEMETRY_NORMAL, PLANNED, NULL) != ESPER_OK)
        return 10;
    emit_some(recorder, 0);
    if (recorder_stop(recorder, 10, &error) != ESPER_FAILED)
        return 11;
    return strstr(error.text, "cannot write") && strstr(error.text, "3300 rows of the record are lost") ? 0 : 12;
}

static void a_full_disk(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run run;
    create_run(&run, "full", &config);
    assert_int_equal(exit_code(start_child(record_until_full, &run)), 0);
    assert_complete(&run, 4);
    run_close(&run);

    create_run(&run, "fuller", &config);
    assert_int_equal(exit_code(start_child(stop_when_full, &run)), 0);
    store_close(must_open(&run)); /* what was written can be opened again */
    run_close(&run);
}

/* ---- no directory ------------------------------------------------------------------------------------------------ */

static void a_directory_that_is_gone(void **state)
{
    (void)state;
    struct run run;
    char away[2 * PATH_MAX];
    struct recorder *recorder = start_run(&run, "gone", TELEMETRY_NORMAL);
    snprintf(away, sizeof away, "%s.away", run.path);
    emit_some(recorder, 0);
    assert_true(recorder_flush(recorder, FLUSH));
    assert_int_equal(rename(run.path, away), 0);
    assert_true(emit_some(recorder, 1) < at_once());
    assert_false(recorder_flush(recorder, FLUSH));
    assert_true(recorder_notice(recorder, text));
    assert_true(notice_says("the file was moved or removed"));
    assert_int_equal(rename(away, run.path), 0);
    assert_true(recorder_flush(recorder, FLUSH)); /* back again */
    assert_true(recorder_notice(recorder, text));
    assert_true(notice_says("written again"));
    assert_complete(&run, 2);

    remove_tree(run.path); /* for good */
    assert_true(emit_some(recorder, 2) < at_once());
    assert_false(recorder_flush(recorder, FLUSH));
    assert_true(recorder_notice(recorder, text));
    double start = clock_seconds();
    assert_int_equal(recorder_stop(recorder, 100, &error), ESPER_FAILED);
    assert_true(clock_seconds() - start < 4 * patience());
    assert_says(&error, "the file was moved or removed");
    assert_says(&error, "3300 rows of the record are lost");
    assert_int_equal(access(run.path, F_OK), -1); /* and nothing was made in its place */
    run_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_locked_database),        cmocka_unit_test(a_short_lock),
        cmocka_unit_test(stopping_while_locked),    cmocka_unit_test(a_full_disk),
        cmocka_unit_test(a_directory_that_is_gone),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
