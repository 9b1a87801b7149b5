#include "base/group_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

#define BEAT_SECONDS   1.0
#define ASLEEP_SECONDS 5.0 /* a thread that was away for so long was stopped itself, with all others perhaps */

enum frame_kind { FRAME_HELLO, FRAME_BEAT, FRAME_CALL, FRAME_FAIL, FRAME_PART };

struct frame {
    uint32_t kind, rank;
    uint64_t token; /* of a hello */
    uint32_t count; /* steps made; of rank 0's call, its number */
    uint32_t flag;  /* of a beat: waits for others; of a call: to stop */
    uint32_t status, pad;
    char text[520];
};

struct peer {
    int line;   /* -1: none; a rank's only line is to rank 0 */
    size_t got; /* bytes of the frame that is coming in */
    struct frame in;
    double heard, moved; /* clock: its last frame, its last step */
    uint32_t count;
    bool parted; /* it may end */
};

struct watch {
    int rank, ranks;
    double silence; /* seconds */
    watch_name *names;
    struct peer *peers; /* [ranks] */
    int wake[2];        /* a pipe: the owner's thread wants something */
    bool threaded;
    pthread_t thread;
    pthread_mutex_t mutex; /* of everything below, the lines' output and the peers' clocks */
    bool parting, closing, ended;
    bool call, call_stops; /* wanted by the owner */
    uint32_t calls;
    bool stops, waits;
    uint32_t count;
    group_end *end;
    char words[1024];
};

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static void put_frame(struct watch *watch, int rank, const struct frame *frame)
{
    const int line = watch->peers[rank].line;
    const char *at = (const char *)frame;
    size_t left = sizeof *frame;
    for (int tries = 0; line >= 0 && left > 0 && tries < 100; tries++) {
        const ssize_t sent = send(line, at, left, MSG_NOSIGNAL | MSG_DONTWAIT);
        const bool broken = sent < 0 && errno != EINTR && errno != EAGAIN;    /* whoever reads from it will notice */
        const bool idle = left == sizeof *frame && frame->kind == FRAME_BEAT; /* nobody reads; the next beat will do */
        if (sent > 0) {
            at += sent;
            left -= (size_t)sent;
        } else if (broken || idle)
            return;
        else
            poll(NULL, 0, 10);
    }
}

/* From rank 0 to all, from another to rank 0. */
static void put_frames(struct watch *watch, const struct frame *frame)
{
    for (int rank = 0; rank < watch->ranks; rank++)
        if (rank != watch->rank)
            put_frame(watch, rank, frame);
}

