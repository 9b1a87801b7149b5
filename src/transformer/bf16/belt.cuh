/*
 * Weights on their way to a team's products. Tiles are copied into the team's shared memory some slices before they are
 * needed: waiting for them would be most of the time, and registers that could hold them are too few.
 *
 * A course is a series of slices, each at most two lots of C / 16 tiles: `deep` ones lie one after the other and make
 * sixteen outputs of a depth of C; `wide` ones, `apart` from each other, make C outputs of a depth of sixteen.
 */
#ifndef TRANSFORMER_BF16_BELT_CUH
#define TRANSFORMER_BF16_BELT_CUH

#include "transformer/bf16/team.cuh"

struct slice_tiles {
    const uint4 *deep, *wide; /* NULL: none */
    int apart;
};

enum { TILE_BYTES = TILE_LANES * 16 };

/* `course(slice)` is what to copy; beyond the last slice, nothing. */
template <int C, class Course> struct belt {
    enum { ACROSS = C / TILE };
    const struct team &team;
    const Course course;

    /* A stage of the team's belt, in shared memory. */
    DEVICE_MEMBER uint32_t stage(int slice) const
    {
        return block_memory() + block_shared<C>::belt(team.teams(), team.index()) +
               (uint32_t)(slice % BELT_STAGES * 2 * ACROSS * TILE_BYTES);
    }
    DEVICE_MEMBER void send(int slice) const
    {
        const int thread = (int)threadIdx.x % TEAM_THREADS;
        const uint32_t to = stage(slice) + (uint32_t)(thread * 16);
        const struct slice_tiles tiles = course(slice);
        if (thread < ACROSS * TILE_LANES) {
            if (tiles.deep)
                copy_async(to, tiles.deep + thread);
            if (tiles.wide)
                copy_async(to + ACROSS * TILE_BYTES,
                           tiles.wide + thread / TILE_LANES * tiles.apart * TILE_LANES + lane_of());
        }
        copy_commit();
    }
    /* The first slices, by all of the team; the course before has come to its end. */
    DEVICE_MEMBER void start() const
    {
        copy_wait<0>();
        team_meet(team);
        for (int slice = 0; slice < BELT_STAGES - 1; slice++)
            send(slice);
    }
    /* Slice after slice, by all of the team: where it is, once it is there. */
    DEVICE_MEMBER uint32_t next(int slice) const
    {
        copy_wait<BELT_STAGES - 2>();
        team_meet(team); /* everybody's copies have arrived, and nobody reads the slice before any more */
        send(slice + BELT_STAGES - 1);
        return stage(slice);
    }
};

template <int C, class Course> DEVICE struct belt<C, Course> belt_of(const struct team &team, const Course &course) {
    return {team, course};
}

/* to[2] += a, of a depth of C, times a slice's deep tiles. */
template <int C>
DEVICE void multiply_deep(float (*to)[4], const uint32_t (*a)[4], uint32_t stage)
{
#pragma unroll
    for (int k = 0; k < C / TILE; k++) {
        uint32_t w[4];
        load_shared_128(w, stage + (uint32_t)(k * TILE_BYTES + lane_of() * 16));
        mma_bf16(to[0], a[k], w[0], w[1]);
        mma_bf16(to[1], a[k], w[2], w[3]);
    }
}

/* to[C / 8] += a, of a depth of sixteen, times a slice's wide tiles. */
template <int C> DEVICE void multiply_wide(float (*to)[4], const uint32_t a[4], uint32_t stage)
{
#pragma unroll
    for (int n = 0; n < C / TILE; n++) {
        uint32_t w[4];
        load_shared_128(w, stage + (uint32_t)((C / TILE + n) * TILE_BYTES + lane_of() * 16));
        mma_bf16(to[2 * n], a, w[0], w[1]);
        mma_bf16(to[2 * n + 1], a, w[2], w[3]);
    }
}

/* The rows of a square matrix, sixteen outputs a slice; `across` tiles from one to the next. */
template <int C> DEVICE auto square_course(const uint4 *tiles, int across)
{
    return [=](int slice) {
        return slice < C / TILE ? slice_tiles{tiles + slice * across * TILE_LANES, nullptr, 0} : slice_tiles{};
    };
}

/* to += x times a square matrix that is on the belt already. */
template <int C, class Course>
DEVICE void square_product(const struct belt<C, Course> &belt, struct lines<C> &to, const struct pairs<C> &x)
{
#pragma unroll
    for (int n = 0; n < C / TILE; n++)
        multiply_deep<C>(to.v + 2 * n, x.a, belt.next(n));
}

/* ---- branches ---------------------------------------------------------------------------------------------------- */

/* W1 x + b1, sixteen columns. */
template <int C>
DEVICE struct lines<TILE> first_slice(const struct branch_at<C> &branch, const struct pairs<C> &x, int slice,
                                      uint32_t stage) {
    const struct lines<TILE> bias =
        lines_of<TILE>(branch.biased ? branch.params + branch.at_b1() + slice * TILE : nullptr);
    struct lines<TILE> sum = lines_zero<TILE>();
    multiply_deep<C>(sum.v, x.a, stage);
#pragma unroll
    for (int e = 0; e < 8; e++)
        sum.v[e / 4][e % 4] += bias.v[e / 4][e % 4];
    return sum;
}

/* Slices of a branch's hidden layer: what makes them, and what they make. */
template <int C>
DEVICE auto inner_course(const struct branch_at<C> &branch)
{
    const uint4 *w1 = branch.w1(), *w2 = branch.w2();
    const int slices = branch.slices;
    return [=](int slice) {
        return slice < slices ? slice_tiles{w1 + slice * (C / TILE) * TILE_LANES, w2 + slice * TILE_LANES, slices}
                              : slice_tiles{};
    };
}

/* to += the branch's output, of an MLP or a LORA; `belt`, of its inner_course, has been started. */
template <int C, class Course>
DEVICE void inner_forward(struct lines<C> &to, const struct branch_at<C> &branch, const struct pairs<C> &x,
                          const struct belt<C, Course> &belt)
{
    second_bias(to, branch);
#pragma unroll 1
    for (int slice = 0; slice < branch.slices; slice++) {
        const uint32_t stage = belt.next(slice);
        struct lines<TILE> hidden = first_slice<C>(branch, x, slice, stage);
        if (branch.kind == BRANCH_MLP) {
#pragma unroll
            for (int e = 0; e < 8; e++)
                hidden.v[e / 4][e % 4] = gelu(hidden.v[e / 4][e % 4]);
        }
        const struct pairs<TILE> mixed = rounded(hidden);
        multiply_wide<C>(to.v, mixed.a[0], stage);
    }
}

#endif
