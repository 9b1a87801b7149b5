/*
 * Causal attention of one head over one sequence by a thread block: nn/attention.h on the device, tile by tile. The
 * forward pass keeps the logarithm of each row's sum; the backward pass computes the scores once more from it. A tile
 * of queries meets tiles of keys up to its own, in order, and within its own each query stops at itself: a token's
 * result has no term of a later one.
 *
 * Eight lanes share a row of a tile: of the scores they have every eighth key each, of a head every eighth number.
 */
#ifndef NN_ATTEND_CUH
#define NN_ATTEND_CUH

#include "cuda/runtime.cuh"

enum {
    ATTEND_THREADS = 256,
    ATTEND_TILE = 32, /* at most: rows of a tile */
    ATTEND_LANES = ATTEND_THREADS / ATTEND_TILE,
    ATTEND_PITCH = ATTEND_TILE + 1,
    ATTEND_MAPS = 6, /* tiles of a head in shared memory at once, and two of scores */
    ATTEND_LIMIT = 200 * 1024
};

/* Rows of qkv are q | k | v, each the heads one after another; rows of out have the heads, those of `logs` a number
 * per head. */
template <class T> struct attended {
    int length, heads, head;
    const T *qkv;
    T *out;
    float *logs;
    const T *dout;
    T *dqkv;
};

static inline __host__ __device__ size_t attend_shared_for(int tile, int head)
{
    return sizeof(float) * (size_t)(ATTEND_MAPS * tile * (head + 1) + 2 * ATTEND_TILE * ATTEND_PITCH);
}

/* Rows of a tile, fewer for wide heads, and the shared memory that they take. */
static inline __host__ __device__ int attend_tile(int head)
{
    int tile = ATTEND_TILE;
    while (attend_shared_for(tile, head) > ATTEND_LIMIT)
        tile /= 2;
    return tile;
}

static inline __host__ __device__ size_t attend_shared(int head)
{
    return attend_shared_for(attend_tile(head), head);
}

/* Tiles of a sequence, and the pieces of work that it has: a tile of a head each, backward two. */
static inline __host__ __device__ int attend_tiles(int length, int head)
{
    const int tile = attend_tile(head);
    return (length + tile - 1) / tile;
}

/* A head in the works. Maps are [row of the tile][head + 1]. */
struct attending {
    const struct attended<float> &a;
    int tile, pitch;    /* rows of a tile; of a map, floats */
    int row, lane;      /* of this thread; a row beyond the tile has nothing to do but to wait */
    size_t wide, width; /* floats of a row of qkv, and of out */
    size_t at;          /* where the head begins in a row */
    float scale;
    float *map, *scores; /* shared memory */

    __device__ __forceinline__ attending(const struct attended<float> &given, int head, unsigned char *shared)
        : a(given), tile(attend_tile(given.head)), pitch(given.head + 1), row((int)threadIdx.x / ATTEND_LANES),
          lane((int)threadIdx.x % ATTEND_LANES), wide((size_t)(3 * given.heads * given.head)),
          width((size_t)(given.heads * given.head)), at((size_t)(head * given.head)),
          scale(1 / sqrtf((float)given.head)), map((float *)shared),
          scores((float *)shared + ATTEND_MAPS * attend_tile(given.head) * (given.head + 1))
    {
    }
    __device__ __forceinline__ float *tile_of(int k) const
    {
        return map + k * tile * pitch;
    }
    /* A tile of `from`, whose rows are `stride` apart, from row `first` on: zero beyond the sequence. */
    __device__ __forceinline__ void load(int k, const float *from, size_t stride, int first) const
    {
        float *to = tile_of(k);
        for (int i = (int)threadIdx.x; i < tile * a.head; i += ATTEND_THREADS) {
            const int r = i / a.head, d = i % a.head;
            to[r * pitch + d] = first + r < a.length ? from[(size_t)(first + r) * stride + at + (size_t)d] : 0.0f;
        }
    }
    __device__ __forceinline__ float dot(const float *x, const float *y) const
    {
        float sum = 0;
        for (int d = 0; d < a.head; d++)
            sum = fmaf(x[d], y[d], sum);
        return sum;
    }
    __device__ __forceinline__ void clear(int k) const
    {
        for (int d = lane; row < tile && d < a.head; d += ATTEND_LANES)
            tile_of(k)[row * pitch + d] = 0;
    }
    /* This row of map `to` += weights(j) * row j of map `from`, for `count` rows j from `begin` on. */
    template <class Weight>
    __device__ __forceinline__ void mix(int to, int from, int begin, int end, float keep, Weight weight) const
    {
        for (int d = lane; d < a.head; d += ATTEND_LANES) {
            float sum = tile_of(to)[row * pitch + d] * keep;
            for (int j = begin; j < end; j++)
                sum = fmaf(weight(j), tile_of(from)[j * pitch + d], sum);
            tile_of(to)[row * pitch + d] = sum;
        }
    }
    __device__ __forceinline__ void store(int k, float *to, size_t stride, int first, float times) const
    {
        for (int d = lane; row < tile && first + row < a.length && d < a.head; d += ATTEND_LANES)
            to[(size_t)(first + row) * stride + at + (size_t)d] = tile_of(k)[row * pitch + d] * times;
    }
};

