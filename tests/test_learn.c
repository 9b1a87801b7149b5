/* The learner's rules: advantages, normalisers, loss, statistics (L-02 to L-13). */
#include "testing.h"

#include <math.h>

#include "learn/deal.h"
#include "learn/diagnostics.h"
#include "learn/gae.h"
#include "learn/loss.h"
#include "learn/normalise.h"

static void assert_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%.9g is not %.9g (within %g)", got, want, tolerance);
}

static double uniform(uint32_t key, uint32_t element, double low, double high)
{
    return low + (high - low) * (double)random_unit(random_word(random_at(7, STREAM_ACTION, 0, key, 0), element));
}

/* ---- advantages -------------------------------------------------------------------------------------------------- */

enum { ROWS = 40 };
struct rows {
    uint8_t flags[ROWS];
    float reward[ROWS], value[ROWS], bootstrap[ROWS], advantage[ROWS], returns[ROWS], td_error[ROWS];
};

static void estimate(struct rows *rows, int steps, double gamma, double lambda, double shift, double scale)
{
    const struct gae_rates rates = {gamma, lambda, shift, scale};
    const struct gae_rows view = {rows->flags,     rows->reward,  rows->value,   rows->bootstrap,
                                  rows->advantage, rows->returns, rows->td_error};
    gae_estimate(&rates, &view, steps, 1);
}

static struct rows spec_rows(void)
{
    const float reward[] = {.2f, -.1f, .3f, .05f}, value[] = {.5f, .25f, -.1f, .4f};
    struct rows rows = {.flags = {ROW_VALID, ROW_VALID, ROW_VALID, ROW_VALID | ROW_DONE | ROW_TRUNCATED}};
    memcpy(rows.reward, reward, sizeof reward);
    memcpy(rows.value, value, sizeof value);
    rows.bootstrap[3] = .6f;
    return rows;
}

static void assert_rows(const float *got, const double *want, int count)
{
    for (int i = 0; i < count; i++)
        assert_near((double)got[i], want[i], 1e-5);
}

static void advantages_are_those_of_the_spec(void **state)
{
    (void)state;
    struct rows rows = spec_rows();
    estimate(&rows, 4, .995, .98, 0, 1);
    assert_rows(rows.td_error, (const double[]){-.05125, -.4495, .798, .247}, 4);
    assert_rows(rows.advantage, (const double[]){.498202, .563482, 1.03885, .247}, 4);
    assert_rows(rows.returns, (const double[]){.998202, .813482, .93885, .647}, 4);

    struct moments moments = {0, 0, 0};
    for (int i = 0; i < 4; i++)
        moments_add(&moments, (double)rows.advantage[i]);
    const double deviation = sqrt(moments_variance(moments)), want[] = {-.309593, -.081694, 1.577838, -1.186551};
    assert_near(moments.mean, .586883, 1e-6);
    assert_near(deviation, .286446, 1e-6);
    for (int i = 0; i < 4; i++)
        assert_near(advantage_normalise((double)rows.advantage[i], moments.mean, deviation), want[i], 1e-5);

    rows = spec_rows();
    estimate(&rows, 4, .995, .98, 0, 2);
    assert_rows(rows.advantage, (const double[]){.56231, .886894, 1.728944, .444}, 4);
    assert_rows(rows.returns, (const double[]){1.56231, 1.386894, 1.528944, 1.244}, 4);
}

