/* The update as a whole: what it learns from, what it reports, and the normalisers around it. */
#include "testing_noise.h"

#include "learn/deal.h"
#include "learn/work.h"

static void the_rollout_is_saved_and_cleared(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig);
    const uint64_t fresh = state_hash(&rig);
    const struct table_row *bp = table_find(&rig.table, "rollout.bp");
    assert_true(bp && bp->saved && bp->type == TYPE_I8 && bp->bytes == STEPS * ENVS * SLOTS);
    assert_true(!table_find(&rig.table, "rollout.advantage")->saved && !table_find(&rig.table, "policy.grad")->saved);
    for (int i = 0; i < rig.table.count; i++) /* every array of a round is written, and cleared again */
        if (strncmp(rig.table.rows[i].name, "rollout.", 8) == 0)
            memset(rig.table.rows[i].data, 0x5A, rig.table.rows[i].bytes);
    assert_true(state_hash(&rig) != fresh);
    rollout_clear(&rig.rollout);
    assert_true(state_hash(&rig) == fresh && rig.rollout.bp[0] == -1 && rig.rollout.advantage[0] == 0);
    rig_stop(&rig);
}

/* ---- the ordinary update ----------------------------------------------------------------------------------------- */

static void an_update_learns_and_reports(void **state)
{
    (void)state;
    struct rig rig;
    struct world world = noise(9);
    start(&rig);
    for (int round = 0; round < 3; round++) {
        rig_play(&rig, &world);
        update(&rig);
        const struct update_report *record = &rig.record;
        assert_int_equal(record->rows, ENVS * STEPS);
        assert_true(record->epochs >= 1 && record->epochs <= 4 && record->nonfinite == 0);
        assert_true(record->anchor_drift <= 1e-5);
        assert_true(record->kl >= 0 && record->grad_norm > 0 && record->value_grad_norm > 0);
        assert_true(record->value_grad_norm <= record->grad_norm);
        assert_true(record->entropy > 0 && record->op_entropy > 0 && record->op_entropy <= 1 + 1e-6);
        assert_true(record->hidden_rms > 0 && record->cell_rms > 0 && record->seconds > 0);
#define IS_FINITE(type, name, help) assert_true(isfinite((double)record->name));
        UPDATE_FIELDS(IS_FINITE)
#undef IS_FINITE
        assert_int_equal(*rig.learner.updates, round + 1);
        assert_int_equal(*rig.learner.obs_updates, round + 1);
        assert_int_equal(*rig.learner.value_updates, round + 1);
    }
    rig_stop(&rig);
}

/* L-07: one epoch is a step from ratio 1; the stored log-probabilities of the actor do not enter. */
static void the_first_epoch_is_its_own_reference(void **state)
{
    (void)state;
    uint64_t hash[2];
    for (int poisoned = 0; poisoned < 2; poisoned++) {
        struct rig rig;
        struct world world = noise(9);
        start(&rig);
        rig.config.ppo.epochs = 1;
        rig_play(&rig, &world);
        for (int i = 0; poisoned && i < ENVS * STEPS * HEAD_COUNT; i++)
            rig.rollout.logp[i] = NAN;
        update(&rig);
        assert_true(rig.record.kl == 0 && rig.record.clip_fraction == 0);
        assert_true(rig.record.ratio_min == 1 && rig.record.ratio_max == 1 && rig.record.ratio_mean == 1);
        assert_int_equal(rig.record.epochs, 1);
        assert_true(poisoned ? isnan(rig.record.anchor_drift) : rig.record.anchor_drift <= 1e-5);
        for (int head = 0; head < HEAD_COUNT; head++) /* every head was used and has learned something */
            assert_true(norm_of(&rig, rig.learner.grad, head) > 0);
        memset(rig.rollout.logp, 0, sizeof(float) * ENVS * STEPS * HEAD_COUNT);
        hash[poisoned] = state_hash(&rig);
        rig_stop(&rig);
    }
    assert_true(hash[0] == hash[1]);
}

/* L-18: the same bits whatever the number of threads. */
static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    uint64_t hash[6];
    for (int k = 0; k < 6; k++) {
        struct rig rig;
        struct world world = noise(5);
        rig_configure(&rig, ENVS, STEPS * 4, WIDTH);
        rig.threads = k % 3 + 1;
        rig.config.ppo.minibatches = k < 3 ? 1 : ENVS;
        rig_start(&rig, OBS, SLOTS, 1);
        for (int round = 0; round < 3; round++) {
            rig_play(&rig, &world);
            update(&rig);
        }
        hash[k] = state_hash(&rig);
        rig_stop(&rig);
    }
    assert_true(hash[0] == hash[1] && hash[0] == hash[2] && hash[0] != hash[3]);
    assert_true(hash[3] == hash[4] && hash[3] == hash[5]);
}

