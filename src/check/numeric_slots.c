/* Golden vectors of hosts with seeds: host_slots, scenarios and what is trained or evaluated from them. */
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "check/numeric_hosts.h"

/* ---- host_slots: scenarios -------------------------------------------------------------------------------------- */

#define SLOTS_LOGITS       ((struct tolerance){1e-5, 0})
#define SLOTS_LOSS         ((struct tolerance){0, 5e-6})
#define SLOTS_PARAMS       ((struct tolerance){0, 5e-6})
#define SLOTS_TELEMETRY    ((struct tolerance){1e-4, 1e-9})
#define SLOTS_LOSS_ROUGH   ((struct tolerance){5e-3, 0})
#define SLOTS_COSINE_ROUGH 0.97

struct scenario {
    const struct source *source;
    const char *name; /* of the scenario whose state is used */
    struct rig_host host;
    const char *slots[SHAPE_SLOTS];
    int count;
    struct rig rig;
    struct host_batch batch;
    const int32_t *stage;
};

static bool scenario_slots(struct scenario *sc, const cJSON *item)
{
    const cJSON *list, *id;
    struct esper_error error;
    if (json_get_array(item, "slots", &list, &error) != ESPER_OK) {
        source_fail(sc->source, sc->name, error.text);
        return false;
    }
    cJSON_ArrayForEach(id, list)
    {
        bool valid = cJSON_IsString(id) && sc->count < SHAPE_SLOTS && rig_slot_valid(&sc->host, id->valuestring);
        for (int i = 0; valid && i < sc->count; i++)
            valid = strcmp(sc->slots[i], id->valuestring) != 0;
        if (!valid) {
            source_fail(sc->source, sc->name, "lists a slot twice, or one that its host does not have");
            return false;
        }
        sc->slots[sc->count++] = id->valuestring;
    }
    return true;
}

/* The file names the host's task; where that cannot be found, every block pools (D-31). */
static int scenario_pools(const struct scenario *sc, const cJSON *item)
{
    const cJSON *given = json_find(item, "pools"), *task = json_find(item, "task");
    struct config config;
    struct esper_error error;
    if (cJSON_IsNumber(given) && given->valuedouble >= 0 && given->valuedouble <= sc->host.blocks)
        return (int)given->valuedouble;
    config_defaults(&config);
    if (cJSON_IsString(task) && config_load_task(&config, task->valuestring, &error) == ESPER_OK &&
        config.host_blocks == sc->host.blocks && config.host_base == sc->host.base)
        return config.host_pools;
    return sc->host.blocks;
}

/* The order in which the slots meet the data (I-28). */
static void scenario_order(const struct scenario *sc, const cJSON *item)
{
    const cJSON *order = json_find(item, "execution_order"), *id;
    int k = 0;
    bool same = true;
    if (!order)
        return;
    cJSON_ArrayForEach(id, order)
    {
        same &= cJSON_IsString(id) && k < sc->count &&
                strcmp(id->valuestring, sc->slots[sc->rig.shape.exec_order[k]]) == 0;
        k++;
    }
    source_flag(sc->source, name_of("%s.execution_order", sc->name).text, same && k == sc->count,
                "slots run in another order");
}

