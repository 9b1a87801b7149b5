/*
 * Weights on their way to a team's products. A lot is copied into the team's shared memory while those before it are
 * multiplied: waiting for it would be most of the time.
 *
 * A course is a series of lots; it says where each is, and where the bias that comes with it: NULL where none does, and
 * beyond the last lot.
 */
#ifndef TRANSFORMER_BF16_BELT_CUH
#define TRANSFORMER_BF16_BELT_CUH

#include "transformer/bf16/team.cuh"

template <int C, class Course> struct belt {
    const struct team &team;
    const Course course;

    /* Where a lot is, in shared memory. */
    DEVICE_MEMBER uint32_t stage(int lot) const
    {
        return block_memory() + block_shared<C>::belt(team.crew, team.index()) +
               (uint32_t)(lot % team.crew.lots * block_shared<C>::LOT);
    }
    /* Where its bias is. */
    DEVICE_MEMBER uint32_t beside(int lot) const
    {
        return block_memory() + block_shared<C>::beside(team.crew) +
               (uint32_t)((team.index() * team.crew.lots + lot % team.crew.lots) * C * 4);
    }
    DEVICE_MEMBER void send(int lot) const
    {
        enum { CHUNKS = C / 8, ROWS = TEAM_THREADS / CHUNKS /* at a time */ };
        static_assert(ROWS % 8 == 0, "a thread's chunks are below one another");
        const uint32_t thread = fresh(threadIdx.x) % TEAM_THREADS;
        const uint32_t to = stage(lot) + sheet_chunk(thread / CHUNKS, thread % CHUNKS);
        const struct lot_at from = course(lot);
        if (from.weights)
#pragma unroll
            for (int row = 0; row < C; row += ROWS)
                copy_async(to + (uint32_t)(row * SHEET_ROW), from.weights + row * CHUNKS + thread);
        if (from.bias && thread < C / 4)
            copy_async(beside(lot) + thread * 16, from.bias + thread * 4);
        copy_commit();
    }
    /* The first lots, by all of the team; the course before has come to its end. */
    DEVICE_MEMBER void start() const
    {
        copy_wait<0>();
        team_meet(team);
#pragma unroll
        for (int lot = 0; lot < team.crew.lots; lot++)
            send(lot);
    }
    /* Lot after lot, by all of the team: where it is, once it is there and can be multiplied. Nobody multiplies the one
     * before any more, so that another takes its place, unless that was `sent` already. */
    DEVICE_MEMBER uint32_t next(int lot, bool sent = false) const
    {
        const bool later = lot == 0 || sent; /* one more is on its way */
        if (team.crew.lots == 2)
            later ? copy_wait<1>() : copy_wait<0>();
        else
            later ? copy_wait<3>() : copy_wait<2>();
        group_publish();
        team_meet(team); /* everybody's copies have arrived */
        if (!later)
            send(lot - 1 + team.crew.lots);
        return stage(lot);
    }
    /* to += the bias of the lot that came last. */
    DEVICE_MEMBER void add_bias(struct lines<C> &to, int lot) const
    {
        const uint32_t at = beside(lot) + (uint32_t)(column_of(0) * 4);
#pragma unroll
        for (int j = 0; j < C / 8; j++) {
            uint32_t two[2];
            load_shared_64(two, at + (uint32_t)(j * 8 * 4));
#pragma unroll
            for (int e = 0; e < 4; e++)
                to.v[j][e] += __uint_as_float(two[e % 2]);
        }
    }
};

template <int C, class Course> DEVICE struct belt<C, Course> belt_of(const struct team &team, const Course &course) {
    return {team, course};
}

/* ---- branches ---------------------------------------------------------------------------------------------------- */

/* W1 x + b1, C columns, of x in a sheet; `lot` of the belt is W1. */
template <int C, class Course>
DEVICE struct lines<C> first_part(const struct team &t, const struct branch_at<C> &branch, uint32_t x,
                                  const struct belt<C, Course> &belt, int lot) {
    struct lines<C> sum = lines_zero<C>();
    multiply_sheet<C, LOT_ROWS>(sum, x, t.row(), belt.next(lot));
    if (branch.biased)
        belt.add_bias(sum, lot);
    return sum;
}

/* Parts of a branch's hidden layer: what makes them, and what they make. */
template <int C>
DEVICE auto inner_course(const struct branch_at<C> &branch)
{
    return [=](int lot) {
        return lot >= 2 * branch.parts ? lot_at{} : lot % 2 ? branch.w2(lot / 2) : branch.w1(lot / 2);
    };
}

/* What makes queries, keys and values, and what is made of what they mix. */
template <int C> DEVICE auto attention_course(const struct branch_at<C> &branch)
{
    return [=](int lot) { return lot < 3 ? branch.w1(lot) : lot == 3 ? branch.w2(0) : lot_at{}; };
}

/* One or the other: the belt can be started before it is known what the lots are for. */
template <int C> DEVICE auto forward_course(const struct branch_at<C> &branch)
{
    return [=](int lot) {
        return branch.kind == BRANCH_ATTENTION ? attention_course<C>(branch)(lot) : inner_course<C>(branch)(lot);
    };
}

/* to += the branch's output, of an MLP or a LORA; the belt has been started. */
template <int C>
DEVICE void inner_forward(const struct team &t, struct lines<C> &to, const struct branch_at<C> &branch,
                          const struct pairs<C> &x)
{
    const auto belt = belt_of<C>(t, inner_course<C>(branch));
    sheet_store<C>(sheet_of<C>(t, 0), t.row(), 0, x.a);
#pragma unroll 1
    for (int part = 0; part < branch.parts; part++) {
        const struct lines<C> hidden = first_part<C>(t, branch, sheet_of<C>(t, 0), belt, 2 * part);
        const struct pairs<C> mixed = branch.kind == BRANCH_MLP ? in_pairs<C>(hidden, gelu_pair) : rounded(hidden);
        multiply_lot<C, LOT_ROWS>(to, mixed, belt.next(2 * part + 1));
        if (branch.biased && part == 0)
            belt.add_bias(to, 1);
    }
}

#endif
