#include "check/learn_source.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"

struct learn_name learn_name(const char *format, ...)
{
    struct learn_name name;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name.text, sizeof name.text, format, arguments);
    va_end(arguments);
    return name;
}

static struct learn_name label_of(const struct learn_source *source, const char *name)
{
    return learn_name("%s.%s%s%s%s", source->kind, name, source->variant ? " (" : "",
                      source->variant ? source->variant : "", source->variant ? ")" : "");
}

void learn_fail(struct learn_source *source, const char *name, const char *why)
{
    source->complete = false;
    report_flag(source->report, label_of(source, name).text, false, why);
}

static const void *tensor_data(struct learn_source *source, const char *name, enum st_dtype dtype, size_t count)
{
    const struct st_tensor *tensor = st_find(source->file, name);
    if (tensor && tensor->dtype == dtype && tensor->count > 0 && (count == 0 || tensor->count == count))
        return tensor->data;
    learn_fail(
        source, name,
        learn_name("%s %s of %zu elements", tensor ? "should be" : "missing:", st_dtype_name(dtype), count).text);
    return NULL;
}

const float *learn_floats(struct learn_source *source, const char *name, size_t count)
{
    return tensor_data(source, name, ST_F32, count);
}

const int32_t *learn_integers(struct learn_source *source, const char *name, size_t count)
{
    return tensor_data(source, name, ST_I32, count);
}

const uint8_t *learn_bytes(struct learn_source *source, const char *name, size_t count)
{
    return tensor_data(source, name, ST_U8, count);
}

size_t learn_count(const struct learn_source *source, const char *name)
{
    const struct st_tensor *tensor = st_find(source->file, name);
    return tensor ? tensor->count : 0;
}

void *learn_memory(struct learn_source *source, size_t count, size_t size)
{
    struct esper_error error;
    void *memory = memory_alloc(count, size, &error);
    if (!memory)
        learn_fail(source, "memory", error.text);
    return memory;
}

cJSON *learn_meta(struct learn_source *source, const char *key)
{
    const char *text = st_meta(source->file, key);
    struct esper_error error;
    if (!text) {
        learn_fail(source, key, "missing in the metadata");
        return NULL;
    }
    const size_t length = strlen(text);
    char *copy = learn_memory(source, length + 1, 1);
    cJSON *json = NULL;
    if (!copy)
        return NULL;
    /* Margins of what has no kink are written as Infinity, which JSON does not have. Nothing here reads them. */
    memcpy(copy, text, length + 1);
    for (char *at = copy; (at = strstr(at, "Infinity")); at += 8)
        for (int i = 0; i < 8; i++)
            at[i] = "       0"[i];
    if (json_parse(copy, length, &json, &error) != ESPER_OK)
        learn_fail(source, key, error.text);
    memory_free(copy);
    return json;
}

struct worst {
    double error, largest;
};

static void worst_add(struct worst *worst, double got, double want)
{
    double error = fabs(got - want);
    if (error > worst->error || isnan(error)) /* a NAN, once seen, stays: no later error is greater */
        worst->error = error;
    worst->largest = fmax(worst->largest, fabs(want));
}

static void worst_report(const struct learn_source *source, const char *name, struct worst worst, double rtol,
                         double atol)
{
    const struct learn_name label = label_of(source, name);
    if (report_wants(source->report, label.text))
        report_error(source->report, label.text, worst.error, rtol * worst.largest + atol);
}

void learn_compare(const struct learn_source *source, const char *name, const double *got, const float *want,
                   size_t count, double rtol, double atol)
{
    struct worst worst = {0, 0};
    for (size_t i = 0; i < count; i++)
        worst_add(&worst, got[i], (double)want[i]);
    worst_report(source, name, worst, rtol, atol);
}

void learn_compare_floats(const struct learn_source *source, const char *name, const float *got, const float *want,
                          size_t count, double rtol, double atol)
{
    struct worst worst = {0, 0};
    for (size_t i = 0; i < count; i++)
        worst_add(&worst, (double)got[i], (double)want[i]);
    worst_report(source, name, worst, rtol, atol);
}
