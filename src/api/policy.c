/* A trained policy as a handle: its weights, its normaliser, and what it remembers of an environment's episode. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "api/parts.h"
#include "base/memory.h"
#include "engine/step.h"
#include "learn/normalise.h"
#include "session/checkpoint.h"
#include "session/learned.h"
#include "variant/variant.h"

/* What it remembered before its last decision, and after it: asked again, it decides again from before. */
struct memory {
    float *before, *after; /* [2][envs][hidden]: the two halves of its recurrent state */
};

struct esper_policy {
    struct api_handle handle;
    struct world *world; /* of one env, never played: its table knows what a policy's rows may hold */
    struct pool *pool;
    const struct policy_kernels *kernels;

    /* for the environment that it decides for */
    uint64_t env;         /* its number; 0: none */
    uint32_t round, step; /* of the last decision */
    int envs;
    struct policy_net *net;
    void *net_memory;
    struct memory state;
    float *observed, *logits, *values; /* [envs][features], [envs][choices], [envs] */
};

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static enum esper_status open_parts(struct esper_policy *policy, const char *source, struct esper_error *error)
{
    static const char *const names[] = {"policy.w", "learner.obs_mean", "learner.obs_var"};
    char path[PATH_MAX];
    struct config config;
    TRY(learned_find("runs", source, path, &config, error));
    if (config.policy.kind != POLICY_PPO)
        return error_set(error, ESPER_INVALID, "%s: holds no policy that was learned (policy.kind = ppo)", source);
    TRY(config_check(&config, error));
    config.envs = 1;
    config.steps = 1;
    config.evaluate = true;
    TRY(world_create(&policy->world, &config, error));
    TRY(checkpoint_read_rows(path, &policy->world->table, names, sizeof names / sizeof names[0], error));
    policy->kernels = &variant_best()->policy;
    return pool_create(config.threads, &policy->pool, error);
}

static void forget_env(struct esper_policy *policy)
{
    memory_free(policy->net_memory);
    memory_free(policy->state.before);
    memory_free(policy->state.after);
    memory_free(policy->observed);
    memory_free(policy->logits);
    memory_free(policy->values);
    policy->net = NULL;
    policy->net_memory = NULL;
    policy->state = (struct memory){NULL, NULL};
    policy->observed = policy->logits = policy->values = NULL;
    policy->env = 0;
    policy->envs = 0;
}

static void release(struct esper_policy *policy)
{
    forget_env(policy);
    if (policy->pool)
        pool_free(policy->pool);
    world_free(policy->world);
    memory_free(policy);
}

enum esper_status esper_policy_open(struct esper_policy **out, const char *source, struct esper_error *error)
{
    if (!out)
        return error_set(error, ESPER_INVALID, "esper_policy_open: there is nowhere to put the handle (out is NULL)");
    *out = NULL;
    if (!source)
        return error_set(error, ESPER_INVALID, "esper_policy_open: what to open is NULL");
    TRY(api_ready(error));
    struct esper_policy *policy = memory_alloc(1, sizeof *policy, error);
    if (!policy)
        return ESPER_FAILED;
    atomic_init(&policy->handle.busy, false);
    enum esper_status status = open_parts(policy, source, error);
    if (status != ESPER_OK) {
        release(policy);
        return status;
    }
    *out = policy;
    return ESPER_OK;
}

enum esper_status esper_policy_close(struct esper_policy **policy)
{
    if (!policy || !*policy)
        return ESPER_OK;
    TRY(api_retire(&(*policy)->handle));
    release(*policy);
    *policy = NULL;
    return ESPER_OK;
}

/* ---- acting ------------------------------------------------------------------------------------------------------ */

static size_t state_size(const struct esper_policy *policy)
{
    return 2 * (size_t)policy->envs * (size_t)policy->world->learner.shape.hidden;
}

static enum esper_status meet_env(struct esper_policy *policy, const struct esper_env *env, int envs,
                                  struct esper_error *error)
{
    const struct policy_shape *shape = &policy->world->learner.shape;
    forget_env(policy);
    policy->envs = envs;
    const size_t rows = (size_t)envs;
    policy->net_memory = memory_alloc(policy->kernels->net_bytes(shape, envs, 0), 1, error);
    policy->state.before = memory_alloc(state_size(policy), sizeof(float), error);
    policy->state.after = memory_alloc(state_size(policy), sizeof(float), error);
    policy->observed = memory_alloc(rows * (size_t)shape->obs, sizeof(float), error);
    policy->logits = memory_alloc(rows * (size_t)shape->logits, sizeof(float), error);
    policy->values = memory_alloc(rows, sizeof(float), error);
    if (!policy->net_memory || !policy->state.before || !policy->state.after || !policy->observed || !policy->logits ||
        !policy->values) {
        forget_env(policy);
        return ESPER_FAILED;
    }
    policy->net = policy->kernels->net_init(shape, envs, 0, policy->pool, policy->net_memory);
    policy->kernels->pack(policy->net, policy->world->learner.w);
    policy->env = env->number;
    policy->step = UINT32_MAX;
    return ESPER_OK;
}

