#include "view/tui_draw.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "morph/family.h"
#include "view/tui_plot.h"

/* ---- what the screens share -------------------------------------------------------------------------------------- */

const char *const tui_stages[TUI_STAGES] = {LIVE_STAGES(WORD_NAME, ) "cooling"};

char tui_stage_letter(const char *stage)
{
    static const char *const cooling[] = {COOLDOWN_STAGES(WORD_NAME, ) "cooling"};
    for (size_t i = 0; i < sizeof cooling / sizeof cooling[0]; i++)
        if (strcmp(stage, cooling[i]) == 0)
            return 'x';
    for (int i = 0; i < TUI_STAGES; i++)
        if (strcmp(stage, tui_stages[i]) == 0)
            return (char)(stage[0] - 'a' + 'A');
    return '.';
}

enum ink tui_stage_ink(char letter)
{
    for (int i = 0; i < TUI_STAGES; i++)
        if (tui_stage_letter(tui_stages[i]) == letter)
            return (enum ink)(INK_GERMINATED + i);
    return INK_FAINT;
}

const struct family_words *tui_words(const struct tui_data *data)
{
    return &host_family_of(&data->run.config)->words;
}

const char *tui_slot_name(const struct tui_data *data, double slot, char text[TUI_NUMBER])
{
    if (!isfinite(slot))
        return "-";
    if (slot >= 0 && slot < data->run.config.slot_count)
        snprintf(text, TUI_NUMBER, "%.7s", data->run.config.slots[(int)slot]);
    else
        snprintf(text, TUI_NUMBER, "%.0f", slot);
    return text;
}

int tui_series(const struct tui_answer *answer, const char *name, double *values, int most)
{
    int column = answer_column(answer, name), count = answer->rows < most ? answer->rows : most;
    for (int i = 0; i < count; i++)
        values[i] = answer_number(answer, answer->rows - count + i, column);
    return count;
}

void tui_draw_plot(struct box box, const struct tui_answer *from, const char *column, const char *label,
                   const char *value, const char *unit)
{
    double values[TUI_SERIES];
    int count = tui_series(from, column, values, TUI_SERIES);
    const struct tui_plot plot = {.values = values,
                                  .count = count,
                                  .from = (double)tui_round_shown(answer_named(from, from->rows - count, "round")),
                                  .to = (double)tui_round_shown(answer_named(from, from->rows - 1, "round")),
                                  .ink = INK_LINE};
    struct box head = box_cut_top(&box, 1);
    int used = 1 + box_print(&head, 0, 1, INK_FAINT, "%s  ", label);
    box_print(&head, 0, used, INK_PLAIN, "%s%s ", value, unit);
    box.columns -= box.columns > 2 ? 2 : 0;
    if (count)
        box_plot(&box, &plot);
}

int tui_alerts(const struct tui_data *data)
{
    return run_has_ended(&data->status) ? 0 : data->answers[ASK_ALERTS].rows;
}

enum ink tui_alert_ink(const struct tui_data *data, int alert, const char **sign)
{
    bool critical = strcmp(answer_word(&data->answers[ASK_ALERTS], alert, "severity"), "critical") == 0;
    *sign = critical ? "!!" : "!";
    return critical ? INK_BAD : INK_WARN;
}

/* ---- header ------------------------------------------------------------------------------------------------------ */

struct state_look {
    const char *word, *sign, *ascii;
    enum ink ink;
};

static struct state_look state_look(const struct run_status *status)
{
    const char *name = run_state_name(status);
    static const struct {
        const char *name;
        struct state_look look;
    } looks[] = {{"running", {"live", "\u25CF", "*", INK_GOOD}},
                 {"finished", {"finished", "\u2713", "+", INK_GOOD}},
                 {"interrupted", {"interrupted", "\u2016", "=", INK_WARN}},
                 {"failed", {"failed", "\u2717", "x", INK_BAD}},
                 {"crashed", {"crashed", "\u2717", "x", INK_BAD}}};
    for (size_t i = 0; i < sizeof looks / sizeof looks[0]; i++)
        if (strcmp(name, looks[i].name) == 0)
            return looks[i].look;
    return (struct state_look){name, "?", "?", INK_WARN};
}

