#include "cnn/cpu/work.h"

#include <string.h>

/* The number of images that fills the kernels, at this many pixels each. */
static int group_of(int pixels)
{
    return pixels >= CONV_BLOCK ? 1 : CONV_BLOCK / pixels;
}

static int out_pixels(const struct block_shape *b)
{
    return b->pool ? (b->height / 2) * (b->width / 2) : b->height * b->width;
}

static void take_conv_memory(size_t packed_size, real *packed[2], real **sums, struct bump *bump)
{
    packed[0] = bump_take(bump, packed_size, sizeof(real));
    packed[1] = bump_take(bump, packed_size, sizeof(real));
    *sums = bump_take(bump, packed_size, sizeof(real));
}

static void block_init(struct net_block *block, const struct cnn_shape *shape, int i, int batch, struct bump *bump)
{
    const struct block_shape *b = &shape->block[i];
    int cin_p = padded(b->cin), cout_p = padded(b->cout), halo = shape->kernel / 2;
    size_t pixels = (size_t)b->height * b->width, framed = (size_t)(b->height + 2 * halo) * (b->width + 2 * halo);
    void *table = bump_take(bump, conv_table_bytes(b->height, b->width), 1);
    struct net_block made = {.slot = {b->slot[0], b->slot[1]}, .pool = b->pool};
    made.plane = i == 0 && b->pool && b->slot[1] < 0 && plane_fits(b->height, b->width, b->cin, b->cout, shape->kernel);
    made.group = group_of((int)pixels);
    made.map = pixels * cout_p;
    made.out_map = (size_t)out_pixels(b) * cout_p;
    take_conv_memory(conv_packed_reals(b->height, b->width, b->cin, b->cout, shape->kernel), made.packed, &made.sums,
                     bump);
    real *norm = bump_take(bump, (size_t)NORM_ARRAYS * cout_p, sizeof(real));
    made.in = bump_take(bump, (size_t)batch * framed * cin_p, sizeof(real));
    made.raw = bump_take(bump, (size_t)batch * made.map, sizeof(real));
    made.winners = bump_take(bump, (size_t)batch * made.out_map, sizeof(real));
    made.grad = bump_take(bump, (size_t)made.group * framed * cout_p, sizeof(real));
    if (bump->base) {
        made.norm = norm_in(norm, cout_p);
        conv_init(&made.conv, b->height, b->width, b->cin, b->cout, shape->kernel, table);
        *block = made;
    }
}

static void maps_init(struct net_maps *maps, size_t map, int grads, struct bump *bump)
{
    maps->host = bump_take(bump, map, sizeof(real));
    maps->blended = bump_take(bump, map, sizeof(real));
    maps->pooled = bump_take(bump, map, sizeof(real));
    maps->out = bump_take(bump, map, sizeof(real));
    maps->raw = bump_take(bump, map, sizeof(real));
    for (int i = 0; i < grads; i++)
        maps->grad[i] = bump_take(bump, map, sizeof(real));
}

/*
 * The largest map, in reals, of a group of images: at the host's width, in a seed's neck, or framed. A block's tail is
 * run in the groups of the layer that follows it.
 */
static size_t largest_map(const struct cnn_shape *shape)
{
    size_t largest = 0;
    for (int i = 0; i < shape->blocks; i++) {
        const struct block_shape *b = &shape->block[i];
        int cp = padded(b->cout), neck_p = padded(blueprint_neck(b->cout)), cin_p = padded(b->cin);
        int wide = cp > neck_p ? cp : neck_p, group = group_of(out_pixels(b));
        group = group > EVAL_GROUP ? group : EVAL_GROUP;
        size_t map = (size_t)group * framed_size(b->height, b->width, wide > cin_p ? wide : cin_p);
        largest = map > largest ? map : largest;
    }
    return largest;
}

/* Everything below is laid out twice: first to count (bump->base NULL, nothing is written), then in memory. */
static void net_lay_out(struct net *net, const struct cnn_shape *shape, int batch, struct bump *bump)
{
    struct net made = {.shape = shape, .batch = batch};
    made.group = group_of(out_pixels(&shape->block[shape->blocks - 1]));
    size_t map = largest_map(shape), batch_map = 0;
    for (int i = 0; i < shape->blocks; i++) {
        block_init(&made.block[i], shape, i, batch, bump);
        size_t raw = (size_t)shape->block[i].height * shape->block[i].width * padded(shape->block[i].cout);
        batch_map = raw > batch_map ? raw : batch_map;
    }
    made.scratch.framed_in = bump_take(bump, map, sizeof(real));
    made.scratch.framed_grad = bump_take(bump, map, sizeof(real));
    made.scratch.act = bump_take(bump, map, sizeof(real));
    made.scratch.grad_a = bump_take(bump, map, sizeof(real));
    made.scratch.grad_b = bump_take(bump, map, sizeof(real));
    maps_init(&made.maps, map, 4, bump);
    for (int i = 0; i <= shape->net.slots; i++)
        maps_init(&made.level[i], map, 0, bump);
    for (int i = 0; i < shape->net.slots; i++)
        seed_site_init(&made.site[i], shape->site[i].channels, shape->site[i].height, shape->site[i].width, batch,
                       net ? &net->scratch : NULL, bump);
    made.grad_map[0] = bump_take(bump, (size_t)batch * batch_map, sizeof(real));
    made.grad_map[1] = bump_take(bump, (size_t)batch * batch_map, sizeof(real));
    made.features_p = padded(shape->features);
    made.classes_p = padded(shape->classes);
    void *table = bump_take(bump, conv_table_bytes(1, 1), 1);
    take_conv_memory(conv_packed_reals(1, 1, shape->features, shape->classes, 1), made.fc_packed, &made.fc_sums, bump);
    made.features = bump_take(bump, (size_t)batch * made.features_p, sizeof(real));
    made.dfeatures = bump_take(bump, (size_t)batch * made.features_p, sizeof(real));
    made.logits = bump_take(bump, (size_t)batch * made.classes_p, sizeof(real));
    made.dlogits = bump_take(bump, (size_t)batch * made.classes_p, sizeof(real));
    made.labels = bump_take(bump, (size_t)batch, sizeof(uint16_t));
    made.gate_grad = bump_take(bump, CONV_BLOCK, sizeof(real));
    made.grads.host = bump_take(bump, shape->net.host.storage, sizeof(real));
    made.grads.seed = bump_take(bump, shape->net.seed_storage, sizeof(real));
    made.grads.gate = bump_take(bump, shape->net.gate_storage, sizeof(real));
    if (bump->base) {
        conv_init(&made.fc, 1, 1, shape->features, shape->classes, 1, table);
        *net = made;
    }
}

