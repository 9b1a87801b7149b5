/*
 * Seeds in a network: what they change, what they must leave alone, to the bit. The operators by themselves (I-21 ...
 * I-23, I-25, I-29) are cases of `esper selftest`.
 */
#include "network_rig.h"

/* ---- blending in a network -------------------------------------------------------------------------------------- */

static void i20_alpha_zero_is_the_host_alone_whatever_the_seed_holds(void **state)
{
    (void)state;
    struct rig rig;
    float plain[LOGITS], logits[LOGITS];
    rig_open_small(&rig, 9);
    rig_logits(&rig, plain);
    double loss = rig_step(&rig).score.loss;
    for (int algorithm = ALGORITHM_ADD; algorithm <= ALGORITHM_GATE; algorithm++) {
        rig_start(&rig);
        for (int j = 0; j < rig.shape.slots; j++) {
            rig_wake(&rig, j, SLOT_BLEND, BLUEPRINT_CONV_LIGHT, algorithm, 0);
            rig.params.seed[rig.shape.slot[j].seed] = j % 2 ? NAN : INFINITY;
        }
        rig_logits(&rig, logits);
        assert_memory_equal(logits, plain, sizeof(float) * 9 * SHAPE_CLASSES);
        assert_true(rig_step(&rig).score.loss == loss);
    }
    rig_close(&rig);
}

static void i24_a_seed_in_training_leaves_the_host_as_it_is(void **state)
{
    (void)state;
    struct rig rig;
    rig_open_small(&rig, 9);
    double loss = rig_step(&rig).score.loss;
    struct state plain = state_of(&rig);
    for (int j = 0; j < rig.shape.slots; j++) {
        rig_start(&rig);
        rig_wake(&rig, j, SLOT_STE, BLUEPRINT_BOTTLENECK, ALGORITHM_ADD, 0);
        struct net_result result = rig_step(&rig);
        assert_true(result.score.loss == loss);
        assert_host_same(&rig, &plain);
        assert_true(result.slot_norm[j] > 0 && result.grads[j].measured);
        assert_true(any_nonzero(rig.memory.first.seed + rig.shape.slot[j].seed, rig.shape.slot[j].seed_storage));
    }
    state_free(&plain);
    rig_close(&rig);
}

static void i26_a_frozen_seed_does_not_change_and_still_passes_gradients(void **state)
{
    (void)state;
    struct rig rig;
    rig_open_small(&rig, 6);
    rig_grow(&rig);
    struct state before = state_of(&rig);
    rig_step(&rig);
    struct state awake = state_of(&rig);
    rig_start(&rig);
    rig_grow(&rig);
    for (int j = 0; j < rig.shape.slots; j++)
        rig.exec[j].train = false;
    struct net_result result = rig_step(&rig);
    assert_host_same(&rig, &awake); /* the host's gradient is the same, frozen seeds or not */
    assert_memory_equal(rig.params.seed, before.seed, sizeof(float) * rig.shape.seed_storage);
    assert_memory_equal(rig.params.gate, before.gate, sizeof(float) * rig.shape.gate_storage);
    assert_memory_equal(rig.memory.first.seed, before.seed_momentum, sizeof(float) * rig.shape.seed_storage);
    assert_memory_equal(rig.memory.first.gate, before.gate_momentum, sizeof(float) * rig.shape.gate_storage);
    for (int j = 0; j < rig.shape.slots; j++) { /* D-35: no gradient at all is healthy */
        assert_true(result.grads[j].norm == 0 && result.grads[j].health == 1);
        assert_false(result.grads[j].vanishing || result.grads[j].exploding);
    }
    state_free(&before);
    state_free(&awake);
    rig_close(&rig);
}

static void i27_seeds_do_not_disturb_one_another(void **state)
{
    (void)state;
    struct rig rig;
    rig_open_small(&rig, 6);
    rig_wake(&rig, 0, SLOT_STE, BLUEPRINT_CONV_LIGHT, ALGORITHM_ADD, 0);
    rig_wake(&rig, 4, SLOT_STE, BLUEPRINT_DEPTHWISE, ALGORITHM_ADD, 0);
    rig_step(&rig);
    struct state both = state_of(&rig);
    rig_start(&rig);
    rig_wake(&rig, 4, SLOT_STE, BLUEPRINT_DEPTHWISE, ALGORITHM_ADD, 0); /* the first one is gone */
    rig_step(&rig);
    const struct slot_shape *slot = &rig.shape.slot[4];
    assert_memory_equal(rig.params.seed + slot->seed, both.seed + slot->seed, sizeof(float) * slot->seed_storage);
    assert_memory_equal(rig.memory.first.seed + slot->seed, both.seed_momentum + slot->seed,
                        sizeof(float) * slot->seed_storage);
    assert_host_same(&rig, &both);
    state_free(&both);
    rig_close(&rig);
}