/* L-03, L-12: the advantages of one row vanish without a NAN; new units leave the critic's estimates alone. */
static void one_row_is_enough(void **state)
{
    (void)state;
    struct rig rig;
    struct world world = noise(9);
    rig_configure(&rig, 1, 1, WIDTH);
    rig_start(&rig, OBS, SLOTS, 42);
    rig_play(&rig, &world);
    update(&rig);
    assert_int_equal(rig.record.epochs, 4);
    assert_true(rig.record.advantage_std == 0 && isnan(rig.record.explained_variance) && isnan(rig.record.return_std));
    for (size_t i = 0; i < rig.learner.shape.storage; i++)
        assert_true(isfinite(rig.learner.w[i]));
    rig_stop(&rig);
}

static double opinion(struct rig *rig, struct world *world)
{
    float raw[OBS], seen[OBS], h[WIDTH] = {0}, c[WIDTH] = {0}, logits[HEAD_MAX_LOGITS], value;
    const int8_t bp[SLOTS] = {-1, 3, 5};
    const struct policy_step step = {1, seen, bp, h, c, logits, &value};
    noise_observe(world, 1, 2, raw);
    memcpy(seen, raw, sizeof raw);
    rig->learner.kernels->act(rig->learner.net, &step);
    return (double)value * *rig->learner.value_scale + *rig->learner.value_shift;
}

static void new_units_do_not_move_the_critic(void **state)
{
    (void)state;
    struct rig rig;
    struct world world = noise(9);
    start(&rig);
    rig.config.ppo.lr = 0; /* only the units move */
    rig_play(&rig, &world);
    const uint64_t before_first = weights_hash(&rig);
    update(&rig);
    const double shift = *rig.learner.value_shift, scale = *rig.learner.value_scale;
    assert_true(fabs(shift - rig.record.return_mean) < 1e-9); /* the first update takes the returns as they are */
    assert_true(weights_hash(&rig) == before_first);          /* and rewrites nothing in a fresh critic */
    for (int round = 0; round < 4; round++) {
        rig_play(&rig, &world);
        for (int i = 0; i < ENVS * STEPS; i++)
            rig.rollout.reward[i] = rig.rollout.reward[i] * 5 + 20; /* returns far from before */
        const double before = opinion(&rig, &world);
        update(&rig);
        assert_true(*rig.learner.value_shift > shift && *rig.learner.value_scale > scale);
        assert_true(fabs(opinion(&rig, &world) - before) <= 2e-6 * fmax(*rig.learner.value_scale, fabs(before)));
    }
    rig_stop(&rig);
}

/* Targets are in the new units, advantages were estimated in the old ones. */
static void targets_are_in_the_new_units(void **state)
{
    (void)state;
    struct rig rig;
    play_one_round(&rig);
    rig.config.ppo.epochs = 1;
    *rig.learner.value_shift = 3;
    *rig.learner.value_scale = 2;
    update(&rig);
    double sum = 0;
    for (int i = 0; i < ENVS * STEPS; i++) {
        const double target = ((double)rig.rollout.returns[i] - *rig.learner.value_shift) / *rig.learner.value_scale;
        const double forced = rig.rollout.flags[i] & ROW_FORCED ? 0.2 : 1;
        sum += forced * (target - (double)rig.rollout.value[i]) * (target - (double)rig.rollout.value[i]);
        assert_true(fabs((double)rig.rollout.returns[i] - (double)rig.rollout.advantage[i] -
                         (2 * (double)rig.rollout.value[i] + 3)) < 1e-4);
    }
    double weights = 0;
    for (int i = 0; i < ENVS * STEPS; i++)
        weights += rig.rollout.flags[i] & ROW_FORCED ? 0.2 : 1;
    assert_true(fabs(rig.record.value_loss - 0.5 * sum / weights) < 1e-5 * rig.record.value_loss);
    rig_stop(&rig);
}

