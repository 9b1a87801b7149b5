#include "telemetry/store.h"

#include <errno.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config_json.h"
#include "base/memory.h"
#include "base/round.h"
#include "telemetry/store_guard.h"
#include "telemetry/store_schema.h"

struct store {
    sqlite3 *db;
    struct store_limit limit;
    sqlite3_stmt *insert[RECORD_KIND_COUNT];
    bool stuck;          /* the connection lost count of its locks */
    char path[PATH_MAX]; /* telemetry.db */
};

/* Someone's shell may hold the file for a moment. The writer of rows retries by itself, and must not keep a trainer
 * from ending. */
enum { BUSY_MS = 5000, WRITE_BUSY_MS = 1000 };

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static enum esper_status store_fail(const struct store *store, const char *action, struct esper_error *error)
{
    int code = 0;
    switch (sqlite3_errcode(store->db)) {
    case SQLITE_NOTADB:
        return error_set(error, ESPER_INVALID, "%s: is not a record of a run (not an SQLite database)", store->path);
    case SQLITE_CORRUPT: /* SQLite says so of a failing disk as well */
        sqlite3_file_control(store->db, NULL, SQLITE_FCNTL_LAST_ERRNO, &code);
        if (code)
            return error_set(error, ESPER_FAILED, "%s: cannot %s: %s", store->path, action, strerror(code));
        return error_set(error, ESPER_INVALID, "%s: the record is damaged (%s)", store->path,
                         sqlite3_errmsg(store->db));
    case SQLITE_BUSY:
        return error_set(error, ESPER_FAILED, "%s: cannot %s: another program holds the record; close it and try again",
                         store->path, action);
    case SQLITE_FULL:
        return error_set(error, ESPER_FAILED, "%s: cannot %s: the disk is full", store->path, action);
    case SQLITE_INTERRUPT:
        if (store->limit.stop && *store->limit.stop)
            return error_set(error, ESPER_INTERRUPTED, "%s: interrupted", store->path);
        return error_set(error, ESPER_FAILED, "%s: cannot %s: the record does not answer in time; it may be damaged",
                         store->path, action);
    default:
        break;
    }
    code = sqlite3_system_errno(store->db);
    return error_set(error, ESPER_FAILED, "%s: cannot %s: %s%s%s", store->path, action, sqlite3_errmsg(store->db),
                     code ? ": " : "", code ? strerror(code) : "");
}

static enum esper_status execute(struct store *store, const char *sql, const char *action, struct esper_error *error)
{
    return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK ? ESPER_OK : store_fail(store, action, error);
}

