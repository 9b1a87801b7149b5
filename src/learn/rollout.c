#include "learn/rollout.h"

#include <string.h>

void rollout_register(struct rollout *rollout, struct table *table, int steps, int envs, int slots, int obs)
{
    const size_t t = (size_t)steps, n = (size_t)envs, s = (size_t)slots, d = (size_t)obs;
    rollout->steps = steps;
    rollout->envs = envs;
    rollout->slots = slots;
    rollout->obs = obs;
    TABLE_ADD(table, &rollout->raw, "rollout.raw", TYPE_F32, CLASS_STATE, true, SCOPE_STEP_ENV, t, n, d);
    TABLE_ADD(table, &rollout->state, "rollout.state", TYPE_F32, CLASS_STATE, true, SCOPE_STEP_ENV, t, n, d);
    TABLE_ADD(table, &rollout->bp, "rollout.bp", TYPE_I8, CLASS_STATE, true, SCOPE_STEP_ENV, t, n, s);
    TABLE_ADD(table, &rollout->choice, "rollout.choice", TYPE_U8, CLASS_STATE, true, SCOPE_STEP_ENV, t, n, HEAD_COUNT);
    TABLE_ADD(table, &rollout->effective_op, "rollout.effective_op", TYPE_U8, CLASS_STATE, true, SCOPE_STEP_ENV, t, n);
    TABLE_ADD(table, &rollout->mask, "rollout.mask", TYPE_U64, CLASS_STATE, true, SCOPE_STEP_ENV, t, n);
    TABLE_ADD(table, &rollout->logp, "rollout.logp", TYPE_F32, CLASS_STATE, true, SCOPE_STEP_ENV, t, n, HEAD_COUNT);
    TABLE_ADD(table, &rollout->value, "rollout.value", TYPE_F32, CLASS_STATE, true, SCOPE_STEP_ENV, t, n);
    TABLE_ADD(table, &rollout->reward, "rollout.reward", TYPE_F32, CLASS_STATE, true, SCOPE_STEP_ENV, t, n);
    TABLE_ADD(table, &rollout->bootstrap, "rollout.bootstrap", TYPE_F32, CLASS_STATE, true, SCOPE_STEP_ENV, t, n);
    TABLE_ADD(table, &rollout->flags, "rollout.flags", TYPE_U8, CLASS_STATE, true, SCOPE_STEP_ENV, t, n);
    TABLE_ADD(table, &rollout->advantage, "rollout.advantage", TYPE_F32, CLASS_ACT, false, SCOPE_STEP_ENV, t, n);
    TABLE_ADD(table, &rollout->returns, "rollout.returns", TYPE_F32, CLASS_ACT, false, SCOPE_STEP_ENV, t, n);
    TABLE_ADD(table, &rollout->td_error, "rollout.td_error", TYPE_F32, CLASS_ACT, false, SCOPE_STEP_ENV, t, n);
}

void rollout_clear(struct rollout *rollout)
{
    /* Everything, not only the flags: what a round saves must not depend on the round before it. */
    const size_t rows = (size_t)rollout->steps * (size_t)rollout->envs, obs = (size_t)rollout->obs;
    memset(rollout->raw, 0, rows * obs * sizeof *rollout->raw);
    memset(rollout->state, 0, rows * obs * sizeof *rollout->state);
    memset(rollout->bp, -1, rows * (size_t)rollout->slots);
    memset(rollout->choice, 0, rows * HEAD_COUNT);
    memset(rollout->effective_op, 0, rows);
    memset(rollout->mask, 0, rows * sizeof *rollout->mask);
    memset(rollout->logp, 0, rows * HEAD_COUNT * sizeof *rollout->logp);
    memset(rollout->value, 0, rows * sizeof *rollout->value);
    memset(rollout->reward, 0, rows * sizeof *rollout->reward);
    memset(rollout->bootstrap, 0, rows * sizeof *rollout->bootstrap);
    memset(rollout->flags, 0, rows);
    memset(rollout->advantage, 0, rows * sizeof *rollout->advantage);
    memset(rollout->returns, 0, rows * sizeof *rollout->returns);
    memset(rollout->td_error, 0, rows * sizeof *rollout->td_error);
}
