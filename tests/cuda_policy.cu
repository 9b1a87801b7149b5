/*
 * The policy and its learner on the device compared with the CPU's: act, unroll, gradients, whole updates. Compiled by
 * nvcc for a real device and, with EMULATE, for the CPU. `cuda_policy time` measures instead.
 */
#include "engine/mirror.cuh"
#include "policy/network.cuh"

extern "C" {
#include "base/memory.h"
#include "base/philox.h"
#include "learn/normalise.h"
#include "learn/work.h"
#include "policy/distribution.h"
#include "variant/variant.h"
}

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

static int passed, failed;

/* `figure` must not exceed `bound`; NAN fails. */
static void check(const char *name, double figure, double bound)
{
    const bool good = figure <= bound;
    good ? passed++ : failed++;
    if (good)
        printf("ok %s (%.3g)\n", name, figure);
    else
        printf("FAIL %s: %.6g > %.6g\n", name, figure, bound);
    fflush(stdout);
}

static void require(bool good, const char *what, const char *why)
{
    if (!good) {
        printf("FAIL %s: %s\n", what, why);
        exit(1);
    }
}

/* ---- a world, its learner, and a copy on the device -------------------------------------------------------------- */

struct rig {
    struct config config;
    struct world *world;
    struct pool *pool;
    struct runtime *rt;
    struct mirror mirror;
    struct policy_setup setup;
    struct policy_device *policy;
};

static void rig_create(struct rig *rig, int envs, int steps, int feature, int hidden, bool exact)
{
    struct esper_error error = {};
    *rig = {};
    config_defaults(&rig->config);
    rig->config.envs = envs;
    rig->config.steps = steps;
    rig->config.policy.feature_dim = feature;
    rig->config.policy.hidden = hidden;
    rig->config.ppo.epochs = 4; /* few enough for roundings not to add up */
    rig->config.ppo.lr = 3e-4;
    rig->config.ppo.target_kl = 0.015;
    memset(rig->config.policy.prior, 0, sizeof rig->config.policy.prior);
    require(world_create(&rig->world, &rig->config, &error) == ESPER_OK, "world", error.text);
    require(pool_create(1, &rig->pool, &error) == ESPER_OK, "pool", error.text);
    require(learner_start(&rig->world->learner, &variant_best()->policy, rig->pool, &error) == ESPER_OK, "learner",
            error.text);
    learner_init(&rig->world->learner, 7);
    rollout_clear(&rig->world->rollout);
    rig->rt = runtime_create(&error);
    require(rig->rt, "runtime", error.text);
    struct device_setup given = {};
    given.tf32 = !exact;
    mirror_create(&rig->mirror, rig->rt, rig->world);
    rig->setup = mirror_policy_setup(&rig->mirror, &given);
    rig->setup.logits = runtime_alloc<float>(rig->rt, (size_t)envs * rig->world->learner.shape.logits);
    rig->setup.values = runtime_alloc<float>(rig->rt, (size_t)envs);
    rig->policy = policy_device_create(rig->rt, &rig->setup);
    require(rig->policy, "policy_device_create", rig->rt->error.text);
}

static void rig_free(struct rig *rig)
{
    policy_device_free(rig->policy);
    runtime_free(rig->rt);
    learner_stop(&rig->world->learner);
    world_free(rig->world);
    pool_free(rig->pool);
}

static void upload(struct rig *rig)
{
    mirror_write(&rig->mirror, rig->world->table.rows, rig->world->table.count);
}

/* Copies the device's arrays to those of the host's world. */
static void download(struct rig *rig)
{
    mirror_read(&rig->mirror, rig->world->table.rows, rig->world->table.count);
    require(!rig->rt->failed, "device", rig->rt->error.text);
}

/* All arrays of a world, to restore them later. */
static std::vector<char> world_keep(const struct rig *rig)
{
    const struct table *table = &rig->world->table;
    std::vector<char> kept;
    for (int i = 0; i < table->count; i++)
        kept.insert(kept.end(), (char *)table->rows[i].data, (char *)table->rows[i].data + table->rows[i].bytes);
    return kept;
}

static void world_return(struct rig *rig, const std::vector<char> &kept)
{
    const struct table *table = &rig->world->table;
    size_t at = 0;
    for (int i = 0; i < table->count; at += table->rows[i].bytes, i++)
        memcpy(table->rows[i].data, kept.data() + at, table->rows[i].bytes);
    learner_load(&rig->world->learner);
}

/* ---- noise ------------------------------------------------------------------------------------------------------- */

static uint32_t word(uint32_t stream, int env, int step, uint32_t element)
{
    return random_word(random_at(99, STREAM_AUGMENT, stream, (uint32_t)env, (uint32_t)step), element);
}

