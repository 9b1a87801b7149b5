/* Files of golden vectors, and those of blend_ops, the operators. */
#include <string.h>

#include "base/json.h"
#include "check/numeric.h"
#include "check/numeric_hosts.h"
#include "check/numeric_modules.h"
#include "check/numeric_policy.h"
#include "check/numeric_source.h"
#include "check/numeric_text.h"
#include "cnn/cpu/work.h"

/* ---- blend_ops -------------------------------------------------------------------------------------------------- */

#define BLEND_VALUES ((struct tolerance){2e-6, 1e-6})
#define BLEND_GATE   ((struct tolerance){1e-5, 1e-6})

enum blend_op { OP_STE, OP_ADD, OP_MUL, OP_GATED };

struct blend_case {
    const char *name;
    enum blend_op op;
    size_t images, count; /* count: values of one image */
    const struct st_tensor *h, *s, *g, *y, *dh, *ds, *dx, *dq;
    const float *alpha, *q;
    real *in_h, *in_s, *in_g, *out_y, *out_dh, *out_ds, *out_dx, *out_dq;
};

static bool blend_read(const struct source *source, const char *name, const char *op, struct blend_case *c)
{
    static const char *const ops[] = {"STE", "ADD", "MUL", "GATE"};
    int found = -1;
    for (int i = 0; i < 4; i++)
        if (strcmp(op, ops[i]) == 0)
            found = i;
    if (found < 0) {
        source_fail(source, name, "names an operator that does not exist");
        return false;
    }
    c->name = name;
    c->op = (enum blend_op)found;
    c->h = source_images(source, name_of("%s.h", name).text);
    if (!c->h)
        return false;
    const size_t *shape = c->h->shape;
    c->images = shape[0];
    c->count = c->h->count / c->images;
    const struct {
        const char *field;
        const struct st_tensor **tensor;
        bool wanted;
    } fields[] = {{"s", &c->s, true},   {"g", &c->g, true},   {"y", &c->y, true},
                  {"dh", &c->dh, true}, {"ds", &c->ds, true}, {"dx", &c->dx, c->op == OP_MUL}};
    bool complete = true;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (!fields[i].wanted)
            continue;
        *fields[i].tensor = source_tensor(source, name_of("%s.%s", name, fields[i].field).text, ST_F32, 4, shape);
        complete &= *fields[i].tensor != NULL;
    }
    if (c->op != OP_STE) {
        c->alpha = source_floats(source, name_of("%s.alpha", name).text, 1, shape);
        complete &= c->alpha != NULL;
    }
    if (c->op == OP_GATED) {
        c->q = source_floats(source, name_of("%s.q", name).text, 1, shape);
        c->dq = source_tensor(source, name_of("%s.dq", name).text, ST_F32, 1, shape);
        complete &= c->q && c->dq;
    }
    return complete;
}

/* The amplitude at which image n's seed is mixed in (I-21: clamped at every product). */
static real blend_amplitude(const struct blend_case *c, size_t n)
{
    real a = clamp01((real)c->alpha[n]);
    return c->op == OP_GATED ? clamp01(a * clamp01((real)c->q[n])) : a;
}

static void blend_run(struct blend_case *c)
{
    for (size_t n = 0; n < c->images; n++) {
        size_t at = n * c->count;
        const real *h = c->in_h + at, *s = c->in_s + at, *g = c->in_g + at;
        real a = blend_amplitude(c, n), *y = c->out_y + at, *dh = c->out_dh + at, *ds = c->out_ds + at;
        if (c->op == OP_MUL) {
            blend_multiply_forward(c->count, h, s, a, y);
            blend_multiply_backward(c->count, h, s, g, a, dh, ds);
            memset(c->out_dx + at, 0, sizeof(real) * c->count);
            subtract_from(c->count, ds, c->out_dx + at);
        } else {
            blend_add_forward(c->count, h, s, a, y);
            blend_add_backward(c->count, g, a, dh, ds);
        }
        if (c->op == OP_GATED)
            c->out_dq[n] = clamp01((real)c->alpha[n]) * blend_amplitude_grad(c->count, h, s, g);
    }
}

