/*
 * A CNN as a graph of ordinary operators: normalisation, blocks, seeds, blends at their alpha. The formulas are those
 * of nn/flat.c, cnn/cpu/seed_*.c and cnn/cpu/eval.c.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data/dataset.h"
#include "model/family.h"
#include "nn/norm.h"

struct builder {
    struct graph *graph;
    const struct model *model;
    struct model_tensor tensors[MODEL_TENSORS];
    int count;
};

struct name {
    char text[GRAPH_NAME];
};

/* "prefix.part"; the text lives until the end of the statement. */
static struct name join(const char *prefix, const char *part)
{
    struct name name;
    snprintf(name.text, sizeof name.text, "%.40s.%.22s", prefix, part);
    return name;
}

static struct name numbered(const char *prefix, const char *part, int number)
{
    struct name name;
    snprintf(name.text, sizeof name.text, "%.30s.%.10s%d", prefix, part, number);
    return name;
}

/* ---- constants --------------------------------------------------------------------------------------------------- */

static const struct model_tensor *tensor_at(const struct builder *b, const char *name)
{
    for (int i = 0; i < b->count; i++)
        if (strcmp(b->tensors[i].name, name) == 0)
            return &b->tensors[i];
    return NULL;
}

static int scalar(struct builder *b, const char *name, double value)
{
    int made = graph_value(b->graph, name);
    float *data = graph_floats(b->graph, made, 0, NULL);
    if (data)
        *data = (float)value;
    return made;
}

/* Numbers that scale or shift the channels of [N][C][H][W]. */
static int channels(struct builder *b, const char *name, int count, const double *values)
{
    int made = graph_value(b->graph, name);
    float *data = graph_floats(b->graph, made, 4, (const int64_t[]){1, count, 1, 1});
    for (int i = 0; data && i < count; i++)
        data[i] = (float)values[i];
    return made;
}

static int filled(struct builder *b, const char *name, int count, float value)
{
    int made = graph_value(b->graph, name);
    float *data = graph_floats(b->graph, made, 1, (const int64_t[]){count});
    for (int i = 0; data && i < count; i++)
        data[i] = value;
    return made;
}

/* A tensor of the model as it is, [n] or [out][in]. */
static int plain(struct builder *b, const char *name)
{
    const struct model_tensor *tensor = tensor_at(b, name);
    int made = graph_value(b->graph, name);
    float *data = graph_floats(b->graph, made, tensor->dims, (const int64_t[]){tensor->shape[0], tensor->shape[1]});
    if (data)
        memcpy(data, tensor->data, sizeof(float) * tensor->size);
    return made;
}

