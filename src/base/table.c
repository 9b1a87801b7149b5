#include "base/table.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/memory.h"

static size_t table_type_bytes(enum table_type type)
{
    static const size_t bytes[] = {[TYPE_F32] = 4, [TYPE_F64] = 8, [TYPE_I32] = 4, [TYPE_U32] = 4,
                                   [TYPE_U64] = 8, [TYPE_U16] = 2, [TYPE_U8] = 1,  [TYPE_I8] = 1};
    return bytes[type];
}

int table_env_dim(enum table_scope scope)
{
    static const int dim[] = {[SCOPE_RUN] = -1, [SCOPE_ENV] = 0, [SCOPE_STEP_ENV] = 1};
    return dim[scope];
}

const struct table_row *table_find(const struct table *table, const char *name)
{
    for (int i = 0; i < table->count; i++)
        if (strcmp(table->rows[i].name, name) == 0)
            return &table->rows[i];
    return NULL;
}

static enum esper_status table_grow(struct table *table, struct esper_error *error)
{
    if (table->count < table->capacity)
        return ESPER_OK;
    int capacity = table->capacity ? 2 * table->capacity : 64;
    struct table_row *rows = memory_alloc((size_t)capacity, sizeof *rows, error);
    if (!rows)
        return ESPER_FAILED;
    if (table->count)
        memcpy(rows, table->rows, (size_t)table->count * sizeof *rows);
    memory_free(table->rows);
    table->rows = rows;
    table->capacity = capacity;
    return ESPER_OK;
}

static enum esper_status table_register(struct table *table, void *slot, const char *name, enum table_type type,
                                        enum table_class arena, bool saved, enum table_scope scope, int dims,
                                        const size_t shape[], struct esper_error *error)
{
    if (table->allocated)
        return error_set(error, ESPER_INVALID, "array %s is registered after the table was allocated", name);
    if (strlen(name) >= TABLE_NAME)
        return error_set(error, ESPER_INVALID, "array name %s is longer than %d bytes", name, TABLE_NAME - 1);
    if (dims < 1 || dims > TABLE_DIMS)
        return error_set(error, ESPER_INVALID, "array %s has %d dimensions; 1 to %d are allowed", name, dims,
                         TABLE_DIMS);
    if (table_find(table, name))
        return error_set(error, ESPER_INVALID, "array %s is registered twice", name);

    if (table_env_dim(scope) >= dims)
        return error_set(error, ESPER_INVALID, "array %s has %d dimensions, none of which counts envs", name, dims);

    struct table_row row = {.type = type, .arena = arena, .saved = saved, .scope = scope, .dims = dims, .slot = slot};
    memcpy(row.name, name, strlen(name) + 1);
    row.bytes = table_type_bytes(type);
    for (int i = 0; i < dims; i++) {
        row.shape[i] = shape[i];
        if (__builtin_mul_overflow(row.bytes, shape[i], &row.bytes))
            return error_set(error, ESPER_INVALID, "array %s is too large: its shape overflows", name);
    }
    TRY(table_grow(table, error));
    table->rows[table->count++] = row;
    return ESPER_OK;
}

