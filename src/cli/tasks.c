/* esper tasks: every task, in two lines each, and its origin if it is not built in. */
#include <stdio.h>

#include "base/memory.h"
#include "base/tasks.h"
#include "cli/cli.h"
#include "host/families.h"

static void print_task(const struct config *config, const char *path)
{
    char host[64], budget[64];
    union host_shape shape;
    struct growth growth;
    host_shape_init(&shape, config);
    host_growth_init(&growth, config);
    host_family_of(config)->brief(config, host, sizeof host);
    snprintf(budget, sizeof budget, "%dx%dx%d", config->envs, config->steps, config->rounds);
    cli_print("%-24s %-20s %7zu %9.3f  %-11s ", config->task, host, shape.net.host.params, 1e-6 * growth.host_macs,
              budget);
    for (int i = 0; i < config->slot_count; i++)
        cli_print(" %s", config->slots[i]);
    cli_print("\n%-24s %s\n", "", config->about);
    if (*path)
        cli_print("%-24s from %s\n", "", path);
}

/* A broken task does not hide the others: it is reported, and sets the exit code. */
static enum esper_status list_tasks(struct cli_call *call, struct esper_error *error)
{
    struct task *tasks;
    int count;
    TRY(task_list(&tasks, &count, error));
    cli_print("%-24s %-20s %7s %9s  %-11s  %s\n", "task", "host", "params", "MMAC", "budget", "slots");
    for (int i = 0; i < count; i++) {
        struct config config;
        config_defaults(&config);
        if (config_load_task(&config, tasks[i].name, error) != ESPER_OK)
            call->code = cli_fail(error);
        else if (config_settle(&config, error) != ESPER_OK || config_check(&config, error) != ESPER_OK) {
            error_where(error, "%s", *tasks[i].path ? tasks[i].path : tasks[i].name);
            call->code = cli_fail(error);
        } else
            print_task(&config, tasks[i].path);
    }
    memory_free(tasks);
    return ESPER_OK;
}

const struct cli_page tasks_page = {
    .usage = "tasks",
    .about = "Every task with its host (CNNs: image size, channels of the first and last block, kernel k, pools p;\n"
             "transformers: tokens of a window t, width w, heads h, layers l, segments s), parameters, million\n"
             "multiply-accumulates per image or window, budget (envs x steps x rounds) and slots.\n"
             "`esper config --task NAME` shows every key of one of them, `esper search NAME --list` its schedules.\n"
             "Tasks are built in; a file NAME.json in $ESPER_TASKS, in tasks/ here or in tasks/ beside the program\n"
             "adds one or replaces one, and the list says so.",
    .example = "esper tasks",
    .run = list_tasks,
};
