/* The row-wise operations of the network, and the sums over rows that are gradients of vectors. */
#ifndef POLICY_NETWORK_ROWS_CUH
#define POLICY_NETWORK_ROWS_CUH

#include "policy/network_tables.cuh"

/* ---- rows -------------------------------------------------------------------------------------------------------- */

enum { ROW_WARPS = 8 };

DEVICE double warp_sum(double x)
{
    for (int mask = 16; mask > 0; mask /= 2)
        x += __shfl_xor_sync(~0u, x, mask);
    return x;
}

/* The embedding's row of a blueprint; an empty slot has its own. */
DEVICE int embed_row(int blueprint)
{
    return blueprint >= 0 && blueprint < POLICY_EMBED_ROWS - 1 ? blueprint : POLICY_EMBED_ROWS - 1;
}

struct input_rows {
    int rows, obs, slots, stride;
    const uint32_t *step; /* NULL: from row 0 */
    size_t width, first;  /* rows of a step, and the first of them that is read */
    const float *state, *embed;
    const int8_t *bp;
    float *in;
};

/* Observation and the embeddings of the slots' blueprints. A warp per row. */
KERNEL void input_kernel(const struct input_rows p, const uint32_t *stop)
{
    device_wait();
    const int row = blockIdx.x * ROW_WARPS + threadIdx.x / 32;
    if (row >= p.rows || (stop && *stop))
        return;
    const size_t from = row + (p.step ? (size_t)*p.step * p.width + p.first : 0);
    float *in = p.in + (size_t)row * p.stride;
    for (int i = threadIdx.x % 32; i < p.stride; i += 32) {
        const int e = i - p.obs;
        float x = 0;
        if (e < 0)
            x = p.state[from * p.obs + i];
        else if (e < POLICY_EMBED * p.slots)
            x = p.embed[POLICY_EMBED * embed_row(p.bp[from * p.slots + e / POLICY_EMBED]) + e % POLICY_EMBED];
        in[i] = x;
    }
}

struct norm_rows {
    int rows, width;
    const float *x;
    int x_stride;
    float *hat, *rstd;
    const float *gamma, *beta;
    const float *add; /* [rows][width], or NULL */
    float *y;
    int y_stride;
    bool relu;
};

/* y = relu(gamma * hat + beta) or gamma * hat + beta + add; x, hat and y may be the same array. A warp per row. */
KERNEL void norm_forward(const struct norm_rows p, const uint32_t *stop)
{
    device_wait();
    const int row = blockIdx.x * ROW_WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= p.rows || (stop && *stop))
        return;
    const float *x = p.x + (size_t)row * p.x_stride;
    float *hat = p.hat + (size_t)row * p.width, *y = p.y + (size_t)row * p.y_stride;
    float part = 0;
    for (int i = lane; i < p.width; i += 32)
        part += x[i];
    const float mean = (float)(warp_sum(part) / p.width);
    part = 0;
    for (int i = lane; i < p.width; i += 32)
        part = fmaf(x[i] - mean, x[i] - mean, part);
    const float rstd = (float)(1 / sqrt(warp_sum(part) / p.width + 1e-5));
    for (int i = lane; i < p.width; i += 32) {
        const float h = (x[i] - mean) * rstd;
        float out = fmaf(p.gamma[i], h, p.beta[i]);
        if (p.add)
            out += p.add[(size_t)row * p.width + i];
        hat[i] = h;
        y[i] = p.relu && out <= 0 ? 0 : out; /* NAN propagates */
    }
    if (lane == 0)
        p.rstd[row] = rstd;
}

struct norm_rows_back {
    int rows, width;
    const float *hat, *rstd, *gamma;
    const float *dy;
    float *kept; /* a copy of dy for the gradients of gamma and beta; NULL where dy is left unchanged */
    float *dx;   /* may be dy */
    int dy_stride, dx_stride;
};

KERNEL void norm_back(const struct norm_rows_back p, const uint32_t *skip)
{
    device_wait();
    const int row = blockIdx.x * ROW_WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= p.rows || *skip)
        return;
    const float *hat = p.hat + (size_t)row * p.width, *dy = p.dy + (size_t)row * p.dy_stride;
    float *dx = p.dx + (size_t)row * p.dx_stride, sum = 0, dot = 0;
    for (int i = lane; i < p.width; i += 32) {
        const float d = dy[i] * p.gamma[i];
        sum += d;
        dot = fmaf(d, hat[i], dot);
    }
    const float mean = (float)(warp_sum(sum) / p.width), slope = (float)(warp_sum(dot) / p.width), rstd = p.rstd[row];
    for (int i = lane; i < p.width; i += 32) {
        const float d = dy[i];
        if (p.kept)
            p.kept[(size_t)row * p.width + i] = d;
        dx[i] = rstd * (d * p.gamma[i] - mean - hat[i] * slope);
    }
}

