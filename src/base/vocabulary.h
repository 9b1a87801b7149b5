/*
 * The words of growth, each listed once. Rules, configuration, record, screens and page take them from here. Every
 * value is a wire value: it is stored in checkpoints, records and trained policies, so none may be renumbered.
 *
 * LIST(WORD, with) expands to WORD(with, NAME, name, ...) for every word in its order; `with` is for whoever uses it.
 */
#ifndef BASE_VOCABULARY_H
#define BASE_VOCABULARY_H

#define WORD_ENUM(PREFIX, NAME, ...)  PREFIX##_##NAME,
#define WORD_NAME(with, NAME, ...)    WORD_FIRST(__VA_ARGS__, )
#define WORD_FIRST(name, ...)         #name,
#define WORD_CHOICE(with, NAME, name) "|" #name /* for a key that is one of them */
#define WORD_ONE(...)                 +1        /* to count them */

/* The families of hosts, each in a room of its own: src/cnn defines cnn_family, cnn_kernels and cnn_device. */
#define FAMILIES(WORD, with)                                                                                           \
    WORD(with, CNN, cnn)                                                                                               \
    WORD(with, TRANSFORMER, transformer)

enum host_family_id { FAMILIES(WORD_ENUM, FAMILY) FAMILY_COUNT };

/* How hosts and seeds learn. */
#define OPTIMISERS(WORD, with)                                                                                         \
    WORD(with, SGD, sgd)                                                                                               \
    WORD(with, ADAMW, adamw)

enum optimiser_kind { OPTIMISERS(WORD_ENUM, OPTIMISER) OPTIMISER_COUNT };

/* What a decision does. */
#define OPS(WORD, with)                                                                                                \
    WORD(with, WAIT, wait)                                                                                             \
    WORD(with, GERMINATE, germinate)                                                                                   \
    WORD(with, SET_ALPHA_TARGET, set_alpha_target)                                                                     \
    WORD(with, PRUNE, prune)                                                                                           \
    WORD(with, FOSSILIZE, fossilize)                                                                                   \
    WORD(with, ADVANCE, advance)

enum op { OPS(WORD_ENUM, OP) OP_COUNT };

/* The choices that make up a decision. */
#define HEADS(WORD, with)                                                                                              \
    WORD(with, SLOT, slot)                                                                                             \
    WORD(with, BLUEPRINT, blueprint)                                                                                   \
    WORD(with, STYLE, style)                                                                                           \
    WORD(with, TEMPO, tempo)                                                                                           \
    WORD(with, ALPHA_TARGET, alpha_target)                                                                             \
    WORD(with, ALPHA_SPEED, alpha_speed)                                                                               \
    WORD(with, ALPHA_CURVE, alpha_curve)                                                                               \
    WORD(with, OP, op)

enum head { HEADS(WORD_ENUM, HEAD) HEAD_COUNT };

/* Where a seed is in its life, with the wire value. 5 is retired: no slot may ever hold it. */
#define STAGES(WORD, with) EMPTY_STAGES(WORD, with) LIVE_STAGES(WORD, with) COOLDOWN_STAGES(WORD, with)

/* There is no seed. */
#define EMPTY_STAGES(WORD, with)                                                                                       \
    WORD(with, UNKNOWN, unknown, 0)                                                                                    \
    WORD(with, DORMANT, dormant, 1)

/* The slot holds a seed. The initials differ: screens show them as letters. */
#define LIVE_STAGES(WORD, with)                                                                                        \
    WORD(with, GERMINATED, germinated, 2)                                                                              \
    WORD(with, TRAINING, training, 3)                                                                                  \
    WORD(with, BLENDING, blending, 4)                                                                                  \
    WORD(with, HOLDING, holding, 6)                                                                                    \
    WORD(with, FOSSILIZED, fossilized, 7)

