/* The record as text: what is written is read back and compared, value by value. */
#include <float.h>
#include <math.h>
#include <sqlite3.h>

#include "base/json.h"
#include "telemetry/dump.h"
#include "telemetry/trace.h"
#include "testing_runs.h"

static struct esper_error error;
static struct run run;

/* Tables that the store does not know, with every text that is hard to write. */
static const char *const extra =
    "CREATE TABLE walk (round INTEGER NOT NULL, step INTEGER NOT NULL, env INTEGER NOT NULL, note TEXT, x REAL, "
    "PRIMARY KEY (round, step, env)) STRICT, WITHOUT ROWID;"
    "INSERT INTO walk VALUES (1, 1, 0, 'comma, \"quotes\"', 0.1), (1, 0, 1, 'two' || char(13, 10) || 'lines', 0.0),"
    "(1, 0, 0, '', 1e308), (0, 7, 0, NULL, NULL), (0, 2, 3, 'gr' || char(252) || 'n ' || char(128512), 9e999),"
    "(0, 2, 1, char(27) || '[2J' || char(1), 5e-324), (2, 0, 0, cast(x'c3' AS TEXT), 3);"
    "CREATE TABLE odd (\"a \"\"b\"\",c\" ANY, \"table\" ANY, \"select\" BLOB) STRICT;"
    "INSERT INTO odd VALUES (9223372036854775807, -9223372036854775808, x'00ff10'), ('plain', NULL, x'');";

