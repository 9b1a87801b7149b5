#include "bench/loops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/safetensors.h"
#include "data/dataset.h"
#include "engine/plant.h"

enum { ROUND_STEPS = 150, ROUND_ROWS = 4096, LEAST_STEPS = 20, ROUNDS = 2, SAMPLES = 5, BENCH_SEED = 42 };

const char *loop_kind_name(enum loop_kind kind)
{
    static const char *const names[LOOP_KINDS] = {"train", "evaluate", "loop"};
    return names[kind];
}

const char *loop_unit(enum loop_kind kind)
{
    static const char *const units[LOOP_KINDS] = {"images/s", "images*subsets/s", "env-steps/s"};
    return units[kind];
}

/* ---- images ------------------------------------------------------------------------------------------------------ */

static enum esper_status write_images(const char *path, struct esper_error *error)
{
    static const size_t counts[SPLIT_COUNT] = {8192, 5000, 1000};
    static const char *const meta[][2] = {{"format", DATASET_IMAGES},
                                          {"version", DATASET_VERSION},
                                          {"name", "cifar10"},
                                          {"train", "8192"},
                                          {"val", "5000"},
                                          {"test", "1000"}};
    const size_t image = (size_t)DATASET_SIZE * DATASET_SIZE * DATASET_COLOURS, most = counts[SPLIT_TRAIN];
    struct random_site site = random_at(BENCH_SEED, STREAM_SYNTHETIC, 0, 0, 0);
    uint8_t *pixels = memory_alloc(most, image, error), *labels = memory_alloc(most, 1, error);
    struct st_tensor tensors[2 * SPLIT_COUNT];
    char names[2 * SPLIT_COUNT][24];
    enum esper_status status = pixels && labels ? ESPER_OK : ESPER_FAILED;
    for (size_t i = 0; status == ESPER_OK && i < most * image; i += 16) {
        struct philox_block block = random_block(site, (uint32_t)(i / 16));
        memcpy(pixels + i, block.word, sizeof block.word);
    }
    for (size_t i = 0; status == ESPER_OK && i < most; i++)
        labels[i] = (uint8_t)(i % DATASET_CLASSES);
    for (int split = 0; split < SPLIT_COUNT; split++) { /* the splits share their bytes: only the time matters */
        snprintf(names[2 * split], sizeof names[0], "%s.images", split_name((enum split)split));
        snprintf(names[2 * split + 1], sizeof names[0], "%s.labels", split_name((enum split)split));
        tensors[2 * split] = (struct st_tensor){
            .name = names[2 * split],
            .dtype = ST_U8,
            .dims = 4,
            .shape = {counts[split], DATASET_SIZE, DATASET_SIZE, DATASET_COLOURS},
            .data = pixels,
        };
        tensors[2 * split + 1] = (struct st_tensor){
            .name = names[2 * split + 1], .dtype = ST_U8, .dims = 1, .shape = {counts[split]}, .data = labels};
    }
    if (status == ESPER_OK)
        status = st_write(path, tensors, 2 * SPLIT_COUNT, meta, sizeof meta / sizeof meta[0], error);
    memory_free(pixels);
    memory_free(labels);
    return status;
}

static enum esper_status make_images(struct loops *loops, struct esper_error *error)
{
    const char *folder = getenv("TMPDIR");
    snprintf(loops->images, sizeof loops->images, "%s/esper_bench_XXXXXX", folder && *folder ? folder : "/tmp");
    int file = mkstemp(loops->images);
    if (file < 0) {
        loops->images[0] = '\0';
        return error_set(error, ESPER_FAILED, "cannot make a file for images; check the space in ${TMPDIR:-/tmp}");
    }
    close(file);
    return write_images(loops->images, error);
}

/* ---- which cases ------------------------------------------------------------------------------------------------- */

/* Steps of training take 3 072 images per env whatever the batch, as in the equal-work comparison. */
static int batches_of(int batch)
{
    return batch > 0 && batch < 3072 ? 3072 / batch : 1;
}

