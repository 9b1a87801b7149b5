/*
 * What the gradients of a slot, before clipping, say about its health (D-35), and how far they are clipped. The caller
 * sums the squares, in its own order; this decides what the sums mean.
 */
#ifndef MORPH_GRADIENT_H
#define MORPH_GRADIENT_H

#include <math.h>
#include <stdbool.h>

#include "base/rule.h"

#define GRADIENT_VANISHED 1e-7 /* bounds of a tensor's norm: vanished below, exploded above */
#define GRADIENT_EXPLODED 10.0
#define GRADIENT_NOTHING  1e-8 /* no ratio of norms below this */

/* Measurements of the gradients of a slot in training. */
struct slot_grads {
    bool measured; /* the slot takes part in the pass; the caller decides which stages count */
    double norm, health, ratio;
    bool vanishing, exploding, finite;
};

/* How many of a slot's tensors, those of its seed and its gate, are in which state. Starts at zero. */
struct gradient_tally {
    int tensors, vanishing, exploding, infinite;
};

/* Counts a tensor whose gradient has this L2 norm. */
ESPER_RULE void gradient_count(struct gradient_tally *tally, double norm)
{
    bool finite = isfinite(norm);
    tally->tensors++;
    tally->vanishing += norm < GRADIENT_VANISHED;
    tally->exploding += !finite || norm > GRADIENT_EXPLODED;
    tally->infinite += !finite;
}

/* The report of a slot without gradients. If it takes part, its seed is frozen, which is healthy. */
ESPER_RULE struct slot_grads gradient_none(bool takes_part)
{
    struct slot_grads grads = {takes_part, 0, takes_part ? 1.0 : 0.0, 0, false, false, true};
    return grads;
}

/* The report of a slot that learns: the norm over all of its `params` parameters, and the host's over `host_params`. */
ESPER_RULE struct slot_grads gradient_report(const struct gradient_tally *tally, double norm, double params,
                                             double host_norm, double host_params)
{
    struct slot_grads grads = gradient_none(true);
    double tensors = tally->tensors ? tally->tensors : 1;
    grads.norm = norm;
    grads.finite = tally->infinite == 0;
    grads.vanishing = tally->vanishing > 0;
    grads.exploding = tally->exploding > 0;
    grads.health = 1 - 0.5 * tally->vanishing / tensors - 0.8 * tally->exploding / tensors;
    if (!grads.finite || grads.health < 0)
        grads.health = 0;
    if (norm >= GRADIENT_NOTHING && host_norm >= GRADIENT_NOTHING)
        grads.ratio = norm / sqrt(params) / (host_norm / sqrt(host_params) + 1e-8);
    return grads;
}

/* The factor for a gradient of this norm. A NAN must not be taken for a small one. */
ESPER_RULE double gradient_clip(double norm, double max_norm)
{
    double factor = max_norm / (norm + 1e-6);
    return factor < 1 ? factor : norm != norm ? norm : 1;
}

#endif
