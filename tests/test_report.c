/* The report: its numbers compared with separate SQL, its form, hostile records, and runs in every state. */
#include <time.h>

#include "base/file.h"
#include "cli/cli.h"
#include "morph/family.h"
#include "telemetry/cohort.h"
#include "telemetry/query.h"
#include "testing_grown.h"
#include "view/report.h"
#include "view/svg.h"

static struct esper_error error;
static struct run run, other, empty, hostile;
static struct query *query;
static struct html page;

static const struct grown usual = {
    .rounds = 25, .envs = 5, .steps = 8, .detailed = 2, .blueprint = "norm", .command = "esper train --name usual"};

/* Texts that end the element they are in unless escaped. */
#define ATTACK "x\"'><script>alert(1)</script><img src=http://e.vil/>&amp;\xff\x01"

static void finish(struct run *made)
{
    assert_int_equal(run_set_status(made, RUN_FINISHED, 25, 0, &error), ESPER_OK);
}

static int set_up(void **state)
{
    const struct grown nothing = {.envs = 1, .steps = 1, .command = "esper train"};
    const struct grown evil = {.rounds = 3,
                               .envs = 4,
                               .steps = 9,
                               .detailed = 2,
                               .blueprint = ATTACK,
                               .command = "esper train '</pre>" ATTACK "'"};
    struct grown more = usual;
    if (folder_make(state) != 0)
        return -1;
    more.rounds = 12;
    grow_run(&run, "usual", &usual);
    grow_run(&other, "other", &more);
    grow_run(&empty, "empty", &nothing);
    grow_run(&hostile, "hostile", &evil);
    finish(&run);
    finish(&other);
    return query_open(&query, &run, &error) == ESPER_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    query_close(query);
    run_close(&run);
    run_close(&other);
    run_close(&empty);
    run_close(&hostile);
    return folder_clear(state);
}

static int forget_page(void **state)
{
    (void)state;
    html_free(&page);
    return 0;
}