/* L-14: the penalty replaces the reward of the last executed row, earlier rewards stay. */
static void a_rollback_ends_its_segment(void **state)
{
    (void)state;
    struct rows rows = spec_rows();
    rows.reward[1] = -10;
    rows.flags[1] |= ROW_DONE;
    rows.flags[2] |= ROW_RESET;
    estimate(&rows, 4, .995, .98, 0, 1);
    /* A1 = -10 - .25; A0 = .2 + .995 * .25 - .5 + .995 * .98 * A1 */
    const double first = .2 + .995 * .25 - .5 - .995 * .98 * 10.25;
    assert_rows(rows.advantage, (const double[]){first, -10.25, 1.03885, .247}, 4);
    assert_rows(rows.returns, (const double[]){first + .5, -10, .93885, .647}, 4);

    /* The same with the hole that the panic leaves, full of garbage. */
    struct rows hole = spec_rows();
    for (int i = 4; i > 2; i--) {
        hole.flags[i] = hole.flags[i - 1];
        hole.reward[i] = hole.reward[i - 1];
        hole.value[i] = hole.value[i - 1];
        hole.bootstrap[i] = hole.bootstrap[i - 1];
    }
    hole.flags[2] = 0;
    hole.reward[2] = hole.value[2] = hole.bootstrap[2] = NAN;
    hole.reward[1] = -10;
    hole.flags[1] |= ROW_DONE;
    hole.flags[3] |= ROW_RESET;
    estimate(&hole, 5, .995, .98, 0, 1);
    assert_rows(hole.advantage, (const double[]){first, -10.25, 0, 1.03885, .247}, 5);
    assert_rows(hole.returns, (const double[]){first + .5, -10, 0, .93885, .647}, 5);
}

/* L-02: an O(T^2) sum over each row's own segment; lambda 1 gives discounted returns, lambda 0 the td error. */
static void advantages_match_a_direct_sum(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 3000; n++) {
        struct rows rows = {.flags = {0}};
        const int steps = 1 + (int)(n % ROWS);
        const double gamma = uniform(20, n, .5, 1), lambda = n % 3 == 0 ? 0 : n % 3 == 1 ? 1 : uniform(21, n, 0, 1);
        const double shift = uniform(22, n, -3, 3), scale = uniform(23, n, .1, 5);
        for (int i = 0; i < steps; i++) {
            const uint32_t word = random_word(random_at(24, STREAM_ACTION, 0, 0, 0), n * ROWS + (uint32_t)i);
            rows.flags[i] = (uint8_t)((word % 11 ? ROW_VALID : 0) | (word % 7 ? 0 : ROW_DONE) |
                                      (word % 5 ? 0 : ROW_TRUNCATED) | (word % 13 ? 0 : ROW_RESET));
            rows.reward[i] = (float)uniform(25, n * ROWS + (uint32_t)i, -10, 10);
            rows.value[i] = (float)uniform(26, n * ROWS + (uint32_t)i, -2, 2);
            rows.bootstrap[i] = (float)uniform(27, n * ROWS + (uint32_t)i, -2, 2);
        }
        estimate(&rows, steps, gamma, lambda, shift, scale);
        for (int i = 0; i < steps; i++) {
            if (!(rows.flags[i] & ROW_VALID)) {
                assert_true(rows.advantage[i] == 0 && rows.returns[i] == 0);
                continue;
            }
            int last = i;
            while (last + 1 < steps && !(rows.flags[last] & (ROW_DONE | ROW_TRUNCATED)) &&
                   (rows.flags[last + 1] & ROW_VALID) && !(rows.flags[last + 1] & ROW_RESET))
                last++;
            const double beyond = rows.flags[last] & ROW_TRUNCATED ? (double)rows.bootstrap[last] * scale + shift : 0;
            double advantage = 0, discount = 1, total = 0, reach = 1;
            for (int k = i; k <= last; k++) {
                const double value = (double)rows.value[k] * scale + shift;
                const double next = k == last ? beyond : (double)rows.value[k + 1] * scale + shift;
                advantage += discount * ((double)rows.reward[k] + gamma * next - value);
                total += reach * (double)rows.reward[k];
                discount *= gamma * lambda;
                reach *= gamma;
            }
            const double value = (double)rows.value[i] * scale + shift, near = 1e-6 * fmax(1, fabs(advantage) * 10);
            assert_near((double)rows.advantage[i], advantage, near);
            assert_near((double)rows.returns[i], (double)rows.advantage[i] + value, 3e-5); /* L-02 */
            if (lambda == 1)
                assert_near((double)rows.advantage[i], total + reach * beyond - value, 10 * near);
            if (lambda == 0)
                assert_true(rows.advantage[i] == rows.td_error[i]);
        }
    }
}

