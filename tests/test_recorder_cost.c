/* What emitting costs: no allocation, no system call, and about a tenth of a microsecond, whatever the writer does. */
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "testing_recorder.h"

/* ---- allocations ------------------------------------------------------------------------------------------------- */

/* The test's own malloc counts for the calling thread; sanitizers have their own already. Volatile: compilers know that
 * malloc changes no variable of the program. */
static _Thread_local volatile int allocations;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
enum { COUNTS_ALLOCATIONS = 1 };
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size)
{
    allocations++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    allocations++;
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    allocations++;
    return __libc_realloc(block, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    allocations++;
    return __libc_memalign(alignment, size);
}
#else
enum { COUNTS_ALLOCATIONS = 0 };
#endif

enum { BURST = 20000 }; /* more than the lanes hold: losses are also counted without allocating */

static void emit_burst(struct recorder *recorder)
{
    for (int i = 0; i < BURST; i++) {
        emit_step(recorder, 0, i);
        emit_life(recorder, 0, i);
    }
}

static void no_allocation(void **state)
{
    (void)state;
    if (!COUNTS_ALLOCATIONS)
        skip();
    struct run run;
    struct recorder *recorder = start_run(&run, "lean", TELEMETRY_NORMAL);
    int before = allocations;
    void *volatile block = malloc(1);
    free(block);
    assert_int_equal(allocations, before + 1); /* they are counted */
    emit_burst(recorder);
    recorder_thin(recorder, RECORD_STEP, 1);
    recorder_count(recorder, 0, 0);
    assert_int_equal(allocations, before + 1);
    must_stop(recorder);
    run_close(&run);
}

/* ---- system calls ------------------------------------------------------------------------------------------------ */

struct confined {
    struct recorder *recorder;
    int answers[2];
};

/* In strict mode the kernel ends a thread at any call but read and write. */
static void *emit_confined(void *context)
{
    struct confined *confined = context;
    bool strict = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0;
    if (strict)
        emit_burst(confined->recorder);
    if (write(confined->answers[1], strict ? "y" : "?", 1) == 1)
        for (char byte; read(confined->answers[0], &byte, 0) == 0;) /* it may not even sleep; it is killed soon */
            ;
    return NULL;
}

static struct run confined_run;

static int record_confined(const void *context)
{
    const int *answers = context;
    struct confined confined = {.answers = {answers[0], answers[1]}};
    struct store *store = NULL;
    pthread_t thread;
    if (store_open(&store, &confined_run, NULL) != ESPER_OK ||
        recorder_start(&confined.recorder, store, TELEMETRY_NORMAL, PLANNED, NULL) != ESPER_OK ||
        pthread_create(&thread, NULL, emit_confined, &confined) != 0)
        return 1;
    pthread_join(thread, NULL);
    return 2;
}

static void no_system_call(void **state)
{
    (void)state;
    if (SANITIZED) /* they make some of their own */
        skip();
    struct config config = sample_config();
    int answers[2];
    char byte = 0;
    create_run(&confined_run, "confined", &config);
    assert_int_equal(pipe(answers), 0);
    pid_t child = start_child(record_confined, answers);
    struct pollfd answer = {.fd = answers[0], .events = POLLIN};
    bool answered = poll(&answer, 1, 10000) == 1 && read(answers[0], &byte, 1) == 1;
    kill(child, SIGKILL);
    exit_code(child);
    close(answers[0]);
    close(answers[1]);
    run_close(&confined_run);
    if (byte == '?')
        skip(); /* no such mode here */
    assert_true(answered);
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

enum { TIMED = 120000 };

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Bursts of `burst` rows with a pause between them; prints the spread and returns the median, in microseconds. */
static double time_emits(struct recorder *recorder, const char *what, int burst, unsigned pause_us)
{
    static double times[TIMED];
    struct step_record record = {.op = "wait", .result = "done", .slot = RECORD_NONE};
    for (int i = 0; i < TIMED; i++) {
        record.round = i / 1000;
        record.step = i % 1000;
        double start = clock_seconds();
        recorder_emit(recorder, RECORD_STEP, &record);
        times[i] = 1e6 * (clock_seconds() - start);
        if (pause_us && i % burst == burst - 1)
            usleep(pause_us);
    }
    qsort(times, TIMED, sizeof times[0], compare_times);
    struct recorder_totals totals = totals_of(recorder);
    printf("emit, %s: p50 %.3f us, p99 %.3f us, p99.9 %.3f us, largest %.0f us; %llu of %llu rows lost\n", what,
           times[TIMED / 2], times[TIMED / 100 * 99], times[TIMED / 1000 * 999], times[TIMED - 1],
           (unsigned long long)totals.lost[RECORD_STEP], (unsigned long long)totals.emitted[RECORD_STEP]);
    return times[TIMED / 2];
}

/* The clock's own reading is part of the figures. The bar is 1 us; a busy machine is allowed three. */
#define MEDIAN_US (SANITIZED ? 1000.0 : 3.0)

static void beside_the_writer(void **state)
{
    (void)state;
    struct run run;
    struct recorder *recorder = start_run(&run, "timed", TELEMETRY_NORMAL);
    assert_true(time_emits(recorder, "writer at work", 200, 2000) <= MEDIAN_US);
    struct recorder_totals totals = totals_of(recorder);
    must_stop(recorder);
    struct store *store = must_read(&run);
    assert_int_equal(rows_in(store, "step"), totals.emitted[RECORD_STEP] - totals.lost[RECORD_STEP]);
    store_close(store);
    run_close(&run);
}

static void beside_a_stuck_writer(void **state)
{
    (void)state;
    struct run run;
    struct recorder *recorder = start_run(&run, "stuck", TELEMETRY_NORMAL);
    sqlite3 *other = hold_database(&run);
    assert_true(time_emits(recorder, "database locked, lane full", 1, 0) <= MEDIAN_US);
    assert_true(totals_of(recorder).lost[RECORD_STEP] > TIMED / 2);
    release_database(other);
    recorder_flush(recorder, 10);
    must_stop(recorder);
    run_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_allocation),
        cmocka_unit_test(no_system_call),
        cmocka_unit_test(beside_the_writer),
        cmocka_unit_test(beside_a_stuck_writer),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
