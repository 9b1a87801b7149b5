/* Channel operations, pools, norms, loss and optimiser against plain loops in double. */
#include <math.h>
#include <string.h>

#include "check/numeric_cases.h"
#include "nn/channels.h"
#include "nn/flat.h"
#include "nn/norm.h"

static const int widths[] = {1, 3, 4, 7, 8, 12, 16, 20, 28, 33, 64, 130}; /* channels: every mix of blocks */
enum { WIDTHS = sizeof widths / sizeof widths[0] };

/* ---- channel operations ----------------------------------------------------------------------------------------- */

struct channels_case {
    int pixels, c, cp;
    size_t count;
    real *x, *g, *residual, *out;      /* [pixels][cp] */
    real *coef[6];                     /* scale, shift, centre, gain, slope, offset; [cp] */
    double *sum, *square, *sum2, *mix; /* [cp] */
};

static bool passes_relu(const struct channels_case *k, size_t i, bool relu)
{
    int c = (int)(i % (size_t)k->cp);
    return !relu || (double)k->x[i] * (double)k->coef[0][c] + (double)k->coef[1][c] > 0;
}

static double affine_error(const struct channels_case *k, bool relu, bool residual)
{
    struct worst worst = {0};
    channel_affine(k->pixels, k->cp, k->x, k->coef[0], k->coef[1], relu, residual ? k->residual : NULL, k->out);
    for (size_t i = 0; i < k->count; i++) {
        size_t c = i % (size_t)k->cp;
        double want = passes_relu(k, i, relu) ? (double)k->x[i] * (double)k->coef[0][c] + (double)k->coef[1][c] : 0;
        worst_add(&worst, (double)k->out[i], want + (residual ? (double)k->residual[i] : 0));
    }
    return worst.error;
}

/* As two images of two rows where the pixels allow it, written into frames. */
static double grad_error(const struct channels_case *k, bool relu)
{
    int images = k->pixels % 4 ? 1 : 2, height = k->pixels % 4 ? 1 : 2, width = k->pixels / (images * height);
    struct placing out = placed_framed(k->out, height, width, k->cp);
    struct worst worst = {0};
    size_t i = 0;
    channel_grad(images, height, width, k->cp, k->x, k->g, k->coef[0], k->coef[1], relu, k->coef[3], k->coef[4],
                 k->coef[5], out);
    for (int n = 0; n < images; n++)
        for (int h = 0; h < height; h++)
            for (int at = 0; at < width * k->cp; at++, i++) {
                size_t c = i % (size_t)k->cp;
                double v = passes_relu(k, i, relu) ? (double)k->g[i] : 0;
                double want = (double)k->coef[3][c] * v + (double)k->coef[4][c] * (double)k->x[i] +
                              (double)k->coef[5][c];
                worst_add(&worst, (double)out.at[n * out.image_pitch + h * out.row_pitch + (size_t)at], want);
            }
    return worst.error;
}

static double sums_error(const struct channels_case *k, bool relu)
{
    double worst = 0;
    size_t bytes = sizeof(double) * (size_t)k->cp;
    double *const all[] = {k->sum, k->square, k->sum2, k->mix};
    for (int i = 0; i < 4; i++)
        memset(all[i], 0, bytes);
    channel_sums(k->pixels, k->cp, k->x, k->coef[2], k->sum, k->square);
    channel_grad_sums(k->pixels, k->cp, k->x, k->g, k->coef[0], k->coef[1], relu, k->coef[2], k->sum2, k->mix);
    for (int c = 0; c < k->cp; c++) {
        double want[4] = {0}, size = 1e-300;
        for (int p = 0; p < k->pixels; p++) {
            size_t i = (size_t)p * k->cp + c;
            double d = (double)k->x[i] - (double)k->coef[2][c], v = passes_relu(k, i, relu) ? (double)k->g[i] : 0;
            const double terms[4] = {d, d * d, v, v * d};
            for (int t = 0; t < 4; t++)
                want[t] += terms[t];
            size += fabs(d) + d * d + fabs(v) + fabs(v * d);
        }
        for (int t = 0; t < 4; t++) {
            double error = fabs(all[t][c] - want[t]) / size;
            if (error > worst || error != error)
                worst = error;
        }
    }
    return worst;
}

