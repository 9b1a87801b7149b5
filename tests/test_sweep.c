/* The plan of a sweep: axes, draws, names, rungs; what is played next; its files. */
#include "sweep/folder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json.h"
#include "base/memory.h"
#include "testing.h"
#include "testing_runs.h"

static struct sweep *new_sweep(void)
{
    struct esper_error error = {0};
    struct sweep *sweep = memory_alloc(1, sizeof *sweep, &error);
    config_defaults(&sweep->base);
    assert_int_equal(config_load_task(&sweep->base, "quickstart", &error), ESPER_OK);
    return sweep;
}

static void add(struct sweep *sweep, const char *key, const char *const *values, int count)
{
    struct esper_error error = {0};
    assert_int_equal(sweep_add_list(sweep, key, &error), ESPER_OK);
    for (int i = 0; i < count; i++)
        if (sweep_add_value(sweep, key, values[i], &error) != ESPER_OK)
            fail_msg("%s", error.text);
}

static void complete(struct sweep *sweep)
{
    struct esper_error error = {0};
    if (sweep_complete(sweep, &error) != ESPER_OK)
        fail_msg("%s", error.text);
}

static const char *const rates[] = {"1e-4", "3e-4", "0.001"}, *const clips[] = {"0.1", "0.2"};

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static void a_grid_is_every_combination(void **state)
{
    (void)state;
    struct sweep *sweep = new_sweep();
    struct esper_error error = {0};
    struct config config;
    char text[256], name[SWEEP_NAME];
    add(sweep, "ppo.lr", rates, 3);
    add(sweep, "ppo.clip", clips, 2);
    assert_int_equal(sweep_set_seeds(sweep, "7..9", &error), ESPER_OK);
    complete(sweep);
    assert_true(sweep->configs == 6 && sweep->runs == 18 && sweep->rung_count == 1);
    sweep_settings(sweep, 3, text, sizeof text);
    assert_string_equal(text, "ppo.lr=0.0003 ppo.clip=0.2");
    sweep_name(sweep, 11, name);
    assert_string_equal(name, "lr-0.0003_clip-0.2_s9");
    assert_int_equal(sweep_config(sweep, 11, &config, &error), ESPER_OK);
    assert_true(config.ppo.lr == 3e-4 && config.ppo.clip == 0.2 && config.seed == 9 && config.envs == sweep->base.envs);
    assert_true(sweep_env_steps(sweep) == 18 * config_env_steps(&sweep->base));
    sweep_free(sweep);
}

static void names_differ(void **state)
{
    (void)state;
    struct sweep *sweep = new_sweep();
    char name[SWEEP_NAME];
    add(sweep, "ppo.lr", rates, 2); /* another key ends in lr: both are written out */
    add(sweep, "host.lr", clips, 2);
    complete(sweep);
    sweep_name(sweep, 0, name);
    assert_string_equal(name, "ppo.lr-0.0001_host.lr-0.1_s42");
    sweep_free(sweep);

    static const char *const slots[] = {"r0c0,r0c1", "r0c0,r0c1,r0c2"};
    sweep = new_sweep();
    add(sweep, "slots", slots, 2);
    complete(sweep);
    sweep_name(sweep, 1, name);
    assert_string_equal(name, "slots-r0c0.r0c1.r0c2_s42");
    sweep_free(sweep);

    /* too long to name a run: they are numbered */
    sweep = new_sweep();
    static const char *const keys[] = {"policy.floor.op", "policy.floor.slot", "policy.floor.style",
                                       "policy.floor.tempo", "policy.floor.blueprint"};
    static const char *const floors[] = {"0.0123456789012", "0.0123456789013"};
    for (int i = 0; i < 5; i++)
        add(sweep, keys[i], floors, 2);
    complete(sweep);
    sweep_name(sweep, 31, name);
    assert_string_equal(name, "c0032_s42");
    sweep_free(sweep);
}

