/*
 * Running statistics and the quantities normalised with them: observations, rewards, values (L-11). Everything is in
 * double.
 *
 * Moments of parts merge into the moments of the whole (Chan), whatever the partition. The weights of the exponential
 * averages are arguments; normalise_weight gives those that training uses: exact averaging first, a fixed share later,
 * so that the arbitrary start is forgotten at once.
 */
#ifndef LEARN_NORMALISE_H
#define LEARN_NORMALISE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rule.h"

#define NORMALISE_CLIP        10.0 /* of observations */
#define NORMALISE_EPSILON     1e-4 /* added to variances before the root */
#define NORMALISE_OBS_LEAST   0.01 /* least weight of a round in the observation statistics */
#define NORMALISE_VALUE_LEAST 0.05
#define REWARD_LEVEL          10.0 /* what a reward that is always the same is scaled to */

/* ---- moments ---------------------------------------------------------------------------------------------------- */

struct moments {
    double count, mean, m2; /* m2: summed squares of the deviations from the mean */
};

ESPER_RULE void moments_add(struct moments *moments, double x)
{
    moments->count += 1;
    double delta = x - moments->mean;
    moments->mean += delta / moments->count;
    moments->m2 += delta * (x - moments->mean);
}

ESPER_RULE struct moments moments_merge(struct moments a, struct moments b)
{
    struct moments both = {a.count + b.count, a.mean, a.m2 + b.m2};
    if (both.count > 0) {
        double delta = b.mean - a.mean;
        both.mean += delta * (b.count / both.count);
        both.m2 += delta * delta * (a.count * (b.count / both.count));
    }
    return both;
}

ESPER_RULE double moments_variance(struct moments moments) /* of the population */
{
    return moments.count > 0 ? moments.m2 / moments.count : 0;
}

ESPER_RULE double moments_sample_variance(struct moments moments) /* undefined, NAN, below two samples */
{
    return moments.count >= 2 ? moments.m2 / (moments.count - 1) : (double)NAN;
}

/* ---- exponential averages --------------------------------------------------------------------------------------- */

/* Weight of the u-th update, u from 1. */
ESPER_RULE double normalise_weight(uint32_t update, double least)
{
    return fmax(1.0 / (double)update, least);
}

/* Mean and variance of the mixture: `weight` for the batch, the rest for the statistics so far. */
ESPER_RULE void normalise_merge(double weight, double batch_mean, double batch_variance, double *mean, double *variance)
{
    double delta = batch_mean - *mean;
    *variance = (1 - weight) * *variance + weight * batch_variance + weight * (1 - weight) * delta * delta;
    *mean = (1 - weight) * *mean + weight * batch_mean;
}

ESPER_RULE double normalise_clip(double x) /* NAN stays NAN: the update's gates must see it */
{
    return x < -NORMALISE_CLIP ? -NORMALISE_CLIP : x > NORMALISE_CLIP ? NORMALISE_CLIP : x;
}

ESPER_RULE float normalise_observation(float raw, double mean, double variance)
{
    return (float)normalise_clip(((double)raw - mean) / sqrt(variance + NORMALISE_EPSILON));
}

/* ---- rewards ---------------------------------------------------------------------------------------------------- */

ESPER_RULE double reward_deviation(struct moments moments)
{
    return moments.count < 2 ? 1.0 : fmax(1e-8, sqrt(moments_sample_variance(moments)));
}

/* The divisor of a reward, given statistics that include it; the mean is never subtracted. Rewards that hardly differ
 * are divided by a share of their mean instead, so that n rewards stay within REWARD_LEVEL + sqrt(n): that bounds them
 * without a clip, which a reward at the end of a long episode would reach, whatever it is worth. */
ESPER_RULE double reward_scale(struct moments moments)
{
    return fmax(reward_deviation(moments), fabs(moments.mean) / REWARD_LEVEL);
}

ESPER_RULE double reward_normalise(struct moments moments, double raw)
{
    return raw / reward_scale(moments);
}

/* Adds a reward of the step to its moments, unless there was none. */
ESPER_RULE void rewards_add(struct moments *step, bool executed, double raw)
{
    if (executed && isfinite(raw)) /* one env's failure must not reach the others (E-03) */
        moments_add(step, raw);
}

/* A reward scaled with the statistics of all steps, this one included; 0 where there was none. */
ESPER_RULE float rewards_scaled(struct moments all, bool executed, double raw)
{
    return executed && isfinite(raw) ? (float)reward_normalise(all, raw) : 0.0f;
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

/* Critic targets are (return - shift) / scale. */
struct value_units {
    double shift, scale;
};

ESPER_RULE double value_scale_of(double variance)
{
    return sqrt(variance + NORMALISE_EPSILON);
}

/* The units after the u-th update by a batch of returns; the first one takes the batch as it is. */
ESPER_RULE struct value_units value_units_update(struct value_units before, uint32_t update, struct moments returns)
{
    double variance = before.scale * before.scale - NORMALISE_EPSILON;
    struct value_units after = before;
    normalise_merge(normalise_weight(update, NORMALISE_VALUE_LEAST), returns.mean, moments_variance(returns),
                    &after.shift, &variance);
    after.scale = value_scale_of(variance);
    return after;
}

/* A weight and a bias of the last value layer, rewritten so that scale * V + shift is unchanged (PopArt). */
ESPER_RULE float value_rewrite_weight(struct value_units before, struct value_units after, float weight)
{
    return (float)((double)weight * (before.scale / after.scale));
}

ESPER_RULE float value_rewrite_bias(struct value_units before, struct value_units after, float bias)
{
    return (float)((before.scale * (double)bias + before.shift - after.shift) / after.scale);
}

#endif
