/*
 * Convolutions of one image by one thread block, stride 1, zero padding, and the gradients of their weights over a
 * range of images. Maps and weights are read through the L1 cache; a thread keeps a tile of the result in registers.
 * Every result is one sum in a fixed order.
 */
#ifndef NN_CONVOLVE_CUH
#define NN_CONVOLVE_CUH

#include "nn/block.cuh"

/*
 * out[p][o] = add[p][o] + sum over taps t and channels i of in[p + t][i] * weight[t * tap_step + i * in_step + o].
 * Forward reads packed weights [tap][cin][cout]; the gradient of the input is the same with the master weights
 * [cout][tap][cin], taps reversed, and with cin and cout swapped.
 */
struct convolution {
    int height, width, kernel, cin, cout;
    const float *in;
    int in_stride; /* floats from one pixel to the next */
    const float *weight;
    int tap_step, in_step;
    bool reverse;
    const float *add; /* or NULL */
    float *out;
};

DEVICE struct convolution convolution_forward(int height, int width, int kernel, int cin, int cout, const float *in,
                                              const float *packed, float *out)
{
    struct convolution job = {height, width, kernel, cin, cout, in, cin, packed, cin * cout, cout, false, nullptr, out};
    return job;
}

/* From the gradient of the output, `cout` channels, to that of the input. */
DEVICE struct convolution convolution_backward(int height, int width, int kernel, int cin, int cout, const float *grad,
                                               const float *master, const float *add, float *out)
{
    struct convolution job = {height, width, kernel, cout, cin, grad, cout, master, cin, kernel * kernel * cin,
                              true,   add,   out};
    return job;
}

template <int N> DEVICE void load_floats(float *to, const float *from)
{
    if constexpr (N % 4 == 0) {
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            const float4 v = *reinterpret_cast<const float4 *>(from + i);
            to[i] = v.x;
            to[i + 1] = v.y;
            to[i + 2] = v.z;
            to[i + 3] = v.w;
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            to[i] = from[i];
    }
}

/* Tile number `tile`, PIXELS x OUTPUTS values: their sums over the channels from `first` to `last`, IN at a time. A
 * tile's pixels are far apart, so that neighbouring threads have neighbouring pixels. */
template <int PIXELS, int OUTPUTS, int IN>
DEVICE void convolve_sum(const struct convolution &job, int tile, int first, int last, float sum[PIXELS][OUTPUTS])
{
    const int units = job.height * job.width / PIXELS, unit = tile % units, o = tile / units * OUTPUTS;
    const int taps = job.kernel * job.kernel, reach = job.kernel / 2;
    int row[PIXELS], column[PIXELS];
#pragma unroll
    for (int j = 0; j < PIXELS; j++) {
        row[j] = (unit + j * units) / job.width;
        column[j] = (unit + j * units) % job.width;
    }
    for (int t = 0; t < taps; t++) {
        const int dy = t / job.kernel - reach, dx = t % job.kernel - reach;
        const float *weight = job.weight + (job.reverse ? taps - 1 - t : t) * job.tap_step + o;
        const float *from[PIXELS];
        bool inside[PIXELS];
#pragma unroll
        for (int j = 0; j < PIXELS; j++) {
            const int y = row[j] + dy, x = column[j] + dx;
            inside[j] = y >= 0 && y < job.height && x >= 0 && x < job.width;
            from[j] = job.in + (inside[j] ? (y * job.width + x) * job.in_stride : 0);
        }
        for (int i = first; i < last; i += IN) {
            float x[PIXELS][IN];
#pragma unroll
            for (int j = 0; j < PIXELS; j++) {
                load_floats<IN>(x[j], from[j] + i);
#pragma unroll
                for (int k = 0; k < IN; k++)
                    x[j][k] = inside[j] ? x[j][k] : 0;
            }
#pragma unroll
            for (int k = 0; k < IN; k++) {
                if (IN > 1 && i + k >= last) /* three colours out of four */
                    break;
                float w[OUTPUTS];
                load_floats<OUTPUTS>(w, weight + (i + k) * job.in_step);
#pragma unroll
                for (int j = 0; j < PIXELS; j++)
#pragma unroll
                    for (int n = 0; n < OUTPUTS; n++)
                        sum[j][n] = fmaf(x[j][k], w[n], sum[j][n]);
            }
        }
    }
}

