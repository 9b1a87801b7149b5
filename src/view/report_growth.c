/* The report's parts about seeds and what they achieved: lives, blueprints, gates, rewards, outcomes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "view/report_parts.h"
#include "view/svg.h"

/* ---- swimlanes --------------------------------------------------------------------------------------------------- */

static int fill_spans(const struct report_run *report, const struct sheet *stages, struct svg_span *spans)
{
    int count = 0;
    for (int i = 0; i < stages->rows; i++) {
        const char *stage = sheet_text(stages, i, "stage"), *blueprint = sheet_text(stages, i, "blueprint");
        double slot = sheet_number(stages, i, "slot"), end = sheet_number(stages, i, "to_step");
        if (!stage || strcmp(stage, "dormant") == 0 || !(slot >= 0 && slot < report->run.config.slot_count))
            continue;
        spans[count++] = (struct svg_span){.lane = (int)slot,
                                           .from = sheet_number(stages, i, "from_step"),
                                           .to = isnan(end) ? report->run.config.steps : end,
                                           .stage = stage,
                                           .label = blueprint ? blueprint : "-"};
    }
    return count;
}

static void draw_episode(struct html *html, struct report_run *report, const char *which, const struct sheet *outcomes,
                         int row)
{
    const struct config *config = &report->run.config;
    struct question_values values = {.round = (int64_t)report->newest,
                                     .env = (int64_t)sheet_number(outcomes, row, "env")};
    const char *names[CONFIG_MAX_SLOTS];
    char title[320], score[FAMILY_SCORE];
    struct sheet stages;
    for (int i = 0; i < config->slot_count; i++)
        names[i] = config->slots[i];
    report_ask(report, &stages, "stages", &values);
    struct svg_span *spans = html_alloc(html, (size_t)stages.rows + 1, sizeof *spans);
    snprintf(title, sizeof title, "%s episode of round %s: env %lld, test %s %s, reward %s, +%s parameters", which,
             shown_number(shown_round(report->newest), 0).text, (long long)values.env, report->words->score,
             family_score(report->words, sheet_number(outcomes, row, "test_accuracy"), score),
             shown_number(sheet_number(outcomes, row, "reward"), 1).text,
             shown_number(sheet_number(outcomes, row, "added_params"), 0).text);
    struct svg_lanes lanes = {.title = title,
                              .x_name = "step",
                              .names = names,
                              .lanes = config->slot_count,
                              .x_last = config->steps,
                              .spans = spans,
                              .count = spans ? fill_spans(report, &stages, spans) : 0};
    svg_lanes(html, &lanes);
    memory_free(spans);
    sheet_free(&stages);
}

