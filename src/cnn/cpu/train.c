/*
 * One training batch. BatchNorm couples the images of a batch; everything else is done image by image, so the batch
 * passes each block twice in either direction with the statistics in between:
 *
 *   forward   for each block: [tail of the block below -> conv], then the block's mean and variance
 *   backward  for each block: BatchNorm's sums are known; [input gradient of norm -> conv -> tail of the block below]
 *
 * where a block's tail is norm -> ReLU -> slot r0 -> pool -> slot r1. Brackets are run for a small group of images at a
 * time, which stay in the cache. Seeds in TRAINING are leaves: their forward and backward passes both happen in the
 * tail's backward pass, where the gradient at their boundary is available.
 */
#include <math.h>
#include <string.h>

#include "cnn/cpu/work.h"

/* A batch being processed. */
struct pass {
    struct net *net;
    const struct net_params *params;
    const struct net_batch *batch;
    double sum[NORM_MAX_CHANNELS], moment[NORM_MAX_CHANNELS];
};

static enum slot_mode slot_mode_of(const struct pass *pass, int slot)
{
    return slot < 0 ? SLOT_SKIP : (enum slot_mode)pass->batch->exec[slot].mode;
}

/*
 * Nothing is blended between ReLU and pool: the two are one pass, forward and backward. A seed in TRAINING there only
 * observes, and the host must compute exactly what it computes without it (I-24).
 */
static bool pools_straight(const struct pass *pass, const struct net_block *block)
{
    return block->pool && slot_mode_of(pass, block->slot[0]) != SLOT_BLEND;
}

/* A first block of one channel keeps its raw output and the pool's winners as planes, one real per pixel. */
static bool in_planes(const struct pass *pass, const struct net_block *block)
{
    return block->plane && pools_straight(pass, block);
}

static size_t raw_size(const struct pass *pass, const struct net_block *block)
{
    return in_planes(pass, block) ? block->map / LANES : block->map;
}

static size_t winners_size(const struct pass *pass, const struct net_block *block)
{
    return in_planes(pass, block) ? block->out_map / LANES : block->out_map;
}