static struct frame make_frame(const struct watch *watch, enum frame_kind kind)
{
    return (struct frame){.kind = kind, .rank = (uint32_t)watch->rank, .count = watch->count, .flag = watch->waits};
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* With the mutex held, which is kept: nobody says anything after this. */
static void end_all(struct watch *watch, const char *line, enum esper_status status)
{
    if (watch->ended || watch->parting)
        return;
    watch->ended = true;
    if (watch->rank == 0) { /* the others end in silence */
        struct frame frame = make_frame(watch, FRAME_FAIL);
        frame.status = (uint32_t)status;
        put_frames(watch, &frame);
    }
    watch->end(line, status);
}

static void lose(struct watch *watch, int rank, const char *why, enum esper_status status)
{
    char line[2048];
    snprintf(line, sizeof line, "%s %s%s%s", watch->names[rank], why, watch->words[0] ? "; " : "", watch->words);
    /* Rank 0 speaks for all; if it is the one that is lost, the next one does. */
    end_all(watch, watch->rank == 0 || (rank == 0 && watch->rank == 1) ? line : "", status);
}

void watch_lost(struct watch *watch, int rank, const char *why)
{
    pthread_mutex_lock(&watch->mutex);
    lose(watch, rank, why, ESPER_FAILED);
    pthread_mutex_unlock(&watch->mutex);
}

/* ---- what comes in ----------------------------------------------------------------------------------------------- */

static void hear_call(struct watch *watch, const struct frame *frame)
{
    if (watch->rank > 0) {
        watch->calls = frame->count;
        return;
    }
    struct frame call = make_frame(watch, FRAME_CALL);
    watch->stops = watch->stops || frame->flag;
    call.count = ++watch->calls;
    put_frames(watch, &call);
}

static void hear(struct watch *watch, int rank, const struct frame *frame)
{
    struct peer *peer = &watch->peers[rank];
    char why[sizeof frame->text + 8];
    peer->heard = clock_seconds();
    switch ((enum frame_kind)frame->kind) {
    case FRAME_BEAT:
        if (frame->count != peer->count || frame->flag) /* one that waits is not to blame */
            peer->moved = peer->heard;
        peer->count = frame->count;
        break;
    case FRAME_CALL:
        hear_call(watch, frame);
        break;
    case FRAME_FAIL:
        snprintf(why, sizeof why, "failed: %.*s", (int)sizeof frame->text - 1, frame->text);
        if (watch->rank == 0)
            lose(watch, rank, why, (enum esper_status)frame->status);
        else
            end_all(watch, "", (enum esper_status)frame->status);
        break;
    case FRAME_PART:
        peer->parted = true;
        break;
    case FRAME_HELLO:
        break;
    }
}

static void listen_to(struct watch *watch, int rank)
{
    struct peer *peer = &watch->peers[rank];
    const ssize_t got = recv(peer->line, (char *)&peer->in + peer->got, sizeof peer->in - peer->got, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got > 0) {
        peer->got += (size_t)got;
        if (peer->got < sizeof peer->in)
            return;
        peer->got = 0;
        hear(watch, rank, &peer->in);
        return;
    }
    close(peer->line);
    peer->line = -1;
    if (!peer->parted)
        lose(watch, rank, "has ended", ESPER_FAILED);
}

static void check_silence(struct watch *watch)
{
    char why[96];
    for (int rank = 0; rank < watch->ranks; rank++) {
        const struct peer *peer = &watch->peers[rank];
        if (peer->line < 0 || peer->parted || clock_seconds() - peer->heard < watch->silence)
            continue;
        snprintf(why, sizeof why, "has not been heard of for %.0f s", watch->silence);
        lose(watch, rank, why, ESPER_FAILED);
    }
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void obey(struct watch *watch)
{
    char bytes[64];
    while (read(watch->wake[0], bytes, sizeof bytes) > 0)
        ;
    if (watch->call) {
        struct frame frame = make_frame(watch, FRAME_CALL);
        frame.flag = watch->call_stops;
        watch->call = false;
        if (watch->rank == 0)
            hear_call(watch, &frame);
        else
            put_frames(watch, &frame);
    }
}

static void forgive_all(struct watch *watch)
{
    for (int rank = 0; rank < watch->ranks; rank++)
        watch->peers[rank].heard = watch->peers[rank].moved = clock_seconds();
}

static void *watch_run(void *context)
{
    struct watch *watch = context;
    struct pollfd *lines = calloc((size_t)watch->ranks + 1, sizeof *lines);
    double beat = 0, last = clock_seconds();
    for (bool closing = !lines; !closing;) {
        for (int rank = 0; rank < watch->ranks; rank++)
            lines[rank] = (struct pollfd){.fd = watch->peers[rank].line, .events = POLLIN};
        lines[watch->ranks] = (struct pollfd){.fd = watch->wake[0], .events = POLLIN};
        poll(lines, (nfds_t)watch->ranks + 1, (int)(1e3 * BEAT_SECONDS / 4));
        pthread_mutex_lock(&watch->mutex);
        if (clock_seconds() - last > ASLEEP_SECONDS)
            forgive_all(watch);
        last = clock_seconds();
        for (int rank = 0; rank < watch->ranks; rank++)
            if (watch->peers[rank].line >= 0 && lines[rank].revents)
                listen_to(watch, rank);
        obey(watch);
        if (last - beat >= BEAT_SECONDS) {
            const struct frame frame = make_frame(watch, FRAME_BEAT);
            put_frames(watch, &frame);
            beat = last;
        }
        check_silence(watch);
        closing = watch->closing;
        pthread_mutex_unlock(&watch->mutex);
    }
    free(lines);
    return NULL;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

enum esper_status watch_door_open(struct watch_door *door, bool local, int *listener, struct esper_error *error)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(local ? INADDR_LOOPBACK : INADDR_ANY)};
    socklen_t size = sizeof address;
    *listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*listener < 0 || bind(*listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(*listener, SOMAXCONN) != 0 || getsockname(*listener, (struct sockaddr *)&address, &size) != 0 ||
        getrandom(&door->token, sizeof door->token, 0) != (ssize_t)sizeof door->token)
        return error_set(error, ESPER_FAILED, "no line between the ranks can be opened: %s", strerror(errno));
    door->port = ntohs(address.sin_port);
    door->local = local;
    gethostname(door->host, sizeof door->host - 1);
    return ESPER_OK;
}

static bool get_hello(int line, struct frame *hello, double until)
{
    size_t got = 0;
    while (got < sizeof *hello && clock_seconds() < until) {
        struct pollfd wait = {.fd = line, .events = POLLIN};
        poll(&wait, 1, 100);
        const ssize_t part = recv(line, (char *)hello + got, sizeof *hello - got, MSG_DONTWAIT);
        if (part == 0 || (part < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        got += part > 0 ? (size_t)part : 0;
    }
    return got == sizeof *hello && hello->kind == FRAME_HELLO;
}

static enum esper_status let_in(struct watch *watch, const struct watch_door *door, int listener, double until,
                                struct esper_error *error)
{
    for (int missing = watch->ranks - 1; missing > 0;) {
        struct pollfd wait = {.fd = listener, .events = POLLIN};
        struct frame hello;
        if (clock_seconds() >= until)
            break;
        if (poll(&wait, 1, 100) <= 0)
            continue;
        const int line = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (line < 0)
            continue;
        if (!get_hello(line, &hello, clock_seconds() + 5) || hello.token != door->token || hello.rank < 1 ||
            hello.rank >= (uint32_t)watch->ranks || watch->peers[hello.rank].line >= 0) {
            close(line); /* a stranger */
            continue;
        }
        watch->peers[hello.rank].line = line;
        missing--;
    }
    for (int rank = 1; rank < watch->ranks; rank++)
        if (watch->peers[rank].line < 0)
            return error_set(error, ESPER_FAILED,
                             "%s cannot reach %s at port %u: ranks need TCP between their machines", watch->names[rank],
                             watch->names[0], (unsigned)door->port);
    return ESPER_OK;
}

static int reach(const struct watch_door *door, const char *host)
{
    char port[16];
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = NULL;
    snprintf(port, sizeof port, "%u", (unsigned)door->port);
    if (getaddrinfo(host, port, &hints, &found) != 0)
        return -1;
    int line = -1;
    for (struct addrinfo *at = found; at && line < 0; at = at->ai_next) {
        line = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (line >= 0 && connect(line, at->ai_addr, at->ai_addrlen) != 0) {
            close(line);
            line = -1;
        }
    }
    freeaddrinfo(found);
    return line;
}

static enum esper_status go_through(struct watch *watch, const struct watch_door *door, double until,
                                    struct esper_error *error)
{
    struct frame hello = make_frame(watch, FRAME_HELLO);
    hello.token = door->token;
    /* One machine needs no network, and may have none. */
    while ((watch->peers[0].line = reach(door, door->local ? "127.0.0.1" : door->host)) < 0 && clock_seconds() < until)
        poll(NULL, 0, 100);
    if (watch->peers[0].line < 0)
        return error_set(error, ESPER_FAILED, "%s cannot reach %s at port %u: ranks need TCP between their machines",
                         watch->names[watch->rank], watch->names[0], (unsigned)door->port);
    put_frame(watch, 0, &hello);
    return ESPER_OK;
}

static enum esper_status start_thread(struct watch *watch, struct esper_error *error)
{
    sigset_t all, before;
    if (pipe2(watch->wake, O_CLOEXEC | O_NONBLOCK) != 0)
        return error_set(error, ESPER_FAILED, "no line between the ranks can be opened: %s", strerror(errno));
    for (int rank = 0; rank < watch->ranks; rank++) {
        const int on = 1;
        if (watch->peers[rank].line >= 0)
            setsockopt(watch->peers[rank].line, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    forgive_all(watch);
    sigfillset(&all); /* signals are the owner's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    watch->threaded = pthread_create(&watch->thread, NULL, watch_run, watch) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return watch->threaded ? ESPER_OK : error_set(error, ESPER_FAILED, "no thread can be started");
}

enum esper_status watch_open(struct watch **out, int rank, int ranks, const watch_name *names,
                             const struct watch_door *door, int listener, double seconds, group_end *end,
                             struct esper_error *error)
{
    const double until = clock_seconds() + seconds;
    struct watch *watch = memory_alloc(1, sizeof *watch, error);
    if (!watch)
        return ESPER_FAILED;
    *watch = (struct watch){.rank = rank, .ranks = ranks, .silence = seconds, .wake = {-1, -1}, .end = end};
    pthread_mutex_init(&watch->mutex, NULL);
    watch->names = memory_alloc((size_t)ranks, sizeof *watch->names, error);
    watch->peers = memory_alloc((size_t)ranks, sizeof *watch->peers, error);
    enum esper_status status = watch->names && watch->peers ? ESPER_OK : ESPER_FAILED;
    for (int i = 0; status == ESPER_OK && i < ranks; i++) {
        memcpy(watch->names[i], names[i], sizeof names[i]);
        watch->peers[i].line = -1;
    }
    if (status == ESPER_OK)
        status = rank == 0 ? let_in(watch, door, listener, until, error) : go_through(watch, door, until, error);
    if (status == ESPER_OK)
        status = start_thread(watch, error);
    if (status != ESPER_OK) {
        watch_close(watch);
        return status;
    }
    *out = watch;
    return ESPER_OK;
}

static void wake(struct watch *watch)
{
    const ssize_t ignored = write(watch->wake[1], "", 1);
    (void)ignored;
}

void watch_part(struct watch *watch)
{
    pthread_mutex_lock(&watch->mutex);
    const struct frame frame = make_frame(watch, FRAME_PART);
    watch->parting = true;
    put_frames(watch, &frame);
    pthread_mutex_unlock(&watch->mutex);
}

void watch_close(struct watch *watch)
{
    if (!watch)
        return;
    if (watch->threaded) {
        pthread_mutex_lock(&watch->mutex);
        watch->closing = true;
        pthread_mutex_unlock(&watch->mutex);
        wake(watch);
        pthread_join(watch->thread, NULL);
    }
    for (int rank = 0; watch->peers && rank < watch->ranks; rank++)
        if (watch->peers[rank].line >= 0)
            close(watch->peers[rank].line);
    for (int i = 0; i < 2; i++)
        if (watch->wake[i] >= 0)
            close(watch->wake[i]);
    pthread_mutex_destroy(&watch->mutex);
    memory_free(watch->names);
    memory_free(watch->peers);
    memory_free(watch);
}

/* ---- what the owner asks ----------------------------------------------------------------------------------------- */

void watch_words(struct watch *watch, const char *text)
{
    pthread_mutex_lock(&watch->mutex);
    snprintf(watch->words, sizeof watch->words, "%s", text);
    pthread_mutex_unlock(&watch->mutex);
}

void watch_fail(struct watch *watch, const struct esper_error *error)
{
    pthread_mutex_lock(&watch->mutex);
    if (!watch->ended && !watch->parting) {
        struct frame frame = make_frame(watch, FRAME_FAIL);
        frame.status = (uint32_t)error->status;
        snprintf(frame.text, sizeof frame.text, "%s", error->text);
        put_frames(watch, &frame);
        watch->ended = true; /* by this rank: no second line about it */
        if (watch->rank > 0)
            watch->end("", error->status);
    }
    pthread_mutex_unlock(&watch->mutex);
}

void watch_step(struct watch *watch)
{
    pthread_mutex_lock(&watch->mutex);
    watch->count++;
    pthread_mutex_unlock(&watch->mutex);
}

double watch_still(struct watch *watch, int rank, double since)
{
    pthread_mutex_lock(&watch->mutex);
    const double moved = watch->peers[rank].moved;
    pthread_mutex_unlock(&watch->mutex);
    return clock_seconds() - (moved > since ? moved : since);
}

void watch_waits(struct watch *watch, bool waits)
{
    pthread_mutex_lock(&watch->mutex);
    watch->waits = waits;
    pthread_mutex_unlock(&watch->mutex);
}

void watch_call(struct watch *watch, bool stop)
{
    pthread_mutex_lock(&watch->mutex);
    watch->call = true;
    watch->call_stops = watch->call_stops || stop;
    pthread_mutex_unlock(&watch->mutex);
    wake(watch);
}

uint32_t watch_calls(struct watch *watch)
{
    pthread_mutex_lock(&watch->mutex);
    const uint32_t calls = watch->calls;
    pthread_mutex_unlock(&watch->mutex);
    return calls;
}

bool watch_stops(struct watch *watch)
{
    pthread_mutex_lock(&watch->mutex);
    const bool stops = watch->stops;
    pthread_mutex_unlock(&watch->mutex);
    return stops;
}
