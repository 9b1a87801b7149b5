/*
 * What the commands share: the option parser, error and exit-code conventions, progress. Only src/cli prints or exits.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>

#include "base/config.h"
#include "base/status.h"

/* Exit codes (E-13). */
enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,       /* the machine failed, or a component is missing */
    CLI_WRONG = 2,        /* wrong input */
    CLI_UNSAVED = 3,      /* a run could not be written; what was saved before is intact */
    CLI_MISFIT = 4,       /* no checkpoint that fits and is sound */
    CLI_DIVERGED = 5,     /* learning produced numbers that are not finite */
    CLI_INTERRUPTED = 130 /* stopped by a signal, everything saved */
};

/* ---- output ----------------------------------------------------------------------------------------------------- */

/* As printf, to stdout and to stderr; control characters other than newline and tab become '?'. Every command prints
 * through these, since almost everything it prints may hold a name or a text from somebody else's run. */
void cli_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For an option that names the file to write: if it is "-", standard output belongs to that file, and what the command
 * prints besides goes to stderr. */
void cli_output(const char *path);

/* The exit code of a command, or that of a failure if what it printed could not be written. */
int cli_finish(int code);

/* Prints "esper: <line>" on stderr and returns the exit code for the error's status. */
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
    const char *usage;   /* "train [--task NAME] [options]" */
    const char *about;   /* a sentence or two */
    const char *example; /* a full command line */
    const struct cli_option *options;
    int option_count;
    int max_words; /* arguments that are not options */
};

#define CLI_CONTINUE (-1)

/*
 * Parses argv[1 .. argc-1] (argv[0] is the command's name). Returns CLI_CONTINUE when the command should continue, or
 * the exit code: 0 after --help, 2 after an error, which has been printed. `words` may be NULL when the page allows
 * none.
 */
int cli_parse(int argc, char **argv, const struct cli_page *page, struct cli_list *words);

/* ---- configuration ---------------------------------------------------------------------------------------------- */

/*
 * The flags of every command that takes a configuration; put CLI_CONFIG_OPTIONS(flags) into its option table. A command
 * whose number of rounds follows from something else takes CLI_WORLD_OPTIONS; one that runs a policy also takes
 * CLI_POLICY_OPTIONS.
 */
struct cli_config_flags {
    const char *task, *file, *envs, *steps, *rounds, *seed, *threads, *device, *precision;
    const char *policy, *script, *schedule, *from;
    struct cli_list sets;
};

#define CLI_DEVICE_OPTIONS(f)                                                                                          \
    {"device", CLI_TEXT, "DEVICE", &(f).device, "auto, cpu or cuda; auto uses the GPU when there is one", 0, 0},       \
    {                                                                                                                  \
        "precision", CLI_TEXT, "TYPE", &(f).precision, "auto, fp32 or bf16; auto is bf16 where the GPU supports it",   \
            0, 0                                                                                                       \
    }

#define CLI_WORLD_OPTIONS(f)                                                                                           \
    {"task", CLI_TEXT, "NAME", &(f).task, "the task, by name or by path (see `esper tasks`)", 0, 0},                   \
        {"config", CLI_TEXT, "FILE", &(f).file, "a JSON file of keys that override the task's", 0, 0},                 \
        {"set", CLI_LIST, "KEY=VALUE", &(f).sets, "override one key; may be repeated", 0, 0},                          \
        {"envs", CLI_TEXT, "N", &(f).envs, "hosts that learn side by side", 0, 0},                                     \
        {"steps", CLI_TEXT, "N", &(f).steps, "steps of a round", 0, 0},                                                \
        {"seed", CLI_TEXT, "N", &(f).seed, "seed of every random number", 0, 0},                                       \
        {"threads", CLI_TEXT, "N", &(f).threads, "threads; 0 uses all cores", 0, 0}, CLI_DEVICE_OPTIONS(f)

#define CLI_CONFIG_OPTIONS(f)                                                                                          \
    CLI_WORLD_OPTIONS(f),                                                                                              \
    {                                                                                                                  \
        "rounds", CLI_TEXT, "N", &(f).rounds, "rounds of the run", 0, 0                                                \
    }

