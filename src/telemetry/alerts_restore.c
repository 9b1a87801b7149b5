/* Alerts of a resumed run: its record is replayed to them, round by round. */
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "telemetry/alerts.h"
#include "telemetry/store_schema.h"

/* Rounds whose steps are read again. Steps are the bulk of a record, and the rules on them look back three rounds. */
enum { STEP_ROUNDS = 20 };

/* Tables that the rules use, besides `round` itself. */
static const enum record_kind looked_at[] = {RECORD_PPO_HEAD, RECORD_PPO, RECORD_STEP, RECORD_OUTCOME, RECORD_DROPS};
enum { LOOKED_AT = sizeof looked_at / sizeof looked_at[0] };

struct reading {
    struct alerts *alerts;
    struct store *store;
    sqlite3 *db;
    sqlite3_stmt *newest, *rounds, *rows[LOOKED_AT], *told;
};

static enum esper_status reading_fail(const struct reading *reading, struct esper_error *error)
{
    return error_set(error, ESPER_FAILED, "cannot read the alerts of the run's record: %s",
                     sqlite3_errmsg(reading->db));
}

/* SELECT a, b FROM t <rest>: the columns in the order of the struct. */
static enum esper_status prepare(struct reading *reading, enum record_kind kind, const char *rest, sqlite3_stmt **out,
                                 struct esper_error *error)
{
    char sql[4096] = "SELECT ";
    const struct store_layout *layout = &store_layouts[kind];
    size_t used = strlen(sql);
    for (int i = 0; i < layout->count; i++)
        used += (size_t)snprintf(sql + used, sizeof sql - used, "%s%s", i ? ", " : "", layout->columns[i].name);
    snprintf(sql + used, sizeof sql - used, " FROM %s %s", layout->name, rest);
    return sqlite3_prepare_v2(reading->db, sql, -1, out, NULL) == SQLITE_OK ? ESPER_OK : reading_fail(reading, error);
}

/* Names are valid until the statement moves on, which is long enough. */
static void fill_field(sqlite3_stmt *statement, int at, enum column_type type, char *field)
{
    bool missing = sqlite3_column_type(statement, at) == SQLITE_NULL;
    int64_t whole;
    double real;
    const char *text;
    switch (type) {
    case COLUMN_INTEGER:
    case COLUMN_OPTIONAL:
        whole = missing ? RECORD_NONE : sqlite3_column_int64(statement, at);
        memcpy(field, &whole, sizeof whole);
        break;
    case COLUMN_NUMBER:
        real = missing ? (double)NAN : sqlite3_column_double(statement, at);
        memcpy(field, &real, sizeof real);
        break;
    case COLUMN_NAME:
        text = (const char *)sqlite3_column_text(statement, at);
        memcpy(field, &text, sizeof text);
        break;
    case COLUMN_TEXT:
    case COLUMN_PASSAGE:
        text = (const char *)sqlite3_column_text(statement, at);
        snprintf(field, column_bytes(type), "%s", text ? text : "");
        break;
    }
}

static void fill(sqlite3_stmt *statement, enum record_kind kind, struct record_row *row)
{
    const struct store_layout *layout = &store_layouts[kind];
    char *field = (char *)&row->record;
    row->kind = kind;
    for (int i = 0; i < layout->count; field += column_bytes(layout->columns[i].type), i++)
        fill_field(statement, i, layout->columns[i].type, field);
}

/* The rows of the rounds after `done`, up to `last`. */
static enum esper_status look_at(struct reading *reading, int64_t done, int64_t last, bool steps,
                                 struct esper_error *error)
{
    store_allow(reading->store, STORE_SECONDS, NULL);
    for (int i = 0; i < LOOKED_AT; i++) {
        sqlite3_stmt *rows = reading->rows[i];
        struct record_row row;
        int code;
        if (looked_at[i] == RECORD_STEP && !steps)
            continue;
        sqlite3_bind_int64(rows, 1, done);
        sqlite3_bind_int64(rows, 2, last);
        while ((code = sqlite3_step(rows)) == SQLITE_ROW) {
            fill(rows, looked_at[i], &row);
            alerts_look(reading->alerts, &row);
        }
        if (code != SQLITE_DONE)
            return reading_fail(reading, error);
        sqlite3_reset(rows);
    }
    return ESPER_OK;
}

/* Every round again, then the rows of the one that was under way. */
static enum esper_status repeat(struct reading *reading, struct esper_error *error)
{
    struct alert_record ignored[ALERTS_MAX];
    struct record_row row;
    int64_t done = -1, newest;
    int code = sqlite3_step(reading->newest);
    if (code != SQLITE_ROW)
        return reading_fail(reading, error);
    newest = sqlite3_column_int64(reading->newest, 0);
    while ((code = sqlite3_step(reading->rounds)) == SQLITE_ROW) {
        const struct round_record *round = &row.record.round;
        fill(reading->rounds, RECORD_ROUND, &row);
        uint64_t before = (uint64_t)newest - (uint64_t)round->round; /* no round is newer; a record may say any */
        TRY(look_at(reading, done, round->round, before < STEP_ROUNDS, error));
        alerts_judge(reading->alerts, round, ignored);
        done = round->round;
    }
    if (code != SQLITE_DONE)
        return reading_fail(reading, error);
    return look_at(reading, done, INT64_MAX, true, error);
}

/* Active alerts are those that the operator was shown. */
static enum esper_status recall(struct reading *reading, struct esper_error *error)
{
    struct record_row row;
    int code;
    alerts_recall(reading->alerts, NULL);
    while ((code = sqlite3_step(reading->told)) == SQLITE_ROW) {
        fill(reading->told, RECORD_ALERT, &row);
        alerts_recall(reading->alerts, &row.record.alert);
    }
    return code == SQLITE_DONE ? ESPER_OK : reading_fail(reading, error);
}

static enum esper_status read_all(struct reading *reading, struct esper_error *error)
{
    TRY(prepare(reading, RECORD_ROUND, "ORDER BY round", &reading->rounds, error));
    TRY(prepare(reading, RECORD_ALERT, "ORDER BY round", &reading->told, error));
    for (int i = 0; i < LOOKED_AT; i++)
        TRY(prepare(reading, looked_at[i], "WHERE round > ?1 AND round <= ?2", &reading->rows[i], error));
    if (sqlite3_prepare_v2(reading->db, "SELECT max(round) FROM round", -1, &reading->newest, NULL) != SQLITE_OK)
        return reading_fail(reading, error);
    TRY(repeat(reading, error));
    return recall(reading, error);
}

enum esper_status alerts_restore(struct alerts *alerts, struct store *store, struct esper_error *error)
{
    struct reading reading = {.alerts = alerts, .store = store, .db = store_sql(store)};
    store_allow(store, STORE_SECONDS, NULL);
    enum esper_status status = read_all(&reading, error);
    sqlite3_finalize(reading.newest);
    sqlite3_finalize(reading.rounds);
    sqlite3_finalize(reading.told);
    for (int i = 0; i < LOOKED_AT; i++)
        sqlite3_finalize(reading.rows[i]);
    return status;
}
