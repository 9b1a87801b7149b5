/*
 * The files of a run as things to be counted, packed and removed: those that Esper writes, by name, and nothing else. A
 * run may come from a stranger, so that everything goes through descriptors of its directories: a link leads nowhere,
 * and a file of one of these names that is no regular file is not Esper's.
 */
#ifndef TELEMETRY_RUN_FILES_H
#define TELEMETRY_RUN_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct run_file {
    char name[80];  /* in the run's directory: "run.json", "checkpoints/best.ckpt" */
    bool temporary; /* remains of an interrupted write, locks and shared memory: of no use elsewhere */
    uint64_t bytes;
    int64_t modified; /* seconds since 1970 */
};

struct run_files {
    char path[PATH_MAX];
    int folder, checkpoints; /* descriptors of the directories; -1: there is none */
    struct run_file *files;  /* in the order of their names, but run.json is the last and lock after it */
    int count;
    uint64_t bytes; /* of all */
    int strange;    /* entries that Esper did not write */
    char first_strange[80];
};

/* The directory must be one, and no link. Release with run_files_close, also after an error. */
enum esper_status run_files_open(struct run_files *files, const char *path, struct esper_error *error);
void run_files_close(struct run_files *files);

/* One of them, for reading. */
enum esper_status run_files_read(const struct run_files *files, const struct run_file *file, int *fd,
                                 struct esper_error *error);

/* Whether a later look found the same files, as far as they matter: names, sizes, times. */
bool run_files_same(const struct run_files *before, const struct run_files *now);

/* Removes the files and, if nothing else was in them, the directories; *gone says whether. run.json goes last: what is
 * left when the process is killed is a run still, and can be removed. The caller holds its lock. */
enum esper_status run_files_remove(struct run_files *files, bool *gone, struct esper_error *error);

#endif