/* A thread per tile. */
template <int PIXELS, int OUTPUTS, int IN> DEVICE_CALL void convolve_tiles(const struct convolution job)
{
    const int units = job.height * job.width / PIXELS, tiles = units * (job.cout / OUTPUTS);
    for (int tile = (int)threadIdx.x; tile < tiles; tile += BLOCK_THREADS) {
        float sum[PIXELS][OUTPUTS] = {};
        convolve_sum<PIXELS, OUTPUTS, IN>(job, tile, 0, job.cin, sum);
#pragma unroll
        for (int j = 0; j < PIXELS; j++) {
            const int at = (tile % units + j * units) * job.cout + tile / units * OUTPUTS;
#pragma unroll
            for (int n = 0; n < OUTPUTS; n++)
                job.out[at + n] = job.add ? job.add[at + n] + sum[j][n] : sum[j][n];
        }
    }
}

enum { SPLIT_PIXELS = 4, SPLIT_INPUTS = 4 }; /* of a thread's tile; its share of the channels is a multiple */

/* For maps of few pixels: `splits` threads per tile, each with a share of the input channels. */
template <int OUTPUTS> DEVICE_CALL void convolve_split(const struct convolution job, int splits)
{
    enum { SIZE = SPLIT_PIXELS * OUTPUTS };
    __shared__ float parts[SIZE][BLOCK_THREADS];
    const int units = job.height * job.width / SPLIT_PIXELS, tiles = units * (job.cout / OUTPUTS);
    const int split = (int)threadIdx.x / tiles, share = job.cin / splits;
    if (split < splits) {
        float sum[SPLIT_PIXELS][OUTPUTS] = {};
        convolve_sum<SPLIT_PIXELS, OUTPUTS, SPLIT_INPUTS>(job, (int)threadIdx.x % tiles, split * share,
                                                          (split + 1) * share, sum);
#pragma unroll
        for (int k = 0; k < SIZE; k++)
            parts[k][threadIdx.x] = sum[k / OUTPUTS][k % OUTPUTS];
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < tiles * SIZE; i += BLOCK_THREADS) {
        const int tile = i % tiles, k = i / tiles, p = tile % units + k / OUTPUTS * units;
        const int at = p * job.cout + tile / units * OUTPUTS + k % OUTPUTS;
        float sum = parts[k][tile];
        for (int s = 1; s < splits; s++)
            sum += parts[k][s * tiles + tile];
        job.out[at] = job.add ? job.add[at] + sum : sum;
    }
}

/* Threads per tile that can share its channels: a power of two. */
DEVICE int convolve_splits(int tiles, int cin)
{
    int splits = 1;
    while (2 * splits * tiles <= BLOCK_THREADS && cin % (2 * splits * SPLIT_INPUTS) == 0)
        splits *= 2;
    return splits;
}

template <int OUTPUTS, int IN> DEVICE void convolve_pixels(const struct convolution &job)
{
    const int pixels = job.height * job.width, groups = job.cout / OUTPUTS, tiles = pixels / SPLIT_PIXELS * groups;
    if (pixels % 4 == 0 && tiles >= BLOCK_THREADS) {
        convolve_tiles<4, OUTPUTS, IN>(job);
        return;
    }
    if constexpr (OUTPUTS > 1 && IN == SPLIT_INPUTS) {
        const int splits = pixels % SPLIT_PIXELS ? 1 : convolve_splits(tiles, job.cin);
        if (tiles * splits >= BLOCK_THREADS / 2) {
            convolve_split<OUTPUTS>(job, splits);
            return;
        }
    }
    convolve_tiles<1, OUTPUTS, IN>(job);
}

