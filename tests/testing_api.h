/* What the tests of the library share: small environments, a player that keeps to the masks, a run that learned. */
#ifndef TESTS_TESTING_API_H
#define TESTS_TESTING_API_H

#include "testing_sessions.h"

static const char *small[] = {"envs=2",     "steps=12",           "data.batch=16",       "data.batches=1",
                              "threads=1",  "data.val_images=32", "data.test_images=32", "reward.mode=shaped",
                              "device=cpu", "precision=fp32"};
enum {
    SMALL = sizeof small / sizeof small[0],
    SMALL_REWARD = 7,
    SMALL_DEVICE,
    ENVS = 2,
    ACTIONS = ENVS * ESPER_HEADS,
    MOST_CHOICES = 64
};

#define WORKS(call)                                                                                                    \
    do {                                                                                                               \
        struct esper_error failed = {0};                                                                               \
        if ((call) != ESPER_OK)                                                                                        \
            fail_msg(#call ": %s", failed.text);                                                                       \
    } while (0)
static inline struct esper_env *open_small(void)
{
    struct esper_env *env = NULL;
    WORKS(esper_env_open(&env, "quickstart", small, SMALL, &failed));
    return env;
}

/* ---- a player ---------------------------------------------------------------------------------------------------- */

static inline uint32_t roll(uint32_t *dice, uint32_t sides)
{
    *dice = *dice * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)*dice * sides >> 32);
}

static inline uint8_t pick(uint32_t *dice, const uint8_t *allowed, uint32_t count)
{
    uint32_t at = roll(dice, count);
    for (uint32_t i = 0; i < count; i++, at++)
        if (allowed[at % count])
            return (uint8_t)(at % count);
    return 0;
}

/* Any action that the masks allow, and nonsense in the heads that do not matter. */
static inline void random_actions(struct esper_env *env, uint32_t *dice, uint8_t actions[ACTIONS])
{
    struct esper_env_info info;
    uint8_t choices[ENVS * MOST_CHOICES], slot_by_op[ENVS * ESPER_OPS * 16];
    WORKS(esper_env_describe(env, &info, &failed));
    assert_int_equal(info.envs, ENVS);
    WORKS(esper_env_masks(env, choices, ENVS * info.choices, slot_by_op, ENVS * ESPER_OPS * info.slots, &failed));
    for (uint32_t e = 0; e < ENVS; e++) {
        const uint8_t *mask = choices + e * info.choices;
        uint8_t *action = actions + e * ESPER_HEADS;
        for (uint32_t head = 0; head < ESPER_HEADS; mask += info.head_size[head++])
            action[head] = pick(dice, mask, info.head_size[head]);
        const uint32_t op = action[ESPER_HEAD_OP];
        action[ESPER_HEAD_SLOT] = pick(dice, slot_by_op + (e * ESPER_OPS + op) * info.slots, info.slots);
        if (op == ESPER_OP_WAIT)
            action[ESPER_HEAD_SLOT] = action[ESPER_HEAD_STYLE] = 255;
    }
}

/* Steps up to the end of the episode; returns how many seeds germinated. */
static inline int play(struct esper_env *env, uint32_t *dice, int steps, double reward[ENVS])
{
    struct esper_step step[ENVS];
    uint8_t actions[ACTIONS];
    int born = 0;
    for (int i = 0; i < steps; i++) {
        random_actions(env, dice, actions);
        WORKS(esper_env_step(env, actions, ACTIONS, step, ENVS, &failed));
        for (int e = 0; e < ENVS; e++) {
            double sum = 0;
            for (int k = 0; k < ESPER_COMPONENTS; k++)
                sum += step[e].component[k];
            if (step[e].result != ESPER_ROLLED_BACK)
                assert_true(fabs(sum - step[e].reward) < 1e-9);
            reward[e] += step[e].reward;
            born += actions[e * ESPER_HEADS + ESPER_HEAD_OP] == ESPER_OP_GERMINATE && step[e].result == ESPER_DONE;
        }
    }
    return born;
}

/* A run that learned a little, with rollbacks. Returns its configuration. */
static inline struct config learn(void)
{
    struct config config = small_session(POLICY_PPO);
    restless(&config, 0.3, 1.5);
    config.ppo.lr = 0.02; /* weights so large that what the policy remembers decides */
    config.ppo.target_kl = 0;
    config.ppo.max_grad_norm = 1e6;
    run_whole(&config, "learned");
    return config;
}

#endif
