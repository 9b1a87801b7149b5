/* What the programs that disturb esper share: running it, files and folders, seeded choices, the sum of a record. */
#ifndef FAULTS_CHILD_H
#define FAULTS_CHILD_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The tests cannot go on: what they need is not there. */
__attribute__((format(printf, 1, 2), noreturn)) static void give_up(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("\n");
    exit(2);
}

static inline void *must_have(void *memory)
{
    if (!memory)
        give_up("out of memory");
    return memory;
}

/* Its absolute path: the tests change their directory. */
static inline const char *must_find(const char *path)
{
    const char *found = realpath(path, NULL);
    if (!found)
        give_up("%s: %s", path, strerror(errno));
    return found;
}

/* ---- choices ----------------------------------------------------------------------------------------------------- */

/* The state is the seed: the same seed, the same choices (splitmix64). */
static inline uint64_t choose(uint64_t *state, uint64_t count)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) % count;
}

static inline uint64_t sum_bytes(uint64_t sum, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ at[i]) * 0x100000001b3u;
    return sum;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* All of a file and a NUL; NULL: there is none. */
static inline char *read_whole(const char *path, size_t *bytes)
{
    int fd = open(path, O_RDONLY);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    char *data = must_have(malloc((size_t)info.st_size + 1));
    size_t got = 0;
    for (ssize_t part; (part = read(fd, data + got, (size_t)info.st_size - got)) > 0;)
        got += (size_t)part;
    close(fd);
    data[got] = '\0';
    if (bytes)
        *bytes = got;
    return data;
}

static inline void write_whole(const char *path, const void *data, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0)
        give_up("%s: %s", path, strerror(errno));
    for (const char *at = data; bytes;) {
        ssize_t part = write(fd, at, bytes);
        if (part <= 0)
            give_up("%s: %s", path, strerror(errno));
        at += part;
        bytes -= (size_t)part;
    }
    close(fd);
}

/* Calls `visit` for each entry of a folder, by name, and returns how many there were. */
static inline int for_each(const char *folder, void (*visit)(const char *path, const char *name, void *context),
                           void *context)
{
    struct dirent **list;
    int count = scandir(folder, &list, NULL, alphasort), seen = 0;
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        if (strcmp(list[i]->d_name, ".") != 0 && strcmp(list[i]->d_name, "..") != 0 &&
            snprintf(path, sizeof path, "%s/%s", folder, list[i]->d_name) < (int)sizeof path) {
            visit(path, list[i]->d_name, context);
            seen++;
        }
        free(list[i]);
    }
    if (count >= 0)
        free(list);
    return seen;
}

static inline void remove_tree(const char *path, const char *name, void *context)
{
    struct stat info;
    if (lstat(path, &info) != 0)
        return;
    if (S_ISDIR(info.st_mode))
        for_each(path, remove_tree, NULL);
    remove(path);
    (void)name;
    (void)context;
}

static inline void copy_tree(const char *path, const char *name, void *context)
{
    const char *to = context;
    char target[PATH_MAX], link[PATH_MAX] = "";
    struct stat info;
    size_t bytes;
    snprintf(target, sizeof target, "%s/%s", to, name);
    if (lstat(path, &info) != 0)
        give_up("%s: %s", path, strerror(errno));
    if (S_ISLNK(info.st_mode)) {
        if (readlink(path, link, sizeof link - 1) < 0 || symlink(link, target) != 0)
            give_up("%s: %s", path, strerror(errno));
    } else if (S_ISDIR(info.st_mode)) {
        mkdir(target, 0777);
        for_each(path, copy_tree, target);
    } else {
        char *data = read_whole(path, &bytes);
        write_whole(target, must_have(data), bytes);
        free(data);
    }
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

struct outcome {
    int code; /* exit code; -1: it did not end by itself */
    bool late;
    int signal;
    char *out, *err;
};

static inline void outcome_free(struct outcome *outcome)
{
    free(outcome->out);
    free(outcome->err);
    *outcome = (struct outcome){0};
}

static inline double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Starts a program whose output goes to WORK/stdout.txt and WORK/stderr.txt; `environment`: NAME=VALUE ..., NULL. */
static inline pid_t start(const char *work, char *const arguments[], char *const environment[])
{
    char out[PATH_MAX], err[PATH_MAX];
    snprintf(out, sizeof out, "%s/stdout.txt", work);
    snprintf(err, sizeof err, "%s/stderr.txt", work);
    int to_out = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0666), to_err = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    pid_t pid = fork();
    if (to_out < 0 || to_err < 0 || pid < 0)
        give_up("cannot start %s: %s", arguments[0], strerror(errno));
    if (pid > 0) {
        close(to_out);
        close(to_err);
        return pid;
    }
    if (dup2(to_out, 1) < 0 || dup2(to_err, 2) < 0)
        _exit(96);
    close(to_out);
    close(to_err);
    for (; environment && *environment; environment++)
        putenv(*environment);
    execv(arguments[0], arguments);
    _exit(96);
}

