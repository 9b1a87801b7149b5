/*
 * Matrix products in bf16 on the tensor cores by a thread block, tile by tile, with fp32 sums: nn/matmul.cuh for
 * operands that were rounded. Slabs of both operands are copied to shared memory some ahead of the one that is
 * multiplied. A sum starts with a given number and takes slabs from the first to the last: an element's bits depend on
 * its own row and column alone, neither on the tile it is in nor on how many rows there are.
 *
 * An operand's contiguous index has multiples of eight numbers, and so has its stride; rows may be any number.
 */
#ifndef NN_PRODUCT_CUH
#define NN_PRODUCT_CUH

#include "cuda/warpgroup.cuh"
#include "nn/few.cuh"
#include "nn/matmul.cuh"

enum { PRODUCT_DEPTH = 64 };

struct tile_product {
    int rows, columns, depth;
    const struct bf16 *a, *b;
    int a_stride, b_stride;
};

/* A tile of the product by so many warps: DOWN share its rows, ACROSS its columns. GROUPS: where the card has
 * warpgroups, these multiply instead, 64 rows each, and DEEP slabs are in shared memory: one that is multiplied, the
 * one before if there are more than three, and those that are on their way. Elsewhere these are as many as memory has
 * for. Only what the device alone sees depends on that. */
template <int ROWS, int COLUMNS, int DOWN, int ACROSS_, bool GROUPS = false, int DEEP_ = 3> struct product_tile {
    enum {
        M = ROWS,
        N = COLUMNS,
        WARPS = DOWN * ACROSS_,
        THREADS = 32 * WARPS,
        GROUPED = GROUPS && WARPGROUPS,
        DEEP = DEEP_,
        STAGES = GROUPED || DEEP <= 3 ? DEEP : 2,
        FLIGHT = GROUPED && STAGES > 3, /* products of so many slabs run while those of the next are begun */
        AHEAD = STAGES - 1 - FLIGHT,
        TEAM = GROUPED ? 4 : 1, /* warps that multiply together, one below the other */
        ACROSS = GROUPED ? WARPS * 16 / M : ACROSS_,
        WARP_M = GROUPED ? GROUP_ROWS / TEAM : M / DOWN,
        WARP_N = N / ACROSS,
        OWN_M = WARP_M / 16, /* of a warp: tiles of m16n8k16 */
        OWN_N = WARP_N / 8
    };
    static_assert(WARP_M % 16 == 0 && WARP_N % 32 == 0, "whole fragments, and four of them side by side");
    static_assert(!GROUPED || (M % GROUP_ROWS == 0 && WARPS * 16 % M == 0), "whole warpgroups");
    float sum[OWN_M][OWN_N][4];
};
/* A thread block of the wide tile fills a processor with warpgroups, two of the plain one do. */
#ifdef EMULATE /* smaller, or a test's few rows would be one of them */
typedef struct product_tile<64, 128, 2, 4, true, 5> wide_tile;
typedef struct product_tile<64, 128, 2, 4, true> plain_tile;
#else
typedef struct product_tile<192, 128, 3, 4, true, 5> wide_tile;
typedef struct product_tile<128, 128, 2, 4, true> plain_tile;
#endif

/* A piece of an operand in shared memory: rows of 128 bytes, which are the depth of a line or, BY_LINE, 64 lines; more
 * lines are further blocks of as many rows as the depth has. Chunks of 16 bytes are swizzled, so that eight rows have a
 * chunk in different banks, and as warpgroups expect it. */
enum { SLAB_ROW = 2 * PRODUCT_DEPTH, SLAB_BLOCK = PRODUCT_DEPTH * SLAB_ROW, SLAB_ALIGN = 8 * SLAB_ROW };

