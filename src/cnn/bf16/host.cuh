/*
 * Shared by the kernels of cnn_bf16: the buffers of a training step and how to read them.
 *
 * Numbers. Activations and gradients between kernels are bf16, sums and products fp32; statistics of a whole batch are
 * added up in double. These values are rounded to bf16, in forward order:
 *   the pixels; the weights (with the sign of gamma, below); the pooled raw output of a convolution; the activation
 *   relu(scale * pooled + shift) that enters the next one; the gradient of a block's output; the gradient of the raw
 *   output of a convolution. BatchNorm's sums are those of the unrounded output. Whether a ReLU passes is decided by
 *   the rounded pooled output, in both directions.
 *
 * Sign. Weights are multiplied by sign(gamma) of their output channel (-1 where gamma < 0), so "raw" means sign(gamma)
 * * convolution, a channel's scale is |gamma| * rstd >= 0, and the largest raw value of a window is what max pooling
 * takes after the norm: pooling comes first and everything after it has a quarter of the size.
 *
 * Planes. Maps are bf16 [env][image][channel / 8][pixel][8]: 16 bytes, a uint4, are eight channels of a pixel.
 *
 * Chunks. A batch is cut into at most 16 chunks of images, by the batch size alone; each leaves its own partial sums,
 * and the kernel that needs a total adds them in a fixed order. How many thread blocks share the chunks changes no bit.
 *
 * A block i of the host, for one env, where h is the output of the ReLU:
 *   forward(i)        raw -> sums[i], pooled[i]; raw[i] where slot r0 is live
 *   seed_blend_forward(i)   where r0 or r1 is blended: act[i], the block's output
 *   forward(i + 1), head    read act[i] there, else relu(scale * pooled[i] + shift)
 *   head, backward(i + 1)   write the gradient of the output of block i:
 *       nothing blended: grad[i] where the ReLU passes, else 0, and back[i]; any slot live: grad_out[i], unmasked
 *   seed_blend_backward(i)  from grad_out[i]:
 *       r0 blended: grad_full[i], the gradient before the ReLU (0 where it does not pass) at full size, and back[i]
 *       r1 alone blended: grad[i] and back[i], as backward(i + 1) would have done
 *   backward(i)       from grad_full[i] (r0 blended) or grad[i], routed to the first largest raw value of each window
 */
#ifndef CNN_BF16_HOST_CUH
#define CNN_BF16_HOST_CUH

#include "cnn/device.cuh"
#include "cuda/warp.cuh"

extern "C" {
#include "nn/norm.h"
}

/* Shared memory of a thread block, at most: two of them fit a processor of compute capability 9.0. */
enum { FAST_SHARED = 112 * 1024 };
enum { FAST_CHUNKS = 16, FAST_CHUNK_MIN = 8, FAST_WARPS = 8, FAST_THREADS = 32 * FAST_WARPS };

static inline int fast_chunk_images(int batch)
{
    int images = (batch + FAST_CHUNKS - 1) / FAST_CHUNKS;
    return images > FAST_CHUNK_MIN ? images : FAST_CHUNK_MIN;
}

struct fast_block {
    int cin, cout, size;                   /* the convolution; maps are size x size */
    int slot[SLOT_ROWS];                   /* r0, r1, or -1 */
    int job_images, jobs;                  /* the seeds' pieces of a batch */
    uint32_t weight, gamma, beta;          /* offsets in an env's parameters */
    uint32_t mean, var;                    /* offsets in an env's running statistics */
    uint32_t forward_frag, back_frag;      /* offsets in an env's fragments: weights as mma operands */
    uint32_t part_size;                    /* floats of a chunk's weight gradient */
    double share;                          /* weight of a value in a channel's mean: 1 / (batch * size^2) */
    uint4 *pooled, *act, *grad, *grad_out; /* planes of (size / 2)^2 pixels */
    uint4 *raw, *grad_full;                /* planes of size^2 pixels */
    float *norm;                           /* [env][2][cout]: BatchNorm's scale and shift in this batch */
    float *sums;                           /* [env][chunk][2][cout] of raw: sum, sum of squares */
    float *back; /* [env][job][2][cout]: sum of g, sum of g * raw, g before the ReLU; by chunk where nothing blends */
    float *part; /* [env][chunk][part_size] weight gradients as the mma leaves them */
};

