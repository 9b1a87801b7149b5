/* Writing the record: its tables, rows in transactions, and what a resumed run writes again. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/config_json.h"
#include "telemetry/store_handle.h"
#include "telemetry/store_schema.h"

/* Commits or rolls back; a failure leaves the record as it was before. */
static enum esper_status finish(struct store *store, enum esper_status status, struct esper_error *error)
{
    if (status == ESPER_OK)
        status = store_execute(store, "COMMIT", "write", error);
    if (status != ESPER_OK && !sqlite3_get_autocommit(store->db))
        sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

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
    TRY(store_execute(store, store_run_table, "create the tables", error));
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++)
        TRY(store_execute(store, store_layouts[kind].create, "create the tables", error));
    TRY(store_execute(store, identity, "create the tables", error));
    return describe_run(store, run, error);
}

/* A resumed run may have an earlier version's tables, and another number of rounds than it started with. */
static enum esper_status renew_tables(struct store *store, const struct run *run, struct esper_error *error)
{
    char sql[192];
    TRY(store_add_columns(store, true, error));
    snprintf(sql, sizeof sql,
             "PRAGMA user_version = %d; UPDATE run SET configuration = json_set(configuration, '$.rounds', %d) "
             "WHERE json_valid(configuration)",
             STORE_VERSION, run->config.rounds);
    return store_execute(store, sql, "bring the record up to date", error);
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

static enum esper_status keep_log(struct store *store, struct esper_error *error)
{
    return store_execute(store,
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
    TRY(store_connect(store, SQLITE_OPEN_CREATE, error));
    TRY(store_ask(store, "SELECT count(*) FROM sqlite_master", &tables, error));
    TRY(store_ask(store, "PRAGMA application_id", &application, error));
    if (tables || application)
        TRY(store_check_version(store, error));
    TRY(store_check_schema(store, error));
    TRY(keep_log(store, error));
    /* In one transaction: a record is created completely or not at all. */
    TRY(store_execute(store, "BEGIN IMMEDIATE", "open", error));
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

/* ---- rows -------------------------------------------------------------------------------------------------------- */

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
    case COLUMN_PASSAGE:
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
    store_disconnect(store);
    TRY(store_connect(store, 0, error));
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
    enum esper_status status = store_execute(store, "BEGIN IMMEDIATE", "write", error);
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
        TRY(store_execute(store, sql, "write", error));
    }
    return ESPER_OK;
}

enum esper_status store_forget(struct store *store, uint32_t round, uint32_t step, struct esper_error *error)
{
    store_allow(store, STORE_SECONDS, NULL);
    TRY(store_execute(store, "BEGIN IMMEDIATE", "write", error));
    return finish(store, forget_all(store, round, step, error), error);
}
