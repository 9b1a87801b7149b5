/* Blended seeds, backward: gradients pass through them. The forward pass is repeated first. */
#ifndef CNN_BF16_SEED_BACKWARD_CUH
#define CNN_BF16_SEED_BACKWARD_CUH

#include "cuda/runtime.cuh"

#include "cnn/bf16/seed_load.cuh"

template <int C, int SIZE> using backward_tile = seed_tile<C, SIZE, seed_images(C, SIZE), (C < 32 ? 4 : 2), WAY_INPUT>;

/* The sums that BatchNorm needs of the gradients that reach it: of g, and of g * raw. */
template <class T> struct blend_sums {
    patch_channels<typename T::MAP> plain, moment;

    DEVICE_MEMBER void clear()
    {
        plain.clear();
        moment.clear();
    }
    DEVICE_MEMBER void leave(T &tile)
    {
        plain.leave(tile.channel_scratch(2));
        moment.leave(tile.channel_scratch(3));
    }
    DEVICE_MEMBER static void gather(const T &tile, float *back)
    {
        patch_channels<typename T::MAP>::gather(tile.channel_scratch(2), back, 2);
        patch_channels<typename T::MAP>::gather(tile.channel_scratch(3), back + T::C, 3);
    }
};

/* From the gradient after the slot to the gradients that reach its input through the seed, u, and directly. */
template <class T, int ROW, class SEED>
DEVICE void blend_gradients(T &tile, SEED &seed, seed_gate<T> &gate, const struct blend &blend,
                            const typename T::PATCH &x, const seed_gradient<T, ROW> &boundary, seed_kept<T, 0> &direct,
                            typename T::PATCH &u)
{
    using MAP = typename T::MAP;
    typename T::PATCH g;
    /* Values needed again are loaded again: registers are scarce. */
    const float amplitude = blend_amplitude(tile, gate, blend);
    if (ROW == 0)
        blend_mix<MAP>(g, seed.input(x), seed.output(x), amplitude, blend.multiply);
    boundary.spread(tile, g, g);
    if (blend.gate) {
        float dq = blend_of_amplitude<MAP>(g, seed.output(x));
        tile.team.template total<1, false>(&dq);
        gate.backward(blend.alpha * dq);
    }
    u = g;
    if (blend.multiply)
        blend_unmix<MAP>(g, u, seed.input(x), seed.output(x), amplitude);
    direct.keep(tile, g);
    seed.backward(x, u, amplitude, blend.train);
}

/* Writes the sum of both to where gradients go. x: the input once more. */
template <class T>
DEVICE void blend_leave(const T &tile, const seed_gate<T> &gate, bool gated, const typename T::PATCH &x,
                        const typename T::PATCH &g, typename T::PATCH &u, const seed_images_at<T> &at,
                        const struct seed_work &work, blend_sums<T> &sums)
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
    if (work.plain && at.there) {
        uint32_t *to = work.plain + at.word_base;
        patch_each<MAP>([&](int m, int n, int h) INLINED { to[at.word(m, n, h)] = u.pair[m][n][h]; });
    }
    if (!work.masked)
        return;
    typename T::PATCH raw;
    const uint32_t *from = (const uint32_t *)work.input.from + at.word_base; /* the input of the ReLU */
    patch_each<MAP>([&](int m, int n, int h) INLINED { raw.pair[m][n][h] = __ldcg(from + at.word(m, n, h)); });
    patch_each<MAP>([&](int m, int n, int h) INLINED { u.pair[m][n][h] &= positive_mask(x.pair[m][n][h]); });
    if (at.there) {
        uint32_t *to = work.masked + at.word_base;
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
    const __grid_constant__ struct fast_host host, const __grid_constant__ struct seed_slot slot)
{
    using T = backward_tile<C, SIZE>;
    __shared__ struct seed_work work;
    SHARED_BYTES(shared);
    const struct seed_cut cut = seed_cut_of(slot.back, host.batch, host.block[slot.block].job_images);
    if (cut.total == 0) { /* return at once: the code below is large and slow to fetch */
        device_wait();
        return;
    }
    T tile(shared);
    uint32_t job = seed_first(T::PER_PROCESSOR);
    while (seed_work_load(work, host, slot, slot.back, cut, job)) {
        const struct blend &blend = work.blend;
        if (blend.blueprint == BLUEPRINT_NOOP && blend.train) /* no gradient reaches the seed */
            for (uint32_t k = threadIdx.x; k < slot.record; k += TILE_THREADS)
                work.record[k] = 0;
        seed_begin(tile, work);
        seed_of(tile, blend.blueprint, [&](auto &seed) INLINED {
            seed_gate<T> gate(tile);
            blend_sums<T> sums;
            gate.w = work.gate;
            gate.clear();
            sums.clear();
            seed.prepare();
            seed.clear();
            device_wait();
            seed_enter(tile, host, work, slot.block);
#pragma unroll 1
            for (int image = work.first; image < work.end; image += T::IMAGES) {
                typename T::PATCH x, u;
                seed_kept<T, 0> direct;
                seed_gradient<T, ROW> boundary;
                seed_load(x, tile, work, image);
                boundary.load(tile, host, work, image);
                seed_fetch(tile, host, work, image + T::IMAGES);
                seed.forward(x);
                if (blend.gate)
                    gate.forward(seed.input(x));
                blend_gradients<T, ROW>(tile, seed, gate, blend, x, boundary, direct, u);
                blend_leave(tile, gate, blend.gate, seed.input(x), direct.get(tile), u,
                            seed_images_at<T>(tile, host, work, image), work, sums);
            }
            job = job_take(slot.back.head + 1, cut.total); /* early: the result takes a while */
            __syncthreads();
            if (blend.train)
                seed.leave();
            if (work.masked)
                sums.leave(tile);
            __syncthreads();
            if (blend.train)
                seed.gather(work.record);
            if (blend.train && blend.gate)
                gate.gather(work.record + slot.seed_storage);
        });
        if (work.masked)
            blend_sums<T>::gather(tile, back_row(host, slot.block, work.env, work.piece));
    }
    device_wait(); /* also without a job: the next kernel waits for these blocks only */
}

template <int C, int SIZE, int ROW>
void seed_form<C, SIZE, ROW>::backward(struct bf16_net *net, const struct seed_slot &slot)
{
    struct runtime *rt = net->runtime;
    using T = backward_tile<C, SIZE>;
    struct launch shape = {dim3(seed_grid(net, slot, T::PER_PROCESSOR)), dim3(TILE_THREADS), T::BYTES, true};
    fast_allow<T::BYTES>(rt, blend_backward_jobs<C, SIZE, ROW>);
    runtime_launch(rt, blend_backward_jobs<C, SIZE, ROW>, shape, net->host, slot);
}

#endif
