/* What the seeds of net_bf16 need beside their kernels: memory, the lists of the living, the update. */
#include "cuda/runtime.cuh"

#include "morph/fast_seed.cuh"
#include "nn/tile_conv.cuh"

/* ---- creation ---------------------------------------------------------------------------------------------------- */

static bool form_known(int channels, int size, int row)
{
#define KNOWN(C, SIZE, ROW) || (channels == C && size == SIZE && row == ROW)
    return false SEED_FORMS(KNOWN);
#undef KNOWN
}

bool seed_fits(const struct net_shape *shape)
{
    if (shape->blocks != 3 || shape->block[0].cout != 8 ||
        shape->block[0].height != 32) /* what fast_eval.cu is made for */
        return false;
    for (int j = 0; j < shape->slots; j++) {
        const struct slot_shape *s = &shape->slot[j];
        if (!shape->block[s->column].pool || s->height != s->width || !form_known(s->channels, s->height, s->row))
            return false;
    }
    return true;
}

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
    /* Fragments lie in the order of the tensors: all those of the way forward, then all those of the way back. */
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

static struct seed_slot slot_create(struct net_device *net, int j, uint32_t first_block, uint32_t fragments)
{
    struct runtime *rt = net->context->runtime;
    const struct slot_shape *s = &net->context->host->shape.slot[j];
    const size_t envs = (size_t)net->host.envs;
    struct seed_slot slot = {};
    slot.block = s->column;
    slot.row = s->row;
    slot.channels = s->channels;
    slot.size = s->height;
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
        list->entry = runtime_alloc<struct seed_entry>(rt, envs);
    }
    return slot;
}

static void create_between(struct net_device *net, struct seed_set *set)
{
    for (int i = 0; i < net->host.blocks; i++) {
        const struct fast_block &block = net->host.block[i];
        if (block.slot[0] < 0 || block.slot[1] < 0)
            continue;
        const size_t cells = (size_t)net->host.envs * (size_t)net->host.batch *
                             (size_t)(block.cout / 8 * (block.size / 2) * (block.size / 2));
        set->between[i] = runtime_alloc<uint4>(net->context->runtime, cells);
        set->between_grad[i] = runtime_alloc<uint4>(net->context->runtime, cells);
    }
}

struct fast_seeds *seed_create(struct net_device *net)
{
    struct context *context = net->context;
    const struct net_shape *shape = &context->host->shape;
    struct fast_seeds *seeds = new struct fast_seeds();
    struct seed_set *set = &seeds->set;
    set->seed = context->view.seed;
    set->seed_momentum = context->view.seed_momentum;
    set->gate = context->view.gate;
    set->gate_momentum = context->view.gate_momentum;
    set->seed_size = (uint32_t)shape->seed_storage;
    set->gate_size = (uint32_t)shape->gate_storage;
    set->rates = context->rates.seed;
    set->max_norm = (float)context->rates.max_grad_norm;
    set->grads = context->grads;
    set->host_params = (uint32_t)shape->host.params;
    for (int j = 0; j < shape->slots; j++) {
        seeds->slot[j] =
            slot_create(net, j, j ? seeds->slot[j - 1].first_block + seeds->slot[j - 1].blocks : 0, set->fragment_size);
        set->fragment_size += fragment_words(shape->slot[j].channels);
    }
    set->fragments = runtime_alloc<uint32_t>(context->runtime, (size_t)net->host.envs * set->fragment_size + 1);
    create_between(net, set);

    enum { KINDS = BLUEPRINT_COUNT + 1 };
    std::vector<struct seed_tensors> table((size_t)(shape->slots * KINDS));
    for (int j = 0; j < shape->slots; j++) {
        struct param_layout layout;
        for (int b = 0; b < BLUEPRINT_COUNT; b++) {
            blueprint_layout(b, shape->slot[j].channels, &layout);
            table[(size_t)(j * KINDS + b)] = tensors_of(&layout);
        }
        gate_layout(shape->slot[j].channels, &layout);
        table[(size_t)(j * KINDS + BLUEPRINT_COUNT)] = tensors_of(&layout);
    }
    struct seed_tensors *tensors = runtime_alloc<struct seed_tensors>(context->runtime, table.size() + 1);
    if (tensors && !table.empty())
        runtime_copy_to(context->runtime, tensors, table.data(), table.size() * sizeof table[0]);
    struct seed_slot *slots = runtime_alloc<struct seed_slot>(context->runtime, SHAPE_SLOTS);
    if (slots)
        runtime_copy_to(context->runtime, slots, seeds->slot, sizeof seeds->slot);
    runtime_wait(context->runtime); /* the table goes out of scope */
    set->tensors = tensors;
    set->slots = slots;
    if (context->runtime->failed) {
        delete seeds;
        return nullptr;
    }
    return seeds;
}

