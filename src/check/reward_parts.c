#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/reward_case.h"
#include "learn/diagnostics.h"
#include "reward/reward.h"

#define PERCENTILE_TOLERANCE 1e-6 /* the original computed these in single precision */

/* ---- attribution ------------------------------------------------------------------------------------------------ */

/* A table of 2^n accuracies; the caller frees it. NULL with a complaint when there is none. */
static double *read_game(struct reward_case *c, const cJSON *in, int *players)
{
    int count;
    double *value = case_numbers(c, in, "acc_by_mask", &count);
    *players = case_integer(c, in, "n", 0);
    if (value && !c->problem[0] && *players >= 1 && *players <= ATTRIBUTION_PLAYERS && count == 1 << *players)
        return value;
    case_complain(c, "not a table of 2^n accuracies", "acc_by_mask");
    free(value);
    return NULL;
}

/* The same game as the table of a validation, in slots 0, 2, 4, ... so that players and slots cannot be confused. */
static void subsets_of_game(const double *value, int players, struct subsets *subsets)
{
    uint32_t all = 0;
    for (int i = 0; i < players; i++)
        all |= 1u << 2 * i;
    subsets_plan(subsets, all, 0);
    for (int k = 0; k < subsets->count; k++) {
        uint32_t game = 0;
        for (int i = 0; i < players; i++)
            game |= (subsets->mask[k] >> 2 * i & 1u) << i;
        subsets->score[k] = value[game];
    }
}

/* What the engine reads from the subset table of a validation. */
static void check_subset_table(struct reward_case *c, const cJSON *want, const double *value, int players)
{
    struct subsets subsets;
    double alone[SUBSETS_EXACT], sum[SUBSETS_EXACT], share[SUBSETS_EXACT];
    if (players > SUBSETS_EXACT)
        return;
    subsets_of_game(value, players, &subsets);
    for (int i = 0; i < players; i++) {
        alone[i] = subset_contribution(&subsets, 2 * i);
        sum[i] = subset_interaction(&subsets, 2 * i);
        share[i] = attribution_share(&subsets, 2 * i);
    }
    case_compare_list(c, want, "loo_contribution", alone, players);
    case_compare_list(c, want, "interaction_sum", sum, players);
    case_compare_list(c, want, "shapley_exact", share, players);
    case_compare(c, want, "counterfactual_total", attribution_total_of(&subsets, 0));
}

void check_attribution(struct reward_case *c, const cJSON *in)
{
    int n;
    double alone[ATTRIBUTION_PLAYERS] = {0}, sum[ATTRIBUTION_PLAYERS] = {0}, boost[ATTRIBUTION_PLAYERS] = {0};
    double shapley[ATTRIBUTION_PLAYERS] = {0}, banzhaf[ATTRIBUTION_PLAYERS] = {0};
    const cJSON *want = case_member(c, c->json, "expected"), *pairs = case_member(c, want, "interaction");
    double *value = read_game(c, in, &n);
    if (!value)
        return;
    uint32_t all = (1u << n) - 1;
    for (int i = 0; i < n; i++) {
        alone[i] = value[all] - value[all & ~(1u << i)];
        sum[i] = boost[i] = 0;
        for (int j = 0; j < n; j++) {
            char pair[32];
            double interaction = i == j ? 0 : attribution_interaction(value, i, j);
            sum[i] += interaction;
            boost[i] = fmax(boost[i], interaction);
            snprintf(pair, sizeof pair, "%d,%d", i, j);
            if (i < j)
                case_compare(c, pairs, pair, interaction);
        }
        shapley[i] = attribution_shapley(value, n, i);
        banzhaf[i] = attribution_banzhaf(value, n, i);
    }
    case_compare_list(c, want, "loo_contribution", alone, n);
    case_compare_list(c, want, "interaction_sum", sum, n);
    case_compare_list(c, want, "boost_received", boost, n);
    case_compare_list(c, want, "shapley_exact", shapley, n);
    case_compare_list(c, want, "banzhaf", banzhaf, n);
    case_compare(c, want, "counterfactual_total", value[all] - value[0]);
    check_subset_table(c, want, value, n);
    free(value);
}

