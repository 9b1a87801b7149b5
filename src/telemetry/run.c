#include "telemetry/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/build.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "telemetry/run_json.h"
#include "telemetry/run_plan.h"

static const char *const state_names[] = {"running", "finished", "interrupted", "failed"};

enum { NAME_MAX_BYTES = 100 };

/* Errors of directories and locks: the system's message says what to fix. */
static enum esper_status system_error(struct esper_error *error, const char *path, const char *action)
{
    int code = errno;
    bool wrong_path = code == ENOENT || code == ENOTDIR || code == ENAMETOOLONG || code == EEXIST;
    return error_set(error, wrong_path ? ESPER_INVALID : ESPER_FAILED, "%s: cannot %s: %s", path, action,
                     strerror(code));
}

static enum esper_status join(char path[PATH_MAX], const char *directory, const char *name, struct esper_error *error)
{
    if (snprintf(path, PATH_MAX, "%s/%s", directory, name) < PATH_MAX)
        return ESPER_OK;
    return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", directory);
}

static void utc_time(char text[32], const char *format)
{
    time_t now = time(NULL);
    struct tm parts;
    gmtime_r(&now, &parts);
    strftime(text, 32, format, &parts);
}

/* ---- status ------------------------------------------------------------------------------------------------------ */

static void boot_id(char text[64])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, 63) : 0;
    text[got > 0 ? got : 0] = '\0';
    text[strspn(text, "0123456789abcdef-")] = '\0'; /* without the line end; empty where there is no such file */
    if (fd >= 0)
        close(fd);
}

static enum esper_status write_status(const char *directory, enum run_state state, unsigned round, unsigned step,
                                      struct esper_error *error)
{
    char path[PATH_MAX], boot[64], now[32], text[512];
    struct file_writer writer;
    boot_id(boot);
    utc_time(now, "%Y-%m-%dT%H:%M:%SZ");
    int length = snprintf(text, sizeof text,
                          "{\"state\": \"%s\", \"round\": %u, \"step\": %u, \"pid\": %ld, \"boot\": \"%s\", "
                          "\"updated\": \"%s\"}\n",
                          state_names[state], round, step, (long)getpid(), boot, now);
    TRY(join(path, directory, "status.json", error));
    TRY(file_begin(&writer, path, error));
    TRY(file_write(&writer, text, (size_t)length, error));
    return file_commit(&writer, error);
}

enum esper_status run_set_status(const struct run *run, enum run_state state, unsigned round, unsigned step,
                                 struct esper_error *error)
{
    return write_status(run->path, state, round, step, error);
}

/* Asking takes the lock for a moment, shared, which is why take_lock retries. */
bool run_is_alive(const char *directory)
{
    char path[PATH_MAX];
    int fd;
    if (join(path, directory, "lock", NULL) != ESPER_OK || file_open_own(path, O_RDONLY, &fd, NULL) != ESPER_OK)
        return false;
    bool held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(fd);
    return held;
}

static enum esper_status parse_status(const cJSON *object, struct run_status *status, struct esper_error *error)
{
    int64_t round, step, pid;
    const char *state, *updated;
    TRY(json_get_string(object, "state", &state, error));
    TRY(json_get_integer(object, "round", 0, UINT32_MAX, &round, error));
    TRY(json_get_integer(object, "step", 0, UINT32_MAX, &step, error));
    TRY(json_get_integer(object, "pid", 0, INT32_MAX, &pid, error));
    TRY(json_get_string(object, "updated", &updated, error));
    status->round = (unsigned)round;
    status->step = (unsigned)step;
    status->pid = (long)pid;
    snprintf(status->updated, sizeof status->updated, "%s", updated);
    for (int i = RUN_RUNNING; i <= RUN_FAILED; i++)
        if (strcmp(state, state_names[i]) == 0) {
            status->state = (enum run_state)i;
            return ESPER_OK;
        }
    return error_set(error, ESPER_INVALID, "\"state\" is \"%.40s\", which is unknown", state);
}

enum esper_status run_get_status(const struct run *run, struct run_status *status, struct esper_error *error)
{
    char path[PATH_MAX];
    cJSON *object;
    memset(status, 0, sizeof *status);
    TRY(join(path, run->path, "lock", error));
    TRY(file_check_own(path, error));
    TRY(join(path, run->path, "status.json", error));
    status->alive = run_is_alive(run->path); /* first: a run that ends meanwhile then reads as finished, not crashed */
    TRY(json_read_own(path, &object, error));
    enum esper_status result = parse_status(object, status, error);
    cJSON_Delete(object);
    return result == ESPER_OK ? result : error_where(error, "%s", path);
}

bool run_has_ended(const struct run_status *status)
{
    return status->state != RUN_RUNNING || !status->alive;
}

const char *run_state_name(const struct run_status *status)
{
    return status->state == RUN_RUNNING && !status->alive ? "crashed" : state_names[status->state];
}

/* ---- the lock ---------------------------------------------------------------------------------------------------- */

