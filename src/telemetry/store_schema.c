#include "telemetry/store_schema.h"

#include <string.h>

#include "telemetry/store.h"

/* ---- the schema: `.schema` in any SQLite shell explains itself --------------------------------------------------- */

#define SQL_INTEGER                  " INTEGER NOT NULL"
#define SQL_OPTIONAL                 " INTEGER"
#define SQL_NUMBER                   " REAL"
#define SQL_NAME                     " TEXT"
#define SQL_TEXT                     " TEXT"
#define SQL_PASSAGE                  " TEXT"
#define SQL_COLUMN(type, name, help) "    " #name SQL_##type ", -- " help "\n"
#define SQL_TABLE(NAME, name, lane, level, key, help)                                                                  \
    "CREATE TABLE " #name " ( -- " help "\n" NAME##_FIELDS(SQL_COLUMN) "    PRIMARY KEY (" key                         \
                                                                       ")\n) STRICT, WITHOUT ROWID;\n"

const char *const store_run_table =
    "CREATE TABLE run ( -- the run itself, one row\n"
    "    id INTEGER PRIMARY KEY CHECK (id = 1), -- always 1\n"
    "    name TEXT NOT NULL, -- name of the run\n"
    "    task TEXT NOT NULL, -- its task\n"
    "    policy TEXT NOT NULL, -- the policy that decides\n"
    "    seed TEXT NOT NULL, -- seed of every random number, 64 bits unsigned, in decimal\n"
    "    evaluate INTEGER NOT NULL, -- 1: evaluation episodes, nothing learned\n"
    "    created TEXT NOT NULL, -- when it was created, ISO 8601, UTC\n"
    "    version TEXT NOT NULL, -- version of the Esper that created it\n"
    "    kernels TEXT NOT NULL, -- numeric kernels that it uses\n"
    "    configuration TEXT NOT NULL -- every key and its value, JSON\n"
    ") STRICT;\n";

/* ---- where the columns are --------------------------------------------------------------------------------------- */

#define COLUMN(type, name, help) {#name, COLUMN_##type, help},
#define COLUMNS(NAME, name, lane, level, key, help)                                                                    \
    static const struct store_column name##_columns[] = {NAME##_FIELDS(COLUMN)};
RECORD_KINDS(COLUMNS)

#define BYTES_INTEGER           sizeof(int64_t)
#define BYTES_OPTIONAL          sizeof(int64_t)
#define BYTES_NUMBER            sizeof(double)
#define BYTES_NAME              sizeof(const char *)
#define BYTES_TEXT              RECORD_TEXT
#define BYTES_PASSAGE           RECORD_PASSAGE
#define BYTES(type, name, help) +BYTES_##type
#define DENSE(NAME, name, lane, level, key, help)                                                                      \
    _Static_assert(sizeof(struct name##_record) == (0 NAME##_FIELDS(BYTES)), "fields follow each other");
RECORD_KINDS(DENSE)
_Static_assert(sizeof(struct sample_record) <= sizeof(struct step_record), "it makes the rings no larger");
_Static_assert(sizeof(int64_t) == sizeof(double) && sizeof(const char *) == sizeof(double), "all but texts are alike");

#define LAYOUT(NAME, name, lane, level, key, help)                                                                     \
    {#name, name##_columns, (int)(sizeof name##_columns / sizeof name##_columns[0]),                                   \
     SQL_TABLE(NAME, name, lane, level, key, help)},
const struct store_layout store_layouts[RECORD_KIND_COUNT] = {RECORD_KINDS(LAYOUT)};

bool store_has_steps(enum record_kind kind)
{
    for (int i = 0; i < store_layouts[kind].count; i++)
        if (strcmp(store_layouts[kind].columns[i].name, "step") == 0)
            return true;
    return false;
}

const char *store_help(const char *table, const char *column)
{
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++)
        for (int i = 0; strcmp(store_layouts[kind].name, table) == 0 && i < store_layouts[kind].count; i++)
            if (strcmp(store_layouts[kind].columns[i].name, column) == 0)
                return store_layouts[kind].columns[i].help;
    return NULL;
}
