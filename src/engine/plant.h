/* Seeds set by hand, for benchmarks and selftests: grown networks without the steps that grow them. */
#ifndef ENGINE_PLANT_H
#define ENGINE_PLANT_H

#include "engine/engine.h"

/*
 * A fresh seed of this blueprint in every slot of every env: in TRAINING, or in another stage at alpha 0.5, added to
 * the host's features. The policy may prune it or lead it on, but for fossils, which cost what blending ones do. The
 * snapshot that a rollback goes back to has it too.
 */
void plant_seeds(struct engine *engine, enum blueprint blueprint, enum stage stage);

#endif
