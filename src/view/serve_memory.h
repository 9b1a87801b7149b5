/*
 * What the server remembers of runs. Reading a run's description and record takes a millisecond or two: too long for
 * hundreds of them at every look. A portrait holds until the run's files change (run_mark.h).
 */
#ifndef VIEW_SERVE_MEMORY_H
#define VIEW_SERVE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "view/run_mark.h"

struct portrait {
    char *text;     /* members of a JSON object: ,"state":...,"reward":... */
    char *settings; /* the value of every key of its configuration in order, each ended by a NUL; NULL: unreadable */
    size_t bytes;   /* of the settings */
};

struct api_memory;

/* The key is the run's name, or that and what else was asked of it. A copy of what is remembered; false: nothing, or it
 * is out of date. Release with portrait_free. */
bool memory_recall(struct api_memory *memory, const char *key, const struct run_mark *mark, struct portrait *portrait);
/* Takes a copy, for so many seconds; 0: until the mark changes. A long text is not worth it. */
void memory_keep(struct api_memory *memory, const char *key, const struct run_mark *mark,
                 const struct portrait *portrait, double seconds);
void portrait_free(struct portrait *portrait);

#endif
