/* Setup and release: the memory layout, and the division of the work. */
#include "cuda/runtime.cuh"

#include <cstring>

#include "cnn/fp32/net.cuh"

/* ---- layout ------------------------------------------------------------------------------------------------------ */

/* Offsets are allocated from the front; maps are aligned to 16 bytes. */
static uint32_t take(size_t *used, size_t count)
{
    size_t at = (*used + 3) / 4 * 4;
    *used = at + count;
    return (uint32_t)at;
}

/* What is laid out, and how. */
struct plan {
    struct net_view *net;
    const struct cnn_shape *shape;
    struct framed_form form;
};

static int stored(const struct plan *plan, int channels)
{
    return (channels + plan->form.unit - 1) / plan->form.unit * plan->form.unit;
}

static size_t map_room(const struct plan *plan, size_t pixels, int channels)
{
    return pixels * (size_t)(stored(plan, channels) / plan->form.unit) * plan->form.unit_floats;
}

static void divide(const struct plan *plan, const struct layer_view &layer, int *chunk, int *chunks)
{
    const int batch = plan->net->batch;
    *chunk = plan->form.chunk(batch, layer.height * layer.width, plan->form.parts(layer, false));
    *chunks = (batch + *chunk - 1) / *chunk;
}

static struct layer_view layer_of(const struct plan *plan, const struct block_shape *b, int in_stride)
{
    struct layer_view layer = {};
    layer.height = b->height;
    layer.width = b->width;
    layer.kernel = plan->shape->kernel;
    layer.cin = b->cin;
    layer.cout = b->cout;
    layer.in_stride = in_stride;
    layer.stored = stored(plan, b->cout);
    divide(plan, layer, &layer.chunk, &layer.chunks);
    return layer;
}

/* Room for packed weights from `used` on. */
static void lay_out_packed(const struct plan *plan, int kernel, int cin, int cout, bool depthwise, size_t *used,
                           uint32_t *forward, uint32_t *back)
{
    if (!plan->form.packed)
        return;
    *forward = take(used, plan->form.packed(kernel, cin, cout, depthwise, false));
    *back = take(used, plan->form.packed(kernel, cin, cout, depthwise, true));
}

static uint32_t tensor_at(const struct param_layout *layout, int tensor)
{
    return (uint32_t)layout->tensor[tensor].offset;
}

static void lay_out_blocks(const struct plan *plan)
{
    struct net_view *net = plan->net;
    const struct cnn_shape *shape = plan->shape;
    for (int i = 0; i < shape->blocks; i++) {
        const struct block_shape *b = &shape->block[i];
        struct block_view *block = &net->block[i];
        size_t pixels = (size_t)b->height * (size_t)b->width;
        block->conv = layer_of(plan, b, i == 0 ? GATHER_CHANNELS : b->cin);
        block->pixels = (int)pixels;
        block->pool = b->pool;
        memcpy(block->slot, b->slot, sizeof block->slot);
        block->weight = tensor_at(&shape->net.host, b->weight);
        block->gamma = tensor_at(&shape->net.host, b->gamma);
        block->beta = tensor_at(&shape->net.host, b->beta);
        block->mean = (uint32_t)b->mean;
        block->var = (uint32_t)b->var;
        block->norm = take(&net->norm, NORM_ARRAYS * (size_t)block->conv.stored);
        block->in = i == 0 ? net->input : net->block[i - 1].out;
        block->raw = take(&net->frame, map_room(plan, pixels, b->cout));
        block->grad = take(&net->frame, map_room(plan, pixels, b->cout));
        block->out = take(&net->frame, map_room(plan, b->pool ? pixels / 4 : pixels, b->cout));
        lay_out_packed(plan, shape->kernel, b->cin, b->cout, false, &net->packed_floats, &block->forward, &block->back);
        block->partial = net->partial;
        net->partial += (size_t)block->conv.chunks * shape->net.host.tensor[b->weight].size;
    }
}

static int layout_views(const struct param_layout *layout, struct tensor_view *views)
{
    for (int t = 0; t < layout->count; t++) {
        views[t].offset = (uint32_t)layout->tensor[t].offset;
        views[t].size = (uint32_t)layout->tensor[t].size;
    }
    return layout->count;
}