/* Slabs of both operands in each stage, and ones to sum lines with. A launch asks for MOST, or as much as there is. */
template <class T> struct product_shared {
    enum {
        A_BYTES = T::M * SLAB_ROW,
        STAGE = A_BYTES + T::N * SLAB_ROW,
        ONES = T::STAGES * STAGE,
        BYTES = ONES + SLAB_ALIGN + SLAB_ALIGN, /* to begin at a multiple */
        MOST = BYTES + (T::DEEP - T::STAGES) * STAGE
    };
    static_assert(A_BYTES % SLAB_ALIGN == 0 && STAGE % SLAB_ALIGN == 0, "all slabs begin at multiples");
};

template <class T> static inline __host__ __device__ int product_tiles(int rows, int columns)
{
    return (rows + T::M - 1) / T::M * ((columns + T::N - 1) / T::N);
}

/* ---- slabs ------------------------------------------------------------------------------------------------------- */

/* Byte offset in a slab of a chunk of a row. */
DEVICE uint32_t slab_chunk(int row, int chunk)
{
    return (uint32_t)(chunk / 8 * SLAB_BLOCK + row * SLAB_ROW + (chunk ^ row) % 8 * 16);
}

/* The same of a line and an index of the depth, multiples of eight, and so many rows and chunks on. */
template <enum matmul_order ORDER> DEVICE uint32_t slab_at(int line, int at, int row = 0, int chunk = 0)
{
    return ORDER == BY_DEPTH ? slab_chunk(line + row, at / 8 + chunk) : slab_chunk(at + row, line / 8 + chunk);
}

/* A thread's part of an operand's slabs, one after the other: chunks below one another, zeros beyond the operand. */
template <enum matmul_order ORDER, int LINES, int THREADS> struct slab_source {
    enum {
        ROWS = ORDER == BY_DEPTH ? LINES : (int)PRODUCT_DEPTH,
        CHUNKS = (ORDER == BY_DEPTH ? (int)PRODUCT_DEPTH : LINES) / 8, /* of an operand's row */
        EACH = THREADS / CHUNKS                                        /* rows at a time */
    };
    static_assert(CHUNKS % 8 == 0, "whole rows of a slab");
    static_assert(THREADS % CHUNKS == 0 && EACH % 8 == 0, "a thread's chunks are below one another");
    const struct bf16 *own; /* the first chunk of the next slab */
    int stride;
    int below, beside; /* rows of the operand from there on, and numbers in a row */
    uint32_t at;       /* its place in a slab */

    __device__ __forceinline__ slab_source(const struct bf16 *from, int apart, int lines, int depth, int first)
        : stride(apart)
    {
        const int chunk = (int)threadIdx.x % CHUNKS, top = (int)threadIdx.x / CHUNKS,
                  row = (ORDER == BY_DEPTH ? first : 0) + top, column = (ORDER == BY_DEPTH ? 0 : first) + 8 * chunk;
        own = from + (size_t)row * (size_t)stride + (size_t)column;
        below = (ORDER == BY_DEPTH ? lines : depth) - row;
        beside = (ORDER == BY_DEPTH ? depth : lines) - column;
        at = slab_chunk(top, chunk);
    }
    /* The next slab, on its way to `to`. WHOLE: none of it is beyond the operand. */
    template <bool WHOLE> __device__ __forceinline__ void fetch(uint32_t to)
    {
        const int there = beside > 0 ? below : 0;
#pragma unroll
        for (int i = 0; i < (ROWS + EACH - 1) / EACH; i++) {
            const struct bf16 *from = own + i * EACH * stride;
            const uint32_t place = to + at + (uint32_t)(i * EACH * SLAB_ROW);
            if (ROWS % EACH > 0 && (int)threadIdx.x / CHUNKS + i * EACH >= ROWS)
                continue;
            if (WHOLE)
                copy_async(place, from);
            else
                copy_async_or_zero(place, from, i * EACH < there);
        }
        if (ORDER == BY_DEPTH) {
            own += PRODUCT_DEPTH;
            beside -= PRODUCT_DEPTH;
        } else {
            own += PRODUCT_DEPTH * stride;
            below -= PRODUCT_DEPTH;
        }
    }
};

