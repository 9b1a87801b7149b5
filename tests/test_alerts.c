/* Every rule raises, worsens and clears when its table says so. */
#include "testing_alerts.h"

static void to_alerts(void *context, enum record_kind kind, const void *record, size_t bytes)
{
    struct record_row row = {.kind = kind};
    memcpy(&row.record, record, bytes);
    alerts_look(context, &row);
}

static struct alerts *make_alerts(void)
{
    struct esper_error error;
    struct alerts *alerts = alerts_create(PLANNED, &error);
    assert_non_null(alerts);
    return alerts;
}

/* What the rule reports for the round: "", "warn", "critical" or "cleared". */
static const char *told(struct alerts *alerts, const struct scene *scene, const char *rule)
{
    struct alert_record rows[ALERTS_MAX];
    const char *said = "";
    for (int i = 0; i < scene->choices + scene->forced; i++)
        give_step(scene, i, to_alerts, alerts);
    give_rest(scene, to_alerts, alerts);
    int count = alerts_judge(alerts, &scene->round, rows);
    for (int i = 0; i < count; i++) {
        if (strcmp(rows[i].rule, rule) != 0)
            fail_msg("round %d: %s: %s %s", (int)scene->round.round, rows[i].rule, rows[i].state, rows[i].text);
        assert_int_equal(rows[i].round, scene->round.round);
        assert_true(strlen(rows[i].text) > 0);
        said = strcmp(rows[i].state, "cleared") == 0 ? rows[i].state : rows[i].severity;
    }
    return said;
}

/* ---- the rules of the update ------------------------------------------------------------------------------------- */

static struct scene scene_with(int64_t number, int i, double value)
{
    struct scene scene = a_fine_scene(number);
    memcpy((char *)&scene.ppo + cases[i].field, &value, sizeof value);
    return scene;
}

static void fine_rounds_say_nothing(void **state)
{
    (void)state;
    struct alerts *alerts = make_alerts();
    for (int round = 0; round < 100; round++) {
        struct scene scene = a_fine_scene(round);
        assert_string_equal(told(alerts, &scene, "none"), "");
    }
    assert_int_equal(alerts_standing(alerts), 0);
    alerts_free(alerts);
}

static void warm_up(struct alerts *alerts, int i, double value)
{
    for (int round = 0; round < cases[i].warm_up; round++) {
        struct scene scene = scene_with(round, i, value);
        assert_string_equal(told(alerts, &scene, cases[i].rule), "");
    }
    assert_int_equal(alerts_standing(alerts), 0);
}

static void rules_raise_worsen_and_clear(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct alerts *alerts = make_alerts();
        int round = cases[i].warm_up;
        struct scene scene;
        warm_up(alerts, i, cases[i].critical);
        for (int n = 1; n <= cases[i].warn_rounds + 2; n++, round++) { /* raised once, in the n-th round */
            scene = scene_with(round, i, cases[i].warn);
            assert_string_equal(told(alerts, &scene, cases[i].rule), n == cases[i].warn_rounds ? "warn" : "");
        }
        for (int n = 1; n <= cases[i].critical_rounds + 2; n++, round++) { /* again, because it is worse */
            scene = scene_with(round, i, cases[i].critical);
            assert_string_equal(told(alerts, &scene, cases[i].rule), n == cases[i].critical_rounds ? "critical" : "");
        }
        scene = scene_with(round++, i, cases[i].warn); /* a little better is not over */
        assert_string_equal(told(alerts, &scene, cases[i].rule), "");
        assert_int_equal(alerts_critical(alerts), 1);
        const char *const pattern = "ggwgggg"; /* good or warn */
        for (int n = 0; pattern[n]; n++, round++) {
            scene = scene_with(round, i, pattern[n] == 'g' ? cases[i].good : cases[i].warn);
            assert_string_equal(told(alerts, &scene, cases[i].rule), n == 5 ? "cleared" : "");
            assert_int_equal(alerts_standing(alerts), n < 5);
        }
        alerts_free(alerts);
    }
}

