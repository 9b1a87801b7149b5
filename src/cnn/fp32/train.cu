/*
 * A step of training, batch by batch, for a group of envs at a time:
 *
 *   images    into the frames
 *   forward   for each block: [tail of the block below -> conv], then the block's mean and variance
 *   head      tail of the last block, classifier, loss, and back through that tail
 *   backward  for each block: BatchNorm's sums are known; [norm -> conv -> tail of the block below]
 *   update    update.cu
 *
 * Brackets are a kernel with one thread block per image.
 */
#include "cuda/runtime.cuh"

#include "cnn/fp32/tail.cuh"

enum { STEP_THREADS = 256, BATCH_CHANNELS = 8 };

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
IMAGE_KERNEL batch_gather(const struct net_view *net, int first, uint32_t index)
{
    __shared__ struct gather_view view;
    const struct image image = batch_image(net, first);
    if (threadIdx.x == 0) {
        view = gather_train_view(net->setup->source, (uint32_t)image.env, index, blockIdx.x);
        image.figures[net->label] = view.label;
    }
    __syncthreads();
    image_write(image, view);
}

IMAGE_KERNEL block_forward(const struct net_view *net, int first, int i)
{
    const struct image image = batch_image(net, first);
    const struct block_view &block = net->block[i];
    if (i > 0)
        tail_forward(image, net->block[i - 1], slots_on(image));
    block_convolve(image, block);
    const float *raw = image.frame + block.raw,
                *mean = net->setup->stats + block.mean + (size_t)image.env * net->setup->shape.stats;
    double *sums = image.figures + net->block_sums;
    channel_sums<2, float>(
        block.pixels, block.conv.cout,
        [&](int p, int c, float *v) { /* relative to the running mean, which is close: no cancellation */
                                      v[0] = raw[p * block.conv.cout + c] - mean[c];
                                      v[1] = v[0] * v[0];
        },
        [&](int c, const double *total) {
            sums[c] = total[0];
            sums[block.conv.cout + c] = total[1];
        });
}

/* The images' two sums per channel of a block, added up; a thread block takes BATCH_CHANNELS of them. */
template <class Put> DEVICE void batch_sums(const struct net_view *net, int channels, Put put)
{
    const int first = (int)blockIdx.x * BATCH_CHANNELS, left = channels - first;
    const double *sums = net->figures + (size_t)blockIdx.y * (size_t)net->batch * net->figure + net->block_sums + first;
    channel_sums<2, double>(
        net->batch, left < BATCH_CHANNELS ? left : BATCH_CHANNELS,
        [&](int n, int c, double *v) {
            v[0] = sums[(size_t)n * net->figure + (size_t)c];
            v[1] = sums[(size_t)n * net->figure + (size_t)(channels + c)];
        },
        [&](int c, const double *total) { put(first + c, total); });
}

IMAGE_KERNEL norm_forward(const struct net_view *net, int first, int i)
{
    const struct block_view &block = net->block[i];
    const struct net_setup *setup = net->setup;
    const size_t env = (size_t)first + blockIdx.y;
    const struct norm norm = norm_at(net->norms + (size_t)blockIdx.y * net->norm + block.norm, block.conv.cout);
    const float *gamma = setup->host + env * net->host_storage + block.gamma,
                *beta = setup->host + env * net->host_storage + block.beta;
    float *running_mean = setup->stats + env * setup->shape.stats + block.mean,
          *running_var = setup->stats + env * setup->shape.stats + block.var;
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

IMAGE_KERNEL head(const struct net_view *net, int first)
{
    __shared__ float logits[SHAPE_CLASSES_MAX];
    const struct image image = batch_image(net, first);
    const struct block_view &last = net->block[net->blocks - 1];
    const int label = (int)image.figures[net->label], pixels = last.pool ? last.pixels / 4 : last.pixels;
    tail_forward(image, last, slots_on(image));
    image_classify(image, logits);
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
    float *g = tail_gradient(image, last);
    map_set(pixels, net->features, g, [&](int, int c) {
        float sum = 0;
        for (int k = 0; k < net->classes; k++)
            sum = fmaf(w[k * net->features + c], dlogits[k], sum);
        return sum / (float)pixels;
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

/* ---- the step ---------------------------------------------------------------------------------------------------- */

KERNEL void begin_step(const struct net_view *net, int envs)
{
    const int env = (int)(blockIdx.x * STEP_THREADS + threadIdx.x);
    if (env < envs) {
        net->train_loss[env] = 0;
        net->train_right[env] = 0;
    }
}

static struct launch batch_blocks(const struct net_view *net, int i, int envs)
{
    return net_blocks((unsigned)(net->block[i].conv.cout + BATCH_CHANNELS - 1) / BATCH_CHANNELS, envs, BLOCK_THREADS);
}

void fp32_learn(struct fp32_net *device, int first, int envs)
{
    struct runtime *rt = device->runtime;
    const struct net_view *net = device->net;
    const int blocks = device->view.blocks;
    const struct launch images = net_blocks((unsigned)device->view.batch, envs, BLOCK_THREADS);
    fp32_pack(device, first, envs);
    for (int i = 0; i < blocks; i++) {
        runtime_launch(rt, block_forward, images, net, first, i);
        runtime_launch(rt, norm_forward, batch_blocks(&device->view, i, envs), net, first, i);
    }
    runtime_launch(rt, head, images, net, first);
    for (int i = blocks - 1; i >= 0; i--) {
        runtime_launch(rt, norm_backward, batch_blocks(&device->view, i, envs), net, i);
        runtime_launch(rt, block_backward, images, net, first, i);
    }
    fp32_update(device, first, envs);
}

void fp32_train(struct net_device *given)
{
    struct fp32_net *device = fp32_net_of(given);
    const int all = device->setup.envs;
    const unsigned threads = STEP_THREADS;
    net_plan_train(device);
    runtime_launch(device->runtime, begin_step, net_blocks(((unsigned)all + threads - 1) / threads, 1, threads),
                   device->net, all);
    for (int first = 0; first < all; first += device->view.group) {
        const int envs = all - first < device->view.group ? all - first : device->view.group;
        for (uint32_t index = 0; index < device->setup.source.batches; index++) {
            runtime_launch(device->runtime, batch_gather, net_blocks((unsigned)device->view.batch, envs, BLOCK_THREADS),
                           device->net, first, index);
            fp32_learn(device, first, envs);
        }
        fp32_end_step(device, first, envs);
    }
}
