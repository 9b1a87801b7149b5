/* Gates, and the measurements that they read: I-42, I-47. */
#include "testing_slots.h"

/* ---- gates ----------------------------------------------------------------------------------------------------- */

static uint32_t failures(const struct slot_state *slot, int target, bool permissive)
{
    struct gate_verdict verdict = gate_check(slot, target, permissive);
    assert_int_equal(verdict.pass, verdict.failed == 0);
    return verdict.failed;
}

static void i42_g0_g1(void **state)
{
    (void)state;
    for (int stage = 0; stage < STAGE_LIMIT; stage++) {
        struct slot_state slot = slot_in(stage);
        for (int permissive = 0; permissive < 2; permissive++) {
            assert_int_equal(failures(&slot, STAGE_GERMINATED, permissive), 0);
            assert_int_equal(failures(&slot, STAGE_TRAINING, permissive) == 0, stage == STAGE_GERMINATED);
            assert_int_equal(failures(&slot, STAGE_PRUNED, permissive), GATE_FAILED_TRANSITION);
        }
    }
}

/* A TRAINING row that is exactly on every threshold of G2. */
static struct slot_state slot_at_g2(void)
{
    struct slot_state slot = slot_in(STAGE_TRAINING);
    slot.epochs_in_stage = 10;
    slot.flags = SLOT_GRAD_MEASURED;
    slot.grad_health = 0.7;
    slot.grad_ratio = 0.10;
    slot.acc_stage_start = 30.0;
    slot.acc_current = 30.5;
    return slot;
}

static void i42_g2(void **state)
{
    (void)state;
    struct slot_state edge = slot_at_g2(), slot = edge;
    assert_int_equal(failures(&slot, STAGE_BLENDING, true), 0);
    assert_int_equal(failures(&slot, STAGE_BLENDING, false), 0);
    slot.epochs_in_stage = 9;
    assert_int_equal(failures(&slot, STAGE_BLENDING, true), GATE_FAILED_EPOCHS);
    assert_int_equal(failures(&slot, STAGE_BLENDING, false), GATE_FAILED_EPOCHS);
    slot = edge;
    slot.flags = 0; /* the numbers are good, but were not measured */
    assert_int_equal(failures(&slot, STAGE_BLENDING, true), GATE_FAILED_GRAD_UNMEASURED);
    assert_int_equal(failures(&slot, STAGE_BLENDING, false), GATE_FAILED_RATIO_UNMEASURED);
    slot = edge;
    slot.flags |= SLOT_EXPLODING;
    assert_int_equal(failures(&slot, STAGE_BLENDING, true), GATE_FAILED_EXPLODING);
    assert_int_equal(failures(&slot, STAGE_BLENDING, false), 0);
    slot = edge;
    slot.grad_health = nextafter(0.7, 0);
    assert_int_equal(failures(&slot, STAGE_BLENDING, true), GATE_FAILED_HEALTH_LOW);
    assert_int_equal(failures(&slot, STAGE_BLENDING, false), 0);
    slot = edge;
    slot.acc_current = nextafter(30.5, 0);
    assert_int_equal(failures(&slot, STAGE_BLENDING, true), 0);
    assert_int_equal(failures(&slot, STAGE_BLENDING, false), GATE_FAILED_IMPROVEMENT);
    slot = edge;
    slot.grad_ratio = nextafter(0.10, 0);
    assert_int_equal(failures(&slot, STAGE_BLENDING, true), 0);
    assert_int_equal(failures(&slot, STAGE_BLENDING, false), GATE_FAILED_RATIO_LOW);
    slot = edge;
    slot.grad_health = slot.grad_ratio = NAN;
    assert_int_equal(failures(&slot, STAGE_BLENDING, true), GATE_FAILED_HEALTH_LOW);
    assert_int_equal(failures(&slot, STAGE_BLENDING, false), GATE_FAILED_RATIO_LOW);
}

