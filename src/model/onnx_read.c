/*
 * Reads an ONNX file into a graph. Nothing in the file is trusted: lengths, counts, names and references are checked
 * before they are used, and whatever the graph cannot express - another operator, attribute, type or opset - is refused
 * by name, because ignoring it would mean computing something else.
 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "model/graph.h"
#include "model/onnx.h"
#include "model/protobuf.h"

struct reader {
    struct graph *graph;
    struct esper_error *error;
    bool broken; /* the bytes are not a message */
};

static enum esper_status refuse(struct reader *r, const char *what, const char *name)
{
    return error_set(r->error, ESPER_INVALID, "%s%s%.60s", what, *name ? " " : "", name);
}

static enum esper_status intact(struct reader *r, const char *what)
{
    return r->broken ? refuse(r, "damaged: not an ONNX message in", what) : ESPER_OK;
}

/* Texts of the file: short, printable, whole. */
static enum esper_status take_text(struct reader *r, const struct pb_field *field, char *out, size_t size)
{
    size_t length = (size_t)(field->bytes.end - field->bytes.at);
    if (field->kind != PB_BYTES || length >= size)
        return refuse(r, "a text is missing or too long", "");
    for (size_t i = 0; i < length; i++)
        if (field->bytes.at[i] < 0x20 || field->bytes.at[i] > 0x7E)
            return refuse(r, "a text holds characters that are not allowed in names", "");
    memcpy(out, field->bytes.at, length);
    out[length] = '\0';
    return ESPER_OK;
}

/* Append one number, or a packed list of them, to a short list. */
static enum esper_status take_integers(struct reader *r, const struct pb_field *field, int64_t *out, int most,
                                       int *count)
{
    struct pb_view list = field->bytes;
    uint64_t value = field->value;
    if (field->kind != PB_BYTES && field->kind != PB_VARINT)
        return refuse(r, "a list of numbers is of another type", "");
    while (field->kind == PB_VARINT || list.at < list.end) {
        if (*count == most)
            return refuse(r, "a list of numbers is too long", "");
        if (field->kind == PB_BYTES && !pb_varint(&list, &value))
            return refuse(r, "a list of numbers is damaged", "");
        out[(*count)++] = (int64_t)value;
        if (field->kind == PB_VARINT)
            break;
    }
    return ESPER_OK;
}

/* ---- constants --------------------------------------------------------------------------------------------------- */

struct constant {
    char name[GRAPH_NAME];
    int64_t shape[GRAPH_DIMS], type;
    int dims;
    struct pb_view raw;
};

static enum esper_status parse_constant(struct reader *r, struct pb_view view, struct constant *constant)
{
    struct pb_field field;
    while (pb_next(&view, &field, &r->broken)) {
        if (field.number == TENSOR_DIMS)
            TRY(take_integers(r, &field, constant->shape, GRAPH_DIMS, &constant->dims));
        else if (field.number == TENSOR_TYPE && field.kind == PB_VARINT)
            constant->type = (int64_t)field.value;
        else if (field.number == TENSOR_NAME)
            TRY(take_text(r, &field, constant->name, sizeof constant->name));
        else if (field.number == TENSOR_RAW && field.kind == PB_BYTES)
            constant->raw = field.bytes;
        else
            return refuse(r, "a constant is stored in a way this reader does not know:", constant->name);
    }
    return intact(r, "a constant");
}

static enum esper_status read_constant(struct reader *r, struct pb_view view)
{
    struct constant constant = {.name = ""};
    TRY(parse_constant(r, view, &constant));
    size_t bytes = (size_t)(constant.raw.end - constant.raw.at), size = sizeof(float);
    void *data = NULL;
    int value = graph_value(r->graph, constant.name);
    if (constant.type == ONNX_INT64) {
        size = sizeof(int64_t);
        if (constant.dims != 1 || constant.shape[0] < 1 || constant.shape[0] > GRAPH_DIMS)
            return refuse(r, "not a list of extents:", constant.name);
        data = graph_integers(r->graph, value, (int)constant.shape[0]);
    } else if (constant.type == ONNX_FLOAT) {
        /* The data has been read already: no more is allocated than it can fill. */
        for (int d = 0; d < constant.dims; d++)
            if (constant.shape[d] < 1 || (uint64_t)constant.shape[d] > bytes)
                return refuse(r, "shape and data do not agree in constant", constant.name);
        data = graph_floats(r->graph, value, constant.dims, constant.shape);
    } else {
        return refuse(r, "neither floats nor 64-bit integers in constant", constant.name);
    }
    if (!data)
        return error_set(r->error, r->graph->error.status, "%s", r->graph->error.text);
    for (int d = 0; d < constant.dims; d++)
        size *= (size_t)constant.shape[d];
    if (size != bytes)
        return refuse(r, "shape and data do not agree in constant", constant.name);
    memcpy(data, constant.raw.at, bytes);
    return ESPER_OK;
}