static void draw_episodes(struct html *html, struct report_run *report)
{
    const struct question_values values = {.round = isnan(report->newest) ? -1 : (int64_t)report->newest};
    struct sheet outcomes;
    int best = -1, worst = -1;
    report_ask(report, &outcomes, "outcomes", &values);
    for (int i = 0; i < outcomes.rows; i++) {
        double accuracy = sheet_number(&outcomes, i, "test_accuracy");
        if (isnan(accuracy))
            continue;
        if (best < 0 || accuracy > sheet_number(&outcomes, best, "test_accuracy"))
            best = i;
        if (worst < 0 || accuracy < sheet_number(&outcomes, worst, "test_accuracy"))
            worst = i;
    }
    if (best < 0) {
        html_raw(html, "<p class=\"soft\">No episode has finished.</p>\n");
    } else {
        html_raw(html,
                 "<p class=\"soft\">What happened in each slot. Letters: Germinated, Training, Blending, Holding, "
                 "Fossilised; then Pruned, Embargoed and Resetting until the slot is free again.</p>\n"
                 "<div class=\"plots\">\n");
        draw_episode(html, report, "Best", &outcomes, best);
        if (worst != best)
            draw_episode(html, report, "Worst", &outcomes, worst);
        html_raw(html, "</div>\n");
    }
    sheet_free(&outcomes);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* The heading of an answer, which states its rounds. */
static void write_heading(struct html *html, const char *title, const struct sheet *sheet)
{
    html_raw(html, "<div><h3>");
    html_raw(html, title);
    if (sheet->rows)
        html_add(html, ", rounds %.0f to %.0f", shown_round(sheet_number(sheet, 0, "first_round")),
                 shown_round(sheet_number(sheet, 0, "last_round")));
    html_raw(html, "</h3>\n");
}

static void list_blueprints(struct html *html, struct report_run *report)
{
    const struct question_values all = question_all();
    const struct report_column columns[] = {
        {"blueprint", "blueprint", SHOWN_TEXT},
        {"germinated", "germinated", 0},
        {"fossilised", "fossilized", 0},
        {"pruned", "pruned", 0},
        {"rate, %", "rate_percent", 1},
        {"share, points", "share", 2},
        {"parameters", "params", 0},
    };
    struct sheet sheet;
    report_ask(report, &sheet, "blueprints", &all);
    write_heading(html, "Blueprints", &sheet);
    REPORT_TABLE(html, &sheet, columns, "No seed germinated.");
    if (sheet.rows)
        html_add(html,
                 "<p class=\"soft\">Rate: fossilised per germinated seed. Share: what a fossil adds to the "
                 "validation %s at the last step, mean. Parameters: mean over seeds alive then.</p>\n",
                 report->words->score);
    html_raw(html, "</div>\n");
    sheet_free(&sheet);
}

static void list_gates(struct html *html, struct report_run *report)
{
    const struct question_values all = question_all();
    const struct report_column columns[] = {
        {"gate", "gate", SHOWN_TEXT}, {"to", "to_stage", SHOWN_TEXT},   {"opened", "passed", SHOWN_YES_NO},
        {"times", "count", 0},        {"failed", "failed", SHOWN_LONG}, {"score, 0 to 1", "score", 2},
    };
    struct sheet sheet;
    report_ask(report, &sheet, "gate_checks", &all);
    write_heading(html, "Gates", &sheet);
    REPORT_TABLE(html, &sheet, columns, "No gate was asked.");
    html_raw(html, "</div>\n");
    sheet_free(&sheet);
}

static void list_ops(struct html *html, struct report_run *report)
{
    struct question_values values = question_all();
    const struct report_column columns[] = {
        {"op", "op", SHOWN_TEXT}, {"attempted", "attempted", 0},     {"done", "done", 0},     {"refused", "refused", 0},
        {"void", "void", 0},      {"rolled back", "rolled_back", 0}, {"forced", "forced", 0},
    };
    struct sheet sheet;
    values.from = values.to = isnan(report->newest) ? -1 : (int64_t)report->newest;
    report_ask(report, &sheet, "ops", &values);
    html_raw(html, "<div><h3>Decisions in the newest round</h3>\n");
    REPORT_TABLE(html, &sheet, columns, "No decision was recorded.");
    html_raw(html, "</div>\n");
    sheet_free(&sheet);
}

/* ---- rewards ----------------------------------------------------------------------------------------------------- */

static bool is_component(const char *column)
{
    static const char *const others[] = {"round", "envs", "kept", "reward"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(column, others[i]) == 0)
            return false;
    return true;
}

static void draw_reward(struct html *html, struct report_run *report)
{
    struct question_values values = question_all();
    struct svg_bar bars[SHEET_COLUMNS];
    struct sheet sheet;
    char title[120];
    int count = 0;
    values.from = values.to = isnan(report->newest) ? -1 : (int64_t)report->newest;
    report_ask(report, &sheet, "reward_rounds", &values);
    for (int i = 0; sheet.rows && i < sheet.columns; i++) {
        double value = sheet_number(&sheet, 0, sheet.names[i]);
        if (is_component(sheet.names[i]) && isfinite(value) && value != 0)
            bars[count++] = (struct svg_bar){sheet.names[i], value};
    }
    snprintf(title, sizeof title, "Components of an episode's reward, mean of the envs, round %.0f",
             shown_round(report->newest));
    if (sheet.rows == 0)
        html_raw(html, "<p class=\"soft\">No step was recorded.</p>\n");
    else
        svg_waterfall(html, title, bars, count);
    double whole = (double)report->run.config.envs * report->run.config.steps;
    double kept = sheet_number(&sheet, 0, "kept");
    if (kept < whole)
        html_add(html,
                 "<p class=\"soft\">Over the %.0f of %.0f env-steps that were recorded: one idle step "
                 "in 10 is kept from round 201 on.</p>\n",
                 kept, whole);
    sheet_free(&sheet);
}

void report_growth(struct html *html, struct report_run *report)
{
    html_raw(html, "<h2 id=\"growth\">Growth</h2>\n");
    draw_episodes(html, report);
    html_raw(html, "<div class=\"side\">\n");
    list_blueprints(html, report);
    list_gates(html, report);
    list_ops(html, report);
    html_raw(html, "</div>\n");
}

/* ---- outcomes ---------------------------------------------------------------------------------------------------- */

static void draw_pareto(struct html *html, struct report_run *report)
{
    enum { NAME = 128 };
    char score[FAMILY_SCORE];
    struct question_values values = question_all();
    struct sheet sheet;
    values.limit = 2000;
    report_ask(report, &sheet, "pareto", &values);
    struct svg_point *points = html_alloc(html, (size_t)sheet.rows + 1, sizeof *points);
    char(*names)[NAME] = html_alloc(html, (size_t)sheet.rows + 1, NAME);
    for (int i = 0; points && names && i < sheet.rows; i++) {
        double x = sheet_number(&sheet, i, "added_params"), y = sheet_number(&sheet, i, "test_accuracy");
        snprintf(names[i], NAME, "%s with %.0f parameters: round %.0f, env %.0f", family_score(report->words, y, score),
                 x, shown_round(sheet_number(&sheet, i, "round")), sheet_number(&sheet, i, "env"));
        points[i] = (struct svg_point){x, y, sheet_number(&sheet, i, "frontier") == 1, names[i]};
    }
    const struct worded title = worded(report->words, "Test ", ", by parameters added");
    struct svg_scatter scatter = {
        .title = title.text, .x_name = "parameters added", .points = points, .count = points && names ? sheet.rows : 0};
    svg_scatter(html, &scatter);
    memory_free(points);
    memory_free(names);
    sheet_free(&sheet);
}

void report_outcomes(struct html *html, struct report_run *report)
{
    struct question_values values = question_all();
    char test[32], validation[32];
    snprintf(test, sizeof test, "test, %s", report->words->unit);
    snprintf(validation, sizeof validation, "validation, %s", report->words->unit);
    const struct report_column columns[] = {
        {"round", "round", SHOWN_ROUND},
        {"env", "env", 0},
        {test, "test_accuracy", 1},
        {validation, "val_accuracy", 1},
        {"reward", "reward", 1},
        {"host parameters", "host_params", 0},
        {"added", "added_params", 0},
        {"germinated", "germinated", 0},
        {"fossils", "fossilized", 0},
        {"pruned", "pruned", 0},
        {"live", "live", 0},
        {"rollbacks", "rollbacks", 0},
        {"stability, 0 to 1", "stability", 2},
    };
    struct sheet sheet;
    values.limit = 10;
    html_raw(html, "<h2 id=\"outcomes\">Outcomes</h2>\n<div class=\"plots\"><div>");
    draw_pareto(html, report);
    html_raw(html, "</div><div>");
    draw_reward(html, report);
    html_raw(html, "</div></div>\n<h3>Best episodes</h3>\n");
    report_ask(report, &sheet, "top", &values);
    REPORT_TABLE(html, &sheet, columns, "No episode has finished.");
    sheet_free(&sheet);
}
