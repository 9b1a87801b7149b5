/* Networks exported from a world: one env in its current state, or the best of the run so far. */
#ifndef SESSION_EXPORT_H
#define SESSION_EXPORT_H

#include "engine/world.h"
#include "model/network.h"
#include "telemetry/run.h"

/* `run` is the run's name, for the model's source. An error between two rounds, where every host is new and has learned
 * nothing, and for an env that the world does not have. */
enum esper_status export_env(const struct world *world, int env, const char *run, struct model **out,
                             struct esper_error *error);
/* An error before the first episode has ended. */
enum esper_status export_best(const struct world *world, const char *run, struct model **out,
                              struct esper_error *error);
/* From the run's newest checkpoint; env -1: the best. */
enum esper_status export_run(const struct run *run, int env, struct model **out, struct esper_error *error);
/* What a user typed, to run: a file that `esper export` wrote, or a run, of which it is the best network. */
enum esper_status export_open(const char *runs, const char *text, int batch, struct network *network,
                              struct esper_error *error);

#endif