template <class T> DEVICE T attend_sum(T v)
{
#pragma unroll
    for (int apart = ATTEND_LANES / 2; apart > 0; apart /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, apart);
    return v;
}

DEVICE float attend_largest(float v)
{
#pragma unroll
    for (int apart = ATTEND_LANES / 2; apart > 0; apart /= 2)
        v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, apart));
    return v;
}

/* Tile `part` of the queries of a head. */
DEVICE void attend_forward(const struct attended<float> &a, int head, int part, unsigned char *shared)
{
    enum { Q, K, V, OUT };
    const struct attending w(a, head, shared);
    const int first = part * w.tile, query = first + w.row;
    float *scores = w.scores + w.row * ATTEND_PITCH, largest = -INFINITY, total = 0;
    __syncthreads();
    w.load(Q, a.qkv, w.wide, first);
    w.clear(OUT);
    for (int begin = 0; begin <= first; begin += w.tile) {
        const int seen = query - begin + 1 < w.tile ? query - begin + 1 : w.tile; /* keys of the tile */
        __syncthreads();
        w.load(K, a.qkv + w.width, w.wide, begin);
        w.load(V, a.qkv + 2 * w.width, w.wide, begin);
        __syncthreads();
        float most = largest, sum = 0;
        for (int j = w.lane; w.row < w.tile && j < seen; j += ATTEND_LANES) {
            scores[j] = w.dot(w.tile_of(Q) + w.row * w.pitch, w.tile_of(K) + j * w.pitch) * w.scale;
            most = fmaxf(most, scores[j]);
        }
        most = attend_largest(most);
        for (int j = w.lane; w.row < w.tile && j < seen; j += ATTEND_LANES) {
            scores[j] = expf(scores[j] - most);
            sum += scores[j];
        }
        const float keep = begin == 0 ? 0.0f : expf(largest - most);
        total = fmaf(total, keep, attend_sum(sum)); /* the lanes have met: a row's scores are there */
        largest = most;
        __syncthreads();
        if (w.row < w.tile)
            w.mix(OUT, V, 0, seen, keep, [&](int j) { return scores[j]; });
    }
    w.store(OUT, a.out, w.width, first, 1 / total);
    if (w.row < w.tile && query < a.length && w.lane == 0)
        a.logs[(size_t)query * (size_t)a.heads + (size_t)head] = largest + logf(total);
}

/* Probabilities and gradients of the scores of a tile of queries and one of keys, left in shared memory as
 * [query][key]; 0 where a key is later than the query, or beyond the sequence. `delta`: sum over a query's keys of p *
 * dp. */
