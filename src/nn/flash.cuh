/*
 * Causal attention of one head over one sequence by a thread block, in bf16 on the tensor cores: nn/attend.cuh for
 * operands that were rounded, and heads of HEAD numbers. A warp has sixteen rows, the block FLASH_ROWS of them; the
 * others come to shared memory FLASH_OTHERS at a time, the next ones while these are in use. Logarithms are to base 2.
 * What a token sees of later ones is exactly nothing.
 */
#ifndef NN_FLASH_CUH
#define NN_FLASH_CUH

#include "nn/attend.cuh"
#include "nn/product.cuh"

enum { FLASH_ROWS = 128, FLASH_OTHERS = 64, FLASH_THREADS = 2 * FLASH_ROWS, FLASH_MARKED = 4 * FLASH_OTHERS };

/* Rows in shared memory, padded so that eight lie in different banks: own ones first, then two pairs of tiles of
 * others, then two numbers per row, of own ones or of so many others. */
template <int HEAD> struct flash_sheet {
    enum {
        PITCH = 2 * (HEAD + 8),
        OTHERS = FLASH_OTHERS * PITCH,
        OWN = FLASH_ROWS * PITCH,
        FORWARD = OWN + 4 * OTHERS,
        MARKS = 2 * OWN + 4 * OTHERS,
        BACKWARD = MARKS + FLASH_MARKED * 8
    };
};

/* What the two numbers of each of some queries come from, four lanes to a query: its logarithm, and its output times
 * that one's gradient; zeros beyond the sequence. Kept while the first tiles are asked for. */
template <int HEAD, int ROWS> struct flash_marking {
    enum { PART = HEAD / 4, EACH = FLASH_THREADS / 4, TIMES = ROWS / EACH };
    uint4 out[TIMES][PART / 8], dout[TIMES][PART / 8];
    float log[TIMES];
};