/* L-15: reward 1 forever, gamma .9: with a bootstrap the fixed point of V is 10; as a terminal it is 1 at the end. */
static void truncation_is_not_an_end(void **state)
{
    (void)state;
    struct rows rows = {.flags = {0}};
    for (int i = 0; i < 5; i++) {
        rows.flags[i] = i == 4 ? ROW_VALID | ROW_DONE | ROW_TRUNCATED : ROW_VALID;
        rows.reward[i] = 1;
    }
    for (int sweep = 0; sweep < 300; sweep++) { /* V becomes the return, over and over */
        estimate(&rows, 5, .9, .95, 0, 1);
        for (int i = 0; i < 5; i++)
            rows.value[i] = rows.returns[i];
        rows.bootstrap[4] = rows.value[0];
    }
    for (int i = 0; i < 5; i++)
        assert_near((double)rows.value[i], 10, 1e-3);
    rows.flags[4] = ROW_VALID | ROW_DONE;
    for (int sweep = 0; sweep < 300; sweep++) {
        estimate(&rows, 5, .9, .95, 0, 1);
        for (int i = 0; i < 5; i++)
            rows.value[i] = rows.returns[i];
    }
    for (int i = 0; i < 5; i++)
        assert_near((double)rows.value[i], (1 - pow(.9, 5 - i)) / .1, 1e-4);
}

/* L-02: envs are side by side in memory and do not affect each other. */
static void envs_are_independent(void **state)
{
    (void)state;
    enum { ENVS = 4, STEPS = 10 };
    float before[STEPS] = {0};
    for (int turn = 0; turn < 2; turn++) {
        struct rows rows = {.flags = {0}};
        for (int i = 0; i < ENVS * STEPS; i++) {
            rows.flags[i] = ROW_VALID;
            rows.reward[i] = (float)uniform(30, (uint32_t)i, -1, 1) + (turn && i % ENVS != 2 ? 100.0f : 0.0f);
            rows.value[i] = (float)uniform(31, (uint32_t)i, -1, 1);
        }
        for (int env = 0; env < ENVS; env++) {
            const struct gae_rates rates = {.99, .95, 0, 1};
            const struct gae_rows view = {rows.flags + env,     rows.reward + env,    rows.value + env,
                                          rows.bootstrap + env, rows.advantage + env, rows.returns + env,
                                          rows.td_error + env};
            gae_estimate(&rates, &view, STEPS, ENVS);
        }
        for (int step = 0; step < STEPS; step++) {
            if (turn)
                assert_true(before[step] == rows.advantage[step * ENVS + 2]);
            before[step] = rows.advantage[step * ENVS + 2];
        }
    }
}

/* ---- normalisers ------------------------------------------------------------------------------------------------- */

static void moments_do_not_depend_on_partition_or_order(void **state)
{
    (void)state;
    double x[257];
    struct moments one = {0, 0, 0};
    for (uint32_t i = 0; i < 257; i++) {
        x[i] = uniform(40, i, -5, 50);
        moments_add(&one, x[i]);
    }
    for (uint32_t n = 0; n < 200; n++) {
        struct moments parts[8] = {{0, 0, 0}}, all = {0, 0, 0};
        for (uint32_t i = 0; i < 257; i++)
            moments_add(&parts[random_word(random_at(n, STREAM_ACTION, 0, 0, 0), i) % 8], x[(i * 100 + n) % 257]);
        for (int k = 0; k < 8; k++)
            all = n % 2 ? moments_merge(all, parts[k]) : moments_merge(parts[7 - k], all);
        assert_true(all.count == 257);
        assert_near(all.mean, one.mean, 1e-12 * fabs(one.mean));
        assert_near(all.m2, one.m2, 1e-12 * one.m2);
    }
    const struct moments none = moments_merge((struct moments){0, 0, 0}, (struct moments){0, 0, 0});
    assert_true(none.count == 0 && none.mean == 0 && moments_variance(none) == 0 &&
                isnan(moments_sample_variance(none)));
}

