/*
 * Whole PPO updates recorded from the original: the rules composed as it composed them, through the kernels of each
 * float variant, or all of it on a device.
 *
 * Left out, since what they encode was ruled out: everything that the original's renormalising probability floors or
 * entropy floors touch (most of a case that has them), Q and the contribution predictor with their losses, parameters
 * and part of the gradient norm, and the value scale without a shift beyond the numbers that it shares with ours.
 */
#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "check/gae_vectors.h"
#include "check/learn_vectors.h"
#include "check/update_rig.h"
#include "learn/normalise.h"
#include "variant/variant.h"

#define ORIGINAL_WEIGHT 0.01
#define ORIGINAL_WARMUP 32.0

enum { MAX_SIDE = 4096 };

/* ---- one recorded update ---------------------------------------------------------------------------------------- */

struct update_case {
    const char *name;
    const cJSON *settings;
    struct loss_rules rules;
    double gamma, lambda, lr, epsilon, max_grad_norm, q_coef, weight[HEAD_COUNT];
    struct moments value_before;
    int steps;  /* of the optimiser */
    bool whole; /* no floors: everything but Q and the predictor is also ours */
};

static double setting(struct learn_source *source, const struct update_case *it, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(it->settings, key);
    if (cJSON_IsNumber(item))
        return item->valuedouble;
    learn_fail(source, it->name, learn_name("metadata: %s should be a number", key).text);
    return NAN;
}

static double setting_of_head(const struct update_case *it, const char *key, int head)
{
    const cJSON *item =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(it->settings, key), head_name(head));
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static bool update_case_read(struct learn_source *source, struct update_case *it, int slots)
{
    const cJSON *before = cJSON_GetObjectItemCaseSensitive(it->settings, "value_norm_before");
    double state[3] = {0, 0, 0};
    for (int k = 0; k < 3; k++) {
        const cJSON *item = cJSON_GetArrayItem(before, k);
        if (cJSON_IsNumber(item))
            state[k] = item->valuedouble;
        else
            learn_fail(source, it->name, "metadata: value_norm_before should be mean, variance, count");
    }
    it->value_before = (struct moments){state[2], state[0], state[1] * state[2]};
    it->gamma = setting(source, it, "gamma");
    it->lambda = setting(source, it, "lambda");
    it->lr = setting(source, it, "lr");
    it->epsilon = setting(source, it, "adam_eps");
    it->max_grad_norm = setting(source, it, "max_grad_norm");
    it->q_coef = setting(source, it, "q_coef_used");
    it->steps = (int)setting(source, it, "optimiser_steps");
    it->rules = (struct loss_rules){.slots = slots, .clip = setting(source, it, "clip")};
    it->rules.value_coef = setting(source, it, "value_coef_used");
    const double entropy_coef = setting(source, it, "entropy_coef_used");
    it->whole = true;
    for (int head = 0; head < HEAD_COUNT; head++) {
        it->weight[head] = setting_of_head(it, "entropy_weight", head);
        it->rules.entropy_coef[head] = entropy_coef * it->weight[head];
        it->whole = it->whole && setting_of_head(it, "prob_floor", head) == 0 &&
                    setting_of_head(it, "entropy_floor_coef", head) == 0;
    }
    return source->complete;
}

/* Statistics, scale and targets: no shift, the update weight of the original. */
static void check_value_units(struct learn_source *source, const struct update_case *it, struct update_rig *rig,
                              const struct gae_case *gae)
{
    struct moments batch = {0, 0, 0}, all = it->value_before;
    for (size_t i = 0; i < rig->envs * rig->steps; i++)
        if (gae->flags[i])
            moments_add(&batch, (double)gae->returns[i]);
    if (all.count >= ORIGINAL_WARMUP) {
        double variance = moments_variance(all);
        normalise_merge(ORIGINAL_WEIGHT, batch.mean, moments_variance(batch), &all.mean, &variance);
        all.count += batch.count;
        all.m2 = variance * all.count;
    } else {
        all = moments_merge(all, batch);
    }
    const double scale = all.count >= ORIGINAL_WARMUP ? value_scale_of(moments_variance(all)) : 1;
    const double got[] = {all.mean, moments_variance(all), all.count, scale};
    const struct learn_name after = learn_name("%s.value_norm_after", it->name);
    const struct learn_name target = learn_name("%s.target", it->name);
    const float *want = learn_floats(source, after.text, 4), *targets = learn_floats(source, target.text, rig->valid);
    double *ours = learn_memory(source, rig->valid, sizeof *ours);
    for (size_t i = 0; ours && i < rig->valid; i++) {
        const size_t cell = rig->at[i] % rig->envs * rig->steps + rig->at[i] / rig->envs;
        struct loss_row *row = &rig->row[rig->at[i]];
        ours[i] = (double)gae->returns[cell] / scale;
        row->target = (float)ours[i];
        row->advantage = gae->normalised[cell];
    }
    if (want && targets && ours) {
        learn_compare(source, after.text, got, want, 4, 1e-5, 1e-5);
        learn_compare(source, target.text, ours, targets, rig->valid, 0, 1e-5);
    }
    memory_free(ours);
}

