/* Lessons: which schedules are tried, what is found out of them, and a policy that learns to act like the best. */
#include "search/lessons.h"

#include <math.h>

#include "base/normal.h"
#include "testing_engine.h"

/* ---- what is tried ----------------------------------------------------------------------------------------------- */

enum { ARMS = 12, ENVS = 8, PLAYS = 240 };

struct course {
    struct belief belief;
    struct schedule schedule[ARMS];
    uint16_t tried[PLAYS];
    double earned[PLAYS], cost[PLAYS];
    int plays;
};

/* Arms that have nothing in common: one slot, and another step each. */
static void begin_at(struct course *course, int tempos)
{
    *course = (struct course){0};
    assert_int_equal(belief_create(&course->belief, ARMS, tempos, NULL), ESPER_OK);
    for (int arm = 0; arm < ARMS; arm++)
        schedule_add(&course->schedule[arm], 0, 1, 1 + arm);
}

static void begin(struct course *course)
{
    begin_at(course, 1);
}

static void end(struct course *course)
{
    belief_free(&course->belief);
}

/* An episode of the round in progress: `arm` ARMS times the tempos, it failed. */
static void judge(struct course *course, int arm, double earned, double cost)
{
    course->tried[course->plays] = (uint16_t)arm;
    course->earned[course->plays] = earned;
    course->cost[course->plays++] = cost;
}

static void believe(struct course *course, int envs)
{
    const struct played played = {.count = ARMS,
                                  .tempos = course->belief.tempos,
                                  .slots = 1,
                                  .schedule = course->schedule,
                                  .rounds = course->plays / envs,
                                  .envs = envs,
                                  .brood = envs,
                                  .tried = course->tried,
                                  .earned = course->earned,
                                  .cost = course->cost};
    belief_form(&course->belief, &played);
}

static struct random_site site_of(uint64_t seed, uint64_t number)
{
    return random_at(seed, STREAM_LESSON, (uint32_t)(number / ENVS), (uint32_t)(number % ENVS), 0);
}

static double normal_at(uint64_t seed, uint64_t number, uint32_t which)
{
    const struct random_site site = random_at(seed, STREAM_SEARCH, (uint32_t)number, which, 0);
    return normals_of(random_word(site, 0), random_word(site, 1)).first;
}

/* What an episode of an arm earns: arm 7 is the best by half of an episode's deviation, tempo 1 by nearly as much, and
 * rounds differ by more. */
static double earned(int tried, uint64_t seed, uint64_t number)
{
    const int arm = tried % ARMS;
    return (arm == 7  ? 44
            : arm < 7 ? 40.5
                      : 20) +
           (tried / ARMS == 1 ? 3 : 0) + 7 * normal_at(seed, number, 0) + 30 * normal_at(seed, number / ENVS, 1);
}

static void play(struct course *course, uint64_t seed)
{
    int tried[ENVS];
    for (uint64_t first = 0; first < PLAYS; first += ENVS) { /* a round's outcomes come together */
        believe(course, ENVS);
        for (int env = 0; env < ENVS; env++)
            tried[env] = lessons_try(&course->belief, first + (uint64_t)env, 1, site_of(seed, first + (uint64_t)env));
        for (int env = 0; env < ENVS; env++)
            judge(course, tried[env], earned(tried[env], seed, first + (uint64_t)env), 0);
    }
    believe(course, ENVS);
}

static void each_is_tried_once_first(void **state)
{
    (void)state;
    struct course course;
    begin(&course);
    for (uint64_t number = 0; number < ARMS; number++)
        assert_int_equal(lessons_try(&course.belief, number, 1, site_of(1, number)), number);
    for (int arm = 0; arm < ARMS; arm++)
        judge(&course, arm == 3 ? ARMS : arm, arm, 0);
    believe(&course, ARMS);
    assert_int_equal(course.belief.plays[3], 0); /* nothing is known of it */
    for (uint64_t number = ARMS; number < 1000; number++)
        assert_int_not_equal(lessons_try(&course.belief, number, 1, site_of(1, number)), 3);
    end(&course);
}

