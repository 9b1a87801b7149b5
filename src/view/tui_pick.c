#include "view/tui_pick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "view/tui_terminal.h"

#define READ_SECONDS 3.0 /* between two looks at the directory, at least */
#define READ_RARITY  20  /* and so many times as long as a look takes */

/* ---- the list ---------------------------------------------------------------------------------------------------- */

/* Tags, separated by spaces. */
static void join_tags(const struct run_label *label, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < label->count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? " " : "", label->tags[i]);
}

/* Whether every word that was typed is somewhere in the run's line. */
static bool fits(const struct shelf_run *run, const char *typed)
{
    char line[1024], words[sizeof((struct tui_picker *)0)->typed], tags[LABEL_TAGS * LABEL_TAG], *rest = words;
    join_tags(&run->label, tags, sizeof tags);
    snprintf(line, sizeof line, "%s %s %s %s %s %.200s", run->name, run->state, run->task, run->policy, tags,
             run->label.note);
    snprintf(words, sizeof words, "%s", typed);
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;)
        if (!strcasestr(line, word))
            return false;
    return true;
}

/* What the list may be sorted by, after the newest first. */
static const char *const orders[] = {"the newest first", "by name", "by state", "by rounds done", "by size"};
enum { ORDERS = sizeof orders / sizeof orders[0] };

static int compare(const void *a, const void *b, void *context)
{
    const struct tui_picker *picker = context;
    const struct shelf_run *x = &picker->shelf.runs[*(const int *)a], *y = &picker->shelf.runs[*(const int *)b];
    int by = 0;
    if (picker->order == 2)
        by = strcmp(x->state, y->state);
    else if (picker->order == 3)
        by = (x->round < y->round) - (x->round > y->round);
    else if (picker->order == 4)
        by = (x->bytes < y->bytes) - (x->bytes > y->bytes);
    return by ? by : picker->order ? strcmp(x->name, y->name) : *(const int *)a - *(const int *)b;
}

static void narrow(struct tui_picker *picker)
{
    picker->count = 0;
    for (int i = 0; picker->found && i < picker->shelf.count; i++)
        if (fits(&picker->shelf.runs[i], picker->typed))
            picker->found[picker->count++] = i;
    if (picker->count > 1)
        qsort_r(picker->found, (size_t)picker->count, sizeof *picker->found, compare, picker);
    if (picker->chosen >= picker->count)
        picker->chosen = picker->count - 1;
    if (picker->chosen < 0)
        picker->chosen = 0;
}

static void choose(struct tui_picker *picker, const char *path)
{
    for (int i = 0; i < picker->count; i++)
        if (strcmp(picker->shelf.runs[picker->found[i]].path, path) == 0)
            picker->chosen = i;
}

static void read_directory(struct tui_picker *picker)
{
    const struct shelf_wish all = {0};
    struct esper_error error = {0};
    double begun = clock_seconds();
    run_shelf_free(&picker->shelf);
    if (run_shelf_open(&picker->shelf, picker->runs, &all, &error) != ESPER_OK)
        picker_complain(picker, error.text);
    free(picker->found);
    picker->found = calloc((size_t)picker->shelf.count + 1, sizeof *picker->found);
    if (!picker->found)
        picker_complain(picker, "out of memory");
    narrow(picker);
    picker->read = clock_seconds();
    picker->cost = picker->read - begun;
}

void picker_open(struct tui_picker *picker, const char *run_path)
{
    picker_close(picker);
    picker->open = true;
    snprintf(picker->runs, sizeof picker->runs, "%s", run_path);
    char *slash = strrchr(picker->runs, '/');
    if (slash)
        *(slash == picker->runs ? slash + 1 : slash) = '\0';
    else
        snprintf(picker->runs, sizeof picker->runs, ".");
    read_directory(picker);
    choose(picker, run_path);
}

void picker_close(struct tui_picker *picker)
{
    run_shelf_free(&picker->shelf);
    free(picker->found);
    *picker = (struct tui_picker){0};
}

void picker_refresh(struct tui_picker *picker)
{
    double wait = READ_RARITY * picker->cost > READ_SECONDS ? READ_RARITY * picker->cost : READ_SECONDS;
    char path[PATH_MAX];
    if (!picker->open || clock_seconds() - picker->read < wait)
        return;
    const char *now = picker_path(picker);
    snprintf(path, sizeof path, "%s", now ? now : "");
    read_directory(picker);
    choose(picker, path);
}

void picker_complain(struct tui_picker *picker, const char *text)
{
    snprintf(picker->trouble, sizeof picker->trouble, "%.250s", text);
}

