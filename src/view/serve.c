#include "view/serve.h"

#ifdef HAVE_HTTP
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "view/serve_parts.h"

/* ---- connections ------------------------------------------------------------------------------------------------- */

static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct server *server = context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        struct client *client = info ? calloc(1, sizeof *client) : NULL;
        *socket_context = client; /* without a client its requests are refused */
        if (!client)
            return;
        client->fd = info->connect_fd;
        client->since = clock_seconds();
        pthread_mutex_lock(&server->mutex);
        client->next = server->clients;
        server->clients = client;
        pthread_mutex_unlock(&server->mutex);
    } else if (*socket_context) { /* before the socket is closed, so that its number cannot be reused yet */
        pthread_mutex_lock(&server->mutex);
        struct client **link = &server->clients;
        while (*link != *socket_context)
            link = &(*link)->next;
        *link = (*link)->next;
        pthread_mutex_unlock(&server->mutex);
        free(*socket_context);
        *socket_context = NULL;
    }
}

static double patience(enum client_phase phase)
{
    return phase == CLIENT_NEW || phase == CLIENT_READING ? SERVE_HEADER_SECONDS : SERVE_IDLE_SECONDS;
}

/* The library ends idle connections; clients that send a byte now and then are ended here. */
static void *keep_watch(void *context)
{
    struct server *server = context;
    pthread_mutex_lock(&server->mutex);
    while (!server->stopping) {
        struct timespec next;
        double now = clock_seconds();
        for (struct client *client = server->clients; client; client = client->next)
            if (client->phase != CLIENT_STREAMING && now - client->since > patience(client->phase))
                shutdown(client->fd, SHUT_RDWR);
        clock_gettime(CLOCK_REALTIME, &next);
        next.tv_sec++;
        pthread_cond_timedwait(&server->stopped, &server->mutex, &next);
    }
    pthread_mutex_unlock(&server->mutex);
    return NULL;
}

/* ---- start ------------------------------------------------------------------------------------------------------- */

static enum esper_status check_options(struct server *server, struct esper_error *error)
{
    const struct serve_options *options = &server->options;
    struct stat info;
    char path[PATH_MAX];
    unsigned char address[16];
    if (stat(options->runs, &info) == 0 && !S_ISDIR(info.st_mode)) /* a directory that does not exist yet may appear */
        return error_set(error, ESPER_INVALID, "%s: is a file; give a directory of runs", options->runs);
    if (snprintf(path, sizeof path, "%s/run.json", options->runs) < (int)sizeof path && stat(path, &info) == 0)
        return error_set(error, ESPER_INVALID, "%s: is a run; give the directory of runs, the one above it",
                         options->runs);
    if (inet_pton(AF_INET, options->bind, address) != 1 && inet_pton(AF_INET6, options->bind, address) != 1)
        return error_set(error, ESPER_INVALID,
                         "--bind %.60s: expected a numeric address, like 127.0.0.1 or ::", options->bind);
    server->beyond = !guard_is_loopback(options->bind);
    if (options->token_file)
        return guard_read_token(options->token_file, server->token, error);
    if (server->beyond)
        return error_set(error, ESPER_INVALID,
                         "--bind %.60s lets other machines in and needs --token-file FILE; create one with: "
                         "(umask 077; head -c 24 /dev/urandom | base64 > FILE)",
                         options->bind);
    return ESPER_OK;
}

static int open_socket(const char *address, int port, struct sockaddr_storage *bound)
{
    struct sockaddr_in *four = (struct sockaddr_in *)bound;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)bound;
    socklen_t size = sizeof *bound;
    memset(bound, 0, sizeof *bound);
    bool new_kind = inet_pton(AF_INET6, address, &six->sin6_addr) == 1;
    if (new_kind) {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons((uint16_t)port);
    } else {
        inet_pton(AF_INET, address, &four->sin_addr);
        four->sin_family = AF_INET;
        four->sin_port = htons((uint16_t)port);
    }
    int fd = socket(new_kind ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, (struct sockaddr *)bound, new_kind ? sizeof *six : sizeof *four) == 0 && listen(fd, 64) == 0 &&
        getsockname(fd, (struct sockaddr *)bound, &size) == 0)
        return fd;
    int code = errno;
    close(fd);
    errno = code;
    return -1;
}

static enum esper_status listen_on(struct server *server, int *out, struct esper_error *error)
{
    const struct serve_options *options = &server->options;
    struct sockaddr_storage bound;
    int fd = -1, tries = options->tries > 1 ? options->tries : 1;
    for (int i = 0; i < tries && fd < 0; i++)
        fd = open_socket(options->bind, options->port + i, &bound);
    if (fd < 0 && errno == EADDRINUSE)
        return error_set(error, ESPER_FAILED, "port %d is taken; choose another with --port N, or any with --port 0",
                         options->port);
    if (fd < 0)
        return error_set(error, ESPER_FAILED, "cannot listen on %.60s port %d: %s", options->bind, options->port,
                         strerror(errno));
    bool new_kind = bound.ss_family == AF_INET6;
    uint16_t port = new_kind ? ((struct sockaddr_in6 *)&bound)->sin6_port : ((struct sockaddr_in *)&bound)->sin_port;
    snprintf(server->url, sizeof server->url, new_kind ? "http://[%.60s]:%u/" : "http://%.60s:%u/", options->bind,
             (unsigned)ntohs(port));
    *out = fd;
    return ESPER_OK;
}

