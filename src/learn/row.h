/* The flags of a rollout's row, shared by the rollout and the rules that read it, on the device as well. */
#ifndef LEARN_ROW_H
#define LEARN_ROW_H

#include <stdint.h>

#include "base/rule.h"

enum row_flag {
    ROW_VALID = 1u << 0, /* an action was executed here */
    ROW_DONE = 1u << 1,  /* the episode, or its segment, ends here */
    ROW_TRUNCATED =
        1u << 2,          /* ... only because time ran out: the bootstrap value follows (not set by Esper's own loop) */
    ROW_FORCED = 1u << 3, /* there was no choice */
    ROW_RESET = 1u << 4,  /* the recurrent state is zero entering this row; step 0 needs no flag */
    ROW_SHOWN = 1u << 5   /* a schedule acted here, for the policy to learn from */
};

#endif
