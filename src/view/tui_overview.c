/* Screen 1: is it learning, is it healthy, what is growing where. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "morph/family.h"
#include "view/tui_draw.h"
#include "view/tui_plot.h"

/* ---- now --------------------------------------------------------------------------------------------------------- */

/* Gain of the mean of the last ten rounds over the ten before, points; NAN: too few rounds. */
static double gained(const struct tui_answer *rounds, int *span)
{
    double values[20], sums[2] = {0};
    int count = tui_series(rounds, "val_accuracy_mean", values, 20), half = count / 2;
    for (int i = 0; i < 2 * half; i++)
        sums[i >= half] += values[count - 2 * half + i] / half;
    *span = half;
    return half ? sums[1] - sums[0] : (double)NAN;
}

static void draw_alert(const struct box *box, int row, const struct tui_data *data, int alert)
{
    const struct tui_answer *alerts = &data->answers[ASK_ALERTS];
    const char *sign;
    enum ink ink = tui_alert_ink(data, alert, &sign);
    int used = box_print(box, row, 5, ink, "%-2s %.30s: %.48s", sign, answer_word(alerts, alert, "rule"),
                         answer_word(alerts, alert, "text"));
    box_print(box, row, 5 + used, INK_FAINT, ", since round %lld",
              (long long)tui_round_shown(answer_named(alerts, alert, "round")));
}

static void draw_now(struct box *body, const struct tui_data *data)
{
    const struct tui_answer *rounds = &data->answers[ASK_ROUNDS];
    char mean[TUI_NUMBER], best[TUI_NUMBER], test[TUI_NUMBER];
    int last = rounds->rows - 1, span, shown = tui_alerts(data);
    double gain = gained(rounds, &span);
    shown = shown > 3 ? 3 : shown;
    struct box box = box_cut_top(body, 1 + shown);
    const struct family_words *words = tui_words(data);
    const double score = answer_named(rounds, last, "val_accuracy_mean");
    int column = 1 + box_print(&box, 0, 1, INK_TITLE, "NOW ");
    column += box_print(&box, 0, column, INK_PLAIN, "%s %s %s", words->score, tui_real(score, 1, mean), words->unit);
    if (words->bytes)
        column +=
            box_print(&box, 0, column, INK_PLAIN, " (%s " BITS_PER_BYTE ")", tui_real(points_bits(score), 3, mean));
    column += box_print(&box, 0, column, INK_PLAIN, ", best env %s %s, test %s %s",
                        tui_real(answer_named(rounds, last, "val_accuracy_best"), 1, best), words->unit_short,
                        tui_real(answer_named(rounds, last, "test_accuracy_mean"), 1, test), words->unit_short);
    if (isfinite(gain))
        box_print(&box, 0, column, gain >= 0 ? INK_GOOD : INK_WARN, "; %+.1f points in %d round%s", gain, span,
                  span == 1 ? "" : "s");
    for (int i = 0; i < shown; i++)
        draw_alert(&box, 1 + i, data, i);
}

/* ---- curves ------------------------------------------------------------------------------------------------------ */

enum { CURVES = 5 };

struct curve {
    const char *label, *name, *unit;
    bool ppo;
    int digits;
};

static struct curve curve_of(const struct tui_data *data, int i, char unit[8])
{
    const struct family_words *words = tui_words(data);
    const struct curve curves[CURVES] = {{words->score, "val_accuracy_mean", unit, false, 1},
                                         {"reward", "reward_mean", "", false, 2},
                                         {"entropy", "op_entropy", "", true, 3},
                                         {"KL", "kl", "", true, 4},
                                         {"EV", "explained_variance", "", true, 3}};
    snprintf(unit, 8, " %s", words->unit_short);
    return curves[i];
}

static void draw_plot(struct box box, const struct tui_data *data, int i)
{
    char unit[8], number[TUI_NUMBER];
    const struct curve curve = curve_of(data, i, unit);
    const struct tui_answer *from = &data->answers[curve.ppo ? ASK_PPO : ASK_ROUNDS];
    tui_real(answer_named(from, from->rows - 1, curve.name), curve.digits, number);
    tui_draw_plot(box, from, curve.name, curve.label, number, curve.unit);
}

/* A curve in one row, behind its name and newest value. */
static void draw_line(const struct box *box, int row, const struct tui_data *data, int i)
{
    char unit[8], number[TUI_NUMBER];
    double values[TUI_SERIES];
    const struct curve curve = curve_of(data, i, unit);
    int count = tui_series(&data->answers[curve.ppo ? ASK_PPO : ASK_ROUNDS], curve.name, values, TUI_SERIES);
    box_print(box, row, 1, INK_FAINT, "%s", curve.label);
    box_print_right(box, row, 19, INK_PLAIN, "%s%s",
                    tui_real(count ? values[count - 1] : (double)NAN, curve.digits, number), curve.unit);
    box_curve(box, row, 20, 1, box->columns - 22, values, count, INK_LINE);
}

