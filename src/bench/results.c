#include "bench/results.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/file.h"
#include "base/json.h"

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Four figures are more than any of these measurements deserves. */
static void add_rounded(cJSON *object, const char *key, double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.4g", value);
    double rounded;
    if (sscanf(text, "%lf", &rounded) == 1)
        json_add_number(object, key, rounded);
}

static void add_share(cJSON *object, const struct suite *suite, double gflops, bool all_threads)
{
    if (suite->options.roof)
        add_rounded(object, "of_roof", suite_roof_share(suite, gflops, all_threads));
}

static void add_machine(cJSON *root, const struct suite *suite)
{
    cJSON *machine = json_add_object(root, "machine");
    json_add_text(machine, "cpu", suite->machine.model);
    json_add_text(machine, "architecture", suite->machine.architecture);
    json_add_number(machine, "cores", suite->machine.cores);
    json_add_text(machine, "variant", suite->variant);
    json_add_number(machine, "threads", suite->options.threads);
    json_add_number(machine, "rounds", suite->rounds);
}

static void add_roof(cJSON *root, const struct suite *suite)
{
    static const char *const keys[ROOF_KINDS] = {"multiply_add_gflops", "memory_read_gb_per_s", "memory_copy_gb_per_s"};
    cJSON *roof = json_add_object(root, "roof");
    cJSON *one = json_add_object(roof, "one_thread"), *all = json_add_object(roof, "all_threads");
    for (int kind = 0; kind < ROOF_KINDS; kind++) {
        add_rounded(one, keys[kind], 1e-9 * suite->roof.one[kind].best);
        add_rounded(all, keys[kind], 1e-9 * suite->roof.all[kind].best);
    }
}

static void add_kernels(cJSON *root, const struct suite *suite)
{
    cJSON *kernels = json_add_list(root, "kernels");
    for (int i = 0; i < suite->kernels.count; i++) {
        const struct kernel_case *kernel = &suite->kernels.cases[i];
        for (int d = 0; d < KERNEL_DIRECTIONS; d++) {
            if (!kernel_measured(kernel, (enum kernel_direction)d))
                continue;
            double rate = kernel->measure[d].best, gflops = 1e-9 * rate * kernel_flops(kernel);
            cJSON *row = json_add_object(kernels, NULL);
            json_add_number(row, "kernel", kernel->kernel);
            json_add_number(row, "cin", kernel->cin);
            json_add_number(row, "cout", kernel->cout);
            json_add_number(row, "size", kernel->size);
            json_add_text(row, "direction", kernel_direction_name((enum kernel_direction)d));
            add_rounded(row, "images_per_s", rate);
            add_rounded(row, "gflops", gflops);
            add_share(row, suite, gflops, false);
        }
    }
}

static void add_steps(cJSON *root, const struct suite *suite)
{
    cJSON *steps = json_add_list(root, "steps");
    for (int i = 0; i < suite->steps.cases; i++) {
        const struct step_case *step = &suite->steps.step[i];
        const struct config *config = &step->host->host.config;
        cJSON *row = json_add_object(steps, NULL);
        json_add_text(row, "name", config->task);
        json_add_bool(row, "grown", step->grown);
        json_add_number(row, "nets", step->host->nets);
        json_add_number(row, "batch", config->data_batch);
        json_add_number(row, "threads", suite->options.threads);
        add_rounded(row, "images_per_s", step->in_place.best);
        add_rounded(row, "images_per_s_gather", step->gathered.best);
        add_rounded(row, "ms_per_step", suite_step_ms(step));
        add_rounded(row, "gflops", suite_step_gflops(step));
        add_share(row, suite, suite_step_gflops(step), true);
    }
}

static void add_evaluations(cJSON *root, const struct suite *suite)
{
    cJSON *evaluations = json_add_list(root, "evaluation");
    for (int i = 0; i < suite->steps.evaluations; i++) {
        const struct eval_case *evaluation = &suite->steps.evaluation[i];
        cJSON *row = json_add_object(evaluations, NULL);
        json_add_text(row, "name", evaluation->host->host.config.task);
        json_add_number(row, "seeds", evaluation->seeds);
        json_add_number(row, "configs", evaluation->configs);
        json_add_number(row, "nets", evaluation->host->nets);
        json_add_number(row, "threads", suite->options.threads);
        add_rounded(row, "images_configs_per_s", evaluation->measure.best);
    }
}

cJSON *results_json(const struct suite *suite)
{
    cJSON *root = cJSON_CreateObject();
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
    cJSON *object = json_add_object(row, "per_step");
    add_rounded(object, "launches", counts->launches);
    add_rounded(object, "graph_launches", counts->graph_launches);
    add_rounded(object, "graph_nodes", counts->graph_nodes);
    add_rounded(object, "syncs", counts->syncs);
    add_rounded(object, "most_syncs", counts->most_syncs);
    add_rounded(object, "allocations", counts->allocations);
    add_rounded(object, "copies", counts->copies);
    add_rounded(object, "bytes_to", counts->bytes_to);
    add_rounded(object, "bytes_from", counts->bytes_from);
}

static void add_loop(cJSON *array, const struct loop_case *loop)
{
    cJSON *row = json_add_object(array, NULL);
    json_add_text(row, "kind", loop_kind_name(loop->kind));
    json_add_text(row, "task", loop->task);
    json_add_number(row, "envs", loop->envs);
    json_add_number(row, "batch", loop->batch);
    json_add_number(row, "batches", loop->batches);
    json_add_text(row, "blueprint", blueprint_name(loop->blueprint));
    if (loop->blueprint != BLUEPRINT_NONE)
        json_add_text(row, "stage", stage_name(loop->stage));
    if (loop->failed[0]) {
        json_add_text(row, "failed", loop->failed);
        return;
    }
    json_add_text(row, "kernels", loop->kernels);
    json_add_text(row, "unit", loop_unit(loop->kind));
    add_rounded(row, "rate", loop->rate);
    add_rounded(row, "ms_per_step", loop->ms);
    if (loop->gflops > 0)
        add_rounded(row, "gflops", loop->gflops);
    if (loop->kind != LOOP_TRAIN)
        add_rounded(row, "subsets", loop->subsets);
    if (loop->kind == LOOP_WHOLE) {
        cJSON *live = json_add_object(row, "seeds_per_env");
        for (int stage = 0; stage < STAGE_LIMIT; stage++)
            if (stage_is_live(stage))
                add_rounded(live, stage_name(stage), loop->live[stage]);
        json_add_number(row, "steps", loop->steps);
        add_rounded(row, "update_ms", loop->update_ms);
    }
    add_counts(row, &loop->counts);
}

cJSON *results_loops_json(const struct loops *loops)
{
    cJSON *root = cJSON_CreateObject();
    json_add_text(root, "device", loops->use.cuda ? loops->use.info.name : "cpu");
    json_add_text(root, "images", loops->images[0] ? "random" : "cifar10");
    cJSON *array = json_add_list(root, "loops");
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
        csv_line(csv, "%s,%s,%s,0,%.4g,copies/step,\n", kind, loop->task, what, loop->counts.copies);
        if (loop->kind == LOOP_WHOLE)
            csv_line(csv, "%s,%s,%s,0,%.4g,most waits/step,\n", kind, loop->task, what, loop->counts.most_syncs);
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