static void channels_check(struct check_report *report, const char *name, int pixels, int c)
{
    struct scrap scrap = {0};
    struct channels_case k = {.pixels = pixels, .c = c, .cp = padded(c)};
    k.count = (size_t)pixels * k.cp;
    real **maps[] = {&k.x, &k.g, &k.residual};
    double **sums[] = {&k.sum, &k.square, &k.sum2, &k.mix};
    for (int i = 0; i < 3; i++)
        *maps[i] = scrap_reals(&scrap, k.count);
    k.out = scrap_reals(&scrap, 3 * k.count + 24 * (size_t)k.cp); /* room for frames */
    for (int i = 0; i < 6; i++)
        k.coef[i] = scrap_reals(&scrap, (size_t)k.cp);
    for (int i = 0; i < 4; i++)
        *sums[i] = scrap_doubles(&scrap, (size_t)k.cp);
    if (scrap_ready(&scrap, report, name)) {
        for (int i = 0; i < 3; i++) { /* real channels only: the padding is zero */
            fill_random(k.out, (size_t)pixels * c, 20 + (uint32_t)i, 1);
            pad_pixels((size_t)pixels, c, k.out, *maps[i]);
        }
        for (int i = 0; i < 6; i++)
            fill_random(k.coef[i], (size_t)c, 30 + (uint32_t)i, 1);
        double affine = fmax(fmax(affine_error(&k, false, false), affine_error(&k, true, false)),
                             fmax(affine_error(&k, false, true), affine_error(&k, true, true)));
        case_error(report, affine, 8 * ROUNDING, "%s affine, %d pixels, %d channels", name, pixels, c);
        case_error(report, fmax(grad_error(&k, false), grad_error(&k, true)), 8 * ROUNDING,
                   "%s grad, %d pixels, %d channels", name, pixels, c);
        case_error(report, fmax(sums_error(&k, false), sums_error(&k, true)), 64 * ROUNDING,
                   "%s sums, %d pixels, %d channels", name, pixels, c);
    }
    scrap_free(&scrap);
}

void case_channels(struct check_report *report, const char *name)
{
    static const int pixels[] = {1, 3, 64, 1030};
    for (int i = 0; i < 4; i++)
        for (int w = 0; w < WIDTHS; w++)
            channels_check(report, name, pixels[i], widths[w]);
}

/* ---- pools ------------------------------------------------------------------------------------------------------ */

/*
 * Values are small multiples of a half, so that all arithmetic is exact and ties abound. The first maximum in row-major
 * order wins. `affine` pools relu(x * scale + shift), keeps the winning x, and its backward pass includes the norm's.
 */
struct pool_case {
    int images, height, width, c, cp;
    bool affine;
    real *x, *g, *winners, *spare, *coef[5]; /* scale, shift, gain, slope, offset */
    struct placing out, grad;                /* framed when affine, dense when not */
};

static real *pixel_at(struct placing p, int n, int h, int w, int cp)
{
    return p.at + n * p.image_pitch + h * p.row_pitch + (size_t)(w * cp);
}

static double pool_value(const struct pool_case *k, size_t at)
{
    size_t c = at % (size_t)k->cp;
    return k->affine ? (double)(k->x[at] * k->coef[0][c] + k->coef[1][c]) : (double)k->x[at];
}

/* What a pixel gets when no gradient reaches it: zero, or what the norm's statistics contribute. */
static double pool_rest(const struct pool_case *k, size_t at)
{
    size_t c = at % (size_t)k->cp;
    return k->affine ? (double)(k->x[at] * k->coef[3][c] + k->coef[4][c]) : 0;
}