static enum esper_status make_session(struct server *server, struct esper_error *error)
{
    unsigned char noise[32];
    if (getrandom(noise, sizeof noise, 0) != (ssize_t)sizeof noise)
        return error_set(error, ESPER_FAILED, "no random numbers for the session: %s", strerror(errno));
    for (size_t i = 0; i < sizeof noise; i++)
        snprintf(server->session + 2 * i, 3, "%02x", noise[i]);
    return ESPER_OK;
}

static enum esper_status start_threads(struct server *server, int fd, struct esper_error *error)
{
    server->stop_event = eventfd(0, EFD_CLOEXEC);
    if (server->stop_event < 0 || pthread_create(&server->watchman, NULL, keep_watch, server) != 0) {
        close(fd);
        return error_set(error, ESPER_FAILED, "cannot start the server's thread: %s", strerror(errno));
    }
    server->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL | MHD_USE_ITC, 0, NULL, NULL,
        serve_answer, server, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)SERVE_CONNECTIONS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)SERVE_HEADERS, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)SERVE_IDLE_SECONDS, MHD_OPTION_THREAD_STACK_SIZE, (size_t)1 << 20, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_URI_LOG_CALLBACK, serve_begin_request, server, MHD_OPTION_NOTIFY_COMPLETED, serve_end_request,
        server, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_END);
    if (server->daemon)
        return ESPER_OK;
    close(fd);
    return error_set(error, ESPER_FAILED, "cannot start the server (%s)", strerror(errno));
}

static void tell_to_stop(struct server *server)
{
    uint64_t one = 1;
    pthread_mutex_lock(&server->mutex);
    server->stopping = 1;
    pthread_cond_broadcast(&server->stopped);
    pthread_cond_broadcast(&server->answered);
    pthread_mutex_unlock(&server->mutex);
    ssize_t written = write(server->stop_event, &one, sizeof one); /* an eventfd takes eight bytes */
    (void)written;
}

static void release(struct server *server)
{
    if (server->stop_event >= 0)
        close(server->stop_event);
    cache_clear(server);
    api_memory_free(server->api.memory);
    pthread_cond_destroy(&server->stopped);
    pthread_cond_destroy(&server->answered);
    pthread_mutex_destroy(&server->looking);
    pthread_mutex_destroy(&server->mutex);
    memory_free(server);
}

enum esper_status serve_start(struct server **out, const struct serve_options *options, struct esper_error *error)
{
    int fd = -1;
    struct server *server = memory_alloc(1, sizeof *server, error);
    if (!server)
        return ESPER_FAILED;
    server->options = *options;
    if (!options->bind)
        server->options.bind = "127.0.0.1";
    server->api = (struct api){.runs = options->runs, .stop = &server->stopping};
    server->stop_event = -1;
    pthread_mutex_init(&server->mutex, NULL);
    pthread_mutex_init(&server->looking, NULL);
    pthread_cond_init(&server->stopped, NULL);
    pthread_cond_init(&server->answered, NULL);
    enum esper_status status = check_options(server, error);
    if (status == ESPER_OK)
        status = api_memory_create(&server->api.memory, error);
    if (status == ESPER_OK)
        status = make_session(server, error);
    if (status == ESPER_OK)
        status = listen_on(server, &fd, error);
    if (status == ESPER_OK)
        status = start_threads(server, fd, error);
    if (status == ESPER_OK)
        *out = server;
    else if (server->watchman)
        serve_stop(server);
    else
        release(server);
    return status;
}

const char *serve_url(const struct server *server)
{
    return server->url;
}

void serve_stop(struct server *server)
{
    if (!server)
        return;
    tell_to_stop(server);
    if (server->daemon)
        MHD_stop_daemon(server->daemon); /* also closes the listening socket */
    pthread_join(server->watchman, NULL);
    release(server);
}
#else
#include <stddef.h>

enum esper_status serve_start(struct server **out, const struct serve_options *options, struct esper_error *error)
{
    (void)options;
    *out = NULL;
    return error_set(error, ESPER_UNSUPPORTED,
                     "this esper was built without libmicrohttpd; add it with `apt-get install libmicrohttpd-dev` and "
                     "run `make` again");
}

const char *serve_url(const struct server *server)
{
    (void)server;
    return "";
}

void serve_stop(struct server *server)
{
    (void)server;
}
#endif
