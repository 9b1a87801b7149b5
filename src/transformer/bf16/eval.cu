/*
 * Evaluation under many settings of the slots, as in fp32: a team takes a window through all configurations, in the
 * order of its env's plan, each from the first slot where it differs from the one before. What enters a slot is kept.
 */
#include "cuda/runtime.cuh"

#include "transformer/bf16/forward.cuh"

template <int C> DEVICE void kept_write(float4 *kept, int slot, const struct lines<C> &x)
{
#pragma unroll
    for (int j = 0; j < C / 8; j++)
        kept[(slot * C / 8 + j) * TEAM_THREADS] = make_float4(x.v[j][0], x.v[j][1], x.v[j][2], x.v[j][3]);
}

template <int C> DEVICE struct lines<C> kept_read(const float4 *kept, int slot) {
    struct lines<C> x;
#pragma unroll
    for (int j = 0; j < C / 8; j++) {
        const float4 four = kept[(slot * C / 8 + j) * TEAM_THREADS];
        x.v[j][0] = four.x;
        x.v[j][1] = four.y;
        x.v[j][2] = four.z;
        x.v[j][3] = four.w;
    }
    return x;
}

/* The window's score, in thread 0: a warp adds up its tokens, thread 0 the warps. */
template <int C>
DEVICE struct net_score window_score(const struct team &team, const struct lines<C> &stream, const uint8_t *targets)
{
    __shared__ double loss[TEAM_WARPS], hits[TEAM_WARPS];
    const struct exact_view &net = *team.net;
    struct token_verdict verdict[2];
    int target[2];
    struct net_score score = {0, 0, (uint64_t)net.context};
    targets_of(team, targets, target);
    judge_tokens<C>(team, norm_forward<C>(team, stream, net.last, 0, 0, 0), target, verdict);
    for (int r = 0; r < 2; r++)
        if (team.row() + lane_of() / 4 + 8 * r < net.context && lane_of() % 4 == 0) {
            score.loss += (double)verdict[r].loss;
            score.hits += verdict[r].hit;
        }
    score.loss = lanes_sum(score.loss);
    score.hits = lanes_sum(score.hits);
    __syncthreads();
    loss[team.warp()] = score.loss;
    hits[team.warp()] = score.hits;
    __syncthreads();
    score.loss = score.hits = 0;
    for (int w = 0; w < TEAM_WARPS; w++) {
        score.loss += loss[w];
        score.hits += hits[w];
    }
    return score;
}

/* All configurations of one window; `scores` [config] +=. */
template <int C>
DEVICE void walk_window(const struct team &team, struct desk *desk, float4 *kept, struct net_score *scores)
{
    const struct frame *frame = &desk->frame;
    const struct exact_view &net = *frame->net;
    const struct net_shape &shape = net.setup->shape;
    const struct eval_plan &plan = net.plans[frame->env];
#pragma unroll 1
    for (uint32_t k = 0; k < plan.count; k++) {
        const int parting = k == 0 ? net.slots : eval_parting(&shape, plan.mask[k], plan.mask[k - 1]),
                  slot = parting < net.slots ? shape.exec_order[parting] : -1;
        __syncthreads();
        if (threadIdx.x == 0)
            desk->frame.on = plan.mask[k];
        __syncthreads();
        struct lines<C> stream = slot < 0 ? embedded<C>(team, frame->tokens) : kept_read<C>(kept, slot);
        bool at_slot = slot >= 0;
#pragma unroll 1
        for (int i = at_slot ? net.slot[slot].stop : 0; i < net.stops; i++, at_slot = false) {
            if (net.way[i].layer >= 0 && !at_slot)
                layer_forward<C>(team, stream, net.way[i].layer);
            if (net.way[i].slot < 0)
                continue;
            if (!at_slot) /* it was read from there */
                kept_write<C>(kept, net.way[i].slot, stream);
            slot_forward<C>(team, stream, net.way[i].slot);
        }
        const struct net_score score = window_score<C>(team, stream, frame->targets);
        if (threadIdx.x == 0)
            net_score_add(&scores[plan.config[k]], score);
    }
}

template <int C>
static __global__ void __launch_bounds__(TEAM_THREADS, 4)
    walk(const struct exact_view *net, const struct small_view *small, struct exact_pass pass, int first, int envs)
{
    __shared__ struct desk desk;
    const int parts = part_count(pass.windows), each = part_windows(pass.windows);
    float4 *kept = small->keeps + (size_t)blockIdx.x * small->kept * TEAM_THREADS + threadIdx.x;
    const struct team team = {&desk, small, net, walk_crew()};
    for (int item = (int)blockIdx.x; item < envs * parts; item += (int)gridDim.x) {
        const int place = item / parts, env = first + place, part = item % parts;
        struct net_score *scores = part_scores(net, env, part);
        const uint32_t configs = net->plans[env].count;
        for (uint32_t k = threadIdx.x; k < configs; k += TEAM_THREADS)
            scores[k] = {0, 0, 0};
        for (int n = part * each; configs && n < (part + 1) * each && n < pass.windows; n++) {
            __syncthreads();
            if (threadIdx.x == 0) {
                desk = {};
                desk.frame = frame_of(net, env);
                desk.frame.evaluating = true;
                desk.frame.tokens = gather_range_window(net->setup->source.data, pass.split, (uint32_t)n);
                desk.frame.targets = desk.frame.tokens + 1;
                desk.bank = small->banks + (size_t)blockIdx.x * (size_t)(net->width / 8) * TEAM_THREADS;
                desk.lots = small->lots + (size_t)place * env_lots(net, small);
            }
            __syncthreads();
            walk_window<C>(team, &desk, kept, scores);
        }
    }
}

void small_walk(struct transformer_net *given, struct exact_pass pass)
{
    struct small_net *net = small_net_of(given);
    const int all = net->setup.envs;
    for (int first = 0; first < all; first += net->view.group) {
        const int envs = all - first < net->view.group ? all - first : net->view.group;
        const unsigned items = (unsigned)(envs * part_count(pass.windows));
        const struct launch shape = {dim3(items < net->walk_blocks ? items : net->walk_blocks), dim3(TEAM_THREADS),
                                     net->walk_shared, false};
        small_pack(net, first, envs, true);
        runtime_launch(net->runtime, net->view.width == 64 ? walk<64> : walk<32>, shape,
                       (const struct exact_view *)net->net, (const struct small_view *)net->placed_small, pass, first,
                       envs);
    }
}

void small_allow_walk(struct small_net *net)
{
    runtime_allow_shared(net->runtime, walk<64>, net->walk_shared);
    runtime_allow_shared(net->runtime, walk<32>, net->walk_shared);
}
