/* The exam: its plan for any task, what follows from outcomes, intervals, and verdicts on outcomes made by hand. */
#include "exam/policies.h"
#include "exam/score.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"
#include "base/tasks.h"
#include "exam/bootstrap.h"
#include "testing.h"

static struct exam_setup setup_of(const char *task, int seeds, int prices)
{
    struct exam_setup setup = {
        .seeds = seeds, .prices = prices, .price = {0, 0.5, 2}, .episodes = 40, .catalogue_episodes = 2};
    struct esper_error error = {0};
    config_defaults(&setup.config);
    assert_int_equal(config_load_task(&setup.config, task, &error), ESPER_OK);
    return setup;
}

static struct exam *exam_of(const struct exam_setup *setup)
{
    struct exam *exam = NULL;
    struct esper_error error = {0};
    if (exam_create(&exam, setup, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    return exam;
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static int index_of(const struct exam *exam, enum exam_kind kind, int price, int training, int place)
{
    const struct exam_part *part = exam_find(exam, kind, price, training, place);
    assert_non_null(part);
    return (int)(part - exam->parts);
}

static void every_run_comes_after_what_it_needs(void **state)
{
    (void)state;
    const struct exam_setup setup = setup_of("quickstart", 3, 2);
    struct exam *exam = exam_of(&setup);
    const int catalogue = index_of(exam, EXAM_CATALOGUE, -1, -1, -1);
    assert_int_equal(exam->parts[catalogue].config.group, exam->catalogue.count); /* one birth for all of them */
    assert_int_equal(exam_find(exam, EXAM_STATIC, -1, -1, -1)->config.group, 1);
    for (int i = 0; i < EXAM_SCHEDULES; i++)
        assert_true(index_of(exam, EXAM_SCHEDULE, -1, -1, i) > catalogue);
    for (int p = 0; p < 2; p++) {
        assert_true(index_of(exam, EXAM_SEARCHED, p, -1, -1) > index_of(exam, EXAM_SEARCH, p, -1, -1));
        assert_true(index_of(exam, EXAM_RATED, p, -1, -1) > index_of(exam, EXAM_PPO, p, 0, -1));
        for (int k = 0; k < 3; k++) {
            const int training = index_of(exam, EXAM_TRAINING, p, k, -1);
            assert_true(index_of(exam, EXAM_PPO, p, k, -1) > training);
            assert_true(index_of(exam, EXAM_GREEDY, p, k, -1) > training);
            assert_true(index_of(exam, EXAM_REPLAY, p, k, -1) > training);
            assert_true(index_of(exam, EXAM_WIDE_PARAMS, -1, -1, -1) > index_of(exam, EXAM_PPO, 0, k, -1));
        }
    }
    assert_int_equal(exam->count, 1 + 2 + 12 + 2 + 3 * 6 + 3 + 2 + 2 + 6);
    exam_free(exam);
}

/* Where training episodes draw their prices, one policy is judged at all of them. */
static void one_policy_serves_all_prices(void **state)
{
    (void)state;
    struct exam_setup setup = setup_of("quickstart", 2, 3);
    setup.config.reward.price = 2;
    setup.config.mixed.price_least = 0.02;
    setup.config.mixed.price_free = 0.1;
    struct exam *exam = exam_of(&setup);
    char trained[96];
    assert_int_equal(exam->count, 1 + 3 + 12 + 3 + 2 + 2 * 6 + 3 + 3 + 2 + 2);
    for (int i = 0; i < exam->count; i++) {
        const struct exam_part *part = &exam->parts[i];
        const bool training = part->kind == EXAM_TRAINING;
        assert_true(part->config.mixed.price_least == (training ? 0.02 : 1));
        assert_true(part->config.mixed.price_free == (training ? 0.1 : 0));
        assert_true(part->config.reward.price == (training ? 2 : part->price < 0 ? 0 : setup.price[part->price]));
        if (part->kind == EXAM_PPO || part->kind == EXAM_REPLAY) {
            const struct exam_part *behind = exam_training_of(exam, part);
            assert_true(behind->kind == EXAM_TRAINING && behind->training == part->training && behind < part);
        }
    }
    for (int p = 0; p < 3; p++)
        assert_true(exam->search[p]->config.mixed.price_least == 1);
    exam_trained(exam, trained, sizeof trained);
    assert_string_equal(trained, "2 times, for all prices at once (episodes draw 0.04 to 2, or nothing)");
    exam_free(exam);
}

/* On every task: names differ, configurations are valid, and all reported runs play the same episodes, which nothing
 * was trained or selected on. */
static void what_is_played_on_every_task(void **state)
{
    (void)state;
    struct esper_error error = {0};
    struct task *tasks;
    int count;
    assert_int_equal(task_list(&tasks, &count, &error), ESPER_OK);
    for (int t = 0; t < count; t++) {
        const struct exam_setup setup = setup_of(tasks[t].name, 2, 3);
        struct exam *exam = exam_of(&setup);
        assert_int_equal(exam->setup.episodes, 64); /* whole rounds of 32 */
        for (int i = 0; i < exam->count; i++) {
            const struct exam_part *part = &exam->parts[i];
            const struct config *config = &part->config;
            for (int j = 0; j < i; j++)
                assert_string_not_equal(part->name, exam->parts[j].name);
            assert_int_equal(config->reward.mode, REWARD_GAIN);
            assert_true(config->reward.price == (part->price < 0 ? 0 : setup.price[part->price]));
            assert_int_equal(config->evaluate, part->kind != EXAM_TRAINING && part->kind != EXAM_SEARCH);
            assert_int_equal(config->seed == setup.config.seed, exam_kind_reported(part->kind));
            if (exam_kind_reported(part->kind))
                assert_int_equal(config->envs * 1000 + config->rounds, 32002);
            if (part->kind == EXAM_TRAINING || part->kind == EXAM_STATIC)
                assert_int_equal(config_check(config, NULL), ESPER_OK);
        }
        exam_free(exam);
    }
    memory_free(tasks);
}

/* Policies that learned elsewhere: their trainings are not played, and each serves all prices. */
static void policies_of_another_task_are_examined(void **state)
{
    (void)state;
    struct exam_policies *policies = memory_alloc(1, sizeof *policies, NULL);
    struct exam_setup setup = setup_of("quick_mixed", 2, 2);
    policies->config = setup_of("quickstart", 1, 1).config;
    policies->count = 2;
    policies->policy[0] = (struct exam_policy){"training-s71", 71};
    policies->policy[1] = (struct exam_policy){"training-s72", 72};
    setup.policies = policies;
    struct exam *exam = exam_of(&setup);
    char trained[96];
    exam_trained(exam, trained, sizeof trained);
    assert_string_equal(trained, "2 times on quickstart, not on this task");
    for (int k = 0; k < 2; k++) {
        const struct exam_part *training = exam_find(exam, EXAM_TRAINING, -1, k, -1);
        assert_true(training->elsewhere && training->env_steps == 0);
        assert_string_equal(training->name, policies->policy[k].run);
        for (int p = 0; p < 2; p++) {
            const struct exam_part *ppo = exam_find(exam, EXAM_PPO, p, k, -1);
            assert_true(exam_training_of(exam, ppo) == training && !ppo->elsewhere);
            assert_string_equal(ppo->config.task, "quick_mixed");
            assert_true(ppo->config.reward.price == setup.price[p]);
        }
    }
    assert_string_equal(exam_find(exam, EXAM_PPO, 1, 1, -1)->name, "ppo-p0.5-s72");
    assert_false(exam_find(exam, EXAM_STATIC, -1, -1, -1)->elsewhere);
    exam_free(exam);
    memory_free(policies);
}

static void few_episodes_are_one_round(void **state)
{
    (void)state;
    struct exam_setup setup = setup_of("quickstart", 1, 1);
    setup.episodes = 5;
    struct exam *exam = exam_of(&setup);
    const struct config *config = &exam_find(exam, EXAM_STATIC, -1, -1, -1)->config;
    assert_int_equal(config->envs, 5);
    assert_int_equal(config->rounds, 1);
    exam_free(exam);
    setup.config.rounds = 1;
    setup.config.envs = 1;
    struct esper_error error = {0};
    assert_int_equal(exam_create(&exam, &setup, &error), ESPER_INVALID); /* no search in so few env-steps */
    assert_non_null(strstr(error.text, "the search, which has the env-steps of a training: "));
}

/* ---- outcomes by hand -------------------------------------------------------------------------------------------- */

static const long long bare_params = 6418;

static struct outcome_record outcome(int round, int env, double test, long long added)
{
    return (struct outcome_record){.round = EVALUATION_ROUND + round,
                                   .env = env,
                                   .test_accuracy = test,
                                   .val_accuracy = test + 1,
                                   .twin_accuracy = 51,
                                   .host_params = bare_params,
                                   .added_params = added,
                                   .forward_macs = 1e6,
                                   .train_work = 1 + (double)added / 10000,
                                   .fossilized = added > 0};
}

/* What a birth is worth, whoever plays it: the luck that pairs share. */
static double luck(int i)
{
    return 6.0 * ((i * 7) % 11) / 10 - 3;
}

static double score_of(const struct exam_part *part, long long *added)
{
    *added = 0;
    switch (part->kind) {
    case EXAM_PPO:
        *added = 10000;
        return 62 + part->training * 0.5; /* 62, 62.5, 63 */
    case EXAM_SCHEDULE:
        *added = 4000;
        return 60;
    case EXAM_SEARCHED:
        *added = 12000;
        return 62.4;
    case EXAM_REPLAY:
        *added = 10000;
        return 66 + part->training * 0.5;
    default:
        return 50;
    }
}

static void fill_part(struct exam *exam, struct exam_part *part)
{
    const int envs = part->config.envs, count = envs * part->config.rounds;
    struct outcome_record *outcomes = memory_alloc((size_t)count, sizeof *outcomes, NULL);
    for (int i = 0; i < count; i++) {
        long long added;
        double score = score_of(part, &added);
        if (part->kind == EXAM_CATALOGUE) { /* by what a schedule adds: more is better up to a point */
            added = schedule_params(&exam->catalogue.schedule[i % envs], &exam->setup.config);
            score = 50 + 10 * (1 - exp(-(double)added / 3000)) - luck(i);
        }
        outcomes[i] = outcome(i / envs, i % envs, score + luck(i), added);
    }
    assert_int_equal(exam_take(part, outcomes, count, 7, NULL), ESPER_OK);
    memory_free(outcomes);
}

static struct exam *play(const struct exam_setup *setup)
{
    struct exam *exam = exam_of(setup);
    for (int i = 0; i < exam->count; i++) {
        struct exam_part *part = &exam->parts[i];
        if (part->kind == EXAM_WIDE_PARAMS || part->kind == EXAM_WIDE_WORK)
            exam_widen_host(exam, part);
        if (part->kind != EXAM_SEARCH && !part->left_out)
            fill_part(exam, part);
        if (part->kind == EXAM_CATALOGUE)
            exam_choose_schedules(exam);
        if (part->kind == EXAM_SEARCH)
            exam_take_winner(exam, part->price);
    }
    return exam;
}

static struct exam *played(int seeds, int prices)
{
    const struct exam_setup setup = setup_of("cifar_baseline", seeds, prices);
    return play(&setup);
}

static void schedules_are_chosen_by_price_and_front(void **state)
{
    (void)state;
    struct exam *exam = played(2, 3);
    long long most = -1;
    bool none = false;
    int left_out = 0;
    for (int i = 0; i < EXAM_SCHEDULES; i++) {
        const struct exam_part *part = exam_find(exam, EXAM_SCHEDULE, -1, -1, i);
        const long long params = schedule_params(&part->schedule, &exam->setup.config);
        left_out += part->left_out;
        none = none || (!part->left_out && part->schedule.count == 0);
        if (!part->left_out && params > most)
            most = params;
        for (int j = 0; j < i && !part->left_out; j++)
            assert_false(schedule_equal(&part->schedule, &exam_find(exam, EXAM_SCHEDULE, -1, -1, j)->schedule));
    }
    /* here every larger schedule is better, so the front is long, and its best are its largest */
    assert_int_equal(left_out, 0);
    assert_false(none);
    assert_int_equal(most, 24416);
    /* at price 0 the largest is best; at 0.5 the gain 10 (1 - exp(-n / 3000)) - n / 2000 peaks at 3000 log(20/3) */
    const struct exam_part *free = exam_find(exam, EXAM_SCHEDULE, -1, -1, exam->best[0]);
    const struct exam_part *priced = exam_find(exam, EXAM_SCHEDULE, -1, -1, exam->best[1]);
    assert_int_equal(schedule_params(&free->schedule, &exam->setup.config), 24416);
    assert_in_range(schedule_params(&priced->schedule, &exam->setup.config), 4000, 8000);
    assert_true(exam->best[0] != exam->best[1]);
    exam_free(exam);
}

static void wider_hosts_reach_what_ppo_came_to(void **state)
{
    (void)state;
    struct exam *exam = played(2, 1);
    const struct exam_part *params = exam_find(exam, EXAM_WIDE_PARAMS, -1, -1, -1);
    const struct exam_part *work = exam_find(exam, EXAM_WIDE_WORK, -1, -1, -1);
    struct config smaller = params->config;
    assert_true(exam_host_params(&params->config) >= bare_params + 10000);
    smaller.host_base--;
    assert_true(exam_host_params(&smaller) < bare_params + 10000);
    assert_true(exam_host_work(&work->config, &exam->setup.config) >= 2);
    smaller = work->config;
    smaller.host_base--;
    assert_true(exam_host_work(&smaller, &exam->setup.config) < 2);
    assert_false(params->widest || work->widest);
    /* more than any host has: the widest, and it says so */
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 64; i++)
            exam_find(exam, EXAM_PPO, 0, k, -1)->outcomes[i].added_params = 1000000000;
    exam_widen_host(exam, exam_find(exam, EXAM_WIDE_PARAMS, -1, -1, -1));
    assert_true(params->widest);
    assert_int_equal(params->config.host_base, 128); /* 512 channels in the third block */
    exam_free(exam);
}

static void a_training_that_grew_nothing_leaves_the_bare_host(void **state)
{
    (void)state;
    struct exam *exam = played(1, 1);
    struct exam_part *training = exam_find(exam, EXAM_TRAINING, 0, 0, -1);
    struct exam_part *replay = exam_find(exam, EXAM_REPLAY, 0, 0, -1);
    exam_replay_training(exam, replay);
    assert_int_equal(replay->config.policy.kind, POLICY_STATIC);
    training->outcomes[5].val_accuracy = 90; /* the best so far, and grown */
    training->outcomes[5].fossilized = 1;
    exam_replay_training(exam, replay);
    assert_int_equal(replay->config.policy.kind, POLICY_REPLAY);
    training->outcomes[9].val_accuracy = 95; /* better, but never measured: the run does not keep it */
    training->outcomes[9].val_loss = NAN;
    exam_replay_training(exam, replay);
    assert_int_equal(replay->config.policy.kind, POLICY_REPLAY);
    training->outcomes[9].val_loss = 1;
    exam_replay_training(exam, replay);
    assert_int_equal(replay->config.policy.kind, POLICY_STATIC);
    exam_free(exam);
}

/* ---- verdicts ---------------------------------------------------------------------------------------------------- */

static const struct exam_verdict *verdict_on(const struct exam_result *result, enum exam_claim claim, int price)
{
    for (int i = 0; i < result->verdicts; i++)
        if (result->verdict[i].claim == claim && result->verdict[i].price == price)
            return &result->verdict[i];
    fail();
    return NULL;
}

static struct exam_result *judged(const struct exam *exam)
{
    struct exam_result *result = NULL;
    struct esper_error error = {0};
    if (exam_judge(exam, &result, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    return result;
}

static void assert_difference(const struct exam_verdict *verdict, double mean, enum exam_finding finding)
{
    if (fabs(verdict->difference.mean - mean) > 1e-9 || verdict->finding != finding)
        fail_msg("%s at price %d: %g [%g, %g], %s", exam_claim_name(verdict->claim), verdict->price,
                 verdict->difference.mean, verdict->difference.low, verdict->difference.high,
                 exam_finding_title(verdict->finding));
}

/* PPO scores 62, 62.5 and 63 with 10 000 parameters; luck is +-3 points a birth, the same for all who play it. */
static void verdicts_follow_from_the_whole_interval(void **state)
{
    (void)state;
    struct exam *exam = played(3, 2);
    struct exam_result *result = judged(exam);
    assert_int_equal(result->verdicts, 2 * CLAIMS_AT_A_PRICE);
    assert_difference(verdict_on(result, CLAIM_GROWTH, 0), 12.5, FINDING_EARNS);
    assert_difference(verdict_on(result, CLAIM_SCHEDULE, 0), 2.5, FINDING_EARNS);
    assert_difference(verdict_on(result, CLAIM_SEARCH, 0), 0.1, FINDING_UNDECIDED);
    assert_difference(verdict_on(result, CLAIM_REPLAY, 0), -4, FINDING_FAILS);
    assert_true(verdict_on(result, CLAIM_REPLAY, 0)->paired);
    assert_false(verdict_on(result, CLAIM_WIDE_PARAMS, 0)->paired);
    /* paired differences have no luck in them: they vary as the trainings do */
    const struct interval *search = &verdict_on(result, CLAIM_SEARCH, 0)->difference;
    assert_true(fabs(search->low - -0.4) < 1e-9 && fabs(search->high - 0.6) < 1e-9);
    /* a replay has its own training's luck as well: no spread is left */
    assert_true(fabs(verdict_on(result, CLAIM_REPLAY, 0)->difference.high - -4) < 1e-9);
    /* at half a point per 1000 parameters PPO pays 5, a schedule 2, the searched one 6 */
    assert_difference(verdict_on(result, CLAIM_GROWTH, 1), 7.5, FINDING_EARNS);
    assert_difference(verdict_on(result, CLAIM_SCHEDULE, 1), -0.5, FINDING_UNDECIDED); /* up to 0, not below */
    assert_difference(verdict_on(result, CLAIM_SEARCH, 1), 1.1, FINDING_EARNS);
    exam_result_free(result);
    exam_free(exam);
}

/* A training for all prices is also held against one schedule for all. */
static void one_policy_is_compared_with_one_schedule(void **state)
{
    (void)state;
    struct exam_setup setup = setup_of("cifar_baseline", 3, 2);
    setup.config.reward.price = 2;
    setup.config.mixed.price_least = 0.02;
    struct exam *exam = play(&setup);
    const struct exam_part *best = exam_find(exam, EXAM_SCHEDULE, -1, -1, exam->best_of_all);
    /* at 0.25, the mean price, 10 (1 - exp(-n / 3000)) - n / 4000 peaks at 3000 log(40/3) */
    assert_in_range(schedule_params(&best->schedule, &exam->setup.config), 6000, 10000);
    const struct exam_part *searched = exam_find(exam, EXAM_SEARCHED, 1, -1, -1);
    for (int i = 0; i < searched->count; i++)
        searched->outcomes[i].test_accuracy += 0.2;
    struct exam_result *result = judged(exam);
    const struct exam_verdict *verdict = verdict_on(result, CLAIM_ONE_SCHEDULE, -1), *last = verdict + 1;
    assert_int_equal(result->verdicts, 2 * CLAIMS_AT_A_PRICE + 2);
    assert_true(last == &result->verdict[result->verdicts - 1] && last->claim == CLAIM_ONE_SEARCHED);
    assert_true(verdict->against->part[0] == best && verdict->paired);
    /* PPO's 62.5 minus 5 at the second price; the schedule's 60 minus 2 */
    double chance = 0;
    for (int i = 0; i < 64; i++)
        chance += luck(i) / 64;
    assert_true(fabs(verdict->ppo - chance - 60) < 1e-9 && fabs(verdict->other - chance - 59) < 1e-9);
    assert_difference(verdict, 1, FINDING_EARNS);
    /* of the searched ones the better: 62.4 + 0.2 minus 6 at the second price */
    assert_true(last->against->part[0] == searched && last->paired);
    assert_difference(last, 0.4, FINDING_UNDECIDED);
    exam_result_free(result);
    exam_free(exam);
}

static void one_training_decides_nothing(void **state)
{
    (void)state;
    struct exam *exam = played(1, 1);
    struct exam_result *result = judged(exam);
    for (int i = 0; i < result->verdicts; i++) {
        assert_int_equal(result->verdict[i].finding, FINDING_UNDECIDED);
        assert_true(isnan(result->verdict[i].difference.low));
    }
    assert_true(isnan(result->ppo[0].net.low));
    exam_result_free(result);
    exam_free(exam);
}

static const struct exam_entry *entry_of(const struct exam_result *result, enum exam_kind kind)
{
    for (int i = 0; i < result->entries; i++)
        if (result->entry[i].kind == kind)
            return &result->entry[i];
    fail();
    return NULL;
}

static void entries_have_every_figure(void **state)
{
    (void)state;
    struct exam *exam = played(3, 2);
    struct exam_result *result = judged(exam);
    double mean_luck = 0;
    for (int i = 0; i < 64; i++)
        mean_luck += luck(i) / 64;
    for (int i = 1; i < result->entries; i++)
        assert_true(result->entry[i - 1].test.mean >= result->entry[i].test.mean);
    const struct exam_entry *ppo = entry_of(result, EXAM_PPO), *wide = entry_of(result, EXAM_WIDE_PARAMS);
    assert_int_equal(ppo->runs, 3);
    assert_true(fabs(ppo->test.mean - (62.5 + mean_luck)) < 1e-9);
    /* over trainings alone: from three times the worst to three times the best */
    assert_true(fabs(ppo->test.low - (62 + mean_luck)) < 1e-9 && fabs(ppo->test.high - (63 + mean_luck)) < 1e-9);
    assert_true(fabs(ppo->gain - (62.5 + mean_luck + 1 - 51)) < 1e-9);
    assert_true(ppo->added == 10000 && ppo->params == 16418 && fabs(ppo->work - 2) < 1e-9 && ppo->seconds == 7);
    assert_true(fabs(ppo->net[1] - (57.5 + mean_luck)) < 1e-9);
    assert_true(isnan(wide->gain) && isnan(wide->seconds));
    assert_true(isfinite(entry_of(result, EXAM_STATIC)->test.low)); /* over episodes */

    const struct exam_ppo *about = &result->ppo[0];
    assert_true(fabs(about->of_seed[2] - (63 + mean_luck)) < 1e-9);
    assert_int_equal(about->best->kind, EXAM_SEARCHED);
    assert_true(fabs(about->regret - -0.1) < 1e-9);
    assert_true(about->near_bare == 0);
    assert_true(result->rank_correlation > 0.99);
    exam_result_free(result);

    /* four of PPO's 192 episodes end where the bare host does */
    for (int i = 0; i < 4; i++)
        exam_find(exam, EXAM_PPO, 0, 1, -1)->outcomes[i].test_accuracy = 50;
    result = judged(exam);
    assert_true(fabs(result->ppo[0].near_bare - 4.0 / 192) < 1e-12);
    exam_result_free(result);

    struct esper_error error = {0};
    exam_find(exam, EXAM_PPO, 0, 1, -1)->count--;
    assert_int_equal(exam_judge(exam, &result, &error), ESPER_INVALID);
    assert_non_null(strstr(error.text, "ppo-p0-s44: its record lacks episodes"));
    exam_free(exam);
}

/* A wider host's cost is that of its parameters beyond the task's host, and its work is in that host's. */
static void the_net_score_charges_for_what_is_beyond_the_bare_host(void **state)
{
    (void)state;
    struct reward_config reward = {.flop_price = 0};
    struct outcome_record grown = outcome(0, 0, 60, 2000), wide = outcome(0, 0, 60, 0);
    assert_true(exam_net_score(&reward, 0, bare_params, 1, &grown) == 60);
    assert_true(exam_net_score(&reward, 0.5, bare_params, 1, &grown) == 59);
    wide.host_params += 4000;
    assert_true(exam_net_score(&reward, 0.5, bare_params, 3, &wide) == 58);
    assert_true(exam_objective(&reward, 0.5, &grown) == 61 - 51 - 1);
    reward.flop_price = 0.25;
    assert_true(exam_net_score(&reward, 0.5, bare_params, 3, &wide) == 57.5);
    assert_true(fabs(exam_objective(&reward, 0.5, &grown) - (9 - 0.25 * 0.2)) < 1e-12);
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

static struct interval interval_of(const struct score_table *a, const struct score_table *b, uint64_t seed)
{
    struct interval interval;
    assert_int_equal(bootstrap(a, b, seed, &interval, NULL), ESPER_OK);
    return interval;
}

static void the_same_table_has_the_same_interval(void **state)
{
    (void)state;
    double values[5 * 64];
    for (int i = 0; i < 5 * 64; i++)
        values[i] = sin(i * 1.7);
    const struct score_table table = {values, 5, 64, false}, rows = {values, 5, 64, true}, one = {values, 1, 1, false};
    struct interval first = interval_of(&table, NULL, 1), again = interval_of(&table, NULL, 1);
    assert_memory_equal(&first, &again, sizeof first);
    again = interval_of(&table, NULL, 2);
    assert_true(again.low != first.low && fabs(again.low - first.low) < 0.02);
    assert_true(first.low < first.mean && first.mean < first.high);
    assert_true(interval_of(&rows, NULL, 1).high < first.high); /* fewer things vary */
    assert_true(isnan(interval_of(&one, NULL, 1).low));
    again = interval_of(&table, &rows, 1);
    assert_true(again.mean == 0 && again.low < 0 && again.high > 0);
}

/* Of tables whose mean is known to be 0, 95 % of the intervals should hold it; with 20 columns somewhat fewer do. */
static void intervals_cover(void **state)
{
    (void)state;
    enum { TABLES = 80, COLUMNS = 20 };
    int held = 0;
    for (uint32_t t = 0; t < TABLES; t++) {
        double values[COLUMNS];
        for (uint32_t i = 0; i < COLUMNS; i++)
            values[i] = (double)random_symmetric(random_word(random_at(7, STREAM_SEARCH, 0, t, 0), i), 1);
        const struct score_table table = {values, 1, COLUMNS, false};
        struct interval interval = interval_of(&table, NULL, t);
        held += interval.low <= 0 && interval.high >= 0;
    }
    assert_in_range(held, 70, 79);
}

static void known_figures(void **state)
{
    (void)state;
    double eight[] = {100, 3, 5, 4, -50, 6, 2, 7}, six[] = {0, 1, 2, 3, 4, 50}, equal[] = {1, 1, 1};
    assert_true(fabs(interquartile_mean(eight, 8) - 4.5) < 1e-12); /* 3, 4, 5, 6 */
    assert_true(fabs(interquartile_mean(six, 6) - 2.5) < 1e-12);   /* half of 1, 2, 3, half of 4 */
    assert_true(isnan(interquartile_mean(six, 0)));

    const double x[] = {1, 2, 3, 4}, y[] = {10, 20, 15, 1000}, down[] = {4, 3, 2, 1}, tied[] = {1, 2, 2, 3};
    double rho;
    assert_int_equal(rank_correlation(x, y, 4, &rho, NULL), ESPER_OK);
    assert_true(fabs(rho - 0.8) < 1e-12);
    assert_int_equal(rank_correlation(x, down, 4, &rho, NULL), ESPER_OK);
    assert_true(fabs(rho - -1) < 1e-12);
    assert_int_equal(rank_correlation(x, tied, 4, &rho, NULL), ESPER_OK);
    assert_true(fabs(rho - 4.5 / sqrt(5 * 4.5)) < 1e-12);
    assert_int_equal(rank_correlation(x, equal, 3, &rho, NULL), ESPER_OK);
    assert_true(isnan(rho));

    const double cost[] = {1, 2, 2, 3, 4}, score[] = {5, 4, 6, 6, 9};
    const bool front[] = {true, false, true, false, true};
    for (int i = 0; i < 5; i++)
        assert_int_equal(on_front(cost, score, 5, i), front[i]);

    struct interval above = {3, 1, 0.1, 2}, below = {3, -1, -2, -0.1}, across = {3, 1, -0.1, 2};
    struct interval none = {1, 1, NAN, NAN}, touching = {3, 1, 0, 2};
    assert_int_equal(exam_finding_of(&above), FINDING_EARNS);
    assert_int_equal(exam_finding_of(&below), FINDING_FAILS);
    assert_int_equal(exam_finding_of(&across), FINDING_UNDECIDED);
    assert_int_equal(exam_finding_of(&none), FINDING_UNDECIDED);
    assert_int_equal(exam_finding_of(&touching), FINDING_UNDECIDED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_run_comes_after_what_it_needs),
        cmocka_unit_test(what_is_played_on_every_task),
        cmocka_unit_test(one_policy_serves_all_prices),
        cmocka_unit_test(policies_of_another_task_are_examined),
        cmocka_unit_test(few_episodes_are_one_round),
        cmocka_unit_test(schedules_are_chosen_by_price_and_front),
        cmocka_unit_test(wider_hosts_reach_what_ppo_came_to),
        cmocka_unit_test(a_training_that_grew_nothing_leaves_the_bare_host),
        cmocka_unit_test(verdicts_follow_from_the_whole_interval),
        cmocka_unit_test(one_policy_is_compared_with_one_schedule),
        cmocka_unit_test(one_training_decides_nothing),
        cmocka_unit_test(entries_have_every_figure),
        cmocka_unit_test(the_net_score_charges_for_what_is_beyond_the_bare_host),
        cmocka_unit_test(the_same_table_has_the_same_interval),
        cmocka_unit_test(intervals_cover),
        cmocka_unit_test(known_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