static void draws_follow_from_the_seed(void **state)
{
    (void)state;
    struct sweep *sweeps[3];
    struct esper_error error = {0};
    int differ = 0;
    for (int i = 0; i < 3; i++) {
        sweeps[i] = new_sweep();
        sweeps[i]->base.seed += i == 2;
        assert_int_equal(sweep_add_range(sweeps[i], "ppo.lr", "log:1e-4..1e-2", &error), ESPER_OK);
        assert_int_equal(sweep_add_range(sweeps[i], "ppo.epochs", "2..4", &error), ESPER_OK);
        add(sweeps[i], "ppo.clip", clips, 2);
        sweeps[i]->random = 300;
        complete(sweeps[i]);
    }
    int low = 0, epochs[5] = {0}, clip = 0;
    for (int c = 0; c < 300; c++) {
        struct config config;
        char one[256], same[256], other[256];
        sweep_settings(sweeps[0], c, one, sizeof one);
        sweep_settings(sweeps[1], c, same, sizeof same);
        sweep_settings(sweeps[2], c, other, sizeof other);
        assert_string_equal(one, same);
        differ += strcmp(one, other) != 0;
        assert_int_equal(sweep_config(sweeps[0], c, &config, &error), ESPER_OK);
        assert_true(config.ppo.lr >= 1e-4 && config.ppo.lr <= 1e-2);
        low += config.ppo.lr < 1e-3;
        epochs[config.ppo.epochs]++;
        clip += config.ppo.clip == 0.1;
    }
    assert_true(differ > 290);
    assert_true(low > 120 && low < 180); /* half of them in each decade */
    assert_true(epochs[2] > 70 && epochs[3] > 70 && epochs[4] > 70 && epochs[2] + epochs[3] + epochs[4] == 300);
    assert_true(clip > 120 && clip < 180);
    for (int i = 0; i < 3; i++)
        sweep_free(sweeps[i]);
}

static void rungs_lead_to_the_end(void **state)
{
    (void)state;
    static const struct {
        int rounds, configs, halving, first, count, rungs[5];
    } cases[] = {{27, 64, 3, 0, 4, {1, 3, 9, 27}}, {60, 9, 3, 0, 3, {6, 18, 60}}, {60, 64, 2, 10, 4, {10, 20, 40, 60}},
                 {4, 64, 4, 0, 2, {1, 4}},         {30, 3, 3, 0, 2, {10, 30}},    {10, 8, 2, 3, 3, {3, 6, 10}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sweep *sweep = new_sweep();
        struct esper_error error = {0};
        sweep->base.rounds = cases[i].rounds;
        sweep->random = cases[i].configs;
        sweep->halving = cases[i].halving;
        sweep->first_rung = cases[i].first;
        assert_int_equal(sweep_add_range(sweep, "ppo.lr", "log:1e-4..1e-2", &error), ESPER_OK);
        complete(sweep);
        assert_int_equal(sweep->rung_count, cases[i].count);
        for (int k = 0; k < sweep->rung_count; k++)
            assert_int_equal(sweep->rungs[k], cases[i].rungs[k]);
        sweep_free(sweep);
    }
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    struct esper_error error = {0};
    static const struct {
        const char *key, *value, *says;
    } values[] = {{"ppo.lrr", NULL, "unknown key \"ppo.lrr\"; did you mean \"ppo.lr\"?"},
                  {"ppo.lr", "fast", "ppo.lr = fast: it must be a number"},
                  {"ppo.lr", "0.0010", "ppo.lr: has the value 0.001 twice"},
                  {"seed", NULL, "--seeds 1..5"},
                  {"task", NULL, "task: is the same for all runs"},
                  {"threads", NULL, "threads: is the same for all runs"},
                  {"ppo.lr", NULL, "ppo.lr: is given twice"}};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct sweep *sweep = new_sweep();
        add(sweep, "ppo.lr", rates, 3);
        assert_int_equal(values[i].value ? sweep_add_value(sweep, values[i].key, values[i].value, &error)
                                         : sweep_add_list(sweep, values[i].key, &error),
                         ESPER_INVALID);
        assert_says(&error, values[i].says);
        sweep_free(sweep);
    }
    static const struct {
        const char *key, *range, *says;
    } ranges[] = {{"ppo.lr", "0.1", "a range is written"},
                  {"ppo.lr", "0.1..", "a range is written"},
                  {"ppo.lr", "0.1..0.01", "from a smaller to a larger"},
                  {"ppo.epochs", "log:0..3", "ppo.epochs = 0"},
                  {"ppo.lr_end_share", "log:0..1", "starts above 0"},
                  {"ppo.lr", "1..wide", "ppo.lr = wide"},
                  {"reward.mode", "1..2", "only numbers have ranges"},
                  {"ppo.clip", "0.1..0.2", "is given twice"}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        struct sweep *sweep = new_sweep();
        add(sweep, "ppo.clip", clips, 2);
        assert_int_equal(sweep_add_range(sweep, ranges[i].key, ranges[i].range, &error), ESPER_INVALID);
        assert_says(&error, ranges[i].says);
        sweep_free(sweep);
    }
    static const char *const seeds[] = {"", "5", "5..1", "1..", "1,1", "1,2,", "-1..2", "1..2000", "1.5", "1..3x", "a"};
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        struct sweep *sweep = new_sweep();
        if (sweep_set_seeds(sweep, seeds[i], &error) != ESPER_INVALID)
            fail_msg("--seeds %s", seeds[i]);
        assert_says(&error, "a range such as 1..5");
        sweep_free(sweep);
    }
}

