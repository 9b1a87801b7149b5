/* Reading the record: of a live run, of one that ended, of one that crashed while its record was being created. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/round.h"
#include "telemetry/store_handle.h"
#include "telemetry/store_schema.h"

/* ---- opening ----------------------------------------------------------------------------------------------------- */

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
    TRY(store_check_version(store, error));
    TRY(store_check_schema(store, error));
    TRY(store_execute(store, "PRAGMA temp_store = MEMORY", "open", error));
    TRY(store_add_columns(store, false, error));
    return store_execute(store, "PRAGMA query_only = 1", "open", error);
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

/* ---- questions --------------------------------------------------------------------------------------------------- */

enum esper_status store_has_sample(struct store *store, uint32_t round, bool *has, struct esper_error *error)
{
    char sql[64];
    int64_t count = 0;
    snprintf(sql, sizeof sql, "SELECT count(*) FROM sample WHERE round = %u", (unsigned)round);
    store_allow(store, STORE_SECONDS, NULL);
    TRY(store_ask(store, sql, &count, error));
    *has = count > 0;
    return ESPER_OK;
}

enum esper_status store_has_checkpoint(struct store *store, const char *file, bool *has, struct esper_error *error)
{
    sqlite3_stmt *query = NULL;
    store_allow(store, STORE_SECONDS, NULL);
    int code = sqlite3_prepare_v2(store->db, "SELECT 1 FROM checkpoint WHERE file = ?1", -1, &query, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_bind_text(query, 1, file, -1, SQLITE_STATIC);
    if (code == SQLITE_OK)
        code = sqlite3_step(query);
    *has = code == SQLITE_ROW;
    enum esper_status status = code == SQLITE_ROW || code == SQLITE_DONE ? ESPER_OK : store_fail(store, "read", error);
    sqlite3_finalize(query);
    return status;
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
                store_ask(store, "SELECT count(*) FROM sqlite_master", &tables, NULL) == ESPER_OK && tables == 0 &&
                store_ask(store, "PRAGMA application_id", &application, NULL) == ESPER_OK && application == 0;
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
    TRY(store_ask(store, sql, &reach->first_missing, error));
    snprintf(sql, sizeof sql,
             "SELECT max(n) FROM (SELECT %u AS n UNION ALL SELECT round - 1 FROM round WHERE round < %u) "
             "WHERE n NOT IN (SELECT round FROM round)",
             first + rounds - 1, first + rounds);
    return store_ask(store, sql, &reach->last_missing, error);
}

static enum esper_status read_reach(struct store *store, uint32_t first, uint32_t rounds, uint32_t step,
                                    struct store_reach *reach, struct esper_error *error)
{
    char sql[256];
    int64_t found, saved;
    TRY(store_ask(store, "SELECT count(*) FROM round", &reach->rounds, error));
    TRY(store_ask(store, "SELECT max(round << 32 | step) FROM checkpoint WHERE kind <> 'best'", &saved, error));
    reach->saved_round = (uint32_t)rounds_before(saved >> 32);
    reach->saved_step = (uint32_t)saved;
    snprintf(sql, sizeof sql, "SELECT count(*) FROM round WHERE round >= %u AND round < %u", first, first + rounds);
    TRY(store_ask(store, sql, &found, error));
    reach->missing = rounds - found;
    if (reach->missing > 0)
        TRY(find_gap(store, first, rounds, reach, error));
    snprintf(sql, sizeof sql, "SELECT max(step) FROM step WHERE round = %u", first + rounds);
    TRY(store_ask(store, sql, &found, error));
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
        status = store_connect(store, 0, error);
        if (status == ESPER_OK)
            status = store_ask(store, "SELECT count(*) FROM sqlite_master", &tables, error);
    }
    store_close(store);
    return status;
}

enum esper_status store_reach(const struct run *run, uint32_t rounds, uint32_t step, struct store_reach *reach,
                              struct esper_error *error)
{
    uint32_t first = round_first(run->config.evaluate);
    struct store *store = NULL;
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

/* Integers and reals only: names are left out. */
static void read_row(sqlite3_stmt *query, const struct store_layout *layout, void *record)
{
    char *field = record;
    for (int i = 0; i < layout->count; field += column_bytes(layout->columns[i].type), i++) {
        int64_t whole = sqlite3_column_int64(query, i);
        double real = sqlite3_column_type(query, i) == SQLITE_NULL ? NAN : sqlite3_column_double(query, i);
        if (layout->columns[i].type == COLUMN_NUMBER)
            memcpy(field, &real, sizeof real);
        else if (layout->columns[i].type == COLUMN_NAME)
            memset(field, 0, sizeof(const char *));
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
    TRY(store_ask(store, "SELECT count(*) FROM outcome", &rows, error));
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
