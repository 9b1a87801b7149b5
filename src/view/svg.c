#include "view/svg.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "view/svg_parts.h"

const char svg_style[] =
    ":root{--ink:#1c2430;--soft:#5b6675;--grid:#dfe4ea;--paper:#ffffff;--panel:#f6f8fa;--good:#1a7f37;--warn:#9a6700;"
    "--bad:#cf222e;--s0:#0b62a4;--s1:#c4500a;--s2:#0f8a5f;--s3:#a4478a;--s4:#8a6d00;--s5:#3a8fc0;--s6:#6a3d9a;"
    "--s7:#666;--germinated:#a6d96a;--training:#6baed6;--blending:#fdae61;--holding:#b39ddb;--fossilized:#c9a24b;"
    "--cooling:#c4c9d0;--on:#16202c;--up:#2f8f5b;--down:#c8503c}\n"
    "@media screen and (prefers-color-scheme:dark){:root{--ink:#e3e8ee;--soft:#9aa7b5;--grid:#2c3642;--paper:#12171d;"
    "--panel:#1a2129;--good:#4ac26b;--warn:#d4a72c;--bad:#ff7b72;--s0:#58a6ff;--s1:#ff9d57;--s2:#43c59e;"
    "--s3:#e58fcb;--s4:#e3c04d;--s5:#8fd0f5;--s6:#b892e8;--s7:#aaa;--up:#43a674;--down:#e07560}}\n"
    ".plot{margin:0;break-inside:avoid}.plot svg{display:block;width:100%;height:auto}"
    ".plot figcaption{font-weight:600;font-size:13px;margin:0 0 2px}\n"
    ".plot text{font:11px system-ui,sans-serif;fill:var(--soft)}.plot text.ink{fill:var(--ink)}"
    ".plot text.on{fill:var(--on);font-size:10px}.plot .grid{stroke:var(--grid);fill:none}"
    ".plot .axis{stroke:var(--soft);fill:none}.plot .mark{stroke:var(--bad);stroke-dasharray:2 3;opacity:.6}\n"
    ".line{fill:none;stroke-width:1.6;stroke-linejoin:round;stroke-linecap:round}.band{fill-opacity:.16}"
    ".c0{stroke:var(--s0)}.c1{stroke:var(--s1);stroke-dasharray:6 3}.c2{stroke:var(--s2);stroke-dasharray:2 3}"
    ".c3{stroke:var(--s3);stroke-dasharray:8 3 2 3}.c4{stroke:var(--s4);stroke-dasharray:10 4}"
    ".c5{stroke:var(--s5);stroke-dasharray:4 2}.c6{stroke:var(--s6);stroke-dasharray:1 2}"
    ".c7{stroke:var(--s7);stroke-dasharray:12 3 2 3 2 3}"
    ".band.c0{fill:var(--s0);stroke:none}.band.c1{fill:var(--s1);stroke:none}"
    ".band.c2{fill:var(--s2);stroke:none}.band.c3{fill:var(--s3);stroke:none}\n"
    ".cell{fill:var(--s0)}.none{stroke:var(--grid)}.span{stroke:var(--paper);stroke-width:1;fill:var(--cooling)}"
    ".germinated{fill:var(--germinated)}.training{fill:var(--training)}.blending{fill:var(--blending)}"
    ".holding{fill:var(--holding)}.fossilized{fill:var(--fossilized)}.up{fill:var(--up)}.down{fill:var(--down)}"
    ".sum{fill:var(--s0)}.dot{stroke:var(--s5);stroke-width:5;stroke-linecap:round;stroke-opacity:.45;fill:none}"
    ".best{fill:var(--s1);stroke:var(--paper)}.front{stroke:var(--s1);stroke-width:1.2;fill:none}\n"
    ".shape{fill:var(--paper);fill-opacity:.6;stroke-width:1.6;stroke:var(--mark)}.shape.solid{fill:var(--mark);"
    "fill-opacity:1;stroke:var(--paper);stroke-width:1}.m0{--mark:var(--s0)}.m1{--mark:var(--s1)}"
    ".m2{--mark:var(--s2)}.m3{--mark:var(--s3)}.m6{--mark:var(--s6)}.m7{--mark:var(--s7)}\n";

