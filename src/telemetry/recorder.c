#include "telemetry/recorder.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "telemetry/alerts.h"
#include "telemetry/ring.h"

enum lane { LANE_CRITICAL, LANE_BULK, LANE_COUNT };

enum {
    CRITICAL_CELLS = 4096,
    BULK_CELLS = 8192,
    BATCH = 512,                     /* rows of a transaction */
    BATCH_ROOM = BATCH + ALERTS_MAX, /* plus the alerts of a round that ends */
    TOLD = 32                        /* alerts waiting for the operator */
};

#define POLL_SECONDS  0.05 /* how long a row may wait before it is written */
#define FIRST_RETRY   1.0  /* after a failure; doubled with each further one */
#define LONGEST_RETRY 10.0 /* the lanes hold a few seconds of rows: waiting much longer is no use */

/* The lane of a table's rows, and the lowest level that keeps them. */
static const struct {
    const char *name;
    enum lane lane;
    enum telemetry_level level;
} kinds[RECORD_KIND_COUNT] = {
#define RECORDER_KIND(NAME, name, lane, level, key, help) {#name, LANE_##lane, TELEMETRY_##level},
    RECORD_KINDS(RECORDER_KIND)
#undef RECORDER_KIND
};

/* Rows missing from one table. While `begun` exceeds `total`, a loss is being noted. */
struct losses {
    atomic_uint_fast64_t begun, total; /* rows that found no room, since the start */
    atomic_uint_fast64_t first, last;  /* sequence numbers; first since the last count, UINT64_MAX: none */
    atomic_uint_fast64_t thinned;      /* left out on purpose, since the last count */
    uint64_t counted;                  /* how much of total was counted; for recorder_count only */
};

struct recorder {
    struct ring *lane[LANE_COUNT];
    enum telemetry_level level;
    atomic_uint_fast64_t sequence;
    atomic_uint_fast64_t emitted[RECORD_KIND_COUNT];
    struct losses losses[RECORD_KIND_COUNT];
    uint32_t round, step; /* of the last count */

    /* for the writer only */
    struct store *store;
    struct record_row *batch; /* [BATCH_ROOM] rows being written; kept when they could not be */
    int batched;
    struct alerts *alerts;    /* NULL: the level keeps none */
    struct record_row ending; /* a round whose rows are not all in the batch yet */
    bool is_ending;
    uint64_t last_bulk; /* of them: places of the bulk lane */
    double retry;       /* pause before the next attempt, 0: all is well */
    pthread_t thread;

    /* between the writer and the threads that wait for it */
    pthread_mutex_t mutex;
    pthread_cond_t wake, progress;
    bool hurry, stopping;         /* orders to the writer */
    uint64_t wanted[LANE_COUNT];  /* places whose rows a caller wants on the disk */
    uint64_t durable[LANE_COUNT]; /* places whose rows are on the disk */
    uint64_t written;
    uint64_t attempts;          /* attempts to write, or to find something to write */
    bool failing, told_failing; /* the store is in trouble; the operator knows */
    struct esper_error trouble;
    struct alert_record raised[TOLD]; /* not taken yet */
    int raised_count, standing;
};

/* ---- emitting ---------------------------------------------------------------------------------------------------- */

bool recorder_wants(const struct recorder *recorder, enum record_kind kind)
{
    return recorder && recorder->level >= kinds[kind].level;
}

bool recorder_is_debug(const struct recorder *recorder)
{
    return recorder && recorder->level == TELEMETRY_DEBUG;
}

static void lower(atomic_uint_fast64_t *least, uint_fast64_t value)
{
    uint_fast64_t seen = atomic_load(least);
    while (value < seen && !atomic_compare_exchange_weak(least, &seen, value))
        ;
}

static void raise_to(atomic_uint_fast64_t *most, uint_fast64_t value)
{
    uint_fast64_t seen = atomic_load(most);
    while (value > seen && !atomic_compare_exchange_weak(most, &seen, value))
        ;
}

static void note_loss(struct losses *losses, uint64_t sequence)
{
    atomic_fetch_add(&losses->begun, 1);
    lower(&losses->first, sequence);
    raise_to(&losses->last, sequence);
    atomic_fetch_add(&losses->total, 1);
}

