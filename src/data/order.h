/*
 * The order in which an env walks the training split.
 *
 * Sample n (an image, or the start of a window of text) of an env in a round is perm[n / N](n mod N): every pass over
 * the N samples is a fresh permutation, given by a keyed bijection instead of a shuffled list. Nothing is stored,
 * sorted or resumed, and any sample of any pass can be computed directly, on the host and on the device (E-09).
 */
#ifndef DATA_ORDER_H
#define DATA_ORDER_H

#include <stdint.h>

#include "base/philox.h"
#include "base/rule.h"

enum { ORDER_ROUNDS = 8 };

/* Not a pass: the permutation of the whole split whose first samples are those that an env has, where it has fewer. */
#define ORDER_OWN UINT32_MAX

/* One permutation of 0 .. count - 1. */
struct order {
    uint32_t key[ORDER_ROUNDS];
    uint32_t count;
    uint32_t half_bits; /* the network permutes 2 * half_bits bits, fewer than 4 * count numbers */
};

ESPER_RULE struct order order_of_pass(uint64_t seed, uint32_t round, uint32_t env, uint32_t pass, uint32_t count)
{
    struct random_site site = random_at(seed, STREAM_PERMUTATION, round, env, pass);
    struct order order;
    for (uint32_t block = 0; block < ORDER_ROUNDS / 4; block++) {
        struct philox_block words = random_block(site, block);
        for (int i = 0; i < 4; i++)
            order.key[4 * block + (uint32_t)i] = words.word[i];
    }
    order.count = count;
    order.half_bits = 0;
    while (order.half_bits < 16 && (1ull << (2 * order.half_bits)) < count)
        order.half_bits++;
    return order;
}

/* Two multiplications carry every bit of half and key into the upper half of the word; it is then folded down. */
ESPER_RULE uint32_t order_mix(uint32_t half, uint32_t key)
{
    uint32_t x = (half ^ key) * 0x9E3779B1u;
    x = (x ^ (x >> 15)) * 0x85EBCA77u;
    return x ^ (x >> 16);
}

/*
 * Where position `index` of the pass points. The Feistel network is a bijection of all 2 * half_bits-bit numbers;
 * walking its cycle until it is back below count makes it one of 0 .. count - 1.
 */
ESPER_RULE uint32_t order_at(const struct order *order, uint32_t index)
{
    const uint32_t bits = order->half_bits, mask = (1u << bits) - 1;
    do {
        uint32_t left = index >> bits, right = index & mask;
        for (int i = 0; i < ORDER_ROUNDS; i++) {
            uint32_t next = left ^ (order_mix(right, order->key[i]) & mask);
            left = right;
            right = next;
        }
        index = left << bits | right;
    } while (index >= order->count);
    return index;
}

/* The n-th sample that an env sees in a round, where it has `count` of the `whole` split. */
ESPER_RULE uint32_t order_sample(uint64_t seed, uint32_t round, uint32_t env, uint64_t n, uint32_t count,
                                 uint32_t whole)
{
    struct order order = order_of_pass(seed, round, env, (uint32_t)(n / count), count);
    const uint32_t sample = order_at(&order, (uint32_t)(n % count));
    if (count == whole)
        return sample;
    order = order_of_pass(seed, round, env, ORDER_OWN, whole);
    return order_at(&order, sample);
}

#endif