static void rewards_are_scaled_as_in_the_spec(void **state)
{
    (void)state;
    const double raw[] = {1, 2, -3, .5, 40, 0}, want[] = {1, 2.828427, -1.133893, .22992, 2.230672, 0};
    struct moments moments = {0, 0, 0};
    for (int i = 0; i < 6; i++) {
        moments_add(&moments, raw[i]);
        assert_near(reward_normalise(moments, raw[i]), want[i], 1e-6);
    }
    assert_near(moments.mean, 6.75, 1e-12);
    assert_near(moments.m2, 1340.875, 1e-9);

    /* The same reward forever has no spread: the clip decides. Zeros, then a spike: finite. */
    struct moments constant = {0, 0, 0}, spike = {0, 0, 0};
    for (int i = 0; i < 10; i++) {
        moments_add(&constant, -3);
        moments_add(&spike, 0);
    }
    assert_true(reward_normalise(constant, -3) == -NORMALISE_CLIP && reward_normalise(spike, 0) == 0);
    moments_add(&spike, 1e6);
    assert_true(isfinite(reward_normalise(spike, 1e6)) && reward_normalise(spike, 1e6) <= NORMALISE_CLIP);
}

/* L-11: an episode that is paid at its end alone keeps what it is worth, however long it was. */
static void rewards_at_the_end_keep_their_differences(void **state)
{
    (void)state;
    const int lengths[] = {30, 150, 65535};
    for (int k = 0; k < 3; k++) {
        struct moments all = {0, 0, 0};
        double low = 0, high = 0;
        for (int step = 1; step <= lengths[k]; step++) {
            const double last = step == lengths[k];
            struct moments now = {0, 0, 0};
            rewards_add(&now, true, 0.5 * last);
            rewards_add(&now, true, 0.7 * last);
            all = moments_merge(all, now);
            low = (double)rewards_scaled(all, true, 0.5 * last);
            high = (double)rewards_scaled(all, true, 0.7 * last);
        }
        assert_true(low > 1);
        assert_near(high / low, 1.4, 1e-6);
    }
    struct moments all = {0, 0, 0}; /* whatever comes: n rewards are within sqrt(n) of those that are always the same */
    for (uint32_t i = 0; i < 2000; i++) {
        const double kind = uniform(1, i, 0, 1), raw = kind < 0.9 ? 1 : uniform(2, i, -1, 1) * pow(10, 6 * kind);
        moments_add(&all, raw);
        assert_true(fabs(reward_normalise(all, raw)) <= REWARD_LEVEL + sqrt(all.count));
    }
}

static void averages_are_those_of_the_spec(void **state)
{
    (void)state;
    /* Observations at a fixed 1 %: batch 1, 2, 3, 4 onto (0, 1). */
    double mean = 0, variance = 1;
    normalise_merge(0.01, 2.5, 1.25, &mean, &variance);
    assert_near(mean, .025, 1e-12);
    assert_near(variance, 1.064375, 1e-12);
    assert_near((double)normalise_observation(3, mean, variance), 2.883495, 1e-6);
    assert_true(normalise_observation(1e9f, mean, variance) == 10 &&
                normalise_observation(-1e9f, mean, variance) == -10);

    /* Values: batch 1 .. 40, then ten 100s at 1 %. */
    struct moments values = {0, 0, 0};
    for (int i = 1; i <= 40; i++)
        moments_add(&values, i);
    assert_near(moments_variance(values), 133.25, 1e-10);
    assert_near(value_scale_of(moments_variance(values)), 11.543401, 1e-6);
    mean = values.mean;
    variance = moments_variance(values);
    normalise_merge(0.01, 100, 0, &mean, &variance);
    assert_near(mean, 21.295, 1e-10);
    assert_near(variance, 194.487975, 1e-9);
    assert_near(value_scale_of(variance), 13.945898, 1e-6);

    /* Bias-corrected weights average exactly at first: no trace of (0, 1) is left after one update. */
    mean = 0, variance = 1;
    struct moments all = {0, 0, 0};
    for (uint32_t u = 1; u <= 100; u++) {
        struct moments batch = {0, 0, 0};
        for (uint32_t i = 0; i < 10; i++)
            moments_add(&batch, uniform(41, u * 10 + i, -1, 3));
        all = moments_merge(all, batch);
        normalise_merge(normalise_weight(u, NORMALISE_OBS_LEAST), batch.mean, moments_variance(batch), &mean,
                        &variance);
    }
    assert_near(mean, all.mean, 1e-12);
    assert_near(variance, moments_variance(all), 1e-12);
    assert_true(normalise_weight(100, .01) == .01 && normalise_weight(101, .01) == .01 &&
                normalise_weight(20, .05) == .05);
    assert_true(normalise_weight(19, .05) == 1.0 / 19);
}

