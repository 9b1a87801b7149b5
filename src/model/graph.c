#include "model/graph.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "model/family.h"

const struct graph_op_info graph_ops[GRAPH_OP_COUNT] = {
    [GRAPH_ADD] = {"Add", 2, 2, 0},
    [GRAPH_SUB] = {"Sub", 2, 2, 0},
    [GRAPH_MUL] = {"Mul", 2, 2, 0},
    [GRAPH_DIV] = {"Div", 2, 2, 0},
    [GRAPH_RELU] = {"Relu", 1, 1, 0},
    [GRAPH_SIGMOID] = {"Sigmoid", 1, 1, 0},
    [GRAPH_TANH] = {"Tanh", 1, 1, 0},
    [GRAPH_ERF] = {"Erf", 1, 1, 0},
    [GRAPH_CONV] = {"Conv", 2, 3, GRAPH_KERNEL | GRAPH_STRIDES | GRAPH_PADS | GRAPH_GROUP},
    [GRAPH_BATCH_NORM] = {"BatchNormalization", 5, 5, GRAPH_EPSILON},
    [GRAPH_INSTANCE_NORM] = {"InstanceNormalization", 3, 3, GRAPH_EPSILON},
    [GRAPH_MAX_POOL] = {"MaxPool", 1, 1, GRAPH_KERNEL | GRAPH_STRIDES | GRAPH_PADS},
    [GRAPH_MEAN] = {"GlobalAveragePool", 1, 1, 0},
    [GRAPH_RESHAPE] = {"Reshape", 2, 2, 0},
    [GRAPH_FLATTEN] = {"Flatten", 1, 1, GRAPH_AXIS},
    [GRAPH_GEMM] = {"Gemm", 3, 3, GRAPH_TRANS_B},
    [GRAPH_MATMUL] = {"MatMul", 2, 2, 0},
    [GRAPH_TRANSPOSE] = {"Transpose", 1, 1, GRAPH_PERM},
    [GRAPH_SOFTMAX] = {"Softmax", 1, 1, GRAPH_AXIS},
    [GRAPH_LAYER_NORM] = {"LayerNormalization", 3, 3, GRAPH_AXIS | GRAPH_EPSILON},
    [GRAPH_GATHER] = {"Gather", 2, 2, 0},
};

/* Enough for any host and its seeds many times over; anything that needs more is not one of our networks. */
#define CONSTANT_MAX ((size_t)1 << 28)

struct graph *graph_create(struct esper_error *error)
{
    struct graph *graph = memory_alloc(1, sizeof *graph, error);
    if (graph)
        graph->input = graph->output = -1;
    return graph;
}

void graph_free(struct graph *graph)
{
    if (!graph)
        return;
    for (int i = 0; i < graph->value_count; i++) {
        memory_free(graph->values[i].floats);
        memory_free(graph->values[i].integers);
    }
    memory_free(graph);
}

/* The first mistake counts. */
static void graph_fail(struct graph *graph, const char *what, const char *name)
{
    if (graph->error.status == ESPER_OK)
        error_set(&graph->error, ESPER_INVALID, "%s %.60s", what, name);
}

int graph_find(const struct graph *graph, const char *name)
{
    for (int i = 0; i < graph->value_count; i++)
        if (strcmp(graph->values[i].name, name) == 0)
            return i;
    return -1;
}

int graph_value(struct graph *graph, const char *name)
{
    if (graph->value_count == GRAPH_VALUES || strlen(name) >= GRAPH_NAME || !*name || graph_find(graph, name) >= 0) {
        graph_fail(graph, "too many values, or a name that is taken, missing or too long:", name);
        return -1;
    }
    struct graph_value *value = &graph->values[graph->value_count];
    memcpy(value->name, name, strlen(name) + 1);
    return graph->value_count++;
}

float *graph_floats(struct graph *graph, int value, int dims, const int64_t *shape)
{
    size_t size = 1;
    if (value < 0)
        return NULL;
    struct graph_value *made = &graph->values[value];
    for (int d = 0; d < dims; d++) {
        if (dims > GRAPH_DIMS || shape[d] < 1 || (uint64_t)shape[d] > CONSTANT_MAX / size) {
            graph_fail(graph, "an extent out of range in", made->name);
            return NULL;
        }
        size *= (size_t)shape[d];
        made->shape[d] = shape[d];
    }
    made->dims = dims;
    struct esper_error error = {0};
    made->floats = memory_alloc(size, sizeof(float), &error);
    if (!made->floats && graph->error.status == ESPER_OK)
        graph->error = error;
    return made->floats;
}

int64_t *graph_integers(struct graph *graph, int value, int count)
{
    if (value < 0)
        return NULL;
    struct graph_value *made = &graph->values[value];
    struct esper_error error = {0};
    made->dims = 1;
    made->shape[0] = count;
    made->integers = memory_alloc((size_t)count, sizeof(int64_t), &error);
    if (!made->integers && graph->error.status == ESPER_OK)
        graph->error = error;
    return made->integers;
}

struct graph_node *graph_node(struct graph *graph, enum graph_op op, int output)
{
    if (output < 0)
        return NULL;
    if (graph->node_count == GRAPH_NODES) {
        graph_fail(graph, "too many nodes, at", graph->values[output].name);
        return NULL;
    }
    struct graph_node *node = &graph->nodes[graph->node_count++];
    *node = (struct graph_node){.op = op, .output = output, .strides = {1, 1}, .group = 1, .axis = 1, .epsilon = 1e-5f};
    return node;
}

enum esper_status graph_from_model(struct graph **out, const struct model *model, struct esper_error *error)
{
    struct graph *graph = graph_create(error);
    if (!graph)
        return ESPER_FAILED;
    model_describe(model, graph->source);
    memcpy(graph->task, model->source.task, sizeof graph->task);
    memcpy(graph->left_out, model->source.left_out, sizeof graph->left_out);
    model_family_of(&model->config)->build(model, graph);
    if (graph->error.status != ESPER_OK) {
        enum esper_status status = error_set(error, graph->error.status, "%s", graph->error.text);
        graph_free(graph);
        return status;
    }
    *out = graph;
    return ESPER_OK;
}
