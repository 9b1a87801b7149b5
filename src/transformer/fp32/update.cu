/*
 * After the gradients of the chunks (gradients.cuh): sums over the chunks in order, their norms, clipping, and the
 * optimiser's step.
 */
#include "cuda/runtime.cuh"

#include "transformer/fp32/numbers.cuh"

/* ---- over the chunks --------------------------------------------------------------------------------------------- */

/* Those of some chunks are on their way at once. */
DEVICE numbers over_chunks(const struct frame &frame, size_t i)
{
    enum { AHEAD = 4 };
    const struct exact_view &net = *frame.net;
    const float *from = chunk_sums(frame, 0) + i;
    numbers sum = {};
    for (int c = 0; c < net.chunks; c += AHEAD) {
        numbers part[AHEAD] = {};
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (c + k < net.chunks)
                part[k] = few_at<NUMBERS>(from + (size_t)(c + k) * net.grad);
#pragma unroll
        for (int k = 0; k < AHEAD; k++) /* zeros change nothing */
            sum = paired(sum, part[k], [](float a, float b) { return a + b; });
    }
    return sum;
}

/* SPAN numbers per block: first the host's, with the sum of their squares, then those of seeds and gates. */
STAGE_KERNEL reduce(const struct exact_view *net, int first)
{
    static_assert(SPAN == NUMBERS * STAGE_THREADS, "a thread has its numbers once");
    const struct frame frame = train_frame(net, first);
    batch_wait();
    const size_t place = (size_t)frame.place;
    float *grads = net->grads + place * net->grad;
    const bool host = (int)blockIdx.x < net->spans;
    const uint32_t i = (blockIdx.x - (host ? 0 : (uint32_t)net->spans)) * SPAN + NUMBERS * threadIdx.x;
    if (!host) {
        numbers sum = {};
        if (i >= net->seed_storage + net->gate_storage)
            return;
        const struct slot_number number = slot_number_of(frame, i);
        if (number.tensor && slot_learns(frame.exec[number.slot]))
            sum = over_chunks(frame, (size_t)net->host_storage + i);
#pragma unroll
        for (uint32_t k = 0; k < NUMBERS; k++) /* behind the tensor is what another seed left */
            sum.v[k] = k < number.count ? sum.v[k] : 0.0f;
        keep(grads + net->host_storage + i, sum);
        return;
    }
    double square = 0;
    if (i < net->host_storage) {
        numbers sum = over_chunks(frame, i), entered = {};
        if (i < net->embeddings)
            entered = few_at<NUMBERS>(net->embedded + place * net->embeddings + i);
        sum = paired(sum, entered, [](float a, float b) { return a + b; });
#pragma unroll
        for (const float x : sum.v)
            square += (double)x * (double)x;
        keep(grads + i, sum);
    }
    __shared__ double part[STAGE_WARPS];
    square = lanes_sum(square);
    if (threadIdx.x % WARP_LANES == 0)
        part[threadIdx.x / WARP_LANES] = square;
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    for (int w = 1; w < STAGE_WARPS; w++)
        square += part[w];
    net->squares[place * (size_t)net->spans + blockIdx.x] = square;
}

/* ---- statistics -------------------------------------------------------------------------------------------------- */

DEVICE void measure_part(const struct exact_part &part, const float *g, struct part_step *step)
{
    for (int t = 0; t < part.tensors; t++) {
        double square = 0;
        for (uint32_t i = threadIdx.x; i < part.tensor[t].size; i += STAGE_THREADS) {
            const double v = (double)g[part.tensor[t].offset + i];
            square += v * v;
        }
        square = block_total<STAGE_THREADS>(square);
        gradient_count(&step->tally, sqrt(square));
        step->square += square;
    }
}

/* Counts an update, and what Adam makes of its number. */
DEVICE struct part_step::adam_step count_update(const struct net_setup *setup, const struct optimiser &o, int env,
                                                int part)
{
    struct part_step::adam_step adam = {};
    if (!setup->updates)
        return adam;
    uint32_t *updates = setup->updates + (size_t)env * (size_t)net_parts(setup->shape.slots) + part;
    const double step = (double)++*updates, lr = (double)(o.lr * setup->source.conditions.lr_factor[env]);
    adam.rate = (float)(lr / (1 - pow((double)o.momentum, step)));
    adam.root_scale = (float)(1 / sqrt(1 - pow((double)o.second, step)));
    return adam;
}

/* A thread's share of some numbers, in their order. Many are on their way at once: few blocks do this. */
template <class T> DEVICE double thread_sum(int count, const T *from)
{
    enum { AHEAD = 16 };
    double sum = 0;
    for (int i = (int)threadIdx.x; i < count; i += AHEAD * STAGE_THREADS) {
        T own[AHEAD] = {};
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (i + k * STAGE_THREADS < count)
                own[k] = from[i + k * STAGE_THREADS];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) /* zeros change nothing */
            sum += (double)own[k];
    }
    return sum;
}

