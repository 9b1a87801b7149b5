/* A run's checkpoint folder: which checkpoint is the newest, whether it is intact, and which may be removed. */
#include "session/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

/* Exactly the names that checkpoint_name makes. */
static bool parse_name(const char *name, uint32_t *round, uint32_t *step)
{
    char *end, again[32];
    if (name[0] != 'r')
        return false;
    *round = (uint32_t)strtoul(name + 1, &end, 10);
    if (strncmp(end, "-s", 2) != 0)
        return false;
    *step = (uint32_t)strtoul(end + 2, NULL, 10);
    checkpoint_name(*round, *step, again);
    return strcmp(name, again) == 0;
}

static int newest_first(const void *a, const void *b)
{
    const struct checkpoint_info *x = a, *y = b;
    if (x->round != y->round)
        return x->round > y->round ? -1 : 1;
    return (x->step < y->step) - (x->step > y->step);
}

static enum esper_status folder_error(const char *folder, const char *action, struct esper_error *error)
{
    enum esper_status status = errno == ENOENT || errno == ENOTDIR ? ESPER_INVALID : ESPER_FAILED;
    return error_set(error, status, "%s: cannot %s: %s", folder, action, strerror(errno));
}

/* The name of the folder's next entry. NULL after the last one and, which is not the same, where the rest cannot be
 * read: then errno is not 0. */
static const char *next_name(DIR *listing)
{
    errno = 0;
    const struct dirent *entry = readdir(listing);
    return entry ? entry->d_name : NULL;
}

/* The list of an open folder. */
static enum esper_status read_list(DIR *listing, const char *folder, struct checkpoint_info **list, int *count,
                                   struct esper_error *error)
{
    const char *name;
    int capacity = 0;
    uint32_t round, step;
    while ((name = next_name(listing)))
        capacity += parse_name(name, &round, &step);
    if (errno)
        return folder_error(folder, "list the checkpoints", error);
    rewinddir(listing);
    *list = memory_alloc((size_t)capacity, sizeof **list, error);
    if (!*list)
        return ESPER_FAILED;
    name = "";
    while (*count < capacity && (name = next_name(listing))) {
        if (!parse_name(name, &round, &step))
            continue;
        struct checkpoint_info *found = &(*list)[*count];
        found->round = round;
        found->step = step;
        if (snprintf(found->path, sizeof found->path, "%s/%s", folder, name) < (int)sizeof found->path)
            ++*count; /* a path too long to open is no checkpoint */
    }
    return !name && errno ? folder_error(folder, "list the checkpoints", error) : ESPER_OK;
}

enum esper_status checkpoint_list(const char *folder, struct checkpoint_info **list, int *count,
                                  struct esper_error *error)
{
    struct stat info;
    *list = NULL;
    *count = 0;
    if (lstat(folder, &info) == 0 && S_ISLNK(info.st_mode)) /* checkpoints would be written and removed elsewhere */
        return error_set(error, ESPER_INVALID, "%s: is a symbolic link, not a directory", folder);
    DIR *listing = opendir(folder);
    if (!listing)
        return folder_error(folder, "list the checkpoints", error);
    enum esper_status status = read_list(listing, folder, list, count, error);
    closedir(listing);
    if (status == ESPER_OK) {
        qsort(*list, (size_t)*count, sizeof **list, newest_first);
    } else {
        memory_free(*list);
        *list = NULL;
    }
    return status;
}

/* The reason, without the path before it and the advice after it. */
static void format_reason(const struct esper_error *error, const char *path, char text[300])
{
    size_t length = strlen(path);
    bool prefixed = strncmp(error->text, path, length) == 0 && error->text[length] == ':';
    snprintf(text, 300, "%.299s", prefixed ? error->text + length + 2 : error->text);
    char *advice = strrchr(text, ';');
    if (advice)
        *advice = '\0';
}

/* "r000004-s000.ckpt and the 1 before it", and why the newest cannot be used. */
static void format_passed(const struct checkpoint_info *list, int passed, const struct esper_error *problem,
                          char names[96], char reason[300])
{
    char newest[32], more[48] = "";
    checkpoint_name(list[0].round, list[0].step, newest);
    format_reason(problem, list[0].path, reason);
    if (passed > 1)
        snprintf(more, sizeof more, " and the %d before it", passed - 1);
    snprintf(names, 96, "%s%s", newest, more);
}

