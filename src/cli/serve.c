/* esper serve: the runs as a web page; also alongside training (`esper train --serve`). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "view/serve.h"

enum { BESIDE_TRIES = 20, BESIDE_GRACE = 2, STOP_SECONDS = 5 };

/* A client that disconnects must not kill the server. */
static void become_modest(void)
{
    cli_step_back();
    signal(SIGPIPE, SIG_IGN);
}

static void on_alarm(int number)
{
    (void)number;
    _exit(CLI_OK); /* it only reads: nothing can be lost */
}

/* Whatever a request is waiting for, a disk that does not answer for example, the process ends. */
static void stop(struct server *server)
{
    signal(SIGALRM, on_alarm);
    alarm(STOP_SECONDS);
    serve_stop(server);
    alarm(0);
}

/* ---- alongside training ------------------------------------------------------------------------------------------ */

/* The child process: serves until the trainer's end of `trainer` closes, however that happens, and a little longer, so
 * that open pages learn of it. Whether it started goes to `report`, as a letter and a text. */
static void serve_until_gone(const char *runs, int trainer, int report)
{
    const struct serve_options options = {.runs = runs, .port = SERVE_PORT, .tries = BESIDE_TRIES};
    struct server *server = NULL;
    struct esper_error error = {0};
    signal(SIGINT, SIG_IGN); /* Ctrl-C is for the trainer: it saves first, and the pages can show that */
    become_modest();
    bool started = serve_start(&server, &options, &error) == ESPER_OK;
    dprintf(report, "%c%s", started ? '+' : '-', started ? serve_url(server) : error.text);
    close(report);
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3 && nowhere >= 0; fd++)
        dup2(nowhere, fd); /* readers of the trainer's output must not wait for us */
    struct pollfd alive = {.fd = trainer};
    while (started && poll(&alive, 1, -1) < 0 && errno == EINTR)
        ;
    if (started)
        sleep(BESIDE_GRACE);
    stop(server);
    _exit(0);
}

enum esper_status cli_serve_beside(const char *runs, struct esper_error *error)
{
    int trainer[2], report[2];
    char text[512];
    size_t used = 0;
    if (pipe2(trainer, O_CLOEXEC) != 0 || pipe2(report, O_CLOEXEC) != 0)
        return error_set(error, ESPER_FAILED, "--serve: cannot create a pipe: %s", strerror(errno));
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        return error_set(error, ESPER_FAILED, "--serve: cannot start a process: %s", strerror(errno));
    if (child == 0) {
        close(trainer[1]);
        close(report[0]);
        serve_until_gone(runs, trainer[0], report[1]);
    }
    close(trainer[0]); /* trainer[1] stays open as long as this process lives */
    close(report[1]);
    for (ssize_t got; used < sizeof text - 1 && (got = read(report[0], text + used, sizeof text - 1 - used)) != 0;)
        if (got > 0)
            used += (size_t)got;
        else if (errno != EINTR)
            break;
    close(report[0]);
    text[used] = '\0';
    if (*text != '+')
        return error_set(error, ESPER_FAILED, "--serve: %s", used > 1 ? text + 1 : "the server did not start");
    cli_note("watch it at %s\n", text + 1);
    return ESPER_OK;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

struct serve_flags {
    struct serve_options serve;
    struct cli_list hosts;
};

static enum esper_status serve(struct cli_call *call, struct esper_error *error)
{
    struct serve_flags *flags = call->flags;
    struct serve_options *options = &flags->serve;
    struct server *server;
    struct stat info;
    sigset_t signals;
    int which;
    options->runs = call->words.count ? call->words.items[0] : CLI_RUNS;
    options->hosts = flags->hosts.items;
    options->host_count = flags->hosts.count;
    if (stat(options->runs, &info) != 0)
        return error_set(error, ESPER_INVALID, "serve: %s: cannot open: %s; `esper train` creates runs", options->runs,
                         strerror(errno));
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* before there are threads, so that all of them block it */
    become_modest();
    if (serve_start(&server, options, error) != ESPER_OK)
        return error_where(error, "serve");
    cli_print("%s\n", serve_url(server));
    fflush(stdout);
    cli_note("serving the runs in %s; Ctrl-C stops\n", options->runs);
    sigwait(&signals, &which);
    signal(which, SIG_DFL); /* a second one does not wait for anything */
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
    stop(server);
    return ESPER_OK;
}

#define AT(member) offsetof(struct serve_flags, member)
const struct cli_page serve_page = {
    .usage = "serve [RUNS] [options]",
    .about = "Shows the runs in RUNS (" CLI_RUNS ") as a web page: live, finished and crashed ones. It only reads.\n"
             "It listens on this machine only; from elsewhere use a tunnel (ssh -L 8377:localhost:8377 HOST), or\n"
             "--bind with --token-file, behind a TLS proxy.",
    .example = "esper serve " CLI_RUNS " --port 8377",
    .options =
        (const struct cli_option[]){
            {"bind", CLI_TEXT, "ADDRESS", AT(serve.bind), "where to listen (127.0.0.1: this machine only)", 0, 0},
            {"port", CLI_INT, "N", AT(serve.port), "the port (8377); 0: any free one", 0, 65535},
            {"token-file", CLI_TEXT, "FILE", AT(serve.token_file),
             "a file of mode 0600 with the token that clients must send", 0, 0},
            {"host", CLI_LIST, "NAME", AT(hosts), "a name under which others reach this machine; may be repeated", 0,
             0},
            {"sql", CLI_FLAG, NULL, AT(serve.sql), "allow read-only SQL from the page", 0, 0},
            {0}},
    .max_words = 1,
    .run = serve,
    .flags_size = sizeof(struct serve_flags),
    .defaults = &(const struct serve_flags){.serve = {.port = SERVE_PORT}},
};
