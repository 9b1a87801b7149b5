/* The golden vectors of the reward. */
#include "testing.h"

#include <math.h>
#include <stdio.h>

#include "base/json.h"
#include "check/reward_vectors.h"

#define VECTORS "tests/vectors/reward_vectors.json"

static cJSON *vectors_read(void)
{
    cJSON *json;
    struct esper_error error;
    assert_int_equal(json_read_file(VECTORS, &json, &error), ESPER_OK);
    return json;
}

static void all_vectors_pass(void **state)
{
    (void)state;
    cJSON *json = vectors_read();
    struct check_report report = {0};
    check_reward_vectors(json, &report);
    assert_int_equal(report.count[CHECK_FAILED], 0);
    assert_int_equal(report.count[CHECK_PASSED], 514);
    cJSON_Delete(json);
}

/* The first number in `value`, at any depth. */
static cJSON *first_number(cJSON *value)
{
    if (cJSON_IsNumber(value))
        return value;
    for (cJSON *child = value ? value->child : NULL; child; child = child->next) {
        cJSON *found = first_number(child);
        if (found)
            return found;
    }
    return NULL;
}

/* In every case one expected number is changed, then one input is removed: every case must fail. */
static void every_case_can_fail(void **state)
{
    (void)state;
    static const char *const parts[] = {"total", "components", "after", "expected"};
    cJSON *json = vectors_read();
    struct check_report report = {0};
    int moved = 0;
    for (cJSON *one = json->child; one; one = one->next) {
        struct check_report own = {0};
        for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
            cJSON *value = first_number(cJSON_GetObjectItem(one, parts[p]));
            if (!value)
                continue;
            double right = value->valuedouble;
            cJSON list = {.type = cJSON_Array, .child = one}, *next = one->next, *prev = one->prev;
            one->next = NULL;
            one->prev = one;
            cJSON_SetNumberHelper(value, right + fmax(1e-5, fabs(right) * 1e-5));
            own = (struct check_report){0};
            check_reward_vectors(&list, &own);
            assert_int_equal(own.count[CHECK_FAILED], 1);
            cJSON_SetNumberHelper(value, right);
            one->next = next;
            one->prev = prev;
            moved++;
        }
        cJSON_DeleteItemFromArray(cJSON_GetObjectItem(one, "inputs"), 0);
    }
    assert_true(moved > 514);
    check_reward_vectors(json, &report);
    assert_int_equal(report.count[CHECK_PASSED], 0);
    assert_int_equal(report.count[CHECK_FAILED], 514);
    cJSON_Delete(json);
}

static void files_that_make_no_sense_fail(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "[]",
        "{}",
        "[1]",
        "[{\"id\": \"x\", \"kind\": \"unheard\", \"mode\": null, \"config\": {}, \"inputs\": {}}]",
        "[{\"id\": \"x\", \"kind\": \"drip\", \"mode\": null, \"config\": {\"no_such\": 1}, \"inputs\": {}}]",
        "[{\"id\": \"x\", \"kind\": \"step\", \"mode\": \"shaped\", \"config\": {}, \"inputs\": {\"slots\": 3}}]",
        "[{\"id\": \"x\", \"kind\": \"attribution\", \"mode\": null, \"config\": {}, \"inputs\": {\"n\": 40, "
        "\"acc_by_mask\": []}, \"expected\": {}}]",
        "[{\"id\": \"x\", \"kind\": \"shapley_antithetic\", \"mode\": null, \"config\": {}, \"inputs\": {\"n\": 1, "
        "\"acc_by_mask\": [1, 2], \"permutations\": [[3], [0]]}, \"expected\": {}}]",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        cJSON *json;
        struct esper_error error;
        struct check_report report = {0};
        assert_int_equal(json_parse(texts[i], strlen(texts[i]), &json, &error), ESPER_OK);
        check_reward_vectors(json, &report);
        assert_int_equal(report.count[CHECK_FAILED], 1);
        assert_int_equal(report.count[CHECK_PASSED], 0);
        cJSON_Delete(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_vectors_pass),
        cmocka_unit_test(every_case_can_fail),
        cmocka_unit_test(files_that_make_no_sense_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
