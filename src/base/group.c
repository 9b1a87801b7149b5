#include "base/group.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/build.h"
#include "base/clock.h"
#include "base/crc32.h"
#include "base/file.h"
#include "base/group_transport.h"
#include "base/group_watch.h"
#include "base/memory.h"

#define WAIT_SECONDS    600.0 /* how long a rank may make no step while another waits for it; ESPER_RANKS_WAIT */
#define SILENCE_SECONDS 30.0
#define PIECE_BYTES     ((size_t)64 << 20) /* of one message */

enum { TAG_DATA, TAG_POST };

/* A post that is under way. */
struct post {
    struct post *next;
    void *message;
    int from;
    size_t bytes;
    unsigned char data[];
};

struct group {
    const struct group_transport *by;
    struct watch *watch;
    watch_name *names;         /* [ranks] */
    double patience;           /* seconds */
    uint64_t position, agreed; /* steps made; where the next meeting is, or the last one was */
    uint32_t served;           /* calls that were answered */
    bool failed;
    struct post *posts;  /* sent, and not there yet */
    struct post *coming; /* on rank 0: those on their way, in the order in which they were announced */
    uint64_t posted;
    struct tally {
        uint64_t posted, taken;
    } * tallies; /* [ranks] on rank 0: posts that each has sent, when they were counted last, and those taken */
};

/* ---- the library ------------------------------------------------------------------------------------------------- */

static const char library_name[] = "libesper_mpi.so";

bool group_available(char text[256])
{
    if (file_find_library(library_name, text, 256))
        return true;
    snprintf(text, 256, "no %s beside the program; add it with: apt-get install openmpi-bin libopenmpi-dev, then: make",
             library_name);
    return false;
}

static const struct group_transport *library_open(struct esper_error *error)
{
    char path[256], why[256] = "";
    group_transport_function *function;
    if (!group_available(path)) {
        error_set(error, ESPER_UNSUPPORTED, "started as %d ranks: %s", group_started(), path);
        return NULL;
    }
    /* Its own parts are opened by MPI later, and look for its symbols. */
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        const char *reason = dlerror();
        error_set(error, ESPER_UNSUPPORTED,
                  "started as %d ranks: %.300s; add what is missing with: apt-get install "
                  "openmpi-bin libopenmpi-dev",
                  group_started(), reason ? reason : path);
        return NULL;
    }
    *(void **)&function = dlsym(library, GROUP_TRANSPORT_SYMBOL);
    const struct group_transport *by = function ? function(why) : NULL;
    if (by && by->version == GROUP_TRANSPORT_VERSION)
        return by;
    error_set(error, ESPER_UNSUPPORTED, "%.200s: %s", path, *why ? why : "of another version of esper; run: make");
    return NULL;
}

int group_started(void)
{
    /* Open MPI's and MPICH's launchers; srun, whose tasks are ranks where it started more than one. */
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; !getenv("ESPER_ALONE") && i < sizeof names / sizeof names[0]; i++) {
        const char *text = getenv(names[i]);
        const long ranks = text ? strtol(text, NULL, 10) : 0;
        if (ranks > 1 && ranks < 1 << 20)
            return (int)ranks;
    }
    return 1;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* Until a message is over. Whoever keeps this rank waiting without making a step is named. */
static void wait_for(struct group *group, void *message, int other)
{
    const double since = clock_seconds();
    useconds_t pause = 20;
    const bool leads = group_leads(group) && group->watch;
    bool told = false;
    while (!message || !group->by->done(message)) {
        usleep(pause);
        pause = pause < 1000 ? pause * 2 : 1000;
        if (leads && !told && clock_seconds() - since > 0.2) { /* the others do not blame who waits */
            watch_waits(group->watch, true);
            told = true;
        }
        if (group->watch && watch_still(group->watch, other, since) > group->patience) {
            char why[128];
            snprintf(why, sizeof why, "has made no step for %.0f s, and others wait for it", group->patience);
            watch_lost(group->watch, other, why);
        }
    }
    if (told)
        watch_waits(group->watch, false);
}