static void clear_sums(struct pass *pass, int cp)
{
    memset(pass->sum, 0, sizeof(double) * (size_t)cp);
    memset(pass->moment, 0, sizeof(double) * (size_t)cp);
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

static void slot_forward(struct pass *pass, int slot, int first, int images, const real *h, real *y)
{
    const struct slot_exec *exec = &pass->batch->exec[slot];
    net_slot_forward(pass->net, pass->params, exec, slot, exec->alpha, first, images, h, y);
}

/* The interior of a block's inputs, from image `first` on: where the block below writes its output. */
static struct placing block_input(struct net_block *block, int first)
{
    const struct conv *conv = &block->conv;
    real *in = block->in + (size_t)first * conv->in_image;
    return conv->kernel == 3 ? placed_framed(in, conv->height, conv->width, conv->cin_p)
                             : placed_dense(in, conv->height, conv->width, conv->cin_p);
}

/* Norm, ReLU and pool in one pass; the winner of each window is kept for the backward pass. */
static void pool_straight(const struct pass *pass, struct net_block *block, int first, int images, struct placing out)
{
    const struct conv *conv = &block->conv;
    const real *raw = block->raw + (size_t)first * raw_size(pass, block);
    real *winners = block->winners + (size_t)first * winners_size(pass, block);
    if (!in_planes(pass, block)) {
        pool_affine_forward(images, conv->height, conv->width, conv->cout_p, raw, block->norm.scale, block->norm.shift,
                            winners, out);
        return;
    }
    for (int n = 0; n < images; n++, out.at += out.image_pitch)
        plane_pool(conv->height, conv->width, raw + n * raw_size(pass, block), &block->norm,
                   winners + n * winners_size(pass, block), out);
}

/* From a block's raw output, dense, to the block's output: the general case, with every stage in `maps`. */
static const real *tail_stages(struct pass *pass, int i, int first, int images)
{
    struct net *net = pass->net;
    struct net_block *block = &net->block[i];
    struct net_maps *maps = &net->maps;
    const struct conv *conv = &block->conv;
    const real *raw = block->raw + (size_t)first * block->map;
    bool blend0 = slot_mode_of(pass, block->slot[0]) == SLOT_BLEND;
    const real *out;
    if (pools_straight(pass, block)) {
        pool_straight(pass, block, first, images,
                      placed_dense(maps->pooled, conv->height / 2, conv->width / 2, conv->cout_p));
        out = maps->pooled;
    } else {
        channel_affine(images * conv->height * conv->width, conv->cout_p, raw, block->norm.scale, block->norm.shift,
                       true, NULL, maps->host);
        out = maps->host;
        if (blend0) {
            slot_forward(pass, block->slot[0], first, images, maps->host, maps->blended);
            out = maps->blended;
        }
        if (block->pool) {
            pool_forward(images, conv->height, conv->width, conv->cout_p, out, maps->pooled);
            out = maps->pooled;
        }
    }
    if (slot_mode_of(pass, block->slot[1]) == SLOT_BLEND) {
        slot_forward(pass, block->slot[1], first, images, out, maps->out);
        out = maps->out;
    }
    return out;
}

/* The tail of block i, into the input of block i + 1. */
static void tail_forward(struct pass *pass, int i, int first, int images)
{
    struct net_block *block = &pass->net->block[i], *next = &pass->net->block[i + 1];
    const struct conv *conv = &next->conv;
    if (pools_straight(pass, block) && slot_mode_of(pass, block->slot[1]) != SLOT_BLEND) {
        pool_straight(pass, block, first, images, block_input(next, first));
        return;
    }
    const real *out = tail_stages(pass, i, first, images);
    real *in = next->in + (size_t)first * conv->in_image;
    if (conv->kernel == 3)
        frame_images(images, conv->height, conv->width, conv->cin_p, out, in);
    else
        memcpy(in, out, sizeof(real) * (size_t)images * conv->in_image);
}

/* The convolution of a group of images, and BatchNorm's sums about `centre`. */
static void convolve_group(struct pass *pass, struct net_block *block, int first, int images, const real *centre,
                           const real *weight)
{
    const struct conv *conv = &block->conv;
    const real *in = block->in + (size_t)first * conv->in_image;
    real *raw = block->raw + (size_t)first * raw_size(pass, block);
    int pixels = conv->height * conv->width;
    if (!in_planes(pass, block)) {
        conv_forward(conv, images, in, block->packed[0], raw);
        channel_sums(images * pixels, conv->cout_p, raw, centre, pass->sum, pass->moment);
        return;
    }
    for (int n = 0; n < images; n++)
        plane_convolve(pixels, in + n * conv->in_image, weight, centre[0], raw + n * raw_size(pass, block), pass->sum,
                       pass->moment);
}

static void block_forward(struct pass *pass, int i)
{
    struct net *net = pass->net;
    struct net_block *block = &net->block[i];
    const struct conv *conv = &block->conv;
    const struct block_shape *shape = &net->shape->block[i];
    real *mean = pass->params->stats + shape->mean, *var = pass->params->stats + shape->var;
    real centre[NORM_MAX_CHANNELS] = {0};
    memcpy(centre, mean, sizeof(real) * (size_t)shape->cout);

    clear_sums(pass, conv->cout_p);
    for (int first = 0; first < pass->batch->samples; first += block->group) {
        int images = pass->batch->samples - first < block->group ? pass->batch->samples - first : block->group;
        if (i > 0)
            tail_forward(pass, i - 1, first, images);
        convolve_group(pass, block, first, images, centre, host_tensor(net, pass->params->host, shape->weight));
    }
    double count = (double)pass->batch->samples * conv->height * conv->width;
    batch_norm_forward(&block->norm, shape->cout, conv->cout_p, count, pass->sum, pass->moment,
                       host_tensor(net, pass->params->host, shape->gamma),
                       host_tensor(net, pass->params->host, shape->beta), mean, var);
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

/* From the gradient after a blended slot to the one before it, direct and through the seed. */
static void blend_backward(struct pass *pass, int slot, int first, int images, const real *h, const real *g, real *dh)
{
    struct net *net = pass->net;
    const struct slot_exec *exec = &pass->batch->exec[slot];
    const struct seed_site *site = &net->site[slot];
    const real *s = site->out + (size_t)first * site->map;
    real *ds = net->maps.grad[2], *dx = net->maps.grad[3], *dq = net->gate_grad, a = clamp01((real)exec->alpha);
    size_t count = (size_t)images * site->map;

    if (a == 0) { /* nothing of the seed is mixed in, so no gradient reaches it, whatever it holds */
        memcpy(dh, g, sizeof(real) * count);
        return;
    }

    for (int n = 0; n < images; n++) {
        size_t at = (size_t)n * site->map;
        if (exec->algorithm == ALGORITHM_MULTIPLY) {
            blend_multiply_backward(site->map, h + at, s + at, g + at, a, dh + at, ds + at);
        } else {
            blend_add_backward(site->map, g + at, net_amplitude(site, exec, a, first + n), dh + at, ds + at);
            dq[n] = exec->gate ? a * blend_amplitude_grad(site->map, h + at, s + at, g + at) : 0;
        }
    }
    if (exec->algorithm == ALGORITHM_MULTIPLY && !exec->isolate)
        subtract_from(count, ds, dh);
    if (exec->train || !exec->isolate)
        seed_backward(&net->seed[slot], first, images, h, ds, exec->isolate ? NULL : dx);
    if (!exec->isolate)
        add_into(count, dx, dh);
    if (exec->gate)
        gate_backward(site, pass->params->gate + net->shape->net.slot[slot].gate, first, images, dq,
                      exec->train ? net->grads.gate + net->shape->net.slot[slot].gate : NULL,
                      exec->isolate ? NULL : dh);
}

/* A seed in TRAINING: learns from the gradient at its boundary, changes nothing (I-24). */
static void leaf_backward(struct pass *pass, int slot, int first, int images, const real *h, const real *g)
{
    struct net *net = pass->net;
    real *s = net->site[slot].out + (size_t)first * net->site[slot].map;
    if (!pass->batch->exec[slot].train)
        return;
    seed_forward(&net->seed[slot], first, images, h, s);
    seed_backward(&net->seed[slot], first, images, h, g, NULL);
}

/* The gradient before the slot, given the one after it. */
static const real *slot_backward(struct pass *pass, int slot, int first, int images, const real *h, const real *g,
                                 real *dh)
{
    switch (slot_mode_of(pass, slot)) {
    case SLOT_BLEND:
        blend_backward(pass, slot, first, images, h, g, dh);
        return dh;
    case SLOT_STE:
        leaf_backward(pass, slot, first, images, h, g);
        return g;
    case SLOT_SKIP:
        break;
    }
    return g;
}

/* A seed in TRAINING before a straight pool: its features and its gradient are computed for it alone. */
static void leaf_before_pool(struct pass *pass, struct net_block *block, int first, int images, const real *g)
{
    struct net_maps *maps = &pass->net->maps;
    const struct conv *conv = &block->conv;
    const real *raw = block->raw + (size_t)first * block->map;
    if (in_planes(pass, block)) {
        conv_forward(conv, images, block->in + (size_t)first * conv->in_image, block->packed[0], maps->raw);
        raw = maps->raw;
    }
    channel_affine(images * conv->height * conv->width, conv->cout_p, raw, block->norm.scale, block->norm.shift, true,
                   NULL, maps->host);
    pool_backward(images, conv->height, conv->width, conv->cout_p, maps->host, g, maps->grad[0]);
    leaf_backward(pass, block->slot[0], first, images, maps->host, maps->grad[0]);
}

/* Where nothing is blended before the pool, the gradient is stored at its size after the pool, a quarter. */
static void tail_backward_straight(struct pass *pass, int i, int first, int images, const real *g, real *grad_map)
{
    struct net *net = pass->net;
    struct net_block *block = &net->block[i];
    const struct conv *conv = &block->conv;
    const struct norm *norm = &block->norm;
    const real *winners = block->winners + (size_t)first * winners_size(pass, block);
    int windows = images * (conv->height / 2) * (conv->width / 2);
    if (slot_mode_of(pass, block->slot[1]) != SLOT_SKIP) {
        channel_affine(windows, conv->cout_p, winners, norm->scale, norm->shift, true, NULL, net->maps.pooled);
        g = slot_backward(pass, block->slot[1], first, images, net->maps.pooled, g, net->maps.grad[1]);
    }
    if (slot_mode_of(pass, block->slot[0]) == SLOT_STE)
        leaf_before_pool(pass, block, first, images, g);
    real *kept = grad_map + (size_t)first * block->out_map;
    if (kept != g)
        memcpy(kept, g, sizeof(real) * (size_t)images * block->out_map);
    if (in_planes(pass, block))
        plane_grad_sums(windows, winners, kept, norm, pass->sum, pass->moment);
    else
        channel_grad_sums(windows, conv->cout_p, winners, kept, norm->scale, norm->shift, true, norm->centre, pass->sum,
                          pass->moment);
}

/*
 * The tail of block i backward, for a group of images: from the gradient of the block's output to the gradient after
 * its ReLU, which goes to grad_map, and into BatchNorm's sums. Stages of the forward pass are recomputed from the raw
 * output; the seeds' parts are in their sites.
 */
static void tail_backward(struct pass *pass, int i, int first, int images, const real *g, real *grad_map)
{
    struct net *net = pass->net;
    struct net_block *block = &net->block[i];
    struct net_maps *maps = &net->maps;
    const struct conv *conv = &block->conv;
    const real *raw = block->raw + (size_t)first * block->map, *scale = block->norm.scale, *shift = block->norm.shift;
    int pixels = images * conv->height * conv->width;
    if (pools_straight(pass, block)) {
        tail_backward_straight(pass, i, first, images, g, grad_map);
        return;
    }
    const real *before_pool = maps->host;
    channel_affine(pixels, conv->cout_p, raw, scale, shift, true, NULL, maps->host);
    if (slot_mode_of(pass, block->slot[0]) == SLOT_BLEND && block->pool) {
        /* s is still in the site: only the blend is repeated, for the pool */
        const struct slot_exec *exec = &pass->batch->exec[block->slot[0]];
        net_blend(&net->site[block->slot[0]], exec, (real)exec->alpha, first, images, maps->host, maps->blended);
        before_pool = maps->blended;
    }
    if (block->pool) {
        if (slot_mode_of(pass, block->slot[1]) != SLOT_SKIP) {
            pool_forward(images, conv->height, conv->width, conv->cout_p, before_pool, maps->pooled);
            g = slot_backward(pass, block->slot[1], first, images, maps->pooled, g, maps->grad[1]);
        }
        pool_backward(images, conv->height, conv->width, conv->cout_p, before_pool, g, maps->grad[0]);
        g = maps->grad[0];
    }
    g = slot_backward(pass, block->slot[0], first, images, maps->host, g, maps->grad[1]);
    memcpy(grad_map + (size_t)first * block->map, g, sizeof(real) * (size_t)images * block->map);
    channel_grad_sums(pixels, conv->cout_p, raw, g, scale, shift, true, block->norm.centre, pass->sum, pass->moment);
}

/* Where to store the gradient of block i's output: where tail_backward would keep it, or a scratch map. */
static real *tail_gradient(const struct pass *pass, int i, int first, real *grad_map)
{
    const struct net_block *block = &pass->net->block[i];
    return pools_straight(pass, block) ? grad_map + (size_t)first * block->out_map : pass->net->maps.out;
}

/* The gradient of a block's raw output for a group of images, laid out as the convolution expects it. */
static void norm_backward(struct pass *pass, struct net_block *block, int first, int images, const real *grad_map)
{
    const struct conv *conv = &block->conv;
    const struct norm *n = &block->norm;
    const real *raw = block->raw + (size_t)first * block->map;
    struct placing out = conv->kernel == 3 ? placed_framed(block->grad, conv->height, conv->width, conv->cout_p)
                                           : placed_dense(block->grad, conv->height, conv->width, conv->cout_p);
    if (pools_straight(pass, block))
        pool_affine_grad(images, conv->height, conv->width, conv->cout_p, raw,
                         block->winners + (size_t)first * block->out_map, grad_map + (size_t)first * block->out_map,
                         n->scale, n->shift, n->gain, n->slope, n->offset, out);
    else
        channel_grad(images, conv->height, conv->width, conv->cout_p, raw, grad_map + (size_t)first * block->map,
                     n->scale, n->shift, true, n->gain, n->slope, n->offset, out);
}

/* The first block's weights from the pooled gradient, where it is run in planes. */
static void plane_backward(struct pass *pass, struct net_block *block, const real *grad_map, real *grad_weight)
{
    const struct conv *conv = &block->conv;
    double sums[SHAPE_COLOURS] = {0};
    for (int n = 0; n < pass->batch->samples; n++)
        plane_weights(conv->height, conv->width, block->raw + n * raw_size(pass, block),
                      block->winners + n * winners_size(pass, block), grad_map + n * block->out_map, &block->norm,
                      block->in + n * conv->in_image, sums);
    for (int c = 0; c < SHAPE_COLOURS; c++)
        grad_weight[c] = (real)sums[c];
}

/* The block's BatchNorm and convolution backward, and the tail of the block below. */
static void block_backward(struct pass *pass, int i, real *grad_map, real *grad_map_below)
{
    struct net *net = pass->net;
    struct net_block *block = &net->block[i];
    const struct block_shape *shape = &net->shape->block[i];
    const struct conv *conv = &block->conv;
    struct norm *norm = &block->norm;
    double count = (double)pass->batch->samples * conv->height * conv->width;
    batch_norm_backward(norm, shape->cout, conv->cout_p, count, pass->sum, pass->moment, host_grad(net, shape->gamma),
                        host_grad(net, shape->beta));
    if (in_planes(pass, block)) {
        plane_backward(pass, block, grad_map, host_grad(net, shape->weight));
        return;
    }
    if (i > 0)
        clear_sums(pass, net->block[i - 1].conv.cout_p);
    memset(block->sums, 0, sizeof(real) * conv_sums_size(conv));
    for (int first = 0; first < pass->batch->samples; first += block->group) {
        int images = pass->batch->samples - first < block->group ? pass->batch->samples - first : block->group;
        norm_backward(pass, block, first, images, grad_map);
        conv_backward_weights(conv, images, block->in + (size_t)first * conv->in_image, block->grad, block->sums);
        if (i > 0) {
            real *dx = tail_gradient(pass, i - 1, first, grad_map_below);
            conv_backward_data(conv, images, block->grad, block->packed[1], dx);
            tail_backward(pass, i - 1, first, images, dx, grad_map_below);
        }
    }
    conv_unpack_weights(conv, block->sums, host_grad(net, shape->weight));
}

/* ---- the classifier and the whole batch -------------------------------------------------------------------------- */

static void head_forward(struct pass *pass, struct net_result *result)
{
    struct net *net = pass->net;
    const struct net_block *last = &net->block[net->shape->blocks - 1];
    int pixels = (int)(last->out_map / (size_t)last->conv.cout_p), images = pass->batch->samples;
    for (int first = 0; first < images; first += net->group) {
        int n = images - first < net->group ? images - first : net->group;
        const real *out = tail_stages(pass, net->shape->blocks - 1, first, n);
        mean_forward(n, pixels, net->features_p, out, net->features + (size_t)first * net->features_p);
    }
    net_classify(net, pass->params, images, net->features, net->logits);
    struct loss_sums sums = {0};
    cross_entropy(images, net->shape->classes, net->classes_p, net->logits, net->labels, net->dlogits, &sums);
    result->score = (struct net_score){sums.loss, sums.correct, (uint64_t)images};
}

static void head_backward(struct pass *pass, real *grad_map)
{
    struct net *net = pass->net;
    const struct net_block *last = &net->block[net->shape->blocks - 1];
    int pixels = (int)(last->out_map / (size_t)last->conv.cout_p), images = pass->batch->samples;
    real *bias = host_grad(net, net->shape->fc_bias);
    for (int k = 0; k < net->shape->classes; k++) {
        double sum = 0;
        for (int n = 0; n < images; n++)
            sum += (double)net->dlogits[n * net->classes_p + k];
        bias[k] = (real)sum;
    }
    memset(net->fc_sums, 0, sizeof(real) * conv_sums_size(&net->fc));
    conv_backward_weights(&net->fc, images, net->features, net->dlogits, net->fc_sums);
    conv_unpack_weights(&net->fc, net->fc_sums, host_grad(net, net->shape->fc_weight));
    conv_backward_data(&net->fc, images, net->dlogits, net->fc_packed[1], net->dfeatures);

    clear_sums(pass, last->conv.cout_p);
    for (int first = 0; first < images; first += net->group) {
        int n = images - first < net->group ? images - first : net->group;
        real *g = tail_gradient(pass, net->shape->blocks - 1, first, grad_map);
        mean_backward(n, pixels, net->features_p, net->dfeatures + (size_t)first * net->features_p, true, g);
        tail_backward(pass, net->shape->blocks - 1, first, n, g, grad_map);
    }
}

static void pack_backward(struct net *net, const struct net_params *params)
{
    for (int i = 1; i < net->shape->blocks; i++)
        conv_pack_backward(&net->block[i].conv, host_tensor(net, params->host, net->shape->block[i].weight),
                           net->block[i].packed[1]);
    conv_pack_backward(&net->fc, host_tensor(net, params->host, net->shape->fc_weight), net->fc_packed[1]);
}

void cnn_gradients(struct net *net, const struct net_params *params, const struct net_batch *batch,
                   struct net_result *result)
{
    struct pass pass = {.net = net, .params = params, .batch = batch};
    *result = (struct net_result){0};
    net_pack_host(net, params);
    pack_backward(net, params);
    net_begin_seeds(net, params, batch->exec, false);

    for (int i = 0; i < net->shape->blocks; i++)
        block_forward(&pass, i);
    head_forward(&pass, result);
    real *here = net->grad_map[0], *below = net->grad_map[1];
    head_backward(&pass, here);
    for (int i = net->shape->blocks - 1; i >= 0; i--) {
        block_backward(&pass, i, here, below);
        real *swap = here;
        here = below;
        below = swap;
    }
    for (int j = 0; j < net->shape->net.slots; j++)
        if (net->seed[j].blueprint && net->seed[j].train)
            seed_end(&net->seed[j]);
    result->host_norm = sqrt(square_norm(net->shape->net.host.storage, net->grads.host));
}

/* ---- statistics and update --------------------------------------------------------------------------------------- */

/* Adds to the sum of all squares. */
static void measure_tensors(const struct param_layout *layout, const real *g, struct gradient_tally *tally,
                            double *square)
{
    for (int t = 0; t < layout->count; t++) {
        double norm = sqrt(square_norm(layout->tensor[t].size, g + layout->tensor[t].offset));
        gradient_count(tally, norm);
        *square += norm * norm;
    }
}

void cnn_measure(struct net *net, const struct net_batch *batch, struct net_result *result)
{
    for (int j = 0; j < net->shape->net.slots; j++) {
        const struct slot_exec *exec = &batch->exec[j];
        result->grads[j] = gradient_none(exec->mode != SLOT_SKIP);
        if (exec->mode == SLOT_SKIP || !exec->train)
            continue;
        const struct param_layout *layout = net->seed[j].layout, *gate = &net->site[j].gate_layout;
        size_t params = layout->params + (exec->gate ? gate->params : 0);
        struct gradient_tally tally = {0};
        double square = 0;
        measure_tensors(layout, net->grads.seed + net->shape->net.slot[j].seed, &tally, &square);
        if (exec->gate)
            measure_tensors(gate, net->grads.gate + net->shape->net.slot[j].gate, &tally, &square);
        result->grads[j] = gradient_report(&tally, sqrt(square), (double)params, result->host_norm,
                                           (double)net->shape->net.host.params);
    }
}

void cnn_update(struct net *net, const struct net_params *params, const struct net_memory *memory,
                const struct net_batch *batch, const struct net_rates *rates, struct net_result *result)
{
    const struct cnn_shape *shape = net->shape;
    const struct net_params *momentum = &memory->first;
    optimiser_step(&rates->host, shape->net.host.storage, 0,
                   (real)gradient_clip(result->host_norm, rates->max_grad_norm), net->grads.host,
                   (struct optimiser_piece){params->host, momentum->host, NULL});
    for (int j = 0; j < shape->net.slots; j++) {
        if (!batch->exec[j].train)
            continue;
        size_t seed = shape->net.slot[j].seed, gate = shape->net.slot[j].gate;
        size_t seed_size = net->seed[j].layout->storage,
               gate_size = batch->exec[j].gate ? shape->net.slot[j].gate_storage : 0;
        double norm =
            sqrt(square_norm(seed_size, net->grads.seed + seed) + square_norm(gate_size, net->grads.gate + gate));
        real factor = (real)gradient_clip(norm, rates->max_grad_norm);
        result->slot_norm[j] = norm;
        optimiser_step(&rates->seed, seed_size, 0, factor, net->grads.seed + seed,
                       (struct optimiser_piece){params->seed + seed, momentum->seed + seed, NULL});
        optimiser_step(&rates->seed, gate_size, 0, factor, net->grads.gate + gate,
                       (struct optimiser_piece){params->gate + gate, momentum->gate + gate, NULL});
    }
}