/* The seed is gone, the slot not yet free: "cooling" wherever stages are counted. */
#define COOLDOWN_STAGES(WORD, with)                                                                                    \
    WORD(with, PRUNED, pruned, 8)                                                                                      \
    WORD(with, EMBARGOED, embargoed, 9)                                                                                \
    WORD(with, RESETTING, resetting, 10)

#define STAGE_ENUM(PREFIX, NAME, name, value) PREFIX##_##NAME = (value),
enum stage { STAGES(STAGE_ENUM, STAGE) STAGE_LIMIT };
#undef STAGE_ENUM

/* The components that add up to a reward, with what each is for. */
#define REWARD_COMPONENTS(WORD, with)                                                                                  \
    WORD(with, ATTRIBUTION, attribution, "contributions of the seeds")                                                 \
    WORD(with, BLENDING_WARNING, blending_warning, "penalty for a blending seed that hurts the score")                 \
    WORD(with, HOLDING_WARNING, holding_warning, "penalty for a seed held too long")                                   \
    WORD(with, PBRS, pbrs, "potential-based shaping")                                                                  \
    WORD(with, SYNERGY, synergy, "bonus for seeds that help each other")                                               \
    WORD(with, RENT, rent, "rent on added parameters")                                                                 \
    WORD(with, ALPHA_SHOCK, alpha_shock, "penalty for abrupt changes of alpha")                                        \
    WORD(with, OCCUPANCY_RENT, occupancy_rent, "rent on occupied slots beyond the free allowance")                     \
    WORD(with, FOSSILIZED_RENT, fossilized_rent, "upkeep of fossils")                                                  \
    WORD(with, ACTION_SHAPING, action_shaping, "cost or bonus of the op")                                              \
    WORD(with, FOSSILIZE_BONUS, fossilize_bonus, "immediate bonus for a fossil")                                       \
    WORD(with, TERMINAL, terminal, "for the score at the last step")                                                   \
    WORD(with, TERMINAL_FOSSIL, terminal_fossil, "for the fossils at the last step")                                   \
    WORD(with, DRIP, drip, "what fossils pay, step by step")                                                           \
    WORD(with, LOSS_DELTA, loss_delta, "change in the loss")                                                           \
    WORD(with, ESCROW_FORFEIT, escrow_forfeit, "escrow forfeited")                                                     \
    WORD(with, GERMINATION_CLAWBACK, germination_clawback, "deposits of seeds that never blended")                     \
    WORD(with, AUTO_PRUNE, auto_prune, "penalty for seeds that the governor pruned")                                   \
    WORD(with, HINDSIGHT, hindsight, "credit for seeds that helped another become a fossil")

enum reward_component { REWARD_COMPONENTS(WORD_ENUM, REWARD) REWARD_COMPONENT_COUNT };

#define WORD_LISTED(with, NAME, name) " " #name /* in a text */

/* ---- names, for people, files and columns; host only ------------------------------------------------------------ */

static inline const char *op_name(int op)
{
    static const char *const names[OP_COUNT] = {OPS(WORD_NAME, )};
    return op >= 0 && op < OP_COUNT ? names[op] : "illegal";
}

static inline const char *head_name(int head)
{
    static const char *const names[HEAD_COUNT] = {HEADS(WORD_NAME, )};
    return head >= 0 && head < HEAD_COUNT ? names[head] : "illegal";
}

static inline const char *stage_name(int stage)
{
#define STAGE_NAME(with, NAME, name, value)                                                                            \
    case value:                                                                                                        \
        return #name;
    switch (stage) {
        STAGES(STAGE_NAME, )
    default:
        return "illegal";
    }
#undef STAGE_NAME
}

static inline const char *reward_component_name(int component)
{
    static const char *const names[REWARD_COMPONENT_COUNT] = {REWARD_COMPONENTS(WORD_NAME, )};
    return component >= 0 && component < REWARD_COMPONENT_COUNT ? names[component] : "illegal";
}

#endif
