#include "learn/learner.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "learn/normalise.h"
#include "learn/work.h"

void learner_register(struct learner *learner, struct table *table, const struct config *config, int envs, int steps,
                      int obs, int slots)
{
    policy_shape_init(&learner->shape, obs, slots, config->policy.feature_dim, config->policy.hidden);
    learner->config = config;
    learner->envs = envs;
    learner->steps = steps;
    const size_t storage = learner->shape.storage;
    TABLE_ADD(table, &learner->w, "policy.w", TYPE_F32, CLASS_PARAM, true, SCOPE_RUN, storage);
    TABLE_ADD(table, &learner->grad, "policy.grad", TYPE_F32, CLASS_GRAD, false, SCOPE_RUN, storage);
    TABLE_ADD(table, &learner->m, "policy.m", TYPE_F32, CLASS_OPT, true, SCOPE_RUN, storage);
    TABLE_ADD(table, &learner->v, "policy.v", TYPE_F32, CLASS_OPT, true, SCOPE_RUN, storage);
    TABLE_ADD(table, &learner->adam_steps, "policy.adam_steps", TYPE_U64, CLASS_STATE, true, SCOPE_RUN, 1);
    TABLE_ADD(table, &learner->updates, "learner.updates", TYPE_U32, CLASS_STATE, true, SCOPE_RUN, 1);
    TABLE_ADD(table, &learner->failures, "learner.failures", TYPE_U32, CLASS_STATE, true, SCOPE_RUN, 1);
    TABLE_ADD(table, &learner->obs_mean, "learner.obs_mean", TYPE_F64, CLASS_STATE, true, SCOPE_RUN, (size_t)obs);
    TABLE_ADD(table, &learner->obs_var, "learner.obs_var", TYPE_F64, CLASS_STATE, true, SCOPE_RUN, (size_t)obs);
    TABLE_ADD(table, &learner->obs_updates, "learner.obs_updates", TYPE_U32, CLASS_STATE, true, SCOPE_RUN, 1);
    TABLE_ADD(table, &learner->reward_count, "learner.reward_count", TYPE_F64, CLASS_STATE, true, SCOPE_RUN, 1);
    TABLE_ADD(table, &learner->reward_mean, "learner.reward_mean", TYPE_F64, CLASS_STATE, true, SCOPE_RUN, 1);
    TABLE_ADD(table, &learner->reward_m2, "learner.reward_m2", TYPE_F64, CLASS_STATE, true, SCOPE_RUN, 1);
    TABLE_ADD(table, &learner->value_shift, "learner.value_shift", TYPE_F64, CLASS_STATE, true, SCOPE_RUN, 1);
    TABLE_ADD(table, &learner->value_scale, "learner.value_scale", TYPE_F64, CLASS_STATE, true, SCOPE_RUN, 1);
    TABLE_ADD(table, &learner->value_updates, "learner.value_updates", TYPE_U32, CLASS_STATE, true, SCOPE_RUN, 1);
}

/* ---- workspace -------------------------------------------------------------------------------------------------- */

static enum esper_status work_create(struct learner_work *work, const struct learner *learner,
                                     struct esper_error *error)
{
    const size_t rows = (size_t)learner->envs * (size_t)learner->steps;
    const size_t logits = rows * (size_t)learner->shape.logits;
    const int parts = learner_parts(learner->config);
#define WORK_ALLOC(name, count)                                                                                        \
    if (!(work->name = memory_alloc(count, sizeof *work->name, error)))                                                \
        return ESPER_FAILED;
    WORK_ALLOC(all.reset, rows)
    WORK_ALLOC(all.row, rows)
    WORK_ALLOC(all.ref, rows * HEAD_COUNT)
    WORK_ALLOC(all.view, rows)
    WORK_ALLOC(all.logits, logits)
    WORK_ALLOC(all.dlogits, logits)
    WORK_ALLOC(all.value, rows)
    WORK_ALLOC(all.dvalue, rows)
    WORK_ALLOC(advantages, rows)
    WORK_ALLOC(returns, rows)
    WORK_ALLOC(values, rows)
    WORK_ALLOC(td, rows)
    WORK_ALLOC(scratch, rows)
    WORK_ALLOC(last_layer, (size_t)learner->shape.hidden + 1)
    work->all.envs = learner->envs;
    work->all.rows = (int)rows;
    if (parts == 1)
        return ESPER_OK;
    struct learner_batch *part = &work->part;
    part->envs = learner->envs / parts;
    part->rows = part->envs * learner->steps;
    const size_t share = (size_t)part->rows;
    WORK_ALLOC(order, (size_t)learner->envs)
    WORK_ALLOC(part.state, share * (size_t)learner->shape.obs)
    WORK_ALLOC(part.bp, share * (size_t)learner->shape.slots)
    WORK_ALLOC(part.reset, share)
    WORK_ALLOC(part.row, share)
    WORK_ALLOC(part.ref, share * HEAD_COUNT)
#undef WORK_ALLOC
    part->view = work->all.view;
    part->logits = work->all.logits;
    part->dlogits = work->all.dlogits;
    part->value = work->all.value;
    part->dvalue = work->all.dvalue;
    return ESPER_OK;
}

