/*
 * The commands that reproduce a run, bit for bit: the first with every key that differs from the task's, then one for
 * each change of the number of rounds. A test replays these commands.
 */
#ifndef VIEW_RECIPE_H
#define VIEW_RECIPE_H

#include <stdio.h>

#include "telemetry/run.h"

/* One line each. `machines` says that parts of the run used different kernels or versions, so that no single machine
 * can reproduce the bits. */
enum esper_status recipe_write(FILE *file, const struct run *run, bool *machines, struct esper_error *error);

#endif
