/* What the server says of many runs at once: a series of each, what people say of them, what they differ in. */
#include <math.h>
#include <sqlite3.h>

#include "telemetry/run_label.h"
#include "testing_served.h"

/* An overlay is the runs' own series, and the env-steps and seconds that were gone by then. */
static void overlaid(void **state)
{
    (void)state;
    cJSON *all = get_json("/api/overlay?runs=done,latest&name=round.reward_mean&points=3");
    cJSON *own = get_json("/api/run/done/series?names=round.reward_mean&points=3");
    cJSON *sums = get_json("/api/runs"),
          *again = get_json("/api/overlay?runs=done,latest&name=round.reward_mean&points=3");
    const cJSON *runs = json_find(all, "runs"), *series = at(json_find(own, "series"), 0);
    assert_int_equal(cJSON_GetArraySize(runs), 2);
    for (int i = 0; i < 2; i++) {
        const cJSON *run = at(runs, i), *line = at(json_find(sums, "runs"), 0);
        assert_string_equal(json_string(run, "name"), i ? "latest" : "done");
        assert_true(cJSON_Compare(json_find(run, "x"), json_find(own, "x"), true));
        assert_int_equal(cJSON_GetArraySize(json_find(run, "last")), 3);
        for (int k = 0; k < 3; k++) {
            double exact = at(json_find(series, "max"), k)->valuedouble;
            assert_true(fabs(at(json_find(run, "max"), k)->valuedouble - exact) <= 1e-6 * fabs(exact));
        }
        assert_true(at(json_find(run, "steps"), 2)->valuedouble == json_number(line, "env_steps"));
        assert_true(fabs(at(json_find(run, "seconds"), 2)->valuedouble / json_number(line, "seconds") - 1) < 1e-6);
        assert_true(at(json_find(run, "steps"), 0)->valuedouble < at(json_find(run, "steps"), 1)->valuedouble);
    }
    assert_true(cJSON_Compare(all, again, true)); /* from memory */
    cJSON_Delete(all);
    cJSON_Delete(own);
    cJSON_Delete(sums);
    cJSON_Delete(again);
}

/* A stranger's record whose rounds are no whole numbers: those have no place in a plot, and nothing is written there.
 */
static void odd_rounds(void **state)
{
    (void)state;
    struct job job = {"odd", live_config(5)};
    char path[PATH_MAX];
    sqlite3 *db;
    train_another(&job);
    snprintf(path, sizeof path, "%s/odd/telemetry.db", folder);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db,
                     "CREATE TABLE r AS SELECT * FROM round; DROP TABLE round; ALTER TABLE r RENAME TO round;"
                     "DELETE FROM round WHERE round < 2; UPDATE round SET round = 3.5 WHERE round = 3;"
                     "INSERT INTO round SELECT * FROM round; UPDATE round SET round = 'x' WHERE rowid = 6",
                     NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
    cJSON *own = get_json("/api/run/odd/series?names=round.reward_mean,ppo.kl");
    cJSON *all = get_json("/api/overlay?runs=odd&name=round.reward_mean");
    for (int i = 0; i < 2; i++) {
        const cJSON *x = json_find(i ? at(json_find(all, "runs"), 0) : own, "x");
        assert_int_equal(at(x, 0)->valueint, 2);
        assert_int_equal(at(x, cJSON_GetArraySize(x) - 1)->valueint, 4);
    }
    cJSON_Delete(own);
    cJSON_Delete(all);
    snprintf(path, sizeof path, "%s/odd", folder);
    remove_tree(path);
}

/* What people say of a run and what runs differ in is on the page at once. */
static void labels_and_settings(void **state)
{
    (void)state;
    struct run_label label = {0};
    struct job job = {"other", live_config(1)};
    cJSON *before = get_json("/api/settings");
    assert_int_equal(cJSON_GetArraySize(json_find(before, "keys")), 0); /* one run differs from none */
    cJSON_Delete(before);
    job.config.seed = 43;
    train_another(&job);
    assert_int_equal(run_label_add(&label, "kept", NULL), ESPER_OK);
    assert_int_equal(run_label_set_note(&label, "<b>a note</b>", NULL), ESPER_OK);
    assert_int_equal(run_label_write(done.path, &label, NULL), ESPER_OK);
    cJSON *list = get_json("/api/runs"), *one = get_json("/api/run/done"), *settings = get_json("/api/settings");
    const cJSON *names = json_find(settings, "runs"), *keys = json_find(settings, "keys"), *key, *line;
    int marked = 0, seeds = 0;
    cJSON_ArrayForEach(line, json_find(list, "runs"))
        marked += cJSON_GetArraySize(json_find(line, "tags")) == 1 && strcmp(json_string(line, "name"), "done") == 0;
    assert_int_equal(marked, 1);
    assert_string_equal(json_string(one, "note"), "<b>a note</b>");
    assert_int_equal(cJSON_GetArraySize(names), 2);
    assert_int_equal(cJSON_GetArraySize(keys), 2); /* rounds and seed */
    cJSON_ArrayForEach(key, keys) if (strcmp(json_string(key, "name"), "seed") == 0) for (int i = 0; i < 2; i++)
        seeds += strcmp(cJSON_GetStringValue(at(json_find(key, "values"), i)),
                        strcmp(cJSON_GetStringValue(at(names, i)), "done") == 0 ? "42" : "43") == 0;
    assert_int_equal(seeds, 2);
    cJSON_Delete(list);
    cJSON_Delete(one);
    cJSON_Delete(settings);
    assert_int_equal(run_label_write(done.path, &(struct run_label){0}, NULL), ESPER_OK);

    char path[PATH_MAX + 16]; /* what is no file of its own is not followed, and told */
    snprintf(path, sizeof path, "%s/label.json", done.path);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    list = get_json("/api/runs");
    int refused = 0;
    cJSON_ArrayForEach(line, json_find(list, "runs"))
        refused += json_find(line, "error") && strstr(json_string(line, "error"), "symbolic link");
    assert_int_equal(refused, 1);
    cJSON_Delete(list);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
#ifndef HAVE_HTTP
    printf("skipped: this build has no libmicrohttpd\n");
    return 0;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(overlaid, start, stop),
        cmocka_unit_test_setup_teardown(labels_and_settings, start, stop),
        cmocka_unit_test_setup_teardown(odd_rounds, start, stop),
    };
    return cmocka_run_group_tests(tests, set_up, folder_clear);
}
