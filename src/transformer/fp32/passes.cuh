/*
 * The passes of a batch, a kernel per stage, for a group of envs at a time. Seeds run beside the host: those in
 * TRAINING take the stream that enters their slot and the gradient after it, and give nothing back.
 */
#ifndef TRANSFORMER_FP32_PASSES_CUH
#define TRANSFORMER_FP32_PASSES_CUH

#include "transformer/fp32/stages.cuh"

#define PASS_KERNEL    template <class P> STAGE_KERNEL
#define PRODUCT_KERNEL template <class P> KERNEL void __launch_bounds__(P::THREADS, 1)

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* A warp per token: 1 in the column that is it. The product of these with the gradient where tokens enter is that of
 * their embeddings. */
template <class P> DEVICE void mark_entries(const struct frame &frame)
{
    const struct exact_view &net = *frame.net;
    typename P::operand *entries = operands<P>(frame, net.entries);
    each_row(frame.rows, block_share(), [&](int row) {
        const int token = token_of(frame, row);
        for (int k = 2 * ((int)threadIdx.x % WARP_LANES); k < net.vocabulary; k += 2 * WARP_LANES) {
            const few<2> two = {{k == token ? 1.0f : 0.0f, k + 1 == token ? 1.0f : 0.0f}};
            keep(entries + (size_t)row * (size_t)net.vocabulary + k, two);
        }
    });
}

PASS_KERNEL embed(const struct exact_view *net, int first)
{
    const struct frame frame = train_frame(net, first);
    batch_wait();
    stage_embed<P>(frame, block_share());
    if constexpr (P::FUSED)
        mark_entries<P>(frame);
}

template <class P>
KERNEL void __launch_bounds__(STAGE_THREADS, 4) norm(const struct exact_view *net, int first, int layer, int half)
{
    const struct frame frame = train_frame(net, first);
    const struct exact_half view = net->layer[layer].half[half];
    const place_t from = stream_after(frame, view.before);
    batch_wait();
    stage_norm<P>(frame, view.norm, view.norms, from, block_share());
}

PRODUCT_KERNEL half_first(const struct exact_view *net, int first, int layer, int half)
{
    const struct frame frame = train_frame(net, first);
    const struct exact_half view = net->layer[layer].half[half];
    batch_wait();
    stage_first<P>(frame, view.branch, view.places, host_of<P>(frame), operands<P>(frame, view.norms.normed),
                   block_share());
}

PRODUCT_KERNEL half_second(const struct exact_view *net, int first, int layer, int half)
{
    const struct frame frame = train_frame(net, first);
    const struct exact_half view = net->layer[layer].half[half];
    const place_t from = stream_after(frame, view.before);
    batch_wait();
    stage_second<P>(frame, view.branch, view.places, host_of<P>(frame), from, view.to, block_share());
}

/* The last blocks have the gate net: it reads the same. */
PRODUCT_KERNEL seed_first(const struct exact_view *net, int first, int slot)
{
    const struct frame frame = train_frame(net, first);
    const int gates = P::tiles(frame.rows, net->gate_hidden), seeds = (int)gridDim.x - gates, own = (int)blockIdx.x;
    const bool gate = own >= seeds, any = gate ? slot_gated(frame, slot) : seed_has_branch(frame, slot);
    batch_wait();
    if (!any)
        return;
    if (gate)
        stage_gate<P>(frame, slot, {own - seeds, gates});
    else
        stage_seed_first<P>(frame, slot, {own, seeds});
}

PRODUCT_KERNEL seed_second(const struct exact_view *net, int first, int slot)
{
    const struct frame frame = train_frame(net, first);
    const bool any = seed_adds_branch(frame, slot);
    batch_wait();
    if (any)
        stage_seed_second<P>(frame, slot, block_share());
}

PASS_KERNEL mix(const struct exact_view *net, int first, int slot)
{
    const struct frame frame = train_frame(net, first);
    const bool any = net->slot[slot].to.exact != net->stream.exact || !slot_idle(frame, slot);
    batch_wait();
    if (any)
        stage_mix<P>(frame, slot, block_share());
}

/* Attention of a layer or, if slot >= 0, of that slot's seed. */
struct attention {
    const struct branch_places *places;
    int heads; /* 0: there is none */
};

