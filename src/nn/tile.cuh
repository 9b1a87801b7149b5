/*
 * Operations on small feature maps that lie in shared memory, by all threads of a block together.
 *
 * A map holds the bf16 activations of a few images as planes of eight channels, each image with a frame of one zero
 * pixel: [channel / 8][image][y][x], 16 bytes a cell. A tap of a 3x3 convolution is then an address 16 bytes or a row
 * further on, and ldmatrix performs the im2col. Maps of fewer channels are the first planes of wider ones.
 *
 * All sums are fp32, in an order that depends on the map alone.
 *
 * Element-wise passes give every thread its own cells: thread t takes cells of the (image, plane) number t / SHARE, the
 * same in every pass over maps of one size, so that two such passes need no barrier between them.
 */
#ifndef NN_TILE_CUH
#define NN_TILE_CUH

#include "cuda/runtime.cuh"

#include "cuda/warp.cuh"

#define DEVICE_MEMBER __device__ __forceinline__
/* Of lambdas: what they refer to is to stay in registers. */
#define INLINED __attribute__((always_inline))

enum { TILE_WARPS = 8, TILE_THREADS = 32 * TILE_WARPS };

template <int CHANNELS, int SIDE, int COUNT> struct tile_map {
    static constexpr int C = CHANNELS, SIZE = SIDE, IMAGES = COUNT, PLANES = C / 8, PITCH = SIZE + 2;
    static constexpr int CELLS = PITCH * PITCH, AREA = SIZE * SIZE, PIXELS = IMAGES * AREA;
    static constexpr int PLANE_BYTES = IMAGES * CELLS * 16, BYTES = PLANES * PLANE_BYTES;
    static constexpr int UNITS = PLANES * IMAGES, SHARE = TILE_THREADS / UNITS; /* threads that share a unit */
    static constexpr int GROUPS = SHARE > 32 ? SHARE / 32 : 1;                  /* warps that share it */
    static constexpr int PART = UNITS * GROUPS * 16;                            /* floats that tile_sums needs */
    static_assert(C % 8 == 0 && PIXELS % 16 == 0 && UNITS <= TILE_THREADS, "a map of whole tiles");

    /* Byte offset of a cell of plane 0. */
    static DEVICE_MEMBER uint32_t at(int image, int y, int x)
    {
        return (uint32_t)(image * CELLS + (y + 1) * PITCH + x + 1) * 16u;
    }
    /* The same by the number of the pixel among those of all images. */
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

DEVICE void tile_store(uint32_t address, const float v[8])
{
    store_shared_128(address, pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]),
                     pack_bf16(v[6], v[7]));
}

DEVICE void tile_store_relu(uint32_t address, const float v[8])
{
    store_shared_128(address, pack_bf16_relu(v[0], v[1]), pack_bf16_relu(v[2], v[3]), pack_bf16_relu(v[4], v[5]),
                     pack_bf16_relu(v[6], v[7]));
}

/* Coefficients of eight channels, from 32-byte aligned shared memory. */
DEVICE void tile_coefficients(float v[8], const float *from)
{
    float4 a = *(const float4 *)from, b = *(const float4 *)(from + 4);
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}

/* Of each half the larger; all ones where the halves are equal, or the first is greater, else 0. No NANs. */
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