/* A lucky episode is not enough: the best is the best for certain. */
static void the_best_is_sure(void **state)
{
    (void)state;
    struct course course;
    begin(&course);
    for (int round = 0; round < 10; round++) {
        judge(&course, 4, round % 2 ? 46 : 54, 0);
        judge(&course, round == 0 ? 5 : 6, round == 0 ? 54 : 20 + round % 3, 0);
        judge(&course, 8, 30 + round % 2, 0);
    }
    believe(&course, 3);
    assert_true(course.belief.mean[5] > course.belief.mean[4]);
    assert_int_equal(lessons_best(&course.belief, 1), 4);
    end(&course);
}

/* Episodes at any price say what is best at every price. */
static void a_price_decides_what_is_best(void **state)
{
    (void)state;
    struct course course;
    begin(&course);
    for (int round = 0; round < 8; round++) { /* arm 1 earns 50 and costs 30, arm 2 earns 35 and costs 4 */
        judge(&course, 1, 50 + round % 2, 30);
        judge(&course, 2, 35 + round % 2, 4);
        judge(&course, 3, 10 + round % 3, 0);
    }
    believe(&course, 3);
    assert_int_equal(lessons_best(&course.belief, 0), 1);
    assert_int_equal(lessons_best(&course.belief, 0.5), 1); /* 35 and 33 */
    assert_int_equal(lessons_best(&course.belief, 0.7), 2); /* 29 and 32.2 */
    for (uint64_t number = ARMS; number < 100; number++) {  /* every other env tries the second best */
        const int first = number % 2 == 0 ? 1 : 2;
        assert_int_equal(lessons_try(&course.belief, number, 0, site_of(1, number)), first);
        assert_int_equal(lessons_try(&course.belief, number, 1, site_of(1, number)), 3 - first);
    }
    end(&course);
}

/* Over many courses: most plays go to what is good, and the best that is recited is hardly worse than the best there
 * is, though rounds differ by four times as much as episodes. */
static void the_better_ones_are_tried_more(void **state)
{
    (void)state;
    enum { COURSES = 60 };
    int found = 0;
    double bad = 0;
    for (uint64_t seed = 0; seed < COURSES; seed++) {
        struct course course;
        begin(&course);
        play(&course, seed);
        found += lessons_best(&course.belief, 1) == 7;
        for (int arm = 8; arm < ARMS; arm++)
            bad += course.belief.plays[arm];
        end(&course);
    }
    assert_true(bad / COURSES < 4 * 3); /* each of the four hardly more than once or twice */
    assert_true(found >= COURSES * 3 / 4);
}

/* The same with tempos, of which one is better. */
static void the_better_tempo_is_found(void **state)
{
    (void)state;
    enum { COURSES = 60, TEMPOS = 3 };
    int found = 0, both = 0, plays = 0;
    for (uint64_t seed = 0; seed < COURSES; seed++) {
        struct course course;
        begin_at(&course, TEMPOS);
        assert_int_equal(lessons_try(&course.belief, 4, 1, site_of(1, 4)), 4 + 4 % TEMPOS * ARMS);
        play(&course, seed);
        const int best = lessons_best(&course.belief, 1);
        found += best / ARMS == 1;
        both += best == 7 + ARMS;
        plays += (int)course.belief.plays[ARMS + 1];
        end(&course);
    }
    assert_true(found >= COURSES * 3 / 4 && both >= COURSES / 2);
    assert_true(plays > COURSES * PLAYS / 2);
}

/* ---- a training with lessons ------------------------------------------------------------------------------------- */

enum { TRIES = 3, RECITALS = 6, RECITERS = 2, STEPS = 24 };

static struct config lesson_config(int threads)
{
    struct config config = small_config(ENVS, threads, 1);
    config.steps = STEPS;
    config.policy.feature_dim = 24;
    config.policy.hidden = 16;
    config.ppo.lr = 0.01;
    config.ppo.entropy_coef = 0;
    config.lesson.tries = TRIES;
    config.lesson.recitals = RECITALS;
    config.lesson.reciters = RECITERS;
    return config;
}

