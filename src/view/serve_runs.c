/* The list of runs: opening each record for it takes a millisecond or two, so what was read is remembered until the run
 * changes. */
#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/crc32.h"
#include "base/memory.h"
#include "base/stream.h"
#include "view/run_mark.h"
#include "view/serve_api.h"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

enum { PLACES = 2 * API_RUNS, PROBES = 16 };

/* A run's place follows from its name, or is one of the next; where all are taken, one is evicted. */
struct api_memory {
    pthread_mutex_t mutex;
    struct remembered {
        char *name, *text;
        struct run_mark mark;
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

void api_memory_free(struct api_memory *memory)
{
    for (int i = 0; memory && i < PLACES; i++) {
        free(memory->places[i].name);
        free(memory->places[i].text);
    }
    if (memory)
        pthread_mutex_destroy(&memory->mutex);
    memory_free(memory);
}

static struct remembered *place_of(struct api_memory *memory, const char *name)
{
    uint32_t home = crc32_update(0, name, strlen(name));
    for (uint32_t i = 0; i < PROBES; i++) {
        struct remembered *place = &memory->places[(home + i) % PLACES];
        if (!place->name || strcmp(place->name, name) == 0)
            return place;
    }
    return &memory->places[home % PLACES];
}

/* Writes what is remembered; false: nothing, or it is out of date. */
static bool recall(struct api_memory *memory, const char *name, const struct run_mark *mark, FILE *file)
{
    pthread_mutex_lock(&memory->mutex);
    const struct remembered *place = place_of(memory, name);
    bool known = place->name && strcmp(place->name, name) == 0 && run_mark_equal(&place->mark, mark);
    if (known)
        fputs(place->text, file);
    pthread_mutex_unlock(&memory->mutex);
    return known;
}

/* Takes the text. */
static void remember(struct api_memory *memory, const char *name, const struct run_mark *mark, char *text)
{
    char *key = strdup(name);
    pthread_mutex_lock(&memory->mutex);
    struct remembered *place = place_of(memory, name);
    free(place->name);
    free(place->text);
    *place = (struct remembered){.name = key, .text = text, .mark = *mark};
    pthread_mutex_unlock(&memory->mutex);
}

/* ---- the directory ----------------------------------------------------------------------------------------------- */

struct entry {
    char name[128];
    time_t made; /* run.json is written once */
};

static int newest_first(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->made != y->made)
        return x->made > y->made ? -1 : 1;
    return strcmp(y->name, x->name); /* names start with the time unless the user chose one */
}

/* All runs; *entries may be NULL: only count them. Release with free. */
static int scan_runs(const char *runs, struct entry **entries)
{
    int count = 0, room = 0;
    DIR *listing = opendir(runs);
    for (struct dirent *at; listing && (at = readdir(listing)) != NULL;) {
        struct stat info;
        if (!api_is_run(runs, at->d_name, &info))
            continue;
        if (entries && count == room) {
            room = room ? 2 * room : 64;
            struct entry *larger = realloc(*entries, (size_t)room * sizeof *larger);
            if (!larger)
                break;
            *entries = larger;
        }
        if (entries) {
            snprintf((*entries)[count].name, sizeof(*entries)[count].name, "%.127s", at->d_name);
            (*entries)[count].made = info.st_mtime;
        }
        count++;
    }
    if (listing)
        closedir(listing);
    if (entries && count > 1)
        qsort(*entries, (size_t)count, sizeof **entries, newest_first);
    return count;
}

int api_count_runs(const struct api *api)
{
    return scan_runs(api->runs, NULL);
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

/* Its identity and the results of its newest round: ,"created":...,"reward":... */
static enum esper_status describe(const struct api *api, const struct run *run, FILE *file, struct esper_error *error)
{
    const char *sql = "SELECT count(*) AS rounds_done, l.val_accuracy_mean AS val_accuracy,"
                      " l.val_accuracy_best, l.test_accuracy_mean AS test_accuracy, l.reward_mean AS reward"
                      " FROM round LEFT JOIN (SELECT * FROM round ORDER BY round DESC LIMIT 1) l";
    const struct query_options options = {.timeout = API_SECONDS, .stop = api->stop};
    struct json_out out = {.file = file, .more = true};
    struct query *query;
    api_write_identity(&out, run);
    TRY(api_open_record(api, run, &query, error));
    enum esper_status status = api_write_members(&out, query, sql, &options, error);
    query_close(query);
    return status;
}

/* The same, from memory where that is still valid. */
static enum esper_status write_description(const struct api *api, const char *name, FILE *file,
                                           struct esper_error *error)
{
    struct run_mark mark;
    bool settled = run_mark_take(api->runs, name, &mark);
    if (recall(api->memory, name, &mark, file))
        return ESPER_OK;
    char *text = NULL;
    size_t bytes;
    struct run *run = memory_alloc(1, sizeof *run, error);
    FILE *part = run ? stream_open(&text, &bytes) : NULL;
    enum esper_status status = ESPER_FAILED;
    if (part && api_find_run(api, name, run, error) == 200)
        status = describe(api, run, part, error);
    if (part && fclose(part) != 0)
        status = ESPER_FAILED;
    if (text)
        fputs(text, file); /* if the record cannot be read, at least its identity */
    if (status == ESPER_OK && settled)
        remember(api->memory, name, &mark, text);
    else
        free(text);
    memory_free(run);
    return status;
}

static void write_line(const struct api *api, const char *name, struct json_out *out)
{
    struct esper_error error = {0};
    struct run_status status;
    struct run *run = memory_alloc(1, sizeof *run, &error);
    json_open(out, NULL, '{');
    json_text(out, "name", name);
    if (run)
        snprintf(run->path, sizeof run->path, "%.3900s/%.100s", api->runs, name);
    bool known = run && run_get_status(run, &status, &error) == ESPER_OK;
    if (known)
        api_write_status(out, &status);
    if (!known || write_description(api, name, out->file, &error) != ESPER_OK)
        json_text(out, "error", error.text);
    json_close(out, '}');
    memory_free(run);
}

int api_runs(const struct api *api, FILE *file, struct esper_error *error)
{
    struct entry *entries = NULL;
    struct json_out out = {.file = file};
    (void)error;
    int count = scan_runs(api->runs, &entries), shown = count < API_RUNS ? count : API_RUNS;
    json_open(&out, NULL, '{');
    json_open(&out, "runs", '[');
    for (int i = 0; i < shown && !*api->stop; i++)
        write_line(api, entries[i].name, &out);
    json_close(&out, ']');
    json_bool(&out, "truncated", shown < count);
    json_close(&out, '}');
    free(entries);
    return 200;
}
