/*
 * Server-sent events: what is new in a run, as it happens. Each stream has the thread of its connection; of the streams
 * that watch one run, one looks for all of them, and reads only when a file of the run has changed. Between looks no
 * transaction is open, so that the trainer's log can be checkpointed.
 */
#ifdef HAVE_HTTP
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/stream.h"
#include "telemetry/dump.h"
#include "telemetry/store_schema.h"
#include "view/serve_parts.h"

#define LOOK_SECONDS  0.3 /* three ticks a second at most */
#define SIGHT_SECONDS 1.0 /* for a look: all streams wait meanwhile */
#define BEAT_SECONDS  10.0

struct stream {
    struct server *server;
    struct client *client;
    struct run run;
    struct query *query; /* NULL: not needed yet, or the record is not there yet */
    struct sight seen;
    bool greeted, ended;
    double looked, spoke;
    char *text; /* being sent to the client */
    size_t bytes, sent;
};

/* ---- looking ----------------------------------------------------------------------------------------------------- */

#define SIGHT_SQL                                                                                                      \
    "SELECT (SELECT count(*) FROM round), s.round, s.step, a.round, a.count FROM (SELECT 1)"                           \
    " LEFT JOIN (SELECT round, step FROM step ORDER BY round DESC, step DESC LIMIT 1) s"                               \
    " LEFT JOIN (SELECT round, count(*) AS count FROM alert GROUP BY round ORDER BY round DESC LIMIT 1) a"

static enum esper_status read_sight(struct stream *stream, struct sight *sight)
{
    const struct query_options options = {.timeout = SIGHT_SECONDS, .stop = stream->server->api.stop};
    int64_t *const numbers[] = {&sight->rounds_done, &sight->newest_round, &sight->newest_step, &sight->alert_round,
                                &sight->alert_count};
    struct query_answer *answer;
    const struct query_row *row;
    TRY(query_ask(stream->query, SIGHT_SQL, &options, &answer, NULL));
    enum esper_status status = query_next(answer, &row, NULL);
    for (int i = 0; status == ESPER_OK && row && i < 5; i++)
        *numbers[i] = row->values[i].kind == QUERY_INTEGER ? row->values[i].integer : RECORD_NONE;
    query_end(answer);
    return status;
}

static bool open_record(struct stream *stream)
{
    if (!stream->query && query_open(&stream->query, &stream->run, NULL) != ESPER_OK)
        stream->query = NULL;
    return stream->query != NULL;
}

static const struct sight nothing_seen = {"running", RECORD_NONE, RECORD_NONE, RECORD_NONE, RECORD_NONE, RECORD_NONE};

/* The run's place, or that of the run looked at least recently. */
static struct sighting *sighting_of(struct server *server, const char *run)
{
    struct sighting *oldest = &server->sightings[0];
    for (int i = 0; i < SERVE_SIGHTINGS; i++) {
        struct sighting *each = &server->sightings[i];
        if (strcmp(each->name, run) == 0)
            return each;
        if (each->taken < oldest->taken)
            oldest = each;
    }
    *oldest = (struct sighting){.sight = nothing_seen};
    snprintf(oldest->name, sizeof oldest->name, "%s", run);
    return oldest;
}

/* What cannot be read now is retried later. */
static void refresh(struct stream *stream, struct sighting *sighting)
{
    struct run_status status;
    struct run_mark mark;
    double begun = clock_seconds();
    bool settled = run_mark_take(stream->server->api.runs, stream->run.name, &mark);
    if (!(sighting->marked && run_mark_equal(&mark, &sighting->mark))) {
        bool read = run_get_status(&stream->run, &status, NULL) == ESPER_OK;
        if (read)
            sighting->sight.state = run_state_name(&status);
        read = read && open_record(stream) && read_sight(stream, &sighting->sight) == ESPER_OK;
        sighting->mark = mark;
        sighting->marked = read && settled;
    }
    sighting->taken = clock_seconds();
    sighting->due = fmax(begun + 0.9 * LOOK_SECONDS, sighting->taken + 10 * (sighting->taken - begun) - 0.1);
}

