/* The policy network on the device: its memory, and the tables of products. */
#include "policy/network_tables.cuh"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static float *reals(struct network_device *net, size_t rows, int width)
{
    return runtime_alloc<float>(net->rt, rows * width);
}

static struct trace trace_create(struct network_device *net, int rows)
{
    const struct policy_shape *shape = &net->shape;
    const int hidden = shape->hidden;
    struct trace trace = {};
    trace.in = reals(net, rows, net->in_stride);
    trace.feature = reals(net, rows, shape->feature);
    trace.x = shape->feature == hidden ? trace.feature : reals(net, rows, hidden);
    trace.gate = reals(net, rows, GATES * hidden);
    trace.z = reals(net, rows, hidden);
    trace.wide = reals(net, rows, wide_columns(net));
    trace.blueprint2 = reals(net, rows, hidden / 2);
    trace.value2 = reals(net, rows, hidden / 4);
    trace.value3 = reals(net, rows, hidden / 8);
    for (int n = 0; n < NORM_COUNT; n++) {
        trace.hat[n] = reals(net, rows, norm_width(net, n));
        trace.rstd[n] = reals(net, rows, 1);
    }
    return trace;
}

static void back_create(struct network_device *net)
{
    const struct policy_shape *shape = &net->shape;
    const int hidden = shape->hidden, rows = net->rows;
    struct back *back = &net->back;
    net->unroll.h_in = reals(net, rows + net->at.envs, hidden); /* those of step 0 stay as they are */
    net->unroll.c_in = reals(net, rows + net->at.envs, hidden);
    net->unroll.tanh_c = reals(net, rows, hidden);
    back->wide = reals(net, rows, wide_columns(net));
    back->blueprint2 = reals(net, rows, hidden / 2);
    back->value2 = reals(net, rows, hidden / 4);
    back->value3 = reals(net, rows, hidden / 8);
    back->z = reals(net, rows, hidden);
    back->h = reals(net, rows, hidden);
    back->gate = reals(net, rows, GATES * hidden);
    back->c = reals(net, net->at.envs, hidden);
    back->x = reals(net, rows, hidden);
    back->feature = shape->feature == hidden ? back->x : reals(net, rows, shape->feature);
    back->embed = reals(net, rows, POLICY_EMBED * shape->slots);
    for (int n = 0; n < NORM_COUNT; n++)
        back->kept[n] = n == NORM_LSTM ? back->z : reals(net, rows, norm_width(net, n));
}

/* ---- tables of products ------------------------------------------------------------------------------------------ */

/* A linear layer by its name. */
struct linear {
    size_t weight, bias;
    int in, out;
};

static struct linear linear_of(const struct network_device *net, const char *name)
{
    char full[POLICY_TENSOR_NAME];
    snprintf(full, sizeof full, "%s.weight", name);
    const struct policy_tensor *weight = &net->shape.tensor[policy_shape_find(&net->shape, full)];
    return {weight->offset, offset_of(net, name, "bias"), weight->columns, weight->rows};
}

/* Layer 1, 2 or 3 of a head; head HEAD_COUNT is V's. */
static struct linear head_layer(const struct network_device *net, int head, int layer)
{
    char name[POLICY_TENSOR_NAME - 8];
    if (head == HEAD_COUNT)
        snprintf(name, sizeof name, "v.l%d", layer);
    else
        snprintf(name, sizeof name, "head.%s.l%d", head_name(head), layer);
    return linear_of(net, name);
}

/* y = x W' + b */
static struct product product_forward(const struct network_device *net, struct linear layer, int rows, const float *x,
                                      int x_stride, float *y, int y_stride, bool relu)
{
    struct product p = {};
    p.m = rows;
    p.n = layer.out;
    p.segments = 1;
    p.segment[0] = {x, net->at.w + layer.weight, layer.in, x_stride, layer.in};
    p.bias = net->at.w + layer.bias;
    p.c = y;
    p.c_stride = y_stride;
    p.relu = relu;
    return p;
}

/* dx = dy W, through the relu that gave `y` */
static struct product product_back(const struct network_device *net, struct linear layer, const float *dy,
                                   int dy_stride, float *dx, int dx_stride, const float *y, int y_stride)
{
    struct product p = {};
    p.m = net->rows;
    p.n = layer.in;
    p.segments = 1;
    p.segment[0] = {dy, net->at.w + layer.weight, layer.out, dy_stride, layer.in};
    p.gate = y;
    p.gate_stride = y_stride;
    p.c = dx;
    p.c_stride = dx_stride;
    return p;
}

