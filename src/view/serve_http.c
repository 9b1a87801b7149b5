/* One request: who asks, for what, and the response. */
#ifdef HAVE_HTTP
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/stream.h"
#include "view/assets.h"
#include "view/serve_parts.h"

#define COOKIE "esper_session"

struct request {
    struct client *client;
    char *target; /* as it was sent; NULL: refused */
    int refused;  /* HTTP status, 0: not */
    bool begun;
    char *body; /* of a POST */
    size_t bytes;
    bool too_large;
};

/* ---- responses --------------------------------------------------------------------------------------------------- */

void reply_headers(struct MHD_Response *response, const char *type, const char *cache)
{
    static const char *const headers[][2] = {
        {"Content-Security-Policy", "default-src 'self'; img-src 'self' data:; object-src 'none'; "
                                    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        MHD_add_response_header(response, headers[i][0], headers[i][1]);
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Cache-Control", cache);
}

struct MHD_Response *reply_text(char *body, size_t bytes, const char *type)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(bytes, body, MHD_RESPMEM_MUST_FREE);
    if (response)
        reply_headers(response, type, "no-store");
    else
        free(body);
    return response;
}

struct MHD_Response *reply_error(const char *text)
{
    char *body = NULL;
    size_t bytes = 0;
    FILE *file = stream_open(&body, &bytes);
    if (!file)
        return NULL;
    struct json_out out = {.file = file};
    json_open(&out, NULL, '{');
    json_text(&out, "error", text);
    json_close(&out, '}');
    if (fclose(file) == 0)
        return reply_text(body, bytes, "application/json");
    free(body);
    return NULL;
}

/* Without memory for a response the connection is closed. */
static enum MHD_Result send_reply(struct MHD_Connection *connection, int code, struct MHD_Response *response)
{
    if (!response)
        return MHD_NO;
    enum MHD_Result result = MHD_queue_response(connection, (unsigned)code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, int code, const char *text)
{
    struct MHD_Response *response = reply_error(text);
    if (response && code == 401)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (response && code == 405)
        MHD_add_response_header(response, "Allow", "GET, HEAD");
    if (response && (code == 503 || code == 429))
        MHD_add_response_header(response, "Retry-After", "2");
    if (response && code != 404) /* ignore whatever else it sends */
        MHD_add_response_header(response, "Connection", "close");
    return send_reply(connection, code, response);
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* ---- clients ----------------------------------------------------------------------------------------------------- */

struct client *client_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

void client_enter(struct server *server, struct client *client, enum client_phase phase)
{
    pthread_mutex_lock(&server->mutex);
    client->phase = phase;
    client->since = clock_seconds();
    pthread_mutex_unlock(&server->mutex);
}

/* Called with the request line: the target is checked before anything is done with it. */
void *serve_begin_request(void *context, const char *target, struct MHD_Connection *connection)
{
    struct request *request = calloc(1, sizeof *request);
    if (!request)
        return NULL;
    request->client = client_of(connection);
    if (request->client)
        client_enter(context, request->client, CLIENT_READING);
    request->refused = guard_target(target);
    if (!request->refused)
        request->target = strdup(target);
    return request;
}

void serve_end_request(void *context, struct MHD_Connection *connection, void **handle,
                       enum MHD_RequestTerminationCode reason)
{
    struct request *request = *handle;
    (void)connection, (void)reason;
    if (!request)
        return;
    if (request->client)
        client_enter(context, request->client, CLIENT_IDLE);
    free(request->target);
    free(request->body);
    free(request);
    *handle = NULL;
}

/* ---- the token --------------------------------------------------------------------------------------------------- */

/* Wrong tokens are counted, and after twenty in a minute each of them takes a second: guessing leads nowhere, and keeps
 * nobody out who has the token. */
static bool too_many_failures(struct server *server)
{
    struct timespec pause;
    pthread_mutex_lock(&server->mutex);
    double now = clock_seconds(), oldest = server->failures[server->failure];
    bool many = oldest > 0 && now - oldest < 60;
    server->failures[server->failure] = now;
    server->failure = (server->failure + 1) % (int)(sizeof server->failures / sizeof server->failures[0]);
    clock_gettime(CLOCK_REALTIME, &pause);
    pause.tv_sec++;
    while (many && !server->stopping && pthread_cond_timedwait(&server->stopped, &server->mutex, &pause) == 0)
        ;
    pthread_mutex_unlock(&server->mutex);
    return many;
}

/* 200, 401 or 429. */
static int check_token(struct server *server, const char *token)
{
    return guard_equal(server->token, token) ? 200 : too_many_failures(server) ? 429 : 401;
}

static int authenticate(struct server *server, struct MHD_Connection *connection)
{
    const char *bearer = header(connection, "Authorization"), *cookies = header(connection, "Cookie");
    char session[sizeof server->session];
    if (!*server->token)
        return 200;
    if (cookies && guard_cookie(cookies, COOKIE, session, sizeof session) && guard_equal(server->session, session))
        return 200;
    if (!bearer || strncasecmp(bearer, "Bearer ", 7) != 0)
        return 401;
    return check_token(server, bearer + 7);
}

static enum MHD_Result show_login(struct MHD_Connection *connection, int code, const char *note)
{
    char *page = NULL;
    int bytes = asprintf(&page,
                         "<!DOCTYPE html><html lang=en><meta charset=utf-8><title>Esper</title>"
                         "<h1>Esper</h1><p>%s</p><form method=post action=/login><label>Token "
                         "<input type=password name=token autocomplete=current-password autofocus></label> "
                         "<button>Log in</button></form></html>",
                         note);
    return send_reply(connection, code, bytes < 0 ? NULL : reply_text(page, (size_t)bytes, "text/html; charset=utf-8"));
}

static enum MHD_Result redirect(struct MHD_Connection *connection, const char *where, const char *cookie)
{
    struct MHD_Response *response = reply_text(NULL, 0, "text/plain");
    if (response) {
        MHD_add_response_header(response, "Location", where);
        if (cookie)
            MHD_add_response_header(response, "Set-Cookie", cookie);
    }
    return send_reply(connection, 303, response);
}

static enum MHD_Result log_in(struct server *server, struct MHD_Connection *connection, const struct request *request)
{
    char token[GUARD_TOKEN], cookie[192];
    if (!*server->token)
        return redirect(connection, "/", NULL);
    bool given = request->body && guard_form_field(request->body, "token", token, sizeof token);
    int code = check_token(server, given ? token : "");
    if (code != 200)
        return show_login(connection, code, "That was not the token.");
    snprintf(cookie, sizeof cookie, COOKIE "=%s; Path=/; HttpOnly; SameSite=Strict", server->session);
    return redirect(connection, "/", cookie);
}

/* ---- assets ------------------------------------------------------------------------------------------------------ */

static bool takes_gzip(struct MHD_Connection *connection)
{
    const char *accepted = header(connection, "Accept-Encoding");
    const char *found = accepted ? strcasestr(accepted, "gzip") : NULL;
    return found && strncasecmp(found + 4, ";q=0", 4) != 0;
}

static enum MHD_Result send_asset(struct MHD_Connection *connection, const char *name)
{
    const struct asset *asset = NULL;
    for (int i = 0; i < page_asset_count && !asset; i++)
        if (strcmp(page_assets[i].name, name) == 0)
            asset = &page_assets[i];
    if (!asset)
        return refuse(connection, 404, "there is no such file");
    const char *known = header(connection, "If-None-Match");
    bool same = known && strcmp(known, asset->tag) == 0, packed = takes_gzip(connection);
    const unsigned char *data = packed ? asset->gzip : asset->plain;
    size_t bytes = same ? 0 : packed ? asset->gzip_bytes : asset->plain_bytes;
    struct MHD_Response *response = MHD_create_response_from_buffer(bytes, (void *)data, MHD_RESPMEM_PERSISTENT);
    if (response) {
        reply_headers(response, asset->type, "no-cache");
        MHD_add_response_header(response, "ETag", asset->tag);
        MHD_add_response_header(response, "Vary", "Accept-Encoding");
        if (packed && !same)
            MHD_add_response_header(response, "Content-Encoding", "gzip");
    }
    return send_reply(connection, same ? 304 : 200, response);
}

/* ---- the API ----------------------------------------------------------------------------------------------------- */

/* Path segments after /api/. */
struct route {
    char text[GUARD_TARGET + 1];
    const char *parts[5];
    int count;
};

static bool split(struct route *route, const char *path)
{
    snprintf(route->text, sizeof route->text, "%s", path + strlen("/api/"));
    route->count = 0;
    for (char *at = route->text; at;) {
        if (route->count == 5)
            return false;
        route->parts[route->count++] = at;
        at = strchr(at, '/');
        if (at)
            *at++ = '\0';
    }
    return true;
}

static enum MHD_Result collect_argument(void *context, enum MHD_ValueKind kind, const char *key, const char *value)
{
    struct api_arguments *arguments = context;
    (void)kind;
    if (arguments->count < API_ARGUMENTS)
        arguments->items[arguments->count++] = (struct api_argument){key, value ? value : ""};
    return MHD_YES;
}

static int write_health(struct server *server, FILE *file)
{
    struct json_out out = {.file = file};
    pthread_mutex_lock(&server->mutex);
    int streams = server->streams;
    pthread_mutex_unlock(&server->mutex);
    json_open(&out, NULL, '{');
    json_text(&out, "version", ESPER_VERSION);
    json_integer(&out, "api", API_VERSION);
    json_integer(&out, "runs", api_count_runs(&server->api));
    json_integer(&out, "streams", streams);
    json_bool(&out, "sql", server->options.sql);
    json_close(&out, '}');
    return 200;
}

static int write_answer(struct server *server, const struct route *route, const struct api_arguments *arguments,
                        const char *body, FILE *file, struct esper_error *error)
{
    const struct api *api = &server->api;
    const char *const *parts = route->parts;
    bool run = strcmp(parts[0], "run") == 0;
    if (strcmp(parts[0], "healthz") == 0)
        return write_health(server, file);
    if (strcmp(parts[0], "runs") == 0 && route->count == 1)
        return api_runs(api, file, error);
    if (strcmp(parts[0], "settings") == 0 && route->count == 1)
        return api_settings(api, file, error);
    if (strcmp(parts[0], "metrics") == 0 && route->count == 1)
        return api_metrics(file, error);
    if (strcmp(parts[0], "overlay") == 0 && route->count == 1)
        return api_overlay(api, arguments, file, error);
    if (strcmp(parts[0], "questions") == 0 && route->count == 1)
        return api_questions(file, error);
    if (strcmp(parts[0], "compare") == 0 && route->count == 1)
        return api_compare(api, arguments, file, error);
    if (run && route->count == 2)
        return api_run(api, parts[1], file, error);
    if (run && route->count == 3 && strcmp(parts[2], "series") == 0)
        return api_series(api, parts[1], arguments, file, error);
    if (run && route->count == 3 && strcmp(parts[2], "sql") == 0 && body)
        return api_sql(api, parts[1], body, file, error);
    if (run && route->count == 4 && strcmp(parts[2], "ask") == 0)
        return api_ask(api, parts[1], parts[3], arguments, file, error);
    error_set(error, ESPER_INVALID, "there is no such answer");
    return 404;
}

/* Only a few answers are computed at once; a client that waits too long is asked to retry. */
static bool begin_asking(struct server *server)
{
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += (time_t)API_SECONDS;
    pthread_mutex_lock(&server->mutex);
    int waited = 0;
    while (server->asking >= SERVE_ASKING && waited == 0 && !server->stopping)
        waited = pthread_cond_timedwait(&server->answered, &server->mutex, &limit);
    bool free_place = server->asking < SERVE_ASKING;
    server->asking += free_place;
    pthread_mutex_unlock(&server->mutex);
    return free_place;
}

static void end_asking(struct server *server)
{
    pthread_mutex_lock(&server->mutex);
    server->asking--;
    pthread_cond_signal(&server->answered);
    pthread_mutex_unlock(&server->mutex);
}

/* The answer's text, from the cache where that is still valid. */
static int make_answer(struct server *server, const struct request *request, const struct route *route,
                       struct MHD_Connection *connection, char **text, size_t *bytes, struct esper_error *error)
{
    struct api_arguments arguments = {0};
    struct cache_key key = {0};
    bool kept = strcmp(route->parts[0], "run") == 0 && route->count > 1 && !request->body;
    if (kept) {
        key = cache_key_of(server, request->target, route->parts[1]);
        *text = cache_find(server, &key, bytes);
        if (*text)
            return 200;
    }
    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, collect_argument, &arguments);
    FILE *file = stream_open(text, bytes);
    if (!file)
        return 503;
    int code = write_answer(server, route, &arguments, request->body, file, error);
    if (fclose(file) != 0)
        code = 503;
    if (code == 200 && kept)
        cache_keep(server, &key, *text, *bytes);
    return code;
}

static enum MHD_Result send_answer(struct server *server, struct MHD_Connection *connection,
                                   const struct request *request, const struct route *route)
{
    struct esper_error error = {0};
    char *text = NULL;
    size_t bytes = 0;
    bool reads = strcmp(route->parts[0], "healthz") != 0; /* a record, which may take its time */
    if (reads && !begin_asking(server))
        return refuse(connection, 503, "too many questions at once; try again");
    int code = make_answer(server, request, route, connection, &text, &bytes, &error);
    if (reads)
        end_asking(server);
    if (code == 200)
        return send_reply(connection, 200, reply_text(text, bytes, "application/json"));
    free(text);
    return refuse(connection, code, *error.text ? error.text : "out of memory");
}

static enum MHD_Result send_stream(struct server *server, struct MHD_Connection *connection,
                                   const struct request *request, const char *name)
{
    struct esper_error error = {0};
    struct MHD_Response *response = NULL;
    struct run *run = memory_alloc(1, sizeof *run, &error);
    int code = run ? api_find_run(&server->api, name, run, &error) : 503;
    if (code == 200)
        response = stream_create(server, run, request->client, &error);
    memory_free(run);
    if (!response)
        return refuse(connection, code == 200 ? 503 : code, error.text);
    client_enter(server, request->client, CLIENT_STREAMING);
    return send_reply(connection, 200, response);
}

/* ---- one request ------------------------------------------------------------------------------------------------- */

static enum MHD_Result count_host(void *context, enum MHD_ValueKind kind, const char *key, const char *value)
{
    (void)kind, (void)value;
    if (strcasecmp(key, "Host") == 0)
        ++*(int *)context;
    return MHD_YES;
}

/* 0, or the status that refuses it; `why` gives the reason. */
static int check_request(struct server *server, struct MHD_Connection *connection, const struct request *request,
                         const char **why)
{
    const char *host = header(connection, "Host"), *origin = header(connection, "Origin");
    const char *length = header(connection, "Content-Length");
    int hosts = 0;
    MHD_get_connection_values(connection, MHD_HEADER_KIND, count_host, &hosts);
    *why = "the request is malformed";
    if (request->refused)
        return request->refused;
    if (hosts != 1)
        return 400;
    *why = "the server is not known by this name; start it with --host NAME";
    if (!guard_host(host, server->beyond, server->options.hosts, server->options.host_count))
        return 403;
    *why = "requests from other sites are refused";
    if (origin && !guard_origin(origin, host))
        return 403;
    *why = "the body is too large";
    if (length && strtoull(length, NULL, 10) > SERVE_BODY)
        return 413;
    return 0;
}

static bool takes_posts(const struct server *server, const char *path)
{
    size_t length = strlen(path);
    return strcmp(path, "/login") == 0 || (server->options.sql && strncmp(path, "/api/run/", 9) == 0 && length > 13 &&
                                           strcmp(path + length - 4, "/sql") == 0);
}

static enum MHD_Result dispatch(struct server *server, struct MHD_Connection *connection, const struct request *request,
                                const char *path, bool post)
{
    struct route route;
    int allowed = authenticate(server, connection);
    if (strcmp(path, "/login") == 0)
        return post              ? log_in(server, connection, request)
               : !*server->token ? redirect(connection, "/", NULL)
                                 : show_login(connection, 200, "This server requires its token.");
    if (allowed == 401 && strcmp(path, "/") == 0)
        return redirect(connection, "/login", NULL);
    if (allowed != 200)
        return refuse(connection, allowed, allowed == 401 ? "a token is required" : "too many wrong tokens");
    if (strcmp(path, "/") == 0 && page_asset_count == 0)
        return refuse(connection, 503, "this build has no page (web/dist was empty); /api/runs answers");
    if (strcmp(path, "/") == 0)
        return send_asset(connection, "index.html");
    if (strncmp(path, "/assets/", 8) == 0)
        return send_asset(connection, path + 8);
    if (strcmp(path, "/healthz") == 0) {
        route = (struct route){.parts = {"healthz"}, .count = 1};
        return send_answer(server, connection, request, &route);
    }
    if (strncmp(path, "/api/", 5) != 0 || !split(&route, path))
        return refuse(connection, 404, "there is no such page");
    if (route.count == 3 && strcmp(route.parts[0], "run") == 0 && strcmp(route.parts[2], "stream") == 0)
        return send_stream(server, connection, request, route.parts[1]);
    return send_answer(server, connection, request, &route);
}

/* The body of a POST, kept up to the limit. */
static void take_body(struct request *request, const char *data, size_t bytes)
{
    if (request->too_large || request->bytes + bytes > SERVE_BODY) {
        request->too_large = true;
        return;
    }
    char *larger = realloc(request->body, request->bytes + bytes + 1);
    if (!larger) {
        request->too_large = true;
        return;
    }
    memcpy(larger + request->bytes, data, bytes);
    request->body = larger;
    request->bytes += bytes;
    request->body[request->bytes] = '\0';
}

enum MHD_Result serve_answer(void *context, struct MHD_Connection *connection, const char *path, const char *method,
                             const char *version, const char *data, size_t *bytes, void **handle)
{
    struct server *server = context;
    struct request *request = *handle;
    bool post = strcmp(method, "POST") == 0;
    (void)version;
    if (!request || !request->client || (!request->refused && !request->target))
        return MHD_NO; /* out of memory when it began */
    if (!request->begun) {
        const char *why;
        int code = check_request(server, connection, request, &why);
        request->begun = true;
        if (code == 0 && strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0 &&
            !(post && takes_posts(server, path))) {
            code = 405;
            why = "only GET and HEAD here";
        }
        if (code)
            client_enter(server, request->client, CLIENT_ANSWERING);
        if (code)
            return refuse(connection, code, why);
        if (post)
            take_body(request, "", 0);
        return MHD_YES; /* a body, if any, comes with the next calls; an answer now would end the connection */
    }
    if (*bytes) {
        if (post)
            take_body(request, data, *bytes);
        *bytes = 0;
        return MHD_YES;
    }
    client_enter(server, request->client, CLIENT_ANSWERING);
    if (request->too_large)
        return refuse(connection, 413, "the body is too large");
    return dispatch(server, connection, request, path, post);
}
#else
typedef int serve_http_is_empty;
#endif
