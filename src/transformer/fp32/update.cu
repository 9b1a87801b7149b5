/*
 * After the gradients of the chunks (gradients.cuh): sums over the chunks in order, their norms, clipping, and the
 * optimiser's step.
 */
#include "cuda/runtime.cuh"

#include "transformer/fp32/numbers.cuh"

/* ---- over the chunks --------------------------------------------------------------------------------------------- */

DEVICE float over_chunks(const struct frame &frame, size_t i)
{
    float sum = 0;
    for (int c = 0; c < frame.net->chunks; c++)
        sum += chunk_sums(frame, c)[i];
    return sum;
}

/* SPAN numbers per block: first the host's, with the sum of their squares, then those of seeds and gates. */
STAGE_KERNEL reduce(const struct exact_view *net, int first)
{
    const struct frame frame = train_frame(net, first);
    const size_t place = (size_t)frame.place;
    float *grads = net->grads + place * net->grad;
    const bool host = (int)blockIdx.x < net->spans;
    const uint32_t begin = (blockIdx.x - (host ? 0 : (uint32_t)net->spans)) * SPAN,
                   count = host ? net->host_storage : net->seed_storage + net->gate_storage;
    double square = 0;
    for (uint32_t i = begin + threadIdx.x; i < begin + SPAN && i < count; i += STAGE_THREADS) {
        float sum = 0;
        if (host) {
            sum = over_chunks(frame, i) + (i < net->embeddings ? net->embedded[place * net->embeddings + i] : 0.0f);
            square += (double)sum * (double)sum;
            grads[i] = sum;
        } else {
            const struct slot_number number = slot_number_of(frame, i);
            if (number.tensor && slot_learns(frame.exec[number.slot]))
                sum = over_chunks(frame, (size_t)net->host_storage + i);
            grads[(size_t)net->host_storage + i] = sum;
        }
    }
    if (!host)
        return;
    square = block_total<STAGE_THREADS>(square);
    if (threadIdx.x == 0)
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

/* A block per env and part: the host, and each slot being trained. The host's block also sums the batch's losses. */
STAGE_KERNEL settle(const struct exact_view *net, int first)
{
    const struct net_setup *setup = net->setup;
    const struct frame frame = train_frame(net, first);
    const size_t place = (size_t)frame.place;
    const int part = (int)blockIdx.x, slot = part - 1;
    const float *seeds = net->grads + place * net->grad + net->host_storage, *gates = seeds + net->seed_storage;
    struct part_step step = {};
    if (part == 0) {
        double square = 0, loss = 0, hits = 0;
        for (int i = (int)threadIdx.x; i < net->spans; i += STAGE_THREADS)
            square += net->squares[place * (size_t)net->spans + (size_t)i];
        for (int i = (int)threadIdx.x; i < net->rows; i += STAGE_THREADS) {
            loss += net->losses[place * (size_t)net->rows + (size_t)i];
            hits += net->hits[place * (size_t)net->rows + (size_t)i];
        }
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

struct number {
    float *w, *first, *second; /* second NULL: SGD */
};

/* nn/flat.c: optimiser_step. */
DEVICE void optimiser_number(const struct optimiser &o, float lr_factor, bool decays, float factor,
                             const struct part_step::adam_step &adam, float g, struct number number)
{
    const float lr = o.lr * lr_factor, decay = decays ? o.weight_decay : 0.0f, d = factor * g;
    if (o.kind == OPTIMISER_SGD) {
        *number.first = o.momentum * *number.first + (d + decay * *number.w);
        *number.w -= lr * *number.first;
        return;
    }
    if (decay > 0)
        *number.w *= 1 - lr * decay;
    *number.first = o.momentum * *number.first + (float)(1 - (double)o.momentum) * d;
    *number.second = o.second * *number.second + (float)(1 - (double)o.second) * (d * d);
    *number.w -= adam.rate * *number.first / (sqrtf(*number.second) * adam.root_scale + o.epsilon);
}

DEVICE struct number number_at(float *w, float *first, float *second, size_t i)
{
    struct number number = {w + i, first + i, second ? second + i : nullptr};
    return number;
}

/* One thread per parameter. */
STAGE_KERNEL update(const struct exact_view *net, int first)
{
    const struct net_setup *setup = net->setup;
    const struct frame frame = train_frame(net, first);
    const size_t env = (size_t)frame.env;
    const uint32_t i = blockIdx.x * STAGE_THREADS + threadIdx.x;
    if (i >= net->grad)
        return;
    const struct part_step *part = net->part + (size_t)frame.place * NET_NORMS;
    const float g = net->grads[(size_t)frame.place * net->grad + i],
                lr_factor = setup->source.conditions.lr_factor[env];
    if (i < net->host_storage) {
        optimiser_number(setup->rates.host, lr_factor, net->decays[i / LAYOUT_ALIGN], part[0].factor, part[0].adam[0],
                         g,
                         number_at(setup->host, setup->host_momentum, setup->host_second, env * net->host_storage + i));
        return;
    }
    const struct slot_number number = slot_number_of(frame, i - net->host_storage);
    if (!number.tensor)
        return;
    const struct part_step &own = part[1 + number.slot];
    const size_t place = env * (number.gate ? net->gate_storage : net->seed_storage) + number.offset;
    optimiser_number(setup->rates.seed, lr_factor, number.tensor->decays, own.factor, own.adam[number.gate], g,
                     number.gate ? number_at(setup->gate, setup->gate_momentum, setup->gate_second, place)
                                 : number_at(setup->seed, setup->seed_momentum, setup->seed_second, place));
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
    const unsigned numbers = (unsigned)((view.grad + STAGE_THREADS - 1) / STAGE_THREADS);
    runtime_launch(device->runtime, settle, net_blocks(1 + (unsigned)view.slots, envs, STAGE_THREADS), device->net,
                   first);
    runtime_launch(device->runtime, update, net_blocks(numbers, envs, STAGE_THREADS), device->net, first);
}

void transformer_reduce(struct transformer_net *device, int first, int envs)
{
    const struct exact_view &view = device->view;
    const unsigned slot_spans = (view.seed_storage + view.gate_storage + SPAN - 1) / SPAN;
    runtime_launch(device->runtime, reduce, net_blocks((unsigned)view.spans + slot_spans, envs, STAGE_THREADS),
                   device->net, first);
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
