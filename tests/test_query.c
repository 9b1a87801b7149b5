/* Questions to a record: right answers, functions that agree with brute force, and nothing but reading. */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>

#include "base/clock.h"
#include "base/philox.h"
#include "telemetry/query.h"
#include "telemetry/store_schema.h"
#include "testing_runs.h"

static struct esper_error error;
static struct run run;
static struct query *query;

enum { ROUNDS = 6, ENVS = 4 };

static int write_round(struct store *store, int round)
{
    struct outcome_record outcomes[ENVS] = {0};
    struct round_report report = {.outcomes = outcomes, .outcome_count = ENVS};
    report.round.round = round;
    report.round.seconds = round == 2 ? (double)NAN : 0.5 * round;
    for (int env = 0; env < ENVS; env++) {
        outcomes[env].round = round;
        outcomes[env].env = env;
        outcomes[env].reward = round * 10 + env;
    }
    return store_round(store, &report, NULL) == ESPER_OK ? 0 : 1;
}

static int set_up(void **state)
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
    sqlite3_exec(store_sql(store), "CREATE VIEW evil AS SELECT load_extension('x')", NULL, NULL, NULL);
    sqlite3_exec(store_sql(store),
                 "CREATE VIEW endless AS WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 "
                 "FROM t) SELECT x FROM t",
                 NULL, NULL, NULL);
    store_close(store);
    return query_open(&query, &run, &error) == ESPER_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    query_close(query);
    run_close(&run);
    return folder_clear(state);
}

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

/* What an answer was: how many rows, and the numbers of the first column. */
struct answer {
    int heads, rows, columns;
    enum query_kind kind; /* of the first value */
    double values[4096];
    char text[256]; /* the first value, if it is one */
};

static enum esper_status keep(void *context, const struct query_row *row, struct esper_error *problem)
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

static enum esper_status ask(const char *sql, const struct query_options *options, struct answer *answer)
{
    *answer = (struct answer){0};
    error.text[0] = '\0';
    return query_run(query, sql, options, keep, answer, &error);
}

static void must_ask(const char *sql, struct answer *answer)
{
    if (ask(sql, NULL, answer) != ESPER_OK)
        fail_msg("%s: %s", sql, error.text);
    assert_int_equal(answer->heads, 1);
}

static double number(const char *sql)
{
    static struct answer answer;
    must_ask(sql, &answer);
    assert_int_equal(answer.rows, 1);
    return answer.values[0];
}

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
    assert_int_equal(ask("select x from endless", &some, &answer), ESPER_OK); /* it is not run to its end */
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
    assert_int_equal(query_run(query, "select x from endless", NULL, have_enough, &calls, &error), ESPER_DIVERGED);
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
    for (int i = 0; i < count; i++) /* selection sort: as far from qsort as can be */
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

/* ---- hostile questions ------------------------------------------------------------------------------------------- */

static const struct hostile {
    const char *sql, *says;
} hostile[] = {
    {"delete from round", "a change to the record"},
    {"DELETE FROM outcome WHERE env = 1 RETURNING *", "a change"},
    {"insert into round (round) values (99)", "a change"},
    {"replace into round (round) values (1)", "a change"},
    {"update round set seconds = 0", "a change"},
    {"with x as (select 1) delete from round", "a change"},
    {"drop table round", "a change"},
    {"alter table round add column x", "a change"},
    {"create table t (x)", "a change"},
    {"create temp table t as select 1", "a change"},
    {"create temp view v as select 1", "a change"},
    {"create temp trigger t after insert on round begin select 1; end", "a change"},
    {"create index i on round (seconds)", "a change"},
    {"create virtual table v using fts5 (x)", "a change"},
    {"create virtual table temp.v using rtree (a, b, c)", "a change"},
    {"explain delete from round", "a change"},
    {"vacuum", "a change"},
    {"vacuum into 'stolen.db'", "a change"},
    {"analyze", "a change"},
    {"reindex", "a change"},
    {"update sqlite_master set sql = 'x'", "may not be modified"},
    {"delete from sqlite_master", "may not be modified"},
    {"begin", "a transaction"},
    {"commit", "a transaction"},
    {"savepoint x", "a transaction"},
    {"attach 'stolen.db' as s", "ATTACH"},
    {"attach ':memory:' as s", "ATTACH"},
    {"detach main", "DETACH"},
    {"pragma writable_schema = 1", "PRAGMA writable_schema"},
    {"pragma journal_mode = delete", "PRAGMA journal_mode"},
    {"pragma query_only = 0", "PRAGMA query_only"},
    {"pragma trusted_schema = 1", "PRAGMA trusted_schema"},
    {"pragma user_version = 9", "PRAGMA user_version"},
    {"pragma wal_checkpoint(truncate)", "PRAGMA wal_checkpoint"},
    {"pragma temp_store_directory = '/tmp'", "PRAGMA temp_store_directory"},
    {"pragma hard_heap_limit = 0", "PRAGMA hard_heap_limit"},
    {"select * from pragma_database_list", "refused"},
    {"select * from pragma_compile_options", "refused"},
    {"select load_extension('/tmp/x.so')", "the function load_extension"},
    {"select * from evil", "load_extension"},
    {"select fts3_tokenizer('simple')", "the function fts3_tokenizer"},
    {"select rtreecheck('round')", "the function rtreecheck"},
    {"select sqlite_compileoption_get(1)", "the function sqlite_compileoption_get"},
    {"select readfile('/etc/passwd')", "no such function"},
    {"select writefile('x', 'y')", "no such function"},
    {"select edit('x')", "no such function"},
    {"select * from dbstat", "no such table"},
    {"select * from sqlite_stmt", "no such table"},
    {"select zeroblob(1000000000)", "too long"},
    {"select hex(randomblob(100000))", "too long"},
    {"select 1; select 2", "more than one statement"},
    {"select 1; delete from round", "more than one statement"},
    {"select 1; nonsense", "more than one statement"},
    {"", "empty"},
    {" ;;  ", "empty"},
    {";;select 1;;/* */; delete from round", "more than one statement"},
    {"-- only a remark", "empty"},
    {"select", "incomplete"},
    {"select 'unfinished", "unrecognized token"},
    {"select (1", "incomplete"},
    {"select round from round where", "incomplete"},
    {"select ?", "too many SQL variables"},
    {"select :name", "too many SQL variables"},
    {"selct 1", "syntax error"},
    {"select \"a\nb\x1b[2J\" from round limit 'x'", ""},
    {"select sconds from round", "did you mean \"seconds\""},
    {"select o.rewrd from outcome o", "did you mean \"reward\""},
    {"select * from rond", "did you mean \"round\""},
    {"select medin(reward) from outcome", "did you mean \"median\""},
};