/* Two plots side by side, and three below them, for which there must be room in both directions. */
static void draw_plots(struct box box, const struct tui_data *data)
{
    bool all = box.columns >= 3 * PLOT_COLUMNS && box.rows >= 2 * (PLOT_ROWS + 1);
    struct box above = box_cut_top(&box, all ? (box.rows + 1) / 2 : box.rows - (CURVES - 2));
    for (int i = 0; i < CURVES; i++) {
        struct box *line = i < 2 ? &above : &box;
        int left = i < 2 ? 2 - i : CURVES - i;
        if (i < 2 || all)
            draw_plot(box_cut_left(line, line->columns / left), data, i);
        else
            draw_line(&box, i - 2, data, i);
    }
}

static void draw_curves(struct box box, const struct tui_data *data, bool plots)
{
    const struct tui_answer *rounds = &data->answers[ASK_ROUNDS];
    if (rounds->rows)
        box_title(&box, "rounds %lld to %lld", (long long)tui_round_shown(answer_named(rounds, 0, "round")),
                  (long long)tui_round_shown(answer_named(rounds, rounds->rows - 1, "round")));
    else
        box_title(&box, "rounds");
    if (plots)
        draw_plots(box, data);
    for (int i = 0; i < CURVES && !plots; i++)
        draw_line(&box, i, data, i);
}

/* ---- seeds by stage ---------------------------------------------------------------------------------------------- */

/* Of the newest step while a round is in progress; otherwise at the end of the last round. */
static void count_stages(const struct tui_data *data, double counts[TUI_STAGES])
{
    const struct tui_answer *rounds = &data->answers[ASK_ROUNDS], *seeds = &data->answers[ASK_ENV_SEEDS];
    bool going = data->newest_round > data->last_round;
    int column = answer_column(seeds, "stage");
    for (int i = 0; i < TUI_STAGES; i++) /* slots that cool down have no row */
        counts[i] = going ? (i < TUI_STAGES - 1 ? 0 : (double)NAN)
                          : answer_named(rounds, rounds->rows - 1, tui_stages[i]);
    for (int row = 0; going && row < seeds->rows; row++)
        for (int i = 0; i < TUI_STAGES; i++)
            counts[i] += strcmp(answer_text(seeds, row, column), tui_stages[i]) == 0;
}

static void draw_stages(struct box box, const struct tui_data *data)
{
    double counts[TUI_STAGES], slots = fmax(1, (double)data->run.config.envs * data->run.config.slot_count);
    count_stages(data, counts);
    box_title(&box, "seeds by stage, of %.0f slots", slots);
    for (int i = 0; i < TUI_STAGES; i++) {
        char letter = tui_stage_letter(tui_stages[i]), number[TUI_NUMBER];
        box_print(&box, i, 1, tui_stage_ink(letter), "%c %s", letter, tui_stages[i]);
        box_print_right(&box, i, 19, INK_PLAIN, "%s", tui_real(counts[i], 0, number));
        box_bar(&box, i, 20, box.columns - 22, counts[i] / slots, tui_stage_ink(letter));
    }
}

/* ---- envs -------------------------------------------------------------------------------------------------------- */

enum { SLOT_WIDE = 18 }; /* columns of a slot when its seed is spelled out */

/* A letter for every slot; with `wide` also its blueprint and alpha. */
static void draw_slots(const struct box *box, int row, int column, const struct tui_data *data, double env, bool wide)
{
    const struct tui_answer *seeds = &data->answers[ASK_ENV_SEEDS];
    int of_env = answer_column(seeds, "env"), of_slot = answer_column(seeds, "slot"),
        of_stage = answer_column(seeds, "stage"), each = wide ? SLOT_WIDE : 1;
    for (int slot = 0; slot < data->run.config.slot_count; slot++)
        box_glyph(box, row, column + slot * each, INK_FAINT, '.');
    for (int i = 0; i < seeds->rows; i++) {
        double slot = answer_number(seeds, i, of_slot);
        if (answer_number(seeds, i, of_env) != env || !(slot >= 0 && slot < data->run.config.slot_count))
            continue;
        char letter = tui_stage_letter(answer_text(seeds, i, of_stage)), alpha[TUI_NUMBER];
        int at = column + (int)slot * each;
        box_glyph(box, row, at, tui_stage_ink(letter), (uint32_t)letter);
        if (wide)
            box_print(box, row, at + 2, tui_stage_ink(letter), "%-10.10s %s", answer_word(seeds, i, "blueprint"),
                      tui_real(answer_named(seeds, i, "alpha"), 2, alpha));
    }
}

