/* learner_update: one rollout, K epochs (L-01). */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "learn/diagnostics.h"
#include "learn/gae.h"
#include "learn/report.h"

enum { CHUNK = 64 }; /* rows of a work item: fixed, so that nothing depends on the number of threads */

#define KL_STOP 1.5 /* times the target */

struct update {
    struct learner *learner;
    struct learner_work *work;
    struct rollout *rollout;
    struct update_report *record;
    struct report report;
    int rows, valid;
    struct loss_rules rules;
    struct loss_counts counts;
    struct policy_sequence sequence;
    struct value_units before; /* the critic's units when the rollout was collected */
};

/* ---- before the epochs ------------------------------------------------------------------------------------------ */

static struct loss_rules update_rules(const struct learner *learner, double coef)
{
    const struct config *config = learner->config;
    const struct ppo_config *ppo = &config->ppo;
    struct loss_rules rules = {.slots = learner->shape.slots, .clip = ppo->clip, .value_coef = ppo->value_coef};
    for (int head = 0; head < HEAD_COUNT; head++) {
        rules.entropy_coef[head] = coef * ppo->entropy_weight[head];
        rules.floor[head] = config->policy.floor[head];
    }
    return rules;
}

/* The rows as the loss reads them. Nothing is read from a row without ROW_VALID: it may hold anything, and in a matrix
 * product 0 * NAN would spread, so its inputs become those of an empty observation. */
static void rows_take(struct update *update)
{
    struct rollout *rollout = update->rollout;
    struct learner_work *work = update->work;
    const size_t obs = (size_t)rollout->obs, slots = (size_t)rollout->slots;
    for (int i = 0; i < update->rows; i++) {
        const uint8_t flags = rollout->flags[i];
        const bool after_hole = i >= rollout->envs && !(rollout->flags[i - rollout->envs] & ROW_VALID);
        work->row[i] = loss_row_of(flags, rollout->mask[i], rollout->choice + (size_t)i * HEAD_COUNT,
                                   rollout->effective_op[i], rollout->slots);
        work->reset[i] = (flags & ROW_RESET) || after_hole;
        if (!(flags & ROW_VALID)) {
            memset(rollout->state + (size_t)i * obs, 0, obs * sizeof *rollout->state);
            memset(rollout->bp + (size_t)i * slots, -1, slots);
        }
        update->valid += work->row[i].valid;
    }
    update->counts = loss_count(work->row, update->rows);
}

/* The statistics of all observations, rolled-back steps included, in the columns that are normalised. Numbers that are
 * not finite are left out. */
static void observations_learn(struct learner *learner, learner_column normalised, const struct rollout *rollout)
{
    const int obs = rollout->obs, rows = rollout->steps * rollout->envs;
    const double weight = normalise_weight(++*learner->obs_updates, NORMALISE_OBS_LEAST);
    for (int column = 0; column < obs; column++) {
        struct moments moments = {0, 0, 0};
        for (int i = 0; (!normalised || normalised(column)) && i < rows; i++) {
            float x = rollout->raw[(size_t)i * (size_t)obs + (size_t)column];
            if (isfinite(x))
                moments_add(&moments, (double)x);
        }
        if (moments.count > 0)
            normalise_merge(weight, moments.mean, moments_variance(moments), &learner->obs_mean[column],
                            &learner->obs_var[column]);
    }
}

static void advantages_estimate(struct update *update)
{
    const struct config *config = update->learner->config;
    struct rollout *rollout = update->rollout;
    struct learner_work *work = update->work;
    const struct gae_rates rates = {config->gamma, config->ppo.lambda, update->before.shift, update->before.scale};
    for (int env = 0; env < rollout->envs; env++) {
        const struct gae_rows rows = {rollout->flags + env,     rollout->reward + env,    rollout->value + env,
                                      rollout->bootstrap + env, rollout->advantage + env, rollout->returns + env,
                                      rollout->td_error + env};
        gae_estimate(&rates, &rows, rollout->steps, rollout->envs);
    }
    for (int i = 0, at = 0; i < update->rows; i++) {
        if (!work->row[i].valid)
            continue;
        work->advantages[at] = (double)rollout->advantage[i];
        work->returns[at] = (double)rollout->returns[i];
        work->td[at] = (double)rollout->td_error[i];
        work->values[at] = (double)rollout->value[i] * rates.scale + rates.shift;
        at++;
    }
}

static void advantages_normalise(struct update *update)
{
    const struct update_report *record = update->record;
    int positive = 0, forced = 0;
    for (int i = 0; i < update->rows; i++) {
        struct loss_row *row = &update->work->row[i];
        if (!row->valid)
            continue;
        row->advantage = (float)advantage_normalise((double)update->rollout->advantage[i], record->advantage_mean,
                                                    record->advantage_std);
        positive += row->advantage > 0;
        forced += row->forced;
    }
    update->record->advantage_positive = (double)positive / update->valid;
    update->record->forced_ratio = (double)forced / update->valid;
}

/* ---- the critic's units ----------------------------------------------------------------------------------------- */

struct value_layer {
    float *weight, *bias;
    int inputs;
};

