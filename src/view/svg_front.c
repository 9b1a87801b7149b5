/* Fronts: what a score costs, contestant by contestant. */
#include <math.h>

#include "view/svg.h"
#include "view/svg_parts.h"

enum { FRONT_TOP = 14, FRONT_BOTTOM = 290, FRONT_KEY = 42, KEY_ROW = 17, KEY_COLUMN = 258 };

static void draw_shape(struct html *html, enum svg_shape shape, double x, double y)
{
    static const struct {
        const char *class, *path;
    } shapes[SVG_SHAPES] = {
        [SVG_DISC] = {"m0 solid", "m-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z"},
        [SVG_RING] = {"m0", "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z"},
        [SVG_DIAMOND] = {"m1 solid", "m0 -5l5 5l-5 5l-5 -5z"},
        [SVG_DIAMOND_OPEN] = {"m1", "m0 -6.5l6.5 6.5l-6.5 6.5l-6.5 -6.5z"},
        [SVG_SQUARE] = {"m2 solid", "m-4.5 -4.5h9v9h-9z"},
        [SVG_SQUARE_OPEN] = {"m2", "m-4.5 -4.5h9v9h-9z"},
        [SVG_SQUARE_HALF] = {"m2", "m-4.5 -4.5h9v9h-9zm0 9l9 -9"},
        [SVG_UP] = {"m3", "m0 -6l6 10h-12z"},
        [SVG_DOWN] = {"m6", "m0 6l6 -10h-12z"},
        [SVG_CROSS] = {"m7", "m-4 -4l8 8m-8 0l8 -8"},
        [SVG_PLUS] = {"m7", "m0 -5.5v11m-5.5 -5.5h11"},
    };
    html_add(html, "<path class=\"shape %s\" d=\"M%.1f %.1f%s\"/>", shapes[shape].class, x, y, shapes[shape].path);
}

/* Ticks at 1, 2 and 5 times powers of ten; where the range is too small for these, at equal distances. */
static void log_axis(struct html *html, const struct svg_scale *x, const char *name)
{
    const double low = pow(10, x->low), high = pow(10, x->high), step = svg_tick_step(high - low, 6);
    const struct svg_scale plain = {low, high, 0, 1};
    html_add(html, "<path class=\"axis\" d=\"M%.1f %dH%.1f\"/>", x->first, FRONT_BOTTOM, x->last);
    for (int i = 0; i < 60; i++) {
        static const double leads[] = {1, 2, 5};
        const int decade = (int)floor(x->low) + i / 3;
        const double power = pow(10, decade);
        const double value = high / low > 4 ? leads[i % 3] * power : svg_tick_at(&plain, step, i);
        const double at = svg_place(x, log10(value));
        char text[32];
        if (value < low * (1 - 1e-9) || value > high * (1 + 1e-9))
            continue;
        svg_tick_text(value,
                      high / low > 4 ? fmin(power, value >= 1e6   ? 1e6
                                                   : value >= 1e3 ? 1e3
                                                                  : power)
                                     : step,
                      text);
        html_add(html, "<path class=\"axis\" d=\"M%.1f %dv4\"/>", at, FRONT_BOTTOM);
        svg_words(html, at, FRONT_BOTTOM + 16, "", "middle", text);
    }
    svg_words(html, x->last, FRONT_BOTTOM + 32, "", "end", name);
}

static bool drawable(double x, double y)
{
    return x > 0 && isfinite(x) && isfinite(y);
}

/* From the smallest on: each mark that is better than all smaller ones is a step. */
static void draw_steps(struct html *html, const struct svg_front *front, const struct svg_scale *x,
                       const struct svg_scale *y)
{
    double left = -INFINITY, best = -INFINITY;
    html_raw(html, "<path class=\"front\" d=\"");
    for (;;) {
        const struct svg_mark *next = NULL;
        for (int i = 0; i < front->count; i++) {
            const struct svg_mark *mark = &front->marks[i];
            if (mark->step && drawable(mark->x, mark->y) && mark->y > best && mark->x >= left &&
                (!next || mark->x < next->x || (mark->x == next->x && mark->y > next->y)))
                next = mark;
        }
        if (!next)
            break;
        html_add(html, best == -INFINITY ? "M%.1f %.1f" : "H%.1fV%.1f", svg_place(x, log10(next->x)),
                 svg_place(y, next->y));
        left = next->x;
        best = next->y;
    }
    html_add(html, best == -INFINITY ? "\"/>" : "H%.1f\"/>", x->last);
}

