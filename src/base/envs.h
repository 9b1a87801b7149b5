/*
 * Which envs of its run a process plays, and their numbers. Arrays are indexed by an env's place among those of the
 * process; every random key, report and row of the record has its number in the run. An env's episodes therefore do not
 * depend on which process plays it, nor beside which others.
 */
#ifndef BASE_ENVS_H
#define BASE_ENVS_H

#include <stdint.h>

#include "base/rule.h"

/* The envs with the numbers first .. first + count - 1. */
struct env_part {
    int first, count;
};

/* Those of a rank, of `ranks` that divide a run's envs as evenly as they can. */
ESPER_RULE struct env_part env_part_of(int rank, int ranks, int envs)
{
    struct env_part part;
    part.first = (int)((int64_t)rank * envs / ranks);
    part.count = (int)((int64_t)(rank + 1) * envs / ranks) - part.first;
    return part;
}

ESPER_RULE uint32_t env_number(int first_env, int env)
{
    return (uint32_t)(first_env + env);
}

#endif
