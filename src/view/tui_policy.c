/* Screen 2: what the update did to the policy and to each of its heads. */
#include <math.h>
#include <string.h>

#include "view/tui_draw.h"

/* ---- the update -------------------------------------------------------------------------------------------------- */

/* The first ones matter most: a small screen shows no more. */
static const struct {
    const char *label, *name;
    double scale;
    const char *unit;
} numbers[] = {
    {"KL", "kl", 1, ""},
    {"explained var.", "explained_variance", 1, ""},
    {"op entropy", "op_entropy", 1, ""},
    {"value nrmse", "value_nrmse", 1, ""},
    {"clipped", "clip_fraction", 100, " %"},
    {"value corr.", "value_correlation", 1, ""},
    {"policy loss", "policy_loss", 1, ""},
    {"value loss", "value_loss", 1, ""},
    {"grad norm", "grad_norm", 1, ""},
    {"TD error std", "td_error_std", 1, ""},
    {"ratio max", "ratio_max", 1, ""},
    {"|TD error|", "bellman_error", 1, ""},
    {"ratio min", "ratio_min", 1, ""},
    {"return p10", "return_p10", 1, ""},
    {"advantage std", "advantage_std", 1, ""},
    {"return p50", "return_p50", 1, ""},
    {"advantage > 0", "advantage_positive", 100, " %"},
    {"return p90", "return_p90", 1, ""},
    {"no choice", "forced_ratio", 100, " %"},
    {"return std", "return_std", 1, ""},
    {"entropy bonus", "entropy", 1, ""},
    {"return skew", "return_skewness", 1, ""},
    {"entropy coef.", "entropy_coef", 1, ""},
    {"value mean", "value_mean", 1, ""},
    {"ratio mean", "ratio_mean", 1, ""},
    {"value std", "value_std", 1, ""},
    {"anchor drift", "anchor_drift", 1, ""},
    {"value grad norm", "value_grad_norm", 1, ""},
    {"state h rms", "hidden_rms", 1, ""},
    {"reward scale", "reward_scale", 1, ""},
    {"state c rms", "cell_rms", 1, ""},
    {"update time", "seconds", 1, " s"},
    {"epochs", "epochs", 1, ""},
    {"not finite", "nonfinite", 1, ""},
    {"rows", "rows", 1, ""},
    {"stopped at", "early_stop", 1, ""},
};

static void draw_number(const struct box *box, int row, int column, int rows, int columns, const struct tui_data *data,
                        int i)
{
    double values[TUI_SERIES];
    char text[TUI_NUMBER];
    int count = tui_series(&data->answers[ASK_PPO], numbers[i].name, values, TUI_SERIES);
    double last = count ? values[count - 1] * numbers[i].scale : (double)NAN;
    if (strcmp(numbers[i].name, "early_stop") == 0 && last < 0)
        last = (double)NAN; /* it was not stopped */
    bool counted = strcmp(numbers[i].name, "epochs") == 0 || strcmp(numbers[i].name, "nonfinite") == 0 ||
                   strcmp(numbers[i].name, "rows") == 0 || strcmp(numbers[i].name, "early_stop") == 0;
    box_print(box, row, column, INK_FAINT, "%s", numbers[i].label);
    box_print_right(box, row, column + 26, INK_PLAIN, "%s%s", counted ? tui_real(last, 0, text) : tui_short(last, text),
                    numbers[i].unit);
    box_curve(box, row, column + 27, rows > 1 ? rows - 1 : 1, columns - 29, values, count, INK_LINE);
}

enum { NUMBERS = sizeof numbers / sizeof numbers[0], HEAD_ROWS = 10 };

static int numbers_across(const struct box *box)
{
    return box->columns >= 180 ? 4 : box->columns >= 120 ? 3 : 2;
}