static void plans_that_make_no_sense(void **state)
{
    (void)state;
    struct esper_error error = {0};
    struct sweep *sweep = new_sweep();
    assert_int_equal(sweep_complete(sweep, &error), ESPER_INVALID);
    assert_says(&error, "nothing varies");
    sweep->random = 5;
    assert_int_equal(sweep_complete(sweep, &error), ESPER_INVALID);
    assert_says(&error, "nothing varies");
    add(sweep, "ppo.clip", clips, 2);
    assert_int_equal(sweep_complete(sweep, &error), ESPER_INVALID);
    assert_says(&error, "hardly more than 2 different");
    sweep_free(sweep);

    sweep = new_sweep();
    assert_int_equal(sweep_add_range(sweep, "ppo.lr", "1e-4..1e-3", &error), ESPER_OK);
    assert_int_equal(sweep_complete(sweep, &error), ESPER_INVALID);
    assert_says(&error, "--random N");
    sweep_free(sweep);

    sweep = new_sweep();
    static const char *const envs[] = {"4", "6"};
    add(sweep, "envs", envs, 2);
    sweep->base.ppo.minibatches = 4;
    assert_int_equal(sweep_complete(sweep, &error), ESPER_INVALID); /* found before anything starts */
    assert_says(&error, "envs=6: ppo.minibatches = 4");
    sweep_free(sweep);

    sweep = new_sweep();
    static const char *const prices[] = {"0", "1"};
    add(sweep, "reward.price", prices, 2);
    assert_int_equal(sweep_complete(sweep, &error), ESPER_INVALID);
    assert_says(&error, "--objective val_accuracy");
    assert_int_equal(sweep_set_objective(sweep, "val_accuracy", &error), ESPER_OK);
    complete(sweep);
    sweep_free(sweep);

    sweep = new_sweep();
    add(sweep, "ppo.clip", clips, 2);
    sweep->halving = 3;
    assert_int_equal(sweep_complete(sweep, &error), ESPER_INVALID);
    assert_says(&error, "no rung before the end");
    sweep_free(sweep);
}

/* ---- what is next ------------------------------------------------------------------------------------------------ */

