/*
 * How well a network predicts: what an evaluation adds up, and the points from 0 to 100 that rules, rewards, policies
 * and views speak of. 0 is the worst there is to tell apart, 100 is perfect.
 */
#ifndef MORPH_SCORE_H
#define MORPH_SCORE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rule.h"

/* Sums over targets: an image has one, a sequence one per token. */
struct net_score {
    double loss, hits; /* loss in nats, in a fixed order; targets predicted right */
    uint64_t count;    /* targets */
};

ESPER_RULE void net_score_add(struct net_score *sum, struct net_score score)
{
    sum->loss += score.loss;
    sum->hits += score.hits;
    sum->count += score.count;
}

/*
 * The share of targets predicted right; by loss: the share of the loss of guessing that is gone. A network that is
 * worse than guessing has 0 points, and so has one whose loss is no number: the loss itself tells the governor.
 */
ESPER_RULE double net_points(bool by_loss, int classes, const struct net_score *score)
{
    if (!by_loss)
        return 100.0 * score->hits / (double)score->count;
    const double points = 100.0 * (1.0 - score->loss / (double)score->count / log((double)classes));
    return points > 0.0 ? points : 0.0;
}

#endif