/* A chain's steps with their tensors and maps; maps of different blueprints overlay one another from `used` on. */
static void lay_out_chain(const struct plan *plan, struct seed_view *seed, const struct seed_blueprint *blueprint,
                          const struct slot_view *slot, size_t *used, size_t *packed)
{
    int tensor = 0, norms = 0;
    for (int i = 0; i < blueprint->steps; i++) {
        const struct chain_step *what = &blueprint->step[i];
        struct step_view *step = &seed->step[i];
        step->kind = what->kind;
        step->kernel = what->kind == STEP_CONV1 ? 1 : 3;
        step->cin = what->from == WIDTH_NECK ? slot->neck : slot->channels;
        step->cout = what->to == WIDTH_NECK ? slot->neck : slot->channels;
        step->groups = group_count(step->cout);
        step->relu = what->act == ACT_RELU || what->act == ACT_NORM_RELU;
        step->norm = -1;
        step->weight = seed->tensor[tensor++].offset;
        if (what->act == ACT_NORM || what->act == ACT_NORM_RELU) {
            step->norm = norms++;
            step->gamma = seed->tensor[tensor++].offset;
            step->beta = seed->tensor[tensor++].offset;
        }
        size_t map = map_room(plan, (size_t)slot->pixels, step->cout);
        step->pre = take(used, map);
        step->grad = take(used, map);
        if (i + 1 < blueprint->steps)
            step->act = take(used, map);
        lay_out_packed(plan, step->kernel, step->cin, step->cout, step->kind == STEP_DEPTHWISE, packed, &step->forward,
                       &step->back);
    }
}

static void lay_out_seeds(const struct plan *plan, struct slot_view *slot)
{
    struct net_view *net = plan->net;
    const size_t start = net->frame, first = net->packed_floats;
    for (int i = 0; i < BLUEPRINT_COUNT; i++) {
        const struct seed_blueprint *blueprint = blueprint_at(i);
        struct seed_view *seed = &slot->seed_of[i];
        struct param_layout layout;
        size_t used = start, packed = first;
        blueprint_layout(i, slot->channels, &layout);
        seed->kind = blueprint->kind;
        seed->steps = blueprint->steps;
        seed->storage = (uint32_t)layout.storage;
        seed->params = (uint32_t)layout.params;
        seed->tensors = layout_views(&layout, seed->tensor);
        lay_out_chain(plan, seed, blueprint, slot, &used, &packed);
        net->frame = used > net->frame ? used : net->frame;
        net->packed_floats = packed > net->packed_floats ? packed : net->packed_floats;
    }
}

static void lay_out_gate(struct net_view *net, struct slot_view *slot)
{
    struct param_layout layout;
    gate_layout(slot->channels, &layout);
    layout_views(&layout, slot->gate_tensor);
    slot->gate_params = (uint32_t)layout.params;
    slot->gate_mean = take(&net->frame, (size_t)slot->channels);
    slot->gate_hidden = take(&net->frame, (size_t)slot->neck);
    slot->gate_out = take(&net->frame, 1);
    slot->gate_sums = take(&net->figure, 1 + (size_t)slot->neck);
}

static void lay_out_slots(const struct plan *plan)
{
    struct net_view *net = plan->net;
    const struct cnn_shape *shape = plan->shape;
    for (int j = 0; j < shape->net.slots; j++) {
        const struct slot_shape *s = &shape->net.slot[j];
        const struct site_shape *site = &shape->site[j];
        struct slot_view *slot = &net->slot[j];
        const size_t channels = (size_t)site->channels,
                     map = map_room(plan, (size_t)(site->height * site->width), site->channels);
        slot->channels = site->channels;
        slot->height = site->height;
        slot->width = site->width;
        slot->pixels = site->height * site->width;
        slot->groups = group_count(site->channels);
        slot->neck = blueprint_neck(site->channels);
        slot->squeeze = blueprint_squeeze(site->channels);
        slot->stored = stored(plan, site->channels);
        divide(plan, {site->height, site->width, 3, site->channels, site->channels, site->channels, 0, 0, 0},
               &slot->chunk, &slot->chunks);
        slot->seed = (uint32_t)s->seed;
        slot->seed_storage = (uint32_t)s->seed_storage;
        slot->gate = (uint32_t)s->gate;
        slot->gate_storage = (uint32_t)s->gate_storage;
        slot->x = take(&net->frame, map);
        slot->s = take(&net->frame, map);
        slot->y = s->row == 0 ? take(&net->frame, map) : 0;
        slot->norms = take(&net->frame, 2 * NORM_ARRAYS * (size_t)slot->stored);
        slot->sums = take(&net->figure, 4 * channels);
        slot->sigma = take(&net->figure, 1);
        lay_out_gate(net, slot);
        lay_out_seeds(plan, slot);
        slot->partial = net->partial;
        net->partial += (size_t)slot->chunks * s->seed_storage;
    }
}

