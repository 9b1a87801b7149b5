/* Networks that leave a world: one env as it stands, or the best of the run so far. */
#ifndef ENGINE_EXPORT_H
#define ENGINE_EXPORT_H

#include "engine/world.h"
#include "model/model.h"

/* `run` is the run's name, for the model's source. Between two rounds every host is new and has learned nothing: an
 * error, as is an env that the world does not have. */
enum esper_status export_env(const struct world *world, int env, const char *run, struct model **out,
                             struct esper_error *error);
/* An error while no episode has ended. */
enum esper_status export_best(const struct world *world, const char *run, struct model **out,
                              struct esper_error *error);

#endif
