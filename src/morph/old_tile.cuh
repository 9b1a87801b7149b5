/* The shared memory in which a seed works on a few images (old_kinds.cuh), and where its parameters lie. */
#ifndef MORPH_OLD_SEED_TILE_CUH
#define MORPH_OLD_SEED_TILE_CUH

#include "nn/tile_conv.cuh"

extern "C" {
#include "morph/blueprint.h"
}

constexpr int layout_aligned(int count)
{
    return (count + LAYOUT_ALIGN - 1) / LAYOUT_ALIGN * LAYOUT_ALIGN;
}

/* Where tensors begin in a slot's parameters: blueprint_layout as constants (checked when the network is created). */
template <int C> struct seed_offsets {
    static constexpr int NECK = C / 4 > 8 ? C / 4 : 8, SQUEEZE = C / 4 > 1 ? C / 4 : 1, VECTOR = layout_aligned(C);
    static constexpr int CONV3 = layout_aligned(9 * C * C), CONV1 = layout_aligned(C * C);
    static constexpr int HEAVY_2 = CONV3 + 2 * VECTOR;                      /* second weight */
    static constexpr int PW = layout_aligned(9 * C), PW_GAMMA = PW + CONV1; /* depthwise */
    static constexpr int NECK_3 = layout_aligned(NECK * C),
                         UP = NECK_3 + layout_aligned(9 * NECK * NECK); /* bottleneck */
    static constexpr int UP_GAMMA = UP + layout_aligned(C * NECK);
    static constexpr int SE_2 = layout_aligned(SQUEEZE * C), SE_BIAS = SE_2 + layout_aligned(C * SQUEEZE);
    static constexpr int GATE_B1 = layout_aligned(NECK * C), GATE_W2 = GATE_B1 + layout_aligned(NECK);
    static constexpr int GATE_B2 = GATE_W2 + layout_aligned(NECK), GATE_STORAGE = GATE_B2 + LAYOUT_ALIGN;
};

/*
 * The shared memory of a block of threads at work: MAPS maps, room for the fragments of CONVS 3x3 convolutions, small
 * arrays. DEEPER: gradients go on to the seed's input.
 */
