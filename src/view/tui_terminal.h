/*
 * The terminal behind the viewer (ncursesw): a sheet goes out, keys come in. However the process ends, normally or
 * killed by a signal it can catch, the terminal is left as it was found.
 */
#ifndef VIEW_TUI_TERMINAL_H
#define VIEW_TUI_TERMINAL_H

#include "view/tui_canvas.h"

enum terminal_key {
    TERMINAL_NONE = -1, /* none came in time */
    TERMINAL_GONE = -2, /* the terminal has gone away */
    /* 0 to 255: the character */
    TERMINAL_UP = 256,
    TERMINAL_DOWN,
    TERMINAL_PAGE_UP,
    TERMINAL_PAGE_DOWN,
    TERMINAL_HOME,
    TERMINAL_END,
    TERMINAL_RUB_OUT,
    TERMINAL_RESIZED,
    TERMINAL_OTHER
};

/* Takes the terminal of stdin and stdout; `unicode` says whether the locale (set before) has more than ASCII. There is
 * one terminal: open it once. */
enum esper_status terminal_open(bool *unicode, struct esper_error *error);
void terminal_close(void);
void terminal_size(int *rows, int *columns);
void terminal_show(const struct canvas *canvas);
void terminal_redraw(void); /* the next sheet is drawn in full: something else wrote on the screen */
int terminal_read_key(int milliseconds);

#endif
