#include "model/build.h"

#include <stdio.h>
#include <string.h>

struct build_text build_name(const char *prefix, const char *part)
{
    struct build_text name;
    snprintf(name.text, sizeof name.text, "%.40s.%.22s", prefix, part);
    return name;
}

struct build_text build_numbered(const char *prefix, const char *part, int number)
{
    struct build_text name;
    snprintf(name.text, sizeof name.text, "%.30s.%.10s%d", prefix, part, number);
    return name;
}

const struct model_tensor *build_tensor(const struct builder *b, const char *name)
{
    for (int i = 0; i < b->count; i++)
        if (strcmp(b->tensors[i].name, name) == 0)
            return &b->tensors[i];
    return NULL;
}

const struct model_tensor *build_part(const struct builder *b, const char *prefix, const char *part)
{
    return build_tensor(b, build_name(prefix, part).text);
}

/* ---- input and output -------------------------------------------------------------------------------------------- */

static void set_border(struct graph *graph, int value, int dims, const int64_t *extents)
{
    if (value < 0)
        return;
    graph->values[value].dims = 1 + dims;
    graph->values[value].shape[0] = 0;
    memcpy(graph->values[value].shape + 1, extents, sizeof *extents * (size_t)dims);
}

int build_input(struct builder *b, const char *name, int dims, const int64_t *extents)
{
    b->graph->input = graph_value(b->graph, name);
    set_border(b->graph, b->graph->input, dims, extents);
    return b->graph->input;
}

void build_output(struct builder *b, int value, int dims, const int64_t *extents)
{
    b->graph->output = value;
    set_border(b->graph, value, dims, extents);
}

/* ---- constants --------------------------------------------------------------------------------------------------- */

int build_scalar(struct builder *b, const char *name, double value)
{
    int made = graph_value(b->graph, name);
    float *data = graph_floats(b->graph, made, 0, NULL);
    if (data)
        *data = (float)value;
    return made;
}

int build_plain(struct builder *b, const char *name)
{
    const struct model_tensor *tensor = build_tensor(b, name);
    int made = graph_value(b->graph, name);
    float *data = graph_floats(b->graph, made, tensor->dims, (const int64_t[]){tensor->shape[0], tensor->shape[1]});
    if (data)
        memcpy(data, tensor->data, sizeof(float) * tensor->size);
    return made;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

struct graph_node *build_node(struct builder *b, enum graph_op op, const char *name, int x, int y, int z)
{
    const int inputs[] = {x, y, z};
    struct graph_node *node = graph_node(b->graph, op, graph_value(b->graph, name));
    for (int i = 0; node && i < 3; i++)
        if (inputs[i] >= 0)
            node->inputs[node->input_count++] = inputs[i];
    return node;
}

int build_made(const struct graph_node *node)
{
    return node ? node->output : -1;
}

int build_unary(struct builder *b, enum graph_op op, const char *name, int x)
{
    return build_made(build_node(b, op, name, x, -1, -1));
}

int build_binary(struct builder *b, enum graph_op op, const char *name, int x, int y)
{
    return build_made(build_node(b, op, name, x, y, -1));
}

int build_reshape(struct builder *b, const char *name, int x, int count, const int64_t *extents)
{
    int shape = graph_value(b->graph, build_name(name, "shape").text);
    int64_t *data = graph_integers(b->graph, shape, count);
    if (data)
        memcpy(data, extents, sizeof *data * (size_t)count);
    return build_binary(b, GRAPH_RESHAPE, name, x, shape);
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

int build_blend(struct builder *b, const char *prefix, const struct slot_exec *exec, int h, int s, int gate)
{
    if (s == h || (exec->algorithm == ALGORITHM_ADD && exec->alpha == 1)) /* every blend of h with h is h */
        return s;
    int difference = build_binary(b, GRAPH_SUB, build_name(prefix, "difference").text, s, h);
    int alpha = build_scalar(b, build_name(prefix, "alpha").text, (double)exec->alpha);
    if (exec->algorithm == ALGORITHM_MULTIPLY) {
        int swing = build_unary(b, GRAPH_TANH, build_name(prefix, "tanh").text, difference);
        int share = build_binary(b, GRAPH_MUL, build_name(prefix, "share").text, swing, alpha);
        int one = build_scalar(b, build_name(prefix, "one").text, 1);
        int factor = build_binary(b, GRAPH_ADD, build_name(prefix, "factor").text, share, one);
        return build_binary(b, GRAPH_MUL, build_name(prefix, "blend").text, h, factor);
    }
    if (gate >= 0)
        alpha = build_binary(b, GRAPH_MUL, build_name(prefix, "amplitude").text, gate, alpha);
    int share = build_binary(b, GRAPH_MUL, build_name(prefix, "share").text, difference, alpha);
    return build_binary(b, GRAPH_ADD, build_name(prefix, "blend").text, h, share);
}
