/* The masked distribution of a head, and a whole decision (P-11, P-12). */
#include "testing.h"

#include <math.h>
#include <stdlib.h>

#include "policy/distribution.h"

static void assert_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%.9g is not %.9g (within %g)", got, want, tolerance);
}

static double uniform(uint32_t key, uint32_t element, double low, double high)
{
    return low + (high - low) * (double)random_unit(random_word(random_at(7, STREAM_ACTION, 0, key, 0), element));
}

static long counts(long in_test, long in_soak)
{
    return getenv("ESPER_SOAK") ? in_soak : in_test;
}

/* ---- distribution ------------------------------------------------------------------------------------------------ */

static struct distribution distribution_of(int size, uint32_t set, double floor, const float *logits)
{
    struct distribution d;
    distribution_init(&d, size, set, floor, logits);
    return d;
}

/* A floor of .15 (L-21). The cap 0.5 / v is 0.125 for four choices, so the row's .15 needs its own cap. */
static void mixture_floor_gives_the_numbers_worked_out(void **state)
{
    (void)state;
    const float z[] = {4, 0, 0, -1};
    const struct distribution d = distribution_of(4, 0xF, 0.1, z);
    const double sum = exp(4) + 2 + exp(-1);
    const double p[] = {exp(4) / sum, 1 / sum, 1 / sum, exp(-1) / sum};
    for (int i = 0; i < 4; i++)
        assert_near((double)d.q[i], 0.6 * p[i] + 0.1, 1e-6);
    float gradient[4];
    distribution_backward(&d, 4, 1, 1, 0, gradient);
    for (int i = 0; i < 4; i++)
        assert_near((double)gradient[i], 0.6 * p[1] / (0.6 * p[1] + 0.1) * ((i == 1) - p[i]), 1e-6);

    /* A floor of .15 of four is above the cap. The same formula, with the floor put in by hand: */
    struct distribution uncapped = d;
    uncapped.floor = 0.15f;
    for (int i = 0; i < 4; i++)
        uncapped.q[i] = 0.4f * d.p[i] + 0.15f;
    const double q[] = {.533373, .157022, .157022, .152583}, slope[] = {-.042859, .043933, -.000785, -.000289};
    distribution_backward(&uncapped, 4, 1, 1, 0, gradient);
    for (int i = 0; i < 4; i++) {
        assert_near((double)uncapped.q[i], q[i], 1e-6);
        assert_near((double)gradient[i], slope[i], 1e-6);
    }
}

static void a_single_choice_is_exactly_certain(void **state)
{
    (void)state;
    for (int size = 1; size <= DISTRIBUTION_MAX; size++) {
        for (int i = 0; i < size; i++) {
            float z[DISTRIBUTION_MAX], gradient[DISTRIBUTION_MAX];
            for (int k = 0; k < size; k++)
                z[k] = (float)uniform(1, (uint32_t)(size * 16 + k), -100, 100);
            z[(i + 1) % size] = i == (i + 1) % size ? z[i] : NAN; /* what is not legal is not read */
            const struct distribution d = distribution_of(size, 1u << i, 0.03, z);
            assert_true(d.q[i] == 1 && d.p[i] == 1);
            assert_true(distribution_log(&d, i) == 0 && distribution_entropy(&d) == 0);
            assert_true(distribution_entropy_shown(&d) == 0);
            distribution_backward(&d, size, i, 5, 5, gradient);
            for (int k = 0; k < size; k++)
                assert_true(gradient[k] == 0);
            assert_int_equal(distribution_sample(&d, 0.999999f), i);
            assert_int_equal(distribution_greedy(size, 1u << i, z), i);
        }
    }
}

