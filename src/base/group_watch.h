/*
 * Who is still there: every rank has a line (TCP) to rank 0 and a thread that says each second that it lives and how
 * far it is. A process that ends, however it does, closes its line, and the others know at once; one that is stopped,
 * or whose machine is gone, falls silent. Calls for a meeting go this way as well, since nobody waits for messages
 * between two steps.
 */
#ifndef BASE_GROUP_WATCH_H
#define BASE_GROUP_WATCH_H

#include "base/group.h"

struct watch;

enum { WATCH_NAME = 80 };
typedef char watch_name[WATCH_NAME]; /* "rank 3 (node7)" */

/* Rank 0 opens its door, which the others come through; they learn port and token from it. */
struct watch_door {
    uint32_t port;
    bool local;     /* all ranks are on one machine: it is open for nobody else */
    uint64_t token; /* so that nobody else comes in */
    char host[64];
};
enum esper_status watch_door_open(struct watch_door *door, bool local, int *listener, struct esper_error *error);
/* Rank 0 lets all others in and closes it; another rank goes through. `seconds` is how long either may take. */
enum esper_status watch_open(struct watch **out, int rank, int ranks, const watch_name *names,
                             const struct watch_door *door, int listener, double seconds, group_end *end,
                             struct esper_error *error);
/* From here on a rank may end. */
void watch_part(struct watch *watch);
void watch_close(struct watch *watch);

void watch_words(struct watch *watch, const char *text);
void watch_fail(struct watch *watch, const struct esper_error *error);
/* Ends all ranks because of one of them. */
void watch_lost(struct watch *watch, int rank, const char *why);

void watch_step(struct watch *watch);
/* While this rank waits for another: for how long that one has made no step, in seconds; `since` is when the wait
 * began. */
double watch_still(struct watch *watch, int rank, double since);
void watch_waits(struct watch *watch, bool waits);

void watch_call(struct watch *watch, bool stop);
uint32_t watch_calls(struct watch *watch); /* calls heard of so far */
bool watch_stops(struct watch *watch);

#endif
