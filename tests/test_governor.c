/* The governor's detectors at their thresholds (E-05). */
#include "morph/governor.h"

#include "testing.h"

enum { CLASSES = 10 };

static struct governor_config shipped(void)
{
    struct config config;
    config_defaults(&config);
    return config.governor;
}

/* A governor that has seen `count` losses, alternately mean - spread and mean + spread. */
static struct governor seasoned(int count, double mean, double spread)
{
    struct governor governor;
    const struct governor_config config = shipped();
    memset(&governor, 0xA5, sizeof governor);
    governor_clear(&governor);
    for (int i = 0; i < count; i++)
        assert_int_equal(governor_verdict(&governor, &config, CLASSES, i % 2 ? mean + spread : mean - spread),
                         PRUNE_NONE);
    assert_int_equal(governor.count, count);
    return governor;
}

static int verdict(struct governor *governor, double loss)
{
    const struct governor_config config = shipped();
    return governor_verdict(governor, &config, CLASSES, loss);
}

static void the_shipped_thresholds_are_those_of_the_specification(void **state)
{
    (void)state;
    struct governor_config config = shipped();
    assert_true(config.loss_limit == 12.0 && config.sigmas == 6.0 && config.factor == 3.0 && config.streak == 3);
    assert_true(config.lobotomy_mean == 0.6 && config.lobotomy_width == 0.065);
}

static void a_loss_that_is_no_number_panics_at_once(void **state)
{
    (void)state;
    const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        for (int samples = 0; samples <= 20; samples += 5) {
            struct governor governor = seasoned(samples, 1.0, 0.1), before = governor;
            assert_int_equal(verdict(&governor, bad[i]), PRUNE_GOVERNOR_NAN);
            assert_int_equal(governor.streak, 0);
            assert_int_equal(governor.count, samples); /* and is not remembered */
            assert_memory_equal(governor.history, before.history, sizeof before.history);
        }
    }
}

static void nothing_but_nan_panics_in_the_warm_up(void **state)
{
    (void)state;
    for (int samples = 0; samples < 10; samples++) {
        struct governor governor = seasoned(samples, 0.5, 0.0);
        assert_int_equal(verdict(&governor, 1e6), PRUNE_NONE); /* appended as it is */
        assert_int_equal(governor.streak, 0);
        assert_int_equal(governor.count, samples + 1);
        governor = seasoned(samples, 0.5, 0.0);
        assert_int_equal(verdict(&governor, log(10.0)), PRUNE_NONE);
        assert_int_equal(governor.count, samples + 1);
    }
    struct governor governor = seasoned(9, 0.5, 0.0);
    assert_int_equal(verdict(&governor, 0.5), PRUNE_NONE); /* the tenth sample */
    assert_int_equal(verdict(&governor, log(10.0)), PRUNE_GOVERNOR_LOBOTOMY);
}

