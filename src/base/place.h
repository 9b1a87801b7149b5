/* A directory that is searched. */
#ifndef BASE_PLACE_H
#define BASE_PLACE_H

#include "base/config.h"

struct place {
    const char *label;      /* for people: "$ESPER_TASKS", "here", ... */
    char path[CONFIG_PATH]; /* "" where there is none, as with a variable that is not set */
};

#endif
