#include "base/safetensors.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are used in place, so the machine is little-endian");

#define METADATA         "__metadata__"
#define MAX_HEADER_BYTES ((size_t)100 << 20)
#define ROUND_UP(n)      (((n) + 7) / 8 * 8)

static const struct {
    const char *name;
    size_t bytes;
} dtypes[ST_DTYPE_COUNT] = {
    [ST_F64] = {"F64", 8},  [ST_F32] = {"F32", 4}, [ST_F16] = {"F16", 2}, [ST_BF16] = {"BF16", 2},
    [ST_I64] = {"I64", 8},  [ST_I32] = {"I32", 4}, [ST_I16] = {"I16", 2}, [ST_I8] = {"I8", 1},
    [ST_U64] = {"U64", 8},  [ST_U32] = {"U32", 4}, [ST_U16] = {"U16", 2}, [ST_U8] = {"U8", 1},
    [ST_BOOL] = {"BOOL", 1}};

struct st_file {
    char *content;
    size_t bytes;
    const char *data; /* first byte after the header */
    size_t data_bytes;
    cJSON *header; /* owns the names and the metadata */
    int count;
    struct st_tensor *tensors;        /* in the header's order */
    const struct st_tensor **by_name; /* sorted, for st_find */
};

const char *st_dtype_name(enum st_dtype dtype)
{
    return dtypes[dtype].name;
}

size_t st_dtype_bytes(enum st_dtype dtype)
{
    return dtypes[dtype].bytes;
}

/* Fill count and bytes from shape and dtype. */
static enum esper_status tensor_measure(struct st_tensor *tensor, struct esper_error *error)
{
    tensor->count = 1;
    for (int i = 0; i < tensor->dims; i++)
        if (__builtin_mul_overflow(tensor->count, tensor->shape[i], &tensor->count))
            return error_set(error, ESPER_INVALID, "its shape overflows");
    if (__builtin_mul_overflow(tensor->count, dtypes[tensor->dtype].bytes, &tensor->bytes))
        return error_set(error, ESPER_INVALID, "its shape overflows");
    return ESPER_OK;
}

/* ---- reading the header ------------------------------------------------------------------------------------------ */

static bool to_size(const cJSON *value, size_t *out)
{
    if (!cJSON_IsNumber(value) || !(value->valuedouble >= 0 && value->valuedouble <= 0x1p53))
        return false;
    *out = (size_t)value->valuedouble;
    return (double)*out == value->valuedouble;
}

static enum esper_status read_dtype(const cJSON *entry, struct st_tensor *tensor, struct esper_error *error)
{
    const char *name;
    TRY(json_get_string(entry, "dtype", &name, error));
    for (int i = 0; i < ST_DTYPE_COUNT; i++)
        if (strcmp(name, dtypes[i].name) == 0) {
            tensor->dtype = (enum st_dtype)i;
            return ESPER_OK;
        }
    return error_set(error, ESPER_INVALID, "unknown dtype \"%.20s\"", name);
}

static enum esper_status read_shape(const cJSON *entry, struct st_tensor *tensor, struct esper_error *error)
{
    const cJSON *shape;
    TRY(json_get_array(entry, "shape", &shape, error));
    for (const cJSON *extent = shape->child; extent; extent = extent->next) {
        if (tensor->dims == ST_DIMS)
            return error_set(error, ESPER_INVALID, "more than %d dimensions", ST_DIMS);
        if (!to_size(extent, &tensor->shape[tensor->dims++]))
            return error_set(error, ESPER_INVALID, "\"shape\" must be a list of whole numbers");
    }
    return ESPER_OK;
}

