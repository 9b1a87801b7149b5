/* esper grow: one round of hosts under a script, or left alone, so that growth can be seen. */
#include <cjson/cJSON.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "engine/engine.h"
#include "policy/script.h"

static volatile sig_atomic_t stopped;

static void on_signal(int signal)
{
    (void)signal;
    stopped = 1;
}

/* A round in the works, and what came of it. */
struct growth {
    struct engine *engine;
    struct script script;
    struct action *actions;
    struct action_result *results;
    double *test;  /* [env] */
    double *curve; /* [step] mean validation accuracy */
    int refused;   /* actions whose precondition did not hold or whose gate said no */
    int steps;     /* done */
    double seconds;
};

static double mean(const double *values, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += values[i];
    return sum / count;
}

/* "r0c0 blending 0.60" for every seed of env 0, for the progress line. */
static void describe_slots(const struct world *world, int env, char *text, size_t size)
{
    text[0] = 0;
    for (int j = 0; j < world->shape.slots; j++) {
        struct slot_state slot = world_slot(world, env, j);
        size_t used = strlen(text);
        if (slot.stage == STAGE_DORMANT)
            continue;
        snprintf(text + used, size - used, "  %s %s %s", world->shape.slot[j].id, blueprint_name(slot.blueprint),
                 stage_name(slot.stage));
        used = strlen(text);
        if (stage_is_blended(slot.stage))
            snprintf(text + used, size - used, " %.2f", (double)slot.alpha);
    }
}

static void show_step(struct growth *growth, struct cli_progress *progress, int step)
{
    const struct world *world = engine_world(growth->engine);
    char note[256], slots[160];
    describe_slots(world, 0, slots, sizeof slots);
    snprintf(note, sizeof note, "loss %.3f  val %.1f %%%s", mean(world->train_loss, world->envs),
             mean(world->val_accuracy, world->envs), slots);
    cli_progress(progress, step, world->config.steps, note);
}

/* One line for the first refusal of a step; the round goes on. */
static void show_refused(struct growth *growth, int step)
{
    const struct world *world = engine_world(growth->engine);
    int before = growth->refused;
    for (int env = 0; env < world->envs; env++) {
        const struct action *action = &growth->actions[env];
        if (growth->results[env].success || growth->refused++ > before)
            continue;
        if (isatty(STDERR_FILENO)) /* over the progress line, which is drawn again below */
            fputs("\r\033[K", stderr);
        fprintf(stderr, "esper: step %d, env %d: %s %s was refused: %s\n", step, env, op_name(action->op),
                world->shape.slot[action->slot].id,
                growth->results[env].allowed ? "its gate said no" : "the slot is not in a stage for it");
    }
}

static void run_round(struct growth *growth, struct cli_progress *progress)
{
    const struct world *world = engine_world(growth->engine);
    double start = clock_seconds();
    engine_reset(growth->engine, 0);
    for (int step = 1; step <= world->config.steps && !stopped; step++) {
        engine_train(growth->engine);
        engine_evaluate(growth->engine);
        for (int env = 0; env < world->envs; env++)
            growth->actions[env] = script_action(&growth->script, step, env);
        engine_apply(growth->engine, growth->actions, growth->results);
        show_refused(growth, step);
        growth->curve[step - 1] = mean(world->val_accuracy, world->envs);
        growth->steps = step;
        if (progress)
            show_step(growth, progress, step);
    }
    growth->seconds = clock_seconds() - start;
    engine_test(growth->engine, growth->test);
}

static double deviation(const double *values, int count)
{
    double m = mean(values, count), square = 0;
    for (int i = 0; i < count; i++)
        square += (values[i] - m) * (values[i] - m);
    return count > 1 ? sqrt(square / (count - 1)) : 0;
}

static void print_table(const struct growth *growth)
{
    const struct world *world = engine_world(growth->engine);
    printf("\n%4s  %10s  %8s  %8s  %8s  %s\n", "env", "train loss", "train %", "val %", "test %", "seeds");
    for (int env = 0; env < world->envs; env++) {
        char slots[256];
        describe_slots(world, env, slots, sizeof slots);
        printf("%4d  %10.3f  %8.1f  %8.1f  %8.1f%s\n", env, world->train_loss[env], world->train_accuracy[env],
               world->val_accuracy[env], growth->test[env], slots[0] ? slots : "  none");
    }
    double images = (double)growth->steps * world->envs * engine_batches(growth->engine) * world->config.data_batch;
    printf("mean  %10.3f  %8.1f  %8.1f  %8.1f  (test deviation %.1f)\n", mean(world->train_loss, world->envs),
           mean(world->train_accuracy, world->envs), mean(world->val_accuracy, world->envs),
           mean(growth->test, world->envs), deviation(growth->test, world->envs));
    printf("%d envs x %d steps in %.1f s on %d threads (%s): %.1f env-steps/s, %.0f training images/s\n", world->envs,
           growth->steps, growth->seconds, engine_threads(growth->engine), engine_kernels(growth->engine),
           world->envs * growth->steps / growth->seconds, images / growth->seconds);
    if (growth->refused)
        printf("%d action%s refused\n", growth->refused, growth->refused == 1 ? " was" : "s were");
}