void recorder_emit(struct recorder *recorder, enum record_kind kind, const void *record)
{
    if (!recorder_wants(recorder, kind))
        return;
    uint64_t sequence = atomic_fetch_add_explicit(&recorder->sequence, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&recorder->emitted[kind], 1, memory_order_relaxed);
    if (!ring_push(recorder->lane[kinds[kind].lane], kind, record))
        note_loss(&recorder->losses[kind], sequence);
}

void recorder_thin(struct recorder *recorder, enum record_kind kind, int count)
{
    if (recorder_wants(recorder, kind))
        atomic_fetch_add_explicit(&recorder->losses[kind].thinned, (uint64_t)count, memory_order_relaxed);
}

/* A count that finds no room itself is not lost: it is added to the next one. */
static bool emit_drops(struct recorder *recorder, const struct drops_record *row)
{
    atomic_fetch_add_explicit(&recorder->emitted[RECORD_DROPS], 1, memory_order_relaxed);
    if (ring_push(recorder->lane[kinds[RECORD_DROPS].lane], RECORD_DROPS, row))
        return true;
    atomic_fetch_sub_explicit(&recorder->emitted[RECORD_DROPS], 1, memory_order_relaxed);
    return false;
}

static void count_thinned(struct recorder *recorder, struct losses *losses, struct drops_record *row)
{
    row->reason = "thinned";
    row->count = (int64_t)atomic_exchange(&losses->thinned, 0);
    row->first_sequence = row->last_sequence = RECORD_NONE; /* these rows were never offered */
    if (row->count && !emit_drops(recorder, row))
        atomic_fetch_add(&losses->thinned, (uint64_t)row->count);
}

/* `first` is taken after `total`, so it is not above the lowest number counted; a loss that is just being noted may
 * have lowered it already, and then the next count, to which it belongs, must see it as well. */
static void count_full(struct recorder *recorder, struct losses *losses, struct drops_record *row)
{
    uint64_t total = atomic_load(&losses->total);
    row->reason = "full";
    row->count = (int64_t)(total - losses->counted);
    if (!row->count)
        return;
    uint_fast64_t first = atomic_exchange(&losses->first, UINT64_MAX);
    row->first_sequence = (int64_t)first;
    row->last_sequence = (int64_t)atomic_load(&losses->last);
    bool told = emit_drops(recorder, row);
    if (told)
        losses->counted = total;
    if (!told || atomic_load(&losses->begun) != total)
        lower(&losses->first, first);
}

void recorder_count(struct recorder *recorder, uint32_t round, uint32_t step)
{
    if (!recorder)
        return;
    recorder->round = round;
    recorder->step = step;
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        struct drops_record row = {.round = round, .step = step, .name = kinds[kind].name};
        count_thinned(recorder, &recorder->losses[kind], &row);
        count_full(recorder, &recorder->losses[kind], &row);
    }
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* For the operator; one who does not ask in time is shown the first ones. */
static void tell_alerts(struct recorder *recorder, const struct alert_record *alerts, int count)
{
    pthread_mutex_lock(&recorder->mutex);
    recorder->standing = alerts_standing(recorder->alerts);
    for (int i = 0; i < count && recorder->raised_count < TOLD; i++)
        if (strcmp(alerts[i].state, "raised") == 0)
            recorder->raised[recorder->raised_count++] = alerts[i];
    pthread_mutex_unlock(&recorder->mutex);
}

/* The round follows its rows, and its alerts follow it, in one transaction: a reader that sees a round sees all of it.
 */
static void end_round(struct recorder *recorder)
{
    struct alert_record alerts[ALERTS_MAX];
    recorder->is_ending = false;
    recorder->batch[recorder->batched++] = recorder->ending;
    if (!recorder->alerts)
        return;
    int count = alerts_judge(recorder->alerts, &recorder->ending.record.round, alerts);
    for (int i = 0; i < count; i++)
        recorder->batch[recorder->batched++] = (struct record_row){RECORD_ALERT, {.alert = alerts[i]}};
    atomic_fetch_add_explicit(&recorder->emitted[RECORD_ALERT], (uint64_t)count, memory_order_relaxed);
    tell_alerts(recorder, alerts, count);
}

