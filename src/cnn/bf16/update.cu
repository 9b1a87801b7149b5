/*
 * From the chunks' parts to the next batch's weights, in two kernels, because clipping needs the norm of the whole
 * gradient first: `add_parts` leaves the gradient in the parameters' order with the square of its norm in pieces;
 * `step` clips, updates the parameters and stores the weights where the next batch's kernels read them. A thread per
 * parameter; gaps between tensors have gradient 0.
 */
#include "cuda/runtime.cuh"

#include "cnn/bf16/conv.cuh"

enum { UPDATE_THREADS = 256 };

/* The kind of a parameter. */
enum param_kind { PARAM_GAP, PARAM_WEIGHT, PARAM_GAMMA, PARAM_BETA, PARAM_HEAD };
struct param_place {
    enum param_kind kind;
    int block, channel; /* its block and output channel; PARAM_HEAD: index in the head's part */
    int ky, kx, ci;     /* PARAM_WEIGHT */
    int number;         /* among the env's parameters */
};

/* Parameter p; or, as_parts, the p-th in the order of the chunks' parts, in which neighbours are adjacent. */
DEVICE struct param_place param_place_of(const struct fast_host &host, int p, bool as_parts)
{
    struct param_place place = {PARAM_GAP, 0, 0, 0, 0, 0, p};
    if (p >= (int)host.params_size)
        return place;
    for (int i = 0; i < host.blocks; i++) {
        const struct fast_block &block = host.block[i];
        const int gamma = p - (int)block.gamma, beta = p - (int)block.beta;
        int weight = p - (int)block.weight;
        if (weight >= 0 && weight < 9 * block.cin * block.cout) {
            if (as_parts && block.cin >= 8)
                weight = part_weight(block, weight);
            const int tap = weight / block.cin;
            place.number = (int)block.weight + weight;
            place.kind = PARAM_WEIGHT;
            place.block = i;
            place.channel = tap / 9;
            place.ky = tap % 9 / 3;
            place.kx = tap % 3;
            place.ci = weight % block.cin;
        } else if (gamma >= 0 && gamma < block.cout) {
            place.kind = PARAM_GAMMA;
            place.block = i;
            place.channel = gamma;
        } else if (beta >= 0 && beta < block.cout) {
            place.kind = PARAM_BETA;
            place.block = i;
            place.channel = beta;
        }
    }
    const int weight = p - (int)host.fc_weight, bias = p - (int)host.fc_bias;
    if (weight >= 0 && weight < SHAPE_CLASSES * host.features) {
        place.kind = PARAM_HEAD;
        place.channel = weight;
    } else if (bias >= 0 && bias < SHAPE_CLASSES) {
        place.kind = PARAM_HEAD;
        place.channel = SHAPE_CLASSES * host.features + bias;
    }
    return place;
}

/* One float of every chunk's part, in chunk order. */
DEVICE float add_chunks(const float *part, int chunks, uint32_t size)
{
    float v[FAST_CHUNKS], sum = 0;
#pragma unroll
    for (int c = 0; c < FAST_CHUNKS; c++)
        v[c] = c < chunks ? __ldcg(part + (size_t)c * size) : 0;
#pragma unroll
    for (int c = 0; c < FAST_CHUNKS; c++)
        sum += v[c];
    return sum;
}

/* The gradient of the p-th in the parts' order. */
DEVICE float param_gradient(const struct fast_host &host, int env, int p, const struct param_place &at)
{
    const struct fast_block &block = host.block[at.block];
    const float *params = host.params + (size_t)env * host.params_size;
    if (at.kind == PARAM_HEAD)
        return add_chunks(host.head_part + (size_t)env * host.chunks * host.head_size + at.channel, host.chunks,
                          host.head_size);
    if (at.kind == PARAM_WEIGHT) {
        const float *part = block.part + (size_t)env * host.chunks * block.part_size;
        float sum = 0;
        if (block.cin >= 8)
            sum = add_chunks(part + (p - (int)block.weight), host.chunks, block.part_size);
        else
            for (int odd = 0; odd < 2; odd++)
                sum += add_chunks(part + first_part_place(at.channel, at.ky, at.kx, at.ci, odd), host.chunks,
                                  block.part_size);
        return __ldcg(params + block.gamma + at.channel) < 0 ? -sum : sum;
    }
    if (at.kind == PARAM_GAP)
        return 0;
    struct channel_norm norm = block_norm(host, at.block, env, at.channel);
    struct channel_back back = block_back(host, at.block, env, at.channel, norm);
    return at.kind == PARAM_GAMMA ? back.dgamma : back.dbeta;
}

DEVICE double warp_sum(double v)
{
#pragma unroll
    for (int mask = 16; mask; mask >>= 1)
        v += __shfl_xor_sync(~0u, v, mask);
    return v;
}

/* The batch's loss and hits are added to the step's; after the last batch they go to the setup's arrays. By a whole
 * warp. */
DEVICE void add_loss(const struct fast_host &host, int env, uint32_t batch, uint32_t batches)
{
    const int lane = (int)threadIdx.x & 31;
    const float *part = host.head_part + ((size_t)env * host.chunks + lane + 1) * host.head_size - 2;
    const double loss = warp_sum(lane < host.chunks ? (double)__ldcg(part) : 0) + (batch ? host.loss[env] : 0);
    const double correct = warp_sum(lane < host.chunks ? (double)__ldcg(part + 1) : 0) +
                           (batch ? host.correct[env] : 0);
    __syncwarp();
    if (lane > 0)
        return;
    host.loss[env] = loss;
    host.correct[env] = correct;
    if (batch + 1 == batches) {
        const double images = (double)batches * host.batch;
        host.train_loss[env] = loss / images;
        host.train_accuracy[env] = 100 * correct / images;
    }
}

