/* Exported transformers: they answer as the trainer does, in either form, refuse damage, and write text. */
#include "testing_model.h"

#include "base/file.h"
#include "engine/engine.h"
#include "model/sample.h"
#include "session/export.h"
#include "variant/variant.h"

enum { WINDOWS = 5, LOGITS = WINDOWS * 16 * TRANSFORMER_BYTES, BLUEPRINTS = 7 };

static const struct text_case text_cases[] = {
    {"two segments", 32, 2, 2, 16, 2}, {"odd everything", 20, 5, 3, 9, 3}, {"the smallest", 8, 1, 1, 8, 1}};
enum { TEXT_CASES = sizeof text_cases / sizeof text_cases[0] };

static const int blueprints[BLUEPRINTS] = {BLUEPRINT_NOOP,   TRANSFORMER_ATTENTION,  TRANSFORMER_NORM,
                                           TRANSFORMER_LORA, TRANSFORMER_LORA_LARGE, TRANSFORMER_MLP_SMALL,
                                           TRANSFORMER_MLP};

static void random_windows(int context, uint8_t *windows)
{
    const struct random_site at = {.seed = 79};
    for (int i = 0; i < WINDOWS * context; i++)
        windows[i] = (uint8_t)random_word(at, (uint32_t)i);
}

/* ---- parity ------------------------------------------------------------------------------------------------------ */

