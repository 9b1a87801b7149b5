/* The engine's lifetime, and its phases as the program calls them: the backend executes them. */
#include "engine/ranks.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "engine/emit.h"
#include "telemetry/recorder.h"

/* ---- lifetime ---------------------------------------------------------------------------------------------------- */

static enum esper_status create_workers(struct engine *engine, struct esper_error *error)
{
    const struct world *world = engine->world;
    int threads = pool_threads(engine->pool), batch = world->config.data_batch;
    engine->workers = memory_alloc((size_t)threads, sizeof *engine->workers, error);
    if (!engine->workers)
        return ESPER_FAILED;
    for (int i = 0; i < threads && i < world->envs; i++) {
        struct worker *worker = &engine->workers[i];
        worker->memory = memory_alloc(engine->nets->bytes(&world->shape, batch), 1, error);
        if (!worker->memory)
            return ESPER_FAILED;
        worker->net = engine->nets->init(&world->shape, batch, worker->memory);
    }
    return ESPER_OK;
}

static enum esper_status create_buffers(struct engine *engine, struct esper_error *error)
{
    const struct world *world = engine->world;
    struct step *step = &engine->step;
    size_t envs = (size_t)world->envs, slots = (size_t)world->shape.slots;
    engine->grads = memory_alloc(envs * slots, sizeof *engine->grads, error);
    engine->shares = memory_alloc(envs, sizeof *engine->shares, error);
    engine->logits = memory_alloc(envs * HEAD_MAX_LOGITS, sizeof *engine->logits, error);
    engine->values = memory_alloc(envs, sizeof *engine->values, error);
    engine->test_accuracy = memory_alloc(envs, sizeof *engine->test_accuracy, error);
    step->masks = memory_alloc(envs, sizeof *step->masks, error);
    step->actions = memory_alloc(envs, sizeof *step->actions, error);
    step->decisions = memory_alloc(envs, sizeof *step->decisions, error);
    step->orders = memory_alloc(envs, sizeof *step->orders, error);
    step->rewards = memory_alloc(envs, sizeof *step->rewards, error);
    step->scaled = memory_alloc(envs, sizeof *step->scaled, error);
    step->executed = memory_alloc(envs, sizeof *step->executed, error);
    step->reports = memory_alloc(envs, sizeof *step->reports, error);
    step->world = world;
    step->gates = step_gates(&world->config);
    step->grads = engine->grads;
    step->shares = engine->shares;
    step->logits = engine->logits;
    step->values = engine->values;
    bool all = engine->grads && engine->shares && engine->logits && engine->values && engine->test_accuracy &&
               step->masks && step->actions && step->decisions && step->orders && step->rewards && step->scaled &&
               step->executed && step->reports;
    return all ? ESPER_OK : ESPER_FAILED;
}

/* The script as the rules read it: one action for every step and env. */
static enum esper_status load_script(struct engine *engine, struct esper_error *error)
{
    const struct world *world = engine->world;
    const struct config *config = &world->config;
    const size_t envs = (size_t)config->envs, rows = (size_t)config->steps * envs;
    TRY(script_load(&engine->script, config->policy.script, config, error));
    engine->script_actions = memory_alloc(rows, sizeof *engine->script_actions, error);
    if (!engine->script_actions)
        return ESPER_FAILED;
    for (size_t i = 0; i < rows; i++)
        engine->script_actions[i] = script_action(&engine->script, (int)(i / envs) + 1, (int)(i % envs));
    engine->step.script = engine->script_actions;
    return ESPER_OK;
}

static enum esper_status load_schedules(struct engine *engine, struct esper_error *error)
{
    TRY(schedule_load(&engine->schedules, &engine->schedule_count, &engine->world->config, error));
    engine->step.schedules = engine->schedules;
    engine->step.schedule_count = engine->schedule_count;
    return ESPER_OK;
}

/* As the record has them. */
static enum esper_status name_schedules(struct engine *engine, struct esper_error *error)
{
    const int count = engine->schedule_count;
    TRY(schedule_lines(engine->schedules, sizeof *engine->schedules, count, &engine->world->config,
                       &engine->schedule_text, error));
    engine->schedule_name = memory_alloc((size_t)count, sizeof *engine->schedule_name, error);
    if (!engine->schedule_name)
        return ESPER_FAILED;
    char *at = engine->schedule_text;
    for (int i = 0; i < count; i++) {
        engine->schedule_name[i] = at;
        at += strcspn(at, "\n");
        *at++ = '\0';
    }
    return ESPER_OK;
}

