/*
 * The modes: which terms a reward is made of. reward_mode is pure: it reads configuration and scene
 * and writes components and trace, nothing else.
 *
 * Under the original rules every dense term considers the target slot alone. R-01: attribution, warnings, synergy,
 * shaping and escrow run over all live slots, one that is not the target being treated as under WAIT.
 */
#ifndef REWARD_MODES_H
#define REWARD_MODES_H

#include "reward/terms.h"

/* ---- shaping ---------------------------------------------------------------------------------------------------- */

/* The current potential of a slot. R-04: zero without a live seed, and at the end. */
ESPER_RULE double reward_slot_potential(const struct reward_config *config, const struct reward_scene *scene, int slot)
{
    const struct reward_seed *seed = &scene->seed[slot];
    if (!seed->live || reward_terminal(scene))
        return 0.0;
    return config->mode == REWARD_LOSS ? reward_stage_potential(seed->stage) /* likewise by state */
                                       : reward_potential(config, seed->stage, seed->epochs);
}

/* one term per slot, relative to the potential last paid for; it telescopes whatever happens in between. */
ESPER_RULE double reward_shaping_all(const struct reward_config *config, double gamma, const struct reward_scene *scene,
                                     struct reward_trace *trace)
{
    double sum = 0.0, weight = config->mode == REWARD_LOSS ? config->stage_potential_weight : config->pbrs_weight;
    for (int j = 0; j < scene->slots; j++) {
        trace->potential[j] = reward_slot_potential(config, scene, j);
        sum += weight * (gamma * trace->potential[j] - scene->seed[j].potential);
    }
    return config->disable_pbrs ? 0.0 : sum;
}

ESPER_RULE double reward_pbrs(const struct reward_config *config, double gamma, const struct reward_scene *scene,
                              struct reward_trace *trace)
{
    const struct reward_seed *seed = &scene->seed[scene->target];
    if (reward_corrected(config))
        return reward_shaping_all(config, gamma, scene, trace);
    return seed->live && !config->disable_pbrs ? reward_shaping(config, gamma, seed) : 0.0;
}

/* ---- shaped and escrow ------------------------------------------------------------------------------------------ */

ESPER_RULE uint32_t reward_alarms(const struct reward_seed *seed, const struct reward_worth *worth)
{
    double c = seed->contribution, gain = seed->gain;
    uint32_t alarms = gain > 0 && worth->ratio_penalty != 0 && c / gain >= 5 ? ALARM_ATTRIBUTION_RATIO : 0;
    return alarms | (c > REWARD_SIGNIFICANT_SHARE && gain < REWARD_RANSOM_GAIN ? ALARM_RANSOMWARE : 0);
}

/* The dense terms of one slot. */
ESPER_RULE void reward_slot_terms(const struct reward_config *config, const struct reward_scene *scene, int slot,
                                  double *component, struct reward_trace *trace)
{
    const struct reward_seed *seed = &scene->seed[slot];
    int op = slot == scene->target ? scene->op : OP_WAIT;
    struct reward_worth worth = config->mode == REWARD_ESCROW ? reward_worth_escrow(config, scene, seed, op)
                                                              : reward_worth_shaped(config, scene, seed, op);
    component[REWARD_ATTRIBUTION] += worth.attribution;
    component[REWARD_BLENDING_WARNING] += reward_blending_warning(seed);
    component[REWARD_HOLDING_WARNING] += reward_holding_warning(seed, op, worth.attribution);
    component[REWARD_SYNERGY] += reward_synergy(config, seed, op, &worth);
    if (config->mode == REWARD_ESCROW)
        trace->credit[slot] = seed->credit + worth.credit_delta;
    if (slot != scene->target)
        return;
    trace->progress = worth.progress;
    trace->discount = worth.discount;
    trace->ratio_penalty = worth.ratio_penalty;
    trace->timing = worth.timing;
    trace->credit_target = worth.credit_target;
    trace->credit_delta = worth.credit_delta;
    trace->alarms = reward_alarms(seed, &worth);
}

