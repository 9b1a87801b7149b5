/*
 * Networks of any shape on the device: the memory layout. The passes over it are written for a precision (floats.cuh,
 * cnn/planes/planes.cuh), which says what maps are made of and computes convolutions.
 *
 * Every image of a batch has a *frame*, all of its maps at fixed offsets, and *figures*, its sums in double. One thread
 * block works on one image; what couples the images of a batch (BatchNorm's statistics, gradients of weights) is summed
 * over the figures, or over chunks of frames, in separate kernels. Frames are many megabytes per env, so envs are run
 * in groups of as many as fit a fixed budget: an env's numbers do not depend on its group.
 */
#ifndef CNN_FP32_NET_CUH
#define CNN_FP32_NET_CUH

#include "cnn/device.cuh"
#include "morph/plan.cuh"
#include "nn/convolve.cuh"

/* A layer with weights, and the chunks of images over which its weights' gradients are summed. */
struct layer_view {
    int height, width, kernel, cin, cout, in_stride;
    int stored;        /* channels of its norm's arrays */
    int chunk, chunks; /* images in a chunk; how many there are */
};

struct block_view {
    struct layer_view conv;
    int pixels;
    bool pool;
    int slot[SLOT_ROWS];
    uint32_t weight, gamma, beta; /* in the host's parameters */
    uint32_t mean, var;           /* in the running statistics */
    uint32_t norm;                /* coefficients, in an env's norms */
    uint32_t in, raw, grad, out;  /* maps of a frame; grad: after the ReLU, then of raw */
    uint32_t pooled;              /* likewise: the gradient after the pool */
    uint32_t forward, back;       /* packed weights */
    size_t partial;               /* [chunk][weights] in an env's partial sums */
};

/* A step of a chain at a slot of known width. */
struct step_view {
    enum step_kind kind;
    int kernel, cin, cout, groups;
    int norm;                     /* index among the chain's norms, -1: none */
    bool relu;                    /* at the end of the step */
    uint32_t weight, gamma, beta; /* in the seed's parameters */
    uint32_t forward, back;       /* packed weights */
    uint32_t pre, act, grad;      /* maps: before the act, after it, and the gradient of pre */
};

struct tensor_view {
    uint32_t offset, size;
};

struct seed_view {
    enum seed_kind kind;
    int steps, tensors;
    uint32_t storage, params;
    struct step_view step[CHAIN_STEPS];
    struct tensor_view tensor[LAYOUT_TENSORS];
};

enum { GATE_W1, GATE_B1, GATE_W2, GATE_B2, GATE_TENSORS };

struct slot_view {
    int channels, height, width, pixels, groups, neck, squeeze;
    int stored; /* channels of the norms' arrays */
    int chunk, chunks;
    uint32_t seed, seed_storage, gate, gate_storage, gate_params; /* offsets in the pools */
    struct tensor_view gate_tensor[GATE_TENSORS];
    uint32_t x, s, y;                          /* maps: the seed's input, its output, the blend (before a pool) */
    uint32_t norms;                            /* [2][NORM_ARRAYS][stored] of a frame */
    uint32_t gate_mean, gate_hidden, gate_out; /* of a frame */
    uint32_t sums;                             /* figures [4][channels]: dgamma, dbeta of each norm */
    uint32_t sigma;                            /* figure: gradient of the norm seed's sigma */
    uint32_t gate_sums;                        /* figures: gradient of the gate's output [1] and hidden layer [neck] */
    size_t partial;                            /* [chunk][seed_storage] */
    struct seed_view seed_of[BLUEPRINT_COUNT];
};

/* A thread block's share of the weights' gradients. */
struct weight_work {
    int16_t block, slot, step; /* a host block, or a slot's step; the other is -1 */
    int16_t chunk;
    int32_t part;
};

/* Norms of an env's gradients before clipping. */
struct part_norms {
    double square;               /* of host, or of a seed and its gate */
    struct gradient_tally tally; /* of a seed and its gate */
};

