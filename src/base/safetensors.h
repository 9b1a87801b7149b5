/*
 * safetensors: an 8-byte little-endian header length, a JSON header, raw little-endian data. Vectors, packed data sets,
 * checkpoints and exports all use this one format.
 *
 * The reader trusts nothing: after st_open every tensor is inside the file, is as long as its shape says, is aligned
 * for its type, and the tensors cover the data without holes or overlaps.
 */
#ifndef BASE_SAFETENSORS_H
#define BASE_SAFETENSORS_H

#include <stddef.h>

#include "base/status.h"

enum st_dtype {
    ST_F64,
    ST_F32,
    ST_F16,
    ST_BF16,
    ST_I64,
    ST_I32,
    ST_I16,
    ST_I8,
    ST_U64,
    ST_U32,
    ST_U16,
    ST_U8,
    ST_BOOL,
    ST_DTYPE_COUNT
};

#define ST_DIMS 8

struct st_tensor {
    const char *name;
    enum st_dtype dtype;
    int dims; /* 0: a scalar */
    size_t shape[ST_DIMS];
    size_t count, bytes; /* of elements; of data. st_write computes them itself */
    const void *data;
};

struct st_file;

/* Read and check the file. Tensors point into its content and live until st_close. */
enum esper_status st_open(const char *path, struct st_file **out, struct esper_error *error);
void st_close(struct st_file *file);

int st_count(const struct st_file *file);
const struct st_tensor *st_at(const struct st_file *file, int index);          /* in the header's order */
const struct st_tensor *st_find(const struct st_file *file, const char *name); /* NULL when absent */
const char *st_meta(const struct st_file *file, const char *key);              /* NULL when absent */

const char *st_dtype_name(enum st_dtype dtype);
size_t st_dtype_bytes(enum st_dtype dtype);

/* Write atomically. Data is laid out with the larger types first, so that every tensor is aligned. */
enum esper_status st_write(const char *path, const struct st_tensor *tensors, int count, const char *const meta[][2],
                           int meta_count, struct esper_error *error);

#endif
