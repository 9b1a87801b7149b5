/* Masks: every state of up to three slots, and random ones of up to sixteen, against their definition (P-02). */
#include "policy/masks.h"

#include <stdlib.h>

#include "base/philox.h"
#include "testing_slots.h"

static const uint8_t stages[] = {STAGE_DORMANT,    STAGE_GERMINATED, STAGE_TRAINING,  STAGE_BLENDING, STAGE_HOLDING,
                                 STAGE_FOSSILIZED, STAGE_PRUNED,     STAGE_EMBARGOED, STAGE_RESETTING};
static const uint32_t ages[] = {0, 4, 5};
enum { STAGES = 9, AGES = 3, MODES = 3, SLOT_STATES = STAGES * AGES * MODES };

struct state {
    uint8_t stage[HEAD_MAX_SLOTS], mode[HEAD_MAX_SLOTS];
    uint32_t age[HEAD_MAX_SLOTS];
};

static struct mask_input input_of(const struct state *s, int slots)
{
    uint32_t live = 0;
    for (int i = 0; i < slots; i++)
        live += s->stage[i] >= STAGE_GERMINATED && s->stage[i] <= STAGE_FOSSILIZED;
    struct mask_input input = {.slots = slots,
                               .enabled = (1u << slots) - 1u,
                               .blueprints = CNN_OFFERED,
                               .total_seeds = live,
                               .stage = s->stage,
                               .alpha_mode = s->mode,
                               .age = s->age};
    return input;
}

/* The set of a stage list, as the definition writes it. */
static uint32_t slots_in(const struct mask_input *in, unsigned set)
{
    uint32_t found = 0;
    for (int s = 0; s < in->slots; s++)
        if ((in->enabled >> s & 1u) && (set >> in->stage[s] & 1u))
            found |= 1u << s;
    return found;
}

static uint32_t slots_holding_alpha(const struct mask_input *in)
{
    uint32_t found = 0;
    for (int s = 0; s < in->slots; s++)
        found |= in->alpha_mode[s] == ALPHA_HOLD ? 1u << s : 0;
    return found;
}

static uint32_t slots_of_age(const struct mask_input *in, uint32_t age)
{
    uint32_t found = 0;
    for (int s = 0; s < in->slots; s++)
        found |= in->age[s] >= age ? 1u << s : 0;
    return found;
}

enum {
    G = 1 << STAGE_GERMINATED,
    T = 1 << STAGE_TRAINING,
    B = 1 << STAGE_BLENDING,
    H = 1 << STAGE_HOLDING,
    COOLING = 1 << STAGE_PRUNED | 1 << STAGE_EMBARGOED | 1 << STAGE_RESETTING
};

static void expect_slots(const struct mask_input *in, uint32_t want[OP_COUNT])
{
    uint32_t resting = slots_holding_alpha(in), every = (1u << in->slots) - 1u;
    bool full = in->max_seeds > 0 && in->total_seeds >= in->max_seeds;
    bool blocked = slots_in(in, G | T | COOLING) != 0;
    want[OP_WAIT] = in->enabled;
    want[OP_GERMINATE] = full || blocked ? 0 : slots_in(in, 1 << STAGE_DORMANT);
    want[OP_SET_ALPHA_TARGET] = slots_in(in, B | H) & resting;
    want[OP_PRUNE] = slots_in(in, G | T | B | H) & slots_of_age(in, 5) & (in->override_hold ? every : resting);
    want[OP_FOSSILIZE] = slots_in(in, H);
    want[OP_ADVANCE] = in->advance_disabled ? 0 : slots_in(in, G | T | B);
}

/* Plain comparisons: cmocka's macros are too slow for millions of cases. */
#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail_msg("%s (op %d)", #condition, op);                                                                    \
    } while (0)