static float unit(uint32_t stream, int env, int step, uint32_t element)
{
    return 2 * random_unit(word(stream, env, step, element)) - 1;
}

/* A policy with strong preferences: nothing near zero. */
static void shake(struct rig *rig)
{
    struct learner *learner = &rig->world->learner;
    for (int t = 0; t < learner->shape.count; t++) {
        const struct policy_tensor *tensor = &learner->shape.tensor[t];
        const float size = tensor->columns > 1 ? 1.0f / sqrtf((float)tensor->columns) : 0.2f;
        for (int i = 0; i < tensor->rows * tensor->columns; i++)
            learner->w[tensor->offset + i] += size * unit(1, t, 0, (uint32_t)i);
    }
    learner_load(learner);
}

/* Defects of a rollout. */
enum trouble { NO_TROUBLE = 0, HOLES = 1, NAN_REWARD = 2, NAN_STATE = 4, ALL_HOLES = 8 };

/* A round as the engine would leave it: the CPU's network acts on noise. */
static void play(struct rig *rig, unsigned trouble)
{
    struct world *world = rig->world;
    struct learner *learner = &world->learner;
    struct rollout *r = &world->rollout;
    const int envs = r->envs, hidden = learner->shape.hidden, logit_count = learner->shape.logits;
    std::vector<float> logits((size_t)envs * logit_count), value((size_t)envs);
    std::vector<double> raw((size_t)envs);
    std::vector<uint8_t> executed((size_t)envs);
    rollout_clear(r);
    memset(world->hidden, 0, sizeof(float) * envs * hidden);
    memset(world->cell, 0, sizeof(float) * envs * hidden);
    for (int step = 0; step < r->steps; step++) {
        const size_t first = (size_t)step * envs;
        for (int env = 0; env < envs; env++) {
            for (int k = 0; k < r->obs; k++)
                r->raw[(first + env) * r->obs + k] = 1.5f * unit(2, env, step, (uint32_t)k) + 0.2f;
            for (int s = 0; s < r->slots; s++)
                r->bp[(first + env) * r->slots + s] = (int8_t)(word(3, env, step, (uint32_t)s) % 14) - 1;
            learner_normalise(learner, observe_normalised, r->raw + (first + env) * r->obs,
                              r->state + (first + env) * r->obs);
        }
        const struct policy_step act = {
            envs,        r->state + first * r->obs, r->bp + first * r->slots, world->hidden, world->cell, logits.data(),
            value.data()};
        learner->kernels->act(learner->net, &act);
        for (int env = 0; env < envs; env++) {
            const size_t row = first + env;
            const bool hole = (trouble & ALL_HOLES) || ((trouble & HOLES) && word(4, env, step, 0) % 6 == 0);
            const bool forced = word(4, env, step, 1) % 5 == 0;
            executed[env] = !hole;
            raw[env] = unit(5, env, step, 0) + 0.3;
            if (hole) { /* rolled back: no row, and the one before it is the last of its segment */
                if (step > 0 && (r->flags[row - envs] & ROW_VALID)) {
                    r->flags[row - envs] |= ROW_DONE;
                    r->reward[row - envs] = -10;
                }
                for (int k = 0; k < r->obs; k++)
                    r->state[row * r->obs + k] = NAN; /* must never be read */
                if (step + 1 < r->steps)
                    r->flags[row + envs] |= ROW_RESET;
                memset(world->hidden + (size_t)env * hidden, 0, sizeof(float) * hidden);
                memset(world->cell + (size_t)env * hidden, 0, sizeof(float) * hidden);
                continue;
            }
            struct masks masks = {};
            const unsigned ops = forced ? 1u << OP_WAIT : 1u | word(4, env, step, 2) % 64;
            for (int head = 0; head < HEAD_COUNT; head++)
                masks.base |= head == HEAD_OP ? mask_place(ops, r->slots, head) : mask_all(r->slots, head);
            for (int op = 0; op < OP_COUNT; op++)
                masks.slots[op] = (uint16_t)(ops >> op & 1u ? (1u << r->slots) - 1 : 0);
            struct decision decision;
            policy_sample(&masks, r->slots, rig->config.policy.floor, logits.data() + (size_t)env * logit_count,
                          random_at(5, STREAM_ACTION, 0, (uint32_t)env, (uint32_t)step), false, &decision);
            memcpy(r->choice + row * HEAD_COUNT, decision.choice, HEAD_COUNT);
            memcpy(r->logp + row * HEAD_COUNT, decision.logp, sizeof decision.logp);
            r->effective_op[row] = word(4, env, step, 3) % 7 == 0 ? (uint8_t)OP_WAIT : decision.choice[HEAD_OP];
            r->mask[row] = decision.mask;
            r->value[row] = value[env];
            r->flags[row] |= (uint8_t)(ROW_VALID | (forced ? ROW_FORCED : 0) | (step == r->steps - 1 ? ROW_DONE : 0));
        }
        learner_scale_rewards(learner, envs, executed.data(), raw.data(), r->reward + first);
    }
    if (trouble & NAN_REWARD)
        r->reward[envs] = NAN;
    for (int k = 0; (trouble & NAN_STATE) && k < r->obs; k++)
        r->state[(size_t)envs * r->obs + k] = NAN;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static double largest_off(const float *a, const float *b, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        const double off = fabs((double)a[i] - (double)b[i]);
        most = off > most || std::isnan(off) ? off : most;
    }
    return most;
}