static void refused(void **state)
{
    (void)state;
    static struct answer answer;
    const struct query_options options = {.timeout = 5};
    double before = number("select total(reward) + total(seconds) from outcome, round");
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        if (ask(hostile[i].sql, &options, &answer) != ESPER_INVALID)
            fail_msg("%s: not refused", hostile[i].sql);
        assert_int_equal(answer.rows, 0);
        assert_says(&error, hostile[i].says);
        assert_null(strchr(error.text, '\x1b'));
    }
    assert_true(number("select total(reward) + total(seconds) from outcome, round") == before);
    assert_int_equal(access("stolen.db", F_OK), -1);
    assert_int_equal(access("x", F_OK), -1);
}

static void limits(void **state)
{
    (void)state;
    static struct answer answer;
    static char sql[QUERY_SQL + 100];
    const struct query_options options = {.timeout = 5};
    memset(sql, ' ', sizeof sql - 1);
    memcpy(sql, "select 1", 8);
    assert_int_equal(ask(sql, &options, &answer), ESPER_INVALID);
    assert_says(&error, "too long");
    size_t used = (size_t)sprintf(sql, "select 1");
    for (int i = 0; i < 300; i++)
        used += (size_t)sprintf(sql + used, " + 1");
    assert_int_equal(ask(sql, &options, &answer), ESPER_INVALID);
    assert_says(&error, "depth");
    used = (size_t)sprintf(sql, "select 1");
    for (int i = 0; i < 1100; i++)
        used += (size_t)sprintf(sql + used, ", 1");
    assert_int_equal(ask(sql, &options, &answer), ESPER_INVALID);
    assert_says(&error, "too many columns");
    used = (size_t)sprintf(sql, "select 1");
    for (int i = 0; i < 60; i++)
        used += (size_t)sprintf(sql + used, " union all select 1");
    assert_int_equal(ask(sql, &options, &answer), ESPER_INVALID);
    assert_says(&error, "too many terms");
}

static void endless_questions_end(void **state)
{
    (void)state;
    static struct answer answer;
    static const char *const endless[] = {
        "select max(x) from endless",
        "select x from endless where x < 0",
        "select x from endless",
        "select count(*) from endless a, endless b",
        "with recursive t(x) as (select randomblob(1000) union select randomblob(1000) from t) select count(*) from t",
        "select median(x) from endless",
        "select count(*) from outcome a, outcome b, outcome c, outcome d, outcome e, outcome f, outcome g",
        "with recursive t(x) as (select 'a' union all select x || 'a' from t where length(x) < 60000) select sum("
        "instr(x, 'b')) from t",
    };
    for (size_t i = 0; i < sizeof endless / sizeof endless[0]; i++) {
        const struct query_options options = {.timeout = 0.2};
        double start = clock_seconds();
        if (ask(endless[i], &options, &answer) != ESPER_FAILED)
            fail_msg("%s: %s", endless[i], error.text);
        assert_says(&error, "given up after 0.2 s");
        assert_true(clock_seconds() - start < 10); /* much less, but the machine may be busy */
    }
    assert_int_equal(number("select 1"), 1);
}

static volatile sig_atomic_t stop;

static void *stop_soon(void *unused)
{
    usleep(100000);
    stop = 1;
    return unused;
}