/* The newest ones are damaged, the one at `passed` is intact: this is said, or it is an error. */
static enum esper_status pass_over(const char *folder, const struct checkpoint_info *list, int passed,
                                   const struct esper_error *problem, char note[512], struct esper_error *error)
{
    char names[96], used[32], reason[300];
    format_passed(list, passed, problem, names, reason);
    checkpoint_name(list[passed].round, list[passed].step, used);
    if (!note)
        return error_set(error, ESPER_INVALID,
                         "%.200s: checkpoint %s cannot be used (%.200s); to use %s instead, move what is damaged away",
                         folder, names, reason, used);
    snprintf(note, 512, "checkpoint %s cannot be used (%s); resuming from %s", names, reason, used);
    return ESPER_OK;
}

enum esper_status checkpoint_newest(const char *folder, struct checkpoint_info *info, char note[512],
                                    struct esper_error *error)
{
    struct checkpoint_info *list;
    struct esper_error here = {0}, problem = {0}; /* of this one, of the newest */
    enum esper_status status = ESPER_INVALID;
    int count, at = 0;
    TRY(checkpoint_list(folder, &list, &count, error));
    if (note)
        note[0] = '\0';
    for (; at < count; at++) {
        status = checkpoint_verify(list[at].path, info, NULL, &here);
        if (status != ESPER_INVALID) /* intact, of another version, or not to be read just now, which is no damage */
            break;
        if (at == 0)
            problem = here;
    }
    if (count == 0)
        error_set(error, status, "%s: holds no checkpoint to resume from; start a new run", folder);
    else if (at == count)
        error_set(error, status, "none of the %d checkpoints is intact; the newest: %.440s", count, problem.text);
    else if (status != ESPER_OK)
        error_set(error, status, "%s", here.text);
    else if (at > 0)
        status = pass_over(folder, list, at, &problem, note, error);
    memory_free(list);
    return status;
}

enum esper_status checkpoint_read_newest(const char *folder, const struct table *table, const struct config *config,
                                         struct checkpoint_info *info, char note[512], struct esper_error *error)
{
    TRY(checkpoint_newest(folder, info, note, error));
    char path[PATH_MAX];
    memcpy(path, info->path, sizeof path); /* info is overwritten */
    return checkpoint_read(path, table, config, info, error);
}

/* ---- removing ---------------------------------------------------------------------------------------------------- */

static enum esper_status remove_file(const char *path, struct esper_error *error)
{
    if (unlink(path) != 0 && errno != ENOENT)
        return error_set(error, ESPER_FAILED, "%s: cannot remove: %s", path, strerror(errno));
    return ESPER_OK;
}

/* The name that file_begin gives to a file that is not committed yet. */
static bool is_remains(const char *name)
{
    size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, ".tmp") == 0 && strstr(name, ".ckpt.");
}

static bool older(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* A write in progress is younger than the newest checkpoint; any other was interrupted and will never finish. Of two
 * files written within one clock tick, neither is younger. */
static enum esper_status remove_remains(const char *folder, const char *newest, struct esper_error *error)
{
    struct stat youngest, info;
    DIR *listing = opendir(folder);
    const char *name;
    enum esper_status status = ESPER_OK;
    if (!listing)
        return folder_error(folder, "list the checkpoints", error);
    bool known = stat(newest, &youngest) == 0;
    while (known && status == ESPER_OK && (name = next_name(listing))) {
        char path[PATH_MAX];
        if (!is_remains(name) || snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
            continue;
        if (stat(path, &info) == 0 && S_ISREG(info.st_mode) && !older(&youngest.st_mtim, &info.st_mtim))
            status = remove_file(path, error);
    }
    closedir(listing);
    return status;
}

enum esper_status checkpoint_prune(const char *folder, int keep, struct esper_error *error)
{
    struct checkpoint_info *list;
    int count, sound = 0, newest = -1;
    enum esper_status status = ESPER_OK;
    TRY(checkpoint_list(folder, &list, &count, error));
    for (int i = 0; i < count && status == ESPER_OK; i++) {
        struct checkpoint_info info;
        struct esper_error ignored;
        if (sound >= keep) {
            status = remove_file(list[i].path, error);
        } else if (checkpoint_verify(list[i].path, &info, NULL, &ignored) == ESPER_OK) {
            newest = sound++ ? newest : i;
        }
    }
    if (status == ESPER_OK && newest >= 0)
        status = remove_remains(folder, list[newest].path, error);
    memory_free(list);
    return status;
}

enum esper_status checkpoint_clear(const char *folder, struct esper_error *error)
{
    struct checkpoint_info *list;
    int count;
    enum esper_status status = ESPER_OK;
    TRY(checkpoint_list(folder, &list, &count, error));
    for (int i = 0; i < count && status == ESPER_OK; i++)
        status = remove_file(list[i].path, error);
    memory_free(list);
    return status;
}
