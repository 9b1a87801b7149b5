/* The blend operators, and what they promise to the bit. */
#include <math.h>
#include <string.h>

#include "check/numeric_cases.h"
#include "check/numeric_rig.h"
#include "check/numeric_solo.h"

enum { COUNT = 211 }; /* not a multiple of any vector's length */

struct blend_values {
    real h[COUNT], s[COUNT], g[COUNT], y[COUNT], dh[COUNT], ds[COUNT];
};

static void blend_fill(struct blend_values *v)
{
    fill_random(v->h, COUNT, 90, 2);
    fill_random(v->s, COUNT, 91, 2);
    fill_random(v->g, COUNT, 92, 1);
}

/* tanh through the operator that uses it: h = 1, a = 1 gives 1 + tanh(s - 1). */
void case_tanh(struct check_report *report, const char *name)
{
    enum { POINTS = 4001 };
    real h[POINTS], s[POINTS], y[POINTS];
    struct worst worst = {0};
    for (int i = 0; i < POINTS; i++) {
        h[i] = 1;
        s[i] = (real)((i - POINTS / 2) * 0x1p-7); /* from -15.6 to 15.6 */
    }
    s[0] = -1000;
    s[1] = 1000;
    s[2] = (real)INFINITY;
    s[3] = 1 + (real)0x1p-20;
    blend_multiply_forward(POINTS, h, s, 1, y);
    for (int i = 0; i < POINTS; i++)
        worst_add(&worst, (double)y[i], 1 + tanh((double)(s[i] - h[i])));
    case_error(report, worst.error, 6 * ROUNDING, "%s from -16 to 16 and beyond", name);
    real nan_s = (real)NAN;
    blend_multiply_forward(1, h, &nan_s, 1, y);
    case_flag(report, y[0] != y[0], "a NAN was swallowed", "%s of NAN", name);
}

/* Every operator, forward and backward, from its formula. */
void case_blend(struct check_report *report, const char *name)
{
    static const double amplitudes[] = {0, 0.125, 0.3, 0.4999, 0.5, 0.75, 0.9, 1};
    struct blend_values v;
    blend_fill(&v);
    for (size_t k = 0; k < sizeof amplitudes / sizeof amplitudes[0]; k++) {
        real amplitude = (real)amplitudes[k];
        double a = (double)amplitude, total = 0;
        struct worst add = {0}, multiply = {0};
        blend_add_forward(COUNT, v.h, v.s, amplitude, v.y);
        blend_add_backward(COUNT, v.g, amplitude, v.dh, v.ds);
        for (int i = 0; i < COUNT; i++) {
            double h = (double)v.h[i], s = (double)v.s[i], g = (double)v.g[i];
            worst_add(&add, (double)v.y[i], h + a * (s - h));
            worst_add(&add, (double)v.dh[i], (1 - a) * g);
            worst_add(&add, (double)v.ds[i], a * g);
            total += g * (s - h);
        }
        case_error(report, add.error, 16 * ROUNDING, "%s ADD at %g", name, amplitudes[k]);
        case_error(report, fabs((double)blend_amplitude_grad(COUNT, v.h, v.s, v.g) - total), 256 * ROUNDING,
                   "%s amplitude gradient at %g", name, amplitudes[k]);
        blend_multiply_forward(COUNT, v.h, v.s, amplitude, v.y);
        blend_multiply_backward(COUNT, v.h, v.s, v.g, amplitude, v.dh, v.ds);
        for (int i = 0; i < COUNT; i++) {
            double h = (double)v.h[i], g = (double)v.g[i], t = tanh((double)(v.s[i] - v.h[i]));
            worst_add(&multiply, (double)v.y[i], h * (1 + a * t));
            worst_add(&multiply, (double)v.dh[i], g * (1 + a * t));
            worst_add(&multiply, (double)v.ds[i], g * h * a * (1 - t * t));
        }
        case_error(report, multiply.error, 32 * ROUNDING, "%s MULTIPLY at %g", name, amplitudes[k]);
    }
}

