/* The end of a training batch: sums of gradients over its chunks and images; norms and statistics; clipping and SGD. */
#include "cuda/runtime.cuh"

#include "cnn/fp32/seed.cuh"

enum { REDUCE_THREADS = 256 };

/* ---- gradients ----------------------------------------------------------------------------------------------------
 */

/* Sum over the chunks, at one weight. */
DEVICE float chunk_total(const float *partial, size_t size, int chunks)
{
    float sum = 0;
#pragma unroll 8
    for (int k = 0; k < chunks; k++)
        sum += partial[(size_t)k * size];
    return sum;
}

/* The env's images, for sums of products of their vectors. */
struct batch_view {
    const float *frame;
    const double *figure;
    size_t frame_step, figure_step;
    int images;
};

DEVICE float figure_total(const struct batch_view &batch, uint32_t figure)
{
    double sum = 0;
#pragma unroll 8
    for (int n = 0; n < batch.images; n++)
        sum += batch.figure[(size_t)n * batch.figure_step + figure];
    return (float)sum;
}

DEVICE float figure_product(const struct batch_view &batch, uint32_t figure, uint32_t value)
{
    double sum = 0;
#pragma unroll 8
    for (int n = 0; n < batch.images; n++)
        sum += batch.figure[(size_t)n * batch.figure_step + figure] *
               (double)batch.frame[(size_t)n * batch.frame_step + value];
    return (float)sum;
}

DEVICE float host_gradient(const struct net_view *net, const struct batch_view &batch, const float *partials,
                           const float *now, uint32_t at)
{
    for (int i = 0; i < net->blocks; i++) {
        const struct block_view &block = net->block[i];
        const uint32_t size = (uint32_t)(block.conv.cout * block.conv.kernel * block.conv.kernel * block.conv.cin);
        if (at >= block.weight && at < block.weight + size)
            return chunk_total(partials + block.partial + (at - block.weight), size, block.conv.chunks);
        if (at >= block.gamma && at < block.beta + (uint32_t)block.conv.cout)
            return now[at]; /* written by norm_backward; the gap between the two stays zero */
    }
    const uint32_t features = (uint32_t)net->features, k = (at - net->fc_weight) / features,
                   c = (at - net->fc_weight) % features;
    double sum = 0;
    if (at >= net->fc_weight && at < net->fc_weight + (uint32_t)net->classes * features) {
#pragma unroll 8
        for (int n = 0; n < batch.images; n++) {
            const float *frame = batch.frame + (size_t)n * batch.frame_step;
            sum += (double)frame[net->dlogit + k] * (double)frame[net->feature + c];
        }
    } else if (at >= net->fc_bias && at < net->fc_bias + (uint32_t)net->classes) {
#pragma unroll 8
        for (int n = 0; n < batch.images; n++)
            sum += (double)batch.frame[(size_t)n * batch.frame_step + net->dlogit + (at - net->fc_bias)];
    }
    return (float)sum;
}

DEVICE float chain_gradient(const struct slot_view &slot, const struct seed_view &seed, const struct batch_view &batch,
                            const float *partials, uint32_t at)
{
    for (int i = 0; i < seed.steps; i++) {
        const struct step_view &step = seed.step[i];
        const uint32_t taps = (uint32_t)(step.kernel * step.kernel), cout = (uint32_t)step.cout;
        const uint32_t size = taps * cout * (step.kind == STEP_DEPTHWISE ? 1 : (uint32_t)step.cin);
        if (at >= step.weight && at < step.weight + size)
            return chunk_total(partials + slot.partial + at, slot.seed_storage, slot.chunks);
        if (step.norm < 0)
            continue;
        const uint32_t sums = slot.sums + 2 * (uint32_t)(step.norm * slot.channels);
        if (at >= step.gamma && at < step.gamma + cout)
            return figure_total(batch, sums + (at - step.gamma));
        if (at >= step.beta && at < step.beta + cout)
            return figure_total(batch, sums + (uint32_t)slot.channels + (at - step.beta));
    }
    return 0;
}

