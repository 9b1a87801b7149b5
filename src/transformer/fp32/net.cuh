/*
 * The transformer's fp32 networks on the device: the memory layout.
 *
 * A *frame* holds all that a pass over some sequences leaves, array after array, each [row][numbers] with a row per
 * token. In training a frame has the batch of an env; an array is a kernel's input long after it was written, so each
 * has its own place. In an evaluation a thread block has a frame for one sequence, and the layers share the places of
 * the first. Frames are many megabytes per env, so envs are trained in groups of as many as fit a fixed budget: an
 * env's numbers do not depend on its group.
 *
 * Gradients of parameters are summed over chunks of the batch and then over the chunks, in order.
 */
#ifndef TRANSFORMER_FP32_NET_CUH
#define TRANSFORMER_FP32_NET_CUH

#include "morph/plan.cuh"
#include "nn/attend.cuh"
#include "nn/matmul.cuh"
#include "nn/token_rows.cuh"
#include "transformer/device.cuh"

enum { STAGE_THREADS = 256, STAGE_WARPS = STAGE_THREADS / WARP_LANES };
#define NOWHERE      0xffffffffu
#define STAGE_KERNEL KERNEL void __launch_bounds__(STAGE_THREADS)

/* Places of arrays in a frame: floats of a row before them. */
typedef uint32_t place_t;

/* The stream or its gradient: as it is, and as an operand of products. In fp32, and where no product reads it, these
 * are one. */
struct stream_place {
    place_t exact, operand;
};

/* W2 f(W1 x + b1) + b2: offsets of the tensors in the host's, a seed's or a gate net's parameters. */
struct branch_view {
    enum branch_kind kind; /* BRANCH_NONE: there is none */
    int hidden, mixed;     /* numbers of a row of W1 x, and of f of it */
    bool biased;
    uint32_t w1, b1, w2, b2;
};

struct branch_places {
    place_t hidden; /* W1 x + b1; of an MLP, GELU's slope there */
    place_t mixed;  /* f of it; a LORA's is `hidden` */
    place_t logs;   /* of attention's sums */
    place_t dhidden;
};

struct norm_view {
    uint32_t gamma, beta;
};

struct norm_places {
    place_t hat, rstd, normed, dnormed;
};

/* h += branch(norm(h)). */
struct exact_half {
    struct norm_view norm;
    struct branch_view branch;
    struct norm_places norms;
    struct branch_places places;
    struct stream_place to; /* the stream after it */
    struct stream_place dy; /* the gradient of what the half adds, which is that of the stream after it */
    struct stream_place dx; /* that of the stream before it, which is the `dy` of what comes before */
    int before, after;      /* the slots between it and its neighbours, or -1 */
};

struct exact_layer {
    struct exact_half half[2];
};

struct exact_tensor {
    uint32_t offset, size;
    bool decays;
};

struct exact_part { /* what was born as one: a seed of a blueprint, or a gate net */
    int tensors;
    uint32_t params;
    struct exact_tensor tensor[LAYOUT_TENSORS];
};

struct exact_seed {
    struct exact_part part;
    struct branch_view branch;
    bool norm; /* no branch: s = x + tanh(sigma) (LayerNorm(x) - x) */
    struct norm_view norm_at;
    uint32_t sigma;
};

struct exact_slot {
    uint32_t seed, seed_storage, gate, gate_storage; /* offsets in the pools */
    int stop;                                        /* of the way: the slot ends it */
    struct stream_place x, to;                       /* the stream that enters, and the one after the slot */
    struct stream_place dy, dx;                      /* their gradients, the other way round; as of a half */
    place_t s, ds;                                   /* the seed's output, and its gradient */
    struct branch_places places;
    place_t hat, rstd, sigma; /* of a norm; sigma: a token's part of its gradient */
    place_t gate_hidden, q;   /* of the gate net */
    place_t dgate_hidden, dq; /* dq: of what enters its sigmoid */
};

/* What the stream passes: a layer, a slot, or a layer and then a slot; -1: none. */
struct exact_stop {
    int layer, slot;
};

/* A linear layer: of a layer, a slot or the classifier. */
enum linear_of { OF_LAYER, OF_SLOT, OF_CLASSIFIER };
enum { LINEAR_FIRST, LINEAR_SECOND, LINEAR_SEED = 0, LINEAR_GATE = 2 };

