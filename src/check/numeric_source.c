#include "check/numeric_source.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "nn/norm.h"

struct source_name name_of(const char *format, ...)
{
    struct source_name name;
    va_list args;
    va_start(args, format);
    vsnprintf(name.text, sizeof name.text, format, args);
    va_end(args);
    return name;
}

void source_flag(const struct source *source, const char *name, bool passed, const char *note)
{
    struct source_name label = name_of("%s.%s", source->kind, name);
    if (report_wants(source->report, label.text))
        report_flag(source->report, label.text, passed, note);
}

void source_fail(const struct source *source, const char *name, const char *why)
{
    source_flag(source, name, false, why);
}

void source_skip(const struct source *source, const char *name, const char *why)
{
    struct source_name full = name_of("%s.%s", source->kind, name);
    if (report_wants(source->report, full.text))
        report_skip(source->report, full.text, why);
}

bool source_leaves_out(const struct source *source, const char *name, const struct net_shape *shape, int images)
{
    if (!source->takes || source->takes(shape, images))
        return false;
    struct source_name label = name_of("%s.%s", source->kind, name);
    if (report_wants(source->report, label.text))
        report_lack(source->report, label.text);
    return true;
}

/* ---- tensors ---------------------------------------------------------------------------------------------------- */

static void shape_text(enum st_dtype dtype, int dims, const size_t shape[], char *text, size_t size)
{
    int used = snprintf(text, size, "%s", st_dtype_name(dtype));
    for (int i = 0; i < dims && used > 0 && (size_t)used < size; i++)
        used += snprintf(text + used, size - (size_t)used, "[%zu]", shape[i]);
}

const struct st_tensor *source_tensor(const struct source *source, const char *name, enum st_dtype dtype, int dims,
                                      const size_t shape[])
{
    const struct st_tensor *tensor = st_find(source->file, name);
    if (tensor && tensor->dtype == dtype && tensor->dims == dims &&
        memcmp(tensor->shape, shape, sizeof(size_t) * (size_t)dims) == 0)
        return tensor;
    char form[64], note[128];
    shape_text(dtype, dims, shape, form, sizeof form);
    snprintf(note, sizeof note, tensor ? "has the wrong shape or type, should be %s" : "missing, should be %s", form);
    source_fail(source, name, note);
    return NULL;
}

const float *source_floats(const struct source *source, const char *name, int dims, const size_t shape[])
{
    const struct st_tensor *tensor = source_tensor(source, name, ST_F32, dims, shape);
    return tensor ? tensor->data : NULL;
}

const int32_t *source_integers(const struct source *source, const char *name, size_t count)
{
    const struct st_tensor *tensor = source_tensor(source, name, ST_I32, 1, (const size_t[]){count});
    return tensor ? tensor->data : NULL;
}

const uint8_t *source_bytes(const struct source *source, const char *name, size_t count)
{
    const struct st_tensor *tensor = source_tensor(source, name, ST_U8, 1, (const size_t[]){count});
    return tensor ? tensor->data : NULL;
}

enum { MAX_IMAGES = 4096, MAX_SIDE = 512 }; /* anything larger is a damaged file, not a test case */

const struct st_tensor *source_images(const struct source *source, const char *name)
{
    const struct st_tensor *x = st_find(source->file, name);
    if (x && x->dtype == ST_F32 && x->dims == 4 && x->count > 0 && x->shape[0] <= MAX_IMAGES &&
        x->shape[1] <= MAX_SIDE && x->shape[2] <= MAX_SIDE && x->shape[3] <= NORM_MAX_CHANNELS)
        return x;
    source_fail(source, name, x ? "should be F32 [images][height][width][channels]" : "missing");
    return NULL;
}

bool source_has(const struct source *source, const char *prefix)
{
    for (int i = 0; i < st_count(source->file); i++)
        if (strncmp(st_at(source->file, i)->name, prefix, strlen(prefix)) == 0)
            return true;
    return false;
}

/* ---- metadata --------------------------------------------------------------------------------------------------- */

/* The files' authors wrote Infinity and NaN where a margin has no value; JSON has no such words. */
static void blank_non_numbers(char *text)
{
    bool quoted = false;
    for (char *p = text; *p; p++) {
        if (*p == '"')
            quoted = !quoted;
        else if (*p == '\\' && quoted && p[1])
            p++;
        if (quoted)
            continue;
        if (strncmp(p, "-Infinity", 9) == 0)
            memcpy(p, "     null", 9);
        else if (strncmp(p, "Infinity", 8) == 0)
            memcpy(p, "    null", 8);
        else if (strncmp(p, "NaN", 3) == 0)
            memcpy(p, "  0", 3);
    }
}

cJSON *source_meta(const struct source *source, const char *key)
{
    const char *text = st_meta(source->file, key);
    struct source_name name = name_of("__metadata__.%s", key);
    if (!text) {
        source_fail(source, name.text, "missing");
        return NULL;
    }
    char *copy = strdup(text);
    struct esper_error error = {ESPER_FAILED, "not enough memory"};
    cJSON *json = NULL;
    if (copy) {
        blank_non_numbers(copy);
        json_parse(copy, strlen(copy), &json, &error);
        free(copy);
    }
    if (!json)
        source_fail(source, name.text, error.text);
    return json;
}

bool source_number(const struct source *source, const cJSON *object, const char *where, const char *key, double *out)
{
    struct esper_error error;
    if (json_get_number(object, key, -1e30, 1e30, out, &error) == ESPER_OK)
        return true;
    source_fail(source, where, error.text);
    return false;
}

