/*
 * The policy network on the device for one sequence, from the host's memory and back to it, in fp32: how golden vectors
 * reach its kernels.
 */
#ifndef POLICY_NETWORK_TRIAL_H
#define POLICY_NETWORK_TRIAL_H

#ifdef __cplusplus
extern "C" {
#endif

#include "base/status.h"
#include "policy/network.h"

struct policy_trial {
    const struct policy_shape *shape;
    const float *w;
    int envs, steps;
    const float *obs; /* [step][env][obs] */
    const int8_t *bp; /* [step][env][slots] */
    bool act;         /* one step; else the whole sequence is unrolled */
    float *h, *c;     /* [env][hidden]: the state before, and then after */
    float *logits, *values;
    float *trunk;                   /* z; NULL where it acts */
    const float *dlogits, *dvalues; /* NULL: no gradients */
    float *grad;                    /* like w */
};

enum esper_status policy_trial_run(struct policy_trial *trial, struct esper_error *error);

#ifdef __cplusplus
}
#endif

#endif
