/* The random policy (P-21): never an illegal choice, ops as often as their rates say, all else equally likely, draws
 * that depend only on position. */
#include "policy/uniform.h"

#include <stdlib.h>

#include "testing_slots.h"

static const double equal[OP_COUNT] = {1, 1, 1, 1, 1, 1};

static struct random_site site_of(uint32_t draw)
{
    return random_at(42, STREAM_RANDOM_POLICY, 0, 1, draw);
}

static void a_choice_is_the_nth_set_bit(void **state)
{
    (void)state;
    assert_int_equal(uniform_choice(1u << 9, 0), 9);
    assert_int_equal(uniform_choice(1u << 9, 0xFFFFFFFFu), 9);
    static const uint32_t bits = 1u << 1 | 1u << 4 | 1u << 5 | 1u << 15;
    static const uint8_t places[] = {1, 4, 5, 15};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(uniform_choice(bits, (uint32_t)i << 30), places[i]);
        assert_int_equal(uniform_choice(bits, ((uint32_t)i << 30) + 0x3FFFFFFFu), places[i]);
    }
}

/* chi-squared beyond what one table in 10 000 shows by chance: mean + 4.5 deviations is more than enough. */
static void assert_uniform(const int *count, uint32_t bits, int total, const char *what)
{
    int options = 0;
    double sum = 0;
    for (int i = 0; i < 32; i++)
        options += (int)(bits >> i & 1u);
    for (int i = 0; i < 32; i++) {
        double expected = (bits >> i & 1u) ? (double)total / options : 0.0;
        if (!(bits >> i & 1u))
            assert_int_equal(count[i], 0);
        else
            sum += (count[i] - expected) * (count[i] - expected) / expected;
    }
    double freedom = options - 1;
    if (sum > freedom + 4.5 * sqrt(2.0 * freedom) + 4.5)
        fail_msg("%s: chi squared %g with %d choices", what, sum, options);
}

/* A state in which every op but ADVANCE is legal: one slot empty, one blending and at rest, one holding. */
static struct masks rich_masks(void)
{
    struct slot_state slot[3] = {slot_in(STAGE_DORMANT), slot_in(STAGE_BLENDING), slot_in(STAGE_HOLDING)};
    slot[1].epochs_total = slot[2].epochs_total = 20;
    return masks_of_slots(slot, 3, CNN_OFFERED, 0, true);
}

static void all_legal_choices_are_equally_likely(void **state)
{
    (void)state;
    static int count[OP_COUNT][HEAD_COUNT][32];
    int draws = getenv("ESPER_SOAK") ? 4000000 : 200000, of_op[OP_COUNT] = {0}, ops[32] = {0};
    struct masks masks = rich_masks();
    assert_int_equal(head_bits(masks.base, 3, HEAD_OP), 0x1F);
    for (int i = 0; i < draws; i++) {
        struct action action = uniform_decide(&masks, 3, equal, site_of((uint32_t)i));
        uint8_t choice[HEAD_COUNT];
        heads_of_action(&action, choice);
        ops[action.op]++;
        of_op[action.op]++;
        for (int head = 0; head < HEAD_COUNT; head++)
            count[action.op][head][choice[head]]++;
    }
    assert_uniform(ops, 0x1F, draws, "op");
    for (int op = 0; op < OP_ADVANCE; op++) {
        uint64_t mask = mask_effective(mask_of_op(&masks, 3, op), 3, op);
        for (int head = 0; head < HEAD_OP; head++)
            assert_uniform(count[op][head], head_bits(mask, 3, head), of_op[op], head_name(head));
    }
}

/* Two heads of one decision are independent: every pair is equally likely. */
static void heads_are_independent(void **state)
{
    (void)state;
    int pair[32] = {0}, total = 0;
    struct masks masks = rich_masks();
    for (uint32_t i = 0; i < 200000; i++) {
        struct action action = uniform_decide(&masks, 3, equal, site_of(i));
        if (action.op == OP_SET_ALPHA_TARGET) {
            pair[action.alpha_curve * 4 + action.alpha_speed]++;
            total++;
        }
    }
    assert_true(total > 30000);
    assert_uniform(pair, (1u << 20) - 1u, total, "curve and speed");
}

/* Equal rates, whatever they are, draw what uniform_choice draws. */
static void equal_rates_change_nothing(void **state)
{
    (void)state;
    static const double rates[] = {1, 0.37, 1000, 1.0 / 65536};
    for (uint32_t i = 0; i < 100000; i++) {
        uint32_t bits = 1 + i % 63, word = random_word(site_of(i), 0);
        double rate[OP_COUNT];
        for (int op = 0; op < OP_COUNT; op++)
            rate[op] = rates[i / 63 % 4];
        word = i % 7 ? word : i % 2 ? 0 : UINT32_MAX;
        assert_int_equal(uniform_rated(bits, rate, OP_WAIT, word), uniform_choice(bits, word));
    }
}

