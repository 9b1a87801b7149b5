#include "telemetry/store_guard.h"

#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "telemetry/functions.h"

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* A journal that ends like this names another journal, of a transaction over several databases, which SQLite removes
 * once it has rolled back: any file that the writer of the journal chose. Records are never part of one. */
static bool names_another(const char *journal)
{
    static const unsigned char ending[8] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};
    unsigned char last[8] = {0};
    int fd;
    if (file_open_own(journal, O_RDONLY, &fd, NULL) != ESPER_OK)
        return false;
    off_t end = lseek(fd, 0, SEEK_END);
    ssize_t got = end >= 8 ? pread(fd, last, sizeof last, end - 8) : 0;
    close(fd);
    return got == 8 && memcmp(last, ending, sizeof ending) == 0;
}

enum esper_status guard_files(const char *path, struct esper_error *error)
{
    static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
    char file[PATH_MAX + 16];
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        snprintf(file, sizeof file, "%s%s", path, endings[i]);
        TRY(file_check_own(file, error));
    }
    if (names_another(file))
        return error_set(error, ESPER_INVALID, "%s: is the journal of another program; remove it", file);
    return ESPER_OK;
}

/* ---- the connection ---------------------------------------------------------------------------------------------- */

static int on_progress(void *context)
{
    const struct store_limit *limit = context;
    return (limit->stop && *limit->stop) || (limit->deadline > 0 && clock_seconds() > limit->deadline);
}

int guard_connection(sqlite3 *db, struct store_limit *limit)
{
    static const struct {
        int which, value;
    } settings[] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},       {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},  {SQLITE_DBCONFIG_ENABLE_VIEW, 0}, /* temporary views are still allowed */
        {SQLITE_DBCONFIG_WRITABLE_SCHEMA, 0}, {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
    };
    int code = SQLITE_OK;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0] && code == SQLITE_OK; i++)
        code = sqlite3_db_config(db, settings[i].which, settings[i].value, NULL);
    sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_limit(db, SQLITE_LIMIT_TRIGGER_DEPTH, 0);
    sqlite3_limit(db, SQLITE_LIMIT_WORKER_THREADS, 0);
    sqlite3_progress_handler(db, 1000, on_progress, limit);
    if (code == SQLITE_OK)
        code = functions_register(db);
    if (code == SQLITE_OK) /* pages are checked as they are read */
        code = sqlite3_exec(db, "PRAGMA cell_size_check = 1", NULL, NULL, NULL);
    return code;
}

/* ---- the schema -------------------------------------------------------------------------------------------------- */

/* Views, triggers, virtual tables and computed columns run what their author wrote whenever they are read or written.
 */
int guard_schema(sqlite3 *db, char found[GUARD_TEXT])
{
    static const char sql[] =
        "SELECT CASE WHEN type = 'table' THEN 'a virtual table' WHEN type = 'index' THEN 'an index' ELSE 'a ' || type"
        " END, name FROM main.sqlite_master"
        " WHERE NOT (type = 'table' AND rootpage > 0 OR type = 'index' AND sql IS NULL)"
        " UNION ALL SELECT 'a computed column', m.name || '.' || c.name"
        " FROM main.sqlite_master m, pragma_table_xinfo(m.name, 'main') c WHERE m.type = 'table' AND c.hidden"
        " LIMIT 1";
    sqlite3_stmt *query = NULL;
    found[0] = '\0';
    int code = sqlite3_prepare_v2(db, sql, -1, &query, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(query);
    if (code == SQLITE_ROW) {
        const char *what = (const char *)sqlite3_column_text(query, 0);
        const char *name = (const char *)sqlite3_column_text(query, 1);
        snprintf(found, GUARD_TEXT, "%.40s \"%.80s\"", what ? what : "something", name ? name : "");
    }
    sqlite3_finalize(query);
    return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}
