/*
 * Runs the policy network on the device for one sequence, from host memory and back: the entry point for golden
 * vectors and the case table.
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
    const float *obs;     /* [step][env][obs] */
    const int8_t *bp;     /* [step][env][slots] */
    const uint8_t *reset; /* [step][env]; NULL: none */
    bool act;             /* one step; else the whole sequence is unrolled */
    bool stopped;         /* switched off, as after the last step of an update: nothing is computed */
    bool tf32;            /* products as in runs with bf16 networks */
    float *h, *c;         /* [env][hidden]: the state: before on entry, after on return */
    float *logits, *values;
    float *trunk;                   /* z; NULL when acting */
    const float *dlogits, *dvalues; /* NULL: no gradients */
    float *grad;                    /* like w */
};

enum esper_status policy_trial_run(struct policy_trial *trial, struct esper_error *error);

#ifdef __cplusplus
}
#endif

#endif
