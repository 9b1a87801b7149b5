#include "bench/results.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/file.h"

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Four figures are more than any of these measurements deserves. */
static void add_rounded(cJSON *object, const char *key, double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.4g", value);
    double rounded;
    if (sscanf(text, "%lf", &rounded) == 1)
        cJSON_AddNumberToObject(object, key, rounded);
}

static void add_share(cJSON *object, const struct suite *suite, double gflops, bool all_threads)
{
    if (suite->options.roof)
        add_rounded(object, "of_roof", suite_roof_share(suite, gflops, all_threads));
}

static cJSON *append_object(cJSON *array)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddItemToArray(array, object);
    return object;
}

static void add_machine(cJSON *root, const struct suite *suite)
{
    cJSON *machine = cJSON_AddObjectToObject(root, "machine");
    cJSON_AddStringToObject(machine, "cpu", suite->machine.model);
    cJSON_AddStringToObject(machine, "architecture", suite->machine.architecture);
    cJSON_AddNumberToObject(machine, "cores", suite->machine.cores);
    cJSON_AddStringToObject(machine, "variant", suite->variant);
    cJSON_AddNumberToObject(machine, "threads", suite->options.threads);
    cJSON_AddNumberToObject(machine, "rounds", suite->rounds);
}

static void add_roof(cJSON *root, const struct suite *suite)
{
    static const char *const keys[ROOF_KINDS] = {"multiply_add_gflops", "memory_read_gb_per_s", "memory_copy_gb_per_s"};
    cJSON *roof = cJSON_AddObjectToObject(root, "roof");
    cJSON *one = cJSON_AddObjectToObject(roof, "one_thread"), *all = cJSON_AddObjectToObject(roof, "all_threads");
    for (int kind = 0; kind < ROOF_KINDS; kind++) {
        add_rounded(one, keys[kind], 1e-9 * suite->roof.one[kind].best);
        add_rounded(all, keys[kind], 1e-9 * suite->roof.all[kind].best);
    }
}

static void add_kernels(cJSON *root, const struct suite *suite)
{
    cJSON *kernels = cJSON_AddArrayToObject(root, "kernels");
    for (int i = 0; i < suite->kernels.count; i++) {
        const struct kernel_case *kernel = &suite->kernels.cases[i];
        for (int d = 0; d < KERNEL_DIRECTIONS; d++) {
            if (!kernel_measured(kernel, (enum kernel_direction)d))
                continue;
            double rate = kernel->measure[d].best, gflops = 1e-9 * rate * kernel_flops(kernel);
            cJSON *row = append_object(kernels);
            cJSON_AddNumberToObject(row, "kernel", kernel->kernel);
            cJSON_AddNumberToObject(row, "cin", kernel->cin);
            cJSON_AddNumberToObject(row, "cout", kernel->cout);
            cJSON_AddNumberToObject(row, "size", kernel->size);
            cJSON_AddStringToObject(row, "direction", kernel_direction_name((enum kernel_direction)d));
            add_rounded(row, "images_per_s", rate);
            add_rounded(row, "gflops", gflops);
            add_share(row, suite, gflops, false);
        }
    }
}

static void add_steps(cJSON *root, const struct suite *suite)
{
    cJSON *steps = cJSON_AddArrayToObject(root, "steps");
    for (int i = 0; i < suite->steps.cases; i++) {
        const struct step_case *step = &suite->steps.step[i];
        const struct config *config = &step->host->host.config;
        cJSON *row = append_object(steps);
        cJSON_AddStringToObject(row, "name", config->task);
        cJSON_AddBoolToObject(row, "grown", step->grown);
        cJSON_AddNumberToObject(row, "nets", step->host->nets);
        cJSON_AddNumberToObject(row, "batch", config->data_batch);
        cJSON_AddNumberToObject(row, "threads", suite->options.threads);
        add_rounded(row, "images_per_s", step->in_place.best);
        add_rounded(row, "images_per_s_gather", step->gathered.best);
        add_rounded(row, "ms_per_step", suite_step_ms(step));
        add_rounded(row, "gflops", suite_step_gflops(step));
        add_share(row, suite, suite_step_gflops(step), true);
    }
}

static void add_evaluations(cJSON *root, const struct suite *suite)
{
    cJSON *evaluations = cJSON_AddArrayToObject(root, "evaluation");
    for (int i = 0; i < suite->steps.evaluations; i++) {
        const struct eval_case *evaluation = &suite->steps.evaluation[i];
        cJSON *row = append_object(evaluations);
        cJSON_AddStringToObject(row, "name", evaluation->host->host.config.task);
        cJSON_AddNumberToObject(row, "seeds", evaluation->seeds);
        cJSON_AddNumberToObject(row, "configs", evaluation->configs);
        cJSON_AddNumberToObject(row, "nets", evaluation->host->nets);
        cJSON_AddNumberToObject(row, "threads", suite->options.threads);
        add_rounded(row, "images_configs_per_s", evaluation->measure.best);
    }
}

