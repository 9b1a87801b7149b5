/* What changes whenever a run does: by it answers can be kept, and streams know when to read. */
#ifndef VIEW_RUN_MARK_H
#define VIEW_RUN_MARK_H

#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

struct run_mark {
    struct {
        ino_t inode;
        off_t bytes;
        struct timespec changed;
    } files[3]; /* the record, its log, the status */
    bool alive; /* a death leaves no trace in files */
};

/* False: the run is changing this moment, so that the mark may stay as it is while the run does not. */
bool run_mark_take(const char *runs, const char *name, struct run_mark *mark);
bool run_mark_equal(const struct run_mark *a, const struct run_mark *b);

#endif
