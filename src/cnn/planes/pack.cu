/* Weights as operands: every convolution's in both directions, depthwise ones as floats, rounded and padded. */
#include "cuda/runtime.cuh"

#include "cnn/planes/net.cuh"
#include "nn/octet_conv.cuh"

enum { PACK_THREADS = 256 };

/* A weight [cout][tap][cin], or [tap][cout] where it is depthwise, and where its operands go. */
struct packed_layer {
    int kernel, cin, cout;
    bool depthwise;
    const float *master;
    float *forward, *back;
};

DEVICE float master_at(const struct packed_layer &layer, int tap, int i, int o)
{
    const int taps = layer.kernel * layer.kernel;
    return i < layer.cin && o < layer.cout ? layer.master[(o * taps + tap) * layer.cin + i] : 0;
}

DEVICE void pack_depthwise(const struct packed_layer &layer, uint32_t first, uint32_t step)
{
    const uint32_t stored = (uint32_t)map_channels<struct octet>(layer.cout), cout = (uint32_t)layer.cout;
    for (uint32_t at = first; at < 9 * stored; at += step)
        layer.forward[at] = at % stored < cout ? bf16_lo(pack_bf16(layer.master[at / stored * cout + at % stored], 0))
                                               : 0;
}

DEVICE void pack_layer(const struct packed_layer &layer, uint32_t first, uint32_t step)
{
    const int taps = layer.kernel * layer.kernel, in = map_planes<struct octet>(layer.cin),
              out = map_planes<struct octet>(layer.cout);
    uint2 *forward = reinterpret_cast<uint2 *>(layer.forward), *back = reinterpret_cast<uint2 *>(layer.back);
    for (uint32_t at = first; at < octet_weight_words(layer.kernel, in, out) / 2; at += step)
        forward[at] =
            octet_weight(layer.kernel, in, out, at, [&](int tap, int i, int o) { return master_at(layer, tap, i, o); });
    for (uint32_t at = first; at < octet_weight_words(layer.kernel, out, in) / 2; at += step)
        back[at] = octet_weight(layer.kernel, out, in, at,
                                [&](int tap, int o, int i) { return master_at(layer, taps - 1 - tap, i, o); });
}

/* Row y of the grid is an env, z a block of the host or a slot's step. */
KERNEL void __launch_bounds__(PACK_THREADS) pack(const struct net_view *net, int first)
{
    const struct net_setup *setup = net->setup;
    const size_t env = (size_t)first + blockIdx.y;
    const uint32_t at = blockIdx.x * PACK_THREADS + threadIdx.x, step = gridDim.x * PACK_THREADS;
    float *packed = net->packed + (size_t)blockIdx.y * net->packed_floats;
    const int which = (int)blockIdx.z;
    if (which < net->blocks) {
        const struct block_view &block = net->block[which];
        pack_layer({block.conv.kernel, block.conv.cin, block.conv.cout, false,
                    setup->host + env * net->host_storage + block.weight, packed + block.forward, packed + block.back},
                   at, step);
        return;
    }
    const int j = (which - net->blocks) / CHAIN_STEPS, number = (which - net->blocks) % CHAIN_STEPS;
    const struct slot_view &slot = net->slot[j];
    const struct slot_exec exec = setup->exec[env * (size_t)net->slots + (size_t)j];
    if (exec.mode == SLOT_SKIP || number >= slot.seed_of[exec.blueprint].steps)
        return;
    const struct step_view &s = slot.seed_of[exec.blueprint].step[number];
    const struct packed_layer layer = {s.kernel,
                                       s.cin,
                                       s.cout,
                                       s.kind == STEP_DEPTHWISE,
                                       setup->seed + env * net->seed_storage + slot.seed + s.weight,
                                       packed + s.forward,
                                       packed + s.back};
    if (layer.depthwise)
        pack_depthwise(layer, at, step);
    else
        pack_layer(layer, at, step);
}

void planes_pack(struct framed_net *device, int first, int envs)
{
    const struct net_view *net = &device->view;
    const unsigned layers = (unsigned)(net->blocks + CHAIN_STEPS * net->slots);
    const unsigned blocks = (unsigned)(net->packed_floats / layers / PACK_THREADS) + 1;
    const struct launch shape = {dim3(blocks, (unsigned)envs, layers), dim3(PACK_THREADS), 0, false};
    runtime_launch(device->runtime, pack, shape, device->net, first);
}
