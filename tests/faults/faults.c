/*
 * A library for LD_PRELOAD that makes calls of the C library fail, to find out what a program does then.
 *
 *   - FAULTS_FAIL=KIND:K:HOW[:on]: the K-th call of that kind fails, with `on` all that follow as well. HOW is the name
 *     of an errno; `short`: half of the bytes, no error; `hang`: it never returns
 *   - FAULTS_COUNT=FILE: writes at exit how many calls of each kind there were
 *   - FAULTS_LOG=FILE: logs what is done to files (log.h), for those under FAULTS_UNDER=DIRECTORY
 *
 * What libc does inside itself, such as writing a FILE, passes it by: messages on stderr always arrive.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "log.h"

/* clang-format off */
#define KINDS(X)                                                                                                       \
    X(alloc) X(open) X(read) X(write) X(sync) X(rename) X(unlink) X(mkdir) X(opendir) X(readdir) X(truncate) X(close)  \
    X(stat) X(lock) X(mmap) X(thread)
/* clang-format on */
enum kind {
#define KIND_ENUM(name) KIND_##name,
    KINDS(KIND_ENUM) KIND_COUNT
};
static const char *const kind_names[] = {
#define KIND_NAME(name) #name,
    KINDS(KIND_NAME)};

static const struct {
    const char *name;
    int code;
} codes[] = {{"EIO", EIO},       {"ENOSPC", ENOSPC}, {"ENOMEM", ENOMEM}, {"EACCES", EACCES}, {"EINTR", EINTR},
             {"EMFILE", EMFILE}, {"EAGAIN", EAGAIN}, {"ENOLCK", ENOLCK}, {"EROFS", EROFS}};

/* ---- which call fails -------------------------------------------------------------------------------------------- */

enum { PASS = 0, SHORT = -1, HANG = -2 }; /* or the errno */

static atomic_ulong counts[KIND_COUNT];
static int failing_kind = -1, failing_how;
static unsigned long failing_at;
static bool failing_on;

/* Counts a call; says how it fails. */
static int due(enum kind kind)
{
    unsigned long number = atomic_fetch_add(&counts[kind], 1) + 1;
    if ((int)kind != failing_kind || (failing_on ? number < failing_at : number != failing_at))
        return PASS;
    while (failing_how == HANG)
        pause();
    return failing_how;
}

/* For calls that cannot be short: true, with errno set, if this one fails. */
static bool fails(enum kind kind)
{
    int how = due(kind);
    if (how > 0)
        errno = how;
    return how > 0;
}

static void wrong(const char *text)
{
    fprintf(stderr, "faults: FAULTS_FAIL=%s is not KIND:K:HOW or KIND:K:HOW:on\n", text);
    _exit(99);
}

static void parse_fault(const char *text)
{
    char kind[16], how[16], rest[8] = "";
    int got = sscanf(text, "%15[a-z]:%lu:%15[A-Za-z]:%7s", kind, &failing_at, how, rest);
    if (got < 3)
        wrong(text);
    failing_on = strcmp(rest, "on") == 0;
    failing_how = strcmp(how, "short") == 0 ? SHORT : strcmp(how, "hang") == 0 ? HANG : 0;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (strcmp(how, codes[i].name) == 0)
            failing_how = codes[i].code;
    for (int i = 0; i < KIND_COUNT; i++)
        if (strcmp(kind, kind_names[i]) == 0)
            failing_kind = i;
    if (failing_kind < 0 || failing_how == 0)
        wrong(text);
}

/* ---- the log ----------------------------------------------------------------------------------------------------- */

static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;
static int log_file = -1;
static char log_root[4096];
static size_t log_root_length;
static dev_t log_device;

/* An operation and its entry are one: the log has the order of the disk. */
static void log_begin(void)
{
    if (log_file >= 0)
        pthread_mutex_lock(&log_mutex);
}

static void log_end(void)
{
    int code = errno;
    if (log_file >= 0)
        pthread_mutex_unlock(&log_mutex);
    errno = code;
}

static void put(const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes) {
        ssize_t wrote = (ssize_t)syscall(SYS_write, log_file, at, bytes);
        if (wrote <= 0)
            _exit(98);
        at += wrote;
        bytes -= (size_t)wrote;
    }
}

