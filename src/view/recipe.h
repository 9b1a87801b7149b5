/*
 * The commands that make a run again, bit for bit: its first one with every key that is not the task's, then one for
 * each time it was given another number of rounds. A test replays what is printed here.
 */
#ifndef VIEW_RECIPE_H
#define VIEW_RECIPE_H

#include <stdio.h>

#include "telemetry/run.h"

/* A line each, ended. `machines` tells that parts of the run were played on other kernels or by other versions, so that
 * no one machine can make the same bits. */
enum esper_status recipe_write(FILE *file, const struct run *run, bool *machines, struct esper_error *error);

#endif
