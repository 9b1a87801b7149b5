/*
 * What is written down: the rows of the run's record, as the rooms that know the numbers fill them and as the store
 * keeps them. One list per table makes the struct and the columns. Missing is NAN here and NULL there, never 0.
 *
 * INTEGER(name, what it is) and REAL(name, what it is); the unit is in the words.
 */
#ifndef TELEMETRY_RECORD_H
#define TELEMETRY_RECORD_H

#include <stdint.h>

#define ROUND_FIELDS(INTEGER, REAL)                                                                                    \
    INTEGER(round, "number of the round, from 0; evaluation episodes from 8388608")                                    \
    INTEGER(env_steps, "env-steps of the round")                                                                       \
    INTEGER(train_images, "images trained on in the round, all envs")                                                  \
    REAL(seconds, "wall time of the round, update included, s")                                                        \
    REAL(env_steps_per_s, "env-steps per second")                                                                      \
    REAL(images_per_s, "training images per second")                                                                   \
    REAL(val_accuracy_mean, "validation accuracy at the last step, mean of the envs, percent")                         \
    REAL(val_accuracy_best, "the best env's, percent")                                                                 \
    REAL(test_accuracy_mean, "test accuracy at the last step, mean of the envs, percent")                              \
    REAL(reward_mean, "sum of an episode's raw rewards, mean of the envs")                                             \
    INTEGER(germinated, "slots in stage GERMINATED at the end")                                                        \
    INTEGER(training, "slots in stage TRAINING at the end")                                                            \
    INTEGER(blending, "slots in stage BLENDING at the end")                                                            \
    INTEGER(holding, "slots in stage HOLDING at the end")                                                              \
    INTEGER(fossilized, "slots in stage FOSSILIZED at the end")                                                        \
    INTEGER(cooling, "slots in PRUNED, EMBARGOED or RESETTING at the end")                                             \
    INTEGER(germinations, "seeds germinated in the round")                                                             \
    INTEGER(fossilizations, "seeds fossilised in the round")                                                           \
    INTEGER(prunes, "seeds pruned in the round, by the policy or the governor")                                        \
    INTEGER(refusals, "actions that a gate refused")                                                                   \
    INTEGER(rollbacks, "rollbacks by the governor")                                                                    \
    INTEGER(unattributed, "rollbacks before any row of the episode: nothing to penalise")

/* One PPO update (ppo 12). */
#define PPO_FIELDS(INTEGER, REAL)                                                                                      \
    INTEGER(rows, "rows of the rollout that were used")                                                                \
    INTEGER(epochs, "optimiser steps made; 0: the update was skipped")                                                 \
    INTEGER(early_stop, "epoch at which the divergence stopped the update, -1: none did")                              \
    INTEGER(nonfinite, "epochs skipped because a number was not finite")                                               \
    REAL(policy_loss, "policy loss, mean of the epochs")                                                               \
    REAL(value_loss, "value loss, mean of the epochs")                                                                 \
    REAL(entropy, "weighted sum of the heads' entropies of q, mean of the epochs")                                     \
    REAL(entropy_coef, "the coefficient used")                                                                         \
    REAL(kl, "approximate divergence per head decision, mean of the epochs")                                           \
    REAL(clip_fraction, "rows whose joint ratio left the clip interval")                                               \
    REAL(ratio_mean, "joint ratio, mean")                                                                              \
    REAL(ratio_max, "joint ratio, largest")                                                                            \
    REAL(ratio_min, "joint ratio, smallest")                                                                           \
    REAL(anchor_drift, "largest difference of log-probabilities between collection and unroll")                        \
    REAL(grad_norm, "norm of the gradient before clipping, largest of the epochs")                                     \
    REAL(value_grad_norm, "the value head's part of it, in the last epoch")                                            \
    REAL(explained_variance, "of the returns, by the critic that acted")                                               \
    REAL(value_nrmse, "root mean square error of the critic over the spread of the returns")                           \
    REAL(value_correlation, "correlation of values and returns")                                                       \
    REAL(td_error_mean, "temporal-difference error, mean")                                                             \
    REAL(td_error_std, "temporal-difference error, standard deviation")                                                \
    REAL(bellman_error, "temporal-difference error, mean magnitude")                                                   \
    REAL(return_mean, "return, mean")                                                                                  \
    REAL(return_std, "return, standard deviation")                                                                     \
    REAL(return_p10, "return, 10th percentile")                                                                        \
    REAL(return_p50, "return, median")                                                                                 \
    REAL(return_p90, "return, 90th percentile")                                                                        \
    REAL(return_skewness, "return, skewness")                                                                          \
    REAL(advantage_mean, "advantage before normalisation, mean")                                                       \
    REAL(advantage_std, "advantage before normalisation, standard deviation")                                          \
    REAL(advantage_positive, "share of positive advantages after normalisation")                                       \
    REAL(forced_ratio, "share of rows without a choice")                                                               \
    REAL(value_mean, "value in units of the targets, mean")                                                            \
    REAL(value_std, "value in units of the targets, standard deviation")                                               \
    REAL(value_shift, "mean of returns that the targets subtract")                                                     \
    REAL(value_scale, "spread of returns that the targets divide by")                                                  \
    REAL(reward_scale, "running standard deviation that divides rewards")                                              \
    REAL(op_entropy, "normalised entropy of p, op head, over rows with a choice")                                      \
    REAL(slot_entropy, "the same, slot head")                                                                          \
    REAL(blueprint_entropy, "the same, blueprint head")                                                                \
    REAL(hidden_rms, "root mean square of the recurrent state h after the rollout")                                    \
    REAL(cell_rms, "root mean square of the cell state c after the rollout")                                           \
    REAL(seconds, "wall time of the update, s")

