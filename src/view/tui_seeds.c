/* Screen 3: one env's seeds step by step, what happened to them, and what becomes of seeds in general. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "view/tui_draw.h"

/* ---- swimlanes --------------------------------------------------------------------------------------------------- */

enum { LANE_LEFT = 6, LANE_RIGHT = 20, STEPS_MOST = 10000 };

struct lane {
    char letters[STEPS_MOST + 1]; /* by step, from 1; '.' empty */
    int last;                     /* row of its newest seed, -1 */
    bool alive;                   /* at the newest step */
};

/* The events of a life are all kept: a stage holds from the step after its event. Where rows of `seed` exist (long runs
 * thin them out) they take precedence. */
static void fill_lane(const struct tui_data *data, double slot, int steps, struct lane *lane)
{
    const struct tui_answer *rows = &data->answers[ASK_SWIMLANE], *lives = &data->answers[ASK_LIVES];
    int of_slot = answer_column(rows, "slot"), of_step = answer_column(rows, "step"),
        of_stage = answer_column(rows, "stage");
    memset(lane->letters, '.', (size_t)steps + 1);
    for (int i = 0; i < lives->rows; i++) {
        double step = answer_named(lives, i, "step");
        if (answer_named(lives, i, "slot") == slot && strcmp(answer_word(lives, i, "event"), "stage") == 0 &&
            step >= 0 && step < steps)
            memset(lane->letters + (int)step + 1, tui_stage_letter(answer_word(lives, i, "to_stage")),
                   (size_t)(steps - (int)step));
    }
    lane->last = -1;
    for (int i = 0; i < rows->rows; i++) {
        double step = answer_number(rows, i, of_step);
        if (answer_number(rows, i, of_slot) != slot || !(step >= 1 && step <= steps))
            continue;
        lane->letters[(int)step] = tui_stage_letter(answer_text(rows, i, of_stage));
        lane->last = i;
    }
    lane->alive = lane->last >= 0 && !strchr(".x", lane->letters[steps]); /* step 0 is empty */
}

static void draw_lane(const struct box *box, int row, int columns, const struct tui_data *data, const struct lane *lane,
                      int steps)
{
    const struct tui_answer *rows = &data->answers[ASK_SWIMLANE];
    int total = data->run.config.steps > steps ? data->run.config.steps : steps;
    for (int column = 0; column < columns && column < total; column++) {
        int step = total <= columns ? column + 1 : 1 + (int)((long)column * total / columns);
        if (step <= steps)
            box_glyph(box, row, LANE_LEFT + column, tui_stage_ink(lane->letters[step]), (uint32_t)lane->letters[step]);
    }
    if (lane->last < 0)
        return;
    char alpha[TUI_NUMBER];
    int at = box->columns - LANE_RIGHT + 1;
    at = LANE_LEFT + total + 2 < at ? LANE_LEFT + total + 2 : at;
    box_print(box, row, at, lane->alive ? INK_PLAIN : INK_FAINT, "%.11s", answer_word(rows, lane->last, "blueprint"));
    box_print_right(box, row, at + 17, lane->alive ? INK_PLAIN : INK_FAINT, "%s",
                    lane->alive ? tui_real(answer_named(rows, lane->last, "alpha"), 2, alpha) : "gone");
}

/* The newest step of the round in any of the env's tables. */
static int newest_step(const struct tui_data *data)
{
    const struct tui_answer *lives = &data->answers[ASK_LIVES], *rows = &data->answers[ASK_SWIMLANE];
    double step = data->shown_round < data->newest_round || data->newest_round == data->last_round
                      ? data->run.config.steps
                      : answer_named(&data->answers[ASK_SUMMARY], 0, "newest_step");
    for (int i = 0; i < rows->rows; i++)
        step = fmax(step, answer_named(rows, i, "step"));
    for (int i = 0; i < lives->rows; i++)
        step = fmax(step, answer_named(lives, i, "step"));
    return !(step > 0) ? 0 : step > STEPS_MOST ? STEPS_MOST : (int)step;
}

