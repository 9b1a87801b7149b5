/*
 * A step of training, batch by batch, for a group of envs at a time:
 *
 *   forward   for each block: [tail of the block below -> conv], then the block's mean and variance
 *   head      tail of the last block, classifier, loss, and back to before that tail
 *   backward  for each block: BatchNorm's sums are known; [norm -> conv -> tail of the block below]
 *   weights   gradients of all weights, of host and seeds, over chunks of images; then the chunks added up
 *   update    norms, statistics of the step's last batch, clipping, SGD
 *
 * Brackets are a kernel with one thread block per image.
 */
#include "cuda/runtime.cuh"

#include "morph/net_tail.cuh"

enum { REDUCE_THREADS = 256 };

DEVICE struct image batch_image(const struct net_view *net, int first)
{
    const int place = (int)blockIdx.y;
    return image_of(net, first + place, place, (size_t)place * (size_t)net->batch + blockIdx.x);
}

/* The slots that mix, as a mask: in training all of them are on. */
DEVICE uint32_t slots_on(const struct image &image)
{
    uint32_t on = 0;
    for (int j = 0; j < image.net->slots; j++)
        on |= slot_mixes(image, j) ? 1u << j : 0;
    return on;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* A training image is looked up by one thread. */
DEVICE struct gather_view train_view(const struct image &image, uint32_t index)
{
    __shared__ struct gather_view view;
    if (threadIdx.x == 0)
        view = gather_train_view(image.net->source, (uint32_t)image.env, index, blockIdx.x);
    __syncthreads();
    return view;
}

IMAGE_KERNEL block_forward(const struct net_view *net, int first, int i, uint32_t index)
{
    const struct image image = batch_image(net, first);
    const struct block_view &block = net->block[i];
    if (i == 0)
        image_write(image, train_view(image, index));
    else
        tail_forward(image, net->block[i - 1], slots_on(image));
    block_convolve(image, block);
    const float *raw = image.frame + block.raw, *mean = net->source.world->stats + block.mean +
                                                        (size_t)image.env * net->source.world->shape.stats;
    double *sums = image.figures + net->block_sums;
    channel_sums<2, float>(
        block.pixels, block.conv.cout,
        [&](int p, int c, float *v) { /* about the running mean: nearby, so nothing cancels */
            v[0] = raw[p * block.conv.cout + c] - mean[c];
            v[1] = v[0] * v[0];
        },
        [&](int c, const double *total) {
            sums[c] = total[0];
            sums[block.conv.cout + c] = total[1];
        });
}

/* The images' two sums per channel of a block, added up. */
template <class Put> DEVICE void batch_sums(const struct net_view *net, int channels, Put put)
{
    const double *sums =
        net->figures + (size_t)blockIdx.y * (size_t)net->batch * net->figure + net->block_sums;
    channel_sums<2, double>(
        net->batch, channels,
        [&](int n, int c, double *v) {
            v[0] = sums[(size_t)n * net->figure + (size_t)c];
            v[1] = sums[(size_t)n * net->figure + (size_t)(channels + c)];
        },
        put);
}

IMAGE_KERNEL norm_forward(const struct net_view *net, int first, int i)
{
    const struct block_view &block = net->block[i];
    const struct world *world = net->source.world;
    const size_t env = (size_t)first + blockIdx.y;
    const struct norm norm = norm_at(net->norms + (size_t)blockIdx.y * net->norm + block.norm, block.conv.cout);
    const float *gamma = world->host + env * net->host_storage + block.gamma,
                *beta = world->host + env * net->host_storage + block.beta;
    float *running_mean = world->stats + env * world->shape.stats + block.mean,
          *running_var = world->stats + env * world->shape.stats + block.var;
    const double count = (double)net->batch * block.pixels;
    batch_sums(net, block.conv.cout, [&](int c, const double *total) {
        double off = total[0] / count, mean = (double)running_mean[c] + off, var = total[1] / count - off * off;
        var = var < 0 ? 0 : var;
        norm_set(norm, c, mean, 1 / sqrt(var + NORM_EPS), gamma[c], beta[c]);
        /* The running variance is the unbiased one; a single value has none and keeps the biased zero. */
        double unbiased = count > 1 ? var * count / (count - 1) : var;
        running_mean[c] = (float)((1 - NORM_MOMENTUM) * (double)running_mean[c] + NORM_MOMENTUM * mean);
        running_var[c] = (float)((1 - NORM_MOMENTUM) * (double)running_var[c] + NORM_MOMENTUM * unbiased);
    });
}

/* ---- head and backward ------------------------------------------------------------------------------------------- */

IMAGE_KERNEL head(const struct net_view *net, int first, uint32_t index)
{
    __shared__ float logits[SHAPE_CLASSES];
    const struct image image = batch_image(net, first);
    const struct block_view &last = net->block[net->blocks - 1];
    const int label = train_view(image, index).label, pixels = last.pool ? last.pixels / 4 : last.pixels;
    tail_forward(image, last, slots_on(image));
    image_classify(image, logits);
    float *dlogits = image.frame + net->dlogit;
    if (threadIdx.x < SHAPE_CLASSES) {
        const int k = (int)threadIdx.x;
        struct verdict verdict = image_judge(logits, label);
        double share = exp((double)logits[k] - (double)logits[verdict.best]) / verdict.total;
        dlogits[k] = (float)((share - (k == label)) / net->batch);
        if (k == 0) {
            image.figures[net->loss] = verdict.loss;
            image.figures[net->right] = verdict.best == label;
        }
    }
    __syncthreads();
    const float *w = image.host + net->fc_weight;
    float *g = tail_gradient(image, last);
    each_value(pixels, net->features, [&](int i, int c) {
        float sum = 0;
        for (int k = 0; k < SHAPE_CLASSES; k++)
            sum = fmaf(w[k * net->features + c], dlogits[k], sum);
        g[i] = sum / (float)pixels;
    });
    tail_backward(image, net->blocks - 1);
}

IMAGE_KERNEL norm_backward(const struct net_view *net, int i)
{
    const struct block_view &block = net->block[i];
    const struct norm norm = norm_at(net->norms + (size_t)blockIdx.y * net->norm + block.norm, block.conv.cout);
    float *grads = net->grads + (size_t)blockIdx.y * net->grad;
    const double count = (double)net->batch * block.pixels;
    batch_sums(net, block.conv.cout, [&](int c, const double *total) {
        double rstd = (double)norm.rstd[c], gamma = rstd > 0 ? (double)norm.scale[c] / rstd : 0;
        double sum_vx = total[1] * rstd;
        grads[block.gamma + (uint32_t)c] = (float)sum_vx;
        grads[block.beta + (uint32_t)c] = (float)total[0];
        norm_set_backward(norm, c, gamma, gamma * total[0] / count, gamma * sum_vx / count);
    });
}

/* The block's norm and convolution backward, and the tail of the block below. */
IMAGE_KERNEL block_backward(const struct net_view *net, int first, int i)
{
    const struct image image = batch_image(net, first);
    const struct block_view &block = net->block[i];
    float *g = image.frame + block.grad;
    norm_grad(block.pixels, block.conv.cout, block_norm(image, block), true, image.frame + block.raw, g, g);
    if (i == 0)
        return;
    convolve(convolution_backward(block.conv.height, block.conv.width, block.conv.kernel, block.conv.cin,
                                  block.conv.cout, g, image.host + block.weight, nullptr,
                                  tail_gradient(image, net->block[i - 1])));
    tail_backward(image, i - 1);
}

/* ---- gradients of weights ---------------------------------------------------------------------------------------- */

/* Block of the host that a slot belongs to, and its row. */
DEVICE int slot_block(const struct net_view *net, int slot, int *row)
{
    for (int i = 0;; i++)
        for (*row = 0; *row < SLOT_ROWS; ++*row)
            if (net->block[i].slot[*row] == slot)
                return i;
}

IMAGE_KERNEL weights(const struct net_view *net, int first)
{
    const struct weight_work work = net->work[blockIdx.x];
    const int place = (int)blockIdx.y;
    const struct image image = image_of(net, first + place, place, (size_t)place * (size_t)net->batch);
    float *partials = net->partials + (size_t)place * net->partial;
    struct weight_sums job;
    int chunk;
    if (work.block >= 0) {
        const struct block_view &block = net->block[work.block];
        const struct layer_view &conv = block.conv;
        chunk = conv.chunk;
        job = {conv.height, conv.width, conv.kernel, conv.cin, conv.cout, false, image.frame + block.in,
               image.frame + block.grad, conv.in_stride, 0, 0, nullptr};
        const size_t size = (size_t)(conv.cout * conv.kernel * conv.kernel * conv.cin);
        job.out = partials + block.partial + (size_t)work.chunk * size;
    } else {
        const struct slot_exec exec = image.exec[work.slot];
        const struct slot_view &slot = net->slot[work.slot];
        if (!slot_learns(exec))
            return;
        const struct seed_view &seed = slot.seed_of[exec.blueprint];
        if (work.step >= seed.steps)
            return;
        const struct step_view &step = seed.step[work.step];
        int row, block = slot_block(net, work.slot, &row);
        const bool depthwise = step.kind == STEP_DEPTHWISE;
        const float *in =
            work.step > 0 ? image.frame + seed.step[work.step - 1].act : slot_input(image, block, row);
        chunk = slot.chunk;
        job = {slot.height, slot.width, step.kernel, step.cin, step.cout, depthwise, in, image.frame + step.grad,
               step.cin, 0, 0, nullptr};
        job.out = partials + slot.partial + (size_t)work.chunk * slot.seed_storage + step.weight;
    }
    const int from = work.chunk * chunk, left = net->batch - from;
    job.image = net->frame;
    job.images = left < chunk ? left : chunk;
    job.in += (size_t)from * net->frame;
    job.grad += (size_t)from * net->frame;
    sum_weights(job, work.part);
}

/* Sum over the chunks, at one weight. */
DEVICE float chunk_total(const float *partial, size_t size, int chunks)
{
    float sum = 0;
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
    for (int n = 0; n < batch.images; n++)
        sum += batch.figure[(size_t)n * batch.figure_step + figure];
    return (float)sum;
}

DEVICE float figure_product(const struct batch_view &batch, uint32_t figure, uint32_t value)
{
    double sum = 0;
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
            return now[at]; /* norm_backward has written it; the gap between the two stays zero */
    }
    const uint32_t features = (uint32_t)net->features, k = (at - net->fc_weight) / features, c = (at - net->fc_weight) % features;
    double sum = 0;
    if (at >= net->fc_weight && at < net->fc_weight + SHAPE_CLASSES * features) {
        for (int n = 0; n < batch.images; n++) {
            const float *frame = batch.frame + (size_t)n * batch.frame_step;
            sum += (double)frame[net->dlogit + k] * (double)frame[net->feature + c];
        }
    } else if (at >= net->fc_bias && at < net->fc_bias + SHAPE_CLASSES) {
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
    const uint32_t dz = slot.sums, dhidden = slot.sums + c, mean = slot.norms, kept = slot.norms + 4 * c; /* gain */
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

/* Number of the tensor that holds place `at`, which becomes the place within it; -1 in the gaps between tensors. */
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

/* One thread per parameter: add up what chunks and images hold. */
KERNEL void __launch_bounds__(REDUCE_THREADS) reduce(const struct net_view *net, int first)
{
    const int place = (int)blockIdx.y;
    uint32_t at = blockIdx.x * REDUCE_THREADS + threadIdx.x;
    if (at >= net->host_storage + net->seed_storage + net->gate_storage)
        return;
    const struct slot_exec *exec = net->exec + (size_t)(first + place) * (size_t)net->slots;
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
    for (uint32_t i = threadIdx.x; i < count; i += BLOCK_THREADS)
        sum += (double)g[i] * (double)g[i];
    return block_total(sum);
}

DEVICE void measure_tensors(const struct tensor_view *tensor, int count, const float *g, struct part_norms *norms)
{
    for (int t = 0; t < count; t++) {
        const double square = square_norm(g + tensor[t].offset, tensor[t].size), norm = sqrt(square);
        const bool finite = isfinite(norm);
        norms->tensors++;
        norms->vanishing += norm < 1e-7;
        norms->exploding += !finite || norm > 10.0;
        norms->finite = norms->finite && finite;
        norms->square += square;
    }
}

/* A block per env and part: the host, and each slot that is trained. The host's also adds up the batch's losses. */
IMAGE_KERNEL measure(const struct net_view *net, int first)
{
    const int place = (int)blockIdx.y, part = (int)blockIdx.x, env = first + place;
    const float *grads = net->grads + (size_t)place * net->grad;
    struct part_norms norms = {0, 0, 0, 0, true};
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
        const struct slot_exec exec = net->exec[(size_t)env * (size_t)net->slots + (size_t)(part - 1)];
        if (!exec.train)
            return;
        const struct seed_view &seed = slot.seed_of[exec.blueprint];
        const float *seeds = grads + net->host_storage, *gates = seeds + net->seed_storage;
        measure_tensors(seed.tensor, seed.tensors, seeds + slot.seed, &norms);
        if (exec.gate)
            measure_tensors(slot.gate_tensor, GATE_TENSORS, gates + slot.gate, &norms);
    }
    if (threadIdx.x == 0)
        net->part[(size_t)place * NET_PARTS + (size_t)part] = norms;
}

/* What kasmina 10.2 reports of a slot. */
DEVICE struct slot_grads slot_report(const struct net_view *net, const struct part_norms *part, int slot,
                                     const struct slot_exec &exec)
{
    struct slot_grads grads = {false, 0, 0, 0, false, false, true};
    if (exec.mode == SLOT_SKIP)
        return grads;
    grads.measured = true;
    grads.health = 1;
    if (!exec.train) /* frozen: no gradient at all, which is healthy */
        return grads;
    const struct slot_view &view = net->slot[slot];
    const struct part_norms &own = part[1 + slot];
    const double norm = sqrt(own.square), host = sqrt(part[0].square), tensors = own.tensors ? own.tensors : 1;
    const double params = (double)view.seed_of[exec.blueprint].params + (exec.gate ? (double)view.gate_params : 0);
    grads.norm = norm;
    grads.finite = own.finite;
    grads.vanishing = own.vanishing > 0;
    grads.exploding = own.exploding > 0;
    grads.health = 1 - 0.5 * own.vanishing / tensors - 0.8 * own.exploding / tensors;
    if (!grads.finite || grads.health < 0)
        grads.health = 0;
    if (norm >= 1e-8 && host >= 1e-8)
        grads.ratio = norm / sqrt(params) / (host / sqrt((double)net->host_params) + 1e-8);
    return grads;
}

DEVICE float clip_factor(double square, double max_norm)
{
    const double norm = sqrt(square), factor = max_norm / (norm + 1e-6);
    return (float)(factor < 1 ? factor : norm != norm ? norm : 1); /* a NAN gradient must not pass for a small one */
}

DEVICE void sgd_step(const struct sgd &sgd, float factor, float g, float *w, float *m)
{
    *m = fmaf(sgd.momentum, *m, fmaf(factor, g, sgd.weight_decay * *w));
    *w = fmaf(-sgd.lr, *m, *w);
}

/* One thread per parameter. */
KERNEL void __launch_bounds__(REDUCE_THREADS) update(const struct net_view *net, int first)
{
    const struct world *world = net->source.world;
    const int place = (int)blockIdx.y;
    const size_t env = (size_t)(first + place);
    uint32_t at = blockIdx.x * REDUCE_THREADS + threadIdx.x;
    if (at >= net->host_storage + net->seed_storage + net->gate_storage)
        return;
    const struct slot_exec *exec = net->exec + env * (size_t)net->slots;
    const struct part_norms *part = net->part + (size_t)place * NET_PARTS;
    const float g = net->grads[(size_t)place * net->grad + at];
    if (at < net->host_storage) {
        const size_t i = env * net->host_storage + at;
        sgd_step(net->rates.host, clip_factor(part[0].square, net->rates.max_grad_norm), g, &world->host[i],
                 &world->host_momentum[i]);
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
    const float factor = clip_factor(part[1 + j].square, net->rates.max_grad_norm);
    const size_t i = env * (gates ? net->gate_storage : net->seed_storage) + at;
    sgd_step(net->rates.seed, factor, g, gates ? &world->gate[i] : &world->seed[i],
             gates ? &world->gate_momentum[i] : &world->seed_momentum[i]);
}

/* ---- the step ---------------------------------------------------------------------------------------------------- */

KERNEL void begin_step(const struct net_view *net, int envs)
{
    const int env = (int)(blockIdx.x * REDUCE_THREADS + threadIdx.x);
    if (env < envs) {
        net->train_loss[env] = 0;
        net->train_right[env] = 0;
    }
}

/* After the last batch: what the step measured. One thread per env of the group. */
KERNEL void end_step(const struct net_view *net, int first, int envs)
{
    const int place = (int)(blockIdx.x * REDUCE_THREADS + threadIdx.x), env = first + place;
    if (place >= envs)
        return;
    const struct world *world = net->source.world;
    const double images = (double)net->source.batches * net->batch;
    world->train_loss[env] = net->train_loss[env] / images;
    world->train_accuracy[env] = 100 * (double)net->train_right[env] / images;
    for (int j = 0; j < net->slots; j++) {
        const size_t row = (size_t)env * (size_t)net->slots + (size_t)j;
        net->slot_grads[row] = slot_report(net, net->part + (size_t)place * NET_PARTS, j, net->exec[row]);
    }
}

static struct launch blocks_of(unsigned columns, int envs, unsigned threads)
{
    struct launch shape = {dim3(columns, (unsigned)envs), dim3(threads), 0, false};
    return shape;
}

static void enqueue_batch(struct net_device *device, int first, int envs, uint32_t index)
{
    struct runtime *rt = device->context->runtime;
    const struct net_view *net = device->net;
    const int blocks = device->view.blocks;
    const struct launch images = blocks_of((unsigned)device->view.batch, envs, BLOCK_THREADS);
    const struct launch one = blocks_of(1, envs, BLOCK_THREADS);
    const unsigned parameters = device->view.host_storage + device->view.seed_storage + device->view.gate_storage;
    const struct launch each = blocks_of((parameters + REDUCE_THREADS - 1) / REDUCE_THREADS, envs, REDUCE_THREADS);
    net_fp32_pack(device, first, envs);
    for (int i = 0; i < blocks; i++) {
        runtime_launch(rt, block_forward, images, net, first, i, index);
        runtime_launch(rt, norm_forward, one, net, first, i);
    }
    runtime_launch(rt, head, images, net, first, index);
    for (int i = blocks - 1; i >= 0; i--) {
        runtime_launch(rt, norm_backward, one, net, i);
        runtime_launch(rt, block_backward, images, net, first, i);
    }
    runtime_launch(rt, weights, blocks_of(device->work, envs, BLOCK_THREADS), net, first);
    runtime_launch(rt, reduce, each, net, first);
    runtime_launch(rt, measure, blocks_of(1 + (unsigned)device->view.slots, envs, BLOCK_THREADS), net, first);
    runtime_launch(rt, update, each, net, first);
}

void net_fp32_train(struct net_device *device)
{
    struct context *context = device->context;
    const int all = context->host->envs;
    const unsigned threads = REDUCE_THREADS;
    net_plan_train(context);
    runtime_launch(context->runtime, begin_step, blocks_of(((unsigned)all + threads - 1) / threads, 1, threads),
                   device->net, all);
    for (int first = 0; first < all; first += device->view.group) {
        const int envs = all - first < device->view.group ? all - first : device->view.group;
        for (uint32_t index = 0; index < context->batches; index++)
            enqueue_batch(device, first, envs, index);
        runtime_launch(context->runtime, end_step, blocks_of(((unsigned)envs + threads - 1) / threads, 1, threads),
                       device->net, first, envs);
    }
}
