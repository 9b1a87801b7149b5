/*
 * 3x3 convolutions of maps in shared memory (tile.cuh) on tensor cores, and their weight gradients.
 *
 * Pixels are the rows of the products: D[pixel][out] += A[pixel][in] B[in][out], so that accumulators, packed in pairs,
 * are cells again. Weight gradients are D[tap, in][out] with the pixels as the summed index, read by ldmatrix.trans.
 */
#ifndef NN_TILE_CONV_CUH
#define NN_TILE_CONV_CUH

#include "nn/tile.cuh"

DEVICE void tile_zero(float d[4])
{
    d[0] = d[1] = d[2] = d[3] = 0;
}

/* Bytes of a convolution's weights as B fragments. */
template <int TAPS, int IN, int OUT> constexpr int tile_weight_bytes()
{
    return TAPS * IN * OUT * 2;
}

/*
 * What word i of a 3x3 convolution's fragments holds: weights of inputs `in` and in + 1. Pairs of 8 inputs where IN is
 * 8: [out / 8][tap][lane], else [tap][in / 16][out / 8][lane][2].
 */
struct fragment_place {
    int out, tap, in;
};

template <int IN, int OUT> DEVICE struct fragment_place fragment_place_of(int i)
{
    constexpr int N = OUT / 8, K = IN / 16 ? IN / 16 : 1;
    const int lane = IN == 8 ? i % 32 : i / 2 % 32;
    struct fragment_place at;
    if constexpr (IN == 8) {
        at.tap = i / 32 % 9;
        at.out = i / 32 / 9 * 8 + lane / 4;
        at.in = lane % 4 * 2;
    } else {
        at.tap = i / 64 / N / K;
        at.out = i / 64 % N * 8 + lane / 4;
        at.in = i / 64 / N % K * 16 + i % 2 * 8 + lane % 4 * 2;
    }
    return at;
}

/* The fragments of w [OUT][9][IN] (fp32, global). */
template <int IN, int OUT> DEVICE void tile_weights(uint32_t to, const float *w)
{
    for (int i = (int)threadIdx.x; i < 9 * IN * OUT / 2; i += TILE_THREADS) {
        const struct fragment_place at = fragment_place_of<IN, OUT>(i);
        const float *from = w + (at.out * 9 + at.tap) * IN + at.in;
        store_shared_32(to + (uint32_t)i * 4, pack_bf16(from[0], from[1]));
    }
}

/*
 * On tensor cores a depthwise convolution is a dense one over GROUP channels at a time, most of whose weights are zero:
 * fragments of w [9][C] (fp32, global), group after group. BACK: with the taps reversed.
 */
template <int C> struct tile_diagonal {
    static constexpr int GROUP = C < 16 ? 8 : 16, GROUPS = C / GROUP,
                         GROUP_BYTES = tile_weight_bytes<9, GROUP, GROUP>(), BYTES = GROUPS * GROUP_BYTES;

    template <bool BACK> static DEVICE_MEMBER void weights(uint32_t to, const float *w)
    {
        for (int i = (int)threadIdx.x; i < BYTES / 4; i += TILE_THREADS) {
            const struct fragment_place at = fragment_place_of<GROUP, GROUP>(i % (GROUP_BYTES / 4));
            const int tap = BACK ? 8 - at.tap : at.tap;
            const float v = w[tap * C + i / (GROUP_BYTES / 4) * GROUP + at.out];
            store_shared_32(to + (uint32_t)i * 4, pack_bf16(at.in == at.out ? v : 0, at.in + 1 == at.out ? v : 0));
        }
    }
};

/* Which half word of a convolution's fragments holds the weight (out, tap, in). */
DEVICE uint32_t fragment_half(int taps, int cin, int cout, int out, int tap, int in)
{
    const int lane = out % 8 * 4 + in % 8 / 2;
    const int word = cin == 8 ? (out / 8 * taps + tap) * 32 + lane
                              : ((tap * (cin / 16) + in / 16) * (cout / 8) + out / 8) * 64 + lane * 2 + in % 16 / 8;
    return (uint32_t)(word * 2 + in % 2);
}