/* One good round between bad ones restarts the count. */
static void streaks_are_of_rounds_in_a_row(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct alerts *alerts = make_alerts();
        int round = cases[i].warm_up;
        warm_up(alerts, i, cases[i].good);
        for (int turn = 0; turn < 4 && cases[i].warn_rounds > 1; turn++)
            for (int n = 0; n < cases[i].warn_rounds; n++, round++) {
                struct scene scene = scene_with(round, i, n ? cases[i].critical : cases[i].good);
                assert_string_equal(told(alerts, &scene, cases[i].rule), "");
            }
        alerts_free(alerts);
    }
}

/* A number that is missing changes nothing: it neither raises nor counts, for better or worse. */
static void missing_numbers_change_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct alerts *alerts = make_alerts();
        int round = cases[i].warm_up;
        struct scene scene;
        warm_up(alerts, i, cases[i].good);
        for (int n = 1; n <= cases[i].warn_rounds; n++) {
            for (int gap = 0; gap < 3; gap++) {
                scene = scene_with(round++, i, gap == 1 ? (double)INFINITY : (double)NAN);
                scene.ppo.epochs = 0; /* no step was made: nothing could be measured */
                scene.learns = gap != 2;
                assert_string_equal(told(alerts, &scene, cases[i].rule), "");
            }
            scene = scene_with(round++, i, cases[i].warn);
            assert_string_equal(told(alerts, &scene, cases[i].rule), n == cases[i].warn_rounds ? "warn" : "");
        }
        for (int n = 1; n <= ALERTS_GOOD; n++) {
            scene = scene_with(round++, i, (double)NAN);
            scene.ppo.epochs = 0;
            assert_string_equal(told(alerts, &scene, cases[i].rule), "");
            scene = scene_with(round++, i, cases[i].good);
            assert_string_equal(told(alerts, &scene, cases[i].rule), n == ALERTS_GOOD ? "cleared" : "");
        }
        alerts_free(alerts);
    }
}

