/*
 * Whole PPO updates recorded from the original: the rules composed as it composed them, through the kernels of each
 * float variant.
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
#include "learn/loss.h"
#include "learn/normalise.h"
#include "policy/network.h"
#include "variant/variant.h"

#define ORIGINAL_WEIGHT 0.01
#define ORIGINAL_WARMUP 32.0

enum { MAX_SIDE = 4096 };

/* ---- a rollout and its network ---------------------------------------------------------------------------------- */

struct rig {
    size_t envs, steps, valid; /* arrays of the network are [step][env]; of the file [env][step], or the valid rows */
    struct policy_shape shape;
    struct pool *pool;
    const struct policy_kernels *kernels;
    struct policy_net *net;
    void *memory;
    float *w, *grad, *m, *v;
    float *obs, *logits, *value, *dlogits, *dvalue, *ref;
    int8_t *bp;
    struct loss_row *row;
    struct loss_view *view;
    size_t *at; /* [valid] row of the network that the file's i-th valid row is */
    const float *rewards, *values, *bootstraps;
};

static void rig_free(struct rig *rig)
{
    void *const all[] = {rig->memory,  rig->w,      rig->grad, rig->m,  rig->v,   rig->obs,  rig->logits, rig->value,
                         rig->dlogits, rig->dvalue, rig->ref,  rig->bp, rig->row, rig->view, rig->at};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        memory_free(all[i]);
    pool_free(rig->pool);
}

static bool rig_make(struct learn_source *source, struct rig *rig, const struct policy_kernels *kernels)
{
    const size_t rows = rig->envs * rig->steps, storage = rig->shape.storage;
    struct esper_error error;
    rig->kernels = kernels;
    if (pool_create(1, &rig->pool, &error) != ESPER_OK) {
        learn_fail(source, "pool", error.text);
        return false;
    }
#define RIG_TAKE(name, count)                                                                                          \
    if (!(rig->name = learn_memory(source, count, sizeof *rig->name)))                                                 \
        return false;
    RIG_TAKE(w, storage)
    RIG_TAKE(grad, storage)
    RIG_TAKE(m, storage)
    RIG_TAKE(v, storage)
    RIG_TAKE(obs, rows * (size_t)rig->shape.obs)
    RIG_TAKE(bp, rows * (size_t)rig->shape.slots)
    RIG_TAKE(logits, rows * (size_t)rig->shape.logits)
    RIG_TAKE(dlogits, rows * (size_t)rig->shape.logits)
    RIG_TAKE(value, rows)
    RIG_TAKE(dvalue, rows)
    RIG_TAKE(ref, rows * HEAD_COUNT)
    RIG_TAKE(row, rows)
    RIG_TAKE(view, rows)
    RIG_TAKE(at, rows)
#undef RIG_TAKE
    rig->memory = learn_memory(source, kernels->net_bytes(&rig->shape, (int)rig->envs, (int)rig->steps), 1);
    if (!rig->memory)
        return false;
    rig->net = kernels->net_init(&rig->shape, (int)rig->envs, (int)rig->steps, rig->pool, rig->memory);
    return true;
}

static bool rig_weights(struct learn_source *source, struct rig *rig)
{
    bool complete = true;
    for (int k = 0; k < rig->shape.count; k++) {
        const struct policy_tensor *tensor = &rig->shape.tensor[k];
        const size_t count = (size_t)tensor->rows * (size_t)tensor->columns;
        const float *from = learn_floats(source, learn_name("param.%s", tensor->name).text, count);
        if (from)
            memcpy(rig->w + tensor->offset, from, count * sizeof *from);
        complete = complete && from;
    }
    memset(rig->m, 0, rig->shape.storage * sizeof *rig->m);
    memset(rig->v, 0, rig->shape.storage * sizeof *rig->v);
    rig->kernels->pack(rig->net, rig->w);
    return complete;
}

/* A number of the file at the row's place, refused when it is not below `limit`. */
static bool row_index(struct learn_source *source, const char *name, const int32_t *from, size_t i, int limit,
                      uint8_t *out)
{
    if (from[i] < 0 || from[i] >= limit) {
        learn_fail(source, name, "holds a number out of range");
        return false;
    }
    *out = (uint8_t)from[i];
    return true;
}

