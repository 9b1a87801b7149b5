/* learner_update: one rollout, K epochs (L-01). */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "learn/deal.h"
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
    struct loss_rules rules;
    double lr;
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

static void batch_count(struct learner_batch *batch)
{
    batch->valid = 0;
    for (int i = 0; i < batch->rows; i++)
        batch->valid += batch->row[i].valid;
    batch->counts = loss_count(batch->row, batch->rows);
}

/* The rows as the loss reads them. Nothing is read from a row without ROW_VALID: it may hold anything, and in a matrix
 * product 0 * NAN would spread, so its inputs become those of an empty observation. */
static void rows_take(struct learner_batch *all, struct rollout *rollout)
{
    const size_t obs = (size_t)rollout->obs, slots = (size_t)rollout->slots;
    all->state = rollout->state;
    all->bp = rollout->bp;
    for (int i = 0; i < all->rows; i++) {
        const uint8_t flags = rollout->flags[i];
        const bool after_hole = i >= rollout->envs && !(rollout->flags[i - rollout->envs] & ROW_VALID);
        all->row[i] = loss_row_of(flags, rollout->mask[i], rollout->choice + (size_t)i * HEAD_COUNT,
                                  rollout->effective_op[i], rollout->slots);
        all->reset[i] = (flags & ROW_RESET) || after_hole;
        if (!(flags & ROW_VALID)) {
            memset(rollout->state + (size_t)i * obs, 0, obs * sizeof *rollout->state);
            memset(rollout->bp + (size_t)i * slots, -1, slots);
        }
    }
    batch_count(all);
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
    for (int i = 0, at = 0; i < work->all.rows; i++) {
        if (!work->all.row[i].valid)
            continue;
        work->returns[at] = (double)rollout->returns[i];
        work->td[at] = (double)rollout->td_error[i];
        work->values[at] = (double)rollout->value[i] * rates.scale + rates.shift;
        at++;
    }
}

