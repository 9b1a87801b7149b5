/* The engine's life, and the phases that run the networks: train, evaluate, test. */
#include "engine/parts.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "engine/emit.h"
#include "telemetry/recorder.h"

/* ---- life ---------------------------------------------------------------------------------------------------------
 */

static enum esper_status create_workers(struct engine *engine, struct esper_error *error)
{
    const struct world *world = engine->world;
    int threads = pool_threads(engine->pool), batch = world->config.data_batch;
    engine->workers = memory_alloc((size_t)threads, sizeof *engine->workers, error);
    if (!engine->workers)
        return ESPER_FAILED;
    for (int i = 0; i < threads && i < world->envs; i++) {
        struct worker *worker = &engine->workers[i];
        worker->memory = memory_alloc(engine->kernels->net_bytes(&world->shape, batch), 1, error);
        worker->labels = memory_alloc((size_t)batch, 1, error);
        if (!worker->memory || !worker->labels)
            return ESPER_FAILED;
        worker->net = engine->kernels->net_init(&world->shape, batch, worker->memory);
    }
    return ESPER_OK;
}

static enum esper_status create_buffers(struct engine *engine, struct esper_error *error)
{
    const struct world *world = engine->world;
    size_t envs = (size_t)world->envs, slots = (size_t)world->shape.slots;
    engine->grads = memory_alloc(envs * slots, sizeof *engine->grads, error);
    engine->masks = memory_alloc(envs, sizeof *engine->masks, error);
    engine->actions = memory_alloc(envs, sizeof *engine->actions, error);
    engine->decisions = memory_alloc(envs, sizeof *engine->decisions, error);
    engine->shares = memory_alloc(envs, sizeof *engine->shares, error);
    engine->logits = memory_alloc(envs * HEAD_MAX_LOGITS, sizeof *engine->logits, error);
    engine->values = memory_alloc(envs, sizeof *engine->values, error);
    engine->rewards = memory_alloc(envs, sizeof *engine->rewards, error);
    engine->scaled = memory_alloc(envs, sizeof *engine->scaled, error);
    engine->executed = memory_alloc(envs, sizeof *engine->executed, error);
    engine->test_accuracy = memory_alloc(envs, sizeof *engine->test_accuracy, error);
    bool all = engine->grads && engine->masks && engine->actions && engine->decisions && engine->shares &&
               engine->logits && engine->values && engine->rewards && engine->scaled && engine->executed &&
               engine->test_accuracy;
    return all ? ESPER_OK : ESPER_FAILED;
}

static enum esper_status check_data(const struct engine *engine, struct esper_error *error)
{
    const struct config *config = &engine->world->config;
    const struct dataset *data = engine->data;
    if ((size_t)config->data_val_images > data->count[SPLIT_VAL] ||
        (size_t)config->data_test_images > data->count[SPLIT_TEST])
        return error_set(error, ESPER_INVALID,
                         "data.val_images=%d and data.test_images=%d: the data set holds %zu and %zu; ask for fewer",
                         config->data_val_images, config->data_test_images, data->count[SPLIT_VAL],
                         data->count[SPLIT_TEST]);
    if ((size_t)config->data_batch > data->count[SPLIT_TRAIN])
        return error_set(error, ESPER_INVALID,
                         "data.batch=%d: the data set holds %zu training images; use a smaller batch",
                         config->data_batch, data->count[SPLIT_TRAIN]);
    return ESPER_OK;
}

static enum esper_status create_parts(struct engine *engine, const struct config *config, struct esper_error *error)
{
    TRY(world_create(&engine->world, config, error));
    TRY(dataset_open(config->data_set == DATA_CIFAR10 ? config->data_path : NULL, config->data_set, config->data_size,
                     &engine->data, error));
    TRY(check_data(engine, error));
    engine->batches = config->data_batches ? (uint32_t)config->data_batches
                                           : (uint32_t)(engine->data->count[SPLIT_TRAIN] / (size_t)config->data_batch);
    TRY(pool_create(config->threads, &engine->pool, error));
    TRY(create_buffers(engine, error));
    TRY(create_workers(engine, error));
    if (config->policy.kind == POLICY_SCRIPT)
        TRY(script_load(&engine->script, config->policy.script, config, error));
    if (engine->world->learns)
        TRY(learner_start(&engine->world->learner, &engine->kernels->policy, engine->pool, error));
    return ESPER_OK;
}

enum esper_status engine_create(struct engine **out, const struct config *config, struct esper_error *error)
{
    struct engine *engine = memory_alloc(1, sizeof *engine, error);
    if (!engine)
        return ESPER_FAILED;
    engine->kernels = variant_best();
    engine->normalise = gather_table_make();
    engine->gates = (struct gate_rules){.permissive = config->gates_permissive,
                                        .auto_g1 = config->auto_g1,
                                        .auto_g2 = config->auto_g2,
                                        .auto_g3 = config->auto_g3};
    float momentum = (float)config->momentum;
    engine->rates = (struct net_rates){.host = {(float)config->host_lr, momentum, (float)config->weight_decay},
                                       .seed = {(float)config->seed_lr, momentum, 0},
                                       .max_grad_norm = config->max_grad_norm};
    enum esper_status status = create_parts(engine, config, error);
    if (status != ESPER_OK) {
        engine_free(engine);
        return status;
    }
    *out = engine;
    return ESPER_OK;
}

