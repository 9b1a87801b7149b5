/* The viewers' questions: filled with integers and nothing else, bounded, quick, and right. */
#include <time.h>

#include "testing_grown.h"
#include "view/sheet.h"
#include "view/verdict.h"

static struct esper_error error;
static struct run run;
static struct query *query;
static const struct grown small = {
    .rounds = 4, .envs = 5, .steps = 8, .detailed = 2, .blueprint = "norm", .command = "esper train"};

static struct sheet ask(const char *name, const struct question_values *values)
{
    struct sheet sheet;
    if (sheet_ask(&sheet, query, name, values, &error) != ESPER_OK)
        fail_msg("%s: %s", name, error.text);
    return sheet;
}

static double number(const char *sql)
{
    struct query_answer *answer;
    const struct query_row *row;
    assert_int_equal(query_ask(query, sql, NULL, &answer, &error), ESPER_OK);
    assert_int_equal(query_next(answer, &row, &error), ESPER_OK);
    const struct query_value *value = &row->values[0];
    double result = value->kind == QUERY_INTEGER ? (double)value->integer
                    : value->kind == QUERY_REAL  ? value->real
                                                 : (double)NAN;
    query_end(answer);
    return result;
}

static void assert_near(double value, double wanted)
{
    if (!(fabs(value - wanted) <= 1e-9 * fmax(1, fabs(wanted))))
        fail_msg("%.17g, not %.17g", value, wanted);
}

static void assert_word(const char *text, const char *wanted)
{
    assert_non_null(text);
    assert_string_equal(text, wanted);
}

static int open_run(const char *name, const struct grown *grown)
{
    grow_run(&run, name, grown);
    return query_open(&query, &run, &error) == ESPER_OK ? 0 : -1;
}

static int set_up(void **state)
{
    return folder_make(state) != 0 ? -1 : open_run("small", &small);
}

static int tear_down(void **state)
{
    query_close(query);
    run_close(&run);
    return folder_clear(state);
}

/* ---- filling ----------------------------------------------------------------------------------------------------- */

static void only_integers_get_in(void **state)
{
    (void)state;
    char sql[QUESTION_BYTES];
    struct question_values values = question_all();
    values.round = -7, values.env = INT64_MIN, values.limit = 31;
    assert_int_equal(question_fill("episode", &values, sql, sizeof sql, &error), ESPER_OK);
    assert_non_null(strstr(sql, "round = -7"));
    assert_non_null(strstr(sql, "env = -9223372036854775808"));
    assert_int_equal(question_fill("top", &values, sql, sizeof sql, &error), ESPER_OK);
    assert_non_null(strstr(sql, "BETWEEN 0 AND 9223372036854775807"));
    assert_int_equal(question_fill("tops", &values, sql, sizeof sql, &error), ESPER_FAILED);
    assert_says(&error, "tops");
    assert_int_equal(question_fill("top", &values, sql, 100, &error), ESPER_FAILED);
    assert_says(&error, "buffer");
    assert_null(question_find("TOP"));
}

/* What the table says of a question's parameters is what its SQL has; none is left over after filling. */
static void parameters_are_told(void **state)
{
    (void)state;
    static const char *const names[] = {":round", ":step", ":env", ":slot", ":from", ":to", ":limit"};
    const struct question_values values = question_all();
    for (int i = 0; i < question_count; i++) {
        char sql[QUESTION_BYTES], told[128];
        snprintf(told, sizeof told, "%s ", questions[i].parameters);
        for (int j = 0; j < 7; j++) {
            char word[16];
            snprintf(word, sizeof word, "%s ", names[j]);
            bool used = false;
            for (const char *at = questions[i].sql; (at = strstr(at, names[j])); at++)
                used |= !strchr("abcdefghijklmnopqrstuvwxyz_", at[strlen(names[j])]) || !at[strlen(names[j])];
            if (used != (strstr(told, word) != NULL))
                fail_msg("%s: %s is %s", questions[i].name, names[j], used ? "used, not listed" : "listed, not used");
        }
        assert_int_equal(question_fill(questions[i].name, &values, sql, sizeof sql, &error), ESPER_OK);
        for (const char *at = sql; (at = strchr(at, ':')); at++) /* ": " in a text is none */
            assert_true(at[1] == ' ');
        assert_true(strlen(questions[i].about) > 10);
        assert_ptr_equal(question_find(questions[i].name), &questions[i]); /* no name twice */
    }
}

