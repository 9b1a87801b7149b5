/* The heuristic policy: its rules one by one, then whole episodes (P-17). */
#include "policy/heuristic.h"

#include "testing_slots.h"

/* A tracker as after `plateau` epochs without progress. */
static struct tracker tracker_at(bool stabilised, uint32_t plateau)
{
    struct tracker tracker;
    tracker_clear(&tracker);
    tracker.stabilised = stabilised;
    tracker.plateau = plateau;
    return tracker;
}

static struct rotation rotation; /* of CNNs */

static struct heuristic fresh(void)
{
    struct heuristic heuristic;
    memset(&heuristic, 0xA5, sizeof heuristic);
    heuristic_clear(&heuristic);
    return heuristic;
}

/* The decision of a fresh heuristic at step 20 about these slots, ADVANCE left to the policy. */
static struct action decide(const struct slot_state *slot, int slots)
{
    struct heuristic heuristic = fresh();
    struct tracker tracker = tracker_at(true, 9);
    struct masks masks = masks_of_slots(slot, slots, CNN_OFFERED, 0, false);
    return heuristic_decide(&heuristic, &tracker, 20, slot, slots, &masks, &rotation);
}

static struct slot_state seed_in(int stage, uint32_t in_stage, double gained_in_stage)
{
    struct slot_state slot = slot_in(stage);
    slot.blueprint = BLUEPRINT_NORM;
    slot.epochs_total = 20;
    slot.epochs_in_stage = in_stage;
    slot.acc_initial = slot.acc_stage_start = 50.0;
    slot.acc_current = 50.0 + gained_in_stage;
    return slot;
}

static struct slot_state holding(bool measured, double contribution, double gained)
{
    struct slot_state slot = seed_in(STAGE_HOLDING, 3, gained);
    slot.alpha = slot.alpha_target = 1.0f;
    if (measured)
        slot_record_contribution(&slot, contribution);
    return slot;
}

static void germination_waits_for_its_conditions(void **state)
{
    (void)state;
    static const struct {
        bool stabilised;
        uint32_t plateau;
        int step, op;
    } cases[] = {
        {true, 3, 20, OP_GERMINATE}, {true, 30, 20, OP_GERMINATE}, {true, 2, 20, OP_WAIT},     {true, 0, 20, OP_WAIT},
        {false, 9, 20, OP_WAIT},     {true, 9, 4, OP_WAIT},        {true, 9, 5, OP_GERMINATE}, {true, 9, 1, OP_WAIT},
    };
    struct slot_state slot = slot_in(STAGE_DORMANT);
    struct masks masks = masks_of_slots(&slot, 1, CNN_OFFERED, 0, true);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct heuristic heuristic = fresh();
        struct tracker tracker = tracker_at(cases[i].stabilised, cases[i].plateau);
        struct action action = heuristic_decide(&heuristic, &tracker, cases[i].step, &slot, 1, &masks, &rotation);
        assert_int_equal(action.op, cases[i].op);
        assert_int_equal(heuristic.cursor, cases[i].op == OP_GERMINATE);
    }
}

static void a_seed_is_born_with_the_standard_choices(void **state)
{
    (void)state;
    struct slot_state slot[3] = {slot_in(STAGE_FOSSILIZED), slot_in(STAGE_DORMANT), slot_in(STAGE_DORMANT)};
    struct action action = decide(slot, 3);
    const struct action want = {.op = OP_GERMINATE,
                                .slot = 1, /* the first that is free */
                                .blueprint = BLUEPRINT_CONV_LIGHT,
                                .style = STYLE_SIGMOID_ADD,
                                .tempo = 1,
                                .alpha_target = 2};
    assert_memory_equal(&action, &want, sizeof want);
}

