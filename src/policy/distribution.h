/*
 * One head's distribution (P-11): p = softmax over the valid choices, and q = (1 - v f) p + f over the v of them, from
 * which choices are sampled. f is a true floor: no valid choice falls below f, the order is kept, and every choice
 * keeps a gradient. Log-probabilities, ratios and the entropy bonus are those of q; the entropy of p is for display.
 *
 * Written over `real`, as the networks are: float in the program and on the device, double where gradients are checked.
 */
#ifndef POLICY_DISTRIBUTION_H
#define POLICY_DISTRIBUTION_H

#include <math.h>
#include <stdbool.h>

#include "base/philox.h"
#include "policy/heads.h"
#include "policy/masks.h"

#ifndef REAL
#define REAL float /* as in nn/real.h, whose vector types the device does not know */
#endif
typedef REAL real;

enum { DISTRIBUTION_MAX = HEAD_MAX_SLOTS }; /* the largest head */

struct distribution {
    uint32_t set; /* valid choices */
    int valid;    /* how many: 0, an empty mask, gives NAN everywhere and so fails every gate */
    real floor;
    real p[DISTRIBUTION_MAX], q[DISTRIBUTION_MAX]; /* 0 outside the valid set */
};

/* exp and log in f64, rounded once: both backends agree to the last bit, or nearly. */
ESPER_RULE real distribution_exp(real x)
{
    return (real)exp((double)x);
}

/* q is positive by its floor; without one it may underflow, and 1e-8 keeps the logarithm finite. */
ESPER_RULE real distribution_ln(real q)
{
    return (real)log(q < (real)1e-8 ? 1e-8 : (double)q);
}

ESPER_RULE void distribution_init(struct distribution *d, int size, uint32_t set, double floor, const real *logits)
{
    real top = -(real)INFINITY, sum = 0;
    d->set = set;
    d->valid = 0;
    for (int i = 0; i < DISTRIBUTION_MAX; i++)
        d->p[i] = d->q[i] = 0;
    for (int i = 0; i < size; i++) {
        if (!(set >> i & 1u))
            continue;
        d->valid++;
        top = logits[i] > top ? logits[i] : top;
    }
    for (int i = 0; i < size; i++)
        if (set >> i & 1u)
            sum += d->p[i] = distribution_exp(logits[i] - top);
    d->floor = (real)(d->valid > 0 ? fmin(floor, 0.5 / d->valid) : 0.0);
    const real rest = 1 - (real)d->valid * d->floor;
    for (int i = 0; i < size; i++) {
        if (!(set >> i & 1u))
            continue;
        d->p[i] /= sum;
        d->q[i] = d->valid == 1 ? d->p[i] : rest * d->p[i] + d->floor; /* a single choice is exactly 1 */
    }
}

ESPER_RULE real distribution_log(const struct distribution *d, int choice)
{
    return d->set >> choice & 1u ? distribution_ln(d->q[choice]) : (real)NAN; /* asking for an invalid one is a bug */
}

/* -sum x ln x / ln v over the valid choices, in [0, 1]; exactly 0 where there is no choice. */
ESPER_RULE real distribution_spread(const struct distribution *d, const real x[DISTRIBUTION_MAX])
{
    real sum = 0;
    if (d->valid < 2)
        return d->valid == 1 ? 0 : (real)NAN;
    for (int i = 0; i < DISTRIBUTION_MAX; i++)
        if (d->set >> i & 1u)
            sum -= x[i] * distribution_ln(x[i]);
    return sum / (real)log((double)d->valid);
}

ESPER_RULE real distribution_entropy(const struct distribution *d) /* of q: for the bonus */
{
    return distribution_spread(d, d->q);
}

ESPER_RULE real distribution_entropy_shown(const struct distribution *d) /* of p: for display and alarms */
{
    return distribution_spread(d, d->p);
}

/*
 * dlogits = dlog * d ln q(choice) / d logits + dentropy * d entropy(q) / d logits, over the head's `size` columns; zero
 * where not valid (P-11). A single choice has no derivative at all.
 */
