/* What the kernels of an update share (learn/update.cu): its state on the device, and sums over a block. */
#ifndef LEARN_UPDATE_WORK_CUH
#define LEARN_UPDATE_WORK_CUH

#include "cuda/warp.cuh"
#include "learn/update.cuh"

extern "C" {
#include "learn/deal.h"
#include "learn/diagnostics.h"
#include "learn/gae.h"
#include "policy/observe.h"
}

enum {
    ROW_THREADS = 128,
    LOOK_ROWS = 32, /* of a block, 8 threads each: one per head */
    LOOK_THREADS = LOOK_ROWS * HEAD_COUNT,
    WIDE_THREADS = 1024, /* of kernels of one block */
    NORM_BLOCK = 4096,   /* numbers of a gradient that one block squares */
    NORM_THREADS = 256
};

/* What a thread of the look adds up: sums first, then maxima, then minima. Those of the whole row come from head 0. */
enum look_field {
    LOOK_DIVERGENCE,
    LOOK_CLIPPED,
    LOOK_SURROGATE,
    LOOK_ENTROPY,
    LOOK_SHOWN,
    LOOK_SHOWN_LEARNABLE,
    LOOK_VALUE,
    LOOK_JOINT,
    LOOK_JOINT_CLIPPED,
    LOOK_SUMS,
    LOOK_LOG_RATIO_MAX = LOOK_SUMS,
    LOOK_JOINT_MAX,
    LOOK_DRIFT,
    LOOK_MAXIMA,
    LOOK_LOG_RATIO_MIN = LOOK_MAXIMA,
    LOOK_LOG_PROB_MIN,
    LOOK_JOINT_MIN,
    LOOK_FIELDS
};
enum { LOOK_NUMBERS = HEAD_COUNT * LOOK_FIELDS };

struct look_part {
    double field[HEAD_COUNT][LOOK_FIELDS];
    struct moments values;
};

/* What the rows of a batch are. */
struct row_counts {
    uint32_t valid, forced;
    uint32_t decisions[HEAD_COUNT], learnable[HEAD_COUNT];
    struct loss_counts counts;
};

/* The update in progress. */
struct update_state {
    uint32_t stop, skip;
    uint32_t broken, drift_broken; /* rows of the pass with outputs that are not finite; drifts that are not a number */
    uint32_t positive;
    struct row_counts all, part; /* of the rollout, and of the mini-batch */
    uint32_t units_moved;
    struct value_units before, after;
    struct loss_rules rules;
    double lr;
    struct loss_totals sums;        /* of the pass */
    float factor, rate, root_scale; /* of its step */
};

/* A piece of a tensor's gradient whose squares a block sums. */
struct norm_piece {
    uint32_t first, count;
    uint32_t part; /* enum policy_part */
};

/* The argument of every kernel: device addresses and the configuration. The kernels of a pass read a mini-batch as they
 * read the rollout: its work differs in `envs`, `rows` and the arrays that it has been dealt. */
struct update_work {
    int envs, steps, rows, obs, slots, logits_count, hidden;
    uint64_t seed;
    double gamma;
    struct ppo_config ppo;
    double floor[HEAD_COUNT];
    struct rollout rollout;

    struct update_state *state;
    struct ppo_device_report *report;
    const struct ppo_device_report *blank;
    const double *progress;
    struct row_counts *count; /* the state's */
    int32_t *order;           /* [env] how the epoch deals them out; with one mini-batch not used */
    struct loss_row *row;
    uint8_t *reset;
    float *logits, *dlogits, *values, *dvalues, *ref;
    struct look_part *parts;
    const struct norm_piece *pieces;
    int piece_count;
    double *squares; /* [piece] */
    float *last_layer;

    float *w, *m, *v, *grad;
    size_t storage, value_weight, value_bias;
    int value_inputs;
    uint64_t *adam_steps;
    uint32_t *updates, *failures, *obs_updates, *value_updates;
    double *obs_mean, *obs_var, *reward_count, *reward_mean, *reward_m2, *value_shift, *value_scale;
    const float *last_h, *last_c;
};

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* The sum over a block of WIDE_THREADS or fewer threads (a power of two), for all of them. */
DEVICE double block_sum(double x, double *scratch)
{
    __syncthreads();
    scratch[threadIdx.x] = x;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            scratch[threadIdx.x] += scratch[threadIdx.x + half];
        __syncthreads();
    }
    return scratch[0];
}

DEVICE void count_lanes(bool yes, uint32_t *count)
{
    const unsigned lanes = __ballot_sync(~0u, yes);
    if (threadIdx.x % 32 == 0 && lanes)
        atomicAdd(count, (uint32_t)__popc(lanes));
}

DEVICE bool is_finite(double x)
{
    return x - x == 0;
}

#endif