/* Window (h, w) of image n, channel c. */
static bool pool_window_agrees(const struct pool_case *k, int n, int h, int w, int c)
{
    size_t pitch = (size_t)k->width * k->cp, best = 0, at[4];
    size_t pooled = (((size_t)n * (k->height / 2) + h) * (k->width / 2) + w) * k->cp + c;
    at[0] = (((size_t)n * k->height + 2 * h) * k->width + 2 * w) * k->cp + c;
    at[1] = at[0] + k->cp;
    at[2] = at[0] + pitch;
    at[3] = at[2] + k->cp;
    for (size_t i = 1; i < 4; i++)
        if (pool_value(k, at[i]) > pool_value(k, at[best]))
            best = i;
    double value = pool_value(k, at[best]), v = (double)k->g[pooled];
    bool same = !k->affine || k->winners[pooled] == k->x[at[best]];
    if (k->affine) {
        v = value > 0 ? v * (double)k->coef[2][c] : 0;
        value = value > 0 ? value : 0;
    }
    same &= (double)pixel_at(k->out, n, h, w, k->cp)[c] == value;
    for (int i = 0; i < 4; i++) {
        double got = (double)pixel_at(k->grad, n, 2 * h + i / 2, 2 * w + i % 2, k->cp)[c];
        same &= got == pool_rest(k, at[i]) + ((size_t)i == best ? v : 0);
    }
    return same;
}

static bool pool_agrees(const struct pool_case *k)
{
    bool same = true;
    if (k->affine) {
        pool_affine_forward(k->images, k->height, k->width, k->cp, k->x, k->coef[0], k->coef[1], k->winners, k->out);
        pool_affine_grad(k->images, k->height, k->width, k->cp, k->x, k->winners, k->g, k->coef[0], k->coef[1],
                         k->coef[2], k->coef[3], k->coef[4], k->grad);
    } else {
        pool_forward(k->images, k->height, k->width, k->cp, k->x, k->out.at);
        pool_backward(k->images, k->height, k->width, k->cp, k->x, k->g, k->grad.at);
    }
    for (int n = 0; n < k->images; n++)
        for (int h = 0; h < k->height; h++)
            for (int w = 0; w < k->width; w++)
                for (int c = 0; c < k->cp; c++) {
                    size_t at = (((size_t)n * k->height + h) * k->width + w) * k->cp + c;
                    if (h / 2 < k->height / 2 && w / 2 < k->width / 2)
                        same &= h % 2 || w % 2 || pool_window_agrees(k, n, h / 2, w / 2, c);
                    else /* an odd edge, which no window covers */
                        same &= (double)pixel_at(k->grad, n, h, w, k->cp)[c] == pool_rest(k, at);
                }
    return same;
}

static void fill_halves(real *x, size_t count, uint32_t key, int levels)
{
    for (size_t i = 0; i < count; i++)
        x[i] = (real)0.5 * (real)((int)(random_word_of(key, (uint32_t)i) % (uint32_t)(2 * levels + 1)) - levels);
}

static void pool_check(struct check_report *report, const char *name, const int shape[4], bool affine)
{
    struct scrap scrap = {0};
    struct pool_case k = {.images = shape[0], .height = shape[1], .width = shape[2], .c = shape[3], .affine = affine};
    k.cp = padded(k.c);
    size_t pixels = (size_t)k.images * k.height * k.width, pooled = (size_t)k.images * (k.height / 2) * (k.width / 2);
    size_t framed = (size_t)k.images * (k.height + 2) * (k.width + 2) * k.cp;
    real **maps[] = {&k.x, &k.g, &k.winners, &k.spare}, *out = scrap_reals(&scrap, framed),
         *grad = scrap_reals(&scrap, framed);
    for (int i = 0; i < 4; i++)
        *maps[i] = scrap_reals(&scrap, pixels * k.cp);
    for (int i = 0; i < 5; i++)
        k.coef[i] = scrap_reals(&scrap, (size_t)k.cp);
    if (scrap_ready(&scrap, report, name)) {
        fill_halves(k.spare, pixels * k.c, 40, 3);
        pad_pixels(pixels, k.c, k.spare, k.x);
        fill_halves(k.spare, pooled * k.c, 41, 8);
        pad_pixels(pooled, k.c, k.spare, k.g);
        for (int i = 0; i < 5; i++)
            fill_halves(k.coef[i], (size_t)k.c, 42 + (uint32_t)i, 2);
        for (size_t i = 0; i < framed; i++)
            grad[i] = 99; /* whatever is there must be overwritten, odd edges as well */
        k.out = affine ? placed_framed(out, k.height / 2, k.width / 2, k.cp)
                       : placed_dense(out, k.height / 2, k.width / 2, k.cp);
        k.grad = affine ? placed_framed(grad, k.height, k.width, k.cp) : placed_dense(grad, k.height, k.width, k.cp);
        case_flag(report, pool_agrees(&k), "a maximum, its place or a gradient differs",
                  "%s%s %d channels, %d of %dx%d", name, affine ? " of norm and ReLU," : "", k.c, k.images, k.height,
                  k.width);
    }
    scrap_free(&scrap);
}

