/* Setup and release of the transformer's fp32 networks: the memory layout. */
#include "cuda/runtime.cuh"

#include <cstring>

#include "transformer/fp32/fp32.cuh"

/* ---- parameters -------------------------------------------------------------------------------------------------- */

static struct branch_view branch_of(enum branch_kind kind, int width, int hidden, const struct param_layout *layout,
                                    int first)
{
    struct branch_view branch = {};
    const bool lora = kind == BRANCH_LORA;
    const auto offset = [&](int tensor) { return (uint32_t)layout->tensor[first + tensor].offset; };
    branch.kind = kind;
    branch.hidden = hidden;
    branch.mixed = kind == BRANCH_ATTENTION ? width : hidden;
    branch.biased = !lora;
    branch.w1 = offset(lora ? (int)LORA_DOWN : (int)BRANCH_W1);
    branch.w2 = offset(lora ? (int)LORA_UP : (int)BRANCH_W2);
    branch.b1 = lora ? 0 : offset(BRANCH_B1);
    branch.b2 = lora ? 0 : offset(BRANCH_B2);
    return branch;
}

static struct norm_view norm_of(const struct param_layout *layout, int gamma, int beta)
{
    return {(uint32_t)layout->tensor[gamma].offset, (uint32_t)layout->tensor[beta].offset};
}

static struct exact_part part_of(const struct param_layout *layout)
{
    struct exact_part part = {};
    part.tensors = layout->count;
    part.params = (uint32_t)layout->params;
    for (int t = 0; t < layout->count; t++)
        part.tensor[t] = {(uint32_t)layout->tensor[t].offset, (uint32_t)layout->tensor[t].size,
                          layout->tensor[t].dims == 2};
    return part;
}

static struct exact_seed exact_seed_of(int blueprint, int width)
{
    const struct seed_plan *plan = transformer_seed(blueprint);
    struct exact_seed seed = {};
    struct param_layout layout;
    transformer_seed_layout(blueprint, width, &layout);
    seed.part = part_of(&layout);
    seed.norm = plan && plan->norm;
    if (seed.norm) {
        seed.norm_at = norm_of(&layout, NORM_GAMMA, NORM_BETA);
        seed.sigma = (uint32_t)layout.tensor[NORM_SIGMA].offset;
    } else if (plan) {
        seed.branch = branch_of(plan->kind, width, seed_hidden(plan, width), &layout, 0);
    }
    return seed;
}