bool source_integer(const struct source *source, const cJSON *object, const char *where, const char *key, int min,
                    int max, int *out)
{
    struct esper_error error;
    int64_t value;
    if (json_get_integer(object, key, min, max, &value, &error) != ESPER_OK) {
        source_fail(source, where, error.text);
        return false;
    }
    *out = (int)value;
    return true;
}

/* ---- comparing -------------------------------------------------------------------------------------------------- */

static void compare_worst(const struct source *source, const char *name, struct worst worst, struct tolerance allowed)
{
    double rtol = WIDE ? 1e-7 : allowed.rtol, atol = WIDE ? 1e-4 * allowed.atol : allowed.atol;
    struct source_name label = name_of("%s.%s", source->kind, name);
    if (report_wants(source->report, label.text))
        report_error(source->report, label.text, worst.error, rtol * worst.largest + atol);
}

void source_compare(const struct source *source, const char *name, const real *got, const struct st_tensor *want,
                    struct tolerance allowed)
{
    struct worst worst = {0};
    const float *values = want->data;
    for (size_t i = 0; i < want->count; i++)
        worst_add(&worst, (double)got[i], (double)values[i]);
    compare_worst(source, name, worst, allowed);
}

void source_compare_value(const struct source *source, const char *name, double got, double want,
                          struct tolerance allowed)
{
    struct worst worst = {0};
    worst_add(&worst, got, want);
    compare_worst(source, name, worst, allowed);
}

/* ---- layouts ---------------------------------------------------------------------------------------------------- */

static const struct st_tensor *layout_tensor(const struct source *source, const char *name,
                                             const struct tensor_layout *t)
{
    size_t shape[4] = {(size_t)t->shape[0], (size_t)t->shape[1], (size_t)t->shape[2], (size_t)t->shape[3]};
    if (t->dims == 4) /* ours is [out][kh][kw][in] */
        return source_tensor(source, name, ST_F32, 4, (const size_t[]){shape[0], shape[3], shape[1], shape[2]});
    if (t->dims == 3) /* ours is [kh][kw][c] */
        return source_tensor(source, name, ST_F32, 4, (const size_t[]){shape[2], 1, shape[0], shape[1]});
    return source_tensor(source, name, ST_F32, t->dims, shape);
}

/* Where element i of the file's tensor is in ours. */
static size_t layout_index(const struct tensor_layout *t, size_t i)
{
    if (t->dims < 3)
        return i;
    size_t taps = (size_t)(t->dims == 4 ? t->shape[1] * t->shape[2] : t->shape[0] * t->shape[1]);
    size_t inner = (size_t)(t->dims == 4 ? t->shape[3] : t->shape[2]); /* channels, innermost in ours */
    size_t tap = i % taps, channel = i / taps % inner, out = i / taps / inner;
    return (out * taps + tap) * inner + channel;
}

bool source_load_layout(const struct source *source, const char *prefix, const struct param_layout *layout,
                        real *params)
{
    bool complete = true;
    for (int k = 0; k < layout->count; k++) {
        const struct tensor_layout *t = &layout->tensor[k];
        const struct st_tensor *tensor = layout_tensor(source, name_of("%s.%s", prefix, t->name).text, t);
        complete &= tensor != NULL;
        for (size_t i = 0; tensor && i < t->size; i++)
            params[t->offset + layout_index(t, i)] = (real)((const float *)tensor->data)[i];
    }
    return complete;
}

bool source_compare_layout(const struct source *source, const char *prefix, const struct param_layout *layout,
                           const real *params, struct tolerance allowed)
{
    bool complete = true;
    for (int k = 0; k < layout->count; k++) {
        const struct tensor_layout *t = &layout->tensor[k];
        struct source_name name = name_of("%s.%s", prefix, t->name);
        const struct st_tensor *tensor = layout_tensor(source, name.text, t);
        complete &= tensor != NULL;
        if (!tensor)
            continue;
        struct worst worst = {0};
        for (size_t i = 0; i < t->size; i++)
            worst_add(&worst, (double)params[t->offset + layout_index(t, i)], (double)((const float *)tensor->data)[i]);
        compare_worst(source, name.text, worst, allowed);
    }
    return complete;
}

void source_compare_direction(const struct source *source, const char *prefix, const struct param_layout *layout,
                              const real *params, double least)
{
    double product = 0, ours = 0, theirs = 0;
    for (int k = 0; k < layout->count; k++) {
        const struct tensor_layout *t = &layout->tensor[k];
        const struct st_tensor *tensor = layout_tensor(source, name_of("%s.%s", prefix, t->name).text, t);
        for (size_t i = 0; tensor && i < t->size; i++) {
            const double got = (double)params[t->offset + layout_index(t, i)],
                         want = (double)((const float *)tensor->data)[i];
            product += got * want;
            ours += got * got;
            theirs += want * want;
        }
    }
    if (theirs > 0)
        source_compare_value(source, name_of("%s.direction", prefix).text, product / sqrt(ours * theirs), 1,
                             (struct tolerance){0, 1 - least});
}

double source_layout_norm(const struct source *source, const char *prefix, const struct param_layout *layout)
{
    double square = 0;
    for (int k = 0; k < layout->count; k++) {
        const struct st_tensor *tensor = st_find(source->file, name_of("%s.%s", prefix, layout->tensor[k].name).text);
        for (size_t i = 0; tensor && tensor->dtype == ST_F32 && i < tensor->count; i++)
            square += (double)((const float *)tensor->data)[i] * (double)((const float *)tensor->data)[i];
    }
    return sqrt(square);
}
