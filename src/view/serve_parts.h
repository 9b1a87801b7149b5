/* What the parts of the server share. For serve*.c only. */
#ifndef VIEW_SERVE_PARTS_H
#define VIEW_SERVE_PARTS_H

#include <microhttpd.h>
#include <pthread.h>

#include "view/run_mark.h"
#include "view/serve.h"
#include "view/serve_api.h"
#include "view/serve_guard.h"

/* Limits (T-06); many clients are allowed, since twenty pages may watch one run. */
enum {
    SERVE_CONNECTIONS = 256,
    SERVE_STREAMS = 48,
    SERVE_ASKING = 4, /* answers computed at once: the trainer needs the cores */
    SERVE_HEADERS = 24 << 10,
    SERVE_BODY = 64 << 10,
    SERVE_SIGHTINGS = 8,        /* runs watched by streams at once, each with its own sighting */
    SERVE_CACHE = 32,           /* answers kept */
    SERVE_CACHE_BYTES = 1 << 20 /* of one answer at most */
};
#define SERVE_HEADER_SECONDS 10.0 /* for a request, from its first byte or the start of the connection */
#define SERVE_IDLE_SECONDS   60.0 /* between requests, and for a client to take an answer */

/* The phase of a connection: the watchman ends those that stay in one too long. */
enum client_phase { CLIENT_NEW, CLIENT_READING, CLIENT_ANSWERING, CLIENT_IDLE, CLIENT_STREAMING };

struct client {
    struct client *next;
    int fd;
    enum client_phase phase;
    double since; /* clock_seconds when the phase began */
};

/* What a stream reports of a run; RECORD_NONE: missing. */
struct sight {
    const char *state;
    int64_t rounds_done, newest_round, newest_step;
    int64_t alert_round, alert_count; /* newest round with alerts, and how many it has */
};

/* The newest look at a run that streams watch: one stream looks for all. */
struct sighting {
    char name[128];
    double taken;         /* clock_seconds; 0: never */
    double due;           /* when to look again: a record that is slow to answer is asked less often */
    struct run_mark mark; /* of what `sight` was read from, if `marked` */
    bool marked;
    struct sight sight;
};

struct cached {
    char *target, *body;
    size_t bytes;
    struct run_mark mark; /* of what it was made from, if `marked` */
    bool marked, alive;
    double begun, used; /* clock_seconds when it was made, and last asked for */
};

struct server {
    struct api api;
    struct serve_options options;
    bool beyond; /* listens beyond this machine */
    char token[GUARD_TOKEN];
    char session[65]; /* content of the session cookie: valid for the lifetime of this server */
    char url[96];
    struct MHD_Daemon *daemon;
    pthread_t watchman;
    int stop_event;
    volatile sig_atomic_t stopping;
    pthread_mutex_t mutex; /* guards everything below */
    pthread_cond_t stopped, answered;
    struct client *clients;
    int streams, asking;
    double failures[20]; /* times of wrong tokens: a ring; more than that in a minute are answered slowly */
    int failure;
    struct cached cache[SERVE_CACHE];
    pthread_mutex_t looking; /* guards the next member; held during a read */
    struct sighting sightings[SERVE_SIGHTINGS];
};

/* serve_http.c */
enum MHD_Result serve_answer(void *context, struct MHD_Connection *connection, const char *path, const char *method,
                             const char *version, const char *data, size_t *bytes, void **request);
void *serve_begin_request(void *context, const char *target, struct MHD_Connection *connection);
void serve_end_request(void *context, struct MHD_Connection *connection, void **request,
                       enum MHD_RequestTerminationCode reason);
void client_enter(struct server *server, struct client *client, enum client_phase phase);
struct client *client_of(struct MHD_Connection *connection);

/* The response with the common headers. Takes ownership of `body`, which may be NULL. */
struct MHD_Response *reply_text(char *body, size_t bytes, const char *type);
void reply_headers(struct MHD_Response *response, const char *type, const char *cache);
/* {"error":"..."} */
struct MHD_Response *reply_error(const char *text);

/* serve_cache.c */
/* Taken before an answer is computed. */
struct cache_key {
    const char *target;
    struct run_mark mark;
    bool settled; /* the mark can be trusted */
    double begun;
    double told; /* when streams last reported the run; 0: none watch it */
};
struct cache_key cache_key_of(struct server *server, const char *target, const char *run);
/* A copy of a cached answer that is still valid; NULL: there is none. */
char *cache_find(struct server *server, const struct cache_key *key, size_t *bytes);
void cache_keep(struct server *server, const struct cache_key *key, const char *body, size_t bytes);
void cache_clear(struct server *server);

/* serve_stream.c: a response that never ends by itself; NULL and the error set when there are too many. */
struct MHD_Response *stream_create(struct server *server, const struct run *run, struct client *client,
                                   struct esper_error *error);
/* When streams last reported the run, if they do so continuously; otherwise 0. */
double stream_told(struct server *server, const char *run);

#endif