/* Over the rows that had a choice (L-03): no other advantage enters the loss. */
static void advantages_normalise(struct update *update)
{
    struct learner_batch *all = &update->work->all;
    struct update_report *record = update->record;
    int choices = 0, positive = 0;
    for (int i = 0; i < all->rows; i++)
        if (loss_had_choice(&all->row[i]))
            update->work->advantages[choices++] = (double)update->rollout->advantage[i];
    record->forced_ratio = (double)(all->valid - choices) / all->valid;
    if (choices == 0)
        return;
    const struct moments gain = diagnostics_moments(update->work->advantages, choices);
    record->advantage_mean = gain.mean;
    record->advantage_std = sqrt(moments_variance(gain));
    for (int i = 0; i < all->rows; i++) {
        if (!loss_had_choice(&all->row[i]))
            continue;
        all->row[i].advantage =
            (float)advantage_normalise((double)update->rollout->advantage[i], gain.mean, record->advantage_std);
        positive += all->row[i].advantage > 0;
    }
    record->advantage_positive = (double)positive / choices;
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

    const struct learner_batch *all = &update->work->all;
    const struct moments returns = diagnostics_moments(update->work->returns, all->valid);
    const struct value_units before = update->before;
    const struct value_units after = value_units_update(before, ++*learner->value_updates, returns);
    if (*learner->value_updates > 1) {
        for (int i = 0; i < layer.inputs; i++)
            layer.weight[i] = value_rewrite_weight(before, after, layer.weight[i]);
        *layer.bias = value_rewrite_bias(before, after, *layer.bias);
    }
    *learner->value_shift = after.shift;
    *learner->value_scale = after.scale;
    for (int i = 0; i < all->rows; i++)
        if (all->row[i].valid)
            all->row[i].target = (float)(((double)update->rollout->returns[i] - after.shift) / after.scale);
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

/* ---- a pass over a batch ----------------------------------------------------------------------------------------- */

struct pass {
    const struct update *update;
    const struct learner_batch *batch;
};

static void look_chunk(void *context, int item, int thread)
{
    const struct pass *pass = context;
    const struct learner_batch *batch = pass->batch;
    const size_t logits = (size_t)pass->update->learner->shape.logits;
    (void)thread;
    for (int i = item * CHUNK; i < batch->rows && i < (item + 1) * CHUNK; i++)
        if (batch->row[i].valid)
            loss_look(&pass->update->rules, &batch->row[i], batch->logits + (size_t)i * logits, &batch->view[i]);
}

static void backward_chunk(void *context, int item, int thread)
{
    const struct pass *pass = context;
    const struct learner_batch *batch = pass->batch;
    const size_t logits = (size_t)pass->update->learner->shape.logits;
    (void)thread;
    for (int i = item * CHUNK; i < batch->rows && i < (item + 1) * CHUNK; i++)
        loss_backward(&pass->update->rules, &batch->counts, &batch->row[i], batch->logits + (size_t)i * logits,
                      batch->value[i], batch->ref + (size_t)i * HEAD_COUNT, batch->dlogits + (size_t)i * logits,
                      &batch->dvalue[i]);
}

static void run_chunks(const struct update *update, const struct learner_batch *batch, void (*chunk)(void *, int, int))
{
    struct pass pass = {update, batch};
    pool_run(update->learner->pool, chunk, &pass, (batch->rows + CHUNK - 1) / CHUNK);
}

static struct policy_sequence batch_sequence(const struct update *update, const struct learner_batch *batch)
{
    return (struct policy_sequence){.steps = update->rollout->steps,
                                    .envs = batch->envs,
                                    .obs = batch->state,
                                    .bp = batch->bp,
                                    .reset = batch->reset};
}

/* What the policy does now. */
static void batch_look(const struct update *update, const struct learner_batch *batch)
{
    const struct learner *learner = update->learner;
    const struct policy_sequence sequence = batch_sequence(update, batch);
    learner->kernels->unroll(learner->net, &sequence, batch->logits, batch->value);
    run_chunks(update, batch, look_chunk);
}

static bool outputs_are_finite(const struct learner_batch *batch)
{
    for (int i = 0; i < batch->rows; i++) {
        if (!batch->row[i].valid)
            continue;
        bool finite = isfinite(batch->value[i]);
        for (int head = 0; head < HEAD_COUNT; head++)
            finite = finite && isfinite(batch->view[i].logp[head]);
        if (!finite)
            return false;
    }
    return true;
}

static struct loss_totals batch_sums(const struct update *update, const struct learner_batch *batch)
{
    struct loss_totals sums = {0};
    for (int i = 0; i < batch->rows; i++)
        loss_add(&sums, &update->rules, &batch->row[i], &batch->view[i], batch->ref + (size_t)i * HEAD_COUNT,
                 batch->value[i]);
    return sums;
}

/* Backward pass, clip, Adam. false: the gradient was not finite, and nothing was changed (L-08). */
static bool batch_step(struct update *update, const struct learner_batch *batch, const struct loss_totals *sums)
{
    struct learner *learner = update->learner;
    const struct ppo_config *ppo = &learner->config->ppo;
    const struct policy_sequence sequence = batch_sequence(update, batch);
    run_chunks(update, batch, backward_chunk);
    learner->kernels->backward(learner->net, &sequence, batch->dlogits, batch->dvalue, learner->grad);
    const double square = learner->kernels->square_norm(learner->shape.storage, learner->grad);
    if (!isfinite(square))
        return false;
    const double norm = sqrt(square), factor = fmin(1.0, ppo->max_grad_norm / (norm + 1e-6));
    report_step(&update->report, learner, sums, &batch->counts, norm);

    const struct adam adam = {update->lr, ppo->beta1, ppo->beta2, ppo->epsilon, ++*learner->adam_steps};
    learner->kernels->adam_step(&adam, learner->shape.storage, (float)factor, learner->grad, learner->w, learner->m,
                                learner->v);
    learner->kernels->pack(learner->net, learner->w);
    return true;
}

/* The batch was looked at: make its step. false: the steps so far have moved the policy far enough (L-09). */
static bool batch_learn(struct update *update, const struct learner_batch *batch)
{
    const double target_kl = update->learner->config->ppo.target_kl;
    if (!outputs_are_finite(batch)) {
        update->record->nonfinite++;
        return true;
    }
    const struct loss_totals sums = batch_sums(update, batch);
    report_look(&update->report, batch, &sums);
    if (target_kl > 0 && loss_kl(&sums) > KL_STOP * target_kl)
        return false;
    if (batch_step(update, batch, &sums))
        update->record->epochs++;
    else
        update->record->nonfinite++;
    return true;
}

/* ---- the epochs -------------------------------------------------------------------------------------------------- */

/* The log-probabilities of the first forward pass are the reference of all epochs (L-07). */
static void reference_take(struct update *update)
{
    const struct learner_batch *all = &update->work->all;
    double drift = 0;
    for (int i = 0; i < all->rows; i++) {
        float *ref = all->ref + (size_t)i * HEAD_COUNT;
        memset(ref, 0, HEAD_COUNT * sizeof *ref);
        if (!all->row[i].valid)
            continue;
        memcpy(ref, all->view[i].logp, HEAD_COUNT * sizeof *ref);
        for (int head = 0; head < HEAD_COUNT && !all->row[i].shown; head++) {
            double off = fabs((double)update->rollout->logp[(size_t)i * HEAD_COUNT + (size_t)head] - (double)ref[head]);
            drift = off > drift || isnan(off) ? off : drift; /* NAN, once seen, stays */
        }
    }
    update->record->anchor_drift = drift;
}

static double root_mean_square(const float *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum / (double)count);
}

