/* A batch, forward and backward, in one kernel. Each width is compiled by itself. */
#ifndef TRANSFORMER_BF16_TRAIN_CUH
#define TRANSFORMER_BF16_TRAIN_CUH

#include "transformer/bf16/slots.cuh"

/* The env's batch, as train_frame has it. */
DEVICE struct frame batch_frame(const struct exact_view *net, int first, int place)
{
    struct frame frame = frame_of(net, first + place);
    frame.place = place;
    frame.sequences = net->batch;
    frame.rows = net->rows;
    frame.tokens = net->windows + (size_t)place * (size_t)net->batch * (size_t)(net->context + 1);
    frame.token_stride = net->context + 1;
    frame.targets = net->targets ? net->targets : frame.tokens + 1;
    frame.target_stride = net->targets ? net->context : frame.token_stride;
    return frame;
}

/* Words of global memory, by all of the block: asked for one after the other, waited for together. */
template <int THREADS, class T> DEVICE void plan_copy(T *to, const T *from)
{
    enum { WORDS = sizeof(T) / 8, EACH = (WORDS + THREADS - 1) / THREADS };
    static_assert(sizeof(T) % 8 == 0 && alignof(T) == 8, "whole words");
    uint2 word[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++)
        if (i * THREADS + (int)threadIdx.x < WORDS)
            word[i] = reinterpret_cast<const uint2 *>(from)[i * THREADS + (int)threadIdx.x];
#pragma unroll
    for (int i = 0; i < EACH; i++)
        if (i * THREADS + (int)threadIdx.x < WORDS)
            reinterpret_cast<uint2 *>(to)[i * THREADS + (int)threadIdx.x] = word[i];
}

/* By one thread of the block. */
DEVICE void desk_lay(struct block_plan *plan, int first, int item)
{
    struct desk *desk = &plan->desk;
    const struct exact_view *net = &plan->net;
    const struct small_view *small = &plan->small;
    const int place = item / small->slabs;
    const size_t team = (size_t)blockIdx.x * (size_t)small->teams;
    desk->frame = batch_frame(net, first, place);
    for (int j = 0; j < net->slots; j++)
        plan->exec[j] = desk->frame.exec[j];
    desk->frame.exec = plan->exec;
    desk->lots = small->lots + (size_t)place * env_lots(net, small);
    desk->tape = small->tapes + team * small->tape * TEAM_THREADS;
    desk->log = small->log + team * small->logs;
    desk->bank = small->banks + team * (size_t)(net->width / 8) * TEAM_THREADS;
    desk->slab = small->slabs_at + (size_t)item * small->slab;
}

/* Losses of the warp's tokens. */
DEVICE void keep_verdicts(const struct trainer &t, int sequence, const struct token_verdict verdict[2])
{
    const struct exact_view &net = *t.net;
    for (int r = 0; r < 2; r++) {
        const int token = t.row() + lane_of() / 4 + 8 * r;
        if (token >= net.context || lane_of() % 4 > 0)
            continue;
        const size_t at = (size_t)t.frame().place * (size_t)net.rows + (size_t)(sequence * net.context + token);
        net.losses[at] = (double)verdict[r].loss;
        net.hits[at] = verdict[r].hit;
    }
}

/* A team's sequence; beyond the batch, the last one once more without gradients, because all warps add up gradients. */
template <int C> DEVICE void both_passes(const struct trainer &t)
{
    const struct exact_view &net = *t.net;
    const int sequence = t.desk->sequence + t.index();
    const bool within = sequence < net.batch;
    const size_t row = (size_t)batch_row(t, t.index());
    struct token_verdict verdict[2];
    struct lines<C> stream = embedded<C>(t, t.frame().tokens + row * (size_t)t.frame().token_stride);
#pragma unroll 1
    for (int i = 0; i < net.stops; i++) {
        if (net.way[i].layer >= 0)
            layer_forward<C>(t, stream, net.way[i].layer);
        if (net.way[i].slot >= 0)
            slot_forward<C>(t, stream, net.way[i].slot);
    }
    stream = classify<C>(t, stream, t.frame().targets + row * (size_t)t.frame().target_stride,
                         within ? (float)(1 / (double)net.rows) : 0.0f, verdict);
    if (within)
        keep_verdicts(t, sequence, verdict);
#pragma unroll 1
    for (int i = net.stops - 1; i >= 0; i--) {
        if (net.way[i].slot >= 0)
            slot_backward<C>(t, stream, net.way[i].slot);
        if (net.way[i].layer >= 0)
            layer_backward<C>(t, stream, net.way[i].layer);
    }
    embed_backward<C>(t, stream);
}

