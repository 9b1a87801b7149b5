/*
 * Convolutions against plain loops over dense arrays in double. Errors are relative to the sum of the magnitudes that
 * went into an element: whatever the data, rounding is a small multiple of that, and a missing term is not.
 */
#include <math.h>
#include <string.h>

#include "check/numeric_cases.h"
#include "nn/channels.h"
#include "nn/conv.h"

struct conv_shape {
    int height, width, cin, cout, images;
};

/*
 * Odd sizes, one pixel, widths that cut into every kind of panel, image counts that leave blocks unfilled; the last
 * rows are wide enough for Winograd.
 */
static const struct conv_shape conv_shapes[] = {
    {1, 1, 1, 1, 1},   {1, 1, 3, 10, 67},   {1, 1, 130, 10, 5}, {1, 1, 32, 32, 130}, {2, 2, 5, 7, 19},
    {2, 2, 16, 6, 3},  {3, 5, 7, 12, 4},    {7, 5, 4, 4, 3},    {9, 1, 8, 20, 2},    {1, 9, 12, 1, 2},
    {4, 4, 9, 36, 5},  {8, 8, 3, 8, 1},     {8, 8, 17, 33, 2},  {6, 3, 130, 3, 1},   {6, 3, 2, 130, 1},
    {5, 5, 64, 28, 2}, {16, 16, 8, 16, 1},  {13, 11, 6, 5, 2},  {9, 4, 4, 4, 3},     {12, 8, 3, 4, 2},
    {32, 3, 1, 2, 1},  {4, 8, 31, 48, 3},   {2, 2, 64, 128, 9}, {4, 4, 32, 48, 7},   {6, 10, 48, 32, 2},
    {8, 8, 32, 32, 3}, {2, 16, 96, 112, 1},
};
enum { CONV_SHAPES = sizeof conv_shapes / sizeof conv_shapes[0] };

struct conv_case {
    struct conv_shape shape;
    struct conv conv;
    int kernel, taps;
    size_t pixels, xs, ys, ws; /* of all images; values of input, output and weights, dense */
    real *x, *g, *w;
    real *in, *grad, *packed, *sums, *out, *dense;
    double *want, *size; /* results, and the magnitudes that went into them */
};

static void conv_case_init(struct conv_case *c, struct scrap *scrap, struct conv_shape s, int kernel)
{
    *c = (struct conv_case){.shape = s, .kernel = kernel, .taps = kernel * kernel};
    c->pixels = (size_t)s.images * s.height * s.width;
    c->xs = c->pixels * s.cin;
    c->ys = c->pixels * s.cout;
    c->ws = (size_t)c->taps * s.cin * s.cout;
    size_t most = c->xs > c->ys ? c->xs : c->ys;
    most = c->ws > most ? c->ws : most;
    int wide = padded(s.cin > s.cout ? s.cin : s.cout);
    size_t framed = (size_t)s.images * framed_size(s.height, s.width, wide);
    size_t packed = conv_packed_reals(s.height, s.width, s.cin, s.cout, kernel);
    void *table = scrap_take(scrap, conv_table_bytes(s.height, s.width), 1);
    c->x = scrap_reals(scrap, c->xs);
    c->g = scrap_reals(scrap, c->ys);
    c->w = scrap_reals(scrap, c->ws);
    c->in = scrap_reals(scrap, framed);
    c->grad = scrap_reals(scrap, framed);
    c->packed = scrap_reals(scrap, packed);
    c->sums = scrap_reals(scrap, packed);
    c->out = scrap_reals(scrap, framed);
    c->dense = scrap_reals(scrap, most);
    c->want = scrap_doubles(scrap, most);
    c->size = scrap_doubles(scrap, most);
    if (!scrap->failed)
        conv_init(&c->conv, s.height, s.width, s.cin, s.cout, kernel, table);
}