template <int CHANNELS, int SIDE, int COUNT, int MAPS, int CONVS_, bool DEEPER_> struct seed_tile {
    using MAP = tile_map<CHANNELS, SIDE, COUNT>;
    using AT = seed_offsets<CHANNELS>;
    static constexpr int C = CHANNELS, IMAGES = COUNT, NECK = AT::NECK, CONVS = CONVS_;
    static constexpr bool DEEPER = DEEPER_;
    using NECK_MAP = tile_map<NECK, SIDE, COUNT>;
    using NORM = tile_norm<MAP>;

    static constexpr int CONV_BYTES = tile_weight_bytes<9, C, C>();
    static constexpr int SMALL = 4 * IMAGES * C, GATE = 5 * IMAGES * C; /* floats of the small nets */
    static constexpr int FLOATS = 2 * NORM::FLOATS + MAP::PART + 15 * C + SMALL + GATE;
    static constexpr int HELD = MAPS * MAP::BYTES + CONVS * CONV_BYTES + FLOATS * 4, ROOM = 112 * 1024;
    /* The next images are fetched in the meantime, where that leaves room for two blocks on a processor. */
    static constexpr bool STAGED = HELD + MAP::PIXELS * C * 2 <= ROOM;
    static constexpr int BYTES = HELD + (STAGED ? MAP::PIXELS * C * 2 : 0), PER_PROCESSOR = BYTES <= ROOM ? 2 : 1;

    uint32_t x, b0, b1, b2, extra; /* maps; `extra` is the fifth */
    uint32_t weights;
    float *norms[2], *part;
    float *vectors; /* gamma, beta of both norms; then BatchNorm's scale and shift; then depthwise weights [9][C] */
    float *bn_scale, *bn_shift;
    float *depthwise;
    float *small, *gate; /* arrays of the squeeze-and-excite net, of the gate net */
    float *scratch;      /* the maps' memory from b0 on, when a job ends */
    uint32_t stage;      /* images to come, as they lie in memory; each thread reads what it fetched */
    const float *w;      /* the seed's parameters */

    /* Everything in a row. */
    DEVICE_MEMBER seed_tile(unsigned char *shared)
        : seed_tile(shared, shared + MAP::BYTES, shared + MAPS * MAP::BYTES,
                    shared + MAPS * MAP::BYTES + CONVS * CONV_BYTES)
    {
    }
    /* Input, other maps, fragments and small arrays each in its own place. */
    DEVICE_MEMBER seed_tile(unsigned char *input, unsigned char *maps, unsigned char *fragments_, unsigned char *floats)
    {
        x = smem(input);
        b0 = smem(maps);
        b1 = b0 + MAP::BYTES;
        b2 = b1 + MAP::BYTES;
        extra = b2 + MAP::BYTES;
        weights = smem(fragments_);
        scratch = (float *)maps;
        norms[0] = (float *)floats;
        norms[1] = norms[0] + NORM::FLOATS;
        part = norms[1] + NORM::FLOATS;
        vectors = part + MAP::PART;
        bn_scale = vectors + 4 * C;
        bn_shift = vectors + 5 * C;
        depthwise = vectors + 6 * C;
        small = vectors + 15 * C;
        gate = small + SMALL;
        stage = smem(gate + GATE);
        w = nullptr;
    }

    DEVICE_MEMBER void vector(int to, int offset) const
    {
        if ((int)threadIdx.x < C)
            vectors[to * C + (int)threadIdx.x] = w[offset + (int)threadIdx.x];
    }

    /*
     * Fragments of a seed that needs NEEDED of them: number `place`, loaded once a job where there is room for all,
     * else where they are used.
     */
    template <int NEEDED, int TAPS, int IN, int OUT, bool BACK> DEVICE_MEMBER void load(int place, int offset) const
    {
        if constexpr (NEEDED <= CONVS)
            tile_weights<TAPS, IN, OUT, BACK>(weights + (uint32_t)(place * CONV_BYTES), w + offset);
    }
    template <int NEEDED, int TAPS, int IN, int OUT, bool BACK>
    DEVICE_MEMBER uint32_t fragments(int place, int offset) const
    {
        if constexpr (NEEDED <= CONVS) {
            return weights + (uint32_t)(place * CONV_BYTES);
        } else {
            __syncthreads();
            tile_weights<TAPS, IN, OUT, BACK>(weights, w + offset);
            __syncthreads();
            return weights;
        }
    }

    /* g becomes 0 where the map `by` is not positive. Own cells. */
    template <class M> DEVICE_MEMBER void mask(uint32_t g, uint32_t by) const
    {
        tile_own<M> own;
        own.each([&](uint32_t cell, int) INLINED {
            float u[8], v[8];
            tile_load(u, g + cell);
            tile_load(v, by + cell);
#pragma unroll
            for (int i = 0; i < 8; i++)
                u[i] = v[i] > 0 ? u[i] : 0;
            tile_store(g + cell, u);
        });
    }

    /* Mean over the pixels of each image's channels, to out [image][channel]. Ends with a barrier. */
    DEVICE_MEMBER void means(uint32_t map, float *out) const
    {
        tile_sums<MAP>(part, [&](uint32_t cell, float *v) INLINED {
            float u[8];
            tile_load(u, map + cell);
#pragma unroll
            for (int i = 0; i < 8; i++)
                v[i] += u[i];
        });
        __syncthreads();
        const int t = (int)threadIdx.x;
        if (t < IMAGES * C)
            out[t] = tile_total<MAP>(part, t / C, t % C, 0) * (1.0f / (float)MAP::AREA);
        __syncthreads();
    }
};

#endif