static void no_free_slot_or_no_seed_left_is_a_wait(void **state)
{
    (void)state;
    struct tracker tracker = tracker_at(true, 9);
    struct slot_state slot[2] = {slot_in(STAGE_FOSSILIZED), slot_in(STAGE_FOSSILIZED)};
    assert_int_equal(decide(slot, 2).op, OP_WAIT);
    slot[1] = slot_in(STAGE_EMBARGOED); /* cooling slots hold no seed, and block */
    assert_int_equal(decide(slot, 2).op, OP_WAIT);
    slot[1] = slot_in(STAGE_DORMANT);
    struct heuristic heuristic = fresh();
    struct masks limited = masks_of_slots(slot, 2, CNN_OFFERED, 1, true);
    assert_int_equal(heuristic_decide(&heuristic, &tracker, 20, slot, 2, &limited, &rotation).op, OP_WAIT);
    assert_int_equal(heuristic.cursor, 0); /* a refused request does not advance the rotation */
}

static void each_stage_has_its_rule(void **state)
{
    (void)state;
    struct slot_state full = seed_in(STAGE_BLENDING, 3, 0.0), half = full, moving = full, failing;
    full.alpha = full.alpha_target = 1.0f;
    half.alpha = half.alpha_target = 0.5f;
    moving.alpha = 0.5f;
    moving.alpha_target = 1.0f;
    moving.alpha_mode = ALPHA_UP;
    failing = full;
    failing.epochs_in_stage = 5;
    failing.acc_current = 47.9;
    struct slot_state failing_in_motion = failing, young = seed_in(STAGE_TRAINING, 5, -3.0);
    failing_in_motion.alpha_mode = ALPHA_UP;
    young.epochs_total = 4;
    const struct {
        struct slot_state slot;
        int op;
    } cases[] = {
        {seed_in(STAGE_GERMINATED, 0, 0.0), OP_ADVANCE},
        {seed_in(STAGE_TRAINING, 0, 0.0), OP_ADVANCE},
        {seed_in(STAGE_TRAINING, 4, -9.0), OP_ADVANCE}, /* too early to judge */
        {seed_in(STAGE_TRAINING, 5, -2.0), OP_ADVANCE}, /* exactly the drop that is allowed */
        {seed_in(STAGE_TRAINING, 5, -2.001), OP_PRUNE},
        {young, OP_WAIT}, /* PRUNE is masked before age 5 */
        {full, OP_ADVANCE},
        {half, OP_WAIT},
        {moving, OP_WAIT},
        {failing, OP_PRUNE},
        {failing_in_motion, OP_WAIT},        /* masked while alpha moves */
        {holding(false, 0.0, 9.0), OP_WAIT}, /* the gain is no substitute for the contribution */
        {holding(true, 0.5, 1.0), OP_PRUNE},
        {holding(true, 0.501, 1.0), OP_FOSSILIZE},
        {holding(true, 0.501, 0.0), OP_FOSSILIZE},
        {holding(true, 9.0, -0.001), OP_PRUNE}, /* ransomware */
        {holding(true, -1.0, 5.0), OP_PRUNE},
        {holding(true, 0.0, 0.0), OP_PRUNE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct slot_state slot[2] = {slot_in(STAGE_DORMANT), cases[i].slot};
        struct action action = decide(slot, 2);
        if (action.op != cases[i].op)
            fail_msg("case %zu: %s, not %s", i, op_name(action.op), op_name(cases[i].op));
        assert_int_equal(action.slot, action.op == OP_WAIT ? 0 : 1);
        assert_int_equal(action.blueprint, BLUEPRINT_NOOP);
        assert_int_equal(action.alpha_speed, 0); /* a prune is instant */
    }
}

static void only_the_first_live_seed_is_tended(void **state)
{
    (void)state;
    struct slot_state slot[4] = {slot_in(STAGE_FOSSILIZED), slot_in(STAGE_PRUNED), holding(true, 5.0, 1.0),
                                 holding(true, -5.0, 1.0)};
    struct action action = decide(slot, 4);
    assert_int_equal(action.op, OP_FOSSILIZE);
    assert_int_equal(action.slot, 2);
    slot[2] = holding(false, 0.0, 1.0); /* it waits, though the next one should go */
    assert_int_equal(decide(slot, 4).op, OP_WAIT);
}

static void with_automatic_gates_it_leaves_advancing_to_them(void **state)
{
    (void)state;
    struct slot_state slot = seed_in(STAGE_TRAINING, 3, 0.0);
    struct masks masks = masks_of_slots(&slot, 1, CNN_OFFERED, 0, true);
    struct heuristic heuristic = fresh();
    struct tracker tracker = tracker_at(true, 9);
    assert_int_equal(heuristic_decide(&heuristic, &tracker, 20, &slot, 1, &masks, &rotation).op, OP_WAIT);
}

static void a_prune_embargoes_and_penalises(void **state)
{
    (void)state;
    struct heuristic heuristic = fresh();
    struct tracker tracker = tracker_at(true, 9);
    struct slot_state slot = holding(true, -1.0, 0.0), empty = slot_in(STAGE_DORMANT);
    struct masks masks = masks_of_slots(&slot, 1, CNN_OFFERED, 0, true),
                 free = masks_of_slots(&empty, 1, CNN_OFFERED, 0, true);
    assert_int_equal(heuristic_decide(&heuristic, &tracker, 30, &slot, 1, &masks, &rotation).op, OP_PRUNE);
    assert_true(heuristic.penalty[BLUEPRINT_NORM] == 2.0);
    double penalty = 2.0;
    for (int step_at = 30; step_at <= 35; step_at++) {
        struct action action = heuristic_decide(&heuristic, &tracker, step_at, &empty, 1, &free, &rotation);
        assert_int_equal(action.op, step_at < 35 ? OP_WAIT : OP_GERMINATE);
        penalty *= step_at > 30 ? 0.9 : 1.0; /* once per step, however often it is called */
        assert_true(heuristic.penalty[BLUEPRINT_NORM] == penalty);
    }
    struct slot_state fossil = slot_in(STAGE_FOSSILIZED);
    struct masks none = masks_of_slots(&fossil, 1, CNN_OFFERED, 0, true);
    for (int step_at = 36; step_at < 80; step_at++)
        heuristic_decide(&heuristic, &tracker, step_at, &fossil, 1, &none, &rotation);
    assert_true(heuristic.penalty[BLUEPRINT_NORM] == 0.0); /* below 0.1 it is forgotten */
}

static void a_masked_prune_leaves_no_trace(void **state)
{
    (void)state;
    struct heuristic heuristic = fresh();
    struct tracker tracker = tracker_at(true, 9);
    struct slot_state slot = holding(true, -1.0, 0.0);
    slot.epochs_total = 4;
    struct masks masks = masks_of_slots(&slot, 1, CNN_OFFERED, 0, true);
    assert_int_equal(heuristic_decide(&heuristic, &tracker, 30, &slot, 1, &masks, &rotation).op, OP_WAIT);
    assert_true(heuristic.penalty[BLUEPRINT_NORM] == 0.0);
    assert_int_equal(heuristic.embargo_end, 0);
}

static void the_rotation_passes_over_the_penalised(void **state)
{
    (void)state;
    static const uint8_t order[] = {BLUEPRINT_CONV_LIGHT, BLUEPRINT_CONV_HEAVY, BLUEPRINT_ATTENTION, BLUEPRINT_NORM,
                                    BLUEPRINT_DEPTHWISE};
    struct heuristic heuristic = fresh();
    for (int i = 0; i < 12; i++)
        assert_int_equal(heuristic_next_blueprint(&heuristic, &rotation), order[i % 5]);
    heuristic = fresh();
    heuristic.penalty[BLUEPRINT_CONV_LIGHT] = 3.0;
    heuristic.penalty[BLUEPRINT_ATTENTION] = 2.999;
    heuristic.penalty[BLUEPRINT_NORM] = 4.0;
    static const uint8_t passed[] = {BLUEPRINT_CONV_HEAVY, BLUEPRINT_ATTENTION, BLUEPRINT_DEPTHWISE,
                                     BLUEPRINT_CONV_HEAVY};
    for (int i = 0; i < 4; i++)
        assert_int_equal(heuristic_next_blueprint(&heuristic, &rotation), passed[i]);
}

/* All penalised: by penalty, then by name, from the cursor on, wrapping around. */
static void when_all_are_penalised_the_least_comes_first(void **state)
{
    (void)state;
    struct heuristic heuristic = fresh();
    for (int b = 0; b < BLUEPRINT_COUNT; b++)
        heuristic.penalty[b] = 5.0;
    heuristic.penalty[BLUEPRINT_NORM] = 4.0;
    heuristic.penalty[BLUEPRINT_ATTENTION] = 6.0;
    static const uint8_t order[] = {BLUEPRINT_NORM, BLUEPRINT_CONV_HEAVY, BLUEPRINT_CONV_LIGHT, BLUEPRINT_DEPTHWISE,
                                    BLUEPRINT_ATTENTION};
    for (uint32_t i = 0; i < 11; i++) {
        assert_int_equal(heuristic_next_blueprint(&heuristic, &rotation), order[i % 5]);
        assert_int_equal(heuristic.cursor, i + 1);
    }
}

/* ---- whole episodes --------------------------------------------------------------------------------------------- */

/* Runs T steps of one env whose seeds all contribute `contribution`; counts what is decided. */
static void run_episode(double contribution, int steps, int count[OP_COUNT], struct slot_state slot[3])
{
    struct heuristic heuristic = fresh();
    struct tracker tracker;
    tracker_clear(&tracker);
    for (int s = 0; s < 3; s++)
        slot_clear(&slot[s]);
    for (int t = 1; t <= steps; t++) {
        for (int s = 0; s < 3; s++)
            if (slot[s].alpha > 0.0f)
                slot_record_contribution(&slot[s], contribution);
        tracker_update(&tracker, 2.0, 30.0);
        struct masks masks = masks_of_slots(slot, 3, CNN_OFFERED, 0, true);
        struct heuristic before = heuristic;
        struct action action = heuristic_decide(&heuristic, &tracker, t, slot, 3, &masks, &rotation);
        struct action again = heuristic_decide(&before, &tracker, t, slot, 3, &masks, &rotation);
        assert_memory_equal(&action, &again, sizeof action);
        assert_true(action_allowed(&slot[action.slot], &action));
        assert_true(masks.slots[action.op] >> action.slot & 1u);
        count[action.op]++;
        for (int s = 0; s < 3; s++)
            step(&slot[s], &defaults, s == action.slot ? &action : &wait);
    }
}

static void good_seeds_become_fossils_one_after_the_other(void **state)
{
    (void)state;
    struct slot_state slot[3];
    int count[OP_COUNT] = {0};
    run_episode(3.0, 120, count, slot);
    assert_int_equal(count[OP_GERMINATE], 3);
    assert_int_equal(count[OP_FOSSILIZE], 3);
    assert_int_equal(count[OP_PRUNE], 0);
    static const uint8_t blueprints[] = {BLUEPRINT_CONV_LIGHT, BLUEPRINT_CONV_HEAVY, BLUEPRINT_ATTENTION};
    for (int s = 0; s < 3; s++) {
        assert_int_equal(slot[s].stage, STAGE_FOSSILIZED);
        assert_int_equal(slot[s].blueprint, blueprints[s]);
    }
}

static void useless_seeds_are_pruned_and_the_next_is_tried(void **state)
{
    (void)state;
    struct slot_state slot[3];
    int count[OP_COUNT] = {0};
    run_episode(0.0, 150, count, slot);
    assert_true(count[OP_PRUNE] >= 4);
    assert_int_equal(count[OP_FOSSILIZE], 0);
    assert_in_range(count[OP_GERMINATE], count[OP_PRUNE], count[OP_PRUNE] + 1);
}

int main(void)
{
    rotation = cnn_rotation();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(germination_waits_for_its_conditions),
        cmocka_unit_test(a_seed_is_born_with_the_standard_choices),
        cmocka_unit_test(no_free_slot_or_no_seed_left_is_a_wait),
        cmocka_unit_test(each_stage_has_its_rule),
        cmocka_unit_test(only_the_first_live_seed_is_tended),
        cmocka_unit_test(with_automatic_gates_it_leaves_advancing_to_them),
        cmocka_unit_test(a_prune_embargoes_and_penalises),
        cmocka_unit_test(a_masked_prune_leaves_no_trace),
        cmocka_unit_test(the_rotation_passes_over_the_penalised),
        cmocka_unit_test(when_all_are_penalised_the_least_comes_first),
        cmocka_unit_test(good_seeds_become_fossils_one_after_the_other),
        cmocka_unit_test(useless_seeds_are_pruned_and_the_next_is_tried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
