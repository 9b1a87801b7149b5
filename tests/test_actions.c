/* Actions: what may be requested of a slot and what follows; the rows that slots are kept in. */
#include "testing_slots.h"

/* ---- actions --------------------------------------------------------------------------------------------------- */

static void head_values(void **state)
{
    (void)state;
    const int tempo[] = {3, 5, 8}, speed[] = {0, 3, 5, 8};
    const float target[] = {0.5f, 0.7f, 1.0f}, steepness[] = {12, 12, 6, 12, 24};
    const int curve[] = {CURVE_LINEAR, CURVE_COSINE, CURVE_SIGMOID, CURVE_SIGMOID, CURVE_SIGMOID};
    for (int i = 0; i < TEMPO_COUNT; i++)
        assert_int_equal(tempo_steps(i), tempo[i]);
    for (int i = 0; i < ALPHA_SPEED_COUNT; i++)
        assert_int_equal(alpha_speed_steps(i), speed[i]);
    for (int i = 0; i < ALPHA_TARGET_COUNT; i++)
        assert_true(alpha_target_value(i) == target[i]);
    for (int i = 0; i < ALPHA_CURVE_COUNT; i++) {
        assert_int_equal(alpha_curve_choice(i).curve, curve[i]);
        assert_true(alpha_curve_choice(i).steepness == steepness[i]);
    }
    const int algorithm[] = {ALGORITHM_ADD, ALGORITHM_MULTIPLY, ALGORITHM_ADD, ALGORITHM_GATE};
    for (int i = 0; i < STYLE_COUNT; i++)
        assert_int_equal(style_algorithm(i), algorithm[i]);
}

static void preconditions(void **state)
{
    (void)state;
    for (int stage = 0; stage < STAGE_LIMIT; stage++) {
        for (int mode = ALPHA_HOLD; mode <= ALPHA_DOWN; mode++) {
            for (uint32_t age = 4; age <= 5; age++) {
                struct slot_state slot = slot_in(stage);
                slot.alpha_mode = (uint8_t)mode;
                slot.epochs_total = age;
                bool hold = mode == ALPHA_HOLD, prunable = stage == 2 || stage == 3 || stage == 4 || stage == 6;
                const bool expected[OP_COUNT] = {true,
                                                 stage == 1,
                                                 (stage == 4 || stage == 6) && hold,
                                                 prunable && hold && age >= 5,
                                                 stage == 6,
                                                 stage == 2 || stage == 3 || stage == 4};
                for (int op = 0; op < OP_COUNT; op++) {
                    struct action action = {.op = (uint8_t)op};
                    assert_int_equal(action_allowed(&slot, &action), expected[op]);
                }
            }
        }
    }
}

/* A head out of range is a refused action, not an out-of-bounds read. */
static void bad_heads_are_refused(void **state)
{
    (void)state;
    struct slot_state dormant = slot_in(STAGE_DORMANT), holding = slot_holding(&germinate);
    const struct action bad[] = {
        {.op = OP_COUNT},
        {.op = 255},
        {.op = OP_GERMINATE, .blueprint = BLUEPRINT_MAX},
        {.op = OP_GERMINATE, .style = STYLE_COUNT},
        {.op = OP_GERMINATE, .tempo = TEMPO_COUNT},
        {.op = OP_GERMINATE, .alpha_target = ALPHA_TARGET_COUNT},
        {.op = OP_SET_ALPHA_TARGET, .style = STYLE_COUNT},
        {.op = OP_SET_ALPHA_TARGET, .alpha_target = ALPHA_TARGET_COUNT},
        {.op = OP_SET_ALPHA_TARGET, .alpha_speed = ALPHA_SPEED_COUNT},
        {.op = OP_SET_ALPHA_TARGET, .alpha_curve = ALPHA_CURVE_COUNT},
        {.op = OP_PRUNE, .alpha_speed = ALPHA_SPEED_COUNT},
        {.op = OP_PRUNE, .alpha_curve = ALPHA_CURVE_COUNT},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct slot_state slot = bad[i].op == OP_GERMINATE ? dormant : holding, before = slot;
        struct action_result result = action_apply(&slot, &bad[i], &defaults, size, NULL);
        assert_false(result.allowed || result.success || result.effects);
        assert_true(slots_equal(&slot, &before));
    }
}

