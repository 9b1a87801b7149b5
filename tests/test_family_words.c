/* What a family's scores are called, wherever a person reads them: accuracy in % of images, score in points with bits
 * per byte beside it of text. The words are the family's; no viewer has its own. */
#include <math.h>

#include "morph/family.h"
#include "telemetry/cohort.h"
#include "testing_grown.h"
#include "view/report.h"
#include "view/serve_api.h"
#include "view/tui_draw.h"
#include "view/verdict.h"

static struct esper_error error;
static struct run text, images;

static int set_up(void **state)
{
    struct grown grown = {.rounds = 25,
                          .envs = 3,
                          .steps = 8,
                          .detailed = 1,
                          .blueprint = "norm",
                          .command = "esper train",
                          .text = true};
    if (folder_make(state) != 0)
        return -1;
    grow_run(&text, "text", &grown);
    grow_run(&images, "text2", &grown); /* the same once more, to compare with */
    run_close(&images);
    grown.text = false;
    grow_run(&images, "images", &grown);
    assert_int_equal(run_set_status(&text, RUN_FINISHED, 25, 0, &error), ESPER_OK);
    return 0;
}

static int tear_down(void **state)
{
    run_close(&text);
    run_close(&images);
    return folder_clear(state);
}

static void points_are_told_as_bits(void **state)
{
    (void)state;
    char told[FAMILY_SCORE];
    const struct family_words *bytes = &transformer_family.words, *pictures = &cnn_family.words;
    assert_true(family_bits(bytes, 0) == 8 && family_bits(bytes, 100) == 0 && family_bits(bytes, 37.5) == 5);
    assert_true(isnan(family_bits(pictures, 37.5)));
    assert_string_equal(family_score(bytes, 37.5, told), "37.5 points, 5.000 bits per byte");
    assert_string_equal(family_score(pictures, 37.5, told), "37.5 %");
    assert_string_equal(family_score(bytes, NAN, told), "-");
}

static void metrics_have_the_family_s_names(void **state)
{
    (void)state;
    char told[METRIC_TITLE];
    const struct family_words *bytes = &transformer_family.words, *pictures = &cnn_family.words;
    const struct outcome_record outcome = {.test_accuracy = 25};
    assert_true(metric_fits(METRIC_TEST_BITS, bytes) && !metric_fits(METRIC_TEST_BITS, pictures));
    assert_true(metric_value(METRIC_TEST_BITS, &outcome) == 6);
    assert_string_equal(metric_title(METRIC_TEST_ACCURACY, pictures, told), "test accuracy, %");
    assert_string_equal(metric_title(METRIC_VAL_ACCURACY, bytes, told), "validation score, points");
    assert_string_equal(metric_title(METRIC_REWARD, bytes, told), "reward of an episode");
    for (int i = 0; i < METRIC_COUNT; i++) {
        assert_true(strlen(metric_head((enum metric)i, bytes, told)) <= 8);
        assert_true(strlen(metric_head((enum metric)i, pictures, told)) <= 8);
        assert_true(strlen(metric_title((enum metric)i, bytes, told)) <= 28); /* the column of `esper compare` */
    }
}

static void the_verdict_says_it(void **state)
{
    (void)state;
    const struct run_status status = {.state = RUN_FINISHED};
    struct query *query;
    struct verdict verdict;
    const struct run *runs[] = {&text, &images};
    const char *const said[] = {" bits per byte in the first 10 rounds", " % in the first 10 rounds"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(query_open(&query, runs[i], &error), ESPER_OK);
        assert_int_equal(verdict_of(query, runs[i], &status, &verdict, &error), ESPER_OK);
        assert_non_null(strstr(verdict.trend, said[i]));
        assert_true(strncmp(verdict.trend, i ? "validation accuracy +" : "validation score +", 18) == 0);
        query_close(query);
    }
}

static void must_say(const struct html *page, const char *words)
{
    if (!strstr(page->text, words))
        fail_msg("nowhere: \"%s\"", words);
}

