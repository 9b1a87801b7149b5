/*
 * What a PPO update reports about itself and its heads. One list generates the learner's structs (learn/diagnostics.h),
 * the tables of the record and their documentation (telemetry/record.h, which defines the kinds of fields).
 */
#ifndef BASE_UPDATE_FIELDS_H
#define BASE_UPDATE_FIELDS_H

#include "base/vocabulary.h"

#define UPDATE_FIELDS(FIELD)                                                                                           \
    FIELD(INTEGER, rows, "rows of the rollout that were used")                                                         \
    FIELD(INTEGER, epochs, "optimiser steps taken; 0: the update was skipped")                                         \
    FIELD(INTEGER, early_stop, "epoch at which the KL divergence stopped the update, -1: it did not")                  \
    FIELD(INTEGER, nonfinite, "steps skipped because a number was not finite")                                         \
    FIELD(NUMBER, policy_loss, "policy loss, mean of the epochs")                                                      \
    FIELD(NUMBER, value_loss, "value loss, mean of the epochs")                                                        \
    FIELD(NUMBER, entropy, "weighted sum of the heads' entropies of q, mean of the epochs")                            \
    FIELD(NUMBER, entropy_coef, "entropy coefficient used")                                                            \
    FIELD(NUMBER, kl, "approximate KL divergence of an action that was a choice, nats, mean of the epochs")            \
    FIELD(NUMBER, clip_fraction, "share of rows whose joint ratio left the clip interval")                             \
    FIELD(NUMBER, ratio_mean, "joint ratio, mean")                                                                     \
    FIELD(NUMBER, ratio_max, "joint ratio, largest")                                                                   \
    FIELD(NUMBER, ratio_min, "joint ratio, smallest")                                                                  \
    FIELD(NUMBER, anchor_drift, "largest difference in log-probability between collection and unroll")                 \
    FIELD(NUMBER, grad_norm, "norm of the gradient before clipping, largest of the epochs")                            \
    FIELD(NUMBER, value_grad_norm, "the value head's part of it, in the last epoch")                                   \
    FIELD(NUMBER, explained_variance, "variance of the returns explained by the critic that acted, 1: all")            \
    FIELD(NUMBER, value_nrmse, "root mean square error of the critic divided by the spread of the returns")            \
    FIELD(NUMBER, value_correlation, "correlation of values and returns")                                              \
    FIELD(NUMBER, td_error_mean, "temporal-difference error, mean")                                                    \
    FIELD(NUMBER, td_error_std, "temporal-difference error, standard deviation")                                       \
    FIELD(NUMBER, bellman_error, "temporal-difference error, mean magnitude")                                          \
    FIELD(NUMBER, return_mean, "return, mean")                                                                         \
    FIELD(NUMBER, return_std, "return, standard deviation")                                                            \
    FIELD(NUMBER, return_p10, "return, 10th percentile")                                                               \
    FIELD(NUMBER, return_p50, "return, median")                                                                        \
    FIELD(NUMBER, return_p90, "return, 90th percentile")                                                               \
    FIELD(NUMBER, return_skewness, "return, skewness")                                                                 \
    FIELD(NUMBER, advantage_mean, "advantage before normalisation, mean over rows with a choice")                      \
    FIELD(NUMBER, advantage_std, "advantage before normalisation, standard deviation over these rows")                 \
    FIELD(NUMBER, advantage_positive, "share of them whose advantage is positive after normalisation")                 \
    FIELD(NUMBER, forced_ratio, "share of rows without a choice")                                                      \
    FIELD(NUMBER, value_mean, "value in units of the targets, mean")                                                   \
    FIELD(NUMBER, value_std, "value in units of the targets, standard deviation")                                      \
    FIELD(NUMBER, value_shift, "mean of the returns, subtracted to form the targets")                                  \
    FIELD(NUMBER, value_scale, "spread of the returns, divided by to form the targets")                                \
    FIELD(NUMBER, reward_scale, "running standard deviation that rewards are divided by")                              \
    FIELD(NUMBER, op_entropy, "normalised entropy of p in the op head over rows with a choice, 0 to 1")                \
    FIELD(NUMBER, hidden_rms, "root mean square of the recurrent state h after the rollout")                           \
    FIELD(NUMBER, cell_rms, "root mean square of the cell state c after the rollout")                                  \
    FIELD(NUMBER, seconds, "wall time of the update, s")

/* One head of an update. */
#define HEAD_FIELDS(FIELD)                                                                                             \
    FIELD(NAME, head, "head of the policy:" HEADS(WORD_LISTED, ))                                                      \
    FIELD(NUMBER, learnable, "share of rows where the head mattered and had a choice")                                 \
    FIELD(NUMBER, entropy, "normalised entropy of p over those rows, for the policy that acted, 0 to 1")               \
    FIELD(NUMBER, entropy_all, "the same over all rows; 0 where there was no choice")                                  \
    FIELD(NUMBER, kl, "approximate KL divergence over rows where the head counts, nats, mean of the epochs")           \
    FIELD(NUMBER, clip_fraction, "share of those rows whose ratio left the clip interval, mean of the epochs")         \
    FIELD(NUMBER, ratio_max, "its largest ratio")                                                                      \
    FIELD(NUMBER, ratio_min, "its smallest ratio")                                                                     \
    FIELD(NUMBER, log_prob_min, "smallest log-probability of a choice it made, nats")                                  \
    FIELD(NUMBER, grad_norm, "norm of the gradient of its layers before clipping, largest of the epochs")

#endif
