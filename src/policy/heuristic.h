/*
 * The heuristic policy, a baseline (P-17): wait until the host is stable and stops improving, germinate the next
 * blueprint of a rotation, keep the seed if it contributes, prune it if not. It tends one seed at a time. It acts
 * through the same masks and executor as every policy; it skips a masked action and does not remember having chosen it.
 */
#ifndef POLICY_HEURISTIC_H
#define POLICY_HEURISTIC_H

#include "morph/family.h"
#include "policy/masks.h"
#include "policy/tracker.h"

#define HEURISTIC_PLATEAU           3u /* epochs without progress before a germination */
#define HEURISTIC_FIRST_STEP        5
#define HEURISTIC_PATIENCE          5u  /* epochs in stage before a seed is judged */
#define HEURISTIC_DROP              2.0 /* points lost since the stage began */
#define HEURISTIC_CONTRIBUTION      0.5 /* points a fossil must contribute */
#define HEURISTIC_EMBARGO           5u  /* steps from a prune to the next germination */
#define HEURISTIC_PENALTY           2.0 /* of a blueprint, per prune */
#define HEURISTIC_PENALTY_DECAY     0.9 /* per step (P-17) */
#define HEURISTIC_PENALTY_FORGOTTEN 0.1 /* anything less counts as 0 */
#define HEURISTIC_PENALTY_LIMIT     3.0 /* a blueprint with this much is skipped */

#define HEURISTIC_FIELDS(FIELD, ARRAY)                                                                                 \
    ARRAY(double, penalty, BLUEPRINT_MAX)                                                                              \
    FIELD(uint32_t, cursor)      /* into the rotation */                                                               \
    FIELD(uint32_t, embargo_end) /* first step that may germinate again */                                             \
    FIELD(uint32_t, decayed)     /* step of the last decay */

#define HEURISTIC_MEMBER(type, name)        type name;
#define HEURISTIC_ARRAY(type, name, length) type name[length];
struct heuristic {
    HEURISTIC_FIELDS(HEURISTIC_MEMBER, HEURISTIC_ARRAY)
};
#undef HEURISTIC_MEMBER
#undef HEURISTIC_ARRAY

ESPER_RULE void heuristic_clear(struct heuristic *heuristic)
{
#define HEURISTIC_ZERO(type, name) heuristic->name = 0;
#define HEURISTIC_ZEROS(type, name, length)                                                                            \
    for (int i = 0; i < (int)(length); i++)                                                                            \
        heuristic->name[i] = 0;
    HEURISTIC_FIELDS(HEURISTIC_ZERO, HEURISTIC_ZEROS)
#undef HEURISTIC_ZERO
#undef HEURISTIC_ZEROS
}

/* ---- which blueprint comes next -------------------------------------------------------------------------------- */

/* How many members of the rotation precede member i when sorted by penalty, then by name. */
ESPER_RULE uint32_t heuristic_rank(const struct heuristic *heuristic, const struct rotation *rotation, uint32_t i)
{
    double penalty = heuristic->penalty[rotation->blueprint[i]];
    uint32_t rank = 0;
    for (uint32_t k = 0; k < ROTATION; k++) {
        double other = heuristic->penalty[rotation->blueprint[k]];
        rank += other < penalty || (other == penalty && rotation->by_name[k] < rotation->by_name[i]);
    }
    return rank;
}

/* The next blueprint of the rotation that is not penalised; when all are, the list sorted by penalty replaces the
 * rotation. */
ESPER_RULE uint8_t heuristic_next_blueprint(struct heuristic *heuristic, const struct rotation *rotation)
{
    uint32_t start = heuristic->cursor;
    for (uint32_t k = 0; k < ROTATION; k++) {
        uint8_t blueprint = rotation->blueprint[heuristic->cursor++ % ROTATION];
        if (heuristic->penalty[blueprint] < HEURISTIC_PENALTY_LIMIT)
            return blueprint;
    }
    heuristic->cursor = start + 1u;
    uint32_t i = 0;
    while (heuristic_rank(heuristic, rotation, i) != start % ROTATION)
        i++;
    return rotation->blueprint[i];
}

