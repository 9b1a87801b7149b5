/* Where a run can go on: with checkpoints, rows of the record or the status missing or damaged, nothing is forgotten
 * without a word, and what is refused changes nothing. */
#include <dlfcn.h>
#include <errno.h>

#include "testing_sessions.h"

static bool listing_fails; /* the disk does not answer when a folder is listed */

struct dirent *readdir(DIR *listing)
{
    struct dirent *(*real)(DIR *);
    *(void **)&real = dlsym(RTLD_NEXT, sizeof(long) == 8 ? "readdir" : "readdir64");
    if (!listing_fails)
        return real(listing);
    errno = EIO;
    return NULL;
}

static struct config resume_config(void)
{
    struct config config = small_session(POLICY_PPO);
    config.rounds = 4;
    config.steps = 4;
    config.checkpoint.rounds = 1;
    config.checkpoint.keep = 2;
    return config;
}

static uint64_t whole_hash(void)
{
    static uint64_t hash;
    struct config config = resume_config();
    if (!hash)
        hash = run_whole(&config, "whole");
    return hash;
}

/* A run that was played to its end, to be spoilt. */
static void make_run(const char *name)
{
    struct config config = resume_config();
    assert_true(run_whole(&config, name) == whole_hash());
}

static const char *checkpoint_of(const char *name, const char *file)
{
    char path[128];
    snprintf(path, sizeof path, "%s/checkpoints/%s", name, file);
    return in_folder(path);
}

static void spoil(const char *path)
{
    put_file(path, "no checkpoint", 13);
}