/* Dense values as a convolution reads them: padded channels, framed for 3x3. `spare` holds the padded image. */
static void conv_feed(const struct conv_case *c, int channels, const real *dense, real *spare, real *fed)
{
    if (c->kernel == 1) {
        pad_pixels(c->pixels, channels, dense, fed);
        return;
    }
    pad_pixels(c->pixels, channels, dense, spare);
    frame_images(c->shape.images, c->shape.height, c->shape.width, padded(channels), spare, fed);
}

/* What the three passes have in common: every product x * w that belongs to output element y. */
struct product {
    size_t x, w, y;
};

static void conv_each(const struct conv_case *c, void (*visit)(const struct conv_case *c, struct product at))
{
    const struct conv_shape *s = &c->shape;
    for (int n = 0; n < s->images; n++)
        for (int h = 0; h < s->height; h++)
            for (int w = 0; w < s->width; w++)
                for (int t = 0; t < c->taps; t++) {
                    int row = h + t / c->kernel - c->kernel / 2, column = w + t % c->kernel - c->kernel / 2;
                    if (row < 0 || row >= s->height || column < 0 || column >= s->width)
                        continue;
                    size_t from = ((size_t)n * s->height + row) * s->width + column;
                    size_t to = ((size_t)n * s->height + h) * s->width + w;
                    for (int o = 0; o < s->cout; o++)
                        for (int i = 0; i < s->cin; i++)
                            visit(c, (struct product){from * s->cin + i, ((size_t)o * c->taps + t) * s->cin + i,
                                                      to * s->cout + o});
                }
}

static void conv_add(const struct conv_case *c, size_t at, real a, real b)
{
    c->want[at] += (double)a * (double)b;
    c->size[at] += fabs((double)a * (double)b);
}

static void visit_forward(const struct conv_case *c, struct product at)
{
    conv_add(c, at.y, c->x[at.x], c->w[at.w]);
}

static void visit_data(const struct conv_case *c, struct product at)
{
    conv_add(c, at.x, c->g[at.y], c->w[at.w]);
}

static void visit_weights(const struct conv_case *c, struct product at)
{
    conv_add(c, at.w, c->x[at.x], c->g[at.y]);
}

/* The reference of one pass, then the worst error of `got` in units of the magnitudes. */
static double conv_judge(struct conv_case *c, void (*visit)(const struct conv_case *c, struct product at), size_t count,
                         const real *got)
{
    double worst = 0;
    memset(c->want, 0, sizeof(double) * count);
    memset(c->size, 0, sizeof(double) * count);
    conv_each(c, visit);
    for (size_t i = 0; i < count; i++) {
        double error = fabs((double)got[i] - c->want[i]) / (c->size[i] + 1e-300);
        if (error > worst || error != error)
            worst = error;
    }
    return worst;
}

static void conv_report(const struct conv_case *c, struct check_report *report, const char *name, const char *pass,
                        double error)
{
    const struct conv_shape *s = &c->shape;
    case_error(report, error, 16 * ROUNDING, "%s %s %dx%d, %d to %d channels, %d of %dx%d", name, pass, c->kernel,
               c->kernel, s->cin, s->cout, s->images, s->height, s->width);
}

static void conv_check(struct check_report *report, const char *name, struct conv_shape shape, int kernel)
{
    struct conv_case c;
    struct scrap scrap = {0};
    conv_case_init(&c, &scrap, shape, kernel);
    if (scrap_ready(&scrap, report, name)) {
        fill_random(c.x, c.xs, 1, 1);
        fill_random(c.g, c.ys, 2, 1);
        fill_random(c.w, c.ws, 3, 1);
        conv_feed(&c, shape.cin, c.x, c.out, c.in);
        conv_feed(&c, shape.cout, c.g, c.out, c.grad);

        conv_pack_forward(&c.conv, c.w, c.packed);
        conv_forward(&c.conv, shape.images, c.in, c.packed, c.out);
        unpad_pixels(c.pixels, shape.cout, c.out, c.dense);
        double error = padding_is_zero(c.pixels, shape.cout, c.out) ? 0 : INFINITY;
        conv_report(&c, report, name, "forward", fmax(error, conv_judge(&c, visit_forward, c.ys, c.dense)));

        conv_pack_backward(&c.conv, c.w, c.packed);
        conv_backward_data(&c.conv, shape.images, c.grad, c.packed, c.out);
        unpad_pixels(c.pixels, shape.cin, c.out, c.dense);
        error = padding_is_zero(c.pixels, shape.cin, c.out) ? 0 : INFINITY;
        conv_report(&c, report, name, "backward-data", fmax(error, conv_judge(&c, visit_data, c.xs, c.dense)));

        conv_backward_weights(&c.conv, shape.images, c.in, c.grad, c.sums);
        conv_unpack_weights(&c.conv, c.sums, c.dense);
        conv_report(&c, report, name, "backward-weights", conv_judge(&c, visit_weights, c.ws, c.dense));
    }
    scrap_free(&scrap);
}

