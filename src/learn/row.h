/* What a row of the rollout is: shared by the rollout and by the rules that walk it, on the device too. */
#ifndef LEARN_ROW_H
#define LEARN_ROW_H

#include <stdint.h>

#include "base/rule.h"

enum row_flag {
    ROW_VALID = 1u << 0, /* an action was executed here */
    ROW_DONE = 1u << 1,  /* the episode, or its segment, ends here */
    ROW_TRUNCATED =
        1u << 2,          /* ... only because time was up: the bootstrap value goes on (never so in Esper's own loop) */
    ROW_FORCED = 1u << 3, /* there was no choice */
    ROW_RESET = 1u << 4   /* the recurrent state is zero entering this row; step 0 needs no flag */
};

#endif
