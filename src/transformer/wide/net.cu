#include "transformer/wide/net.cuh"

#include "nn/few.cuh"

static bool head_fits(int head)
{
    return head == 32 || head == 64 || head == 96 || head == 128;
}

bool wide_fits(const struct net_shape *host, int batch)
{
    const struct transformer_shape *shape = transformer_shape_of(host);
    const int head = shape->width / shape->heads, seed_head = shape->width / SEED_HEADS;
    return head_fits(head) && head_fits(seed_head) && shape->vocabulary == TRANSFORMER_BYTES && batch >= 1 &&
           wide_shared(head > seed_head ? head : seed_head) <= runtime_shared_most();
}

struct net_device *wide_create(struct runtime *rt, const struct net_setup *setup)
{
    struct transformer_net *device = new transformer_net();
    struct exact_view *net = &device->view;
    net_device_begin(device, rt, setup);
    transformer_view_init(device, FRAMES_BF16);
    transformer_allocate(device, net->grad * sizeof(struct bf16));
    net->rounded = runtime_alloc<struct bf16>(rt, (size_t)net->group * net->grad);
    net->rounded_stride = net->grad;
    transformer_divide(device, wide_work(net));
    device->ready = wide_round;
    device->learn = wide_learn;
    device->walk = wide_walk;
    wide_allow_train(device);
    wide_allow_walk(device);
    transformer_place(device);
    if (rt->failed) {
        delete device;
        return nullptr;
    }
    return device;
}