/* L-12: scale * V + shift does not move when the units do. */
static void new_units_keep_what_the_critic_says(void **state)
{
    (void)state;
    struct value_units units = {0, 1};
    for (uint32_t u = 1; u < 200; u++) {
        struct moments returns = {64, uniform(50, u, -100, 100), 64 * uniform(51, u, 0, 900)};
        const struct value_units next = value_units_update(units, u, returns);
        assert_true(next.scale > 0);
        if (u == 1) {
            assert_near(next.shift, returns.mean, 1e-12);
            assert_near(next.scale, sqrt(moments_variance(returns) + 1e-4), 1e-9);
        }
        const float w[] = {.3f, -1.2f}, b = .7f, x[] = {1.5f, -.4f};
        double before = (double)b, after = (double)value_rewrite_bias(units, next, b);
        for (int i = 0; i < 2; i++) {
            before += (double)w[i] * (double)x[i];
            after += (double)value_rewrite_weight(units, next, w[i]) * (double)x[i];
        }
        before = before * units.scale + units.shift;
        assert_near(after * next.scale + next.shift, before, 1e-6 * fmax(next.scale, fabs(before)));
        units = next;
    }
    /* A constant return has no spread, and still a scale. */
    struct value_units still = {0, 1};
    for (uint32_t u = 1; u < 500; u++)
        still = value_units_update(still, u, (struct moments){10, 5, 0});
    assert_near(still.shift, 5, 1e-9);
    assert_near(still.scale, 1e-2, 1e-6);
}

/* ---- loss -------------------------------------------------------------------------------------------------------- */

/* The policy loss, computed by hand (L-21): four rows, three heads, log-ratios given. */
static void policy_loss_is_that_of_the_spec(void **state)
{
    (void)state;
    const double advantage[] = {1, -.5, 2, -1}, ratio[4][3] = {{.3, -.25, .05}, {-.3, 0, 0}, {.1, .2, 0}, {0, 0, 0}};
    const int ops[] = {OP_GERMINATE, OP_WAIT, OP_PRUNE, OP_WAIT}, heads[] = {HEAD_OP, HEAD_SLOT, HEAD_BLUEPRINT};
    const double want[] = {-1.003447, -1.5894, -1.051271};
    const double joint[] = {1.105171, .740818, 1.349859, 1};
    const struct loss_rules rules = {.slots = 3, .clip = .2};
    struct loss_row rows[4] = {{0}};
    struct loss_view views[4] = {{{0}, {0}, {0}}};
    struct loss_totals sums = {{0}, {0}, 0, 0, 0};
    const float ref[HEAD_COUNT] = {0};
    for (int i = 0; i < 4; i++) {
        rows[i].valid = true;
        rows[i].forced = i == 3;
        rows[i].advantage = (float)advantage[i];
        for (int k = 0; k < 3; k++) {
            views[i].logp[heads[k]] = (float)ratio[i][k];
            rows[i].relevant = (uint8_t)(rows[i].relevant | (head_relevance(ops[i]) & 1u << heads[k]));
        }
        loss_add(&sums, &rules, &rows[i], &views[i], ref, 0);
        assert_near(loss_joint_ratio(views[i].logp, ref), joint[i], 1e-6);
    }
    const struct loss_counts counts = loss_count(rows, 4);
    for (int k = 0; k < 3; k++)
        assert_near(-sums.surrogate[heads[k]] / counts.decisions[heads[k]], want[k], 2e-6);
    assert_near(loss_policy(&sums, &counts), -3.644119, 4e-6);
    assert_near(loss_kl(&sums), .049108, 1e-6); /* of the three actions that were a choice */
}

