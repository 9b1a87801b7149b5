/* What libesper_mpi.so provides: messages between ranks, from one thread, nothing of MPI to be seen. */
#ifndef BASE_GROUP_TRANSPORT_H
#define BASE_GROUP_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct group_transport {
    uint32_t version;
    int rank, ranks, local_rank, local_ranks;

    /* Start a message; the data stays where it is until it is done. Messages of a tag between two ranks keep their
     * order. NULL: it could not be started. */
    void *(*send)(int to, int tag, const void *data, size_t bytes);
    void *(*receive)(int from, int tag, void *data, size_t bytes);
    bool (*done)(void *message); /* true: it is over, and released */
    /* Has a message of this tag arrived, from anybody? */
    bool (*arrived)(int tag, int *from, size_t *bytes);
    void (*end)(void); /* together */
};

enum { GROUP_TRANSPORT_VERSION = 1 };
#define GROUP_TRANSPORT_SYMBOL "esper_group_transport"

/* NULL and the reason if the ranks cannot be joined. */
typedef const struct group_transport *group_transport_function(char why[256]);

#endif
