/* Runs for the tests: created in their own folder, with records of known content. */
#ifndef TESTS_TESTING_RUNS_H
#define TESTS_TESTING_RUNS_H

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/memory.h"
#include "telemetry/store.h"
#include "testing_folder.h"

static inline int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

static inline void remove_tree(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* The folder and all that the tests put there. */
static inline int folder_clear(void **state)
{
    (void)state;
    remove_tree(folder);
    return 0;
}

/* A small task of synthetic images. */
static inline struct config sample_config(void)
{
    struct config config;
    config_defaults(&config);
    snprintf(config.task, sizeof config.task, "sample");
    assert_int_equal(config_set(&config, "data.set=synthetic", NULL), ESPER_OK);
    assert_int_equal(config_set(&config, "data.test_images=1000", NULL), ESPER_OK);
    assert_int_equal(config_set(&config, "envs=4", NULL), ESPER_OK);
    assert_int_equal(config_check(&config, NULL), ESPER_OK);
    return config;
}

static inline void create_run(struct run *run, const char *name, const struct config *config)
{
    struct esper_error error = {0};
    if (run_create(run, folder, name, config, "base", "", "esper train --name x", &error) != ESPER_OK)
        fail_msg("%s", error.text);
}

static inline int live_threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *entry = readdir(tasks); entry; entry = readdir(tasks))
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* In a child, a lock that another thread held at the fork is held for ever: SQLite has such locks, and so has the
 * allocator of a sanitizer. A thread that was joined may be listed a moment longer. */
static inline void assert_alone(void)
{
#ifndef __SANITIZE_THREAD__ /* which has a thread of its own, and knows of forks */
    const double end = clock_seconds() + patience();
    while (live_threads() > 1)
        assert_true(clock_seconds() < end);
#endif
}

/* A child whose work is `work`; its exit code is what that returns. It must assert nothing: a failed assertion would
 * jump into the child's copy of the test program. */
static inline pid_t start_child(int (*work)(const void *context), const void *context)
{
    assert_alone();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(work(context));
    return pid;
}

static inline int exit_code(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Permissions mean nothing to root: become nobody first. For children. */
static inline void drop_privileges(void)
{
    if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        _exit(99);
}

#endif
