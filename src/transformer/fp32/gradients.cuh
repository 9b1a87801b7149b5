/* After the passes of a batch: gradients of the parameters, chunk by chunk. update.cu adds up the chunks. */
#ifndef TRANSFORMER_FP32_GRADIENTS_CUH
#define TRANSFORMER_FP32_GRADIENTS_CUH

#include "transformer/fp32/numbers.cuh"
#include "transformer/fp32/stages.cuh"

/* Rows of a chunk: first, and how many. */
DEVICE int chunk_first(const struct exact_view *net, int chunk)
{
    return chunk * net->chunk * net->context;
}

DEVICE int chunk_rows(const struct exact_view *net, int chunk)
{
    const int left = net->rows - chunk_first(net, chunk), most = net->chunk * net->context;
    return left < most ? left : most;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* A linear layer of a batch: what it read, the gradient of its output, and where its gradients go. */
template <class T> struct linear_grad {
    int in, out; /* 0: there is none, or it does not learn */
    int stride;  /* of a row of dy */
    const T *x, *dy;
    size_t weight, bias; /* in an env's gradients */
    bool biased;
    const T *entered, *entries; /* classifier: the same matrix embeds tokens; NULL: that is added elsewhere */
};

template <class T>
DEVICE struct linear_grad<T> branch_grad(const struct branch_view &branch, size_t params, bool second, int width,
                                         const T *x, const T *dy) {
    linear_grad<T> linear = {second ? branch.mixed : width,
                             second ? width : branch.hidden,
                             second ? width : branch.hidden,
                             x,
                             dy,
                             params + (second ? branch.w2 : branch.w1),
                             params + (second ? branch.b2 : branch.b1),
                             branch.biased,
                             nullptr,
                             nullptr};
    return linear;
}

template <class P>
DEVICE struct linear_grad<typename P::operand> slot_grad(const struct frame &frame, int slot, int which) {
    const struct exact_view &net = *frame.net;
    const struct exact_slot &view = net.slot[slot];
    const struct slot_exec &exec = frame.exec[slot];
    const bool second = which % 2;
    linear_grad<typename P::operand> none = {};
    if (!slot_learns(exec))
        return none;
    if (which >= LINEAR_GATE && !exec.gate)
        return none;
    if (which >= LINEAR_GATE) {
        struct linear_grad<typename P::operand> gate =
            branch_grad(net.gate_branch, (size_t)net.host_storage + net.seed_storage + view.gate, second, net.width,
                        operands<P>(frame, second ? view.gate_hidden : view.x.operand),
                        operands<P>(frame, second ? view.dq : view.dgate_hidden));
        gate.out = second ? 1 : gate.out;
        gate.stride = second ? (int)P::LEAST : gate.stride;
        return gate;
    }
    const struct branch_view &branch = seed_of(frame, slot).branch;
    if (branch.kind == BRANCH_NONE)
        return none;
    return branch_grad(branch, (size_t)net.host_storage + view.seed, second, net.width,
                       second ? mixed_of<P>(frame, branch, view.places) : operands<P>(frame, view.x.operand),
                       second ? seed_gradient<P>(frame, slot) : operands<P>(frame, view.places.dhidden));
}

template <class P>
DEVICE struct linear_grad<typename P::operand> linear_grad_of(const struct frame &frame,
                                                              const struct exact_work &work) {
    const struct exact_view &net = *frame.net;
    if (work.of == OF_CLASSIFIER) {
        linear_grad<typename P::operand> classifier = {net.width,
                                                       net.vocabulary,
                                                       net.vocabulary,
                                                       operands<P>(frame, net.last_places.normed),
                                                       operands<P>(frame, net.dlogits),
                                                       net.tokens,
                                                       0,
                                                       false,
                                                       nullptr,
                                                       nullptr};
        if (P::FUSED) {
            classifier.entered = operands<P>(frame, net.dembed.operand);
            classifier.entries = operands<P>(frame, net.entries);
        }
        return classifier;
    }
    if (work.of == OF_SLOT)
        return slot_grad<P>(frame, work.index, work.which);
    const struct exact_half &half = net.layer[work.index].half[work.which / 2];
    const bool second = work.which % 2;
    return branch_grad(half.branch, 0, second, net.width,
                       second ? mixed_of<P>(frame, half.branch, half.places) : operands<P>(frame, half.norms.normed),
                       operands<P>(frame, second ? gradient_after(frame, half).operand : half.places.dhidden));
}

/* A chunk's part of a weight's gradient, a tile per thread block. */
template <class P>
KERNEL void __launch_bounds__(P::THREADS, 1) weights(const struct exact_view *net, int first)
{
    const struct exact_work work = net->work[blockIdx.x];
    const struct frame frame = train_frame(net, first);
    const struct linear_grad<typename P::operand> linear = linear_grad_of<P>(frame, work);
    batch_wait();
    if (linear.in && work.tile < P::tiles(linear.out, linear.in))
        P::weights(linear, work.tile, (size_t)chunk_first(net, work.chunk), chunk_rows(net, work.chunk),
                   chunk_sums(frame, work.chunk));
}

/* ---- norms ------------------------------------------------------------------------------------------------------- */

/* A LayerNorm of a batch: the gradient of what it yields is `times` dy. */
template <class T> struct norm_grad {
    const T *dy, *hat; /* NULL: there is none, or it does not learn */
    float times;
    size_t gamma, beta; /* in an env's gradients */
};

/* Those of the layers, then the last one, then those of the slots. */
template <class P> DEVICE struct norm_grad<typename P::operand> norm_grad_of(const struct frame &frame, int index) {
    const struct exact_view &net = *frame.net;
    norm_grad<typename P::operand> grad = {};
    if (index <= 2 * net.layers) {
        const bool last = index == 2 * net.layers;
        const struct exact_half &half = net.layer[last ? 0 : index / 2].half[index % 2];
        const struct norm_places &places = last ? net.last_places : half.norms;
        const struct norm_view &norm = last ? net.last : half.norm;
        grad = {operands<P>(frame, places.dnormed), operands<P>(frame, places.hat), 1, norm.gamma, norm.beta};
        return grad;
    }
    const int slot = index - 2 * net.layers - 1;
    if (!slot_learns(frame.exec[slot]) || !seed_of(frame, slot).norm)
        return grad;
    const struct norm_view &norm = seed_of(frame, slot).norm_at;
    const size_t params = (size_t)net.host_storage + net.slot[slot].seed;
    grad = {seed_gradient<P>(frame, slot), operands<P>(frame, net.slot[slot].hat), norm_mix(frame, slot),
            params + norm.gamma, params + norm.beta};
    return grad;
}

/* How a block divides its part of a norm: threads with OWN neighbouring columns each side by side, and lanes of them
 * that take turns at the rows. */
template <class P>
struct norm_block {
    enum {
        OWN = P::SUMMED,
        ACROSS = OWN > 1 ? 4 : 64,
        COLUMNS = OWN * ACROSS,
        LANES = STAGE_THREADS / ACROSS,
        AHEAD = OWN > 1 ? 4 : 16 /* rows that are on their way at once */
    };
    static_assert(2 * COLUMNS <= STAGE_THREADS, "a thread per sum");
    static __host__ __device__ int groups(int width)
    {
        return (width + COLUMNS - 1) / COLUMNS;
    }
};

/* A block per norm and some columns of it (x), env (y) and chunk (z). */
template <class P> STAGE_KERNEL norm_sums(const struct exact_view *net, int first)
{
    typedef norm_block<P> own;
    __align__(16) __shared__ float part[2][own::LANES][own::COLUMNS];
    const struct frame frame = train_frame(net, first);
    const int groups = own::groups(net->width), index = (int)blockIdx.x / groups, chunk = (int)blockIdx.z;
    const struct norm_grad<typename P::operand> norm = norm_grad_of<P>(frame, index);
    batch_wait();
    if (!norm.dy)
        return;
    const int beside = (int)threadIdx.x % own::ACROSS * own::OWN, lane = (int)threadIdx.x / own::ACROSS,
              left_column = (int)blockIdx.x % groups * own::COLUMNS, begin = chunk_first(net, chunk),
              rows = chunk_rows(net, chunk);
    few<own::OWN> gamma = {};
    few<own::OWN> beta = {};
    const size_t step = (size_t)own::LANES * (size_t)net->width;
    size_t i = (size_t)(begin + lane) * (size_t)net->width + (size_t)(left_column + beside);
    int left = left_column + beside < net->width ? (rows - lane + own::LANES - 1) / own::LANES : 0;
    const auto add = [&](const struct few<own::OWN> &dy, const struct few<own::OWN> &hat) {
#pragma unroll
        for (int e = 0; e < own::OWN; e++) {
            gamma.v[e] += norm.times * dy.v[e] * hat.v[e];
            beta.v[e] += norm.times * dy.v[e];
        }
    };
    for (; left >= own::AHEAD; left -= own::AHEAD) {
        few<own::OWN> dy[own::AHEAD], hat[own::AHEAD];
#pragma unroll
        for (int k = 0; k < own::AHEAD; k++, i += step) {
            dy[k] = few_at<own::OWN>(norm.dy + i);
            hat[k] = few_at<own::OWN>(norm.hat + i);
        }
#pragma unroll
        for (int k = 0; k < own::AHEAD; k++)
            add(dy[k], hat[k]);
    }
    for (; left > 0; left--, i += step)
        add(few_at<own::OWN>(norm.dy + i), few_at<own::OWN>(norm.hat + i));
    keep(&part[0][lane][beside], gamma);
    keep(&part[1][lane][beside], beta);
    __syncthreads();
    float *to = chunk_sums(frame, chunk);
    const int which = (int)threadIdx.x / own::COLUMNS, among = (int)threadIdx.x % own::COLUMNS;
    if (which < 2 && left_column + among < net->width) {
        float sum = part[which][0][among];
#pragma unroll 8
        for (int k = 1; k < own::LANES; k++)
            sum += part[which][k][among];
        to[(which == 0 ? norm.gamma : norm.beta) + (size_t)(left_column + among)] = sum;
    }
    const int slot = index - 2 * net->layers - 1;
    if (slot < 0 || (int)blockIdx.x % groups > 0)
        return;
    double sum = 0;
    for (int r = (int)threadIdx.x; r < rows; r += STAGE_THREADS)
        sum += (double)at(frame, net->slot[slot].sigma)[begin + r];
    sum = block_total<STAGE_THREADS>(sum);
    if (threadIdx.x == 0)
        to[(size_t)net->host_storage + net->slot[slot].seed + seed_of(frame, slot).sigma] =
            (float)((1 - (double)norm.times * (double)norm.times) * sum);
}

/* ---- embeddings -------------------------------------------------------------------------------------------------- */

/* add(row) for the rows of the batch whose token is `entry`, in their order, by a warp. */
template <class Add> DEVICE void each_token(const struct frame &frame, int entry, Add add)
{
    const int context = frame.net->context, lane = (int)threadIdx.x % WARP_LANES;
    for (int n = 0; n < frame.sequences; n++) {
        const uint8_t *row = frame.tokens + (size_t)n * (size_t)frame.token_stride;
        for (int t = 0; t < context; t += WARP_LANES) {
            unsigned found = __ballot_sync(0xffffffffu, t + lane < context && row[t + lane] == entry);
            for (; found; found &= found - 1)
                add(n * context + t + __ffs((int)found) - 1);
        }
    }
}

enum { EMBED_OWN = 4, EMBED_COLUMNS = EMBED_OWN * WARP_LANES }; /* columns of a lane, and of a warp */

/* Warps for so many rows of embeddings. */
static inline __host__ __device__ int embed_warps(int rows, int width)
{
    return rows * ((width + EMBED_COLUMNS - 1) / EMBED_COLUMNS);
}

/* A warp per EMBED_COLUMNS of an entry of the vocabulary, which adds up the tokens that are it, unless a product has
 * done that, and of a position. */
template <class P> STAGE_KERNEL embed_sums(const struct exact_view *net, int first)
{
    const struct frame frame = train_frame(net, first);
    const int width = net->width, across = embed_warps(1, width), entries = P::FUSED ? 0 : net->vocabulary;
    const float *g = at(frame, net->dembed.exact);
    batch_wait();
    each_row(embed_warps(entries + net->context, width), block_share(), [&](int item) {
        const bool token = item / across < entries;
        const int own = item / across - (token ? 0 : entries),
                  column = item % across * EMBED_COLUMNS + (int)threadIdx.x % WARP_LANES;
        float *to = net->embedded + (size_t)frame.place * net->embeddings + (token ? net->tokens : net->positions) +
                    (size_t)own * (size_t)width;
        float sum[EMBED_OWN] = {};
        const auto add = [&](int row) {
#pragma unroll
            for (int k = 0; k < EMBED_OWN; k++)
                if (column + k * WARP_LANES < width)
                    sum[k] += g[(size_t)row * (size_t)width + (size_t)(column + k * WARP_LANES)];
        };
        if (token) {
            each_token(frame, own, add);
        } else {
#pragma unroll 8 /* so many are on their way at once */
            for (int n = 0; n < frame.sequences; n++)
                add(n * net->context + own);
        }
#pragma unroll
        for (int k = 0; k < EMBED_OWN; k++)
            if (column + k * WARP_LANES < width)
                to[column + k * WARP_LANES] = sum[k];
    });
}

/* ---- enqueued ---------------------------------------------------------------------------------------------------- */

template <class P> static void enqueue_gradients(struct transformer_net *device, int first, int envs)
{
    struct runtime *rt = device->runtime;
    const struct exact_view *net = device->net, &view = device->view;
    const unsigned norms = (unsigned)((2 * view.layers + 1 + view.slots) * norm_block<P>::groups(view.width));
    const struct launch norm_blocks = {dim3(norms, (unsigned)envs, (unsigned)view.chunks), dim3(STAGE_THREADS), 0,
                                       false};
    const int entries = P::FUSED ? 0 : view.vocabulary;
    runtime_launch(rt, weights<P>, net_behind(net_blocks(device->work, envs, P::THREADS, P::product_shared())), net,
                   first);
    runtime_launch(rt, norm_sums<P>, net_behind(norm_blocks), net, first);
    runtime_launch(
        rt, embed_sums<P>,
        net_behind(net_blocks(row_blocks(embed_warps(entries + view.context, view.width)), envs, STAGE_THREADS)), net,
        first);
}

template <class P> static void allow_gradients(struct transformer_net *device)
{
    if (P::product_shared())
        runtime_allow_shared(device->runtime, weights<P>, P::product_shared());
}

/* Entries for every chunk and tile of a linear layer. */
static inline void add_work(const struct exact_view *net, std::vector<exact_work> *work, int of, int index, int which,
                            int tiles)
{
    for (int chunk = 0; chunk < net->chunks; chunk++)
        for (int tile = 0; tile < tiles; tile++)
            work->push_back({(int16_t)of, (int16_t)index, (int16_t)which, (int16_t)chunk, tile});
}

/* Division of the work on weights. */
template <class P> static std::vector<exact_work> list_work(const struct exact_view *net)
{
    std::vector<exact_work> work;
    const int width = net->width;
    add_work(net, &work, OF_CLASSIFIER, 0, 0, P::tiles(net->vocabulary, width));
    for (int i = 0; i < net->layers; i++)
        for (int half = 0; half < 2; half++) {
            const struct branch_view &branch = net->layer[i].half[half].branch;
            add_work(net, &work, OF_LAYER, i, 2 * half + LINEAR_FIRST, P::tiles(branch.hidden, width));
            add_work(net, &work, OF_LAYER, i, 2 * half + LINEAR_SECOND, P::tiles(width, branch.mixed));
        }
    for (int j = 0; j < net->slots; j++) {
        int tiles[2] = {0, 0}; /* the most that a seed has */
        for (const struct exact_seed &seed : net->seed_of) {
            const int own[2] = {P::tiles(seed.branch.hidden, width), P::tiles(width, seed.branch.mixed)};
            for (int k = 0; k < 2; k++)
                tiles[k] = own[k] > tiles[k] ? own[k] : tiles[k];
        }
        for (int k = 0; k < 2; k++)
            add_work(net, &work, OF_SLOT, j, LINEAR_SEED + k, tiles[k]);
        add_work(net, &work, OF_SLOT, j, LINEAR_GATE + LINEAR_FIRST, P::tiles(net->gate_hidden, width));
        add_work(net, &work, OF_SLOT, j, LINEAR_GATE + LINEAR_SECOND, P::tiles(1, net->gate_hidden));
    }
    return work;
}

#endif
