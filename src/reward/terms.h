/*
 * The terms of a reward, each a pure function of the scene. Where `reward.rules = esper` departs
 * from the original, the comment cites the rule that says why.
 *
 * Numbers are literals where they are in the original; everything else is configuration.
 */
#ifndef REWARD_TERMS_H
#define REWARD_TERMS_H

#include "morph/action.h"
#include "reward/scene.h"

#define REWARD_MIN_CONTRIBUTION  1.0   /* points: a fossil that contributes */
#define REWARD_MIN_HOLDING       5.0   /* epochs of HOLDING until FOSSILIZE is paid in full */
#define REWARD_MAX_ATTRIBUTION   100.0 /* points: more than any seed can bring */
#define REWARD_HINDSIGHT_WEIGHT  0.1
#define REWARD_HINDSIGHT_CAP     0.2
#define REWARD_SIGNIFICANT_SHARE 0.1  /* a contribution above this with a gain ... */
#define REWARD_RANSOM_GAIN       -0.2 /* ... below this is ransom */

/* ---- potential (R-12) ------------------------------------------------------------------------------------------- */

/* Fossils add the least: attribution and bonus account for their value. */
ESPER_RULE double reward_stage_potential(int stage)
{
    switch (stage) {
    case STAGE_GERMINATED:
        return 1.0;
    case STAGE_TRAINING:
        return 2.0;
    case STAGE_BLENDING:
        return 3.5;
    case STAGE_HOLDING:
        return 5.5;
    case STAGE_FOSSILIZED:
        return 6.0;
    default:
        return 0.0;
    }
}

ESPER_RULE double reward_potential(const struct reward_config *config, int stage, int epochs)
{
    return reward_stage_potential(stage) + fmin(config->epoch_progress_bonus * epochs, config->max_progress_bonus);
}

/* The original's term, without state: only the test vectors ever see what it pays at a change of stage. */
ESPER_RULE double reward_shaping(const struct reward_config *config, double gamma, const struct reward_seed *seed)
{
    double now = reward_potential(config, seed->stage, seed->epochs);
    double before = seed->epochs == 0 ? reward_potential(config, seed->previous_stage, seed->previous_epochs)
                                      : reward_potential(config, seed->stage, seed->epochs - 1);
    return config->pbrs_weight * (gamma * now - before);
}

/* ---- attribution (R-13) ----------------------------------------------------------------------------------------- */

/* Seeds of the first steps would be paid for what the host learns anyway. `birth` is the step of germination. */
ESPER_RULE double reward_timing(const struct reward_config *config, int birth)
{
    double warmup = config->germination_warmup_epochs, floor = config->germination_discount_floor;
    if (config->disable_timing_discount || warmup <= 0 || birth >= warmup)
        return 1.0;
    return floor + (1.0 - floor) * birth / warmup;
}

/* Progress and contribution combined: both must be positive. */
ESPER_RULE double reward_combine(const struct reward_config *config, double a, double b)
{
    if (a <= 0 || b <= 0)
        return 0.0;
    if (config->attribution_formula == ATTRIBUTION_MINIMUM)
        return fmin(a, b);
    return 2.0 * a * b / fmax(a + b, 1e-8);
}

/* Without the seed the network is worse, yet the seeds together add nothing: others have come to depend on it. */
ESPER_RULE double reward_discount(const struct reward_config *config, const struct reward_seed *seed)
{
    if (isnan(seed->contribution) || !seed->live || !(seed->gain < 0))
        return 1.0;
    return 1.0 / (1.0 + exp(fmin(-config->attribution_sigmoid_steepness * seed->gain, 700.0)));
}

ESPER_RULE double reward_ratio_penalty(const struct reward_config *config, const struct reward_seed *seed,
                                       double discount)
{
    double c = seed->contribution, gain = seed->gain, safe = config->improvement_safe_threshold;
    double most = -config->prune_good_seed_penalty, ratio = config->hacking_ratio_threshold;
    if (!seed->live || !(c > 1) || !(discount >= 0.5) || config->disable_anti_gaming)
        return 0.0;
    if (gain > fmax(safe, 1e-8))
        return c / gain > ratio ? -fmin(most, 0.1 * (c / gain - ratio) / ratio) : 0.0;
    return gain <= safe ? -most * fmin(1.0, c / 10.0) : 0.0;
}