/* |a - b| / |b| in the Euclidean norm. */
static double relative_off(const float *a, const float *b, size_t count)
{
    double off = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return size > 0 ? sqrt(off / size) : sqrt(off);
}

/* Relative; numbers below `least` count as that. */
static double number_off(double a, double b, double least)
{
    if (std::isnan(a) && std::isnan(b))
        return 0;
    return a == b ? 0 : fabs(a - b) / fmax(least, fabs(b));
}

static char label[256];
static const char *named(const char *test, const char *what, bool exact)
{
    snprintf(label, sizeof label, "%s: %s, %s", test, what, exact ? "fp32" : "tf32");
    return label;
}

/* ---- act --------------------------------------------------------------------------------------------------------- */

static void set_step(struct rig *rig, int step)
{
    *rig->world->step = (uint32_t)step;
    runtime_copy_to(rig->rt, rig->mirror.view.step, rig->world->step, sizeof *rig->world->step);
    runtime_wait(rig->rt);
}

/* Acts at every step of a played round; the device's logits of each. */
static std::vector<float> act_all(struct rig *rig, std::vector<float> *values)
{
    const size_t envs = (size_t)rig->world->envs, count = envs * rig->world->learner.shape.logits;
    std::vector<float> all(count * rig->world->rollout.steps);
    values->resize(envs * rig->world->rollout.steps);
    for (int step = 0; step < rig->world->rollout.steps; step++) {
        set_step(rig, step);
        policy_device_act(rig->policy);
        runtime_copy_from(rig->rt, all.data() + step * count, rig->setup.logits, count * sizeof(float));
        runtime_copy_from(rig->rt, values->data() + step * envs, rig->setup.values, envs * sizeof(float));
        runtime_wait(rig->rt);
    }
    require(!rig->rt->failed, "act", rig->rt->error.text);
    return all;
}

static void test_act(int envs, int steps, int feature, int hidden, bool exact)
{
    struct rig rig;
    char name[64];
    snprintf(name, sizeof name, "act %d x %d, width %d", envs, steps, hidden);
    rig_create(&rig, envs, steps, feature, hidden, exact);
    shake(&rig);
    play(&rig, NO_TROUBLE);
    struct learner *learner = &rig.world->learner;
    const size_t states = (size_t)envs * hidden;
    std::vector<float> h(states), c(states), values;
    memset(rig.world->hidden, 0, states * sizeof(float));
    memset(rig.world->cell, 0, states * sizeof(float));
    upload(&rig);
    const std::vector<float> logits = act_all(&rig, &values);
    std::vector<float> want(logits.size()), want_values(values.size());
    for (int step = 0; step < steps; step++) {
        const size_t first = (size_t)step * envs;
        const struct policy_step act = {envs,
                                        rig.world->rollout.state + first * learner->shape.obs,
                                        rig.world->rollout.bp + first * learner->shape.slots,
                                        h.data(),
                                        c.data(),
                                        want.data() + first * learner->shape.logits,
                                        want_values.data() + first};
        learner->kernels->act(learner->net, &act);
    }
    float top = 1;
    for (float x : want)
        top = fmaxf(top, fabsf(x));
    const double bound = (exact ? 1e-5 : 2e-3) * (double)top;
    check(named(name, "logits", exact), largest_off(logits.data(), want.data(), want.size()), bound);
    check(named(name, "values", exact), largest_off(values.data(), want_values.data(), want_values.size()), 2 * bound);
    download(&rig);
    check(named(name, "h", exact), largest_off(rig.world->hidden, h.data(), states), bound);
    check(named(name, "c", exact), largest_off(rig.world->cell, c.data(), states), 2 * bound);
    rig_free(&rig);
}