/* One permutation of the file as a word; false, with a complaint, when it is not one. */
static bool read_order(struct reward_case *c, const cJSON *permutation, int players, uint64_t *order)
{
    uint32_t seen = 0;
    *order = 0;
    for (int k = 0; k < players; k++) {
        double player = case_item(c, permutation, k);
        if (!(player >= 0 && player < players) || player != floor(player)) {
            case_complain(c, "not a permutation", "permutations");
            return false;
        }
        *order |= (uint64_t)player << 4 * k;
        seen |= 1u << (int)player;
    }
    if (seen != (1u << players) - 1)
        case_complain(c, "not a permutation", "permutations");
    return !c->problem[0];
}

void check_antithetic(struct reward_case *c, const cJSON *in)
{
    int n, distinct = 0;
    struct shapley_sums sums;
    double error[ATTRIBUTION_PLAYERS], exact[ATTRIBUTION_PLAYERS];
    const cJSON *permutations = case_list(c, in, "permutations", 2, 1 << 20);
    const cJSON *want = case_member(c, c->json, "expected");
    double *value = read_game(c, in, &n);
    bool *seen = value ? calloc((size_t)1 << n, sizeof *seen) : NULL;
    uint64_t order;
    shapley_clear(&sums);
    for (const cJSON *p = seen ? permutations->child : NULL; p && read_order(c, p, n, &order); p = p->next) {
        double forward[ATTRIBUTION_PLAYERS + 1], backward[ATTRIBUTION_PLAYERS + 1];
        for (int k = 0; k <= n; k++) {
            uint32_t there = shapley_prefix(order, n, k, false), back = shapley_prefix(order, n, k, true);
            forward[k] = value[there];
            backward[k] = value[back];
            distinct += !seen[there];
            seen[there] = true;
            distinct += !seen[back];
            seen[back] = true;
        }
        shapley_add(&sums, order, n, forward, backward);
    }
    for (int i = 0; value && i < n; i++) {
        error[i] = shapley_error(&sums, i);
        exact[i] = attribution_shapley(value, n, i);
    }
    if (!c->problem[0]) {
        case_compare_list(c, want, "mean", sums.mean, n);
        case_compare_list(c, want, "standard_error", error, n);
        case_compare_list(c, want, "shapley_exact", exact, n);
        case_compare(c, want, "unique_masks", distinct);
    }
    free(seen);
    free(value);
}

/* What the original evaluated, copies included, and the distinct subsets, which are those we evaluate. */
void check_configurations(struct reward_case *c, const cJSON *in)
{
    int n = case_integer(c, in, "n_active", 0), growing = case_integer(c, in, "n_nonfossilized", 0);
    const cJSON *want = case_member(c, c->json, "expected");
    struct subsets subsets;
    if (n < 0 || n > SUBSETS_SLOTS || growing < 0 || growing > n || case_number(c, in, "terminal") != 0) {
        case_complain(c, "only steps before the last, of up to 16 seeds, can be checked", "n_active");
        return;
    }
    subsets_plan(&subsets, (1u << n) - 1, (1u << (n - growing)) - 1);
    int all_off = n >= 2 && n <= 4, pairs = n == 3 || n == 4 ? n * (n - 1) / 2 : 0;
    case_compare(c, want, "n_evaluated", 1 + n + n + all_off + pairs + (growing > 0));
    case_compare(c, want, "n_unique_masks", subsets.count);
}

/* ---- single terms ----------------------------------------------------------------------------------------------- */

void check_drip(struct reward_case *c, const cJSON *in)
{
    case_compare(c, case_member(c, c->json, "expected"), "drip",
                 reward_drip(case_number(c, in, "drip_scale"), case_number(c, in, "contribution"),
                             case_number(c, in, "max_drip"), case_number(c, in, "negative_ratio")));
}