static void send_all(struct group *group, int to, const void *data, size_t bytes)
{
    const char *at = data;
    for (size_t done = 0; done < bytes; done += PIECE_BYTES) {
        const size_t piece = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        wait_for(group, group->by->send(to, TAG_DATA, at + done, piece), to);
    }
}

static void receive_all(struct group *group, int from, void *data, size_t bytes)
{
    char *at = data;
    for (size_t done = 0; done < bytes; done += PIECE_BYTES) {
        const size_t piece = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        wait_for(group, group->by->receive(from, TAG_DATA, at + done, piece), from);
    }
}

void group_bring(struct group *group, int owner, void *data, size_t bytes)
{
    if (!group || owner == 0)
        return;
    if (group_leads(group))
        receive_all(group, owner, data, bytes);
    else if (group_rank(group) == owner)
        send_all(group, 0, data, bytes);
}

void group_hand(struct group *group, int owner, void *data, size_t bytes)
{
    if (!group || owner == 0)
        return;
    if (group_leads(group))
        send_all(group, owner, data, bytes);
    else if (group_rank(group) == owner)
        receive_all(group, 0, data, bytes);
}

void group_tell(struct group *group, void *data, size_t bytes)
{
    for (int rank = 1; rank < group_ranks(group); rank++)
        group_hand(group, rank, data, bytes);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static double patience_of(void)
{
    const char *text = getenv("ESPER_RANKS_WAIT");
    const double seconds = text ? strtod(text, NULL) : 0;
    return seconds >= 1 ? seconds : WAIT_SECONDS;
}

static void exchange_names(struct group *group)
{
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    snprintf(group->names[group_rank(group)], sizeof *group->names, "rank %d (%s)", group_rank(group), host);
    for (int rank = 1; rank < group_ranks(group); rank++)
        group_bring(group, rank, group->names[rank], sizeof *group->names);
    group_tell(group, group->names, sizeof *group->names * (size_t)group_ranks(group));
}

/* Ranks pass each other arrays as they lie in memory: all must be the same program. */
static enum esper_status check_build(struct group *group, struct esper_error *error)
{
    char text[128];
    void *program = NULL;
    size_t size = 0;
    enum esper_status status = file_load("/proc/self/exe", &program, &size, error);
    TRY(group_check(group, status, error));
    snprintf(text, sizeof text, "%.80s, checksum %08x", esper_build, (unsigned)crc32_update(0, program, size));
    memory_free(program);
    return group_same(group, "it is esper", text, error);
}

static enum esper_status open_watch(struct group *group, group_end *end, struct esper_error *error)
{
    struct watch_door door = {0};
    int listener = -1;
    double silence = group->patience < SILENCE_SECONDS ? group->patience : SILENCE_SECONDS;
    const bool local = group_local_ranks(group) == group_ranks(group);
    enum esper_status status = group_leads(group) ? watch_door_open(&door, local, &listener, error) : ESPER_OK;
    group_tell(group, &door, sizeof door);
    if (status == ESPER_OK && door.port == 0)
        status = ESPER_FAILED;
    if (status == ESPER_OK)
        status = watch_open(&group->watch, group_rank(group), group_ranks(group), (const watch_name *)group->names,
                            &door, listener, silence, end, error);
    if (listener >= 0)
        close(listener);
    return group_check(group, status, error);
}

static void group_free(struct group *group)
{
    watch_close(group->watch);
    memory_free(group->names);
    memory_free(group->tallies);
    memory_free(group);
}

enum esper_status group_open(struct group **out, group_end *end, struct esper_error *error)
{
    *out = NULL;
    if (group_started() < 2)
        return ESPER_OK;
    struct group *group = memory_alloc(1, sizeof *group, error);
    if (!group)
        return ESPER_FAILED;
    group->patience = patience_of();
    group->by = library_open(error);
    group->names = group->by ? memory_alloc((size_t)group->by->ranks, sizeof *group->names, error) : NULL;
    group->tallies = group->names ? memory_alloc((size_t)group->by->ranks, sizeof *group->tallies, error) : NULL;
    enum esper_status status = group->tallies ? ESPER_OK : ESPER_UNSUPPORTED;
    if (status == ESPER_OK && group->by->ranks != group_started()) {
        group->failed = true;
        status = error_set(error, ESPER_UNSUPPORTED,
                           "started as %d ranks, but MPI joins %d: the launcher is not that of %s; with Slurm use: "
                           "srun --mpi=pmix",
                           group_started(), group->by->ranks, library_name);
    }
    if (status == ESPER_OK) {
        exchange_names(group);
        status = open_watch(group, end, error);
        if (status == ESPER_OK)
            status = check_build(group, error);
    }
    group->failed = group->failed || !group->tallies; /* then there is nobody to part from */
    *out = group;
    return status;
}

static void reap_posts(struct group *group, bool all)
{
    for (struct post **at = &group->posts; *at;) {
        struct post *post = *at;
        if (all)
            wait_for(group, post->message, 0);
        else if (!group->by->done(post->message)) {
            at = &post->next;
            continue;
        }
        *at = post->next;
        free(post);
    }
}

void group_close(struct group *group)
{
    char done = 0;
    if (!group)
        return;
    if (group->failed) { /* the others are gone */
        group_free(group);
        return;
    }
    reap_posts(group, true);
    for (int rank = 1; rank < group_ranks(group); rank++)
        group_bring(group, rank, &done, 1);
    if (group_leads(group) && group->watch) /* before the others can end */
        watch_part(group->watch);
    group_tell(group, &done, 1);
    if (!group_leads(group) && group->watch)
        watch_part(group->watch);
    group->by->end();
    group_free(group);
}

void group_words(struct group *group, const char *text)
{
    if (group)
        watch_words(group->watch, text);
}

void group_fail(struct group *group, const struct esper_error *error)
{
    if (!group)
        return;
    watch_fail(group->watch, error);
    group->failed = true;
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

int group_rank(const struct group *group)
{
    return group && group->by ? group->by->rank : 0;
}

int group_ranks(const struct group *group)
{
    return group && group->by ? group->by->ranks : 1;
}

bool group_leads(const struct group *group)
{
    return group_rank(group) == 0;
}

int group_local_rank(const struct group *group)
{
    return group ? group->by->local_rank : 0;
}

int group_local_ranks(const struct group *group)
{
    return group ? group->by->local_ranks : 1;
}

struct env_part group_part_of(const struct group *group, int rank, int envs)
{
    return env_part_of(rank, group_ranks(group), envs);
}

struct env_part group_part(const struct group *group, int envs)
{
    return group_part_of(group, group_rank(group), envs);
}

int group_owner(const struct group *group, int envs, int env)
{
    int rank = 0;
    for (struct env_part part = group_part_of(group, 0, envs); env >= part.first + part.count;)
        part = group_part_of(group, ++rank, envs);
    return rank;
}

/* ---- agreeing ---------------------------------------------------------------------------------------------------- */

struct verdict {
    int rank; /* the lowest that failed; -1: none */
    struct esper_error error;
};

enum esper_status group_check(struct group *group, enum esper_status status, struct esper_error *error)
{
    struct verdict verdict = {.rank = -1};
    struct esper_error own = {.status = ESPER_OK}, other;
    if (!group)
        return status;
    if (status != ESPER_OK && error)
        own = *error;
    own.status = status;
    for (int rank = 0; rank < group_ranks(group); rank++) {
        other = own;
        group_bring(group, rank, &other, sizeof other);
        if (other.status != ESPER_OK && verdict.rank < 0)
            verdict = (struct verdict){rank, other};
    }
    group_tell(group, &verdict, sizeof verdict);
    if (verdict.rank < 0)
        return ESPER_OK;
    if (error)
        *error = verdict.error;
    return verdict.rank == 0 ? verdict.error.status : error_where(error, "%s", group->names[verdict.rank]);
}

enum esper_status group_same(struct group *group, const char *what, const char *text, struct esper_error *error)
{
    char first[256] = "";
    enum esper_status status = ESPER_OK;
    if (!group)
        return ESPER_OK;
    snprintf(first, sizeof first, "%s", text);
    group_tell(group, first, sizeof first);
    if (strncmp(first, text, sizeof first - 1) != 0)
        status = error_set(error, ESPER_INVALID, "%s %.200s, but %s has %.200s; all ranks need the same", what, text,
                           group->names[0], first);
    return group_check(group, status, error);
}

/* ---- posts ------------------------------------------------------------------------------------------------------- */

void group_post(struct group *group, const void *data, size_t bytes)
{
    if (!group)
        return;
    reap_posts(group, false);
    struct post *post = malloc(sizeof *post + bytes);
    if (!post) { /* no room to send it later: now */
        wait_for(group, group->by->send(0, TAG_POST, data, bytes), 0);
    } else {
        memcpy(post->data, data, bytes);
        post->message = group->by->send(0, TAG_POST, post->data, bytes);
        post->next = group->posts;
        group->posts = post;
    }
    group->posted++;
}

/* A long message moves only while both sides look at it, and the other side is playing its step: whoever waited for it
 * here would wait for that. So what is announced is received on the side. */
static void expect_posts(struct group *group)
{
    int from;
    size_t bytes;
    struct post *post, **last = &group->coming;
    while (*last)
        last = &(*last)->next;
    while (group->by->arrived(TAG_POST, &from, &bytes) && (post = malloc(sizeof *post + bytes))) {
        *post = (struct post){.from = from, .bytes = bytes};
        post->message = group->by->receive(from, TAG_POST, post->data, bytes);
        if (!post->message)
            wait_for(group, NULL, from); /* until it is given up */
        *last = post;
        last = &post->next;
    }
}

bool group_take(struct group *group, void *data, size_t room, size_t *bytes)
{
    if (!group)
        return false;
    expect_posts(group);
    struct post *post = group->coming;
    if (!post || post->bytes > room || !group->by->done(post->message))
        return false;
    *bytes = post->bytes;
    memcpy(data, post->data, post->bytes);
    group->tallies[post->from].taken++;
    group->coming = post->next;
    free(post);
    return true;
}

uint64_t group_owed(struct group *group)
{
    uint64_t owed = 0;
    for (int rank = 1; rank < group_ranks(group); rank++) {
        struct tally *tally = &group->tallies[rank];
        tally->posted = group->posted;
        group_bring(group, rank, &tally->posted, sizeof tally->posted);
        owed += group_leads(group) ? tally->posted - tally->taken : 0;
    }
    return owed;
}

void group_take_owed(struct group *group, void *data, size_t room, size_t *bytes)
{
    const double since = clock_seconds();
    while (!group_take(group, data, room, bytes)) {
        usleep(50);
        for (int rank = 1; rank < group_ranks(group) && clock_seconds() - since > group->patience; rank++)
            if (group->tallies[rank].posted > group->tallies[rank].taken)
                watch_lost(group->watch, rank, "has sent reports that do not arrive");
    }
}

/* ---- meeting -------------------------------------------------------------------------------------------------------
 */

void group_step(struct group *group)
{
    if (!group)
        return;
    group->position++;
    watch_step(group->watch);
    reap_posts(group, false); /* messages move when they are looked at */
}

void group_call(struct group *group, bool stop)
{
    if (group)
        watch_call(group->watch, stop);
}

bool group_due(struct group *group)
{
    return !group || group->agreed == group->position ||
           (group->agreed < group->position && watch_calls(group->watch) > group->served);
}

void group_meet(struct group *group)
{
    if (!group || group->agreed >= group->position)
        return;
    uint64_t furthest = group->position;
    for (int rank = 1; rank < group_ranks(group); rank++) {
        uint64_t position = group->position;
        group_bring(group, rank, &position, sizeof position);
        furthest = position > furthest ? position : furthest;
    }
    group_tell(group, &furthest, sizeof furthest);
    group->agreed = furthest;
}

bool group_here(const struct group *group)
{
    return !group || group->agreed == group->position;
}

bool group_stops(const struct group *group)
{
    return group && watch_stops(group->watch);
}

void group_served(struct group *group)
{
    if (!group)
        return;
    uint32_t calls = watch_calls(group->watch);
    group_tell(group, &calls, sizeof calls);
    group->served = calls;
}
