/* A learner with its rollout, and small worlds played through it as the engine plays: observe, decide, reward, row. */
#ifndef TESTS_TESTING_LEARNER_H
#define TESTS_TESTING_LEARNER_H

#include "testing.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "learn/learner.h"
#include "policy/distribution.h"
#include "variant/variant.h"

struct rig {
    struct config config;
    struct table table;
    struct learner learner;
    struct rollout rollout;
    struct pool *pool;
    struct update_report record;
    struct head_report heads[HEAD_COUNT];
    float *h, *c, *logits, *value; /* of one step */
    int threads;
};

/* Sizes, and settings for fast learning; change rig->config before rig_start for others. */
static inline void rig_configure(struct rig *rig, int envs, int steps, int width)
{
    *rig = (struct rig){.threads = 1};
    config_defaults(&rig->config);
    rig->config.envs = envs;
    rig->config.steps = steps;
    rig->config.policy.feature_dim = rig->config.policy.hidden = width;
    rig->config.ppo.epochs = 4;
    rig->config.ppo.lr = 3e-4;
    rig->config.ppo.target_kl = 0.015;
    memset(rig->config.policy.prior, 0, sizeof rig->config.policy.prior);
}

static inline void rig_start(struct rig *rig, int obs, int slots, uint64_t seed)
{
    struct esper_error error;
    const size_t envs = (size_t)rig->config.envs, hidden = (size_t)rig->config.policy.hidden;
    assert_int_equal(pool_create(rig->threads, &rig->pool, &error), ESPER_OK);
    learner_register(&rig->learner, &rig->table, &rig->config, rig->config.envs, rig->config.steps, obs, slots);
    rollout_register(&rig->rollout, &rig->table, rig->config.steps, rig->config.envs, slots, obs);
    assert_int_equal(table_allocate(&rig->table, &error), ESPER_OK);
    assert_int_equal(learner_start(&rig->learner, &variant_best()->policy, rig->pool, &error), ESPER_OK);
    learner_init(&rig->learner, seed);
    rollout_clear(&rig->rollout);
    rig->h = memory_alloc(envs * hidden, sizeof(float), &error);
    rig->c = memory_alloc(envs * hidden, sizeof(float), &error);
    rig->logits = memory_alloc(envs * (size_t)rig->learner.shape.logits, sizeof(float), &error);
    rig->value = memory_alloc(envs, sizeof(float), &error);
    assert_true(rig->h && rig->c && rig->logits && rig->value);
}

static inline void rig_stop(struct rig *rig)
{
    memory_free(rig->h);
    memory_free(rig->c);
    memory_free(rig->logits);
    memory_free(rig->value);
    learner_stop(&rig->learner);
    table_free(&rig->table);
    pool_free(rig->pool);
}

/* A world of `config.envs` envs. Each call is for one env. */
struct world {
    void *state;
    uint64_t seed;
    uint32_t round;
    /* A new episode; called at step 0 and after one that ended early. */
    void (*reset)(struct world *world, int env, int step);
    void (*observe)(const struct world *world, int env, int step, float *raw);
    struct masks (*masks)(const struct world *world, int env, int step);
    /* The reward; sets *over when the episode ends here. The last step ends it anyway. */
    double (*act)(struct world *world, int env, int step, const uint8_t choice[HEAD_COUNT], bool *over);
    bool forgetful; /* the recurrent state is wiped before every step */
};

static inline uint32_t world_word(const struct world *world, int env, int step, uint32_t element)
{
    return random_word(random_at(world->seed ^ 0x5EED, STREAM_AUGMENT, world->round, (uint32_t)env, (uint32_t)step),
                       element);
}

static inline double world_unit(const struct world *world, int env, int step, uint32_t element)
{
    return (double)random_unit(world_word(world, env, step, element));
}

/* Every choice of every head but op, which has these ops; each of them may name any slot. */
static inline struct masks masks_with_ops(int slots, unsigned ops)
{
    struct masks masks = {0, {0}};
    for (int head = 0; head < HEAD_COUNT; head++)
        masks.base |= head == HEAD_OP ? mask_place(ops, slots, head) : mask_all(slots, head);
    for (int op = 0; op < OP_COUNT; op++)
        masks.slots[op] = (uint16_t)(ops >> op & 1u ? (1u << slots) - 1 : 0);
    return masks;
}

static inline void wipe(struct rig *rig, int env)
{
    const size_t hidden = (size_t)rig->config.policy.hidden;
    memset(rig->h + (size_t)env * hidden, 0, hidden * sizeof(float));
    memset(rig->c + (size_t)env * hidden, 0, hidden * sizeof(float));
}

/* One round without its update: fills the rollout. */
static inline void rig_play(struct rig *rig, struct world *world)
{
    struct rollout *rollout = &rig->rollout;
    const int envs = rollout->envs, slots = rollout->slots;
    const size_t obs = (size_t)rollout->obs, logits = (size_t)rig->learner.shape.logits;
    uint8_t executed[256];
    double raw[256];
    assert_true(envs <= 256);
    rollout_clear(rollout);
    for (int env = 0; env < envs; env++) {
        wipe(rig, env);
        world->reset(world, env, 0);
        executed[env] = 1;
    }
    for (int step = 0; step < rollout->steps; step++) {
        const size_t first = (size_t)step * (size_t)envs;
        for (int env = 0; env < envs; env++) {
            const size_t row = first + (size_t)env;
            if (world->forgetful && step > 0) {
                wipe(rig, env);
                rollout->flags[row] |= ROW_RESET;
            }
            world->observe(world, env, step, rollout->raw + row * obs);
            learner_normalise(&rig->learner, NULL, rollout->raw + row * obs, rollout->state + row * obs);
        }
        const struct policy_step act = {
            envs,      rollout->state + first * obs, rollout->bp + first * (size_t)slots, rig->h, rig->c, rig->logits,
            rig->value};
        rig->learner.kernels->act(rig->learner.net, &act);
        for (int env = 0; env < envs; env++) {
            const size_t row = first + (size_t)env;
            const struct masks masks = world->masks(world, env, step);
            const struct random_site site =
                random_at(world->seed, STREAM_ACTION, world->round, (uint32_t)env, (uint32_t)step);
            struct decision decision;
            bool over = false;
            policy_sample(&masks, slots, rig->config.policy.floor, rig->logits + (size_t)env * logits, site, false, 1,
                          &decision);
            raw[env] = world->act(world, env, step, decision.choice, &over);
            memcpy(rollout->choice + row * HEAD_COUNT, decision.choice, HEAD_COUNT);
            memcpy(rollout->logp + row * HEAD_COUNT, decision.logp, sizeof decision.logp);
            rollout->effective_op[row] = decision.choice[HEAD_OP];
            rollout->mask[row] = decision.mask;
            rollout->value[row] = rig->value[env];
            rollout->flags[row] |= ROW_VALID;
            if (head_bits(masks.base, slots, HEAD_OP) == 1u << OP_WAIT)
                rollout->flags[row] |= ROW_FORCED;
            if (over || step == rollout->steps - 1)
                rollout->flags[row] |= ROW_DONE;
            if (over && step + 1 < rollout->steps) {
                rollout->flags[row + (size_t)envs] |= ROW_RESET;
                wipe(rig, env);
                world->reset(world, env, step + 1);
            }
        }
        learner_scale_rewards(&rig->learner, envs, executed, raw, rollout->reward + first);
    }
    world->round++;
}

#endif
