/*
 * A CNN as a graph of ordinary operators: normalisation, blocks, seeds, blends at their alpha. The formulas are those
 * of nn/flat.c, cnn/cpu/seed_*.c and cnn/cpu/eval.c.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data/dataset.h"
#include "model/build.h"
#include "model/family.h"
#include "nn/norm.h"

/* ---- constants --------------------------------------------------------------------------------------------------- */

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

/* A convolution's weight as ONNX stores it, [out][in / group][kh][kw]. A linear layer is a 1x1 convolution. */
static int kernel(struct builder *b, const char *name, int64_t shape[4])
{
    const struct model_tensor *tensor = build_tensor(b, name);
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

/* name.weight, and name.bias where there is one; the output is as large as the input. */
static int conv(struct builder *b, const char *name, int x)
{
    int64_t shape[4];
    bool depthwise = build_tensor(b, build_name(name, "weight").text)->dims == 3;
    int weight = kernel(b, build_name(name, "weight").text, shape);
    int bias = build_tensor(b, build_name(name, "bias").text) ? build_plain(b, build_name(name, "bias").text) : -1;
    struct graph_node *node = build_node(b, GRAPH_CONV, name, x, weight, bias);
    if (node) {
        node->given = GRAPH_KERNEL | GRAPH_PADS | GRAPH_GROUP;
        node->kernel[0] = shape[2];
        node->kernel[1] = shape[3];
        node->pads[0] = node->pads[2] = shape[2] / 2;
        node->pads[1] = node->pads[3] = shape[3] / 2;
        node->group = depthwise ? shape[0] : 1;
    }
    return build_made(node);
}

/*
 * GroupNorm without its affine part: opset 17 has none, but a group is one channel of an InstanceNormalization over
 * [N][groups][all the rest].
 */
static int group_norm(struct builder *b, const char *name, const struct site_shape *slot, int count, int x)
{
    int groups = group_count(count);
    int ones = filled(b, build_name(name, "ones").text, groups, 1),
        zeros = filled(b, build_name(name, "zeros").text, groups, 0);
    int grouped = build_reshape(b, build_name(name, "groups").text, x, 3, (const int64_t[]){0, groups, -1});
    struct graph_node *node = build_node(b, GRAPH_INSTANCE_NORM, name, grouped, ones, zeros);
    if (node) {
        node->given = GRAPH_EPSILON;
        node->epsilon = (float)NORM_EPS;
    }
    return build_reshape(b, build_name(name, "normal").text, build_made(node), 4,
                         (const int64_t[]){0, count, slot->height, slot->width});
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
        const struct model_tensor *tensor = build_tensor(b, build_name(name, half[i].tensor).text);
        for (int k = 0; k < tensor->shape[0]; k++)
            values[k] = share * (double)tensor->data[k];
        int constant = channels(b, tensor->name, tensor->shape[0], values);
        x = build_binary(b, half[i].op, build_name(name, half[i].result).text, x, constant);
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
        y = conv(b, build_numbered(prefix, "conv", i + 1).text, y);
        if (step->act == ACT_NORM || step->act == ACT_NORM_RELU) {
            struct build_text norm = build_numbered(prefix, "norm", i + 1);
            y = affine(b, norm.text, 1, group_norm(b, norm.text, slot, count, y));
        }
        if (step->act == ACT_RELU || step->act == ACT_NORM_RELU)
            y = build_unary(b, GRAPH_RELU, build_numbered(prefix, "relu", i + 1).text, y);
    }
    return build_binary(b, GRAPH_ADD, build_name(prefix, "seed").text, x, y);
}

/* s = x + tanh(sigma) (GN(x) - x) */
static int norm_seed(struct builder *b, const char *prefix, const struct site_shape *slot, int x)
{
    struct build_text norm = build_name(prefix, "norm");
    double t = tanh((double)build_tensor(b, build_name(norm.text, "sigma").text)->data[0]);
    int normed = affine(b, norm.text, t, group_norm(b, norm.text, slot, slot->channels, x));
    int share = build_scalar(b, build_name(prefix, "rest.share").text, 1 - t);
    int rest = build_binary(b, GRAPH_MUL, build_name(prefix, "rest").text, x, share);
    return build_binary(b, GRAPH_ADD, build_name(prefix, "seed").text, rest, normed);
}

