/* Records of earlier versions: the columns and tables added since. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "telemetry/store_schema.h"

enum { COLUMNS_MAX = 128 };
_Static_assert(sizeof(union record) / sizeof(double) <= COLUMNS_MAX, "no table has more columns");

/* Which of the columns the record's table has, and how many; 0: there is no such table. A failure must not look like
 * that: the table would be covered by an empty one. */
static int find_columns(sqlite3 *db, const struct store_layout *layout, bool found[COLUMNS_MAX], int *count)
{
    sqlite3_stmt *query = NULL;
    *count = 0;
    memset(found, 0, COLUMNS_MAX * sizeof *found);
    int code = sqlite3_prepare_v2(db, "SELECT name FROM pragma_table_info(?1, 'main')", -1, &query, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_bind_text(query, 1, layout->name, -1, SQLITE_STATIC);
    if (code == SQLITE_OK)
        while ((code = sqlite3_step(query)) == SQLITE_ROW) {
            const char *name = (const char *)sqlite3_column_text(query, 0);
            for (int i = 0; name && i < layout->count; i++)
                if (strcmp(name, layout->columns[i].name) == 0 && !found[i])
                    found[i] = true, ++*count;
            if (!name) /* a column has a name: out of memory */
                break;
        }
    sqlite3_finalize(query);
    return code == SQLITE_DONE ? SQLITE_OK : code == SQLITE_ROW ? SQLITE_NOMEM : code;
}

/* A column that is never missing cannot be NULL: "table.column" then, otherwise "". */
static bool is_lacking(const struct store_layout *layout, const bool found[COLUMNS_MAX], char lack[STORE_LACK])
{
    for (int i = 0; i < layout->count; i++)
        if (!found[i] && layout->columns[i].type == COLUMN_INTEGER) {
            snprintf(lack, STORE_LACK, "%s.%s", layout->name, layout->columns[i].name);
            return true;
        }
    return false;
}

static int add_columns(sqlite3 *db, const struct store_layout *layout, const bool found[COLUMNS_MAX])
{
    static const char *const types[] = {[COLUMN_OPTIONAL] = "INTEGER",
                                        [COLUMN_NUMBER] = "REAL",
                                        [COLUMN_NAME] = "TEXT",
                                        [COLUMN_TEXT] = "TEXT",
                                        [COLUMN_PASSAGE] = "TEXT"};
    int code = SQLITE_OK;
    for (int i = 0; i < layout->count && code == SQLITE_OK; i++) {
        char sql[160];
        if (found[i])
            continue;
        snprintf(sql, sizeof sql, "ALTER TABLE %s ADD COLUMN %s %s", layout->name, layout->columns[i].name,
                 types[layout->columns[i].type]);
        code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    }
    return code;
}

/* Names without a schema mean the temporary one first: every question finds the view where it names the table. */
static int cover(sqlite3 *db, const struct store_layout *layout, const bool found[COLUMNS_MAX], bool exists)
{
    char sql[8192];
    size_t used = (size_t)snprintf(sql, sizeof sql, "CREATE TEMP VIEW %s AS SELECT ", layout->name);
    for (int i = 0; i < layout->count; i++)
        used += (size_t)snprintf(sql + used, sizeof sql - used, "%s%s%s", i ? ", " : "", found[i] ? "" : "NULL AS ",
                                 layout->columns[i].name);
    snprintf(sql + used, sizeof sql - used, "%s%s", exists ? " FROM main." : " WHERE 0", exists ? layout->name : "");
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

int store_complete(sqlite3 *db, bool writes, char lack[STORE_LACK])
{
    int code = SQLITE_OK;
    *lack = '\0';
    for (int kind = 0; kind < RECORD_KIND_COUNT && code == SQLITE_OK; kind++) {
        const struct store_layout *layout = &store_layouts[kind];
        bool found[COLUMNS_MAX];
        int count;
        code = find_columns(db, layout, found, &count);
        if (code != SQLITE_OK || count == layout->count)
            continue;
        if (count > 0 && is_lacking(layout, found, lack))
            return SQLITE_ERROR;
        if (!writes)
            code = cover(db, layout, found, count > 0);
        else if (count > 0)
            code = add_columns(db, layout, found);
        else
            code = sqlite3_exec(db, layout->create, NULL, NULL, NULL);
    }
    return code;
}
