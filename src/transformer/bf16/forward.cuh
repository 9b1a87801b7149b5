/*
 * The forward pass of a sequence by a team of four warps. The stream is in registers; only attention and what it reads
 * pass through the team's sheets. In training the tape keeps what the backward pass will ask for.
 */
#ifndef TRANSFORMER_BF16_FORWARD_CUH
#define TRANSFORMER_BF16_FORWARD_CUH

#include "transformer/bf16/net.cuh"
#include "transformer/fp32/stages.cuh"

/* What a thread block works on, in shared memory: registers are scarce. */
struct desk {
    struct frame frame; /* its rows are those of the whole batch */
    const uint4 *tiles; /* of the env */
    uint4 *tape;        /* of the block's teams; NULL in an evaluation */
    float *log;         /* likewise */
    float *slab;
    bool again; /* the slab has sums already */
};

DEVICE uint32_t block_memory()
{
    SHARED_BYTES(shared);
    return smem(shared);
}

/* A thread's view of its team. */
struct team {
    const struct desk *desk;
    const struct small_view *small;

    DEVICE_MEMBER const struct frame &frame() const
    {
        return desk->frame;
    }
    DEVICE_MEMBER int index() const
    {
        return (int)threadIdx.x / TEAM_THREADS;
    }
    DEVICE_MEMBER int teams() const
    {
        return (int)blockDim.x / TEAM_THREADS;
    }
    DEVICE_MEMBER int warp() const
    {
        return (int)threadIdx.x / TILE_LANES % TEAM_WARPS;
    }
    /* The warp's first token. */
    DEVICE_MEMBER int row() const
    {
        return warp() * TILE;
    }
    /* In shared memory, the thread's place for a stream. */
    template <int C> DEVICE_MEMBER uint32_t bank() const
    {
        return block_memory() + block_shared<C>::bank(teams()) + threadIdx.x * 16;
    }
    DEVICE_MEMBER uint4 *tape() const
    {
        return desk->tape + (size_t)index() * small->tape * TEAM_THREADS + threadIdx.x % TEAM_THREADS;
    }
    /* Logarithms of attention at a place; NULL in an evaluation. */
    DEVICE_MEMBER float *logs(uint32_t place) const
    {
        return desk->log ? desk->log + (size_t)index() * small->logs + place : nullptr;
    }
};

/* With numbers that the compiler knows: a kernel takes as many barriers as it may use. */
DEVICE void team_meet(const struct team &team)
{
    switch (team.index()) {
    case 0:
        return team_sync(1, TEAM_THREADS);
    case 1:
        return team_sync(2, TEAM_THREADS);
    case 2:
        return team_sync(3, TEAM_THREADS);
    default:
        return team_sync(4, TEAM_THREADS);
    }
}

template <int C> DEVICE uint32_t sheet_of(const struct team &team, int sheet_index)
{
    return block_memory() + block_shared<C>::sheets(team.index()) + (uint32_t)(sheet_index * sheet<C>::BYTES);
}

/* ---- a stream, or its gradient, aside ---------------------------------------------------------------------------- */

template <int C> DEVICE void bank_put(const struct team &t, const struct lines<C> &x)
{
#pragma unroll
    for (int j = 0; j < C / 8; j++)
        store_shared_128(t.bank<C>() + (uint32_t)(j * t.teams() * TEAM_THREADS * 16), __float_as_uint(x.v[j][0]),
                         __float_as_uint(x.v[j][1]), __float_as_uint(x.v[j][2]), __float_as_uint(x.v[j][3]));
}

/* x += what was put there. */
template <int C> DEVICE void bank_add(const struct team &t, struct lines<C> &x)
{
#pragma unroll
    for (int j = 0; j < C / 8; j++) {
        uint32_t four[4];
        load_shared_128(four, t.bank<C>() + (uint32_t)(j * t.teams() * TEAM_THREADS * 16));
#pragma unroll
        for (int e = 0; e < 4; e++)
            x.v[j][e] += __uint_as_float(four[e]);
    }
}

