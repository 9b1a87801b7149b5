/* The seeds' update: the jobs' gradients are summed, clipped and applied, and weights packed into fragments; also the
 * measurements. */
#include "cuda/runtime.cuh"

#include "cnn/bf16/seed.cuh"
#include "nn/tile_conv.cuh"

enum { UPDATES_RESIDENT = 8 }; /* thread blocks per SM */

/* The work of a thread block: SEED_BLOCK parameters of a slot's seed or gate net. */
struct update_piece {
    const struct seed_slot *slot;
    struct slot_exec exec;
    bool alive, gate;
    uint32_t first, end;    /* in the seed's or gate net's own storage */
    uint32_t number, count; /* of this block among those of the slot that count */
    const struct seed_tensors *tensors;
};

DEVICE struct update_piece update_piece_of(const struct fast_host &host, const struct seed_set &set, int env,
                                           uint32_t block)
{
    struct update_piece part = {};
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

/* Stores a parameter in the fragments, if it is the weight of a convolution. */
DEVICE void pack_weight(const struct seed_set &set, const struct update_piece &part, int env, uint32_t at, float value)
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
    const struct update_piece part = update_piece_of(host, set, env, blockIdx.x);
    if (!part.alive || part.gate)
        return;
    const float *w = set.seed + (size_t)env * set.seed_size + part.slot->seed;
    for (uint32_t at = part.first + threadIdx.x; at < part.end; at += TILE_THREADS)
        pack_weight(set, part, env, at, w[at]);
}

static struct launch update_shape(const struct bf16_net *net)
{
    const struct seed_slot &end = net->seeds->slot[net->host.slots - 1];
    struct launch shape = {dim3(end.first_block + end.blocks, (unsigned)net->host.envs), dim3(TILE_THREADS), 0, true};
    return shape;
}

void seed_pack(struct bf16_net *net)
{
    if (net->host.slots)
        runtime_launch(net->runtime, pack_weights, update_shape(net), net->host, net->seeds->set);
}

DEVICE bool in_tensor(const struct seed_tensors &tensors, uint32_t at)
{
    bool in = false;
    for (int i = 0; i < tensors.count; i++)
        in |= at >= tensors.offset[i] && at - tensors.offset[i] < tensors.size[i];
    return in;
}

/* Sum over the block's threads of a value of each, in a fixed order. All threads; sums: one per warp. */
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

/* The pieces of all seeds that learn in a mode, one after the other; empty slots have none. */
struct update_items {
    const struct fast_host &host;
    const struct seed_set &set;
    const bool leaf;
    const uint32_t *end; /* [slot] among all, in shared memory */

    /* All threads. */
    DEVICE_MEMBER update_items(const struct fast_host &host_, const struct seed_set &set_, enum slot_mode mode)
        : host(host_), set(set_), leaf(mode == SLOT_STE)
    {
        __shared__ uint32_t ends[SHAPE_SLOTS];
        const int j = (int)threadIdx.x;
        if (j < host.slots)
            ends[j] = __ldcg(list(j).head) * set.slots[j].blocks;
        __syncthreads();
        if (j == 0)
            for (int k = 1; k < host.slots; k++)
                ends[k] += ends[k - 1];
        __syncthreads();
        end = ends;
    }
    DEVICE_MEMBER const struct seed_list &list(int j) const
    {
        return leaf ? set.slots[j].leaf : set.slots[j].back;
    }
    /* f(part, env) for the pieces of this thread block, with a barrier after each. */
    template <class Function> DEVICE_MEMBER void each(Function f) const
    {
        for (uint32_t item = blockIdx.x; item < end[host.slots - 1]; item += gridDim.x) {
            int j = 0;
            while (item >= end[j])
                j++;
            const struct seed_slot &slot = set.slots[j];
            const uint32_t number = item - (j ? end[j - 1] : 0);
            const int env = __ldcg(&list(j).entry[number / slot.blocks].env);
            const struct update_piece part = update_piece_of(host, set, env, slot.first_block + number % slot.blocks);
            if (part.alive && part.exec.train) {
                f(part, env);
                __syncthreads();
            }
        }
    }
};

/*
 * The jobs' gradients summed in order, and the sum of their squares. Four threads, far apart, share the jobs of four
 * parameters.
 */
DEVICE void sum_part(const struct fast_host &host, const struct update_piece &part, int env)
{
    enum { SHARES = 4, EACH = TILE_THREADS / SHARES };
    static_assert(EACH * 4 == SEED_BLOCK, "a thread has four parameters");
    __shared__ double sums[TILE_THREADS / 32];
    __shared__ float4 parts[SHARES][EACH];
    const int share = (int)threadIdx.x / EACH, rank = (int)threadIdx.x % EACH;
    const struct seed_slot &slot = *part.slot;
    const uint32_t at = part.first + (uint32_t)rank * 4, base = part.gate ? slot.seed_storage : 0;
    const bool mine = at < part.end; /* storage comes in multiples of 16 floats */
    const int jobs = seed_jobs(host, slot, (enum slot_mode)part.exec.mode), each = (jobs + SHARES - 1) / SHARES,
              end = (share + 1) * each < jobs ? (share + 1) * each : jobs;
    const float *from = slot.part + (size_t)env * (size_t)host.block[slot.block].jobs * slot.record + base + at;
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
        float value[4] = {sum.x, sum.y, sum.z, sum.w};
        for (uint32_t k = 0; k < 4; k++) { /* what another blueprint left between the tensors must not count */
            value[k] = in_tensor(*part.tensors, at + k) ? value[k] : 0;
            square += (double)value[k] * (double)value[k];
        }
        *(float4 *)(slot.grad + (size_t)env * slot.record + base + at) =
            make_float4(value[0], value[1], value[2], value[3]);
    }
    square = block_sum(square, sums);
    if (threadIdx.x == 0)
        slot.squares[(size_t)env * slot.blocks + part.number] = square;
}

