/*
 * What is believed of the schedules' means after some rounds of episodes: a normal distribution over all of them at
 * once, of what they earn compared with the average of what was played. A schedule is played at one of several tempos,
 * which adds the same to all of them: every episode serves its schedule and its tempo.
 *
 * The episodes of a brood have one birth and the same conditions, so only how they differ within it says something of
 * their schedules, and whatever luck they share says nothing. Schedules that plant the same seed in a slot, or both
 * leave it empty, share a part of their mean, so an episode of one says something of the others. How much schedules
 * differ, and how much episodes, is taken from what was played; tempos differ little. Those that were never played are
 * left out: nothing is believed of them, and they are never chosen.
 */
#ifndef SEARCH_BELIEF_H
#define SEARCH_BELIEF_H

#include <stdint.h>

#include "base/status.h"
#include "policy/schedule.h"

/* The episodes so far, [rounds][envs]. */
struct played {
    int count, tempos, slots;
    const struct schedule *schedule; /* [count] */
    int rounds, envs, brood;         /* envs side by side that share their births; the last may be fewer */
    const uint16_t *tried;           /* its schedule + count * its tempo; count * tempos or more: the episode failed */
    const double *earned, *cost;     /* but for the price; what it would have paid at the full price */
};

struct belief {
    int count, tempos, all; /* all: the schedules, then the tempos */
    uint32_t *plays;        /* [all] */
    double *mean;           /* likewise; -INFINITY: never played */
    double *cost;           /* likewise: mean of what its episodes would have paid; 0 of a tempo */
    double *root;           /* [all][all]; times its transpose: the covariance */
    double *room;           /* [4][all][all] and [3][all] */
};

enum esper_status belief_create(struct belief *belief, int count, int tempos, struct esper_error *error);
void belief_free(struct belief *belief);

void belief_form(struct belief *belief, const struct played *played);
/* The standard deviation of what is believed of one, and its mean in a draw: `normal` has a number for each of all. */
double belief_deviation(const struct belief *belief, int which);
double belief_drawn(const struct belief *belief, int which, const double *normal);

#endif
