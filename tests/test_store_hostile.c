/* Records made by somebody else: what a schema may hold, files that are not files, and tables without an end. Each is
 * refused, or given up in time, by readers and by the trainer alike. */
#include <sys/stat.h>

#include "base/clock.h"
#include "telemetry/cohort.h"
#include "telemetry/query.h"
#include "testing_record.h"

static struct esper_error error;
static struct run run;
static char path[PATH_MAX + 32];

static void make_record(const char *name)
{
    struct config config = sample_config();
    create_run(&run, name, &config);
    snprintf(path, sizeof path, "%s/telemetry.db", run.path);
    struct store *store = must_open(&run);
    for (int i = 0; i < 3; i++)
        write_round(store, i);
    store_close(store);
}

static void change(const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
}

static void refused(const char *says)
{
    struct store *store = NULL;
    struct query *query = NULL;
    struct cohort cohort;
    double begun = clock_seconds();
    assert_int_equal(store_open(&store, &run, &error), ESPER_INVALID);
    assert_says(&error, says);
    assert_int_equal(query_open(&query, &run, &error), ESPER_INVALID);
    assert_says(&error, says);
    assert_int_equal(cohort_load(&cohort, folder, run.path, &error), ESPER_INVALID);
    assert_says(&error, says);
    assert_says(&error, "telemetry.db");
    assert_null(strchr(error.text, '\n'));
    assert_true(clock_seconds() - begun < 2 * patience());
}

/* ---- the schema -------------------------------------------------------------------------------------------------- */

#define ENDLESS "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) "

static void only_tables(void **state)
{
    (void)state;
    static const struct {
        const char *sql, *says;
    } cases[] = {
        {"DROP TABLE outcome; CREATE VIEW outcome AS " ENDLESS
         "SELECT x AS round, x AS env, x AS reward, x AS val_accuracy FROM t",
         "holds a view \"outcome\", which no Esper writes"},
        {"CREATE VIEW harmless AS SELECT 1", "holds a view \"harmless\""},
        {"CREATE TRIGGER slow AFTER DELETE ON round BEGIN SELECT (" ENDLESS "SELECT count(*) FROM t); END",
         "holds a trigger \"slow\""},
        {"CREATE TRIGGER slow BEFORE INSERT ON outcome BEGIN DELETE FROM round; END", "holds a trigger \"slow\""},
        {"CREATE VIRTUAL TABLE words USING fts5(x)", "holds a virtual table \"words\""},
        {"CREATE INDEX places ON outcome (abs(reward))", "holds an index \"places\""},
        {"ALTER TABLE outcome ADD COLUMN worth REAL AS (reward * 2)", "holds a computed column \"outcome.worth\""},
        {"CREATE VIEW \"a\033[2Jb\" AS SELECT 1", "holds a view \"a?[2Jb\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[16];
        snprintf(name, sizeof name, "schema%zu", i);
        make_record(name);
        change(cases[i].sql);
        refused(cases[i].says);
        run_close(&run);
    }
    make_record("plain"); /* a table of one's own does nothing by itself */
    change("CREATE TABLE mine (x TEXT PRIMARY KEY); INSERT INTO mine VALUES ('y')");
    struct store *store = must_open(&run);
    write_round(store, 3);
    store_close(store);
    run_close(&run);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void only_files(void **state)
{
    (void)state;
    static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
    char file[PATH_MAX + 64], name[16];
    make_record("files");
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "kept%d", i);
        snprintf(file, sizeof file, "%s%s", path, endings[i]);
        rename(file, in_folder(name)); /* the record itself; the others are not there */
        assert_int_equal(mkfifo(file, 0600), 0);
        refused("is a pipe, not a file");
        assert_int_equal(unlink(file), 0);
        assert_int_equal(symlink(in_folder("plain/telemetry.db"), file), 0);
        refused("is a symbolic link, not a file");
        assert_int_equal(unlink(file), 0);
        assert_int_equal(mkdir(file, 0700), 0);
        refused("is a directory, not a file");
        assert_int_equal(rmdir(file), 0);
        rename(in_folder(name), file);
    }
    run_close(&run);
}

/* SQLite removes the file that such a journal names, once it has rolled back. */
static void journals_name_nothing(void **state)
{
    (void)state;
    static const unsigned char ending[] = {0, 0, 0, 1, 0, 0, 0, 'x', 0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};
    char file[PATH_MAX + 64];
    make_record("journal");
    snprintf(file, sizeof file, "%s-journal", path);
    put_file(file, ending, sizeof ending);
    struct store *store = NULL;
    assert_int_equal(store_open(&store, &run, &error), ESPER_INVALID);
    assert_says(&error, "is the journal of another program");
    unlink(file);
    run_close(&run);
}

/* ---- tables without an end --------------------------------------------------------------------------------------- */

enum { PAGE = 8192, LEVELS = 10, CELLS = 400 };

static void put4(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (24 - 8 * i));
}

static const unsigned char content[] = {5, 3, 1, 1, 0, 0}; /* five bytes: two integers, both 0 */

