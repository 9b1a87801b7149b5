/* What the passes are made of in bf16 (see transformer/fp32/exact.cuh). */
#ifndef TRANSFORMER_WIDE_WIDE_CUH
#define TRANSFORMER_WIDE_WIDE_CUH

#include <algorithm>
#include <type_traits>

#include "nn/flash.cuh"
#include "nn/gelu.cuh"
#include "transformer/fp32/stages.cuh"
#include "transformer/wide/net.cuh"

/* All logits of some tokens at once. */
typedef struct product_tile<64, TRANSFORMER_BYTES, 1, 8, true> classifier_tile;

/* All but the products of linear layers. */
struct wide_base {
    typedef struct bf16 operand;
    enum { LEAST = OPERAND_ROW, FUSED = true, BESIDE = 2, SUMMED = 8, CLASSIFIER_ROWS = classifier_tile::M };

    /* ---- for launches ---- */

    static size_t classifier_shared()
    {
        return (size_t)::product_shared<classifier_tile>::BYTES;
    }
    static size_t attend_bytes(int head, bool backward)
    {
        size_t bytes = 0;
        with_head(head, [&](auto size) {
            typedef flash_sheet<decltype(size)::value> sheet;
            bytes = backward ? (size_t)sheet::BACKWARD : (size_t)sheet::FORWARD;
        });
        return bytes;
    }
    static __host__ __device__ int attend_parts(int length, int)
    {
        return flash_parts(length);
    }
    template <class F> static __host__ __device__ __forceinline__ void with_head(int head, F f)
    {
        if (head == 32)
            f(std::integral_constant<int, 32>());
        else if (head == 64)
            f(std::integral_constant<int, 64>());
        else if (head == 96)
            f(std::integral_constant<int, 96>());
        else
            f(std::integral_constant<int, 128>());
    }

    /* ---- for kernels ---- */

    static __device__ __forceinline__ uint32_t memory()
    {
        SHARED_BYTES(shared);
        return smem(shared);
    }
    static __device__ __forceinline__ const struct bf16 *rounded(const struct frame &frame, size_t offset,
                                                                 const float *)
    {
        return frame.net->rounded + (size_t)frame.place * frame.net->rounded_stride + offset;
    }
    static __device__ __forceinline__ void keep_gelu(struct bf16 *value, struct bf16 *slope, const struct few<4> &x)
    {
        uint2 slopes;
        const uint32_t low = gelu_pair_both(x.v[0], x.v[1], &slopes.x),
                       high = gelu_pair_both(x.v[2], x.v[3], &slopes.y);
        *reinterpret_cast<uint2 *>(value) = make_uint2(low, high);
        write_once(reinterpret_cast<uint2 *>(slope), slopes); /* for the backward pass */
    }
    static __device__ __forceinline__ float normalise(int width, const float *x, const float *gamma, const float *beta,
                                                      struct bf16 *hat, struct bf16 *normed)
    {
        return pairs_normalise(width, x, gamma, beta, hat, normed);
    }
    template <class Put>
    static __device__ __forceinline__ void normalise_backward(int width, const struct bf16 *hat, float rstd,
                                                              const struct bf16 *dy, const float *gamma,
                                                              const float *past, Put put)
    {
        pairs_normalise_backward(width, hat, rstd, dy, gamma, past, put);
    }
    /* Attention is not inlined: what is around it would take registers that it has no more of. */
    template <int HEAD>
    static __device__ __noinline__ void attend(const struct attended<struct bf16> &a, int head, int part)
    {
        flash_forward<HEAD>(a, head, part, memory());
    }
    template <int HEAD>
    static __device__ __noinline__ void attend_queries(const struct attended<struct bf16> &a, int head, int part)
    {
        flash_backward_queries<HEAD>(a, head, part, memory());
    }
    template <int HEAD>
    static __device__ __noinline__ void attend_keys(const struct attended<struct bf16> &a, int head, int part)
    {
        flash_backward_keys<HEAD>(a, head, part, memory());
    }
    template <class Verdict>
    static __device__ __forceinline__ void judge(const struct frame &frame, const struct share &share, float scale,
                                                 struct bf16 *gradient, Verdict verdict);
};

/* ---- the classifier ---------------------------------------------------------------------------------------------- */

/* What warps know of their tokens, each of its own part of the columns: the largest logit and the first column that has
 * it, the sum of exponentials; and the target's logit. In shared memory, once the products are done with it. */
struct classifier_notes {
    typedef classifier_tile tile;
    uint32_t at;

