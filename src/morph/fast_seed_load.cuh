/* Between the host's buffers and registers: a slot's input, and the gradient at its output. */
#ifndef MORPH_FAST_SEED_LOAD_CUH
#define MORPH_FAST_SEED_LOAD_CUH

#include "morph/fast_seed.cuh"
#include "morph/fast_seed_mix.cuh"

/* BatchNorm's coefficients of the block into the tile. */
template <class T> DEVICE void seed_batch_norm(T &tile, const struct fast_host &host, int block, int env)
{
    if ((int)threadIdx.x < T::C) {
        struct channel_norm norm = block_norm(host, block, env, (int)threadIdx.x);
        tile.bn_scale[threadIdx.x] = norm.scale;
        tile.bn_shift[threadIdx.x] = norm.shift;
    }
}

/* All that a job needs to know. It lies in shared memory: threads have no registers to spare for it. */
struct seed_work {
    struct seed_job job;
    struct blend blend;
    struct seed_input input;
    const uint4 *grad; /* of what leaves the slot */
    float *record;
    const float *w, *gate;
    const uint32_t *packed;
};

/* Job `number` of a slot's list. Between barriers of its own. */
template <int ROW>
DEVICE void seed_work_begin(struct seed_work &work, const struct fast_host &host, const struct seed_set &set,
                            const struct seed_slot &slot, const uint32_t *list, uint32_t number)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        const struct seed_job job = seed_job_of(host, list, number);
        const size_t row = (size_t)job.env * (size_t)host.slots + (size_t)host.block[slot.block].slot[ROW];
        work.job = job;
        work.blend = blend_of(host.exec[row]);
        if (list == slot.leaf) /* of which nothing is in the output */
            work.blend.blueprint = host.exec[row].blueprint;
        work.input = seed_input_of<ROW>(host, set, slot.block, job.env);
        work.grad = seed_grad_of<ROW>(host, set, slot.block, job.env);
        work.record = seed_record(host, slot, job);
        work.w = set.seed + (size_t)job.env * set.seed_size + slot.seed;
        work.gate = set.gate + (size_t)job.env * set.gate_size + slot.gate;
        work.packed = seed_fragments(set, slot, job.env);
    }
    __syncthreads();
}

/* The images first.. of a job, as the threads of a tile share them: where the thread's pairs lie in planes of words. */
template <class T> struct seed_images_at {
    using MAP = typename T::MAP;
    bool there; /* the thread's own image; else another one's place */
    size_t word_base, pooled_base;

    DEVICE_MEMBER seed_images_at(const T &tile, const struct fast_host &host, const struct seed_job &job, int first)
    {
        there = first + tile.at.image < job.end;
        const size_t image = image_at(host, job.env, there ? first + tile.at.image : first);
        word_base = (image * (MAP::PLANES * MAP::AREA) + (size_t)tile.at.pixel_base(tile.at.g)) * 4 + (size_t)tile.at.t;
        pooled_base = (image * (MAP::PLANES * MAP::AREA / 4) + (size_t)tile.at.pooled_base()) * 4 + (size_t)tile.at.t;
    }
    static constexpr DEVICE_MEMBER int word(int m, int n, int h)
    {
        return (n * MAP::AREA + T::PLACE::pixel(m, h)) * 4;
    }
    static constexpr DEVICE_MEMBER int pooled_word(int w, int n)
    {
        return (n * (MAP::AREA / 4) + T::PLACE::pooled(w)) * 4;
    }
};

/* Start fetching the input of images first..: every warp for itself. */
template <class T>
DEVICE void seed_fetch(T &tile, const struct fast_host &host, const struct seed_work &work, int first)
{
    constexpr int M = T::PATCH::M;
    const int lane = tile.at.lane, h = lane / 8 % 2;
    __syncwarp();
    if (first + tile.at.image < work.job.end) {
        const size_t image = image_at(host, work.job.env, first + tile.at.image);
        const uint4 *from = work.input.from + image * (T::MAP::PLANES * T::MAP::AREA) +
                            (size_t)tile.at.pixel_base(lane % 8);
#pragma unroll
        for (int j = 0; j < M * T::PATCH::N / 2; j++) {
            const int k = 2 * j + lane / 16;
            copy_async(tile.stage + (uint32_t)(j * 32 + lane) * 16,
                       from + k / M * T::MAP::AREA + T::PLACE::pixel(k % M, h));
        }
    }
    copy_commit();
}