/* What a seed is credited with, and the numbers behind it. */
struct reward_worth {
    double attribution, progress, discount, ratio_penalty, timing;
    double credit_target, credit_delta; /* escrow */
};

/* Contribution bounded by progress: half of it while progress is unknown. */
ESPER_RULE double reward_bounded(double contribution, double progress, double combined)
{
    if (isnan(progress))
        return 0.5 * contribution;
    return progress <= 0 ? 0.0 : contribution >= progress ? combined : contribution;
}

/* Before the op is taken into account. */
ESPER_RULE double reward_earned(const struct reward_config *config, const struct reward_scene *scene,
                                const struct reward_seed *seed, struct reward_worth *worth)
{
    double c = seed->contribution, weight = config->contribution_weight;
    bool settled = seed->live && seed->stage == STAGE_FOSSILIZED && !reward_corrected(config);
    if (settled) /* a fossil goes on earning */
        return 0.0;
    if (c < 0)
        return weight * c;
    if (c >= 0) {
        double earned =
            weight * (reward_bounded(c, worth->progress, reward_combine(config, worth->progress, c)) * worth->discount);
        if (!seed->live)
            return earned;
        worth->timing = reward_timing(config, scene->step - seed->age);
        return earned * worth->timing;
    }
    if (seed->live && seed->stage >= STAGE_BLENDING && seed->improvement > 0)
        return config->proxy_confidence_factor * weight * seed->improvement;
    return 0.0;
}

ESPER_RULE struct reward_worth reward_worth_shaped(const struct reward_config *config, const struct reward_scene *scene,
                                                   const struct reward_seed *seed, int op)
{
    bool corrected = reward_corrected(config);
    struct reward_worth worth = {0, scene->val_accuracy - seed->birth, 1, 0, 1, 0, 0};
    worth.discount = reward_discount(config, seed);
    worth.ratio_penalty = reward_ratio_penalty(config, seed, worth.discount);
    double earned = reward_earned(config, scene, seed, &worth);
    if (op == OP_FOSSILIZE && seed->live && seed->gain < 0)
        earned = 0.0;
    if (op == OP_PRUNE) /* removing a harmful seed pays at most the bonus */
        earned = corrected ? fmin(-earned, config->prune_hurting_bonus) : -earned;
    if (corrected || !(seed->live && seed->stage == STAGE_FOSSILIZED)) /* after the change of sign: always a penalty */
        earned += worth.ratio_penalty;
    worth.attribution = corrected ? reward_clip(earned, -REWARD_MAX_ATTRIBUTION, REWARD_MAX_ATTRIBUTION) : earned;
    return worth;
}

/* ---- escrow (R-14) ---------------------------------------------------------------------------------------------- */

ESPER_RULE double reward_escrow_clip(const struct reward_config *config, double delta)
{
    double limit = config->escrow_delta_clip > 0 ? config->escrow_delta_clip : (double)INFINITY;
    if (reward_corrected(config)) /* the clip must act here, or ledger and payments would diverge */
        limit = fmin(limit, REWARD_MAX_ATTRIBUTION);
    return reward_clip(delta, -limit, limit);
}

/* The credit that a contributing seed should have. */
ESPER_RULE double reward_escrow_target(const struct reward_config *config, const struct reward_seed *seed,
                                       const struct reward_worth *worth)
{
    double c = seed->contribution, p = worth->progress;
    /* the mean of shaped; the original kept the geometric one, which host drift inflates */
    double combined = reward_corrected(config) ? reward_combine(config, p, c) : sqrt(p * c);
    return fmax(0.0, config->contribution_weight * reward_bounded(c, p, combined) + worth->ratio_penalty);
}

ESPER_RULE struct reward_worth reward_worth_escrow(const struct reward_config *config, const struct reward_scene *scene,
                                                   const struct reward_seed *seed, int op)
{
    bool corrected = reward_corrected(config);
    double c = seed->contribution, weight = config->contribution_weight;
    struct reward_worth worth = {0, scene->stable_accuracy - seed->birth, 1, 0, 1, 0, 0};
    worth.ratio_penalty = reward_ratio_penalty(config, seed, 1.0);
    if (op == OP_PRUNE) { /* taken back exactly */
        worth.attribution = worth.credit_delta = -seed->credit;
    } else if ((seed->live && seed->stage == STAGE_FOSSILIZED) || (corrected && seed->leaving)) {
        worth.credit_target = seed->credit; /* paid out for good; R-07: frozen once a prune is ordered */
    } else if (c < 0) {
        worth.credit_delta = corrected ? reward_escrow_clip(config, -seed->credit) : -seed->credit; /* */
        worth.attribution = weight * c + worth.credit_delta;
        if (corrected) /* */
            worth.attribution = fmax(worth.attribution, -REWARD_MAX_ATTRIBUTION);
    } else if (c >= 0) {
        worth.credit_target = reward_escrow_target(config, seed, &worth);
        worth.attribution = worth.credit_delta = reward_escrow_clip(config, worth.credit_target - seed->credit);
    }
    if (op == OP_FOSSILIZE && seed->live && seed->gain < 0)
        worth.attribution = 0.0;
    return worth;
}

