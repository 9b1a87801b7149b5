#include "telemetry/store_schema.h"

#include <string.h>

/* ---- the schema: `.schema` in any SQLite shell explains itself --------------------------------------------------- */

#define SQL_INTEGER                  " INTEGER NOT NULL"
#define SQL_OPTIONAL                 " INTEGER"
#define SQL_NUMBER                   " REAL"
#define SQL_NAME                     " TEXT"
#define SQL_TEXT                     " TEXT"
#define SQL_COLUMN(type, name, help) "    " #name SQL_##type ", -- " help "\n"
#define SQL_TABLE(NAME, name, lane, level, key, help)                                                                  \
    "CREATE TABLE " #name " ( -- " help "\n" NAME##_FIELDS(SQL_COLUMN) "    PRIMARY KEY (" key                         \
                                                                       ")\n) STRICT, WITHOUT ROWID;\n",

const char *const store_schema[] = {
    "CREATE TABLE run ( -- what this is: one row\n"
    "    id INTEGER PRIMARY KEY CHECK (id = 1), -- always 1\n"
    "    name TEXT NOT NULL, -- of the run\n"
    "    task TEXT NOT NULL, -- its task\n"
    "    policy TEXT NOT NULL, -- who decides\n"
    "    seed TEXT NOT NULL, -- seed of every random number, 64 bits unsigned, in decimal\n"
    "    evaluate INTEGER NOT NULL, -- 1: evaluation episodes, nothing learned\n"
    "    created TEXT NOT NULL, -- ISO 8601, UTC\n"
    "    version TEXT NOT NULL, -- of the Esper that made it\n"
    "    kernels TEXT NOT NULL, -- numeric kernels it was made with\n"
    "    configuration TEXT NOT NULL -- every key and its value, JSON\n"
    ") STRICT;\n",
    RECORD_KINDS(SQL_TABLE) NULL,
};

/* ---- where the columns are --------------------------------------------------------------------------------------- */

#define COLUMN(type, name, help) {#name, COLUMN_##type},
#define COLUMNS(NAME, name, lane, level, key, help)                                                                    \
    static const struct store_column name##_columns[] = {NAME##_FIELDS(COLUMN)};
RECORD_KINDS(COLUMNS)

#define BYTES_INTEGER           sizeof(int64_t)
#define BYTES_OPTIONAL          sizeof(int64_t)
#define BYTES_NUMBER            sizeof(double)
#define BYTES_NAME              sizeof(const char *)
#define BYTES_TEXT              RECORD_TEXT
#define BYTES(type, name, help) +BYTES_##type
#define DENSE(NAME, name, lane, level, key, help)                                                                      \
    _Static_assert(sizeof(struct name##_record) == (0 NAME##_FIELDS(BYTES)), "fields follow each other");
RECORD_KINDS(DENSE)
_Static_assert(sizeof(int64_t) == sizeof(double) && sizeof(const char *) == sizeof(double), "all but texts are alike");

#define LAYOUT(NAME, name, lane, level, key, help)                                                                     \
    {#name, name##_columns, (int)(sizeof name##_columns / sizeof name##_columns[0])},
const struct store_layout store_layouts[RECORD_KIND_COUNT] = {RECORD_KINDS(LAYOUT)};

bool store_has_steps(enum record_kind kind)
{
    for (int i = 0; i < store_layouts[kind].count; i++)
        if (strcmp(store_layouts[kind].columns[i].name, "step") == 0)
            return true;
    return false;
}
