/* The signal tracker: deltas, plateau, the latch of stabilisation, histories (P-16). */
#include "policy/tracker.h"

#include "base/philox.h"
#include "testing.h"

static struct tracker fresh(void)
{
    struct tracker tracker;
    memset(&tracker, 0xA5, sizeof tracker); /* clearing must reach every field */
    tracker_clear(&tracker);
    return tracker;
}

/* Losses in a row, constant accuracy. */
static struct tracker after(const double *losses, int count)
{
    struct tracker tracker = fresh();
    for (int i = 0; i < count; i++)
        tracker_update(&tracker, losses[i], 10.0);
    return tracker;
}

static void clearing_forgets_everything(void **state)
{
    (void)state;
    struct tracker tracker = fresh();
    bool zero = true;
#define FIELD_ZERO(type, name) zero = zero && tracker.name == 0;
#define ARRAY_ZERO(type, name, length)                                                                                 \
    for (uint32_t i = 0; i < (length); i++)                                                                            \
        zero = zero && tracker.name[i] == 0;
    TRACKER_FIELDS(FIELD_ZERO, ARRAY_ZERO)
    assert_true(zero);
    assert_int_equal(tracker_length(&tracker), 0);
    assert_true(isnan(tracker_previous_loss(&tracker)));
    assert_true(tracker_previous_accuracy(&tracker) == 0.0);
}

static void the_first_result_has_nothing_before_it(void **state)
{
    (void)state;
    struct tracker tracker = fresh();
    tracker_update(&tracker, 2.0, 12.5);
    assert_true(isinf(tracker_loss_delta(&tracker)) && tracker_loss_delta(&tracker) > 0);
    assert_true(isnan(tracker_previous_loss(&tracker)));
    assert_true(tracker_previous_accuracy(&tracker) == 0.0);
    assert_true(tracker_acc_delta(&tracker) == 12.5);
    assert_true(tracker.first_accuracy == 12.5);
    assert_int_equal(tracker.plateau, 0);
    tracker_update(&tracker, 1.5, 20.0);
    assert_true(tracker_previous_loss(&tracker) == 2.0);
    assert_true(tracker_previous_accuracy(&tracker) == 12.5);
    assert_true(tracker_loss_delta(&tracker) == 0.5);
    assert_true(tracker_acc_delta(&tracker) == 7.5);
    assert_true(tracker.first_accuracy == 12.5);
}

static void a_plateau_counts_steps_without_half_a_point(void **state)
{
    (void)state;
    static const struct {
        double accuracy;
        uint32_t plateau;
    } steps[] = {{0.4, 1}, {0.9, 0}, {1.3, 1}, {1.0, 2}, {1.49, 3}, {1.99, 0}, {1.99, 1}, {50.0, 0}, {10.0, 1}};
    struct tracker tracker = fresh();
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        tracker_update(&tracker, 1.0, steps[i].accuracy);
        assert_int_equal(tracker.plateau, steps[i].plateau);
    }
    tracker = fresh();
    tracker_update(&tracker, 1.0, 0.5); /* exactly half a point is progress */
    assert_int_equal(tracker.plateau, 0);
    tracker_update(&tracker, 1.0, 1.0);
    assert_int_equal(tracker.plateau, 0);
}

static void three_stable_losses_in_a_row_latch(void **state)
{
    (void)state;
    const double flat[] = {1.0, 0.99, 0.98, 0.97};
    for (int count = 1; count <= 3; count++)
        assert_false(after(flat, count).stabilised);
    struct tracker tracker = after(flat, 4);
    assert_true(tracker.stabilised);
    for (int i = 0; i < 40; i++) { /* nothing releases it */
        tracker_update(&tracker, i % 2 ? 50.0 : 0.1, 10.0);
        assert_true(tracker.stabilised);
    }
    tracker_clear(&tracker);
    assert_false(tracker.stabilised);
}

