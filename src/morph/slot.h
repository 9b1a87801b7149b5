/*
 * A slot: everything the rules know about one place where a seed can grow.
 *
 * The rules work on one row, `struct slot_state`; the world keeps one array per field, [env][slot]. Both come from the
 * list below, so a field is added in one place. What follows from other fields is not stored but computed: live and
 * isolated follow from the stage, the gate net's existence from stage and operator, an ordered prune from the target.
 */
#ifndef MORPH_SLOT_H
#define MORPH_SLOT_H

#include <stddef.h>

#include "morph/stage.h"

/* A DORMANT row is all zero except for stage, blueprint and the count of germinations. */
#define SLOT_FIELDS(FIELD)                                                                                             \
    /* machine */                                                                                                      \
    FIELD(uint8_t, stage)                                                                                              \
    FIELD(uint8_t, prev_stage)                                                                                         \
    FIELD(uint8_t, blueprint)                                                                                          \
    FIELD(uint8_t, algorithm)                                                                                          \
    FIELD(uint32_t, flags)                                                                                             \
    FIELD(uint32_t, germinations) /* seeds this slot has had in this round: identity and random key of the seed */     \
    /* controller: alpha is eased in f64 and rounded once */                                                           \
    FIELD(uint8_t, alpha_mode)                                                                                         \
    FIELD(uint8_t, alpha_curve)                                                                                        \
    FIELD(float, alpha)                                                                                                \
    FIELD(float, alpha_start)                                                                                          \
    FIELD(float, alpha_target)                                                                                         \
    FIELD(float, steepness)                                                                                            \
    FIELD(uint32_t, steps_total)                                                                                       \
    FIELD(uint32_t, steps_done)                                                                                        \
    /* chosen at germination, used when blending starts */                                                             \
    FIELD(uint8_t, style)                                                                                              \
    FIELD(uint8_t, tempo) /* steps of the first ramp */                                                                \
    FIELD(float, blend_target)                                                                                         \
    /* epochs, counted by slot_record_accuracy and, in cooldown, by slot_tick (D-05) */                                \
    FIELD(uint32_t, epochs_total)                                                                                      \
    FIELD(uint32_t, epochs_in_stage)                                                                                   \
    FIELD(uint32_t, prev_epochs_in_stage)                                                                              \
    /* validation accuracy in percent */                                                                               \
    FIELD(double, acc_initial)                                                                                         \
    FIELD(double, acc_current)                                                                                         \
    FIELD(double, acc_best)                                                                                            \
    FIELD(double, acc_stage_start)                                                                                     \
    FIELD(double, acc_blend_start)                                                                                     \
    /* gradient statistics, meaningful once SLOT_GRAD_MEASURED */                                                      \
    FIELD(double, grad_norm) /* 0 when SLOT_NONFINITE */                                                               \
    FIELD(double, grad_health)                                                                                         \
    FIELD(double, grad_ratio)                                                                                          \
    /* leave-one-out contribution in points, meaningful once SLOT_CF_MEASURED */                                       \
    FIELD(double, contribution)                                                                                        \
    FIELD(double, contribution_velocity)                                                                               \
    FIELD(double, interaction_sum)                                                                                     \
    /* parameter counts, cached at germination (D-11) */                                                               \
    FIELD(uint32_t, seed_params)                                                                                       \
    FIELD(uint32_t, gate_params)                                                                                       \
    FIELD(uint8_t, prune_reason) /* set when a prune is ordered, kept until the slot is free */

enum slot_flag {
    SLOT_FROZEN = 1u << 0, /* parameters get no gradient, step or momentum: alpha is ramping down */
    SLOT_BLENDING_STARTED = 1u << 1,
    SLOT_GRAD_MEASURED = 1u << 2,
    SLOT_VANISHING = 1u << 3,
    SLOT_EXPLODING = 1u << 4,
    SLOT_NONFINITE = 1u << 5,
    SLOT_CF_MEASURED = 1u << 6,
    SLOT_AUTO_PRUNED = 1u << 7 /* the governor removed a live seed; the rule that charges for it clears the bit */
};

#define SLOT_MEMBER(type, name) type name;
struct slot_state {
    SLOT_FIELDS(SLOT_MEMBER)
};
#undef SLOT_MEMBER

