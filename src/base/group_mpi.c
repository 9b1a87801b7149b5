/* libesper_mpi.so: messages between ranks by MPI, and the only file that knows it. */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/group_transport.h"

static MPI_Comm world;

static void *start(int (*call)(int rank, int tag, void *data, int bytes, MPI_Request *request), int rank, int tag,
                   void *data, size_t bytes)
{
    MPI_Request *request = malloc(sizeof *request);
    if (!request || bytes > INT_MAX || call(rank, tag, data, (int)bytes, request) != MPI_SUCCESS) {
        free(request);
        return NULL;
    }
    return request;
}

static int send_call(int rank, int tag, void *data, int bytes, MPI_Request *request)
{
    return MPI_Isend(data, bytes, MPI_BYTE, rank, tag, world, request);
}

static int receive_call(int rank, int tag, void *data, int bytes, MPI_Request *request)
{
    return MPI_Irecv(data, bytes, MPI_BYTE, rank, tag, world, request);
}

static void *mpi_send(int to, int tag, const void *data, size_t bytes)
{
    return start(send_call, to, tag, (void *)(uintptr_t)data, bytes);
}

static void *mpi_receive(int from, int tag, void *data, size_t bytes)
{
    return start(receive_call, from, tag, data, bytes);
}

/* A message that failed is never done: whoever waits for it learns from the other rank's silence. */
static bool mpi_done(void *message)
{
    int flag = 0;
    if (MPI_Test(message, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS || !flag)
        return false;
    free(message);
    return true;
}

static bool mpi_arrived(int tag, int *from, size_t *bytes)
{
    int flag = 0, count = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, tag, world, &flag, &status) != MPI_SUCCESS || !flag ||
        MPI_Get_count(&status, MPI_BYTE, &count) != MPI_SUCCESS)
        return false;
    *from = status.MPI_SOURCE;
    *bytes = (size_t)count;
    return true;
}

static void mpi_end(void)
{
    MPI_Finalize();
}

const struct group_transport *esper_group_transport(char why[256]);

const struct group_transport *esper_group_transport(char why[256])
{
    static struct group_transport transport = {.version = GROUP_TRANSPORT_VERSION,
                                               .send = mpi_send,
                                               .receive = mpi_receive,
                                               .done = mpi_done,
                                               .arrived = mpi_arrived,
                                               .end = mpi_end};
    int level;
    MPI_Comm local;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS) {
        snprintf(why, 256, "MPI could not be started");
        return NULL;
    }
    world = MPI_COMM_WORLD;
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Comm_rank(world, &transport.rank);
    MPI_Comm_size(world, &transport.ranks);
    MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
    MPI_Comm_rank(local, &transport.local_rank);
    MPI_Comm_size(local, &transport.local_ranks);
    MPI_Comm_free(&local);
    return &transport;
}
