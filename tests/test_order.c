/* The order of the training images (E-09). */
#include "testing.h"

#include "data/order.h"

static void order_is_a_bijection(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 2, 3, 4, 5, 10, 63, 64, 65, 1000, 1024, 1025, 10000, 45000, 65537};
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
        for (uint32_t pass = 0; pass < 3; pass++) {
            const uint32_t count = counts[k];
            struct order order = order_of_pass(42, 1, 2, pass, count);
            uint8_t *seen = calloc(count, 1);
            assert_non_null(seen);
            for (uint32_t i = 0; i < count; i++) {
                uint32_t image = order_at(&order, i);
                assert_true(image < count);
                assert_int_equal(seen[image]++, 0);
            }
            free(seen);
        }
}

/* The largest sizes the counter allows work as well; a sample shows that no two positions collide. */
static void order_of_a_large_set(void **state)
{
    (void)state;
    struct order order = order_of_pass(1, 0, 0, 0, 0xFFFFFFFFu);
    for (uint32_t i = 0; i < 1000; i++)
        for (uint32_t j = 0; j < i; j += 37)
            assert_int_not_equal(order_at(&order, i), order_at(&order, j));
}

static void order_depends_on_seed_round_env_and_pass(void **state)
{
    (void)state;
    const uint32_t count = 10000;
    struct order reference = order_of_pass(42, 3, 5, 7, count);
    struct order same = order_of_pass(42, 3, 5, 7, count);
    struct order others[] = {order_of_pass(43, 3, 5, 7, count), order_of_pass(42 + (1ull << 32), 3, 5, 7, count),
                             order_of_pass(42, 4, 5, 7, count), order_of_pass(42, 3, 6, 7, count),
                             order_of_pass(42, 3, 5, 8, count)};
    int agree[5] = {0};
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(order_at(&reference, i), order_at(&same, i));
        for (int k = 0; k < 5; k++)
            agree[k] += order_at(&reference, i) == order_at(&others[k], i);
    }
    for (int k = 0; k < 5; k++) /* two random permutations agree in one place on average; 12 has odds below 1e-8 */
        assert_in_range(agree[k], 0, 12);
}

/* Keys are the eight words of blocks 0 and 1 of stream 3, a = pass (E-08). */
static void order_takes_its_keys_from_stream_3(void **state)
{
    (void)state;
    struct order order = order_of_pass(0x123456789ABCDEF0u, 11, 22, 33, 1000);
    for (uint32_t i = 0; i < 8; i++) {
        struct philox_block block = philox(0x123456789ABCDEF0u, i / 4, 33, 22, (3u << 24) + 11);
        assert_int_equal(order.key[i], block.word[i % 4]);
    }
    assert_int_equal(order.half_bits, 5);
}

/* Every image is equally likely at every place, and neighbours in the order are independent. */
static void order_is_uniform(void **state)
{
    (void)state;
    enum { COUNT = 1000, PASSES = 4000, BUCKETS = 20 };
    static const uint32_t places[] = {0, 1, 2, 499, 500, 998, 999};
    for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
        int bucket[BUCKETS] = {0}, joint[4][4] = {{0}};
        double sum = 0;
        for (uint32_t pass = 0; pass < PASSES; pass++) {
            struct order order = order_of_pass(7, 0, 0, pass, COUNT);
            uint32_t image = order_at(&order, places[p]), next = order_at(&order, (places[p] + 1) % COUNT);
            bucket[image * BUCKETS / COUNT]++;
            joint[image * 4 / COUNT][next * 4 / COUNT]++;
            sum += image;
        }
        double spread = sqrt((COUNT * (double)COUNT - 1) / 12 / PASSES), chi = 0, chi_joint = 0;
        assert_true(fabs(sum / PASSES - (COUNT - 1) / 2.0) < 4.5 * spread);
        for (int b = 0; b < BUCKETS; b++)
            chi += pow(bucket[b] - PASSES / (double)BUCKETS, 2) / (PASSES / (double)BUCKETS);
        for (int b = 0; b < 16; b++)
            chi_joint += pow(joint[b / 4][b % 4] - PASSES / 16.0, 2) / (PASSES / 16.0);
        assert_true(chi < 19 + 5 * sqrt(2 * 19));
        assert_true(chi_joint < 15 + 5 * sqrt(2 * 15));
    }
}

/* Within one pass: no run structure, no correlation of neighbours, half of all neighbours ascend. */
static void order_within_a_pass_looks_random(void **state)
{
    (void)state;
    const uint32_t count = 45000;
    for (uint32_t env = 0; env < 8; env++) {
        struct order order = order_of_pass(42, 0, env, 0, count);
        double middle = (count - 1) / 2.0, product = 0, with_place = 0;
        int ascents = 0, near = 0;
        for (uint32_t i = 0; i + 1 < count; i++) {
            double a = order_at(&order, i), b = order_at(&order, i + 1);
            product += (a - middle) * (b - middle);
            with_place += (a - middle) * (i - middle);
            ascents += a < b;
            near += fabs(a - b) <= 5;
        }
        double variance = (count * (double)count - 1) / 12, root = sqrt(count);
        assert_true(fabs(product / variance) < 4.5 * root);
        assert_true(fabs(with_place / variance) < 4.5 * root);
        assert_true(fabs(ascents - count / 2.0) < 4.5 * sqrt(count / 12.0));
        assert_true(abs(near - 10) <= 15); /* ten in expectation */
    }
}

static void order_of_three_takes_every_form(void **state)
{
    (void)state;
    int seen[27] = {0}, forms = 0;
    for (uint32_t pass = 0; pass < 6000; pass++) {
        struct order order = order_of_pass(42, 0, 0, pass, 3);
        seen[order_at(&order, 0) * 9 + order_at(&order, 1) * 3 + order_at(&order, 2)]++;
    }
    for (int i = 0; i < 27; i++)
        if (seen[i]) {
            forms++;
            assert_in_range(seen[i], 850, 1150);
        }
    assert_int_equal(forms, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_a_bijection),
        cmocka_unit_test(order_of_a_large_set),
        cmocka_unit_test(order_depends_on_seed_round_env_and_pass),
        cmocka_unit_test(order_takes_its_keys_from_stream_3),
        cmocka_unit_test(order_is_uniform),
        cmocka_unit_test(order_within_a_pass_looks_random),
        cmocka_unit_test(order_of_three_takes_every_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
