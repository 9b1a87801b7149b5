/* The measuring code: what is counted, what is measured, and the forms the results take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "bench/results.h"

/* ---- timing ------------------------------------------------------------------------------------------------------ */

enum { ITEMS = 3 };

struct sleeper {
    long nanoseconds;
    int calls[ITEMS];
};

static double sleep_work(void *subject, int item)
{
    struct sleeper *sleeper = subject;
    struct timespec nap = {0, sleeper->nanoseconds};
    nanosleep(&nap, NULL);
    sleeper->calls[item]++;
    return 10;
}

static void rates_add_up_over_items_and_the_best_repetition_counts(void **state)
{
    (void)state;
    struct pool *pool;
    struct esper_error error;
    struct sleeper sleeper = {.nanoseconds = 2000000};
    struct measure measure = {.work = sleep_work, .subject = &sleeper, .items = ITEMS, .seconds = 0.02};
    assert_int_equal(pool_create(ITEMS, &pool, &error), ESPER_OK);
    measure_repeat(&measure, pool);
    /* 10 units in 2 ms is 5000/s per item; sleeping can only take longer. */
    assert_true(measure.best > 0 && measure.best <= ITEMS * 5000.0);
    for (int i = 0; i < ITEMS; i++)
        assert_in_range(sleeper.calls[i], 1, 10);

    double best = measure.best;
    sleeper.nanoseconds = 100000000; /* a slow repetition changes nothing; it still does one whole piece of work */
    measure_repeat(&measure, pool);
    assert_true(measure.best == best);
    pool_free(pool);
}

/* ---- the machine ------------------------------------------------------------------------------------------------- */

static void processors_are_named(void **state)
{
    (void)state;
    char model[64];
    machine_parse_model("processor\t: 0\nmodel\t\t: 143\nmodel name\t: Some CPU @ 2 GHz\nflags\t: fpu\n", model, 64);
    assert_string_equal(model, "Some CPU @ 2 GHz");
    machine_parse_model("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n", model, 64);
    assert_string_equal(model, "Neoverse-V1");
    machine_parse_model("CPU implementer\t: 0x61\nCPU part\t: 0xd40\n", model, 64);
    assert_string_equal(model, "ARM maker 0x61 part 0xd40");
    machine_parse_model("", model, 64);
    assert_string_equal(model, "unknown");
}

/* ---- counting ---------------------------------------------------------------------------------------------------- */

/* The figures that tasks and performance notes give for these hosts (E-17). */
static void operations_are_those_of_the_notes(void **state)
{
    (void)state;
    static struct bench_host host;
    struct esper_error error;
    assert_int_equal(host_load(&host, "cifar_baseline", &error), ESPER_OK);
    assert_true(fabs(host_train_flops(&host.shape, false) * 1e-6 - 4.43) < 0.01);
    assert_true(fabs(host_train_flops(&host.shape, true) * 3072e-9 - 46) < 0.5);
    assert_int_equal(host_load(&host, WIDE_HOST, &error), ESPER_OK);
    assert_int_equal(host.shape.block[2].cout, 128);
}

static const struct kernel_case *find_kernel(const struct kernels *kernels, int kernel, int cin, int cout, int size)
{
    const struct kernel_case *found = NULL;
    for (int i = 0; i < kernels->count; i++) {
        const struct kernel_case *k = &kernels->cases[i];
        if (k->kernel == kernel && k->cin == cin && k->cout == cout && k->size == size) {
            assert_null(found); /* each shape once */
            found = k;
        }
    }
    return found;
}

static void kernels_cover_hosts_and_seeds_once(void **state)
{
    (void)state;
    struct esper_error error;
    struct kernels *kernels = memory_alloc(1, sizeof *kernels, &error);
    assert_non_null(kernels);
    assert_int_equal(kernels_init(kernels, &error), ESPER_OK);
    const struct kernel_case *first = find_kernel(kernels, 3, 3, 8, 32), *seed = find_kernel(kernels, 3, 16, 16, 16);
    assert_non_null(first);
    assert_non_null(seed);
    assert_non_null(find_kernel(kernels, 3, 64, 128, 8));
    assert_non_null(find_kernel(kernels, 1, 1, 2, 16));
    assert_false(kernel_measured(first, KERNEL_DATA));
    assert_true(kernel_measured(seed, KERNEL_DATA));
    assert_true(kernel_flops(seed) == 2.0 * 9 * 16 * 16 * 256);
    kernels_free(kernels);
    memory_free(kernels);
}