/* A head in the works. */
template <int HEAD> struct flash {
    typedef flash_sheet<HEAD> sheet;
    enum { TILES = HEAD / 16 };
    const struct attended<struct bf16> a;
    uint32_t wide, width, at; /* numbers of a row of qkv and of out; where the head begins in them */
    int head, row;            /* row: the first of the block's */
    uint32_t shared;

    __device__ __forceinline__ flash(const struct attended<struct bf16> &given, int index, int part, uint32_t memory)
        : a(given), wide((uint32_t)(3 * given.heads * HEAD)), width((uint32_t)(given.heads * HEAD)),
          at((uint32_t)(index * HEAD)), head(index), row(part * FLASH_ROWS), shared(memory)
    {
    }
    /* The first of the warp's. */
    __device__ __forceinline__ int own() const
    {
        return row + (int)threadIdx.x / 32 * 16;
    }
    /* The warp's rows of an own sheet. */
    __device__ __forceinline__ uint32_t own_sheet(int which) const
    {
        return shared + (uint32_t)(which * sheet::OWN + (int)threadIdx.x / 32 * 16 * sheet::PITCH);
    }
    __device__ __forceinline__ uint32_t others(int owns, int turn, int which) const
    {
        return shared + (uint32_t)(owns * sheet::OWN + (turn % 2 * 2 + which) * sheet::OTHERS);
    }
    /* 16 bytes of a row of the sheet at `first`. */
    static __device__ __forceinline__ uint32_t in_sheet(uint32_t first, int r, int chunk)
    {
        return first + (uint32_t)(r * sheet::PITCH + chunk * 16);
    }
    /* Rows from `first`, zeros beyond the sequence. */
    __device__ __forceinline__ void fetch(uint32_t to, const struct bf16 *from, uint32_t stride, int first,
                                          int rows) const
    {
        enum { CHUNKS = HEAD / 8 };
#pragma unroll 1 /* addresses of all of them would take the registers of the sums */
        for (int i = (int)threadIdx.x; i < rows * CHUNKS; i += FLASH_THREADS) {
            const int r = i / CHUNKS, chunk = i % CHUNKS;
            const bool there = first + r < a.length;
            copy_async_or_zero(in_sheet(to, r, chunk),
                               from + ((there ? (uint32_t)(first + r) * stride : 0) + at + (uint32_t)(8 * chunk)),
                               there);
        }
    }
    __device__ __forceinline__ void load(uint32_t (*x)[4], uint32_t sheet_at) const
    {
#pragma unroll
        for (int d = 0; d < TILES; d++)
            load(d, x[d], sheet_at);
    }
    __device__ __forceinline__ void load(int d, uint32_t x[4], uint32_t sheet_at) const
    {
        matrices_a<true>(x, [&](int r, int chunk) { return in_sheet(sheet_at, r, 2 * d + chunk); });
    }
    /* s[2] of each of so many times sixteen rows += x times the rows transposed; own(d, x): a tile of x. */
    template <int TIMES, class Own> __device__ __forceinline__ void meet(float (*s)[4], Own own, uint32_t rows) const
    {
#pragma unroll
        for (int d = 0; d < TILES; d++) {
            uint32_t x[4];
            own(d, x);
#pragma unroll
            for (int n = 0; n < TIMES; n++) {
                uint32_t b[4];
                matrices_b<true>(b, [&](int r, int chunk) { return in_sheet(rows, 16 * n + r, 2 * d + chunk); });
                mma_bf16(s[2 * n], x, b[0], b[1]);
                mma_bf16(s[2 * n + 1], x, b[2], b[3]);
            }
        }
    }
    /* to[HEAD / 8] += weights times sixteen rows. */
    __device__ __forceinline__ void mix(float (*to)[4], const float (*s)[4], uint32_t rows) const
    {
        const uint32_t weights[4] = {pack_bf16(s[0][0], s[0][1]), pack_bf16(s[0][2], s[0][3]),
                                     pack_bf16(s[1][0], s[1][1]), pack_bf16(s[1][2], s[1][3])};
#pragma unroll
        for (int d = 0; d < TILES; d++) {
            uint32_t b[4];
            matrices_b<false>(b, [&](int r, int chunk) { return in_sheet(rows, r, 2 * d + chunk); });
            mma_bf16(to[2 * d], weights, b[0], b[1]);
            mma_bf16(to[2 * d + 1], weights, b[2], b[3]);
        }
    }
    __device__ __forceinline__ void store(struct bf16 *to, uint32_t stride, const float (*x)[4],
                                          const float *times) const
    {
        const int lane = (int)threadIdx.x % 32;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int r = own() + lane / 4 + 8 * half;
            if (r >= a.length)
                continue;
#pragma unroll
            for (int j = 0; j < HEAD / 8; j++) {
                const few<2> two = {{x[j][2 * half] * times[half], x[j][2 * half + 1] * times[half]}};
                keep(to + ((uint32_t)r * stride + at + (uint32_t)(8 * j + 2 * (lane % 4))), two);
            }
        }
    }
    /* Asks for what yields the two numbers of ROWS queries from `first`. */
    template <int ROWS> __device__ __forceinline__ void ask(struct flash_marking<HEAD, ROWS> &m, int first) const
    {
#pragma unroll
        for (int i = 0; i < m.TIMES; i++) {
            const int query = first + (int)threadIdx.x / 4 + i * m.EACH;
            if (query >= a.length)
                continue;
            const uint32_t place = (uint32_t)query * width + at + (uint32_t)((int)threadIdx.x % 4 * m.PART);
            m.log[i] = a.logs[(size_t)query * (size_t)a.heads + (size_t)head];
#pragma unroll
            for (int d = 0; d < m.PART / 8; d++) {
                m.out[i][d] = reinterpret_cast<const uint4 *>(a.out + place)[d];
                m.dout[i][d] = reinterpret_cast<const uint4 *>(a.dout + place)[d];
            }
        }
    }
    template <int ROWS>
    __device__ __forceinline__ void mark(uint32_t to, const struct flash_marking<HEAD, ROWS> &m) const
    {
#pragma unroll
        for (int i = 0; i < m.TIMES; i++) {
            float sum = 0;
#pragma unroll
            for (int d = 0; d < m.PART / 8; d++) {
                const uint32_t x[4] = {m.out[i][d].x, m.out[i][d].y, m.out[i][d].z, m.out[i][d].w},
                               y[4] = {m.dout[i][d].x, m.dout[i][d].y, m.dout[i][d].z, m.dout[i][d].w};
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    sum = fmaf(bf16_lo(x[e]), bf16_lo(y[e]), sum);
                    sum = fmaf(bf16_hi(x[e]), bf16_hi(y[e]), sum);
                }
            }
            sum += exchange(sum, 1);
            sum += exchange(sum, 2);
            if (threadIdx.x % 4 == 0)
                store_shared_64(to + (uint32_t)(8 * ((int)threadIdx.x / 4 + i * m.EACH)), __float_as_uint(m.log[i]),
                                __float_as_uint(sum));
        }
    }
};

