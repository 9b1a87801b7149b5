/*
 * What the commands share: the option parser, error and exit-code conventions, progress. Only src/cli prints or exits.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

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

/* How much is said on stderr: --log-level of every command. What a command is for goes to stdout in any case. */
enum cli_level { CLI_ERROR, CLI_WARNING, CLI_INFO, CLI_DEBUG };
bool cli_says(enum cli_level level);

/* As printf, to stdout and, as information, to stderr; control characters other than newline and tab become '?'. Every
 * command prints through these, since almost everything it prints may hold a name or a text from somebody else's run.
 */
void cli_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "esper: " and a line: trouble that does not end the command, and what helps to see what it does. */
void cli_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cli_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Print nothing from here on: another rank speaks (cli/ranks.h). */
void cli_hush(bool hush);
/* For an option that names the file to write: if it is "-", standard output belongs to that file, and what the command
 * prints besides goes to stderr. */
void cli_output(const char *path);

/* The exit code of a command, or that of a failure if what it printed could not be written. */
int cli_finish(int code);

/* Prints "esper: <line>" on stderr and returns the exit code for the error's status. */
int cli_fail(const struct esper_error *error);

/* ---- options ---------------------------------------------------------------------------------------------------- */

enum cli_kind {
    CLI_FLAG,  /* --name              bool */
    CLI_TEXT,  /* --name VALUE        const char * */
    CLI_INT,   /* --name N            int, from min to max */
    CLI_LIST,  /* --name VALUE ...    struct cli_list, may be repeated */
    CLI_WHERE, /* --runs DIR         runs of struct cli_call */
    CLI_LEVEL  /* --log-level LEVEL  of every command */
};

#define CLI_MAX_LIST 64

struct cli_list {
    const char *items[CLI_MAX_LIST + 1]; /* the one after the last is NULL */
    int count;
};

struct cli_option {
    const char *name; /* without the dashes */
    enum cli_kind kind;
    const char *value; /* what the help calls the value; NULL for flags */
    size_t at;         /* where it is stored, in the flags of the page */
    const char *help;
    int min, max; /* CLI_INT only */
};

#define CLI_RUNS "runs" /* where runs are, unless --runs says otherwise */
#define CLI_RUNS_OPTION                                                                                                \
    {                                                                                                                  \
        "runs", CLI_WHERE, "DIR", 0, "the directory of runs (" CLI_RUNS ")", 0, 0                                      \
    }

/* A command as it was called. */
struct cli_call {
    int argc;
    char **argv;           /* argv[0] is the command's name */
    void *flags;           /* its options */
    const char *runs;      /* the directory of runs */
    struct cli_list words; /* arguments that are not options */
    int code;              /* the exit code of a success: 0 unless the command sets it */
};

/* A command: what --help prints, what its arguments may be, and what it does with them. */
struct cli_page {
    const char *usage;   /* "train [--task NAME] [options]" */
    const char *about;   /* a sentence or two */
    const char *example; /* a full command line */
    const struct cli_part {
        const char *name;
        const struct cli_page *page;
    } * parts;                        /* commands of their own, such as `data get`; the last is {0} */
    const struct cli_option *options; /* the last is {0} */
    size_t flags_size;                /* of the struct that they fill in */
    const void *defaults;             /* what that holds before; NULL: zeros */
    int min_words, max_words;         /* arguments that are not options */
    const char *wanted;               /* what the first of them are: "a run" */
    bool minus_words;                 /* "-x" is one of them, too */
    enum esper_status (*run)(struct cli_call *call, struct esper_error *error);
};

/* Runs the command with argv[1 .. argc-1], or prints its help. Returns the exit code; an error has been printed. -o is
 * short for --output. */
int cli_command(int argc, char **argv, const struct cli_page *page);

/* Returned in place of an exit code by parts of a command that may end it: it goes on. */
#define CLI_CONTINUE (-1)

/* ---- configuration ---------------------------------------------------------------------------------------------- */

/*
 * The flags of every command that takes a configuration; put CLI_CONFIG_OPTIONS(offset) into its option table. A
 * command whose number of rounds follows from something else takes CLI_WORLD_OPTIONS; one that runs a policy also takes
 * CLI_POLICY_OPTIONS.
 */
struct cli_config_flags {
    const char *task, *file, *envs, *steps, *rounds, *seed, *threads, *device, *precision;
    const char *policy, *script, *schedule, *from;
    struct cli_list sets;
};

#define CLI_IN(f, member) ((f) + offsetof(struct cli_config_flags, member))

#define CLI_DEVICE_OPTIONS(f)                                                                                          \
    {"device", CLI_TEXT, "DEVICE", CLI_IN(f, device), "auto, cpu, cuda, cuda:N; auto: the GPU if there is one", 0, 0}, \
    {                                                                                                                  \
        "precision", CLI_TEXT, "TYPE", CLI_IN(f, precision),                                                           \
            "auto, fp32 or bf16; auto is bf16 where the GPU supports it", 0, 0                                         \
    }

