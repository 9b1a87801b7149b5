/* The recorder: what is emitted is written or counted, what must not be lost is not, and it costs next to nothing. */
#include <pthread.h>
#include <stdatomic.h>

#include "testing_recorder.h"

/* ---- what is kept ------------------------------------------------------------------------------------------------ */

static void without_a_recorder(void **state)
{
    (void)state;
    char text[RECORDER_NOTICE];
    struct recorder_totals totals = {.written = 1};
    emit_step(NULL, 0, 0);
    recorder_thin(NULL, RECORD_STEP, 3);
    recorder_count(NULL, 0, 0);
    assert_false(recorder_wants(NULL, RECORD_ROUND));
    assert_false(recorder_is_debug(NULL));
    assert_true(recorder_flush(NULL, 1));
    assert_false(recorder_notice(NULL, text));
    recorder_totals(NULL, &totals);
    assert_int_equal(totals.written, 0);
    assert_int_equal(recorder_stop(NULL, 1, NULL), ESPER_OK);
}

static void levels_keep_their_tables(void **state)
{
    (void)state;
    static const char *const always = " round outcome rollback checkpoint drops ", *const names[] = {"l0", "l1", "l2"};
    for (int level = TELEMETRY_OFF; level <= TELEMETRY_DEBUG; level++) {
        struct run run;
        struct recorder *recorder = start_run(&run, names[level], (enum telemetry_level)level);
        bool wanted[RECORD_KIND_COUNT];
        assert_int_equal(recorder_is_debug(recorder), level == TELEMETRY_DEBUG);
        for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
            struct record_row row;
            char name[32];
            snprintf(name, sizeof name, " %s ", store_layouts[kind].name);
            wanted[kind] = level > TELEMETRY_OFF || strstr(always, name);
            assert_int_equal(recorder_wants(recorder, (enum record_kind)kind), wanted[kind]);
            fill_row(&row, (enum record_kind)kind, 10, false, 0);
            recorder_emit(recorder, row.kind, &row.record);
            recorder_thin(recorder, row.kind, kind == RECORD_STEP ? 3 : 0);
        }
        recorder_count(recorder, 1, 1);
        struct recorder_totals totals = totals_of(recorder);
        must_stop(recorder);
        struct store *store = must_read(&run);
        for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
            int64_t rows = wanted[kind] + (kind == RECORD_DROPS && level > TELEMETRY_OFF); /* steps were thinned */
            assert_int_equal(rows_in(store, store_layouts[kind].name), rows);
            assert_int_equal(totals.emitted[kind], rows);
        }
        store_close(store);
        run_close(&run);
    }
}

static void thinning_is_counted(void **state)
{
    (void)state;
    struct run run;
    struct recorder *recorder = start_run(&run, "thinned", TELEMETRY_NORMAL);
    for (int step = 1; step <= 3; step++) {
        recorder_thin(recorder, RECORD_STEP, step);
        recorder_thin(recorder, RECORD_SEED, 10);
        recorder_count(recorder, 201, (uint32_t)step);
    }
    recorder_count(recorder, 201, 4); /* nothing new: no row */
    must_stop(recorder);
    struct store *store = must_read(&run);
    assert_int_equal(rows_in(store, "drops"), 6);
    assert_string_equal(query_text(store, "SELECT group_concat(step || ' ' || name || ' ' || count, ', ') FROM drops "
                                          "WHERE reason = 'thinned' AND round = 201 AND first_sequence IS NULL"),
                        "1 seed 10, 1 step 1, 2 seed 10, 2 step 2, 3 seed 10, 3 step 3");
    store_close(store);
    run_close(&run);
}

static void a_flush_makes_rows_readable(void **state)
{
    (void)state;
    struct run run;
    struct recorder *recorder = start_run(&run, "flushed", TELEMETRY_NORMAL);
    struct store *reader = must_read(&run);
    for (int turn = 1; turn <= 20; turn++) {
        for (int i = 0; i < 100; i++) {
            emit_step(recorder, turn, i);
            emit_life(recorder, turn, i);
        }
        assert_true(recorder_flush(recorder, 10));
        assert_int_equal(rows_in(reader, "step"), 100 * turn);
        assert_int_equal(rows_in(reader, "life"), 100 * turn);
        struct recorder_totals totals = totals_of(recorder);
        assert_int_equal(totals.written, 200 * turn);
        assert_int_equal(totals.waiting, 0);
    }
    emit_step(recorder, 99, 0); /* soon, also without a flush */
    double start = clock_seconds();
    while (rows_in(reader, "step") < 2001 && clock_seconds() < start + 10)
        usleep(5000);
    assert_int_equal(rows_in(reader, "step"), 2001);
    store_close(reader);
    must_stop(recorder);
    run_close(&run);
}