static void i42_g3(void **state)
{
    (void)state;
    struct slot_state edge = slot_in(STAGE_BLENDING), slot;
    edge.alpha = edge.alpha_target = 1.0f - 1e-6f;
    edge.epochs_in_stage = 10;
    slot = edge;
    assert_int_equal(failures(&slot, STAGE_HOLDING, true), 0);
    assert_int_equal(failures(&slot, STAGE_HOLDING, false), 0);
    slot.epochs_in_stage = 9;
    assert_int_equal(failures(&slot, STAGE_HOLDING, true), 0);
    assert_int_equal(failures(&slot, STAGE_HOLDING, false), GATE_FAILED_EPOCHS);
    slot = edge;
    slot.alpha = slot.alpha_target = nextafterf(edge.alpha_target, 0);
    assert_int_equal(failures(&slot, STAGE_HOLDING, true), GATE_FAILED_TARGET_NOT_FULL);
    slot = edge;
    slot.alpha_mode = ALPHA_UP;
    assert_int_equal(failures(&slot, STAGE_HOLDING, true), GATE_FAILED_NOT_AT_TARGET);
    slot = edge;
    slot.alpha = 0.99f;
    assert_int_equal(failures(&slot, STAGE_HOLDING, false), GATE_FAILED_NOT_AT_TARGET);
    slot = edge; /* |alpha - target| on the edge, where f32 can express it */
    slot.alpha = 0.0f;
    slot.alpha_target = 1e-6f;
    assert_true(alpha_rests(&slot));
    slot.alpha_target = nextafterf(1e-6f, 1);
    assert_false(alpha_rests(&slot));
}

static void i42_g5(void **state)
{
    (void)state;
    struct slot_state slot = slot_in(STAGE_HOLDING);
    slot.contribution = 5.0;
    assert_int_equal(failures(&slot, STAGE_FOSSILIZED, true), GATE_FAILED_CF_UNMEASURED);
    assert_int_equal(failures(&slot, STAGE_FOSSILIZED, false), GATE_FAILED_CF_UNMEASURED);
    slot.flags = SLOT_CF_MEASURED;
    slot.contribution = 1.0;
    assert_int_equal(failures(&slot, STAGE_FOSSILIZED, true), 0);
    assert_int_equal(failures(&slot, STAGE_FOSSILIZED, false), 0);
    slot.contribution = nextafter(1.0, 0);
    assert_int_equal(failures(&slot, STAGE_FOSSILIZED, true), 0);
    assert_int_equal(failures(&slot, STAGE_FOSSILIZED, false), GATE_FAILED_CF_LOW);
    slot.contribution = -4.0;
    assert_int_equal(failures(&slot, STAGE_FOSSILIZED, true), 0);
}

static void gate_scores(void **state)
{
    (void)state;
    struct slot_state slot = slot_at_g2();
    assert_true(gate_check(&slot, STAGE_BLENDING, true).score == 0.1);
    slot.acc_current = 20;
    assert_true(gate_check(&slot, STAGE_BLENDING, true).score == 0);
    slot.acc_current = 80;
    assert_true(gate_check(&slot, STAGE_BLENDING, true).score == 1);
    slot.alpha = 0.5f;
    assert_true(gate_check(&slot, STAGE_HOLDING, true).score == 0.5);
    slot.contribution = 2.5;
    assert_true(gate_check(&slot, STAGE_FOSSILIZED, true).score == 0.25);
}

/* An open gate does not make an illegal transition legal. */
static void advance_checks_the_way(void **state)
{
    (void)state;
    struct slot_state slot = slot_at_g2(), before;
    slot.stage = STAGE_GERMINATED;
    before = slot;
    struct life_log log = {0};
    uint32_t effects = 0;
    assert_false(slot_advance(&slot, STAGE_BLENDING, &defaults, &log, &effects));
    assert_true(slots_equal(&slot, &before));
    assert_int_equal(log.count, 1);
    assert_int_equal(log.event[0].type, LIFE_GATE_EVALUATED);
    assert_int_equal(log.event[0].verdict.failed, GATE_FAILED_TRANSITION);
    assert_false(log.event[0].verdict.pass);
    slot = slot_in(STAGE_DORMANT);
    assert_false(slot_advance(&slot, STAGE_GERMINATED, &defaults, &log, &effects));
    assert_int_equal(log.count, 1);
}

