/*
 * The rows of the run's record, as the modules that know the numbers fill them in and as the store keeps them. One list
 * per table generates the struct, the columns and their documentation.
 *
 * FIELD(kind, name, description with the unit). A missing value is NULL in the record and never 0; here it is
 *   INTEGER   int64_t, never missing        NUMBER  double, NAN
 *   OPTIONAL  int64_t, RECORD_NONE          NAME    a string constant, NULL
 *   TEXT      char[RECORD_TEXT], ""         PASSAGE char[RECORD_PASSAGE], ""
 */
#ifndef TELEMETRY_RECORD_H
#define TELEMETRY_RECORD_H

#include <stdint.h>

#include "base/update_fields.h"
#include "base/vocabulary.h"

/* Changing these lists requires raising the version, user_version in the record. A new column must be of a kind that
 * can be missing: it is NULL in the rows of older records, which are read all the same (store_upgrade.c). */
#define STORE_VERSION 6
#define STORE_OLDEST  2 /* the oldest one that can be read */

#define RECORD_NONE INT64_MIN
enum { RECORD_TEXT = 48, RECORD_PASSAGE = 352 }; /* no row is longer than one of `step`: the rings hold thousands */

/* The record keeps the numbers of base/round.h; code that shows them to people passes them through round_shown. */
#define ROUND_NUMBER "number of the round, from 0, in evaluations from 8388608; screens and exports count from 1"

/* base/family_words.h names the scores of a family; the columns are the same for all. */
#define POINTS "percent; of text the score in points, 8 * (1 - points / 100) bits per byte"

#define STAGE_COUNT(FIELD, NAME, name, value) FIELD(INTEGER, name, "slots in stage " #NAME " at the end")

#define ROUND_FIELDS(FIELD)                                                                                            \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    FIELD(INTEGER, env_steps, "env-steps of the round")                                                                \
    FIELD(INTEGER, train_images, "images or windows of text trained on in the round, all envs")                        \
    FIELD(NUMBER, seconds, "wall time of the round, update included, s")                                               \
    FIELD(NUMBER, env_steps_per_s, "env-steps per second")                                                             \
    FIELD(NUMBER, images_per_s, "training images or windows per second")                                               \
    FIELD(NUMBER, val_accuracy_mean, "validation accuracy at the last step, mean of the envs, " POINTS)                \
    FIELD(NUMBER, val_accuracy_best, "validation accuracy of the best env at the last step, " POINTS)                  \
    FIELD(NUMBER, test_accuracy_mean, "test accuracy at the last step, mean of the envs, " POINTS)                     \
    FIELD(NUMBER, reward_mean, "sum of an episode's raw rewards, mean of the envs")                                    \
    LIVE_STAGES(STAGE_COUNT, FIELD)                                                                                    \
    FIELD(INTEGER, cooling, "slots in PRUNED, EMBARGOED or RESETTING at the end")                                      \
    FIELD(INTEGER, germinations, "seeds germinated in the round")                                                      \
    FIELD(INTEGER, fossilizations, "seeds fossilised in the round")                                                    \
    FIELD(INTEGER, prunes, "seeds pruned in the round, by the policy or the governor")                                 \
    FIELD(INTEGER, refusals, "actions that a gate refused")                                                            \
    FIELD(INTEGER, rollbacks, "rollbacks by the governor")                                                             \
    FIELD(INTEGER, unattributed, "rollbacks before the episode had any row: nothing to penalise")

/* One PPO update, and one head of it: what the learner reports, and the round. */
#define PPO_FIELDS(FIELD)                                                                                              \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    UPDATE_FIELDS(FIELD)

#define PPO_HEAD_FIELDS(FIELD)                                                                                         \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    HEAD_FIELDS(FIELD)

