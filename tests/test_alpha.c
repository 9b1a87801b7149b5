/* The alpha controller: I-40, D-14, D-19. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "morph/alpha.h"

static struct slot_state controller_at(float alpha)
{
    struct slot_state slot;
    slot_clear(&slot);
    slot.alpha = alpha;
    return slot;
}

static void assert_close(double got, double want, double limit)
{
    if (!(fabs(got - want) <= limit))
        fail_msg("%.9g is not within %g of %.9g", got, limit, want);
}

/* Ramps from 0 to 1, computed by hand. */
static void i40_reference_ramps(void **state)
{
    (void)state;
    const struct {
        int curve, steps;
        double alpha[5];
    } ramp[] = {
        {CURVE_LINEAR, 3, {0.3333, 0.6667, 1}},
        {CURVE_LINEAR, 5, {0.2, 0.4, 0.6, 0.8, 1}},
        {CURVE_SIGMOID, 5, {0.02424, 0.23014, 0.76986, 0.97576, 1}},
        {CURVE_COSINE, 3, {0.25, 0.75, 1}},
    };
    for (size_t r = 0; r < sizeof ramp / sizeof ramp[0]; r++) {
        struct slot_state slot = controller_at(0);
        assert_true(alpha_retarget(&slot, 1, ramp[r].steps, ramp[r].curve, STEEPNESS_DEFAULT));
        for (int i = 0; i < ramp[r].steps; i++) {
            bool reached = alpha_step(&slot);
            assert_int_equal(reached, i == ramp[r].steps - 1);
            assert_close((double)slot.alpha, ramp[r].alpha[i], 5e-5);
        }
    }
}

/* One ramp: monotone, between its ends, exactly n steps, exactly on target. */
static void ramp_holds(float start, float target, int steps, int curve, float steepness)
{
    struct slot_state slot = controller_at(start);
    assert_true(alpha_retarget(&slot, target, steps, curve, steepness));
    float low = fminf(start, target), high = fmaxf(start, target), before = start;
    int taken = 0;
    while (slot.alpha_mode != ALPHA_HOLD) {
        assert_int_equal(slot.alpha_mode, target > start ? ALPHA_UP : ALPHA_DOWN);
        assert_int_equal(alpha_time_to_target(&slot), steps - taken);
        bool reached = alpha_step(&slot);
        taken++;
        assert_true(slot.alpha >= low && slot.alpha <= high);
        assert_true(target > start ? slot.alpha >= before : slot.alpha <= before);
        assert_int_equal(reached, taken == steps);
        before = slot.alpha;
    }
    assert_int_equal(taken, start == target ? 0 : steps);
    assert_true(slot.alpha == target);
    assert_true(alpha_rests(&slot));
    assert_false(alpha_step(&slot));
    assert_true(slot.alpha == target);
}

static void i40_monotone_and_exact(void **state)
{
    (void)state;
    const float ends[] = {0, 0.1f, 0.5f, 0.7f, 0.99999f, 1};
    const float steepness[] = {0.1f, 1, 6, 12, 24, 100, 1e4f};
    for (int from = 0; from < 6; from++)
        for (int to = 0; to < 6; to++)
            for (int steps = 0; steps <= 26; steps++)
                for (int curve = CURVE_LINEAR; curve <= CURVE_SIGMOID; curve++)
                    for (int k = 0; k < (curve == CURVE_SIGMOID ? 7 : 1); k++)
                        ramp_holds(ends[from], ends[to], steps, curve, steepness[k]);
}

static void i40_ease_is_monotone_for_any_steepness(void **state)
{
    (void)state;
    for (int curve = CURVE_LINEAR; curve <= CURVE_SIGMOID; curve++) {
        for (double k = 0.1; k <= 1e4; k *= 1.7) {
            double before = 0;
            for (int i = 0; i <= 1000; i++) {
                double along = alpha_ease(curve, k, i / 1000.0);
                assert_true(along >= before && along <= 1.0); /* false for NAN */
                before = along;
            }
            assert_close(alpha_ease(curve, k, 0), 0, 0);
            assert_close(alpha_ease(curve, k, 1), 1, 0);
        }
    }
    assert_close(alpha_logistic(1e6), 1, 0);
    assert_close(alpha_logistic(-1e6), 0, 0);
}

