/* What is believed of schedules after some rounds of episodes (search/belief.h). */
#include "search/belief.h"

#include <math.h>

#include "base/normal.h"
#include "base/philox.h"
#include "testing.h"

enum { SIDE = 3, GRID = SIDE * SIDE, ROUNDS = 40 };

struct trial {
    struct belief belief;
    struct schedule schedule[GRID];
    uint16_t tried[ROUNDS * GRID];
    double earned[ROUNDS * GRID], cost[ROUNDS * GRID];
};

/* Every pair of one of three blueprints in slot 0 and one of three in slot 1. */
static void begin(struct trial *trial, int count)
{
    *trial = (struct trial){0};
    assert_int_equal(belief_create(&trial->belief, count, 1, NULL), ESPER_OK);
    for (int i = 0; i < GRID; i++) {
        schedule_add(&trial->schedule[i], 0, 1 + i / SIDE, 1);
        schedule_add(&trial->schedule[i], 1, 1 + i % SIDE, 1);
    }
}

static void form_by(struct trial *trial, int rounds, int envs, int brood)
{
    const struct played played = {.count = trial->belief.count,
                                  .tempos = trial->belief.tempos,
                                  .slots = 2,
                                  .schedule = trial->schedule,
                                  .rounds = rounds,
                                  .envs = envs,
                                  .brood = brood,
                                  .tried = trial->tried,
                                  .earned = trial->earned,
                                  .cost = trial->cost};
    belief_form(&trial->belief, &played);
}

static void form(struct trial *trial, int rounds, int envs)
{
    form_by(trial, rounds, envs, envs);
}

static double noise(uint32_t number)
{
    const struct random_site site = random_at(7, STREAM_LESSON, number, 0, 0);
    return normals_of(random_word(site, 0), random_word(site, 1)).first;
}

/* Two schedules without a seed in common, both in every round: how far they are apart is drawn towards zero, and how
 * sure that is follows from the rounds, by the usual formulas for one of the ratios that are tried. */
static void strangers_are_compared_within_their_rounds(void **state)
{
    (void)state;
    struct trial trial;
    double apart = 0;
    bool known = false;
    begin(&trial, 2);
    trial.schedule[1] = trial.schedule[GRID - 1];
    for (int i = 0; i < 2 * ROUNDS; i++) {
        trial.tried[i] = (uint16_t)(i % 2);
        trial.earned[i] = 3 * (i % 2) + noise((uint32_t)i);
        apart += (i % 2 ? 1.0 : -1.0) * trial.earned[i] / ROUNDS;
    }
    form(&trial, ROUNDS, 2);
    const double *a = trial.belief.root, *b = a + trial.belief.all;
    const double found = trial.belief.mean[1] - trial.belief.mean[0],
                 variance = (a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]);
    for (int power = -6; power <= 10; power++) {
        const double share = ldexp(ROUNDS, power) / (1 + ldexp(ROUNDS, power));
        known = known || fabs(found - apart * share) < 1e-9;
    }
    assert_true(known && apart > 2.5 && found > 0.95 * apart);
    assert_true(sqrt(variance * ROUNDS / 2) > 0.7 && sqrt(variance * ROUNDS / 2) < 1.3); /* the noise has 1 */
    belief_free(&trial.belief);
}

/* Episodes of a brood share their luck: whatever is added to all of them changes nothing. Failed ones do not count. */
static void luck_of_a_brood_says_nothing(void **state)
{
    (void)state;
    struct trial calm, stormy;
    begin(&calm, GRID);
    begin(&stormy, GRID);
    for (int i = 0; i < ROUNDS * GRID; i++) {
        const uint32_t number = (uint32_t)i;
        calm.tried[i] = stormy.tried[i] = (uint16_t)(i % 7 * (i % 5) % GRID);
        calm.earned[i] = 5.0 * (calm.tried[i] % SIDE) + 2 * noise(number);
        stormy.earned[i] = calm.earned[i] + 100 * noise(10000 + number / GRID);
        if (i % 11 == 0) {
            calm.tried[i] = stormy.tried[i] = GRID;
            stormy.earned[i] = 1e6;
        }
    }
    form(&calm, ROUNDS, GRID);
    form(&stormy, ROUNDS, GRID);
    for (int i = 0; i < GRID; i++) {
        assert_int_equal(calm.belief.plays[i], stormy.belief.plays[i]);
        assert_true(fabs(calm.belief.mean[i] - stormy.belief.mean[i]) < 1e-6 || calm.belief.plays[i] == 0);
        assert_true(fabs(belief_deviation(&calm.belief, i) - belief_deviation(&stormy.belief, i)) < 1e-6);
    }
    belief_free(&calm.belief);
    belief_free(&stormy.belief);
}