/* ---- warnings and synergy (R-15) -------------------------------------------------------------------------------- */

ESPER_RULE double reward_blending_warning(const struct reward_seed *seed)
{
    if (!seed->live || seed->stage != STAGE_BLENDING || !(seed->gain < 0))
        return 0.0;
    return -0.1 - fmin(0.05 * seed->epochs, 0.3);
}

/* A seed that earns in HOLDING calls for a decision. */
ESPER_RULE double reward_holding_warning(const struct reward_seed *seed, int op, double attribution)
{
    if (!seed->live || seed->stage != STAGE_HOLDING || op == OP_FOSSILIZE || op == OP_PRUNE || seed->epochs < 2 ||
        !(attribution > 0))
        return 0.0;
    return -fmin(0.1 + 0.05 * fmax(0.0, seed->epochs - 2.0), 0.3);
}

ESPER_RULE double reward_synergy(const struct reward_config *config, const struct reward_seed *seed, int op,
                                 const struct reward_worth *worth)
{
    if (reward_corrected(config) && op == OP_PRUNE) /* */
        return 0.0;
    if (!seed->live || !(worth->discount >= 0.5) || !(worth->attribution > 0) || !(seed->interaction > 0))
        return 0.0;
    return 0.1 * tanh(0.5 * seed->interaction);
}

/* ---- costs (R-10) ----------------------------------------------------------------------------------------------- */

/* Parameters beyond the host's that pay rent. */
ESPER_RULE double reward_added(const struct reward_scene *scene)
{
    return isnan(scene->effective_params) ? fmax(scene->total_params - scene->host_params, 0.0)
                                          : scene->effective_params;
}

ESPER_RULE double reward_rent(const struct reward_config *config, const struct reward_scene *scene)
{
    double added = reward_added(scene), host = scene->host_params;
    if (!(host > 0) || !(added > 0))
        return 0.0;
    return -fmin(config->rent_weight * log(1.0 + added / fmax(host, config->rent_host_params_floor)), config->max_rent);
}

ESPER_RULE double reward_shock(const struct reward_config *config, const struct reward_scene *scene)
{
    if (!(scene->shock > 0) || config->alpha_shock_coef == 0 || config->disable_anti_gaming)
        return 0.0;
    return fmax(-config->alpha_shock_coef * scene->shock, -config->alpha_shock_cap);
}

ESPER_RULE double reward_occupancy(const struct reward_config *config, const struct reward_scene *scene)
{
    return -config->seed_occupancy_cost * fmax(0.0, scene->active + scene->fossils - config->free_slots);
}

/* ---- value of the op (R-16) ------------------------------------------------------------------------------------- */

ESPER_RULE double reward_legitimacy(const struct reward_seed *seed)
{
    return fmin(1.0, seed->epochs / REWARD_MIN_HOLDING);
}

/* Whether the rewards of a fossil may be paid. R-06: only on success, and the gate already says whether it succeeds. */
ESPER_RULE bool reward_fossil_paid(const struct reward_config *config, const struct reward_seed *seed)
{
    return seed->fossilizes || !reward_corrected(config);
}

ESPER_RULE double reward_prune_shaping(const struct reward_config *config, const struct reward_seed *seed)
{
    double c = seed->contribution, age = seed->age;
    if (!seed->live)
        return -0.2;
    if (seed->stage == STAGE_FOSSILIZED)
        return config->prune_fossilized_penalty;
    if (age < PRUNE_MIN_AGE)
        return -0.3 * (PRUNE_MIN_AGE - age);
    if (isnan(c))
        return age < config->early_prune_threshold ? -0.1 : 0.0;
    if (c < config->prune_hurting_threshold)
        return age < config->min_prune_bonus_age ? -0.1 : config->prune_hurting_bonus;
    if (c < 0)
        return config->prune_acceptable_bonus;
    return fmax(config->prune_good_seed_penalty - 0.05 * c, 3.0 * config->prune_good_seed_penalty);
}