void seed_free(struct fast_seeds *seeds)
{
    delete seeds; /* device memory goes with the runtime */
}

/* ---- the lists of the living ------------------------------------------------------------------------------------- */

/* What enters the slot: from raw (r0), or from the pooled output (r1), or what the blend before left. */
DEVICE struct seed_input input_of(const struct fast_host &host, const struct seed_set &set,
                                  const struct seed_slot &slot, int env)
{
    const struct fast_block &block = host.block[slot.block];
    struct seed_input input = {slot.row == 0 ? block.raw : block.pooled, true};
    if (slot.row == 1 && fast_mode(host, env, block.slot[0]) == SLOT_BLEND) {
        input.from = set.between[slot.block];
        input.affine = false;
    }
    return input;
}

/* Where r0 leaves its output, or its gradient comes from, depends on what r1 does, and the other way round. */
DEVICE void entry_ways(struct seed_entry *entry, const struct fast_host &host, const struct seed_set &set,
                       const struct seed_slot &slot)
{
    const struct fast_block &block = host.block[slot.block];
    const int before = slot.row == 1 ? fast_mode(host, entry->env, block.slot[0]) : (int)SLOT_SKIP,
              after = slot.row == 0 ? fast_mode(host, entry->env, block.slot[1]) : (int)SLOT_SKIP;
    entry->input = input_of(host, set, slot, entry->env);
    entry->out = after == SLOT_SKIP ? block.act : set.between[slot.block];
    entry->also = after == SLOT_STE ? block.act : nullptr;
    entry->grad = after == SLOT_BLEND ? set.between_grad[slot.block] : block.grad_out;
    if (slot.row == 0) {
        entry->masked = (uint32_t *)block.grad_full;
        entry->plain = nullptr;
    } else {
        entry->masked = before == SLOT_BLEND ? nullptr : (uint32_t *)block.grad;
        entry->plain = before == SLOT_SKIP ? nullptr : (uint32_t *)set.between_grad[slot.block];
    }
}

DEVICE struct seed_entry entry_of(const struct fast_host &host, const struct seed_set &set,
                                  const struct seed_slot &slot, int env, const struct slot_exec &exec)
{
    struct seed_entry entry = {};
    entry.env = env;
    entry.blend = blend_of(exec);
    if (exec.mode == SLOT_STE) /* of which nothing is in the output */
        entry.blend.blueprint = exec.blueprint;
    entry_ways(&entry, host, set, slot);
    entry.record = slot.part + (size_t)env * (size_t)host.block[slot.block].jobs * slot.record;
    entry.w = set.seed + (size_t)env * set.seed_size + slot.seed;
    entry.gate = set.gate + (size_t)env * set.gate_size + slot.gate;
    entry.packed = set.fragments + (size_t)env * set.fragment_size + slot.fragments;
    return entry;
}

/* The entries of lanes that have one, in order, behind those that are there. The warp. */
DEVICE void list_append(const struct seed_list &list, uint32_t *filled, bool mine, const struct seed_entry &entry)
{
    const unsigned all = __ballot_sync(~0u, mine), below = (1u << threadIdx.x % 32) - 1u;
    if (mine)
        list.entry[*filled + __popc(all & below)] = entry;
    *filled += (uint32_t)__popc(all);
}

/* Which blueprint takes the k-th longest. */
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

/* A warp per slot. What takes long comes first, so that no processor is left alone with it; then envs in order. */
KERNEL void plan_seeds(const __grid_constant__ struct fast_host host, const __grid_constant__ struct seed_set set)
{
    static_assert(BLUEPRINT_COUNT == 8, "longest_first knows them all");
    device_wait();
    const int lane = (int)threadIdx.x;
    const struct seed_slot &slot = set.slots[blockIdx.x];
    uint32_t leaves = 0, blends = 0, backs = 0;
    for (int k = 0; k < BLUEPRINT_COUNT; k++)
        for (int e = 0; e < host.envs; e += 32) {
            const bool there = e + lane < host.envs;
            const int env = there ? e + lane : 0;
            const struct slot_exec exec = host.exec[(size_t)env * (size_t)host.slots + blockIdx.x];
            const bool turn = there && exec.mode != SLOT_SKIP && exec.blueprint == longest_first(k);
            if (!__any_sync(~0u, turn))
                continue;
            const struct seed_entry entry = entry_of(host, set, slot, env, exec);
            const bool blend = turn && exec.mode == SLOT_BLEND,
                       leaf = turn && !blend && exec.train && exec.blueprint != BLUEPRINT_NOOP;
            list_append(slot.leaf, &leaves, leaf, entry);
            list_append(slot.blend, &blends, blend, entry);
            list_append(slot.back, &backs, blend, entry);
        }
    if (lane == 0) {
        slot.leaf.head[0] = leaves;
        slot.blend.head[0] = blends;
        slot.back.head[0] = backs;
    }
}