/* Broods may play one after the other or side by side, the last of a round with fewer envs. */
static void broods_may_play_side_by_side(void **state)
{
    (void)state;
    enum { ENVS = GRID + 2 }; /* a round: a whole brood and two envs of another */
    struct trial apart, beside;
    begin(&apart, GRID);
    begin(&beside, GRID);
    for (int i = 0; i < ROUNDS * GRID; i++)
        apart.tried[i] = GRID;
    for (int i = 0; i < ROUNDS / 2 * ENVS; i++) {
        const int at = i / ENVS * 2 * GRID + i % ENVS;
        beside.tried[i] = apart.tried[at] = (uint16_t)(i * i % 7);
        beside.earned[i] = apart.earned[at] = noise((uint32_t)i) + 3 * noise((uint32_t)at / GRID) + i % 7;
    }
    form(&apart, ROUNDS, GRID);
    form_by(&beside, ROUNDS / 2, ENVS, GRID);
    for (int i = 0; i < GRID; i++) {
        assert_true(beside.belief.mean[i] == apart.belief.mean[i]);
        assert_true(belief_deviation(&beside.belief, i) == belief_deviation(&apart.belief, i));
    }
    belief_free(&apart.belief);
    belief_free(&beside.belief);
}

/* The last of a grid whose seeds bring what they bring one by one had one unlucky episode: the others say so. */
static void seeds_in_common_tell(void **state)
{
    (void)state;
    struct trial trial;
    begin(&trial, GRID);
    for (int i = 0; i < ROUNDS * GRID; i++) {
        const int of = i % GRID;
        trial.tried[i] = (uint16_t)(of == GRID - 1 && i > GRID ? GRID : of);
        trial.earned[i] = 10.0 * (of / SIDE) + 4.0 * (of % SIDE) - (of < GRID - 1 ? 0 : 14) + 10 * noise((uint32_t)i);
    }
    trial.earned[GRID - 1] = 14;
    form(&trial, ROUNDS, GRID);
    const double *mean = trial.belief.mean;
    assert_int_equal(trial.belief.plays[GRID - 1], 1);
    assert_true(mean[GRID - 1] - mean[0] > 18 && mean[GRID - 1] - mean[0] < 30); /* 28, and it had 14 */
    for (int i = 1; i < GRID - 1; i++) {
        assert_true(fabs(mean[i] - mean[0] - 10.0 * (i / SIDE) - 4.0 * (i % SIDE)) < 5);
        assert_true(belief_deviation(&trial.belief, i) < belief_deviation(&trial.belief, GRID - 1));
    }
    belief_free(&trial.belief);
}

/* Every schedule is played at every tempo: what a tempo brings is told apart from what schedules bring, though nobody
 * plays them equally often, and a schedule is as good as it is at the average tempo. */
static void tempos_add_to_schedules(void **state)
{
    (void)state;
    enum { TEMPOS = 3 };
    struct trial trial;
    begin(&trial, GRID);
    belief_free(&trial.belief);
    assert_int_equal(belief_create(&trial.belief, GRID, TEMPOS, NULL), ESPER_OK);
    for (int i = 0; i < ROUNDS * GRID; i++) {
        const int of = i * i % GRID, tempo = (of + i / 3) % TEMPOS;
        trial.tried[i] = (uint16_t)(i % 17 == 0 ? TEMPOS * GRID : of + tempo * GRID);
        trial.earned[i] = 10.0 * (of / SIDE) + (tempo == 2 ? 1.5 : 0) + noise((uint32_t)i);
        trial.cost[i] = of;
    }
    form(&trial, ROUNDS, GRID);
    const double *mean = trial.belief.mean;
    uint32_t plays = 0;
    for (int tempo = 0; tempo < TEMPOS; tempo++)
        plays += trial.belief.plays[GRID + tempo];
    for (int of = 0; of < GRID; of++) {
        plays -= trial.belief.plays[of];
        assert_true(trial.belief.plays[of] == 0 || trial.belief.cost[of] == of);
        assert_true(trial.belief.plays[of] == 0 || fabs(mean[of] - mean[0] - 10.0 * (of / SIDE)) < 1);
    }
    assert_int_equal(plays, 0);
    assert_true(fabs(mean[GRID + 2] - mean[GRID] - 1.5) < 0.6 && fabs(mean[GRID + 1] - mean[GRID]) < 0.6);
    assert_true(belief_deviation(&trial.belief, GRID) < 0.3);
    belief_free(&trial.belief);
}