ESPER_RULE double reward_fossilize_shaping(const struct reward_config *config, const struct reward_seed *seed)
{
    double c = seed->contribution, gain = seed->gain;
    if (!seed->live || seed->stage != STAGE_HOLDING || isnan(gain))
        return config->invalid_fossilize_penalty;
    if (gain < 0) {
        bool ransom = c > REWARD_SIGNIFICANT_SHARE && gain < REWARD_RANSOM_GAIN;
        return -0.5 - fmin(0.2 * fabs(gain), 1.0) - (ransom ? 0.3 : 0.0);
    }
    if (!(c >= REWARD_MIN_CONTRIBUTION))
        return config->fossilize_noncontributing_penalty;
    double bonus = config->fossilize_base_bonus + config->fossilize_contribution_scale * c;
    return reward_fossil_paid(config, seed) ? bonus * reward_legitimacy(seed) : 0.0;
}

ESPER_RULE double reward_fossilize_now(const struct reward_config *config, const struct reward_seed *seed)
{
    if (seed->stage != STAGE_HOLDING || !(seed->gain >= 0) || !(seed->contribution >= REWARD_MIN_CONTRIBUTION) ||
        config->disable_terminal_reward || !reward_fossil_paid(config, seed))
        return 0.0;
    return config->fossilize_terminal_scale * tanh(1.0 / config->fossilize_quality_ceiling) * reward_legitimacy(seed);
}

/* Paid for GERMINATE into an empty slot. R-04: nothing, the potential of the new seed is paid once it exists. */
ESPER_RULE double reward_deposit(const struct reward_config *config, double gamma, const struct reward_scene *scene)
{
    if (reward_corrected(config) || config->disable_pbrs || scene->step >= scene->steps)
        return 0.0;
    return config->pbrs_weight * gamma * reward_stage_potential(STAGE_GERMINATED) * reward_timing(config, scene->step);
}

ESPER_RULE double reward_action_shaping(const struct reward_config *config, double gamma,
                                        const struct reward_scene *scene)
{
    const struct reward_seed *seed = &scene->seed[scene->target];
    switch (scene->op) {
    case OP_GERMINATE:
        return config->germinate_cost +
               (seed->live ? config->germinate_with_seed_penalty : reward_deposit(config, gamma, scene));
    case OP_SET_ALPHA_TARGET:
        return config->set_alpha_target_cost;
    case OP_ADVANCE:
        return seed->live && seed->stage == STAGE_TRAINING ? config->advance_from_training_penalty : 0.0;
    case OP_PRUNE: {
        bool forfeits = seed->live && !config->disable_pbrs && !reward_corrected(config); /* */
        double potential = forfeits ? reward_potential(config, seed->stage, seed->epochs) : 0.0;
        return -config->pbrs_weight * potential + reward_prune_shaping(config, seed) + config->prune_cost;
    }
    case OP_FOSSILIZE:
        return reward_fossilize_shaping(config, seed) + config->fossilize_cost + reward_fossilize_now(config, seed);
    default:
        return 0.0;
    }
}

/* ---- drip, hindsight (R-19) ------------------------------------------------------------------------------ */

/* What a fossil pays out in a step, by its contribution of that step. */
ESPER_RULE double reward_drip(double scale, double contribution, double most, double negative_ratio)
{
    double x = scale * contribution;
    return x >= 0 ? fmin(x, most) : fmax(x, -negative_ratio * most);
}

/* The share of a fossil's bonus that drips; basic_plus is basic with a drip. */
ESPER_RULE double reward_drip_fraction(const struct reward_config *config)
{
    return config->mode == REWARD_BASIC_PLUS && config->drip_fraction == 0 ? 0.7 : config->drip_fraction;
}

/* What a helper is owed when the seed it once boosted becomes a fossil with a contribution of `gain`. */
ESPER_RULE double reward_hindsight(double boost, double gain, double gamma, int delay)
{
    return boost > 0 && gain > 0 ? REWARD_HINDSIGHT_WEIGHT * tanh(0.1 * boost * gain) * pow(gamma, delay) : 0.0;
}

#endif
