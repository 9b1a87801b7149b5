/*
 * Evaluation under many settings of the slots. A thread block takes a window through all configurations, in the order
 * of its env's plan, and starts each one at the first slot where it differs from the one before: what entered that slot
 * is still in the frame (see struct eval_plan). The windows of a split are divided into parts, whose losses are summed
 * one window after another; the parts are added up in their order.
 */
#include "cuda/runtime.cuh"

#include "transformer/fp32/stages.cuh"

enum { SCORE_THREADS = 128 };

/* ---- a window ---------------------------------------------------------------------------------------------------- */

static const __device__ struct share alone = {0, 1};

DEVICE void walk_half(const struct frame &frame, int layer, int half, unsigned char *shared)
{
    const struct exact_half &view = frame.net->layer[layer].half[half], &places = places_of(frame, layer, half);
    stage_norm(frame, view.norm, places.norms, alone);
    __syncthreads();
    stage_first(frame, view.branch, places.places, frame.host, at(frame, places.norms.normed), alone);
    __syncthreads();
    if (half == 0) {
        stage_attend(frame, places.places, frame.net->heads, alone, shared);
        __syncthreads();
    }
    stage_second(frame, view.branch, places.places, frame.host, at(frame, frame.net->stream),
                 stream_after(frame, layer, half), alone);
    __syncthreads();
}

DEVICE void walk_slot(const struct frame &frame, int slot, unsigned char *shared)
{
    if (slot_mixes(frame, slot)) {
        stage_seed_first(frame, slot, alone);
        __syncthreads();
        stage_seed_attend(frame, slot, alone, shared);
        __syncthreads();
        stage_seed_second(frame, slot, alone);
        stage_gate(frame, slot, alone);
        __syncthreads();
    }
    stage_mix(frame, slot, alone);
    __syncthreads();
}

/* From the stream before a layer to the logits. */
DEVICE void walk_from(const struct frame &frame, int layer, unsigned char *shared)
{
    const struct exact_view &net = *frame.net;
    for (; layer < net.layers; layer++) {
        for (int half = 0; half < 2; half++)
            walk_half(frame, layer, half, shared);
        if (net.layer[layer].slot >= 0)
            walk_slot(frame, net.layer[layer].slot, shared);
    }
    stage_norm(frame, net.last, net.last_places, alone);
    __syncthreads();
    stage_logits(frame, alone);
    __syncthreads();
}