static void make(const char *const *words, int count)
{
    char path[PATH_MAX + 16];
    html_free(&page);
    if (report_make(&page, folder, words, count, path, sizeof path, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    assert_false(page.failed);
    assert_non_null(strstr(path, "/report.html"));
}

static void make_one(const char *name)
{
    make(&name, 1);
}

/* ---- form -------------------------------------------------------------------------------------------------------- */

/* Every tag is closed by its own name, attributes are quoted, and a '<' or '&' starts nothing else: XML, in short. */
static void assert_well_formed(const char *text)
{
    char open[64][16];
    int depth = 0;
    const char *at = strstr(text, "<html");
    assert_non_null(at);
    for (; *at; at++) {
        if (*at == '&') {
            size_t length = strspn(at + 1, "abcdefghijklmnopqrstuvwxyz#0123456789");
            assert_true(length > 1 && at[1 + length] == ';');
        }
        if (*at != '<')
            continue;
        bool closing = at[1] == '/';
        const char *name = at + 1 + closing;
        size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz123456");
        if (length == 0 || length > 15)
            fail_msg("no tag: %.60s", at);
        bool quoted = false;
        for (at = name; *at && (quoted || *at != '>'); at++) {
            quoted ^= *at == '"';
            assert_true(*at != '<');
        }
        assert_true(*at == '>' && !quoted);
        if (closing) {
            if (depth == 0 || strncmp(open[depth - 1], name, length) != 0 || open[depth - 1][length])
                fail_msg("%.20s closes <%s>", name, depth ? open[depth - 1] : "");
            depth--;
        } else if (at[-1] != '/') {
            assert_true(depth < 64);
            snprintf(open[depth++], sizeof open[0], "%.*s", (int)length, name);
        }
    }
    assert_int_equal(depth, 0);
}

static void assert_sound(void)
{
    static const char *const forbidden[] = {"<script", "http:", "https:", "javascript:", "<img", "<link",  "@import",
                                            "url(",    ">nan",  "-nan",   "(null)",      "inf<", " onload"};
    assert_well_formed(page.text);
    assert_int_equal(strlen(page.text), page.used);
    assert_true(page.used < 5000000);
    for (size_t i = 0; i < sizeof forbidden / sizeof forbidden[0]; i++)
        if (strstr(page.text, forbidden[i]))
            fail_msg("\"%s\": %.80s", forbidden[i], strstr(page.text, forbidden[i]) - 20);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static double number(const char *sql)
{
    struct query_answer *answer;
    const struct query_row *row;
    if (query_ask(query, sql, NULL, &answer, &error) != ESPER_OK)
        fail_msg("%s: %s", sql, error.text);
    assert_int_equal(query_next(answer, &row, &error), ESPER_OK);
    assert_non_null(row);
    const struct query_value *value = &row->values[0];
    double result = value->kind == QUERY_INTEGER ? (double)value->integer
                    : value->kind == QUERY_REAL  ? value->real
                                                 : (double)NAN;
    query_end(answer);
    return result;
}

static void assert_has(const char *text)
{
    if (!strstr(page.text, text))
        fail_msg("not in the page: %s", text);
}

/* Tiles: <b>number unit</b><span>name</span>. */
static void assert_tile(const char *name, const char *sql, int decimals, const char *unit)
{
    struct html wanted = {0};
    html_raw(&wanted, "<b>");
    html_number(&wanted, number(sql), decimals);
    html_add(&wanted, "%s</b><span>%s</span>", unit, name);
    assert_has(wanted.text);
    html_free(&wanted);
}

static void tiles_are_the_record(void **state)
{
    (void)state;
    make_one("usual");
    assert_sound();
    assert_tile("rounds finished", "SELECT count(*) FROM round", 0, "");
    assert_tile("episodes", "SELECT count(*) FROM outcome", 0, "");
    assert_tile("validation accuracy, newest round", "SELECT val_accuracy_mean FROM round WHERE round = 24", 1, " %");
    assert_tile("best mean of a round", "SELECT max(val_accuracy_mean) FROM round", 1, " %");
    assert_tile("best env", "SELECT max(val_accuracy_best) FROM round", 1, " %");
    assert_tile("test accuracy, newest round", "SELECT test_accuracy_mean FROM round WHERE round = 24", 1, " %");
    assert_tile("seeds germinated", "SELECT sum(germinations) FROM round", 0, "");
    assert_tile("rollbacks", "SELECT count(*) FROM rollback", 0, "");
    assert_tile("alerts raised", "SELECT count(*) FROM alert WHERE state = 'raised'", 0, "");
    assert_tile("env-steps", "SELECT sum(env_steps) FROM round", 0, "");
    assert_has("finished, 5 envs");
}

/* A row of a table: its cells in order. */
static void assert_row(const char *format, ...)
{
    char text[512];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    assert_has(text);
}

static void tables_are_the_record(void **state)
{
    (void)state;
    make_one("usual");
    double best = number("SELECT max(test_accuracy) FROM outcome");
    double at = number("SELECT round FROM outcome WHERE test_accuracy = (SELECT max(test_accuracy) FROM outcome)");
    assert_row("<h3>Best episodes</h3>");
    assert_row("<td class=\"n\">%.0f</td><td class=\"n\">", at + 1);
    assert_row("<td class=\"n\">%.1f</td><td class=\"n\">%.1f</td>", best, best + 0.25);
    assert_row("<tr><td>conv_light</td><td class=\"n\">%.0f</td><td class=\"n\">%.0f</td><td class=\"n\">%.0f</td>"
               "<td class=\"n\">%.1f</td>",
               number("SELECT count(*) FROM life WHERE event = 'germinated' AND blueprint = 'conv_light'"),
               number("SELECT count(*) FROM life WHERE event = 'fossilized' AND blueprint = 'conv_light'"),
               number("SELECT count(*) FROM life WHERE event = 'pruned' AND blueprint = 'conv_light'"), 50.0);
    assert_row("<tr><td>norm</td><td class=\"n\">2</td><td class=\"n\">0</td><td class=\"n\">2</td>"
               "<td class=\"n\">0.0</td><td class=\"n\">-</td>"); /* no fossil: no share, and not 0 */
    assert_row("<tr><td>wait</td><td class=\"n\">%.0f</td>",
               number("SELECT count(*) FROM step WHERE op = 'wait' AND round = 24"));
    assert_row("<td>governor_nan</td><td class=\"n\">12.500</td><td class=\"n\">-</td>"); /* nothing was blamed */
    assert_row("<td>warn</td><td>cleared</td><td>kl</td>");
    assert_row("<td class=\"long\">a &amp; b &lt; c &gt; &quot;d&quot;</td>");
    assert_row("<tr><td>step</td><td>thinned</td><td class=\"n\">7</td>");
    assert_row("<tr><td>train</td><td class=\"n\">%.1f</td>",
               number("SELECT 100.0 * sum(duration_us) / 2e6 FROM phase WHERE name = 'train' AND round = 24"));
    assert_row("<td>envs</td><td class=\"long\">5</td><td>16</td>"); /* differs from the default */
    assert_has("esper train --name usual");
    assert_has("<h3>Blueprints, rounds 24 to 25</h3>"); /* the only ones with lives of seeds */
    assert_has("<h3>Gates, rounds 24 to 25</h3>");
    assert_has("0123456789abcdef");
}

static const char *figure(const char *title)
{
    char caption[200];
    snprintf(caption, sizeof caption, "<figcaption>%s", title);
    const char *at = strstr(page.text, caption);
    if (!at)
        fail_msg("no figure: %s", title);
    return at;
}

static int count_in(const char *from, const char *to, const char *word)
{
    int count = 0;
    for (const char *at = from; (at = strstr(at, word)) && at < to; at++)
        count++;
    return count;
}

static void plots_are_the_record(void **state)
{
    (void)state;
    make_one("usual");
    const char *reward = figure("Reward of an episode"), *end = strstr(reward, "</svg>");
    const char *line = strstr(reward, "class=\"line c0\"");
    assert_true(line && line < end);
    assert_int_equal(count_in(line, strstr(line, "\"/>"), "L"), 24); /* 25 rounds, no gap */
    assert_int_equal(count_in(reward, end, "class=\"mark\""), 2);    /* alerts raised, not the cleared one */
    const char *accuracy = figure("Validation and test accuracy, %, last step");
    const char *test = strstr(accuracy, "class=\"line c2\"");
    assert_int_equal(count_in(test, strstr(test, "\"/>"), "M"), 2); /* round 2 has no test accuracy: a gap */
    const char *heads = figure("Entropy of each head");
    end = strstr(heads, "</svg>");
    assert_int_equal(count_in(heads, end, "class=\"cell\""), 4 * 25 + 11); /* and the key */
    assert_int_equal(count_in(heads, end, "class=\"none\""), 25 + 1);
    assert_true(strstr(heads, ">style</text>") < end);
    /* the best of the newest round, with its stages */
    char title[120];
    double best = number("SELECT env FROM outcome WHERE round = 24 ORDER BY test_accuracy DESC, env LIMIT 1");
    snprintf(title, sizeof title, "Best episode of round 25: env %.0f, test accuracy %.1f %%", best,
             number("SELECT max(test_accuracy) FROM outcome WHERE round = 24"));
    const char *lanes = figure(title);
    end = strstr(lanes, "</svg>");
    assert_int_equal(count_in(lanes, end, "<rect class=\"span"), 3); /* training, blending, and what it became */
    /* the reward's parts add up to it */
    const char *parts = figure("Components of an episode");
    end = strstr(parts, "</svg>");
    snprintf(title, sizeof title, ">%+.2f</text>", number("SELECT sum(reward) / 5 FROM step WHERE round = 24"));
    assert_true(strstr(parts, title) && strstr(parts, title) < end);
    snprintf(title, sizeof title, ">%+.2f</text>", number("SELECT sum(terminal) / 5 FROM step WHERE round = 24"));
    assert_true(strstr(parts, title) && strstr(parts, title) < end);
    assert_null(strstr(parts, ">holding_warning<")); /* nothing recorded of it */
}

static void frontier_is_drawn(void **state)
{
    (void)state;
    make_one("usual");
    const char *plot = figure("Test accuracy, %, by"), *end = strstr(plot, "</svg>");
    double beaten_by_none =
        number("SELECT count(*) FROM outcome a WHERE test_accuracy IS NOT NULL AND NOT EXISTS (SELECT 1 FROM outcome b "
               "WHERE b.test_accuracy >= a.test_accuracy AND b.added_params <= a.added_params "
               "AND (b.test_accuracy > a.test_accuracy OR b.added_params < a.added_params))");
    assert_int_equal(count_in(plot, end, "class=\"best\""), (int)beaten_by_none);
    assert_int_equal(count_in(plot, end, "h0"),
                     (int)(number("SELECT count(*) FROM outcome WHERE test_accuracy IS NOT NULL") - beaten_by_none));
}

/* ---- states of runs ---------------------------------------------------------------------------------------------- */

static void runs_of_every_state(void **state)
{
    (void)state;
    make_one("empty"); /* this process holds its lock */
    assert_sound();
    assert_has("running");
    assert_has("collecting");
    assert_has("<b>-</b><span>reward of an episode, newest round</span>");
    assert_has("nothing recorded");
    run_close(&empty); /* now no process does */
    make_one("empty");
    assert_has("crashed");
    assert_has("blocked");
    assert_int_equal(remove(in_folder("empty/telemetry.db")), 0);
    remove(in_folder("empty/telemetry.db-wal"));
    remove(in_folder("empty/telemetry.db-shm"));
    make_one("empty");
    assert_sound();
    assert_has("There is no record to show");
    assert_null(strstr(page.text, "all rows were kept")); /* which is unknown */
    assert_has("How to reproduce this run");
}

static void hostile_texts_stay_texts(void **state)
{
    (void)state;
    make_one("hostile");
    assert_well_formed(page.text);
    assert_null(strstr(page.text, "<script"));
    assert_null(strstr(page.text, "<img"));
    assert_null(strchr(page.text, '\x01'));
    assert_null(strchr(page.text, '\xff'));
    assert_has("x&quot;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"); /* the blueprint, in its table */
    assert_has("&lt;/pre&gt;x&quot;");                                   /* the command */
    assert_has("&amp;amp;");
}

static void same_record_same_bytes(void **state)
{
    (void)state;
    make_one("usual");
    char *first = memory_alloc(page.used + 1, 1, &error);
    memcpy(first, page.text, page.used + 1);
    make_one("usual");
    assert_string_equal(first, page.text);
    memory_free(first);
}

/* ---- several runs ------------------------------------------------------------------------------------------------ */

static void cohorts_are_compared(void **state)
{
    (void)state;
    const char *const words[] = {"usual", "other"};
    struct cohort a, b;
    struct cohort_pair *pairs;
    struct difference difference;
    struct interval mean;
    struct html wanted = {0};
    int count;
    make(words, 2);
    assert_sound();
    assert_int_equal(cohort_load(&a, folder, "usual", &error), ESPER_OK);
    assert_int_equal(cohort_load(&b, folder, "other", &error), ESPER_OK);
    assert_int_equal(cohort_match(&a, &b, &pairs, &count, &error), ESPER_OK);
    assert_int_equal(count, 12 * 5);
    for (int metric = 0; metric < METRIC_COUNT; metric++) {
        char title[METRIC_TITLE];
        html_free(&wanted);
        if (metric == METRIC_TEST_BITS) /* not of images */
            continue;
        assert_int_equal(cohort_difference(pairs, count, (enum metric)metric, &difference, &error), ESPER_OK);
        html_add(&wanted, "<tr><td>%s</td><td class=\"n\">",
                 metric_title((enum metric)metric, &cnn_family.words, title));
        html_number(&wanted, difference.episodes.mean, metrics[metric].decimals);
        html_raw(&wanted, "</td>");
        assert_has(wanted.text);
    }
    html_free(&wanted);
    assert_int_equal(cohort_mean(&b, METRIC_TEST_ACCURACY, &mean, &error), ESPER_OK);
    html_number(&wanted, mean.mean, metrics[METRIC_TEST_ACCURACY].decimals);
    assert_has(wanted.text);
    html_free(&wanted);
    assert_has("60 episodes that both played");
    assert_has("65 played by only one");
    memory_free(pairs);
    cohort_free(&a);
    cohort_free(&b);
}

static void what_cannot_be_compared_is_said(void **state)
{
    (void)state;
    const char *const words[] = {"usual", "hostile"}, *const joined = "usual,other",
                      *const wrong[] = {"usual", "nosuch"};
    char path[PATH_MAX + 16];
    make(words, 2); /* 8 steps and 9 */
    assert_sound();
    assert_has("do not pair");
    make(&joined, 1); /* one seed twice */
    assert_has("both have seed");
    html_free(&page);
    assert_int_equal(report_make(&page, folder, wrong, 2, path, sizeof path, &error), ESPER_INVALID);
    assert_says(&error, "nosuch");
}

/* ---- size and time ----------------------------------------------------------------------------------------------- */

static void large_runs(void **state)
{
    (void)state;
    const struct grown large = {.rounds = getenv("ESPER_SOAK") ? 3000 : 600,
                                .envs = 64,
                                .steps = 150,
                                .detailed = 2,
                                .blueprint = "norm",
                                .command = "esper train",
                                .busy = true};
    struct run big;
    struct timespec start, end;
    grow_run(&big, "large", &large);
    clock_gettime(CLOCK_MONOTONIC, &start);
    make_one("large");
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
    assert_sound();
    if (seconds > 5)
        fail_msg("%.1f s", seconds);
    run_close(&big);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static void the_command(void **state)
{
    (void)state;
    char output[300], runs[300];
    snprintf(output, sizeof output, "%s/page.html", folder);
    snprintf(runs, sizeof runs, "--runs=%s", folder);
    char *argv[] = {"report", "usual", runs, "-o", output, NULL};
    char *data;
    size_t size;
    fflush(stdout);
    assert_int_equal(cli_command(5, argv, &report_page), CLI_OK);
    assert_int_equal(file_read(output, 5000000, &data, &size, &error), ESPER_OK);
    make_one("usual");
    assert_int_equal(size, page.used);
    assert_memory_equal(data, page.text, size);
    memory_free(data);
    char *plain[] = {"report", "usual", runs, NULL};
    assert_int_equal(cli_command(3, plain, &report_page), CLI_OK);
    assert_int_equal(access(in_folder("usual/report.html"), R_OK), 0);
    char *none[] = {"report", NULL}, *missing[] = {"report", "nosuch", runs, NULL};
    assert_int_equal(cli_command(1, none, &report_page), CLI_WRONG);
    assert_int_equal(cli_command(3, missing, &report_page), CLI_WRONG);
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

static void plots_of_odd_numbers(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3, 4}, none[] = {NAN, NAN, NAN, NAN}, gaps[] = {1, NAN, 5, INFINITY};
    const double flat[] = {0, 0, 0, 0}, huge[] = {-1e300, 1e300, 0, 1e-300};
    const double *const all[] = {none, gaps, flat, huge};
    for (int i = 0; i < 4; i++) {
        html_free(&page);
        html_raw(&page, "<html>");
        svg_lines(&page, &(struct svg_plot){.title = "a < b",
                                            .x_name = "round",
                                            .y_low = NAN,
                                            .y_high = NAN,
                                            .x = x,
                                            .count = 4,
                                            .series = {{.name = "\"s\"", .y = all[i]}},
                                            .series_count = 1});
        svg_waterfall(&page, "none", NULL, 0);
        svg_scatter(&page, &(struct svg_scatter){.title = "none", .x_name = "x"});
        svg_heat(&page, &(struct svg_heat){.title = "none", .x_name = "x"});
        html_raw(&page, "</html>");
        assert_sound();
        assert_has("a &lt; b");
        assert_true((strstr(page.text, "class=\"line c0\"") != NULL) == (i != 0));
        if (i == 1)
            assert_int_equal(count_in(page.text, page.text + page.used, "h.1"), 2); /* two dots */
    }
}

/* Steps lead up from mark to mark, past those that are dominated; the key names what occurs; odd numbers are left out.
 */
static void a_front(void **state)
{
    (void)state;
    const double x[] = {100, 300, 0}, y[] = {10, NAN, 20};
    const struct svg_mark marks[] = {
        {.x = 1000, .y = 60, .low = NAN, .shape = SVG_DIAMOND, .step = true, .name = "<heavy>"},
        {.x = 100, .y = 50, .low = NAN, .shape = SVG_SQUARE, .step = true, .name = "bare"},
        {.x = 500, .y = 45, .low = NAN, .shape = SVG_DIAMOND, .step = true, .name = "dominated"},
        {.x = 800, .y = 61, .low = 59, .high = 63, .shape = SVG_DISC, .name = "learned", .label = "0.5"},
        {.x = 0, .y = 99, .low = NAN, .shape = SVG_DISC, .step = true, .name = "impossible"},
    };
    struct svg_front front = {
        .title = "a < b", .x_name = "x", .marks = marks, .count = 5, .x = x, .y = y, .dots = 3, .dot_name = "dots"};
    front.shape_names[SVG_DISC] = "discs";
    front.shape_names[SVG_DIAMOND] = "diamonds";
    front.shape_names[SVG_SQUARE] = "squares";
    for (int alone = 0; alone < 2; alone++) {
        html_free(&page);
        html_raw(&page, "<html>");
        alone ? svg_front_file(&page, &front) : svg_front(&page, &front);
        html_raw(&page, "</html>");
        assert_well_formed(page.text);
        assert_has("a &lt; b");
        assert_has("&lt;heavy&gt;: 60.00<");
        assert_has("learned: 61.00 [59.00, 63.00]");
        assert_null(strstr(page.text, "impossible"));
        assert_null(strstr(page.text, "nan"));
        assert_null(strstr(page.text, "inf"));
        const char *steps = strstr(page.text, "class=\"front\" d=\"M");
        assert_non_null(steps);
        assert_int_equal(count_in(steps, strchr(steps, '>'), "V"), 1); /* from bare up to heavy */
        assert_int_equal(count_in(page.text, page.text + page.used, ">diamonds<"), 1);
    }
    front.count = front.dots = 0;
    html_free(&page);
    html_raw(&page, "<html>");
    svg_front_file(&page, &front);
    html_raw(&page, "</html>");
    assert_well_formed(page.text);
    assert_has("nothing recorded");
}

static void numbers_and_texts(void **state)
{
    (void)state;
    static const struct {
        double value;
        int decimals;
        const char *text;
    } known[] = {
        {NAN, 2, "-"},
        {INFINITY, 0, "-"},
        {0, 1, "0.0"},
        {-0.01, 1, "0.0"},
        {1234, 0, "1234"},
        {12345, 0,
         "12\xE2\x80\xAF"
         "345"},
        {-1.5, 1,
         "\xE2\x88\x92"
         "1.5"},
        {1234567.25, 2,
         "1\xE2\x80\xAF"
         "234\xE2\x80\xAF"
         "567.25"},
        {1e20, 0, "1e+20"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        html_free(&page);
        html_number(&page, known[i].value, known[i].decimals);
        assert_string_equal(page.text, known[i].text);
    }
    html_free(&page);
    html_text(&page, NULL);
    html_text(&page,
              "\xC3\xA9\xE2\x80\xAE\xC0\xAF\xED\xA0\x80\xF0\x9F\x8C\xB1\xE2\x82"); /* only two of these are valid */
    assert_string_equal(page.text, "-\xC3\xA9\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
                                   "\xEF\xBF\xBD\xEF\xBF\xBD\xF0\x9F\x8C\xB1\xEF\xBF\xBD\xEF\xBF\xBD");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(tiles_are_the_record, forget_page),
        cmocka_unit_test_teardown(tables_are_the_record, forget_page),
        cmocka_unit_test_teardown(plots_are_the_record, forget_page),
        cmocka_unit_test_teardown(frontier_is_drawn, forget_page),
        cmocka_unit_test_teardown(hostile_texts_stay_texts, forget_page),
        cmocka_unit_test_teardown(same_record_same_bytes, forget_page),
        cmocka_unit_test_teardown(cohorts_are_compared, forget_page),
        cmocka_unit_test_teardown(what_cannot_be_compared_is_said, forget_page),
        cmocka_unit_test_teardown(the_command, forget_page),
        cmocka_unit_test_teardown(runs_of_every_state, forget_page),
        cmocka_unit_test_teardown(large_runs, forget_page),
        cmocka_unit_test_teardown(plots_of_odd_numbers, forget_page),
        cmocka_unit_test_teardown(a_front, forget_page),
        cmocka_unit_test_teardown(numbers_and_texts, forget_page),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
