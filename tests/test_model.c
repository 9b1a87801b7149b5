/* Exported models: they answer as the trainer does, bit for bit, and no file can harm its reader. */
#include "testing_model.h"

#include "base/file.h"
#include "base/safetensors.h"
#include "data/gather.h"
#include "engine/engine.h"
#include "session/export.h"
#include "variant/variant.h"

enum { IMAGES = 37 }; /* not a multiple of a batch */

/* ---- the trainer's own answer ------------------------------------------------------------------------------------ */

static struct action germinate(int slot, int blueprint, int style)
{
    return (struct action){.op = OP_GERMINATE,
                           .slot = (uint8_t)slot,
                           .blueprint = (uint8_t)blueprint,
                           .style = (uint8_t)style,
                           .alpha_target = 2};
}

static void step(struct engine *engine, struct action action)
{
    engine_train(engine);
    engine_evaluate(engine);
    engine_decide(engine);
    for (int env = 0; env < engine_world(engine)->envs; env++)
        engine_override(engine, env, &action);
    engine_apply(engine);
}

static uint32_t live_params(const struct world *world)
{
    uint32_t params = 0;
    for (int j = 0; j < world->shape.slots; j++) {
        struct slot_state slot = world_slot(world, 0, j);
        params += slot_params(&slot);
    }
    return params;
}