/* The single number that a query returns. */
static enum esper_status ask(struct store *store, const char *sql, int64_t *answer, struct esper_error *error)
{
    sqlite3_stmt *query = NULL;
    int code = sqlite3_prepare_v2(store->db, sql, -1, &query, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(query);
    *answer = code == SQLITE_ROW ? sqlite3_column_int64(query, 0) : 0;
    enum esper_status status = code == SQLITE_ROW ? ESPER_OK : store_fail(store, "read", error);
    sqlite3_finalize(query);
    return status;
}

/* Commits or rolls back; a failure leaves the record as it was before. */
static enum esper_status finish(struct store *store, enum esper_status status, struct esper_error *error)
{
    if (status == ESPER_OK)
        status = execute(store, "COMMIT", "write", error);
    if (status != ESPER_OK && !sqlite3_get_autocommit(store->db))
        sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

void store_allow(struct store *store, double seconds, const volatile sig_atomic_t *stop)
{
    store->limit.deadline = seconds > 0 ? clock_seconds() + seconds : 0;
    store->limit.stop = stop;
}

static struct store *store_new(const struct run *run, struct esper_error *error)
{
    struct store *store = memory_alloc(1, sizeof *store, error);
    if (!store)
        return NULL;
    store_allow(store, STORE_OPEN_SECONDS, NULL);
    if (snprintf(store->path, sizeof store->path, "%s/telemetry.db", run->path) >= (int)sizeof store->path)
        error_set(error, ESPER_INVALID, "%.80s...: the path is too long", run->path);
    else if (guard_files(store->path, error) == ESPER_OK)
        return store;
    memory_free(store);
    return NULL;
}

static void disconnect(struct store *store)
{
    for (int i = 0; i < RECORD_KIND_COUNT; i++) {
        sqlite3_finalize(store->insert[i]);
        store->insert[i] = NULL;
    }
    sqlite3_close(store->db); /* the last connection to close folds the log into the database */
    store->db = NULL;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    disconnect(store);
    memory_free(store);
}

static enum esper_status check_version(struct store *store, struct esper_error *error)
{
    int64_t application, version;
    TRY(ask(store, "PRAGMA application_id", &application, error));
    TRY(ask(store, "PRAGMA user_version", &version, error));
    if (application != STORE_APPLICATION)
        return error_set(error, ESPER_INVALID, "%s: is a database, but not the record of a run", store->path);
    if (version > STORE_VERSION)
        return error_set(error, ESPER_INVALID,
                         "%s: a record of version %lld, by a newer Esper; this one (" ESPER_VERSION
                         ") reads versions up to %d: use the newer one",
                         store->path, (long long)version, STORE_VERSION);
    if (version < STORE_OLDEST)
        return error_set(error, ESPER_INVALID,
                         "%s: a record of version %lld; this Esper (" ESPER_VERSION ") reads versions from %d on",
                         store->path, (long long)version, STORE_OLDEST);
    return ESPER_OK;
}

static enum esper_status check_schema(struct store *store, struct esper_error *error)
{
    char found[GUARD_TEXT];
    if (guard_schema(store->db, found) != SQLITE_OK)
        return store_fail(store, "read", error);
    if (*found)
        return error_set(error, ESPER_INVALID,
                         "%s: holds %s, which no Esper writes; a record has tables and nothing else", store->path,
                         found);
    return ESPER_OK;
}

static enum esper_status complete(struct store *store, bool writes, struct esper_error *error)
{
    char lack[STORE_LACK];
    if (store_complete(store->db, writes, lack) == SQLITE_OK)
        return ESPER_OK;
    if (!*lack)
        return store_fail(store, "read an earlier version's tables", error);
    return error_set(error, ESPER_INVALID,
                     "%s: the record lacks the column %s, which is never missing in one that this Esper (" ESPER_VERSION
                     ") can read",
                     store->path, lack);
}

static enum esper_status describe_run(struct store *store, const struct run *run, struct esper_error *error)
{
    char policy[CONFIG_TEXT], seed[24];
    char *configuration = json_finish(config_to_json(&run->config), JSON_ONE_LINE);
    if (!configuration)
        return error_set(error, ESPER_FAILED, "out of memory while describing the run");
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)run->config.seed);
    config_policy(&run->config, policy);
    const char *const texts[] = {run->name,    run->config.task, policy,       seed,
                                 run->created, run->version,     run->kernels, configuration};
    sqlite3_stmt *insert = NULL;
    int code = sqlite3_prepare_v2(store->db,
                                  "INSERT INTO run (id, name, task, policy, seed, created, version, kernels, "
                                  "configuration, evaluate) VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                                  -1, &insert, NULL);
    for (int i = 0; i < 8 && code == SQLITE_OK; i++)
        code = sqlite3_bind_text(insert, i + 1, texts[i], -1, SQLITE_STATIC);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int(insert, 9, run->config.evaluate);
    if (code == SQLITE_OK)
        code = sqlite3_step(insert);
    enum esper_status status = code == SQLITE_DONE ? ESPER_OK : store_fail(store, "describe the run", error);
    sqlite3_finalize(insert);
    cJSON_free(configuration);
    return status;
}

static enum esper_status create_tables(struct store *store, const struct run *run, struct esper_error *error)
{
    char identity[128];
    snprintf(identity, sizeof identity, "PRAGMA application_id = %d; PRAGMA user_version = %d", STORE_APPLICATION,
             STORE_VERSION);
    TRY(execute(store, store_run_table, "create the tables", error));
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++)
        TRY(execute(store, store_layouts[kind].create, "create the tables", error));
    TRY(execute(store, identity, "create the tables", error));
    return describe_run(store, run, error);
}