/* The thresholds themselves are not stable. Losses of 100 and 64 make the ratios exact enough to hit them. */
static void the_band_of_stability_is_open(void **state)
{
    (void)state;
    const struct {
        double losses[5];
        int stable_count;
    } cases[] = {
        {{100, 100, 100, 97.0}, 0},    {{100, 100, 100, 97.001}, 3}, {{100, 100, 100, 105.0}, 0},
        {{100, 100, 100, 104.999}, 3}, {{100, 100, 100, 50.0}, 0},   {{100, 100, 100, 200.0}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tracker tracker = after(cases[i].losses, 4);
        assert_int_equal(tracker.stable_count, cases[i].stable_count);
        assert_int_equal(tracker.stabilised, cases[i].stable_count == 3);
    }
    /* two stable, one regression, then it takes three again */
    const double broken[] = {1.0, 1.0, 1.0, 1.2, 1.2, 1.2, 1.2};
    assert_false(after(broken, 6).stabilised);
    assert_true(after(broken, 7).stabilised);
}

static void a_tiny_or_unknown_loss_says_nothing(void **state)
{
    (void)state;
    const double zero[] = {1.0, 1.0, 1.0, 0.0, 0.0, 0.0}; /* 1 -> 0 resets; 0 -> 0 is no ratio */
    struct tracker tracker = after(zero, 6);
    assert_int_equal(tracker.stable_count, 0);
    assert_false(tracker.stabilised);
    const double tiny[] = {1.02e-8, 1e-8, 0.5, 0.1}; /* after a loss that small the count stays as it was */
    assert_int_equal(after(tiny, 2).stable_count, 1);
    assert_int_equal(after(tiny, 3).stable_count, 1);
    assert_int_equal(after(tiny, 4).stable_count, 0);
    const double lost[] = {1.0, 1.0, 1.0, NAN, 1.0, 1.0, 1.0, 1.0};
    assert_int_equal(after(lost, 4).stable_count, 0);
    tracker = after(lost, 5);
    assert_true(isnan(tracker_previous_loss(&tracker)));
    assert_int_equal(tracker.stable_count, 0);
    assert_false(after(lost, 7).stabilised);
    assert_true(after(lost, 8).stabilised);
    const double endless[] = {1.0, INFINITY, 1.0};
    tracker = after(endless, 3);
    assert_true(isnan(tracker_previous_loss(&tracker)));
    assert_int_equal(tracker.stable_count, 0);
}

/* Compared with all results so far, kept by the test. */
static void windows_hold_the_latest_results(void **state)
{
    (void)state;
    double loss[60], accuracy[60], best = 0;
    struct tracker tracker = fresh();
    for (uint32_t n = 0; n < 60; n++) {
        struct random_site site = random_at(3, STREAM_ACTION, 0, 0, n);
        loss[n] = 3.0 * (double)random_unit(random_word(site, 0));
        accuracy[n] = 100.0 * (double)random_unit(random_word(site, 1));
        best = fmax(best, accuracy[n]);
        tracker_update(&tracker, loss[n], accuracy[n]);
        assert_int_equal(tracker.count, n + 1);
        assert_int_equal(tracker_length(&tracker), n < 9 ? n + 1 : 10);
        double least_loss = INFINITY;
        for (uint32_t back = 0; back < tracker_length(&tracker); back++) {
            assert_true(tracker_loss(&tracker, back) == loss[n - back]);
            assert_true(tracker_accuracy(&tracker, back) == accuracy[n - back]);
            least_loss = fmin(least_loss, loss[n - back]);
        }
        assert_true(tracker_best_loss(&tracker) == least_loss);
        assert_true(tracker.best_accuracy == best && best >= accuracy[n]);
        assert_true(tracker.first_accuracy == accuracy[0]);
        for (uint32_t window = 1; window < 15; window++) {
            double least = INFINITY;
            for (uint32_t back = 0; back < window && back < tracker_length(&tracker); back++)
                least = fmin(least, accuracy[n - back]);
            assert_true(tracker_stable_accuracy(&tracker, window) == least);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clearing_forgets_everything),
        cmocka_unit_test(the_first_result_has_nothing_before_it),
        cmocka_unit_test(a_plateau_counts_steps_without_half_a_point),
        cmocka_unit_test(three_stable_losses_in_a_row_latch),
        cmocka_unit_test(the_band_of_stability_is_open),
        cmocka_unit_test(a_tiny_or_unknown_loss_says_nothing),
        cmocka_unit_test(windows_hold_the_latest_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
