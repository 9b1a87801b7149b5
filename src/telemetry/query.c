#include "telemetry/query.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/words.h"
#include "telemetry/store.h"

struct query {
    struct store *store;
    sqlite3 *db;
    struct query_options options; /* of the latest question */
    double end;                   /* of its time, by clock_seconds; 0: each row has QUERY_PATIENCE */
    double last;                  /* end of the time for all questions; 0: none */
    const volatile sig_atomic_t *stop;
    bool trusted; /* our own BEGIN */
    bool cut;
    char refused[96];    /* what the authoriser refused first */
    char path[PATH_MAX]; /* of the run */
};

struct query_answer {
    struct query *query;
    sqlite3_stmt *statement;
    struct query_row columns, row;
    const char **names;
    char **keys;
    struct query_value *values;
};

/* ---- what is allowed --------------------------------------------------------------------------------------------- */

/* Functions of their arguments (or the clock, or chance) alone, in any SQLite version so far. An allow list: functions
 * that are not in it are refused. */
// clang-format off
static const char *const allowed_functions[] = {
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "avg", "ceil", "ceiling", "char", "coalesce",
    "concat", "concat_ws", "corr", "cos", "cosh", "count", "cume_dist", "current_date", "current_time",
    "current_timestamp", "date", "datetime", "degrees", "dense_rank", "exp", "first_value", "floor", "format", "glob",
    "group_concat", "hex", "if", "ifnull", "iif", "instr", "json", "json_array", "json_array_length",
    "json_error_position", "json_extract", "json_group_array", "json_group_object", "json_insert", "json_object",
    "json_patch", "json_pretty", "json_quote", "json_remove", "json_replace", "json_set", "json_type", "json_valid",
    "julianday", "lag", "last_value", "lead", "length", "like", "likelihood", "likely", "ln", "log", "log10", "log2",
    "lower", "ltrim", "max", "median", "min", "mod", "nth_value", "ntile", "nullif", "octet_length", "percent_rank",
    "percentile", "pi", "pow", "power", "printf", "quote", "radians", "random", "randomblob", "rank", "replace",
    "round", "row_number", "rtrim", "sign", "sin", "sinh", "soundex", "sqlite_version", "sqrt", "stddev", "strftime",
    "string_agg", "substr", "substring", "subtype", "sum", "tan", "tanh", "time", "timediff", "total", "trim", "trunc",
    "typeof", "unhex", "unicode", "unixepoch", "unlikely", "upper", "zeroblob", "->", "->>",
};
// clang-format on

/* Those that describe tables; user_version may only be read. */
static const char *const allowed_pragmas[] = {"table_info", "table_xinfo", "table_list", "user_version"};

#define LENGTH(array) (int)(sizeof(array) / sizeof(array)[0])

static bool is_listed(const char *word, const char *const list[], int count)
{
    for (int i = 0; word && i < count; i++)
        if (sqlite3_stricmp(word, list[i]) == 0)
            return true;
    return false;
}

static int refuse(struct query *query, const char *what, const char *name)
{
    if (!*query->refused)
        snprintf(query->refused, sizeof query->refused, "%s%s%.60s", what, name ? " " : "", name ? name : "");
    return SQLITE_DENY;
}

static int authorise(void *context, int action, const char *first, const char *second, const char *database,
                     const char *within)
{
    (void)database, (void)within;
    struct query *query = context;
    if (query->trusted)
        return SQLITE_OK;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_FUNCTION:
        return is_listed(second, allowed_functions, LENGTH(allowed_functions)) ? SQLITE_OK
                                                                               : refuse(query, "the function", second);
    case SQLITE_PRAGMA:
        if (is_listed(first, allowed_pragmas, LENGTH(allowed_pragmas)) &&
            !(second && sqlite3_stricmp(first, "user_version") == 0))
            return SQLITE_OK;
        return refuse(query, "PRAGMA", first);
    case SQLITE_ATTACH:
        return refuse(query, "ATTACH", NULL);
    case SQLITE_DETACH:
        return refuse(query, "DETACH", NULL);
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
        return refuse(query, "a transaction", NULL);
    case SQLITE_UPDATE:
        if (first && sqlite3_stricmp(first, "sqlite_master") == 0)
            return refuse(query, "a change to the schema, or a table that SQLite would create for it", NULL);
        return refuse(query, "a change to the record", NULL);
    default:
        return refuse(query, "a change to the record", NULL);
    }
}

