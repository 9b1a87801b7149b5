/* Records for the tests: rows whose every field differs from every other one, and a look at what the store holds. */
#ifndef TESTS_TESTING_RECORD_H
#define TESTS_TESTING_RECORD_H

#include <math.h>
#include <sqlite3.h>

#include "telemetry/store_schema.h"
#include "testing_runs.h"

static inline struct store *must_open(const struct run *run)
{
    struct esper_error error = {0};
    struct store *store = NULL;
    if (store_open(&store, run, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    return store;
}

static inline struct store *must_read(const struct run *run)
{
    struct esper_error error = {0};
    struct store *store = NULL;
    if (store_open_reader(&store, run, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    return store;
}

static inline void must_write(struct store *store, const struct record_row *rows, int count)
{
    struct esper_error error = {0};
    if (store_write(store, rows, count, &error) != ESPER_OK)
        fail_msg("%s", error.text);
}

/* The first value of a query as text; "NULL" when it is that. The next call overwrites it. */
static inline const char *query_text(struct store *store, const char *sql)
{
    static char text[8192];
    sqlite3_stmt *statement = NULL;
    snprintf(text, sizeof text, "(error)");
    if (sqlite3_prepare_v2(store_sql(store), sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW) {
        const unsigned char *value = sqlite3_column_text(statement, 0);
        snprintf(text, sizeof text, "%s", value ? (const char *)value : "NULL");
    }
    sqlite3_finalize(statement);
    return text;
}

static inline int64_t query_number(struct store *store, const char *sql)
{
    return strtoll(query_text(store, sql), NULL, 10);
}

static inline int64_t rows_in(struct store *store, const char *table)
{
    char sql[64];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
    return query_number(store, sql);
}

/* Whether the column is part of the table's key, which must not be missing. */
static inline bool is_key(enum record_kind kind, const char *column)
{
#define RECORD_KEY(NAME, name, lane, level, key, help) ", " key ",",
    static const char *const keys[] = {RECORD_KINDS(RECORD_KEY)};
#undef RECORD_KEY
    char wanted[64];
    snprintf(wanted, sizeof wanted, ", %s,", column);
    return strstr(keys[kind], wanted);
}

/* Fields grow with `base` and with their place, so rows of a table are in the order of their bases. With `missing` all
 * numbers are `number` and everything optional is missing. */
static inline void fill_row(struct record_row *row, enum record_kind kind, int64_t base, bool missing, double number)
{
    static const char *const names[] = {"ash", "beech", "cedar", "elm", "fir", "hazel", "larch", "maple"};
    const struct store_layout *layout = &store_layouts[kind];
    memset(row, 0, sizeof *row);
    row->kind = kind;
    char *field = (char *)&row->record;
    for (int i = 0; i < layout->count; field += column_bytes(layout->columns[i].type), i++) {
        bool absent = missing && !is_key(kind, layout->columns[i].name);
        int64_t whole = absent && layout->columns[i].type == COLUMN_OPTIONAL ? RECORD_NONE : base + i;
        double value = missing ? number : (double)base + i + 0.1;
        const char *name = absent ? NULL : names[(base + i) % 8];
        switch (layout->columns[i].type) {
        case COLUMN_INTEGER:
        case COLUMN_OPTIONAL:
            memcpy(field, &whole, sizeof whole);
            break;
        case COLUMN_NUMBER:
            memcpy(field, &value, sizeof value);
            break;
        case COLUMN_NAME:
            memcpy(field, &name, sizeof name);
            break;
        case COLUMN_TEXT:
        case COLUMN_PASSAGE:
            if (!absent)
                snprintf(field, RECORD_TEXT, "text %08lld", (long long)base + i);
            break;
        }
    }
}

/* ---- a round as a trainer writes it ------------------------------------------------------------------------------ */

enum { ROUND_OUTCOMES = 3, ROUND_STEPS = 2, ROUND_ROWS = 2 + ROUND_OUTCOMES + ROUND_OUTCOMES * ROUND_STEPS };

/* round, ppo, three outcomes, two steps of each. Returns ROUND_ROWS. */
static inline int fill_round(struct record_row rows[ROUND_ROWS], int64_t round)
{
    int count = 0;
    fill_row(&rows[count], RECORD_ROUND, 1000, false, 0);
    rows[count++].record.round.round = round;
    fill_row(&rows[count], RECORD_PPO, 2000, false, 0);
    rows[count++].record.ppo.round = round;
    for (int env = 0; env < ROUND_OUTCOMES; env++) {
        fill_row(&rows[count], RECORD_OUTCOME, 3000 + 100 * env, false, 0);
        rows[count].record.outcome.round = round;
        rows[count++].record.outcome.env = env;
        for (int step = 1; step <= ROUND_STEPS; step++) {
            fill_row(&rows[count], RECORD_STEP, 4000 + 100 * env, false, 0);
            rows[count].record.step.round = round;
            rows[count].record.step.step = step;
            rows[count++].record.step.env = env;
        }
    }
    return count;
}

static inline void write_round(struct store *store, int64_t round)
{
    struct record_row rows[ROUND_ROWS];
    must_write(store, rows, fill_round(rows, round));
}

#endif