#define SLOT_ARRAY(type, name) type *name;
struct slot_arrays {
    SLOT_FIELDS(SLOT_ARRAY) /* each [env][slot] */
};
#undef SLOT_ARRAY

ESPER_RULE struct slot_state slot_load(const struct slot_arrays *arrays, size_t index)
{
    struct slot_state slot;
#define SLOT_LOAD(type, name) slot.name = arrays->name[index];
    SLOT_FIELDS(SLOT_LOAD)
#undef SLOT_LOAD
    return slot;
}

ESPER_RULE void slot_store(const struct slot_arrays *arrays, size_t index, const struct slot_state *slot)
{
#define SLOT_STORE(type, name) arrays->name[index] = slot->name;
    SLOT_FIELDS(SLOT_STORE)
#undef SLOT_STORE
}

ESPER_RULE void slot_clear(struct slot_state *slot)
{
#define SLOT_ZERO(type, name) slot->name = 0;
    SLOT_FIELDS(SLOT_ZERO)
#undef SLOT_ZERO
    slot->stage = STAGE_DORMANT;
    slot->blueprint = BLUEPRINT_NONE;
}

/* ---- what follows from a row ----------------------------------------------------------------------------------- */

ESPER_RULE bool slot_has(const struct slot_state *slot, uint32_t flag)
{
    return (slot->flags & flag) != 0;
}

ESPER_RULE void slot_set(struct slot_state *slot, uint32_t flag, bool on)
{
    slot->flags = on ? slot->flags | flag : slot->flags & ~flag;
}

/* The seed's input is cut off from the host's gradient (D-01: in TRAINING only). */
ESPER_RULE bool slot_isolates(const struct slot_state *slot)
{
    return slot->stage == STAGE_TRAINING;
}

/* The gate net exists from the start of blending, or from the switch to GATE, until the switch away or the prune. */
ESPER_RULE bool slot_has_gate(const struct slot_state *slot)
{
    return slot->algorithm == ALGORITHM_GATE && stage_is_blended(slot->stage);
}

/* A prune is ordered and alpha is ramping to 0. No other command has the target 0. */
ESPER_RULE bool slot_prune_pending(const struct slot_state *slot)
{
    return slot->stage == STAGE_BLENDING && slot->prune_reason != PRUNE_NONE;
}

/* Parameters of the live seed and its gate net; frozen ones count as well (D-11). */
ESPER_RULE uint32_t slot_params(const struct slot_state *slot)
{
    return stage_is_live(slot->stage) ? slot->seed_params + (slot_has_gate(slot) ? slot->gate_params : 0) : 0;
}

/* The committed network is the host with its fossils: what is tested, saved and exported at an episode's end (E-19). */
ESPER_RULE uint32_t slots_committed(const struct slot_state *slot, int slots)
{
    uint32_t mask = 0;
    for (int j = 0; j < slots; j++)
        mask |= (slot[j].stage == STAGE_FOSSILIZED ? 1u : 0u) << j;
    return mask;
}

/* Accuracy gained since the stage began, in points. */
ESPER_RULE double slot_improvement(const struct slot_state *slot)
{
    return slot->acc_current - slot->acc_stage_start;
}

/* ---- how a pass treats the slot -------------------------------------------------------------------------------- */

enum slot_mode {
    SLOT_SKIP, /* identity; the pool is not read */
    SLOT_STE,  /* identity forward, straight-through gradient for the seed */
    SLOT_BLEND /* the operator mixes host and seed by alpha */
};

struct slot_exec {
    uint8_t mode, algorithm, blueprint;
    bool isolate;
    bool train; /* the parameters get gradients and steps */
    bool gate;  /* the gate net scales alpha */
    float alpha;
};

ESPER_RULE struct slot_exec slot_exec_of(const struct slot_state *slot)
{
    struct slot_exec exec;
    exec.mode = (uint8_t)(slot->stage == STAGE_TRAINING   ? SLOT_STE
                          : stage_is_blended(slot->stage) ? SLOT_BLEND
                                                          : SLOT_SKIP);
    exec.algorithm = slot->algorithm;
    exec.blueprint = slot->blueprint;
    exec.isolate = slot_isolates(slot);
    exec.train = exec.mode != SLOT_SKIP && !slot_has(slot, SLOT_FROZEN);
    exec.gate = slot_has_gate(slot);
    exec.alpha = slot->alpha;
    return exec;
}

#endif