/* An engine whose env 0 has a fossil by ADD, a seed by GATE, one by MULTIPLY, and one in training. */
static struct engine *grown(int base, int kernel)
{
    struct config config;
    struct esper_error error = {0};
    struct engine *engine;
    config_defaults(&config);
    assert_int_equal(config_load_task(&config, "quickstart", &error), ESPER_OK);
    assert_int_equal(config_set(&config, "slots=r0c0,r0c1,r0c2,r1c0", &error), ESPER_OK);
    config.envs = 2;
    config.threads = 1;
    config.data_batches = 2;
    config.data_val_images = config.data_test_images = 64;
    config.policy.kind = POLICY_STATIC;
    config.host_base = base;
    config.host_kernel = kernel;
    assert_int_equal(config_check(&config, &error), ESPER_OK);
    if (engine_create(&engine, &config, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    engine_begin(engine);
    step(engine, germinate(0, BLUEPRINT_CONV_LIGHT, STYLE_LINEAR_ADD));
    step(engine, germinate(1, BLUEPRINT_BOTTLENECK, STYLE_GATED_GATE));
    for (int i = 0; i < 8; i++)
        step(engine, (struct action){.op = OP_WAIT});
    step(engine, germinate(2, BLUEPRINT_DEPTHWISE, STYLE_LINEAR_MULTIPLY));
    for (int i = 0; i < 5; i++)
        step(engine, (struct action){.op = OP_WAIT});
    step(engine, (struct action){.op = OP_FOSSILIZE, .slot = 0});
    step(engine, germinate(3, BLUEPRINT_ATTENTION, STYLE_LINEAR_ADD));
    for (int i = 0; i < 4; i++)
        step(engine, (struct action){.op = OP_WAIT}); /* the third is still moving to alpha 1 */
    const struct world *world = engine_world(engine);
    assert_int_equal(world_slot(world, 0, 0).stage, STAGE_FOSSILIZED);
    assert_int_equal(world_slot(world, 0, 1).stage, STAGE_HOLDING);
    assert_int_equal(world_slot(world, 0, 2).stage, STAGE_BLENDING);
    assert_true(world_slot(world, 0, 2).alpha < 1);
    assert_int_equal(world_slot(world, 0, 3).stage, STAGE_TRAINING);
    return engine;
}

/* What the world's own arrays answer: the trainer's evaluation, with logits. */
static void logits_of_world(const struct world *world, int env, const uint8_t *images, float *logits)
{
    const struct variant *kernels = variant_best();
    struct gather_table table = gather_table_make(data_facts_of(world->config.data_set));
    struct net_params params = world_params(world, env);
    struct slot_exec exec[SHAPE_SLOTS];
    float alpha[1][SHAPE_SLOTS] = {{0}};
    struct net_score score = {0};
    void *memory = memory_alloc(kernels->net[FAMILY_CNN]->bytes(&world->shape, IMAGES), 1, NULL);
    assert_non_null(memory);
    struct net *net = kernels->net[FAMILY_CNN]->init(&world->shape, IMAGES, memory);
    struct net_input input = kernels->net[FAMILY_CNN]->input(net);
    int size = world->config.data_size;
    for (int j = 0; j < world->shape.slots; j++) {
        struct slot_state slot = world_slot(world, env, j);
        exec[j] = slot_exec_of(&slot);
        alpha[0][j] = stage_is_blended(slot.stage) ? slot.alpha : 0;
    }
    for (int n = 0; n < IMAGES; n++)
        gather_image(&table, images + (size_t)(n * size * size * 3), size, CROP_PAD, CROP_PAD, false,
                     input.pixels + (size_t)n * input.image_stride, input.row_stride);
    struct net_eval eval = {.samples = IMAGES,
                            .exec = exec,
                            .configs = 1,
                            .alpha = (const float(*)[SHAPE_SLOTS])alpha,
                            .score = &score,
                            .logits = logits};
    kernels->net[FAMILY_CNN]->evaluate(net, &params, &eval);
    memory_free(memory);
}

/* ---- parity ------------------------------------------------------------------------------------------------------ */

static void check_trainer(int base, int kernel)
{
    struct engine *engine = grown(base, kernel);
    const struct world *world = engine_world(engine);
    uint8_t *images = random_images(IMAGES, world->config.data_size, 1);
    float trainer[IMAGES * SHAPE_CLASSES], taken[IMAGES * SHAPE_CLASSES], read[IMAGES * SHAPE_CLASSES];
    struct model *model, *again;
    struct esper_error error = {0};
    if (export_env(world, 0, "some-run", &model, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    assert_int_equal(model_write(model, in_folder("model"), &error), ESPER_OK);
    if (model_read(in_folder("model"), &again, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    logits_of_world(world, 0, images, trainer);
    logits_of_model(model, images, IMAGES, taken);
    logits_of_model(again, images, IMAGES, read);
    assert_memory_equal(trainer, taken, sizeof trainer);
    assert_memory_equal(trainer, read, sizeof trainer);

    assert_int_equal(again->shape.slots, 3);
    assert_memory_equal(&model->source, &again->source, sizeof model->source);
    assert_string_equal(again->source.left_out, "r1c0 attention (training)");
    assert_int_equal(model_seed_params(again), live_params(world) - world_slot(world, 0, 3).seed_params);
    /* each seed is part of the answer: it differs without one */
    for (int j = 0; j < 3; j++) {
        float alpha = again->exec[j].alpha;
        again->exec[j].alpha = alpha / 2;
        logits_of_model(again, images, IMAGES, read);
        assert_memory_not_equal(trainer, read, sizeof trainer);
        again->exec[j].alpha = alpha;
    }
    model_free(model);
    model_free(again);
    memory_free(images);
    unlink(in_folder("model"));
    engine_free(engine);
}

static void test_trainer(void **state)
{
    (void)state;
    check_trainer(4, 1);
    check_trainer(1, 1); /* the first block of a training pass runs in planes */
    check_trainer(6, 3);
}

/* The best network of a round is what its test accuracy was measured on. */
static void test_best(void **state)
{
    (void)state;
    struct engine *engine = grown(4, 1);
    struct world *world = engine_world(engine);
    struct outcome_record outcomes[2];
    struct model *model;
    struct esper_error error = {0};
    assert_int_equal(export_best(world, "run", &model, &error), ESPER_INVALID);
    assert_says(&error, "no episode has ended");
    assert_int_equal(export_env(world, 2, "run", &model, &error), ESPER_INVALID);
    assert_says(&error, "envs 0 to 1");
    engine_finish(engine, outcomes);
    int best = (int)*world->best.env;
    engine_reset(engine, 1);
    assert_int_equal(export_env(world, 0, "run", &model, &error), ESPER_INVALID);
    assert_says(&error, "--env best");
    assert_int_equal(export_best(world, "run", &model, &error), ESPER_OK);
    assert_true(model->source.best && (int)model->source.env == best && model->source.round == 1);

    struct dataset *data;
    float logits[64 * SHAPE_CLASSES];
    int correct = 0;
    assert_int_equal(dataset_open(NULL, DATA_SYNTHETIC, 16, &data, &error), ESPER_OK);
    logits_of_model(model, data->images[SPLIT_TEST], 64, logits);
    for (int n = 0; n < 64; n++) {
        int top = 0;
        for (int k = 1; k < SHAPE_CLASSES; k++)
            top = logits[n * SHAPE_CLASSES + k] > logits[n * SHAPE_CLASSES + top] ? k : top;
        correct += top == data->labels[SPLIT_TEST][n];
    }
    assert_true(100.0 * correct / 64 == outcomes[best].test_accuracy);
    dataset_close(data);
    model_free(model);
    engine_free(engine);
}

/* A network that has diverged is not exported. */
static void test_diverged(void **state)
{
    (void)state;
    struct engine *engine = grown(4, 1);
    struct world *world = engine_world(engine);
    struct model *model;
    struct esper_error error = {0};
    world_params(world, 0).seed[world->shape.slot[1].seed] = NAN;
    assert_int_equal(export_env(world, 0, "run", &model, &error), ESPER_INVALID);
    assert_says(&error, "slot.r0c1.conv1.weight");
    world_params(world, 1).seed[world->shape.slot[3].seed] = NAN; /* in a seed that is left out it does no harm */
    assert_int_equal(export_env(world, 1, "run", &model, &error), ESPER_OK);
    model_free(model);
    engine_free(engine);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Every blueprint and operator: what is written and read is the same, and writing it again gives the same bytes. */
static void test_files(void **state)
{
    (void)state;
    struct esper_error error = {0};
    for (int host = 0; host < HOST_CASES; host++)
        for (int i = 0; i < BLUEPRINT_COUNT * 3; i++) {
            struct model_seed seeds[] = {{"r0c0", STAGE_HOLDING, 0, 0, 0.7f}, {"r0c1", STAGE_FOSSILIZED, 0, 0, 1}};
            seeds[0].blueprint = (uint8_t)(i / 3);
            seeds[1].blueprint = (uint8_t)((i / 3 + 3) % BLUEPRINT_COUNT);
            seeds[0].algorithm = (uint8_t)(ALGORITHM_ADD + i % 3);
            seeds[1].algorithm = (uint8_t)(ALGORITHM_ADD + (i + 1) % 3);
            struct model *model = random_model(&host_cases[host], seeds, 2, (uint32_t)i), *again;
            char *first, *second;
            size_t first_size, second_size;
            model->source.val_accuracy = 100.0 / 3;
            assert_int_equal(model_write(model, in_folder("a"), &error), ESPER_OK);
            if (model_read(in_folder("a"), &again, &error) != ESPER_OK)
                fail_msg("%s", error.text);
            assert_int_equal(model_write(again, in_folder("b"), &error), ESPER_OK);
            assert_int_equal(file_read(in_folder("a"), 1 << 24, &first, &first_size, &error), ESPER_OK);
            assert_int_equal(file_read(in_folder("b"), 1 << 24, &second, &second_size, &error), ESPER_OK);
            assert_int_equal(first_size, second_size);
            assert_memory_equal(first, second, first_size);
            memory_free(first);
            memory_free(second);
            model_free(model);
            model_free(again);
        }
    unlink(in_folder("a"));
    unlink(in_folder("b"));
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

/* Write the file of `model` again with one text of its header replaced by another of the same length. */
static void refused_after(const char *from, const char *to, const char *says)
{
    const struct model_seed seeds[] = {{"r0c0", STAGE_HOLDING, BLUEPRINT_CONV_LIGHT, ALGORITHM_GATE, 0.5f},
                                       {"r0c1", STAGE_HOLDING, BLUEPRINT_NORM, ALGORITHM_ADD, 0.5f}};
    struct model *model = random_model(&host_cases[0], seeds, 2, 1), *again;
    struct esper_error error = {0};
    char *bytes;
    size_t size;
    assert_int_equal(strlen(from), strlen(to));
    assert_int_equal(model_write(model, in_folder("x"), &error), ESPER_OK);
    assert_int_equal(file_read(in_folder("x"), 1 << 24, &bytes, &size, &error), ESPER_OK);
    char *at = memmem(bytes, size, from, strlen(from));
    if (!at)
        fail_msg("%s is not in the file", from);
    memcpy(at, to, strlen(to));
    put_file(in_folder("x"), bytes, size);
    assert_int_not_equal(model_read(in_folder("x"), &again, &error), ESPER_OK);
    assert_says(&error, says);
    assert_null(again);
    memory_free(bytes);
    model_free(model);
    unlink(in_folder("x"));
}

static void test_refused(void **state)
{
    (void)state;
    refused_after("esper-model-1", "esper-model-9", "this Esper reads esper-model-1");
    refused_after("esper-model-1", "other-model-1", "not a model");
    refused_after("\\\"base\\\":4", "\\\"base\\\":5", "host.block0.conv.weight");
    refused_after("\\\"base\\\":4", "\\\"base\\\":0", "base");
    refused_after("\\\"kernel\\\":1", "\\\"kernel\\\":2", "kernel");
    refused_after("\\\"size\\\":16", "\\\"size\\\":17", "17x17 images (data.size) cannot be halved");
    refused_after("\\\"size\\\":16", "\\\"size\\\":99", "size");
    refused_after("\\\"classes\\\":10", "\\\"classes\\\":11", "host.classifier.weight");
    refused_after("\\\"classes\\\":10", "\\\"classes\\\":-1", "classes");
    refused_after("\\\"pools\\\":3", "\\\"pools\\\":4", "pools");
    refused_after("0.4914", "1.4914", "must be three numbers");
    refused_after("conv_light", "conv_lighx", "unknown value \"conv_lighx\"");
    refused_after("conv_light", "conv_heavy", "slot.r0c0.conv2.weight is missing");
    refused_after("\\\"alpha\\\":0.5", "\\\"alpha\\\":0.0", "alpha");
    refused_after("\\\"alpha\\\":0.5", "\\\"alpha\\\":1.5", "alpha");
    refused_after("\\\"holding\\\"", "\\\"dormant\\\"", "not blended");
    refused_after("\\\"r0c0\\\"", "\\\"r0c1\\\"", "out of order");
    refused_after("\\\"r0c1\\\"", "\\\"r0c7\\\"", "r0c7 is not on this host");
    refused_after("\\\"r0c1\\\"", "\\\"r0c4\\\"", "not on this host");
    refused_after("slot.r0c1.norm.beta", "slot.r0c1.norm.bexa", "slot.r0c1.norm.beta is missing");
}

/* What a file says of its source is shown to people: one line without control characters. */
static void test_source(void **state)
{
    (void)state;
    struct model *model = random_model(&host_cases[0], NULL, 0, 1), *again;
    struct esper_error error = {0};
    snprintf(model->source.run, sizeof model->source.run, "a\033[2J");
    assert_int_equal(model_write(model, in_folder("x"), &error), ESPER_OK);
    assert_int_equal(model_read(in_folder("x"), &again, &error), ESPER_INVALID);
    assert_says(&error, "\"run\" holds a control character");
    model_free(model);
    unlink(in_folder("x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trainer), cmocka_unit_test(test_best),    cmocka_unit_test(test_diverged),
        cmocka_unit_test(test_files),   cmocka_unit_test(test_refused), cmocka_unit_test(test_source),
    };
    return cmocka_run_group_tests_name("model", tests, folder_make, folder_remove);
}
