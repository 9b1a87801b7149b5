/* Where tasks are found. */
#include "base/config.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"

bool config_task_directory(int i, char path[CONFIG_PATH])
{
    const char *chosen = getenv("ESPER_TASKS");
    if (chosen && *chosen && i-- == 0)
        return snprintf(path, CONFIG_PATH, "%s", chosen) < CONFIG_PATH;
    if (i == 0)
        return snprintf(path, CONFIG_PATH, "tasks") < CONFIG_PATH;
    if (i > 1)
        return false;
    /* build/esper finds the tasks beside build/, from wherever it is called. */
    char program[CONFIG_PATH - 16];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0)
        return false;
    program[length] = '\0';
    char *slash = strrchr(program, '/');
    if (!slash)
        return false;
    *slash = '\0';
    return snprintf(path, CONFIG_PATH, "%s/../tasks", program) < CONFIG_PATH;
}

static bool is_path(const char *task)
{
    size_t length = strlen(task);
    return strchr(task, '/') || (length > 5 && strcmp(task + length - 5, ".json") == 0);
}

/* The task closest to `name` among all directories; false when there are no tasks at all. */
static bool nearest_task(const char *name, char nearest[64])
{
    char directory[CONFIG_PATH];
    nearest[0] = '\0';
    for (int i = 0; config_task_directory(i, directory); i++) {
        DIR *listing = opendir(directory);
        const struct dirent *entry;
        while (listing && (entry = readdir(listing))) {
            char found[64], best[64];
            size_t length = strlen(entry->d_name);
            if (length <= 5 || length - 5 >= sizeof found || strcmp(entry->d_name + length - 5, ".json") != 0)
                continue;
            snprintf(found, sizeof found, "%.*s", (int)length - 5, entry->d_name);
            snprintf(best, sizeof best, "%s", nearest);
            /* ties go to the earlier name, so that the answer does not depend on the directory's order */
            bool first = strcmp(found, best) < 0;
            const char *pair[2] = {first ? found : best, first ? best : found};
            snprintf(nearest, 64, "%s", *best ? nearest_word(name, pair, 2) : found);
        }
        if (listing)
            closedir(listing);
    }
    return *nearest != '\0';
}

enum esper_status config_find_task(const char *task, char path[CONFIG_PATH], struct esper_error *error)
{
    if (is_path(task)) {
        if (snprintf(path, CONFIG_PATH, "%s", task) >= CONFIG_PATH)
            return error_set(error, ESPER_INVALID, "task %.60s...: the path is too long", task);
        return ESPER_OK;
    }
    char directory[CONFIG_PATH], nearest[64];
    for (int i = 0; config_task_directory(i, directory); i++)
        if (snprintf(path, CONFIG_PATH, "%s/%s.json", directory, task) < CONFIG_PATH && access(path, F_OK) == 0)
            return ESPER_OK;
    if (nearest_task(task, nearest))
        return error_set(error, ESPER_INVALID, "unknown task \"%.60s\"; did you mean \"%s\"? `esper tasks` lists them",
                         task, nearest);
    return error_set(error, ESPER_INVALID,
                     "task \"%.60s\" not found: no tasks directory here; set ESPER_TASKS to the project's tasks/",
                     task);
}
