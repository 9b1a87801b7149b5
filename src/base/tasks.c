#include "base/tasks.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/asset.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/words.h"

#define SUFFIX ".json"

/* "name.json" without its extension; false for any other file, including hidden ones. */
static bool name_of_file(const char *file, char name[TASK_NAME])
{
    size_t length = strlen(file), end = strlen(SUFFIX);
    if (file[0] == '.' || length <= end || strcmp(file + length - end, SUFFIX) != 0)
        return false;
    return snprintf(name, TASK_NAME, "%.*s", (int)(length - end), file) < TASK_NAME;
}

static bool is_path(const char *text)
{
    size_t length = strlen(text);
    return strchr(text, '/') || (length > 5 && strcmp(text + length - 5, SUFFIX) == 0);
}

/* ---- built in ---------------------------------------------------------------------------------------------------- */

static const struct asset *built_in(const char *name)
{
    char found[TASK_NAME];
    for (int i = 0; i < task_asset_count; i++)
        if (name_of_file(task_assets[i].name, found) && strcmp(found, name) == 0)
            return &task_assets[i];
    return NULL;
}

static bool is_built_in(const char *name, const char *path)
{
    const struct asset *asset = built_in(name);
    char *data;
    size_t size;
    if (!asset || file_read(path, asset->plain_bytes, &data, &size, NULL) != ESPER_OK)
        return false;
    bool same = size == asset->plain_bytes && memcmp(data, asset->plain, size) == 0;
    memory_free(data);
    return same;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

static void program_place(char path[CONFIG_PATH])
{
    ssize_t length = readlink("/proc/self/exe", path, CONFIG_PATH - 16);
    path[length > 0 && length < CONFIG_PATH - 16 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (slash)
        memcpy(slash, "/tasks", sizeof "/tasks");
}

bool task_place(int i, struct place *place)
{
    static const char *const labels[] = {"$ESPER_TASKS", "here", "beside esper"};
    const char *chosen = getenv("ESPER_TASKS");
    if (i < 0 || i > 2)
        return false;
    *place = (struct place){.label = labels[i]};
    if (i == 0 && chosen && strlen(chosen) < sizeof place->path)
        memcpy(place->path, chosen, strlen(chosen) + 1);
    else if (i == 1)
        memcpy(place->path, "tasks", sizeof "tasks");
    else if (i == 2)
        program_place(place->path);
    return true;
}

int task_count(const struct place *place)
{
    char name[TASK_NAME];
    int count = 0;
    const struct dirent *entry;
    DIR *directory = opendir(place->path);
    if (!directory)
        return -1;
    while ((entry = readdir(directory)))
        count += name_of_file(entry->d_name, name);
    closedir(directory);
    return count;
}

/* ---- one task ---------------------------------------------------------------------------------------------------- */

/* The file of that name in the first place that has one. */
static bool find_file(const char *name, char path[CONFIG_PATH])
{
    struct place place;
    for (int i = 0; task_place(i, &place); i++)
        if (place.path[0] && snprintf(path, CONFIG_PATH, "%s/%s" SUFFIX, place.path, name) < CONFIG_PATH &&
            access(path, F_OK) == 0)
            return true;
    path[0] = '\0';
    return false;
}

static enum esper_status unknown_task(const char *name, struct esper_error *error)
{
    struct task *tasks;
    int count;
    TRY(task_list(&tasks, &count, error));
    const char **names = memory_alloc((size_t)count + 1, sizeof *names, error);
    for (int i = 0; names && i < count; i++)
        names[i] = tasks[i].name;
    if (names)
        error_set(error, ESPER_INVALID, "unknown task \"%.60s\"%s", name,
                  word_hint(name, names, count, "esper tasks").text);
    memory_free(names);
    memory_free(tasks);
    return names ? ESPER_INVALID : ESPER_FAILED;
}

enum esper_status task_find(const char *text, struct task *task, struct esper_error *error)
{
    *task = (struct task){0};
    if (is_path(text)) {
        /* The file's name is the task's name. */
        const char *slash = strrchr(text, '/'), *base = slash ? slash + 1 : text;
        int length = (int)strcspn(base, ".");
        if (snprintf(task->path, sizeof task->path, "%s", text) >= (int)sizeof task->path)
            return error_set(error, ESPER_INVALID, "task %.60s...: the path is too long", text);
        if (snprintf(task->name, sizeof task->name, "%.*s", length, base) >= (int)sizeof task->name)
            return error_set(error, ESPER_INVALID, "task %.300s: the name has more than %zu letters", text,
                             sizeof task->name - 1);
        return ESPER_OK;
    }
    if (strlen(text) < sizeof task->name) {
        memcpy(task->name, text, strlen(text) + 1);
        if (find_file(text, task->path) || built_in(text))
            return ESPER_OK;
    }
    return unknown_task(text, error);
}

enum esper_status task_read(const struct task *task, cJSON **object, struct esper_error *error)
{
    if (task->path[0])
        return json_read_file(task->path, object, error);
    const struct asset *asset = built_in(task->name);
    if (json_parse((const char *)asset->plain, asset->plain_bytes, object, error) != ESPER_OK)
        return error_where(error, "built-in task %s", task->name);
    return ESPER_OK;
}

/* ---- all tasks --------------------------------------------------------------------------------------------------- */

struct listing {
    struct task *tasks;
    int count, capacity;
};

static enum esper_status listing_add(struct listing *list, const char *name, const char *path,
                                     struct esper_error *error)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->tasks[i].name, name) == 0)
            return ESPER_OK; /* an earlier place has it */
    if (list->count == list->capacity) {
        int capacity = list->capacity ? 2 * list->capacity : 32;
        struct task *tasks = memory_alloc((size_t)capacity, sizeof *tasks, error);
        if (!tasks)
            return ESPER_FAILED;
        if (list->count)
            memcpy(tasks, list->tasks, (size_t)list->count * sizeof *tasks);
        memory_free(list->tasks);
        list->tasks = tasks;
        list->capacity = capacity;
    }
    struct task *task = &list->tasks[list->count++];
    snprintf(task->name, sizeof task->name, "%s", name);
    snprintf(task->path, sizeof task->path, "%s", path);
    return ESPER_OK;
}