/* ---- steps and results ------------------------------------------------------------------------------------------- */

/* The smallest suite that has steps, shared by the tests below. */
static int create_suite(void **state)
{
    struct esper_error error;
    struct suite_options options = {.peer = true, .threads = 2};
    return suite_create((struct suite **)state, &options, &error) == ESPER_OK ? 0 : -1;
}

static int free_suite(void **state)
{
    suite_free(*state);
    return 0;
}

static struct step_case *find_step(struct suite *suite, const char *name, bool grown)
{
    for (int i = 0; i < suite->steps.cases; i++)
        if (strcmp(suite->steps.step[i].host->host.config.task, name) == 0 && suite->steps.step[i].grown == grown)
            return &suite->steps.step[i];
    fail_msg("no step of %s", name);
    return NULL;
}

/* What is timed must be training: parameters of host and seeds move, stay finite, and each network has its own. */
static void a_measured_step_trains(void **state)
{
    struct suite *suite = *state;
    struct step_case *step = find_step(suite, "cifar_baseline", true);
    const struct net_shape *shape = &step->host->host.shape.net;
    const struct step_net *net = step->host->net;
    float host = net[0].params.host[0], seed = net[0].params.seed[shape->slot[1].seed];
    step->gathered.seconds = step->in_place.seconds = 0;
    measure_repeat(&step->gathered, suite->pool);
    measure_repeat(&step->in_place, suite->pool);
    assert_true(step->gathered.best > 0 && step->in_place.best > 0);
    assert_true(net[0].params.host[0] != host && net[0].params.seed[shape->slot[1].seed] != seed);
    for (size_t i = 0; i < shape->host.storage; i++)
        assert_true(isfinite(net[0].params.host[i]));
    assert_true(net[0].params.host[0] != net[1].params.host[0]);
}

static void results_hold_what_the_peer_reads(void **state)
{
    struct suite *suite = *state;
    for (int i = 0; i < suite->steps.cases; i++)
        suite->steps.step[i].in_place.best = 1000 + i;
    cJSON *json = results_json(suite);
    const cJSON *steps = cJSON_GetObjectItem(json, "steps"), *row;
    static const char *const wanted[] = {"cifar_baseline", "cifar_baseline", WIDE_HOST, "cifar_impaired"};
    int i = 0;
    assert_int_equal(cJSON_GetArraySize(steps), 4);
    cJSON_ArrayForEach(row, steps)
    {
        assert_string_equal(cJSON_GetObjectItem(row, "name")->valuestring, wanted[i]);
        assert_int_equal(cJSON_IsTrue(cJSON_GetObjectItem(row, "grown")), i == 1);
        assert_int_equal(cJSON_GetObjectItem(row, "nets")->valueint, 2);
        assert_int_equal(cJSON_GetObjectItem(row, "threads")->valueint, 2);
        assert_int_equal(cJSON_GetObjectItem(row, "batch")->valueint, 128);
        assert_true(cJSON_GetObjectItem(row, "images_per_s")->valuedouble == 1000 + i);
        i++;
    }
    cJSON_Delete(json);
}

static void csv_has_one_complete_row_per_figure(void **state)
{
    struct suite *suite = *state;
    struct esper_error error;
    char path[] = "/tmp/esper_bench_XXXXXX", *text;
    int fd = mkstemp(path), lines = 0;
    size_t size;
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(results_write_csv(suite, path, &error), ESPER_OK);
    assert_int_equal(file_read(path, 1 << 20, &text, &size, &error), ESPER_OK);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        int commas = 0;
        for (const char *c = line; *c; c++)
            commas += *c == ',';
        assert_int_equal(commas, 6);
    }
    assert_int_equal(lines, 2 + 3 * suite->steps.cases);
    memory_free(text);
    unlink(path);
    assert_int_not_equal(results_write_csv(suite, "/no/such/place/x.csv", &error), ESPER_OK);
}

