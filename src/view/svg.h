/*
 * Plots, drawn as inline SVG. Colours are classes of the style sheet (svg_style), which has light, dark and print
 * variants; no meaning depends on colour alone: a word, a letter or a shape repeats it. Values that are not finite
 * leave gaps.
 */
#ifndef VIEW_SVG_H
#define VIEW_SVG_H

#include "view/html.h"

/* CSS for all plots: goes into the page's <style> once. */
extern const char svg_style[];

enum { SVG_SERIES_MAX = 8 };

struct svg_series {
    const char *name;
    const double *y;
    const double *low, *high; /* a band around it; both may be NULL */
    const double *x;          /* its own x values, `count` of them; NULL: those of the plot */
    int count;
};

struct svg_plot {
    const char *title;    /* what is shown, with its unit */
    const char *x_name;   /* "round" */
    double y_low, y_high; /* always shown, even without data; NAN: follow the data */
    const double *x;
    int count;
    struct svg_series series[SVG_SERIES_MAX];
    int series_count;
    const double *marks; /* vertical lines: where alerts were raised */
    int mark_count;
};
void svg_lines(struct html *html, const struct svg_plot *plot);

/* Rows of cells: values[row * columns + column] from `low` to `high`. The last value of a row is written beside it. */
struct svg_heat {
    const char *title, *x_name;
    const char *const *names;
    const double *values;
    int rows, columns;
    double low, high;
    double x_first, x_last;
};
void svg_heat(struct html *html, const struct svg_heat *heat);

/* Spans of time in lanes, coloured by stage; class is the name of a stage, otherwise the span is grey. */
struct svg_span {
    int lane;
    double from, to;
    const char *stage, *label;
};
struct svg_lanes {
    const char *title, *x_name;
    const char *const *names;
    int lanes;
    double x_last; /* the axis goes from 0 to here */
    const struct svg_span *spans;
    int count;
};
void svg_lanes(struct html *html, const struct svg_lanes *lanes);

/* A waterfall: bars that each start where the last one ended, and their sum. */
struct svg_bar {
    const char *name;
    double value;
};
void svg_waterfall(struct html *html, const char *title, const struct svg_bar *bars, int count);

/* Points; those of the frontier are larger, joined by steps, and have names. x from 0, thousands apart. */
struct svg_point {
    double x, y;
    bool frontier;
    const char *name;
};
struct svg_scatter {
    const char *title, *x_name;
    const struct svg_point *points; /* the frontier first, by rising x */
    int count;
};
void svg_scatter(struct html *html, const struct svg_scatter *scatter);

/* What a score costs: named marks, each kind with its own shape, over small dots, on a logarithmic x axis. Marks with
 * `step` set are joined by the steps of their front. A key below the plot names the kinds that occur. */
enum svg_shape {
    SVG_DISC,
    SVG_RING,
    SVG_DIAMOND,
    SVG_DIAMOND_OPEN,
    SVG_SQUARE,
    SVG_SQUARE_OPEN,
    SVG_SQUARE_HALF,
    SVG_UP,
    SVG_DOWN,
    SVG_CROSS,
    SVG_PLUS,
    SVG_SHAPES
};
struct svg_mark {
    double x, y, low, high; /* an interval of y; NAN: none */
    enum svg_shape shape;
    bool step;
    const char *name;  /* of the mark */
    const char *label; /* short, beside it; NULL: none */
};
struct svg_front {
    const char *title, *x_name;
    const struct svg_mark *marks;
    int count;
    const double *x, *y; /* dots */
    int dots;
    const char *dot_name;                /* in the key */
    const char *shape_names[SVG_SHAPES]; /* likewise */
};
void svg_front(struct html *html, const struct svg_front *front);
/* The same as a file of its own, readable on light and on dark pages. */
void svg_front_file(struct html *html, const struct svg_front *front);

#endif