static void add(struct loops *loops, struct loop_case loop)
{
    const struct loops_options *options = &loops->options;
    if (loops->count == LOOPS_MAX || (options->kinds && !(options->kinds >> loop.kind & 1u)))
        return;
    if (loop.kind == LOOP_TRAIN && !(loop.blueprint == BLUEPRINT_NONE ? options->hosts : options->seeds))
        return;
    loop.batches = batches_of(loop.batch);
    loops->cases[loops->count++] = loop;
}

/* The next number of "1,16,64"; 0 at the end. */
static int next_number(const char **list)
{
    char *end;
    long value = strtol(*list, &end, 10);
    bool good = end != *list && value > 0 && value <= 4096 && (*end == '\0' || (*end == ',' && end[1]));
    *list = good && *end == ',' ? end + 1 : "";
    return good ? (int)value : 0;
}

static enum esper_status check_list(const char *flag, const char *list, struct esper_error *error)
{
    for (const char *at = list; at && *at;)
        if (next_number(&at) == 0)
            return error_set(error, ESPER_INVALID, "--%s %.60s: numbers from 1 to 4096 with commas, such as 8,64", flag,
                             list);
    return list && !*list ? error_set(error, ESPER_INVALID, "--%s: numbers with commas, such as 8,64", flag) : ESPER_OK;
}

static void add_hosts(struct loops *loops, const char *task, const char *envs, const char *batches)
{
    for (const char *batch = batches; *batch;) {
        int images = next_number(&batch);
        for (const char *env = envs; *env;) {
            int count = next_number(&env);
            add(loops,
                (struct loop_case){
                    .kind = LOOP_TRAIN, .task = task, .envs = count, .batch = images, .blueprint = BLUEPRINT_NONE});
        }
    }
}

static void add_seeds(struct loops *loops, const char *task, int envs, int batch)
{
    for (int i = 0; i < BLUEPRINT_COUNT; i++)
        for (int blended = 0; blended < 2; blended++)
            add(loops, (struct loop_case){.kind = LOOP_TRAIN,
                                          .task = task,
                                          .envs = envs,
                                          .batch = batch,
                                          .blueprint = (uint8_t)i,
                                          .stage = blended ? STAGE_BLENDING : STAGE_TRAINING});
}

static void add_evaluations(struct loops *loops, const char *task, int envs, int batch)
{
    for (int grown = 0; grown < 2; grown++)
        add(loops, (struct loop_case){.kind = LOOP_EVALUATE,
                                      .task = task,
                                      .envs = envs,
                                      .batch = batch,
                                      .blueprint = grown ? BLUEPRINT_CONV_LIGHT : BLUEPRINT_NONE,
                                      .stage = STAGE_BLENDING});
}

/* Whole loops do the work of the equal-work comparison: 6 batches of 512, 625 validation images per subset. */
static void add_whole(struct loops *loops, const char *task, int envs, int batch, bool grown)
{
    add(loops, (struct loop_case){.kind = LOOP_WHOLE,
                                  .task = task,
                                  .envs = envs,
                                  .batch = batch,
                                  .val_images = 625,
                                  .blueprint = grown ? BLUEPRINT_CONV_LIGHT : BLUEPRINT_NONE,
                                  .stage = STAGE_FOSSILIZED});
}

static int first_number(const char *list, int otherwise)
{
    return list ? next_number(&list) : otherwise;
}

