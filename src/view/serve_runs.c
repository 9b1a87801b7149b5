/* The list of runs, and what their configurations differ in. Both look at every run of the directory: what was read is
 * remembered until the run changes, and what is new is read little by little, so that no answer waits for all. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/stream.h"
#include "telemetry/run_label.h"
#include "view/serve_api.h"
#include "view/serve_memory.h"

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

/* ---- one run ----------------------------------------------------------------------------------------------------- */

enum { READ_LEAST = 16 };   /* runs that an answer reads, however long that takes within its limit */
#define READ_SECONDS   0.08 /* no further run is begun after that */
#define FAILED_SECONDS 10.0 /* a run that cannot be read is tried again */

/* How much an answer has read, and how long that took. */
struct patience {
    double seconds;
    int read, unread;
};

static bool may_read(struct patience *patience)
{
    bool may = patience->seconds < (patience->read < READ_LEAST ? API_SECONDS : READ_SECONDS);
    patience->read += may;
    patience->unread += !may;
    return may;
}

enum esper_status api_write_label(struct json_out *out, const char *path, struct esper_error *error)
{
    struct run_label label;
    TRY(run_label_read(path, &label, error));
    json_open(out, "tags", '[');
    for (int i = 0; i < label.count; i++)
        json_text(out, NULL, label.tags[i]);
    json_close(out, ']');
    json_text(out, "note", *label.note ? label.note : NULL);
    return ESPER_OK;
}

/* Only its state: ,"state":... */
static enum esper_status describe_state(const struct api *api, const char *name, struct json_out *out,
                                        struct esper_error *error)
{
    struct run_status status;
    struct run *run = memory_alloc(1, sizeof *run, error);
    if (!run)
        return ESPER_FAILED;
    snprintf(run->path, sizeof run->path, "%.3900s/%.100s", api->runs, name);
    enum esper_status result = run_get_status(run, &status, error);
    if (result == ESPER_OK)
        api_write_status(out, &status);
    memory_free(run);
    return result;
}

/* Its identity, what people say of it, and the results of its newest round: ,"created":...,"reward":... */
static enum esper_status describe(const struct api *api, const struct run *run, struct json_out *out,
                                  struct esper_error *error)
{
    const char *sql = "SELECT count(*) AS rounds_done, l.val_accuracy_mean AS val_accuracy,"
                      " l.val_accuracy_best, l.test_accuracy_mean AS test_accuracy, l.reward_mean AS reward,"
                      " sum(r.env_steps) AS env_steps, sum(r.seconds) AS seconds"
                      " FROM round r LEFT JOIN (SELECT * FROM round ORDER BY round DESC LIMIT 1) l";
    const struct query_options options = {.timeout = API_SECONDS, .stop = api->stop};
    struct query *query;
    api_write_identity(out, run);
    TRY(api_write_label(out, run->path, error));
    TRY(api_open_record(api, run, &query, error));
    enum esper_status status = api_write_members(out, query, sql, &options, error);
    query_close(query);
    return status;
}

static void write_settings(const struct config *config, FILE *file)
{
    char text[CONFIG_TEXT];
    for (int key = 0; key < config_key_count(); key++) {
        config_format_exact(config, key, text);
        fwrite(text, 1, strlen(text) + 1, file);
    }
}

/* What can be read of it, and why the rest cannot. Returns false when there is no memory for it. */
static bool draw(const struct api *api, const char *name, struct portrait *portrait, bool *well)
{
    struct esper_error error = {0};
    size_t bytes;
    struct run *run = memory_alloc(1, sizeof *run, &error);
    FILE *text = run ? stream_open(&portrait->text, &bytes) : NULL;
    FILE *settings = text ? stream_open(&portrait->settings, &portrait->bytes) : NULL;
    struct json_out out = {.file = text, .more = true};
    bool found = settings && describe_state(api, name, &out, &error) == ESPER_OK &&
                 api_find_run(api, name, run, &error) == 200;
    *well = found && describe(api, run, &out, &error) == ESPER_OK;
    if (found)
        write_settings(&run->config, settings);
    if (text && !*well)
        json_text(&out, "error", error.text);
    bool whole = settings && fclose(settings) == 0;
    whole = text && fclose(text) == 0 && whole;
    if (whole && !found) {
        free(portrait->settings);
        portrait->settings = NULL;
    }
    memory_free(run);
    if (!whole)
        portrait_free(portrait);
    return whole;
}

