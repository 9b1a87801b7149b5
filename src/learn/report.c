#include "learn/report.h"

#include <math.h>

#include "learn/diagnostics.h"

/* ---- before the epochs ------------------------------------------------------------------------------------------ */

void report_tally_clear(struct report_tally *tally)
{
    *tally = (struct report_tally){.ratio_max = -INFINITY, .ratio_min = INFINITY};
    for (int head = 0; head < HEAD_COUNT; head++)
        tally->head[head] =
            (struct report_head){.log_ratio_max = -INFINITY, .log_ratio_min = INFINITY, .log_prob_min = INFINITY};
}

void report_start(struct report *report, struct update_report *record, struct head_report heads[HEAD_COUNT],
                  const struct learner_batch *all, const struct loss_rules *rules)
{
    *report = (struct report){.record = record, .heads = heads, .rules = *rules};
    report_tally_clear(&report->tally);
    update_report_clear(record);
    for (int head = 0; head < HEAD_COUNT; head++) {
        head_report_clear(&heads[head], head_name(head));
        double choices = 0;
        for (int i = 0; i < all->rows; i++)
            choices += loss_learns_head(&all->row[i], rules->slots, head);
        if (all->valid > 0)
            heads[head].learnable = choices / all->valid;
    }
    record->rows = all->valid;
}

void report_policy(struct report *report, const struct learner_batch *all)
{
    for (int head = 0; head < HEAD_COUNT; head++) {
        double sum = 0, count = 0, shown_all = 0;
        for (int i = 0; i < all->rows; i++) {
            if (!all->row[i].valid)
                continue;
            const double shown = (double)all->view[i].shown[head];
            shown_all += shown;
            if (!loss_learns_head(&all->row[i], report->rules.slots, head))
                continue;
            sum += shown;
            count += 1;
        }
        report->heads[head].entropy = count > 0 ? sum / count : (double)NAN;
        report->heads[head].entropy_all = shown_all / all->valid;
    }
    report->record->op_entropy = report->heads[HEAD_OP].entropy;
}

/* ---- a pass ----------------------------------------------------------------------------------------------------- */

/* Ratios, divergence and log-probabilities of one head over the rows where it counts. */
static void head_look(struct report *report, const struct learner_batch *batch, int head)
{
    struct report_head *tally = &report->tally.head[head];
    double divergence = 0, clipped = 0, count = 0;
    for (int i = 0; i < batch->rows; i++) {
        if (!loss_counts_head(&batch->row[i], head))
            continue;
        const real logp = batch->view[i].logp[head];
        const double log_ratio = loss_log_ratio(logp, batch->ref[(size_t)i * HEAD_COUNT + (size_t)head]);
        count += 1;
        divergence += loss_moved(&batch->row[i], log_ratio);
        clipped += fabs(exp(log_ratio) - 1) > report->rules.clip;
        tally->log_ratio_max = fmax(tally->log_ratio_max, log_ratio);
        tally->log_ratio_min = fmin(tally->log_ratio_min, log_ratio);
        tally->log_prob_min = fmin(tally->log_prob_min, (double)logp);
    }
    if (count == 0)
        return;
    tally->looks++;
    tally->kl += divergence / count;
    tally->clipped += clipped / count;
}

void report_look(struct report *report, const struct learner_batch *batch, const struct loss_totals *sums)
{
    struct report_tally *tally = &report->tally;
    struct moments ratios = {0, 0, 0}, values = {0, 0, 0};
    double clipped = 0;
    for (int i = 0; i < batch->rows; i++) {
        if (!batch->row[i].valid)
            continue;
        const double joint = loss_joint_ratio(batch->view[i].logp, batch->ref + (size_t)i * HEAD_COUNT);
        moments_add(&ratios, joint);
        moments_add(&values, (double)batch->value[i]);
        clipped += fabs(joint - 1) > report->rules.clip;
        tally->ratio_max = fmax(tally->ratio_max, joint);
        tally->ratio_min = fmin(tally->ratio_min, joint);
    }
    tally->looks++;
    tally->kl += loss_kl(sums);
    tally->clipped += clipped / batch->valid;
    tally->ratio += ratios.mean;
    tally->value_mean += values.mean;
    tally->value_std += sqrt(moments_sample_variance(values));
    for (int head = 0; head < HEAD_COUNT; head++)
        head_look(report, batch, head);
}

void report_step(struct report *report, const struct learner *learner, const struct loss_totals *sums,
                 const struct loss_counts *counts, double grad_norm)
{
    const struct policy_shape *shape = &learner->shape;
    struct report_tally *tally = &report->tally;
    double square[POLICY_PART_COUNT] = {0};
    for (int i = 0; i < shape->count; i++) {
        const struct policy_tensor *tensor = &shape->tensor[i];
        if (shape->part[i] != POLICY_PART_TRUNK) /* the largest part, and not reported */
            square[shape->part[i]] += learner->kernels->square_norm((size_t)tensor->rows * (size_t)tensor->columns,
                                                                    learner->grad + tensor->offset);
    }
    for (int head = 0; head < HEAD_COUNT; head++)
        tally->head[head].square_norm = fmax(tally->head[head].square_norm, square[head]);
    report->record->value_grad_norm = sqrt(square[POLICY_PART_VALUE]);
    tally->grad_norm = fmax(tally->grad_norm, grad_norm);
    tally->losses++;
    tally->policy += loss_policy(sums, counts);
    tally->value += loss_value(sums, counts);
    tally->entropy += loss_entropy(sums, counts, learner->config->ppo.entropy_weight);
}

/* ---- after them ------------------------------------------------------------------------------------------------- */

static void head_finish(const struct report_tally *tally, int head, struct head_report *record)
{
    const struct report_head *of = &tally->head[head];
    if (of->looks) {
        record->kl = of->kl / of->looks;
        record->clip_fraction = of->clipped / of->looks;
        record->ratio_max = exp(of->log_ratio_max);
        record->ratio_min = exp(of->log_ratio_min);
        record->log_prob_min = of->log_prob_min;
    }
    if (tally->losses)
        record->grad_norm = sqrt(of->square_norm);
}

void report_finish(const struct report_tally *tally, struct update_report *record, struct head_report heads[HEAD_COUNT])
{
    if (tally->looks) {
        record->kl = tally->kl / tally->looks;
        record->clip_fraction = tally->clipped / tally->looks;
        record->ratio_mean = tally->ratio / tally->looks;
        record->ratio_max = tally->ratio_max;
        record->ratio_min = tally->ratio_min;
        record->value_mean = tally->value_mean / tally->looks;
        record->value_std = tally->value_std / tally->looks;
    }
    if (tally->losses) {
        record->policy_loss = tally->policy / tally->losses;
        record->value_loss = tally->value / tally->losses;
        record->entropy = tally->entropy / tally->losses;
        record->grad_norm = tally->grad_norm;
    }
    for (int head = 0; head < HEAD_COUNT; head++)
        head_finish(tally, head, &heads[head]);
}