/* Nine configurations, three rungs. */
static struct sweep *nine(int seeds)
{
    struct sweep *sweep = new_sweep();
    struct esper_error error = {0};
    static const char *const values[] = {"0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9"};
    sweep->base.rounds = 9;
    sweep->halving = 3;
    add(sweep, "ppo.clip", values, 9);
    if (seeds > 1)
        assert_int_equal(sweep_set_seeds(sweep, "1..2", &error), ESPER_OK);
    complete(sweep);
    assert_int_equal(sweep->rung_count, 3);
    return sweep;
}

static struct sweep_choice next(const struct sweep *sweep, const struct sweep_state *states)
{
    struct sweep_choice choice = {-1, -1};
    struct esper_error error = {0};
    bool found;
    assert_int_equal(sweep_next(sweep, states, &found, &choice, &error), ESPER_OK);
    if (!found)
        choice = (struct sweep_choice){-1, -1};
    return choice;
}

/* The middle ones are the best. */
static void play(const struct sweep *sweep, struct sweep_state *states, struct sweep_choice choice)
{
    static const double scores[9] = {0, 1, 2, 3, 4, 5, -1, -2, -3};
    states[choice.run].score[choice.rung] = scores[choice.run / sweep->seed_count];
    states[choice.run].done = choice.rung + 1;
    states[choice.run].busy = false;
}

#define assert_next(run_, rung_)                                                                                       \
    do {                                                                                                               \
        const struct sweep_choice got = next(sweep, states);                                                           \
        if (got.run != (run_) || got.rung != (rung_))                                                                  \
            fail_msg("line %d: run %d to rung %d, not %d to %d", __LINE__, got.run, got.rung, run_, rung_);            \
    } while (0)

static void halving_promotes_at_once(void **state)
{
    (void)state;
    struct sweep *sweep = nine(1);
    struct sweep_state states[9] = {{0}};
    for (int i = 0; i < 3; i++) {
        assert_next(i, 0);
        play(sweep, states, next(sweep, states));
    }
    assert_next(2, 1); /* the best of three goes on, though six have not begun */
    states[2].busy = true;
    assert_next(3, 0); /* another process does not wait for it */
    play(sweep, states, (struct sweep_choice){2, 1});
    assert_next(3, 0); /* one is no third of anything */
    for (int i = 3; i < 6; i++)
        play(sweep, states, (struct sweep_choice){i, 0});
    assert_next(5, 1);
    play(sweep, states, next(sweep, states));
    assert_next(4, 1); /* two of six: the best are 5 and 4, whatever went on before */
    play(sweep, states, next(sweep, states));
    assert_next(5, 2); /* the highest rung first */
    play(sweep, states, next(sweep, states));
    for (int i = 6; i < 9; i++) {
        assert_next(i, 0);
        play(sweep, states, next(sweep, states));
    }
    assert_next(3, 1); /* three of nine */
    play(sweep, states, next(sweep, states));
    assert_next(-1, -1);
    int order[9];
    struct esper_error error = {0};
    assert_int_equal(sweep_rank(sweep, states, order, &error), ESPER_OK);
    static const int expected[9] = {5, 4, 3, 2, 1, 0, 6, 7, 8}; /* those that came furthest come first */
    assert_memory_equal(order, expected, sizeof order);
    sweep_free(sweep);
}

static void one_reaches_the_end(void **state)
{
    (void)state;
    for (int seeds = 1; seeds <= 2; seeds++) {
        struct sweep *sweep = nine(seeds);
        struct sweep_state states[18] = {{0}};
        int steps = 0, finished = 0;
        states[6 * seeds - 1].failures = SWEEP_TRIES; /* the best one was given up */
        for (struct sweep_choice choice; (choice = next(sweep, states)).run >= 0; steps++)
            play(sweep, states, choice);
        for (int run = 0; run < sweep->runs; run++)
            finished += states[run].done == 3;
        assert_int_equal(sweep_finished(sweep, states, 5), -1);
        assert_int_equal(sweep_finished(sweep, states, 4), 3);
        assert_true(finished >= seeds && finished <= 3 * seeds && steps < 2 * sweep->runs);
        sweep_free(sweep);
    }
}