static struct store *make_run(struct run *made, const char *name, const char *sql)
{
    struct config config = sample_config();
    struct store *store = NULL;
    create_run(made, name, &config);
    if (store_open(&store, made, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    for (int round = 0; round < 3; round++) {
        const struct record_row rows[] = {
            {RECORD_ROUND, {.round = {.round = round, .seconds = round / 3.0}}},
            {RECORD_OUTCOME, {.outcome = {.round = round, .env = 0, .reward = -1.0 / 3}}},
            {RECORD_OUTCOME, {.outcome = {.round = round, .env = 1, .reward = (double)NAN}}},
        };
        assert_int_equal(store_write(store, rows, 3, &error), ESPER_OK);
    }
    const struct record_row checkpoint = {
        RECORD_CHECKPOINT, {.checkpoint = {.file = "r000002-s000.ckpt", .kind = "periodic", .round = 2}}};
    assert_int_equal(store_write(store, &checkpoint, 1, &error), ESPER_OK);
    char *problem = NULL;
    if (sqlite3_exec(store_sql(store), sql, NULL, NULL, &problem) != SQLITE_OK)
        fail_msg("%s", problem);
    return store;
}

static int set_up(void **state)
{
    if (folder_make(state) != 0)
        return -1;
    store_close(make_run(&run, "dumped", extra));
    return 0;
}

static int tear_down(void **state)
{
    run_close(&run);
    return folder_clear(state);
}

/* ---- reading it back --------------------------------------------------------------------------------------------- */

static char text[1 << 20];
static size_t length;

/* What `write` puts into a file, in `text`. */
static void capture(enum esper_status (*dump)(const struct run *, const char *, FILE *), const struct run *of,
                    const char *table)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    if (dump(of, table, file) != ESPER_OK)
        fail_msg("%s", error.text);
    rewind(file);
    length = fread(text, 1, sizeof text - 1, file);
    text[length] = '\0';
    fclose(file);
}

static enum esper_status as_jsonl(const struct run *of, const char *table, FILE *file)
{
    (void)table;
    return dump_jsonl(of, file, &error);
}

static enum esper_status as_csv(const struct run *of, const char *table, FILE *file)
{
    return dump_csv(of, table, file, &error);
}

static enum esper_status as_trace(const struct run *of, const char *table, FILE *file)
{
    (void)table;
    return dump_trace(of, file, &error);
}

/* A CSV field as defined by RFC 4180, in place; *at moves to the separator, *quoted says whether it was. */
static char *csv_field(char **at, bool *quoted)
{
    char *start = *at, *out = start;
    *quoted = **at == '"';
    if (!*quoted) {
        *at += strcspn(*at, ",\r\n\"");
        assert_int_not_equal(**at, '"');
        return start;
    }
    for (++*at; **at != '"' || (*at)[1] == '"'; ++*at) {
        assert_int_not_equal(**at, '\0');
        *at += **at == '"';
        *out++ = **at;
    }
    ++*at;
    *out = '\0';
    return start;
}

struct csv {
    char *fields[64][64];
    bool quoted[64][64];
    int columns, rows;
};

static void csv_parse(struct csv *csv)
{
    char *at = text;
    for (csv->rows = 0; *at; csv->rows++)
        for (int column = 0;; column++) {
            assert_true(column < 64 && csv->rows < 64);
            csv->fields[csv->rows][column] = csv_field(&at, &csv->quoted[csv->rows][column]);
            char separator = *at;
            *at++ = '\0';
            if (separator == ',')
                continue;
            assert_int_equal(separator, '\r');
            assert_int_equal(*at++, '\n');
            if (csv->rows)
                assert_int_equal(column + 1, csv->columns);
            csv->columns = column + 1;
            break;
        }
}

/* ---- CSV --------------------------------------------------------------------------------------------------------- */

static void csv_comes_back(void **state)
{
    (void)state;
    static struct csv csv;
    capture(as_csv, &run, "walk");
    csv_parse(&csv);
    assert_int_equal(csv.columns, 5);
    assert_int_equal(csv.rows, 8);
    assert_string_equal(csv.fields[0][3], "note");
    static const struct {
        const char *round, *step, *env, *note, *x;
        bool empty_text;
    } rows[] = {
        {"1", "2", "1", "\x1b[2J\x01", "4.94065645841247e-324", false},
        {"1", "2", "3", "gr\xC3\xBCn \xF0\x9F\x98\x80", "inf", false},
        {"1", "7", "0", "", "", false},
        {"2", "0", "0", "", "1e+308", true},
        {"2", "0", "1", "two\r\nlines", "0.0", false},
        {"2", "1", "0", "comma, \"quotes\"", "0.1", false},
        {"3", "0", "0", "\xC3", "3.0", false},
    };
    for (int i = 0; i < 7; i++) {
        char **field = csv.fields[i + 1];
        assert_string_equal(field[0], rows[i].round);
        assert_string_equal(field[1], rows[i].step);
        assert_string_equal(field[2], rows[i].env);
        assert_string_equal(field[3], rows[i].note);
        assert_string_equal(field[4], rows[i].x);
        if (!*rows[i].note)
            assert_int_equal(csv.quoted[i + 1][3], rows[i].empty_text); /* missing is not empty */
    }
    capture(as_csv, &run, "odd");
    csv_parse(&csv);
    assert_string_equal(csv.fields[0][0], "a \"b\",c");
    assert_string_equal(csv.fields[1][0], "9223372036854775807");
    assert_string_equal(csv.fields[1][1], "-9223372036854775808");
    assert_string_equal(csv.fields[1][2], "00ff10");
    assert_string_equal(csv.fields[2][1], "");
    capture(as_csv, &run, "rollback"); /* without rows: the columns alone */
    csv_parse(&csv);
    assert_int_equal(csv.rows, 1);
}

static void unknown_tables(void **state)
{
    (void)state;
    assert_int_equal(dump_csv(&run, "wallk", stdout, &error), ESPER_INVALID);
    assert_says(&error, "no table \"wallk\"; did you mean \"walk\"?");
    assert_int_equal(dump_csv(&run, "x'; drop table run; --", stdout, &error), ESPER_INVALID);
    assert_int_equal(dump_csv(&run, "", stdout, &error), ESPER_INVALID);
}

static void numbers_keep_their_digits(void **state)
{
    (void)state;
    static const double values[] = {0, -0.0, 0.1, 1.0 / 3, 1e15, 1234567890123456.7, 5e-324, DBL_MAX, 1e22, -2.5, 100};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char shown[32];
        dump_real(values[i], shown);
        assert_true(strtod(shown, NULL) == values[i]);
        assert_non_null(strpbrk(shown, ".e"));
    }
    char shown[32];
    dump_real(0.1, shown);
    assert_string_equal(shown, "0.1");
}

