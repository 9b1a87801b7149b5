/*
 * Lessons: what a policy is shown before it acts for itself. In the first rounds of a training the envs try the
 * schedules of the catalogue, each once and then those that did best again (Thompson sampling: every env plays the
 * schedule with the highest draw from what is believed of their means); in the recitals that follow they play the best
 * of them, and the policy learns to act like it. What was found out is in the world's table.
 *
 * What an episode paid for its parameters is kept apart from the rest of what it earned: an env whose price is another
 * plays what is best at that price, and every episode serves all of them.
 */
#ifndef SEARCH_LESSONS_H
#define SEARCH_LESSONS_H

#include "base/philox.h"
#include "search/belief.h"

/* The schedule that an env tries: `number` counts the plays of all envs and rounds; `share` is that of the full price
 * which it pays. */
int lessons_try(const struct belief *belief, uint64_t number, double share, struct random_site site);
/* The one that is best for certain: by the lower end of what is believed of its mean. */
int lessons_best(const struct belief *belief, double share);

#endif