static void draw_lanes(struct box box, const struct tui_data *data, const struct tui_choice *choice)
{
    int columns = box.columns - LANE_LEFT - LANE_RIGHT, steps = newest_step(data);
    struct lane lane;
    box_title(&box, "env %d, round %lld: seeds step by step   j/k env  [ ] round", choice->env,
              (long long)tui_round_shown((double)data->shown_round));
    if (data->run.config.telemetry == TELEMETRY_OFF) {
        box_print(&box, 0, 1, INK_FAINT, "-  (not recorded: telemetry.level=off)");
        return;
    }
    for (int slot = 0; slot < data->run.config.slot_count && slot < box.rows; slot++) {
        char name[TUI_NUMBER];
        fill_lane(data, slot, steps, &lane);
        box_print(&box, slot, 1, INK_FAINT, "%.4s", tui_slot_name(data, slot, name));
        draw_lane(&box, slot, columns > 8 ? columns : 8, data, &lane, steps);
    }
    int column = LANE_LEFT, row = data->run.config.slot_count;
    for (int i = 0; i < TUI_STAGES; i++) {
        char letter = tui_stage_letter(tui_stages[i]);
        column += 2 + box_print(&box, row, column, tui_stage_ink(letter), "%c %s", letter, tui_stages[i]);
    }
}

/* ---- lives ------------------------------------------------------------------------------------------------------- */

enum { LINES_MOST = 512 };

/* One line: an event, or a gate that kept refusing for the same reason. */
struct life_line {
    int first, last; /* rows */
    int count;
};

static bool is_refusal(const struct tui_answer *lives, int row)
{
    return strcmp(answer_word(lives, row, "event"), "gate") == 0 && answer_named(lives, row, "passed") == 0;
}

static bool is_same_refusal(const struct tui_answer *lives, int a, int b)
{
    return is_refusal(lives, a) && is_refusal(lives, b) &&
           answer_named(lives, a, "slot") == answer_named(lives, b, "slot") &&
           strcmp(answer_word(lives, a, "gate"), answer_word(lives, b, "gate")) == 0 &&
           strcmp(answer_word(lives, a, "failed"), answer_word(lives, b, "failed")) == 0;
}

/* A change of stage that has its own event as well. */
static bool is_said_twice(const struct tui_answer *lives, int row)
{
    const char *to = answer_word(lives, row, "to_stage");
    return strcmp(answer_word(lives, row, "event"), "stage") == 0 &&
           (strcmp(to, "germinated") == 0 || strcmp(to, "fossilized") == 0 || strcmp(to, "pruned") == 0);
}

/* The newest lines, at most `most`, oldest first. A refusal is merged into the previous line of its slot. */
static int fold_lives(const struct tui_answer *lives, struct life_line *lines, int most)
{
    int count = 0;
    for (int row = 0; row < lives->rows; row++) {
        int same = -1;
        if (is_said_twice(lives, row))
            continue;
        for (int i = count - 1; i >= 0 && i >= count - CONFIG_MAX_SLOTS && same < 0; i--)
            if (is_same_refusal(lives, lines[i].last, row))
                same = i;
        if (same >= 0) {
            lines[same].last = row;
            lines[same].count++;
            continue;
        }
        if (count == most)
            memmove(lines, lines + 1, (size_t)--count * sizeof *lines);
        lines[count++] = (struct life_line){row, row, 1};
    }
    return count;
}

static void draw_life(const struct box *box, int row, const struct tui_data *data, const struct life_line *line)
{
    const struct tui_answer *lives = &data->answers[ASK_LIVES];
    int i = line->first, column = 10;
    const char *event = answer_word(lives, i, "event"), *to = answer_word(lives, i, "to_stage");
    char slot[TUI_NUMBER];
    box_print_right(box, row, 4, INK_FAINT, "%.0f", answer_named(lives, i, "step"));
    box_print(box, row, 5, INK_FAINT, "%.4s", tui_slot_name(data, answer_named(lives, i, "slot"), slot));
    if (is_refusal(lives, i)) {
        column += box_print(box, row, column, INK_WARN, "! %.4s refuses: %.40s", answer_word(lives, i, "gate"),
                            answer_word(lives, i, "failed"));
        if (line->count > 1)
            box_print(box, row, column, INK_FAINT, " (to %.0f)", answer_named(lives, line->last, "step"));
    } else if (strcmp(event, "gate") == 0) {
        box_print(box, row, column, INK_FAINT, "+ %.4s opens to %.10s", answer_word(lives, i, "gate"), to);
    } else if (strcmp(event, "stage") == 0) {
        box_print(box, row, column, tui_stage_ink(tui_stage_letter(to)), "%c %.12s", tui_stage_letter(to), to);
    } else {
        char letter = tui_stage_letter(event);
        const char *reason = answer_word(lives, i, "reason");
        column += box_print(box, row, column, tui_stage_ink(letter), "%c %.12s %.12s", letter, event,
                            answer_word(lives, i, "blueprint"));
        if (reason[0] != '-')
            box_print(box, row, column, INK_FAINT, " by %.20s", reason);
    }
}