static void check_effective(const struct masks *masks, int slots, int op)
{
    uint64_t stored = mask_of_op(masks, slots, op), mask = mask_effective(stored, slots, op);
    static const uint8_t canonical[] = {0, 0, 2, 1, 2, 0, 0, 0};
    MUST(head_bits(stored, slots, HEAD_SLOT) == masks->slots[op]);
    MUST(stored >> slots == masks->base >> slots);
    for (int head = 0; head < HEAD_COUNT; head++) {
        uint32_t bits = head_bits(mask, slots, head), was = head_bits(stored, slots, head);
        if (head_relevance(op) >> head & 1)
            MUST(bits == was && bits != 0);
        else if (head == HEAD_SLOT)
            MUST(bits == (was & -was) && bits != 0);
        else
            MUST(bits == 1u << canonical[head]);
    }
    MUST(mask >> (38 + slots) == 0);
    MUST(mask_effective(mask, slots, op) == mask);
    MUST(mask_is_forced(mask, slots) == mask_is_forced(masks->base, slots));
}

static void check_masks(const struct mask_input *in)
{
    struct masks masks = masks_of(in);
    uint32_t want[OP_COUNT], ops = 0;
    int slots = in->slots, op = -1;
    expect_slots(in, want);
    for (op = 0; op < OP_COUNT; op++) {
        MUST(masks.slots[op] == want[op]);
        ops |= want[op] ? 1u << op : 0;
    }
    bool shaping = want[OP_GERMINATE] || want[OP_SET_ALPHA_TARGET];
    const uint32_t heads[HEAD_COUNT] = {in->enabled, in->blueprints, shaping ? 15 : 4, 7, shaping ? 7 : 4, 15, 31, ops};
    for (int head = 0; head < HEAD_COUNT; head++)
        MUST(head_bits(masks.base, slots, head) == heads[head]);
    MUST(masks.base >> (38 + slots) == 0);
    MUST(ops & 1u);
    MUST(mask_is_forced(masks.base, slots) == (ops == 1u));
    for (op = 0; op < OP_COUNT; op++)
        if (ops >> op & 1u)
            check_effective(&masks, slots, op);
}

static void set_slot(struct state *state, int slot, int code)
{
    state->stage[slot] = stages[code % STAGES];
    state->age[slot] = ages[code / STAGES % AGES];
    state->mode[slot] = (uint8_t)(code / (STAGES * AGES));
}

/* One and two slots: with every flag, limit and enabled set. Three: every state and limit, the rest in turn. */
static void every_state_of_three_slots_is_masked_as_written(void **unused)
{
    (void)unused;
    static const int states[] = {1, SLOT_STATES, SLOT_STATES * SLOT_STATES, SLOT_STATES * SLOT_STATES * SLOT_STATES};
    bool soak = getenv("ESPER_SOAK") != NULL;
    for (int slots = 1; slots <= 3; slots++) {
        for (int code = 0; code < states[slots]; code++) {
            struct state state;
            for (int s = 0, rest = code; s < slots; s++, rest /= SLOT_STATES)
                set_slot(&state, s, rest % SLOT_STATES);
            struct mask_input input = input_of(&state, slots);
            int sets = (1 << slots) - 1, variants = 4 * sets, start = 0;
            if (slots == 3 && !soak) {
                start = (int)(code * 2654435761u >> 8) % variants;
                variants = start + 1;
            }
            for (int limit = 0; limit <= slots; limit++) {
                for (int variant = start; variant < variants; variant++) {
                    input.max_seeds = (uint32_t)limit;
                    input.override_hold = variant & 1;
                    input.advance_disabled = variant >> 1 & 1;
                    input.enabled = 1u + (uint32_t)(variant >> 2);
                    check_masks(&input);
                }
            }
        }
    }
}

