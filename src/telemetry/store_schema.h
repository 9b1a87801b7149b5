/* The tables of the record, made from the lists of record.h: the schema's text, and where each column lies in its
 * struct. For the store only. */
#ifndef TELEMETRY_STORE_SCHEMA_H
#define TELEMETRY_STORE_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

#define STORE_VERSION     1          /* user_version */
#define STORE_APPLICATION 0x45737072 /* application_id, "Espr" */

struct store_column {
    const char *name;
    size_t offset;
    bool real; /* double, NAN is NULL; else int64_t */
};

enum store_table { TABLE_ROUND, TABLE_PPO, TABLE_OUTCOME, TABLE_ROLLBACK, TABLE_COUNT };

struct store_layout {
    const char *name;
    const char *extra; /* a first column that is not in the struct, NULL: none */
    const struct store_column *columns;
    int count;
};

extern const struct store_layout store_layouts[TABLE_COUNT];
extern const char *const store_schema[]; /* a CREATE TABLE each, with what every column means; ends with NULL */

#endif
