/* A file of golden vectors as the learner's checks read it. What is missing, misshapen or too far off becomes a
 * failure. */
#ifndef CHECK_LEARN_SOURCE_H
#define CHECK_LEARN_SOURCE_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/safetensors.h"
#include "check/report.h"

struct update_kernels;

struct learn_source {
    const struct st_file *file;
    struct check_report *report;
    const char *kind;                     /* goes in front of names in the report */
    const char *variant;                  /* NULL: no kernels were used */
    const struct update_kernels *kernels; /* of checks that need some */
    bool complete;                        /* every tensor asked for so far was there and as long as asked */
};

/* A name formatted as by printf; it lives as long as the expression it is made in. */
struct learn_name {
    char text[120];
};
struct learn_name learn_name(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The tensor's numbers; `count` 0 takes any number of them. NULL with a failure in the report. */
const float *learn_floats(struct learn_source *source, const char *name, size_t count);
const int32_t *learn_integers(struct learn_source *source, const char *name, size_t count);
const uint8_t *learn_bytes(struct learn_source *source, const char *name, size_t count);
size_t learn_count(const struct learn_source *source, const char *name); /* elements, 0 when absent */

/* error <= rtol * max|want| + atol, worst over the tensor; NAN fails. */
void learn_compare(const struct learn_source *source, const char *name, const double *got, const float *want,
                   size_t count, double rtol, double atol);
void learn_compare_floats(const struct learn_source *source, const char *name, const float *got, const float *want,
                          size_t count, double rtol, double atol);
/* Structured metadata, to be released with cJSON_Delete; NULL with a failure in the report. */
cJSON *learn_meta(struct learn_source *source, const char *key);

/* Zeroed, to be released with memory_free; NULL with a failure in the report. */
void *learn_memory(struct learn_source *source, size_t count, size_t size);

void learn_fail(struct learn_source *source, const char *name, const char *why);

#endif