void check_hindsight(struct reward_case *c, const cJSON *in)
{
    const cJSON *want = case_member(c, c->json, "expected"), *ledger = case_list(c, in, "ledger", 0, 1 << 20);
    double gain = case_number(c, in, "beneficiary_improvement"), credit = 0;
    int beneficiary = case_integer(c, in, "beneficiary", 0), step = case_integer(c, in, "epoch", 0);
    int used = 0, delays = 0;
    for (const cJSON *entry = ledger ? ledger->child : NULL; entry; entry = entry->next) {
        int delay = step - case_integer(c, entry, "epoch", 0);
        double owed = reward_hindsight(case_number(c, entry, "boost"), gain, CASE_GAMMA, delay);
        if (case_integer(c, entry, "beneficiary", 0) != beneficiary || owed == 0)
            continue;
        credit += owed;
        used++;
        delays += delay;
    }
    case_compare(c, want, "credit", fmin(credit, REWARD_HINDSIGHT_CAP));
    case_compare(c, want, "entries_used", used);
    case_compare(c, want, "delay_sum", delays);
}

/* Both rule sets: counted from 0 at entry the original's term equals the difference of potentials that esper pays. */
void check_pbrs(struct reward_case *c, const cJSON *in)
{
    struct reward_config *config = &c->config.reward;
    const cJSON *steps = case_list(c, in, "steps", 1, 1 << 20), *want = case_member(c, c->json, "expected");
    const cJSON *terms = case_member(c, want, "per_step"), *term = terms ? terms->child : NULL;
    double gamma = case_number(c, in, "gamma"), first = case_number(c, in, "phi_initial");
    double sum = 0, by_state = 0, live = 0, weight = 1;
    struct reward_scene scene = {.slots = 1, .steps = -1};
    struct reward_seed *seed = &scene.seed[0];
    struct reward_trace trace;
    seed->live = true;
    seed->potential = first;
    config->pbrs_weight = case_number(c, in, "weight");
    for (const cJSON *at = steps ? steps->child : NULL; at && !c->problem[0]; at = at->next, weight *= gamma) {
        seed->previous_stage = seed->stage;
        seed->previous_epochs = seed->epochs;
        seed->stage = (int)case_item(c, at, 0);
        seed->epochs = (int)case_item(c, at, 1);
        double paid = reward_shaping(config, gamma, seed);
        by_state += weight * reward_shaping_all(config, gamma, &scene, &trace);
        seed->potential = trace.potential[0];
        sum += weight * paid;
        case_compare_within(c, "per_step", paid, case_value(c, term, "per_step"), CASE_TOLERANCE);
        term = term ? term->next : NULL;
        struct reward_seed counted = *seed; /* the original's trainer counts from 1 */
        counted.epochs++;
        live += weight * reward_shaping(config, gamma, &counted);
    }
    case_compare(c, want, "discounted_sum", sum);
    case_compare(c, want, "telescoped", by_state);
    case_compare(c, want, "telescoped", config->pbrs_weight * (weight * seed->potential - first));
    case_compare(c, want, "live_discounted_sum", live);
}

void check_outcome(struct reward_case *c, const cJSON *in)
{
    int count;
    double *rewards = case_numbers(c, in, "rewards", &count), sum = 0, host = case_number(c, in, "host_params");
    const cJSON *want = case_member(c, c->json, "expected");
    for (int i = 0; i < count; i++)
        sum += rewards[i];
    int recent = count < 20 ? count : 20;
    struct reward_outcome outcome = reward_outcome_of(sum, rewards + count - recent, recent, host,
                                                      case_number(c, in, "total_params") - host,
                                                      case_number(c, in, "val_acc"));
    case_compare(c, want, "stability_score", outcome.stability);
    case_compare(c, want, "param_ratio", outcome.param_ratio);
    case_compare(c, want, "episode_reward", outcome.reward);
    if (strcmp(case_text(c, want, "outcome"), outcome.success ? "success" : "timeout") != 0)
        case_compare_within(c, "outcome", 1, 0, CASE_TOLERANCE);
    free(rewards);
}

