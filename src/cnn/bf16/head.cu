/*
 * Average pooling, classifier and loss, forward and backward, for all envs: a warp processes an image at a time. Lane
 * 16 half + p reads channels 2p and 2p + 1 of every second pixel and is responsible for channel 2p + half, of each 32.
 * Everything here is fp32, from the rounded pooled output to its gradient, which is rounded.
 */
#include "cuda/runtime.cuh"

#include "cnn/bf16/conv.cuh"

enum { HEAD_CLASSES = SHAPE_CLASSES, HEAD_EXTRA = 2 }; /* after weights and biases: loss, correct */

template <int FEATURES> struct head_shared {
    enum {
        PART = HEAD_CLASSES * FEATURES + HEAD_CLASSES + HEAD_EXTRA,
        VALUES = PART + 2 * FEATURES, /* of a warp: the chunk's part, and BatchNorm's sums */
        NORM = 0,
        WARPS = 2 * FEATURES * 4,
        BYTES = WARPS + FAST_WARPS * VALUES * 4
    };
};

/* A lane's share of an image's channels: its own channel of each 32, with the sums that the gradient needs. */
struct head_channel {
    float mean, passed, raw; /* of activations; number of pixels that pass the ReLU, sum of their raw values */
};

DEVICE float both_halves(float v)
{
    return v + exchange(v, 16);
}

/* words: the lane's pixels of two channels, kept for the backward pass. */
template <int PIXELS>
DEVICE struct head_channel head_average(const uint32_t *at, bool ready, float scale_lo, float shift_lo, float scale_hi,
                                        float shift_hi, uint32_t *words, int half)
{
    float sum[2] = {0, 0}, passed[2] = {0, 0}, raw[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < PIXELS / 2; i++)
        words[i] = __ldcg(at + (2 * i + half) * 4);
#pragma unroll
    for (int i = 0; i < PIXELS / 2; i++) {
        const float z[2] = {bf16_lo(words[i]), bf16_hi(words[i])};
        const float y[2] = {fmaf(z[0], scale_lo, shift_lo), fmaf(z[1], scale_hi, shift_hi)};
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const bool stopped = !ready && y[e] <= 0; /* NAN propagates */
            sum[e] += stopped ? 0.0f : ready ? z[e] : y[e];
            passed[e] += stopped ? 0.0f : 1.0f;
            raw[e] += stopped ? 0.0f : z[e];
        }
    }
    struct head_channel all[2];
#pragma unroll
    for (int e = 0; e < 2; e++) {
        all[e].mean = both_halves(sum[e]) * (1.0f / PIXELS);
        all[e].passed = both_halves(passed[e]);
        all[e].raw = both_halves(raw[e]);
    }
    return half ? all[1] : all[0];
}

/* Softmax cross entropy of one image: logits become their gradients. */
DEVICE void head_loss(float *logit, int label, float images, float &loss, float &correct)
{
    float best = logit[0], total = 0, right = logit[0];
    int winner = 0;
#pragma unroll
    for (int k = 1; k < HEAD_CLASSES; k++) {
        if (logit[k] > best) {
            best = logit[k];
            winner = k;
        }
        right = k == label ? logit[k] : right;
    }
#pragma unroll
    for (int k = 0; k < HEAD_CLASSES; k++) {
        logit[k] = __expf(logit[k] - best);
        total += logit[k];
    }
    loss += logf(total) + best - right;
    correct += winner == label ? 1.0f : 0.0f;
    const float weight = 1.0f / (total * images);
#pragma unroll
    for (int k = 0; k < HEAD_CLASSES; k++)
        logit[k] = logit[k] * weight - (k == label ? 1.0f / images : 0.0f);
}