/* A convolution's weight as ONNX stores it, [out][in / group][kh][kw]. A linear layer is a 1x1 convolution. */
static int kernel(struct builder *b, const char *name, int64_t shape[4])
{
    const struct model_tensor *tensor = tensor_at(b, name);
    const int *from = tensor->shape;
    bool depthwise = tensor->dims == 3, linear = tensor->dims == 2;
    int out = depthwise ? from[2] : from[0], in = depthwise ? 1 : linear ? from[1] : from[3];
    shape[0] = out;
    shape[1] = in;
    shape[2] = linear ? 1 : depthwise ? from[0] : from[1];
    shape[3] = linear ? 1 : depthwise ? from[1] : from[2];
    int taps = (int)(shape[2] * shape[3]), made = graph_value(b->graph, name);
    float *data = graph_floats(b->graph, made, 4, shape);
    for (int o = 0; data && o < out; o++)
        for (int i = 0; i < in; i++)
            for (int t = 0; t < taps; t++)
                data[(o * in + i) * taps + t] = tensor->data[depthwise ? t * out + o : (o * taps + t) * in + i];
    return made;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static void reads(struct graph_node *node, int value)
{
    if (node)
        node->inputs[node->input_count++] = value;
}

static int unary(struct builder *b, enum graph_op op, const char *name, int x)
{
    int made = graph_value(b->graph, name);
    reads(graph_node(b->graph, op, made), x);
    return made;
}

static int binary(struct builder *b, enum graph_op op, const char *name, int x, int y)
{
    int made = graph_value(b->graph, name);
    struct graph_node *node = graph_node(b->graph, op, made);
    reads(node, x);
    reads(node, y);
    return made;
}

/* name.weight, and name.bias where there is one; the output is as large as the input. */
static int conv(struct builder *b, const char *name, int x)
{
    int64_t shape[4];
    bool depthwise = tensor_at(b, join(name, "weight").text)->dims == 3;
    int weight = kernel(b, join(name, "weight").text, shape);
    int bias = tensor_at(b, join(name, "bias").text) ? plain(b, join(name, "bias").text) : -1;
    int made = graph_value(b->graph, name);
    struct graph_node *node = graph_node(b->graph, GRAPH_CONV, made);
    reads(node, x);
    reads(node, weight);
    if (bias >= 0)
        reads(node, bias);
    if (node) {
        node->given = GRAPH_KERNEL | GRAPH_PADS | GRAPH_GROUP;
        node->kernel[0] = shape[2];
        node->kernel[1] = shape[3];
        node->pads[0] = node->pads[2] = shape[2] / 2;
        node->pads[1] = node->pads[3] = shape[3] / 2;
        node->group = depthwise ? shape[0] : 1;
    }
    return made;
}

static int reshape(struct builder *b, const char *name, int x, int count, const int64_t *extents)
{
    int shape = graph_value(b->graph, join(name, "shape").text);
    int64_t *data = graph_integers(b->graph, shape, count);
    if (data)
        memcpy(data, extents, sizeof *data * (size_t)count);
    return binary(b, GRAPH_RESHAPE, name, x, shape);
}

/*
 * GroupNorm without its affine part: opset 17 has none, but a group is one channel of an InstanceNormalization over
 * [N][groups][all the rest].
 */
static int group_norm(struct builder *b, const char *name, const struct site_shape *slot, int count, int x)
{
    int groups = group_count(count);
    int ones = filled(b, join(name, "ones").text, groups, 1), zeros = filled(b, join(name, "zeros").text, groups, 0);
    int grouped = reshape(b, join(name, "groups").text, x, 3, (const int64_t[]){0, groups, -1});
    int made = graph_value(b->graph, name);
    struct graph_node *node = graph_node(b->graph, GRAPH_INSTANCE_NORM, made);
    reads(node, grouped);
    reads(node, ones);
    reads(node, zeros);
    if (node) {
        node->given = GRAPH_EPSILON;
        node->epsilon = (float)NORM_EPS;
    }
    return reshape(b, join(name, "normal").text, made, 4, (const int64_t[]){0, count, slot->height, slot->width});
}

/* x times share * gamma, plus share * beta. */
static int affine(struct builder *b, const char *name, double share, int x)
{
    static const struct {
        const char *tensor, *result;
        enum graph_op op;
    } half[] = {{"gamma", "scaled", GRAPH_MUL}, {"beta", "shifted", GRAPH_ADD}};
    for (int i = 0; i < 2; i++) {
        double values[NORM_MAX_CHANNELS];
        const struct model_tensor *tensor = tensor_at(b, join(name, half[i].tensor).text);
        for (int k = 0; k < tensor->shape[0]; k++)
            values[k] = share * (double)tensor->data[k];
        int constant = channels(b, tensor->name, tensor->shape[0], values);
        x = binary(b, half[i].op, join(name, half[i].result).text, x, constant);
    }
    return x;
}

/* ---- seeds ------------------------------------------------------------------------------------------------------- */

/* s = x + chain(x) */
static int chain(struct builder *b, const char *prefix, const struct seed_blueprint *blueprint,
                 const struct site_shape *slot, int x)
{
    int y = x;
    for (int i = 0; i < blueprint->steps; i++) {
        const struct chain_step *step = &blueprint->step[i];
        int count = step->to == WIDTH_NECK ? blueprint_neck(slot->channels) : slot->channels;
        y = conv(b, numbered(prefix, "conv", i + 1).text, y);
        if (step->act == ACT_NORM || step->act == ACT_NORM_RELU) {
            struct name norm = numbered(prefix, "norm", i + 1);
            y = affine(b, norm.text, 1, group_norm(b, norm.text, slot, count, y));
        }
        if (step->act == ACT_RELU || step->act == ACT_NORM_RELU)
            y = unary(b, GRAPH_RELU, numbered(prefix, "relu", i + 1).text, y);
    }
    return binary(b, GRAPH_ADD, join(prefix, "seed").text, x, y);
}

/* s = x + tanh(sigma) (GN(x) - x) */
static int norm_seed(struct builder *b, const char *prefix, const struct site_shape *slot, int x)
{
    struct name norm = join(prefix, "norm");
    double t = tanh((double)tensor_at(b, join(norm.text, "sigma").text)->data[0]);
    int normed = affine(b, norm.text, t, group_norm(b, norm.text, slot, slot->channels, x));
    int share = scalar(b, join(prefix, "rest.share").text, 1 - t);
    int rest = binary(b, GRAPH_MUL, join(prefix, "rest").text, x, share);
    return binary(b, GRAPH_ADD, join(prefix, "seed").text, rest, normed);
}

/* sigmoid(second(relu(first(mean of x)))): the excite net and the gate net. */
static int squeeze(struct builder *b, const char *first, const char *second, int x)
{
    int mean = unary(b, GRAPH_MEAN, join(first, "mean").text, x);
    int hidden = unary(b, GRAPH_RELU, join(first, "relu").text, conv(b, first, mean));
    return unary(b, GRAPH_SIGMOID, join(second, "sigmoid").text, conv(b, second, hidden));
}

static int seed(struct builder *b, const char *prefix, int j, int x)
{
    const struct site_shape *slot = &b->model->host_shape.cnn.site[j];
    const struct seed_blueprint *blueprint = blueprint_at(b->model->exec[j].blueprint);
    switch (blueprint->kind) {
    case SEED_CHAIN:
        return chain(b, prefix, blueprint, slot, x);
    case SEED_NORM:
        return norm_seed(b, prefix, slot, x);
    case SEED_ATTENTION:
        return binary(b, GRAPH_MUL, join(prefix, "seed").text, x,
                      squeeze(b, join(prefix, "squeeze").text, join(prefix, "excite").text, x));
    case SEED_NOOP:
        break;
    }
    return x;
}

/* ADD h + a (s - h); MULTIPLY h (1 + a tanh(s - h)); GATE is ADD at a q, and q alone is below 1: no clamp is needed. */
static int slot(struct builder *b, int j, int h)
{
    const struct slot_exec *exec = &b->model->exec[j];
    struct name name = join("slot", b->model->shape.slot[j].id);
    const char *prefix = name.text;
    int s = seed(b, prefix, j, h);
    if (s == h || (exec->algorithm == ALGORITHM_ADD && exec->alpha == 1)) /* every blend of h with h is h */
        return s;
    int difference = binary(b, GRAPH_SUB, join(prefix, "difference").text, s, h);
    int alpha = scalar(b, join(prefix, "alpha").text, (double)exec->alpha);
    if (exec->algorithm == ALGORITHM_MULTIPLY) {
        int swing = unary(b, GRAPH_TANH, join(prefix, "tanh").text, difference);
        int share = binary(b, GRAPH_MUL, join(prefix, "share").text, swing, alpha);
        int one = scalar(b, join(prefix, "one").text, 1);
        int factor = binary(b, GRAPH_ADD, join(prefix, "factor").text, share, one);
        return binary(b, GRAPH_MUL, join(prefix, "blend").text, h, factor);
    }
    if (exec->gate) {
        int gate = squeeze(b, join(prefix, "gate.hidden").text, join(prefix, "gate.out").text, h);
        alpha = binary(b, GRAPH_MUL, join(prefix, "amplitude").text, gate, alpha);
    }
    int share = binary(b, GRAPH_MUL, join(prefix, "share").text, difference, alpha);
    return binary(b, GRAPH_ADD, join(prefix, "blend").text, h, share);
}

/* ---- the host ---------------------------------------------------------------------------------------------------- */

/* (x / 255 - mean) / deviation, from raw pixels */
static int normalise(struct builder *b, int image)
{
    const struct data_facts *set = data_facts_of(b->model->config.data_set);
    double mean[DATASET_COLOURS], deviation[DATASET_COLOURS];
    for (int i = 0; i < DATASET_COLOURS; i++) {
        mean[i] = 255 * set->mean[i];
        deviation[i] = 255 * set->deviation[i];
    }
    int centre = channels(b, "image.mean", DATASET_COLOURS, mean);
    int spread = channels(b, "image.deviation", DATASET_COLOURS, deviation);
    return binary(b, GRAPH_DIV, "image.normal", binary(b, GRAPH_SUB, "image.centred", image, centre), spread);
}

static int batch_norm(struct builder *b, const char *name, int x)
{
    static const char *const part[] = {"gamma", "beta", "mean", "var"};
    int constants[4];
    for (int i = 0; i < 4; i++)
        constants[i] = plain(b, join(name, part[i]).text);
    int made = graph_value(b->graph, name);
    struct graph_node *node = graph_node(b->graph, GRAPH_BATCH_NORM, made);
    reads(node, x);
    for (int i = 0; i < 4; i++)
        reads(node, constants[i]);
    if (node) {
        node->given = GRAPH_EPSILON;
        node->epsilon = (float)NORM_EPS;
    }
    return made;
}

static int pool(struct builder *b, const char *name, int x)
{
    int made = graph_value(b->graph, name);
    struct graph_node *node = graph_node(b->graph, GRAPH_MAX_POOL, made);
    reads(node, x);
    if (node) {
        node->given = GRAPH_KERNEL | GRAPH_STRIDES;
        node->kernel[0] = node->kernel[1] = node->strides[0] = node->strides[1] = 2;
    }
    return made;
}

static int block(struct builder *b, int i, int x)
{
    const struct block_shape *shape = &b->model->host_shape.cnn.block[i];
    struct name name = numbered("host", "block", i);
    x = batch_norm(b, join(name.text, "norm").text, conv(b, join(name.text, "conv").text, x));
    x = unary(b, GRAPH_RELU, join(name.text, "relu").text, x);
    if (shape->slot[0] >= 0)
        x = slot(b, shape->slot[0], x);
    if (shape->pool)
        x = pool(b, join(name.text, "pool").text, x);
    return shape->slot[1] >= 0 ? slot(b, shape->slot[1], x) : x;
}

static void network(struct builder *b)
{
    struct graph *graph = b->graph;
    int size = b->model->config.data_size;
    graph->input = graph_value(graph, "image");
    graph->values[graph->input].dims = 4;
    memcpy(graph->values[graph->input].shape, (const int64_t[]){0, DATASET_COLOURS, size, size},
           sizeof graph->values[0].shape);
    int x = normalise(b, graph->input);
    for (int i = 0; i < b->model->host_shape.cnn.blocks; i++)
        x = block(b, i, x);
    int features = unary(b, GRAPH_FLATTEN, "host.classifier.features", unary(b, GRAPH_MEAN, "host.classifier.mean", x));
    int weight = plain(b, "host.classifier.weight"), bias = plain(b, "host.classifier.bias");
    graph->output = graph_value(graph, "logits");
    struct graph_node *node = graph_node(graph, GRAPH_GEMM, graph->output);
    reads(node, features);
    reads(node, weight);
    reads(node, bias);
    if (node) {
        node->given = GRAPH_TRANS_B;
        node->trans_b = 1;
    }
}

void cnn_graph_build(const struct model *model, struct graph *graph)
{
    struct builder b = {.graph = graph, .model = model};
    b.count = model_tensors(model, b.tensors);
    network(&b);
}