/* Too flat a sigmoid acts as the flattest allowed one. */
static void i40_steepness_has_a_floor(void **state)
{
    (void)state;
    struct slot_state flat = controller_at(0), floor = controller_at(0);
    alpha_retarget(&flat, 1, 8, CURVE_SIGMOID, 0.0f);
    alpha_retarget(&floor, 1, 8, CURVE_SIGMOID, STEEPNESS_MIN);
    for (int i = 0; i < 8; i++) {
        alpha_step(&flat);
        alpha_step(&floor);
        assert_true(flat.alpha == floor.alpha);
    }
}

static void i40_retarget_is_refused_on_the_way(void **state)
{
    (void)state;
    struct slot_state slot = controller_at(0);
    assert_true(alpha_retarget(&slot, 1, 5, CURVE_LINEAR, 12));
    alpha_step(&slot);
    assert_false(alpha_retarget(&slot, 0.5f, 3, CURVE_COSINE, 6));
    assert_int_equal(slot.alpha_mode, ALPHA_UP);
    assert_int_equal(slot.alpha_curve, CURVE_LINEAR);
    assert_int_equal(slot.steps_total, 5);
    assert_int_equal(slot.steps_done, 1);
    assert_true(slot.alpha == 0.2f && slot.alpha_start == 0 && slot.alpha_target == 1 && slot.steepness == 12);
}

/* D-19: without steps there is no second alpha that lags behind. */
static void i40_instant_retarget(void **state)
{
    (void)state;
    struct slot_state slot = controller_at(0.7f);
    assert_true(alpha_retarget(&slot, 0.5f, 0, CURVE_LINEAR, 12));
    assert_true(slot.alpha == 0.5f);
    assert_int_equal(slot.alpha_mode, ALPHA_HOLD);
    assert_true(alpha_retarget(&slot, 1, -3, CURVE_LINEAR, 12));
    assert_true(slot.alpha == 1.0f);
    assert_int_equal(slot.steps_total, 0);
}

static void targets_are_clamped(void **state)
{
    (void)state;
    struct slot_state slot = controller_at(0.5f);
    alpha_retarget(&slot, 1.5f, 1, CURVE_LINEAR, 12);
    assert_true(alpha_step(&slot));
    assert_true(slot.alpha == 1.0f);
    alpha_retarget(&slot, -1, 1, CURVE_LINEAR, 12);
    assert_true(alpha_step(&slot));
    assert_true(slot.alpha == 0.0f);
}

/* D-14: a ramp that goes nowhere does not run, so nothing is left of it. */
static void d14_time_to_target_and_velocity(void **state)
{
    (void)state;
    struct slot_state slot = controller_at(0.5f);
    alpha_retarget(&slot, 0.5f, 8, CURVE_LINEAR, 12);
    assert_int_equal(slot.alpha_mode, ALPHA_HOLD);
    assert_int_equal(alpha_time_to_target(&slot), 0);
    assert_true(alpha_velocity(&slot) == 0);
    alpha_retarget(&slot, 0.0f, 5, CURVE_SIGMOID, 12);
    assert_int_equal(alpha_time_to_target(&slot), 5);
    assert_close((double)alpha_velocity(&slot), -0.1, 1e-8);
    alpha_step(&slot);
    assert_int_equal(alpha_time_to_target(&slot), 4);
    assert_close((double)alpha_velocity(&slot), -0.1, 1e-8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(i40_reference_ramps),
        cmocka_unit_test(i40_monotone_and_exact),
        cmocka_unit_test(i40_ease_is_monotone_for_any_steepness),
        cmocka_unit_test(i40_steepness_has_a_floor),
        cmocka_unit_test(i40_retarget_is_refused_on_the_way),
        cmocka_unit_test(i40_instant_retarget),
        cmocka_unit_test(targets_are_clamped),
        cmocka_unit_test(d14_time_to_target_and_velocity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
