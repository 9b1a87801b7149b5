/* The plan of a sweep as a user gives it: in options, in a file, or as a folder that has one. */
#ifndef CLI_SWEEP_PLAN_H
#define CLI_SWEEP_PLAN_H

#include "cli/cli.h"
#include "sweep/folder.h"

struct plan_flags {
    struct cli_config_flags config;
    struct cli_list grid, ranges;
    const char *name, *seeds, *objective;
    int random, halving, first_rung;
};

/* A word that names the folder of a sweep, by its path or among the runs. */
bool plan_find_folder(const char *runs, const char *word, char folder[SWEEP_FOLDER]);
/* Such a folder has its plan: nothing of it may be given again. */
enum esper_status plan_refuse(const struct plan_flags *flags, const char *folder, struct esper_error *error);
/* A new plan: from a file, if the word is one, or for a task. */
enum esper_status plan_make(struct sweep *sweep, struct plan_flags *flags, const char *runs,
                            const struct cli_list *words, struct esper_error *error);

#endif
