#include "selftest/device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "engine/choose.h"
#include "engine/plant.h"
#include "selftest/cases.h"
#include "selftest/device_vectors.h"

enum { ENVS = 2, STEPS = 6, TRACKED = 5 };

/* How much results that went through a network may differ. fp32 sums in another order: by estimate one of the half a
 * million values before a ReLU may then fall on its other side, which is worth some thousandths of the gradient. A card
 * was off by 0.0065 of a step of conv_heavy's in one env and by 1e-6 in the other. bf16 keeps eight bits, and a seed's
 * gradient over the few images of these cases is a sum in which much cancels. */
struct limits {
    double loss;    /* absolute */
    double params;  /* of a whole tensor, relative to what one step changed in it */
    double closest; /* likewise, in the slot that differs least */
    double correct; /* images of the 64 that are validated */
    bool same_ops;  /* the policy takes the same actions for TRACKED steps */
};

static const struct limits exact = {1e-3, 1e-2, 1e-3, 2, true}, rough = {3e-2, 1.5e-1, 1.5e-1, 8, false};

/* A small world with all parts of a large one: the host of cifar_baseline, three slots, a policy that learns. */
static enum esper_status small_config(struct config *config, struct esper_error *error)
{
    static const char *const keys[] = {"data.set=synthetic",    "data.size=32",       "data.batch=32",
                                       "data.batches=2",        "data.val_images=64", "data.test_images=64",
                                       "policy.feature_dim=64", "policy.hidden=64",   "ppo.epochs=2"};
    config_defaults(config);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        TRY(config_set(config, keys[i], error));
    config->envs = ENVS;
    config->steps = STEPS;
    return config_check(config, error);
}

/* The same world twice. */
struct pair {
    struct engine *cpu, *device;
};

static enum esper_status pair_create(struct pair *pair, const struct config *config, enum device_wish device,
                                     enum precision_wish precision, struct esper_error *error)
{
    struct config one = *config, other = *config;
    *pair = (struct pair){0};
    one.device = WISH_CPU;
    one.precision = PRECISION_AUTO;
    other.device = device;
    other.precision = precision;
    TRY(engine_create(&pair->cpu, &one, error));
    TRY(engine_create(&pair->device, &other, error));
    engine_begin(pair->cpu);
    engine_begin(pair->device);
    return ESPER_OK;
}

static void pair_free(struct pair *pair)
{
    engine_free(pair->cpu);
    engine_free(pair->device);
}

static void pair_run(struct pair *pair, void (*phase)(struct engine *))
{
    phase(pair->cpu);
    phase(pair->device);
}

/* ---- what is compared -------------------------------------------------------------------------------------------- */

/* The worst absolute difference, or NAN where either side has one. */
static double distance(const double *a, const double *b, int count)
{
    double worst = 0;
    for (int i = 0; i < count; i++) {
        double off = fabs(a[i] - b[i]);
        if (isnan(off))
            return off;
        worst = off > worst ? off : worst;
    }
    return worst;
}

/* How far apart two arrays ended, relative to how far the first of them moved from where both began. */
static double drift(const float *a, const float *b, const float *from, size_t count)
{
    double apart = 0, way = 0;
    for (size_t i = 0; i < count; i++) {
        apart += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        way += ((double)a[i] - from[i]) * ((double)a[i] - from[i]);
    }
    return way > 0 ? sqrt(apart / way) : sqrt(apart);
}

/* The drift of the seeds in the env and slot where it is least. */
static double closest_drift(const struct world *a, const struct world *b, const float *from)
{
    double least = INFINITY;
    for (int env = 0; env < a->envs; env++)
        for (int j = 0; j < a->shape.slots; j++) {
            const size_t at = (size_t)env * a->shape.seed_storage + a->shape.slot[j].seed;
            least = fmin(least, drift(a->seed + at, b->seed + at, from + at, a->shape.slot[j].seed_storage));
        }
    return least;
}