/* dW = dy' x, over all rows in their order */
static struct product product_weights(const struct network_device *net, size_t weight, int out, int in, const float *dy,
                                      int dy_stride, const float *x, int x_stride)
{
    struct product p = {};
    p.m = out;
    p.n = in;
    p.segments = 1;
    p.segment[0] = {dy, x, net->rows, dy_stride, x_stride};
    p.c = net->at.grad + weight;
    p.c_stride = in;
    return p;
}

template <class T> static void list_close(struct network_device *net, struct product_list *list)
{
    list->tiles = 0;
    for (struct product &p : list->host) {
        p.first_tile = list->tiles;
        p.tile_columns = (p.n + T::N - 1) / T::N;
        list->tiles += p.tile_columns * ((p.m + T::M - 1) / T::M);
    }
    list->device = runtime_alloc<struct product>(net->rt, list->host.size());
    runtime_copy_to(net->rt, list->device, list->host.data(), list->host.size() * sizeof(struct product));
}

/* The products of one forward pass; `hidden`: the state, where the recurrence is part of it. */
template <class T>
static void forward_create(struct network_device *net, const struct trace *t, int rows, const float *state,
                           float *logits, float *values, struct forward_lists *to)
{
    const struct policy_shape *shape = &net->shape;
    const int hidden = shape->hidden, wide = wide_columns(net), value = wide_column(net, HEAD_COUNT);
    to->feature.host = {
        product_forward(net, linear_of(net, "feat"), rows, t->in, net->in_stride, t->feature, shape->feature, false)};
    if (t->x != t->feature)
        to->project.host = {
            product_forward(net, linear_of(net, "proj"), rows, t->feature, shape->feature, t->x, hidden, false)};
    const struct linear input = {offset_of(net, "lstm0", "w_ih"), offset_of(net, "lstm0", "b_ih"), hidden,
                                 GATES * hidden};
    struct product gates = product_forward(net, input, rows, t->x, hidden, t->gate, GATES * hidden, false);
    gates.bias2 = net->at.w + offset_of(net, "lstm0", "b_hh");
    if (state)
        gates.segment[gates.segments++] = {state, net->at.w + offset_of(net, "lstm0", "w_hh"), hidden, hidden, hidden};
    to->gates.host = {gates};
    for (int head = 0; head <= HEAD_COUNT; head++) {
        float *y = t->wide + wide_column(net, head);
        float *out = logits + (head < HEAD_COUNT ? head_offset(shape->slots, head) : 0);
        to->wide.host.push_back(
            product_forward(net, head_layer(net, head, 1), rows, t->z, hidden, y, wide, head < HEAD_COUNT));
        if (head < HEAD_COUNT && head != HEAD_BLUEPRINT)
            to->second.host.push_back(
                product_forward(net, head_layer(net, head, 2), rows, y, wide, out, shape->logits, false));
    }
    to->second.host.push_back(product_forward(net, head_layer(net, HEAD_BLUEPRINT, 2), rows,
                                              t->wide + wide_column(net, HEAD_BLUEPRINT), wide, t->blueprint2,
                                              hidden / 2, true));
    to->second.host.push_back(product_forward(net, head_layer(net, HEAD_COUNT, 2), rows, t->wide + value, wide,
                                              t->value2, hidden / 4, false));
    to->third.host = {
        product_forward(net, head_layer(net, HEAD_BLUEPRINT, 3), rows, t->blueprint2, hidden / 2,
                        logits + head_offset(shape->slots, HEAD_BLUEPRINT), shape->logits, false),
        product_forward(net, head_layer(net, HEAD_COUNT, 3), rows, t->value2, hidden / 4, t->value3, hidden / 8, true)};
    to->fourth.host = {
        product_forward(net, head_layer(net, HEAD_COUNT, 4), rows, t->value3, hidden / 8, values, 1, false)};
    for (struct product_list *list :
         {&to->feature, &to->project, &to->gates, &to->wide, &to->second, &to->third, &to->fourth})
        list_close<T>(net, list);
}