/* I-20: amplitude 0 is h to the bit, whatever s holds. I-21: amplitude 1 of ADD is s to the bit; a is clamped. */
void case_blend_add(struct check_report *report, const char *name)
{
    struct blend_values v;
    blend_fill(&v);
    blend_add_forward(COUNT, v.h, v.s, 1, v.y);
    case_flag(report, same_bits(v.y, v.s, COUNT), "differs from the seed", "%s at 1 (I-21)", name);
    case_flag(report, clamp01(-2) == 0 && clamp01((real)1.5) == 1 && clamp01((real)0.25) == (real)0.25,
              "amplitudes outside 0..1 must be clamped", "%s clamp (I-21)", name);
    blend_add_backward(COUNT, v.g, (real)0.5, v.dh, v.ds);
    bool half = true;
    for (int i = 0; i < COUNT; i++) /* I-25: with the seed cut off, half the gradient goes on, exactly */
        half &= v.dh[i] == v.g[i] / 2 && v.ds[i] == v.g[i] / 2;
    case_flag(report, half, "not half the gradient", "%s gradient at a half (I-25)", name);

    for (int i = 0; i < COUNT; i++)
        v.s[i] = i % 2 ? (real)NAN : (real)INFINITY;
    blend_add_forward(COUNT, v.h, v.s, 0, v.y);
    bool same = same_bits(v.y, v.h, COUNT);
    blend_multiply_forward(COUNT, v.h, v.s, 0, v.y);
    case_flag(report, same && same_bits(v.y, v.h, COUNT), "differs from the host", "%s at 0 with a NAN seed (I-20)",
              name);
    blend_multiply_backward(COUNT, v.h, v.s, v.g, 0, v.dh, v.ds);
    case_flag(report, same_bits(v.dh, v.g, COUNT), "a NAN seed reached the host's gradient", "%s gradient at 0", name);
}

/* I-22: identity where s = x, affine and monotone in a, multiplier within 1 - a .. 1 + a. I-25 for MULTIPLY. */
void case_blend_multiply(struct check_report *report, const char *name)
{
    struct blend_values v;
    real low[COUNT], high[COUNT];
    blend_fill(&v);
    blend_multiply_forward(COUNT, v.h, v.h, (real)0.7, v.y);
    case_flag(report, same_bits(v.y, v.h, COUNT), "changes what it should keep", "%s identity (I-22)", name);

    blend_multiply_forward(COUNT, v.h, v.s, (real)0.25, low);
    blend_multiply_forward(COUNT, v.h, v.s, (real)0.5, v.y);
    blend_multiply_forward(COUNT, v.h, v.s, (real)0.75, high);
    struct worst affine = {0};
    bool bounded = true, monotone = true;
    for (int i = 0; i < COUNT; i++) {
        double h = (double)v.h[i], m = (double)high[i] / h;
        worst_add(&affine, ((double)low[i] + (double)high[i]) / 2, (double)v.y[i]);
        bounded &= m >= 0.25 - 4 * ROUNDING && m <= 1.75 + 4 * ROUNDING;
        if (h > 0 && v.s[i] > v.h[i])
            monotone &= low[i] <= v.y[i] && v.y[i] <= high[i];
    }
    case_error(report, affine.error, 16 * ROUNDING, "%s affine in alpha (I-22)", name);
    case_flag(report, bounded, "multiplier out of 1 - a .. 1 + a", "%s bounded (I-22)", name);
    case_flag(report, monotone, "falls with alpha", "%s monotone (I-22)", name);

    struct worst direct = {0};
    for (int i = 0; i < COUNT; i++) {
        v.s[i] = v.h[i] + 10;
        v.g[i] = 1;
    }
    blend_multiply_backward(COUNT, v.h, v.s, v.g, (real)0.7, v.dh, v.ds);
    for (int i = 0; i < COUNT; i++)
        worst_add(&direct, (double)v.dh[i], 1 + 0.7 * tanh(10));
    case_error(report, direct.error, 1e-6, "%s direct gradient (I-25)", name);
}

