/*
 * The seeds of cnn_bf16: seeds in TRAINING as leaf jobs beside the host's backward pass, blended seeds as part of it,
 * and their update. Buffers of the host, and where values are rounded, are described in host.cuh and
 * seed_kinds.cuh.
 *
 * Which seeds are live is known at the start of a step: seed_plan lists, for each slot, the envs whose seed is a leaf
 * and those whose seed is blended. A kernel's blocks take jobs (an env, a few images) from such a list as they become
 * free, so empty slots cost nothing and a job's bits do not depend on the block that executes it. Lists and parameters
 * are read before the preceding kernel has ended (device_wait): they must be older than that kernel.
 *
 * Where both slots of a block are in use, r1 comes after r0: `between` is the output of r0's blend (after the pool) and
 * `between_grad` its gradient, unmasked.
 */
#ifndef CNN_BF16_SEED_CUH
#define CNN_BF16_SEED_CUH

#include "cnn/bf16/host.cuh"

enum { SEED_TENSORS = 6, SEED_BLOCK = 256 }; /* tensors of any blueprint; parameters that a thread block updates */

/* A convolution's weight [out][tap][in], and the start of its fragments (in half words) among the slot's. */
struct seed_weight {
    int taps, in, out; /* 0 taps: not a convolution */
    uint32_t forward, back;
};

struct seed_tensors {
    int count;
    uint32_t storage, params, offset[SEED_TENSORS], size[SEED_TENSORS];
    struct seed_weight weight[SEED_TENSORS];
    uint32_t halves; /* of all fragments */
};

/* How a slot's seed is mixed in. */
struct blend {
    int blueprint; /* BLUEPRINT_NOOP where nothing of the seed is mixed in */
    bool multiply, gate, train;
    float alpha;
};

DEVICE struct blend blend_of(const struct slot_exec &exec)
{
    struct blend blend;
    blend.alpha = exec.alpha < 0 ? 0 : exec.alpha > 1 ? 1 : exec.alpha;
    blend.blueprint = blend.alpha == 0 ? (int)BLUEPRINT_NOOP : (int)exec.blueprint;
    blend.multiply = exec.algorithm == ALGORITHM_MULTIPLY;
    blend.gate = exec.gate && blend.alpha > 0;
    blend.train = exec.train;
    return blend;
}

/* Input planes of a slot. */
struct seed_input {
    const uint4 *from;
    bool affine; /* BatchNorm and ReLU are still to come */
};

/* A live seed: all that does not depend on the batch. */
struct seed_entry {
    int env;
    struct blend blend;
    struct seed_input input;
    const uint4 *grad;        /* of the slot's output */
    uint4 *out, *also;        /* forward: where the output goes; NULL: not there */
    uint32_t *masked, *plain; /* backward: where gradients go, before the input's ReLU and after it; NULL: not there */
    float *record;            /* [job][record]: gradients */
    const float *w, *gate;
    const uint32_t *packed; /* fragments */
};
static_assert(sizeof(struct seed_entry) <= 128 && sizeof(struct seed_entry) % 4 == 0, "a warp loads it at once");

struct seed_list {
    uint32_t *head;           /* number of entries; number of their jobs taken so far */
    struct seed_entry *entry; /* [parity][env] (fast_kept), or those of one parity */
};

struct seed_slot {
    int block, row, channels, size;
    uint32_t seed, seed_storage, gate, gate_storage; /* offsets and sizes in an env's pools */
    uint32_t record;                                 /* floats of a job's gradients: seed, then gate */
    uint32_t fragments;                              /* offset in an env's fragments, in words */
    uint32_t first_block, seed_blocks, blocks;       /* thread blocks that update it, among those of all slots */
    float *part;                                     /* [env][job][record] */
    float *grad;                                     /* [env][record] of the batch, before clipping */
    double *squares;                                 /* [env][blocks] */
    struct seed_list leaf, blend, back;
};

/* Passed to kernels by value, next to struct fast_host. */
struct seed_set {
    float *seed, *seed_momentum, *gate, *gate_momentum; /* the setup's */
    uint32_t seed_size, gate_size;                      /* of an env */
    uint32_t *fragments; /* [env][fragment_size]: the weights of convolutions as mma operands (tile_weights) */
    uint32_t fragment_size;
    uint4 *between[2][SHAPE_BLOCKS], *between_grad[2][SHAPE_BLOCKS]; /* [parity] (fast_kept) */
    const struct seed_tensors *tensors; /* [slot][BLUEPRINT_COUNT + 1], the gate net last */
    const struct seed_slot *slots;      /* [slot] */
    struct optimiser rates;
    const float *lr_factor; /* [env] */
    float max_norm;
    struct slot_grads *grads; /* [env][slot] */
    uint32_t host_params;
};

