/* The report's plots of learning: series over rounds, and the heads. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "view/report_parts.h"
#include "view/svg.h"

/* What the plots of one section share. */
struct canvas {
    struct html *html;
    const struct sheet *sheet;
    double *x;
    double *marks;
    int mark_count;
};

/* One line of a plot: what it is called, its column, and the columns of its band. */
struct drawn {
    const char *name, *column, *low, *high;
};

static void draw(const struct canvas *canvas, const char *title, double y_low, double y_high, const struct drawn *lines,
                 int count)
{
    struct svg_plot plot = {.title = title,
                            .x_name = "round",
                            .y_low = y_low,
                            .y_high = y_high,
                            .x = canvas->x,
                            .count = canvas->x ? canvas->sheet->rows : 0,
                            .series_count = count,
                            .marks = canvas->marks,
                            .mark_count = canvas->mark_count};
    for (int i = 0; i < count; i++) {
        plot.series[i].name = lines[i].name;
        plot.series[i].y = sheet_series(canvas->sheet, lines[i].column);
        if (lines[i].low) {
            plot.series[i].low = sheet_series(canvas->sheet, lines[i].low);
            plot.series[i].high = sheet_series(canvas->sheet, lines[i].high);
        }
    }
    svg_lines(canvas->html, &plot);
}

static void draw_rounds(const struct canvas *canvas, const struct family_words *words)
{
    const struct drawn accuracy[] = {{"validation, mean of the envs", "val_accuracy_mean", NULL, NULL},
                                     {"best env", "val_accuracy_best", NULL, NULL},
                                     {"test, mean", "test_accuracy_mean", NULL, NULL}};
    const struct drawn reward[] = {{NULL, "reward_mean", NULL, NULL}};
    const struct drawn stages[] = {{"training", "training", NULL, NULL},
                                   {"blending", "blending", NULL, NULL},
                                   {"holding", "holding", NULL, NULL},
                                   {"fossilised", "fossilized", NULL, NULL}};
    const struct drawn events[] = {{"germinated", "germinations", NULL, NULL},
                                   {"fossilised", "fossilizations", NULL, NULL},
                                   {"pruned", "prunes", NULL, NULL},
                                   {"refused by a gate", "refusals", NULL, NULL}};
    const struct drawn speed[] = {{NULL, "env_steps_per_s", NULL, NULL}};
    draw(canvas, worded(words, "Validation and test ", ", last step").text, NAN, NAN, accuracy, 3);
    draw(canvas, "Reward of an episode, mean of the envs", NAN, NAN, reward, 1);
    draw(canvas, "Slots by stage at the end of the round", 0, NAN, stages, 4);
    draw(canvas, "Seeds per round", 0, NAN, events, 4);
    draw(canvas, "Speed, env-steps per second", 0, NAN, speed, 1);
}

static void draw_updates(const struct canvas *canvas)
{
    const struct drawn entropy[] = {{NULL, "op_entropy", NULL, NULL}};
    const struct drawn divergence[] = {{NULL, "kl", NULL, NULL}};
    const struct drawn clipped[] = {{NULL, "clip_fraction", NULL, NULL}};
    const struct drawn variance[] = {{NULL, "explained_variance", NULL, NULL}};
    const struct drawn losses[] = {{"policy", "policy_loss", NULL, NULL}, {"value", "value_loss", NULL, NULL}};
    const struct drawn gradient[] = {{NULL, "grad_norm", NULL, NULL}};
    const struct drawn returns[] = {{"median, band from p10 to p90", "return_p50", "return_p10", "return_p90"}};
    draw(canvas, "Entropy of the op head, 0 (decided) to 1 (uniform)", 0, 1, entropy, 1);
    draw(canvas, "KL divergence of an action, nats", 0, NAN, divergence, 1);
    draw(canvas, "Share of rows whose ratio was clipped, 0 to 1", 0, NAN, clipped, 1);
    draw(canvas, "Variance of the returns explained by the critic (1: all)", 0, 1, variance, 1);
    draw(canvas, "Losses", NAN, NAN, losses, 2);
    draw(canvas, "Norm of the policy's gradient before clipping", 0, NAN, gradient, 1);
    draw(canvas, "Returns", NAN, NAN, returns, 1);
}

