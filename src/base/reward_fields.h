/*
 * The fields of the reward, each a configuration key "reward.<name>". One list makes the struct, the keys
 * and their documentation.
 */
#ifndef BASE_REWARD_FIELDS_H
#define BASE_REWARD_FIELDS_H

#include <stdbool.h>

#include "base/vocabulary.h"

/* As the key reward.mode names them. */
#define REWARD_MODES(WORD, with)                                                                                       \
    WORD(with, SHAPED, shaped)                                                                                         \
    WORD(with, SIMPLIFIED, simplified)                                                                                 \
    WORD(with, SPARSE, sparse)                                                                                         \
    WORD(with, MINIMAL, minimal)                                                                                       \
    WORD(with, BASIC, basic)                                                                                           \
    WORD(with, BASIC_PLUS, basic_plus)                                                                                 \
    WORD(with, ESCROW, escrow)                                                                                         \
    WORD(with, LOSS, loss)                                                                                             \
    WORD(with, GAIN, gain)

enum reward_mode { REWARD_MODES(WORD_ENUM, REWARD) };
enum { REWARD_MODE_COUNT = REWARD_MODES(WORD_ONE, ) };

enum reward_rules { REWARD_RULES_ESPER, REWARD_RULES_ORIGINAL };

enum attribution_formula { ATTRIBUTION_HARMONIC, ATTRIBUTION_MINIMUM };

