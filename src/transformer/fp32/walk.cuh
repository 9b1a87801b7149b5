/*
 * Evaluation under many settings of the slots. A thread block takes a window through all configurations, in the order
 * of its env's plan, and starts each one at the first slot where it differs from the one before: what entered that slot
 * is still in the frame (see struct eval_plan). The windows of a split are divided into parts, whose losses are summed
 * one window after another; the parts are added up in their order.
 */
#ifndef TRANSFORMER_FP32_WALK_CUH
#define TRANSFORMER_FP32_WALK_CUH

#include "transformer/fp32/stages.cuh"

/* ---- a window ---------------------------------------------------------------------------------------------------- */

static const __device__ struct share alone = {0, 1};

/* Not inlined: there are many kinds of heads, and two places that need them. */
template <class P>
static __device__ __noinline__ void walk_attend(const struct frame &frame, const struct branch_places &places,
                                                int heads)
{
    P::with_head(frame.net->width / heads,
                 [&](auto head) { stage_attend<P, decltype(head)::value>(frame, places, heads, alone); });
}

template <class P> DEVICE void walk_half(const struct frame &frame, int layer, int half)
{
    const struct exact_half &view = frame.net->layer[layer].half[half], &places = places_of(frame, layer, half);
    stage_norm<P>(frame, view.norm, places.norms, frame.net->stream.exact, alone);
    __syncthreads();
    stage_first<P>(frame, view.branch, places.places, host_of<P>(frame), operands<P>(frame, places.norms.normed),
                   alone);
    __syncthreads();
    if (half == 0) {
        walk_attend<P>(frame, places.places, frame.net->heads);
        __syncthreads();
    }
    stage_second<P>(frame, view.branch, places.places, host_of<P>(frame), frame.net->stream.exact, view.to, alone);
    __syncthreads();
}

template <class P> DEVICE void walk_slot(const struct frame &frame, int slot)
{
    if (slot_mixes(frame, slot)) {
        const bool branch = seed_adds_branch(frame, slot);
        if (branch)
            stage_seed_first<P>(frame, slot, alone);
        __syncthreads();
        if (branch && seed_of(frame, slot).branch.kind == BRANCH_ATTENTION)
            walk_attend<P>(frame, frame.net->slot[slot].places, SEED_HEADS);
        __syncthreads();
        if (branch)
            stage_seed_second<P>(frame, slot, alone);
        if (slot_gated(frame, slot))
            stage_gate<P>(frame, slot, alone);
        __syncthreads();
    }
    stage_mix<P>(frame, slot, alone);
    __syncthreads();
}

/* From a stop of the way, or from its slot, to what the classifier reads. */
template <class P> DEVICE void walk_from(const struct frame &frame, int stop, bool at_slot)
{
    const struct exact_view &net = *frame.net;
    for (; stop < net.stops; stop++, at_slot = false) {
        if (net.way[stop].layer >= 0 && !at_slot)
            for (int half = 0; half < 2; half++)
                walk_half<P>(frame, net.way[stop].layer, half);
        if (net.way[stop].slot >= 0)
            walk_slot<P>(frame, net.way[stop].slot);
    }
    stage_norm<P>(frame, net.last, net.last_places, net.stream.exact, alone);
    __syncthreads();
}

/* verdict(row, loss, hit) for the window's tokens, each by a warp. */
template <class P, class Verdict> DEVICE void walk_judge(const struct frame &frame, Verdict verdict)
{
    const struct exact_view &net = *frame.net;
    if constexpr (P::FUSED) {
        float *kept = at(frame, net.verdicts);
        P::judge(frame, alone, 0, (typename P::operand *)nullptr, [&](int row, double loss, bool hit) {
            kept[2 * row] = (float)loss;
            kept[2 * row + 1] = hit;
        });
        __syncthreads();
        each_row(frame.rows, alone, [&](int row) { verdict((double)kept[2 * row], kept[2 * row + 1] > 0); });
    } else {
        stage_logits<P>(frame, alone);
        __syncthreads();
        each_row(frame.rows, alone, [&](int row) {
            const struct row_verdict own = row_judge(net.vocabulary,
                                                     at(frame, net.logits) + (size_t)row * (size_t)net.vocabulary,
                                                     target_of(frame, row), 0, [](int, float) {});
            verdict(own.loss, own.hit);
        });
    }
}

