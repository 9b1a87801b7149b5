/* Sessions: long runs stay flat and their record agrees with their state; what a run takes from another one. */
#include "testing_sessions.h"

static long resident_pages(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &pages, &resident), 2);
    fclose(file);
    return resident;
}

/* 20 small rounds, or 100 of the quick start as shipped (tests/run_long.sh plays more of small ones): memory stays
 * flat, record and checkpoint counts match. */
static void test_long_run(void **state)
{
    (void)state;
    bool soak = getenv("ESPER_SOAK") != NULL;
    struct config config = small_session(POLICY_PPO);
    struct session_progress progress;
    if (soak) {
        struct esper_error error = {0};
        config_defaults(&config);
        assert_int_equal(config_load_task(&config, "quickstart", &error), ESPER_OK);
    }
    config.rounds = soak ? 100 : 20;
    int settled = soak ? 20 : 5;
    struct session *session = create(&config, "long");
    run_rounds(session, settled, &progress);
    long before = resident_pages();
    run_rounds(session, config.rounds - settled, &progress);
    long after = resident_pages();
    double page = (double)sysconf(_SC_PAGESIZE), growth = (double)(after - before) * page;
    print_message("%d rounds: resident memory %.1f MiB, %+.2f MiB since round %d\n", config.rounds,
                  (double)after * page / 1048576, growth / 1048576, settled);
#ifndef __SANITIZE_ADDRESS__               /* which holds back freed memory on purpose */
    double cache = soak ? 0 : 3 * 1048576; /* of the record's pages: it is still filling in the short form */
    assert_true(growth < 0.01 * (double)before * page + cache);
#endif
    finish(session);

    assert_true(ask("long", "SELECT count(*) FROM round") == config.rounds);
    assert_true(ask("long", "SELECT count(*) FROM ppo") == config.rounds);
    assert_true(ask("long", "SELECT count(*) FROM outcome") == (double)total("long", "total.episodes"));
    assert_true(ask("long", "SELECT sum(env_steps) FROM round") == (double)total("long", "total.env_steps"));
    assert_true(ask("long", "SELECT sum(germinations) FROM round") == (double)total("long", "total.germinations"));
    assert_true(ask("long", "SELECT sum(germinated) FROM outcome") == (double)total("long", "total.germinations"));
    assert_true(ask("long", "SELECT sum(fossilizations) FROM round") == (double)total("long", "total.fossilizations"));
    assert_true(ask("long", "SELECT sum(prunes) FROM round") == (double)total("long", "total.prunes"));
    assert_true(ask("long", "SELECT count(*) FROM rollback") == (double)total("long", "total.rollbacks"));
    assert_true(fabs(ask("long", "SELECT max(abs(r.reward_mean - o.mean)) FROM round r JOIN (SELECT round, avg(reward) "
                                 "AS mean FROM outcome GROUP BY round) o USING (round)")) < 1e-9);
}

/* What progress shows is what the record holds. */
static void test_progress_is_the_record(void **state)
{
    (void)state;
    struct config config = small_session(POLICY_PPO);
    struct session_progress progress;
    struct session *session = create(&config, "shown");
    run_rounds(session, 2, &progress);
    assert_true(progress.has_ppo && progress.round == 2 && progress.step == 0);
    finish(session);
    assert_true(ask("shown", "SELECT val_accuracy_mean FROM round WHERE round = 1") ==
                progress.record.val_accuracy_mean);
    assert_true(ask("shown", "SELECT reward_mean FROM round WHERE round = 1") == progress.record.reward_mean);
    assert_true(ask("shown", "SELECT kl FROM ppo WHERE round = 1") == progress.ppo.kl);
    assert_true(ask("shown", "SELECT explained_variance FROM ppo WHERE round = 1") == progress.ppo.explained_variance);
}

/* A script is kept with the run; its topology can be replayed with fresh weights. */
static void test_script_and_replay(void **state)
{
    (void)state;
    struct config config = small_session(POLICY_SCRIPT);
    snprintf(config.policy.script, sizeof config.policy.script, "examples/two_seeds.json");
    run_whole(&config, "scripted");
    assert_true(ask("scripted", "SELECT min(fossilized) FROM outcome") == 2);
    assert_int_equal(access(in_folder("scripted/script.json"), R_OK), 0);

    struct config replay = small_session(POLICY_REPLAY);
    snprintf(replay.policy.from, sizeof replay.policy.from, "scripted");
    run_whole(&replay, "replayed");
    assert_true(ask("replayed", "SELECT min(fossilized) FROM outcome") == 2);
    assert_true(ask("replayed", "SELECT max(germinated) FROM outcome") == 0);

    struct config bare = small_session(POLICY_STATIC); /* nothing grew there */
    run_whole(&bare, "bare");
    snprintf(replay.policy.from, sizeof replay.policy.from, "bare");
    struct session *session;
    struct esper_error error = {0};
    struct session_options options = {.runs = folder, .name = "none", .command = "a test"};
    assert_int_equal(session_create(&session, &replay, &options, &error), ESPER_INVALID);
    assert_says(&error, "no seeds to replay");
    assert_int_not_equal(access(in_folder("none"), F_OK), 0); /* and leaves no directory */
}

