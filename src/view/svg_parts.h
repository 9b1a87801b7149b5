/* What plots share: frames, scales and axes. */
#ifndef VIEW_SVG_PARTS_H
#define VIEW_SVG_PARTS_H

#include "view/html.h"

enum { SVG_WIDTH = 560, SVG_LEFT = 54, SVG_RIGHT = 14 };

/* Maps values to positions. */
struct svg_scale {
    double low, high;   /* values at the ends */
    double first, last; /* positions of the ends */
};
double svg_place(const struct svg_scale *scale, double value);
/* Makes the scale reach the value, if it is finite; it starts with ends that are NAN. */
void svg_take(struct svg_scale *scale, double value);
/* Rounds the ends to ticks, of which there are about as many; an empty range is widened. */
void svg_widen(struct svg_scale *scale, int ticks);

/* 1, 2 or 5 times a power of ten, so that about `count` steps fill the range. */
double svg_tick_step(double range, int count);
double svg_tick_at(const struct svg_scale *scale, double step, int i);
void svg_tick_text(double value, double step, char text[32]);

void svg_open_figure(struct html *html, const char *title, int height);
void svg_close_figure(struct html *html);
void svg_words(struct html *html, double x, double y, const char *class, const char *anchor, const char *text);
void svg_y_axis(struct html *html, const struct svg_scale *y, double right);

#endif