/* ---- right answers ----------------------------------------------------------------------------------------------- */

static void how_far_it_is(void **state)
{
    (void)state;
    const struct question_values all = question_all();
    struct sheet sheet = ask("summary", &all);
    assert_int_equal(sheet.rows, 1);
    assert_word(sheet_text(&sheet, 0, "name"), "small");
    assert_near(sheet_number(&sheet, 0, "rounds_done"), 4);
    assert_near(sheet_number(&sheet, 0, "newest_round"), 3);
    assert_near(sheet_number(&sheet, 0, "newest_step"), 8);
    assert_near(sheet_number(&sheet, 0, "seconds"), 8);
    assert_near(sheet_number(&sheet, 0, "alerts"), 2); /* raised; the cleared one is no new one */
    assert_near(sheet_number(&sheet, 0, "rows_thinned"), 7);
    assert_true(isnan(sheet_number(&sheet, 0, "rows_lost"))); /* nothing to sum is missing, not 0 */
    sheet_free(&sheet);
    sheet = ask("rounds", &all);
    assert_int_equal(sheet.rows, 4);
    assert_near(sheet_series(&sheet, "reward_mean")[3], 2.5);
    assert_true(isnan(sheet_series(&sheet, "test_accuracy_mean")[1]));
    assert_null(sheet_series(&sheet, "no such column"));
    sheet_free(&sheet);
}

static void envs_and_their_seeds(void **state)
{
    (void)state;
    struct question_values values = {.round = 3, .step = 4};
    struct sheet envs = ask("envs", &values), seeds = ask("env_seeds", &values);
    assert_int_equal(envs.rows, 5);
    for (int env = 0; env < 5; env++) {
        assert_near(sheet_number(&envs, env, "step"), 4);
        assert_near(sheet_number(&envs, env, "val_accuracy"), grown_accuracy(3, env) * 4 / 8); /* of step 4, no other */
        assert_near(sheet_number(&envs, env, "reward_sum"), 4 * (1 + 0.5 * env));
        assert_near(sheet_number(&envs, env, "kept"), 4);
        assert_word(sheet_text(&seeds, env, "stage"), "blending");
        assert_near(sheet_number(&seeds, env, "slot"), env % 2);
    }
    sheet_free(&envs);
    sheet_free(&seeds);
    values.step = 100; /* beyond the end: the newest there is */
    envs = ask("envs", &values), seeds = ask("env_seeds", &values);
    assert_near(sheet_number(&envs, 2, "step"), 8);
    assert_int_equal(seeds.rows, 2);
    assert_near(sheet_number(&seeds, 1, "env"), 3);
    sheet_free(&envs);
    sheet_free(&seeds);
}

static void one_episode(void **state)
{
    (void)state;
    const struct question_values values = {.round = 2, .env = 1};
    struct sheet steps = ask("episode", &values), stages = ask("stages", &values), lanes = ask("swimlane", &values);
    struct sheet lives = ask("lives", &values), reward = ask("reward_episode", &values),
                 shares = ask("shares", &values);
    static const char *const names[] = {"germinated", "training", "blending", "fossilized"};
    static const double from[] = {1, 1, 3, 5}, to[] = {1, 3, 5, NAN};
    assert_int_equal(steps.rows, 8);
    assert_near(sheet_number(&steps, 7, "step"), 8);
    assert_word(sheet_text(&steps, 5, "result"), "refused");
    assert_int_equal(stages.rows, 4);
    for (int i = 0; i < 4; i++) {
        assert_word(sheet_text(&stages, i, "stage"), names[i]);
        assert_near(sheet_number(&stages, i, "from_step"), from[i]);
        if (isnan(to[i]))
            assert_true(isnan(sheet_number(&stages, i, "to_step")));
        else
            assert_near(sheet_number(&stages, i, "to_step"), to[i]);
    }
    assert_int_equal(lanes.rows, 7);
    assert_near(sheet_number(&lanes, 6, "alpha"), 0.5);
    assert_int_equal(lives.rows, 7);
    assert_near(sheet_number(&reward, 0, "reward"), 12);
    assert_near(sheet_number(&reward, 0, "attribution"), 8);
    assert_near(sheet_number(&reward, 0, "terminal"), 4);
    assert_near(sheet_number(&shares, 0, "share"), 1.5);
    struct sheet *sheets[] = {&steps, &stages, &lanes, &lives, &reward, &shares};
    for (int i = 0; i < 6; i++)
        sheet_free(sheets[i]);
}

