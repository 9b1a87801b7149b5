#include "cli/drive.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/group.h"
#include "cli/progress.h"
#include "engine/choose.h"
#include "session/learned.h"
#include "telemetry/run.h"
#include "telemetry/store.h"

/* What a handler may touch. */
static volatile sig_atomic_t stopping;  /* stop at the next step */
static _Atomic long long stopped_since; /* milliseconds of the clock at the first signal, 0: there was none */

enum { PATIENCE_MS = 1000 }; /* signals that come within this time of the first one are one and the same */

/* A signal may come twice: `timeout` and many a wrapper send it to the process and to its group, and a terminal that
 * closes does so through the shell and the system. Only someone who presses Ctrl-C again after a while is impatient. */
static void on_signal(int number)
{
    struct timespec now;
    int before = errno;
    long long first = 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long ms = now.tv_sec * 1000LL + now.tv_nsec / 1000000 + 1;
    stopping = 1;
    if (!atomic_compare_exchange_strong(&stopped_since, &first, ms) && number == SIGINT && ms - first >= PATIENCE_MS)
        _exit(CLI_INTERRUPTED); /* no more saving; the last checkpoint is intact */
    errno = before;
}

bool drive_stopping(void)
{
    return stopping;
}

/* `nohup` and the like ignore a signal so that the training survives it. */
static void catch_unless_ignored(int number, const struct sigaction *action)
{
    struct sigaction old;
    if (sigaction(number, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(number, action, NULL);
}

void drive_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL); /* even ignored, as in the background of a script: `kill -INT` is meant */
    sigaction(SIGTERM, &action, NULL);
    catch_unless_ignored(SIGHUP, &action);
    catch_unless_ignored(SIGPIPE, &action);
    /* The one that mpirun passes on at once, and batch systems send before they kill; a viewer may have use for it. */
    struct sigaction old;
    if (group_started() > 1 ||
        (getenv("SLURM_JOB_ID") && sigaction(SIGUSR1, NULL, &old) == 0 && old.sa_handler == SIG_DFL))
        sigaction(SIGUSR1, &action, NULL);
    /* A file size limit is like a full disk: an error with its own message, not a crash. */
    signal(SIGXFSZ, SIG_IGN);
}

/* The device, its kernels and their precision. The CPU kernels support fp32 only. */
static void describe_machine(const struct session *session, char *text, size_t size)
{
    const struct device_use *use = session_device(session);
    const char *kernels = session_kernels(session);
    int threads = session_threads(session), ranks = session_ranks(session);
    size_t used = ranks > 1 ? (size_t)snprintf(text, size, "%d ranks, each ", ranks) : 0;
    text += used;
    size -= used;
    if (use->cuda)
        snprintf(text, size, "%s, %s%s%s%s", use->info.name, kernels, use->fp32_because ? " (" : "",
                 use->fp32_because ? use->fp32_because : "", use->fp32_because ? ")" : "");
    else
        snprintf(text, size, "cpu, %d thread%s, %s fp32", threads, threads == 1 ? "" : "s", kernels);
}

/* One line at once, so that the user is not left waiting for the first step. */
static void announce(const char *what, const struct drive_end *end)
{
    const struct config *config = &end->config;
    char policy[CONFIG_TEXT];
    cli_note("%s %s, policy %s: %d envs x %d steps x %d rounds on %s\n%s\n", what,
             *config->task ? config->task : "(no task)", config_policy(config, policy), config->envs, config->steps,
             config->rounds, end->machine, end->path);
    if (config_tries(config) > 0)
        cli_note(
            "lessons: %d rounds of trying schedules, %d of reciting the best; then the policy acts in %d of %d envs\n",
            config->lesson.tries, config->lesson.recitals, config->envs - config->lesson.reciters, config->envs);
    fflush(stderr);
}

static enum progress_style style_of(const struct cli_run_flags *flags)
{
    if (flags->quiet || !cli_says(CLI_INFO) || (flags->hidden && flags->hidden()))
        return PROGRESS_QUIET;
    return flags->plain || cli_says(CLI_DEBUG) || !isatty(STDERR_FILENO) ? PROGRESS_PLAIN : PROGRESS_LIVE;
}