static bool rig_masks(struct learn_source *source, const struct rig *rig, uint64_t *mask)
{
    const size_t rows = rig->envs * rig->steps;
    for (int head = 0; head < HEAD_COUNT; head++) {
        const size_t size = (size_t)head_size(rig->shape.slots, head);
        const uint8_t *from = learn_bytes(source, learn_name("mask.%s", head_name(head)).text, rows * size);
        for (size_t i = 0; from && i < rows * size; i++)
            if (from[i])
                mask[i / size] |= (uint64_t)1 << (head_offset(rig->shape.slots, head) + (int)(i % size));
    }
    return source->complete;
}

static bool rig_choices(struct learn_source *source, struct rig *rig, const uint8_t *flags)
{
    for (int head = 0; head < HEAD_COUNT; head++) {
        const struct learn_name name = learn_name("act.%s", head_name(head));
        const int32_t *from = learn_integers(source, name.text, rig->envs * rig->steps);
        for (size_t i = 0; from && i < rig->envs * rig->steps; i++) {
            struct loss_row *row = &rig->row[i % rig->steps * rig->envs + i / rig->steps];
            if (flags[i] &&
                !row_index(source, name.text, from, i, head_size(rig->shape.slots, head), &row->choice[head]))
                return false;
        }
    }
    return source->complete;
}

/* Rows, masks and inputs of the file, turned from [env][step] to [step][env]. */
static bool rig_rollout(struct learn_source *source, struct rig *rig, const uint8_t *flags, uint64_t *mask)
{
    const size_t rows = rig->envs * rig->steps, obs = (size_t)rig->shape.obs, slots = (size_t)rig->shape.slots;
    const float *from_obs = learn_floats(source, "obs", rows * obs);
    const int32_t *from_bp = learn_integers(source, "bp", rows * slots), *op = learn_integers(source, "eff_op", rows);
    const uint8_t *forced = learn_bytes(source, "forced", rows);
    if (!rig_masks(source, rig, mask) || !rig_choices(source, rig, flags) || !from_obs || !from_bp || !op || !forced)
        return false;
    rig->valid = 0;
    for (size_t i = 0; i < rows; i++) {
        const size_t to = i % rig->steps * rig->envs + i / rig->steps;
        struct loss_row *row = &rig->row[to];
        uint8_t credited;
        memset(rig->bp + to * slots, -1, slots);
        if (!flags[i])
            continue;
        if (!row_index(source, "eff_op", op, i, OP_COUNT, &credited))
            return false;
        for (size_t s = 0; s < slots; s++) {
            if (from_bp[i * slots + s] < -1 || from_bp[i * slots + s] >= POLICY_EMBED_ROWS - 1) {
                learn_fail(source, "bp", "holds a number out of range");
                return false;
            }
            rig->bp[to * slots + s] = (int8_t)from_bp[i * slots + s];
        }
        memcpy(rig->obs + to * obs, from_obs + i * obs, obs * sizeof *from_obs);
        row->mask = mask_effective(mask[i], rig->shape.slots, row->choice[HEAD_OP]);
        row->relevant = head_relevance(credited);
        row->valid = true;
        row->forced = forced[i];
        rig->at[rig->valid++] = to;
    }
    return true;
}

/* ---- one recorded update ---------------------------------------------------------------------------------------- */

