#include "view/serve_memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crc32.h"
#include "base/memory.h"
#include "view/serve_api.h"

enum { PLACES = 4 * API_RUNS, PROBES = 16, TEXT_MOST = 64 << 10 };

/* A portrait's place follows from its key, or is one of the next; where all are taken, one is evicted. */
struct api_memory {
    pthread_mutex_t mutex;
    struct remembered {
        char *key;
        struct portrait portrait;
        struct run_mark mark;
        double until; /* clock_seconds; 0: always */
    } places[PLACES];
};

enum esper_status api_memory_create(struct api_memory **out, struct esper_error *error)
{
    *out = memory_alloc(1, sizeof **out, error);
    if (!*out)
        return ESPER_FAILED;
    pthread_mutex_init(&(*out)->mutex, NULL);
    return ESPER_OK;
}

static void forget(struct remembered *place)
{
    free(place->key);
    portrait_free(&place->portrait);
    *place = (struct remembered){0};
}

void api_memory_free(struct api_memory *memory)
{
    for (int i = 0; memory && i < PLACES; i++)
        forget(&memory->places[i]);
    if (memory)
        pthread_mutex_destroy(&memory->mutex);
    memory_free(memory);
}

void portrait_free(struct portrait *portrait)
{
    free(portrait->text);
    free(portrait->settings);
    *portrait = (struct portrait){0};
}

/* False when there is no memory for it; `to` is then empty. */
static bool copy(struct portrait *to, const struct portrait *from)
{
    *to = (struct portrait){.text = strdup(from->text), .bytes = from->bytes};
    if (from->settings && (to->settings = malloc(from->bytes + 1)))
        memcpy(to->settings, from->settings, from->bytes);
    if (to->text && (to->settings || !from->settings))
        return true;
    portrait_free(to);
    return false;
}

static struct remembered *place_of(struct api_memory *memory, const char *key)
{
    uint32_t home = crc32_update(0, key, strlen(key));
    for (uint32_t i = 0; i < PROBES; i++) {
        struct remembered *place = &memory->places[(home + i) % PLACES];
        if (!place->key || strcmp(place->key, key) == 0)
            return place;
    }
    return &memory->places[home % PLACES];
}

bool memory_recall(struct api_memory *memory, const char *key, const struct run_mark *mark, struct portrait *portrait)
{
    pthread_mutex_lock(&memory->mutex);
    const struct remembered *place = place_of(memory, key);
    bool known = place->key && strcmp(place->key, key) == 0 && run_mark_equal(&place->mark, mark) &&
                 (place->until == 0 || clock_seconds() < place->until);
    known = known && copy(portrait, &place->portrait);
    pthread_mutex_unlock(&memory->mutex);
    return known;
}

void memory_keep(struct api_memory *memory, const char *key, const struct run_mark *mark,
                 const struct portrait *portrait, double seconds)
{
    struct remembered news = {.key = strdup(key), .mark = *mark, .until = seconds > 0 ? clock_seconds() + seconds : 0};
    if (!news.key || strlen(portrait->text) > TEXT_MOST || !copy(&news.portrait, portrait)) {
        free(news.key);
        return;
    }
    pthread_mutex_lock(&memory->mutex);
    struct remembered *place = place_of(memory, key);
    forget(place);
    *place = news;
    pthread_mutex_unlock(&memory->mutex);
}