/* Waits for it, and kills it when it takes longer. */
static inline struct outcome wait_end(const char *work, pid_t pid, double seconds)
{
    struct outcome outcome = {.code = -1};
    char path[PATH_MAX];
    int state;
    double until = seconds_now() + seconds;
    for (pid_t got; (got = waitpid(pid, &state, WNOHANG)) != pid;) {
        if (got < 0 && errno != EINTR)
            give_up("waitpid: %s", strerror(errno));
        if (seconds_now() > until && !outcome.late) {
            outcome.late = true;
            kill(pid, SIGKILL);
        }
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
    if (WIFEXITED(state))
        outcome.code = WEXITSTATUS(state);
    else
        outcome.signal = WTERMSIG(state);
    snprintf(path, sizeof path, "%s/stdout.txt", work);
    outcome.out = must_have(read_whole(path, NULL));
    snprintf(path, sizeof path, "%s/stderr.txt", work);
    outcome.err = must_have(read_whole(path, NULL));
    return outcome;
}

static inline struct outcome run(const char *work, char *const arguments[], char *const environment[], double seconds)
{
    return wait_end(work, start(work, arguments, environment), seconds);
}

/* ---- what a run came to ------------------------------------------------------------------------------------------ */

/* The sum of what a query returns; `sum` unchanged and *fine false if it fails. */
static inline uint64_t sum_query(sqlite3 *db, const char *sql, uint64_t sum, bool *fine)
{
    sqlite3_stmt *query = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &query, NULL);
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(query);
        for (int i = 0; code == SQLITE_ROW && i < sqlite3_column_count(query); i++) {
            const char *text = (const char *)sqlite3_column_text(query, i);
            sum = sum_bytes(sum, text ? text : "-", (text ? strlen(text) : 1) + 1);
        }
    }
    *fine = *fine && code == SQLITE_DONE;
    sqlite3_finalize(query);
    return sum;
}

/* A sum of all of a record that does not depend on time, of its list of checkpoints if asked; 0: it cannot be read. */
static inline uint64_t sum_record(const char *run, bool checkpoints)
{
    static const char *const queries[] = {
        "SELECT file, kind, round, step, hash, bytes FROM checkpoint ORDER BY file",
        "PRAGMA integrity_check",
        "SELECT * FROM step",
        "SELECT * FROM seed",
        "SELECT * FROM life",
        "SELECT * FROM subset",
        "SELECT * FROM outcome",
        "SELECT * FROM rollback",
        "SELECT * FROM alert",
        "SELECT * FROM ppo_head",
        "SELECT * FROM drops",
        "SELECT round, reward_mean, prunes, refusals FROM round ORDER BY round",
        "SELECT round, policy_loss, kl, value_scale FROM ppo ORDER BY round",
    };
    char path[PATH_MAX];
    sqlite3 *db;
    uint64_t sum = 1;
    snprintf(path, sizeof path, "%s/telemetry.db", run);
    bool fine = sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK;
    for (size_t i = !checkpoints; fine && i < sizeof queries / sizeof queries[0]; i++)
        sum = sum_query(db, queries[i], sum, &fine);
    sqlite3_close(db);
    return fine ? sum : 0;
}

#endif
