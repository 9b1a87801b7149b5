#include "telemetry/run_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

static const char checkpoints[] = "checkpoints";

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* "12" of "12-s3": the digits at the start, at least one. */
static const char *after_digits(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits ? text + digits : NULL;
}

static bool is_checkpoint(const char *name)
{
    if (strcmp(name, "best.ckpt") == 0)
        return true;
    const char *at = *name == 'r' ? after_digits(name + 1) : NULL;
    at = at && strncmp(at, "-s", 2) == 0 ? after_digits(at + 2) : NULL;
    return at && strcmp(at, ".ckpt") == 0;
}

static bool is_listed(const char *name)
{
    static const char *const names[] = {
        "run.json",     "plan.json",        "status.json",         "label.json",    "lock",
        "telemetry.db", "telemetry.db-wal", "script.json",         "schedules.txt", "trace.json",
        "report.html",  "telemetry.db-shm", "telemetry.db-journal"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* The name without ".PID-N.tmp", which a write leaves that was cut off (base/file.c); its length, 0: it has no such
 * end. */
static size_t before_temporary(const char *name)
{
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
        const char *at = after_digits(dot + 1);
        at = at && *at == '-' ? after_digits(at + 1) : NULL;
        if (at && strcmp(at, ".tmp") == 0)
            return (size_t)(dot - name);
    }
    return 0;
}

/* Whether Esper writes a file of that name there. */
static bool is_own(const char *name, bool in_checkpoints, bool *temporary)
{
    char whole[80];
    size_t length = before_temporary(name);
    if (strlen(name) >= sizeof whole - sizeof checkpoints)
        return false;
    snprintf(whole, sizeof whole, "%.*s", length ? (int)length : (int)sizeof whole - 1, name);
    *temporary = length || strcmp(name, "lock") == 0 || strcmp(name, "telemetry.db-shm") == 0;
    return in_checkpoints ? is_checkpoint(whole) : is_listed(whole);
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static enum esper_status system_error(const char *path, const char *action, struct esper_error *error)
{
    bool wrong = errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
    return error_set(error, wrong ? ESPER_INVALID : ESPER_FAILED, "%s: cannot %s: %s", path, action, strerror(errno));
}

static enum esper_status add(struct run_files *files, const struct run_file *file, int *room, struct esper_error *error)
{
    if (files->count == *room) {
        *room = *room ? 2 * *room : 32;
        struct run_file *larger = realloc(files->files, (size_t)*room * sizeof *larger);
        if (!larger)
            return error_set(error, ESPER_FAILED, "out of memory while listing %s", files->path);
        files->files = larger;
    }
    files->files[files->count++] = *file;
    files->bytes += file->bytes;
    return ESPER_OK;
}

static void add_strange(struct run_files *files, const char *name, bool in_checkpoints)
{
    if (!files->strange++)
        snprintf(files->first_strange, sizeof files->first_strange, "%s%.60s", in_checkpoints ? "checkpoints/" : "",
                 name);
}

static enum esper_status add_entry(struct run_files *files, const char *name, bool in_checkpoints, int *room,
                                   struct esper_error *error)
{
    struct run_file file = {0};
    struct stat info;
    if (fstatat(in_checkpoints ? files->checkpoints : files->folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? ESPER_OK : system_error(files->path, "look into it", error); /* gone meanwhile */
    if (!in_checkpoints && strcmp(name, checkpoints) == 0 && files->checkpoints >= 0)
        return ESPER_OK;
    if (!S_ISREG(info.st_mode) || !is_own(name, in_checkpoints, &file.temporary)) {
        add_strange(files, name, in_checkpoints);
        return ESPER_OK;
    }
    snprintf(file.name, sizeof file.name, "%s%.60s", in_checkpoints ? "checkpoints/" : "", name);
    file.bytes = (uint64_t)info.st_size;
    file.modified = info.st_mtime;
    return add(files, &file, room, error);
}

static enum esper_status list_directory(struct run_files *files, bool in_checkpoints, int *room,
                                        struct esper_error *error)
{
    /* A descriptor of its own: closedir takes it. */
    int fd = openat(in_checkpoints ? files->checkpoints : files->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;
    enum esper_status status = listing ? ESPER_OK : system_error(files->path, "list it", error);
    if (!listing && fd >= 0)
        close(fd);
    while (status == ESPER_OK) {
        errno = 0;
        const struct dirent *entry = readdir(listing);
        if (!entry && errno)
            status = system_error(files->path, "list it", error);
        if (!entry)
            break;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = add_entry(files, entry->d_name, in_checkpoints, room, error);
    }
    if (listing)
        closedir(listing);
    return status;
}

/* run.json and then lock last, otherwise by name. */
static int in_order(const void *a, const void *b)
{
    const struct run_file *x = a, *y = b;
    int rank_x = strcmp(x->name, "run.json") == 0 ? 1 : strcmp(x->name, "lock") == 0 ? 2 : 0;
    int rank_y = strcmp(y->name, "run.json") == 0 ? 1 : strcmp(y->name, "lock") == 0 ? 2 : 0;
    return rank_x != rank_y ? rank_x - rank_y : strcmp(x->name, y->name);
}

enum esper_status run_files_open(struct run_files *files, const char *path, struct esper_error *error)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    struct stat info;
    int room = 0;
    *files = (struct run_files){.folder = -1, .checkpoints = -1};
    if (snprintf(files->path, sizeof files->path, "%s", path) >= (int)sizeof files->path)
        return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", path);
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode))
        return error_set(error, ESPER_INVALID, "%s: is a symbolic link; give the run's own directory", path);
    files->folder = open(path, flags);
    if (files->folder < 0)
        return system_error(path, "open", error);
    files->checkpoints = openat(files->folder, checkpoints, flags);
    TRY(list_directory(files, false, &room, error));
    if (files->checkpoints >= 0)
        TRY(list_directory(files, true, &room, error));
    if (files->count)
        qsort(files->files, (size_t)files->count, sizeof *files->files, in_order);
    return ESPER_OK;
}

void run_files_close(struct run_files *files)
{
    if (files->checkpoints >= 0)
        close(files->checkpoints);
    if (files->folder >= 0)
        close(files->folder);
    free(files->files);
    *files = (struct run_files){.folder = -1, .checkpoints = -1};
}

/* ---- reading and removing ---------------------------------------------------------------------------------------- */

/* The directory that a file is in, and its name there. */
static int place(const struct run_files *files, const struct run_file *file, const char **name)
{
    const char *slash = strchr(file->name, '/');
    *name = slash ? slash + 1 : file->name;
    return slash ? files->checkpoints : files->folder;
}

enum esper_status run_files_read(const struct run_files *files, const struct run_file *file, int *fd,
                                 struct esper_error *error)
{
    const char *name;
    struct stat info;
    const int directory = place(files, file, &name);
    *fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (*fd >= 0 && fstat(*fd, &info) == 0 && S_ISREG(info.st_mode))
        return ESPER_OK;
    error_set(error, ESPER_FAILED, "%s/%s: cannot open: %s", files->path, file->name,
              *fd < 0 ? strerror(errno) : "it is no file any more");
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return ESPER_FAILED;
}

/* The next file that matters, from *at on. */
static const struct run_file *next_lasting(const struct run_files *files, int *at)
{
    while (*at < files->count && files->files[*at].temporary)
        ++*at;
    return *at < files->count ? &files->files[(*at)++] : NULL;
}

bool run_files_same(const struct run_files *before, const struct run_files *now)
{
    int i = 0, k = 0;
    for (;;) {
        const struct run_file *a = next_lasting(before, &i), *b = next_lasting(now, &k);
        if (!a || !b)
            return a == b;
        if (strcmp(a->name, b->name) != 0 || a->bytes != b->bytes || a->modified != b->modified)
            return false;
    }
}

/* Whether a directory went; one that holds something else stays, and that is no error. */
static bool take_away(int at, const char *name, bool *trouble)
{
    if (unlinkat(at, name, AT_REMOVEDIR) == 0)
        return true;
    *trouble = errno != ENOTEMPTY && errno != EEXIST;
    return false;
}

enum esper_status run_files_remove(struct run_files *files, bool *gone, struct esper_error *error)
{
    bool trouble = false;
    *gone = false;
    for (int i = 0; i < files->count; i++) {
        const char *name;
        const int directory = place(files, &files->files[i], &name);
        /* A run without run.json is none, so its empty folder goes before. */
        if (strcmp(name, "run.json") == 0 && files->checkpoints >= 0 &&
            !take_away(files->folder, checkpoints, &trouble) && trouble)
            return system_error(files->path, "remove its checkpoints", error);
        if (unlinkat(directory, name, 0) != 0 && errno != ENOENT)
            return error_set(error, ESPER_FAILED, "%s/%s: cannot remove: %s", files->path, files->files[i].name,
                             strerror(errno));
    }
    *gone = take_away(AT_FDCWD, files->path, &trouble);
    return *gone || !trouble ? ESPER_OK : system_error(files->path, "remove it", error);
}