/* The state to decide from: what it remembers, except of envs that begin anew or were rolled back. */
static void recall(struct esper_policy *policy, const struct world *world)
{
    const size_t hidden = (size_t)policy->world->learner.shape.hidden, half = state_size(policy) / 2;
    struct memory *state = &policy->state;
    if (policy->round != *world->round || policy->step != *world->step) {
        memcpy(state->before, state->after, sizeof(float) * 2 * half);
        for (int env = 0; env < policy->envs; env++)
            if (policy->round != *world->round || *world->step == 0 || world->episode.reset_next[env]) {
                memset(state->before + (size_t)env * hidden, 0, sizeof(float) * hidden);
                memset(state->before + half + (size_t)env * hidden, 0, sizeof(float) * hidden);
            }
        policy->round = *world->round;
        policy->step = *world->step;
    }
    memcpy(state->after, state->before, sizeof(float) * 2 * half);
}

static void think(struct esper_policy *policy, const struct world *world)
{
    const struct learner *learner = &policy->world->learner;
    const size_t first = world_rollout_row(world, 0), obs = (size_t)learner->shape.obs;
    const float *raw = world->rollout.raw + first * obs;
    for (size_t i = 0; i < (size_t)policy->envs * obs; i++)
        policy->observed[i] = observe_normalised((int)(i % obs))
                                  ? normalise_observation(raw[i], learner->obs_mean[i % obs], learner->obs_var[i % obs])
                                  : raw[i];
    const struct policy_step step = {.rows = policy->envs,
                                     .obs = policy->observed,
                                     .bp = world->rollout.bp + first * (size_t)world->shape.slots,
                                     .h = policy->state.after,
                                     .c = policy->state.after + state_size(policy) / 2,
                                     .logits = policy->logits,
                                     .value = policy->values};
    policy->kernels->act(policy->net, &step);
}

static enum esper_status act(struct esper_policy *policy, struct esper_env *env, bool greedy, uint8_t *actions,
                             size_t count, struct esper_error *error)
{
    const struct world *world = engine_world(env->engine);
    const struct policy_shape *shape = &policy->world->learner.shape;
    const double floor[HEAD_COUNT] = {0}; /* there to explore while it learns */
    struct decision decision;
    TRY(api_array("esper_policy_act: actions [envs][heads]", actions, count, (size_t)world->envs * HEAD_COUNT, error));
    if (shape->slots != world->shape.slots || shape->obs != world->rollout.obs)
        return error_set(error, ESPER_INVALID,
                         "the policy was trained on hosts of %d slots (%d features), the environment's have %d (%d)",
                         shape->slots, shape->obs, world->shape.slots, world->rollout.obs);
    TRY(env_ask(env, error));
    if (policy->env != env->number)
        TRY(meet_env(policy, env, world->envs, error));
    recall(policy, world);
    think(policy, world);
    for (int e = 0; e < world->envs; e++) {
        policy_sample(&env->masks[e], shape->slots, floor, policy->logits + (size_t)e * (size_t)shape->logits,
                      world_random(world, STREAM_ACTION, e, *world->step + 1), greedy,
                      policy->world->config.policy.temperature, &decision);
        memcpy(actions + (size_t)e * HEAD_COUNT, decision.choice, HEAD_COUNT);
    }
    return ESPER_OK;
}

static enum esper_status act_on(struct esper_policy *policy, struct esper_env *env, bool greedy, uint8_t *actions,
                                size_t action_count, struct esper_error *error)
{
    TRY(api_enter(env ? &env->handle : NULL, "esper_policy_act: env", error));
    return api_leave(&env->handle, act(policy, env, greedy, actions, action_count, error));
}

enum esper_status esper_policy_act(struct esper_policy *policy, struct esper_env *env, int greedy, uint8_t *actions,
                                   size_t action_count, struct esper_error *error)
{
    TRY(api_enter(policy ? &policy->handle : NULL, "esper_policy_act: policy", error));
    return api_leave(&policy->handle, act_on(policy, env, greedy != 0, actions, action_count, error));
}