/* ---- JSON lines -------------------------------------------------------------------------------------------------- */

/* The next line of `text` as an object, NULL after the last. */
static cJSON *next_line(char **at)
{
    if (!**at)
        return NULL;
    cJSON *object = NULL;
    size_t size = strcspn(*at, "\n");
    assert_int_equal((*at)[size], '\n'); /* whole lines */
    if (json_parse(*at, size, &object, &error) != ESPER_OK)
        fail_msg("%.*s: %s", (int)size, *at, error.text);
    *at += size + 1;
    return object;
}

static void json_lines_come_back(void **state)
{
    (void)state;
    int counts[6] = {0}, line = 0;
    static const char *const tables[] = {"run", "round", "outcome", "checkpoint", "walk", "odd"};
    static const int wanted[] = {1, 3, 6, 1, 7, 2};
    int64_t last_round = -1, last_step = -1;
    capture(as_jsonl, &run, NULL);
    char *at = text;
    for (cJSON *object; (object = next_line(&at)); line++) {
        const char *table;
        int64_t round = -1, step = INT64_MAX;
        assert_string_equal(object->child->string, "table");
        assert_int_equal(json_get_string(object, "table", &table, &error), ESPER_OK);
        assert_true(line > 0 || strcmp(table, "run") == 0);
        for (int i = 0; i < 6; i++)
            counts[i] += strcmp(table, tables[i]) == 0;
        if (json_find(object, "round"))
            assert_int_equal(json_get_integer(object, "round", 1, 99, &round, &error), ESPER_OK);
        if (strcmp(table, "checkpoint") == 0)
            assert_int_equal(round++, 2); /* rounds done: it stands before the one that follows them */
        if (json_find(object, "step"))
            assert_int_equal(json_get_integer(object, "step", 0, 99, &step, &error), ESPER_OK);
        assert_true(round > last_round || (round == last_round && step >= last_step));
        last_round = round;
        last_step = step;
        if (strcmp(table, "walk") == 0 && round == 1 && step == 7)
            assert_true(cJSON_IsNull(json_find(object, "note")) && cJSON_IsNull(json_find(object, "x")));
        if (strcmp(table, "walk") == 0 && round == 3)
            assert_string_equal(json_find(object, "note")->valuestring, "\xEF\xBF\xBD");
        if (strcmp(table, "outcome") == 0 && json_find(object, "env")->valueint == 0)
            assert_true(json_find(object, "reward")->valuedouble == -1.0 / 3);
        if (strcmp(table, "odd") == 0)
            assert_non_null(json_find(object, "table_column"));
        cJSON_Delete(object);
    }
    for (int i = 0; i < 6; i++)
        assert_int_equal(counts[i], wanted[i]);
    assert_true(line >= 20);
}

/* While the trainer writes: whole rounds, all of one moment. */
static void beside_a_writer(void **state)
{
    (void)state;
    struct run live;
    struct store *store = make_run(&live, "live", "");
    capture(as_jsonl, &live, NULL);
    int lines = 0;
    for (char *at = text; *at; at++)
        lines += *at == '\n';
    assert_true(lines >= 1 + 3 + 6 + 1);
    store_close(store);
    run_close(&live);
}

static void full_disk(void **state)
{
    (void)state;
    FILE *full = fopen("/dev/full", "w");
    if (!full)
        skip();
    assert_int_equal(dump_jsonl(&run, full, &error), ESPER_FAILED);
    assert_says(&error, "cannot write");
    clearerr(full);
    assert_int_equal(dump_csv(&run, "walk", full, &error), ESPER_FAILED);
    fclose(full);
}

static void no_record(void **state)
{
    (void)state;
    struct config config = sample_config();
    struct run empty;
    create_run(&empty, "empty", &config);
    assert_int_equal(dump_jsonl(&empty, stdout, &error), ESPER_INVALID);
    assert_says(&error, "no record yet");
    assert_int_equal(dump_trace(&empty, stdout, &error), ESPER_INVALID);
    run_close(&empty);
}

/* ---- traces ------------------------------------------------------------------------------------------------------ */

