/*
 * From a rule's struct to the world's arrays. A rule keeps its state in a small struct whose members come from a list
 * (TRACKER_FIELDS, GOVERNOR_FIELDS, ...); the world keeps one array per member, so that the table knows each by name,
 * type and shape. These macros make the struct of arrays, and load and store one row of it.
 *
 * A list takes FIELD(type, name), or FIELD and ARRAY(type, name, count).
 */
#ifndef ENGINE_STATE_H
#define ENGINE_STATE_H

#include <stdio.h>
#include <string.h>

#include "base/table.h"

/* Type of an element as the table knows it. */
#define STATE_TYPE(type)                                                                                               \
    _Generic((type)0, uint8_t                                                                                          \
             : TYPE_U8, uint16_t                                                                                       \
             : TYPE_U16, uint32_t                                                                                      \
             : TYPE_U32, int32_t                                                                                       \
             : TYPE_I32, float                                                                                         \
             : TYPE_F32, double                                                                                        \
             : TYPE_F64)

#define STATE_POINTER(type, name)          type *name;
#define STATE_POINTER_N(type, name, count) type *name; /* [row][count] */
#define STATE_LOAD(type, name)             state.name = arrays->name[row];
#define STATE_LOAD_N(type, name, count)    memcpy(state.name, arrays->name + row * (count), sizeof state.name);
#define STATE_STORE(type, name)            arrays->name[row] = state->name;
#define STATE_STORE_N(type, name, count)   memcpy(arrays->name + row * (count), state->name, sizeof state->name);
#define STATE_ADD(type, name)                                                                                          \
    snprintf(label, sizeof label, "%s.%s", prefix, #name);                                                             \
    table_add(table, &arrays->name, label, STATE_TYPE(type), CLASS_STATE, true, dims, shape);
#define STATE_ADD_N(type, name, count)                                                                                 \
    snprintf(label, sizeof label, "%s.%s", prefix, #name);                                                             \
    shape[dims] = (count);                                                                                             \
    table_add(table, &arrays->name, label, STATE_TYPE(type), CLASS_STATE, true, dims + 1, shape);

/* struct kind_arrays, kind_load, kind_store and kind_add; `shape` has `dims` entries and room for one more. */
#define STATE_ACCESS(kind, POINTERS, LOADS, STORES, ADDS)                                                              \
    struct kind##_arrays {                                                                                             \
        POINTERS                                                                                                       \
    };                                                                                                                 \
    static inline struct kind kind##_load(const struct kind##_arrays *arrays, size_t row)                              \
    {                                                                                                                  \
        struct kind state;                                                                                             \
        LOADS return state;                                                                                            \
    }                                                                                                                  \
    static inline void kind##_store(const struct kind##_arrays *arrays, size_t row, const struct kind *state)          \
    {                                                                                                                  \
        STORES                                                                                                         \
    }                                                                                                                  \
    static inline void kind##_add(struct kind##_arrays *arrays, struct table *table, const char *prefix, int dims,     \
                                  size_t *shape)                                                                       \
    {                                                                                                                  \
        char label[TABLE_NAME];                                                                                        \
        ADDS                                                                                                           \
    }

#define STATE_OF_FIELDS(kind, FIELDS)                                                                                  \
    STATE_ACCESS(kind, FIELDS(STATE_POINTER), FIELDS(STATE_LOAD), FIELDS(STATE_STORE), FIELDS(STATE_ADD))
#define STATE_OF_FIELDS_AND_ARRAYS(kind, FIELDS)                                                                       \
    STATE_ACCESS(kind, FIELDS(STATE_POINTER, STATE_POINTER_N), FIELDS(STATE_LOAD, STATE_LOAD_N),                       \
                 FIELDS(STATE_STORE, STATE_STORE_N), FIELDS(STATE_ADD, STATE_ADD_N))

#endif