/* ---- inputs and outputs ------------------------------------------------------------------------------------------ */

struct border {
    struct graph_value value; /* its name and shape */
    uint64_t type;            /* of elements; 0: not given */
};

static enum esper_status read_dim(struct reader *r, struct pb_view view, int64_t *extent)
{
    struct pb_field field;
    *extent = 0;
    while (pb_next(&view, &field, &r->broken))
        if (field.number == DIM_VALUE && field.kind == PB_VARINT) {
            if (field.value < 1 || field.value > 1u << 20)
                return refuse(r, "an extent of the input is out of range", "");
            *extent = (int64_t)field.value;
        }
    return intact(r, "an extent");
}

static enum esper_status read_shape(struct reader *r, struct pb_view view, struct graph_value *value)
{
    struct pb_field field;
    while (pb_next(&view, &field, &r->broken)) {
        if (field.number != SHAPE_DIM || field.kind != PB_BYTES)
            continue;
        if (value->dims == GRAPH_DIMS)
            return refuse(r, "too many dimensions:", value->name);
        TRY(read_dim(r, field.bytes, &value->shape[value->dims++]));
    }
    return intact(r, "a shape");
}

static enum esper_status read_type(struct reader *r, struct pb_view view, struct border *border)
{
    struct pb_field field, inner;
    while (pb_next(&view, &field, &r->broken)) {
        if (field.number != TYPE_TENSOR || field.kind != PB_BYTES)
            return refuse(r, "not a tensor:", border->value.name);
        while (pb_next(&field.bytes, &inner, &r->broken)) {
            if (inner.number == TENSOR_TYPE_ELEMENT && inner.kind == PB_VARINT)
                border->type = inner.value;
            else if (inner.number == TENSOR_TYPE_SHAPE && inner.kind == PB_BYTES)
                TRY(read_shape(r, inner.bytes, &border->value));
        }
    }
    return intact(r, "a type");
}

/* Name and type of an input or output. */
static enum esper_status read_border(struct reader *r, struct pb_view view, struct border *border)
{
    struct pb_view whole = view;
    struct pb_field field;
    while (pb_next(&view, &field, &r->broken))
        if (field.number == VALUE_NAME)
            TRY(take_text(r, &field, border->value.name, sizeof border->value.name));
    while (pb_next(&whole, &field, &r->broken))
        if (field.number == VALUE_TYPE && field.kind == PB_BYTES)
            TRY(read_type(r, field.bytes, border));
    return intact(r, "an input or output");
}

/* Colour images of floats, or text of integers. */
static bool is_samples(const struct border *border)
{
    const int64_t *shape = border->value.shape;
    if (border->value.dims == 2)
        return border->type == ONNX_INT64 && shape[1] > 0;
    return border->type == ONNX_FLOAT && border->value.dims == 4 && shape[1] == SHAPE_COLOURS && shape[2] > 0 &&
           shape[3] > 0;
}

static enum esper_status read_input(struct reader *r, struct pb_view view)
{
    struct border border = {.type = 0};
    TRY(read_border(r, view, &border));
    if (r->graph->input >= 0)
        return refuse(r, "more than one input:", border.value.name);
    if (!is_samples(&border))
        return refuse(r, "the input is neither colour images nor bytes of text:", border.value.name);
    r->graph->input = graph_value(r->graph, border.value.name);
    if (r->graph->input < 0)
        return error_set(r->error, r->graph->error.status, "%s", r->graph->error.text);
    r->graph->values[r->graph->input] = border.value;
    r->graph->values[r->graph->input].shape[0] = 0;
    return ESPER_OK;
}