struct fast_seeds {
    struct seed_set set;
    struct seed_slot slot[SHAPE_SLOTS];
};

/* Allocates what the seeds of net->host need; NULL after an error. The host part must be complete. */
struct fast_seeds *seed_create(struct bf16_net *net);
void seed_free(struct fast_seeds *seeds);

/* All of these enqueue. seed_plan: once at the start of a step, after exec is known. */
void seed_plan(struct bf16_net *net);
/* Fragments from the parameters, which may have been changed elsewhere; the update keeps them current. */
void seed_pack(struct bf16_net *net);
void seed_blend_forward(struct bf16_net *net, int block);
/* In this order, when grad_out[block] is complete. */
void seed_blend_backward(struct bf16_net *net, int block);
void seed_leaf(struct bf16_net *net, int block);
/* When all of a batch's leaf jobs (SLOT_STE) or blends (SLOT_BLEND) are done: their update. */
void seed_update(struct bf16_net *net, enum slot_mode mode);
/* Measurements of the step's last batch, for the observations; after fast_gradients, whose norm is the reference. */
void seed_measure(struct bf16_net *net);

/* ---- for the kernels --------------------------------------------------------------------------------------------- */

/* Images of a leaf job. Nothing waits for leaf jobs: they may be larger than those of blends where maps are large. */
enum { LEAF_IMAGES = 8 };

/* Jobs of a batch that leave gradients of a seed. */
DEVICE int seed_jobs(const struct fast_host &host, const struct seed_slot &slot, enum slot_mode mode)
{
    return mode == SLOT_STE ? (host.batch + LEAF_IMAGES - 1) / LEAF_IMAGES : host.block[slot.block].jobs;
}

/* How many images a thread block processes at a time, for slots of this form; 0 where there is no kernel. */
constexpr int seed_images(int channels, int size)
{
    return channels == 8 && size == 32    ? 1
           : channels == 16 && size == 16 ? 2
           : channels == 32 && size == 8  ? 4
           : channels == 8 && size == 16  ? 4
           : channels == 16 && size == 8  ? 8
           : channels == 32 && size == 4  ? 8
                                          : 0;
}

/* A slot as a kernel of this batch sees it. */
static inline struct seed_slot seed_slot_of(const struct bf16_net *net, int block, int row)
{
    struct seed_slot slot = net->seeds->slot[net->host.block[block].slot[row]];
    for (struct seed_list *list : {&slot.leaf, &slot.blend, &slot.back})
        list->entry += net->parity * net->host.envs;
    return slot;
}

/* Channels, size and row of the slots with kernels: those of a host of base 8. */
#define SEED_FORMS(FORM) FORM(8, 32, 0) FORM(16, 16, 0) FORM(32, 8, 0) FORM(8, 16, 1) FORM(16, 8, 1) FORM(32, 4, 1)

/* What their passes enqueue (seed_passes.cuh). */
template <int C, int SIZE, int ROW> struct seed_form {
    static void forward(struct bf16_net *net, const struct seed_slot &slot);
    static void backward(struct bf16_net *net, const struct seed_slot &slot);
    static void leaf(struct bf16_net *net, const struct seed_slot &slot);
};

/* Thread blocks for a list of jobs: as many as fit, `each` per SM, but no more than there can be jobs. */
static inline unsigned seed_grid(const struct bf16_net *net, const struct seed_slot &slot, int each)
{
    const unsigned jobs = (unsigned)(net->host.envs * net->host.block[slot.block].jobs);
    const unsigned fit = net->resident ? (unsigned)net->resident : (unsigned)(runtime_processors(net->runtime) * each);
    return jobs < fit ? jobs : fit;
}

/*
 * The first job of a thread block, where `each` share an SM: neighbours in the list, mostly of one blueprint, so that
 * they also share its code in the cache. Blocks are distributed to the SMs round-robin.
 */
DEVICE uint32_t seed_first(int each)
{
    const uint32_t processors = gridDim.x / (uint32_t)each;
    return gridDim.x % (uint32_t)each ? blockIdx.x : blockIdx.x % processors * (uint32_t)each + blockIdx.x / processors;
}

#endif
