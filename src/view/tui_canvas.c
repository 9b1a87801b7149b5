#include "view/tui_canvas.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "base/memory.h"

/* ---- the sheet --------------------------------------------------------------------------------------------------- */

static int clamp(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

enum esper_status canvas_resize(struct canvas *canvas, int rows, int columns, struct esper_error *error)
{
    rows = clamp(rows, 1, CANVAS_ROWS);
    columns = clamp(columns, 1, CANVAS_COLUMNS);
    if (rows != canvas->rows || columns != canvas->columns) {
        canvas_free(canvas);
        canvas->cells = memory_alloc((size_t)rows * (size_t)columns, sizeof *canvas->cells, error);
        if (!canvas->cells)
            return ESPER_FAILED;
        canvas->rows = rows;
        canvas->columns = columns;
    }
    canvas_clear(canvas);
    return ESPER_OK;
}

void canvas_clear(struct canvas *canvas)
{
    for (int i = 0; i < canvas->rows * canvas->columns; i++)
        canvas->cells[i] = (struct canvas_cell){.glyph = ' ', .ink = INK_PLAIN};
}

void canvas_free(struct canvas *canvas)
{
    memory_free(canvas->cells);
    canvas->cells = NULL;
    canvas->rows = canvas->columns = 0;
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

struct box box_whole(struct canvas *canvas)
{
    return (struct box){.canvas = canvas, .rows = canvas->rows, .columns = canvas->columns};
}

struct box box_cut_top(struct box *box, int rows)
{
    struct box cut = *box;
    cut.rows = clamp(rows, 0, box->rows);
    box->top += cut.rows;
    box->rows -= cut.rows;
    return cut;
}

struct box box_cut_bottom(struct box *box, int rows)
{
    struct box cut = *box;
    cut.rows = clamp(rows, 0, box->rows);
    box->rows -= cut.rows;
    cut.top += box->rows;
    return cut;
}

struct box box_cut_left(struct box *box, int columns)
{
    struct box cut = *box;
    cut.columns = clamp(columns, 0, box->columns);
    box->left += cut.columns;
    box->columns -= cut.columns;
    return cut;
}

static struct canvas_cell *cell_at(const struct box *box, int row, int column)
{
    if (row < 0 || column < 0 || row >= box->rows || column >= box->columns)
        return NULL;
    return &box->canvas->cells[(box->top + row) * box->canvas->columns + box->left + column];
}

void box_glyph(const struct box *box, int row, int column, enum ink ink, uint32_t glyph)
{
    struct canvas_cell *cell = cell_at(box, row, column);
    if (cell)
        *cell = (struct canvas_cell){.glyph = glyph, .ink = (uint8_t)ink};
}

void box_dot(const struct box *box, int row, int column, enum ink ink)
{
    static const uint8_t bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    struct canvas_cell *cell = row >= 0 && column >= 0 ? cell_at(box, row / 4, column / 2) : NULL;
    if (!cell)
        return;
    bool dotted = cell->glyph >= 0x2800 && cell->glyph <= 0x28FF;
    cell->glyph = !box->canvas->unicode ? '*' : (dotted ? cell->glyph : 0x2800) | bits[row % 4][column % 2];
    cell->ink = (uint8_t)ink;
}

void box_ink(const struct box *box, int row, int column, int columns, enum ink ink)
{
    for (int i = column; i < column + columns && i < box->columns; i++) {
        struct canvas_cell *cell = cell_at(box, row, i);
        if (cell)
            cell->ink = (uint8_t)ink;
    }
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* One code point, whole and in its shortest form, or '?' for a byte that is not part of one. */
static const char *next_glyph(const char *text, uint32_t *glyph)
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)text;
    int more = at[0] < 0x80 ? 0 : at[0] >> 5 == 6 ? 1 : at[0] >> 4 == 14 ? 2 : at[0] >> 3 == 30 ? 3 : -1;
    uint32_t value = more <= 0 ? at[0] : at[0] & (0x3Fu >> more);
    for (int i = 1; i <= more; i++) {
        if (at[i] >> 6 != 2) {
            more = -1;
            break;
        }
        value = value << 6 | (at[i] & 0x3Fu);
    }
    bool sound = more >= 0 && value >= least[more] && value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF);
    *glyph = sound ? value : '?';
    return text + 1 + (sound ? more : 0);
}

