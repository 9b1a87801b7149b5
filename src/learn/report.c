#include "learn/report.h"

#include <math.h>

#include "learn/diagnostics.h"

static bool mattered(const struct loss_row *row, int head)
{
    return row->valid && (row->relevant >> head & 1);
}

/* It counts in the loss and more than one choice was legal: only then is there anything to learn (ppo D5). */
static bool learnable(const struct loss_row *row, int slots, int head)
{
    const uint32_t set = head_bits(row->mask, slots, head);
    return loss_counts_head(row, head) && (set & (set - 1)) != 0;
}

/* ---- before the epochs ------------------------------------------------------------------------------------------ */

void report_start(struct report *report, struct ppo_record *record, struct ppo_head_record heads[HEAD_COUNT],
                  const struct learner_work *work, const struct loss_rules *rules, int rows, int valid)
{
    *report = (struct report){.record = record,
                              .heads = heads,
                              .work = work,
                              .rules = *rules,
                              .rows = rows,
                              .valid = valid,
                              .ratio_max = -INFINITY,
                              .ratio_min = INFINITY};
    ppo_record_clear(record);
    for (int head = 0; head < HEAD_COUNT; head++) {
        report->head[head] =
            (struct report_head){.log_ratio_max = -INFINITY, .log_ratio_min = INFINITY, .log_prob_min = INFINITY};
        ppo_head_record_clear(&heads[head], head_name(head));
        double choices = 0;
        for (int i = 0; i < rows; i++) {
            report->mattered[head] += mattered(&work->row[i], head);
            choices += learnable(&work->row[i], rules->slots, head);
        }
        if (valid > 0)
            heads[head].learnable = choices / valid;
    }
    record->rows = valid;
}

void report_policy(struct report *report)
{
    const struct learner_work *work = report->work;
    for (int head = 0; head < HEAD_COUNT; head++) {
        double sum = 0, count = 0, all = 0;
        for (int i = 0; i < report->rows; i++) {
            if (!work->row[i].valid)
                continue;
            const double shown = (double)work->view[i].shown[head];
            all += shown;
            if (!learnable(&work->row[i], report->rules.slots, head))
                continue;
            sum += shown;
            count += 1;
        }
        report->heads[head].entropy = count > 0 ? sum / count : (double)NAN;
        report->heads[head].entropy_all = all / report->valid;
    }
    report->record->op_entropy = report->heads[HEAD_OP].entropy;
}

/* ---- an epoch --------------------------------------------------------------------------------------------------- */

/* Ratios, divergence and log-probabilities of one head over the rows where it mattered. */
static void head_look(struct report *report, int head)
{
    const struct learner_work *work = report->work;
    struct report_head *tally = &report->head[head];
    double divergence = 0, clipped = 0;
    for (int i = 0; i < report->rows; i++) {
        if (!mattered(&work->row[i], head))
            continue;
        const real logp = work->view[i].logp[head];
        const double log_ratio = loss_log_ratio(logp, work->ref[(size_t)i * HEAD_COUNT + (size_t)head]);
        divergence += loss_divergence(log_ratio);
        clipped += fabs(exp(log_ratio) - 1) > report->rules.clip;
        tally->log_ratio_max = fmax(tally->log_ratio_max, log_ratio);
        tally->log_ratio_min = fmin(tally->log_ratio_min, log_ratio);
        tally->log_prob_min = fmin(tally->log_prob_min, (double)logp);
    }
    const double count = fmax(1.0, report->mattered[head]);
    tally->kl += divergence / count;
    tally->clipped += clipped / count;
}

void report_look(struct report *report, const struct loss_totals *sums)
{
    const struct learner_work *work = report->work;
    struct moments ratios = {0, 0, 0}, values = {0, 0, 0};
    double clipped = 0;
    for (int i = 0; i < report->rows; i++) {
        if (!work->row[i].valid)
            continue;
        const double joint = loss_joint_ratio(work->view[i].logp, work->ref + (size_t)i * HEAD_COUNT);
        moments_add(&ratios, joint);
        moments_add(&values, (double)work->value[i]);
        clipped += fabs(joint - 1) > report->rules.clip;
        report->ratio_max = fmax(report->ratio_max, joint);
        report->ratio_min = fmin(report->ratio_min, joint);
    }
    report->looks++;
    report->kl += loss_kl(sums);
    report->clipped += clipped / report->valid;
    report->ratio += ratios.mean;
    report->value_mean += values.mean;
    report->value_std += sqrt(moments_sample_variance(values));
    for (int head = 0; head < HEAD_COUNT; head++)
        head_look(report, head);
}

void report_step(struct report *report, const struct learner *learner, const struct loss_totals *sums,
                 const struct loss_counts *counts, double grad_norm)
{
    const struct policy_shape *shape = &learner->shape;
    double square[POLICY_PART_COUNT] = {0};
    for (int i = 0; i < shape->count; i++) {
        const struct policy_tensor *tensor = &shape->tensor[i];
        if (shape->part[i] != POLICY_PART_TRUNK) /* the largest part, and nobody asks */
            square[shape->part[i]] += learner->kernels->square_norm((size_t)tensor->rows * (size_t)tensor->columns,
                                                                    learner->grad + tensor->offset);
    }
    for (int head = 0; head < HEAD_COUNT; head++)
        report->head[head].square_norm = fmax(report->head[head].square_norm, square[head]);
    report->record->value_grad_norm = sqrt(square[POLICY_PART_VALUE]);
    report->grad_norm = fmax(report->grad_norm, grad_norm);
    report->losses++;
    report->policy += loss_policy(sums, counts);
    report->value += loss_value(sums, counts);
    report->entropy += loss_entropy(sums, counts, learner->config->ppo.entropy_weight);
}

/* ---- after them ------------------------------------------------------------------------------------------------- */

static void head_finish(const struct report *report, int head)
{
    const struct report_head *tally = &report->head[head];
    struct ppo_head_record *record = &report->heads[head];
    if (report->looks && report->mattered[head] > 0) {
        record->kl = tally->kl / report->looks;
        record->clip_fraction = tally->clipped / report->looks;
        record->ratio_max = exp(tally->log_ratio_max);
        record->ratio_min = exp(tally->log_ratio_min);
        record->log_prob_min = tally->log_prob_min;
    }
    if (report->losses)
        record->grad_norm = sqrt(tally->square_norm);
}

void report_finish(const struct report *report)
{
    struct ppo_record *record = report->record;
    if (report->looks) {
        record->kl = report->kl / report->looks;
        record->clip_fraction = report->clipped / report->looks;
        record->ratio_mean = report->ratio / report->looks;
        record->ratio_max = report->ratio_max;
        record->ratio_min = report->ratio_min;
        record->value_mean = report->value_mean / report->looks;
        record->value_std = report->value_std / report->looks;
    }
    if (report->losses) {
        record->policy_loss = report->policy / report->losses;
        record->value_loss = report->value / report->losses;
        record->entropy = report->entropy / report->losses;
        record->grad_norm = report->grad_norm;
    }
    for (int head = 0; head < HEAD_COUNT; head++)
        head_finish(report, head);
}
