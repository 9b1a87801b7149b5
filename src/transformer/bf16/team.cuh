/*
 * A team of four warps and its sequence: who a thread is, what waits in shared memory, what is on the tape, and
 * branches W2 f(W1 x + b1) + b2.
 */
#ifndef TRANSFORMER_BF16_TEAM_CUH
#define TRANSFORMER_BF16_TEAM_CUH

#include "transformer/bf16/net.cuh"
#include "transformer/bf16/products.cuh"
#include "transformer/fp32/stages.cuh"

/* What a thread block works on, in shared memory: registers are scarce. */
struct desk {
    struct frame frame; /* its rows are those of the whole batch */
    const uint4 *lots;  /* of the env */
    uint4 *tape;        /* of the block's teams; NULL in an evaluation */
    float *log;         /* likewise */
    float4 *bank;       /* of the block's teams */
    float *slab;
    int sequence; /* that of the first team */
    bool again;   /* the slab has sums already */
};

/* What a block of training reads all the time, in its shared memory: sheets leave global memory hardly any cache. */
struct block_plan {
    struct exact_view net;
    struct small_view small;
    struct slot_exec exec[SHAPE_SLOTS];
    struct desk desk;
};
static_assert(sizeof(struct block_plan) <= PLAN_BYTES, "its place in a block's shared memory");

DEVICE uint32_t block_memory()
{
    SHARED_BYTES(shared);
    return (smem(shared) + SHEET_PATTERN - 1) / SHEET_PATTERN * SHEET_PATTERN;
}

/* A thread's view of its team. */
struct team {
    const struct desk *desk;
    const struct small_view *small;
    const struct exact_view *net;
    struct crew crew;

    DEVICE_MEMBER const struct frame &frame() const
    {
        return desk->frame;
    }
    DEVICE_MEMBER int index() const
    {
        return (int)(fresh(threadIdx.x) / TEAM_THREADS);
    }
    DEVICE_MEMBER int teams() const
    {
        return crew.teams;
    }
    DEVICE_MEMBER int warp() const
    {
        return (int)(fresh(threadIdx.x) / TILE_LANES % TEAM_WARPS);
    }
    /* The warp's first token. */
    DEVICE_MEMBER int row() const
    {
        return warp() * TILE;
    }
    /* The thread's place for a stream, of one of the block's teams. */
    template <int C> DEVICE_MEMBER float4 *bank(int of) const
    {
        return desk->bank + (size_t)of * (C / 8) * TEAM_THREADS + fresh(threadIdx.x) % TEAM_THREADS;
    }
    DEVICE_MEMBER uint4 *tape() const
    {
        return desk->tape + (size_t)index() * small->tape * TEAM_THREADS + fresh(threadIdx.x) % TEAM_THREADS;
    }
    /* Logarithms of attention at a place; NULL in an evaluation. */
    DEVICE_MEMBER float *logs(uint32_t place) const
    {
        return desk->log ? desk->log + (size_t)index() * small->logs + place : nullptr;
    }
};

/* A kernel that does not know the number takes all barriers there are, which matters only where blocks share a
 * processor. */
DEVICE void team_meet(const struct team &team)
{
    team_sync(1 + (team.teams() == 1 ? 0 : team.index()), TEAM_THREADS);
}

template <int C> DEVICE uint32_t sheet_of(const struct team &team, int sheet_index)
{
    return block_memory() + block_shared<C>::sheets(team.crew, team.index()) + (uint32_t)(sheet_index * SHEET_BYTES);
}

/* ---- a stream, or its gradient, aside ---------------------------------------------------------------------------- */

template <int C> DEVICE void bank_put(const struct team &t, const struct lines<C> &x)
{
    float4 *bank = t.bank<C>(t.index());
#pragma unroll
    for (int j = 0; j < C / 8; j++)
        bank[j * TEAM_THREADS] = make_float4(x.v[j][0], x.v[j][1], x.v[j][2], x.v[j][3]);
}

