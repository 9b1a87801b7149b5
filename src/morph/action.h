/*
 * Actions: what a decision does to one slot. Every policy, scripted or learned, acts through these two functions.
 */
#ifndef MORPH_ACTION_H
#define MORPH_ACTION_H

#include "morph/lifecycle.h"

#define PRUNE_MIN_AGE 5u /* epochs a seed is given before it may be pruned */

/* Head indices, in the order of the policy's heads except for the op, which comes first. */
struct action {
    uint8_t op, slot, blueprint, style, tempo, alpha_target, alpha_speed, alpha_curve;
};

/* Parameter counts of the seed to be born, supplied by the engine. */
struct seed_size {
    uint32_t seed_params, gate_params;
};

struct action_result {
    bool allowed;     /* the precondition held */
    bool success;     /* and the action was executed; a gate may refuse it */
    uint32_t effects; /* bits of enum effect */
};

/* The precondition of an action on its slot, including the range of the heads it uses. */
ESPER_RULE bool action_allowed(const struct slot_state *slot, const struct action *action)
{
    bool resting = slot->alpha_mode == ALPHA_HOLD;
    bool ramp_known = action->alpha_speed < ALPHA_SPEED_COUNT && action->alpha_curve < ALPHA_CURVE_COUNT;
    switch (action->op) {
    case OP_WAIT:
        return true;
    case OP_GERMINATE:
        return slot->stage == STAGE_DORMANT && action->blueprint < BLUEPRINT_MAX && action->style < STYLE_COUNT &&
               action->tempo < TEMPO_COUNT && action->alpha_target < ALPHA_TARGET_COUNT;
    case OP_SET_ALPHA_TARGET:
        return (slot->stage == STAGE_BLENDING || slot->stage == STAGE_HOLDING) && resting && ramp_known &&
               action->style < STYLE_COUNT && action->alpha_target < ALPHA_TARGET_COUNT;
    case OP_PRUNE:
        return stage_may_follow(slot->stage, STAGE_PRUNED) && resting && slot->epochs_total >= PRUNE_MIN_AGE &&
               ramp_known;
    case OP_FOSSILIZE:
        return slot->stage == STAGE_HOLDING;
    case OP_ADVANCE:
        return stage_advance_target(slot->stage) != STAGE_UNKNOWN;
    default:
        return false;
    }
}

ESPER_RULE uint32_t action_germinate(struct slot_state *slot, const struct action *action, struct seed_size size,
                                     struct life_log *log)
{
    slot_transition(slot, STAGE_GERMINATED, log);
    slot->germinations++;
    slot->blueprint = action->blueprint;
    slot->style = action->style;
    slot->algorithm = style_algorithm(action->style);
    slot->tempo = tempo_steps(action->tempo);
    slot->blend_target = alpha_target_value(action->alpha_target);
    slot->alpha_curve = CURVE_LINEAR;
    slot->steepness = STEEPNESS_DEFAULT;
    slot->seed_params = size.seed_params;
    slot->gate_params = size.gate_params;
    life_log_add(log, LIFE_GERMINATED, STAGE_DORMANT, STAGE_GERMINATED, PRUNE_NONE, NULL);
    return EFFECT_INIT_SEED;
}

ESPER_RULE void action_ramp(struct slot_state *slot, const struct action *action, float target)
{
    struct curve_choice choice = alpha_curve_choice(action->alpha_curve);
    alpha_retarget(slot, target, alpha_speed_steps(action->alpha_speed), choice.curve, choice.steepness);
    slot_set(slot, SLOT_FROZEN, slot->alpha_mode == ALPHA_DOWN);
}

/* Only the operator of the style is used; the curve has its own head. */
ESPER_RULE uint32_t action_set_alpha_target(struct slot_state *slot, const struct action *action, struct life_log *log)
{
    float target = alpha_target_value(action->alpha_target);
    if (slot->stage == STAGE_HOLDING && target < ALPHA_FULL)
        slot_transition(slot, STAGE_BLENDING, log);
    bool had_gate = slot_has_gate(slot);
    slot->algorithm = style_algorithm(action->style);
    action_ramp(slot, action, target);
    return slot_has_gate(slot) && !had_gate ? EFFECT_INIT_GATE : 0;
}

/* A seed that is mixed in fades out first; the tick that reaches 0 removes it (I-45). */
ESPER_RULE uint32_t action_prune(struct slot_state *slot, const struct action *action, struct life_log *log)
{
    uint32_t effects = 0;
    if (slot->alpha <= 0.0f || alpha_speed_steps(action->alpha_speed) == 0) {
        slot_prune(slot, PRUNE_POLICY, log, &effects);
        return effects;
    }
    if (slot->stage == STAGE_HOLDING)
        slot_transition(slot, STAGE_BLENDING, log);
    action_ramp(slot, action, 0.0f);
    slot->prune_reason = PRUNE_POLICY;
    return effects;
}

/* Apply the action to its slot. `size` is read by GERMINATE only; `log` may be NULL. */
ESPER_RULE struct action_result action_apply(struct slot_state *slot, const struct action *action,
                                             const struct gate_rules *rules, struct seed_size size,
                                             struct life_log *log)
{
    struct action_result result = {action_allowed(slot, action), false, 0};
    if (!result.allowed)
        return result;
    result.success = true;
    switch (action->op) {
    case OP_GERMINATE:
        result.effects = action_germinate(slot, action, size, log);
        break;
    case OP_SET_ALPHA_TARGET:
        result.effects = action_set_alpha_target(slot, action, log);
        break;
    case OP_PRUNE:
        result.effects = action_prune(slot, action, log);
        break;
    case OP_FOSSILIZE:
        result.success = slot_advance(slot, STAGE_FOSSILIZED, rules, log, &result.effects);
        break;
    case OP_ADVANCE:
        result.success = slot_advance(slot, stage_advance_target(slot->stage), rules, log, &result.effects);
        break;
    default:
        break;
    }
    return result;
}

#endif
