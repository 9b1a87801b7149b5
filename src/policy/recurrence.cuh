/*
 * The recurrence, forward and backward through time, each as one kernel whose thread blocks wait for each other once
 * per step.
 *
 * A block owns RECURRENT_UNITS units and keeps their weights in registers (32 768 of the 4 x 512 x 512 numbers, 64 per
 * thread); it processes the envs of its group in tiles of 16 rows. Each of 16 warps sums a fixed slice of k, and the
 * slices are added in order: neither depends on the number of envs or groups. Groups of envs do not wait for each
 * other.
 *
 * Predicted for width 512 on an H200, per step of up to 64 envs (4 groups of 32 blocks): synchronisation 1.0 us, state
 * from L2 0.7 (backward, 128 KB per block: 1.6), products 0.2, sum and cell 0.5: 2.4 us forward, 3.3 backward, so 150
 * steps x 4 epochs take 3.4 ms. A kernel per step in a graph would read all weights from L2 each time (0.8 us, and the
 * state) and pay for its launch and tail, about 4.5 us per step: 5.4 ms and 1 200 nodes.
 */
#ifndef POLICY_RECURRENCE_CUH
#define POLICY_RECURRENCE_CUH

#include "cuda/warp.cuh"

enum {
    GATES = 4,
    RECURRENT_UNITS = 16, /* of a block */
    RECURRENT_ROWS = 16,  /* of a tile of envs */
    RECURRENT_WARPS = 16,
    RECURRENT_THREADS = 32 * RECURRENT_WARPS,
    FORWARD_SLICE = 32, /* k of a warp: 16 x 32 = 512 units */
    BACK_SLICE = 128,   /* 16 x 128 = 4 gates of 512 units */
    FORWARD_COLUMNS = GATES * RECURRENT_UNITS,
    FORWARD_STRIDE = FORWARD_COLUMNS + 8, /* of a row of partial sums */
    BACK_STRIDE = RECURRENT_UNITS + 8,
    RECURRENT_WEIGHTS = 64 /* registers of a thread */
};

struct recurrence {
    int steps, envs, hidden;
    int blocks, groups; /* blocks of a group; the grid is groups x blocks */
    const float *w;     /* w_hh [4 * hidden][hidden] */
    const uint8_t *reset;
    float *gate;        /* [row][4 * hidden] */
    float *h_in, *c_in; /* [row][hidden], one step more */
    float *tanh_c, *h;
    float *dh, *dc, *dgate; /* of the backward pass; dc [env][hidden] */
    uint32_t *arrived;      /* [groups], zero at the launch */
    const uint32_t *off;    /* not 0: do nothing */
};

/* 16 rows x slice: in an exact product each warp has its own copy. */
template <int SLICE> DEVICE float *recurrent_rows(float *partial_end)
{
    return partial_end + threadIdx.x / 32 * RECURRENT_ROWS * SLICE;
}

static constexpr size_t FORWARD_PARTIAL = RECURRENT_WARPS * RECURRENT_ROWS * FORWARD_STRIDE;
static constexpr size_t BACK_PARTIAL = RECURRENT_WARPS * RECURRENT_ROWS * BACK_STRIDE;

static inline size_t forward_shared(bool exact)
{
    return sizeof(float) * (FORWARD_PARTIAL + (exact ? RECURRENT_WARPS * RECURRENT_ROWS * FORWARD_SLICE : 0));
}

static inline size_t back_shared(bool exact)
{
    return sizeof(float) * (BACK_PARTIAL + (exact ? RECURRENT_WARPS * RECURRENT_ROWS * BACK_SLICE : 0));
}

/* ---- synchronisation --------------------------------------------------------------------------------------------- */