/* FIELD(name, min, max, default, help) */
#define REWARD_REALS(FIELD)                                                                                            \
    FIELD(price, 0, 1000, "0", "gain: points per 1000 parameters that the committed network adds")                     \
    FIELD(flop_price, 0, 1000, "0", "gain: points per multiple of the bare host's training FLOPs spent on seeds")      \
    FIELD(potential, 0, 1, "1", "gain: share of the lead over the twin that is advanced step by step")                 \
    FIELD(contribution_weight, 0, 100, "1", "weight of a seed's attribution")                                          \
    FIELD(proxy_confidence_factor, 0, 1, "0.3", "share of it paid on progress while the contribution is unmeasured")   \
    FIELD(improvement_safe_threshold, 0, 100, "0.1", "counterfactual gain below which a contribution is suspect")      \
    FIELD(hacking_ratio_threshold, 1, 1000, "5", "contribution over gain that counts as gaming")                       \
    FIELD(attribution_sigmoid_steepness, 0, 100, "3", "how fast a negative gain discounts attribution")                \
    FIELD(germination_warmup_epochs, 0, 1e6, "10", "seeds germinated before this step are paid less")                  \
    FIELD(germination_discount_floor, 0, 1, "0.4", "what the earliest seeds are paid")                                 \
    FIELD(escrow_stable_window, 1, 5, "3", "steps over which the score counts as stable")                              \
    FIELD(escrow_delta_clip, 0, 1000, "2", "maximum change of the escrow per step; 0 = no limit")                      \
    FIELD(pbrs_weight, 0, 100, "0.3", "weight of potential-based shaping")                                             \
    FIELD(epoch_progress_bonus, 0, 100, "0.3", "potential gained per step in a stage")                                 \
    FIELD(max_progress_bonus, 0, 100, "2", "maximum potential gained in a stage")                                      \
    FIELD(rent_weight, 0, 100, "0.5", "weight of the rent on added parameters")                                        \
    FIELD(max_rent, 0, 100, "1.5", "maximum rent per step")                                                            \
    FIELD(rent_host_params_floor, 1, 1e9, "200", "smaller hosts pay rent as if they had this many parameters")         \
    FIELD(base_slot_rent_ratio, 0, 1, "0.0039", "rent of an occupied slot, as a share of the host's parameters")       \
    FIELD(alpha_shock_coef, 0, 100, "0.1958", "cost of abrupt changes of alpha")                                       \
    FIELD(alpha_shock_cap, 0, 100, "1", "maximum of it per step")                                                      \
    FIELD(seed_occupancy_cost, 0, 100, "0.01", "cost per step of a seed beyond the free ones")                         \
    FIELD(free_slots, 0, 16, "1", "seeds without that cost")                                                           \
    FIELD(fossilized_maintenance_cost, 0, 100, "0.002", "cost per step of a fossil")                                   \
    FIELD(germinate_cost, -100, 100, "-0.15", "paid for GERMINATE")                                                    \
    FIELD(fossilize_cost, -100, 100, "-0.01", "paid for FOSSILIZE")                                                    \
    FIELD(prune_cost, -100, 100, "-0.005", "paid for PRUNE")                                                           \
    FIELD(set_alpha_target_cost, -100, 100, "-0.005", "paid for SET_ALPHA_TARGET")                                     \
    FIELD(invalid_fossilize_penalty, -100, 100, "-1", "FOSSILIZE outside HOLDING or unmeasured")                       \
    FIELD(prune_fossilized_penalty, -100, 100, "-1", "PRUNE of a fossil")                                              \
    FIELD(germinate_with_seed_penalty, -100, 100, "-0.3", "GERMINATE into an occupied slot")                           \
    FIELD(advance_from_training_penalty, -100, 100, "-0.1", "ADVANCE out of TRAINING")                                 \
    FIELD(auto_prune_penalty, -100, 100, "-0.2", "a seed that the governor removed")                                   \
    FIELD(fossilize_base_bonus, -100, 100, "0.5", "FOSSILIZE of a contributing seed")                                  \
    FIELD(fossilize_contribution_scale, -100, 100, "0.1", "the same, per point of contribution")                       \
    FIELD(fossilize_noncontributing_penalty, -100, 100, "-0.2", "FOSSILIZE of one that does not contribute")           \
    FIELD(fossilize_terminal_scale, -100, 100, "3", "scale of the immediate bonus of a fossil")                        \
    FIELD(fossilize_quality_ceiling, 1e-6, 1e6, "3", "where that bonus saturates")                                     \
    FIELD(prune_hurting_bonus, -100, 100, "0.15", "PRUNE of a seed that hurts")                                        \
    FIELD(prune_acceptable_bonus, -100, 100, "0.1", "PRUNE of one that hurts a little")                                \
    FIELD(prune_good_seed_penalty, -100, 100, "-0.3", "PRUNE of one that helps")                                       \
    FIELD(prune_hurting_threshold, -100, 100, "-0.5", "contribution below which a seed hurts")                         \
    FIELD(min_prune_bonus_age, 0, 1e6, "3", "age from which pruning can earn a bonus")                                 \
    FIELD(early_prune_threshold, 0, 1e6, "5", "age below which pruning is early")                                      \
    FIELD(early_prune_penalty, -100, 100, "-0.1", "an early PRUNE")                                                    \
    FIELD(terminal_acc_weight, -100, 100, "0.05", "paid at the last step per point of the validation score")           \
    FIELD(basic_acc_delta_weight, -1000, 1000, "5", "basic: weight of the points gained")                              \
    FIELD(basic_fossilize_base_bonus, -100, 100, "0.3", "basic: FOSSILIZE of a contributing seed")                     \
    FIELD(basic_contribution_scale, -100, 100, "0.5", "basic: the same, per point")                                    \
    FIELD(basic_fossilize_invalid_penalty, -100, 100, "-0.5", "basic: FOSSILIZE that is invalid or games")             \
    FIELD(basic_fossilize_noncontributing_penalty, -100, 100, "-0.2", "basic: FOSSILIZE without contribution")         \
    FIELD(param_budget, 1, 1e12, "500000", "parameters that count as the whole budget")                                \
    FIELD(param_penalty_weight, 0, 100, "0.1", "cost of spending the whole budget")                                    \
    FIELD(sparse_reward_scale, 1e-6, 1e6, "1", "sparse, minimal: scale of the terminal reward")                        \
    FIELD(drip_fraction, 0, 1, "0", "share of a fossil's bonus paid step by step; basic_plus turns 0 into 0.7")        \
    FIELD(max_drip_per_epoch, 1e-9, 100, "0.1", "maximum of that per step")                                            \
    FIELD(min_drip_epochs, 1, 1e6, "5", "minimum number of steps over which it is spread")                             \
    FIELD(negative_drip_ratio, 0, 1, "0.5", "share of the maximum that a harmful fossil pays back")                    \
    FIELD(loss_delta_weight, -1000, 1000, "5", "loss: weight of a change of the loss")                                 \
    FIELD(max_loss_delta, 0, 1000, "5", "loss: largest change that counts, in typical changes")                        \
    FIELD(regression_penalty_scale, 0, 100, "0.5", "loss: weight of a rise relative to a fall")                        \
    FIELD(typical_loss_delta_std, 1e-9, 1e6, "0.1", "loss: a typical change")                                          \
    FIELD(compute_rent_weight, 0, 100, "0.05", "loss: weight of the rent")                                             \
    FIELD(max_rent_penalty, 0, 100, "5", "loss: maximum rent per step")                                                \
    FIELD(grace_epochs, 0, 1e6, "3", "loss: steps before a new seed pays rent")                                        \
    FIELD(stage_potential_weight, 0, 100, "0.1", "loss: weight of the stages' potential")                              \
    FIELD(baseline_loss, -1e6, 1e6, "2.3", "loss: the loss of guessing")                                               \
    FIELD(target_loss, -1e6, 1e6, "0.3", "loss: the loss aimed at")                                                    \
    FIELD(terminal_loss_weight, -1000, 1000, "1", "loss: weight of the last loss")

#define REWARD_SWITCHES(FIELD)                                                                                         \
    FIELD(disable_timing_discount, "pay early seeds in full")                                                          \
    FIELD(disable_pbrs, "no potential-based shaping")                                                                  \
    FIELD(disable_terminal_reward, "no reward at the last step, no immediate fossil bonus")                            \
    FIELD(disable_anti_gaming, "no ratio penalty, no alpha shock")

struct reward_config {
    enum reward_mode mode;
    enum reward_rules rules;
    enum attribution_formula attribution_formula;
#define REWARD_REAL(name, min, max, initial, help) double name;
#define REWARD_SWITCH(name, help)                  bool name;
    REWARD_REALS(REWARD_REAL) REWARD_SWITCHES(REWARD_SWITCH)
#undef REWARD_REAL
#undef REWARD_SWITCH
};

#endif
