#include <string.h>

#include "transformer/cpu/work.h"

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static real *take(struct bump *bump, size_t count)
{
    return bump_take(bump, count, sizeof(real));
}

static void norm_lay_out(struct layer_norm *norm, size_t rows, size_t width, struct bump *bump)
{
    norm->hat = take(bump, rows * width);
    norm->rstd = take(bump, rows);
}

static void layer_lay_out(struct layer *layer, const struct transformer_shape *shape, size_t rows, struct bump *bump)
{
    const struct attention attention = {shape->context, shape->heads, shape->width / shape->heads};
    const int hidden[2] = {3 * shape->width, MLP_WIDER * shape->width};
    for (int half = 0; half < 2; half++) {
        norm_lay_out(&layer->norm[half], rows, (size_t)shape->width, bump);
        branch_lay_out(&layer->branch[half], shape->width, hidden[half], half ? NULL : &attention, rows, bump);
    }
}

static size_t workspace_reals(const struct transformer_shape *shape, size_t rows, size_t hidden)
{
    const struct attention host = {shape->context, shape->heads, shape->width / shape->heads},
                           seed = {shape->context, SEED_HEADS, shape->width / SEED_HEADS};
    return larger(dense_workspace((int)rows, (int)hidden),
                  larger(attention_workspace(&host), attention_workspace(&seed)));
}

/* Laid out twice: first to count (bump->base NULL, nothing is written), then in memory. */
static void net_lay_out(struct net *net, const struct transformer_shape *shape, int batch, struct bump *bump)
{
    struct net made = {.shape = shape, .batch = batch};
    const int fits = shape->context < GROUP_ROWS ? GROUP_ROWS / shape->context : 1;
    made.group = fits < batch ? fits : batch;
    const size_t rows = (size_t)made.group * (size_t)shape->context, width = (size_t)shape->width;
    const size_t hidden =
        larger(MLP_WIDER * width, larger(SEED_RANK_MAX, (size_t)transformer_gate_hidden(shape->width)));
    const size_t token_stride = (size_t)shape->context + 1;
    made.tokens = bump_take(bump, (size_t)batch * token_stride, 1);
    for (int i = 0; i < shape->layers; i++)
        layer_lay_out(&made.layer[i], shape, rows, bump);
    norm_lay_out(&made.last, rows, width, bump);
    made.classifier.packed[0] = take(bump, dense_packed(shape->width, shape->vocabulary));
    made.classifier.packed[1] = take(bump, dense_packed(shape->width, shape->vocabulary));
    for (int j = 0; j < shape->net.slots; j++)
        site_lay_out(&made.site[j], shape, rows, bump);
    real **maps[] = {&made.stream, &made.normed, &made.added, &made.grad, &made.grad_part, &made.grad_seed};
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++)
        *maps[i] = take(bump, rows * width);
    for (int i = 0; i <= shape->net.slots; i++)
        made.level[i] = take(bump, rows * width);
    made.logits = take(bump, rows * (size_t)shape->vocabulary);
    made.grad_mixed = take(bump, rows * hidden);
    made.grad_hidden = take(bump, rows * hidden);
    made.gate_grad = take(bump, rows);
    made.workspace = take(bump, workspace_reals(shape, rows, hidden));
    made.grads.host = take(bump, shape->net.host.storage);
    made.grads.seed = take(bump, shape->net.seed_storage);
    made.grads.gate = take(bump, shape->net.gate_storage);
    if (bump->base) {
        transformer_gate_layout(shape->width, &made.gate_layout);
        made.targets = made.tokens + 1;
        made.target_stride = token_stride;
        *net = made;
    }
}

size_t transformer_bytes(const struct net_shape *shape, int batch)
{
    struct bump bump = {0};
    bump_take(&bump, 1, sizeof(struct net));
    net_lay_out(NULL, transformer_shape_of(shape), batch, &bump);
    return bump.used + 64;
}

struct net *transformer_init(const struct net_shape *shape, int batch, void *memory)
{
    struct bump bump = {memory, 0};
    struct net *net = bump_take(&bump, 1, sizeof(struct net));
    net_lay_out(net, transformer_shape_of(shape), batch, &bump);
    return net;
}

struct net_input transformer_input(struct net *net)
{
    return (struct net_input){.tokens = net->tokens, .token_stride = (size_t)net->shape->context + 1};
}

struct net_params transformer_grads(struct net *net)
{
    return net->grads;
}

void transformer_targets(struct net *net, const uint8_t *targets)
{
    net->targets = targets;
    net->target_stride = (size_t)net->shape->context;
}

const struct net_kernels transformer_kernels = {
    .bytes = transformer_bytes,
    .init = transformer_init,
    .input = transformer_input,
    .gradients = transformer_gradients,
    .measure = transformer_measure,
    .update = transformer_update,
    .evaluate = transformer_evaluate,
};
