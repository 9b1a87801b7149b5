/*
 * The life of a seed: transitions, what entering a stage does, the measurements of a step, and the tick that ends it.
 *
 * The rules change the row only. What they request from the engine (initialise, zero momentum, snapshot) they return as
 * effects; what they did they write to a log, if given one. The log never decides anything.
 */
#ifndef MORPH_LIFECYCLE_H
#define MORPH_LIFECYCLE_H

#include "morph/gates.h"

#define COOLDOWN_EMBARGO 5u /* epochs */
#define COOLDOWN_RESET   1u

/* What the engine must do after a rule has run. */
enum effect {
    EFFECT_INIT_SEED = 1u << 0,     /* a seed was born: initialise its parameters, zero its momentum */
    EFFECT_INIT_GATE = 1u << 1,     /* a gate net was born: initialise it, zero its momentum (D-04) */
    EFFECT_ZERO_MOMENTUM = 1u << 2, /* of seed and gate */
    EFFECT_SNAPSHOT = 1u << 3,      /* a fossil must be in the governor's snapshot from its first moment (D-06) */
    EFFECT_DROPPED = 1u << 4        /* the seed is gone; its parameters are never read again */
};

/* ---- log ------------------------------------------------------------------------------------------------------- */

enum life_type { LIFE_GERMINATED, LIFE_GATE_EVALUATED, LIFE_STAGE_CHANGED, LIFE_FOSSILIZED, LIFE_PRUNED };

struct life_event {
    uint8_t type, from, to;      /* GATE_EVALUATED: `to` is the requested stage */
    uint8_t reason;              /* PRUNED: prune_reason, which also says what ordered it */
    struct gate_verdict verdict; /* GATE_EVALUATED */
};

/* An action and a tick together write at most 5 events. */
struct life_log {
    int count;
    struct life_event event[8];
};

ESPER_RULE void life_log_add(struct life_log *log, int type, int from, int to, int reason,
                             const struct gate_verdict *verdict)
{
    if (!log || log->count >= (int)(sizeof log->event / sizeof log->event[0]))
        return;
    struct gate_verdict none = {GATE_NONE, false, 0, 0.0};
    struct life_event event = {(uint8_t)type, (uint8_t)from, (uint8_t)to, (uint8_t)reason, verdict ? *verdict : none};
    log->event[log->count++] = event;
}

/* ---- transitions ----------------------------------------------------------------------------------------------- */

/* The only place where a stage changes (I-41, I-46). */
ESPER_RULE bool slot_transition(struct slot_state *slot, int to, struct life_log *log)
{
    if (!stage_may_follow(slot->stage, to))
        return false;
    life_log_add(log, LIFE_STAGE_CHANGED, slot->stage, to, PRUNE_NONE, NULL);
    slot->prev_stage = slot->stage;
    slot->prev_epochs_in_stage = slot->epochs_in_stage;
    slot->stage = (uint8_t)to;
    slot->acc_stage_start = slot->acc_current;
    slot->epochs_in_stage = 0;
    return true;
}

/* TRAINING -> BLENDING: the ramp chosen at germination starts. The tick of the same step takes its first step (D-09).
 */
ESPER_RULE uint32_t slot_start_blending(struct slot_state *slot)
{
    slot->acc_blend_start = slot->acc_current;
    slot_set(slot, SLOT_BLENDING_STARTED, true);
    alpha_retarget(slot, slot->blend_target, slot->tempo, style_curve(slot->style), STEEPNESS_DEFAULT);
    return slot->algorithm == ALGORITHM_GATE ? EFFECT_INIT_GATE : 0;
}

/* BLENDING -> HOLDING: from here on alpha is exactly 1. */
ESPER_RULE void slot_start_holding(struct slot_state *slot)
{
    slot->alpha = slot->alpha_start = slot->alpha_target = 1.0f;
    slot->alpha_mode = ALPHA_HOLD;
    slot->steps_done = slot->steps_total;
}

