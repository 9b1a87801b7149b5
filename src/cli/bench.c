/* esper bench: the speed of the kernels and of whole training steps, beside the machine's peak; and of the engine, on
 * the CPU or the GPU. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/pool.h"
#include "base/words.h"
#include "bench/results.h"
#include "bench/suite.h"
#include "cli/cli.h"

static void print_machine(const struct suite *suite)
{
    cli_print("%s (%s), %d core%s, %s kernels, fp32; best of %d repetitions\n", suite->machine.model,
              suite->machine.architecture, suite->machine.cores, suite->machine.cores == 1 ? "" : "s", suite->variant,
              suite->rounds);
}

static void print_roof(const struct suite *suite)
{
    cli_print("\npeaks of the machine              1 thread  %2d thread%s\n", suite->options.threads,
              suite->options.threads == 1 ? "" : "s");
    for (int kind = 0; kind < ROOF_KINDS; kind++)
        cli_print("  %-14s %-8s %16.1f %11.1f\n", roof_name((enum roof_kind)kind), roof_unit((enum roof_kind)kind),
                  1e-9 * suite->roof.one[kind].best, 1e-9 * suite->roof.all[kind].best);
    cli_print("  (memory: arrays far larger than the caches; a copied byte counts as one read and one written)\n");
}

/* A speed and, where the peak is known, its share of it; 17 columns. */
static void print_speed(const struct suite *suite, double gflops, bool all_threads)
{
    if (suite->options.roof)
        cli_print("%10.1f %5.1f%%", gflops, 100 * suite_roof_share(suite, gflops, all_threads));
    else
        cli_print("%17.1f", gflops);
}

static void print_kernels(const struct suite *suite)
{
    cli_print("\nconvolutions of the hosts and of conv_light seeds, 1 thread, GFLOP/s%s\n",
              suite->options.roof ? " and share of the multiply-add peak" : "");
    cli_print("  %-6s %9s %7s%17s%17s%17s %10s\n", "kernel", "channels", "maps", "forward", "backward-data",
              "backward-weights", "images/s");
    for (int i = 0; i < suite->kernels.count; i++) {
        const struct kernel_case *kernel = &suite->kernels.cases[i];
        double seconds = 0; /* over all directions, per image */
        cli_print("  %dx%d    %4d>%-4d %3dx%-3d", kernel->kernel, kernel->kernel, kernel->cin, kernel->cout,
                  kernel->size, kernel->size);
        for (int d = 0; d < KERNEL_DIRECTIONS; d++) {
            if (!kernel_measured(kernel, (enum kernel_direction)d)) {
                cli_print("%17s", "-");
                continue;
            }
            print_speed(suite, 1e-9 * kernel->measure[d].best * kernel_flops(kernel), false);
            seconds += 1 / kernel->measure[d].best;
        }
        cli_print(" %10.0f\n", 1 / seconds);
    }
    cli_print("  (images/s: all directions one after the other; a first block needs no backward-data)\n");
}

static void print_steps(const struct suite *suite)
{
    cli_print("\ntraining steps, %d network%s on as many threads; grown: conv_light blending in every slot\n",
              suite->options.threads, suite->options.threads == 1 ? "" : "s");
    cli_print("  %-16s %-6s %5s %10s %12s %9s%17s\n", "host", "", "batch", "images/s", "with gather", "ms/step",
              suite->options.roof ? "GFLOP/s, of peak" : "GFLOP/s");
    for (int i = 0; i < suite->steps.cases; i++) {
        const struct step_case *step = &suite->steps.step[i];
        cli_print("  %-16s %-6s %5d %10.0f %12.0f %9.3f", step->host->host.config.task, step->grown ? "grown" : "alone",
                  step->host->host.config.data_batch, step->in_place.best, step->gathered.best, suite_step_ms(step));
        print_speed(suite, suite_step_gflops(step), true);
        cli_print("\n");
    }
    cli_print(
        "  (forward, backward, clip and update of one batch per network, images in memory; with gather: image order,\n"
        "   augmentation and normalisation as well; ms and GFLOP/s are for images in memory)\n");
}

static void print_evaluations(const struct suite *suite)
{
    cli_print("\nevaluation, images x configurations per second\n");
    for (int i = 0; i < suite->steps.evaluations; i++) {
        const struct eval_case *evaluation = &suite->steps.evaluation[i];
        cli_print("  %-16s %d seeds, %d configuration%s %12.0f\n", evaluation->host->host.config.task,
                  evaluation->seeds, evaluation->configs, evaluation->configs == 1 ? " " : "s",
                  evaluation->measure.best);
    }
}

