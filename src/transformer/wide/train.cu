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
    keep(net->rounded + (size_t)blockIdx.y * net->grad + i, few_at<ROUNDED>(from));
}

/* A warp per token: 1 in the column that is it. The product of these with the gradient where tokens enter is that of
 * their embeddings. */
STAGE_KERNEL mark_entries(const struct exact_view *net, int first)
{
    const struct frame frame = train_frame(net, first);
    struct bf16 *entries = operands<wide>(frame, net->entries);
    each_row(frame.rows, block_share(), [&](int row) {
        const int n = row / net->context, t = row % net->context,
                  token = frame.tokens[(size_t)n * (size_t)frame.token_stride + (size_t)t];
        for (int k = 2 * ((int)threadIdx.x % WARP_LANES); k < net->vocabulary; k += 2 * WARP_LANES) {
            const few<2> two = {{k == token ? 1.0f : 0.0f, k + 1 == token ? 1.0f : 0.0f}};
            keep(entries + (size_t)row * (size_t)net->vocabulary + k, two);
        }
    });
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
    wide_round(device, first, envs);
    STAGE_RUN(s, mark_entries, s.rows());
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
    return std::max({wide::product_shared(), wide::classifier_shared(), wide::attend_bytes(head, true)});
}

std::vector<exact_work> wide_work(const struct exact_view *net)
{
    return list_work<wide>(net);
}