#define CLI_POLICY_OPTIONS(f)                                                                                          \
    {"policy", CLI_TEXT, "KIND", &(f).policy, "ppo, heuristic, random, static, schedule, script or replay", 0, 0},     \
        {"schedule", CLI_TEXT, "TEXT", &(f).schedule, "plantings: conv_heavy@1,norm@12; @FILE: a line per env", 0, 0}, \
        {"script", CLI_TEXT, "FILE", &(f).script, "JSON actions; may germinate where the policy may not", 0, 0},       \
    {                                                                                                                  \
        "from", CLI_TEXT, "RUN", &(f).from, "ppo: start from that run's policy; replay: its best topology", 0, 0       \
    }

/* defaults < task < file < --set < flags, then config_check. `fallback` is the task when none is named; NULL: none. */
enum esper_status cli_config(const struct cli_config_flags *flags, const char *fallback, struct config *config,
                             struct esper_error *error);
/* The last part of it: --set and the dedicated flags over an existing configuration, then config_check. */
enum esper_status cli_config_override(const struct cli_config_flags *flags, struct config *config,
                                      struct esper_error *error);

/* Flags of every command that trains or evaluates. */
struct cli_run_flags {
    const char *runs, *name;
    bool plain, quiet;
    bool (*hidden)(void); /* called at every step: true hides the progress; NULL: never */
};

#define CLI_RUNS "runs" /* where runs are, unless --runs says otherwise */

#define CLI_RUN_OPTIONS(f)                                                                                             \
    {"runs", CLI_TEXT, "DIR", &(f).runs, "the directory of runs (" CLI_RUNS ")", 0, 0},                                \
        {"name", CLI_TEXT, "NAME", &(f).name, "name of the run (default: from time, task and seed)", 0, 0},            \
        {"plain", CLI_FLAG, NULL, &(f).plain, "plain lines, one per round, also on a terminal", 0, 0},                 \
    {                                                                                                                  \
        "quiet", CLI_FLAG, NULL, &(f).quiet, "only errors and the last line", 0, 0                                     \
    }

/* A viewer gives way to the trainer: lowers the priority of this process. */
void cli_step_back(void);

/* Serves the directory of runs from a child process until this one ends, in whatever way, and prints the address. Call
 * it before anything starts threads or takes a run's lock. */
enum esper_status cli_serve_beside(const char *runs, struct esper_error *error);

/* ---- progress --------------------------------------------------------------------------------------------------- */

/* Columns of the terminal that shows stderr; 80 if unknown. */
int cli_columns(void);
/* "1h02m", "3m20s", "8s". */
void cli_format_time(double seconds, char *text, size_t size);

/* Start from {.what = "training"}; the rest is private. */
struct cli_progress {
    const char *what;
    double start, shown; /* times of the first call and of the last line */
    int last_tenth;
    bool started, live;
};

/*
 * Call it as often as you like, with done <= total: on a terminal it keeps one line up to date, with the time left;
 * elsewhere it prints a line now and then. `note` (may be NULL) goes to the end of the line. done == total ends it.
 */
void cli_progress(struct cli_progress *progress, long long done, long long total, const char *note);
/* Ends the live line as it is, so that further output starts on a new line. For early exits; harmless otherwise.
 */
void cli_progress_end(struct cli_progress *progress);

/* ---- commands --------------------------------------------------------------------------------------------------- */

int command_train(int argc, char **argv);
int command_eval(int argc, char **argv);
int command_search(int argc, char **argv);
int command_exam(int argc, char **argv);
int command_compare(int argc, char **argv);
int command_report(int argc, char **argv);
int command_inspect(int argc, char **argv);
int command_export(int argc, char **argv);
int command_infer(int argc, char **argv);
int command_sql(int argc, char **argv);
int command_tui(int argc, char **argv);
int command_serve(int argc, char **argv);
int command_config(int argc, char **argv);
int command_tasks(int argc, char **argv);
int command_data(int argc, char **argv);
int command_selftest(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_doctor(int argc, char **argv);

/* Prints a --json result and releases it. */
struct cJSON;
enum esper_status cli_print_json(struct cJSON *root, struct esper_error *error);

#endif
