/*
 * A thread pool with a fixed work partition: item i always runs on thread i mod threads, so that what a thread finds in
 * its caches - and the order in which one thread does its items - never depends on timing.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/status.h"

struct pool;

#define POOL_MAX_THREADS 1024

/* Cores this process may use. */
int pool_cores(void);

/* `threads` includes the caller, which is thread 0; 0 means all cores. */
enum esper_status pool_create(int threads, struct pool **out, struct esper_error *error);
int pool_threads(const struct pool *pool);
void pool_free(struct pool *pool);

/* Run work(context, item, thread) for item 0 .. items-1 and return when all are done. Allocates nothing. Not reentrant:
 * work must not call pool_run on the same pool. */
void pool_run(struct pool *pool, void (*work)(void *context, int item, int thread), void *context, int items);

#endif