static void germination_stores_its_choices(void **state)
{
    (void)state;
    const struct action action = {.op = OP_GERMINATE,
                                  .blueprint = BLUEPRINT_BOTTLENECK,
                                  .style = STYLE_GATED_GATE,
                                  .tempo = 2,
                                  .alpha_target = 1};
    struct slot_state slot;
    slot_clear(&slot);
    struct action_result result = action_apply(&slot, &action, &manual, size, NULL);
    assert_true(result.success);
    assert_int_equal(result.effects, EFFECT_INIT_SEED);
    assert_int_equal(slot.stage, STAGE_GERMINATED);
    assert_int_equal(slot.blueprint, BLUEPRINT_BOTTLENECK);
    assert_int_equal(slot.algorithm, ALGORITHM_GATE);
    assert_int_equal(slot.tempo, 8);
    assert_true(slot.blend_target == 0.7f && slot.alpha == 0 && slot.alpha_target == 0);
    assert_int_equal(slot.germinations, 1);
    assert_int_equal(slot_exec_of(&slot).mode, SLOT_SKIP);
    assert_int_equal(slot_params(&slot), size.seed_params); /* the gate net is not born yet */
}

/* The gate net is born exactly when it starts to exist, and counts as long as it does. */
static void gate_net_comes_and_goes(void **state)
{
    (void)state;
    struct action gated = germinate;
    gated.style = STYLE_GATED_GATE;
    struct slot_state slot = slot_holding(&gated);
    assert_true(slot_has_gate(&slot) && slot_exec_of(&slot).gate);
    assert_int_equal(slot_params(&slot), size.seed_params + size.gate_params);
    struct action to_gate = {.op = OP_SET_ALPHA_TARGET, .style = STYLE_GATED_GATE, .alpha_target = 2};
    assert_int_equal(action_apply(&slot, &to_gate, &defaults, size, NULL).effects, 0); /* it is there already */
    struct action to_add = to_gate;
    to_add.style = STYLE_SIGMOID_ADD;
    assert_int_equal(action_apply(&slot, &to_add, &defaults, size, NULL).effects, 0);
    assert_false(slot_has_gate(&slot) || slot_exec_of(&slot).gate);
    assert_int_equal(slot_params(&slot), size.seed_params);
    assert_int_equal(action_apply(&slot, &to_gate, &defaults, size, NULL).effects, EFFECT_INIT_GATE);
    assert_int_equal(slot.stage, STAGE_HOLDING); /* a full target does not leave HOLDING */
    assert_true(slot.alpha == 1.0f);
}

static void fossilize_asks_its_gate(void **state)
{
    (void)state;
    struct slot_state slot = slot_holding(&germinate), before = slot;
    const struct action fossilize = {.op = OP_FOSSILIZE};
    struct action_result result = action_apply(&slot, &fossilize, &defaults, size, NULL);
    assert_true(result.allowed && !result.success);
    assert_true(slots_equal(&slot, &before));
    slot_record_contribution(&slot, 0.0);
    result = action_apply(&slot, &fossilize, &defaults, size, NULL);
    assert_true(result.success);
    assert_int_equal(result.effects, EFFECT_ZERO_MOMENTUM | EFFECT_SNAPSHOT);
    assert_int_equal(slot.stage, STAGE_FOSSILIZED);
    assert_true(slot.alpha == 1.0f && slot_exec_of(&slot).train); /* D-12: fossils keep training */
}

