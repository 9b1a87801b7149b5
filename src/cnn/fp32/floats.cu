/* The fp32 networks: the passes, and the packed weights. */
#include "cuda/runtime.cuh"

#include "cnn/fp32/floats.cuh"
#include "cnn/fp32/passes.cuh"
#include "cnn/fp32/walk.cuh"

enum { PACK_THREADS = 256, CHUNKS = 32, CHUNK_PIXELS = 1024 };

/* ---- packed weights ---------------------------------------------------------------------------------------------- */

/* Maps [cout][tap][cin] to [tap][cin][cout]; true if `at` is in that tensor. */
DEVICE bool packed_place(uint32_t at, uint32_t weight, uint32_t taps, uint32_t cin, uint32_t cout, uint32_t *to)
{
    if (at < weight || at >= weight + cout * taps * cin)
        return false;
    const uint32_t i = at - weight, o = i / (taps * cin), rest = i % (taps * cin);
    *to = weight + rest * cout + o;
    return true;
}

KERNEL void __launch_bounds__(PACK_THREADS) pack(const struct net_view *net, int first)
{
    const struct net_setup *setup = net->setup;
    const size_t env = (size_t)first + blockIdx.y;
    uint32_t at = blockIdx.x * PACK_THREADS + threadIdx.x, to;
    float *packed = net->packed + (size_t)blockIdx.y * net->packed_floats;
    const uint32_t taps = (uint32_t)(net->kernel * net->kernel);
    if (at < net->host_storage) {
        for (int i = 0; i < net->blocks; i++) {
            const struct block_view &block = net->block[i];
            if (packed_place(at, block.weight, taps, (uint32_t)block.conv.cin, (uint32_t)block.conv.cout, &to))
                packed[to] = setup->host[env * net->host_storage + at];
        }
        return;
    }
    at -= net->host_storage;
    if (at >= net->seed_storage)
        return;
    int j = net->slots - 1;
    while (at < net->slot[j].seed)
        j--;
    const struct slot_view &slot = net->slot[j];
    const struct slot_exec exec = setup->exec[env * (size_t)net->slots + (size_t)j];
    if (exec.mode == SLOT_SKIP)
        return;
    const struct seed_view &seed = slot.seed_of[exec.blueprint];
    for (int i = 0; i < seed.steps; i++) {
        const struct step_view &step = seed.step[i];
        if (step.kind != STEP_DEPTHWISE &&
            packed_place(at - slot.seed, step.weight, (uint32_t)(step.kernel * step.kernel), (uint32_t)step.cin,
                         (uint32_t)step.cout, &to))
            packed[net->host_storage + slot.seed + to] = setup->seed[env * net->seed_storage + at];
    }
}

static void floats_pack(struct framed_net *device, int first, int envs)
{
    const unsigned floats = (unsigned)device->view.packed_floats;
    struct launch shape = {dim3((floats + PACK_THREADS - 1) / PACK_THREADS, (unsigned)envs), dim3(PACK_THREADS), 0,
                           false};
    runtime_launch(device->runtime, pack, shape, device->net, first);
}

/* ---- net_device.cuh ---------------------------------------------------------------------------------------------- */

/* Images per chunk, from the sizes of batch and maps alone: enough chunks for the device, but none too small to be
 * worth its sums. */
static int floats_chunk(int batch, int pixels, int)
{
    int images = batch / CHUNKS;
    if (images * pixels < CHUNK_PIXELS)
        images = (CHUNK_PIXELS + pixels - 1) / pixels;
    return images < batch ? images : batch;
}

static int floats_parts(const struct layer_view &layer, bool depthwise)
{
    return (weight_tiles(layer.kernel, layer.cin, layer.in_stride, layer.cout, depthwise) + BLOCK_THREADS - 1) /
           BLOCK_THREADS;
}

static struct net_device *floats_create(struct runtime *rt, const struct net_setup *setup)
{
    static const struct framed_passes passes = {floats_pack, enqueue_gather<floats>, enqueue_learn<floats>,
                                                enqueue_look<floats>, enqueue_walk<floats>};
    const struct framed_form form = {1, 1, false, floats_parts, floats_chunk, nullptr};
    return framed_create(rt, setup, form, &passes);
}

extern const struct net_device_kernels cnn_fp32 = {floats_create,   framed_free,    framed_train,
                                                   framed_evaluate, framed_measure, framed_test};
