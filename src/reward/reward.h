/*
 * The reward of a step, and the state it keeps.
 *
 * Order of a step: reward_measured after the evaluation, reward_step on the state before the action, reward_executed
 * after the action, reward_ticked after the slots have ticked or were rolled back by the governor. The fields that an
 * env and a slot keep between steps are two lists, so that the world can hold one array per field.
 */
#ifndef REWARD_REWARD_H
#define REWARD_REWARD_H

#include "base/lanes.h"
#include "morph/action.h"
#include "reward/attribution.h"
#include "reward/modes.h"

#define REWARD_SUCCESS_ACCURACY 80.0 /* of an episode */

/* ---- state ------------------------------------------------------------------------------------------------------ */

#define REWARD_STATE_FIELDS(FIELD)                                                                                     \
    FIELD(uint32_t, fossils)      /* successful fossilisations of the episode */                                       \
    FIELD(uint32_t, contributing) /* those that contributed */                                                         \
    FIELD(double, auto_prune)     /* owed for seeds that the governor removed */                                       \
    FIELD(double, hindsight)      /* owed to scaffolds */                                                              \
    FIELD(double, clawback)       /* escrow of seeds removed without a PRUNE */                                        \
    FIELD(double, lead)           /* gain: the lead over the twin that was advanced */                                 \
    FIELD(double, work)           /* training work spent on seeds, in episodes of the bare host */                     \
    FIELD(double, drip_total)     /* the drip that FOSSILIZE was offered in this step, 0: none */                      \
    FIELD(double, drip_scale)

#define REWARD_SLOT_FIELDS(FIELD)                                                                                      \
    FIELD(double, alpha)     /* of the step before, for the shock */                                                   \
    FIELD(uint32_t, params)  /* likewise */                                                                            \
    FIELD(double, credit)    /* escrow */                                                                              \
    FIELD(double, potential) /* last paid for */                                                                       \
    FIELD(double, birth)     /* validation accuracy of the germinating step; NAN: none */                              \
    FIELD(double, drip_scale)                                                                                          \
    FIELD(double, drip_left)

#define REWARD_MEMBER(type, name) type name;
struct reward_state {
    REWARD_STATE_FIELDS(REWARD_MEMBER)
};
struct reward_slot {
    REWARD_SLOT_FIELDS(REWARD_MEMBER)
};
#undef REWARD_MEMBER

/* Scaffolds: the largest boost that slot [i] gave slot [j], and its step (R-08, both rule sets). */
struct reward_pairs {
    double boost[REWARD_SLOTS][REWARD_SLOTS];
    uint32_t boost_step[REWARD_SLOTS][REWARD_SLOTS];
};

/* For the start of an episode. */
#define REWARD_ZERO(type, name) state->name = 0;
ESPER_RULE void reward_state_clear(struct reward_state *state){REWARD_STATE_FIELDS(REWARD_ZERO)}

ESPER_RULE void reward_slot_clear(struct reward_slot *state)
{
    REWARD_SLOT_FIELDS(REWARD_ZERO)
    state->birth = (double)NAN;
}
#undef REWARD_ZERO

ESPER_RULE void reward_pairs_forget(struct reward_pairs *pairs, int from, int to)
{
    pairs->boost[from][to] = 0.0;
    pairs->boost_step[from][to] = 0;
}

ESPER_RULE void reward_pairs_clear(struct reward_pairs *pairs)
{
    for (int i = 0; i < REWARD_SLOTS; i++)
        for (int j = 0; j < REWARD_SLOTS; j++)
            reward_pairs_forget(pairs, i, j);
}

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

struct reward_env {
    int slots, step, steps;        /* t, from 1, and T */
    struct action action;          /* as sampled */
    const struct slot_state *slot; /* [slots] after the step's measurements, before the action */
    const struct subsets *subsets;
    double val_loss, previous_loss;         /* previous: NAN at the first step */
    double val_accuracy, previous_accuracy; /* previous: 0 at the first step */
    double first_accuracy;                  /* val_accuracy of the first step */
    double stable_accuracy;                 /* lowest of the last few (escrow_stable_window) */
    double twin_accuracy;                   /* of the twin at this step; 0 where there is none */
    double price_factor;                    /* of the configuration's price */
    double step_work;                       /* training work of this step's seeds, in episodes of the bare host */
    uint32_t host_params;
    struct gate_rules gates;
};

