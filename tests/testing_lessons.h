/* Small worlds as lessons: played and learned until a score is reached. One seed; with ESPER_SOAK five, of which four
 * must reach it. */
#ifndef TESTS_TESTING_LESSONS_H
#define TESTS_TESTING_LESSONS_H

#include "base/clock.h"
#include "testing_learner.h"

struct toy {
    struct world world;
    int envs, steps, obs, slots, width, updates; /* the limit */
    double lr, entropy, gamma, lambda;
    int epochs;
    double goal;
    void (*prepare)(struct rig *rig); /* NULL: nothing */
    /* After a round and before its update: how well it went. */
    double (*score)(struct rig *rig, struct world *world);
};

/* One slot, a network 32 wide and fast learning, as in most lessons. To be added: updates, entropy, goal and
 * score, and whatever differs. */
static inline struct toy toy_usual(struct world world, int envs, int steps, int obs)
{
    return (struct toy){.world = world,
                        .envs = envs,
                        .steps = steps,
                        .obs = obs,
                        .slots = 1,
                        .width = 32,
                        .lr = 3e-3,
                        .gamma = .99,
                        .lambda = .95};
}

struct outcome {
    double score;
    int updates; /* made when the score was reached */
};

static inline struct outcome lesson(struct toy *toy, uint64_t seed)
{
    struct rig rig;
    struct outcome outcome = {-INFINITY, 0};
    rig_configure(&rig, toy->envs, toy->steps, toy->width);
    rig.config.ppo.lr = toy->lr;
    rig.config.ppo.epochs = toy->epochs ? toy->epochs : 4;
    rig.config.ppo.entropy_coef = rig.config.ppo.entropy_coef_end = toy->entropy;
    rig.config.gamma = toy->gamma;
    rig.config.ppo.lambda = toy->lambda;
    rig_start(&rig, toy->obs, toy->slots, seed);
    if (toy->prepare)
        toy->prepare(&rig);
    toy->world.seed = seed;
    toy->world.round = 0;
    while (true) {
        rig_play(&rig, &toy->world);
        outcome.score = toy->score(&rig, &toy->world);
        if (outcome.score >= toy->goal || outcome.updates == toy->updates)
            break;
        learner_update(&rig.learner, NULL, &rig.rollout, 0, &rig.record, rig.heads);
        assert_true(rig.record.epochs > 0 && rig.record.anchor_drift <= 1e-4);
        outcome.updates++;
    }
    rig_stop(&rig);
    return outcome;
}

/* One seed, or four of five. */
static inline void assert_learns(const char *name, struct toy *toy)
{
    const int seeds = getenv("ESPER_SOAK") ? 5 : 1;
    int reached = 0;
    for (int seed = 1; seed <= seeds; seed++) {
        const double start = clock_seconds();
        const struct outcome outcome = lesson(toy, (uint64_t)seed);
        reached += outcome.score >= toy->goal;
        print_message("%s, seed %d: %.3f of %.3f after %d of %d updates, %.1f s\n", name, seed, outcome.score,
                      toy->goal, outcome.updates, toy->updates, clock_seconds() - start);
    }
    assert_true(reached >= (seeds == 1 ? 1 : seeds - 1));
}

static inline void nothing_to_reset(struct world *world, int env, int step)
{
    (void)world, (void)env, (void)step;
}

/* WAIT or FOSSILIZE, one slot: a plain choice of two. */
static inline struct masks two_ops(const struct world *world, int env, int step)
{
    (void)world, (void)env, (void)step;
    return masks_with_ops(1, 1u << OP_WAIT | 1u << OP_FOSSILIZE);
}

#endif
