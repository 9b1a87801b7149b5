/*
 * The learner: the policy's weights, Adam's moments, the three normalisers, and the PPO update that moves them
 * (L-01). All of its state is in the world's table.
 */
#ifndef LEARN_LEARNER_H
#define LEARN_LEARNER_H

#include "base/config.h"
#include "learn/diagnostics.h"
#include "learn/rollout.h"
#include "policy/network.h"

struct learner {
    const struct config *config;
    struct policy_shape shape;
    int envs, steps;

    /* saved */
    float *w, *m, *v;           /* [shape.storage] */
    uint64_t *adam_steps;       /* [1] optimiser steps made */
    uint32_t *updates;          /* [1] updates made (with at least one step) */
    uint32_t *failures;         /* [1] rounds in a row without a step because of non-finite numbers */
    double *obs_mean, *obs_var; /* [obs] */
    uint32_t *obs_updates;      /* [1] */
    double *reward_count, *reward_mean, *reward_m2; /* [1] each */
    double *value_shift, *value_scale;              /* [1] each: y = (R - shift) / scale */
    uint32_t *value_updates;                        /* [1] */

    /* not saved */
    float *grad;
    struct pool *pool;
    const struct policy_kernels *kernels;
    struct policy_net *net;
    void *memory; /* the net's workspace */
    struct learner_work *work;
};

/* Which columns of an observation are normalised: the unbounded ones (P-07); the rest pass through. NULL: all. */
typedef bool (*learner_column)(int column);

/* Mini-batches of an epoch. Where nothing learns there may be any number of envs, and none is dealt out. */
static inline int learner_parts(const struct config *config)
{
    return config->evaluate ? 1 : config->ppo.minibatches;
}

/* Before table_allocate: registers "policy.w" and so on. `obs` is the length of an observation. */
void learner_register(struct learner *learner, struct table *table, const struct config *config, int envs, int steps,
                      int obs, int slots);
/* After table_allocate: creates the workspace. */
enum esper_status learner_start(struct learner *learner, const struct policy_kernels *kernels, struct pool *pool,
                                struct esper_error *error);
void learner_stop(struct learner *learner);

/* A fresh policy and fresh normalisers; or, after the table was read from a file, adopt its contents. */
void learner_init(struct learner *learner, uint64_t seed);
void learner_load(struct learner *learner);

/* One observation as the policy sees it, normalised with the frozen statistics. */
void learner_normalise(const struct learner *learner, learner_column column, const float *raw, float *state);
/* All rewards of a step at once: merge them into the statistics (env order), then divide. executed[env] 0: no reward
 * there. */
void learner_scale_rewards(const struct learner *learner, int envs, const uint8_t *executed, const double *raw,
                           float *out);

/*
 * One update from a rollout: observation statistics, advantages, value scale, K epochs with KL stop. `progress` in
 * [0, 1] is the share of the run that is done, for the schedules. Fills the report of the update and of every
 * head; report->epochs 0 means that nothing was learned (no rows, or nothing finite: then *failures was incremented).
 */
void learner_update(struct learner *learner, learner_column column, struct rollout *rollout, double progress,
                    struct update_report *record, struct head_report heads[HEAD_COUNT]);

#endif