static void the_report_says_it(void **state)
{
    (void)state;
    struct html page = {0};
    char path[PATH_MAX];
    const char *const both[] = {"text", "text2"}, *const mixed[] = {"text", "images"};
    if (report_make(&page, folder, both, 2, path, sizeof path, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    must_say(&page, "validation score, newest round");
    must_say(&page, "Validation and test score, points, last step");
    must_say(&page, "<td>test, bits per byte</td>");
    must_say(&page, "<th class=\"n\">test, points</th>");
    must_say(&page, "<h3>Round 25, env 0: ");
    must_say(&page, "<pre>text of round 24\n&lt;b id=evil&gt;&amp;amp; \\x00</pre>"); /* never as markup */
    assert_true(strstr(page.text, "text of round 24") < strstr(page.text, "text of round 20"));
    assert_null(strstr(page.text, "test accuracy"));
    assert_null(strstr(page.text, "alidation accuracy"));
    html_free(&page);
    page = (struct html){0};
    assert_int_equal(report_make(&page, folder, mixed, 2, path, sizeof path, &error), ESPER_OK);
    must_say(&page, "<td>test score, points</td>"); /* of either: no word of one is said of both */
    assert_null(strstr(page.text, "<td>test, bits per byte</td>"));
    assert_null(strstr(page.text, "accuracy, %"));
    html_free(&page);
    page = (struct html){0};
    assert_int_equal(report_make(&page, folder, mixed + 1, 1, path, sizeof path, &error), ESPER_OK);
    must_say(&page, "accuracy, %");
    assert_null(strstr(page.text, "id=\"text\""));
    html_free(&page);
}

static bool screen_says(const struct run *run, enum tui_screen screen, const char *words)
{
    struct tui_data data;
    struct canvas canvas = {0};
    struct tui_choice choice = {.screen = screen, .list = true};
    bool found = false;
    assert_int_equal(canvas_resize(&canvas, 40, 132, NULL), ESPER_OK);
    tui_data_open(&data, run);
    tui_load(&data, &choice);
    tui_draw(&canvas, &data, &choice);
    for (int row = 0; row < canvas.rows; row++) {
        char line[CANVAS_COLUMNS + 1] = "";
        for (int i = 0; i < canvas.columns; i++)
            line[i] = (char)(canvas.cells[row * canvas.columns + i].glyph & 0x7F);
        found = found || strstr(line, words);
    }
    tui_data_close(&data);
    canvas_free(&canvas);
    return found;
}

static void the_terminal_says_it(void **state)
{
    (void)state;
    char wanted[128];
    const double points = grown_accuracy(24, 0);
    snprintf(wanted, sizeof wanted, "NOW score %.1f points (%.3f bits per byte), best env %.1f pts", points,
             points_bits(points), points + 10);
    assert_true(screen_says(&text, SCREEN_OVERVIEW, wanted));
    assert_true(screen_says(&text, SCREEN_OVERVIEW, " env    pts   reward"));
    assert_false(screen_says(&text, SCREEN_OVERVIEW, "accuracy"));
    assert_true(screen_says(&text, SCREEN_REWARDS, "test pts by added parameters"));
    snprintf(wanted, sizeof wanted, "NOW accuracy %.1f %%, best env %.1f %%", points, points + 10);
    assert_true(screen_says(&images, SCREEN_OVERVIEW, wanted));
    assert_true(screen_says(&images, SCREEN_OVERVIEW, " env  acc %   reward"));
}

static void the_page_is_told(void **state)
{
    (void)state;
    char *answer = NULL;
    size_t bytes;
    FILE *file = open_memstream(&answer, &bytes);
    struct json_out out = {.file = file};
    json_open(&out, NULL, '{');
    api_write_identity(&out, &text);
    json_close(&out, '}');
    fclose(file);
    assert_non_null(
        strstr(answer, "\"words\":{\"score\":\"score\",\"unit\":\"points\",\"samples\":\"windows\",\"bytes\":true}"));
    free(answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_are_told_as_bits), cmocka_unit_test(metrics_have_the_family_s_names),
        cmocka_unit_test(the_verdict_says_it),     cmocka_unit_test(the_report_says_it),
        cmocka_unit_test(the_terminal_says_it),    cmocka_unit_test(the_page_is_told),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