/*
 * Seeds take smaller pieces of a batch than chunks: a few of them must keep many SMs busy. The pieces are smaller where
 * maps are large and therefore slow, and where a job leaves few gradients.
 */
static inline void block_jobs(struct fast_block *block, int batch)
{
    block->job_images = block->size == 32 ? 4 : 8;
    block->jobs = (batch + block->job_images - 1) / block->job_images;
}

/*
 * The next of `jobs` jobs, for a thread block that is free; its first job is given by its index. From `jobs` on there
 * are none, and when all blocks have learned so, the count is back at zero. Only the first thread gets the result.
 */
DEVICE uint32_t job_take(uint32_t *taken, uint32_t jobs)
{
    return threadIdx.x == 0 ? gridDim.x + atomicInc(taken, jobs - 1) : 0;
}

/* Everything a kernel needs, passed by value. Device addresses. */
struct fast_host {
    int envs, batch, blocks, slots, features;
    int chunk_images, chunks;
    const struct slot_exec *exec; /* [env][slot] */
    float *params, *momentum, *stats;
    uint32_t params_size, stats_size; /* of an env */
    uint2 *pixels;                    /* [env][image][y][x]: four bf16 */
    uint8_t *labels;                  /* [env][image] */
    uint32_t *fragments;              /* [env][fragment_size] */
    uint32_t fragment_size;
    float *head_part; /* [env][chunk][head_size]: gradients of fc weight [class][feature] and bias, loss, correct */
    uint32_t head_size;
    uint32_t fc_weight, fc_bias; /* offsets in an env's parameters */
    float *grad;                 /* [env][params_size] of the batch, before clipping */
    float *gamma_before;         /* [env][2][params_size]: gammas and their momentum before the update */
    double *squares;             /* [env][square_parts]: of the gradient */
    uint32_t square_parts;
    double *host_norm;                   /* [env] L2 norm of the gradient */
    double *loss, *correct;              /* [env] of the step so far */
    double *train_loss, *train_accuracy; /* [env] the setup's, after the last batch */
    struct fast_block block[SHAPE_BLOCKS];
};

/* ---- maps -------------------------------------------------------------------------------------------------------- */

/* Eight channels of a pixel. */
template <class T> DEVICE T *plane_at(T *planes, int channels, int pixels, size_t image, int plane, int pixel)
{
    return planes + (image * (size_t)(channels / 8) + (size_t)plane) * (size_t)pixels + (size_t)pixel;
}

/* Number of an image of an env's batch in the buffers. */
DEVICE size_t image_at(const struct fast_host &host, int env, int image)
{
    return (size_t)env * (size_t)host.batch + (size_t)image;
}

/* ---- how slots are treated --------------------------------------------------------------------------------------- */

DEVICE int fast_mode(const struct fast_host &host, int env, int slot)
{
    return slot < 0 ? (int)SLOT_SKIP : (int)host.exec[(size_t)env * (size_t)host.slots + (size_t)slot].mode;
}

struct block_use {
    bool keep_raw;  /* r0 is live: raw is read later */
    bool keep_grad; /* r0 or r1 is live: grad_out is read later */
    bool blended;   /* the block's output is in act */
    bool full;      /* the gradient is in grad_full */
};

DEVICE struct block_use block_use_of(const struct fast_host &host, int env, int i)
{
    const int r0 = fast_mode(host, env, host.block[i].slot[0]), r1 = fast_mode(host, env, host.block[i].slot[1]);
    struct block_use use;
    use.keep_raw = r0 != SLOT_SKIP;
    use.keep_grad = r0 != SLOT_SKIP || r1 != SLOT_SKIP;
    use.blended = r0 == SLOT_BLEND || r1 == SLOT_BLEND;
    use.full = r0 == SLOT_BLEND;
    return use;
}

/* ---- BatchNorm --------------------------------------------------------------------------------------------------- */

/* Two sums [2][channels] of every chunk, added in a fixed order. */
struct channel_sums {
    double first, second;
};