/* x += what was put there. */
template <int C> DEVICE void bank_add(const struct team &t, struct lines<C> &x)
{
    const float4 *bank = t.bank<C>(t.index());
#pragma unroll
    for (int j = 0; j < C / 8; j++) {
        const float4 four = bank[j * TEAM_THREADS];
        x.v[j][0] += four.x;
        x.v[j][1] += four.y;
        x.v[j][2] += four.z;
        x.v[j][3] += four.w;
    }
}

template <int C> DEVICE struct lines<C> bank_get(const struct team &t) {
    struct lines<C> x = lines_zero<C>();
    bank_add<C>(t, x);
    return x;
}

/* ---- the tape ---------------------------------------------------------------------------------------------------- */

template <int C>
DEVICE void tape_write(const struct team &team, uint32_t place, const struct pairs<C> &x)
{
    if (!team.desk->tape)
        return;
#pragma unroll
    for (int k = 0; k < C / TILE; k++)
        team.tape()[(place + (uint32_t)k) * TEAM_THREADS] = make_uint4(x.a[k][0], x.a[k][1], x.a[k][2], x.a[k][3]);
}

template <int C> DEVICE struct pairs<C> tape_read(const struct team &team, uint32_t place) {
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
DEVICE void
tape_write_two(const struct team &team, uint32_t place, int which, const float x[2])
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

/* Weights, and a bias of as many numbers as they have rows or, of a W2 that comes in parts, its first; NULL: none. */
struct lot_at {
    const uint4 *weights;
    const float *bias;
};

/* A branch of an env: one place each for its lots, its parameters and its gradients, from which the rest follows (W1,
 * b1, W2, b2; lots without biases). */
template <int C> struct branch_at {
    enum branch_kind kind;
    bool biased;
    int parts;         /* lots of W1, one below the other */
    int hidden, mixed; /* numbers of a token: what W1 yields, and what W2 reads */
    const uint4 *lots;
    const float *params;
    float *slab; /* NULL: not asked for */

    DEVICE_MEMBER struct lot_at w1(int part) const
    {
        return {lots + (uint32_t)part * lot_size(C), biased ? params + at_b1() + part * C : nullptr};
    }
    DEVICE_MEMBER struct lot_at w2(int part) const
    {
        return {lots + (uint32_t)(parts + part) * lot_size(C), biased && part == 0 ? params + at_b2() : nullptr};
    }
    /* Rows and columns of the matrices in a slab, and numbers before each but W1, there and in the parameters of a
     * biased branch. */
    DEVICE_MEMBER int rows() const
    {
        return in_tiles(hidden) * TILE;
    }
    DEVICE_MEMBER int columns() const
    {
        return in_tiles(mixed) * TILE;
    }
    DEVICE_MEMBER int at_b1() const
    {
        return rows() * C;
    }
    DEVICE_MEMBER int at_w2() const
    {
        return rows() * (C + 1);
    }
    DEVICE_MEMBER int at_b2() const
    {
        return at_w2() + columns() * C;
    }
};

template <int C> DEVICE struct branch_at<C> half_branch(const struct team &team, int layer, int half) {
    const struct small_branch &small = team.small->half[layer][half];
    struct branch_at<C> at;
    at.kind = half ? BRANCH_MLP : BRANCH_ATTENTION;
    at.biased = true;
    at.parts = half ? MLP_WIDER : 3;
    at.hidden = at.parts * C;
    at.mixed = half ? at.hidden : C;
    at.lots = team.desk->lots + small.w1.lots;
    at.params = team.frame().host + small.w1.params;
    at.slab = team.desk->slab + small.w1.slab;
    return at;
}

DEVICE const uint4 *
slot_lots(const struct team &team, int slot)
{
    return team.desk->lots + team.small->host_lots + (uint32_t)slot * team.small->seed_lots;
}

template <int C> DEVICE struct branch_at<C> seed_branch(const struct team &team, int slot, float *slab) {
    const struct branch_view &view = seed_of(team.frame(), slot).branch;
    struct branch_at<C> at;
    at.kind = view.kind;
    at.biased = view.biased;
    at.parts = (view.hidden + C - 1) / C;
    at.hidden = view.hidden;
    at.mixed = view.mixed;
    at.lots = slot_lots(team, slot);
    at.params = seed_params(team.frame(), slot);
    at.slab = slab;
    return at;
}

#endif
