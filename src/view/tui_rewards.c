/* Screen 4: what an episode was rewarded for, and the best and worst episodes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "view/tui_draw.h"

/* ---- where a reward comes from ----------------------------------------------------------------------------------- */

/* The answer's columns after the total are the components, in their own order. */
static int first_component(const struct tui_answer *reward)
{
    int total = answer_column(reward, "reward");
    return total < 0 ? reward->columns : total + 1;
}

/* A bar from the running total before to the one after, on a common scale. */
static void draw_fall(const struct box *box, int row, int column, int columns, const double scale[2], double before,
                      double after)
{
    double span = scale[1] - scale[0], low = fmin(before, after), high = fmax(before, after);
    if (columns < 4 || !(span > 0))
        return;
    int first = (int)((low - scale[0]) / span * (columns - 1)), last = (int)((high - scale[0]) / span * (columns - 1));
    bool gain = after >= before;
    for (int i = first; i <= last; i++)
        box_glyph(box, row, column + i, gain ? INK_GOOD : INK_BAD,
                  box->canvas->unicode ? (gain ? 0x2588 : 0x2592) : (gain ? '#' : '-'));
}

static void draw_waterfall(struct box box, const struct tui_data *data, const struct tui_choice *choice)
{
    const struct tui_answer *reward = &data->answers[ASK_REWARD];
    double scale[2] = {0, 0}, sum = 0;
    char number[TUI_NUMBER];
    int row = 0, idle = 0;
    box_title(&box, "env %d, round %lld: reward", choice->env, (long long)tui_round_shown((double)data->shown_round));
    for (int i = first_component(reward); i < reward->columns; i++) {
        double part = answer_number(reward, 0, i);
        sum += isfinite(part) ? part : 0;
        scale[0] = fmin(scale[0], sum);
        scale[1] = fmax(scale[1], sum);
    }
    sum = 0;
    for (int i = first_component(reward); i < reward->columns; i++) {
        double part = answer_number(reward, 0, i);
        if (part == 0 || (isnan(part) && reward->rows)) {
            idle++;
            continue;
        }
        box_print(&box, row, 1, INK_FAINT, "%.17s", reward->names[i]);
        box_print_right(&box, row, 27, part < 0 ? INK_BAD : INK_PLAIN, "%s", tui_real(part, 3, number));
        draw_fall(&box, row++, 28, box.columns - 30, scale, sum, sum + part);
        sum += part;
    }
    box_print(&box, row, 1, INK_TITLE, "sum of %s steps", tui_real(answer_named(reward, 0, "kept"), 0, number));
    box_print_right(&box, row, 27, INK_TITLE, "%s", tui_real(answer_named(reward, 0, "reward"), 3, number));
    draw_fall(&box, row, 28, box.columns - 30, scale, 0, sum);
    if (idle)
        box_print(&box, row + 1, 1, INK_FAINT, "%d other components are 0 or -", idle);
}

/* ---- episodes ---------------------------------------------------------------------------------------------------- */

static void draw_episodes(struct box box, const struct tui_data *data, enum tui_question of, const char *title)
{
    const struct tui_answer *rows = &data->answers[of];
    const bool text = tui_words(data)->bytes;
    box_title(&box, "%s%s", title, text ? ", points" : "");
    struct box head = box_cut_top(&box, 1);
    box_print(&head, 0, 0, INK_FAINT,
              text ? " round env   test    val  params  reward" : " round env test %%  val %%  params  reward");
    for (int i = 0; i < rows->rows && i < box.rows; i++) {
        char number[TUI_NUMBER];
        box_print_right(&box, i, 6, INK_PLAIN, "%lld", (long long)tui_round_shown(answer_named(rows, i, "round")));
        box_print_right(&box, i, 10, INK_PLAIN, "%.0f", answer_named(rows, i, "env"));
        box_print_right(&box, i, 17, INK_PLAIN, "%s", tui_real(answer_named(rows, i, "test_accuracy"), 1, number));
        box_print_right(&box, i, 24, INK_PLAIN, "%s", tui_real(answer_named(rows, i, "val_accuracy"), 1, number));
        box_print_right(&box, i, 32, INK_PLAIN, "%s", tui_count(answer_named(rows, i, "added_params"), number));
        box_print_right(&box, i, 40, INK_PLAIN, "%s", tui_real(answer_named(rows, i, "reward"), 1, number));
    }
}

