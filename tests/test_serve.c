/* The server over real sockets: what it says is what the record says, it says it in time, and only to those who may
 * see it. Many runs: test_serve_many.c; hostile clients: test_serve_hostile.c. */
#include <math.h>
#include <signal.h>

#include "telemetry/store_schema.h"
#include "testing_served.h"
#include "view/assets.h"
#include "view/questions.h"
#include "view/verdict.h"

/* ---- values ------------------------------------------------------------------------------------------------------ */

static void assert_same(const cJSON *json, const struct query_value *value, const char *where)
{
    bool same = value->kind == QUERY_INTEGER ? cJSON_IsNumber(json) && json->valuedouble == (double)value->integer
                : value->kind == QUERY_REAL  ? cJSON_IsNumber(json) && json->valuedouble == value->real
                : value->kind == QUERY_TEXT  ? cJSON_IsString(json) && strcmp(json->valuestring, value->text) == 0
                                             : cJSON_IsNull(json);
    if (!same)
        fail_msg("%s: another value than in the record", where);
}

/* An answer of the server compared with the same question asked of the record. Returns the number of rows. */
static int assert_same_rows(const cJSON *json, struct query *query, const char *sql, const char *where)
{
    struct query_answer *answer;
    const struct query_row *row;
    const cJSON *columns = json_find(json, "columns"), *rows = json_find(json, "rows");
    assert_int_equal(query_ask(query, sql, NULL, &answer, NULL), ESPER_OK);
    assert_int_equal(cJSON_GetArraySize(columns), query_columns(answer)->count);
    int count = 0;
    for (const cJSON *line = rows->child; line; line = line->next, count++) {
        assert_int_equal(query_next(answer, &row, NULL), ESPER_OK);
        assert_non_null(row);
        const cJSON *cell = line->child, *column = columns->child;
        for (int i = 0; i < row->count; i++, cell = cell->next, column = column->next) {
            assert_string_equal(column->valuestring, row->keys[i]);
            assert_same(cell, &row->values[i], where);
        }
        assert_null(cell);
    }
    assert_int_equal(query_next(answer, &row, NULL), ESPER_OK);
    assert_null(row);
    query_end(answer);
    return count;
}

static void every_question(void **state)
{
    (void)state;
    struct query *query;
    struct question_values values = question_all();
    int rows = 0;
    assert_int_equal(query_open(&query, &done, NULL), ESPER_OK);
    values.round = 3;
    values.env = 1;
    values.step = 30;
    values.limit = 50;
    for (int i = 0; i < question_count; i++) {
        char target[128], sql[QUESTION_BYTES];
        snprintf(target, sizeof target, "/api/run/done/ask/%s?round=3&env=1&step=30&limit=50", questions[i].name);
        cJSON *json = get_json(target);
        assert_int_equal(question_fill(questions[i].name, &values, sql, sizeof sql, NULL), ESPER_OK);
        rows += assert_same_rows(json, query, sql, questions[i].name);
        assert_true(cJSON_IsFalse(json_find(json, "truncated")));
        cJSON_Delete(json);
    }
    assert_true(rows > 200);
    query_close(query);
}

static void the_newest_round_by_default(void **state)
{
    (void)state;
    cJSON *newest = get_json("/api/run/latest/ask/outcomes"), *fourth = get_json("/api/run/done/ask/outcomes?round=4");
    assert_true(cJSON_Compare(newest, fourth, true));
    assert_int_equal(cJSON_GetArraySize(json_find(newest, "rows")), 2);
    cJSON_Delete(newest);
    cJSON_Delete(fourth);
}

