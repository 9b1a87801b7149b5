/* The report's parts that are lists: text, trouble, time, configuration, how to reproduce the run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/stream.h"
#include "telemetry/run_json.h"
#include "view/recipe.h"
#include "view/report_parts.h"

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* The record's text is what a network made up: html_text makes it harmless. */
void report_text(struct html *html, struct report_run *report)
{
    enum { LISTED = 10 };
    struct question_values values = question_all();
    struct sheet samples;
    values.limit = LISTED;
    report_ask(report, &samples, "samples", &values);
    html_raw(html,
             "<h2 id=\"text\">Text</h2>\n<p class=\"soft\">What the best network wrote, each time a round ended with "
             "a better one than all before; the newest 10. Bytes that cannot be shown are \\xNN.</p>\n");
    for (int i = 0; i < samples.rows; i++) {
        char score[FAMILY_SCORE];
        html_add(html, "<h3>Round %s, env %s: %s</h3>\n<pre>",
                 shown_number(shown_round(sheet_number(&samples, i, "round")), 0).text,
                 shown_number(sheet_number(&samples, i, "env"), 0).text,
                 family_score(report->words, sheet_number(&samples, i, "score"), score));
        html_text(html, sheet_text(&samples, i, "text"));
        html_raw(html, "</pre>\n");
    }
    if (!samples.rows)
        html_raw(html, "<p class=\"soft\">There is none.</p>\n");
    sheet_free(&samples);
}

/* ---- trouble ----------------------------------------------------------------------------------------------------- */

static void list(struct html *html, struct report_run *report, const char *title, const char *question, int64_t limit,
                 const struct report_column *columns, int count, const char *none)
{
    struct question_values values = question_all();
    struct sheet sheet;
    values.limit = limit;
    report_ask(report, &sheet, question, &values);
    html_add(html, "<h3>%s</h3>\n", title);
    report_table(html, &sheet, columns, count, none);
    if (sheet.rows == limit)
        html_add(html, "<p class=\"soft\">The newest %lld; there may be more.</p>\n", (long long)limit);
    sheet_free(&sheet);
}

#define LIST(html, report, title, question, limit, columns, none)                                                      \
    list(html, report, title, question, limit, columns, (int)(sizeof columns / sizeof columns[0]), none)