/* A thread block's share of the weights' gradients. `which`: of a layer, 2 * half + first or second; of a slot, those
 * of the seed and of the gate net. */
struct exact_work {
    int16_t of, index, which, chunk;
    int32_t tile;
};

/* What an update needs to know about a part: the host, or a seed with its gate. */
struct part_step {
    double square;               /* of the gradient, before clipping */
    struct gradient_tally tally; /* of a seed and its gate */
    float factor;                /* of clipping */
    struct adam_step {
        float rate, root_scale; /* the bias corrections */
    } adam[2];                  /* of host or seed; of the gate */
};

enum { SPAN = 1024 }; /* parameters of the host whose squares are summed by a block */

/* Gradients are summed over chunks of so many tokens at least, and over so many chunks at most; the windows of a split
 * are divided into so many parts at most. */
#ifdef EMULATE /* fewer, or a test's few sequences would be one chunk, and each a part */
enum { CHUNK_ROWS = 64, CHUNK_ROWS_WIDE = 24, CHUNKS = 8, EVAL_PARTS = 4 };
#else
enum { CHUNK_ROWS = 512, CHUNK_ROWS_WIDE = 4096, CHUNKS = 8, EVAL_PARTS = 128 };
#endif

struct exact_view {
    const struct net_setup *setup; /* device */
    int batch, context, width, heads, vocabulary, layers, slots, gate_hidden;
    int rows;          /* tokens of a batch */
    int chunk, chunks; /* sequences of a chunk; how many there are */
    int group;         /* envs whose frames exist */
    struct exact_layer layer[TRANSFORMER_LAYERS];
    struct exact_slot slot[SHAPE_SLOTS];
    struct exact_stop way[TRANSFORMER_LAYERS]; /* of the stream, from the embeddings to the last norm */
    int stops;
    struct exact_seed seed_of[TRANSFORMER_BLUEPRINTS];
    struct exact_part gate;
    struct branch_view gate_branch; /* its two linear layers, as far as that goes */
    struct norm_view last;
    uint32_t tokens, positions, host_params;
    uint32_t embeddings; /* floats at the beginning of the host's, the two embeddings */
    uint32_t host_storage, seed_storage, gate_storage;
    size_t grad; /* their sum */

    size_t line;                           /* floats of a row of a frame */
    struct stream_place stream;            /* what norms read; slots have their own */
    struct stream_place embedding, dembed; /* the stream where it begins, and its gradient */
    struct stream_place dlast;             /* the gradient of the stream where it ends */
    int before_last;                       /* the slot before the last norm, or -1 */
    place_t dmixed;
    struct norm_places last_places;
    place_t logits, dlogits;
    place_t entries;  /* not in fp32: 1 in the column that is the token's, or 0 */
    place_t verdicts; /* likewise: a token's loss, and whether it is a hit */

    /* per env of the group */
    float *frames;
    uint8_t *windows;       /* [batch][context + 1] */
    const uint8_t *targets; /* [batch][context] in place of the windows' bytes one later, or NULL: trials alone */
    double *losses;         /* [rows] */
    uint8_t *hits;          /* [rows] */
    float *partials;        /* [chunk][host, then seeds, then gates] */
    float *grads;           /* [host, then seeds, then gates] */
    float *embedded;        /* [embeddings]: their gradient from where tokens enter */
    double *squares;        /* [spans of the host] */
    struct part_step *part; /* [NET_NORMS] */
    int spans;

    /* per env */
    struct net_score *train; /* sums of the step */
    struct eval_plan *plans;
    struct net_score *scores; /* [parts of the windows][NET_SETS_MAX] */

    const uint8_t *decays; /* of the host, per LAYOUT_ALIGN floats */

    /* Parameters as operands of products, which the optimiser rounds as well; NULL: fp32. Those of an env of the group
     * are so far apart, and as gradients are: host, seeds, gates; or of the host alone, at places per LAYOUT_ALIGN
     * floats. */
    struct bf16 *rounded;
    size_t rounded_stride;
    const uint32_t *rounded_places; /* or NOWHERE */

    const struct exact_work *work;
};

/* Windows of a split to evaluate. */
struct exact_pass {
    enum split split;
    int windows;
};

