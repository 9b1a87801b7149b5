/* esper tui: a run in the terminal, live or finished; and the viewer's side of esper train --tui. */
#include "cli/tui.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "view/tui.h"

/* ---- signals ----------------------------------------------------------------------------------------------------- */

/* What a handler may touch. */
static volatile sig_atomic_t leaving; /* leave the viewer now */
static volatile sig_atomic_t asked;   /* the training was asked to stop */
static volatile pid_t trainer;        /* the process that trains, 0: not ours */

/* The trainer has its own process group: signals from the terminal are passed on from here, once. */
static void on_signal(int number)
{
    if (trainer > 0) {
        kill(trainer, number == SIGINT ? SIGINT : SIGTERM);
        asked = 1;
    }
    if (trainer <= 0 || number != SIGINT)
        leaving = 1;
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: interrupts waiting for a key */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static enum esper_status show_run(const char *runs, const char *text, struct esper_error *error)
{
    struct run run;
    const struct tui_options options = {.stop = &leaving};
    TRY(tui_available(error));
    TRY(run_open(&run, runs, text, error));
    catch_signals();
    setlocale(LC_CTYPE, "");
    cli_step_back();
    enum esper_status status = tui_watch(&run, &options, error);
    run_close(&run);
    return status;
}

static enum esper_status watch(struct cli_call *call, struct esper_error *error)
{
    if (show_run(call->runs, call->words.count ? call->words.items[0] : "latest", error) != ESPER_OK)
        return error_where(error, "tui");
    call->code = leaving ? CLI_INTERRUPTED : CLI_OK;
    return ESPER_OK;
}

const struct cli_page tui_page = {
    .usage = "tui [RUN] [--runs DIR]",
    .about = "Shows a run in the terminal, live, finished or crashed; without RUN the latest one. It only reads: the\n"
             "run is not affected. ? explains the keys, r shows another run, q leaves. Colours follow TERM and\n"
             "NO_COLOR, line, block and braille characters the locale; 80 x 24 is enough.",
    .example = "esper tui latest",
    .options = (const struct cli_option[]){CLI_RUNS_OPTION, {0}},
    .max_words = 1,
    .run = watch,
};

/* ---- training under the viewer ------------------------------------------------------------------------------------
 */

struct training {
    int told;            /* pipe on which it names its run */
    FILE *said[2];       /* its stdout and stderr while the viewer had the terminal */
    off_t repeated[2];   /* how much of it was passed on */
    bool over;           /* it has ended */
    int end;             /* how, as waitpid reports */
    char path[PATH_MAX]; /* of its run; "": it has none */
};

static bool has_ended(struct training *training, int how)
{
    pid_t got;
    while (!training->over && (got = waitpid(trainer, &training->end, how)) != 0) {
        training->over = got > 0 || errno != EINTR;
        if (training->over)
            trainer = 0; /* from here on a signal is for the viewer */
    }
    return training->over;
}

/* Once Ctrl-C has stopped the training there is nothing left to watch; a finished one can still be viewed. */
static bool stay(void *context)
{
    return !(has_ended(context, WNOHANG) && asked);
}

/* The name of the run's directory, ended by a NUL; the pipe ends before that when there will be none. */
static void hear_path(struct training *training)
{
    size_t length = 0;
    ssize_t got = 1;
    while (got != 0 && (length == 0 || training->path[length - 1]) && length < sizeof training->path) {
        got = read(training->told, training->path + length, sizeof training->path - length);
        if (got < 0 && errno != EINTR)
            break;
        length += got > 0 ? (size_t)got : 0;
    }
    if (length == 0 || training->path[length - 1])
        training->path[0] = '\0';
    close(training->told);
}

/* Passes on its output since the last time. It may be writing: do not move its file offsets. */
static void repeat(struct training *training)
{
    FILE *const to[2] = {stdout, stderr};
    char text[4096];
    ssize_t got;
    for (int i = 0; i < 2; i++) {
        while ((got = pread(fileno(training->said[i]), text, sizeof text, training->repeated[i])) > 0) {
            fwrite(text, 1, (size_t)got, to[i]);
            training->repeated[i] += got;
        }
        fflush(to[i]);
    }
}

/* The user left the viewer and training continues: from here on it has the terminal. */
static void hand_over(struct training *training)
{
    repeat(training);
    cli_note("esper: training goes on; Ctrl-C stops and saves it, `esper tui %s` shows it again\n", training->path);
    kill(trainer, SIGUSR1);
}

static void show_training(struct training *training)
{
    struct esper_error error = {0};
    struct run run;
    const struct tui_options options = {.stop = &leaving, .stay = stay, .context = training};
    setlocale(LC_CTYPE, "");
    enum esper_status status = run_open(&run, ".", training->path, &error);
    if (status == ESPER_OK) {
        cli_step_back();
        status = tui_watch(&run, &options, &error);
        run_close(&run);
    }
    if (status != ESPER_OK)
        cli_fail(&error);
    if (!has_ended(training, WNOHANG) && !leaving)
        hand_over(training);
}

static int follow_training(struct training *training)
{
    hear_path(training);
    if (training->path[0])
        show_training(training);
    has_ended(training, 0);
    repeat(training);
    if (WIFEXITED(training->end))
        return WEXITSTATUS(training->end);
    struct esper_error error;
    error_set(&error, ESPER_FAILED, "the training was ended by signal %d (%s); continue with: esper train --resume %s",
              WTERMSIG(training->end), strsignal(WTERMSIG(training->end)), training->path);
    return cli_fail(&error);
}

/* ---- the side that trains -----------------------------------------------------------------------------------------
 */

static int terminal[2];                  /* stdout and stderr as they were */
static volatile sig_atomic_t has_viewer; /* it has the terminal */

static void on_viewer_left(int number)
{
    int before = errno;
    (void)number;
    dup2(terminal[0], STDOUT_FILENO);
    dup2(terminal[1], STDERR_FILENO);
    has_viewer = 0;
    errno = before;
}

bool tui_has_terminal(void)
{
    return has_viewer;
}

/* The child's side: detached from the terminal, and ended with its parent. */
static void become_trainer(struct tui_split *split, const struct training *training, pid_t parent, int tell)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        raise(SIGTERM);
    const int outputs[2] = {STDOUT_FILENO, STDERR_FILENO};
    for (int i = 0; i < 2; i++) {
        terminal[i] = fcntl(outputs[i], F_DUPFD_CLOEXEC, 0);
        dup2(fileno(training->said[i]), outputs[i]);
    }
    has_viewer = 1;
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_viewer_left, .sa_flags = SA_RESTART}, NULL);
    signal(SIGTTOU, SIG_IGN); /* it writes to a terminal whose foreground is its parent's */
    close(training->told);
    split->tell = tell;
}

