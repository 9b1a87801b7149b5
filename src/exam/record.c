#include "exam/record.h"

#include <stdio.h>

#include "morph/stage.h"
#include "telemetry/query.h"

/* Takes the numbers of the last row; what is missing is 0. */
struct numbers {
    double *values;
    int count;
};

static enum esper_status take_numbers(void *context, const struct query_row *row, struct esper_error *error)
{
    const struct numbers *numbers = context;
    (void)error;
    for (int i = 0; row->values && i < numbers->count; i++) {
        const struct query_value *value = &row->values[i];
        numbers->values[i] = value->kind == QUERY_REAL      ? value->real
                             : value->kind == QUERY_INTEGER ? (double)value->integer
                                                            : 0;
    }
    return ESPER_OK;
}

static enum esper_status ask(const char *path, const char *sql, double *values, int count, struct esper_error *error)
{
    struct numbers numbers = {values, count};
    struct run run;
    struct query *query;
    TRY(run_open(&run, ".", path, error));
    enum esper_status status = query_open(&query, &run, error);
    if (status == ESPER_OK) {
        status = query_run(query, sql, NULL, take_numbers, &numbers, error);
        query_close(query);
    }
    run_close(&run);
    return status;
}

enum esper_status exam_ask_seconds(const char *path, double *seconds, struct esper_error *error)
{
    return ask(path, "select sum(seconds) from round", seconds, 1, error);
}

enum esper_status exam_ask_rates(const char *path, double rate[OP_COUNT], struct esper_error *error)
{
#define RATE(with, NAME, name) ", 1.0 * sum(op = '" #name "') / sum(p_" #name " > 0)"
    static const char rates[] = OPS(RATE, );
#undef RATE
    char sql[sizeof "select  from step" + sizeof rates];
    snprintf(sql, sizeof sql, "select %s from step", rates + sizeof ", " - 1); /* no comma before the first */
    return ask(path, sql, rate, OP_COUNT, error);
}