/* Sequential additions would take too long. */
template <int COUNT> DEVICE double tree_sum(const double *v)
{
    if constexpr (COUNT == 1)
        return v[0];
    else
        return tree_sum<COUNT / 2>(v) + tree_sum<COUNT / 2>(v + COUNT / 2);
}

DEVICE struct channel_sums rows_total(const float *part, int rows, int channels, int channel)
{
    struct channel_sums total = {0, 0};
    for (; rows > 0; rows -= FAST_CHUNKS, part += (size_t)(2 * FAST_CHUNKS) * channels) {
        float first[FAST_CHUNKS], second[FAST_CHUNKS];
#pragma unroll
        for (int c = 0; c < FAST_CHUNKS; c++) {
            first[c] = c < rows ? __ldcg(part + (size_t)(2 * c) * channels + channel) : 0;
            second[c] = c < rows ? __ldcg(part + (size_t)(2 * c + 1) * channels + channel) : 0;
        }
        double one[FAST_CHUNKS], two[FAST_CHUNKS];
#pragma unroll
        for (int c = 0; c < FAST_CHUNKS; c++) {
            one[c] = (double)first[c];
            two[c] = (double)second[c];
        }
        total.first += tree_sum<FAST_CHUNKS>(one);
        total.second += tree_sum<FAST_CHUNKS>(two);
    }
    return total;
}

/* A row of the backward sums: of a chunk, or of a job where a blended seed wrote them. */
DEVICE float *back_row(const struct fast_host &host, int i, int env, int row)
{
    return host.block[i].back + ((size_t)env * host.block[i].jobs + row) * 2 * host.block[i].cout;
}

/* h = relu(raw * scale + shift), of raw as stored: with the sign of gamma. */
struct channel_norm {
    float scale, shift, mean, rstd, var;
};

DEVICE struct channel_norm block_norm(const struct fast_host &host, int i, int env, int channel)
{
    const struct fast_block &block = host.block[i];
    const float *params = host.params + (size_t)env * host.params_size;
    struct channel_sums total =
        rows_total(block.sums + (size_t)env * host.chunks * 2 * block.cout, host.chunks, block.cout, channel);
    double mean = total.first * block.share, var = total.second * block.share - mean * mean;
    const float gamma = __ldcg(params + block.gamma + channel), beta = __ldcg(params + block.beta + channel);
    struct channel_norm norm;
    norm.mean = (float)mean;
    norm.var = var > 0 ? (float)var : var == var ? 0.0f : (float)var;
    norm.rstd = rsqrtf(norm.var + (float)NORM_EPS);
    norm.scale = fabsf(gamma) * norm.rstd;
    norm.shift = fmaf(-norm.scale, norm.mean, beta);
    return norm;
}

/* The gradient of raw: gain * g + slope * raw + offset, and the gradients of gamma and beta. */
struct channel_back {
    float gain, slope, offset, dgamma, dbeta;
};

DEVICE struct channel_back block_back(const struct fast_host &host, int i, int env, int channel,
                                      const struct channel_norm &norm)
{
    const struct fast_block &block = host.block[i];
    const int rows = block_use_of(host, env, i).blended ? block.jobs : host.chunks;
    struct channel_sums total = rows_total(back_row(host, i, env, 0), rows, block.cout, channel);
    const float gamma = __ldcg(host.params + (size_t)env * host.params_size + block.gamma + channel);
    const double moment = (total.second - (double)norm.mean * total.first) * (double)norm.rstd;
    struct channel_back back;
    back.gain = norm.scale;
    back.slope = (float)(-(double)norm.scale * (double)norm.rstd * moment * block.share);
    back.offset = (float)(-(double)norm.scale * total.first * block.share) - back.slope * norm.mean;
    back.dgamma = (float)(gamma < 0 ? -moment : moment);
    back.dbeta = (float)total.first;
    return back;
}

