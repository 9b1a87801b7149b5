/*
 * The fp32 networks on the device: the memory layout.
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
    size_t partial;               /* [chunk][weights] in an env's partial sums */
};

/* A step of a chain at a slot of known width. */
struct step_view {
    enum step_kind kind;
    int kernel, cin, cout, groups;
    int norm;                     /* index among the chain's norms, -1: none */
    bool relu;                    /* at the end of the step */
    uint32_t weight, gamma, beta; /* in the seed's parameters */
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
    int chunk, chunks;
    uint32_t seed, seed_storage, gate, gate_storage, gate_params; /* offsets in the pools */
    struct tensor_view gate_tensor[GATE_TENSORS];
    uint32_t x, s, y;                          /* maps: the seed's input, its output, the blend (before a pool) */
    uint32_t norms;                            /* [2][NORM_ARRAYS][channels] of a frame */
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

enum { NET_PARTS = 1 + SHAPE_SLOTS }; /* the host and every slot */

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
    uint32_t input, gpool, u, dx, chain;     /* maps: the image; gradients after the pool, of s, of x, in a chain */
    uint32_t feature, logit, dlogit;         /* vectors of a frame */
    uint32_t block_sums, label, loss, right; /* figures: [2][channels]; the loss; 1 if the answer was right */

    /* per env of the group */
    float *norms, *packed, *grads, *partials;
    size_t norm, packed_floats, grad, partial; /* floats of an env. packed, grads: host, then seeds[, then gates] */
    struct part_norms *part;                   /* [env][NET_PARTS] */

    /* per env */
    double *train_loss; /* sums of the step */
    uint32_t *train_right;
    float *losses; /* [env][validation images] */
    struct eval_plan *plans;

    const struct weight_work *work;
};

struct fp32_net : net_device {
    struct net_view view; /* on the host */
    struct net_view *net; /* on the device */
    unsigned work;        /* entries of net_view.work */
    unsigned eval_blocks;
};

static inline struct fp32_net *fp32_net_of(struct net_device *device)
{
    return static_cast<struct fp32_net *>(device);
}

/* ---- an image in the works --------------------------------------------------------------------------------------- */

struct image {
    const struct net_view *net;
    int env, place; /* among all; in the group */
    float *frame;
    double *figures;
    float *norms;
    const struct slot_exec *exec;           /* [slot] */
    const float *host, *seed, *gate;        /* the env's parameters */
    const float *packed_host, *packed_seed; /* the same, convolutions as [tap][cin][cout] */
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
    image.packed_host = net->packed + (size_t)place * net->packed_floats;
    image.packed_seed = image.packed_host + net->host_storage;
    return image;
}

DEVICE struct norm block_norm(const struct image &image, const struct block_view &block)
{
    return norm_at(image.norms + block.norm, block.conv.cout);
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
DEVICE const float *slot_input(const struct image &image, int block, int row)
{
    const struct block_view &b = image.net->block[block];
    const bool onlooker = row == 1 && image.exec[b.slot[1]].mode == SLOT_STE;
    return image.frame + (onlooker ? b.out : image.net->slot[b.slot[row]].x);
}

/* Bytes of device memory that a group's frames may take; 0: depends on the free device memory. Tests set it. */
extern size_t fp32_budget;

static inline struct launch net_blocks(unsigned columns, int envs, unsigned threads)
{
    struct launch shape = {dim3(columns, (unsigned)envs), dim3(threads), 0, false};
    return shape;
}

/* Parts of a phase, for the envs first .. first + envs - 1. */
void fp32_pack(struct fp32_net *device, int first, int envs);   /* packed weights */
void fp32_update(struct fp32_net *device, int first, int envs); /* after the passes of a batch */
void fp32_end_step(struct fp32_net *device, int first, int envs);

/* The batch whose images are in the frames. */
void fp32_learn(struct fp32_net *device, int first, int envs);
/* The same images through the first env's network without training, with running statistics: their logits and
 * losses. */
void fp32_look(struct fp32_net *device);

/* net_device.cuh */
void fp32_train(struct net_device *given);
void fp32_evaluate(struct net_device *given);
void fp32_measure(struct net_device *given, struct net_sets sets);
void fp32_test(struct net_device *given);

#endif