void case_pool(struct check_report *report, const char *name)
{
    static const int shapes[][4] = {{1, 2, 2, 1},  {3, 4, 4, 8},   {2, 7, 5, 4},  {2, 5, 8, 20}, {3, 2, 3, 6},
                                    {2, 8, 9, 33}, {1, 6, 6, 130}, {2, 16, 2, 3}, {2, 3, 2, 16}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        pool_check(report, name, shapes[i], false);
        pool_check(report, name, shapes[i], true);
    }
}

void case_mean(struct check_report *report, const char *name)
{
    static const int pixels[] = {1, 4, 49, 1024};
    enum { IMAGES = 3 };
    for (int i = 0; i < 4; i++)
        for (int w = 0; w < WIDTHS; w += 3) {
            struct scrap scrap = {0};
            size_t cp = (size_t)padded(widths[w]), map = (size_t)pixels[i] * cp;
            real *x = scrap_reals(&scrap, IMAGES * map), *mean = scrap_reals(&scrap, IMAGES * cp);
            if (scrap_ready(&scrap, report, name)) {
                struct worst forward = {0}, backward = {0};
                fill_random(x, IMAGES * map, 50, 1);
                mean_forward(IMAGES, pixels[i], (int)cp, x, mean);
                for (size_t k = 0; k < IMAGES * cp; k++) {
                    double want = 0;
                    for (int p = 0; p < pixels[i]; p++)
                        want += (double)x[k / cp * map + (size_t)p * cp + k % cp];
                    worst_add(&forward, (double)mean[k], want / pixels[i]);
                }
                mean_backward(IMAGES, pixels[i], (int)cp, mean, true, x); /* written over, then added */
                mean_backward(IMAGES, pixels[i], (int)cp, mean, false, x);
                for (size_t k = 0; k < IMAGES * map; k++)
                    worst_add(&backward, (double)x[k], 2 * (double)mean[k / map * cp + k % cp] / pixels[i]);
                case_error(report, fmax(forward.error, backward.error), 32 * ROUNDING, "%s %d pixels, %d channels",
                           name, pixels[i], widths[w]);
            }
            scrap_free(&scrap);
        }
}

/* ---- norms ------------------------------------------------------------------------------------------------------ */

/* Statistics over sets of (image, channel) pairs; BatchNorm has one set per channel, GroupNorm one per image, group. */
struct norm_case {
    int images, pixels, c, cp, groups; /* groups 0: BatchNorm */
    bool relu;
    real *x, *g, *y, *dx; /* [images][pixels][cp] */
    real *gamma, *beta, *dgamma, *dbeta, *mean, *var, *old_mean, *old_var, *memory;
    double *want_y, *want_dx, *want_dgamma, *want_dbeta, *sum, *moment;
};