static void series(void **state)
{
    (void)state;
    struct query *query;
    struct query_answer *answer;
    const struct query_row *row;
    const char *names = "names=ppo.kl,round.val_accuracy_mean,ppo_head.entropy.op,ppo.epochs";
    char target[160];
    assert_int_equal(query_open(&query, &done, NULL), ESPER_OK);
    snprintf(target, sizeof target, "/api/run/done/series?%s", names);
    cJSON *json = get_json(target);
    const cJSON *all = json_find(json, "series");
    assert_int_equal(cJSON_GetArraySize(json_find(json, "x")), 5);
    assert_int_equal(query_ask(query,
                               "SELECT p.kl, r.val_accuracy_mean, h.entropy, p.epochs FROM round r JOIN ppo p USING"
                               "(round) JOIN ppo_head h USING (round) WHERE head = 'op' ORDER BY round",
                               NULL, &answer, NULL),
                     ESPER_OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(query_next(answer, &row, NULL), ESPER_OK);
        for (int j = 0; j < 4; j++)
            assert_same(at(json_find(at(all, j), "last"), i), &row->values[j], "series");
    }
    query_end(answer);
    assert_string_equal(json_string(at(all, 2), "name"), "ppo_head.entropy.op");
    assert_null(json_find(at(all, 0), "min"));
    cJSON_Delete(json);

    snprintf(target, sizeof target, "/api/run/done/series?%s&points=2", names); /* 5 rounds in points of 3: 0-2, 3-4 */
    json = get_json(target);
    assert_int_equal(json_number(json, "width"), 3);
    assert_int_equal(at(json_find(json, "x"), 0)->valueint, 2);
    assert_int_equal(at(json_find(json, "x"), 1)->valueint, 4);
    assert_int_equal(
        query_ask(query, "SELECT min(kl), max(kl) FROM ppo WHERE round BETWEEN 3 AND 4", NULL, &answer, NULL),
        ESPER_OK);
    assert_int_equal(query_next(answer, &row, NULL), ESPER_OK);
    const cJSON *kl = at(json_find(json, "series"), 0);
    assert_same(at(json_find(kl, "min"), 1), &row->values[0], "min");
    assert_same(at(json_find(kl, "max"), 1), &row->values[1], "max");
    query_end(answer);
    cJSON_Delete(json);
    query_close(query);
}

static void runs_and_one_run(void **state)
{
    (void)state;
    cJSON *list = get_json("/api/runs"), *one = get_json("/api/run/done");
    const cJSON *line = at(json_find(list, "runs"), 0), *summary = json_find(one, "summary");
    assert_int_equal(cJSON_GetArraySize(json_find(list, "runs")), 1);
    assert_string_equal(json_string(line, "name"), "done");
    assert_string_equal(json_string(line, "state"), "finished");
    assert_string_equal(json_string(line, "policy"), "ppo");
    assert_int_equal(json_number(line, "rounds_done"), 5);
    assert_true(json_number(line, "val_accuracy") == json_number(summary, "val_accuracy_mean_last"));
    assert_true(json_number(line, "test_accuracy") == json_number(summary, "test_accuracy_mean_last"));
    assert_int_equal(json_number(one, "schema"), STORE_VERSION);
    assert_int_equal(json_number(json_find(one, "configuration"), "envs"), 2);
    assert_string_equal(json_string(one, "command"), "<a \"test\">\x01"); /* as it was, in strict JSON */
    assert_string_equal(json_string(one, "seed"), "42");
    assert_int_equal(cJSON_GetArraySize(json_find(one, "slots")), 3);
    assert_int_equal(cJSON_GetArraySize(json_find(json_find(one, "verdict"), "gates")), VERDICT_GATES);
    cJSON_Delete(list);
    cJSON_Delete(one);
}

/* A second look at what did not change takes another path through the server. */
static void lists_are_remembered(void **state)
{
    (void)state;
    cJSON *first = get_json("/api/runs"), *second = get_json("/api/runs");
    assert_true(cJSON_Compare(first, second, true));
    cJSON_Delete(first);
    cJSON_Delete(second);
}

