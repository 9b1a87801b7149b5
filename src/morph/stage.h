/*
 * What stages and the choices of an action mean, and the words for those choices. As in base/vocabulary.h, every value
 * is a wire value.
 */
#ifndef MORPH_STAGE_H
#define MORPH_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rule.h"
#include "base/vocabulary.h"

#define ALGORITHMS(WORD, with)                                                                                         \
    WORD(with, NONE, none)                                                                                             \
    WORD(with, ADD, add)                                                                                               \
    WORD(with, MULTIPLY, multiply)                                                                                     \
    WORD(with, GATE, gate)

enum algorithm { ALGORITHMS(WORD_ENUM, ALGORITHM) ALGORITHM_COUNT };

enum alpha_curve { CURVE_NONE, CURVE_LINEAR, CURVE_COSINE, CURVE_SIGMOID };

enum alpha_mode { ALPHA_HOLD, ALPHA_UP, ALPHA_DOWN };

#define STYLES(WORD, with)                                                                                             \
    WORD(with, LINEAR_ADD, linear_add)                                                                                 \
    WORD(with, LINEAR_MULTIPLY, linear_multiply)                                                                       \
    WORD(with, SIGMOID_ADD, sigmoid_add)                                                                               \
    WORD(with, GATED_GATE, gated_gate)

enum style { STYLES(WORD_ENUM, STYLE) STYLE_COUNT };

/* Blueprints are numbered by the host's family, which names them (morph/family.h). */
enum {
    BLUEPRINT_NOOP,           /* of every family: nothing to train */
    BLUEPRINT_MAX = 12,       /* numbers below it; the world and its checkpoints have room for so many */
    BLUEPRINT_HEAD_SIZE = 13, /* the policy's head has more, so that a new blueprint does not change it */
    BLUEPRINT_NONE = 255
};

#define PRUNE_REASONS(WORD, with)                                                                                      \
    WORD(with, NONE, none)                                                                                             \
    WORD(with, POLICY, policy)                                                                                         \
    WORD(with, GOVERNOR_NAN, governor_nan)                                                                             \
    WORD(with, GOVERNOR_LOBOTOMY, governor_lobotomy)                                                                   \
    WORD(with, GOVERNOR_DIVERGENCE, governor_divergence)                                                               \
    WORD(with, GOVERNOR_ROLLBACK, governor_rollback)

enum prune_reason { PRUNE_REASONS(WORD_ENUM, PRUNE) PRUNE_REASON_COUNT };

/* The remaining heads of an action are indices into small tables of values. */
enum { TEMPO_COUNT = 3, ALPHA_TARGET_COUNT = 3, ALPHA_SPEED_COUNT = 4, ALPHA_CURVE_COUNT = 5 };

#define STEEPNESS_DEFAULT 12.0f
#define STEEPNESS_MIN     0.1f

/* ---- stages ---------------------------------------------------------------------------------------------------- */

#define STAGE_BIT(stage) (1u << (stage))

ESPER_RULE bool stage_in(int stage, unsigned set)
{
    return stage >= 0 && stage < STAGE_LIMIT && (set >> stage & 1u);
}

/* The stages that may follow (I-41); where ADVANCE leads is stage_advance_target. */
ESPER_RULE bool stage_may_follow(int from, int to)
{
    const unsigned next[STAGE_LIMIT] = {
        /* UNKNOWN    */ STAGE_BIT(STAGE_DORMANT),
        /* DORMANT    */ STAGE_BIT(STAGE_GERMINATED),
        /* GERMINATED */ STAGE_BIT(STAGE_TRAINING) | STAGE_BIT(STAGE_PRUNED),
        /* TRAINING   */ STAGE_BIT(STAGE_BLENDING) | STAGE_BIT(STAGE_PRUNED),
        /* BLENDING   */ STAGE_BIT(STAGE_HOLDING) | STAGE_BIT(STAGE_PRUNED),
        /* retired    */ 0,
        /* HOLDING    */ STAGE_BIT(STAGE_FOSSILIZED) | STAGE_BIT(STAGE_BLENDING) | STAGE_BIT(STAGE_PRUNED),
        /* FOSSILIZED */ 0,
        /* PRUNED     */ STAGE_BIT(STAGE_EMBARGOED),
        /* EMBARGOED  */ STAGE_BIT(STAGE_RESETTING),
        /* RESETTING  */ STAGE_BIT(STAGE_DORMANT),
    };
    return from >= 0 && from < STAGE_LIMIT && stage_in(to, next[from]);
}

