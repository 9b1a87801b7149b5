/* The queue between the trainer's threads and the writer: nothing lost below its limit, nothing twice, order kept. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "telemetry/ring.h"
#include "testing_record.h"

static struct esper_error error;

static struct ring *must_create(size_t cells)
{
    struct ring *ring = ring_create(cells, &error);
    if (!ring)
        fail_msg("%s", error.text);
    return ring;
}

/* Row i of a producer; its fields follow from the two, so that a torn row shows. */
static struct subset_record numbered(int64_t producer, int64_t i)
{
    return (struct subset_record){.round = producer, .step = i, .env = producer ^ i, .mask = ~i, .correct = 3 * i};
}

static bool push(struct ring *ring, int64_t producer, int64_t i)
{
    struct subset_record record = numbered(producer, i);
    record.accuracy = (double)i;
    return ring_push(ring, RECORD_SUBSET, &record);
}

static bool is_sound(const struct record_row *row)
{
    struct subset_record record = numbered(row->record.subset.round, row->record.subset.step);
    record.accuracy = (double)record.step;
    return row->kind == RECORD_SUBSET && memcmp(&record, &row->record.subset, sizeof record) == 0;
}

/* ---- one thread -------------------------------------------------------------------------------------------------- */

static void every_kind_passes(void **state)
{
    (void)state;
    struct ring *ring = must_create(16);
    struct record_row rows[RECORD_KIND_COUNT], out;
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        fill_row(&rows[kind], (enum record_kind)kind, 100, false, 0);
        assert_true(ring_push(ring, rows[kind].kind, &rows[kind].record));
    }
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        memset(&out, 0, sizeof out);
        assert_true(ring_pop(ring, &out));
        assert_memory_equal(&out, &rows[kind], sizeof out);
    }
    ring_free(ring);
    ring_free(NULL);
}

/* Every level of filling, wrapped around many times, compared with two plain counters. */
static void fills_and_empties(void **state)
{
    (void)state;
    static const int sizes[] = {2, 4, 8, 64};
    for (int s = 0; s < 4; s++) {
        struct ring *ring = must_create((size_t)sizes[s]);
        struct record_row row;
        int64_t in = 0, out = 0;
        unsigned noise = 1;
        assert_false(ring_pop(ring, &row));
        for (int turn = 0; turn < 20000; turn++) {
            noise = noise * 1664525u + 1013904223u;
            int pushes = (int)(noise >> 8) % (sizes[s] + 2), pops = (int)(noise >> 16) % (sizes[s] + 2);
            for (int i = 0; i < pushes; i++) {
                bool room = in - out < sizes[s];
                assert_int_equal(push(ring, 7, in), room);
                in += room;
            }
            for (int i = 0; i < pops; i++) {
                bool some = in > out;
                assert_int_equal(ring_pop(ring, &row), some);
                if (some)
                    assert_true(is_sound(&row) && row.record.subset.step == out);
                out += some;
            }
            assert_int_equal(ring_pushed(ring), in);
            assert_int_equal(ring_popped(ring), out);
        }
        assert_true(out > 10000 && out / sizes[s] > 100);
        ring_free(ring);
    }
}

static void full_says_so_at_once(void **state)
{
    (void)state;
    enum { CELLS = 4096, MORE = 1000000 };
    struct ring *ring = must_create(CELLS);
    struct record_row row;
    for (int i = 0; i < CELLS; i++)
        assert_true(push(ring, 0, i));
    double start = clock_seconds();
    for (int i = 0; i < MORE; i++)
        assert_false(push(ring, 0, CELLS + i));
    assert_true(clock_seconds() - start < patience()); /* about 10 ms */
    assert_int_equal(ring_pushed(ring), CELLS);
    assert_true(ring_pop(ring, &row)); /* one leaves, one comes in */
    assert_int_equal(row.record.subset.step, 0);
    assert_true(push(ring, 0, CELLS));
    assert_false(push(ring, 0, CELLS + 1));
    for (int i = 1; i <= CELLS; i++) {
        assert_true(ring_pop(ring, &row));
        assert_true(is_sound(&row) && row.record.subset.step == i);
    }
    assert_false(ring_pop(ring, &row));
    ring_free(ring);
}

/* ---- eight producers --------------------------------------------------------------------------------------------- */

enum { PRODUCERS = 8 };

struct crowd {
    struct ring *ring;
    int64_t rows; /* of each producer */
    int64_t cells;
    bool patient; /* waits for room before it pushes */
    atomic_int ready, done;
    atomic_int_fast64_t refused;
};

struct producer {
    struct crowd *crowd;
    int64_t number;
    pthread_t thread;
};

/* Eight producers that check first and push one row each never exceed the cells. */
static void wait_for_room(const struct crowd *crowd)
{
    while ((int64_t)(ring_pushed(crowd->ring) - ring_popped(crowd->ring)) > crowd->cells - PRODUCERS)
        sched_yield();
}

static void *produce(void *context)
{
    struct producer *producer = context;
    struct crowd *crowd = producer->crowd;
    atomic_fetch_add(&crowd->ready, 1);
    while (atomic_load(&crowd->ready) < PRODUCERS)
        sched_yield();
    for (int64_t i = 0; i < crowd->rows; i++) {
        if (crowd->patient)
            wait_for_room(crowd);
        if (!push(crowd->ring, producer->number, i))
            atomic_fetch_add(&crowd->refused, 1);
    }
    atomic_fetch_add(&crowd->done, 1);
    return NULL;
}

/* Returns the number of rows that came out; each is whole and comes after its producer's rows before it. */
static int64_t consume(struct crowd *crowd)
{
    int64_t next[PRODUCERS] = {0}, count = 0;
    struct record_row row;
    for (;;) {
        bool last = atomic_load(&crowd->done) == PRODUCERS;
        while (ring_pop(crowd->ring, &row)) {
            assert_true(is_sound(&row));
            int64_t *expected = &next[row.record.subset.round];
            assert_true(row.record.subset.step >= *expected); /* in order, and never twice */
            if (crowd->patient)
                assert_int_equal(row.record.subset.step, *expected);
            *expected = row.record.subset.step + 1;
            count++;
        }
        if (last)
            return count;
        sched_yield();
    }
}

static void run_crowd(int64_t cells, bool patient, int64_t rows)
{
    struct crowd crowd = {.ring = must_create((size_t)cells), .rows = rows, .cells = cells, .patient = patient};
    struct producer producers[PRODUCERS];
    for (int i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){.crowd = &crowd, .number = i};
        assert_int_equal(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
    }
    int64_t count = consume(&crowd);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(producers[i].thread, NULL);
    int64_t refused = atomic_load(&crowd.refused);
    assert_int_equal(count + refused, PRODUCERS * rows);
    assert_int_equal(ring_pushed(crowd.ring), count);
    assert_int_equal(ring_popped(crowd.ring), count);
    if (patient)
        assert_int_equal(refused, 0);
    ring_free(crowd.ring);
}

static int64_t rows_each(void)
{
    return getenv("ESPER_SOAK") ? 1000000 : 100000;
}

static void nothing_lost_below_the_limit(void **state)
{
    (void)state;
    run_crowd(1024, true, rows_each());
    run_crowd(16, true, rows_each() / 10); /* wraps around all the time */
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    run_crowd(64, false, rows_each());
    run_crowd(2, false, rows_each() / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_passes),
        cmocka_unit_test(fills_and_empties),
        cmocka_unit_test(full_says_so_at_once),
        cmocka_unit_test(nothing_lost_below_the_limit),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