static bool has_ended(const struct recorder *recorder)
{
    return recorder->is_ending && ring_popped(recorder->lane[LANE_BULK]) >= recorder->last_bulk;
}

/* Is there room in the batch, and a row for it? While a round is ending, the critical lane waits for what the bulk lane
 * held when the round's own row was taken: all of the round, and maybe the beginning of the next ones. */
static bool take_row(struct recorder *recorder, enum lane lane)
{
    struct record_row *row = &recorder->batch[recorder->batched];
    if (recorder->batched >= BATCH || (lane == LANE_CRITICAL ? recorder->is_ending : has_ended(recorder)) ||
        !ring_pop(recorder->lane[lane], row))
        return false;
    if (row->kind == RECORD_ROUND) {
        recorder->ending = *row;
        recorder->is_ending = true;
        recorder->last_bulk = ring_pushed(recorder->lane[LANE_BULK]);
        return true;
    }
    if (recorder->alerts)
        alerts_look(recorder->alerts, row);
    recorder->batched++;
    return true;
}

static void fill_batch(struct recorder *recorder)
{
    bool ended;
    do {
        for (int lane = 0; lane < LANE_COUNT; lane++)
            while (take_row(recorder, (enum lane)lane))
                ;
        ended = has_ended(recorder) && recorder->batched < BATCH;
        if (ended)
            end_round(recorder);
    } while (ended);
}

static struct timespec deadline_after(double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    double nanoseconds = (double)until.tv_nsec + 1e9 * seconds, whole = floor(1e-9 * nanoseconds);
    until.tv_sec += (time_t)whole;
    until.tv_nsec = (long)(nanoseconds - 1e9 * whole);
    return until;
}

/* The writer waits without hindering emit: for its next look, for the next attempt, or until a caller is in a hurry. */
static void pause_writer(struct recorder *recorder)
{
    struct timespec until = deadline_after(recorder->retry > 0 ? recorder->retry : POLL_SECONDS);
    int code = 0;
    while (!recorder->hurry && !recorder->stopping && code != ETIMEDOUT)
        code = pthread_cond_timedwait(&recorder->wake, &recorder->mutex, &until);
    recorder->hurry = false;
}

static bool reaches(const uint64_t places[LANE_COUNT], const uint64_t target[LANE_COUNT])
{
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (places[lane] < target[lane])
            return false;
    return true;
}

/* What one turn of the writer has done. */
struct turn {
    int rows;                    /* written */
    bool synced;                 /* and everything before them is on the disk */
    uint64_t stored[LANE_COUNT]; /* places whose rows are in the store */
};

/* Writes the batch; and, when the store holds all that is wanted on the disk, sees to that as well. */
static enum esper_status write_batch(struct recorder *recorder, const uint64_t wanted[LANE_COUNT], struct turn *turn,
                                     struct esper_error *error)
{
    if (recorder->batched)
        TRY(store_write(recorder->store, recorder->batch, recorder->batched, error));
    turn->rows = recorder->batched;
    recorder->batched = 0;
    for (int lane = 0; lane < LANE_COUNT; lane++)
        turn->stored[lane] = ring_popped(recorder->lane[lane]);
    turn->stored[LANE_CRITICAL] -= recorder->is_ending;
    if (reaches(recorder->durable, wanted) || !reaches(turn->stored, wanted))
        return ESPER_OK;
    TRY(store_sync(recorder->store, error));
    turn->synced = true;
    return ESPER_OK;
}

/* Reports what became of the batch, to waiting threads and the operator. */
static void settle(struct recorder *recorder, const struct turn *turn, enum esper_status status,
                   const struct esper_error *error)
{
    recorder->failing = status != ESPER_OK;
    if (recorder->failing) {
        recorder->retry = recorder->retry > 0 ? fmin(2 * recorder->retry, LONGEST_RETRY) : FIRST_RETRY;
        recorder->trouble = *error;
    } else {
        recorder->retry = 0;
    }
    recorder->written += (uint64_t)turn->rows;
    if (turn->synced)
        memcpy(recorder->durable, turn->stored, sizeof turn->stored);
    recorder->attempts++;
    pthread_cond_broadcast(&recorder->progress);
}