size_t cnn_bytes(const struct net_shape *shape, int batch)
{
    struct bump bump = {0};
    bump_take(&bump, 1, sizeof(struct net));
    net_lay_out(NULL, cnn_shape_of(shape), batch, &bump);
    return bump.used + 64;
}

struct net *cnn_init(const struct net_shape *shape, int batch, void *memory)
{
    struct bump bump = {memory, 0};
    struct net *net = bump_take(&bump, 1, sizeof(struct net));
    net_lay_out(net, cnn_shape_of(shape), batch, &bump);
    return net;
}

struct net_input cnn_input(struct net *net)
{
    const struct net_block *first = &net->block[0];
    size_t pitch = (size_t)(first->conv.width + 2 * (net->shape->kernel / 2)) * first->conv.cin_p;
    bool framed = net->shape->kernel == 3;
    return (struct net_input){.pixels = first->in + (framed ? pitch + first->conv.cin_p : 0),
                              .image_stride = first->conv.in_image,
                              .row_stride = pitch,
                              .labels = net->labels};
}

struct net_params cnn_grads(struct net *net)
{
    return net->grads;
}

const real *cnn_logits(const struct net *net, int *stride)
{
    *stride = net->classes_p;
    return net->logits;
}

void net_pack_host(struct net *net, const struct net_params *params)
{
    for (int i = 0; i < net->shape->blocks; i++) {
        struct net_block *block = &net->block[i];
        conv_pack_forward(&block->conv, host_tensor(net, params->host, net->shape->block[i].weight), block->packed[0]);
    }
    conv_pack_forward(&net->fc, host_tensor(net, params->host, net->shape->fc_weight), net->fc_packed[0]);
}

void net_classify(struct net *net, const struct net_params *params, int images, const real *features, real *logits)
{
    const real *bias = host_tensor(net, params->host, net->shape->fc_bias);
    conv_forward(&net->fc, images, features, net->fc_packed[0], logits);
    for (int n = 0; n < images; n++)
        for (int k = 0; k < net->shape->classes; k++)
            logits[n * net->classes_p + k] += bias[k];
}

/* ---- slots ------------------------------------------------------------------------------------------------------ */

void net_begin_seeds(struct net *net, const struct net_params *params, const struct slot_exec *exec, bool evaluating)
{
    for (int j = 0; j < net->shape->net.slots; j++) {
        struct seed *seed = &net->seed[j];
        *seed = (struct seed){0};
        if (exec[j].mode == SLOT_SKIP || (evaluating && exec[j].mode == SLOT_STE))
            continue;
        *seed = (struct seed){.site = &net->site[j],
                              .blueprint = blueprint_at(exec[j].blueprint),
                              .layout = &net->site[j].layout[exec[j].blueprint],
                              .w = params->seed + net->shape->net.slot[j].seed,
                              .g = net->grads.seed + net->shape->net.slot[j].seed,
                              .train = exec[j].train && !evaluating,
                              .backward = !evaluating};
        /* Blueprints overlay one pool: what the last one left between the tensors must not count. */
        memset(seed->g, 0, sizeof(real) * seed->layout->storage);
        seed_begin(seed);
        if (exec[j].gate)
            memset(net->grads.gate + net->shape->net.slot[j].gate, 0,
                   sizeof(real) * net->shape->net.slot[j].gate_storage);
    }
}

void net_blend(const struct seed_site *site, const struct slot_exec *exec, real alpha, int first, int images,
               const real *h, real *y)
{
    const real *s = site->out + (size_t)first * site->map;
    real a = clamp01(alpha);
    for (int n = 0; n < images; n++) {
        size_t at = (size_t)n * site->map;
        if (exec->algorithm == ALGORITHM_MULTIPLY)
            blend_multiply_forward(site->map, h + at, s + at, a, y + at);
        else
            blend_add_forward(site->map, h + at, s + at, net_amplitude(site, exec, a, first + n), y + at);
    }
}

void net_slot_forward(struct net *net, const struct net_params *params, const struct slot_exec *exec, int slot,
                      real alpha, int first, int images, const real *h, real *y)
{
    const struct seed_site *site = &net->site[slot];
    seed_forward(&net->seed[slot], first, images, h, site->out + (size_t)first * site->map);
    if (exec->gate)
        gate_forward(site, params->gate + net->shape->net.slot[slot].gate, first, images, h);
    net_blend(site, exec, alpha, first, images, h, y);
}

const struct net_kernels cnn_kernels = {
    .bytes = cnn_bytes,
    .init = cnn_init,
    .input = cnn_input,
    .gradients = cnn_gradients,
    .measure = cnn_measure,
    .update = cnn_update,
    .evaluate = cnn_evaluate,
};