/* A look that is not older than the time between looks. */
static void look(struct stream *stream, struct sight *sight)
{
    struct server *server = stream->server;
    pthread_mutex_lock(&server->looking);
    struct sighting *sighting = sighting_of(server, stream->run.name);
    if (clock_seconds() >= sighting->due)
        refresh(stream, sighting);
    *sight = sighting->sight;
    pthread_mutex_unlock(&server->looking);
}

double stream_told(struct server *server, const char *run)
{
    double told = 0;
    if (pthread_mutex_trylock(&server->looking) != 0) /* a slow record must not hold up the others */
        return 0;
    for (int i = 0; i < SERVE_SIGHTINGS; i++)
        if (strcmp(server->sightings[i].name, run) == 0 &&
            clock_seconds() - server->sightings[i].taken < 2 * LOOK_SECONDS)
            told = server->sightings[i].taken;
    pthread_mutex_unlock(&server->looking);
    return told;
}

static bool differs(const struct sight *a, const struct sight *b)
{
    return strcmp(a->state, b->state) != 0 || a->rounds_done != b->rounds_done || a->newest_round != b->newest_round ||
           a->newest_step != b->newest_step || a->alert_round != b->alert_round || a->alert_count != b->alert_count;
}

/* ---- reporting --------------------------------------------------------------------------------------------------- */

static void json_optional(struct json_out *out, const char *key, int64_t value)
{
    if (value == RECORD_NONE)
        json_text(out, key, NULL);
    else
        json_integer(out, key, value);
}

static void write_sight(struct json_out *out, const struct sight *sight)
{
    json_text(out, "state", sight->state);
    json_optional(out, "rounds_done", sight->rounds_done);
    json_optional(out, "newest_round", sight->newest_round);
    json_optional(out, "newest_step", sight->newest_step);
}

/* Alerts written since the last event. Those of a partly reported round come again: rule and round identify them.
 */
static void write_alerts(struct stream *stream, struct json_out *out, const struct sight *sight)
{
    const struct query_options options = {.timeout = API_SECONDS, .stop = stream->server->api.stop};
    struct query_answer *answer;
    const struct query_row *row;
    char sql[160];
    int64_t known = stream->seen.alert_round, first = known == RECORD_NONE ? 0 : known;
    bool changed = sight->alert_round != known || sight->alert_count != stream->seen.alert_count;
    if (sight->alert_round != known && known != RECORD_NONE)
        first++;
    json_open(out, "alerts", '[');
    snprintf(sql, sizeof sql, "SELECT * FROM alert WHERE round >= %" PRId64 " ORDER BY round DESC, rule LIMIT 20",
             first);
    if (changed && open_record(stream) && query_ask(stream->query, sql, &options, &answer, NULL) == ESPER_OK) {
        while (query_next(answer, &row, NULL) == ESPER_OK && row) {
            json_open(out, NULL, '{');
            for (int i = 0; i < row->count; i++)
                json_value(out, row->keys[i], &row->values[i]);
            json_close(out, '}');
        }
        query_end(answer);
    }
    json_close(out, ']');
}

/* The next event as text; false: out of memory. */
static bool tell(struct stream *stream, const char *event, const struct sight *sight)
{
    FILE *file = stream_open(&stream->text, &stream->bytes);
    if (!file)
        return false;
    fprintf(file, "%sevent: %s\ndata: ", stream->greeted ? "" : "retry: 1000\n\n", event);
    struct json_out out = {.file = file};
    json_open(&out, NULL, '{');
    if (strcmp(event, "hello") == 0) {
        json_integer(&out, "api", API_VERSION);
        json_integer(&out, "schema", STORE_VERSION);
        json_text(&out, "version", ESPER_VERSION);
        json_text(&out, "name", stream->run.name);
    }
    write_sight(&out, sight);
    if (strcmp(event, "tick") == 0)
        write_alerts(stream, &out, sight);
    json_close(&out, '}');
    fputs("\n\n", file);
    stream->sent = 0;
    stream->greeted = true;
    stream->seen = *sight;
    return fclose(file) == 0;
}