static void questions_can_be_stopped(void **state)
{
    (void)state;
    static struct answer answer;
    const struct query_options options = {.timeout = 60, .stop = &stop};
    pthread_t thread;
    stop = 0;
    double start = clock_seconds();
    assert_int_equal(pthread_create(&thread, NULL, stop_soon, NULL), 0);
    assert_int_equal(ask("select max(x) from endless", &options, &answer), ESPER_INTERRUPTED);
    pthread_join(thread, NULL);
    assert_true(clock_seconds() - start < 30);
    assert_says(&error, "interrupted");
}

static void memory_is_limited(void **state)
{
    (void)state;
    static struct answer answer;
    if (!getenv("ESPER_SOAK"))
        skip();
    const struct query_options options = {.timeout = 60};
    assert_int_equal(ask("select x, randomblob(100000) r from endless order by r", &options, &answer), ESPER_FAILED);
    assert_says(&error, "1024 MiB");
    assert_int_equal(number("select 1"), 1);
}

/* ---- mutated questions ------------------------------------------------------------------------------------------- */

/* Pieces put together at random, now and then with a damaged byte: something valid comes out often enough. */
static size_t mutate(char *sql, size_t size, uint32_t turn)
{
    // clang-format off
    static const char *const pieces[] = {
        "select ", " from ", "round", "outcome", "reward", "*", "(", ")", ",", " where ", "=", "<", "1", "0.5",
        "'a'", "null", "median(", "stddev(reward)", "percentile(reward, 50)", "corr(reward, env)", "count(*)",
        " group by env", " order by 1", " limit 3", " union ", " union all ",
        "with recursive t(x) as (select 1 union all select x + 1 from t) ", " join ", "x", "t", "endless",
        "randomblob(1000)", "zeroblob(99999)", "hex(", " over ()", " over (order by round rows 2 preceding)",
        "json_each('[1]')", "pragma_table_info('run')", "pragma ", "delete ", "insert into ", "attach ", ";", "--",
        "/*", "\"", "'", "`", "[", "]", "||", "->>", "evil", "cast(", " as ", "case when ", " then ", " end",
        "explain ", " filter (where env)", "values (1, 2)", "sqlite_master", "like", "%",
    };
    // clang-format on
    struct random_site at = {.seed = 77, .a = turn};
    uint32_t draw = 0, count = random_word(at, draw++) % 8;
    size_t used = 0;
    static const char *const sound[] = {
        "select median(reward) over (partition by env order by round rows 2 preceding) from outcome",
        "select env, stddev(reward), corr(reward, round) from outcome group by env having count(*) > 2 order by 2 desc",
        "select r.round, percentile(o.reward, 90) from round r join outcome o using (round) group by 1",
        "select json_extract(configuration, '$.envs'), upper(name) from run where task like '%m%'",
        "with t(x) as (select reward from outcome) select (select avg(x) from t) - median(x) from t",
    };
    switch (random_word(at, draw++) % 4) {
    case 0:
        break; /* from nothing */
    case 1:
        used = (size_t)snprintf(sql, size, "%s", hostile[turn % (sizeof hostile / sizeof hostile[0])].sql);
        break;
    default:
        used = (size_t)snprintf(sql, size, "%s", sound[turn % 5]);
        break;
    }
    for (uint32_t i = 0; i < count && used + 200 < size; i++) {
        const char *piece = pieces[random_word(at, draw++) % (sizeof pieces / sizeof pieces[0])];
        size_t length = strlen(piece), where = used ? random_word(at, draw++) % (used + 1) : 0;
        where = random_word(at, draw++) % 2 ? used : where;
        memmove(sql + where + length, sql + where, used - where);
        memcpy(sql + where, piece, length);
        used += length;
    }
    if (used && random_word(at, draw++) % 3 == 0) {
        size_t where = random_word(at, draw++) % used;
        sql[where] = (char)random_word(at, draw++);
    }
    sql[used] = '\0';
    return used;
}

static void mutants(void **state)
{
    (void)state;
    static struct answer answer;
    static char sql[4096];
    const char *text = getenv("ESPER_FUZZ");
    long turns = text ? atol(text) : 10000, answered = 0;
    double before = number("select total(reward) + total(seconds) from outcome, round");
    for (long turn = 0; turn < turns; turn++) {
        const struct query_options options = {.timeout = 0.005, .rows = 100};
        mutate(sql, sizeof sql, (uint32_t)turn);
        enum esper_status status = ask(sql, &options, &answer);
        if (status == ESPER_OK)
            answered++;
        else if (status != ESPER_INVALID && status != ESPER_FAILED)
            fail_msg("%s: status %d", sql, status);
        if (status != ESPER_OK && (!*error.text || strchr(error.text, '\n')))
            fail_msg("%s: \"%s\"", sql, error.text);
    }
    assert_true(answered > turns / 200);
    assert_true(number("select total(reward) + total(seconds) from outcome, round") == before);
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
    assert_int_equal(query_find_table(query, "evil", &error), ESPER_OK); /* a view */
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
        cmocka_unit_test(refused),
        cmocka_unit_test(limits),
        cmocka_unit_test(endless_questions_end),
        cmocka_unit_test(questions_can_be_stopped),
        cmocka_unit_test(memory_is_limited),
        cmocka_unit_test(mutants),
        cmocka_unit_test(beside_a_writer),
        cmocka_unit_test(tables_are_found),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