/* The part of the path below the directory; NULL: it is elsewhere, or SQLite's index, which it makes anew. */
static const char *below(const char *path)
{
    size_t length = strlen(path);
    if (log_file < 0 || strncmp(path, log_root, log_root_length) != 0 || path[log_root_length] != '/' ||
        (length > 4 && strcmp(path + length - 4, "-shm") == 0))
        return NULL;
    return path + log_root_length + 1;
}

static void log_paths(enum log_operation operation, const char *path, const char *other, uint64_t inode)
{
    const char *name = below(path), *second = other ? below(other) : "";
    int code = errno;
    if (!name || !second)
        return;
    size_t bytes = strlen(name) + 1, more = other ? strlen(second) + 1 : 0;
    struct log_entry entry = {.operation = operation, .path_bytes = (uint32_t)(bytes + more), .inode = inode};
    put(&entry, sizeof entry);
    put(name, bytes);
    put(second, more);
    errno = code;
}

static void log_inode(enum log_operation operation, int fd, uint64_t offset, const void *data, size_t bytes)
{
    struct stat info;
    int code = errno;
    if (log_file >= 0 && syscall(SYS_fstat, fd, &info) == 0 && info.st_dev == log_device &&
        (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode))) {
        struct log_entry entry = {.operation = operation, .inode = info.st_ino, .offset = offset, .data_bytes = bytes};
        put(&entry, sizeof entry);
        put(data, bytes);
    }
    errno = code;
}