/* The op that is credited: WAIT where the sampled one cannot be executed on its slot. */
ESPER_RULE int reward_effective_op(const struct reward_env *env)
{
    int slot = env->action.slot;
    return slot < env->slots && action_allowed(&env->slot[slot], &env->action) ? env->action.op : (int)OP_WAIT;
}

ESPER_RULE bool reward_measures(const struct subsets *subsets, int slot)
{
    return (subsets->all >> slot & 1u) != 0;
}

/* One slot: its row, and what the subset table says about it. */
ESPER_RULE struct reward_seed reward_seed_of(const struct reward_config *config, const struct reward_env *env, int j,
                                             int op, double total)
{
    const struct slot_state *slot = &env->slot[j];
    bool measured = reward_measures(env->subsets, j), fossil = slot->stage == STAGE_FOSSILIZED;
    struct reward_seed seed;
    seed.live = stage_is_live(slot->stage);
    seed.leaving = slot_prune_pending(slot);
    seed.fossilizes = op == OP_FOSSILIZE && j == env->action.slot &&
                      gate_check(slot, STAGE_FOSSILIZED, env->gates.permissive).pass;
    seed.stage = slot->stage;
    seed.epochs = (int)slot->epochs_in_stage;
    seed.previous_stage = slot->prev_stage;
    seed.previous_epochs = (int)slot->prev_epochs_in_stage;
    seed.age = (int)slot->epochs_total;
    seed.alpha = seed.live ? (double)slot->alpha : 0.0;
    seed.params = slot_params(slot);
    seed.improvement = slot_improvement(slot);
    seed.interaction = measured ? slot->interaction_sum : 0.0;
    seed.contribution = seed.gain = (double)NAN;
    if (reward_corrected(config) && measured) { /* K is the seed's own share */
        seed.contribution = subset_contribution(env->subsets, j);
        seed.gain = attribution_share(env->subsets, j);
    } else if (!reward_corrected(config)) {
        if (measured && !fossil)
            seed.contribution = subset_contribution(env->subsets, j);
        seed.gain = seed.live ? total : (double)NAN;
    }
    seed.birth = (double)NAN;
    seed.credit = seed.potential = 0.0;
    return seed;
}

/* The change of the loss, higher is worse. R-08: the original had the opposite sign, and infinity at the first step. */
ESPER_RULE double reward_loss_delta(const struct reward_config *config, const struct reward_env *env)
{
    bool first = isnan(env->previous_loss);
    if (reward_corrected(config))
        return first ? 0.0 : env->val_loss - env->previous_loss;
    return first ? (double)INFINITY : env->previous_loss - env->val_loss;
}

/* The committed network: a FOSSILIZE that succeeds at the last step belongs to it (E-19). */
ESPER_RULE void reward_look_committed(const struct reward_env *env, uint32_t fossils, struct reward_scene *scene)
{
    scene->committed_params = 0.0;
    for (int j = 0; j < env->slots; j++) {
        bool late = env->step == env->steps && scene->seed[j].fossilizes;
        fossils |= late && subset_find(env->subsets, fossils | 1u << j) >= 0 ? 1u << j : 0u;
        if (fossils >> j & 1u)
            scene->committed_params += scene->seed[j].params;
    }
    scene->committed_accuracy = subset_score(env->subsets, fossils & env->subsets->all);
}

/* The seeds of a scene, a lane each. */
ESPER_RULE void reward_look_seeds(const struct reward_config *config, const struct reward_env *env,
                                  struct reward_scene *scene, struct lanes lanes)
{
    const int op = reward_effective_op(env);
    double total = (double)NAN;
    if (!reward_corrected(config)) /* which alone pays by it */
        total = attribution_total_of(env->subsets, slots_committed(env->slot, env->slots));
    LANES_EACH (j, env->slots, lanes) {
        scene->seed[j] = reward_seed_of(config, env, j, op, total);
        scene->drip_contribution[j] = reward_measures(env->subsets, j) ? subset_contribution(env->subsets, j)
                                                                       : (double)NAN;
    }
}