ESPER_RULE void reward_mode_shaped(const struct reward_config *config, double gamma, const struct reward_scene *scene,
                                   double *component, struct reward_trace *trace)
{
    for (int j = 0; j < scene->slots; j++)
        if (j == scene->target || (reward_corrected(config) && scene->seed[j].live)) /* */
            reward_slot_terms(config, scene, j, component, trace);
    component[REWARD_PBRS] = reward_pbrs(config, gamma, scene, trace);
    component[REWARD_RENT] = reward_rent(config, scene);
    component[REWARD_ALPHA_SHOCK] = reward_shock(config, scene);
    component[REWARD_OCCUPANCY_RENT] = reward_occupancy(config, scene);
    component[REWARD_FOSSILIZED_RENT] = -config->fossilized_maintenance_cost * scene->fossils;
    component[REWARD_ACTION_SHAPING] = reward_action_shaping(config, gamma, scene);
    if (reward_terminal(scene) && !config->disable_terminal_reward)
        component[REWARD_TERMINAL] = config->terminal_acc_weight * scene->val_accuracy;
}

/* ---- basic and basic_plus --------------------------------------------------------------------------------------- */

/* Split the bonus of a fossil: a part now, the rest as the drip that the trace offers. */
ESPER_RULE double reward_basic_bonus(const struct reward_config *config, const struct reward_scene *scene,
                                     struct reward_trace *trace)
{
    const struct reward_seed *seed = &scene->seed[scene->target];
    double fraction = reward_drip_fraction(config);
    double full = (config->basic_fossilize_base_bonus +
                   config->basic_contribution_scale * reward_combine(config, seed->gain, seed->contribution)) *
                  reward_legitimacy(seed);
    if (!reward_fossil_paid(config, seed))
        return 0.0;
    if (!(fraction > 0))
        return full;
    trace->drip_total = full * fraction;
    trace->drip_scale = trace->drip_total / fmax((double)(scene->steps - scene->step), config->min_drip_epochs);
    return full * (1.0 - fraction);
}

ESPER_RULE double reward_basic_fossilize(const struct reward_config *config, const struct reward_scene *scene,
                                         struct reward_trace *trace)
{
    const struct reward_seed *seed = &scene->seed[scene->target];
    double gain = isnan(seed->gain) ? 0.0 : seed->gain;
    if (scene->op != OP_FOSSILIZE || !seed->live)
        return 0.0;
    if (seed->stage != STAGE_HOLDING)
        return config->basic_fossilize_invalid_penalty;
    if (gain > 0 && seed->contribution >= REWARD_MIN_CONTRIBUTION)
        return reward_basic_bonus(config, scene, trace);
    return gain <= 0 && seed->contribution > REWARD_SIGNIFICANT_SHARE ? config->basic_fossilize_invalid_penalty
                                                                      : config->basic_fossilize_noncontributing_penalty;
}

ESPER_RULE double reward_drips(const struct reward_config *config, const struct reward_scene *scene,
                               struct reward_trace *trace)
{
    double sum = 0.0;
    for (int j = 0; j < REWARD_SLOTS; j++) {
        if (scene->drip_scale[j] == 0 || isnan(scene->drip_contribution[j]))
            continue;
        double paid = reward_drip(scene->drip_scale[j], scene->drip_contribution[j], config->max_drip_per_epoch,
                                  config->negative_drip_ratio);
        if (reward_corrected(config)) { /* it ends when its pool is paid out, in either direction */
            paid = reward_clip(paid, -scene->drip_left[j], scene->drip_left[j]);
            trace->drip_left[j] = scene->drip_left[j] - fabs(paid);
        }
        sum += paid;
    }
    return sum;
}

