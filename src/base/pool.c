#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "base/memory.h"

struct pool_worker {
    struct pool *pool;
    int thread;
    pthread_t handle;
};

struct pool {
    int threads;
    int started; /* workers that exist: threads - 1 once created */
    pthread_mutex_t lock;
    pthread_cond_t work_ready, work_done;

    /* Under the lock. A run is published by raising `generation`; each worker then does its share exactly once. */
    unsigned generation;
    int busy; /* workers that have not finished the current run */
    bool stop;
    void (*work)(void *context, int item, int thread);
    void *context;
    int items;

    struct pool_worker workers[]; /* threads - 1; worker i is thread i + 1 */
};

int pool_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int cores = CPU_COUNT(&set);
    return cores < 1 ? 1 : cores > POOL_MAX_THREADS ? POOL_MAX_THREADS : cores;
}

int pool_threads(const struct pool *pool)
{
    return pool->threads;
}

static void *worker_main(void *argument)
{
    struct pool_worker *worker = argument;
    struct pool *pool = worker->pool;
    unsigned seen = 0;

    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (pool->generation == seen && !pool->stop)
            pthread_cond_wait(&pool->work_ready, &pool->lock);
        if (pool->stop)
            break;
        seen = pool->generation;
        pthread_mutex_unlock(&pool->lock);

        /* work, context and items stay as they are until every worker has reported back. */
        for (int item = worker->thread; item < pool->items; item += pool->threads)
            pool->work(pool->context, item, worker->thread);

        pthread_mutex_lock(&pool->lock);
        if (--pool->busy == 0)
            pthread_cond_signal(&pool->work_done);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Workers block every signal: an interrupt is for the main thread, which knows what to save. */
static enum esper_status workers_start(struct pool *pool, struct esper_error *error)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = 0;
    for (int i = 0; i < pool->threads - 1 && code == 0; i++) {
        struct pool_worker *worker = &pool->workers[i];
        worker->pool = pool;
        worker->thread = i + 1;
        code = pthread_create(&worker->handle, NULL, worker_main, worker);
        if (code == 0)
            pool->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0)
        return error_set(error, ESPER_FAILED, "cannot start thread %d of %d: %s; use fewer threads", pool->started + 2,
                         pool->threads, strerror(code));
    return ESPER_OK;
}

enum esper_status pool_create(int threads, struct pool **out, struct esper_error *error)
{
    if (threads < 0 || threads > POOL_MAX_THREADS)
        return error_set(error, ESPER_INVALID, "%d threads: 0 (all cores) to %d are allowed", threads,
                         POOL_MAX_THREADS);
    if (threads == 0)
        threads = pool_cores();
    struct pool *pool = memory_alloc(1, sizeof *pool + (size_t)(threads - 1) * sizeof pool->workers[0], error);
    if (!pool)
        return ESPER_FAILED;
    pool->threads = threads;
    /* With default attributes these cannot fail on Linux; a plain initialiser would do as well. */
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work_ready, NULL);
    pthread_cond_init(&pool->work_done, NULL);

    enum esper_status status = workers_start(pool, error);
    if (status != ESPER_OK)
        pool_free(pool);
    else
        *out = pool;
    return status;
}

void pool_free(struct pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->work_ready);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->started; i++)
        pthread_join(pool->workers[i].handle, NULL);
    pthread_cond_destroy(&pool->work_done);
    pthread_cond_destroy(&pool->work_ready);
    pthread_mutex_destroy(&pool->lock);
    memory_free(pool);
}

void pool_run(struct pool *pool, void (*work)(void *context, int item, int thread), void *context, int items)
{
    bool shared = pool->threads > 1 && items > 1;
    if (shared) {
        pthread_mutex_lock(&pool->lock);
        pool->work = work;
        pool->context = context;
        pool->items = items;
        pool->busy = pool->threads - 1;
        pool->generation++;
        pthread_cond_broadcast(&pool->work_ready);
        pthread_mutex_unlock(&pool->lock);
    }
    for (int item = 0; item < items; item += pool->threads)
        work(context, item, 0);
    if (shared) {
        pthread_mutex_lock(&pool->lock);
        while (pool->busy > 0)
            pthread_cond_wait(&pool->work_done, &pool->lock);
        pthread_mutex_unlock(&pool->lock);
    }
}
