/* The catalogue of every task, and the plan, the draws and the ranking of a search. */
#include "search/search.h"

#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/tasks.h"
#include "morph/family.h"
#include "testing.h"

static struct config task_config(const char *task)
{
    struct config config;
    struct esper_error error = {0};
    config_defaults(&config);
    assert_int_equal(config_load_task(&config, task, &error), ESPER_OK);
    return config;
}

static struct search *search_of(const struct config *config, long long budget, int schedules)
{
    struct search *search = NULL;
    struct esper_error error = {0};
    if (search_create(&search, config, budget, schedules, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    return search;
}

static void assert_reads_back(const struct schedule *schedule, const struct config *config)
{
    struct schedule again;
    struct esper_error error = {0};
    char text[SCHEDULE_TEXT];
    schedule_format(schedule, config, text, sizeof text);
    if (schedule_parse(&again, text, config, &error) != ESPER_OK)
        fail_msg("%s: %s", text, error.text);
    assert_true(schedule_equal(schedule, &again));
    assert_true(strlen(text) < CONFIG_TEXT); /* it can be pasted */
}

/* ---- the catalogue ----------------------------------------------------------------------------------------------- */

static void every_task_has_one(void **state)
{
    (void)state;
    struct esper_error error = {0};
    struct task *tasks;
    int count;
    struct catalogue *catalogue = memory_alloc(1, sizeof *catalogue, &error);
    assert_int_equal(task_list(&tasks, &count, &error), ESPER_OK);
    for (int t = 0; t < count; t++) {
        struct config config = task_config(tasks[t].name);
        catalogue_make(catalogue, &config);
        /* none; uniform; the heavy one first and last, without those that are uniform; late; alone */
        int slots = config.slot_count, kinds = family_list(host_family_of(&config)).count - 1, others = kinds - 1;
        assert_int_equal(catalogue->count,
                         slots == 1 ? 1 + kinds + 2
                                    : 1 + kinds + 2 * others + 2 + kinds * slots + (slots > 2 ? kinds + others : 0));
        for (int i = 0; i < catalogue->count; i++) {
            assert_reads_back(&catalogue->schedule[i], &config);
            for (int j = 0; j < i; j++)
                assert_false(schedule_equal(&catalogue->schedule[i], &catalogue->schedule[j]));
        }
    }
    memory_free(tasks);
    memory_free(catalogue);
}

static void parameters_are_those_of_the_seeds(void **state)
{
    (void)state;
    struct config config = task_config("cifar_baseline");
    struct schedule schedule;
    struct esper_error error = {0};
    assert_int_equal(schedule_parse(&schedule, "conv_heavy@1,conv_heavy@1,conv_heavy@1", &config, &error), ESPER_OK);
    assert_int_equal(schedule_params(&schedule, &config), 24416);
    assert_int_equal(schedule_parse(&schedule, "norm@1,norm@1,norm@1", &config, &error), ESPER_OK);
    assert_int_equal(schedule_params(&schedule, &config), 115);
    assert_int_equal(schedule_parse(&schedule, "none", &config, &error), ESPER_OK);
    assert_int_equal(schedule_params(&schedule, &config), 0);
    assert_int_equal(schedule_parse(&schedule, "norm@1,r0c0=norm@9", &config, &error),
                     ESPER_OK); /* if the first is lost */
    assert_int_equal(schedule_params(&schedule, &config), 17);
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static long long env_steps(const struct search *search)
{
    long long sum = 0;
    for (int stage = 1; stage <= search->stages; stage++) {
        struct config config = search_stage(search, stage, 1);
        assert_int_equal(config.envs % search_remaining(search, stage), 0); /* each plays as often */
        assert_int_equal(config.group, search_remaining(search, stage));    /* on the same births */
        sum += (long long)config.envs * config.steps * config.rounds;
    }
    return sum;
}

static void a_budget_is_used_and_not_exceeded(void **state)
{
    (void)state;
    struct config config = task_config("quickstart");
    for (long long budget = 80; budget < 300000; budget = budget * 5 / 3) {
        struct search *search = search_of(&config, budget, 0);
        long long used = env_steps(search), round = (long long)search->schedules * config.steps;
        const int last = search->rounds[search->stages - 1] * config.steps; /* six tries share its envs */
        const long long idle = search->schedules < 6 ? 0 : (long long)(search->schedules % 6) * last;
        assert_true(used == search_env_steps(search) && used + idle <= budget && used + idle + round > budget);
        assert_true(1 << search->stages == search->schedules);
        for (int i = 1; i < search->stages; i++)
            assert_true(search->rounds[i] >= search->rounds[i - 1] && search->rounds[i - 1] >= 1);
        search_free(search);
    }
    struct search *search = search_of(&config, 8 * 40 * 60, 0);
    assert_int_equal(search->schedules, 64); /* catalogue and random ones */
    search_free(search);
}

static void no_stage_meets_an_episode_again(void **state)
{
    (void)state;
    struct config config = task_config("quickstart");
    struct search *search = search_of(&config, 100000, 16);
    for (int stage = 1; stage <= search->stages + 1; stage++)
        for (int before = 1; before < stage; before++)
            assert_int_not_equal(search_stage(search, stage, 9).seed, search_stage(search, before, 9).seed);
    struct config winner = search_stage(search, search->stages + 1, 9);
    assert_int_equal(winner.group, 1);
    assert_true(winner.seed == config.seed && winner.envs == config.envs && winner.rounds == 2 && winner.evaluate);
    search_free(search);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    struct config config = task_config("quickstart");
    struct search *search = NULL;
    struct esper_error error = {0};
    assert_int_equal(search_create(&search, &config, 79, 0, &error), ESPER_INVALID);
    assert_says(&error, "79 env-steps do not suffice for 2 schedules of 40 steps; it takes 80");
    assert_int_equal(search_create(&search, &config, 100000, 24, &error), ESPER_INVALID);
    assert_says(&error, "power of 2");
    assert_int_equal(search_create(&search, &config, 1000, 64, &error), ESPER_INVALID);
    assert_says(&error, "do not suffice for 64 schedules");
}

static void random_schedules_follow_from_the_seed(void **state)
{
    (void)state;
    struct config config = task_config("quickstart"), other = config;
    other.seed++;
    struct search *one = search_of(&config, 1000000, 128), *same = search_of(&config, 1000000, 128);
    struct search *two = search_of(&other, 1000000, 128);
    int differ = 0;
    for (int i = 0; i < 128; i++) {
        assert_true(schedule_equal(&one->contenders[i].schedule, &same->contenders[i].schedule));
        differ += !schedule_equal(&one->contenders[i].schedule, &two->contenders[i].schedule);
        assert_reads_back(&one->contenders[i].schedule, &config);
        for (int j = 0; j < i; j++)
            assert_false(schedule_equal(&one->contenders[i].schedule, &one->contenders[j].schedule));
    }
    assert_true(differ > 68 && differ <= 128 - 56); /* all but the catalogue */
    search_free(one);
    search_free(same);
    search_free(two);
}

/* ---- the ranking ------------------------------------------------------------------------------------------------- */

static void the_better_half_goes_on(void **state)
{
    (void)state;
    struct config config = task_config("quickstart");
    struct search *search = search_of(&config, 100000, 4);
    struct schedule schedule[4];
    for (int i = 0; i < 4; i++)
        schedule[i] = search->contenders[i].schedule;
    struct outcome_record first[8] = {{0}}, second[4] = {{0}};
    for (int i = 0; i < 8; i++)
        first[i].gain = second[i % 4].gain = (double)NAN;
    static const double scores[8] = {50, 60, 40, 60, 52, 60, 44, 60}; /* envs 0 to 3, then 0 to 3 in another round */
    for (int i = 0; i < 8; i++) {
        first[i].env = i % 4;
        first[i].val_accuracy = scores[i];
        first[i].added_params = 100;
    }
    search_judge(search, 1, first, 8);
    static const int expected[] = {1, 3, 0, 2}; /* a tie keeps the order */
    for (int i = 0; i < 4; i++)
        assert_true(schedule_equal(&search->contenders[i].schedule, &schedule[expected[i]]));
    assert_true(contender_mean(&search->contenders[2]) == 51 && search->contenders[2].episodes == 2);
    assert_true(contender_margin(&search->contenders[2]) > 12.70 && contender_margin(&search->contenders[2]) < 12.71);

    char *lines;
    struct esper_error error = {0};
    assert_int_equal(search_lines(search, 2, &lines, &error), ESPER_OK);
    assert_string_equal(lines, "conv_light@1,conv_light@1,conv_light@1\nnorm@1,norm@1,norm@1\n");
    memory_free(lines);

    for (int i = 0; i < 4; i++) { /* line 1 is the better one now, over all its episodes */
        second[i].env = i;
        second[i].val_accuracy = i % 2 ? 70 : 10;
    }
    search_judge(search, 2, second, 4);
    assert_true(schedule_equal(&search->contenders[0].schedule, &schedule[3]));
    assert_true(search->contenders[0].stage == 2 && search->contenders[0].episodes == 4);
    assert_true(contender_mean(&search->contenders[0]) == 65 && search->contenders[0].added_params == 200);
    assert_true(schedule_equal(&search->contenders[1].schedule, &schedule[1])); /* ahead of those that dropped out */
    assert_true(contender_mean(&search->contenders[1]) < contender_mean(&search->contenders[2]));
    search_free(search);
}

/* The two that remain play at all tempos: the schedule is chosen by all its episodes, the tempo by those of both. */
static void the_last_stage_tries_tempos(void **state)
{
    (void)state;
    struct config config = task_config("quickstart");
    struct search *search = search_of(&config, 100000, 8);
    struct outcome_record outcomes[8] = {{0}};
    for (int i = 0; i < 8; i++)
        outcomes[i] = (struct outcome_record){.env = i,
                                              .gain = (double)NAN,
                                              .val_accuracy = i == 2   ? 60
                                                              : i == 5 ? 58
                                                                       : 40};
    search_judge(search, 1, outcomes, 8);
    static const double halved[4] = {60, 50, 0, 0};
    for (int i = 0; i < 4; i++)
        outcomes[i].val_accuracy = halved[i];
    search_judge(search, 2, outcomes, 4);
    assert_false(search_tries_tempos(search, 2));
    assert_true(search_tries_tempos(search, 3) && search_remaining(search, 3) == 6);
    assert_int_equal(search_stage(search, 3, 0).envs, 6);

    char *lines;
    struct esper_error error = {0};
    assert_int_equal(search_lines(search, 3, &lines, &error), ESPER_OK);
    assert_string_equal(lines, "attention/3@1,attention/3@1,attention/3@1\n"
                               "attention@1,attention@1,attention@1\n"
                               "attention/8@1,attention/8@1,attention/8@1\n"
                               "bottleneck/3@1,bottleneck/3@1,bottleneck/3@1\n"
                               "bottleneck@1,bottleneck@1,bottleneck@1\n"
                               "bottleneck/8@1,bottleneck/8@1,bottleneck/8@1\n");
    memory_free(lines);
    static const double scores[6] = {71, 60, 55, 66, 70, 53}; /* one at tempos 3, 5, 8, then the other */
    for (int i = 0; i < 6; i++)
        outcomes[i].val_accuracy = scores[i];
    search_judge(search, 3, outcomes, 6);
    assert_true(search->tempo[0] == 68.5 && search->tempo[1] == 65 && search->tempo[2] == 54);
    assert_int_equal(search->contenders[0].episodes, 5);
    assert_int_equal(search_lines(search, 4, &lines, &error), ESPER_OK);
    assert_string_equal(lines, "attention/3@1,attention/3@1,attention/3@1\n"); /* the other is better at 5 */
    memory_free(lines);
    search_free(search);
}

/* The objective of gain, or the same without the twin. */
static void prices_count(void **state)
{
    (void)state;
    struct config config = task_config("quickstart");
    struct outcome_record outcome = {
        .val_accuracy = 80, .added_params = 2000, .train_work = 1.5, .twin_accuracy = (double)NAN, .gain = (double)NAN};
    assert_true(search_score(&config, &outcome) == 80);
    config.reward.price = 3;
    config.reward.flop_price = 4;
    assert_true(search_score(&config, &outcome) == 80 - 6 - 2);
    outcome.gain = 12;
    assert_true(search_score(&config, &outcome) == 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_has_one),
        cmocka_unit_test(parameters_are_those_of_the_seeds),
        cmocka_unit_test(a_budget_is_used_and_not_exceeded),
        cmocka_unit_test(no_stage_meets_an_episode_again),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(random_schedules_follow_from_the_seed),
        cmocka_unit_test(the_better_half_goes_on),
        cmocka_unit_test(the_last_stage_tries_tempos),
        cmocka_unit_test(prices_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
