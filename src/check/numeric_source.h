/*
 * A file of golden vectors as the numeric checks read it: tensors by name and shape, parameters into our layouts,
 * results compared. What is missing, misshapen or too far off becomes a failure in the report.
 */
#ifndef CHECK_NUMERIC_SOURCE_H
#define CHECK_NUMERIC_SOURCE_H

#include <cjson/cJSON.h>

#include "base/safetensors.h"
#include "check/numeric_util.h"
#include "cnn/blueprint.h"
#include "cnn/shape.h"

struct source {
    const struct st_file *file;
    struct check_report *report;
    const char *kind; /* of the file; goes in front of names in the report */
    /* Products in bf16: values are judged by the precision that this leaves, gradients by their direction alone. */
    bool rough;
    bool (*takes)(const struct net_shape *shape, int images); /* networks to check; NULL: all of them */
    bool device; /* not the CPU: acting and unrolling run different kernels, and code outside kernels is not checked */
};

/* A name formatted as by printf; it lives as long as the expression it is made in. */
struct source_name {
    char text[160];
};
struct source_name name_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A tensor of this shape, or NULL with a failure in the report. */
const struct st_tensor *source_tensor(const struct source *source, const char *name, enum st_dtype dtype, int dims,
                                      const size_t shape[]);
const float *source_floats(const struct source *source, const char *name, int dims, const size_t shape[]);
const int32_t *source_integers(const struct source *source, const char *name, size_t count);
const uint8_t *source_bytes(const struct source *source, const char *name, size_t count);
/* A block of images [n][h][w][c] of any size. */
const struct st_tensor *source_images(const struct source *source, const char *name);
/* Whether the file has a tensor whose name begins so. */
bool source_has(const struct source *source, const char *prefix);

/* Structured metadata, to be released with cJSON_Delete; NULL with a failure in the report. */
cJSON *source_meta(const struct source *source, const char *key);
/* A member of it; false with a failure. `where` names the object. */
bool source_number(const struct source *source, const cJSON *object, const char *where, const char *key, double *out);
bool source_integer(const struct source *source, const cJSON *object, const char *where, const char *key, int min,
                    int max, int *out);

void source_fail(const struct source *source, const char *name, const char *why);
void source_skip(const struct source *source, const char *name, const char *why);
/* Whether a network is not one of those to check; the report says so. */
bool source_leaves_out(const struct source *source, const char *name, const struct net_shape *shape, int images);

/* What a comparison allows: error <= rtol * max|want| + atol. In double only the file's own rounding is allowed. */
struct tolerance {
    double rtol, atol;
};

/* `got` in the file's order, or in ours for a tensor of a layout. */
void source_compare(const struct source *source, const char *name, const real *got, const struct st_tensor *want,
                    struct tolerance allowed);
void source_compare_value(const struct source *source, const char *name, double got, double want,
                          struct tolerance allowed);
void source_flag(const struct source *source, const char *name, bool passed, const char *note);

/*
 * All tensors of a layout, named prefix.<tensor>: read into params, or compared with them. Files keep PyTorch's order,
 * conv [out][in][kh][kw] and depthwise [c][1][3][3]; ours are [out][kh][kw][in] and [kh][kw][c]. false when a tensor
 * was missing or misshapen.
 */
bool source_load_layout(const struct source *source, const char *prefix, const struct param_layout *layout,
                        real *params);
bool source_compare_layout(const struct source *source, const char *prefix, const struct param_layout *layout,
                           const real *params, struct tolerance allowed);
/* The cosine between all tensors of a layout in the file and params, which must be `least` or more. */
void source_compare_direction(const struct source *source, const char *prefix, const struct param_layout *layout,
                              const real *params, double least);
/* L2 norm over the tensors that are there. */
double source_layout_norm(const struct source *source, const char *prefix, const struct param_layout *layout);

#endif