/* The lock file holds the pid of the last process that took it, for the error that a second one gets. */
static enum esper_status lock_refused(int fd, const char *directory, struct esper_error *error)
{
    char pid[24] = {0};
    ssize_t got = pread(fd, pid, sizeof pid - 1, 0);
    pid[got > 0 ? strspn(pid, "0123456789") : 0] = '\0';
    return error_set(error, ESPER_FAILED, "%s: process %s is training this run; wait for it or stop it with `kill %s`",
                     directory, *pid ? pid : "(unknown)", *pid ? pid : "PID");
}

/* Waits for half a second: a viewer may be asking just now. */
static enum esper_status lock_file(int fd, int how, const char *directory, struct esper_error *error)
{
    for (int attempt = 0; flock(fd, how | LOCK_NB) != 0; attempt++) {
        if (errno != EWOULDBLOCK)
            return system_error(error, directory, "lock it");
        if (attempt == 50)
            return lock_refused(fd, directory, error);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return ESPER_OK;
}

enum esper_status run_hold(const char *directory, bool alone, int *lock, struct esper_error *error)
{
    char path[PATH_MAX];
    *lock = -1;
    TRY(join(path, directory, "lock", error));
    TRY(file_check_own(path, error));
    if (!alone && access(path, F_OK) != 0 && access(directory, W_OK) != 0)
        return ESPER_OK; /* no lock, and nobody could make one */
    TRY(file_open_own(path,
                      alone                     ? O_RDWR | O_CREAT
                      : access(path, F_OK) == 0 ? O_RDONLY
                                                : O_RDONLY | O_CREAT,
                      lock, error));
    enum esper_status status = lock_file(*lock, alone ? LOCK_EX : LOCK_SH, directory, error);
    if (status != ESPER_OK) {
        close(*lock);
        *lock = -1;
    }
    return status;
}

static enum esper_status take_lock(const char *directory, int *lock, struct esper_error *error)
{
    char path[PATH_MAX], pid[24];
    int fd;
    TRY(join(path, directory, "lock", error));
    TRY(file_open_own(path, O_RDWR | O_CREAT, &fd, error));
    enum esper_status taken = lock_file(fd, LOCK_EX, directory, error);
    if (taken != ESPER_OK) {
        close(fd);
        return taken;
    }
    int length = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, pid, (size_t)length, 0) != length) {
        enum esper_status status = system_error(error, path, "write");
        close(fd);
        return status;
    }
    *lock = fd;
    return ESPER_OK;
}

void run_close(struct run *run)
{
    if (run->lock >= 0)
        close(run->lock);
    run->lock = -1;
}

/* ---- creation ---------------------------------------------------------------------------------------------------- */

enum esper_status run_check_name(const char *name, struct esper_error *error)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (strcmp(name, "latest") == 0)
        return error_set(error, ESPER_INVALID, "the name \"latest\" always means the newest run; choose another");
    if (*name && *name != '.' && *name != '-' && strlen(name) <= NAME_MAX_BYTES && !name[strspn(name, allowed)])
        return ESPER_OK;
    return error_set(error, ESPER_INVALID,
                     "\"%.60s\" cannot name a run: use up to %d letters, digits, '.', '_' or '-', no '.' or '-' first",
                     name, NAME_MAX_BYTES);
}

void run_task_word(const struct config *config, char word[RUN_TASK_WORD])
{
    snprintf(word, RUN_TASK_WORD, "%.*s", RUN_TASK_WORD - 1, config->task[0] ? config->task : "custom");
    for (char *at = word; *at; at++)
        if (run_check_name((char[]){'x', *at, '\0'}, NULL) != ESPER_OK)
            *at = '_';
}

/* 20250101T120000Z-quickstart-42-1a2b */
static void make_name(char name[128], const struct config *config)
{
    char when[32], task[RUN_TASK_WORD];
    unsigned short noise = 0;
    utc_time(when, "%Y%m%dT%H%M%SZ");
    run_task_word(config, task);
    if (getrandom(&noise, sizeof noise, 0) != sizeof noise) /* only to distinguish runs of the same second */
        noise = (unsigned short)getpid();
    snprintf(name, 128, "%s-%s-%llu-%04x", when, task, (unsigned long long)config->seed, noise);
}

static void discard(const char *directory)
{
    static const char *const files[] = {"run.json", "status.json", "lock"};
    char path[PATH_MAX];
    for (int i = 0; i < 3; i++)
        if (join(path, directory, files[i], NULL) == ESPER_OK)
            unlink(path);
    if (join(path, directory, "checkpoints", NULL) == ESPER_OK)
        rmdir(path);
    rmdir(directory);
}

static enum esper_status fill(const char *directory, struct run *run, const char *command, struct esper_error *error)
{
    char path[PATH_MAX];
    TRY(join(path, directory, "checkpoints", error));
    if (mkdir(path, 0777) != 0)
        return system_error(error, path, "create the directory");
    TRY(run_json_write(directory, run, command, error));
    TRY(write_status(directory, RUN_RUNNING, 0, 0, error));
    return take_lock(directory, &run->lock, error);
}

