/*
 * The PPO loss of one row and its derivatives (L-04): per-head clipped surrogate with per-head means, value error,
 * entropy bonus. The caller sums over rows, in double and in a fixed order.
 *
 *     L = sum_k -(1/n_k) sum_i w_ki min(r A, clip(r) A)
 *         + c_v 1/2 sum_i nu_i (V - y)^2 / sum nu
 *         - sum_k e_k (1/n_k) sum_i w_ki H_ki
 *
 * w: the head mattered to the op that was credited, and there was a choice. nu: 1, and 0.2 on forced rows.
 */
#ifndef LEARN_LOSS_H
#define LEARN_LOSS_H

#include "learn/row.h"
#include "policy/distribution.h"

#define LOSS_FORCED_VALUE 0.2 /* weight of a forced row in the value loss */
#define LOSS_MAX_LOG      20.0
#define LOSS_MAX_JOINT    30.0

struct loss_rules {
    int slots;
    double clip, value_coef;
    double entropy_coef[HEAD_COUNT]; /* coefficient times the head's weight */
    double floor[HEAD_COUNT];        /* of the distributions */
};

/* A row's data, constant during an update. */
struct loss_row {
    uint64_t mask; /* effective: heads that do not matter to the sampled op have one choice */
    uint8_t choice[HEAD_COUNT];
    uint8_t relevant; /* bit h: head h mattered to the credited op */
    bool valid, forced;
    bool shown; /* a schedule acted, and this is how to act */
    real advantage, target;
};

/* How the current policy rates it. */
struct loss_view {
    real logp[HEAD_COUNT], entropy[HEAD_COUNT]; /* of q */
    real shown[HEAD_COUNT];                     /* entropy of p */
};

struct loss_counts {
    double decisions[HEAD_COUNT]; /* n_k */
    double values;                /* sum of nu */
};

/* ---- rows ------------------------------------------------------------------------------------------------------- */

/* A row of the rollout as the loss reads it; nothing is read from one without ROW_VALID. */
ESPER_RULE struct loss_row loss_row_of(uint8_t flags, uint64_t mask, const uint8_t choice[HEAD_COUNT], int effective_op,
                                       int slots)
{
    struct loss_row row;
    row.mask = 0;
    row.relevant = 0;
    row.valid = flags & ROW_VALID;
    row.forced = row.valid && (flags & ROW_FORCED);
    row.shown = row.valid && (flags & ROW_SHOWN);
    row.advantage = row.target = 0;
    for (int head = 0; head < HEAD_COUNT; head++)
        row.choice[head] = row.valid ? choice[head] : 0;
    if (row.valid) {
        row.mask = mask_effective(mask, slots, row.choice[HEAD_OP]);
        row.relevant = head_relevance(effective_op);
    }
    return row;
}

/* Linear over the run (L-17). */
ESPER_RULE double loss_schedule(double first, double last, double progress)
{
    double share = fmin(fmax(progress, 0.0), 1.0);
    return first + share * (last - first);
}

/* ---- weights ---------------------------------------------------------------------------------------------------- */

ESPER_RULE bool loss_had_choice(const struct loss_row *row)
{
    return row->valid && !row->forced;
}

ESPER_RULE bool loss_counts_head(const struct loss_row *row, int head)
{
    return loss_had_choice(row) && (row->relevant >> head & 1);
}

/* It counts in the loss and more than one choice was legal: only then is there anything to learn (L-06). */
ESPER_RULE bool loss_learns_head(const struct loss_row *row, int slots, int head)
{
    const uint32_t set = head_bits(row->mask, slots, head);
    return loss_counts_head(row, head) && (set & (set - 1)) != 0;
}

ESPER_RULE double loss_value_weight(const struct loss_row *row)
{
    return !row->valid ? 0.0 : row->forced ? LOSS_FORCED_VALUE : 1.0;
}

ESPER_RULE struct loss_counts loss_count(const struct loss_row *rows, int count)
{
    struct loss_counts counts;
    counts.values = 0;
    for (int head = 0; head < HEAD_COUNT; head++)
        counts.decisions[head] = 0;
    for (int i = 0; i < count; i++) {
        counts.values += loss_value_weight(&rows[i]);
        for (int head = 0; head < HEAD_COUNT; head++)
            counts.decisions[head] += loss_counts_head(&rows[i], head) ? 1.0 : 0.0;
    }
    counts.values = fmax(1.0, counts.values);
    for (int head = 0; head < HEAD_COUNT; head++)
        counts.decisions[head] = fmax(1.0, counts.decisions[head]);
    return counts;
}

