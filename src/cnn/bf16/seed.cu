/* The setup of cnn_bf16's seeds: memory, the lists of live seeds, and which kernels a slot has. The kernels are in the
 * other seed files. */
#include "cuda/runtime.cuh"

#include "cnn/bf16/seed.cuh"
#include "nn/tile_conv.cuh"

/* ---- creation ---------------------------------------------------------------------------------------------------- */

static struct seed_tensors tensors_of(const struct param_layout *layout)
{
    struct seed_tensors tensors = {};
    tensors.count = layout->count;
    tensors.storage = (uint32_t)layout->storage;
    tensors.params = (uint32_t)layout->params;
    for (int i = 0; i < layout->count && i < SEED_TENSORS; i++) {
        tensors.offset[i] = (uint32_t)layout->tensor[i].offset;
        tensors.size[i] = (uint32_t)layout->tensor[i].size;
    }
    /* Fragments are stored in the order of the tensors: all those of the forward pass, then all those of the backward
     * pass. */
    for (int back = 0; back < 2; back++)
        for (int i = 0; i < tensors.count; i++) {
            const struct tensor_layout &t = layout->tensor[i];
            if (t.dims != 4)
                continue;
            struct seed_weight *weight = &tensors.weight[i];
            weight->taps = t.shape[1] * t.shape[2];
            weight->out = t.shape[0];
            weight->in = t.shape[3];
            *(back ? &weight->back : &weight->forward) = tensors.halves;
            tensors.halves += tensors.size[i];
        }
    return tensors;
}

static uint32_t fragment_words(int channels)
{
    uint32_t most = 0;
    for (int b = 0; b < BLUEPRINT_COUNT; b++) {
        struct param_layout layout;
        blueprint_layout(b, channels, &layout);
        const uint32_t words = tensors_of(&layout).halves / 2;
        most = words > most ? words : most;
    }
    return most;
}

static struct seed_slot slot_create(struct bf16_net *net, int j, uint32_t first_block, uint32_t fragments)
{
    struct runtime *rt = net->runtime;
    const struct slot_shape *s = &net->setup.shape.slot[j];
    const struct site_shape *site = &cnn_shape_of(net->setup.host_shape)->site[j];
    const size_t envs = (size_t)net->host.envs;
    struct seed_slot slot = {};
    slot.block = s->column;
    slot.row = s->row;
    slot.channels = site->channels;
    slot.size = site->height;
    slot.seed = (uint32_t)s->seed;
    slot.seed_storage = (uint32_t)s->seed_storage;
    slot.gate = (uint32_t)s->gate;
    slot.gate_storage = (uint32_t)s->gate_storage;
    slot.record = slot.seed_storage + slot.gate_storage;
    slot.fragments = fragments;
    slot.first_block = first_block;
    slot.seed_blocks = (slot.seed_storage + SEED_BLOCK - 1) / SEED_BLOCK;
    slot.blocks = slot.seed_blocks + (slot.gate_storage + SEED_BLOCK - 1) / SEED_BLOCK;
    slot.part = runtime_alloc<float>(rt, envs * (size_t)net->host.block[slot.block].jobs * slot.record);
    slot.grad = runtime_alloc<float>(rt, envs * slot.record);
    slot.squares = runtime_alloc<double>(rt, envs * slot.blocks);
    for (struct seed_list *list : {&slot.leaf, &slot.blend, &slot.back}) {
        list->head = runtime_alloc<uint32_t>(rt, 2);
        list->entry = runtime_alloc<struct seed_entry>(rt, 2 * envs);
    }
    return slot;
}

static void create_between(struct bf16_net *net, struct seed_set *set)
{
    for (int i = 0; i < net->host.blocks; i++) {
        const struct fast_block &block = net->host.block[i];
        if (block.slot[0] < 0 || block.slot[1] < 0)
            continue;
        const size_t cells = (size_t)net->host.envs * (size_t)net->host.batch *
                             (size_t)(block.cout / 8 * (block.size / 2) * (block.size / 2));
        for (int parity = 0; parity < 2; parity++) {
            set->between[parity][i] = runtime_alloc<uint4>(net->runtime, cells);
            set->between_grad[parity][i] = runtime_alloc<uint4>(net->runtime, cells);
        }
    }
}