/* ---- score by size ----------------------------------------------------------------------------------------------- */

struct range {
    double low, high;
};

static struct range range_of(const struct tui_answer *rows, int column)
{
    struct range range = {INFINITY, -INFINITY};
    for (int i = 0; i < rows->rows; i++) {
        range.low = fmin(range.low, answer_number(rows, i, column));
        range.high = fmax(range.high, answer_number(rows, i, column));
    }
    return range;
}

/* Square roots of sizes: both a few hundred and a hundred thousand parameters stay legible. */
static int place(double value, struct range range, int places, bool roots)
{
    if (roots) {
        value = sqrt(fmax(value, 0));
        range = (struct range){sqrt(fmax(range.low, 0)), sqrt(fmax(range.high, 0))};
    }
    if (!(range.high > range.low))
        return 0;
    return (int)((value - range.low) / (range.high - range.low) * (places - 1) + 0.5);
}

static void draw_pareto(struct box box, const struct tui_data *data)
{
    const struct tui_answer *rows = &data->answers[ASK_PARETO];
    int of_x = answer_column(rows, "added_params"), of_y = answer_column(rows, "test_accuracy"),
        of_frontier = answer_column(rows, "frontier");
    bool unicode = box.canvas->unicode;
    box_title(&box, "test %s by added parameters, %s best", tui_words(data)->unit_short, unicode ? "\u25C6" : "*");
    if (rows->rows == 0 || box.rows < 3 || box.columns < 20) {
        box_print(&box, 0, 1, INK_FAINT, "-");
        return;
    }
    struct range x = range_of(rows, of_x), y = range_of(rows, of_y);
    struct box axis = box_cut_bottom(&box, 1), plot = box;
    char low[TUI_NUMBER], high[TUI_NUMBER];
    box_print_right(&box, 0, 6, INK_FAINT, "%s", tui_real(y.high, 1, high));
    box_print_right(&box, box.rows - 1, 6, INK_FAINT, "%s", tui_real(y.low, 1, low));
    box_cut_left(&plot, 7);
    plot.columns = plot.columns > 1 ? plot.columns - 1 : plot.columns;
    for (int i = rows->rows - 1; i >= 0; i--) { /* the frontier comes first, and is drawn last */
        bool frontier = answer_number(rows, i, of_frontier) == 1;
        int column = place(answer_number(rows, i, of_x), x, plot.columns, true),
            row = plot.rows - 1 - place(answer_number(rows, i, of_y), y, plot.rows, false);
        uint32_t glyph = frontier ? (unicode ? 0x25C6 : '*') : (unicode ? 0xB7 : '.');
        box_glyph(&plot, row, column, frontier ? INK_TITLE : INK_LINE, glyph);
    }
    box_print(&axis, 0, 7, INK_FAINT, "+%s%s", tui_count(x.low, low),
              axis.columns >= 60 ? "  (square-root scale)" : "");
    box_print_right(&axis, 0, axis.columns - 1, INK_FAINT, "+%s parameters", tui_count(x.high, high));
}

void tui_draw_rewards(struct box box, const struct tui_data *data, const struct tui_choice *choice)
{
    int right = box.columns >= 120 ? box.columns / 2 : 42;
    struct box left = box_cut_left(&box, box.columns - right > 30 ? box.columns - right : box.columns);
    int listed = box.rows >= 36 ? 12 : box.rows >= 26 ? 8 : 5;
    draw_waterfall(left, data, choice);
    draw_episodes(box_cut_top(&box, listed), data, ASK_TOP, "best episodes");
    draw_episodes(box_cut_top(&box, listed), data, ASK_BOTTOM, "worst episodes");
    draw_pareto(box, data);
}