static enum esper_status check_data(const struct engine *engine, struct esper_error *error)
{
    const struct config *config = &engine->world->config;
    const struct dataset *data = engine->data;
    if ((size_t)config->data_val_images > data->count[SPLIT_VAL] ||
        (size_t)config->data_test_images > data->count[SPLIT_TEST])
        return error_set(
            error, ESPER_INVALID,
            "data.val_images=%d and data.test_images=%d: the data set holds %zu and %zu %s; ask for fewer%s",
            config->data_val_images, config->data_test_images, data->count[SPLIT_VAL], data->count[SPLIT_TEST],
            host_family_of(config)->words.samples, data->kind == KIND_TEXT ? ", or use a shorter host.context" : "");
    if ((size_t)config->data_final_images > data->count[SPLIT_VAL])
        return error_set(error, ESPER_INVALID, "data.final_images=%d: the data set holds %zu; ask for fewer",
                         config->data_final_images, data->count[SPLIT_VAL]);
    if ((size_t)config->data_batch > data->count[SPLIT_TRAIN])
        return error_set(error, ESPER_INVALID,
                         "data.batch=%d: the data set holds %zu training samples; use a smaller batch",
                         config->data_batch, data->count[SPLIT_TRAIN]);
    const double least = config->mixed.images_least * (double)data->count[SPLIT_TRAIN];
    if (config->mixed.images_least < 1 && least < config->data_batch)
        return error_set(
            error, ESPER_INVALID,
            "mixed.images_least=%g: an episode may have as few as %.0f samples, and data.batch=%d; use more",
            config->mixed.images_least, least, config->data_batch);
    return ESPER_OK;
}

static enum esper_status create_cpu(struct engine *engine, struct esper_error *error)
{
    engine->backend = &backend_cpu;
    TRY(create_workers(engine, error));
    if (engine->world->learns)
        TRY(learner_start(&engine->world->learner, &engine->kernels->policy, engine->pool, error));
    return ESPER_OK;
}

static enum esper_status create_device(struct engine *engine, struct esper_error *error)
{
    const struct device_setup setup = {.world = engine->world,
                                       .data = engine->data,
                                       .script = engine->script_actions,
                                       .schedules = engine->schedules,
                                       .schedule_count = engine->schedule_count,
                                       .rates = &engine->rates,
                                       .gates = &engine->step.gates,
                                       .batches = engine->batches,
                                       .bf16 = engine->use.bf16,
                                       .tf32 = engine->use.tf32};
    engine->backend = &backend_device;
    engine->world->learner.pool = engine->pool; /* for the initial weights of a policy */
    engine->device = engine->use.cuda->create(&setup, error);
    engine->device_zero = clock_seconds();
    return engine->device ? ESPER_OK : ESPER_FAILED;
}

static enum esper_status create_parts(struct engine *engine, const struct config *config, struct env_part envs,
                                      int local, struct esper_error *error)
{
    TRY(device_choose_for(config, local, &engine->use, error));
    TRY(world_create_part(&engine->world, config, envs, error));
    if (config->policy.kind == POLICY_SCRIPT) /* before the images: what people write is where mistakes are */
        TRY(load_script(engine, error));
    if (config->policy.kind == POLICY_SCHEDULE)
        TRY(load_schedules(engine, error));
    if (engine->world->lesson_schedule)
        TRY(lessons_load(engine, error));
    if (engine->schedules)
        TRY(name_schedules(engine, error));
    TRY(dataset_open_for(config, &engine->data, error));
    TRY(dataset_matches(config, engine->data, error));
    TRY(check_data(engine, error));
    engine->batches = config->data_batches ? (uint32_t)config->data_batches
                                           : (uint32_t)(engine->data->count[SPLIT_TRAIN] / (size_t)config->data_batch);
    TRY(pool_create(config->threads, &engine->pool, error));
    TRY(create_buffers(engine, error));
    return engine->use.cuda ? create_device(engine, error) : create_cpu(engine, error);
}

enum esper_status engine_create(struct engine **out, const struct config *config, struct esper_error *error)
{
    return engine_create_part(out, config, (struct env_part){0, config->envs}, NULL, error);
}