struct net_view {
    const struct net_setup *setup; /* device */
    int batch, blocks, slots, features, classes, kernel;
    int group; /* envs whose frames exist */
    struct block_view block[SHAPE_BLOCKS];
    struct slot_view slot[SHAPE_SLOTS];
    uint32_t fc_weight, fc_bias, host_params;
    uint32_t host_storage, seed_storage, gate_storage; /* floats of an env */

    /* per image of the group */
    float *frames;
    double *figures;
    size_t frame, figure;                    /* floats and doubles of an image */
    uint32_t input, u, dx, chain;            /* maps: the image; gradients of s, of x, in a chain */
    uint32_t feature, logit, dlogit;         /* vectors of a frame */
    uint32_t block_sums, label, loss, right; /* figures: [2][channels]; the loss; 1 if the answer was right */

    /* per env of the group */
    float *norms, *packed, *grads, *partials;
    size_t norm, packed_floats, grad, partial; /* floats of an env. grads: host, then seeds, then gates */
    struct part_norms *part;                   /* [env][NET_NORMS] */

    /* per env */
    double *train_loss; /* sums of the step */
    uint32_t *train_right;
    float *losses; /* [env][validation images] */
    struct eval_plan *plans;

    const struct weight_work *work;
};

/* What is evaluated, and where the results go. */
struct eval_pass {
    enum split split;
    int images;
    struct eval_plan *plans; /* which configurations; they count what was right */
    float *losses;           /* [env][images] of configuration 0, or NULL */
};

struct framed_net;

/* What a precision enqueues, for the envs first .. first + envs - 1. */
struct framed_passes {
    void (*pack)(struct framed_net *device, int first, int envs); /* weights, as convolutions read them */
    void (*gather)(struct framed_net *device, int first, int envs, uint32_t index);
    void (*learn)(struct framed_net *device, int first, int envs); /* the batch whose images are in the frames */
    void (*look)(
        struct framed_net *device); /* the same images through the first env's network, with running statistics */
    void (*walk)(struct framed_net *device, int first, int envs, struct eval_pass pass);
};

/* A step of a seed as a layer. */
static inline __host__ __device__ struct layer_view step_layer(const struct slot_view &slot,
                                                               const struct step_view &step)
{
    return {slot.height, slot.width, step.kernel, step.cin, step.cout, step.cin, 0, slot.chunk, slot.chunks};
}

struct framed_net : net_device {
    const struct framed_passes *passes;
    struct net_view view; /* on the host */
    struct net_view *net; /* on the device */
    unsigned work;        /* entries of net_view.work */
    unsigned eval_blocks;
    uint32_t shared[1 + SHAPE_BLOCKS], shared_all; /* bytes of shared memory: what a block and the tail of the one
                                                      below need (after the last block: its tail); the most of all */
    uint32_t shared_weights;
};

static inline struct framed_net *framed_net_of(struct net_device *device)
{
    return static_cast<struct framed_net *>(device);
}

/* How a precision lays out what depends on it. */
struct framed_form {
    int unit;           /* channels of a map's element */
    size_t unit_floats; /* the room that it takes */
    bool keeps_pooled;  /* every block has its own gradient after the pool; otherwise they share one */
    /* Thread blocks among which a chunk's gradients of a layer's weights are divided, and images of a chunk. */
    int (*parts)(const struct layer_view &layer, bool depthwise);
    int (*chunk)(int batch, int pixels, int parts);
    /* Words of a layer's packed weights, in either direction; NULL: they lie as the parameters do. */
    uint32_t (*packed)(int kernel, int cin, int cout, bool depthwise, bool back);
};

/* ---- an image in the works --------------------------------------------------------------------------------------- */

struct image {
    const struct net_view *net;
    int env, place; /* among all; in the group */
    float *frame;
    double *figures;
    float *norms;
    const struct slot_exec *exec;    /* [slot] */
    const float *host, *seed, *gate; /* the env's parameters */
    const float *packed;             /* convolutions as the precision reads them */
};

