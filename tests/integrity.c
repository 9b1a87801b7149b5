/* integrity FILE: SQLite's own check of a record, then what it holds: "ok ROUNDS OUTCOMES". The tests of killed runs
 * compile it. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

static int ask(sqlite3 *db, const char *sql, char *answer, size_t size)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK || sqlite3_step(statement) != SQLITE_ROW) {
        fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db));
        return 0;
    }
    snprintf(answer, size, "%s", (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    return 1;
}

int main(int argc, char **argv)
{
    sqlite3 *db;
    char state[256], tables[32], rounds[32] = "0", outcomes[32] = "0";
    if (argc != 2 || sqlite3_open_v2(argv[1], &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        return 2;
    if (!ask(db, "PRAGMA integrity_check", state, sizeof state) ||
        !ask(db, "SELECT count(*) FROM sqlite_master", tables, sizeof tables))
        return 1;
    if (strcmp(tables, "0") != 0 && /* killed before its tables were made: all of them, or none */
        (!ask(db, "SELECT count(*) FROM round", rounds, sizeof rounds) ||
         !ask(db, "SELECT count(*) FROM outcome", outcomes, sizeof outcomes)))
        return 1;
    printf("%s %s %s\n", state, rounds, outcomes);
    sqlite3_close(db);
    return strcmp(state, "ok") != 0;
}
