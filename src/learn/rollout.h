/*
 * The rollout of a round, [step][env], registered in the world's table: row = step, nothing is compacted. A step whose
 * env was rolled back leaves a row without ROW_VALID; the next valid row of that env has ROW_RESET.
 */
#ifndef LEARN_ROLLOUT_H
#define LEARN_ROLLOUT_H

#include "base/table.h"
#include "learn/row.h"
#include "policy/heads.h"

struct rollout {
    int steps, envs, slots, obs;
    float *raw;            /* [step][env][obs] as observed, on every step: feeds the observation normaliser */
    float *state;          /* [step][env][obs] as the policy saw it */
    int8_t *bp;            /* [step][env][slots] */
    uint8_t *choice;       /* [step][env][HEAD_COUNT] */
    uint8_t *effective_op; /* [step][env] what was credited: the sampled op, or WAIT where it could not be executed */
    uint64_t *mask;        /* [step][env] legal choices, slot bits those of the sampled op, not yet canonical */
    float *logp;           /* [step][env][HEAD_COUNT] at collection: for anchor_drift alone */
    float *value;          /* [step][env] V(s) in units of the targets */
    float *reward;         /* [step][env] normalised */
    float *bootstrap;      /* [step][env] V after a truncated row */
    uint8_t *flags;        /* [step][env] bits of row_flag */
    float *advantage, *returns, *td_error; /* [step][env] results of the advantage estimate, not saved */
};

void rollout_register(struct rollout *rollout, struct table *table, int steps, int envs, int slots, int obs);
void rollout_clear(struct rollout *rollout); /* a new round */

#endif