static struct value_layer value_layer_of(struct learner *learner)
{
    const struct policy_shape *shape = &learner->shape;
    const struct policy_tensor *weight = &shape->tensor[policy_shape_find(shape, "v.l4.weight")];
    const struct policy_tensor *bias = &shape->tensor[policy_shape_find(shape, "v.l4.bias")];
    struct value_layer layer = {learner->w + weight->offset, learner->w + bias->offset, weight->columns};
    return layer;
}

/* New units from the returns, and the critic rewritten so that its predictions are unchanged (PopArt). The first update
 * has nothing to preserve: a fresh critic then starts at the mean of the returns. */
static void units_learn(struct update *update)
{
    struct learner *learner = update->learner;
    const struct value_layer layer = value_layer_of(learner);
    float *saved = update->work->last_layer;
    memcpy(saved, layer.weight, (size_t)layer.inputs * sizeof *saved);
    saved[layer.inputs] = *layer.bias;

    const struct moments returns = diagnostics_moments(update->work->returns, update->valid);
    const struct value_units before = update->before;
    const struct value_units after = value_units_update(before, ++*learner->value_updates, returns);
    if (*learner->value_updates > 1) {
        for (int i = 0; i < layer.inputs; i++)
            layer.weight[i] = value_rewrite_weight(before, after, layer.weight[i]);
        *layer.bias = value_rewrite_bias(before, after, *layer.bias);
    }
    *learner->value_shift = after.shift;
    *learner->value_scale = after.scale;
    for (int i = 0; i < update->rows; i++)
        if (update->work->row[i].valid)
            update->work->row[i].target = (float)(((double)update->rollout->returns[i] - after.shift) / after.scale);
    learner->kernels->pack(learner->net, learner->w);
}

/* An update that made no step leaves no trace in the critic. */
static void units_restore(struct update *update)
{
    struct learner *learner = update->learner;
    const struct value_layer layer = value_layer_of(learner);
    const float *saved = update->work->last_layer;
    memcpy(layer.weight, saved, (size_t)layer.inputs * sizeof *saved);
    *layer.bias = saved[layer.inputs];
    *learner->value_shift = update->before.shift;
    *learner->value_scale = update->before.scale;
    --*learner->value_updates;
    learner->kernels->pack(learner->net, learner->w);
}

/* ---- an epoch --------------------------------------------------------------------------------------------------- */

static void look_chunk(void *context, int item, int thread)
{
    struct update *update = context;
    struct learner_work *work = update->work;
    const size_t logits = (size_t)update->learner->shape.logits;
    (void)thread;
    for (int i = item * CHUNK; i < update->rows && i < (item + 1) * CHUNK; i++)
        if (work->row[i].valid)
            loss_look(&update->rules, &work->row[i], work->logits + (size_t)i * logits, &work->view[i]);
}

static void backward_chunk(void *context, int item, int thread)
{
    struct update *update = context;
    struct learner_work *work = update->work;
    const size_t logits = (size_t)update->learner->shape.logits;
    (void)thread;
    for (int i = item * CHUNK; i < update->rows && i < (item + 1) * CHUNK; i++)
        loss_backward(&update->rules, &update->counts, &work->row[i], work->logits + (size_t)i * logits, work->value[i],
                      work->ref + (size_t)i * HEAD_COUNT, work->dlogits + (size_t)i * logits, &work->dvalue[i]);
}

static void run_chunks(struct update *update, void (*chunk)(void *, int, int))
{
    pool_run(update->learner->pool, chunk, update, (update->rows + CHUNK - 1) / CHUNK);
}

/* The log-probabilities of the first forward pass are the reference of all epochs (L-07). */
static void reference_take(struct update *update)
{
    const struct learner_work *work = update->work;
    double drift = 0;
    for (int i = 0; i < update->rows; i++) {
        float *ref = work->ref + (size_t)i * HEAD_COUNT;
        memset(ref, 0, HEAD_COUNT * sizeof *ref);
        if (!work->row[i].valid)
            continue;
        memcpy(ref, work->view[i].logp, HEAD_COUNT * sizeof *ref);
        for (int head = 0; head < HEAD_COUNT; head++) {
            double off = fabs((double)update->rollout->logp[(size_t)i * HEAD_COUNT + (size_t)head] - (double)ref[head]);
            drift = off > drift || isnan(off) ? off : drift; /* NAN, once seen, stays */
        }
    }
    update->record->anchor_drift = drift;
}

static bool outputs_are_finite(const struct update *update)
{
    for (int i = 0; i < update->rows; i++) {
        if (!update->work->row[i].valid)
            continue;
        bool finite = isfinite(update->work->value[i]);
        for (int head = 0; head < HEAD_COUNT; head++)
            finite = finite && isfinite(update->work->view[i].logp[head]);
        if (!finite)
            return false;
    }
    return true;
}

static double root_mean_square(const float *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum / (double)count);
}

