/*
 * The passes of a batch, a kernel per stage, for a group of envs at a time. Seeds run beside the host: those in
 * TRAINING take the stream that enters their slot and the gradient after it, and give nothing back.
 */
#include "cuda/runtime.cuh"

#include "transformer/fp32/stages.cuh"

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* A block per sequence. */
STAGE_KERNEL gather(const struct exact_view *net, int first, uint32_t index)
{
    const size_t row = (size_t)net->context + 1, sequence = (size_t)blockIdx.y * (size_t)net->batch + blockIdx.x;
    const uint8_t *window = gather_train_window(net->setup->source, (uint32_t)first + blockIdx.y, index, blockIdx.x);
    for (size_t t = threadIdx.x; t < row; t += STAGE_THREADS)
        net->windows[sequence * row + t] = window[t];
}

STAGE_KERNEL embed(const struct exact_view *net, int first)
{
    stage_embed(train_frame(net, first), block_share());
}

STAGE_KERNEL norm(const struct exact_view *net, int first, int layer, int half)
{
    const struct exact_half &view = net->layer[layer].half[half];
    stage_norm(train_frame(net, first), view.norm, view.norms, block_share());
}

STAGE_KERNEL half_first(const struct exact_view *net, int first, int layer, int half)
{
    const struct frame frame = train_frame(net, first);
    const struct exact_half &view = net->layer[layer].half[half];
    stage_first(frame, view.branch, view.places, frame.host, at(frame, view.norms.normed), block_share());
}

STAGE_KERNEL half_attend(const struct exact_view *net, int first, int layer)
{
    SHARED_BYTES(shared);
    stage_attend(train_frame(net, first), net->layer[layer].half[0].places, net->heads, block_share(), shared);
}

STAGE_KERNEL half_second(const struct exact_view *net, int first, int layer, int half)
{
    const struct frame frame = train_frame(net, first);
    const struct exact_half &view = net->layer[layer].half[half];
    stage_second(frame, view.branch, view.places, frame.host, at(frame, net->stream), stream_after(frame, layer, half),
                 block_share());
}

STAGE_KERNEL seed_first(const struct exact_view *net, int first, int slot)
{
    stage_seed_first(train_frame(net, first), slot, block_share());
}

STAGE_KERNEL seed_attend(const struct exact_view *net, int first, int slot)
{
    SHARED_BYTES(shared);
    stage_seed_attend(train_frame(net, first), slot, block_share(), shared);
}

STAGE_KERNEL seed_second(const struct exact_view *net, int first, int slot)
{
    stage_seed_second(train_frame(net, first), slot, block_share());
}

STAGE_KERNEL gate(const struct exact_view *net, int first, int slot)
{
    stage_gate(train_frame(net, first), slot, block_share());
}

STAGE_KERNEL mix(const struct exact_view *net, int first, int slot)
{
    stage_mix(train_frame(net, first), slot, block_share());
}

STAGE_KERNEL last_norm(const struct exact_view *net, int first)
{
    stage_norm(train_frame(net, first), net->last, net->last_places, block_share());
}

STAGE_KERNEL classify(const struct exact_view *net, int first)
{
    stage_logits(train_frame(net, first), block_share());
}