/* Check the array in `text`: names, then spans, each thread named before its first; counts are returned. */
static void check_trace(int *names, int *spans)
{
    cJSON *array;
    uint64_t named = 0;
    if (json_parse(text, length, &array, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    *names = *spans = 0;
    assert_true(cJSON_IsArray(array));
    for (const cJSON *event = array->child; event; event = event->next) {
        const char *kind, *name;
        int64_t pid, tid, ts, dur;
        const cJSON *arguments;
        assert_int_equal(json_get_string(event, "ph", &kind, &error), ESPER_OK);
        assert_int_equal(json_get_string(event, "name", &name, &error), ESPER_OK);
        assert_int_equal(json_get_integer(event, "pid", 1, 1, &pid, &error), ESPER_OK);
        assert_int_equal(json_get_integer(event, "tid", 0, 63, &tid, &error), ESPER_OK);
        assert_int_equal(json_get_object(event, "args", &arguments, &error), ESPER_OK);
        if (strcmp(kind, "M") == 0) {
            ++*names;
            named |= strcmp(name, "thread_name") == 0 ? UINT64_C(1) << tid : 0;
            continue;
        }
        ++*spans;
        assert_string_equal(kind, "X");
        assert_true(named >> tid & 1);
        assert_int_equal(json_get_integer(event, "ts", 0, 1 << 30, &ts, &error), ESPER_OK);
        assert_int_equal(json_get_integer(event, "dur", 0, 1 << 30, &dur, &error), ESPER_OK);
    }
    cJSON_Delete(array);
}

static void traces_of_events(void **state)
{
    (void)state;
    const struct trace_event events[] = {{"train", 0, 0, 100, 0, 0},
                                         {"seeds \"x\"\n", 3, 10, 20, 0, 0},
                                         {"evaluate", 0, 100, 50, 0, 0},
                                         {"update", 3, 200, 5, 0, -1},
                                         {"start", 0, 0, 0, -1, -1}};
    int names, spans;
    FILE *file = tmpfile();
    assert_int_equal(trace_write(file, events, 5, &error), ESPER_OK);
    rewind(file);
    length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    check_trace(&names, &spans);
    assert_int_equal(names, 3); /* the process and two threads */
    assert_int_equal(spans, 5);
    file = tmpfile();
    assert_int_equal(trace_write(file, NULL, 0, &error), ESPER_OK);
    rewind(file);
    length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    check_trace(&names, &spans);
    assert_int_equal(spans, 0);
}

static void traces_of_runs(void **state)
{
    (void)state;
    struct run traced;
    int names, spans;
    FILE *file = tmpfile();
    assert_int_equal(dump_trace(&run, file, &error), ESPER_INVALID);
    assert_says(&error, "recorded no phases");
    assert_int_equal(ftell(file), 0);
    fclose(file);
    struct store *store = make_run(&traced, "traced", "");
    const struct record_row phases[] = {
        {RECORD_PHASE, {.phase = {.step = 1, .name = "update", .thread = 1, .start_us = 900, .duration_us = 50}}},
        {RECORD_PHASE, {.phase = {.step = 1, .name = "train", .thread = 0, .start_us = 0, .duration_us = 40}}},
        {RECORD_PHASE, {.phase = {.step = 1, .name = "step", .thread = 0, .start_us = 0, .duration_us = 100}}},
        {RECORD_PHASE, {.phase = {.step = 1, .name = "train", .thread = 1, .start_us = 5, .duration_us = 30}}},
    };
    assert_int_equal(store_write(store, phases, 4, &error), ESPER_OK);
    store_close(store);
    capture(as_trace, &traced, NULL);
    check_trace(&names, &spans);
    assert_int_equal(names, 3);
    assert_int_equal(spans, 4);
    assert_true(strstr(text, "\"step\",\"pid\"") < strstr(text, "\"train\",\"pid\"")); /* the outer span first */
    run_close(&traced);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_comes_back),
        cmocka_unit_test(unknown_tables),
        cmocka_unit_test(numbers_keep_their_digits),
        cmocka_unit_test(json_lines_come_back),
        cmocka_unit_test(beside_a_writer),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(no_record),
        cmocka_unit_test(traces_of_events),
        cmocka_unit_test(traces_of_runs),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