void table_add(struct table *table, void *slot, const char *name, enum table_type type, enum table_class arena,
               bool saved, enum table_scope scope, int dims, const size_t shape[])
{
    if (table->error.status == ESPER_OK)
        table_register(table, slot, name, type, arena, saved, scope, dims, shape, &table->error);
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

void table_bound_also(struct table *table, const char *name, double low, double high, double also)
{
    int at = 0;
    while (at < table->count && strcmp(table->rows[at].name, name) != 0)
        at++;
    if (at < table->count)
        table->rows[at].range = (struct table_range){true, low, high, also};
    else if (table->error.status == ESPER_OK)
        error_set(&table->error, ESPER_INVALID, "array %s is bounded before it is registered", name);
}

void table_bound(struct table *table, const char *name, double low, double high)
{
    table_bound_also(table, name, low, high, low);
}

static double number_at(enum table_type type, const void *data, size_t i)
{
    switch (type) {
    case TYPE_F32:
        return (double)((const float *)data)[i];
    case TYPE_F64:
        return ((const double *)data)[i];
    case TYPE_I32:
        return ((const int32_t *)data)[i];
    case TYPE_U32:
        return ((const uint32_t *)data)[i];
    case TYPE_U64:
        return (double)((const uint64_t *)data)[i];
    case TYPE_U16:
        return ((const uint16_t *)data)[i];
    case TYPE_U8:
        return ((const uint8_t *)data)[i];
    case TYPE_I8:
        break;
    }
    return ((const int8_t *)data)[i];
}

/* "[3][0]" */
static void format_place(const struct table_row *row, size_t i, char text[96])
{
    size_t used = 0, block = row->bytes / table_type_bytes(row->type);
    text[0] = '\0';
    for (int d = 0; d < row->dims && used < 96; d++) {
        block /= row->shape[d];
        used += (size_t)snprintf(text + used, 96 - used, "[%zu]", i / block);
        i %= block;
    }
}

enum esper_status table_check(const struct table_row *row, const void *data, struct esper_error *error)
{
    const struct table_range *range = &row->range;
    const size_t count = row->bytes / table_type_bytes(row->type);
    for (size_t i = 0; range->bounded && i < count; i++) {
        double number = number_at(row->type, data, i);
        if ((number >= range->low && number <= range->high) || number == range->also)
            continue;
        char place[96], also[40] = "";
        format_place(row, i, place);
        if (range->also != range->low)
            snprintf(also, sizeof also, " or %.15g", range->also);
        return error_set(error, ESPER_INVALID, "array %s holds %.15g at %s, where only %.15g to %.15g%s can be",
                         row->name, number, place, range->low, range->high, also);
    }
    return ESPER_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Rows are stored in order of registration, each aligned to MEMORY_ALIGN. */
static enum esper_status table_layout(struct table *table, size_t offset[], struct esper_error *error)
{
    for (int i = 0; i < table->count; i++) {
        const struct table_row *row = &table->rows[i];
        size_t *end = &table->arena_bytes[row->arena];
        offset[i] = *end;
        if (__builtin_add_overflow(*end, row->bytes, end) || __builtin_add_overflow(*end, MEMORY_ALIGN - 1, end))
            return error_set(error, ESPER_INVALID, "array %s does not fit: its class overflows", row->name);
        *end -= *end % MEMORY_ALIGN;
    }
    return ESPER_OK;
}

/* Whether a row and one that was registered before it share memory. For an assertion. */
__attribute__((unused)) static bool overlaps(const struct table *table, int row, const size_t *offset)
{
    const struct table_row *rows = table->rows;
    for (int i = 0; i < row; i++)
        if (rows[i].arena == rows[row].arena && offset[i] < offset[row] + rows[row].bytes &&
            offset[row] < offset[i] + rows[i].bytes)
            return true;
    return false;
}

enum esper_status table_allocate(struct table *table, struct esper_error *error)
{
    if (table->error.status != ESPER_OK)
        return error_set(error, table->error.status, "%s", table->error.text);
    if (table->allocated)
        return error_set(error, ESPER_INVALID, "the table is allocated already");

    size_t *offset = memory_alloc((size_t)table->count, sizeof *offset, error);
    if (!offset)
        return ESPER_FAILED;
    enum esper_status status = table_layout(table, offset, error);
    for (int c = 0; c < CLASS_COUNT && status == ESPER_OK; c++) {
        table->arena[c] = memory_alloc(table->arena_bytes[c], 1, error);
        if (!table->arena[c])
            status = ESPER_FAILED;
    }
    for (int i = 0; i < table->count && status == ESPER_OK; i++) {
        struct table_row *row = &table->rows[i];
        row->data = (char *)table->arena[row->arena] + offset[i];
        memcpy(row->slot, &row->data, sizeof row->data); /* the slot may be a pointer to any type */
        ESPER_ASSERT((uintptr_t)row->data % 64 == 0);
        ESPER_ASSERT(offset[i] + row->bytes <= table->arena_bytes[row->arena]);
        ESPER_ASSERT(!overlaps(table, i, offset));
    }
    memory_free(offset);
    if (status != ESPER_OK)
        table_free(table);
    else
        table->allocated = true;
    return status;
}

void table_free(struct table *table)
{
    for (int c = 0; c < CLASS_COUNT; c++)
        memory_free(table->arena[c]);
    memory_free(table->rows);
    *table = (struct table){0};
}

size_t table_bytes(const struct table *table, enum table_class arena)
{
    return table->arena_bytes[arena];
}

/* FNV-1a over 8-byte words, folded so that high bits reach low ones; the length tells trailing zeros apart. */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    size_t left = bytes;
    while (left) {
        uint64_t word = 0;
        size_t take = left < sizeof word ? left : sizeof word;
        memcpy(&word, at, take);
        hash = (hash ^ word) * 0x100000001B3u;
        hash ^= hash >> 32;
        at += take;
        left -= take;
    }
    return (hash ^ bytes) * 0x100000001B3u;
}

uint64_t table_hash(const struct table *table)
{
    uint64_t hash = 0xCBF29CE484222325u;
    for (int i = 0; i < table->count; i++) {
        const struct table_row *row = &table->rows[i];
        if (!row->saved)
            continue;
        hash = hash_bytes(hash, row->name, strlen(row->name));
        hash = hash_bytes(hash, row->data, row->bytes);
    }
    return hash;
}