/* ---- an epoch of it --------------------------------------------------------------------------------------------- */

struct epoch {
    const char *stem; /* "klstop.ep0" */
    struct learn_source *source;
    const struct update_case *it;
    struct update_rig *rig;
    double *got; /* [valid] */
    double rtol; /* of ratios */
};

static void epoch_compare_rows(const struct epoch *epoch, const char *part, double rtol, double atol)
{
    const struct learn_name name = learn_name("%s.%s", epoch->stem, part);
    const float *want = learn_floats(epoch->source, name.text, epoch->rig->valid);
    if (want)
        learn_compare(epoch->source, name.text, epoch->got, want, epoch->rig->valid, rtol, atol);
}

static void epoch_compare_numbers(const struct epoch *epoch, const char *part, const double *got, size_t count,
                                  double rtol, double atol)
{
    const struct learn_name name = learn_name("%s.%s", epoch->stem, part);
    const float *want = learn_floats(epoch->source, name.text, count);
    if (want)
        learn_compare(epoch->source, name.text, got, want, count, rtol, atol);
}

static double epoch_log_ratio(const struct update_rig *rig, size_t row, int head)
{
    const size_t at = row * HEAD_COUNT + (size_t)head;
    return loss_log_ratio(rig->logp[at], rig->ref[at]);
}

static void check_ratios(const struct epoch *epoch)
{
    const struct update_rig *rig = epoch->rig;
    const double clip = epoch->it->rules.clip;
    double clipped[HEAD_COUNT] = {0}, decisions[HEAD_COUNT] = {0};
    for (int head = 0; head < HEAD_COUNT; head++) {
        for (size_t i = 0; i < rig->valid; i++) {
            epoch->got[i] = exp(epoch_log_ratio(rig, rig->at[i], head));
            if (rig->row[rig->at[i]].relevant >> head & 1) {
                clipped[head] += fabs(epoch->got[i] - 1) > clip;
                decisions[head] += 1;
            }
        }
        clipped[head] /= fmax(1, decisions[head]);
        epoch_compare_rows(epoch, learn_name("ratio.%s", head_name(head)).text, epoch->rtol, 0);
    }
    epoch_compare_numbers(epoch, "head_clipfrac", clipped, HEAD_COUNT, 0, 1e-6);
}

/* The original's mean over the decisions of heads, forced rows included; ours is that of whole actions. */
static double divergence_per_decision(const struct update_rig *rig)
{
    double divergence = 0, decisions = 0;
    for (size_t i = 0; i < rig->valid; i++)
        for (int head = 0; head < HEAD_COUNT; head++)
            if (rig->row[rig->at[i]].relevant >> head & 1) {
                divergence += loss_divergence(epoch_log_ratio(rig, rig->at[i], head));
                decisions += 1;
            }
    return divergence / fmax(1, decisions);
}

static void check_joint(const struct epoch *epoch)
{
    const struct update_rig *rig = epoch->rig;
    const double clip = epoch->it->rules.clip;
    double stats[4] = {0, -INFINITY, INFINITY, 0}, above = 0, below = 0;
    struct moments joint = {0, 0, 0};
    for (size_t i = 0; i < rig->valid; i++) {
        epoch->got[i] = loss_joint_ratio(rig->logp + rig->at[i] * HEAD_COUNT, rig->ref + rig->at[i] * HEAD_COUNT);
        moments_add(&joint, epoch->got[i]);
        stats[1] = fmax(stats[1], epoch->got[i]);
        stats[2] = fmin(stats[2], epoch->got[i]);
        above += epoch->got[i] > 1 + clip;
        below += epoch->got[i] < 1 - clip;
    }
    const double n = (double)rig->valid;
    stats[0] = joint.mean;
    stats[3] = rig->valid > 1 ? sqrt(moments_sample_variance(joint)) : 0;
    const double kl[] = {divergence_per_decision(rig), (above + below) / n, above / n, below / n};
    epoch_compare_rows(epoch, "joint_ratio", epoch->rtol, 0);
    epoch_compare_numbers(epoch, "ratio_stats", stats, 4, epoch->rtol, 0);
    epoch_compare_numbers(epoch, "kl_clipfrac", kl, 4, 1e-4, 0);
}

