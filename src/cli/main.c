/* esper <command> [options]: find the command in the table and hand over. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"

static const struct command {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"train", "train hosts that grow, and the policy that grows them", command_train},
    {"eval", "play evaluation episodes with a trained policy or a control", command_eval},
    {"compare", "pair the episodes of runs and tell their differences", command_compare},
    {"report", "tell a run, or several and their comparison, as one HTML page", command_report},
    {"inspect", "look into a run, a checkpoint or another file", command_inspect},
    {"export", "write a run's grown network as files other programs open", command_export},
    {"infer", "run an exported network on a data set", command_infer},
    {"sql", "ask the record of a run anything, in SQL", command_sql},
    {"tui", "watch a run in the terminal, live or later", command_tui},
    {"serve", "show the runs as a web page", command_serve},
    {"config", "show every key, its value and where that came from", command_config},
    {"tasks", "list the tasks", command_tasks},
    {"data", "fetch, import and look at data sets", command_data},
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
