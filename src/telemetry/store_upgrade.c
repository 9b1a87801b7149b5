/* Records of earlier versions: the columns and tables that came since. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "telemetry/store_schema.h"

enum { COLUMNS_MAX = 128 };
_Static_assert(sizeof(union record) / sizeof(double) <= COLUMNS_MAX, "no table has more columns");

static enum esper_status upgrade_fail(sqlite3 *db, const char *path, struct esper_error *error)
{
    return error_set(error, sqlite3_errcode(db) == SQLITE_CORRUPT ? ESPER_INVALID : ESPER_FAILED,
                     "%s: cannot read an earlier version's tables: %s", path, sqlite3_errmsg(db));
}

static enum esper_status execute(sqlite3 *db, const char *sql, const char *path, struct esper_error *error)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? ESPER_OK : upgrade_fail(db, path, error);
}

/* Which of the columns the record's table has; returns how many, 0: there is no such table. */
static int find_columns(sqlite3 *db, const struct store_layout *layout, bool found[COLUMNS_MAX])
{
    sqlite3_stmt *query = NULL;
    int count = 0;
    memset(found, 0, COLUMNS_MAX * sizeof *found);
    if (sqlite3_prepare_v2(db, "SELECT name FROM pragma_table_info(?1, 'main')", -1, &query, NULL) == SQLITE_OK &&
        sqlite3_bind_text(query, 1, layout->name, -1, SQLITE_STATIC) == SQLITE_OK)
        while (sqlite3_step(query) == SQLITE_ROW) {
            const char *name = (const char *)sqlite3_column_text(query, 0);
            for (int i = 0; name && i < layout->count; i++)
                if (strcmp(name, layout->columns[i].name) == 0 && !found[i])
                    found[i] = true, count++;
        }
    sqlite3_finalize(query);
    return count;
}

/* Missing is NULL, which a column that is never missing cannot be. */
static enum esper_status check_lack(const struct store_layout *layout, const bool found[COLUMNS_MAX], const char *path,
                                    struct esper_error *error)
{
    for (int i = 0; i < layout->count; i++)
        if (!found[i] && layout->columns[i].type == COLUMN_INTEGER)
            return error_set(error, ESPER_INVALID,
                             "%s: the record lacks the column %s.%s, which this Esper (" ESPER_VERSION
                             ") cannot do without: read it with the version that made it",
                             path, layout->name, layout->columns[i].name);
    return ESPER_OK;
}

static enum esper_status add_columns(sqlite3 *db, const struct store_layout *layout, const bool found[COLUMNS_MAX],
                                     const char *path, struct esper_error *error)
{
    static const char *const types[] = {
        [COLUMN_OPTIONAL] = "INTEGER", [COLUMN_NUMBER] = "REAL", [COLUMN_NAME] = "TEXT", [COLUMN_TEXT] = "TEXT"};
    for (int i = 0; i < layout->count; i++) {
        char sql[160];
        if (found[i])
            continue;
        snprintf(sql, sizeof sql, "ALTER TABLE %s ADD COLUMN %s %s", layout->name, layout->columns[i].name,
                 types[layout->columns[i].type]);
        TRY(execute(db, sql, path, error));
    }
    return ESPER_OK;
}

enum esper_status store_add_missing(sqlite3 *db, const char *path, struct esper_error *error)
{
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        const struct store_layout *layout = &store_layouts[kind];
        bool found[COLUMNS_MAX];
        if (find_columns(db, layout, found) == 0) {
            TRY(execute(db, layout->create, path, error));
            continue;
        }
        TRY(check_lack(layout, found, path, error));
        TRY(add_columns(db, layout, found, path, error));
    }
    return ESPER_OK;
}

/* Names without a schema mean the temporary one first: every question finds the view where it names the table. */
static enum esper_status cover(sqlite3 *db, const struct store_layout *layout, const bool found[COLUMNS_MAX], bool any,
                               const char *path, struct esper_error *error)
{
    char sql[8192];
    size_t used = (size_t)snprintf(sql, sizeof sql, "CREATE TEMP VIEW %s AS SELECT ", layout->name);
    for (int i = 0; i < layout->count; i++)
        used += (size_t)snprintf(sql + used, sizeof sql - used, "%s%s%s", i ? ", " : "", found[i] ? "" : "NULL AS ",
                                 layout->columns[i].name);
    snprintf(sql + used, sizeof sql - used, "%s%s", any ? " FROM main." : " WHERE 0", any ? layout->name : "");
    return execute(db, sql, path, error);
}

enum esper_status store_cover_missing(sqlite3 *db, const char *path, struct esper_error *error)
{
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        const struct store_layout *layout = &store_layouts[kind];
        bool found[COLUMNS_MAX];
        int count = find_columns(db, layout, found);
        if (count == layout->count)
            continue;
        if (count > 0)
            TRY(check_lack(layout, found, path, error));
        TRY(cover(db, layout, found, count > 0, path, error));
    }
    return ESPER_OK;
}
