/* Screens 5 and 6: where the time goes and what is recorded; all events. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "view/tui_draw.h"
#include "view/tui_plot.h"

/* ---- time -------------------------------------------------------------------------------------------------------- */

static void draw_phases(struct box box, const struct tui_data *data)
{
    const struct tui_answer *phases = &data->answers[ASK_PHASES];
    double all = 0;
    for (int i = 0; i < phases->rows; i++)
        all += answer_named(phases, i, "seconds");
    if (data->last_round < 0 || phases->rows == 0)
        box_title(&box, "phases: -");
    else
        box_title(&box, "phases of round %lld, all threads", (long long)tui_round_shown((double)data->last_round));
    struct box head = box_cut_top(&box, 1);
    box_print(&head, 0, 0, INK_FAINT, " phase       share %%      s  mean ms   max ms");
    for (int i = 0; i < phases->rows && i < box.rows; i++) {
        char number[TUI_NUMBER];
        double seconds = answer_named(phases, i, "seconds");
        box_print(&box, i, 1, INK_PLAIN, "%.12s", answer_word(phases, i, "name"));
        box_print_right(&box, i, 20, INK_PLAIN, "%s", tui_real(all > 0 ? 100 * seconds / all : (double)NAN, 1, number));
        box_print_right(&box, i, 27, INK_PLAIN, "%s", tui_real(seconds, 2, number));
        box_print_right(&box, i, 36, INK_PLAIN, "%s", tui_real(answer_named(phases, i, "mean_ms"), 2, number));
        box_print_right(&box, i, 45, INK_PLAIN, "%s", tui_real(answer_named(phases, i, "max_ms"), 2, number));
        if (box.columns >= 60)
            box_bar(&box, i, 47, box.columns - 49, all > 0 ? seconds / all : 0, INK_LINE);
    }
}

static void draw_speed(struct box box, const struct tui_data *data, int height)
{
    static const struct {
        const char *label, *name, *unit;
    } curves[] = {{"speed", "env_steps_per_s", " env-steps/s"},
                  {"images", "images_per_s", " images/s"},
                  {"round", "seconds", " s"}};
    bool plots = height > PLOT_ROWS && box.columns >= 3 * PLOT_COLUMNS;
    box_title(&box, "speed, round by round");
    for (int i = 0; i < 3; i++) {
        const struct tui_answer *rounds = &data->answers[ASK_ROUNDS];
        double values[TUI_SERIES], last = answer_named(rounds, rounds->rows - 1, curves[i].name);
        char number[TUI_NUMBER];
        const char *text = i == 2 ? tui_real(last, 2, number) : tui_count(last, number);
        if (plots) { /* side by side */
            tui_draw_plot(box_cut_left(&box, box.columns / (3 - i)), rounds, curves[i].name, curves[i].label, text,
                          curves[i].unit);
            continue;
        }
        box_print(&box, i, 1, INK_FAINT, "%s", curves[i].label);
        box_print(&box, i, 8, INK_PLAIN, "%s%s", text, curves[i].unit);
        box_curve(&box, i, 28, 1, box.columns - 30, values, tui_series(rounds, curves[i].name, values, TUI_SERIES),
                  INK_LINE);
    }
}

/* ---- the record -------------------------------------------------------------------------------------------------- */

