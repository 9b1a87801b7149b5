/*
 * Lessons: what a policy is shown before it acts for itself. In the first rounds of a training the envs try the
 * schedules of the catalogue, each once and then those that did best again (Thompson sampling: every env plays the
 * schedule with the highest draw from what is believed of its mean); in the recitals that follow all envs play the best
 * of them, and the policy learns to act like it. What was found out is in the world's table.
 */
#ifndef SEARCH_LESSONS_H
#define SEARCH_LESSONS_H

#include "base/philox.h"
#include "search/catalogue.h"

/* The episodes of each schedule so far; [count]. */
struct lessons {
    int count;
    uint32_t *plays;
    double *mean, *square; /* of what they earned; summed squares of deviations from the mean */
};

/* The schedule that an env tries: `number` counts the plays of all envs and rounds. */
int lessons_try(const struct lessons *lessons, uint64_t number, struct random_site site);
/* The one that is best for certain: by the lower end of what is believed of its mean. */
int lessons_best(const struct lessons *lessons);
/* The standard error of a schedule's mean, which has been played. */
double lessons_error(const struct lessons *lessons, int schedule);
void lessons_judge(const struct lessons *lessons, int schedule, double earned);

#endif