static void counts_of_ops_blueprints_and_gates(void **state)
{
    (void)state;
    const struct question_values all = question_all();
    struct sheet ops = ask("ops", &all), prints = ask("blueprints", &all), gates = ask("gate_checks", &all);
    assert_int_equal(ops.rows, 6); /* 3 ops in each of 2 rounds */
    assert_word(sheet_text(&ops, 5, "op"), "wait");
    assert_near(sheet_number(&ops, 5, "attempted"), 5 * 8 - 5 - 3);
    assert_near(sheet_number(&ops, 5, "refused"), 1);
    assert_near(sheet_number(&ops, 5, "done"), 5 * 8 - 5 - 3 - 1);
    assert_int_equal(prints.rows, 2);
    assert_word(sheet_text(&prints, 0, "blueprint"), "conv_light");
    assert_near(sheet_number(&prints, 0, "germinated"), 8);
    assert_near(sheet_number(&prints, 0, "fossilized"), 4);
    assert_near(sheet_number(&prints, 0, "rate_percent"), 50);
    assert_near(sheet_number(&prints, 0, "share"), 3);    /* envs 1 and 3: 1.5 and 4.5 */
    assert_near(sheet_number(&prints, 0, "params"), 102); /* 101 and 103 */
    assert_near(sheet_number(&prints, 1, "pruned"), 2);
    assert_true(isnan(sheet_number(&prints, 1, "share")));
    assert_int_equal(gates.rows, 2);
    assert_near(sheet_number(&gates, 0, "count"), 6);
    assert_word(sheet_text(&gates, 0, "failed"), "health_low");
    sheet_free(&ops);
    sheet_free(&prints);
    sheet_free(&gates);
}

static bool is_beaten(int round, int env)
{
    for (int r = 0; r < small.rounds; r++)
        for (int e = 0; e < small.envs; e++) {
            double gain = grown_accuracy(r, e) - grown_accuracy(round, env);
            int64_t cost = grown_params(r, e) - grown_params(round, env);
            if (e != 3 && gain >= 0 && cost <= 0 && (gain > 0 || cost < 0)) /* env 3 has no test accuracy */
                return true;
        }
    return false;
}

static void frontier_is_not_beaten(void **state)
{
    (void)state;
    const struct question_values all = question_all();
    struct sheet sheet = ask("pareto", &all);
    int frontier = 0;
    assert_int_equal(sheet.rows, 16);
    for (int i = 0; i < sheet.rows; i++) {
        int round = (int)sheet_number(&sheet, i, "round"), env = (int)sheet_number(&sheet, i, "env");
        bool best = sheet_number(&sheet, i, "frontier") == 1;
        assert_true(best == !is_beaten(round, env));
        assert_true(!best || i == frontier); /* they come first, */
        if (best && frontier++)              /* by rising parameters */
            assert_true(sheet_number(&sheet, i, "added_params") >= sheet_number(&sheet, i - 1, "added_params"));
    }
    assert_true(frontier >= 2 && frontier < 16);
    sheet_free(&sheet);
}

static void events_newest_first(void **state)
{
    (void)state;
    struct question_values values = question_all();
    values.limit = 1000;
    struct sheet sheet = ask("events", &values);
    bool seen[5] = {false};
    static const char *const kinds[] = {"pruned", "rollback", "alert", "checkpoint", "gate"};
    for (int i = 0; i < sheet.rows; i++) {
        assert_true(i == 0 || sheet_number(&sheet, i, "round") <= sheet_number(&sheet, i - 1, "round"));
        for (int k = 0; k < 5; k++)
            seen[k] |= strcmp(sheet_text(&sheet, i, "kind"), kinds[k]) == 0;
    }
    for (int k = 0; k < 5; k++)
        assert_true(seen[k]);
    assert_near(sheet.rows, number("SELECT (SELECT count(*) FROM life) + (SELECT count(*) FROM rollback)"
                                   " + (SELECT count(*) FROM alert) + (SELECT count(*) FROM checkpoint)"));
    sheet_free(&sheet);
    values.limit = 3;
    sheet = ask("events", &values);
    assert_int_equal(sheet.rows, 3);
    sheet_free(&sheet);
    values.limit = -1; /* to SQLite: no limit */
    sheet = ask("events", &values);
    assert_int_equal(sheet.rows, 0);
    sheet_free(&sheet);
}

