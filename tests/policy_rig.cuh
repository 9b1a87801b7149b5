/* A world, its learner and a copy of both on the device, and rounds of noise for them. */
#ifndef TESTS_POLICY_RIG_CUH
#define TESTS_POLICY_RIG_CUH

#include "device_rig.cuh"
#include "policy/network.cuh"
#include "policy/network_trial.h"

extern "C" {
#include "base/memory.h"
#include "base/philox.h"
#include "learn/normalise.h"
#include "learn/work.h"
#include "policy/distribution.h"
#include "variant/variant.h"
}

static inline void require(bool good, const char *what, const char *why)
{
    if (!good)
        stop(what, why);
}

struct rig {
    struct config config;
    struct world *world;
    struct pool *pool;
    struct runtime *rt;
    struct mirror mirror;
    struct policy_setup setup;
    struct policy_device *policy;
};

static inline void rig_create(struct rig *rig, int envs, int steps, int feature, int hidden, bool exact)
{
    struct esper_error error = {};
    *rig = {};
    config_defaults(&rig->config);
    rig->config.envs = envs;
    rig->config.steps = steps;
    rig->config.policy.feature_dim = feature;
    rig->config.policy.hidden = hidden;
    rig->config.ppo.epochs = 4; /* few enough for roundings not to add up */
    rig->config.ppo.lr = 3e-4;
    rig->config.ppo.target_kl = 0.015;
    memset(rig->config.policy.prior, 0, sizeof rig->config.policy.prior);
    require(world_create(&rig->world, &rig->config, &error) == ESPER_OK, "world", error.text);
    require(pool_create(1, &rig->pool, &error) == ESPER_OK, "pool", error.text);
    require(learner_start(&rig->world->learner, &variant_best()->policy, rig->pool, &error) == ESPER_OK, "learner",
            error.text);
    learner_init(&rig->world->learner, 7);
    rollout_clear(&rig->world->rollout);
    rig->rt = runtime_create(&error);
    require(rig->rt, "runtime", error.text);
    struct device_setup given = {};
    given.tf32 = !exact;
    mirror_create(&rig->mirror, rig->rt, rig->world);
    rig->setup = mirror_policy_setup(&rig->mirror, &given);
    rig->setup.logits = runtime_alloc<float>(rig->rt, (size_t)envs * rig->world->learner.shape.logits);
    rig->setup.values = runtime_alloc<float>(rig->rt, (size_t)envs);
    rig->policy = policy_device_create(rig->rt, &rig->setup);
    require(rig->policy, "policy_device_create", rig->rt->error.text);
}

static inline void rig_free(struct rig *rig)
{
    policy_device_free(rig->policy);
    runtime_free(rig->rt);
    learner_stop(&rig->world->learner);
    world_free(rig->world);
    pool_free(rig->pool);
}

static inline void write_world(struct rig *rig)
{
    mirror_write(&rig->mirror, rig->world->table.rows, rig->world->table.count);
}

/* Copies the device's arrays to those of the host's world. */
static inline void read_world(struct rig *rig)
{
    mirror_read(&rig->mirror, rig->world->table.rows, rig->world->table.count);
    require(!rig->rt->failed, "device", rig->rt->error.text);
}

static inline void world_return(struct rig *rig, const arenas &kept)
{
    arenas_restore(rig->world, kept);
    learner_load(&rig->world->learner);
}

/* ---- noise ------------------------------------------------------------------------------------------------------- */

static inline uint32_t word(uint32_t stream, int env, int step, uint32_t element)
{
    return random_word(random_at(99, STREAM_AUGMENT, stream, (uint32_t)env, (uint32_t)step), element);
}

static inline float unit(uint32_t stream, int env, int step, uint32_t element)
{
    return 2 * random_unit(word(stream, env, step, element)) - 1;
}

/* A policy with strong preferences: nothing near zero. */
static inline void shake(struct rig *rig)
{
    struct learner *learner = &rig->world->learner;
    for (int t = 0; t < learner->shape.count; t++) {
        const struct policy_tensor *tensor = &learner->shape.tensor[t];
        const float size = tensor->columns > 1 ? 1.0f / sqrtf((float)tensor->columns) : 0.2f;
        for (int i = 0; i < tensor->rows * tensor->columns; i++)
            learner->w[tensor->offset + i] += size * unit(1, t, 0, (uint32_t)i);
    }
    learner_load(learner);
}

