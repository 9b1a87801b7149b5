/* What the numeric checks share: memory, deterministic inputs, channel padding, errors. Compiled into every variant. */
#ifndef CHECK_NUMERIC_UTIL_H
#define CHECK_NUMERIC_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check/answers.h"
#include "nn/real.h"

/* The variant computes in double: only there do finite differences mean anything, and errors must be tiny. */
enum { WIDE = sizeof(real) == 8 };

/* ---- memory: taken piece by piece, released together ------------------------------------------------------------ */

struct scrap_block;
struct scrap {
    struct scrap_block *blocks;
    bool failed;
};

/* Zeroed; NULL, with `failed` set, when there is no memory. Take all you need, then call scrap_ready once. */
void *scrap_take(struct scrap *scrap, size_t count, size_t size);
real *scrap_reals(struct scrap *scrap, size_t count);
double *scrap_doubles(struct scrap *scrap, size_t count);
/* false, with a failure of that name in the report, when something could not be taken. */
bool scrap_ready(const struct scrap *scrap, struct check_report *report, const char *name);
void scrap_free(struct scrap *scrap);

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

/* Uniform in [-bound, bound), a function of key and position alone; exact in float, so variants see the same. */
void fill_random(real *x, size_t count, uint32_t key, double bound);
uint32_t random_word_of(uint32_t key, uint32_t element);

/* Pixels of c channels as stored (padding lanes zero), and back. */
void pad_pixels(size_t pixels, int c, const real *dense, real *stored);
void pad_floats(size_t pixels, int c, const float *dense, real *stored);
void unpad_pixels(size_t pixels, int c, const real *stored, real *dense);
/* Whether every padding lane is zero. */
bool padding_is_zero(size_t pixels, int c, const real *stored);

/* ---- errors ----------------------------------------------------------------------------------------------------- */

struct worst {
    double error, largest; /* worst |got - want|, which keeps a NAN once seen; largest |want| */
};
void worst_add(struct worst *worst, double got, double want);
struct worst worst_of(const real *got, const double *want, size_t count);
/* An array of a case's answers. */
void answer_reals(struct answers *answers, enum answer_kind kind, double floor, size_t count, const real *values,
                  const char *name);
bool same_bits(const real *a, const real *b, size_t count);

/* report_error and report_flag with a name formatted as by printf. */
void case_error(struct check_report *report, double error, double limit, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void case_flag(struct check_report *report, bool passed, const char *note, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