static void alerts_that_stand(void **state)
{
    (void)state;
    const struct question_values all = question_all();
    struct sheet sheet = ask("standing", &all);
    assert_int_equal(sheet.rows, 1); /* the other was cleared */
    assert_word(sheet_text(&sheet, 0, "rule"), "rollbacks");
    sheet_free(&sheet);
}

/* ---- verdicts ---------------------------------------------------------------------------------------------------- */

static void verdict_follows_the_record(void **state)
{
    (void)state;
    struct verdict verdict;
    struct run_status status = {.state = RUN_FINISHED};
    assert_int_equal(verdict_of(query, &run, &status, &verdict, &error), ESPER_OK);
    assert_int_equal(verdict.state, VERDICT_WATCH); /* a rollback in 20 episodes */
    assert_int_equal(verdict.gates[1].state, GATE_WATCH);
    assert_int_equal(verdict.gates[0].state, GATE_PASS);
    assert_int_equal(verdict.gates[2].state, GATE_UNKNOWN); /* 4 updates are too few */
    assert_non_null(strstr(verdict.gates[1].text, "5.0 per 100 episodes"));
    status.state = RUN_RUNNING; /* and no process holds the lock */
    assert_int_equal(verdict_of(query, &run, &status, &verdict, &error), ESPER_OK);
    assert_int_equal(verdict.state, VERDICT_BLOCKED);
    assert_non_null(strstr(verdict.text, "died"));
    status.alive = true;
    assert_int_equal(verdict_of(query, &run, &status, &verdict, &error), ESPER_OK);
    assert_int_equal(verdict.state, VERDICT_WATCH);
}

/* ---- bounds ------------------------------------------------------------------------------------------------------ */

static void nothing_is_an_answer(void **state)
{
    (void)state;
    const struct grown nothing = {.envs = 1, .steps = 1, .command = "esper train"};
    const struct question_values all = question_all();
    struct verdict verdict;
    query_close(query);
    run_close(&run);
    assert_int_equal(open_run("nothing", &nothing), 0);
    for (int i = 0; i < question_count; i++) {
        struct sheet sheet = ask(questions[i].name, &all);
        assert_true(sheet.columns > 0 && sheet.rows <= 1);
        sheet_free(&sheet);
    }
    const struct run_status status = {.state = RUN_RUNNING, .alive = true};
    assert_int_equal(verdict_of(query, &run, &status, &verdict, &error), ESPER_OK);
    assert_int_equal(verdict.state, VERDICT_COLLECTING);
}