/* The other parts of the scene that do not depend on the kept state, in one lane. */
ESPER_RULE void reward_look_env(const struct reward_config *config, const struct reward_env *env,
                                struct reward_scene *scene)
{
    uint32_t fossils = slots_committed(env->slot, env->slots);
    scene->slots = env->slots;
    scene->op = reward_effective_op(env);
    scene->target = env->action.slot < env->slots ? env->action.slot : 0;
    scene->step = env->step;
    scene->steps = env->steps;
    scene->host_params = scene->total_params = env->host_params;
    for (int j = 0; j < env->slots; j++)
        scene->total_params += scene->seed[j].params;
    scene->val_accuracy = env->val_accuracy;
    scene->stable_accuracy = env->stable_accuracy;
    reward_look_committed(env, fossils, scene);
    scene->twin_accuracy = env->twin_accuracy;
    scene->price_factor = env->price_factor;
    scene->work = env->step_work; /* the rest is kept */
    /* what basic pays at the end is the episode's gain, not the last step's */
    scene->accuracy_delta = env->val_accuracy -
                            (reward_corrected(config) ? env->first_accuracy : env->previous_accuracy);
    scene->val_loss = env->val_loss;
    scene->loss_delta = reward_loss_delta(config, env);
}

ESPER_RULE void reward_look(const struct reward_config *config, const struct reward_env *env,
                            struct reward_scene *scene)
{
    reward_look_seeds(config, env, scene, lanes_alone());
    reward_look_env(config, env, scene);
}

/* ---- the reward ------------------------------------------------------------------------------------------------- */

/* Rent and shock. A seed that is gone pays for its last drop of alpha and no rent afterwards. */
ESPER_RULE void reward_weigh(const struct reward_config *config, struct reward_scene *scene, struct reward_slot *slots)
{
    double host = scene->host_params, floor = fmax(host, config->rent_host_params_floor);
    scene->effective_params = scene->shock = 0.0;
    for (int j = 0; j < scene->slots; j++) {
        const struct reward_seed *seed = &scene->seed[j];
        double alpha = seed->live ? seed->alpha : 0.0, params = seed->live ? seed->params : 0.0;
        double change = alpha - slots[j].alpha;
        if (seed->live && stage_is_blended(seed->stage))
            scene->effective_params += config->base_slot_rent_ratio * host + alpha * params;
        if (host > 0 && slots[j].params > 0)
            scene->shock += change * change * slots[j].params / floor;
        slots[j].alpha = alpha;
        slots[j].params = (uint32_t)params;
    }
}

/* Whether a seed occupies its slot. R-08: live seeds; the original also counted the last two stages of a cooldown. */
ESPER_RULE bool reward_occupies(const struct reward_config *config, const struct reward_seed *seed)
{
    bool counted = reward_corrected(config) ? seed->live : seed->stage != STAGE_DORMANT && seed->stage != STAGE_PRUNED;
    return counted && seed->stage != STAGE_FOSSILIZED;
}

/* The rest of the scene: counts, and the kept state. */
ESPER_RULE void reward_recall(const struct reward_config *config, struct reward_scene *scene,
                              const struct reward_state *state, const struct reward_slot *slots)
{
    scene->active = 0;
    scene->fossil_params = 0.0;
    scene->fossils = reward_corrected(config) ? 0 : (int)state->fossils; /* those present now */
    scene->contributing = (int)state->contributing;
    scene->lead = state->lead;
    scene->work += state->work;
    for (int j = 0; j < REWARD_SLOTS; j++) {
        struct reward_seed *seed = &scene->seed[j];
        scene->drip_scale[j] = scene->drip_left[j] = 0.0;
        if (j >= scene->slots)
            continue;
        seed->birth = slots[j].birth;
        seed->credit = slots[j].credit;
        seed->potential = slots[j].potential;
        scene->drip_scale[j] = slots[j].drip_scale;
        scene->drip_left[j] = slots[j].drip_left;
        scene->active += reward_occupies(config, seed) ? 1 : 0;
        if (!seed->live || seed->stage != STAGE_FOSSILIZED)
            continue;
        scene->fossil_params += seed->params;
        scene->fossils += reward_corrected(config) ? 1 : 0;
    }
}

/* Escrow that is lost at the end: that of every seed that is not a fossil. R-07: and does not become one. */
ESPER_RULE double reward_forfeit(const struct reward_config *config, const struct reward_scene *scene,
                                 const struct reward_slot *slots)
{
    double sum = 0.0;
    for (int j = 0; j < scene->slots; j++) {
        const struct reward_seed *seed = &scene->seed[j];
        bool kept = seed->stage == STAGE_FOSSILIZED || (reward_corrected(config) && seed->fossilizes);
        if (seed->stage != STAGE_DORMANT && seed->stage != STAGE_PRUNED && !kept)
            sum -= slots[j].credit;
    }
    return sum;
}