static bool beat(struct stream *stream)
{
    stream->text = strdup(": beat\n\n");
    stream->bytes = strlen(": beat\n\n");
    stream->sent = 0;
    return stream->text != NULL;
}

/* Waits until it is time to look again; false: the client is gone or the server is stopping. */
static bool wait_for_next_look(const struct stream *stream)
{
    struct pollfd fds[] = {{.fd = stream->client->fd, .events = POLLRDHUP}, {stream->server->stop_event, POLLIN, 0}};
    double left = stream->looked + LOOK_SECONDS - clock_seconds();
    int ready = poll(fds, 2, left > 0 ? (int)(1000 * left) + 1 : 0);
    return ready <= 0 && !stream->server->stopping;
}

/* The next text for the client; false: there is no more. */
static bool next_text(struct stream *stream)
{
    while (!stream->ended && (!stream->greeted || wait_for_next_look(stream))) {
        struct sight sight;
        bool told = false, first = !stream->greeted;
        look(stream, &sight);
        stream->looked = clock_seconds();
        if (first)
            told = tell(stream, "hello", &sight);
        else if (strcmp(sight.state, "running") != 0) {
            stream->ended = true;
            told = tell(stream, "end", &sight);
        } else if (differs(&sight, &stream->seen))
            told = tell(stream, "tick", &sight);
        else if (stream->looked - stream->spoke > BEAT_SECONDS)
            told = beat(stream);
        else
            continue;
        stream->spoke = stream->looked;
        return told;
    }
    return false;
}

/* ---- the response ------------------------------------------------------------------------------------------------ */

static ssize_t on_read(void *context, uint64_t position, char *buffer, size_t most)
{
    struct stream *stream = context;
    (void)position;
    if (stream->sent == stream->bytes) {
        free(stream->text);
        stream->text = NULL;
        stream->bytes = stream->sent = 0;
        if (!next_text(stream))
            return MHD_CONTENT_READER_END_OF_STREAM;
    }
    size_t rest = stream->bytes - stream->sent, bytes = rest < most ? rest : most;
    memcpy(buffer, stream->text + stream->sent, bytes);
    stream->sent += bytes;
    return (ssize_t)bytes;
}

static void on_free(void *context)
{
    struct stream *stream = context;
    pthread_mutex_lock(&stream->server->mutex);
    stream->server->streams--;
    pthread_mutex_unlock(&stream->server->mutex);
    query_close(stream->query);
    free(stream->text);
    memory_free(stream);
}

static bool take_place(struct server *server)
{
    pthread_mutex_lock(&server->mutex);
    bool free_place = server->streams < SERVE_STREAMS;
    server->streams += free_place;
    pthread_mutex_unlock(&server->mutex);
    return free_place;
}

struct MHD_Response *stream_create(struct server *server, const struct run *run, struct client *client,
                                   struct esper_error *error)
{
    if (!take_place(server)) {
        error_set(error, ESPER_FAILED, "%d streams are open already; close a page", SERVE_STREAMS);
        return NULL;
    }
    struct stream *stream = memory_alloc(1, sizeof *stream, error);
    struct MHD_Response *response = NULL;
    if (stream) {
        *stream = (struct stream){.server = server, .client = client, .run = *run};
        stream->seen = nothing_seen;
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, on_read, stream, on_free);
        if (response) {
            reply_headers(response, "text/event-stream", "no-store");
            return response;
        }
        memory_free(stream);
        error_set(error, ESPER_FAILED, "out of memory for a stream");
    }
    pthread_mutex_lock(&server->mutex);
    server->streams--;
    pthread_mutex_unlock(&server->mutex);
    return NULL;
}
#else
typedef int serve_stream_is_empty;
#endif