/* A job begins: empty maps, and what does not depend on its images. Ends with a barrier. */
template <class T, class SEED>
DEVICE void seed_begin(T &tile, SEED &seed, const struct fast_host &host, const struct seed_work &work, int block)
{
    using MAP = typename T::MAP;
    static_assert(tile_grad<T::C>::SCRATCH <= 2 * MAP::BYTES && patch_grad<MAP, MAP>::SCRATCH <= 2 * MAP::BYTES &&
                      tile_depthwise_grad<MAP>::SCRATCH <= 2 * MAP::BYTES,
                  "the job's end will find room in the maps");
    tile.w = work.w;
    tile.packed = work.packed;
    seed_fetch(tile, host, work, work.job.first);
    __syncthreads();
    tile_clear(tile.x, 2 * MAP::BYTES);
    seed_batch_norm(tile, host, block, work.job.env);
    seed.prepare();
    seed.clear();
    __syncthreads();
}

/* The input of images first.. as fetched; images from `end` on are zero. */
template <class T> DEVICE void seed_load(typename T::PATCH &x, T &tile, const struct seed_work &work, int first)
{
    const bool affine = work.input.affine;
    const uint32_t from = tile.stage + (uint32_t)(tile.at.g * 16 + 4 * tile.at.t);
    copy_wait<0>();
    __syncwarp();
    patch_each<typename T::MAP>([&](int m, int n, int h) INLINED {
        x.pair[m][n][h] = load_shared_32(from + (uint32_t)(((n * T::PATCH::M + m) * 2 + h) * 128));
    });
#pragma unroll
    for (int n = 0; n < T::PATCH::N; n++) {
        const float2 a = channel_pair(tile.bn_scale, n), b = channel_pair(tile.bn_shift, n);
#pragma unroll
        for (int m = 0; m < T::PATCH::M; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float2 v = pair_floats(x.pair[m][n][h]);
                if (affine)
                    x.pair[m][n][h] = pack_bf16_relu(fmaf(v.x, a.x, b.x), fmaf(v.y, a.y, b.y));
            }
    }
    if (first + tile.at.image >= work.job.end)
        patch_each<typename T::MAP>([&](int m, int n, int h) INLINED { x.pair[m][n][h] = 0; });
}

/* The gradient after a slot: pooled behind r0, of the same size behind r1. */
template <class T, int ROW> struct seed_gradient {
    uint32_t word[T::PATCH::M][T::PATCH::N][ROW == 0 ? 1 : 2];

    DEVICE_MEMBER void load(const T &tile, const struct fast_host &host, const struct seed_work &work, int first)
    {
        const seed_images_at<T> at(tile, host, work.job, first);
        const uint32_t *from = (const uint32_t *)work.grad + (ROW == 0 ? at.pooled_base : at.word_base);
        patch_each<typename T::MAP>([&](int m, int n, int h) INLINED {
            if (ROW == 1 || h == 0) {
                word[m][n][ROW == 1 ? h : 0] = __ldcg(from + (ROW == 0 ? at.pooled_word(m, n) : at.word(m, n, h)));
                if (!at.there)
                    word[m][n][ROW == 1 ? h : 0] = 0;
            }
        });
    }
    /* Spread over the pixels: behind r0 each window's goes to the first largest of `by`, which `to` may be. */
    DEVICE_MEMBER void spread(typename T::PATCH &to, const typename T::PATCH &by) const
    {
        if constexpr (ROW == 0)
            patch_route<typename T::MAP>(to, by, [&](int w, int n) INLINED { return word[w][n][0]; });
        else
            patch_each<typename T::MAP>([&](int m, int n, int h) INLINED { to.pair[m][n][h] = word[m][n][h]; });
    }
};

#endif
