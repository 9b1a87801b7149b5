/*
 * Which choices are legal, from the state before the action (P-02). One 64-bit word holds every head, bit = logit
 * column; the legal slots depend on the op, so each op has its own set.
 *
 * A mask says what can be done, not what is wise: it depends on no statistic, and on the clock at the last step alone.
 * A gate may still refuse.
 */
#ifndef POLICY_MASKS_H
#define POLICY_MASKS_H

#include "policy/heads.h"

struct masks {
    uint64_t base;            /* all heads; the slot bits are the enabled slots. 0: the input was invalid */
    uint16_t slots[OP_COUNT]; /* slots on which the op may be used */
};

struct mask_input {
    int slots;
    uint32_t enabled;                /* set of slots that count at all */
    uint32_t blueprints;             /* set offered */
    uint32_t total_seeds, max_seeds; /* live seeds, fossils included; 0: no limit */
    bool override_hold;              /* PRUNE also while alpha moves */
    bool advance_disabled;           /* all gates advance automatically */
    const uint8_t *stage, *alpha_mode;
    const uint32_t *age; /* epochs since germination */
};

ESPER_RULE bool mask_input_is_valid(const struct mask_input *input)
{
    if (input->slots < 1 || input->slots > HEAD_MAX_SLOTS || input->enabled == 0 || input->enabled >> input->slots)
        return false;
    if (input->blueprints == 0 || (input->blueprints & 1u) || input->blueprints >> BLUEPRINT_HEAD_SIZE)
        return false;
    for (int s = 0; s < input->slots; s++)
        if (!stage_is_legal(input->stage[s]))
            return false;
    return true;
}

/* A seed not yet past TRAINING, or a slot still cooling down, keeps the whole env from germinating another one. */
ESPER_RULE bool mask_may_germinate(const struct mask_input *input)
{
    if (input->max_seeds > 0 && input->total_seeds >= input->max_seeds)
        return false;
    for (int s = 0; s < input->slots; s++)
        if ((input->enabled >> s & 1u) && (input->stage[s] == STAGE_GERMINATED || input->stage[s] == STAGE_TRAINING ||
                                           stage_is_cooldown(input->stage[s])))
            return false;
    return true;
}

/* Whether the op may be used on the slot; GERMINATE also needs mask_may_germinate. */
ESPER_RULE bool mask_allows(const struct mask_input *input, int op, int slot)
{
    int stage = input->stage[slot];
    bool resting = input->alpha_mode[slot] == ALPHA_HOLD;
    switch (op) {
    case OP_WAIT:
        return true;
    case OP_GERMINATE:
        return stage == STAGE_DORMANT;
    case OP_SET_ALPHA_TARGET:
        return (stage == STAGE_BLENDING || stage == STAGE_HOLDING) && resting;
    case OP_PRUNE:
        return stage_may_follow(stage, STAGE_PRUNED) && input->age[slot] >= PRUNE_MIN_AGE &&
               (resting || input->override_hold);
    case OP_FOSSILIZE:
        return stage == STAGE_HOLDING;
    default:
        return !input->advance_disabled && stage_advance_target(stage) != STAGE_UNKNOWN;
    }
}

/* `bits` of a head, shifted up to its columns. */
ESPER_RULE uint64_t mask_place(uint32_t bits, int slots, int head)
{
    return (uint64_t)bits << head_offset(slots, head);
}

/* Every choice of a head. */
ESPER_RULE uint64_t mask_all(int slots, int head)
{
    return mask_place((1u << head_size(slots, head)) - 1u, slots, head);
}

ESPER_RULE uint64_t mask_canonical(int slots, int head)
{
    return mask_place(1u << head_canonical(head), slots, head);
}

