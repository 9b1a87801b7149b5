/* esper tasks: every task in one line, or one task with every key, its value and where it came from. */
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

static void show_config(const struct config *config)
{
    struct net_shape shape;
    shape_init(&shape, config);
    printf("%s: %s\nhost: %zu parameters, %llu multiply-accumulates per image\n\n",
           *config->task ? config->task : "no task", config->about, shape.host.params,
           (unsigned long long)shape_forward_macs(&shape));
    printf("%-17s %-26s %-8s %s\n", "key", "value", "from", "meaning");
    for (int key = 0; key < config_key_count(); key++) {
        char value[CONFIG_TEXT];
        const char *name = config_key_name(key);
        if (strcmp(name, "task") == 0 || strcmp(name, "about") == 0)
            continue; /* the heading */
        config_format(config, key, value);
        printf("%-17s %-26s %-8s %s\n", name, value, config_origin_name((enum config_origin)config->origin[key]),
               config_key_help(key));
    }
}

int command_tasks(int argc, char **argv)
{
    struct cli_config_flags flags = {0};
    struct cli_list words = {0};
    const struct cli_option options[] = {CLI_CONFIG_OPTIONS(flags)};
    const struct cli_page page = {
        .usage = "tasks [NAME] [options]",
        .about =
            "Without NAME: every task with its host (image size, channels of the first and last block, kernel k,\n"
            "pools p), parameters, million multiply-accumulates per image, budget (envs x steps x rounds), slots.\n"
            "With NAME: each key of its configuration, the value it takes and where that came from.",
        .example = "esper tasks cifar_baseline --set host.lr=0.02",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .max_words = 1,
    };
    int code = cli_parse(argc, argv, &page, &words);
    if (code != CLI_CONTINUE)
        return code;
    if (argc == 1)
        return list_tasks();

    struct config config;
    struct esper_error error = {0};
    if (words.count)
        flags.task = words.items[0];
    if (cli_config(&flags, NULL, &config, &error) != ESPER_OK)
        return cli_fail(&error);
    show_config(&config);
    return CLI_OK;
}
