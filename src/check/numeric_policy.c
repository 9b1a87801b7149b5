/* Gradients of the whole policy network against central differences (L-19); for the double variant. */
#include "check/numeric_policy.h"

#include <math.h>
#include <string.h>

#include "check/numeric_cases.h"

/* ---- rig -------------------------------------------------------------------------------------------------------- */

bool policy_rig_init(struct policy_rig *rig, struct scrap *scrap, const struct policy_shape *shape, int envs, int steps,
                     int threads, struct check_report *report, const char *name)
{
    struct esper_error error;
    int rows = envs * steps;
    *rig = (struct policy_rig){.shape = *shape, .envs = envs, .steps = steps, .rows = rows};
    void *memory = scrap_take(scrap, policy_net_bytes(shape, envs, steps), 1);
    rig->w = scrap_reals(scrap, shape->storage);
    rig->grad = scrap_reals(scrap, shape->storage);
    rig->obs = scrap_reals(scrap, (size_t)rows * shape->obs);
    rig->h0 = scrap_reals(scrap, (size_t)envs * shape->hidden);
    rig->c0 = scrap_reals(scrap, (size_t)envs * shape->hidden);
    rig->bp = scrap_take(scrap, (size_t)rows * shape->slots, 1);
    rig->logits = scrap_reals(scrap, (size_t)rows * shape->logits);
    rig->dlogits = scrap_reals(scrap, (size_t)rows * shape->logits);
    rig->value = scrap_reals(scrap, (size_t)rows);
    rig->dvalue = scrap_reals(scrap, (size_t)rows);
    if (!scrap_ready(scrap, report, name))
        return false;
    if (pool_create(threads, &rig->pool, &error) != ESPER_OK) {
        report_flag(report, name, false, error.text);
        return false;
    }
    rig->net = policy_net_init(shape, envs, steps, rig->pool, memory);
    rig->sequence = (struct policy_sequence){
        .steps = steps, .envs = envs, .obs = rig->obs, .bp = rig->bp, .h0 = rig->h0, .c0 = rig->c0};
    return true;
}

void policy_rig_free(struct policy_rig *rig)
{
    pool_free(rig->pool);
}

void policy_rig_randomise(struct policy_rig *rig, uint32_t key)
{
    const struct policy_shape *shape = &rig->shape;
    for (int t = 0; t < shape->count; t++) {
        const struct policy_tensor *tensor = &shape->tensor[t];
        real *w = rig->w + tensor->offset;
        size_t size = (size_t)tensor->rows * tensor->columns;
        fill_random(w, size, key + (uint32_t)t, tensor->columns > 1 ? 2 / sqrt((double)tensor->columns) : 0.4);
        for (size_t i = 0; strstr(tensor->name, "gamma") && i < size; i++)
            w[i] += 1;
    }
    fill_random(rig->obs, (size_t)rig->rows * shape->obs, key + 100, 1.5);
    fill_random(rig->h0, (size_t)rig->envs * shape->hidden, key + 101, 0.8);
    fill_random(rig->c0, (size_t)rig->envs * shape->hidden, key + 102, 1.2);
    for (int i = 0; i < rig->rows * shape->slots; i++)
        rig->bp[i] = (int8_t)(random_word_of(key + 103, (uint32_t)i) % POLICY_EMBED_ROWS) - 1;
    fill_random(rig->dlogits, (size_t)rig->rows * shape->logits, key + 104, 1);
    fill_random(rig->dvalue, (size_t)rig->rows, key + 105, 1);
}

void policy_rig_unroll(struct policy_rig *rig)
{
    policy_net_pack(rig->net, rig->w);
    policy_net_unroll(rig->net, &rig->sequence, rig->logits, rig->value);
}

/* ---- central differences ---------------------------------------------------------------------------------------- */

#define FD_STEP  1e-6
#define FD_LIMIT 1e-6 /* L-19 */

enum { FD_SAMPLES = 16 }; /* elements tried per tensor */