static void value_loss_is_that_of_the_spec(void **state)
{
    (void)state;
    const float value[] = {.2f, -.1f, .4f, .3f}, target[] = {.5f, 0, .6f, -.2f};
    const struct loss_rules rules = {.slots = 3, .clip = .2, .value_coef = 1};
    struct loss_row rows[4] = {{0}};
    const struct loss_view view = {{0}, {0}, {0}};
    struct loss_totals sums = {{0}, {0}, 0, 0, 0};
    const float ref[HEAD_COUNT] = {0};
    for (int i = 0; i < 4; i++) {
        rows[i] = (struct loss_row){.valid = true, .forced = i == 3, .target = target[i]};
        loss_add(&sums, &rules, &rows[i], &view, ref, value[i]);
    }
    const struct loss_counts counts = loss_count(rows, 4);
    assert_near(loss_value(&sums, &counts), .0296875, 1e-7);
    float dvalue, dlogits[HEAD_MAX_LOGITS], logits[HEAD_MAX_LOGITS] = {0};
    loss_backward(&rules, &counts, &rows[3], logits, value[3], ref, dlogits, &dvalue);
    assert_near((double)dvalue, .2 * .5 / 3.2, 1e-7); /* forced rows teach the critic a little */
    for (int k = 0; k < head_offset(3, HEAD_COUNT); k++)
        assert_true(dlogits[k] == 0); /* and the actor nothing */
}

/* L-24: a choice that is shown is learned by its likelihood, without floor, clip or KL test. */
static void what_is_shown_is_followed(void **state)
{
    (void)state;
    const struct loss_rules rules = {.slots = 3, .clip = .2, .floor = {[HEAD_OP] = .05}};
    float logits[HEAD_MAX_LOGITS] = {0}, dlogits[HEAD_MAX_LOGITS], dvalue;
    const float ref[HEAD_COUNT] = {[HEAD_OP] = -9};
    struct loss_row row = {.mask = mask_all(3, HEAD_OP), .relevant = 1u << HEAD_OP, .valid = true, .shown = true};
    float *op = logits + head_offset(3, HEAD_OP), *slope = dlogits + head_offset(3, HEAD_OP);
    struct loss_totals sums = {{0}, {0}, 0, 0, 0};
    struct loss_view view;
    row.choice[HEAD_OP] = OP_PRUNE;
    row.advantage = -3; /* of no account */
    op[OP_PRUNE] = -12; /* far below the floor, and far from the reference */
    for (int head = 0; head < HEAD_OP; head++)
        row.mask |= mask_canonical(3, head);
    const struct loss_counts counts = loss_count(&row, 1);
    loss_look(&rules, &row, logits, &view);
    loss_add(&sums, &rules, &row, &view, ref, 0);
    const double p = exp(-12) / (OP_COUNT - 1 + exp(-12));
    assert_near(sums.surrogate[HEAD_OP], log(p), 1e-5);
    assert_true(loss_kl(&sums) == 0);
    op[OP_PRUNE] = -500; /* what no float can hold */
    loss_look(&rules, &row, logits, &view);
    assert_true(isfinite(view.logp[HEAD_OP]) && view.logp[HEAD_OP] < -18);
    op[OP_PRUNE] = -12;
    loss_backward(&rules, &counts, &row, logits, 0, ref, dlogits, &dvalue);
    for (int i = 0; i < OP_COUNT; i++)
        assert_near((double)slope[i], i == OP_PRUNE ? p - 1 : (1 - p) / (OP_COUNT - 1), 1e-6);
    row.forced = true; /* a try: nothing is followed */
    loss_backward(&rules, &counts, &row, logits, 0, ref, dlogits, &dvalue);
    for (int i = 0; i < OP_COUNT; i++)
        assert_true(slope[i] == 0);
}