template <int C> DEVICE struct lines<C> bank_get(const struct team &t)
{
    struct lines<C> x = lines_zero<C>();
    bank_add<C>(t, x);
    return x;
}

/* ---- the tape ---------------------------------------------------------------------------------------------------- */

template <int C> DEVICE void tape_write(const struct team &team, uint32_t place, const struct pairs<C> &x)
{
    if (!team.desk->tape)
        return;
#pragma unroll
    for (int k = 0; k < C / TILE; k++)
        team.tape()[(place + (uint32_t)k) * TEAM_THREADS] = make_uint4(x.a[k][0], x.a[k][1], x.a[k][2], x.a[k][3]);
}

template <int C> DEVICE struct pairs<C> tape_read(const struct team &team, uint32_t place)
{
    struct pairs<C> x;
#pragma unroll
    for (int k = 0; k < C / TILE; k++) {
        const uint4 four = team.tape()[(place + (uint32_t)k) * TEAM_THREADS];
        x.a[k][0] = four.x;
        x.a[k][1] = four.y;
        x.a[k][2] = four.z;
        x.a[k][3] = four.w;
    }
    return x;
}

/* One of the two pairs of numbers at a place. */
DEVICE void tape_write_two(const struct team &team, uint32_t place, int which, const float x[2])
{
    if (team.desk->tape)
        reinterpret_cast<uint2 *>(team.tape() + place * TEAM_THREADS)[which] =
            make_uint2(__float_as_uint(x[0]), __float_as_uint(x[1]));
}

DEVICE void tape_read_two(const struct team &team, uint32_t place, int which, float x[2])
{
    const uint2 two = reinterpret_cast<const uint2 *>(team.tape() + place * TEAM_THREADS)[which];
    x[0] = __uint_as_float(two.x);
    x[1] = __uint_as_float(two.y);
}

/* ---- branches ---------------------------------------------------------------------------------------------------- */

/* A branch of an env: one place each for its tiles, its parameters and its gradients, from which the rest follows
 * (W1, b1, W2, b2; tiles without biases, each matrix once more for products with it transposed). */
template <int C> struct branch_at {
    enum { ACROSS = C / TILE };
    enum branch_kind kind;
    bool biased;
    int slices, mixed; /* sixteenths of what W1 yields and of what W2 reads */
    const uint4 *tiles;
    const float *params;
    float *slab; /* NULL: not asked for */

    DEVICE_MEMBER const uint4 *w1() const
    {
        return tiles;
    }
    DEVICE_MEMBER const uint4 *w1_back() const
    {
        return tiles + slices * ACROSS * TILE_LANES;
    }
    DEVICE_MEMBER const uint4 *w2() const
    {
        return tiles + 2 * slices * ACROSS * TILE_LANES;
    }
    DEVICE_MEMBER const uint4 *w2_back() const
    {
        return tiles + (2 * slices + mixed) * ACROSS * TILE_LANES;
    }
    /* Numbers before each but W1, in the parameters of a biased branch and in a slab. */
    DEVICE_MEMBER int at_b1() const
    {
        return slices * TILE * C;
    }
    DEVICE_MEMBER int at_w2() const
    {
        return slices * TILE * (C + 1);
    }
    DEVICE_MEMBER int at_b2() const
    {
        return at_w2() + mixed * TILE * C;
    }
};

template <int C> DEVICE struct branch_at<C> half_branch(const struct team &team, int layer, int half)
{
    const struct small_branch &small = team.small->half[layer][half];
    struct branch_at<C> at;
    at.kind = half ? BRANCH_MLP : BRANCH_ATTENTION;
    at.biased = true;
    at.slices = (half ? MLP_WIDER : 3) * C / TILE;
    at.mixed = (half ? MLP_WIDER : 1) * C / TILE;
    at.tiles = team.desk->tiles + small.w1.forward;
    at.params = team.frame().host + small.w1.params;
    at.slab = team.desk->slab + small.w1.slab;
    return at;
}

