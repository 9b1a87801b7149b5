/*
 * The catalogue: constant schedules for any task, made by rule and not by hand, as controls and as the start of a
 * search. In this order, each schedule once:
 *
 *     none                      the bare host
 *     uniform                   every blueprint in all slots from step 1 on
 *     heavy end, heavy start    the largest blueprint in the last (first) slot, every other one in the remaining slots
 *     short                     uniform and heavy start, with the last slot left empty
 *     late                      the largest blueprint in all slots, from a quarter and from half of the episode on
 *     alone                     every blueprint in each slot by itself, at step 1
 */
#ifndef SEARCH_CATALOGUE_H
#define SEARCH_CATALOGUE_H

#include "policy/schedule.h"

enum { CATALOGUE_MAX = 1 + 5 * (BLUEPRINT_MAX - 1) + 2 + (BLUEPRINT_MAX - 1) * CONFIG_MAX_SLOTS };

struct catalogue {
    int count;
    struct schedule schedule[CATALOGUE_MAX];
};

void catalogue_make(struct catalogue *catalogue, const struct config *config);

/* Whether both plant the same, in the same order. */
bool schedule_equal(const struct schedule *a, const struct schedule *b);
/* Parameters of all its seeds, their gate nets included. */
long long schedule_params(const struct schedule *schedule, const struct config *config);

#endif
