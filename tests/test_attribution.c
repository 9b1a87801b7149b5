/* Attribution: Shapley values, interactions, shares of the subset table, sampled estimates.
 */
#include "testing_reward.h"

#define NEAR 1e-9

static double game[1 << 8];

/* Random values; `order` 1: additive, 2: pairs interact as well, 3: anything. */
static void game_fill(uint32_t *random, int players, int order)
{
    double single[8], pair[8][8];
    for (int i = 0; i < 8; i++) {
        single[i] = draw(random, -3, 6);
        for (int j = 0; j < 8; j++)
            pair[i][j] = order >= 2 ? draw(random, -2, 2) : 0;
    }
    for (uint32_t mask = 0; mask < 1u << players; mask++) {
        game[mask] = order >= 3 ? draw(random, 40, 60) : 50;
        for (int i = 0; i < players; i++)
            for (int j = i; j < players; j++)
                if ((mask >> i & 1u) && (mask >> j & 1u))
                    game[mask] += i == j ? single[i] : pair[i][j];
    }
}

/* ---- exact ------------------------------------------------------------------------------------------------------ */

static void shares_add_up(void **state)
{
    (void)state;
    uint32_t random = 1;
    for (int n = 1; n <= 8; n++)
        for (int k = 0; k < 20; k++) {
            double sum = 0;
            game_fill(&random, n, 3);
            for (int i = 0; i < n; i++)
                sum += attribution_shapley(game, n, i);
            assert_true(fabs(sum - (game[(1u << n) - 1] - game[0])) < NEAR);
        }
}

static void additive_games_are_read_exactly(void **state)
{
    (void)state;
    uint32_t random = 2;
    for (int n = 1; n <= 8; n++) {
        game_fill(&random, n, 1);
        for (int i = 0; i < n; i++) {
            double own = game[1u << i] - game[0];
            assert_true(fabs(attribution_shapley(game, n, i) - own) < NEAR);
            assert_true(fabs(attribution_banzhaf(game, n, i) - own) < NEAR);
            for (int j = 0; j < n; j++)
                assert_true(i == j || fabs(attribution_interaction(game, i, j)) < NEAR);
        }
    }
}

/* Players 0 and 1 may swap places, player 2 contributes nothing. */
static void equals_get_equal_shares_and_idlers_none(void **state)
{
    (void)state;
    uint32_t random = 3;
    const int n = 5;
    for (int k = 0; k < 50; k++) {
        game_fill(&random, n, 3);
        for (uint32_t mask = 0; mask < 1u << n; mask++) {
            if ((mask & 3u) == 2)
                game[mask] = game[mask ^ 3u];
            if (mask & 4u)
                game[mask] = game[mask ^ 4u];
        }
        assert_true(fabs(attribution_shapley(game, n, 0) - attribution_shapley(game, n, 1)) < NEAR);
        assert_true(fabs(attribution_shapley(game, n, 2)) < NEAR);
        assert_true(fabs(attribution_shapley(game, n, 3)) > NEAR);
    }
}

/* ---- the subset table ------------------------------------------------------------------------------------------- */

static void table_fill(struct subsets *subsets, const int *slot_of, int players)
{
    for (int k = 0; k < subsets->count; k++) {
        uint32_t coalition = 0;
        for (int i = 0; i < players; i++)
            coalition |= (subsets->mask[k] >> slot_of[i] & 1u) << i;
        subsets->score[k] = game[coalition];
    }
}

static void a_table_of_four_seeds_gives_shapley_values(void **state)
{
    (void)state;
    uint32_t random = 4;
    static const int slot_of[] = {1, 2, 7, 15};
    for (int n = 1; n <= 4; n++)
        for (int k = 0; k < 20; k++) {
            struct subsets subsets;
            uint32_t all = 0;
            for (int i = 0; i < n; i++)
                all |= 1u << slot_of[i];
            game_fill(&random, n, 3);
            subsets_plan(&subsets, all, 0);
            table_fill(&subsets, slot_of, n);
            for (int i = 0; i < n; i++) {
                double share = attribution_share(&subsets, slot_of[i]);
                assert_true(fabs(share - attribution_shapley(game, n, i)) < 1e-6);
            }
        }
}

/* Beyond four the half sum is exact as long as no three seeds interact, and not beyond. */
static void a_table_of_more_seeds_gives_half_sums(void **state)
{
    (void)state;
    uint32_t random = 5;
    static const int slot_of[] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int order = 2; order <= 3; order++)
        for (int n = 5; n <= 8; n++) {
            struct subsets subsets;
            double worst = 0;
            game_fill(&random, n, order);
            subsets_plan(&subsets, (1u << n) - 1, 0);
            assert_int_equal(subsets.count, 2 * n + 2);
            table_fill(&subsets, slot_of, n);
            for (int i = 0; i < n; i++)
                worst = fmax(worst, fabs(attribution_share(&subsets, i) - attribution_shapley(game, n, i)));
            assert_true(order == 2 ? worst < 1e-6 : worst > 1e-3);
        }
}

