/* A mark that changes whenever a run does: it tells caches whether an answer still holds, and streams when to read. */
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
    } files[4]; /* the record, its log, the status, what people say of it */
    bool alive; /* a death leaves no trace in files */
};

/* False: the run is changing right now, so that it may change again without changing the mark. */
bool run_mark_take(const char *runs, const char *name, struct run_mark *mark);
bool run_mark_equal(const struct run_mark *a, const struct run_mark *b);

#endif