/* Envs 0 and 1 alone, and among many: the noise of an env does not depend on how many there are. */
static void test_rows_apart(int hidden, bool exact)
{
    std::vector<float> logits[2], values[2];
    const int envs[2] = {2, 19}, steps = 3;
    for (int k = 0; k < 2; k++) {
        struct rig rig;
        rig_create(&rig, envs[k], steps, hidden, hidden, exact);
        shake(&rig);
        play(&rig, NO_TROUBLE);
        memset(rig.world->hidden, 0, sizeof(float) * envs[k] * hidden);
        memset(rig.world->cell, 0, sizeof(float) * envs[k] * hidden);
        upload(&rig);
        logits[k] = act_all(&rig, &values[k]);
        rig_free(&rig);
    }
    const size_t count = logits[0].size() / (steps * envs[0]);
    int different = 0;
    for (int step = 0; step < steps; step++)
        for (int env = 0; env < envs[0]; env++) {
            const size_t a = (size_t)step * envs[0] + env, b = (size_t)step * envs[1] + env;
            different += memcmp(&logits[0][a * count], &logits[1][b * count], count * sizeof(float)) != 0;
            different += memcmp(&values[0][a], &values[1][b], sizeof(float)) != 0;
        }
    check(named("act: rows whose bits depend on the number of envs", "", exact), different, 0);
}

/* ---- unroll and gradients ---------------------------------------------------------------------------------------- */

static float *device_copy(struct rig *rig, const std::vector<float> &from)
{
    float *to = runtime_alloc<float>(rig->rt, from.size());
    runtime_copy_to(rig->rt, to, from.data(), from.size() * sizeof(float));
    runtime_wait(rig->rt);
    return to;
}

/* Tolerances: the error of the CPU's numbers when only its weights are rounded, in two ways, as the tensor cores round
 * all operands. In small networks this switches ReLUs on and off, and which ones is chance. */
struct slack {
    double logits, values, all, worst;
};

static double worst_tensor(const struct policy_shape *shape, const float *got, const float *want, const char **where)
{
    double worst = 0;
    for (int t = 0; t < shape->count; t++) {
        const struct policy_tensor *tensor = &shape->tensor[t];
        const double off =
            relative_off(got + tensor->offset, want + tensor->offset, (size_t)tensor->rows * tensor->columns);
        if (!(off <= worst)) {
            worst = off;
            *where = tensor->name;
        }
    }
    return worst;
}

/* To the nearest numbers of tf32, or towards zero. */
static void round_weights(struct learner *learner, bool nearest)
{
    for (size_t i = 0; i < learner->shape.storage; i++) {
        uint32_t bits;
        memcpy(&bits, &learner->w[i], sizeof bits);
        bits = (bits + (nearest ? 0x1000u : 0)) & 0xffffe000u;
        memcpy(&learner->w[i], &bits, sizeof bits);
    }
    learner_load(learner);
}

static struct slack slack_of(struct learner *learner, const struct policy_sequence *sequence, const float *dlogits,
                             const float *dvalues, const std::vector<float> &logits, const std::vector<float> &values,
                             const std::vector<float> &grad)
{
    const size_t storage = learner->shape.storage;
    const char *where;
    const std::vector<float> w(learner->w, learner->w + storage);
    std::vector<float> off_logits(logits.size()), off_values(values.size()), off_grad(storage);
    struct slack slack = {0, 0, 1e-2, 3e-2};
    for (bool nearest : {true, false}) {
        round_weights(learner, nearest);
        learner->kernels->unroll(learner->net, sequence, off_logits.data(), off_values.data());
        learner->kernels->backward(learner->net, sequence, dlogits, dvalues, off_grad.data());
        memcpy(learner->w, w.data(), storage * sizeof(float));
        slack.logits = fmax(slack.logits, 3 * largest_off(off_logits.data(), logits.data(), logits.size()));
        slack.values = fmax(slack.values, 3 * largest_off(off_values.data(), values.data(), values.size()));
        slack.all = fmax(slack.all, 2 * relative_off(off_grad.data(), grad.data(), storage));
        slack.worst = fmax(slack.worst, 3 * worst_tensor(&learner->shape, off_grad.data(), grad.data(), &where));
    }
    learner_load(learner);
    return slack;
}

