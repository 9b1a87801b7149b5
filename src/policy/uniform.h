/*
 * The random policy: any legal op with equal probability, then any legal choice of each head that matters to it.
 */
#ifndef POLICY_UNIFORM_H
#define POLICY_UNIFORM_H

#include "base/philox.h"
#include "policy/masks.h"

/* One of the set bits, all equally likely. There is at least one. */
ESPER_RULE uint8_t uniform_choice(uint32_t bits, uint32_t word)
{
    uint32_t count = 0, skip;
    for (uint32_t rest = bits; rest; rest &= rest - 1u)
        count++;
    skip = (uint32_t)((uint64_t)word * count >> 32);
    for (; skip > 0; skip--)
        bits &= bits - 1u;
    uint8_t choice = 0;
    while (!(bits >> choice & 1u))
        choice++;
    return choice;
}

/* `site`: STREAM_RANDOM_POLICY with a = step; head h draws element h, whatever the others are. */
ESPER_RULE struct action uniform_decide(const struct masks *masks, int slots, struct random_site site)
{
    uint8_t choice[HEAD_COUNT];
    int op = uniform_choice(head_bits(masks->base, slots, HEAD_OP), random_word(site, HEAD_OP));
    uint64_t mask = mask_effective(mask_of_op(masks, slots, op), slots, op);
    for (int head = 0; head < HEAD_OP; head++)
        choice[head] = uniform_choice(head_bits(mask, slots, head), random_word(site, (uint32_t)head));
    choice[HEAD_OP] = (uint8_t)op;
    return action_of_heads(choice);
}

#endif
