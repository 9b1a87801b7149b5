/*
 * The path of one image through a block: convolution, and its tail, norm -> ReLU -> slot r0 -> pool -> slot r1, forward
 * and backward. Training and evaluation share it.
 */
#ifndef CNN_FP32_TAIL_CUH
#define CNN_FP32_TAIL_CUH

#include "cnn/fp32/seed.cuh"
#include "nn/pool.cuh"

/* Registers are divided by the blocks that a precision wants on an SM at a time. */
#define PASS_KERNEL KERNEL void __launch_bounds__(BLOCK_THREADS, P::BLOCKS)

/* Values after the ReLU. */
template <class P>
DEVICE struct source<typename P::map> block_source(const struct image &image, const struct block_view &block) {
    const typename P::map *raw = map_at<P>(image.frame, block.raw);
    return source_normed(raw, block_norm(image, block));
}

/* From slot r1's input on: mixed or unchanged. */
template <class P>
DEVICE_CALL void tail_from_second_slot(const struct image &image, const struct block_view &block, bool on)
{
    const struct slot_view &slot = image.net->slot[block.slot[1]];
    const typename P::map *x = map_at<P>(image.frame, slot.x);
    typename P::map *out = map_at<P>(image.frame, block.out);
    if (on)
        slot_forward<P>(image, block.slot[1], x, out);
    else
        map_write(slot.pixels, slot.channels, source_plain(x), out);
}

/* The pool, if there is one, and what follows it. */
template <class P>
DEVICE_CALL void tail_from_pool(const struct image &image, const struct block_view &block,
                                const struct source<typename P::map> &from, uint32_t on)
{
    const bool second = slot_mixes(image, block.slot[1]);
    typename P::map *to = map_at<P>(image.frame, second ? image.net->slot[block.slot[1]].x : block.out);
    if (block.pool)
        pool_forward(block.conv.height, block.conv.width, block.conv.cout, from, to);
    else
        map_write(block.pixels, block.conv.cout, from, to);
    if (second)
        tail_from_second_slot<P>(image, block, on >> block.slot[1] & 1u);
}

/* From slot r0's input on. */
template <class P>
DEVICE void tail_from_first_slot(const struct image &image, const struct block_view &block, uint32_t on)
{
    const struct slot_view &slot = image.net->slot[block.slot[0]];
    const bool mixed = on >> block.slot[0] & 1u;
    const typename P::map *x = map_at<P>(image.frame, slot.x);
    typename P::map *y = map_at<P>(image.frame, slot.y);
    if (mixed)
        slot_forward<P>(image, block.slot[0], x, y);
    tail_from_pool<P>(image, block, source_plain(mixed ? y : x), on);
}

/* From a block's raw output to its output. `on` has the bits of the slots that mix. */
template <class P> DEVICE void tail_forward(const struct image &image, const struct block_view &block, uint32_t on)
{
    const struct source<typename P::map> host = block_source<P>(image, block);
    if (slot_mixes(image, block.slot[0])) {
        map_write(block.pixels, block.conv.cout, host, map_at<P>(image.frame, image.net->slot[block.slot[0]].x));
        tail_from_first_slot<P>(image, block, on);
    } else {
        tail_from_pool<P>(image, block, host, on);
    }
}

/* Where the gradient of the block's output is stored: tail_backward starts from there. */
template <class P> DEVICE typename P::map *tail_gradient(const struct image &image, const struct block_view &block)
{
    return map_at<P>(image.frame, block.pool ? block.pooled : block.grad);
}

/* The gradient before the pool is not needed as a map: what it would be follows from the one after it. */
template <class P> DEVICE bool tail_fused(const struct image &image, const struct block_view &block)
{
    return P::FUSED && block.pool && !slot_mixes(image, block.slot[0]) &&
           (block.conv.height | block.conv.width) % 2 == 0;
}

/* From the gradient of the block's output to the one after its ReLU, and the image's share of BatchNorm's sums. */
template <class P> DEVICE void tail_backward(const struct image &image, int i)
{
    typedef typename P::map M;
    const struct net_view &net = *image.net;
    const struct block_view &block = net.block[i];
    const int first = block.slot[0], second = block.slot[1];
    const struct source<M> host = block_source<P>(image, block);
    const bool onlooker = slot_mode_at(image, first) == SLOT_STE && image.exec[first].train;
    const bool fused = tail_fused<P>(image, block);
    M *g = map_at<P>(image.frame, block.grad), *pooled = map_at<P>(image.frame, block.pooled);
    if (block.pool) {
        if (slot_mixes(image, second))
            slot_backward<P>(image, second, map_at<P>(image.frame, slot_input(image, i, 1)), pooled);
        else if (slot_mode_at(image, second) == SLOT_STE && image.exec[second].train)
            slot_look_on<P>(image, second, map_at<P>(image.frame, slot_input(image, i, 1)), pooled);
        const struct source<M> seen = slot_mixes(image, first) ? source_plain(map_at<P>(image.frame, net.slot[first].y))
                                                               : host;
        if (!fused || onlooker)
            pool_backward(block.conv.height, block.conv.width, block.conv.cout, seen, pooled, g);
    }
    if (slot_mixes(image, first)) {
        slot_backward<P>(image, first, map_at<P>(image.frame, slot_input(image, i, 0)), g);
    } else if (onlooker) {
        map_write(block.pixels, block.conv.cout, host, map_at<P>(image.frame, net.slot[first].x));
        slot_look_on<P>(image, first, map_at<P>(image.frame, slot_input(image, i, 0)), g);
    }
    double *sums = image.figures + net.block_sums;
    const auto put = [&](int c, const double *total) {
        sums[c] = total[0];
        sums[block.conv.cout + c] = total[1];
    };
    if (fused)
        pool_grad_sums(block.conv.height, block.conv.width, block.conv.cout, block_norm(image, block), host.map, pooled,
                       put);
    else
        norm_grad_sums(block.pixels, block.conv.cout, block_norm(image, block), true, host.map, g, put);
}

/* ---- the classifier ---------------------------------------------------------------------------------------------- */

/* Mean features of the image, and its logits in `logits`, which is shared memory. */
template <class P> DEVICE void image_classify(const struct image &image, float *logits)
{
    const struct net_view &net = *image.net;
    const struct block_view &last = net.block[net.blocks - 1];
    const int pixels = last.pool ? last.pixels / 4 : last.pixels;
    float *features = image.frame + net.feature;
    mean_forward(pixels, net.features, map_at<P>(image.frame, last.out), features);
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
template <class P> DEVICE void image_write(const struct image &image, const struct gather_view &view)
{
    const struct gather_data &data = image.net->setup->source.data;
    const int size = data.size;
    for (int p = (int)threadIdx.x; p < size * size; p += BLOCK_THREADS)
        P::pixel(image.frame + image.net->input, p, gather_pixel(data.normalise, view, size, p / size, p % size));
    __syncthreads();
}

#endif