/* Mean wall time of the last ten rounds, s; NAN when there is none. */
static double round_seconds(const struct tui_data *data)
{
    double seconds[10], sum = 0;
    int count = tui_series(&data->answers[ASK_ROUNDS], "seconds", seconds, 10);
    for (int i = 0; i < count; i++)
        sum += seconds[i];
    return count ? sum / count : (double)NAN;
}

/* Older than three steps take, and old enough to make a person wonder. */
static bool is_stale(const struct tui_data *data)
{
    double step = round_seconds(data) / fmax(1, data->run.config.steps);
    return data->status.alive && data->age > fmax(5, isfinite(step) ? 3 * step : 30);
}

static void draw_identity(const struct box *box, const struct tui_data *data)
{
    const struct tui_answer *summary = &data->answers[ASK_SUMMARY];
    struct state_look look = state_look(&data->status);
    char age[TUI_NUMBER], lost[TUI_NUMBER];
    double rows_lost = answer_named(summary, 0, "rows_lost");
    int column = 1 + box_print(box, 0, 1, INK_TITLE, "%.60s", data->run.name);
    box_print(box, 0, column + 2, INK_FAINT, "%.40s %.20s%s", data->run.config.task, answer_word(summary, 0, "policy"),
              data->run.config.evaluate ? ", evaluation" : "");
    int end = box->columns - 1;
    bool some = isfinite(rows_lost) && rows_lost > 0;
    tui_count(some ? rows_lost : 0, lost);
    if (!isfinite(answer_named(summary, 0, "evaluate")))
        snprintf(lost, sizeof lost, "-"); /* the record was never read */
    box_print_right(box, 0, end, some ? INK_BAD : INK_FAINT, "%sdrops %s", some ? "! " : "", lost);
    end -= 8 + (int)strlen(lost) + (some ? 2 : 0);
    tui_real(data->age, data->age < 9.95 ? 1 : 0, age);
    if (data->status.alive && box->columns >= 60) {
        const char *word = box->columns >= 100 ? "written " : "", *sign = is_stale(data) ? "! " : "";
        box_print_right(box, 0, end, *sign ? INK_WARN : INK_FAINT, "%s%s%s s ago", sign, word, age);
        end -= (int)(strlen(sign) + strlen(word) + strlen(age)) + 8;
    }
    box_print_right(box, 0, end, look.ink, " %s %s", box->canvas->unicode ? look.sign : look.ascii, look.word);
}

static void draw_progress(const struct box *box, const struct tui_data *data)
{
    const struct tui_answer *summary = &data->answers[ASK_SUMMARY], *rounds = &data->answers[ASK_ROUNDS];
    const struct config *config = &data->run.config;
    char eta[TUI_NUMBER], speed[TUI_NUMBER], done_text[TUI_NUMBER];
    double done = answer_named(summary, 0, "rounds_done"), step = answer_named(summary, 0, "newest_step");
    double total = config->rounds;
    if (data->newest_round == data->last_round && data->last_round >= 0 && isfinite(step))
        step = config->steps; /* between two rounds */
    double within = data->newest_round > data->last_round && isfinite(step) ? step / fmax(1, config->steps) : 0;
    double left = round_seconds(data) * (total - done - within);
    tui_time(data->status.alive ? left : (double)NAN, eta);
    tui_count(answer_named(rounds, rounds->rows - 1, "env_steps_per_s"), speed);
    int bar = box->columns >= 76 ? 8 + (box->columns - 76) / 6 : 0;
    bar = bar > 40 ? 40 : bar;
    int column = 1 + box_print(box, 1, 1, INK_FAINT, "round ");
    box_bar(box, 1, column, bar, done / total, INK_LINE);
    column += bar + (bar > 0);
    column += box_print(box, 1, column, INK_PLAIN, "%s/%.0f", tui_real(done, 0, done_text), total);
    column += box_print(box, 1, column, INK_FAINT, "  step ");
    box_bar(box, 1, column, bar, step / fmax(1, config->steps), INK_LINE);
    column += bar + (bar > 0);
    column += box_print(box, 1, column, INK_PLAIN, "%s/%d", tui_real(step, 0, done_text), config->steps);
    column += box_print(box, 1, column, INK_FAINT, "  ETA ");
    column += box_print(box, 1, column, INK_PLAIN, "%s", eta);
    column += box_print(box, 1, column, INK_PLAIN, "  %s", speed);
    box_print(box, 1, column, INK_FAINT, " env-steps/s");
}