static void print_tables(const struct suite *suite)
{
    print_machine(suite);
    if (suite->options.roof)
        print_roof(suite);
    if (suite->kernels.count)
        print_kernels(suite);
    if (suite->steps.cases)
        print_steps(suite);
    if (suite->steps.evaluations)
        print_evaluations(suite);
}

/* ---- the engine: tables that are also Markdown ------------------------------------------------------------------- */

static void print_failures(const struct loops *loops)
{
    for (int i = 0; i < loops->count; i++)
        if (loops->cases[i].failed[0])
            cli_print("\nnot measured: %s of %s, %d envs x %d: %s\n", loop_kind_name(loops->cases[i].kind),
                      loops->cases[i].task, loops->cases[i].envs, loops->cases[i].batch, loops->cases[i].failed);
}

/* The next measured case of this kind, from `at` on; NULL after the last. */
static const struct loop_case *next_case(const struct loops *loops, enum loop_kind kind, int *at)
{
    while (*at < loops->count) {
        const struct loop_case *loop = &loops->cases[(*at)++];
        if (loop->kind == kind && !loop->failed[0])
            return loop;
    }
    return NULL;
}

static bool has_case(const struct loops *loops, enum loop_kind kind)
{
    int at = 0;
    return next_case(loops, kind, &at) != NULL;
}

static void print_trained(const struct loops *loops)
{
    const struct loop_case *loop;
    int at = 0;
    cli_print("\ntraining alone (gather, augmentation, forward, backward, clip, update)\n\n");
    cli_print("| host             | envs | batch | seeds in every slot  | million images/s | ms/step | GFLOP/s |\n");
    cli_print("|------------------|------|-------|----------------------|------------------|---------|---------|\n");
    while ((loop = next_case(loops, LOOP_TRAIN, &at))) {
        char seeds[32] = "none";
        if (loop->blueprint != BLUEPRINT_NONE)
            snprintf(seeds, sizeof seeds, "%s %s", blueprint_name(loop->blueprint), stage_name(loop->stage));
        cli_print("| %-16s | %4d | %5d | %-20s | %16.4f | %7.3f | ", loop->task, loop->envs, loop->batch, seeds,
                  1e-6 * loop->rate, loop->ms);
        if (loop->gflops > 0)
            cli_print("%7.0f |\n", loop->gflops);
        else
            cli_print("%7s |\n", "-");
    }
}

static void print_evaluated(const struct loops *loops)
{
    const struct loop_case *loop;
    int at = 0;
    cli_print("\nvalidation of all subsets alone\n\n");
    cli_print("| host             | envs | subsets | million images x subsets/s | ms/step |\n");
    cli_print("|------------------|------|---------|----------------------------|---------|\n");
    while ((loop = next_case(loops, LOOP_EVALUATE, &at)))
        cli_print("| %-16s | %4d | %7.1f | %26.4f | %7.3f |\n", loop->task, loop->envs, loop->subsets,
                  1e-6 * loop->rate, loop->ms);
}

/* Every row names its kernels: a host that the fast ones do not fit uses others. */
static void print_whole(const struct loops *loops)
{
    const struct loop_case *loop;
    int at = 0;
    cli_print("\nthe whole loop, update included (no record); seeds per env by stage: "
              "training, blending, holding, fossil\n\n");
    cli_print("| host             | kernels    | envs | batch | steps | env-steps/s | ms/step | ms/update "
              "| T    | B    | H    | F    | subsets |\n");
    cli_print("|------------------|------------|------|-------|-------|-------------|---------|-----------"
              "|------|------|------|------|---------|\n");
    while ((loop = next_case(loops, LOOP_WHOLE, &at))) {
        cli_print("| %-16s | %-10s | %4d | %5d | %5d | %11.1f | %7.3f | %9.2f ", loop->task, loop->kernels, loop->envs,
                  loop->batch, loop->steps, loop->rate, loop->ms, loop->update_ms);
        cli_print("| %4.2f | %4.2f | %4.2f | %4.2f | %7.2f |\n",
                  loop->live[STAGE_GERMINATED] + loop->live[STAGE_TRAINING], loop->live[STAGE_BLENDING],
                  loop->live[STAGE_HOLDING], loop->live[STAGE_FOSSILIZED], loop->subsets);
    }
}

