/* What is believed of schedules after some episodes of each (search/belief.h). */
#include "search/belief.h"

#include <math.h>

#include "base/normal.h"
#include "base/philox.h"
#include "testing.h"

enum { SIDE = 3, GRID = SIDE * SIDE };

struct trial {
    struct belief belief;
    struct schedule schedule[GRID];
    uint32_t plays[GRID];
    double mean[GRID], square[GRID];
};

/* Every pair of one of three blueprints in slot 0 and one of three in slot 1. */
static void begin(struct trial *trial)
{
    *trial = (struct trial){0};
    assert_int_equal(belief_create(&trial->belief, GRID, NULL), ESPER_OK);
    for (int i = 0; i < GRID; i++) {
        schedule_add(&trial->schedule[i], 0, 1 + i / SIDE, 1);
        schedule_add(&trial->schedule[i], 1, 1 + i % SIDE, 1);
    }
}

static void form(struct trial *trial, int count, int slots)
{
    const struct played played = {count, slots, trial->schedule, trial->plays, trial->mean, trial->square};
    trial->belief.count = count;
    belief_form(&trial->belief, &played);
}

/* Without a seed in common each mean is drawn towards that of all, the more the fewer plays it has. */
static void strangers_say_nothing_of_each_other(void **state)
{
    (void)state;
    struct trial trial;
    begin(&trial);
    for (int i = 0; i < SIDE; i++) {
        trial.schedule[i] = trial.schedule[(SIDE + 1) * i];
        trial.plays[i] = 4u << i;
        trial.mean[i] = 10.0 * i;
        trial.square[i] = 16.0 * (trial.plays[i] - 1);
    }
    form(&trial, SIDE, 2);
    const double among = 100 - 16 * (1 / 4.0 + 1 / 8.0 + 1 / 16.0) / SIDE;
    for (int i = 0; i < SIDE; i++) {
        const double noise = 16.0 / trial.plays[i];
        assert_true(fabs(trial.belief.mean[i] - (10 + (10.0 * i - 10) * among / (among + noise))) < 1e-9);
        assert_true(fabs(belief_deviation(&trial.belief, i) - sqrt(1 / (1 / among + 1 / noise))) < 1e-9);
    }
    belief_free(&trial.belief);
}

/* The last of a grid whose seeds bring what they bring one by one had one unlucky episode: the others say so. */
static void seeds_in_common_tell(void **state)
{
    (void)state;
    struct trial trial;
    begin(&trial);
    for (int i = 0; i < GRID; i++) {
        trial.plays[i] = i < GRID - 1 ? 16 : 1;
        trial.mean[i] = 10.0 * (i / SIDE) + 4.0 * (i % SIDE) - (i < GRID - 1 ? 0 : 14);
        trial.square[i] = 100.0 * (trial.plays[i] - 1);
    }
    form(&trial, GRID, 2);
    assert_true(trial.belief.mean[GRID - 1] > 18 &&
                trial.belief.mean[GRID - 1] < 28); /* it had 14, as all on average */
    for (int i = 0; i < GRID - 1; i++) {
        assert_true(fabs(trial.belief.mean[i] - trial.mean[i]) < 2.5);
        assert_true(belief_deviation(&trial.belief, i) < belief_deviation(&trial.belief, GRID - 1));
        assert_true(belief_deviation(&trial.belief, i) < 10.0 / 4);
    }
    belief_free(&trial.belief);
}

/* Draws have the means, deviations and covariances that are believed. */
static void draws_follow_the_belief(void **state)
{
    (void)state;
    enum { DRAWS = 20000, A = 0, B = 1 }; /* the same seed in slot 0 */
    struct trial trial;
    double sum[2] = {0}, square[2] = {0}, both = 0;
    begin(&trial);
    for (int i = 0; i < GRID; i++) {
        trial.plays[i] = 2;
        trial.mean[i] = 5 * (i / SIDE) + i % 2;
        trial.square[i] = 18;
    }
    form(&trial, GRID, 2);
    for (uint32_t k = 0; k < DRAWS; k++) {
        const struct random_site site = random_at(1, STREAM_LESSON, k, 0, 0);
        double normal[GRID];
        for (uint32_t i = 0; i < GRID; i++)
            normal[i] = normals_of(random_word(site, 2 * i), random_word(site, 2 * i + 1)).first;
        const double at[2] = {belief_drawn(&trial.belief, A, normal), belief_drawn(&trial.belief, B, normal)};
        for (int j = 0; j < 2; j++) {
            sum[j] += at[j] / DRAWS;
            square[j] += at[j] * at[j] / DRAWS;
        }
        both += at[A] * at[B] / DRAWS;
    }
    for (int j = 0; j < 2; j++) {
        const double deviation = belief_deviation(&trial.belief, j);
        assert_true(fabs(sum[j] - trial.belief.mean[j]) < 4 * deviation / sqrt(DRAWS));
        assert_true(fabs(sqrt(square[j] - sum[j] * sum[j]) / deviation - 1) < 0.03);
    }
    const double *a = trial.belief.root + A * GRID, *b = trial.belief.root + B * GRID;
    assert_true(a[0] * b[0] > 0.1); /* what is uncertain of their seed is so of both */
    assert_true(fabs(both - sum[A] * sum[B] - a[0] * b[0]) < 0.15);
    belief_free(&trial.belief);
}

/* Nothing was played, one schedule alone, all alike, and no noise: no division by nothing. */
static void little_is_believed_of_little(void **state)
{
    (void)state;
    struct trial trial;
    begin(&trial);
    form(&trial, GRID, 2);
    for (int i = 0; i < GRID; i++)
        assert_true(trial.belief.mean[i] == -INFINITY && belief_deviation(&trial.belief, i) == 0);
    trial.plays[4] = 1;
    trial.mean[4] = 7;
    form(&trial, GRID, 2);
    assert_true(trial.belief.mean[4] == 7 && trial.belief.mean[5] == -INFINITY);
    for (int i = 0; i < GRID; i++) {
        trial.plays[i] = 3;
        trial.mean[i] = 7;
    }
    form(&trial, GRID, 2);
    assert_true(trial.belief.mean[8] == 7 && belief_deviation(&trial.belief, 8) == 0);
    trial.mean[8] = 9;
    form(&trial, GRID, 2);
    assert_true(fabs(trial.belief.mean[8] - 9) < 1e-6 && belief_deviation(&trial.belief, 8) < 1e-3);
    belief_free(&trial.belief);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_say_nothing_of_each_other),
        cmocka_unit_test(seeds_in_common_tell),
        cmocka_unit_test(draws_follow_the_belief),
        cmocka_unit_test(little_is_believed_of_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