/* Evaluate the gate of `target` and, if it passes, go there. This is how a seed in HOLDING becomes a fossil. */
ESPER_RULE bool slot_advance(struct slot_state *slot, int target, const struct gate_rules *rules, struct life_log *log,
                             uint32_t *effects)
{
    if (!stage_is_live(slot->stage))
        return false;
    int from = slot->stage;
    struct gate_verdict verdict = gate_check(slot, target, rules->permissive);
    if (!stage_may_follow(from, target)) {
        verdict.pass = false;
        verdict.failed |= GATE_FAILED_TRANSITION;
    }
    life_log_add(log, LIFE_GATE_EVALUATED, from, target, PRUNE_NONE, &verdict);
    if (!verdict.pass)
        return false;
    slot_transition(slot, target, log);
    if (from == STAGE_TRAINING)
        *effects |= slot_start_blending(slot);
    if (target == STAGE_HOLDING)
        slot_start_holding(slot);
    if (target == STAGE_FOSSILIZED) {
        life_log_add(log, LIFE_FOSSILIZED, from, target, PRUNE_NONE, NULL);
        *effects |= EFFECT_ZERO_MOMENTUM | EFFECT_SNAPSHOT;
    }
    return true;
}

/* Remove the seed now. Refused, before anything is touched, for empty and cooling slots and for fossils (D-07). Metrics
 * and identity stay readable until the slot is free (I-44). */
ESPER_RULE bool slot_prune(struct slot_state *slot, int reason, struct life_log *log, uint32_t *effects)
{
    int from = slot->stage;
    if (!slot_transition(slot, STAGE_PRUNED, log))
        return false;
    life_log_add(log, LIFE_PRUNED, from, STAGE_PRUNED, reason, NULL);
    slot->alpha = slot->alpha_start = slot->alpha_target = 0.0f;
    slot->alpha_mode = ALPHA_HOLD;
    slot->steps_total = slot->steps_done = 0;
    slot->prune_reason = (uint8_t)reason;
    slot_set(slot, SLOT_FROZEN, false);
    slot_set(slot, SLOT_AUTO_PRUNED, prune_is_governor(reason));
    *effects |= EFFECT_DROPPED;
    return true;
}

/* The governor restores the env's snapshot: fossils are restored from it, every other live seed is removed. */
ESPER_RULE uint32_t slot_rollback(struct slot_state *slot, int reason, struct life_log *log)
{
    uint32_t effects = 0;
    slot_prune(slot, reason, log, &effects);
    return effects;
}

/* ---- measurements of a step ------------------------------------------------------------------------------------ */

/* Once per step for every slot with a live seed. The tick counts the epochs of cooling slots (D-05). */
ESPER_RULE void slot_record_accuracy(struct slot_state *slot, double accuracy)
{
    if (slot->epochs_total == 0)
        slot->acc_initial = slot->acc_stage_start = accuracy;
    slot->acc_current = accuracy;
    slot->acc_best = fmax(slot->acc_best, accuracy);
    slot->epochs_total++;
    slot->epochs_in_stage++;
}

struct gradient_sample {
    double norm, health, ratio; /* a norm that is not finite counts as exploding */
    bool vanishing, exploding;
};

/* Later stages train, too, but gates and policy go by what was seen up to BLENDING. */
ESPER_RULE bool slot_follows_gradient(const struct slot_state *slot)
{
    return slot->stage == STAGE_TRAINING || slot->stage == STAGE_BLENDING;
}