static void the_page(void **state)
{
    (void)state;
    struct answer answer = get("/");
    if (page_asset_count == 0) { /* web/dist was empty when this was built */
        assert_int_equal(answer.code, 503);
        return;
    }
    for (int i = 0; i < page_asset_count; i++) {
        char target[128], headers[256];
        bool index = strcmp(page_assets[i].name, "index.html") == 0;
        snprintf(target, sizeof target, "/%s%s", index ? "" : "assets/", index ? "" : page_assets[i].name);
        answer = get(target);
        assert_int_equal(answer.code, 200);
        assert_int_equal(answer.bytes, page_assets[i].plain_bytes);
        assert_memory_equal(answer.body, page_assets[i].plain, answer.bytes);
        answer = ask_with("GET", target, "Host: localhost\r\nAccept-Encoding: br, gzip\r\n", "");
        assert_true(has_header(&answer, "Content-Encoding: gzip") && has_header(&answer, page_assets[i].type));
        assert_int_equal(answer.bytes, page_assets[i].gzip_bytes);
        snprintf(headers, sizeof headers, "Host: localhost\r\nIf-None-Match: %s\r\n", page_assets[i].tag);
        answer = ask_with("GET", target, headers, "");
        assert_int_equal(answer.code, 304);
        assert_int_equal(answer.bytes, 0);
    }
}

static void compared(void **state)
{
    (void)state;
    struct answer answer = get("/api/compare?runs=done,done");
    assert_int_equal(answer.code, 200);
    cJSON *json = get_json("/api/compare?runs=done,done");
    const cJSON *difference =
        json_find(json_find(at(json_find(json, "comparisons"), 0), "differences"), "test_accuracy");
    assert_int_equal(json_number(json_find(difference, "episodes"), "count"), 10);
    assert_true(json_number(json_find(difference, "episodes"), "mean") == 0);
    struct query *query;
    struct query_answer *mean;
    const struct query_row *row;
    assert_int_equal(query_open(&query, &done, NULL), ESPER_OK);
    assert_int_equal(query_ask(query, "SELECT avg(test_accuracy) FROM outcome", NULL, &mean, NULL), ESPER_OK);
    assert_int_equal(query_next(mean, &row, NULL), ESPER_OK);
    const cJSON *means = json_find(at(json_find(json, "cohorts"), 1), "means");
    assert_true(fabs(json_number(json_find(means, "test_accuracy"), "mean") - row->values[0].real) < 1e-9);
    query_end(mean);
    query_close(query);
    cJSON_Delete(json);
}

/* ---- what happens, as it happens --------------------------------------------------------------------------------- */

static struct store *record;

static void write_row(const struct record_row *row)
{
    assert_int_equal(store_write(record, row, 1, NULL), ESPER_OK);
}

/* A run whose trainer is this test: rows come when it says so, and its death is the loss of the lock. */
static void news_arrive_in_time(void **state)
{
    (void)state;
    struct run run;
    struct config config = sample_config();
    struct listener listener;
    double slowest = 0;
    create_run(&run, "slow", &config);
    assert_int_equal(store_open(&record, &run, NULL), ESPER_OK);
    listen_to(&listener, "slow");
    expect_event(&listener, "hello", 1);
    assert_string_equal(json_string(listener.data, "state"), "running");
    assert_true(cJSON_IsNull(json_find(listener.data, "newest_round"))); /* missing, not 0 */
    for (int i = 0; i < 6; i++) {
        struct record_row row = {.kind = RECORD_ROUND, .record.round = {.round = i, .reward_mean = 0.5 * i}};
        nanosleep(&(struct timespec){.tv_nsec = 37000000L * i}, NULL);
        double written = clock_seconds();
        write_row(&row);
        expect_event(&listener, "tick", 1);
        slowest = fmax(slowest, clock_seconds() - written);
        assert_int_equal(json_number(listener.data, "rounds_done"), i + 1);
        cJSON *series = get_json("/api/run/slow/series?names=round.reward_mean");
        const cJSON *last = json_find(at(json_find(series, "series"), 0), "last");
        assert_int_equal(cJSON_GetArraySize(last), i + 1); /* what the tick announced is there */
        assert_true(at(last, i)->valuedouble == 0.5 * i);
        cJSON_Delete(series);
    }
    assert_true(slowest < patience());
    struct record_row alert = {.kind = RECORD_ALERT, .record.alert = {.round = 5, .rule = "kl", .text = "<KL> 9\x1b"}};
    write_row(&alert);
    expect_event(&listener, "tick", 1);
    assert_string_equal(json_string(at(json_find(listener.data, "alerts"), 0), "text"), "<KL> 9\x1b");
    assert_false(next_event(&listener, 0.6)); /* nothing new, nothing said */
    store_close(record);
    for (int i = 0; i < 2; i++) { /* the second answer comes from the cache */
        nanosleep(&(struct timespec){.tv_nsec = 80000000}, NULL);
        cJSON *json = get_json("/api/run/slow");
        assert_string_equal(json_string(json, "state"), "running");
        cJSON_Delete(json);
    }
    run_close(&run); /* it dies, as far as a reader can tell */
    expect_event(&listener, "end", 1);
    assert_string_equal(json_string(listener.data, "state"), "crashed");
    stop_listening(&listener);
    cJSON *json = get_json("/api/run/slow");
    assert_string_equal(json_string(json, "state"), "crashed");
    assert_string_equal(json_string(json_find(json, "verdict"), "state"), "blocked");
    cJSON_Delete(json);
}