/* Draws have the means, deviations and covariances that are believed. */
static void draws_follow_the_belief(void **state)
{
    (void)state;
    enum { DRAWS = 20000, A = 0, B = 1 };
    struct trial trial;
    double sum[2] = {0}, square[2] = {0}, both = 0, together = 0;
    begin(&trial, GRID);
    for (int i = 0; i < 2 * GRID; i++) {
        trial.tried[i] = (uint16_t)(i % GRID);
        trial.earned[i] = 5 * (i % GRID / SIDE) + i % 2 + 3 * noise((uint32_t)i);
    }
    form(&trial, 2, GRID);
    for (uint32_t k = 0; k < DRAWS; k++) {
        const struct random_site site = random_at(1, STREAM_LESSON, k, 0, 0);
        double normal[GRID + 1];
        for (uint32_t i = 0; i <= GRID; i++)
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
        assert_true(deviation > 0.5);
        assert_true(fabs(sum[j] - trial.belief.mean[j]) < 4 * deviation / sqrt(DRAWS));
        assert_true(fabs(sqrt(square[j] - sum[j] * sum[j]) / deviation - 1) < 0.03);
    }
    const int all = trial.belief.all;
    for (int k = 0; k < all; k++)
        together += trial.belief.root[A * all + k] * trial.belief.root[B * all + k];
    assert_true(fabs(both - sum[A] * sum[B] - together) < 0.15);
    belief_free(&trial.belief);
}

/* Nothing was played, one schedule alone, all alike, and no noise: no division by nothing. */
static void little_is_believed_of_little(void **state)
{
    (void)state;
    struct trial trial;
    begin(&trial, GRID);
    form(&trial, 0, GRID);
    for (int i = 0; i < GRID; i++)
        assert_true(trial.belief.mean[i] == -INFINITY && belief_deviation(&trial.belief, i) == 0);
    for (int i = 0; i < ROUNDS * GRID; i++)
        trial.tried[i] = 4;
    trial.earned[0] = 7;
    trial.cost[0] = trial.cost[1] = 5;
    form(&trial, 1, 1);
    assert_true(trial.belief.mean[4] == 0 && trial.belief.mean[5] == -INFINITY && trial.belief.cost[4] == 5);
    form(&trial, 1, 2);
    assert_true(fabs(trial.belief.mean[4]) < 1e-9 && trial.belief.plays[4] == 2);
    for (int i = 0; i < ROUNDS * GRID; i++) {
        trial.tried[i] = (uint16_t)(i % GRID);
        trial.earned[i] = 7;
    }
    form(&trial, ROUNDS, GRID);
    assert_true(trial.belief.mean[8] == 0 && belief_deviation(&trial.belief, 8) == 0);
    for (int i = 8; i < ROUNDS * GRID; i += GRID)
        trial.earned[i] = 9;
    form(&trial, ROUNDS, GRID);
    assert_true(fabs(trial.belief.mean[8] - trial.belief.mean[0] - 2) < 1e-3);
    assert_true(belief_deviation(&trial.belief, 8) < 1e-3);
    belief_free(&trial.belief);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_are_compared_within_their_rounds),
        cmocka_unit_test(luck_of_a_brood_says_nothing),
        cmocka_unit_test(broods_may_play_side_by_side),
        cmocka_unit_test(seeds_in_common_tell),
        cmocka_unit_test(tempos_add_to_schedules),
        cmocka_unit_test(draws_follow_the_belief),
        cmocka_unit_test(little_is_believed_of_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