static void lay_out(const struct plan *plan)
{
    struct net_view *net = plan->net;
    const struct cnn_shape *shape = plan->shape;
    size_t largest = 0, channels = 0;
    net->input = take(&net->frame, (size_t)shape->block[0].height * (size_t)shape->block[0].width * GATHER_CHANNELS);
    lay_out_blocks(plan);
    for (int i = 0; i < shape->blocks; i++) {
        const struct block_shape *b = &shape->block[i];
        const int neck = blueprint_neck(b->cout), wide = b->cout > neck ? b->cout : neck;
        const size_t map = map_room(plan, (size_t)(b->height * b->width), wide);
        largest = map > largest ? map : largest;
        channels = (size_t)b->cout > channels ? (size_t)b->cout : channels;
    }
    const uint32_t pooled = plan->form.keeps_pooled ? 0 : take(&net->frame, largest);
    for (int i = 0; i < shape->blocks; i++)
        net->block[i].pooled =
            plan->form.keeps_pooled
                ? take(&net->frame, map_room(plan, (size_t)(shape->block[i].height * shape->block[i].width) / 4,
                                             shape->block[i].cout))
                : pooled;
    net->u = take(&net->frame, largest);
    net->dx = take(&net->frame, largest);
    net->chain = take(&net->frame, largest);
    net->feature = take(&net->frame, (size_t)shape->features);
    net->logit = take(&net->frame, (size_t)shape->classes);
    net->dlogit = take(&net->frame, (size_t)shape->classes);
    net->block_sums = take(&net->figure, 2 * channels);
    net->label = take(&net->figure, 1);
    net->loss = take(&net->figure, 1);
    net->right = take(&net->figure, 1);
    lay_out_slots(plan);
    net->frame = (net->frame + 31) / 32 * 32;
    net->norm = (net->norm + 31) / 32 * 32;
    net->partial = (net->partial + 31) / 32 * 32;
    net->packed_floats = plan->form.packed ? (net->packed_floats + 31) / 32 * 32
                                           : shape->net.host.storage + shape->net.seed_storage;
    net->grad = shape->net.host.storage + shape->net.seed_storage + shape->net.gate_storage;
}

/* ---- gradients of weights: division of the work ------------------------------------------------------------------ */

/* Entries for every chunk and part of a layer. Counts where `work` is NULL. */
static unsigned add_work(struct weight_work *work, unsigned count, int block, int slot, int step, int chunks, int parts)
{
    for (int chunk = 0; chunk < chunks; chunk++)
        for (int part = 0; part < parts; part++, count++)
            if (work)
                work[count] = {(int16_t)block, (int16_t)slot, (int16_t)step, (int16_t)chunk, part};
    return count;
}

/* The most parts that a step of any blueprint has at this slot. */
static int step_parts(const struct framed_form &form, const struct slot_view *slot, int step)
{
    int most = 0;
    for (int i = 0; i < BLUEPRINT_COUNT; i++) {
        const struct seed_view *seed = &slot->seed_of[i];
        const struct step_view *s = &seed->step[step];
        if (step >= seed->steps)
            continue;
        const int parts = form.parts(step_layer(*slot, *s), s->kind == STEP_DEPTHWISE);
        most = parts > most ? parts : most;
    }
    return most;
}

