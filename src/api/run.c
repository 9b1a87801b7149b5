/* The record of a run as a handle: questions in SQL that only read, their answers as columns. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/parts.h"
#include "base/memory.h"
#include "telemetry/query.h"
#include "telemetry/store.h"

/* A value of the answer. Texts lie one after the other in a pool, which moves while it grows: they are known by place.
 */
struct cell {
    enum query_kind kind;
    union {
        int64_t integer;
        double real;
        size_t text;
    };
};

struct esper_run {
    struct api_handle handle;
    struct run run;
    struct query *query;

    /* the answer to the last question */
    uint32_t columns;
    size_t rows, cell_room;
    char **names;       /* [columns] */
    struct cell *cells; /* [rows][columns] */
    char *texts;
    size_t text_used, text_room;
};

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static void forget(struct esper_run *run)
{
    for (uint32_t i = 0; run->names && i < run->columns; i++)
        memory_free(run->names[i]);
    memory_free(run->names);
    memory_free(run->cells);
    memory_free(run->texts);
    run->names = NULL;
    run->cells = NULL;
    run->texts = NULL;
    run->columns = 0;
    run->rows = run->cell_room = run->text_used = run->text_room = 0;
}

static enum esper_status open_record(struct esper_run *run, const char *source, struct esper_error *error)
{
    TRY(run_open(&run->run, "runs", source, error));
    enum esper_status status = query_open(&run->query, &run->run, error);
    run_close(&run->run);
    return status;
}

enum esper_status esper_run_open(struct esper_run **out, const char *source, struct esper_error *error)
{
    if (!out)
        return error_set(error, ESPER_INVALID, "esper_run_open: there is nowhere to put the handle (out is NULL)");
    *out = NULL;
    if (!source)
        return error_set(error, ESPER_INVALID, "esper_run_open: what to open is NULL");
    TRY(api_ready(error));
    struct esper_run *run = memory_alloc(1, sizeof *run, error);
    if (!run)
        return ESPER_FAILED;
    atomic_init(&run->handle.busy, false);
    enum esper_status status = open_record(run, source, error);
    if (status != ESPER_OK)
        memory_free(run);
    else
        *out = run;
    return status;
}

enum esper_status esper_run_close(struct esper_run **run)
{
    if (!run || !*run)
        return ESPER_OK;
    TRY(api_retire(&(*run)->handle));
    forget(*run);
    query_close((*run)->query);
    memory_free(*run);
    *run = NULL;
    return ESPER_OK;
}

const char *esper_run_path(const struct esper_run *run)
{
    return run ? run->run.path : NULL;
}

