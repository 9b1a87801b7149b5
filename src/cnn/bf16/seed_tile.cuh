/* The shared memory in which a seed works on a few images (seed_kinds.cuh), and the offsets of its parameters. */
#ifndef CNN_BF16_SEED_TILE_CUH
#define CNN_BF16_SEED_TILE_CUH

#include "nn/patch_conv.cuh"

extern "C" {
#include "cnn/blueprint.h"
}

constexpr int layout_aligned(int count)
{
    return (count + LAYOUT_ALIGN - 1) / LAYOUT_ALIGN * LAYOUT_ALIGN;
}

constexpr int most(int a, int b)
{
    return a > b ? a : b;
}

/* Where tensors begin in a slot's parameters: blueprint_layout as constants. */
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
    static constexpr int GATE_B2 = GATE_W2 + layout_aligned(NECK);
};

/* How far a pass goes: to the seeds' output, back to their parameters, back to their input. */
enum seed_way { WAY_FORWARD, WAY_PARAMETERS, WAY_INPUT };

/*
 * The shared memory of a thread block: two maps, room for the fragments of CONVS 3x3 convolutions, small arrays, and
 * the next input.
 */
template <int CHANNELS, int SIDE, int COUNT, int CONVS_, seed_way WAY> struct seed_tile {
    using MAP = tile_map<CHANNELS, SIDE, COUNT>;
    using AT = seed_offsets<CHANNELS>;
    using PATCH = patch<MAP>;
    using PLACE = patch_place<MAP>;
    static constexpr int C = CHANNELS, IMAGES = COUNT, NECK = AT::NECK, CONVS = CONVS_;
    static constexpr bool RETURNS = WAY != WAY_FORWARD, DEEPER = WAY == WAY_INPUT, LEAF = WAY == WAY_PARAMETERS;
    using NECK_MAP = tile_map<NECK, SIDE, COUNT>;

    static constexpr int CONV_BYTES = tile_weight_bytes<9, C, C>(), NECK_BYTES = tile_weight_bytes<9, NECK, NECK>(),
                         POINT_BYTES = tile_weight_bytes<1, C, NECK>();
    static constexpr int BOTTLENECK_BYTES = 2 * NECK_BYTES + 4 * POINT_BYTES,
                         DEPTHWISE_BYTES = (1 + DEEPER) * tile_diagonal<C>::BYTES + 2 * tile_weight_bytes<1, C, C>();
    static constexpr int WEIGHT_BYTES = most(CONVS * CONV_BYTES, most(BOTTLENECK_BYTES, DEPTHWISE_BYTES));
    static constexpr int SMALL = 6 * IMAGES * C, GATE_PARAMETERS = NECK * C + 2 * NECK + 4,
                         GATE = 5 * IMAGES * C + GATE_PARAMETERS; /* floats of the small nets */
    static constexpr int FLOATS = patch_team<MAP>::FLOATS + TILE_WARPS * C + 6 * C + SMALL + GATE;
    static constexpr int STAGE = MAP::PIXELS * C * 2;
    static constexpr int NEEDED_BYTES = 2 * MAP::BYTES + WEIGHT_BYTES + FLOATS * 4 + STAGE, HALF = 112 * 1024;
    /* Patches that may be kept in shared memory where registers are scarcest and two thread blocks still fit. */
    static constexpr int PATCH_BYTES = sizeof(PATCH) * TILE_THREADS,
                         SPARES = DEEPER && NEEDED_BYTES + 2 * PATCH_BYTES <= HALF ? 2 : 0;
    static constexpr int BYTES = NEEDED_BYTES + SPARES * PATCH_BYTES;
    static constexpr int CHANNELS_SCRATCH = 4 * patch_channels<MAP>::SCRATCH; /* sums per channel: of the seed's norm,
                                                                                  of BatchNorm */
    static constexpr int SCRATCH = 2 * MAP::BYTES + WEIGHT_BYTES - CHANNELS_SCRATCH; /* the space left for the others */
    static constexpr int PER_PROCESSOR = BYTES <= HALF ? 2 : 1;

    PLACE at;
    patch_team<MAP> team;
    uint32_t x, y;    /* maps */
    uint32_t weights; /* fragments */
    uint32_t stage;   /* the warp's part of the next images */
    uint32_t spare;   /* patches */
    float *rows;      /* [warp][C], scratch for sums */
    float *vectors;   /* gamma, beta of both norms; then BatchNorm's scale and shift */
    float *bn_scale, *bn_shift;
    float *small, *gate;    /* arrays of the squeeze-and-excite net, of the gate net */
    float *scratch;         /* where gradients are summed at the end of a job: in the maps and fragments */
    const float *w;         /* the seed's parameters */
    const uint32_t *packed; /* fragments of its weights */

    /* All of it contiguous. */
    DEVICE_MEMBER seed_tile(unsigned char *shared)
        : seed_tile(shared, shared + 2 * MAP::BYTES, shared + 2 * MAP::BYTES + WEIGHT_BYTES)
    {
        stage = smem(gate + GATE) + (uint32_t)(at.warp * (STAGE / TILE_WARPS));
        spare = smem(gate + GATE) + STAGE + threadIdx.x * 4;
    }
    /* Each in its own place, without a stage. */
    DEVICE_MEMBER seed_tile(unsigned char *maps, unsigned char *fragments_, unsigned char *floats)
        : team((float *)floats)
    {
        x = smem(maps);
        y = x + MAP::BYTES;
        weights = smem(fragments_);
        scratch = (float *)maps;
        rows = team.part + patch_team<MAP>::FLOATS;
        vectors = rows + TILE_WARPS * C;
        bn_scale = vectors + 4 * C;
        bn_shift = vectors + 5 * C;
        small = vectors + 6 * C;
        gate = small + SMALL;
        stage = spare = 0;
        w = nullptr;
        packed = nullptr;
    }

    DEVICE_MEMBER float *channel_scratch(int number) const
    {
        return scratch + (SCRATCH + number * patch_channels<MAP>::SCRATCH) / 4;
    }
    /* One of the four, each by its own threads. */
    static constexpr int VECTOR_THREADS = 4 * C;
    DEVICE_MEMBER void vector(int to, int offset) const
    {
        const int k = (int)threadIdx.x - to * C;
        if (k >= 0 && k < C)
            vectors[to * C + k] = w[offset + k];
    }
    DEVICE_MEMBER patch_affine<MAP> affine(const patch_norm<MAP> &norm, int gamma) const
    {
        return norm.affine(vectors + gamma * C, vectors + (gamma + 1) * C);
    }

    /* Start fetching fragments from `first` (bytes among those of the slot), each thread a part. */
    DEVICE_MEMBER void copy(uint32_t to, int first, int bytes) const
    {
        const uint4 *from = (const uint4 *)(packed + first / 4);
        for (int i = (int)threadIdx.x; i < bytes / 16; i += TILE_THREADS)
            copy_async(to + (uint32_t)i * 16, from + i);
        copy_commit();
    }
    /*
     * Fragments of a seed with NEEDED 3x3 convolutions, in shared memory in the same order: all loaded once per job
     * where there is room, otherwise each where it is used.
     */
    template <int NEEDED> DEVICE_MEMBER void load() const
    {
        if constexpr (NEEDED <= CONVS)
            copy(weights, 0, NEEDED * CONV_BYTES);
    }
    template <int NEEDED> DEVICE_MEMBER uint32_t fragments(int place) const
    {
        if constexpr (NEEDED <= CONVS) {
            return weights + (uint32_t)(place * CONV_BYTES);
        } else {
            __syncthreads();
            copy(weights, place * CONV_BYTES, CONV_BYTES);
            copy_wait<0>();
            __syncthreads();
            return weights;
        }
    }

    /* A sum per channel of each image, to out [image][channel]. Ends with a barrier. */
    DEVICE_MEMBER void image_sums(float *sums, float factor, float *out) const
    {
        patch_channels<MAP> channels;
        channels.clear();
        channels.add(sums);
        channels.leave_row(rows + at.warp * C);
        __syncthreads();
        const int k = (int)threadIdx.x;
        if (k < IMAGES * C) {
            float sum = 0;
#pragma unroll
            for (int i = 0; i < PLACE::TEAM; i++)
                sum += rows[(k / C * PLACE::TEAM + i) * C + k % C];
            out[k] = sum * factor;
        }
        __syncthreads();
    }
    /* Mean over the pixels of each image's channels. */
    DEVICE_MEMBER void means(const PATCH &p, float *out) const
    {
        float sums[2 * PATCH::N];
#pragma unroll
        for (int i = 0; i < 2 * PATCH::N; i++)
            sums[i] = 0;
        patch_each<MAP>([&](int m, int n, int h) INLINED {
            const float2 v = pair_floats(p.pair[m][n][h]);
            sums[2 * n] += v.x;
            sums[2 * n + 1] += v.y;
        });
        image_sums(sums, 1.0f / (float)MAP::AREA, out);
    }
    /* Two values of the thread's image in an array [image][channel]. */
    DEVICE_MEMBER float2 own(const float *array, int n) const
    {
        return channel_pair(array + at.image * C, n);
    }
};

/* A patch set aside by its thread: in shared memory where a tile has room for more than NUMBER of them, else in
 * registers. */
template <class T, int NUMBER> struct seed_kept {
    using PATCH = typename T::PATCH;
    static constexpr bool IN_MEMORY = NUMBER < T::SPARES;
    PATCH patch;

    static DEVICE_MEMBER uint32_t at(const T &t, int m, int n, int h)
    {
        return t.spare + (uint32_t)(NUMBER * T::PATCH_BYTES + ((m * PATCH::N + n) * 2 + h) * (TILE_THREADS * 4));
    }
    DEVICE_MEMBER void keep(const T &t, const PATCH &p)
    {
        if constexpr (IN_MEMORY)
            patch_each<typename T::MAP>([&](int m, int n, int h)
                                            INLINED { store_shared_32(at(t, m, n, h), p.pair[m][n][h]); });
        else
            patch = p;
    }
    DEVICE_MEMBER PATCH get(const T &t) const
    {
        if constexpr (IN_MEMORY) {
            PATCH p;
            patch_each<typename T::MAP>([&](int m, int n, int h)
                                            INLINED { p.pair[m][n][h] = load_shared_32(at(t, m, n, h)); });
            return p;
        } else {
            return patch;
        }
    }
};

#endif
