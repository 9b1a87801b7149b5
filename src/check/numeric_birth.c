/* What holds for every blueprint at birth: shape kept, identity where promised, never dead. */
#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "check/numeric_cases.h"
#include "check/numeric_rig.h"
#include "check/numeric_solo.h"

struct newborn {
    struct solo solo;
    struct seed seed;
    int c, side;
    size_t count;
    real *w, *g, *x, *s, *u, *dx;
};

/* A seed as germination makes it, with one image in front of it. */
static bool newborn_init(struct newborn *b, struct scrap *scrap, int blueprint, int c, int side)
{
    struct param_layout layout;
    blueprint_layout(blueprint, c, &layout);
    *b = (struct newborn){.c = c, .side = side, .count = (size_t)side * side * padded(c)};
    real **maps[] = {&b->x, &b->s, &b->u, &b->dx}, *dense = scrap_reals(scrap, b->count);
    for (int i = 0; i < 4; i++)
        *maps[i] = scrap_reals(scrap, b->count);
    b->w = scrap_reals(scrap, layout.storage);
    b->g = scrap_reals(scrap, layout.storage);
    float *initial = scrap_take(scrap, layout.storage, sizeof(float));
    solo_init(&b->solo, scrap, c, side, side, 1);
    if (scrap->failed)
        return false;
    layout_init(&layout, 42, STREAM_SEED_INIT, 0, 0, 1u << 16, initial);
    for (size_t i = 0; i < layout.storage; i++)
        b->w[i] = (real)initial[i];
    b->seed = solo_seed(&b->solo, blueprint, b->w, b->g);
    fill_random(dense, (size_t)side * side * c, 230, 2);
    pad_pixels((size_t)side * side, c, dense, b->x);
    for (size_t i = 0; i < b->count; i++)
        b->s[i] = b->dx[i] = (real)NAN; /* all of it must be written */
    seed_begin(&b->seed);
    seed_forward(&b->seed, 0, 1, b->x, b->s);
    return true;
}

static bool all_finite(const real *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite((double)x[i]))
            return false;
    return true;
}

/* I-10: every blueprint keeps the shape of what it sees. */
void case_seed_shapes(struct check_report *report, const char *name)
{
    static const int channels[] = {1, 2, 4, 8, 16, 32, 64, 128}, sides[] = {1, 2, 4, 8, 16, 32};
    for (int blueprint = 0; blueprint < BLUEPRINT_COUNT; blueprint++)
        for (int i = 0; i < 8; i++) {
            bool kept = true;
            for (int k = 0; k < 6; k++) {
                struct scrap scrap = {0};
                struct newborn b;
                if (channels[i] * sides[k] > 256) /* no host is that large */
                    continue;
                if (!newborn_init(&b, &scrap, blueprint, channels[i], sides[k])) {
                    kept = false;
                } else {
                    size_t pixels = (size_t)sides[k] * sides[k];
                    memcpy(b.u, b.x, sizeof(real) * b.count);
                    seed_backward(&b.seed, 0, 1, b.x, b.u, b.dx);
                    kept &= all_finite(b.s, b.count) && all_finite(b.dx, b.count) &&
                            padding_is_zero(pixels, b.c, b.s) && padding_is_zero(pixels, b.c, b.dx);
                }
                scrap_free(&scrap);
            }
            case_flag(report, kept, "values are missing, not finite, or in the padding", "%s %s, %d channels (I-10)",
                      name, blueprint_name(blueprint), channels[i]);
        }
}

/* I-11: noop, norm and bottleneck start as the identity, attention at sigmoid(3) times its input. */
static void birth_identity(struct check_report *report, const char *name, int blueprint, const struct newborn *b)
{
    bool attention = blueprint == BLUEPRINT_ATTENTION;
    struct worst worst = {0};
    for (size_t i = 0; i < b->count; i++)
        worst_add(&worst, (double)b->s[i], (double)b->x[i] * (attention ? 1 / (1 + exp(-3)) : 1));
    case_error(report, worst.error, attention ? 4 * ROUNDING : 0, "%s %s as promised (I-11)", name,
               blueprint_name(blueprint));
}

/* I-17: with any operator some parameter gets a gradient in the first step. */
static void birth_liveness(struct check_report *report, const char *name, int blueprint, struct newborn *b)
{
    static const char *const operators[] = {"ADD", "MULTIPLY"}; /* GATE passes on the gradient of ADD, scaled by q */
    real *g = b->dx;
    for (int multiply = 0; multiply < 2; multiply++) {
        double square = 0;
        fill_random(g, b->count, 231, 1);
        if (multiply)
            blend_multiply_backward(b->count, b->x, b->s, g, (real)0.3, g, b->u);
        else
            blend_add_backward(b->count, g, (real)0.3, g, b->u);
        seed_begin(&b->seed);
        seed_backward(&b->seed, 0, 1, b->x, b->u, NULL);
        seed_end(&b->seed);
        for (int t = 0; t < b->seed.layout->count; t++)
            square += square_norm(b->seed.layout->tensor[t].size, seed_grad(&b->seed, t));
        case_flag(report, square > 0 && isfinite(square), "no parameter gets a gradient", "%s %s with %s lives (I-17)",
                  name, blueprint_name(blueprint), operators[multiply]);
    }
}

void case_seed_birth(struct check_report *report, const char *name)
{
    for (int blueprint = 0; blueprint < BLUEPRINT_COUNT; blueprint++) {
        struct scrap scrap = {0};
        struct newborn b;
        newborn_init(&b, &scrap, blueprint, 12, 5);
        if (scrap_ready(&scrap, report, name)) {
            if (blueprint == BLUEPRINT_NOOP || blueprint == BLUEPRINT_NORM || blueprint == BLUEPRINT_BOTTLENECK ||
                blueprint == BLUEPRINT_ATTENTION)
                birth_identity(report, name, blueprint, &b);
            if (blueprint != BLUEPRINT_NOOP)
                birth_liveness(report, name, blueprint, &b);
        }
        scrap_free(&scrap);
    }
}