/* I-20: amplitude 0 is h bit for bit. I-21: ADD at amplitude 1 is s bit for bit. */
static bool blend_is_exact(const struct blend_case *c)
{
    bool exact = true;
    for (size_t n = 0; n < c->images; n++) {
        size_t at = n * c->count;
        real a = blend_amplitude(c, n);
        if (a == 0)
            exact &= same_bits(c->out_y + at, c->in_h + at, c->count);
        else if (a == 1 && c->op != OP_MUL)
            exact &= same_bits(c->out_y + at, c->in_s + at, c->count);
    }
    return exact;
}

static void blend_compare(const struct source *source, const struct blend_case *c)
{
    source_compare(source, name_of("%s.y", c->name).text, c->out_y, c->y, BLEND_VALUES);
    source_compare(source, name_of("%s.dh", c->name).text, c->out_dh, c->dh, BLEND_VALUES);
    source_compare(source, name_of("%s.ds", c->name).text, c->out_ds, c->ds, BLEND_VALUES);
    if (c->op == OP_MUL)
        source_compare(source, name_of("%s.dx", c->name).text, c->out_dx, c->dx, BLEND_VALUES);
    if (c->op == OP_GATED)
        source_compare(source, name_of("%s.dq", c->name).text, c->out_dq, c->dq, BLEND_GATE);
    source_flag(source, name_of("%s.exact", c->name).text, blend_is_exact(c),
                "amplitude 0 must give h, amplitude 1 of ADD s, bit for bit");
}

static void blend_check(const struct source *source, const char *name, const char *op)
{
    struct blend_case c = {0};
    struct scrap scrap = {0};
    if (!blend_read(source, name, op, &c))
        return;
    if (c.op == OP_STE) { /* no arithmetic at all: h goes on, g goes to both. host_slots checks that networks do so */
        bool passed = memcmp(c.y->data, c.h->data, c.h->bytes) == 0 && memcmp(c.dh->data, c.g->data, c.g->bytes) == 0 &&
                      memcmp(c.ds->data, c.g->data, c.g->bytes) == 0;
        source_flag(source, name_of("%s.exact", name).text, passed, "straight-through must hand on h and g unchanged");
        return;
    }
    real **arrays[] = {&c.in_h, &c.in_s, &c.in_g, &c.out_y, &c.out_dh, &c.out_ds, &c.out_dx};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        *arrays[i] = scrap_reals(&scrap, c.h->count);
    c.out_dq = scrap_reals(&scrap, c.images);
    if (scrap_ready(&scrap, source->report, name)) {
        for (size_t i = 0; i < c.h->count; i++) {
            c.in_h[i] = (real)((const float *)c.h->data)[i];
            c.in_s[i] = (real)((const float *)c.s->data)[i];
            c.in_g[i] = (real)((const float *)c.g->data)[i];
        }
        blend_run(&c);
        blend_compare(source, &c);
    }
    scrap_free(&scrap);
}

static void check_blends(const struct source *source)
{
    cJSON *cases = source_meta(source, "cases");
    const cJSON *item;
    cJSON_ArrayForEach(item, cases)
    {
        const char *name, *op;
        struct esper_error error;
        if (json_get_string(item, "case", &name, &error) != ESPER_OK ||
            json_get_string(item, "op", &op, &error) != ESPER_OK)
            source_fail(source, "__metadata__.cases", error.text);
        else
            blend_check(source, name, op);
    }
    cJSON_Delete(cases);
}

/* ---- dispatch --------------------------------------------------------------------------------------------------- */

bool check_numeric_vectors(const struct st_file *file, const char *kind, struct check_report *report)
{
    static const struct {
        const char *kind;
        void (*check)(const struct source *source);
    } kinds[] = {{"blueprints_cnn", check_blueprints},
                 {"blend_ops", check_blends},
                 {"host_cnn", check_host_cnn},
                 {"host_slots", check_host_slots},
                 {"blueprints_transformer", check_blueprints_transformer},
                 {"host_transformer", check_host_transformer},
                 {"policy_net", check_policy_net}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kind, kinds[i].kind) == 0) {
            struct source source = {.file = file, .report = report, .kind = kinds[i].kind};
            kinds[i].check(&source);
            return true;
        }
    }
    return false;
}
