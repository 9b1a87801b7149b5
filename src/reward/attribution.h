/*
 * Attribution: the value of each seed, from the network's accuracy with some seeds on and the others off.
 *
 * A game of n players is a table of 2^n values, bit i of the index = player i takes part. The subset table of a
 * validation (morph/subsets.h) is such a game up to four seeds; beyond that it holds only its edges, and the shares are
 * half sums (exact when no three seeds interact). Sampled Shapley values are computed only for an episode's outcome.
 */
#ifndef REWARD_ATTRIBUTION_H
#define REWARD_ATTRIBUTION_H

#include <math.h>

#include "base/philox.h"
#include "morph/subsets.h"

enum {
    ATTRIBUTION_PLAYERS = SUBSETS_SLOTS,
    SHAPLEY_PAIRS = 16, /* permutations drawn, each walked forwards and backwards */
    SHAPLEY_MASKS = SHAPLEY_PAIRS * 2 * (ATTRIBUTION_PLAYERS - 1) + 2
};

ESPER_RULE int attribution_bits(uint32_t mask)
{
    int count = 0;
    for (; mask; mask &= mask - 1)
        count++;
    return count;
}

/* ---- whole tables ----------------------------------------------------------------------------------------------- */

/* Mean over all orders of arrival of what the player adds; the weights |S|!(n-1-|S|)!/n! depend on the size alone. */
ESPER_RULE double attribution_shapley(const double *value, int players, int player)
{
    double weight[ATTRIBUTION_PLAYERS], sum = 0.0;
    uint32_t own = 1u << player;
    weight[0] = 1.0 / players;
    for (int size = 1; size < players; size++)
        weight[size] = weight[size - 1] * size / (players - size);
    for (uint32_t mask = 0; mask < 1u << players; mask++)
        if (!(mask & own))
            sum += weight[attribution_bits(mask)] * (value[mask | own] - value[mask]);
    return sum;
}

/* Mean over all coalitions of what the player adds. */
ESPER_RULE double attribution_banzhaf(const double *value, int players, int player)
{
    double sum = 0.0;
    uint32_t own = 1u << player, size = 1u << players;
    for (uint32_t mask = 0; mask < size; mask++)
        if (!(mask & own))
            sum += value[mask | own] - value[mask];
    return 2.0 * sum / size;
}

/* What two players add together beyond what each adds alone. */
ESPER_RULE double attribution_interaction(const double *value, int a, int b)
{
    return value[1u << a | 1u << b] - value[1u << a] - value[1u << b] + value[0];
}

/* ---- the subset table of a validation --------------------------------------------------------------------------- */

/* The subsets of up to four seeds as a game; player k is the k-th slot of A. False beyond four. */
ESPER_RULE bool attribution_game(const struct subsets *subsets, double value[1 << SUBSETS_EXACT],
                                 int slot_of[SUBSETS_EXACT])
{
    int players = 0;
    if (subsets->seeds > SUBSETS_EXACT)
        return false;
    for (int j = 0; j < SUBSETS_SLOTS; j++)
        if (subsets->all >> j & 1u)
            slot_of[players++] = j;
    for (uint32_t game = 0; game < 1u << players; game++) {
        uint32_t mask = 0;
        for (int k = 0; k < players; k++)
            mask |= (game >> k & 1u) << slot_of[k];
        value[game] = subset_score(subsets, mask);
    }
    return true;
}

/* A seed's share of what all seeds of A add (R-20: exact up to four, half sum beyond). */
ESPER_RULE double attribution_share(const struct subsets *subsets, int slot)
{
    double value[1 << SUBSETS_EXACT];
    int slot_of[SUBSETS_EXACT], player = 0;
    if (!attribution_game(subsets, value, slot_of)) {
        double alone = subset_score(subsets, 1u << slot) - subset_score(subsets, 0);
        return 0.5 * (alone + subset_contribution(subsets, slot));
    }
    while (slot_of[player] != slot)
        player++;
    return attribution_shapley(value, subsets->seeds, player);
}

/*
 * The original's K, one number per env: the accuracy lost with all seeds off, else the greatest loss with one off, else
 * missing. NAN = not measured.
 */
ESPER_RULE double attribution_total(double accuracy, double all_off, const double *one_off, int slots)
{
    double least = all_off;
    for (int j = 0; isnan(all_off) && j < slots; j++)
        if (!isnan(one_off[j]))
            least = isnan(least) ? one_off[j] : fmin(least, one_off[j]);
    return accuracy - least;
}

/* The same on the subset table. The original never switched fossils off: only rows that keep them on are read. */
ESPER_RULE double attribution_total_of(const struct subsets *subsets, uint32_t fossils)
{
    double one_off[SUBSETS_SLOTS], all_off = (double)NAN;
    uint32_t kept = subsets->all & fossils, tried = subsets->all & ~fossils;
    int seeds = attribution_bits(tried);
    for (int j = 0; j < SUBSETS_SLOTS; j++)
        one_off[j] = tried >> j & 1u ? subset_score(subsets, subsets->all & ~(1u << j)) : (double)NAN;
    if (seeds >= 2 && seeds <= SUBSETS_EXACT) /* beyond four the original measured no "all off" */
        all_off = subset_score(subsets, kept);
    return attribution_total(subset_score(subsets, subsets->all), all_off, one_off, SUBSETS_SLOTS);
}

/* ---- sampled Shapley -------------------------------------------------------------------------------------------- */

/* A permutation of up to 16 players is held in one word: nibble k = the player at place k. */
ESPER_RULE int shapley_player(uint64_t order, int place)
{
    return (int)(order >> (4 * place) & 15u);
}

