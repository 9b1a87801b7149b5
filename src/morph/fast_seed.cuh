/*
 * The seeds of net_bf16: training seeds as leaves beside the host's backward pass, blended seeds on it, their update.
 * Buffers of the host, and where values are rounded, are described in fast_host.cuh and fast_seed_kinds.cuh.
 *
 * Who is alive is known at the start of a step: seed_plan lists, for each slot, the envs whose seed is a leaf and those
 * whose seed is blended. A kernel's blocks take (env, a few images) from such a list in turn, so dead slots cost
 * nothing and a job's bits do not depend on the block that does it.
 *
 * Where both slots of a block are in use, r1 comes after r0: `between` is what leaves r0's blend (after the pool) and
 * `between_grad` its gradient, unmasked.
 */
#ifndef MORPH_FAST_SEED_CUH
#define MORPH_FAST_SEED_CUH

#include "morph/fast_host.cuh"

enum { SEED_TENSORS = 6, SEED_BLOCK = 256 }; /* tensors of any blueprint; parameters that a block of threads updates */

/* A convolution's weight [out][tap][in], and where its fragments begin (in half words) in a slot's. */
struct seed_weight {
    int taps, in, out; /* 0 taps: another tensor */
    uint32_t forward, back;
};

struct seed_tensors {
    int count;
    uint32_t storage, params, offset[SEED_TENSORS], size[SEED_TENSORS];
    struct seed_weight weight[SEED_TENSORS];
    uint32_t halves; /* of all fragments */
};

struct seed_slot {
    int block, row, channels, size;
    uint32_t seed, seed_storage, gate, gate_storage; /* offsets and sizes in an env's pools */
    uint32_t record;                                 /* floats of a job's gradients: seed, then gate */
    uint32_t fragments;                              /* offset in an env's fragments, in words */
    uint32_t first_block, seed_blocks, blocks;       /* of threads that update it, among those of all slots */
    float *part;                                     /* [env][job][record] */
    float *grad;                                     /* [env][record] of the batch, before clipping */
    double *squares;                                 /* [env][blocks] */
    uint32_t *leaf, *blend, *back;                   /* a count, then that many entries: envs */
};

/* Passed to kernels by value, next to struct fast_host. */
struct seed_set {
    float *seed, *seed_momentum, *gate, *gate_momentum; /* the world's */
    uint32_t seed_size, gate_size;                      /* of an env */
    uint32_t *fragments; /* [env][fragment_size]: the weights of convolutions as mma operands (tile_weights) */
    uint32_t fragment_size;
    uint4 *between[SHAPE_BLOCKS], *between_grad[SHAPE_BLOCKS];
    const struct seed_tensors *tensors; /* [slot][BLUEPRINT_COUNT + 1], the gate net last */
    const struct seed_slot *slots;      /* [slot] */
    struct sgd rates;
    float max_norm;
    struct slot_grads *grads; /* [env][slot] */
    uint32_t host_params;
};

struct fast_seeds {
    struct seed_set set;
    struct seed_slot slot[SHAPE_SLOTS];
};

/* False where a slot has a form that no kernel was made for. */
bool seed_fits(const struct net_shape *shape);
/* Allocates what the seeds of net->host need; NULL after an error. The host part must be complete. */
struct fast_seeds *seed_create(struct net_device *net);
void seed_free(struct fast_seeds *seeds);

/* All of these enqueue. seed_plan: once at the start of a step, after exec is known. */
void seed_plan(struct net_device *net);
/* Fragments from the parameters, which somebody else may have changed; the update keeps them current. */
void seed_pack(struct net_device *net);
void seed_blend_forward(struct net_device *net, int block);
/* In this order, when grad_out[block] is complete. */
void seed_blend_backward(struct net_device *net, int block);
void seed_leaf(struct net_device *net, int block);
/* When all of a batch's leaves and blends are done. */
void seed_update(struct net_device *net);
/* What the step's last batch left, for the observations; after fast_gradients: its norm is the yardstick. */
void seed_measure(struct net_device *net);

/* ---- for the kernels --------------------------------------------------------------------------------------------- */

/* How many images a block of threads takes at a time, for slots of this form; 0 where there is no kernel. */
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

/* Channels, size and row of the slots there are kernels for: those of a host of base 8. */
#define SEED_FORMS(FORM) FORM(8, 32, 0) FORM(16, 16, 0) FORM(32, 8, 0) FORM(8, 16, 1) FORM(16, 8, 1) FORM(32, 4, 1)

/* Blocks of threads for a list of jobs: as many as fit, `each` on a processor, but no more than there can be jobs. */
static inline unsigned seed_grid(const struct net_device *net, int each)
{
    const unsigned jobs = (unsigned)(net->host.envs * net->host.jobs);
    const unsigned fit = net->resident ? (unsigned)net->resident
                                       : (unsigned)(runtime_processors(net->context->runtime) * each);
    return jobs < fit ? jobs : fit;
}

/*
 * Registers hold the gradient of one weight, so conv_heavy is gone through twice where it learns: a second entry in
 * `leaf` or `back` stands for the second convolution.
 */
constexpr uint32_t SEED_SECOND = 1u << 31;

struct seed_job {
    int env, piece, first, end; /* images of the batch */
    bool second;
};

DEVICE struct seed_job seed_job_of(const struct fast_host &host, const uint32_t *list, uint32_t number)
{
    struct seed_job job;
    const uint32_t entry = __ldcg(list + 1 + number / (uint32_t)host.jobs);
    job.env = (int)(entry & ~SEED_SECOND);
    job.second = (entry & SEED_SECOND) != 0;
    job.piece = (int)(number % (uint32_t)host.jobs);
    job.first = job.piece * host.job_images;
    job.end = job.first + host.job_images < host.batch ? job.first + host.job_images : host.batch;
    return job;
}

DEVICE const uint32_t *seed_fragments(const struct seed_set &set, const struct seed_slot &slot, int env)
{
    return set.fragments + (size_t)env * set.fragment_size + slot.fragments;
}

DEVICE float *seed_record(const struct fast_host &host, const struct seed_slot &slot, const struct seed_job &job)
{
    return slot.part + ((size_t)job.env * (size_t)host.jobs + (size_t)job.piece) * slot.record;
}

/* What enters the slot: from raw (r0), or from the pooled output (r1), or what the blend before left. */
struct seed_input {
    const uint4 *from;
    bool affine; /* BatchNorm and ReLU are still to come */
};

template <int ROW>
DEVICE struct seed_input seed_input_of(const struct fast_host &host, const struct seed_set &set, int block, int env)
{
    struct seed_input input = {ROW == 0 ? host.block[block].raw : host.block[block].pooled, true};
    if (ROW == 1 && fast_mode(host, env, host.block[block].slot[0]) == SLOT_BLEND) {
        input.from = set.between[block];
        input.affine = false;
    }
    return input;
}

/* The gradient of what leaves the slot (pooled size). */
template <int ROW>
DEVICE const uint4 *seed_grad_of(const struct fast_host &host, const struct seed_set &set, int block, int env)
{
    return ROW == 0 && fast_mode(host, env, host.block[block].slot[1]) == SLOT_BLEND ? set.between_grad[block]
                                                                                     : host.block[block].grad_out;
}

#endif
