/*
 * cnn_bf16: hosts and seeds of all envs on the tensor cores. This file has its setup and the order of a training step;
 * the kernels are in forward, head, backward, wide and update, those of the seeds in seed_*, validation in eval.
 */
#include "cuda/runtime.cuh"

#include "cnn/bf16/conv.cuh"
#include "cnn/bf16/eval.cuh"
#include "cnn/bf16/seed.cuh"
#include "morph/plan.cuh"

#include <cstdlib>

/* ---- the host ---------------------------------------------------------------------------------------------------- */

/* What host, seeds and validation all support: 8, 16 and 32 channels, images of 32 x 32, blocks that pool; on a card
 * with the shared memory that they need. */
bool cnn_bf16_fits(const struct net_shape *host, int batch)
{
    const struct cnn_shape *shape = cnn_shape_of(host);
    if (shape->kernel != 3 || shape->blocks != 3 || shape->classes != SHAPE_CLASSES || batch < 1 ||
        runtime_shared_most() < (size_t)FAST_SHARED)
        return false;
    for (int i = 0; i < shape->blocks; i++) {
        const struct block_shape *b = &shape->block[i];
        if (!b->pool || b->cout != 8 << i || b->height != 32 >> i || b->width != b->height)
            return false;
    }
    return true;
}

static uint32_t offset_of(const struct cnn_shape *shape, int tensor)
{
    return (uint32_t)shape->net.host.tensor[tensor].offset;
}

static bool has_slots(const struct fast_block &block)
{
    return block.slot[0] >= 0 || block.slot[1] >= 0;
}

static void create_block(struct bf16_net *net, int i, uint32_t *fragments)
{
    struct runtime *rt = net->runtime;
    struct fast_host *host = &net->host;
    const struct cnn_shape *shape = cnn_shape_of(net->setup.host_shape);
    const struct block_shape *from = &shape->block[i];
    struct fast_block *block = &host->block[i];
    const size_t images = (size_t)host->envs * (size_t)host->batch, chunks = (size_t)(host->envs * host->chunks);
    const size_t full = images * (size_t)(from->cout / 8) * (size_t)(from->height * from->width), quarter = full / 4;
    block->cin = from->cin;
    block->cout = from->cout;
    block->size = from->height;
    block_jobs(block, host->batch);
    block->share = 1.0 / ((double)host->batch * from->height * from->width);
    for (int row = 0; row < SLOT_ROWS; row++)
        block->slot[row] = from->slot[row];
    block->weight = offset_of(shape, from->weight);
    block->gamma = offset_of(shape, from->gamma);
    block->beta = offset_of(shape, from->beta);
    block->mean = (uint32_t)from->mean;
    block->var = (uint32_t)from->var;
    block->forward_frag = *fragments;
    *fragments += forward_words(block->cin, block->cout);
    block->back_frag = *fragments;
    *fragments += back_words(block->cin, block->cout);
    block->part_size = part_floats(block->cin, block->cout);
    for (auto &kept : net->kept)
        kept[i] = {block->slot[0] >= 0 ? runtime_alloc<uint4>(rt, full) : nullptr, runtime_alloc<uint4>(rt, quarter),
                   has_slots(*block) ? runtime_alloc<uint4>(rt, quarter) : nullptr,
                   runtime_alloc<float>(rt, (size_t)host->envs * 2 * (size_t)block->cout)};
    block->grad = runtime_alloc<uint4>(rt, quarter);
    block->sums = runtime_alloc<float>(rt, chunks * 2 * (size_t)block->cout);
    block->back = runtime_alloc<float>(rt, (size_t)(host->envs * block->jobs) * 2 * (size_t)block->cout);
    block->part = runtime_alloc<float>(rt, chunks * block->part_size);
    if (has_slots(*block))
        block->act = runtime_alloc<uint4>(rt, quarter);
    if (block->slot[0] >= 0)
        block->grad_full = runtime_alloc<uint4>(rt, full);
}

