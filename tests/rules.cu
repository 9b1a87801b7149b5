/*
 * The rule headers as device code. A rule that the device cannot compile is a rule that the two backends could disagree
 * about; this file makes that a build error. Each kernel gives one thread to one slot, image or env.
 */
#include "base/philox.h"
#include "data/augment.h"
#include "data/order.h"
#include "learn/gae.h"
#include "learn/loss.h"
#include "learn/normalise.h"
#include "morph/action.h"
#include "morph/governor.h"
#include "morph/subsets.h"
#include "policy/heuristic.h"
#include "policy/observe.h"
#include "policy/uniform.h"
#include "reward/reward.h"

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

/* What an env sees, what it may do, and what the policies without a network do. One thread per env. */
struct decision_state {
    struct tracker *tracker;
    struct governor *governor;
    struct heuristic *heuristic;
    struct env_memory *env_memory;
    struct slot_memory *slot_memory;
    const struct slot_state *slot;
};

__global__ void envs_decide(struct decision_state state, int envs, int slots, int step, struct governor_config governor,
                            const double *val_loss, const double *val_accuracy, float *obs, int8_t *bp, uint64_t *mask,
                            struct action *planned, struct action *drawn, int *verdict)
{
    int env = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (env >= envs)
        return;
    const struct slot_state *slot = state.slot + env * slots;
    struct slot_memory *memory = state.slot_memory + env * slots;
    if (step == 1) {
        tracker_clear(&state.tracker[env]);
        governor_clear(&state.governor[env]);
        heuristic_clear(&state.heuristic[env]);
        env_memory_clear(&state.env_memory[env]);
    }
    verdict[env] = governor_verdict(&state.governor[env], &governor, 10, val_loss[env]);
    if (verdict[env] != PRUNE_NONE || !governor_may_snapshot(&state.governor[env])) {
        observe_rolled_back(&state.env_memory[env]);
        return;
    }
    tracker_update(&state.tracker[env], val_loss[env], val_accuracy[env]);
    for (int s = 0; s < slots; s++)
        observe_measured(&memory[s], slot[s].alpha > 0.0f);
    struct observe_env seen = {
        step, 150, val_loss[env], val_accuracy[env], &state.tracker[env], &state.env_memory[env]};
    observe(&seen, slot, memory, slots, obs + env * observe_size(slots), bp + env * slots);
    struct masks masks = masks_of_slots(slot, slots, 0, true);
    planned[env] = heuristic_decide(&state.heuristic[env], &state.tracker[env], step, slot, slots, &masks);
    drawn[env] = uniform_decide(&masks, slots, random_at(42, STREAM_RANDOM_POLICY, 0, (uint32_t)env, (uint32_t)step));
    mask[env] = mask_effective(mask_of_op(&masks, slots, drawn[env].op), slots, drawn[env].op);
    observe_executed(&state.env_memory[env], memory, slot, slots, drawn[env].op, true);
}

/* The reward of a step, its aftermath and the episode's end; one thread per env. */
__global__ void rewards_step(const struct reward_config *config, double gamma, const struct reward_env *envs, int count,
                             const struct action_result *result, struct slot_state *slots, struct reward_state *state,
                             struct reward_slot *kept, struct reward_pairs *pairs, double *component, double *reward)
{
    int env = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (env >= count)
        return;
    const struct reward_env *at = &envs[env];
    reward_measured(at->slots, at->step, at->subsets, at->val_images, &pairs[env]);
    reward[env] = reward_step(config, gamma, at, &state[env], &kept[env * REWARD_SLOTS],
                              &component[env * REWARD_COMPONENT_COUNT]);
    reward_executed(config, gamma, at, &result[env], &state[env], &kept[env * REWARD_SLOTS], &pairs[env]);
    reward_ticked(config, gamma, at->slots, &slots[env * REWARD_SLOTS], &state[env], &kept[env * REWARD_SLOTS],
                  &pairs[env]);
}

__global__ void rewards_clear(struct reward_state *state, struct reward_slot *kept, struct reward_pairs *pairs)
{
    reward_state_clear(&state[threadIdx.x]);
    reward_slot_clear(&kept[threadIdx.x]);
    reward_pairs_clear(&pairs[threadIdx.x]);
}

__global__ void outcomes(const double *recent, struct reward_outcome *outcome, struct shapley_plan *plan, uint64_t seed,
                         uint32_t images, struct shapley_sums *sums)
{
    *outcome = reward_outcome(0, recent, 20, 398, 100, 50);
    shapley_plan_draw(plan, 0x3F, random_at(seed, STREAM_SHAPLEY, 0, threadIdx.x, 40));
    shapley_estimate(plan, images, sums);
}

/* ---- the learner: one thread per env, then one per row -------------------------------------------------------- */

__global__ void decisions_draw(const struct masks *masks, const float *logits, uint64_t seed, uint32_t round,
                               uint32_t step, int envs, int slots, struct loss_rules rules, struct decision *decision)
{
    int env = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (env < envs)
        policy_sample(&masks[env], slots, rules.floor, logits + (size_t)env * HEAD_MAX_LOGITS,
                      random_at(seed, STREAM_ACTION, round, (uint32_t)env, step), false, &decision[env]);
}

__global__ void advantages_estimate(struct gae_rates rates, struct gae_rows rows, int steps, int envs,
                                    struct moments *returns)
{
    int env = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (env >= envs)
        return;
    struct gae_rows own = {rows.flags + env,     rows.reward + env,  rows.value + env,   rows.bootstrap + env,
                           rows.advantage + env, rows.returns + env, rows.td_error + env};
    gae_estimate(&rates, &own, steps, envs);
    returns[env].count = returns[env].mean = returns[env].m2 = 0;
    for (int step = 0; step < steps; step++)
        if (own.flags[step * envs] & ROW_VALID)
            moments_add(&returns[env], (double)own.returns[step * envs]);
}

__global__ void units_update(struct moments *returns, int envs, uint32_t update, struct value_units *units, float *bias)
{
    struct moments all = returns[0];
    for (int env = 1; env < envs; env++)
        all = moments_merge(all, returns[env]);
    struct value_units after = value_units_update(*units, update, all);
    *bias = value_rewrite_weight(*units, after, value_rewrite_bias(*units, after, *bias));
    *units = after;
}

__global__ void loss_rows(struct loss_rules rules, struct loss_counts counts, const struct loss_row *row, int rows,
                          const float *logits, const float *value, const float *ref, struct loss_view *view,
                          struct loss_totals *totals, float *dlogits, float *dvalue)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    size_t at = (size_t)i * HEAD_MAX_LOGITS;
    if (i >= rows)
        return;
    loss_look(&rules, &row[i], logits + at, &view[i]);
    loss_add(&totals[i], &rules, &row[i], &view[i], ref + (size_t)i * HEAD_COUNT, value[i]);
    loss_backward(&rules, &counts, &row[i], logits + at, value[i], ref + (size_t)i * HEAD_COUNT, dlogits + at,
                  &dvalue[i]);
}