STAGE_KERNEL judge(const struct exact_view *net, int first)
{
    const struct frame frame = train_frame(net, first);
    const float scale = (float)(1 / (double)net->rows);
    each_row(frame.rows, block_share(), [&](int row) {
        const size_t at_row = (size_t)row * (size_t)net->vocabulary;
        float *gradient = at(frame, net->dlogits) + at_row;
        const struct row_verdict verdict = row_judge(net->vocabulary, at(frame, net->logits) + at_row,
                                                     target_of(frame, row), scale,
                                                     [&](int k, float g) { gradient[k] = g; });
        if (threadIdx.x % WARP_LANES == 0) {
            const size_t place = (size_t)frame.place * (size_t)net->rows + (size_t)row;
            net->losses[place] = verdict.loss;
            net->hits[place] = verdict.hit;
        }
    });
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* put(row, column, value) for every element of dy W. */
template <class Put>
DEVICE void linear_backward(const struct frame &frame, int in, int out, const float *weight, const float *dy, Put put)
{
    const struct matmul product = {frame.rows, in, out, dy, weight, out, in};
    matmul_share<BY_DEPTH, BY_LINE>(
        product, block_share(), [](int) { return 0.0f; }, put);
}

/* From the gradient of what the branch adds to that of `hidden` or, for attention, of what it mixed. */
DEVICE void second_backward(const struct frame &frame, const struct branch_view &branch,
                            const struct branch_places &places, const float *params, const float *dy)
{
    const float *slope = branch.kind == BRANCH_MLP ? at(frame, places.hidden) : nullptr;
    float *to = at(frame, branch.kind == BRANCH_ATTENTION ? frame.net->dmixed : places.dhidden);
    linear_backward(frame, branch.mixed, frame.net->width, params + branch.w2, dy, [&](int row, int column, float sum) {
        const size_t i = (size_t)row * (size_t)branch.mixed + (size_t)column;
        to[i] = slope ? sum * slope[i] : sum;
    });
}

DEVICE void attend_backward(const struct frame &frame, const struct branch_places &places, int heads,
                            unsigned char *shared)
{
    each_attended(frame, heads, 2, block_share(), [&](int n, int head, int item) {
        const struct attended a = sequence_of(frame, places, heads, n);
        if (item % 2 == 0)
            attend_backward_queries(a, head, item / 2, shared);
        else
            attend_backward_keys(a, head, item / 2, shared);
    });
}

STAGE_KERNEL half_second_backward(const struct exact_view *net, int first, int layer, int half)
{
    const struct frame frame = train_frame(net, first);
    const struct exact_half &view = net->layer[layer].half[half];
    second_backward(frame, view.branch, view.places, frame.host, at(frame, view.dy));
}

STAGE_KERNEL half_attend_backward(const struct exact_view *net, int first, int layer)
{
    SHARED_BYTES(shared);
    attend_backward(train_frame(net, first), net->layer[layer].half[0].places, net->heads, shared);
}

STAGE_KERNEL half_first_backward(const struct exact_view *net, int first, int layer, int half)
{
    const struct frame frame = train_frame(net, first);
    const struct exact_half &view = net->layer[layer].half[half];
    float *to = at(frame, view.norms.dnormed);
    linear_backward(
        frame, net->width, view.branch.hidden, frame.host + view.branch.w1, at(frame, view.places.dhidden),
        [&](int row, int column, float sum) { to[(size_t)row * (size_t)net->width + (size_t)column] = sum; });
}

/* The gradient of a norm's input, added to the one that goes past it; `past` NULL: there is none. */
DEVICE void norm_backward(const struct frame &frame, const struct norm_view &norm, const struct norm_places &places,
                          const float *past, float *to)
{
    const int width = frame.net->width;
    const float *gamma = frame.host + norm.gamma;
    each_row(frame.rows, block_share(), [&](int row) {
        const size_t first = (size_t)row * (size_t)width;
        const float *dnormed = at(frame, places.dnormed) + first;
        row_normalise_backward(
            width, at(frame, places.hat) + first, at(frame, places.rstd)[row],
            [&](int i) { return dnormed[i] * gamma[i]; },
            [&](int i, float dx) { to[first + (size_t)i] = (past ? past[first + (size_t)i] : 0.0f) + dx; });
    });
}

/* Where the gradient of the stream above a layer belongs: to the slot after it, or to its second half. */
DEVICE float *gradient_above(const struct frame &frame, int layer)
{
    const struct exact_view &net = *frame.net;
    if (layer < 0)
        return at(frame, net.dembed);
    const int slot = net.layer[layer].slot;
    return at(frame, slot < 0 ? net.layer[layer].half[1].dy : net.slot[slot].dy);
}

STAGE_KERNEL half_norm_backward(const struct exact_view *net, int first, int layer, int half)
{
    const struct frame frame = train_frame(net, first);
    const struct exact_half &view = net->layer[layer].half[half];
    norm_backward(frame, view.norm, view.norms, at(frame, view.dy),
                  half == 1 ? at(frame, net->layer[layer].half[0].dy) : gradient_above(frame, layer - 1));
}

STAGE_KERNEL classify_backward(const struct exact_view *net, int first)
{
    const struct frame frame = train_frame(net, first);
    float *to = at(frame, net->last_places.dnormed);
    linear_backward(
        frame, net->width, net->vocabulary, frame.host + net->tokens, at(frame, net->dlogits),
        [&](int row, int column, float sum) { to[(size_t)row * (size_t)net->width + (size_t)column] = sum; });
}

STAGE_KERNEL last_norm_backward(const struct exact_view *net, int first)
{
    const struct frame frame = train_frame(net, first);
    norm_backward(frame, net->last, net->last_places, nullptr, gradient_above(frame, net->layers - 1));
}

/* ---- slots, backward --------------------------------------------------------------------------------------------- */

/* The gate net of a token, from the gradient of its value to that of its hidden layer. */
DEVICE void gate_row_backward(const struct frame &frame, int slot, int row, float dvalue)
{
    const struct exact_view &net = *frame.net;
    const struct exact_slot &view = net.slot[slot];
    const float q = at(frame, view.q)[row], d = dvalue * q * (1 - q),
                *w = gate_params(frame, slot) + net.gate_branch.w2;
    const size_t first = (size_t)row * (size_t)net.gate_hidden;
    const float *hidden = at(frame, view.gate_hidden) + first;
    float *dhidden = at(frame, view.dgate_hidden) + first;
    each_lane(net.gate_hidden, [&](int k) { dhidden[k] = hidden[k] > 0 ? d * w[k] : 0; });
    at(frame, view.dq)[row] = d; /* the same in every lane */
}

/* A norm seed of a token: a token's part of sigma's gradient, and dx += where gradients pass. */
DEVICE void norm_row_backward(const struct frame &frame, int slot, int row, float *dx)
{
    const struct exact_slot &view = frame.net->slot[slot];
    const struct exact_seed &seed = seed_of(frame, slot);
    const int width = frame.net->width;
    const size_t first = (size_t)row * (size_t)width;
    const float *params = seed_params(frame, slot), *gamma = params + seed.norm_at.gamma,
                *beta = params + seed.norm_at.beta, *x = at(frame, view.x) + first, *hat = at(frame, view.hat) + first,
                *u = seed_gradient(frame, slot) + first;
    const float t = norm_mix(frame, slot);
    at(frame, view.sigma)[row] = row_total(width, [&](int i) { return u[i] * (gamma[i] * hat[i] + beta[i] - x[i]); });
    if (dx)
        row_normalise_backward(
            width, hat, at(frame, view.rstd)[row], [&](int i) { return t * u[i] * gamma[i]; },
            [&](int i, float d) { dx[i] += u[i] - t * u[i] + d; });
}

/* A blended token, from the gradient after the slot: that of the stream before it, as far as it goes past the seed's
 * branch, that of the seed's output, and the gate net's. */
DEVICE void blend_row_backward(const struct frame &frame, int slot, int row, const float *g, float *dx)
{
    const struct exact_slot &view = frame.net->slot[slot];
    const struct slot_exec &exec = frame.exec[slot];
    const int width = frame.net->width;
    const size_t first = (size_t)row * (size_t)width;
    const float *x = at(frame, view.x) + first, *s = at(frame, view.s) + first, a = amplitude_of(frame, slot, row);
    const bool passes = slot_passes(frame, slot), through = passes && !seed_of(frame, slot).norm; /* s = x + ... */
    float *ds = at(frame, view.ds) + first;
    each_lane(width, [&](int i) {
        float past;
        if (exec.algorithm == ALGORITHM_MULTIPLY) {
            const float t = tanhf(s[i] - x[i]);
            ds[i] = g[i] * x[i] * (a * (1 - t * t));
            past = g[i] * (1 + a * t) - (passes ? ds[i] : 0.0f);
        } else {
            ds[i] = a * g[i];
            past = (1 - a) * g[i];
        }
        dx[i] = past + (through ? ds[i] : 0.0f);
    });
    if (exec.gate)
        gate_row_backward(frame, slot, row,
                          slot_amplitude(exec) * row_total(width, [&](int i) { return g[i] * (s[i] - x[i]); }));
}

STAGE_KERNEL mix_backward(const struct exact_view *net, int first, int slot)
{
    const struct frame frame = train_frame(net, first);
    const struct exact_slot &view = net->slot[slot];
    const bool mixes = slot_mixes(frame, slot), norm = slot_runs(frame, slot) && seed_of(frame, slot).norm,
               passes = slot_passes(frame, slot);
    each_row(frame.rows, block_share(), [&](int row) {
        const size_t at_row = (size_t)row * (size_t)net->width;
        const float *g = at(frame, view.dy) + at_row;
        float *dx = at(frame, net->layer[view.layer].half[1].dy) + at_row;
        if (mixes)
            blend_row_backward(frame, slot, row, g, dx);
        else
            each_lane(net->width, [&](int i) { dx[i] = g[i]; });
        if (norm)
            norm_row_backward(frame, slot, row, passes ? dx : nullptr);
    });
}

STAGE_KERNEL seed_second_backward(const struct exact_view *net, int first, int slot)
{
    const struct frame frame = train_frame(net, first);
    if (seed_has_branch(frame, slot))
        second_backward(frame, seed_of(frame, slot).branch, net->slot[slot].places, seed_params(frame, slot),
                        seed_gradient(frame, slot));
}

STAGE_KERNEL seed_attend_backward(const struct exact_view *net, int first, int slot)
{
    SHARED_BYTES(shared);
    const struct frame frame = train_frame(net, first);
    if (seed_has_branch(frame, slot) && seed_of(frame, slot).branch.kind == BRANCH_ATTENTION)
        attend_backward(frame, net->slot[slot].places, SEED_HEADS, shared);
}

/* The gradient before the slot += what comes through a linear layer that reads the same. */
DEVICE void add_backward(const struct frame &frame, int slot, int out, const float *weight, const float *dy)
{
    const int width = frame.net->width;
    float *dx = at(frame, frame.net->layer[frame.net->slot[slot].layer].half[1].dy);
    linear_backward(frame, width, out, weight, dy,
                    [&](int row, int column, float sum) { dx[(size_t)row * (size_t)width + (size_t)column] += sum; });
}

STAGE_KERNEL seed_first_backward(const struct exact_view *net, int first, int slot)
{
    const struct frame frame = train_frame(net, first);
    if (!slot_passes(frame, slot) || !seed_has_branch(frame, slot))
        return;
    const struct branch_view &branch = seed_of(frame, slot).branch;
    add_backward(frame, slot, branch.hidden, seed_params(frame, slot) + branch.w1,
                 at(frame, net->slot[slot].places.dhidden));
}

STAGE_KERNEL gate_backward(const struct exact_view *net, int first, int slot)
{
    const struct frame frame = train_frame(net, first);
    if (slot_passes(frame, slot) && slot_gated(frame, slot))
        add_backward(frame, slot, net->gate_hidden, gate_params(frame, slot) + net->gate_branch.w1,
                     at(frame, net->slot[slot].dgate_hidden));
}

/* ---- enqueued ---------------------------------------------------------------------------------------------------- */

/* Launch shapes of a group's stages. */
struct stages {
    struct transformer_net *device;
    int first, envs;

    struct launch rows() const
    {
        return net_blocks(row_blocks(device->view.rows), envs, STAGE_THREADS);
    }
    struct launch product(int columns) const
    {
        return net_blocks((unsigned)matmul_tiles(device->view.rows, columns), envs, STAGE_THREADS);
    }
    struct launch attention(int heads, int times) const
    {
        const struct exact_view &net = device->view;
        return net_blocks((unsigned)(net.batch * heads * times * attend_tiles(net.context, net.width / heads)), envs,
                          STAGE_THREADS, attend_shared(net.width / heads));
    }
    /* The widest of what any seed has inside. */
    int seed_hidden_most() const
    {
        int most = 0;
        for (const struct exact_seed &seed : device->view.seed_of)
            most = seed.branch.hidden > most ? seed.branch.hidden : most;
        return most;
    }
    template <class... P, class... A> void run(void (*kernel)(P...), const struct launch &shape, A... args) const
    {
        runtime_launch(device->runtime, kernel, shape, (const struct exact_view *)device->net, first, args...);
    }
};

static void slot_forward(const struct stages &s, int slot)
{
    const struct exact_view &net = s.device->view;
    s.run(seed_first, s.product(s.seed_hidden_most()), slot);
    s.run(seed_attend, s.attention(SEED_HEADS, 1), slot);
    s.run(seed_second, s.product(net.width), slot);
    s.run(gate, s.product(net.gate_hidden), slot);
    s.run(mix, s.rows(), slot);
}

static void slot_backward(const struct stages &s, int slot)
{
    const struct exact_view &net = s.device->view;
    s.run(mix_backward, s.rows(), slot);
    s.run(seed_second_backward, s.product(s.seed_hidden_most()), slot);
    s.run(seed_attend_backward, s.attention(SEED_HEADS, 2), slot);
    s.run(seed_first_backward, s.product(net.width), slot);
    s.run(gate_backward, s.product(net.width), slot);
}

void transformer_slot_forward(struct transformer_net *device, int slot)
{
    slot_forward({device, 0, 1}, slot);
}

void transformer_slot_backward(struct transformer_net *device, int slot)
{
    slot_backward({device, 0, 1}, slot);
}

void transformer_forward(struct transformer_net *device, int first, int envs)
{
    const struct exact_view &net = device->view;
    const struct stages s = {device, first, envs};
    s.run(embed, s.rows());
    for (int i = 0; i < net.layers; i++) {
        for (int half = 0; half < 2; half++) {
            s.run(norm, s.rows(), i, half);
            s.run(half_first, s.product(net.layer[i].half[half].branch.hidden), i, half);
            if (half == 0)
                s.run(half_attend, s.attention(net.heads, 1), i);
            s.run(half_second, s.product(net.width), i, half);
        }
        if (net.layer[i].slot >= 0)
            slot_forward(s, net.layer[i].slot);
    }
    s.run(last_norm, s.rows());
    s.run(classify, s.product(net.vocabulary));
    s.run(judge, s.rows());
}

void transformer_backward(struct transformer_net *device, int first, int envs)
{
    const struct exact_view &net = device->view;
    const struct stages s = {device, first, envs};
    s.run(classify_backward, s.product(net.width));
    s.run(last_norm_backward, s.rows());
    for (int i = net.layers - 1; i >= 0; i--) {
        if (net.layer[i].slot >= 0)
            slot_backward(s, net.layer[i].slot);
        for (int half = 1; half >= 0; half--) {
            s.run(half_second_backward, s.product(net.layer[i].half[half].branch.mixed), i, half);
            if (half == 0)
                s.run(half_attend_backward, s.attention(net.heads, 2), i);
            s.run(half_first_backward, s.product(net.width), i, half);
            s.run(half_norm_backward, s.rows(), i, half);
        }
    }
}

void transformer_allow_train(struct transformer_net *device)
{
    runtime_allow_shared(device->runtime, half_attend, device->attend_shared);
    runtime_allow_shared(device->runtime, seed_attend, device->attend_shared);
    runtime_allow_shared(device->runtime, half_attend_backward, device->attend_shared);
    runtime_allow_shared(device->runtime, seed_attend_backward, device->attend_shared);
}

void transformer_gather(struct transformer_net *device, int first, int envs, uint32_t index)
{
    runtime_launch(device->runtime, gather, net_blocks((unsigned)device->view.batch, envs, STAGE_THREADS), device->net,
                   first, index);
}

void transformer_fp32_train(struct net_device *given)
{
    struct transformer_net *device = transformer_net_of(given);
    const int all = device->setup.envs;
    net_plan_train(device);
    transformer_begin_step(device);
    for (int first = 0; first < all; first += device->view.group) {
        const int envs = all - first < device->view.group ? all - first : device->view.group;
        for (uint32_t index = 0; index < device->setup.source.batches; index++) {
            transformer_gather(device, first, envs, index);
            transformer_forward(device, first, envs);
            transformer_backward(device, first, envs);
            transformer_step(device, first, envs);
        }
        transformer_end_step(device, first, envs);
    }
}