/* ---- frames and axes --------------------------------------------------------------------------------------------- */

double svg_place(const struct svg_scale *scale, double value)
{
    return scale->first + (value - scale->low) / (scale->high - scale->low) * (scale->last - scale->first);
}

void svg_open_figure(struct html *html, const char *title, int height)
{
    html_raw(html, "<figure class=\"plot\"><figcaption>");
    html_text(html, title);
    html_add(html, "</figcaption><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", SVG_WIDTH, height);
    html_text(html, title);
    html_raw(html, "\">");
}

void svg_close_figure(struct html *html)
{
    html_raw(html, "</svg></figure>\n");
}

void svg_words(struct html *html, double x, double y, const char *class, const char *anchor, const char *text)
{
    html_add(html, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\" text-anchor=\"%s\">", x, y, class, anchor);
    html_text(html, text);
    html_raw(html, "</text>");
}

static void nothing(struct html *html, int height)
{
    svg_words(html, SVG_WIDTH / 2.0, height / 2.0, "ink", "middle", "nothing recorded");
}

double svg_tick_step(double range, int count)
{
    double raw = range / count, power = pow(10, floor(log10(raw)));
    double lead = raw / power;
    return power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}

double svg_tick_at(const struct svg_scale *scale, double step, int i)
{
    return (ceil(scale->low / step - 1e-9) + i) * step;
}

static int tick_count(const struct svg_scale *scale, double step)
{
    double count = floor((scale->high - svg_tick_at(scale, step, 0)) / step + 1e-6) + 1;
    return count > 0 && count < 100 ? (int)count : 0; /* more only where numbers end */
}

void svg_tick_text(double value, double step, char text[32])
{
    int decimals = step >= 1 ? 0 : (int)ceil(-log10(step) - 1e-9);
    if (fabs(value) < step * 1e-6)
        snprintf(text, 32, "0");
    else if (decimals > 4)
        snprintf(text, 32, "%.1e", value);
    else if (step >= 1e6)
        snprintf(text, 32, "%gM", round(value / step) * step / 1e6);
    else if (step >= 1e3)
        snprintf(text, 32, "%gk", round(value / step) * step / 1e3);
    else
        snprintf(text, 32, "%.*f", decimals, value);
}

void svg_widen(struct svg_scale *scale, int ticks)
{
    if (scale->high - scale->low < 1e-9 * fmax(1e-3, fabs(scale->high))) {
        double room = fmax(1e-3, fabs(scale->high) * 0.1);
        scale->low -= room;
        scale->high += room;
    }
    double step = svg_tick_step(scale->high - scale->low, ticks);
    scale->low = floor(scale->low / step + 1e-9) * step;
    scale->high = ceil(scale->high / step - 1e-9) * step;
}

void svg_y_axis(struct html *html, const struct svg_scale *y, double right)
{
    double step = svg_tick_step(y->high - y->low, 4);
    for (int i = 0; i < tick_count(y, step); i++) {
        double value = svg_tick_at(y, step, i);
        char text[32];
        svg_tick_text(value, step, text);
        html_add(html, "<path class=\"grid\" d=\"M%d %.1fH%.1f\"/>", SVG_LEFT, svg_place(y, value), right);
        svg_words(html, SVG_LEFT - 6, svg_place(y, value) + 4, "", "end", text);
    }
}

