/*
 * Runs a graph: every node once, in order, by plain loops over floats. It exists so that an exported file can be
 * tried and trusted, and shares nothing with the trainer's kernels; it is not meant to be fast.
 */
#include <stdio.h>

#include "base/memory.h"
#include "model/graph.h"
#include "model/graph_ops.h"

#define MEMORY_MAX ((size_t)1 << 30) /* floats of all values together */

struct graph_runner {
    const struct graph *graph;
    int batch;
    double work;
    float *memory;
    int64_t *tokens;                           /* where the input is text */
    struct graph_tensor tensors[GRAPH_VALUES]; /* of each value: shape, and where its data is */
};

static enum esper_status plan_node(struct graph_runner *runner, const struct graph_node *node,
                                   struct esper_error *error)
{
    const struct graph *graph = runner->graph;
    const struct graph_tensor *inputs[GRAPH_INPUTS] = {NULL};
    struct graph_tensor *output = &runner->tensors[node->output];
    for (int i = 0; i < node->input_count; i++)
        inputs[i] = &runner->tensors[node->inputs[i]];
    const char *problem = graph_op_plan(node, inputs, output, &runner->work);
    if (problem)
        return error_set(error, ESPER_INVALID, "%s \"%s\": %s", graph_ops[node->op].name,
                         graph->values[node->output].name, problem);
    return ESPER_OK;
}

static enum esper_status plan(struct graph_runner *runner, struct esper_error *error)
{
    const struct graph *graph = runner->graph;
    for (int i = 0; i < graph->value_count; i++) {
        const struct graph_value *value = &graph->values[i];
        struct graph_tensor *tensor = &runner->tensors[i];
        tensor->dims = value->dims;
        for (int d = 0; d < value->dims; d++)
            tensor->shape[d] = value->shape[d];
        tensor->data = value->floats;
        tensor->integers = value->integers;
    }
    runner->tensors[graph->input].shape[0] = runner->batch;
    runner->tensors[graph->input].tokens = graph_reads(graph) == KIND_TEXT;
    for (int i = 0; i < graph->node_count; i++)
        TRY(plan_node(runner, &graph->nodes[i], error));
    const struct graph_tensor *output = &runner->tensors[graph->output], *input = &runner->tensors[graph->input];
    if (output->shape[0] == runner->batch) {
        if (!input->tokens && output->dims == 2)
            return ESPER_OK;
        if (input->tokens && output->dims == 3 && output->shape[1] == input->shape[1])
            return ESPER_OK;
    }
    return error_set(error, ESPER_INVALID, "output \"%s\" is not one row of numbers per %s",
                     graph->values[graph->output].name, input->tokens ? "byte" : "image");
}

/* Assigns memory to every value that is not a constant: first counts, then places. */
static enum esper_status place(struct graph_runner *runner, struct esper_error *error)
{
    const struct graph *graph = runner->graph;
    struct graph_tensor *input = &runner->tensors[graph->input];
    size_t total = graph_tensor_size(input), used = total;
    for (int i = 0; i < graph->node_count; i++)
        total += graph_tensor_size(&runner->tensors[graph->nodes[i].output]);
    if (total > MEMORY_MAX)
        return error_set(error, ESPER_INVALID, "it needs more memory than this reader gives to a network");
    runner->memory = memory_alloc(total, sizeof(float), error);
    if (input->tokens)
        runner->tokens = memory_alloc(used, sizeof *runner->tokens, error);
    if (!runner->memory || (input->tokens && !runner->tokens))
        return ESPER_FAILED;
    input->data = runner->memory;
    input->integers = runner->tokens;
    for (int i = 0; i < graph->node_count; i++) {
        struct graph_tensor *tensor = &runner->tensors[graph->nodes[i].output];
        tensor->data = runner->memory + used;
        used += graph_tensor_size(tensor);
    }
    return ESPER_OK;
}

enum esper_status graph_runner_create(struct graph_runner **out, const struct graph *graph, int batch,
                                      struct esper_error *error)
{
    struct graph_runner *runner = memory_alloc(1, sizeof *runner, error);
    if (!runner)
        return ESPER_FAILED;
    runner->graph = graph;
    runner->batch = batch;
    enum esper_status status = plan(runner, error);
    if (status == ESPER_OK)
        status = place(runner, error);
    if (status != ESPER_OK) {
        graph_runner_free(runner);
        return status;
    }
    *out = runner;
    return ESPER_OK;
}

void graph_runner_free(struct graph_runner *runner)
{
    if (!runner)
        return;
    memory_free(runner->memory);
    memory_free(runner->tokens);
    memory_free(runner);
}

struct model_sample graph_sample(const struct graph_runner *runner)
{
    const struct graph_tensor *input = &runner->tensors[runner->graph->input];
    const struct graph_tensor *output = &runner->tensors[runner->graph->output];
    const size_t outputs = graph_tensor_size(output) / (size_t)runner->batch,
                 classes = (size_t)output->shape[output->dims - 1];
    return (struct model_sample){.kind = graph_reads(runner->graph),
                                 .size = (int)input->shape[input->dims - 1],
                                 .bytes = graph_tensor_size(input) / (size_t)runner->batch,
                                 .targets = outputs / classes,
                                 .classes = classes};
}

double graph_work(const struct graph_runner *runner)
{
    return runner->work;
}

/* Bytes [h][w][3] to floats [3][h][w]. */
static void place_image(const uint8_t *image, int64_t pixels, float *out)
{
    for (int64_t i = 0; i < pixels; i++)
        for (int c = 0; c < SHAPE_COLOURS; c++)
            out[c * pixels + i] = (float)image[i * SHAPE_COLOURS + c];
}

/* Sample n of a batch. */
static void place_sample(struct graph_runner *runner, const uint8_t *sample, size_t bytes, size_t n)
{
    const struct graph_tensor *input = &runner->tensors[runner->graph->input];
    if (input->tokens)
        for (size_t i = 0; i < bytes; i++)
            runner->tokens[n * bytes + i] = sample[i];
    else
        place_image(sample, input->shape[2] * input->shape[3], input->data + n * bytes);
}

static void run_nodes(struct graph_runner *runner)
{
    const struct graph *graph = runner->graph;
    for (int i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        const struct graph_tensor *inputs[GRAPH_INPUTS] = {NULL};
        for (int k = 0; k < node->input_count; k++)
            inputs[k] = &runner->tensors[node->inputs[k]];
        graph_op_run(node, inputs, &runner->tensors[node->output]);
    }
}

/* A batch is always full: the last one is padded with what the input still holds, and those rows are dropped. */
void graph_logits(struct graph_runner *runner, const uint8_t *samples, size_t count, float *logits)
{
    const struct model_sample sample = graph_sample(runner);
    const size_t batch = (size_t)runner->batch, outputs = sample.targets * sample.classes;
    const float *answer = runner->tensors[runner->graph->output].data;
    for (size_t first = 0; first < count; first += batch) {
        const size_t now = count - first < batch ? count - first : batch;
        for (size_t n = 0; n < now; n++)
            place_sample(runner, samples + (first + n) * sample.bytes, sample.bytes, n);
        run_nodes(runner);
        for (size_t k = 0; k < now * outputs; k++)
            logits[first * outputs + k] = answer[k];
    }
}
