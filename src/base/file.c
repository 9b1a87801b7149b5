#include "base/file.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

/* A path that is wrong is the caller's mistake; a device that fails is not. */
static enum esper_status system_error(struct esper_error *error, const char *action, const char *path)
{
    int code = errno;
    bool wrong_path = code == ENOENT || code == ENOTDIR || code == EISDIR || code == ENAMETOOLONG;
    return error_set(error, wrong_path ? ESPER_INVALID : ESPER_FAILED, "%s: cannot %s: %s", path, action,
                     strerror(code));
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* What is there instead of a file, NULL: it is one. */
static const char *other_kind(mode_t mode)
{
    return S_ISREG(mode)    ? NULL
           : S_ISDIR(mode)  ? "a directory"
           : S_ISLNK(mode)  ? "a symbolic link"
           : S_ISFIFO(mode) ? "a pipe"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

static enum esper_status refuse_kind(const char *path, mode_t mode, struct esper_error *error)
{
    return error_set(error, ESPER_INVALID, "%s: is %s, not a file", path, other_kind(mode));
}

/* A path that the user gave: a link is followed, and a pipe (`<(...)`, /dev/stdin) waited for unless `flags` say no. */
static enum esper_status open_for_reading(const char *path, int flags, int *fd, struct stat *info,
                                          struct esper_error *error)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    if (*fd < 0)
        return system_error(error, "open", path);
    enum esper_status status = ESPER_OK;
    if (fstat(*fd, info) != 0)
        status = system_error(error, "stat", path);
    else if (S_ISDIR(info->st_mode))
        status = refuse_kind(path, info->st_mode, error);
    if (status != ESPER_OK)
        close(*fd);
    return status;
}

static enum esper_status check_own(const char *path, int fd, size_t max_bytes, struct stat *info,
                                   struct esper_error *error)
{
    if (fstat(fd, info) != 0)
        return system_error(error, "stat", path);
    if (!S_ISREG(info->st_mode))
        return refuse_kind(path, info->st_mode, error);
    if ((uintmax_t)info->st_size > max_bytes)
        return error_set(error, ESPER_INVALID, "%s: has %lld bytes; at most %zu are allowed", path,
                         (long long)info->st_size, max_bytes);
    return ESPER_OK;
}

static enum esper_status open_own(const char *path, int flags, size_t max_bytes, int *fd, struct stat *info,
                                  struct esper_error *error)
{
    *fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (*fd < 0) {
        int code = errno; /* of a link, a socket, ...: the system's words do not say what it is */
        if (lstat(path, info) == 0 && !S_ISREG(info->st_mode))
            return refuse_kind(path, info->st_mode, error);
        errno = code;
        return system_error(error, "open", path);
    }
    enum esper_status status = check_own(path, *fd, max_bytes, info, error);
    if (status != ESPER_OK) {
        close(*fd);
        *fd = -1;
    }
    return status;
}

enum esper_status file_open_own(const char *path, int flags, int *fd, struct esper_error *error)
{
    struct stat info;
    return open_own(path, flags, SIZE_MAX, fd, &info, error);
}

enum esper_status file_check_own(const char *path, struct esper_error *error)
{
    struct stat info;
    if (lstat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return refuse_kind(path, info.st_mode, error);
    return ESPER_OK;
}

static enum esper_status read_all(int fd, const char *path, size_t capacity, char *data, size_t *size,
                                  struct esper_error *error)
{
    *size = 0;
    while (*size < capacity) {
        ssize_t got = read(fd, data + *size, capacity - *size);
        if (got == 0)
            break;
        if (got > 0)
            *size += (size_t)got;
        else if (errno != EINTR)
            return system_error(error, "read", path);
    }
    return ESPER_OK;
}

static enum esper_status read_open(int fd, const struct stat *info, const char *path, size_t max_bytes, char **data,
                                   size_t *size, struct esper_error *error)
{
    /* A pipe has no size: give it the limit. One byte more than allowed is read, to tell "full" from "too large". */
    size_t capacity = S_ISREG(info->st_mode) && (uintmax_t)info->st_size < max_bytes ? (size_t)info->st_size
                                                                                     : max_bytes;
    char *buffer = memory_alloc(capacity + 2, 1, error);
    enum esper_status status = buffer ? read_all(fd, path, capacity + 1, buffer, size, error) : ESPER_FAILED;
    close(fd);
    if (status == ESPER_OK && *size > capacity)
        status = capacity == max_bytes
                     ? error_set(error, ESPER_INVALID, "%s: is larger than the allowed %zu bytes", path, max_bytes)
                     : error_set(error, ESPER_FAILED, "%s: grew while it was read; try again", path);
    if (status != ESPER_OK) {
        memory_free(buffer);
        return status;
    }
    buffer[*size] = '\0';
    *data = buffer;
    return ESPER_OK;
}

enum esper_status file_read(const char *path, size_t max_bytes, char **data, size_t *size, struct esper_error *error)
{
    int fd = -1;
    struct stat info = {0};
    TRY(open_for_reading(path, 0, &fd, &info, error));
    return read_open(fd, &info, path, max_bytes, data, size, error);
}

enum esper_status file_read_own(const char *path, size_t max_bytes, char **data, size_t *size,
                                struct esper_error *error)
{
    int fd = -1;
    struct stat info = {0};
    TRY(open_own(path, O_RDONLY, max_bytes, &fd, &info, error));
    return read_open(fd, &info, path, max_bytes, data, size, error);
}

/* Half of the machine's memory: whoever needs a file needs room for what becomes of it. */
static size_t most_to_load(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? (size_t)pages / 2 * (size_t)bytes : SIZE_MAX;
}

enum esper_status file_load(const char *path, void **data, size_t *size, struct esper_error *error)
{
    int fd = -1;
    struct stat info = {0};
    TRY(open_for_reading(path, O_NONBLOCK | O_NOCTTY, &fd, &info, error)); /* no wait for a pipe */
    enum esper_status status = ESPER_OK;
    *data = NULL;
    *size = 0;
    if (!S_ISREG(info.st_mode)) {
        status = refuse_kind(path, info.st_mode, error);
    } else if ((uintmax_t)info.st_size > most_to_load()) {
        status = error_set(error, ESPER_INVALID, "%s: has %lld bytes, more than half of this machine's memory", path,
                           (long long)info.st_size);
    } else if (info.st_size > 0) {
        *data = memory_alloc((size_t)info.st_size, 1, error);
        status = *data ? read_all(fd, path, (size_t)info.st_size, *data, size, error) : ESPER_FAILED;
        if (status == ESPER_OK && *size < (size_t)info.st_size)
            status = error_set(error, ESPER_FAILED, "%s: became shorter while it was read; try again", path);
    }
    close(fd);
    if (status != ESPER_OK) {
        memory_free(*data);
        *data = NULL;
    }
    return status;
}

/* ---- atomic writing ---------------------------------------------------------------------------------------------- */

enum esper_status file_begin(struct file_writer *writer, const char *path, struct esper_error *error)
{
    writer->open = false;
    writer->fd = -1;
    writer->temp[0] = '\0';
    snprintf(writer->path, sizeof writer->path, "%s", path);
    if (strcmp(path, "-") == 0) {
        writer->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
        writer->open = writer->fd >= 0;
        return writer->open ? ESPER_OK : system_error(error, "write", "standard output");
    }

