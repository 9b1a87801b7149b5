/*
 * A record is input from a stranger: its run may have been received. Before anything is asked of it, its files must be
 * files, its schema must hold tables and nothing that acts by itself, and whatever is asked later has a deadline. For
 * the store only (T-13).
 */
#ifndef TELEMETRY_STORE_GUARD_H
#define TELEMETRY_STORE_GUARD_H

#include <signal.h>

#include "base/status.h"

/* When whatever is asked of a connection gives up. */
struct store_limit {
    double deadline;                   /* by clock_seconds; 0: never */
    const volatile sig_atomic_t *stop; /* may be NULL; it ends once it is not 0 */
};

/* telemetry.db and what SQLite keeps beside it. */
enum esper_status guard_files(const char *path, struct esper_error *error);

struct sqlite3;
/* Right after opening: no triggers, no views of the record's own, no functions with side effects in its schema; all
 * that is asked ends by `limit`, which must live as long. Returns SQLite's code. */
int guard_connection(struct sqlite3 *db, struct store_limit *limit);

/* What the schema holds that no Esper ever put there, such as "a view \"outcome\""; "": nothing. Returns SQLite's code.
 */
enum { GUARD_TEXT = 160 };
int guard_schema(struct sqlite3 *db, char found[GUARD_TEXT]);

#endif