static void test_gradients(int envs, int steps, int feature, int hidden, bool exact)
{
    struct rig rig;
    char name[64];
    snprintf(name, sizeof name, "unroll %d x %d, width %d/%d", envs, steps, feature, hidden);
    rig_create(&rig, envs, steps, feature, hidden, exact);
    shake(&rig);
    play(&rig, NO_TROUBLE);
    struct learner *learner = &rig.world->learner;
    const struct policy_shape *shape = &learner->shape;
    const size_t rows = (size_t)envs * steps, logit_count = rows * shape->logits;
    std::vector<float> dlogits(logit_count), dvalues(rows), logits(logit_count), values(rows);
    std::vector<float> want_logits(logit_count), want_values(rows), grad(shape->storage), want(shape->storage);
    std::vector<uint8_t> reset(rows);
    for (size_t i = 0; i < logit_count; i++)
        dlogits[i] = 0.01f * unit(6, 0, 0, (uint32_t)i);
    for (size_t i = 0; i < rows; i++) {
        dvalues[i] = 0.02f * unit(6, 1, 0, (uint32_t)i);
        reset[i] = word(6, 2, 0, (uint32_t)i) % 7 == 0;
    }
    const struct policy_sequence sequence = {
        steps, envs, rig.world->rollout.state, rig.world->rollout.bp, reset.data(), nullptr, nullptr};
    learner->kernels->unroll(learner->net, &sequence, want_logits.data(), want_values.data());
    learner->kernels->backward(learner->net, &sequence, dlogits.data(), dvalues.data(), want.data());

    upload(&rig);
    uint32_t *flags = runtime_alloc<uint32_t>(rig.rt, 2);
    uint8_t *device_reset = runtime_alloc<uint8_t>(rig.rt, rows);
    runtime_copy_to(rig.rt, device_reset, reset.data(), rows);
    struct network_places places = {};
    places.shape = shape;
    places.envs = envs;
    places.steps = steps;
    places.exact = exact;
    places.w = rig.mirror.view.learner.w;
    places.grad = rig.mirror.view.learner.grad;
    places.state = rig.mirror.view.rollout.state;
    places.bp = rig.mirror.view.rollout.bp;
    places.reset = device_reset;
    places.hidden = rig.mirror.view.hidden;
    places.cell = rig.mirror.view.cell;
    places.act_logits = rig.setup.logits;
    places.act_values = rig.setup.values;
    places.logits = runtime_alloc<float>(rig.rt, logit_count);
    places.values = runtime_alloc<float>(rig.rt, rows);
    places.dlogits = device_copy(&rig, dlogits);
    places.dvalues = device_copy(&rig, dvalues);
    places.stop = flags;
    places.skip = flags + 1;
    struct network_device *net = network_device_create(rig.rt, &places);
    require(net, name, rig.rt->error.text);
    network_device_unroll(net);
    network_device_backward(net);
    runtime_copy_from(rig.rt, logits.data(), places.logits, logit_count * sizeof(float));
    runtime_copy_from(rig.rt, values.data(), places.values, rows * sizeof(float));
    runtime_copy_from(rig.rt, grad.data(), places.grad, grad.size() * sizeof(float));
    runtime_wait(rig.rt);
    require(!rig.rt->failed, name, rig.rt->error.text);

    /* Among thousands of rows some rectifier is within rounding error of its kink and opens on one side only. */
    const bool kinks = (size_t)rows * (size_t)hidden > 500000;
    struct slack slack = {1e-5, 2e-5, kinks ? 3e-3 : 1e-5, kinks ? 1e-2 : 1e-4};
    if (!exact)
        slack = slack_of(learner, &sequence, dlogits.data(), dvalues.data(), want_logits, want_values, want);
    const char *where = "";
    const double worst = worst_tensor(shape, grad.data(), want.data(), &where);
    char what[96];
    check(named(name, "logits", exact), largest_off(logits.data(), want_logits.data(), logit_count), slack.logits);
    check(named(name, "values", exact), largest_off(values.data(), want_values.data(), rows), slack.values);
    check(named(name, "gradient, all of it", exact), relative_off(grad.data(), want.data(), grad.size()), slack.all);
    snprintf(what, sizeof what, "gradient, worst tensor %s", where);
    check(named(name, what, exact), worst, slack.worst);

    uint32_t one[2] = {1, 1}; /* when switched off, nothing is touched */
    runtime_copy_to(rig.rt, flags, one, sizeof one);
    runtime_fill(rig.rt, places.logits, 0, logit_count * sizeof(float));
    runtime_fill(rig.rt, places.grad, 0, grad.size() * sizeof(float));
    network_device_unroll(net);
    network_device_backward(net);
    runtime_copy_from(rig.rt, logits.data(), places.logits, logit_count * sizeof(float));
    runtime_copy_from(rig.rt, grad.data(), places.grad, grad.size() * sizeof(float));
    runtime_wait(rig.rt);
    double touched = 0;
    for (float x : logits)
        touched += x != 0;
    for (float x : grad)
        touched += x != 0;
    check(named(name, "numbers touched after the stop", exact), touched, 0);
    network_device_free(net);
    rig_free(&rig);
}