/* Four 8 x 8 matrices, down first or across first: at(row, chunk) of what this lane has to name. */
template <class At> DEVICE uint32_t matrices_down(At at)
{
    const int lane = (int)threadIdx.x % 32;
    return at((lane >> 3 & 1) * 8 + (lane & 7), lane >> 4);
}

template <class At> DEVICE uint32_t matrices_across(At at)
{
    const int lane = (int)threadIdx.x % 32;
    return at((lane >> 4) * 8 + (lane & 7), lane >> 3 & 1);
}

/* A of sixteen lines and a depth of sixteen; at(row, chunk) is the address of a row and 16 bytes of it. */
template <bool BY_DEPTHS, class At> DEVICE void matrices_a(uint32_t a[4], At at)
{
    if (BY_DEPTHS)
        load_matrix(a, matrices_down(at));
    else
        load_matrix_transposed(a, matrices_across(at));
}

/* B likewise: b[0] and b[1] of the first eight lines, b[2] and b[3] of the others. */
template <bool BY_DEPTHS, class At> DEVICE void matrices_b(uint32_t b[4], At at)
{
    if (BY_DEPTHS)
        load_matrix(b, matrices_across(at));
    else
        load_matrix_transposed(b, matrices_down(at));
}

/* ---- a tile ------------------------------------------------------------------------------------------------------ */

/* Where the part of a tile begins that is this warp's and of those that multiply together with it; then its own. */
template <class T> DEVICE int team_row()
{
    return (int)threadIdx.x / 32 / T::TEAM / T::ACROSS * T::TEAM * T::WARP_M;
}

template <class T> DEVICE int warp_row()
{
    return team_row<T>() + (int)threadIdx.x / 32 % T::TEAM * T::WARP_M;
}

template <class T> DEVICE int warp_column()
{
    return (int)threadIdx.x / 32 / T::TEAM % T::ACROSS * T::WARP_N;
}

/* The sums of every column begin with start(column). */
template <class T, class Start> DEVICE void tile_start(T &tile, int column, int columns, Start start)
{
#pragma unroll
    for (int n = 0; n < T::OWN_N; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int own = column + warp_column<T>() + 8 * n + 2 * ((int)threadIdx.x % 4) + e;
            const float first = own < columns ? start(own) : 0.0f;
#pragma unroll
            for (int m = 0; m < T::OWN_M; m++)
                tile.sum[m][n][e] = tile.sum[m][n][e + 2] = first;
        }
}

/* Sums of the first operand's lines over the depth, which come with a product where SUMMED and `wanted`: in the layout
 * of the tile's sums, all columns the same. Warps that multiply together want the same. */
template <class T, bool SUMMED> struct tile_side {
    float sum[SUMMED ? (int)T::OWN_M : 1][4];
    bool wanted;
};

/* What a warp multiplies at a time: its lines of both operands over a depth of sixteen. */
template <class T> struct tile_operands {
    uint32_t a[T::OWN_M][4], b[T::OWN_N / 2][4];
};

template <enum matmul_order A, enum matmul_order B, class T>
DEVICE void tile_load(struct tile_operands<T> &own, uint32_t slab_a, uint32_t slab_b, int k)
{
#pragma unroll
    for (int n = 0; n < T::OWN_N / 2; n++)
        matrices_b<B == BY_DEPTH>(own.b[n], [&](int row, int chunk) {
            return slab_b + slab_at<B>(warp_column<T>() + 16 * n, k, row, chunk);
        });
#pragma unroll
    for (int m = 0; m < T::OWN_M; m++)
        matrices_a<A == BY_DEPTH>(
            own.a[m], [&](int row, int chunk) { return slab_a + slab_at<A>(warp_row<T>() + 16 * m, k, row, chunk); });
}

