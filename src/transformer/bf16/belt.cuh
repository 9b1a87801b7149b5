/*
 * Weights on their way to a block's products, lot after lot. Lots are copied into the block's shared memory before they
 * are needed: waiting for them would be most of the time, and registers that could hold them are too few. All teams of
 * a block multiply with the same weights, so a lot comes once for all of them and they go from one to the next
 * together.
 *
 * A course is a series of lots. A `deep` lot is slices of sixteen outputs of a depth of C, a `wide` one C outputs of
 * slices of a depth of sixteen: C / 16 slices at most, in a stage of C x C weights either way.
 */
#ifndef TRANSFORMER_BF16_BELT_CUH
#define TRANSFORMER_BF16_BELT_CUH

#include "transformer/bf16/team.cuh"

/* `rows` rows of `columns` tiles each, `apart` tiles from one row to the next. */
struct lot {
    const uint4 *tiles;
    int rows, columns, apart;
};

enum { TILE_BYTES = TILE_LANES * 16 };

/* So many slices of sixteen outputs, the tiles of one after those of the other. */
template <int C> DEVICE struct lot deep_lot(const uint4 *tiles, int slices)
{
    return {tiles, slices, C / TILE, C / TILE};
}

/* So many slices of the depth, which `all` tiles of an output's have. */
template <int C> DEVICE struct lot wide_lot(const uint4 *tiles, int slices, int all)
{
    return {tiles, C / TILE, slices, all};
}

/* `course(number)` is the lot to copy; beyond the last, none: no rows. */
template <int C, class Course> struct belt {
    enum { ACROSS = C / TILE };
    const struct team &team;
    const Course course;

    DEVICE_MEMBER uint32_t stage(int number) const
    {
        return block_memory() + block_shared<C>::belt(team.teams()) +
               (uint32_t)((number & team.desk->ahead) * block_shared<C>::STAGE);
    }
    DEVICE_MEMBER void send(int number) const
    {
        const struct lot lot = course(number);
        const uint32_t to = stage(number) + (uint32_t)(lane_of() * 16);
#pragma unroll 1 /* once, for a full block */
        for (int tile = (int)threadIdx.x / TILE_LANES; tile < ACROSS * ACROSS; tile += team.teams() * TEAM_WARPS) {
            const int row = tile / ACROSS, column = tile % ACROSS;
            if (row < lot.rows && column < lot.columns)
                copy_async(to + (uint32_t)(tile * TILE_BYTES),
                           lot.tiles + (row * lot.apart + column) * TILE_LANES + lane_of());
        }
        copy_commit();
    }
    /* The first lots, by all of the block; the course before has come to its end. */
    DEVICE_MEMBER void start() const
    {
        __syncthreads();
#pragma unroll 1
        for (int number = 0; number < team.desk->ahead; number++)
            send(number);
    }
    /* Lot after lot, by all of the block: where it is, once it is there. */
    DEVICE_MEMBER uint32_t next(int number) const
    {
        if (team.desk->ahead == BELT_FAR)
            copy_wait<BELT_FAR - 1>();
        else
            copy_wait<BELT_NEAR - 1>();
        __syncthreads(); /* everybody's copies have arrived, and nobody reads the lot before any more */
        send(number + team.desk->ahead);
        return stage(number);
    }
};

template <int C, class Course> DEVICE struct belt<C, Course> belt_of(const struct team &team, const Course &course) {
    return {team, course};
}

/* to[2] += a, of a depth of C, times a slice of a deep lot. */
template <int C>
DEVICE void multiply_deep(float (*to)[4], const uint32_t (*a)[4], uint32_t stage, int slice)
{
#pragma unroll
    for (int k = 0; k < C / TILE; k++) {
        uint32_t w[4];
        load_shared_128(w, stage + (uint32_t)((slice * (C / TILE) + k) * TILE_BYTES + lane_of() * 16));
        mma_bf16(to[0], a[k], w[0], w[1]);
        mma_bf16(to[1], a[k], w[2], w[3]);
    }
}

