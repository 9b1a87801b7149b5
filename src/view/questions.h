/*
 * The questions that all viewers ask: terminal, page and report show the same numbers because they read the same
 * answers. Units: those of the record (telemetry/record.h), or in the name of the column.
 *
 * Each answer is bounded in rows and quick on long runs (64 envs x 150 steps x 1000 rounds): the wide tables `step`,
 * `seed` and `phase` are read one round at a time along their keys, long ranges come from `round`, `ppo` and `outcome`.
 * A question that takes :from and :to and reads `life` or `step` says how many rounds before :to it covers.
 *
 * From round 200 on, rows of idle steps are kept 1 in 10 (T-08): answers that sum or count `step` rows have a column
 * `kept` with the number of rows they saw, so that a viewer can say so.
 */
#ifndef VIEW_QUESTIONS_H
#define VIEW_QUESTIONS_H

#include "telemetry/query.h"

struct question {
    const char *name;
    const char *about;      /* what it answers, and in which order */
    const char *parameters; /* the ones it takes, for people: ":round :env" */
    const char *sql;        /* one SELECT; parameters are written :round, :step ... */
};
extern const struct question questions[];
extern const int question_count;

/* The values of the parameters. Only integers ever get into a question. */
struct question_values {
    int64_t round, step, env, slot;
    int64_t from, to; /* rounds, both included */
    int64_t limit;    /* at most this many rows */
};
/* All rounds, at most 200 rows where a question takes a limit; the rest is 0. */
struct question_values question_all(void);

const struct question *question_find(const char *name); /* NULL: there is none of that name */

/* The question with its parameters filled in. An unknown name, or a buffer that is too small, is an error. */
enum { QUESTION_BYTES = 8192 }; /* enough for each of them */
enum esper_status question_fill(const char *name, const struct question_values *values, char *sql, size_t size,
                                struct esper_error *error);

/* Fills and asks, with query_run of telemetry/query.h. */
enum esper_status question_run(struct query *query, const char *name, const struct question_values *values,
                               const struct query_options *options, query_take row, void *context,
                               struct esper_error *error);

#endif