#define CLI_WORLD_OPTIONS(f)                                                                                           \
    {"task", CLI_TEXT, "NAME", CLI_IN(f, task), "the task, by name or by path (see `esper tasks`)", 0, 0},             \
        {"config", CLI_TEXT, "FILE", CLI_IN(f, file), "a JSON file of keys that override the task's", 0, 0},           \
        {"set", CLI_LIST, "KEY=VALUE", CLI_IN(f, sets), "override one key; may be repeated", 0, 0},                    \
        {"envs", CLI_TEXT, "N", CLI_IN(f, envs), "hosts that learn side by side", 0, 0},                               \
        {"steps", CLI_TEXT, "N", CLI_IN(f, steps), "steps of a round", 0, 0},                                          \
        {"seed", CLI_TEXT, "N", CLI_IN(f, seed), "seed of every random number", 0, 0},                                 \
        {"threads", CLI_TEXT, "N", CLI_IN(f, threads), "threads; 0 uses all cores", 0, 0}, CLI_DEVICE_OPTIONS(f)

#define CLI_CONFIG_OPTIONS(f)                                                                                          \
    CLI_WORLD_OPTIONS(f),                                                                                              \
    {                                                                                                                  \
        "rounds", CLI_TEXT, "N", CLI_IN(f, rounds), "rounds of the run", 0, 0                                          \
    }

#define CLI_POLICY_OPTIONS(f)                                                                                          \
    {                                                                                                                  \
        "policy", CLI_TEXT, "KIND", CLI_IN(f, policy), "ppo, heuristic, random, static, schedule, script or replay",   \
        0,        0},                                                                                                  \
        {"schedule", CLI_TEXT, "TEXT", CLI_IN(f, schedule), "plantings: conv_heavy@1,norm@12; @FILE: a line per env",  \
         0,          0},                                                                                               \
        {"script", CLI_TEXT, "FILE", CLI_IN(f, script), "JSON actions; may germinate where the policy may not", 0, 0}, \
    {                                                                                                                  \
        "from", CLI_TEXT, "RUN", CLI_IN(f, from),                                                                      \
            "ppo: start from that run's (or file's) policy; replay: its best topology", 0, 0                           \
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

#define CLI_RUN_OPTIONS(f)                                                                                             \
    CLI_RUNS_OPTION,                                                                                                   \
        {"name",                                                                                                       \
         CLI_TEXT,                                                                                                     \
         "NAME",                                                                                                       \
         (f) + offsetof(struct cli_run_flags, name),                                                                   \
         "name of the run (default: from time, task and seed)",                                                        \
         0,                                                                                                            \
         0},                                                                                                           \
        {"plain",                                                                                                      \
         CLI_FLAG,                                                                                                     \
         NULL,                                                                                                         \
         (f) + offsetof(struct cli_run_flags, plain),                                                                  \
         "plain lines, one per round, also on a terminal",                                                             \
         0,                                                                                                            \
         0},                                                                                                           \
    {                                                                                                                  \
        "quiet", CLI_FLAG, NULL, (f) + offsetof(struct cli_run_flags, quiet), "only errors and the last line", 0, 0    \
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

/* COMMAND(name, what it does): NAME_page of NAME.c. */
#define CLI_COMMANDS(COMMAND)                                                                                          \
    COMMAND(train, "train hosts that grow, and the policy that grows them")                                            \
    COMMAND(eval, "play evaluation episodes with a trained policy or a control")                                       \
    COMMAND(search, "look for the best constant schedule, a control for trained policies")                             \
    COMMAND(exam, "examine whether growth and learning pay: every control, verdicts, a page")                          \
    COMMAND(sweep, "train many configurations and seeds, on any number of machines")                                   \
    COMMAND(compare, "pair the episodes of runs and show their differences")                                           \
    COMMAND(list, "list the runs: state, size, age, tags and note")                                                    \
    COMMAND(tag, "give runs tags and a note")                                                                          \
    COMMAND(rm, "remove runs")                                                                                         \
    COMMAND(archive, "pack runs into one file")                                                                        \
    COMMAND(report, "describe a run, or compare several, as one HTML page")                                            \
    COMMAND(inspect, "look into a run, a checkpoint or another file")                                                  \
    COMMAND(export, "write a run's grown network or record as files for other programs")                               \
    COMMAND(infer, "run an exported network on a data set")                                                            \
    COMMAND(sample, "let a grown language model write text")                                                           \
    COMMAND(sql, "ask the record of a run anything, in SQL")                                                           \
    COMMAND(tui, "watch a run in the terminal, live or later")                                                         \
    COMMAND(serve, "show the runs as a web page")                                                                      \
    COMMAND(config, "show every key, its value and its origin")                                                        \
    COMMAND(tasks, "list the tasks")                                                                                   \
    COMMAND(data, "fetch, import and look at data sets")                                                               \
    COMMAND(selftest, "check the numeric code, or files of golden vectors")                                            \
    COMMAND(bench, "measure kernels and training steps on this machine")                                               \
    COMMAND(doctor, "show what this build and this machine can do")

#define CLI_DECLARE(name, help) extern const struct cli_page name##_page;
CLI_COMMANDS(CLI_DECLARE)

/* Prints a --json result and releases it. */
struct cJSON;
enum esper_status cli_print_json(struct cJSON *root, struct esper_error *error);

#endif
