/* Slots for the tests of the rules: rows in a given stage, and seeds that have lived through the steps before it. */
#ifndef TESTS_TESTING_SLOTS_H
#define TESTS_TESTING_SLOTS_H

#include "cnn/shape.h"
#include "morph/action.h"
#include "testing.h"

static const struct gate_rules defaults = {true, true, true, true};
static const struct gate_rules manual = {true, false, false, false};
static const struct seed_size size = {592, 81};

/* Field by field: padding does not count. */
static inline bool slots_equal(const struct slot_state *a, const struct slot_state *b)
{
    bool equal = true;
#define FIELD_EQUAL(type, name) equal = equal && a->name == b->name;
    SLOT_FIELDS(FIELD_EQUAL)
    return equal;
}

static inline struct slot_state slot_in(int stage)
{
    struct slot_state slot;
    slot_clear(&slot);
    slot.stage = (uint8_t)stage;
    return slot;
}

static const struct gradient_sample healthy = {0.5, 1.0, 0.3, false, false};
static const struct action wait = {.op = OP_WAIT};
/* conv_light, ADD, 3 steps to alpha 1 */
static const struct action germinate = {.op = OP_GERMINATE, .blueprint = BLUEPRINT_CONV_LIGHT, .alpha_target = 2};

/* One step of the environment as the engine runs it; the effects of action and tick together. */
static inline uint32_t step(struct slot_state *slot, const struct gate_rules *rules, const struct action *action)
{
    if (stage_is_live(slot->stage))
        slot_record_accuracy(slot, 40.0 + slot->epochs_total);
    if (slot->stage == STAGE_TRAINING || slot->stage == STAGE_BLENDING)
        slot_record_gradient(slot, &healthy);
    struct action_result result = action_apply(slot, action, rules, size, NULL);
    assert_int_equal(result.success && !result.allowed, false);
    return result.effects | slot_tick(slot, rules, NULL);
}

/* A seed that default gates have brought to HOLDING. */
static inline struct slot_state slot_holding(const struct action *birth)
{
    struct slot_state slot;
    slot_clear(&slot);
    step(&slot, &defaults, birth);
    for (int i = 0; i < 30 && slot.stage != STAGE_HOLDING; i++)
        step(&slot, &defaults, &wait);
    assert_int_equal(slot.stage, STAGE_HOLDING);
    return slot;
}

static inline struct slot_state slot_fossil(void)
{
    struct slot_state slot = slot_holding(&germinate);
    slot_record_contribution(&slot, -3.0);
    const struct action fossilize = {.op = OP_FOSSILIZE};
    assert_true(action_apply(&slot, &fossilize, &defaults, size, NULL).success);
    return slot;
}

#endif