static void what_is_not_finite_is_critical_at_once(void **state)
{
    (void)state;
    const size_t fields[] = {PPO(policy_loss), PPO(value_loss), PPO(entropy),   PPO(kl),         PPO(ratio_mean),
                             PPO(ratio_max),   PPO(ratio_min),  PPO(grad_norm), PPO(hidden_rms), PPO(cell_rms)};
    const double bad[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        for (int j = 0; j < 3; j++) {
            struct alerts *alerts = make_alerts();
            struct scene scene = a_fine_scene(0);
            memcpy((char *)&scene.ppo + fields[i], &bad[j], sizeof bad[j]);
            assert_string_equal(told(alerts, &scene, "not_finite"), "critical");
            alerts_free(alerts);
        }
    struct alerts *alerts = make_alerts();
    struct scene scene = a_fine_scene(0);
    scene.ppo.nonfinite = 4;
    scene.ppo.epochs = 0;
    scene.ppo.value_loss = scene.ppo.kl = scene.ppo.grad_norm = NAN;
    assert_string_equal(told(alerts, &scene, "update_skipped"), "critical");
    alerts_free(alerts);
}

/* ---- heads ------------------------------------------------------------------------------------------------------- */

static void heads_are_watched_one_by_one(void **state)
{
    (void)state;
    const double collapse[HEADS] = {0.10, 0.05, 0.08, 0.05, 0.08, 0.08, 0.08, 0.08};
    for (int head = 0; head < HEADS; head++) {
        struct alerts *alerts = make_alerts();
        char rule[64];
        snprintf(rule, sizeof rule, "head_entropy_%s", head_names[head]);
        /* below (b), between it and one and a half (z), above (a), nothing to learn (n): what is reported after each */
        const char *const pattern = "bbabznzbbnaaanbb", *const said = "______w_c___x___";
        for (int round = 0; pattern[round]; round++) {
            struct scene scene = a_fine_scene(round);
            double share = pattern[round] == 'a' ? 1.51 : pattern[round] == 'z' ? 1.49 : 0.99;
            scene.head[head].entropy = share * collapse[head];
            scene.head[head].learnable = pattern[round] == 'n' ? 0.019 : 0.021;
            const char *expected = said[round] == 'w' ? "warn" : said[round] == 'c' ? "critical" : "";
            assert_string_equal(told(alerts, &scene, rule), said[round] == 'x' ? "cleared" : expected);
        }
        alerts_free(alerts);
    }
}

static void dead_heads_are_found(void **state)
{
    (void)state;
    for (int head = 0; head < HEADS; head++) {
        struct alerts *alerts = make_alerts();
        char rule[64];
        snprintf(rule, sizeof rule, "dead_head_%s", head_names[head]);
        for (int round = 0; round < 12; round++) {
            struct scene scene = a_fine_scene(round);
            scene.head[head].grad_norm = round < 6 ? 0.9e-6 : 1.1e-6;
            const char *expected = round == 1 ? "warn" : round == 4 ? "critical" : round == 8 ? "cleared" : "";
            assert_string_equal(told(alerts, &scene, rule), expected);
        }
        struct scene scene = a_fine_scene(12);
        scene.head[head].grad_norm = 0;
        scene.head[head].learnable = 0;
        for (int round = 12; round < 20; round++)
            assert_string_equal(told(alerts, &scene, rule), ""); /* it had nothing to learn from */
        alerts_free(alerts);
    }
    struct alerts *alerts = make_alerts();
    struct scene scene = a_fine_scene(0);
    scene.head[5].log_prob_min = -51;
    assert_string_equal(told(alerts, &scene, "log_prob"), "warn");
    scene.head[2].log_prob_min = -101;
    assert_string_equal(told(alerts, &scene, "log_prob"), "critical");
    alerts_free(alerts);
}

/* ---- policies that settle ---------------------------------------------------------------------------------------- */

/* Ten rounds are a letter: what they pay on average, from a (nothing) to j (90), with some noise. */
static double paid(const char *course, int round)
{
    return 10.0 * (course[round / 10] - 'a') + (round % 2 ? 3 : -3);
}

/* Plays rounds of which all from the `low`-th on have so little entropy that it is critical, or so many WAITs; the
 * round in which each of the three rules was raised first, -1: none. */
static void play_low(const char *course, int planned, int low, int raised[3], int *standing)
{
    static const char *const rules[] = {"entropy", "head_entropy_blueprint", "wait"};
    struct esper_error error;
    struct alerts *alerts = alerts_create(planned, &error);
    struct alert_record rows[ALERTS_MAX];
    raised[0] = raised[1] = raised[2] = -1;
    for (int round = 0; course[round / 10]; round++) {
        struct scene scene = a_fine_scene(round);
        scene.round.reward_mean = paid(course, round);
        scene.forced = 220;
        if (round >= low) {
            scene.ppo.op_entropy = 0.05;
            scene.head[1].entropy = 0.01;
            scene.waits = 98;
        }
        for (int i = 0; i < scene.choices + scene.forced; i++)
            give_step(&scene, i, to_alerts, alerts);
        give_rest(&scene, to_alerts, alerts);
        int count = alerts_judge(alerts, &scene.round, rows);
        for (int i = 0; i < count; i++)
            for (int rule = 0; rule < 3; rule++)
                if (strcmp(rows[i].rule, rules[rule]) == 0 && strcmp(rows[i].state, "raised") == 0 && raised[rule] < 0)
                    raised[rule] = round;
    }
    *standing = alerts_critical(alerts);
    alerts_free(alerts);
}

/* Little entropy is what a policy that knows what pays has; in one that has learned nothing, or forgets, it is bad. */
static void low_entropy_is_read_by_schedule_and_outcome(void **state)
{
    (void)state;
    const struct {
        const char *name, *course;
        int planned, low;
        int first, last; /* rounds in which entropy is reported; -1: never */
        int standing;    /* critical alerts at the end */
    } courses[] = {
        {"rises, then settles early", "aacfhh", 200, 35, -1, -1, 0},
        {"rises to the end", "abcdef", 60, 30, -1, -1, 0},
        {"loses a little of it", "abcfhgg", 70, 40, -1, -1, 0},
        {"level and late", "bbbbbb", 60, 40, -1, -1, 0},
        {"collapses before it has learned", "aaaaaa", 200, 20, 20, 20, 3},
        {"early in a short run", "aaaaaa", 60, 20, 20, 20, 0}, /* cleared later: it is level, and half is over */
        {"falls in the end", "abcfhhc", 70, 40, 60, 67, 3},
        {"low where it fell to stays bad", "abcfhhbbb", 90, 40, 60, 67, 3},
        {"falls and comes back", "abcfhhchhh", 100, 40, 60, 67, 0},
    };
    for (size_t i = 0; i < sizeof courses / sizeof courses[0]; i++) {
        int raised[3], standing;
        play_low(courses[i].course, courses[i].planned, courses[i].low, raised, &standing);
        if (raised[0] < courses[i].first || raised[0] > courses[i].last || standing != courses[i].standing)
            fail_msg("%s: raised in round %d, %d stand in the end", courses[i].name, raised[0], standing);
        for (int rule = 1; rule < 3; rule++) /* these have a patience of three rounds */
            if (courses[i].first < 0 ? raised[rule] >= 0 : raised[rule] < raised[0] || raised[rule] > raised[0] + 2)
                fail_msg("%s: rule %d raised in round %d", courses[i].name, rule, raised[rule]);
    }
}

/* The line says what makes it bad. */
static void low_entropy_says_why(void **state)
{
    (void)state;
    const char *const course = "acfhhaa", *const why[] = {"op entropy 0.05, too early",
                                                          "op entropy 0.05, reward falls"};
    for (int fell = 0; fell < 2; fell++) {
        struct alerts *alerts = make_alerts();
        struct alert_record rows[ALERTS_MAX];
        int told_of = 0;
        for (int round = 0; round < 70; round++) {
            struct scene scene = a_fine_scene(round);
            scene.round.reward_mean = fell ? paid(course, round) : 0;
            scene.ppo.op_entropy = round >= 25 ? 0.05 : 0.5;
            give_rest(&scene, to_alerts, alerts);
            int count = alerts_judge(alerts, &scene.round, rows);
            if (count)
                assert_string_equal(rows[0].text, why[fell]);
            told_of += count;
        }
        assert_int_equal(told_of, 1);
        alerts_free(alerts);
    }
}

/* ---- rounds among others ----------------------------------------------------------------------------------------- */

static void waiting_counts_where_there_was_a_choice(void **state)
{
    (void)state;
    const struct {
        int choices, waits, forced, refused;
        const char *rule, *said;
    } rounds[] = {
        {100, 79, 220, 0, "wait", ""},
        {100, 81, 220, 0, "wait", "warn"},
        {100, 96, 220, 0, "wait", "critical"},
        {0, 0, 320, 0, "wait", ""},
        {19, 19, 301, 0, "wait", ""}, /* too few to say */
        {100, 50, 220, 24, "refusals", ""},
        {100, 50, 220, 26, "refusals", "warn"},
        {100, 50, 220, 41, "refusals", "critical"},
        {40, 25, 280, 10, "refusals", ""},
    };
    for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
        struct alerts *alerts = make_alerts();
        for (int round = 0; round < 3; round++) {
            struct scene scene = a_fine_scene(round);
            scene.choices = rounds[i].choices;
            scene.waits = rounds[i].waits;
            scene.forced = rounds[i].forced;
            scene.refused = rounds[i].refused;
            assert_string_equal(told(alerts, &scene, rounds[i].rule), round == 2 ? rounds[i].said : "");
        }
        alerts_free(alerts);
    }
}

