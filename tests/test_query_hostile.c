/* Queries that do more than read, or never end: refused or abandoned, whatever they look like. */
#include <pthread.h>
#include <signal.h>

#include "base/clock.h"
#include "base/philox.h"
#include "testing_query.h"

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
        "select max(x) from " ENDLESS,
        "select x from " ENDLESS " where x < 0",
        "select x from " ENDLESS,
        "select count(*) from " ENDLESS " a, " ENDLESS " b",
        "with recursive t(x) as (select randomblob(1000) union select randomblob(1000) from t) select count(*) from t",
        "select median(x) from " ENDLESS,
        "select count(*) from outcome a, outcome b, outcome c, outcome d, outcome e, outcome f, outcome g",
        "with recursive t(x) as (select 'a' union all select x || 'a' from t where length(x) < 60000) select sum("
        "instr(x, 'b')) from t",
    };
    for (size_t i = 0; i < sizeof endless / sizeof endless[0]; i++) {
        const struct query_options options = {.timeout = 0.2};
        double start = clock_seconds();
        if (ask(endless[i], &options, &answer) != ESPER_FAILED)
            fail_msg("%s: %s", endless[i], error.text);
        assert_says(&error, "abandoned after 0.2 s");
        assert_true(clock_seconds() - start < 2 * patience());
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
    assert_int_equal(ask("select max(x) from " ENDLESS, &options, &answer), ESPER_INTERRUPTED);
    pthread_join(thread, NULL);
    assert_true(clock_seconds() - start < 6 * patience());
    assert_says(&error, "interrupted");
}

static void memory_is_limited(void **state)
{
    (void)state;
    static struct answer answer;
    if (!getenv("ESPER_SOAK"))
        skip();
    const struct query_options options = {.timeout = 60};
    assert_int_equal(ask("select x, randomblob(100000) r from " ENDLESS " order by r", &options, &answer),
                     ESPER_FAILED);
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
        "with recursive t(x) as (select 1 union all select x + 1 from t) ", " join ", "x", "t",
        "randomblob(1000)", "zeroblob(99999)", "hex(", " over ()", " over (order by round rows 2 preceding)",
        "json_each('[1]')", "pragma_table_info('run')", "pragma ", "delete ", "insert into ", "attach ", ";", "--",
        "/*", "\"", "'", "`", "[", "]", "||", "->>", "cast(", " as ", "case when ", " then ", " end",
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused),
        cmocka_unit_test(limits),
        cmocka_unit_test(endless_questions_end),
        cmocka_unit_test(questions_can_be_stopped),
        cmocka_unit_test(memory_is_limited),
        cmocka_unit_test(mutants),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
