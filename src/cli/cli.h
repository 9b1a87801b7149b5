/*
 * What the commands share: the option parser, error and exit-code conventions, progress. Only src/cli prints or exits.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>

#include "base/config.h"
#include "base/status.h"

/* Exit codes: 0 well, 1 the machine failed, 2 wrong input, 130 interrupted (everything saved). */
enum cli_exit { CLI_OK = 0, CLI_FAILED = 1, CLI_WRONG = 2, CLI_INTERRUPTED = 130 };

/* Print "esper: <line>" on stderr and return the exit code that belongs to the error's status. */
int cli_fail(const struct esper_error *error);

/* ---- options ---------------------------------------------------------------------------------------------------- */

enum cli_kind {
    CLI_FLAG, /* --name              bool * */
    CLI_TEXT, /* --name VALUE        const char ** */
    CLI_INT,  /* --name N            int *, from min to max */
    CLI_LIST  /* --name VALUE ...    struct cli_list *, may be repeated */
};

#define CLI_MAX_LIST 64

struct cli_list {
    const char *items[CLI_MAX_LIST];
    int count;
};

struct cli_option {
    const char *name; /* without the dashes */
    enum cli_kind kind;
    const char *value; /* what the help calls the value; NULL for flags */
    void *target;
    const char *help;
    int min, max; /* CLI_INT only */
};

/* A command's page: what --help prints and what its arguments may be. */
struct cli_page {
    const char *usage;   /* "grow --task NAME --script FILE" */
    const char *about;   /* a sentence or two */
    const char *example; /* a full command line */
    const struct cli_option *options;
    int option_count;
    int max_words; /* arguments that are not options */
};

#define CLI_CONTINUE (-1)

/*
 * Parse argv[1 .. argc-1] (argv[0] is the command's name). Returns CLI_CONTINUE when the command should go on, or the
 * exit code to leave with: 0 after --help, 2 after an error, which has been printed. `words` may be NULL when the page
 * allows none.
 */
int cli_parse(int argc, char **argv, const struct cli_page *page, struct cli_list *words);

/* ---- configuration ---------------------------------------------------------------------------------------------- */

/* The flags of every command that takes a configuration; put CLI_CONFIG_OPTIONS(flags) into its option table. */
struct cli_config_flags {
    const char *task, *file, *envs, *steps, *seed, *threads;
    struct cli_list sets;
};

#define CLI_CONFIG_OPTIONS(f)                                                                                          \
    {"task", CLI_TEXT, "NAME", &(f).task, "the task, by name or by path (see `esper tasks`)", 0, 0},                   \
        {"config", CLI_TEXT, "FILE", &(f).file, "a JSON file of keys that override the task's", 0, 0},                 \
        {"set", CLI_LIST, "KEY=VALUE", &(f).sets, "override one key; may be repeated", 0, 0},                          \
        {"envs", CLI_TEXT, "N", &(f).envs, "hosts that learn side by side", 0, 0},                                     \
        {"steps", CLI_TEXT, "N", &(f).steps, "steps of a round", 0, 0},                                                \
        {"seed", CLI_TEXT, "N", &(f).seed, "seed of every random number", 0, 0},                                       \
    {                                                                                                                  \
        "threads", CLI_TEXT, "N", &(f).threads, "threads; 0 takes all cores", 0, 0                                     \
    }

/* defaults < task < file < --set < flags, then config_check. `fallback` is the task when none is named; NULL: none. */
enum esper_status cli_config(const struct cli_config_flags *flags, const char *fallback, struct config *config,
                             struct esper_error *error);

/* ---- progress --------------------------------------------------------------------------------------------------- */

/* Start from {.what = "training"}; the rest is its own. */
struct cli_progress {
    const char *what;
    double start, shown; /* times of the first call and of the last line */
    int last_tenth;
    bool started, live;
};

/*
 * Call as often as you like with done <= total: on a terminal it keeps one line up to date, with the time left;
 * elsewhere it prints a line now and then. `note` (may be NULL) goes to the end of the line. done == total ends it.
 */
void cli_progress(struct cli_progress *progress, long long done, long long total, const char *note);
/* Leave the live line as it is, so that what follows starts on a line of its own. For early ends; harmless otherwise.
 */
void cli_progress_end(struct cli_progress *progress);

/* ---- commands --------------------------------------------------------------------------------------------------- */

int command_doctor(int argc, char **argv);
int command_tasks(int argc, char **argv);
int command_data(int argc, char **argv);
int command_grow(int argc, char **argv);
int command_selftest(int argc, char **argv);
int command_bench(int argc, char **argv);

#endif