static void draw_grid(const struct box *box, const struct tui_data *data, const struct tui_choice *choice)
{
    const struct tui_answer *envs = &data->answers[ASK_ENVS];
    int digits = envs->rows > 1000 ? 4 : envs->rows > 100 ? 3 : 2, width = digits + 9 + data->run.config.slot_count;
    int across = box->columns / width > 0 ? box->columns / width : 1, first = 0;
    while (choice->env / across - first >= box->rows && box->rows > 0)
        first++;
    for (int i = first * across; i < envs->rows && i / across - first < box->rows; i++) {
        int row = i / across - first, column = i % across * width;
        char number[TUI_NUMBER];
        double env = answer_named(envs, i, "env");
        box_print_right(box, row, column + digits, INK_FAINT, "%.0f", env);
        box_print_right(box, row, column + digits + 6, INK_PLAIN, "%s",
                        tui_real(answer_named(envs, i, "val_accuracy"), 1, number));
        draw_slots(box, row, column + digits + 7, data, env, false);
        if ((int)env == choice->env)
            box_ink(box, row, column, digits + 6, INK_SELECTED);
    }
}

/* The last decision, marked if it was not executed. */
static void draw_decision(const struct box *box, int row, int column, const struct tui_answer *envs, int i)
{
    const char *op = answer_word(envs, i, "op"), *result = answer_word(envs, i, "result");
    bool done = strcmp(result, "done") == 0, wide = box->columns - column >= 24;
    if (strcmp(op, op_name(OP_SET_ALPHA_TARGET)) == 0)
        op = wide ? "alpha target" : "alpha";
    int used = box_print(box, row, column, done ? INK_PLAIN : INK_WARN, "%s%.12s", done ? "" : "! ", op);
    if (wide && !done)
        box_print(box, row, column + used, INK_WARN, " %.12s", result);
    else if (wide && strcmp(op, op_name(OP_GERMINATE)) == 0)
        box_print(box, row, column + used, INK_FAINT, " %.14s", answer_word(envs, i, "blueprint"));
}

/* The first of `rows` lines such that the chosen one is visible. */
static int first_shown(int chosen, int count, int rows)
{
    int first = chosen - rows / 2;
    first = first > count - rows ? count - rows : first;
    return first < 0 ? 0 : first;
}

static void draw_list(struct box box, const struct tui_data *data, const struct tui_choice *choice)
{
    const struct tui_answer *envs = &data->answers[ASK_ENVS];
    int slots = data->run.config.slot_count, at_slots = 31;
    bool wide = box.columns >= at_slots + slots * SLOT_WIDE + 24;
    int at_op = at_slots + (wide ? slots * SLOT_WIDE : slots < 5 ? 6 : slots + 1);
    struct box head = box_cut_top(&box, 1);
    box_print(&head, 0, 0, INK_FAINT, " env %6s   reward   params", tui_words(data)->bytes ? "pts" : "acc %");
    box_print(&head, 0, at_slots, INK_FAINT, "slots");
    box_print(&head, 0, at_op, INK_FAINT, "decided");
    int first = first_shown(choice->env, envs->rows, box.rows);
    for (int row = 0; row < box.rows && first + row < envs->rows; row++) {
        int i = first + row;
        char number[TUI_NUMBER];
        double env = answer_named(envs, i, "env");
        box_print_right(&box, row, 4, INK_FAINT, "%.0f", env);
        box_print_right(&box, row, 11, INK_PLAIN, "%s", tui_real(answer_named(envs, i, "val_accuracy"), 1, number));
        box_print_right(&box, row, 20, INK_PLAIN, "%s", tui_real(answer_named(envs, i, "reward_sum"), 2, number));
        box_print_right(&box, row, 29, INK_PLAIN, "%s", tui_count(answer_named(envs, i, "added_params"), number));
        draw_slots(&box, row, at_slots, data, env, wide);
        draw_decision(&box, row, at_op, envs, i);
        if ((int)env == choice->env)
            box_ink(&box, row, 0, 30, INK_SELECTED);
    }
}

static void draw_envs(struct box box, const struct tui_data *data, const struct tui_choice *choice)
{
    const struct tui_answer *envs = &data->answers[ASK_ENVS];
    double step = (double)NAN;
    for (int i = 0; i < envs->rows; i++)
        step = fmax(step, answer_named(envs, i, "step"));
    if (envs->rows == 0) {
        box_title(&box, "envs");
        box_print(&box, 0, 1, INK_FAINT, "-  (no step recorded%s)",
                  data->run.config.telemetry == TELEMETRY_OFF ? ": telemetry.level=off" : " yet");
        return;
    }
    box_title(&box, "envs, step %.0f of round %lld (v: %s)", step,
              (long long)tui_round_shown((double)data->newest_round), choice->list ? "grid" : "list");
    if (choice->list)
        draw_list(box, data, choice);
    else
        draw_grid(&box, data, choice);
}