static void view_params(struct exact_view *net, const struct transformer_shape *shape)
{
    const struct param_layout *host = &shape->net.host;
    struct param_layout gate;
    for (int i = 0; i < shape->layers; i++) {
        struct exact_half *half = net->layer[i].half;
        half[0].norm = norm_of(host, layer_tensor(i, LAYER_NORM1_GAMMA), layer_tensor(i, LAYER_NORM1_BETA));
        half[1].norm = norm_of(host, layer_tensor(i, LAYER_NORM2_GAMMA), layer_tensor(i, LAYER_NORM2_BETA));
        half[0].branch =
            branch_of(BRANCH_ATTENTION, shape->width, 3 * shape->width, host, layer_tensor(i, LAYER_QKV_WEIGHT));
        half[1].branch =
            branch_of(BRANCH_MLP, shape->width, MLP_WIDER * shape->width, host, layer_tensor(i, LAYER_FC_WEIGHT));
    }
    net->last = norm_of(host, last_norm_gamma(shape), last_norm_beta(shape));
    net->tokens = (uint32_t)host->tensor[HOST_TOKENS].offset;
    net->positions = (uint32_t)host->tensor[HOST_POSITIONS].offset;
    net->embeddings = (uint32_t)host->tensor[HOST_LAYERS].offset;
    net->host_params = (uint32_t)host->params;
    net->host_storage = (uint32_t)host->storage;
    net->seed_storage = (uint32_t)shape->net.seed_storage;
    net->gate_storage = (uint32_t)shape->net.gate_storage;
    net->grad = host->storage + shape->net.seed_storage + shape->net.gate_storage;
    for (int b = 0; b < TRANSFORMER_BLUEPRINTS; b++)
        net->seed_of[b] = exact_seed_of(b, shape->width);
    transformer_gate_layout(shape->width, &gate);
    net->gate = part_of(&gate);
    net->gate_branch = branch_of(BRANCH_MLP, shape->width, net->gate_hidden, &gate, 0); /* ReLU in GELU's place */
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

/* A place for `count` numbers of each row. */
static place_t take(struct exact_view *net, int count)
{
    const size_t place = net->line;
    net->line += ((size_t)count + 3) / 4 * 4;
    return (place_t)place;
}

/* The same for operands of products, whose size is that of the frames. */
static place_t take_operand(struct exact_view *net, enum frames frames, int count)
{
    return take(net, frames == FRAMES_BF16 ? (count + 1) / 2 : count);
}

/* For the stream or its gradient. */
static struct stream_place take_stream(struct exact_view *net, enum frames frames)
{
    const place_t exact = take(net, net->width);
    return {exact, frames == FRAMES_BF16 ? take_operand(net, frames, net->width) : exact};
}

static struct norm_places take_norm(struct exact_view *net, enum frames frames)
{
    const place_t hat = take_operand(net, frames, net->width), rstd = take(net, 1);
    return {hat, rstd, take_operand(net, frames, net->width), take_operand(net, frames, net->width)};
}

static struct branch_places take_branch(struct exact_view *net, enum frames frames, int hidden, int mixed, int heads)
{
    const place_t first = take_operand(net, frames, hidden), second = take_operand(net, frames, mixed);
    return {first, second, take(net, heads), take_operand(net, frames, hidden)};
}

/* Where a slot is in the pools. */
static void lay_out_params(struct exact_view *net, const struct transformer_shape *shape, int j)
{
    const struct slot_shape *s = &shape->net.slot[j];
    struct exact_slot *slot = &net->slot[j];
    slot->seed = (uint32_t)s->seed;
    slot->seed_storage = (uint32_t)s->seed_storage;
    slot->gate = (uint32_t)s->gate;
    slot->gate_storage = (uint32_t)s->gate_storage;
}

static void lay_out_slot(struct exact_view *net, enum frames frames, int j)
{
    struct exact_slot *slot = &net->slot[j];
    int hidden = net->width; /* of attention's mixed */
    for (const struct exact_seed &seed : net->seed_of)
        hidden = seed.branch.hidden > hidden ? seed.branch.hidden : hidden;
    slot->x = take_stream(net, frames);
    slot->s = take(net, net->width);
    slot->dy = take_stream(net, frames);
    slot->ds = take_operand(net, frames, net->width);
    slot->places = take_branch(net, frames, hidden, hidden, SEED_HEADS);
    slot->hat = take_operand(net, frames, net->width);
    slot->rstd = take(net, 1);
    slot->sigma = take(net, 1);
    slot->gate_hidden = take_operand(net, frames, net->gate_hidden);
    slot->q = take(net, 1);
    slot->dgate_hidden = take_operand(net, frames, net->gate_hidden);
    slot->dq = take_operand(net, frames, OPERAND_ROW);
}

/* A segment's last layer and the slot after it are one stop; without layers the slot is. */
static void find_way(struct exact_view *net, const struct transformer_shape *shape)
{
    const int each = transformer_segment_layers(shape);
    for (int segment = 0; segment < shape->segments; segment++) {
        const int slot = shape->slot_after[segment];
        for (int i = segment * each; i < (segment + 1) * each - 1; i++)
            net->way[net->stops++] = {i, -1};
        if (slot >= 0)
            net->slot[slot].stop = net->stops;
        net->way[net->stops++] = {each ? (segment + 1) * each - 1 : -1, slot};
    }
}

/* Places of the stream on its way, and of its gradient on the way back: the stream is where the next one reads it,
 * and a slot keeps what enters it; its gradient is with the one before, who wrote it. */
static void connect(struct exact_view *net)
{
    struct stream_place *to = &net->embedding, dy = net->dembed; /* of what comes before */
    int before = -1;                                             /* that, if it is a slot */
    const auto pass = [&](const struct stream_place &x, auto *by) {
        *to = x;
        by->dx = dy;
        to = &by->to;
        dy = by->dy;
    };
    for (int i = 0; i < net->stops; i++) {
        const struct exact_stop stop = net->way[i];
        if (stop.layer >= 0)
            for (struct exact_half &half : net->layer[stop.layer].half) {
                pass(net->stream, &half);
                half.before = before;
                half.after = &half == net->layer[stop.layer].half ? -1 : stop.slot;
                before = -1;
            }
        if (stop.slot >= 0) {
            pass(net->slot[stop.slot].x, &net->slot[stop.slot]);
            before = stop.slot;
        }
    }
    *to = net->stream;
    net->dlast = dy;
    net->before_last = before;
}

static void lay_out(struct exact_view *net, const struct transformer_shape *shape, enum frames frames)
{
    for (int j = 0; j < net->slots; j++)
        lay_out_params(net, shape, j);
    find_way(net, shape);
    if (frames == FRAMES_NONE)
        return;
    for (int i = 0; i < net->layers; i++)
        for (struct exact_half &half : net->layer[i].half) {
            half.norms = take_norm(net, frames);
            half.places = take_branch(net, frames, half.branch.hidden, half.branch.mixed, net->heads);
            half.dy = take_stream(net, frames);
        }
    for (int j = 0; j < net->slots; j++)
        lay_out_slot(net, frames, j);
    const place_t stream = take(net, net->width);
    net->stream = {stream, stream};
    net->dmixed = take_operand(net, frames, net->width);
    net->dembed = take_stream(net, frames);
    net->last_places = take_norm(net, frames);
    net->dlogits = take_operand(net, frames, net->vocabulary);
    if (frames == FRAMES_FP32) {
        net->logits = take(net, net->vocabulary);
    } else {
        net->entries = take_operand(net, frames, net->vocabulary);
        net->verdicts = take(net, 2);
    }
    connect(net);
}

/* Sequences per chunk, from the size of the batch alone. */
static int chunk_sequences(int batch, int context, int rows)
{
    const int least = (rows + context - 1) / context, most = (batch + CHUNKS - 1) / CHUNKS,
              chunk = least > most ? least : most;
    return chunk < batch ? chunk : batch;
}

/* ---- lifetime ---------------------------------------------------------------------------------------------------- */

static std::vector<uint8_t> decays_of(const struct transformer_shape *shape)
{
    std::vector<uint8_t> decays(shape->net.host.storage / LAYOUT_ALIGN + 1);
    for (int t = 0; t < shape->net.host.count; t++) {
        const struct tensor_layout *tensor = &shape->net.host.tensor[t];
        for (size_t i = 0; i < tensor->size; i += LAYOUT_ALIGN)
            decays[(tensor->offset + i) / LAYOUT_ALIGN] = host_tensor_decays(shape, t);
    }
    return decays;
}

/* Bytes of what exists per env of the group. */
static size_t env_bytes(const struct exact_view *net)
{
    return sizeof(float) * ((size_t)net->rows * net->line + net->grad * (size_t)(net->chunks + 1) + net->embeddings) +
           (size_t)net->rows * (sizeof(double) + 1) + (size_t)net->batch * (size_t)(net->context + 1);
}

void transformer_allocate(struct transformer_net *device, size_t own_bytes)
{
    struct runtime *rt = device->runtime;
    struct exact_view *net = &device->view;
    const size_t fit = net_frame_bytes() / (env_bytes(net) + own_bytes);
    net->group = fit < 1 ? 1 : fit < (size_t)device->setup.envs ? (int)fit : device->setup.envs;
    const size_t envs = (size_t)device->setup.envs, group = (size_t)net->group, rows = group * (size_t)net->rows;
    net->frames = runtime_alloc<float>(rt, rows * net->line);
    net->windows = runtime_alloc<uint8_t>(rt, group * (size_t)net->batch * (size_t)(net->context + 1));
    net->losses = runtime_alloc<double>(rt, rows);
    net->hits = runtime_alloc<uint8_t>(rt, rows);
    net->partials = runtime_alloc<float>(rt, group * (size_t)net->chunks * net->grad);
    net->grads = runtime_alloc<float>(rt, group * net->grad);
    net->embedded = runtime_alloc<float>(rt, net->line ? group * net->embeddings : 0);
    net->squares = runtime_alloc<double>(rt, group * (size_t)net->spans);
    net->part = runtime_alloc<struct part_step>(rt, group * NET_NORMS);
    net->train = runtime_alloc<struct net_score>(rt, envs);
    net->plans = runtime_alloc<struct eval_plan>(rt, envs);
    net->scores = runtime_alloc<struct net_score>(rt, envs * EVAL_PARTS * NET_SETS_MAX);
    net->decays = transformer_placed(rt, decays_of(transformer_shape_of(device->setup.host_shape)));
}

void transformer_view_init(struct transformer_net *device, enum frames frames)
{
    const struct transformer_shape *shape = transformer_shape_of(device->setup.host_shape);
    struct exact_view *net = &device->view;
    net->setup = device->placed;
    net->batch = (int)device->setup.source.batch;
    net->context = shape->context;
    net->width = shape->width;
    net->heads = shape->heads;
    net->vocabulary = shape->vocabulary;
    net->layers = shape->layers;
    net->slots = shape->net.slots;
    net->gate_hidden = transformer_gate_hidden(shape->width);
    net->rows = net->batch * net->context;
    net->chunk = chunk_sequences(net->batch, net->context, frames == FRAMES_BF16 ? CHUNK_ROWS_WIDE : CHUNK_ROWS);
    net->chunks = frames != FRAMES_NONE ? (net->batch + net->chunk - 1) / net->chunk : 0;
    view_params(net, shape);
    net->spans = (int)((net->host_storage + SPAN - 1) / SPAN);
    lay_out(net, shape, frames);
}

void transformer_place(struct transformer_net *device)
{
    struct runtime *rt = device->runtime;
    device->net = runtime_alloc<struct exact_view>(rt, 1);
    runtime_copy_to(rt, device->net, &device->view, sizeof device->view);
    runtime_wait(rt);
}

void transformer_divide(struct transformer_net *device, const std::vector<exact_work> &work)
{
    struct runtime *rt = device->runtime;
    struct exact_view *net = &device->view;
    const unsigned frames = (unsigned)(net->group * net->batch),
                   most = (unsigned)(runtime_processors(rt) * EVAL_BLOCKS);
    device->work = (unsigned)work.size();
    net->work = transformer_placed(rt, work);
    device->eval_blocks = frames < most ? frames : most;
}

void transformer_release(struct net_device *given)
{
    delete transformer_net_of(given); /* device memory is released with the runtime */
}

static struct net_device *create(struct runtime *rt, const struct net_setup *setup)
{
    struct transformer_net *device = new transformer_net();
    net_device_begin(device, rt, setup);
    transformer_view_init(device, FRAMES_FP32);
    transformer_allocate(device, 0);
    transformer_divide(device, fp32_work(&device->view));
    device->learn = fp32_learn;
    device->walk = fp32_walk;
    fp32_allow_train(device);
    fp32_allow_walk(device);
    transformer_place(device);
    if (rt->failed) {
        delete device;
        return nullptr;
    }
    return device;
}

extern const struct net_device_kernels transformer_fp32 = {create,
                                                           transformer_release,
                                                           transformer_train_all,
                                                           transformer_evaluate_all,
                                                           transformer_measure_all,
                                                           transformer_test_all};