DEVICE float scale_gradient(const struct slot_view &slot, const struct batch_view &batch, int tensor, uint32_t at)
{
    if (tensor == SCALE_SIGMA)
        return figure_total(batch, slot.sigma);
    return figure_total(batch, slot.sums + (tensor == SCALE_GAMMA ? 0 : (uint32_t)slot.channels) + at);
}

DEVICE float attention_gradient(const struct slot_view &slot, const struct batch_view &batch, int tensor, uint32_t at)
{
    const uint32_t c = (uint32_t)slot.channels, hidden = (uint32_t)slot.squeeze;
    const uint32_t dz = slot.sums, dhidden = slot.sums + c, mean = slot.norms,
                   kept = slot.norms + 4 * (uint32_t)slot.stored; /* gain */
    if (tensor == SQUEEZE_W1)
        return figure_product(batch, dhidden + at / c, mean + at % c);
    if (tensor == SQUEEZE_W2)
        return figure_product(batch, dz + at / hidden, kept + at % hidden);
    return figure_total(batch, dz + at);
}

DEVICE float gate_gradient(const struct slot_view &slot, const struct batch_view &batch, int tensor, uint32_t at)
{
    const uint32_t c = (uint32_t)slot.channels, dout = slot.gate_sums, dhidden = dout + 1;
    switch (tensor) {
    case GATE_W1:
        return figure_product(batch, dhidden + at / c, slot.gate_mean + at % c);
    case GATE_B1:
        return figure_total(batch, dhidden + at);
    case GATE_W2:
        return figure_product(batch, dout, slot.gate_hidden + at);
    default:
        return figure_total(batch, dout);
    }
}

/* Index of the tensor that contains `at`, which becomes the offset within it; -1 in the gaps between tensors. */
DEVICE int tensor_of(const struct tensor_view *tensor, int count, uint32_t *at)
{
    for (int t = 0; t < count; t++)
        if (*at >= tensor[t].offset && *at < tensor[t].offset + tensor[t].size) {
            *at -= tensor[t].offset;
            return t;
        }
    return -1;
}

DEVICE float seed_gradient(const struct slot_view &slot, const struct seed_view &seed, const struct batch_view &batch,
                           const float *partials, uint32_t at)
{
    if (seed.kind == SEED_CHAIN)
        return chain_gradient(slot, seed, batch, partials, at);
    const int tensor = tensor_of(seed.tensor, seed.tensors, &at);
    if (tensor < 0)
        return 0;
    return seed.kind == SEED_NORM ? scale_gradient(slot, batch, tensor, at)
                                  : attention_gradient(slot, batch, tensor, at);
}

/* One thread per parameter: sums what chunks and images hold. */
KERNEL void __launch_bounds__(REDUCE_THREADS) reduce(const struct net_view *net, int first)
{
    const int place = (int)blockIdx.y;
    uint32_t at = blockIdx.x * REDUCE_THREADS + threadIdx.x;
    if (at >= net->host_storage + net->seed_storage + net->gate_storage)
        return;
    const struct slot_exec *exec = net->setup->exec + (size_t)(first + place) * (size_t)net->slots;
    const float *partials = net->partials + (size_t)place * net->partial;
    const size_t image = (size_t)place * (size_t)net->batch;
    const struct batch_view batch = {net->frames + image * net->frame, net->figures + image * net->figure, net->frame,
                                     net->figure, net->batch};
    float *grads = net->grads + (size_t)place * net->grad, *to = &grads[at];
    if (at < net->host_storage) {
        *to = host_gradient(net, batch, partials, grads, at);
        return;
    }
    at -= net->host_storage;
    const bool gates = at >= net->seed_storage;
    at -= gates ? net->seed_storage : 0;
    int j = net->slots - 1;
    while (at < (gates ? net->slot[j].gate : net->slot[j].seed))
        j--;
    const struct slot_view &slot = net->slot[j];
    at -= gates ? slot.gate : slot.seed;
    if (!slot_learns(exec[j])) {
        *to = 0;
    } else if (!gates) {
        *to = seed_gradient(slot, slot.seed_of[exec[j].blueprint], batch, partials, at);
    } else {
        const int tensor = exec[j].gate ? tensor_of(slot.gate_tensor, GATE_TENSORS, &at) : -1;
        *to = tensor < 0 ? 0 : gate_gradient(slot, batch, tensor, at);
    }
}