/* P-11: sums to one, never below the floor, order kept, masked choices zero; for random sets, floors and logits. */
static void mixture_is_a_floor_that_keeps_order(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 20000; n++) {
        const int size = 2 + (int)(n % 15);
        const uint32_t set = (random_word(random_at(3, STREAM_ACTION, 0, 0, 0), n) & ((1u << size) - 1)) | 1u << n % 2;
        const double floor = n % 5 == 0 ? 0 : uniform(2, n, 0, 0.5), width = n % 3 == 0 ? 100 : 3;
        float z[DISTRIBUTION_MAX];
        for (int k = 0; k < size; k++)
            z[k] = (float)uniform(4, n * 16 + (uint32_t)k, -width, width);
        const struct distribution d = distribution_of(size, set, floor, z);
        double sum = 0;
        for (int i = 0; i < DISTRIBUTION_MAX; i++) {
            sum += (double)d.q[i];
            if (i >= size || !(set >> i & 1u)) {
                assert_true(d.q[i] == 0 && d.p[i] == 0);
                continue;
            }
            const double least = d.valid > 1 ? fmin(floor, 0.5 / d.valid) : 0;
            assert_true((double)d.q[i] >= least * (1 - 1e-6));
            assert_near((double)d.q[i], (1 - d.valid * least) * (double)d.p[i] + least, 1e-6);
            for (int k = 0; k < size; k++)
                if ((set >> k & 1u) && z[k] < z[i])
                    assert_true(d.q[k] <= d.q[i]);
        }
        assert_near(sum, 1, 2e-6);
        const double entropy = (double)distribution_entropy(&d), shown = (double)distribution_entropy_shown(&d);
        assert_true(entropy >= 0 && entropy <= 1 + 1e-6 && shown >= 0 && shown <= entropy + 1e-5);
        const int best = distribution_greedy(size, set, z);
        for (int i = 0; i < size; i++)
            assert_true(!(set >> i & 1u) || z[i] < z[best] || (z[i] == z[best] && i >= best));
    }
    const float flat[] = {1, 1, 1};
    const struct distribution uniform_one = distribution_of(3, 7, 0.4, flat); /* floor above 1 / v: capped */
    for (int i = 0; i < 3; i++)
        assert_near((double)uniform_one.q[i], 1.0 / 3, 1e-6);
    assert_near((double)distribution_entropy(&uniform_one), 1, 1e-6);
}

static void no_legal_choice_is_not_a_number(void **state)
{
    (void)state;
    const float z[] = {1, 2};
    const struct distribution d = distribution_of(2, 0, 0.1, z);
    assert_true(isnan(distribution_log(&d, 0)) && isnan(distribution_entropy(&d)));
}

/* Central differences of ln q and of the entropy; in float, so only to a few digits. The double build does it finely.
 */
static void distribution_gradients_match_differences(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 500; n++) {
        const int size = 3 + (int)(n % 10), choice = (int)(n % 3);
        const uint32_t set = 7u | random_word(random_at(5, STREAM_ACTION, 0, 0, 0), n) % (1u << size);
        float z[DISTRIBUTION_MAX], gradient[DISTRIBUTION_MAX];
        for (int k = 0; k < size; k++)
            z[k] = (float)uniform(6, n * 16 + (uint32_t)k, -2, 2);
        struct distribution d = distribution_of(size, set, 0.03, z);
        distribution_backward(&d, size, choice, 2, -3, gradient);
        for (int k = 0; k < size; k++) {
            double side[2];
            for (int s = 0; s < 2; s++) {
                const float keep = z[k];
                z[k] = keep + (s ? 1e-2f : -1e-2f);
                d = distribution_of(size, set, 0.03, z);
                side[s] = 2 * (double)distribution_log(&d, choice) - 3 * (double)distribution_entropy(&d);
                z[k] = keep;
            }
            assert_near((double)gradient[k], (side[1] - side[0]) / 2e-2, 3e-4);
            assert_true((set >> k & 1u) || gradient[k] == 0);
        }
    }
}

/* Frequencies follow q (chi-square), masked choices are never drawn, and every draw follows from its uniform number. */
static void samples_follow_the_distribution(void **state)
{
    (void)state;
    const float z[] = {100, -100, 0, 3, 50, 1, 99};
    const uint32_t set = 0x6B; /* 0, 1, 3, 5, 6 */
    const struct distribution d = distribution_of(7, set, 0.02, z);
    const long draws = counts(200000, 10000000);
    long seen[DISTRIBUTION_MAX] = {0};
    for (long n = 0; n < draws; n++)
        seen[distribution_sample(&d, random_unit(random_word(random_at(11, STREAM_ACTION, 0, 0, 0), (uint32_t)n)))]++;
    double chi_square = 0;
    for (int i = 0; i < DISTRIBUTION_MAX; i++) {
        if (i >= 7 || !(set >> i & 1u)) {
            assert_int_equal(seen[i], 0);
            continue;
        }
        const double expected = (double)d.q[i] * (double)draws;
        chi_square += ((double)seen[i] - expected) * ((double)seen[i] - expected) / expected;
    }
    assert_true(chi_square < 23.5); /* 4 degrees of freedom: one in 10 000 */
    assert_int_equal(distribution_sample(&d, 0), 0);
    assert_int_equal(distribution_sample(&d, 0x1.fffffep-1f), 6);
}