/* A resumed run may have an earlier version's tables, and another number of rounds than it started with. */
static enum esper_status renew_tables(struct store *store, const struct run *run, struct esper_error *error)
{
    char sql[192];
    TRY(complete(store, true, error));
    snprintf(sql, sizeof sql,
             "PRAGMA user_version = %d; UPDATE run SET configuration = json_set(configuration, '$.rounds', %d) "
             "WHERE json_valid(configuration)",
             STORE_VERSION, run->config.rounds);
    return execute(store, sql, "bring the record up to date", error);
}

/* INSERT OR REPLACE INTO t (a, b) VALUES (?, ?). Two counts of missing rows at the same step add up to one. */
static enum esper_status prepare_insert(struct store *store, enum record_kind kind, struct esper_error *error)
{
    static const char *const add_up = " ON CONFLICT DO UPDATE SET count = count + excluded.count, first_sequence = "
                                      "min(first_sequence, excluded.first_sequence), last_sequence = "
                                      "max(last_sequence, excluded.last_sequence)";
    bool adds = kind == RECORD_DROPS;
    char sql[4096], values[1024];
    const struct store_layout *layout = &store_layouts[kind];
    size_t used = (size_t)snprintf(sql, sizeof sql, "INSERT %sINTO %s (", adds ? "" : "OR REPLACE ", layout->name);
    size_t filled = 0;
    for (int i = 0; i < layout->count; i++) {
        used += (size_t)snprintf(sql + used, sizeof sql - used, "%s%s", i ? ", " : "", layout->columns[i].name);
        filled += (size_t)snprintf(values + filled, sizeof values - filled, "%s?", i ? ", " : "");
    }
    snprintf(sql + used, sizeof sql - used, ") VALUES (%s)%s", values, adds ? add_up : "");
    if (sqlite3_prepare_v2(store->db, sql, -1, &store->insert[kind], NULL) != SQLITE_OK)
        return store_fail(store, "prepare the record", error);
    return ESPER_OK;
}

static enum esper_status connect_writer(struct store *store, int flags, struct esper_error *error)
{
    if (sqlite3_open_v2(store->path, &store->db, SQLITE_OPEN_READWRITE | flags, NULL) != SQLITE_OK)
        return store_fail(store, "open", error);
    sqlite3_busy_timeout(store->db, BUSY_MS);
    if (guard_connection(store->db, &store->limit) != SQLITE_OK)
        return store_fail(store, "open", error);
    return execute(store, "PRAGMA page_size = 8192", "open", error);
}

static enum esper_status keep_log(struct store *store, struct esper_error *error)
{
    return execute(store,
                   "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 4000; "
                   "PRAGMA journal_size_limit = 67108864; PRAGMA cache_size = -512",
                   "open", error);
}

static enum esper_status prepare_inserts(struct store *store, struct esper_error *error)
{
    for (int i = 0; i < RECORD_KIND_COUNT; i++)
        TRY(prepare_insert(store, (enum record_kind)i, error));
    return ESPER_OK;
}

static enum esper_status prepare_writer(struct store *store, const struct run *run, struct esper_error *error)
{
    int64_t tables, application;
    TRY(connect_writer(store, SQLITE_OPEN_CREATE, error));
    TRY(ask(store, "SELECT count(*) FROM sqlite_master", &tables, error));
    TRY(ask(store, "PRAGMA application_id", &application, error));
    if (tables || application)
        TRY(check_version(store, error));
    TRY(check_schema(store, error));
    TRY(keep_log(store, error));
    /* In one transaction: a record is created completely or not at all. */
    TRY(execute(store, "BEGIN IMMEDIATE", "open", error));
    TRY(finish(store, tables ? renew_tables(store, run, error) : create_tables(store, run, error), error));
    return prepare_inserts(store, error);
}