static enum esper_status prepare(struct training *training, int *tell, struct esper_error *error)
{
    int ends[2];
    TRY(tui_available(error));
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return error_set(error, ESPER_INVALID,
                         "--tui: this is not a terminal; leave it out, or watch with `esper tui`");
    for (int i = 0; i < 2; i++)
        if (!(training->said[i] = tmpfile()))
            return error_set(error, ESPER_FAILED, "--tui: cannot create a temporary file: %s", strerror(errno));
    if (pipe(ends) != 0)
        return error_set(error, ESPER_FAILED, "--tui: cannot create a pipe: %s", strerror(errno));
    training->told = ends[0];
    *tell = ends[1];
    return ESPER_OK;
}

int tui_split(struct tui_split *split)
{
    struct training training = {0};
    struct esper_error error = {0};
    int tell = -1;
    if (prepare(&training, &tell, &error) != ESPER_OK)
        return cli_fail(&error);
    fflush(NULL);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        become_trainer(split, &training, parent, tell);
        return CLI_CONTINUE;
    }
    close(tell);
    if (child < 0) {
        error_set(&error, ESPER_FAILED, "--tui: cannot start the viewer: %s", strerror(errno));
        return cli_fail(&error);
    }
    trainer = child;
    catch_signals();
    return follow_training(&training);
}

void tui_split_tell(struct tui_split *split, const char *path)
{
    if (split->tell < 0)
        return;
    for (size_t done = 0, length = strlen(path) + 1; done < length;) {
        ssize_t wrote = write(split->tell, path + done, length - done);
        if (wrote < 0 && errno != EINTR)
            break; /* no reader: the viewer is gone, and a signal is on its way */
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    close(split->tell);
    split->tell = -1;
}