/* I-23: the output lies between h and s, q in (0, 1), effective alpha a * q; I-25 for GATE. */
void case_blend_gate(struct check_report *report, const char *name)
{
    enum { C = 6, SIDE = 3, IMAGES = 5 };
    struct scrap scrap = {0};
    struct solo solo;
    struct param_layout layout;
    gate_layout(C, &layout);
    solo_init(&solo, &scrap, C, SIDE, SIDE, IMAGES);
    size_t pixels = (size_t)IMAGES * SIDE * SIDE, count = pixels * padded(C);
    real *w = scrap_reals(&scrap, layout.storage), *h = scrap_reals(&scrap, count), *y = scrap_reals(&scrap, count);
    real *g = scrap_reals(&scrap, count), *dh = scrap_reals(&scrap, count), *ds = scrap_reals(&scrap, count);
    if (!scrap_ready(&scrap, report, name))
        goto cleanup;
    const struct slot_exec exec = {.algorithm = ALGORITHM_GATE, .gate = true};
    bool open = true, between = true, effective = true, share = true;
    fill_random(w, layout.storage, 100, 1);
    fill_random(y, pixels * C, 101, 1);
    pad_pixels(pixels, C, y, h);
    fill_random(solo.site.out, count, 102, 1);
    for (size_t i = 0; i < count; i++)
        g[i] = 1;
    gate_forward(&solo.site, w, 0, IMAGES, h);
    net_blend(&solo.site, &exec, (real)0.8, 0, IMAGES, h, y);
    for (int n = 0; n < IMAGES; n++) {
        real q = *gate_value(&solo.site, n), e = net_amplitude(&solo.site, &exec, (real)0.8, n);
        size_t at = n * solo.site.map;
        open &= q > 0 && q < 1;
        effective &= e == (real)0.8 * q;
        blend_add_backward(solo.site.map, g + at, e, dh + at, ds + at);
        for (size_t i = at; i < at + solo.site.map; i++) {
            real low = h[i] < solo.site.out[i] ? h[i] : solo.site.out[i];
            real high = h[i] < solo.site.out[i] ? solo.site.out[i] : h[i];
            between &= y[i] >= low - (real)(4 * ROUNDING) && y[i] <= high + (real)(4 * ROUNDING);
            share &= dh[i] == 1 - e;
        }
    }
    case_flag(report, open, "the gate is not within 0..1", "%s value (I-23)", name);
    case_flag(report, effective, "effective alpha is not alpha * q", "%s amplitude (I-23)", name);
    case_flag(report, between, "the output lies beyond host and seed", "%s output (I-23)", name);
    case_flag(report, share, "not 1 - alpha * q", "%s direct gradient (I-25)", name);
cleanup:
    scrap_free(&scrap);
}

/* ---- I-29 ------------------------------------------------------------------------------------------------------- */

/*
 * A noop seed blended by ADD leaves the forward pass as it is; cut off from the host (isolate) it passes on exactly
 * 1 - alpha of the gradient, so that everything before the slot gets half of it at a half and nothing at 1.
 */
void case_attenuation(struct check_report *report, const char *name)
{
    static const struct rig_host host = {
        .base = 4, .blocks = 3, .kernel = 3, .pools = 2, .height = 9, .width = 6, .images = 7};
    static const char *const slots[] = {"r1c1"};
    struct scrap scrap = {0};
    struct rig rig;
    rig_init(&rig, &scrap, &host, slots, 1);
    size_t storage = rig.shape.host.storage;
    real *plain = scrap_reals(&scrap, storage), *stats = scrap_reals(&scrap, rig.shape.stats);
    if (!scrap.failed)
        rig_randomise(&rig, 110, &scrap);
    if (!scrap_ready(&scrap, report, name))
        goto cleanup;
    struct net_result result;
    struct net_batch batch = rig_batch(&rig);
    memcpy(stats, rig.params.stats, sizeof(real) * rig.shape.stats);
    cnn_gradients(rig.net, &rig.params, &batch, &result);
    memcpy(plain, cnn_grads(rig.net).host, sizeof(real) * storage);

    size_t split = rig.shape.host.tensor[rig.cnn.block[2].weight].offset; /* what comes after the slot */
    for (int half = 0; half < 2; half++) {
        rig_wake(&rig, 0, SLOT_BLEND, BLUEPRINT_NOOP, ALGORITHM_ADD, half ? 0.5f : 1.0f);
        rig.exec[0].isolate = true;
        memcpy(rig.params.stats, stats, sizeof(real) * rig.shape.stats);
        cnn_gradients(rig.net, &rig.params, &batch, &result);
        const real *g = cnn_grads(rig.net).host;
        bool scaled = true;
        for (size_t i = 0; i < split; i++)
            scaled &= g[i] == (half ? plain[i] / 2 : 0);
        case_flag(report, scaled && same_bits(g + split, plain + split, storage - split),
                  "gradients before the slot are not (1 - alpha) times the host's", "%s at %s (I-29)", name,
                  half ? "a half" : "1");
    }
cleanup:
    scrap_free(&scrap);
}