DEVICE void step_part(const struct seed_set &set, const struct update_piece &part, int env)
{
    __shared__ double sums[TILE_THREADS / 32];
    const uint32_t at = part.first + threadIdx.x;
    const struct seed_slot &slot = *part.slot;
    double square = 0;
    for (uint32_t b = threadIdx.x; b < part.count; b += TILE_THREADS)
        square += __ldcg(slot.squares + (size_t)env * slot.blocks + b);
    square = block_sum(square, sums);
    if (at >= part.end)
        return;
    const float factor = (float)gradient_clip(sqrt(square), (double)set.max_norm);
    const float g = slot.grad[(size_t)env * slot.record + (part.gate ? slot.seed_storage : 0) + at];
    float *w = (part.gate ? set.gate + (size_t)env * set.gate_size + slot.gate
                          : set.seed + (size_t)env * set.seed_size + slot.seed) +
               at;
    float *m = (part.gate ? set.gate_momentum + (size_t)env * set.gate_size + slot.gate
                          : set.seed_momentum + (size_t)env * set.seed_size + slot.seed) +
               at;
    *m = set.rates.momentum * *m + (factor * g + set.rates.weight_decay * *w);
    *w -= set.rates.lr * set.lr_factor[env] * *m;
    if (!part.gate)
        pack_weight(set, part, env, at, *w);
}

KERNEL __launch_bounds__(TILE_THREADS) void sum_gradients(const __grid_constant__ struct fast_host host,
                                                          const __grid_constant__ struct seed_set set,
                                                          enum slot_mode mode)
{
    const struct update_items items(host, set, mode);
    device_wait();
    items.each([&](const struct update_piece &part, int env) INLINED { sum_part(host, part, env); });
}

KERNEL __launch_bounds__(TILE_THREADS) void step_parameters(const __grid_constant__ struct fast_host host,
                                                            const __grid_constant__ struct seed_set set,
                                                            enum slot_mode mode)
{
    const struct update_items items(host, set, mode);
    device_wait();
    items.each([&](const struct update_piece &part, int env) INLINED { step_part(set, part, env); });
}

/* Adds to the sum of all squares. All threads; sums: one per warp. */
DEVICE void measure_tensors(const struct seed_tensors &tensors, const float *grad, struct gradient_tally *tally,
                            double *total, double *sums)
{
    for (int i = 0; i < tensors.count; i++) {
        double square = 0;
        for (uint32_t k = threadIdx.x; k < tensors.size[i]; k += TILE_THREADS)
            square += (double)grad[tensors.offset[i] + k] * (double)grad[tensors.offset[i] + k];
        square = block_sum(square, sums);
        const double norm = sqrt(square);
        gradient_count(tally, norm);
        *total += norm * norm;
    }
}

/* The measurements of net_measure; a thread block per slot and env. */
KERNEL __launch_bounds__(TILE_THREADS) void measure_gradients(const __grid_constant__ struct fast_host host,
                                                              const __grid_constant__ struct seed_set set)
{
    __shared__ double sums[TILE_THREADS / 32];
    device_wait();
    const int j = (int)blockIdx.x, env = (int)blockIdx.y;
    const struct seed_slot &slot = set.slots[j];
    const size_t row = (size_t)env * (size_t)host.slots + (size_t)j;
    const struct slot_exec exec = host.exec[row];
    struct slot_grads grads = gradient_none(exec.mode != SLOT_SKIP);
    if (exec.mode != SLOT_SKIP && exec.train && exec.blueprint < BLUEPRINT_COUNT) {
        const struct seed_tensors *table = set.tensors + (size_t)j * (BLUEPRINT_COUNT + 1);
        const float *grad = slot.grad + (size_t)env * slot.record;
        struct gradient_tally tally = {};
        double params = table[exec.blueprint].params, square = 0;
        measure_tensors(table[exec.blueprint], grad, &tally, &square, sums);
        if (exec.gate) {
            params += table[BLUEPRINT_COUNT].params;
            measure_tensors(table[BLUEPRINT_COUNT], grad + slot.seed_storage, &tally, &square, sums);
        }
        grads = gradient_report(&tally, sqrt(square), params, host.host_norm[env], (double)set.host_params);
    }
    if (threadIdx.x == 0)
        set.grads[row] = grads;
}

void seed_update(struct bf16_net *net, enum slot_mode mode)
{
    struct runtime *rt = net->runtime;
    if (net->host.slots == 0)
        return;
    struct launch shape = update_shape(net);
    const unsigned all = shape.grid.x * shape.grid.y, fit = UPDATES_RESIDENT * (unsigned)runtime_processors(rt);
    shape.grid = dim3(all < fit ? all : fit);
    runtime_launch(rt, sum_gradients, shape, net->host, net->seeds->set, mode);
    runtime_launch(rt, step_parameters, shape, net->host, net->seeds->set, mode);
}

void seed_measure(struct bf16_net *net)
{
    struct launch shape = {dim3((unsigned)net->host.slots, (unsigned)net->host.envs), dim3(TILE_THREADS), 0, true};
    if (net->host.slots)
        runtime_launch(net->runtime, measure_gradients, shape, net->host, net->seeds->set);
}