static enum esper_status print_json(const struct growth *growth, struct esper_error *error)
{
    const struct world *world = engine_world(growth->engine);
    cJSON *root = cJSON_CreateObject();
    char hash[24];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)table_hash(&world->table));
    cJSON_AddStringToObject(root, "task", world->config.task);
    cJSON_AddNumberToObject(root, "envs", world->envs);
    cJSON_AddNumberToObject(root, "steps", growth->steps);
    cJSON_AddNumberToObject(root, "refused", growth->refused);
    cJSON_AddNumberToObject(root, "seconds", growth->seconds);
    cJSON_AddNumberToObject(root, "val_accuracy", mean(world->val_accuracy, world->envs));
    cJSON_AddNumberToObject(root, "test_accuracy", mean(growth->test, world->envs));
    cJSON_AddItemToObject(root, "test_accuracies", cJSON_CreateDoubleArray(growth->test, world->envs));
    cJSON_AddItemToObject(root, "val_curve", cJSON_CreateDoubleArray(growth->curve, growth->steps));
    cJSON_AddStringToObject(root, "hash", hash);
    char *text = cJSON_Print(root);
    cJSON_Delete(root);
    if (!text)
        return error_set(error, ESPER_FAILED, "out of memory while printing the result; run without --json");
    puts(text);
    cJSON_free(text);
    return ESPER_OK;
}

static enum esper_status prepare(struct growth *growth, const struct config *config, const char *script,
                                 struct esper_error *error)
{
    if (script)
        TRY(script_load(&growth->script, script, config, error));
    TRY(engine_create(&growth->engine, config, error));
    growth->actions = memory_alloc((size_t)config->envs, sizeof *growth->actions, error);
    growth->results = memory_alloc((size_t)config->envs, sizeof *growth->results, error);
    growth->test = memory_alloc((size_t)config->envs, sizeof *growth->test, error);
    growth->curve = memory_alloc((size_t)config->steps, sizeof *growth->curve, error);
    return growth->actions && growth->results && growth->test && growth->curve ? ESPER_OK : ESPER_FAILED;
}

static void release(struct growth *growth)
{
    engine_free(growth->engine);
    script_free(&growth->script);
    memory_free(growth->actions);
    memory_free(growth->results);
    memory_free(growth->test);
    memory_free(growth->curve);
}

int command_grow(int argc, char **argv)
{
    struct cli_config_flags flags = {0};
    const char *script = NULL;
    bool json = false, quiet = false;
    const struct cli_option options[] = {
        CLI_CONFIG_OPTIONS(flags),
        {"script", CLI_TEXT, "FILE", &script, "a JSON list of timed actions; without it the hosts stay bare", 0, 0},
        {"quiet", CLI_FLAG, NULL, &quiet, "no progress line", 0, 0},
        {"json", CLI_FLAG, NULL, &json, "print the result as JSON, with a hash of the final state", 0, 0},
    };
    const struct cli_page page = {
        .usage = "grow [--task NAME] [--script FILE] [options]",
        .about = "Trains hosts side by side for one round while a script germinates, blends, fossilises and prunes\n"
                 "seeds in them. A script is a JSON list of actions such as\n"
                 "  {\"step\": 1, \"op\": \"germinate\", \"slot\": \"r0c0\", \"blueprint\": \"conv_light\"}\n"
                 "The task is quickstart unless --task or --config names another. Ctrl-C ends the round early.",
        .example = "esper grow --task quickstart --script examples/conv_light.json --envs 8",
        .options = options,
        .option_count = (int)(sizeof options / sizeof options[0]),
    };
    int code = cli_parse(argc, argv, &page, NULL);
    if (code != CLI_CONTINUE)
        return code;

    struct config config;
    struct esper_error error = {0};
    struct growth growth = {0};
    struct cli_progress progress = {.what = script ? "growing" : "training"};
    if (cli_config(&flags, "quickstart", &config, &error) != ESPER_OK ||
        prepare(&growth, &config, script, &error) != ESPER_OK) {
        code = cli_fail(&error);
        release(&growth);
        return code;
    }
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    run_round(&growth, quiet ? NULL : &progress);
    cli_progress_end(&progress);
    code = stopped ? CLI_INTERRUPTED : CLI_OK;
    if (!json)
        print_table(&growth);
    else if (print_json(&growth, &error) != ESPER_OK)
        code = cli_fail(&error);
    release(&growth);
    return code;
}
