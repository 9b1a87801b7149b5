/*
 * The alpha controller: moves a slot's alpha from its current value to a target in a given number of steps.
 *
 * A ramp is monotone, never overshoots and ends exactly on its target (I-40). There is one alpha (D-19): a command that
 * takes no steps changes it at once.
 */
#ifndef MORPH_ALPHA_H
#define MORPH_ALPHA_H

#include <math.h>

#include "morph/slot.h"

#define ALPHA_EPSILON 1e-6f
#define ALPHA_FULL    (1.0f - ALPHA_EPSILON) /* at least this much counts as 1 */

ESPER_RULE double alpha_logistic(double x)
{
    if (x >= 0)
        return 1.0 / (1.0 + exp(-x));
    double e = exp(x); /* never overflows, whatever the steepness */
    return e / (1.0 + e);
}

/* Progress along the ramp at time t, both in [0, 1]. */
ESPER_RULE double alpha_ease(int curve, double steepness, double t)
{
    const double pi = 3.14159265358979323846;
    if (curve == CURVE_COSINE)
        return 0.5 * (1.0 - cos(pi * t));
    if (curve == CURVE_SIGMOID) {
        double low = alpha_logistic(-0.5 * steepness), high = alpha_logistic(0.5 * steepness);
        if (high > low)
            return (alpha_logistic(steepness * (t - 0.5)) - low) / (high - low);
    }
    return t;
}

ESPER_RULE float alpha_clamp(float value, float low, float high)
{
    return fminf(fmaxf(value, low), high);
}

/* Start a ramp. Refused while another one runs. With no steps, alpha reaches its target at once. */
ESPER_RULE bool alpha_retarget(struct slot_state *slot, float target, int steps, int curve, float steepness)
{
    if (slot->alpha_mode != ALPHA_HOLD)
        return false;
    slot->alpha_start = slot->alpha;
    slot->alpha_target = alpha_clamp(target, 0.0f, 1.0f);
    slot->alpha_curve = (uint8_t)curve;
    slot->steepness = fmaxf(steepness, STEEPNESS_MIN);
    slot->steps_total = steps > 0 ? (uint32_t)steps : 0;
    slot->steps_done = 0;
    if (slot->steps_total == 0)
        slot->alpha = slot->alpha_target;
    slot->alpha_mode = (uint8_t)(slot->alpha_target > slot->alpha   ? ALPHA_UP
                                 : slot->alpha_target < slot->alpha ? ALPHA_DOWN
                                                                    : ALPHA_HOLD);
    return true;
}

/* One step along the ramp; true when it reached the target. */
ESPER_RULE bool alpha_step(struct slot_state *slot)
{
    if (slot->alpha_mode == ALPHA_HOLD)
        return false;
    slot->steps_done++;
    if (slot->steps_done >= slot->steps_total) {
        slot->steps_done = slot->steps_total;
        slot->alpha = slot->alpha_target;
        slot->alpha_mode = ALPHA_HOLD;
        return true;
    }
    double start = slot->alpha_start, span = (double)slot->alpha_target - start;
    double along = alpha_ease(slot->alpha_curve, slot->steepness, (double)slot->steps_done / slot->steps_total);
    slot->alpha = alpha_clamp((float)(start + span * along), fminf(slot->alpha_start, slot->alpha_target),
                              fmaxf(slot->alpha_start, slot->alpha_target));
    return false;
}

/* No ramp runs and alpha is at its target. */
ESPER_RULE bool alpha_rests(const struct slot_state *slot)
{
    return slot->alpha_mode == ALPHA_HOLD && fabsf(slot->alpha - slot->alpha_target) <= ALPHA_EPSILON;
}

/* Steps left on the running ramp; 0 when none runs (D-14). */
ESPER_RULE uint32_t alpha_time_to_target(const struct slot_state *slot)
{
    return slot->alpha_mode == ALPHA_HOLD ? 0 : slot->steps_total - slot->steps_done;
}

/* Mean change of alpha per step of the running ramp. */
ESPER_RULE float alpha_velocity(const struct slot_state *slot)
{
    if (slot->alpha_mode == ALPHA_HOLD)
        return 0.0f;
    return (float)(((double)slot->alpha_target - (double)slot->alpha_start) / slot->steps_total);
}

#endif
