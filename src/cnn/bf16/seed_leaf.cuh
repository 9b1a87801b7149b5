/* Seeds in TRAINING: forward and backward on the gradient at their boundary; the host is not affected (I-24). */
#ifndef CNN_BF16_SEED_LEAF_CUH
#define CNN_BF16_SEED_LEAF_CUH

#include "cuda/runtime.cuh"

#include "cnn/bf16/seed_load.cuh"

template <int C, int SIZE> using leaf_tile = seed_tile<C, SIZE, seed_images(C, SIZE), (C < 32 ? 4 : 2), WAY_PARAMETERS>;

template <int C, int SIZE, int ROW>
KERNEL __launch_bounds__(TILE_THREADS, (leaf_tile<C, SIZE>::PER_PROCESSOR)) void leaf_jobs(
    const __grid_constant__ struct fast_host host, const __grid_constant__ struct seed_slot slot)
{
    using T = leaf_tile<C, SIZE>;
    __shared__ struct seed_work work;
    SHARED_BYTES(shared);
    const struct seed_cut cut = seed_cut_of(slot.leaf, host.batch, LEAF_IMAGES);
    if (cut.total == 0) { /* return at once: the code below is large and slow to fetch */
        device_wait();
        return;
    }
    T tile(shared);
    uint32_t job = seed_first(T::PER_PROCESSOR);
    while (seed_work_load(work, host, slot, slot.leaf, cut, job)) {
        seed_begin(tile, work);
        seed_of(tile, work.blend.blueprint, [&](auto &seed) INLINED {
            seed.prepare();
            seed.clear();
            device_wait();
            seed_enter(tile, host, work, slot.block);
#pragma unroll 1
            for (int image = work.first; image < work.end; image += T::IMAGES) {
                typename T::PATCH x, u;
                seed_gradient<T, ROW> boundary;
                boundary.load(tile, host, work, image);
                seed_load(x, tile, work, image);
                seed_fetch(tile, host, work, image + T::IMAGES);
                seed.forward(x);
                boundary.spread(tile, u, seed.input(x));
                seed.backward(x, u, 1.0f, true);
            }
            job = job_take(slot.leaf.head + 1, cut.total); /* early: the result takes a while */
            __syncthreads();
            seed.leave();
            __syncthreads();
            seed.gather(work.record);
        });
    }
    device_wait(); /* also without a job: the next kernel waits for these blocks only */
}

template <int C, int SIZE, int ROW>
void seed_form<C, SIZE, ROW>::leaf(struct bf16_net *net, const struct seed_slot &slot)
{
    struct runtime *rt = net->runtime;
    constexpr size_t shared = leaf_tile<C, SIZE>::BYTES;
    struct launch shape = {dim3(seed_grid(net, slot, leaf_tile<C, SIZE>::PER_PROCESSOR)), dim3(TILE_THREADS), shared,
                           true};
    fast_allow<shared>(rt, leaf_jobs<C, SIZE, ROW>);
    runtime_launch(rt, leaf_jobs<C, SIZE, ROW>, shape, net->host, slot);
}

#endif
