/*
 * Operations on small feature maps in shared memory, by all threads of a block together.
 *
 * A map holds the bf16 activations of a few images as planes of eight channels, each image with a frame of one zero
 * pixel: [channel / 8][image][y][x], 16 bytes per cell. A tap of a 3x3 convolution is then an address 16 bytes or a row
 * further on, and ldmatrix performs the im2col. Maps of fewer channels are the first planes of wider ones.
 *
 * All sums are fp32, in an order that depends on the map alone.
 *
 * Element-wise passes give every thread its own cells: thread t takes cells of (image, plane) pair t / SHARE, the same
 * in every pass over maps of one size, so that two such passes need no barrier between them.
 */
#ifndef NN_TILE_CUH
#define NN_TILE_CUH

#include "cuda/runtime.cuh"

#include "cuda/warp.cuh"

#define DEVICE_MEMBER __device__ __forceinline__
/* For lambdas, so that what they capture stays in registers. */
#define INLINED __attribute__((always_inline))

enum { TILE_WARPS = 8, TILE_THREADS = 32 * TILE_WARPS };

template <int CHANNELS, int SIDE, int COUNT> struct tile_map {
    static constexpr int C = CHANNELS, SIZE = SIDE, IMAGES = COUNT, PLANES = C / 8, PITCH = SIZE + 2;
    static constexpr int CELLS = PITCH * PITCH, AREA = SIZE * SIZE, PIXELS = IMAGES * AREA;
    static constexpr int PLANE_BYTES = IMAGES * CELLS * 16, BYTES = PLANES * PLANE_BYTES;
    static constexpr int UNITS = PLANES * IMAGES, SHARE = TILE_THREADS / UNITS; /* threads that share a unit */
    static_assert(C % 8 == 0 && PIXELS % 16 == 0 && UNITS <= TILE_THREADS, "a map of whole tiles");

    /* Byte offset of a cell of plane 0. */
    static DEVICE_MEMBER uint32_t at(int image, int y, int x)
    {
        return (uint32_t)(image * CELLS + (y + 1) * PITCH + x + 1) * 16u;
    }
    /* The same by the index of the pixel among those of all images. */
    static DEVICE_MEMBER uint32_t at_pixel(int pixel)
    {
        return at(pixel / AREA, pixel % AREA / SIZE, pixel % SIZE);
    }
};

/* ---- eight channels ---------------------------------------------------------------------------------------------- */

DEVICE void tile_unpack(float v[8], const uint32_t r[4])
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[2 * i] = bf16_lo(r[i]);
        v[2 * i + 1] = bf16_hi(r[i]);
    }
}

DEVICE void tile_load(float v[8], uint32_t address)
{
    uint32_t r[4];
    load_shared_128(r, address);
    tile_unpack(v, r);
}

/* For each half: the larger; all ones where the two are equal, else 0; the same where the first is greater. No NANs. */
#if !defined EMULATE && __CUDA_ARCH__ >= 900
DEVICE uint32_t pair_max(uint32_t a, uint32_t b)
{
    uint32_t r;
    asm("max.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
DEVICE uint32_t pair_equal(uint32_t a, uint32_t b)
{
    uint32_t r;
    asm("set.eq.u32.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
DEVICE uint32_t pair_greater(uint32_t a, uint32_t b)
{
    uint32_t r;
    asm("set.gt.u32.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
#else
DEVICE uint32_t pair_max(uint32_t a, uint32_t b)
{
    return (bf16_lo(a) >= bf16_lo(b) ? a & 0xffffu : b & 0xffffu) |
           (bf16_hi(a) >= bf16_hi(b) ? a & 0xffff0000u : b & 0xffff0000u);
}
DEVICE uint32_t pair_equal(uint32_t a, uint32_t b)
{
    return (bf16_lo(a) == bf16_lo(b) ? 0xffffu : 0) | (bf16_hi(a) == bf16_hi(b) ? 0xffff0000u : 0);
}
DEVICE uint32_t pair_greater(uint32_t a, uint32_t b)
{
    return (bf16_lo(a) > bf16_lo(b) ? 0xffffu : 0) | (bf16_hi(a) > bf16_hi(b) ? 0xffff0000u : 0);
}
#endif

/* ---- passes over a map ------------------------------------------------------------------------------------------- */

/* This thread's cells: of one image and plane, numbers rank, rank + SHARE, ... */
template <class MAP> struct tile_own {
    int unit, image, plane, rank;
    uint32_t base; /* of the plane */

    DEVICE_MEMBER tile_own()
    {
        unit = (int)threadIdx.x / MAP::SHARE;
        rank = (int)threadIdx.x % MAP::SHARE;
        image = unit / MAP::PLANES;
        plane = unit % MAP::PLANES;
        base = (uint32_t)(plane * MAP::PLANE_BYTES);
    }
    DEVICE_MEMBER uint32_t cell(int pixel) const
    {
        return base + MAP::at(image, pixel / MAP::SIZE, pixel % MAP::SIZE);
    }
    template <class F> DEVICE_MEMBER void each(F f) const
    {
        if (unit < MAP::UNITS) {
#pragma unroll 2
            for (int p = rank; p < MAP::AREA; p += MAP::SHARE)
                f(cell(p), p);
        }
    }
    /* 2x2 windows: their number, the cell of their first pixel. The other three are +16, +PITCH * 16, both. */
    template <class F> DEVICE_MEMBER void each_window(F f) const
    {
        constexpr int HALF = MAP::SIZE / 2;
        if (unit < MAP::UNITS) {
            for (int w = rank; w < HALF * HALF; w += MAP::SHARE)
                f(base + MAP::at(image, w / HALF * 2, w % HALF * 2), w);
        }
    }
};

DEVICE void tile_clear(uint32_t from, int bytes)
{
    for (int i = (int)threadIdx.x * 16; i < bytes; i += TILE_THREADS * 16)
        store_shared_128(from + (uint32_t)i, 0, 0, 0, 0);
}

/* Clear only the frames of a map. */
template <class MAP> DEVICE void tile_clear_frame(uint32_t map)
{
    constexpr int ROUND = 4 * (MAP::SIZE + 1), SIDE = MAP::SIZE + 1;
    for (int i = (int)threadIdx.x; i < ROUND * MAP::UNITS; i += TILE_THREADS) {
        const int k = i % ROUND, unit = i / ROUND, side = k / SIDE, along = k % SIDE; /* units: [plane][image] */
        const int y = side == 0   ? 0
                      : side == 1 ? SIDE
                      : side == 2 ? along + 1
                                  : along,
                  x = side == 0   ? along
                      : side == 1 ? along + 1
                      : side == 2 ? 0
                                  : SIDE;
        store_shared_128(map + (uint32_t)((unit * MAP::CELLS + y * MAP::PITCH + x) * 16), 0, 0, 0, 0);
    }
}

#endif
