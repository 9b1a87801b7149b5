/*
 * Questions to a run's record: SQL that only reads, on a live, finished or crashed run.
 *
 * An authoriser lets only SELECT, known functions without side effects and a few PRAGMAs that describe tables pass; in
 * addition the connection is read-only. Time, memory and lengths are limited, and temporary data stay in memory: a
 * question never fills the disk that a trainer writes to. The record itself is not trusted either: it may come from
 * elsewhere. functions.h adds four functions.
 */
#ifndef TELEMETRY_QUERY_H
#define TELEMETRY_QUERY_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "telemetry/run.h"

#define QUERY_SQL      65536       /* longest question, bytes */
#define QUERY_LENGTH   (1 << 17)   /* longest value, bytes */
#define QUERY_MEMORY   (1LL << 30) /* for all questions of the process together, bytes */
#define QUERY_SECONDS  10          /* default time limit for a person's question */
#define QUERY_PATIENCE 60.0        /* for a row of a question without a limit of its own, seconds */

struct query;

enum query_kind { QUERY_NULL, QUERY_INTEGER, QUERY_REAL, QUERY_TEXT, QUERY_BLOB };

struct query_value {
    enum query_kind kind;
    int64_t integer;
    double real;      /* never NaN; an infinity is possible */
    const char *text; /* of a text or a blob; a NUL follows the text, and may be in it */
    size_t bytes;
};

struct query_row {
    int count;
    const char *const *names; /* of the columns, as the question names them */
    const char *const *keys;  /* the same, with a number appended to repeated ones: all differ */
    const struct query_value *values;
};

struct query_options {
    double timeout;                    /* seconds until the question is given up; 0: QUERY_PATIENCE for every row */
    int64_t rows;                      /* at most this many rows; 0: all */
    const volatile sig_atomic_t *stop; /* may be NULL; the question ends once it is not 0 */
};

enum esper_status query_open(struct query **out, const struct run *run, struct esper_error *error);
void query_close(struct query *query);
/* All questions from now on together have so many seconds, whatever their own options say, and end once *stop is not 0.
 */
void query_bound(struct query *query, double seconds, const volatile sig_atomic_t *stop);

/* Every later question sees the record as it is now, whatever a trainer adds meanwhile: for reading table after table.
 * Do not hold it for long: the log cannot be checkpointed before query_close. */
enum esper_status query_hold(struct query *query, struct esper_error *error);

/*
 * One statement. `row` is called once with the columns alone (values NULL), then for every row; the pointers are valid
 * during the call only. Wrong or refused SQL is ESPER_INVALID, a question that took too long ESPER_FAILED, a stopped
 * one ESPER_INTERRUPTED; when `row` fails, its status is returned. options may be NULL: all rows, in
 * QUERY_PATIENCE each.
 */
typedef enum esper_status (*query_take)(void *context, const struct query_row *row, struct esper_error *error);
enum esper_status query_run(struct query *query, const char *sql, const struct query_options *options, query_take row,
                            void *context, struct esper_error *error);
/* Whether the last query_run left rows out because of options.rows. */
bool query_was_cut(const struct query *query);

/* The same row by row, for callers that read several answers side by side. The options of the latest question apply to
 * all; `rows` is ignored. */
struct query_answer;
enum esper_status query_ask(struct query *query, const char *sql, const struct query_options *options,
                            struct query_answer **out, struct esper_error *error);
/* The columns: values is NULL. */
const struct query_row *query_columns(const struct query_answer *answer);
/* The next row, valid until the next call; *row is NULL after the last. */
enum esper_status query_next(struct query_answer *answer, const struct query_row **row, struct esper_error *error);
void query_end(struct query_answer *answer);

/* Whether the record has a table or view of that name; if not, an error suggests the nearest. */
enum esper_status query_find_table(struct query *query, const char *table, struct esper_error *error);

#endif