/* ---- eight threads ----------------------------------------------------------------------------------------------- */

enum { THREADS = 8 };

struct emitter {
    struct recorder *recorder;
    int number, bulk, critical; /* rows to emit; of the bulk ones 0: as many as fit between the critical ones */
    pthread_t thread;
};

static void *emit_some(void *context)
{
    struct emitter *emitter = context;
    for (int i = 0; i < emitter->bulk; i++) {
        emit_step(emitter->recorder, emitter->number, i);
        if (i < emitter->critical)
            emit_life(emitter->recorder, emitter->number, i);
    }
    return NULL;
}

/* A critical row every two milliseconds, and bulk rows without end between them. */
static void *emit_flood(void *context)
{
    struct emitter *emitter = context;
    int64_t bulk = 0;
    double next = clock_seconds();
    for (int i = 0; i < emitter->critical; i++, next += 0.002) {
        emit_life(emitter->recorder, emitter->number, i);
        do
            for (int j = 0; j < 20; j++)
                emit_step(emitter->recorder, emitter->number, bulk++);
        while (clock_seconds() < next);
    }
    return NULL;
}

static void start_emitters(struct emitter emitters[THREADS], struct recorder *recorder, void *(*work)(void *), int bulk,
                           int critical)
{
    for (int i = 0; i < THREADS; i++) {
        emitters[i] = (struct emitter){.recorder = recorder, .number = i, .bulk = bulk, .critical = critical};
        assert_int_equal(pthread_create(&emitters[i].thread, NULL, work, &emitters[i]), 0);
    }
}

static void join_emitters(struct emitter emitters[THREADS])
{
    for (int i = 0; i < THREADS; i++)
        pthread_join(emitters[i].thread, NULL);
}

static void stopping_drains(void **state)
{
    (void)state;
    struct run run;
    struct emitter emitters[THREADS];
    struct recorder *recorder = start_run(&run, "drained", TELEMETRY_NORMAL);
    start_emitters(emitters, recorder, emit_some, 1000, 500); /* fewer than the lanes hold */
    join_emitters(emitters);
    must_stop(recorder);
    struct store *store = must_read(&run);
    assert_int_equal(rows_in(store, "step"), THREADS * 1000);
    assert_int_equal(rows_in(store, "life"), THREADS * 500);
    store_close(store);
    run_close(&run);
}

/* emitted = written + lost, table by table (but several counts may make one row of `drops`); the lost ones are in
 * `drops`, between numbers that can hold them. */
static void assert_exact(struct store *store, const struct recorder_totals *totals)
{
    uint64_t written = totals->emitted[RECORD_DROPS];
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        char sql[128];
        uint64_t rows = (uint64_t)rows_in(store, store_layouts[kind].name);
        if (kind != RECORD_DROPS) {
            assert_int_equal(totals->emitted[kind], rows + totals->lost[kind]);
            written += rows;
        }
        snprintf(sql, sizeof sql, "SELECT total(count) FROM drops WHERE name = '%s' AND reason = 'full'",
                 store_layouts[kind].name);
        assert_int_equal(query_number(store, sql), totals->lost[kind]);
    }
    assert_int_equal(totals->written + totals->waiting, written);
    assert_int_equal(query_number(store,
                                  "SELECT count(*) FROM drops WHERE reason = 'full' AND NOT (first_sequence >= 0 "
                                  "AND count <= last_sequence - first_sequence + 1)"),
                     0);
}