/* sigmoid(second(relu(first(mean of x)))): the excite net and the gate net. */
static int squeeze(struct builder *b, const char *first, const char *second, int x)
{
    int mean = build_unary(b, GRAPH_MEAN, build_name(first, "mean").text, x);
    int hidden = build_unary(b, GRAPH_RELU, build_name(first, "relu").text, conv(b, first, mean));
    return build_unary(b, GRAPH_SIGMOID, build_name(second, "sigmoid").text, conv(b, second, hidden));
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
        return build_binary(b, GRAPH_MUL, build_name(prefix, "seed").text, x,
                            squeeze(b, build_name(prefix, "squeeze").text, build_name(prefix, "excite").text, x));
    case SEED_NOOP:
        break;
    }
    return x;
}

static int slot(struct builder *b, int j, int h)
{
    const struct slot_exec *exec = &b->model->exec[j];
    struct build_text name = build_name("slot", b->model->shape.slot[j].id);
    const char *prefix = name.text;
    int s = seed(b, prefix, j, h), gate = -1;
    if (exec->gate && s != h)
        gate = squeeze(b, build_name(prefix, "gate.hidden").text, build_name(prefix, "gate.out").text, h);
    return build_blend(b, prefix, exec, h, s, gate);
}

/* ---- the host ---------------------------------------------------------------------------------------------------- */

/* (x / 255 - mean) / deviation, from raw pixels */
static int normalise(struct builder *b, int image)
{
    const struct data_facts set = data_facts_for(&b->model->config);
    double mean[DATASET_COLOURS], deviation[DATASET_COLOURS];
    for (int i = 0; i < DATASET_COLOURS; i++) {
        mean[i] = 255 * set.mean[i];
        deviation[i] = 255 * set.deviation[i];
    }
    int centre = channels(b, "image.mean", DATASET_COLOURS, mean);
    int spread = channels(b, "image.deviation", DATASET_COLOURS, deviation);
    return build_binary(b, GRAPH_DIV, "image.normal", build_binary(b, GRAPH_SUB, "image.centred", image, centre),
                        spread);
}

static int batch_norm(struct builder *b, const char *name, int x)
{
    static const char *const part[] = {"gamma", "beta", "mean", "var"};
    int constants[4];
    for (int i = 0; i < 4; i++)
        constants[i] = build_plain(b, build_name(name, part[i]).text);
    struct graph_node *node = build_node(b, GRAPH_BATCH_NORM, name, x, constants[0], constants[1]);
    if (node) {
        node->inputs[node->input_count++] = constants[2];
        node->inputs[node->input_count++] = constants[3];
        node->given = GRAPH_EPSILON;
        node->epsilon = (float)NORM_EPS;
    }
    return build_made(node);
}

static int pool(struct builder *b, const char *name, int x)
{
    struct graph_node *node = build_node(b, GRAPH_MAX_POOL, name, x, -1, -1);
    if (node) {
        node->given = GRAPH_KERNEL | GRAPH_STRIDES;
        node->kernel[0] = node->kernel[1] = node->strides[0] = node->strides[1] = 2;
    }
    return build_made(node);
}

static int block(struct builder *b, int i, int x)
{
    const struct block_shape *shape = &b->model->host_shape.cnn.block[i];
    struct build_text name = build_numbered("host", "block", i);
    x = batch_norm(b, build_name(name.text, "norm").text, conv(b, build_name(name.text, "conv").text, x));
    x = build_unary(b, GRAPH_RELU, build_name(name.text, "relu").text, x);
    if (shape->slot[0] >= 0)
        x = slot(b, shape->slot[0], x);
    if (shape->pool)
        x = pool(b, build_name(name.text, "pool").text, x);
    return shape->slot[1] >= 0 ? slot(b, shape->slot[1], x) : x;
}

static void network(struct builder *b)
{
    int size = b->model->config.data_size;
    int x = normalise(b, build_input(b, "image", 3, (const int64_t[]){DATASET_COLOURS, size, size}));
    for (int i = 0; i < b->model->host_shape.cnn.blocks; i++)
        x = block(b, i, x);
    int features = build_unary(b, GRAPH_FLATTEN, "host.classifier.features",
                               build_unary(b, GRAPH_MEAN, "host.classifier.mean", x));
    int weight = build_plain(b, "host.classifier.weight"), bias = build_plain(b, "host.classifier.bias");
    struct graph_node *node = build_node(b, GRAPH_GEMM, "logits", features, weight, bias);
    if (node) {
        node->given = GRAPH_TRANS_B;
        node->trans_b = 1;
        build_output(b, node->output, 1, (const int64_t[]){b->model->host_shape.cnn.classes});
    }
}

void cnn_graph_build(const struct model *model, struct graph *graph)
{
    struct builder b = {.graph = graph, .model = model};
    b.count = model_tensors(model, b.tensors);
    network(&b);
}