static void draw_record(struct box box, const struct tui_data *data)
{
    const struct tui_answer *summary = &data->answers[ASK_SUMMARY];
    char a[TUI_NUMBER], b[TUI_NUMBER];
    double done = answer_named(summary, 0, "rounds_done");
    box_title(&box, "record");
    box_print(&box, 0, 1, INK_FAINT, "size");
    box_print(&box, 0, 12, INK_PLAIN, "%s, %s/round", tui_bytes(data->bytes, a),
              tui_bytes(done > 0 ? data->bytes / done : (double)NAN, b));
    box_print(&box, 1, 1, INK_FAINT, "trained");
    box_print(&box, 1, 12, INK_PLAIN, "%s env-steps in %s", tui_count(answer_named(summary, 0, "env_steps"), a),
              tui_time(answer_named(summary, 0, "seconds"), b));
    box_print(&box, 2, 1, INK_FAINT, "trainer");
    box_print(&box, 2, 12, INK_PLAIN, "pid %ld, %s", data->status.pid, data->status.alive ? "alive" : "gone");
    box_print(&box, 3, 1, INK_FAINT, "made by");
    box_print(&box, 3, 12, INK_PLAIN, "esper %.31s, %.20s", data->run.version, data->run.kernels);
    box_print(&box, 4, 1, INK_FAINT, "this view");
    box_print(&box, 4, 12, INK_PLAIN, "%s ms read, %s ms drawn", tui_real(data->load_ms, 1, a),
              tui_real(data->draw_ms, 1, b));
    box_print(&box, 5, 1, INK_FAINT, "started");
    box_print(&box, 5, 12, INK_PLAIN, "%.24s", data->run.created);
    box_print(&box, 6, 1, INK_FAINT, "where");
    box_print(&box, 6, 12, INK_PLAIN, "%s", data->run.path);
}

/* Who waits for whom: the ranks of a run that several play, and in how many rounds each was the last. */
static void draw_ranks(struct box box, const struct tui_data *data)
{
    const struct tui_answer *ranks = &data->answers[ASK_RANKS];
    bool wide = box.columns >= 60;
    box_title(&box, "ranks, last %.0f rounds", answer_named(ranks, 0, "rounds"));
    box_print(&box, 0, 1, INK_FAINT, "rank envs  busy s  wait s  last%s", wide ? "  where" : "");
    for (int i = 0; i < ranks->rows && i + 1 < box.rows; i++) {
        char number[TUI_NUMBER];
        double last = answer_named(ranks, i, "last"), rounds = answer_named(ranks, i, "rounds");
        enum ink ink = 2 * last > rounds ? INK_WARN : INK_PLAIN; /* the others wait for it */
        box_print_right(&box, i + 1, 5, ink, "%s", tui_real(answer_named(ranks, i, "rank"), 0, number));
        box_print_right(&box, i + 1, 10, INK_PLAIN, "%s", tui_real(answer_named(ranks, i, "envs"), 0, number));
        box_print_right(&box, i + 1, 18, INK_PLAIN, "%s", tui_real(answer_named(ranks, i, "busy"), 2, number));
        box_print_right(&box, i + 1, 26, INK_PLAIN, "%s", tui_real(answer_named(ranks, i, "waited"), 2, number));
        box_print_right(&box, i + 1, 32, ink, "%s", tui_real(last, 0, number));
        if (wide)
            box_print(&box, i + 1, 34, INK_FAINT, "%.20s, %.40s", answer_word(ranks, i, "node"),
                      answer_word(ranks, i, "device"));
    }
}

static void draw_drops(struct box box, const struct tui_data *data)
{
    const struct tui_answer *drops = &data->answers[ASK_DROPS];
    box_title(&box, "missing rows");
    if (drops->rows == 0)
        box_print(&box, 0, 1, INK_FAINT, "none");
    for (int i = 0; i < drops->rows && i < box.rows; i++) {
        bool lost = strcmp(answer_word(drops, i, "reason"), "full") == 0;
        char number[TUI_NUMBER];
        box_print(&box, i, 1, lost ? INK_BAD : INK_FAINT, "%s %-10.10s %-16s", lost ? "!" : " ",
                  answer_word(drops, i, "name"), lost ? "lost, buffer full" : "thinned");
        box_print_right(&box, i, 38, INK_PLAIN, "%s", tui_count(answer_named(drops, i, "count"), number));
    }
}

static void draw_checkpoints(struct box box, const struct tui_data *data)
{
    const struct tui_answer *files = &data->answers[ASK_CHECKPOINTS];
    box_title(&box, "checkpoints, newest first");
    if (files->rows == 0)
        box_print(&box, 0, 1, INK_FAINT, "none yet");
    for (int i = 0; i < files->rows && i < box.rows; i++) {
        char bytes[TUI_NUMBER];
        int used = 1 + box_print(&box, i, 1, INK_PLAIN, "%.24s", answer_word(files, i, "file"));
        box_print(&box, i, used, INK_FAINT, "  %s  %.10s  %.8s", tui_bytes(answer_named(files, i, "bytes"), bytes),
                  answer_word(files, i, "kind"),
                  strlen(answer_word(files, i, "written")) > 11 ? answer_word(files, i, "written") + 11 : "-");
    }
}

