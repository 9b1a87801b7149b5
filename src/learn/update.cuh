/*
 * The policy and its learner on the device: policy_net_act and learner_update over arrays in device memory. Every call
 * enqueues on the runtime's stream without involving the host; an update's report comes back in one struct.
 */
#ifndef LEARN_UPDATE_CUH
#define LEARN_UPDATE_CUH

#include "cuda/runtime.cuh"

extern "C" {
#include "base/envs.h"
#include "learn/learner.h"
#include "learn/report.h"
}

/* What policy and learner are made of. Read when they are created. */
struct policy_setup {
    const struct config *config;
    const struct learner *learner; /* its shape; its saved arrays and gradient, in device memory */
    const struct rollout *rollout; /* in device memory */
    struct env_part acting;        /* the envs of the rollout that act here */
    const uint32_t *step;          /* [1] in device memory: the clock */
    float *hidden, *cell;          /* [acting env][hidden] in device memory: the recurrent state of act */
    float *logits, *values;        /* [acting env][logits] and [acting env] in device memory: what act computes */
    bool exact;                    /* fp32 throughout */
};

/* What an update reports, as plain numbers on the device. The records lack what report_finish derives from the tally,
 * the names, the round and the time. */
struct ppo_device_report {
    struct update_report record;
    struct head_report heads[HEAD_COUNT];
    struct report_tally tally;
};

struct policy_device;

/* NULL after an error. */
struct policy_device *policy_device_create(struct runtime *rt, const struct policy_setup *setup);
void policy_device_free(struct policy_device *policy);

/* The step in progress: row *step of the rollout's state and bp; hidden and cell are replaced. */
void policy_device_act(struct policy_device *policy);

/* The share of the run that is done, for the next update. */
void policy_device_progress(struct policy_device *policy, double progress);

/* The whole update of learner_update. */
void policy_device_update(struct policy_device *policy);

/* Enqueue the copy of the last update's report to the host; after a wait, turn it into records (the caller sets their
 * round and seconds). */
void policy_device_fetch(struct policy_device *policy);
void policy_device_records(const struct policy_device *policy, struct update_report *record,
                           struct head_report heads[HEAD_COUNT]);

#endif