/* Forward and backward of one set, from its definition. first/last: images, from/to: channels. */
static void norm_reference(const struct norm_case *k, int first, int last, int from, int to)
{
    double count = (double)(last - first) * k->pixels * (to - from), mean = 0, var = 0, mean_v = 0, mean_vx = 0;
#define EACH_VALUE(i)                                                                                                  \
    for (int p = first * k->pixels; p < last * k->pixels; p++)                                                         \
        for (size_t i = (size_t)p * k->cp + from; i < (size_t)p * k->cp + to; i++)
    EACH_VALUE(i) mean += (double)k->x[i] / count;
    EACH_VALUE(i) var += ((double)k->x[i] - mean) * ((double)k->x[i] - mean) / count;
    double rstd = 1 / sqrt(var + NORM_EPS);
    EACH_VALUE(i)
    {
        size_t c = i % (size_t)k->cp;
        double xhat = ((double)k->x[i] - mean) * rstd, z = xhat * (double)k->gamma[c] + (double)k->beta[c];
        double v = !k->relu || z > 0 ? (double)k->g[i] : 0;
        k->want_y[i] = !k->relu || z > 0 ? z : 0;
        k->want_dgamma[c] += v * xhat;
        k->want_dbeta[c] += v;
        mean_v += v * (double)k->gamma[c] / count;
        mean_vx += v * (double)k->gamma[c] * xhat / count;
    }
    EACH_VALUE(i)
    {
        size_t c = i % (size_t)k->cp;
        double xhat = ((double)k->x[i] - mean) * rstd;
        double v = !k->relu || xhat * (double)k->gamma[c] + (double)k->beta[c] > 0 ? (double)k->g[i] : 0;
        k->want_dx[i] = rstd * (v * (double)k->gamma[c] - mean_v - xhat * mean_vx);
    }
    if (k->groups == 0) { /* I-03: the running variance is the unbiased one */
        double unbiased = count > 1 ? var * count / (count - 1) : var;
        k->sum[from] = 0.9 * (double)k->old_mean[from] + 0.1 * mean;
        k->moment[from] = 0.9 * (double)k->old_var[from] + 0.1 * unbiased;
    }
#undef EACH_VALUE
}

static void norm_run_batch(const struct norm_case *k, double *sum, double *moment)
{
    struct norm norm = norm_in(k->memory, k->cp);
    int pixels = k->images * k->pixels;
    channel_sums(pixels, k->cp, k->x, k->mean, sum, moment);
    batch_norm_forward(&norm, k->c, k->cp, pixels, sum, moment, k->gamma, k->beta, k->mean, k->var);
    channel_affine(pixels, k->cp, k->x, norm.scale, norm.shift, k->relu, NULL, k->y);
    memset(sum, 0, sizeof(double) * (size_t)k->cp);
    memset(moment, 0, sizeof(double) * (size_t)k->cp);
    channel_grad_sums(pixels, k->cp, k->x, k->g, norm.scale, norm.shift, k->relu, norm.centre, sum, moment);
    batch_norm_backward(&norm, k->c, k->cp, pixels, sum, moment, k->dgamma, k->dbeta);
    channel_grad(k->images, 1, k->pixels, k->cp, k->x, k->g, norm.scale, norm.shift, k->relu, norm.gain, norm.slope,
                 norm.offset, placed_dense(k->dx, 1, k->pixels, k->cp));
}

static void norm_run_group(const struct norm_case *k, double *dgamma, double *dbeta)
{
    struct norm norm = norm_in(k->memory, k->cp);
    for (int n = 0; n < k->images; n++) {
        size_t at = (size_t)n * k->pixels * k->cp;
        group_norm_forward(&norm, k->pixels, k->c, k->cp, k->x + at, k->gamma, k->beta);
        channel_affine(k->pixels, k->cp, k->x + at, norm.scale, norm.shift, k->relu, NULL, k->y + at);
        group_norm_backward(&norm, k->pixels, k->c, k->cp, k->x + at, k->g + at, k->relu, k->gamma, dgamma, dbeta);
        channel_grad(1, 1, k->pixels, k->cp, k->x + at, k->g + at, norm.scale, norm.shift, k->relu, norm.gain,
                     norm.slope, norm.offset, placed_dense(k->dx + at, 1, k->pixels, k->cp));
    }
    for (int c = 0; c < k->c; c++) {
        k->dgamma[c] = (real)dgamma[c];
        k->dbeta[c] = (real)dbeta[c];
    }
}