/* ---- updates ----------------------------------------------------------------------------------------------------- */

struct records {
    struct update_report record;
    struct head_report heads[HEAD_COUNT];
};

static void device_update(struct rig *rig, double progress, struct records *out)
{
    policy_device_progress(rig->policy, progress);
    policy_device_update(rig->policy);
    policy_device_fetch(rig->policy);
    runtime_wait(rig->rt);
    require(!rig->rt->failed, "update", rig->rt->error.text);
    policy_device_records(rig->policy, &out->record, out->heads);
}

#define OFF_INTEGER(name) (got->name == want->name ? 0 : 1e9)
#define OFF_NUMBER(name)  number_off(got->name, want->name, least)
#define OFF_NAME(name)    (strcmp(got->name, want->name) == 0 ? 0 : 1e9)
#define OFF(kind, name, help)                                                                                          \
    if (strcmp(#name, "seconds") != 0 && strcmp(#name, "round") != 0) {                                                \
        const double off = OFF_##kind(name);                                                                           \
        if (!(off <= *worst)) {                                                                                        \
            *worst = off;                                                                                              \
            *where = #name;                                                                                            \
        }                                                                                                              \
    }

static void record_off(const struct update_report *got, const struct update_report *want, double least, double *worst,
                       const char **where)
{
    UPDATE_FIELDS(OFF)
}

static void head_off(const struct head_report *got, const struct head_report *want, double least, double *worst,
                     const char **where)
{
    HEAD_FIELDS(OFF)
}

/* The worst of both kinds of records, and its name. */
static double records_off(struct records *got, const struct records *want, bool exact, const char **where)
{
    const double least = exact ? 1e-3 : 5e-2;
    double worst = 0;
    if (got->record.anchor_drift < (exact ? 1e-4 : 2e-2)) /* the CPU acted: small, but not the same */
        got->record.anchor_drift = want->record.anchor_drift;
    record_off(&got->record, &want->record, least, &worst, where);
    for (int head = 0; head < HEAD_COUNT; head++)
        head_off(&got->heads[head], &want->heads[head], least, &worst, where);
    return worst;
}

/* What an update leaves in the learner, and reports. */
struct result {
    std::vector<float> w, m, v;
    struct records records;
};

static struct result result_of(const struct learner *learner, const float *w_before)
{
    const size_t storage = learner->shape.storage;
    struct result result = {
        {learner->w, learner->w + storage}, {learner->m, learner->m + storage}, {learner->v, learner->v + storage}, {}};
    for (size_t i = 0; i < storage; i++)
        result.w[i] -= w_before[i]; /* the steps */
    return result;
}

struct distance {
    double w, m, v, records;
    const char *where;
};

static struct distance distance_of(struct result *got, const struct result *want, bool exact)
{
    struct distance distance = {relative_off(got->w.data(), want->w.data(), want->w.size()),
                                relative_off(got->m.data(), want->m.data(), want->m.size()),
                                relative_off(got->v.data(), want->v.data(), want->v.size()), 0, ""};
    distance.records = records_off(&got->records, &want->records, exact, &distance.where);
    return distance;
}

struct update_case {
    const char *name;
    unsigned trouble;
    double target_kl, lr;
    int steps;         /* that the CPU must make */
    double value_coef; /* 0: the default */
    int minibatches;   /* 0: the default */
};

/* Bounds of an update in tf32: the first gradients are off a little, each step moves every weight by its sign, and what
 * follows differs by more than rounding. The CPU with rounded weights shows by how much. */
static struct distance update_slack(struct rig *rig, const std::vector<char> &before, const struct result *want)
{
    struct learner *learner = &rig->world->learner;
    world_return(rig, before);
    round_weights(learner, true);
    const std::vector<float> w_before(learner->w, learner->w + learner->shape.storage);
    struct records records;
    learner_update(learner, observe_normalised, &rig->world->rollout, 0.25, &records.record, records.heads);
    struct result rounded = result_of(learner, w_before.data());
    rounded.records = records;
    const struct distance off = distance_of(&rounded, want, false);
    return {fmax(0.15, 3 * off.w), fmax(0.1, 3 * off.m), fmax(0.1, 3 * off.v), fmax(0.3, 3 * off.records), ""};
}

/* Everything except the floats of the network: the same on both, up to the last bits of sums. */
struct counters {
    uint64_t count[5];
    std::vector<double> number;
};

static struct counters counters_of(const struct learner *l)
{
    struct counters c = {{*l->adam_steps, *l->updates, *l->failures, *l->obs_updates, *l->value_updates},
                         {*l->value_shift, *l->value_scale}};
    c.number.insert(c.number.end(), l->obs_mean, l->obs_mean + l->shape.obs);
    c.number.insert(c.number.end(), l->obs_var, l->obs_var + l->shape.obs);
    return c;
}

static void update_round(struct rig *rig, const char *name, const struct update_case *test, bool exact)
{
    struct learner *learner = &rig->world->learner;
    play(rig, test->trouble);
    const std::vector<char> before = world_keep(rig);
    const std::vector<float> w_before(learner->w, learner->w + learner->shape.storage);
    struct records records;
    upload(rig);
    device_update(rig, 0.25, &records);
    download(rig);
    const std::vector<char> after = world_keep(rig);
    struct result got = result_of(learner, w_before.data());
    got.records = records;
    const struct counters counters = counters_of(learner);

    world_return(rig, before); /* a second time: the same bits */
    upload(rig);
    device_update(rig, 0.25, &records);
    download(rig);
    check(named(name, "bytes that differ the second time", exact), world_keep(rig) == after ? 0 : 1, 0);

    world_return(rig, before);
    learner_update(learner, observe_normalised, &rig->world->rollout, 0.25, &records.record, records.heads);
    struct result want = result_of(learner, w_before.data());
    want.records = records;
    const struct counters want_counters = counters_of(learner);
    const std::vector<char> reference = world_keep(rig);
    check(named(name, "steps of the CPU", exact), fabs((double)records.record.epochs - test->steps), 0);
    check(named(name, "counters", exact), memcmp(counters.count, want_counters.count, sizeof counters.count) != 0, 0);
    double off = 0;
    for (size_t i = 0; i < counters.number.size(); i++)
        off = fmax(off, number_off(counters.number[i], want_counters.number[i], 1e-3));
    check(named(name, "normalisers", exact), off, 1e-9);

    struct distance slack = {1e-2, 5e-3, 5e-4, 2e-3, ""};
    if (!exact)
        slack = update_slack(rig, before, &want);
    const struct distance distance = distance_of(&got, &want, exact);
    char what[96];
    check(named(name, "first moments", exact), distance.m, slack.m);
    check(named(name, "second moments", exact), distance.v, slack.v);
    check(named(name, "steps of the weights", exact), distance.w, slack.w);
    snprintf(what, sizeof what, "records, worst %s", distance.where);
    check(named(name, what, exact), distance.records, slack.records);
    world_return(rig, reference);
}

/* Two rollouts, one after the other, through both learners: the second update has units to keep and moments to build
 * on. */
static void test_update(const struct update_case *test, int envs, int steps, int feature, int hidden, bool exact)
{
    struct rig rig;
    rig_create(&rig, envs, steps, feature, hidden, exact);
    shake(&rig);
    rig.world->config.ppo.target_kl = test->target_kl;
    rig.world->config.ppo.lr = test->lr;
    if (test->value_coef > 0)
        rig.world->config.ppo.value_coef = test->value_coef;
    rig.world->config.ppo.lr_end_share = 0.4;
    if (test->minibatches > 0) {
        struct esper_error error = {};
        rig.world->config.ppo.minibatches = test->minibatches;
        learner_stop(&rig.world->learner);
        require(learner_start(&rig.world->learner, &variant_best()->policy, rig.pool, &error) == ESPER_OK, "learner",
                error.text);
        learner_load(&rig.world->learner);
    }
    policy_device_free(rig.policy); /* the settings are read at creation */
    rig.policy = policy_device_create(rig.rt, &rig.setup);
    require(rig.policy, "policy_device_create", rig.rt->error.text);
    for (int round = 0; round < 2; round++) {
        char name[96];
        snprintf(name, sizeof name, "update %d, %d x %d, width %d, %s", round + 1, envs, steps, hidden, test->name);
        update_round(&rig, name, test, exact);
    }
    rig_free(&rig);
}

/* What the device cannot do is an error with a reason, not a crash. */
static void test_too_wide(void)
{
    struct rig rig;
    rig_create(&rig, 1, 1, 32, 32, true);
    rig.mirror.view.learner.shape.hidden = network_device_widest(rig.rt) + 8;
    const bool refused = !policy_device_create(rig.rt, &rig.setup);
    check("a policy that is too wide is refused", refused && strstr(rig.rt->error.text, "policy.hidden") ? 0 : 1, 0);
    rig_free(&rig);
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static double seconds()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static void measure(int envs, int steps, int hidden, bool exact, int minibatches)
{
    struct rig rig;
    struct records records;
    rig_create(&rig, envs, steps, hidden, hidden, exact);
    rig.world->config.ppo.target_kl = 0; /* all epochs */
    rig.world->config.ppo.minibatches = minibatches;
    policy_device_free(rig.policy);
    rig.policy = policy_device_create(rig.rt, &rig.setup);
    require(rig.policy, "policy_device_create", rig.rt->error.text);
    play(&rig, HOLES);
    upload(&rig);
    device_update(&rig, 0, &records);
    const int updates = 5, acts = 200;
    struct graph update = {};
    double start = 0;
    for (int i = 0; i <= updates; i++) { /* the first one is captured */
        if (graph_begin(rig.rt, &update))
            policy_device_update(rig.policy);
        graph_run(rig.rt, &update);
        if (i == 0) {
            runtime_wait(rig.rt);
            start = seconds();
        }
    }
    runtime_wait(rig.rt);
    graph_free(&update);
    printf("time update %d x %d, width %d, %s, %d mini-batches: %.2f ms\n", envs, steps, hidden,
           exact ? "fp32" : "tf32", minibatches, 1e3 * (seconds() - start) / updates);
    struct graph graph = {};
    for (int i = 0; i < acts + 1; i++) {
        if (i == 1) {
            runtime_wait(rig.rt);
            start = seconds();
        }
        if (graph_begin(rig.rt, &graph))
            policy_device_act(rig.policy);
        graph_run(rig.rt, &graph);
    }
    runtime_wait(rig.rt);
    printf("time act %d, width %d, %s: %.1f us\n", envs, hidden, exact ? "fp32" : "tf32",
           1e6 * (seconds() - start) / acts);
    require(!rig.rt->failed, "time", rig.rt->error.text);
    graph_free(&graph);
    rig_free(&rig);
}

int main(int argc, char **argv)
{
    /* A small rate: with a large one the epochs of tf32 soon see different policies from those of fp32. */
    static const struct update_case cases[] = {
        {"plain", NO_TROUBLE, 0, 1e-5, 4, 0, 0},         {"holes", HOLES, 0, 1e-5, 4, 0, 0},
        {"divergence stop", HOLES, 1e-6, 3e-3, 1, 0, 0}, {"reward not finite", NAN_REWARD, 0, 1e-5, 0, 0, 0},
        {"row not finite", NAN_STATE, 0, 1e-5, 0, 0, 0}, {"gradient not finite", NO_TROUBLE, 0, 1e-5, 0, 1e300, 0},
        {"no rows", ALL_HOLES, 0, 1e-5, 0, 0, 0}};
    static const struct update_case parts[] = {{"2 mini-batches", HOLES, 0, 1e-5, 8, 0, 2},
                                               {"4 mini-batches, one not finite", NAN_STATE, 0, 1e-5, 12, 0, 4},
                                               {"4 mini-batches, divergence stop", HOLES, 1e-6, 3e-3, 1, 0, 4},
                                               {"2 mini-batches, no rows", ALL_HOLES, 0, 1e-5, 0, 0, 2}};
    if (argc > 1 && strcmp(argv[1], "time") == 0) {
        for (int exact = 0; exact < 2; exact++)
            for (int envs : {16, 64})
                for (int minibatches : {1, 4})
                    measure(envs, 150, 512, exact, minibatches);
        measure(16, 150, 128, false, 1);
        return 0;
    }
    test_too_wide();
    for (int exact = 1; exact >= 0; exact--) {
        test_act(3, 4, 32, 32, exact);
        test_act(19, 2, 48, 40, exact);
        test_rows_apart(64, exact);
        test_gradients(3, 7, 32, 32, exact);
        test_gradients(5, 4, 30, 40, exact);
        test_gradients(18, 3, 64, 64, exact);
        for (const struct update_case &test : cases)
            if (exact || test.steps > 1) /* in tf32 only the products differ: where they decide something */
                test_update(&test, 3, 7, 32, 32, exact);
        test_update(&cases[0], 1, 1, 32, 32, exact);
        for (const struct update_case &test : parts) /* their products are those of the whole */
            if (exact)
                test_update(&test, 4, 7, 32, 32, exact);
#ifndef EMULATE
        test_act(16, 20, 512, 512, exact);
        test_gradients(16, 150, 512, 512, exact);
        test_gradients(70, 20, 512, 512, exact);
        test_gradients(100, 20, 256, 128, exact);
        for (const struct update_case &test : cases)
            test_update(&test, 16, 50, 512, 512, exact);
        for (const struct update_case &test : parts)
            test_update(&test, 16, 50, 512, 512, exact);
#endif
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
