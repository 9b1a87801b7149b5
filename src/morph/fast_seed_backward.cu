/* Blended seeds, backward: gradients go on through them. The way forward is repeated first. */
#include "cuda/runtime.cuh"

#include "morph/fast_seed_load.cuh"

template <int C, int SIZE> using backward_tile = seed_tile<C, SIZE, seed_images(C, SIZE), (C < 32 ? 4 : 2), true>;

/* Where gradients go. */
struct blend_target {
    uint32_t *masked, *plain; /* before the ReLU and after it; NULL where not wanted */
    const uint32_t *raw;
};

template <int ROW>
DEVICE struct blend_target blend_target_of(const struct fast_host &host, const struct seed_set &set, int block, int env)
{
    const struct fast_block &b = host.block[block];
    struct blend_target target = {(uint32_t *)b.grad_full, nullptr, (const uint32_t *)b.raw};
    if (ROW == 1) {
        const int before = fast_mode(host, env, b.slot[0]);
        target.masked = before == SLOT_BLEND ? nullptr : (uint32_t *)b.grad;
        target.plain = before == SLOT_SKIP ? nullptr : (uint32_t *)set.between_grad[block];
        target.raw = (const uint32_t *)b.pooled;
    }
    return target;
}

/* The sums that BatchNorm needs of the gradients that reach it: of g, and of g raw. */
template <class T> struct blend_sums {
    patch_channels<typename T::MAP> plain, moment;

    DEVICE_MEMBER void clear()
    {
        plain.clear();
        moment.clear();
    }
    DEVICE_MEMBER void write(T &tile, float *back)
    {
        plain.finish(tile.rows, back);
        moment.finish(tile.rows, back + T::C);
    }
};

/* From the gradient behind the slot to u and g: what reaches its input through the seed, and directly. */
template <class T, int ROW, class SEED>
DEVICE void blend_gradients(T &tile, SEED &seed, seed_gate<T> &gate, const struct blend &blend,
                            const typename T::PATCH &x, const seed_gradient<T, ROW> &boundary, typename T::PATCH &g,
                            typename T::PATCH &u)
{
    using MAP = typename T::MAP;
    /* What is needed again is asked for again: registers are scarce. */
    const float amplitude = blend_amplitude(tile, gate, blend);
    if (ROW == 0)
        blend_mix<MAP>(g, seed.input(x), seed.output(x), amplitude, blend.multiply);
    boundary.spread(g, g);
    if (blend.gate) {
        float dq = blend_of_amplitude<MAP>(g, seed.output(x));
        tile.team.template total<1, false>(&dq);
        gate.backward(blend.alpha * dq);
    }
    u = g;
    if (blend.multiply)
        blend_unmix<MAP>(g, u, seed.input(x), seed.output(x), amplitude);
    seed.backward(x, u, amplitude, blend.train);
}

/* Both together to where gradients go. x: the input once more. */
template <class T>
DEVICE void blend_leave(const T &tile, const seed_gate<T> &gate, bool gated, const typename T::PATCH &x,
                        const typename T::PATCH &g, typename T::PATCH &u, const seed_images_at<T> &at,
                        const struct blend_target target, blend_sums<T> &sums)
{
    using MAP = typename T::MAP;
    constexpr int N = T::PATCH::N;
    patch_each<MAP>([&](int m, int n, int h) INLINED {
        const float2 direct = pair_floats(g.pair[m][n][h]);
        float2 through = pair_floats(u.pair[m][n][h]);
        if (gated) {
            const float2 more = tile.own(gate.input(), n);
            through = make_float2(through.x + more.x, through.y + more.y);
        }
        u.pair[m][n][h] = pack_bf16(direct.x + through.x, direct.y + through.y);
    });
    if (!at.there)
        patch_each<MAP>([&](int m, int n, int h) INLINED { u.pair[m][n][h] = 0; });
    if (target.plain && at.there) {
        uint32_t *to = target.plain + at.word_base;
        patch_each<MAP>([&](int m, int n, int h) INLINED { to[at.word(m, n, h)] = u.pair[m][n][h]; });
    }
    if (!target.masked)
        return;
    typename T::PATCH raw;
    const uint32_t *from = target.raw + at.word_base;
    patch_each<MAP>([&](int m, int n, int h) INLINED { raw.pair[m][n][h] = __ldcg(from + at.word(m, n, h)); });
    patch_each<MAP>([&](int m, int n, int h) INLINED { u.pair[m][n][h] &= positive_mask(x.pair[m][n][h]); });
    if (at.there) {
        uint32_t *to = target.masked + at.word_base;
        patch_each<MAP>([&](int m, int n, int h) INLINED { to[at.word(m, n, h)] = u.pair[m][n][h]; });
    }
    float plain[2 * N], moment[2 * N];
#pragma unroll
    for (int i = 0; i < 2 * N; i++)
        plain[i] = moment[i] = 0;
    patch_each<MAP>([&](int m, int n, int h) INLINED {
        const float2 v = pair_floats(u.pair[m][n][h]), r = pair_floats(raw.pair[m][n][h]);
        plain[2 * n] += v.x;
        plain[2 * n + 1] += v.y;
        moment[2 * n] = fmaf(v.x, r.x, moment[2 * n]);
        moment[2 * n + 1] = fmaf(v.y, r.y, moment[2 * n + 1]);
    });
    sums.plain.add(plain);
    sums.moment.add(moment);
}

