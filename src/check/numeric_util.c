#include "check/numeric_util.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"

/* ---- memory ----------------------------------------------------------------------------------------------------- */

struct scrap_block {
    struct scrap_block *next;
    _Alignas(MEMORY_ALIGN) char data[];
};

void *scrap_take(struct scrap *scrap, size_t count, size_t size)
{
    struct scrap_block *block = NULL;
    if (size == 0 || count <= (SIZE_MAX - sizeof *block) / size)
        block = memory_alloc(1, sizeof *block + count * size, NULL);
    if (!block) {
        scrap->failed = true;
        return NULL;
    }
    block->next = scrap->blocks;
    scrap->blocks = block;
    return block->data;
}

real *scrap_reals(struct scrap *scrap, size_t count)
{
    return scrap_take(scrap, count, sizeof(real));
}

double *scrap_doubles(struct scrap *scrap, size_t count)
{
    return scrap_take(scrap, count, sizeof(double));
}

bool scrap_ready(const struct scrap *scrap, struct check_report *report, const char *name)
{
    if (scrap->failed)
        report_flag(report, name, false, "not enough memory");
    return !scrap->failed;
}

void scrap_free(struct scrap *scrap)
{
    while (scrap->blocks) {
        struct scrap_block *next = scrap->blocks->next;
        memory_free(scrap->blocks);
        scrap->blocks = next;
    }
    scrap->failed = false;
}

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

uint32_t random_word_of(uint32_t key, uint32_t element)
{
    return random_word(random_at(key, STREAM_SYNTHETIC, 0, 0, 0), element);
}

void fill_random(real *x, size_t count, uint32_t key, double bound)
{
    struct random_site site = random_at(key, STREAM_SYNTHETIC, 0, 0, 0);
    for (size_t i = 0; i < count; i++)
        x[i] = (real)random_symmetric(random_word(site, (uint32_t)i), bound);
}

void pad_pixels(size_t pixels, int c, const real *dense, real *stored)
{
    int cp = padded(c);
    for (size_t p = 0; p < pixels; p++)
        for (int k = 0; k < cp; k++)
            stored[p * cp + k] = k < c ? dense[p * c + k] : 0;
}

void pad_floats(size_t pixels, int c, const float *dense, real *stored)
{
    int cp = padded(c);
    for (size_t p = 0; p < pixels; p++)
        for (int k = 0; k < cp; k++)
            stored[p * cp + k] = k < c ? (real)dense[p * c + k] : 0;
}

void unpad_pixels(size_t pixels, int c, const real *stored, real *dense)
{
    int cp = padded(c);
    for (size_t p = 0; p < pixels; p++)
        memcpy(dense + p * c, stored + p * cp, sizeof(real) * (size_t)c);
}

bool padding_is_zero(size_t pixels, int c, const real *stored)
{
    int cp = padded(c);
    for (size_t p = 0; p < pixels; p++)
        for (int k = c; k < cp; k++)
            if (stored[p * cp + k] != 0)
                return false;
    return true;
}

/* ---- errors ----------------------------------------------------------------------------------------------------- */

void worst_add(struct worst *worst, double got, double want)
{
    double error = fabs(got - want);
    if (error > worst->error || error != error) /* nothing compares greater than a NAN: it stays */
        worst->error = error;
    if (fabs(want) > worst->largest)
        worst->largest = fabs(want);
}

struct worst worst_of(const real *got, const double *want, size_t count)
{
    struct worst worst = {0};
    for (size_t i = 0; i < count; i++)
        worst_add(&worst, (double)got[i], want[i]);
    return worst;
}

void answer_reals(struct answers *answers, enum answer_kind kind, double floor, size_t count, const real *values,
                  const char *name)
{
    double *to = answers_add(answers, kind, floor, count, "%s", name);
    for (size_t i = 0; to && i < count; i++)
        to[i] = (double)values[i];
}

bool same_bits(const real *a, const real *b, size_t count)
{
    return memcmp(a, b, sizeof(real) * count) == 0;
}

void case_error(struct check_report *report, double error, double limit, const char *format, ...)
{
    char name[160];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    report_error(report, name, error, limit);
}

void case_flag(struct check_report *report, bool passed, const char *note, const char *format, ...)
{
    char name[160];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    report_flag(report, name, passed, passed ? NULL : note);
}