const char *picker_path(const struct tui_picker *picker)
{
    return picker->count ? picker->shelf.runs[picker->found[picker->chosen]].path : NULL;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static void type(struct tui_picker *picker, int key)
{
    size_t length = strlen(picker->typed);
    if (key == TERMINAL_RUB_OUT && length)
        picker->typed[length - 1] = '\0';
    else if (key >= 0x20 && key < 0x7F && length + 1 < sizeof picker->typed) {
        picker->typed[length] = (char)key;
        picker->typed[length + 1] = '\0';
    }
    picker->chosen = 0;
    narrow(picker);
}

static int step_of(int key)
{
    static const struct {
        int key, by;
    } steps[] = {{TERMINAL_UP, -1},        {TERMINAL_DOWN, 1},        {TERMINAL_PAGE_UP, -10},
                 {TERMINAL_PAGE_DOWN, 10}, {TERMINAL_HOME, -1000000}, {TERMINAL_END, 1000000}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        if (steps[i].key == key)
            return steps[i].by;
    return 0;
}

bool picker_take_key(struct tui_picker *picker, int key)
{
    int by = step_of(key);
    picker->trouble[0] = '\0';
    if (key == 27)
        picker->open = false;
    else if (key == '\r' || key == '\n')
        return picker->count > 0;
    else if (by) {
        int to = picker->chosen + by;
        picker->chosen = to < 0 || picker->count == 0 ? 0 : to >= picker->count ? picker->count - 1 : to;
    } else if (key == '\t') {
        const char *path = picker_path(picker); /* stays chosen */
        picker->order = (picker->order + 1) % ORDERS;
        narrow(picker);
        choose(picker, path ? path : "");
    } else
        type(picker, key);
    return false;
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

enum { WIDE = 140 }; /* columns from which on there is room for all */

static enum ink state_ink(const char *state)
{
    static const struct {
        const char *state;
        enum ink ink;
    } inks[] = {{"running", INK_GOOD}, {"finished", INK_PLAIN}, {"interrupted", INK_WARN},
                {"crashed", INK_BAD},  {"failed", INK_BAD},     {"unreadable", INK_BAD}};
    for (size_t i = 0; i < sizeof inks / sizeof inks[0]; i++)
        if (strcmp(inks[i].state, state) == 0)
            return inks[i].ink;
    return INK_WARN;
}

static void draw_run(const struct box *box, int row, const struct shelf_run *run, bool chosen)
{
    char tags[LABEL_TAGS * LABEL_TAG], age[TUI_NUMBER], bytes[TUI_NUMBER];
    bool wide = box->columns >= WIDE;
    int name = wide ? 44 : 28;
    join_tags(&run->label, tags, sizeof tags);
    box_text(box, row, 1, name - 1, INK_PLAIN, run->name);
    box_print(box, row, name + 1, state_ink(run->state), "%-11s", run->state);
    box_print_right(box, row, name + 25, INK_PLAIN, "%u/%d", run->round, run->rounds);
    box_print_right(box, row, name + 34, INK_FAINT, "%s", tui_time((double)(time(NULL) - run->changed), age));
    int column = name + 36;
    column += box_print(box, row, column, INK_FAINT, "%-16.16s ", *run->trouble ? run->trouble : run->task);
    if (wide)
        column +=
            box_print(box, row, column, INK_FAINT, "%-10.10s %9s  ", run->policy, tui_bytes((double)run->bytes, bytes));
    box_print(box, row, column, INK_LINE, "%s", tags);
    if (*run->label.note)
        box_print(box, row, column + (int)strlen(tags) + (*tags ? 2 : 0), INK_FAINT, "%s", run->label.note);
    if (chosen)
        box_ink(box, row, 0, box->columns, INK_SELECTED);
}

void picker_draw(struct box box, const struct tui_picker *picker)
{
    bool wide = box.columns >= WIDE;
    int name = wide ? 44 : 28;
    box_title(&box, "runs in %s: %d of %d, %s", picker->runs, picker->count, picker->shelf.count,
              orders[picker->order]);
    struct box top = box_cut_top(&box, 2), bottom = box_cut_bottom(&box, 1);
    int used = 1 + box_print(&top, 0, 1, INK_TITLE, "search: %s", picker->typed);
    box_glyph(&top, 0, used, INK_SELECTED, ' ');
    box_print(&top, 1, 1, INK_FAINT, "run");
    box_print(&top, 1, name + 1, INK_FAINT, "state");
    box_print_right(&top, 1, name + 25, INK_FAINT, "rounds");
    box_print_right(&top, 1, name + 34, INK_FAINT, "changed");
    box_print(&top, 1, name + 36, INK_FAINT,
              wide ? "task             policy          size  tags, note" : "task             tags, note");
    int first = picker->chosen - box.rows / 2;
    first = first > picker->count - box.rows ? picker->count - box.rows : first;
    first = first < 0 ? 0 : first;
    for (int row = 0; row < box.rows && first + row < picker->count; row++)
        draw_run(&box, row, &picker->shelf.runs[picker->found[first + row]], first + row == picker->chosen);
    if (picker->count == 0)
        box_print(&box, 0, 1, INK_FAINT, "-");
    if (*picker->trouble)
        box_print(&bottom, 0, 1, INK_BAD, "x %s", picker->trouble);
    else
        box_print(&bottom, 0, 1, INK_FAINT,
                  "type to search   Tab: sort   arrows, PgUp PgDn: choose   Enter: show it   Esc: back");
}