static void random_states_of_up_to_sixteen_slots_are_masked_as_written(void **unused)
{
    (void)unused;
    int cases = getenv("ESPER_SOAK") ? 2000000 : 40000;
    for (int i = 0; i < cases; i++) {
        struct state state;
        struct random_site site = random_at(11, STREAM_ACTION, 0, 0, (uint32_t)i);
        int slots = 1 + (int)(random_word(site, 0) % HEAD_MAX_SLOTS);
        /* many slots: mostly stages that do not block, or nothing could ever germinate */
        bool calm = random_word(site, 1) % 2;
        for (int s = 0; s < slots; s++) {
            set_slot(&state, s, (int)(random_word(site, 8 + (uint32_t)s) % SLOT_STATES));
            if (calm && (state.stage[s] <= STAGE_TRAINING || state.stage[s] >= STAGE_PRUNED))
                state.stage[s] = STAGE_DORMANT;
        }
        struct mask_input input = input_of(&state, slots);
        input.max_seeds = random_word(site, 2) % ((uint32_t)slots + 1);
        input.override_hold = random_word(site, 3) % 2;
        input.advance_disabled = random_word(site, 4) % 2;
        uint32_t some = random_word(site, 5) & ((1u << slots) - 1u);
        input.enabled = some ? some : 1u;
        check_masks(&input);
    }
}

/* What the mask allows, the executor does; what it forbids on a slot by itself, the executor refuses as well. */
static void masks_and_executor_agree(void **unused)
{
    (void)unused;
    for (int code = 0; code < SLOT_STATES; code++) {
        struct state state;
        set_slot(&state, 0, code);
        struct slot_state slot = slot_in(state.stage[0]);
        slot.alpha_mode = state.mode[0];
        slot.epochs_total = state.age[0];
        struct masks masks = masks_of_slots(&slot, 1, CNN_OFFERED, 0, false);
        for (int op = 0; op < OP_COUNT; op++) {
            struct action action = {.op = (uint8_t)op, .blueprint = BLUEPRINT_NORM};
            assert_int_equal(action_allowed(&slot, &action), masks.slots[op]);
        }
    }
}

static void the_masks_of_slots_count_live_seeds(void **unused)
{
    (void)unused;
    struct slot_state slot[4] = {slot_in(STAGE_FOSSILIZED), slot_in(STAGE_DORMANT), slot_in(STAGE_HOLDING),
                                 slot_in(STAGE_DORMANT)};
    for (int limit = 0; limit < 5; limit++) /* the fossil counts; 0 is no limit */
        assert_int_equal(masks_of_slots(slot, 4, CNN_OFFERED, limit, true).slots[OP_GERMINATE],
                         limit == 0 || limit > 2 ? 10 : 0);
    slot[3] = slot_in(STAGE_EMBARGOED); /* not a seed, but it blocks */
    assert_int_equal(masks_of_slots(slot, 4, CNN_OFFERED, 0, true).slots[OP_GERMINATE], 0);
    slot[3] = slot_in(STAGE_BLENDING);
    struct masks masks = masks_of_slots(slot, 4, CNN_OFFERED, 0, true);
    assert_int_equal(masks.slots[OP_GERMINATE], 2);
    assert_int_equal(masks.slots[OP_ADVANCE], 0);
    assert_int_equal(masks_of_slots(slot, 4, CNN_OFFERED, 0, false).slots[OP_ADVANCE], 8);
    assert_int_equal(head_bits(masks.base, 4, HEAD_BLUEPRINT), CNN_OFFERED);
    struct slot_state many[HEAD_MAX_SLOTS];
    for (int s = 0; s < HEAD_MAX_SLOTS; s++)
        many[s] = slot_in(STAGE_DORMANT);
    masks = masks_of_slots(many, HEAD_MAX_SLOTS, CNN_OFFERED, 0, true);
    assert_int_equal(masks.slots[OP_WAIT], 0xFFFF);
    assert_int_equal(masks.slots[OP_GERMINATE], 0xFFFF);
}

static void the_blueprints_on_offer_are_the_seven_of_a_cnn(void **unused)
{
    (void)unused;
    for (int b = 0; b < BLUEPRINT_HEAD_SIZE; b++)
        assert_int_equal(CNN_OFFERED >> b & 1u, b != BLUEPRINT_NOOP && b < BLUEPRINT_COUNT);
}