/* Slot states of the file into the rig, parameters of the live seeds with them. */
static bool scenario_wake(struct scenario *sc)
{
    const struct source *source = sc->source;
    size_t count = (size_t)sc->count;
    const int32_t *algo = source_integers(source, name_of("%s.algo", sc->name).text, count);
    const int32_t *blueprint = source_integers(source, name_of("%s.blueprint", sc->name).text, count);
    const float *alpha = source_floats(source, name_of("%s.alpha", sc->name).text, 1, &count);
    const uint8_t *isolate = source_bytes(source, name_of("%s.isolate", sc->name).text, count);
    const uint8_t *frozen = source_bytes(source, name_of("%s.frozen", sc->name).text, count);
    sc->stage = source_integers(source, name_of("%s.stage", sc->name).text, count);
    bool complete = algo && blueprint && alpha && isolate && frozen && sc->stage;
    for (int j = 0; complete && j < sc->count; j++) {
        struct slot_exec *exec = &sc->rig.exec[j];
        if (!stage_is_active(sc->stage[j]))
            continue; /* its pool stays full of NAN: it must not be read (I-30) */
        if (!blueprint_at(blueprint[j]) || algo[j] < ALGORITHM_ADD || algo[j] > ALGORITHM_GATE) {
            source_fail(source, name_of("%s.blueprint", sc->name).text, "has a live slot without seed or operator");
            return false;
        }
        rig_wake(&sc->rig, j, stage_is_blended(sc->stage[j]) ? SLOT_BLEND : SLOT_STE, blueprint[j], algo[j], alpha[j]);
        exec->isolate = isolate[j] != 0;
        exec->train = frozen[j] == 0;
        complete &= source_load_layout(source, name_of("%s.seed.%s.param", sc->name, sc->slots[j]).text,
                                       rig_seed_layout(&sc->rig, j), sc->rig.params.seed + sc->rig.shape.slot[j].seed);
        if (exec->gate)
            complete &= source_load_layout(source, name_of("%s.gate.%s.param", sc->name, sc->slots[j]).text,
                                           rig_gate_layout(&sc->rig, j),
                                           sc->rig.params.gate + sc->rig.shape.slot[j].gate);
    }
    return complete;
}

/* From the metadata to a network ready to run; failures are reported. */
static bool scenario_open(struct scenario *sc, const struct source *source, const char *name, const cJSON *item,
                          struct scrap *scrap)
{
    const char *host;
    struct esper_error error;
    *sc = (struct scenario){.source = source, .name = name};
    if (json_get_string(item, "host", &host, &error) != ESPER_OK) {
        source_fail(source, name, error.text);
        return false;
    }
    struct source_name prefix = name_of("host.%s", host);
    if (!host_read_size(source, "x", &sc->host) || !host_read_geometry(source, prefix.text, &sc->host) ||
        !host_read_batch(source, "x", "y", &sc->host, &sc->batch))
        return false;
    sc->host.pools = scenario_pools(sc, item);
    if (!rig_host_valid(&sc->host)) {
        source_fail(source, name, "is a host that cannot be built");
        return false;
    }
    if (!scenario_slots(sc, item))
        return false;
    rig_init(&sc->rig, scrap, &sc->host, sc->slots, sc->count);
    if (source_leaves_out(source, name, &sc->rig.shape, sc->host.images))
        return false;
    if (!scrap_ready(scrap, source->report, name) ||
        !source_load_layout(source, prefix.text, &sc->rig.shape.host, sc->rig.params.host) ||
        !host_visit_stats(source, prefix.text, &sc->rig, true) || !scenario_wake(sc))
        return false;
    host_load_batch(&sc->rig, &sc->batch);
    return true;
}

/* Gradients of one group of tensors, judged by the group's norm. */
static void compare_grads(const struct source *source, const char *prefix, const struct param_layout *layout,
                          const real *grads)
{
    double norm = source_layout_norm(source, prefix, layout);
    source_compare_layout(source, prefix, layout, grads, (struct tolerance){0, 1e-4 * (norm + 1e-3)});
}

static void compare_telemetry(const struct scenario *sc, int slot, const struct slot_grads *got)
{
    struct source_name name = name_of("%s.telemetry.%s", sc->name, sc->slots[slot]);
    if (!st_find(sc->source->file, name.text)) /* stages that are not measured, and those of telemetry_skipped */
        return;
    const float *want = source_floats(sc->source, name.text, 1, (const size_t[]){5});
    if (!want)
        return;
    source_compare_value(sc->source, name_of("%s.norm", name.text).text, got->norm, (double)want[0], SLOTS_TELEMETRY);
    source_compare_value(sc->source, name_of("%s.health", name.text).text, got->health, (double)want[1],
                         SLOTS_TELEMETRY);
    source_flag(sc->source, name_of("%s.vanishing", name.text).text, got->vanishing == (want[2] != 0), "flag differs");
    source_flag(sc->source, name_of("%s.exploding", name.text).text, got->exploding == (want[3] != 0), "flag differs");
    source_compare_value(sc->source, name_of("%s.ratio", name.text).text, got->ratio, (double)want[4], SLOTS_TELEMETRY);
}

