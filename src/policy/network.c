/* Set-up of a policy network: the layout of its memory, and loading new weights. */
#include "policy/network.h"

#include <stdio.h>
#include <string.h>

#include "policy/network_work.h"

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* Hands out pieces of a block, aligned to 64 bytes; without a base it only counts. */
struct carve {
    char *base;
    size_t used;
};

static void *carve_bytes(struct carve *carve, size_t bytes)
{
    void *piece = carve->base ? carve->base + carve->used : NULL;
    carve->used += (bytes + 63) / 64 * 64;
    return piece;
}

static real *carve_reals(struct carve *carve, int rows, int width)
{
    return carve_bytes(carve, sizeof(real) * (size_t)rows * (size_t)width);
}

static void carve_layer(struct policy_net *net, struct carve *carve, int index, int in, int out, size_t weight,
                        size_t bias)
{
    struct layer *layer = &net->layer[index];
    *layer = (struct layer){.in = in, .out = out, .weight = weight, .bias = bias};
    layer->forward = carve_bytes(carve, sizeof(real) * packed_size(in, out));
    layer->bias_values = carve_reals(carve, 1, out);
    if (net->rows > 0)
        layer->backward = carve_bytes(carve, sizeof(real) * packed_size(out, in));
}

static size_t offset_of(const struct policy_net *net, const char *owner, const char *name)
{
    char full[POLICY_TENSOR_NAME];
    snprintf(full, sizeof full, "%s.%s", owner, name);
    return net->shape.tensor[policy_shape_find(&net->shape, full)].offset;
}

static void carve_linear(struct policy_net *net, struct carve *carve, int index, const char *name, int in, int out)
{
    carve_layer(net, carve, index, in, out, offset_of(net, name, "weight"), offset_of(net, name, "bias"));
}

static void carve_norm(struct policy_net *net, struct carve *carve, int index, const char *name, int width)
{
    net->norm[index] = (struct layer_norm){.width = width,
                                           .gamma = offset_of(net, name, "gamma"),
                                           .beta = offset_of(net, name, "beta"),
                                           .gamma_values = carve_reals(carve, 1, width),
                                           .beta_values = carve_reals(carve, 1, width)};
}

static void carve_heads(struct policy_net *net, struct carve *carve)
{
    int hidden = net->shape.hidden;
    for (int head = 0; head < HEAD_COUNT; head++) {
        int size = head_size(net->shape.slots, head);
        bool deep = head == HEAD_BLUEPRINT;
        char name[3][POLICY_TENSOR_NAME - 8];
        for (int l = 0; l < 3; l++)
            snprintf(name[l], sizeof name[l], "head.%s.l%d", head_name(head), l + 1);
        carve_linear(net, carve, LAYER_HEAD1 + head, name[0], hidden, deep ? hidden : hidden / 2);
        carve_linear(net, carve, LAYER_HEAD2 + head, name[1], deep ? hidden : hidden / 2, deep ? hidden / 2 : size);
        if (deep)
            carve_linear(net, carve, LAYER_BLUEPRINT3, name[2], hidden / 2, size);
    }
}

static void carve_layers(struct policy_net *net, struct carve *carve)
{
    int hidden = net->shape.hidden, feature = net->shape.feature;
    net->embed = carve_reals(carve, POLICY_EMBED_ROWS, POLICY_EMBED);
    carve_linear(net, carve, LAYER_FEATURE, "feat", net->shape.inputs, feature);
    carve_norm(net, carve, NORM_FEATURE, "feat_ln", feature);
    if (feature != hidden)
        carve_linear(net, carve, LAYER_PROJECT, "proj", feature, hidden);
    net->b_hh = offset_of(net, "lstm0", "b_hh");
    for (int gate = 0; gate < GATES; gate++) {
        size_t matrix = (size_t)gate * (size_t)hidden * (size_t)hidden, vector = (size_t)gate * (size_t)hidden;
        carve_layer(net, carve, LAYER_INPUT + gate, hidden, hidden, offset_of(net, "lstm0", "w_ih") + matrix,
                    offset_of(net, "lstm0", "b_ih") + vector);
        carve_layer(net, carve, LAYER_STATE + gate, hidden, hidden, offset_of(net, "lstm0", "w_hh") + matrix,
                    net->b_hh + vector);
    }
    carve_norm(net, carve, NORM_LSTM, "lstm0.ln", hidden);
    carve_heads(net, carve);
    carve_linear(net, carve, LAYER_VALUE1, "v.l1", hidden, hidden / 2);
    carve_norm(net, carve, NORM_VALUE1, "v.ln1", hidden / 2);
    carve_linear(net, carve, LAYER_VALUE2, "v.l2", hidden / 2, hidden / 4);
    carve_norm(net, carve, NORM_VALUE2, "v.ln2", hidden / 4);
    carve_linear(net, carve, LAYER_VALUE3, "v.l3", hidden / 4, hidden / 8);
    carve_linear(net, carve, LAYER_VALUE4, "v.l4", hidden / 8, 1);
}