static void run_sql(const char *name, const char *sql)
{
    char path[128];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/telemetry.db", name);
    assert_int_equal(sqlite3_open(in_folder(path), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void assert_note(const struct session *session, const char *words)
{
    const char *note = session_note(session);
    if (strchr(note, '\n') || (words ? !strstr(note, words) : *note))
        fail_msg("the note is \"%s\", not \"%s\"", note, words ? words : "");
}

/* Refused with `words`; its rows and its status stay. */
static void assert_refused(const char *name, bool from_scratch, enum esper_status status, const char *words)
{
    const struct session_changes changes = {.rounds = 9, .threads = -1, .from_scratch = from_scratch};
    struct session *session;
    struct esper_error error = {0};
    double before = ask(name, "SELECT count(*) FROM step");
    char plan[64];
    snprintf(plan, sizeof plan, "%s/plan.json", name);
    assert_int_equal(session_resume(&session, in_folder(name), &changes, &error), status);
    assert_says(&error, words);
    assert_true(ask(name, "SELECT count(*) FROM step") == before);
    assert_int_not_equal(access(in_folder(plan), F_OK), 0);
}

/* Goes on with this note, to the end of a run that nothing happened to. */
static void assert_goes_on(const char *name, bool from_scratch, const char *words)
{
    const struct session_changes changes = {.threads = -1, .from_scratch = from_scratch};
    struct session_progress progress;
    struct session *session = resume(name, &changes);
    assert_note(session, words);
    while (!session_done(session))
        advance(session, &progress);
    assert_true(session_hash(session) == whole_hash());
    finish(session);
}

static void assert_complete(const char *name)
{
    assert_true(ask(name, "SELECT count(*) FROM round") == 4);
    assert_true(ask(name, "SELECT count(*) FROM step") == 4 * 4 * 2);
}

/* ---- no checkpoint ----------------------------------------------------------------------------------------------- */

static void test_lost_checkpoints(void **state)
{
    (void)state;
    make_run("lost");
    listing_fails = true;
    assert_refused("lost", false, ESPER_FAILED, "cannot list the checkpoints: Input/output error");
    assert_refused("lost", true, ESPER_FAILED, "cannot list the checkpoints: Input/output error");
    listing_fails = false;
    assert_refused("lost", true, ESPER_INVALID, "can go on from r000004-s000.ckpt; leave --from-scratch out");
    unlink(checkpoint_of("lost", "r000003-s000.ckpt"));
    unlink(checkpoint_of("lost", "r000004-s000.ckpt"));
    assert_refused("lost", false, ESPER_INVALID, "4 rounds were done, but ");
    assert_refused("lost", false, ESPER_INVALID, "/checkpoints holds no checkpoint; put them back, or ");
    run_sql("lost", "DELETE FROM checkpoint"); /* the status says it, too */
    assert_refused("lost", false, ESPER_INVALID, "4 rounds were done, but ");
    assert_goes_on("lost", true, NULL);
    assert_complete("lost");

    make_run("folder");
    unlink(checkpoint_of("folder", "best.ckpt"));
    unlink(checkpoint_of("folder", "r000003-s000.ckpt"));
    unlink(checkpoint_of("folder", "r000004-s000.ckpt"));
    assert_int_equal(rmdir(in_folder("folder/checkpoints")), 0);
    unlink(in_folder("folder/status.json")); /* and so does the record alone */
    assert_refused("folder", false, ESPER_INVALID, "4 rounds were done, but ");
    assert_goes_on("folder", true, "status.json: cannot open: No such file or directory; it is written anew");
    assert_complete("folder");
}

/* Damaged ones would be the newest for ever. */
static void test_damaged_checkpoints(void **state)
{
    (void)state;
    make_run("damaged");
    spoil(checkpoint_of("damaged", "r000004-s000.ckpt"));
    spoil(checkpoint_of("damaged", "r000003-s000.ckpt"));
    assert_refused("damaged", false, ESPER_INVALID, "none of the 2 checkpoints is intact");
    assert_goes_on("damaged", true, NULL);
    assert_complete("damaged");
    assert_goes_on("damaged", false, NULL);
}

struct death {
    int checkpoint_rounds;
    uint32_t round;
};

static int train_and_die(const void *context)
{
    const struct death *death = context;
    struct config config = resume_config();
    struct session *session;
    struct session_progress progress = {0};
    const struct session_options options = {.runs = folder, .name = "early", .command = "a test"};
    config.checkpoint.rounds = death->checkpoint_rounds;
    if (session_create(&session, &config, &options, NULL) != ESPER_OK)
        return 1;
    while (progress.round < death->round || progress.step < 2)
        if (session_advance(session, &progress, NULL) != ESPER_OK)
            return 2;
    return 0; /* _exit: nothing is saved, closed or flushed */
}

/* A run that was killed before its first checkpoint was due has none, and begins again by itself. */
static void test_killed_before_the_first(void **state)
{
    (void)state;
    static const struct death deaths[] = {{10, 0}, {10, 3}};
    static const char *const notes[] = {NULL, "ended before its first checkpoint: its 3 rounds are played again"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(exit_code(start_child(train_and_die, &deaths[i])), 0);
        assert_goes_on("early", false, notes[i]);
        assert_complete("early");
        remove_tree(in_folder("early"));
    }
    const struct death later = {1, 3}; /* one was due: it is missing */
    assert_int_equal(exit_code(start_child(train_and_die, &later)), 0);
    for (int round = 1; round <= 3; round++) {
        char file[32];
        checkpoint_name((uint32_t)round, 0, file);
        unlink(checkpoint_of("early", file));
    }
    assert_refused("early", false, ESPER_INVALID, "3 rounds were done, but ");
    run_sql("early", "DELETE FROM checkpoint");
    assert_refused("early", false, ESPER_INVALID, "3 rounds were done, but ");
}

/* A run that was killed before it had a record. */
static void begin_without_record(void)
{
    static const struct death death = {10, 0};
    static const char *const files[] = {"early/telemetry.db", "early/telemetry.db-wal", "early/telemetry.db-shm"};
    remove_tree(in_folder("early")); /* of the test before */
    assert_int_equal(exit_code(start_child(train_and_die, &death)), 0);
    for (int i = 0; i < 3; i++)
        unlink(in_folder(files[i]));
}

/* Killed while the tables of its record were made: there is a database, and nothing in it. */
static void test_blank_record(void **state)
{
    (void)state;
    sqlite3 *db;
    begin_without_record();
    assert_int_equal(sqlite3_open(in_folder("early/telemetry.db"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_goes_on("early", false, NULL);
    assert_complete("early");
}

static int die_in_transaction(const void *unused)
{
    (void)unused;
    sqlite3 *db;
    return sqlite3_open(in_folder("early/telemetry.db"), &db) != SQLITE_OK ||
           sqlite3_exec(db, "BEGIN; CREATE TABLE half (made INTEGER)", NULL, NULL, NULL) != SQLITE_OK ||
           sqlite3_db_cacheflush(db) != SQLITE_OK;
}

/* The same before the first page was whole: its journal is there still, and only a writer may roll it back. */
static void test_cut_off_record(void **state)
{
    (void)state;
    begin_without_record();
    assert_int_equal(exit_code(start_child(die_in_transaction, NULL)), 0);
    assert_int_equal(access(in_folder("early/telemetry.db-journal"), F_OK), 0);
    assert_goes_on("early", false, NULL);
    assert_complete("early");
}

/* ---- an older checkpoint ----------------------------------------------------------------------------------------- */

static void test_older_checkpoint(void **state)
{
    (void)state;
    make_run("older");
    unlink(checkpoint_of("older", "r000004-s000.ckpt"));
    assert_goes_on("older", false,
                   "there is no checkpoint r000004-s000.ckpt, where the run was saved last; resuming from r000003");
    assert_complete("older");
    spoil(checkpoint_of("older", "r000004-s000.ckpt"));
    assert_goes_on("older", false, "checkpoint r000004-s000.ckpt cannot be used (");
    assert_complete("older");
    assert_goes_on("older", false, NULL);
}

/* What takes something out of a run takes it from the newest checkpoint, or from none. */
static void test_policy_of_a_damaged_checkpoint(void **state)
{
    (void)state;
    struct config config = resume_config();
    struct session *session;
    struct esper_error error = {0};
    const struct session_options options = {.runs = folder, .name = "heir", .command = "a test"};
    make_run("source");
    snprintf(config.policy.from, sizeof config.policy.from, "source");
    spoil(checkpoint_of("source", "r000004-s000.ckpt"));
    assert_int_equal(session_create(&session, &config, &options, &error), ESPER_INVALID);
    assert_says(&error, "checkpoint r000004-s000.ckpt cannot be used (");
    assert_says(&error, "to use r000003-s000.ckpt instead, move what is damaged away");
    assert_int_not_equal(access(in_folder("heir"), F_OK), 0);
    unlink(checkpoint_of("source", "r000004-s000.ckpt"));
    finish(create(&config, "heir"));
}

/* ---- rows that are missing --------------------------------------------------------------------------------------- */

static void assert_gap(const char *sql, const char *words)
{
    make_run("gap");
    run_sql("gap", sql);
    assert_goes_on("gap", false, words);
    remove_tree(in_folder("gap"));
}

static void test_gaps(void **state)
{
    (void)state;
    assert_gap("DELETE FROM round WHERE round = 3", "the record lacks rows of round 4, which is not played again");
    assert_gap("DELETE FROM round WHERE round IN (0, 1)", "the record lacks rows of rounds 1 to 2, which are not");
    assert_gap("DELETE FROM round WHERE round IN (0, 2)", "the record lacks rows of 2 rounds from 1 to 3, which");
    assert_gap("DELETE FROM round", "the record lacks rows of rounds 1 to 4, which are not played again");
    make_run("gap");
    unlink(in_folder("gap/telemetry.db"));
    assert_goes_on("gap", false, "the record lacks rows of rounds 1 to 4, which are not played again");

    struct config config = resume_config();
    struct session_progress progress = {0};
    struct session *session = create(&config, "amid");
    while (progress.round < 2 || progress.step < 3)
        advance(session, &progress);
    finish(session);
    run_sql("amid", "DELETE FROM step WHERE round = 2 AND step > 1");
    assert_goes_on("amid", false, "the record lacks rows of round 3, which is not played again");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lost_checkpoints),
        cmocka_unit_test(test_damaged_checkpoints),
        cmocka_unit_test(test_killed_before_the_first),
        cmocka_unit_test(test_blank_record),
        cmocka_unit_test(test_cut_off_record),
        cmocka_unit_test(test_older_checkpoint),
        cmocka_unit_test(test_policy_of_a_damaged_checkpoint),
        cmocka_unit_test(test_gaps),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
