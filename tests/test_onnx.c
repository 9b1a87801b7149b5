/* ONNX files: the exported graph answers as the kernels do, and no file can harm its reader. */
#include "testing_model.h"

#include "base/file.h"
#include "model/protobuf.h"

enum { IMAGES = 11 };

/* ---- parity ------------------------------------------------------------------------------------------------------ */

/* Write the model, read it back, run it: the largest difference of any logit. */
static double onnx_difference(const struct model *model, uint32_t number)
{
    struct graph *graph, *read;
    struct graph_runner *runner;
    struct esper_error error = {0};
    float kernels[IMAGES * SHAPE_CLASSES], loops[IMAGES * SHAPE_CLASSES];
    uint8_t *images = random_images(IMAGES, model->config.data_size, number);
    double worst = 0, spread = 0;
    if (graph_from_model(&graph, model, &error) != ESPER_OK ||
        onnx_write(graph, in_folder("model.onnx"), &error) != ESPER_OK ||
        onnx_read(in_folder("model.onnx"), &read, &error) != ESPER_OK ||
        graph_runner_create(&runner, read, 4, &error) != ESPER_OK)
        fail_msg("%s", error.text);
    assert_int_equal(graph_sample(runner).classes, SHAPE_CLASSES);
    assert_int_equal(read->node_count, graph->node_count);
    assert_string_equal(read->source, graph->source);
    logits_of_model(model, images, IMAGES, kernels);
    graph_logits(runner, images, IMAGES, loops);
    for (int i = 0; i < IMAGES * SHAPE_CLASSES; i++) {
        worst = fmax(worst, fabs((double)kernels[i] - (double)loops[i]));
        spread = fmax(spread, fabs((double)kernels[i] - (double)kernels[i % SHAPE_CLASSES]));
    }
    assert_true(isfinite(worst) && spread > 0.01); /* images differ: the network looks at them */
    graph_runner_free(runner);
    graph_free(read);
    graph_free(graph);
    memory_free(images);
    unlink(in_folder("model.onnx"));
    return worst;
}

/* Every blueprint by every operator in the first slot, another kind in the second, on five hosts. */
static void test_parity(void **state)
{
    (void)state;
    for (int host = 0; host < HOST_CASES; host++) {
        struct model *bare = random_model(&host_cases[host], NULL, 0, 1);
        double worst = onnx_difference(bare, 0);
        model_free(bare);
        for (int i = 0; i < BLUEPRINT_COUNT * 3; i++) {
            struct model_seed seeds[] = {{"r0c0", STAGE_HOLDING, 0, 0, 0}, {"r0c1", STAGE_FOSSILIZED, 0, 0, 0}};
            seeds[0].blueprint = (uint8_t)(i / 3);
            seeds[1].blueprint = (uint8_t)((i / 3 + 3) % BLUEPRINT_COUNT);
            seeds[0].algorithm = (uint8_t)(ALGORITHM_ADD + i % 3);
            seeds[1].algorithm = (uint8_t)(ALGORITHM_ADD + (i + 1) % 3);
            seeds[0].alpha = i % 4 == 3 ? 1.0f : 0.3f + 0.2f * (float)(i % 4);
            seeds[1].alpha = i % 2 ? 1.0f : 0.45f;
            struct model *model = random_model(&host_cases[host], seeds, 2, (uint32_t)i);
            double difference = onnx_difference(model, (uint32_t)i);
            if (difference > 1e-4)
                fail_msg("%s, %s by %s at %g: logits differ by %g", host_cases[host].name,
                         blueprint_name(seeds[0].blueprint), algorithm_name(seeds[0].algorithm), (double)seeds[0].alpha,
                         difference);
            worst = fmax(worst, difference);
            model_free(model);
        }
        print_message("%-22s largest difference of a logit %.2g\n", host_cases[host].name, worst);
    }
}

/* All slots of a deep host at once, before and after the pools. */
static void test_full_host(void **state)
{
    (void)state;
    const struct host_case deep = {"deep", 4, 5, 3, 5, 32};
    static const char *const ids[] = {"r0c0", "r0c1", "r0c2", "r0c3", "r0c4", "r1c0", "r1c1", "r1c2", "r1c3", "r1c4"};
    struct model_seed seeds[10];
    for (int i = 0; i < 10; i++) {
        seeds[i] = (struct model_seed){"", STAGE_BLENDING, (uint8_t)((i + 1) % BLUEPRINT_COUNT),
                                       (uint8_t)(ALGORITHM_ADD + i % 3), 0.1f * (float)(i + 1)};
        memcpy(seeds[i].slot, ids[i], 5);
    }
    struct model *model = random_model(&deep, seeds, 10, 5);
    double difference = onnx_difference(model, 5);
    print_message("ten seeds: largest difference of a logit %.2g\n", difference);
    assert_true(difference <= 1e-4);
    model_free(model);
}

/* ---- the interpreter by itself ----------------------------------------------------------------------------------- */

static struct graph_node *add_node(struct graph *graph, enum graph_op op, const char *name, int x)
{
    struct graph_node *node = graph_node(graph, op, graph_value(graph, name));
    assert_non_null(node);
    node->inputs[node->input_count++] = x;
    return node;
}

static struct graph *image_graph(int height, int width)
{
    struct graph *graph = graph_create(NULL);
    assert_non_null(graph);
    graph->input = graph_value(graph, "image");
    graph->values[graph->input].dims = 4;
    memcpy(graph->values[graph->input].shape, (const int64_t[]){0, 3, height, width}, sizeof(int64_t[4]));
    return graph;
}

