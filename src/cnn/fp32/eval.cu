/* The phases that evaluate, for networks of either precision. */
#include "cuda/runtime.cuh"

#include "cnn/fp32/net.cuh"

/* BatchNorm's coefficients from the running statistics. */
IMAGE_KERNEL norm_evaluate(const struct net_view *net, int first)
{
    const struct net_setup *setup = net->setup;
    const size_t env = (size_t)first + blockIdx.y;
    const float *host = setup->host + env * net->host_storage, *stats = setup->stats + env * setup->shape.stats;
    for (int i = 0; i < net->blocks; i++) {
        const struct block_view &block = net->block[i];
        const struct norm norm = norm_at(net->norms + (size_t)blockIdx.y * net->norm + block.norm, block.conv.stored);
        for (int c = (int)threadIdx.x; c < block.conv.cout; c += BLOCK_THREADS)
            norm_set(norm, c, (double)stats[block.mean + c], 1 / sqrt((double)stats[block.var + c] + NORM_EPS),
                     host[block.gamma + c], host[block.beta + c]);
    }
}

void framed_norm_evaluate(struct framed_net *device, int first, int envs)
{
    runtime_launch(device->runtime, norm_evaluate, net_blocks(1, envs, BLOCK_THREADS), device->net, first);
}

static void enqueue(struct framed_net *device, struct eval_pass job)
{
    const int all = device->setup.envs;
    for (int first = 0; first < all; first += device->view.group) {
        const int envs = all - first < device->view.group ? all - first : device->view.group;
        device->passes->walk(device, first, envs, job);
    }
}

void framed_evaluate(struct net_device *given, int images)
{
    struct framed_net *device = framed_net_of(given);
    net_plan_evaluate(device, device->view.plans);
    enqueue(device, {SPLIT_VAL, images, device->view.plans, device->view.losses});
    net_plan_evaluated(device, device->view.plans, device->view.losses, images);
}

void framed_measure(struct net_device *given, struct net_sets sets, int images)
{
    struct framed_net *device = framed_net_of(given);
    net_plan_measure(device, device->view.plans, sets);
    enqueue(device, {SPLIT_VAL, images, device->view.plans, nullptr});
    net_plan_measured(device, device->view.plans, sets, images);
}

void framed_test(struct net_device *given)
{
    struct framed_net *device = framed_net_of(given);
    net_plan_test(device, device->view.plans);
    enqueue(device, {SPLIT_TEST, device->setup.test_images, device->view.plans, nullptr});
    net_plan_tested(device, device->view.plans);
}