enum esper_status store_open(struct store **out, const struct run *run, struct esper_error *error)
{
    struct store *store = store_new(run, error);
    if (!store)
        return error ? error->status : ESPER_FAILED;
    enum esper_status status = prepare_writer(store, run, error);
    store_allow(store, 0, NULL);
    if (status == ESPER_OK)
        *out = store;
    else
        store_close(store);
    return status;
}

/* ---- readers ----------------------------------------------------------------------------------------------------- */

/* file:PATH?options, with the characters that are special in a URI written as %XX. */
static void make_uri(const char *path, const char *options, char *uri, size_t size)
{
    size_t used = (size_t)snprintf(uri, size, "file:");
    for (; *path && used + 4 < size; path++)
        used += (size_t)snprintf(uri + used, size - used, strchr("%?#", *path) ? "%%%02X" : "%c",
                                 (unsigned)(unsigned char)*path);
    snprintf(uri + used, size - used, "?%s", options);
}

static enum esper_status open_reading(struct store *store, const char *options, struct esper_error *error)
{
    char uri[3 * PATH_MAX + 64];
    make_uri(store->path, options, uri, sizeof uri);
    sqlite3_close(store->db);
    store->db = NULL;
    if (sqlite3_open_v2(uri, &store->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL) != SQLITE_OK)
        return store_fail(store, "open", error);
    sqlite3_busy_timeout(store->db, BUSY_MS);
    if (guard_connection(store->db, &store->limit) != SQLITE_OK)
        return store_fail(store, "open", error);
    TRY(check_version(store, error));
    TRY(check_schema(store, error));
    TRY(execute(store, "PRAGMA temp_store = MEMORY", "open", error));
    TRY(complete(store, false, error));
    return execute(store, "PRAGMA query_only = 1", "open", error);
}

/* Whether there is something in the log or the journal beside the record. */
static bool has_beside(const struct store *store, const char *ending)
{
    char path[PATH_MAX + 16];
    struct stat info;
    snprintf(path, sizeof path, "%s%s", store->path, ending);
    return stat(path, &info) == 0 && info.st_size > 0;
}

/* A record that was closed properly has no log, and its one file is enough for reading; but SQLite creates a log even
 * then, which fails where the reader may not write. With `immutable` nothing can be missed: a live or crashed run has a
 * log, or a journal in its first moments, and then `immutable` is never used (T-02). */
static bool at_rest(const struct store *store, const struct run *run)
{
    struct run_status status;
    if (has_beside(store, "-wal") || has_beside(store, "-journal"))
        return false;
    return run_get_status(run, &status, NULL) == ESPER_OK && !status.alive;
}

enum esper_status store_open_reader(struct store **out, const struct run *run, struct esper_error *error)
{
    struct stat info;
    struct store *store = store_new(run, error);
    if (!store)
        return error ? error->status : ESPER_FAILED;
    enum esper_status status = ESPER_OK;
    if (stat(store->path, &info) != 0 && errno == ENOENT)
        status = error_set(error, ESPER_INVALID, "%s: the run has no record yet (no telemetry.db)", run->path);
    if (status == ESPER_OK && info.st_size == 0) /* killed while creating its first page */
        status = error_set(error, ESPER_INVALID, "%s: the run has no record yet (telemetry.db is empty)", run->path);
    if (status == ESPER_OK)
        status = open_reading(store, "mode=ro", error);
    int code = sqlite3_errcode(store->db); /* which code it is depends on what exactly is forbidden */
    if (status == ESPER_FAILED && (code == SQLITE_CANTOPEN || code == SQLITE_READONLY) && at_rest(store, run))
        status = open_reading(store, "mode=ro&immutable=1", error);
    store_allow(store, STORE_SECONDS, NULL);
    if (status == ESPER_OK)
        *out = store;
    else
        store_close(store);
    return status;
}

