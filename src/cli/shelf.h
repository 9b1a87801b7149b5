/*
 * What `list`, `rm`, `archive` and `tag` share: which runs are meant, how they are shown, and what becomes of them.
 */
#ifndef CLI_SHELF_H
#define CLI_SHELF_H

#include "cli/cli.h"
#include "telemetry/run_files.h"
#include "telemetry/run_shelf.h"

struct cJSON;

struct shelf_flags {
    const char *older, *tag, *state;
    bool json, dry_run;
};

#define SHELF_IN(f, member) ((f) + offsetof(struct shelf_flags, member))
#define SHELF_OPTIONS(f)                                                                                               \
    CLI_RUNS_OPTION, {"older", CLI_TEXT, "AGE", SHELF_IN(f, older), "those unchanged for 12h, 30d or 2w", 0, 0},       \
        {"tag", CLI_TEXT, "TAG", SHELF_IN(f, tag), "those with this tag", 0, 0},                                       \
        {"state",                                                                                                      \
         CLI_TEXT,                                                                                                     \
         "STATE",                                                                                                      \
         SHELF_IN(f, state),                                                                                           \
         "finished, interrupted, failed, crashed, running or unreadable ones",                                         \
         0,                                                                                                            \
         0},                                                                                                           \
    {                                                                                                                  \
        "json", CLI_FLAG, NULL, SHELF_IN(f, json), "print the result as JSON", 0, 0                                    \
    }
#define SHELF_DRY_RUN(f)                                                                                               \
    {                                                                                                                  \
        "dry-run", CLI_FLAG, NULL, SHELF_IN(f, dry_run), "say what would be done, and do nothing", 0, 0                \
    }

/* The runs that the command's words and flags mean. */
enum esper_status shelf_select(const struct cli_call *call, const struct shelf_flags *flags, struct run_shelf *shelf,
                               struct esper_error *error);
/* The same for a command that acts on them: it must be told which. A live run, a directory that is none and a link are
 * refused if they were named, and otherwise taken off the list, with a line about each. */
enum esper_status shelf_select_idle(const struct cli_call *call, const struct shelf_flags *flags,
                                    struct run_shelf *shelf, struct esper_error *error);

/* "1.5 MiB" */
const char *shelf_size(uint64_t bytes, char text[24]);
/* "3d": since it was last changed. */
const char *shelf_age(int64_t changed, char text[24]);
/* "good fast", as in the list; "" */
const char *shelf_tags(const struct run_label *label, char text[LABEL_TAGS * LABEL_TAG]);
/* Adds a run to a list, and returns it. */
struct cJSON *shelf_json(struct cJSON *list, const struct shelf_run *run);

/* From now on Ctrl-C, SIGTERM and SIGHUP are a flag, so that nothing stops halfway. */
void shelf_catch_signals(void);
bool shelf_stopped(void);

/* Removes a run whose lock is held, and says so unless `quiet`. */
enum esper_status shelf_remove(struct run_files *files, bool quiet, struct esper_error *error);

#endif