/* The batch is filled and written outside the mutex, so that no thread waits for the disk unless it asked to. */
static void *write_rows(void *context)
{
    struct recorder *recorder = context;
    pthread_mutex_lock(&recorder->mutex);
    for (;;) {
        bool last = recorder->stopping; /* read first: rows emitted before the order are in the rings */
        if (last && recorder->failing)
            break; /* recorder_stop has already waited for one more attempt */
        uint64_t wanted[LANE_COUNT];
        memcpy(wanted, recorder->wanted, sizeof wanted);
        pthread_mutex_unlock(&recorder->mutex);
        struct esper_error error = {0};
        struct turn turn = {0};
        fill_batch(recorder);
        bool busy = recorder->batched > 0;
        enum esper_status status = write_batch(recorder, wanted, &turn, &error);
        pthread_mutex_lock(&recorder->mutex);
        settle(recorder, &turn, status, &error);
        if (last && !busy && !recorder->is_ending)
            break; /* everything is written */
        if (!busy || status != ESPER_OK)
            pause_writer(recorder);
    }
    pthread_mutex_unlock(&recorder->mutex);
    return NULL;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

/* A store in trouble gets one attempt, not the whole time: the caller has other work. */
static bool wait_for(struct recorder *recorder, double seconds)
{
    struct timespec until = deadline_after(seconds);
    uint64_t target[LANE_COUNT], attempts = recorder->attempts;
    int code = 0;
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        target[lane] = ring_pushed(recorder->lane[lane]);
        if (recorder->wanted[lane] < target[lane])
            recorder->wanted[lane] = target[lane];
    }
    recorder->hurry = true;
    pthread_cond_signal(&recorder->wake);
    while (!reaches(recorder->durable, target) && code != ETIMEDOUT &&
           !(recorder->failing && recorder->attempts > attempts))
        code = pthread_cond_timedwait(&recorder->progress, &recorder->mutex, &until);
    return reaches(recorder->durable, target);
}

bool recorder_flush(struct recorder *recorder, double seconds)
{
    if (!recorder)
        return true;
    pthread_mutex_lock(&recorder->mutex);
    bool done = wait_for(recorder, seconds);
    pthread_mutex_unlock(&recorder->mutex);
    return done;
}

bool recorder_alert(struct recorder *recorder, struct alert_record *alert)
{
    if (!recorder)
        return false;
    pthread_mutex_lock(&recorder->mutex);
    bool news = recorder->raised_count > 0;
    if (news) {
        *alert = recorder->raised[0];
        recorder->raised_count--;
        memmove(recorder->raised, recorder->raised + 1, (size_t)recorder->raised_count * sizeof *alert);
    }
    pthread_mutex_unlock(&recorder->mutex);
    return news;
}

int recorder_alerts_standing(struct recorder *recorder)
{
    if (!recorder)
        return 0;
    pthread_mutex_lock(&recorder->mutex);
    int standing = recorder->standing;
    pthread_mutex_unlock(&recorder->mutex);
    return standing;
}

static uint64_t rows_lost(const struct recorder *recorder)
{
    uint64_t sum = 0;
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++)
        sum += atomic_load_explicit(&recorder->losses[kind].total, memory_order_relaxed);
    return sum;
}

bool recorder_notice(struct recorder *recorder, char text[RECORDER_NOTICE])
{
    if (!recorder)
        return false;
    pthread_mutex_lock(&recorder->mutex);
    bool news = recorder->failing != recorder->told_failing;
    if (news && recorder->failing)
        snprintf(text, RECORDER_NOTICE, "%.400s; training goes on, and writing the record will be retried",
                 recorder->trouble.text);
    else if (news)
        snprintf(text, RECORDER_NOTICE, "the record is being written again; %llu rows were lost",
                 (unsigned long long)rows_lost(recorder));
    recorder->told_failing = recorder->failing;
    pthread_mutex_unlock(&recorder->mutex);
    return news;
}

