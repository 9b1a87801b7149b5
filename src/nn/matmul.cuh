/*
 * Matrix products in fp32 by a thread block, tile by tile. A sum starts with a given number and takes its terms one
 * after another, from the first to the last: an element's bits depend on its own row and column alone, neither on the
 * tile it is in nor on how many rows there are.
 */
#ifndef NN_MATMUL_CUH
#define NN_MATMUL_CUH

#include "cuda/runtime.cuh"

enum {
    MATMUL_THREADS = 256,
    MATMUL_TILE = 64, /* rows and columns of a tile; a thread has a square of MATMUL_OWN */
    MATMUL_OWN = 4,
    MATMUL_DEPTH = 16,
    MATMUL_PITCH = MATMUL_TILE + 4
};

/* Which index of an operand is contiguous in memory: [line][depth], or [depth][line]. The lines of the first operand
 * are the product's rows, those of the second its columns. */
enum matmul_order { BY_DEPTH, BY_LINE };

struct matmul {
    int rows, columns, depth;
    const float *a, *b;
    int a_stride, b_stride;
};

/* A piece of an operand in shared memory. */
struct __align__(16) matmul_slab
{
    float at[MATMUL_DEPTH][MATMUL_PITCH];
};

static inline __host__ __device__ int matmul_tiles(int rows, int columns)
{
    return (rows + MATMUL_TILE - 1) / MATMUL_TILE * ((columns + MATMUL_TILE - 1) / MATMUL_TILE);
}

/* This thread's part of a slab, zero beyond the operand's end. */
template <enum matmul_order ORDER>
DEVICE void matmul_fetch(const float *from, int stride, int lines, int depth, int first, int begin, float *part)
{
    const int t = (int)threadIdx.x;
#pragma unroll
    for (int i = 0; i < MATMUL_OWN; i++) {
        const int line = first + (ORDER == BY_DEPTH ? t / 16 + 16 * i : t % 64),
                  at = begin + (ORDER == BY_DEPTH ? t % 16 : t / 64 + 4 * i);
        const bool inside = line < lines && at < depth;
        const size_t place = ORDER == BY_DEPTH ? (size_t)line * (size_t)stride + (size_t)at
                                               : (size_t)at * (size_t)stride + (size_t)line;
        part[i] = inside ? from[place] : 0.0f;
    }
}

template <enum matmul_order ORDER> DEVICE void matmul_keep(struct matmul_slab *slab, const float *part)
{
    const int t = (int)threadIdx.x;
#pragma unroll
    for (int i = 0; i < MATMUL_OWN; i++)
        if (ORDER == BY_DEPTH)
            slab->at[t % 16][t / 16 + 16 * i] = part[i];
        else
            slab->at[t / 64 + 4 * i][t % 64] = part[i];
}

DEVICE void matmul_slabs(const struct matmul_slab &a, const struct matmul_slab &b, float sum[MATMUL_OWN][MATMUL_OWN])
{
    const int row = (int)threadIdx.x / 16 * MATMUL_OWN, column = (int)threadIdx.x % 16 * MATMUL_OWN;
#pragma unroll
    for (int k = 0; k < MATMUL_DEPTH; k++) {
        const float4 x = *(const float4 *)&a.at[k][row], y = *(const float4 *)&b.at[k][column];
        const float left[MATMUL_OWN] = {x.x, x.y, x.z, x.w}, right[MATMUL_OWN] = {y.x, y.y, y.z, y.w};
#pragma unroll
        for (int i = 0; i < MATMUL_OWN; i++)
#pragma unroll
            for (int j = 0; j < MATMUL_OWN; j++)
                sum[i][j] = fmaf(left[i], right[j], sum[i][j]);
    }
}

/*
 * One tile. start(column) is where an element's sum begins, put(row, column, sum) takes it; watch(slab, count) is shown
 * each slab of the first operand: `count` indices of the depth, at[depth][row - the tile's first].
 */
template <enum matmul_order A, enum matmul_order B, class Start, class Put, class Watch>
DEVICE void matmul_tile(const struct matmul &m, int tile, Start start, Put put, Watch watch)
{
    __shared__ struct matmul_slab slab_a, slab_b;
    const int across = (m.columns + MATMUL_TILE - 1) / MATMUL_TILE;
    const int row = tile / across * MATMUL_TILE, column = tile % across * MATMUL_TILE;
    const int own_row = row + (int)threadIdx.x / 16 * MATMUL_OWN,
              own_column = column + (int)threadIdx.x % 16 * MATMUL_OWN;
    const bool mine = own_row < m.rows && own_column < m.columns;
    float sum[MATMUL_OWN][MATMUL_OWN], part_a[MATMUL_OWN], part_b[MATMUL_OWN];
#pragma unroll
    for (int j = 0; j < MATMUL_OWN; j++) {
        const float first = own_column + j < m.columns ? start(own_column + j) : 0.0f;
#pragma unroll
        for (int i = 0; i < MATMUL_OWN; i++)
            sum[i][j] = first;
    }
    matmul_fetch<A>(m.a, m.a_stride, m.rows, m.depth, row, 0, part_a);
    matmul_fetch<B>(m.b, m.b_stride, m.columns, m.depth, column, 0, part_b);
    for (int begin = 0; begin < m.depth; begin += MATMUL_DEPTH) {
        __syncthreads(); /* the slabs before these have been read */
        matmul_keep<A>(&slab_a, part_a);
        matmul_keep<B>(&slab_b, part_b);
        __syncthreads();
        matmul_fetch<A>(m.a, m.a_stride, m.rows, m.depth, row, begin + MATMUL_DEPTH, part_a);
        matmul_fetch<B>(m.b, m.b_stride, m.columns, m.depth, column, begin + MATMUL_DEPTH, part_b);
        if (mine)
            matmul_slabs(slab_a, slab_b, sum);
        watch(slab_a, m.depth - begin < MATMUL_DEPTH ? m.depth - begin : (int)MATMUL_DEPTH);
    }
#pragma unroll
    for (int i = 0; i < MATMUL_OWN; i++)
#pragma unroll
        for (int j = 0; j < MATMUL_OWN; j++)
            if (own_row + i < m.rows && own_column + j < m.columns)
                put(own_row + i, own_column + j, sum[i][j]);
}

/* The thread blocks that share some work, and which of them this one is. */
struct share {
    int index, count;
};

/* This block's share of a product's tiles. */
template <enum matmul_order A, enum matmul_order B, class Start, class Put>
DEVICE void matmul_share(const struct matmul &m, const struct share &share, Start start, Put put)
{
    for (int tile = share.index; tile < matmul_tiles(m.rows, m.columns); tile += share.count)
        matmul_tile<A, B>(m, tile, start, put, [](const struct matmul_slab &, int) {});
}

#endif