/* Describes the policy that acted, from the first forward pass. */
static void policy_describe(struct update *update)
{
    const struct learner *learner = update->learner;
    const float *h, *c;
    const size_t count = (size_t)learner->envs * (size_t)learner->shape.hidden;
    learner->kernels->state(learner->net, &h, &c);
    update->record->hidden_rms = root_mean_square(h, count);
    update->record->cell_rms = root_mean_square(c, count);
    report_policy(&update->report, &update->work->all);
}

/* The `number`-th mini-batch of the epoch's deal. */
static const struct learner_batch *part_take(const struct update *update, int number)
{
    const struct learner_batch *all = &update->work->all;
    struct learner_batch *part = &update->work->part;
    const size_t obs = (size_t)update->rollout->obs, slots = (size_t)update->rollout->slots;
    for (int i = 0; i < part->rows; i++) {
        const int env = update->work->order[number * part->envs + i % part->envs];
        const size_t to = (size_t)i, from = (size_t)(i / part->envs) * (size_t)all->envs + (size_t)env;
        memcpy(part->state + to * obs, all->state + from * obs, obs * sizeof *part->state);
        memcpy(part->bp + to * slots, all->bp + from * slots, slots);
        memcpy(part->ref + to * HEAD_COUNT, all->ref + from * HEAD_COUNT, HEAD_COUNT * sizeof *part->ref);
        part->reset[to] = all->reset[from];
        part->row[to] = all->row[from];
    }
    batch_count(part);
    return part;
}

/* One pass over the rollout, a step from each mini-batch; false ends the update. */
static bool epoch_run(struct update *update, int epoch)
{
    const struct learner *learner = update->learner;
    const int parts = learner_parts(learner->config);
    if (parts == 1) {
        if (epoch > 0) /* the first look was the reference's */
            batch_look(update, &update->work->all);
        return batch_learn(update, &update->work->all);
    }
    deal_envs(learner->config->seed, *learner->updates, epoch, learner->envs, update->work->order);
    for (int number = 0; number < parts; number++) {
        const struct learner_batch *part = part_take(update, number);
        if (part->valid == 0)
            continue;
        batch_look(update, part);
        if (!batch_learn(update, part))
            return false;
    }
    return true;
}

static void epochs_run(struct update *update)
{
    batch_look(update, &update->work->all);
    reference_take(update);
    policy_describe(update);
    for (int epoch = 0; epoch < update->learner->config->ppo.epochs; epoch++) {
        if (epoch_run(update, epoch))
            continue;
        update->record->early_stop = epoch;
        break;
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
    diagnostics_returns(record, work->returns, work->values, work->td, work->all.valid, work->scratch);
    advantages_normalise(update);
    if (!isfinite(record->return_mean)) { /* a reward or value was not: there is nothing to learn from */
        record->nonfinite = learner->config->ppo.epochs * learner_parts(learner->config);
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
    const struct ppo_config *ppo = &learner->config->ppo;
    const double start = clock_seconds(),
                 entropy_coef = loss_schedule(ppo->entropy_coef, ppo->entropy_coef_end, progress);
    struct update update = {.learner = learner,
                            .work = learner->work,
                            .rollout = rollout,
                            .record = record,
                            .rules = update_rules(learner, entropy_coef),
                            .lr = loss_schedule(ppo->lr, ppo->lr * ppo->lr_end_share, progress),
                            .before = {*learner->value_shift, *learner->value_scale}};
    struct learner_batch *all = &learner->work->all;
    rows_take(all, rollout);
    report_start(&update.report, record, heads, all, &update.rules);
    record->entropy_coef = entropy_coef;
    if (all->valid > 0) {
        observations_learn(learner, column, rollout);
        update_learn(&update);
    }
    const struct moments rewards = {*learner->reward_count, *learner->reward_mean, *learner->reward_m2};
    record->reward_scale = rewards.count < 2 ? (double)NAN : reward_scale(rewards);
    record->value_shift = *learner->value_shift;
    record->value_scale = *learner->value_scale;
    record->seconds = clock_seconds() - start;
}
