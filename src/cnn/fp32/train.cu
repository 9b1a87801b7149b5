/* A step of training, batch by batch, for a group of envs at a time, and what couples the images of a batch. */
#include "cuda/runtime.cuh"

#include "cnn/fp32/net.cuh"

enum { STEP_THREADS = 256, BATCH_CHANNELS = 8 };

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
    const struct norm norm = norm_at(net->norms + (size_t)blockIdx.y * net->norm + block.norm, block.conv.stored);
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

IMAGE_KERNEL norm_backward(const struct net_view *net, int i)
{
    const struct block_view &block = net->block[i];
    const struct norm norm = norm_at(net->norms + (size_t)blockIdx.y * net->norm + block.norm, block.conv.stored);
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

void framed_norm_forward(struct framed_net *device, int first, int envs, int block)
{
    runtime_launch(device->runtime, norm_forward, batch_blocks(&device->view, block, envs), device->net, first, block);
}

void framed_norm_backward(struct framed_net *device, int envs, int block)
{
    runtime_launch(device->runtime, norm_backward, batch_blocks(&device->view, block, envs), device->net, block);
}

void framed_train(struct net_device *given)
{
    struct framed_net *device = framed_net_of(given);
    const int all = device->setup.envs;
    const unsigned threads = STEP_THREADS;
    net_plan_train(device);
    runtime_launch(device->runtime, begin_step, net_blocks(((unsigned)all + threads - 1) / threads, 1, threads),
                   device->net, all);
    for (int first = 0; first < all; first += device->view.group) {
        const int envs = all - first < device->view.group ? all - first : device->view.group;
        for (uint32_t index = 0; index < device->setup.source.batches; index++) {
            device->passes->gather(device, first, envs, index);
            device->passes->learn(device, first, envs);
        }
        framed_end_step(device, first, envs);
    }
}