/* Defects of a rollout. */
enum trouble { NO_TROUBLE = 0, HOLES = 1, NAN_REWARD = 2, NAN_STATE = 4, ALL_HOLES = 8 };

/* A round as the engine would leave it: the CPU's network acts on noise. */
static inline void play(struct rig *rig, unsigned trouble)
{
    struct world *world = rig->world;
    struct learner *learner = &world->learner;
    struct rollout *r = &world->rollout;
    const int envs = r->envs, hidden = learner->shape.hidden, logit_count = learner->shape.logits;
    std::vector<float> logits((size_t)envs * logit_count), value((size_t)envs);
    std::vector<double> raw((size_t)envs);
    std::vector<uint8_t> executed((size_t)envs);
    rollout_clear(r);
    memset(world->hidden, 0, sizeof(float) * envs * hidden);
    memset(world->cell, 0, sizeof(float) * envs * hidden);
    for (int step = 0; step < r->steps; step++) {
        const size_t first = (size_t)step * envs;
        for (int env = 0; env < envs; env++) {
            for (int k = 0; k < r->obs; k++)
                r->raw[(first + env) * r->obs + k] = 1.5f * unit(2, env, step, (uint32_t)k) + 0.2f;
            for (int s = 0; s < r->slots; s++)
                r->bp[(first + env) * r->slots + s] = (int8_t)(word(3, env, step, (uint32_t)s) % 14) - 1;
            learner_normalise(learner, observe_normalised, r->raw + (first + env) * r->obs,
                              r->state + (first + env) * r->obs);
        }
        const struct policy_step act = {
            envs,        r->state + first * r->obs, r->bp + first * r->slots, world->hidden, world->cell, logits.data(),
            value.data()};
        learner->kernels->act(learner->net, &act);
        for (int env = 0; env < envs; env++) {
            const size_t row = first + env;
            const bool hole = (trouble & ALL_HOLES) || ((trouble & HOLES) && word(4, env, step, 0) % 6 == 0);
            const bool forced = word(4, env, step, 1) % 5 == 0;
            executed[env] = !hole;
            raw[env] = unit(5, env, step, 0) + 0.3;
            if (hole) { /* rolled back: no row, and the one before it is the last of its segment */
                if (step > 0 && (r->flags[row - envs] & ROW_VALID)) {
                    r->flags[row - envs] |= ROW_DONE;
                    r->reward[row - envs] = -10;
                }
                for (int k = 0; k < r->obs; k++)
                    r->state[row * r->obs + k] = NAN; /* must never be read */
                if (step + 1 < r->steps)
                    r->flags[row + envs] |= ROW_RESET;
                memset(world->hidden + (size_t)env * hidden, 0, sizeof(float) * hidden);
                memset(world->cell + (size_t)env * hidden, 0, sizeof(float) * hidden);
                continue;
            }
            struct masks masks = {};
            const unsigned ops = forced ? 1u << OP_WAIT : 1u | word(4, env, step, 2) % 64;
            for (int head = 0; head < HEAD_COUNT; head++)
                masks.base |= head == HEAD_OP ? mask_place(ops, r->slots, head) : mask_all(r->slots, head);
            for (int op = 0; op < OP_COUNT; op++)
                masks.slots[op] = (uint16_t)(ops >> op & 1u ? (1u << r->slots) - 1 : 0);
            struct decision decision;
            policy_sample(&masks, r->slots, rig->config.policy.floor, logits.data() + (size_t)env * logit_count,
                          random_at(5, STREAM_ACTION, 0, (uint32_t)env, (uint32_t)step), false, 1, &decision);
            memcpy(r->choice + row * HEAD_COUNT, decision.choice, HEAD_COUNT);
            memcpy(r->logp + row * HEAD_COUNT, decision.logp, sizeof decision.logp);
            r->effective_op[row] = word(4, env, step, 3) % 7 == 0 ? (uint8_t)OP_WAIT : decision.choice[HEAD_OP];
            r->mask[row] = decision.mask;
            r->value[row] = value[env];
            r->flags[row] |= (uint8_t)(ROW_VALID | (forced ? ROW_FORCED : 0) | (step == r->steps - 1 ? ROW_DONE : 0));
        }
        learner_scale_rewards(learner, envs, executed.data(), raw.data(), r->reward + first);
    }
    if (trouble & NAN_REWARD)
        r->reward[envs] = NAN;
    for (int k = 0; (trouble & NAN_STATE) && k < r->obs; k++)
        r->state[(size_t)envs * r->obs + k] = NAN;
}

#endif