/* From memory where that is still valid. False: not now; the portrait is empty. */
static bool look(const struct api *api, const char *name, struct patience *patience, struct portrait *portrait)
{
    struct run_mark mark;
    bool well, settled = run_mark_take(api->runs, name, &mark);
    *portrait = (struct portrait){0};
    if (memory_recall(api->memory, name, &mark, portrait))
        return true;
    if (!may_read(patience))
        return false;
    double begun = clock_seconds();
    bool drawn = draw(api, name, portrait, &well);
    patience->seconds += clock_seconds() - begun;
    if (drawn && settled)
        memory_keep(api->memory, name, &mark, portrait, well ? 0 : FAILED_SECONDS);
    return drawn;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static void write_line(const struct api *api, const char *name, struct patience *patience, struct json_out *out)
{
    struct esper_error error = {0};
    struct portrait portrait;
    json_open(out, NULL, '{');
    json_text(out, "name", name);
    if (look(api, name, patience, &portrait))
        fputs(portrait.text, out->file);
    else if (describe_state(api, name, out, &error) == ESPER_OK)
        json_bool(out, "unread", true);
    else
        json_text(out, "error", error.text);
    json_close(out, '}');
    portrait_free(&portrait);
}

int api_runs(const struct api *api, FILE *file, struct esper_error *error)
{
    struct entry *entries = NULL;
    struct json_out out = {.file = file};
    struct patience patience = {0};
    (void)error;
    int count = scan_runs(api->runs, &entries), shown = count < API_RUNS ? count : API_RUNS;
    json_open(&out, NULL, '{');
    json_open(&out, "runs", '[');
    for (int i = 0; i < shown && !*api->stop; i++)
        write_line(api, entries[i].name, &patience, &out);
    json_close(&out, ']');
    json_integer(&out, "unread", patience.unread);
    json_bool(&out, "truncated", shown < count);
    json_close(&out, '}');
    free(entries);
    return 200;
}

/* ---- what differs ------------------------------------------------------------------------------------------------ */

struct setting {
    const char *name;
    struct portrait portrait;
    const char *at; /* the value of the key that is being written */
};

/* Where the values of all runs are those of the same key; returns whether they differ. */
static bool differ(const struct setting *settings, int count)
{
    for (int i = 1; i < count; i++)
        if (strcmp(settings[i].at, settings[0].at) != 0)
            return true;
    return false;
}

static void write_key(struct json_out *out, int key, const struct setting *settings, int count)
{
    json_open(out, NULL, '{');
    json_text(out, "name", config_key_name(key));
    json_text(out, "help", config_key_help(key));
    json_open(out, "values", '[');
    for (int i = 0; i < count; i++)
        json_text(out, NULL, settings[i].at);
    json_close(out, ']');
    json_close(out, '}');
}

static void write_differences(struct json_out *out, struct setting *settings, int count)
{
    json_open(out, "runs", '[');
    for (int i = 0; i < count; i++) {
        json_text(out, NULL, settings[i].name);
        settings[i].at = settings[i].portrait.settings;
    }
    json_close(out, ']');
    json_open(out, "keys", '[');
    for (int key = 0; key < config_key_count(); key++) {
        if (differ(settings, count) && ftell(out->file) < API_BYTES)
            write_key(out, key, settings, count);
        for (int i = 0; i < count; i++)
            settings[i].at += strlen(settings[i].at) + 1;
    }
    json_close(out, ']');
}

int api_settings(const struct api *api, FILE *file, struct esper_error *error)
{
    struct entry *entries = NULL;
    struct json_out out = {.file = file};
    struct patience patience = {0};
    int found = scan_runs(api->runs, &entries), count = 0;
    struct setting *settings = memory_alloc(API_RUNS, sizeof *settings, error);
    for (int i = 0; settings && i < found && i < API_RUNS && !*api->stop; i++) {
        struct setting *setting = &settings[count];
        if (look(api, entries[i].name, &patience, &setting->portrait) && setting->portrait.settings) {
            setting->name = entries[i].name;
            count++;
        } else
            portrait_free(&setting->portrait);
    }
    json_open(&out, NULL, '{');
    if (settings)
        write_differences(&out, settings, count);
    json_integer(&out, "unread", patience.unread);
    json_close(&out, '}');
    for (int i = 0; i < count; i++)
        portrait_free(&settings[i].portrait);
    memory_free(settings);
    free(entries);
    return settings ? 200 : 503;
}
