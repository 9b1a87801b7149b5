/* Gates, and the measurements that they read: I-42, I-47. */
#include "testing_slots.h"

#include "morph/gradient.h"

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

static struct slot_grads report_of(const double *norm, int tensors, double whole)
{
    struct gradient_tally tally = {0};
    for (int t = 0; t < tensors; t++)
        gradient_count(&tally, norm[t]);
    return gradient_report(&tally, whole, 100, 2, 400);
}

/* Thresholds are strict: a tensor of exactly 1e-7 or 10 is well. */
static void gradient_health(void **state)
{
    (void)state;
    const struct {
        double norm[4];
        double health;
        bool vanishing, exploding, finite;
    } cases[] = {
        {{1e-7, 10, 1, 1}, 1, false, false, true},
        {{0, 1, 1, 1}, 0.875, true, false, true},
        {{nextafter(1e-7, 0), 0, 1, 1}, 0.75, true, false, true},
        {{nextafter(10, 11), 1, 1, 1}, 1 - 0.8 / 4, false, true, true},
        {{1e-9, 20, 1, 1}, 1 - 0.5 / 4 - 0.8 / 4, true, true, true},
        {{20, 20, 0, 0}, 1 - 0.5 * 2 / 4 - 0.8 * 2 / 4, true, true, true},
        {{20, 20, 20, 0}, 1 - 0.5 / 4 - 0.8 * 3 / 4, true, true, true},
        {{INFINITY, 1, 1, 1}, 0, false, true, false},
        {{1, NAN, 1, 0}, 0, true, true, false},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct slot_grads grads = report_of(cases[k].norm, 4, 3);
        assert_true(grads.measured && grads.norm == 3);
        assert_true(grads.health == cases[k].health || fabs(grads.health - cases[k].health) < 1e-15);
        assert_int_equal(grads.vanishing, cases[k].vanishing);
        assert_int_equal(grads.exploding, cases[k].exploding);
        assert_int_equal(grads.finite, cases[k].finite);
        assert_true(grads.ratio == 3 / 10.0 / (2 / 20.0 + 1e-8)); /* norms per root of the number of parameters */
    }
    const double all[4] = {0, 0, 0, 0}, bad[4] = {20, 20, 20, 20};
    assert_true(report_of(all, 4, 0).health == 0.5);
    assert_true(fabs(report_of(bad, 4, 40).health - 0.2) < 1e-15);
    assert_true(report_of(all, 4, nextafter(1e-8, 0)).ratio == 0);
    assert_true(report_of(all, 4, 1e-8).ratio > 0);
    struct gradient_tally none = {0}; /* a seed without parameters */
    assert_true(gradient_report(&none, 0, 0, 0, 400).health == 1 && gradient_report(&none, 0, 0, 0, 400).ratio == 0);
    assert_true(gradient_none(true).measured && gradient_none(true).health == 1 && gradient_none(true).finite);
    assert_false(gradient_none(false).measured || gradient_none(false).health > 0 || !gradient_none(false).finite);
}

static void gradients_are_clipped(void **state)
{
    (void)state;
    assert_true(gradient_clip(0.5, 1) == 1);
    assert_true(gradient_clip(4, 1) == 1 / (4 + 1e-6));
    assert_true(gradient_clip(INFINITY, 1) == 0);
    assert_true(isnan(gradient_clip(NAN, 1)));
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
        cmocka_unit_test(gradient_health),
        cmocka_unit_test(gradients_are_clipped),
        cmocka_unit_test(contribution_velocity),
    };
    return cmocka_run_group_tests_name("gates", tests, NULL, NULL);
}
