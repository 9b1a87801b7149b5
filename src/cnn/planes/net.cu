/* bf16 networks of any shape: which there are, what they share, and the passes of training. */
#include "cuda/runtime.cuh"

#include <cstring>

#include "cnn/fp32/passes.cuh"
#include "cnn/planes/net.cuh"
#include "cnn/planes/planes.cuh"

enum {
    WEIGHT_BLOCKS = 32,      /* thread blocks for a layer's gradients, at least, if the batch lets it */
    WEIGHT_CHUNKS = 4,       /* of a batch, at least, likewise */
    SHARED_MOST = 80 * 1024, /* of dynamic shared memory: what every card with bf16 has, beside what is declared */
    WIDTH_MOST = PATCH_PIXELS
};

static int parts_of(const struct layer_view &layer, bool depthwise)
{
    return octet_divide(layer.kernel, layer.cin, layer.cout, depthwise).parts;
}

/* A chunk has the pixels of a few strips at least: its sums are written once per chunk. */
static int chunk_of(int batch, int pixels, int parts)
{
    const int least = (4 * PATCH_PIXELS + pixels - 1) / pixels;
    const int chunks = WEIGHT_BLOCKS / parts > WEIGHT_CHUNKS ? WEIGHT_BLOCKS / parts : WEIGHT_CHUNKS;
    const int images = (batch + chunks - 1) / chunks, chunk = images > least ? images : least;
    return chunk < batch ? chunk : batch;
}

static uint32_t packed_words(int kernel, int cin, int cout, bool depthwise, bool back)
{
    const int in = map_planes<struct octet>(cin), out = map_planes<struct octet>(cout);
    if (depthwise)
        return back ? 0 : (uint32_t)(9 * map_channels<struct octet>(cout));
    return back ? octet_weight_words(kernel, out, in) : octet_weight_words(kernel, in, out);
}

/* ---- shared memory ----------------------------------------------------------------------------------------------- */

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Convolutions between so many channels, in both directions. */
static uint32_t convolution_bytes(int height, int width, int kernel, int a, int b)
{
    const int most = map_planes<struct octet>(a > b ? a : b);
    uint32_t bytes = 0; /* fewer planes may have more rows at a time */
    for (int planes = 1; planes <= most; planes++)
        bytes = larger(bytes, octet_bytes(height, width, kernel, planes));
    return bytes;
}

/* Of the seeds that a slot may hold: passes, and gradients of weights. */
static void site_bytes(const struct site_shape &site, uint32_t *passes, uint32_t *weights)
{
    const int c = site.channels, neck = blueprint_neck(c), widths[] = {c, neck};
    for (int kernel : {1, 3})
        for (int a : widths)
            for (int b : widths) {
                *passes = larger(*passes, convolution_bytes(site.height, site.width, kernel, a, b));
                *weights = larger(*weights, octet_weights_bytes(site.height, site.width, kernel, a, b));
            }
}

struct shared_bytes {
    uint32_t block[1 + SHAPE_BLOCKS], all, weights;
};

static struct shared_bytes shared_of(const struct cnn_shape *shape)
{
    struct shared_bytes shared = {};
    for (int i = 0; i < shape->blocks; i++) {
        const struct block_shape *b = &shape->block[i];
        shared.block[i] =
            larger(shared.block[i], convolution_bytes(b->height, b->width, shape->kernel, b->cin, b->cout) +
                                        octet_moments_bytes(map_planes<struct octet>(b->cout)));
        shared.weights =
            larger(shared.weights, octet_weights_bytes(b->height, b->width, shape->kernel, b->cin, b->cout));
        for (int slot : b->slot)
            if (slot >= 0)
                site_bytes(shape->site[slot], &shared.block[i + 1], &shared.weights);
    }
    for (uint32_t bytes : shared.block)
        shared.all = larger(shared.all, bytes);
    return shared;
}

bool cnn_planes_fit(const struct net_shape *host, int batch)
{
    const struct cnn_shape *shape = cnn_shape_of(host);
    const struct shared_bytes shared = shared_of(shape);
    return batch >= 1 && shape->block[0].width <= WIDTH_MOST && shape->block[0].height <= WIDTH_MOST &&
           shared.all <= SHARED_MOST && shared.weights <= SHARED_MOST;
}

/* ---- lifetime ---------------------------------------------------------------------------------------------------- */

static struct net_device *planes_create(struct runtime *rt, const struct net_setup *setup)
{
    static const struct framed_passes passes = {planes_pack, enqueue_gather<planes>, enqueue_learn<planes>, planes_look,
                                                planes_walk};
    const struct framed_form form = {
        map_form<struct octet>::WIDTH, sizeof(struct octet) / sizeof(float), true, parts_of, chunk_of, packed_words};
    struct framed_net *device = framed_create(rt, setup, form, &passes);
    if (!device)
        return nullptr;
    const struct shared_bytes shared = shared_of(cnn_shape_of(setup->host_shape));
    memcpy(device->shared, shared.block, sizeof device->shared);
    device->shared_all = shared.all;
    device->shared_weights = shared.weights;
    allow_passes<planes>(device, SHARED_MOST);
    planes_allow_walk(device, SHARED_MOST);
    if (rt->failed) {
        delete device;
        return nullptr;
    }
    return device;
}

extern const struct net_device_kernels cnn_planes = {planes_create,   framed_free,    framed_train,
                                                     framed_evaluate, framed_measure, framed_test};
