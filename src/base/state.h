/*
 * From a rule's struct to the world's arrays. A rule keeps its state in a small struct whose members come from a list
 * (TRACKER_FIELDS, GOVERNOR_FIELDS, ...); the world keeps one array per member, so that the table knows each by name,
 * type and shape. These macros define the struct of arrays, and load and store one row of it.
 *
 * A list takes FIELD(type, name), or FIELD and ARRAY(type, name, count).
 */
#ifndef BASE_STATE_H
#define BASE_STATE_H

#include <stdio.h>
#include <string.h>

#include "base/rule.h"
#include "base/table.h"

#define STATE_POINTER(type, name)          type *name;
#define STATE_POINTER_N(type, name, count) type *name; /* [row][count] */
#define STATE_LOAD(type, name)             state.name = arrays->name[row];
#define STATE_LOAD_N(type, name, count)                                                                                \
    for (size_t i = 0; i < (count); i++)                                                                               \
        state.name[i] = arrays->name[row * (count) + i];
#define STATE_STORE(type, name) arrays->name[row] = state->name;
#define STATE_STORE_N(type, name, count)                                                                               \
    for (size_t i = 0; i < (count); i++)                                                                               \
        arrays->name[row * (count) + i] = state->name[i];

/* struct kind_arrays, kind_load and kind_store. */
#define STATE_ROWS(kind, POINTERS, LOADS, STORES)                                                                      \
    struct kind##_arrays {                                                                                             \
        POINTERS                                                                                                       \
    };                                                                                                                 \
    ESPER_RULE struct kind kind##_load(const struct kind##_arrays *arrays, size_t row)                                 \
    {                                                                                                                  \
        struct kind state;                                                                                             \
        LOADS return state;                                                                                            \
    }                                                                                                                  \
    ESPER_RULE void kind##_store(const struct kind##_arrays *arrays, size_t row, const struct kind *state)             \
    {                                                                                                                  \
        STORES                                                                                                         \
    }

/* kind_add registers the arrays; `shape` has `dims` entries and room for one more. Device code registers nothing. */
#ifdef __cplusplus
#define STATE_TABLE(kind, ADDS)
#else
/* Type of an element as the table knows it. */
#define STATE_TYPE(type)                                                                                               \
    _Generic((type)0, uint8_t                                                                                          \
             : TYPE_U8, uint16_t                                                                                       \
             : TYPE_U16, uint32_t                                                                                      \
             : TYPE_U32, int32_t                                                                                       \
             : TYPE_I32, float                                                                                         \
             : TYPE_F32, double                                                                                        \
             : TYPE_F64)
#define STATE_ADD(type, name)                                                                                          \
    snprintf(label, sizeof label, "%s.%s", prefix, #name);                                                             \
    table_add(table, &arrays->name, label, STATE_TYPE(type), CLASS_STATE, true, scope, dims, shape);
#define STATE_ADD_N(type, name, count)                                                                                 \
    snprintf(label, sizeof label, "%s.%s", prefix, #name);                                                             \
    shape[dims] = (count);                                                                                             \
    table_add(table, &arrays->name, label, STATE_TYPE(type), CLASS_STATE, true, scope, dims + 1, shape);
#define STATE_TABLE(kind, ADDS)                                                                                        \
    static inline void kind##_add(struct kind##_arrays *arrays, struct table *table, const char *prefix,               \
                                  enum table_scope scope, int dims, size_t *shape)                                     \
    {                                                                                                                  \
        char label[TABLE_NAME];                                                                                        \
        ADDS                                                                                                           \
    }
#endif

#define STATE_OF_FIELDS(kind, FIELDS)                                                                                  \
    STATE_ROWS(kind, FIELDS(STATE_POINTER), FIELDS(STATE_LOAD), FIELDS(STATE_STORE))                                   \
    STATE_TABLE(kind, FIELDS(STATE_ADD))
#define STATE_OF_FIELDS_AND_ARRAYS(kind, FIELDS)                                                                       \
    STATE_ROWS(kind, FIELDS(STATE_POINTER, STATE_POINTER_N), FIELDS(STATE_LOAD, STATE_LOAD_N),                         \
               FIELDS(STATE_STORE, STATE_STORE_N))                                                                     \
    STATE_TABLE(kind, FIELDS(STATE_ADD, STATE_ADD_N))

#endif