/* The error relative to the largest value. */
static double scaled(const real *got, const double *want, size_t count)
{
    struct worst worst = worst_of(got, want, count);
    return worst.error / (worst.largest + 1e-3);
}

static void norm_fill(const struct norm_case *k)
{
    size_t pixels = (size_t)k->images * k->pixels;
    fill_random(k->y, pixels * k->c, 60, 2);
    for (size_t i = 0; i < pixels * k->c; i++)
        k->y[i] += (real)0.5; /* a mean that is not zero */
    pad_pixels(pixels, k->c, k->y, k->x);
    fill_random(k->y, pixels * k->c, 61, 1);
    pad_pixels(pixels, k->c, k->y, k->g);
    fill_random(k->gamma, (size_t)k->c, 62, 1);
    fill_random(k->beta, (size_t)k->c, 63, 1);
    for (int c = 0; c < k->c; c++) {
        k->old_mean[c] = k->mean[c] = k->beta[c] * (real)0.5;
        k->old_var[c] = k->var[c] = (real)0.75;
    }
}

static void norm_check(struct check_report *report, const char *name, int images, int pixels, int c, bool group,
                       bool relu)
{
    struct scrap scrap = {0};
    struct norm_case k = {.images = images,
                          .pixels = pixels,
                          .c = c,
                          .cp = padded(c),
                          .groups = group ? group_count(c) : 0,
                          .relu = relu};
    size_t count = (size_t)images * pixels * k.cp;
    real **maps[] = {&k.x, &k.g, &k.y, &k.dx};
    real **rows[] = {&k.gamma, &k.beta, &k.dgamma, &k.dbeta, &k.mean, &k.var, &k.old_mean, &k.old_var};
    double **sums[] = {&k.want_dgamma, &k.want_dbeta, &k.sum, &k.moment};
    for (int i = 0; i < 4; i++)
        *maps[i] = scrap_reals(&scrap, count);
    for (int i = 0; i < 8; i++)
        *rows[i] = scrap_reals(&scrap, (size_t)k.cp);
    for (int i = 0; i < 4; i++)
        *sums[i] = scrap_doubles(&scrap, (size_t)k.cp);
    k.memory = scrap_reals(&scrap, NORM_ARRAYS * (size_t)k.cp);
    k.want_y = scrap_doubles(&scrap, count);
    k.want_dx = scrap_doubles(&scrap, count);
    double *a = scrap_doubles(&scrap, (size_t)k.cp), *b = scrap_doubles(&scrap, (size_t)k.cp);
    if (!scrap_ready(&scrap, report, name))
        goto cleanup;
    norm_fill(&k);
    if (group) {
        norm_run_group(&k, a, b);
        for (int n = 0; n < images; n++)
            for (int i = 0; i < c; i += c / k.groups)
                norm_reference(&k, n, n + 1, i, i + c / k.groups);
    } else {
        norm_run_batch(&k, a, b);
        for (int i = 0; i < c; i++)
            norm_reference(&k, 0, images, i, i + 1);
    }
    double error = fmax(scaled(k.y, k.want_y, count), scaled(k.dx, k.want_dx, count));
    error = fmax(error, fmax(scaled(k.dgamma, k.want_dgamma, (size_t)c), scaled(k.dbeta, k.want_dbeta, (size_t)c)));
    if (!group)
        error = fmax(error, fmax(scaled(k.mean, k.sum, (size_t)c), scaled(k.var, k.moment, (size_t)c)));
    case_error(report, error, 256 * ROUNDING, "%s%s %d channels, %d of %d pixels", name, relu ? " and ReLU," : "", c,
               images, pixels);
cleanup:
    scrap_free(&scrap);
}

