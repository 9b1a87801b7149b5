/*
 * The rule headers as device code. A rule that the device cannot compile is a rule that the two backends could disagree
 * about; this file makes that a build error. Each kernel gives one thread to one slot, image or env.
 */
#include "base/philox.h"
#include "data/augment.h"
#include "data/order.h"
#include "morph/action.h"
#include "morph/subsets.h"

struct step_inputs { /* each [env][slot] */
    const double *accuracy, *contribution;
    const struct gradient_sample *gradient;
    const struct action *action;
    struct seed_size size;
};

__global__ void slots_clear(struct slot_arrays arrays, size_t count)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    struct slot_state slot;
    slot_clear(&slot);
    slot_store(&arrays, i, &slot);
}

/* A whole step: measurements, action, tick, and how the next pass treats the slot. */
__global__ void slots_step(struct slot_arrays arrays, size_t count, struct step_inputs in, struct action_result *result,
                           uint32_t *effects, struct slot_exec *exec, struct life_log *log)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    const struct gate_rules rules = gate_rules_default();
    struct slot_state slot = slot_load(&arrays, i);
    if (stage_is_live(slot.stage)) {
        slot_record_accuracy(&slot, in.accuracy[i]);
        slot_record_gradient(&slot, &in.gradient[i]);
        slot_record_contribution(&slot, in.contribution[i]);
    }
    result[i] = action_apply(&slot, &in.action[i], &rules, in.size, &log[i]);
    effects[i] = result[i].effects | slot_tick(&slot, &rules, &log[i]);
    exec[i] = slot_exec_of(&slot);
    slot_store(&arrays, i, &slot);
}

__global__ void slots_rollback(struct slot_arrays arrays, size_t count, uint32_t *effects)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    struct slot_state slot = slot_load(&arrays, i);
    effects[i] = slot_rollback(&slot, PRUNE_GOVERNOR_NAN, NULL);
    slot_store(&arrays, i, &slot);
}

/* What observation, reward and masks read of a slot. */
__global__ void slots_observe(struct slot_arrays arrays, size_t count, struct action action, float *observed,
                              struct gate_verdict *fossilize)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    struct slot_state slot = slot_load(&arrays, i);
    observed[4 * i] = alpha_velocity(&slot);
    observed[4 * i + 1] = (float)alpha_time_to_target(&slot);
    observed[4 * i + 2] = slot_prune_pending(&slot) ? 1.0f : 0.0f;
    observed[4 * i + 3] = action_allowed(&slot, &action) ? (float)slot_params(&slot) : 0.0f;
    fossilize[i] = gate_check(&slot, STAGE_FOSSILIZED, false);
}

__global__ void random_fill(uint64_t seed, uint32_t env, float *values, uint32_t count)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        values[i] = random_symmetric(random_word(random_at(seed, STREAM_SEED_INIT, 0, env, 0), i), 1.0);
}

/* Which images a batch takes and how it crops them. */
__global__ void batch_plan(uint64_t seed, uint32_t round, uint32_t env, uint32_t step, uint32_t batch, uint32_t images,
                           uint32_t split, bool augment, uint32_t *index, struct crop *crop)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, position = batch * images + i;
    if (i >= images)
        return;
    const struct order order = order_of_pass(seed, round, env, position / split, split);
    index[i] = order_at(&order, position % split);
    crop[i] = augment ? crop_draw(seed, round, env, step, batch, i) : crop_none();
}

/* What an evaluation measures, and afterwards what its counts say about every seed. */
__global__ void subsets_plan_envs(struct subsets *subsets, const uint32_t *blended, const uint32_t *fossils, int envs)
{
    int env = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (env < envs)
        subsets_plan(&subsets[env], blended[env], fossils[env]);
}

__global__ void subsets_read(const struct subsets *subsets, int envs, uint32_t images, double *accuracy,
                             double *contribution, double *interaction)
{
    int env = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (env >= envs)
        return;
    accuracy[env] = subset_accuracy(&subsets[env], subsets[env].all, images);
    for (int j = 0; j < SUBSETS_SLOTS; j++) {
        bool on = (subsets[env].all >> j) & 1u;
        contribution[env * SUBSETS_SLOTS + j] = on ? subset_contribution(&subsets[env], j, images) : 0;
        interaction[env * SUBSETS_SLOTS + j] = on ? subset_interaction(&subsets[env], j, images) : 0;
    }
}