static double rig_loss(struct policy_rig *rig)
{
    double sum = 0;
    policy_rig_unroll(rig);
    for (int i = 0; i < rig->rows * rig->shape.logits; i++)
        sum += (double)rig->logits[i] * (double)rig->dlogits[i];
    for (int i = 0; i < rig->rows; i++)
        sum += (double)rig->value[i] * (double)rig->dvalue[i];
    return sum;
}

static double slope_of(struct policy_rig *rig, real *value, double step)
{
    real kept = *value;
    *value = kept + (real)step;
    double above = rig_loss(rig);
    *value = kept - (real)step;
    double below = rig_loss(rig);
    *value = kept;
    return (above - below) / (2 * step);
}

/* The worst error relative to the tensor's largest gradient. Where two step sizes disagree there is a kink. */
static double tensor_error(struct policy_rig *rig, const struct policy_tensor *tensor, uint32_t key, int *kinks)
{
    size_t count = (size_t)tensor->rows * tensor->columns;
    const real *grad = rig->grad + tensor->offset;
    double worst = 0, largest = 1e-2; /* below which a gradient may be nothing but rounding */
    for (size_t i = 0; i < count; i++)
        if (fabs((double)grad[i]) > largest)
            largest = fabs((double)grad[i]);
    for (size_t k = 0; k < count && k < FD_SAMPLES; k++) {
        size_t i = count <= FD_SAMPLES ? k : random_word_of(key, (uint32_t)k) % count;
        double slope = slope_of(rig, &rig->w[tensor->offset + i], FD_STEP);
        double error = fabs(slope - (double)grad[i]) / largest;
        if (error > FD_LIMIT && fabs(slope - slope_of(rig, &rig->w[tensor->offset + i], FD_STEP / 8)) > 1e-4 * largest)
            ++*kinks;
        else if (!(error <= worst))
            worst = error;
    }
    return worst;
}

/* obs, slots, feature, hidden, envs, steps: with and without projection, odd sizes, the smallest width. */
static const int shapes[][6] = {{5, 2, 8, 8, 3, 4}, {4, 1, 11, 16, 2, 5}, {7, 3, 24, 24, 5, 3}, {3, 16, 9, 8, 1, 6}};

static void gradient_check(struct check_report *report, const char *name, const int shape_of[6])
{
    struct scrap scrap = {0};
    struct policy_shape shape;
    struct policy_rig rig;
    uint8_t reset[64] = {0};
    int kinks = 0, samples = 0;
    policy_shape_init(&shape, shape_of[0], shape_of[1], shape_of[2], shape_of[3]);
    if (!policy_rig_init(&rig, &scrap, &shape, shape_of[4], shape_of[5], 1, report, name))
        goto cleanup;
    policy_rig_randomise(&rig, 300);
    for (int i = 0; i < rig.rows; i++) /* the last step of one env, and others here and there */
        reset[i] = i == rig.rows - 1 || random_word_of(301, (uint32_t)i) % 5 == 0;
    rig.sequence.reset = reset;
    policy_rig_unroll(&rig);
    policy_net_backward(rig.net, &rig.sequence, rig.dlogits, rig.dvalue, rig.grad);
    for (int t = 0; t < shape.count; t++) {
        const struct policy_tensor *tensor = &shape.tensor[t];
        double error = tensor_error(&rig, tensor, 302 + (uint32_t)t, &kinks);
        samples += tensor->rows * tensor->columns < FD_SAMPLES ? tensor->rows * tensor->columns : FD_SAMPLES;
        case_error(report, error, FD_LIMIT, "%s obs %d, slots %d, feature %d, hidden %d, %s", name, shape.obs,
                   shape.slots, shape.feature, shape.hidden, tensor->name);
    }
    case_flag(report, kinks * 100 <= samples, "more than one probe in a hundred met a kink", "%s kinks, hidden %d",
              name, shape.hidden);
    policy_rig_free(&rig);
cleanup:
    scrap_free(&scrap);
}

void case_gradient_policy(struct check_report *report, const char *name)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        gradient_check(report, name, shapes[i]);
}
