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

#include "base/lanes.h"
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

/* The largest valid logit. */
ESPER_RULE real distribution_top(int size, uint32_t set, const real *logits)
{
    real top = -(real)INFINITY;
    for (int i = 0; i < size; i++)
        if (set >> i & 1u)
            top = logits[i] > top ? logits[i] : top;
    return top;
}

/* From weights in p, exp(logit - top) and 0 where not valid, to everything else. */
ESPER_RULE void distribution_settle(struct distribution *d, int size, uint32_t set, double floor)
{
    real sum = 0;
    d->set = set;
    d->valid = 0;
    for (int i = 0; i < DISTRIBUTION_MAX; i++)
        d->q[i] = 0;
    for (int i = 0; i < size; i++)
        if (set >> i & 1u) {
            d->valid++;
            sum += d->p[i];
        }
    d->floor = (real)(d->valid > 0 ? fmin(floor, 0.5 / d->valid) : 0.0);
    const real rest = 1 - (real)d->valid * d->floor;
    for (int i = 0; i < size; i++) {
        if (!(set >> i & 1u))
            continue;
        d->p[i] /= sum;
        d->q[i] = d->valid == 1 ? d->p[i] : rest * d->p[i] + d->floor; /* a single choice is exactly 1 */
    }
}

ESPER_RULE void distribution_init(struct distribution *d, int size, uint32_t set, double floor, const real *logits)
{
    const real top = distribution_top(size, set, logits);
    for (int i = 0; i < DISTRIBUTION_MAX; i++)
        d->p[i] = i < size && (set >> i & 1u) ? distribution_exp(logits[i] - top) : 0;
    distribution_settle(d, size, set, floor);
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

/* The same from terms x ln x that were computed before. */
ESPER_RULE real distribution_spread_of(const struct distribution *d, const real *term)
{
    real sum = 0;
    if (d->valid < 2)
        return d->valid == 1 ? 0 : (real)NAN;
    for (int i = 0; i < DISTRIBUTION_MAX; i++)
        if (d->set >> i & 1u)
            sum -= term[i];
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

/* Working memory of a decision, which lanes share. */
struct decision_work {
    struct distribution head[HEAD_COUNT];
    real term[HEAD_MAX_LOGITS]; /* by logit column: x ln x */
};

/* What a decision is made from. `site` is the env's at this step in STREAM_ACTION: each head draws its own word, so
 * that skipping a head does not shift the others' draws. */
struct decision_input {
    const struct masks *masks;
    int slots;
    const double *floor; /* [head] */
    const real *logits;
    struct random_site site;
    bool greedy;
    double temperature; /* of what is drawn; 1 where it is learned from */
};

/* Heads from `first` to before `end` under a mask: a lane per choice takes its exponential, then a lane per head
 * decides. The lanes must meet before what it wrote is read. */
ESPER_RULE void decision_heads(const struct decision_input *in, uint64_t mask, int first, int end,
                               struct decision_work *work, struct decision *out, struct lanes lanes)
{
    const int begin = head_offset(in->slots, first);
    LANES_EACH (place, head_offset(in->slots, end) - begin, lanes) {
        const int head = head_of_column(in->slots, begin + place), offset = head_offset(in->slots, head);
        const int i = begin + place - offset;
        const uint32_t set = head_bits(mask, in->slots, head);
        const real *z = in->logits + offset;
        const real top = distribution_top(head_size(in->slots, head), set, z);
        work->head[head].p[i] = set >> i & 1u ? distribution_exp((z[i] - top) / (real)in->temperature) : 0;
    }
    lanes_meet(lanes);
    LANES_EACH (turn, end - first, lanes) {
        const int head = first + turn, size = head_size(in->slots, head);
        const uint32_t set = head_bits(mask, in->slots, head);
        struct distribution *d = &work->head[head];
        distribution_settle(d, size, set, in->floor[head]);
        const int choice = in->greedy ? distribution_greedy(size, set, in->logits + head_offset(in->slots, head))
                                      : distribution_sample(d, random_unit(random_word(in->site, (uint32_t)head)));
        out->choice[head] = (uint8_t)choice;
        out->logp[head] = distribution_log(d, choice);
    }
}

/* The entropies that are shown, of all heads: a lane per choice takes its logarithm, then a lane per head adds. */
ESPER_RULE void decision_entropies(int slots, struct decision_work *work, struct decision *out, struct lanes lanes)
{
    LANES_EACH (column, head_offset(slots, HEAD_COUNT), lanes) {
        const int head = head_of_column(slots, column), i = column - head_offset(slots, head);
        const struct distribution *d = &work->head[head];
        const bool counts = d->valid > 1 && (d->set >> i & 1u);
        work->term[column] = counts ? d->p[i] * distribution_ln(d->p[i]) : 0;
    }
    lanes_meet(lanes);
    LANES_EACH (head, HEAD_COUNT, lanes)
        out->entropy[head] = distribution_spread_of(&work->head[head], work->term + head_offset(slots, head));
}

/* The op first, then the other heads under the masks that it leaves them. */
ESPER_RULE void decision_sample(const struct decision_input *in, struct decision_work *work, struct decision *out,
                                struct lanes lanes)
{
    decision_heads(in, in->masks->base, HEAD_OP, HEAD_OP + 1, work, out, lanes); /* the last head */
    lanes_meet(lanes);
    const int op = out->choice[HEAD_OP];
    const uint64_t mask = mask_of_op(in->masks, in->slots, op);
    if (lanes_first(lanes))
        out->mask = mask;
    LANES_EACH (i, OP_COUNT, lanes)
        out->op_probability[i] = work->head[HEAD_OP].q[i];
    decision_heads(in, mask_effective(mask, in->slots, op), 0, HEAD_OP, work, out, lanes);
    lanes_meet(lanes);
    decision_entropies(in->slots, work, out, lanes);
    lanes_meet(lanes);
}

ESPER_RULE void policy_sample(const struct masks *masks, int slots, const double floor[HEAD_COUNT], const real *logits,
                              struct random_site site, bool greedy, double temperature, struct decision *out)
{
    struct decision_work work;
    const struct decision_input in = {masks, slots, floor, logits, site, greedy, temperature};
    decision_sample(&in, &work, out, lanes_alone());
}

#endif