/* A block per env and part: the host, and each slot being trained. The host's block also sums the batch's losses. */
STAGE_KERNEL settle(const struct exact_view *net, int first)
{
    const struct net_setup *setup = net->setup;
    const struct frame frame = train_frame(net, first);
    batch_wait();
    const size_t place = (size_t)frame.place;
    const int part = (int)blockIdx.x, slot = part - 1;
    const float *seeds = net->grads + place * net->grad + net->host_storage, *gates = seeds + net->seed_storage;
    struct part_step step = {};
    if (part == 0) {
        const double square = thread_sum(net->spans, net->squares + place * (size_t)net->spans),
                     loss = thread_sum(net->rows, net->losses + place * (size_t)net->rows),
                     hits = thread_sum(net->rows, net->hits + place * (size_t)net->rows);
        step.square = block_total<STAGE_THREADS>(square);
        const struct net_score score = {block_total<STAGE_THREADS>(loss), block_total<STAGE_THREADS>(hits),
                                        (uint64_t)net->rows};
        if (threadIdx.x == 0)
            net_score_add(&net->train[frame.env], score);
    } else {
        if (!frame.exec[slot].train)
            return;
        measure_part(seed_of(frame, slot).part, seeds + net->slot[slot].seed, &step);
        if (frame.exec[slot].gate)
            measure_part(net->gate, gates + net->slot[slot].gate, &step);
    }
    if (threadIdx.x > 0)
        return;
    step.factor = (float)gradient_clip(sqrt(step.square), setup->rates.max_grad_norm);
    if (part == 0)
        step.adam[0] = count_update(setup, setup->rates.host, frame.env, NET_HOST);
    else
        step.adam[0] = count_update(setup, setup->rates.seed, frame.env, net_seed_part(slot));
    if (part > 0 && frame.exec[slot].gate)
        step.adam[1] = count_update(setup, setup->rates.seed, frame.env, net_gate_part(net->slots, slot));
    net->part[place * NET_NORMS + (size_t)part] = step;
}

/* ---- step -------------------------------------------------------------------------------------------------------- */

/* nn/flat.c: optimiser_step. */
DEVICE void optimiser_number(const struct optimiser &o, float lr_factor, bool decays, float factor,
                             const struct part_step::adam_step &adam, float g, float *w, float *first, float *second)
{
    const float lr = o.lr * lr_factor, decay = decays ? o.weight_decay : 0.0f, d = factor * g;
    if (o.kind == OPTIMISER_SGD) {
        *first = o.momentum * *first + (d + decay * *w);
        *w -= lr * *first;
        return;
    }
    if (decay > 0)
        *w *= 1 - lr * decay;
    *first = o.momentum * *first + (float)(1 - (double)o.momentum) * d;
    *second = o.second * *second + (float)(1 - (double)o.second) * (d * d);
    *w -= adam.rate * *first / (sqrtf(*second) * adam.root_scale + o.epsilon);
}

/* Neighbours in memory: parameters, and what the optimiser remembers of them. */
struct stored {
    float *w, *first, *second; /* second NULL: SGD */
    struct bf16 *rounded;      /* NULL: not asked for */
};

DEVICE struct stored stored_at(float *w, float *first, float *second, size_t i, struct bf16 *rounded)
{
    struct stored stored = {w + i, first + i, second ? second + i : nullptr, rounded};
    return stored;
}

/* The first `count` of them, or all. */
DEVICE void optimiser_numbers(const struct optimiser &o, float lr_factor, bool decays, float factor,
                              const struct part_step::adam_step &adam, const numbers &g, const struct stored &stored,
                              uint32_t count)
{
    numbers w = few_once(stored.w), first = few_once(stored.first), second = {};
    if (stored.second)
        second = few_once(stored.second);
#pragma unroll
    for (uint32_t k = 0; k < NUMBERS; k++)
        if (k < count)
            optimiser_number(o, lr_factor, decays, factor, adam, g.v[k], &w.v[k], &first.v[k], &second.v[k]);
    keep_once(stored.w, w);
    if (stored.rounded)
        keep(stored.rounded, w);
    keep_once(stored.first, first);
    if (stored.second)
        keep_once(stored.second, second);
}

/* Where the numbers from i on are rounded as well, or NULL. */
DEVICE struct bf16 *rounded_at(const struct frame &frame, uint32_t i)
{
    const struct exact_view &net = *frame.net;
    struct bf16 *own = net.rounded + (size_t)frame.place * net.rounded_stride;
    if (!net.rounded_places)
        return net.rounded ? own + i : nullptr;
    const uint32_t place = i < net.host_storage ? net.rounded_places[i / LAYOUT_ALIGN] : NOWHERE;
    return place == NOWHERE ? nullptr : own + place + i % LAYOUT_ALIGN;
}