template <int C, int SIZE, int ROW>
KERNEL __launch_bounds__(TILE_THREADS, (backward_tile<C, SIZE>::PER_PROCESSOR)) void blend_backward_jobs(
    const __grid_constant__ struct fast_host host, const __grid_constant__ struct seed_set set,
    const __grid_constant__ struct seed_slot slot)
{
    using T = backward_tile<C, SIZE>;
    __shared__ struct seed_work work;
    __shared__ struct blend_target target;
    SHARED_BYTES(shared);
    T tile(shared);
    device_wait();
    const uint32_t jobs = __ldcg(slot.back) * (uint32_t)host.jobs;
    for (uint32_t number = blockIdx.x; number < jobs; number += gridDim.x) {
        seed_work_begin<ROW>(work, host, set, slot, slot.back, number);
        const struct blend &blend = work.blend;
        const bool second = work.job.second; /* for its weight alone: the other one leaves the gradients */
        if (threadIdx.x == 0)
            target = blend_target_of<ROW>(host, set, slot.block, work.job.env); /* seed_begin has a barrier */
        if (blend.blueprint == BLUEPRINT_NOOP && second)
            continue;
        if (blend.blueprint == BLUEPRINT_NOOP && blend.train) /* nothing goes to the seed */
            for (uint32_t k = threadIdx.x; k < slot.record; k += TILE_THREADS)
                work.record[k] = 0;
        seed_of(tile, blend.blueprint, second, [&](auto &seed) INLINED {
            seed_gate<T> gate(tile);
            blend_sums<T> sums;
            gate.w = work.gate;
            gate.clear();
            sums.clear();
            seed_begin(tile, seed, host, work, slot.block);
#pragma unroll 1
            for (int first = work.job.first; first < work.job.end; first += T::IMAGES) {
                typename T::PATCH x, g, u;
                seed_gradient<T, ROW> boundary;
                boundary.load(tile, host, work, first);
                seed_load(x, tile, work, first);
                seed_fetch(tile, host, work, first + T::IMAGES);
                seed.forward(x);
                if (blend.gate)
                    gate.forward(seed.input(x));
                blend_gradients<T, ROW>(tile, seed, gate, blend, x, boundary, g, u);
                if (!second)
                    blend_leave(tile, gate, blend.gate, seed.input(x), g, u,
                                seed_images_at<T>(tile, host, work.job, first), target, sums);
            }
            __syncthreads();
            if (blend.train) {
                seed.finish(work.record);
                if (blend.gate && !second)
                    gate.finish(work.record + slot.seed_storage);
            }
            if (!second && target.masked) {
                __syncthreads();
                sums.write(tile, back_row(host, slot.block, work.job.env, work.job.piece));
            }
        });
    }
}

template <int C, int SIZE, int ROW> static void backward_enqueue(struct net_device *net, const struct seed_slot &slot)
{
    struct runtime *rt = net->context->runtime;
    using T = backward_tile<C, SIZE>;
    struct launch shape = {dim3(seed_grid(net, T::PER_PROCESSOR)), dim3(TILE_THREADS), T::BYTES, true};
    runtime_allow_shared(rt, blend_backward_jobs<C, SIZE, ROW>, T::BYTES);
    runtime_launch(rt, blend_backward_jobs<C, SIZE, ROW>, shape, net->host, net->seeds->set, slot);
}

void seed_blend_backward(struct net_device *net, int block)
{
    for (int row = SLOT_ROWS - 1; row >= 0; row--) {
        if (net->host.block[block].slot[row] < 0)
            continue;
        const struct seed_slot &slot = net->seeds->slot[net->host.block[block].slot[row]];
#define BACKWARD_FORM(C, SIZE, ROW)                                                                                    \
    if (slot.channels == C && slot.size == SIZE && row == ROW)                                                         \
        backward_enqueue<C, SIZE, ROW>(net, slot);
        SEED_FORMS(BACKWARD_FORM)
#undef BACKWARD_FORM
    }
}