void case_batch_norm(struct check_report *report, const char *name)
{
    for (int w = 0; w < WIDTHS; w++) {
        norm_check(report, name, 3, 20, widths[w], false, true);
        norm_check(report, name, 2, 7, widths[w], false, false);
    }
    norm_check(report, name, 4, 1024, 8, false, true);
}

/* With I-10: the group counts of D-21. */
void case_group_norm(struct check_report *report, const char *name)
{
    static const int groups[][2] = {{1, 1},  {2, 2},   {4, 4},    {8, 8},    {16, 1}, {32, 2},
                                    {64, 4}, {128, 8}, {256, 16}, {512, 32}, {24, 1}, {12, 4}};
    bool same = true;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        same &= group_count(groups[i][0]) == groups[i][1];
    case_flag(report, same, "a group count differs", "%s groups (I-10)", name);
    for (int w = 0; w < WIDTHS; w++) {
        norm_check(report, name, 3, 20, widths[w], true, true);
        norm_check(report, name, 2, 9, widths[w], true, false);
    }
    norm_check(report, name, 2, 1024, 16, true, true);
    norm_check(report, name, 3, 1, 32, true, true);
    norm_check(report, name, 2, 1, 8, true, false); /* one value per group: its variance is zero */
}

/* ---- flat arrays, loss, optimiser ------------------------------------------------------------------------------- */

void case_relu(struct check_report *report, const char *name)
{
    const real x[] = {-2, (real)-0.5, -0.0f, 0, (real)1e-30, 1, 3}, g[] = {1, 2, 3, 4, 5, 6, 7};
    const real forward[] = {0, 0, 0, 0, (real)1e-30, 1, 3}, backward[] = {0, 0, 0, 0, 5, 6, 7};
    real y[7], d[7];
    bool same = true;
    relu_forward(7, x, y);
    relu_backward(7, x, g, d);
    for (int i = 0; i < 7; i++)
        same &= y[i] == forward[i] && d[i] == backward[i];
    case_flag(report, same, "its derivative at 0 is 0", "%s by hand", name);

    /* A NAN passes through every ReLU: divergence must show (D-34). */
    const real n = (real)NAN, nans[16] = {n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n}, one[4] = {1, 1, 1, 1};
    real flat[4], affine[16], pooled[4], winners[4];
    relu_forward(4, nans, flat);
    channel_affine(4, 4, nans, one, one, true, NULL, affine);
    pool_affine_forward(1, 2, 2, 4, nans, one, one, winners, placed_dense(pooled, 1, 1, 4));
    bool through = true;
    for (int i = 0; i < 4; i++)
        through &= isnan((double)flat[i]) && isnan((double)affine[i]) && isnan((double)pooled[i]);
    case_flag(report, through, "a NAN was swallowed", "%s of NAN", name);
}

void case_loss(struct check_report *report, const char *name)
{
    enum { ROWS = 37, CLASSES = 10, STRIDE = 12 };
    real logits[ROWS * STRIDE] = {0}, grads[ROWS * STRIDE];
    uint16_t labels[ROWS];
    struct loss_sums sums = {0};
    struct worst worst = {0};
    double loss = 0;
    uint32_t correct = 0;
    for (int r = 0; r < ROWS; r++) {
        fill_random(logits + r * STRIDE, CLASSES, 70 + (uint32_t)r, r == 5 ? 500 : 4);
        labels[r] = (uint16_t)(random_word_of(71, (uint32_t)r) % CLASSES);
    }
    logits[3] = logits[7] = 6; /* a tie: the first class is the answer */
    labels[0] = 7;
    cross_entropy(ROWS, CLASSES, STRIDE, logits, labels, grads, &sums);
    for (int r = 0; r < ROWS; r++) {
        const real *row = logits + r * STRIDE;
        int best = 0;
        double total = 0;
        for (int k = 1; k < CLASSES; k++)
            best = row[k] > row[best] ? k : best;
        for (int k = 0; k < CLASSES; k++)
            total += exp((double)row[k] - (double)row[best]);
        loss += log(total) - ((double)row[labels[r]] - (double)row[best]);
        correct += best == labels[r];
        for (int k = 0; k < STRIDE; k++) {
            double p = k < CLASSES ? exp((double)row[k] - (double)row[best]) / total - (k == labels[r]) : 0;
            worst_add(&worst, (double)grads[r * STRIDE + k], p / ROWS);
        }
    }
    case_error(report, fabs(sums.loss - loss), 1e-10, "%s sum", name);
    case_error(report, worst.error, 4 * ROUNDING, "%s gradient", name);
    case_flag(report, sums.correct == correct, "the count differs", "%s correct", name);
}