bool fast_host_create(struct bf16_net *net)
{
    struct runtime *rt = net->runtime;
    const struct net_setup *setup = &net->setup;
    const struct cnn_shape *shape = cnn_shape_of(setup->host_shape);
    struct fast_host *host = &net->host;
    const size_t envs = (size_t)setup->envs;
    uint32_t fragments = 0;
    *host = {};
    host->envs = setup->envs;
    host->batch = (int)setup->source.batch;
    host->blocks = shape->blocks;
    host->slots = shape->net.slots;
    host->features = shape->features;
    host->chunk_images = fast_chunk_images(host->batch);
    host->chunks = (host->batch + host->chunk_images - 1) / host->chunk_images;
    host->exec = setup->exec;
    host->params = setup->host;
    host->momentum = setup->host_momentum;
    host->stats = setup->stats;
    host->params_size = (uint32_t)shape->net.host.storage;
    host->stats_size = (uint32_t)shape->net.stats;
    host->train_loss = setup->train_loss;
    host->train_accuracy = setup->train_accuracy;
    host->fc_weight = offset_of(shape, shape->fc_weight);
    host->fc_bias = offset_of(shape, shape->fc_bias);
    for (int i = 0; i < host->blocks; i++)
        create_block(net, i, &fragments);
    fast_use_buffers(net, 0);
    host->fragment_size = fragments;
    host->head_size = fast_head_floats(host->features);
    host->square_parts = fast_square_parts(host->params_size);
    for (int i = 0; i < 2; i++) {
        size_t images = envs * (size_t)host->batch;
        size_t pixels = (size_t)(shape->block[0].height * shape->block[0].width);
        net->gathered[i] = {runtime_alloc<uint2>(rt, images * pixels), runtime_alloc<uint8_t>(rt, images)};
    }
    host->pixels = net->gathered[0].pixels;
    host->labels = net->gathered[0].labels;
    host->fragments = runtime_alloc<uint32_t>(rt, envs * fragments);
    host->head_part = runtime_alloc<float>(rt, envs * (size_t)host->chunks * host->head_size);
    host->grad = runtime_alloc<float>(rt, envs * host->params_size);
    host->gamma_before = runtime_alloc<float>(rt, envs * 2 * host->params_size);
    host->squares = runtime_alloc<double>(rt, envs * host->square_parts);
    host->host_norm = runtime_alloc<double>(rt, envs);
    host->loss = runtime_alloc<double>(rt, envs);
    host->correct = runtime_alloc<double>(rt, envs);
    fast_forward_prepare(rt);
    fast_backward_prepare(rt);
    fast_head_prepare(rt);
    return !rt->failed;
}

/* Side streams, beside the main one. */
enum { SIDE_IMAGES, SIDE_BLENDS, SIDE_LEAVES };
static_assert((int)SIDE_LEAVES + 2 * 3 <= (int)RUNTIME_SIDES, "for the leaves of either parity and every block");

/* The side stream of a block's leaf jobs; that of the first block ends with the update of all of them. */
static int leaves_side(const struct bf16_net *net, int parity, int block)
{
    return SIDE_LEAVES + parity * net->host.blocks + block;
}

void fast_use_buffers(struct bf16_net *net, int parity)
{
    net->parity = parity;
    for (int i = 0; i < net->host.blocks; i++) {
        net->host.block[i].raw = net->kept[parity][i].raw;
        net->host.block[i].pooled = net->kept[parity][i].pooled;
        net->host.block[i].grad_out = net->kept[parity][i].grad_out;
        net->host.block[i].norm = net->kept[parity][i].norm;
    }
}

