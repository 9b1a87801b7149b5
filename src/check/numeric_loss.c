/*
 * The gradient of the whole PPO loss, through network, distributions and clip, against central differences on every
 * parameter; then of each term alone (L-19). For the double variant.
 */
#include <math.h>
#include <string.h>

#include "check/numeric_cases.h"
#include "check/numeric_policy.h"
#include "learn/loss.h"

#define FD_STEP  1e-6
#define FD_LIMIT 1e-6
#define KINK     1e-4 /* a ratio this close to a clip bound, or slopes this far apart for two step sizes, mark one */

enum { OBS = 5, SLOTS = 2, FEATURE = 8, HIDDEN = 8, ENVS = 3, STEPS = 4, ROWS = ENVS * STEPS };

struct loss_rig {
    struct policy_rig net;
    struct loss_rules rules;
    struct loss_counts counts;
    struct loss_row row[ROWS];
    real ref[ROWS][HEAD_COUNT];
    uint8_t reset[ROWS];
};

/* Six ops in turn, two of them credited as WAIT, two rows forced, one shown, one hole with a reset after it. */
static void rows_fill(struct loss_rig *rig, uint32_t key)
{
    uint64_t stored = 0;
    for (int head = 0; head < HEAD_COUNT; head++)
        stored |= mask_all(SLOTS, head);
    for (int i = 0; i < ROWS; i++) {
        struct loss_row *row = &rig->row[i];
        const int op = (i * 5 + 1) % OP_COUNT;
        *row = (struct loss_row){
            .mask = mask_effective(stored, SLOTS, op), .valid = i != 4, .forced = i == 6 || i == 9, .shown = i == 10};
        row->relevant = head_relevance(i == 3 ? OP_WAIT : op);
        for (int head = 0; head < HEAD_COUNT; head++) {
            const int drawn = (int)(random_word_of(key, (uint32_t)(i * HEAD_COUNT + head)) % 64) %
                              head_size(SLOTS, head);
            row->choice[head] = (uint8_t)(head_relevance(op) >> head & 1 ? drawn : head_canonical(head));
        }
        row->choice[HEAD_OP] = (uint8_t)op;
        real numbers[2];
        fill_random(numbers, 2, key + 1 + (uint32_t)i, 2);
        row->advantage = numbers[0];
        row->target = numbers[1];
        rig->reset[i] = i == 7; /* env 1, the step after its hole at row 4 */
        if (!row->valid)
            memset(rig->net.obs + (size_t)i * OBS, 0, OBS * sizeof(real));
    }
    rig->net.sequence.reset = rig->reset;
    rig->net.sequence.h0 = rig->net.sequence.c0 = NULL;
    rig->counts = loss_count(rig->row, ROWS);
}

static double rig_loss(struct loss_rig *rig)
{
    struct loss_totals sums = {.value = 0};
    policy_rig_unroll(&rig->net);
    for (int i = 0; i < ROWS; i++) {
        struct loss_view view;
        loss_look(&rig->rules, &rig->row[i], rig->net.logits + (size_t)i * rig->net.shape.logits, &view);
        loss_add(&sums, &rig->rules, &rig->row[i], &view, rig->ref[i], rig->net.value[i]);
    }
    return loss_total(&sums, &rig->counts, &rig->rules);
}

/* The reference from these weights, then other weights: ratios on both sides of both bounds. */
static void reference_take(struct loss_rig *rig, uint32_t key)
{
    policy_rig_unroll(&rig->net);
    for (int i = 0; i < ROWS; i++) {
        struct loss_view view;
        loss_look(&rig->rules, &rig->row[i], rig->net.logits + (size_t)i * rig->net.shape.logits, &view);
        memcpy(rig->ref[i], view.logp, sizeof view.logp);
    }
    for (int t = 0; t < rig->net.shape.count; t++) {
        const struct policy_tensor *tensor = &rig->net.shape.tensor[t];
        for (int i = 0; i < tensor->rows * tensor->columns; i++) {
            real push;
            fill_random(&push, 1, key + (uint32_t)(t * 4096 + i), 0.12);
            rig->net.w[tensor->offset + (size_t)i] += push;
        }
    }
}

