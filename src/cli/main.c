/* esper <command> [options]: finds the command in the table and calls it. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/build.h"
#include "base/words.h"
#include "cli/cli.h"
#include "cli/ranks.h"
#include "variant/variant.h"

static const struct cli_page help_page, version_page;

static const struct command {
    const char *name, *help;
    const struct cli_page *page;
} commands[] = {
#define COMMAND_ROW(name, help) {#name, help, &name##_page},
    CLI_COMMANDS(COMMAND_ROW)
#undef COMMAND_ROW
        {"help", "show this, or the options of a command", &help_page},
    {"version", "show version and commit", &version_page},
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
            return cli_command(argc, argv, commands[i].page);
    }
    error_set(&error, ESPER_INVALID, "unknown command \"%.60s\"%s", argv[0],
              word_hint(argv[0], names, COMMAND_COUNT, "esper help").text);
    return cli_fail(&error);
}

/* "help data get" is "data get --help". */
static enum esper_status show_help(struct cli_call *call, struct esper_error *error)
{
    static char flag[] = "--help";
    (void)error;
    if (call->words.count == 0) {
        print_overview(stdout);
        return ESPER_OK;
    }
    char *asked[] = {call->argv[1], call->words.count == 2 ? call->argv[2] : flag, flag, NULL};
    call->code = run_command(call->words.count + 1, asked);
    return ESPER_OK;
}

static const struct cli_page help_page = {
    .usage = "help [COMMAND]",
    .about = "Shows the options of a command and an example, or all commands.",
    .example = "esper help train",
    .max_words = 2,
    .run = show_help,
};

static enum esper_status show_version(struct cli_call *call, struct esper_error *error)
{
    (void)call, (void)error;
    cli_print("esper %s\n", esper_build);
    return ESPER_OK;
}

static const struct cli_page version_page = {
    .usage = "version",
    .about = "Shows the version and the commit it was built from; -dirty if the tree had uncommitted changes.",
    .example = "esper version",
    .run = show_version,
};

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
    ranks_hush(argv[1]);
    if (variant_check(&error) != ESPER_OK)
        return cli_fail(&error);
    return cli_finish(run_with_room(argc - 1, argv + 1));
}