struct sqlite3 *store_sql(struct store *store)
{
    return store->db;
}

bool store_has_checkpoint(struct store *store, const char *file)
{
    sqlite3_stmt *query = NULL;
    store_allow(store, STORE_SECONDS, NULL);
    bool found = sqlite3_prepare_v2(store->db, "SELECT 1 FROM checkpoint WHERE file = ?1", -1, &query, NULL) ==
                     SQLITE_OK &&
                 sqlite3_bind_text(query, 1, file, -1, SQLITE_STATIC) == SQLITE_OK && sqlite3_step(query) == SQLITE_ROW;
    sqlite3_finalize(query);
    return found;
}

/* No file, or one whose first page or first tables were never completed: the run was killed before it had a record. */
static bool is_blank(const struct run *run)
{
    struct stat info = {0};
    int64_t tables = 0, application = 0;
    struct store *store = store_new(run, NULL);
    if (!store)
        return false;
    bool blank = stat(store->path, &info) != 0 ? errno == ENOENT : S_ISREG(info.st_mode);
    if (blank && info.st_size > 0)
        blank = sqlite3_open_v2(store->path, &store->db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
                ask(store, "SELECT count(*) FROM sqlite_master", &tables, NULL) == ESPER_OK && tables == 0 &&
                ask(store, "PRAGMA application_id", &application, NULL) == ESPER_OK && application == 0;
    store_close(store);
    return blank;
}

/* The first and the last of the `rounds` rounds from number `first` on that have no row, of which there is one. */
static enum esper_status find_gap(struct store *store, uint32_t first, uint32_t rounds, struct store_reach *reach,
                                  struct esper_error *error)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "SELECT min(n) FROM (SELECT %u AS n UNION ALL SELECT round + 1 FROM round WHERE round >= %u) "
             "WHERE n NOT IN (SELECT round FROM round)",
             first, first);
    TRY(ask(store, sql, &reach->first_missing, error));
    snprintf(sql, sizeof sql,
             "SELECT max(n) FROM (SELECT %u AS n UNION ALL SELECT round - 1 FROM round WHERE round < %u) "
             "WHERE n NOT IN (SELECT round FROM round)",
             first + rounds - 1, first + rounds);
    return ask(store, sql, &reach->last_missing, error);
}

static enum esper_status read_reach(struct store *store, uint32_t first, uint32_t rounds, uint32_t step,
                                    struct store_reach *reach, struct esper_error *error)
{
    char sql[256];
    int64_t found, saved;
    TRY(ask(store, "SELECT count(*) FROM round", &reach->rounds, error));
    TRY(ask(store, "SELECT max(round << 32 | step) FROM checkpoint WHERE kind <> 'best'", &saved, error));
    reach->saved_round = (uint32_t)rounds_before(saved >> 32);
    reach->saved_step = (uint32_t)saved;
    snprintf(sql, sizeof sql, "SELECT count(*) FROM round WHERE round >= %u AND round < %u", first, first + rounds);
    TRY(ask(store, sql, &found, error));
    reach->missing = rounds - found;
    if (reach->missing > 0)
        TRY(find_gap(store, first, rounds, reach, error));
    snprintf(sql, sizeof sql, "SELECT max(step) FROM step WHERE round = %u", first + rounds);
    TRY(ask(store, sql, &found, error));
    if (found < step) { /* the round in progress */
        reach->first_missing = reach->missing++ ? reach->first_missing : first + rounds;
        reach->last_missing = first + rounds;
    }
    return ESPER_OK;
}

