#include "telemetry/tensorboard.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/vocabulary.h"
#include "telemetry/query.h"

enum {
    TAGS = 200, /* in an event at most */
    TAG = 100,  /* longest tag, bytes: the length of a value is a single byte */
    VALUE = 2 + 2 + TAG + 5,
    HEAD = 64 /* bytes before the values of an event */
};

/* ---- records: length, its checksum, an Event message, its checksum ---------------------------------------------- */

uint32_t tensorboard_crc(const void *data, size_t bytes)
{
    const uint8_t *at = data;
    uint32_t crc = ~0u;
    for (; bytes; bytes--) {
        crc ^= *at++;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    return ~crc;
}

/* Checksums of data that contain checksums are weak, so they are stored rotated and offset. */
static uint32_t masked_crc(const void *data, size_t bytes)
{
    uint32_t crc = tensorboard_crc(data, bytes);
    return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers in the file are as in memory");

static enum esper_status write_record(struct file_writer *file, const void *event, uint64_t bytes,
                                      struct esper_error *error)
{
    uint32_t of_length = masked_crc(&bytes, sizeof bytes), of_event = masked_crc(event, (size_t)bytes);
    TRY(file_write(file, &bytes, sizeof bytes, error));
    TRY(file_write(file, &of_length, sizeof of_length, error));
    TRY(file_write(file, event, (size_t)bytes, error));
    return file_write(file, &of_event, sizeof of_event, error);
}

/* ---- messages, in the wire format of protocol buffers ----------------------------------------------------------- */

/* field << 3 | wire type, for Event, its Summary and the Summary's Value */
enum {
    WALL_TIME = 0x09,
    STEP = 0x10,
    FILE_VERSION = 0x1A,
    SUMMARY = 0x2A,
    A_VALUE = 0x0A,
    ITS_TAG = 0x0A,
    SIMPLE = 0x15
};

struct summary {
    uint8_t bytes[TAGS * VALUE];
    size_t used;
    int tags;
};

static size_t put_varint(uint8_t *at, uint64_t value)
{
    size_t length = 0;
    for (; value >= 0x80; value >>= 7)
        at[length++] = (uint8_t)(value | 0x80);
    at[length++] = (uint8_t)value;
    return length;
}

/* The record may come from anywhere: characters that TensorBoard does not allow in tags are replaced. */
static size_t clean(char *text)
{
    for (char *at = text; *at; at++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./", *at))
            *at = '_';
    return strlen(text);
}

static void add_value(struct summary *summary, const char *group, const char *name, double number)
{
    char tag[TAG + 1];
    float value = (float)number;
    if (!isfinite(value) || summary->tags == TAGS)
        return;
    snprintf(tag, sizeof tag, "%s/%s", group, name);
    size_t length = clean(tag);
    uint8_t *at = summary->bytes + summary->used;
    *at++ = A_VALUE;
    *at++ = (uint8_t)(2 + length + 1 + sizeof value);
    *at++ = ITS_TAG;
    *at++ = (uint8_t)length;
    memcpy(at, tag, length);
    at += length;
    *at++ = SIMPLE;
    memcpy(at, &value, sizeof value);
    summary->used = (size_t)(at + sizeof value - summary->bytes);
    summary->tags++;
}

static size_t put_time(uint8_t *at, double seconds)
{
    *at = WALL_TIME;
    memcpy(at + 1, &seconds, sizeof seconds);
    return 1 + sizeof seconds;
}

static enum esper_status write_version(struct file_writer *file, double time, struct esper_error *error)
{
    static const char version[] = "brain.Event:2"; /* the first record of a file */
    uint8_t event[HEAD];
    size_t used = put_time(event, time);
    event[used++] = FILE_VERSION;
    event[used++] = sizeof version - 1;
    memcpy(event + used, version, sizeof version - 1);
    return write_record(file, event, used + sizeof version - 1, error);
}

static enum esper_status write_summary(struct file_writer *file, double time, int64_t step,
                                       const struct summary *summary, struct esper_error *error)
{
    uint8_t event[HEAD + sizeof summary->bytes];
    size_t used = put_time(event, time);
    event[used++] = STEP;
    used += put_varint(event + used, (uint64_t)step);
    event[used++] = SUMMARY;
    used += put_varint(event + used, summary->used);
    memcpy(event + used, summary->bytes, summary->used);
    return write_record(file, event, used + summary->used, error);
}

/* ---- the record -------------------------------------------------------------------------------------------------- */

/* A table read by round. */
struct table {
    struct query_answer *answer;
    const struct query_row *row; /* NULL: no more rows */
    int round, name, seconds;    /* columns; -1: none */
};

struct export
{
    struct query *query;
    struct table rounds, ppo, heads;
    struct file_writer file;
    struct summary summary;
    double time;
    int count;
};

static int find_column(const struct query_row *row, const char *name)
{
    for (int i = 0; i < row->count; i++)
        if (strcmp(row->names[i], name) == 0)
            return i;
    return -1;
}

static enum esper_status open_table(struct export *export, struct table *table, const char *sql,
                                    struct esper_error *error)
{
    TRY(query_ask(export->query, sql, NULL, &table->answer, error));
    const struct query_row *columns = query_columns(table->answer);
    table->round = find_column(columns, "round");
    table->name = find_column(columns, "head");
    table->seconds = find_column(columns, "seconds");
    return query_next(table->answer, &table->row, error);
}

static bool number_of(const struct query_value *value, double *number)
{
    *number = value->kind == QUERY_INTEGER ? (double)value->integer : value->real;
    return value->kind == QUERY_INTEGER || value->kind == QUERY_REAL;
}

static int64_t round_of(const struct table *table)
{
    return table->row->values[table->round].integer;
}

/* Columns that count seeds by stage, or their fates. */
static bool is_of_seeds(const char *column)
{
    static const char *const names[] = {LIVE_STAGES(WORD_NAME, ) "cooling", "germinations", "fossilizations", "prunes"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(column, names[i]) == 0)
            return true;
    return false;
}

static void add_row(struct export *export, const struct table *table, const char *group, bool seeds)
{
    const struct query_row *row = table->row;
    double number;
    for (int i = 0; i < row->count; i++)
        if (i != table->round && number_of(&row->values[i], &number))
            add_value(&export->summary, seeds && is_of_seeds(row->names[i]) ? "seeds" : group, row->names[i], number);
}

/* Adds the table's rows of the round; rows of rounds that never ended are skipped. */
static enum esper_status add_rows(struct export *export, struct table *table, int64_t round, const char *group,
                                  struct esper_error *error)
{
    while (table->row && round_of(table) <= round) {
        char name[TAG] = "";
        snprintf(name, sizeof name, "%s", group);
        if (table->name >= 0 && table->row->values[table->name].kind == QUERY_TEXT)
            snprintf(name, sizeof name, "%s/%.40s", group, table->row->values[table->name].text);
        if (round_of(table) == round)
            add_row(export, table, name, false);
        TRY(query_next(table->answer, &table->row, error));
    }
    return ESPER_OK;
}

static enum esper_status write_round(struct export *export, struct esper_error *error)
{
    struct table *rounds = &export->rounds;
    int64_t round = round_of(rounds);
    double seconds;
    export->summary.used = 0;
    export->summary.tags = 0;
    add_row(export, rounds, "round", true);
    TRY(add_rows(export, &export->ppo, round, "ppo", error));
    TRY(add_rows(export, &export->heads, round, "head", error));
    if (rounds->seconds >= 0 && number_of(&rounds->row->values[rounds->seconds], &seconds) && isfinite(seconds))
        export->time += seconds;
    TRY(write_summary(&export->file, export->time, round_shown(round), &export->summary, error));
    export->count++;
    return query_next(rounds->answer, &rounds->row, error);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static enum esper_status make_folder(const char *path, struct esper_error *error)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return ESPER_OK; /* a file of that name fails soon enough */
    return error_set(error, ESPER_FAILED, "%s: cannot create the folder: %s", path, strerror(errno));
}

static time_t creation_of(const struct run *run)
{
    struct tm parts = {0};
    return strptime(run->created, "%Y-%m-%dT%H:%M:%S", &parts) ? timegm(&parts) : 0;
}

/* The same name every time, so that a second export replaces the first. */
static enum esper_status make_path(const struct run *run, const char *folder, char path[PATH_MAX],
                                   struct esper_error *error)
{
    int length = snprintf(path, PATH_MAX, "%s/%s", folder, run->name);
    if (!*folder)
        return error_set(error, ESPER_INVALID, "--tensorboard: give a folder");
    if (length >= PATH_MAX - 64)
        return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", folder);
    TRY(make_folder(folder, error));
    TRY(make_folder(path, error));
    snprintf(path + length, 64, "/events.out.tfevents.%lld.esper", (long long)creation_of(run));
    return ESPER_OK;
}

/* ---- all of it -----------------------------------------------------------------------------------------------------
 */

static enum esper_status write_all(struct export *export, const struct run *run, const char *folder,
                                   char path[PATH_MAX], struct esper_error *error)
{
    TRY(query_open(&export->query, run, error));
    TRY(query_hold(export->query, error));
    TRY(open_table(export, &export->rounds, "SELECT * FROM round ORDER BY round", error));
    TRY(open_table(export, &export->ppo, "SELECT * FROM ppo ORDER BY round", error));
    TRY(open_table(export, &export->heads, "SELECT * FROM ppo_head ORDER BY round, head", error));
    if (export->rounds.round < 0 || export->ppo.round < 0 || export->heads.round < 0)
        return error_set(error, ESPER_INVALID, "%s: the record's tables have no rounds", run->path);
    TRY(make_path(run, folder, path, error));
    TRY(file_begin(&export->file, path, error));
    TRY(write_version(&export->file, export->time, error));
    while (export->rounds.row)
        TRY(write_round(export, error));
    return file_commit(&export->file, error);
}

enum esper_status tensorboard_write(const struct run *run, const char *folder, char path[PATH_MAX], int *rounds,
                                    struct esper_error *error)
{
    struct export *export = memory_alloc(1, sizeof *export, error);
    if (!export)
        return ESPER_FAILED;
    export->time = (double)creation_of(run);
    enum esper_status status = write_all(export, run, folder, path, error);
    *rounds = export->count;
    query_end(export->rounds.answer);
    query_end(export->ppo.answer);
    query_end(export->heads.answer);
    query_close(export->query);
    file_abort(&export->file);
    memory_free(export);
    return status;
}
