/*
 * What is believed of the schedules' means after some episodes of each: a normal distribution over all of them at once.
 * Schedules that plant the same seed in a slot, or both leave it empty, share a part of their mean, so an episode of
 * one says something of the others. How much schedules differ, and how much episodes of one, is taken from what was
 * played. Those that were never played are left out: nothing is believed of them, and they are never chosen.
 */
#ifndef SEARCH_BELIEF_H
#define SEARCH_BELIEF_H

#include "base/status.h"
#include "policy/schedule.h"

/* The episodes of each schedule so far; [count]. */
struct played {
    int count, slots;
    const struct schedule *schedule;
    const uint32_t *plays;
    const double *mean, *square; /* of what they earned, and summed squares of deviations from the mean */
};

struct belief {
    int count;
    double *mean; /* [count] */
    double *root; /* [count][count], lower triangle: root times its transpose is the covariance */
    double *room; /* [2][count][count] and [count] */
};

enum esper_status belief_create(struct belief *belief, int count, struct esper_error *error);
void belief_free(struct belief *belief);

/* The deviation of an episode from its schedule's mean, the same for all schedules. */
double played_deviation(const struct played *played);
void belief_form(struct belief *belief, const struct played *played);
/* The standard deviation of what is believed of one, and its mean in a draw: `normal` has a number for each. */
double belief_deviation(const struct belief *belief, int schedule);
double belief_drawn(const struct belief *belief, int schedule, const double *normal);

#endif
