/* What an update says about each head, recomputed from the rollout and the weights of every epoch. */
#include "testing_noise.h"

#include "learn/work.h"

enum { ROWS = ENVS * STEPS, EPOCHS = 4, LOGITS = 38 + SLOTS };

/* Noise in which the tempo is never a choice. */
static struct masks one_tempo(const struct world *world, int env, int step)
{
    struct masks masks = noise_masks(world, env, step);
    masks.base &= ~mask_all(SLOTS, HEAD_TEMPO);
    masks.base |= mask_place(1u << 2, SLOTS, HEAD_TEMPO);
    return masks;
}

/* A row of a step that was rolled back: whatever it holds must not be read. */
static void make_hole(struct rig *rig, int row)
{
    rig->rollout.flags[row] = 0;
    memset(rig->rollout.choice + (size_t)row * HEAD_COUNT, 0xFF, HEAD_COUNT);
    rig->rollout.effective_op[row] = 0xFF;
    rig->rollout.mask[row] = 0;
}

/* The same round every time, with a high learning rate and no early stop. Two rows are holes; some ops could not be
 * executed, so that their other heads did not matter. */
static void play(struct rig *rig, int epochs)
{
    struct world world = noise(9);
    world.masks = one_tempo;
    start(rig);
    rig->config.ppo.lr = 0.02;
    rig->config.ppo.epochs = epochs;
    rig->config.ppo.target_kl = 0;
    rig_play(rig, &world);
    make_hole(rig, ENVS * 3 + 1);
    make_hole(rig, ENVS * 4 + 1);
    for (int i = 2; i < ROWS; i += 7)
        if (rig->rollout.flags[i])
            rig->rollout.effective_op[i] = OP_WAIT;
    memset(rig->heads, 0x5A, sizeof rig->heads); /* every field has to be written */
}

/* ---- the same, computed separately ----------------------------------------------------------------------------- */

/* What one epoch's policy says about a head on a row. */
struct said {
    double log_prob, entropy; /* of q, what was chosen; of p, 0 to 1 */
};

static struct said say(const struct rollout *rollout, int row, int head, double floor, const float *logits)
{
    const uint8_t *choice = rollout->choice + (size_t)row * HEAD_COUNT;
    const uint32_t set = head_bits(mask_effective(rollout->mask[row], SLOTS, choice[HEAD_OP]), SLOTS, head);
    const float *z = logits + (size_t)row * LOGITS + head_offset(SLOTS, head);
    const int valid = __builtin_popcount(set);
    double sum = 0, entropy = 0;
    for (int i = 0; i < head_size(SLOTS, head); i++)
        sum += set >> i & 1 ? exp((double)z[i]) : 0;
    for (int i = 0; i < head_size(SLOTS, head); i++)
        entropy -= set >> i & 1 ? exp((double)z[i]) / sum * log(exp((double)z[i]) / sum) : 0;
    const double p = exp((double)z[choice[head]]) / sum;
    const double f = fmin(floor, 0.5 / valid);
    return (struct said){valid > 1 ? log((1 - valid * f) * p + f) : 0, valid > 1 ? entropy / log(valid) : 0};
}

/* What the policy says now about the whole rollout. */
static void say_all(struct rig *rig, struct said said[ROWS][HEAD_COUNT])
{
    static float logits[ROWS * LOGITS], value[ROWS];
    uint8_t reset[ROWS];
    for (int i = 0; i < ROWS; i++)
        reset[i] = (rig->rollout.flags[i] & ROW_RESET) || (i >= ENVS && !rig->rollout.flags[i - ENVS]);
    const struct policy_sequence sequence = {STEPS, ENVS, rig->rollout.state, rig->rollout.bp, reset, NULL, NULL};
    rig->learner.kernels->unroll(rig->learner.net, &sequence, logits, value);
    for (int i = 0; i < ROWS; i++)
        for (int head = 0; head < HEAD_COUNT && rig->rollout.flags[i]; head++)
            said[i][head] = say(&rig->rollout, i, head, rig->config.policy.floor[head], logits);
}

