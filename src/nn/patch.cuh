/*
 * Feature maps in registers. The images of a tile (tile.cuh) are divided among the warps of a block, one team of warps
 * per image, and each warp holds its pixels as tensor cores leave them: tiles of 16 pixels and 8 channels, two
 * neighbouring channels of pixels g and g + 8 in a lane (lane = 4 g + t). Element-wise work, norms and 1x1 convolutions
 * then never leave the registers; a 3x3 convolution reads the map from shared memory, where the other warps have stored
 * their parts, and leaves its result in the same layout.
 *
 *   SIZE 32: a warp has four rows; tile m is half (m / 4) of row m % 4
 *   SIZE 16: tile m is row m          SIZE 8: tile m is rows 2 m and 2 m + 1          SIZE 4: a tile is an image
 */
#ifndef NN_PATCH_CUH
#define NN_PATCH_CUH

#include "nn/tile.cuh"

template <class MAP> struct patch {
    static constexpr int TEAM = TILE_WARPS / MAP::IMAGES, M = MAP::AREA / 16 / TEAM, N = MAP::PLANES;
    static_assert(TEAM >= 1 && M >= 1 && (MAP::SIZE < 16 || M % 2 == 0), "every warp has whole windows of one image");
    uint32_t pair[M][N][2]; /* [pixels][plane][g, g + 8] */
};