/* Gives the finished directory its name unless that is taken. Returns 0 or an errno. */
static int claim_name(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return errno;
    /* A file system without that call: rename alone replaces nothing but an empty directory. */
    struct stat info;
    if (lstat(to, &info) == 0)
        return EEXIST;
    return rename(from, to) == 0 ? 0 : errno;
}

static void sync_directory(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

/* RUNS/latest -> name. A convenience: a file system without links, or a file of that name, does not prevent training.
 */
static void point_latest(const char *runs, const char *name)
{
    char link[PATH_MAX], temp[PATH_MAX], hidden[64];
    struct stat info;
    snprintf(hidden, sizeof hidden, ".latest-%ld", (long)getpid());
    if (join(link, runs, "latest", NULL) != ESPER_OK || join(temp, runs, hidden, NULL) != ESPER_OK)
        return;
    if (lstat(link, &info) == 0 && !S_ISLNK(info.st_mode))
        return;
    unlink(temp);
    if (symlink(name, temp) == 0 && rename(temp, link) != 0)
        unlink(temp);
}

void run_forget_latest(const char *path)
{
    char link[PATH_MAX], target[256];
    const char *slash = strrchr(path, '/');
    const int length = slash ? (int)(slash - path) : 1;
    if (snprintf(link, sizeof link, "%.*s/latest", length, slash ? path : ".") >= (int)sizeof link)
        return;
    ssize_t got = readlink(link, target, sizeof target - 1);
    target[got > 0 ? got : 0] = '\0';
    if (got > 0 && strcmp(target, slash ? slash + 1 : path) == 0)
        unlink(link);
}

static enum esper_status publish(struct run *run, const char *runs, const char *temp, bool named,
                                 struct esper_error *error)
{
    TRY(join(run->path, runs, run->name, error));
    int code = claim_name(temp, run->path);
    if (code == 0) {
        sync_directory(runs);
        point_latest(runs, run->name);
        return ESPER_OK;
    }
    if (code == EEXIST || code == ENOTEMPTY || code == ENOTDIR)
        return error_set(error, ESPER_INVALID, "%s: already exists; %s", run->path,
                         named ? "continue it with --resume, or choose another --name" : "try again");
    errno = code;
    return system_error(error, run->path, "create the run");
}

enum esper_status run_create(struct run *run, const char *runs, const char *name, const struct config *config,
                             const char *kernels, const char *data_checksum, const char *command,
                             struct esper_error *error)
{
    char temp[PATH_MAX];
    memset(run, 0, sizeof *run);
    run->lock = -1;
    run->config = *config;
    if (name) {
        TRY(run_check_name(name, error));
        snprintf(run->name, sizeof run->name, "%s", name);
    } else {
        make_name(run->name, config);
    }
    snprintf(run->kernels, sizeof run->kernels, "%s", kernels);
    snprintf(run->data_checksum, sizeof run->data_checksum, "%s", data_checksum);
    snprintf(run->version, sizeof run->version, "%s", esper_build);
    utc_time(run->created, "%Y-%m-%dT%H:%M:%SZ");
    TRY(file_make_directories(runs, error));
    TRY(join(temp, runs, ".new-XXXXXX", error));
    if (!mkdtemp(temp))
        return system_error(error, runs, "create a run there");
    /* mkdtemp makes private directories; a run is as open as the directory it is in, less the umask. */
    mode_t mask = umask(0);
    umask(mask);
    enum esper_status status = ESPER_OK;
    if (chmod(temp, 0777 & ~mask) != 0)
        status = system_error(error, temp, "set the permissions");
    if (status == ESPER_OK)
        status = fill(temp, run, command, error);
    if (status == ESPER_OK)
        status = publish(run, runs, temp, name != NULL, error);
    if (status != ESPER_OK) {
        run_close(run);
        discard(temp);
    }
    return status;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static enum esper_status open_directory(struct run *run, const char *path, struct esper_error *error)
{
    memset(run, 0, sizeof *run);
    run->lock = -1;
    if (snprintf(run->path, sizeof run->path, "%s", path) >= (int)sizeof run->path)
        return error_set(error, ESPER_INVALID, "%.80s...: the path is too long", path);
    TRY(run_json_read(path, run, error));
    struct run_stage *stages;
    int count;
    TRY(run_plan_read(run, &stages, &count, error));
    run->config.rounds = stages[count - 1].rounds;
    memory_free(stages);
    return ESPER_OK;
}

enum esper_status run_open_to_train(struct run *run, const char *path, struct esper_error *error)
{
    TRY(open_directory(run, path, error)); /* first: a directory that is not a run gets no lock file */
    return take_lock(path, &run->lock, error);
}

enum esper_status run_open(struct run *run, const char *runs, const char *path, struct esper_error *error)
{
    char found[PATH_MAX];
    memset(run, 0, sizeof *run);
    run->lock = -1;
    TRY(run_find(runs, path, found, error));
    return open_directory(run, found, error);
}