/* A label may say what the answer says of itself: all rounds of a young run, the newest of an older one. */
static void answers_say_their_rounds(void **state)
{
    (void)state;
    static const struct {
        const char *question, *event;
        int detailed, from; /* of rounds 0 to 11, the last `detailed` have lives of seeds */
        int64_t to;
        double first, last;
    } cases[] = {
        {"blueprints", "germinated", 12, 0, INT64_MAX, 2, 11}, {"gate_checks", "gate", 12, 0, INT64_MAX, 7, 11},
        {"blueprints", "germinated", 12, 0, 4, 0, 4},          {"gate_checks", "gate", 12, 9, 10, 9, 10},
        {"blueprints", "germinated", 3, 0, INT64_MAX, 9, 11},  {"gate_checks", "gate", 3, 0, INT64_MAX, 9, 11}};
    int opened = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct question_values values = question_all();
        char name[16], sql[160];
        if (cases[i].detailed != opened) {
            const struct grown grown = {.rounds = 12,
                                        .envs = 2,
                                        .steps = 8,
                                        .detailed = opened = cases[i].detailed,
                                        .blueprint = "norm",
                                        .command = "esper train"};
            query_close(query);
            run_close(&run);
            snprintf(name, sizeof name, "lives%d", opened);
            assert_int_equal(open_run(name, &grown), 0);
        }
        values.from = cases[i].from, values.to = cases[i].to;
        struct sheet sheet = ask(cases[i].question, &values);
        double total = 0;
        assert_true(sheet.rows > 0);
        for (int row = 0; row < sheet.rows; row++) {
            assert_near(sheet_number(&sheet, row, "first_round"), cases[i].first);
            assert_near(sheet_number(&sheet, row, "last_round"), cases[i].last);
            total += sheet_number(&sheet, row, strcmp(cases[i].event, "gate") == 0 ? "count" : cases[i].event);
        }
        snprintf(sql, sizeof sql, "SELECT count(*) FROM life WHERE event = '%s' AND round BETWEEN %.0f AND %.0f",
                 cases[i].event, cases[i].first, cases[i].last);
        assert_near(total, number(sql)); /* and it is of all of them */
        sheet_free(&sheet);
    }
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Many rounds with few envs for the series, few rounds of many envs for the rest: what the questions read from a run
 * of 64 envs x 150 steps x 1000 rounds. The bound leaves room for a busy machine and for sanitizers. */
static void large_runs_answer_soon(void **state)
{
    (void)state;
    bool soak = getenv("ESPER_SOAK") != NULL;
    const struct grown large = {.rounds = soak ? 1000 : 200,
                                .envs = 64,
                                .steps = 150,
                                .detailed = soak ? 20 : 2,
                                .busy = true,
                                .blueprint = "norm",
                                .command = "esper train"};
    struct question_values values = question_all();
    query_close(query);
    run_close(&run);
    assert_int_equal(open_run("large", &large), 0);
    values.round = large.rounds - 1, values.step = 150, values.env = 63;
    for (int i = 0; i < question_count; i++) {
        double best = INFINITY;
        for (int attempt = 0; attempt < 3 && best > 0.2; attempt++) {
            double start = seconds();
            struct sheet sheet = ask(questions[i].name, &values);
            best = fmin(best, seconds() - start);
            sheet_free(&sheet);
        }
        if (getenv("ESPER_SHOW"))
            print_message("%-16s %6.1f ms\n", questions[i].name, best * 1e3);
        if (best > 1)
            fail_msg("%s took %.0f ms", questions[i].name, best * 1e3);
    }
}

static void long_series_are_thinned(void **state)
{
    (void)state;
    const struct grown large = {.rounds = 5000, .envs = 1, .steps = 1, .blueprint = "norm", .command = "esper train"};
    struct question_values values = question_all();
    query_close(query);
    run_close(&run);
    assert_int_equal(open_run("long", &large), 0);
    struct sheet sheet = ask("rounds", &values);
    assert_true(sheet.rows > 1000 && sheet.rows <= 2002);
    assert_near(sheet_number(&sheet, sheet.rows - 1, "round"), 4999);
    sheet_free(&sheet);
    sheet = ask("heads", &values);
    assert_true(sheet.rows > 5000 && sheet.rows <= 2002 * 5);
    sheet_free(&sheet);
    values.from = 4000, values.to = 4999;
    sheet = ask("ppo", &values);
    assert_int_equal(sheet.rows, 1000); /* short enough to be whole */
    sheet_free(&sheet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_integers_get_in),
        cmocka_unit_test(parameters_are_told),
        cmocka_unit_test(how_far_it_is),
        cmocka_unit_test(envs_and_their_seeds),
        cmocka_unit_test(one_episode),
        cmocka_unit_test(counts_of_ops_blueprints_and_gates),
        cmocka_unit_test(frontier_is_not_beaten),
        cmocka_unit_test(events_newest_first),
        cmocka_unit_test(alerts_that_stand),
        cmocka_unit_test(verdict_follows_the_record),
        /* these open their own runs */
        cmocka_unit_test(nothing_is_an_answer),
        cmocka_unit_test(answers_say_their_rounds),
        cmocka_unit_test(long_series_are_thinned),
        cmocka_unit_test(large_runs_answer_soon),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
