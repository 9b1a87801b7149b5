/*
 * The kernels below are written in the order in which their instructions should execute. Scheduling before register
 * allocation would undo that and cost a third of their speed.
 */
#pragma GCC optimize("no-schedule-insns")

#include "nn/conv.h"

#include <string.h>

#include "nn/winograd.h"

/* The number of vector registers that the kernels below are sized for. */
#if defined(__aarch64__) || VECTOR == 16
enum { REGISTERS = 32 };
#else
enum { REGISTERS = 16 };
#endif

/* Where multiplying by a lane is free, a pixel is loaded as a vector; other machines broadcast straight from memory. */
#if defined(__aarch64__)
#define PIXELS        vec4
#define LOAD_PIXEL(p) (*(const vec4 *)(p))
#else
#define PIXELS        const real *
#define LOAD_PIXEL(p) (p)
#endif

/* The pixels that one pass of the backward-weights kernels covers, as runs of neighbours. */
struct runs {
    const real *in, *grad;
    const int32_t *window, *centre; /* [pixels] */
    int pixels, length;             /* length divides pixels */
    int in_stride, grad_stride;     /* from pixel to pixel */
};

/* ---- kernels, by panel width ------------------------------------------------------------------------------------ */

#define PANEL   4
#define VEC     vec4
#define VN      1
#define ROWS    12
#define NAME(x) x##_panel4
#include "nn/conv_forward.inc"
#define PANEL   4
#define VEC     vec4
#define VN      1
#define NAME(x) x##_panel4
#include "nn/conv_weights.inc"

#if defined(__aarch64__)
#define PANEL   8
#define VEC     vec4
#define VN      2
#define ROWS    8
#define NAME(x) x##_panel8
#include "nn/conv_forward.inc"
#define PANEL   8
#define VEC     vec4
#define VN      2
#define NAME(x) x##_panel8
#include "nn/conv_weights.inc"
#define PANEL   16
#define VEC     vec4
#define VN      4
#define ROWS    5
#define NAME(x) x##_panel16
#include "nn/conv_forward.inc"
#elif VECTOR > 4
#define PANEL   8
#define VEC     vec8
#define VN      1
#define ROWS    12
#define NAME(x) x##_panel8
#include "nn/conv_forward.inc"
#define PANEL   8
#define VEC     vec8
#define VN      1
#define NAME(x) x##_panel8
#include "nn/conv_weights.inc"
#endif

#if VECTOR == 8
#define PANEL   16
#define VEC     vec8
#define VN      2
#define ROWS    6
#define NAME(x) x##_panel16
#include "nn/conv_forward.inc"
#elif VECTOR == 16
#define PANEL   16
#define VEC     vec16
#define VN      1
#define ROWS    12
#define NAME(x) x##_panel16
#include "nn/conv_forward.inc"
#define PANEL   16
#define VEC     vec16
#define VN      1
#define NAME(x) x##_panel16
#include "nn/conv_weights.inc"
#define PANEL   32
#define VEC     vec16
#define VN      2
#define ROWS    12
#define NAME(x) x##_panel32
#include "nn/conv_forward.inc"
#define PANEL   32
#define VEC     vec16
#define VN      2
#define NAME(x) x##_panel32
#include "nn/conv_quads.inc"
#include "nn/conv_weights.inc"
#endif

typedef void forward_tile(const real *const *in, const ptrdiff_t *row, int rows, int along, const real *weight,
                          real *out, ptrdiff_t out_stride);
typedef void pointwise_rows(int pixels, const real *in, const real *weight, real *out, ptrdiff_t out_stride);
typedef void weights_tile(const struct runs *runs, const ptrdiff_t *group, real *const *sums);

/* Widest first: a channel count is cut greedily into panels. */
struct forward_panel {
    int width, rows;
    forward_tile *tile[4];        /* [input channels] when below four; [0] for any multiple of four */
    pointwise_rows *pointwise[5]; /* [input channels] of a 1x1 convolution */
};