/* Steps of a round count only for it, whatever rounds came before or are already in progress. */
static void steps_count_for_their_round(void **state)
{
    (void)state;
    struct alerts *alerts = make_alerts();
    for (int round = 0; round < 300; round++) {
        struct scene scene = a_fine_scene(round), next = a_fine_scene(round + 1);
        scene.waits = round >= 100 ? 82 : 60;
        next.waits = round + 1 >= 100 ? 82 : 60;
        scene.forced = next.forced = 220;
        int begun = round % 2 ? 0 : 120; /* steps of the next round that come early */
        for (int i = 0; i < begun; i++)
            give_step(&next, i, to_alerts, alerts);
        for (int i = round % 2 ? 120 : 0; i < 320; i++)
            give_step(&scene, i, to_alerts, alerts);
        scene.choices = scene.forced = 0; /* they were given */
        assert_string_equal(told(alerts, &scene, "wait"), round == 102 ? "warn" : "");
    }
    alerts_free(alerts);
}

/* Steps that were thinned are all WAITs; the share is that of the steps that are always recorded. */
static void thinned_rounds_are_sampled(void **state)
{
    (void)state;
    for (int every = 0; every < 2; every++) {
        struct alerts *alerts = make_alerts();
        struct alert_record rows[ALERTS_MAX];
        int warned = 0;
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < 320; i++) {
                int step = i % 40 + 1;
                bool wait = every ? i % 3 != 0 : i % 12 != 0; /* 0.67 or 0.92 of all; so of every tenth step */
                struct step_record row = {
                    .round = round, .step = step, .op = wait ? "wait" : "prune", .result = "done"};
                if (!wait || step % 10 == 0)
                    to_alerts(alerts, RECORD_STEP, &row, sizeof row);
            }
            struct scene scene = a_fine_scene(round);
            struct round_record ended = {.round = round, .env_steps = 320};
            give_rest(&scene, to_alerts, alerts);
            warned += alerts_judge(alerts, &ended, rows);
        }
        assert_int_equal(warned, every ? 0 : 1);
        if (warned)
            assert_string_equal(rows[0].rule, "wait");
        alerts_free(alerts);
    }
}