/* Element e of two neighbouring tiles of sums: its row and its column among sixteen. */
DEVICE int flash_row(int e)
{
    return (int)threadIdx.x % 32 / 4 + e % 4 / 2 * 8;
}

DEVICE int flash_column(int e)
{
    return e / 4 * 8 + 2 * ((int)threadIdx.x % 4) + e % 2;
}

template <int HEAD> DEVICE float flash_scale()
{
    return 1 / sqrtf((float)HEAD);
}

#define FLASH_LOG2E 1.44269504f

/* Tiles of a warp's rows that are in registers. */
struct flash_held {
    const uint32_t (*x)[4];

    __device__ __forceinline__ explicit flash_held(const uint32_t (*given)[4]) : x(given)
    {
    }
    __device__ __forceinline__ void operator()(int d, uint32_t to[4]) const
    {
#pragma unroll
        for (int k = 0; k < 4; k++)
            to[k] = x[d][k];
    }
};

/* Nothing is left of scores where not sees(column, row). Whoever knows that all are seen need not ask: a copy of the
 * code for either case would be fetched anew by every launch. */
template <int TILES, class Sees> DEVICE void flash_hide(float (&s)[TILES][4], Sees sees)
{
#pragma unroll
    for (int j = 0; j < TILES; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (!sees(8 * j + flash_column(e), flash_row(e)))
                s[j][e] = -INFINITY;
}

/* What a warp has of its queries so far. */
template <int HEAD> struct flash_sums {
    float out[HEAD / 8][4], top[2], total[2];
};

/* Sixteen queries against a tile of keys from `begin`, as far as they see them. */
template <int HEAD>
DEVICE void flash_tile(const struct flash<HEAD> &w, struct flash_sums<HEAD> &sums, const uint32_t (*q)[4], int begin,
                       uint32_t keys, uint32_t values)
{
    enum { BLOCKS = FLASH_OTHERS / 16 };
    const float scale = flash_scale<HEAD>() * FLASH_LOG2E;
    float s[2 * BLOCKS][4] = {}, top[2] = {sums.top[0], sums.top[1]};
#pragma unroll
    for (int n = 0; n < BLOCKS; n++)
        if (begin + 16 * n <= w.own())
            w.template meet<1>(&s[2 * n], flash_held(q), keys + (uint32_t)(16 * n * flash_sheet<HEAD>::PITCH));
    if (begin + FLASH_OTHERS > w.own())
        flash_hide(s, [&](int column, int row) { return begin + column <= w.own() + row; });
#pragma unroll
    for (int j = 0; j < 2 * BLOCKS; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            top[e / 2] = fmaxf(top[e / 2], s[j][e]);
    float shift[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        top[r] = fmaxf(top[r], exchange(top[r], 1));
        top[r] = fmaxf(top[r], exchange(top[r], 2));
        const float keep = quick_exp2((sums.top[r] - top[r]) * scale);
        sums.top[r] = top[r];
        shift[r] = -top[r] * scale;
        sums.total[r] *= keep;
#pragma unroll
        for (int j = 0; j < HEAD / 8; j++) {
            sums.out[j][2 * r] *= keep;
            sums.out[j][2 * r + 1] *= keep;
        }
    }
#pragma unroll
    for (int n = 0; n < BLOCKS; n++) {
#pragma unroll
        for (int e = 0; e < 8; e++) {
            float &p = s[2 * n + e / 4][e % 4];
            p = quick_exp2(fmaf(p, scale, shift[e % 4 / 2]));
            sums.total[e % 4 / 2] += p;
        }
        if (begin + 16 * n <= w.own())
            w.mix(sums.out, &s[2 * n], values + (uint32_t)(16 * n * flash_sheet<HEAD>::PITCH));
    }
}

/* Part `part` of the queries of a head. */
template <int HEAD>
DEVICE void flash_forward(const struct attended<struct bf16> &a, int head, int part, uint32_t shared)
{
    const struct flash<HEAD> w(a, head, part, shared);
    const int last = w.row + FLASH_ROWS < w.a.length ? w.row + FLASH_ROWS : w.a.length;
    flash_sums<HEAD> sums = {{}, {-INFINITY, -INFINITY}, {0, 0}};
    uint32_t q[HEAD / 16][4];
    const auto fetch = [&](int turn) {
        const int begin = turn * FLASH_OTHERS;
        if (begin < last) {
            w.fetch(w.others(1, turn, 0), w.a.qkv + w.width, w.wide, begin, FLASH_OTHERS);
            w.fetch(w.others(1, turn, 1), w.a.qkv + 2 * w.width, w.wide, begin, FLASH_OTHERS);
        }
        copy_commit();
    };
    __syncthreads();
    w.fetch(shared, w.a.qkv, w.wide, w.row, FLASH_ROWS);
    fetch(0);
#pragma unroll 1
    for (int turn = 0; turn * FLASH_OTHERS < last; turn++) {
        fetch(turn + 1);
        copy_wait<1>();
        __syncthreads();
        if (turn == 0)
            w.load(q, w.own_sheet(0));
        const int begin = turn * FLASH_OTHERS;
        const uint32_t keys = w.others(1, turn, 0), values = w.others(1, turn, 1);
        if (w.own() < w.a.length && begin <= w.own())
            flash_tile(w, sums, q, begin, keys, values);
        __syncthreads();
    }
    copy_wait<0>();
    float times[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float total = sums.total[r] + exchange(sums.total[r], 1);
        total += exchange(total, 2);
        times[r] = 1 / total;
        const int query = w.own() + flash_row(2 * r);
        if (threadIdx.x % 4 == 0 && query < w.a.length)
            w.a.logs[(size_t)query * (size_t)w.a.heads + (size_t)head] =
                sums.top[r] * (flash_scale<HEAD>() * FLASH_LOG2E) + log2f(total);
    }
    w.store(w.a.out, w.width, sums.out, times);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* What a warp takes at once: tiles of sixteen others, so that one's products run while another waits for its own. */
enum { FLASH_TIMES = 2, FLASH_STEP = 16 * FLASH_TIMES };

struct flash_step {
    float s[2 * FLASH_TIMES][4], dp[2 * FLASH_TIMES][4];
};

/* From scores and dp to probabilities, in `s`, and gradients of the scores, in `dp`, but for their scale, sixteen rows
 * and eight columns of them. mark(e): the query's two numbers. */
template <int HEAD, class Mark> DEVICE void flash_again(float s[4], float dp[4], Mark mark)
{
    const float scale = flash_scale<HEAD>() * FLASH_LOG2E;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const struct few<2> two = mark(e);
        s[e] = quick_exp2(fmaf(s[e], scale, -two.v[0]));
        dp[e] = s[e] * (dp[e] - two.v[1]);
    }
}

DEVICE struct few<2> flash_marked(uint32_t at) {
    uint32_t two[2];
    load_shared_64(two, at);
    return {{__uint_as_float(two[0]), __uint_as_float(two[1])}};
}

/* The warp's queries in the works: tiles of them and of the gradient of what they yield, their two numbers each. */
template <int HEAD>
struct flash_queries {
    uint32_t q[HEAD / 16][4], g[HEAD / 16][4];
    few<2> own[2];
    float dq[HEAD / 8][4];
};

/* Its queries against FLASH_STEP keys from `key`. */
template <int HEAD>
DEVICE void flash_query_step(const struct flash<HEAD> &w, struct flash_queries<HEAD> &own, int key, uint32_t keys,
                             uint32_t values)
{
    struct flash_step step = {};
    w.template meet<FLASH_TIMES>(step.s, flash_held(own.q), keys);
    w.template meet<FLASH_TIMES>(step.dp, flash_held(own.g), values);
    if (key + FLASH_STEP > w.own())
        flash_hide(step.s, [&](int column, int row) { return key + column <= w.own() + row; });
#pragma unroll
    for (int j = 0; j < 2 * FLASH_TIMES; j++)
        flash_again<HEAD>(step.s[j], step.dp[j], [&](int e) { return own.own[e / 2]; });
#pragma unroll
    for (int n = 0; n < FLASH_TIMES; n++)
        w.mix(own.dq, &step.dp[2 * n], keys + (uint32_t)(16 * n * flash_sheet<HEAD>::PITCH));
}

/* Gradients of a part of the queries. */
template <int HEAD>
DEVICE void flash_backward_queries(const struct attended<struct bf16> &a, int head, int part, uint32_t shared)
{
    typedef flash_sheet<HEAD> sheet;
    const struct flash<HEAD> w(a, head, part, shared);
    const int last = w.row + FLASH_ROWS < w.a.length ? w.row + FLASH_ROWS : w.a.length;
    const uint32_t marks = shared + sheet::MARKS;
    flash_queries<HEAD> own = {};
    flash_marking<HEAD, FLASH_ROWS> marking = {};
    const auto fetch = [&](int turn) {
        const int begin = turn * FLASH_OTHERS;
        if (begin < last) {
            w.fetch(w.others(2, turn, 0), w.a.qkv + w.width, w.wide, begin, FLASH_OTHERS);
            w.fetch(w.others(2, turn, 1), w.a.qkv + 2 * w.width, w.wide, begin, FLASH_OTHERS);
        }
        copy_commit();
    };
    __syncthreads();
    w.ask(marking, w.row);
    w.fetch(shared, w.a.qkv, w.wide, w.row, FLASH_ROWS);
    w.fetch(shared + sheet::OWN, w.a.dout, w.width, w.row, FLASH_ROWS);
    fetch(0);
    w.mark(marks, marking);
#pragma unroll 1
    for (int turn = 0; turn * FLASH_OTHERS < last; turn++) {
        fetch(turn + 1);
        copy_wait<1>();
        __syncthreads();
        if (turn == 0) {
            w.load(own.q, w.own_sheet(0));
            w.load(own.g, w.own_sheet(1));
            for (int r = 0; r < 2; r++)
                own.own[r] = flash_marked(marks + (uint32_t)(8 * (w.own() - w.row + flash_row(2 * r))));
        }
#pragma unroll 1
        for (int n = 0; n < FLASH_OTHERS && w.own() < w.a.length; n += FLASH_STEP) {
            const int key = turn * FLASH_OTHERS + n;
            const uint32_t down = (uint32_t)(n * sheet::PITCH);
            if (key > w.own())
                break;
            flash_query_step(w, own, key, w.others(2, turn, 0) + down, w.others(2, turn, 1) + down);
        }
        __syncthreads();
    }
    copy_wait<0>();
    const float times[2] = {flash_scale<HEAD>(), flash_scale<HEAD>()};
    w.store(w.a.dqkv, w.wide, own.dq, times);
}

/* The warp's keys and values in the works. They stay in shared memory: there are twice as many sums. */
template <int HEAD> struct flash_keys {
    float dk[HEAD / 8][4], dv[HEAD / 8][4];
};

/* Its keys against FLASH_STEP queries from `query`, whose numbers are at `marks`: rows are keys here, columns
 * queries. */
template <int HEAD>
DEVICE void flash_key_step(const struct flash<HEAD> &w, struct flash_keys<HEAD> &own, int query, uint32_t queries,
                           uint32_t gradients, uint32_t marks)
{
    struct flash_step step = {};
    const auto from = [&](int which) {
        return [&w, which](int d, uint32_t x[4]) { w.load(d, x, w.own_sheet(which)); };
    };
    w.template meet<FLASH_TIMES>(step.s, from(0), queries);
    w.template meet<FLASH_TIMES>(step.dp, from(1), gradients);
    if (query < w.own() + 16 || query + FLASH_STEP > w.a.length)
        flash_hide(step.s,
                   [&](int column, int row) { return w.own() + row <= query + column && query + column < w.a.length; });
#pragma unroll
    for (int j = 0; j < 2 * FLASH_TIMES; j++) {
        uint32_t two[4]; /* of two neighbouring columns */
        load_shared_128(two, marks + (uint32_t)(8 * (8 * j + flash_column(0))));
        flash_again<HEAD>(step.s[j], step.dp[j], [&](int e) {
            return few<2>{{__uint_as_float(two[e % 2 * 2]), __uint_as_float(two[e % 2 * 2 + 1])}};
        });
    }
#pragma unroll
    for (int n = 0; n < FLASH_TIMES; n++) {
        const uint32_t down = (uint32_t)(16 * n * flash_sheet<HEAD>::PITCH);
        w.mix(own.dv, &step.s[2 * n], gradients + down);
        w.mix(own.dk, &step.dp[2 * n], queries + down);
    }
}

/* Gradients of a part of the keys, and of its values. */
template <int HEAD>
DEVICE void flash_backward_keys(const struct attended<struct bf16> &a, int head, int part, uint32_t shared)
{
    typedef flash_sheet<HEAD> sheet;
    const struct flash<HEAD> w(a, head, part, shared);
    const uint32_t marks = shared + sheet::MARKS;
    flash_keys<HEAD> own = {};
    const auto fetch = [&](int turn) {
        const int begin = w.row + turn * FLASH_OTHERS;
        if (begin < w.a.length) {
            w.fetch(w.others(2, turn, 0), w.a.qkv, w.wide, begin, FLASH_OTHERS);
            w.fetch(w.others(2, turn, 1), w.a.dout, w.width, begin, FLASH_OTHERS);
        }
        copy_commit();
    };
    __syncthreads();
    w.fetch(shared, w.a.qkv + w.width, w.wide, w.row, FLASH_ROWS);
    w.fetch(shared + sheet::OWN, w.a.qkv + 2 * w.width, w.wide, w.row, FLASH_ROWS);
    fetch(0);
#pragma unroll 1
    for (int turn = 0; w.row + turn * FLASH_OTHERS < w.a.length; turn++) {
        const int begin = w.row + turn * FLASH_OTHERS, mark = turn * FLASH_OTHERS % FLASH_MARKED;
        if (mark == 0) {
            flash_marking<HEAD, FLASH_MARKED> marking = {};
            w.ask(marking, begin);
            fetch(turn + 1);
            w.mark(marks, marking);
        } else {
            fetch(turn + 1);
        }
        copy_wait<1>();
        __syncthreads();
#pragma unroll 1
        for (int n = 0; n < FLASH_OTHERS && w.own() < w.a.length; n += FLASH_STEP) {
            const int query = begin + n;
            const uint32_t down = (uint32_t)(n * sheet::PITCH);
            if (query + FLASH_STEP <= w.own() || query >= w.a.length)
                continue;
            flash_key_step(w, own, query, w.others(2, turn, 0) + down, w.others(2, turn, 1) + down,
                           marks + (uint32_t)((mark + n) * 8));
        }
        __syncthreads();
    }
    copy_wait<0>();
    const float scaled[2] = {flash_scale<HEAD>(), flash_scale<HEAD>()}, as_it_is[2] = {1, 1};
    w.store(w.a.dqkv + w.width, w.wide, own.dk, scaled);
    w.store(w.a.dqkv + 2 * w.width, w.wide, own.dv, as_it_is);
}

static inline __host__ __device__ int flash_parts(int length)
{
    return (length + FLASH_ROWS - 1) / FLASH_ROWS;
}

#endif
