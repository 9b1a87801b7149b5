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
        return block_memory() + block_shared<C>::sums(crew);
    }
    /* Two numbers of a query of the team's attention: its logarithm, and its output times its gradient. */
    template <int C> DEVICE_MEMBER uint32_t marks(int head, int query) const
    {
        return block_memory() + block_shared<C>::marks(crew) +
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
    int across;        /* tiles of 16 x 8 in a row of them */
    float *bias;       /* [m]: sums of a's columns; NULL: not asked for */
    bool adds = false; /* to what the slab has already */
};

/* C rows of the product, from `row`, and UNIT columns. */
template <int C, int UNIT>
DEVICE void outer_unit(const struct trainer &t, const struct outer &o, int row, int column, bool again)
{
    enum { TILES = UNIT / 8 };
    const uint32_t sheets = block_memory() + block_shared<C>::sheets(t.crew, 0);
    const int own = row + t.row(); /* the warp's first */
    const bool any = t.row() < C && own < o.m, biased = o.bias && column == 0, adds = again || o.adds;
    float4 *to = reinterpret_cast<float4 *>(o.weight + (own / TILE * o.across + column / 8) * TILE * 8) + lane_of(),
           was[TILES] = {};
    if (adds && any) /* on its way while the tokens are summed */
#pragma unroll
        for (int j = 0; j < TILES; j++)
            if (column + 8 * j < o.n)
                was[j] = to[j * TILE_LANES];
    const struct token_sums<UNIT> sums = sum_tokens<UNIT>(
        sheets + (uint32_t)((o.a + row / C) * SHEET_BYTES), sheets + (uint32_t)(o.b * SHEET_BYTES + 2 * column),
        t.teams(), block_shared<C>::team(t.crew), biased, block_memory() + block_shared<C>::ones(t.crew), t.row());
    if (!any)
        return;
#pragma unroll
    for (int j = 0; j < TILES; j++)
        if (column + 8 * j < o.n)
            to[j * TILE_LANES] = make_float4(was[j].x + sums.v[j][0], was[j].y + sums.v[j][1], was[j].z + sums.v[j][2],
                                             was[j].w + sums.v[j][3]);
    if (biased && lane_of() % 4 == 0)
        for (int half = 0; half < 2; half++) {
            float *side = o.bias + own + lane_of() / 4 + 8 * half;
            *side = (again ? *side : 0.0f) + sums.side[0][2 * half];
        }
}

/* The team's share of products, UNIT columns at a time. */
template <int C, int UNIT, int COUNT>
DEVICE void outer_share(const struct trainer &t, const struct outer (&o)[COUNT], bool again)
{
    int begin = 0;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const int across = (o[i].n + UNIT - 1) / UNIT, units = (o[i].m + C - 1) / C * across;
        int unit = alike((t.index() - begin) & (t.teams() - 1)); /* a power of two; the next ones are free first */
        for (; unit < units; unit += t.teams())
            outer_unit<C, UNIT>(t, o[i], unit / across * C, unit % across * UNIT, again);
        begin += units;
    }
}

/* All teams of the block, once all have come. The sheets are in use until all meet again (outer_settle, or any meeting
 * of the block), which teams that have nothing to multiply need not wait for before they go on. */
template <int C, int COUNT> DEVICE void outer_products(const struct trainer &t, const struct outer (&o)[COUNT])
{
    const bool again = t.desk->again;
    group_publish();
    __syncthreads();
    if (t.teams() == 1)
        outer_share<C, C>(t, o, again);
    else
        outer_share<C, 32>(t, o, again); /* enough for all teams */
}

/* Before sheets that were multiplied are written. */
DEVICE void outer_settle()
{
    __syncthreads();
}

/* ---- embeddings -------------------------------------------------------------------------------------------------- */

/* The team's sequence, or beyond the batch the last one. */
DEVICE int batch_row(const struct team &t, int team)
{
    return min(t.desk->sequence + team, t.net->batch - 1);
}