/* A run that ended while its record was being created leaves a journal, which only a writer may roll back. */
static enum esper_status roll_back(const struct run *run, struct esper_error *error)
{
    int64_t tables;
    struct store *store = store_new(run, error);
    if (!store)
        return error ? error->status : ESPER_FAILED;
    enum esper_status status = ESPER_OK;
    if (has_beside(store, "") && has_beside(store, "-journal")) {
        status = connect_writer(store, 0, error);
        if (status == ESPER_OK)
            status = ask(store, "SELECT count(*) FROM sqlite_master", &tables, error);
    }
    store_close(store);
    return status;
}

enum esper_status store_reach(const struct run *run, uint32_t rounds, uint32_t step, struct store_reach *reach,
                              struct esper_error *error)
{
    uint32_t first = round_first(run->config.evaluate);
    struct store *store;
    *reach = (struct store_reach){0};
    TRY(roll_back(run, error));
    enum esper_status status = store_open_reader(&store, run, error);
    if (status == ESPER_INVALID && is_blank(run)) {
        reach->missing = (int64_t)rounds + (step > 0);
        reach->first_missing = first;
        reach->last_missing = first + reach->missing - 1;
        return ESPER_OK;
    }
    TRY(status);
    status = read_reach(store, first, rounds, step, reach, error);
    store_close(store);
    return status;
}

/* Integers and reals only: outcomes have no other fields. */
static void read_row(sqlite3_stmt *query, const struct store_layout *layout, void *record)
{
    char *field = record;
    for (int i = 0; i < layout->count; field += column_bytes(layout->columns[i].type), i++) {
        int64_t whole = sqlite3_column_int64(query, i);
        double real = sqlite3_column_type(query, i) == SQLITE_NULL ? NAN : sqlite3_column_double(query, i);
        if (layout->columns[i].type == COLUMN_NUMBER)
            memcpy(field, &real, sizeof real);
        else
            memcpy(field, &whole, sizeof whole);
    }
}