enum esper_status learner_start(struct learner *learner, const struct policy_kernels *kernels, struct pool *pool,
                                struct esper_error *error)
{
    learner->kernels = kernels;
    learner->pool = pool;
    learner->memory = memory_alloc(kernels->net_bytes(&learner->shape, learner->envs, learner->steps), 1, error);
    learner->work = memory_alloc(1, sizeof *learner->work, error);
    if (!learner->memory || !learner->work || work_create(learner->work, learner, error) != ESPER_OK) {
        learner_stop(learner);
        return ESPER_FAILED;
    }
    learner->net = kernels->net_init(&learner->shape, learner->envs, learner->steps, pool, learner->memory);
    return ESPER_OK;
}

void learner_stop(struct learner *learner)
{
    struct learner_work *work = learner->work;
    if (work) {
        const struct learner_batch *whole = &work->all, *part = &work->part;
        void *const all[] = {whole->reset, whole->row,     whole->ref,    whole->view,   whole->logits,
                             whole->value, whole->dlogits, whole->dvalue, part->state,   part->bp,
                             part->reset,  part->row,      part->ref,     work->order,   work->advantages,
                             work->values, work->td,       work->returns, work->scratch, work->last_layer};
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
            memory_free(all[i]);
    }
    memory_free(work);
    memory_free(learner->memory);
    learner->work = NULL;
    learner->memory = NULL;
    learner->net = NULL;
}

void learner_init(struct learner *learner, uint64_t seed)
{
    const size_t bytes = learner->shape.storage * sizeof(float);
    memset(learner->w, 0, bytes);
    memset(learner->m, 0, bytes);
    memset(learner->v, 0, bytes);
    policy_init_weights(&learner->shape, seed, learner->pool, learner->w);
    policy_add_prior(&learner->shape, learner->config->policy.prior, learner->w);
    *learner->adam_steps = 0;
    *learner->updates = *learner->failures = *learner->obs_updates = *learner->value_updates = 0;
    *learner->reward_count = *learner->reward_mean = *learner->reward_m2 = 0;
    *learner->value_shift = 0;
    *learner->value_scale = 1;
    for (int i = 0; i < learner->shape.obs; i++) {
        learner->obs_mean[i] = 0;
        learner->obs_var[i] = 1;
    }
    if (learner->net) /* otherwise the network is on a device */
        learner_load(learner);
}

void learner_load(struct learner *learner)
{
    learner->kernels->pack(learner->net, learner->w);
}

/* ---- while a round is played ------------------------------------------------------------------------------------ */

void learner_normalise(const struct learner *learner, learner_column column, const float *raw, float *state)
{
    for (int i = 0; i < learner->shape.obs; i++)
        state[i] = !column || column(i) ? normalise_observation(raw[i], learner->obs_mean[i], learner->obs_var[i])
                                        : raw[i];
}

void learner_scale_rewards(const struct learner *learner, int envs, const uint8_t *executed, const double *raw,
                           float *out)
{
    struct moments step = {0, 0, 0}, all = {*learner->reward_count, *learner->reward_mean, *learner->reward_m2};
    for (int env = 0; env < envs; env++)
        rewards_add(&step, executed[env], raw[env]);
    all = moments_merge(all, step);
    *learner->reward_count = all.count;
    *learner->reward_mean = all.mean;
    *learner->reward_m2 = all.m2;
    for (int env = 0; env < envs; env++)
        out[env] = rewards_scaled(all, executed[env], raw[env]);
}