    /* rename would silently replace a device or a socket with a file. */
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return error_set(error, ESPER_INVALID, "%s: exists and is not a regular file", path);

    for (int attempt = 0; attempt < 100; attempt++) {
        int length = snprintf(writer->temp, sizeof writer->temp, "%s.%ld-%d.tmp", path, (long)getpid(), attempt);
        if (length >= (int)sizeof writer->temp)
            return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", path);
        writer->fd = open(writer->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (writer->fd >= 0 || errno != EEXIST)
            break;
    }
    if (writer->fd < 0)
        return system_error(error, "create a file there", path);
    writer->open = true;
    return ESPER_OK;
}

/* Report why the write failed, naming the file the caller asked for, and remove the temporary one. */
static enum esper_status writer_fail(struct file_writer *writer, const char *action, struct esper_error *error)
{
    enum esper_status status = system_error(error, action, writer->temp[0] ? writer->path : "standard output");
    file_abort(writer);
    return status;
}

enum esper_status file_write(struct file_writer *writer, const void *data, size_t bytes, struct esper_error *error)
{
    const char *at = data;
    while (bytes) {
        ssize_t put = write(writer->fd, at, bytes);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return writer_fail(writer, "write", error);
        at += put;
        bytes -= (size_t)put;
    }
    return ESPER_OK;
}

/* Make the new name itself durable. Some file systems cannot sync a directory and return EINVAL: that is fine. */
static enum esper_status sync_directory(const char *path, struct esper_error *error)
{
    char directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int length = slash == path ? 1 : slash ? (int)(slash - path) : 0;
    snprintf(directory, sizeof directory, "%.*s", length ? length : 1, length ? path : ".");

    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return system_error(error, "open", directory);
    enum esper_status status = ESPER_OK;
    if (fsync(fd) != 0 && errno != EINVAL)
        status = system_error(error, "sync", directory);
    close(fd);
    return status;
}

enum esper_status file_commit(struct file_writer *writer, struct esper_error *error)
{
    bool named = writer->temp[0]; /* not standard output */
    if (named && fsync(writer->fd) != 0)
        return writer_fail(writer, "sync", error);
    int fd = writer->fd;
    writer->fd = -1;
    if (close(fd) != 0) /* network file systems report a full disk here */
        return writer_fail(writer, "close", error);
    if (named && rename(writer->temp, writer->path) != 0)
        return writer_fail(writer, "replace", error);
    writer->open = false;
    if (!named)
        return ESPER_OK;
    return sync_directory(writer->path, error);
}

void file_abort(struct file_writer *writer)
{
    if (!writer->open)
        return;
    if (writer->fd >= 0)
        close(writer->fd);
    if (writer->temp[0])
        unlink(writer->temp);
    writer->fd = -1;
    writer->open = false;
}

/* ---- directories ------------------------------------------------------------------------------------------------- */

enum esper_status file_make_directories(const char *path, struct esper_error *error)
{
    char partial[PATH_MAX];
    if (snprintf(partial, sizeof partial, "%s", path) >= (int)sizeof partial)
        return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", path);
    for (char *at = partial + 1;; at++) {
        char kept = *at;
        if (kept != '/' && kept != '\0')
            continue;
        *at = '\0';
        struct stat info;
        if (mkdir(partial, 0777) == 0) {
            sync_directory(partial, NULL); /* what goes into it shall not vanish with it */
        } else {
            int code = errno;
            bool there = stat(partial, &info) == 0;
            errno = code;
            if (!there)
                return system_error(error, "make this directory", partial);
            if (!S_ISDIR(info.st_mode))
                return error_set(error, ESPER_INVALID, "%s: is not a directory, so nothing can go to %s", partial,
                                 path);
        }
        *at = kept;
        if (!kept)
            return ESPER_OK;
    }
}

/* Beside this code's own file, or where `make install` puts it: the program is in bin, libesper.so in lib. */
static bool find_beside(const char *own, const char *name, char *path, size_t size)
{
    static const char *const folders[] = {"", "../lib/esper/", "esper/"};
    const char *slash = strrchr(own, '/');
    for (size_t i = 0; slash && i < sizeof folders / sizeof folders[0]; i++) {
        const int used = snprintf(path, size, "%.*s/%s%s", (int)(slash - own), own, folders[i], name);
        if (used > 0 && (size_t)used < size && access(path, R_OK) == 0)
            return true;
    }
    return false;
}

bool file_find_library(const char *name, char *path, size_t size)
{
    static const char own_data;
    char own[PATH_MAX], program[PATH_MAX];
    Dl_info info;
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    if (dladdr(&own_data, &info) && strchr(info.dli_fname, '/') && realpath(info.dli_fname, own) &&
        find_beside(own, name, path, size))
        return true;
    return find_beside(program, name, path, size);
}
