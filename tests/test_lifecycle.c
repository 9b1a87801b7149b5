/* The life of a seed: transitions, the tick and pruning (I-41, I-43 to I-46 and the rulings they rest on). */
#include "testing_slots.h"

/* ---- transitions ----------------------------------------------------------------------------------------------- */

static void i41_only_the_listed_transitions(void **state)
{
    (void)state;
    const int legal[][2] = {{0, 1}, {1, 2}, {2, 3}, {2, 8}, {3, 4}, {3, 8},  {4, 6},
                            {4, 8}, {6, 7}, {6, 4}, {6, 8}, {8, 9}, {9, 10}, {10, 1}};
    for (int from = 0; from < STAGE_LIMIT; from++) {
        for (int to = -1; to < STAGE_LIMIT + 2; to++) {
            bool expected = false;
            for (size_t i = 0; i < sizeof legal / sizeof legal[0]; i++)
                expected = expected || (legal[i][0] == from && legal[i][1] == to);
            struct slot_state slot = slot_in(from), before = slot;
            assert_int_equal(slot_transition(&slot, to, NULL), expected);
            if (!expected)
                assert_true(slots_equal(&slot, &before));
        }
    }
    assert_false(stage_may_follow(-1, 1));
    assert_false(stage_may_follow(STAGE_LIMIT, 1));
    assert_false(stage_is_legal(5));
}

static void i41_fossils_stay(void **state)
{
    (void)state;
    struct slot_state slot = slot_fossil(), before = slot;
    uint32_t effects = 0;
    assert_false(slot_prune(&slot, PRUNE_POLICY, NULL, &effects));
    assert_int_equal(slot_rollback(&slot, PRUNE_GOVERNOR_NAN, NULL), 0);
    assert_int_equal(effects, 0);
    for (int op = OP_GERMINATE; op < OP_COUNT; op++) {
        struct action action = {.op = (uint8_t)op};
        assert_false(action_apply(&slot, &action, &defaults, size, NULL).allowed);
    }
    assert_true(slots_equal(&slot, &before));
}

static void i46_transition_bookkeeping(void **state)
{
    (void)state;
    struct slot_state slot = slot_in(STAGE_TRAINING);
    slot.epochs_in_stage = 12;
    slot.acc_current = 61.5;
    assert_true(slot_transition(&slot, STAGE_BLENDING, NULL));
    assert_int_equal(slot.prev_stage, STAGE_TRAINING);
    assert_int_equal(slot.prev_epochs_in_stage, 12);
    assert_int_equal(slot.epochs_in_stage, 0);
    assert_true(slot.acc_stage_start == 61.5);
}

/* ---- the tick -------------------------------------------------------------------------------------------------- */

/* The default gates: germinated at step t, training in t+1 ... t+10, blending from t+11 on. */
static void i43_timing_of_growth(void **state)
{
    (void)state;
    struct slot_state slot;
    slot_clear(&slot);
    assert_int_equal(step(&slot, &defaults, &germinate), EFFECT_INIT_SEED);
    for (int later = 1; later <= 10; later++) {
        assert_int_equal(slot_exec_of(&slot).mode, SLOT_STE); /* what step t+later trains with */
        assert_int_equal(slot.epochs_in_stage, later - 1);
        step(&slot, &defaults, &wait);
    }
    const float ramp[] = {1.0f / 3, 2.0f / 3};
    for (int later = 11; later <= 12; later++) { /* D-09: blended in from the first step on */
        assert_int_equal(slot_exec_of(&slot).mode, SLOT_BLEND);
        assert_int_equal(slot.stage, STAGE_BLENDING);
        assert_true(slot_exec_of(&slot).alpha == ramp[later - 11]);
        step(&slot, &defaults, &wait);
    }
    assert_int_equal(slot.stage, STAGE_HOLDING);
    assert_true(slot.alpha == 1.0f && slot.alpha_start == 1.0f && slot.alpha_target == 1.0f);
    assert_int_equal(slot.steps_done, slot.steps_total);
}