template <class T, bool SUMMED>
DEVICE void tile_multiply(T &tile, struct tile_side<T, SUMMED> &side, const struct tile_operands<T> &own)
{
#pragma unroll
    for (int m = 0; m < T::OWN_M; m++) {
#pragma unroll
        for (int n = 0; n < T::OWN_N; n++)
            mma_bf16(tile.sum[m][n], own.a[m], own.b[n / 2][n % 2 * 2], own.b[n / 2][n % 2 * 2 + 1]);
        if constexpr (SUMMED)
            if (side.wanted)
                mma_bf16(side.sum[m], own.a[m], TWO_ONES, TWO_ONES);
    }
}

/* The product of a slab of each by warps; the next operands are loaded while these are multiplied, and meanwhile()
 * runs while the first are on their way. */
template <enum matmul_order A, enum matmul_order B, class T, bool SUMMED, class F>
DEVICE void warp_slab(T &tile, struct tile_side<T, SUMMED> &side, uint32_t slab_a, uint32_t slab_b, F meanwhile)
{
    struct tile_operands<T> own[2];
    tile_load<A, B>(own[0], slab_a, slab_b, 0);
    meanwhile();
#pragma unroll
    for (int k = 0; k < PRODUCT_DEPTH / 16; k++) {
        if (k + 1 < PRODUCT_DEPTH / 16)
            tile_load<A, B>(own[(k + 1) % 2], slab_a, slab_b, 16 * (k + 1));
        tile_multiply(tile, side, own[k % 2]);
    }
}

/* What warpgroups multiply: lines from an address on, and indices of the depth from k on. */
DEVICE uint64_t slab_operand(uint32_t slab)
{
    return group_operand(slab, SLAB_BLOCK, SLAB_ALIGN);
}

template <enum matmul_order ORDER> DEVICE uint64_t slab_from(uint64_t operand, int k)
{
    return group_ahead(operand, slab_at<ORDER>(0, k));
}

/* Sums are in registers, before products are begun and when they are done. */
template <class T, bool SUMMED> DEVICE void tile_settle(T &tile, struct tile_side<T, SUMMED> &side)
{
    group_settle(tile.sum[0]);
    if constexpr (SUMMED)
        group_settle(side.sum);
}

/* The same by warpgroups, of slabs from their own first lines on; meanwhile() runs while they multiply. Lines are
 * summed first: after products the branch would make the compiler wait for them. */
template <enum matmul_order A, enum matmul_order B, class T, bool SUMMED, class F>
DEVICE void group_slab(T &tile, struct tile_side<T, SUMMED> &side, uint64_t a, uint64_t b, uint32_t ones, F meanwhile)
{
    if constexpr (!T::FLIGHT)
        tile_settle(tile, side);
    if constexpr (SUMMED)
        if (side.wanted) {
            group_fence();
#pragma unroll
            for (int k = 0; k < PRODUCT_DEPTH; k += 16)
                group_mma<A == BY_LINE, false>(side.sum, slab_from<A>(a, k), slab_operand(ones));
        }
    group_fence();
#pragma unroll
    for (int k = 0; k < PRODUCT_DEPTH; k += 16)
        group_mma<A == BY_LINE, B == BY_LINE>(tile.sum[0], slab_from<A>(a, k), slab_from<B>(b, k));
    group_commit();
    meanwhile();
    group_wait<T::FLIGHT>();
    if constexpr (!T::FLIGHT)
        tile_settle(tile, side);
}