/* The deposits of seeds that never blended, compounded. R-04: there were no deposits. */
ESPER_RULE double reward_germination_clawback(const struct reward_config *config, double gamma,
                                              const struct reward_scene *scene)
{
    double sum = 0.0;
    if (reward_corrected(config) || config->disable_pbrs)
        return sum;
    for (int j = 0; j < scene->slots; j++) {
        int stage = scene->seed[j].stage;
        if (stage == STAGE_GERMINATED || stage == STAGE_TRAINING)
            sum -= config->pbrs_weight * gamma * reward_stage_potential(STAGE_GERMINATED) /
                   pow(gamma, scene->seed[j].age);
    }
    return sum;
}

/* modes that pay the end alone pay nothing else. */
ESPER_RULE bool reward_pays_hindsight(const struct reward_config *config)
{
    bool sparse = config->mode == REWARD_SPARSE || config->mode == REWARD_MINIMAL;
    return config->mode != REWARD_GAIN && !(sparse && reward_corrected(config));
}

/* What is added to the mode's reward, in this order. */
ESPER_RULE void reward_add(const struct reward_config *config, double gamma, const struct reward_scene *scene,
                           struct reward_state *state, const struct reward_slot *slots, double *component)
{
    bool escrow = config->mode == REWARD_ESCROW;
    component[REWARD_ESCROW_FORFEIT] = state->clawback; /* 0 where there is no escrow */
    if (reward_terminal(scene) && escrow)
        component[REWARD_ESCROW_FORFEIT] += reward_forfeit(config, scene, slots);
    if (reward_terminal(scene) && (escrow || config->mode == REWARD_SHAPED))
        component[REWARD_GERMINATION_CLAWBACK] = reward_germination_clawback(config, gamma, scene);
    if (config->mode != REWARD_GAIN) /* nothing but J */
        component[REWARD_AUTO_PRUNE] = state->auto_prune;
    if (reward_pays_hindsight(config))
        component[REWARD_HINDSIGHT] = fmax(state->hindsight, 0.0);
    state->clawback = state->auto_prune = state->hindsight = 0.0;
}

/* Completes a scene whose seeds are filled in: costs, mode, additions; updates the kept state. */
ESPER_RULE double reward_settle(const struct reward_config *config, double gamma, struct reward_scene *scene,
                                struct reward_state *state, struct reward_slot *slots,
                                double component[REWARD_COMPONENT_COUNT], struct reward_trace *trace)
{
    reward_weigh(config, scene, slots);
    reward_recall(config, scene, state, slots);
    reward_mode(config, gamma, scene, component, trace);
    for (int j = 0; j < scene->slots; j++) {
        slots[j].credit = trace->credit[j];
        slots[j].potential = trace->potential[j];
        slots[j].drip_left = trace->drip_left[j];
    }
    state->lead = trace->lead;
    state->work = scene->work;
    state->drip_total = isnan(trace->drip_total) ? 0.0 : trace->drip_total;
    state->drip_scale = isnan(trace->drip_scale) ? 0.0 : trace->drip_scale;
    reward_add(config, gamma, scene, state, slots, component);
    return reward_sum(component);
}

/* The reward of an env's step; the sum of its components. */
ESPER_RULE double reward_step(const struct reward_config *config, double gamma, const struct reward_env *env,
                              struct reward_state *state, struct reward_slot *slots,
                              double component[REWARD_COMPONENT_COUNT])
{
    struct reward_scene scene;
    struct reward_trace trace;
    reward_look(config, env, &scene);
    return reward_settle(config, gamma, &scene, state, slots, component, &trace);
}

/* ---- before and after ------------------------------------------------------------------------------------------- */

/* Scaffold boosts of this step, with two seeds or more; beyond exact tables pairs are not measured. */
ESPER_RULE void reward_measured(int slots, int step, const struct subsets *subsets, struct reward_pairs *pairs)
{
    double value[1 << SUBSETS_EXACT];
    int slot_of[SUBSETS_EXACT];
    if (!attribution_game(subsets, value, slot_of))
        return;
    for (int a = 0; a < subsets->seeds; a++)
        for (int b = 0; b < subsets->seeds; b++) {
            int from = slot_of[a], to = slot_of[b];
            double boost = a == b || from >= slots || to >= slots ? 0.0 : attribution_interaction(value, a, b);
            if (boost > pairs->boost[from][to]) {
                pairs->boost[from][to] = boost;
                pairs->boost_step[from][to] = (uint32_t)step;
            }
        }
}