/* The nine taps of a map: byte offset of tap (y, x) from the middle. */
template <class MAP> DEVICE constexpr int tile_tap(int tap)
{
    return ((tap / 3 - 1) * MAP::PITCH + tap % 3 - 1) * 16;
}

/*
 * Output rows of a 3x3 convolution of 8 channels, four at a time: every ldmatrix serves up to three of them.
 * done(image, y, x, n, upper, lower): accumulators of rows y and y + 1 from column x on, plane of the output.
 */
template <class IN, class OUT, class F> DEVICE void tile_conv_rows(uint32_t in, uint32_t weights, F done)
{
    constexpr int ROWS = 4, COLUMNS = IN::SIZE / 16, TASKS = IN::PIXELS / 16 / ROWS, N = OUT::PLANES,
                  ROW = IN::PITCH * 16;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, part = lane / 8;
    uint32_t w[N][9];
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int tap = 0; tap < 9; tap++)
            w[n][tap] = load_shared_32(weights + (uint32_t)((n * 9 + tap) * 32 + lane) * 4);
#pragma unroll 1
    for (int task = warp; task < TASKS; task += TILE_WARPS) {
        const int column = task % COLUMNS * 16, y = task / COLUMNS * ROWS % IN::SIZE,
                  image = task / COLUMNS * ROWS / IN::SIZE;
        const uint32_t first = in + IN::at(image, y - 1, column - 1) + (uint32_t)(lane % 8 + part % 2 * 8) * 16;
        const uint32_t xs = first + (uint32_t)(part / 2) * 16, ys = first + (uint32_t)(part / 2 * ROW + 32);
        uint32_t x[ROWS + 2][4], last[ROWS / 2 + 1][4];
#pragma unroll
        for (int r = 0; r < ROWS + 2; r++)
            load_matrix(x[r], xs + (uint32_t)(r * ROW));
#pragma unroll
        for (int r = 0; r < ROWS / 2 + 1; r++)
            load_matrix(last[r], ys + (uint32_t)(2 * r * ROW));
#pragma unroll
        for (int o = 0; o < ROWS; o += 2) {
            const uint32_t *here = last[o / 2], *next = last[o / 2 + 1];
#pragma unroll
            for (int n = 0; n < N; n++) {
                float upper[4] = {0, 0, 0, 0}, lower[4] = {0, 0, 0, 0};
#pragma unroll
                for (int ky = 0; ky < 3; ky++) {
                    mma_bf16(upper, x[o + ky], w[n][3 * ky], w[n][3 * ky + 1]);
                    mma_bf16(lower, x[o + 1 + ky], w[n][3 * ky], w[n][3 * ky + 1]);
                }
                mma_bf16(upper, here, w[n][2], w[n][5]);
                mma_bf16(lower, next, w[n][5], w[n][8]);
                mma_bf16_k8(upper, next[0], next[1], w[n][8]);
                mma_bf16_k8(lower, here[2], here[3], w[n][2]);
                done(image, y + o, column, n, upper, lower);
            }
        }
    }
}

/*
 * From 16 channels and more: a warp multiplies blocks of up to 4 x 4 tiles of 16 pixels and 8 channels. done(first,
 * second, n, acc): offsets of the cells of accumulator rows g and g + 8, plane of the output. The caller provides the
 * barriers before and after.
 */
