/*
 * The rules of a step on the device: a warp per env runs the functions that the CPU runs (books.h, pick.h, turn.h,
 * fresh.h), spread over its lanes (base/lanes.h), then many threads execute their orders (orders.h). Every function
 * enqueues and returns.
 */
#ifndef ENGINE_STEP_CUH
#define ENGINE_STEP_CUH

#include "engine/mirror.cuh"

extern "C" {
#include "engine/step.h"
}

struct step_device;

/* `grads` [env][slot], `logits` [env][logits] and `values` [env] are device memory that the networks write. The mirror
 * must outlive the step. NULL after an error. */
struct step_device *step_device_create(const struct mirror *mirror, const struct device_setup *setup,
                                       const struct slot_grads *grads, const float *logits, const float *values);
void step_device_free(struct step_device *device);

/* Fresh episodes of the round and an empty rollout. */
void step_reset(struct step_device *device);
/* The governor, the bookkeeping, the observations and masks of the step: the input of the policy's network. */
void step_observe(struct step_device *device);
/* After an evaluation, where more than SUBSETS_EXACT seeds are possible: the coalitions to measure ... */
struct net_sets step_plan_shares(struct step_device *device);
/* ... and the shares that follow from them, for the step's reports. */
void step_estimate_shares(struct step_device *device);
/* Instead of a decision, where the twins are played: keep what the step measured, and go on to the next. */
void step_twin(struct step_device *device);
/* Every env's action, from logits and values or as another kind of policy decides. */
void step_choose(struct step_device *device);
/* Instead of that, what was decided outside and put there, [env]. */
struct action *step_given(struct step_device *device);
void step_act(struct step_device *device);
/* Turns, orders, scaled rewards, reports; ends the step. */
void step_apply(struct step_device *device);

/* Device memory, [env]: the reports of the last step_apply. */
const struct step_report *step_reports(const struct step_device *device);
/* The step's arrays in device memory, for the phases that fill some of them and for tests. */
const struct step *step_arrays(const struct step_device *device);

#endif