DEVICE const uint4 *slot_tiles(const struct team &team, int slot)
{
    return team.desk->tiles + team.small->host_tiles +
           (uint32_t)slot * (team.small->seed_tiles + team.small->gate_tiles);
}

template <int C> DEVICE struct branch_at<C> seed_branch(const struct team &team, int slot, float *slab)
{
    const struct branch_view &view = seed_of(team.frame(), slot).branch;
    struct branch_at<C> at;
    at.kind = view.kind;
    at.biased = view.biased;
    at.slices = in_tiles(view.hidden);
    at.mixed = in_tiles(view.mixed);
    at.tiles = slot_tiles(team, slot);
    at.params = seed_params(team.frame(), slot);
    at.slab = slab;
    return at;
}

/* W1 x + b1, sixteen columns. */
template <int C>
DEVICE void first_slice(float to[2][4], const struct branch_at<C> &branch, const struct pairs<C> &x, int slice)
{
    const struct lines<TILE> bias =
        lines_of<TILE>(branch.biased ? branch.params + branch.at_b1() + slice * TILE : nullptr);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        to[0][e] = bias.v[0][e];
        to[1][e] = bias.v[1][e];
    }
    product<C, TILE>(to, x.a, branch.w1() + slice * (C / TILE) * TILE_LANES, C / TILE);
}