/* ---- the engine ---------------------------------------------------------------------------------------------------
 */

static struct loops *create_loops(struct loops_options options)
{
    struct loops *loops;
    struct esper_error error;
    options.device = WISH_CPU;
    options.threads = 1;
    options.seconds = 0;
    assert_int_equal(loops_create(&loops, &options, &error), ESPER_OK);
    return loops;
}

static void the_tables_have_the_cases_that_are_asked_for(void **state)
{
    (void)state;
    struct loops *loops = create_loops((struct loops_options){
        .kinds = 1u << LOOP_TRAIN, .hosts = true, .envs = "1,2,4", .batch = "32,64", .task = "quickstart"});
    assert_int_equal(loops->count, 6);
    assert_int_equal(loops->cases[5].envs, 4);
    assert_int_equal(loops->cases[5].batch * loops->cases[5].batches, 3072); /* equal work, whatever the batch */
    loops_free(loops);
    loops = create_loops((struct loops_options){.kinds = 1u << LOOP_TRAIN, .seeds = true, .task = "quickstart"});
    assert_int_equal(loops->count, 2 * BLUEPRINT_COUNT);
    loops_free(loops);
    static const char *const wrong[] = {"", "0", "4,", "4,x", "5000", "-1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct loops_options options = {.envs = wrong[i], .device = WISH_CPU};
        struct esper_error error;
        assert_int_equal(loops_create(&loops, &options, &error), ESPER_INVALID);
    }
}

/* Small cases of each kind: every figure is there, and seeds are where they were planted. */
static void loops_measure_what_they_say(void **state)
{
    (void)state;
    struct loops *loops = create_loops((struct loops_options){.task = "quickstart", .envs = "1", .batch = "16"});
    struct loop_case cases[] = {
        {.kind = LOOP_TRAIN, .task = "quickstart", .envs = 1, .batch = 16, .batches = 1, .blueprint = BLUEPRINT_NONE},
        {.kind = LOOP_EVALUATE,
         .task = "quickstart",
         .envs = 1,
         .batch = 16,
         .batches = 1,
         .blueprint = BLUEPRINT_CONV_LIGHT,
         .stage = STAGE_BLENDING},
        {.kind = LOOP_WHOLE,
         .task = "quickstart",
         .envs = 1,
         .batch = 16,
         .batches = 1,
         .blueprint = BLUEPRINT_NORM,
         .stage = STAGE_FOSSILIZED},
    };
    loops->count = 3;
    for (int i = 0; i < 3; i++) {
        loops->cases[i] = cases[i];
        loop_measure(loops, &loops->cases[i]);
        assert_string_equal(loops->cases[i].failed, "");
        assert_true(loops->cases[i].rate > 0 && loops->cases[i].ms > 0);
        assert_false(loops->cases[i].counts.known); /* the CPU launches nothing */
    }
    assert_true(loops->cases[0].gflops > 0);
    double slots = loops->cases[2].live[STAGE_FOSSILIZED];
    assert_true(slots >= 2 && slots == floor(slots)); /* fossils in every slot, to the end */
    assert_true(loops->cases[1].subsets == exp2(slots) && loops->cases[2].subsets == exp2(slots));

    cJSON *json = results_loops_json(loops);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "loops")), 3);
    cJSON_Delete(json);
    loops->cases[0].batch = 20000; /* more than there are images: reported, not fatal */
    loop_measure(loops, &loops->cases[0]);
    assert_string_not_equal(loops->cases[0].failed, "");
    loops_free(loops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_add_up_over_items_and_the_best_repetition_counts),
        cmocka_unit_test(processors_are_named),
        cmocka_unit_test(operations_are_those_of_the_notes),
        cmocka_unit_test(kernels_cover_hosts_and_seeds_once),
        cmocka_unit_test(a_measured_step_trains),
        cmocka_unit_test(results_hold_what_the_peer_reads),
        cmocka_unit_test(csv_has_one_complete_row_per_figure),
        cmocka_unit_test(the_tables_have_the_cases_that_are_asked_for),
        cmocka_unit_test(loops_measure_what_they_say),
    };
    return cmocka_run_group_tests(tests, create_suite, free_suite);
}
