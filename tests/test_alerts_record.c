/* Alerts in a record: written with their round, reported once, and the same in a resumed run. */
#include <inttypes.h>

#include "testing_alerts.h"
#include "view/verdict.h"

static void to_recorder(void *context, enum record_kind kind, const void *record, size_t bytes)
{
    (void)bytes;
    recorder_emit(context, kind, record);
}

/* ---- in a record ------------------------------------------------------------------------------------------------- */

static uint64_t dice = 1;

static int roll(int sides)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (int)((dice >> 33) % (uint64_t)sides);
}

/* Trouble of all kinds, coming and going; the same for the same round. */
static struct scene a_bad_scene(int64_t round)
{
    struct scene scene = a_fine_scene(round);
    dice = (uint64_t)round * 77 + 5;
    for (int i = 0; i < CASES; i++)
        if (roll(4) == 0) {
            double value = roll(2) ? cases[i].warn : roll(9) ? cases[i].critical : (double)INFINITY;
            memcpy((char *)&scene.ppo + cases[i].field, &value, sizeof value);
        }
    for (int i = 0; i < HEADS; i++) {
        scene.head[i].entropy = 0.01 * roll(20);
        scene.head[i].learnable = roll(4) ? 0.1 : 0.01;
        scene.head[i].grad_norm = roll(2) ? 1 : 0;
        scene.head[i].log_prob_min = roll(6) ? -2 : -60;
    }
    scene.ppo.grad_norm = roll(3) ? 4 : 20;
    scene.round.rollbacks = roll(5) == 0;
    scene.round.val_accuracy_mean = 30 + roll(20);
    scene.round.reward_mean = 10.0 * (double)(round < 30 ? round : 60 - round) + roll(20); /* learned, then forgotten */
    scene.waits = roll(3) ? 82 : 60;
    scene.refused = roll(2) * 14;
    scene.forced = 220;
    scene.learns = roll(10) != 0;
    return scene;
}

static void emit_scene(struct recorder *recorder, const struct scene *scene, int from, int to)
{
    for (int i = from; i < to && i < scene->choices + scene->forced; i++)
        give_step(scene, i, to_recorder, recorder);
    if (to < scene->choices + scene->forced)
        return;
    give_rest(scene, to_recorder, recorder);
    recorder_emit(recorder, RECORD_ROUND, &scene->round);
}

#define ALL_ALERTS                                                                                                     \
    "SELECT group_concat(round || ' ' || rule || ' ' || state || ' ' || severity || ' ' || printf('%.9g', value) || "  \
    "' ' || printf('%.9g', threshold) || ' ' || text, char(10)) FROM (SELECT * FROM alert ORDER BY round, rule)"