static enum esper_status advance_all(struct session *session, drive_show *show, void *context, struct drive_end *end,
                                     struct esper_error *error)
{
    struct session_progress step = {0};
    while (!session_done(session) && !session_stopped(session) &&
           !(end->until && session_reached(session, end->until))) {
        if (stopping && session_stop(session))
            break;
        TRY(session_advance(session, &step, error));
        end->round = step.round;
        end->step = step.step;
        end->env_steps += step.twin_step ? 0 : end->config.envs;
        show(context, &step);
    }
    end->interrupted = !session_done(session) && !(end->until && session_reached(session, end->until));
    return ESPER_OK;
}

void drive_tell_note(const struct session *session)
{
    if (*session_note(session))
        cli_warn("%s", session_note(session));
}

void drive_begin(const struct session *session, struct drive_end *end)
{
    *end = (struct drive_end){.config = *session_config(session)};
    snprintf(end->path, sizeof end->path, "%s", session_path(session));
    describe_machine(session, end->machine, sizeof end->machine);
    drive_tell_note(session);
}

int drive_session(struct session *session, drive_show *show, void *context, struct drive_end *end)
{
    struct esper_error *error = &end->error;
    double start = clock_seconds();
    enum esper_status status = advance_all(session, show, context, end, error);
    show(context, NULL);
    end->seconds = clock_seconds() - start;
    if (status != ESPER_OK)
        session_abandon(session, error);
    else
        status = session_close(session, error);
    if (status != ESPER_OK) /* memory was allocated at the start: only writing can fail from here on */
        return cli_fail(error) == CLI_DIVERGED ? CLI_DIVERGED : CLI_UNSAVED;
    return end->interrupted ? CLI_INTERRUPTED : CLI_OK;
}

/* A run's progress, in the style that its flags ask for. */
struct shown {
    struct progress progress;
    const struct cli_run_flags *flags;
};

static void show_step(void *context, const struct session_progress *step)
{
    struct shown *shown = context;
    shown->progress.style = style_of(shown->flags); /* the user may have left a viewer */
    if (step)
        progress_step(&shown->progress, step);
    if (step && step->checkpoint_written)
        cli_debug("a checkpoint was written after %u rounds and %u steps", step->round, step->step);
    if (!step)
        progress_end(&shown->progress);
}

int drive(struct session *session, const char *what, const struct cli_run_flags *flags, struct drive_end *end)
{
    struct shown shown = {.flags = flags};
    drive_begin(session, end);
    if (style_of(flags) != PROGRESS_QUIET)
        announce(what, end);
    progress_begin(&shown.progress, &end->config, style_of(flags));
    int code = drive_session(session, show_step, &shown, end);
    if (code == CLI_INTERRUPTED)
        cli_print("%s: stopped after %u rounds and %u steps, saved; continue with: %s train --resume %s\n", end->path,
                  end->round, end->step, program_invocation_name, end->path);
    return code;
}

/* ---- helpers that the commands share ------------------------------------------------------------------------------
 */

enum esper_status drive_find_from(const char *runs, struct config *config, struct esper_error *error)
{
    char path[PATH_MAX];
    if (!config->policy.from[0])
        return ESPER_OK;
    if (learned_name(runs, config->policy.from, path, error) != ESPER_OK)
        return error_where(error, "--from");
    return config_set_value(config, "policy.from", path, ORIGIN_FLAG, error);
}

char *drive_command(const struct cli_call *call)
{
    size_t size = sizeof "esper";
    for (int i = 0; i < call->argc; i++)
        size += strlen(call->argv[i]) + 3; /* a space and two quotes */
    char *text = malloc(size);
    if (!text)
        return NULL;
    size_t used = (size_t)snprintf(text, size, "esper");
    for (int i = 0; i < call->argc; i++) {
        const char *quote = !*call->argv[i] || strpbrk(call->argv[i], " \t'\"$*?;&|<>()") ? "'" : "";
        used += (size_t)snprintf(text + used, size - used, " %s%s%s", quote, call->argv[i], quote);
    }
    return text;
}

const char *drive_runs_flag(const char *runs, char *text, size_t size)
{
    text[0] = '\0';
    if (strcmp(runs, CLI_RUNS) != 0)
        snprintf(text, size, " --runs %s", runs);
    return text;
}

enum esper_status drive_open_record(const char *path, struct store **store, struct esper_error *error)
{
    struct run run;
    TRY(run_open(&run, ".", path, error));
    enum esper_status status = store_open_reader(store, &run, error);
    run_close(&run);
    return status;
}