ESPER_RULE void reward_mode_basic(const struct reward_config *config, double gamma, const struct reward_scene *scene,
                                  double *component, struct reward_trace *trace)
{
    const struct reward_seed *seed = &scene->seed[scene->target];
    bool forfeits = scene->op == OP_PRUNE && seed->live && !config->disable_pbrs && !reward_corrected(config);
    component[REWARD_PBRS] = forfeits ? -config->pbrs_weight * reward_potential(config, seed->stage, seed->epochs)
                                      : reward_pbrs(config, gamma, scene, trace);
    component[REWARD_RENT] = -config->param_penalty_weight * reward_added(scene) / config->param_budget;
    component[REWARD_FOSSILIZE_BONUS] = reward_basic_fossilize(config, scene, trace);
    if (reward_terminal(scene))
        component[REWARD_TERMINAL] = config->basic_acc_delta_weight * scene->accuracy_delta / 100.0;
    component[REWARD_DRIP] = reward_drips(config, scene, trace);
}

/* ---- simplified, sparse, minimal -------------------------------------------------------------------------------- */

ESPER_RULE void reward_mode_simplified(const struct reward_config *config, double gamma,
                                       const struct reward_scene *scene, double *component, struct reward_trace *trace)
{
    component[REWARD_PBRS] = reward_pbrs(config, gamma, scene, trace);
    component[REWARD_ACTION_SHAPING] = scene->op != OP_WAIT ? -0.01 : 0.0;
    if (reward_terminal(scene) && !config->disable_terminal_reward) {
        component[REWARD_TERMINAL] = 3.0 * scene->val_accuracy / 100.0;
        component[REWARD_TERMINAL_FOSSIL] = 2.0 * scene->contributing;
    }
}

ESPER_RULE void reward_mode_sparse(const struct reward_config *config, const struct reward_scene *scene,
                                   double *component)
{
    double params = reward_corrected(config) ? scene->committed_params : scene->fossil_params; /* */
    double spent = config->param_penalty_weight * params / config->param_budget;
    if (reward_terminal(scene))
        component[REWARD_TERMINAL] = config->sparse_reward_scale *
                                     reward_clip(scene->committed_accuracy / 100.0 - spent, -1.0, 1.0);
}

ESPER_RULE void reward_mode_minimal(const struct reward_config *config, const struct reward_scene *scene,
                                    double *component)
{
    const struct reward_seed *seed = &scene->seed[scene->target];
    reward_mode_sparse(config, scene, component);
    if (scene->op == OP_PRUNE && seed->live && seed->age < config->early_prune_threshold)
        component[REWARD_ACTION_SHAPING] = config->early_prune_penalty;
}

/* ---- loss ------------------------------------------------------------------------------------------------------- */

ESPER_RULE void reward_mode_loss(const struct reward_config *config, double gamma, const struct reward_scene *scene,
                                 double *component, struct reward_trace *trace)
{
    const struct reward_seed *seed = &scene->seed[scene->target];
    double host = scene->host_params, total = scene->total_params;
    double x = reward_clip(scene->loss_delta / config->typical_loss_delta_std, -config->max_loss_delta,
                           config->max_loss_delta);
    if (x > 0)
        x *= config->regression_penalty_scale;
    component[REWARD_LOSS_DELTA] = -config->loss_delta_weight * x;
    if (host > 0 && total > host && !(seed->live && seed->age < config->grace_epochs))
        component[REWARD_RENT] =
            -fmin(config->compute_rent_weight * log(1.0 + (total - host) / host), config->max_rent_penalty);
    if (reward_corrected(config))
        component[REWARD_PBRS] = reward_shaping_all(config, gamma, scene, trace);
    else if (seed->live)
        component[REWARD_PBRS] = config->stage_potential_weight * (gamma * reward_stage_potential(seed->stage) -
                                                                   reward_stage_potential(seed->previous_stage));
    if (reward_terminal(scene)) {
        double range = config->baseline_loss - config->target_loss;
        component[REWARD_TERMINAL] =
            config->terminal_loss_weight *
            reward_clip((config->baseline_loss - scene->val_loss) / (range == 0 ? 1.0 : range), 0.0, 1.0);
    }
}

