/*
 * The policy's learner on the device compared with the CPU's: whole updates; and bits of acting. The network by itself
 * is the case table's: cuda_cases. Compiled by nvcc for a real device and, with EMULATE, for the CPU. `cuda_policy
 * time` measures instead.
 */
#include "policy_rig.cuh"

#include <chrono>

/* ---- comparing --------------------------------------------------------------------------------------------------- */

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
        write_world(&rig);
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
    check_within(named("act: rows whose bits depend on the number of envs", "", exact), different, 0);
}

/* When switched off, an unrolled network touches nothing. */
static void test_stopped(bool exact)
{
    enum { ENVS = 3, STEPS = 4 };
    struct policy_shape shape;
    struct esper_error error = {};
    policy_shape_init(&shape, 9, 2, 32, 32);
    const size_t rows = ENVS * STEPS, state = (size_t)(ENVS * shape.hidden);
    const std::vector<float> w(shape.storage, 0.1f), obs(rows * (size_t)shape.obs, 0.5f),
        dlogits(rows * (size_t)shape.logits, 1.0f), dvalues(rows, 1.0f);
    const std::vector<int8_t> bp(rows * (size_t)shape.slots, 1);
    std::vector<float> h(state), c(state), logits(dlogits.size()), values(rows), trunk(rows * (size_t)shape.hidden),
        grad(shape.storage);
    for (bool stopped : {false, true}) {
        struct policy_trial trial = {};
        trial.shape = &shape;
        trial.w = w.data();
        trial.envs = ENVS;
        trial.steps = STEPS;
        trial.obs = obs.data();
        trial.bp = bp.data();
        trial.stopped = stopped;
        trial.tf32 = !exact;
        trial.h = h.data();
        trial.c = c.data();
        trial.logits = logits.data();
        trial.values = values.data();
        trial.trunk = trunk.data();
        trial.dlogits = dlogits.data();
        trial.dvalues = dvalues.data();
        trial.grad = grad.data();
        require(policy_trial_run(&trial, &error) == ESPER_OK, "trial", error.text);
        const std::ptrdiff_t touched = (std::ptrdiff_t)(logits.size() + grad.size()) -
                                       std::count(logits.begin(), logits.end(), 0.0f) -
                                       std::count(grad.begin(), grad.end(), 0.0f);
        check((touched == 0) == stopped, named("numbers touched", stopped ? "stopped" : "running", exact),
              std::to_string(touched));
    }
}

/* To the nearest numbers of tf32. */
static void round_weights(struct learner *learner)
{
    for (size_t i = 0; i < learner->shape.storage; i++) {
        uint32_t bits;
        memcpy(&bits, &learner->w[i], sizeof bits);
        bits = (bits + 0x1000u) & 0xffffe000u;
        memcpy(&learner->w[i], &bits, sizeof bits);
    }
    learner_load(learner);
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

struct apart {
    double w, m, v, records;
    const char *where;
};

static struct apart distance_of(struct result *got, const struct result *want, bool exact)
{
    struct apart off = {distance(want->w.size(), got->w.data(), want->w.data()),
                        distance(want->m.size(), got->m.data(), want->m.data()),
                        distance(want->v.size(), got->v.data(), want->v.data()), 0, ""};
    off.records = records_off(&got->records, &want->records, exact, &off.where);
    return off;
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
static struct apart update_slack(struct rig *rig, const arenas &before, const struct result *want)
{
    struct learner *learner = &rig->world->learner;
    world_return(rig, before);
    round_weights(learner);
    const std::vector<float> w_before(learner->w, learner->w + learner->shape.storage);
    struct records records;
    learner_update(learner, observe_normalised, &rig->world->rollout, 0.25, &records.record, records.heads);
    struct result rounded = result_of(learner, w_before.data());
    rounded.records = records;
    const struct apart off = distance_of(&rounded, want, false);
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
    const arenas before = arenas_of(rig->world);
    const std::vector<float> w_before(learner->w, learner->w + learner->shape.storage);
    struct records records;
    write_world(rig);
    device_update(rig, 0.25, &records);
    read_world(rig);
    const arenas after = arenas_of(rig->world);
    struct result got = result_of(learner, w_before.data());
    got.records = records;
    const struct counters counters = counters_of(learner);

    world_return(rig, before); /* a second time: the same bits */
    write_world(rig);
    device_update(rig, 0.25, &records);
    read_world(rig);
    check_within(named(name, "bytes that differ the second time", exact), arenas_of(rig->world) == after ? 0 : 1, 0);

    world_return(rig, before);
    learner_update(learner, observe_normalised, &rig->world->rollout, 0.25, &records.record, records.heads);
    struct result want = result_of(learner, w_before.data());
    want.records = records;
    const struct counters want_counters = counters_of(learner);
    const arenas reference = arenas_of(rig->world);
    check_within(named(name, "steps of the CPU", exact), fabs((double)records.record.epochs - test->steps), 0);
    check_within(named(name, "counters", exact),
                 memcmp(counters.count, want_counters.count, sizeof counters.count) != 0, 0);
    double off = 0;
    for (size_t i = 0; i < counters.number.size(); i++)
        off = fmax(off, number_off(counters.number[i], want_counters.number[i], 1e-3));
    check_within(named(name, "normalisers", exact), off, 1e-9);

    struct apart slack = {1e-2, 5e-3, 5e-4, 2e-3, ""};
    if (!exact)
        slack = update_slack(rig, before, &want);
    const struct apart apart = distance_of(&got, &want, exact);
    char what[96];
    check_within(named(name, "first moments", exact), apart.m, slack.m);
    check_within(named(name, "second moments", exact), apart.v, slack.v);
    check_within(named(name, "steps of the weights", exact), apart.w, slack.w);
    snprintf(what, sizeof what, "records, worst %s", apart.where);
    check_within(named(name, what, exact), apart.records, slack.records);
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
    check_within("a policy that is too wide is refused", refused && strstr(rig.rt->error.text, "policy.hidden") ? 0 : 1,
                 0);
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
    write_world(&rig);
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
        test_rows_apart(64, exact);
        test_stopped(exact);
        for (const struct update_case &test : cases)
            if (exact || test.steps > 1) /* in tf32 only the products differ: where they decide something */
                test_update(&test, 3, 7, 32, 32, exact);
        test_update(&cases[0], 1, 1, 32, 32, exact);
        for (const struct update_case &test : parts) /* their products are those of the whole */
            if (exact)
                test_update(&test, 4, 7, 32, 32, exact);
#ifndef EMULATE
        for (const struct update_case &test : cases)
            test_update(&test, 16, 50, 512, 512, exact);
        for (const struct update_case &test : parts)
            test_update(&test, 16, 50, 512, 512, exact);
#endif
    }
    return conclude();
}
