/* The tables of the record, generated from the lists of record.h: the schema's text, and the layout of a row in its
 * struct: one field after the other, each as long as its type. For the store only. */
#ifndef TELEMETRY_STORE_SCHEMA_H
#define TELEMETRY_STORE_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

#include "telemetry/record.h"

#define STORE_APPLICATION 0x45737072 /* application_id, "Espr" */

enum column_type { COLUMN_INTEGER, COLUMN_OPTIONAL, COLUMN_NUMBER, COLUMN_NAME, COLUMN_TEXT, COLUMN_PASSAGE };

struct store_column {
    const char *name;
    enum column_type type;
    const char *help;
};

struct store_layout {
    const char *name;
    const struct store_column *columns;
    int count;
    const char *create; /* its CREATE TABLE */
};

extern const struct store_layout store_layouts[RECORD_KIND_COUNT];
extern const char *const store_run_table; /* the CREATE TABLE of `run`, which is not in the lists */

static inline size_t column_bytes(enum column_type type)
{
    return type == COLUMN_TEXT ? (size_t)RECORD_TEXT : type == COLUMN_PASSAGE ? (size_t)RECORD_PASSAGE : sizeof(double);
}

/* Whether rows of the table belong to a step, not to a whole round. */
bool store_has_steps(enum record_kind kind);

struct sqlite3;
/* Adds what a record of an earlier version lacks: writers alter the tables; readers get views, for their connection
 * only, in which it is missing. Returns SQLite's code. `lack` names a column that cannot be missing, otherwise it is
 * "". */
enum { STORE_LACK = 96 };
int store_complete(struct sqlite3 *db, bool writes, char lack[STORE_LACK]);

#endif