/* The tile at `row` and `column` += the product. Warps without rows or columns of their own only help to copy. */
template <enum matmul_order A, enum matmul_order B, class T, bool SUMMED>
DEVICE void tile_add(T &tile, struct tile_side<T, SUMMED> &side, const struct tile_product &p, int row, int column,
                     uint32_t shared)
{
    typedef product_shared<T> memory;
    const int slabs = (p.depth + PRODUCT_DEPTH - 1) / PRODUCT_DEPTH;
    const int below = alike(team_row<T>()), beside = alike(warp_column<T>());
    const bool own = T::GROUPED || (row + below < p.rows && column + beside < p.columns);
    if constexpr (SUMMED)
        side.wanted = alike((int)side.wanted);
    shared = (shared + SLAB_ALIGN - 1) / SLAB_ALIGN * SLAB_ALIGN;
    slab_source<A, T::M, T::THREADS> lines_a(p.a, p.a_stride, p.rows, p.depth, row);
    slab_source<B, T::N, T::THREADS> lines_b(p.b, p.b_stride, p.columns, p.depth, column);
    const bool whole = row + T::M <= p.rows && column + T::N <= p.columns && p.depth % PRODUCT_DEPTH == 0;
    const uint64_t operand_a = slab_operand(shared + slab_at<A>(below, 0)),
                   operand_b = slab_operand(shared + memory::A_BYTES + slab_at<B>(beside, 0));
    const auto behind = [](uint32_t at) { return at + memory::STAGE < memory::ONES ? at + memory::STAGE : 0; };
    uint32_t next = 0, at = 0; /* where the next slab comes, and where the one is that is multiplied next */
    const auto fetch = [&](bool any) {
        if (any && whole) { /* the same in all threads */
            lines_a.template fetch<true>(shared + next);
            lines_b.template fetch<true>(shared + next + memory::A_BYTES);
        } else if (any) {
            lines_a.template fetch<false>(shared + next);
            lines_b.template fetch<false>(shared + next + memory::A_BYTES);
        }
        next = behind(next);
        copy_commit();
    };
    __syncthreads(); /* shared memory is nobody else's any more */
    if (SUMMED && T::GROUPED && threadIdx.x < SLAB_ALIGN / 16)
        store_shared_128(shared + memory::ONES + 16 * threadIdx.x, TWO_ONES, TWO_ONES, TWO_ONES, TWO_ONES);
#pragma unroll 1
    for (int slab = 0; slab < T::AHEAD; slab++)
        fetch(slab < slabs);
    if constexpr (T::GROUPED && T::FLIGHT)
        tile_settle(tile, side);
#pragma unroll 1
    for (int left = slabs; left > 0; left--, at = behind(at)) {
        copy_wait<T::AHEAD - 1>();
        if constexpr (T::GROUPED)
            group_publish();
        __syncthreads(); /* everybody's copies have arrived, and nobody reads the slab before any more */
        const auto ahead = [&] { fetch(left > T::AHEAD); };
        if (!own)
            ahead();
        else if constexpr (T::GROUPED)
            group_slab<A, B>(tile, side, group_ahead(operand_a, at), group_ahead(operand_b, at), shared + memory::ONES,
                             ahead);
        else
            warp_slab<A, B>(tile, side, shared + at, shared + at + memory::A_BYTES, ahead);
    }
    if constexpr (T::GROUPED && T::FLIGHT) {
        group_wait<0>();
        tile_settle(tile, side);
    }
    copy_wait<0>();
}

template <enum matmul_order A, enum matmul_order B, class T>
DEVICE void tile_add(T &tile, const struct tile_product &p, int row, int column, uint32_t shared)
{
    struct tile_side<T, false> none;
    tile_add<A, B>(tile, none, p, row, column, shared);
}

/* A warp's sums on their way out: sixteen rows, padded so that four of them lie in different banks; then lanes have
 * four neighbours each. */
template <class T> struct product_out {
    enum {
        FEW = 4,
        PITCH = T::WARP_N + 8,
        LANES = T::WARP_N / FEW, /* to a row */
        ROWS = 32 / LANES,       /* that all lanes have at once */
        AT_ONCE = 4,             /* times so many are on their way */
        WARP = 16 * PITCH * (int)sizeof(float)
    };
    static_assert(32 % LANES == 0 && 16 % (ROWS * AT_ONCE) == 0, "all lanes have as many");
    static_assert(T::WARPS * WARP <= product_shared<T>::ONES, "in the place of slabs");
};

