/* From the host's buffers into a tile: the input of a slot, and the gradient at its output. */
#ifndef MORPH_FAST_SEED_LOAD_CUH
#define MORPH_FAST_SEED_LOAD_CUH

#include "morph/fast_seed.cuh"
#include "nn/tile.cuh"

/* BatchNorm's coefficients of the block into the tile. */
template <class T> DEVICE void seed_batch_norm(T &tile, const struct fast_host &host, int block, int env)
{
    if ((int)threadIdx.x < T::C) {
        struct channel_norm norm = block_norm(host, block, env, (int)threadIdx.x);
        tile.bn_scale[threadIdx.x] = norm.scale;
        tile.bn_shift[threadIdx.x] = norm.shift;
    }
}

/* What a thread reads of the input: its own cells, at from[pixel]. */
template <class T> struct seed_source {
    using MAP = typename T::MAP;
    tile_own<MAP> own;
    const uint4 *from;
    bool there;

    DEVICE_MEMBER seed_source(const struct fast_host &host, const uint4 *planes, int env, int first, int end)
    {
        there = first + own.image < end;
        from =
            plane_at(planes, MAP::C, MAP::AREA, image_at(host, env, there ? first + own.image : first), own.plane, 0);
    }
};

/* Start fetching the input of images first.., if there is a stage to fetch them to. */
template <class T>
DEVICE void seed_fetch(T &tile, const struct fast_host &host, const struct seed_input &input, int env, int first,
                       int end)
{
    using MAP = typename T::MAP;
    if (!T::STAGED || first >= end)
        return;
    seed_source<T> source(host, input.from, env, first, end);
    for (int p = source.own.rank; source.there && p < MAP::AREA; p += MAP::SHARE)
        copy_async(tile.stage + (uint32_t)(source.own.unit * MAP::AREA + p) * 16, source.from + p);
    copy_commit();
}

/* The input of images first.. of the env (as fetched) into x; images from `end` on are zero. */
template <class T>
DEVICE void seed_load(T &tile, const struct fast_host &host, const struct seed_input &input, int env, int first,
                      int end)
{
    using MAP = typename T::MAP;
    seed_source<T> source(host, input.from, env, first, end);
    float a[8], b[8];
    tile_coefficients(a, tile.bn_scale + 8 * source.own.plane);
    tile_coefficients(b, tile.bn_shift + 8 * source.own.plane);
    if (T::STAGED)
        copy_wait<0>();
    source.own.each([&](uint32_t cell, int p) INLINED {
        uint32_t r[4] = {0, 0, 0, 0};
        if (source.there && T::STAGED) {
            load_shared_128(r, tile.stage + (uint32_t)(source.own.unit * MAP::AREA + p) * 16);
        } else if (source.there) {
            const uint4 v = __ldcg(source.from + p);
            r[0] = v.x, r[1] = v.y, r[2] = v.z, r[3] = v.w;
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (source.there && input.affine)
                r[i] = pack_bf16_relu(fmaf(bf16_lo(r[i]), a[2 * i], b[2 * i]),
                                      fmaf(bf16_hi(r[i]), a[2 * i + 1], b[2 * i + 1]));
        store_shared_128(tile.x + cell, r[0], r[1], r[2], r[3]);
    });
}

/* A map's gradient of the same size, as it is. */
template <class T>
DEVICE void seed_load_grad(uint32_t to, const struct fast_host &host, const uint4 *grad, int env, int first, int end)
{
    seed_source<T> source(host, grad, env, first, end);
    source.own.each([&](uint32_t cell, int p) INLINED {
        const uint4 r = source.there ? __ldcg(source.from + p) : make_uint4(0, 0, 0, 0);
        store_shared_128(to + cell, r.x, r.y, r.z, r.w);
    });
}

/* The pooled gradient, to the first largest value of each window of the map `by`. `to` may be `by`. */
template <class T>
DEVICE void seed_route_grad(uint32_t to, uint32_t by, const struct fast_host &host, const uint4 *grad, int env,
                            int first, int end)
{
    using MAP = typename T::MAP;
    tile_own<MAP> own;
    const bool there = first + own.image < end;
    const uint4 *from = plane_at(grad, MAP::C, MAP::AREA / 4, image_at(host, env, first + own.image), own.plane, 0);
    constexpr uint32_t ROW = MAP::PITCH * 16;
    own.each_window([&](uint32_t cell, int w) INLINED {
        const uint4 got = there ? __ldcg(from + w) : make_uint4(0, 0, 0, 0);
        const uint32_t g[4] = {got.x, got.y, got.z, got.w};
        uint32_t v[4][4], u[4][4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            load_shared_128(v[k], by + cell + (uint32_t)(k & 1) * 16 + (uint32_t)(k >> 1) * ROW);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t most = pair_max(pair_max(v[0][i], v[1][i]), pair_max(v[2][i], v[3][i]));
            const uint32_t e0 = pair_equal(v[0][i], most), e1 = pair_equal(v[1][i], most) & ~e0;
            const uint32_t e2 = pair_equal(v[2][i], most) & ~(e0 | e1), e3 = ~(e0 | e1 | e2);
            u[0][i] = g[i] & e0;
            u[1][i] = g[i] & e1;
            u[2][i] = g[i] & e2;
            u[3][i] = g[i] & e3;
        }
#pragma unroll
        for (int k = 0; k < 4; k++)
            store_shared_128(to + cell + (uint32_t)(k & 1) * 16 + (uint32_t)(k >> 1) * ROW, u[k][0], u[k][1], u[k][2],
                             u[k][3]);
    });
}

#endif