static void logits_of_onnx(const struct model *model, const uint8_t *windows, float *logits)
{
    struct graph *graph;
    struct network network = {0};
    struct esper_error error = {0};
    if (graph_from_model(&graph, model, &error) != ESPER_OK ||
        onnx_write(graph, in_folder("model.onnx"), &error) != ESPER_OK ||
        network_open(&network, in_folder("model.onnx"), 2, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    const struct model_sample mine = model_sample(model), theirs = network.sample;
    assert_true(theirs.kind == KIND_TEXT && theirs.size == mine.size && theirs.bytes == mine.bytes &&
                theirs.targets == mine.targets && theirs.classes == mine.classes);
    network_logits(&network, windows, WINDOWS, logits);
    network_close(&network);
    graph_free(graph);
    unlink(in_folder("model.onnx"));
}

/* The file answers with the model's bits, and is written again byte for byte. */
static void check_file(const struct model *model, const uint8_t *windows, const float *logits)
{
    static float read[LOGITS];
    struct model *again;
    struct esper_error error = {0};
    char *first, *second;
    size_t first_size, second_size;
    assert_int_equal(model_write(model, in_folder("a"), &error), ESPER_OK);
    if (model_read(in_folder("a"), &again, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    logits_of_model(again, windows, WINDOWS, read);
    const struct model_sample sample = model_sample(model);
    assert_memory_equal(logits, read, sizeof(float) * WINDOWS * sample.targets * sample.classes);
    assert_int_equal(model_write(again, in_folder("b"), &error), ESPER_OK);
    assert_int_equal(file_read(in_folder("a"), 1 << 24, &first, &first_size, &error), ESPER_OK);
    assert_int_equal(file_read(in_folder("b"), 1 << 24, &second, &second_size, &error), ESPER_OK);
    assert_int_equal(first_size, second_size);
    assert_memory_equal(first, second, first_size);
    memory_free(first);
    memory_free(second);
    model_free(again);
    unlink(in_folder("a"));
    unlink(in_folder("b"));
}

static int best_of(const float *row)
{
    int best = 0;
    for (int k = 1; k < TRANSFORMER_BYTES; k++)
        best = row[k] > row[best] ? k : best;
    return best;
}

/* The largest difference of a logit between the kernels and the ONNX file; predictions are the same. */
static double check_model(const struct model *model)
{
    static float kernels[LOGITS], loops[LOGITS];
    const struct model_sample sample = model_sample(model);
    const size_t rows = WINDOWS * sample.targets;
    uint8_t windows[WINDOWS * 16];
    double worst = 0;
    random_windows(sample.size, windows);
    logits_of_model(model, windows, WINDOWS, kernels);
    check_file(model, windows, kernels);
    logits_of_onnx(model, windows, loops);
    for (size_t i = 0; i < rows * sample.classes; i++)
        worst = fmax(worst, fabs((double)kernels[i] - (double)loops[i]));
    for (size_t r = 0; r < rows; r++)
        assert_int_equal(best_of(kernels + r * sample.classes), best_of(loops + r * sample.classes));
    return worst;
}

/* Every blueprint by every operator in the first slot, another kind in the last, on three hosts. */
static void test_parity(void **state)
{
    (void)state;
    for (int host = 0; host < TEXT_CASES; host++) {
        const struct text_case *text = &text_cases[host];
        struct model *bare = random_text_model(text, NULL, 0, 1);
        double worst = check_model(bare);
        model_free(bare);
        for (int i = 0; i < BLUEPRINTS * 3; i++) {
            struct model_seed seeds[] = {{"r0c0", STAGE_HOLDING, 0, 0, 0}, {"", STAGE_FOSSILIZED, 0, 0, 0}};
            memcpy(seeds[1].slot, "r0c1", 5);
            seeds[1].slot[3] = (char)('0' + text->segments - 1);
            seeds[0].blueprint = (uint8_t)blueprints[i / 3];
            seeds[1].blueprint = (uint8_t)blueprints[(i / 3 + 3) % BLUEPRINTS];
            seeds[0].algorithm = (uint8_t)(ALGORITHM_ADD + i % 3);
            seeds[1].algorithm = (uint8_t)(ALGORITHM_ADD + (i + 1) % 3);
            seeds[0].alpha = i % 4 == 3 ? 1.0f : 0.3f + 0.2f * (float)(i % 4);
            seeds[1].alpha = i % 2 ? 1.0f : 0.45f;
            struct model *model = random_text_model(text, seeds, text->segments > 1 ? 2 : 1, (uint32_t)i);
            double difference = check_model(model);
            if (!(difference <= 1e-5))
                fail_msg("%s, %s by %s: logits differ by %g", text->name,
                         family_blueprint(&transformer_family, seeds[0].blueprint), algorithm_name(seeds[0].algorithm),
                         difference);
            worst = fmax(worst, difference);
            model_free(model);
        }
        print_message("%-16s largest difference of a logit %.2g\n", text->name, worst);
    }
}

/* ---- the trainer's own answer ------------------------------------------------------------------------------------ */

static void step(struct engine *engine, struct action action)
{
    engine_train(engine);
    engine_evaluate(engine);
    engine_decide(engine);
    engine_override(engine, 0, &action);
    engine_apply(engine);
}

static struct action germinate(int slot, int blueprint, int style)
{
    return (struct action){.op = OP_GERMINATE,
                           .slot = (uint8_t)slot,
                           .blueprint = (uint8_t)blueprint,
                           .style = (uint8_t)style,
                           .alpha_target = 2};
}

/* One env: a gated seed that is held, another that is blending, a third in training. */
static struct engine *grown(void)
{
    static const char *const keys[] = {
        "host.family=transformer", "data.set=language", "host.width=16",        "host.heads=2",  "host.layers=3",
        "host.context=16",         "host.segments=3",   "slots=r0c0,r0c1,r0c2", "host.lr=0.001", "seed.lr=0.001"};
    struct config config;
    struct esper_error error = {0};
    struct engine *engine;
    config_defaults(&config);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (config_set(&config, keys[i], &error) != ESPER_OK)
            fail_msg("%s", error.text);
    config.envs = config.threads = 1;
    config.steps = 20;
    config.data_batch = 4;
    config.data_batches = 2;
    config.data_val_images = 32;
    config.data_test_images = 64;
    config.policy.kind = POLICY_STATIC;
    if (config_check(&config, &error) != ESPER_OK || engine_create(&engine, &config, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    engine_begin(engine);
    step(engine, germinate(0, TRANSFORMER_MLP_SMALL, STYLE_GATED_GATE));
    for (int i = 0; i < 6; i++)
        step(engine, (struct action){.op = OP_WAIT});
    step(engine, germinate(1, TRANSFORMER_ATTENTION, STYLE_LINEAR_MULTIPLY));
    for (int i = 0; i < 8; i++)
        step(engine, (struct action){.op = OP_WAIT});
    step(engine, germinate(2, TRANSFORMER_LORA, STYLE_LINEAR_ADD));
    step(engine, (struct action){.op = OP_WAIT});
    return engine;
}

static void logits_of_world(const struct world *world, const uint8_t *windows, float *logits)
{
    const struct net_kernels *kernels = variant_best()->net[FAMILY_TRANSFORMER];
    struct net_params params = world_params(world, 0);
    struct slot_exec exec[SHAPE_SLOTS];
    float alpha[1][SHAPE_SLOTS] = {{0}};
    struct net_score score = {0};
    void *memory = memory_alloc(kernels->bytes(&world->shape, WINDOWS), 1, NULL);
    assert_non_null(memory);
    struct net *net = kernels->init(&world->shape, WINDOWS, memory);
    struct net_input input = kernels->input(net);
    for (int n = 0; n < WINDOWS; n++)
        memcpy(input.tokens + (size_t)n * input.token_stride, windows + n * 16, 16);
    for (int j = 0; j < world->shape.slots; j++) {
        struct slot_state slot = world_slot(world, 0, j);
        exec[j] = slot_exec_of(&slot);
        alpha[0][j] = stage_is_blended(slot.stage) ? slot.alpha : 0;
    }
    struct net_eval eval = {.samples = WINDOWS,
                            .exec = exec,
                            .configs = 1,
                            .alpha = (const float(*)[SHAPE_SLOTS])alpha,
                            .score = &score,
                            .logits = logits};
    kernels->evaluate(net, &params, &eval);
    memory_free(memory);
}

static void test_trainer(void **state)
{
    (void)state;
    static float trainer[LOGITS], taken[LOGITS];
    struct engine *engine = grown();
    struct model *model;
    struct esper_error error = {0};
    uint8_t windows[WINDOWS * 16];
    random_windows(16, windows);
    if (export_env(engine_world(engine), 0, "some-run", &model, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    assert_int_equal(model->shape.slots, 2);
    assert_string_equal(model->source.left_out, "r0c2 lora (training)");
    logits_of_world(engine_world(engine), windows, trainer);
    logits_of_model(model, windows, WINDOWS, taken);
    assert_memory_equal(trainer, taken, sizeof trainer);
    assert_true(check_model(model) <= 1e-5);
    for (int j = 0; j < 2; j++) { /* each seed is part of the answer */
        float alpha = model->exec[j].alpha;
        model->exec[j].alpha = alpha / 2;
        logits_of_model(model, windows, WINDOWS, taken);
        assert_memory_not_equal(trainer, taken, sizeof trainer);
        model->exec[j].alpha = alpha;
    }
    model_free(model);
    engine_free(engine);
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

/* Write the file of a model again with one text of its header replaced by another of the same length. */
static void refused_after(const char *from, const char *to, const char *says)
{
    const struct model_seed seeds[] = {{"r0c0", STAGE_HOLDING, TRANSFORMER_ATTENTION, ALGORITHM_GATE, 0.5f},
                                       {"r0c1", STAGE_HOLDING, TRANSFORMER_MLP, ALGORITHM_ADD, 0.5f}};
    struct model *model = random_text_model(&text_cases[0], seeds, 2, 1), *again;
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
    assert_null(strchr(error.text, '\n'));
    assert_null(again);
    memory_free(bytes);
    model_free(model);
    unlink(in_folder("x"));
}

static void test_refused(void **state)
{
    (void)state;
    refused_after("\\\"transformer\\\"", "\\\"transfoxmer\\\"", "\"family\": unknown value \"transfoxmer\"");
    refused_after("\\\"family\\\"", "\\\"famixy\\\"", "base");
    refused_after("\\\"width\\\":32", "\\\"width\\\":36", "host.tok_emb does not have the type and shape");
    refused_after("\\\"width\\\":32", "\\\"width\\\":33", "host.heads = 2: does not divide the width of 33");
    refused_after("\\\"width\\\":32", "\\\"width\\\":-2", "width");
    refused_after("\\\"heads\\\":2", "\\\"heads\\\":3", "host.heads = 3: does not divide");
    refused_after("\\\"heads\\\":2", "\\\"heads\\\":0", "heads");
    refused_after("\\\"layers\\\":2", "\\\"layers\\\":9", "layers");
    refused_after("\\\"layers\\\":2", "\\\"layers\\\":4", "host.layer2.ln1.gamma is missing");
    refused_after("\\\"context\\\":16", "\\\"context\\\":17", "host.pos_emb does not have the type and shape");
    refused_after("\\\"context\\\":16", "\\\"context\\\":07", "");
    refused_after("\\\"segments\\\":2", "\\\"segments\\\":1", "r0c1 is not on this host");
    refused_after("\\\"vocabulary\\\":256", "\\\"vocabulary\\\":255", "vocabulary");
    refused_after("1e-05", "2e-05", "epsilon");
    refused_after("attention\\\"", "attentiox\\\"", "unknown value \"attentiox\"");
    refused_after("\\\"attention\\\"", "\\\"conv_heav\\\"", "unknown value \"conv_heav\"");
    refused_after("\\\"mlp\\\"", "\\\"mlx\\\"", "unknown value \"mlx\"");
    refused_after("\\\"alpha\\\":0.5", "\\\"alpha\\\":1.5", "alpha");
    refused_after("slot.r0c0.gate.out.bias", "slot.r0c0.gate.out.bixs", "slot.r0c0.gate.out.bias is missing");
}

/* ---- operators by themselves ------------------------------------------------------------------------------------- */

/* A table of rows read by the input, and the operator that the caller adds: refused, whatever is wrong with it. */
static void test_misfits(void **state)
{
    (void)state;
    for (int which = 0; which < 9; which++) {
        struct graph *graph = graph_create(NULL);
        struct graph_runner *runner;
        struct esper_error error = {0};
        assert_non_null(graph);
        graph->input = graph_value(graph, "tokens");
        graph->values[graph->input].dims = 2;
        graph->values[graph->input].shape[1] = 4;
        int table = graph_value(graph, "table"), vector = graph_value(graph, "vector");
        graph_floats(graph, table, 2, (const int64_t[]){which == 1 ? 255 : 256, 8});
        graph_floats(graph, vector, 1, (const int64_t[]){which == 2 ? 7 : 8});
        struct graph_node *gather = graph_node(graph, GRAPH_GATHER, graph_value(graph, "rows"));
        gather->inputs[gather->input_count++] = which == 3 ? graph->input : table;
        gather->inputs[gather->input_count++] = which == 4 ? vector : graph->input;
        const enum graph_op op = which == 2   ? GRAPH_LAYER_NORM
                                 : which == 5 ? GRAPH_MATMUL
                                 : which == 6 ? GRAPH_SOFTMAX
                                              : GRAPH_TRANSPOSE;
        struct graph_node *node = graph_node(graph, op, graph_value(graph, "y"));
        node->inputs[node->input_count++] = gather->output;
        if (op == GRAPH_LAYER_NORM)
            node->inputs[node->input_count++] = vector, node->inputs[node->input_count++] = vector;
        if (op == GRAPH_MATMUL)
            node->inputs[node->input_count++] = table;
        node->given = op == GRAPH_SOFTMAX ? GRAPH_AXIS : op == GRAPH_TRANSPOSE ? GRAPH_PERM : 0; /* axis 1 */
        node->perm_count = which == 7 ? 2 : 3;
        memcpy(node->perm, which == 8 ? (const int64_t[]){0, 1, 1} : (const int64_t[]){0, 2, 1}, sizeof(int64_t[3]));
        graph->output = node->output;
        assert_int_equal(graph_runner_create(&runner, graph, 1, &error), ESPER_INVALID); /* 0: [1][8][4] is no answer */
        assert_true(error.text[0] != '\0');
        graph_free(graph);
    }
}

/* ---- sampling ---------------------------------------------------------------------------------------------------- */

struct text {
    uint8_t bytes[64];
    size_t count, most;
};

static bool keep(void *context, uint8_t byte)
{
    struct text *text = context;
    text->bytes[text->count++] = byte;
    return text->count < text->most;
}

static struct text sampled(struct network *network, const char *prompt, double temperature, uint64_t seed)
{
    struct text text = {.most = 64};
    struct esper_error error = {0};
    const struct sample_plan plan = {prompt, strlen(prompt), 40, temperature, seed};
    assert_int_equal(sample_text(network, &plan, keep, &text, &error), ESPER_OK);
    assert_int_equal(text.count, 40);
    return text;
}

static void test_sample(void **state)
{
    (void)state;
    struct network network = {0};
    struct esper_error error = {0};
    const struct model_seed seed = {"r0c0", STAGE_FOSSILIZED, TRANSFORMER_ATTENTION, ALGORITHM_GATE, 1};
    assert_int_equal(network_take(&network, random_text_model(&text_cases[0], &seed, 1, 3), 1, &error), ESPER_OK);
    struct text one = sampled(&network, "abc", 1, 7), again = sampled(&network, "abc", 1, 7);
    struct text other = sampled(&network, "abc", 1, 8), long_one = sampled(&network, "012345678901234567", 5, 7);
    struct text end = sampled(&network, "2345678901234567", 5, 7),
                changed = sampled(&network, "2345678901234560", 5, 7);
    struct text empty = sampled(&network, "", 1, 7), line = sampled(&network, "\n", 1, 7);
    assert_memory_equal(one.bytes, again.bytes, 40);
    assert_memory_not_equal(one.bytes, other.bytes, 40);
    assert_memory_equal(long_one.bytes, end.bytes, 40); /* the context holds 16 */
    assert_memory_not_equal(changed.bytes, end.bytes, 40);
    assert_memory_equal(empty.bytes, line.bytes, 40);

    /* greedy by hand: the whole text so far, its end while it is longer than the context */
    struct text greedy = sampled(&network, "abc", 0, 7);
    uint8_t all[43] = "abc", window[16];
    static float logits[16 * TRANSFORMER_BYTES];
    for (size_t n = 3; n < 43; n++) {
        size_t used = n < 16 ? n : 16;
        memset(window, 0xEE, sizeof window); /* what comes after the text has no effect */
        memcpy(window, all + n - used, used);
        network_logits(&network, window, 1, logits);
        all[n] = (uint8_t)best_of(logits + (used - 1) * TRANSFORMER_BYTES);
    }
    assert_memory_equal(all + 3, greedy.bytes, 40);

    struct text few = {.most = 3}; /* who writes can end it */
    const struct sample_plan plan = {"", 0, 40, 1, 7};
    assert_int_equal(sample_text(&network, &plan, keep, &few, &error), ESPER_OK);
    assert_int_equal(few.count, 3);
    network_close(&network);
}

/* A byte's share of the unit interval is its probability at that temperature. */
static void test_shares(void **state)
{
    (void)state;
    float logits[TRANSFORMER_BYTES];
    int count[TRANSFORMER_BYTES] = {0}, warm[TRANSFORMER_BYTES] = {0};
    for (int i = 0; i < TRANSFORMER_BYTES; i++)
        logits[i] = -1000;
    logits[10] = (float)log(1), logits[20] = (float)log(2), logits[255] = (float)log(5);
    for (int i = 0; i < 8000; i++) {
        count[sample_byte(logits, 1, (i + 0.5) / 8000)]++;
        warm[sample_byte(logits, 2, (i + 0.5) / 8000)]++;
    }
    assert_true(abs(count[10] - 1000) <= 1 && abs(count[20] - 2000) <= 1 && abs(count[255] - 5000) <= 1);
    const double sum = 1 + sqrt(2) + sqrt(5);
    assert_true(fabs(warm[10] - 8000 / sum) <= 1.5 && fabs(warm[255] - 8000 * sqrt(5) / sum) <= 1.5);
    assert_int_equal(sample_byte(logits, 0, 0), 255);
    assert_int_equal(sample_byte(logits, 1e-300, 0.999), 255);
    assert_int_equal(sample_byte(logits, 1, 1), 255); /* past the end */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parity),  cmocka_unit_test(test_trainer), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_misfits), cmocka_unit_test(test_sample),  cmocka_unit_test(test_shares),
    };
    return cmocka_run_group_tests_name("language model", tests, folder_make, folder_remove);
}