DEVICE struct image image_of(const struct net_view *net, int env, int place, size_t frame)
{
    const struct net_setup *setup = net->setup;
    struct image image;
    image.net = net;
    image.env = env;
    image.place = place;
    image.frame = net->frames + frame * net->frame;
    image.figures = net->figures + frame * net->figure;
    image.norms = net->norms + (size_t)place * net->norm;
    image.exec = setup->exec + (size_t)env * (size_t)net->slots;
    image.host = setup->host + (size_t)env * net->host_storage;
    image.seed = setup->seed + (size_t)env * net->seed_storage;
    image.gate = setup->gate + (size_t)env * net->gate_storage;
    image.packed = net->packed + (size_t)place * net->packed_floats;
    return image;
}

DEVICE struct norm block_norm(const struct image &image, const struct block_view &block)
{
    return norm_at(image.norms + block.norm, block.conv.stored);
}

/* A map of a frame. */
template <class P> DEVICE typename P::map *map_at(float *frame, uint32_t offset)
{
    return reinterpret_cast<typename P::map *>(frame + offset);
}

/* How much of the seed is mixed in, gate aside. */
DEVICE float slot_amplitude(const struct slot_exec &exec)
{
    return exec.alpha < 0 ? 0 : exec.alpha > 1 ? 1 : exec.alpha;
}

DEVICE enum slot_mode slot_mode_at(const struct image &image, int slot)
{
    return slot < 0 ? SLOT_SKIP : (enum slot_mode)image.exec[slot].mode;
}

/* The seed changes the slot's output. */
DEVICE bool slot_mixes(const struct image &image, int slot)
{
    return slot_mode_at(image, slot) == SLOT_BLEND && slot_amplitude(image.exec[slot]) > 0;
}

/* Gradients of the seed's parameters are computed in this batch. */
DEVICE bool slot_learns(const struct slot_exec &exec)
{
    return exec.train && (exec.mode == SLOT_STE || slot_amplitude(exec) > 0);
}

/* The input of a slot's seed: kept by the slot or, for a seed in TRAINING after a pool, the block's output itself. */
DEVICE uint32_t slot_input(const struct image &image, int block, int row)
{
    const struct block_view &b = image.net->block[block];
    const bool onlooker = row == 1 && image.exec[b.slot[1]].mode == SLOT_STE;
    return onlooker ? b.out : image.net->slot[b.slot[row]].x;
}

static inline struct launch net_blocks(unsigned columns, int envs, unsigned threads, uint32_t shared = 0)
{
    struct launch shape = {dim3(columns, (unsigned)envs), dim3(threads), shared, false};
    return shape;
}

/* A thread block per image of a batch. */
static inline struct launch image_blocks(const struct framed_net *device, int envs, uint32_t shared)
{
    return net_blocks((unsigned)device->view.batch, envs, BLOCK_THREADS, shared);
}

/* Layout, memory and division of the work; NULL after an error. */
struct framed_net *framed_create(struct runtime *rt, const struct net_setup *setup, const struct framed_form &form,
                                 const struct framed_passes *passes);
void framed_free(struct net_device *given);

/* Parts of a phase that do not depend on the precision, for the envs first .. first + envs - 1. */
void framed_norm_forward(struct framed_net *device, int first, int envs, int block);
void framed_norm_backward(struct framed_net *device, int envs, int block);
void framed_norm_evaluate(struct framed_net *device, int first, int envs);
void framed_update(struct framed_net *device, int first, int envs); /* when the chunks' gradients are there */
void framed_end_step(struct framed_net *device, int first, int envs);

/* net_device.cuh */
void framed_train(struct net_device *given);
void framed_evaluate(struct net_device *given, int images);
void framed_measure(struct net_device *given, struct net_sets sets, int images);
void framed_test(struct net_device *given);

#endif