static void a_finished_run_ends_its_stream(void **state)
{
    (void)state;
    struct listener listener;
    listen_to(&listener, "done");
    expect_event(&listener, "hello", 1);
    expect_event(&listener, "end", 1);
    assert_string_equal(json_string(listener.data, "state"), "finished");
    assert_int_equal(json_number(listener.data, "rounds_done"), 5);
    assert_false(next_event(&listener, 1));
    stop_listening(&listener);
}

/* A real trainer, watched, asked and killed; the server goes away in between and comes back. */
static void a_live_trainer(void **state)
{
    (void)state;
    static struct listener listeners[20]; /* twenty pages */
    struct job job = {"live", live_config(100000)};
    int ticks = 0;
    stop_server(); /* fork before there are threads */
    pid_t trainer = start_child(train, &job);
    for (struct stat info; stat(in_folder("live/telemetry.db"), &info) != 0;)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    start_server(&(struct serve_options){.runs = folder});
    for (int i = 0; i < 20; i++)
        listen_to(&listeners[i], "live");
    for (int i = 0; i < 20; i++)
        expect_event(&listeners[i], "hello", 2);
    for (double end = clock_seconds() + 2; clock_seconds() < end;)
        for (int i = 0; i < 20; i++)
            ticks += next_event(&listeners[i], 0.01) && strcmp(listeners[i].event, "tick") == 0;
    assert_true(ticks >= 20 * 3 / patience() &&
                ticks <= 20 * 11); /* news all the time, but four times a second at most */

    int port = server_port;
    stop_server();
    start_server(&(struct serve_options){.runs = folder, .port = port}); /* the same address at once */
    for (int i = 0; i < 20; i++) {
        stop_listening(&listeners[i]);
        listen_to(&listeners[i], "live");
    }
    for (int i = 0; i < 20; i++)
        expect_event(&listeners[i], "hello", 2);
    kill(trainer, SIGKILL);
    assert_int_equal(exit_code(trainer), 128 + SIGKILL);
    double died = clock_seconds();
    for (int i = 0; i < 20; i++) {
        while (next_event(&listeners[i], 1.5 * patience()) && strcmp(listeners[i].event, "end") != 0)
            ;
        assert_string_equal(json_string(listeners[i].data, "state"), "crashed");
        stop_listening(&listeners[i]);
    }
    assert_true(clock_seconds() - died < patience());
    cJSON *json = get_json("/api/run/live");
    assert_string_equal(json_string(json, "state"), "crashed");
    cJSON_Delete(json);
}

/* The whole training state at the end of a run. */
static void end_hash(const char *name, char hash[64])
{
    struct run run;
    struct query *query;
    struct query_answer *answer;
    const struct query_row *row;
    assert_int_equal(run_open(&run, folder, name, NULL), ESPER_OK);
    assert_int_equal(query_open(&query, &run, NULL), ESPER_OK);
    assert_int_equal(query_ask(query, "SELECT hash FROM checkpoint WHERE kind = 'final'", NULL, &answer, NULL),
                     ESPER_OK);
    assert_int_equal(query_next(answer, &row, NULL), ESPER_OK);
    assert_non_null(row);
    snprintf(hash, 64, "%s", row->values[0].text);
    query_end(answer);
    query_close(query);
    run_close(&run);
}

