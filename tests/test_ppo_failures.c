/* What an update must do with rollbacks, forced rows, divergence and numbers that are not finite. */
#include "testing_noise.h"

/* ---- holes ------------------------------------------------------------------------------------------------------- */

/* A rollback of env 1 at step 5, as the engine leaves it: penalty and end on row 4, a hole, a fresh start at row 6. */
static void roll_back(struct rollout *rollout)
{
    rollout->reward[4 * ENVS + 1] = -10;
    rollout->flags[4 * ENVS + 1] |= ROW_DONE;
    rollout->flags[5 * ENVS + 1] = 0;
    rollout->flags[6 * ENVS + 1] |= ROW_RESET;
}

static void fill_row(struct rollout *rollout, int row, float with, int byte)
{
    const size_t i = (size_t)row;
    for (size_t k = 0; k < OBS; k++)
        rollout->state[i * OBS + k] = with;
    for (size_t k = 0; k < HEAD_COUNT; k++)
        rollout->logp[i * HEAD_COUNT + k] = with;
    rollout->value[i] = rollout->reward[i] = rollout->bootstrap[i] = with;
    memset(rollout->bp + i * SLOTS, byte, SLOTS);
    memset(rollout->choice + i * HEAD_COUNT, byte, HEAD_COUNT);
    rollout->effective_op[i] = (uint8_t)byte;
    rollout->mask[i] = (uint64_t)byte * 0x0101010101010101u;
}

/* L-14: what is in the hole does not matter, NAN and garbage included. After a hole the recurrent state is
 * fresh, flag or no flag. */
static void dead_rows_are_never_read(void **state)
{
    (void)state;
    struct rig rig[2];
    for (int k = 0; k < 2; k++) {
        struct world world = noise(9);
        start(&rig[k]);
        rig_play(&rig[k], &world);
        roll_back(&rig[k].rollout);
        fill_row(&rig[k].rollout, 5 * ENVS + 1, k ? NAN : 0, k ? 0xEE : 0);
        for (int i = 0; i < ENVS * STEPS; i++) /* and what an earlier update left behind */
            rig[k].rollout.advantage[i] = rig[k].rollout.returns[i] = rig[k].rollout.td_error[i] = k ? NAN : 0;
        if (k)
            rig[k].rollout.flags[6 * ENVS + 1] &= (uint8_t)~ROW_RESET;
        update(&rig[k]);
        assert_int_equal(rig[k].rollout.bp[(5 * ENVS + 1) * SLOTS], -1); /* a row of the embedding that exists */
        assert_int_equal(rig[k].record.rows, ENVS * STEPS - 1);
        assert_true(rig[k].record.epochs >= 1 && rig[k].record.nonfinite == 0);
        assert_true(rig[k].record.anchor_drift > 1e-5); /* row 6 was played on with a memory, and unrolled without */
    }
    assert_memory_equal(rig[0].learner.w, rig[1].learner.w, rig[0].learner.shape.storage * sizeof(float));
    assert_memory_equal(rig[0].learner.m, rig[1].learner.m, rig[0].learner.shape.storage * sizeof(float));
    assert_true(rig[0].record.grad_norm == rig[1].record.grad_norm);
    assert_true(rig[0].record.return_mean == rig[1].record.return_mean);
    rig_stop(&rig[0]);
    rig_stop(&rig[1]);
}

/* L-14: rows after the hole are a separate segment: what came before it does not reach them, in the
 * advantages or through the recurrent state. */
static void a_rollback_cuts_time_in_two(void **state)
{
    (void)state;
    double drift[2];
    float after[2][STEPS];
    for (int k = 0; k < 2; k++) {
        struct world world = noise(9);
        struct rig rig;
        start(&rig);
        rig.config.ppo.epochs = 1;
        rig_play(&rig, &world);
        roll_back(&rig.rollout);
        const float first = rig.rollout.reward[0 * ENVS + 1];
        for (int step = 0; k && step < 5; step++) /* another past */
            for (size_t i = 0; i < OBS; i++)
                rig.rollout.state[((size_t)step * ENVS + 1) * OBS + i] += 1;
        update(&rig);
        for (int step = 6; step < STEPS; step++)
            after[k][step] = rig.rollout.advantage[step * ENVS + 1];
        assert_true(rig.rollout.reward[1] == first); /* earlier rewards stay */
        assert_true(rig.rollout.returns[4 * ENVS + 1] == -10);
        drift[k] = rig.record.anchor_drift;
        rig_stop(&rig);
    }
    assert_memory_equal(after[0] + 6, after[1] + 6, sizeof(float) * (STEPS - 6));
    assert_true(drift[0] > 0 && drift[1] > 0);
}