static bool is_stopped(const struct query *query)
{
    return (query->options.stop && *query->options.stop) || (query->stop && *query->stop);
}

/* Called before anything is asked. */
static void allow_time(struct query *query)
{
    double now = clock_seconds(), end = query->end > 0 ? query->end : now + QUERY_PATIENCE;
    if (query->last > 0 && query->last < end)
        end = query->last;
    store_allow(query->store, end > now ? end - now : 1e-9, query->options.stop ? query->options.stop : query->stop);
}

/* For our own questions. */
static void forget_options(struct query *query)
{
    query->options = (struct query_options){0};
    query->end = 0;
    query->refused[0] = '\0';
    allow_time(query);
}

static int restrict_connection(struct query *query)
{
    /* The progress handler cannot interrupt a single function call. The length limits keep the worst of them short:
     * instr below a second, trim below ten. */
    static const struct {
        int which, most;
    } limits[] = {
        {SQLITE_LIMIT_LENGTH, QUERY_LENGTH}, {SQLITE_LIMIT_SQL_LENGTH, QUERY_SQL},
        {SQLITE_LIMIT_COLUMN, 1000},         {SQLITE_LIMIT_EXPR_DEPTH, 200},
        {SQLITE_LIMIT_COMPOUND_SELECT, 50},  {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 200},
        {SQLITE_LIMIT_VARIABLE_NUMBER, 0},
    };
    const char *modules[] = {"json_each", "json_tree", NULL}; /* all others (full text, R-trees) go */
    /* Tables that SQLite creates on first use would look like a schema change: create the allowed ones now. */
    const char *first_use = "PRAGMA temp_store = MEMORY; SELECT 1 FROM pragma_table_info(''), pragma_table_xinfo(''), "
                            "pragma_table_list, json_each('[]'), json_tree('[]')";
    int code = sqlite3_drop_modules(query->db, modules);
    if (code == SQLITE_OK)
        code = sqlite3_exec(query->db, first_use, NULL, NULL, NULL);
    for (int i = 0; i < LENGTH(limits); i++)
        sqlite3_limit(query->db, limits[i].which, limits[i].most);
    if (code == SQLITE_OK)
        code = sqlite3_set_authorizer(query->db, authorise, query);
    return code;
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

/* Of all names that our own SQL yields, the one nearest to `word`; "" when none is near. */
static void find_nearest(struct query *query, const char *sql, const char *word, char nearest[64])
{
    sqlite3_stmt *names = NULL;
    nearest[0] = '\0';
    if (sqlite3_prepare_v2(query->db, sql, -1, &names, NULL) == SQLITE_OK)
        while (sqlite3_step(names) == SQLITE_ROW) {
            const char *name = (const char *)sqlite3_column_text(names, 0);
            const char *const pair[] = {name, nearest};
            if (name && nearest_word(word, pair, *nearest ? 2 : 1) == name)
                snprintf(nearest, 64, "%s", name);
        }
    sqlite3_finalize(names);
}

#define TABLE_NAMES  "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND substr(name, 1, 7) <> 'sqlite_'"
#define COLUMN_NAMES "SELECT DISTINCT c.name FROM (" TABLE_NAMES ") t, pragma_table_info(t.name) c"

/* What SQLite says "no such ..." about, and what was probably meant. */
static void add_suggestion(struct query *query, char *text, size_t size)
{
    static const struct {
        const char *complaint, *sql;
    } kinds[] = {
        {"no such table: ", TABLE_NAMES},
        {"no such column: ", COLUMN_NAMES},
        {"no such function: ", NULL},
    };
    for (int i = 0; i < LENGTH(kinds); i++) {
        size_t length = strlen(kinds[i].complaint), used = strlen(text);
        if (strncmp(text, kinds[i].complaint, length) != 0)
            continue;
        char nearest[64] = "", word[64];
        const char *dot = strrchr(text + length, '.'); /* schema.table, table.column */
        snprintf(word, sizeof word, "%s", dot ? dot + 1 : text + length);
        if (kinds[i].sql) {
            find_nearest(query, kinds[i].sql, word, nearest);
        } else {
            const char *function = nearest_word(word, allowed_functions, LENGTH(allowed_functions));
            snprintf(nearest, sizeof nearest, "%s", function ? function : "");
        }
        if (*nearest && strcmp(nearest, word) == 0)
            snprintf(text + used, size - used, "; another table has it: `esper sql RUN` lists them");
        else if (*nearest)
            snprintf(text + used, size - used, "; did you mean \"%s\"?", nearest);
    }
}

static enum esper_status gave_up(const struct query *query, struct esper_error *error)
{
    if (is_stopped(query))
        return error_set(error, ESPER_INTERRUPTED, "the question was interrupted");
    if (query->end <= 0)
        return error_set(error, ESPER_FAILED, "%s: the record does not answer in time; it may be damaged", query->path);
    return error_set(error, ESPER_FAILED, "the question was abandoned after %g s; allow more time with --timeout S",
                     query->options.timeout);
}

static enum esper_status query_fail(struct query *query, struct esper_error *error)
{
    char text[320];
    int code = sqlite3_errcode(query->db) & 0xFF, system_code = sqlite3_system_errno(query->db);
    snprintf(text, sizeof text, "%s", sqlite3_errmsg(query->db));
    if (*query->refused)
        return error_set(error, ESPER_INVALID, "refused: %s; a question may only read", query->refused);
    switch (code) {
    case SQLITE_INTERRUPT:
        return gave_up(query, error);
    case SQLITE_NOMEM:
        return error_set(error, ESPER_FAILED, "the question needs more than %lld MiB of memory; ask for less at a time",
                         QUERY_MEMORY >> 20);
    case SQLITE_TOOBIG:
        return error_set(error, ESPER_INVALID, "too long: a question has at most %d bytes, a value %d", QUERY_SQL,
                         QUERY_LENGTH);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_FULL:
    case SQLITE_PROTOCOL:
        return error_set(error, ESPER_FAILED, "%s: cannot read the record: %s%s%s", query->path, text,
                         system_code ? ": " : "", system_code ? strerror(system_code) : "");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return error_set(error, ESPER_INVALID, "%s: the record is damaged (%s)", query->path, text);
    default:
        add_suggestion(query, text, sizeof text);
        return error_set(error, ESPER_INVALID, "%s", text);
    }
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

enum esper_status query_open(struct query **out, const struct run *run, struct esper_error *error)
{
    struct query *query = memory_alloc(1, sizeof *query, error);
    if (!query)
        return ESPER_FAILED;
    snprintf(query->path, sizeof query->path, "%s", run->path);
    enum esper_status status = store_open_reader(&query->store, run, error);
    if (status == ESPER_OK) {
        query->db = store_sql(query->store);
        sqlite3_hard_heap_limit64(QUERY_MEMORY);
        if (restrict_connection(query) != SQLITE_OK)
            status = query_fail(query, error);
    }
    if (status == ESPER_OK)
        *out = query;
    else
        query_close(query);
    return status;
}

void query_bound(struct query *query, double seconds, const volatile sig_atomic_t *stop)
{
    query->last = clock_seconds() + seconds;
    query->stop = stop;
}

void query_close(struct query *query)
{
    if (!query)
        return;
    store_close(query->store);
    memory_free(query);
}

enum esper_status query_hold(struct query *query, struct esper_error *error)
{
    forget_options(query);
    query->trusted = true;
    int code = sqlite3_exec(query->db, "BEGIN; SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
    query->trusted = false;
    return code == SQLITE_OK ? ESPER_OK : query_fail(query, error);
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

/* One statement, complete, that reads. */
static enum esper_status prepare(struct query *query, const char *sql, sqlite3_stmt **out, struct esper_error *error)
{
    const char *rest = NULL;
    sqlite3_stmt *second = NULL;
    if (sqlite3_prepare_v2(query->db, sql, -1, out, &rest) != SQLITE_OK)
        return query_fail(query, error);
    if (!*out)
        return error_set(error, ESPER_INVALID, "the question is empty; ask something like: select * from run");
    int code = sqlite3_prepare_v2(query->db, rest, -1, &second, NULL);
    bool more = code != SQLITE_OK || second;
    sqlite3_finalize(second);
    if (more)
        return error_set(error, ESPER_INVALID, "refused: more than one statement; ask one question at a time");
    if (!sqlite3_stmt_readonly(*out))
        return error_set(error, ESPER_INVALID, "refused: a change to the record; a question may only read");
    return ESPER_OK;
}

/* The column names, and names that all differ: repeated ones get _2, _3 appended. */
static enum esper_status name_columns(struct query_answer *answer, struct esper_error *error)
{
    int count = sqlite3_column_count(answer->statement);
    answer->names = memory_alloc((size_t)count, sizeof *answer->names, error);
    answer->keys = memory_alloc((size_t)count, sizeof *answer->keys, error);
    answer->values = memory_alloc((size_t)count, sizeof *answer->values, error);
    if (!answer->names || !answer->keys || !answer->values)
        return ESPER_FAILED;
    answer->columns.count = answer->row.count = count;
    for (int i = 0; i < count; i++) {
        answer->names[i] = sqlite3_column_name(answer->statement, i);
        answer->keys[i] = sqlite3_mprintf("%s", answer->names[i]);
        for (int twin = 0, number = 2; answer->keys[i] && twin < i;) {
            if (strcmp(answer->keys[twin], answer->keys[i]) == 0) {
                sqlite3_free(answer->keys[i]);
                answer->keys[i] = sqlite3_mprintf("%s_%d", answer->names[i], number++);
                twin = 0;
            } else {
                twin++;
            }
        }
        if (!answer->names[i] || !answer->keys[i])
            return error_set(error, ESPER_FAILED, "out of memory while naming the columns");
    }
    answer->columns.names = answer->row.names = answer->names;
    answer->columns.keys = answer->row.keys = (const char *const *)answer->keys;
    answer->row.values = answer->values;
    return ESPER_OK;
}

enum esper_status query_ask(struct query *query, const char *sql, const struct query_options *options,
                            struct query_answer **out, struct esper_error *error)
{
    struct query_answer *answer = memory_alloc(1, sizeof *answer, error);
    if (!answer)
        return ESPER_FAILED;
    answer->query = query;
    forget_options(query);
    if (options)
        query->options = *options;
    if (query->options.timeout > 0)
        query->end = clock_seconds() + query->options.timeout;
    allow_time(query);
    enum esper_status status = prepare(query, sql, &answer->statement, error);
    if (status == ESPER_OK)
        status = name_columns(answer, error);
    if (status == ESPER_OK)
        *out = answer;
    else
        query_end(answer);
    return status;
}

const struct query_row *query_columns(const struct query_answer *answer)
{
    return &answer->columns;
}

/* Whether the value could be read: SQLite may run out of memory while converting one. */
static bool read_value(sqlite3_stmt *statement, int column, struct query_value *value)
{
    static const enum query_kind kinds[] = {[SQLITE_INTEGER] = QUERY_INTEGER,
                                            [SQLITE_FLOAT] = QUERY_REAL,
                                            [SQLITE_TEXT] = QUERY_TEXT,
                                            [SQLITE_BLOB] = QUERY_BLOB,
                                            [SQLITE_NULL] = QUERY_NULL};
    *value = (struct query_value){.kind = kinds[sqlite3_column_type(statement, column)]};
    if (value->kind == QUERY_INTEGER)
        value->integer = sqlite3_column_int64(statement, column);
    else if (value->kind == QUERY_REAL)
        value->real = sqlite3_column_double(statement, column);
    else if (value->kind == QUERY_TEXT)
        value->text = (const char *)sqlite3_column_text(statement, column);
    else if (value->kind == QUERY_BLOB)
        value->text = sqlite3_column_blob(statement, column);
    else
        return true;
    if (value->kind < QUERY_TEXT)
        return true;
    value->bytes = (size_t)sqlite3_column_bytes(statement, column);
    if (!value->text && value->kind == QUERY_BLOB && value->bytes == 0)
        value->text = "";
    return value->text != NULL;
}

enum esper_status query_next(struct query_answer *answer, const struct query_row **row, struct esper_error *error)
{
    *row = NULL;
    allow_time(answer->query);
    int code = sqlite3_step(answer->statement);
    if (code == SQLITE_DONE)
        return ESPER_OK;
    bool read = code == SQLITE_ROW;
    for (int i = 0; read && i < answer->row.count; i++)
        read = read_value(answer->statement, i, &answer->values[i]);
    if (!read)
        return query_fail(answer->query, error);
    *row = &answer->row;
    return ESPER_OK;
}

void query_end(struct query_answer *answer)
{
    if (!answer)
        return;
    for (int i = 0; answer->keys && i < answer->columns.count; i++)
        sqlite3_free(answer->keys[i]);
    sqlite3_finalize(answer->statement);
    memory_free(answer->names);
    memory_free(answer->keys);
    memory_free(answer->values);
    memory_free(answer);
}

/* Hands a row over; the time that takes (a pager, a pipe) does not count towards the limit. */
static enum esper_status hand_over(struct query *query, const struct query_row *next, query_take row, void *context,
                                   struct esper_error *error)
{
    double start = clock_seconds();
    TRY(row(context, next, error));
    if (query->end > 0)
        query->end += clock_seconds() - start;
    return ESPER_OK;
}

/* The first row is found before the columns are handed out: a failure until then produces no output. */
static enum esper_status take_rows(struct query *query, struct query_answer *answer, query_take row, void *context,
                                   struct esper_error *error)
{
    const struct query_row *next;
    TRY(query_next(answer, &next, error));
    TRY(hand_over(query, query_columns(answer), row, context, error));
    for (int64_t count = 0; next; count++) {
        if (query->options.rows > 0 && count == query->options.rows) {
            query->cut = true;
            return ESPER_OK;
        }
        TRY(hand_over(query, next, row, context, error));
        TRY(query_next(answer, &next, error));
    }
    return ESPER_OK;
}

enum esper_status query_run(struct query *query, const char *sql, const struct query_options *options, query_take row,
                            void *context, struct esper_error *error)
{
    struct query_answer *answer;
    query->cut = false;
    TRY(query_ask(query, sql, options, &answer, error));
    enum esper_status status = take_rows(query, answer, row, context, error);
    query_end(answer);
    return status;
}

bool query_was_cut(const struct query *query)
{
    return query->cut;
}

enum esper_status query_find_table(struct query *query, const char *table, struct esper_error *error)
{
    char word[64], nearest[64];
    forget_options(query);
    snprintf(word, sizeof word, "%s", table);
    for (char *at = word; *at; at++)
        *at = (char)(*at >= 'A' && *at <= 'Z' ? *at + 'a' - 'A' : *at); /* our tables are in lower case */
    find_nearest(query, TABLE_NAMES, word, nearest);
    if (*table && strcmp(nearest, table) == 0)
        return ESPER_OK;
    return error_set(error, ESPER_INVALID, "the record has no table \"%s\"%s%s%s", word,
                     *nearest ? "; did you mean \"" : "; `esper sql RUN` lists them", nearest, *nearest ? "\"?" : "");
}
