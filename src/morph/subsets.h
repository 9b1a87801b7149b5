/*
 * Which sets of seeds a validation measures, and what follows from their scores. A = the live seeds with alpha > 0,
 * fossils included; a configuration is the bit mask of the slots that are on, at their current alpha.
 *
 * For up to four seeds all 2^n subsets are measured; beyond that: all, each off, each alone, none, and fossils only.
 * The whole set comes first, so configuration 0 is the current network.
 */
#ifndef MORPH_SUBSETS_H
#define MORPH_SUBSETS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rule.h"

enum { SUBSETS_SLOTS = 16, SUBSETS_EXACT = 4, SUBSETS_MAX = 2 * SUBSETS_SLOTS + 3 };

struct subsets {
    uint32_t all; /* A as a mask of slots */
    int seeds, count;
    uint32_t mask[SUBSETS_MAX];
    double score[SUBSETS_MAX]; /* points (morph/score.h); filled by the evaluation */
};

ESPER_RULE int subset_find(const struct subsets *subsets, uint32_t mask)
{
    for (int k = 0; k < subsets->count; k++)
        if (subsets->mask[k] == mask)
            return k;
    return -1;
}

ESPER_RULE void subset_add(struct subsets *subsets, uint32_t mask)
{
    if (subset_find(subsets, mask) < 0)
        subsets->mask[subsets->count++] = mask;
}

/* `blended` holds the slots of A, `fossils` those of them that are fossils. */
ESPER_RULE void subsets_plan(struct subsets *subsets, uint32_t blended, uint32_t fossils)
{
    subsets->all = blended;
    subsets->seeds = subsets->count = 0;
    for (int j = 0; j < SUBSETS_SLOTS; j++)
        subsets->seeds += (blended >> j) & 1u;
    for (int k = 0; k < SUBSETS_MAX; k++)
        subsets->score[k] = subsets->mask[k] = 0;
    if (subsets->seeds <= SUBSETS_EXACT) {
        uint32_t mask = blended; /* from the whole set down to the empty one */
        for (;;) {
            subset_add(subsets, mask);
            if (mask == 0)
                break;
            mask = (mask - 1) & blended;
        }
        return;
    }
    subset_add(subsets, blended);
    for (int j = 0; j < SUBSETS_SLOTS; j++)
        if ((blended >> j) & 1u)
            subset_add(subsets, blended & ~(1u << j));
    for (int j = 0; j < SUBSETS_SLOTS; j++)
        if ((blended >> j) & 1u)
            subset_add(subsets, 1u << j);
    subset_add(subsets, 0);
    subset_add(subsets, fossils);
}

/* The points of a measured subset of A. */
ESPER_RULE double subset_score(const struct subsets *subsets, uint32_t mask)
{
    return subsets->score[subset_find(subsets, mask)];
}

/* What the network loses without the seed: f(A) - f(A without it). */
ESPER_RULE double subset_contribution(const struct subsets *subsets, int slot)
{
    uint32_t all = subsets->all;
    return subset_score(subsets, all) - subset_score(subsets, all & ~(1u << slot));
}

/*
 * Sum over the other seeds of the pair's interaction f(ij) - f(i) - f(j) + f(none); from two seeds on. Beyond exact
 * tables pairs are unmeasured and the sum is what the seed adds to all others minus what it adds alone.
 */
ESPER_RULE double subset_interaction(const struct subsets *subsets, int slot)
{
    uint32_t own = 1u << slot;
    if (subsets->seeds < 2)
        return 0.0;
    double none = subset_score(subsets, 0), alone = subset_score(subsets, own), sum = 0.0;
    if (subsets->seeds > SUBSETS_EXACT)
        return subset_contribution(subsets, slot) - (alone - none);
    for (int j = 0; j < SUBSETS_SLOTS; j++) {
        uint32_t other = 1u << j;
        if (j != slot && (subsets->all & other))
            sum += subset_score(subsets, own | other) - alone - subset_score(subsets, other) + none;
    }
    return sum;
}

#endif