static void draw_mark(struct html *html, const struct svg_mark *mark, const struct svg_scale *x,
                      const struct svg_scale *y)
{
    const double across = svg_place(x, log10(mark->x)), up = svg_place(y, mark->y);
    html_raw(html, "<g><title>");
    html_text(html, mark->name);
    html_add(html, ": %.2f", mark->y);
    if (isfinite(mark->low))
        html_add(html, " [%.2f, %.2f]", mark->low, mark->high);
    html_raw(html, "</title>");
    if (isfinite(mark->low))
        html_add(html, "<path class=\"shape m0\" d=\"M%.1f %.1fV%.1fm-3 0h6M%.1f %.1fm-3 0h6\"/>", across,
                 svg_place(y, mark->low), svg_place(y, mark->high), across, svg_place(y, mark->low));
    draw_shape(html, mark->shape, across, up);
    if (mark->label)
        svg_words(html, across + 8, up - 5, "ink", "start", mark->label);
    html_raw(html, "</g>");
}

/* The kinds that occur, two to a row. Returns the height that the whole plot takes. */
static int draw_key(struct html *html, const struct svg_front *front)
{
    int shown = 0;
    for (int shape = 0; shape <= SVG_SHAPES; shape++) { /* the last are the dots */
        const int top = FRONT_BOTTOM + FRONT_KEY + KEY_ROW * (shown / 2) + 8;
        const int left = SVG_LEFT + KEY_COLUMN * (shown % 2);
        bool occurs = shape == SVG_SHAPES && front->dots > 0;
        for (int i = 0; i < front->count; i++)
            occurs = occurs || (int)front->marks[i].shape == shape;
        if (!occurs)
            continue;
        if (html && shape == SVG_SHAPES)
            html_add(html, "<path class=\"dot\" d=\"M%d %dh0\"/>", left + 6, top);
        else if (html)
            draw_shape(html, (enum svg_shape)shape, left + 6, top);
        if (html)
            svg_words(html, left + 18, top + 4, "ink", "start",
                      shape == SVG_SHAPES ? front->dot_name : front->shape_names[shape]);
        shown++;
    }
    return FRONT_BOTTOM + FRONT_KEY + KEY_ROW * ((shown + 1) / 2) + 6;
}

static void draw_front(struct html *html, const struct svg_front *front)
{
    struct svg_scale x = {NAN, NAN, SVG_LEFT, SVG_WIDTH - SVG_RIGHT}, y = {NAN, NAN, FRONT_BOTTOM, FRONT_TOP};
    for (int i = 0; i < front->count; i++) {
        const struct svg_mark *mark = &front->marks[i];
        if (!drawable(mark->x, mark->y))
            continue;
        svg_take(&x, log10(mark->x));
        svg_take(&y, mark->y);
        svg_take(&y, mark->low);
        svg_take(&y, mark->high);
    }
    for (int i = 0; i < front->dots; i++)
        if (drawable(front->x[i], front->y[i])) {
            svg_take(&x, log10(front->x[i]));
            svg_take(&y, front->y[i]);
        }
    if (isnan(y.low)) {
        svg_words(html, SVG_WIDTH / 2.0, FRONT_BOTTOM / 2.0, "ink", "middle", "nothing recorded");
        return;
    }
    const double room = fmax(0.02, 0.04 * (x.high - x.low));
    x.low -= room;
    x.high += room;
    svg_widen(&y, 5);
    svg_y_axis(html, &y, SVG_WIDTH - SVG_RIGHT);
    log_axis(html, &x, front->x_name);
    html_raw(html, "<path class=\"dot\" d=\"");
    for (int i = 0; i < front->dots; i++)
        if (drawable(front->x[i], front->y[i]))
            html_add(html, "M%.1f %.1fh0", svg_place(&x, log10(front->x[i])), svg_place(&y, front->y[i]));
    html_raw(html, "\"/>");
    draw_steps(html, front, &x, &y);
    for (int i = 0; i < front->count; i++)
        if (drawable(front->marks[i].x, front->marks[i].y))
            draw_mark(html, &front->marks[i], &x, &y);
    draw_key(html, front);
}

void svg_front(struct html *html, const struct svg_front *front)
{
    svg_open_figure(html, front->title, draw_key(NULL, front));
    draw_front(html, front);
    svg_close_figure(html);
}

void svg_front_file(struct html *html, const struct svg_front *front)
{
    enum { HEAD = 26 };
    const int height = draw_key(NULL, front) + HEAD;
    html_add(html,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 %d %d %d\" width=\"%d\" "
             "height=\"%d\" role=\"img\"><title>",
             -HEAD, SVG_WIDTH, height, SVG_WIDTH * 3 / 2, height * 3 / 2);
    html_text(html, front->title);
    html_raw(html, "</title><style>\n");
    html_raw(html, svg_style);
    html_add(html, "</style><rect x=\"0\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"var(--paper)\"/>", -HEAD,
             SVG_WIDTH, height);
    svg_words(html, SVG_LEFT - 40, -8, "ink", "start", front->title);
    draw_front(html, front);
    html_raw(html, "</svg>\n");
}