DEVICE struct attention attention_of(const struct frame &frame, int layer, int slot)
{
    const struct exact_view &net = *frame.net;
    struct attention own = {&net.layer[layer].half[0].places, net.heads};
    if (slot >= 0) {
        own.places = &net.slot[slot].places;
        own.heads = seed_has_branch(frame, slot) && seed_of(frame, slot).branch.kind == BRANCH_ATTENTION ? SEED_HEADS
                                                                                                         : 0;
    }
    return own;
}

template <class P, int HEAD>
KERNEL void __launch_bounds__(STAGE_THREADS, HEAD > 0 && HEAD <= 64 ? 2 : 1)
    attend(const struct exact_view *net, int first, int layer, int slot)
{
    const struct frame frame = train_frame(net, first);
    const struct attention own = attention_of(frame, layer, slot);
    batch_wait();
    if (own.heads)
        stage_attend<P, HEAD>(frame, *own.places, own.heads, block_share());
}

PASS_KERNEL last_norm(const struct exact_view *net, int first)
{
    const struct frame frame = train_frame(net, first);
    const place_t from = stream_after(frame, net->before_last);
    batch_wait();
    stage_norm<P>(frame, net->last, net->last_places, from, block_share());
}

DEVICE void keep_verdict(const struct frame &frame, int row, double loss, bool hit)
{
    const size_t place = (size_t)frame.place * (size_t)frame.net->rows + (size_t)row;
    frame.net->losses[place] = loss;
    frame.net->hits[place] = hit;
}

DEVICE float loss_scale(const struct exact_view *net)
{
    return (float)(1 / (double)net->rows);
}

PASS_KERNEL classify(const struct exact_view *net, int first)
{
    const struct frame frame = train_frame(net, first);
    batch_wait();
    if constexpr (P::FUSED)
        P::judge(frame, block_share(), loss_scale(net), operands<P>(frame, net->dlogits),
                 [&](int row, double loss, bool hit) { keep_verdict(frame, row, loss, hit); });
    else
        stage_logits<P>(frame, block_share());
}

