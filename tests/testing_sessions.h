/* Small sessions for the tests, and queries of what they leave: their records and their checkpoints. */
#ifndef TESTS_TESTING_SESSIONS_H
#define TESTS_TESTING_SESSIONS_H

#include <stdarg.h>

#include "session/checkpoint.h"
#include "session/session.h"
#include "testing_record.h"

/* The quick start with few images and a small policy: two envs, two very short rounds. */
static inline struct config small_session(enum policy_kind kind)
{
    struct config config;
    struct esper_error error = {0};
    config_defaults(&config);
    assert_int_equal(config_load_task(&config, "quickstart", &error), ESPER_OK);
    config.reward.mode = REWARD_SHAPED; /* as many steps as are asked for: no twins */
    config.policy.kind = kind;
    config.envs = 2;
    config.rounds = 2;
    config.data_batches = 1;
    config.data_batch = 16;
    config.data_val_images = 32;
    config.data_test_images = 32;
    config.policy.feature_dim = config.policy.hidden = 16;
    return config;
}

/* Restless: whenever the loss rises above its usual level, the governor rolls back. */
static inline void restless(struct config *config, double rate, double sigmas)
{
    config->host_lr = rate;
    config->governor.loss_limit = config->governor.factor = 0;
    config->governor.sigmas = sigmas;
    config->governor.streak = 1;
}

static inline struct session *create(const struct config *config, const char *name)
{
    struct session *session = NULL;
    struct esper_error error = {0};
    struct session_options options = {.runs = folder, .name = name, .command = "a test"};
    if (config_check(config, &error) != ESPER_OK || session_create(&session, config, &options, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    return session;
}

static inline struct session *resume(const char *name, const struct session_changes *changes)
{
    struct session *session = NULL;
    struct esper_error error = {0};
    if (session_resume(&session, in_folder(name), changes, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    return session;
}

static inline void advance(struct session *session, struct session_progress *progress)
{
    struct esper_error error = {0};
    if (session_advance(session, progress, &error) != ESPER_OK)
        fail_msg("%s", error.text);
}

static inline void run_rounds(struct session *session, int rounds, struct session_progress *progress)
{
    for (int done = 0; done < rounds; done += progress->round_done)
        advance(session, progress);
}

static inline void finish(struct session *session)
{
    struct esper_error error = {0};
    if (session_close(session, &error) != ESPER_OK)
        fail_msg("%s", error.text);
}

/* All of a run; the hash of its last state. */
static inline uint64_t run_whole(const struct config *config, const char *name)
{
    struct session_progress progress;
    struct session *session = create(config, name);
    run_rounds(session, config->rounds, &progress);
    assert_true(session_done(session));
    uint64_t hash = session_hash(session);
    finish(session);
    return hash;
}

/* ---- what is left of it ------------------------------------------------------------------------------------------ */

static inline struct store *record_of(const char *name)
{
    struct run run;
    struct esper_error error = {0};
    if (run_open(&run, folder, name, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    struct store *store = must_read(&run);
    run_close(&run);
    return store;
}

/* The one number that a query gives, NAN where it gives NULL. */
static inline double real_of(struct store *store, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(store_sql(store), sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
        fail_msg("%s: %s", sqlite3_errmsg(store_sql(store)), sql);
    double value = sqlite3_column_type(statement, 0) == SQLITE_NULL ? (double)NAN : sqlite3_column_double(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

/* How long a slot was in which stage, from what happened to it: decisions at the steps `first` to `last` found it so.
 * %d is the number of steps of an episode. */
#define STAYS                                                                                                          \
    "WITH stays AS (SELECT round, env, slot, to_stage AS stage, step + 1 AS first, "                                   \
    "lead(step, 1, %d) OVER (PARTITION BY round, env, slot ORDER BY step, ordinal) AS last, "                          \
    "lead(ordinal) OVER (PARTITION BY round, env, slot ORDER BY step, ordinal) IS NULL AS ends "                       \
    "FROM life WHERE event = 'stage') "
#define LIVE "('germinated', 'training', 'blending', 'holding', 'fossilized')"

__attribute__((format(printf, 2, 3))) static inline double number(struct store *store, const char *format, ...)
{
    char sql[2048];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(sql, sizeof sql, format, arguments);
    va_end(arguments);
    assert_true(length < (int)sizeof sql);
    return real_of(store, sql);
}

/* A query that counts what should not exist. */
#define assert_none(store, ...)                                                                                        \
    do {                                                                                                               \
        double found = number(store, __VA_ARGS__);                                                                     \
        if (found != 0)                                                                                                \
            fail_msg("%g of: %s", found, #__VA_ARGS__);                                                                \
    } while (0)

/* A single number from a run's record. */
static inline double ask(const char *name, const char *sql)
{
    struct store *store = record_of(name);
    double value = real_of(store, sql);
    store_close(store);
    return value;
}

/* A counter from the newest checkpoint of a run. */
static inline uint64_t total(const char *name, const char *row)
{
    char path[PATH_MAX], note[512];
    struct checkpoint_info info;
    struct esper_error error = {0};
    struct table table = {0};
    uint64_t *value;
    const char *const names[] = {row};
    snprintf(path, sizeof path, "%s/%s/checkpoints", folder, name);
    assert_int_equal(checkpoint_newest(path, &info, note, &error), ESPER_OK);
    TABLE_ADD(&table, &value, row, TYPE_U64, CLASS_STATE, true, SCOPE_RUN, 1);
    assert_int_equal(table_allocate(&table, &error), ESPER_OK);
    assert_int_equal(checkpoint_read_rows(info.path, &table, names, 1, &error), ESPER_OK);
    uint64_t result = *value;
    table_free(&table);
    return result;
}

#endif
