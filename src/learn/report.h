/*
 * What the epochs of an update report (L-13): gathered epoch by epoch, reduced at the end into the record of the update
 * and those of its heads. Means over the epochs that reach a figure, minima by min, maxima by max (T-10); what no epoch
 * reached stays NAN (L-13). The learner reads nothing of this.
 */
#ifndef LEARN_REPORT_H
#define LEARN_REPORT_H

#include "learn/work.h"

struct report_head {
    int looks;          /* passes in which the head counted on some row */
    double kl, clipped; /* sums over these of means over rows */
    double log_ratio_max, log_ratio_min, log_prob_min;
    double square_norm; /* the largest, of the gradient of the head's layers */
};

/* Sums over the passes: the epochs, or the mini-batches of each. Plain numbers: the device gathers the same. */
struct report_tally {
    struct report_head head[HEAD_COUNT];
    int looks; /* passes with finite outputs */
    double kl, clipped, ratio, ratio_max, ratio_min, value_mean, value_std;
    int losses; /* passes that came to a loss */
    double policy, value, entropy, grad_norm;
};

struct report {
    struct update_report *record;
    struct head_report *heads; /* [HEAD_COUNT] */
    struct loss_rules rules;
    struct report_tally tally;
};

/* Nothing gathered yet. */
void report_tally_clear(struct report_tally *tally);
/* Clears both records and gathers what depends on the rows of the rollout alone. */
void report_start(struct report *report, struct update_report *record, struct head_report heads[HEAD_COUNT],
                  const struct learner_batch *all, const struct loss_rules *rules);
/* The policy that acted, from the first forward pass over the rollout: the entropies of its heads. */
void report_policy(struct report *report, const struct learner_batch *all);
/* A forward pass, all of it finite, and the sums of its losses. */
void report_look(struct report *report, const struct learner_batch *batch, const struct loss_totals *sums);
/* A pass that made a step: its losses, and the norm of its gradient, which is in the learner, before clipping. */
void report_step(struct report *report, const struct learner *learner, const struct loss_totals *sums,
                 const struct loss_counts *counts, double grad_norm);
/* Writes what was gathered. */
void report_finish(const struct report_tally *tally, struct update_report *record,
                   struct head_report heads[HEAD_COUNT]);

#endif