/* Where ADVANCE leads from a stage; UNKNOWN where it leads nowhere. */
ESPER_RULE int stage_advance_target(int stage)
{
    switch (stage) {
    case STAGE_GERMINATED:
        return STAGE_TRAINING;
    case STAGE_TRAINING:
        return STAGE_BLENDING;
    case STAGE_BLENDING:
        return STAGE_HOLDING;
    default:
        return STAGE_UNKNOWN;
    }
}

ESPER_RULE bool stage_is_legal(int stage)
{
    return stage >= 0 && stage < STAGE_LIMIT && stage != 5;
}

/* The seed takes part in forward passes (in TRAINING only through its gradient). */
ESPER_RULE bool stage_is_active(int stage)
{
    return stage_in(stage, STAGE_BIT(STAGE_TRAINING) | STAGE_BIT(STAGE_BLENDING) | STAGE_BIT(STAGE_HOLDING) |
                               STAGE_BIT(STAGE_FOSSILIZED));
}

/* The seed's output is mixed into the host's features. */
ESPER_RULE bool stage_is_blended(int stage)
{
    return stage_is_active(stage) && stage != STAGE_TRAINING;
}

/* The slot holds a seed. */
ESPER_RULE bool stage_is_live(int stage)
{
    return stage == STAGE_GERMINATED || stage_is_active(stage);
}

/* The seed is gone, the slot not yet free. */
ESPER_RULE bool stage_is_cooldown(int stage)
{
    return stage_in(stage, STAGE_BIT(STAGE_PRUNED) | STAGE_BIT(STAGE_EMBARGOED) | STAGE_BIT(STAGE_RESETTING));
}

ESPER_RULE bool prune_is_governor(int reason)
{
    return reason >= PRUNE_GOVERNOR_NAN && reason < PRUNE_REASON_COUNT;
}

/* ---- what the heads of an action mean -------------------------------------------------------------------------- */

struct curve_choice {
    uint8_t curve;
    float steepness;
};

/* The operator of a style. The gated style and the GATE operator imply each other. */
ESPER_RULE uint8_t style_algorithm(int style)
{
    return style == STYLE_LINEAR_MULTIPLY ? ALGORITHM_MULTIPLY
           : style == STYLE_GATED_GATE    ? ALGORITHM_GATE
                                          : ALGORITHM_ADD;
}

/* The ramp by which a seed of this style first blends in. */
ESPER_RULE uint8_t style_curve(int style)
{
    return style == STYLE_SIGMOID_ADD ? CURVE_SIGMOID : CURVE_LINEAR;
}

/* The tables of the small heads. action_allowed refuses an index out of range before it gets here. */
ESPER_RULE uint8_t tempo_steps(int head)
{
    return head == 0 ? 3 : head == 1 ? 5 : 8;
}

ESPER_RULE float alpha_target_value(int head)
{
    return head == 0 ? 0.5f : head == 1 ? 0.7f : 1.0f;
}

ESPER_RULE uint8_t alpha_speed_steps(int head)
{
    return head == 0 ? 0 : head == 1 ? 3 : head == 2 ? 5 : 8;
}

ESPER_RULE struct curve_choice alpha_curve_choice(int head)
{
    struct curve_choice choice = {CURVE_SIGMOID, STEEPNESS_DEFAULT};
    if (head == 0)
        choice.curve = CURVE_LINEAR;
    else if (head == 1)
        choice.curve = CURVE_COSINE;
    else if (head == 2)
        choice.steepness = 6.0f;
    else if (head == 4)
        choice.steepness = 24.0f;
    return choice;
}

/* ---- names, for people and scripts; host only ------------------------------------------------------------------ */

static inline const char *style_name(int style)
{
    static const char *const names[STYLE_COUNT] = {STYLES(WORD_NAME, )};
    return style >= 0 && style < STYLE_COUNT ? names[style] : "illegal";
}

static inline const char *alpha_curve_name(int curve) /* index of the head; the number is the steepness */
{
    static const char *const names[ALPHA_CURVE_COUNT] = {"linear", "cosine", "sigmoid6", "sigmoid12", "sigmoid24"};
    return curve >= 0 && curve < ALPHA_CURVE_COUNT ? names[curve] : "illegal";
}

static inline const char *algorithm_name(int algorithm)
{
    static const char *const names[ALGORITHM_COUNT] = {ALGORITHMS(WORD_NAME, )};
    return algorithm >= 0 && algorithm < ALGORITHM_COUNT ? names[algorithm] : "illegal";
}

static inline const char *prune_reason_name(int reason)
{
    static const char *const names[PRUNE_REASON_COUNT] = {PRUNE_REASONS(WORD_NAME, )};
    return reason >= 0 && reason < PRUNE_REASON_COUNT ? names[reason] : "illegal";
}

#endif