void check_normaliser(struct reward_case *c, const cJSON *in)
{
    int count;
    double *rewards = case_numbers(c, in, "rewards", &count);
    const cJSON *want = case_member(c, c->json, "expected");
    struct moments moments = {0, 0, 0};
    for (int i = 0; i < count; i++) {
        moments_add(&moments, rewards[i]);
        rewards[i] = normalise_clip(rewards[i] / reward_deviation(moments)); /* the original's clip */
    }
    if (case_number(c, in, "clip") != NORMALISE_CLIP || case_number(c, in, "epsilon") != 1e-8)
        case_complain(c, "only a clip of 10 and an epsilon of 1e-8 can be checked", "clip");
    case_compare_list(c, want, "normalized", rewards, count);
    case_compare(c, want, "mean", moments.mean);
    case_compare(c, want, "m2", moments.m2);
    case_compare(c, want, "count", moments.count);
    free(rewards);
}

/* The original's fit with its own floor; what the learner reports has the floor 1. */
static void compare_fit(struct reward_case *c, const cJSON *want, const char *prefix, double error, double spread,
                        double least)
{
    char key[64];
    snprintf(key, sizeof key, "%sexplained_variance", prefix);
    case_compare(c, want, key, 1 - error / fmax(spread, least));
    snprintf(key, sizeof key, "%snrmse", *prefix ? prefix : "value_");
    case_compare(c, want, key, sqrt(error) / (sqrt(spread) + sqrt(least)));
    snprintf(key, sizeof key, "%slow_variance", prefix);
    case_compare(c, want, key, spread < least);
}

void check_value_metrics(struct reward_case *c, const cJSON *in)
{
    int count, values_count, td_count;
    double *returns = case_numbers(c, in, "returns", &count), *values = case_numbers(c, in, "values", &values_count);
    double *td = case_numbers(c, in, "td_errors", &td_count), *scratch = calloc((size_t)count + 1, sizeof *scratch);
    const cJSON *want = case_member(c, c->json, "expected");
    struct moments gains, residual = {0, 0, 0};
    struct update_report record;
    if (count < 2 || values_count != count || td_count != count || !scratch) {
        case_complain(c, "not three lists of one length, two or more", "returns");
    } else {
        diagnostics_returns(&record, returns, values, td, count, scratch);
        gains = diagnostics_moments(returns, count);
        for (int i = 0; i < count; i++)
            moments_add(&residual, returns[i] - values[i]);
        double spread = moments_sample_variance(gains), error = moments_sample_variance(residual);
        double least = case_number(c, in, "floor");
        case_compare(c, want, "v_return_correlation", record.value_correlation);
        case_compare(c, want, "td_error_mean", record.td_error_mean);
        case_compare(c, want, "td_error_std", record.td_error_std);
        case_compare(c, want, "bellman_error", record.bellman_error);
        case_compare(c, want, "return_variance", moments_variance(gains));
        case_compare(c, want, "return_skewness", record.return_skewness);
        case_compare_within(c, "return_p10", record.return_p10, case_number(c, want, "return_p10"),
                            PERCENTILE_TOLERANCE);
        case_compare_within(c, "return_p50", record.return_p50, case_number(c, want, "return_p50"),
                            PERCENTILE_TOLERANCE);
        case_compare_within(c, "return_p90", record.return_p90, case_number(c, want, "return_p90"),
                            PERCENTILE_TOLERANCE);
        if (least == 1) {
            case_compare(c, want, "explained_variance", record.explained_variance);
            case_compare(c, want, "value_nrmse", record.value_nrmse);
        }
        compare_fit(c, want, "", error, spread, least);
        least = fmax(case_number(c, in, "aux_min"), case_number(c, in, "aux_fraction") * moments_variance(gains));
        compare_fit(c, want, "aux_", error, spread, least);
    }
    free(returns);
    free(values);
    free(td);
    free(scratch);
}