/* m' = momentum m + (factor g + decay w), w' = w - lr m'; and the norm by which a group is clipped. */
void case_sgd(struct check_report *report, const char *name)
{
    enum { COUNT = 53 };
    const struct optimiser sgd = optimiser_sgd((real)0.01, (real)0.9, (real)0.0005);
    real g[COUNT], w[COUNT], m[COUNT];
    double want_w[COUNT], want_m[COUNT], square = 0;
    fill_random(g, COUNT, 80, 1);
    fill_random(w, COUNT, 81, 1);
    fill_random(m, COUNT, 82, 1);
    for (int i = 0; i < COUNT; i++) {
        want_m[i] = (double)sgd.momentum * (double)m[i] + 0.25 * (double)g[i] + (double)sgd.weight_decay * (double)w[i];
        want_w[i] = (double)w[i] - (double)sgd.lr * want_m[i];
        square += (double)g[i] * (double)g[i];
    }
    case_error(report, fabs(square_norm(COUNT, g) - square) / square, 1e-14, "%s norm", name);
    optimiser_step(&sgd, COUNT, 1, (real)0.25, g, (struct optimiser_piece){w, m, NULL});
    case_error(report, fmax(worst_of(w, want_w, COUNT).error, worst_of(m, want_m, COUNT).error), 4 * ROUNDING,
               "%s step", name);
}

/*
 * Three steps from birth, by the definition in double: m and v are running means of the gradient and of its square,
 * corrected for their start at zero; the decay shrinks w by itself, and with the rate alone.
 */
void case_adamw(struct check_report *report, const char *name)
{
    enum { COUNT = 37, STEPS = 3 };
    const struct optimiser adamw = {OPTIMISER_ADAMW, (real)0.01, (real)0.9, (real)0.95, (real)1e-8, (real)0.1};
    const double lr = (double)adamw.lr, first = (double)adamw.momentum, second = (double)adamw.second;
    real g[COUNT], w[COUNT], m[COUNT] = {0}, v[COUNT] = {0};
    double want_w[COUNT], want_m[COUNT] = {0}, want_v[COUNT] = {0};
    fill_random(w, COUNT, 90, 1);
    for (int i = 0; i < COUNT; i++)
        want_w[i] = (double)w[i];
    for (int step = 1; step <= STEPS; step++) {
        fill_random(g, COUNT, 90 + (uint32_t)step, 1);
        optimiser_step(&adamw, COUNT, (uint32_t)step, (real)0.5, g, (struct optimiser_piece){w, m, v});
        for (int i = 0; i < COUNT; i++) {
            const double d = 0.5 * (double)g[i];
            want_m[i] = first * want_m[i] + (1 - first) * d;
            want_v[i] = second * want_v[i] + (1 - second) * d * d;
            const double mean = want_m[i] / (1 - pow(first, step)), square = want_v[i] / (1 - pow(second, step));
            want_w[i] -= lr * ((double)adamw.weight_decay * want_w[i] + mean / (sqrt(square) + (double)adamw.epsilon));
        }
    }
    case_error(report, worst_of(w, want_w, COUNT).error, 8 * ROUNDING, "%s step", name);
    case_error(report, fmax(worst_of(m, want_m, COUNT).error, worst_of(v, want_v, COUNT).error), 8 * ROUNDING,
               "%s moments", name);
}