/* Everything about one tensor that can be checked without looking at the others. */
static enum esper_status read_entry(const struct st_file *file, const cJSON *entry, struct st_tensor *tensor,
                                    struct esper_error *error)
{
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    const cJSON *offsets;
    size_t begin, end;
    tensor->name = entry->string;
    TRY(json_get_array(entry, "data_offsets", &offsets, error));
    TRY(json_check_keys(entry, keys, 3, error));
    TRY(read_dtype(entry, tensor, error));
    TRY(read_shape(entry, tensor, error));
    TRY(tensor_measure(tensor, error));
    if (cJSON_GetArraySize(offsets) != 2 || !to_size(cJSON_GetArrayItem(offsets, 0), &begin) ||
        !to_size(cJSON_GetArrayItem(offsets, 1), &end))
        return error_set(error, ESPER_INVALID, "\"data_offsets\" must be two whole numbers");
    if (begin > end || end > file->data_bytes)
        return error_set(error, ESPER_INVALID, "offsets %zu to %zu lie outside the %zu bytes of data", begin, end,
                         file->data_bytes);
    if (end - begin != tensor->bytes)
        return error_set(error, ESPER_INVALID, "%zu bytes of data, but its shape and type need %zu", end - begin,
                         tensor->bytes);
    tensor->data = file->data + begin;
    if ((uintptr_t)tensor->data % dtypes[tensor->dtype].bytes)
        return error_set(error, ESPER_INVALID,
                         "its data is not aligned; pad the header to a multiple of 8 and put larger types first");
    return ESPER_OK;
}

static enum esper_status read_metadata(const cJSON *metadata, struct esper_error *error)
{
    if (!cJSON_IsObject(metadata))
        return error_set(error, ESPER_INVALID, METADATA " must be an object");
    for (const cJSON *value = metadata->child; value; value = value->next)
        if (!cJSON_IsString(value))
            return error_set(error, ESPER_INVALID, METADATA " \"%.100s\" must be a string, not %s", value->string,
                             json_type_name(value));
    return ESPER_OK;
}

static enum esper_status read_tensors(struct st_file *file, struct esper_error *error)
{
    size_t entries = (size_t)cJSON_GetArraySize(file->header);
    file->tensors = memory_alloc(entries, sizeof *file->tensors, error);
    file->by_name = memory_alloc(entries, sizeof(void *), error);
    if (!file->tensors || !file->by_name)
        return ESPER_FAILED;
    for (const cJSON *entry = file->header->child; entry; entry = entry->next) {
        if (strcmp(entry->string, METADATA) == 0) {
            TRY(read_metadata(entry, error));
            continue;
        }
        if (read_entry(file, entry, &file->tensors[file->count], error) != ESPER_OK)
            return error_where(error, "tensor %.100s", entry->string);
        file->by_name[file->count] = &file->tensors[file->count];
        file->count++;
    }
    return ESPER_OK;
}

/* By position; an empty tensor sorts before the one that starts at the same place. */
static int compare_places(const void *a, const void *b)
{
    const struct st_tensor *x = *(const struct st_tensor *const *)a, *y = *(const struct st_tensor *const *)b;
    if (x->data != y->data)
        return (uintptr_t)x->data < (uintptr_t)y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const struct st_tensor *const *)a)->name, (*(const struct st_tensor *const *)b)->name);
}

/* The tensors must cover the data from the first byte to the last: no holes, no overlaps, nothing hidden at the end. */
static enum esper_status check_cover(struct st_file *file, struct esper_error *error)
{
    size_t at = 0;
    qsort(file->by_name, (size_t)file->count, sizeof(void *), compare_places);
    for (int i = 0; i < file->count; i++) {
        const struct st_tensor *tensor = file->by_name[i];
        size_t begin = (size_t)((const char *)tensor->data - file->data);
        if (begin < at)
            return error_set(error, ESPER_INVALID, "tensor %.100s overlaps another", tensor->name);
        if (begin > at)
            return error_set(error, ESPER_INVALID, "%zu unused bytes before tensor %.100s", begin - at, tensor->name);
        at += tensor->bytes;
    }
    if (at != file->data_bytes)
        return error_set(error, ESPER_INVALID, "%zu unused bytes after the last tensor", file->data_bytes - at);
    return ESPER_OK;
}

