/*
 * The policy and its learner on the device: policy_net_act and learner_update over the world's device arrays. Every
 * call enqueues on the context's stream without involving the host; an update's report comes back in one struct.
 */
#ifndef LEARN_UPDATE_CUH
#define LEARN_UPDATE_CUH

#include "cuda/context.cuh"

extern "C" {
#include "learn/report.h"
}

/* What an update reports, as plain numbers on the device. The records lack what report_finish derives from the tally,
 * the names, the round and the time. */
struct ppo_device_report {
    struct update_report record;
    struct head_report heads[HEAD_COUNT];
    struct report_tally tally;
};

struct policy_device;

/* logits [env][logits] and values [env], on the device, receive what act computes. NULL after an error. */
struct policy_device *policy_device_create(struct context *context, float *logits, float *values);
void policy_device_free(struct policy_device *policy);

/* The step in progress: row *world->step of the rollout's state and bp; the world's hidden and cell are replaced. */
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
