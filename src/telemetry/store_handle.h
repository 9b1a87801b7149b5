/* A connection to the record as its writer and its readers share it; telemetry/store.h is the way in for everyone else.
 */
#ifndef TELEMETRY_STORE_HANDLE_H
#define TELEMETRY_STORE_HANDLE_H

#include <limits.h>
#include <sqlite3.h>

#include "telemetry/store.h"
#include "telemetry/store_guard.h"

struct store {
    sqlite3 *db;
    struct store_limit limit;
    sqlite3_stmt *insert[RECORD_KIND_COUNT]; /* a writer's */
    bool stuck;                              /* the connection lost count of its locks */
    char path[PATH_MAX];                     /* telemetry.db */
};

/* Someone's shell may hold the file for a moment. The writer of rows retries by itself, and must not keep a trainer
 * from ending. */
enum { BUSY_MS = 5000, WRITE_BUSY_MS = 1000 };

/* What SQLite reported last, as one line that says what could not be done. */
enum esper_status store_fail(const struct store *store, const char *action, struct esper_error *error);
enum esper_status store_execute(struct store *store, const char *sql, const char *action, struct esper_error *error);
/* The single number that a query returns. */
enum esper_status store_ask(struct store *store, const char *sql, int64_t *answer, struct esper_error *error);

/* A store without a connection, once the files at its path are known to be plain files. */
struct store *store_new(const struct run *run, struct esper_error *error);
/* Connects for writing, with SQLite's flags beside SQLITE_OPEN_READWRITE. */
enum esper_status store_connect(struct store *store, int flags, struct esper_error *error);
void store_disconnect(struct store *store);

/* Is it a record, of a version that this program reads, and nothing but tables? */
enum esper_status store_check_version(struct store *store, struct esper_error *error);
enum esper_status store_check_schema(struct store *store, struct esper_error *error);
/* Adds the columns that an earlier version lacks: to the tables, or for a reader in views before them. */
enum esper_status store_add_columns(struct store *store, bool writes, struct esper_error *error);

#endif
