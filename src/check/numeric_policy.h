/* A policy network with all its arrays, for the checks. Compiled into every variant. */
#ifndef CHECK_NUMERIC_POLICY_H
#define CHECK_NUMERIC_POLICY_H

#include "check/numeric_source.h"
#include "policy/network.h"

struct policy_rig {
    struct policy_shape shape;
    int envs, steps, rows;
    struct pool *pool;
    struct policy_net *net;
    struct policy_sequence sequence; /* of the arrays below, without resets */
    real *w, *grad;                  /* [shape.storage] */
    real *obs, *h0, *c0;
    int8_t *bp;
    real *logits, *value, *dlogits, *dvalue;
};

/* Zeroed arrays; all but the pool belong to the scrap. false, with a failure in the report, when memory is short. */
bool policy_rig_init(struct policy_rig *rig, struct scrap *scrap, const struct policy_shape *shape, int envs, int steps,
                     int threads, struct check_report *report, const char *name);
void policy_rig_free(struct policy_rig *rig);
/* Generic weights, inputs and initial state. */
void policy_rig_randomise(struct policy_rig *rig, uint32_t key);
/* Load the weights and unroll. */
void policy_rig_unroll(struct policy_rig *rig);

void check_policy_net(const struct source *source);

#endif
