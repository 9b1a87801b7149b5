/*
 * A transformer as a graph of ordinary operators: embeddings, layers, seeds, blends at their alpha. The formulas are
 * those of nn/tokens.c, nn/attention.c and transformer/cpu/seed.c.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/build.h"
#include "model/family.h"
#include "nn/rows.h"

/* ---- constants --------------------------------------------------------------------------------------------------- */

/* A constant that several nodes read is made once. */
static int number(struct builder *b, const char *name, double value)
{
    int found = graph_find(b->graph, name);
    return found >= 0 ? found : build_scalar(b, name, value);
}

/* Rows first .. first + rows of a linear layer's weight [out][in] as a matrix [in][rows], which MatMul takes. */
static int matrix(struct builder *b, const char *name, const struct model_tensor *weight, int first, int rows)
{
    const int in = weight->shape[1];
    int made = graph_value(b->graph, name);
    float *data = graph_floats(b->graph, made, 2, (const int64_t[]){in, rows});
    for (int o = 0; data && o < rows; o++)
        for (int i = 0; i < in; i++)
            data[i * rows + o] = weight->data[(first + o) * in + i];
    return made;
}

static int vector(struct builder *b, const char *name, const float *values, int count)
{
    int made = graph_value(b->graph, name);
    float *data = graph_floats(b->graph, made, 1, (const int64_t[]){count});
    if (data)
        memcpy(data, values, sizeof *data * (size_t)count);
    return made;
}