/* ---- terms ------------------------------------------------------------------------------------------------------ */

ESPER_RULE void loss_distribution(const struct loss_rules *rules, const struct loss_row *row, int head,
                                  const real *logits, struct distribution *d)
{
    const double floor = row->shown ? 0 : rules->floor[head]; /* it would hide how unlikely a choice is */
    distribution_init(d, head_size(rules->slots, head), head_bits(row->mask, rules->slots, head), floor,
                      logits + head_offset(rules->slots, head));
}

ESPER_RULE void loss_look_head(const struct loss_rules *rules, const struct loss_row *row, int head, const real *logits,
                               struct loss_view *view)
{
    struct distribution d;
    loss_distribution(rules, row, head, logits, &d);
    view->logp[head] = distribution_log(&d, row->choice[head]);
    view->entropy[head] = distribution_entropy(&d);
    view->shown[head] = distribution_entropy_shown(&d);
}

ESPER_RULE void loss_look(const struct loss_rules *rules, const struct loss_row *row, const real *logits,
                          struct loss_view *view)
{
    for (int head = 0; head < HEAD_COUNT; head++)
        loss_look_head(rules, row, head, logits, view);
}

ESPER_RULE double loss_bound(double x, double bound)
{
    return x < -bound ? -bound : x > bound ? bound : x;
}

ESPER_RULE double loss_log_ratio(real logp, real ref)
{
    return loss_bound((double)logp - (double)ref, LOSS_MAX_LOG);
}

/* The ratio of the whole action; a diagnostic, the loss clips head by head. */
ESPER_RULE double loss_joint_ratio(const real logp[HEAD_COUNT], const real ref[HEAD_COUNT])
{
    double sum = 0;
    for (int head = 0; head < HEAD_COUNT; head++)
        sum += loss_log_ratio(logp[head], ref[head]);
    return exp(loss_bound(sum, LOSS_MAX_JOINT));
}

/* Estimate of the divergence from one head decision; never negative. */
ESPER_RULE double loss_divergence(double log_ratio)
{
    return expm1(log_ratio) - log_ratio;
}

ESPER_RULE double loss_surrogate(double ratio, double advantage, double clip)
{
    double clipped = ratio < 1 - clip ? 1 - clip : ratio > 1 + clip ? 1 + clip : ratio;
    return fmin(ratio * advantage, clipped * advantage);
}

/* Its derivative with respect to the log-probability: zero where the clip is active; at a bound it is not. */
ESPER_RULE double loss_surrogate_slope(real logp, real ref, double advantage, double clip)
{
    double difference = (double)logp - (double)ref, ratio = exp(loss_log_ratio(logp, ref));
    bool open = advantage > 0 ? ratio <= 1 + clip : ratio >= 1 - clip;
    return open && fabs(difference) <= LOSS_MAX_LOG ? advantage * ratio : 0.0;
}

/* What a choice is learned by: what it was worth or, where it was shown, how likely it is. */
ESPER_RULE double loss_gain(const struct loss_row *row, real logp, double log_ratio, double clip)
{
    return row->shown ? (double)logp : loss_surrogate(exp(log_ratio), (double)row->advantage, clip);
}

ESPER_RULE double loss_gain_slope(const struct loss_row *row, real logp, real ref, double clip)
{
    return row->shown ? 1.0 : loss_surrogate_slope(logp, ref, (double)row->advantage, clip);
}

/* How far the policy has moved from its own choices; what it is shown it may follow as far as it can. */
ESPER_RULE double loss_moved(const struct loss_row *row, double log_ratio)
{
    return row->shown ? 0.0 : loss_divergence(log_ratio);
}

/* ---- sums over rows --------------------------------------------------------------------------------------------- */

struct loss_totals {
    double surrogate[HEAD_COUNT], entropy[HEAD_COUNT], value;
    double divergence, choices; /* of whole actions; rows that had a choice */
};

