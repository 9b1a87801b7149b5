/*
 * What a PPO update reports about itself and its heads. One list makes the learner's structs (learn/diagnostics.h), the
 * tables of the record and their documentation (telemetry/record.h, which says what the kinds of fields are).
 */
#ifndef BASE_UPDATE_FIELDS_H
#define BASE_UPDATE_FIELDS_H

#define UPDATE_FIELDS(FIELD)                                                                                           \
    FIELD(INTEGER, rows, "rows of the rollout that were used")                                                         \
    FIELD(INTEGER, epochs, "optimiser steps made; 0: the update was skipped")                                          \
    FIELD(INTEGER, early_stop, "epoch at which the divergence stopped the update, -1: none did")                       \
    FIELD(INTEGER, nonfinite, "epochs skipped because a number was not finite")                                        \
    FIELD(NUMBER, policy_loss, "policy loss, mean of the epochs")                                                      \
    FIELD(NUMBER, value_loss, "value loss, mean of the epochs")                                                        \
    FIELD(NUMBER, entropy, "weighted sum of the heads' entropies of q, mean of the epochs")                            \
    FIELD(NUMBER, entropy_coef, "the coefficient used")                                                                \
    FIELD(NUMBER, kl, "approximate divergence per head decision, mean of the epochs")                                  \
    FIELD(NUMBER, clip_fraction, "rows whose joint ratio left the clip interval")                                      \
    FIELD(NUMBER, ratio_mean, "joint ratio, mean")                                                                     \
    FIELD(NUMBER, ratio_max, "joint ratio, largest")                                                                   \
    FIELD(NUMBER, ratio_min, "joint ratio, smallest")                                                                  \
    FIELD(NUMBER, anchor_drift, "largest difference of log-probabilities between collection and unroll")               \
    FIELD(NUMBER, grad_norm, "norm of the gradient before clipping, largest of the epochs")                            \
    FIELD(NUMBER, value_grad_norm, "the value head's part of it, in the last epoch")                                   \
    FIELD(NUMBER, explained_variance, "of the returns, by the critic that acted")                                      \
    FIELD(NUMBER, value_nrmse, "root mean square error of the critic over the spread of the returns")                  \
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
    FIELD(NUMBER, advantage_mean, "advantage before normalisation, mean")                                              \
    FIELD(NUMBER, advantage_std, "advantage before normalisation, standard deviation")                                 \
    FIELD(NUMBER, advantage_positive, "share of positive advantages after normalisation")                              \
    FIELD(NUMBER, forced_ratio, "share of rows without a choice")                                                      \
    FIELD(NUMBER, value_mean, "value in units of the targets, mean")                                                   \
    FIELD(NUMBER, value_std, "value in units of the targets, standard deviation")                                      \
    FIELD(NUMBER, value_shift, "mean of returns that the targets subtract")                                            \
    FIELD(NUMBER, value_scale, "spread of returns that the targets divide by")                                         \
    FIELD(NUMBER, reward_scale, "running standard deviation that divides rewards")                                     \
    FIELD(NUMBER, op_entropy, "normalised entropy of p, op head, over rows with a choice")                             \
    FIELD(NUMBER, hidden_rms, "root mean square of the recurrent state h after the rollout")                           \
    FIELD(NUMBER, cell_rms, "root mean square of the cell state c after the rollout")                                  \
    FIELD(NUMBER, seconds, "wall time of the update, s")

/* One head in an update. */
#define HEAD_FIELDS(FIELD)                                                                                             \
    FIELD(NAME, head, "slot, blueprint, style, tempo, alpha_target, alpha_speed, alpha_curve or op")                   \
    FIELD(NUMBER, learnable, "share of rows where the head mattered and had a choice")                                 \
    FIELD(NUMBER, entropy, "normalised entropy of p over those rows, of the policy that acted, 0 to 1")                \
    FIELD(NUMBER, entropy_all, "the same over all rows; 0 where there was no choice")                                  \
    FIELD(NUMBER, kl, "approximate divergence over rows where it mattered, mean of the epochs")                        \
    FIELD(NUMBER, clip_fraction, "share of those whose ratio left the clip interval, mean of the epochs")              \
    FIELD(NUMBER, ratio_max, "its largest ratio")                                                                      \
    FIELD(NUMBER, ratio_min, "its smallest ratio")                                                                     \
    FIELD(NUMBER, log_prob_min, "smallest log-probability of what it chose, nats")                                     \
    FIELD(NUMBER, grad_norm, "norm of the gradient of its layers before clipping, largest of the epochs")

#endif