void engine_free(struct engine *engine)
{
    if (!engine)
        return;
    for (int i = 0; engine->workers && i < pool_threads(engine->pool); i++) {
        memory_free(engine->workers[i].memory);
        memory_free(engine->workers[i].labels);
    }
    memory_free(engine->workers);
    memory_free(engine->grads);
    memory_free(engine->masks);
    memory_free(engine->actions);
    memory_free(engine->decisions);
    memory_free(engine->shares);
    memory_free(engine->logits);
    memory_free(engine->values);
    memory_free(engine->rewards);
    memory_free(engine->scaled);
    memory_free(engine->executed);
    memory_free(engine->test_accuracy);
    script_free(&engine->script);
    if (engine->world && engine->world->learns)
        learner_stop(&engine->world->learner);
    if (engine->pool)
        pool_free(engine->pool);
    if (engine->data)
        dataset_close(engine->data);
    world_free(engine->world);
    memory_free(engine);
}

struct world *engine_world(struct engine *engine)
{
    return engine->world;
}

const char *engine_kernels(const struct engine *engine)
{
    return engine->kernels->name;
}

int engine_threads(const struct engine *engine)
{
    return pool_threads(engine->pool);
}

uint32_t engine_batches(const struct engine *engine)
{
    return engine->batches;
}

/* ---- phases -------------------------------------------------------------------------------------------------------
 */

void engine_record(struct engine *engine, struct recorder *recorder, double zero, bool spans)
{
    engine->recorder = recorder;
    engine->zero = zero;
    engine->spans = spans;
}

void engine_span(struct engine *engine, const char *name, double start)
{
    emit_phase(engine, name, 0, -1, start);
}

struct span {
    struct engine *engine;
    const char *name;
    void (*work)(void *engine, int env, int thread);
};

static void run_span(void *context, int env, int thread)
{
    const struct span *span = context;
    double start = clock_seconds();
    span->work(span->engine, env, thread);
    emit_phase(span->engine, span->name, thread, env, start);
}

void engine_run(struct engine *engine, const char *name, void (*work)(void *engine, int env, int thread))
{
    double start = clock_seconds();
    struct span span = {engine, name, work};
    if (engine->spans)
        pool_run(engine->pool, run_span, &span, engine->world->envs);
    else
        pool_run(engine->pool, work, engine, engine->world->envs);
    engine_span(engine, name, start);
}

static void env_execs(const struct world *world, int env, struct slot_exec exec[SHAPE_SLOTS])
{
    for (int j = 0; j < world->shape.slots; j++) {
        struct slot_state slot = world_slot(world, env, j);
        exec[j] = slot_exec_of(&slot);
    }
}

/* Images `first` .. `first + count - 1` of a batch go to the net's input. */
static struct gather_target worker_target(const struct engine *engine, struct worker *worker)
{
    struct net_input input = engine->kernels->net_input(worker->net);
    return (struct gather_target){input.pixels, input.image_stride, input.row_stride, worker->labels};
}

static void train_env(void *context, int env, int thread)
{
    struct engine *engine = context;
    struct world *world = engine->world;
    const struct config *config = &world->config;
    struct worker *worker = &engine->workers[thread];
    struct net_params params = world_params(world, env), momentum = world_momentum(world, env);
    struct slot_exec exec[SHAPE_SLOTS];
    struct net_batch batch = {config->data_batch, worker->labels, exec};
    struct gather_target target = worker_target(engine, worker);
    struct gather_job job = {.seed = config->seed,
                             .round = *world->round,
                             .env = (uint32_t)env,
                             .step = *world->step + 1,
                             .batches = engine->batches,
                             .batch = (uint32_t)config->data_batch,
                             .augment = config->data_augment && config->data_set == DATA_CIFAR10};
    struct net_result result;
    double loss = 0, correct = 0;
    env_execs(world, env, exec);
    for (job.index = 0; job.index < engine->batches; job.index++) {
        gather_batch(&engine->normalise, engine->data, &job, &target);
        engine->kernels->net_gradients(worker->net, &params, &batch, &result);
        if (job.index + 1 == engine->batches)
            engine->kernels->net_measure(worker->net, &batch, &result);
        engine->kernels->net_update(worker->net, &params, &momentum, &batch, &engine->rates, &result);
        loss += result.loss;
        correct += result.correct;
    }
    double images = (double)engine->batches * config->data_batch;
    world->train_loss[env] = loss / images;
    world->train_accuracy[env] = 100 * correct / images;
    memcpy(engine->grads + (size_t)env * (size_t)world->shape.slots, result.grads,
           sizeof result.grads[0] * (size_t)world->shape.slots);
}

