/* The report's comparison of cohorts: the numbers that `esper compare` prints, and all validation scores in one plot.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "telemetry/cohort.h"
#include "view/report.h"
#include "view/report_parts.h"
#include "view/svg.h"

/* The words of one kind: training runs, or evaluations. They cannot be paired with each other. */
struct group {
    const struct family_words *words; /* of their families, if they are of one */
    struct cohort cohorts[REPORT_WORDS];
    char letters[REPORT_WORDS]; /* A for the first word */
    int count;
};

static void problem_line(struct html *html, const char *text)
{
    html_raw(html, "<p class=\"w\">! ");
    html_text(html, text);
    html_raw(html, "</p>\n");
}

static void interval_cells(struct html *html, const struct interval *interval, int decimals)
{
    html_raw(html, "<td class=\"n\">");
    html_number(html, interval->mean, decimals);
    html_raw(html, "</td><td class=\"n\">");
    if (isnan(interval->low)) {
        html_raw(html, "-");
    } else {
        html_raw(html, "[");
        html_number(html, interval->low, decimals);
        html_raw(html, ", ");
        html_number(html, interval->high, decimals);
        html_raw(html, "]");
    }
    html_raw(html, "</td>");
}

/* ---- means ------------------------------------------------------------------------------------------------------- */

static void list_cohorts(struct html *html, const struct group *group)
{
    html_raw(html, "<div class=\"wide\"><table><thead><tr><th></th><th>policy</th><th>run</th><th>state</th>"
                   "<th class=\"n\">seed</th><th class=\"n\">episodes</th></tr></thead><tbody>\n");
    for (int i = 0; i < group->count; i++)
        for (int j = 0; j < group->cohorts[i].run_count; j++) {
            const struct cohort_run *member = &group->cohorts[i].runs[j];
            html_add(html, "<tr><td>%c</td><td>", group->letters[i]);
            html_text(html, group->cohorts[i].policy);
            html_raw(html, "</td><td>");
            html_text(html, member->run.name);
            html_add(html, "</td><td>%s</td><td class=\"n\">%llu</td><td class=\"n\">%d</td></tr>\n", member->state,
                     (unsigned long long)member->run.config.seed, member->count);
        }
    html_raw(html, "</tbody></table></div>\n");
}

static void list_means(struct html *html, const struct group *group)
{
    html_raw(html, "<h3>Means, with 95 % intervals over the episodes</h3>\n<div class=\"wide\"><table><thead><tr>"
                   "<th></th>");
    for (int i = 0; i < group->count; i++)
        html_add(html, "<th class=\"n\">%c %.31s</th><th></th>", group->letters[i], group->cohorts[i].policy);
    html_raw(html, "</tr></thead><tbody>\n");
    for (int metric = 0; metric < METRIC_COUNT; metric++) {
        char title[METRIC_TITLE];
        if (!metric_fits((enum metric)metric, group->words))
            continue;
        html_add(html, "<tr><td>%s</td>", metric_title((enum metric)metric, group->words, title));
        for (int i = 0; i < group->count; i++) {
            struct interval mean = {0, NAN, NAN, NAN};
            if (cohort_mean(&group->cohorts[i], (enum metric)metric, &mean, NULL) != ESPER_OK)
                html->failed = true; /* of memory */
            interval_cells(html, &mean, metrics[metric].decimals);
        }
        html_raw(html, "</tr>\n");
    }
    html_raw(html, "</tbody></table></div>\n");
}

/* ---- differences ------------------------------------------------------------------------------------------------- */

static int seeds_of(const struct cohort_pair *pairs, int count)
{
    int seeds = 0;
    for (int i = 0; i < count; i++)
        seeds += i == 0 || pairs[i].seed != pairs[i - 1].seed;
    return seeds;
}

static void list_differences(struct html *html, const struct cohort_pair *pairs, int count, const char *reward_key,
                             const struct family_words *words)
{
    int seeds = seeds_of(pairs, count);
    html_add(html,
             "<div class=\"wide\"><table><thead><tr><th></th><th class=\"n\">mean</th><th class=\"n\">95 %% over "
             "episodes</th>%s</tr></thead><tbody>\n",
             seeds > 1 ? "<th class=\"n\">mean</th><th class=\"n\">95 % over seeds</th>" : "");
    for (int metric = 0; metric < METRIC_COUNT; metric++) {
        struct difference difference;
        char title[METRIC_TITLE];
        if (!metric_fits((enum metric)metric, words) || (metric == METRIC_REWARD && reward_key))
            continue;
        if (cohort_difference(pairs, count, (enum metric)metric, &difference, NULL) != ESPER_OK) {
            html->failed = true; /* of memory */
            return;
        }
        html_add(html, "<tr><td>%s</td>", metric_title((enum metric)metric, words, title));
        interval_cells(html, &difference.episodes, metrics[metric].decimals);
        if (seeds > 1)
            interval_cells(html, &difference.seeds, metrics[metric].decimals);
        html_raw(html, "</tr>\n");
    }
    html_raw(html, "</tbody></table></div>\n");
    if (reward_key) {
        html_raw(html, "<p class=\"soft\">Rewards are not compared: ");
        html_text(html, reward_key);
        html_raw(html, " differs.</p>\n");
    }
}