/* The gradient of the last block's output: the same for all pixels of a channel. */
template <int PIXELS>
DEVICE void head_store(uint32_t pair, const uint32_t *words, uint32_t *masked, uint32_t *whole,
                       const struct block_use &use, float scale_lo, float shift_lo, float scale_hi, float shift_hi,
                       int half)
{
    static_assert(PIXELS % 2 == 0, "every second pixel is a lane's");
    if (use.keep_grad)
#pragma unroll
        for (int i = 0; i < PIXELS / 2; i++)
            whole[(2 * i + half) * 4] = pair;
    if (!use.blended)
#pragma unroll
        for (int i = 0; i < PIXELS / 2; i++)
            masked[(2 * i + half) * 4] = (fmaf(bf16_lo(words[i]), scale_lo, shift_lo) > 0 ? pair & 0xffffu : 0) |
                                         (fmaf(bf16_hi(words[i]), scale_hi, shift_hi) > 0 ? pair & 0xffff0000u : 0);
}

template <int FEATURES, int PIXELS>
KERNEL void __launch_bounds__(FAST_THREADS, 2) head(const __grid_constant__ struct fast_host host)
{
    SHARED_BYTES(shared);
    typedef struct head_shared<FEATURES> area;
    enum { GROUPS = FEATURES / 32 };
    const uint32_t base = smem(shared);
    const int env = (int)blockIdx.y, warp = (int)threadIdx.x >> 5, lane = (int)threadIdx.x & 31;
    const int p = lane & 15, half = lane >> 4, last = host.blocks - 1;
    const struct fast_block &block = host.block[last];
    const float *params = host.params + (size_t)env * host.params_size;
    float weight[GROUPS][HEAD_CLASSES], bias[HEAD_CLASSES];
#pragma unroll
    for (int k = 0; k < HEAD_CLASSES; k++) {
        bias[k] = __ldcg(params + host.fc_bias + k);
#pragma unroll
        for (int m = 0; m < GROUPS; m++)
            weight[m][k] = __ldcg(params + host.fc_weight + k * FEATURES + 32 * m + 2 * p + half);
    }
    device_wait();
    const struct block_use use = block_use_of(host, env, last);
    share_norm(host, last, env, base + area::NORM, blockIdx.x == 0);
    __syncthreads();
    float scale[GROUPS][2], shift[GROUPS][2];
#pragma unroll
    for (int m = 0; m < GROUPS; m++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            scale[m][e] = load_shared_float(base + area::NORM + (32 * m + 2 * p + e) * 4);
            shift[m][e] = load_shared_float(base + area::NORM + (FEATURES + 32 * m + 2 * p + e) * 4);
        }

    for (struct walk walk = walk_start(host, 1, FAST_WARPS, warp); walk.chunk < walk.end; walk.chunk++) {
        float dweight[GROUPS][HEAD_CLASSES], dbias[HEAD_CLASSES], sum[GROUPS], moment[GROUPS], loss = 0, correct = 0;
#pragma unroll
        for (int k = 0; k < HEAD_CLASSES; k++)
            dbias[k] = 0;
#pragma unroll
        for (int m = 0; m < GROUPS; m++) {
            sum[m] = moment[m] = 0;
#pragma unroll
            for (int k = 0; k < HEAD_CLASSES; k++)
                dweight[m][k] = 0;
        }
        for (int task = walk_first(walk); task < walk_limit(walk); task += FAST_WARPS) {
            const size_t image = image_at(host, env, task);
            const int label = host.labels[image];
            /* plane 4m + p / 4, words p % 4 of its pixels */
            const size_t word = (image * (FEATURES / 8) + (size_t)(p >> 2)) * PIXELS * 4 + (size_t)(p & 3);
            const uint32_t *in = reinterpret_cast<const uint32_t *>(use.blended ? block.act : block.pooled) + word;
            struct head_channel channel[GROUPS];
            uint32_t words[GROUPS][PIXELS / 2];
            float logit[HEAD_CLASSES];
#pragma unroll
            for (int m = 0; m < GROUPS; m++)
                channel[m] = head_average<PIXELS>(in + m * 4 * PIXELS * 4, use.blended, scale[m][0], shift[m][0],
                                                  scale[m][1], shift[m][1], words[m], half);
#pragma unroll
            for (int k = 0; k < HEAD_CLASSES; k++) {
                float v = 0;
#pragma unroll
                for (int m = 0; m < GROUPS; m++)
                    v = fmaf(channel[m].mean, weight[m][k], v);
#pragma unroll
                for (int mask = 16; mask; mask >>= 1)
                    v += exchange(v, mask);
                logit[k] = v + bias[k];
            }
            head_loss(logit, label, (float)host.batch, loss, correct);
#pragma unroll
            for (int m = 0; m < GROUPS; m++) {
                float d = 0;
#pragma unroll
                for (int k = 0; k < HEAD_CLASSES; k++) {
                    d = fmaf(logit[k], weight[m][k], d);
                    dweight[m][k] = fmaf(logit[k], channel[m].mean, dweight[m][k]);
                    if (m == 0)
                        dbias[k] += logit[k];
                }
                d *= 1.0f / PIXELS;
                const float neighbour = exchange(d, 16);
                const uint32_t pair = half ? pack_bf16(neighbour, d) : pack_bf16(d, neighbour);
                const float rounded = half ? bf16_hi(pair) : bf16_lo(pair);
                sum[m] = fmaf(rounded, channel[m].passed, sum[m]);
                moment[m] = fmaf(rounded, channel[m].raw, moment[m]);
                const size_t at = word + (size_t)(m * 4 * PIXELS * 4);
                head_store<PIXELS>(pair, words[m], reinterpret_cast<uint32_t *>(block.grad) + at,
                                   reinterpret_cast<uint32_t *>(block.grad_out) + at, use, scale[m][0], shift[m][0],
                                   scale[m][1], shift[m][1], half);
            }
        }
        if (walk.chunk + 1 == walk.end)
            device_release();
        const uint32_t mine = base + area::WARPS + warp * area::VALUES * 4;
        __syncthreads();
#pragma unroll
        for (int m = 0; m < GROUPS; m++) {
            const int c = 32 * m + 2 * p + half;
#pragma unroll
            for (int k = 0; k < HEAD_CLASSES; k++)
                store_shared_float(mine + (k * FEATURES + c) * 4, dweight[m][k]);
            store_shared_float(mine + (area::PART + c) * 4, sum[m]);
            store_shared_float(mine + (area::PART + FEATURES + c) * 4, moment[m]);
        }
        if (lane == 0) { /* the same in all lanes */
#pragma unroll
            for (int k = 0; k < HEAD_CLASSES; k++)
                store_shared_float(mine + (HEAD_CLASSES * FEATURES + k) * 4, dbias[k]);
            store_shared_float(mine + (area::PART - 2) * 4, loss);
            store_shared_float(mine + (area::PART - 1) * 4, correct);
        }
        __syncthreads();
        const size_t row = (size_t)env * host.chunks + walk.chunk;
        for (int i = (int)threadIdx.x; i < area::VALUES; i += FAST_THREADS) {
            float total = 0;
#pragma unroll
            for (int w = 0; w < FAST_WARPS; w++)
                total += load_shared_float(base + area::WARPS + (w * area::VALUES + i) * 4);
            if (i < area::PART)
                host.head_part[row * host.head_size + i] = total;
            else if (!use.blended)
                back_row(host, host.blocks - 1, env, walk.chunk)[i - area::PART] = total;
        }
    }
}

uint32_t fast_head_floats(int features)
{
    return (uint32_t)(HEAD_CLASSES * features + HEAD_CLASSES + HEAD_EXTRA);
}

void fast_head(struct bf16_net *net)
{
    struct launch shape = fast_launch(net, 2);
    shape.shared = head_shared<32>::BYTES;
    runtime_launch(net->runtime, head<32, 16>, shape, net->host);
}

void fast_head_prepare(struct runtime *rt)
{
    fast_allow<head_shared<32>::BYTES>(rt, head<32, 16>);
}