static enum esper_status list_place(struct listing *list, const struct place *place, struct esper_error *error)
{
    enum esper_status status = ESPER_OK;
    char name[TASK_NAME], path[CONFIG_PATH];
    const struct dirent *entry;
    DIR *directory = opendir(place->path);
    while (directory && status == ESPER_OK && (entry = readdir(directory)))
        if (name_of_file(entry->d_name, name) &&
            snprintf(path, sizeof path, "%s/%s", place->path, entry->d_name) < (int)sizeof path)
            status = listing_add(list, name, is_built_in(name, path) ? "" : path, error);
    if (directory)
        closedir(directory);
    return status;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct task *)a)->name, ((const struct task *)b)->name);
}

enum esper_status task_list(struct task **out, int *count, struct esper_error *error)
{
    struct listing list = {0};
    struct place place;
    char name[TASK_NAME];
    enum esper_status status = ESPER_OK;
    for (int i = 0; status == ESPER_OK && task_place(i, &place); i++)
        if (place.path[0])
            status = list_place(&list, &place, error);
    for (int i = 0; status == ESPER_OK && i < task_asset_count; i++)
        if (name_of_file(task_assets[i].name, name))
            status = listing_add(&list, name, "", error);
    if (status != ESPER_OK) {
        memory_free(list.tasks);
        return status;
    }
    if (list.count)
        qsort(list.tasks, (size_t)list.count, sizeof *list.tasks, by_name);
    *out = list.tasks;
    *count = list.count;
    return ESPER_OK;
}