/* The running statistics after a batch; one thread per channel, once per batch. */
DEVICE void block_running(const struct fast_host &host, int i, int env, int channel, const struct channel_norm &norm)
{
    const struct fast_block &block = host.block[i];
    float *stats = host.stats + (size_t)env * host.stats_size;
    const double count = (double)host.batch * block.size * block.size;
    const float gamma = __ldcg(host.params + (size_t)env * host.params_size + block.gamma + channel);
    const double mean = gamma < 0 ? -(double)norm.mean : (double)norm.mean;
    const double var = count > 1 ? (double)norm.var * count / (count - 1) : (double)norm.var;
    float *running_mean = stats + block.mean + channel, *running_var = stats + block.var + channel;
    *running_mean = (float)((1 - NORM_MOMENTUM) * (double)*running_mean + NORM_MOMENTUM * mean);
    *running_var = (float)((1 - NORM_MOMENTUM) * (double)*running_var + NORM_MOMENTUM * var);
}

/* ---- the network on the host's side ------------------------------------------------------------------------------ */

/* Thread blocks that share the chunks of an env: `resident` blocks fit on the device at once. */
static inline unsigned fast_blocks_per_env(const struct fast_host &host, int resident)
{
    int each = 1; /* chunks of a block */
    while (each < host.chunks && (host.chunks + each - 1) / each * host.envs > resident)
        each++;
    return (unsigned)((host.chunks + each - 1) / each);
}

/* Read by leaf jobs, which may still be running when the next batch has begun: one for even batches, one for odd. */
struct fast_kept {
    uint4 *raw, *pooled, *grad_out;
    float *norm;
};

struct bf16_net : net_device {
    struct fast_host host;
    struct gather_bf16 gathered[2]; /* the images of this batch and of the next */
    struct fast_kept kept[2][SHAPE_BLOCKS];
    int parity;               /* of the current batch, whose buffers are in `host` */
    struct fast_seeds *seeds; /* seed.cuh */
    struct fast_eval *eval;   /* eval.cuh */
    int resident;             /* tests: thread blocks assumed to fit on the device; 0: its actual number */
};

static inline struct bf16_net *bf16_net_of(struct net_device *device)
{
    return static_cast<struct bf16_net *>(device);
}

/* One row of blocks per env. per_processor: how many fit on an SM. */
static inline struct launch fast_launch(const struct bf16_net *net, int per_processor)
{
    int resident = net->resident ? net->resident : per_processor * runtime_processors(net->runtime);
    struct launch shape = {dim3(fast_blocks_per_env(net->host, resident), (unsigned)net->host.envs), dim3(FAST_THREADS),
                           0, true};
    return shape;
}

/* A kernel that asks for so much shared memory, before its first launch. */
template <size_t BYTES, class... P> void fast_allow(struct runtime *rt, void (*kernel)(P...))
{
    static_assert(BYTES <= FAST_SHARED, "cnn_bf16_fits counts on it");
    runtime_allow_shared(rt, kernel, BYTES);
}

/* Buffers and offsets of net->host, which cnn_bf16_fits; false after an error. */
bool fast_host_create(struct bf16_net *net);
/* From now on launches read and write the buffers of batches of this parity. */
void fast_use_buffers(struct bf16_net *net, int parity);
/* The images of a batch of the step: gathered while the batch before it was being trained. */
void fast_images(struct bf16_net *net, uint32_t batch);
/* Trains such a batch, from its images to the parameters. */
void fast_learn(struct bf16_net *net, uint32_t batch);

/* forward.cu, head.cu, backward.cu, update.cu: enqueue */
void fast_forward(struct bf16_net *net, int block);
void fast_head(struct bf16_net *net);
void fast_backward(struct bf16_net *net, int block);
void fast_forward_prepare(struct runtime *rt);
void fast_backward_prepare(struct runtime *rt);
/* wide.cu: a part of fast_backward. */
void fast_wide_prepare(struct runtime *rt);
void fast_wide_backward(struct bf16_net *net, int block);
void fast_head_prepare(struct runtime *rt);
uint32_t fast_head_floats(int features);
uint32_t fast_square_parts(uint32_t params_size);
/* Fragments from the parameters, at the start of a step. */
void fast_pack(struct bf16_net *net);
/* Gradients from the chunks' parts, with their norm; then, after the seeds' work in between, the step itself. */
void fast_gradients(struct bf16_net *net, uint32_t batch);
void fast_update(struct bf16_net *net);

#endif
