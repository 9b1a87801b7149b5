/*
 * The run directory (T-01): the only interface between a trainer and its viewers.
 *
 *     RUNS/<name>/run.json       written once: identity, configuration, versions, command line
 *                 plan.json      the planned number of rounds, once it was changed (run_plan.h)
 *                 status.json    pid, boot id, state, round and step; replaced by rename
 *                 label.json     tags and a note, once somebody gave it some (run_label.h)
 *                 telemetry.db   the record
 *                 checkpoints/   r000012-s000.ckpt, best.ckpt
 *                 lock           held (flock) by the process that trains
 *     RUNS/latest                symbolic link to the newest run
 */
#ifndef TELEMETRY_RUN_H
#define TELEMETRY_RUN_H

#include <limits.h>
#include <stdbool.h>

#include "base/config.h"

enum run_state { RUN_RUNNING, RUN_FINISHED, RUN_INTERRUPTED, RUN_FAILED };

struct run {
    char path[PATH_MAX]; /* RUNS/<name> */
    char name[128];
    struct config config; /* as in run.json, with the number of rounds planned now */
    char kernels[32];
    char data_checksum[16]; /* "": the data was made in memory, or an earlier Esper created it */
    char created[32];       /* ISO 8601, UTC */
    char version[32];       /* of the Esper that created it */
    int lock;               /* descriptor of the held lock, -1 */
};

struct run_status {
    enum run_state state; /* RUN_RUNNING with a dead process means that it crashed: see `alive` */
    long pid;
    bool alive; /* some process holds the lock */
    unsigned round, step;
    char updated[32]; /* ISO 8601, UTC */
};

/* Creates RUNS/<name>, complete or not at all, locks it, and points RUNS/latest at it. name NULL: time-task-seed-hex.
 * An existing name is an error that suggests --resume. `data_checksum` is that of the file it trains on, or "";
 * `command` is the command line, for people. */
enum esper_status run_create(struct run *run, const char *runs, const char *name, const struct config *config,
                             const char *kernels, const char *data_checksum, const char *command,
                             struct esper_error *error);
/* Letters, digits, '.', '_' and '-', no leading dot, at most 100 bytes; "latest" is taken. */
enum esper_status run_check_name(const char *name, struct esper_error *error);

/* The task as part of a run's name: it may be a file of any name. */
enum { RUN_TASK_WORD = 49 };
void run_task_word(const struct config *config, char word[RUN_TASK_WORD]);
/* Opens for training and takes the lock; a second process gets an error with the holder's pid. */
enum esper_status run_open_to_train(struct run *run, const char *path, struct esper_error *error);
/* Opens for reading, without the lock. `path` is a run's directory, or a name under `runs` ("latest" as well). */
enum esper_status run_open(struct run *run, const char *runs, const char *path, struct esper_error *error);
void run_close(struct run *run); /* releases the lock */

/* Resolves what a user typed, a directory or a name under `runs`, to a run's directory. */
enum esper_status run_find(const char *runs, const char *text, char path[PATH_MAX], struct esper_error *error);

enum esper_status run_set_status(const struct run *run, enum run_state state, unsigned round, unsigned step,
                                 struct esper_error *error);
enum esper_status run_get_status(const struct run *run, struct run_status *status, struct esper_error *error);
bool run_is_alive(const char *path); /* whether some process holds the lock of the run in that directory */
/*
 * The lock for somebody who does not train: `alone` keeps everybody else out, to remove the run; otherwise only those
 * who would change it. A run in training is refused in a line that names the process. *lock is -1 for a run in a
 * directory that nobody can write to, and needs none. Release with close.
 */
enum esper_status run_hold(const char *path, bool alone, int *lock, struct esper_error *error);
/* A run was removed: `latest` beside it no longer points to it. */
void run_forget_latest(const char *path);
bool run_has_ended(const struct run_status *status);         /* finished, interrupted, failed or crashed */
const char *run_state_name(const struct run_status *status); /* "running", "finished", "interrupted", "crashed" ... */

#endif