/* Describes the policy that acted, from the first epoch's forward pass. */
static void policy_describe(struct update *update)
{
    const struct learner *learner = update->learner;
    const float *h, *c;
    const size_t count = (size_t)learner->envs * (size_t)learner->shape.hidden;
    learner->kernels->state(learner->net, &h, &c);
    update->record->hidden_rms = root_mean_square(h, count);
    update->record->cell_rms = root_mean_square(c, count);
    report_policy(&update->report);
}

static struct loss_totals epoch_sums(const struct update *update)
{
    const struct learner_work *work = update->work;
    struct loss_totals sums = {0};
    for (int i = 0; i < update->rows; i++)
        loss_add(&sums, &update->rules, &work->row[i], &work->view[i], work->ref + (size_t)i * HEAD_COUNT,
                 work->value[i]);
    return sums;
}

/* Backward pass, clip, Adam. false: the gradient was not finite, and nothing was changed (L-08). */
static bool epoch_step(struct update *update, const struct loss_totals *sums)
{
    struct learner *learner = update->learner;
    const struct ppo_config *ppo = &learner->config->ppo;
    run_chunks(update, backward_chunk);
    learner->kernels->backward(learner->net, &update->sequence, update->work->dlogits, update->work->dvalue,
                               learner->grad);
    const double square = learner->kernels->square_norm(learner->shape.storage, learner->grad);
    if (!isfinite(square))
        return false;
    const double norm = sqrt(square), factor = fmin(1.0, ppo->max_grad_norm / (norm + 1e-6));
    report_step(&update->report, learner, sums, &update->counts, norm);

    const struct adam adam = {ppo->lr, ppo->beta1, ppo->beta2, ppo->epsilon, ++*learner->adam_steps};
    learner->kernels->adam_step(&adam, learner->shape.storage, (float)factor, learner->grad, learner->w, learner->m,
                                learner->v);
    learner->kernels->pack(learner->net, learner->w);
    return true;
}

static void epochs_run(struct update *update)
{
    struct learner *learner = update->learner;
    const struct ppo_config *ppo = &learner->config->ppo;
    struct update_report *record = update->record;
    for (int epoch = 0; epoch < ppo->epochs; epoch++) {
        learner->kernels->unroll(learner->net, &update->sequence, update->work->logits, update->work->value);
        run_chunks(update, look_chunk);
        if (epoch == 0) {
            reference_take(update);
            policy_describe(update);
        }
        if (!outputs_are_finite(update)) {
            record->nonfinite++;
            continue;
        }
        const struct loss_totals sums = epoch_sums(update);
        report_look(&update->report, &sums);
        if (ppo->target_kl > 0 && loss_kl(&sums) > KL_STOP * ppo->target_kl) {
            record->early_stop = epoch; /* the steps before this epoch have moved the policy far enough */
            break;
        }
        if (epoch_step(update, &sums))
            record->epochs++;
        else
            record->nonfinite++;
    }
    report_finish(&update->report.tally, update->report.record, update->report.heads);
}

/* ---- the update ------------------------------------------------------------------------------------------------- */

static void update_learn(struct update *update)
{
    struct learner *learner = update->learner;
    struct update_report *record = update->record;
    const struct learner_work *work = update->work;
    advantages_estimate(update);
    diagnostics_returns(record, work->returns, work->values, work->td, work->advantages, update->valid, work->scratch);
    advantages_normalise(update);
    if (!isfinite(record->return_mean) || !isfinite(record->advantage_mean)) {
        record->nonfinite = learner->config->ppo.epochs; /* a reward or value was not finite: nothing to learn from */
    } else {
        units_learn(update);
        epochs_run(update);
        if (record->epochs == 0)
            units_restore(update);
    }
    if (record->epochs > 0) {
        ++*learner->updates;
        *learner->failures = 0;
    } else {
        ++*learner->failures;
    }
}

void learner_update(struct learner *learner, learner_column column, struct rollout *rollout, double progress,
                    struct update_report *record, struct head_report heads[HEAD_COUNT])
{
    const double start = clock_seconds(),
                 entropy_coef = loss_entropy_coef(learner->config->ppo.entropy_coef,
                                                  learner->config->ppo.entropy_coef_end, progress);
    struct update update = {.learner = learner,
                            .work = learner->work,
                            .rollout = rollout,
                            .record = record,
                            .rows = rollout->steps * rollout->envs,
                            .rules = update_rules(learner, entropy_coef),
                            .sequence = {.steps = rollout->steps,
                                         .envs = rollout->envs,
                                         .obs = rollout->state,
                                         .bp = rollout->bp,
                                         .reset = learner->work->reset},
                            .before = {*learner->value_shift, *learner->value_scale}};
    rows_take(&update);
    report_start(&update.report, record, heads, update.work, &update.rules, update.rows, update.valid);
    record->entropy_coef = entropy_coef;
    if (update.valid > 0) {
        observations_learn(learner, column, rollout);
        update_learn(&update);
    }
    struct moments rewards = {*learner->reward_count, *learner->reward_mean, *learner->reward_m2};
    record->reward_scale = sqrt(moments_sample_variance(rewards));
    record->value_shift = *learner->value_shift;
    record->value_scale = *learner->value_scale;
    record->seconds = clock_seconds() - start;
}