/* The same in the unroll alone: with the state also wiped at collection, row 6 and later agree to rounding. */
static void collection_and_unroll_agree_after_a_reset(void **state)
{
    (void)state;
    struct rig rig;
    struct world world = noise(9);
    world.forgetful = true;
    start(&rig);
    rig_play(&rig, &world);
    for (int row = 5 * ENVS; row < 6 * ENVS; row++)
        rig.rollout.flags[row] = 0;
    update(&rig);
    assert_int_equal(rig.record.rows, ENVS * (STEPS - 1));
    assert_true(rig.record.anchor_drift <= 1e-5);
    rig_stop(&rig);
}

/* L-14: every env panicked at every step. */
static void no_rows_is_no_update(void **state)
{
    (void)state;
    struct rig rig;
    play_one_round(&rig);
    rollout_clear(&rig.rollout);
    const uint64_t before = state_hash(&rig);
    update(&rig);
    assert_true(state_hash(&rig) == before);
    assert_int_equal(rig.record.rows, 0);
    assert_int_equal(rig.record.epochs, 0);
    assert_int_equal(rig.record.nonfinite, 0);
    assert_int_equal(rig.record.early_stop, -1);
    assert_true(isnan(rig.record.policy_loss) && isnan(rig.record.kl));
    assert_true(*rig.learner.failures == 0 && *rig.learner.updates == 0 && *rig.learner.obs_updates == 0);
    rig_stop(&rig);
}

/* ---- forced rows, divergence, numbers that are not finite -------------------------------------------------------- */

static double part_change(const struct rig *rig, const float *before, bool of_value)
{
    double change = 0;
    for (int k = 0; k < rig->learner.shape.count; k++) {
        const struct policy_tensor *tensor = &rig->learner.shape.tensor[k];
        const int part = rig->learner.shape.part[k];
        for (size_t i = 0; i < (size_t)(tensor->rows * tensor->columns); i++)
            if (of_value ? part == POLICY_PART_VALUE : part < HEAD_COUNT)
                change += fabs((double)rig->learner.w[tensor->offset + i] - (double)before[tensor->offset + i]);
    }
    return change;
}

/* L-16 */
static void forced_rows_teach_the_critic_alone(void **state)
{
    (void)state;
    struct rig rig;
    play_one_round(&rig);
    struct esper_error error;
    const size_t bytes = rig.learner.shape.storage * sizeof(float);
    float *before = memory_alloc(bytes, 1, &error);
    memcpy(before, rig.learner.w, bytes);
    for (int i = 0; i < ENVS * STEPS; i++)
        rig.rollout.flags[i] |= ROW_FORCED;
    update(&rig);
    assert_true(rig.record.epochs > 0 && rig.record.forced_ratio == 1 && rig.record.policy_loss == 0);
    assert_true(part_change(&rig, before, false) == 0 && part_change(&rig, before, true) > 0);
    memory_free(before);
    rig_stop(&rig);
}

/* L-09 */
static void divergence_stops_before_the_step(void **state)
{
    (void)state;
    struct rig rig;
    struct world world = noise(9);
    start(&rig);
    rig.config.ppo.lr = 0.5;
    rig.config.ppo.epochs = 8;
    rig_play(&rig, &world);
    update(&rig);
    assert_true(rig.record.early_stop >= 1);
    assert_int_equal(rig.record.epochs, rig.record.early_stop);
    assert_int_equal(*rig.learner.adam_steps, rig.record.epochs);
    assert_true(rig.record.nonfinite == 0 && *rig.learner.failures == 0 && *rig.learner.updates == 1);
    rig.config.ppo.target_kl = 0; /* never */
    rig_play(&rig, &world);
    update(&rig);
    assert_true(rig.record.early_stop == -1 && rig.record.epochs + rig.record.nonfinite == 8);
    rig_stop(&rig);
}

