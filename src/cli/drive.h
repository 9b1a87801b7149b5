/*
 * Drives a session from where it is to its end, or to the first signal, and closes it: what `esper train`, `esper eval`
 * and `esper search` share. Also what they read back from a run afterwards.
 */
#ifndef CLI_DRIVE_H
#define CLI_DRIVE_H

#include <limits.h>

#include "cli/cli.h"
#include "session/session.h"

/* How the session ended; the session itself is gone by then. */
struct drive_end {
    uint32_t until;           /* set before drive_session: stop and save after so many rounds; 0: the run's end */
    bool interrupted;         /* stopped by a signal, everything saved */
    uint32_t round, step;     /* rounds done, steps done in the next */
    long long env_steps;      /* of this process */
    double seconds;           /* of this process, start-up excluded */
    struct config config;     /* the run's */
    char path[PATH_MAX];      /* its directory */
    char machine[192];        /* "cpu, 2 threads, neon fp32", "NVIDIA H200, cuda bf16" */
    struct esper_error error; /* why it failed, if it did */
};

/* Call it before a session is created: from then on SIGINT, SIGTERM, SIGHUP and SIGPIPE stop at the next step and save;
 * another SIGINT, at least a second after the first signal, stops at once. So does SIGUSR1 where mpirun or Slurm send
 * it. */
void drive_catch_signals(void);
bool drive_stopping(void); /* such a signal has come */

/* `what` opens the first line: "training", "evaluating". Returns CLI_OK with `end` filled; CLI_INTERRUPTED after
 * printing how to continue; or another exit code after printing the error. The session is released in any case. */
int drive(struct session *session, const char *what, const struct cli_run_flags *flags, struct drive_end *end);
/* The same in two parts, for a command that shows progress in its own way: what is known before the first step, then
 * the session to its end, which prints nothing but errors. `show` is called after every step, and once with NULL before
 * anything else may be printed. */
typedef void drive_show(void *context, const struct session_progress *step);
void drive_begin(const struct session *session, struct drive_end *end);
int drive_session(struct session *session, drive_show *show, void *context, struct drive_end *end);

/* What the user should know of a session that was opened, on stderr. drive_begin does this. */
void drive_tell_note(const struct session *session);

/* policy.from names a run by its name or path: turns it into the path. */
enum esper_status drive_find_from(const char *runs, struct config *config, struct esper_error *error);

/* The command line as one text, for run.json. Release with free. */
char *drive_command(const struct cli_call *call);

/* " --runs DIR" where a suggested command needs it, otherwise "". `text` is `size` long. */
const char *drive_runs_flag(const char *runs, char *text, size_t size);

/* What the episodes of a finished evaluation came to, read back from its record (eval.c). */
enum esper_status drive_print_outcomes(const char *path, const struct config *config, struct esper_error *error);

/* The store of a run that is not training, for reading. */
struct store;
enum esper_status drive_open_record(const char *path, struct store **store, struct esper_error *error);

#endif