const char *esper_run_help(const char *table, const char *column)
{
    return table && column ? store_help(table, column) : NULL;
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

/* Room for `wanted` elements of what has room for *room; twice as much as needed, since more will come. */
static enum esper_status grow(void **array, size_t *room, size_t wanted, size_t size, struct esper_error *error)
{
    if (wanted <= *room)
        return ESPER_OK;
    void *larger = memory_alloc(2 * wanted, size, error);
    if (!larger)
        return ESPER_FAILED;
    if (*room)
        memcpy(larger, *array, *room * size);
    memory_free(*array);
    *array = larger;
    *room = 2 * wanted;
    return ESPER_OK;
}

/* A blob as hexadecimal digits, as `esper sql --csv` writes it. */
static enum esper_status take_text(struct esper_run *run, const struct query_value *value, struct cell *out,
                                   struct esper_error *error)
{
    const bool blob = value->kind == QUERY_BLOB;
    const size_t bytes = blob ? 2 * value->bytes : value->bytes;
    TRY(grow((void **)&run->texts, &run->text_room, run->text_used + bytes + 1, 1, error));
    char *text = run->texts + run->text_used;
    if (!blob)
        memcpy(text, value->text, bytes);
    for (size_t i = 0; blob && i < value->bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", (unsigned)(unsigned char)value->text[i]);
    text[bytes] = '\0';
    *out = (struct cell){.kind = QUERY_TEXT, .text = run->text_used};
    run->text_used += bytes + 1;
    return ESPER_OK;
}

static enum esper_status take_names(struct esper_run *run, const struct query_row *row, struct esper_error *error)
{
    run->names = memory_alloc((size_t)row->count, sizeof *run->names, error);
    if (!run->names)
        return ESPER_FAILED;
    run->columns = (uint32_t)row->count;
    for (int i = 0; i < row->count; i++) {
        const size_t bytes = strlen(row->keys[i]) + 1;
        if (!(run->names[i] = memory_alloc(bytes, 1, error)))
            return ESPER_FAILED;
        memcpy(run->names[i], row->keys[i], bytes);
    }
    return ESPER_OK;
}

static enum esper_status take_row(void *context, const struct query_row *row, struct esper_error *error)
{
    struct esper_run *run = context;
    if (!row->values)
        return take_names(run, row, error);
    TRY(grow((void **)&run->cells, &run->cell_room, (run->rows + 1) * run->columns, sizeof *run->cells, error));
    struct cell *cell = run->cells + run->rows * run->columns;
    for (int i = 0; i < row->count; i++, cell++) {
        const struct query_value *value = &row->values[i];
        if (value->kind == QUERY_TEXT || value->kind == QUERY_BLOB)
            TRY(take_text(run, value, cell, error));
        else if (value->kind == QUERY_INTEGER)
            *cell = (struct cell){.kind = QUERY_INTEGER, .integer = value->integer};
        else
            *cell = (struct cell){.kind = value->kind, .real = value->real};
    }
    run->rows++;
    return ESPER_OK;
}

static enum esper_status ask(struct esper_run *run, const char *sql, size_t *rows, uint32_t *columns,
                             struct esper_error *error)
{
    if (!sql || !rows || !columns)
        return error_set(error, ESPER_INVALID, "esper_run_ask: %s is NULL", !sql ? "sql" : !rows ? "rows" : "columns");
    forget(run);
    *rows = 0;
    *columns = 0;
    enum esper_status status = query_run(run->query, sql, NULL, take_row, run, error);
    if (status != ESPER_OK) {
        forget(run);
        return status;
    }
    *rows = run->rows;
    *columns = run->columns;
    return ESPER_OK;
}

enum esper_status esper_run_ask(struct esper_run *run, const char *sql, size_t *rows, uint32_t *columns,
                                struct esper_error *error)
{
    TRY(api_enter(run ? &run->handle : NULL, "esper_run_ask", error));
    return api_leave(&run->handle, ask(run, sql, rows, columns, error));
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

static const struct cell *cell_at(const struct esper_run *run, size_t row, uint32_t column)
{
    return &run->cells[row * run->columns + column];
}

const char *esper_run_column_name(const struct esper_run *run, uint32_t column)
{
    return run && !api_busy(&run->handle) && column < run->columns ? run->names[column] : NULL;
}

/* The most general of its values: one text makes texts of all, one real or one that is missing makes reals. */
static enum esper_column kind_of(const struct esper_run *run, uint32_t column)
{
    enum esper_column kind = ESPER_COLUMN_INTEGERS;
    if (column >= run->columns)
        return ESPER_COLUMN_NONE;
    for (size_t row = 0; row < run->rows; row++) {
        const enum query_kind value = cell_at(run, row, column)->kind;
        if (value == QUERY_TEXT)
            return ESPER_COLUMN_TEXTS;
        if (value != QUERY_INTEGER)
            kind = ESPER_COLUMN_REALS;
    }
    return kind;
}

enum esper_column esper_run_column_kind(const struct esper_run *run, uint32_t column)
{
    return run && !api_busy(&run->handle) ? kind_of(run, column) : ESPER_COLUMN_NONE;
}

/* A column of that kind can be told in an array of the caller's. */
static enum esper_status check_column(const struct esper_run *run, uint32_t column, enum esper_column wanted,
                                      const void *out, size_t count, struct esper_error *error)
{
    static const char *const words[] = {"nothing", "integers", "reals", "texts"};
    const enum esper_column kind = kind_of(run, column);
    if (kind == ESPER_COLUMN_NONE)
        return error_set(error, ESPER_INVALID, "column %u: the answer has %u", (unsigned)column,
                         (unsigned)run->columns);
    if (kind > wanted || (wanted == ESPER_COLUMN_TEXTS && kind != wanted))
        return error_set(error, ESPER_INVALID, "column %s holds %s, not %s", run->names[column], words[kind],
                         words[wanted]);
    if (run->rows == 0 && count == 0)
        return ESPER_OK;
    return api_array("esper_run: out [rows]", out, count, run->rows, error);
}

static enum esper_status integers(const struct esper_run *run, uint32_t column, int64_t *out, size_t count,
                                  struct esper_error *error)
{
    TRY(check_column(run, column, ESPER_COLUMN_INTEGERS, out, count, error));
    for (size_t row = 0; row < run->rows; row++)
        out[row] = cell_at(run, row, column)->integer;
    return ESPER_OK;
}

static enum esper_status reals(const struct esper_run *run, uint32_t column, double *out, size_t count,
                               struct esper_error *error)
{
    TRY(check_column(run, column, ESPER_COLUMN_REALS, out, count, error));
    for (size_t row = 0; row < run->rows; row++) {
        const struct cell *cell = cell_at(run, row, column);
        out[row] = cell->kind == QUERY_INTEGER ? (double)cell->integer : cell->kind == QUERY_REAL ? cell->real : NAN;
    }
    return ESPER_OK;
}

static enum esper_status texts(const struct esper_run *run, uint32_t column, const char **out, size_t count,
                               struct esper_error *error)
{
    TRY(check_column(run, column, ESPER_COLUMN_TEXTS, out, count, error));
    for (size_t row = 0; row < run->rows; row++) {
        const struct cell *cell = cell_at(run, row, column);
        if (cell->kind == QUERY_INTEGER || cell->kind == QUERY_REAL)
            return error_set(error, ESPER_INVALID, "column %s mixes texts and numbers; cast it in the question",
                             run->names[column]);
        out[row] = cell->kind == QUERY_TEXT ? run->texts + cell->text : NULL;
    }
    return ESPER_OK;
}

#define TELL(what, type)                                                                                               \
    enum esper_status esper_run_##what(struct esper_run *run, uint32_t column, type *out, size_t count,                \
                                       struct esper_error *error)                                                      \
    {                                                                                                                  \
        TRY(api_enter(run ? &run->handle : NULL, "esper_run_" #what, error));                                          \
        return api_leave(&run->handle, what(run, column, out, count, error));                                          \
    }
TELL(integers, int64_t)
TELL(reals, double)
TELL(texts, const char *)