/* to += b2. */
template <int C> DEVICE void second_bias(struct lines<C> &to, const struct branch_at<C> &branch)
{
    if (!branch.biased)
        return;
    const struct lines<C> all = lines_of<C>(branch.params + branch.at_b2());
#pragma unroll
    for (int j = 0; j < C / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            to.v[j][e] += all.v[j][e];
}

/* to += the branch's output, of an MLP or a LORA. */
template <int C>
DEVICE void inner_forward(struct lines<C> &to, const struct branch_at<C> &branch, const struct pairs<C> &x)
{
    second_bias(to, branch);
#pragma unroll 2
    for (int slice = 0; slice < branch.slices; slice++) {
        struct lines<TILE> hidden;
        first_slice<C>(hidden.v, branch, x, slice);
        if (branch.kind == BRANCH_MLP) {
            float slope;
#pragma unroll
            for (int e = 0; e < 8; e++)
                hidden.v[e / 4][e % 4] = gelu_both(hidden.v[e / 4][e % 4], &slope);
        }
        const struct pairs<TILE> mixed = rounded(hidden);
        product<TILE, C>(to.v, mixed.a, branch.w2() + slice * TILE_LANES, branch.slices);
    }
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* What W1 yields, into the sheets 0 (queries), 1 (keys) and 2 (values). */
template <int C>
DEVICE void attention_first(const struct team &team, const struct branch_at<C> &branch, const struct pairs<C> &x)
{
    team_meet(team); /* nobody reads the sheets any more */
#pragma unroll 2
    for (int slice = 0; slice < 3 * C / TILE; slice++) {
        struct lines<TILE> sum;
        first_slice<C>(sum.v, branch, x, slice);
        const struct pairs<TILE> out = rounded(sum);
        sheet_store<C, TILE>(sheet_of<C>(team, slice / (C / TILE)), team.row(), slice % (C / TILE) * TILE, out.a);
    }
    team_meet(team);
}

/* Operands of heads of 16 columns, or of 8: the rest of the depth is zero. */
template <int C, int D> DEVICE void head_own(uint32_t a[4], uint32_t sheet_at, int row, int column)
{
    uint32_t four[1][4];
    sheet_load<C, TILE>(four, sheet_at, row, column);
    for (int k = 0; k < 4; k++)
        a[k] = D < TILE && k >= 2 ? 0 : four[0][k];
}

template <int C, int D> DEVICE void head_rows(uint32_t b[4], uint32_t sheet_at, int row, int column)
{
    sheet_rows<C>(b, sheet_at, row, column);
    if (D < TILE)
        b[1] = b[3] = 0;
}

/* to [D / 8] += a times sixteen rows of a sheet. */
template <int C, int D>
DEVICE void head_add(float (*to)[4], const uint32_t a[4], uint32_t sheet_at, int row, int column)
{
    uint32_t b[4];
    sheet_columns<C>(b, sheet_at, row, column);
    mma_bf16(to[0], a, b[0], b[1]);
    if (D == TILE)
        mma_bf16(to[D / 8 - 1], a, b[2], b[3]);
}

/* Columns of a head, rounded, into the warp's own rows of a sheet. */
template <int C, int D>
DEVICE void head_store(uint32_t sheet_at, int row, int column, const float (*x)[4])
{
    const int g = lane_of() / 4;
#pragma unroll
    for (int j = 0; j < D / 8; j++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            store_shared_32(sheet_at + (uint32_t)((row + g + 8 * half) * sheet<C>::ROW + 2 * (column + column_of(j))),
                            pack_bf16(x[j][2 * half], x[j][2 * half + 1]));
}

/* Base 2, as the tape's logarithms: of softmax(q k / sqrt(D)). */
template <int D> DEVICE float head_scale()
{
    return D == 16 ? 0.25f * 1.44269504f : 0.35355339f * 1.44269504f;
}

/* The warp's queries of a head against all keys up to them; the output goes to sheet 3, the warp's own rows. */
template <int C, int D> DEVICE void head_forward(const struct team &team, int head, float *logs)
{
    enum { NONE = -1 };
    uint32_t q[4], b[4];
    float s[TEAM_TOKENS / 8][4], top[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0}, out[D / 8][4] = {};
    const int g = lane_of() / 4, column = head * D;
    head_own<C, D>(q, sheet_of<C>(team, 0), team.row(), column);
#pragma unroll
    for (int n = 0; n < TEAM_WARPS; n++) {
#pragma unroll
        for (int e = 0; e < 8; e++)
            s[2 * n + e / 4][e % 4] = 0;
        if (n > team.warp())
            continue;
        head_rows<C, D>(b, sheet_of<C>(team, 1), n * TILE, column);
        mma_bf16(s[2 * n], q, b[0], b[1]);
        mma_bf16(s[2 * n + 1], q, b[2], b[3]);
#pragma unroll
        for (int e = 0; e < 8; e++) {
            const int key = n * TILE + column_of(e / 4) + e % 2, query = team.row() + g + e % 4 / 2 * 8;
            float &own = s[2 * n + e / 4][e % 4];
            own = key > query ? -INFINITY : own * head_scale<D>();
            top[e % 4 / 2] = fmaxf(top[e % 4 / 2], own);
        }
    }
    top[0] = quad_max(top[0]);
    top[1] = quad_max(top[1]);
#pragma unroll
    for (int n = 0; n < TEAM_WARPS; n++) {
        if (n > team.warp())
            continue;
        struct lines<TILE> p;
#pragma unroll
        for (int e = 0; e < 8; e++) {
            p.v[e / 4][e % 4] = exp2f(s[2 * n + e / 4][e % 4] - top[e % 4 / 2]);
            total[e % 4 / 2] += p.v[e / 4][e % 4];
        }
        const struct pairs<TILE> weights = rounded(p);
        head_add<C, D>(out, weights.a[0], sheet_of<C>(team, 2), n * TILE, column);
    }
    for (int r = 0; r < 2; r++) {
        total[r] = quad_sum(total[r]);
        if (logs && lane_of() % 4 == 0)
            logs[head * TEAM_TOKENS + team.row() + g + 8 * r] = top[r] + log2f(total[r]);
    }
#pragma unroll
    for (int j = 0; j < D / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            out[j][e] /= total[e / 2];
    head_store<C, D>(sheet_of<C>(team, 3), team.row(), column, out);
}

/* What attention mixed, of the warp's tokens; `logs` NULL: nobody will ask. */
template <int C, int D>
DEVICE struct pairs<C> attention_mixed(const struct team &team, const struct branch_at<C> &branch,
                                       const struct pairs<C> &x, float *logs)
{
    struct pairs<C> mixed;
    attention_first<C>(team, branch, x);
#pragma unroll 1
    for (int head = 0; head < C / D; head++)
        head_forward<C, D>(team, head, logs);
    __syncwarp();
    sheet_load<C, C>(mixed.a, sheet_of<C>(team, 3), team.row(), 0);
    return mixed;
}

/* ---- the host ---------------------------------------------------------------------------------------------------- */

template <int C> DEVICE struct lines<C> embedded(const struct team &team, const uint8_t *tokens)
{
    const struct exact_view &net = *team.frame().net;
    struct lines<C> stream;
    const int g = lane_of() / 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int t = team.row() + g + 8 * half;
        const bool within = t < net.context;
        const float *entry = team.frame().host + net.tokens + (within ? (uint32_t)tokens[t] * C : 0),
                    *position = team.frame().host + net.positions + (within ? (uint32_t)t * C : 0);
#pragma unroll
        for (int j = 0; j < C / 8; j++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                stream.v[j][2 * half + e] =
                    within ? __ldg(position + column_of(j) + e) + __ldg(entry + column_of(j) + e) : 0.0f;
    }
    return stream;
}

/* The norm before a half: rounded rows and 1 / deviation to the tape, and what it yields. */
template <int C>
DEVICE struct pairs<C> norm_forward(const struct team &team, const struct lines<C> &x, const struct norm_view &norm,
                                    uint32_t place, uint32_t numbers, int which)
{
    float rstd[2];
    const struct pairs<C> hat = rounded(normalised<C>(x, rstd, (float)LAYER_NORM_EPS));
    tape_write<C>(team, place, hat);
    tape_write_two(team, numbers, which, rstd);
    return scaled<C>(hat, team.frame().host + norm.gamma, team.frame().host + norm.beta);
}

template <int C> DEVICE void layer_forward(const struct team &team, struct lines<C> &stream, int layer)
{
    const struct exact_layer &view = team.frame().net->layer[layer];
    const struct small_tape &tape = team.small->layer[layer];
    {
        const struct branch_at<C> branch = half_branch<C>(team, layer, 0);
        struct pairs<C> x = norm_forward<C>(team, stream, view.half[0].norm, tape.first, tape.numbers, 0);
        x = attention_mixed<C, 16>(team, branch, x, team.logs(tape.logs));
        tape_write<C>(team, tape.mixed, x);
        second_bias(stream, branch);
        product<C, C>(stream.v, x.a, branch.w2(), C / TILE);
    }
    const struct branch_at<C> branch = half_branch<C>(team, layer, 1);
    const struct pairs<C> x = norm_forward<C>(team, stream, view.half[1].norm, tape.second, tape.numbers, 1);
    inner_forward<C>(stream, branch, x);
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

/* The gate net's hidden layer of a slot: W1 x + b1, before ReLU. */
template <int C> DEVICE struct lines<TILE> gate_hidden_of(const struct team &team, int slot, const struct pairs<C> &x)
{
    const struct exact_view &net = *team.frame().net;
    const float *bias = gate_params(team.frame(), slot) + net.gate_branch.b1;
    struct lines<TILE> hidden;
#pragma unroll
    for (int e = 0; e < 8; e++) {
        const int k = column_of(e / 4) + e % 2;
        hidden.v[e / 4][e % 4] = k < net.gate_hidden ? __ldg(bias + k) : 0.0f;
    }
    product<C, TILE>(hidden.v, x.a, slot_tiles(team, slot) + team.small->gate.forward, C / TILE);
    return hidden;
}

/* W2 of the gate net at a lane's column, or 0 beyond. */
DEVICE float gate_weight(const struct team &team, int slot, int column)
{
    const struct exact_view &net = *team.frame().net;
    return column < net.gate_hidden ? __ldg(gate_params(team.frame(), slot) + net.gate_branch.w2 + column) : 0.0f;
}

/* The gate net's value of a lane's two tokens. */
template <int C> DEVICE void gate_values(const struct team &team, int slot, const struct pairs<C> &x, float q[2])
{
    const struct lines<TILE> hidden = gate_hidden_of<C>(team, slot, x);
    const float bias = __ldg(gate_params(team.frame(), slot) + team.frame().net->gate_branch.b2);
    float sum[2];
    row_sums<TILE>(sum, [&](int j, int e) {
        return fmaxf(hidden.v[j][e], 0.0f) * gate_weight(team, slot, column_of(j) + e % 2);
    });
    for (int r = 0; r < 2; r++)
        q[r] = 1 / (1 + expf(-(sum[r] + bias)));
}

template <int C> DEVICE void norm_seed_forward(const struct team &team, int slot, struct lines<C> &d)
{
    const struct exact_seed &seed = seed_of(team.frame(), slot);
    const float *params = seed_params(team.frame(), slot), t = norm_mix(team.frame(), slot),
                *gamma = params + seed.norm_at.gamma, *beta = params + seed.norm_at.beta;
    float rstd[2];
    const struct lines<C> hat = normalised<C>(d, rstd, (float)LAYER_NORM_EPS);
#pragma unroll
    for (int j = 0; j < C / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int c = column_of(j) + e % 2;
            d.v[j][e] = t * (fmaf(__ldg(gamma + c), hat.v[j][e], __ldg(beta + c)) - d.v[j][e]);
        }
}

/* d is the stream that enters a seed, and becomes what the seed adds to it; 0 for NOOP. In TRAINING only attention
 * runs, for the tape. */
template <int C> DEVICE void seed_forward(const struct team &team, int slot, struct lines<C> &d, bool mixes)
{
    const struct exact_seed &seed = seed_of(team.frame(), slot);
    const struct small_tape &tape = team.small->slot[slot];
    const struct branch_at<C> branch = seed_branch<C>(team, slot, nullptr);
    if (seed.norm && mixes) {
        norm_seed_forward<C>(team, slot, d);
        return;
    }
    const struct pairs<C> x = rounded(d);
    d = lines_zero<C>();
    if (branch.kind == BRANCH_ATTENTION) {
        const struct pairs<C> mixed = attention_mixed<C, C / SEED_HEADS>(team, branch, x, team.logs(tape.logs));
        tape_write<C>(team, tape.mixed, mixed);
        if (mixes) {
            second_bias(d, branch);
            product<C, C>(d.v, mixed.a, branch.w2(), C / TILE);
        }
    } else if (branch.kind != BRANCH_NONE && mixes) {
        inner_forward<C>(d, branch, x);
    }
}

/* The weight of a seed for a lane's two tokens. */
DEVICE void seed_weights(const struct team &team, int slot, const float q[2], float a[2])
{
    const struct slot_exec &exec = team.frame().exec[slot];
    for (int r = 0; r < 2; r++) {
        const float scaled_by = exec.gate ? slot_amplitude(exec) * q[r] : slot_amplitude(exec);
        a[r] = scaled_by < 0 ? 0 : scaled_by > 1 ? 1 : scaled_by;
    }
}

/* The stream waits in the bank for what the seed adds to it. */
template <int C> DEVICE void slot_forward(const struct team &team, struct lines<C> &stream, int slot)
{
    if (!slot_runs(team.frame(), slot))
        return;
    const bool mixes = slot_mixes(team.frame(), slot),
               multiply = team.frame().exec[slot].algorithm == ALGORITHM_MULTIPLY;
    const struct small_tape &tape = team.small->slot[slot];
    float q[2] = {1, 1}, a[2];
    bank_put<C>(team, stream);
    tape_write<C>(team, tape.first, rounded(stream));
    seed_forward<C>(team, slot, stream, mixes);
    if (!mixes) {
        stream = bank_get<C>(team);
        return;
    }
    tape_write<C>(team, tape.second, rounded(stream));
    if (slot_gated(team.frame(), slot))
        gate_values<C>(team, slot, rounded(bank_get<C>(team)), q);
    seed_weights(team, slot, q, a);
    tape_write_two(team, tape.numbers, 0, q);
    const struct lines<C> x = bank_get<C>(team);
#pragma unroll
    for (int j = 0; j < C / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const float s = x.v[j][e] + stream.v[j][e];
            stream.v[j][e] = blended(multiply, a[e / 2], x.v[j][e], &s);
        }
}

/* ---- the classifier ---------------------------------------------------------------------------------------------- */

struct verdict {
    float top, log;  /* the largest logit, and the logarithm of the sum of exponentials */
    float loss;
    bool hit; /* the target is the first of the largest */
};

/* Sixteen logits of the warp's tokens. */
template <int C> DEVICE struct lines<TILE> logits_of(const struct team &team, const struct pairs<C> &x, int slice)
{
    struct lines<TILE> logits = lines_zero<TILE>();
    product<C, TILE>(logits.v, x.a, team.desk->tiles + team.small->tokens.forward + slice * (C / TILE) * TILE_LANES,
                     C / TILE);
    return logits;
}

/* Of a lane's two tokens, the same in the four lanes that share them. */
template <int C>
DEVICE void judge_tokens(const struct team &team, const struct pairs<C> &x, const int target[2], struct verdict out[2])
{
    float top[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0}, wanted[2] = {0, 0};
    int first[2] = {TRANSFORMER_BYTES, TRANSFORMER_BYTES};
#pragma unroll 2
    for (int slice = 0; slice < TRANSFORMER_BYTES / TILE; slice++) {
        const struct lines<TILE> logits = logits_of<C>(team, x, slice);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float before = top[r];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const float own = logits.v[e / 2][2 * r + e % 2];
                const int k = slice * TILE + column_of(e / 2) + e % 2;
                first[r] = own > top[r] ? k : first[r];
                top[r] = fmaxf(top[r], own);
                wanted[r] = k == target[r] ? own : wanted[r];
            }
            total[r] *= exp2f((before - top[r]) * 1.44269504f);
#pragma unroll
            for (int e = 0; e < 4; e++)
                total[r] += exp2f((logits.v[e / 2][2 * r + e % 2] - top[r]) * 1.44269504f);
        }
    }
    for (int r = 0; r < 2; r++) {
        const float top_of_all = quad_max(top[r]);
        int best = top[r] == top_of_all ? first[r] : TRANSFORMER_BYTES;
        for (int mask = 1; mask < 4; mask *= 2)
            best = min(best, __shfl_xor_sync(~0u, best, mask));
        total[r] = quad_sum(total[r] * exp2f((top[r] - top_of_all) * 1.44269504f));
        out[r].top = top_of_all;
        out[r].log = logf(total[r]);
        out[r].loss = out[r].log + (top_of_all - quad_sum(wanted[r]));
        out[r].hit = best == target[r];
    }
}

/* The targets of a lane's two tokens; 0 beyond the sequence. */
DEVICE void targets_of(const struct team &team, const uint8_t *targets, int target[2])
{
    for (int r = 0; r < 2; r++) {
        const int t = team.row() + lane_of() / 4 + 8 * r;
        target[r] = t < team.frame().net->context ? targets[t] : 0;
    }
}

#endif