/* P-12: all ops, the heads that do not matter are canonical, certain and without influence. */
static void a_decision_samples_the_op_first(void **state)
{
    (void)state;
    const int slots = 3, logits = head_offset(slots, HEAD_COUNT);
    const double floor[HEAD_COUNT] = {.02, .03, .03, .03, .02, .02, .02, .02};
    struct masks masks = {0, {7, 5, 2, 6, 4, 3}};
    float z[HEAD_MAX_LOGITS];
    for (int head = 0; head < HEAD_COUNT; head++)
        masks.base |= mask_all(slots, head);
    masks.base &= ~mask_place(1, slots, HEAD_BLUEPRINT); /* NOOP is never available */
    for (int k = 0; k < logits; k++)
        z[k] = (float)uniform(8, (uint32_t)k, -1, 1);
    int seen[OP_COUNT] = {0};
    for (uint32_t env = 0; env < 3000; env++) {
        const struct random_site site = random_at(42, STREAM_ACTION, 3, env, 17);
        struct decision one, other;
        policy_sample(&masks, slots, floor, z, site, false, 1, &one);
        const int op = one.choice[HEAD_OP];
        seen[op]++;
        assert_true(one.mask == mask_of_op(&masks, slots, op));
        double sum = 0;
        for (int k = 0; k < OP_COUNT; k++)
            sum += (double)one.op_probability[k];
        assert_near(sum, 1, 1e-5);
        assert_true(op == OP_WAIT || (masks.slots[op] >> one.choice[HEAD_SLOT] & 1));
        for (int head = 0; head < HEAD_COUNT; head++) {
            if (head_relevance(op) >> head & 1)
                continue;
            assert_int_equal(one.choice[head], head_canonical(head));
            assert_true(one.logp[head] == 0 && one.entropy[head] == 0);
        }
        /* Their logits change nothing. */
        float poisoned[HEAD_MAX_LOGITS];
        memcpy(poisoned, z, sizeof z);
        for (int head = 0; head < HEAD_COUNT; head++)
            for (int k = 0; !(head_relevance(op) >> head & 1) && k < head_size(slots, head); k++)
                poisoned[head_offset(slots, head) + k] = NAN;
        for (int k = 0; !(head_relevance(op) >> HEAD_SLOT & 1) && k < slots; k++)
            poisoned[k] = 0; /* the one slot that stands for WAIT is still looked up */
        for (int head = 0; head < HEAD_COUNT; head++)
            if (!(head_relevance(op) >> head & 1))
                poisoned[head_offset(slots, head) + head_canonical(head)] = 1;
        policy_sample(&masks, slots, floor, poisoned, site, false, 1, &other);
        assert_memory_equal(one.choice, other.choice, sizeof one.choice);
        assert_memory_equal(one.logp, other.logp, sizeof one.logp);

        /* Half the temperature is twice the logits. */
        float twice[HEAD_MAX_LOGITS];
        for (int k = 0; k < logits; k++)
            twice[k] = 2 * z[k];
        policy_sample(&masks, slots, floor, z, site, false, 0.5, &one);
        policy_sample(&masks, slots, floor, twice, site, false, 1, &other);
        assert_memory_equal(&one, &other, sizeof one);

        policy_sample(&masks, slots, floor, z, site, true, 1, &one);
        assert_int_equal(one.choice[HEAD_OP], distribution_greedy(OP_COUNT, 0x3F, z + head_offset(slots, HEAD_OP)));
    }
    for (int op = 0; op < OP_COUNT; op++)
        assert_true(seen[op] > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixture_floor_gives_the_numbers_worked_out),
        cmocka_unit_test(a_single_choice_is_exactly_certain),
        cmocka_unit_test(mixture_is_a_floor_that_keeps_order),
        cmocka_unit_test(no_legal_choice_is_not_a_number),
        cmocka_unit_test(distribution_gradients_match_differences),
        cmocka_unit_test(samples_follow_the_distribution),
        cmocka_unit_test(a_decision_samples_the_op_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