DEVICE void convolve(const struct convolution &job)
{
    if (job.in_stride % 4 == 0) {
        if (job.cout % 8 == 0)
            convolve_pixels<8, 4>(job);
        else if (job.cout % 4 == 0)
            convolve_pixels<4, 4>(job);
        else
            convolve_pixels<1, 4>(job);
    } else {
        if (job.cout % 4 == 0)
            convolve_pixels<4, 1>(job);
        else
            convolve_pixels<1, 1>(job);
    }
    __syncthreads();
}

/* Depthwise 3x3, weights [9][channels]; reversed taps give the gradient of the input. */
DEVICE void convolve_depthwise(int height, int width, int channels, const float *in, const float *weight, bool reverse,
                               const float *add, float *out)
{
    map_set(height * width, channels, out, [&](int i, int c) {
        const int p = i / channels, y = p / width, x = p % width;
        float sum = 0;
        for (int t = 0; t < 9; t++) {
            const int row = y + t / 3 - 1, column = x + t % 3 - 1;
            if (row >= 0 && row < height && column >= 0 && column < width)
                sum =
                    fmaf(weight[(reverse ? 8 - t : t) * channels + c], in[(row * width + column) * channels + c], sum);
        }
        return add ? add[i] + sum : sum;
    });
}

/* ---- gradients of weights ---------------------------------------------------------------------------------------- */

/*
 * out[o][t][i] = sum over images and pixels of grad[p][o] * in[p + t][i], for a range of images; depthwise, with cin =
 * 1 and cout channels, out[t][o] = sum of grad[p][o] * in[p + t][o].
 */
struct weight_sums {
    int height, width, kernel, cin, cout;
    bool depthwise;
    const float *in, *grad; /* of the first image */
    int in_stride;
    size_t image; /* floats from one image to the next, in both */
    int images;
    float *out;
};

/* A thread's tile: OUTPUTS x INPUTS x one row of the window. */
enum { WEIGHT_TILE = 4 * 4 * 3 };

/* Tiles of a layer; each block takes BLOCK_THREADS of them. */
ESPER_RULE int weight_tiles(int kernel, int cin, int in_stride, int cout, bool depthwise)
{
    if (depthwise)
        return kernel * cout;
    return kernel * (in_stride % 4 == 0 ? (cin + 3) / 4 : cin) * (cout % 4 == 0 ? cout / 4 : cout);
}

DEVICE float *weight_scratch()
{
    __shared__ float scratch[BLOCK_THREADS * WEIGHT_TILE];
    return scratch;
}

