/* Policies that another exam trained, to be examined on a task that they have not seen. */
#ifndef EXAM_POLICIES_H
#define EXAM_POLICIES_H

#include <limits.h>

#include "exam/exam.h"

struct exam_policies {
    char folder[PATH_MAX - 128]; /* of that exam */
    struct config config;        /* under which they were trained */
    int count;
    struct exam_policy {
        char run[48]; /* its training, in the folder */
        uint64_t seed;
    } policy[EXAM_SEEDS]; /* by seed */
};

/* `text` is a folder, or a name under `runs`. `most`: how many are asked for, those of the least seeds; 0: all. */
enum esper_status exam_find_policies(struct exam_policies *out, const char *runs, const char *text, int most,
                                     struct esper_error *error);

#endif
