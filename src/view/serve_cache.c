/*
 * Twenty pages that watch one run ask the same question at the same moment: the answer is computed once. A cached
 * answer is valid when the run's files have not changed since; and, while a trainer changes them all the time, when it
 * is newer than the streams' last report: no page knows of anything newer.
 */
#ifdef HAVE_HTTP
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "view/serve_parts.h"

struct cache_key cache_key_of(struct server *server, const char *target, const char *run)
{
    struct cache_key key = {.target = target, .begun = clock_seconds(), .told = stream_told(server, run)};
    key.settled = run_mark_take(server->api.runs, run, &key.mark);
    return key;
}

static bool is_good(const struct cached *cached, const struct cache_key *key)
{
    if (!cached->target || strcmp(cached->target, key->target) != 0)
        return false;
    return (cached->marked && run_mark_equal(&cached->mark, &key->mark)) ||
           (key->told > 0 && cached->begun > key->told && cached->alive == key->mark.alive);
}

char *cache_find(struct server *server, const struct cache_key *key, size_t *bytes)
{
    char *copy = NULL;
    pthread_mutex_lock(&server->mutex);
    for (int i = 0; i < SERVE_CACHE && !copy; i++) {
        struct cached *cached = &server->cache[i];
        if (!is_good(cached, key))
            continue;
        copy = malloc(cached->bytes + 1);
        if (!copy)
            break;
        memcpy(copy, cached->body, cached->bytes);
        *bytes = cached->bytes;
        cached->used = key->begun;
    }
    pthread_mutex_unlock(&server->mutex);
    return copy;
}

/* Replaces the cached answer to the same request, otherwise the least recently used one. */
static struct cached *choose(struct server *server, const char *target)
{
    struct cached *oldest = &server->cache[0];
    for (int i = 0; i < SERVE_CACHE; i++) {
        struct cached *cached = &server->cache[i];
        if (cached->target && strcmp(cached->target, target) == 0)
            return cached;
        if (cached->used < oldest->used)
            oldest = cached;
    }
    return oldest;
}

static void forget(struct cached *cached)
{
    free(cached->target);
    free(cached->body);
    *cached = (struct cached){0};
}

void cache_keep(struct server *server, const struct cache_key *key, const char *body, size_t bytes)
{
    if (bytes > SERVE_CACHE_BYTES)
        return;
    char *target = strdup(key->target), *copy = malloc(bytes + 1);
    if (!target || !copy) {
        free(target);
        free(copy);
        return;
    }
    memcpy(copy, body, bytes);
    pthread_mutex_lock(&server->mutex);
    struct cached *cached = choose(server, key->target);
    forget(cached);
    *cached = (struct cached){.target = target,
                              .body = copy,
                              .bytes = bytes,
                              .mark = key->mark,
                              .marked = key->settled,
                              .alive = key->mark.alive,
                              .begun = key->begun,
                              .used = key->begun};
    pthread_mutex_unlock(&server->mutex);
}

void cache_clear(struct server *server)
{
    for (int i = 0; i < SERVE_CACHE; i++)
        forget(&server->cache[i]);
}
#else
typedef int serve_cache_is_empty; /* ISO C forbids an empty file */
#endif