struct transformer_net : net_device {
    struct exact_view view;                                               /* on the host */
    struct exact_view *net;                                               /* on the device */
    void (*ready)(struct transformer_net *device, int first, int envs);   /* before a group's first batch, or NULL */
    void (*learn)(struct transformer_net *device, int first, int envs);   /* a batch of windows, and the step */
    void (*walk)(struct transformer_net *device, struct exact_pass pass); /* enqueues an evaluation, to view.scores */
    unsigned work;                                                        /* entries of exact_view.work */
    unsigned eval_blocks;
    virtual ~transformer_net() = default;
};

static inline struct transformer_net *transformer_net_of(struct net_device *device)
{
    return static_cast<struct transformer_net *>(device);
}

/* ---- a frame in the works ---------------------------------------------------------------------------------------- */

struct frame {
    const struct exact_view *net;
    int env, place; /* among all; in the group */
    int sequences, rows;
    bool evaluating; /* layers share the places of the first; only blended seeds run, and only those in `on` */
    uint32_t on;
    float *base;
    const uint8_t *tokens, *targets; /* rows of them are so far apart: */
    int token_stride, target_stride;
    const struct slot_exec *exec;    /* [slot] */
    const float *host, *seed, *gate; /* the env's parameters */
};

DEVICE struct frame frame_of(const struct exact_view *net, int env)
{
    const struct net_setup *setup = net->setup;
    struct frame frame = {};
    frame.net = net;
    frame.env = env;
    frame.on = ~0u;
    frame.exec = setup->exec + (size_t)env * (size_t)net->slots;
    frame.host = setup->host + (size_t)env * net->host_storage;
    frame.seed = setup->seed + (size_t)env * net->seed_storage;
    frame.gate = setup->gate + (size_t)env * net->gate_storage;
    return frame;
}

/* Every block of a kernel of a batch, before it reads what the batch has written or returns: waits for the kernel
 * before, and lets the one after start and wait (net_behind). */
DEVICE void batch_wait()
{
    device_wait();
    device_release();
}

/* The batch of an env of the group, blockIdx.y. This and what a batch does not change - views, what slots hold,
 * parameters but in the last of its kernels - is read while the kernel before ends. */
DEVICE struct frame train_frame(const struct exact_view *net, int first)
{
    const size_t place = blockIdx.y;
    struct frame frame = frame_of(net, first + (int)place);
    frame.place = (int)place;
    frame.sequences = net->batch;
    frame.rows = net->rows;
    frame.base = net->frames + place * (size_t)net->rows * net->line;
    frame.tokens = net->windows + place * (size_t)net->batch * (size_t)(net->context + 1);
    frame.token_stride = net->context + 1;
    frame.targets = net->targets ? net->targets : frame.tokens + 1;
    frame.target_stride = net->targets ? net->context : frame.token_stride;
    return frame;
}

/* This block's share of the work on its env's batch. */
DEVICE struct share block_share()
{
    struct share share = {(int)blockIdx.x, (int)gridDim.x};
    return share;
}

DEVICE float *at(const struct frame &frame, place_t place)
{
    return frame.base + (size_t)frame.rows * place;
}

/* Gradients of a chunk of the batch. */
DEVICE float *chunk_sums(const struct frame &frame, int chunk)
{
    const struct exact_view &net = *frame.net;
    return net.partials + ((size_t)frame.place * (size_t)net.chunks + (size_t)chunk) * net.grad;
}

/* The half of a layer, with the places that are its own in this frame. */
DEVICE const struct exact_half &places_of(const struct frame &frame, int layer, int half)
{
    return frame.net->layer[frame.evaluating ? 0 : layer].half[half];
}

/* How much of the seed is mixed in, gate aside. */
DEVICE float slot_amplitude(const struct slot_exec &exec)
{
    return exec.alpha < 0 ? 0 : exec.alpha > 1 ? 1 : exec.alpha;
}

/* The seed changes the slot's output. */
DEVICE bool slot_mixes(const struct frame &frame, int slot)
{
    const struct slot_exec &exec = frame.exec[slot];
    return exec.mode == SLOT_BLEND && slot_amplitude(exec) > 0 && (frame.on >> slot & 1u);
}

/* Gradients of the seed's parameters are computed in this batch. */
DEVICE bool slot_learns(const struct slot_exec &exec)
{
    return exec.train && (exec.mode == SLOT_STE || (exec.mode == SLOT_BLEND && slot_amplitude(exec) > 0));
}

