/* Finds a run's directory from what a user typed. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/words.h"
#include "telemetry/run.h"

static bool is_run(const char *directory)
{
    char path[PATH_MAX];
    struct stat info;
    return snprintf(path, sizeof path, "%s/run.json", directory) < (int)sizeof path && stat(path, &info) == 0;
}

/* "x/run.json", "x/checkpoints/best.ckpt": the run around a file, if there is one. */
static bool run_around(const char *file, char around[PATH_MAX])
{
    snprintf(around, PATH_MAX, "%s", file);
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(around, '/');
        if (!slash || slash == around)
            return false;
        *slash = '\0';
        if (is_run(around))
            return true;
    }
    return false;
}

static enum esper_status not_a_run(const char *path, struct esper_error *error)
{
    struct stat info;
    char around[PATH_MAX];
    if (stat(path, &info) != 0)
        return error_set(error, errno == ENOENT || errno == ENOTDIR ? ESPER_INVALID : ESPER_FAILED,
                         "%s: cannot open: %s", path, strerror(errno));
    if (run_around(path, around))
        return error_set(error, ESPER_INVALID, "%s: is part of a run; give the run's directory, %s", path, around);
    if (!S_ISDIR(info.st_mode))
        return error_set(error, ESPER_INVALID, "%s: is a file; a run is a directory", path);
    if (access(path, X_OK) != 0)
        return error_set(error, ESPER_FAILED, "%s: cannot open: %s", path, strerror(errno));
    return error_set(error, ESPER_INVALID, "%s: is a directory but not a run (it has no run.json)", path);
}

static enum esper_status no_such_name(const char *runs, const char *name, struct esper_error *error)
{
    struct dirent **entries;
    int count = scandir(runs, &entries, NULL, alphasort), names = 0;
    const char **offered = count > 0 ? calloc((size_t)count, sizeof *offered) : NULL;
    for (int i = 0; offered && i < count; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", runs, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && is_run(path))
            offered[names++] = entries[i]->d_name;
    }
    if (names)
        error_set(error, ESPER_INVALID, "no run \"%.100s\" in %s%s", name, runs,
                  word_hint(name, offered, names, NULL).text);
    else
        error_set(error, ESPER_INVALID, "no run \"%.100s\": there are no runs in %s; `esper train` creates one", name,
                  runs);
    free(offered);
    for (int i = 0; i < count; i++)
        free(entries[i]);
    if (count >= 0)
        free(entries);
    return ESPER_INVALID;
}

/* RUNS/latest -> RUNS/<name>, so that output and files carry the run's own name. */
static enum esper_status follow_latest(const char *runs, char path[PATH_MAX], struct esper_error *error)
{
    char target[256], link[PATH_MAX];
    snprintf(link, sizeof link, "%s/latest", runs);
    ssize_t length = readlink(link, target, sizeof target - 1);
    if (length <= 0)
        return no_such_name(runs, "latest", error);
    target[length] = '\0';
    bool absolute = *target == '/';
    if (snprintf(path, PATH_MAX, "%s%s%s", absolute ? "" : runs, absolute ? "" : "/", target) < PATH_MAX &&
        is_run(path))
        return ESPER_OK;
    return error_set(error, ESPER_INVALID, "%s: points to \"%s\", which is gone; name another run", link, target);
}

/* A word without '/' is looked for under RUNS first, then as a directory here. */
enum esper_status run_find(const char *runs, const char *text, char path[PATH_MAX], struct esper_error *error)
{
    char under[PATH_MAX];
    struct stat info;
    size_t length = strlen(text);
    while (length > 1 && text[length - 1] == '/')
        length--;
    if (length == 0)
        return error_set(error, ESPER_INVALID, "the name of a run is empty");
    if (snprintf(path, PATH_MAX, "%.*s", (int)length, text) >= PATH_MAX ||
        snprintf(under, sizeof under, "%s/%s", runs, path) >= (int)sizeof under)
        return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", text);
    bool name = !strchr(path, '/') && path[0] != '.';
    if (name && strcmp(path, "latest") == 0)
        return follow_latest(runs, path, error);
    if (name && is_run(under)) {
        memcpy(path, under, sizeof under);
        return ESPER_OK;
    }
    if (is_run(path))
        return ESPER_OK;
    if (!name || stat(path, &info) == 0)
        return not_a_run(path, error);
    return stat(under, &info) == 0 ? not_a_run(under, error) : no_such_name(runs, path, error);
}