/* L-05, L-04: divergence is never negative and 0 for equal; the clipped objective is never above the plain one. */
static void divergence_and_clip_keep_their_bounds(void **state)
{
    (void)state;
    assert_true(loss_divergence(0) == 0);
    for (uint32_t n = 0; n < 20000; n++) {
        const double log_ratio = uniform(60, n, -25, 25), advantage = uniform(61, n, -4, 4),
                     clip = uniform(62, n, .05, .5);
        const double bounded = loss_log_ratio((float)log_ratio, 0);
        assert_true(loss_divergence(bounded) >= 0 && fabs(bounded) <= LOSS_MAX_LOG);
        assert_true(loss_surrogate(exp(bounded), advantage, clip) <= exp(bounded) * advantage);
        /* The slope is that of the surrogate, away from the kinks. */
        const double small = log_ratio / 25, h = 1e-6, ratio = exp((double)(float)small);
        if (fabs(ratio - 1 - clip) < 1e-3 || fabs(ratio - 1 + clip) < 1e-3)
            continue;
        const double slope =
            (loss_surrogate(ratio * exp(h), advantage, clip) - loss_surrogate(ratio * exp(-h), advantage, clip)) /
            (2 * h);
        assert_near(loss_surrogate_slope((float)small, 0, advantage, clip), slope, 1e-6);
    }
    assert_true(loss_surrogate_slope(21, 0, -1, .2) == 0); /* beyond the bound nothing passes */
    assert_true(loss_surrogate_slope(0, 0, 2, .2) == 2 && loss_surrogate_slope(0, 0, -2, .2) == -2);
}

/* P-12 on the loss: no gradient to heads that did not matter, for all ops; credit goes by the op that was executed. */
static void heads_that_do_not_matter_get_no_gradient(void **state)
{
    (void)state;
    const int slots = 4;
    const struct loss_rules rules = {.slots = slots,
                                     .clip = .2,
                                     .entropy_coef = {1, 1, 1, 1, 1, 1, 1, 1},
                                     .floor = {.02, .02, .02, .02, .02, .02, .02, .02}};
    uint64_t stored = 0;
    float logits[HEAD_MAX_LOGITS], dlogits[HEAD_MAX_LOGITS], dvalue;
    const float ref[HEAD_COUNT] = {-1, -1, -1, -1, -1, -1, -1, -1};
    for (int head = 0; head < HEAD_COUNT; head++)
        stored |= mask_all(slots, head);
    for (int k = 0; k < HEAD_MAX_LOGITS; k++)
        logits[k] = (float)uniform(70, (uint32_t)k, -1, 1);
    for (int op = 0; op < OP_COUNT; op++) {
        for (int credited = 0; credited < OP_COUNT; credited += op ? op : OP_COUNT) { /* WAIT, or the op itself */
            struct loss_row row = {.mask = mask_effective(stored, slots, op),
                                   .relevant = head_relevance(credited),
                                   .valid = true,
                                   .advantage = .7f};
            for (int head = 0; head < HEAD_COUNT; head++)
                row.choice[head] = (uint8_t)(head == HEAD_OP ? op : head_canonical(head));
            const struct loss_counts counts = loss_count(&row, 1);
            struct loss_view view;
            loss_look(&rules, &row, logits, &view);
            loss_backward(&rules, &counts, &row, logits, 0, ref, dlogits, &dvalue);
            for (int head = 0; head < HEAD_COUNT; head++) {
                double size = 0;
                for (int k = 0; k < head_size(slots, head); k++)
                    size += fabs((double)dlogits[head_offset(slots, head) + k]);
                const bool taken = head_relevance(op) >> head & 1, paid = head_relevance(credited) >> head & 1;
                assert_true(taken && paid ? size > 0 : size == 0);
                assert_true(taken || (view.logp[head] == 0 && view.entropy[head] == 0));
            }
        }
    }
}

/* ---- statistics and deals ---------------------------------------------------------------------------------------- */

