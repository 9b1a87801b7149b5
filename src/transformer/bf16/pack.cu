/* What lies between parameters and lots: weights rounded before a batch or an evaluation, slabs added up after one. The
 * optimiser rounds the host's itself, for the batch after (rounded_at). */
#include "cuda/runtime.cuh"

#include "transformer/bf16/net.cuh"
#include "transformer/fp32/numbers.cuh"

enum { PACK_THREADS = 256 };

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* Eight numbers of a lot, side by side: of a matrix, whose columns are multiples of eight, or none. */
DEVICE void pack_eight(const struct packed &m, const float *params, uint4 *lots, int width, uint32_t job)
{
    const int lot = (int)(job / lot_size(width)), own = (int)(job % lot_size(width)) * 8,
              across = lots_across(m, width), row = lot / across * width + own / width,
              column = lot % across * width + own % width;
    uint4 eight = make_uint4(0, 0, 0, 0);
    if (row < m.rows && column < m.columns) {
        const float4 *from = reinterpret_cast<const float4 *>(params + m.params + (uint32_t)(row * m.columns + column)),
                     low = from[0], high = from[1];
        eight = make_uint4(pack_bf16(low.x, low.y), pack_bf16(low.z, low.w), pack_bf16(high.x, high.y),
                           pack_bf16(high.z, high.w));
    }
    lots[m.lots + job] = eight;
}

/* Packs eight numbers of a list of matrices, or takes them off it. */
DEVICE bool pack_of(const struct packed &m, const float *params, uint4 *lots, int width, uint32_t *job)
{
    const uint32_t jobs = packed_size(m, width);
    if (*job >= jobs) {
        *job -= jobs;
        return false;
    }
    pack_eight(m, params, lots, width, *job);
    return true;
}

DEVICE bool pack_branch(const struct small_branch &branch, const float *params, uint4 *lots, int width, uint32_t *job)
{
    return pack_of(branch.w1, params, lots, width, job) || pack_of(branch.w2, params, lots, width, job);
}

DEVICE void pack_slot(const struct frame &frame, const struct small_view &small, uint4 *lots, int slot, uint32_t job)
{
    const struct slot_exec &exec = frame.exec[slot];
    if (exec.mode != SLOT_SKIP && seed_of(frame, slot).branch.kind != BRANCH_NONE)
        pack_branch(small.seed_of[exec.blueprint], seed_params(frame, slot), lots, frame.net->width, &job);
}

/* A thread per eight numbers: those of the host, then those of every slot; but for those that are `past`. */
static __global__ void __launch_bounds__(PACK_THREADS)
    pack(const struct exact_view *net, const struct small_view *small, int first, uint32_t past)
{
    const struct frame frame = frame_of(net, first + (int)blockIdx.y);
    batch_wait();
    uint4 *lots = small->lots + (size_t)blockIdx.y * env_lots(net, small);
    uint32_t job = past + blockIdx.x * PACK_THREADS + threadIdx.x;
    if (job >= small->host_lots) {
        const uint32_t slot = (job - small->host_lots) / small->seed_lots;
        if (slot < (uint32_t)net->slots)
            pack_slot(frame, *small, lots + small->host_lots + (size_t)slot * small->seed_lots, (int)slot,
                      (job - small->host_lots) % small->seed_lots);
        return;
    }
    if (pack_of(small->tokens, frame.host, lots, net->width, &job))
        return;
    for (int layer = 0; layer < net->layers; layer++)
        for (int half = 0; half < 2; half++)
            if (pack_branch(small->half[layer][half], frame.host, lots, net->width, &job))
                return;
}

void small_pack(struct small_net *net, int first, int envs, bool host)
{
    const uint32_t past = host ? 0 : net->small.host_lots, jobs = (uint32_t)env_lots(&net->view, &net->small) - past;
    struct launch shape = net_blocks((jobs + PACK_THREADS - 1) / PACK_THREADS, envs, PACK_THREADS);
    shape.overlap = !host; /* behind another kernel of the batch */
    if (jobs > 0)
        runtime_launch(net->runtime, pack, shape, (const struct exact_view *)net->net,
                       (const struct small_view *)net->placed_small, first, past);
}

