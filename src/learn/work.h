/* What the files of the learner share: the arrays of an update. */
#ifndef LEARN_WORK_H
#define LEARN_WORK_H

#include "learn/learner.h"
#include "learn/loss.h"

/* Whole envs through all steps, [step][env]: the rollout, or a mini-batch of it. */
struct learner_batch {
    int envs, rows;
    float *state;
    int8_t *bp;
    uint8_t *reset;
    struct loss_row *row;
    float *ref; /* [step][env][HEAD_COUNT] log-probabilities before the first step */

    int valid; /* rows of it */
    struct loss_counts counts;

    /* The last pass over it. A mini-batch uses the rollout's arrays. */
    struct loss_view *view;
    float *logits, *dlogits; /* [step][env][logits] */
    float *value, *dvalue;
};

struct learner_work {
    struct learner_batch all, part; /* `part` with more than one mini-batch; state and bp of `all` are the rollout's */
    int32_t *order;                 /* [env] how the epoch deals them out */
    double *returns, *values, *td;  /* of the valid rows, contiguous, for statistics */
    double *advantages;             /* of those that had a choice */
    double *scratch;                /* [rows] */
    float *last_layer; /* the last layer of the value head as it was before the update: weights, then the bias */
};

#endif