static char *alerts_of(const struct run *run)
{
    struct store *store = must_read(run);
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_prepare_v2(store_sql(store), ALL_ALERTS, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    char *text = strdup((const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    store_close(store);
    return text;
}

/* What came after the checkpoint is done again, as a session does. */
static struct recorder *go_on(const struct run *run, uint32_t round, uint32_t step)
{
    struct recorder *recorder = NULL;
    struct store *store = must_open(run);
    assert_int_equal(store_forget(store, round, step, NULL), ESPER_OK);
    assert_int_equal(recorder_start(&recorder, store, TELEMETRY_NORMAL, PLANNED, NULL), ESPER_OK);
    return recorder;
}

static void a_resumed_run_raises_the_same(void **state)
{
    (void)state;
    enum { ROUNDS = 60 };
    struct run whole, parts;
    struct recorder *recorder = start_run(&whole, "whole", TELEMETRY_NORMAL);
    for (int round = 0; round < ROUNDS; round++) {
        struct scene scene = a_bad_scene(round);
        emit_scene(recorder, &scene, 0, 320); /* as fast as they come: rounds overlap in the lanes */
        if (round % 20 == 19)
            assert_true(recorder_flush(recorder, 10)); /* all rows, or there is nothing to compare */
    }
    must_stop(recorder);
    recorder = start_run(&parts, "parts", TELEMETRY_NORMAL);
    for (int round = 0; round < ROUNDS; round++) {
        struct scene scene = a_bad_scene(round);
        bool middle = round % 9 == 4, again = round % 13 == 6;
        if (middle || again) /* stopped after the first env's steps, or after all and the round is played twice */
            emit_scene(recorder, &scene, 0, middle ? 40 : 320);
        if (middle) {
            must_stop(recorder);
            recorder = go_on(&parts, (uint32_t)round, 40);
        } else if (again) {
            must_stop(recorder);
            recorder = go_on(&parts, (uint32_t)round, 0);
        }
        emit_scene(recorder, &scene, middle ? 40 : 0, 320);
    }
    must_stop(recorder);
    char *first = alerts_of(&whole), *second = alerts_of(&parts);
    assert_true(strlen(first) > 5000); /* there was something to report */
    assert_non_null(strstr(first, "cleared"));
    assert_string_equal(first, second);
    free(first);
    free(second);
    run_close(&whole);
    run_close(&parts);
}

/* An alert that stands for longer than steps are read back, now good, now bad, still stands; three good rounds end it.
 */
static void an_old_alert_still_stands(void **state)
{
    (void)state;
    struct run run;
    struct recorder *recorder = start_run(&run, "old", TELEMETRY_NORMAL);
    for (int round = 0; round < 43; round++) {
        struct scene scene = a_fine_scene(round);
        scene.waits = round < 3 || (round < 40 && round % 2) ? 82 : 60;
        scene.forced = 220;
        if (round == 40) {
            must_stop(recorder);
            recorder = go_on(&run, 40, 0);
            assert_int_equal(recorder_alerts_standing(recorder), 1);
        }
        emit_scene(recorder, &scene, 0, 320);
        if (round % 20 == 19)
            assert_true(recorder_flush(recorder, 10));
    }
    must_stop(recorder);
    char *alerts = alerts_of(&run);
    assert_string_equal(alerts, "2 wait raised warn 0.82 0.8 WAIT is 0.82 of the choices, too early\n"
                                "42 wait cleared warn 0.6 0.8 WAIT is 0.60 of the choices");
    free(alerts);
    run_close(&run);
}

/* A round whose row has to wait for the next transaction is not written yet, and a flush waits for it. */
static void a_flush_waits_for_the_round(void **state)
{
    (void)state;
    struct run run;
    struct recorder *recorder = start_run(&run, "flushed", TELEMETRY_NORMAL);
    struct store *reader = must_read(&run);
    for (int round = 0; round < 30; round++) {
        struct scene scene = a_fine_scene(round);
        scene.choices = 480 + round; /* with the other rows about as many as a transaction holds */
        emit_scene(recorder, &scene, 0, scene.choices);
        assert_true(recorder_flush(recorder, 10));
        assert_int_equal(rows_in(reader, "round"), round + 1);
    }
    store_close(reader);
    must_stop(recorder);
    run_close(&run);
}

/* There are more steps than a transaction holds, and they come by another lane; yet a reader that sees a round sees
 * its steps and its alerts. */
static void a_round_is_seen_with_all_that_belongs_to_it(void **state)
{
    (void)state;
    enum { STEPS = 1500, ROUNDS = 12 };
    struct run run;
    struct recorder *recorder = start_run(&run, "complete", TELEMETRY_NORMAL);
    struct store *reader = must_read(&run);
    int looks = 0;
    for (int64_t round = 0; round < ROUNDS; round++) {
        struct scene scene = a_fine_scene(round);
        scene.choices = STEPS;
        scene.waits = 1000;
        scene.ppo.kl = round / 4 % 2 ? 0.05 : 0.01; /* raised in 4, cleared in 10 */
        emit_scene(recorder, &scene, 0, STEPS);
        for (int64_t seen = -1; seen < round; looks++) {
            int steps, alerts; /* in one question, or the writer comes in between */
            const char *answer = query_text(reader,
                                            "SELECT max(round) || ' ' || (SELECT count(*) FROM step WHERE round "
                                            "= (SELECT max(round) FROM round)) || ' ' || (SELECT count(*) "
                                            "FROM alert) FROM round");
            if (sscanf(answer, "%" SCNd64 " %d %d", &seen, &steps, &alerts) != 3)
                continue;
            assert_int_equal(steps, STEPS);
            assert_int_equal(alerts, (seen >= 4) + (seen >= 10));
        }
    }
    store_close(reader);
    must_stop(recorder);
    assert_true(looks >= ROUNDS);
    run_close(&run);
}

static void the_operator_is_told_once(void **state)
{
    (void)state;
    struct run run;
    struct alert_record alert;
    struct recorder *recorder = start_run(&run, "told", TELEMETRY_NORMAL);
    const double kl[] = {0.01, 0.05, 0.05, 0.2, 0.01, 0.01, 0.01};
    const int standing[] = {0, 1, 1, 1, 1, 1, 0};
    for (int round = 0; round < 7; round++) {
        struct scene scene = a_fine_scene(round);
        scene.ppo.kl = kl[round];
        emit_scene(recorder, &scene, 0, 320);
        assert_true(recorder_flush(recorder, 10));
        assert_int_equal(recorder_alerts_standing(recorder), standing[round]);
        bool told_now = recorder_alert(recorder, &alert);
        assert_int_equal(told_now, round == 1 || round == 3);
        if (told_now) {
            assert_int_equal(alert.round, round);
            assert_string_equal(alert.severity, round == 1 ? "warn" : "critical");
            assert_string_equal(alert.text, round == 1 ? "KL 0.050" : "KL 0.200");
            assert_false(recorder_alert(recorder, &alert));
        }
    }
    struct recorder_totals totals = totals_of(recorder);
    assert_int_equal(totals.emitted[RECORD_ALERT], 3);
    assert_int_equal(totals.waiting, 0);
    must_stop(recorder);
    run_close(&run);
    recorder = start_run(&run, "silent", TELEMETRY_OFF);
    for (int round = 0; round < 3; round++) {
        struct scene scene = a_fine_scene(round);
        scene.round.rollbacks = 1000;
        emit_scene(recorder, &scene, 0, 320);
    }
    assert_true(recorder_flush(recorder, 10));
    assert_false(recorder_alert(recorder, &alert));
    assert_false(recorder_alert(NULL, &alert));
    assert_int_equal(recorder_alerts_standing(NULL), 0);
    must_stop(recorder);
    run_close(&run);
}

/* ---- a record that says anything --------------------------------------------------------------------------------- */

static void change(const struct run *run, const char *sql)
{
    char path[2 * PATH_MAX];
    sqlite3 *db = NULL;
    snprintf(path, sizeof path, "%s/telemetry.db", run->path);
    if (sqlite3_open(path, &db) != SQLITE_OK || sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s", sqlite3_errmsg(db));
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void to_alerts(void *context, enum record_kind kind, const void *record, size_t bytes)
{
    struct record_row row = {.kind = kind};
    memcpy(&row.record, record, bytes);
    alerts_look(context, &row);
}

/* The alerts of a run whose record was changed by `sql`. */
static struct alerts *restored(const char *name, int rounds, const char *sql)
{
    struct run run;
    struct esper_error error = {0};
    struct recorder *recorder = start_run(&run, name, TELEMETRY_NORMAL);
    for (int round = 0; round < rounds; round++) {
        struct scene scene = a_fine_scene(round);
        scene.forced = 220;
        scene.waits = 82; /* too many, three rounds in a row */
        emit_scene(recorder, &scene, 0, 320);
    }
    must_stop(recorder);
    change(&run, sql);
    struct store *store = must_open(&run);
    struct alerts *alerts = alerts_create(PLANNED, &error);
    if (!alerts || alerts_restore(alerts, store, &error) != ESPER_OK)
        fail_msg("%s: %s", name, error.text);
    store_close(store);
    run_close(&run);
    return alerts;
}

/* What the next round raises, one rule only; "": nothing. */
static const char *raised_next(struct alerts *alerts, int waits)
{
    struct alert_record out[ALERTS_MAX];
    struct scene scene = a_fine_scene(77);
    scene.forced = 220;
    scene.waits = waits;
    for (int i = 0; i < 320; i++)
        give_step(&scene, i, to_alerts, alerts);
    give_rest(&scene, to_alerts, alerts);
    int count = alerts_judge(alerts, &scene.round, out);
    alerts_free(alerts);
    assert_in_range(count, 0, 1);
    return count ? out[0].rule : "";
}

/* Rounds at both ends of 64 bits: of the last ones the steps are counted, and of no round anything twice. */
static void rounds_may_have_any_number(void **state)
{
    (void)state;
    assert_string_equal(raised_next(restored("third", 2, ""), 82), "wait");
    assert_string_equal(raised_next(restored("second", 1, ""), 82), "");
    /* Steps before all others belong to no round, so that two are left; what they raised then is forgotten. */
    assert_string_equal(raised_next(restored("least", 3,
                                             "UPDATE step SET round = round - 9223372036854775807 - 1;"
                                             "UPDATE round SET round = round - 9223372036854775807 - 1;"
                                             "UPDATE ppo SET round = round - 9223372036854775807 - 1;"
                                             "DELETE FROM alert"),
                                    82),
                        "wait");
    assert_string_equal(raised_next(restored("last", 1,
                                             "UPDATE round SET round = 9223372036854775807;"
                                             "INSERT INTO drops (round, step, name, reason, count) VALUES"
                                             " (9223372036854775807, 0, 'round', 'full', 9223372036854775807)"),
                                    50),
                        "");
    assert_string_equal(raised_next(restored("both", 2,
                                             "UPDATE round SET round = -9223372036854775807 - 1 WHERE round = 0;"
                                             "UPDATE round SET round = 9223372036854775807 WHERE round = 1"),
                                    50),
                        "");
}

/* Tables without types: numbers that are texts, texts that are nothing, or longer than any field. */
static void columns_may_hold_anything(void **state)
{
    (void)state;
    struct alerts *alerts = restored(
        "anything", 3,
        "CREATE TABLE untyped AS SELECT * FROM alert; DROP TABLE alert; ALTER TABLE untyped RENAME TO alert;"
        "DELETE FROM alert;"
        "INSERT INTO alert (round, rule, state, severity, value, threshold, text) VALUES"
        " (1, 'kl', 'raised', 'critical', 'no number', zeroblob(0), printf('%.*c', 100000, 'x')),"
        " (2, 'cell_high', 'raised', zeroblob(8), NULL, NULL, zeroblob(0)),"
        " (NULL, zeroblob(0), NULL, NULL, NULL, NULL, NULL), ('x', 'no such rule', 'raised', 'warn', 1, 1, 'x');"
        "CREATE TABLE others AS SELECT * FROM step; DROP TABLE step; ALTER TABLE others RENAME TO step;"
        "UPDATE step SET op = NULL, result = zeroblob(0), env = 'x', forced = 'x', step = 1e300;"
        "CREATE TABLE heads AS SELECT * FROM ppo_head; DROP TABLE ppo_head; ALTER TABLE heads RENAME TO ppo_head;"
        "UPDATE ppo_head SET head = NULL, learnable = 'x', entropy = 9e999, log_prob_min = -9e999");
    assert_int_equal(alerts_standing(alerts), 2);
    assert_int_equal(alerts_critical(alerts), 1);
    alerts_free(alerts);
}

/* ---- the verdict of a run that has ended ------------------------------------------------------------------------- */

/* The reward rises for 40 rounds and stays; entropy is low from round 40 on. If it `falls`, so does the reward in the
 * last 10. */
static void judge_run(const char *name, bool falls, struct verdict *verdict)
{
    struct run run;
    struct query *query;
    struct esper_error error = {0};
    const struct run_status finished = {.state = RUN_FINISHED};
    struct recorder *recorder = start_run(&run, name, TELEMETRY_NORMAL);
    for (int round = 0; round < 60; round++) {
        struct scene scene = a_fine_scene(round);
        scene.forced = 220;
        scene.round.reward_mean = falls && round >= 50 ? 20 : 5 * fmin(round, 40);
        scene.round.reward_mean += round % 2;
        scene.round.germinations = scene.round.fossilizations = 3;
        if (round >= 40) {
            scene.ppo.op_entropy = 0.05;
            scene.waits = 90;
        }
        emit_scene(recorder, &scene, 0, 320);
        if (round % 20 == 19)
            assert_true(recorder_flush(recorder, 10));
    }
    must_stop(recorder);
    if (query_open(&query, &run, &error) != ESPER_OK || verdict_of(query, &run, &finished, verdict, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    query_close(query);
    run_close(&run);
}

static void a_settled_policy_has_not_failed(void **state)
{
    (void)state;
    enum { POLICY = 2 };
    struct verdict verdict;
    judge_run("settled", false, &verdict);
    assert_string_equal(verdict.gates[POLICY].name, "policy");
    assert_int_equal(verdict.gates[POLICY].state, GATE_PASS);
    assert_non_null(strstr(verdict.gates[POLICY].text, "op entropy 0.05 of 1 (settled)"));
    assert_int_equal(verdict.state, VERDICT_INTERPRETABLE);
    assert_non_null(strstr(verdict.text, "nothing to watch"));
    judge_run("forgot", true, &verdict);
    assert_int_equal(verdict.gates[POLICY].state, GATE_FAIL);
    assert_non_null(strstr(verdict.gates[POLICY].text, "op entropy 0.05 of 1 (at least 0.3)"));
    assert_int_equal(verdict.state, VERDICT_WATCH);
    assert_non_null(strstr(verdict.text, "policy: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resumed_run_raises_the_same), cmocka_unit_test(an_old_alert_still_stands),
        cmocka_unit_test(a_flush_waits_for_the_round),   cmocka_unit_test(a_round_is_seen_with_all_that_belongs_to_it),
        cmocka_unit_test(the_operator_is_told_once),     cmocka_unit_test(a_settled_policy_has_not_failed),
        cmocka_unit_test(rounds_may_have_any_number),    cmocka_unit_test(columns_may_hold_anything),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