/* ---- heads ------------------------------------------------------------------------------------------------------- */

/* At most this many columns: neighbouring rounds share one, which shows their mean. */
enum { HEAT_COLUMNS = 160, HEADS_MAX = 16 };

/* The sheet is ordered by round, then head. Returns the row of cells for a head, -1: no room. */
static int head_row(const char *names[HEADS_MAX], int *count, const char *name)
{
    for (int i = 0; i < *count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    if (*count == HEADS_MAX)
        return -1;
    names[*count] = name;
    return (*count)++;
}

static void fill_cells(struct svg_heat *heat, const struct sheet *heads, const char *names[HEADS_MAX], double *sums,
                       double *counts)
{
    const double *rounds = sheet_series(heads, "round"), *entropy = sheet_series(heads, "entropy");
    double first = rounds[0], last = rounds[heads->rows - 1];
    double width = floor((last - first) / HEAT_COLUMNS) + 1; /* rounds per column */
    heat->columns = (int)((last - first) / width) + 1;
    heat->x_first = shown_round(first);
    heat->x_last = shown_round(first + heat->columns * width);
    for (int i = 0; i < heads->rows; i++) {
        const char *name = sheet_text(heads, i, "head");
        int row = name ? head_row(names, &heat->rows, name) : -1;
        if (row < 0 || !isfinite(entropy[i]))
            continue;
        size_t cell = (size_t)row * (size_t)heat->columns + (size_t)((rounds[i] - first) / width);
        sums[cell] += entropy[i];
        counts[cell] += 1;
    }
    for (size_t i = 0; i < (size_t)heat->rows * (size_t)heat->columns; i++)
        sums[i] = counts[i] > 0 ? sums[i] / counts[i] : (double)NAN;
}

static void draw_heads(struct html *html, struct report_run *report)
{
    const struct question_values all = question_all();
    const char *names[HEADS_MAX];
    struct sheet heads;
    report_ask(report, &heads, "heads", &all);
    double *cells = html_alloc(html, (size_t)2 * HEADS_MAX * (HEAT_COLUMNS + 1), sizeof *cells);
    struct svg_heat heat = {.title = "Entropy of each head where it had a choice, 0 to 1",
                            .x_name = "round",
                            .names = names,
                            .values = cells,
                            .low = 0,
                            .high = 1};
    if (cells && sheet_series(&heads, "entropy"))
        fill_cells(&heat, &heads, names, cells, cells + (size_t)HEADS_MAX * (HEAT_COLUMNS + 1));
    svg_heat(html, &heat);
    memory_free(cells);
    sheet_free(&heads);
}

/* ---- the part ---------------------------------------------------------------------------------------------------- */

void report_learning(struct html *html, struct report_run *report)
{
    struct question_values all = question_all();
    struct sheet ppo, alerts;
    all.limit = 1000;
    report_ask(report, &ppo, "ppo", &all);
    report_ask(report, &alerts, "alerts", &all);
    struct canvas canvas = {.html = html,
                            .sheet = &report->rounds,
                            .x = shown_rounds(html, &report->rounds),
                            .marks = shown_rounds(html, &alerts)};
    for (int i = 0; canvas.marks && i < alerts.rows; i++) {
        const char *state = sheet_text(&alerts, i, "state");
        if (state && strcmp(state, "raised") == 0)
            canvas.marks[canvas.mark_count++] = canvas.marks[i];
    }
    html_raw(html, "<h2 id=\"learning\">Learning</h2>\n<div class=\"plots\">\n");
    draw_rounds(&canvas, report->words);
    memory_free(canvas.x);
    if (ppo.rows) {
        canvas.sheet = &ppo;
        canvas.x = shown_rounds(html, &ppo);
        draw_updates(&canvas);
        draw_heads(html, report);
        memory_free(canvas.x);
    }
    html_raw(html, "</div>\n");
    if (ppo.rows == 0)
        html_raw(html, "<p class=\"soft\">The policy was not updated in this run.</p>\n");
    memory_free(canvas.marks);
    sheet_free(&ppo);
    sheet_free(&alerts);
}