static void choose_cases(struct loops *loops)
{
    const struct loops_options *options = &loops->options;
    const bool cuda = loops->use.cuda;
    const char *task = options->task ? options->task : "cifar_baseline", *envs = options->envs, *batch = options->batch;
    int some = first_number(envs, cuda ? 64 : 4), images = first_number(batch, 128);
    add_hosts(loops, task, envs ? envs : cuda ? "1,8,16,64,256,1024" : "1,4", batch ? batch : cuda ? "128,512" : "128");
    add_seeds(loops, task, some, images);
    add_evaluations(loops, task, some, images);
    for (const char *at = envs ? envs : cuda ? "1,4,16,64,256,1024" : "4"; *at;)
        add_whole(loops, task, next_number(&at), first_number(batch, 512), false);
    int whole = first_number(envs, cuda ? 16 : 4);
    add_whole(loops, task, whole, first_number(batch, 512), true);
    if (cuda && !options->task && options->precision != PRECISION_BF16) { /* whose kernels know neither */
        add_whole(loops, "cifar_impaired", whole, first_number(batch, 512), false);
        add_whole(loops, "cifar_scale", whole, first_number(batch, 512), false);
    }
}

enum esper_status loops_create(struct loops **out, const struct loops_options *options, struct esper_error *error)
{
    struct config wish; /* the host of cifar_baseline unless a task is named */
    TRY(check_list("envs", options->envs, error));
    TRY(check_list("batch", options->batch, error));
    config_defaults(&wish);
    if (options->task) /* a wrong name is better reported once than in every case */
        TRY(config_load_task(&wish, options->task, error));
    wish.device = options->device;
    wish.precision = options->precision;
    TRY(config_check(&wish, error));
    struct loops *loops = memory_alloc(1, sizeof *loops, error);
    if (!loops)
        return ESPER_FAILED;
    loops->options = *options;
    enum esper_status status = device_choose(&wish, &loops->use, error);
    if (status == ESPER_OK)
        choose_cases(loops);
    char found[CONFIG_PATH];
    if (status == ESPER_OK && !dataset_find(data_facts_of(DATA_CIFAR10)->name, found))
        status = make_images(loops, error);
    if (status != ESPER_OK) {
        loops_free(loops);
        return status;
    }
    *out = loops;
    return ESPER_OK;
}

void loops_free(struct loops *loops)
{
    if (loops && loops->images[0])
        unlink(loops->images);
    memory_free(loops);
}

/* ---- an engine for a case ---------------------------------------------------------------------------------------- */

/* As many steps as keep a round short, never more than a run's. */
static int round_steps(int envs)
{
    int steps = ROUND_ROWS / envs;
    return steps > ROUND_STEPS ? ROUND_STEPS : steps < LEAST_STEPS ? LEAST_STEPS : steps;
}