/* ---- statistics and update --------------------------------------------------------------------------------------- */

/* Sum over the block's threads, in their order; every thread gets it. */
DEVICE double block_total(double value)
{
    double *part = sums_scratch();
    __syncthreads();
    part[threadIdx.x] = value;
    __syncthreads();
    for (int half = BLOCK_THREADS / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half)
            part[threadIdx.x] += part[(int)threadIdx.x + half];
        __syncthreads();
    }
    return part[0];
}

DEVICE double square_norm(const float *g, uint32_t count)
{
    double sum = 0;
#pragma unroll 8
    for (uint32_t i = threadIdx.x; i < count; i += BLOCK_THREADS)
        sum += (double)g[i] * (double)g[i];
    return block_total(sum);
}

DEVICE void measure_tensors(const struct tensor_view *tensor, int count, const float *g, struct part_norms *norms)
{
    for (int t = 0; t < count; t++) {
        const double square = square_norm(g + tensor[t].offset, tensor[t].size), norm = sqrt(square);
        gradient_count(&norms->tally, norm);
        norms->square += square;
    }
}

/* A block per env and part: the host, and each slot being trained. The host's block also sums the batch's losses. */
IMAGE_KERNEL measure(const struct net_view *net, int first)
{
    const int place = (int)blockIdx.y, part = (int)blockIdx.x, env = first + place;
    const float *grads = net->grads + (size_t)place * net->grad;
    struct part_norms norms = {};
    if (part == 0) {
        const double *figures = net->figures + (size_t)place * (size_t)net->batch * net->figure;
        double loss = 0, right = 0;
        for (int n = (int)threadIdx.x; n < net->batch; n += BLOCK_THREADS) {
            loss += figures[(size_t)n * net->figure + net->loss];
            right += figures[(size_t)n * net->figure + net->right];
        }
        loss = block_total(loss);
        right = block_total(right);
        norms.square = square_norm(grads, net->host_storage);
        if (threadIdx.x == 0) {
            net->train_loss[env] += loss;
            net->train_right[env] += (uint32_t)right;
        }
    } else {
        const struct slot_view &slot = net->slot[part - 1];
        const struct slot_exec exec = net->setup->exec[(size_t)env * (size_t)net->slots + (size_t)(part - 1)];
        if (!exec.train)
            return;
        const struct seed_view &seed = slot.seed_of[exec.blueprint];
        const float *seeds = grads + net->host_storage, *gates = seeds + net->seed_storage;
        measure_tensors(seed.tensor, seed.tensors, seeds + slot.seed, &norms);
        if (exec.gate)
            measure_tensors(slot.gate_tensor, GATE_TENSORS, gates + slot.gate, &norms);
    }
    if (threadIdx.x == 0)
        net->part[(size_t)place * NET_NORMS + (size_t)part] = norms;
}

DEVICE struct slot_grads slot_report(const struct net_view *net, const struct part_norms *part, int slot,
                                     const struct slot_exec &exec)
{
    if (exec.mode == SLOT_SKIP || !exec.train)
        return gradient_none(exec.mode != SLOT_SKIP);
    const struct slot_view &view = net->slot[slot];
    const struct part_norms &own = part[1 + slot];
    const double params = (double)view.seed_of[exec.blueprint].params + (exec.gate ? (double)view.gate_params : 0);
    return gradient_report(&own.tally, sqrt(own.square), params, sqrt(part[0].square), (double)net->host_params);
}

DEVICE float clip_factor(double square, double max_norm)
{
    return (float)gradient_clip(sqrt(square), max_norm);
}