struct fast_seeds *seed_create(struct bf16_net *net)
{
    struct runtime *rt = net->runtime;
    const struct net_setup *setup = &net->setup;
    const struct cnn_shape *shape = cnn_shape_of(setup->host_shape);
    struct fast_seeds *seeds = new struct fast_seeds();
    struct seed_set *set = &seeds->set;
    set->seed = setup->seed;
    set->seed_momentum = setup->seed_momentum;
    set->gate = setup->gate;
    set->gate_momentum = setup->gate_momentum;
    set->seed_size = (uint32_t)shape->net.seed_storage;
    set->gate_size = (uint32_t)shape->net.gate_storage;
    set->rates = setup->rates.seed;
    set->lr_factor = setup->source.conditions.lr_factor;
    set->max_norm = (float)setup->rates.max_grad_norm;
    set->grads = setup->grads;
    set->host_params = (uint32_t)shape->net.host.params;
    for (int j = 0; j < shape->net.slots; j++) {
        seeds->slot[j] =
            slot_create(net, j, j ? seeds->slot[j - 1].first_block + seeds->slot[j - 1].blocks : 0, set->fragment_size);
        set->fragment_size += fragment_words(shape->site[j].channels);
    }
    set->fragments = runtime_alloc<uint32_t>(rt, (size_t)net->host.envs * set->fragment_size + 1);
    create_between(net, set);

    enum { KINDS = BLUEPRINT_COUNT + 1 };
    std::vector<struct seed_tensors> table((size_t)(shape->net.slots * KINDS));
    for (int j = 0; j < shape->net.slots; j++) {
        struct param_layout layout;
        for (int b = 0; b < BLUEPRINT_COUNT; b++) {
            blueprint_layout(b, shape->site[j].channels, &layout);
            table[(size_t)(j * KINDS + b)] = tensors_of(&layout);
        }
        gate_layout(shape->site[j].channels, &layout);
        table[(size_t)(j * KINDS + BLUEPRINT_COUNT)] = tensors_of(&layout);
    }
    struct seed_tensors *tensors = runtime_alloc<struct seed_tensors>(rt, table.size() + 1);
    if (tensors && !table.empty())
        runtime_copy_to(rt, tensors, table.data(), table.size() * sizeof table[0]);
    struct seed_slot *slots = runtime_alloc<struct seed_slot>(rt, SHAPE_SLOTS);
    if (slots)
        runtime_copy_to(rt, slots, seeds->slot, sizeof seeds->slot);
    runtime_wait(rt); /* the table goes out of scope */
    set->tensors = tensors;
    set->slots = slots;
    if (rt->failed) {
        delete seeds;
        return nullptr;
    }
    return seeds;
}

void seed_free(struct fast_seeds *seeds)
{
    delete seeds; /* device memory is released with the runtime */
}

/* ---- lists of live seeds ----------------------------------------------------------------------------------------- */

/* The slot's input: from raw (r0), from the pooled output (r1), or the output of the blend before it. */
DEVICE struct seed_input input_of(const struct fast_host &host, const struct seed_set &set,
                                  const struct seed_slot &slot, int env, int parity)
{
    const struct fast_block &block = host.block[slot.block];
    struct seed_input input = {slot.row == 0 ? block.raw : block.pooled, true};
    if (slot.row == 1 && fast_mode(host, env, block.slot[0]) == SLOT_BLEND) {
        input.from = set.between[parity][slot.block];
        input.affine = false;
    }
    return input;
}

/* Where r0 writes its output, or reads its gradient, depends on the mode of r1, and vice versa. */
DEVICE void entry_ways(struct seed_entry *entry, const struct fast_host &host, const struct seed_set &set,
                       const struct seed_slot &slot, int parity)
{
    const struct fast_block &block = host.block[slot.block];
    const int before = slot.row == 1 ? fast_mode(host, entry->env, block.slot[0]) : (int)SLOT_SKIP,
              after = slot.row == 0 ? fast_mode(host, entry->env, block.slot[1]) : (int)SLOT_SKIP;
    entry->input = input_of(host, set, slot, entry->env, parity);
    entry->out = after == SLOT_SKIP ? block.act : set.between[parity][slot.block];
    entry->also = after == SLOT_STE ? block.act : nullptr;
    entry->grad = after == SLOT_BLEND ? set.between_grad[parity][slot.block] : block.grad_out;
    if (slot.row == 0) {
        entry->masked = (uint32_t *)block.grad_full;
        entry->plain = nullptr;
    } else {
        entry->masked = before == SLOT_BLEND ? nullptr : (uint32_t *)block.grad;
        entry->plain = before == SLOT_SKIP ? nullptr : (uint32_t *)set.between_grad[parity][slot.block];
    }
}

DEVICE struct seed_entry entry_of(const struct fast_host &host, const struct seed_set &set,
                                  const struct seed_slot &slot, int env, const struct slot_exec &exec, int parity)
{
    struct seed_entry entry = {};
    entry.env = env;
    entry.blend = blend_of(exec);
    if (exec.mode == SLOT_STE) /* whose output is not mixed in */
        entry.blend.blueprint = exec.blueprint;
    entry_ways(&entry, host, set, slot, parity);
    entry.record = slot.part + (size_t)env * (size_t)host.block[slot.block].jobs * slot.record;
    entry.w = set.seed + (size_t)env * set.seed_size + slot.seed;
    entry.gate = set.gate + (size_t)env * set.gate_size + slot.gate;
    entry.packed = set.fragments + (size_t)env * set.fragment_size + slot.fragments;
    return entry;
}

