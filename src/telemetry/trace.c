#include "telemetry/trace.h"

#include <inttypes.h>
#include <string.h>

#include "base/round.h"
#include "telemetry/dump.h"

enum { PROCESS = 1 }; /* a trace needs a process number */

/* ---- events ------------------------------------------------------------------------------------------------------ */

/* The name of a process or thread, before its spans. */
static void put_name(FILE *file, const char *kind, int64_t thread, const char *name)
{
    fprintf(file, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%" PRId64 ",\"args\":{\"name\":", kind, PROCESS,
            thread);
    dump_json_text(file, name, strlen(name));
    fputs("}}", file);
}

static void put_process(FILE *file)
{
    fputs("[\n", file);
    put_name(file, "process_name", 0, "esper");
}

static void put_thread(FILE *file, int64_t thread)
{
    char name[32];
    snprintf(name, sizeof name, "thread %" PRId64, thread);
    fputs(",\n", file);
    put_name(file, "thread_name", thread, name);
}

static void put_event(FILE *file, const struct trace_event *event)
{
    fputs(",\n{\"ph\":\"X\",\"name\":", file);
    dump_json_text(file, event->name, strlen(event->name));
    fprintf(file, ",\"pid\":%d,\"tid\":%" PRId64 ",\"ts\":%" PRId64 ",\"dur\":%" PRId64 ",\"args\":{", PROCESS,
            event->thread, event->start_us, event->duration_us);
    if (event->round >= 0)
        fprintf(file, "\"round\":%" PRId64, round_shown(event->round));
    if (event->step >= 0)
        fprintf(file, "%s\"step\":%" PRId64, event->round >= 0 ? "," : "", event->step);
    fputs("}}", file);
}

static enum esper_status put_end(FILE *file, struct esper_error *error)
{
    fputs("\n]\n", file);
    return dump_finish(file, error);
}

static bool is_first_of_thread(const struct trace_event *events, size_t at)
{
    for (size_t i = at; i-- > 0;)
        if (events[i].thread == events[at].thread)
            return false;
    return true;
}

enum esper_status trace_write(FILE *file, const struct trace_event *events, size_t count, struct esper_error *error)
{
    put_process(file);
    for (size_t i = 0; i < count && !ferror(file); i++) {
        if (is_first_of_thread(events, i))
            put_thread(file, events[i].thread);
        put_event(file, &events[i]);
    }
    return put_end(file, error);
}

/* ---- the record's ------------------------------------------------------------------------------------------------ */

static int64_t integer_or(const struct query_value *value, int64_t otherwise)
{
    return value->kind == QUERY_INTEGER ? value->integer : otherwise;
}

static enum esper_status take_count(void *context, const struct query_row *row, struct esper_error *error)
{
    (void)error;
    if (row->values)
        *(int64_t *)context = integer_or(&row->values[0], 0);
    return ESPER_OK;
}

static enum esper_status take_thread(void *context, const struct query_row *row, struct esper_error *error)
{
    (void)error;
    if (row->values)
        put_thread(context, integer_or(&row->values[0], 0));
    return ESPER_OK;
}

static enum esper_status take_event(void *context, const struct query_row *row, struct esper_error *error)
{
    FILE *file = context;
    if (!row->values)
        return ESPER_OK;
    const struct query_value *value = row->values;
    const struct trace_event event = {.name = value[0].kind == QUERY_TEXT ? value[0].text : "",
                                      .thread = integer_or(&value[1], 0),
                                      .start_us = integer_or(&value[2], 0),
                                      .duration_us = integer_or(&value[3], 0),
                                      .round = integer_or(&value[4], -1),
                                      .step = integer_or(&value[5], -1)};
    put_event(file, &event);
    return ferror(file) ? dump_finish(file, error) : ESPER_OK;
}

/* Spans that start together are written longest first: the others are nested in it. */
static enum esper_status write_phases(struct query *query, FILE *file, struct esper_error *error)
{
    put_process(file);
    TRY(query_run(query, "SELECT DISTINCT thread FROM phase ORDER BY thread", NULL, take_thread, file, error));
    TRY(query_run(query,
                  "SELECT name, thread, start_us, duration_us, round, step FROM phase ORDER BY start_us, "
                  "duration_us DESC",
                  NULL, take_event, file, error));
    return put_end(file, error);
}

enum esper_status dump_trace(const struct run *run, FILE *file, struct esper_error *error)
{
    struct query *query;
    int64_t phases = 0;
    TRY(query_open(&query, run, error));
    enum esper_status status = query_hold(query, error);
    if (status == ESPER_OK && query_find_table(query, "phase", NULL) == ESPER_OK)
        status = query_run(query, "SELECT count(*) FROM phase", NULL, take_count, &phases, error);
    if (status == ESPER_OK && phases == 0)
        status = error_set(error, ESPER_INVALID, "%s: the run recorded no phases", run->path);
    if (status == ESPER_OK)
        status = write_phases(query, file, error);
    query_close(query);
    return status;
}
