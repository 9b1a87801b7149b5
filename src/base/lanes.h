/*
 * Lanes: the threads that do one env's rules together. A rule that is spread over them does its slots, features or
 * columns in turn, and meets where one of them reads what another wrote; sums stay in one lane, in their order. The
 * CPU has one lane, the device those of a warp: what is computed is the same.
 *
 *     LANES_EACH(j, slots, lanes)
 *         ...slot j...
 *     lanes_meet(lanes);
 *
 * All lanes must come to every meeting: a condition around one depends on nothing that differs between them.
 */
#ifndef BASE_LANES_H
#define BASE_LANES_H

#include <stdbool.h>

#include "base/rule.h"

struct lanes {
    int lane, count;
};

#define LANES_EACH(i, end, lanes) for (int i = (lanes).lane; i < (end); i += (lanes).count)

ESPER_RULE struct lanes lanes_alone(void)
{
    struct lanes lanes = {0, 1};
    return lanes;
}

/* The one that does what is not spread. */
ESPER_RULE bool lanes_first(struct lanes lanes)
{
    return lanes.lane == 0;
}

/* What any of them wrote before is seen by all of them afterwards. */
ESPER_RULE void lanes_meet(struct lanes lanes)
{
#if defined __CUDA_ARCH__ || defined EMULATE
    if (lanes.count > 1)
        __syncwarp();
#else
    (void)lanes;
#endif
}

#endif
