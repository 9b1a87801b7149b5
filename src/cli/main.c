/* esper <command> [options]: find the command in the table and hand over. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"

static const struct command {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"grow", "train hosts for a round under a script of timed actions", command_grow},
    {"data", "fetch, import and look at data sets", command_data},
    {"tasks", "list the tasks, or show one in full", command_tasks},
    {"selftest", "check the numeric code, or files of golden vectors", command_selftest},
    {"bench", "measure kernels and training steps against the machine", command_bench},
    {"doctor", "show what this build and this machine can do", command_doctor},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void print_help(void)
{
    printf("esper " ESPER_VERSION ": networks that grow\n\nusage: esper <command> [options]\n\ncommands:\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        printf("  %-10s %s\n", commands[i].name, commands[i].help);
    printf("\n`esper <command> --help` shows the options of a command, with an example.\n");
}

static int unknown_command(const char *name)
{
    const char *names[COMMAND_COUNT];
    struct esper_error error;
    for (int i = 0; i < COMMAND_COUNT; i++)
        names[i] = commands[i].name;
    error_set(&error, ESPER_INVALID, "unknown command \"%.60s\"; did you mean \"%s\"? `esper --help` lists them", name,
              nearest_word(name, names, COMMAND_COUNT));
    return cli_fail(&error);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        struct esper_error error;
        error_set(&error, ESPER_INVALID, "no command given; `esper --help` lists them");
        return cli_fail(&error);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help();
        return CLI_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("esper " ESPER_VERSION "\n");
        return CLI_OK;
    }
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    return unknown_command(argv[1]);
}