static void draw_verdict(const struct box *box, int row, const struct verdict *verdict)
{
    static const struct {
        const char *sign, *ascii;
        enum ink ink;
    } looks[] = {[VERDICT_INTERPRETABLE] = {"\u2713", "+", INK_GOOD},
                 [VERDICT_COLLECTING] = {"\u00B7", ".", INK_FAINT},
                 [VERDICT_WATCH] = {"!", "!", INK_WARN},
                 [VERDICT_BLOCKED] = {"\u2717", "x", INK_BAD}};
    const char *sign = box->canvas->unicode ? looks[verdict->state].sign : looks[verdict->state].ascii;
    int used = box_print(box, row, 1, looks[verdict->state].ink, "%s %s  ", sign, verdict_state_name(verdict->state));
    box_print(box, row, 1 + used, INK_FAINT, "%s", verdict->text);
}

/* The alerts, the worst first, as many as fit: those that are active, or stood when it ended. */
static void draw_alerts(const struct box *box, int row, const struct tui_data *data)
{
    const struct tui_answer *alerts = &data->answers[ASK_ALERTS];
    bool ended = run_has_ended(&data->status), unicode = box->canvas->unicode;
    const char *sign = "";
    if (alerts->rows == 0) {
        int used = box_print(box, row, 1, INK_GOOD, "%s", unicode ? "\u2713 " : "+ ");
        box_print(box, row, 1 + used, INK_FAINT, data->last_round < 0 ? "no round has finished yet" : "no alerts");
        return;
    }
    enum ink ink = ended ? INK_FAINT : tui_alert_ink(data, 0, &sign);
    int column = 1 + box_print(box, row, 1, ink, "%d alert%s%s", alerts->rows, alerts->rows == 1 ? "" : "s",
                               ended ? " at its end:" : "");
    for (int i = 0; i < alerts->rows && column < box->columns - 12; i++) {
        if (!ended)
            ink = tui_alert_ink(data, i, &sign);
        column +=
            box_print(box, row, column, ink, "  %s%s%.48s", sign, *sign ? " " : "", answer_word(alerts, i, "text"));
    }
}

/* The verdict, and the alerts below it. In one row what matters more now: the alerts while it runs, then the verdict.
 */
static void draw_strip(const struct box *box, const struct tui_data *data)
{
    if (data->trouble[0])
        box_print(box, 2, 1, INK_BAD, "x cannot read: %s", data->trouble);
    else if (data->judged && (box->rows > 3 || run_has_ended(&data->status)))
        draw_verdict(box, 2, &data->verdict);
    else
        draw_alerts(box, 2, data);
    if (box->rows > 3 && !data->trouble[0] && data->judged)
        draw_alerts(box, 3, data);
}

/* ---- footer and help --------------------------------------------------------------------------------------------- */

