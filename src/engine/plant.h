/* Seeds planted by hand, for benchmarks and selftests: grown networks without the steps that grow them. */
#ifndef ENGINE_PLANT_H
#define ENGINE_PLANT_H

#include "engine/engine.h"

/*
 * Plants a fresh seed of this blueprint in every slot of every env: in TRAINING, or in another stage at alpha 0.5,
 * added to the host's features. The policy may prune or advance it, unless it is a fossil; fossils cost as much as
 * blending seeds do. The snapshot that a rollback restores contains it as well.
 */
void plant_seeds(struct engine *engine, int blueprint, enum stage stage);

#endif
