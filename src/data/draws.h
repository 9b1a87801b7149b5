/* Integers drawn one after the other from one random site, for what is made in memory: images and a language. */
#ifndef DATA_DRAWS_H
#define DATA_DRAWS_H

#include <stdint.h>

#include "base/philox.h"

/* The words of a site, in order; a block is computed once for its four words. */
struct draws {
    struct random_site site;
    struct philox_block block;
    uint32_t next;
};

static inline uint32_t draws_word(struct draws *draws)
{
    const uint32_t lane = draws->next % 4;
    if (lane == 0)
        draws->block = random_block(draws->site, draws->next / 4);
    draws->next++;
    return draws->block.word[lane];
}

/* U{low..high} = low + (word * (high - low + 1) >> 32) */
static inline int draws_uniform(struct draws *draws, int low, int high)
{
    return low + (int)((uint64_t)draws_word(draws) * (uint64_t)(high - low + 1) >> 32);
}

#endif