enum esper_status engine_create_part(struct engine **out, const struct config *config, struct env_part envs,
                                     struct group *group, struct esper_error *error)
{
    struct engine *engine = memory_alloc(1, sizeof *engine, error);
    if (!engine)
        return ESPER_FAILED;
    engine->kernels = variant_best();
    engine->nets = engine->kernels->net[host_family_of(config)->id];
    const struct data_facts set = data_facts_for(config);
    engine->normalise = gather_table_make(&set);
    engine->rates = host_rates(config);
    enum esper_status status = create_parts(engine, config, envs, group_local_rank(group), error);
    if (status == ESPER_OK)
        status = ranks_create(engine, group, error);
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
    ranks_free(engine);
    for (int i = 0; engine->workers && i < pool_threads(engine->pool); i++) {
        memory_free(engine->workers[i].memory);
    }
    memory_free(engine->workers);
    memory_free(engine->grads);
    memory_free(engine->step.masks);
    memory_free(engine->step.actions);
    memory_free(engine->step.decisions);
    memory_free(engine->shares);
    memory_free(engine->logits);
    memory_free(engine->values);
    memory_free(engine->step.rewards);
    memory_free(engine->step.scaled);
    memory_free(engine->step.executed);
    memory_free(engine->step.orders);
    memory_free(engine->step.reports);
    memory_free(engine->script_actions);
    memory_free(engine->schedules);
    memory_free(engine->schedule_text);
    memory_free(engine->schedule_name);
    belief_free(&engine->belief);
    memory_free(engine->test_accuracy);
    script_free(&engine->script);
    if (engine->device)
        engine->use.cuda->free(engine->device);
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

struct world *engine_whole(struct engine *engine)
{
    return engine->whole;
}

const struct device_use *engine_device(const struct engine *engine)
{
    return &engine->use;
}

const char *engine_kernels(const struct engine *engine)
{
    return engine->device ? engine->use.cuda->kernels(engine->device) : engine->kernels->name;
}

const struct dataset *engine_data(const struct engine *engine)
{
    return engine->data;
}

int engine_threads(const struct engine *engine)
{
    return pool_threads(engine->pool);
}

uint32_t engine_batches(const struct engine *engine)
{
    return engine->batches;
}

enum esper_status engine_check(struct engine *engine, struct esper_error *error)
{
    return engine->device ? engine->use.cuda->check(engine->device, error) : ESPER_OK;
}

bool engine_counters(const struct engine *engine, struct device_counters *out)
{
    if (engine->device)
        engine->use.cuda->counters(engine->device, out);
    return engine->device != NULL;
}

/* ---- phases ------------------------------------------------------------------------------------------------------ */

void engine_train(struct engine *engine)
{
    while (engine_plays_twins(engine))
        engine_twin_step(engine);
    engine->backend->train(engine);
}

void engine_evaluate(struct engine *engine)
{
    engine->backend->evaluate(engine);
}

void engine_decide(struct engine *engine)
{
    engine->backend->decide(engine);
}

const struct masks *engine_ask(struct engine *engine)
{
    engine->backend->ask(engine);
    return engine->step.masks;
}

void engine_override(struct engine *engine, int env, const struct action *action)
{
    engine->backend->act(engine, env, action);
}

const struct step_report *engine_reports(struct engine *engine)
{
    return engine->backend->reports(engine);
}

void engine_apply(struct engine *engine)
{
    engine->backend->apply(engine);
}

void engine_test(struct engine *engine, double *accuracy)
{
    engine->backend->test(engine);
    if (accuracy != engine->test_accuracy)
        memcpy(accuracy, engine->test_accuracy, sizeof(double) * (size_t)engine->world->envs);
}

void engine_write(struct engine *engine)
{
    engine->backend->write(engine);
}

void engine_fetch(struct engine *engine)
{
    engine->backend->read(engine);
}

/* No rule writes a number out of its row's range, for which a checkpoint would be refused; but none is written between
 * the last step of a round and the next round, when the step is one too many. */
static void assert_ranges(const struct world *world)
{
    struct esper_error error = {0};
    for (int i = 0; i < world->table.count; i++) {
        const struct table_row *row = &world->table.rows[i];
        const bool over = row->data == world->step && *world->step == (uint32_t)world->config.steps;
        ESPER_ASSERT(!row->saved || !row->bytes || over || table_check(row, row->data, &error) == ESPER_OK);
    }
}

void engine_read(struct engine *engine)
{
    ranks_settle(engine);
    engine->backend->read(engine);
    assert_ranges(engine->world);
    ranks_gather(engine);
}

void engine_read_rows(struct engine *engine, bool (*wanted)(const struct table_row *row))
{
    const struct table *table = &engine->world->table;
    for (int i = 0; engine->device && i < table->count; i++)
        if (wanted(&table->rows[i]))
            engine->use.cuda->read(engine->device, &table->rows[i], 1);
}

void engine_write_rows(struct engine *engine, bool (*wanted)(const struct table_row *row))
{
    const struct table *table = &engine->world->table;
    for (int i = 0; engine->device && i < table->count; i++)
        if (wanted(&table->rows[i]))
            engine->use.cuda->write(engine->device, &table->rows[i], 1);
}

bool engine_row_is_outcome(const struct table_row *row)
{
    static const char *const prefixes[] = {"episode.",        "slot.",         "val.",        "train.",
                                           "subset.",         "twin.accuracy", "reward.work", "reward.components",
                                           "learner.failures"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(row->name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

void engine_wait(struct engine *engine)
{
    engine->backend->wait(engine);
}

/* ---- the record -------------------------------------------------------------------------------------------------- */

void engine_record(struct engine *engine, struct recorder *recorder, double zero, bool spans)
{
    engine->recorder = recorder;
    engine->zero = zero;
    engine->spans = spans;
    engine->keeps_seeds = recorder_wants(recorder, RECORD_SEED);
}

void engine_join_record(struct engine *engine)
{
    group_tell(engine->group, &engine->keeps_seeds, sizeof engine->keeps_seeds);
}

void engine_reported(struct engine *engine)
{
    engine_wait(engine);
    ranks_report_end(engine);
}

bool engine_wants_shares(const struct engine *engine)
{
    const struct world *world = engine->world;
    return world_last_step(world) && !world_plays_twins(world) && world->shape.slots > SUBSETS_EXACT &&
           engine->keeps_seeds;
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