static struct said story[EPOCHS][ROWS][HEAD_COUNT]; /* epoch e, before its step */
static double gradient[EPOCHS][HEAD_COUNT];         /* of epoch e */

/* The weights before epoch e are those after an update of e epochs: the round is the same to the bit. */
static void tell_story(void)
{
    for (int epochs = 0; epochs <= EPOCHS; epochs++) {
        struct rig rig;
        play(&rig, epochs);
        if (epochs > 0)
            update(&rig);
        for (int head = 0; epochs > 0 && head < HEAD_COUNT; head++)
            gradient[epochs - 1][head] = norm_of(&rig, rig.learner.grad, head);
        if (epochs < EPOCHS)
            say_all(&rig, story[epochs]);
        rig_stop(&rig);
    }
}

struct account {
    double valid, counted, choices, entropy, entropy_all;
    double kl, clipped, ratio_max, ratio_min, log_prob_min; /* over the first `epochs` of the story */
};

static struct account account_of(const struct rig *rig, int head, int epochs)
{
    struct account account = {.ratio_max = 0, .ratio_min = 1e9};
    for (int i = 0; i < ROWS; i++) {
        const struct rollout *rollout = &rig->rollout;
        if (!rollout->flags[i])
            continue;
        const uint8_t *choice = rollout->choice + (size_t)i * HEAD_COUNT;
        const uint32_t set = head_bits(mask_effective(rollout->mask[i], SLOTS, choice[HEAD_OP]), SLOTS, head);
        account.valid++;
        account.entropy_all += story[0][i][head].entropy;
        if (!(head_relevance(rollout->effective_op[i]) >> head & 1) || (rollout->flags[i] & ROW_FORCED))
            continue;
        account.counted++;
        if (__builtin_popcount(set) > 1) {
            account.choices++;
            account.entropy += story[0][i][head].entropy;
        }
        for (int epoch = 0; epoch < epochs; epoch++) {
            const double log_prob = story[epoch][i][head].log_prob, by = log_prob - story[0][i][head].log_prob;
            account.kl += (exp(by) - 1 - by) / epochs;
            account.clipped += (exp(by) > 1.2 || exp(by) < 0.8) / (double)epochs;
            account.ratio_max = fmax(account.ratio_max, exp(by));
            account.ratio_min = fmin(account.ratio_min, exp(by));
            account.log_prob_min = fmin(account.log_prob_min, log_prob);
        }
    }
    return account;
}

static void assert_near(double got, double want)
{
    if (!(fabs(got - want) <= 2e-5 * fmax(1, fabs(want))))
        fail_msg("%.9g is not %.9g", got, want);
}

/* ---- the tests -------------------------------------------------------------------------------------------------- */

static void every_figure_of_every_head(void **state)
{
    (void)state;
    struct rig rig;
    double kl = 0, actions = 0, clipped = 0;
    tell_story();
    play(&rig, EPOCHS);
    update(&rig);
    assert_int_equal(rig.record.epochs, EPOCHS);
    assert_int_equal(rig.record.rows, ROWS - 2);
    for (int head = 0; head < HEAD_COUNT; head++) {
        const struct head_report *record = &rig.heads[head];
        const struct account account = account_of(&rig, head, EPOCHS);
        double norm = 0;
        for (int epoch = 0; epoch < EPOCHS; epoch++)
            norm = fmax(norm, gradient[epoch][head]);
        assert_true(account.counted > 0);
        assert_string_equal(record->head, head_name(head));
        assert_near(record->learnable, account.choices / account.valid);
        assert_near(record->entropy_all, account.entropy_all / account.valid);
        assert_near(record->kl, account.kl / account.counted);
        assert_near(record->clip_fraction, account.clipped / account.counted);
        assert_near(record->ratio_max, account.ratio_max);
        assert_near(record->ratio_min, account.ratio_min);
        assert_near(record->log_prob_min, account.log_prob_min);
        assert_true(record->grad_norm == norm); /* the same numbers: to the bit */
        kl += record->kl * account.counted;
        actions = fmax(actions, account.counted); /* the op head's: every action */
        clipped += record->clip_fraction;
        if (head == HEAD_TEMPO) { /* it mattered, and had no choice: that is known, and its entropy is not */
            assert_true(record->learnable == 0 && isnan(record->entropy) && record->entropy_all == 0);
            assert_true(record->kl == 0 && record->clip_fraction == 0 && record->log_prob_min == 0);
            assert_true(record->ratio_max == 1 && record->ratio_min == 1 && record->grad_norm == 0);
            continue;
        }
        assert_near(record->entropy, account.entropy / account.choices);
        assert_true(record->learnable > 0 && record->learnable < 1 && record->entropy > record->entropy_all);
        assert_true(record->entropy <= 1 + 1e-6 && record->ratio_max > 1 && record->ratio_min < 1);
        assert_true(record->kl > 0 && record->grad_norm > 0 && record->grad_norm <= rig.record.grad_norm);
    }
    assert_true(clipped > 0); /* or nothing was tested */
    assert_near(rig.record.kl, kl / actions);
    assert_true(rig.record.op_entropy == rig.heads[HEAD_OP].entropy);
    rig_stop(&rig);
}