/* By hand: stride, unequal pads, groups and bias of a convolution, which the writer never combines. */
static void test_conv_by_hand(void **state)
{
    (void)state;
    struct graph *graph = image_graph(2, 3);
    struct graph_runner *runner;
    int weight = graph_value(graph, "w"), bias = graph_value(graph, "b");
    float *w = graph_floats(graph, weight, 4, (const int64_t[]){3, 1, 2, 2});
    float *b = graph_floats(graph, bias, 1, (const int64_t[]){3});
    for (int i = 0; i < 12; i++)
        w[i] = (float)(i % 4 + 1);
    b[0] = 100, b[1] = 200, b[2] = 300;
    struct graph_node *node = add_node(graph, GRAPH_CONV, "y", graph->input);
    node->inputs[node->input_count++] = weight;
    node->inputs[node->input_count++] = bias;
    node->group = 3;
    node->strides[0] = node->strides[1] = 2;
    node->pads[0] = 1; /* a row above */
    node->pads[3] = 1; /* a column to the right */
    graph->output = add_node(graph, GRAPH_FLATTEN, "flat", node->output)->output;
    assert_int_equal(graph_runner_create(&runner, graph, 1, NULL), ESPER_OK);
    assert_int_equal(graph_sample(runner).classes, 3 * 1 * 2);
    uint8_t image[18];
    float out[6];
    for (int i = 0; i < 6; i++)
        for (int c = 0; c < 3; c++)
            image[i * 3 + c] = (uint8_t)(i + 1 + 10 * c);
    graph_logits(runner, image, 1, out);
    /* channel 0: rows 1 2 3 / 4 5 6; the window sees the row of zeros and 1 2, then 3 and nothing */
    assert_true(out[0] == 100 + 3 * 1 + 4 * 2 && out[1] == 100 + 3 * 3);
    assert_true(out[2] == 200 + 3 * 11 + 4 * 12 && out[3] == 200 + 3 * 13);
    assert_true(out[4] == 300 + 3 * 21 + 4 * 22 && out[5] == 300 + 3 * 23);
    graph_runner_free(runner);
    graph_free(graph);
}

/* What does not fit together is refused, not run. */
static void test_misfits(void **state)
{
    (void)state;
    for (int which = 0; which < 8; which++) {
        struct graph *graph = image_graph(4, 4);
        struct graph_runner *runner;
        struct esper_error error = {0};
        int weight = graph_value(graph, "w");
        graph_floats(graph, weight, 4, (const int64_t[]){2, which == 0 ? 4 : 3, 3, 3});
        struct graph_node *node = add_node(graph, GRAPH_CONV, "y", graph->input);
        node->inputs[node->input_count++] = weight;
        if (which == 1)
            node->inputs[node->input_count++] = graph->input; /* as its bias */
        if (which == 2)
            node->group = 2;
        if (which == 3)
            node->strides[0] = 0;
        if (which == 4)
            node->pads[2] = -1;
        if (which == 5)
            node->group = 0;
        graph->output = which == 6 ? node->output : add_node(graph, GRAPH_FLATTEN, "flat", node->output)->output;
        if (which == 7) {
            int shape = graph_value(graph, "shape");
            graph_integers(graph, shape, 2)[1] = 5; /* 0, 5: of 8 numbers */
            struct graph_node *reshape = add_node(graph, GRAPH_RESHAPE, "z", node->output);
            reshape->inputs[reshape->input_count++] = shape;
        }
        assert_int_equal(graph_runner_create(&runner, graph, 1, &error), ESPER_INVALID);
        assert_true(error.text[0] != '\0');
        graph_free(graph);
    }
}

/* ---- the wire ---------------------------------------------------------------------------------------------------- */

static void test_wire(void **state)
{
    (void)state;
    static const int64_t values[] = {0, 1, 127, 128, 300, INT64_MAX, -1, INT64_MIN};
    struct pb_buffer out = {0};
    struct pb_field field;
    bool broken = false;
    size_t outer = pb_begin(&out);
    for (int i = 0; i < 8; i++)
        pb_integer(&out, 1 + 100 * i, values[i]);
    pb_float(&out, 5, 1.5f);
    pb_text(&out, 6, "text");
    pb_end(&out, 3, outer);
    struct pb_view view = {out.data, out.data + out.size};
    assert_true(pb_next(&view, &field, &broken) && field.number == 3 && field.kind == PB_BYTES);
    assert_ptr_equal(view.at, view.end);
    struct pb_view inner = field.bytes;
    for (int i = 0; i < 8; i++) {
        assert_true(pb_next(&inner, &field, &broken));
        assert_true(field.number == 1 + 100 * i && (int64_t)field.value == values[i]);
    }
    assert_true(pb_next(&inner, &field, &broken) && field.kind == PB_FIXED32 && field.value == 0x3FC00000);
    assert_true(pb_next(&inner, &field, &broken) && field.bytes.end - field.bytes.at == 4);
    assert_false(pb_next(&inner, &field, &broken) || broken);
    /* cut anywhere inside, it is broken */
    for (size_t cut = 1; cut < out.size; cut++) {
        view = (struct pb_view){out.data, out.data + cut};
        broken = false;
        assert_false(pb_next(&view, &field, &broken));
        assert_true(broken);
    }
    pb_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parity),  cmocka_unit_test(test_full_host), cmocka_unit_test(test_conv_by_hand),
        cmocka_unit_test(test_misfits), cmocka_unit_test(test_wire),
    };
    return cmocka_run_group_tests_name("onnx", tests, folder_make, folder_remove);
}