static void print_counts(const struct loops *loops)
{
    bool any = false;
    for (int i = 0; i < loops->count; i++) {
        const struct loop_case *loop = &loops->cases[i];
        const struct loop_counts *counts = &loop->counts;
        if (loop->failed[0] || !counts->known)
            continue;
        if (!any) {
            cli_print("\nper step, from the host\n\n");
            cli_print("| what     | host             | envs | batch | launches | graphs | nodes    "
                      "| waits | allocations | copies | bytes to | bytes from |\n");
            cli_print("|----------|------------------|------|-------|----------|--------|----------"
                      "|-------|-------------|--------|----------|------------|\n");
        }
        any = true;
        cli_print("| %-8s | %-16s | %4d | %5d | %8.2f | %6.2f | %8.1f | %5.2f | %11.2f | %6.2f | %8.0f | %10.0f |\n",
                  loop_kind_name(loop->kind), loop->task, loop->envs, loop->batch, counts->launches,
                  counts->graph_launches, counts->graph_nodes, counts->syncs, counts->allocations, counts->copies,
                  counts->bytes_to, counts->bytes_from);
    }
}

static void print_loops(const struct loops *loops)
{
    const struct device_info *info = &loops->use.info;
    const char *kernels = "";
    for (int i = 0; i < loops->count && !*kernels; i++)
        kernels = loops->cases[i].kernels;
    if (loops->use.cuda)
        cli_print("%s (sm_%d%d, %d SMs)", info->name, info->major, info->minor, info->processors);
    else
        cli_print("cpu");
    cli_print(", %s; images: %s\n", *kernels ? kernels : "nothing measured", loops->images[0] ? "random" : "CIFAR-10");
    if (has_case(loops, LOOP_TRAIN))
        print_trained(loops);
    if (has_case(loops, LOOP_EVALUATE))
        print_evaluated(loops);
    if (has_case(loops, LOOP_WHOLE))
        print_whole(loops);
    print_counts(loops);
    print_failures(loops);
}

static void show_progress(void *context, int done, int total)
{
    cli_progress(context, done, total, NULL);
}

/* Report an unwritable path now, not after a minute. */
static enum esper_status check_csv(const char *csv, struct esper_error *error)
{
    struct file_writer probe;
    if (!csv)
        return ESPER_OK;
    TRY(file_begin(&probe, csv, error));
    file_abort(&probe);
    return ESPER_OK;
}

static enum esper_status run(const struct suite_options *options, bool json, const char *csv, struct esper_error *error)
{
    struct suite *suite;
    struct cli_progress progress = {.what = "measuring"};
    TRY(check_csv(csv, error));
    TRY(suite_create(&suite, options, error));
    suite_run(suite, isatty(STDERR_FILENO) ? show_progress : NULL, &progress);
    enum esper_status status = ESPER_OK;
    if (json)
        status = cli_print_json(results_json(suite), error);
    else
        print_tables(suite);
    if (status == ESPER_OK && csv)
        status = results_write_csv(suite, csv, error);
    suite_free(suite);
    return status;
}