/* The original's K: fossils stay on; one seed: its own loss; two to four: all off; beyond: the greatest single loss. */
static void the_original_total_keeps_fossils_on(void **state)
{
    (void)state;
    uint32_t random = 6;
    static const int slot_of[] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int n = 1; n <= 8; n++)
        for (int fossils = 0; fossils <= n && n - fossils <= 7; fossils++) {
            struct subsets subsets;
            uint32_t all = (1u << n) - 1, kept = (1u << fossils) - 1;
            int growing = n - fossils;
            game_fill(&random, n, 3);
            subsets_plan(&subsets, all, kept);
            table_fill(&subsets, slot_of, n);
            double total = attribution_total_of(&subsets, kept), least = INFINITY;
            for (int i = fossils; i < n; i++)
                least = fmin(least, game[all & ~(1u << i)]);
            if (growing == 0)
                assert_true(isnan(total));
            else
                assert_true(fabs(total - (game[all] - (growing >= 2 && growing <= 4 ? game[kept] : least))) < 1e-6);
        }
}

/* ---- sampled ---------------------------------------------------------------------------------------------------- */

static struct random_site site(uint64_t seed, uint32_t env, uint32_t step)
{
    return random_at(seed, STREAM_SHAPLEY, 3, env, step);
}

static void orders_are_fair_permutations(void **state)
{
    (void)state;
    for (int n = 1; n <= 16; n++) {
        int first[16] = {0};
        const int draws = 4000;
        for (int pair = 0; pair < draws; pair++) {
            uint64_t order = shapley_order(site(42, 0, 40), (uint32_t)pair, n);
            assert_int_equal(shapley_prefix(order, n, n, false), (1u << n) - 1);
            first[shapley_player(order, 0)]++;
        }
        for (int i = 0; i < n; i++) /* five standard deviations of a binomial count */
            assert_true(fabs(first[i] - (double)draws / n) <= 5 * sqrt((double)draws / n));
    }
    assert_true(shapley_order(site(42, 0, 40), 7, 16) == shapley_order(site(42, 0, 40), 7, 16));
    assert_true(shapley_order(site(42, 0, 40), 7, 16) != shapley_order(site(42, 1, 40), 7, 16));
    assert_true(shapley_order(site(42, 0, 40), 7, 16) != shapley_order(site(43, 0, 40), 7, 16));
}

static void estimate(uint64_t seed, int players, struct shapley_plan *plan, struct shapley_sums *sums)
{
    shapley_plan_draw(plan, (1u << players) - 1, site(seed, 0, 40));
    for (int k = 0; k < plan->count; k++)
        plan->score[k] = game[plan->mask[k]];
    shapley_estimate(plan, sums);
}

static void estimates_are_near_the_truth(void **state)
{
    (void)state;
    static struct shapley_plan plan;
    struct shapley_sums sums;
    uint32_t random = 7;
    for (int n = 5; n <= 8; n++) {
        int outside = 0, tries = 0;
        for (uint64_t seed = 0; seed < 40; seed++) {
            double sum = 0;
            game_fill(&random, n, 3);
            estimate(seed, n, &plan, &sums);
            assert_true(plan.count <= SHAPLEY_PAIRS * 2 * (n - 1) + 2);
            for (int i = 0; i < n; i++, tries++) {
                outside += fabs(sums.mean[i] - attribution_shapley(game, n, i)) > 3 * shapley_error(&sums, i);
                sum += sums.mean[i];
            }
            assert_true(fabs(sum - (game[(1u << n) - 1] - game[0])) < 1e-6);
        }
        assert_true(outside <= tries / 25); /* three standard errors of 16 samples: about 1 in 110 */
    }
}

static void estimates_of_additive_games_are_exact(void **state)
{
    (void)state;
    static struct shapley_plan plan;
    struct shapley_sums sums;
    uint32_t random = 8;
    game_fill(&random, 6, 1);
    estimate(1, 6, &plan, &sums);
    for (int i = 0; i < 6; i++) {
        assert_true(fabs(sums.mean[i] - (game[1u << i] - game[0])) < 1e-6);
        assert_true(shapley_error(&sums, i) < 1e-6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_add_up),
        cmocka_unit_test(additive_games_are_read_exactly),
        cmocka_unit_test(equals_get_equal_shares_and_idlers_none),
        cmocka_unit_test(a_table_of_four_seeds_gives_shapley_values),
        cmocka_unit_test(a_table_of_more_seeds_gives_half_sums),
        cmocka_unit_test(the_original_total_keeps_fossils_on),
        cmocka_unit_test(orders_are_fair_permutations),
        cmocka_unit_test(estimates_are_near_the_truth),
        cmocka_unit_test(estimates_of_additive_games_are_exact),
    };
    return cmocka_run_group_tests_name("attribution", tests, NULL, NULL);
}