static void watching_changes_nothing(void **state)
{
    (void)state;
    static struct listener listeners[20];
    struct job job = {"watched", live_config(5)};
    char alone[64], watched[64];
    stop_server();
    pid_t trainer = start_child(train, &job);
    for (struct stat info; stat(in_folder("watched/telemetry.db"), &info) != 0;)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    start_server(&(struct serve_options){.runs = folder});
    for (int i = 0; i < 20; i++)
        listen_to(&listeners[i], "watched");
    int asked = 0;
    while (waitpid(trainer, NULL, WNOHANG) == 0) {
        struct answer answer = get("/api/run/watched/ask/events");
        if (answer.code != 200 && (asked || answer.code != 503)) /* at first the record is only being made */
            fail_msg("%d %s", answer.code, answer.body);
        asked += answer.code == 200;
    }
    for (int i = 0; i < 20; i++)
        stop_listening(&listeners[i]);
    assert_true(asked > 0);
    end_hash("done", alone);
    end_hash("watched", watched);
    assert_string_equal(alone, watched);
}

/* ---- verdicts ---------------------------------------------------------------------------------------------------- */

/* The state, and the gate that the server reports. */
static void assert_verdict(const char *wanted, const char *gate, const char *gate_wanted)
{
    cJSON *json = get_json("/api/run/judged");
    const cJSON *verdict = json_find(json, "verdict");
    assert_string_equal(json_string(verdict, "state"), wanted);
    for (const cJSON *each = json_find(verdict, "gates")->child; each; each = each->next)
        if (strcmp(json_string(each, "name"), gate) == 0)
            assert_string_equal(json_string(each, "state"), gate_wanted);
    cJSON_Delete(json);
}

static void verdicts(void **state)
{
    (void)state;
    struct run run;
    struct config config = sample_config();
    create_run(&run, "judged", &config);
    assert_int_equal(store_open(&record, &run, NULL), ESPER_OK);
    assert_verdict("collecting", "lifecycle", "unknown");
    for (int i = 0; i < 10; i++) {
        struct record_row rows[] = {
            {.kind = RECORD_ROUND, .record.round = {.round = i, .germinations = 2, .fossilizations = 1}},
            {.kind = RECORD_OUTCOME, .record.outcome = {.round = i}},
            {.kind = RECORD_PPO,
             .record.ppo = {
                 .round = i, .kl = 0.01, .op_entropy = 0.8, .clip_fraction = 0.1, .explained_variance = 0.6}}};
        assert_int_equal(store_write(record, rows, 3, NULL), ESPER_OK);
    }
    assert_verdict("interpretable", "policy", "pass");
    struct record_row alert = {.kind = RECORD_ALERT};
    alert.record.alert = (struct alert_record){.round = 9, .rule = "kl", .state = "raised", .severity = "critical"};
    write_row(&alert);
    assert_verdict("watch", "data", "pass");
    struct record_row drops = {.kind = RECORD_DROPS, .record.drops = {.name = "outcome", .reason = "full", .count = 7}};
    write_row(&drops);
    assert_verdict("blocked", "data", "fail");
    store_close(record);
    run_close(&run);
}

int main(void)
{
#ifndef HAVE_HTTP
    printf("skipped: this build has no libmicrohttpd\n");
    return 0;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_question, start, stop),
        cmocka_unit_test_setup_teardown(the_newest_round_by_default, start, stop),
        cmocka_unit_test_setup_teardown(series, start, stop),
        cmocka_unit_test_setup_teardown(runs_and_one_run, start, stop),
        cmocka_unit_test_setup_teardown(lists_are_remembered, start, stop),
        cmocka_unit_test_setup_teardown(the_page, start, stop),
        cmocka_unit_test_setup_teardown(compared, start, stop),
        cmocka_unit_test_setup_teardown(news_arrive_in_time, start, stop),
        cmocka_unit_test_setup_teardown(a_finished_run_ends_its_stream, start, stop),
        cmocka_unit_test_setup_teardown(a_live_trainer, start, stop),
        cmocka_unit_test_setup_teardown(watching_changes_nothing, start, stop),
        cmocka_unit_test_setup_teardown(verdicts, start, stop),
    };
    return cmocka_run_group_tests(tests, set_up, folder_clear);
}
