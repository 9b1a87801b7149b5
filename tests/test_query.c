/* Queries of a record: right answers, functions that agree with brute force, one moment of a live run. */
#include <signal.h>

#include "base/philox.h"
#include "telemetry/store_schema.h"
#include "testing_query.h"

static void assert_near(double got, double wanted, const char *what)
{
    if (isnan(wanted) ? !isnan(got) : !(fabs(got - wanted) <= 1e-12 * fmax(1, fabs(wanted))))
        fail_msg("%s: %.17g, not %.17g", what, got, wanted);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void answers(void **state)
{
    (void)state;
    static struct answer answer;
    assert_int_equal(number("select count(*) from outcome"), ROUNDS * ENVS);
    assert_int_equal(number("select sum(reward) from outcome where round = 3;  -- and a remark\n"), 126);
    assert_true(isnan(number("select seconds from round where round = 2"))); /* missing, not 0 */
    must_ask("select name from run", &answer);
    assert_string_equal(answer.text, "asked");
    must_ask("select round, env from outcome where round > 99", &answer);
    assert_int_equal(answer.rows, 0);
    assert_int_equal(answer.columns, 2);
    assert_int_equal(number("with recursive t(x) as (select 1 union all select x + 1 from t where x < 500) "
                            "select sum(x) from t"),
                     125250);
    assert_true(number("select count(*) from pragma_table_info('outcome')") >= 15);
    assert_int_equal(number("select json_extract(configuration, '$.envs') from run"), 4);
    assert_int_equal(number("select count(*) from json_each('[1, 2, 3]')"), 3);
    must_ask("PRAGMA table_info(round)", &answer);
    assert_true(answer.rows >= 22);
    must_ask("PRAGMA table_list", &answer);
    assert_true(answer.rows >= 6);
    assert_int_equal(number("PRAGMA user_version"), STORE_VERSION);
    must_ask("explain query plan select * from round", &answer);
}

static void names_and_keys(void **state)
{
    (void)state;
    struct query_answer *answer;
    const struct query_row *row;
    assert_int_equal(query_ask(query, "select 1 a, 2 a, 3 a_2, 4 a, x'00ff' b, '' c", NULL, &answer, &error), ESPER_OK);
    const struct query_row *columns = query_columns(answer);
    static const char *const keys[] = {"a", "a_2", "a_2_2", "a_3", "b", "c"};
    assert_null(columns->values);
    for (int i = 0; i < 6; i++)
        assert_string_equal(columns->keys[i], keys[i]);
    assert_string_equal(columns->names[3], "a");
    assert_int_equal(query_next(answer, &row, &error), ESPER_OK);
    assert_int_equal(row->values[4].kind, QUERY_BLOB);
    assert_int_equal(row->values[4].bytes, 2);
    assert_int_equal(row->values[5].bytes, 0);
    assert_int_equal(query_next(answer, &row, &error), ESPER_OK);
    assert_null(row);
    query_end(answer);
}

static void row_limit(void **state)
{
    (void)state;
    static struct answer answer;
    const int limits[] = {1, ENVS, ROUNDS * ENVS - 1, ROUNDS * ENVS, 1000};
    for (int i = 0; i < 5; i++) {
        const struct query_options options = {.rows = limits[i]};
        assert_int_equal(ask("select reward from outcome", &options, &answer), ESPER_OK);
        bool fewer = limits[i] < ROUNDS * ENVS;
        assert_int_equal(answer.rows, fewer ? limits[i] : ROUNDS * ENVS);
        assert_int_equal(query_was_cut(query), fewer);
    }
    const struct query_options some = {.rows = 10, .timeout = 5};
    assert_int_equal(ask("select x from " ENDLESS, &some, &answer), ESPER_OK); /* it is not run to its end */
    assert_int_equal(answer.rows, 10);
}

static enum esper_status have_enough(void *context, const struct query_row *row, struct esper_error *problem)
{
    (void)row;
    int *calls = context;
    return ++*calls == 3 ? error_set(problem, ESPER_DIVERGED, "enough") : ESPER_OK;
}

static void callers_may_stop(void **state)
{
    (void)state;
    int calls = 0;
    assert_int_equal(query_run(query, "select x from " ENDLESS, NULL, have_enough, &calls, &error), ESPER_DIVERGED);
    assert_string_equal(error.text, "enough");
    assert_int_equal(calls, 3);
    assert_int_equal(number("select 7"), 7); /* and it goes on */
}

/* ---- functions against brute force ------------------------------------------------------------------------------- */

enum { MOST = 300 };

struct data {
    int count;
    double x[MOST], y[MOST]; /* NAN: NULL */
    char sql[64000];         /* (SELECT column1 x, column2 y FROM (VALUES ...)) */
};

static void put_number(char *sql, size_t *used, double value)
{
    *used += (size_t)(isnan(value) ? sprintf(sql + *used, "NULL") : sprintf(sql + *used, "%.17g", value));
}

static void make_data(struct data *data, int count, uint32_t number_of_set)
{
    struct random_site at = {.seed = 4, .a = number_of_set};
    static const double scales[] = {1, 1e-9, 1e9};
    double scale = scales[number_of_set % 3], shift = number_of_set % 2 ? 1e3 * scale : 0;
    size_t used = (size_t)sprintf(data->sql, "(SELECT column1 x, column2 y, column3 n FROM (VALUES ");
    data->count = count;
    for (int i = 0; i < count; i++) {
        uint32_t word = random_word(at, (uint32_t)(3 * i));
        data->x[i] = word % 7 == 0 ? (double)NAN : shift + scale * (random_word(at, (uint32_t)(3 * i + 1)) % 1000) / 7;
        data->y[i] = word % 5 == 0 ? (double)NAN : random_word(at, (uint32_t)(3 * i + 2)) / 1e9 + data->x[i] / scale;
        used += (size_t)sprintf(data->sql + used, "%s(", i ? "," : "");
        put_number(data->sql, &used, data->x[i]);
        data->sql[used++] = ',';
        put_number(data->sql, &used, data->y[i]);
        used += (size_t)sprintf(data->sql + used, ",%d)", i);
    }
    sprintf(data->sql + used, "))");
}

/* x[from..to] without the missing. */
static int present(const struct data *data, int from, int to, double *out)
{
    int count = 0;
    for (int i = from < 0 ? 0 : from; i <= to && i < data->count; i++)
        if (!isnan(data->x[i]))
            out[count++] = data->x[i];
    return count;
}

static double brute_stddev(const double *x, int count)
{
    long double sum = 0, squares = 0;
    for (int i = 0; i < count; i++)
        sum += (long double)x[i];
    for (int i = 0; i < count; i++)
        squares += ((long double)x[i] - sum / count) * ((long double)x[i] - sum / count);
    return count < 2 ? (double)NAN : (double)sqrtl(squares / (count - 1));
}

static double brute_percentile(double *x, int count, double p)
{
    for (int i = 0; i < count; i++) /* selection sort: as different from qsort as can be */
        for (int j = i + 1; j < count; j++)
            if (x[j] < x[i]) {
                double kept = x[i];
                x[i] = x[j];
                x[j] = kept;
            }
    if (count == 0)
        return (double)NAN;
    double place = p / 100 * (count - 1);
    int below = (int)place, above = below + 1 < count ? below + 1 : below;
    return x[below] + (place - below) * (x[above] - x[below]);
}

static double brute_corr(const struct data *data)
{
    long double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
    for (int i = 0; i < data->count; i++) {
        if (isnan(data->x[i]) || isnan(data->y[i]))
            continue;
        long double a = (long double)data->x[i], b = (long double)data->y[i];
        n++, x += a, y += b, xx += a * a, yy += b * b, xy += a * b;
    }
    long double spread = (n * xx - x * x) * (n * yy - y * y);
    return n < 2 || spread <= 0 ? (double)NAN : (double)((n * xy - x * y) / sqrtl(spread));
}

static double of_data(const struct data *data, const char *expression)
{
    static char sql[QUERY_SQL];
    snprintf(sql, sizeof sql, "SELECT %s FROM %s", expression, data->sql);
    return number(sql);
}

static void functions_agree(void **state)
{
    (void)state;
    static struct data data;
    static const int counts[] = {1, 2, 3, 4, 5, 10, 63, 64, 65, 129, MOST};
    static const double places[] = {0, 1, 10, 25, 50, 99.5, 100};
    for (uint32_t set = 0; set < 33; set++) {
        double x[MOST];
        char expression[64];
        make_data(&data, counts[set % 11], set);
        int count = present(&data, 0, data.count, x);
        assert_near(of_data(&data, "stddev(x)"), brute_stddev(x, count), "stddev");
        assert_near(of_data(&data, "median(x)"), brute_percentile(x, count, 50), "median");
        for (int i = 0; i < 7; i++) {
            snprintf(expression, sizeof expression, "percentile(x, %g)", places[i]);
            assert_near(of_data(&data, expression), brute_percentile(x, count, places[i]), expression);
        }
        double corr = brute_corr(&data), got = of_data(&data, "corr(x, y)");
        if (isnan(corr) ? !isnan(got) : !(fabs(got - corr) < 1e-6))
            fail_msg("corr: %.17g, not %.17g", got, corr);
    }
}

static void functions_over_windows(void **state)
{
    (void)state;
    static struct data data;
    static struct answer deviations, medians;
    static char sql[QUERY_SQL];
    make_data(&data, MOST, 1);
    snprintf(sql, sizeof sql,
             "SELECT stddev(x) OVER (ORDER BY n ROWS BETWEEN 20 PRECEDING AND 3 FOLLOWING) FROM %s ORDER BY n",
             data.sql);
    must_ask(sql, &deviations);
    snprintf(sql, sizeof sql, "SELECT percentile(x, 30) OVER (ORDER BY n ROWS 4 PRECEDING) FROM %s ORDER BY n",
             data.sql);
    must_ask(sql, &medians);
    assert_int_equal(deviations.rows, MOST);
    for (int i = 0; i < MOST; i++) {
        double x[MOST];
        assert_near(deviations.values[i], brute_stddev(x, present(&data, i - 20, i + 3, x)), "stddev over");
        assert_near(medians.values[i], brute_percentile(x, present(&data, i - 4, i, x), 30), "percentile over");
    }
}

static void functions_at_the_edges(void **state)
{
    (void)state;
    static struct answer answer;
    static const char *const nulls[] = {
        "select stddev(x) from (select 1 x)",
        "select stddev(x) from (select null x)",
        "select stddev(x) from (select 1 x where 0)",
        "select median(x) from (select 1 x where 0)",
        "select percentile(x, 5) from (select null x)",
        "select corr(x, 1) from (select 1 x)",
        "select corr(column1, 5) from (values (1), (2), (3))",
        "select stddev(column1) from (values (9e999), (1))",
    };
    for (size_t i = 0; i < sizeof nulls / sizeof nulls[0]; i++) {
        must_ask(nulls[i], &answer);
        assert_int_equal(answer.kind, QUERY_NULL);
    }
    assert_near(number("select corr(column1, column2) from (values (1, -2), (2, -4), (3, -6))"), -1, "corr");
    assert_near(number("select median(column1) from (values (-9e999), (1), (9e999))"), 1, "median");
    assert_near(number("select percentile(column1, 75) from (values (1e308), (-1e308), (1e308))"), 1e308, "percentile");
    assert_near(number("select max(m) from (select median(reward) m from outcome group by round)"), 51.5, "groups");
    assert_near(number("select median(x) from (select '3' x union all select 5)"), 4, "text that is a number");
    assert_int_equal(ask("select median(x) from (select 'red' x)", NULL, &answer), ESPER_INVALID);
    assert_says(&error, "median: a value is not a number");
    assert_int_equal(ask("select percentile(reward, 100.5) from outcome", NULL, &answer), ESPER_INVALID);
    assert_says(&error, "from 0 to 100");
    assert_int_equal(ask("select percentile(reward, null) from outcome", NULL, &answer), ESPER_INVALID);
    assert_int_equal(ask("select percentile(reward, env) from outcome", NULL, &answer), ESPER_INVALID);
    assert_says(&error, "the same for all rows");
    assert_int_equal(ask("select stddev() from outcome", NULL, &answer), ESPER_INVALID);
}

/* ---- a trainer beside -------------------------------------------------------------------------------------------- */

static struct run live;

static int keep_writing(const void *context)
{
    const int *ready = context;
    struct store *store = NULL;
    if (store_open(&store, &live, NULL) != ESPER_OK)
        return 1;
    for (int round = 0;; round++) {
        if (write_round(store, round) != 0 || (round == 2 && write(ready[1], "x", 1) != 1))
            return 1;
        usleep(500);
    }
}

static void beside_a_writer(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct query *reader = NULL, *kept = query;
    int ready[2];
    char byte;
    create_run(&live, "live", &config);
    assert_int_equal(pipe(ready), 0);
    pid_t writer = start_child(keep_writing, ready);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(query_open(&reader, &live, &error), ESPER_OK);
    query = reader;
    double last = 0, first = number("select count(*) from round");
    for (int i = 0; i < 200 || last < first + 5; i++) {
        double rounds = number("select count(*) from round");
        assert_true(rounds >= last && rounds >= 3);
        assert_true(number("select count(*) % 4 from outcome") == 0); /* whole rounds */
        last = rounds;
        usleep(100);
    }
    assert_int_equal(query_hold(reader, &error), ESPER_OK); /* one moment, and the trainer goes on */
    double held = number("select count(*) from round");
    usleep(50000);
    assert_true(number("select count(*) from round") == held);
    query_close(reader);
    assert_int_equal(query_open(&reader, &live, &error), ESPER_OK);
    query = reader;
    assert_true(number("select count(*) from round") > held);
    kill(writer, SIGKILL);
    assert_int_equal(exit_code(writer), 128 + SIGKILL);
    assert_true(number("select max(round) + 1 - count(*) from round") == 0); /* crashed: all that was written */
    query_close(reader);
    query = kept;
    close(ready[0]);
    close(ready[1]);
    run_close(&live);
}

static void tables_are_found(void **state)
{
    (void)state;
    assert_int_equal(query_find_table(query, "round", &error), ESPER_OK);
    assert_int_equal(query_find_table(query, "Outcom", &error), ESPER_INVALID);
    assert_says(&error, "did you mean \"outcome\"?");
    assert_int_equal(query_find_table(query, "sqlite_master", &error), ESPER_INVALID);
    assert_int_equal(query_find_table(query, "", &error), ESPER_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers),
        cmocka_unit_test(names_and_keys),
        cmocka_unit_test(row_limit),
        cmocka_unit_test(callers_may_stop),
        cmocka_unit_test(functions_agree),
        cmocka_unit_test(functions_over_windows),
        cmocka_unit_test(functions_at_the_edges),
        cmocka_unit_test(beside_a_writer),
        cmocka_unit_test(tables_are_found),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
