/*
 * The passes of a training batch, for a precision P (floats.cuh) and a group of envs:
 *
 *   images    into the frames
 *   forward   for each block: [tail of the block below -> conv], then the block's mean and variance
 *   head      tail of the last block, classifier, loss, and back through that tail
 *   backward  for each block: BatchNorm's sums are known; [norm -> conv -> tail of the block below]
 *   weights   gradients of all weights, of host and seeds, over chunks of images
 *   update    update.cu
 *
 * Brackets are a kernel with one thread block per image.
 */
#ifndef CNN_FP32_PASSES_CUH
#define CNN_FP32_PASSES_CUH

#include "cnn/fp32/tail.cuh"

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

/* The image of the batch, looked up by one thread, and its label for the head. */
template <class P> PASS_KERNEL batch_gather(const struct net_view *net, int first, uint32_t index)
{
    __shared__ struct gather_view view;
    const struct image image = batch_image(net, first);
    if (threadIdx.x == 0) {
        view = gather_train_view(net->setup->source, (uint32_t)image.env, index, blockIdx.x);
        image.figures[net->label] = view.label;
    }
    __syncthreads();
    image_write<P>(image, view);
}

template <class P> PASS_KERNEL block_forward(const struct net_view *net, int first, int i)
{
    const struct image image = batch_image(net, first);
    const struct block_view &block = net->block[i];
    if (i > 0)
        tail_forward<P>(image, net->block[i - 1], slots_on(image));
    const float *mean = net->setup->stats + block.mean + (size_t)image.env * net->setup->shape.stats;
    double *sums = image.figures + net->block_sums;
    /* relative to the running mean, which is close: no cancellation */
    P::block_forward_moments(image, block, mean, [&](int c, const double *total) {
        sums[c] = total[0];
        sums[block.conv.cout + c] = total[1];
    });
}

/* ---- head and backward ------------------------------------------------------------------------------------------- */

template <class P> PASS_KERNEL head(const struct net_view *net, int first)
{
    __shared__ float logits[SHAPE_CLASSES_MAX];
    const struct image image = batch_image(net, first);
    const struct block_view &last = net->block[net->blocks - 1];
    const int label = (int)image.figures[net->label], pixels = last.pool ? last.pixels / 4 : last.pixels;
    tail_forward<P>(image, last, slots_on(image));
    image_classify<P>(image, logits);
    float *dlogits = image.frame + net->dlogit;
    if ((int)threadIdx.x < net->classes) {
        const struct verdict verdict = image_judge(logits, net->classes, label);
        for (int k = (int)threadIdx.x; k < net->classes; k += BLOCK_THREADS) {
            double share = exp((double)logits[k] - (double)logits[verdict.best]) / verdict.total;
            dlogits[k] = (float)((share - (k == label)) / net->batch);
            image.frame[net->logit + (uint32_t)k] = logits[k];
        }
        if (threadIdx.x == 0) {
            image.figures[net->loss] = verdict.loss;
            image.figures[net->right] = verdict.best == label;
        }
    }
    __syncthreads();
    const float *w = image.host + net->fc_weight;
    double *each = channel_scratch(); /* of every pixel, the same */
    for (int c = (int)threadIdx.x; c < net->features; c += BLOCK_THREADS) {
        float sum = 0;
        for (int k = 0; k < net->classes; k++)
            sum = fmaf(w[k * net->features + c], dlogits[k], sum);
        each[c] = (double)(sum / (float)pixels);
    }
    __syncthreads();
    map_set(pixels, net->features, tail_gradient<P>(image, last),
            [&](int, int c) { return real_channels_of<typename P::map>(each, c, net->features); });
    tail_backward<P>(image, net->blocks - 1);
}

