/*
 * A curve with axes: lines of braille dots, two by four to a character, where the locale has them, otherwise stars.
 * Drawn on a sheet (tui_canvas.h), and clipped to its box like everything else.
 */
#ifndef VIEW_TUI_PLOT_H
#define VIEW_TUI_PLOT_H

#include "view/tui_canvas.h"

struct tui_plot {
    const double *values; /* oldest first; NAN: missing, the line goes on behind it */
    int count;
    double from, to; /* what the first and the last value are called on the axis below: rounds */
    enum ink ink;
};

enum { PLOT_ROWS = 5, PLOT_COLUMNS = 24 }; /* with less room there is nothing to see: use box_curve */

/* Fills the box: numbers at the left, rounds below. */
void box_plot(const struct box *box, const struct tui_plot *plot);

#endif