static void scenario_compare(struct scenario *sc, const struct net_params *grads, const struct net_result *result,
                             struct scrap *scrap)
{
    const struct source *source = sc->source;
    const char *name = sc->name;
    int stride;
    const real *logits = cnn_logits(sc->rig.net, &stride);
    host_compare_logits(source, name_of("%s.logits", name).text, sc->batch.images, stride, logits, SLOTS_LOGITS, scrap);
    host_compare_scalar(source, name_of("%s.loss", name).text, result->score.loss / sc->batch.images, SLOTS_LOSS);
    compare_grads(source, name_of("%s.grad", name).text, &sc->rig.shape.host, grads->host);
    for (int j = 0; j < sc->count; j++) {
        const struct slot_shape *shape = &sc->rig.shape.slot[j];
        if (sc->rig.exec[j].train && sc->rig.exec[j].mode != SLOT_SKIP) {
            compare_grads(source, name_of("%s.seed.%s.grad", name, sc->slots[j]).text, rig_seed_layout(&sc->rig, j),
                          grads->seed + shape->seed);
            if (sc->rig.exec[j].gate)
                compare_grads(source, name_of("%s.gate.%s.grad", name, sc->slots[j]).text, rig_gate_layout(&sc->rig, j),
                              grads->gate + shape->gate);
        }
        compare_telemetry(sc, j, &result->grads[j]);
    }
}

/*
 * Whether position `first` in the order of execution gets the gradient of the file. Files isolate blended seeds, which
 * runs never do and bf16 kernels do not support: what comes before one gets a different gradient.
 */
static bool gradient_reaches(const struct scenario *sc, int first)
{
    for (int k = first; k < sc->count; k++) {
        const struct slot_exec *exec = &sc->rig.exec[sc->rig.shape.exec_order[k]];
        if (exec->mode == SLOT_BLEND && exec->isolate)
            return false;
    }
    return true;
}

/* bf16 does not preserve the direction of gate nets' gradients: they are tiny. */
static void scenario_compare_rough(struct scenario *sc, const struct net_params *grads, const struct net_result *result)
{
    const struct source *source = sc->source;
    const char *name = sc->name;
    host_compare_scalar(source, name_of("%s.loss", name).text, result->score.loss / sc->batch.images, SLOTS_LOSS_ROUGH);
    if (gradient_reaches(sc, 0))
        source_compare_direction(source, name_of("%s.grad", name).text, &sc->rig.shape.host, grads->host,
                                 SLOTS_COSINE_ROUGH);
    for (int k = 0; k < sc->count; k++) {
        const int j = sc->rig.shape.exec_order[k];
        const struct slot_exec *exec = &sc->rig.exec[j];
        if (exec->train && exec->mode != SLOT_SKIP && gradient_reaches(sc, k + 1))
            source_compare_direction(source, name_of("%s.seed.%s.grad", name, sc->slots[j]).text,
                                     rig_seed_layout(&sc->rig, j), grads->seed + sc->rig.shape.slot[j].seed,
                                     SLOTS_COSINE_ROUGH);
    }
}

static void scenario_check(const struct source *source, const char *name, const cJSON *item)
{
    struct scrap scrap = {0};
    struct scenario sc;
    struct net_result result;
    if (!scenario_open(&sc, source, name, item, &scrap))
        goto cleanup;
    if (!source->device) /* the order is the shape's, not the kernels' */
        scenario_order(&sc, item);
    struct net_batch batch = rig_batch(&sc.rig);
    cnn_gradients(sc.rig.net, &sc.rig.params, &batch, &result);
    cnn_measure(sc.rig.net, &batch, &result);
    const struct net_params grads = cnn_grads(sc.rig.net);
    if (source->rough)
        scenario_compare_rough(&sc, &grads, &result);
    else
        scenario_compare(&sc, &grads, &result, &scrap);
    host_visit_stats(source, name_of("%s.stat", name).text, &sc.rig, false);
cleanup:
    scrap_free(&scrap);
}

/* ---- host_slots: training and evaluation from a scenario -------------------------------------------------------- */