static void contrast(struct html *html, const struct group *group, int other)
{
    const struct cohort *a = &group->cohorts[0], *b = &group->cohorts[other];
    struct esper_error error = {0};
    struct cohort_pair *pairs = NULL;
    const char *reward_key = NULL;
    int count = 0;
    html_add(html, "<div><h3>%c \xE2\x88\x92 %c: ", group->letters[0], group->letters[other]);
    html_text(html, a->policy);
    html_raw(html, " minus ");
    html_text(html, b->policy);
    html_raw(html, "</h3>\n");
    if (cohort_check(a, b, &reward_key, &error) != ESPER_OK || cohort_match(a, b, &pairs, &count, &error) != ESPER_OK) {
        problem_line(html, error.text);
    } else {
        html_add(html,
                 "<p class=\"soft\">%d episodes that both played, paired by seed, round and env; %d played by only "
                 "one.</p>\n",
                 count, a->episodes + b->episodes - 2 * count);
        list_differences(html, pairs, count, reward_key, group->words);
    }
    html_raw(html, "</div>\n");
    memory_free(pairs);
}

/* Gains over the first cohort that did not grow its hosts. */
static void list_gains(struct html *html, const struct group *group)
{
    int control = -1;
    for (int i = group->count; i-- > 0;)
        if (strcmp(group->cohorts[i].policy, "static") == 0)
            control = i;
    if (control < 0)
        return;
    html_add(html, "<h3>Test %s gained over %c (static), points per 1000 parameters added</h3>\n<table>\n",
             group->words->score, group->letters[control]);
    for (int i = 0; i < group->count; i++) {
        struct cohort_pair *pairs = NULL;
        struct interval gain = {0, NAN, NAN, NAN};
        const char *ignored = NULL;
        int count;
        if (i == control)
            continue;
        if (cohort_check(&group->cohorts[i], &group->cohorts[control], &ignored, NULL) == ESPER_OK &&
            cohort_match(&group->cohorts[i], &group->cohorts[control], &pairs, &count, NULL) == ESPER_OK)
            html->failed |= cohort_gain(pairs, count, &gain, NULL) != ESPER_OK;
        memory_free(pairs);
        html_add(html, "<tr><td>%c %.31s</td>", group->letters[i], group->cohorts[i].policy);
        interval_cells(html, &gain, 3);
        html_raw(html, "</tr>\n");
    }
    html_raw(html, "</table>\n");
}

/* ---- all scores -------------------------------------------------------------------------------------------------- */

static void draw_scores(struct html *html, const char *runs, const struct group *group)
{
    const struct worded title = worded(group->words, "Validation ", ", mean of the envs");
    struct svg_plot plot = {.title = title.text, .x_name = "round", .y_low = NAN, .y_high = NAN};
    struct report_run *reports = html_alloc(html, SVG_SERIES_MAX, sizeof *reports);
    char names[SVG_SERIES_MAX][24];
    for (int i = 0; reports && i < group->count; i++)
        for (int j = 0; j < group->cohorts[i].run_count && plot.series_count < SVG_SERIES_MAX; j++) {
            struct report_run *report = &reports[plot.series_count];
            struct svg_series *series = &plot.series[plot.series_count];
            struct esper_error error = {0};
            if (report_open(report, runs, group->cohorts[i].runs[j].run.path, &error) != ESPER_OK) {
                html_lack(html, error.text);
                continue;
            }
            if (report->trouble[0])
                html_lack(html, report->trouble);
            snprintf(names[plot.series_count], sizeof names[0], "%c %.10s", group->letters[i],
                     group->cohorts[i].policy);
            series->name = j ? NULL : names[plot.series_count];
            series->x = shown_rounds(html, &report->rounds);
            series->y = series->x ? sheet_series(&report->rounds, "val_accuracy_mean") : NULL;
            series->count = report->rounds.rows;
            plot.series_count++;
        }
    svg_lines(html, &plot);
    for (int i = 0; i < plot.series_count; i++) {
        memory_free((double *)plot.series[i].x);
        report_close(&reports[i]);
    }
    memory_free(reports);
}

/* ---- the part ---------------------------------------------------------------------------------------------------- */

static void compare_group(struct html *html, const char *runs, const struct group *group, const char *kind)
{
    if (group->count == 0)
        return;
    html_add(html, "<h3>%s</h3>\n", kind);
    list_cohorts(html, group);
    if (group->count == 1 && group->cohorts[0].run_count == 1)
        return;
    list_means(html, group);
    list_gains(html, group);
    html_raw(html, "<div class=\"plots\">\n");
    draw_scores(html, runs, group);
    for (int i = 1; i < group->count; i++)
        contrast(html, group, i);
    html_raw(html, "</div>\n");
}

void report_compare(struct html *html, const char *runs, const char *const *words, int count)
{
    struct group *groups = html_alloc(html, 2, sizeof *groups); /* training, evaluation */
    html_raw(html, "<h2 id=\"compare\">Comparison</h2>\n<p class=\"soft\">The first of each kind and every other, "
                   "compared episode by episode (paired t). The first run is described in full below.</p>\n");
    for (int i = 0; groups && i < count && i < REPORT_WORDS; i++) {
        struct esper_error error = {0};
        struct cohort cohort = {0};
        if (cohort_load(&cohort, runs, words[i], &error) != ESPER_OK) {
            cohort_free(&cohort);
            problem_line(html, error.text);
            html_lack(html, error.text);
            continue;
        }
        struct group *group = &groups[cohort.runs[0].run.config.evaluate];
        const struct family_words *called = &host_family_of(&cohort.runs[0].run.config)->words;
        group->words = !group->words || group->words == called ? called : &family_words_any;
        group->letters[group->count] = (char)('A' + i);
        group->cohorts[group->count++] = cohort;
    }
    for (int kind = 0; groups && kind < 2; kind++) {
        compare_group(html, runs, &groups[kind], kind ? "Evaluation" : "Training");
        for (int i = 0; i < groups[kind].count; i++)
            cohort_free(&groups[kind].cohorts[i]);
    }
    memory_free(groups);
}