/* For slots that follow their gradient, on the last batch of a step. The first ratio starts the average (D-18). */
ESPER_RULE void slot_record_gradient(struct slot_state *slot, const struct gradient_sample *sample)
{
    bool finite = isfinite(sample->norm), first = !slot_has(slot, SLOT_GRAD_MEASURED);
    slot->grad_norm = finite ? sample->norm : 0.0;
    slot->grad_health = finite ? sample->health : 0.0;
    double ratio = finite && isfinite(sample->ratio) ? sample->ratio
                                                     : 0.0; /* one bad step must not poison the average */
    slot->grad_ratio = first ? ratio : 0.9 * slot->grad_ratio + 0.1 * ratio;
    slot_set(slot, SLOT_GRAD_MEASURED, true);
    slot_set(slot, SLOT_VANISHING, sample->vanishing);
    slot_set(slot, SLOT_EXPLODING, sample->exploding || !finite);
    slot_set(slot, SLOT_NONFINITE, !finite);
}

/* A fresh leave-one-out measurement: accuracy with the seed minus accuracy without it. */
ESPER_RULE void slot_record_contribution(struct slot_state *slot, double contribution)
{
    if (slot_has(slot, SLOT_CF_MEASURED)) /* the velocity needs two samples */
        slot->contribution_velocity = 0.7 * slot->contribution_velocity + 0.3 * (contribution - slot->contribution);
    slot->contribution = contribution;
    slot_set(slot, SLOT_CF_MEASURED, true);
}

/* ---- the end of a step ----------------------------------------------------------------------------------------- */

ESPER_RULE void slot_tick_blending(struct slot_state *slot, const struct gate_rules *rules, struct life_log *log,
                                   uint32_t *effects)
{
    alpha_step(slot);
    if (!alpha_rests(slot))
        return;
    if (slot->alpha_target <= ALPHA_EPSILON)
        slot_prune(slot, slot->prune_reason, log, effects);
    else if (rules->auto_g3 && (rules->permissive || slot->epochs_in_stage >= GATE_DWELL))
        slot_advance(slot, STAGE_HOLDING, rules, log, effects);
}

/* EMBARGOED and RESETTING: an epoch passes; true when the last one has. */
ESPER_RULE bool slot_tick_cooldown(struct slot_state *slot, uint32_t epochs)
{
    slot->epochs_total++;
    slot->epochs_in_stage++;
    return slot->epochs_in_stage >= epochs;
}

/* RESETTING -> DORMANT: nothing of the old seed remains, but the next one must draw different numbers. */
ESPER_RULE void slot_free(struct slot_state *slot, struct life_log *log)
{
    uint32_t germinations = slot->germinations;
    slot_transition(slot, STAGE_DORMANT, log);
    slot_clear(slot);
    slot->germinations = germinations;
}

/* Once per step for every slot, after the action. HOLDING and FOSSILIZED never leave by themselves (I-43). Freezing
 * follows the mode at the start of the tick, so a seed whose ramp down ends above 0 thaws one step later. */
ESPER_RULE uint32_t slot_tick(struct slot_state *slot, const struct gate_rules *rules, struct life_log *log)
{
    uint32_t effects = 0;
    slot_set(slot, SLOT_FROZEN, slot->alpha_mode == ALPHA_DOWN);
    switch (slot->stage) {
    case STAGE_GERMINATED:
        if (rules->auto_g1)
            slot_advance(slot, STAGE_TRAINING, rules, log, &effects);
        break;
    case STAGE_TRAINING:
        if (rules->auto_g2 && slot->epochs_in_stage >= GATE_DWELL &&
            slot_advance(slot, STAGE_BLENDING, rules, log, &effects))
            slot_tick_blending(slot, rules, log, &effects); /* D-09 */
        break;
    case STAGE_BLENDING:
        slot_tick_blending(slot, rules, log, &effects);
        break;
    case STAGE_PRUNED:
        slot_transition(slot, STAGE_EMBARGOED, log);
        break;
    case STAGE_EMBARGOED:
        if (slot_tick_cooldown(slot, COOLDOWN_EMBARGO))
            slot_transition(slot, STAGE_RESETTING, log);
        break;
    case STAGE_RESETTING:
        if (slot_tick_cooldown(slot, COOLDOWN_RESET))
            slot_free(slot, log);
        break;
    default:
        break;
    }
    return effects;
}

#endif
