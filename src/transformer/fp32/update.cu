/*
 * After the passes of a batch: gradients of the parameters, chunk by chunk and then over the chunks in order, their
 * norms, clipping, and the optimiser's step.
 */
#include "cuda/runtime.cuh"

#include "transformer/fp32/numbers.cuh"
#include "transformer/fp32/stages.cuh"

enum { NORM_COLUMNS = 64, NORM_LANES = STAGE_THREADS / NORM_COLUMNS };

DEVICE float *chunk_sums(const struct frame &frame, int chunk)
{
    const struct exact_view &net = *frame.net;
    return net.partials + ((size_t)frame.place * (size_t)net.chunks + (size_t)chunk) * net.grad;
}

/* Rows of a chunk: first, and how many. */
DEVICE int chunk_first(const struct exact_view *net, int chunk)
{
    return chunk * net->chunk * net->context;
}

DEVICE int chunk_rows(const struct exact_view *net, int chunk)
{
    const int left = net->rows - chunk_first(net, chunk), most = net->chunk * net->context;
    return left < most ? left : most;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* A linear layer of a batch: what it read, the gradient of its output, and where its gradients go. */
struct linear_grad {
    int in, out; /* 0: there is none, or it does not learn */
    const float *x, *dy;
    size_t weight, bias; /* in an env's gradients */
    bool biased;
};

DEVICE struct linear_grad branch_grad(const struct branch_view &branch, size_t params, bool second, int width,
                                      const float *x, const float *dy)
{
    struct linear_grad linear = {second ? branch.mixed : width,
                                 second ? width : branch.hidden,
                                 x,
                                 dy,
                                 params + (second ? branch.w2 : branch.w1),
                                 params + (second ? branch.b2 : branch.b1),
                                 branch.biased};
    return linear;
}

DEVICE struct linear_grad slot_grad(const struct frame &frame, int slot, int which)
{
    const struct exact_view &net = *frame.net;
    const struct exact_slot &view = net.slot[slot];
    const struct slot_exec &exec = frame.exec[slot];
    const bool second = which % 2;
    struct linear_grad none = {};
    if (!slot_learns(exec))
        return none;
    if (which >= LINEAR_GATE && !exec.gate)
        return none;
    if (which >= LINEAR_GATE) {
        struct linear_grad gate = branch_grad(net.gate_branch, (size_t)net.host_storage + net.seed_storage + view.gate,
                                              second, net.width, at(frame, second ? view.gate_hidden : view.x),
                                              at(frame, second ? view.dq : view.dgate_hidden));
        gate.out = second ? 1 : gate.out;
        return gate;
    }
    const struct branch_view &branch = seed_of(frame, slot).branch;
    if (branch.kind == BRANCH_NONE)
        return none;
    return branch_grad(branch, (size_t)net.host_storage + view.seed, second, net.width,
                       second ? mixed_of(frame, branch, view.places) : at(frame, view.x),
                       second ? seed_gradient(frame, slot) : at(frame, view.places.dhidden));
}

DEVICE struct linear_grad linear_grad_of(const struct frame &frame, const struct exact_work &work)
{
    const struct exact_view &net = *frame.net;
    if (work.of == OF_CLASSIFIER) {
        struct linear_grad classifier = {
            net.width, net.vocabulary, at(frame, net.last_places.normed), at(frame, net.dlogits), net.tokens, 0, false};
        return classifier;
    }
    if (work.of == OF_SLOT)
        return slot_grad(frame, work.index, work.which);
    const struct exact_half &half = net.layer[work.index].half[work.which / 2];
    const bool second = work.which % 2;
    return branch_grad(half.branch, 0, second, net.width,
                       second ? mixed_of(frame, half.branch, half.places) : at(frame, half.norms.normed),
                       at(frame, second ? half.dy : half.places.dhidden));
}

/* dW = dy^T x over a chunk, a tile per thread block; the first of a row of tiles adds up dy for the bias as well. */
STAGE_KERNEL weights(const struct exact_view *net, int first)
{
    const struct exact_work work = net->work[blockIdx.x];
    const struct frame frame = train_frame(net, first);
    const struct linear_grad linear = linear_grad_of(frame, work);
    if (!linear.in || work.tile >= matmul_tiles(linear.out, linear.in))
        return;
    const size_t row = (size_t)chunk_first(net, work.chunk);
    const int across = (linear.in + MATMUL_TILE - 1) / MATMUL_TILE,
              own = work.tile / across * MATMUL_TILE + (int)threadIdx.x;
    const bool sums = linear.biased && work.tile % across == 0 && threadIdx.x < MATMUL_TILE && own < linear.out;
    const struct matmul product = {linear.out,
                                   linear.in,
                                   chunk_rows(net, work.chunk),
                                   linear.dy + row * (size_t)linear.out,
                                   linear.x + row * (size_t)linear.in,
                                   linear.out,
                                   linear.in};
    float *to = chunk_sums(frame, work.chunk), bias = 0;
    matmul_tile<BY_LINE, BY_LINE>(
        product, work.tile, [](int) { return 0.0f; },
        [&](int i, int j, float sum) { to[linear.weight + (size_t)i * (size_t)linear.in + (size_t)j] = sum; },
        [&](const struct matmul_slab &slab, int count) {
            for (int k = 0; sums && k < count; k++)
                bias += slab.at[k][threadIdx.x];
        });
    if (sums)
        to[linear.bias + (size_t)own] = bias;
}

/* ---- norms ------------------------------------------------------------------------------------------------------- */

/* A LayerNorm of a batch: the gradient of what it yields is `times` dy. */
struct norm_grad {
    const float *dy, *hat; /* NULL: there is none, or it does not learn */
    float times;
    size_t gamma, beta; /* in an env's gradients */
};

/* Those of the layers, then the last one, then those of the slots. */
DEVICE struct norm_grad norm_grad_of(const struct frame &frame, int index)
{
    const struct exact_view &net = *frame.net;
    struct norm_grad grad = {};
    if (index <= 2 * net.layers) {
        const bool last = index == 2 * net.layers;
        const struct exact_half &half = net.layer[last ? 0 : index / 2].half[index % 2];
        const struct norm_places &places = last ? net.last_places : half.norms;
        const struct norm_view &norm = last ? net.last : half.norm;
        grad = {at(frame, places.dnormed), at(frame, places.hat), 1, norm.gamma, norm.beta};
        return grad;
    }
    const int slot = index - 2 * net.layers - 1;
    if (!slot_learns(frame.exec[slot]) || !seed_of(frame, slot).norm)
        return grad;
    const struct norm_view &norm = seed_of(frame, slot).norm_at;
    const size_t params = (size_t)net.host_storage + net.slot[slot].seed;
    grad = {seed_gradient(frame, slot), at(frame, net.slot[slot].hat), norm_mix(frame, slot), params + norm.gamma,
            params + norm.beta};
    return grad;
}

/* A block per norm and NORM_COLUMNS columns (x), env (y) and chunk (z). */
STAGE_KERNEL norm_sums(const struct exact_view *net, int first)
{
    __shared__ float part[2][STAGE_THREADS];
    const struct frame frame = train_frame(net, first);
    const int groups = (net->width + NORM_COLUMNS - 1) / NORM_COLUMNS, index = (int)blockIdx.x / groups,
              chunk = (int)blockIdx.z;
    const struct norm_grad norm = norm_grad_of(frame, index);
    if (!norm.dy)
        return;
    const int column = (int)blockIdx.x % groups * NORM_COLUMNS + (int)threadIdx.x % NORM_COLUMNS,
              begin = chunk_first(net, chunk), rows = chunk_rows(net, chunk);
    float gamma = 0, beta = 0;
    for (int r = (int)threadIdx.x / NORM_COLUMNS; column < net->width && r < rows; r += NORM_LANES) {
        const size_t i = (size_t)(begin + r) * (size_t)net->width + (size_t)column;
        gamma += norm.times * norm.dy[i] * norm.hat[i];
        beta += norm.times * norm.dy[i];
    }
    part[0][threadIdx.x] = gamma;
    part[1][threadIdx.x] = beta;
    __syncthreads();
    float *to = chunk_sums(frame, chunk);
    if (threadIdx.x < NORM_COLUMNS && column < net->width) {
        for (int k = 1; k < NORM_LANES; k++) {
            gamma += part[0][(int)threadIdx.x + k * NORM_COLUMNS];
            beta += part[1][(int)threadIdx.x + k * NORM_COLUMNS];
        }
        to[norm.gamma + (size_t)column] = gamma;
        to[norm.beta + (size_t)column] = beta;
    }
    const int slot = index - 2 * net->layers - 1;
    if (slot < 0 || (int)blockIdx.x % groups > 0)
        return;
    double sum = 0;
    for (int r = (int)threadIdx.x; r < rows; r += STAGE_THREADS)
        sum += (double)at(frame, net->slot[slot].sigma)[begin + r];
    sum = block_total<STAGE_THREADS>(sum);
    if (threadIdx.x == 0)
        to[(size_t)net->host_storage + net->slot[slot].seed + seed_of(frame, slot).sigma] =
            (float)((1 - (double)norm.times * (double)norm.times) * sum);
}

/* ---- embeddings -------------------------------------------------------------------------------------------------- */

/* add(row) for the rows of the batch whose token is `entry`, in their order, by a warp. */
template <class Add> DEVICE void each_token(const struct frame &frame, int entry, Add add)
{
    const int context = frame.net->context, lane = (int)threadIdx.x % WARP_LANES;
    for (int n = 0; n < frame.sequences; n++) {
        const uint8_t *row = frame.tokens + (size_t)n * (size_t)frame.token_stride;
        for (int t = 0; t < context; t += WARP_LANES) {
            unsigned found = __ballot_sync(0xffffffffu, t + lane < context && row[t + lane] == entry);
            for (; found; found &= found - 1)
                add(n * context + t + __ffs((int)found) - 1);
        }
    }
}

/* A warp per entry of the vocabulary, which adds up the tokens that are it, and per position. */
STAGE_KERNEL embed_sums(const struct exact_view *net, int first)
{
    enum { OWN = 4 }; /* columns of a lane at once */
    const struct frame frame = train_frame(net, first);
    const int width = net->width, lane = (int)threadIdx.x % WARP_LANES;
    const float *g = at(frame, net->dembed);
    each_row(net->vocabulary + net->context, block_share(), [&](int entry) {
        const bool token = entry < net->vocabulary;
        const int own = token ? entry : entry - net->vocabulary;
        float *to = net->embedded + (size_t)frame.place * net->embeddings + (token ? net->tokens : net->positions) +
                    (size_t)own * (size_t)width;
        for (int column = lane; column - lane < width; column += OWN * WARP_LANES) {
            float sum[OWN] = {};
            const auto add = [&](int row) {
#pragma unroll
                for (int k = 0; k < OWN; k++)
                    if (column + k * WARP_LANES < width)
                        sum[k] += g[(size_t)row * (size_t)width + (size_t)(column + k * WARP_LANES)];
            };
            if (token)
                each_token(frame, own, add);
            for (int n = 0; !token && n < frame.sequences; n++)
                add(n * net->context + own);
#pragma unroll
            for (int k = 0; k < OWN; k++)
                if (column + k * WARP_LANES < width)
                    to[column + k * WARP_LANES] = sum[k];
        }
    });
}

/* ---- over the chunks --------------------------------------------------------------------------------------------- */

DEVICE float over_chunks(const struct frame &frame, size_t i)
{
    float sum = 0;
    for (int c = 0; c < frame.net->chunks; c++)
        sum += chunk_sums(frame, c)[i];
    return sum;
}

/* SPAN numbers per block: first the host's, with the sum of their squares, then those of seeds and gates. */
STAGE_KERNEL reduce(const struct exact_view *net, int first)
{
    const struct frame frame = train_frame(net, first);
    const size_t place = (size_t)frame.place;
    float *grads = net->grads + place * net->grad;
    const bool host = (int)blockIdx.x < net->spans;
    const uint32_t begin = (blockIdx.x - (host ? 0 : (uint32_t)net->spans)) * SPAN,
                   count = host ? net->host_storage : net->seed_storage + net->gate_storage;
    double square = 0;
    for (uint32_t i = begin + threadIdx.x; i < begin + SPAN && i < count; i += STAGE_THREADS) {
        float sum = 0;
        if (host) {
            sum = over_chunks(frame, i) + (i < net->embeddings ? net->embedded[place * net->embeddings + i] : 0.0f);
            square += (double)sum * (double)sum;
            grads[i] = sum;
        } else {
            const struct slot_number number = slot_number_of(frame, i);
            if (number.tensor && slot_learns(frame.exec[number.slot]))
                sum = over_chunks(frame, (size_t)net->host_storage + i);
            grads[(size_t)net->host_storage + i] = sum;
        }
    }
    if (!host)
        return;
    square = block_total<STAGE_THREADS>(square);
    if (threadIdx.x == 0)
        net->squares[place * (size_t)net->spans + blockIdx.x] = square;
}

/* ---- statistics -------------------------------------------------------------------------------------------------- */

DEVICE void measure_part(const struct exact_part &part, const float *g, struct part_step *step)
{
    for (int t = 0; t < part.tensors; t++) {
        double square = 0;
        for (uint32_t i = threadIdx.x; i < part.tensor[t].size; i += STAGE_THREADS) {
            const double v = (double)g[part.tensor[t].offset + i];
            square += v * v;
        }
        square = block_total<STAGE_THREADS>(square);
        gradient_count(&step->tally, sqrt(square));
        step->square += square;
    }
}

/* Counts an update, and what Adam makes of its number. */
DEVICE struct part_step::adam_step count_update(const struct net_setup *setup, const struct optimiser &o, int env,
                                                int part)
{
    struct part_step::adam_step adam = {};
    if (!setup->updates)
        return adam;
    uint32_t *updates = setup->updates + (size_t)env * (size_t)net_parts(setup->shape.slots) + part;
    const double step = (double)++*updates, lr = (double)(o.lr * setup->source.conditions.lr_factor[env]);
    adam.rate = (float)(lr / (1 - pow((double)o.momentum, step)));
    adam.root_scale = (float)(1 / sqrt(1 - pow((double)o.second, step)));
    return adam;
}

/* A block per env and part: the host, and each slot being trained. The host's block also sums the batch's losses. */
STAGE_KERNEL settle(const struct exact_view *net, int first)
{
    const struct net_setup *setup = net->setup;
    const struct frame frame = train_frame(net, first);
    const size_t place = (size_t)frame.place;
    const int part = (int)blockIdx.x, slot = part - 1;
    const float *seeds = net->grads + place * net->grad + net->host_storage, *gates = seeds + net->seed_storage;
    struct part_step step = {};
    if (part == 0) {
        double square = 0, loss = 0, hits = 0;
        for (int i = (int)threadIdx.x; i < net->spans; i += STAGE_THREADS)
            square += net->squares[place * (size_t)net->spans + (size_t)i];
        for (int i = (int)threadIdx.x; i < net->rows; i += STAGE_THREADS) {
            loss += net->losses[place * (size_t)net->rows + (size_t)i];
            hits += net->hits[place * (size_t)net->rows + (size_t)i];
        }
        step.square = block_total<STAGE_THREADS>(square);
        const struct net_score score = {block_total<STAGE_THREADS>(loss), block_total<STAGE_THREADS>(hits),
                                        (uint64_t)net->rows};
        if (threadIdx.x == 0)
            net_score_add(&net->train[frame.env], score);
    } else {
        if (!frame.exec[slot].train)
            return;
        measure_part(seed_of(frame, slot).part, seeds + net->slot[slot].seed, &step);
        if (frame.exec[slot].gate)
            measure_part(net->gate, gates + net->slot[slot].gate, &step);
    }
    if (threadIdx.x > 0)
        return;
    step.factor = (float)gradient_clip(sqrt(step.square), setup->rates.max_grad_norm);
    if (part == 0)
        step.adam[0] = count_update(setup, setup->rates.host, frame.env, NET_HOST);
    else
        step.adam[0] = count_update(setup, setup->rates.seed, frame.env, net_seed_part(slot));
    if (part > 0 && frame.exec[slot].gate)
        step.adam[1] = count_update(setup, setup->rates.seed, frame.env, net_gate_part(net->slots, slot));
    net->part[place * NET_PARTS + (size_t)part] = step;
}

/* ---- step -------------------------------------------------------------------------------------------------------- */

struct number {
    float *w, *first, *second; /* second NULL: SGD */
};

/* nn/flat.c: optimiser_step. */
DEVICE void optimiser_number(const struct optimiser &o, float lr_factor, bool decays, float factor,
                             const struct part_step::adam_step &adam, float g, struct number number)
{
    const float lr = o.lr * lr_factor, decay = decays ? o.weight_decay : 0.0f, d = factor * g;
    if (o.kind == OPTIMISER_SGD) {
        *number.first = o.momentum * *number.first + (d + decay * *number.w);
        *number.w -= lr * *number.first;
        return;
    }
    if (decay > 0)
        *number.w *= 1 - lr * decay;
    *number.first = o.momentum * *number.first + (float)(1 - (double)o.momentum) * d;
    *number.second = o.second * *number.second + (float)(1 - (double)o.second) * (d * d);
    *number.w -= adam.rate * *number.first / (sqrtf(*number.second) * adam.root_scale + o.epsilon);
}

DEVICE struct number number_at(float *w, float *first, float *second, size_t i)
{
    struct number number = {w + i, first + i, second ? second + i : nullptr};
    return number;
}

/* One thread per parameter. */
STAGE_KERNEL update(const struct exact_view *net, int first)
{
    const struct net_setup *setup = net->setup;
    const struct frame frame = train_frame(net, first);
    const size_t env = (size_t)frame.env;
    const uint32_t i = blockIdx.x * STAGE_THREADS + threadIdx.x;
    if (i >= net->grad)
        return;
    const struct part_step *part = net->part + (size_t)frame.place * NET_PARTS;
    const float g = net->grads[(size_t)frame.place * net->grad + i],
                lr_factor = setup->source.conditions.lr_factor[env];
    if (i < net->host_storage) {
        optimiser_number(setup->rates.host, lr_factor, net->decays[i / LAYOUT_ALIGN], part[0].factor, part[0].adam[0],
                         g,
                         number_at(setup->host, setup->host_momentum, setup->host_second, env * net->host_storage + i));
        return;
    }
    const struct slot_number number = slot_number_of(frame, i - net->host_storage);
    if (!number.tensor)
        return;
    const struct part_step &own = part[1 + number.slot];
    const size_t place = env * (number.gate ? net->gate_storage : net->seed_storage) + number.offset;
    optimiser_number(setup->rates.seed, lr_factor, number.tensor->decays, own.factor, own.adam[number.gate], g,
                     number.gate ? number_at(setup->gate, setup->gate_momentum, setup->gate_second, place)
                                 : number_at(setup->seed, setup->seed_momentum, setup->seed_second, place));
}

KERNEL void begin_step(const struct exact_view *net, int envs)
{
    const int env = (int)(blockIdx.x * STAGE_THREADS + threadIdx.x);
    if (env < envs)
        net->train[env] = {0, 0, 0};
}

DEVICE struct slot_grads slot_report(const struct exact_view *net, const struct part_step *part, int slot,
                                     const struct slot_exec &exec)
{
    if (exec.mode == SLOT_SKIP || !exec.train)
        return gradient_none(exec.mode != SLOT_SKIP);
    const struct part_step &own = part[1 + slot];
    const double params = (double)net->seed_of[exec.blueprint].part.params + (exec.gate ? (double)net->gate.params : 0);
    return gradient_report(&own.tally, sqrt(own.square), params, sqrt(part[0].square), (double)net->host_params);
}

/* After the last batch: the step's measurements. One thread per env of the group. */
KERNEL void end_step(const struct exact_view *net, int first, int envs)
{
    const struct net_setup *setup = net->setup;
    const int place = (int)(blockIdx.x * STAGE_THREADS + threadIdx.x), env = first + place;
    if (place >= envs)
        return;
    setup->train_loss[env] = net->train[env].loss / (double)net->train[env].count;
    setup->train_accuracy[env] = net_points(setup->scored_by_loss, setup->classes, &net->train[env]);
    for (int j = 0; j < net->slots; j++) {
        const size_t row = (size_t)env * (size_t)net->slots + (size_t)j;
        setup->grads[row] = slot_report(net, net->part + (size_t)place * NET_PARTS, j, setup->exec[row]);
    }
}

/* ---- enqueued ---------------------------------------------------------------------------------------------------- */

void transformer_update(struct transformer_net *device, int first, int envs)
{
    const struct exact_view &view = device->view;
    const unsigned numbers = (unsigned)((view.grad + STAGE_THREADS - 1) / STAGE_THREADS);
    runtime_launch(device->runtime, settle, net_blocks(1 + (unsigned)view.slots, envs, STAGE_THREADS), device->net,
                   first);
    runtime_launch(device->runtime, update, net_blocks(numbers, envs, STAGE_THREADS), device->net, first);
}

void transformer_step(struct transformer_net *device, int first, int envs)
{
    struct runtime *rt = device->runtime;
    const struct exact_view *net = device->net, &view = device->view;
    const unsigned slot_spans = (view.seed_storage + view.gate_storage + SPAN - 1) / SPAN,
                   norms = (unsigned)((2 * view.layers + 1 + view.slots) *
                                      ((view.width + NORM_COLUMNS - 1) / NORM_COLUMNS));
    const struct launch norm_blocks = {dim3(norms, (unsigned)envs, (unsigned)view.chunks), dim3(STAGE_THREADS), 0,
                                       false};
    runtime_launch(rt, weights, net_blocks(device->work, envs, STAGE_THREADS), net, first);
    runtime_launch(rt, norm_sums, norm_blocks, net, first);
    runtime_launch(rt, embed_sums, net_blocks(row_blocks(view.vocabulary + view.context), envs, STAGE_THREADS), net,
                   first);
    runtime_launch(rt, reduce, net_blocks((unsigned)view.spans + slot_spans, envs, STAGE_THREADS), net, first);
    transformer_update(device, first, envs);
}

void transformer_begin_step(struct transformer_net *device)
{
    const unsigned envs = (unsigned)device->setup.envs;
    runtime_launch(device->runtime, begin_step,
                   net_blocks((envs + STAGE_THREADS - 1) / STAGE_THREADS, 1, STAGE_THREADS), device->net,
                   device->setup.envs);
}

void transformer_end_step(struct transformer_net *device, int first, int envs)
{
    const unsigned blocks = ((unsigned)envs + STAGE_THREADS - 1) / STAGE_THREADS;
    runtime_launch(device->runtime, end_step, net_blocks(blocks, 1, STAGE_THREADS), device->net, first, envs);
}