void case_conv(struct check_report *report, const char *name)
{
    for (int i = 0; i < CONV_SHAPES; i++)
        for (int kernel = 1; kernel <= 3; kernel += 2)
            conv_check(report, name, conv_shapes[i], kernel);
}

/* A row's bits do not depend on how many rows come with it, nor an image's on the images beside it. */
void case_conv_rows(struct check_report *report, const char *name)
{
    static const struct conv_shape shapes[] = {
        {1, 1, 40, 10, 128}, {1, 1, 3, 36, 128}, {2, 3, 9, 20, 50}, {5, 5, 16, 12, 7}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct conv_case c;
        struct scrap scrap = {0};
        bool same = true;
        conv_case_init(&c, &scrap, shapes[i], shapes[i].height > 1 ? 3 : 1);
        real *alone = scrap_reals(&scrap, c.pixels * padded(shapes[i].cout));
        if (scrap_ready(&scrap, report, name)) {
            fill_random(c.x, c.xs, 4, 1);
            fill_random(c.w, c.ws, 5, 1);
            conv_feed(&c, shapes[i].cin, c.x, c.out, c.in);
            conv_pack_forward(&c.conv, c.w, c.packed);
            conv_forward(&c.conv, shapes[i].images, c.in, c.packed, c.out);
            for (int n = 0; n < shapes[i].images; n++) {
                conv_forward(&c.conv, 1, c.in + n * c.conv.in_image, c.packed, alone);
                same &= same_bits(alone, c.out + n * c.conv.out_image, c.conv.out_image);
            }
            case_flag(report, same, "a row's result depends on its neighbours", "%s %d to %d channels, %d of %dx%d",
                      name, shapes[i].cin, shapes[i].cout, shapes[i].images, shapes[i].height, shapes[i].width);
        }
        scrap_free(&scrap);
    }
}

/* ---- depthwise -------------------------------------------------------------------------------------------------- */

struct depthwise_case {
    int images, height, width, c, cp;
    size_t pixels;
    real *x, *g, *w; /* dense; w is [9][c] */
    real *spare, *framed, *weight_p, *out, *sums;
};

static double depthwise_forward_error(const struct depthwise_case *d, bool backward)
{
    const real *from = backward ? d->g : d->x;
    for (int t = 0; t < 9; t++)
        for (int k = 0; k < d->cp; k++)
            d->weight_p[t * d->cp + k] = k < d->c ? d->w[(backward ? 8 - t : t) * d->c + k] : 0;
    pad_pixels(d->pixels, d->c, from, d->spare);
    frame_images(d->images, d->height, d->width, d->cp, d->spare, d->framed);
    depthwise_forward(d->images, d->height, d->width, d->cp, d->framed, d->weight_p, d->out);
    struct worst worst = {0};
    for (size_t p = 0; p < d->pixels; p++) {
        int row = (int)(p / (size_t)d->width) % d->height, column = (int)(p % (size_t)d->width);
        for (int k = 0; k < d->c; k++) {
            double want = 0;
            for (int t = 0; t < 9; t++) {
                int dy = t / 3 - 1, dx = t % 3 - 1, sign = backward ? -1 : 1; /* the gradient looks the other way */
                int r = row + sign * dy, q = column + sign * dx;
                if (r >= 0 && r < d->height && q >= 0 && q < d->width)
                    want += (double)from[(p + (ptrdiff_t)sign * (dy * d->width + dx)) * d->c + k] *
                            (double)d->w[t * d->c + k];
            }
            worst_add(&worst, (double)d->out[p * d->cp + k], want);
        }
    }
    return padding_is_zero(d->pixels, d->c, d->out) ? worst.error : INFINITY;
}