static enum esper_status read_header(struct st_file *file, struct esper_error *error)
{
    uint64_t length;
    const char *kind = file_kind(file->content, file->bytes);
    if (kind && strcmp(kind, FILE_SAFETENSORS) != 0)
        return error_set(error, ESPER_INVALID, "not a safetensors file but %s", kind);
    if (file->bytes < sizeof length)
        return error_set(error, ESPER_INVALID, "%zu bytes are too few for a safetensors file", file->bytes);
    memcpy(&length, file->content, sizeof length);
    if (length > MAX_HEADER_BYTES) /* the length is meaningless */
        return error_set(error, ESPER_INVALID, "not a safetensors file");
    if (length > file->bytes - sizeof length)
        return error_set(error, ESPER_INVALID,
                         "not a safetensors file, or cut short: its header should have %llu bytes, the file has %zu",
                         (unsigned long long)length, file->bytes);
    file->data = file->content + sizeof length + length;
    file->data_bytes = file->bytes - sizeof length - (size_t)length;
    if (json_parse(file->content + sizeof length, (size_t)length, &file->header, error) != ESPER_OK)
        return error_where(error, "header");
    if (!cJSON_IsObject(file->header))
        return error_set(error, ESPER_INVALID, "the header must be an object, not %s", json_type_name(file->header));
    TRY(read_tensors(file, error));
    TRY(check_cover(file, error));
    qsort(file->by_name, (size_t)file->count, sizeof(void *), compare_names);
    return ESPER_OK;
}

enum esper_status st_open(const char *path, struct st_file **out, struct esper_error *error)
{
    void *content;
    size_t bytes;
    TRY(file_load(path, &content, &bytes, error));
    struct st_file *file = memory_alloc(1, sizeof *file, error);
    if (!file) {
        memory_free(content);
        return ESPER_FAILED;
    }
    file->content = content;
    file->bytes = bytes;
    enum esper_status status = read_header(file, error);
    if (status != ESPER_OK) {
        st_close(file);
        return error_where(error, "%s", path);
    }
    *out = file;
    return ESPER_OK;
}

void st_close(struct st_file *file)
{
    if (!file)
        return;
    memory_free(file->content);
    cJSON_Delete(file->header);
    memory_free(file->tensors);
    memory_free(file->by_name);
    memory_free(file);
}

int st_count(const struct st_file *file)
{
    return file->count;
}

const struct st_tensor *st_at(const struct st_file *file, int index)
{
    return &file->tensors[index];
}

const struct st_tensor *st_find(const struct st_file *file, const char *name)
{
    const struct st_tensor probe = {.name = name}, *key = &probe;
    const struct st_tensor **found = bsearch(&key, file->by_name, (size_t)file->count, sizeof(void *), compare_names);
    return found ? *found : NULL;
}