/* A file of schedules is kept with the run, which goes on without the user's. */
static void test_schedules_are_kept(void **state)
{
    (void)state;
    static const char lines[] = "none\nconv_light/3@1\n";
    struct config config = small_session(POLICY_SCHEDULE);
    struct session_progress progress;
    const char *file = in_folder("lines.txt");
    put_file(file, lines, sizeof lines - 1);
    snprintf(config.policy.schedule, sizeof config.policy.schedule, "@%s", file);
    struct session *session = create(&config, "scheduled");
    run_rounds(session, 1, &progress);
    finish(session);
    unlink(config.policy.schedule + 1);
    session = resume("scheduled", &(struct session_changes){.threads = -1});
    run_rounds(session, 1, &progress);
    finish(session);
    assert_true(ask("scheduled", "SELECT count(*) FROM outcome WHERE fossilized = env AND germinated = env") == 4);
}

/* Evaluation episodes with a trained policy: the same twice, different from a fresh one's. */
static void test_evaluation_takes_the_policy(void **state)
{
    (void)state;
    struct config config = small_session(POLICY_PPO);
    config.rounds = 3;
    run_whole(&config, "trained");
    config.evaluate = true;
    config.rounds = 1;
    uint64_t hash[3];
    for (int i = 0; i < 3; i++) {
        char name[16];
        struct session_progress progress;
        snprintf(name, sizeof name, "judged%d", i);
        snprintf(config.policy.from, sizeof config.policy.from, "%s", i < 2 ? "trained" : "");
        struct session *session = create(&config, name);
        run_rounds(session, 1, &progress);
        assert_true(!progress.has_ppo && progress.record.round == EVALUATION_ROUND);
        hash[i] = session_hash(session);
        finish(session);
    }
    assert_int_equal(hash[0], hash[1]);
    assert_int_not_equal(hash[0], hash[2]);
}

/* Rounds added on resume are remembered by the next resume. */
static void test_added_rounds(void **state)
{
    (void)state;
    struct config config = small_session(POLICY_RANDOM);
    struct session_changes more = {.rounds = 4, .threads = -1}, none = {.rounds = 0, .threads = -1};
    struct session_progress progress;
    struct session *session;
    run_whole(&config, "added");
    session = resume("added", &none);
    assert_true(session_done(session));
    finish(session);
    session = resume("added", &more);
    assert_false(session_done(session));
    run_rounds(session, 1, &progress);
    finish(session);
    session = resume("added", &none);
    assert_false(session_done(session));
    run_rounds(session, 1, &progress);
    assert_true(session_done(session));
    finish(session);
    assert_true(ask("added", "SELECT count(*) FROM round") == 4);
}

/* E-20: a run that is stopped while twins play saves the round's start, under that name, and goes on to the same bits.
 */
static void test_stopped_among_twins(void **state)
{
    (void)state;
    struct config config = small_session(POLICY_RANDOM);
    struct session_changes none = {.rounds = 0, .threads = -1};
    struct session_progress progress = {0};
    config.steps = 8;
    config.reward.mode = REWARD_GAIN;
    uint64_t whole = run_whole(&config, "twins_whole");
    struct session *session = create(&config, "twins");
    run_rounds(session, 1, &progress);
    for (int step = 1; step <= 5; step++) {
        advance(session, &progress);
        assert_int_equal(progress.twin_step, step);
    }
    finish(session);
    assert_true(ask("twins", "SELECT count(*) FROM checkpoint WHERE file = 'r000001-s000.ckpt'") == 1);
    assert_true(ask("twins", "SELECT count(*) FROM checkpoint WHERE file LIKE '%-s005%'") == 0);
    session = resume("twins", &none);
    run_rounds(session, 1, &progress);
    assert_true(session_done(session) && session_hash(session) == whole);
    finish(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_run),
        cmocka_unit_test(test_progress_is_the_record),
        cmocka_unit_test(test_script_and_replay),
        cmocka_unit_test(test_schedules_are_kept),
        cmocka_unit_test(test_evaluation_takes_the_policy),
        cmocka_unit_test(test_added_rounds),
        cmocka_unit_test(test_stopped_among_twins),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
