/*
 * Philox4x32-10, the counter-based generator behind every random number.
 *
 * key = the 64-bit run seed, counter = (block, a, env, stream * 2^24 + round). Nothing is ever drawn "next": a number
 * is a function of where it is used, so results depend neither on the order of work nor on threads, envs or resumes.
 */
#ifndef BASE_PHILOX_H
#define BASE_PHILOX_H

#include <math.h>
#include <stdint.h>

#include "base/rule.h"

enum random_stream {
    STREAM_POLICY_INIT = 1, /* a = tensor, block = element / 4 */
    STREAM_HOST_INIT = 2,   /* a = tensor, block = element / 4 */
    STREAM_PERMUTATION = 3, /* a = pass, blocks 0 and 1 hold eight round keys */
    STREAM_AUGMENT = 4,     /* a = step * 2^16 + batch, block = sample: words top, left, flip */
    STREAM_SEED_INIT = 6,   /* a = germination * 2^16 + slot * 2^8 + tensor, block = element / 4 */
    STREAM_ACTION = 7,      /* a = step, block = head / 4 */
    STREAM_SHAPLEY = 8,     /* a = step, block = pair */
    STREAM_SYNTHETIC = 9,   /* a = split, env word = image, round 0, block = draw / 4 */
    STREAM_RANDOM_POLICY = 10,
    STREAM_MINIBATCH = 11,  /* round = update, a = epoch, element = place in the deal */
    STREAM_SEARCH = 12,     /* env word 0: a = random schedule; env word 1: a = stage, its seed */
    STREAM_CONDITIONS = 13, /* a = 0: an episode's conditions; a = 1, block = image: its label */
    STREAM_EXAM = 14,       /* a = resample */
    STREAM_LANGUAGE = 15,   /* a = split, env word = line, round 0, block = draw / 4 */
    STREAM_SAMPLE = 16,     /* element = byte of a sampled text */
    STREAM_IMPORT = 17,     /* element = image: its place in its class and in its split */
    STREAM_SWEEP = 18,      /* env word = axis, a = draw */
    STREAM_LESSON = 19      /* a = 0, element / 2 = schedule: what is believed of it */
};

struct philox_block {
    uint32_t word[4];
};

/* Where a draw is made; block and word are added by the functions below. */
struct random_site {
    uint64_t seed;
    uint32_t a, env, stream_round;
};

ESPER_RULE struct random_site random_at(uint64_t seed, enum random_stream stream, uint32_t round, uint32_t env,
                                        uint32_t a)
{
    struct random_site site = {seed, a, env, ((uint32_t)stream << 24) + round};
    return site;
}

ESPER_RULE struct philox_block philox(uint64_t seed, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3)
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    struct philox_block out = {{c0, c1, c2, c3}};
    return out;
}

ESPER_RULE struct philox_block random_block(struct random_site at, uint32_t block)
{
    return philox(at.seed, block, at.a, at.env, at.stream_round);
}

/* Element i of a site uses word i mod 4 of block i / 4. */
ESPER_RULE uint32_t random_word(struct random_site at, uint32_t element)
{
    return random_block(at, element / 4).word[element % 4];
}

/* Uniform in [0, 1) on a grid of 2^-24: exact in f32. */
ESPER_RULE float random_unit(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* Uniform in [-bound, bound), rounded once. */
ESPER_RULE float random_symmetric(uint32_t word, double bound)
{
    return (float)((2.0 * (double)random_unit(word) - 1.0) * bound);
}

#endif