/* A long gradient enters the moments with the allowed length, a short one as it is. */
static void the_gradient_is_clipped(void **state)
{
    (void)state;
    for (int clipped = 0; clipped < 2; clipped++) {
        struct rig rig;
        play_one_round(&rig);
        rig.config.ppo.epochs = 1;
        rig.config.ppo.max_grad_norm = clipped ? 0.01 : 1e6;
        update(&rig);
        assert_true(rig.record.grad_norm > 0.02);
        const double want = 0.1 * (clipped ? 0.01 : rig.record.grad_norm); /* 1 - beta1 of it */
        assert_true(fabs(norm_of(&rig, rig.learner.m, -1) - want) < 1e-3 * want);
        rig_stop(&rig);
    }
}

/* L-03: a row without a choice may bring anything; advantages are normalised over those that had one. */
static void advantages_are_those_of_choices(void **state)
{
    (void)state;
    struct rig rig;
    play_one_round(&rig);
    rig.config.gamma = 0.01; /* what a forced row brings stays its own */
    rig.config.ppo.lambda = 0;
    for (int i = 0; i < ENVS * STEPS; i++)
        rig.rollout.reward[i] += rig.rollout.flags[i] & ROW_FORCED ? 50 : 0;
    update(&rig);
    double sum = 0, square = 0, count = 0;
    for (int i = 0; i < ENVS * STEPS; i++) {
        const double advantage = (double)rig.learner.work->all.row[i].advantage;
        const bool forced = rig.rollout.flags[i] & ROW_FORCED;
        assert_true(!forced || advantage == 0);
        sum += advantage;
        square += advantage * advantage;
        count += !forced;
    }
    assert_true(count > 0 && count < ENVS * STEPS && fabs(sum) < 1e-4 && fabs(square / count - 1) < 1e-4);
    assert_true(fabs(rig.record.forced_ratio - (1 - count / (ENVS * STEPS))) < 1e-12);
    rig_stop(&rig);
}

/* Credit goes by what was executed: where everything was refused, only the op head learns. */
static void credit_follows_the_executed_op(void **state)
{
    (void)state;
    struct rig rig;
    play_one_round(&rig);
    rig.config.ppo.epochs = 1;
    memset(rig.rollout.effective_op, OP_WAIT, ENVS * STEPS);
    update(&rig);
    for (int head = 0; head < HEAD_COUNT; head++)
        assert_true((norm_of(&rig, rig.learner.grad, head) > 0) == (head == HEAD_OP));
    rig_stop(&rig);
}

/* L-17, L-11: the entropy coefficient at every boundary, and the weights of the normalisers. */
static void schedules_hold_at_their_boundaries(void **state)
{
    (void)state;
    const double progress[] = {-1, 0, .25, .5, 1, 2}, want[] = {.05, .05, .04, .03, .01, .01};
    struct rig rig;
    play_one_round(&rig);
    for (int k = 0; k < 6; k++) {
        learner_update(&rig.learner, NULL, &rig.rollout, progress[k], &rig.record, rig.heads);
        assert_true(fabs(rig.record.entropy_coef - want[k]) < 1e-12);
    }
    rig_stop(&rig);

    uint64_t hash[3]; /* the learning rate: half of it at the end is half of it from the start */
    for (int k = 0; k < 3; k++) {
        play_one_round(&rig);
        rig.config.ppo.lr_end_share = k == 1 ? 0.5 : 1;
        rig.config.ppo.lr *= k == 2 ? 0.5 : 1;
        rig.config.ppo.entropy_coef = rig.config.ppo.entropy_coef_end;
        learner_update(&rig.learner, NULL, &rig.rollout, 1, &rig.record, rig.heads);
        hash[k] = weights_hash(&rig);
        rig_stop(&rig);
    }
    assert_true(hash[1] == hash[2] && hash[0] != hash[1]);
}

/* ---- mini-batches ------------------------------------------------------------------------------------------------ */

enum { DEALT = 6, PARTS = 3 };

static void start_parts(struct rig *rig, int parts)
{
    struct world world = noise(9);
    rig_configure(rig, DEALT, STEPS, WIDTH);
    rig->config.ppo.minibatches = parts;
    rig->config.ppo.target_kl = 0;
    rig_start(rig, OBS, SLOTS, 42);
    rig_play(rig, &world);
}

/* The steps that an update should make, from passes over the whole rollout in which the other envs' rows count for
 * nothing. */