void tui_draw_system(struct box box, const struct tui_data *data)
{
    int phases = data->answers[ASK_PHASES].rows;
    struct box left = box_cut_left(&box, box.columns >= 120 ? box.columns * 3 / 5 : box.columns * 47 / 80);
    phases = phases > left.rows - 6 ? left.rows - 6 : phases;
    draw_phases(box_cut_top(&left, phases + 2), data);
    int height = left.rows * 2 / 3; /* of plots, where there is room for them */
    bool plots = height > PLOT_ROWS + 2 && left.columns >= 3 * PLOT_COLUMNS;
    draw_speed(box_cut_top(&left, 1 + (plots ? height : 3)), data, plots ? height : 1);
    draw_checkpoints(left, data);
    draw_record(box_cut_top(&box, 8), data);
    if (data->answers[ASK_RANKS].rows)
        draw_ranks(box_cut_top(&box, 2 + data->answers[ASK_RANKS].rows), data);
    draw_drops(box, data);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static enum ink event_ink(const char *kind, const char *text, char *sign)
{
    static const struct {
        const char *kind;
        char sign;
        enum ink ink;
    } looks[] = {
        {"alert", '!', INK_WARN}, {"rollback", '!', INK_BAD}, {"drops", '!', INK_BAD}, {"checkpoint", 'c', INK_FAINT}};
    for (size_t i = 0; i < sizeof looks / sizeof looks[0]; i++)
        if (strcmp(kind, looks[i].kind) == 0) {
            *sign = looks[i].sign;
            return looks[i].ink;
        }
    bool refused = strcmp(kind, "gate") == 0 && strstr(text, "refused"), stage = tui_stage_letter(kind) != '.';
    *sign = stage ? tui_stage_letter(kind) : refused ? '!' : ' ';
    return stage ? tui_stage_ink(*sign) : refused ? INK_WARN : INK_PLAIN;
}

/* The event as one line; filters search this line. */
static void event_line(const struct tui_data *data, const struct tui_answer *events, int i, char *line, size_t size)
{
    char step[TUI_NUMBER], env[TUI_NUMBER], slot[TUI_NUMBER];
    int64_t round = tui_round_shown(answer_named(events, i, "round"));
    if (strcmp(answer_word(events, i, "kind"), "checkpoint") == 0 && answer_named(events, i, "step") == 0)
        round--; /* it counts finished rounds: this one belongs to the last of them */
    snprintf(line, size, "%6lld %4s %4s %-5.5s %-11.11s %.200s", (long long)round,
             tui_real(answer_named(events, i, "step"), 0, step), tui_real(answer_named(events, i, "env"), 0, env),
             tui_slot_name(data, answer_named(events, i, "slot"), slot), answer_word(events, i, "kind"),
             answer_word(events, i, "text"));
}

void tui_draw_events(struct box box, const struct tui_data *data, const struct tui_choice *choice)
{
    const struct tui_answer *events = &data->answers[ASK_EVENTS];
    struct box top = box_cut_top(&box, 2);
    int found = 0, row = 0;
    for (int i = 0; i < events->rows; i++) {
        char line[320], sign;
        event_line(data, events, i, line, sizeof line);
        if (choice->filter[0] && !strcasestr(line, choice->filter))
            continue;
        if (found++ < choice->scroll || row >= box.rows)
            continue;
        enum ink ink = event_ink(answer_word(events, i, "kind"), answer_word(events, i, "text"), &sign);
        box_print(&box, row, 0, ink, "%c%s", sign, line);
        row++;
    }
    if (choice->filter[0])
        box_title(&top, "%d of the newest %d events contain \"%s\"", found, events->rows, choice->filter);
    else
        box_title(&top, "the newest %d events, newest first   / filter  j/k scroll", events->rows);
    box_print(&top, 0, 0, INK_FAINT, "  round step  env slot  event       what");
    if (found == 0)
        box_print(&box, 0, 1, INK_FAINT, "-");
}