int box_text(const struct box *box, int row, int column, int columns, enum ink ink, const char *text)
{
    int used = 0;
    while (*text && used < columns) {
        uint32_t glyph;
        text = next_glyph(text, &glyph);
        bool printable = glyph < 0x80 ? glyph >= 0x20 && glyph < 0x7F
                                      : box->canvas->unicode && glyph >= 0xA0 && wcwidth((wchar_t)glyph) == 1;
        box_glyph(box, row, column + used, ink, printable ? glyph : '?');
        used++;
    }
    return used;
}

int box_print(const struct box *box, int row, int column, enum ink ink, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return box_text(box, row, column, box->columns, ink, text);
}

/* The columns that box_text uses for it. */
static int text_columns(const char *text)
{
    int columns = 0;
    for (uint32_t glyph; *text; columns++)
        text = next_glyph(text, &glyph);
    return columns;
}

void box_print_right(const struct box *box, int row, int end, enum ink ink, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    box_text(box, row, end - text_columns(text), box->columns, ink, text);
}

void box_title(struct box *box, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    struct box line = box_cut_top(box, 1);
    for (int i = 0; i < line.columns - 1; i++)
        box_glyph(&line, 0, i, INK_FAINT, line.canvas->unicode ? 0x2500 : '-');
    int used = box_text(&line, 0, 2, line.columns - 4, INK_TITLE, text);
    box_glyph(&line, 0, 1, INK_FAINT, ' ');
    box_glyph(&line, 0, 2 + used, INK_FAINT, ' ');
}

/* ---- bars and curves --------------------------------------------------------------------------------------------- */

/* How full a character cell is, 0 to 8 eighths from the bottom; 0 is blank. */
static uint32_t level_glyph(const struct canvas *canvas, int eighths)
{
    static const char ascii[] = " _.-=+*%#";
    eighths = clamp(eighths, 0, 8);
    if (!canvas->unicode)
        return (uint32_t)ascii[eighths];
    return eighths ? 0x2580 + (uint32_t)eighths : ' ';
}

void box_bar(const struct box *box, int row, int column, int columns, double share, enum ink ink)
{
    bool unicode = box->canvas->unicode;
    share = share > 0 ? fmin(share, 1) : 0; /* also when NAN */
    int eighths = (int)(share * 8 * columns + 0.5);
    if (share > 0 && eighths == 0)
        eighths = 1; /* a small share must not look empty */
    for (int i = 0; i < columns; i++) {
        int filled = clamp(eighths - 8 * i, 0, 8);
        if (filled)
            box_glyph(box, row, column + i, ink, unicode ? 0x2590 - (uint32_t)filled : filled >= 4 ? '#' : ':');
        else
            box_glyph(box, row, column + i, INK_FAINT, unicode ? 0x2591 : '.');
    }
}

/* The mean of the values that fall into a column, ignoring missing ones. */
static double column_value(const double *values, int count, int column, int columns)
{
    if (count <= columns)
        return values[column];
    long first = (long)column * count / columns, end = (long)(column + 1) * count / columns;
    double sum = 0;
    int found = 0;
    for (long i = first; i < end; i++)
        if (isfinite(values[i])) {
            sum += values[i];
            found++;
        }
    return found ? sum / found : (double)NAN;
}

/* Draws one value of the curve. */
static void draw_level(const struct box *box, int row, int column, int rows, int level, enum ink ink)
{
    for (int r = 0; r < rows; r++) {
        int eighths = clamp(level - 8 * (rows - 1 - r), 0, 8);
        if (eighths)
            box_glyph(box, row + r, column, ink, level_glyph(box->canvas, eighths));
    }
}

