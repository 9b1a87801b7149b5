/*
 * The engine: a world, its data and the phases that move it, each a function over all envs.
 *
 *     engine_reset(engine, round);
 *     for each step: engine_train(engine); engine_evaluate(engine); engine_apply(engine, actions, results);
 *
 * On the CPU a phase runs whole envs on the pool's threads: no barrier inside, and an env's numbers do not depend on
 * which thread or how many. Nothing is allocated after engine_create.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "engine/world.h"
#include "morph/action.h"

struct engine;

/* The configuration is copied; it must have passed config_check. */
enum esper_status engine_create(struct engine **out, const struct config *config, struct esper_error *error);
void engine_free(struct engine *engine);

struct world *engine_world(struct engine *engine);
const char *engine_kernels(const struct engine *engine); /* name of the variant in use */
int engine_threads(const struct engine *engine);
uint32_t engine_batches(const struct engine *engine); /* training batches of a step */

/* Start a round: every env a fresh episode. */
void engine_reset(struct engine *engine, uint32_t round);
/* One step of training for all envs: the step's batches, gradient statistics on the last one. */
void engine_train(struct engine *engine);
/* Validate every subset of the blended seeds, and write down what the step measured in the slots' rows. */
void engine_evaluate(struct engine *engine);
/* Execute one action per env ([env]; NULL: all wait), then tick every slot. Ends the step. */
void engine_apply(struct engine *engine, const struct action *actions, struct action_result *results);
/* Accuracy in percent on the test images as the networks stand, [env]. */
void engine_test(struct engine *engine, double *accuracy);

#endif