cJSON *results_json(const struct suite *suite)
{
    cJSON *root = cJSON_CreateObject();
    if (!root)
        return NULL;
    add_machine(root, suite);
    if (suite->options.roof)
        add_roof(root, suite);
    add_kernels(root, suite);
    add_steps(root, suite);
    add_evaluations(root, suite);
    return root;
}

static void add_counts(cJSON *row, const struct loop_counts *counts)
{
    if (!counts->known)
        return;
    cJSON *object = cJSON_AddObjectToObject(row, "per_step");
    add_rounded(object, "launches", counts->launches);
    add_rounded(object, "graph_launches", counts->graph_launches);
    add_rounded(object, "graph_nodes", counts->graph_nodes);
    add_rounded(object, "syncs", counts->syncs);
    add_rounded(object, "allocations", counts->allocations);
    add_rounded(object, "bytes_to", counts->bytes_to);
    add_rounded(object, "bytes_from", counts->bytes_from);
}

static void add_loop(cJSON *array, const struct loop_case *loop)
{
    cJSON *row = append_object(array);
    cJSON_AddStringToObject(row, "kind", loop_kind_name(loop->kind));
    cJSON_AddStringToObject(row, "task", loop->task);
    cJSON_AddNumberToObject(row, "envs", loop->envs);
    cJSON_AddNumberToObject(row, "batch", loop->batch);
    cJSON_AddNumberToObject(row, "batches", loop->batches);
    cJSON_AddStringToObject(row, "blueprint", blueprint_name(loop->blueprint));
    if (loop->blueprint != BLUEPRINT_NONE)
        cJSON_AddStringToObject(row, "stage", stage_name(loop->stage));
    if (loop->failed[0]) {
        cJSON_AddStringToObject(row, "failed", loop->failed);
        return;
    }
    cJSON_AddStringToObject(row, "kernels", loop->kernels);
    cJSON_AddStringToObject(row, "unit", loop_unit(loop->kind));
    add_rounded(row, "rate", loop->rate);
    add_rounded(row, "ms_per_step", loop->ms);
    if (loop->gflops > 0)
        add_rounded(row, "gflops", loop->gflops);
    if (loop->kind != LOOP_TRAIN)
        add_rounded(row, "subsets", loop->subsets);
    if (loop->kind == LOOP_WHOLE) {
        cJSON *live = cJSON_AddObjectToObject(row, "seeds_per_env");
        for (int stage = 0; stage < STAGE_LIMIT; stage++)
            if (stage_is_live(stage))
                add_rounded(live, stage_name(stage), loop->live[stage]);
        cJSON_AddNumberToObject(row, "steps", loop->steps);
        add_rounded(row, "update_ms", loop->update_ms);
    }
    add_counts(row, &loop->counts);
}

cJSON *results_loops_json(const struct loops *loops)
{
    cJSON *root = cJSON_CreateObject();
    if (!root)
        return NULL;
    cJSON_AddStringToObject(root, "device", loops->use.cuda ? loops->use.info.name : "cpu");
    cJSON_AddStringToObject(root, "images", loops->images[0] ? "random" : "cifar10");
    cJSON *array = cJSON_AddArrayToObject(root, "loops");
    for (int i = 0; i < loops->count; i++)
        add_loop(array, &loops->cases[i]);
    return root;
}

/* ---- CSV --------------------------------------------------------------------------------------------------------- */

struct csv {
    struct file_writer writer;
    enum esper_status status; /* the first failure; rows after it are not written */
    struct esper_error *error;
};

