/* esper <command> [options]: finds the command in the table and calls it. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/words.h"
#include "cli/cli.h"
#include "variant/variant.h"

static int command_help(int argc, char **argv);
static int command_version(int argc, char **argv);

static const struct command {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"train", "train hosts that grow, and the policy that grows them", command_train},
    {"eval", "play evaluation episodes with a trained policy or a control", command_eval},
    {"search", "look for the best constant schedule, a control for trained policies", command_search},
    {"exam", "examine whether growth and learning pay: every control, verdicts, a page", command_exam},
    {"compare", "pair the episodes of runs and show their differences", command_compare},
    {"report", "describe a run, or compare several, as one HTML page", command_report},
    {"inspect", "look into a run, a checkpoint or another file", command_inspect},
    {"export", "write a run's grown network or record as files for other programs", command_export},
    {"infer", "run an exported network on a data set", command_infer},
    {"sql", "ask the record of a run anything, in SQL", command_sql},
    {"tui", "watch a run in the terminal, live or later", command_tui},
    {"serve", "show the runs as a web page", command_serve},
    {"config", "show every key, its value and its origin", command_config},
    {"tasks", "list the tasks", command_tasks},
    {"data", "fetch, import and look at data sets", command_data},
    {"selftest", "check the numeric code, or files of golden vectors", command_selftest},
    {"bench", "measure kernels and training steps on this machine", command_bench},
    {"doctor", "show what this build and this machine can do", command_doctor},
    {"help", "show this, or the options of a command", command_help},
    {"version", "show version and commit", command_version},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void print_overview(FILE *out)
{
    fprintf(out, "esper %s: networks that grow\n\nusage: esper <command> [options]\n\ncommands:\n", esper_build);
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
    fprintf(out, "\n`esper help <command>` shows its options, with an example. To start:\n"
                 "  esper train --task quickstart --name first\n"
                 "  esper report first\n");
}

/* Hands argv to the command it names, argv[0]. */
static int run_command(int argc, char **argv)
{
    const char *names[COMMAND_COUNT];
    struct esper_error error;
    for (int i = 0; i < COMMAND_COUNT; i++) {
        names[i] = commands[i].name;
        if (strcmp(argv[0], names[i]) == 0)
            return commands[i].run(argc, argv);
    }
    error_set(&error, ESPER_INVALID, "unknown command \"%.60s\"%s", argv[0],
              word_hint(argv[0], names, COMMAND_COUNT, "esper help").text);
    return cli_fail(&error);
}

/* "help data get" is "data get --help". */
static int command_help(int argc, char **argv)
{
    const struct cli_page page = {
        .usage = "help [COMMAND]",
        .about = "Shows the options of a command and an example, or all commands.",
        .example = "esper help train",
        .max_words = 2,
    };
    static char flag[] = "--help";
    struct cli_list words = {0};
    int code = cli_parse(argc, argv, &page, &words);
    if (code != CLI_CONTINUE)
        return code;
    if (words.count == 0) {
        print_overview(stdout);
        return CLI_OK;
    }
    char *asked[] = {argv[1], words.count == 2 ? argv[2] : flag, flag, NULL};
    return run_command(words.count + 1, asked);
}

static int command_version(int argc, char **argv)
{
    const struct cli_page page = {
        .usage = "version",
        .about = "Shows the version and the commit it was built from; -dirty if the tree had uncommitted changes.",
        .example = "esper version",
    };
    int code = cli_parse(argc, argv, &page, NULL);
    if (code != CLI_CONTINUE)
        return code;
    cli_print("esper %s\n", esper_build);
    return CLI_OK;
}

/* ---- room ---------------------------------------------------------------------------------------------------------
 */

/* The kernels keep tiles on the stack. Where the limit (`ulimit -s`) is lower than usual, the command and all threads
 * it starts get stacks of their own, which that limit does not concern. */
enum { STACK_BYTES = 8 << 20 };

struct call {
    int argc;
    char **argv;
    int code;
};

static void *run_call(void *context)
{
    struct call *call = context;
    call->code = run_command(call->argc, call->argv);
    return NULL;
}

static int run_with_room(int argc, char **argv)
{
    struct call call = {.argc = argc, .argv = argv};
    struct rlimit limit;
    pthread_attr_t stack;
    pthread_t thread;
    bool narrow = getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < STACK_BYTES;
    if (narrow && pthread_attr_init(&stack) == 0 && pthread_attr_setstacksize(&stack, STACK_BYTES) == 0 &&
        pthread_setattr_default_np(&stack) == 0 && pthread_create(&thread, &stack, run_call, &call) == 0)
        pthread_join(thread, NULL);
    else
        run_call(&call);
    return call.code;
}

int main(int argc, char **argv)
{
    static char help[] = "help", version[] = "version";
    struct esper_error error;
    if (argc < 2) { /* nothing was done: a script should notice */
        print_overview(stderr);
        return CLI_WRONG;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        argv[1] = help;
    else if (strcmp(argv[1], "--version") == 0)
        argv[1] = version;
    if (variant_check(&error) != ESPER_OK)
        return cli_fail(&error);
    return cli_finish(run_with_room(argc - 1, argv + 1));
}