/* One env-step. */
#define OP_PROBABILITY(FIELD, NAME, name)                                                                              \
    FIELD(NUMBER, p_##name, "probability of " #name " as sampled; missing without a network")
#define REWARD_PART(FIELD, NAME, name, help) FIELD(NUMBER, name, "reward: " help)

#define STEP_FIELDS(FIELD)                                                                                             \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    FIELD(INTEGER, step, "step of the episode, from 1")                                                                \
    FIELD(INTEGER, env, "env")                                                                                         \
    FIELD(NAME, op, "what was decided:" OPS(WORD_LISTED, ))                                                            \
    FIELD(NAME, result, "done, refused (by a gate), void (impossible, so it became a wait) or rolled_back")            \
    FIELD(INTEGER, forced, "1 when there was no choice, or the network did not make it")                               \
    FIELD(OPTIONAL, slot, "slot of the op, from 0; this and the next ones are missing where the op does not use them") \
    FIELD(NAME, blueprint, "blueprint that was germinated")                                                            \
    FIELD(NAME, style, "how the seed blends in")                                                                       \
    FIELD(OPTIONAL, tempo, "length of its first alpha ramp, steps")                                                    \
    FIELD(NUMBER, alpha_target, "alpha that the ramp leads to")                                                        \
    FIELD(OPTIONAL, alpha_speed, "length of the ramp, steps; 0: at once")                                              \
    FIELD(NAME, alpha_curve, "shape of the ramp")                                                                      \
    OPS(OP_PROBABILITY, FIELD)                                                                                         \
    FIELD(NUMBER, log_probability, "log-probability of the decision over the heads that matter to it, nats")           \
    FIELD(NUMBER, entropy, "normalised entropy of the op head before its floor, 0 to 1")                               \
    FIELD(NUMBER, value, "the critic's value of the state, in units of its targets")                                   \
    FIELD(NUMBER, train_loss, "training loss of the step, nats")                                                       \
    FIELD(NUMBER, train_accuracy, "training accuracy of the step, " POINTS)                                            \
    FIELD(NUMBER, val_loss, "validation loss, nats")                                                                   \
    FIELD(NUMBER, val_accuracy, "validation accuracy, " POINTS)                                                        \
    FIELD(INTEGER, live, "live seeds before the decision")                                                             \
    FIELD(INTEGER, added_params, "their parameters")                                                                   \
    FIELD(NUMBER, reward, "raw reward: the sum of the components below; missing when rolled back")                     \
    REWARD_COMPONENTS(REWARD_PART, FIELD)

/* One live seed at one step, as it was before the decision. */
#define SEED_FIELDS(FIELD)                                                                                             \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    FIELD(INTEGER, step, "step of the episode, from 1")                                                                \
    FIELD(INTEGER, env, "env")                                                                                         \
    FIELD(INTEGER, slot, "slot, from 0")                                                                               \
    FIELD(INTEGER, germination, "which seed of the slot in this episode, from 1")                                      \
    FIELD(NAME, stage, "stage before the step's decision")                                                             \
    FIELD(NAME, blueprint, "its blueprint")                                                                            \
    FIELD(NAME, algorithm, "how it joins the host: add, multiply or gate")                                             \
    FIELD(INTEGER, params, "its parameters, including its gate net while it has one")                                  \
    FIELD(NUMBER, alpha, "its weight in the blend, 0 to 1")                                                            \
    FIELD(NUMBER, alpha_target, "alpha that the ramp leads to")                                                        \
    FIELD(INTEGER, age, "steps since germination")                                                                     \
    FIELD(INTEGER, stage_age, "steps in the stage")                                                                    \
    FIELD(NUMBER, improvement, "val_accuracy gained since the stage began, points")                                    \
    FIELD(NUMBER, contribution, "val_accuracy lost without it, points; missing: not measured")                         \
    FIELD(NUMBER, contribution_velocity, "running change of the contribution per step, points")                        \
    FIELD(NUMBER, interaction, "gain of it and the others together beyond each alone, points")                         \
    FIELD(NUMBER, share,                                                                                               \
          "its Shapley share of what all seeds add, points: exact up to 4 seeds, an approximation beyond")             \
    FIELD(NUMBER, share_error, "standard error where the share was sampled (last step, beyond 4 seeds), points")       \
    FIELD(NUMBER, grad_norm, "norm of its gradient in the step's last batch; missing: not measured or not finite")     \
    FIELD(NUMBER, grad_health,                                                                                         \
          "health score of that gradient, 0 to 1; frozen seeds have no gradient, which counts as healthy")             \
    FIELD(NUMBER, grad_ratio,                                                                                          \
          "ratio of its gradient to the host's, per parameter, running mean; missing after blending")                  \
    FIELD(OPTIONAL, vanishing, "1: that gradient is vanishing")                                                        \
    FIELD(OPTIONAL, exploding, "1: that gradient is exploding")

/* One event in a seed's life. */
#define LIFE_FIELDS(FIELD)                                                                                             \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    FIELD(INTEGER, step, "step of the episode, from 1")                                                                \
    FIELD(INTEGER, env, "env")                                                                                         \
    FIELD(INTEGER, slot, "slot, from 0")                                                                               \
    FIELD(INTEGER, ordinal, "position among the slot's events within the step, from 0")                                \
    FIELD(INTEGER, germination, "which seed of the slot in this episode, from 1")                                      \
    FIELD(NAME, event, "germinated, gate, stage, fossilized or pruned")                                                \
    FIELD(NAME, blueprint, "blueprint of the seed")                                                                    \
    FIELD(NAME, from_stage, "stage before")                                                                            \
    FIELD(NAME, to_stage, "stage after; for a gate, the stage requested")                                              \
    FIELD(NAME, reason, "pruned: what ordered it")                                                                     \
    FIELD(NAME, gate, "gate: G0 to G5")                                                                                \
    FIELD(OPTIONAL, passed, "gate: 1 when it opened")                                                                  \
    FIELD(TEXT, failed, "gate: the checks that failed")                                                                \
    FIELD(NUMBER, score, "gate: how good the seed looked, 0 to 1")

/* One result of the validation with some seeds switched off. */
#define SUBSET_FIELDS(FIELD)                                                                                           \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    FIELD(INTEGER, step, "step of the episode, from 1")                                                                \
    FIELD(INTEGER, env, "env")                                                                                         \
    FIELD(INTEGER, mask, "seeds that were on, bit j = slot j")                                                         \
    FIELD(INTEGER, correct, "validation images classified correctly; of text 0")                                       \
    FIELD(NUMBER, accuracy, "its validation accuracy, " POINTS)

/* One episode. */
#define OUTCOME_FIELDS(FIELD)                                                                                          \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    FIELD(INTEGER, env, "env")                                                                                         \
    FIELD(NUMBER, val_accuracy, "validation accuracy at the end of the committed network: host and fossils, " POINTS)  \
    FIELD(NUMBER, val_loss, "validation loss at the last step, all blended seeds included, nats")                      \
    FIELD(NUMBER, test_accuracy, "test accuracy of the committed network, " POINTS)                                    \
    FIELD(NUMBER, twin_accuracy,                                                                                       \
          "validation accuracy of the twin, the same host never grown; missing without, " POINTS)                      \
    FIELD(NUMBER, gain, "the objective: val_accuracy - twin_accuracy - price; missing without a twin, points")         \
    FIELD(NUMBER, reward, "sum of the episode's raw rewards")                                                          \
    FIELD(NUMBER, stability, "1 / (1 + variance of the last 20 raw rewards)")                                          \
    FIELD(INTEGER, host_params, "parameters of the host")                                                              \
    FIELD(INTEGER, added_params, "parameters of the fossils at the end")                                               \
    FIELD(NUMBER, forward_macs, "multiply-accumulates per image of the committed network")                             \
    FIELD(NUMBER, train_work, "training FLOPs of the episode, in those of the bare host")                              \
    FIELD(INTEGER, germinated, "seeds germinated in the episode")                                                      \
    FIELD(INTEGER, fossilized, "fossils at the end")                                                                   \
    FIELD(INTEGER, pruned, "seeds pruned in the episode")                                                              \
    FIELD(INTEGER, live, "live seeds at the end, fossils included")                                                    \
    FIELD(INTEGER, rollbacks, "rollbacks by the governor in the episode")                                              \
    FIELD(INTEGER, success, "1 when val_accuracy reached 80")                                                          \
    FIELD(OPTIONAL, images, "training images, or starts of windows, that the env had")                                 \
    FIELD(NUMBER, label_noise, "share of them with a wrong label")                                                     \
    FIELD(NUMBER, lr_factor, "factor of its learning rates")                                                           \
    FIELD(NUMBER, price, "points per 1000 parameters that growing cost it")                                            \
    FIELD(NAME, schedule, "what it followed, as --schedule takes it; missing where its policy chose")

#define ROLLBACK_FIELDS(FIELD)                                                                                         \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    FIELD(INTEGER, step, "step at which the governor panicked, from 1")                                                \
    FIELD(INTEGER, env, "env")                                                                                         \
    FIELD(NAME, reason, "governor_nan, governor_lobotomy or governor_divergence")                                      \
    FIELD(NUMBER, val_loss, "validation loss that caused it, nats")                                                    \
    FIELD(OPTIONAL, blamed_step, "step whose reward became the penalty; missing: there was none")                      \
    FIELD(NUMBER, penalty, "the reward that step has now")                                                             \
    FIELD(NUMBER, replaced, "the reward that step had")                                                                \
    FIELD(INTEGER, seeds_lost, "live seeds that the rollback removed")

#define ALERT_FIELDS(FIELD)                                                                                            \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    FIELD(NAME, rule, "name of the rule")                                                                              \
    FIELD(NAME, state, "raised or cleared; raised again when it becomes critical")                                     \
    FIELD(NAME, severity, "warn or critical; of a cleared alert, what it had been")                                    \
    FIELD(NUMBER, value, "the number that the rule watches, in this round")                                            \
    FIELD(NUMBER, threshold, "limit beyond which the number is bad")                                                   \
    FIELD(TEXT, text, "the alert in words")

#define CHECKPOINT_FIELDS(FIELD)                                                                                       \
    FIELD(TEXT, file, "name of the file")                                                                              \
    FIELD(NAME, kind, "periodic, stop, final or best")                                                                 \
    FIELD(INTEGER, round, "rounds done, in evaluations from 8388608 on")                                               \
    FIELD(INTEGER, step, "steps done in the next round")                                                               \
    FIELD(TEXT, hash, "hash of the training state, hexadecimal")                                                       \
    FIELD(INTEGER, bytes, "size of the file")                                                                          \
    FIELD(TEXT, written, "when it was written, ISO 8601, UTC")

#define SAMPLE_FIELDS(FIELD)                                                                                           \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    FIELD(INTEGER, env, "env whose network became the best of the run")                                                \
    FIELD(NUMBER, score, "its validation score, points")                                                               \
    FIELD(NUMBER, bits_per_byte, "the same in bits per byte")                                                          \
    FIELD(PASSAGE, text, "text that it writes, as `esper sample` does by default; what cannot be shown as \\xNN")

#define RANK_FIELDS(FIELD)                                                                                             \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    FIELD(INTEGER, rank, "which process of the run, from 0")                                                           \
    FIELD(TEXT, node, "name of its machine")                                                                           \
    FIELD(TEXT, device, "what it computes on")                                                                         \
    FIELD(INTEGER, first_env, "first of the envs that it plays")                                                       \
    FIELD(INTEGER, envs, "how many it plays")                                                                          \
    FIELD(NUMBER, busy, "time from the end of the round before to the end of its steps, less `waited`, s")             \
    FIELD(NUMBER, waited, "time that it then waited until the last rank was there, s")

#define PHASE_FIELDS(FIELD)                                                                                            \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    FIELD(INTEGER, step, "step of the episode, from 1; the last one includes the work after it")                       \
    FIELD(INTEGER, thread, "thread that did it, 0: the main thread")                                                   \
    FIELD(INTEGER, start_us, "start, microseconds since the run was created")                                          \
    FIELD(NAME, name, "name of the phase")                                                                             \
    FIELD(INTEGER, env, "env it was for, -1: all envs")                                                                \
    FIELD(INTEGER, duration_us, "duration, microseconds")

#define DROPS_FIELDS(FIELD)                                                                                            \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    FIELD(INTEGER, step, "steps done when the rows were counted")                                                      \
    FIELD(NAME, name, "name of the table")                                                                             \
    FIELD(NAME, reason, "full (the buffer was full) or thinned (left out on purpose)")                                 \
    FIELD(INTEGER, count, "rows missing since the previous count")                                                     \
    FIELD(OPTIONAL, first_sequence, "number of the first missing row, in order of emission")                           \
    FIELD(OPTIONAL, last_sequence, "number of the last missing row")

/*
 * The tables: KIND(NAME, name, lane, level, key, what a row is). Rows of the critical lane take precedence when there
 * are more than can be written; `level` is the lowest telemetry.level that keeps them.
 */
#define RECORD_KINDS(KIND)                                                                                             \
    KIND(ROUND, round, CRITICAL, OFF, "round", "one row per finished round")                                           \
    KIND(PPO, ppo, CRITICAL, NORMAL, "round", "one row per update of the policy")                                      \
    KIND(PPO_HEAD, ppo_head, CRITICAL, NORMAL, "round, head", "one row per head of the policy and update")             \
    KIND(STEP, step, BULK, NORMAL, "round, step, env", "one row per env-step")                                         \
    KIND(SEED, seed, BULK, NORMAL, "round, step, env, slot", "one row per live seed and step")                         \
    KIND(LIFE, life, CRITICAL, NORMAL, "round, step, env, slot, ordinal", "one row per event in a seed's life")        \
    KIND(SUBSET, subset, BULK, NORMAL, "round, step, env, mask", "one row per subset of seeds that was validated")     \
    KIND(OUTCOME, outcome, CRITICAL, OFF, "round, env", "one row per episode")                                         \
    KIND(ROLLBACK, rollback, CRITICAL, OFF, "round, step, env", "one row per rollback by the governor")                \
    KIND(ALERT, alert, CRITICAL, NORMAL, "round, rule", "one row per alert that a round raised or cleared")            \
    KIND(CHECKPOINT, checkpoint, CRITICAL, OFF, "file",                                                                \
         "one row per file written to checkpoints/, even if removed since")                                            \
    KIND(SAMPLE, sample, CRITICAL, NORMAL, "round",                                                                    \
         "one row per round of a run on text that ended with a better network than all before")                        \
    KIND(RANK, rank, CRITICAL, NORMAL, "round, rank", "one row per rank and round of a run that several ranks play")   \
    KIND(PHASE, phase, BULK, NORMAL, "round, step, thread, start_us, name, env", "one row per span of work")           \
    KIND(DROPS, drops, CRITICAL, OFF, "round, step, name, reason", "one row per count of missing rows")

#define RECORD_ENUM(NAME, name, lane, level, key, help) RECORD_##NAME,
enum record_kind { RECORD_KINDS(RECORD_ENUM) RECORD_KIND_COUNT };
#undef RECORD_ENUM

#define RECORD_MEMBER_INTEGER(name)     int64_t name;
#define RECORD_MEMBER_OPTIONAL(name)    int64_t name;
#define RECORD_MEMBER_NUMBER(name)      double name;
#define RECORD_MEMBER_NAME(name)        const char *name;
#define RECORD_MEMBER_TEXT(name)        char name[RECORD_TEXT];
#define RECORD_MEMBER_PASSAGE(name)     char name[RECORD_PASSAGE];
#define RECORD_MEMBER(kind, name, help) RECORD_MEMBER_##kind(name)
#define RECORD_STRUCT(NAME, name, lane, level, key, help)                                                              \
    struct name##_record {                                                                                             \
        NAME##_FIELDS(RECORD_MEMBER)                                                                                   \
    };
RECORD_KINDS(RECORD_STRUCT)
#undef RECORD_STRUCT
#undef RECORD_MEMBER

#define RECORD_VIEW(NAME, name, lane, level, key, help) struct name##_record name;
union record {
    RECORD_KINDS(RECORD_VIEW)
};
#undef RECORD_VIEW

/* A row on its way to the store: its table and its values. */
struct record_row {
    enum record_kind kind;
    union record record;
};

#endif