DEVICE void attend_again(const struct attending &w, int q, int k, int dout, int v, int first, int begin, float log_sum,
                         float delta)
{
    float *p = w.scores + w.row * ATTEND_PITCH, *ds = p + ATTEND_TILE * ATTEND_PITCH;
    const int query = first + w.row;
    for (int j = w.lane; w.row < w.tile && j < w.tile; j += ATTEND_LANES) {
        const bool sees = begin + j <= query && query < w.a.length;
        const float score = w.dot(w.tile_of(q) + w.row * w.pitch, w.tile_of(k) + j * w.pitch) * w.scale,
                    dp = w.dot(w.tile_of(dout) + w.row * w.pitch, w.tile_of(v) + j * w.pitch);
        p[j] = sees ? expf(score - log_sum) : 0.0f;
        ds[j] = sees ? w.scale * p[j] * (dp - delta) : 0.0f;
    }
}

/* Of this thread's row: the logarithm of its sum, and delta = dout . out. */
DEVICE float attend_log(const struct attending &w, int head, int query)
{
    return w.row < w.tile && query < w.a.length ? w.a.logs[(size_t)query * (size_t)w.a.heads + (size_t)head] : 0.0f;
}

DEVICE float attend_delta(const struct attending &w, int query)
{
    float sum = 0;
    const size_t row = (size_t)query * w.width + w.at;
    for (int d = w.lane; w.row < w.tile && query < w.a.length && d < w.a.head; d += ATTEND_LANES)
        sum += w.a.dout[row + (size_t)d] * w.a.out[row + (size_t)d];
    return attend_sum(sum);
}

/* Gradients of a tile of queries. */
DEVICE void attend_backward_queries(const struct attended<float> &a, int head, int part, unsigned char *shared)
{
    enum { Q, K, V, DOUT, DQ };
    const struct attending w(a, head, shared);
    const int first = part * w.tile, query = first + w.row;
    const float log_sum = attend_log(w, head, query), delta = attend_delta(w, query);
    const float *ds = w.scores + (ATTEND_TILE + w.row) * ATTEND_PITCH;
    __syncthreads();
    w.load(Q, a.qkv, w.wide, first);
    w.load(DOUT, a.dout, w.width, first);
    w.clear(DQ);
    for (int begin = 0; begin <= first; begin += w.tile) {
        const int seen = query - begin + 1 < w.tile ? query - begin + 1 : w.tile;
        __syncthreads();
        w.load(K, a.qkv + w.width, w.wide, begin);
        w.load(V, a.qkv + 2 * w.width, w.wide, begin);
        __syncthreads();
        attend_again(w, Q, K, DOUT, V, first, begin, log_sum, delta);
        __syncthreads();
        if (w.row < w.tile)
            w.mix(DQ, K, 0, seen, 1, [&](int j) { return ds[j]; });
    }
    w.store(DQ, a.dqkv, w.wide, first, 1);
}

/* Gradients of a tile of keys, and of its values. */
DEVICE void attend_backward_keys(const struct attended<float> &a, int head, int part, unsigned char *shared)
{
    enum { Q, K, V, DOUT, DK, DV };
    const struct attending w(a, head, shared);
    const int begin = part * w.tile;
    const float *p = w.scores + w.row, *ds = p + ATTEND_TILE * ATTEND_PITCH; /* this key's column */
    __syncthreads();
    w.load(K, a.qkv + w.width, w.wide, begin);
    w.load(V, a.qkv + 2 * w.width, w.wide, begin);
    w.clear(DK);
    w.clear(DV);
    for (int first = begin; first < a.length; first += w.tile) {
        const int query = first + w.row, from = first == begin ? w.row : 0; /* the first query that sees this key */
        const float log_sum = attend_log(w, head, query), delta = attend_delta(w, query);
        __syncthreads();
        w.load(Q, a.qkv, w.wide, first);
        w.load(DOUT, a.dout, w.width, first);
        __syncthreads();
        attend_again(w, Q, K, DOUT, V, first, begin, log_sum, delta);
        __syncthreads();
        if (w.row < w.tile) {
            w.mix(DV, DOUT, from, w.tile, 1, [&](int i) { return p[i * ATTEND_PITCH]; });
            w.mix(DK, Q, from, w.tile, 1, [&](int i) { return ds[i * ATTEND_PITCH]; });
        }
    }
    w.store(DK, a.dqkv + w.width, w.wide, begin, 1);
    w.store(DV, a.dqkv + 2 * w.width, w.wide, begin, 1);
}

#endif