/* Of the warp's tokens and C entries of the vocabulary: 1 where a token is the entry, into a sheet. Beyond the context
 * gradients are zero, whatever the token. */
template <int C> DEVICE void place_entries(const struct trainer &t, uint32_t sheet, int first)
{
    const uint32_t none[C / TILE][4] = {};
    const int lane = lane_of(), token = t.row() + lane;
    sheet_store<C>(sheet, t.row(), 0, none);
    __syncwarp();
    if (lane >= TILE || token >= t.net->context)
        return;
    const uint8_t *tokens = t.frame().tokens + (size_t)batch_row(t, t.index()) * (size_t)t.frame().token_stride;
    const int entry = tokens[token] - first;
    if (entry >= 0 && entry < C)
        store_shared_32(sheet + sheet_chunk((uint32_t)token, (uint32_t)(entry / 8)) + (uint32_t)(entry % 8 / 2 * 4),
                        entry % 2 ? TWO_ONES & 0xffff0000u : TWO_ONES & 0xffffu);
}

/* The embeddings' gradient where tokens enter, from sheet 0; the slab has the classifier's already. */
template <int C> DEVICE void entries_backward(const struct trainer &t)
{
    enum { PARTS = TRANSFORMER_BYTES / C, AT_ONCE = SHEETS - 1 };
#pragma unroll 1
    for (int part = 0; part < PARTS; part += AT_ONCE) {
        const int count = min(PARTS - part, (int)AT_ONCE);
        if (part > 0)
            outer_settle();
        for (int i = 0; i < count; i++)
            place_entries<C>(t, sheet_of<C>(t, 1 + i), (part + i) * C);
        const struct outer entries[1] = {
            {1, 0, count * C, C, t.desk->slab + t.small->tokens.slab + part * C * C, C / 8, nullptr, true}};
        outer_products<C>(t, entries);
    }
}

/* Positions: sums over the teams of what is in their banks. */
template <int C> DEVICE void positions_sum(const struct trainer &t)
{
    const struct exact_view &net = *t.net;
    float *to = t.desk->slab + net.positions + column_of(0);
#pragma unroll 1
    for (int j = t.index(); j < C / 8; j += t.teams()) {
        float sum[4] = {};
        for (int team = 0; team < t.teams(); team++) {
            const float4 four = t.bank<C>(team)[j * TEAM_THREADS];
            sum[0] += four.x;
            sum[1] += four.y;
            sum[2] += four.z;
            sum[3] += four.w;
        }
        for (int half = 0; half < 2; half++) {
            const int token = t.row() + lane_of() / 4 + half * 8;
            if (token >= net.context)
                continue;
            slab_put(t, to + token * C + 8 * j, sum[2 * half]);
            slab_put(t, to + token * C + 8 * j + 1, sum[2 * half + 1]);
        }
    }
}

/* From the gradient of the stream where it begins. */
template <int C> DEVICE void embed_backward(const struct trainer &t, const struct lines<C> &dh)
{
    const struct pairs<C> d = rounded(dh);
    bank_put<C>(t, dh);
    sheet_store<C>(sheet_of<C>(t, 0), t.row(), 0, d.a);
    entries_backward<C>(t);
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

/* Sums over all tokens of the block: of f(0, j, e), the columns, to `to_a`, and of f(1, j, e) to `to_b`; `count` of
 * each. One piece of code makes both: it is read once or twice and then not again for long. */
template <int C, int N, class F>
DEVICE void block_columns(const struct trainer &t, int count, F f, float *to_a, float *to_b)
{
    const uint32_t own = t.sums<C>() + (uint32_t)((t.index() * TEAM_WARPS + t.warp()) * 2 * N * 4);
    __syncthreads();
#pragma unroll 1
    for (int which = 0; which < 2; which++)
        warp_columns<N>(own + (uint32_t)(which * N * 4), [&](int j, int e) { return f(which, j, e); });
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