/* A thread per NUMBERS parameters. */
STAGE_KERNEL update(const struct exact_view *net, int first)
{
    const struct net_setup *setup = net->setup;
    const struct frame frame = train_frame(net, first);
    batch_wait();
    const size_t env = (size_t)frame.env;
    const uint32_t i = NUMBERS * (blockIdx.x * STAGE_THREADS + threadIdx.x);
    if (i >= net->grad)
        return;
    const struct part_step *part = net->part + (size_t)frame.place * NET_NORMS;
    const float *g = net->grads + (size_t)frame.place * net->grad + i;
    struct bf16 *rounded = rounded_at(frame, i);
    const float lr_factor = setup->source.conditions.lr_factor[env];
    if (i < net->host_storage) {
        optimiser_numbers(
            setup->rates.host, lr_factor, net->decays[i / LAYOUT_ALIGN], part[0].factor, part[0].adam[0], few_once(g),
            stored_at(setup->host, setup->host_momentum, setup->host_second, env * net->host_storage + i, rounded),
            NUMBERS);
        return;
    }
    const struct slot_number number = slot_number_of(frame, i - net->host_storage);
    if (!number.tensor)
        return;
    const struct part_step &own = part[1 + number.slot];
    const size_t place = env * (number.gate ? net->gate_storage : net->seed_storage) + number.offset;
    optimiser_numbers(setup->rates.seed, lr_factor, number.tensor->decays, own.factor, own.adam[number.gate],
                      few_once(g),
                      number.gate ? stored_at(setup->gate, setup->gate_momentum, setup->gate_second, place, rounded)
                                  : stored_at(setup->seed, setup->seed_momentum, setup->seed_second, place, rounded),
                      number.count);
}

KERNEL void begin_step(const struct exact_view *net, int envs)
{
    const int env = (int)(blockIdx.x * STAGE_THREADS + threadIdx.x);
    if (env < envs)
        net->train[env] = {0, 0, 0};
}

DEVICE struct slot_grads slot_report(const struct exact_view *net, const struct part_step *part, int slot,
                                     const struct slot_exec &exec)
{
    if (exec.mode == SLOT_SKIP || !exec.train)
        return gradient_none(exec.mode != SLOT_SKIP);
    const struct part_step &own = part[1 + slot];
    const double params = (double)net->seed_of[exec.blueprint].part.params + (exec.gate ? (double)net->gate.params : 0);
    return gradient_report(&own.tally, sqrt(own.square), params, sqrt(part[0].square), (double)net->host_params);
}

/* After the last batch: the step's measurements. One thread per env of the group. */
KERNEL void end_step(const struct exact_view *net, int first, int envs)
{
    const struct net_setup *setup = net->setup;
    const int place = (int)(blockIdx.x * STAGE_THREADS + threadIdx.x), env = first + place;
    if (place >= envs)
        return;
    setup->train_loss[env] = net->train[env].loss / (double)net->train[env].count;
    setup->train_accuracy[env] = net_points(setup->scored_by_loss, setup->classes, &net->train[env]);
    for (int j = 0; j < net->slots; j++) {
        const size_t row = (size_t)env * (size_t)net->slots + (size_t)j;
        setup->grads[row] = slot_report(net, net->part + (size_t)place * NET_NORMS, j, setup->exec[row]);
    }
}

/* ---- enqueued ---------------------------------------------------------------------------------------------------- */

void transformer_update(struct transformer_net *device, int first, int envs)
{
    const struct exact_view &view = device->view;
    const unsigned each = NUMBERS * STAGE_THREADS, blocks = (unsigned)((view.grad + each - 1) / each);
    runtime_launch(device->runtime, settle, net_behind(net_blocks(1 + (unsigned)view.slots, envs, STAGE_THREADS)),
                   device->net, first);
    runtime_launch(device->runtime, update, net_behind(net_blocks(blocks, envs, STAGE_THREADS)), device->net, first);
}

void transformer_reduce(struct transformer_net *device, int first, int envs)
{
    const struct exact_view &view = device->view;
    const unsigned slot_spans = (view.seed_storage + view.gate_storage + SPAN - 1) / SPAN;
    runtime_launch(device->runtime, reduce,
                   net_behind(net_blocks((unsigned)view.spans + slot_spans, envs, STAGE_THREADS)), device->net, first);
}

void transformer_begin_step(struct transformer_net *device)
{
    const unsigned envs = (unsigned)device->setup.envs;
    runtime_launch(device->runtime, begin_step,
                   net_blocks((envs + STAGE_THREADS - 1) / STAGE_THREADS, 1, STAGE_THREADS), device->net,
                   device->setup.envs);
}

void transformer_end_step(struct transformer_net *device, int first, int envs)
{
    const unsigned blocks = ((unsigned)envs + STAGE_THREADS - 1) / STAGE_THREADS;
    runtime_launch(device->runtime, end_step, net_blocks(blocks, 1, STAGE_THREADS), device->net, first, envs);
}
