/*
 * Numbers of rounds. The random numbers of a round hang on its number, so training and evaluation must never share one:
 * training rounds number from 0, evaluation episodes from 2^23. The record, SQL and the server's API keep these
 * numbers; whatever is shown to people counts from 1 either way, and passes through here.
 */
#ifndef BASE_ROUND_H
#define BASE_ROUND_H

#include <stdbool.h>
#include <stdint.h>

#define EVALUATION_ROUND (1u << 23) /* first round number of evaluation episodes */

/* The number of a run's first round. */
static inline uint32_t round_first(bool evaluate)
{
    return evaluate ? EVALUATION_ROUND : 0;
}

/* How many rounds of the run come before the round of that number. */
static inline int64_t rounds_before(int64_t number)
{
    return number >= (int64_t)EVALUATION_ROUND ? number - (int64_t)EVALUATION_ROUND : number;
}

/* The number that people see: the first round of any run is round 1. */
static inline int64_t round_shown(int64_t number)
{
    return rounds_before(number) + 1;
}

/* How many of the last of so many rounds say what was learned. */
static inline int rounds_judged(int rounds)
{
    return rounds < 2 ? 1 : rounds < 20 ? rounds / 2 : 10;
}

#endif
