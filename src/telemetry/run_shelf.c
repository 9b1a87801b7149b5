#include "telemetry/run_shelf.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/memory.h"
#include "base/words.h"
#include "telemetry/run_files.h"
#include "telemetry/run_json.h"

/* ---- what was asked for ------------------------------------------------------------------------------------------ */

enum esper_status run_shelf_age(const char *text, int64_t *seconds, struct esper_error *error)
{
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    int64_t unit = strcmp(end, "h") == 0 ? 3600 : strcmp(end, "d") == 0 ? 86400 : strcmp(end, "w") == 0 ? 604800 : 0;
    if (errno || end == text || *text == '+' || number < 1 || number > 100000 || !unit)
        return error_set(error, ESPER_INVALID, "--older %.60s: give hours, days or weeks, as in 12h, 30d or 2w", text);
    *seconds = number * unit;
    return ESPER_OK;
}

enum esper_status run_shelf_check_state(const char *state, struct esper_error *error)
{
    static const char *const states[] = {"running", "finished", "interrupted", "failed", "crashed", "unreadable"};
    enum { COUNT = sizeof states / sizeof states[0] };
    for (int i = 0; i < COUNT; i++)
        if (strcmp(state, states[i]) == 0)
            return ESPER_OK;
    return error_set(error, ESPER_INVALID, "--state %.40s: there is no such state%s", state,
                     word_hint(state, states, COUNT, NULL).text);
}

/* ---- one run ----------------------------------------------------------------------------------------------------- */

/* Keeps the first reason. */
static void complain(struct shelf_run *entry, const struct esper_error *error)
{
    if (!*entry->trouble)
        snprintf(entry->trouble, sizeof entry->trouble, "%s", error->text);
}

static void read_files(struct shelf_run *entry)
{
    struct run_files files;
    struct esper_error error;
    struct stat info = {0};
    if (stat(entry->path, &info) == 0) {
        entry->device = info.st_dev;
        entry->inode = info.st_ino;
    }
    if (run_files_open(&files, entry->path, &error) != ESPER_OK)
        complain(entry, &error);
    entry->bytes = files.bytes;
    for (int i = 0; i < files.count; i++) /* unless the status says it better */
        if (strcmp(files.files[i].name, "run.json") == 0)
            entry->changed = files.files[i].modified;
    run_files_close(&files);
}

static void read_status(struct shelf_run *entry, const struct run *run)
{
    struct run_status status;
    struct esper_error error;
    struct tm parts = {0};
    if (run_get_status(run, &status, &error) != ESPER_OK) {
        complain(entry, &error);
        return;
    }
    snprintf(entry->state, sizeof entry->state, "%s", run_state_name(&status));
    snprintf(entry->updated, sizeof entry->updated, "%s", status.updated);
    entry->round = status.round;
    if (strptime(status.updated, "%Y-%m-%dT%H:%M:%S", &parts))
        entry->changed = timegm(&parts);
}

static void read_run(struct shelf_run *entry, struct run *run)
{
    struct esper_error error;
    char policy[CONFIG_TEXT];
    snprintf(entry->state, sizeof entry->state, "unreadable");
    read_files(entry);
    if (run_label_read(entry->path, &entry->label, &error) != ESPER_OK)
        complain(entry, &error);
    if (run_open(run, ".", entry->path, &error) == ESPER_OK) {
        snprintf(entry->task, sizeof entry->task, "%.63s", run->config.task);
        snprintf(entry->policy, sizeof entry->policy, "%.15s", config_policy(&run->config, policy));
        snprintf(entry->created, sizeof entry->created, "%s", run->created);
        entry->rounds = run->config.rounds;
        read_status(entry, run);
        run_close(run);
    } else
        complain(entry, &error);
    entry->alive = run_is_alive(entry->path);
}

