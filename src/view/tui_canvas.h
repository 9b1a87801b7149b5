/*
 * A sheet of characters that the terminal viewer draws on, independent of any terminal. Everything is clipped to its
 * box, so that no window is too small; every character is one column wide, whatever a text from a file contains.
 *
 * Block characters where the locale has them, otherwise ASCII. Inks are meanings; tui_terminal.h maps them to colours,
 * and a symbol or a letter always says the same.
 */
#ifndef VIEW_TUI_CANVAS_H
#define VIEW_TUI_CANVAS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/vocabulary.h"

enum ink {
    INK_PLAIN,
    INK_FAINT, /* frames, units, what matters less */
    INK_TITLE,
    INK_GOOD,
    INK_WARN,
    INK_BAD,
    INK_LINE,     /* curves and bars */
    INK_SELECTED, /* reversed */
    LIVE_STAGES(WORD_ENUM, INK) INK_COOLING,
    INK_COUNT
};

struct canvas_cell {
    uint32_t glyph; /* code point */
    uint8_t ink;
};

struct canvas {
    int rows, columns;
    bool unicode;
    struct canvas_cell *cells; /* [row][column] */
};

enum { CANVAS_ROWS = 1000, CANVAS_COLUMNS = 2000 };

/* Makes it blank, of that size (from 1 to the limits above). A canvas starts as {0}. */
enum esper_status canvas_resize(struct canvas *canvas, int rows, int columns, struct esper_error *error);
void canvas_clear(struct canvas *canvas);
void canvas_free(struct canvas *canvas);

/* ---- boxes: parts of the sheet ------------------------------------------------------------------------------------
 */

struct box {
    struct canvas *canvas;
    int top, left, rows, columns; /* rows and columns may be 0, never less */
};

struct box box_whole(struct canvas *canvas);
/* Cuts that many rows or columns (or as many as there are) off a box and returns them; the box keeps the rest. */
struct box box_cut_top(struct box *box, int rows);
struct box box_cut_bottom(struct box *box, int rows);
struct box box_cut_left(struct box *box, int columns);

/* ---- drawing: rows and columns count from the box's corner ----------------------------------------------------------
 */

/* At most `columns` of the text. Control characters, wide ones, broken UTF-8 and, in ASCII mode, everything beyond
 * ASCII become '?'. Returns the columns used. */
int box_text(const struct box *box, int row, int column, int columns, enum ink ink, const char *text);
int box_print(const struct box *box, int row, int column, enum ink ink, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* The same, ending before `end`. */
void box_print_right(const struct box *box, int row, int end, enum ink ink, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void box_glyph(const struct box *box, int row, int column, enum ink ink, uint32_t glyph);
/* A dot of a drawing in which a character holds four by two of them; stars where there are no such characters. */
void box_dot(const struct box *box, int row, int column, enum ink ink);
/* Gives the existing text another ink, from `column` to the end of the row. */
void box_ink(const struct box *box, int row, int column, int columns, enum ink ink);
/* A rule with a title in it, in the box's first row, which is cut off the box. */
void box_title(struct box *box, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A bar of `columns` filled to `share` (0 to 1; NAN: empty). */
void box_bar(const struct box *box, int row, int column, int columns, double share, enum ink ink);
/*
 * A curve, `rows` high with its top at `row`, scaled from the lowest to the highest value; where there are more values
 * than columns, neighbours are averaged; where there are few, each takes up to six columns. Missing values (NAN) are
 * gaps; a constant curve is at the bottom.
 */
void box_curve(const struct box *box, int row, int column, int rows, int columns, const double *values, int count,
               enum ink ink);

/* ---- words and numbers ----------------------------------------------------------------------------------------------
 */

enum { TUI_NUMBER = 32 };

/* `digits` after the point; "-" when missing (NAN), "inf", "-inf". Returns `text`. */
const char *tui_real(double value, int digits, char text[TUI_NUMBER]);
/* Three or four significant digits, whatever the magnitude: 0.00123, 12.3, 4567, 1.23e+06. */
const char *tui_short(double value, char text[TUI_NUMBER]);
/* Counts: 398, 12.3k, 4.56M. */
const char *tui_count(double value, char text[TUI_NUMBER]);
/* "1h02m", "3m20s", "8s", "-". */
const char *tui_time(double seconds, char text[TUI_NUMBER]);
/* "512 B", "12.3 kB", "4.5 MB". */
const char *tui_bytes(double bytes, char text[TUI_NUMBER]);

#endif
