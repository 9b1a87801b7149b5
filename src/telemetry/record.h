/*
 * What is written down: the rows of the run's record, as the rooms that know the numbers fill them and as the store
 * keeps them. One list per table makes the struct, the columns and their documentation.
 *
 * FIELD(kind, name, what it is), the unit in the words. Missing is NULL in the record and never 0; here it is
 *   INTEGER   int64_t, never missing        NUMBER  double, NAN
 *   OPTIONAL  int64_t, RECORD_NONE          NAME    a string that lives for ever, NULL
 *   TEXT      char[RECORD_TEXT], ""
 */
#ifndef TELEMETRY_RECORD_H
#define TELEMETRY_RECORD_H

#include <stdint.h>

#include "base/update_fields.h"

#define RECORD_NONE INT64_MIN
enum { RECORD_TEXT = 48 };

/* The record keeps the numbers of base/round.h; whoever shows them to people passes them through round_shown. */
#define ROUND_NUMBER "number of the round, from 0, in evaluations from 8388608; screens and exports count from 1"

#define ROUND_FIELDS(FIELD)                                                                                            \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    FIELD(INTEGER, env_steps, "env-steps of the round")                                                                \
    FIELD(INTEGER, train_images, "images trained on in the round, all envs")                                           \
    FIELD(NUMBER, seconds, "wall time of the round, update included, s")                                               \
    FIELD(NUMBER, env_steps_per_s, "env-steps per second")                                                             \
    FIELD(NUMBER, images_per_s, "training images per second")                                                          \
    FIELD(NUMBER, val_accuracy_mean, "validation accuracy at the last step, mean of the envs, percent")                \
    FIELD(NUMBER, val_accuracy_best, "the best env's, percent")                                                        \
    FIELD(NUMBER, test_accuracy_mean, "test accuracy at the last step, mean of the envs, percent")                     \
    FIELD(NUMBER, reward_mean, "sum of an episode's raw rewards, mean of the envs")                                    \
    FIELD(INTEGER, germinated, "slots in stage GERMINATED at the end")                                                 \
    FIELD(INTEGER, training, "slots in stage TRAINING at the end")                                                     \
    FIELD(INTEGER, blending, "slots in stage BLENDING at the end")                                                     \
    FIELD(INTEGER, holding, "slots in stage HOLDING at the end")                                                       \
    FIELD(INTEGER, fossilized, "slots in stage FOSSILIZED at the end")                                                 \
    FIELD(INTEGER, cooling, "slots in PRUNED, EMBARGOED or RESETTING at the end")                                      \
    FIELD(INTEGER, germinations, "seeds germinated in the round")                                                      \
    FIELD(INTEGER, fossilizations, "seeds fossilised in the round")                                                    \
    FIELD(INTEGER, prunes, "seeds pruned in the round, by the policy or the governor")                                 \
    FIELD(INTEGER, refusals, "actions that a gate refused")                                                            \
    FIELD(INTEGER, rollbacks, "rollbacks by the governor")                                                             \
    FIELD(INTEGER, unattributed, "rollbacks before any row of the episode: nothing to penalise")

/* One PPO update, and one head in it: what the learner reports, and the round. */
#define PPO_FIELDS(FIELD)                                                                                              \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    UPDATE_FIELDS(FIELD)

#define PPO_HEAD_FIELDS(FIELD)                                                                                         \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    HEAD_FIELDS(FIELD)