/* One head of a valid row. */
ESPER_RULE void loss_add_head(struct loss_totals *sums, const struct loss_rules *rules, const struct loss_row *row,
                              int head, const struct loss_view *view, const real ref[HEAD_COUNT])
{
    if (!loss_counts_head(row, head))
        return;
    double log_ratio = loss_log_ratio(view->logp[head], ref[head]);
    sums->divergence += loss_moved(row, log_ratio);
    sums->surrogate[head] += loss_gain(row, view->logp[head], log_ratio, rules->clip);
    sums->entropy[head] += (double)view->entropy[head];
}

/* The contribution of a valid row's value. */
ESPER_RULE double loss_value_term(const struct loss_row *row, real value)
{
    double error = (double)value - (double)row->target;
    return loss_value_weight(row) * error * error;
}

ESPER_RULE void loss_add(struct loss_totals *sums, const struct loss_rules *rules, const struct loss_row *row,
                         const struct loss_view *view, const real ref[HEAD_COUNT], real value)
{
    if (!row->valid)
        return;
    sums->value += loss_value_term(row, value);
    sums->choices += row->forced ? 0 : 1;
    for (int head = 0; head < HEAD_COUNT; head++)
        loss_add_head(sums, rules, row, head, view, ref);
}

/* Per action: the sum over the heads that mattered to it, mean of the rows that had a choice (L-05). */
ESPER_RULE double loss_kl(const struct loss_totals *sums)
{
    return sums->divergence / fmax(1.0, sums->choices);
}

ESPER_RULE double loss_policy(const struct loss_totals *sums, const struct loss_counts *counts)
{
    double loss = 0;
    for (int head = 0; head < HEAD_COUNT; head++)
        loss -= sums->surrogate[head] / counts->decisions[head];
    return loss;
}

ESPER_RULE double loss_value(const struct loss_totals *sums, const struct loss_counts *counts)
{
    return 0.5 * sums->value / counts->values;
}

/* sum_k weight_k * mean entropy of head k. */
ESPER_RULE double loss_entropy(const struct loss_totals *sums, const struct loss_counts *counts,
                               const double weight[HEAD_COUNT])
{
    double sum = 0;
    for (int head = 0; head < HEAD_COUNT; head++)
        sum += weight[head] * sums->entropy[head] / counts->decisions[head];
    return sum;
}

ESPER_RULE double loss_total(const struct loss_totals *sums, const struct loss_counts *counts,
                             const struct loss_rules *rules)
{
    return loss_policy(sums, counts) + rules->value_coef * loss_value(sums, counts) -
           loss_entropy(sums, counts, rules->entropy_coef);
}

/* ---- derivatives ------------------------------------------------------------------------------------------------ */

/* Of the total loss with respect to one row's value; zero, whatever the numbers, for a row that is not valid. */
ESPER_RULE real loss_backward_value(const struct loss_rules *rules, const struct loss_counts *counts,
                                    const struct loss_row *row, real value)
{
    if (!row->valid)
        return 0;
    return (real)(rules->value_coef * loss_value_weight(row) / counts->values * ((double)value - (double)row->target));
}

/* With respect to the logits of one head, written to their columns of the row's dlogits; zeros likewise. */
ESPER_RULE void loss_backward_head(const struct loss_rules *rules, const struct loss_counts *counts,
                                   const struct loss_row *row, int head, const real *logits, const real ref[HEAD_COUNT],
                                   real *dlogits)
{
    struct distribution d;
    const int size = head_size(rules->slots, head), choice = row->choice[head];
    real *out = dlogits + head_offset(rules->slots, head);
    if (!loss_counts_head(row, head)) {
        for (int i = 0; i < size; i++)
            out[i] = 0;
        return;
    }
    loss_distribution(rules, row, head, logits, &d);
    const double slope = loss_gain_slope(row, distribution_log(&d, choice), ref[head], rules->clip);
    distribution_backward(&d, size, choice, (real)(-slope / counts->decisions[head]),
                          (real)(-rules->entropy_coef[head] / counts->decisions[head]), out);
}

ESPER_RULE void loss_backward(const struct loss_rules *rules, const struct loss_counts *counts,
                              const struct loss_row *row, const real *logits, real value, const real ref[HEAD_COUNT],
                              real *dlogits, real *dvalue)
{
    *dvalue = loss_backward_value(rules, counts, row, value);
    for (int head = 0; head < HEAD_COUNT; head++)
        loss_backward_head(rules, counts, row, head, logits, ref, dlogits);
}

#endif