/* ---- gain ------------------------------------------------------------------------------------------------------- */

/* What so many parameters of seeds cost, and the work spent on all, in points. */
ESPER_RULE double reward_price(const struct reward_config *config, const struct reward_scene *scene, double params)
{
    return scene->price_factor * config->price * params / 1000.0 + config->flop_price * scene->work;
}

/*
 * J = committed score - the twin's - price, paid at the end. Before it the lead over the twin is advanced as it
 * changes, so that an action is paid soon; nothing of it is left at the end, so an episode's rewards sum to J.
 */
ESPER_RULE void reward_mode_gain(const struct reward_config *config, const struct reward_scene *scene,
                                 double *component, struct reward_trace *trace)
{
    bool last = reward_terminal(scene);
    trace->lead = last ? 0.0 : config->potential * (scene->val_accuracy - scene->twin_accuracy);
    component[REWARD_PBRS] = trace->lead - scene->lead;
    if (!last)
        return;
    component[REWARD_TERMINAL] = scene->committed_accuracy - scene->twin_accuracy;
    component[REWARD_RENT] = -reward_price(config, scene, scene->committed_params);
}

/* ---- any -------------------------------------------------------------------------------------------------------- */

ESPER_RULE void reward_trace_begin(const struct reward_config *config, const struct reward_scene *scene,
                                   struct reward_trace *trace)
{
    for (int j = 0; j < REWARD_SLOTS; j++) {
        bool there = j < scene->slots;
        trace->credit[j] = there ? scene->seed[j].credit : 0.0;
        trace->potential[j] = there ? scene->seed[j].potential : 0.0;
        trace->drip_left[j] = scene->drip_left[j];
    }
    trace->drip_total = trace->drip_scale = (double)NAN;
    trace->lead = scene->lead;
    trace->progress = (double)NAN;
    trace->discount = trace->timing = 1.0;
    trace->ratio_penalty = trace->credit_target = trace->credit_delta = 0.0;
    trace->growth_ratio =
        scene->host_params > 0 ? reward_added(scene) / fmax(scene->host_params, config->rent_host_params_floor) : 0.0;
    trace->alarms = 0;
}

ESPER_RULE double reward_sum(const double *component)
{
    double sum = 0.0;
    for (int k = 0; k < REWARD_COMPONENT_COUNT; k++)
        sum += component[k];
    return sum;
}

ESPER_RULE double reward_mode(const struct reward_config *config, double gamma, const struct reward_scene *scene,
                              double component[REWARD_COMPONENT_COUNT], struct reward_trace *trace)
{
    for (int k = 0; k < REWARD_COMPONENT_COUNT; k++)
        component[k] = 0.0;
    reward_trace_begin(config, scene, trace);
    switch (config->mode) {
    case REWARD_SHAPED:
    case REWARD_ESCROW:
        reward_mode_shaped(config, gamma, scene, component, trace);
        break;
    case REWARD_BASIC:
    case REWARD_BASIC_PLUS:
        reward_mode_basic(config, gamma, scene, component, trace);
        break;
    case REWARD_SIMPLIFIED:
        reward_mode_simplified(config, gamma, scene, component, trace);
        break;
    case REWARD_SPARSE:
        reward_mode_sparse(config, scene, component);
        break;
    case REWARD_MINIMAL:
        reward_mode_minimal(config, scene, component);
        break;
    case REWARD_LOSS:
        reward_mode_loss(config, gamma, scene, component, trace);
        break;
    case REWARD_GAIN:
        reward_mode_gain(config, scene, component, trace);
        break;
    }
    return reward_sum(component);
}

#endif