struct update_case {
    const char *name;
    const cJSON *settings;
    struct loss_rules rules;
    double gamma, lambda, lr, epsilon, max_grad_norm, q_coef, weight[HEAD_COUNT];
    struct moments value_before;
    int steps;  /* of the optimiser */
    bool whole; /* no floors: everything but Q and the predictor is ours too */
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

/* Statistics, scale and targets: no shift, the update weight of the original (DECISIONS, vectors). */
static void check_value_units(struct learn_source *source, const struct update_case *it, struct rig *rig,
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
    struct rig *rig;
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

static double epoch_log_ratio(const struct rig *rig, size_t row, int head)
{
    return loss_log_ratio(rig->view[row].logp[head], rig->ref[row * HEAD_COUNT + (size_t)head]);
}

static void check_ratios(const struct epoch *epoch)
{
    const struct rig *rig = epoch->rig;
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

static void check_joint(const struct epoch *epoch, const struct loss_totals *sums)
{
    const struct rig *rig = epoch->rig;
    const double clip = epoch->it->rules.clip;
    double stats[4] = {0, -INFINITY, INFINITY, 0}, above = 0, below = 0;
    struct moments joint = {0, 0, 0};
    for (size_t i = 0; i < rig->valid; i++) {
        epoch->got[i] = loss_joint_ratio(rig->view[rig->at[i]].logp, rig->ref + rig->at[i] * HEAD_COUNT);
        moments_add(&joint, epoch->got[i]);
        stats[1] = fmax(stats[1], epoch->got[i]);
        stats[2] = fmin(stats[2], epoch->got[i]);
        above += epoch->got[i] > 1 + clip;
        below += epoch->got[i] < 1 - clip;
    }
    const double n = (double)rig->valid;
    stats[0] = joint.mean;
    stats[3] = rig->valid > 1 ? sqrt(moments_sample_variance(joint)) : 0;
    const double kl[] = {loss_kl(sums), (above + below) / n, above / n, below / n};
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

static struct loss_totals epoch_forward(const struct epoch *epoch, int number)
{
    struct rig *rig = epoch->rig;
    const struct policy_sequence sequence = {
        .steps = (int)rig->steps, .envs = (int)rig->envs, .obs = rig->obs, .bp = rig->bp};
    struct loss_totals sums = {0};
    rig->kernels->unroll(rig->net, &sequence, rig->logits, rig->value);
    for (size_t i = 0; i < rig->valid; i++) {
        const size_t row = rig->at[i];
        float *ref = rig->ref + row * HEAD_COUNT;
        loss_look(&epoch->it->rules, &rig->row[row], rig->logits + row * (size_t)rig->shape.logits, &rig->view[row]);
        if (number == 0)
            memcpy(ref, rig->view[row].logp, HEAD_COUNT * sizeof *ref);
        loss_add(&sums, &epoch->it->rules, &rig->row[row], &rig->view[row], ref, rig->value[row]);
        epoch->got[i] = (double)rig->value[row];
    }
    return sums;
}

static void check_views(const struct epoch *epoch)
{
    const struct rig *rig = epoch->rig;
    for (int head = 0; head < HEAD_COUNT; head++) {
        for (size_t i = 0; i < rig->valid; i++)
            epoch->got[i] = (double)rig->view[rig->at[i]].entropy[head];
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

/* One step. The file's norm goes into the clip: it contains Q. Gradients and weights are stored of the last one. */
static void check_step(const struct epoch *epoch, const struct loss_counts *counts, int number)
{
    struct rig *rig = epoch->rig;
    const struct update_case *it = epoch->it;
    const bool last = number == it->steps - 1;
    const struct policy_sequence sequence = {
        .steps = (int)rig->steps, .envs = (int)rig->envs, .obs = rig->obs, .bp = rig->bp};
    const size_t logits = (size_t)rig->shape.logits;
    for (size_t row = 0; row < rig->envs * rig->steps; row++)
        loss_backward(&it->rules, counts, &rig->row[row], rig->logits + row * logits, rig->value[row],
                      rig->ref + row * HEAD_COUNT, rig->dlogits + row * logits, &rig->dvalue[row]);
    rig->kernels->backward(rig->net, &sequence, rig->dlogits, rig->dvalue, rig->grad);
    if (last)
        check_tensors(epoch, learn_name("%s.grad", epoch->stem).text, rig->grad, 1e-4, 1e-5);
    const float *norm = learn_floats(epoch->source, learn_name("%s.grad_norm", epoch->stem).text, 1);
    if (!norm)
        return;
    const struct adam adam = {it->lr, 0.9, 0.999, it->epsilon, (uint64_t)number + 1};
    const double factor = fmin(1.0, it->max_grad_norm / ((double)*norm + 1e-6));
    rig->kernels->adam_step(&adam, rig->shape.storage, (float)factor, rig->grad, rig->w, rig->m, rig->v);
    rig->kernels->pack(rig->net, rig->w);
    /* A larger step magnifies rounding; the file's own figures are 2e-6 at a rate of 3e-4 and 2e-5 above. */
    if (last)
        check_tensors(epoch, learn_name("%s.after", it->name).text, rig->w, 0, it->lr <= 3e-4 ? 2e-6 : 2e-5);
}

/* Where floors shaped the steps only the first epoch is ours too, up to its gradient if it was the only one. */
static void check_epochs(struct learn_source *source, const struct update_case *it, struct rig *rig)
{
    const struct loss_counts counts = loss_count(rig->row, (int)(rig->envs * rig->steps));
    struct epoch epoch = {NULL, source, it, rig, learn_memory(source, rig->valid, sizeof(double)), 2e-5};
    for (int number = 0; epoch.got && (number == 0 || it->whole) && number <= it->steps; number++) {
        const struct learn_name stem = learn_name("%s.ep%d", it->name, number);
        epoch.stem = stem.text;
        if (number == it->steps && !learn_count(source, learn_name("%s.joint_ratio", stem.text).text))
            break; /* no further pass was made that saw the divergence and stopped */
        const struct loss_totals sums = epoch_forward(&epoch, number);
        if (number < it->steps) {
            epoch_compare_rows(&epoch, "v", number ? 1e-3 : 0, 2e-5);
            check_losses(&epoch, &sums, &counts);
        }
        check_ratios(&epoch);
        check_joint(&epoch, &sums);
        if (it->whole && number == 0)
            check_views(&epoch);
        if (number < it->steps && (it->whole || it->steps == 1))
            check_step(&epoch, &counts, number);
        epoch.rtol = 1e-3; /* steps magnify rounding */
    }
    memory_free(epoch.got);
}

static void check_update(struct learn_source *source, struct rig *rig, const uint8_t *flags, const cJSON *settings)
{
    struct update_case it = {.name = settings->string, .settings = settings};
    struct gae_case gae;
    if (!update_case_read(source, &it, rig->shape.slots) || !rig_weights(source, rig))
        return;
    if (gae_case_make(source, &gae, rig->envs, rig->steps)) {
        const struct moments before = it.value_before;
        const double scale = before.count >= ORIGINAL_WARMUP ? value_scale_of(moments_variance(before)) : 1;
        const struct gae_rates rates = {it.gamma, it.lambda, 0, scale};
        memcpy(gae.flags, flags, rig->envs * rig->steps);
        gae_case_run(&gae, &rates, rig->rewards, rig->values, rig->bootstraps);
        gae_case_compare(source, &gae, learn_name("%s.", it.name).text);
        check_value_units(source, &it, rig, &gae);
        check_epochs(source, &it, rig);
    }
    gae_case_free(&gae);
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

/* Metadata "net" gives the sizes; false, with a failure, when they are missing or too large to be meant. */
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

static void check_updates(struct learn_source *source, const struct policy_kernels *kernels, const cJSON *cases)
{
    struct rig rig = {0};
    struct gae_case flags;
    if (!net_size(source, &rig.shape) || !gae_case_size(source, "reward", &rig.envs, &rig.steps))
        return;
    const size_t rows = rig.envs * rig.steps;
    rig.rewards = learn_floats(source, "reward", rows);
    rig.values = learn_floats(source, "value", rows);
    rig.bootstraps = learn_floats(source, "bootstrap", rows);
    uint64_t *mask = learn_memory(source, rows, sizeof *mask);
    if (gae_case_make(source, &flags, rig.envs, rig.steps) && gae_case_flags(source, &flags, "") && mask &&
        rig_make(source, &rig, kernels) && rig_rollout(source, &rig, flags.flags, mask) && source->complete) {
        const cJSON *settings;
        cJSON_ArrayForEach(settings, cases) check_update(source, &rig, flags.flags, settings);
    }
    memory_free(mask);
    gae_case_free(&flags);
    rig_free(&rig);
}

void check_gae_and_ppo_vectors(const struct st_file *file, struct check_report *report)
{
    struct learn_source source = {file, report, "gae_and_ppo", NULL, true};
    cJSON *cases = learn_meta(&source, "cases");
    for (int k = 0; learn_count(&source, learn_name("gae%d.reward", k).text); k++)
        check_gae(&source, k);
    const struct variant *variant;
    for (int i = 0; cases && (variant = variant_at(i)); i++) {
        source.variant = variant->name;
        source.complete = true;
        if (variant->real_bytes == (int)sizeof(float)) /* the double one is checked by finite differences instead */
            check_updates(&source, &variant->policy, cases);
    }
    cJSON_Delete(cases);
}
