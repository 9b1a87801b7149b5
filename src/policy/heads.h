/*
 * The factored action: eight heads in a fixed order. Their logits are stored side by side, and one 64-bit word holds
 * every head's mask, bit i for logit column i (P-01).
 */
#ifndef POLICY_HEADS_H
#define POLICY_HEADS_H

#include "morph/action.h"

enum { HEAD_MAX_SLOTS = 16, HEAD_MAX_LOGITS = 38 + HEAD_MAX_SLOTS };

ESPER_RULE int head_size(int slots, int head)
{
    const int size[HEAD_COUNT] = {0,
                                  BLUEPRINT_HEAD_SIZE,
                                  STYLE_COUNT,
                                  TEMPO_COUNT,
                                  ALPHA_TARGET_COUNT,
                                  ALPHA_SPEED_COUNT,
                                  ALPHA_CURVE_COUNT,
                                  OP_COUNT};
    return head == HEAD_SLOT ? slots : size[head];
}

/* The head's first logit column; head HEAD_COUNT gives the number of logits, 38 + slots. */
ESPER_RULE int head_offset(int slots, int head)
{
    const int offset[HEAD_COUNT + 1] = {0, 0, 13, 17, 20, 23, 27, 32, 38};
    return head == HEAD_SLOT ? 0 : slots + offset[head];
}

/* The head that a logit column belongs to. */
ESPER_RULE int head_of_column(int slots, int column)
{
    int head = 0;
    while (column >= head_offset(slots, head + 1))
        head++;
    return head;
}

/* The choice that means "not used". The slot's is the lowest one, which is index 0: every slot is enabled. */
ESPER_RULE int head_canonical(int head)
{
    const int canonical[HEAD_COUNT] = {0, BLUEPRINT_NOOP, STYLE_SIGMOID_ADD, 1, 2, 0, 0, OP_WAIT};
    return canonical[head];
}

/* Bit h: head h matters to the op (P-04). */
ESPER_RULE uint8_t head_relevance(int op)
{
    const uint8_t bits[OP_COUNT] = {0x80, 0x9F, 0xF5, 0xE1, 0x81, 0x81};
    return bits[op];
}

/* Bit h: head h could have mattered, given the allowed ops (bit o: op o). */
ESPER_RULE uint8_t head_availability(unsigned ops)
{
    uint8_t bits = 0;
    for (int op = 0; op < OP_COUNT; op++)
        bits = (uint8_t)(bits | ((ops >> op & 1u) ? head_relevance(op) : 0));
    return bits;
}

/* The mask bits of one head, shifted down to bit 0. */
ESPER_RULE uint32_t head_bits(uint64_t mask, int slots, int head)
{
    return (uint32_t)(mask >> head_offset(slots, head)) & ((1u << head_size(slots, head)) - 1u);
}

ESPER_RULE struct action action_of_heads(const uint8_t choice[HEAD_COUNT])
{
    struct action action;
#define HEAD_TAKE(with, NAME, name) action.name = choice[HEAD_##NAME];
    HEADS(HEAD_TAKE, )
#undef HEAD_TAKE
    return action;
}

ESPER_RULE void heads_of_action(const struct action *action, uint8_t choice[HEAD_COUNT])
{
#define HEAD_GIVE(with, NAME, name) choice[HEAD_##NAME] = action->name;
    HEADS(HEAD_GIVE, )
#undef HEAD_GIVE
}

#endif
