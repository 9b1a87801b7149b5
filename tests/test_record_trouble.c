/* The record in trouble: killed and resumed, locked, on a full disk, moved away. Training is never affected; the
 * operator is told once, and once more when all is well again. */
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include "testing_sessions.h"

/* Rounds with rollbacks, seeds, updates and a checkpoint each. */
static struct config trouble_config(int rounds)
{
    struct config config = small_session(POLICY_PPO);
    config.rounds = rounds;
    config.steps = 24;
    config.checkpoint.rounds = 1;
    restless(&config, 0.3, 2.5);
    return config;
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* ---- killed ------------------------------------------------------------------------------------------------------ */

/* Two records say the same of everything but time. */
static void assert_same_record(const char *one, const char *other)
{
    static const char *const times[] = {"seconds", "env_steps_per_s", "images_per_s", "written"};
    struct store *store[2] = {record_of(one), record_of(other)};
    for (int kind = 0; kind < RECORD_KIND_COUNT; kind++) {
        const struct store_layout *layout = &store_layouts[kind];
        char sql[8192] = "SELECT ''";
        sqlite3_stmt *rows[2];
        if (kind == RECORD_PHASE)
            continue;
        for (int i = 0; i < layout->count; i++) {
            bool timed = false;
            for (size_t k = 0; k < sizeof times / sizeof times[0]; k++)
                timed |= strcmp(layout->columns[i].name, times[k]) == 0;
            if (!timed)
                snprintf(sql + strlen(sql), sizeof sql - strlen(sql), " || ' ' || quote(%s)", layout->columns[i].name);
        }
        snprintf(sql + strlen(sql), sizeof sql - strlen(sql), " FROM %s ORDER BY 1", layout->name);
        for (int i = 0; i < 2; i++)
            assert_int_equal(sqlite3_prepare_v2(store_sql(store[i]), sql, -1, &rows[i], NULL), SQLITE_OK);
        int code;
        do {
            code = sqlite3_step(rows[0]);
            if (sqlite3_step(rows[1]) != code)
                fail_msg("%s: one of them has more rows", layout->name);
            if (code == SQLITE_ROW)
                assert_string_equal((const char *)sqlite3_column_text(rows[0], 0),
                                    (const char *)sqlite3_column_text(rows[1], 0));
        } while (code == SQLITE_ROW);
        for (int i = 0; i < 2; i++)
            sqlite3_finalize(rows[i]);
    }
    for (int i = 0; i < 2; i++)
        store_close(store[i]);
}

/* When a victim dies, and how long it stays idle before that, so that its record is written. */
struct death {
    uint32_t round, step;
    long rest_ms;
};

static int train_and_die(const void *context)
{
    const struct death *death = context;
    struct config config = trouble_config(4);
    struct session *session;
    struct session_progress progress = {0};
    const struct session_options options = {.runs = folder, .name = "victim", .command = "a test"};
    if (session_create(&session, &config, &options, NULL) != ESPER_OK)
        return 1;
    while (progress.round != death->round || progress.step != death->step)
        if (session_advance(session, &progress, NULL) != ESPER_OK)
            return 2;
    sleep_ms(death->rest_ms);
    return 0; /* _exit: nothing is saved, closed or flushed */
}

/* A run killed in a round, or right after a checkpoint, and resumed leaves the record of one that was not. */
static void test_killed_and_resumed(void **state)
{
    (void)state;
    static const struct death deaths[] = {{0, 9, 0}, {1, 0, 0}, {2, 0, 300}, {2, 13, 0}, {2, 13, 300}};
    struct config config = trouble_config(4);
    struct session_changes none = {.threads = -1};
    struct session_progress progress;
    uint64_t hash = run_whole(&config, "whole");
    assert_true(ask("whole", "SELECT count(*) FROM rollback") > 0);
    for (size_t i = 0; i < sizeof deaths / sizeof deaths[0]; i++) {
        assert_int_equal(exit_code(start_child(train_and_die, &deaths[i])), 0);
        double made = 2 * (24.0 * deaths[i].round + (double)deaths[i].step), saved = 2 * 24.0 * deaths[i].round;
        if (deaths[i].rest_ms) /* what it had seen was written, also beyond the checkpoint */
            assert_true(ask("victim", "SELECT count(*) FROM step") == made);
        else if (saved > 0) /* and in any case what came before it */
            assert_true(ask("victim", "SELECT count(*) FROM step") >= saved);
        struct session *session = resume("victim", &none);
        while (!session_done(session))
            advance(session, &progress);
        assert_true(session_hash(session) == hash);
        finish(session);
        assert_same_record("whole", "victim");
        assert_true(ask("victim", "SELECT count(*) FROM phase WHERE name = 'train' AND env < 0") == 4 * 24);
        remove_tree(in_folder("victim"));
    }
}

/* ---- out of order ------------------------------------------------------------------------------------------------ */

/* A session that is disturbed: what it told the operator, and how it ended. */
struct patient {
    struct session *session;
    int notices;
    char notice[4][512];
};

static void work(struct patient *patient)
{
    struct session_progress progress;
    advance(patient->session, &progress);
    if (progress.notice[0]) {
        assert_true(patient->notices < 4);
        snprintf(patient->notice[patient->notices++], sizeof patient->notice[0], "%s", progress.notice);
    }
}

/* Go on, with pauses, until it has reported something, but not to the end. */
static void work_until_told(struct patient *patient, int notices)
{
    for (int step = 0; step < 150 && patient->notices < notices; step++) {
        work(patient);
        sleep_ms(30);
    }
    assert_true(patient->notices >= notices);
}

static void work_to_the_end(struct patient *patient)
{
    while (!session_done(patient->session))
        work(patient);
}

/* The undisturbed run, and its hash. */
static struct config calm_config(void)
{
    struct config config = trouble_config(16);
    config.checkpoint.rounds = 100; /* the record alone is in trouble */
    return config;
}

static uint64_t calm_hash(void)
{
    static uint64_t hash;
    struct config config = calm_config();
    if (!hash)
        hash = run_whole(&config, "calm");
    return hash;
}

static void begin_patient(struct patient *patient, const char *name)
{
    struct config config = calm_config();
    calm_hash();
    *patient = (struct patient){.session = create(&config, name)};
    for (int i = 0; i < 10; i++)
        work(patient);
    assert_int_equal(patient->notices, 0);
}

static void assert_recovered(struct patient *patient, const char *name)
{
    work_to_the_end(patient);
    assert_true(session_hash(patient->session) == calm_hash());
    finish(patient->session);
    assert_int_equal(patient->notices, 2);
    assert_non_null(strstr(patient->notice[0], "telemetry.db"));
    assert_non_null(strstr(patient->notice[0], "training goes on"));
    assert_non_null(strstr(patient->notice[1], "written again"));
    assert_non_null(strstr(patient->notice[1], " 0 rows were lost"));
    assert_same_record("calm", name);
}

/* The number of rows that could not be written is reported, and the state is saved all the same. */
static void assert_lost(struct patient *patient)
{
    struct esper_error error = {0};
    unsigned long long rows = 0;
    work_to_the_end(patient);
    assert_true(session_hash(patient->session) == calm_hash());
    assert_true(session_close(patient->session, &error) != ESPER_OK);
    const char *count = strstr(error.text, " rows of the record are lost");
    while (count && count[-1] >= '0' && count[-1] <= '9')
        count--;
    if (!count || sscanf(count, "%llu", &rows) != 1 || rows < 100)
        fail_msg("\"%s\" does not say how many rows are lost", error.text);
}

static void test_locked(void **state)
{
    (void)state;
    struct patient patient;
    sqlite3 *other;
    begin_patient(&patient, "locked");
    assert_int_equal(sqlite3_open(in_folder("locked/telemetry.db"), &other), SQLITE_OK);
    sqlite3_busy_timeout(other, 5000);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    work_until_told(&patient, 1);
    assert_non_null(strstr(patient.notice[0], "another program holds the record"));
    assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    work_until_told(&patient, 2);
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
    assert_recovered(&patient, "locked");
}

/* Files may not grow: a disk that is full as far as the record is concerned. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static rlim_t size_of(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return (rlim_t)info.st_size;
}

static void test_full_disk(void **state)
{
    (void)state;
    struct patient patient;
    begin_patient(&patient, "full");
    sleep_ms(200);
    limit_files(size_of(in_folder("full/telemetry.db-wal")) + 1000);
    work_until_told(&patient, 1);
    limit_files(RLIM_INFINITY);
    work_until_told(&patient, 2);
    assert_recovered(&patient, "full");
}

static void test_moved_and_back(void **state)
{
    (void)state;
    struct patient patient;
    begin_patient(&patient, "moved");
    assert_int_equal(rename(in_folder("moved"), in_folder("elsewhere")), 0);
    work_until_told(&patient, 1);
    assert_non_null(strstr(patient.notice[0], "moved or removed"));
    assert_int_equal(rename(in_folder("elsewhere"), in_folder("moved")), 0);
    work_until_told(&patient, 2);
    assert_recovered(&patient, "moved");
}

/* It stays full: all that was written before is readable. */
static void test_full_to_the_end(void **state)
{
    (void)state;
    struct patient patient;
    begin_patient(&patient, "stuck");
    sleep_ms(200);
    limit_files(size_of(in_folder("calm/checkpoints/r000016-s000.ckpt")) + 1000); /* for them there is room */
    work_until_told(&patient, 1);
    assert_lost(&patient);
    assert_int_equal(patient.notices, 1);
    limit_files(RLIM_INFINITY);
    assert_true(ask("stuck", "SELECT count(*) FROM step") >= 2 * 10);
}

/* One line for the record, one for the checkpoints. */
static void test_removed(void **state)
{
    (void)state;
    struct patient patient;
    begin_patient(&patient, "removed");
    remove_tree(in_folder("removed"));
    work_until_told(&patient, 1);
    assert_lost(&patient);
    assert_true(patient.notices <= 2);
    assert_int_not_equal(access(in_folder("removed"), F_OK), 0); /* and nothing grows there again */
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------- */

/* A checkpoint that cannot be written is reported once, however often it is tried; the last one must be written. */
static void test_no_room_for_checkpoints(void **state)
{
    (void)state;
    struct config config = trouble_config(6);
    struct esper_error error = {0};
    uint64_t hash = run_whole(&config, "roomy");
    for (int recovers = 0; recovers < 2; recovers++) {
        struct patient patient = {.session = create(&config, recovers ? "tight0" : "tight1")};
        char path[64];
        snprintf(path, sizeof path, "%s/checkpoints", recovers ? "tight0" : "tight1");
        assert_int_equal(rmdir(in_folder(path)), 0);
        for (int i = 0; i < 4 * 24; i++)
            work(&patient);
        assert_int_equal(patient.notices, 1);
        assert_non_null(strstr(patient.notice[0], "checkpoints"));
        if (recovers)
            assert_int_equal(mkdir(in_folder(path), 0755), 0);
        work_to_the_end(&patient);
        assert_true(session_hash(patient.session) == hash);
        assert_int_equal(patient.notices, 1 + recovers);
        assert_int_equal(session_close(patient.session, &error) == ESPER_OK, recovers);
    }
}

/* The best round's checkpoint alone cannot be written: it is not reported as written before it is, and it is that of
 * the best round. */
static void test_no_room_for_the_best(void **state)
{
    (void)state;
    struct config config = trouble_config(6);
    struct checkpoint_info wanted, found;
    struct esper_error error = {0};
    run_whole(&config, "best");
    assert_int_equal(checkpoint_verify(in_folder("best/checkpoints/best.ckpt"), &wanted, NULL, &error), ESPER_OK);
    for (int early = 0; early < 2; early++) { /* there is room as soon as the best round is over, or at the very end */
        const char *name = early ? "best-early" : "best-late";
        struct patient patient = {.session = create(&config, name)};
        char path[64];
        snprintf(path, sizeof path, "%s/checkpoints/best.ckpt", name);
        assert_int_equal(mkdir(in_folder(path), 0755), 0); /* in its way */
        for (uint32_t step = 0; step < 24 * (early ? wanted.round : 6); step++)
            work(&patient);
        assert_int_equal(patient.notices, 1);
        assert_non_null(strstr(patient.notice[0], "best.ckpt: exists and is not a regular file; training goes on"));
        assert_int_equal(rmdir(in_folder(path)), 0);
        work_to_the_end(&patient);
        assert_int_equal(patient.notices, early && wanted.round < 6 ? 2 : 1);
        if (patient.notices == 2)
            assert_non_null(strstr(patient.notice[1], "checkpoints are written again"));
        finish(patient.session);
        assert_int_equal(checkpoint_verify(in_folder(path), &found, NULL, &error), ESPER_OK);
        assert_true(found.round == wanted.round && found.hash == wanted.hash);
    }
    struct patient patient = {.session = create(&config, "best-never")};
    assert_int_equal(mkdir(in_folder("best-never/checkpoints/best.ckpt"), 0755), 0);
    work_to_the_end(&patient);
    assert_int_equal(patient.notices, 1);
    assert_int_equal(session_close(patient.session, &error), ESPER_INVALID);
    assert_says(&error, "best.ckpt: exists and is not a regular file");
}

static int setup(void **state)
{
    signal(SIGXFSZ, SIG_IGN); /* as the program does */
    return folder_make(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_and_resumed),
        cmocka_unit_test(test_locked),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_moved_and_back),
        cmocka_unit_test(test_full_to_the_end),
        cmocka_unit_test(test_removed),
        cmocka_unit_test(test_no_room_for_checkpoints),
        cmocka_unit_test(test_no_room_for_the_best),
    };
    return cmocka_run_group_tests(tests, setup, folder_clear);
}
