/*
 * The path of one image through a block: convolution, and its tail, norm -> ReLU -> slot r0 -> pool -> slot r1, forward
 * and backward. Training and evaluation share it.
 */
#ifndef CNN_FP32_TAIL_CUH
#define CNN_FP32_TAIL_CUH

#include "cnn/fp32/seed.cuh"

DEVICE void block_convolve(const struct image &image, const struct block_view &block)
{
    struct convolution job = convolution_forward(block.conv.height, block.conv.width, block.conv.kernel, block.conv.cin,
                                                 block.conv.cout, image.frame + block.in,
                                                 image.packed_host + block.weight, image.frame + block.raw);
    job.in_stride = block.conv.in_stride;
    convolve(job);
}

/* Values after the ReLU. */
DEVICE struct source block_source(const struct image &image, const struct block_view &block)
{
    return source_normed(image.frame + block.raw, block_norm(image, block));
}

/* From slot r1's input on: mixed or unchanged. */
DEVICE_CALL void tail_from_second_slot(const struct image &image, const struct block_view &block, bool on)
{
    const struct slot_view &slot = image.net->slot[block.slot[1]];
    float *x = image.frame + slot.x, *out = image.frame + block.out;
    if (on)
        slot_forward(image, block.slot[1], x, out);
    else
        map_write(slot.pixels, slot.channels, source_plain(x), out);
}

/* The pool, if there is one, and what follows it. */
DEVICE_CALL void tail_from_pool(const struct image &image, const struct block_view &block, const struct source &from,
                                uint32_t on)
{
    const bool second = slot_mixes(image, block.slot[1]);
    float *to = image.frame + (second ? image.net->slot[block.slot[1]].x : block.out);
    if (block.pool)
        pool_forward(block.conv.height, block.conv.width, block.conv.cout, from, to);
    else
        map_write(block.pixels, block.conv.cout, from, to);
    if (second)
        tail_from_second_slot(image, block, on >> block.slot[1] & 1u);
}

/* From slot r0's input on. */
DEVICE void tail_from_first_slot(const struct image &image, const struct block_view &block, uint32_t on)
{
    const struct slot_view &slot = image.net->slot[block.slot[0]];
    const bool mixed = on >> block.slot[0] & 1u;
    if (mixed)
        slot_forward(image, block.slot[0], image.frame + slot.x, image.frame + slot.y);
    tail_from_pool(image, block, source_plain(image.frame + (mixed ? slot.y : slot.x)), on);
}

/* From a block's raw output to its output. `on` has the bits of the slots that mix. */
DEVICE void tail_forward(const struct image &image, const struct block_view &block, uint32_t on)
{
    const struct source host = block_source(image, block);
    if (slot_mixes(image, block.slot[0])) {
        map_write(block.pixels, block.conv.cout, host, image.frame + image.net->slot[block.slot[0]].x);
        tail_from_first_slot(image, block, on);
    } else {
        tail_from_pool(image, block, host, on);
    }
}

/* Where the gradient of the block's output is stored: tail_backward starts from there. */
DEVICE float *tail_gradient(const struct image &image, const struct block_view &block)
{
    return image.frame + (block.pool ? image.net->gpool : block.grad);
}

/* From the gradient of the block's output to the one after its ReLU, and the image's share of BatchNorm's sums. */
DEVICE void tail_backward(const struct image &image, int i)
{
    const struct net_view &net = *image.net;
    const struct block_view &block = net.block[i];
    const int first = block.slot[0], second = block.slot[1];
    const struct source host = block_source(image, block);
    float *g = image.frame + block.grad, *pooled = image.frame + net.gpool;
    if (block.pool) {
        if (slot_mixes(image, second))
            slot_backward(image, second, slot_input(image, i, 1), pooled);
        else if (slot_mode_at(image, second) == SLOT_STE && image.exec[second].train)
            slot_look_on(image, second, slot_input(image, i, 1), pooled);
        struct source seen = slot_mixes(image, first) ? source_plain(image.frame + net.slot[first].y) : host;
        pool_backward(block.conv.height, block.conv.width, block.conv.cout, seen, pooled, g);
    }
    if (slot_mixes(image, first)) {
        slot_backward(image, first, slot_input(image, i, 0), g);
    } else if (slot_mode_at(image, first) == SLOT_STE && image.exec[first].train) {
        map_write(block.pixels, block.conv.cout, host, image.frame + net.slot[first].x);
        slot_look_on(image, first, slot_input(image, i, 0), g);
    }
    double *sums = image.figures + net.block_sums;
    norm_grad_sums(block.pixels, block.conv.cout, block_norm(image, block), true, image.frame + block.raw, g,
                   [&](int c, const double *total) {
                       sums[c] = total[0];
                       sums[block.conv.cout + c] = total[1];
                   });
}

/* ---- the classifier ---------------------------------------------------------------------------------------------- */

/* Mean features of the image, and its logits in `logits`, which is shared memory. */
DEVICE void image_classify(const struct image &image, float *logits)
{
    const struct net_view &net = *image.net;
    const struct block_view &last = net.block[net.blocks - 1];
    const int pixels = last.pool ? last.pixels / 4 : last.pixels;
    float *features = image.frame + net.feature;
    mean_forward(pixels, net.features, image.frame + last.out, features);
    const float *w = image.host + net.fc_weight, *bias = image.host + net.fc_bias;
    for (int k = (int)threadIdx.x; k < net.classes; k += BLOCK_THREADS) {
        float sum = 0;
        for (int c = 0; c < net.features; c++)
            sum = fmaf(w[k * net.features + c], features[c], sum);
        logits[k] = sum + bias[k];
    }
    __syncthreads();
}

struct verdict {
    double loss, total; /* total: of exp(logit - largest) */
    int best;
};

DEVICE struct verdict image_judge(const float *logits, int classes, int label)
{
    struct verdict verdict = {0, 0, 0};
    for (int k = 1; k < classes; k++)
        if (logits[k] > logits[verdict.best])
            verdict.best = k;
    for (int k = 0; k < classes; k++)
        verdict.total += exp((double)logits[k] - (double)logits[verdict.best]);
    verdict.loss = log(verdict.total) + (double)logits[verdict.best] - (double)logits[label];
    return verdict;
}

/* Write the image that the view selects. */
DEVICE void image_write(const struct image &image, const struct gather_view &view)
{
    const struct gather_data &data = image.net->setup->source.data;
    const int size = data.size;
    float4 *to = reinterpret_cast<float4 *>(image.frame + image.net->input);
    for (int p = (int)threadIdx.x; p < size * size; p += BLOCK_THREADS)
        to[p] = gather_pixel(data.normalise, view, size, p / size, p % size);
    __syncthreads();
}

#endif