/* The seed takes part in the pass. */
DEVICE bool slot_runs(const struct frame &frame, int slot)
{
    return slot_mixes(frame, slot) || (!frame.evaluating && slot_learns(frame.exec[slot]));
}

/* Gradients reach what enters the slot through the seed. */
DEVICE bool slot_passes(const struct frame &frame, int slot)
{
    return slot_mixes(frame, slot) && !frame.exec[slot].isolate;
}

DEVICE bool slot_gated(const struct frame &frame, int slot)
{
    return slot_mixes(frame, slot) && frame.exec[slot].gate;
}

DEVICE const struct exact_seed &seed_of(const struct frame &frame, int slot)
{
    return frame.net->seed_of[frame.exec[slot].blueprint];
}

DEVICE const float *seed_params(const struct frame &frame, int slot)
{
    return frame.seed + frame.net->slot[slot].seed;
}

DEVICE const float *gate_params(const struct frame &frame, int slot)
{
    return frame.gate + frame.net->slot[slot].gate;
}

/* What operands of products are in frames. Small networks have none, and no frames. */
enum frames { FRAMES_NONE, FRAMES_FP32, FRAMES_BF16 };
enum { OPERAND_ROW = 8, /* numbers of a row of bf16 operands, at least */ EVAL_BLOCKS = 2 /* per processor */ };

/* In create, one after the other. `own_bytes`: memory of their own that networks of another precision have per env. */
void transformer_view_init(struct transformer_net *device, enum frames frames);
void transformer_allocate(struct transformer_net *device, size_t own_bytes);
void transformer_divide(struct transformer_net *device, const std::vector<exact_work> &work); /* with frames */
void transformer_place(struct transformer_net *device); /* the view, on the device */
template <class T> static inline T *transformer_placed(struct runtime *rt, const std::vector<T> &list)
{
    T *to = runtime_alloc<T>(rt, list.size());
    runtime_copy_to(rt, to, list.data(), list.size() * sizeof(T));
    runtime_wait(rt);
    return to;
}

static inline struct launch net_blocks(unsigned columns, int envs, unsigned threads, size_t shared = 0)
{
    struct launch shape = {dim3(columns, (unsigned)envs), dim3(threads), shared, false};
    return shape;
}

/* For a kernel that waits (batch_wait), behind another of the same batch. */
static inline struct launch net_behind(struct launch shape)
{
    shape.overlap = true;
    return shape;
}

/* Thread blocks for so many rows with a warp each. */
static inline unsigned row_blocks(int rows)
{
    return (unsigned)(rows + STAGE_WARPS - 1) / STAGE_WARPS;
}

/* Parts of a phase, for the envs first .. first + envs - 1. */
void transformer_forward(struct transformer_net *device, int first, int envs); /* fp32: from the windows to losses */
void transformer_seed_alone(struct transformer_net *device, int slot);         /* fp32, of env 0, both ways: trials */
void transformer_gather(struct transformer_net *device, int first, int envs, uint32_t index); /* the windows */
void transformer_reduce(struct transformer_net *device, int first, int envs); /* the chunks of a batch, to gradients */
void transformer_update(struct transformer_net *device, int first, int envs); /* what follows the gradients */
void transformer_end_step(struct transformer_net *device, int first, int envs);
void transformer_begin_step(struct transformer_net *device);
void transformer_ready(struct transformer_net *device, int first, int envs); /* before a group's first batch */

/* net_device.cuh; by `learn`, and the last three by `walk` */
void transformer_train_all(struct net_device *given);
void transformer_evaluate_all(struct net_device *given, int windows);
void transformer_measure_all(struct net_device *given, struct net_sets sets, int windows);
void transformer_test_all(struct net_device *given);
void transformer_release(struct net_device *given);

/* ---- the windows of a split, in parts ---------------------------------------------------------------------------- */

/* Windows of a part, from the size of the split alone; parts are numbered from 0. */
static inline __host__ __device__ int part_windows(int windows)
{
    return (windows + EVAL_PARTS - 1) / EVAL_PARTS;
}

static inline __host__ __device__ int part_count(int windows)
{
    return (windows + part_windows(windows) - 1) / part_windows(windows);
}

DEVICE struct net_score *part_scores(const struct exact_view *net, int env, int part)
{
    return net->scores + ((size_t)env * EVAL_PARTS + (size_t)part) * NET_SETS_MAX;
}

#endif