/* ---- measurements ---------------------------------------------------------------------------------------------- */

static void i47_record_accuracy(void **state)
{
    (void)state;
    struct slot_state slot;
    slot_clear(&slot);
    step(&slot, &manual, &germinate);
    const double accuracy[] = {31.5, 30.0, 44.0, 12.0};
    double best = 0;
    for (uint32_t i = 0; i < 4; i++) {
        slot_record_accuracy(&slot, accuracy[i]);
        best = fmax(best, accuracy[i]);
        assert_true(slot.acc_initial == 31.5 && slot.acc_stage_start == 31.5);
        assert_true(slot.acc_current == accuracy[i] && slot.acc_best == best);
        assert_int_equal(slot.epochs_total, i + 1);
        assert_int_equal(slot.epochs_in_stage, i + 1);
    }
    assert_true(slot_improvement(&slot) == 12.0 - 31.5);
    slot_transition(&slot, STAGE_TRAINING, NULL);
    slot_record_accuracy(&slot, 13.0);
    assert_true(slot.acc_initial == 31.5 && slot.acc_stage_start == 12.0);
    assert_int_equal(slot.epochs_total, 5);
    assert_int_equal(slot.epochs_in_stage, 1);
}

static void d18_gradient_record(void **state)
{
    (void)state;
    struct slot_state slot = slot_in(STAGE_TRAINING);
    struct gradient_sample sample = {2.0, 0.8, 0.4, true, false};
    slot_record_gradient(&slot, &sample);
    assert_true(slot.grad_ratio == 0.4 && slot.grad_norm == 2.0 && slot.grad_health == 0.8);
    assert_true(slot_has(&slot, SLOT_GRAD_MEASURED) && slot_has(&slot, SLOT_VANISHING));
    assert_false(slot_has(&slot, SLOT_EXPLODING));
    sample.ratio = 1.4;
    sample.vanishing = false;
    slot_record_gradient(&slot, &sample);
    assert_true(fabs(slot.grad_ratio - 0.5) < 1e-15);
    assert_false(slot_has(&slot, SLOT_VANISHING));
    sample.norm = INFINITY;
    sample.ratio = NAN;
    slot_record_gradient(&slot, &sample);
    assert_true(slot_has(&slot, SLOT_EXPLODING) && slot_has(&slot, SLOT_NONFINITE));
    assert_true(slot.grad_norm == 0 && slot.grad_health == 0 && fabs(slot.grad_ratio - 0.45) < 1e-15);
    slot_record_gradient(&slot, &healthy);
    assert_false(slot_has(&slot, SLOT_EXPLODING | SLOT_NONFINITE));
}

static void contribution_velocity(void **state)
{
    (void)state;
    struct slot_state slot = slot_in(STAGE_BLENDING);
    slot_record_contribution(&slot, 2.0);
    assert_true(slot.contribution == 2.0 && slot.contribution_velocity == 0);
    slot_record_contribution(&slot, 3.0);
    assert_true(slot.contribution == 3.0 && fabs(slot.contribution_velocity - 0.3) < 1e-15);
    slot_record_contribution(&slot, 3.0);
    assert_true(fabs(slot.contribution_velocity - 0.21) < 1e-15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(i42_g0_g1),
        cmocka_unit_test(i42_g2),
        cmocka_unit_test(i42_g3),
        cmocka_unit_test(i42_g5),
        cmocka_unit_test(gate_scores),
        cmocka_unit_test(advance_checks_the_way),
        cmocka_unit_test(i47_record_accuracy),
        cmocka_unit_test(d18_gradient_record),
        cmocka_unit_test(contribution_velocity),
    };
    return cmocka_run_group_tests_name("gates", tests, NULL, NULL);
}