/* Losses in the file: policy, value, entropy, entropy floor, q, total. What a floor touches is the entropy. */
static void check_losses(const struct epoch *epoch, const struct loss_totals *sums, const struct loss_counts *counts)
{
    const struct update_case *it = epoch->it;
    const struct learn_name name = learn_name("%s.losses", epoch->stem);
    const float *want = learn_floats(epoch->source, name.text, 6);
    if (!want)
        return;
    const double got[] = {loss_policy(sums, counts), loss_value(sums, counts), -loss_entropy(sums, counts, it->weight)};
    learn_compare(epoch->source, name.text, got, want, it->whole ? 3 : 2, 0, 1e-5);
    if (!it->whole)
        return;
    const double total = loss_total(sums, counts, &it->rules) + it->q_coef * (double)want[4];
    learn_compare(epoch->source, learn_name("%s.losses[5]", epoch->stem).text, &total, want + 5, 1, 0, 1e-5);
}

/* The parts of an update that look at rows. */
static struct update_trial epoch_trial(const struct epoch *epoch, enum update_part part)
{
    const struct update_rig *rig = epoch->rig;
    return (struct update_trial){.part = part,
                                 .envs = (int)rig->envs,
                                 .steps = (int)rig->steps,
                                 .rules = &epoch->it->rules,
                                 .row = rig->row,
                                 .logits = rig->logits,
                                 .values = rig->value};
}

static struct loss_totals epoch_forward(const struct epoch *epoch, int number)
{
    struct update_rig *rig = epoch->rig;
    const struct policy_sequence sequence = {
        .steps = (int)rig->steps, .envs = (int)rig->envs, .obs = rig->obs, .bp = rig->bp};
    struct update_trial look = epoch_trial(epoch, UPDATE_LOOK);
    rig->policy->unroll(rig->net, &sequence, rig->logits, rig->value);
    look.ref = number == 0 ? NULL : rig->ref;
    look.logp = rig->logp;
    epoch->source->kernels->run(&look);
    if (number == 0)
        memcpy(rig->ref, rig->logp, rig->envs * rig->steps * HEAD_COUNT * sizeof *rig->ref);
    for (size_t i = 0; i < rig->valid; i++)
        epoch->got[i] = (double)rig->value[rig->at[i]];
    return look.sums;
}

static void check_views(const struct epoch *epoch)
{
    const struct update_rig *rig = epoch->rig;
    for (int head = 0; head < HEAD_COUNT; head++) {
        for (size_t i = 0; i < rig->valid; i++) {
            struct loss_view view;
            loss_look_head(&epoch->it->rules, &rig->row[rig->at[i]], head,
                           rig->logits + rig->at[i] * (size_t)rig->shape.logits, &view);
            epoch->got[i] = (double)view.entropy[head];
        }
        epoch_compare_rows(epoch, learn_name("ent.%s", head_name(head)).text, 0, 2e-5);
        for (size_t i = 0; i < rig->valid; i++)
            epoch->got[i] = (double)rig->ref[rig->at[i] * HEAD_COUNT + (size_t)head];
        const struct learn_name name = learn_name("%s.ref_logp.%s", epoch->it->name, head_name(head));
        const float *want = learn_floats(epoch->source, name.text, rig->valid);
        if (want)
            learn_compare(epoch->source, name.text, epoch->got, want, rig->valid, 0, 2e-5);
    }
}

/* Tensors by name: all of them, or with floors only the value head's own, which no policy term reaches. */
static void check_tensors(const struct epoch *epoch, const char *stem, const float *from, double rtol, double atol)
{
    const struct policy_shape *shape = &epoch->rig->shape;
    for (int k = 0; k < shape->count; k++) {
        const struct policy_tensor *tensor = &shape->tensor[k];
        const size_t count = (size_t)tensor->rows * (size_t)tensor->columns;
        if (!epoch->it->whole && shape->part[k] != POLICY_PART_VALUE)
            continue;
        const struct learn_name name = learn_name("%s.%s", stem, tensor->name);
        const float *want = learn_floats(epoch->source, name.text, count);
        if (want)
            learn_compare_floats(epoch->source, name.text, from + tensor->offset, want, count, rtol, atol);
    }
}

