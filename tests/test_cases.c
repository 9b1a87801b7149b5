/* The case table: what it deals out, how answers are judged, and that a backend which lacks a case says so. */
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check/networks.h"
#include "check/numeric.h"
#include "selftest/cases.h"

/* ---- networks ---------------------------------------------------------------------------------------------------- */

static void every_blueprint_is_dealt_in_every_way(void **state)
{
    bool training[BLUEPRINT_COUNT][6] = {{0}}, blended[BLUEPRINT_COUNT][6] = {{0}}, by[BLUEPRINT_COUNT][4] = {{0}};
    bool frozen[BLUEPRINT_COUNT] = {0}, off[BLUEPRINT_COUNT] = {0}, whole[BLUEPRINT_COUNT] = {0};
    struct network_case network;
    (void)state;
    for (int i = 0; network_case_at(i, &network); i++)
        for (int j = 0; j < network.seats; j++) {
            const struct network_seat *seat = &network.seat[j];
            if (seat->mode == SLOT_SKIP)
                continue;
            if (strcmp(network.group, "cifar") == 0) /* the host that bf16 has kernels for */
                (seat->mode == SLOT_STE ? training : blended)[seat->blueprint][j] = true;
            if (seat->mode == SLOT_STE)
                continue;
            by[seat->blueprint][seat->algorithm] = true;
            frozen[seat->blueprint] |= seat->frozen;
            off[seat->blueprint] |= seat->alpha == 0;
            whole[seat->blueprint] |= seat->alpha == 1;
        }
    for (int b = 0; b < BLUEPRINT_COUNT; b++) {
        for (int j = 0; j < 6; j++)
            assert_true(training[b][j] && blended[b][j]);
        assert_true(by[b][ALGORITHM_ADD] && by[b][ALGORITHM_MULTIPLY] && by[b][ALGORITHM_GATE]);
        assert_true(frozen[b] && off[b] && whole[b]);
    }
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static double distance_of(enum answer_kind kind, double floor, double got, double want)
{
    struct answers a = {.count = 0}, b = {.count = 0};
    answers_add(&a, kind, floor, 2, "x")[1] = got;
    answers_add(&b, kind, floor, 2, "x")[1] = want;
    const double distance = answer_distance(answers_find(&a, "x"), answers_find(&b, "x"));
    answers_free(&a);
    answers_free(&b);
    return distance;
}

static void distances_are_relative_except_of_counts(void **state)
{
    (void)state;
    assert_true(fabs(distance_of(ANSWER_VALUES, 0, 11, 10) - 0.1) < 1e-12);
    assert_true(fabs(distance_of(ANSWER_GRADIENTS, 100, 11, 10) - 1 / sqrt(10100)) < 1e-12);
    assert_true(distance_of(ANSWER_COUNTS, 0, 11, 10) == 1);
    assert_true(isinf(distance_of(ANSWER_VALUES, 0, 1, 0)));
    assert_true(distance_of(ANSWER_VALUES, 0, 0, 0) == 0);
    assert_false(distance_of(ANSWER_VALUES, 0, NAN, 10) <= 1e30);
    assert_false(distance_of(ANSWER_COUNTS, 0, NAN, 10) <= 1e30);
}

/* ---- backends ---------------------------------------------------------------------------------------------------- */

static char lacked[4000];
static int failed;

static void note_result(void *context, enum check_result result, const char *name, double error, double limit,
                        const char *note)
{
    (void)context, (void)error, (void)limit, (void)note;
    failed += result == CHECK_FAILED;
    if (result == CHECK_LACKED)
        snprintf(lacked + strlen(lacked), sizeof lacked - strlen(lacked), "[%s]", name);
}

static const struct numeric_case *row_of(const char *table)
{
    const struct numeric_case *row = numeric_checks_at(0)->cases;
    while (strcmp(row->name, table) != 0)
        row++;
    return row;
}

static int cases_of(const char *table)
{
    struct answers answers = {.count = 0};
    int count = 0;
    while (row_of(table)->answer(NULL, count, &answers) != ANSWER_END)
        count++;
    answers_free(&answers);
    return count;
}

/* Has no policies and no hosts without slots; a gradient is off by a thousandth. */
static enum answer_status answer_badly(const struct check_backend *backend, const char *table, int index,
                                       struct answers *answers)
{
    if (strcmp(table, "policy") == 0 || row_of(table)->answer(NULL, index, answers) == ANSWER_END ||
        strcmp(answers->group, "no slots") == 0)
        return ANSWER_LACKED;
    row_of(table)->answer(backend, index, answers);
    struct answer *gradient = (struct answer *)answers_find(answers, "host gradient");
    for (size_t i = 0; i < gradient->count; i++)
        gradient->value[i] *= 1.001;
    return ANSWER_GIVEN;
}

static void a_backend_is_judged_and_says_what_it_lacks(void **state)
{
    const struct check_backend backend = {.name = "bad", .limit = BACKEND_FP32};
    struct check_report report = {.show = note_result, .filter = "o"};
    (void)state;
    cases_on_backend(&report, &backend, answer_badly);
    assert_non_null(strstr(lacked, "[conv]"));          /* has no operations of its own */
    assert_non_null(strstr(lacked, "[policy 3 x 7, ")); /* each by its name */
    assert_non_null(strstr(lacked, "[network no slots]"));
    assert_null(strstr(lacked, "[network small]"));
    assert_int_equal(failed, cases_of("network") - 1 + cases_of("transformer")); /* each in its gradient alone */
}

static int failures_without(enum answer_kind kind, bool rough)
{
    const struct check_backend backend = {.name = "silent", .rough = rough, .limit = BACKEND_BF16};
    struct check_report report = {.show = note_result};
    struct answers nothing = {.count = 0}, want = {.count = 0};
    answers_add(&want, kind, 0, 1, "x");
    failed = 0;
    answers_compare(&report, "network", &backend, &nothing, &want);
    answers_free(&want);
    return failed;
}

static void an_array_left_out_is_a_failure(void **state)
{
    (void)state;
    assert_int_equal(failures_without(ANSWER_VALUES, false), 1);
    assert_int_equal(failures_without(ANSWER_COUNTS, false), 1);
    assert_int_equal(failures_without(ANSWER_VALUES, true), 0); /* logits and evaluations */
    assert_int_equal(failures_without(ANSWER_GRADIENTS, true), 1);
    assert_int_equal(failures_without(ANSWER_INPUT, false), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_blueprint_is_dealt_in_every_way),
        cmocka_unit_test(distances_are_relative_except_of_counts),
        cmocka_unit_test(a_backend_is_judged_and_says_what_it_lacks),
        cmocka_unit_test(an_array_left_out_is_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
