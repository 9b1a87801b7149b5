/* A command that many ranks run together: rank 0 speaks for all. */
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include "base/config.h"
#include "base/group.h"
#include "cli/cli.h"

/* Before anything is printed: of the ranks that mpirun or srun started, one speaks, if the command is one that all of
 * them do together. */
void ranks_hush(const char *command);

/* Meet the other ranks; *group is NULL without any. `quiet`: only errors are told. */
enum esper_status ranks_join(struct group **group, bool quiet, struct esper_error *error);
/* At the end, in any case: prints the error, if there is one, before the ranks part. */
enum esper_status ranks_part(struct group *group, struct cli_call *call, enum esper_status status,
                             const struct esper_error *error);
/* What this rank made of its command line: the status of all, and whether they have the same configuration. */
enum esper_status ranks_agree(struct group *group, enum esper_status status, const struct config *config,
                              struct esper_error *error);

#endif