/* The LSTM cell of the current step. A thread per unit. */
KERNEL void cell_kernel(int units, int hidden, const float *gate, float *h, float *c, float *raw)
{
    device_wait();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= units)
        return;
    const float *g = gate + (size_t)(i / hidden) * GATES * hidden + i % hidden;
    c[i] = sigmoid(g[hidden]) * c[i] + sigmoid(g[0]) * tanhf(g[2 * hidden]);
    raw[i] = h[i] = sigmoid(g[3 * hidden]) * tanhf(c[i]);
}

KERNEL void clear_arrivals(uint32_t *arrived, int count)
{
    device_wait();
    if ((int)threadIdx.x < count)
        arrived[threadIdx.x] = 0;
}

/* ---- gradients of vectors ---------------------------------------------------------------------------------------- */

/* How the rows of a sum are divided: their number alone decides. */
DEVICE void chunk_of(int rows, int chunk, int *first, int *last)
{
    const int size = (rows + SUM_CHUNKS - 1) / SUM_CHUNKS;
    *first = min(chunk * size, rows);
    *last = min(*first + size, rows);
}

DEVICE const struct column_sum *sum_of_tile(const struct column_sum *sums, int count, int tile)
{
    int index = 0;
    while (index + 1 < count && tile >= sums[index + 1].first_tile)
        index++;
    return &sums[index];
}

/* Block (tile of columns, chunk of rows), thread (column, every eighth row). */
KERNEL void column_sums(const struct column_sum *sums, int count, int rows, double *partial, const uint32_t *skip)
{
    SHARED_BYTES(shared);
    double *part = (double *)shared;
    device_wait();
    if (*skip)
        return;
    const struct column_sum *s = sum_of_tile(sums, count, blockIdx.x);
    const int lane = threadIdx.x % SUM_COLUMNS, line = threadIdx.x / SUM_COLUMNS;
    const int column = (blockIdx.x - s->first_tile) * SUM_COLUMNS + lane;
    int first, last;
    double sum = 0;
    chunk_of(rows, blockIdx.y, &first, &last);
    for (int r = first + line; column < s->width && r < last; r += SUM_LANES) {
        const double d = s->d[(size_t)r * s->d_stride + column];
        sum += s->hat ? d * (double)s->hat[(size_t)r * s->hat_stride + column] : d;
    }
    part[threadIdx.x] = sum;
    __syncthreads();
    if (line > 0)
        return;
    for (int l = 1; l < SUM_LANES; l++)
        sum += part[l * SUM_COLUMNS + lane];
    partial[((size_t)blockIdx.y * gridDim.x + blockIdx.x) * SUM_COLUMNS + lane] = sum;
}

/* Block = chunk of rows, thread = element of the embedding. */
KERNEL void embed_sums(int rows, int slots, const float *d, const int8_t *bp, double *partial, const uint32_t *skip)
{
    device_wait();
    const int row = threadIdx.x / POLICY_EMBED, k = threadIdx.x % POLICY_EMBED;
    if (*skip)
        return;
    int first, last;
    double sum = 0;
    chunk_of(rows, blockIdx.x, &first, &last);
    for (int i = first * slots; i < last * slots; i++)
        if (embed_row(bp[i]) == row)
            sum += (double)d[(size_t)i * POLICY_EMBED + k];
    partial[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

/* The chunks in order. The last block does the embedding. */
KERNEL void vector_gradients(const struct column_sum *sums, int count, const double *partial, const double *embed,
                             size_t embed_at, float *grad, const uint32_t *skip)
{
    device_wait();
    if (*skip)
        return;
    const int tiles = gridDim.x - 1;
    double sum = 0;
    if ((int)blockIdx.x == tiles) {
        for (int i = threadIdx.x; i < POLICY_EMBED_ROWS * POLICY_EMBED; i += SUM_COLUMNS) {
            sum = 0;
            for (int chunk = 0; chunk < SUM_CHUNKS; chunk++)
                sum += embed[chunk * POLICY_EMBED_ROWS * POLICY_EMBED + i];
            grad[embed_at + i] = (float)sum;
        }
        return;
    }
    const struct column_sum *s = sum_of_tile(sums, count, blockIdx.x);
    const int column = (blockIdx.x - s->first_tile) * SUM_COLUMNS + threadIdx.x;
    if (column >= s->width)
        return;
    for (int chunk = 0; chunk < SUM_CHUNKS; chunk++)
        sum += partial[((size_t)chunk * tiles + blockIdx.x) * SUM_COLUMNS + threadIdx.x];
    grad[s->grad + column] = grad[s->grad2 + column] = (float)sum;
}

#endif