ESPER_RULE struct masks masks_of(const struct mask_input *input)
{
    struct masks masks;
    int slots = input->slots;
    uint32_t ops = 0;
    masks.base = 0;
    for (int op = 0; op < OP_COUNT; op++)
        masks.slots[op] = 0;
    if (!mask_input_is_valid(input))
        return masks;
    bool may_germinate = mask_may_germinate(input);
    for (int op = 0; op < OP_COUNT; op++) {
        for (int s = 0; s < slots; s++)
            if ((input->enabled >> s & 1u) && (op != OP_GERMINATE || may_germinate) && mask_allows(input, op, s))
                masks.slots[op] = (uint16_t)(masks.slots[op] | 1u << s);
        ops |= masks.slots[op] ? 1u << op : 0;
    }
    /* Style and target are chosen by these two ops only; with neither there is no choice to explore. */
    bool shaping = masks.slots[OP_GERMINATE] || masks.slots[OP_SET_ALPHA_TARGET];
    masks.base = mask_place(input->enabled, slots, HEAD_SLOT) | mask_place(input->blueprints, slots, HEAD_BLUEPRINT) |
                 (shaping ? mask_all(slots, HEAD_STYLE) : mask_canonical(slots, HEAD_STYLE)) |
                 mask_all(slots, HEAD_TEMPO) |
                 (shaping ? mask_all(slots, HEAD_ALPHA_TARGET) : mask_canonical(slots, HEAD_ALPHA_TARGET)) |
                 mask_all(slots, HEAD_ALPHA_SPEED) | mask_all(slots, HEAD_ALPHA_CURVE) |
                 mask_place(ops, slots, HEAD_OP);
    return masks;
}

/* The masks of an env: every slot enabled. `offered` are the family's blueprints; max_seeds 0: no limit. */
ESPER_RULE struct masks masks_of_slots(const struct slot_state *slot, int slots, uint32_t offered, int max_seeds,
                                       bool advance_disabled)
{
    uint8_t stage[HEAD_MAX_SLOTS], mode[HEAD_MAX_SLOTS];
    uint32_t age[HEAD_MAX_SLOTS], live = 0;
    for (int s = 0; s < slots; s++) {
        stage[s] = slot[s].stage;
        mode[s] = slot[s].alpha_mode;
        age[s] = slot[s].epochs_total;
        live += stage_is_live(slot[s].stage) ? 1u : 0u;
    }
    struct mask_input input = {slots, (1u << slots) - 1u, offered, live, (uint32_t)max_seeds,
                               false, advance_disabled,   stage,   mode, age};
    return masks_of(&input);
}

/*
 * The last step commits or waits: whatever else is done there would change the network after the validation that counts
 * (E-19). `measured` are the slots whose fossilisation leads to a network that was validated.
 */
ESPER_RULE void masks_commit_only(struct masks *masks, int slots, uint32_t measured)
{
    for (int op = 0; op < OP_COUNT; op++)
        if (op != OP_WAIT)
            masks->slots[op] = (uint16_t)(op == OP_FOSSILIZE ? masks->slots[op] & measured : 0u);
    if (masks->base == 0) /* the input was invalid */
        return;
    uint32_t ops = 1u << OP_WAIT | (masks->slots[OP_FOSSILIZE] ? 1u << OP_FOSSILIZE : 0u);
    masks->base &= ~(mask_all(slots, HEAD_STYLE) | mask_all(slots, HEAD_ALPHA_TARGET) | mask_all(slots, HEAD_OP));
    masks->base |= mask_canonical(slots, HEAD_STYLE) | mask_canonical(slots, HEAD_ALPHA_TARGET) |
                   mask_place(ops, slots, HEAD_OP);
}

/* All heads with the slots of this op: what the rollout stores (P-03). */
ESPER_RULE uint64_t mask_of_op(const struct masks *masks, int slots, int op)
{
    return (masks->base & ~mask_all(slots, HEAD_SLOT)) | mask_place(masks->slots[op], slots, HEAD_SLOT);
}

/* A stored mask as sampling and evaluation use it: a head that does not matter to the op has its one canonical choice,
   even where the base mask forbids it (NOOP). WAIT points at the lowest legal slot. */
ESPER_RULE uint64_t mask_effective(uint64_t stored, int slots, int op)
{
    uint64_t mask = stored;
    for (int head = 0; head < HEAD_COUNT; head++) {
        if (head_relevance(op) >> head & 1u)
            continue;
        uint64_t bits = stored & mask_all(slots, head);
        mask ^= bits;
        mask |= head == HEAD_SLOT ? bits & (~bits + 1u) : mask_canonical(slots, head);
    }
    return mask;
}

/* There was no choice: only WAIT was legal. */
ESPER_RULE bool mask_is_forced(uint64_t mask, int slots)
{
    return head_bits(mask, slots, HEAD_OP) == 1u << OP_WAIT;
}

#endif
