#include "view/run_mark.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "telemetry/run.h"

#define SETTLED_SECONDS 0.05 /* file times are coarse: a file that changed this recently may change again unseen */

bool run_mark_take(const char *runs, const char *name, struct run_mark *mark)
{
    static const char *const files[] = {"telemetry.db", "telemetry.db-wal", "status.json", "label.json"};
    enum { LOG = 1 };
    struct timespec now;
    char directory[PATH_MAX];
    bool settled = true;
    memset(mark, 0, sizeof *mark);
    if (snprintf(directory, sizeof directory, "%s/%s", runs, name) < (int)sizeof directory)
        mark->alive = run_is_alive(directory);
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < 4; i++) {
        char path[PATH_MAX];
        struct stat info;
        if (snprintf(path, sizeof path, "%s/%s/%s", runs, name, files[i]) >= (int)sizeof path || stat(path, &info) != 0)
            continue;
        if (i == LOG && info.st_size == 0) /* a reader of a finished run leaves an empty one: nothing has changed */
            continue;
        mark->files[i].inode = info.st_ino;
        mark->files[i].bytes = info.st_size;
        mark->files[i].changed = info.st_mtim;
        double age = (double)(now.tv_sec - info.st_mtim.tv_sec) + 1e-9 * (double)(now.tv_nsec - info.st_mtim.tv_nsec);
        settled = settled && !(age > -SETTLED_SECONDS && age < SETTLED_SECONDS);
    }
    return settled;
}

bool run_mark_equal(const struct run_mark *a, const struct run_mark *b)
{
    if (a->alive != b->alive)
        return false;
    for (int i = 0; i < 4; i++)
        if (a->files[i].inode != b->files[i].inode || a->files[i].bytes != b->files[i].bytes ||
            a->files[i].changed.tv_sec != b->files[i].changed.tv_sec ||
            a->files[i].changed.tv_nsec != b->files[i].changed.tv_nsec)
            return false;
    return true;
}