ESPER_RULE void distribution_backward(const struct distribution *d, int size, int choice, real dlog, real dentropy,
                                      real *dlogits)
{
    real g[DISTRIBUTION_MAX], sum = 0;
    const real rest = 1 - (real)d->valid * d->floor, norm = (real)log((double)d->valid);
    for (int i = 0; i < size; i++)
        dlogits[i] = 0;
    if (d->valid < 2)
        return;
    for (int i = 0; i < size; i++) {
        g[i] = 0;
        if (!(d->set >> i & 1u))
            continue;
        const real q = d->q[i] < (real)1e-8 ? (real)1e-8 : d->q[i];
        const real by_log = (i == choice ? dlog : 0) - dentropy * d->q[i] * (distribution_ln(q) + 1) / norm;
        g[i] = by_log * rest * d->p[i] / q;
        sum += g[i];
    }
    for (int i = 0; i < size; i++)
        if (d->set >> i & 1u)
            dlogits[i] = g[i] - d->p[i] * sum;
}

/* Inverse of the cumulative q in index order; unit is uniform in [0, 1). */
ESPER_RULE int distribution_sample(const struct distribution *d, float unit)
{
    real total = 0, below = 0;
    int last = 0;
    for (int i = 0; i < DISTRIBUTION_MAX; i++)
        total += d->q[i];
    for (int i = 0; i < DISTRIBUTION_MAX; i++) {
        if (!(d->set >> i & 1u))
            continue;
        last = i;
        below += d->q[i];
        if ((real)unit * total < below)
            break;
    }
    return last;
}

/* The largest valid logit, lowest index first: the floor keeps order, so this is also the likeliest choice. */
ESPER_RULE int distribution_greedy(int size, uint32_t set, const real *logits)
{
    int best = -1;
    for (int i = 0; i < size; i++)
        if ((set >> i & 1u) && (best < 0 || logits[i] > logits[best]))
            best = i;
    return best < 0 ? 0 : best;
}

/* ---- a whole decision ------------------------------------------------------------------------------------------- */

struct decision {
    uint8_t choice[HEAD_COUNT];
    uint64_t mask;                 /* as stored in the rollout: the base mask with the slot set of the chosen op */
    real logp[HEAD_COUNT];         /* of q; 0 where a head does not matter to the op */
    real entropy[HEAD_COUNT];      /* of p, normalised */
    real op_probability[OP_COUNT]; /* q */
};

/*
 * The op first, then the other heads under the masks that it leaves them. `site` is the env's at this step in
 * STREAM_ACTION: each head draws its own word, so that skipping a head does not shift the others' draws.
 */
ESPER_RULE void policy_sample(const struct masks *masks, int slots, const double floor[HEAD_COUNT], const real *logits,
                              struct random_site site, bool greedy, struct decision *out)
{
    struct distribution d;
    uint64_t mask = masks->base;
    for (int turn = 0; turn < HEAD_COUNT; turn++) {
        const int head = turn == 0 ? (int)HEAD_OP : turn - 1; /* HEAD_OP is the last head */
        const int size = head_size(slots, head);
        const uint32_t set = head_bits(mask, slots, head);
        const real *z = logits + head_offset(slots, head);
        distribution_init(&d, size, set, floor[head], z);
        const int choice = greedy ? distribution_greedy(size, set, z)
                                  : distribution_sample(&d, random_unit(random_word(site, (uint32_t)head)));
        out->choice[head] = (uint8_t)choice;
        out->logp[head] = distribution_log(&d, choice);
        out->entropy[head] = distribution_entropy_shown(&d);
        if (head == HEAD_OP) {
            for (int op = 0; op < OP_COUNT; op++)
                out->op_probability[op] = d.q[op];
            out->mask = mask_of_op(masks, slots, choice);
            mask = mask_effective(out->mask, slots, choice);
        }
    }
}

#endif