static void back_lists_create(struct network_device *net)
{
    const struct policy_shape *shape = &net->shape;
    const struct trace *t = &net->unroll;
    const struct back *b = &net->back;
    const int hidden = shape->hidden, wide = wide_columns(net), logits = shape->logits;
    const int value = wide_column(net, HEAD_COUNT), blueprint = wide_column(net, HEAD_BLUEPRINT);
    struct product z = {};
    for (int head = 0; head < HEAD_COUNT; head++) {
        const int column = wide_column(net, head);
        const float *d = net->at.dlogits + head_offset(shape->slots, head);
        if (head == HEAD_BLUEPRINT)
            net->back_first.host.push_back(product_back(net, head_layer(net, head, 3), d, logits, b->blueprint2,
                                                        hidden / 2, t->blueprint2, hidden / 2));
        else
            net->back_first.host.push_back(
                product_back(net, head_layer(net, head, 2), d, logits, b->wide + column, wide, t->wide + column, wide));
    }
    net->back_first.host.push_back(product_back(net, head_layer(net, HEAD_COUNT, 4), net->at.dvalues, 1, b->value3,
                                                hidden / 8, t->value3, hidden / 8));
    net->back_second.host = {product_back(net, head_layer(net, HEAD_BLUEPRINT, 2), b->blueprint2, hidden / 2,
                                          b->wide + blueprint, wide, t->wide + blueprint, wide),
                             product_back(net, head_layer(net, HEAD_COUNT, 3), b->value3, hidden / 8, b->value2,
                                          hidden / 4, t->value2, hidden / 4)};
    net->back_value.host = {product_back(net, head_layer(net, HEAD_COUNT, 2), b->value2, hidden / 4, b->wide + value,
                                         wide, t->wide + value, wide)};
    z.m = net->rows; /* all first layers in one sum */
    z.n = hidden;
    z.c = b->z;
    z.c_stride = hidden;
    for (int head = 0; head <= HEAD_COUNT; head++) {
        const struct linear layer = head_layer(net, head, 1);
        z.segment[z.segments++] = {b->wide + wide_column(net, head), net->at.w + layer.weight, layer.out, wide, hidden};
    }
    net->back_wide.host = {z};
    const struct linear input = {offset_of(net, "lstm0", "w_ih"), 0, hidden, GATES * hidden};
    const bool projected = t->x != t->feature;
    struct product x = product_back(net, input, b->gate, GATES * hidden, b->x, hidden, projected ? nullptr : t->feature,
                                    shape->feature);
    x.start = b->z;
    x.start_stride = hidden;
    net->back_gates.host = {x};
    if (projected)
        net->back_project.host = {product_back(net, linear_of(net, "proj"), b->x, hidden, b->feature, shape->feature,
                                               t->feature, shape->feature)};
    struct product embed = product_back(net, linear_of(net, "feat"), b->feature, shape->feature, b->embed,
                                        POLICY_EMBED * shape->slots, nullptr, 0);
    embed.n = POLICY_EMBED * shape->slots; /* the only inputs that learn are the embeddings */
    embed.segment[0].b += shape->obs;
    net->back_embed.host = {embed};
    for (struct product_list *list : {&net->back_first, &net->back_second, &net->back_value, &net->back_wide,
                                      &net->back_gates, &net->back_project, &net->back_embed})
        list_close<tiling_wide>(net, list);
}

static void weights_add(struct network_device *net, struct linear layer, const float *dy, int dy_stride, const float *x,
                        int x_stride)
{
    net->weights.host.push_back(product_weights(net, layer.weight, layer.out, layer.in, dy, dy_stride, x, x_stride));
    if (layer.bias)
        net->sums.push_back({dy, nullptr, dy_stride, 0, layer.out, layer.bias, layer.bias, 0});
}

static void norm_sums_add(struct network_device *net, int norm)
{
    const int width = norm_width(net, norm);
    const float *d = net->back.kept[norm], *hat = net->unroll.hat[norm];
    const size_t gamma = offset_of(net, norm_name(norm), "gamma"), beta = offset_of(net, norm_name(norm), "beta");
    net->sums.push_back({d, hat, width, width, width, gamma, gamma, 0});
    net->sums.push_back({d, nullptr, width, 0, width, beta, beta, 0});
}