/* In images, of which scores are counts. */
static double correct_apart(const struct world *a, const struct world *b)
{
    double worst = 0;
    for (int env = 0; env < a->envs; env++)
        for (uint32_t k = 0; k < a->subset_count[env] && k < SUBSETS_MAX; k++) {
            size_t at = (size_t)env * SUBSETS_MAX + k;
            worst = fmax(worst, fabs(a->subset_score[at] - b->subset_score[at]));
        }
    return round(worst / 100 * a->config.data_val_images);
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

static bool same_actions(const struct world *a, const struct world *b, int steps)
{
    size_t rows = (size_t)steps * (size_t)a->envs;
    return memcmp(a->rollout.choice, b->rollout.choice, rows * HEAD_COUNT) == 0 &&
           memcmp(a->rollout.mask, b->rollout.mask, rows * sizeof *a->rollout.mask) == 0;
}

static bool same_slots(const struct world *a, const struct world *b)
{
    size_t rows = (size_t)a->envs * (size_t)a->shape.slots;
    return memcmp(a->slots.stage, b->slots.stage, rows) == 0 &&
           memcmp(a->slots.blueprint, b->slots.blueprint, rows) == 0 &&
           memcmp(a->slots.epochs_in_stage, b->slots.epochs_in_stage, rows * sizeof *a->slots.epochs_in_stage) == 0;
}

static void check_first_step(struct check_report *report, const struct pair *pair, const struct limits *limits)
{
    const struct world *a = engine_world(pair->cpu), *b = engine_world(pair->device);
    report_error(report, "run first training loss", distance(a->train_loss, b->train_loss, ENVS), limits->loss);
    report_error(report, "run first validation loss", distance(a->val_loss, b->val_loss, ENVS), limits->loss);
    report_error(report, "run first validation counts", correct_apart(a, b), limits->correct);
}

/* A round of a fresh policy, update included. */
static void check_run(struct check_report *report, struct pair *pair, const struct limits *limits)
{
    const struct world *a = engine_world(pair->cpu), *b = engine_world(pair->device);
    struct outcome_record outcomes[ENVS];
    struct update_report ppo[2] = {{0}};
    struct head_report heads[HEAD_COUNT];
    for (int step = 1; step <= STEPS; step++) {
        pair_run(pair, engine_train);
        pair_run(pair, engine_evaluate);
        pair_run(pair, engine_decide);
        pair_run(pair, engine_apply);
        engine_read(pair->device);
        if (step == 1)
            check_first_step(report, pair, limits);
        if (step == TRACKED && limits->same_ops) {
            report_flag(report, "run actions and masks", same_actions(a, b, step), "they differ");
            report_flag(report, "run stages and counters", same_slots(a, b), "they differ");
            report_error(report, "run losses", distance(a->train_loss, b->train_loss, ENVS), limits->loss);
        }
    }
    engine_finish(pair->cpu, outcomes);
    engine_finish(pair->device, outcomes);
    bool learned = engine_update(pair->cpu, 0, &ppo[0], heads) && engine_update(pair->device, 0, &ppo[1], heads);
    report_flag(report, "run update", learned && isfinite(ppo[1].policy_loss) && isfinite(ppo[1].value_loss),
                "the update did not end in finite numbers");
}

/* ---- every seed -------------------------------------------------------------------------------------------------- */

/* A seed fills only the front of its storage; what an earlier seed left after it is not compared. */
static void forget_seeds(struct engine *engine)
{
    struct world *world = engine_world(engine);
    engine_read(engine);
    memset(world->seed, 0, sizeof *world->seed * (size_t)world->envs * world->shape.seed_storage);
    engine_write(engine);
}

/* One training step and one validation with this seed in every slot. */
static void check_seed(struct check_report *report, struct pair *pair, int blueprint, enum stage stage,
                       const struct limits *limits, float *before)
{
    char name[96];
    struct world *a = engine_world(pair->cpu), *b = engine_world(pair->device);
    size_t host = (size_t)a->envs * a->shape.host.storage, seed = (size_t)a->envs * a->shape.seed_storage;
    engine_reset(pair->cpu, 0);
    engine_reset(pair->device, 0);
    forget_seeds(pair->cpu);
    forget_seeds(pair->device);
    plant_seeds(pair->cpu, blueprint, stage);
    plant_seeds(pair->device, blueprint, stage);
    memcpy(before, a->host, host * sizeof *before);
    memcpy(before + host, a->seed, seed * sizeof *before);
    pair_run(pair, engine_train);
    pair_run(pair, engine_evaluate);
    engine_read(pair->device);
    const char *seed_name = blueprint_name(blueprint), *stage_text = stage_name(stage);
    snprintf(name, sizeof name, "seed %s %s loss", seed_name, stage_text);
    report_error(report, name, distance(a->train_loss, b->train_loss, ENVS), limits->loss);
    snprintf(name, sizeof name, "seed %s %s host", seed_name, stage_text);
    report_error(report, name, drift(a->host, b->host, before, host), limits->params);
    snprintf(name, sizeof name, "seed %s %s parameters", seed_name, stage_text);
    report_error(report, name, drift(a->seed, b->seed, before + host, seed), limits->params);
    snprintf(name, sizeof name, "seed %s %s parameters of a slot", seed_name, stage_text);
    report_error(report, name, closest_drift(a, b, before + host), limits->closest);
    snprintf(name, sizeof name, "seed %s %s counts", seed_name, stage_text);
    report_error(report, name, correct_apart(a, b), limits->correct);
}

static enum esper_status check_seeds(struct check_report *report, struct pair *pair, const struct limits *limits,
                                     struct esper_error *error)
{
    const struct world *world = engine_world(pair->cpu);
    size_t floats = (size_t)world->envs * (world->shape.host.storage + world->shape.seed_storage);
    float *before = memory_alloc(floats, sizeof *before, error);
    if (!before)
        return ESPER_FAILED;
    for (int i = 0; i < BLUEPRINT_COUNT; i++) {
        check_seed(report, pair, i, STAGE_TRAINING, limits, before);
        check_seed(report, pair, i, STAGE_BLENDING, limits, before);
    }
    memory_free(before);
    return ESPER_OK;
}

/* ---- the same bits again ----------------------------------------------------------------------------------------- */

static enum esper_status hash_of_run(const struct config *config, int steps, uint64_t *hash, struct esper_error *error)
{
    struct engine *engine;
    TRY(engine_create(&engine, config, error));
    engine_begin(engine);
    for (int step = 0; step < steps; step++) {
        engine_train(engine);
        engine_evaluate(engine);
        engine_decide(engine);
        engine_apply(engine);
    }
    engine_read(engine);
    enum esper_status status = engine_check(engine, error);
    *hash = table_hash(&engine_world(engine)->table);
    engine_free(engine);
    return status;
}

static enum esper_status check_twice(struct check_report *report, struct config config, enum device_wish device,
                                     enum precision_wish precision, struct esper_error *error)
{
    uint64_t one, two;
    config.device = device;
    config.precision = precision;
    TRY(hash_of_run(&config, STEPS, &one, error));
    TRY(hash_of_run(&config, STEPS, &two, error));
    report_flag(report, "twice the same bits", one == two, "two runs of one seed differ");
    return ESPER_OK;
}

/* ---- the case table ---------------------------------------------------------------------------------------------- */

static const struct device_api *answering;
static struct esper_error *answer_failure;

static enum answer_status answer_of_device(const struct check_backend *backend, const char *table, int index,
                                           struct answers *answers)
{
    return device_answer(answering, backend, table, index, answers, answer_failure);
}

static enum esper_status check_cases(struct check_report *report, const struct device_use *use,
                                     struct esper_error *error)
{
    struct esper_error failure = {.text = ""};
    const struct check_backend backend = device_backend(use->cuda, use->bf16);
    answering = use->cuda;
    answer_failure = &failure;
    cases_on_backend(report, &backend, answer_of_device);
    if (!failure.text[0])
        return ESPER_OK;
    *error = failure;
    return ESPER_FAILED;
}

enum esper_status selftest_device(struct selftest *test, enum device_wish device, enum precision_wish precision,
                                  struct esper_error *error)
{
    struct config config;
    struct device_use use;
    struct pair pair;
    TRY(small_config(&config, error));
    config.device = device;
    config.precision = precision;
    TRY(device_choose(&config, &use, error));
    const struct limits *limits = use.bf16 ? &rough : &exact;
    enum esper_status status = pair_create(&pair, &config, device, precision, error);
    test->file = NULL;
    test->variant = pair.device ? engine_kernels(pair.device) : NULL;
    if (status == ESPER_OK && report_wants(&test->report, "run"))
        check_run(&test->report, &pair, limits);
    if (status == ESPER_OK && report_wants(&test->report, "seed"))
        status = check_seeds(&test->report, &pair, limits, error);
    if (status == ESPER_OK)
        status = engine_check(pair.device, error);
    if (status == ESPER_OK && use.cuda)
        status = check_cases(&test->report, &use, error);
    if (status == ESPER_OK && report_wants(&test->report, "twice the same bits"))
        status = check_twice(&test->report, config, device, precision, error);
    pair_free(&pair);
    test->variant = NULL;
    return status;
}

enum esper_status selftest_device_vectors(struct selftest *test, enum precision_wish precision, const char *path,
                                          struct esper_error *error)
{
    struct config config;
    struct device_use use;
    TRY(small_config(&config, error));
    config.device = WISH_CUDA;
    config.precision = precision;
    TRY(device_choose(&config, &use, error));
    test->device = use.cuda;
    test->bf16 = precision == PRECISION_BF16;
    return selftest_vectors(test, path, error);
}