void engine_train(struct engine *engine)
{
    engine_run(engine, "train", train_env);
}

/* Run `count` images of a split through the net under the subsets' alphas; counts and the whole set's loss add up. */
static double evaluate_split(struct engine *engine, int env, int thread, enum split split, int count,
                             struct subsets *subsets)
{
    struct world *world = engine->world;
    struct worker *worker = &engine->workers[thread];
    struct net_params params = world_params(world, env);
    struct gather_target target = worker_target(engine, worker);
    struct slot_exec exec[SHAPE_SLOTS];
    float alpha[SUBSETS_MAX][SHAPE_SLOTS] = {{0}};
    env_execs(world, env, exec);
    for (int k = 0; k < subsets->count; k++)
        for (int j = 0; j < world->shape.slots; j++)
            alpha[k][j] = (subsets->mask[k] >> j) & 1u ? exec[j].alpha : 0;
    double loss = 0;
    for (int first = 0; first < count; first += world->config.data_batch) {
        int images = count - first < world->config.data_batch ? count - first : world->config.data_batch;
        struct net_eval eval = {.images = images,
                                .labels = worker->labels,
                                .exec = exec,
                                .configs = subsets->count,
                                .alpha = (const float(*)[SHAPE_SLOTS])alpha,
                                .correct = subsets->correct};
        gather_range(&engine->normalise, engine->data, split, (size_t)first, (size_t)images, &target);
        engine->kernels->net_evaluate(worker->net, &params, &eval);
        loss += eval.loss;
    }
    return loss / count;
}

/* Shapley shares beyond exact tables, for the record of a finished episode (DECISIONS "Kasmina"). */
static void sample_shares(struct engine *engine, int env, int thread, uint32_t all)
{
    const struct world *world = engine->world;
    struct shapley_plan plan;
    shapley_plan_draw(&plan, all,
                      random_at(world->config.seed, STREAM_SHAPLEY, *world->round, (uint32_t)env, *world->step + 1));
    for (int first = 0; first < plan.count; first += SUBSETS_MAX) {
        struct subsets part = {.all = all};
        part.count = plan.count - first < SUBSETS_MAX ? plan.count - first : SUBSETS_MAX;
        memcpy(part.mask, plan.mask + first, sizeof *plan.mask * (size_t)part.count);
        evaluate_split(engine, env, thread, SPLIT_VAL, world->config.data_val_images, &part);
        memcpy(plan.correct + first, part.correct, sizeof *plan.correct * (size_t)part.count);
    }
    shapley_estimate(&plan, (uint32_t)world->config.data_val_images, &engine->shares[env]);
}

static void evaluate_env(void *context, int env, int thread)
{
    struct engine *engine = context;
    struct world *world = engine->world;
    uint32_t blended = 0, fossils = 0;
    for (int j = 0; j < world->shape.slots; j++) {
        struct slot_state slot = world_slot(world, env, j);
        if (stage_is_blended(slot.stage) && slot.alpha > 0) {
            blended |= 1u << j;
            fossils |= slot.stage == STAGE_FOSSILIZED ? 1u << j : 0;
        }
    }
    struct subsets subsets;
    subsets_plan(&subsets, blended, fossils);
    world->val_loss[env] = evaluate_split(engine, env, thread, SPLIT_VAL, world->config.data_val_images, &subsets);
    world->val_accuracy[env] = subset_accuracy(&subsets, blended, (uint32_t)world->config.data_val_images);
    world_set_subsets(world, env, &subsets);
    engine->shares[env].pairs = 0;
    bool last = *world->step + 1 == (uint32_t)world->config.steps;
    if (last && subsets.seeds > SUBSETS_EXACT && recorder_wants(engine->recorder, RECORD_SEED))
        sample_shares(engine, env, thread, blended);
}

void engine_evaluate(struct engine *engine)
{
    engine_run(engine, "evaluate", evaluate_env);
}

static void test_env(void *context, int env, int thread)
{
    struct engine *engine = context;
    const struct world *world = engine->world;
    struct subsets whole = {.count = 1};
    for (int j = 0; j < world->shape.slots; j++) {
        struct slot_state slot = world_slot(world, env, j);
        if (stage_is_blended(slot.stage))
            whole.mask[0] |= 1u << j;
    }
    evaluate_split(engine, env, thread, SPLIT_TEST, world->config.data_test_images, &whole);
    engine->test_accuracy[env] = 100.0 * whole.correct[0] / world->config.data_test_images;
}

void engine_test(struct engine *engine, double *accuracy)
{
    engine_run(engine, "test", test_env);
    if (accuracy != engine->test_accuracy)
        memcpy(accuracy, engine->test_accuracy, sizeof(double) * (size_t)engine->world->envs);
}