static bool train_settings(const struct source *source, const cJSON *item, struct net_rates *rates, int *steps)
{
    double lr, seed_lr, momentum, decay, seed_decay;
    const char *name = item->string;
    if (!source_integer(source, item, name, "steps", 1, 1000, steps) || !source_number(source, item, name, "lr", &lr) ||
        !source_number(source, item, name, "seed_lr", &seed_lr) ||
        !source_number(source, item, name, "momentum", &momentum) ||
        !source_number(source, item, name, "host_weight_decay", &decay) ||
        !source_number(source, item, name, "seed_weight_decay", &seed_decay) ||
        !source_number(source, item, name, "max_grad_norm", &rates->max_grad_norm))
        return false;
    rates->host = optimiser_sgd((real)lr, (real)momentum, (real)decay);
    rates->seed = optimiser_sgd((real)seed_lr, (real)momentum, (real)seed_decay);
    return true;
}

/* Parameters and momentum of one group of tensors after training. A frozen one may be left out of the file. */
static void compare_trained(const struct source *source, const char *prefix, const struct param_layout *layout,
                            const real *params, const real *momentum, bool train, double max_norm)
{
    struct source_name param = name_of("%s.param", prefix), mom = name_of("%s.mom", prefix);
    if (train || source_has(source, name_of("%s.", param.text).text))
        source_compare_layout(source, param.text, layout, params, SLOTS_PARAMS);
    if (train || source_has(source, name_of("%s.", mom.text).text))
        source_compare_layout(source, mom.text, layout, momentum, (struct tolerance){0, 1e-4 * max_norm});
}

static void train_compare(const struct scenario *sc, const char *name, struct rig *rig, double max_norm)
{
    const struct source *source = sc->source;
    compare_trained(source, name, &rig->shape.host, rig->params.host, rig->memory.first.host, true, max_norm);
    host_visit_stats(source, name_of("%s.stat", name).text, rig, false);
    for (int j = 0; j < sc->count; j++) {
        const struct slot_shape *shape = &rig->shape.slot[j];
        if (rig->exec[j].mode == SLOT_SKIP)
            continue;
        compare_trained(source, name_of("%s.seed.%s", name, sc->slots[j]).text, rig_seed_layout(rig, j),
                        rig->params.seed + shape->seed, rig->memory.first.seed + shape->seed, rig->exec[j].train,
                        max_norm);
        if (rig->exec[j].gate)
            compare_trained(source, name_of("%s.gate.%s", name, sc->slots[j]).text, rig_gate_layout(rig, j),
                            rig->params.gate + shape->gate, rig->memory.first.gate + shape->gate, rig->exec[j].train,
                            max_norm);
    }
}

static void train_check(const struct source *source, const cJSON *item, const char *start, const cJSON *scenario)
{
    struct scrap scrap = {0};
    struct scenario sc;
    struct net_rates rates = {0};
    struct net_result result;
    const char *name = item->string;
    int steps;
    if (!train_settings(source, item, &rates, &steps) || !scenario_open(&sc, source, start, scenario, &scrap))
        goto cleanup;
    for (int k = 0; k < steps; k++) { /* batches x, x2, x3 ... */
        struct source_name x = k ? name_of("x%d", k + 1) : name_of("x"), y = k ? name_of("y%d", k + 1) : name_of("y");
        struct host_batch images;
        if (!host_read_batch(source, x.text, y.text, &sc.host, &images))
            goto cleanup;
        if (images.images > sc.host.images) {
            source_fail(source, x.text, "has more images than x");
            goto cleanup;
        }
        host_load_batch(&sc.rig, &images);
        struct net_batch batch = rig_batch(&sc.rig);
        cnn_gradients(sc.rig.net, &sc.rig.params, &batch, &result);
        cnn_update(sc.rig.net, &sc.rig.params, &sc.rig.memory, &batch, &rates, &result);
        host_compare_scalar(source, name_of("%s.step%d.loss", name, k).text, result.score.loss / images.images,
                            SLOTS_LOSS);
        host_compare_correct(source, name_of("%s.step%d.correct", name, k).text, (uint32_t)result.score.hits);
    }
    train_compare(&sc, name, &sc.rig, rates.max_grad_norm);
cleanup:
    scrap_free(&scrap);
}

