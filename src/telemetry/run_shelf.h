/*
 * The runs of a directory, or those that were named, with what one wants to know before keeping, packing or removing
 * them: state, size, age, tags. A run that cannot be read is listed with the reason: it takes room as well.
 */
#ifndef TELEMETRY_RUN_SHELF_H
#define TELEMETRY_RUN_SHELF_H

#include <sys/types.h>

#include "telemetry/run.h"
#include "telemetry/run_label.h"

struct shelf_run {
    char path[PATH_MAX];
    dev_t device; /* which directory that is, however it is written */
    ino_t inode;
    char name[128]; /* of the directory */
    char state[16]; /* run_state_name, or "unreadable" */
    bool alive;     /* some process holds its lock */
    char task[64], policy[16], created[32], updated[32];
    unsigned round;  /* done */
    int rounds;      /* planned */
    int64_t changed; /* when its status last was: seconds since 1970 */
    uint64_t bytes;
    struct run_label label;
    char trouble[512]; /* why it cannot be read; "" */
};

struct run_shelf {
    struct shelf_run *runs; /* the newest first */
    int count;
    int others; /* directories of the directory that are no runs */
    char first_other[128];
    uint64_t bytes;
};

struct shelf_wish {
    const char *const *words; /* runs by name or path; */
    int count;                /* 0: all in the directory */
    int64_t older;            /* not changed for this many seconds; 0: any */
    const char *tag, *state;  /* NULL: any */
};

/* A word that names no run is an error. Release with run_shelf_free, also after an error. */
enum esper_status run_shelf_open(struct run_shelf *shelf, const char *runs, const struct shelf_wish *wish,
                                 struct esper_error *error);
void run_shelf_free(struct run_shelf *shelf);

/* "30d", "12h", "2w" in seconds. */
enum esper_status run_shelf_age(const char *text, int64_t *seconds, struct esper_error *error);
/* The words that a state may be. */
enum esper_status run_shelf_check_state(const char *state, struct esper_error *error);

#endif