static enum esper_status read_output(struct reader *r, struct pb_view view)
{
    struct border border = {.type = 0};
    TRY(read_border(r, view, &border));
    if (r->graph->output >= 0)
        return refuse(r, "more than one output:", border.value.name);
    if (border.type != ONNX_FLOAT)
        return refuse(r, "not a tensor of floats:", border.value.name);
    r->graph->output = graph_find(r->graph, border.value.name);
    return r->graph->output >= 0 ? ESPER_OK : refuse(r, "no node makes the output", border.value.name);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

struct attribute {
    char name[GRAPH_NAME];
    float number;
    int64_t integers[4], integer;
    int count;
};

static enum esper_status parse_attribute(struct reader *r, struct pb_view view, struct attribute *attribute)
{
    struct pb_field field;
    while (pb_next(&view, &field, &r->broken)) {
        uint32_t bits = (uint32_t)field.value;
        if (field.number == ATTRIBUTE_NAME)
            TRY(take_text(r, &field, attribute->name, sizeof attribute->name));
        else if (field.number == ATTRIBUTE_FLOAT && field.kind == PB_FIXED32)
            memcpy(&attribute->number, &bits, sizeof bits);
        else if (field.number == ATTRIBUTE_INT && field.kind == PB_VARINT)
            attribute->integer = (int64_t)field.value;
        else if (field.number == ATTRIBUTE_INTS)
            TRY(take_integers(r, &field, attribute->integers, 4, &attribute->count));
        else if (field.number != ATTRIBUTE_TYPE)
            return refuse(r, "an attribute of an unknown type:", attribute->name);
    }
    return intact(r, "an attribute");
}

static enum esper_status read_attribute(struct reader *r, struct pb_view view, struct graph_node *node)
{
    static const struct {
        const char *name;
        unsigned bit;
        int count; /* of a list; 0: one number; GRAPH_DIMS + 1: a list of any length */
    } known[] = {{"kernel_shape", GRAPH_KERNEL, 2}, {"strides", GRAPH_STRIDES, 2},       {"pads", GRAPH_PADS, 4},
                 {"group", GRAPH_GROUP, 0},         {"epsilon", GRAPH_EPSILON, 0},       {"transB", GRAPH_TRANS_B, 0},
                 {"axis", GRAPH_AXIS, 0},           {"perm", GRAPH_PERM, GRAPH_DIMS + 1}};
    struct attribute a = {.name = ""};
    unsigned bit = 0;
    TRY(parse_attribute(r, view, &a));
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, a.name) == 0 &&
            (known[i].count == a.count || (known[i].count > GRAPH_DIMS && a.count > 0)))
            bit = known[i].bit & graph_ops[node->op].attributes;
    if (!bit)
        return error_set(r->error, ESPER_INVALID, "%s has an attribute this reader does not know: %s",
                         graph_ops[node->op].name, a.name);
    node->given |= bit;
    if (bit == GRAPH_KERNEL)
        memcpy(node->kernel, a.integers, sizeof node->kernel);
    else if (bit == GRAPH_STRIDES)
        memcpy(node->strides, a.integers, sizeof node->strides);
    else if (bit == GRAPH_PADS)
        memcpy(node->pads, a.integers, sizeof node->pads);
    else if (bit == GRAPH_GROUP)
        node->group = a.integer;
    else if (bit == GRAPH_EPSILON)
        node->epsilon = a.number;
    else if (bit == GRAPH_TRANS_B)
        node->trans_b = a.integer;
    else if (bit == GRAPH_AXIS)
        node->axis = a.integer;
    else {
        node->perm_count = a.count;
        memcpy(node->perm, a.integers, sizeof node->perm);
    }
    return ESPER_OK;
}

static enum esper_status find_op(struct reader *r, struct pb_view view, enum graph_op *op)
{
    struct pb_field field;
    char name[GRAPH_NAME] = "";
    while (pb_next(&view, &field, &r->broken)) {
        if (field.number == NODE_OP)
            TRY(take_text(r, &field, name, sizeof name));
        if (field.number == NODE_DOMAIN && field.bytes.at != field.bytes.end)
            return refuse(r, "an operator outside the standard set", "");
    }
    TRY(intact(r, "a node"));
    for (int i = 0; i < GRAPH_OP_COUNT; i++)
        if (strcmp(graph_ops[i].name, name) == 0) {
            *op = (enum graph_op)i;
            return ESPER_OK;
        }
    return refuse(r, "this reader runs what `esper export` writes, and that has no operator", name);
}