static bool wanted(const struct shelf_run *entry, const struct shelf_wish *wish)
{
    return (!wish->tag || run_label_has(&entry->label, wish->tag)) &&
           (!wish->state || strcmp(wish->state, entry->state) == 0) &&
           (!wish->older || time(NULL) - entry->changed >= wish->older);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static enum esper_status add(struct run_shelf *shelf, const char *path, const struct shelf_wish *wish,
                             struct esper_error *error)
{
    /* In steps of a power of two: the room is full when the count is one. */
    if ((shelf->count & (shelf->count - 1)) == 0) {
        size_t room = shelf->count ? 2 * (size_t)shelf->count : 1;
        struct shelf_run *larger = realloc(shelf->runs, room * sizeof *larger);
        if (!larger)
            return error_set(error, ESPER_FAILED, "out of memory while listing runs");
        shelf->runs = larger;
    }
    struct run *run = memory_alloc(1, sizeof *run, error);
    if (!run)
        return ESPER_FAILED;
    struct shelf_run *entry = &shelf->runs[shelf->count];
    memset(entry, 0, sizeof *entry);
    const char *slash = strrchr(path, '/');
    snprintf(entry->path, sizeof entry->path, "%s", path);
    snprintf(entry->name, sizeof entry->name, "%.127s", slash ? slash + 1 : path);
    read_run(entry, run);
    memory_free(run);
    if (wanted(entry, wish)) {
        shelf->bytes += entry->bytes;
        shelf->count++;
    }
    return ESPER_OK;
}

/* An entry of the directory; links (RUNS/latest) and hidden ones are passed over. */
static enum esper_status add_entry(struct run_shelf *shelf, const char *runs, const char *name,
                                   const struct shelf_wish *wish, struct esper_error *error)
{
    char path[PATH_MAX], file[PATH_MAX];
    struct stat info;
    if (*name == '.' || snprintf(path, sizeof path, "%s/%s", runs, name) >= (int)sizeof path ||
        lstat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return ESPER_OK;
    if (snprintf(file, sizeof file, "%s/run.json", path) < (int)sizeof file && lstat(file, &info) == 0)
        return add(shelf, path, wish, error);
    if (!shelf->others++)
        snprintf(shelf->first_other, sizeof shelf->first_other, "%.127s", name);
    return ESPER_OK;
}

static enum esper_status add_all(struct run_shelf *shelf, const char *runs, const struct shelf_wish *wish,
                                 struct esper_error *error)
{
    DIR *listing = opendir(runs);
    enum esper_status status = ESPER_OK;
    if (!listing && errno == ENOENT && strcmp(runs, "runs") == 0)
        return ESPER_OK; /* nobody has trained here yet */
    if (!listing)
        return error_set(error, errno == ENOENT || errno == ENOTDIR ? ESPER_INVALID : ESPER_FAILED,
                         "%s: cannot list the runs: %s", runs, strerror(errno));
    while (status == ESPER_OK) {
        errno = 0;
        const struct dirent *entry = readdir(listing);
        if (!entry && errno)
            status = error_set(error, ESPER_FAILED, "%s: cannot list the runs: %s", runs, strerror(errno));
        if (!entry)
            break;
        status = add_entry(shelf, runs, entry->d_name, wish, error);
    }
    closedir(listing);
    return status;
}

static enum esper_status add_named(struct run_shelf *shelf, const char *runs, const struct shelf_wish *wish,
                                   struct esper_error *error)
{
    for (int i = 0; i < wish->count; i++) {
        char path[PATH_MAX];
        struct stat info = {0};
        bool twice = false;
        TRY(run_find(runs, wish->words[i], path, error));
        TRY(run_json_check(path, error));
        if (stat(path, &info) != 0)
            return error_set(error, ESPER_FAILED, "%s: cannot look at it: %s", path, strerror(errno));
        for (int k = 0; k < shelf->count; k++)
            twice = twice || (shelf->runs[k].device == info.st_dev && shelf->runs[k].inode == info.st_ino);
        if (!twice)
            TRY(add(shelf, path, wish, error));
    }
    return ESPER_OK;
}

static int newest_first(const void *a, const void *b)
{
    const struct shelf_run *x = a, *y = b;
    if (x->changed != y->changed)
        return x->changed > y->changed ? -1 : 1;
    return strcmp(x->name, y->name);
}

enum esper_status run_shelf_open(struct run_shelf *shelf, const char *runs, const struct shelf_wish *wish,
                                 struct esper_error *error)
{
    memset(shelf, 0, sizeof *shelf);
    enum esper_status status = wish->count ? add_named(shelf, runs, wish, error) : add_all(shelf, runs, wish, error);
    if (status == ESPER_OK && shelf->count > 1)
        qsort(shelf->runs, (size_t)shelf->count, sizeof *shelf->runs, newest_first);
    return status;
}

void run_shelf_free(struct run_shelf *shelf)
{
    free(shelf->runs);
    memset(shelf, 0, sizeof *shelf);
}
