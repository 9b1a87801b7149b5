/*
 * Gradients of parameters: sums over all tokens of a thread block, by all of its warps. A weight's is a product of two
 * sheets over the tokens; sums of columns (biases, norms) come with it, or over the warps in order. What a block
 * computes goes into its slab, or is added there if it has been there before.
 */
#ifndef TRANSFORMER_BF16_OUTER_CUH
#define TRANSFORMER_BF16_OUTER_CUH

#include "transformer/bf16/forward.cuh"

struct trainer : team {
    /* Sums of columns. */
    template <int C> DEVICE_MEMBER uint32_t sums() const
    {
        return block_memory() + block_shared<C>::sums(teams());
    }
    /* Two numbers of a query of the team's attention: its logarithm, and its output times its gradient. */
    template <int C> DEVICE_MEMBER uint32_t marks(int head, int query) const
    {
        return block_memory() + block_shared<C>::marks(teams()) +
               (uint32_t)(((index() * 4 + head) * TEAM_TOKENS + query) * 8);
    }
};

DEVICE void slab_put(const struct trainer &t, float *at, float sum)
{
    *at = t.desk->again ? *at + sum : sum;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* [m][n] = sum over tokens of a's column m times b's column n. */
struct outer {
    int a, b; /* sheets; beyond C columns `a` goes on in the next one */
    int m, n; /* multiples of 16; n at most C */
    float *weight;
    int across;  /* tiles of 16 x 8 in a row of them */
    float *bias; /* [m]: sums of a's columns; NULL: not asked for */
};

DEVICE void slab_put_tile(float *at, const float sum[4], bool again)
{
    float4 *to = reinterpret_cast<float4 *>(at) + lane_of();
    float4 four = make_float4(sum[0], sum[1], sum[2], sum[3]);
    if (again) {
        const float4 was = *to;
        four = make_float4(was.x + four.x, was.y + four.y, was.z + four.z, was.w + four.w);
    }
    *to = four;
}

enum { UNIT = 32 }; /* columns that a team takes at a time: then there are enough for all teams of a block */

/* C rows of the product, from `row`, and some columns. */
template <int C> DEVICE void outer_unit(const struct trainer &t, const struct outer &o, int row, int column)
{
    const uint32_t sheets = block_memory() + block_shared<C>::sheets(0);
    const bool biased = o.bias && column == 0;
    const struct token_sums<UNIT> sums = sum_tokens<UNIT>(
        sheets + (uint32_t)((o.a + row / C) * SHEET_BYTES), sheets + (uint32_t)(o.b * SHEET_BYTES + 2 * column),
        t.teams(), block_shared<C>::TEAM, biased, block_memory() + block_shared<C>::ones(t.teams()), t.row());
    const int own = row + t.row(); /* the warp's first */
    if (t.row() >= C || own >= o.m)
        return;
    float *at = o.weight + (own / TILE * o.across + column / 8) * TILE * 8;
#pragma unroll
    for (int j = 0; j < UNIT / 8; j++)
        if (column + 8 * j < o.n)
            slab_put_tile(at + j * TILE * 8, sums.v[j], t.desk->again);
    if (biased && lane_of() % 4 == 0) {
        slab_put(t, o.bias + own + lane_of() / 4, sums.side[0][0]);
        slab_put(t, o.bias + own + lane_of() / 4 + 8, sums.side[0][2]);
    }
}

/* All teams of the block, between two barriers. */
template <int C, int COUNT> DEVICE void outer_products(const struct trainer &t, const struct outer (&o)[COUNT])
{
    group_publish();
    __syncthreads();
    int begin = 0;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const int across = (o[i].n + UNIT - 1) / UNIT, units = (o[i].m + C - 1) / C * across;
        int unit = (t.index() - begin) & (t.teams() - 1); /* a power of two; the next ones are free first */
        for (; unit < units; unit += t.teams())
            outer_unit<C>(t, o[i], unit / across * C, unit % across * UNIT);
        begin += units;
    }
    __syncthreads();
}

/* ---- embeddings -------------------------------------------------------------------------------------------------- */

/* The team's sequence, or beyond the batch the last one. */
DEVICE int batch_row(const struct team &t, int team)
{
    return min(t.desk->sequence + team, t.net->batch - 1);
}

/* A of sixteen entries of the vocabulary and sixteen tokens: 1 where a token is the entry. Beyond the context gradients
 * are zero, whatever the token. */
DEVICE void entries_of(uint32_t a[4], const uint8_t *tokens, int context, int k, int entry)
{
    const int g = lane_of() / 4, first = k + lane_of() % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint32_t low = 0, high = 0; /* entries g and g + 8 */
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int at = first + 8 * half + i, token = at < context ? __ldg(tokens + at) : 0;
            low |= token == entry + g ? 0x3f80u << 16 * i : 0;
            high |= token == entry + g + 8 ? 0x3f80u << 16 * i : 0;
        }
        a[2 * half] = low;
        a[2 * half + 1] = high;
    }
}

/* 32 entries and 16 columns of the embeddings' gradient where tokens enter, from sheet 0; the slab has the classifier's
 * already. */