struct harm {
    const char *what;
    void (*spoil)(struct rig *rig);
};

static void spoil_weight(struct rig *rig)
{
    const int k = policy_shape_find(&rig->learner.shape, "v.l2.weight");
    rig->learner.w[rig->learner.shape.tensor[k].offset] = NAN; /* V of every row */
    rig->learner.kernels->pack(rig->learner.net, rig->learner.w);
}
static void spoil_state(struct rig *rig)
{
    rig->rollout.state[3 * OBS] = INFINITY; /* the log-probabilities of one env */
}
static void spoil_reward(struct rig *rig)
{
    rig->rollout.reward[7] = NAN;
}
static void spoil_value(struct rig *rig)
{
    rig->rollout.value[7] = INFINITY;
}
static void spoil_mask(struct rig *rig)
{
    rig->rollout.mask[7] = 0; /* a bug in the state machine: nothing was legal */
}
static void spoil_gradient(struct rig *rig)
{
    rig->config.ppo.value_coef = 1e300; /* finite outputs and losses, and a derivative beyond float */
}

/* L-08: nothing changes, the streak grows, and a success ends it. */
static void what_is_not_finite_changes_nothing(void **state)
{
    (void)state;
    const struct harm harms[] = {{"weight", spoil_weight}, {"state", spoil_state}, {"reward", spoil_reward},
                                 {"value", spoil_value},   {"mask", spoil_mask},   {"gradient", spoil_gradient}};
    for (size_t k = 0; k < sizeof harms / sizeof harms[0]; k++) {
        struct rig rig;
        struct world world = noise(9);
        struct esper_error error;
        start(&rig);
        rig_play(&rig, &world);
        update(&rig); /* so that units and moments are not at their start */
        const size_t bytes = rig.learner.shape.storage * sizeof(float);
        float *w = memory_alloc(3 * bytes, 1, &error), *m = w + bytes / sizeof *w, *v = m + bytes / sizeof *w;
        const struct ppo_config sound = rig.config.ppo;
        for (uint32_t streak = 1; streak <= 3; streak++) {
            rig_play(&rig, &world);
            const float spared =
                rig.learner.w[rig.learner.shape.tensor[policy_shape_find(&rig.learner.shape, "v.l2.weight")].offset];
            harms[k].spoil(&rig);
            memcpy(w, rig.learner.w, bytes);
            memcpy(m, rig.learner.m, bytes);
            memcpy(v, rig.learner.v, bytes);
            const double shift = *rig.learner.value_shift, scale = *rig.learner.value_scale;
            const uint64_t steps = *rig.learner.adam_steps;
            update(&rig);
            if (rig.record.epochs != 0 || rig.record.nonfinite != 4)
                fail_msg("%s: %d steps", harms[k].what, (int)rig.record.epochs);
            assert_memory_equal(w, rig.learner.w, bytes);
            assert_memory_equal(m, rig.learner.m, bytes);
            assert_memory_equal(v, rig.learner.v, bytes);
            assert_true(*rig.learner.value_shift == shift && *rig.learner.value_scale == scale);
            assert_true(*rig.learner.adam_steps == steps && *rig.learner.updates == 1 &&
                        *rig.learner.value_updates == 1);
            assert_int_equal(*rig.learner.failures, streak);
            assert_true(isnan(rig.record.policy_loss) && isnan(rig.record.grad_norm));
            rig.config.ppo = sound;
            if (k == 0) {
                rig.learner.w[rig.learner.shape.tensor[policy_shape_find(&rig.learner.shape, "v.l2.weight")].offset] =
                    spared;
                learner_load(&rig.learner);
            }
        }
        rig_play(&rig, &world);
        update(&rig);
        assert_true(rig.record.epochs > 0 && *rig.learner.failures == 0 && *rig.learner.updates == 2);
        memory_free(w);
        rig_stop(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dead_rows_are_never_read),
        cmocka_unit_test(a_rollback_cuts_time_in_two),
        cmocka_unit_test(collection_and_unroll_agree_after_a_reset),
        cmocka_unit_test(no_rows_is_no_update),
        cmocka_unit_test(forced_rows_teach_the_critic_alone),
        cmocka_unit_test(divergence_stops_before_the_step),
        cmocka_unit_test(what_is_not_finite_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
