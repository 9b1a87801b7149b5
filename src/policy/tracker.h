/*
 * The signal tracker: what an env remembers of its validation results (P-16). One per env, cleared with the
 * episode. The observation reads the last five results, the heuristic reads plateau and stabilisation, the reward reads
 * the previous results.
 */
#ifndef POLICY_TRACKER_H
#define POLICY_TRACKER_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rule.h"

#define TRACKER_WINDOW        10u  /* results kept */
#define TRACKER_HISTORY       5u   /* of those, shown in the observation */
#define TRACKER_PLATEAU       0.5  /* points; less is no progress */
#define TRACKER_STABLE        0.03 /* relative gain below which the loss counts as stable ... */
#define TRACKER_REGRESSION    0.05 /* ... unless it rose by as much as this */
#define TRACKER_STABLE_EPOCHS 3u   /* in a row, to call the host stabilised */
#define TRACKER_LOSS_MIN      1e-8 /* no ratio is taken of a smaller loss */

#define TRACKER_FIELDS(FIELD, ARRAY)                                                                                   \
    ARRAY(double, loss, TRACKER_WINDOW) /* rings: result n (from 0) at n mod the window */                             \
    ARRAY(double, accuracy, TRACKER_WINDOW)                                                                            \
    FIELD(uint32_t, count)   /* of updates */                                                                          \
    FIELD(uint32_t, plateau) /* updates in a row without progress */                                                   \
    FIELD(uint32_t, stable_count)                                                                                      \
    FIELD(uint8_t, stabilised) /* a latch */                                                                           \
    FIELD(double, best_accuracy)                                                                                       \
    FIELD(double, first_accuracy)

#define TRACKER_MEMBER(type, name)        type name;
#define TRACKER_ARRAY(type, name, length) type name[length];
struct tracker {
    TRACKER_FIELDS(TRACKER_MEMBER, TRACKER_ARRAY)
};
#undef TRACKER_MEMBER
#undef TRACKER_ARRAY

ESPER_RULE void tracker_clear(struct tracker *tracker)
{
#define TRACKER_ZERO(type, name) tracker->name = 0;
#define TRACKER_ZEROS(type, name, length)                                                                              \
    for (uint32_t i = 0; i < (length); i++)                                                                            \
        tracker->name[i] = 0;
    TRACKER_FIELDS(TRACKER_ZERO, TRACKER_ZEROS)
#undef TRACKER_ZERO
#undef TRACKER_ZEROS
}

/* How many results are available. */
ESPER_RULE uint32_t tracker_length(const struct tracker *tracker)
{
    return tracker->count < TRACKER_WINDOW ? tracker->count : TRACKER_WINDOW;
}

/* The result `back` updates before the latest; back < tracker_length. */
ESPER_RULE double tracker_loss(const struct tracker *tracker, uint32_t back)
{
    return tracker->loss[(tracker->count - 1u - back) % TRACKER_WINDOW];
}

ESPER_RULE double tracker_accuracy(const struct tracker *tracker, uint32_t back)
{
    return tracker->accuracy[(tracker->count - 1u - back) % TRACKER_WINDOW];
}

/* The loss before the latest one; NAN when there was none, or none to compare with. */
ESPER_RULE double tracker_previous_loss(const struct tracker *tracker)
{
    double loss = tracker->count < 2 ? (double)NAN : tracker_loss(tracker, 1);
    return isfinite(loss) ? loss : (double)NAN;
}

/* The accuracy before the latest one; 0 when there was none. */
ESPER_RULE double tracker_previous_accuracy(const struct tracker *tracker)
{
    return tracker->count < 2 ? 0.0 : tracker_accuracy(tracker, 1);
}

/* The improvement of the latest result, higher is better; that of the first loss is infinite. Needs count > 0. */
ESPER_RULE double tracker_loss_delta(const struct tracker *tracker)
{
    double previous = tracker_previous_loss(tracker);
    return isnan(previous) ? (double)INFINITY : previous - tracker_loss(tracker, 0);
}

ESPER_RULE double tracker_acc_delta(const struct tracker *tracker)
{
    return tracker_accuracy(tracker, 0) - tracker_previous_accuracy(tracker);
}

/* The host is stable once the loss has neither fallen nor risen much for some epochs. Unknown and tiny losses do not
 * count either way. */
ESPER_RULE void tracker_settle(struct tracker *tracker)
{
    double previous = tracker_previous_loss(tracker);
    if (tracker->stabilised || !(previous > TRACKER_LOSS_MIN))
        return;
    double gain = tracker_loss_delta(tracker) / previous;
    bool stable = gain > -TRACKER_REGRESSION && gain < TRACKER_STABLE;
    tracker->stable_count = stable ? tracker->stable_count + 1u : 0u;
    tracker->stabilised = tracker->stable_count >= TRACKER_STABLE_EPOCHS;
}

/* Once per step, after validation. */
ESPER_RULE void tracker_update(struct tracker *tracker, double val_loss, double val_accuracy)
{
    uint32_t place = tracker->count % TRACKER_WINDOW;
    tracker->loss[place] = val_loss;
    tracker->accuracy[place] = val_accuracy;
    if (tracker->count++ == 0)
        tracker->first_accuracy = val_accuracy;
    tracker->plateau = tracker_acc_delta(tracker) < TRACKER_PLATEAU ? tracker->plateau + 1u : 0u;
    tracker->best_accuracy = fmax(tracker->best_accuracy, val_accuracy);
    tracker_settle(tracker);
}

/* Lowest loss of the window. Needs count > 0. */
ESPER_RULE double tracker_best_loss(const struct tracker *tracker)
{
    double best = tracker_loss(tracker, 0);
    for (uint32_t back = 1; back < tracker_length(tracker); back++)
        best = fmin(best, tracker_loss(tracker, back));
    return best;
}

/* The lowest accuracy of the last `window` results, or of all when there are fewer. Needs count > 0, window > 0. */
ESPER_RULE double tracker_stable_accuracy(const struct tracker *tracker, uint32_t window)
{
    double least = tracker_accuracy(tracker, 0);
    for (uint32_t back = 1; back < window && back < tracker_length(tracker); back++)
        least = fmin(least, tracker_accuracy(tracker, back));
    return least;
}

#endif