/*
 * put(row, column, neighbours, beside(row, column, how many)) for every element of the tile; columns are multiples of
 * eight. By way of shared memory and in a loop: unrolled over a thread's sums, what is put would be tens of kilobytes
 * of code, which every launch fetches anew. What lies beside is asked for ahead of what is put, as stores in between
 * would make the loads wait for each other.
 */
template <class T, class Beside, class Put>
DEVICE void tile_put(const T &tile, int row, int column, int rows, int columns, uint32_t shared, Beside beside, Put put)
{
    typedef product_out<T> out;
    typedef std::integral_constant<int, out::FEW> neighbours;
    const int lane = (int)threadIdx.x % 32;
    const uint32_t own = shared + (uint32_t)((int)threadIdx.x / 32 * out::WARP);
    const auto place = [&](int r, int c) { return own + (uint32_t)((r * out::PITCH + c) * (int)sizeof(float)); };
    __syncthreads(); /* nobody reads slabs any more */
#pragma unroll
    for (int m = 0; m < T::OWN_M; m++) {
        __syncwarp();
#pragma unroll
        for (int n = 0; n < T::OWN_N; n++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                store_shared_64(place(lane / 4 + 8 * half, 8 * n + 2 * (lane % 4)),
                                __float_as_uint(tile.sum[m][n][2 * half]),
                                __float_as_uint(tile.sum[m][n][2 * half + 1]));
        __syncwarp();
        const int first = lane / out::LANES, across = lane % out::LANES * out::FEW,
                  i = row + warp_row<T>() + 16 * m + first, j = column + warp_column<T>() + across;
#pragma unroll 1
        for (int r = 0; r < 16 && j < columns; r += out::ROWS * out::AT_ONCE) {
            decltype(beside(0, 0, neighbours())) past[out::AT_ONCE] = {};
#pragma unroll
            for (int k = 0; k < out::AT_ONCE; k++)
                if (i + r + k * out::ROWS < rows)
                    past[k] = beside(i + r + k * out::ROWS, j, neighbours());
#pragma unroll
            for (int k = 0; k < out::AT_ONCE; k++) {
                uint32_t sum[out::FEW];
                load_shared_128(sum, place(first + r + k * out::ROWS, across));
                if (i + r + k * out::ROWS < rows)
                    put(i + r + k * out::ROWS, j,
                        few<out::FEW>{{__uint_as_float(sum[0]), __uint_as_float(sum[1]), __uint_as_float(sum[2]),
                                       __uint_as_float(sum[3])}},
                        past[k]);
            }
        }
    }
}

/* put(row, sum) for the lines of the tile, by the warps that have its first columns. */
template <class T, class Put> DEVICE void side_put(const struct tile_side<T, true> &side, int row, int rows, Put put)
{
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < T::OWN_M; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int i = row + warp_row<T>() + 16 * m + lane / 4 + 8 * half;
            if (side.wanted && lane % 4 == 0 && i < rows)
                put(i, side.sum[m][2 * half]);
        }
}

/* This block's share of a product's tiles. */
template <enum matmul_order A, enum matmul_order B, class T, class Start, class Beside, class Put>
DEVICE void product_share(const struct tile_product &p, const struct share &share, uint32_t shared, Start start,
                          Beside beside, Put put)
{
    const int across = (p.columns + T::N - 1) / T::N;
    for (int i = share.index; i < product_tiles<T>(p.rows, p.columns); i += share.count) {
        const int row = i / across * T::M, column = i % across * T::N;
        T tile;
        tile_start(tile, column, p.columns, start);
        tile_add<A, B>(tile, p, row, column, shared);
        tile_put(tile, row, column, p.rows, p.columns, shared, beside, put);
    }
}

#endif