void report_trouble(struct html *html, struct report_run *report)
{
    const struct report_column open[] = {
        {"severity", "severity", SHOWN_TEXT},
        {"rule", "rule", SHOWN_TEXT},
        {"since round", "round", SHOWN_ROUND},
        {"value", "value", 4},
        {"limit", "threshold", 4},
        {"what", "text", SHOWN_LONG},
    };
    const struct report_column alerts[] = {
        {"round", "round", SHOWN_ROUND}, {"severity", "severity", SHOWN_TEXT},
        {"state", "state", SHOWN_TEXT},  {"rule", "rule", SHOWN_TEXT},
        {"value", "value", 4},           {"limit", "threshold", 4},
        {"what", "text", SHOWN_LONG},
    };
    const struct report_column rollbacks[] = {
        {"round", "round", SHOWN_ROUND},
        {"step", "step", 0},
        {"env", "env", 0},
        {"reason", "reason", SHOWN_TEXT},
        {"validation loss, nats", "val_loss", 3},
        {"blamed step", "blamed_step", 0},
        {"penalty", "penalty", 2},
        {"instead of", "replaced", 2},
        {"seeds lost", "seeds_lost", 0},
    };
    const struct report_column drops[] = {
        {"table", "name", SHOWN_TEXT},
        {"why", "reason", SHOWN_TEXT},
        {"rows", "count", 0},
        {"first round", "first_round", SHOWN_ROUND},
        {"last round", "last_round", SHOWN_ROUND},
    };
    html_raw(html, "<h2 id=\"trouble\">Trouble</h2>\n");
    const char *standing = run_has_ended(&report->status) ? "Alerts active at the end" : "Active alerts";
    LIST(html, report, standing, "standing", 200, open, "None.");
    LIST(html, report, "Alerts raised and cleared, newest first", "alerts", 40, alerts, "None.");
    LIST(html, report, "Rollbacks by the governor, newest first", "rollbacks", 40, rollbacks, "None.");
    LIST(html, report, "Rows missing from the record", "drops", 200, drops, "None: all rows were kept.");
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

void report_time(struct html *html, struct report_run *report)
{
    const struct report_column phases[] = {
        {"phase", "name", SHOWN_TEXT}, {"of the round's time, %", "percent", 1},
        {"seconds", "seconds", 3},     {"spans", "spans", 0},
        {"mean, ms", "mean_ms", 3},    {"longest, ms", "max_ms", 3},
        {"threads", "threads", 0},
    };
    const struct report_column checkpoints[] = {
        {"file", "file", SHOWN_TEXT},
        {"kind", "kind", SHOWN_TEXT},
        {"rounds done", "round", SHOWN_ROUNDS_DONE},
        {"steps of the next", "step", 0},
        {"bytes", "bytes", 0},
        {"written", "written", SHOWN_TEXT},
        {"training state", "hash", SHOWN_TEXT},
    };
    const struct question_values values = {.round = isnan(report->newest) ? -1 : (int64_t)report->newest};
    struct sheet sheet;
    html_raw(html, "<h2 id=\"time\">Time and checkpoints</h2>\n<h3>Where the newest round's time went</h3>\n");
    report_ask(report, &sheet, "phases", &values);
    REPORT_TABLE(html, &sheet, phases, "No phase was recorded.");
    sheet_free(&sheet);
    LIST(html, report, "Checkpoints, newest first", "checkpoints", 8, checkpoints, "None.");
}

/* ---- identity ---------------------------------------------------------------------------------------------------- */

static void key_row(struct html *html, const struct config *config, const struct config *defaults, int key)
{
    char value[CONFIG_TEXT], initial[CONFIG_TEXT];
    config_format(config, key, value);
    config_format(defaults, key, initial);
    html_raw(html, "<tr><td>");
    html_text(html, config_key_name(key));
    html_raw(html, "</td><td class=\"long\">");
    html_text(html, value[0] ? value : NULL);
    html_raw(html, "</td><td>");
    html_text(html, initial[0] ? initial : NULL);
    html_raw(html, "</td><td>");
    html_text(html, config_origin_name((enum config_origin)config->origin[key]));
    html_raw(html, "</td><td class=\"long\">");
    html_text(html, config_key_help(key));
    html_raw(html, "</td></tr>\n");
}

static void key_table(struct html *html, const struct config *config, const struct config *defaults, bool changed)
{
    html_raw(html, "<div class=\"wide\"><table><thead><tr><th>key</th><th>value</th><th>default</th><th>from</th>"
                   "<th>meaning</th></tr></thead><tbody>\n");
    for (int key = 0; key < config_key_count(); key++)
        if (config_differ_in(key, config, defaults) == changed)
            key_row(html, config, defaults, key);
    html_raw(html, "</tbody></table></div>\n");
}

/* The commands, and what they lead to. */
static void write_recipe(struct html *html, struct report_run *report)
{
    struct question_values values = question_all();
    struct esper_error error = {.text = "out of memory while describing the run"};
    struct sheet checkpoints;
    bool machines = false;
    char *commands = NULL;
    size_t bytes;
    FILE *file = stream_open(&commands, &bytes);
    enum esper_status status = file ? recipe_write(file, &report->run, &machines, &error) : ESPER_FAILED;
    if (file && fclose(file) != 0)
        status = ESPER_FAILED;
    char *typed = NULL;
    if (status == ESPER_OK)
        status = run_json_command(&report->run, &typed, &error);
    if (status != ESPER_OK)
        html_lack(html, error.text);
    html_raw(html, "<h3>How to reproduce this run</h3>\n<p>It was begun with <code>");
    html_text(html, typed);
    html_raw(html, "</code> on Esper ");
    free(typed);
    html_text(html, report->run.version);
    html_raw(html, ", kernels ");
    html_text(html, report->run.kernels);
    html_raw(html, machines
                       ? ". Parts of it were played on other kernels or by another version (plan.json has them); "
                         "the same bits come only of the same, part by part.</p>\n<pre>"
                       : ". The same version and kernels give the same bits, on any number of threads:</p>\n<pre>");
    html_text(html, status == ESPER_OK ? commands : error.text);
    html_raw(html, "</pre>\n");
    free(commands);
    values.limit = 1;
    report_ask(report, &checkpoints, "checkpoints", &values);
    if (checkpoints.rows) {
        int64_t done = rounds_before((int64_t)sheet_number(&checkpoints, 0, "round"));
        html_add(html, "<p>After %lld round%s and %.0f steps the training state (<code>esper inspect ", (long long)done,
                 done == 1 ? "" : "s", sheet_number(&checkpoints, 0, "step"));
        html_text(html, report->run.name);
        html_raw(html, " --hash</code>) must then be ");
        html_text(html, sheet_text(&checkpoints, 0, "hash"));
        html_raw(html, ".</p>\n");
    }
    sheet_free(&checkpoints);
}

void report_identity(struct html *html, struct report_run *report)
{
    struct config defaults;
    config_defaults(&defaults);
    html_raw(html, "<h2 id=\"identity\">Configuration</h2>\n<h3>Keys that differ from the defaults</h3>\n");
    key_table(html, &report->run.config, &defaults, true);
    html_raw(html, "<details><summary>All other keys</summary>\n");
    key_table(html, &report->run.config, &defaults, false);
    html_raw(html, "</details>\n");
    write_recipe(html, report);
}