ESPER_RULE uint64_t shapley_swap(uint64_t order, int a, int b)
{
    uint64_t difference = (order >> (4 * a) ^ order >> (4 * b)) & 15u;
    return order ^ difference << (4 * a) ^ difference << (4 * b);
}

/* Pair `pair` of an env's step: Fisher-Yates on the 64-bit fraction of its block, each digit in a larger base. */
ESPER_RULE uint64_t shapley_order(struct random_site site, uint32_t pair, int players)
{
    struct philox_block block = random_block(site, pair);
    uint64_t fraction = (uint64_t)block.word[0] << 32 | block.word[1], order = 0xFEDCBA9876543210u;
    for (int place = players - 1; place > 0; place--) {
        uint64_t choices = (uint64_t)place + 1;
        uint64_t carry = ((fraction & 0xFFFFFFFFu) * choices) >> 32;
        int pick = (int)(((fraction >> 32) * choices + carry) >> 32);
        fraction *= choices;
        order = shapley_swap(order, place, pick);
    }
    return order;
}

/* The coalition of the first `count` arrivals; backwards: of the last. */
ESPER_RULE uint32_t shapley_prefix(uint64_t order, int players, int count, bool backwards)
{
    uint32_t mask = 0;
    for (int k = 0; k < count; k++)
        mask |= 1u << shapley_player(order, backwards ? players - 1 - k : k);
    return mask;
}

/* Running mean and squared deviations of the pairs' estimates, by player. */
struct shapley_sums {
    int pairs;
    double mean[ATTRIBUTION_PLAYERS], m2[ATTRIBUTION_PLAYERS];
};

ESPER_RULE void shapley_clear(struct shapley_sums *sums)
{
    sums->pairs = 0;
    for (int i = 0; i < ATTRIBUTION_PLAYERS; i++)
        sums->mean[i] = sums->m2[i] = 0.0;
}

/* One pair: forward[k] and backward[k] are the values of the coalitions of k arrivals, k = 0..players. */
ESPER_RULE void shapley_add(struct shapley_sums *sums, uint64_t order, int players, const double *forward,
                            const double *backward)
{
    sums->pairs++;
    for (int k = 0; k < players; k++) {
        int player = shapley_player(order, k), back = players - 1 - k;
        double x = 0.5 * (forward[k + 1] - forward[k] + backward[back + 1] - backward[back]);
        double delta = x - sums->mean[player];
        sums->mean[player] += delta / sums->pairs;
        sums->m2[player] += delta * (x - sums->mean[player]);
    }
}

/* Standard error of a player's mean; NAN, unknown, with one pair. */
ESPER_RULE double shapley_error(const struct shapley_sums *sums, int player)
{
    int pairs = sums->pairs;
    return pairs < 2 ? (double)NAN : sqrt(sums->m2[player] / (pairs - 1)) / sqrt((double)pairs);
}

/* The coalitions to evaluate for an estimate, without repetition, as masks of slots. The caller fills `score`. */
struct shapley_plan {
    int players, count;
    uint8_t slot[ATTRIBUTION_PLAYERS];
    uint64_t order[SHAPLEY_PAIRS];
    uint32_t mask[SHAPLEY_MASKS];
    double score[SHAPLEY_MASKS]; /* points */
};

ESPER_RULE uint32_t shapley_slots(const struct shapley_plan *plan, uint32_t coalition)
{
    uint32_t mask = 0;
    for (int i = 0; i < plan->players; i++)
        mask |= (coalition >> i & 1u) << plan->slot[i];
    return mask;
}

ESPER_RULE int shapley_find(const struct shapley_plan *plan, uint32_t mask)
{
    for (int k = 0; k < plan->count; k++)
        if (plan->mask[k] == mask)
            return k;
    return -1;
}

/* `all` = the slots that take part; `site` = stream 8 at the env's step. */
ESPER_RULE void shapley_plan_draw(struct shapley_plan *plan, uint32_t all, struct random_site site)
{
    plan->players = plan->count = 0;
    for (int j = 0; j < ATTRIBUTION_PLAYERS; j++)
        if (all >> j & 1u)
            plan->slot[plan->players++] = (uint8_t)j;
    for (int pair = 0; pair < SHAPLEY_PAIRS; pair++) {
        plan->order[pair] = shapley_order(site, (uint32_t)pair, plan->players);
        for (int k = 0; k <= plan->players; k++)
            for (int way = 0; way < 2; way++) {
                uint32_t mask = shapley_slots(plan, shapley_prefix(plan->order[pair], plan->players, k, way == 1));
                if (shapley_find(plan, mask) < 0) {
                    plan->mask[plan->count] = mask;
                    plan->score[plan->count++] = 0;
                }
            }
    }
}

ESPER_RULE double shapley_value(const struct shapley_plan *plan, uint32_t coalition)
{
    return plan->score[shapley_find(plan, shapley_slots(plan, coalition))];
}

/* After the evaluation. Player i of the sums is slot plan->slot[i]. */
ESPER_RULE void shapley_estimate(const struct shapley_plan *plan, struct shapley_sums *sums)
{
    double forward[ATTRIBUTION_PLAYERS + 1], backward[ATTRIBUTION_PLAYERS + 1];
    shapley_clear(sums);
    for (int pair = 0; pair < SHAPLEY_PAIRS; pair++) {
        uint64_t order = plan->order[pair];
        for (int k = 0; k <= plan->players; k++) {
            forward[k] = shapley_value(plan, shapley_prefix(order, plan->players, k, false));
            backward[k] = shapley_value(plan, shapley_prefix(order, plan->players, k, true));
        }
        shapley_add(sums, order, plan->players, forward, backward);
    }
}

#endif
