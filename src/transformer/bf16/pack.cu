/* What lies between parameters and tiles: weights packed before a batch or an evaluation, slabs added up after one. */
#include "cuda/runtime.cuh"

#include "transformer/bf16/net.cuh"
#include "transformer/fp32/numbers.cuh"

enum { PACK_THREADS = 256 };

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* Two numbers of a matrix, or of it transposed, side by side along the depth. */
DEVICE uint32_t packed_pair(const struct packed &m, const float *params, bool turned, int n, int k)
{
    float two[2];
    for (int i = 0; i < 2; i++) {
        const int row = turned ? k + i : n, column = turned ? n : k + i;
        two[i] = row < m.rows && column < m.columns ? params[m.params + (uint32_t)(row * m.columns + column)] : 0.0f;
    }
    return pack_bf16(two[0], two[1]);
}

/* A lane of a tile of 16 outputs by 16 inputs: b0 and b1 of the first eight outputs, then of the others. */
DEVICE void pack_lane(const struct packed &m, const float *params, uint4 *tiles, uint32_t job)
{
    const bool turned = job >= packed_size(m);
    const uint32_t own = turned ? job - packed_size(m) : job;
    const int across = in_tiles(turned ? m.rows : m.columns), tile = (int)(own / TILE_LANES),
              lane = (int)(own % TILE_LANES), n = tile / across * TILE + lane / 4,
              k = tile % across * TILE + lane % 4 * 2;
    tiles[(turned ? m.backward : m.forward) + own] =
        make_uint4(packed_pair(m, params, turned, n, k), packed_pair(m, params, turned, n, k + 8),
                   packed_pair(m, params, turned, n + 8, k), packed_pair(m, params, turned, n + 8, k + 8));
}

/* Packs lane `job` of a list of matrices, or takes them off it. */
DEVICE bool pack_of(const struct packed &m, const float *params, uint4 *tiles, uint32_t *job)
{
    const uint32_t jobs = 2 * packed_size(m);
    if (*job >= jobs) {
        *job -= jobs;
        return false;
    }
    pack_lane(m, params, tiles, *job);
    return true;
}

DEVICE bool pack_branch(const struct small_branch &branch, const float *params, uint4 *tiles, uint32_t *job)
{
    return pack_of(branch.w1, params, tiles, job) || pack_of(branch.w2, params, tiles, job);
}

DEVICE void pack_slot(const struct frame &frame, const struct small_view &small, uint4 *tiles, int slot, uint32_t job)
{
    const struct slot_exec &exec = frame.exec[slot];
    if (exec.mode == SLOT_SKIP)
        return;
    if (job < small.seed_tiles) {
        if (seed_of(frame, slot).branch.kind != BRANCH_NONE)
            pack_branch(small.seed_of[exec.blueprint], seed_params(frame, slot), tiles, &job);
        return;
    }
    job -= small.seed_tiles;
    if (exec.gate)
        pack_of(small.gate, gate_params(frame, slot), tiles, &job);
}

/* A thread per lane of a tile: those of the host, then those of every slot. */
static __global__ void __launch_bounds__(PACK_THREADS)
    pack(const struct exact_view *net, const struct small_view *small, int first)
{
    const struct frame frame = frame_of(net, first + (int)blockIdx.y);
    const uint32_t each = small->seed_tiles + small->gate_tiles;
    uint4 *tiles = small->tiles + (size_t)blockIdx.y * (small->host_tiles + (size_t)net->slots * each);
    uint32_t job = blockIdx.x * PACK_THREADS + threadIdx.x;
    if (job >= small->host_tiles) {
        const uint32_t slot = (job - small->host_tiles) / each;
        if (slot < (uint32_t)net->slots)
            pack_slot(frame, *small, tiles + small->host_tiles + (size_t)slot * each, (int)slot,
                      (job - small->host_tiles) % each);
        return;
    }
    if (pack_of(small->tokens, frame.host, tiles, &job))
        return;
    for (int layer = 0; layer < net->layers; layer++)
        for (int half = 0; half < 2; half++)
            if (pack_branch(small->half[layer][half], frame.host, tiles, &job))
                return;
}

void small_pack(struct small_net *net, int first, int envs)
{
    const struct small_view &small = net->small;
    const uint32_t jobs = small.host_tiles + (uint32_t)net->view.slots * (small.seed_tiles + small.gate_tiles);
    runtime_launch(net->runtime, pack, net_blocks((jobs + PACK_THREADS - 1) / PACK_THREADS, envs, PACK_THREADS),
                   (const struct exact_view *)net->net, (const struct small_view *)net->placed_small, first);
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

/* As `reduce` of fp32. */
STAGE_KERNEL reduce(const struct exact_view *net, const struct small_view *small, int first)
{
    const struct frame frame = train_frame(net, first);
    const size_t place = (size_t)frame.place;
    const float *slabs = small->slabs_at + place * (size_t)small->slabs * small->slab;
    float *grads = net->grads + place * net->grad;
    const bool host = (int)blockIdx.x < net->spans;
    const uint32_t begin = (blockIdx.x - (host ? 0 : (uint32_t)net->spans)) * SPAN,
                   count = host ? net->host_storage : net->seed_storage + net->gate_storage;
    double square = 0;
    for (uint32_t i = begin + threadIdx.x; i < begin + SPAN && i < count; i += STAGE_THREADS) {
        float sum = 0;
        if (host) {
            sum = over_slabs(small, slabs, small->host_order[i]);
            square += (double)sum * (double)sum;
            grads[i] = sum;
        } else {
            const struct slot_number number = slot_number_of(frame, i);
            if (number.tensor && slot_learns(frame.exec[number.slot]))
                sum = over_slabs(small, slabs, slab_place(frame, small, number));
            grads[(size_t)net->host_storage + i] = sum;
        }
    }
    if (!host)
        return;
    square = block_total<STAGE_THREADS>(square);
    if (threadIdx.x == 0)
        net->squares[place * (size_t)net->spans + blockIdx.x] = square;
}

void small_reduce(struct small_net *net, int first, int envs)
{
    const struct exact_view &view = net->view;
    const unsigned slot_spans = (view.seed_storage + view.gate_storage + SPAN - 1) / SPAN;
    runtime_launch(net->runtime, reduce, net_blocks((unsigned)view.spans + slot_spans, envs, STAGE_THREADS),
                   (const struct exact_view *)net->net, (const struct small_view *)net->placed_small, first);
}
