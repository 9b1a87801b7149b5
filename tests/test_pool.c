/* The thread pool: fixed partition, every item exactly once, safe to create, run and free in any number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "base/pool.h"

enum { MOST = 1000 };

struct record {
    int times[MOST], thread[MOST];
    int order[8][MOST], done[8]; /* what each thread did, in its order */
    pthread_t caller;
    int caller_mismatch;
};

static void note(void *context, int item, int thread)
{
    struct record *record = context;
    record->times[item]++;
    record->thread[item] = thread;
    record->order[thread][record->done[thread]++] = item;
    if (thread == 0 && !pthread_equal(pthread_self(), record->caller))
        record->caller_mismatch = 1;
}

static void check_run(struct pool *pool, int items)
{
    static struct record record;
    memset(&record, 0, sizeof record);
    record.caller = pthread_self();
    pool_run(pool, note, &record, items);
    int threads = pool_threads(pool);
    for (int i = 0; i < MOST; i++)
        assert_int_equal(record.times[i], i < items);
    for (int i = 0; i < items; i++)
        assert_int_equal(record.thread[i], i % threads);
    for (int t = 0; t < threads; t++)
        for (int k = 0; k < record.done[t]; k++)
            assert_int_equal(record.order[t][k], t + k * threads);
    assert_int_equal(record.caller_mismatch, 0);
}

static void item_i_runs_once_on_thread_i_mod_threads(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 8; threads++) {
        struct pool *pool;
        struct esper_error error;
        assert_int_equal(pool_create(threads, &pool, &error), ESPER_OK);
        assert_int_equal(pool_threads(pool), threads);
        for (int items = 0; items <= 20; items++)
            check_run(pool, items);
        check_run(pool, MOST);
        pool_free(pool);
    }
}

/* Plain, unlocked data handed from run to run: the sanitizer would see a missing barrier. */
static void add_neighbour(void *context, int item, int thread)
{
    (void)thread;
    int(*cells)[64] = context;
    cells[1][item] = cells[0][item] + cells[0][(item + 1) % 64];
}

static void runs_are_ordered_after_one_another(void **state)
{
    (void)state;
    struct pool *pool;
    struct esper_error error;
    int cells[2][64], expected[64];
    for (int i = 0; i < 64; i++)
        cells[0][i] = expected[i] = i % 7;
    assert_int_equal(pool_create(4, &pool, &error), ESPER_OK);
    for (int run = 0; run < 2000; run++) {
        int next[64];
        pool_run(pool, add_neighbour, cells, 64);
        for (int i = 0; i < 64; i++)
            next[i] = (expected[i] + expected[(i + 1) % 64]) % 1000;
        for (int i = 0; i < 64; i++) {
            cells[0][i] = cells[1][i] % 1000;
            expected[i] = next[i];
        }
        assert_memory_equal(cells[0], expected, sizeof expected);
    }
    pool_free(pool);
}

static void zero_means_all_cores_and_nonsense_is_refused(void **state)
{
    (void)state;
    struct pool *pool = NULL;
    struct esper_error error;
    assert_int_equal(pool_create(0, &pool, &error), ESPER_OK);
    assert_int_equal(pool_threads(pool), pool_cores());
    pool_free(pool);
    assert_int_equal(pool_create(-1, &pool, &error), ESPER_INVALID);
    assert_non_null(strstr(error.text, "-1 threads"));
    assert_int_equal(pool_create(POOL_MAX_THREADS + 1, &pool, &error), ESPER_INVALID);
}

static void an_unused_pool_can_be_freed(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        struct pool *pool;
        struct esper_error error;
        assert_int_equal(pool_create(3, &pool, &error), ESPER_OK);
        pool_free(pool);
    }
    pool_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(item_i_runs_once_on_thread_i_mod_threads),
        cmocka_unit_test(runs_are_ordered_after_one_another),
        cmocka_unit_test(zero_means_all_cores_and_nonsense_is_refused),
        cmocka_unit_test(an_unused_pool_can_be_freed),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