/* A seed whose output is NAN poisons the statistics of the next block, or the loss, and nothing before its slot. */
static void i28_a_seed_stands_where_its_slot_is(void **state)
{
    (void)state;
    struct rig rig;
    rig_open_small(&rig, 5);
    for (int j = 0; j < rig.shape.slots; j++) {
        int column = rig.shape.slot[j].column;
        struct param_layout layout;
        rig_start(&rig);
        rig_wake(&rig, j, SLOT_BLEND, BLUEPRINT_NORM, ALGORITHM_ADD, 0.5f);
        blueprint_layout(BLUEPRINT_NORM, rig.cnn.site[j].channels, &layout);
        rig.params.seed[rig.shape.slot[j].seed + layout.tensor[layout_find(&layout, "sigma")].offset] = NAN;
        double loss = rig_step(&rig).score.loss;
        for (int i = 0; i < rig.cnn.blocks && i <= column + 1; i++) {
            const struct block_shape *b = &rig.cnn.block[i];
            assert_int_equal(all_finite(rig.params.stats + b->mean, 2 * (size_t)b->cout), i <= column);
        }
        if (column + 1 == rig.cnn.blocks)
            assert_true(isnan(loss));
    }
    rig_close(&rig);
}

static void i30_sleeping_pools_full_of_nan_change_nothing(void **state)
{
    (void)state;
    struct rig rig;
    float clean[LOGITS], dirty[LOGITS];
    rig_open_small(&rig, 7);
    rig_wake(&rig, 1, SLOT_BLEND, BLUEPRINT_CONV_LIGHT, ALGORITHM_ADD, 0.5f);
    struct net_result first = rig_step(&rig);
    struct state state1 = state_of(&rig);
    rig_logits(&rig, clean);

    rig_start(&rig);
    for (size_t i = 0; i < rig.shape.seed_storage; i++)
        rig.params.seed[i] = rig.memory.first.seed[i] = NAN;
    for (size_t i = 0; i < rig.shape.gate_storage; i++)
        rig.params.gate[i] = rig.memory.first.gate[i] = NAN;
    rig_wake(&rig, 1, SLOT_BLEND, BLUEPRINT_CONV_LIGHT, ALGORITHM_ADD, 0.5f);
    struct net_result second = rig_step(&rig);
    rig_logits(&rig, dirty);
    assert_memory_equal(clean, dirty, sizeof(float) * 7 * SHAPE_CLASSES);
    assert_memory_equal(&first, &second, sizeof first); /* loss, clip norms and gradient statistics */
    assert_host_same(&rig, &state1);
    struct param_layout layout;
    const struct slot_shape *slot = &rig.shape.slot[1];
    blueprint_layout(BLUEPRINT_CONV_LIGHT, rig.cnn.site[1].channels, &layout);
    assert_memory_equal(rig.params.seed + slot->seed, state1.seed + slot->seed, sizeof(float) * layout.storage);
    assert_memory_equal(rig.memory.first.seed + slot->seed, state1.seed_momentum + slot->seed,
                        sizeof(float) * layout.storage);
    state_free(&state1);
    rig_close(&rig);
}

/* ---- the workspace ---------------------------------------------------------------------------------------------- */

/* A net belongs to a thread and serves many envs: what it did before must have no effect. */
static void a_used_net_computes_what_a_fresh_one_does(void **state)
{
    (void)state;
    struct rig fresh, used;
    float logits[LOGITS];
    rig_open_small(&fresh, 6);
    rig_open_small(&used, 6);
    rig_grow(&used);
    for (int j = 0; j < used.shape.slots; j++)
        rig_wake(&used, j, SLOT_BLEND, BLUEPRINT_CONV_HEAVY, ALGORITHM_GATE, 0.9f);
    rig_step(&used);
    rig_logits(&used, logits);
    for (int grown = 0; grown < 2; grown++) {
        rig_start(&fresh);
        rig_start(&used);
        if (grown) {
            rig_grow(&fresh);
            rig_grow(&used);
        }
        for (int k = 0; k < 2; k++) {
            rig_step(&fresh);
            rig_step(&used);
            rig_logits(&used, logits); /* I-62: evaluating in between changes nothing */
        }
        struct state expected = state_of(&fresh);
        assert_all_same(&used, &expected);
        state_free(&expected);
    }
    rig_close(&fresh);
    rig_close(&used);
}

/* A last batch that is not full gives the same as a net made for its size. */
static void a_small_batch_in_a_large_net_is_the_same(void **state)
{
    (void)state;
    struct rig large, small;
    rig_open_small(&large, 13);
    rig_open_small(&small, 4);
    rig_grow(&large);
    rig_grow(&small);
    rig_step(&large);
    large.images = 4;
    rig_start(&large);
    rig_grow(&large);
    rig_step(&large);
    rig_step(&small);
    struct state expected = state_of(&small);
    assert_all_same(&large, &expected);
    state_free(&expected);
    rig_close(&large);
    rig_close(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(i20_alpha_zero_is_the_host_alone_whatever_the_seed_holds),
        cmocka_unit_test(i24_a_seed_in_training_leaves_the_host_as_it_is),
        cmocka_unit_test(i26_a_frozen_seed_does_not_change_and_still_passes_gradients),
        cmocka_unit_test(i27_seeds_do_not_disturb_one_another),
        cmocka_unit_test(i28_a_seed_stands_where_its_slot_is),
        cmocka_unit_test(i30_sleeping_pools_full_of_nan_change_nothing),
        cmocka_unit_test(a_used_net_computes_what_a_fresh_one_does),
        cmocka_unit_test(a_small_batch_in_a_large_net_is_the_same),
    };
    return cmocka_run_group_tests_name("blending", tests, NULL, NULL);
}
