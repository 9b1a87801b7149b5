/*
 * A checkpoint written while training goes on: its rows are copied, and a thread of its own does the rest. At the speed
 * of a GPU a round is shorter than ten such writes.
 */
#ifndef ENGINE_BEHIND_H
#define ENGINE_BEHIND_H

#include "engine/checkpoint.h"

struct behind;

/* Room for a copy of the table's saved rows. */
enum esper_status behind_create(struct behind **out, const struct table *table, struct esper_error *error);
/* Waits for what is being written. NULL is fine. */
void behind_free(struct behind *behind);

/* Copy the rows and begin to write them, as checkpoint_write would. The one before must have been collected; `config`
 * must stay as it is until this one is. */
void behind_start(struct behind *behind, const char *path, const struct table *table, const struct config *config,
                  uint32_t round, uint32_t step);
/* True once for each start, when it is done (`wait`: that is waited for): how it ended. */
bool behind_collect(struct behind *behind, bool wait, enum esper_status *status, struct checkpoint_info *info,
                    struct esper_error *error);

#endif
