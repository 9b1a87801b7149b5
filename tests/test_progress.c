/* Progress fits the terminal: rows and lines keep their width, columns come and go by importance. */
#include <math.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/progress.h"
#include "morph/stage.h"
#include "testing.h"

static struct config config;
static int family; /* of the hosts */

/* The largest figures that a column has to hold. */
static struct session_progress a_full_round(void)
{
    struct session_progress step = {.round = 200, .val_accuracy_mean = 100, .val_accuracy_best = 100};
    step.round_done = step.has_ppo = true;
    step.stages[STAGE_TRAINING] = step.stages[STAGE_FOSSILIZED] = 24;
    step.env_steps_per_s = 1234.5;
    step.record.env_steps_per_s = 1234.5;
    step.record.images_per_s = 1234567;
    step.record.val_accuracy_mean = step.record.val_accuracy_best = step.record.test_accuracy_mean = 100;
    step.record.reward_mean = -1234.5;
    step.record.training = step.record.blending = step.record.holding = step.record.fossilized = 10;
    step.record.germinations = step.record.prunes = step.record.refusals = 1000;
    step.record.seconds = 999.9;
    step.ppo.op_entropy = 0.9876;
    step.ppo.kl = 0.12345;
    step.ppo.explained_variance = -1e9;
    step.ppo.clip_fraction = 0.987;
    step.alerts_standing = 3;
    return step;
}

static void begin(struct progress *progress)
{
    config_defaults(&config);
    config.host_family = family;
    progress_begin(progress, &config, PROGRESS_QUIET);
    progress->left = 12 * 3600;
}

static void rows_fit_every_width(void **state)
{
    (void)state;
    struct progress progress;
    begin(&progress);
    struct session_progress step = a_full_round();
    const double speeds[] = {9.96, 99.96, 9999.6, 99949, 406123, 999600, 1234567};
    for (int width = 20; width <= 240; width++) {
        step.record.images_per_s = speeds[width % 7];
        char header[512], row[512], live[512];
        unsigned columns = progress_columns(&progress, width);
        progress_header(&progress, columns, header, sizeof header);
        progress_row(&progress, columns, &step, row, sizeof row);
        assert_true(strlen(header) <= (size_t)width);
        assert_int_equal(strlen(row), strlen(header)); /* aligned: no cell is wider than its column */
        progress_live(&progress, &step, width, live, sizeof live);
        assert_true(strlen(live) <= (size_t)width);
    }
}

/* The same widths; points and bits per byte have columns of their own, and no line speaks of accuracy. */
static void text_has_points_and_bits(void **state)
{
    struct progress progress;
    char header[512], row[512], line[512];
    family = FAMILY_TRANSFORMER;
    rows_fit_every_width(state);
    begin(&progress);
    struct session_progress step = a_full_round();
    step.record.val_accuracy_mean = step.val_accuracy_mean = 37.5;
    progress_header(&progress, progress_columns(&progress, 79), header, sizeof header);
    progress_row(&progress, progress_columns(&progress, 79), &step, row, sizeof row);
    assert_non_null(strstr(header, " pts   bpb best"));
    assert_non_null(strstr(row, " 37.5 5.000  100"));
    progress_live(&progress, &step, 200, line, sizeof line);
    assert_non_null(strstr(line, "pts 37.5/100.0  5.000 bpb"));
    progress_plain(&progress, &step, line, sizeof line);
    assert_non_null(strstr(line, "score 37.5 best 100.0  bits per byte 5.000  reward"));
    family = FAMILY_CNN;
    begin(&progress);
    progress_header(&progress, progress_columns(&progress, 240), header, sizeof header);
    progress_plain(&progress, &step, line, sizeof line);
    assert_null(strstr(header, "bpb"));
    assert_non_null(strstr(line, "accuracy 37.5 best 100.0  reward"));
}

