/* Sheets of the terminal viewer for the tests, and what is written on them. */
#ifndef TESTS_TESTING_CANVAS_H
#define TESTS_TESTING_CANVAS_H

#include <string.h>

#include "testing.h"
#include "view/tui_canvas.h"

static inline struct canvas make_canvas(int rows, int columns, bool unicode)
{
    struct canvas canvas = {.unicode = unicode};
    assert_int_equal(canvas_resize(&canvas, rows, columns, NULL), ESPER_OK);
    return canvas;
}

/* A row as text, '#' for what is beyond ASCII, without trailing spaces. */
static inline const char *row_text(const struct canvas *canvas, int row)
{
    static char text[CANVAS_COLUMNS + 1];
    int length = 0;
    for (int i = 0; i < canvas->columns; i++) {
        uint32_t glyph = canvas->cells[row * canvas->columns + i].glyph;
        text[i] = (char)(glyph < 0x80 ? glyph : '#');
        if (glyph != ' ')
            length = i + 1;
    }
    text[length] = '\0';
    return text;
}

static inline bool holds(const struct canvas *canvas, const char *words)
{
    for (int row = 0; row < canvas->rows; row++)
        if (strstr(row_text(canvas, row), words))
            return true;
    return false;
}

static inline void must_hold(const struct canvas *canvas, const char *words)
{
    if (holds(canvas, words))
        return;
    for (int row = 0; row < canvas->rows; row++)
        print_error("%s\n", row_text(canvas, row));
    fail_msg("nowhere: \"%s\"", words);
}

#endif
