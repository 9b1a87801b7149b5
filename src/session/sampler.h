/*
 * What the best network of a run on text writes, as rows of `sample`: a new row whenever a round ends with a better
 * network than all before. A thread writes the text while training goes on, on a copy of the network and with random
 * numbers of its own: the run's bits know nothing of it.
 */
#ifndef SESSION_SAMPLER_H
#define SESSION_SAMPLER_H

#include "engine/world.h"
#include "telemetry/recorder.h"

enum { SAMPLER_BYTES = 200 }; /* of a text; fewer where so much of it cannot be shown that the row is full */

struct sampler;

enum esper_status sampler_create(struct sampler **out, struct esper_error *error);
/* Gives up the text in progress. NULL is fine. */
void sampler_free(struct sampler *sampler);

/* Are there rows of this kind in the record of such a run? */
bool sampler_wanted(const struct world *world, const struct recorder *recorder);
/* Begins a text by the world's best network; `run` is the run's name. The one in progress must have been waited for. */
enum esper_status sampler_start(struct sampler *sampler, const struct world *world, const char *run,
                                struct recorder *recorder, struct esper_error *error);
/* Waits until the row is emitted. An error: there was not enough memory for it. */
enum esper_status sampler_wait(struct sampler *sampler, struct esper_error *error);

#endif