/* D-09: by command or by itself, a seed that enters BLENDING has taken exactly one alpha step when the tick is over. */
static void d09_first_alpha_step_on_every_path(void **state)
{
    (void)state;
    const struct action advance = {.op = OP_ADVANCE};
    for (int style = 0; style < STYLE_COUNT; style++) {
        struct action birth = germinate;
        birth.style = (uint8_t)style;
        struct slot_state told, alone;
        slot_clear(&told);
        slot_clear(&alone);
        step(&alone, &defaults, &birth);
        step(&told, &manual, &birth);
        assert_int_equal(told.stage, STAGE_GERMINATED);
        step(&told, &manual, &advance);
        uint32_t told_effects = 0, alone_effects = 0;
        for (int i = 0; i < 10; i++) {
            told_effects = step(&told, &manual, i == 9 ? &advance : &wait);
            alone_effects = step(&alone, &defaults, &wait);
        }
        assert_int_equal(told.stage, STAGE_BLENDING);
        assert_int_equal(alone.stage, STAGE_BLENDING);
        assert_int_equal(told.steps_done, 1);
        assert_int_equal(alone.steps_done, 1);
        assert_true(told.alpha > 0 && told.alpha == alone.alpha);
        assert_int_equal(told_effects, alone_effects);
        assert_int_equal(told_effects, style == STYLE_GATED_GATE ? EFFECT_INIT_GATE : 0);
        assert_int_equal(told.alpha_curve, style == STYLE_SIGMOID_ADD ? CURVE_SIGMOID : CURVE_LINEAR);
        assert_true(slot_has(&told, SLOT_BLENDING_STARTED) && told.acc_blend_start == told.acc_current);
    }
}

static void i43_nothing_moves_by_itself(void **state)
{
    (void)state;
    struct slot_state holding = slot_holding(&germinate), fossil = slot_fossil();
    for (int i = 0; i < 300; i++) {
        slot_record_contribution(&holding, i % 2 ? -50.0 : 50.0);
        slot_record_contribution(&fossil, -50.0);
        step(&holding, &defaults, &wait);
        step(&fossil, &defaults, &wait);
        assert_int_equal(holding.stage, STAGE_HOLDING);
        assert_int_equal(fossil.stage, STAGE_FOSSILIZED);
    }
    struct slot_state dormant = slot_in(STAGE_DORMANT), before = dormant, slot;
    slot_tick(&dormant, &defaults, NULL);
    assert_true(slots_equal(&dormant, &before));
    slot_clear(&slot);
    step(&slot, &manual, &germinate);
    for (int i = 0; i < 30; i++)
        step(&slot, &manual, &wait);
    assert_int_equal(slot.stage, STAGE_GERMINATED);
    slot_transition(&slot, STAGE_TRAINING, NULL);
    for (int i = 0; i < 30; i++)
        step(&slot, &manual, &wait);
    assert_int_equal(slot.stage, STAGE_TRAINING);
}

static void i43_partial_target_never_holds(void **state)
{
    (void)state;
    struct action partial = germinate;
    partial.alpha_target = 1;
    struct slot_state slot;
    slot_clear(&slot);
    step(&slot, &defaults, &partial);
    for (int i = 0; i < 100; i++)
        step(&slot, &defaults, &wait);
    assert_int_equal(slot.stage, STAGE_BLENDING);
    assert_true(slot.alpha == 0.7f);
    const struct action full = {.op = OP_SET_ALPHA_TARGET, .alpha_target = 2, .alpha_speed = 1};
    for (int i = 0; i < 3; i++)
        step(&slot, &defaults, i ? &wait : &full);
    assert_int_equal(slot.stage, STAGE_HOLDING);
}

/* Strict rules hold a blended seed back until it has been BLENDING for ten epochs. */
static void i43_strict_dwell_before_holding(void **state)
{
    (void)state;
    const struct gate_rules strict = {false, true, true, true};
    struct slot_state slot;
    slot_clear(&slot);
    step(&slot, &strict, &germinate);
    int blending = 0;
    for (int i = 0; i < 40 && slot.stage != STAGE_HOLDING; i++) {
        struct slot_state watched = slot;
        struct life_log log = {0};
        slot_tick(&watched, &strict, &log); /* before its time a gate is not even checked */
        assert_true(slot.epochs_in_stage >= 10 || log.count == 0);
        blending += slot.stage == STAGE_BLENDING;
        step(&slot, &strict, &wait);
    }
    assert_int_equal(slot.stage, STAGE_HOLDING);
    assert_int_equal(blending, 10);
    assert_int_equal(slot.prev_epochs_in_stage, 10);
}

/* A target that only counts as full becomes exactly 1. */
static void holding_is_exactly_one(void **state)
{
    (void)state;
    struct slot_state slot = slot_in(STAGE_BLENDING);
    slot.alpha = slot.alpha_start = slot.alpha_target = ALPHA_FULL;
    slot_tick(&slot, &defaults, NULL);
    assert_int_equal(slot.stage, STAGE_HOLDING);
    assert_true(slot.alpha == 1.0f && slot.alpha_start == 1.0f && slot.alpha_target == 1.0f);
}

