/*
 * What a run has learned, as others take it: in the run's newest checkpoint, or in a file. A file of a policy, which
 * `esper export --policy` writes, is a checkpoint of the policy's arrays alone, with the configuration that it was
 * trained by; any other checkpoint will do as well.
 */
#ifndef SESSION_LEARNED_H
#define SESSION_LEARNED_H

#include "engine/world.h"
#include "telemetry/run.h"

/* Whether what somebody typed is a file, and no run of that name. */
bool learned_is_file(const char *runs, const char *text);
/* As it is kept in policy.from: the directory of a run, or an absolute path of a file. */
enum esper_status learned_name(const char *runs, const char *text, char path[PATH_MAX], struct esper_error *error);
/* A file as if it were the run that it came from: its name, its path and its configuration; nothing to be closed. */
enum esper_status learned_open_file(struct run *run, const char *path, struct esper_error *error);
/* The checkpoint, and its configuration (NULL: nobody asks). If a run's newest one is damaged, the user decides what to
 * take instead. */
enum esper_status learned_find(const char *runs, const char *text, char path[PATH_MAX], struct config *config,
                               struct esper_error *error);
/* The policy of a checkpoint, into a world that has learned nothing. */
enum esper_status learned_take(struct world *world, const char *path, struct esper_error *error);
/* The policy of a run's newest checkpoint, into a file. */
enum esper_status learned_export(const struct run *run, const char *path, struct esper_error *error);

#endif