static void draw_update(struct box box, const struct tui_data *data, int height)
{
    const struct tui_answer *ppo = &data->answers[ASK_PPO];
    int across = numbers_across(&box), width = box.columns / across;
    if (ppo->rows == 0) {
        box_title(&box, "update");
        box_print(&box, 0, 1, INK_FAINT, "-  (nothing was learned%s)",
                  data->run.config.policy.kind == POLICY_PPO && !data->run.config.evaluate ? " yet" : " in this run");
        return;
    }
    box_title(&box, "update of round %lld", (long long)tui_round_shown(answer_named(ppo, ppo->rows - 1, "round")));
    for (int i = 0; i < NUMBERS && i / across * height < box.rows; i++)
        draw_number(&box, i / across * height, 1 + i % across * width, height, width, data, i);
}

/* ---- heads ------------------------------------------------------------------------------------------------------- */

/* The entropies of that head, oldest first. */
static int head_series(const struct tui_answer *heads, const char *head, double *values)
{
    int of_head = answer_column(heads, "head"), of_entropy = answer_column(heads, "entropy"), count = 0;
    for (int row = 0; row < heads->rows && count < TUI_SERIES; row++)
        if (strcmp(answer_text(heads, row, of_head), head) == 0)
            values[count++] = answer_number(heads, row, of_entropy);
    return count;
}

static const struct {
    const char *title, *name;
    double scale;
    int end, digits;
} cells[] = {
    {"choice %", "learnable", 100, 22, 1},   {"entropy", "entropy", 1, 30, 3},   {"KL", "kl", 1, 38, 5},
    {"clip %", "clip_fraction", 100, 45, 1}, {"r max", "ratio_max", 1, 52, 2},   {"r min", "ratio_min", 1, 59, 2},
    {"logp min", "log_prob_min", 1, 68, 2},  {"gradient", "grad_norm", 1, 78, 4}};
enum { CELLS = sizeof cells / sizeof cells[0] };

static void draw_head(const struct box *box, int row, const struct tui_answer *heads, int from)
{
    double values[TUI_SERIES];
    char text[TUI_NUMBER];
    const char *head = answer_word(heads, from, "head");
    box_print(box, row, 1, INK_PLAIN, "%.13s", head);
    for (int i = 0; i < CELLS; i++)
        box_print_right(box, row, cells[i].end, INK_PLAIN, "%s",
                        tui_real(answer_named(heads, from, cells[i].name) * cells[i].scale, cells[i].digits, text));
    if (box->columns >= 100)
        box_curve(box, row, 80, 1, box->columns - 82, values, head_series(heads, head, values), INK_LINE);
}

static void draw_heads(struct box box, const struct tui_data *data)
{
    const struct tui_answer *heads = &data->answers[ASK_HEADS];
    double last = answer_named(heads, heads->rows - 1, "round");
    box_title(&box, "heads%s", heads->rows ? "" : ": -");
    if (heads->rows == 0)
        return;
    struct box top = box_cut_top(&box, 1);
    box_print(&top, 0, 1, INK_FAINT, "head");
    for (int i = 0; i < CELLS; i++)
        box_print_right(&top, 0, cells[i].end, INK_FAINT, "%s", cells[i].title);
    box_print(&top, 0, 80, INK_FAINT, "entropy, round by round");
    int row = 0;
    for (int i = 0; i < heads->rows; i++)
        if (answer_named(heads, i, "round") == last)
            draw_head(&box, row++, heads, i);
}

void tui_draw_policy(struct box box, const struct tui_data *data)
{
    int across = numbers_across(&box), lines = (NUMBERS + across - 1) / across;
    int height = (box.rows - HEAD_ROWS - 1) / lines;
    height = height < 1 ? 1 : height > 4 ? 4 : height;
    int above = 1 + height * lines;
    draw_update(box_cut_top(&box, above < box.rows - HEAD_ROWS ? above : box.rows - HEAD_ROWS), data, height);
    draw_heads(box, data);
}