/* One step. The file's norm goes into the clip: it contains Q. Gradients and weights are stored for the last one. */
static void check_step(const struct epoch *epoch, const struct loss_counts *counts, int number)
{
    struct update_rig *rig = epoch->rig;
    const struct update_case *it = epoch->it;
    const bool last = number == it->steps - 1;
    const struct policy_sequence sequence = {
        .steps = (int)rig->steps, .envs = (int)rig->envs, .obs = rig->obs, .bp = rig->bp};
    struct update_trial derive = epoch_trial(epoch, UPDATE_DERIVE);
    derive.counts = counts;
    derive.ref = rig->ref;
    derive.dlogits = rig->dlogits;
    derive.dvalues = rig->dvalue;
    epoch->source->kernels->run(&derive);
    rig->policy->backward(rig->net, &sequence, rig->dlogits, rig->dvalue, rig->grad);
    if (last)
        check_tensors(epoch, learn_name("%s.grad", epoch->stem).text, rig->grad, 1e-4, 1e-5);
    const float *norm = learn_floats(epoch->source, learn_name("%s.grad_norm", epoch->stem).text, 1);
    if (!norm)
        return;
    const struct adam adam = {it->lr, 0.9, 0.999, it->epsilon, (uint64_t)number + 1};
    const double factor = fmin(1.0, it->max_grad_norm / ((double)*norm + 1e-6));
    rig->policy->adam_step(&adam, rig->shape.storage, (float)factor, rig->grad, rig->w, rig->m, rig->v);
    rig->policy->pack(rig->net, rig->w);
    /* A larger step magnifies rounding; the file's own figures are 2e-6 at a rate of 3e-4 and 2e-5 above. */
    if (last)
        check_tensors(epoch, learn_name("%s.after", it->name).text, rig->w, 0, it->lr <= 3e-4 ? 2e-6 : 2e-5);
}

/* Where floors shaped the steps only the first epoch is also ours, up to its gradient if it was the only one. */
static void check_epochs(struct learn_source *source, const struct update_case *it, struct update_rig *rig)
{
    const struct loss_counts counts = loss_count(rig->row, (int)(rig->envs * rig->steps));
    struct epoch epoch = {NULL, source, it, rig, learn_memory(source, rig->valid, sizeof(double)), 2e-5};
    for (int number = 0; epoch.got && (number == 0 || it->whole) && number <= it->steps; number++) {
        const struct learn_name stem = learn_name("%s.ep%d", it->name, number);
        epoch.stem = stem.text;
        if (number == it->steps && !learn_count(source, learn_name("%s.joint_ratio", stem.text).text))
            break; /* there was no further pass that saw the divergence and stopped */
        const struct loss_totals sums = epoch_forward(&epoch, number);
        if (number < it->steps) {
            epoch_compare_rows(&epoch, "v", number ? 1e-3 : 0, 2e-5);
            check_losses(&epoch, &sums, &counts);
        }
        check_ratios(&epoch);
        check_joint(&epoch);
        if (it->whole && number == 0)
            check_views(&epoch);
        if (number < it->steps && (it->whole || it->steps == 1))
            check_step(&epoch, &counts, number);
        epoch.rtol = 1e-3; /* steps magnify rounding */
    }
    memory_free(epoch.got);
}