static void play_steps(struct engine *engine)
{
    for (int step = 0; step < STEPS; step++) {
        engine_train(engine);
        engine_evaluate(engine);
        engine_decide(engine);
        engine_apply(engine);
    }
}

static void finish_round(struct engine *engine)
{
    struct outcome_record outcomes[ENVS];
    struct update_report record;
    struct head_report heads[HEAD_COUNT];
    engine_finish(engine, outcomes);
    engine_update(engine, 0, &record, heads);
    engine_reset(engine, *engine_world(engine)->round + 1);
}

/* Steps of the round in which an env's action was not the schedule's. */
static int strays(const struct world *world, const struct schedule *schedule, int env)
{
    int count = 0, planted = 0;
    for (int step = 0; step < STEPS; step++) {
        const size_t row = (size_t)step * ENVS + (size_t)env;
        const uint8_t *choice = world->rollout.choice + row * HEAD_COUNT;
        if (choice[HEAD_OP] == OP_GERMINATE) {
            const struct planting *due = &schedule->planting[planted];
            count += planted >= schedule->count || choice[HEAD_SLOT] != due->slot ||
                     choice[HEAD_BLUEPRINT] != due->blueprint || choice[HEAD_STYLE] != due->style;
            planted++;
        } else {
            count += choice[HEAD_OP] != OP_WAIT && choice[HEAD_OP] != OP_FOSSILIZE;
        }
    }
    return count + (schedule->count > 0 && planted == 0);
}

static int flagged(const struct world *world, uint8_t flags)
{
    int count = 0;
    for (size_t row = 0; row < (size_t)STEPS * ENVS; row++)
        count += (world->rollout.flags[row] & flags) == flags;
    return count;
}

/* Schedules in their order, tempos in turn. */
static int first_try(const struct catalogue *catalogue, int number)
{
    return number + number % TEMPO_COUNT * catalogue->count;
}

static void envs_try_recite_and_are_followed(void **state)
{
    (void)state;
    const struct config config = lesson_config(2);
    struct catalogue catalogue = {0};
    struct schedule all[LESSONS_MAX];
    struct engine *engine = start(&config);
    struct world *world = engine_world(engine);
    catalogue_make(&catalogue, &config);
    lessons_fill(all, &catalogue);

    int last[ENVS];
    for (int round = 0; round < TRIES + RECITALS; round++) {
        for (int env = 0; env < ENVS; env++)
            last[env] = world->lesson_schedule[env];
        play_steps(engine); /* the next round clears its rows */
        assert_int_equal(flagged(world, ROW_SHOWN), STEPS * ENVS);
        if (round < TRIES)
            assert_int_equal(flagged(world, ROW_SHOWN | ROW_FORCED), STEPS * ENVS);
        else
            assert_true(flagged(world, ROW_FORCED) < STEPS * ENVS / 2);
        for (int env = 0; env < ENVS; env++) {
            assert_int_equal(strays(world, &all[last[env]], env), 0);
            if (round < TRIES)
                assert_int_equal(last[env], first_try(&catalogue, round * ENVS + env)); /* 24 of 56 */
            else
                assert_int_equal(last[env], last[0]);
        }
        finish_round(engine);
    }
    for (int i = 0; i < TRIES * ENVS; i++)
        assert_int_equal(world->lesson_tried[i], first_try(&catalogue, i));

    /* Now the policy acts in all envs but two, and nearly always as it was shown. */
    const struct schedule *best = &all[last[0]];
    int off = 0;
    play_steps(engine);
    assert_int_equal(flagged(world, ROW_SHOWN), RECITERS * STEPS);
    for (int env = 0; env < ENVS; env++) {
        const int strayed = strays(world, best, env);
        assert_true(env >= RECITERS || strayed == 0);
        off += strayed;
    }
    assert_true(off <= ENVS * STEPS / 20);
    engine_free(engine);
}