/* Tiles from `first` on, as many as the block can take. If there are few, several threads share the rows of each. */
template <int OUTPUTS, int INPUTS, int TAPS>
DEVICE_CALL void sum_weight_tiles(const struct weight_sums job, int first, int all)
{
    enum { SIZE = OUTPUTS * INPUTS * TAPS };
    const int count = all - first < BLOCK_THREADS ? all - first : BLOCK_THREADS, splits = BLOCK_THREADS / count;
    const int split = (int)threadIdx.x / count, outs = job.cout / OUTPUTS;
    const int ins = job.depthwise ? 1 : (job.cin + INPUTS - 1) / INPUTS;
    float sum[TAPS][OUTPUTS][INPUTS] = {};
    if (split < splits) {
        const int tile = first + (int)threadIdx.x % count, o = tile % outs * OUTPUTS;
        const int i = job.depthwise ? o : tile / outs % ins * INPUTS, dy = tile / outs / ins - TAPS / 2;
        for (int r = split; r < job.images * job.height; r += splits) {
            const int n = r / job.height, y = r % job.height, from = y + dy;
            if (from < 0 || from >= job.height)
                continue;
            const float *in = job.in + (size_t)n * job.image + (size_t)(from * job.width) * (size_t)job.in_stride + i;
            const float *grad = job.grad + (size_t)n * job.image + (size_t)(y * job.width) * (size_t)job.cout + o;
            float window[TAPS][INPUTS] = {}; /* the pixel's neighbours in its row, a sliding window */
            if (TAPS == 3)
                load_floats<INPUTS>(window[1], in);
            for (int x = 0; x < job.width; x++) {
                float g[OUTPUTS];
                load_floats<OUTPUTS>(g, grad + x * job.cout);
                if (x + TAPS / 2 < job.width) {
                    load_floats<INPUTS>(window[TAPS - 1], in + (x + TAPS / 2) * job.in_stride);
                } else {
#pragma unroll
                    for (int k = 0; k < INPUTS; k++)
                        window[TAPS - 1][k] = 0;
                }
#pragma unroll
                for (int t = 0; t < TAPS; t++)
#pragma unroll
                    for (int m = 0; m < OUTPUTS; m++)
#pragma unroll
                        for (int k = 0; k < INPUTS; k++)
                            sum[t][m][k] = fmaf(g[m], window[t][k], sum[t][m][k]);
#pragma unroll
                for (int t = 0; t + 1 < TAPS; t++)
#pragma unroll
                    for (int k = 0; k < INPUTS; k++)
                        window[t][k] = window[t + 1][k];
            }
        }
    }
    float *parts = weight_scratch();
#pragma unroll
    for (int t = 0; t < TAPS; t++)
#pragma unroll
        for (int m = 0; m < OUTPUTS; m++)
#pragma unroll
            for (int k = 0; k < INPUTS; k++)
                parts[(int)threadIdx.x * SIZE + (t * OUTPUTS + m) * INPUTS + k] = sum[t][m][k];
    __syncthreads();
    for (int at = (int)threadIdx.x; at < count * SIZE; at += BLOCK_THREADS) {
        const int tile = first + at / SIZE, place = at % SIZE;
        const int row = tile / outs / ins, t = row * TAPS + place / (OUTPUTS * INPUTS);
        const int o = tile % outs * OUTPUTS + place / INPUTS % OUTPUTS, i = tile / outs % ins * INPUTS + place % INPUTS;
        float total = 0;
        for (int s = 0; s < splits; s++)
            total += parts[s * count * SIZE + at];
        if (job.depthwise)
            job.out[t * job.cout + o] = total;
        else if (i < job.cin)
            job.out[(o * TAPS * TAPS + t) * job.cin + i] = total;
    }
    __syncthreads();
}

template <int OUTPUTS, int INPUTS> DEVICE void sum_weights_kernel(const struct weight_sums &job, int first, int all)
{
    if (job.kernel == 3)
        sum_weight_tiles<OUTPUTS, INPUTS, 3>(job, first, all);
    else
        sum_weight_tiles<OUTPUTS, INPUTS, 1>(job, first, all);
}

/* The `part`-th BLOCK_THREADS tiles of the layer, if there are that many. */
DEVICE void sum_weights(const struct weight_sums &job, int part)
{
    const int all = weight_tiles(job.kernel, job.cin, job.in_stride, job.cout, job.depthwise);
    const int first = part * BLOCK_THREADS;
    const bool wide_in = job.in_stride % 4 == 0, wide_out = job.cout % 4 == 0;
    if (first >= all)
        return;
    if (job.depthwise)
        sum_weight_tiles<1, 1, 3>(job, first, all);
    else if (wide_in && wide_out)
        sum_weights_kernel<4, 4>(job, first, all);
    else if (wide_in)
        sum_weights_kernel<1, 4>(job, first, all);
    else if (wide_out)
        sum_weights_kernel<4, 1>(job, first, all);
    else
        sum_weights_kernel<1, 1>(job, first, all);
}

#endif