static void steps_apart(struct rig *rig, const struct learner_batch *rows, uint32_t updates)
{
    struct learner *learner = &rig->learner;
    const struct ppo_config *ppo = &rig->config.ppo;
    const struct learner_batch *all = &learner->work->all;
    const size_t logits = (size_t)learner->shape.logits;
    struct loss_rules rules = {.slots = SLOTS, .clip = ppo->clip, .value_coef = ppo->value_coef};
    for (int head = 0; head < HEAD_COUNT; head++) {
        rules.entropy_coef[head] = ppo->entropy_coef * ppo->entropy_weight[head];
        rules.floor[head] = rig->config.policy.floor[head];
    }
    const struct policy_sequence sequence = {STEPS, DEALT, rows->state, rows->bp, rows->reset, NULL, NULL};
    for (int number = 0; number < ppo->epochs * PARTS; number++) {
        int32_t order[DEALT];
        struct loss_row own[DEALT * STEPS];
        memcpy(own, rows->row, sizeof own);
        deal_envs(rig->config.seed, updates, number / PARTS, DEALT, order);
        for (int place = 0; place < DEALT; place++)
            for (int step = 0; step < STEPS && place / (DEALT / PARTS) != number % PARTS; step++)
                own[step * DEALT + order[place]].valid = false;
        const struct loss_counts counts = loss_count(own, DEALT * STEPS);
        learner->kernels->unroll(learner->net, &sequence, all->logits, all->value);
        for (size_t i = 0; i < DEALT * STEPS; i++)
            loss_backward(&rules, &counts, &own[i], all->logits + i * logits, all->value[i], rows->ref + i * HEAD_COUNT,
                          all->dlogits + i * logits, &all->dvalue[i]);
        learner->kernels->backward(learner->net, &sequence, all->dlogits, all->dvalue, learner->grad);
        const double norm = norm_of(rig, learner->grad, -1);
        const struct adam adam = {ppo->lr, ppo->beta1, ppo->beta2, ppo->epsilon, (uint64_t)number + 1};
        learner->kernels->adam_step(&adam, learner->shape.storage, (float)fmin(1, ppo->max_grad_norm / (norm + 1e-6)),
                                    learner->grad, learner->w, learner->m, learner->v);
        learner->kernels->pack(learner->net, learner->w);
    }
}

/* L-22: the steps of a mini-batch are those of its own rows, and the reference is the policy that acted. */
static void a_minibatch_is_its_own_rows(void **state)
{
    (void)state;
    struct rig rig, apart;
    start_parts(&rig, PARTS);
    start_parts(&apart, PARTS);
    const size_t storage = rig.learner.shape.storage;
    float *before = memory_alloc(storage, sizeof *before, NULL);
    memcpy(before, rig.learner.w, storage * sizeof *before);
    update(&rig);
    steps_apart(&apart, &rig.learner.work->all, 0);
    double off = 0, size = 0;
    for (size_t i = 0; i < storage; i++) {
        off += pow((double)rig.learner.w[i] - (double)apart.learner.w[i], 2);
        size += pow((double)rig.learner.w[i] - (double)before[i], 2);
    }
    assert_true(size > 0 && sqrt(off / size) < 1e-3);
    assert_int_equal(rig.record.epochs, 4 * PARTS);
    assert_int_equal(*rig.learner.adam_steps, 4 * PARTS);
    assert_true(rig.record.anchor_drift <= 1e-5 && rig.record.kl > 0 && rig.record.ratio_max > 1);
    memory_free(before);
    rig_stop(&rig);
    rig_stop(&apart);
}

/* A mini-batch without a row makes no step and is no failure; the others go on. */
static void a_minibatch_may_be_empty(void **state)
{
    (void)state;
    struct rig rig;
    start_parts(&rig, DEALT);
    for (int step = 0; step < STEPS; step++)
        rig.rollout.flags[step * DEALT + 2] = 0;
    update(&rig);
    assert_int_equal(rig.record.epochs, 4 * (DEALT - 1));
    assert_true(rig.record.nonfinite == 0 && rig.record.rows == STEPS * (DEALT - 1) && isfinite(rig.record.kl));
    rig_stop(&rig);

    start_parts(&rig, DEALT); /* one whose numbers are not finite is skipped alone */
    rig.rollout.state[2 * OBS] = INFINITY;
    update(&rig);
    assert_int_equal(rig.record.epochs, 4 * (DEALT - 1));
    assert_int_equal(rig.record.nonfinite, 4);
    rig_stop(&rig);
}

/* ---- a fresh policy ---------------------------------------------------------------------------------------------- */

