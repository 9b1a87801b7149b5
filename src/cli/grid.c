#include "cli/grid.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/stream.h"
#include "base/text.h"
#include "telemetry/dump.h"

enum {
    NARROWEST = 8,      /* no column is made narrower than this to fit the terminal */
    WIDEST_BLANKS = 80, /* no column is made wider than this where nothing is cut */
};

/* ---- cells ------------------------------------------------------------------------------------------------------- */

/* One line without terminal control: control characters and malformed ones become "?". */
static void clean_text(const struct query_value *value, char *text)
{
    for (size_t at = 0; at < value->bytes;) {
        const unsigned char *from = (const unsigned char *)value->text + at;
        size_t length = text_character(value->text + at, value->bytes - at);
        if (!text_shows(value->text + at, length))
            memset(text + at, from[0] == '\n' ? ' ' : '?', length ? length : 1);
        else
            memcpy(text + at, from, length);
        at += length ? length : 1;
    }
}

static void blob_text(const struct query_value *value, char *text)
{
    text += sprintf(text, "x'");
    for (size_t i = 0; i < value->bytes; i++)
        text += sprintf(text, "%02x", (unsigned)(unsigned char)value->text[i]);
    sprintf(text, "'");
}

/* A value formatted for people, in its own allocation. */
static char *cell_text(const struct query_value *value, struct esper_error *error)
{
    char *text = memory_alloc(1, 40 + 2 * value->bytes, error);
    if (!text)
        return NULL;
    switch (value->kind) {
    case QUERY_NULL:
        memcpy(text, "-", 2);
        break;
    case QUERY_INTEGER:
        sprintf(text, "%" PRId64, value->integer);
        break;
    case QUERY_REAL:
        sprintf(text, "%.6g", value->real);
        break;
    case QUERY_TEXT:
        clean_text(value, text);
        break;
    case QUERY_BLOB:
        blob_text(value, text);
        break;
    }
    return text;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static bool starts_character(char byte)
{
    return ((unsigned char)byte & 0xC0) != 0x80;
}

static int text_width(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += starts_character(*text);
    return width;
}

/* In this many characters, the last of them "…" when there are more. */
static void print_cut(FILE *file, const char *text, int width)
{
    bool cut = text_width(text) > width;
    for (int left = width - cut; *text; text++) {
        left -= starts_character(*text);
        if (left < 0)
            break;
        putc(*text, file);
    }
    if (cut)
        fputs("…", file);
}

static void print_cells(const struct grid *grid, FILE *line, char *const cells[])
{
    for (int i = 0; i < grid->columns; i++) {
        int width = grid->widths[i], length = text_width(cells[i]), blank = width > length ? width - length : 0;
        fprintf(line, "%*s", (i ? 2 : 0) + (grid->right[i] ? blank : 0), "");
        print_cut(line, cells[i], grid->width ? width : length);
        if (i + 1 < grid->columns && !grid->right[i])
            fprintf(line, "%*s", blank, "");
    }
}

static enum esper_status print_line(const struct grid *grid, char *const cells[], struct esper_error *error)
{
    char *text = NULL;
    size_t size;
    FILE *line = stream_open(&text, &size);
    if (line)
        print_cells(grid, line, cells);
    if (!line || fclose(line) != 0 || !text) {
        free(text);
        return error_set(error, ESPER_FAILED, "out of memory while printing the table");
    }
    print_cut(stdout, text, grid->width ? grid->width : INT_MAX);
    putchar('\n');
    free(text);
    return ESPER_OK;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* Shrinks the widest columns until all fit, or until none is wide any more. */
static void fit_columns(struct grid *grid)
{
    int total = 2 * (grid->columns - 1);
    for (int i = 0; i < grid->columns; i++)
        total += grid->widths[i];
    while (grid->width && total > grid->width) {
        int widest = 0;
        for (int i = 1; i < grid->columns; i++)
            if (grid->widths[i] > grid->widths[widest])
                widest = i;
        if (grid->widths[widest] <= NARROWEST)
            return;
        grid->widths[widest]--;
        total--;
    }
}

enum esper_status grid_show(struct grid *grid, struct esper_error *error)
{
    if (grid->shown)
        return ESPER_OK;
    grid->shown = true;
    for (int i = 0; i < grid->count; i++) {
        int *width = &grid->widths[i % grid->columns], needed = text_width(grid->cells[i]);
        if (!grid->width && needed > WIDEST_BLANKS)
            needed = WIDEST_BLANKS;
        *width = needed > *width ? needed : *width;
    }
    fit_columns(grid);
    for (int i = 0; i < grid->count; i += grid->columns)
        TRY(print_line(grid, grid->cells + i, error));
    return ESPER_OK;
}

static enum esper_status take_names(struct grid *grid, const struct query_row *row, struct esper_error *error)
{
    size_t columns = (size_t)row->count;
    grid->columns = row->count;
    grid->cells = memory_alloc(columns * (GRID_ROWS + 1), sizeof *grid->cells, error);
    grid->widths = memory_alloc(columns, sizeof *grid->widths, error);
    grid->right = memory_alloc(columns, sizeof *grid->right, error);
    if (!grid->cells || !grid->widths || !grid->right)
        return ESPER_FAILED;
    for (int i = 0; i < row->count; i++) {
        const struct query_value name = {.kind = QUERY_TEXT, .text = row->names[i], .bytes = strlen(row->names[i])};
        grid->right[i] = true;
        grid->cells[grid->count] = cell_text(&name, error);
        if (!grid->cells[grid->count++])
            return ESPER_FAILED;
    }
    return ESPER_OK;
}

/* Later rows reuse the place of the last one kept, which has been printed. */
static void forget_row(struct grid *grid)
{
    for (int i = 0; i < grid->columns; i++)
        memory_free(grid->cells[--grid->count]);
}

enum esper_status grid_take(struct grid *grid, const struct query_row *row, struct esper_error *error)
{
    if (!row->values)
        return take_names(grid, row, error);
    bool late = grid->count == grid->columns * (GRID_ROWS + 1);
    if (late) {
        TRY(grid_show(grid, error));
        forget_row(grid);
    }
    char **cells = grid->cells + grid->count;
    for (int i = 0; i < row->count; i++) {
        if (!grid->shown && row->values[i].kind >= QUERY_TEXT)
            grid->right[i] = false;
        grid->cells[grid->count] = cell_text(&row->values[i], error);
        if (!grid->cells[grid->count])
            return ESPER_FAILED;
        grid->count++;
    }
    return late ? print_line(grid, cells, error) : ESPER_OK;
}

void grid_free(struct grid *grid)
{
    for (int i = 0; i < grid->count; i++)
        memory_free(grid->cells[i]);
    memory_free(grid->cells);
    memory_free(grid->widths);
    memory_free(grid->right);
}