static void failures_are_tried_once_more(void **state)
{
    (void)state;
    struct sweep *sweep = new_sweep();
    struct sweep_state states[6] = {{0}};
    add(sweep, "ppo.lr", rates, 3);
    sweep->seeds[0] = 1;
    sweep->seeds[1] = 2;
    sweep->seed_count = 2;
    complete(sweep);
    states[0].failures = 1;
    states[1].busy = true;
    for (int i = 2; i < 6; i++) {
        assert_next(i, 0);
        states[i].done = 1;
    }
    assert_next(0, 0); /* after all others */
    states[0].failures = 2;
    assert_next(-1, -1);
    states[1].busy = false; /* its process has ended */
    assert_next(1, 0);
    sweep_free(sweep);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void a_plan_is_kept(void **state)
{
    (void)state;
    struct sweep *sweep = new_sweep(), *again = memory_alloc(1, sizeof *again, NULL);
    struct esper_error error = {0};
    char place[128];
    snprintf(place, sizeof place, "%s/kept", folder);
    assert_int_equal(sweep_add_range(sweep, "ppo.lr", "log:1e-4..1e-2", &error), ESPER_OK);
    add(sweep, "ppo.clip", clips, 2);
    assert_int_equal(sweep_set_seeds(sweep, "3,18446744073709551615", &error), ESPER_OK);
    sweep->random = 20;
    sweep->halving = 2;
    sweep->base.threads = 2; /* the process's own */
    complete(sweep);
    assert_false(sweep_is_folder(place));
    assert_int_equal(sweep_save(sweep, place, &error), ESPER_OK);
    assert_true(sweep_is_folder(place));
    if (sweep_load(again, place, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    assert_int_equal(again->base.threads, 0);
    assert_int_equal(again->runs, 40);
    assert_memory_equal(again->rungs, sweep->rungs, sizeof again->rungs);
    for (int run = 0; run < sweep->runs; run++) {
        char one[SWEEP_NAME], other[SWEEP_NAME];
        sweep_name(sweep, run, one);
        sweep_name(again, run, other);
        assert_string_equal(one, other);
    }
    sweep->base.threads = 1;
    assert_int_equal(sweep_save(sweep, place, &error), ESPER_OK); /* the same plan */
    sweep->base.envs = 4;
    assert_int_equal(sweep_save(sweep, place, &error), ESPER_INVALID);
    assert_says(&error, "was begun as another sweep, envs: ");
    sweep->base.envs = again->base.envs;
    sweep->random = 21;
    assert_int_equal(sweep_save(sweep, place, &error), ESPER_INVALID);
    assert_says(&error, "was begun as another sweep, random: 20 and not 21; choose another --name");
    sweep_free(sweep);
    sweep_free(again);
}

static void a_claim_is_one_process_s(void **state)
{
    (void)state;
    struct esper_error error = {0};
    int first, second;
    assert_int_equal(sweep_claim(folder, "a_s1", &first, &error), ESPER_OK);
    assert_true(first >= 0);
    assert_int_equal(sweep_claim(folder, "a_s1", &second, &error), ESPER_OK);
    assert_int_equal(second, -1);
    assert_int_equal(sweep_claim(folder, "a_s2", &second, &error), ESPER_OK);
    assert_true(second >= 0);
    close(second);
    close(first); /* as the end of its process does */
    assert_int_equal(sweep_claim(folder, "a_s1", &second, &error), ESPER_OK);
    assert_true(second >= 0);
    close(second);
}

/* A run that somebody resumed by hand is left to him, and its directory stays where it is. */
static void what_is_trained_is_left_alone(void **state)
{
    (void)state;
    struct esper_error error = {0};
    struct config config = sample_config();
    struct run run;
    char runs[128], path[160];
    int lock;
    snprintf(runs, sizeof runs, "%s/runs", folder);
    snprintf(path, sizeof path, "%s/hand_s1.failed", runs);
    assert_int_equal(run_create(&run, runs, "hand_s1", &config, "base", "", "by hand", &error), ESPER_OK);
    assert_int_equal(sweep_claim(folder, "hand_s1", &lock, &error), ESPER_OK);
    assert_int_equal(lock, -1);
    assert_int_equal(sweep_set_aside(folder, "hand_s1", &error), ESPER_FAILED);
    assert_says(&error, "is training this run");
    assert_int_not_equal(access(path, F_OK), 0);
    run_close(&run);
    assert_int_equal(sweep_claim(folder, "hand_s1", &lock, &error), ESPER_OK);
    assert_true(lock >= 0);
    assert_int_equal(sweep_set_aside(folder, "hand_s1", &error), ESPER_OK);
    assert_int_equal(access(path, F_OK), 0);
    close(lock);
}

static void results_are_kept(void **state)
{
    (void)state;
    struct esper_error error = {0};
    struct sweep_result out = {.done = 2, .failures = 1, .reasons = {"no finite update"}}, in;
    int lock;
    assert_int_equal(sweep_read_result(folder, "b_s1", &in, &error), ESPER_OK);
    assert_true(in.done == 0 && in.failures == 0);
    assert_int_equal(sweep_claim(folder, "b_s1", &lock, &error), ESPER_OK);
    out.rungs[0] = (struct sweep_rung_result){3, -0.1, (double)NAN, 4};
    out.rungs[1] = (struct sweep_rung_result){9, 1.0 / 3, 50.5, 8};
    assert_int_equal(sweep_write_result(folder, "b_s1", &out, &error), ESPER_OK);
    close(lock);
    if (sweep_read_result(folder, "b_s1", &in, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    assert_true(in.done == 2 && in.failures == 1 && in.rungs[0].rounds == 3 && isnan(in.rungs[0].test));
    assert_true(in.rungs[1].score == 1.0 / 3 && in.rungs[1].episodes == 8 && in.rungs[1].test == 50.5);
    assert_string_equal(in.reasons[0], "no finite update");
}

static void the_last_rounds_are_judged(void **state)
{
    (void)state;
    struct sweep *sweep = new_sweep();
    struct outcome_record outcomes[40];
    struct sweep_rung_result result;
    for (int i = 0; i < 40; i++) /* two envs, rounds 0 to 19 */
        outcomes[i] = (struct outcome_record){
            .round = i / 2, .env = i % 2, .gain = i / 2, .val_accuracy = 50, .test_accuracy = 40 + i % 2};
    sweep_judge(sweep, outcomes, 40, 20, &result);
    assert_true(result.episodes == 20 && result.score == 14.5 && result.test == 40.5 && result.rounds == 20);
    sweep_judge(sweep, outcomes, 40, 4, &result); /* as it stood then: rounds 2 and 3 */
    assert_true(result.episodes == 4 && result.score == 2.5);
    sweep_judge(sweep, outcomes, 40, 1, &result);
    assert_true(result.episodes == 2 && result.score == 0);
    sweep->objective = OBJECTIVE_VAL_ACCURACY;
    sweep_judge(sweep, outcomes, 40, 20, &result);
    assert_true(result.score == 50);
    sweep_judge(sweep, outcomes, 0, 20, &result);
    assert_true(isnan(result.score));
    sweep_free(sweep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grid_is_every_combination),
        cmocka_unit_test(names_differ),
        cmocka_unit_test(draws_follow_from_the_seed),
        cmocka_unit_test(rungs_lead_to_the_end),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(plans_that_make_no_sense),
        cmocka_unit_test(halving_promotes_at_once),
        cmocka_unit_test(one_reaches_the_end),
        cmocka_unit_test(failures_are_tried_once_more),
        cmocka_unit_test(a_plan_is_kept),
        cmocka_unit_test(a_claim_is_one_process_s),
        cmocka_unit_test(what_is_trained_is_left_alone),
        cmocka_unit_test(results_are_kept),
        cmocka_unit_test(the_last_rounds_are_judged),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_clear);
}
