/* A step of training, whatever the precision; and the passes in fp32. */
#include "cuda/runtime.cuh"

#include "transformer/fp32/fp32.cuh"
#include "transformer/fp32/gradients.cuh"
#include "transformer/fp32/passes.cuh"

/* ---- a step ------------------------------------------------------------------------------------------------------ */

enum { GATHERED = STAGE_THREADS / 32 }; /* sequences of a block */

/* A warp per sequence. */
STAGE_KERNEL gather(const struct exact_view *net, int first, uint32_t index)
{
    const uint32_t sequence = blockIdx.x * GATHERED + threadIdx.x / 32;
    const bool any = sequence < (uint32_t)net->batch;
    const size_t row = (size_t)net->context + 1;
    const uint8_t *window = any ? gather_train_window(net->setup->source, (uint32_t)first + blockIdx.y, index, sequence)
                                : nullptr;
    uint8_t *to = net->windows + ((size_t)blockIdx.y * (size_t)net->batch + sequence) * row;
    batch_wait();
    if (!any)
        return;
    for (size_t t = threadIdx.x % 32; t < row; t += 32)
        to[t] = window[t];
}

void transformer_gather(struct transformer_net *device, int first, int envs, uint32_t index)
{
    const unsigned blocks = ((unsigned)device->view.batch + GATHERED - 1) / GATHERED;
    runtime_launch(device->runtime, gather, net_behind(net_blocks(blocks, envs, STAGE_THREADS)), device->net, first,
                   index);
}

void transformer_ready(struct transformer_net *device, int first, int envs)
{
    if (device->ready)
        device->ready(device, first, envs);
}

void transformer_train_all(struct net_device *given)
{
    struct transformer_net *device = transformer_net_of(given);
    const int all = device->setup.envs;
    net_plan_train(device);
    transformer_begin_step(device);
    for (int first = 0; first < all; first += device->view.group) {
        const int envs = all - first < device->view.group ? all - first : device->view.group;
        transformer_ready(device, first, envs);
        for (uint32_t index = 0; index < device->setup.source.batches; index++) {
            transformer_gather(device, first, envs, index);
            device->learn(device, first, envs);
        }
        transformer_end_step(device, first, envs);
    }
}

/* ---- in fp32 ----------------------------------------------------------------------------------------------------- */

void transformer_forward(struct transformer_net *device, int first, int envs)
{
    enqueue_forward(stages<exact>{device, first, envs});
}

void transformer_seed_alone(struct transformer_net *device, int slot)
{
    const struct stages<exact> s = {
        device, 0, 1
    };
    enqueue_slot_forward(s, slot);
    enqueue_slot_backward(s, slot);
    enqueue_gradients<exact>(device, 0, 1);
    transformer_reduce(device, 0, 1);
    transformer_update(device, 0, 1);
}

void fp32_learn(struct transformer_net *device, int first, int envs)
{
    const struct stages<exact> s = {
        device, first, envs
    };
    enqueue_forward(s);
    enqueue_backward(s);
    enqueue_gradients<exact>(device, first, envs);
    transformer_reduce(device, first, envs);
    transformer_update(device, first, envs);
}

void fp32_allow_train(struct transformer_net *device)
{
    allow_passes<exact>(device);
    allow_gradients<exact>(device);
}

std::vector<exact_work> fp32_work(const struct exact_view *net)
{
    return list_work<exact>(net);
}