void recorder_totals(struct recorder *recorder, struct recorder_totals *totals)
{
    *totals = (struct recorder_totals){0};
    if (!recorder)
        return;
    /* In this order: a row is emitted before it is written or lost, so the differences are never negative. */
    pthread_mutex_lock(&recorder->mutex);
    totals->written = recorder->written;
    pthread_mutex_unlock(&recorder->mutex);
    totals->waiting -= totals->written;
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        totals->lost[kind] = atomic_load(&recorder->losses[kind].total);
        totals->emitted[kind] = atomic_load(&recorder->emitted[kind]);
        totals->waiting += totals->emitted[kind] - totals->lost[kind];
    }
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void release(struct recorder *recorder)
{
    store_close(recorder->store);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        ring_free(recorder->lane[lane]);
    memory_free(recorder->batch);
    alerts_free(recorder->alerts);
    pthread_cond_destroy(&recorder->wake);
    pthread_cond_destroy(&recorder->progress);
    pthread_mutex_destroy(&recorder->mutex);
    memory_free(recorder);
}

/* As they were at the end of the record. */
static enum esper_status start_alerts(struct recorder *recorder, int64_t rounds, struct esper_error *error)
{
    if (!recorder_wants(recorder, RECORD_ALERT))
        return ESPER_OK;
    recorder->alerts = alerts_create(rounds, error);
    if (!recorder->alerts)
        return ESPER_FAILED;
    TRY(alerts_restore(recorder->alerts, recorder->store, error));
    recorder->standing = alerts_standing(recorder->alerts);
    return ESPER_OK;
}

static enum esper_status start_parts(struct recorder *recorder, int64_t rounds, struct esper_error *error)
{
    TRY(start_alerts(recorder, rounds, error));
    recorder->lane[LANE_CRITICAL] = ring_create(CRITICAL_CELLS, error);
    recorder->lane[LANE_BULK] = ring_create(BULK_CELLS, error);
    recorder->batch = memory_alloc(BATCH_ROOM, sizeof *recorder->batch, error);
    if (!recorder->lane[LANE_CRITICAL] || !recorder->lane[LANE_BULK] || !recorder->batch)
        return ESPER_FAILED;
    sigset_t all, before; /* signals are the main thread's business */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&recorder->thread, NULL, write_rows, recorder);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code)
        return error_set(error, ESPER_FAILED, "cannot start the thread that writes the record: %s", strerror(code));
    return ESPER_OK;
}

enum esper_status recorder_start(struct recorder **out, struct store *store, enum telemetry_level level, int64_t rounds,
                                 struct esper_error *error)
{
    struct recorder *recorder = memory_alloc(1, sizeof *recorder, error);
    if (!recorder) {
        store_close(store);
        return ESPER_FAILED;
    }
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&recorder->wake, &monotonic);
    pthread_cond_init(&recorder->progress, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&recorder->mutex, NULL);
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++)
        atomic_init(&recorder->losses[kind].first, UINT64_MAX);
    recorder->store = store;
    recorder->level = level;
    enum esper_status status = start_parts(recorder, rounds, error);
    if (status == ESPER_OK)
        *out = recorder;
    else
        release(recorder);
    return status;
}

enum esper_status recorder_stop(struct recorder *recorder, double seconds, struct esper_error *error)
{
    enum esper_status status = ESPER_OK;
    struct recorder_totals totals;
    if (!recorder)
        return status;
    pthread_mutex_lock(&recorder->mutex);
    wait_for(recorder, seconds);
    recorder_count(recorder, recorder->round, recorder->step); /* there is room now, if ever */
    recorder->stopping = true;
    pthread_cond_signal(&recorder->wake);
    pthread_mutex_unlock(&recorder->mutex);
    pthread_join(recorder->thread, NULL);
    recorder_totals(recorder, &totals);
    if (totals.waiting)
        status = error_set(error, ESPER_FAILED, "%.400s; %llu rows of the record are lost", recorder->trouble.text,
                           (unsigned long long)totals.waiting + rows_lost(recorder));
    else if (recorder->failing)
        status = error_set(error, ESPER_FAILED, "%.400s; a power loss may still take the last rows of the record",
                           recorder->trouble.text);
    release(recorder);
    return status;
}
