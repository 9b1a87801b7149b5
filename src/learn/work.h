/* What the files of the learner share: the arrays of an update, [step][env]. */
#ifndef LEARN_WORK_H
#define LEARN_WORK_H

#include "learn/learner.h"
#include "learn/loss.h"

struct learner_work {
    struct loss_row *row;
    struct loss_view *view;
    uint8_t *reset;
    float *logits, *dlogits; /* [step][env][logits] */
    float *value, *dvalue;
    float *ref;                                 /* [step][env][HEAD_COUNT] log-probabilities before the first step */
    double *advantages, *returns, *values, *td; /* of the valid rows, contiguous, for statistics */
    double *scratch;                            /* [rows] */
    float *last_layer; /* the last layer of the value head as it was before the update: weights, then the bias */
};

#endif