void seed_plan(struct net_device *net)
{
    if (net->host.slots == 0)
        return;
    struct launch shape = {dim3((unsigned)net->host.slots), dim3(32), 0, true};
    runtime_launch(net->context->runtime, plan_seeds, shape, net->host, net->seeds->set);
    seed_pack(net);
}

/* ---- update ------------------------------------------------------------------------------------------------------ */

/* What a block of threads works on: SEED_BLOCK parameters of a slot's seed or gate net. */
struct update_part {
    const struct seed_slot *slot;
    struct slot_exec exec;
    bool alive, gate;
    uint32_t first, end;    /* in the seed's or gate net's own storage */
    uint32_t number, count; /* of this block among those of the slot that count */
    const struct seed_tensors *tensors;
};

DEVICE struct update_part update_part_of(const struct fast_host &host, const struct seed_set &set, int env,
                                         uint32_t block)
{
    struct update_part part = {};
    int j = 0;
    while (j + 1 < host.slots && block >= set.slots[j + 1].first_block)
        j++;
    const struct seed_slot *slot = part.slot = &set.slots[j];
    const struct slot_exec exec = part.exec = host.exec[(size_t)env * (size_t)host.slots + (size_t)j];
    const struct seed_tensors *table = set.tensors + (size_t)j * (BLUEPRINT_COUNT + 1);
    if (exec.mode == SLOT_SKIP || exec.blueprint >= BLUEPRINT_COUNT)
        return part;
    block -= slot->first_block;
    const uint32_t alive = (table[exec.blueprint].storage + SEED_BLOCK - 1) / SEED_BLOCK;
    part.gate = block >= slot->seed_blocks;
    part.count = alive + (exec.gate ? slot->blocks - slot->seed_blocks : 0);
    part.number = part.gate ? alive + block - slot->seed_blocks : block;
    part.tensors = &table[part.gate ? (int)BLUEPRINT_COUNT : (int)exec.blueprint];
    part.first = (block - (part.gate ? slot->seed_blocks : 0)) * SEED_BLOCK;
    part.end = part.first + SEED_BLOCK < part.tensors->storage ? part.first + SEED_BLOCK : part.tensors->storage;
    part.alive = part.first < part.tensors->storage && (!part.gate || exec.gate);
    return part;
}

/* A parameter into the fragments, if it is the weight of a convolution. */
DEVICE void pack_weight(const struct seed_set &set, const struct update_part &part, int env, uint32_t at, float value)
{
    const struct seed_tensors &tensors = *part.tensors;
    uint16_t *to = (uint16_t *)(set.fragments + (size_t)env * set.fragment_size + part.slot->fragments);
    for (int i = 0; i < tensors.count; i++) {
        const struct seed_weight &weight = tensors.weight[i];
        if (!weight.taps || at < tensors.offset[i] || at - tensors.offset[i] >= tensors.size[i])
            continue;
        const int k = (int)(at - tensors.offset[i]), in = k % weight.in, tap = k / weight.in % weight.taps,
                  out = k / weight.in / weight.taps;
        const uint16_t half = (uint16_t)pack_bf16(value, 0);
        to[weight.forward + fragment_half(weight.taps, weight.in, weight.out, out, tap, in)] = half;
        to[weight.back + fragment_half(weight.taps, weight.out, weight.in, in, weight.taps - 1 - tap, out)] = half;
    }
}

KERNEL __launch_bounds__(TILE_THREADS) void pack_weights(const __grid_constant__ struct fast_host host,
                                                         const __grid_constant__ struct seed_set set)
{
    device_wait();
    const int env = (int)blockIdx.y;
    const struct update_part part = update_part_of(host, set, env, blockIdx.x);
    if (!part.alive || part.gate)
        return;
    const float *w = set.seed + (size_t)env * set.seed_size + part.slot->seed;
    for (uint32_t at = part.first + threadIdx.x; at < part.end; at += TILE_THREADS)
        pack_weight(set, part, env, at, w[at]);
}

