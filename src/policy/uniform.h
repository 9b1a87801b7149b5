/*
 * The random policy (P-21): any legal op, as often as its rate says, then any legal choice of each head that matters to
 * it, all equally likely.
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

/* A rate as a whole number, so that the draw is exact on every machine; up to 1000, six of them fit into 32 bits. */
ESPER_RULE uint32_t uniform_weight(double rate)
{
    return (uint32_t)(rate * 65536.0 + 0.5);
}

/* One of the set bits, bit i as often as rate[i] says relative to the others; with equal rates the choice is
 * uniform_choice's. If all of them are 0: bit `idle` where it is set, otherwise any. */
ESPER_RULE uint8_t uniform_rated(uint32_t bits, const double *rate, uint8_t idle, uint32_t word)
{
    uint64_t total = 0, at, sum = 0;
    uint8_t choice = 0;
    for (uint8_t i = 0; bits >> i; i++)
        total += (bits >> i & 1u) ? uniform_weight(rate[i]) : 0;
    if (total == 0)
        return (bits >> idle & 1u) ? idle : uniform_choice(bits, word);
    at = (uint64_t)word * total >> 32;
    for (;; choice++) {
        sum += (bits >> choice & 1u) ? uniform_weight(rate[choice]) : 0;
        if (at < sum)
            return choice;
    }
}

/* `site`: STREAM_RANDOM_POLICY with a = step; head h draws element h, whatever the others are. */
ESPER_RULE struct action uniform_decide(const struct masks *masks, int slots, const double rate[OP_COUNT],
                                        struct random_site site)
{
    uint8_t choice[HEAD_COUNT];
    int op = uniform_rated(head_bits(masks->base, slots, HEAD_OP), rate, OP_WAIT, random_word(site, HEAD_OP));
    uint64_t mask = mask_effective(mask_of_op(masks, slots, op), slots, op);
    for (int head = 0; head < HEAD_OP; head++)
        choice[head] = uniform_choice(head_bits(mask, slots, head), random_word(site, (uint32_t)head));
    choice[HEAD_OP] = (uint8_t)op;
    return action_of_heads(choice);
}

#endif