/* An inner page of an index whose children are all the same page. */
static void fill_page(unsigned char page[PAGE], uint32_t child)
{
    memset(page, 0, PAGE);
    int start = PAGE - CELLS * 10;
    page[0] = 2;
    page[3] = CELLS >> 8, page[4] = CELLS & 255;
    page[5] = (unsigned char)(start >> 8), page[6] = (unsigned char)start;
    put4(page + 8, child);
    for (int i = 0; i < CELLS; i++) {
        int at = start + 10 * i;
        page[12 + 2 * i] = (unsigned char)(at >> 8), page[13 + 2 * i] = (unsigned char)at;
        put4(page + at, child);
        memcpy(page + at + 4, content, sizeof content);
    }
}

/* 400^10 rows in ten pages. */
static void make_endless(void)
{
    static unsigned char page[PAGE];
    sqlite3 *db;
    sqlite3_stmt *query;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT rootpage FROM sqlite_master WHERE name = 'outcome'", -1, &query, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(query), SQLITE_ROW);
    long root = sqlite3_column_int(query, 0);
    sqlite3_finalize(query);
    sqlite3_close(db);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    uint32_t pages = (uint32_t)(ftell(file) / PAGE);
    for (uint32_t level = 0; level < LEVELS; level++) {
        fill_page(page, pages + level + 1); /* pages are counted from 1: the first of the new ones */
        fseek(file, level ? (long)(pages + level - 1) * PAGE : (root - 1) * PAGE, SEEK_SET);
        assert_int_equal(fwrite(page, PAGE, 1, file), 1);
    }
    memset(page, 0, PAGE);
    page[0] = 10; /* the one leaf, with one row */
    page[4] = 1;
    page[5] = page[8] = (PAGE - 8) >> 8, page[6] = page[9] = (PAGE - 8) & 255;
    memcpy(page + PAGE - 8, content, sizeof content);
    fseek(file, (long)(pages + LEVELS - 1) * PAGE, SEEK_SET);
    assert_int_equal(fwrite(page, PAGE, 1, file), 1);
    unsigned char count[4];
    put4(count, pages + LEVELS);
    fseek(file, 28, SEEK_SET);
    assert_int_equal(fwrite(count, 4, 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

static enum esper_status ignore(void *context, const struct query_row *row, struct esper_error *problem)
{
    (void)context, (void)row, (void)problem;
    return ESPER_OK;
}

static void deadlines_hold(void **state)
{
    (void)state;
    const struct query_options soon = {.timeout = 0.3};
    struct query *query;
    struct cohort cohort;
    make_record("endless");
    make_endless();
    double begun = clock_seconds();
    assert_int_equal(cohort_load_within(&cohort, folder, run.path, &soon, &error), ESPER_FAILED);
    assert_says(&error, "does not answer in time");
    assert_int_equal(query_open(&query, &run, &error), ESPER_OK);
    assert_int_equal(query_run(query, "select count(*) from outcome", &soon, ignore, NULL, &error), ESPER_FAILED);
    assert_says(&error, "abandoned after 0.3 s");
    assert_int_equal(query_run(query, "select max(reward) from outcome", &soon, ignore, NULL, &error), ESPER_FAILED);
    query_bound(query, 0.3, NULL); /* for all questions, whatever each allows */
    assert_int_equal(query_run(query, "select count(*) from outcome", NULL, ignore, NULL, &error), ESPER_FAILED);
    assert_says(&error, "does not answer in time");
    assert_int_equal(query_run(query, "select sum(reward) from outcome", NULL, ignore, NULL, &error), ESPER_FAILED);
    query_close(query);
    assert_true(clock_seconds() - begun < 6 * patience());
    run_close(&run);
}

/* Counting row by row counts the same. */
static void counts_are_right(void **state)
{
    (void)state;
    static const struct {
        const char *sql;
        int64_t value;
    } cases[] = {
        {"select count(*) from round", 3},
        {"select count(*) from round where round < 0", 0},
        {"select count(x) from (select 1 as x union all select null)", 1},
        {"select count(distinct x) from (select 1 as x union all select 1 union all select 2)", 2},
        {"select max(n) from (select count(*) over (order by round rows 1 preceding) as n from round)", 2},
        {"select count(*) filter (where round > 0) from round", 2},
    };
    struct query *query;
    make_record("counted");
    assert_int_equal(query_open(&query, &run, &error), ESPER_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct query_answer *answer;
        const struct query_row *row;
        if (query_ask(query, cases[i].sql, NULL, &answer, &error) != ESPER_OK)
            fail_msg("%s: %s", cases[i].sql, error.text);
        assert_int_equal(query_next(answer, &row, &error), ESPER_OK);
        assert_int_equal(row->values[0].integer, cases[i].value);
        query_end(answer);
    }
    query_close(query);
    run_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_tables),    cmocka_unit_test(only_files),       cmocka_unit_test(journals_name_nothing),
        cmocka_unit_test(deadlines_hold), cmocka_unit_test(counts_are_right),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