/* A seed became a fossil: count it, start its drip, credit those that once boosted it. */
ESPER_RULE void reward_fossilized(const struct reward_config *config, double gamma, const struct reward_env *env,
                                  struct reward_state *state, struct reward_slot *slots, struct reward_pairs *pairs)
{
    int j = env->action.slot;
    const struct slot_state *slot = &env->slot[j];
    double gain = slot->acc_current - slot->acc_initial, credit = 0.0;
    if (reward_corrected(config)) /* by what the seed itself contributes, not by the host's drift */
        gain = reward_measures(env->subsets, j) ? subset_contribution(env->subsets, j) : 0.0;
    else
        slots[j].birth = (double)NAN; /* R-03 keeps it: the fossil goes on earning */
    state->fossils++;
    state->contributing += gain >= REWARD_MIN_CONTRIBUTION ? 1 : 0;
    slots[j].drip_scale = state->drip_scale;
    slots[j].drip_left = state->drip_total;
    for (int i = 0; i < env->slots; i++) {
        int delay = env->step - (int)pairs->boost_step[i][j];
        credit += reward_hindsight(pairs->boost[i][j], gain, gamma, delay);
        reward_pairs_forget(pairs, i, j);
    }
    state->hindsight += fmin(credit, REWARD_HINDSIGHT_CAP);
}

/* After the action was executed, or refused. */
ESPER_RULE void reward_executed(const struct reward_config *config, double gamma, const struct reward_env *env,
                                const struct action_result *result, struct reward_state *state,
                                struct reward_slot *slots, struct reward_pairs *pairs)
{
    if (!result->success)
        return;
    if (env->action.op == OP_GERMINATE) {
        slots[env->action.slot].credit = 0.0;
        slots[env->action.slot].birth = env->val_accuracy;
    } else if (env->action.op == OP_FOSSILIZE) {
        reward_fossilized(config, gamma, env, state, slots, pairs);
    }
}

/* After the slots have ticked, or were rolled back. What is gone by then is settled with the next reward. */
ESPER_RULE void reward_ticked(const struct reward_config *config, double gamma, int slots, struct slot_state *slot,
                              struct reward_state *state, struct reward_slot *reward_slots, struct reward_pairs *pairs)
{
    (void)gamma; /* credit is taken back as it was given, undiscounted */
    for (int j = 0; j < slots; j++) {
        if (slot_has(&slot[j], SLOT_AUTO_PRUNED))
            state->auto_prune += config->auto_prune_penalty;
        slot_set(&slot[j], SLOT_AUTO_PRUNED, false);
        if (stage_is_live(slot[j].stage))
            continue;
        if (reward_corrected(config)) /* however it was removed; after a PRUNE no credit is left */
            state->clawback -= reward_slots[j].credit;
        reward_slots[j].credit = 0.0;
        reward_slots[j].birth = (double)NAN;
        for (int i = 0; i < slots; i++) { /* a new seed inherits no boosts */
            reward_pairs_forget(pairs, i, j);
            reward_pairs_forget(pairs, j, i);
        }
    }
}

/* ---- the episode ------------------------------------------------------------------------------------------------ */

struct reward_outcome {
    double reward, stability, param_ratio;
    bool success;
};

/* `recent` are the last rewards, at most 20, in any order; `reward` is the sum of all. */
ESPER_RULE struct reward_outcome reward_outcome_of(double reward, const double *recent, int count, double host_params,
                                                   double added_params, double val_accuracy)
{
    struct reward_outcome outcome = {reward, 1.0, (host_params + added_params) / fmax(1.0, host_params),
                                     val_accuracy >= REWARD_SUCCESS_ACCURACY};
    double mean = 0.0, variance = 0.0;
    for (int k = 0; k < count; k++)
        mean += recent[k] / count;
    for (int k = 0; k < count; k++)
        variance += (recent[k] - mean) * (recent[k] - mean) / count;
    if (count >= 2)
        outcome.stability = 1.0 / (1.0 + variance);
    return outcome;
}

#endif
