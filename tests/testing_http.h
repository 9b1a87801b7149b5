/* A client for the tests of the server: plain sockets, so that nothing is corrected on the way. */
#ifndef TESTS_TESTING_HTTP_H
#define TESTS_TESTING_HTTP_H

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/json.h"
#include "testing_runs.h"
#include "view/serve.h"

static struct server *server;
static int server_port;

enum { ANSWER_BYTES = 20 << 20 };
static char answer_text[ANSWER_BYTES + 1];

struct answer {
    int code; /* 0: the connection was closed without one */
    const char *head, *body;
    size_t bytes; /* of the body */
    double seconds;
};

static inline void start_server(const struct serve_options *options)
{
    struct esper_error error = {0};
    if (serve_start(&server, options, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    assert_int_equal(sscanf(serve_url(server), "http://127.0.0.1:%d/", &server_port), 1);
}

static inline void stop_server(void)
{
    serve_stop(server);
    server = NULL;
}

static inline int dial(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)server_port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail_msg("cannot connect to port %d: %s", server_port, strerror(errno));
    return fd;
}

/* The server may close the connection before everything is sent. */
static inline void put(int fd, const char *text, size_t bytes)
{
    while (bytes) {
        ssize_t sent = send(fd, text, bytes, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        text += sent;
        bytes -= (size_t)sent;
    }
}

/* Until the server closes, some seconds at most. */
static inline size_t take_all(int fd, char *text, size_t room, double seconds)
{
    size_t used = 0;
    double end = clock_seconds() + seconds;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    while (used < room) {
        double left = end - clock_seconds();
        if (left <= 0 || poll(&ready, 1, (int)(1000 * left) + 1) <= 0)
            break;
        ssize_t got = recv(fd, text + used, room - used, 0);
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    text[used] = '\0';
    return used;
}

static inline struct answer read_answer(char *text, size_t bytes)
{
    struct answer answer = {.head = text, .body = text + bytes};
    char *end = strstr(text, "\r\n\r\n");
    if (bytes == 0)
        return answer;
    if (!end || sscanf(text, "HTTP/1.%*d %d ", &answer.code) != 1)
        fail_msg("no HTTP: %.60s", text);
    end[2] = '\0';
    answer.body = end + 4;
    answer.bytes = bytes - (size_t)(answer.body - text);
    return answer;
}

/* The answer to exactly these bytes. */
static inline struct answer exchange(const char *request, size_t bytes)
{
    double start = clock_seconds();
    int fd = dial();
    put(fd, request, bytes);
    shutdown(fd, SHUT_WR);
    size_t got = take_all(fd, answer_text, ANSWER_BYTES, 20);
    close(fd);
    struct answer answer = read_answer(answer_text, got);
    answer.seconds = clock_seconds() - start;
    return answer;
}

/* `headers` lines end in \r\n. */
static inline struct answer ask_with(const char *method, const char *target, const char *headers, const char *body)
{
    static char request[256 << 10];
    int bytes = snprintf(request, sizeof request, "%s %s HTTP/1.1\r\nConnection: close\r\n%s\r\n%s", method, target,
                         headers, body);
    return exchange(request, (size_t)bytes);
}

static inline struct answer get(const char *target)
{
    return ask_with("GET", target, "Host: localhost\r\n", "");
}

static inline bool has_header(const struct answer *answer, const char *line)
{
    return strcasestr(answer->head, line) != NULL;
}

/* The JSON of a good answer; strict, as json_parse is. Release with cJSON_Delete. */
static inline cJSON *get_json(const char *target)
{
    struct esper_error error = {0};
    cJSON *json = NULL;
    struct answer answer = get(target);
    if (answer.code != 200)
        fail_msg("%s: %d %.200s", target, answer.code, answer.body);
    assert_true(has_header(&answer, "Content-Type: application/json"));
    assert_true(has_header(&answer, "Cache-Control: no-store"));
    if (json_parse(answer.body, answer.bytes, &json, &error) != ESPER_OK)
        fail_msg("%s: %s: %.100s", target, error.text, answer.body);
    return json;
}

static inline double json_number(const cJSON *object, const char *key)
{
    const cJSON *member = json_find(object, key);
    if (!cJSON_IsNumber(member))
        fail_msg("%s is no number", key);
    return member->valuedouble;
}

static inline const char *json_string(const cJSON *object, const char *key)
{
    const cJSON *member = json_find(object, key);
    if (!cJSON_IsString(member))
        fail_msg("%s is no text", key);
    return member->valuestring;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

struct listener {
    int fd;
    char text[1 << 16]; /* received and not looked at yet */
    size_t used;
    char event[16];
    cJSON *data;
};

static inline void listen_to(struct listener *listener, const char *run)
{
    char request[256];
    int bytes = snprintf(request, sizeof request, "GET /api/run/%s/stream HTTP/1.1\r\nHost: localhost\r\n\r\n", run);
    *listener = (struct listener){.fd = dial()};
    put(listener->fd, request, (size_t)bytes);
}

static inline void stop_listening(struct listener *listener)
{
    cJSON_Delete(listener->data);
    close(listener->fd);
}

/* An event is two lines that come in one chunk; what is around it (lengths of chunks, comments) is skipped. */
static inline bool find_event(struct listener *listener)
{
    char *event = strstr(listener->text, "event: "), *data = event ? strstr(event, "\ndata: ") : NULL;
    char *end = data ? strstr(data, "\n\n") : NULL;
    struct esper_error error = {0};
    if (!end)
        return false;
    assert_int_equal(sscanf(event, "event: %15s", listener->event), 1);
    cJSON_Delete(listener->data);
    listener->data = NULL;
    if (json_parse(data + 7, (size_t)(end - data - 7), &listener->data, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    listener->used -= (size_t)(end + 2 - listener->text);
    memmove(listener->text, end + 2, listener->used + 1);
    return true;
}

/* The next event; false: none within the time, or the end of the stream. */
static inline bool next_event(struct listener *listener, double seconds)
{
    double end = clock_seconds() + seconds;
    struct pollfd ready = {.fd = listener->fd, .events = POLLIN};
    while (!find_event(listener)) {
        double left = end - clock_seconds();
        if (left <= 0 || poll(&ready, 1, (int)(1000 * left) + 1) <= 0)
            return false;
        size_t room = sizeof listener->text - 1 - listener->used;
        ssize_t got = recv(listener->fd, listener->text + listener->used, room, 0);
        if (got <= 0)
            return false;
        listener->used += (size_t)got;
        listener->text[listener->used] = '\0';
    }
    return true;
}

static inline void expect_event(struct listener *listener, const char *event, double seconds)
{
    if (!next_event(listener, seconds * patience()))
        fail_msg("no event within %g s, expected %s", seconds * patience(), event);
    assert_string_equal(listener->event, event);
}

#endif