static enum esper_status run_loops(const struct loops_options *options, bool json, const char *csv,
                                   struct esper_error *error)
{
    struct loops *loops;
    struct cli_progress progress = {.what = "measuring"};
    TRY(check_csv(csv, error));
    TRY(loops_create(&loops, options, error));
    for (int i = 0; i < loops->count; i++) {
        cli_progress(&progress, i, loops->count, NULL);
        loop_measure(loops, &loops->cases[i]);
    }
    cli_progress(&progress, loops->count, loops->count, NULL);
    enum esper_status status = ESPER_OK;
    if (json)
        status = cli_print_json(results_loops_json(loops), error);
    else
        print_loops(loops);
    if (status == ESPER_OK && csv)
        status = results_write_loops_csv(loops, csv, error);
    loops_free(loops);
    return status;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

struct bench_flags {
    struct suite_options suite;
    struct cli_config_flags world; /* device, precision, task, envs */
    struct cli_list parts;
    const char *batch, *csv;
    int milliseconds;
    bool json;
};

/* --part names; "seeds" is the part of "train" that has seeds. */
static enum esper_status choose_parts(const struct cli_list *parts, struct loops_options *loops,
                                      struct esper_error *error)
{
    static const char *const names[] = {"train", "seeds", "evaluate", "loop"};
    bool bare = false;
    for (int i = 0; i < parts->count; i++) {
        int part = 0;
        while (part < 4 && strcmp(parts->items[i], names[part]) != 0)
            part++;
        if (part == 4)
            return error_set(error, ESPER_INVALID, "--part %.40s is unknown%s", parts->items[i],
                             word_hint(parts->items[i], names, 4, NULL).text);
        loops->kinds |= 1u << (part < 2 ? LOOP_TRAIN : part == 2 ? LOOP_EVALUATE : LOOP_WHOLE);
        bare |= part == 0;
        loops->seeds |= part == 1;
    }
    loops->hosts = bare || !loops->seeds;
    loops->seeds |= parts->count == 0;
    return ESPER_OK;
}

/* Any flag of the engine selects its tables; otherwise the kernels of the CPU are measured. */
static enum esper_status start(struct cli_call *call, struct esper_error *error)
{
    const struct bench_flags *flags = call->flags;
    struct config wish;
    const struct cli_config_flags device = {.device = flags->world.device, .precision = flags->world.precision};
    struct loops_options loops = {.task = flags->world.task,
                                  .envs = flags->world.envs,
                                  .batch = flags->batch,
                                  .seconds = 1e-3 * flags->milliseconds};
    cli_output(flags->csv);
    config_defaults(&wish);
    TRY(cli_config_override(&device, &wish, error));
    TRY(choose_parts(&flags->parts, &loops, error));
    loops.device = flags->world.device || flags->world.precision ? wish.device : WISH_CPU; /* the GPU only on request */
    loops.precision = wish.precision;
    bool engine = loops.device != WISH_CPU || flags->parts.count || loops.task || loops.envs || loops.batch;
    if (!engine)
        return run(&flags->suite, flags->json, flags->csv, error);
    if (flags->suite.roof || flags->suite.kernels || flags->suite.peer)
        return error_set(error, ESPER_INVALID,
                         "--roof, --kernels and --peer apply to the CPU kernels only; "
                         "leave out --device, --part, --task, --envs and --batch");
    loops.threads = flags->suite.threads;
    return run_loops(&loops, flags->json, flags->csv, error);
}

#define AT(member) offsetof(struct bench_flags, member)
const struct cli_page bench_page = {
    .usage = "bench [--device cuda] [--part PART] [options]",
    .about = "Measures the convolution kernels of the CPU, whole training steps (each host alone, and grown:\n"
             "conv_light blending in every slot) and evaluation. Takes half a minute; keep the machine idle\n"
             "meanwhile. With --device cuda, or with --part, --task, --envs or --batch on the CPU, it measures the\n"
             "engine: training alone, with every blueprint in every slot, validation, and the whole loop.",
    .example = "esper bench --device cuda --part train --envs 8,64 --batch 128,512",
    .options =
        (const struct cli_option[]){
            {"json", CLI_FLAG, NULL, AT(json), "print one JSON object instead of tables", 0, 0},
            {"csv", CLI_TEXT, "FILE", AT(csv), "also write the results to FILE; - is stdout", 0, 0},
            {"threads", CLI_INT, "N", AT(suite.threads), "CPU threads, and networks trained side by side (2)", 1,
             POOL_MAX_THREADS},
            {"roof", CLI_FLAG, NULL, AT(suite.roof), "also measure the machine's peaks and show every speed as a share",
             0, 0},
            {"kernels", CLI_FLAG, NULL, AT(suite.kernels), "only the convolution kernels", 0, 0},
            {"peer", CLI_FLAG, NULL, AT(suite.peer), "only the steps that bench/torch_peer.py compares; takes seconds",
             0, 0},
            CLI_DEVICE_OPTIONS(AT(world)),
            {"part", CLI_LIST, "PART", AT(parts), "of the engine: train, seeds, evaluate, loop; may be repeated", 0, 0},
            {"task", CLI_TEXT, "NAME", AT(world.task), "the engine on this task (cifar_baseline)", 0, 0},
            {"envs", CLI_TEXT, "N,N", AT(world.envs), "the engine with this many envs", 0, 0},
            {"batch", CLI_TEXT, "N,N", AT(batch), "the engine with this batch size", 0, 0},
            {"milliseconds", CLI_INT, "N", AT(milliseconds), "of the engine: how long each case is measured (500)", 1,
             60000},
            {0}},
    .run = start,
    .flags_size = sizeof(struct bench_flags),
    .defaults = &(const struct bench_flags){.suite = {.threads = 2}, .milliseconds = 500},
};