static void x_axis(struct html *html, const struct svg_scale *x, double bottom, const char *name)
{
    double step = svg_tick_step(fmax(x->high - x->low, 1e-9), 8), end = 0;
    if (step < 1 && x->high - x->low >= 1)
        step = 1; /* rounds, steps and parameters are integers */
    html_add(html, "<path class=\"axis\" d=\"M%.1f %.1fH%.1f\"/>", x->first, bottom, x->last);
    for (int i = 0; i < tick_count(x, step); i++) {
        double value = svg_tick_at(x, step, i);
        char text[32];
        svg_tick_text(value, step, text);
        end = svg_place(x, value);
        html_add(html, "<path class=\"axis\" d=\"M%.1f %.1fv4\"/>", end, bottom);
        if (end < x->last - 30 - 6.0 * (double)strlen(name)) /* the name of the axis is there */
            svg_words(html, end, bottom + 16, "", "middle", text);
    }
    svg_words(html, x->last, bottom + 16, "", "end", name);
}

void svg_take(struct svg_scale *scale, double value)
{
    if (!isfinite(value))
        return;
    scale->low = isnan(scale->low) ? value : fmin(scale->low, value);
    scale->high = isnan(scale->high) ? value : fmax(scale->high, value);
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static const double *places_of(const struct svg_plot *plot, int s)
{
    return plot->series[s].x ? plot->series[s].x : plot->x;
}

static int count_of(const struct svg_plot *plot, int s)
{
    return plot->series[s].x ? plot->series[s].count : plot->count;
}

static struct svg_scale lines_x(const struct svg_plot *plot)
{
    struct svg_scale x = {NAN, NAN, SVG_LEFT, SVG_WIDTH - SVG_RIGHT};
    for (int s = 0; s < plot->series_count; s++)
        for (int i = 0; i < count_of(plot, s); i++)
            svg_take(&x, places_of(plot, s)[i]);
    if (x.low == x.high) {
        x.low -= 0.5;
        x.high += 0.5;
    }
    return x;
}

static struct svg_scale lines_y(const struct svg_plot *plot, double top, double bottom, bool *empty)
{
    struct svg_scale y = {NAN, NAN, bottom, top};
    for (int s = 0; s < plot->series_count; s++)
        for (int i = 0; plot->series[s].y && i < count_of(plot, s); i++) {
            svg_take(&y, plot->series[s].y[i]);
            svg_take(&y, plot->series[s].low ? plot->series[s].low[i] : NAN);
            svg_take(&y, plot->series[s].high ? plot->series[s].high[i] : NAN);
        }
    *empty = isnan(y.low);
    if (*empty)
        return y;
    svg_take(&y, plot->y_low);
    svg_take(&y, plot->y_high);
    svg_widen(&y, 4);
    return y;
}

static bool in_band(const struct svg_series *series, int i, int count)
{
    return i < count && isfinite(series->low[i]) && isfinite(series->high[i]);
}

/* One shape per stretch without gaps: forwards along the top, back along the bottom. */
static void draw_band(struct html *html, const struct svg_plot *plot, int s, const struct svg_scale *x,
                      const struct svg_scale *y)
{
    const struct svg_series *series = &plot->series[s];
    const double *places = places_of(plot, s);
    int count = count_of(plot, s);
    for (int i = 0; series->low && series->high && i < count; i++) {
        int end = i;
        while (in_band(series, end, count))
            end++;
        if (end - i > 1) {
            html_add(html, "<path class=\"band c%d\" d=\"", s);
            for (int j = i; j < end; j++)
                html_add(html, "%c%.1f %.1f", j == i ? 'M' : 'L', svg_place(x, places[j]),
                         svg_place(y, series->high[j]));
            for (int j = end; j-- > i;)
                html_add(html, "L%.1f %.1f", svg_place(x, places[j]), svg_place(y, series->low[j]));
            html_raw(html, "Z\"/>");
        }
        i = end;
    }
}

static void draw_line(struct html *html, const struct svg_plot *plot, int s, const struct svg_scale *x,
                      const struct svg_scale *y)
{
    const double *values = plot->series[s].y, *places = places_of(plot, s);
    int count = values ? count_of(plot, s) : 0;
    html_add(html, "<path class=\"line c%d\" d=\"", s);
    for (int i = 0; i < count; i++) {
        bool before = i > 0 && isfinite(values[i - 1]), after = i + 1 < count && isfinite(values[i + 1]);
        if (!isfinite(values[i]))
            continue;
        html_add(html, "%c%.1f %.1f", before ? 'L' : 'M', svg_place(x, places[i]), svg_place(y, values[i]));
        if (!before && !after)
            html_raw(html, "h.1"); /* alone between gaps: a dot */
    }
    html_raw(html, "\"/>");
}

static void draw_legend(struct html *html, const struct svg_plot *plot)
{
    double at = SVG_LEFT;
    for (int s = 0; s < plot->series_count; s++) {
        if (!plot->series[s].name)
            continue;
        html_add(html, "<path class=\"line c%d\" d=\"M%.1f 9h22\"/>", s, at);
        svg_words(html, at + 27, 13, "ink", "start", plot->series[s].name);
        at += 42 + 6.0 * (double)strlen(plot->series[s].name);
    }
    if (plot->mark_count)
        svg_words(html, SVG_WIDTH - SVG_RIGHT, 13, "", "end", "\xE2\x94\x86 alert");
}

void svg_lines(struct html *html, const struct svg_plot *plot)
{
    enum { HEIGHT = 200, TOP = 22, BOTTOM = HEIGHT - 24 };
    bool empty;
    struct svg_scale x = lines_x(plot), y = lines_y(plot, TOP, BOTTOM, &empty);
    svg_open_figure(html, plot->title, HEIGHT);
    if (empty) {
        nothing(html, HEIGHT);
    } else {
        svg_y_axis(html, &y, SVG_WIDTH - SVG_RIGHT);
        for (int i = 0; i < plot->mark_count; i++)
            if (plot->marks[i] >= x.low && plot->marks[i] <= x.high)
                html_add(html, "<path class=\"mark\" d=\"M%.1f %dV%d\"/>", svg_place(&x, plot->marks[i]), TOP, BOTTOM);
        for (int s = 0; s < plot->series_count; s++)
            draw_band(html, plot, s, &x, &y);
        for (int s = 0; s < plot->series_count; s++)
            draw_line(html, plot, s, &x, &y);
        x_axis(html, &x, BOTTOM, plot->x_name);
        draw_legend(html, plot);
    }
    svg_close_figure(html);
}

/* ---- points ------------------------------------------------------------------------------------------------------ */

static void draw_frontier(struct html *html, const struct svg_scatter *scatter, const struct svg_scale *x,
                          const struct svg_scale *y)
{
    bool started = false;
    html_raw(html, "<path class=\"front\" d=\"");
    for (int i = 0; i < scatter->count && scatter->points[i].frontier; i++) {
        const struct svg_point *point = &scatter->points[i];
        html_add(html, started ? "H%.1fV%.1f" : "M%.1f %.1f", svg_place(x, point->x), svg_place(y, point->y));
        started = true;
    }
    html_add(html, started ? "H%.1f\"/>" : "\"/>", x->last);
    for (int i = 0; i < scatter->count && scatter->points[i].frontier; i++) {
        const struct svg_point *point = &scatter->points[i];
        html_add(html, "<path class=\"best\" d=\"M%.1f %.1fl5 5l-5 5l-5 -5z\"><title>", svg_place(x, point->x),
                 svg_place(y, point->y) - 5);
        html_text(html, point->name);
        html_raw(html, "</title></path>");
    }
}

void svg_scatter(struct html *html, const struct svg_scatter *scatter)
{
    enum { HEIGHT = 280, TOP = 22, BOTTOM = HEIGHT - 24 };
    struct svg_scale x = {0, 0, SVG_LEFT, SVG_WIDTH - SVG_RIGHT}, y = {NAN, NAN, BOTTOM, TOP};
    svg_open_figure(html, scatter->title, HEIGHT);
    for (int i = 0; i < scatter->count; i++) {
        svg_take(&x, scatter->points[i].x);
        svg_take(&y, scatter->points[i].y);
    }
    if (isnan(y.low)) {
        nothing(html, HEIGHT);
    } else {
        x.high = fmax(1, x.high * 1.04);
        svg_widen(&y, 5);
        svg_y_axis(html, &y, SVG_WIDTH - SVG_RIGHT);
        html_raw(html, "<path class=\"dot\" d=\"");
        for (int i = 0; i < scatter->count; i++)
            if (!scatter->points[i].frontier && isfinite(scatter->points[i].x) && isfinite(scatter->points[i].y))
                html_add(html, "M%.1f %.1fh0", svg_place(&x, scatter->points[i].x),
                         svg_place(&y, scatter->points[i].y));
        html_raw(html, "\"/>");
        draw_frontier(html, scatter, &x, &y);
        x_axis(html, &x, BOTTOM, scatter->x_name);
        svg_words(html, SVG_LEFT, 13, "ink", "start", "\xE2\x97\x86 frontier: nothing better with as few parameters");
        svg_words(html, SVG_WIDTH - SVG_RIGHT, 13, "ink", "end", "\xE2\x97\x8F episode");
    }
    svg_close_figure(html);
}

/* ---- cells ------------------------------------------------------------------------------------------------------- */

static void draw_cells(struct html *html, const struct svg_heat *heat, int row, double left, double wide, double top)
{
    enum { CELL = 18 };
    const double *values = heat->values + (size_t)row * (size_t)heat->columns;
    for (int i = 0; i < heat->columns; i++) {
        double part = (values[i] - heat->low) / (heat->high - heat->low);
        if (!isfinite(values[i]))
            html_add(html, "<path class=\"none\" d=\"M%.1f %.1fh%.1f\"/>", left + wide * i, top + CELL / 2.0, wide);
        else
            html_add(html,
                     "<rect class=\"cell\" x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill-opacity=\"%.2f\"/>",
                     left + wide * i, top, wide + 0.1, CELL, 0.06 + 0.94 * fmin(1, fmax(0, part)));
    }
}

static void heat_key(struct html *html, const struct svg_heat *heat, double y)
{
    char text[48];
    for (int i = 0; i <= 10; i++)
        html_add(html, "<rect class=\"cell\" x=\"%d\" y=\"%.1f\" width=\"12\" height=\"8\" fill-opacity=\"%.2f\"/>",
                 140 + 12 * i, y, 0.06 + 0.094 * i);
    snprintf(text, sizeof text, "%g", heat->low);
    svg_words(html, 135, y + 8, "", "end", text);
    snprintf(text, sizeof text, "%g", heat->high);
    svg_words(html, 277, y + 8, "", "start", text);
    html_add(html, "<path class=\"none\" d=\"M330 %.1fh24\"/>", y + 4);
    svg_words(html, 360, y + 8, "", "start", "missing");
}

void svg_heat(struct html *html, const struct svg_heat *heat)
{
    enum { NAMES = 92, VALUES = 54, ROW = 20, TOP = 20 };
    int bottom = TOP + ROW * heat->rows;
    struct svg_scale x = {heat->x_first, heat->x_last, NAMES, SVG_WIDTH - VALUES};
    svg_open_figure(html, heat->title, bottom + 44);
    if (heat->columns == 0 || heat->rows == 0) {
        nothing(html, bottom + 44);
        svg_close_figure(html);
        return;
    }
    double wide = (x.last - x.first) / heat->columns;
    svg_words(html, SVG_WIDTH - 4, 13, "", "end", "last");
    for (int row = 0; row < heat->rows; row++) {
        char text[32] = "-";
        double last = heat->values[(size_t)(row + 1) * (size_t)heat->columns - 1];
        if (isfinite(last))
            snprintf(text, sizeof text, "%.3f", last);
        svg_words(html, NAMES - 6, TOP + ROW * row + 13, "ink", "end", heat->names[row]);
        draw_cells(html, heat, row, x.first, wide, TOP + ROW * row);
        svg_words(html, SVG_WIDTH - 4, TOP + ROW * row + 13, "ink", "end", text);
    }
    if (x.high > x.low)
        x_axis(html, &x, bottom, heat->x_name);
    heat_key(html, heat, bottom + 28);
    svg_close_figure(html);
}

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

static void draw_span(struct html *html, const struct svg_span *span, const struct svg_scale *x, double top)
{
    enum { TALL = 20 };
    char letter = span->stage[0] >= 'a' && span->stage[0] <= 'z' ? (char)(span->stage[0] - 'a' + 'A') : '?';
    double from = svg_place(x, span->from), wide = svg_place(x, span->to) - from;
    html_raw(html, "<g><title>");
    html_text(html, span->label);
    html_add(html, ", %.0f to %.0f: ", span->from, span->to);
    html_text(html, span->stage);
    html_raw(html, "</title><rect class=\"span ");
    html_text(html, span->stage);
    html_add(html, "\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>", from, top, wide, TALL);
    if (wide >= 9) {
        char text[64];
        int room = (int)(wide / 6.2) - 2;
        snprintf(text, sizeof text, "%c%s%.*s", letter, room > 3 ? " " : "", room > 3 ? room : 0, span->label);
        html_add(html, "<text class=\"on\" x=\"%.1f\" y=\"%.1f\">", from + 2.5, top + 14);
        html_text(html, text);
        html_raw(html, "</text>");
    }
    html_raw(html, "</g>");
}

void svg_lanes(struct html *html, const struct svg_lanes *lanes)
{
    enum { LANE = 24, TOP = 4 };
    int bottom = TOP + LANE * lanes->lanes;
    struct svg_scale x = {0, fmax(1, lanes->x_last), SVG_LEFT, SVG_WIDTH - SVG_RIGHT};
    svg_open_figure(html, lanes->title, bottom + 22);
    for (int i = 0; i < lanes->lanes; i++) {
        html_add(html, "<path class=\"grid\" d=\"M%d %dH%d\"/>", SVG_LEFT, TOP + LANE * i + 10, SVG_WIDTH - SVG_RIGHT);
        svg_words(html, SVG_LEFT - 6, TOP + LANE * i + 14, "ink", "end", lanes->names[i]);
    }
    for (int i = 0; i < lanes->count; i++)
        if (lanes->spans[i].to > lanes->spans[i].from)
            draw_span(html, &lanes->spans[i], &x, TOP + LANE * lanes->spans[i].lane);
    x_axis(html, &x, bottom, lanes->x_name);
    svg_close_figure(html);
}

/* ---- bars -------------------------------------------------------------------------------------------------------- */

static void draw_bar(struct html *html, const char *name, double from, double to, const char *class,
                     const struct svg_scale *x, double top)
{
    enum { TALL = 15 };
    char text[32];
    double a = svg_place(x, fmin(from, to)), b = svg_place(x, fmax(from, to));
    svg_words(html, x->first - 8, top + 12, "ink", "end", name);
    html_add(html, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>", class, a, top,
             fmax(b - a, 0.8), TALL);
    snprintf(text, sizeof text, "%+.2f", to - from);
    svg_words(html, SVG_WIDTH - 4, top + 12, "ink", "end", text);
}

void svg_waterfall(struct html *html, const char *title, const struct svg_bar *bars, int count)
{
    enum { NAMES = 150, VALUES = 70, ROW = 19, TOP = 4 };
    struct svg_scale x = {0, 0, NAMES, SVG_WIDTH - VALUES};
    double sum = 0;
    int bottom = TOP + ROW * (count + 1);
    svg_open_figure(html, title, bottom + 6);
    for (int i = 0; i < count; i++)
        svg_take(&x, sum += bars[i].value);
    if (x.high - x.low < 1e-12)
        x.high = 1;
    html_add(html, "<path class=\"axis\" d=\"M%.1f %dV%d\"/>", svg_place(&x, 0), TOP, bottom);
    sum = 0;
    for (int i = 0; i < count; i++) {
        draw_bar(html, bars[i].name, sum, sum + bars[i].value, bars[i].value < 0 ? "down" : "up", &x, TOP + ROW * i);
        sum += bars[i].value;
    }
    draw_bar(html, "reward", 0, sum, "sum", &x, TOP + ROW * count);
    svg_close_figure(html);
}
