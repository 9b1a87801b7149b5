/* Records of earlier versions: columns and tables that came later are missing in them, not a reason to refuse them. */
#include "telemetry/cohort.h"
#include "telemetry/dump.h"
#include "testing_grown.h"
#include "testing_record.h"
#include "view/questions.h"
#include "view/tui_data.h"

static struct esper_error error;
static const struct grown usual = {
    .rounds = 4, .envs = 3, .steps = 8, .detailed = 4, .blueprint = "norm", .command = "esper train"};

/* The record of an older Esper that knew neither the columns that can be missing nor the table `drops`. */
static void make_older(const struct run *run)
{
    char path[PATH_MAX + 16], sql[160];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/telemetry.db", run->path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++)
        for (int i = 0; i < store_layouts[kind].count; i++) {
            const struct store_column *column = &store_layouts[kind].columns[i];
            snprintf(sql, sizeof sql, "ALTER TABLE %s DROP COLUMN %s", store_layouts[kind].name, column->name);
            if (column->type != COLUMN_INTEGER && !is_key((enum record_kind)kind, column->name))
                assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
        }
    assert_int_equal(sqlite3_exec(db, "DROP TABLE drops", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static enum esper_status take_row(void *context, const struct query_row *row, struct esper_error *trouble)
{
    (void)trouble;
    *(int *)context += row->values != NULL;
    return ESPER_OK;
}

static void every_question_is_answered(void **state)
{
    (void)state;
    struct run run;
    struct query *query;
    const struct question_values all = question_all();
    int rows = 0;
    grow_run(&run, "asked", &usual);
    make_older(&run);
    assert_int_equal(query_open(&query, &run, &error), ESPER_OK);
    for (int i = 0; i < question_count; i++)
        if (question_run(query, questions[i].name, &all, NULL, take_row, &rows, &error) != ESPER_OK)
            fail_msg("%s: %s", questions[i].name, error.text);
    assert_true(rows > 50);
    query_close(query);
    run_close(&run);
}

static void every_viewer_shows_it(void **state)
{
    (void)state;
    struct run run;
    struct tui_data data;
    struct tui_choice choice = {0};
    char *text = NULL;
    size_t bytes;
    grow_run(&run, "seen", &usual);
    make_older(&run);
    tui_data_open(&data, &run);
    for (int screen = SCREEN_OVERVIEW; screen <= SCREEN_LAST; screen++) {
        choice.screen = (enum tui_screen)screen;
        tui_load(&data, &choice);
        assert_string_equal(data.trouble, "");
    }
    tui_data_close(&data);
    FILE *file = open_memstream(&text, &bytes);
    assert_int_equal(dump_jsonl(&run, file, &error), ESPER_OK);
    assert_int_equal(dump_csv(&run, "outcome", file, &error), ESPER_OK);
    fclose(file);
    assert_non_null(strstr(text, "\"val_accuracy_mean\":null"));
    assert_non_null(strstr(text, "round,env,val_accuracy,")); /* in the place that it has today */
    free(text);
    struct cohort cohort;
    assert_int_equal(cohort_load(&cohort, folder, "seen", &error), ESPER_OK);
    assert_int_equal(cohort.episodes, usual.rounds * usual.envs);
    assert_true(isnan(cohort.runs[0].outcomes[0].test_accuracy) && cohort.runs[0].outcomes[0].host_params > 0);
    cohort_free(&cohort);
    run_close(&run);
}

/* What is written from then on is whole; what was there keeps what it has. */
static void a_run_that_goes_on_gets_them(void **state)
{
    (void)state;
    struct run run;
    struct config config = sample_config();
    static struct record_row rows[2 * RECORD_KIND_COUNT];
    create_run(&run, "resumed", &config);
    struct store *store = must_open(&run);
    for (int kind = 0; kind < 2 * RECORD_KIND_COUNT; kind++)
        fill_row(&rows[kind], (enum record_kind)(kind % RECORD_KIND_COUNT), kind < RECORD_KIND_COUNT ? 1000 : 2000,
                 false, 0);
    must_write(store, rows, RECORD_KIND_COUNT);
    store_close(store);
    make_older(&run);
    run.config.rounds = 77; /* it was given more */
    store = must_open(&run);
    must_write(store, rows + RECORD_KIND_COUNT, RECORD_KIND_COUNT);
    store_close(store);
    store = must_read(&run);
    assert_int_equal(query_number(store, "SELECT json_extract(configuration, '$.rounds') FROM run"), 77);
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++)
        for (int i = 0; i < store_layouts[kind].count; i++) {
            const char *table = store_layouts[kind].name, *column = store_layouts[kind].columns[i].name;
            bool kept = store_layouts[kind].columns[i].type == COLUMN_INTEGER || is_key((enum record_kind)kind, column);
            char sql[200];
            int old = kind == RECORD_DROPS ? 0 : kept ? 1 : 0; /* the whole table was gone */
            snprintf(sql, sizeof sql, "SELECT count(%s) FROM %s", column, table);
            if (query_number(store, sql) != 1 + old)
                fail_msg("%s.%s: %lld rows have it", table, column, (long long)query_number(store, sql));
        }
    store_close(store);
    run_close(&run);
}

static void what_is_never_missing(void **state)
{
    (void)state;
    struct run run;
    struct config config = sample_config();
    struct store *store;
    char path[PATH_MAX + 16];
    sqlite3 *db;
    create_run(&run, "hollow", &config);
    store_close(must_open(&run));
    snprintf(path, sizeof path, "%s/telemetry.db", run.path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "ALTER TABLE outcome DROP COLUMN live", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(store_open_reader(&store, &run, &error), ESPER_INVALID);
    assert_says(&error, "the record lacks the column outcome.live");
    assert_int_equal(store_open(&store, &run, &error), ESPER_INVALID);
    assert_says(&error, "the record lacks the column outcome.live");
    run_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_question_is_answered),
        cmocka_unit_test(every_viewer_shows_it),
        cmocka_unit_test(a_run_that_goes_on_gets_them),
        cmocka_unit_test(what_is_never_missing),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