template <class IN, class OUT, class F> DEVICE void tile_conv_blocks(uint32_t in, uint32_t weights, F done)
{
    constexpr int M = IN::PIXELS / 16, WM = M < TILE_WARPS ? M : TILE_WARPS, WN = TILE_WARPS / WM, PER = M / WM;
    constexpr int N = OUT::PLANES, NW = N < WN ? 1 : N / WN, NB = NW < 4 ? NW : 4;
    constexpr int MOST = NB > 2 ? 2 : 4, MB = PER < MOST ? PER : MOST, K = IN::C / 16;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, part = lane / 8;
    const uint32_t planes = (uint32_t)(part / 2 * IN::PLANE_BYTES);
    if (warp / WM >= N)
        return;
#pragma unroll 1
    for (int m0 = 0; m0 < PER; m0 += MB) {
        const int tile = warp % WM * PER + m0;
        uint32_t from[MB];
#pragma unroll
        for (int m = 0; m < MB; m++)
            from[m] = in + planes + IN::at_pixel((tile + m) * 16 + part % 2 * 8 + lane % 8);
#pragma unroll 1
        for (int n0 = warp / WM * NW; n0 < warp / WM * NW + NW; n0 += NB) {
            float acc[MB][NB][4];
#pragma unroll
            for (int m = 0; m < MB; m++)
#pragma unroll
                for (int n = 0; n < NB; n++)
                    tile_zero(acc[m][n]);
#pragma unroll
            for (int tap = 0; tap < 9; tap++)
#pragma unroll
                for (int k = 0; k < K; k++) {
                    uint32_t b[NB][2];
#pragma unroll
                    for (int n = 0; n < NB; n++)
                        load_shared_64(b[n], weights + (uint32_t)(((tap * K + k) * N + n0 + n) * 32 + lane) * 8);
#pragma unroll
                    for (int m = 0; m < MB; m++) {
                        uint32_t a[4];
                        load_matrix(a, from[m] + (uint32_t)(2 * k * IN::PLANE_BYTES + tile_tap<IN>(tap)));
#pragma unroll
                        for (int n = 0; n < NB; n++)
                            mma_bf16(acc[m][n], a, b[n][0], b[n][1]);
                    }
                }
#pragma unroll
            for (int m = 0; m < MB; m++) {
                const int pixel = (tile + m) * 16 + lane / 4;
                const uint32_t first = OUT::at_pixel(pixel), second = OUT::at_pixel(pixel + 8);
#pragma unroll
                for (int n = 0; n < NB; n++)
                    done(first, second, n0 + n, acc[m][n]);
            }
        }
    }
}

/* ---- weight gradients -------------------------------------------------------------------------------------------- */

/*
 * Gradient of the weights of a convolution between C channels, summed over maps in registers: tiles of 16 (taps and
 * inputs) by 8 outputs. The warps are divided among GROUPS such convolutions, each with its own C channels, and within
 * each among inputs (WM), outputs (WN) and pixels (WK).
 */