static uint64_t inode_of(int fd)
{
    struct stat info;
    return syscall(SYS_fstat, fd, &info) == 0 ? info.st_ino : 0;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

__attribute__((constructor)) static void begin(void)
{
    const char *fault = getenv("FAULTS_FAIL"), *file = getenv("FAULTS_LOG"), *under = getenv("FAULTS_UNDER");
    struct stat info;
    if (fault)
        parse_fault(fault);
    if (!file || !under)
        return;
    snprintf(log_root, sizeof log_root, "%s", under);
    log_root_length = strlen(log_root);
    if (stat(under, &info) != 0)
        _exit(98);
    log_device = info.st_dev;
    log_file = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    struct log_entry root = {.operation = LOG_MKDIR, .inode = info.st_ino};
    if (log_file < 0)
        _exit(98);
    if (lseek(log_file, 0, SEEK_END) == 0)
        put(&root, sizeof root);
}

__attribute__((destructor)) static void end(void)
{
    const char *file = getenv("FAULTS_COUNT");
    int fd = file ? (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    for (int i = 0; fd >= 0 && i < KIND_COUNT; i++)
        dprintf(fd, "%s %lu\n", kind_names[i], atomic_load(&counts[i]));
}

static void *next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found)
        _exit(97);
    return found;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes)
{
    return fails(KIND_alloc) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return fails(KIND_alloc) ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    return fails(KIND_alloc) ? NULL : __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return fails(KIND_alloc) ? NULL : __libc_memalign(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    int code = errno;
    void *memory = fails(KIND_alloc) ? NULL : __libc_memalign(alignment, bytes);
    errno = code;
    if (memory)
        *out = memory;
    return memory ? 0 : ENOMEM;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (fails(KIND_mmap))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

void *mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    return mmap(at, bytes, protection, flags, fd, offset);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    int how = due(KIND_thread);
    if (how > 0)
        return how;
    if (!real)
        *(void **)&real = next("pthread_create");
    return real(thread, attributes, start, argument);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static int open_any(int directory, const char *path, int flags, unsigned mode)
{
    if (fails(KIND_open))
        return -1;
    log_begin();
    int fd = (int)syscall(SYS_openat, directory, path, flags, mode);
    if (fd >= 0 && (flags & O_CREAT))
        log_paths(LOG_CREATE, path, NULL, inode_of(fd));
    if (fd >= 0 && (flags & O_TRUNC))
        log_inode(LOG_TRUNCATE, fd, 0, NULL, 0);
    log_end();
    return fd;
}

#define OPEN_BODY(directory)                                                                                           \
    va_list list;                                                                                                      \
    va_start(list, flags);                                                                                             \
    unsigned mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, unsigned) : 0;                                        \
    va_end(list);                                                                                                      \
    return open_any(directory, path, flags, mode);

int open(const char *path, int flags, ...)
{
    OPEN_BODY(AT_FDCWD)
}

int open64(const char *path, int flags, ...)
{
    OPEN_BODY(AT_FDCWD)
}

int openat(int directory, const char *path, int flags, ...)
{
    OPEN_BODY(directory)
}

int openat64(int directory, const char *path, int flags, ...){OPEN_BODY(directory)}

FILE *fopen(const char *path, const char *mode)
{
    static FILE *(*real)(const char *, const char *);
    if (!real)
        *(void **)&real = next("fopen");
    return fails(KIND_open) ? NULL : real(path, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
    return fopen(path, mode);
}

int close(int fd)
{
    bool failing = fails(KIND_close);
    int code = errno, result = (int)syscall(SYS_close, fd);
    if (!failing)
        return result;
    errno = code;
    return -1;
}

/* What a program that was compiled with FORTIFY calls instead. */
int __open_2(const char *path, int flags)
{
    return open_any(AT_FDCWD, path, flags, 0);
}

int __open64_2(const char *path, int flags)
{
    return open_any(AT_FDCWD, path, flags, 0);
}

/* How many bytes to move: half of them, none with errno set (-1), or all. It is disks that fail, not pipes. */
static ssize_t allowed(enum kind kind, int fd, size_t bytes)
{
    struct stat info;
    int how = syscall(SYS_fstat, fd, &info) == 0 && S_ISREG(info.st_mode) ? due(kind) : PASS;
    if (how > 0) {
        errno = how;
        return -1;
    }
    return (ssize_t)(how == SHORT && bytes > 1 ? bytes / 2 : bytes);
}

ssize_t read(int fd, void *data, size_t bytes)
{
    ssize_t part = allowed(KIND_read, fd, bytes);
    return part < 0 ? -1 : (ssize_t)syscall(SYS_read, fd, data, part);
}

ssize_t pread(int fd, void *data, size_t bytes, off_t offset)
{
    ssize_t part = allowed(KIND_read, fd, bytes);
    return part < 0 ? -1 : (ssize_t)syscall(SYS_pread64, fd, data, part, offset);
}

ssize_t pread64(int fd, void *data, size_t bytes, off_t offset)
{
    return pread(fd, data, bytes, offset);
}

ssize_t __read_chk(int fd, void *data, size_t bytes, size_t room)
{
    if (bytes > room)
        abort();
    return read(fd, data, bytes);
}

ssize_t __pread_chk(int fd, void *data, size_t bytes, off_t offset, size_t room)
{
    if (bytes > room)
        abort();
    return pread(fd, data, bytes, offset);
}

ssize_t __pread64_chk(int fd, void *data, size_t bytes, off_t offset, size_t room)
{
    return __pread_chk(fd, data, bytes, offset, room);
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    ssize_t part = allowed(KIND_write, fd, bytes);
    if (part < 0)
        return -1;
    log_begin();
    ssize_t wrote = (ssize_t)syscall(SYS_write, fd, data, part);
    if (wrote > 0 && log_file >= 0)
        log_inode(LOG_WRITE, fd, (uint64_t)(lseek(fd, 0, SEEK_CUR) - wrote), data, (size_t)wrote);
    log_end();
    return wrote;
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
    ssize_t part = allowed(KIND_write, fd, bytes);
    if (part < 0)
        return -1;
    log_begin();
    ssize_t wrote = (ssize_t)syscall(SYS_pwrite64, fd, data, part, offset);
    if (wrote > 0)
        log_inode(LOG_WRITE, fd, (uint64_t)offset, data, (size_t)wrote);
    log_end();
    return wrote;
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t offset)
{
    return pwrite(fd, data, bytes, offset);
}

int ftruncate(int fd, off_t size)
{
    if (fails(KIND_truncate))
        return -1;
    log_begin();
    int result = (int)syscall(SYS_ftruncate, fd, size);
    if (result == 0)
        log_inode(LOG_TRUNCATE, fd, (uint64_t)size, NULL, 0);
    log_end();
    return result;
}

int ftruncate64(int fd, off_t size)
{
    return ftruncate(fd, size);
}

static int sync_any(int fd, long number)
{
    if (fails(KIND_sync))
        return -1;
    log_begin();
    int result = (int)syscall(number, fd);
    if (result == 0)
        log_inode(LOG_SYNC, fd, 0, NULL, 0);
    log_end();
    return result;
}

int fsync(int fd)
{
    return sync_any(fd, SYS_fsync);
}

int fdatasync(int fd)
{
    return sync_any(fd, SYS_fdatasync);
}

int flock(int fd, int operation)
{
    return fails(KIND_lock) ? -1 : (int)syscall(SYS_flock, fd, operation);
}

#define FCNTL_BODY                                                                                                     \
    va_list list;                                                                                                      \
    va_start(list, command);                                                                                           \
    void *argument = va_arg(list, void *);                                                                             \
    va_end(list);                                                                                                      \
    if ((command == F_SETLK || command == F_SETLKW) && fails(KIND_lock))                                               \
        return -1;                                                                                                     \
    return (int)syscall(SYS_fcntl, fd, command, argument);

int fcntl(int fd, int command, ...)
{
    FCNTL_BODY
}

int fcntl64(int fd, int command, ...)
{
    FCNTL_BODY
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

int rename(const char *from, const char *to)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int old_directory, const char *from, int new_directory, const char *to, unsigned flags)
{
    if (fails(KIND_rename))
        return -1;
    log_begin();
    int result = (int)syscall(SYS_renameat2, old_directory, from, new_directory, to, flags);
    if (result == 0)
        log_paths(LOG_RENAME, from, to, 0);
    log_end();
    return result;
}

static int remove_name(const char *path, int flags)
{
    if (fails(KIND_unlink))
        return -1;
    log_begin();
    int result = (int)syscall(SYS_unlinkat, AT_FDCWD, path, flags);
    if (result == 0)
        log_paths(LOG_UNLINK, path, NULL, 0);
    log_end();
    return result;
}

int unlink(const char *path)
{
    return remove_name(path, 0);
}

int rmdir(const char *path)
{
    return remove_name(path, AT_REMOVEDIR);
}

static void log_directory(const char *path)
{
    struct stat info;
    if (log_file >= 0 && syscall(SYS_newfstatat, AT_FDCWD, path, &info, 0) == 0)
        log_paths(LOG_MKDIR, path, NULL, info.st_ino);
}

int mkdir(const char *path, mode_t mode)
{
    if (fails(KIND_mkdir))
        return -1;
    log_begin();
    int result = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (result == 0)
        log_directory(path);
    log_end();
    return result;
}

char *mkdtemp(char *path)
{
    static char *(*real)(char *);
    if (!real)
        *(void **)&real = next("mkdtemp");
    if (fails(KIND_mkdir))
        return NULL;
    log_begin();
    char *made = real(path);
    if (made)
        log_directory(made);
    log_end();
    return made;
}

DIR *opendir(const char *path)
{
    static DIR *(*real)(const char *);
    if (!real)
        *(void **)&real = next("opendir");
    return fails(KIND_opendir) ? NULL : real(path);
}

struct dirent *readdir(DIR *listing)
{
    static struct dirent *(*real)(DIR *);
    if (!real)
        *(void **)&real = next("readdir");
    return fails(KIND_readdir) ? NULL : real(listing);
}

struct dirent64 *readdir64(DIR *listing)
{
    return (struct dirent64 *)readdir(listing);
}

/* The 64-bit forms are the same calls, under a name that programs with large files use. */
#define STATS(name, parameter, ...)                                                                                    \
    int name(parameter, struct stat *info)                                                                             \
    {                                                                                                                  \
        return fails(KIND_stat) ? -1 : (int)syscall(__VA_ARGS__);                                                      \
    }                                                                                                                  \
    int name##64(parameter, struct stat64 * info)                                                                      \
    {                                                                                                                  \
        return fails(KIND_stat) ? -1 : (int)syscall(__VA_ARGS__);                                                      \
    }
STATS(stat, const char *path, SYS_newfstatat, AT_FDCWD, path, info, 0)
STATS(lstat, const char *path, SYS_newfstatat, AT_FDCWD, path, info, AT_SYMLINK_NOFOLLOW)
STATS(fstat, int fd, SYS_fstat, fd, info)
