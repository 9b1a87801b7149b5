#include "telemetry/dump.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/round.h"
#include "base/text.h"

/* ---- values ------------------------------------------------------------------------------------------------------ */

void dump_real(double value, char text[32])
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    if (!strpbrk(text, ".einf"))
        memcpy(text + strlen(text), ".0", 3); /* so that it reads back as a real */
}

static void put_hex(FILE *file, const struct query_value *value)
{
    for (size_t i = 0; i < value->bytes; i++)
        fprintf(file, "%02x", (unsigned)(unsigned char)value->text[i]);
}

/* A file gets the text as it is; a terminal, which would obey what it holds, only what may be shown. */
static void put_csv_text(FILE *file, const char *text, size_t bytes, bool terminal)
{
    bool plain = bytes > 0;
    for (size_t i = 0; i < bytes && plain; i++)
        plain = text[i] && !strchr(",\"\r\n", text[i]);
    if (!plain)
        putc('"', file);
    for (size_t i = 0, length; i < bytes; i += length) {
        length = text_character(text + i, bytes - i);
        bool shown = !terminal || text_shows(text + i, length) || text[i] == '\n';
        length = length ? length : 1;
        if (text[i] == '"')
            putc('"', file);
        if (shown)
            fwrite(text + i, 1, length, file);
        else
            putc('?', file);
    }
    if (!plain)
        putc('"', file);
}

static void put_csv_value(FILE *file, const struct query_value *value, bool terminal)
{
    char text[32];
    switch (value->kind) {
    case QUERY_NULL:
        break;
    case QUERY_INTEGER:
        fprintf(file, "%" PRId64, value->integer);
        break;
    case QUERY_REAL:
        dump_real(value->real, text);
        fputs(text, file);
        break;
    case QUERY_TEXT:
        put_csv_text(file, value->text, value->bytes, terminal);
        break;
    case QUERY_BLOB:
        put_hex(file, value);
        break;
    }
}

void dump_csv_row(FILE *file, const struct query_row *row)
{
    bool terminal = isatty(fileno(file));
    for (int i = 0; i < row->count; i++) {
        if (i)
            putc(',', file);
        if (row->values)
            put_csv_value(file, &row->values[i], terminal);
        else
            put_csv_text(file, row->names[i], strlen(row->names[i]), terminal);
    }
    fputs("\r\n", file);
}

void dump_json_text(FILE *file, const char *text, size_t bytes)
{
    const char *end = text + bytes;
    putc('"', file);
    for (const char *at = text; at < end;) {
        size_t length = text_character(at, (size_t)(end - at));
        if (length == 0)
            fputs("\\ufffd", file);
        else if (!text_shows(at, length) && length == 2) /* U+0080 to U+009F */
            fprintf(file, "\\u%04x", (unsigned)(unsigned char)at[1]);
        else if (!text_shows(at, length) && length == 1)
            fprintf(file, "\\u%04x", (unsigned)*at);
        else if (*at == '"' || *at == '\\')
            fprintf(file, "\\%c", *at);
        else
            fwrite(at, 1, length, file);
        at += length ? length : 1;
    }
    putc('"', file);
}

static void put_json_value(FILE *file, const struct query_value *value)
{
    char text[32];
    switch (value->kind) {
    case QUERY_NULL:
        fputs("null", file);
        break;
    case QUERY_INTEGER:
        fprintf(file, "%" PRId64, value->integer);
        break;
    case QUERY_REAL:
        if (isfinite(value->real))
            dump_real(value->real, text);
        fputs(isfinite(value->real) ? text : "null", file);
        break;
    case QUERY_TEXT:
        dump_json_text(file, value->text, value->bytes);
        break;
    case QUERY_BLOB:
        putc('"', file);
        put_hex(file, value);
        putc('"', file);
        break;
    }
}