/* P-19: the prior of an op is its logit, nearly, and nothing else differs. */
static void a_prior_is_where_an_op_starts(void **state)
{
    (void)state;
    struct rig plain, rig;
    start(&plain);
    rig_configure(&rig, ENVS, STEPS, WIDTH);
    rig.config.policy.prior[OP_PRUNE] = -3;
    rig.config.policy.prior[OP_WAIT] = 0.5;
    rig_start(&rig, OBS, SLOTS, 42);
    const size_t bias = rig.learner.shape.tensor[policy_shape_find(&rig.learner.shape, "head.op.l2.bias")].offset;
    for (int op = 0; op < OP_COUNT; op++) {
        assert_true(plain.learner.w[bias + (size_t)op] == 0);
        assert_true(rig.learner.w[bias + (size_t)op] == (op == OP_PRUNE ? -3 : op == OP_WAIT ? 0.5f : 0));
        rig.learner.w[bias + (size_t)op] = 0;
    }
    assert_true(weights_hash(&rig) == weights_hash(&plain));
    rig_stop(&plain);
    rig_stop(&rig);
}

/* ---- normalisers of the learner ---------------------------------------------------------------------------------- */

static bool even_columns(int column)
{
    return column % 2 == 0;
}

static void observations_are_frozen_during_a_round(void **state)
{
    (void)state;
    struct rig rig;
    struct world world = noise(9);
    start(&rig);
    rig_play(&rig, &world);
    const float *raw = rig.rollout.raw, *seen = rig.rollout.state;
    for (int i = 0; i < ENVS * STEPS * OBS; i++) /* mean 0, variance 1 + 1e-4 */
        assert_true(fabs((double)seen[i] - (double)raw[i] / sqrt(1.0001)) < 1e-6);
    learner_update(&rig.learner, even_columns, &rig.rollout, 0, &rig.record, rig.heads);
    for (int column = 0; column < OBS; column++) {
        struct {
            double mean, square;
        } own = {0, 0};
        for (int i = 0; i < ENVS * STEPS; i++) {
            own.mean += (double)raw[i * OBS + column] / (ENVS * STEPS);
            own.square += (double)raw[i * OBS + column] * (double)raw[i * OBS + column] / (ENVS * STEPS);
        }
        const bool used = even_columns(column);
        assert_true(fabs(rig.learner.obs_mean[column] - (used ? own.mean : 0)) < 1e-9);
        assert_true(fabs(rig.learner.obs_var[column] - (used ? own.square - own.mean * own.mean : 1)) < 1e-9);
    }
    const float probe[OBS] = {1, 1, 1, 1, 1e9f, -1e9f, -1e9f};
    float out[OBS];
    learner_normalise(&rig.learner, even_columns, probe, out);
    assert_true(out[1] == 1 && out[5] == -1e9f); /* passed through */
    assert_true(out[4] == 10 && out[6] == -10);
    rig_stop(&rig);
}

static void rewards_of_a_step_are_scaled_together(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig);
    const uint8_t executed[] = {1, 1, 0, 1, 1};
    const double raw[] = {1, 2, 1e300, -3, NAN};
    float out[5];
    learner_scale_rewards(&rig.learner, 5, executed, raw, out);
    assert_true(*rig.learner.reward_count == 3 && *rig.learner.reward_mean == 0 && *rig.learner.reward_m2 == 14);
    const double spread = sqrt(14.0 / 2);
    assert_true(fabs((double)out[0] - 1 / spread) < 1e-6 && fabs((double)out[3] + 3 / spread) < 1e-6);
    assert_true(out[2] == 0 && out[4] == 0);
    rig_stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rollout_is_saved_and_cleared),
        cmocka_unit_test(an_update_learns_and_reports),
        cmocka_unit_test(the_first_epoch_is_its_own_reference),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(one_row_is_enough),
        cmocka_unit_test(new_units_do_not_move_the_critic),
        cmocka_unit_test(targets_are_in_the_new_units),
        cmocka_unit_test(the_gradient_is_clipped),
        cmocka_unit_test(advantages_are_those_of_choices),
        cmocka_unit_test(credit_follows_the_executed_op),
        cmocka_unit_test(schedules_hold_at_their_boundaries),
        cmocka_unit_test(a_minibatch_is_its_own_rows),
        cmocka_unit_test(a_minibatch_may_be_empty),
        cmocka_unit_test(a_prior_is_where_an_op_starts),
        cmocka_unit_test(observations_are_frozen_during_a_round),
        cmocka_unit_test(rewards_of_a_step_are_scaled_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