/* One episode. */
#define OUTCOME_FIELDS(INTEGER, REAL)                                                                                  \
    INTEGER(round, "number of the round")                                                                              \
    INTEGER(env, "env")                                                                                                \
    REAL(val_accuracy, "validation accuracy at the last step, percent")                                                \
    REAL(val_loss, "validation loss at the last step, nats")                                                           \
    REAL(test_accuracy, "test accuracy at the last step, percent")                                                     \
    REAL(reward, "sum of the episode's raw rewards")                                                                   \
    REAL(stability, "1 / (1 + variance of the last 20 raw rewards)")                                                   \
    INTEGER(host_params, "parameters of the host")                                                                     \
    INTEGER(added_params, "parameters of the live seeds at the end")                                                   \
    INTEGER(germinated, "seeds germinated in the episode")                                                             \
    INTEGER(fossilized, "fossils at the end")                                                                          \
    INTEGER(pruned, "seeds pruned in the episode")                                                                     \
    INTEGER(live, "live seeds at the end, fossils included")                                                           \
    INTEGER(rollbacks, "rollbacks by the governor in the episode")                                                     \
    INTEGER(success, "1 when the validation accuracy reached 80 percent")

#define ROLLBACK_FIELDS(INTEGER, REAL)                                                                                 \
    INTEGER(round, "number of the round")                                                                              \
    INTEGER(step, "step at which the governor panicked, from 1")                                                       \
    INTEGER(env, "env")                                                                                                \
    INTEGER(reason, "2 loss not finite, 3 lobotomy, 4 divergence (the prune reasons)")                                 \
    REAL(val_loss, "validation loss that caused it, nats")                                                             \
    INTEGER(attributed, "1 when a row of the episode took the penalty")                                                \
    INTEGER(seeds_lost, "live seeds removed by it")

#define RECORD_INTEGER(name, help) int64_t name;
#define RECORD_REAL(name, help)    double name;
struct round_record {
    ROUND_FIELDS(RECORD_INTEGER, RECORD_REAL)
};
struct ppo_record {
    PPO_FIELDS(RECORD_INTEGER, RECORD_REAL)
};
struct outcome_record {
    OUTCOME_FIELDS(RECORD_INTEGER, RECORD_REAL)
};
struct rollback_record {
    ROLLBACK_FIELDS(RECORD_INTEGER, RECORD_REAL)
};
#undef RECORD_INTEGER
#undef RECORD_REAL

#endif