const char *st_meta(const struct st_file *file, const char *key)
{
    const cJSON *metadata = json_find(file->header, METADATA);
    const cJSON *value = metadata ? json_find(metadata, key) : NULL;
    return value ? value->valuestring : NULL;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Larger elements first, otherwise in the caller's order: every tensor then starts on a multiple of its element. */
static int compare_layout(const void *a, const void *b)
{
    const struct st_tensor *x = *(const struct st_tensor *const *)a, *y = *(const struct st_tensor *const *)b;
    size_t wide_x = dtypes[x->dtype].bytes, wide_y = dtypes[y->dtype].bytes;
    if (wide_x != wide_y)
        return wide_x > wide_y ? -1 : 1;
    return (x > y) - (x < y);
}

static void add_entry(cJSON *header, const struct st_tensor *tensor, size_t begin)
{
    char number[64]; /* as text: cJSON would print a large number as 1e+15 */
    cJSON *entry = json_add_object(header, tensor->name);
    json_add_text(entry, "dtype", dtypes[tensor->dtype].name);
    cJSON *shape = json_add_list(entry, "shape");
    for (int i = 0; i < tensor->dims; i++) {
        snprintf(number, sizeof number, "%zu", tensor->shape[i]);
        json_add(shape, NULL, cJSON_CreateRaw(number));
    }
    snprintf(number, sizeof number, "[%zu,%zu]", begin, begin + tensor->bytes);
    json_add(entry, "data_offsets", cJSON_CreateRaw(number));
}

static void add_metadata(cJSON *header, const char *const meta[][2], int count)
{
    cJSON *metadata = count ? json_add_object(header, METADATA) : NULL;
    for (int i = 0; i < count; i++)
        json_add_text(metadata, meta[i][0], meta[i][1]);
}

/* The header as text, padded with blanks to a multiple of 8 so that the data after it is aligned. */
static enum esper_status make_header(const struct st_tensor *const order[], int count, const char *const meta[][2],
                                     int meta_count, char **out, size_t *length, struct esper_error *error)
{
    cJSON *tree = cJSON_CreateObject();
    size_t begin = 0;
    add_metadata(tree, meta, meta_count);
    for (int i = 0; i < count; i++) {
        add_entry(tree, order[i], begin);
        begin += order[i]->bytes;
    }
    char *text = json_finish(tree, JSON_ONE_LINE);
    if (!text)
        return error_set(error, ESPER_FAILED, "out of memory while writing the header");

    size_t bytes = strlen(text);
    *length = ROUND_UP(bytes);
    *out = memory_alloc(*length, 1, error);
    if (*out) {
        memset(*out, ' ', *length);
        memcpy(*out, text, bytes);
    }
    cJSON_free(text);
    return *out ? ESPER_OK : ESPER_FAILED;
}

/* What is written must be readable again: the parser finds duplicate and ill-formed names for us. */
static enum esper_status check_header(const char *text, size_t length, struct esper_error *error)
{
    cJSON *tree;
    TRY(json_parse(text, length, &tree, error));
    cJSON_Delete(tree);
    return ESPER_OK;
}

/* Work on copies: shape and type are the caller's, count and bytes are computed here. */
static enum esper_status check_tensors(struct st_tensor *tensors, int count, struct esper_error *error)
{
    size_t total = 0;
    for (int i = 0; i < count; i++) {
        struct st_tensor *tensor = &tensors[i];
        if (tensor->dims < 0 || tensor->dims > ST_DIMS || tensor->dtype >= ST_DTYPE_COUNT)
            return error_set(error, ESPER_INVALID, "tensor %.100s: bad type or dimensions", tensor->name);
        if (strcmp(tensor->name, METADATA) == 0)
            return error_set(error, ESPER_INVALID, "a tensor cannot be called " METADATA);
        if (tensor_measure(tensor, error) != ESPER_OK)
            return error_where(error, "tensor %.100s", tensor->name);
        if (__builtin_add_overflow(total, tensor->bytes, &total))
            return error_set(error, ESPER_INVALID, "the tensors together are too large");
    }
    return ESPER_OK;
}

static enum esper_status write_parts(const char *path, const char *header, size_t length,
                                     const struct st_tensor *const order[], int count, struct esper_error *error)
{
    struct file_writer writer;
    uint64_t prefix = length;
    TRY(file_begin(&writer, path, error));
    TRY(file_write(&writer, &prefix, sizeof prefix, error));
    TRY(file_write(&writer, header, length, error));
    for (int i = 0; i < count; i++)
        TRY(file_write(&writer, order[i]->data, order[i]->bytes, error));
    return file_commit(&writer, error);
}

enum esper_status st_write(const char *path, const struct st_tensor *tensors, int count, const char *const meta[][2],
                           int meta_count, struct esper_error *error)
{
    char *header = NULL;
    size_t length = 0;
    struct st_tensor *copies = memory_alloc((size_t)count, sizeof *copies, error);
    const struct st_tensor **order = memory_alloc((size_t)count, sizeof(void *), error);
    enum esper_status status = copies && order ? ESPER_OK : ESPER_FAILED;
    if (status != ESPER_OK)
        goto cleanup;
    for (int i = 0; i < count; i++) {
        copies[i] = tensors[i];
        order[i] = &copies[i];
    }
    if ((status = check_tensors(copies, count, error)) != ESPER_OK)
        goto cleanup;
    qsort(order, (size_t)count, sizeof(void *), compare_layout);
    if ((status = make_header(order, count, meta, meta_count, &header, &length, error)) != ESPER_OK)
        goto cleanup;
    if ((status = check_header(header, length, error)) != ESPER_OK) {
        error_where(error, "%s", path);
        goto cleanup;
    }
    status = write_parts(path, header, length, order, count, error);

cleanup:
    memory_free(header);
    memory_free(order);
    memory_free(copies);
    return status;
}