/* ---- adding up --------------------------------------------------------------------------------------------------- */

DEVICE float over_slabs(const struct small_view *small, const float *slabs, uint32_t place)
{
    float sum = 0;
    if (place == NOWHERE)
        return sum;
    for (int s = 0; s < small->slabs; s++)
        sum += slabs[(size_t)s * small->slab + place];
    return sum;
}

/* A number of a seed or gate net in a slab. */
DEVICE uint32_t slab_place(const struct frame &frame, const struct small_view *small, const struct slot_number &number)
{
    const struct exact_view &net = *frame.net;
    const struct exact_slot &slot = net.slot[number.slot];
    const uint32_t own = number.offset - (number.gate ? slot.gate : slot.seed),
                   base = net.host_storage + (uint32_t)number.slot * (small->seed_slab + small->gate_slab);
    return number.gate ? base + small->seed_slab + small->gate_order[own]
                       : base + small->seed_order[frame.exec[number.slot].blueprint * small->seed_numbers + own];
}

enum { REDUCED = SPAN / STAGE_THREADS }; /* numbers of a thread, side by side in a slab */

/* Gradients of the host's numbers that are at a place of the slabs and behind it; the sum of their squares. */
DEVICE double reduce_host(const struct small_view *small, const float *slabs, float *grads, uint32_t place)
{
    static_assert(REDUCED == 4, "a float4");
    const uint4 whose = *reinterpret_cast<const uint4 *>(small->host_numbers + place);
    const uint32_t number[REDUCED] = {whose.x, whose.y, whose.z, whose.w};
    float sum[REDUCED] = {};
    double square = 0;
#pragma unroll 8
    for (int s = 0; s < small->slabs; s++) {
        const numbers four = few_at<REDUCED>(slabs + (size_t)s * small->slab + place);
#pragma unroll
        for (int i = 0; i < REDUCED; i++)
            sum[i] += four.v[i];
    }
#pragma unroll
    for (int i = 0; i < REDUCED; i++) {
        const bool any = !(number[i] & NOBODYS);
        grads[number[i] & ~NOBODYS] = any ? sum[i] : 0.0f;
        square += any ? (double)sum[i] * (double)sum[i] : 0.0;
    }
    return square;
}

/* As `reduce` of fp32, but that the host's are in the order of a slab. */
STAGE_KERNEL reduce(const struct exact_view *net, const struct small_view *small, int first)
{
    const struct frame frame = train_frame(net, first);
    batch_wait();
    const size_t place = (size_t)frame.place;
    const float *slabs = small->slabs_at + place * (size_t)small->slabs * small->slab;
    float *grads = net->grads + place * net->grad;
    if ((int)blockIdx.x < net->spans) {
        const uint32_t own = blockIdx.x * SPAN + REDUCED * threadIdx.x;
        const double square =
            block_total<STAGE_THREADS>(own < net->host_storage ? reduce_host(small, slabs, grads, own) : 0.0);
        if (threadIdx.x == 0)
            net->squares[place * (size_t)net->spans + blockIdx.x] = square;
        return;
    }
    const uint32_t begin = (blockIdx.x - (uint32_t)net->spans) * SPAN, count = net->seed_storage + net->gate_storage;
    for (uint32_t i = begin + threadIdx.x; i < begin + SPAN && i < count; i += STAGE_THREADS) {
        const struct slot_number number = slot_number_of(frame, i);
        float sum = 0;
        if (number.tensor && slot_learns(frame.exec[number.slot]))
            sum = over_slabs(small, slabs, slab_place(frame, small, number));
        grads[(size_t)net->host_storage + i] = sum;
    }
}

void small_reduce(struct small_net *net, int first, int envs)
{
    const struct exact_view &view = net->view;
    const unsigned slot_spans = (view.seed_storage + view.gate_storage + SPAN - 1) / SPAN;
    runtime_launch(net->runtime, reduce, net_behind(net_blocks((unsigned)view.spans + slot_spans, envs, STAGE_THREADS)),
                   (const struct exact_view *)net->net, (const struct small_view *)net->placed_small, first);
}