PASS_KERNEL judge(const struct exact_view *net, int first)
{
    const struct frame frame = train_frame(net, first);
    batch_wait();
    each_row(frame.rows, block_share(), [&](int row) {
        const size_t at_row = (size_t)row * (size_t)net->vocabulary;
        float *gradient = at(frame, net->dlogits) + at_row;
        const struct row_verdict verdict = row_judge(net->vocabulary, at(frame, net->logits) + at_row,
                                                     target_of(frame, row), loss_scale(net),
                                                     [&](int k, float g) { gradient[k] = g; });
        if (threadIdx.x % WARP_LANES == 0)
            keep_verdict(frame, row, verdict.loss, verdict.hit);
    });
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* From the gradient of what the branch adds to that of `hidden` or, for attention, of what it mixed. */
template <class P>
DEVICE void second_backward(const struct frame &frame, const struct branch_view &branch,
                            const struct branch_places &places, const struct params<P> &params,
                            const typename P::operand *dy)
{
    const typename P::operand *slope = branch.kind == BRANCH_MLP ? operands<P>(frame, places.hidden) : nullptr;
    typename P::operand *to = operands<P>(frame, branch.kind == BRANCH_ATTENTION ? frame.net->dmixed : places.dhidden);
    P::backward(frame, branch.mixed, frame.net->width, params.weights + branch.w2, dy, block_share(),
                numbers_beside(slope, branch.mixed), [&](int row, int column, const auto &sum, const auto &factor) {
                    keep(to + (size_t)row * (size_t)branch.mixed + (size_t)column,
                         slope ? paired(sum, factor, [](float a, float b) { return a * b; }) : sum);
                });
}

template <class P, int HEAD>
KERNEL void __launch_bounds__(STAGE_THREADS, HEAD > 0 && HEAD <= 64 ? 2 : 1)
    attend_backward(const struct exact_view *net, int first, int layer, int slot)
{
    const struct frame frame = train_frame(net, first);
    const struct attention own = attention_of(frame, layer, slot);
    batch_wait();
    if (!own.heads)
        return;
    const int parts = P::attend_parts(net->context, net->width / own.heads);
    each_attended(frame, own.heads, 2 * parts, block_share(), [&](int n, int head, int k) {
        const struct attended<typename P::operand> a = sequence_of<P>(frame, *own.places, own.heads, n);
        if (k % 2 == 0) /* the last queries see most, and the first keys are seen most */
            P::template attend_queries<HEAD>(a, head, parts - 1 - k / 2);
        else
            P::template attend_keys<HEAD>(a, head, k / 2);
    });
}

PRODUCT_KERNEL half_second_backward(const struct exact_view *net, int first, int layer, int half)
{
    const struct frame frame = train_frame(net, first);
    const struct exact_half view = net->layer[layer].half[half];
    const struct stream_place dy = gradient_after(frame, view);
    batch_wait();
    second_backward<P>(frame, view.branch, view.places, host_of<P>(frame), operands<P>(frame, dy.operand));
}

/* The gradient of what a norm yields, from that of the linear layer that reads it. */
template <class P>
DEVICE void linear_backward(const struct frame &frame, int out, const typename P::operand *weights,
                            const typename P::operand *dy, typename P::operand *to)
{
    const int width = frame.net->width;
    P::backward(frame, width, out, weights, dy, block_share(), nothing_beside(),
                [&](int row, int column, const auto &sum, const auto &) {
                    keep(to + (size_t)row * (size_t)width + (size_t)column, sum);
                });
}

PRODUCT_KERNEL half_first_backward(const struct exact_view *net, int first, int layer, int half)
{
    const struct frame frame = train_frame(net, first);
    const struct exact_half view = net->layer[layer].half[half];
    batch_wait();
    linear_backward<P>(frame, view.branch.hidden, host_of<P>(frame).weights + view.branch.w1,
                       operands<P>(frame, view.places.dhidden), operands<P>(frame, view.norms.dnormed));
}

/* The gradient of a norm's input, added to the one that goes past it; `past` NULL: there is none. */
template <class P>
DEVICE void norm_backward(const struct frame &frame, const struct norm_view &norm, const struct norm_places &places,
                          const float *past, const struct stream_place &to)
{
    const int width = frame.net->width;
    const float *gamma = frame.host + norm.gamma;
    each_row(frame.rows, block_share(), [&](int row) {
        const size_t first = (size_t)row * (size_t)width;
        P::normalise_backward(width, operands<P>(frame, places.hat) + first, at(frame, places.rstd)[row],
                              operands<P>(frame, places.dnormed) + first, gamma, past ? past + first : nullptr,
                              [&](size_t i, const auto &dx) { put_stream<P>(frame, to, first + i, dx); });
    });
}

template <class P>
KERNEL void __launch_bounds__(STAGE_THREADS, 3)
    half_norm_backward(const struct exact_view *net, int first, int layer, int half)
{
    const struct frame frame = train_frame(net, first);
    const struct exact_half view = net->layer[layer].half[half];
    const struct stream_place past = gradient_after(frame, view);
    batch_wait();
    norm_backward<P>(frame, view.norm, view.norms, at(frame, past.exact), view.dx);
}

PRODUCT_KERNEL classify_backward(const struct exact_view *net, int first)
{
    const struct frame frame = train_frame(net, first);
    batch_wait();
    linear_backward<P>(frame, net->vocabulary, host_of<P>(frame).weights + net->tokens,
                       operands<P>(frame, net->dlogits), operands<P>(frame, net->last_places.dnormed));
}

PASS_KERNEL last_norm_backward(const struct exact_view *net, int first)
{
    const struct frame frame = train_frame(net, first);
    batch_wait();
    norm_backward<P>(frame, net->last, net->last_places, nullptr, net->dlast);
}

/* ---- slots, backward --------------------------------------------------------------------------------------------- */

/* The gate net of a token, from the gradient of its value to that of its hidden layer. */
template <class P> DEVICE void gate_row_backward(const struct frame &frame, int slot, int row, float dvalue)
{
    const struct exact_view &net = *frame.net;
    const struct exact_slot &view = net.slot[slot];
    const float q = at(frame, view.q)[row], d = dvalue * q * (1 - q),
                *w = gate_params(frame, slot) + net.gate_branch.w2;
    const size_t first = (size_t)row * (size_t)net.gate_hidden;
    const typename P::operand *hidden = operands<P>(frame, view.gate_hidden) + first;
    typename P::operand *dhidden = operands<P>(frame, view.dgate_hidden) + first,
                        *dq = operands<P>(frame, view.dq) + (size_t)row * (size_t)P::LEAST;
    each_lane(net.gate_hidden, [&](int k) { keep(&dhidden[k], number(hidden[k]) > 0 ? d * w[k] : 0); });
    each_lane(P::LEAST, [&](int k) { keep(&dq[k], k == 0 ? d : 0.0f); });
}

/* A norm seed of a token: a token's part of sigma's gradient, and dx += where gradients pass. */
template <class P> DEVICE void norm_row_backward(const struct frame &frame, int slot, int row, float *dx)
{
    const struct exact_slot &view = frame.net->slot[slot];
    const struct exact_seed &seed = seed_of(frame, slot);
    const int width = frame.net->width;
    const size_t first = (size_t)row * (size_t)width;
    const float *params = seed_params(frame, slot), *gamma = params + seed.norm_at.gamma,
                *beta = params + seed.norm_at.beta, *x = at(frame, view.x.exact) + first;
    const typename P::operand *hat = operands<P>(frame, view.hat) + first, *g = seed_gradient<P>(frame, slot) + first;
    const float t = norm_mix(frame, slot);
    const auto u = [&](int i) { return number(g[i]); };
    at(frame, view.sigma)[row] =
        row_total(width, [&](int i) { return u(i) * (gamma[i] * number(hat[i]) + beta[i] - x[i]); });
    if (dx)
        row_normalise_backward(
            width, hat, at(frame, view.rstd)[row], [&](int i) { return t * u(i) * gamma[i]; },
            [&](int i, float d) { dx[i] += u(i) - t * u(i) + d; });
}

/* A blended token, from the gradient after the slot: that of the stream before it, as far as it goes past the seed's
 * branch, that of the seed's output, and the gate net's. */
template <class P>
DEVICE void blend_row_backward(const struct frame &frame, int slot, int row, const float *g, float *dx)
{
    const struct exact_slot &view = frame.net->slot[slot];
    const struct slot_exec &exec = frame.exec[slot];
    const int width = frame.net->width;
    const size_t first = (size_t)row * (size_t)width;
    const float *x = at(frame, view.x.exact) + first, *s = at(frame, view.s) + first,
                a = amplitude_of(frame, slot, row);
    const bool passes = slot_passes(frame, slot), through = passes && !seed_of(frame, slot).norm; /* s = x + ... */
    typename P::operand *ds = operands<P>(frame, view.ds) + first;
    each_lane(width, [&](int i) {
        float past, d;
        if (exec.algorithm == ALGORITHM_MULTIPLY) {
            const float t = tanhf(s[i] - x[i]);
            d = g[i] * x[i] * (a * (1 - t * t));
            past = g[i] * (1 + a * t) - (passes ? d : 0.0f);
        } else {
            d = a * g[i];
            past = (1 - a) * g[i];
        }
        keep(&ds[i], d);
        dx[i] = past + (through ? d : 0.0f);
    });
    if (exec.gate)
        gate_row_backward<P>(frame, slot, row,
                             slot_amplitude(exec) * row_total(width, [&](int i) { return g[i] * (s[i] - x[i]); }));
}

PASS_KERNEL mix_backward(const struct exact_view *net, int first, int slot)
{
    const struct frame frame = train_frame(net, first);
    const struct exact_slot &view = net->slot[slot];
    const bool mixes = slot_mixes(frame, slot), norm = slot_runs(frame, slot) && seed_of(frame, slot).norm,
               passes = slot_passes(frame, slot);
    const bool any = net->way[view.stop].layer < 0 || !slot_idle(frame, slot);
    batch_wait();
    if (!any)
        return;
    each_row(frame.rows, block_share(), [&](int row) {
        const size_t at_row = (size_t)row * (size_t)net->width;
        const float *g = at(frame, view.dy.exact) + at_row;
        float *dx = at(frame, view.dx.exact) + at_row;
        const auto put = [&](int i, const auto &value) { put_stream<P>(frame, view.dx, at_row + (size_t)i, value); };
        if (!mixes && !norm) {
            each_few<P::BESIDE>(net->width, [&](int i) { put(i, few_at<P::BESIDE>(g + i)); });
            return;
        }
        if (mixes)
            blend_row_backward<P>(frame, slot, row, g, dx);
        else
            each_lane(net->width, [&](int i) { dx[i] = g[i]; });
        if (norm)
            norm_row_backward<P>(frame, slot, row, passes ? dx : nullptr);
        if (view.dx.operand != view.dx.exact) /* now that it is whole */
            each_lane(net->width, [&](int i) { put(i, dx[i]); });
    });
}

PRODUCT_KERNEL seed_second_backward(const struct exact_view *net, int first, int slot)
{
    const struct frame frame = train_frame(net, first);
    const bool any = seed_has_branch(frame, slot);
    batch_wait();
    if (any)
        second_backward<P>(frame, seed_of(frame, slot).branch, net->slot[slot].places, seed_at<P>(frame, slot),
                           seed_gradient<P>(frame, slot));
}

/* The gradient before the slot += what comes through a linear layer that reads the same. */
template <class P>
DEVICE void add_backward(const struct frame &frame, int slot, int out, const typename P::operand *weights,
                         const typename P::operand *dy)
{
    const int width = frame.net->width;
    const struct stream_place &to = frame.net->slot[slot].dx;
    const float *dx = at(frame, to.exact);
    P::backward(frame, width, out, weights, dy, block_share(), numbers_beside(dx, width),
                [&](int row, int column, const auto &sum, const auto &past) {
                    put_stream<P>(frame, to, (size_t)row * (size_t)width + (size_t)column,
                                  paired(past, sum, [](float a, float b) { return a + b; }));
                });
}

/* Through the seed and its gate net. */
PRODUCT_KERNEL seed_first_backward(const struct exact_view *net, int first, int slot)
{
    const struct frame frame = train_frame(net, first);
    const bool passes = slot_passes(frame, slot), seed = passes && seed_has_branch(frame, slot),
               gate = passes && slot_gated(frame, slot);
    batch_wait();
    if (seed) {
        const struct branch_view &branch = seed_of(frame, slot).branch;
        add_backward<P>(frame, slot, branch.hidden, seed_at<P>(frame, slot).weights + branch.w1,
                        operands<P>(frame, net->slot[slot].places.dhidden));
    }
    if (gate) /* the same tiles, so a thread adds to what it wrote itself */
        add_backward<P>(frame, slot, net->gate_hidden, gate_at<P>(frame, slot).weights + net->gate_branch.w1,
                        operands<P>(frame, net->slot[slot].dgate_hidden));
}

/* ---- enqueued ---------------------------------------------------------------------------------------------------- */

/* Launch shapes of a group's stages. */
template <class P> struct stages {
    struct transformer_net *device;
    int first, envs;

    struct launch rows() const
    {
        return net_blocks(row_blocks(device->view.rows), envs, STAGE_THREADS);
    }
    struct launch product(int columns) const
    {
        return products(columns, 0);
    }
    struct launch products(int columns, int others) const
    {
        const int rows = device->view.rows;
        return net_blocks((unsigned)(P::tiles(rows, columns) + P::tiles(rows, others)), envs, P::THREADS,
                          P::product_shared());
    }
    struct launch attention(int heads, int times) const
    {
        const struct exact_view &net = device->view;
        return net_blocks((unsigned)(net.batch * heads * times * P::attend_parts(net.context, net.width / heads)), envs,
                          STAGE_THREADS, P::attend_bytes(net.width / heads, times > 1));
    }
    /* The widest of what any seed has inside. */
    int seed_hidden_most() const
    {
        int most = 0;
        for (const struct exact_seed &seed : device->view.seed_of)
            most = seed.branch.hidden > most ? seed.branch.hidden : most;
        return most;
    }
    template <class... T, class... A>
    void run(const char *name, void (*kernel)(T...), const struct launch &shape, A... args) const
    {
        runtime_launch_as(device->runtime, false, name, kernel, net_behind(shape),
                          (const struct exact_view *)device->net, first, args...);
    }
};
#define STAGE_RUN(stages, ...) (stages).run(#__VA_ARGS__, __VA_ARGS__)

template <class P> static void enqueue_layer_forward(const struct stages<P> &s, int layer)
{
    const struct exact_view &net = s.device->view;
    for (int half = 0; half < 2; half++) {
        STAGE_RUN(s, norm<P>, s.rows(), layer, half);
        STAGE_RUN(s, half_first<P>, s.product(net.layer[layer].half[half].branch.hidden), layer, half);
        if (half == 0)
            P::with_head(net.width / net.heads,
                         [&](auto head) { STAGE_RUN(s, attend<P, head>, s.attention(net.heads, 1), layer, -1); });
        STAGE_RUN(s, half_second<P>, s.product(net.width), layer, half);
    }
}

template <class P> static void enqueue_layer_backward(const struct stages<P> &s, int layer)
{
    const struct exact_view &net = s.device->view;
    for (int half = 1; half >= 0; half--) {
        STAGE_RUN(s, half_second_backward<P>, s.product(net.layer[layer].half[half].branch.mixed), layer, half);
        if (half == 0)
            P::with_head(net.width / net.heads, [&](auto head) {
                STAGE_RUN(s, attend_backward<P, head>, s.attention(net.heads, 2), layer, -1);
            });
        STAGE_RUN(s, half_first_backward<P>, s.product(net.width), layer, half);
        STAGE_RUN(s, half_norm_backward<P>, s.rows(), layer, half);
    }
}

template <class P> static void enqueue_slot_forward(const struct stages<P> &s, int slot)
{
    const struct exact_view &net = s.device->view;
    STAGE_RUN(s, seed_first<P>, s.products(s.seed_hidden_most(), net.gate_hidden), slot);
    P::with_head(net.width / SEED_HEADS,
                 [&](auto head) { STAGE_RUN(s, attend<P, head>, s.attention(SEED_HEADS, 1), 0, slot); });
    STAGE_RUN(s, seed_second<P>, s.product(net.width), slot);
    STAGE_RUN(s, mix<P>, s.rows(), slot);
}

template <class P> static void enqueue_slot_backward(const struct stages<P> &s, int slot)
{
    const struct exact_view &net = s.device->view;
    STAGE_RUN(s, mix_backward<P>, s.rows(), slot);
    STAGE_RUN(s, seed_second_backward<P>, s.product(s.seed_hidden_most()), slot);
    P::with_head(net.width / SEED_HEADS,
                 [&](auto head) { STAGE_RUN(s, attend_backward<P, head>, s.attention(SEED_HEADS, 2), 0, slot); });
    STAGE_RUN(s, seed_first_backward<P>, s.product(net.width), slot);
}

/* From the windows to losses and the gradient of the logits. */
template <class P> static void enqueue_forward(const struct stages<P> &s)
{
    const struct exact_view &net = s.device->view;
    STAGE_RUN(s, embed<P>, s.rows());
    for (int i = 0; i < net.stops; i++) {
        if (net.way[i].layer >= 0)
            enqueue_layer_forward(s, net.way[i].layer);
        if (net.way[i].slot >= 0)
            enqueue_slot_forward(s, net.way[i].slot);
    }
    STAGE_RUN(s, last_norm<P>, s.rows());
    STAGE_RUN(s, classify<P>,
              P::FUSED ? net_blocks((unsigned)((net.rows + P::CLASSIFIER_ROWS - 1) / P::CLASSIFIER_ROWS), s.envs,
                                    STAGE_THREADS, P::classifier_shared())
                       : s.product(net.vocabulary));
    if (!P::FUSED)
        STAGE_RUN(s, judge<P>, s.rows());
}

template <class P> static void enqueue_backward(const struct stages<P> &s)
{
    const struct exact_view &net = s.device->view;
    STAGE_RUN(s, classify_backward<P>, s.product(net.width));
    STAGE_RUN(s, last_norm_backward<P>, s.rows());
    for (int i = net.stops - 1; i >= 0; i--) {
        if (net.way[i].slot >= 0)
            enqueue_slot_backward(s, net.way[i].slot);
        if (net.way[i].layer >= 0)
            enqueue_layer_backward(s, net.way[i].layer);
    }
}

/* What the host's heads or those of a seed need, whichever is more. */
template <class P> static size_t attend_most(const struct exact_view &net, bool backward)
{
    const size_t host = P::attend_bytes(net.width / net.heads, backward),
                 seed = P::attend_bytes(net.width / SEED_HEADS, backward);
    return host > seed ? host : seed;
}

/* Once, in create: the shared memory that kernels ask for. */
template <class P> static void allow_passes(struct transformer_net *device)
{
    const auto allow = [&](auto kernel, size_t bytes) { runtime_allow_shared(device->runtime, kernel, bytes); };
    for (const int heads : {device->view.heads, (int)SEED_HEADS}) {
        const int size = device->view.width / heads;
        P::with_head(size, [&](auto head) {
            allow(attend<P, head>, attend_most<P>(device->view, false));
            allow(attend_backward<P, head>, attend_most<P>(device->view, true));
        });
    }
    if (!P::product_shared())
        return;
    const size_t bytes = P::product_shared();
    allow(half_first<P>, bytes);
    allow(half_second<P>, bytes);
    allow(seed_first<P>, bytes);
    allow(seed_second<P>, bytes);
    allow(classify<P>, P::classifier_shared());
    allow(classify_backward<P>, bytes);
    allow(half_second_backward<P>, bytes);
    allow(half_first_backward<P>, bytes);
    allow(seed_second_backward<P>, bytes);
    allow(seed_first_backward<P>, bytes);
}

#endif