void dump_json_row(FILE *file, const struct query_row *row, const char *table)
{
    putc('{', file);
    if (table) {
        fputs("\"table\":", file);
        dump_json_text(file, table, strlen(table));
    }
    for (int i = 0; i < row->count; i++) {
        const char *key = table && strcmp(row->keys[i], "table") == 0 ? "table_column" : row->keys[i];
        if (table || i)
            putc(',', file);
        dump_json_text(file, key, strlen(key));
        putc(':', file);
        put_json_value(file, &row->values[i]);
    }
    putc('}', file);
}

enum esper_status dump_finish(FILE *file, struct esper_error *error)
{
    const int before = ferror(file) ? errno : 0; /* of a write just now, if there is nothing left that could fail */
    errno = 0;
    if (fflush(file) == 0 && !ferror(file))
        return ESPER_OK;
    const int why = errno ? errno : before;
    return error_set(error, ESPER_FAILED, "cannot write the output: %s", why ? strerror(why) : "an earlier error");
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* One table being read, and the time of its next row. */
struct reader {
    struct reader *next;
    char *table;
    struct query_answer *answer;
    const struct query_row *row;   /* NULL: no more rows */
    struct query_row shown;        /* the same, with rounds as people count them */
    struct query_value *values;    /* its values */
    int round_column, step_column; /* -1: none */
    int64_t round, step;
};

/* The tables in the order of the schema, each with the SELECT that reads it: by time, then by its primary key. */
#define QUOTED(name) "'\"' || replace(" name ", '\"', '\"\"') || '\"'"
#define SELECTS                                                                                                              \
    "SELECT m.name, 'SELECT * FROM ' || " QUOTED("m.name") " || ifnull(' ORDER BY ' || (SELECT group_concat(" QUOTED(        \
        "name") ") FROM (SELECT name FROM pragma_table_info(m.name, 'main') WHERE pk OR name IN ('round', 'step') ORDER BY " \
                "CASE name WHEN 'round' THEN -2 WHEN 'step' THEN -1 ELSE pk END)), '') "                                     \
                "FROM sqlite_master m WHERE substr(m.name, 1, 7) <> 'sqlite_' AND "

static void close_readers(struct reader *reader)
{
    while (reader) {
        struct reader *next = reader->next;
        query_end(reader->answer);
        sqlite3_free(reader->table);
        memory_free(reader->values);
        memory_free(reader);
        reader = next;
    }
}

static int find_column(const struct query_row *row, const char *name)
{
    int i = row->count - 1;
    while (i >= 0 && strcmp(row->names[i], name) != 0)
        i--;
    return i;
}

static int64_t time_in(const struct query_row *row, int column, int64_t otherwise)
{
    return column >= 0 && row->values[column].kind == QUERY_INTEGER ? row->values[column].integer : otherwise;
}

/* A checkpoint's round is already a count: the number of finished rounds. */
static void show_round(struct reader *reader)
{
    const struct query_row *row = reader->row;
    memcpy(reader->values, row->values, (size_t)row->count * sizeof *row->values);
    reader->shown = (struct query_row){row->count, row->names, row->keys, reader->values};
    if (reader->round != INT64_MIN)
        reader->values[reader->round_column].integer =
            strcmp(reader->table, "checkpoint") == 0 ? rounds_before(reader->round) : round_shown(reader->round);
}

static enum esper_status read_next(struct reader *reader, struct esper_error *error)
{
    TRY(query_next(reader->answer, &reader->row, error));
    if (reader->row) {
        reader->round = time_in(reader->row, reader->round_column, INT64_MIN);
        reader->step = time_in(reader->row, reader->step_column, INT64_MAX);
        show_round(reader);
    }
    return ESPER_OK;
}

static enum esper_status open_reader(struct query *query, const struct query_row *plan, struct reader **out,
                                     struct esper_error *error)
{
    struct reader *reader = *out = memory_alloc(1, sizeof *reader, error);
    if (!reader)
        return ESPER_FAILED;
    reader->table = sqlite3_mprintf("%s", plan->values[0].text);
    if (!reader->table)
        return error_set(error, ESPER_FAILED, "out of memory while reading the tables");
    TRY(query_ask(query, plan->values[1].text, NULL, &reader->answer, error));
    const struct query_row *columns = query_columns(reader->answer);
    reader->round_column = find_column(columns, "round");
    reader->step_column = find_column(columns, "step");
    reader->values = memory_alloc((size_t)columns->count, sizeof *reader->values, error);
    if (!reader->values)
        return ESPER_FAILED;
    return read_next(reader, error);
}

/* Readers of all tables that `sql`, one of SELECTS, yields. */
static enum esper_status open_readers(struct query *query, const char *sql, struct reader **first,
                                      struct esper_error *error)
{
    struct query_answer *plans;
    const struct query_row *plan;
    struct reader **last = first;
    TRY(query_ask(query, sql, NULL, &plans, error));
    enum esper_status status = query_next(plans, &plan, error);
    while (status == ESPER_OK && plan) {
        status = open_reader(query, plan, last, error);
        if (status == ESPER_OK) {
            last = &(*last)->next;
            status = query_next(plans, &plan, error);
        }
    }
    query_end(plans);
    return status;
}

/* The reader whose row comes first; on a tie, that of the earlier table. NULL: all are at their end. */
static struct reader *earliest(struct reader *reader)
{
    struct reader *best = NULL;
    for (; reader; reader = reader->next)
        if (reader->row &&
            (!best || reader->round < best->round || (reader->round == best->round && reader->step < best->step)))
            best = reader;
    return best;
}

static enum esper_status write_lines(struct reader *readers, FILE *file, struct esper_error *error)
{
    for (struct reader *reader; (reader = earliest(readers)) && !ferror(file);) {
        dump_json_row(file, &reader->shown, reader->table);
        putc('\n', file);
        TRY(read_next(reader, error));
    }
    return dump_finish(file, error);
}

static enum esper_status write_table(struct reader *reader, FILE *file, struct esper_error *error)
{
    dump_csv_row(file, query_columns(reader->answer));
    while (reader->row && !ferror(file)) {
        dump_csv_row(file, &reader->shown);
        TRY(read_next(reader, error));
    }
    return dump_finish(file, error);
}

enum esper_status dump_jsonl(const struct run *run, FILE *file, struct esper_error *error)
{
    struct query *query;
    struct reader *readers = NULL;
    TRY(query_open(&query, run, error));
    enum esper_status status = query_hold(query, error);
    if (status == ESPER_OK)
        status = open_readers(query, SELECTS "m.type = 'table' ORDER BY m.rowid", &readers, error);
    if (status == ESPER_OK)
        status = write_lines(readers, file, error);
    close_readers(readers);
    query_close(query);
    return status;
}

enum esper_status dump_csv(const struct run *run, const char *table, FILE *file, struct esper_error *error)
{
    struct query *query;
    struct reader *reader = NULL;
    TRY(query_open(&query, run, error));
    char *sql = sqlite3_mprintf(SELECTS "m.type = 'table' AND m.name = %Q", table);
    enum esper_status status = query_find_table(query, table, error);
    if (status == ESPER_OK && !sql)
        status = error_set(error, ESPER_FAILED, "out of memory while reading the tables");
    if (status == ESPER_OK)
        status = open_readers(query, sql, &reader, error);
    if (status == ESPER_OK && !reader)
        status = error_set(error, ESPER_FAILED, "the table %s is gone", table);
    if (status == ESPER_OK)
        status = write_table(reader, file, error);
    sqlite3_free(sql);
    close_readers(reader);
    query_close(query);
    return status;
}

enum esper_status dump_file(const struct run *run, dump_writer *write, const char *table, const char *path,
                            struct esper_error *error)
{
    struct file_writer writer;
    TRY(file_begin(&writer, path, error));
    int fd = dup(writer.fd);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    enum esper_status status = file ? write(run, table, file, error)
                                    : error_set(error, ESPER_FAILED, "%s: cannot be opened for writing", path);
    if (file && fclose(file) != 0 && status == ESPER_OK)
        status = error_set(error, ESPER_FAILED, "%s: cannot be written", path);
    if (status == ESPER_OK)
        return file_commit(&writer, error);
    file_abort(&writer);
    return status;
}