/* The block's norm and convolution backward, and the tail of the block below. */
template <class P> PASS_KERNEL block_backward(const struct net_view *net, int first, int i)
{
    const struct image image = batch_image(net, first);
    const struct block_view &block = net->block[i];
    typename P::map *g = map_at<P>(image.frame, block.grad);
    const typename P::map *raw = map_at<P>(image.frame, block.raw);
    if (tail_fused<P>(image, block))
        pool_grad(block.conv.height, block.conv.width, block.conv.cout, block_norm(image, block), raw,
                  map_at<P>(image.frame, block.pooled), g);
    else
        norm_grad(block.pixels, block.conv.cout, block_norm(image, block), true, raw, g, g);
    if (i == 0)
        return;
    P::block_backward(image, block, g, tail_gradient<P>(image, net->block[i - 1]));
    tail_backward<P>(image, i - 1);
}

/* ---- gradients of weights ---------------------------------------------------------------------------------------- */

/* The host block that a slot belongs to, and its row. */
DEVICE int slot_block(const struct net_view *net, int slot, int *row)
{
    for (int i = 0;; i++)
        for (*row = 0; *row < SLOT_ROWS; ++*row)
            if (net->block[i].slot[*row] == slot)
                return i;
}

template <class P> PASS_KERNEL weights(const struct net_view *net, int first)
{
    const struct weight_work work = net->work[blockIdx.x];
    const int place = (int)blockIdx.y;
    const struct image image = image_of(net, first + place, place, (size_t)place * (size_t)net->batch);
    float *out = net->partials + (size_t)place * net->partial;
    struct layer_view layer;
    uint32_t in, grad;
    bool depthwise = false;
    if (work.block >= 0) {
        const struct block_view &block = net->block[work.block];
        layer = block.conv;
        in = block.in;
        grad = block.grad;
        out += block.partial + (size_t)work.chunk * (size_t)(layer.cout * layer.kernel * layer.kernel * layer.cin);
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
        depthwise = step.kind == STEP_DEPTHWISE;
        layer = step_layer(slot, step);
        in = work.step > 0 ? seed.step[work.step - 1].act : slot_input(image, block, row);
        grad = step.grad;
        out += slot.partial + (size_t)work.chunk * slot.seed_storage + step.weight;
    }
    const int from = work.chunk * layer.chunk, left = net->batch - from;
    float *frame = image.frame + (size_t)from * net->frame;
    P::weights(layer, depthwise, map_at<P>(frame, in), map_at<P>(frame, grad),
               net->frame * sizeof(float) / sizeof(typename P::map), left < layer.chunk ? left : layer.chunk, work.part,
               out);
}

/* ---- enqueued ---------------------------------------------------------------------------------------------------- */

template <class P> void enqueue_gather(struct framed_net *device, int first, int envs, uint32_t index)
{
    runtime_launch(device->runtime, batch_gather<P>, image_blocks(device, envs, 0), device->net, first, index);
}

template <class P> void enqueue_learn(struct framed_net *device, int first, int envs)
{
    struct runtime *rt = device->runtime;
    const struct net_view *net = device->net;
    const int blocks = device->view.blocks;
    const auto images = [&](int i) { return image_blocks(device, envs, device->shared[i]); };
    device->passes->pack(device, first, envs);
    for (int i = 0; i < blocks; i++) {
        runtime_launch(rt, block_forward<P>, images(i), net, first, i);
        framed_norm_forward(device, first, envs, i);
    }
    runtime_launch(rt, head<P>, images(blocks), net, first);
    for (int i = blocks - 1; i >= 0; i--) {
        framed_norm_backward(device, envs, i);
        runtime_launch(rt, block_backward<P>, images(i), net, first, i);
    }
    runtime_launch(rt, weights<P>, net_blocks(device->work, envs, BLOCK_THREADS, device->shared_weights), net, first);
    framed_update(device, first, envs);
}

/* Once, in create: the most that a net of any shape needs, as the kernels are those of all of them. */
template <class P> void allow_passes(struct framed_net *device, uint32_t most)
{
    struct runtime *rt = device->runtime;
    runtime_allow_shared(rt, block_forward<P>, most);
    runtime_allow_shared(rt, head<P>, most);
    runtime_allow_shared(rt, block_backward<P>, most);
    runtime_allow_shared(rt, weights<P>, most);
}

#endif