static enum esper_status read_node(struct reader *r, struct pb_view view)
{
    struct pb_view whole = view;
    struct pb_field field;
    struct graph_node parsed = {.input_count = 0};
    char name[GRAPH_NAME];
    int output = -1;
    TRY(find_op(r, view, &parsed.op));
    while (pb_next(&whole, &field, &r->broken)) {
        if (field.number == NODE_INPUT) {
            TRY(take_text(r, &field, name, sizeof name));
            int value = graph_find(r->graph, name);
            if (value < 0)
                return refuse(r, "a node reads what nothing before it made:", name);
            if (parsed.input_count == graph_ops[parsed.op].max_inputs)
                return refuse(r, "too many inputs to", graph_ops[parsed.op].name);
            parsed.inputs[parsed.input_count++] = value;
        } else if (field.number == NODE_OUTPUT) {
            TRY(take_text(r, &field, name, sizeof name));
            if (output >= 0)
                return refuse(r, "more than one output of", graph_ops[parsed.op].name);
            output = graph_value(r->graph, name);
        }
    }
    struct graph_node *node = graph_node(r->graph, parsed.op, output);
    if (!node || parsed.input_count < graph_ops[parsed.op].min_inputs)
        return refuse(r, "too few inputs, no output or one that is taken, at", graph_ops[parsed.op].name);
    memcpy(node->inputs, parsed.inputs, sizeof node->inputs);
    node->input_count = parsed.input_count;
    while (pb_next(&view, &field, &r->broken))
        if (field.number == NODE_ATTRIBUTE && field.kind == PB_BYTES)
            TRY(read_attribute(r, field.bytes, node));
    return intact(r, "a node");
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static enum esper_status read_each(struct reader *r, struct pb_view view, int number,
                                   enum esper_status (*read)(struct reader *, struct pb_view))
{
    struct pb_field field;
    while (pb_next(&view, &field, &r->broken))
        if (field.number == number && field.kind == PB_BYTES)
            TRY(read(r, field.bytes));
    return intact(r, "the graph");
}

/* Constants and the input first: nodes name them. */
static enum esper_status read_graph(struct reader *r, struct pb_view view)
{
    TRY(read_each(r, view, GRAPHS_CONSTANT, read_constant));
    TRY(read_each(r, view, GRAPHS_INPUT, read_input));
    TRY(read_each(r, view, GRAPHS_NODE, read_node));
    TRY(read_each(r, view, GRAPHS_OUTPUT, read_output));
    if (r->graph->input < 0 || r->graph->output < 0)
        return refuse(r, "the graph has no", r->graph->input < 0 ? "input" : "output");
    return ESPER_OK;
}

static enum esper_status read_opset(struct reader *r, struct pb_view view)
{
    struct pb_field field;
    uint64_t version = 0;
    while (pb_next(&view, &field, &r->broken)) {
        if (field.number == OPSET_DOMAIN && field.bytes.at != field.bytes.end)
            return refuse(r, "operators outside the standard set", "");
        if (field.number == OPSET_VERSION && field.kind == PB_VARINT)
            version = field.value;
    }
    TRY(intact(r, "the opset"));
    if (version != ONNX_OPSET)
        return error_set(r->error, ESPER_UNSUPPORTED, "opset %llu; this reader knows %d", (unsigned long long)version,
                         ONNX_OPSET);
    return ESPER_OK;
}

/* Entries of other programs are ignored; what is kept is only displayed. */
static enum esper_status read_meta(struct reader *r, struct pb_view view)
{
    struct pb_field field;
    char key[GRAPH_NAME] = "", value[MODEL_TEXT] = "";
    struct esper_error ignored;
    struct reader lenient = {.error = &ignored};
    while (pb_next(&view, &field, &r->broken))
        if (field.number == META_KEY)
            take_text(&lenient, &field, key, sizeof key);
        else if (field.number == META_VALUE)
            take_text(&lenient, &field, value, sizeof value);
    if (strcmp(key, ONNX_META_SOURCE) == 0)
        memcpy(r->graph->source, value, sizeof value);
    else if (strcmp(key, ONNX_META_TASK) == 0)
        snprintf(r->graph->task, sizeof r->graph->task, "%.63s", value);
    else if (strcmp(key, ONNX_META_LEFT_OUT) == 0)
        memcpy(r->graph->left_out, value, sizeof value);
    return intact(r, "the metadata");
}

static enum esper_status read_model(struct reader *r, struct pb_view view)
{
    struct pb_view graph = {NULL, NULL}, whole = view;
    struct pb_field field;
    uint64_t ir = 0;
    int opsets = 0;
    while (pb_next(&view, &field, &r->broken)) {
        if (field.number == MODEL_IR && field.kind == PB_VARINT)
            ir = field.value;
        else if (field.number == MODEL_GRAPH && field.kind == PB_BYTES)
            graph = field.bytes;
        opsets += field.number == MODEL_OPSET;
    }
    if (r->broken || ir == 0 || !graph.at || !opsets)
        return refuse(r, "neither a model in safetensors form nor an ONNX file, or damaged", "");
    if (ir != ONNX_IR_VERSION)
        return error_set(r->error, ESPER_UNSUPPORTED, "ONNX format version %llu; this reader knows %d",
                         (unsigned long long)ir, ONNX_IR_VERSION);
    TRY(read_each(r, whole, MODEL_OPSET, read_opset));
    TRY(read_each(r, whole, MODEL_META, read_meta));
    return read_graph(r, graph);
}

enum esper_status onnx_read(const char *path, struct graph **out, struct esper_error *error)
{
    void *content;
    size_t bytes;
    TRY(file_load(path, &content, &bytes, error));
    struct reader r = {.graph = graph_create(error), .error = error};
    enum esper_status status = ESPER_FAILED;
    if (r.graph) {
        static const uint8_t nothing;
        const uint8_t *data = bytes ? content : &nothing;
        status = read_model(&r, (struct pb_view){data, data + bytes});
        if (status != ESPER_OK) {
            graph_free(r.graph);
            error_where(error, "%s", path);
        }
    }
    memory_free(content);
    if (status == ESPER_OK)
        *out = r.graph;
    return status;
}