/* K configurations, as many at a time as one call takes; row = k * images + b. */
static void fused_run(struct scenario *sc, const struct slot_exec *exec, int configs, const float (*alpha)[SHAPE_SLOTS],
                      real *logits)
{
    struct net_score score[NET_MAX_CONFIGS] = {{0}};
    for (int first = 0; first < configs; first += NET_MAX_CONFIGS) {
        int count = configs - first < NET_MAX_CONFIGS ? configs - first : NET_MAX_CONFIGS;
        struct net_eval eval = {.samples = sc->batch.images,
                                .exec = exec,
                                .configs = count,
                                .alpha = alpha + first,
                                .score = score,
                                .logits = logits + (size_t)first * sc->batch.images * SHAPE_CLASSES};
        cnn_evaluate(sc->rig.net, &sc->rig.params, &eval);
    }
}

static void fused_check(const struct source *source, const cJSON *item, const char *start, const cJSON *scenario)
{
    struct scrap scrap = {0};
    struct scenario sc;
    const char *name = item->string;
    int configs;
    if (!source_integer(source, item, name, "configs", 1, 4096, &configs) ||
        !scenario_open(&sc, source, start, scenario, &scrap))
        goto cleanup;
    const float *table =
        source_floats(source, name_of("%s.alpha", name).text, 2, (const size_t[]){(size_t)configs, (size_t)sc.count});
    const uint8_t *overridden = source_bytes(source, name_of("%s.overridden", name).text, (size_t)sc.count);
    float(*alpha)[SHAPE_SLOTS] = scrap_take(&scrap, (size_t)configs, sizeof *alpha);
    real *logits = scrap_reals(&scrap, (size_t)configs * sc.batch.images * SHAPE_CLASSES);
    if (!table || !overridden || !scrap_ready(&scrap, source->report, name))
        goto cleanup;

    struct slot_exec exec[SHAPE_SLOTS];
    memcpy(exec, sc.rig.exec, sizeof exec);
    for (int j = 0; j < sc.count; j++) {
        float own = exec[j].mode == SLOT_BLEND ? exec[j].alpha : 0; /* the normal path */
        if (overridden[j] && exec[j].mode == SLOT_STE)
            exec[j].mode = SLOT_BLEND;
        for (int k = 0; k < configs; k++)
            alpha[k][j] = overridden[j] ? table[k * sc.count + j] : own;
    }
    fused_run(&sc, exec, configs, (const float(*)[SHAPE_SLOTS])alpha, logits);
    host_compare_logits(source, name_of("%s.logits", name).text, configs * sc.batch.images, SHAPE_CLASSES, logits,
                        SLOTS_LOGITS, &scrap);
    for (int j = 0; j < sc.count; j++)
        alpha[0][j] = sc.rig.exec[j].mode == SLOT_BLEND ? sc.rig.exec[j].alpha : 0;
    fused_run(&sc, sc.rig.exec, 1, (const float(*)[SHAPE_SLOTS])alpha, logits);
    host_compare_logits(source, name_of("%s.plain_logits", name).text, sc.batch.images, SHAPE_CLASSES, logits,
                        SLOTS_LOGITS, &scrap);
cleanup:
    scrap_free(&scrap);
}

void check_host_slots(const struct source *source)
{
    cJSON *scenarios = source_meta(source, "scenarios");
    const cJSON *item;
    cJSON_ArrayForEach(item, scenarios)
    {
        if (!cJSON_IsObject(item)) /* telemetry_skipped */
            continue;
        const cJSON *start = json_find(item, "start");
        const cJSON *from = cJSON_IsString(start) ? json_find(scenarios, start->valuestring) : NULL;
        if (!start)
            scenario_check(source, item->string, item);
        else if (source->rough) /* what was learned in several steps, and logits */
            continue;
        else if (!from)
            source_fail(source, item->string, "starts from a scenario that is not there");
        else if (strncmp(item->string, "fused_", 6) == 0)
            fused_check(source, item, start->valuestring, from);
        else
            train_check(source, item, start->valuestring, from);
    }
    cJSON_Delete(scenarios);
}
