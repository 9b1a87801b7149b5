/*
 * The world table: every array of state is registered once - name, type, shape, scope, class, whether it is saved - and
 * then allocated in one arena per class. The table is the checkpoint, the telemetry source and the device memory map.
 *
 *     struct table table = {0};
 *     TABLE_ADD(&table, &world->alpha, "slot.alpha", TYPE_F32, CLASS_STATE, true, SCOPE_ENV, envs, slots);
 *     TRY(table_allocate(&table, error));
 *
 * Registration cannot fail on the spot: the first mistake (duplicate name, overflow, ...) is remembered and returned by
 * table_allocate, so that registering code stays a plain list.
 *
 * What the numbers of a row may be is a property of the row, too. The program never writes another one, so whoever
 * fills a row from a file checks it first: memory safety rests on many of these numbers.
 */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum table_type { TYPE_F32, TYPE_F64, TYPE_I32, TYPE_U32, TYPE_U64, TYPE_U16, TYPE_U8, TYPE_I8 };
enum table_class { CLASS_PARAM, CLASS_GRAD, CLASS_OPT, CLASS_ACT, CLASS_STATE, CLASS_COUNT };

/* Whose a row is, and which dimension counts the envs. A process that plays some of a run's envs has the whole of the
 * run's rows, of the envs' rows the part of its own, and a round's rows with room for all envs: it writes the columns
 * of its own, and the others' come from whoever plays those. */
enum table_scope {
    SCOPE_RUN,     /* no dimension counts envs */
    SCOPE_ENV,     /* [env]... of this process */
    SCOPE_STEP_ENV /* [step][env]... of the run */
};

#define TABLE_DIMS 4
#define TABLE_NAME 64

/* Numbers from `low` to `high`, and `also`; NAN is none of them. Not bounded: any number, whatever its bits. */
struct table_range {
    bool bounded;
    double low, high, also;
};

struct table_row {
    char name[TABLE_NAME];
    enum table_type type;
    enum table_class arena;
    bool saved;
    enum table_scope scope;
    int dims;
    size_t shape[TABLE_DIMS];
    size_t bytes;
    struct table_range range;
    void *data; /* on a 64-byte boundary */
    void *slot; /* the registered pointer, filled by table_allocate */
};

struct table {
    struct table_row *rows; /* in order of registration */
    int count, capacity;
    bool allocated;
    void *arena[CLASS_COUNT];
    size_t arena_bytes[CLASS_COUNT];
    struct esper_error error; /* the first mistake made while registering */
};

/* `slot` is the address of a pointer to the array's element type. A table starts as {0}. */
void table_add(struct table *table, void *slot, const char *name, enum table_type type, enum table_class arena,
               bool saved, enum table_scope scope, int dims, const size_t shape[]);

#define TABLE_ADD(table, slot, name, type, arena, saved, scope, ...)                                                   \
    table_add(table, slot, name, type, arena, saved, scope, (int)(sizeof((size_t[]){__VA_ARGS__}) / sizeof(size_t)),   \
              (const size_t[]){__VA_ARGS__})

/* Bound a registered row. `also` is one number beyond the range that stands for none. */
void table_bound(struct table *table, const char *name, double low, double high);
void table_bound_also(struct table *table, const char *name, double low, double high, double also);

/* Whether all numbers of `data`, an array like the row's, are in its range; if not, the line names the first. */
enum esper_status table_check(const struct table_row *row, const void *data, struct esper_error *error);

/* Allocate one zeroed arena per class and fill every registered pointer. */
enum esper_status table_allocate(struct table *table, struct esper_error *error);
void table_free(struct table *table);

/* The dimension that counts envs; -1: none, the row is the run's. */
int table_env_dim(enum table_scope scope);

/* NULL when there is no such row. A linear scan: for tools, tests and start-up. */
const struct table_row *table_find(const struct table *table, const char *name);

size_t table_bytes(const struct table *table, enum table_class arena);

/* A 64-bit digest of the names and contents of the saved rows: equal for equal worlds, whatever was not saved. */
uint64_t table_hash(const struct table *table);

#endif