KERNEL void __launch_bounds__(UPDATE_THREADS)
    add_parts(const __grid_constant__ struct fast_host host, uint32_t batch, uint32_t batches)
{
    __shared__ double square[UPDATE_THREADS / 32];
    const int env = (int)blockIdx.y, p = (int)(blockIdx.x * UPDATE_THREADS + threadIdx.x);
    const struct param_place at = param_place_of(host, p, true);
    device_wait();
    const float g = param_gradient(host, env, p, at);
    device_release();
    if (p < (int)host.params_size)
        host.grad[(size_t)env * host.params_size + at.number] = g;
    if (at.kind == PARAM_GAMMA) {
        float *kept = host.gamma_before + (size_t)env * 2 * host.params_size + p;
        kept[0] = host.params[(size_t)env * host.params_size + p];
        kept[host.params_size] = host.momentum[(size_t)env * host.params_size + p];
    }
    double sum = warp_sum((double)g * (double)g);
    if (threadIdx.x % 32 == 0)
        square[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0;
        for (int w = 0; w < UPDATE_THREADS / 32; w++)
            sum += square[w];
        host.squares[(size_t)env * host.square_parts + blockIdx.x] = sum;
    }
    if (blockIdx.x == 0 && threadIdx.x / 32 == 1)
        add_loss(host, env, batch, batches);
}

/* SGD, as on the CPU. */
DEVICE float stepped(const struct optimiser &sgd, float factor, float g, float w, float *momentum)
{
    *momentum = sgd.momentum * *momentum + (factor * g + sgd.weight_decay * w);
    return w - sgd.lr * *momentum;
}

DEVICE void place_param(const struct fast_host &host, int env, const struct param_place &at, float value, float gamma)
{
    const uint16_t bits = (uint16_t)(pack_bf16(gamma < 0 ? -value : value, 0) & 0xffffu);
    place_weight(host.block[at.block], host.fragments + (size_t)env * host.fragment_size, at.channel, at.ky, at.kx,
                 at.ci, bits);
}

KERNEL void __launch_bounds__(UPDATE_THREADS)
    step(const __grid_constant__ struct fast_host host, struct optimiser sgd, const float *lr_factor, double max_norm)
{
    __shared__ float clip;
    const int env = (int)blockIdx.y, p = (int)(blockIdx.x * UPDATE_THREADS + threadIdx.x);
    const struct param_place at = param_place_of(host, p, false);
    device_wait();
    device_release();
    if (threadIdx.x < 32) {
        double square = 0;
        for (uint32_t i = threadIdx.x; i < host.square_parts; i += 32)
            square += host.squares[(size_t)env * host.square_parts + i];
        const double norm = sqrt(warp_sum(square));
        if (threadIdx.x == 0) {
            clip = (float)gradient_clip(norm, max_norm);
            if (blockIdx.x == 0)
                host.host_norm[env] = norm;
        }
    }
    __syncthreads();
    if (at.kind == PARAM_GAP)
        return;
    sgd.lr *= lr_factor[env];
    const size_t row = (size_t)env * host.params_size, place = row + (size_t)p;
    const float factor = clip,
                value = stepped(sgd, factor, host.grad[place], host.params[place], &host.momentum[place]);
    host.params[place] = value;
    if (at.kind != PARAM_WEIGHT)
        return;
    /* the sign of the channel's gamma after this step */
    const uint32_t gamma = host.block[at.block].gamma + (uint32_t)at.channel;
    const float *kept = host.gamma_before + 2 * row + gamma;
    float momentum = kept[host.params_size];
    place_param(host, env, at, value, stepped(sgd, factor, host.grad[row + gamma], kept[0], &momentum));
}

KERNEL void __launch_bounds__(UPDATE_THREADS) pack(const __grid_constant__ struct fast_host host)
{
    const int env = (int)blockIdx.y, p = (int)(blockIdx.x * UPDATE_THREADS + threadIdx.x);
    device_wait();
    const struct param_place at = param_place_of(host, p, false);
    const float *params = host.params + (size_t)env * host.params_size;
    if (at.kind == PARAM_WEIGHT)
        place_param(host, env, at, params[p], params[host.block[at.block].gamma + (uint32_t)at.channel]);
}

uint32_t fast_square_parts(uint32_t params_size)
{
    return (params_size + UPDATE_THREADS - 1) / UPDATE_THREADS;
}

static struct launch params_launch(const struct bf16_net *net)
{
    struct launch shape = {dim3(net->host.square_parts, (unsigned)net->host.envs), dim3(UPDATE_THREADS), 0, true};
    return shape;
}

void fast_pack(struct bf16_net *net)
{
    runtime_launch(net->runtime, pack, params_launch(net), net->host);
}

void fast_gradients(struct bf16_net *net, uint32_t batch)
{
    runtime_launch(net->runtime, add_parts, params_launch(net), net->host, batch, net->setup.source.batches);
}

void fast_update(struct bf16_net *net)
{
    runtime_launch(net->runtime, step, params_launch(net), net->host, net->setup.rates.host,
                   (const float *)net->setup.source.conditions.lr_factor, net->setup.rates.max_grad_norm);
}
