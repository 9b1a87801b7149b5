/* esper tasks: every task, in two lines each. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "morph/shape.h"

/* The first directory that holds tasks; false when there is none. */
static bool find_directory(char path[CONFIG_PATH])
{
    for (int i = 0; config_task_directory(i, path); i++) {
        DIR *listing = opendir(path);
        if (listing) {
            closedir(listing);
            return true;
        }
    }
    return false;
}

static int is_task(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return entry->d_name[0] != '.' && length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0;
}

static void print_task(const struct config *config)
{
    char host[64], budget[64];
    struct net_shape shape;
    shape_init(&shape, config);
    snprintf(host, sizeof host, "%dx%d %d..%d k%d p%d", config->data_size, config->data_size, config->host_base,
             config->host_base << (config->host_blocks - 1), config->host_kernel, config->host_pools);
    snprintf(budget, sizeof budget, "%dx%dx%d", config->envs, config->steps, config->rounds);
    printf("%-24s %-20s %7zu %9.3f  %-11s ", config->task, host, shape.host.params,
           1e-6 * (double)shape_forward_macs(&shape), budget);
    for (int i = 0; i < config->slot_count; i++)
        printf(" %s", config->slots[i]);
    printf("\n%-24s %s\n", "", config->about);
}

/* A broken task does not hide the others: it is reported, and the exit code tells. */
static int list_tasks(void)
{
    char directory[CONFIG_PATH];
    struct esper_error error = {0};
    struct dirent **entries;
    if (!find_directory(directory)) {
        error_set(&error, ESPER_INVALID, "no tasks directory here; set ESPER_TASKS to the project's tasks/");
        return cli_fail(&error);
    }
    int count = scandir(directory, &entries, is_task, alphasort), code = CLI_OK;
    if (count < 0) {
        error_set(&error, ESPER_FAILED, "%s: cannot list the directory", directory);
        return cli_fail(&error);
    }
    printf("%-24s %-20s %7s %9s  %-11s  %s\n", "task", "images, channels", "params", "MMAC", "budget", "slots");
    for (int i = 0; i < count; i++) {
        char path[2 * CONFIG_PATH];
        struct config config;
        snprintf(path, sizeof path, "%s/%s", directory, entries[i]->d_name);
        config_defaults(&config);
        if (config_load_task(&config, path, &error) != ESPER_OK)
            code = cli_fail(&error);
        else if (config_check(&config, &error) != ESPER_OK) {
            error_where(&error, "%s", path);
            code = cli_fail(&error);
        } else
            print_task(&config);
        free(entries[i]);
    }
    free(entries);
    return code;
}

int command_tasks(int argc, char **argv)
{
    const struct cli_page page = {
        .usage = "tasks",
        .about = "Every task with its host (image size, channels of the first and last block, kernel k, pools p),\n"
                 "parameters, million multiply-accumulates per image, budget (envs x steps x rounds) and slots.\n"
                 "`esper config --task NAME` shows every key of one of them.",
        .example = "esper tasks",
    };
    int code = cli_parse(argc, argv, &page, NULL);
    return code == CLI_CONTINUE ? list_tasks() : code;
}
