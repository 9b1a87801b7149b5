/* How an epoch deals the envs out into mini-batches: a keyed shuffle, the same on every backend (L-22). */
#ifndef LEARN_DEAL_H
#define LEARN_DEAL_H

#include "base/philox.h"

/* order[envs]: a permutation. Mini-batch k of n takes places k * envs / n up to those of k + 1. */
ESPER_RULE void deal_envs(uint64_t seed, uint32_t update, int epoch, int envs, int32_t *order)
{
    const struct random_site site = random_at(seed, STREAM_MINIBATCH, update & 0xFFFFFFu, 0, (uint32_t)epoch);
    for (int i = 0; i < envs; i++) { /* env i goes to a place up to the i-th, whose env moves to the i-th */
        const int place = (int)((uint64_t)random_word(site, (uint32_t)i) * (uint64_t)(i + 1) >> 32);
        order[i] = order[place];
        order[place] = i;
    }
}

#endif