/* One env-step. The reward's components are in their own order (reward/scene.h). */
#define STEP_FIELDS(FIELD)                                                                                             \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    FIELD(INTEGER, step, "step of the episode, from 1")                                                                \
    FIELD(INTEGER, env, "env")                                                                                         \
    FIELD(NAME, op, "what was decided: wait, germinate, set_alpha_target, prune, fossilize or advance")                \
    FIELD(NAME, result, "done, refused (by a gate), void (it could not be done: a wait instead) or rolled_back")       \
    FIELD(INTEGER, forced, "1 when there was no choice, or none by the network")                                       \
    FIELD(OPTIONAL, slot, "slot of the op, from 0; like the next ones missing where the op does not use it")           \
    FIELD(NAME, blueprint, "what was germinated")                                                                      \
    FIELD(NAME, style, "how it blends")                                                                                \
    FIELD(OPTIONAL, tempo, "steps of its first ramp")                                                                  \
    FIELD(NUMBER, alpha_target, "where alpha goes")                                                                    \
    FIELD(OPTIONAL, alpha_speed, "steps of the way, 0: at once")                                                       \
    FIELD(NAME, alpha_curve, "shape of the way")                                                                       \
    FIELD(NUMBER, p_wait, "probability of wait as sampled; missing without a network")                                 \
    FIELD(NUMBER, p_germinate, "probability of germinate as sampled; missing without a network")                       \
    FIELD(NUMBER, p_set_alpha_target, "probability of set_alpha_target as sampled; missing without a network")         \
    FIELD(NUMBER, p_prune, "probability of prune as sampled; missing without a network")                               \
    FIELD(NUMBER, p_fossilize, "probability of fossilize as sampled; missing without a network")                       \
    FIELD(NUMBER, p_advance, "probability of advance as sampled; missing without a network")                           \
    FIELD(NUMBER, log_probability, "of the decision, heads that matter to it, nats")                                   \
    FIELD(NUMBER, entropy, "normalised entropy of the op head before its floor, 0 to 1")                               \
    FIELD(NUMBER, value, "the critic of the state, in units of its targets")                                           \
    FIELD(NUMBER, train_loss, "training loss of the step, nats")                                                       \
    FIELD(NUMBER, train_accuracy, "training accuracy of the step, percent")                                            \
    FIELD(NUMBER, val_loss, "validation loss, nats")                                                                   \
    FIELD(NUMBER, val_accuracy, "validation accuracy, percent")                                                        \
    FIELD(INTEGER, live, "live seeds before the decision")                                                             \
    FIELD(INTEGER, added_params, "their parameters")                                                                   \
    FIELD(NUMBER, reward, "raw reward: the sum of what follows; missing when rolled back")                             \
    FIELD(NUMBER, attribution, "reward: for what seeds contribute")                                                    \
    FIELD(NUMBER, blending_warning, "reward: a blending seed that hurts")                                              \
    FIELD(NUMBER, holding_warning, "reward: a seed held too long")                                                     \
    FIELD(NUMBER, pbrs, "reward: potential-based shaping")                                                             \
    FIELD(NUMBER, synergy, "reward: seeds that help each other")                                                       \
    FIELD(NUMBER, rent, "reward: rent on added parameters")                                                            \
    FIELD(NUMBER, alpha_shock, "reward: abrupt changes of alpha")                                                      \
    FIELD(NUMBER, occupancy_rent, "reward: occupied slots beyond the free ones")                                       \
    FIELD(NUMBER, fossilized_rent, "reward: upkeep of fossils")                                                        \
    FIELD(NUMBER, action_shaping, "reward: price or bonus of the op")                                                  \
    FIELD(NUMBER, fossilize_bonus, "reward: immediate bonus of a fossil")                                              \
    FIELD(NUMBER, terminal, "reward: accuracy at the last step")                                                       \
    FIELD(NUMBER, terminal_fossil, "reward: fossils at the last step")                                                 \
    FIELD(NUMBER, drip, "reward: what a fossil pays step by step")                                                     \
    FIELD(NUMBER, loss_delta, "reward: change of the loss")                                                            \
    FIELD(NUMBER, escrow_forfeit, "reward: escrow taken back")                                                         \
    FIELD(NUMBER, germination_clawback, "reward: deposits of seeds that never blended")                                \
    FIELD(NUMBER, auto_prune, "reward: seeds the governor took")                                                       \
    FIELD(NUMBER, hindsight, "reward: thanks to scaffolds of a fossil")

/* One live seed at one step, as the decision found it. */
#define SEED_FIELDS(FIELD)                                                                                             \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    FIELD(INTEGER, step, "step of the episode, from 1")                                                                \
    FIELD(INTEGER, env, "env")                                                                                         \
    FIELD(INTEGER, slot, "slot, from 0")                                                                               \
    FIELD(INTEGER, germination, "which seed of the slot in this episode, from 1")                                      \
    FIELD(NAME, stage, "stage before the step's decision")                                                             \
    FIELD(NAME, blueprint, "what it is")                                                                               \
    FIELD(NAME, algorithm, "how it joins the host: add, multiply or gate")                                             \
    FIELD(INTEGER, params, "its parameters, with those of its gate net while it has one")                              \
    FIELD(NUMBER, alpha, "how much of it is heard, 0 to 1")                                                            \
    FIELD(NUMBER, alpha_target, "where alpha goes")                                                                    \
    FIELD(INTEGER, age, "steps since germination")                                                                     \
    FIELD(INTEGER, stage_age, "steps in the stage")                                                                    \
    FIELD(NUMBER, improvement, "validation accuracy gained since the stage began, points")                             \
    FIELD(NUMBER, contribution, "validation accuracy lost without it, points; missing: not measured")                  \
    FIELD(NUMBER, contribution_velocity, "its running change per step, points")                                        \
    FIELD(NUMBER, interaction, "what it and the others bring beyond each alone, points")                               \
    FIELD(NUMBER, share,                                                                                               \
          "its Shapley share in what all seeds bring, points: exact to 4 seeds, beyond them half a sum")               \
    FIELD(NUMBER, share_error, "standard error where the share was sampled (last step, beyond 4 seeds), points")       \
    FIELD(NUMBER, grad_norm, "norm of its gradient in the step's last batch; missing: not measured or not finite")     \
    FIELD(NUMBER, grad_health, "health of that gradient, 0 to 1; frozen seeds have none, which is healthy")            \
    FIELD(NUMBER, grad_ratio, "its gradient against the host's, per parameter, running mean; missing after blending")  \
    FIELD(OPTIONAL, vanishing, "1: that gradient vanishes")                                                            \
    FIELD(OPTIONAL, exploding, "1: that gradient explodes")