/* ---- pruning --------------------------------------------------------------------------------------------------- */

static void i44_prune_pipeline(void **state)
{
    (void)state;
    struct slot_state slot = slot_holding(&germinate);
    const struct action prune = {.op = OP_PRUNE};
    double best = slot.acc_best;
    struct action_result result = action_apply(&slot, &prune, &defaults, size, NULL);
    assert_true(result.success);
    assert_int_equal(result.effects, EFFECT_DROPPED);
    assert_int_equal(slot.stage, STAGE_PRUNED);
    assert_int_equal(slot_params(&slot), 0);
    uint32_t age = slot.epochs_total;
    for (int tick = 1; tick <= 7; tick++) { /* 1 to EMBARGOED, 5 to RESETTING, 1 to DORMANT */
        assert_int_equal(slot_exec_of(&slot).mode, SLOT_SKIP);
        assert_false(slot_exec_of(&slot).train);
        assert_false(action_allowed(&slot, &germinate));
        assert_int_equal(slot.blueprint, BLUEPRINT_CONV_LIGHT);
        assert_true(slot.acc_best == best);
        slot_tick(&slot, &defaults, NULL);
        int expected = tick < 6 ? STAGE_EMBARGOED : tick == 6 ? STAGE_RESETTING : STAGE_DORMANT;
        assert_int_equal(slot.stage, expected);
        assert_int_equal(slot.epochs_total, tick < 7 ? age + (uint32_t)tick - 1 : 0); /* D-05 */
    }
    struct slot_state fresh = slot_in(STAGE_DORMANT);
    fresh.germinations = 1;
    assert_true(slots_equal(&slot, &fresh));
}

/* The action and the first tick share a step, so exactly six decisions find the slot unavailable. */
static void i44_six_decisions_unavailable(void **state)
{
    (void)state;
    struct slot_state slot = slot_holding(&germinate);
    const struct action prune = {.op = OP_PRUNE};
    step(&slot, &defaults, &prune);
    int unavailable = 0;
    while (!action_allowed(&slot, &germinate)) {
        unavailable++;
        step(&slot, &defaults, &germinate); /* refused */
    }
    assert_int_equal(unavailable, 6);
    struct slot_state fresh;
    slot_clear(&fresh);
    fresh.germinations = 1;
    step(&slot, &defaults, &germinate);
    step(&fresh, &defaults, &germinate);
    assert_true(slots_equal(&slot, &fresh)); /* clean metrics and flags, but another random key */
    assert_int_equal(slot.germinations, 2);
}

static void i45_scheduled_prune(void **state)
{
    (void)state;
    for (int speed = 1; speed < ALPHA_SPEED_COUNT; speed++) {
        struct slot_state slot = slot_holding(&germinate);
        struct action prune = {.op = OP_PRUNE, .alpha_speed = (uint8_t)speed, .alpha_curve = 1};
        assert_true(action_apply(&slot, &prune, &defaults, size, NULL).success);
        assert_int_equal(slot.stage, STAGE_BLENDING);
        assert_int_equal(slot.prev_stage, STAGE_HOLDING);
        assert_true(slot_prune_pending(&slot));
        assert_false(slot_exec_of(&slot).train);
        float before = slot.alpha;
        int steps = alpha_speed_steps(speed);
        for (int i = 1; i < steps; i++) {
            assert_int_equal(slot_tick(&slot, &defaults, NULL), 0);
            assert_true(slot.alpha < before && slot.alpha > 0);
            assert_int_equal(slot.stage, STAGE_BLENDING);
            assert_false(action_allowed(&slot, &prune)); /* the order stands */
            before = slot.alpha;
        }
        assert_int_equal(slot_tick(&slot, &defaults, NULL), EFFECT_DROPPED);
        assert_int_equal(slot.stage, STAGE_PRUNED);
        assert_int_equal(slot.prune_reason, PRUNE_POLICY);
        assert_true(slot.alpha == 0 && slot.alpha_start == 0 && slot.alpha_target == 0 && slot.steps_total == 0);
        assert_false(slot_has(&slot, SLOT_FROZEN | SLOT_AUTO_PRUNED));
    }
}