/* What is added to the scores of attention: nothing up to a token itself, minus infinity at its future. */
static int mask(struct builder *b)
{
    const int context = b->model->host_shape.transformer.context, found = graph_find(b->graph, "mask");
    if (found >= 0)
        return found;
    int made = graph_value(b->graph, "mask");
    float *data = graph_floats(b->graph, made, 2, (const int64_t[]){context, context});
    for (int row = 0; data && row < context; row++)
        for (int column = row + 1; column < context; column++)
            data[row * context + column] = -INFINITY;
    return made;
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

/* One of `parts` equal parts of the linear layer `from`, under the name `to`. */
static int linear_part(struct builder *b, const char *from, const char *to, int part, int parts, int x)
{
    const struct model_tensor *weight = build_part(b, from, "weight"), *bias = build_part(b, from, "bias");
    const int rows = weight->shape[0] / parts, first = part * rows;
    int w = matrix(b, build_name(to, "weight").text, weight, first, rows);
    if (!bias)
        return build_binary(b, GRAPH_MATMUL, to, x, w);
    int product = build_binary(b, GRAPH_MATMUL, build_name(to, "product").text, x, w);
    return build_binary(b, GRAPH_ADD, to, product, vector(b, build_name(to, "bias").text, bias->data + first, rows));
}

static int linear(struct builder *b, const char *name, int x)
{
    return linear_part(b, name, name, 0, 1, x);
}

static int layer_norm(struct builder *b, const char *name, int x)
{
    int gamma = build_plain(b, build_name(name, "gamma").text), beta = build_plain(b, build_name(name, "beta").text);
    struct graph_node *node = build_node(b, GRAPH_LAYER_NORM, name, x, gamma, beta);
    if (node) {
        node->given = GRAPH_AXIS | GRAPH_EPSILON;
        node->axis = -1;
        node->epsilon = (float)LAYER_NORM_EPS;
    }
    return build_made(node);
}

/* x (1 + erf(x / sqrt(2))) / 2, in the steps that optimisers recognise. */
static int gelu(struct builder *b, const char *name, int x)
{
    int scaled = build_binary(b, GRAPH_DIV, build_name(name, "scaled").text, x, number(b, "gelu.root", sqrt(2)));
    int erf = build_unary(b, GRAPH_ERF, build_name(name, "erf").text, scaled);
    int one = build_binary(b, GRAPH_ADD, build_name(name, "one").text, erf, number(b, "gelu.one", 1));
    int twice = build_binary(b, GRAPH_MUL, build_name(name, "twice").text, x, one);
    return build_binary(b, GRAPH_MUL, name, twice, number(b, "gelu.half", 0.5));
}

static int transpose(struct builder *b, const char *name, int x, int dims, const int64_t *perm)
{
    struct graph_node *node = build_node(b, GRAPH_TRANSPOSE, name, x, -1, -1);
    if (node) {
        node->given = GRAPH_PERM;
        node->perm_count = dims;
        memcpy(node->perm, perm, sizeof *perm * (size_t)dims);
    }
    return build_made(node);
}

/* A third of qkv, as [N][heads][context][each], or for the keys [N][heads][each][context]. */
static int heads_of(struct builder *b, const char *prefix, int third, int heads, int x)
{
    static const char *const part[] = {"q", "k", "v"};
    static const int64_t perm[][4] = {{0, 2, 1, 3}, {0, 2, 3, 1}, {0, 2, 1, 3}};
    const struct transformer_shape *shape = &b->model->host_shape.transformer;
    struct build_text name = build_name(prefix, part[third]);
    int y = linear_part(b, build_name(prefix, "qkv").text, name.text, third, 3, x);
    y = build_reshape(b, build_name(name.text, "split").text, y, 4,
                      (const int64_t[]){0, shape->context, heads, shape->width / heads});
    return transpose(b, build_name(name.text, "heads").text, y, 4, perm[third]);
}

static int attention(struct builder *b, const char *prefix, int heads, int x)
{
    const struct transformer_shape *shape = &b->model->host_shape.transformer;
    int q = heads_of(b, prefix, 0, heads, x), k = heads_of(b, prefix, 1, heads, x),
        v = heads_of(b, prefix, 2, heads, x);
    int product = build_binary(b, GRAPH_MATMUL, build_name(prefix, "scores").text, q, k);
    const char *root = heads == shape->heads ? "attention.root" : "seed.attention.root";
    int scaled = build_binary(b, GRAPH_DIV, build_name(prefix, "scaled").text, product,
                              number(b, root, sqrt((double)shape->width / heads)));
    int masked = build_binary(b, GRAPH_ADD, build_name(prefix, "masked").text, scaled, mask(b));
    struct graph_node *softmax = build_node(b, GRAPH_SOFTMAX, build_name(prefix, "weights").text, masked, -1, -1);
    if (softmax) {
        softmax->given = GRAPH_AXIS;
        softmax->axis = -1;
    }
    int mixed = build_binary(b, GRAPH_MATMUL, build_name(prefix, "mixed").text, build_made(softmax), v);
    mixed = transpose(b, build_name(prefix, "tokens").text, mixed, 4, (const int64_t[]){0, 2, 1, 3});
    mixed = build_reshape(b, build_name(prefix, "joined").text, mixed, 3,
                          (const int64_t[]){0, shape->context, shape->width});
    return linear(b, build_name(prefix, "proj").text, mixed);
}

static int mlp(struct builder *b, const char *prefix, int x)
{
    int hidden = linear(b, build_name(prefix, "fc").text, x);
    return linear(b, build_name(prefix, "fcproj").text, gelu(b, build_name(prefix, "gelu").text, hidden));
}

/* ---- seeds ------------------------------------------------------------------------------------------------------- */

/* s = x + tanh(sigma) (LayerNorm(x) - x) */
static int norm_seed(struct builder *b, const char *prefix, int x)
{
    double t = tanh((double)build_part(b, prefix, "norm.sigma")->data[0]);
    int normed = layer_norm(b, build_name(prefix, "norm").text, x);
    int change = build_binary(b, GRAPH_SUB, build_name(prefix, "change").text, normed, x);
    int share = build_scalar(b, build_name(prefix, "norm.share").text, t);
    int part = build_binary(b, GRAPH_MUL, build_name(prefix, "part").text, change, share);
    return build_binary(b, GRAPH_ADD, build_name(prefix, "seed").text, x, part);
}

static int branch(struct builder *b, const char *prefix, enum branch_kind kind, int x)
{
    if (kind == BRANCH_ATTENTION)
        return attention(b, prefix, SEED_HEADS, x);
    if (kind == BRANCH_MLP)
        return mlp(b, prefix, x);
    return linear(b, build_name(prefix, "up").text, linear(b, build_name(prefix, "down").text, x));
}

static int seed(struct builder *b, const char *prefix, int j, int x)
{
    const struct seed_plan *plan = transformer_seed(b->model->exec[j].blueprint);
    if (!plan)
        return x;
    if (plan->norm)
        return norm_seed(b, prefix, x);
    return build_binary(b, GRAPH_ADD, build_name(prefix, "seed").text, x, branch(b, prefix, plan->kind, x));
}

/* One number per token, from its own features. */
static int gate_of(struct builder *b, const char *prefix, int x)
{
    int hidden = linear(b, build_name(prefix, "gate.hidden").text, x);
    int active = build_unary(b, GRAPH_RELU, build_name(prefix, "gate.relu").text, hidden);
    int out = linear(b, build_name(prefix, "gate.out").text, active);
    return build_unary(b, GRAPH_SIGMOID, build_name(prefix, "gate.sigmoid").text, out);
}

static int slot(struct builder *b, int j, int h)
{
    const struct slot_exec *exec = &b->model->exec[j];
    struct build_text name = build_name("slot", b->model->shape.slot[j].id);
    int s = seed(b, name.text, j, h), gate = exec->gate && s != h ? gate_of(b, name.text, h) : -1;
    return build_blend(b, name.text, exec, h, s, gate);
}

/* ---- the host ---------------------------------------------------------------------------------------------------- */

static int layer(struct builder *b, int i, int h)
{
    struct build_text name = build_numbered("host", "layer", i);
    int attended = attention(b, name.text, b->model->host_shape.transformer.heads,
                             layer_norm(b, build_name(name.text, "ln1").text, h));
    h = build_binary(b, GRAPH_ADD, build_name(name.text, "attended").text, h, attended);
    int added = mlp(b, name.text, layer_norm(b, build_name(name.text, "ln2").text, h));
    return build_binary(b, GRAPH_ADD, build_name(name.text, "out").text, h, added);
}

static void network(struct builder *b)
{
    const struct transformer_shape *shape = &b->model->host_shape.transformer;
    const int each = transformer_segment_layers(shape);
    int input = build_input(b, "tokens", 1, (const int64_t[]){shape->context});
    int embeddings = build_plain(b, "host.tok_emb");
    int h = build_binary(b, GRAPH_GATHER, "host.tokens", embeddings, input);
    h = build_binary(b, GRAPH_ADD, "host.embedded", h, build_plain(b, "host.pos_emb"));
    for (int segment = 0; segment < shape->segments; segment++) {
        const int after = shape->slot_after[segment];
        for (int i = segment * each; i < (segment + 1) * each; i++)
            h = layer(b, i, h);
        h = after >= 0 ? slot(b, after, h) : h;
    }
    int classifier = transpose(b, "host.classifier", embeddings, 2, (const int64_t[]){1, 0});
    int logits = build_binary(b, GRAPH_MATMUL, "logits", layer_norm(b, "host.lnf", h), classifier);
    build_output(b, logits, 2, (const int64_t[]){shape->context, shape->vocabulary});
}

void transformer_graph_build(const struct model *model, struct graph *graph)
{
    struct builder b = {.graph = graph, .model = model};
    b.count = model_tensors(model, b.tensors);
    network(&b);
}