/* How many decisions lie inside, above and below the clip; false when one lies on a bound. */
static bool ratios_straddle(struct loss_rig *rig, int count[3])
{
    bool clear = true;
    policy_rig_unroll(&rig->net);
    for (int i = 0; i < ROWS; i++) {
        struct loss_view view;
        loss_look(&rig->rules, &rig->row[i], rig->net.logits + (size_t)i * rig->net.shape.logits, &view);
        for (int head = 0; head < HEAD_COUNT; head++) {
            const double ratio = exp(loss_log_ratio(view.logp[head], rig->ref[i][head]));
            if (!loss_counts_head(&rig->row[i], head))
                continue;
            count[ratio > 1 + rig->rules.clip ? 1 : ratio < 1 - rig->rules.clip ? 2 : 0]++;
            clear = clear && fabs(fabs(ratio - 1) - rig->rules.clip) > KINK;
        }
    }
    return clear;
}

static double slope_of(struct loss_rig *rig, real *value, double step)
{
    const real kept = *value;
    *value = kept + (real)step;
    const double above = rig_loss(rig);
    *value = kept - (real)step;
    const double below = rig_loss(rig);
    *value = kept;
    return (above - below) / (2 * step);
}

static void gradient_compare(struct loss_rig *rig, struct check_report *report, const char *name, const char *term)
{
    struct policy_rig *net = &rig->net;
    int kinks = 0, probes = 0;
    double worst = 0, largest = 1e-2; /* below which a gradient may be nothing but rounding */
    rig_loss(rig);
    for (int i = 0; i < ROWS; i++)
        loss_backward(&rig->rules, &rig->counts, &rig->row[i], net->logits + (size_t)i * net->shape.logits,
                      net->value[i], rig->ref[i], net->dlogits + (size_t)i * net->shape.logits, &net->dvalue[i]);
    policy_net_backward(net->net, &net->sequence, net->dlogits, net->dvalue, net->grad);
    for (size_t i = 0; i < net->shape.storage; i++)
        if (fabs((double)net->grad[i]) > largest)
            largest = fabs((double)net->grad[i]);
    for (int t = 0; t < net->shape.count; t++) {
        const struct policy_tensor *tensor = &net->shape.tensor[t];
        for (int i = 0; i < tensor->rows * tensor->columns; i++, probes++) {
            real *value = &net->w[tensor->offset + (size_t)i];
            const double slope = slope_of(rig, value, FD_STEP), grad = (double)net->grad[tensor->offset + (size_t)i];
            const double error = fabs(slope - grad) / largest;
            if (error > FD_LIMIT && fabs(slope - slope_of(rig, value, FD_STEP / 8)) > KINK * largest)
                kinks++;
            else if (!(error <= worst))
                worst = error;
        }
    }
    case_error(report, worst, FD_LIMIT, "%s %s, %d parameters", name, term, probes);
    case_flag(report, kinks * 100 <= probes, "more than one probe in a hundred met a kink", "%s %s kinks", name, term);
}

void case_gradient_loss(struct check_report *report, const char *name)
{
    static const struct {
        const char *name;
        double policy, value, entropy;
    } terms[] = {
        {"policy + value + entropy", 1, 0.5, 0.3}, {"policy", 1, 0, 0}, {"value", 0, 1, 0}, {"entropy", 0, 0, 1}};
    struct scrap scrap = {0};
    struct policy_shape shape;
    struct loss_rig rig;
    int count[3] = {0};
    policy_shape_init(&shape, OBS, SLOTS, FEATURE, HIDDEN);
    if (!policy_rig_init(&rig.net, &scrap, &shape, ENVS, STEPS, 1, report, name))
        goto cleanup;
    policy_rig_randomise(&rig.net, 700);
    rows_fill(&rig, 701);
    rig.rules = (struct loss_rules){.slots = SLOTS, .clip = 0.2};
    for (int head = 0; head < HEAD_COUNT; head++)
        rig.rules.floor[head] = 0.02 + 0.01 * (head % 2);
    reference_take(&rig, 800);
    case_flag(report, ratios_straddle(&rig, count) && count[0] > 3 && count[1] > 3 && count[2] > 3,
              "ratios should lie inside, above and below the clip, and none on a bound", "%s ratios", name);
    for (size_t k = 0; k < sizeof terms / sizeof terms[0]; k++) {
        rig.rules.value_coef = terms[k].value;
        for (int head = 0; head < HEAD_COUNT; head++)
            rig.rules.entropy_coef[head] = terms[k].entropy * (1 + 0.1 * head);
        real advantage[ROWS];
        for (int i = 0; i < ROWS; i++) { /* without advantages there is no policy term */
            advantage[i] = rig.row[i].advantage;
            rig.row[i].advantage *= (real)terms[k].policy;
        }
        gradient_compare(&rig, report, name, terms[k].name);
        for (int i = 0; i < ROWS; i++)
            rig.row[i].advantage = advantage[i];
    }
    policy_rig_free(&rig.net);
cleanup:
    scrap_free(&scrap);
}