/* A seed that is not blended in is removed at once, whatever speed is requested. */
static void silent_seeds_go_at_once(void **state)
{
    (void)state;
    const struct action prune = {.op = OP_PRUNE, .alpha_speed = 3};
    const int stages[] = {STAGE_GERMINATED, STAGE_TRAINING, STAGE_BLENDING};
    for (int i = 0; i < 3; i++) {
        struct slot_state slot = slot_in(stages[i]);
        slot.epochs_total = 5;
        assert_int_equal(action_apply(&slot, &prune, &defaults, size, NULL).effects, EFFECT_DROPPED);
        assert_int_equal(slot.stage, STAGE_PRUNED);
    }
}

/* D-07: the governor is charged for the seeds it removes, and only for those. */
static void d07_rollback(void **state)
{
    (void)state;
    for (int stage = 0; stage < STAGE_LIMIT; stage++) {
        if (!stage_is_legal(stage))
            continue;
        struct slot_state slot = slot_in(stage), before = slot;
        struct life_log log = {0};
        uint32_t effects = slot_rollback(&slot, PRUNE_GOVERNOR_DIVERGENCE, &log);
        if (stage_is_live(stage) && stage != STAGE_FOSSILIZED) {
            assert_int_equal(effects, EFFECT_DROPPED);
            assert_int_equal(slot.stage, STAGE_PRUNED);
            assert_int_equal(slot.prune_reason, PRUNE_GOVERNOR_DIVERGENCE);
            assert_true(slot_has(&slot, SLOT_AUTO_PRUNED));
            assert_int_equal(log.event[log.count - 1].reason, PRUNE_GOVERNOR_DIVERGENCE);
        } else {
            assert_int_equal(effects, 0);
            assert_int_equal(log.count, 0);
            assert_true(slots_equal(&slot, &before));
        }
    }
    assert_false(prune_is_governor(PRUNE_POLICY));
    assert_true(prune_is_governor(PRUNE_GOVERNOR_ROLLBACK));
}

/* Freezing starts when alpha starts to fall; when the ramp ends above 0 the seed thaws one step later. */
static void freeze_follows_the_way_down(void **state)
{
    (void)state;
    struct slot_state slot = slot_holding(&germinate);
    const struct action lower = {.op = OP_SET_ALPHA_TARGET, .alpha_target = 0, .alpha_speed = 1};
    action_apply(&slot, &lower, &defaults, size, NULL);
    assert_int_equal(slot.stage, STAGE_BLENDING);
    for (int tick = 0; tick < 3; tick++) {
        assert_true(slot_has(&slot, SLOT_FROZEN));
        slot_tick(&slot, &defaults, NULL);
    }
    assert_true(slot.alpha == 0.5f);
    assert_int_equal(slot.alpha_mode, ALPHA_HOLD);
    assert_false(slot_exec_of(&slot).train);
    struct slot_state raised = slot;
    slot_tick(&slot, &defaults, NULL);
    assert_true(slot_exec_of(&slot).train);
    const struct action raise = {.op = OP_SET_ALPHA_TARGET, .alpha_target = 2, .alpha_speed = 2};
    action_apply(&raised, &raise, &defaults, size, NULL);
    assert_true(slot_exec_of(&raised).train);
    const struct action at_once = {.op = OP_SET_ALPHA_TARGET, .alpha_target = 0, .alpha_speed = 0};
    struct slot_state holding = slot_holding(&germinate);
    action_apply(&holding, &at_once, &defaults, size, NULL);
    assert_true(holding.alpha == 0.5f && slot_exec_of(&holding).train);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(i41_only_the_listed_transitions),
        cmocka_unit_test(i41_fossils_stay),
        cmocka_unit_test(i46_transition_bookkeeping),
        cmocka_unit_test(i43_timing_of_growth),
        cmocka_unit_test(d09_first_alpha_step_on_every_path),
        cmocka_unit_test(i43_nothing_moves_by_itself),
        cmocka_unit_test(i43_partial_target_never_holds),
        cmocka_unit_test(i43_strict_dwell_before_holding),
        cmocka_unit_test(holding_is_exactly_one),
        cmocka_unit_test(i44_prune_pipeline),
        cmocka_unit_test(i44_six_decisions_unavailable),
        cmocka_unit_test(i45_scheduled_prune),
        cmocka_unit_test(silent_seeds_go_at_once),
        cmocka_unit_test(d07_rollback),
        cmocka_unit_test(freeze_follows_the_way_down),
    };
    return cmocka_run_group_tests_name("lifecycle", tests, NULL, NULL);
}