static void carve_trace(const struct policy_net *net, struct carve *carve, int rows, struct trace *trace)
{
    const struct policy_shape *shape = &net->shape;
    int hidden = shape->hidden;
    trace->in = carve_reals(carve, rows, shape->inputs);
    trace->feature = carve_reals(carve, rows, shape->feature);
    trace->x = shape->feature == hidden ? trace->feature : carve_reals(carve, rows, hidden);
    trace->gate = carve_reals(carve, rows, GATES * hidden);
    trace->h_in = carve_reals(carve, rows + net->envs, hidden);
    trace->c_in = carve_reals(carve, rows + net->envs, hidden);
    trace->tanh_c = carve_reals(carve, rows, hidden);
    trace->z = carve_reals(carve, rows, hidden);
    trace->wide = carve_reals(carve, rows, wide_columns(shape));
    trace->blueprint2 = carve_reals(carve, rows, hidden / 2);
    trace->value2 = carve_reals(carve, rows, hidden / 4);
    trace->value3 = carve_reals(carve, rows, hidden / 8);
    for (int n = 0; n < NORM_COUNT; n++) {
        trace->hat[n] = carve_reals(carve, rows, net->norm[n].width);
        trace->rstd[n] = carve_reals(carve, rows, 1);
    }
}

static void carve_gradients(struct policy_net *net, struct carve *carve)
{
    const struct policy_shape *shape = &net->shape;
    struct gradient_trace *back = &net->back;
    int hidden = shape->hidden, rows = net->rows;
    back->wide = carve_reals(carve, rows, wide_columns(shape));
    back->blueprint2 = carve_reals(carve, rows, hidden / 2);
    back->value2 = carve_reals(carve, rows, hidden / 4);
    back->value3 = carve_reals(carve, rows, hidden / 8);
    back->z = carve_reals(carve, rows, hidden);
    back->h = carve_reals(carve, rows, hidden);
    back->gate = carve_reals(carve, rows, GATES * hidden);
    back->c = carve_reals(carve, net->envs, hidden);
    back->x = carve_reals(carve, rows, hidden);
    back->feature = shape->feature == hidden ? back->x : carve_reals(carve, rows, shape->feature);
    back->in = carve_reals(carve, rows, shape->inputs);
    for (int n = 0; n < NORM_COUNT; n++)
        back->affine[n] = n == NORM_LSTM ? back->z : carve_reals(carve, rows, net->norm[n].width);
    for (int l = 0; l < LAYER_COUNT; l++) {
        bool shared = l >= LAYER_STATE && l < LAYER_STATE + GATES; /* both matrices share the gates' sums */
        struct layer *layer = &net->layer[l];
        layer->dy = shared ? net->layer[l - GATES].dy : carve_reals(carve, layer->out, (int)net->rows_stride);
    }
}

/* The input of each layer. */
static void set_input(struct policy_net *net, int layer, const real *x, int stride)
{
    net->layer[layer].x = x;
    net->layer[layer].x_stride = stride;
}

static void set_inputs(struct policy_net *net)
{
    const struct trace *trace = &net->unroll;
    int hidden = net->shape.hidden, wide = wide_columns(&net->shape);
    set_input(net, LAYER_FEATURE, trace->in, net->shape.inputs);
    set_input(net, LAYER_PROJECT, trace->feature, net->shape.feature);
    for (int gate = 0; gate < GATES; gate++) {
        set_input(net, LAYER_INPUT + gate, trace->x, hidden);
        set_input(net, LAYER_STATE + gate, trace->h_in, hidden);
    }
    for (int head = 0; head < HEAD_COUNT; head++) {
        set_input(net, LAYER_HEAD1 + head, trace->z, hidden);
        set_input(net, LAYER_HEAD2 + head, trace->wide + wide_column(&net->shape, head), wide);
    }
    set_input(net, LAYER_BLUEPRINT3, trace->blueprint2, hidden / 2);
    set_input(net, LAYER_VALUE1, trace->z, hidden);
    set_input(net, LAYER_VALUE2, trace->wide + wide_column(&net->shape, HEAD_COUNT), wide);
    set_input(net, LAYER_VALUE3, trace->value2, hidden / 4);
    set_input(net, LAYER_VALUE4, trace->value3, hidden / 8);
}