static void csv_line(struct csv *csv, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void csv_line(struct csv *csv, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (csv->status == ESPER_OK && length > 0 && length < (int)sizeof line)
        csv->status = file_write(&csv->writer, line, (size_t)length, csv->error);
}

/* A share of the peak, or an empty field. */
static const char *csv_share(const struct suite *suite, double gflops, bool all_threads, char text[16])
{
    text[0] = '\0';
    if (suite->options.roof)
        snprintf(text, 16, "%.3f", suite_roof_share(suite, gflops, all_threads));
    return text;
}

static void csv_kernels(struct csv *csv, const struct suite *suite)
{
    for (int i = 0; i < suite->kernels.count; i++) {
        const struct kernel_case *k = &suite->kernels.cases[i];
        for (int d = 0; d < KERNEL_DIRECTIONS; d++) {
            char share[16];
            double gflops = 1e-9 * k->measure[d].best * kernel_flops(k);
            if (kernel_measured(k, (enum kernel_direction)d))
                csv_line(csv, "kernel,%dx%d %d>%d %dx%d,%s,1,%.4g,GFLOP/s,%s\n", k->kernel, k->kernel, k->cin, k->cout,
                         k->size, k->size, kernel_direction_name((enum kernel_direction)d), gflops,
                         csv_share(suite, gflops, false, share));
        }
    }
}

static void csv_steps(struct csv *csv, const struct suite *suite)
{
    int threads = suite->options.threads;
    for (int i = 0; i < suite->steps.cases; i++) {
        const struct step_case *step = &suite->steps.step[i];
        const char *name = step->host->host.config.task, *seeds = step->grown ? "grown" : "host";
        double gflops = suite_step_gflops(step);
        char share[16];
        csv_share(suite, gflops, true, share);
        csv_line(csv, "step,%s,%s,%d,%.4g,images/s,%s\n", name, seeds, threads, step->in_place.best, share);
        csv_line(csv, "step,%s,%s with gather,%d,%.4g,images/s,\n", name, seeds, threads, step->gathered.best);
        csv_line(csv, "step,%s,%s,%d,%.4g,GFLOP/s,%s\n", name, seeds, threads, gflops, share);
    }
    for (int i = 0; i < suite->steps.evaluations; i++) {
        const struct eval_case *evaluation = &suite->steps.evaluation[i];
        csv_line(csv, "evaluation,%s,%d seeds,%d,%.4g,images*configs/s,\n", evaluation->host->host.config.task,
                 evaluation->seeds, threads, evaluation->measure.best);
    }
}

enum esper_status results_write_csv(const struct suite *suite, const char *path, struct esper_error *error)
{
    struct csv csv = {.error = error};
    TRY(file_begin(&csv.writer, path, error));
    csv_line(&csv, "kind,name,what,threads,value,unit,of_roof\n");
    csv_line(&csv, "machine,\"%s\",%s %s,%d,%d,cores,\n", suite->machine.model, suite->machine.architecture,
             suite->variant, suite->options.threads, suite->machine.cores);
    for (int kind = 0; suite->options.roof && kind < ROOF_KINDS; kind++) {
        const char *name = roof_name((enum roof_kind)kind), *unit = roof_unit((enum roof_kind)kind);
        csv_line(&csv, "roof,%s,one thread,1,%.4g,%s,\n", name, 1e-9 * suite->roof.one[kind].best, unit);
        csv_line(&csv, "roof,%s,all threads,%d,%.4g,%s,\n", name, suite->options.threads,
                 1e-9 * suite->roof.all[kind].best, unit);
    }
    csv_kernels(&csv, suite);
    csv_steps(&csv, suite);
    if (csv.status == ESPER_OK)
        csv.status = file_commit(&csv.writer, error);
    return csv.status;
}

/* "64 envs x 128, conv_light blending" */
static const char *loop_what(const struct loop_case *loop, char text[96])
{
    bool seeds = loop->blueprint != BLUEPRINT_NONE;
    snprintf(text, 96, "%d envs x %d%s%s%s", loop->envs, loop->batch, seeds ? " " : "",
             seeds ? blueprint_name(loop->blueprint) : "",
             !seeds                          ? ""
             : loop->stage == STAGE_TRAINING ? " training"
                                             : " blended");
    return text;
}

static void csv_loop(struct csv *csv, const struct loop_case *loop)
{
    char what[96];
    const char *kind = loop_kind_name(loop->kind);
    loop_what(loop, what);
    if (loop->failed[0])
        return;
    csv_line(csv, "%s,%s,%s,0,%.4g,%s,\n", kind, loop->task, what, loop->rate, loop_unit(loop->kind));
    csv_line(csv, "%s,%s,%s,0,%.4g,ms/step,\n", kind, loop->task, what, loop->ms);
    if (loop->gflops > 0)
        csv_line(csv, "%s,%s,%s,0,%.4g,GFLOP/s,\n", kind, loop->task, what, loop->gflops);
    if (loop->kind == LOOP_WHOLE) {
        csv_line(csv, "%s,%s,%s,0,%.4g,ms/update,\n", kind, loop->task, what, loop->update_ms);
        csv_line(csv, "%s,%s,%s,0,%.4g,subsets/env-step,\n", kind, loop->task, what, loop->subsets);
        for (int stage = 0; stage < STAGE_LIMIT; stage++)
            if (stage_is_live(stage))
                csv_line(csv, "%s,%s,%s,0,%.4g,%s seeds/env,\n", kind, loop->task, what, loop->live[stage],
                         stage_name(stage));
    }
    if (loop->counts.known) {
        csv_line(csv, "%s,%s,%s,0,%.4g,launches/step,\n", kind, loop->task, what,
                 loop->counts.launches + loop->counts.graph_launches);
        csv_line(csv, "%s,%s,%s,0,%.4g,waits/step,\n", kind, loop->task, what, loop->counts.syncs);
        csv_line(csv, "%s,%s,%s,0,%.4g,allocations/step,\n", kind, loop->task, what, loop->counts.allocations);
    }
}

enum esper_status results_write_loops_csv(const struct loops *loops, const char *path, struct esper_error *error)
{
    struct csv csv = {.error = error};
    const struct device_info *info = &loops->use.info;
    TRY(file_begin(&csv.writer, path, error));
    csv_line(&csv, "kind,name,what,threads,value,unit,of_roof\n");
    if (loops->use.cuda)
        csv_line(&csv, "machine,\"%s\",sm_%d%d,0,%d,processors,\n", info->name, info->major, info->minor,
                 info->processors);
    for (int i = 0; i < loops->count; i++)
        csv_loop(&csv, &loops->cases[i]);
    if (csv.status == ESPER_OK)
        csv.status = file_commit(&csv.writer, error);
    return csv.status;
}