/* ---- decisions and outcomes -------------------------------------------------------------------------------------- */

static void draw_ops(struct box box, const struct tui_data *data)
{
    const struct tui_answer *answer = &data->answers[ASK_OPS];
    int of_op = answer_column(answer, "op");
    double total = 0;
    for (int row = 0; row < answer->rows; row++)
        total += answer_named(answer, row, "attempted");
    box_title(&box, "decisions of round %lld", (long long)tui_round_shown((double)data->newest_round));
    for (int i = 0; i < OP_COUNT; i++) {
        double attempted = answer->rows ? 0 : (double)NAN, missed = 0;
        for (int row = 0; row < answer->rows; row++)
            if (strcmp(answer_text(answer, row, of_op), op_name(i)) == 0) {
                attempted = answer_named(answer, row, "attempted");
                missed = attempted - answer_named(answer, row, "done");
            }
        char number[TUI_NUMBER];
        int end = box.columns - 2;
        box_print(&box, i, 1, INK_FAINT, "%s", i == OP_SET_ALPHA_TARGET ? "alpha target" : op_name(i));
        box_print_right(&box, i, 19, INK_PLAIN, "%s", tui_count(attempted, number));
        if (missed > 0) {
            tui_count(missed, number);
            box_print_right(&box, i, end, INK_WARN, "!%s", number);
            end -= 2 + (int)strlen(number);
        }
        box_bar(&box, i, 20, end - 20, total > 0 ? attempted / total : 0, INK_LINE);
    }
}

static void draw_outcomes(struct box box, const struct tui_data *data, const struct tui_choice *choice)
{
    const struct tui_answer *outcomes = &data->answers[ASK_OUTCOMES];
    if (data->last_round >= 0)
        box_title(&box, "outcomes of round %lld%s", (long long)tui_round_shown((double)data->last_round),
                  tui_words(data)->bytes ? ", points" : "");
    else
        box_title(&box, "outcomes");
    struct box head = box_cut_top(&box, 1);
    box_print(&head, 0, 0, INK_FAINT,
              tui_words(data)->bytes ? " env   val   test reward params" : " env val %% test %% reward params");
    if (box.columns >= 44)
        box_print(&head, 0, 33, INK_FAINT, "fossils pruned");
    int first = first_shown(choice->env, outcomes->rows, box.rows);
    for (int row = 0; first + row < outcomes->rows && row < box.rows; row++) {
        int i = first + row;
        char number[TUI_NUMBER];
        box_print_right(&box, row, 4, INK_FAINT, "%.0f", answer_named(outcomes, i, "env"));
        box_print_right(&box, row, 10, INK_PLAIN, "%s", tui_real(answer_named(outcomes, i, "val_accuracy"), 1, number));
        box_print_right(&box, row, 17, INK_PLAIN, "%s",
                        tui_real(answer_named(outcomes, i, "test_accuracy"), 1, number));
        box_print_right(&box, row, 24, INK_PLAIN, "%s", tui_real(answer_named(outcomes, i, "reward"), 1, number));
        box_print_right(&box, row, 31, INK_PLAIN, "%s", tui_count(answer_named(outcomes, i, "added_params"), number));
        if (box.columns >= 44) {
            box_print_right(&box, row, 40, INK_PLAIN, "%s",
                            tui_real(answer_named(outcomes, i, "fossilized"), 0, number));
            box_print_right(&box, row, 47, INK_PLAIN, "%s", tui_real(answer_named(outcomes, i, "pruned"), 0, number));
        }
    }
}

/* ---- the screen -------------------------------------------------------------------------------------------------- */

void tui_draw_overview(struct box box, const struct tui_data *data, const struct tui_choice *choice)
{
    int right = box.columns >= 120 ? 50 : 32;
    draw_now(&box, data);
    struct box left = box_cut_left(&box, box.columns - right > 40 ? box.columns - right : box.columns);
    /* Plots where there is room for them and for some of the envs below; otherwise a line of each curve. */
    int envs = 2 + data->answers[ASK_ENVS].rows, least = left.rows / 3,
        room = left.rows - (envs < least ? envs : least);
    bool plots = left.columns >= 2 * PLOT_COLUMNS && room >= PLOT_ROWS + CURVES;
    draw_curves(box_cut_top(&left, plots ? room : 1 + CURVES), data, plots);
    draw_envs(left, data, choice);
    draw_stages(box_cut_top(&box, 1 + TUI_STAGES), data);
    draw_ops(box_cut_top(&box, 1 + OP_COUNT), data);
    draw_outcomes(box, data, choice);
}