/* A control, or a policy that is evaluated, may WAIT as often as it likes. */
static void who_does_not_learn_may_wait(void **state)
{
    (void)state;
    struct alerts *alerts = make_alerts();
    for (int round = 0; round < 10; round++) {
        struct scene scene = a_fine_scene(round);
        scene.waits = 100;
        scene.forced = 220;
        scene.learns = false;
        assert_string_equal(told(alerts, &scene, "none"), "");
    }
    alerts_free(alerts);
}

static void rollbacks_are_a_rate(void **state)
{
    (void)state;
    struct alerts *alerts = make_alerts();
    struct scene scene = a_fine_scene(0);
    for (int round = 0; round < 40; round++) { /* 160 episodes in the window of 20 rounds */
        scene.round.round = round;
        scene.round.rollbacks = round == 25;
        assert_string_equal(told(alerts, &scene, "rollbacks"), ""); /* one is less than 1 per 100 */
    }
    scene.round.rollbacks = 1;
    assert_string_equal(told(alerts, &scene, "rollbacks"), "warn"); /* with that of 25: 1.25 */
    scene.round.rollbacks = 15;
    assert_string_equal(told(alerts, &scene, "rollbacks"), "critical");
    alerts_free(alerts);
    for (int start = 1; start <= 15; start += 14) { /* at the very start, as if there had been 100 episodes */
        alerts = make_alerts();
        scene.round.rollbacks = start;
        assert_string_equal(told(alerts, &scene, "rollbacks"), start == 1 ? "warn" : "critical");
        alerts_free(alerts);
    }
}

/* A record that is read again may hold any number: sums of them do not overflow. */
static void any_number_can_be_added(void **state)
{
    (void)state;
    struct alerts *alerts = make_alerts();
    struct scene scene = a_fine_scene(0);
    scene.round.rollbacks = INT64_MAX;
    assert_string_equal(told(alerts, &scene, "rollbacks"), "critical");
    const struct record_row lost = {.kind = RECORD_DROPS,
                                    .record.drops = {.name = "round", .reason = "full", .count = INT64_MAX}};
    for (int round = 1; round < 4; round++) {
        alerts_look(alerts, &lost);
        alerts_look(alerts, &lost);
        assert_string_equal(told(alerts, &scene, "critical_rows_lost"), round == 1 ? "critical" : "");
        assert_true(alerts_critical(alerts) >= 2); /* neither is taken back */
    }
    alerts_free(alerts);
}