template <int C> DEVICE void entries_unit(const struct trainer &t, int entry, int column)
{
    const struct frame &frame = t.frame();
    float sum[2][2][4] = {};
#pragma unroll 1
    for (int team = 0; team < t.teams(); team++) {
        const uint8_t *tokens = frame.tokens + (size_t)batch_row(t, team) * (size_t)frame.token_stride;
#pragma unroll
        for (int k = 0; k < TEAM_TOKENS; k += TILE) {
            uint32_t a[4], b[4];
            sheet_columns(b, block_memory() + block_shared<C>::sheets(team), k, column);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                entries_of(a, tokens, frame.net->context, k, entry + m * TILE);
                mma_bf16(sum[m][0], a, b[0], b[1]);
                mma_bf16(sum[m][1], a, b[2], b[3]);
            }
        }
    }
#pragma unroll
    for (int m = 0; m < 2; m++) {
        float *at = t.desk->slab + t.small->tokens.slab + ((entry / TILE + m) * (C / 8) + column / 8) * TILE * 8;
        slab_put_tile(at, sum[m][0], true);
        slab_put_tile(at + TILE * 8, sum[m][1], true);
    }
}

/* Positions: sums over the teams of what is in their banks, by the first team. */
template <int C> DEVICE void positions_sum(const struct trainer &t)
{
    const struct exact_view &net = *t.net;
#pragma unroll 1
    for (int j = 0; j < C / 8; j++) {
        float sum[4] = {};
        for (int team = 0; team < t.teams(); team++) {
            const float4 four = t.bank<C>(team)[j * TEAM_THREADS];
            sum[0] += four.x;
            sum[1] += four.y;
            sum[2] += four.z;
            sum[3] += four.w;
        }
        for (int e = 0; e < 4; e++) {
            const int token = t.row() + lane_of() / 4 + e / 2 * 8;
            if (token < net.context)
                slab_put(t, t.desk->slab + net.positions + token * C + column_of(j) + e % 2, sum[e]);
        }
    }
}

/* From the gradient of the stream where it begins. */
template <int C> DEVICE void embed_backward(const struct trainer &t, const struct lines<C> &dh)
{
    const struct pairs<C> d = rounded(dh);
    sheet_store<C>(sheet_of<C>(t, 0), t.row(), 0, d.a);
    bank_put<C>(t, dh);
    __syncthreads();
    for (int unit = t.index() * TEAM_WARPS + t.warp(); unit < TRANSFORMER_BYTES / (2 * TILE) * (C / TILE);
         unit += t.teams() * TEAM_WARPS)
        entries_unit<C>(t, unit / (C / TILE) * 2 * TILE, unit % (C / TILE) * TILE);
    if (t.index() == 0)
        positions_sum<C>(t);
    __syncthreads();
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

/* Lanes that differ in `MASK` share columns: each keeps the sums of half of them. */
template <int MASK, int N> DEVICE void halve(float (&x)[N], float (&to)[N / 2])
{
    const bool upper = lane_of() & MASK;
#pragma unroll
    for (int i = 0; i < N / 2; i++) {
        const float away = upper ? x[i] : x[i + N / 2], own = upper ? x[i + N / 2] : x[i];
        to[i] = own + exchange(away, MASK);
    }
}

/* Sums over the warp's tokens of f(j, e) in shared memory, [C]. */
template <int C, class F> DEVICE void warp_columns(uint32_t to, F f)
{
    enum { N = C / 4 };
    const int lane = lane_of();
    float x[N];
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = f(i / 2, i % 2) + f(i / 2, i % 2 + 2);
    if constexpr (N < 8) {
#pragma unroll
        for (int i = 0; i < N; i++) {
#pragma unroll
            for (int mask = 4; mask < TILE_LANES; mask *= 2)
                x[i] += exchange(x[i], mask);
            if (lane < 4)
                store_shared_float(to + (uint32_t)(4 * (column_of(i / 2) + i % 2)), x[i]);
        }
    } else {
        float half[N / 2], quarter[N / 4], own[N / 8];
        halve<16>(x, half);
        halve<8>(half, quarter);
        halve<4>(quarter, own);
        const int first = (lane >> 4 & 1) * (N / 2) + (lane >> 3 & 1) * (N / 4) + (lane >> 2 & 1) * (N / 8);
#pragma unroll
        for (int i = 0; i < N / 8; i++)
            store_shared_float(to + (uint32_t)(4 * (column_of((first + i) / 2) + (first + i) % 2)), own[i]);
    }
}

/* Sums over all tokens of the block: of a(j, e), the columns, to `to_a`, and of b(j, e) to `to_b`; `count` of each. */
template <int C, int N, class A, class B>
DEVICE void block_columns(const struct trainer &t, int count, A a, float *to_a, B b, float *to_b)
{
    const uint32_t own = t.sums<C>() + (uint32_t)((t.index() * TEAM_WARPS + t.warp()) * 2 * N * 4);
    __syncthreads();
    warp_columns<N>(own, a);
    warp_columns<N>(own + N * 4, b);
    __syncthreads();
    const int which = (int)threadIdx.x / N, column = (int)threadIdx.x % N;
    if (which > 1 || column >= count)
        return;
    float sum = 0;
    for (int warp = 0; warp < t.teams() * TEAM_WARPS; warp++)
        sum += load_shared_float(t.sums<C>() + (uint32_t)((warp * 2 * N + (int)threadIdx.x) * 4));
    slab_put(t, (which ? to_b : to_a) + column, sum);
}

#endif
