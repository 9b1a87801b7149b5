/* For the tests of queries: a run of known content, and answers that are kept. */
#ifndef TESTS_TESTING_QUERY_H
#define TESTS_TESTING_QUERY_H

#include <math.h>

#include "telemetry/query.h"
#include "testing_runs.h"

static struct esper_error error;
static struct run run;
static struct query *query;

enum { ROUNDS = 6, ENVS = 4 };

#define ENDLESS "(with recursive t(x) as (select 1 union all select x + 1 from t) select x from t)"

/* Reward of an episode: 10 round + env. How long round 2 took is unknown. */
static inline int write_round(struct store *store, int round)
{
    struct record_row rows[1 + ENVS] = {{.kind = RECORD_ROUND}};
    rows[0].record.round.round = round;
    rows[0].record.round.seconds = round == 2 ? (double)NAN : 0.5 * round;
    for (int env = 0; env < ENVS; env++) {
        rows[1 + env].kind = RECORD_OUTCOME;
        rows[1 + env].record.outcome = (struct outcome_record){.round = round, .env = env, .reward = round * 10 + env};
    }
    return store_write(store, rows, 1 + ENVS, NULL) == ESPER_OK ? 0 : 1;
}

static inline int set_up(void **state)
{
    struct config config = sample_config();
    struct store *store = NULL;
    if (folder_make(state) != 0)
        return -1;
    create_run(&run, "asked", &config);
    if (store_open(&store, &run, &error) != ESPER_OK)
        return -1;
    for (int round = 0; round < ROUNDS; round++)
        if (write_round(store, round) != 0)
            return -1;
    store_close(store);
    return query_open(&query, &run, &error) == ESPER_OK ? 0 : -1;
}

static inline int tear_down(void **state)
{
    query_close(query);
    run_close(&run);
    return folder_clear(state);
}

/* What an answer was: how many rows, and the numbers of the first column. */
struct answer {
    int heads, rows, columns;
    enum query_kind kind; /* of the first value */
    double values[4096];
    char text[256]; /* the first value, if it is one */
};

static inline enum esper_status keep(void *context, const struct query_row *row, struct esper_error *problem)
{
    (void)problem;
    struct answer *answer = context;
    answer->columns = row->count;
    if (!row->values) {
        answer->heads++;
        return ESPER_OK;
    }
    const struct query_value *value = &row->values[0];
    if (answer->rows == 0)
        answer->kind = value->kind;
    if (answer->rows == 0 && value->kind == QUERY_TEXT)
        snprintf(answer->text, sizeof answer->text, "%s", value->text);
    if (answer->rows < 4096)
        answer->values[answer->rows] = value->kind == QUERY_INTEGER ? (double)value->integer
                                       : value->kind == QUERY_REAL  ? value->real
                                                                    : (double)NAN;
    answer->rows++;
    return ESPER_OK;
}

static inline enum esper_status ask(const char *sql, const struct query_options *options, struct answer *answer)
{
    *answer = (struct answer){0};
    error.text[0] = '\0';
    return query_run(query, sql, options, keep, answer, &error);
}

static inline void must_ask(const char *sql, struct answer *answer)
{
    if (ask(sql, NULL, answer) != ESPER_OK)
        fail_msg("%s: %s", sql, error.text);
    assert_int_equal(answer->heads, 1);
}

static inline double number(const char *sql)
{
    static struct answer answer;
    must_ask(sql, &answer);
    assert_int_equal(answer.rows, 1);
    return answer.values[0];
}

#endif