static unsigned list_work(const struct framed_form &form, const struct net_view *net, struct weight_work *work)
{
    unsigned count = 0;
    for (int i = 0; i < net->blocks; i++) {
        const struct layer_view &conv = net->block[i].conv;
        count = add_work(work, count, i, -1, 0, conv.chunks, form.parts(conv, false));
    }
    for (int j = 0; j < net->slots; j++)
        for (int step = 0; step < CHAIN_STEPS; step++)
            count = add_work(work, count, -1, j, step, net->slot[j].chunks, step_parts(form, &net->slot[j], step));
    return count;
}

/* ---- lifetime ---------------------------------------------------------------------------------------------------- */

static void allocate(struct framed_net *device, const struct framed_form &form)
{
    struct runtime *rt = device->runtime;
    struct net_view *net = &device->view;
    size_t envs = (size_t)device->setup.envs, group = (size_t)net->group, images = group * (size_t)net->batch;
    net->frames = runtime_alloc<float>(rt, images * net->frame);
    net->figures = runtime_alloc<double>(rt, images * net->figure);
    net->norms = runtime_alloc<float>(rt, group * net->norm);
    net->packed = runtime_alloc<float>(rt, group * net->packed_floats);
    net->grads = runtime_alloc<float>(rt, group * net->grad);
    net->partials = runtime_alloc<float>(rt, group * net->partial);
    net->part = runtime_alloc<struct part_norms>(rt, group * NET_NORMS);
    net->train_loss = runtime_alloc<double>(rt, envs);
    net->train_right = runtime_alloc<uint32_t>(rt, envs);
    net->losses = runtime_alloc<float>(rt, envs * (size_t)net_most_images(&device->setup));
    net->plans = runtime_alloc<struct eval_plan>(rt, envs);
    device->work = list_work(form, net, nullptr);
    struct weight_work *list = new weight_work[device->work],
                       *work = runtime_alloc<struct weight_work>(rt, device->work);
    list_work(form, net, list);
    runtime_copy_to(rt, work, list, sizeof *list * device->work);
    runtime_wait(rt);
    delete[] list;
    net->work = work;
}

static void view_init(struct framed_net *device, const struct framed_form &form)
{
    const struct cnn_shape *shape = cnn_shape_of(device->setup.host_shape);
    struct net_view *net = &device->view;
    net->setup = device->placed;
    net->batch = (int)device->setup.source.batch;
    net->blocks = shape->blocks;
    net->slots = shape->net.slots;
    net->features = shape->features;
    net->classes = shape->classes;
    net->kernel = shape->kernel;
    net->fc_weight = tensor_at(&shape->net.host, shape->fc_weight);
    net->fc_bias = tensor_at(&shape->net.host, shape->fc_bias);
    net->host_params = (uint32_t)shape->net.host.params;
    net->host_storage = (uint32_t)shape->net.host.storage;
    net->seed_storage = (uint32_t)shape->net.seed_storage;
    net->gate_storage = (uint32_t)shape->net.gate_storage;
    const struct plan plan = {net, shape, form};
    lay_out(&plan);
    const size_t env = (size_t)net->batch * (net->frame * sizeof(float) + net->figure * sizeof(double)) +
                       (net->partial + net->grad + net->packed_floats) * sizeof(float);
    const size_t fit = net_frame_bytes() / env;
    net->group = fit < 1 ? 1 : fit < (size_t)device->setup.envs ? (int)fit : device->setup.envs;
}

struct framed_net *framed_create(struct runtime *rt, const struct net_setup *setup, const struct framed_form &form,
                                 const struct framed_passes *passes)
{
    struct framed_net *device = new framed_net();
    struct net_view *net = &device->view;
    device->passes = passes;
    net_device_begin(device, rt, setup);
    view_init(device, form);
    allocate(device, form);
    const unsigned frames = (unsigned)(net->group * net->batch);
    const unsigned most = (unsigned)(runtime_processors(rt) * BLOCKS_PER_PROCESSOR);
    device->eval_blocks = frames < most ? frames : most;
    device->net = runtime_alloc<struct net_view>(rt, 1);
    runtime_copy_to(rt, device->net, net, sizeof *net);
    runtime_wait(rt);
    if (rt->failed) {
        delete device;
        return nullptr;
    }
    return device;
}

void framed_free(struct net_device *given)
{
    delete framed_net_of(given); /* device memory is released with the runtime */
}