/* Among those allowed an op is drawn as often as its rate says, never at rate 0; when all are 0, WAIT is. */
static void rates_say_how_often(void **state)
{
    (void)state;
    static const double rate[OP_COUNT] = {6, 3, 0.5, 0, 0.5, 90}, none[OP_COUNT] = {0};
    int count[OP_COUNT] = {0}, draws = 200000;
    struct masks masks = rich_masks(); /* all but ADVANCE */
    for (int i = 0; i < draws; i++) {
        struct action action = uniform_decide(&masks, 3, rate, site_of((uint32_t)i));
        count[action.op]++;
        assert_int_equal(uniform_decide(&masks, 3, none, site_of((uint32_t)i)).op, OP_WAIT);
    }
    for (int op = 0; op < OP_COUNT; op++) {
        double expected = op == OP_ADVANCE ? 0 : draws * rate[op] / 10;
        assert_true(fabs(count[op] - expected) <= 5 * sqrt(expected));
    }
    assert_int_equal(uniform_rated(0x1E, none, OP_WAIT, 0), 1); /* WAIT is not allowed: any */
    assert_int_equal(uniform_rated(0x1E, none, OP_WAIT, UINT32_MAX), 4);
}

/* Whole episodes: what it decides, the executor does. */
static void it_never_does_what_is_illegal(void **state)
{
    (void)state;
    int episodes = getenv("ESPER_SOAK") ? 2000 : 60, seen[OP_COUNT] = {0};
    for (int episode = 0; episode < episodes; episode++) {
        int slots = 1 + episode % HEAD_MAX_SLOTS;
        struct slot_state slot[HEAD_MAX_SLOTS];
        const struct gate_rules *rules = episode % 2 ? &defaults : &manual;
        for (int s = 0; s < slots; s++)
            slot_clear(&slot[s]);
        for (uint32_t t = 1; t <= 150; t++) {
            struct masks masks = masks_of_slots(slot, slots, CNN_OFFERED, episode % 4, episode % 2);
            struct action action =
                uniform_decide(&masks, slots, equal, random_at(7, STREAM_RANDOM_POLICY, (uint32_t)episode, 0, t));
            assert_in_range(action.slot, 0, slots - 1);
            assert_true(masks.slots[action.op] >> action.slot & 1u);
            assert_true(action_allowed(&slot[action.slot], &action));
            if (action.op == OP_GERMINATE)
                assert_in_range(action.blueprint, BLUEPRINT_CONV_LIGHT, BLUEPRINT_CONV_HEAVY);
            seen[action.op]++;
            for (int s = 0; s < slots; s++)
                step(&slot[s], rules, s == action.slot ? &action : &wait);
        }
    }
    for (int op = 0; op < OP_COUNT; op++)
        assert_true(seen[op] > 0);
}

/* A draw is a function of seed, round, env, step and head: other masks, other choices, the same words. */
static void draws_depend_on_their_place_alone(void **state)
{
    (void)state;
    struct masks masks = rich_masks();
    int moved = 0;
    for (uint32_t i = 0; i < 200; i++) {
        struct action action = uniform_decide(&masks, 3, equal, site_of(i)),
                      again = uniform_decide(&masks, 3, equal, site_of(i));
        assert_memory_equal(&action, &again, sizeof action);
        struct philox_block low = philox(42, 0, i, 1, 10u << 24), high = philox(42, 1, i, 1, 10u << 24);
        assert_int_equal(action.op, (uint64_t)high.word[3] * 5 >> 32);
        if (action.op == OP_GERMINATE)
            assert_int_equal(action.blueprint, 1 + ((uint64_t)low.word[1] * 7 >> 32));
        struct action other = uniform_decide(&masks, 3, equal, random_at(42, STREAM_RANDOM_POLICY, 0, 2, i));
        moved += memcmp(&action, &other, sizeof action) != 0;
    }
    assert_true(moved > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_choice_is_the_nth_set_bit),
        cmocka_unit_test(all_legal_choices_are_equally_likely),
        cmocka_unit_test(heads_are_independent),
        cmocka_unit_test(equal_rates_change_nothing),
        cmocka_unit_test(rates_say_how_often),
        cmocka_unit_test(it_never_does_what_is_illegal),
        cmocka_unit_test(draws_depend_on_their_place_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