/* ---- what to do ------------------------------------------------------------------------------------------------ */

/* Takes effect once per step, however often it is called. */
ESPER_RULE void heuristic_decay(struct heuristic *heuristic, uint32_t step)
{
    if (step <= heuristic->decayed)
        return;
    heuristic->decayed = step;
    for (int b = 0; b < BLUEPRINT_MAX; b++) {
        double penalty = HEURISTIC_PENALTY_DECAY * heuristic->penalty[b];
        heuristic->penalty[b] = penalty < HEURISTIC_PENALTY_FORGOTTEN ? 0.0 : penalty;
    }
}

ESPER_RULE bool heuristic_may_germinate(const struct heuristic *heuristic, const struct tracker *tracker, int step)
{
    return (uint32_t)step >= heuristic->embargo_end && tracker->stabilised && step >= HEURISTIC_FIRST_STEP &&
           tracker->plateau >= HEURISTIC_PLATEAU;
}

/* The op for a live seed that is not a fossil. */
ESPER_RULE int heuristic_tend(const struct slot_state *slot)
{
    bool failing = slot->epochs_in_stage >= HEURISTIC_PATIENCE && slot_improvement(slot) < -HEURISTIC_DROP;
    switch (slot->stage) {
    case STAGE_GERMINATED:
        return OP_ADVANCE;
    case STAGE_TRAINING:
        return failing ? OP_PRUNE : OP_ADVANCE;
    case STAGE_BLENDING:
        return failing ? OP_PRUNE : slot->alpha_target >= ALPHA_FULL && alpha_rests(slot) ? OP_ADVANCE : OP_WAIT;
    default: /* HOLDING. Total gain never replaces the contribution; without gain the contribution is ransom */
        if (!slot_has(slot, SLOT_CF_MEASURED))
            return OP_WAIT;
        return slot->contribution > HEURISTIC_CONTRIBUTION && slot->acc_current >= slot->acc_initial ? OP_FOSSILIZE
                                                                                                     : OP_PRUNE;
    }
}

/* `step` counts from 1; the tracker and the slots are those of this step, before the action. */
ESPER_RULE struct action heuristic_decide(struct heuristic *heuristic, const struct tracker *tracker, int step,
                                          const struct slot_state *slot, int slots, const struct masks *masks,
                                          const struct rotation *rotation)
{
    uint8_t choice[HEAD_COUNT]; /* the canonical choices are also the heuristic's, where the head matters */
    for (int head = 0; head < HEAD_COUNT; head++)
        choice[head] = (uint8_t)head_canonical(head);
    heuristic_decay(heuristic, (uint32_t)step);

    int tended = 0;
    while (tended < slots && (!stage_is_live(slot[tended].stage) || slot[tended].stage == STAGE_FOSSILIZED))
        tended++;
    if (tended < slots) {
        int op = heuristic_tend(&slot[tended]);
        if (op != OP_WAIT && (masks->slots[op] >> tended & 1u)) {
            choice[HEAD_OP] = (uint8_t)op;
            choice[HEAD_SLOT] = (uint8_t)tended;
        }
        if (choice[HEAD_OP] == OP_PRUNE) {
            heuristic->embargo_end = (uint32_t)step + HEURISTIC_EMBARGO;
            heuristic->penalty[slot[tended].blueprint] += HEURISTIC_PENALTY;
        }
    } else if (masks->slots[OP_GERMINATE] && heuristic_may_germinate(heuristic, tracker, step)) {
        choice[HEAD_OP] = OP_GERMINATE;
        while (!(masks->slots[OP_GERMINATE] >> choice[HEAD_SLOT] & 1u))
            choice[HEAD_SLOT]++;
        choice[HEAD_BLUEPRINT] = heuristic_next_blueprint(heuristic, rotation);
    }
    return action_of_heads(choice);
}

#endif