static void critical_rows_survive_a_flood(void **state)
{
    (void)state;
    enum { CRITICAL = 600 }; /* of each thread: together more than the lane holds */
    struct run run;
    struct emitter emitters[THREADS];
    struct recorder *recorder = start_run(&run, "flooded", TELEMETRY_NORMAL);
    start_emitters(emitters, recorder, emit_flood, 0, CRITICAL);
    for (uint32_t step = 0; step < 50; step++) { /* counted while rows are being lost */
        usleep(20000);
        recorder_count(recorder, 0, step);
        struct recorder_totals totals = totals_of(recorder);
        assert_true(totals.waiting < 100000); /* never negative */
    }
    join_emitters(emitters);
    recorder_count(recorder, 1, 0);
    struct recorder_totals totals = totals_of(recorder);
    must_stop(recorder);
    struct store *store = must_read(&run);
    assert_true(totals.lost[RECORD_STEP] > 0); /* it was a flood */
    assert_int_equal(totals.lost[RECORD_LIFE], 0);
    assert_int_equal(rows_in(store, "life"), THREADS * CRITICAL);
    assert_exact(store, &totals);
    assert_true(query_number(store, "SELECT max(last_sequence) FROM drops") <
                (int64_t)(totals.emitted[RECORD_STEP] + totals.emitted[RECORD_LIFE]));
    store_close(store);
    run_close(&run);
}

/* ---- losses ------------------------------------------------------------------------------------------------------ */

enum { BURST = 12000 }; /* more than the bulk lane holds */

/* One emitter, so that rows are numbered as they are emitted: the missing ones are known exactly. */
static void losses_are_numbered(void **state)
{
    (void)state;
    struct run run;
    struct recorder *recorder = start_run(&run, "numbered", TELEMETRY_NORMAL);
    for (int turn = 0; turn < 2; turn++) {
        sqlite3 *other = hold_database(&run);
        for (int i = 0; i < BURST; i++) {
            emit_step(recorder, turn, i);
            if (i == BURST - 100 || i == BURST - 50) /* counts at the same step add up */
                recorder_count(recorder, (uint32_t)turn, 7);
        }
        release_database(other);
        if (turn == 0) /* the second turn's last losses are counted by recorder_stop */
            recorder_count(recorder, 0, 7);
        assert_true(recorder_flush(recorder, 10) || recorder_flush(recorder, 10));
    }
    struct recorder_totals totals = totals_of(recorder);
    must_stop(recorder);
    struct store *store = must_read(&run);
    assert_exact(store, &totals);
    assert_int_equal(rows_in(store, "drops"), 2);
    for (int turn = 0; turn < 2; turn++) {
        char sql[512];
        snprintf(sql, sizeof sql,
                 "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %d), missing(i) AS (SELECT "
                 "i + %d FROM n WHERE i NOT IN (SELECT step FROM step WHERE round = %d)) SELECT count(*) || ' ' || "
                 "min(i) || ' ' || max(i) FROM missing",
                 BURST - 1, turn * BURST, turn);
        char missing[64];
        snprintf(missing, sizeof missing, "%.60s", query_text(store, sql));
        snprintf(sql, sizeof sql,
                 "SELECT count || ' ' || first_sequence || ' ' || last_sequence FROM drops WHERE name = 'step' AND "
                 "reason = 'full' AND step = 7 AND round = %d",
                 turn);
        assert_string_equal(query_text(store, sql), missing);
    }
    store_close(store);
    run_close(&run);
}

/* A count for which there is no room is not lost but reported later. */
static void counts_wait_for_room(void **state)
{
    (void)state;
    struct run run;
    struct recorder *recorder = start_run(&run, "crammed", TELEMETRY_NORMAL);
    sqlite3 *other = hold_database(&run);
    for (int times = 0; times < 2; times++) { /* the writer takes its batch of the first, and then it is stuck */
        for (int i = 0; i < BURST; i++) {
            emit_step(recorder, times, i);
            emit_life(recorder, times, i);
        }
        usleep(200000);
    }
    recorder_thin(recorder, RECORD_SEED, 5);
    recorder_count(recorder, 0, 1);
    recorder_count(recorder, 0, 2);
    release_database(other);
    assert_true(recorder_flush(recorder, 10) || recorder_flush(recorder, 10));
    recorder_count(recorder, 0, 3);
    struct recorder_totals totals = totals_of(recorder);
    must_stop(recorder);
    struct store *store = must_read(&run);
    assert_true(totals.lost[RECORD_LIFE] > 0);
    assert_exact(store, &totals);
    assert_int_equal(query_number(store, "SELECT count FROM drops WHERE step = 3 AND reason = 'thinned'"), 5);
    store_close(store);
    run_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_recorder),  cmocka_unit_test(levels_keep_their_tables),
        cmocka_unit_test(thinning_is_counted), cmocka_unit_test(a_flush_makes_rows_readable),
        cmocka_unit_test(stopping_drains),     cmocka_unit_test(critical_rows_survive_a_flood),
        cmocka_unit_test(losses_are_numbered), cmocka_unit_test(counts_wait_for_room),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