/* The cells of this thread: of one image and plane, numbers rank, rank + SHARE, ... */
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
    /* Channel of the norm's arrays [image][channel] at which the thread's eight begin. */
    DEVICE_MEMBER int channel() const
    {
        return image * MAP::C + 8 * plane;
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

/* The frames of a map alone. */
template <class MAP> DEVICE void tile_clear_frame(uint32_t map)
{
    constexpr int ROUND = 4 * (MAP::SIZE + 1), SIDE = MAP::SIZE + 1;
    for (int i = (int)threadIdx.x; i < ROUND * MAP::UNITS; i += TILE_THREADS) {
        const int k = i % ROUND, unit = i / ROUND, side = k / SIDE, along = k % SIDE; /* units: [plane][image] */
        const int y = side == 0 ? 0 : side == 1 ? SIDE : side == 2 ? along + 1 : along,
                  x = side == 0 ? along : side == 1 ? along + 1 : side == 2 ? 0 : SIDE;
        store_shared_128(map + (uint32_t)((unit * MAP::CELLS + y * MAP::PITCH + x) * 16), 0, 0, 0, 0);
    }
}

/* COUNT values of every lane, summed over lanes that differ in the bits of MASK and below; each lane keeps a part. */
template <int COUNT, int MASK> DEVICE void tile_fold(float *v, int lane)
{
    if constexpr (MASK > 0) {
        if constexpr (COUNT > 1) {
#pragma unroll
            for (int i = 0; i < COUNT / 2; i++) {
                const bool upper = (lane & MASK) != 0;
                float keep = upper ? v[i + COUNT / 2] : v[i], give = upper ? v[i] : v[i + COUNT / 2];
                v[i] = keep + exchange(give, MASK);
            }
            tile_fold<COUNT / 2, MASK / 2>(v, lane);
        } else {
            v[0] += exchange(v[0], MASK);
            tile_fold<1, MASK / 2>(v, lane);
        }
    }
}

/*
 * Two sums per channel of each image: add(cell, v) adds to v[0..7] and v[8..15] for the channels of a cell. Leaves
 * partial sums; after a barrier tile_total gives the sums.
 */
template <class MAP, class F> DEVICE void tile_sums(float *part, F add)
{
    constexpr int LANES_ = MAP::SHARE < 32 ? MAP::SHARE : 32, STEPS = LANES_ < 16 ? LANES_ : 16, LEFT = 16 / STEPS;
    tile_own<MAP> own;
    const int lane = (int)threadIdx.x & 31;
    float v[16];
#pragma unroll
    for (int i = 0; i < 16; i++)
        v[i] = 0;
    own.each([&](uint32_t cell, int) INLINED { add(cell, v); });
    tile_fold<16, LANES_ / 2>(v, lane);
    int first = 0;
#pragma unroll
    for (int mask = LANES_ / 2, count = 16; mask > 0 && count > 1; mask /= 2, count /= 2)
        first += lane & mask ? count / 2 : 0;
    if (own.unit < MAP::UNITS && (LANES_ < 32 || !(lane & 1))) {
        float *to = part + (own.unit * MAP::GROUPS + own.rank / 32) * 16 + first;
#pragma unroll
        for (int i = 0; i < LEFT; i++)
            to[i] = v[i];
    }
}

template <class MAP> DEVICE float tile_total(const float *part, int image, int channel, int which)
{
    const float *from = part + (image * MAP::PLANES + channel / 8) * MAP::GROUPS * 16 + 8 * which + channel % 8;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < MAP::GROUPS; i++)
        sum += from[i * 16];
    return sum;
}

/* ---- GroupNorm --------------------------------------------------------------------------------------------------- */