static void draw_keys(const struct box *box, const struct tui_choice *choice)
{
    static const char *const names[] = {"overview", "policy", "seeds", "rewards", "system", "events"};
    int column = 1;
    if (choice->typing) {
        column += box_print(box, 0, column, INK_TITLE, "show events containing: %s", choice->filter);
        box_glyph(box, 0, column, INK_SELECTED, ' ');
        box_print_right(box, 0, box->columns - 1, INK_FAINT, "Enter: done  Esc: all");
        return;
    }
    for (int i = SCREEN_OVERVIEW; i <= SCREEN_LAST; i++) {
        bool here = i == (int)choice->screen && !choice->help;
        column += box_print(box, 0, column, here ? INK_SELECTED : INK_FAINT,
                            box->columns >= 74 || here ? " %d %s " : " %d ", i, names[i - 1]);
    }
    box_print_right(box, 0, box->columns - 1, INK_FAINT,
                    box->columns >= 90 ? "r runs  ? help  q leave" : "? help  q leave");
}

static void draw_stages_help(const struct box *box, int row)
{
    int key = 1, what = 17;
    for (int i = 0; i < TUI_STAGES; i++) {
        key += box_print(box, row, key, INK_TITLE, "%c ", tui_stage_letter(tui_stages[i]));
        what += box_print(box, row, what, INK_PLAIN, "%s ", tui_stages[i]);
    }
    box_print(box, row, key, INK_TITLE, ".");
    box_print(box, row, what, INK_PLAIN, "empty");
}

void tui_draw_help(struct box box)
{
    static const struct {
        const char *key, *what;
    } lines[] = {
        {"1 .. 6, Tab", "screens: overview, policy, seeds, rewards, system, events"},
        {"j k, arrows", "next and previous env; in events one line down and up"},
        {"g G, PgUp PgDn", "first, last; ten at a time"},
        {"[ ]", "seeds, rewards: one round back, one round forward"},
        {"v", "overview: envs as a grid or as a list"},
        {"r", "another run: the runs beside this one, searched by what is typed"},
        {"/", "events: show those that contain a text; Esc shows all"},
        {"?  Esc  q", "this page; back; leave (the run is not affected)"},
        {"", ""},
        {"* + = x", "live, finished, interrupted, crashed or failed; ! is an alert"},
        {"-", "missing: it was not measured, or there is none"},
        {"accuracy", "of images: validation accuracy at the last step, mean of the envs, percent"},
        {"score", "of text, likewise: points, the share of a byte's 8 bits that is saved, percent"},
        {"reward", "sum of an episode's raw rewards, mean of the envs"},
        {"entropy", "of the op head, 0 (always the same) to 1 (uniform)"},
        {"KL, EV", "policy change per update; variance explained by the critic"},
        {"share", "a seed's Shapley share of what all add, points"},
    };
    box_title(&box, "help");
    for (int i = 0; i < (int)(sizeof lines / sizeof lines[0]); i++) {
        box_print(&box, i, 1, INK_TITLE, "%s", lines[i].key);
        box_print(&box, i, 17, INK_PLAIN, "%s", lines[i].what);
    }
    draw_stages_help(&box, (int)(sizeof lines / sizeof lines[0]));
}

/* ---- the frame --------------------------------------------------------------------------------------------------- */

enum { TALL = 28 }; /* rows from which on verdict and alerts each have their own */

void tui_draw(struct canvas *canvas, const struct tui_data *data, const struct tui_choice *choice)
{
    canvas_clear(canvas);
    struct box body = box_whole(canvas), header = box_cut_top(&body, canvas->rows >= TALL ? 4 : 3),
               footer = box_cut_bottom(&body, 1);
    draw_identity(&header, data);
    draw_progress(&header, data);
    draw_strip(&header, data);
    draw_keys(&footer, choice);
    if (choice->help) {
        tui_draw_help(body);
        return;
    }
    switch (choice->screen) {
    case SCREEN_OVERVIEW:
        tui_draw_overview(body, data, choice);
        break;
    case SCREEN_POLICY:
        tui_draw_policy(body, data);
        break;
    case SCREEN_SEEDS:
        tui_draw_seeds(body, data, choice);
        break;
    case SCREEN_REWARDS:
        tui_draw_rewards(body, data, choice);
        break;
    case SCREEN_SYSTEM:
        tui_draw_system(body, data);
        break;
    case SCREEN_EVENTS:
        tui_draw_events(body, data, choice);
        break;
    }
}
