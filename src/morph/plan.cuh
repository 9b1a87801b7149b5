/*
 * How a phase treats each env's slots, computed on the device from the slots' states. Shared by all implementations of
 * net_device.cuh.
 */
#ifndef MORPH_PLAN_CUH
#define MORPH_PLAN_CUH

#include "morph/net_device.cuh"

/*
 * The configurations of an evaluation: masks of slots that are on, at their own alpha. They are visited in an order in
 * which neighbours share as long a prefix as possible: sorted by the bits of the slots in the order of the data flow
 * (shape.exec_order), "on" first. Every shared prefix is then computed once, as in a walk of the decision tree.
 */
struct eval_plan {
    uint32_t count;
    uint32_t mask[NET_SETS_MAX];   /* in visiting order */
    uint16_t config[NET_SETS_MAX]; /* index of each in the order requested */
    uint32_t right[NET_SETS_MAX];  /* by that index: images classified correctly; the evaluation counts from 0 */
};
enum { PLAN_STRIDE = sizeof(struct eval_plan) / sizeof(uint32_t) }; /* words from an env's counts to the next one's */

/* The envs of an evaluation, those with the most work first, so that all blocks of a kernel finish at about the same
 * time. */
struct eval_order {
    uint32_t *count; /* [2] grown: with a blended seed in their first configuration; plain: without one, after them */
    uint32_t *taken; /* [2] jobs of each kind that were taken (job_take) */
    uint32_t *env, *weight; /* [env]; weight: number of configurations of a grown env, 0 for a plain one */
};

/* exec of all slots, for a step of training. */
void net_plan_train(struct net_device *net);
/* exec, the subset arrays (but for the scores) and plans [env], for a validation. */
void net_plan_evaluate(struct net_device *net, struct eval_plan *plans);
/* plans [env] of the sets. */
void net_plan_measure(struct net_device *net, struct eval_plan *plans, struct net_sets sets);
/* exec, and plans [env] of one configuration: everything on, for a test. */
void net_plan_test(struct net_device *net, struct eval_plan *plans);

/* The plans' envs in order. */
void net_plan_order(struct net_device *net, const struct eval_plan *plans, struct eval_order order);

/* When the plans hold the counts of a validation: subset_score, val_accuracy, and val_loss from losses [env][images] of
 * configuration 0, summed in a fixed order. */
void net_plan_evaluated(struct net_device *net, const struct eval_plan *plans, const float *losses, int images);
/* Likewise the scores of the sets, and test_accuracy. */
void net_plan_measured(struct net_device *net, const struct eval_plan *plans, struct net_sets sets, int images);
void net_plan_tested(struct net_device *net, const struct eval_plan *plans);

/* Position in exec order of the first slot at which two masks differ; `slots` where they do not. */
DEVICE int eval_parting(const struct net_shape *shape, uint32_t a, uint32_t b)
{
    int at = 0;
    while (at < shape->slots && !(((a ^ b) >> shape->exec_order[at]) & 1u))
        at++;
    return at;
}

#endif
