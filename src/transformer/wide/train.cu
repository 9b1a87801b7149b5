/* The passes of a batch of wide networks, and what is rounded before them. */
#include "cuda/runtime.cuh"

#include "transformer/fp32/gradients.cuh"
#include "transformer/fp32/passes.cuh"
#include "transformer/wide/wide.cuh"

#include <algorithm>

enum { ROUNDED = 8 }; /* at once; layouts are aligned to more */

/* A thread per ROUNDED numbers of an env's parameters. */
STAGE_KERNEL round_params(const struct exact_view *net, int first)
{
    const struct frame frame = frame_of(net, first + (int)blockIdx.y);
    const size_t i = ROUNDED * ((size_t)blockIdx.x * STAGE_THREADS + threadIdx.x);
    if (i >= net->grad)
        return;
    const size_t gates = (size_t)net->host_storage + net->seed_storage;
    const float *from = i < net->host_storage ? frame.host + i
                        : i < gates           ? frame.seed + (i - net->host_storage)
                                              : frame.gate + (i - gates);
    keep(net->rounded + (size_t)blockIdx.y * net->rounded_stride + i, few_at<ROUNDED>(from));
}

void wide_round(struct transformer_net *device, int first, int envs)
{
    const unsigned each = ROUNDED * STAGE_THREADS, blocks = (unsigned)((device->view.grad + each - 1) / each);
    runtime_launch(device->runtime, round_params, net_blocks(blocks, envs, STAGE_THREADS), device->net, first);
}

void wide_learn(struct transformer_net *device, int first, int envs)
{
    const struct stages<wide> s = {
        device, first, envs
    };
    enqueue_forward(s);
    enqueue_backward(s);
    enqueue_gradients<wide>(device, first, envs);
    transformer_reduce(device, first, envs);
    transformer_update(device, first, envs);
}

void wide_allow_train(struct transformer_net *device)
{
    allow_passes<wide>(device);
    allow_gradients<wide>(device);
}

size_t wide_shared(int head)
{
    return std::max({(size_t)product_shared<wide_tile>::BYTES, (size_t)product_shared<plain_tile>::BYTES,
                     wide::classifier_shared(), wide::attend_bytes(head, true)});
}

std::vector<exact_work> wide_work(const struct exact_view *net)
{
    return list_work<wide>(net);
}