static struct launch update_shape(const struct net_device *net)
{
    const struct seed_slot &end = net->seeds->slot[net->host.slots - 1];
    struct launch shape = {dim3(end.first_block + end.blocks, (unsigned)net->host.envs), dim3(TILE_THREADS), 0, true};
    return shape;
}

void seed_pack(struct net_device *net)
{
    if (net->host.slots)
        runtime_launch(net->context->runtime, pack_weights, update_shape(net), net->host, net->seeds->set);
}

DEVICE bool in_tensor(const struct seed_tensors &tensors, uint32_t at)
{
    bool in = false;
    for (int i = 0; i < tensors.count; i++)
        in |= at >= tensors.offset[i] && at - tensors.offset[i] < tensors.size[i];
    return in;
}

/* Sum over the block's threads of a value of each, in a fixed order. All threads; sums: one a warp. */
DEVICE double block_sum(double value, double *sums)
{
    for (int mask = 16; mask > 0; mask /= 2)
        value += __shfl_xor_sync(~0u, value, mask);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0;
    for (int k = 0; k < TILE_THREADS / 32; k++)
        value += sums[k];
    return value;
}

/*
 * The jobs' gradients added up in order, and the sum of their squares. Four threads, far apart, share the jobs of four
 * parameters.
 */
KERNEL __launch_bounds__(TILE_THREADS) void sum_gradients(const __grid_constant__ struct fast_host host,
                                                          const __grid_constant__ struct seed_set set)
{
    enum { SHARES = 4, EACH = TILE_THREADS / SHARES };
    static_assert(EACH * 4 == SEED_BLOCK, "a thread has four parameters");
    __shared__ double sums[TILE_THREADS / 32];
    __shared__ float4 parts[SHARES][EACH];
    device_wait();
    const int env = (int)blockIdx.y, share = (int)threadIdx.x / EACH, rank = (int)threadIdx.x % EACH;
    const struct update_part part = update_part_of(host, set, env, blockIdx.x);
    if (!part.alive || !part.exec.train)
        return;
    const struct seed_slot &slot = *part.slot;
    const uint32_t at = part.first + (uint32_t)rank * 4, base = part.gate ? slot.seed_storage : 0;
    const bool mine = at < part.end; /* storage comes in multiples of 16 floats */
    const int jobs = host.block[slot.block].jobs, each = (jobs + SHARES - 1) / SHARES,
              end = (share + 1) * each < jobs ? (share + 1) * each : jobs;
    const float *from = slot.part + (size_t)env * (size_t)jobs * slot.record + base + at;
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 16
    for (int c = share * each; mine && c < end; c++) {
        const float4 v = __ldcg((const float4 *)(from + (size_t)c * slot.record));
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    parts[share][rank] = sum;
    __syncthreads();
    double square = 0;
    if (share == 0 && mine) {
        for (int k = 1; k < SHARES; k++) {
            const float4 v = parts[k][rank];
            sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
        float *value = &sum.x;
        for (uint32_t k = 0; k < 4; k++) { /* whatever another blueprint left between the tensors must not count */
            value[k] = in_tensor(*part.tensors, at + k) ? value[k] : 0;
            square += (double)value[k] * (double)value[k];
        }
        *(float4 *)(slot.grad + (size_t)env * slot.record + base + at) = sum;
    }
    square = block_sum(square, sums);
    if (threadIdx.x == 0)
        slot.squares[(size_t)env * slot.blocks + part.number] = square;
}

KERNEL __launch_bounds__(TILE_THREADS) void step_parameters(const __grid_constant__ struct fast_host host,
                                                            const __grid_constant__ struct seed_set set)
{
    __shared__ double sums[TILE_THREADS / 32];
    device_wait();
    const int env = (int)blockIdx.y;
    const struct update_part part = update_part_of(host, set, env, blockIdx.x);
    const uint32_t at = part.first + threadIdx.x;
    if (!part.alive || !part.exec.train)
        return;
    const struct seed_slot &slot = *part.slot;
    double square = 0;
    for (uint32_t b = threadIdx.x; b < part.count; b += TILE_THREADS)
        square += __ldcg(slot.squares + (size_t)env * slot.blocks + b);
    square = block_sum(square, sums);
    if (at >= part.end)
        return;
    const double norm = sqrt(square), ratio = (double)set.max_norm / (norm + 1e-6);
    const float factor = (float)(ratio < 1 ? ratio : norm != norm ? norm : 1);
    const float g = slot.grad[(size_t)env * slot.record + (part.gate ? slot.seed_storage : 0) + at];
    float *w = (part.gate ? set.gate + (size_t)env * set.gate_size + slot.gate
                          : set.seed + (size_t)env * set.seed_size + slot.seed) +
               at;
    float *m = (part.gate ? set.gate_momentum + (size_t)env * set.gate_size + slot.gate
                          : set.seed_momentum + (size_t)env * set.seed_size + slot.seed) +
               at;
    *m = set.rates.momentum * *m + (factor * g + set.rates.weight_decay * *w);
    *w -= set.rates.lr * *m;
    if (!part.gate)
        pack_weight(set, part, env, at, *w);
}

/* What kasmina 10.2 measures of a slot: net_measure. A block of threads per slot and env. */
struct measure_counts {
    double square;
    int tensors, vanishing, exploding;
    bool finite;
};

DEVICE void measure_tensors(struct measure_counts *counts, const struct seed_tensors &tensors, const float *grad,
                            double *sums)
{
    for (int i = 0; i < tensors.count; i++) {
        double square = 0;
        for (uint32_t k = threadIdx.x; k < tensors.size[i]; k += TILE_THREADS)
            square += (double)grad[tensors.offset[i] + k] * (double)grad[tensors.offset[i] + k];
        square = block_sum(square, sums);
        const double norm = sqrt(square);
        const bool finite = norm - norm == 0;
        counts->tensors++;
        counts->vanishing += norm < 1e-7;
        counts->exploding += !finite || norm > 10.0;
        counts->finite &= finite;
        counts->square += norm * norm;
    }
}

KERNEL __launch_bounds__(TILE_THREADS) void measure_gradients(const __grid_constant__ struct fast_host host,
                                                              const __grid_constant__ struct seed_set set)
{
    __shared__ double sums[TILE_THREADS / 32];
    device_wait();
    const int j = (int)blockIdx.x, env = (int)blockIdx.y;
    const struct seed_slot &slot = set.slots[j];
    const size_t row = (size_t)env * (size_t)host.slots + (size_t)j;
    const struct slot_exec exec = host.exec[row];
    struct slot_grads grads = {};
    grads.finite = true;
    if (exec.mode != SLOT_SKIP) {
        grads.measured = true;
        grads.health = 1;
    }
    if (exec.mode != SLOT_SKIP && exec.train && exec.blueprint < BLUEPRINT_COUNT) {
        const struct seed_tensors *table = set.tensors + (size_t)j * (BLUEPRINT_COUNT + 1);
        const float *grad = slot.grad + (size_t)env * slot.record;
        struct measure_counts counts = {0, 0, 0, 0, true};
        double params = table[exec.blueprint].params;
        measure_tensors(&counts, table[exec.blueprint], grad, sums);
        if (exec.gate) {
            params += table[BLUEPRINT_COUNT].params;
            measure_tensors(&counts, table[BLUEPRINT_COUNT], grad + slot.seed_storage, sums);
        }
        const double norm = sqrt(counts.square), whole = host.host_norm[env],
                     tensors = counts.tensors ? counts.tensors : 1;
        grads.norm = norm;
        grads.finite = counts.finite;
        grads.vanishing = counts.vanishing > 0;
        grads.exploding = counts.exploding > 0;
        grads.health = 1 - 0.5 * counts.vanishing / tensors - 0.8 * counts.exploding / tensors;
        if (!grads.finite || grads.health < 0)
            grads.health = 0;
        if (norm >= 1e-8 && whole >= 1e-8)
            grads.ratio = norm / sqrt(params) / (whole / sqrt((double)set.host_params) + 1e-8);
    }
    if (threadIdx.x == 0)
        set.grads[row] = grads;
}

void seed_update(struct net_device *net)
{
    struct runtime *rt = net->context->runtime;
    if (net->host.slots == 0)
        return;
    runtime_launch(rt, sum_gradients, update_shape(net), net->host, net->seeds->set);
    runtime_launch(rt, step_parameters, update_shape(net), net->host, net->seeds->set);
}

void seed_measure(struct net_device *net)
{
    struct launch shape = {dim3((unsigned)net->host.slots, (unsigned)net->host.envs), dim3(TILE_THREADS), 0, true};
    if (net->host.slots)
        runtime_launch(net->context->runtime, measure_gradients, shape, net->host, net->seeds->set);
}