/* to[C / 8] += a, of a depth of sixteen, times a slice of a wide lot. */
template <int C> DEVICE void multiply_wide(float (*to)[4], const uint32_t a[4], uint32_t stage, int slice)
{
#pragma unroll
    for (int n = 0; n < C / TILE; n++) {
        uint32_t w[4];
        load_shared_128(w, stage + (uint32_t)((n * (C / TILE) + slice) * TILE_BYTES + lane_of() * 16));
        mma_bf16(to[2 * n], a, w[0], w[1]);
        mma_bf16(to[2 * n + 1], a, w[2], w[3]);
    }
}

/* A square matrix, whose slices are `across` tiles from each other. */
template <int C> DEVICE auto square_course(const uint4 *tiles, int across)
{
    return [=](int number) { return number == 0 ? lot{tiles, C / TILE, C / TILE, across} : lot{}; };
}

/* to += x times a square. */
template <int C> DEVICE void square_product(struct lines<C> &to, const struct pairs<C> &x, uint32_t stage)
{
#pragma unroll
    for (int n = 0; n < C / TILE; n++)
        multiply_deep<C>(to.v + 2 * n, x.a, stage, n);
}

/* ---- branches ---------------------------------------------------------------------------------------------------- */

/* Slices of a branch in its part `part`, which is C / 16 of them or what is left. */
template <int C> DEVICE int part_slices(const struct branch_at<C> &branch, int part)
{
    return min(branch.slices - part * (C / TILE), C / TILE);
}

/* W1 x + b1, sixteen columns: a slice of a part. */
template <int C>
DEVICE struct lines<TILE> first_slice(const struct branch_at<C> &branch, const struct pairs<C> &x, int part, int slice,
                                      uint32_t stage) {
    const struct lines<TILE> bias =
        lines_of<TILE>(branch.biased ? branch.params + branch.at_b1() + part * C + slice * TILE : nullptr);
    struct lines<TILE> sum = lines_zero<TILE>();
    multiply_deep<C>(sum.v, x.a, stage, slice);
#pragma unroll
    for (int e = 0; e < 8; e++)
        sum.v[e / 4][e % 4] += bias.v[e / 4][e % 4];
    return sum;
}

/* Parts of a branch's hidden layer: what makes them, and what they make. */
template <int C>
DEVICE auto inner_course(const struct branch_at<C> &branch)
{
    const uint4 *w1 = branch.w1(), *w2 = branch.w2();
    const int slices = branch.slices;
    return [=](int number) {
        enum { ACROSS = C / TILE };
        const int part = number / 2, count = min(slices - part * ACROSS, (int)ACROSS);
        return count <= 0        ? lot{}
               : number % 2 == 0 ? deep_lot<C>(w1 + part * ACROSS * ACROSS * TILE_LANES, count)
                                 : wide_lot<C>(w2 + part * ACROSS * TILE_LANES, count, slices);
    };
}

/* to += the branch's output, of an MLP or a LORA; `belt`, of its inner_course, has been started. */
template <int C, class Course>
DEVICE void inner_forward(struct lines<C> &to, const struct branch_at<C> &branch, const struct pairs<C> &x,
                          const struct belt<C, Course> &belt)
{
    second_bias(to, branch);
#pragma unroll 1
    for (int part = 0; part_slices(branch, part) > 0; part++) {
        const int count = part_slices(branch, part);
        const uint32_t first = belt.next(2 * part);
        struct pairs<C> mixed;
#pragma unroll
        for (int k = 0; k < C / TILE; k++) {
            if (k >= count)
                continue;
            struct lines<TILE> hidden = first_slice<C>(branch, x, part, k, first);
            if (branch.kind == BRANCH_MLP) {
#pragma unroll
                for (int e = 0; e < 8; e++)
                    hidden.v[e / 4][e % 4] = gelu(hidden.v[e / 4][e % 4]);
            }
            const struct pairs<TILE> own = rounded(hidden);
#pragma unroll
            for (int e = 0; e < 4; e++)
                mixed.a[k][e] = own.a[0][e];
        }
        const uint32_t second = belt.next(2 * part + 1);
#pragma unroll
        for (int k = 0; k < C / TILE; k++)
            if (k < count)
                multiply_wide<C>(to.v, mixed.a[k], second, k);
    }
}

#endif