/* Fewer teams have more registers each. */
template <int C, int TEAMS>
static __global__ void __launch_bounds__(TEAMS *TEAM_THREADS, TEAMS == 1 ? TRAINS_ALONE : 1)
    train(const struct exact_view *net, const struct small_view *small, int first, int envs)
{
    SHARED_BYTES(shared);
    const struct crew crew = train_crew(TEAMS);
    struct block_plan *plan =
        reinterpret_cast<struct block_plan *>(shared + (block_memory() - smem(shared)) + block_shared<C>::plan(crew));
    const struct trainer t = {{&plan->desk, &plan->small, &plan->net, crew}};
    plan_copy<TEAMS * TEAM_THREADS>(&plan->net, net);
    plan_copy<TEAMS * TEAM_THREADS>(&plan->small, small);
    if (threadIdx.x < SHEET_PATTERN / 16)
        store_shared_128(block_memory() + block_shared<C>::ones(crew) + 16 * threadIdx.x, TWO_ONES, TWO_ONES, TWO_ONES,
                         TWO_ONES);
#pragma unroll 1
    for (int turn = 0;; turn++) { /* the rounds of its items: two counters would be a register more */
        __syncthreads();
        const int rounds = t.small->rounds, slabs = t.small->slabs,
                  item = (int)blockIdx.x + turn / rounds * (int)gridDim.x, round = turn % rounds,
                  sequence = (item % slabs * rounds + round) * t.teams();
        if (item >= envs * slabs)
            break;
        if (sequence >= t.net->batch)
            continue;
        if (threadIdx.x == 0) {
            desk_lay(plan, first, item);
            plan->desk.sequence = sequence;
            plan->desk.again = round > 0;
        }
        __syncthreads();
        both_passes<C>(t);
    }
}

template <int C, int TEAMS> static void passes_of(struct small_net *net, int first, int envs)
{
    const unsigned items = (unsigned)(envs * net->small.slabs);
    const struct launch shape = {dim3(items < net->train_blocks ? items : net->train_blocks),
                                 dim3(TEAMS * TEAM_THREADS), net->train_shared, false};
    runtime_launch(net->runtime, train<C, TEAMS>, shape, (const struct exact_view *)net->net,
                   (const struct small_view *)net->placed_small, first, envs);
}

#define SMALL_TRAIN(C)                                                                                                 \
    void small_passes_##C(struct small_net *net, int first, int envs)                                                  \
    {                                                                                                                  \
        if (net->small.teams == 1)                                                                                     \
            passes_of<C, 1>(net, first, envs);                                                                         \
        else if (net->small.teams == 2)                                                                                \
            passes_of<C, 2>(net, first, envs);                                                                         \
        else                                                                                                           \
            passes_of<C, TEAMS_MOST>(net, first, envs);                                                                \
    }                                                                                                                  \
                                                                                                                       \
    void small_allow_train_##C(struct small_net *net)                                                                  \
    {                                                                                                                  \
        if (net->small.teams == 1)                                                                                     \
            runtime_allow_shared(net->runtime, train<C, 1>, net->train_shared);                                        \
        else if (net->small.teams == 2)                                                                                \
            runtime_allow_shared(net->runtime, train<C, 2>, net->train_shared);                                        \
        else                                                                                                           \
            runtime_allow_shared(net->runtime, train<C, TEAMS_MOST>, net->train_shared);                               \
    }

#endif