/* What happened to a seed. */
#define LIFE_FIELDS(FIELD)                                                                                             \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    FIELD(INTEGER, step, "step of the episode, from 1")                                                                \
    FIELD(INTEGER, env, "env")                                                                                         \
    FIELD(INTEGER, slot, "slot, from 0")                                                                               \
    FIELD(INTEGER, ordinal, "order of events of the slot within the step, from 0")                                     \
    FIELD(INTEGER, germination, "which seed of the slot in this episode, from 1")                                      \
    FIELD(NAME, event, "germinated, gate, stage, fossilized or pruned")                                                \
    FIELD(NAME, blueprint, "what the seed is")                                                                         \
    FIELD(NAME, from_stage, "stage before")                                                                            \
    FIELD(NAME, to_stage, "stage after; of a gate: the stage asked for")                                               \
    FIELD(NAME, reason, "pruned: who ordered it")                                                                      \
    FIELD(NAME, gate, "gate: G0 to G5")                                                                                \
    FIELD(OPTIONAL, passed, "gate: 1 when it opened")                                                                  \
    FIELD(TEXT, failed, "gate: the checks that failed")                                                                \
    FIELD(NUMBER, score, "gate: how good the seed looked, 0 to 1")

/* One line of the validation with seeds switched off. */
#define SUBSET_FIELDS(FIELD)                                                                                           \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    FIELD(INTEGER, step, "step of the episode, from 1")                                                                \
    FIELD(INTEGER, env, "env")                                                                                         \
    FIELD(INTEGER, mask, "seeds that were on, bit j = slot j")                                                         \
    FIELD(INTEGER, correct, "validation images classified correctly")                                                  \
    FIELD(NUMBER, accuracy, "the same, percent")

/* One episode. */
#define OUTCOME_FIELDS(FIELD)                                                                                          \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    FIELD(INTEGER, env, "env")                                                                                         \
    FIELD(NUMBER, val_accuracy, "validation accuracy at the last step, percent")                                       \
    FIELD(NUMBER, val_loss, "validation loss at the last step, nats")                                                  \
    FIELD(NUMBER, test_accuracy, "test accuracy at the last step, percent")                                            \
    FIELD(NUMBER, reward, "sum of the episode's raw rewards")                                                          \
    FIELD(NUMBER, stability, "1 / (1 + variance of the last 20 raw rewards)")                                          \
    FIELD(INTEGER, host_params, "parameters of the host")                                                              \
    FIELD(INTEGER, added_params, "parameters of the live seeds at the end")                                            \
    FIELD(INTEGER, germinated, "seeds germinated in the episode")                                                      \
    FIELD(INTEGER, fossilized, "fossils at the end")                                                                   \
    FIELD(INTEGER, pruned, "seeds pruned in the episode")                                                              \
    FIELD(INTEGER, live, "live seeds at the end, fossils included")                                                    \
    FIELD(INTEGER, rollbacks, "rollbacks by the governor in the episode")                                              \
    FIELD(INTEGER, success, "1 when the validation accuracy reached 80 percent")

#define ROLLBACK_FIELDS(FIELD)                                                                                         \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    FIELD(INTEGER, step, "step at which the governor panicked, from 1")                                                \
    FIELD(INTEGER, env, "env")                                                                                         \
    FIELD(NAME, reason, "governor_nan, governor_lobotomy or governor_divergence")                                      \
    FIELD(NUMBER, val_loss, "validation loss that caused it, nats")                                                    \
    FIELD(OPTIONAL, blamed_step, "step whose reward became the penalty; missing: there was none")                      \
    FIELD(NUMBER, penalty, "the reward it has now")                                                                    \
    FIELD(NUMBER, replaced, "the reward it had")                                                                       \
    FIELD(INTEGER, seeds_lost, "live seeds removed by it")