/* The large ones first: they take longest. */
static void weights_create(struct network_device *net)
{
    const struct policy_shape *shape = &net->shape;
    const struct trace *t = &net->unroll;
    const struct back *b = &net->back;
    const int hidden = shape->hidden, wide = wide_columns(net), gates = GATES * hidden;
    const size_t b_ih = offset_of(net, "lstm0", "b_ih"), b_hh = offset_of(net, "lstm0", "b_hh");
    weights_add(net, {offset_of(net, "lstm0", "w_ih"), 0, hidden, gates}, b->gate, gates, t->x, hidden);
    weights_add(net, {offset_of(net, "lstm0", "w_hh"), 0, hidden, gates}, b->gate, gates, t->h_in, hidden);
    net->sums.push_back({b->gate, nullptr, gates, 0, gates, b_ih, b_hh, 0});
    for (int head = 0; head <= HEAD_COUNT; head++)
        weights_add(net, head_layer(net, head, 1), b->wide + wide_column(net, head), wide, t->z, hidden);
    weights_add(net, linear_of(net, "feat"), b->feature, shape->feature, t->in, net->in_stride);
    if (t->x != t->feature)
        weights_add(net, linear_of(net, "proj"), b->x, hidden, t->feature, shape->feature);
    for (int head = 0; head < HEAD_COUNT; head++) {
        const float *d = net->at.dlogits + head_offset(shape->slots, head), *x = t->wide + wide_column(net, head);
        if (head == HEAD_BLUEPRINT) {
            weights_add(net, head_layer(net, head, 3), d, shape->logits, t->blueprint2, hidden / 2);
            weights_add(net, head_layer(net, head, 2), b->blueprint2, hidden / 2, x, wide);
        } else {
            weights_add(net, head_layer(net, head, 2), d, shape->logits, x, wide);
        }
    }
    weights_add(net, head_layer(net, HEAD_COUNT, 2), b->value2, hidden / 4, t->wide + wide_column(net, HEAD_COUNT),
                wide);
    weights_add(net, head_layer(net, HEAD_COUNT, 3), b->value3, hidden / 8, t->value2, hidden / 4);
    weights_add(net, head_layer(net, HEAD_COUNT, 4), net->at.dvalues, 1, t->value3, hidden / 8);
    list_close<tiling_wide>(net, &net->weights);
    for (int norm = 0; norm < NORM_COUNT; norm++)
        norm_sums_add(net, norm);
    for (struct column_sum &sum : net->sums) {
        sum.first_tile = net->sum_tiles;
        net->sum_tiles += (sum.width + SUM_COLUMNS - 1) / SUM_COLUMNS;
    }
    net->sums_device = runtime_alloc<struct column_sum>(net->rt, net->sums.size());
    runtime_copy_to(net->rt, net->sums_device, net->sums.data(), net->sums.size() * sizeof(struct column_sum));
    net->sum_partial = runtime_alloc<double>(net->rt, (size_t)SUM_CHUNKS * net->sum_tiles * SUM_COLUMNS);
    net->embed_partial = runtime_alloc<double>(net->rt, SUM_CHUNKS * POLICY_EMBED_ROWS * POLICY_EMBED);
}

static void recurrence_create(struct network_device *net)
{
    struct recurrence *r = &net->recurrence;
    const struct trace *t = &net->unroll;
    const int tiles = (net->at.envs + RECURRENT_ROWS - 1) / RECURRENT_ROWS;
    r->steps = net->at.steps;
    r->envs = net->at.envs;
    r->hidden = net->shape.hidden;
    r->blocks = (r->hidden + RECURRENT_UNITS - 1) / RECURRENT_UNITS;
    const int room = runtime_processors(net->rt) / r->blocks; /* one block per SM: all must run at once */
    r->groups = tiles < room ? tiles : room;
    r->w = net->at.w + offset_of(net, "lstm0", "w_hh");
    r->reset = net->at.reset;
    r->gate = t->gate;
    r->h_in = t->h_in;
    r->c_in = t->c_in;
    r->tanh_c = t->tanh_c;
    r->h = t->hat[NORM_LSTM]; /* where its norm is written */
    r->dh = net->back.h;
    r->dc = net->back.c;
    r->dgate = net->back.gate;
    r->arrived = runtime_alloc<uint32_t>(net->rt, (size_t)r->groups);
}

int network_device_widest(const struct runtime *rt)
{
    const int all = FORWARD_SLICE * RECURRENT_WARPS, room = runtime_processors(rt) * RECURRENT_UNITS;
    return all < room ? all : room;
}

struct network_device *network_device_create(struct runtime *rt, const struct network_places *places)
{
    struct network_device *net = new network_device();
    net->rt = rt;
    net->at = *places;
    net->shape = *places->shape;
    net->rows = places->envs * places->steps;
    net->in_stride = (net->shape.inputs + 3) / 4 * 4;
    net->act = trace_create(net, places->acting.count);
    net->unroll = trace_create(net, net->rows);
    back_create(net);
    forward_create<tiling_flat>(net, &net->act, places->acting.count, places->hidden, places->act_logits,
                                places->act_values, &net->act_lists);
    forward_create<tiling_wide>(net, &net->unroll, net->rows, nullptr, places->logits, places->values,
                                &net->unroll_lists);
    back_lists_create(net);
    weights_create(net);
    recurrence_create(net);
    network_kernels_allow(net);
    runtime_wait(rt); /* the tables are on the device */
    if (!rt->failed)
        return net;
    network_device_free(net);
    return nullptr;
}

void network_device_free(struct network_device *net)
{
    delete net;
}

float *network_device_first_hidden(struct network_device *net)
{
    return net->unroll.h_in;
}

float *network_device_first_cell(struct network_device *net)
{
    return net->unroll.c_in;
}

const float *network_device_trunk(const struct network_device *net)
{
    return net->unroll.z;
}

const float *network_device_hidden(const struct network_device *net)
{
    return net->unroll.h_in + (size_t)net->rows * net->shape.hidden;
}

const float *network_device_cell(const struct network_device *net)
{
    return net->unroll.c_in + (size_t)net->rows * net->shape.hidden;
}