/* The epoch that is stopped was looked at: it counts in divergence and ratios, not in gradients. */
static void a_stopped_epoch_is_looked_at(void **state)
{
    (void)state;
    struct rig rig;
    tell_story();
    play(&rig, EPOCHS);
    rig.config.ppo.target_kl = 1e-9;
    update(&rig);
    assert_true(rig.record.early_stop == 1 && rig.record.epochs == 1);
    for (int head = 0; head < HEAD_COUNT; head++) {
        const struct account account = account_of(&rig, head, 2);
        assert_near(rig.heads[head].kl, account.kl / account.counted);
        assert_near(rig.heads[head].ratio_max, account.ratio_max);
        assert_near(rig.heads[head].log_prob_min, account.log_prob_min);
        assert_true(rig.heads[head].grad_norm == gradient[0][head]);
    }
    rig_stop(&rig);
}

static void assert_nothing_from_epochs(const struct head_report *record)
{
    assert_true(isnan(record->kl) && isnan(record->clip_fraction) && isnan(record->log_prob_min));
    assert_true(isnan(record->ratio_max) && isnan(record->ratio_min));
}

/* Missing is NAN and never 0. */
static void what_did_not_happen_is_missing(void **state)
{
    (void)state;
    struct rig rig;
    play(&rig, EPOCHS); /* a head that never mattered has no divergence; its layers have a gradient, of zero */
    for (int i = 0; i < ROWS; i++)
        rig.rollout.effective_op[i] = OP_WAIT;
    update(&rig);
    for (int head = 0; head < HEAD_OP; head++) {
        const struct head_report *record = &rig.heads[head];
        assert_nothing_from_epochs(record);
        assert_true(record->learnable == 0 && isnan(record->entropy) && record->grad_norm == 0);
        assert_true(head == HEAD_TEMPO ? record->entropy_all == 0 : record->entropy_all > 0);
    }
    assert_true(rig.heads[HEAD_OP].kl > 0 && rig.heads[HEAD_OP].grad_norm > 0);
    rig_stop(&rig);

    for (int broken = 0; broken < 2; broken++) { /* no target, or no policy: only the rows count */
        play(&rig, EPOCHS);
        if (broken == 0)
            rig.rollout.reward[0] = NAN;
        for (size_t i = 0; broken == 1 && i < rig.learner.shape.storage; i++)
            rig.learner.w[i] = NAN;
        learner_load(&rig.learner);
        update(&rig);
        assert_true(rig.record.epochs == 0 && rig.record.nonfinite == EPOCHS);
        for (int head = 0; head < HEAD_COUNT; head++) {
            const struct head_report *record = &rig.heads[head];
            assert_nothing_from_epochs(record);
            assert_true(isnan(record->entropy) && isnan(record->grad_norm));
            assert_true((record->learnable > 0) == (head != HEAD_TEMPO));
        }
        rig_stop(&rig);
    }

    play(&rig, EPOCHS); /* no rows */
    memset(rig.rollout.flags, 0, ROWS);
    update(&rig);
    for (int head = 0; head < HEAD_COUNT; head++) {
        const struct head_report *record = &rig.heads[head];
        assert_nothing_from_epochs(record);
        assert_true(isnan(record->entropy) && isnan(record->entropy_all) && isnan(record->grad_norm));
        assert_true(isnan(record->learnable));
        assert_string_equal(record->head, head_name(head));
    }
    rig_stop(&rig);
}

