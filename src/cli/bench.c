/* esper bench: the speed of the kernels and of whole training steps, beside what the machine can do. */
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pool.h"
#include "bench/results.h"
#include "bench/suite.h"
#include "cli/cli.h"

static void print_machine(const struct suite *suite)
{
    printf("%s (%s), %d core%s, %s kernels, fp32; best of %d repetitions\n", suite->machine.model,
           suite->machine.architecture, suite->machine.cores, suite->machine.cores == 1 ? "" : "s", suite->variant,
           suite->rounds);
}

static void print_roof(const struct suite *suite)
{
    printf("\nroofs of the machine              1 thread  %2d thread%s\n", suite->options.threads,
           suite->options.threads == 1 ? "" : "s");
    for (int kind = 0; kind < ROOF_KINDS; kind++)
        printf("  %-14s %-8s %16.1f %11.1f\n", roof_name((enum roof_kind)kind), roof_unit((enum roof_kind)kind),
               1e-9 * suite->roof.one[kind].best, 1e-9 * suite->roof.all[kind].best);
    printf("  (memory: arrays far larger than the caches; a copied byte is counted read and written)\n");
}

/* A speed and, where the roof is known, its share of it; 17 columns. */
static void print_speed(const struct suite *suite, double gflops, bool all_threads)
{
    if (suite->options.roof)
        printf("%10.1f %5.1f%%", gflops, 100 * suite_roof_share(suite, gflops, all_threads));
    else
        printf("%17.1f", gflops);
}

static void print_kernels(const struct suite *suite)
{
    printf("\nconvolutions of the hosts and of conv_light seeds, 1 thread, GFLOP/s%s\n",
           suite->options.roof ? " and share of the multiply-add roof" : "");
    printf("  %-6s %9s %7s%17s%17s%17s %10s\n", "kernel", "channels", "maps", "forward", "backward-data",
           "backward-weights", "images/s");
    for (int i = 0; i < suite->kernels.count; i++) {
        const struct kernel_case *kernel = &suite->kernels.cases[i];
        double seconds = 0; /* of all directions, per image */
        printf("  %dx%d    %4d>%-4d %3dx%-3d", kernel->kernel, kernel->kernel, kernel->cin, kernel->cout, kernel->size,
               kernel->size);
        for (int d = 0; d < KERNEL_DIRECTIONS; d++) {
            if (!kernel_measured(kernel, (enum kernel_direction)d)) {
                printf("%17s", "-");
                continue;
            }
            print_speed(suite, 1e-9 * kernel->measure[d].best * kernel_flops(kernel), false);
            seconds += 1 / kernel->measure[d].best;
        }
        printf(" %10.0f\n", 1 / seconds);
    }
    printf("  (images/s: all directions one after the other; a first block needs no backward-data)\n");
}

static void print_steps(const struct suite *suite)
{
    printf("\ntraining steps, %d network%s on as many threads; grown: conv_light blending in every slot\n",
           suite->options.threads, suite->options.threads == 1 ? "" : "s");
    printf("  %-16s %-6s %5s %10s %12s %9s%17s\n", "host", "", "batch", "images/s", "with gather", "ms/step",
           suite->options.roof ? "GFLOP/s, of roof" : "GFLOP/s");
    for (int i = 0; i < suite->steps.cases; i++) {
        const struct step_case *step = &suite->steps.step[i];
        printf("  %-16s %-6s %5d %10.0f %12.0f %9.3f", step->host->host.config.task, step->grown ? "grown" : "alone",
               step->host->host.config.data_batch, step->in_place.best, step->gathered.best, suite_step_ms(step));
        print_speed(suite, suite_step_gflops(step), true);
        printf("\n");
    }
    printf(
        "  (forward, backward, clip and update of one batch per network, images in memory; with gather: image order,\n"
        "   augmentation and normalisation too; ms and GFLOP/s are those of images in memory)\n");
}

static void print_evaluations(const struct suite *suite)
{
    printf("\nevaluation, images x configurations per second\n");
    for (int i = 0; i < suite->steps.evaluations; i++) {
        const struct eval_case *evaluation = &suite->steps.evaluation[i];
        printf("  %-16s %d seeds, %d configuration%s %12.0f\n", evaluation->host->host.config.task, evaluation->seeds,
               evaluation->configs, evaluation->configs == 1 ? " " : "s", evaluation->measure.best);
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

static enum esper_status print_json(const struct suite *suite, struct esper_error *error)
{
    cJSON *json = results_json(suite);
    char *text = json ? cJSON_Print(json) : NULL;
    cJSON_Delete(json);
    if (!text)
        return error_set(error, ESPER_FAILED, "out of memory while printing the results");
    puts(text);
    cJSON_free(text);
    return ESPER_OK;
}

static void show_progress(void *context, int done, int total)
{
    cli_progress(context, done, total, NULL);
}

static enum esper_status run(const struct suite_options *options, bool json, const char *csv, struct esper_error *error)
{
    struct suite *suite;
    struct cli_progress progress = {.what = "measuring"};
    if (csv) { /* a path that cannot be written is better known now than after half a minute */
        struct file_writer probe;
        TRY(file_begin(&probe, csv, error));
        file_abort(&probe);
    }
    TRY(suite_create(&suite, options, error));
    suite_run(suite, isatty(STDERR_FILENO) ? show_progress : NULL, &progress);
    enum esper_status status = ESPER_OK;
    if (json)
        status = print_json(suite, error);
    else
        print_tables(suite);
    if (status == ESPER_OK && csv)
        status = results_write_csv(suite, csv, error);
    suite_free(suite);
    return status;
}

int command_bench(int argc, char **argv)
{
    struct suite_options choice = {.threads = 2};
    bool json = false;
    const char *csv = NULL;
    const struct cli_option options[] = {
        {"json", CLI_FLAG, NULL, &json, "print one JSON object instead of tables", 0, 0},
        {"roof", CLI_FLAG, NULL, &choice.roof, "also measure the machine's roofs and show every speed as a share", 0,
         0},
        {"kernels", CLI_FLAG, NULL, &choice.kernels, "only the convolution kernels", 0, 0},
        {"peer", CLI_FLAG, NULL, &choice.peer, "only the steps that bench/torch_peer.py compares; seconds", 0, 0},
        {"threads", CLI_INT, "N", &choice.threads, "threads, and networks trained side by side (2)", 1,
         POOL_MAX_THREADS},
        {"csv", CLI_TEXT, "FILE", &csv, "also write the results to FILE", 0, 0},
    };
    const struct cli_page page = {
        .usage = "bench [options]",
        .about = "Measures the convolution kernels, whole training steps (each host alone, and grown: conv_light\n"
                 "blending in every slot) and evaluation. Takes half a minute; leave the machine alone meanwhile.",
        .example = "esper bench --roof --csv bench/results/my-machine.csv",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    };
    int code = cli_parse(argc, argv, &page, NULL);
    if (code != CLI_CONTINUE)
        return code;
    struct esper_error error = {0};
    return run(&choice, json, csv, &error) == ESPER_OK ? CLI_OK : cli_fail(&error);
}
