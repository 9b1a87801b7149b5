/*
 * Who waits for whom: how long each rank was busy since the ranks last met, and how long it then waited for the last
 * one. Alone there is nothing of it. It is measured and recorded, and nothing else: no rank does anything by it.
 */
#ifndef SESSION_RANK_TIMES_H
#define SESSION_RANK_TIMES_H

#include "base/group.h"

struct engine;
struct recorder;

struct rank_times {
    double since;  /* clock_seconds when the round before was told; 0: this is the first */
    double waited; /* of that time, s */
};

/* group_meet, and how long that took. */
void rank_times_meet(struct rank_times *times, struct group *group);
/* Together, at the end of a round: a row for every rank, on rank 0; `begun` is when this process began. */
void rank_times_tell(struct rank_times *times, struct group *group, struct engine *engine, struct recorder *recorder,
                     double begun);

#endif
