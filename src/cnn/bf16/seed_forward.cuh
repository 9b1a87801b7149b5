/* Blended seeds, forward: they are on the host's path. Only the output is kept. */
#ifndef CNN_BF16_SEED_FORWARD_CUH
#define CNN_BF16_SEED_FORWARD_CUH

#include "cuda/runtime.cuh"

#include "cnn/bf16/seed_load.cuh"

template <int C, int SIZE> using forward_tile = seed_tile<C, SIZE, seed_images(C, SIZE), 2, WAY_FORWARD>;

/* Writes y, pooled for r0, to where the slot's output goes. */
template <class T, int ROW>
DEVICE void blend_write(const typename T::PATCH &y, const T &tile, const seed_images_at<T> &at, uint4 *planes)
{
    uint32_t *to = (uint32_t *)planes + (ROW == 0 ? at.pooled_base : at.word_base);
    if constexpr (ROW == 0) {
        const bool odd = tile.at.g & 1; /* of two lanes with the same windows, each writes one */
        to += odd ? 16 : 0;             /* the next window is four pixels on, in every form */
#pragma unroll
        for (int n = 0; n < T::PATCH::N; n++)
#pragma unroll
            for (int w = 0; w < T::PATCH::M; w += 2) {
                const uint32_t most = patch_window_max(y, w, n), next = patch_window_max(y, w + 1, n);
                if (at.there)
                    to[at.pooled_word(w, n)] = odd ? next : most;
            }
    } else {
        patch_each<typename T::MAP>([&](int m, int n, int h) INLINED {
            if (at.there)
                to[at.word(m, n, h)] = y.pair[m][n][h];
        });
    }
}

template <int C, int SIZE, int ROW>
KERNEL __launch_bounds__(TILE_THREADS, (forward_tile<C, SIZE>::PER_PROCESSOR)) void blend_forward_jobs(
    const __grid_constant__ struct fast_host host, const __grid_constant__ struct seed_slot slot)
{
    using T = forward_tile<C, SIZE>;
    using PATCH = typename T::PATCH;
    __shared__ struct seed_work work;
    SHARED_BYTES(shared);
    /* Nothing is summed over a job, so its size may depend on how many there are. */
    constexpr int FEW = T::IMAGES > 4 ? T::IMAGES : 4;
    struct seed_cut cut = seed_cut_of(slot.blend, host.batch, FEW);
    if (cut.total > 2 * gridDim.x)
        cut = seed_cut_of(slot.blend, host.batch, 8);
    if (cut.total == 0) { /* return at once: the code below is large and slow to fetch */
        device_wait();
        return;
    }
    T tile(shared);
    uint32_t job = seed_first(T::PER_PROCESSOR);
    while (seed_work_load(work, host, slot, slot.blend, cut, job)) {
        seed_begin(tile, work);
        seed_of(tile, work.blend.blueprint, [&](auto &seed) INLINED {
            seed_gate<T> gate(tile);
            gate.w = work.gate;
            seed.prepare();
            seed.clear();
            device_wait();
            seed_enter(tile, host, work, slot.block);
#pragma unroll 1
            for (int image = work.first; image < work.end; image += T::IMAGES) {
                const seed_images_at<T> at(tile, host, work, image);
                PATCH x;
                seed_load(x, tile, work, image);
                seed_fetch(tile, host, work, image + T::IMAGES);
                seed.forward(x);
                if (work.blend.gate)
                    gate.forward(x);
                PATCH y = seed.output(x);
                blend_mix<typename T::MAP>(y, x, y, blend_amplitude(tile, gate, work.blend), work.blend.multiply);
                blend_write<T, ROW>(y, tile, at, work.out);
                if (work.also)
                    blend_write<T, ROW>(y, tile, at, work.also);
            }
        });
        job = job_take(slot.blend.head + 1, cut.total);
    }
    device_wait(); /* also without a job: the next kernel waits for these blocks only */
}

template <int C, int SIZE, int ROW>
void seed_form<C, SIZE, ROW>::forward(struct bf16_net *net, const struct seed_slot &slot)
{
    struct runtime *rt = net->runtime;
    using T = forward_tile<C, SIZE>;
    struct launch shape = {dim3(seed_grid(net, slot, T::PER_PROCESSOR)), dim3(TILE_THREADS), T::BYTES, true};
    fast_allow<T::BYTES>(rt, blend_forward_jobs<C, SIZE, ROW>);
    runtime_launch(rt, blend_forward_jobs<C, SIZE, ROW>, shape, net->host, slot);
}

#endif