/* Images do not depend on what was learned: those of the next batch are gathered while this one is processed. */
void fast_images(struct bf16_net *net, uint32_t batch)
{
    struct runtime *rt = net->runtime;
    const struct gather_source *source = &net->setup.source;
    const int envs = net->setup.envs;
    const struct gather_bf16 now = net->gathered[batch % 2];
    net->host.pixels = now.pixels;
    net->host.labels = now.labels;
    fast_use_buffers(net, (int)(batch % 2));
    if (batch == 0)
        gather_train_bf16(rt, source, envs, now, 0);
    else
        runtime_meet(rt, SIDE_IMAGES);
    if (batch + 1 < source->batches) {
        runtime_part(rt, SIDE_IMAGES);
        gather_train_bf16(rt, source, envs, net->gathered[(batch + 1) % 2], batch + 1);
        runtime_rejoin(rt);
    }
}

/*
 * The leaf jobs of a block, on which the host does not depend; after those of the first block, which come last, their
 * update. They have until the batch after the next overwrites what they read: until the next one's update.
 */
static void fast_leaves(struct bf16_net *net, int i)
{
    struct runtime *rt = net->runtime;
    runtime_part(rt, leaves_side(net, net->parity, i));
    runtime_follow(rt, leaves_side(net, 1 - net->parity, 0));
    if (has_slots(net->host.block[i]))
        seed_leaf(net, i);
    if (i == 0) {
        for (int k = 1; k < net->host.blocks; k++)
            runtime_meet(rt, leaves_side(net, net->parity, k));
        seed_update(net, SLOT_STE);
    }
    runtime_rejoin(rt);
}

/* The update of the blended seeds, once the last of them, in the first block, has passed its gradient on. */
static void fast_blends_update(struct bf16_net *net)
{
    runtime_part(net->runtime, SIDE_BLENDS);
    seed_update(net, SLOT_BLEND);
    runtime_rejoin(net->runtime);
}

void fast_learn(struct bf16_net *net, uint32_t batch)
{
    struct runtime *rt = net->runtime;
    struct fast_host &host = net->host;
    for (int i = 0; i < host.blocks; i++) {
        fast_forward(net, i);
        if (has_slots(host.block[i]))
            seed_blend_forward(net, i);
    }
    fast_head(net);
    for (int i = host.blocks - 1; i >= 0; i--) {
        if (has_slots(host.block[i]))
            seed_blend_backward(net, i);
        if (i == 0)
            fast_blends_update(net);
        fast_leaves(net, i);
        fast_backward(net, i);
    }
    fast_gradients(net, batch);
    runtime_meet(rt, SIDE_BLENDS);
    runtime_meet(rt, leaves_side(net, 1 - net->parity, 0)); /* of the batch before */
    fast_update(net);
    if (batch + 1 < net->setup.source.batches)
        return;
    runtime_meet(rt, leaves_side(net, net->parity, 0));
    seed_measure(net);
}

/* ---- net_device.cuh ---------------------------------------------------------------------------------------------- */

static void fast_free(struct net_device *device)
{
    struct bf16_net *net = bf16_net_of(device);
    if (!net)
        return;
    seed_free(net->seeds);
    eval_free(net->eval);
    free(net);
}

static struct net_device *fast_create(struct runtime *rt, const struct net_setup *setup)
{
    if (!cnn_bf16_fits(setup->host_shape, (int)setup->source.batch))
        return NULL;
    struct bf16_net *net = static_cast<struct bf16_net *>(calloc(1, sizeof *net));
    if (!net)
        return NULL;
    net_device_begin(net, rt, setup);
    if (!fast_host_create(net) || !(net->seeds = seed_create(net)) || !(net->eval = eval_create(net))) {
        fast_free(net);
        return NULL;
    }
    return net;
}

static void fast_train(struct net_device *device)
{
    struct bf16_net *net = bf16_net_of(device);
    net_plan_train(net);
    seed_plan(net);
    fast_pack(net);
    for (uint32_t batch = 0; batch < net->setup.source.batches; batch++) {
        fast_images(net, batch);
        fast_learn(net, batch);
    }
}

const struct net_device_kernels cnn_bf16 = {fast_create, fast_free, fast_train, eval_validate, eval_measure, eval_test};