static void columns_come_with_the_room(void **state)
{
    (void)state;
    struct progress progress;
    char header[512];
    begin(&progress);
    unsigned last = 0;
    for (int width = 20; width <= 240; width++) {
        unsigned columns = progress_columns(&progress, width);
        assert_int_equal(columns & last, last); /* more room takes nothing away */
        last = columns;
    }
    progress_header(&progress, progress_columns(&progress, 79), header, sizeof header);
    const char *const wanted[] = {"round",  "ETA",   "step/s", "img/s", "acc",     "best",
                                  "reward", "H(op)", "KL",     "EV",    "T/B/H/F", "!"};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (!strstr(header, wanted[i]))
            fail_msg("80 columns do not show %s: %s", wanted[i], header);
    assert_null(strstr(header, "clip"));
    progress_header(&progress, progress_columns(&progress, 160), header, sizeof header);
    assert_non_null(strstr(header, "clip"));
    progress_header(&progress, progress_columns(&progress, 20), header, sizeof header);
    assert_non_null(strstr(header, "acc"));
    assert_null(strstr(header, "KL"));
}

static void what_does_not_learn_has_no_learning_columns(void **state)
{
    (void)state;
    struct progress progress;
    char text[512];
    begin(&progress);
    config.policy.kind = POLICY_STATIC;
    progress_header(&progress, progress_columns(&progress, 240), text, sizeof text);
    assert_null(strstr(text, "KL"));
    config.policy.kind = POLICY_PPO;
    config.evaluate = true;
    progress_header(&progress, progress_columns(&progress, 240), text, sizeof text);
    assert_null(strstr(text, "KL"));
}

/* A skipped update and a missing figure are dashes, never zeros. */
static void missing_is_a_dash(void **state)
{
    (void)state;
    struct progress progress;
    char row[512];
    begin(&progress);
    struct session_progress step = a_full_round();
    step.has_ppo = false;
    step.record.reward_mean = NAN;
    step.record.val_accuracy_mean = 12.3;
    unsigned columns = progress_columns(&progress, 79);
    progress_row(&progress, columns, &step, row, sizeof row);
    int dashes = 0;
    for (char *at = row; (at = strstr(at, " - ")) != NULL; at++)
        dashes++;
    assert_int_equal(dashes, 4); /* reward, entropy, KL, EV */
    assert_non_null(strstr(row, "12.3"));
    assert_null(strstr(row, "nan"));
}

static void plain_lines_say_everything(void **state)
{
    (void)state;
    struct progress progress;
    char line[512];
    begin(&progress);
    struct session_progress step = a_full_round();
    progress_plain(&progress, &step, line, sizeof line);
    const char *const wanted[] = {"round 200/200",  "12h00m left", "1234 env-steps/s", "1.2M images/s",
                                  "accuracy 100.0", "best 100.0",  "reward -1234",     "entropy 0.988",
                                  "KL 0.1235",      "EV ",         "T10 B10 H10 F10"};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (!strstr(line, wanted[i]))
            fail_msg("\"%s\" does not say \"%s\"", line, wanted[i]);
    step.round_done = false;
    step.round = 12;
    step.step = 7;
    progress_plain(&progress, &step, line, sizeof line);
    assert_non_null(strstr(line, "round 13/200 step 7/150"));
    assert_non_null(strstr(line, "T24 F24"));
}

/* The table counts standing alerts in one column; a line says what was raised, with the table's round number. */
static void alerts_are_counted_and_told(void **state)
{
    (void)state;
    const struct {
        int standing;
        const char *cell;
    } cases[] = {{0, " "}, {3, "3"}, {9, "9"}, {12, "+"}};
    struct progress progress;
    char row[512], line[512];
    begin(&progress);
    struct session_progress step = a_full_round();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        step.alerts_standing = cases[i].standing;
        progress_row(&progress, progress_columns(&progress, 79), &step, row, sizeof row);
        assert_string_equal(row + strlen(row) - 1, cases[i].cell); /* the last column of a usual terminal */
    }
    struct alert_record alert = {.round = 11, .rule = "kl", .state = "raised", .severity = "warn", .text = "KL 0.031"};
    progress_alert(&alert, line, sizeof line);
    assert_string_equal(line, "! round 12: KL 0.031");
    alert.severity = "critical";
    progress_alert(&alert, line, sizeof line);
    assert_string_equal(line, "! round 12: KL 0.031 (critical)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_fit_every_width),        cmocka_unit_test(text_has_points_and_bits),
        cmocka_unit_test(columns_come_with_the_room),  cmocka_unit_test(what_does_not_learn_has_no_learning_columns),
        cmocka_unit_test(missing_is_a_dash),           cmocka_unit_test(plain_lines_say_everything),
        cmocka_unit_test(alerts_are_counted_and_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
