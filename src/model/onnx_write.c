#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "model/graph.h"
#include "model/onnx.h"
#include "model/protobuf.h"

static void put_ints(struct pb_buffer *out, const char *name, const int64_t *values, int count)
{
    size_t begin = pb_begin(out);
    pb_text(out, ATTRIBUTE_NAME, name);
    for (int i = 0; i < count; i++)
        pb_integer(out, ATTRIBUTE_INTS, values[i]);
    pb_integer(out, ATTRIBUTE_TYPE, ONNX_A_INTS);
    pb_end(out, NODE_ATTRIBUTE, begin);
}

static void put_int(struct pb_buffer *out, const char *name, int64_t value)
{
    size_t begin = pb_begin(out);
    pb_text(out, ATTRIBUTE_NAME, name);
    pb_integer(out, ATTRIBUTE_INT, value);
    pb_integer(out, ATTRIBUTE_TYPE, ONNX_A_INT);
    pb_end(out, NODE_ATTRIBUTE, begin);
}

static void put_float(struct pb_buffer *out, const char *name, float value)
{
    size_t begin = pb_begin(out);
    pb_text(out, ATTRIBUTE_NAME, name);
    pb_float(out, ATTRIBUTE_FLOAT, value);
    pb_integer(out, ATTRIBUTE_TYPE, ONNX_A_FLOAT);
    pb_end(out, NODE_ATTRIBUTE, begin);
}

static void put_node(struct pb_buffer *out, const struct graph *graph, const struct graph_node *node)
{
    size_t begin = pb_begin(out);
    for (int i = 0; i < node->input_count; i++)
        pb_text(out, NODE_INPUT, graph->values[node->inputs[i]].name);
    pb_text(out, NODE_OUTPUT, graph->values[node->output].name);
    pb_text(out, NODE_NAME, graph->values[node->output].name);
    pb_text(out, NODE_OP, graph_ops[node->op].name);
    if (node->given & GRAPH_KERNEL)
        put_ints(out, "kernel_shape", node->kernel, 2);
    if (node->given & GRAPH_STRIDES)
        put_ints(out, "strides", node->strides, 2);
    if (node->given & GRAPH_PADS)
        put_ints(out, "pads", node->pads, 4);
    if (node->given & GRAPH_GROUP)
        put_int(out, "group", node->group);
    if (node->given & GRAPH_EPSILON)
        put_float(out, "epsilon", node->epsilon);
    if (node->given & GRAPH_TRANS_B)
        put_int(out, "transB", node->trans_b);
    if (node->given & GRAPH_AXIS)
        put_int(out, "axis", node->axis);
    if (node->given & GRAPH_PERM)
        put_ints(out, "perm", node->perm, node->perm_count);
    pb_end(out, GRAPHS_NODE, begin);
}

static void put_constant(struct pb_buffer *out, const struct graph_value *value)
{
    size_t begin = pb_begin(out), size = value->floats ? sizeof(float) : sizeof(int64_t);
    for (int d = 0; d < value->dims; d++) {
        pb_integer(out, TENSOR_DIMS, value->shape[d]);
        size *= (size_t)value->shape[d];
    }
    pb_integer(out, TENSOR_TYPE, value->floats ? ONNX_FLOAT : ONNX_INT64);
    pb_text(out, TENSOR_NAME, value->name);
    pb_bytes(out, TENSOR_RAW, value->floats ? (const void *)value->floats : (const void *)value->integers, size);
    pb_end(out, GRAPHS_CONSTANT, begin);
}

static void put_dim(struct pb_buffer *out, int64_t extent)
{
    size_t begin = pb_begin(out);
    if (extent > 0)
        pb_integer(out, DIM_VALUE, extent);
    else
        pb_text(out, DIM_PARAM, "N");
    pb_end(out, SHAPE_DIM, begin);
}

/* The graph's input or output; an extent of 0 may be any size. */
static void put_border(struct pb_buffer *out, int field, const struct graph_value *border, int type_of_elements)
{
    size_t value = pb_begin(out);
    pb_text(out, VALUE_NAME, border->name);
    size_t type = pb_begin(out), tensor = pb_begin(out);
    pb_integer(out, TENSOR_TYPE_ELEMENT, type_of_elements);
    size_t extents = pb_begin(out);
    for (int d = 0; d < border->dims; d++)
        put_dim(out, border->shape[d]);
    pb_end(out, TENSOR_TYPE_SHAPE, extents);
    pb_end(out, TYPE_TENSOR, tensor);
    pb_end(out, VALUE_TYPE, type);
    pb_end(out, field, value);
}

static void put_graph(struct pb_buffer *out, const struct graph *graph)
{
    size_t begin = pb_begin(out);
    for (int i = 0; i < graph->node_count; i++)
        put_node(out, graph, &graph->nodes[i]);
    pb_text(out, GRAPHS_NAME, "esper");
    for (int i = 0; i < graph->value_count; i++)
        if (graph->values[i].floats || graph->values[i].integers)
            put_constant(out, &graph->values[i]);
    put_border(out, GRAPHS_INPUT, &graph->values[graph->input],
               graph_reads(graph) == KIND_TEXT ? ONNX_INT64 : ONNX_FLOAT);
    put_border(out, GRAPHS_OUTPUT, &graph->values[graph->output], ONNX_FLOAT);
    pb_end(out, MODEL_GRAPH, begin);
}

static void put_meta(struct pb_buffer *out, const char *key, const char *value)
{
    size_t begin = pb_begin(out);
    pb_text(out, META_KEY, key);
    pb_text(out, META_VALUE, value);
    pb_end(out, MODEL_META, begin);
}

static void put_model(struct pb_buffer *out, const struct graph *graph)
{
    pb_integer(out, MODEL_IR, ONNX_IR_VERSION);
    pb_text(out, MODEL_PRODUCER, "esper");
    pb_text(out, MODEL_PRODUCER_VERSION, ESPER_VERSION);
    pb_text(out, MODEL_DOC,
            graph_reads(graph) == KIND_TEXT
                ? "tokens: bytes of text, 0..255; logits: of the byte after each of them"
                : "image: raw pixels 0..255, red, green, blue; normalisation is part of the graph");
    put_graph(out, graph);
    size_t begin = pb_begin(out);
    pb_text(out, OPSET_DOMAIN, "");
    pb_integer(out, OPSET_VERSION, ONNX_OPSET);
    pb_end(out, MODEL_OPSET, begin);
    put_meta(out, ONNX_META_SOURCE, graph->source);
    put_meta(out, ONNX_META_TASK, graph->task);
    put_meta(out, ONNX_META_LEFT_OUT, graph->left_out);
}

enum esper_status onnx_write(const struct graph *graph, const char *path, struct esper_error *error)
{
    struct pb_buffer out = {0};
    struct file_writer writer;
    put_model(&out, graph);
    enum esper_status status = out.failed ? error_set(error, ESPER_FAILED, "%s: out of memory", path)
                                          : file_begin(&writer, path, error);
    if (status == ESPER_OK)
        status = file_write(&writer, out.data, out.size, error);
    if (status == ESPER_OK)
        status = file_commit(&writer, error);
    pb_release(&out);
    return status;
}
