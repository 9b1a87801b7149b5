#include "telemetry/store_schema.h"

#include "telemetry/record.h"

/* ---- the schema: `.schema` in any SQLite shell explains itself --------------------------------------------------- */

#define SQL_INTEGER(name, help) "    " #name " INTEGER NOT NULL, -- " help "\n"
#define SQL_REAL(name, help)    "    " #name " REAL, -- " help "\n"

#define KEYED(columns) "    PRIMARY KEY (" columns ")\n) STRICT, WITHOUT ROWID;\n"

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

    "CREATE TABLE round ( -- one row per finished round\n" //
    ROUND_FIELDS(SQL_INTEGER, SQL_REAL)                    //
    KEYED("round"),

    "CREATE TABLE ppo ( -- one row per round that was learned from\n"
    "    round INTEGER NOT NULL, -- number of the round\n" //
    PPO_FIELDS(SQL_INTEGER, SQL_REAL)                      //
    KEYED("round"),

    "CREATE TABLE outcome ( -- one row per episode\n" //
    OUTCOME_FIELDS(SQL_INTEGER, SQL_REAL)             //
    KEYED("round, env"),

    "CREATE TABLE rollback ( -- one row per rollback by the governor\n" //
    ROLLBACK_FIELDS(SQL_INTEGER, SQL_REAL)                              //
    KEYED("round, step, env"),

    "CREATE TABLE checkpoint ( -- one row per file written to checkpoints/, removed ones too\n"
    "    file TEXT NOT NULL, -- its name\n"
    "    kind TEXT NOT NULL, -- periodic, stop, final or best\n"
    "    round INTEGER NOT NULL, -- rounds done\n"
    "    step INTEGER NOT NULL, -- steps done of the next round\n"
    "    hash TEXT NOT NULL, -- of the training state, hexadecimal\n"
    "    bytes INTEGER, -- size of the file\n"
    "    written TEXT NOT NULL, -- ISO 8601, UTC\n" //
    KEYED("file"),
    NULL,
};

/* ---- where the columns are --------------------------------------------------------------------------------------- */

#define COLUMN_INTEGER(name, help) {#name, offsetof(struct RECORD, name), false},
#define COLUMN_REAL(name, help)    {#name, offsetof(struct RECORD, name), true},

#define RECORD round_record
static const struct store_column round_columns[] = {ROUND_FIELDS(COLUMN_INTEGER, COLUMN_REAL)};
#undef RECORD
#define RECORD ppo_record
static const struct store_column ppo_columns[] = {PPO_FIELDS(COLUMN_INTEGER, COLUMN_REAL)};
#undef RECORD
#define RECORD outcome_record
static const struct store_column outcome_columns[] = {OUTCOME_FIELDS(COLUMN_INTEGER, COLUMN_REAL)};
#undef RECORD
#define RECORD rollback_record
static const struct store_column rollback_columns[] = {ROLLBACK_FIELDS(COLUMN_INTEGER, COLUMN_REAL)};
#undef RECORD

#define LENGTH(array) (int)(sizeof(array) / sizeof(array)[0])

const struct store_layout store_layouts[TABLE_COUNT] = {
    [TABLE_ROUND] = {"round", NULL, round_columns, LENGTH(round_columns)},
    [TABLE_PPO] = {"ppo", "round", ppo_columns, LENGTH(ppo_columns)},
    [TABLE_OUTCOME] = {"outcome", NULL, outcome_columns, LENGTH(outcome_columns)},
    [TABLE_ROLLBACK] = {"rollback", NULL, rollback_columns, LENGTH(rollback_columns)},
};
