/*
 * Advantages and returns of one env's rows, backwards in time (L-02). Rows are `stride` apart: a rollout is
 * [step][env], and an env is walked in place.
 *
 * A segment ends where its row is done or truncated, where the next row is a hole or starts with fresh recurrent state,
 * and at the last row. The value after a segment is zero, or the bootstrap value where only time ran out. Nothing
 * crosses a segment's end, and rows without ROW_VALID get zeros.
 */
#ifndef LEARN_GAE_H
#define LEARN_GAE_H

#include <math.h>
#include <stdbool.h>

#include "learn/row.h"

#define ADVANTAGE_LEAST_SPREAD 0.1 /* a smaller spread of advantages is not scaled up to 1 */

struct gae_rates {
    double gamma, lambda;
    double shift, scale; /* values are (return - shift) / scale */
};

struct gae_rows {
    const uint8_t *flags;
    const float *reward, *value, *bootstrap;
    float *advantage, *returns, *td_error; /* in units of the rewards */
};

ESPER_RULE bool gae_segment_ends(const uint8_t *flags, int step, int steps, int stride)
{
    if (step == steps - 1 || (flags[step * stride] & (ROW_DONE | ROW_TRUNCATED)))
        return true;
    uint8_t next = flags[(step + 1) * stride];
    return !(next & ROW_VALID) || (next & ROW_RESET);
}

ESPER_RULE void gae_estimate(const struct gae_rates *rates, const struct gae_rows *rows, int steps, int stride)
{
    double next_value = 0, next_advantage = 0;
    for (int step = steps - 1; step >= 0; step--) {
        const int i = step * stride;
        if (!(rows->flags[i] & ROW_VALID)) {
            rows->advantage[i] = rows->returns[i] = rows->td_error[i] = 0;
            continue;
        }
        if (gae_segment_ends(rows->flags, step, steps, stride)) {
            next_advantage = 0;
            next_value = 0;
            if (rows->flags[i] & ROW_TRUNCATED)
                next_value = (double)rows->bootstrap[i] * rates->scale + rates->shift;
        }
        double value = (double)rows->value[i] * rates->scale + rates->shift;
        double delta = (double)rows->reward[i] + rates->gamma * next_value - value;
        next_advantage = delta + rates->gamma * rates->lambda * next_advantage;
        next_value = value;
        rows->td_error[i] = (float)delta;
        rows->advantage[i] = (float)next_advantage;
        rows->returns[i] = (float)(next_advantage + value);
    }
}

/* By mean and population deviation over the rows of the update that had a choice (L-03). */
ESPER_RULE double advantage_normalise(double advantage, double mean, double deviation)
{
    return (advantage - mean) / (fmax(deviation, ADVANTAGE_LEAST_SPREAD) + 1e-8);
}

#endif