/* |x - G| < 0.065 G, on both sides; the mean of the earlier losses is below 0.6 G. */
static void lobotomy_is_a_return_to_guessing(void **state)
{
    (void)state;
    const double guess = log((double)CLASSES);
    static const struct {
        double mean, loss; /* in units of the guess */
        bool panic;
    } cases[] = {
        {0.3, 1.0, true},     {0.3, 1.0649, true},     {0.3, 1.0651, false}, {0.3, 0.9351, true},
        {0.3, 0.9349, false}, {0.5999, 1.0, true},     {0.6001, 1.0, false}, {0.9, 1.0, false},
        {0.3, 0.3, false},    {0.5999, 1.0651, false}, {0.3, 1.2, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct governor governor = seasoned(12, cases[i].mean * guess, 0.01);
        assert_int_equal(verdict(&governor, cases[i].loss * guess),
                         cases[i].panic ? PRUNE_GOVERNOR_LOBOTOMY : PRUNE_NONE);
        assert_int_equal(governor.count, cases[i].panic ? 12 : 13);
    }
    /* the guess depends on the number of classes */
    const struct governor_config config = shipped();
    struct governor governor = seasoned(12, 1.0, 0.0);
    assert_int_equal(governor_verdict(&governor, &config, 100, log(100.0)), PRUNE_GOVERNOR_LOBOTOMY);
    governor = seasoned(12, 1.0, 0.0);
    assert_int_equal(governor_verdict(&governor, &config, 100, log(10.0)), PRUNE_NONE);
}

/* Above 12, above mean + 6 deviations and above 3 means: strictly, and all three. */
static void divergence_needs_all_three_limits(void **state)
{
    (void)state;
    static const struct {
        double mean, spread, loss;
        bool diverging;
    } cases[] = {
        {2.5, 0.0, 12.0, false}, {2.5, 0.0, 12.001, true}, {2.5, 0.0, 100.0, true},
        {3.0, 2.0, 15.0, false}, {3.0, 2.0, 15.001, true},                           /* mean + 6 deviations = 15 */
        {3.0, 1.0, 12.5, true},  {5.0, 0.5, 15.0, false},  {5.0, 0.5, 15.001, true}, /* 3 means = 15 */
        {5.0, 0.5, 14.0, false}, {8.0, 0.0, 20.0, false},  {2.5, 0.0, 11.9, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct governor governor = seasoned(10, cases[i].mean, cases[i].spread);
        assert_int_equal(verdict(&governor, cases[i].loss), PRUNE_NONE); /* once is no panic */
        assert_int_equal(governor.streak, cases[i].diverging);
        assert_int_equal(governor.count, cases[i].diverging ? 10 : 11);
        assert_int_equal(governor_may_snapshot(&governor), !cases[i].diverging);
    }
}

static void three_diverging_losses_in_a_row_panic(void **state)
{
    (void)state;
    struct governor governor = seasoned(10, 2.0, 0.1);
    assert_int_equal(verdict(&governor, 20.0), PRUNE_NONE);
    assert_int_equal(verdict(&governor, 20.0), PRUNE_NONE);
    assert_false(governor_may_snapshot(&governor));
    assert_int_equal(verdict(&governor, 2.0), PRUNE_NONE); /* a healthy one ends the streak */
    assert_int_equal(governor.streak, 0);
    assert_true(governor_may_snapshot(&governor));
    assert_int_equal(verdict(&governor, 20.0), PRUNE_NONE);
    assert_int_equal(verdict(&governor, 20.0), PRUNE_NONE);
    assert_int_equal(verdict(&governor, 20.0), PRUNE_GOVERNOR_DIVERGENCE);
    assert_int_equal(governor.streak, 0); /* the rollback starts afresh, with the history it had */
    assert_int_equal(governor.count, 11);
    assert_int_equal(verdict(&governor, 20.0), PRUNE_NONE);
    assert_int_equal(verdict(&governor, NAN), PRUNE_GOVERNOR_NAN);
    assert_int_equal(governor.streak, 0);
    struct governor_config patient = shipped();
    patient.streak = 1;
    assert_int_equal(governor_verdict(&governor, &patient, CLASSES, 20.0), PRUNE_GOVERNOR_DIVERGENCE);
}

static void the_history_is_the_last_twenty_healthy_losses(void **state)
{
    (void)state;
    struct governor governor = seasoned(0, 0, 0);
    for (int n = 0; n < 70; n++) {
        double sum = 0, square = 0;
        int from = n < 20 ? 0 : n - 20;
        for (int i = from; i < n; i++)
            sum += 5.0 + 0.01 * i;
        double mean = n ? sum / (n - from) : 0;
        for (int i = from; i < n; i++)
            square += (5.0 + 0.01 * i - mean) * (5.0 + 0.01 * i - mean);
        struct governor_moments moments = governor_moments_of(&governor);
        assert_int_equal(moments.count, n - from);
        assert_true(fabs(moments.mean - mean) < 1e-12);
        assert_true(fabs(moments.deviation - (n ? sqrt(square / (n - from)) : 0)) < 1e-12);
        assert_int_equal(verdict(&governor, 5.0 + 0.01 * n), PRUNE_NONE);
    }
    governor_clear(&governor);
    assert_int_equal(governor_moments_of(&governor).count, 0);
    assert_true(governor_may_snapshot(&governor));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shipped_thresholds_are_those_of_the_specification),
        cmocka_unit_test(a_loss_that_is_no_number_panics_at_once),
        cmocka_unit_test(nothing_but_nan_panics_in_the_warm_up),
        cmocka_unit_test(lobotomy_is_a_return_to_guessing),
        cmocka_unit_test(divergence_needs_all_three_limits),
        cmocka_unit_test(three_diverging_losses_in_a_row_panic),
        cmocka_unit_test(the_history_is_the_last_twenty_healthy_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