struct weights_panel {
    int width;
    weights_tile *eight;    /* eight channels of one tap */
    weights_tile *three[5]; /* [used lanes], four channels of three taps */
    weights_tile *one[5];   /* [used lanes], four channels of a 1x1 kernel */
};

#define FORWARD_PANEL(NAME, WIDTH, ROWS)                                                                               \
    {                                                                                                                  \
        WIDTH, ROWS,                                                                                                   \
            {tile_forward_##NAME, tile_forward_narrow1_##NAME, tile_forward_narrow2_##NAME,                            \
             tile_forward_narrow3_##NAME},                                                                             \
            {0, pointwise_1_##NAME, pointwise_2_##NAME, pointwise_3_##NAME, pointwise_4_##NAME},                       \
    }
#define WEIGHTS_PANEL(NAME, WIDTH)                                                                                     \
    {                                                                                                                  \
        WIDTH, tile_weights_2x4_##NAME,                                                                                \
            {0, tile_weights_3x1_##NAME, tile_weights_3x2_##NAME, tile_weights_3x3_##NAME, tile_weights_3x4_##NAME},   \
            {0, tile_point_1_##NAME, tile_point_2_##NAME, tile_point_3_##NAME, tile_point_4_##NAME},                   \
    }

static const struct forward_panel forward_panels[] = {
#if VECTOR == 16
    FORWARD_PANEL(panel32, 32, 12), FORWARD_PANEL(panel16, 16, 12), FORWARD_PANEL(panel8, 8, 12),
#elif VECTOR == 8
    FORWARD_PANEL(panel16, 16, 6), FORWARD_PANEL(panel8, 8, 12),
#elif defined(__aarch64__)
    FORWARD_PANEL(panel16, 16, 5), FORWARD_PANEL(panel8, 8, 8),
#endif
    FORWARD_PANEL(panel4, 4, 12)};

static const struct weights_panel weights_panels[] = {
#if VECTOR == 16
    WEIGHTS_PANEL(panel32, 32), WEIGHTS_PANEL(panel16, 16),
#endif
#if VECTOR > 4 || defined(__aarch64__)
    WEIGHTS_PANEL(panel8, 8),
#endif
    WEIGHTS_PANEL(panel4, 4)};

enum { MAX_ROWS = 12, MAX_PANEL = 32 };

static const struct forward_panel *forward_panel(int channels_left)
{
    const struct forward_panel *panel = forward_panels;
    while (panel->width > channels_left)
        panel++;
    return panel;
}

static const struct weights_panel *weights_panel(int channels_left)
{
    const struct weights_panel *panel = weights_panels;
    while (panel->width > channels_left)
        panel++;
    return panel;
}

/* ---- geometry --------------------------------------------------------------------------------------------------- */

static bool uses_winograd(int height, int width, int cin, int cout, int kernel)
{
    return kernel == 3 && winograd_fits(height, width, cin, cout);
}

static int conv_block(int height, int width)
{
    int pixels = height * width;
    return pixels >= CONV_BLOCK ? 1 : (CONV_BLOCK + pixels - 1) / pixels;
}

size_t conv_table_bytes(int height, int width)
{
    return 3 * sizeof(int32_t) * (size_t)conv_block(height, width) * (size_t)(height * width);
}

void conv_init(struct conv *conv, int height, int width, int cin, int cout, int kernel, void *table)
{
    int halo = kernel / 2, pitch = width + 2 * halo, pixels = height * width, block = conv_block(height, width);
    *conv = (struct conv){.height = height,
                          .width = width,
                          .cin = cin,
                          .cout = cout,
                          .kernel = kernel,
                          .cin_p = padded(cin),
                          .cout_p = padded(cout),
                          .taps = kernel * kernel,
                          .winograd = uses_winograd(height, width, cin, cout, kernel),
                          .block = block};
    size_t framed = (size_t)(height + 2 * halo) * (size_t)pitch;
    conv->in_image = framed * (size_t)conv->cin_p;
    conv->grad_image = framed * (size_t)conv->cout_p;
    conv->out_image = (size_t)pixels * (size_t)conv->cout_p;
    conv->window_in = table;
    conv->window_grad = conv->window_in + block * pixels;
    conv->centre_grad = conv->window_grad + block * pixels;
    for (int t = 0; t < conv->taps; t++) {
        ptrdiff_t pixel = (ptrdiff_t)(t / kernel) * pitch + t % kernel;
        conv->tap_in[t] = pixel * conv->cin_p;
        conv->tap_grad[t] = pixel * conv->cout_p;
    }
    for (int p = 0; p < block * pixels; p++) {
        int image = p / pixels, row = p % pixels / width, column = p % width;
        int window = image * (int)framed + row * pitch + column, centre = window + halo * pitch + halo;
        conv->window_in[p] = window * conv->cin_p;
        conv->window_grad[p] = window * conv->cout_p;
        conv->centre_grad[p] = centre * conv->cout_p;
    }
}

/* ---- weights ---------------------------------------------------------------------------------------------------- */

size_t conv_packed_reals(int height, int width, int cin, int cout, int kernel)
{
    int points = uses_winograd(height, width, cin, cout, kernel) ? WINOGRAD_POINTS : kernel * kernel;
    return (size_t)points * (size_t)padded(cin) * (size_t)padded(cout);
}

size_t conv_packed_size(const struct conv *conv)
{
    return conv_packed_reals(conv->height, conv->width, conv->cin, conv->cout, conv->kernel);
}

size_t conv_sums_size(const struct conv *conv)
{
    return (size_t)conv->taps * (size_t)conv->cin_p * (size_t)conv->cout_p;
}

/* Input channels that the forward kernels loop over: exact below four, else padding included, with zero weights. */
static int summed(int channels)
{
    return channels < LANES ? channels : padded(channels);
}

void conv_pack_forward(const struct conv *conv, const real *weight, real *packed)
{
    if (conv->winograd) {
        winograd_pack(conv->cin, conv->cout, (struct winograd_weights){weight, conv->taps * conv->cin, 1, conv->cin},
                      packed);
        return;
    }
    int channels = summed(conv->cin);
    for (int n = 0; n < conv->cout_p; n += forward_panel(conv->cout_p - n)->width) {
        int width = forward_panel(conv->cout_p - n)->width;
        for (int t = 0; t < conv->taps; t++)
            for (int c = 0; c < channels; c++)
                for (int j = 0; j < width; j++)
                    *packed++ = n + j < conv->cout && c < conv->cin ? weight[((n + j) * conv->taps + t) * conv->cin + c]
                                                                    : 0;
    }
}

/* As a convolution from cout to cin channels: taps in reverse order, input and output swapped. */
void conv_pack_backward(const struct conv *conv, const real *weight, real *packed)
{
    if (conv->winograd) {
        const real *last_tap = weight + (size_t)(conv->taps - 1) * conv->cin;
        winograd_pack(conv->cout, conv->cin, (struct winograd_weights){last_tap, 1, conv->taps * conv->cin, -conv->cin},
                      packed);
        return;
    }
    int channels = summed(conv->cout);
    for (int n = 0; n < conv->cin_p; n += forward_panel(conv->cin_p - n)->width) {
        int width = forward_panel(conv->cin_p - n)->width;
        for (int t = conv->taps - 1; t >= 0; t--)
            for (int c = 0; c < channels; c++)
                for (int j = 0; j < width; j++)
                    *packed++ = n + j < conv->cin && c < conv->cout ? weight[(c * conv->taps + t) * conv->cin + n + j]
                                                                    : 0;
    }
}

void conv_unpack_weights(const struct conv *conv, const real *sums, real *grad_weight)
{
    for (int n = 0; n < conv->cout_p;) {
        int width = weights_panel(conv->cout_p - n)->width;
        for (int j = 0; j < width && n + j < conv->cout; j++)
            for (int t = 0; t < conv->taps; t++)
                for (int c = 0; c < conv->cin; c++)
                    *grad_weight++ = sums[((size_t)t * conv->cin_p + c) * width + j];
        sums += (size_t)conv->taps * conv->cin_p * width;
        n += width;
    }
}

/* ---- forward and backward-data ---------------------------------------------------------------------------------- */

/*
 * How a kernel walks its windows. A row of a window is contiguous in memory: the general kernel reads it as
 * kernel * cin channels, the narrow ones as `kernel` pixels of one vector each.
 */
struct windows {
    const int32_t *offset; /* [pixel] */
    ptrdiff_t row[3];
    int rows, along; /* along: channels or pixels of a row, as above */
    int kind;        /* index into the panel's tiles */
    int point;       /* channels of a 1x1 kernel that reads at most one vector per pixel, else 0 */
    bool quads;      /* 3x3 from four channels, and four neighbours never lie in two rows */
    size_t weights;  /* per output channel */
};

static struct windows windows_of(const int32_t *offset, const ptrdiff_t *tap, int kernel, int channels, int width)
{
    bool narrow = channels < LANES;
    struct windows win = {.offset = offset,
                          .rows = kernel,
                          .along = narrow ? kernel : kernel * padded(channels),
                          .kind = narrow ? channels : 0,
                          .point = kernel == 1 && channels <= LANES ? channels : 0,
                          .quads = VECTOR == 16 && kernel == 3 && channels == LANES && width % LANES == 0,
                          .weights = (size_t)(kernel * kernel) * summed(channels)};
    for (int r = 0; r < kernel; r++)
        win.row[r] = tap[r * kernel];
    return win;
}

static void run_tiles(const struct forward_panel *panel, const struct windows *win, int first, int last, const real *in,
                      const real *weight, real *out, int out_stride)
{
    forward_tile *tile = panel->tile[win->kind];
    const real *row[MAX_ROWS];
    int p = first;
    for (; p + panel->rows <= last; p += panel->rows) {
        for (int i = 0; i < panel->rows; i++)
            row[i] = in + win->offset[p + i];
        tile(row, win->row, win->rows, win->along, weight, out + (ptrdiff_t)p * out_stride, out_stride);
    }
    if (p < last) { /* a short tile repeats its last pixel and discards the copies */
        real spare[MAX_ROWS * MAX_PANEL];
        for (int i = 0; i < panel->rows; i++)
            row[i] = in + win->offset[p + i < last ? p + i : last - 1];
        tile(row, win->row, win->rows, win->along, weight, spare, panel->width);
        for (int i = 0; p + i < last; i++)
            memcpy(out + (ptrdiff_t)(p + i) * out_stride, spare + i * panel->width, sizeof(real) * panel->width);
    }
}

/* Whole tiles of quads; returns the first pixel that is left. */
static int run_quads(const struct windows *win, int first, int last, const real *in, const real *weight, real *out)
{
#if VECTOR == 16
    const real *row[QUADS];
    for (; first + QUADS * QUAD <= last; first += QUADS * QUAD) {
        for (int q = 0; q < QUADS; q++)
            row[q] = in + win->offset[first + q * QUAD];
        tile_quads(row, win->row, weight, out + (ptrdiff_t)first * LANES);
    }
#else
    (void)win, (void)last, (void)in, (void)weight, (void)out;
#endif
    return first;
}

/* Pixels are processed in chunks small enough for their windows to stay in the L1 cache while the panels stream by. */
enum { FORWARD_CHUNK = 120 };

static void convolve(const struct windows *win, int pixels, const real *in, const real *packed, real *out, int out_p)
{
    const bool quads = win->quads && out_p == LANES;
    int chunk = win->point || quads ? pixels : FORWARD_CHUNK;
    for (int first = 0; first < pixels; first += chunk) {
        int last = first + chunk < pixels ? first + chunk : pixels;
        const real *weight = packed;
        for (int n = 0; n < out_p;) {
            const struct forward_panel *panel = forward_panel(out_p - n);
            if (win->point)
                panel->pointwise[win->point](last - first, in + win->offset[first], weight,
                                             out + (ptrdiff_t)first * out_p + n, out_p);
            else
                run_tiles(panel, win, quads ? run_quads(win, first, last, in, weight, out) : first, last, in, weight,
                          out + n, out_p);
            weight += win->weights * (size_t)panel->width;
            n += panel->width;
        }
    }
}

void conv_forward(const struct conv *conv, int images, const real *in, const real *packed, real *out)
{
    if (conv->winograd) {
        winograd_run(images, conv->height, conv->width, conv->cin, conv->cout, in, packed, out);
        return;
    }
    struct windows win = windows_of(conv->window_in, conv->tap_in, conv->kernel, conv->cin, conv->width);
    for (int n = 0; n < images; n += conv->block) {
        int count = images - n < conv->block ? images - n : conv->block;
        convolve(&win, count * conv->height * conv->width, in + n * conv->in_image, packed, out + n * conv->out_image,
                 conv->cout_p);
    }
}

void conv_backward_data(const struct conv *conv, int images, const real *grad, const real *packed, real *out)
{
    if (conv->winograd) {
        winograd_run(images, conv->height, conv->width, conv->cout, conv->cin, grad, packed, out);
        return;
    }
    struct windows win = windows_of(conv->window_grad, conv->tap_grad, conv->kernel, conv->cout, conv->width);
    size_t pixels = (size_t)(conv->height * conv->width);
    for (int n = 0; n < images; n += conv->block) {
        int count = images - n < conv->block ? images - n : conv->block;
        convolve(&win, count * (int)pixels, grad + n * conv->grad_image, packed, out + n * pixels * conv->cin_p,
                 conv->cin_p);
    }
}

/* ---- backward-weights ------------------------------------------------------------------------------------------- */

/* `groups` groups of four channels, starting at channel c of tap t, along channels or along the taps of a row. */
static void run_weights(const struct conv *conv, const struct weights_panel *panel, const struct runs *runs,
                        weights_tile *tile, int groups, int t, int c, bool along_taps, real *panel_sums)
{
    ptrdiff_t group[3];
    real *sums[3];
    for (int g = 0; g < groups; g++) {
        int tap = along_taps ? t + g : t, channel = along_taps ? c : c + LANES * g;
        group[g] = conv->tap_in[tap] + channel;
        sums[g] = panel_sums + ((ptrdiff_t)tap * conv->cin_p + channel) * panel->width;
    }
    tile(runs, group, sums);
}

static void sum_panel(const struct conv *conv, const struct weights_panel *panel, const struct runs *runs, real *sums)
{
    int wide = conv->cin / 8 * 8;
    for (int t = 0; t < conv->taps; t++)
        for (int c = 0; c < wide; c += 8)
            run_weights(conv, panel, runs, panel->eight, 2, t, c, false, sums);
    for (int c = wide; c < conv->cin; c += LANES) {
        int used = conv->cin - c < LANES ? conv->cin - c : LANES;
        weights_tile *tile = conv->kernel == 3 ? panel->three[used] : panel->one[used];
        for (int t = 0; t < conv->taps; t += conv->kernel)
            run_weights(conv, panel, runs, tile, conv->kernel, t, c, true, sums);
    }
}

/* All panels over one set of runs. */
static void weights_runs(const struct conv *conv, struct runs runs, real *sums)
{
    for (int c = 0; c < conv->cout_p;) {
        const struct weights_panel *panel = weights_panel(conv->cout_p - c);
        sum_panel(conv, panel, &runs, sums);
        sums += (ptrdiff_t)conv->taps * conv->cin_p * panel->width;
        runs.grad += panel->width;
        c += panel->width;
    }
}

/* Reals of input and gradient that one chunk of rows may span: most of a 64 KiB L1 cache. */
enum { WEIGHTS_CHUNK = 12288 };

static void weights_by_rows(const struct conv *conv, int pixels, const real *in, const real *grad, real *sums)
{
    int rows = WEIGHTS_CHUNK / ((conv->cin_p + conv->cout_p) * conv->width);
    int chunk = conv->width * (rows > 0 ? rows : 1);
    for (int first = 0; first < pixels; first += chunk) {
        struct runs runs = {.in = in,
                            .grad = grad,
                            .window = conv->window_in + first,
                            .centre = conv->centre_grad + first,
                            .pixels = pixels - first < chunk ? pixels - first : chunk,
                            .in_stride = conv->cin_p,
                            .grad_stride = conv->cout_p};
        runs.length = conv->kernel == 1 ? runs.pixels : conv->width;
        weights_runs(conv, runs, sums);
    }
}

/*
 * Rows of up to eight pixels are too short for runs. For these, the gradient's pixels are gathered first, then the
 * input's for each tap and eight channels, which costs one copy per cout_p multiply-adds.
 */
enum { LINED_UP = 128, LINED_REALS = 8192, WIDE_ROW = 9 }; /* at most so many pixels, and reals to fill half a cache */

static void line_up(const real *from, const int32_t *offset, int pixels, int channels, real *to)
{
    for (int p = 0; p < pixels; p++)
        memcpy(to + (ptrdiff_t)p * channels, from + offset[p], sizeof(real) * channels);
}

static void weights_lined_up(const struct conv *conv, int pixels, const real *in, const real *grad, real *sums)
{
    static const int32_t start[1] = {0};
    const ptrdiff_t group[] = {0, LANES};
    real lined_in[LINED_UP * 8], lined_grad[LINED_REALS];
    int chunk = LINED_REALS / conv->cout_p < LINED_UP ? LINED_REALS / conv->cout_p : LINED_UP;
    for (int first = 0; first < pixels; first += chunk) {
        int count = pixels - first < chunk ? pixels - first : chunk;
        line_up(grad, conv->centre_grad + first, count, conv->cout_p, lined_grad);
        for (int k = 0; k < conv->taps * conv->cin; k += 8) {
            int tap = k / conv->cin, channel = k % conv->cin;
            struct runs runs = {lined_in, lined_grad, start, start, count, count, 8, conv->cout_p};
            real *panel_sums = sums;
            line_up(in + conv->tap_in[tap] + channel, conv->window_in + first, count, 8, lined_in);
            for (int c = 0; c < conv->cout_p;) {
                const struct weights_panel *panel = weights_panel(conv->cout_p - c);
                real *at = panel_sums + ((ptrdiff_t)tap * conv->cin_p + channel) * panel->width;
                real *const groups[] = {at, at + LANES * panel->width};
                panel->eight(&runs, group, groups);
                panel_sums += (ptrdiff_t)conv->taps * conv->cin_p * panel->width;
                runs.grad += panel->width;
                c += panel->width;
            }
        }
    }
}

void conv_backward_weights(const struct conv *conv, int images, const real *in, const real *grad, real *sums)
{
    int pixels = conv->height * conv->width;
    bool line_them_up = conv->kernel == 3 && conv->width < WIDE_ROW && conv->cin % 8 == 0;
    for (int n = 0; n < images; n += conv->block) {
        int count = (images - n < conv->block ? images - n : conv->block) * pixels;
        if (line_them_up)
            weights_lined_up(conv, count, in + n * conv->in_image, grad + n * conv->grad_image, sums);
        else
            weights_by_rows(conv, count, in + n * conv->in_image, grad + n * conv->grad_image, sums);
    }
}

/* ---- frames ----------------------------------------------------------------------------------------------------- */

size_t framed_size(int height, int width, int channels_p)
{
    return (size_t)(height + 2) * (size_t)(width + 2) * (size_t)channels_p;
}

void frame_images(int images, int height, int width, int channels_p, const real *dense, real *framed)
{
    size_t row = (size_t)width * channels_p, pitch = row + 2 * (size_t)channels_p;
    for (int n = 0; n < images; n++) {
        memset(framed, 0, sizeof(real) * (pitch + channels_p));
        framed += pitch + channels_p;
        for (int h = 0; h < height; h++) {
            memcpy(framed, dense, sizeof(real) * row);
            memset(framed + row, 0, sizeof(real) * 2 * channels_p); /* right edge, and the next row's left one */
            framed += pitch;
            dense += row;
        }
        memset(framed, 0, sizeof(real) * (pitch - channels_p));
        framed += pitch - channels_p;
    }
}