/* Appends the entries of lanes that have one, in order. Called by the whole warp. */
DEVICE void list_append(const struct seed_list &list, uint32_t *filled, bool mine, const struct seed_entry &entry)
{
    const unsigned all = __ballot_sync(~0u, mine), below = (1u << threadIdx.x % 32) - 1u;
    if (mine)
        list.entry[*filled + __popc(all & below)] = entry;
    *filled += (uint32_t)__popc(all);
}

/* The blueprint that takes the k-th longest. */
DEVICE int longest_first(int k)
{
    switch (k) {
    case 0:
        return BLUEPRINT_CONV_HEAVY;
    case 1:
        return BLUEPRINT_DEPTHWISE;
    case 2:
        return BLUEPRINT_BOTTLENECK;
    case 3:
        return BLUEPRINT_CONV_LIGHT;
    case 4:
        return BLUEPRINT_CONV_SMALL;
    case 5:
        return BLUEPRINT_ATTENTION;
    case 6:
        return BLUEPRINT_NORM;
    default:
        return BLUEPRINT_NOOP;
    }
}

/* A warp per slot. The slowest blueprints come first, so that no SM finishes late because of them; then envs in
 * order. */
KERNEL void plan_seeds(const __grid_constant__ struct fast_host host, const __grid_constant__ struct seed_set set,
                       int parity)
{
    static_assert(BLUEPRINT_COUNT == 8, "longest_first knows them all");
    device_wait();
    const int lane = (int)threadIdx.x;
    const struct seed_slot &slot = set.slots[blockIdx.x];
    const uint32_t first = (uint32_t)(parity * host.envs);
    uint32_t leaves = first, blends = first, backs = first;
    for (int k = 0; k < BLUEPRINT_COUNT; k++)
        for (int e = 0; e < host.envs; e += 32) {
            const bool there = e + lane < host.envs;
            const int env = there ? e + lane : 0;
            const struct slot_exec exec = host.exec[(size_t)env * (size_t)host.slots + blockIdx.x];
            const bool mine = there && exec.mode != SLOT_SKIP && exec.blueprint == longest_first(k);
            if (!__any_sync(~0u, mine))
                continue;
            const struct seed_entry entry = entry_of(host, set, slot, env, exec, parity);
            const bool blend = mine && exec.mode == SLOT_BLEND,
                       leaf = mine && !blend && exec.train && exec.blueprint != BLUEPRINT_NOOP;
            list_append(slot.leaf, &leaves, leaf, entry);
            list_append(slot.blend, &blends, blend, entry);
            list_append(slot.back, &backs, blend, entry);
        }
    if (lane == 0) {
        slot.leaf.head[0] = leaves - first;
        slot.blend.head[0] = blends - first;
        slot.back.head[0] = backs - first;
    }
}

void seed_plan(struct bf16_net *net)
{
    if (net->host.slots == 0)
        return;
    struct launch shape = {dim3((unsigned)net->host.slots), dim3(32), 0, true};
    for (int parity = 1; parity >= 0; parity--) {
        fast_use_buffers(net, parity);
        runtime_launch(net->runtime, plan_seeds, shape, net->host, net->seeds->set, parity);
    }
    seed_pack(net);
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

using seed_pass = void (*)(struct bf16_net *net, const struct seed_slot &slot);

static const struct slot_passes {
    int channels, size, row;
    seed_pass forward, backward, leaf;
} passes[] = {
#define PASSES(C, SIZE, ROW)                                                                                           \
    {C, SIZE, ROW, seed_form<C, SIZE, ROW>::forward, seed_form<C, SIZE, ROW>::backward, seed_form<C, SIZE, ROW>::leaf},
    SEED_FORMS(PASSES)
#undef PASSES
};

/* Enqueues a pass of the block's slot in this row, if there is one. */
static void pass_enqueue(struct bf16_net *net, int block, int row, seed_pass slot_passes::*pass)
{
    if (net->host.block[block].slot[row] < 0)
        return;
    const struct seed_slot slot = seed_slot_of(net, block, row);
    for (const struct slot_passes &its : passes)
        if (its.channels == slot.channels && its.size == slot.size && its.row == row)
            (its.*pass)(net, slot);
}

void seed_blend_forward(struct bf16_net *net, int block)
{
    for (int row = 0; row < SLOT_ROWS; row++)
        pass_enqueue(net, block, row, &slot_passes::forward);
}

void seed_blend_backward(struct bf16_net *net, int block)
{
    for (int row = SLOT_ROWS - 1; row >= 0; row--)
        pass_enqueue(net, block, row, &slot_passes::backward);
}

void seed_leaf(struct bf16_net *net, int block)
{
    for (int row = SLOT_ROWS - 1; row >= 0; row--)
        pass_enqueue(net, block, row, &slot_passes::leaf);
}