/* f(m, n, h) for every pair. */
template <class MAP, class F> DEVICE void patch_each(F f)
{
#pragma unroll
    for (int n = 0; n < patch<MAP>::N; n++)
#pragma unroll
        for (int m = 0; m < patch<MAP>::M; m++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                f(m, n, h);
}

/* Where a thread's pairs are. */
template <class MAP> struct patch_place {
    static constexpr int M = patch<MAP>::M, N = patch<MAP>::N, TEAM = patch<MAP>::TEAM, SIZE = MAP::SIZE;
    static constexpr int ROW = MAP::PITCH * 16; /* bytes */
    int warp, lane, g, t, image, top;           /* top: first row of the warp */

    DEVICE_MEMBER patch_place()
    {
        warp = (int)threadIdx.x / 32;
        lane = (int)threadIdx.x % 32;
        g = lane / 4;
        t = lane % 4;
        image = warp / TEAM;
        top = warp % TEAM * (M * 16 / SIZE);
    }
    /* Row (counted from `top`) and column of pixel g = 0 in half h of a tile. */
    static constexpr DEVICE_MEMBER int row(int m, int h)
    {
        return SIZE == 32 ? m % 4 : SIZE == 16 ? m : SIZE == 8 ? 2 * m + h : 2 * h;
    }
    static constexpr DEVICE_MEMBER int column(int m, int h)
    {
        return SIZE == 32 ? m / 4 * 16 + 8 * h : SIZE == 16 ? 8 * h : 0;
    }
    /* Byte offset, in a map, of the warp's first pixel. */
    DEVICE_MEMBER uint32_t origin() const
    {
        return MAP::at(image, top, 0);
    }
    /*
     * An address is a base per thread plus a constant per pair, so that one register and an immediate offset suffice:
     * in a map (bytes), and in a plane (pixels; `of`: which of the eight).
     */
    template <class AMONG = MAP> DEVICE_MEMBER uint32_t cell_base() const /* AMONG: a map of more or fewer images */
    {
        return AMONG::at(image, top + (SIZE == 4 ? g / 4 : 0), SIZE == 4 ? g % 4 : g) + (uint32_t)(4 * t);
    }
    template <class AMONG = MAP> static constexpr DEVICE_MEMBER int cell(int m, int n, int h)
    {
        return n * AMONG::PLANE_BYTES + row(m, h) * ROW + column(m, h) * 16;
    }
    DEVICE_MEMBER int pixel_base(int of) const
    {
        return top * SIZE + of;
    }
    static constexpr DEVICE_MEMBER int pixel(int m, int h)
    {
        return row(m, h) * SIZE + column(m, h);
    }
    /* The same after pooling, with a quarter of the pixels: window w of the thread, which it shares with lane ^ 4. */
    DEVICE_MEMBER int pooled_base() const
    {
        return top / 2 * (SIZE / 2) + g / 2;
    }
    static constexpr DEVICE_MEMBER int pooled(int w)
    {
        return row(window_m(w), 0) / 2 * (SIZE / 2) + column(window_m(w), window_h(w)) / 2;
    }

    /* Window w, of M for each plane: the pairs (m, h) and (m + 1, h), or (m, 0) and (m, 1) for SIZE 8. */
    static constexpr DEVICE_MEMBER int window_m(int w)
    {
        return SIZE >= 16 ? w / 2 * 2 : w;
    }
    static constexpr DEVICE_MEMBER int window_h(int w)
    {
        return SIZE >= 16 ? w % 2 : 0;
    }
    static constexpr DEVICE_MEMBER int below_m(int w)
    {
        return SIZE >= 16 ? w / 2 * 2 + 1 : w;
    }
    static constexpr DEVICE_MEMBER int below_h(int w)
    {
        return SIZE >= 16 ? w % 2 : 1;
    }
};

/* Store a patch in the map it is part of. */
template <class MAP, class AT> DEVICE void patch_store(uint32_t map, const AT &at, const patch<MAP> &p)
{
    const uint32_t base = map + at.cell_base();
    patch_each<MAP>([&](int m, int n, int h)
                        INLINED { store_shared_32(base + (uint32_t)at.cell(m, n, h), p.pair[m][n][h]); });
}

template <class MAP, class AT> DEVICE patch<MAP> patch_load(uint32_t map, const AT &at)
{
    patch<MAP> p;
    const uint32_t base = map + at.cell_base();
    patch_each<MAP>([&](int m, int n, int h)
                        INLINED { p.pair[m][n][h] = load_shared_32(base + (uint32_t)at.cell(m, n, h)); });
    return p;
}

DEVICE float2 pair_floats(uint32_t pair)
{
    return make_float2(bf16_lo(pair), bf16_hi(pair));
}

DEVICE uint32_t pair_exchange(uint32_t pair, int mask)
{
    return __shfl_xor_sync(~0u, pair, mask);
}

/* The maximum of a window: M N words, the same in the lanes that share a window. */
template <class MAP> DEVICE uint32_t patch_window_max(const patch<MAP> &p, int w, int n)
{
    using AT = patch_place<MAP>;
    const uint32_t most =
        pair_max(p.pair[AT::window_m(w)][n][AT::window_h(w)], p.pair[AT::below_m(w)][n][AT::below_h(w)]);
    return pair_max(most, pair_exchange(most, 4));
}

/* The gradient of a window goes to its first maximum. get(w, n): the gradient. `to` may be `by`. */
template <class MAP, class GET> DEVICE void patch_route(patch<MAP> &to, const patch<MAP> &by, GET get)
{
    using AT = patch_place<MAP>;
    const uint32_t right = threadIdx.x & 4 ? ~0u : 0; /* all ones in the right one of the two columns */
#pragma unroll
    for (int n = 0; n < patch<MAP>::N; n++)
#pragma unroll
        for (int w = 0; w < patch<MAP>::M; w++) {
            const int m0 = AT::window_m(w), h0 = AT::window_h(w), m1 = AT::below_m(w), h1 = AT::below_h(w);
            const uint32_t most = patch_window_max(by, w, n), up = pair_equal(by.pair[m0][n][h0], most),
                           low = pair_equal(by.pair[m1][n][h1], most), g = get(w, n);
            /* order of precedence: upper left, upper right, lower left, lower right */
            const uint32_t beside_up = pair_exchange(up, 4), beside_low = pair_exchange(low, 4);
            to.pair[m0][n][h0] = g & up & ~(right & beside_up);
            to.pair[m1][n][h1] = g & low & ~(up | beside_up | (right & beside_low));
        }
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* COUNT sums over lanes that differ in bits MOST to LEAST: a lane hands over half of its sums while it has several. */
template <int COUNT, int MOST, int LEAST> DEVICE void lanes_fold(float *v, int lane)
{
    if constexpr (MOST >= LEAST) {
        if constexpr (COUNT > 1) {
#pragma unroll
            for (int i = 0; i < COUNT / 2; i++) {
                const bool upper = (lane & MOST) != 0;
                const float keep = upper ? v[i + COUNT / 2] : v[i], give = upper ? v[i] : v[i + COUNT / 2];
                v[i] = keep + exchange(give, MOST);
            }
            lanes_fold<COUNT / 2, MOST / 2, LEAST>(v, lane);
        } else {
            v[0] += exchange(v[0], MOST);
            lanes_fold<1, MOST / 2, LEAST>(v, lane);
        }
    }
}

/* Number of the first sum that lanes_fold<COUNT, 16, ...> leaves in a lane. */
template <int COUNT> DEVICE int lanes_first(int lane)
{
    return (COUNT > 1 && (lane & 16) ? COUNT / 2 : 0) + (COUNT > 2 && (lane & 8) ? COUNT / 4 : 0) +
           (COUNT > 4 && (lane & 4) ? COUNT / 8 : 0);
}

/* A team of warps that hold one image, and the memory in which they add up. */
template <class MAP> struct patch_team {
    static constexpr int TEAM = patch<MAP>::TEAM, TURN = TILE_WARPS * 16, FLOATS = 2 * TURN;
    float *part;
    int turn;

    DEVICE_MEMBER patch_team(float *memory) : part(memory), turn(0)
    {
    }
    DEVICE_MEMBER void meet() const
    {
        if constexpr (TEAM == TILE_WARPS)
            __syncthreads();
        else if constexpr (TEAM == 1)
            __syncwarp();
        else
            team_sync(1 + (int)threadIdx.x / 32 / TEAM, TEAM * 32);
    }
    /*
     * Up to four sums over the team; EACH: separately for the lanes of each t. By the time this call writes to its half
     * of the memory, all warps have read what the last call but one wrote there.
     */
    template <int COUNT, bool EACH> DEVICE_MEMBER void total(float *v)
    {
        const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, t = EACH ? lane % 4 : 0;
        constexpr int REST = EACH ? (COUNT == 4 ? 4 : COUNT == 2 ? 12 : 28) : COUNT == 4 ? 7 : COUNT == 2 ? 15 : 31;
        float *mine = part + turn * TURN;
        turn ^= 1;
        lanes_fold<COUNT, 16, (EACH ? 4 : 1)>(v, lane);
        if (!(lane & REST))
            mine[(warp * 4 + t) * 4 + lanes_first<COUNT>(lane)] = v[0];
        meet();
        const float *from = mine + (warp / TEAM * TEAM * 4 + t) * 4;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            v[i] = from[i];
#pragma unroll
            for (int w = 1; w < TEAM; w++)
                v[i] += from[w * 16 + i];
        }
    }
};

/*
 * A sum per channel over all pixels and images processed. Four or eight sums per lane would take too many registers, so
 * they are folded over the lanes as they arrive, until each lane holds one.
 */
template <class MAP> struct patch_channels {
    static constexpr int N = MAP::PLANES, KEPT = N == 1 ? 2 : 1;
    float v[KEPT];

    DEVICE_MEMBER void clear()
    {
#pragma unroll
        for (int i = 0; i < KEPT; i++)
            v[i] = 0;
    }
    DEVICE_MEMBER void add(float *sums) /* [N][2]; overwritten */
    {
        if constexpr (KEPT == 1)
            lanes_fold<2 * N, 16, 4>(sums, (int)threadIdx.x % 32);
#pragma unroll
        for (int i = 0; i < KEPT; i++)
            v[i] += sums[i];
    }
    /* Write the warp's sums to row [C]; they are no longer valid here. */
    DEVICE_MEMBER void leave_row(float *row)
    {
        const int lane = (int)threadIdx.x % 32, i = lanes_first<2 * N>(lane);
        if constexpr (KEPT > 1)
            lanes_fold<2 * N, 16, 4>(v, lane);
        if (!(lane & (N == 1 ? 12 : N == 2 ? 4 : 0))) /* the first of the lanes with the same sum */
            row[8 * (i / 2) + 2 * (lane % 4) + i % 2] = v[0];
    }
    /* As in tile_grad: SCRATCH bytes, a barrier in between. Calls with different `turn` are summed at the same time. */
    static constexpr int SCRATCH = TILE_WARPS * MAP::C * 4;
    DEVICE_MEMBER void leave(float *scratch)
    {
        leave_row(scratch + (int)threadIdx.x / 32 * MAP::C);
    }
    DEVICE_MEMBER static void gather(const float *scratch, float *out, int turn)
    {
        const int k = (int)threadIdx.x - turn * MAP::C;
        if (k >= 0 && k < MAP::C) {
            float sum = 0;
#pragma unroll
            for (int w = 0; w < TILE_WARPS; w++)
                sum += scratch[w * MAP::C + k];
            out[k] = sum;
        }
    }
};

/* ---- GroupNorm --------------------------------------------------------------------------------------------------- */

/* Coefficients of the thread's channels: [plane][e]. */
template <class MAP> struct patch_affine {
    float a[MAP::PLANES][2], b[MAP::PLANES][2];

    DEVICE_MEMBER float2 of(int n, uint32_t pair) const
    {
        return make_float2(fmaf(bf16_lo(pair), a[n][0], b[n][0]), fmaf(bf16_hi(pair), a[n][1], b[n][1]));
    }
};

/*
 * Where a v + b > 0, for bf16 v: dividing by |a| > 0 leaves a comparison of v, its sign flipped if a < 0, with a limit
 * that may be rounded down to bf16. Sign and limit of two channels.
 */
struct pair_limit {
    uint32_t flip, limit;

    static DEVICE_MEMBER uint32_t below(float x)
    {
        const uint32_t u = __float_as_uint(x);
        return (u >> 16) + ((u >> 31) && (u & 0xffffu) ? 1u : 0u);
    }
    DEVICE_MEMBER pair_limit(const float a[2], const float b[2])
    {
        flip = (a[0] < 0 ? 0x8000u : 0) | (a[1] < 0 ? 0x80000000u : 0);
        limit = below(-b[0] / fabsf(a[0])) | below(-b[1] / fabsf(a[1])) << 16;
    }
    DEVICE_MEMBER uint32_t mask(uint32_t pair) const
    {
        return pair_greater(pair ^ flip, limit);
    }
};

/* Two values of an array [C] that belong to the thread. */
DEVICE float2 channel_pair(const float *from, int n)
{
    return *(const float2 *)(from + 8 * n + 2 * (threadIdx.x & 3));
}

template <class MAP> struct patch_norm {
    static constexpr int N = MAP::PLANES, KEYS = MAP::C == 8 ? 2 : MAP::C / 16, GROUP = MAP::C == 8 ? 1 : 16;
    static constexpr bool EACH = MAP::C == 8; /* channels have their own statistics, else 16 share theirs */
    float mean[KEYS], rstd[KEYS];

    static constexpr DEVICE_MEMBER int key(int n, int e)
    {
        return EACH ? e : n / 2;
    }
    /* From each thread's sums of z and z z: [key], then [key]. */
    DEVICE_MEMBER void forward(patch_team<MAP> &team, float *sums)
    {
        constexpr float SHARE = 1.0f / (float)(MAP::AREA * GROUP);
        team.template total<2 * KEYS, EACH>(sums);
#pragma unroll
        for (int k = 0; k < KEYS; k++) {
            const float m = sums[k] * SHARE, var = fmaf(-m, m, sums[KEYS + k] * SHARE);
            mean[k] = m;
            rstd[k] = rsqrtf((var > 0 ? var : var == var ? 0 : var) + 1e-5f);
        }
    }
    /* gamma, beta: [C] in shared memory */
    DEVICE_MEMBER patch_affine<MAP> affine(const float *gamma, const float *beta) const
    {
        patch_affine<MAP> c;
#pragma unroll
        for (int n = 0; n < N; n++) {
            const float2 s = channel_pair(gamma, n), o = channel_pair(beta, n);
            c.a[n][0] = s.x * rstd[key(n, 0)];
            c.a[n][1] = s.y * rstd[key(n, 1)];
            c.b[n][0] = fmaf(-mean[key(n, 0)], c.a[n][0], o.x);
            c.b[n][1] = fmaf(-mean[key(n, 1)], c.a[n][1], o.y);
        }
        return c;
    }
    /*
     * From `factor` u, the gradient after the norm, to the one before it: u becomes put(dz, u). learned(dgamma, dbeta)
     * receives the gradients of gamma and beta, [N][2], from the thread's pixels alone.
     */
    template <class LEARNED, class PUT>
    DEVICE_MEMBER void backward(patch_team<MAP> &team, const patch<MAP> &z, patch<MAP> &u, float factor,
                                const float *gamma, LEARNED learned, PUT put)
    {
        constexpr float SHARE = 1.0f / (float)(MAP::AREA * GROUP);
        float sums[2 * KEYS], dgamma[2 * N], dbeta[2 * N];
#pragma unroll
        for (int i = 0; i < 2 * KEYS; i++)
            sums[i] = 0;
#pragma unroll
        for (int n = 0; n < N; n++) {
            float v[2] = {0, 0}, vz[2] = {0, 0};
#pragma unroll
            for (int m = 0; m < patch<MAP>::M; m++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const float2 g = pair_floats(u.pair[m][n][h]), x = pair_floats(z.pair[m][n][h]);
                    v[0] += g.x;
                    v[1] += g.y;
                    vz[0] = fmaf(g.x, x.x, vz[0]);
                    vz[1] = fmaf(g.y, x.y, vz[1]);
                }
            const float2 s = channel_pair(gamma, n);
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int k = key(n, e);
                dbeta[2 * n + e] = v[e] * factor;
                dgamma[2 * n + e] = fmaf(-mean[k], v[e], vz[e]) * (rstd[k] * factor);
                sums[k] = fmaf(e ? s.y : s.x, dbeta[2 * n + e], sums[k]);
                sums[KEYS + k] = fmaf(e ? s.y : s.x, dgamma[2 * n + e], sums[KEYS + k]);
            }
        }
        learned(dgamma, dbeta);
        team.template total<2 * KEYS, EACH>(sums);
#pragma unroll
        for (int n = 0; n < N; n++) {
            const float2 s = channel_pair(gamma, n);
            float gain[2], slope[2], offset[2];
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int k = key(n, e);
                const float pull = rstd[k] * rstd[k] * sums[KEYS + k] * SHARE;
                gain[e] = (e ? s.y : s.x) * rstd[k] * factor;
                slope[e] = -pull;
                offset[e] = fmaf(pull, mean[k], -rstd[k] * sums[k] * SHARE);
            }
#pragma unroll
            for (int m = 0; m < patch<MAP>::M; m++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const float2 g = pair_floats(u.pair[m][n][h]), x = pair_floats(z.pair[m][n][h]);
                    u.pair[m][n][h] = pack_bf16(put(fmaf(g.x, gain[0], fmaf(x.x, slope[0], offset[0])), g.x),
                                                put(fmaf(g.y, gain[1], fmaf(x.y, slope[1], offset[1])), g.y));
                }
        }
    }
};

/* The statistics a norm needs, accumulated as a linear step produces its results: sums of z and z z. */
template <class MAP> struct patch_moments {
    static constexpr int KEYS = patch_norm<MAP>::KEYS;
    float sums[2 * KEYS];

    DEVICE_MEMBER patch_moments()
    {
#pragma unroll
        for (int i = 0; i < 2 * KEYS; i++)
            sums[i] = 0;
    }
    DEVICE_MEMBER void add(int n, float lo, float hi)
    {
        const int k0 = patch_norm<MAP>::key(n, 0), k1 = patch_norm<MAP>::key(n, 1);
        sums[k0] += lo;
        sums[KEYS + k0] = fmaf(lo, lo, sums[KEYS + k0]);
        sums[k1] += hi;
        sums[KEYS + k1] = fmaf(hi, hi, sums[KEYS + k1]);
    }
};

#endif
