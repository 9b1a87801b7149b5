/*
 * Runs the kernels of an update one by one, from host memory and back: the entry point for golden vectors. Rows are
 * those of a rollout, [step][env].
 */
#ifndef LEARN_UPDATE_TRIAL_H
#define LEARN_UPDATE_TRIAL_H

#ifdef __cplusplus
extern "C" {
#endif

#include "base/status.h"
#include "learn/gae.h"
#include "learn/loss.h"
#include "nn/adam.h"

enum update_part { UPDATE_ADVANTAGES, UPDATE_LOOK, UPDATE_DERIVE, UPDATE_ADAM };

struct update_trial {
    enum update_part part;
    int envs, steps;

    /* advantages */
    struct gae_rates rates;
    struct gae_rows rows;

    /* look, derive */
    const struct loss_rules *rules;
    const struct loss_row *row;
    const float *logits, *values;
    const float *ref;        /* [row][head]; NULL, for a look: those of the current policy */
    float *logp;             /* look: [row][head] its log-probabilities; 0 in rows that do not count */
    struct loss_totals sums; /* look */
    const struct loss_counts *counts;
    float *dlogits, *dvalues; /* derive */

    /* Adam */
    struct adam adam;
    size_t count;
    float factor;
    const float *g;
    float *w, *m, *v;
};

enum esper_status update_trial_run(struct update_trial *trial, struct esper_error *error);

#ifdef __cplusplus
}
#endif

#endif