static enum esper_status make_config(const struct loops *loops, const struct loop_case *loop, struct config *config,
                                     struct esper_error *error)
{
    config_defaults(config);
    TRY(config_load_task(config, loop->task, error));
    config->envs = loop->envs;
    config->reward.mode = REWARD_SHAPED; /* the loop itself: no bare twins, which would be played before it */
    config->steps = round_steps(loop->envs);
    config->threads = loops->options.threads;
    config->device = loops->options.device;
    config->precision = loops->options.precision;
    config->data_batch = loop->batch;
    config->data_batches = loop->batches;
    const struct data_facts *set = data_facts_of(config->data_set);
    const bool packed = set->packed && set->kind == KIND_IMAGES;
    if (packed) {
        config->data_set = DATA_CIFAR10; /* only the time matters: its images, or random ones, stand for all others */
        config->data_size = DATASET_SIZE;
        config->data_classes = DATASET_CLASSES;
        config->data_name[0] = '\0';
    }
    if (loop->val_images && packed)
        config->data_val_images = loop->val_images;
    if (loop->kind != LOOP_WHOLE)
        config->policy.kind = POLICY_STATIC; /* no network that is created and never used */
    if (packed && loops->images[0]) {
        snprintf(config->data_path, sizeof config->data_path, "%.*s", CONFIG_TEXT - 1, loops->images);
        config->data_test_images = 1000;
    }
    return config_check(config, error);
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

#define COUNTERS(EACH)                                                                                                 \
    EACH(launches)                                                                                                     \
    EACH(graph_launches) EACH(graph_nodes) EACH(syncs) EACH(allocations) EACH(copies) EACH(bytes_to) EACH(bytes_from)

/* Begin with sign -1, end with +1: what was counted in between is added. */
static void count(struct loop_counts *counts, const struct engine *engine, int sign)
{
    struct device_counters now = {0};
    counts->known = engine_counters(engine, &now);
#define ADD(name) counts->name += sign * (double)now.name;
    COUNTERS(ADD)
#undef ADD
}

static void divide_counts(struct loop_counts *counts, double steps)
{
#define DIVIDE(name) counts->name /= steps;
    COUNTERS(DIVIDE)
#undef DIVIDE
}

/* Seconds of `times` calls, until the last is done. */
static double time_phase(struct engine *engine, void (*phase)(struct engine *), int times)
{
    double start = clock_seconds();
    for (int i = 0; i < times; i++)
        phase(engine);
    engine_wait(engine);
    return clock_seconds() - start;
}

/* The best of five repetitions that fill the time together; the first call captures and is not timed. */
static double measure_phase(struct engine *engine, void (*phase)(struct engine *), double seconds,
                            struct loop_counts *counts)
{
    enum { REPETITIONS = 5 };
    time_phase(engine, phase, 1);
    double once = time_phase(engine, phase, 1), best = once;
    double fit = seconds / REPETITIONS / (once > 1e-9 ? once : 1e-9);
    int times = fit < 1 ? 1 : fit > 10000 ? 10000 : (int)fit;
    count(counts, engine, -1);
    for (int i = 0; i < REPETITIONS; i++) {
        double each = time_phase(engine, phase, times) / times;
        best = each < best ? each : best;
    }
    count(counts, engine, +1);
    divide_counts(counts, (double)REPETITIONS * times);
    return best;
}

static double train_gflops(const struct world *world, const struct loop_case *loop, double images_per_s)
{
    double macs = world->growth.host_train_macs;
    if (loop->blueprint != BLUEPRINT_NONE && loop->stage == STAGE_TRAINING)
        return 0; /* a seed beside the host needs less of its input's gradient; how much differs */
    for (int j = 0; loop->blueprint != BLUEPRINT_NONE && j < world->shape.slots; j++)
        macs += 3 * world->growth.seed_macs[j][loop->blueprint];
    return 2e-9 * macs * images_per_s;
}

static void measure_train(struct engine *engine, const struct loops *loops, struct loop_case *loop)
{
    double step = measure_phase(engine, engine_train, loops->options.seconds, &loop->counts);
    loop->ms = 1e3 * step;
    loop->rate = (double)loop->envs * loop->batch * engine_batches(engine) / step;
    loop->gflops = train_gflops(engine_world(engine), loop, loop->rate);
}

static void sample_seeds(struct engine *engine, struct loop_case *loop)
{
    struct world *world = engine_world(engine);
    engine_read(engine);
    for (int env = 0; env < world->envs; env++) {
        loop->subsets += world->subset_count[env];
        for (int j = 0; j < world->shape.slots; j++)
            loop->live[world_slot(world, env, j).stage] += 1;
    }
}

static void divide_samples(struct loop_case *loop, int samples)
{
    loop->subsets /= (double)samples * loop->envs;
    for (int stage = 0; stage < STAGE_LIMIT; stage++)
        loop->live[stage] /= (double)samples * loop->envs;
}

static void measure_evaluate(struct engine *engine, const struct loops *loops, struct loop_case *loop)
{
    double step = measure_phase(engine, engine_evaluate, loops->options.seconds, &loop->counts);
    sample_seeds(engine, loop);
    divide_samples(loop, 1);
    loop->ms = 1e3 * step;
    loop->rate = (double)loop->envs * engine_world(engine)->config.data_val_images * loop->subsets / step;
}

/* Where a whole round's time goes. */
struct round_time {
    double steps, update;
    int samples;
};

static void run_step(struct engine *engine, struct loop_counts *counts)
{
    struct device_counters before = {0}, after = {0};
    engine_counters(engine, &before);
    engine_train(engine);
    engine_evaluate(engine);
    engine_decide(engine);
    engine_apply(engine);
    engine_counters(engine, &after);
    const double syncs = (double)(after.syncs - before.syncs);
    counts->most_syncs = syncs > counts->most_syncs ? syncs : counts->most_syncs;
}

/* Steps of the round, counted one by one. Looking at the seeds is neither timed nor counted. */
static void run_steps(struct engine *engine, struct loop_case *loop, struct round_time *time)
{
    int every = loop->steps / SAMPLES > 0 ? loop->steps / SAMPLES : 1;
    for (int step = 1; step <= loop->steps;) {
        double start = clock_seconds();
        count(&loop->counts, engine, -1);
        do {
            run_step(engine, &loop->counts);
        } while (step++ % every != 0 && step <= loop->steps);
        count(&loop->counts, engine, +1);
        engine_wait(engine);
        time->steps += clock_seconds() - start;
        sample_seeds(engine, loop);
        time->samples++;
    }
}

static void run_round(struct engine *engine, struct loop_case *loop, uint32_t round, struct outcome_record *outcomes,
                      struct round_time *time)
{
    struct update_report ppo;
    struct head_report heads[HEAD_COUNT];
    double start = clock_seconds();
    engine_reset(engine, round);
    engine_wait(engine);
    time->steps += clock_seconds() - start;
    if (loop->blueprint != BLUEPRINT_NONE)
        plant_seeds(engine, loop->blueprint, loop->stage);
    run_steps(engine, loop, time);
    start = clock_seconds();
    engine_finish(engine, outcomes);
    double middle = clock_seconds();
    engine_update(engine, 0, &ppo, heads);
    engine_wait(engine);
    time->steps += middle - start;
    time->update += clock_seconds() - middle;
}

/* The first round captures what is captured on first use, and is not counted. */
static void measure_whole(struct engine *engine, struct loop_case *loop, struct outcome_record *outcomes)
{
    struct round_time time = {0};
    loop->steps = engine_world(engine)->config.steps;
    run_round(engine, loop, 0, outcomes, &time);
    time = (struct round_time){0};
    loop->counts = (struct loop_counts){0};
    loop->subsets = 0;
    memset(loop->live, 0, sizeof loop->live);
    for (uint32_t round = 1; round <= ROUNDS; round++)
        run_round(engine, loop, round, outcomes, &time);
    double steps = (double)ROUNDS * loop->steps;
    divide_counts(&loop->counts, steps);
    divide_samples(loop, time.samples);
    loop->ms = 1e3 * time.steps / steps;
    loop->update_ms = 1e3 * time.update / ROUNDS;
    loop->rate = steps * loop->envs / (time.steps + time.update);
}

void loop_measure(struct loops *loops, struct loop_case *loop)
{
    struct config config;
    struct engine *engine = NULL;
    struct esper_error error = {0};
    struct outcome_record *outcomes = memory_alloc((size_t)loop->envs, sizeof *outcomes, &error);
    if (outcomes && make_config(loops, loop, &config, &error) == ESPER_OK &&
        engine_create(&engine, &config, &error) == ESPER_OK) {
        snprintf(loop->kernels, sizeof loop->kernels, "%s", engine_kernels(engine));
        engine_begin(engine);
        if (loop->kind != LOOP_WHOLE && loop->blueprint != BLUEPRINT_NONE)
            plant_seeds(engine, loop->blueprint, loop->stage);
        if (loop->kind == LOOP_TRAIN)
            measure_train(engine, loops, loop);
        else if (loop->kind == LOOP_EVALUATE)
            measure_evaluate(engine, loops, loop);
        else
            measure_whole(engine, loop, outcomes);
        engine_check(engine, &error);
    }
    if (error.status != ESPER_OK)
        snprintf(loop->failed, sizeof loop->failed, "%.190s", error.text);
    engine_free(engine);
    memory_free(outcomes);
}