/* While schedules are tried, all envs have one birth; after that each has its own. */
static void tries_share_their_birth(void **state)
{
    (void)state;
    const struct config config = lesson_config(1);
    struct engine *engine = start(&config);
    const struct world *world = engine_world(engine);
    const size_t width = (size_t)world->shape.host.storage, bytes = width * sizeof(float);
    for (int round = 0; round <= TRIES; round++) {
        for (int env = 1; env < ENVS; env++) {
            assert_int_equal(world_birth(world, env), round < TRIES ? 0 : env);
            assert_int_equal(memcmp(world->host, world->host + (size_t)env * width, bytes) == 0, round < TRIES);
        }
        play_steps(engine);
        finish_round(engine);
    }
    engine_free(engine);
}

/* Many envs try schedules in broods of whole groups; after that, and in evaluations, only groups share. */
static void broods_are_whole_groups(void **state)
{
    (void)state;
    const struct {
        int group;
        uint32_t env, first, later;
    } cases[] = {{1, 15, 0, 15}, {1, 63, 48, 63}, {4, 17, 16, 16}, {3, 14, 0, 12}, {3, 16, 15, 15}, {20, 39, 20, 20}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config config = lesson_config(1);
        config.group = cases[i].group;
        const struct births births = births_of(&config);
        assert_int_equal(births_first(births, TRIES - 1, cases[i].env), cases[i].first);
        assert_int_equal(births_first(births, TRIES, cases[i].env), cases[i].later);
        config.evaluate = true;
        assert_int_equal(births_first(births_of(&config), 0, cases[i].env), cases[i].later);
    }
}

static void lessons_have_the_same_bits_everywhere(void **state)
{
    (void)state;
    const struct config one = lesson_config(1), two = lesson_config(2);
    struct engine *a = start(&one), *b = start(&two);
    for (int round = 0; round < TRIES + 2; round++) {
        play_steps(a);
        play_steps(b);
        finish_round(a);
        finish_round(b);
    }
    assert_int_equal(hash_of(a), hash_of(b));
    engine_free(a);
    engine_free(b);
}

static void refused(struct config *config, const char *why, int tries)
{
    struct esper_error error = {0};
    config->lesson.tries = tries;
    assert_int_equal(config_check(config, &error), ESPER_INVALID);
    assert_non_null(strstr(error.text, why));
}

/* Without lessons, and in evaluations, nothing is kept of them. */
static void others_have_no_lessons(void **state)
{
    (void)state;
    struct config config = lesson_config(1);
    config.evaluate = true;
    struct engine *engine = start(&config);
    assert_null(engine_world(engine)->lesson_schedule);
    engine_free(engine);
    config.evaluate = false;
    refused(&config, "lesson.recitals = 6: nothing was tried", 0);
    config.lesson.recitals = 0;
    refused(&config, "lesson.reciters = 2: nothing was tried", 0);
    config.lesson.reciters = ENVS;
    refused(&config, "lesson.reciters = 8: of 8 envs", TRIES);
    config.lesson.reciters = 0;
    config.envs = 1;
    refused(&config, "lesson.tries = 3: schedules are compared within a round, and envs is 1", TRIES);
    config.envs = ENVS;
    config.lesson.tries = 0;
    engine = start(&config);
    assert_null(engine_world(engine)->lesson_schedule);
    engine_free(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_tried_once_first),
        cmocka_unit_test(the_best_is_sure),
        cmocka_unit_test(a_price_decides_what_is_best),
        cmocka_unit_test(the_better_ones_are_tried_more),
        cmocka_unit_test(the_better_tempo_is_found),
        cmocka_unit_test(envs_try_recite_and_are_followed),
        cmocka_unit_test(tries_share_their_birth),
        cmocka_unit_test(broods_are_whole_groups),
        cmocka_unit_test(lessons_have_the_same_bits_everywhere),
        cmocka_unit_test(others_have_no_lessons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
