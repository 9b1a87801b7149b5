/*
 * Tasks: the files of tasks/, built into the program, and those that a user adds or puts before them. A name means
 * the first of $ESPER_TASKS/NAME.json, tasks/NAME.json in the working directory, tasks/NAME.json in the program's own
 * directory, and the built-in task.
 */
#ifndef BASE_TASKS_H
#define BASE_TASKS_H

#include "base/config.h"
#include "base/json.h"
#include "base/place.h"

enum { TASK_NAME = sizeof((struct config *)0)->task };

struct task {
    char name[TASK_NAME];
    char path[CONFIG_PATH]; /* of its file; "" for the built-in one */
};

/* The i-th directory searched for tasks; false past the last one. */
bool task_place(int i, struct place *place);
/* How many tasks it holds; -1 when it cannot be read. */
int task_count(const struct place *place);

/* A task by name or, when it holds a '/' or ends in ".json", by the path of its file. An unknown name is an error. */
enum esper_status task_find(const char *text, struct task *task, struct esper_error *error);
/* Error lines say which task it is. */
enum esper_status task_read(const struct task *task, cJSON **object, struct esper_error *error);

/* Every task that has a name, sorted by name. A file that is the built-in task byte for byte counts as built in.
 * Release with memory_free. */
enum esper_status task_list(struct task **list, int *count, struct esper_error *error);

#endif
