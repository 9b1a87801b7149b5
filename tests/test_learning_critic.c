/* Whether the critic learns (L-20), through the real learner and network. */
#include "testing_lessons.h"

/* ---- a chain whose values are known ------------------------------------------------------------------------------ */

enum { WALK = 12, WALK_STEPS = 16 };
static const double chain_pays[WALK] = {1, -2, 3, 0, -1, 4, -3, 2, 0, 5, -4, 6};

static int chain_place(const struct world *world, int env, int step)
{
    const int place = (int)(world_word(world, env, 0, 9) % WALK) + step;
    return place < WALK ? place : WALK; /* beyond the end: nothing more happens */
}

static void chain_observe(const struct world *world, int env, int step, float *raw)
{
    for (int k = 0; k < WALK; k++)
        raw[k] = chain_place(world, env, step) == k;
}

static double chain_act(struct world *world, int env, int step, const uint8_t choice[HEAD_COUNT], bool *over)
{
    const int place = chain_place(world, env, step);
    (void)choice, (void)over;
    return place < WALK ? chain_pays[place] : 0;
}

/* 1 less the worst error of a value, over the spread of the values, when the fit is good as well. */
static double chain_score(struct rig *rig, struct world *world)
{
    const struct learner *learner = &rig->learner;
    const double scale = sqrt(*learner->reward_m2 / (*learner->reward_count - 1));
    double value[WALK + 1] = {0}, largest = 0, worst = 0;
    for (int k = WALK - 1; k >= 0; k--) {
        value[k] = chain_pays[k] / scale + rig->config.gamma * value[k + 1];
        largest = fmax(largest, fabs(value[k]));
    }
    for (int step = 0; step < WALK_STEPS - 1; step++) {
        for (int env = 0; env < rig->rollout.envs; env++) {
            const double said = (double)rig->rollout.value[step * rig->rollout.envs + env] * *learner->value_scale +
                                *learner->value_shift;
            world->round--; /* the round just played */
            worst = fmax(worst, fabs(said - value[chain_place(world, env, step)]));
            world->round++;
        }
    }
    return rig->record.explained_variance > .99 ? 1 - worst / largest : 0;
}

static void chain_values_are_found(void **state)
{
    (void)state;
    struct toy toy = {
        .world = {.reset = nothing_to_reset, .observe = chain_observe, .masks = two_ops, .act = chain_act},
        .envs = 32,
        .steps = WALK_STEPS,
        .obs = WALK,
        .slots = 1,
        .width = 32,
        .updates = 300,
        .lr = 3e-3,
        .entropy = 0,
        .gamma = .9,
        .lambda = .95,
        .goal = .9,
        .score = chain_score};
    assert_learns("chain", &toy);
}

/* ---- a critic and one reward sequence ---------------------------------------------------------------------------- */

enum { TUNE = 12 };
static const double tune_pays[TUNE] = {4, -3, 6, -5, 2, -4, 5, -2, 3, -6, 4, -1};

static void tune_observe(const struct world *world, int env, int step, float *raw)
{
    (void)world;
    for (int k = 0; k < 6; k++)
        raw[k] = (float)(-1 + 0.4 * k + 0.01 * step + 0.001 * env);
    raw[6] = (float)step / TUNE;
}

static double tune_act(struct world *world, int env, int step, const uint8_t choice[HEAD_COUNT], bool *over)
{
    (void)world, (void)env, (void)choice, (void)over;
    return tune_pays[step];
}

/* The rewards as they are: scaled, the returns would vary by less than 1, the floor of
 * explained variance. */
static double tune_score(struct rig *rig, struct world *world)
{
    (void)world;
    for (int i = 0; i < rig->rollout.steps * rig->rollout.envs; i++)
        rig->rollout.reward[i] = (float)tune_pays[i / rig->rollout.envs];
    return isnan(rig->record.explained_variance) ? 0 : rig->record.explained_variance;
}

static double fit_of(int epochs, uint64_t seed)
{
    struct toy toy = {.world = {.reset = nothing_to_reset, .observe = tune_observe, .masks = two_ops, .act = tune_act},
                      .envs = 4,
                      .steps = TUNE,
                      .obs = 7,
                      .slots = 1,
                      .width = 64,
                      .updates = 40,
                      .lr = 5e-4,
                      .entropy = .01,
                      .gamma = .995,
                      .lambda = .95,
                      .epochs = epochs,
                      .goal = INFINITY,
                      .score = tune_score};
    return lesson(&toy, seed).score;
}

static void more_epochs_fit_the_critic_better(void **state)
{
    (void)state;
    const int seeds = getenv("ESPER_SOAK") ? 5 : 1;
    int reached = 0;
    for (int seed = 1; seed <= seeds; seed++) {
        const double four = fit_of(4, (uint64_t)seed), one = fit_of(1, (uint64_t)seed);
        print_message("critic fit, seed %d: explained variance %.3f with 4 epochs, %.3f with 1\n", seed, four, one);
        reached += four > .3 && four > 3 * one;
    }
    assert_true(reached >= (seeds == 1 ? 1 : seeds - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chain_values_are_found),
        cmocka_unit_test(more_epochs_fit_the_critic_better),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