static void accuracy_and_gradient_against_their_past(void **state)
{
    (void)state;
    const struct {
        double accuracy, gradient;
        const char *rule, *said;
    } rounds[] = {{45.5, 4, "performance", ""},
                  {44.5, 4, "performance", "warn"},
                  {37, 4, "performance", "critical"},
                  {60, 4, "performance", ""},
                  {50, 5.8, "gradient_growth", ""},
                  {50, 7.5, "gradient_growth", "warn"},
                  {50, 40, "gradient_growth", "critical"},
                  {50, 0.1, "gradient_growth", ""}};
    for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++)
        for (int early = 0; early < 2; early++) {
            struct alerts *alerts = make_alerts();
            int round = 0, bad = strcmp(rounds[i].rule, "performance") == 0 ? 2 : 3;
            struct scene scene;
            for (; round < (early ? 6 : 30); round++) {
                scene = a_fine_scene(round);
                assert_string_equal(told(alerts, &scene, rounds[i].rule), "");
            }
            for (int n = 1; n <= bad; n++, round++) {
                scene = a_fine_scene(round);
                scene.round.val_accuracy_mean = rounds[i].accuracy;
                scene.ppo.grad_norm = rounds[i].gradient;
                assert_string_equal(told(alerts, &scene, rounds[i].rule), n == bad && !early ? rounds[i].said : "");
            }
            alerts_free(alerts);
        }
}

static void lost_rows_are_told(void **state)
{
    (void)state;
    const struct {
        const char *table, *reason, *rule, *said;
        int count;
    } losses[] = {{"step", "full", "rows_lost", "warn", 1},
                  {"phase", "full", "rows_lost", "critical", 4},
                  {"life", "full", "critical_rows_lost", "critical", 1},
                  {"step", "thinned", "rows_lost", "", 1000},
                  {"no such table", "full", "rows_lost", "", 1000}};
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
        struct alerts *alerts = make_alerts();
        struct scene scene = a_fine_scene(0);
        struct drops_record row = {.name = losses[i].table, .reason = losses[i].reason, .count = losses[i].count};
        to_alerts(alerts, RECORD_DROPS, &row, sizeof row);
        assert_string_equal(told(alerts, &scene, losses[i].rule), losses[i].said);
        alerts_free(alerts);
    }
}

static void the_table_is_sound(void **state)
{
    (void)state;
    for (int i = 0; i < alert_rule_count; i++) {
        const struct alert_rule *rule = &alert_rules[i];
        char text[256];
        for (int j = 0; j < i; j++)
            assert_string_not_equal(rule->name, alert_rules[j].name);
        if (isfinite(rule->warn))
            assert_true(rule->below ? rule->critical <= rule->warn : rule->critical >= rule->warn);
        assert_true(rule->warn_rounds >= 1 && rule->critical_rounds >= rule->warn_rounds && rule->warm_up >= 0);
        const double numbers[] = {rule->warn, rule->critical, 20 * rule->critical, 99.4};
        const int why = rule->settles ? (int)strlen(", reward falls") : 0;
        for (size_t n = 0; n < sizeof numbers / sizeof numbers[0]; n++)
            assert_true(snprintf(text, sizeof text, rule->text, numbers[n]) + why < RECORD_TEXT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_sound),
        cmocka_unit_test(any_number_can_be_added),
        cmocka_unit_test(fine_rounds_say_nothing),
        cmocka_unit_test(rules_raise_worsen_and_clear),
        cmocka_unit_test(streaks_are_of_rounds_in_a_row),
        cmocka_unit_test(missing_numbers_change_nothing),
        cmocka_unit_test(what_is_not_finite_is_critical_at_once),
        cmocka_unit_test(heads_are_watched_one_by_one),
        cmocka_unit_test(dead_heads_are_found),
        cmocka_unit_test(low_entropy_is_read_by_schedule_and_outcome),
        cmocka_unit_test(low_entropy_says_why),
        cmocka_unit_test(waiting_counts_where_there_was_a_choice),
        cmocka_unit_test(steps_count_for_their_round),
        cmocka_unit_test(thinned_rounds_are_sampled),
        cmocka_unit_test(who_does_not_learn_may_wait),
        cmocka_unit_test(rollbacks_are_a_rate),
        cmocka_unit_test(accuracy_and_gradient_against_their_past),
        cmocka_unit_test(lost_rows_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
