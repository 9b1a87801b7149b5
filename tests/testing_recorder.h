/* Recorders for the tests: one over its own run, rows to give it, and another program that locks the database. */
#ifndef TESTS_TESTING_RECORDER_H
#define TESTS_TESTING_RECORDER_H

#include <sched.h>

#include "base/clock.h"
#include "telemetry/recorder.h"
#include "testing_record.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

enum { PLANNED = 1000 }; /* rounds: whatever is recorded here is early */

static inline struct recorder *must_start(const struct run *run, enum telemetry_level level)
{
    struct esper_error error = {0};
    struct recorder *recorder = NULL;
    if (recorder_start(&recorder, must_open(run), level, PLANNED, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    return recorder;
}

static inline struct recorder *start_run(struct run *run, const char *name, enum telemetry_level level)
{
    struct config config = sample_config();
    create_run(run, name, &config);
    return must_start(run, level);
}

static inline void must_stop(struct recorder *recorder)
{
    struct esper_error error = {0};
    if (recorder_stop(recorder, 30, &error) != ESPER_OK)
        fail_msg("%s", error.text);
}

/* A row of the bulk lane and one of the critical lane, as large as they come. */
static inline void emit_step(struct recorder *recorder, int64_t round, int64_t step)
{
    struct step_record record = {.round = round, .step = step, .op = "wait", .result = "done", .slot = RECORD_NONE};
    recorder_emit(recorder, RECORD_STEP, &record);
}

static inline void emit_life(struct recorder *recorder, int64_t round, int64_t step)
{
    struct life_record record = {.round = round, .step = step, .event = "gate", .gate = "G1", .failed = "too young"};
    recorder_emit(recorder, RECORD_LIFE, &record);
}

static inline struct recorder_totals totals_of(struct recorder *recorder)
{
    struct recorder_totals totals;
    recorder_totals(recorder, &totals);
    return totals;
}

/* ---- another program ----------------------------------------------------------------------------------------------
 */

static inline sqlite3 *hold_database(const struct run *run)
{
    char path[2 * PATH_MAX];
    sqlite3 *db = NULL;
    snprintf(path, sizeof path, "%s/telemetry.db", run->path);
    if (sqlite3_open(path, &db) != SQLITE_OK || sqlite3_busy_timeout(db, 10000) != SQLITE_OK ||
        sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", path, sqlite3_errmsg(db));
    return db;
}

static inline void release_database(sqlite3 *db)
{
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

#endif