DEVICE void sgd_step(const struct optimiser &sgd, float lr_factor, float factor, float g, float *w, float *m)
{
    *m = fmaf(sgd.momentum, *m, fmaf(factor, g, sgd.weight_decay * *w));
    *w = fmaf(-(sgd.lr * lr_factor), *m, *w);
}

/* One thread per parameter. */
KERNEL void __launch_bounds__(REDUCE_THREADS) update(const struct net_view *net, int first)
{
    const struct net_setup *setup = net->setup;
    const int place = (int)blockIdx.y;
    const size_t env = (size_t)(first + place);
    uint32_t at = blockIdx.x * REDUCE_THREADS + threadIdx.x;
    if (at >= net->host_storage + net->seed_storage + net->gate_storage)
        return;
    const struct slot_exec *exec = net->setup->exec + env * (size_t)net->slots;
    const struct part_norms *part = net->part + (size_t)place * NET_NORMS;
    const float g = net->grads[(size_t)place * net->grad + at], lr_factor = setup->source.conditions.lr_factor[env];
    if (at < net->host_storage) {
        const size_t i = env * net->host_storage + at;
        sgd_step(setup->rates.host, lr_factor, clip_factor(part[0].square, setup->rates.max_grad_norm), g,
                 &setup->host[i], &setup->host_momentum[i]);
        return;
    }
    at -= net->host_storage;
    const bool gates = at >= net->seed_storage;
    at -= gates ? net->seed_storage : 0;
    int j = net->slots - 1;
    while (at < (gates ? net->slot[j].gate : net->slot[j].seed))
        j--;
    const struct slot_view &slot = net->slot[j];
    if (!exec[j].train || (gates ? !exec[j].gate : at - slot.seed >= slot.seed_of[exec[j].blueprint].storage))
        return;
    const float factor = clip_factor(part[1 + j].square, setup->rates.max_grad_norm);
    const size_t i = env * (gates ? net->gate_storage : net->seed_storage) + at;
    sgd_step(setup->rates.seed, lr_factor, factor, g, gates ? &setup->gate[i] : &setup->seed[i],
             gates ? &setup->gate_momentum[i] : &setup->seed_momentum[i]);
}

/* After the last batch: the step's measurements. One thread per env of the group. */
KERNEL void end_step(const struct net_view *net, int first, int envs)
{
    const int place = (int)(blockIdx.x * REDUCE_THREADS + threadIdx.x), env = first + place;
    if (place >= envs)
        return;
    const struct net_setup *setup = net->setup;
    const double images = (double)setup->source.batches * net->batch;
    setup->train_loss[env] = net->train_loss[env] / images;
    setup->train_accuracy[env] = 100 * (double)net->train_right[env] / images;
    for (int j = 0; j < net->slots; j++) {
        const size_t row = (size_t)env * (size_t)net->slots + (size_t)j;
        setup->grads[row] = slot_report(net, net->part + (size_t)place * NET_NORMS, j, net->setup->exec[row]);
    }
}

/* ---- enqueued ---------------------------------------------------------------------------------------------------- */

void framed_update(struct framed_net *device, int first, int envs)
{
    struct runtime *rt = device->runtime;
    const struct net_view *net = device->net;
    const unsigned parameters = device->view.host_storage + device->view.seed_storage + device->view.gate_storage;
    const struct launch each = net_blocks((parameters + REDUCE_THREADS - 1) / REDUCE_THREADS, envs, REDUCE_THREADS);
    runtime_launch(rt, reduce, each, net, first);
    runtime_launch(rt, measure, net_blocks(1 + (unsigned)device->view.slots, envs, BLOCK_THREADS), net, first);
    runtime_launch(rt, update, each, net, first);
}

void framed_end_step(struct framed_net *device, int first, int envs)
{
    const unsigned blocks = ((unsigned)envs + REDUCE_THREADS - 1) / REDUCE_THREADS;
    runtime_launch(device->runtime, end_step, net_blocks(blocks, 1, REDUCE_THREADS), device->net, first, envs);
}
