#include "view/tui_plot.h"

#include <math.h>
#include <stdio.h>

enum { MARGIN = 9 }; /* columns of the numbers at the left, the axis included */

/* The part of the box that is inside the axes, in dots. */
struct sheet {
    struct box box;
    int wide, high; /* dots */
    double low, high_value;
};

/* The mean of the values that fall on one column of dots; NAN: none. */
static double column_mean(const struct tui_plot *plot, int column, int wide)
{
    long first = (long)column * plot->count / wide, end = (long)(column + 1) * plot->count / wide;
    double sum = 0;
    int found = 0;
    for (long i = first; i < end; i++)
        if (isfinite(plot->values[i])) {
            sum += plot->values[i];
            found++;
        }
    return found ? sum / found : (double)NAN;
}

/* Values are drawn at so many places: one each, or one for every column of dots. */
static int places(const struct tui_plot *plot, const struct sheet *sheet)
{
    return plot->count < sheet->wide ? plot->count : sheet->wide;
}

/* False: every value is missing. */
static bool find_range(const struct tui_plot *plot, struct sheet *sheet)
{
    int count = places(plot, sheet);
    sheet->low = INFINITY;
    sheet->high_value = -INFINITY;
    for (int i = 0; i < count; i++) {
        double value = column_mean(plot, i, count);
        if (isfinite(value)) {
            sheet->low = fmin(sheet->low, value);
            sheet->high_value = fmax(sheet->high_value, value);
        }
    }
    if (!isfinite(sheet->low))
        return false;
    if (sheet->high_value == sheet->low) { /* a level line lies in the middle */
        double middle = sheet->low, half = middle == 0 ? 1 : fabs(middle) * 0.1;
        sheet->low = middle - half;
        sheet->high_value = middle + half;
    }
    return true;
}

static int dot_row(const struct sheet *sheet, double value)
{
    return (int)lround((sheet->high_value - value) / (sheet->high_value - sheet->low) * (sheet->high - 1));
}

/* A line from one dot to another: every column between them, and whole columns where it is steep. */
static void draw_line(const struct sheet *sheet, int x0, int y0, int x1, int y1, enum ink ink)
{
    int last = y0;
    for (int x = x0; x <= x1; x++) {
        int y = x1 > x0 ? y0 + (int)lround((double)(y1 - y0) * (x - x0) / (x1 - x0)) : y1;
        for (int at = last < y ? last : y; at <= (last < y ? y : last); at++)
            box_dot(&sheet->box, at, x, ink);
        last = y;
    }
}

static void draw_curve(const struct tui_plot *plot, const struct sheet *sheet)
{
    int count = places(plot, sheet), x0 = -1, y0 = 0;
    for (int i = 0; i < count; i++) {
        double value = column_mean(plot, i, count);
        if (!isfinite(value))
            continue;
        int x = count > 1 ? (int)((long)i * (sheet->wide - 1) / (count - 1)) : 0, y = dot_row(sheet, value);
        draw_line(sheet, x0 < 0 ? x : x0, x0 < 0 ? y : y0, x, y, plot->ink);
        x0 = x;
        y0 = y;
    }
}

/* 1, 2 or 5 times a power of ten, so that about `wanted` steps fit. */
static double tick_step(double span, double wanted)
{
    double rough = span / fmax(wanted, 1), ten = pow(10, floor(log10(rough)));
    return (rough <= ten ? 1 : rough <= 2 * ten ? 2 : rough <= 5 * ten ? 5 : 10) * ten;
}

static void draw_numbers(const struct box *box, const struct sheet *sheet)
{
    int rows = box->rows - 2;
    double step = tick_step(sheet->high_value - sheet->low, rows / 2.5);
    for (int row = 0; row < rows; row++)
        box_glyph(box, row, MARGIN - 1, INK_FAINT, box->canvas->unicode ? 0x2502 : '|');
    for (double at = ceil(sheet->low / step - 1e-9); at * step <= sheet->high_value + 1e-9 * step; at++) {
        int row = dot_row(sheet, at * step) / 4;
        char text[TUI_NUMBER];
        if (fabs(at * step) >= 9999.5)
            tui_count(at * step, text);
        else
            snprintf(text, sizeof text, "%.4g", fabs(at) < 0.5 ? 0.0 : at * step);
        box_print_right(box, row, MARGIN - 2, INK_FAINT, "%.8s", text);
        box_glyph(box, row, MARGIN - 1, INK_FAINT, box->canvas->unicode ? 0x2524 : '+');
    }
}

static void draw_rounds(const struct box *box, const struct tui_plot *plot)
{
    bool unicode = box->canvas->unicode;
    int row = box->rows - 2, columns = box->columns - MARGIN;
    double span = plot->to - plot->from, step = fmax(tick_step(span > 0 ? span : 1, columns / 8.0), 1);
    box_glyph(box, row, MARGIN - 1, INK_FAINT, unicode ? 0x2514 : '+');
    for (int i = 0; i < columns; i++)
        box_glyph(box, row, MARGIN + i, INK_FAINT, unicode ? 0x2500 : '-');
    for (double at = ceil(plot->from / step) * step; at <= plot->to; at += step) {
        int column = MARGIN + (span > 0 ? (int)lround((at - plot->from) / span * (columns - 1)) : 0);
        char text[TUI_NUMBER];
        int length = snprintf(text, sizeof text, "%.0f", at), left = column - length / 2;
        left = left + length > box->columns ? box->columns - length : left;
        box_glyph(box, row, column, INK_FAINT, unicode ? 0x252C : '+');
        box_print(box, row + 1, left, INK_FAINT, "%s", text);
    }
}

void box_plot(const struct box *box, const struct tui_plot *plot)
{
    struct sheet sheet = {.box = *box};
    if (box->rows < 3 || box->columns <= MARGIN)
        return;
    box_cut_left(&sheet.box, MARGIN);
    box_cut_bottom(&sheet.box, 2);
    sheet.wide = 2 * sheet.box.columns;
    sheet.high = 4 * sheet.box.rows;
    if (!find_range(plot, &sheet))
        return; /* an axis would look as if there were something on it */
    draw_numbers(box, &sheet);
    draw_rounds(box, plot);
    draw_curve(plot, &sheet);
}
