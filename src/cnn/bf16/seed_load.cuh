/* Between the host's buffers and registers: a slot's input, and the gradient at its output. */
#ifndef CNN_BF16_SEED_LOAD_CUH
#define CNN_BF16_SEED_LOAD_CUH

#include "cnn/bf16/seed.cuh"
#include "cnn/bf16/seed_mix.cuh"

/* BatchNorm's coefficients of the block into the tile, by threads that have no vectors to fetch. Leaf jobs use stored
 * ones: what they are computed from may already be the next batch's. */
template <class T> DEVICE void seed_batch_norm(T &tile, const struct fast_host &host, int block, int env)
{
    const int channel = (int)threadIdx.x - T::VECTOR_THREADS;
    if (channel < 0 || channel >= T::C)
        return;
    if constexpr (T::LEAF) {
        const float *kept = host.block[block].norm + (size_t)env * 2 * T::C + channel;
        tile.bn_scale[channel] = __ldcg(kept);
        tile.bn_shift[channel] = __ldcg(kept + T::C);
    } else {
        const struct channel_norm norm = block_norm(host, block, env, channel);
        tile.bn_scale[channel] = norm.scale;
        tile.bn_shift[channel] = norm.shift;
    }
}

/* A job's description. It is in shared memory: threads have no registers to spare for it. */
struct seed_work : seed_entry {
    int piece, first, end; /* images of the batch */
    bool more;
};

/* A list cut into jobs: images of each, jobs of a batch, and of all entries together. */
struct seed_cut {
    uint32_t images, jobs, total;
};

DEVICE struct seed_cut seed_cut_of(const struct seed_list &list, int batch, int images)
{
    struct seed_cut cut;
    cut.images = (uint32_t)images;
    cut.jobs = (uint32_t)((batch + images - 1) / images);
    cut.total = __ldcg(list.head) * cut.jobs;
    return cut;
}

/*
 * Loads job `mine` of a list, whose index the first thread knows; false where there is no such job. Has its own
 * barriers before and after.
 */
DEVICE bool seed_work_load(struct seed_work &work, const struct fast_host &host, const struct seed_slot &slot,
                           const struct seed_list &list, const struct seed_cut &cut, uint32_t mine)
{
    const uint32_t lane = threadIdx.x, jobs = cut.total;
    __syncthreads();
    if (lane < 32) {
        const uint32_t number = __shfl_sync(~0u, mine, 0), entry = number / cut.jobs, piece = number % cut.jobs;
        if (number < jobs && lane < sizeof(struct seed_entry) / 4)
            ((uint32_t *)(struct seed_entry *)&work)[lane] = __ldcg((const uint32_t *)(list.entry + entry) + lane);
        __syncwarp();
        if (lane == 0) {
            const uint32_t end = (piece + 1) * cut.images;
            work.more = number < jobs;
            work.piece = (int)piece;
            work.first = (int)(piece * cut.images);
            work.end = end < (uint32_t)host.batch ? (int)end : host.batch;
            work.record += (size_t)piece * slot.record;
        }
    }
    __syncthreads();
    return work.more;
}

/* The images first.. of a job, as the threads of a tile share them: positions of the thread's pairs in planes of
 * words. */
template <class T> struct seed_images_at {
    using MAP = typename T::MAP;
    bool there; /* the thread has an image; otherwise the addresses are those of another */
    size_t word_base, pooled_base;

    DEVICE_MEMBER seed_images_at(const T &tile, const struct fast_host &host, const struct seed_work &work, int first)
    {
        there = first + tile.at.image < work.end;
        const size_t image = image_at(host, work.env, there ? first + tile.at.image : first);
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

/* Start fetching the input of images first..: every warp on its own. */
template <class T>
DEVICE void seed_fetch(T &tile, const struct fast_host &host, const struct seed_work &work, int first)
{
    constexpr int M = T::PATCH::M;
    const int lane = tile.at.lane, h = lane / 8 % 2;
    __syncwarp();
    if (first + tile.at.image < work.end) {
        const size_t image = image_at(host, work.env, first + tile.at.image);
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

/*
 * A job begins in three steps: first what depends on neither the blueprint nor the output of other kernels of this
 * batch; then seed.prepare(); then, when that output is complete, the rest, which ends with a barrier.
 */
template <class T> DEVICE void seed_begin(T &tile, const struct seed_work &work)
{
    using MAP = typename T::MAP;
    static_assert(tile_grad<T::C>::SCRATCH <= T::SCRATCH && patch_grad<MAP, MAP>::SCRATCH <= T::SCRATCH,
                  "the job's end will find room");
    tile.w = work.w;
    tile.packed = work.packed;
    tile_clear(tile.x, 2 * MAP::BYTES);
}

template <class T>
DEVICE void seed_enter(T &tile, const struct fast_host &host, const struct seed_work &work, int block)
{
    seed_fetch(tile, host, work, work.first);
    seed_batch_norm(tile, host, block, work.env);
    copy_wait<0>();
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
    if (first + tile.at.image >= work.end)
        patch_each<typename T::MAP>([&](int m, int n, int h) INLINED { x.pair[m][n][h] = 0; });
}

/*
 * The gradient after a slot: pooled after r0, of the same size after r1. It is stored where the tile later keeps its
 * first patch, or in registers.
 */
template <class T, int ROW> struct seed_gradient {
    using KEPT = seed_kept<T, 0>;
    uint32_t word[T::PATCH::M][T::PATCH::N][ROW == 0 ? 1 : 2];
    bool there;

    /* Starts loading; complete once the input fetched next is. */
    DEVICE_MEMBER void load(const T &tile, const struct fast_host &host, const struct seed_work &work, int first)
    {
        const seed_images_at<T> at(tile, host, work, first);
        const uint32_t *from = (const uint32_t *)work.grad + (ROW == 0 ? at.pooled_base : at.word_base);
        there = at.there;
        patch_each<typename T::MAP>([&](int m, int n, int h) INLINED {
            const uint32_t *one = from + (ROW == 0 ? at.pooled_word(m, n) : at.word(m, n, h));
            if (ROW == 0 && h > 0)
                return;
            if constexpr (KEPT::IN_MEMORY)
                copy_async_4(KEPT::at(tile, m, n, h), one);
            else
                word[m][n][h] = __ldcg(one);
        });
    }
    DEVICE_MEMBER uint32_t get(const T &tile, int m, int n, int h) const
    {
        uint32_t v;
        if constexpr (KEPT::IN_MEMORY)
            v = load_shared_32(KEPT::at(tile, m, n, h));
        else
            v = word[m][n][h];
        return there ? v : 0;
    }
    /* Spread over the pixels: after r0, each window's gradient goes to the first largest value of `by`, which may be
     * `to`. */
    DEVICE_MEMBER void spread(const T &tile, typename T::PATCH &to, const typename T::PATCH &by) const
    {
        if constexpr (KEPT::IN_MEMORY)
            copy_wait<0>();
        if constexpr (ROW == 0)
            patch_route<typename T::MAP>(to, by, [&](int w, int n) INLINED { return get(tile, w, n, 0); });
        else
            patch_each<typename T::MAP>([&](int m, int n, int h) INLINED { to.pair[m][n][h] = get(tile, m, n, h); });
    }
};

#endif
