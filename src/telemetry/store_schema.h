/* The tables of the record, made from the lists of record.h: the schema's text, and how a row lies in its struct: one
 * field after the other, each as long as its type says. For the store only. */
#ifndef TELEMETRY_STORE_SCHEMA_H
#define TELEMETRY_STORE_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

#include "telemetry/record.h"

#define STORE_VERSION     2          /* user_version */
#define STORE_APPLICATION 0x45737072 /* application_id, "Espr" */

enum column_type { COLUMN_INTEGER, COLUMN_OPTIONAL, COLUMN_NUMBER, COLUMN_NAME, COLUMN_TEXT };

struct store_column {
    const char *name;
    enum column_type type;
};

struct store_layout {
    const char *name;
    const struct store_column *columns;
    int count;
};

extern const struct store_layout store_layouts[RECORD_KIND_COUNT];
extern const char *const store_schema[]; /* a CREATE TABLE each, with what every column means; ends with NULL */

static inline size_t column_bytes(enum column_type type)
{
    return type == COLUMN_TEXT ? (size_t)RECORD_TEXT : sizeof(double);
}

/* Rows of such a table belong to a step, not to a whole round. */
bool store_has_steps(enum record_kind kind);

#endif
