/*
 * Lessons: what a policy is shown before it acts for itself. In the first rounds of a training the envs try the
 * schedules of the catalogue at several tempos, each schedule once and then those that did best again (Thompson
 * sampling: an env plays the schedule and the tempo with the highest draw from what is believed of their means; every
 * other env the schedule with the second highest, so that the best is told from its rivals); in the recitals that
 * follow they play the best of them, and the policy learns to act like it. What was found out is in the world's table.
 *
 * What an episode paid for its parameters is kept apart from the rest of what it earned: an env whose price is another
 * plays what is best at that price, and every episode serves all of them.
 */
#ifndef SEARCH_LESSONS_H
#define SEARCH_LESSONS_H

#include "base/philox.h"
#include "search/belief.h"
#include "search/catalogue.h"

enum { LESSONS_MAX = CATALOGUE_MAX * TEMPO_COUNT, LESSONS_ALL = CATALOGUE_MAX + TEMPO_COUNT };

/* What can be tried, [count of the catalogue * TEMPO_COUNT]: the catalogue as it is, then at every other tempo. */
void lessons_fill(struct schedule *out, const struct catalogue *catalogue);

/* Which of them an env tries: `number` counts the plays of all envs and rounds; `share` is that of the full price
 * which it pays. */
int lessons_try(const struct belief *belief, uint64_t number, double share, struct random_site site);
/* The one that is best for certain: by the lower end of what is believed of its mean. */
int lessons_best(const struct belief *belief, double share);

#endif