template <int C, int GROUPS = 1> struct tile_grad {
    static constexpr int WM = C >= 16 ? C / 16 : 1, WN = C / 8, WK = TILE_WARPS / GROUPS / WM / WN;
    static constexpr int ROWS = C >= 16 ? 9 : 5;
    static constexpr int SCRATCH = TILE_WARPS * ROWS * 4 * 32 * 4; /* bytes */
    static_assert(WK >= 1, "a warp has one tile of outputs");
    float acc[ROWS][4];

    DEVICE_MEMBER void clear()
    {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            tile_zero(acc[r]);
    }

    /* The convolution this warp works on, and the warp's number among those that do. */
    static DEVICE_MEMBER int own_group()
    {
        return (int)threadIdx.x / 32 % GROUPS;
    }
    static DEVICE_MEMBER int own_warp()
    {
        return (int)threadIdx.x / 32 / GROUPS;
    }

    /* Add the product of input and output gradient, maps of one shape: those of the first group, the others follow. */
    template <class X> DEVICE_MEMBER void add(uint32_t in, uint32_t grad)
    {
        static_assert(X::C == C, "maps of this convolution");
        in += (uint32_t)(own_group() * X::BYTES);
        grad += (uint32_t)(own_group() * X::BYTES);
        if constexpr (C == 8 && X::SIZE >= 16)
            add_rows<X>(in, grad);
        else if constexpr (X::SIZE == 16)
            add_wide_rows<X>(in, grad);
        else if constexpr (C >= 16 && X::SIZE == 8)
            add_row_pairs<X>(in, grad);
        else
            add_tiles<X>(in, grad);
    }

    /* 8 channels: four rows of 16 pixels at a time; each load of the input serves up to three taps. */
    template <class X> DEVICE_MEMBER void add_rows(uint32_t in, uint32_t grad)
    {
        constexpr int ROW = X::PITCH * 16, TASKS = X::PIXELS / 64, COLUMNS = X::SIZE / 16;
        const int warp = own_warp(), lane = (int)threadIdx.x % 32, part = lane / 8;
#pragma unroll
        for (int task = 0; task < TASKS / WK; task++) {
            const int number = warp * (TASKS / WK) + task, column = number % COLUMNS * 16, y = number / COLUMNS * 4;
            const uint32_t at = X::at(y / X::SIZE, y % X::SIZE, column);
            uint32_t b[4][2], a[4];
#pragma unroll
            for (int o = 0; o < 4; o += 2) {
                load_matrix_transposed(a,
                                       grad + at + (uint32_t)((o + part / 2) * ROW + (part % 2 * 8 + lane % 8) * 16));
                b[o][0] = a[0], b[o][1] = a[1], b[o + 1][0] = a[2], b[o + 1][1] = a[3];
            }
            const uint32_t from = in + at + (uint32_t)((part / 2 * 8 + lane % 8 - 1) * 16 - ROW);
            const uint32_t side = from + (uint32_t)(part % 2) * 16, below = from + (uint32_t)(part % 2 * ROW + 32);
#pragma unroll
            for (int r = 0; r < 6; r++) { /* taps 0 1, 3 4, 6 7 */
                load_matrix_transposed(a, side + (uint32_t)(r * ROW));
#pragma unroll
                for (int ky = 0; ky < 3; ky++)
                    if (r - ky >= 0 && r - ky < 4)
                        mma_bf16(acc[ky], a, b[r - ky][0], b[r - ky][1]);
            }
#pragma unroll
            for (int r = 0; r < 5; r++) { /* taps 2 5 and 5 8 (of which 5 is not used) */
                load_matrix_transposed(a, below + (uint32_t)(r * ROW));
                if (r < 4)
                    mma_bf16(acc[3], a, b[r][0], b[r][1]);
                if (r > 0)
                    mma_bf16(acc[4], a, b[r - 1][0], b[r - 1][1]);
            }
        }
    }

    /* Rows of 16 pixels and many channels: a turn's rows are consecutive, each read once for a column of taps. */
    template <class X> DEVICE_MEMBER void add_wide_rows(uint32_t in, uint32_t grad)
    {
        constexpr int ROW = X::PITCH * 16, COUNT = X::PIXELS / 16 / WK;
        static_assert(COUNT % 2 == 0 && X::SIZE % COUNT == 0, "a turn is a part of an image");
        const int warp = own_warp(), lane = (int)threadIdx.x % 32, part = lane / 8;
        const int group = warp % WM, half = warp / WM % WN, y = warp / WM / WN * COUNT;
        const uint32_t at = X::at(y / X::SIZE, y % X::SIZE, 0);
        uint32_t b[COUNT][2], a[4];
#pragma unroll
        for (int o = 0; o < COUNT; o += 2) {
            load_matrix_transposed(
                a,
                grad + at + (uint32_t)(half * X::PLANE_BYTES + (o + part / 2) * ROW + (part % 2 * 8 + lane % 8) * 16));
            b[o][0] = a[0], b[o][1] = a[1], b[o + 1][0] = a[2], b[o + 1][1] = a[3];
        }
        const uint32_t from =
            in + at + (uint32_t)((2 * group + part % 2) * X::PLANE_BYTES + (part / 2 * 8 + lane % 8 - 1) * 16 - ROW);
#pragma unroll
        for (int kx = 0; kx < 3; kx++)
#pragma unroll
            for (int r = 0; r < COUNT + 2; r++) {
                load_matrix_transposed(a, from + (uint32_t)(kx * 16 + r * ROW));
#pragma unroll
                for (int ky = 0; ky < 3; ky++)
                    if (r - ky >= 0 && r - ky < COUNT)
                        mma_bf16(acc[3 * ky + kx], a, b[r - ky][0], b[r - ky][1]);
            }
    }

    /* The same with rows of 8: a tile is two of them. */
    template <class X> DEVICE_MEMBER void add_row_pairs(uint32_t in, uint32_t grad)
    {
        constexpr int ROW = X::PITCH * 16;
        static_assert(X::IMAGES % WK == 0, "a turn is some images");
        const int warp = own_warp(), lane = (int)threadIdx.x % 32, part = lane / 8;
        const int group = warp % WM, half = warp / WM % WN, turn = warp / WM / WN;
#pragma unroll 1
        for (int image = turn * (X::IMAGES / WK); image < (turn + 1) * (X::IMAGES / WK); image++) {
            const uint32_t at = X::at(image, 0, 0);
            uint32_t b[4][2], a[5][4];
#pragma unroll
            for (int m = 0; m < 4; m += 2) {
                load_matrix_transposed(
                    a[0], grad + at + (uint32_t)(half * X::PLANE_BYTES + (2 * m + part) * ROW + lane % 8 * 16));
                b[m][0] = a[0][0], b[m][1] = a[0][1], b[m + 1][0] = a[0][2], b[m + 1][1] = a[0][3];
            }
            const uint32_t from =
                in + at +
                (uint32_t)((2 * group + part % 2) * X::PLANE_BYTES + (part / 2 - 1) * ROW + (lane % 8 - 1) * 16);
#pragma unroll
            for (int kx = 0; kx < 3; kx++) {
#pragma unroll
                for (int r = 0; r < 5; r++)
                    load_matrix_transposed(a[r], from + (uint32_t)(kx * 16 + 2 * r * ROW));
#pragma unroll
                for (int m = 0; m < 4; m++) {
                    const uint32_t between[4] = {a[m][2], a[m][3], a[m + 1][0], a[m + 1][1]};
                    mma_bf16(acc[kx], a[m], b[m][0], b[m][1]);
                    mma_bf16(acc[3 + kx], between, b[m][0], b[m][1]);
                    mma_bf16(acc[6 + kx], a[m + 1], b[m][0], b[m][1]);
                }
            }
        }
    }

    /* Any shape. */
    template <class X> DEVICE_MEMBER void add_tiles(uint32_t in, uint32_t grad)
    {
        const int warp = own_warp(), lane = (int)threadIdx.x % 32, part = lane / 8;
        const int group = warp % WM, half = warp / WM % WN, turn = warp / WM / WN;
#pragma unroll 1
        for (int k = turn; k < X::PIXELS / 16; k += WK) {
            uint32_t b[4];
            load_matrix_transposed(b, grad + (uint32_t)(half * X::PLANE_BYTES) +
                                          X::at_pixel(k * 16 + part % 2 * 8 + lane % 8));
            const uint32_t columns = in + X::at_pixel(k * 16 + part / 2 * 8 + lane % 8);
            if constexpr (C >= 16) {
                const uint32_t from = columns + (uint32_t)((2 * group + part % 2) * X::PLANE_BYTES);
#pragma unroll
                for (int tap = 0; tap < 9; tap++)
                    multiply(tap, from + (uint32_t)tile_tap<X>(tap), b);
            } else { /* taps 0 1, 3 4, 6 7, 2 5 and 5 8 (of which 5 is not used) */
                const uint32_t side = columns + (uint32_t)(part % 2) * 16,
                               below = columns + (uint32_t)(part % 2 * X::PITCH * 16);
#pragma unroll
                for (int ky = 0; ky < 3; ky++)
                    multiply(ky, side + (uint32_t)tile_tap<X>(3 * ky), b);
                multiply(3, below + (uint32_t)tile_tap<X>(2), b);
                multiply(4, below + (uint32_t)tile_tap<X>(5), b);
            }
        }
    }

    DEVICE_MEMBER void multiply(int row, uint32_t from, const uint32_t *b)
    {
        uint32_t a[4];
        load_matrix_transposed(a, from);
        mma_bf16(acc[row], a, b[0], b[1]);
    }

    /* Each warp leaves its partial sums in memory of SCRATCH bytes ... */
    DEVICE_MEMBER void leave(float *scratch) const
    {
        float *mine = scratch + (own_group() * (TILE_WARPS / GROUPS) + own_warp()) * (ROWS * 4 * 32) +
                      (int)threadIdx.x % 32;
        if constexpr (WK > 1)
#pragma unroll
            for (int i = 0; i < ROWS * 4; i++)
                mine[i * 32] = acc[i / 4][i % 4];
    }
    /* ... and after a barrier all threads add up and write the gradient, [out][tap][in]. */
    DEVICE_MEMBER void gather(const float *scratch, float *out) const
    {
        if constexpr (WK == 1) {
            const int warp = own_warp(), lane = (int)threadIdx.x % 32;
            float *mine = out + (warp / WM * 8 + lane % 4 * 2) * (9 * C) + warp % WM * 16 + lane / 4;
#pragma unroll
            for (int i = 0; i < ROWS * 4; i++)
                mine[i % 2 * (9 * C) + i / 4 * C + i % 4 / 2 * 8] = acc[i / 4][i % 4];
        } else {
#pragma unroll 1
            for (int k = (int)threadIdx.x; k < ALL; k += TILE_THREADS) {
                const int lane = k % 32, e = k / 32 % 4, r = k / 128 % ROWS, share = k / 128 / ROWS;
                int tap = r, input = share % WM * 16 + lane / 4 + e / 2 * 8;
                if (C == 8) { /* the second half of a tile is another tap */
                    input = lane / 4;
                    tap = r < 3 ? 3 * r + e / 2 : r == 3 ? 2 + e / 2 * 3 : 8;
                    if (r == 4 && e < 2)
                        continue;
                }
                out[((share / WM * 8 + lane % 4 * 2 + e % 2) * 9 + tap) * C + input] = total(scratch + k);
            }
        }
    }
    static constexpr int ALL = WM * WN * ROWS * 4 * 32;
    DEVICE_MEMBER static float total(const float *scratch)
    {
        float sum = scratch[0];
#pragma unroll
        for (int turn = 1; turn < WK; turn++)
            sum += scratch[turn * ALL];
        return sum;
    }
    /* For depthwise convolutions only the diagonal, [tap][channel of all groups]. */
    DEVICE_MEMBER static void gather_diagonal(const float *scratch, float *out)
    {
        static_assert(WM == 1 && WK > 1, "groups of 8 or 16");
#pragma unroll 1
        for (int k = (int)threadIdx.x; k < 9 * C * GROUPS; k += TILE_THREADS) {
            const int tap = k / (C * GROUPS), group = k / C % GROUPS, c = k % C;
            const int lane = c % 8 * 4 + c % 8 / 2, share = c / 8;
            int r = tap, upper = c / 8; /* which half of a tile */
            if (C == 8) {
                r = tap % 3 < 2 ? tap / 3 : tap < 8 ? 3 : 4;
                upper = tap % 3 < 2 ? tap % 3 : tap > 2;
            }
            out[k] = total(scratch + group * (WK * ALL) + ((share * ROWS + r) * 4 + upper * 2 + c % 2) * 32 + lane);
        }
    }
};

#endif