void box_curve(const struct box *box, int row, int column, int rows, int columns, const double *values, int count,
               enum ink ink)
{
    double low = INFINITY, high = -INFINITY;
    int shown = count < columns ? count : columns, each = shown > 0 ? clamp(columns / shown, 1, 6) : 1;
    for (int i = 0; i < shown; i++) {
        double value = column_value(values, count, i, shown);
        if (isfinite(value)) {
            low = fmin(low, value);
            high = fmax(high, value);
        }
    }
    for (int i = 0; i < shown; i++) {
        double value = column_value(values, count, i, shown);
        if (!isfinite(value))
            continue;
        int level = high > low ? 1 + (int)((value - low) / (high - low) * (8 * rows - 1) + 0.5) : 1;
        for (int c = 0; c < each; c++)
            draw_level(box, row, column + i * each + c, rows, level, ink);
    }
}

/* ---- words and numbers ------------------------------------------------------------------------------------------- */

static bool is_special(double value, char text[TUI_NUMBER])
{
    if (isfinite(value))
        return false;
    snprintf(text, TUI_NUMBER, "%s", isnan(value) ? "-" : value > 0 ? "inf" : "-inf");
    return true;
}

const char *tui_real(double value, int digits, char text[TUI_NUMBER])
{
    if (is_special(value, text))
        return text;
    if (fabs(value) >= 1e12)
        snprintf(text, TUI_NUMBER, "%.3g", value);
    else
        snprintf(text, TUI_NUMBER, "%.*f", digits, value);
    return text;
}

const char *tui_short(double value, char text[TUI_NUMBER])
{
    double size = fabs(value);
    if (is_special(value, text))
        return text;
    if (size != 0 && (size < 1e-4 || size >= 99999.5))
        snprintf(text, TUI_NUMBER, "%.2e", value);
    else
        snprintf(text, TUI_NUMBER, "%.*f",
                 size >= 999.5    ? 0
                 : size >= 99.95  ? 1
                 : size >= 9.995  ? 2
                 : size >= 0.0995 ? 3
                                  : 4,
                 value);
    return text;
}

const char *tui_count(double value, char text[TUI_NUMBER])
{
    static const char *const suffixes[] = {"", "k", "M", "G", "T"};
    int suffix = 0;
    if (is_special(value, text))
        return text;
    while (fabs(value) >= (suffix ? 999.5 : 9999.5) && suffix < 4) {
        value /= 1000;
        suffix++;
    }
    int digits = suffix == 0 ? 0 : fabs(value) >= 99.95 ? 0 : fabs(value) >= 9.995 ? 1 : 2;
    snprintf(text, TUI_NUMBER, "%.*f%s", digits, value, suffixes[suffix]);
    return text;
}

const char *tui_time(double seconds, char text[TUI_NUMBER])
{
    if (is_special(seconds, text))
        return text;
    long long whole = (long long)fmax(0, fmin(seconds + 0.5, 1e12));
    if (whole >= 360000)
        snprintf(text, TUI_NUMBER, "%lldd%02lldh", whole / 86400, whole / 3600 % 24);
    else if (whole >= 3600)
        snprintf(text, TUI_NUMBER, "%lldh%02lldm", whole / 3600, whole / 60 % 60);
    else if (whole >= 60)
        snprintf(text, TUI_NUMBER, "%lldm%02llds", whole / 60, whole % 60);
    else
        snprintf(text, TUI_NUMBER, "%llds", whole);
    return text;
}

const char *tui_bytes(double bytes, char text[TUI_NUMBER])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    int unit = 0;
    if (is_special(bytes, text))
        return text;
    while (bytes >= 999.5 && unit < 4) {
        bytes /= 1000;
        unit++;
    }
    snprintf(text, TUI_NUMBER, "%.*f %s", unit && bytes < 99.95 ? 1 : 0, bytes, units[unit]);
    return text;
}