static void what_is_no_state_has_no_mask(void **unused)
{
    (void)unused;
    struct state state = {.stage = {STAGE_DORMANT, STAGE_HOLDING}};
    struct mask_input good = input_of(&state, 2), bad = good;
    assert_true(masks_of(&good).base != 0);
    bad.enabled = 0;
    assert_true(masks_of(&bad).base == 0);
    bad.enabled = 4; /* a slot that is not there */
    assert_true(masks_of(&bad).base == 0);
    bad = good;
    bad.slots = 0;
    assert_true(masks_of(&bad).base == 0);
    bad.slots = HEAD_MAX_SLOTS + 1;
    assert_true(masks_of(&bad).base == 0);
    static const uint32_t sets[] = {0, CNN_OFFERED | 1u, 1u << BLUEPRINT_HEAD_SIZE};
    for (int i = 0; i < 3; i++) {
        bad = good;
        bad.blueprints = sets[i];
        assert_true(masks_of(&bad).base == 0);
    }
    static const uint8_t illegal[] = {5, STAGE_LIMIT, 255};
    for (int i = 0; i < 3; i++) {
        state.stage[1] = illegal[i];
        struct masks masks = masks_of(&good);
        assert_true(masks.base == 0);
        for (int op = 0; op < OP_COUNT; op++)
            assert_int_equal(masks.slots[op], 0);
    }
}

/* P-04, row by row. */
static void relevance_is_the_table(void **unused)
{
    (void)unused;
    static const uint8_t table[HEAD_COUNT][OP_COUNT] = {{0, 1, 1, 1, 1, 1}, {0, 1, 0, 0, 0, 0}, {0, 1, 1, 0, 0, 0},
                                                        {0, 1, 0, 0, 0, 0}, {0, 1, 1, 0, 0, 0}, {0, 0, 1, 1, 0, 0},
                                                        {0, 0, 1, 1, 0, 0}, {1, 1, 1, 1, 1, 1}};
    for (int head = 0; head < HEAD_COUNT; head++)
        for (int op = 0; op < OP_COUNT; op++)
            assert_int_equal(head_relevance(op) >> head & 1, table[head][op]);
    for (unsigned ops = 0; ops < 1u << OP_COUNT; ops++)
        for (int head = 0; head < HEAD_COUNT; head++) {
            int any = 0;
            for (int op = 0; op < OP_COUNT; op++)
                any |= (ops >> op & 1u) && table[head][op];
            assert_int_equal(head_availability(ops) >> head & 1, any);
        }
}

/* Only some slots enabled: WAIT points at the lowest of them. */
static void waiting_points_at_the_lowest_enabled_slot(void **unused)
{
    (void)unused;
    struct state state = {.stage = {STAGE_HOLDING, STAGE_HOLDING, STAGE_HOLDING}, .age = {9, 9, 9}};
    struct mask_input input = input_of(&state, 3);
    input.enabled = 6;
    struct masks masks = masks_of(&input);
    uint64_t mask = mask_effective(mask_of_op(&masks, 3, OP_WAIT), 3, OP_WAIT);
    assert_int_equal(head_bits(mask, 3, HEAD_SLOT), 2);
    assert_int_equal(head_bits(mask, 3, HEAD_BLUEPRINT), 1u << BLUEPRINT_NOOP);
    assert_int_equal(head_bits(mask_effective(mask_of_op(&masks, 3, OP_PRUNE), 3, OP_PRUNE), 3, HEAD_SLOT), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_of_three_slots_is_masked_as_written),
        cmocka_unit_test(random_states_of_up_to_sixteen_slots_are_masked_as_written),
        cmocka_unit_test(masks_and_executor_agree),
        cmocka_unit_test(the_masks_of_slots_count_live_seeds),
        cmocka_unit_test(the_blueprints_on_offer_are_the_seven_of_a_cnn),
        cmocka_unit_test(what_is_no_state_has_no_mask),
        cmocka_unit_test(relevance_is_the_table),
        cmocka_unit_test(waiting_points_at_the_lowest_enabled_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