#ifndef EMULATE
/* What the block has written (its threads have synchronised) is visible to any thread that acquires the new count. */
DEVICE void add_release(uint32_t *at, uint32_t value)
{
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
#else
DEVICE void add_release(uint32_t *at, uint32_t value)
{
    *at += value;
}
#endif

/* Called after all threads of the block have synchronised: its part of the step is done. */
DEVICE void group_arrive(uint32_t *arrived)
{
    if (threadIdx.x == 0)
        add_release(arrived, 1u);
}

DEVICE void group_wait(const uint32_t *arrived, uint32_t target)
{
    if (threadIdx.x == 0)
        while (load_acquire(arrived) < target)
            ;
    __syncthreads();
}

DEVICE float4 load_row4(const float *x, int row, int rows, ptrdiff_t stride, int k, int width)
{
    if (row >= rows || k >= width)
        return make_float4(0, 0, 0, 0);
    return __ldcg((const float4 *)(x + row * stride + k));
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/*
 * In tf32 a lane loads four neighbouring k at once, so that every 16 bytes are read by one lane: numbers 0 and 1 of the
 * four serve as k = t, t + 4 of a first instruction, 2 and 3 as those of a second one. The weights are stored to match.
 */
DEVICE int fragment_k(int pair, int t, int half) /* pair: which instruction; half: t or t + 4 */
{
    return pair / 2 * 16 + 4 * t + pair % 2 * 2 + half;
}

/* Rows g and g + 8 of 16 numbers k from `first`, as the fragments of two instructions. */
DEVICE void load_fragments(const float *x, int rows, ptrdiff_t stride, int first, int width, float4 of[2])
{
    const int g = threadIdx.x % 32 / 4, k = first + 4 * (threadIdx.x % 4);
    of[0] = load_row4(x, g, rows, stride, k, width);
    of[1] = load_row4(x, g + 8, rows, stride, k, width);
}

DEVICE void fragment(const float4 of[2], int i, uint32_t a[4])
{
    a[0] = to_tf32(i ? of[0].z : of[0].x);
    a[1] = to_tf32(i ? of[1].z : of[1].x);
    a[2] = to_tf32(i ? of[0].w : of[0].y);
    a[3] = to_tf32(i ? of[1].w : of[1].y);
}

DEVICE void store_sums(float *partial, int stride, int column, const float sum[4])
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    *(float2 *)(partial + g * stride + column + 2 * t) = make_float2(sum[0], sum[1]);
    *(float2 *)(partial + (g + 8) * stride + column + 2 * t) = make_float2(sum[2], sum[3]);
}

/* Copies the rows of a slice to the warp's own shared memory. */
template <int SLICE>
DEVICE void slice_stage(const float *x, int rows, ptrdiff_t stride, int first, int width, float *staged)
{
    __syncwarp();
    for (int i = threadIdx.x % 32; i < RECURRENT_ROWS * SLICE / 4; i += 32) {
        const int row = i / (SLICE / 4), k = i % (SLICE / 4) * 4;
        *(float4 *)(staged + row * SLICE + k) = load_row4(x, row, rows, stride, first + k, width);
    }
    __syncwarp();
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

DEVICE float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* The thread's weights. Column j of the block is unit j % 16 of gate j / 16. */
template <bool EXACT>
DEVICE void forward_weights(const struct recurrence *r, int block, float weight[RECURRENT_WEIGHTS])
{
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * FORWARD_SLICE;
#pragma unroll
    for (int i = 0; i < RECURRENT_WEIGHTS; i++) {
        const int column = EXACT ? lane + 32 * (i / FORWARD_SLICE) : i / 2 % 8 * 8 + lane / 4;
        const int k = first + (EXACT ? i % FORWARD_SLICE : fragment_k(i / 16, lane % 4, i % 2));
        const int gate = column / RECURRENT_UNITS, unit = block * RECURRENT_UNITS + column % RECURRENT_UNITS;
        float w = 0;
        if (unit < r->hidden && k < r->hidden)
            w = r->w[(ptrdiff_t)(gate * r->hidden + unit) * r->hidden + k];
        weight[i] = EXACT ? w : __uint_as_float(to_tf32(w));
    }
}

/* h of 16 envs times the block's weights: stores a warp's partial sums. */
DEVICE void forward_slice_exact(const float *h, int rows, int hidden, const float weight[RECURRENT_WEIGHTS],
                                float *partial)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = warp * FORWARD_SLICE;
    float *mine = partial + warp * RECURRENT_ROWS * FORWARD_STRIDE;
    if (first >= hidden)
        return;
    float *staged = recurrent_rows<FORWARD_SLICE>(partial + FORWARD_PARTIAL);
    slice_stage<FORWARD_SLICE>(h, rows, hidden, first, hidden, staged);
    for (int row = 0; row < RECURRENT_ROWS; row++) {
        float sum[2] = {0, 0};
#pragma unroll
        for (int k = 0; k < FORWARD_SLICE; k++) {
            const float x = staged[row * FORWARD_SLICE + k];
            sum[0] = fmaf(x, weight[k], sum[0]);
            sum[1] = fmaf(x, weight[FORWARD_SLICE + k], sum[1]);
        }
        mine[row * FORWARD_STRIDE + lane] = sum[0];
        mine[row * FORWARD_STRIDE + lane + 32] = sum[1];
    }
}

DEVICE void forward_slice_tf32(const float *h, int rows, int hidden, const float weight[RECURRENT_WEIGHTS],
                               float *partial)
{
    const int warp = threadIdx.x / 32, first = warp * FORWARD_SLICE;
    float *mine = partial + warp * RECURRENT_ROWS * FORWARD_STRIDE;
    if (first >= hidden)
        return;
    enum { PAIRS = FORWARD_SLICE / 8, TILES = FORWARD_COLUMNS / 8, GROUP = 4 };
    float4 x[PAIRS / 2][2];
    uint32_t a[PAIRS][4];
#pragma unroll
    for (int j = 0; j < PAIRS / 2; j++)
        load_fragments(h, rows, hidden, first + 16 * j, hidden, x[j]);
#pragma unroll
    for (int p = 0; p < PAIRS; p++)
        fragment(x[p / 2], p % 2, a[p]);
#pragma unroll
    for (int n = 0; n < TILES; n += GROUP) { /* a few columns at a time: the weights leave few registers */
        float sum[GROUP][4] = {};
#pragma unroll
        for (int p = 0; p < PAIRS; p++)
#pragma unroll
            for (int i = 0; i < GROUP; i++) {
                const int at = (p * TILES + n + i) * 2;
                mma_tf32(sum[i], a[p], __float_as_uint(weight[at]), __float_as_uint(weight[at + 1]));
            }
#pragma unroll
        for (int i = 0; i < GROUP; i++)
            store_sums(mine, FORWARD_STRIDE, 8 * (n + i), sum[i]);
    }
}

template <bool EXACT>
DEVICE void forward_slice(const float *h, int rows, int hidden, const float weight[RECURRENT_WEIGHTS], float *partial)
{
    if constexpr (EXACT)
        forward_slice_exact(h, rows, hidden, weight, partial);
    else
        forward_slice_tf32(h, rows, hidden, weight, partial);
}

DEVICE float forward_total(const float *partial, int slices, int row, int column)
{
    float total = 0;
    for (int s = 0; s < slices; s++)
        total += partial[(s * RECURRENT_ROWS + row) * FORWARD_STRIDE + column];
    return total;
}

/* Two threads share a unit of an env: one has the gates i and g, the other f and o and the cell. */
template <bool EXACT> KERNEL void __launch_bounds__(RECURRENT_THREADS, 1) recurrence_forward(const struct recurrence r)
{
    SHARED_BYTES(shared);
    float *partial = (float *)shared;
    device_wait();
    if (*r.off)
        return;
    const int block = blockIdx.x % r.blocks, group = blockIdx.x / r.blocks, hidden = r.hidden;
    const int slices = (hidden + FORWARD_SLICE - 1) / FORWARD_SLICE;
    const int row = threadIdx.x / 32, local = threadIdx.x / 2 % RECURRENT_UNITS, half = threadIdx.x % 2;
    const int unit = block * RECURRENT_UNITS + local;
    float weight[RECURRENT_WEIGHTS];
    forward_weights<EXACT>(&r, block, weight);

    for (int step = 0; step < r.steps; step++) {
        for (int first = group * RECURRENT_ROWS; first < r.envs; first += r.groups * RECURRENT_ROWS) {
            const int rows = min((int)RECURRENT_ROWS, r.envs - first), env = first + row;
            const bool mine = row < rows && unit < hidden;
            const ptrdiff_t at = (ptrdiff_t)step * r.envs + env, next = at + r.envs;
            float *gate = r.gate + at * GATES * hidden + half * hidden + unit; /* i and g, or f and o */
            float sum[2] = {0, 0}, c_in = 0;
            bool reset = false;
            if (mine) { /* load what does not depend on other blocks while waiting for them */
                sum[0] = gate[0];
                sum[1] = gate[2 * hidden];
                c_in = r.c_in[at * hidden + unit];
                reset = step + 1 < r.steps && r.reset[next];
            }
            if (step > 0 && first == group * RECURRENT_ROWS)
                group_wait(&r.arrived[group], (uint32_t)(step * r.blocks));
            forward_slice<EXACT>(r.h_in + ((ptrdiff_t)step * r.envs + first) * hidden, rows, hidden, weight, partial);
            __syncthreads();
            sum[0] += forward_total(partial, slices, row, half * RECURRENT_UNITS + local);
            sum[1] += forward_total(partial, slices, row, (half + 2) * RECURRENT_UNITS + local);
            sum[0] = sigmoid(sum[0]);
            sum[1] = half == 0 ? tanhf(sum[1]) : sigmoid(sum[1]);
            const float in = exchange(sum[0] * sum[1], 1); /* i * g, for the other half */
            if (mine) {
                gate[0] = sum[0];
                gate[2 * hidden] = sum[1];
            }
            if (mine && half == 1) {
                const float c = sum[0] * c_in + in, tanh_c = tanhf(c), h = sum[1] * tanh_c;
                r.h[at * hidden + unit] = h;
                r.tanh_c[at * hidden + unit] = tanh_c;
                r.h_in[next * hidden + unit] = reset ? 0.0f : h;
                r.c_in[next * hidden + unit] = reset ? 0.0f : c;
            }
            __syncthreads();
        }
        group_arrive(&r.arrived[group]);
    }
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

template <bool EXACT> DEVICE void back_weights(const struct recurrence *r, int block, float weight[RECURRENT_WEIGHTS])
{
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * BACK_SLICE;
#pragma unroll
    for (int i = 0; i < RECURRENT_WEIGHTS; i++) {
        const int column = EXACT ? lane % RECURRENT_UNITS : i / 2 % 2 * 8 + lane / 4;
        const int k = first +
                      (EXACT ? lane / RECURRENT_UNITS * (BACK_SLICE / 2) + i : fragment_k(i / 4, lane % 4, i % 2));
        const int unit = block * RECURRENT_UNITS + column;
        float w = 0;
        if (unit < r->hidden && k < GATES * r->hidden)
            w = r->w[(ptrdiff_t)k * r->hidden + unit];
        weight[i] = EXACT ? w : __uint_as_float(to_tf32(w));
    }
}

/* Gradients of 16 envs' gates times the block's weights. */
DEVICE void back_slice_exact(const float *dgate, int rows, int hidden, const float weight[RECURRENT_WEIGHTS],
                             float *partial)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = warp * BACK_SLICE, width = GATES * hidden;
    float *mine = partial + warp * RECURRENT_ROWS * BACK_STRIDE;
    if (first >= width)
        return;
    float *staged = recurrent_rows<BACK_SLICE>(partial + BACK_PARTIAL);
    slice_stage<BACK_SLICE>(dgate, rows, width, first, width, staged);
    const int side = lane / RECURRENT_UNITS * (BACK_SLICE / 2);
    for (int row = 0; row < RECURRENT_ROWS; row++) {
        float sum = 0;
#pragma unroll
        for (int k = 0; k < RECURRENT_WEIGHTS; k++)
            sum = fmaf(staged[row * BACK_SLICE + side + k], weight[k], sum);
        sum += exchange(sum, RECURRENT_UNITS);
        if (lane < RECURRENT_UNITS)
            mine[row * BACK_STRIDE + lane] = sum;
    }
}

DEVICE void back_slice_tf32(const float *dgate, int rows, int hidden, const float weight[RECURRENT_WEIGHTS],
                            float *partial)
{
    const int warp = threadIdx.x / 32, first = warp * BACK_SLICE, width = GATES * hidden;
    float *mine = partial + warp * RECURRENT_ROWS * BACK_STRIDE;
    if (first >= width)
        return;
    enum { PAIRS = BACK_SLICE / 8, TILES = RECURRENT_UNITS / 8, BATCH = 4 };
    float sum[TILES][4] = {};
#pragma unroll
    for (int j = 0; j < PAIRS / 2; j += BATCH) {
        float4 x[BATCH][2]; /* loads in flight together */
#pragma unroll
        for (int i = 0; i < BATCH; i++)
            load_fragments(dgate, rows, width, first + 16 * (j + i), width, x[i]);
#pragma unroll
        for (int p = 2 * j; p < 2 * (j + BATCH); p++) {
            uint32_t a[4];
            fragment(x[p / 2 - j], p % 2, a);
#pragma unroll
            for (int n = 0; n < TILES; n++) {
                const int at = (p * TILES + n) * 2;
                mma_tf32(sum[n], a, __float_as_uint(weight[at]), __float_as_uint(weight[at + 1]));
            }
        }
    }
#pragma unroll
    for (int n = 0; n < TILES; n++)
        store_sums(mine, BACK_STRIDE, 8 * n, sum[n]);
}

template <bool EXACT>
DEVICE void back_slice(const float *dgate, int rows, int hidden, const float weight[RECURRENT_WEIGHTS], float *partial)
{
    if constexpr (EXACT)
        back_slice_exact(dgate, rows, hidden, weight, partial);
    else
        back_slice_tf32(dgate, rows, hidden, weight, partial);
}

/* From the gradient of h (dh holds the part through z) to those of the gates' sums. One thread per unit of an env. */
template <bool EXACT> KERNEL void __launch_bounds__(RECURRENT_THREADS, 1) recurrence_back(const struct recurrence r)
{
    SHARED_BYTES(shared);
    float *partial = (float *)shared;
    device_wait();
    if (*r.off)
        return;
    const int block = blockIdx.x % r.blocks, group = blockIdx.x / r.blocks, hidden = r.hidden;
    const int slices = (GATES * hidden + BACK_SLICE - 1) / BACK_SLICE;
    const int row = threadIdx.x / RECURRENT_UNITS, local = threadIdx.x % RECURRENT_UNITS;
    const int unit = block * RECURRENT_UNITS + local;
    float weight[RECURRENT_WEIGHTS];
    back_weights<EXACT>(&r, block, weight);

    for (int step = r.steps - 1; step >= 0; step--) {
        const bool final = step + 1 == r.steps;
        for (int first = group * RECURRENT_ROWS; first < r.envs; first += r.groups * RECURRENT_ROWS) {
            const int rows = min((int)RECURRENT_ROWS, r.envs - first), env = first + row;
            const bool mine = row < rows && unit < hidden; /* the upper half of the threads has no row */
            const ptrdiff_t at = (ptrdiff_t)step * r.envs + env, x = at * hidden + unit;
            const float *gate = r.gate + at * GATES * hidden + unit;
            float i = 0, f = 0, g = 0, o = 0, c_in = 0, tanh_c = 0, dh = 0, dc = 0;
            bool ends = true;
            if (mine) {
                i = gate[0];
                f = gate[hidden];
                g = gate[2 * hidden];
                o = gate[3 * hidden];
                c_in = r.c_in[x];
                tanh_c = r.tanh_c[x];
                dh = r.dh[x];
                ends = final || r.reset[at + r.envs]; /* nothing crosses the start of an episode */
                dc = ends ? 0.0f : r.dc[(ptrdiff_t)env * hidden + unit];
            }
            if (!final) {
                if (first == group * RECURRENT_ROWS)
                    group_wait(&r.arrived[group], (uint32_t)((r.steps - 1 - step) * r.blocks));
                back_slice<EXACT>(r.dgate + ((ptrdiff_t)(step + 1) * r.envs + first) * GATES * hidden, rows, hidden,
                                  weight, partial);
                __syncthreads();
            }
            if (mine) {
                float total = 0;
                for (int s = 0; !ends && s < slices; s++)
                    total += partial[(s * RECURRENT_ROWS + row) * BACK_STRIDE + local];
                dh += total;
                const float dcell = dc + dh * o * (1 - tanh_c * tanh_c);
                float *d = r.dgate + at * GATES * hidden + unit;
                d[0] = dcell * g * i * (1 - i);
                d[hidden] = dcell * c_in * f * (1 - f);
                d[2 * hidden] = dcell * i * (1 - g * g);
                d[3 * hidden] = dh * tanh_c * o * (1 - o);
                r.dc[(ptrdiff_t)env * hidden + unit] = dcell * f;
            }
            __syncthreads();
        }
        group_arrive(&r.arrived[group]);
    }
}

#endif
