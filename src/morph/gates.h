/*
 * The quality gates: what a seed must show before it may enter a stage.
 *
 * A gate is a pure function of the row, so the reward may evaluate it before the action is executed. "Measured" is a
 * separate flag: a statistic that was never taken fails its gate, whatever number is in the field (I-42).
 */
#ifndef MORPH_GATES_H
#define MORPH_GATES_H

#include "morph/alpha.h"

#define GATE_DWELL        10u  /* epochs in stage */
#define GATE_HEALTH       0.7  /* of the gradient */
#define GATE_IMPROVEMENT  0.5  /* points since the stage began */
#define GATE_RATIO        0.10 /* seed gradient relative to host gradient */
#define GATE_CONTRIBUTION 1.0  /* points lost without the seed */

/* The gate of a stage. G4 does not exist. */
enum gate {
    GATE_G0 = 0, /* GERMINATED: nothing to check */
    GATE_G1 = 1, /* TRAINING */
    GATE_G2 = 2, /* BLENDING */
    GATE_G3 = 3, /* HOLDING */
    GATE_G5 = 5, /* FOSSILIZED */
    GATE_NONE = 255
};

enum gate_failure {
    GATE_FAILED_EPOCHS = 1u << 0,
    GATE_FAILED_GRAD_UNMEASURED = 1u << 1,
    GATE_FAILED_EXPLODING = 1u << 2,
    GATE_FAILED_HEALTH_LOW = 1u << 3,
    GATE_FAILED_IMPROVEMENT = 1u << 4,
    GATE_FAILED_RATIO_UNMEASURED = 1u << 5,
    GATE_FAILED_RATIO_LOW = 1u << 6,
    GATE_FAILED_TARGET_NOT_FULL = 1u << 7,
    GATE_FAILED_NOT_AT_TARGET = 1u << 8,
    GATE_FAILED_CF_UNMEASURED = 1u << 9,
    GATE_FAILED_CF_LOW = 1u << 10,
    GATE_FAILED_TRANSITION = 1u << 11 /* the stage does not lead there */
};

enum { GATE_FAILURES = 12 };

/* The name of a bit, for people. */
static inline const char *gate_failure_name(int bit)
{
    static const char *const name[GATE_FAILURES] = {"epochs",        "grad_unmeasured",  "exploding", "health_low",
                                                    "improvement",   "ratio_unmeasured", "ratio_low", "target_not_full",
                                                    "not_at_target", "cf_unmeasured",    "cf_low",    "transition"};
    return bit >= 0 && bit < GATE_FAILURES ? name[bit] : "illegal";
}

struct gate_rules {
    bool permissive;                /* otherwise strict */
    bool auto_g1, auto_g2, auto_g3; /* the tick advances by itself when the gate passes */
};

struct gate_verdict {
    uint8_t gate;
    bool pass;
    uint32_t failed; /* bits of gate_failure */
    double score;    /* in [0, 1] */
};

/* The rules of the shipped tasks. */
ESPER_RULE struct gate_rules gate_rules_default(void)
{
    struct gate_rules rules = {true, true, true, true};
    return rules;
}

ESPER_RULE double gate_score(double value, double full)
{
    return fmin(fmax(value / full, 0.0), 1.0);
}

/* Comparisons are written so that a NaN fails. */
ESPER_RULE uint32_t gate_blend_failures(const struct slot_state *slot, bool permissive)
{
    bool measured = slot_has(slot, SLOT_GRAD_MEASURED); /* health and ratio are measured together */
    uint32_t failed = slot->epochs_in_stage >= GATE_DWELL ? 0 : GATE_FAILED_EPOCHS;
    if (permissive) {
        if (!measured)
            return failed | GATE_FAILED_GRAD_UNMEASURED;
        failed |= slot_has(slot, SLOT_EXPLODING) ? GATE_FAILED_EXPLODING : 0;
        failed |= slot->grad_health >= GATE_HEALTH ? 0 : GATE_FAILED_HEALTH_LOW;
        return failed;
    }
    failed |= slot_improvement(slot) >= GATE_IMPROVEMENT ? 0 : GATE_FAILED_IMPROVEMENT;
    if (!measured)
        return failed | GATE_FAILED_RATIO_UNMEASURED;
    return failed | (slot->grad_ratio >= GATE_RATIO ? 0 : GATE_FAILED_RATIO_LOW);
}

/* A partial target never passes: such a seed must first be ramped to 1. */
ESPER_RULE uint32_t gate_hold_failures(const struct slot_state *slot, bool permissive)
{
    uint32_t failed = slot->alpha_target >= ALPHA_FULL ? 0 : GATE_FAILED_TARGET_NOT_FULL;
    failed |= alpha_rests(slot) ? 0 : GATE_FAILED_NOT_AT_TARGET;
    failed |= permissive || slot->epochs_in_stage >= GATE_DWELL ? 0 : GATE_FAILED_EPOCHS;
    return failed;
}

ESPER_RULE uint32_t gate_fossilize_failures(const struct slot_state *slot, bool permissive)
{
    if (!slot_has(slot, SLOT_CF_MEASURED))
        return GATE_FAILED_CF_UNMEASURED;
    return permissive || slot->contribution >= GATE_CONTRIBUTION ? 0 : GATE_FAILED_CF_LOW;
}

/* May the seed enter `target`? slot_advance checks whether the current stage leads there. */
ESPER_RULE struct gate_verdict gate_check(const struct slot_state *slot, int target, bool permissive)
{
    struct gate_verdict verdict = {GATE_NONE, false, 0, 0.0};
    switch (target) {
    case STAGE_GERMINATED:
        verdict.gate = GATE_G0;
        verdict.score = 1.0;
        break;
    case STAGE_TRAINING:
        verdict.gate = GATE_G1;
        verdict.failed = slot->stage == STAGE_GERMINATED ? 0 : GATE_FAILED_TRANSITION;
        verdict.score = verdict.failed ? 0.0 : 1.0;
        break;
    case STAGE_BLENDING:
        verdict.gate = GATE_G2;
        verdict.failed = gate_blend_failures(slot, permissive);
        verdict.score = gate_score(slot_improvement(slot), 5.0);
        break;
    case STAGE_HOLDING:
        verdict.gate = GATE_G3;
        verdict.failed = gate_hold_failures(slot, permissive);
        verdict.score = slot->alpha;
        break;
    case STAGE_FOSSILIZED:
        verdict.gate = GATE_G5;
        verdict.failed = gate_fossilize_failures(slot, permissive);
        verdict.score = gate_score(slot->contribution, 10.0);
        break;
    default: /* no gate leads there */
        verdict.failed = GATE_FAILED_TRANSITION;
    }
    verdict.pass = verdict.failed == 0;
    return verdict;
}

#endif