/* A row that a script played leaves its heads nothing to learn. */
static void forced_rows_are_not_learnable(void **state)
{
    (void)state;
    struct rig rig;
    play(&rig, 1);
    for (int i = 0; i < ROWS; i++)
        rig.rollout.flags[i] |= rig.rollout.flags[i] ? ROW_FORCED : 0;
    update(&rig);
    for (int head = 0; head < HEAD_COUNT; head++)
        assert_true(rig.heads[head].learnable == 0 && isnan(rig.heads[head].entropy) && isnan(rig.heads[head].kl));
    rig_stop(&rig);
}

/* The epochs alone, without a report: the weights are the same to the bit. */
static void reporting_changes_no_weight(void **state)
{
    (void)state;
    struct rig rig, bare;
    play(&rig, EPOCHS);
    play(&bare, EPOCHS);
    update(&rig);
    struct learner *learner = &bare.learner;
    const struct ppo_config *ppo = &bare.config.ppo;
    const struct learner_batch *work = &learner->work->all, *rows = &rig.learner.work->all; /* rows do not change */
    const struct loss_counts counts = loss_count(rows->row, ROWS);
    struct loss_rules rules = {.slots = SLOTS, .clip = ppo->clip, .value_coef = ppo->value_coef};
    for (int head = 0; head < HEAD_COUNT; head++) {
        rules.entropy_coef[head] = ppo->entropy_coef * ppo->entropy_weight[head];
        rules.floor[head] = bare.config.policy.floor[head];
    }
    const struct policy_sequence sequence = {STEPS, ENVS, rig.rollout.state, rig.rollout.bp, rows->reset, NULL, NULL};
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        learner->kernels->unroll(learner->net, &sequence, work->logits, work->value);
        for (int i = 0; i < ROWS; i++) {
            float *ref = work->ref + (size_t)i * HEAD_COUNT;
            if (rows->row[i].valid)
                loss_look(&rules, &rows->row[i], work->logits + (size_t)i * LOGITS, &work->view[i]);
            if (rows->row[i].valid && epoch == 0)
                memcpy(ref, work->view[i].logp, HEAD_COUNT * sizeof *ref);
            loss_backward(&rules, &counts, &rows->row[i], work->logits + (size_t)i * LOGITS, work->value[i], ref,
                          work->dlogits + (size_t)i * LOGITS, &work->dvalue[i]);
        }
        learner->kernels->backward(learner->net, &sequence, work->dlogits, work->dvalue, learner->grad);
        const double norm = sqrt(learner->kernels->square_norm(learner->shape.storage, learner->grad));
        const struct adam adam = {ppo->lr, ppo->beta1, ppo->beta2, ppo->epsilon, (uint64_t)epoch + 1};
        learner->kernels->adam_step(&adam, learner->shape.storage, (float)fmin(1, ppo->max_grad_norm / (norm + 1e-6)),
                                    learner->grad, learner->w, learner->m, learner->v);
        learner->kernels->pack(learner->net, learner->w);
    }
    assert_true(weights_hash(&rig) == weights_hash(&bare));
    assert_memory_equal(rig.learner.w, learner->w, learner->shape.storage * sizeof(float));
    assert_memory_equal(rig.learner.v, learner->v, learner->shape.storage * sizeof(float));
    rig_stop(&rig);
    rig_stop(&bare);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_figure_of_every_head),     cmocka_unit_test(a_stopped_epoch_is_looked_at),
        cmocka_unit_test(what_did_not_happen_is_missing), cmocka_unit_test(forced_rows_are_not_learnable),
        cmocka_unit_test(reporting_changes_no_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
