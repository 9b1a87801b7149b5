/*
 * Writes a checkpoint while training goes on: the rows are copied, and a separate thread does the rest. On a GPU, one
 * such write takes more than a tenth of a round.
 */
#ifndef SESSION_BEHIND_H
#define SESSION_BEHIND_H

#include "session/checkpoint.h"

struct behind;

/* Allocates memory for a copy of the table's saved rows. */
enum esper_status behind_create(struct behind **out, const struct table *table, struct esper_error *error);
/* Waits for the write in progress. NULL is fine. */
void behind_free(struct behind *behind);

/* Copy the rows and begin to write them, as checkpoint_write would. The previous write must have been collected;
 * `config` must not change until this one is. */
void behind_start(struct behind *behind, const char *path, const struct table *table, const struct config *config,
                  uint32_t round, uint32_t step);
/* Begin to write the same rows once more: the last write was collected and had failed. */
void behind_retry(struct behind *behind);
/* True once for each start or retry, when the write is done; `wait`: waits until it is. Returns how it ended. */
bool behind_collect(struct behind *behind, bool wait, enum esper_status *status, struct checkpoint_info *info,
                    struct esper_error *error);

#endif