static void check_update(struct learn_source *source, struct update_rig *rig, const uint8_t *flags,
                         const cJSON *settings)
{
    struct update_case it = {.name = settings->string, .settings = settings};
    struct gae_case gae;
    if (!update_case_read(source, &it, rig->shape.slots) || !update_rig_weights(source, rig))
        return;
    if (gae_case_make(source, &gae, rig->envs, rig->steps)) {
        const struct moments before = it.value_before;
        const double scale = before.count >= ORIGINAL_WARMUP ? value_scale_of(moments_variance(before)) : 1;
        const struct gae_rates rates = {it.gamma, it.lambda, 0, scale};
        memcpy(gae.flags, flags, rig->envs * rig->steps);
        gae_case_run(source, &gae, &rates, rig->rewards, rig->values, rig->bootstraps);
        gae_case_compare(source, &gae, learn_name("%s.", it.name).text);
        check_value_units(source, &it, rig, &gae);
        check_epochs(source, &it, rig);
    }
    gae_case_free(&gae);
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

/* Metadata "net" gives the sizes; false, with a failure, when they are missing or implausibly large. */
static bool net_size(struct learn_source *source, struct policy_shape *shape)
{
    static const char *const keys[] = {"slots", "obs_dim", "feature_dim", "hidden"};
    cJSON *net = learn_meta(source, "net");
    int size[4] = {0};
    bool good = net;
    for (int k = 0; good && k < 4; k++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(net, keys[k]);
        good = cJSON_IsNumber(item) && item->valueint > 0 && item->valueint <= MAX_SIDE;
        size[k] = good ? item->valueint : 0;
    }
    good = good && size[0] <= HEAD_MAX_SLOTS && size[3] % 8 == 0;
    cJSON_Delete(net);
    if (good)
        policy_shape_init(shape, size[1], size[0], size[2], size[3]);
    else
        learn_fail(source, "net", "metadata should give slots, obs_dim, feature_dim and hidden");
    return good;
}

static void check_updates(struct learn_source *source, const cJSON *cases)
{
    struct update_rig rig = {0};
    struct gae_case flags;
    if (!net_size(source, &rig.shape) || !gae_case_size(source, "reward", &rig.envs, &rig.steps))
        return;
    const size_t rows = rig.envs * rig.steps;
    rig.rewards = learn_floats(source, "reward", rows);
    rig.values = learn_floats(source, "value", rows);
    rig.bootstraps = learn_floats(source, "bootstrap", rows);
    uint64_t *mask = learn_memory(source, rows, sizeof *mask);
    if (gae_case_make(source, &flags, rig.envs, rig.steps) && gae_case_flags(source, &flags, "") && mask &&
        update_rig_make(source, &rig) && update_rig_rollout(source, &rig, flags.flags, mask) && source->complete) {
        const cJSON *settings;
        cJSON_ArrayForEach(settings, cases)
        {
            check_update(source, &rig, flags.flags, settings);
        }
    }
    memory_free(mask);
    gae_case_free(&flags);
    update_rig_free(&rig);
}

static size_t row_logits(const struct update_trial *trial)
{
    return (size_t)head_offset(trial->rules->slots, HEAD_COUNT);
}

/* The rules as they are. */
static void run_rules(struct update_trial *trial)
{
    const int rows = trial->envs * trial->steps;
    for (int env = 0; trial->part == UPDATE_ADVANTAGES && env < trial->envs; env++) {
        const struct gae_rows *all = &trial->rows;
        const struct gae_rows own = {all->flags + env,     all->reward + env,  all->value + env,   all->bootstrap + env,
                                     all->advantage + env, all->returns + env, all->td_error + env};
        gae_estimate(&trial->rates, &own, trial->steps, trial->envs);
    }
    for (int i = 0; trial->part == UPDATE_LOOK && i < rows; i++) {
        struct loss_view view;
        float *logp = trial->logp + (size_t)i * HEAD_COUNT;
        if (!trial->row[i].valid)
            continue;
        loss_look(trial->rules, &trial->row[i], trial->logits + (size_t)i * row_logits(trial), &view);
        memcpy(logp, view.logp, sizeof view.logp);
        loss_add(&trial->sums, trial->rules, &trial->row[i], &view,
                 trial->ref ? trial->ref + (size_t)i * HEAD_COUNT : logp, trial->values[i]);
    }
    for (int i = 0; trial->part == UPDATE_DERIVE && i < rows; i++)
        loss_backward(trial->rules, trial->counts, &trial->row[i], trial->logits + (size_t)i * row_logits(trial),
                      trial->values[i], trial->ref + (size_t)i * HEAD_COUNT,
                      trial->dlogits + (size_t)i * row_logits(trial), &trial->dvalues[i]);
}

static struct learn_source source_of(const struct update_kernels *kernels, const struct st_file *file,
                                     struct check_report *report)
{
    return (struct learn_source){.file = file,
                                 .report = report,
                                 .kind = "gae_and_ppo",
                                 .variant = kernels->name,
                                 .kernels = kernels,
                                 .complete = true};
}

static void check_advantages(const struct update_kernels *kernels, const struct st_file *file,
                             struct check_report *report)
{
    struct learn_source source = source_of(kernels, file, report);
    for (int k = 0; learn_count(&source, learn_name("gae%d.reward", k).text); k++)
        check_gae(&source, k);
}

static void check_all_updates(const struct update_kernels *kernels, const struct st_file *file,
                              struct check_report *report)
{
    struct learn_source source = source_of(kernels, file, report);
    cJSON *cases = learn_meta(&source, "cases");
    if (cases)
        check_updates(&source, cases);
    cJSON_Delete(cases);
}

void check_gae_and_ppo_on(const struct update_kernels *kernels, const struct st_file *file, struct check_report *report)
{
    check_advantages(kernels, file, report);
    check_all_updates(kernels, file, report);
}

void check_gae_and_ppo_vectors(const struct st_file *file, struct check_report *report)
{
    const struct variant *variant;
    const struct update_kernels rules = {NULL, NULL, run_rules};
    check_advantages(&rules, file, report);
    for (int i = 0; (variant = variant_at(i)); i++) {
        const struct update_kernels kernels = {variant->name, &variant->policy, run_rules};
        check_all_updates(&kernels, file, report);
    }
}