enum esper_status store_outcomes(struct store *store, struct outcome_record **out, int *count,
                                 struct esper_error *error)
{
    const struct store_layout *layout = &store_layouts[RECORD_OUTCOME];
    char sql[1024];
    int64_t rows;
    size_t used = (size_t)snprintf(sql, sizeof sql, "SELECT ");
    for (int i = 0; i < layout->count; i++)
        used += (size_t)snprintf(sql + used, sizeof sql - used, "%s%s", i ? ", " : "", layout->columns[i].name);
    snprintf(sql + used, sizeof sql - used, " FROM outcome ORDER BY round, env LIMIT ?1");
    TRY(ask(store, "SELECT count(*) FROM outcome", &rows, error));
    struct outcome_record *list = memory_alloc((size_t)rows, sizeof *list, error);
    if (!list)
        return ESPER_FAILED;
    sqlite3_stmt *query = NULL;
    int filled = 0, code = sqlite3_prepare_v2(store->db, sql, -1, &query, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(query, 1, rows); /* the run may have continued since they were counted */
    if (code == SQLITE_OK)
        while ((code = sqlite3_step(query)) == SQLITE_ROW)
            read_row(query, layout, &list[filled++]);
    enum esper_status status = code == SQLITE_DONE ? ESPER_OK : store_fail(store, "read", error);
    sqlite3_finalize(query);
    if (status != ESPER_OK) {
        memory_free(list);
        return status;
    }
    *out = list;
    *count = filled;
    return ESPER_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Missing values are NULL, and so are those that are not finite; texts live as long as the row does. */
static int bind(sqlite3_stmt *statement, int at, enum column_type type, const char *field)
{
    int64_t whole;
    double real;
    const char *text;
    switch (type) {
    case COLUMN_INTEGER:
    case COLUMN_OPTIONAL:
        memcpy(&whole, field, sizeof whole);
        return whole == RECORD_NONE ? sqlite3_bind_null(statement, at) : sqlite3_bind_int64(statement, at, whole);
    case COLUMN_NUMBER:
        memcpy(&real, field, sizeof real);
        return isfinite(real) ? sqlite3_bind_double(statement, at, real) : sqlite3_bind_null(statement, at);
    case COLUMN_NAME:
        memcpy(&text, field, sizeof text);
        return sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
    case COLUMN_TEXT:
        break;
    }
    return *field ? sqlite3_bind_text(statement, at, field, -1, SQLITE_STATIC) : sqlite3_bind_null(statement, at);
}

static enum esper_status insert(struct store *store, const struct record_row *row, struct esper_error *error)
{
    const struct store_layout *layout = &store_layouts[row->kind];
    sqlite3_stmt *statement = store->insert[row->kind];
    const char *field = (const char *)&row->record;
    int code = SQLITE_OK;
    for (int i = 0; i < layout->count && code == SQLITE_OK; i++) {
        code = bind(statement, i + 1, layout->columns[i].type, field);
        field += column_bytes(layout->columns[i].type);
    }
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    enum esper_status status = code == SQLITE_DONE ? ESPER_OK : store_fail(store, "write", error);
    sqlite3_reset(statement);
    return status;
}

static enum esper_status insert_all(struct store *store, const struct record_row *rows, int count,
                                    struct esper_error *error)
{
    int moved = 0;
    for (int i = 0; i < count; i++)
        TRY(insert(store, &rows[i], error));
    /* SQLite would go on writing to an unlinked file that can never be read */
    if (sqlite3_file_control(store->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved)
        return error_set(error, ESPER_FAILED, "%s: cannot write: the file was moved or removed", store->path);
    return ESPER_OK;
}

/* One call that gives back a lock and fails leaves SQLite waiting for itself: for good, unless it begins anew. */
static enum esper_status reconnect(struct store *store, struct esper_error *error)
{
    disconnect(store);
    TRY(connect_writer(store, 0, error));
    TRY(keep_log(store, error));
    TRY(prepare_inserts(store, error));
    store->stuck = false;
    return ESPER_OK;
}

enum esper_status store_write(struct store *store, const struct record_row *rows, int count, struct esper_error *error)
{
    store_allow(store, 0, NULL); /* a slow disk only makes it wait */
    if (store->stuck)
        TRY(reconnect(store, error));
    sqlite3_busy_timeout(store->db, WRITE_BUSY_MS);
    enum esper_status status = execute(store, "BEGIN IMMEDIATE", "write", error);
    store->stuck = status != ESPER_OK && sqlite3_errcode(store->db) == SQLITE_PROTOCOL;
    return status == ESPER_OK ? finish(store, insert_all(store, rows, count, error), error) : status;
}

/* A commit leaves its rows in the log and does not wait for the disk (synchronous = NORMAL); the log alone holds them
 * all. A new log's directory is synced with it. */
enum esper_status store_sync(struct store *store, struct esper_error *error)
{
    sqlite3_file *log = NULL;
    int code = SQLITE_NOMEM; /* connecting anew may have failed */
    if (store->db)
        code = sqlite3_file_control(store->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (code == SQLITE_OK && log && log->pMethods)
        code = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
    if (code == SQLITE_OK)
        return ESPER_OK;
    return error_set(error, ESPER_FAILED, "%s: cannot sync: %s", store->path, strerror(errno));
}

static enum esper_status forget_all(struct store *store, uint32_t round, uint32_t step, struct esper_error *error)
{
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        char sql[160];
        const char *name = store_layouts[kind].name;
        if (store_has_steps((enum record_kind)kind))
            snprintf(sql, sizeof sql, "DELETE FROM %s WHERE (round, step) > (%u, %u)", name, round, step);
        else
            snprintf(sql, sizeof sql, "DELETE FROM %s WHERE round >= %u", name, round);
        TRY(execute(store, sql, "write", error));
    }
    return ESPER_OK;
}

enum esper_status store_forget(struct store *store, uint32_t round, uint32_t step, struct esper_error *error)
{
    store_allow(store, STORE_SECONDS, NULL);
    TRY(execute(store, "BEGIN IMMEDIATE", "write", error));
    return finish(store, forget_all(store, round, step, error), error);
}