/* Coefficients of each image, as those of nn/norm.h: arrays [image][channel] in shared memory. */
template <class MAP> struct tile_norm {
    static constexpr int COUNT = MAP::IMAGES * MAP::C, FLOATS = 7 * COUNT;
    static constexpr int GROUP = MAP::C >= 16 ? 16 : 1; /* channels that share their statistics: group_count() */
    static_assert(COUNT <= TILE_THREADS, "a thread per channel and image");
    float *mean, *rstd, *scale, *shift, *gain, *slope, *offset;

    DEVICE_MEMBER tile_norm(float *memory)
        : mean(memory), rstd(memory + COUNT), scale(memory + 2 * COUNT), shift(memory + 3 * COUNT),
          gain(memory + 4 * COUNT), slope(memory + 5 * COUNT), offset(memory + 6 * COUNT)
    {
    }

    /* Statistics of the map z. The map must be complete; ends with a barrier. gamma and beta are shared arrays. */
    DEVICE_MEMBER void forward(uint32_t z, const float *gamma, const float *beta, float *part) const
    {
        tile_sums<MAP>(part, [&](uint32_t cell, float *v) INLINED {
            float x[8];
            tile_load(x, z + cell);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                v[i] += x[i];
                v[8 + i] = fmaf(x[i], x[i], v[8 + i]);
            }
        });
        __syncthreads();
        const int t = (int)threadIdx.x;
        if (t < COUNT) {
            const int image = t / MAP::C, channel = t % MAP::C, first = channel / GROUP * GROUP;
            const float share = 1.0f / (float)(MAP::AREA * GROUP);
            float sum = 0, square = 0;
#pragma unroll
            for (int k = 0; k < GROUP; k++) {
                sum += tile_total<MAP>(part, image, first + k, 0);
                square += tile_total<MAP>(part, image, first + k, 1);
            }
            const float m = sum * share, var = fmaf(-m, m, square * share);
            const float r = rsqrtf((var > 0 ? var : var == var ? 0 : var) + 1e-5f);
            mean[t] = m;
            rstd[t] = r;
            scale[t] = gamma[channel] * r;
            shift[t] = fmaf(-m, gamma[channel] * r, beta[channel]);
        }
        __syncthreads();
    }

    /*
     * From g, the gradient after the norm (and the ReLU, if any), to the coefficients of the one before it; g itself
     * becomes 0 where the ReLU does not pass. Each thread touches its own cells alone. Returns what gamma and beta of
     * the thread's channel and image get. Ends with a barrier.
     */
    DEVICE_MEMBER float2 backward(uint32_t z, uint32_t g, bool relu, const float *gamma, float *part) const
    {
        tile_own<MAP> own;
        const int at = own.unit < MAP::UNITS ? own.channel() : 0;
        float a[8], b[8];
        tile_coefficients(a, scale + at);
        tile_coefficients(b, shift + at);
        tile_sums<MAP>(part, [&](uint32_t cell, float *v) INLINED {
            float x[8], u[8];
            tile_load(x, z + cell);
            tile_load(u, g + cell);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                if (relu)
                    u[i] = fmaf(x[i], a[i], b[i]) > 0 ? u[i] : 0;
                v[i] += u[i];
                v[8 + i] = fmaf(u[i], x[i], v[8 + i]);
            }
            if (relu)
                tile_store(g + cell, u);
        });
        __syncthreads();
        const int t = (int)threadIdx.x;
        float2 own_sums = make_float2(0, 0);
        if (t < COUNT) {
            const int image = t / MAP::C, channel = t % MAP::C, first = channel / GROUP * GROUP;
            const float share = 1.0f / (float)(MAP::AREA * GROUP);
            float mean_v = 0, mean_vx = 0;
#pragma unroll
            for (int k = 0; k < GROUP; k++) {
                const float v = tile_total<MAP>(part, image, first + k, 0);
                const float vx = (tile_total<MAP>(part, image, first + k, 1) - mean[t] * v) * rstd[t];
                mean_v = fmaf(gamma[first + k], v, mean_v);
                mean_vx = fmaf(gamma[first + k], vx, mean_vx);
                if (first + k == channel)
                    own_sums = make_float2(vx, v);
            }
            const float s = rstd[t] * rstd[t] * mean_vx * share;
            gain[t] = gamma[channel] * rstd[t];
            slope[t] = -s;
            offset[t] = fmaf(s, mean[t], -rstd[t] * mean_v * share);
        }
        __syncthreads();
        return own_sums;
    }

    /* g becomes the gradient before the norm. */
    DEVICE_MEMBER void apply_backward(uint32_t z, uint32_t g) const
    {
        tile_own<MAP> own;
        const int at = own.unit < MAP::UNITS ? own.channel() : 0;
        float a[8], b[8], c[8];
        tile_coefficients(a, gain + at);
        tile_coefficients(b, slope + at);
        tile_coefficients(c, offset + at);
        own.each([&](uint32_t cell, int) INLINED {
            float x[8], u[8];
            tile_load(x, z + cell);
            tile_load(u, g + cell);
#pragma unroll
            for (int i = 0; i < 8; i++)
                u[i] = fmaf(u[i], a[i], fmaf(x[i], b[i], c[i]));
            tile_store(g + cell, u);
        });
    }
};

/* Sum over the images of what each thread (image, channel) holds, to out[channel]. scratch: COUNT floats. */
template <class MAP> DEVICE void tile_over_images(float value, float *scratch, float *out)
{
    const int t = (int)threadIdx.x;
    __syncthreads();
    if (t < MAP::IMAGES * MAP::C)
        scratch[t] = value;
    __syncthreads();
    if (t < MAP::C) {
        float sum = 0;
        for (int image = 0; image < MAP::IMAGES; image++)
            sum += scratch[image * MAP::C + t];
        out[t] = sum;
    }
}

#endif