static void value_metrics_are_those_of_the_spec(void **state)
{
    (void)state;
    const double returns[] = {1, 3, -2, 4}, values[] = {.5, 2, -1, 3};
    const struct critic_fit fit = diagnostics_critic(returns, values, 4);
    assert_near(moments_sample_variance(diagnostics_moments(returns, 4)), 7, 1e-12);
    assert_near(fit.explained_variance, .872024, 1e-6);
    assert_near(fit.nrmse, .259613, 1e-6);
    assert_true(isnan(diagnostics_critic(returns, values, 1).explained_variance));

    double sorted[] = {5, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
    diagnostics_sort(sorted, 11);
    for (int i = 1; i < 11; i++)
        assert_true(sorted[i - 1] <= sorted[i]);
    assert_near(diagnostics_percentile(sorted, 11, .5), 5, 1e-12);
    assert_near(diagnostics_percentile(sorted, 11, .1), 1, 1e-12);
    assert_near(diagnostics_percentile(sorted, 4, .5), (sorted[1] + sorted[2]) / 2, 1e-12);
    assert_near(diagnostics_percentile(sorted, 1, .9), sorted[0], 1e-12);

    const double skewed[] = {0, 0, 0, 4}, same[] = {2, 2, 2, 2};
    assert_near(diagnostics_skewness(skewed, 4), 2 / sqrt(3), 1e-12);
    assert_true(diagnostics_skewness(same, 4) == 0 && diagnostics_correlation(same, skewed, 4) == 0);
    assert_near(diagnostics_correlation(returns, values, 4), .9893, 1e-3);
    assert_near(diagnostics_correlation(skewed, skewed, 4), 1, 1e-12);
}

/* L-22: every epoch deals every env out once, in an order of its own, and no place is favoured. */
static void every_epoch_deals_anew(void **state)
{
    (void)state;
    enum { CARDS = 6, DEALS = 6000 };
    int at[CARDS][CARDS] = {{0}}, same = 0;
    int32_t order[CARDS], before[CARDS] = {0};
    for (int deal = 0; deal < DEALS; deal++) {
        unsigned seen = 0;
        deal_envs(42, (uint32_t)deal / 4, deal % 4, CARDS, order);
        for (int i = 0; i < CARDS; i++) {
            seen |= 1u << order[i];
            at[order[i]][i]++;
        }
        assert_int_equal(seen, (1u << CARDS) - 1);
        same += memcmp(order, before, sizeof order) == 0;
        memcpy(before, order, sizeof order);
    }
    assert_true(same < DEALS / 360); /* 1 in 720 */
    for (int i = 0; i < CARDS * CARDS; i++)
        assert_near(at[i / CARDS][i % CARDS], DEALS / CARDS, 5 * sqrt(DEALS / CARDS));
    deal_envs(43, DEALS / 4 - 1, 3, CARDS, order);
    assert_memory_not_equal(order, before, sizeof order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(advantages_are_those_of_the_spec),
        cmocka_unit_test(a_rollback_ends_its_segment),
        cmocka_unit_test(advantages_match_a_direct_sum),
        cmocka_unit_test(truncation_is_not_an_end),
        cmocka_unit_test(envs_are_independent),
        cmocka_unit_test(moments_do_not_depend_on_partition_or_order),
        cmocka_unit_test(rewards_are_scaled_as_in_the_spec),
        cmocka_unit_test(rewards_at_the_end_keep_their_differences),
        cmocka_unit_test(averages_are_those_of_the_spec),
        cmocka_unit_test(new_units_keep_what_the_critic_says),
        cmocka_unit_test(policy_loss_is_that_of_the_spec),
        cmocka_unit_test(value_loss_is_that_of_the_spec),
        cmocka_unit_test(what_is_shown_is_followed),
        cmocka_unit_test(divergence_and_clip_keep_their_bounds),
        cmocka_unit_test(heads_that_do_not_matter_get_no_gradient),
        cmocka_unit_test(value_metrics_are_those_of_the_spec),
        cmocka_unit_test(every_epoch_deals_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
