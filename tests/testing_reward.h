/*
 * For the tests of the rewards: a source of random numbers, configurations, scenes, and an env that lives without a
 * network. Its accuracies come from an invented game between the seeds; everything else is the program's own:
 * lifecycle, subset table, reward.
 */
#ifndef TESTS_TESTING_REWARD_H
#define TESTS_TESTING_REWARD_H

#include <math.h>
#include <stdlib.h>

#include "base/config.h"
#include "cnn/blueprint.h"
#include "policy/tracker.h"
#include "reward/reward.h"
#include "testing.h"

#define GAMMA 0.995

static inline uint32_t draw_word(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static inline double draw(uint32_t *state, double low, double high)
{
    return low + (high - low) * (double)draw_word(state) * 0x1p-24;
}

static inline int draw_below(uint32_t *state, int limit)
{
    return (int)(draw_word(state) % (uint32_t)limit);
}

static inline struct reward_config rewards(enum reward_mode mode, enum reward_rules rules)
{
    static struct config config;
    config_defaults(&config);
    config.reward.mode = mode;
    config.reward.rules = rules;
    return config.reward;
}

static const enum reward_rules both[] = {REWARD_RULES_ORIGINAL, REWARD_RULES_ESPER};

/* ---- scenes ----------------------------------------------------------------------------------------------------- */

/* BLENDING for 3 steps, 14 old, at step 40 of 150, in a host of 100000: the record that tests change. */
static inline struct reward_scene scene_base(void)
{
    struct reward_scene scene = {.slots = 1, .step = 40, .steps = 150, .val_accuracy = 60, .stable_accuracy = 60};
    scene.committed_accuracy = 60;
    scene.host_params = scene.total_params = 100000;
    scene.active = 1;
    scene.seed[0] = (struct reward_seed){.live = true,
                                         .stage = STAGE_BLENDING,
                                         .epochs = 3,
                                         .previous_stage = STAGE_TRAINING,
                                         .previous_epochs = 10,
                                         .age = 14,
                                         .alpha = 1,
                                         .contribution = NAN,
                                         .gain = NAN,
                                         .birth = NAN};
    return scene;
}

static inline struct reward_scene scene_holding(int epochs)
{
    struct reward_scene scene = scene_base();
    scene.seed[0].stage = STAGE_HOLDING;
    scene.seed[0].epochs = epochs;
    scene.seed[0].previous_stage = STAGE_BLENDING;
    return scene;
}

static inline double pay(const struct reward_config *config, const struct reward_scene *scene,
                         double component[REWARD_COMPONENT_COUNT])
{
    struct reward_trace trace;
    return reward_mode(config, GAMMA, scene, component, &trace);
}

/* One component of a scene. */
static inline double paid(const struct reward_config *config, const struct reward_scene *scene, int which)
{
    double component[REWARD_COMPONENT_COUNT];
    pay(config, scene, component);
    return component[which];
}

/* ---- an env ----------------------------------------------------------------------------------------------------- */

enum { RIG_SLOTS = 6 };

struct rig {
    struct reward_config config;
    struct gate_rules gates;
    int slots, step, steps;
    uint32_t random;
    double effect[RIG_SLOTS]; /* points a seed adds at alpha 1 */
    double synergy, drift;    /* of each pair; of the host, per step */
    struct slot_state slot[RIG_SLOTS];
    struct reward_state state;
    struct reward_slot kept[RIG_SLOTS];
    struct reward_pairs pairs;
    struct tracker tracker;
    struct subsets subsets;
    double component[REWARD_COMPONENT_COUNT], reward;
    struct action_result result;
};

static inline void rig_begin(struct rig *rig, struct reward_config config, int slots, int steps, uint32_t seed)
{
    *rig = (struct rig){.config = config, .gates = {true, true, true, true}, .slots = slots, .steps = steps};
    rig->random = seed * 2654435761u + 1;
    rig->drift = 0.1;
    tracker_clear(&rig->tracker);
    reward_state_clear(&rig->state);
    reward_pairs_clear(&rig->pairs);
    for (int j = 0; j < slots; j++) {
        slot_clear(&rig->slot[j]);
        reward_slot_clear(&rig->kept[j]);
        rig->effect[j] = 3;
    }
}

static inline double rig_accuracy(const struct rig *rig, uint32_t mask)
{
    double sum = 40 + rig->drift * rig->step;
    for (int i = 0; i < rig->slots; i++) {
        double own = mask >> i & 1u ? (double)rig->slot[i].alpha : 0;
        sum += own * rig->effect[i];
        for (int j = i + 1; j < rig->slots; j++)
            sum += rig->synergy * own * (mask >> j & 1u ? (double)rig->slot[j].alpha : 0);
    }
    return fmin(fmax(sum, 0), 100);
}

/* Training, evaluation and the slots' bookkeeping. */
static inline void rig_measure(struct rig *rig)
{
    static const struct gradient_sample healthy = {0.5, 1.0, 0.3, false, false};
    uint32_t all = 0, fossils = 0;
    rig->step++;
    for (int j = 0; j < rig->slots; j++) {
        all |= (stage_is_live(rig->slot[j].stage) && rig->slot[j].alpha > 0 ? 1u : 0u) << j;
        fossils |= (rig->slot[j].stage == STAGE_FOSSILIZED ? 1u : 0u) << j;
    }
    subsets_plan(&rig->subsets, all, fossils);
    for (int k = 0; k < rig->subsets.count; k++)
        rig->subsets.score[k] = rig_accuracy(rig, rig->subsets.mask[k]);
    double accuracy = subset_score(&rig->subsets, all);
    tracker_update(&rig->tracker, 3 - accuracy / 50, accuracy);
    for (int j = 0; j < rig->slots; j++) {
        struct slot_state *slot = &rig->slot[j];
        if (stage_is_live(slot->stage))
            slot_record_accuracy(slot, accuracy);
        if (slot->stage == STAGE_TRAINING || slot->stage == STAGE_BLENDING)
            slot_record_gradient(slot, &healthy);
        slot->interaction_sum = all >> j & 1u ? subset_interaction(&rig->subsets, j) : 0;
        if (all >> j & 1u)
            slot_record_contribution(slot, subset_contribution(&rig->subsets, j));
    }
    reward_measured(rig->slots, rig->step, &rig->subsets, &rig->pairs);
}

static inline struct reward_env rig_env(const struct rig *rig, struct action action)
{
    struct reward_env env = {.slots = rig->slots,
                             .step = rig->step,
                             .steps = rig->steps,
                             .action = action,
                             .slot = rig->slot,
                             .subsets = &rig->subsets,
                             .val_loss = tracker_loss(&rig->tracker, 0),
                             .previous_loss = tracker_previous_loss(&rig->tracker),
                             .val_accuracy = tracker_accuracy(&rig->tracker, 0),
                             .previous_accuracy = tracker_previous_accuracy(&rig->tracker),
                             .first_accuracy = rig->tracker.first_accuracy,
                             .stable_accuracy = tracker_stable_accuracy(&rig->tracker, 3),
                             .host_params = 398,
                             .gates = rig->gates};
    return env;
}

/* Reward, action, tick. */
static inline double rig_act(struct rig *rig, struct action action)
{
    const struct seed_size size = {592, 81};
    struct reward_env env = rig_env(rig, action);
    rig->reward = reward_step(&rig->config, GAMMA, &env, &rig->state, rig->kept, rig->component);
    rig->result = action_apply(&rig->slot[action.slot], &action, &rig->gates, size, NULL);
    reward_executed(&rig->config, GAMMA, &env, &rig->result, &rig->state, rig->kept, &rig->pairs);
    for (int j = 0; j < rig->slots; j++)
        slot_tick(&rig->slot[j], &rig->gates, NULL);
    reward_ticked(&rig->config, GAMMA, rig->slots, rig->slot, &rig->state, rig->kept, &rig->pairs);
    return rig->reward;
}

static inline double rig_step(struct rig *rig, struct action action)
{
    rig_measure(rig);
    return rig_act(rig, action);
}

/* The governor's rollback instead of an action. */
static inline void rig_rollback(struct rig *rig)
{
    rig_measure(rig);
    for (int j = 0; j < rig->slots; j++)
        slot_rollback(&rig->slot[j], PRUNE_GOVERNOR_DIVERGENCE, NULL);
    reward_ticked(&rig->config, GAMMA, rig->slots, rig->slot, &rig->state, rig->kept, &rig->pairs);
}

static inline struct action rig_op(int op, int slot)
{
    struct action action = {.op = (uint8_t)op, .slot = (uint8_t)slot, .blueprint = BLUEPRINT_CONV_LIGHT};
    action.alpha_target = 2;
    return action;
}

/* Any action, valid or not, but rarely one that ends or delays a life. */
static inline struct action rig_random(struct rig *rig)
{
    int op = draw_below(&rig->random, OP_COUNT);
    if ((op == OP_PRUNE || op == OP_SET_ALPHA_TARGET) && draw_below(&rig->random, 6))
        op = OP_WAIT;
    struct action action = rig_op(op, draw_below(&rig->random, rig->slots));
    action.style = (uint8_t)draw_below(&rig->random, STYLE_COUNT);
    action.tempo = (uint8_t)draw_below(&rig->random, TEMPO_COUNT);
    action.alpha_target = (uint8_t)draw_below(&rig->random, ALPHA_TARGET_COUNT);
    action.alpha_speed = (uint8_t)draw_below(&rig->random, ALPHA_SPEED_COUNT);
    action.alpha_curve = (uint8_t)draw_below(&rig->random, ALPHA_CURVE_COUNT);
    return action;
}

/* WAIT until the slot is in that stage. */
static inline void rig_wait_for(struct rig *rig, int slot, int stage)
{
    for (int i = 0; i < 100 && rig->slot[slot].stage != stage; i++)
        rig_step(rig, rig_op(OP_WAIT, 0));
    assert_int_equal(rig->slot[slot].stage, stage);
}

#endif
