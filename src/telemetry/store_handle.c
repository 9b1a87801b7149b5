#include "telemetry/store_handle.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "telemetry/store_schema.h"

enum esper_status store_fail(const struct store *store, const char *action, struct esper_error *error)
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

enum esper_status store_execute(struct store *store, const char *sql, const char *action, struct esper_error *error)
{
    return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK ? ESPER_OK : store_fail(store, action, error);
}

/* The single number that a query returns. */
enum esper_status store_ask(struct store *store, const char *sql, int64_t *answer, struct esper_error *error)
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

void store_allow(struct store *store, double seconds, const volatile sig_atomic_t *stop)
{
    store->limit.deadline = seconds > 0 ? clock_seconds() + seconds : 0;
    store->limit.stop = stop;
}

struct store *store_new(const struct run *run, struct esper_error *error)
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

void store_disconnect(struct store *store)
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
    store_disconnect(store);
    memory_free(store);
}

enum esper_status store_check_version(struct store *store, struct esper_error *error)
{
    int64_t application, version;
    TRY(store_ask(store, "PRAGMA application_id", &application, error));
    TRY(store_ask(store, "PRAGMA user_version", &version, error));
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

enum esper_status store_check_schema(struct store *store, struct esper_error *error)
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

enum esper_status store_add_columns(struct store *store, bool writes, struct esper_error *error)
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

enum esper_status store_connect(struct store *store, int flags, struct esper_error *error)
{
    if (sqlite3_open_v2(store->path, &store->db, SQLITE_OPEN_READWRITE | flags, NULL) != SQLITE_OK)
        return store_fail(store, "open", error);
    sqlite3_busy_timeout(store->db, BUSY_MS);
    if (guard_connection(store->db, &store->limit) != SQLITE_OK)
        return store_fail(store, "open", error);
    return store_execute(store, "PRAGMA page_size = 8192", "open", error);
}

struct sqlite3 *store_sql(struct store *store)
{
    return store->db;
}