/* Verdict before change, change before consequence. */
static void log_order(void **state)
{
    (void)state;
    struct slot_state slot = slot_holding(&germinate), pruned = slot, empty = slot_in(STAGE_DORMANT);
    slot_record_contribution(&slot, 4.0);
    const struct action fossilize = {.op = OP_FOSSILIZE}, prune = {.op = OP_PRUNE};
    struct life_log log = {0};
    action_apply(&slot, &fossilize, &defaults, size, &log);
    assert_int_equal(log.count, 3);
    assert_int_equal(log.event[0].type, LIFE_GATE_EVALUATED);
    assert_int_equal(log.event[0].verdict.gate, GATE_G5);
    assert_true(log.event[0].verdict.pass && log.event[0].verdict.score == 0.4);
    assert_int_equal(log.event[1].type, LIFE_STAGE_CHANGED);
    assert_int_equal(log.event[1].from, STAGE_HOLDING);
    assert_int_equal(log.event[1].to, STAGE_FOSSILIZED);
    assert_int_equal(log.event[2].type, LIFE_FOSSILIZED);
    log.count = 0;
    action_apply(&pruned, &prune, &defaults, size, &log);
    slot_tick(&pruned, &defaults, &log);
    assert_int_equal(log.count, 3);
    assert_int_equal(log.event[0].type, LIFE_STAGE_CHANGED);
    assert_int_equal(log.event[1].type, LIFE_PRUNED);
    assert_int_equal(log.event[1].from, STAGE_HOLDING);
    assert_int_equal(log.event[1].reason, PRUNE_POLICY);
    assert_int_equal(log.event[2].to, STAGE_EMBARGOED);
    log.count = 0;
    action_apply(&empty, &germinate, &defaults, size, &log);
    slot_tick(&empty, &defaults, &log);
    const uint8_t expected[] = {LIFE_STAGE_CHANGED, LIFE_GERMINATED, LIFE_GATE_EVALUATED, LIFE_STAGE_CHANGED};
    assert_int_equal(log.count, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(log.event[i].type, expected[i]);
}

/* ---- rows ------------------------------------------------------------------------------------------------------ */

static void execution_follows_the_stage(void **state)
{
    (void)state;
    for (int stage = 0; stage < STAGE_LIMIT; stage++) {
        struct slot_state slot = slot_in(stage);
        slot.algorithm = ALGORITHM_GATE;
        slot.alpha = 0.25f;
        struct slot_exec exec = slot_exec_of(&slot);
        bool blended = stage == 4 || stage == 6 || stage == 7;
        assert_int_equal(exec.mode, stage == 3 ? SLOT_STE : blended ? SLOT_BLEND : SLOT_SKIP);
        assert_int_equal(exec.isolate, stage == 3); /* D-01 */
        assert_int_equal(exec.train, stage == 3 || blended);
        assert_int_equal(exec.gate, blended);
        assert_true(exec.alpha == 0.25f);
        slot.flags = SLOT_FROZEN;
        assert_false(slot_exec_of(&slot).train);
    }
}

/* Every field travels to its own array and back. */
static void rows_round_trip(void **state)
{
    (void)state;
    enum { COUNT = 3 };
    struct slot_arrays arrays;
#define FIELD_STORAGE(type, name)                                                                                      \
    type name##_storage[COUNT];                                                                                        \
    arrays.name = name##_storage;
    SLOT_FIELDS(FIELD_STORAGE)
    struct slot_state row[COUNT];
    int value = 0;
#define FIELD_FILL(type, name) row[i].name = (type)++value;
    for (int i = 0; i < COUNT; i++) {
        SLOT_FIELDS(FIELD_FILL)
        slot_store(&arrays, (size_t)i, &row[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        struct slot_state loaded = slot_load(&arrays, (size_t)i);
        assert_true(slots_equal(&loaded, &row[i]));
    }
    slot_clear(&row[0]);
    assert_int_equal(row[0].stage, STAGE_DORMANT);
    assert_int_equal(row[0].blueprint, BLUEPRINT_NONE);
    row[0].stage = row[0].blueprint = 0;
    struct slot_state zero = {0};
    assert_true(slots_equal(&row[0], &zero));
}

static void names(void **state)
{
    (void)state;
    assert_string_equal(stage_name(STAGE_RESETTING), "resetting");
    assert_string_equal(stage_name(STAGE_HOLDING), "holding");
    assert_string_equal(stage_name(5), "illegal");
    assert_string_equal(op_name(OP_ADVANCE), "advance");
    assert_string_equal(blueprint_name(BLUEPRINT_CONV_HEAVY), "conv_heavy");
    assert_string_equal(blueprint_name(BLUEPRINT_NONE), "none");
    assert_string_equal(style_name(STYLE_GATED_GATE), "gated_gate");
    assert_string_equal(algorithm_name(ALGORITHM_MULTIPLY), "multiply");
    assert_string_equal(prune_reason_name(PRUNE_GOVERNOR_LOBOTOMY), "governor_lobotomy");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_values),
        cmocka_unit_test(preconditions),
        cmocka_unit_test(bad_heads_are_refused),
        cmocka_unit_test(germination_stores_its_choices),
        cmocka_unit_test(gate_net_comes_and_goes),
        cmocka_unit_test(fossilize_asks_its_gate),
        cmocka_unit_test(log_order),
        cmocka_unit_test(execution_follows_the_stage),
        cmocka_unit_test(rows_round_trip),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests_name("actions", tests, NULL, NULL);
}