    __device__ __forceinline__ uint32_t note(int which, int part, int row) const
    {
        return at + (uint32_t)(4 * ((which * tile::ACROSS + part) * tile::M + row));
    }
    /* The largest of all columns, and the first that has it. */
    __device__ __forceinline__ float top(int row, int *first) const
    {
        float most = load_shared_float(note(0, 0, row));
        *first = (int)load_shared_32(note(1, 0, row));
        for (int part = 1; part < tile::ACROSS; part++) { /* columns in their order */
            const float other = load_shared_float(note(0, part, row));
            if (other > most) {
                most = other;
                *first = (int)load_shared_32(note(1, part, row));
            }
        }
        return most;
    }
    __device__ __forceinline__ float total(int row) const
    {
        float sum = 0;
        for (int part = 0; part < tile::ACROSS; part++)
            sum += load_shared_float(note(2, part, row));
        return sum;
    }
    __device__ __forceinline__ uint32_t target(int row) const
    {
        return note(3, 0, row);
    }
};

/* f(m, half, row of the tile) for this lane's rows. */
template <class F> DEVICE void each_judged(F f)
{
#pragma unroll
    for (int m = 0; m < classifier_tile::OWN_M; m++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            f(m, half, warp_row<classifier_tile>() + 16 * m + (int)threadIdx.x % 32 / 4 + 8 * half);
}

/* Element k of a lane's part of a row: its column. */
DEVICE int judged_column(int k)
{
    return warp_column<classifier_tile>() + 8 * (k / 2) + 2 * ((int)threadIdx.x % 4) + k % 2;
}

/* What a warp finds in its own columns. */
DEVICE void judge_tops(const classifier_tile &tile, const struct classifier_notes &notes)
{
    const int part = warp_column<classifier_tile>() / classifier_tile::WARP_N;
    each_judged([&](int m, int half, int row) {
        float most = tile.sum[m][0][2 * half];
        int first = judged_column(0);
#pragma unroll
        for (int k = 1; k < 2 * classifier_tile::OWN_N; k++) {
            const float x = tile.sum[m][k / 2][2 * half + k % 2];
            first = x > most ? judged_column(k) : first;
            most = x > most ? x : most;
        }
#pragma unroll
        for (int mask = 1; mask <= 2; mask *= 2) {
            const float other = exchange(most, mask);
            const int place = __shfl_xor_sync(~0u, first, mask);
            first = other > most || (other == most && place < first) ? place : first;
            most = other > most ? other : most;
        }
        if (threadIdx.x % 4 == 0) {
            store_shared_float(notes.note(0, part, row), most);
            store_shared_32(notes.note(1, part, row), (uint32_t)first);
        }
    });
}

/* Exponentials in place of the logits, and their sums; the target's logit is noted first. */
DEVICE void judge_totals(classifier_tile &tile, const struct classifier_notes &notes, const struct frame &frame,
                         int first_row)
{
    const int part = warp_column<classifier_tile>() / classifier_tile::WARP_N;
    each_judged([&](int m, int half, int row) {
        const int target = first_row + row < frame.rows ? target_of(frame, first_row + row) : 0;
        int unused;
        const float top = notes.top(row, &unused);
        float sum = 0;
#pragma unroll
        for (int k = 0; k < 2 * classifier_tile::OWN_N; k++) {
            float &x = tile.sum[m][k / 2][2 * half + k % 2];
            if (judged_column(k) == target)
                store_shared_float(notes.target(row), x);
            x = quick_exp2((x - top) * 1.44269504f);
            sum += x;
        }
        sum += exchange(sum, 1);
        sum += exchange(sum, 2);
        if (threadIdx.x % 4 == 0)
            store_shared_float(notes.note(2, part, row), sum);
    });
}

/* Products with all entries of the vocabulary, softmax cross entropy, and verdict(row, loss, hit) by one thread per
 * token; `gradient` [row][column], where it is asked for: that of the logits, times `scale`. */
template <class Verdict>
__device__ __forceinline__ void wide_base::judge(const struct frame &frame, const struct share &share, float scale,
                                                 struct bf16 *gradient, Verdict verdict)
{
    typedef classifier_tile part;
    const struct exact_view &net = *frame.net;
    const struct tile_product p = {frame.rows,
                                   net.vocabulary,
                                   net.width,
                                   operands<wide_base>(frame, net.last_places.normed),
                                   host_of<wide_base>(frame).weights + net.tokens,
                                   net.width,
                                   net.width};
    const struct classifier_notes notes = {memory()};
    for (int first = share.index * part::M; first < frame.rows; first += share.count * part::M) {
        part tile;
        tile_start(tile, 0, net.vocabulary, [](int) { return 0.0f; });
        tile_add<BY_DEPTH, BY_DEPTH>(tile, p, first, 0, memory());
        __syncthreads();
        judge_tops(tile, notes);
        __syncthreads();
        judge_totals(tile, notes, frame, first);
        __syncthreads();
        each_judged([&](int m, int half, int row) {
            const int at_row = first + row, target = at_row < frame.rows ? target_of(frame, at_row) : 0;
            const float total = notes.total(row), factor = scale / total;
            if (at_row >= frame.rows)
                return;
            int best;
            const float top = notes.top(row, &best);
            if (warp_column<part>() == 0 && threadIdx.x % 4 == 0)
                verdict(at_row, log((double)total) + (double)top - (double)load_shared_float(notes.target(row)),
                        best == target);
            if (!gradient)
                return;
#pragma unroll
            for (int k = 0; k < 2 * part::OWN_N; k += 2) {
                const int column = judged_column(k);
                const few<2> two = {
                    {tile.sum[m][k / 2][2 * half] * factor - (column == target ? scale : 0.0f),
                     tile.sum[m][k / 2][2 * half + 1] * factor - (column + 1 == target ? scale : 0.0f)}};
                keep(gradient + (size_t)at_row * (size_t)net.vocabulary + (size_t)column, two);
            }
        });
    }
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* In tiles of this kind. */
template <class TILE> struct wide_by : wide_base {
    enum { THREADS = TILE::THREADS };

    static __host__ __device__ int tiles(int rows, int columns)
    {
        return product_tiles<TILE>(rows, columns);
    }
    static size_t product_shared()
    {
        return std::min((size_t)::product_shared<TILE>::MOST, runtime_shared_most());
    }
    template <class Beside, class Put>
    static __device__ __forceinline__ void forward(const struct frame &frame, int in, int out,
                                                   const struct bf16 *weight, const float *bias, const struct bf16 *x,
                                                   const struct share &share, Beside beside, Put put)
    {
        const struct tile_product product = {frame.rows, out, in, x, weight, in, in};
        product_share<BY_DEPTH, BY_DEPTH, TILE>(
            product, share, wide_base::memory(), [&](int column) { return bias ? bias[column] : 0.0f; }, beside, put);
    }
    template <class Beside, class Put>
    static __device__ __forceinline__ void backward(const struct frame &frame, int in, int out,
                                                    const struct bf16 *weight, const struct bf16 *dy,
                                                    const struct share &share, Beside beside, Put put)
    {
        const struct tile_product product = {frame.rows, in, out, dy, weight, out, in};
        product_share<BY_DEPTH, BY_LINE, TILE>(
            product, share, wide_base::memory(), [](int) { return 0.0f; }, beside, put);
    }
    template <class Linear>
    static __device__ __forceinline__ void weights(const Linear &linear, int index, size_t first, int rows, float *to)
    {
        const int across = (linear.in + TILE::N - 1) / TILE::N, row = index / across * TILE::M,
                  column = index % across * TILE::N;
        const bool sums = linear.biased && column == 0 && warp_column<TILE>() == 0;
        struct tile_side<TILE, true> side = {
            {}, sums
        };
        TILE tile;
        const auto over = [&](const struct bf16 *dy, const struct bf16 *x) {
            return tile_product{
                linear.out,    linear.in, rows, dy + first * (size_t)linear.stride, x + first * (size_t)linear.in,
                linear.stride, linear.in};
        };
        tile_start(tile, column, linear.in, [](int) { return 0.0f; });
#pragma unroll 1
        for (int pair = 0; pair < (linear.entries ? 2 : 1); pair++) /* entries are as wide as dy, and not biased */
            tile_add<BY_LINE, BY_LINE>(tile, side,
                                       pair == 0 ? over(linear.dy, linear.x) : over(linear.entries, linear.entered),
                                       row, column, wide_base::memory());
        tile_put(tile, row, column, linear.out, linear.in, wide_base::memory(), nothing_beside(),
                 [&](int i, int j, const auto &some, const auto &) {
                     keep(to + linear.weight + (size_t)i * (size_t)linear.in + (size_t)j, some);
                 });
        side_put(side, row, linear.out, [&](int i, float sum) { to[linear.bias + (size_t)i] = sum; });
    }
};

/* Products are kernels of their own. */
struct wide : wide_by<wide_tile> {
};

/* They are parts of one. */
struct walked : wide_by<plain_tile> {
};

#endif