#define ALERT_FIELDS(FIELD)                                                                                            \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    FIELD(NAME, rule, "what was looked at")                                                                            \
    FIELD(NAME, state, "raised or cleared; raised again when it becomes critical")                                     \
    FIELD(NAME, severity, "warn or critical; of a cleared one: what it was")                                           \
    FIELD(NUMBER, value, "what it was in this round")                                                                  \
    FIELD(NUMBER, threshold, "from where on it is bad")                                                                \
    FIELD(TEXT, text, "the same in words")

#define CHECKPOINT_FIELDS(FIELD)                                                                                       \
    FIELD(TEXT, file, "its name")                                                                                      \
    FIELD(NAME, kind, "periodic, stop, final or best")                                                                 \
    FIELD(INTEGER, round, "rounds done, in evaluations from 8388608 on")                                               \
    FIELD(INTEGER, step, "steps done of the next round")                                                               \
    FIELD(TEXT, hash, "of the training state, hexadecimal")                                                            \
    FIELD(INTEGER, bytes, "size of the file")                                                                          \
    FIELD(TEXT, written, "ISO 8601, UTC")

#define PHASE_FIELDS(FIELD)                                                                                            \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    FIELD(INTEGER, step, "step of the episode, from 1; the last: also what follows it")                                \
    FIELD(INTEGER, thread, "who did it, 0 is the main one")                                                            \
    FIELD(INTEGER, start_us, "when it began, microseconds since the run was created")                                  \
    FIELD(NAME, name, "what was done")                                                                                 \
    FIELD(INTEGER, env, "for which env, -1: for all of them")                                                          \
    FIELD(INTEGER, duration_us, "how long it took, microseconds")

#define DROPS_FIELDS(FIELD)                                                                                            \
    FIELD(INTEGER, round, ROUND_NUMBER)                                                                                \
    FIELD(INTEGER, step, "steps done when it was counted")                                                             \
    FIELD(NAME, name, "the table")                                                                                     \
    FIELD(NAME, reason, "full (the buffer was) or thinned (on purpose)")                                               \
    FIELD(INTEGER, count, "rows missing since the count before")                                                       \
    FIELD(OPTIONAL, first_sequence, "number of the first one, in order of emission")                                   \
    FIELD(OPTIONAL, last_sequence, "number of the last one")

/*
 * The tables: KIND(NAME, name, lane, level, key, what a row is). Rows of the critical lane come first when there are
 * more than can be written; `level` is the least telemetry.level that keeps them.
 */
#define RECORD_KINDS(KIND)                                                                                             \
    KIND(ROUND, round, CRITICAL, OFF, "round", "one row per finished round")                                           \
    KIND(PPO, ppo, CRITICAL, NORMAL, "round", "one row per round that was learned from")                               \
    KIND(PPO_HEAD, ppo_head, CRITICAL, NORMAL, "round, head", "one row per head of the policy and such a round")       \
    KIND(STEP, step, BULK, NORMAL, "round, step, env", "one row per env-step")                                         \
    KIND(SEED, seed, BULK, NORMAL, "round, step, env, slot", "one row per live seed and step")                         \
    KIND(LIFE, life, CRITICAL, NORMAL, "round, step, env, slot, ordinal", "one row per event in a seed's life")        \
    KIND(SUBSET, subset, BULK, NORMAL, "round, step, env, mask", "one row per set of seeds that was validated")        \
    KIND(OUTCOME, outcome, CRITICAL, OFF, "round, env", "one row per episode")                                         \
    KIND(ROLLBACK, rollback, CRITICAL, OFF, "round, step, env", "one row per rollback by the governor")                \
    KIND(ALERT, alert, CRITICAL, NORMAL, "round, rule", "one row per alert that a round raised or cleared")            \
    KIND(CHECKPOINT, checkpoint, CRITICAL, OFF, "file", "one row per file written to checkpoints/, removed ones too")  \
    KIND(PHASE, phase, BULK, NORMAL, "round, step, thread, start_us, name, env", "one row per span of work")           \
    KIND(DROPS, drops, CRITICAL, OFF, "round, step, name, reason", "one row per count of rows that are missing")

#define RECORD_ENUM(NAME, name, lane, level, key, help) RECORD_##NAME,
enum record_kind { RECORD_KINDS(RECORD_ENUM) RECORD_KIND_COUNT };
#undef RECORD_ENUM

#define RECORD_MEMBER_INTEGER(name)     int64_t name;
#define RECORD_MEMBER_OPTIONAL(name)    int64_t name;
#define RECORD_MEMBER_NUMBER(name)      double name;
#define RECORD_MEMBER_NAME(name)        const char *name;
#define RECORD_MEMBER_TEXT(name)        char name[RECORD_TEXT];
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

/* A row on its way: of which table, and what it says. */
struct record_row {
    enum record_kind kind;
    union record record;
};

#endif