static void carve_items(struct policy_net *net, struct carve *carve)
{
    net->item_count = 0;
    for (int l = 0; l < LAYER_COUNT; l++)
        net->item_count += net->layer[l].out ? panel_count(net->layer[l].in) : 0;
    net->items = carve_bytes(carve, sizeof *net->items * (size_t)net->item_count);
    for (int l = 0, item = 0; net->items && l < LAYER_COUNT; l++)
        for (int panel = 0; net->layer[l].out && panel < panel_count(net->layer[l].in); panel++)
            net->items[item++] = (struct weight_item){(int16_t)l, (int16_t)panel};
}

static void net_layout(struct policy_net *net, const struct policy_shape *shape, int envs, int steps,
                       struct carve *carve)
{
    enum { STRIDE = 16 };
    memset(net, 0, sizeof *net);
    net->shape = *shape;
    net->envs = envs;
    net->steps = steps;
    net->rows = envs * steps;
    net->rows_stride = (net->rows + STRIDE - 1) / STRIDE * STRIDE;
    carve_layers(net, carve);
    carve_trace(net, carve, envs, &net->act);
    if (net->rows == 0)
        return;
    carve_trace(net, carve, net->rows, &net->unroll);
    carve_gradients(net, carve);
    carve_items(net, carve);
    if (carve->base)
        set_inputs(net);
}

size_t policy_net_bytes(const struct policy_shape *shape, int envs, int steps)
{
    struct policy_net net;
    struct carve carve = {0};
    carve_bytes(&carve, sizeof net);
    net_layout(&net, shape, envs, steps, &carve);
    return carve.used;
}

struct policy_net *policy_net_init(const struct policy_shape *shape, int envs, int steps, struct pool *pool,
                                   void *memory)
{
    struct carve carve = {memory, 0};
    struct policy_net *net = carve_bytes(&carve, sizeof *net);
    net_layout(net, shape, envs, steps, &carve);
    net->pool = pool;
    return net;
}

/* ---- weights ---------------------------------------------------------------------------------------------------- */

struct pack_work {
    struct policy_net *net;
    const real *w;
};

static void copy_reals(int count, const real *from, real *to)
{
    memcpy(to, from, sizeof(real) * (size_t)count);
}

static void pack_layer(void *context, int item, int thread)
{
    const struct pack_work *work = context;
    const struct layer *layer = &work->net->layer[item / 2];
    const real *weight = work->w + layer->weight;
    (void)thread;
    if (item % 2 == 0)
        linear_pack(layer->in, layer->out, weight, 1, layer->in, 0, panel_count(layer->out), layer->forward);
    else if (layer->backward)
        linear_pack(layer->out, layer->in, weight, layer->in, 1, 0, panel_count(layer->in), layer->backward);
}

void policy_net_pack(struct policy_net *net, const real *w)
{
    struct pack_work work = {net, w};
    int hidden = net->shape.hidden;
    copy_reals(POLICY_EMBED_ROWS * POLICY_EMBED, w + net->shape.tensor[0].offset, net->embed);
    for (int n = 0; n < NORM_COUNT; n++) {
        copy_reals(net->norm[n].width, w + net->norm[n].gamma, net->norm[n].gamma_values);
        copy_reals(net->norm[n].width, w + net->norm[n].beta, net->norm[n].beta_values);
    }
    for (int l = 0; l < LAYER_COUNT; l++)
        if (net->layer[l].out)
            copy_reals(net->layer[l].out, w + net->layer[l].bias, net->layer[l].bias_values);
    for (int gate = 0; gate < GATES; gate++) /* both biases go in with the input */
        for (int u = 0; u < hidden; u++)
            net->layer[LAYER_INPUT + gate].bias_values[u] += w[net->b_hh + (size_t)(gate * hidden + u)];
    pool_run(net->pool, pack_layer, &work, 2 * LAYER_COUNT);
}

/* ---- dividing work ---------------------------------------------------------------------------------------------- */

struct chunks policy_chunks(const struct policy_net *net, int rows)
{
    enum { CHUNK = 64 }; /* rows whose activations stay in the L2 cache between layers */
    int threads = pool_threads(net->pool), turns = (rows + CHUNK * threads - 1) / (CHUNK * threads);
    struct chunks chunks = {.rows = (rows + turns * threads - 1) / (turns * threads)};
    chunks.count = (rows + chunks.rows - 1) / chunks.rows;
    return chunks;
}

int policy_shares(const struct policy_net *net, double multiplies)
{
    return multiplies < 1e6 ? 1 : pool_threads(net->pool); /* below that, waking threads costs more than it saves */
}

bool policy_by_envs(const struct policy_net *net)
{
    /* While the recurrent weights fit in a core's own cache, threads need not wait for each other. */
    return sizeof(real) * GATES * (size_t)net->shape.hidden * (size_t)net->shape.hidden <= 512 * 1024;
}