/* The window's score: a warp adds up its tokens, thread 0 the warps. */
template <class P> DEVICE struct net_score walk_score(const struct frame &frame)
{
    __shared__ double loss[STAGE_WARPS], hits[STAGE_WARPS];
    const int warp = (int)threadIdx.x / WARP_LANES;
    struct net_score score = {0, 0, (uint64_t)frame.rows};
    walk_judge<P>(frame, [&](double own, bool hit) {
        score.loss += own;
        score.hits += hit;
    });
    loss[warp] = score.loss;
    hits[warp] = score.hits;
    __syncthreads();
    score.loss = score.hits = 0;
    for (int w = 0; w < STAGE_WARPS; w++) {
        score.loss += loss[w];
        score.hits += hits[w];
    }
    __syncthreads();
    return score;
}

/* All configurations of one window; `scores` [config] +=. */
template <class P> DEVICE void walk_window(struct frame frame, struct net_score *scores)
{
    const struct exact_view &net = *frame.net;
    const struct net_shape &shape = net.setup->shape;
    const struct eval_plan &plan = net.plans[frame.env];
    for (uint32_t k = 0; k < plan.count; k++) {
        const int parting = k == 0 ? net.slots : eval_parting(&shape, plan.mask[k], plan.mask[k - 1]);
        const bool parted = parting < net.slots;
        frame.on = plan.mask[k];
        if (!parted) {
            stage_embed<P>(frame, alone);
            __syncthreads();
        }
        walk_from<P>(frame, parted ? net.slot[shape.exec_order[parting]].stop : 0, parted);
        const struct net_score score = walk_score<P>(frame);
        if (threadIdx.x == 0)
            net_score_add(&scores[plan.config[k]], score);
    }
}

/* ---- a split ----------------------------------------------------------------------------------------------------- */

template <class P> STAGE_KERNEL evaluate(const struct exact_view *net, struct exact_pass pass, int first, int envs)
{
    const int parts = part_count(pass.windows), each = part_windows(pass.windows);
    for (int item = (int)blockIdx.x; item < envs * parts; item += (int)gridDim.x) {
        const int env = first + item / parts, part = item % parts;
        struct net_score *scores = part_scores(net, env, part);
        const uint32_t configs = net->plans[env].count;
        for (uint32_t k = threadIdx.x; k < configs; k += STAGE_THREADS)
            scores[k] = {0, 0, 0};
        __syncthreads();
        struct frame frame = frame_of(net, env);
        frame.place = env - first;
        frame.sequences = 1;
        frame.rows = net->context;
        frame.evaluating = true;
        frame.base = net->frames + (size_t)blockIdx.x * (size_t)net->context * net->line;
        for (int n = part * each; configs && n < (part + 1) * each && n < pass.windows; n++) {
            frame.tokens = gather_range_window(net->setup->source.data, pass.split, (uint32_t)n);
            frame.targets = frame.tokens + 1;
            walk_window<P>(frame, scores);
        }
    }
}

/* ---- enqueued ---------------------------------------------------------------------------------------------------- */

template <class P> static size_t walk_shared(const struct exact_view &net)
{
    const size_t host = P::attend_bytes(net.width / net.heads, false),
                 seed = P::attend_bytes(net.width / SEED_HEADS, false);
    size_t most = host > seed ? host : seed;
    most = most > P::product_shared() ? most : P::product_shared();
    return most > P::classifier_shared() ? most : P::classifier_shared();
}

template <class P> static void enqueue_walk(struct transformer_net *device, struct exact_pass pass, int first, int envs)
{
    runtime_launch(device->runtime, evaluate<P>,
                   net_blocks(device->eval_blocks, 1, STAGE_THREADS, walk_shared<P>(device->view)),
                   (const struct exact_view *)device->net, pass, first, envs);
}

/* In create. */
template <class P> static void allow_walk(struct transformer_net *device)
{
    runtime_allow_shared(device->runtime, evaluate<P>, walk_shared<P>(device->view));
}

#endif