static double depthwise_weights_error(const struct depthwise_case *d)
{
    pad_pixels(d->pixels, d->c, d->x, d->spare);
    frame_images(d->images, d->height, d->width, d->cp, d->spare, d->framed);
    pad_pixels(d->pixels, d->c, d->g, d->spare);
    memset(d->sums, 0, sizeof(real) * 9 * d->cp);
    depthwise_weights(d->images, d->height, d->width, d->cp, d->framed, d->spare, d->sums);
    double worst = 0;
    for (int t = 0; t < 9; t++)
        for (int k = 0; k < d->c; k++) {
            double want = 0, size = 1e-300;
            for (size_t p = 0; p < d->pixels; p++) {
                int row = (int)(p / (size_t)d->width) % d->height + t / 3 - 1;
                int column = (int)(p % (size_t)d->width) + t % 3 - 1;
                if (row < 0 || row >= d->height || column < 0 || column >= d->width)
                    continue;
                ptrdiff_t off = (ptrdiff_t)(t / 3 - 1) * d->width + t % 3 - 1;
                double term = (double)d->x[(p + off) * d->c + k] * (double)d->g[p * d->c + k];
                want += term;
                size += fabs(term);
            }
            double error = fabs((double)d->sums[t * d->cp + k] - want) / size;
            if (error > worst || error != error)
                worst = error;
        }
    return worst;
}

static void depthwise_check(struct check_report *report, const char *name, struct depthwise_case d)
{
    struct scrap scrap = {0};
    d.cp = padded(d.c);
    d.pixels = (size_t)d.images * d.height * d.width;
    d.x = scrap_reals(&scrap, d.pixels * d.c);
    d.g = scrap_reals(&scrap, d.pixels * d.c);
    d.w = scrap_reals(&scrap, 9 * (size_t)d.c);
    d.spare = scrap_reals(&scrap, d.pixels * d.cp);
    d.framed = scrap_reals(&scrap, (size_t)d.images * framed_size(d.height, d.width, d.cp));
    d.weight_p = scrap_reals(&scrap, 9 * (size_t)d.cp);
    d.out = scrap_reals(&scrap, d.pixels * d.cp);
    d.sums = scrap_reals(&scrap, 9 * (size_t)d.cp);
    if (scrap_ready(&scrap, report, name)) {
        fill_random(d.x, d.pixels * d.c, 6, 1);
        fill_random(d.g, d.pixels * d.c, 7, 1);
        fill_random(d.w, 9 * (size_t)d.c, 8, 1);
        const double errors[] = {depthwise_forward_error(&d, false), depthwise_forward_error(&d, true),
                                 depthwise_weights_error(&d)};
        static const char *const passes[] = {"forward", "backward-data", "backward-weights"};
        for (int i = 0; i < 3; i++)
            case_error(report, errors[i], 32 * ROUNDING, "%s %s, %d channels, %d of %dx%d", name, passes[i], d.c,
                       d.images, d.height, d.width);
    }
    scrap_free(&scrap);
}

void case_depthwise(struct check_report *report, const char *name)
{
    static const int shapes[][4] = {{1, 1, 1, 1},  {3, 7, 5, 4},   {2, 1, 9, 6},
                                    {2, 8, 8, 20}, {1, 4, 3, 130}, {2, 2, 2, 33}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        depthwise_check(report, name,
                        (struct depthwise_case){
                            .images = shapes[i][0], .height = shapes[i][1], .width = shapes[i][2], .c = shapes[i][3]});
}