static void draw_lives(struct box box, const struct tui_data *data)
{
    struct life_line lines[LINES_MOST];
    box_title(&box, "its life, step by step");
    int count = fold_lives(&data->answers[ASK_LIVES], lines, LINES_MOST);
    int first = count > box.rows ? count - box.rows : 0;
    if (count == 0)
        box_print(&box, 0, 1, INK_FAINT, "-%s",
                  data->run.config.telemetry == TELEMETRY_OFF ? "" : "  (no seed was germinated here)");
    for (int i = first; i < count; i++)
        draw_life(&box, i - first, data, &lines[i]);
}

/* ---- gates and blueprints ---------------------------------------------------------------------------------------- */

/* The answer states which rounds it covers. */
static void title_of_rounds(struct box *box, const char *what, const struct tui_answer *answer)
{
    if (answer->rows)
        box_title(box, "%s, rounds %lld to %lld", what,
                  (long long)tui_round_shown(answer_named(answer, 0, "first_round")),
                  (long long)tui_round_shown(answer_named(answer, 0, "last_round")));
    else
        box_title(box, "%s", what);
}

static void draw_gates(struct box box, const struct tui_data *data)
{
    const struct tui_answer *gates = &data->answers[ASK_GATE_CHECKS];
    title_of_rounds(&box, "gates", gates);
    if (gates->rows == 0)
        box_print(&box, 0, 1, INK_FAINT, "-");
    for (int i = 0; i < gates->rows && i < box.rows; i++) {
        bool open = answer_named(gates, i, "passed") == 1;
        char count[TUI_NUMBER];
        tui_count(answer_named(gates, i, "count"), count);
        box_print(&box, i, 1, open ? INK_GOOD : INK_WARN, "%s %.3s %-10.10s", open ? "+" : "!",
                  answer_word(gates, i, "gate"), answer_word(gates, i, "to_stage"));
        box_print_right(&box, i, 23, INK_PLAIN, "%s", count);
        box_print(&box, i, 24, open ? INK_FAINT : INK_WARN, "%s", open ? "opened" : answer_word(gates, i, "failed"));
    }
}

static void draw_blueprints(struct box box, const struct tui_data *data)
{
    const struct tui_answer *rows = &data->answers[ASK_BLUEPRINTS];
    static const struct {
        const char *name;
        int end, digits;
    } cells[] = {{"germinated", 16, 0},   {"fossilized", 21, 0}, {"pruned", 26, 0},
                 {"rate_percent", 31, 0}, {"share", 37, 1},      {"params", 45, 0}};
    title_of_rounds(&box, "blueprints", rows);
    struct box head = box_cut_top(&box, 1);
    box_print(&head, 0, 0, INK_FAINT, " blueprint  germ foss prun   %%  share   params");
    for (int i = 0; i < rows->rows && i < box.rows; i++) {
        char number[TUI_NUMBER];
        box_print(&box, i, 1, INK_PLAIN, "%.10s", answer_word(rows, i, "blueprint"));
        for (int c = 0; c < (int)(sizeof cells / sizeof cells[0]); c++) {
            double value = answer_named(rows, i, cells[c].name);
            box_print_right(&box, i, cells[c].end, INK_PLAIN, "%s",
                            cells[c].digits || c == 3 ? tui_real(value, cells[c].digits, number)
                                                      : tui_count(value, number));
        }
    }
}

void tui_draw_seeds(struct box box, const struct tui_data *data, const struct tui_choice *choice)
{
    int lanes = data->run.config.slot_count + 2;
    draw_lanes(box_cut_top(&box, lanes), data, choice);
    int right = box.columns >= 110 ? 50 : 40, gates = data->answers[ASK_GATE_CHECKS].rows + 1;
    struct box left = box_cut_left(&box, box.columns - right > 30 ? box.columns - right : box.columns);
    draw_lives(left, data);
    if (gates > box.rows - 6)
        gates = box.rows / 2;
    draw_gates(box_cut_top(&box, gates < 2 ? 2 : gates), data);
    draw_blueprints(box, data);
}
