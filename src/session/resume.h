/*
 * Where a run can go on. Its status, its record and its checkpoints are compared before anything is changed, so that no
 * round is forgotten in silence: what is missing is said, and a run whose checkpoints are gone does not begin again
 * unless the user asked for that.
 */
#ifndef SESSION_RESUME_H
#define SESSION_RESUME_H

#include "session/checkpoint.h"
#include "telemetry/run.h"

enum { RESUME_NOTE = 1024 };

struct resume_point {
    bool begins;                 /* with its first round */
    struct checkpoint_info from; /* otherwise from this checkpoint */
    char note[RESUME_NOTE];      /* one line: what is missing and what that means; "": nothing is */
};

/* `folder` holds the run's checkpoints. `from_scratch`: the user wants to begin again, and nothing else; that is
 * refused where an intact checkpoint would be lost by it. */
enum esper_status resume_find(const struct run *run, const char *folder, bool from_scratch, struct resume_point *point,
                              struct esper_error *error);

#endif