/* The window's score: a warp adds up its tokens, thread 0 the warps. */
DEVICE struct net_score walk_score(const struct frame &frame)
{
    __shared__ double loss[STAGE_WARPS], hits[STAGE_WARPS];
    const struct exact_view &net = *frame.net;
    const int warp = (int)threadIdx.x / WARP_LANES;
    struct net_score score = {0, 0, (uint64_t)frame.rows};
    each_row(frame.rows, alone, [&](int row) {
        const struct row_verdict verdict = row_judge(net.vocabulary,
                                                     at(frame, net.logits) + (size_t)row * (size_t)net.vocabulary,
                                                     target_of(frame, row), 0, [](int, float) {});
        score.loss += verdict.loss;
        score.hits += verdict.hit;
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
DEVICE void walk_window(struct frame frame, struct net_score *scores, unsigned char *shared)
{
    const struct exact_view &net = *frame.net;
    const struct net_shape &shape = net.setup->shape;
    const struct eval_plan &plan = net.plans[frame.env];
    for (uint32_t k = 0; k < plan.count; k++) {
        const int parting = k == 0 ? net.slots : eval_parting(&shape, plan.mask[k], plan.mask[k - 1]);
        int next = 0;
        frame.on = plan.mask[k];
        if (parting < net.slots) {
            const int slot = shape.exec_order[parting];
            walk_slot(frame, slot, shared);
            next = net.slot[slot].layer + 1;
        } else {
            stage_embed(frame, alone);
            __syncthreads();
        }
        walk_from(frame, next, shared);
        const struct net_score score = walk_score(frame);
        if (threadIdx.x == 0)
            net_score_add(&scores[plan.config[k]], score);
    }
}

/* ---- a split ----------------------------------------------------------------------------------------------------- */

STAGE_KERNEL evaluate(const struct exact_view *net, struct exact_pass pass)
{
    SHARED_BYTES(shared);
    const int parts = part_count(pass.windows), each = part_windows(pass.windows);
    for (int item = (int)blockIdx.x; item < net->setup->envs * parts; item += (int)gridDim.x) {
        const int env = item / parts, part = item % parts;
        struct net_score *scores = part_scores(net, env, part);
        const uint32_t configs = net->plans[env].count;
        for (uint32_t k = threadIdx.x; k < configs; k += STAGE_THREADS)
            scores[k] = {0, 0, 0};
        __syncthreads();
        struct frame frame = frame_of(net, env);
        frame.sequences = 1;
        frame.rows = net->context;
        frame.evaluating = true;
        frame.base = net->frames + (size_t)blockIdx.x * (size_t)net->context * net->line;
        for (int n = part * each; configs && n < (part + 1) * each && n < pass.windows; n++) {
            frame.tokens = gather_range_window(net->setup->source.data, pass.split, (uint32_t)n);
            frame.targets = frame.tokens + 1;
            walk_window(frame, scores, shared);
        }
    }
}

/* ---- points ------------------------------------------------------------------------------------------------------ */

DEVICE struct net_score total_of(const struct exact_view *net, int env, uint32_t config, int windows)
{
    struct net_score total = {0, 0, 0};
    for (int part = 0; part < part_count(windows); part++)
        net_score_add(&total, part_scores(net, env, part)[config]);
    return total;
}

DEVICE double points_of(const struct net_setup *setup, const struct net_score &score)
{
    return net_points(setup->scored_by_loss, setup->classes, &score);
}

KERNEL void evaluated(const struct exact_view *net)
{
    const struct net_setup *setup = net->setup;
    const int env = (int)blockIdx.x;
    for (uint32_t k = threadIdx.x; k < SUBSETS_MAX; k += SCORE_THREADS) {
        const bool measured = k < net->plans[env].count;
        const struct net_score score = measured ? total_of(net, env, k, setup->val_images) : net_score{0, 0, 0};
        setup->subset_score[(size_t)env * SUBSETS_MAX + k] = measured ? points_of(setup, score) : 0;
        if (k == 0) { /* the whole set */
            setup->val_loss[env] = score.loss / (double)score.count;
            setup->val_accuracy[env] = points_of(setup, score);
        }
    }
}

KERNEL void measured(const struct exact_view *net, struct net_sets sets)
{
    const struct net_setup *setup = net->setup;
    const int env = (int)blockIdx.x;
    double *score = net_sets_of(sets.score, sets, (size_t)env);
    for (uint32_t k = threadIdx.x; k < net->plans[env].count; k += SCORE_THREADS)
        score[k] = points_of(setup, total_of(net, env, k, setup->val_images));
}

KERNEL void tested(const struct exact_view *net)
{
    const struct net_setup *setup = net->setup;
    const int env = (int)(blockIdx.x * SCORE_THREADS + threadIdx.x);
    if (env < setup->envs)
        setup->test_accuracy[env] = points_of(setup, total_of(net, env, 0, setup->test_images));
}

/* ---- enqueued ---------------------------------------------------------------------------------------------------- */

void transformer_fp32_walk(struct transformer_net *device, struct exact_pass pass)
{
    runtime_launch(device->runtime, evaluate, net_blocks(device->eval_blocks, 1, STAGE_THREADS, device->attend_shared),
                   device->net, pass);
}

static struct launch block_per_env(const struct transformer_net *device)
{
    return net_blocks((unsigned)device->setup.envs, 1, SCORE_THREADS);
}

void transformer_allow_evaluate(struct transformer_net *device)
{
    runtime_allow_shared(device->runtime, evaluate, device->attend_shared);
}

void transformer_evaluate_all(struct net_device *given)
{
    struct transformer_net *device = transformer_net_of(given);
    net_plan_evaluate(device, device->view.plans);
    device->walk(device, {SPLIT_VAL, device->setup.val_images});
    runtime_launch(device->runtime, evaluated, block_per_env(device), device->net);
}

void transformer_measure_all(struct net_device *given, struct net_sets sets)
{
    struct transformer_net *device = transformer_net_of(given);
    net_plan_measure(device, device->view.plans, sets);
    device->walk(device, {SPLIT_VAL, device->setup.val_images});
    runtime_launch(device->runtime, measured, block_per_env(device), device->net, sets);
}

void transformer_test_all(struct net_device *given)
{
    struct transformer_net *device = transformer_net_of(given);
    const unsigned blocks = ((unsigned)device->setup.envs + SCORE_THREADS - 1) / SCORE_THREADS;
    net_plan_test(device, device->view.plans);
    device->walk(device, {SPLIT_TEST, device->setup.test_images});
    runtime_launch(device->runtime, tested, net_blocks(blocks, 1, SCORE_THREADS), device->net);
}
