/* The kernels of an update before its epochs: rows, observation statistics, advantages, returns, the critic's units. */
#ifndef LEARN_UPDATE_RETURNS_CUH
#define LEARN_UPDATE_RETURNS_CUH

#include "learn/update_work.cuh"

/* ---- rows ------------------------------------------------------------------------------------------- */

DEVICE void count_nothing(struct row_counts *count)
{
    count->valid = count->forced = 0;
    for (int head = 0; head < HEAD_COUNT; head++)
        count->decisions[head] = count->learnable[head] = 0;
}

/* Called by whole warps; a row that is not valid counts nothing. */
DEVICE void count_row(const struct loss_row *row, int slots, struct row_counts *count)
{
    count_lanes(row->valid, &count->valid);
    count_lanes(row->valid && row->forced, &count->forced);
    for (int head = 0; head < HEAD_COUNT; head++) {
        count_lanes(loss_counts_head(row, head), &count->decisions[head]);
        count_lanes(loss_learns_head(row, slots, head), &count->learnable[head]);
    }
}

/* What the losses are divided by. */
DEVICE void count_losses(struct row_counts *count)
{
    count->counts.values =
        fmax(1.0, (double)(count->valid - count->forced) + LOSS_FORCED_VALUE * (double)count->forced);
    for (int head = 0; head < HEAD_COUNT; head++)
        count->counts.decisions[head] = fmax(1.0, (double)count->decisions[head]);
}

DEVICE struct loss_row no_row()
{
    struct loss_row row = {};
    return row;
}

KERNEL void update_begin(const struct update_work u)
{
    device_wait();
    struct update_state *s = u.state;
    const double coef = loss_schedule(u.ppo.entropy_coef, u.ppo.entropy_coef_end, *u.progress);
    *u.report = *u.blank;
    u.report->record.entropy_coef = coef;
    s->stop = s->skip = s->broken = s->drift_broken = 0;
    s->positive = s->units_moved = 0;
    s->lr = loss_schedule(u.ppo.lr, u.ppo.lr * u.ppo.lr_end_share, *u.progress);
    count_nothing(u.count);
    s->before.shift = *u.value_shift;
    s->before.scale = *u.value_scale;
    s->after = s->before;
    s->rules.slots = u.slots;
    s->rules.clip = u.ppo.clip;
    s->rules.value_coef = u.ppo.value_coef;
    for (int head = 0; head < HEAD_COUNT; head++) {
        s->rules.entropy_coef[head] = coef * u.ppo.entropy_weight[head];
        s->rules.floor[head] = u.floor[head];
    }
}

/* A thread per row: what the loss reads, and where the recurrent state restarts. A row without ROW_VALID may hold
 * anything; its inputs become those of an empty observation. */
KERNEL void update_rows(const struct update_work u)
{
    device_wait();
    const int i = blockIdx.x * ROW_THREADS + threadIdx.x;
    struct loss_row row = no_row();
    if (i < u.rows) {
        const uint8_t flags = u.rollout.flags[i];
        const bool after_hole = i >= u.envs && !(u.rollout.flags[i - u.envs] & ROW_VALID);
        row = loss_row_of(flags, u.rollout.mask[i], u.rollout.choice + (size_t)i * HEAD_COUNT,
                          u.rollout.effective_op[i], u.slots);
        u.row[i] = row;
        u.reset[i] = (flags & ROW_RESET) || after_hole;
        for (int k = 0; !row.valid && k < u.obs; k++)
            u.rollout.state[(size_t)i * u.obs + k] = 0;
        for (int k = 0; !row.valid && k < u.slots; k++)
            u.rollout.bp[(size_t)i * u.slots + k] = -1;
    }
    count_row(&row, u.slots, u.count);
}

KERNEL void update_counts(const struct update_work u)
{
    device_wait();
    struct update_state *s = u.state;
    const double valid = (double)u.count->valid;
    count_losses(u.count);
    for (int head = 0; valid > 0 && head < HEAD_COUNT; head++)
        u.report->heads[head].learnable = (double)u.count->learnable[head] / valid;
    u.report->record.rows = (int64_t)u.count->valid;
    if (valid > 0)
        ++*u.obs_updates;
    else
        s->stop = s->skip = 1;
}

/* A block per column of the observations: the statistics of everything observed that is finite. */
KERNEL void update_observations(const struct update_work u)
{
    SHARED_BYTES(shared);
    struct moments *part = (struct moments *)shared;
    device_wait();
    const int column = blockIdx.x;
    if (u.state->stop || !observe_normalised(column))
        return;
    struct moments moments = {0, 0, 0};
    for (int i = threadIdx.x; i < u.rows; i += blockDim.x) {
        const float x = u.rollout.raw[(size_t)i * u.obs + column];
        if (is_finite((double)x))
            moments_add(&moments, (double)x);
    }
    part[threadIdx.x] = moments;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] = moments_merge(part[threadIdx.x], part[threadIdx.x + half]);
        __syncthreads();
    }
    if (threadIdx.x == 0 && part[0].count > 0)
        normalise_merge(normalise_weight(*u.obs_updates, NORMALISE_OBS_LEAST), part[0].mean, moments_variance(part[0]),
                        &u.obs_mean[column], &u.obs_var[column]);
}

/* A thread per env. */
KERNEL void update_advantages(const struct update_work u)
{
    device_wait();
    const int env = blockIdx.x * blockDim.x + threadIdx.x;
    if (env >= u.envs || u.state->stop)
        return;
    const struct rollout *r = &u.rollout;
    const struct gae_rates rates = {u.gamma, u.ppo.lambda, u.state->before.shift, u.state->before.scale};
    const struct gae_rows rows = {r->flags + env,     r->reward + env,  r->value + env,   r->bootstrap + env,
                                  r->advantage + env, r->returns + env, r->td_error + env};
    gae_estimate(&rates, &rows, u.steps, u.envs);
}

/* ---- statistics of the returns ----------------------------------------------------------------------------------- */

/* Numbers of a valid row. */
struct gains {
    double gain, value, td, advantage;
};

DEVICE struct gains gains_of(const struct update_work *u, int i)
{
    const struct value_units *units = &u->state->before;
    return {(double)u->rollout.returns[i], (double)u->rollout.value[i] * units->scale + units->shift,
            (double)u->rollout.td_error[i], (double)u->rollout.advantage[i]};
}

DEVICE bool is_valid(const struct update_work *u, int i)
{
    return u->rollout.flags[i] & ROW_VALID;
}

/* Maps floats to unsigned integers in the same order. */
DEVICE uint32_t order_key(float x)
{
    const uint32_t bits = __float_as_uint(x);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

DEVICE float order_value(uint32_t key)
{
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

/* The rank-th smallest return, from 0: found one byte of its key at a time, by counting. */
DEVICE double return_of_rank(const struct update_work *u, uint32_t rank, uint32_t *counts /* [258] */)
{
    uint32_t prefix = 0, mask = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        __syncthreads();
        if (threadIdx.x < 256)
            counts[threadIdx.x] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < u->rows; i += blockDim.x) {
            const uint32_t key = order_key(u->rollout.returns[i]);
            if (is_valid(u, i) && (key & mask) == prefix)
                atomicAdd(&counts[key >> shift & 255], 1u);
        }
        __syncthreads();
        if (threadIdx.x < 32) { /* a lane per eight byte values: which of them has the rank? */
            const uint32_t *mine = counts + 8 * threadIdx.x;
            uint32_t own = 0, below;
            for (int i = 0; i < 8; i++)
                own += mine[i];
            below = own;
            for (unsigned step = 1; step < 32; step *= 2) {
                const uint32_t other = __shfl_up_sync(~0u, below, step);
                below += threadIdx.x >= step ? other : 0;
            }
            below -= own;
            if (rank >= below && rank < below + own) {
                uint32_t byte = 0, left = rank - below;
                while (left >= mine[byte])
                    left -= mine[byte++];
                counts[256] = 8 * threadIdx.x + byte;
                counts[257] = left;
            }
        }
        __syncthreads();
        prefix |= counts[256] << shift;
        mask |= 255u << shift;
        rank = counts[257];
    }
    return (double)order_value(prefix);
}

DEVICE double return_percentile(const struct update_work *u, double share, uint32_t *counts)
{
    const int count = (int)u->count->valid;
    const double at = share * (count - 1);
    const int below = (int)at, above = below + 1 < count ? below + 1 : below;
    const double low = return_of_rank(u, (uint32_t)below, counts), high = return_of_rank(u, (uint32_t)above, counts);
    return low + (at - below) * (high - low);
}

/* New units from the returns, and the critic rewritten so that its predictions are unchanged (PopArt). The first update
 * has nothing to preserve. */
DEVICE void units_learn(const struct update_work *u, struct moments returns)
{
    struct update_state *s = u->state;
    __syncthreads();
    if (threadIdx.x == 0) {
        s->after = value_units_update(s->before, ++*u->value_updates, returns);
        s->units_moved = 1;
        *u->value_shift = s->after.shift;
        *u->value_scale = s->after.scale;
    }
    __syncthreads();
    const bool rewrite = *u->value_updates > 1;
    for (int i = threadIdx.x; i <= u->value_inputs; i += blockDim.x) {
        const bool bias = i == u->value_inputs;
        float *w = u->w + (bias ? u->value_bias : u->value_weight + i);
        u->last_layer[i] = *w;
        if (rewrite)
            *w = bias ? value_rewrite_bias(s->before, s->after, *w) : value_rewrite_weight(s->before, s->after, *w);
    }
}

/* One block: statistics of returns (L-13), then the critic's units; or the end of the update, where there is no target
 * to learn from. */
KERNEL void update_returns(const struct update_work u)
{
    SHARED_BYTES(shared);
    double *scratch = (double *)shared;
    device_wait();
    struct update_state *s = u.state;
    if (s->stop)
        return;
    const double count = (double)u.count->valid, choices = count - (double)u.count->forced;
    double gain = 0, value = 0, td = 0, magnitude = 0, advantage = 0;
    for (int i = threadIdx.x; i < u.rows; i += blockDim.x) {
        if (!is_valid(&u, i))
            continue;
        const struct gains g = gains_of(&u, i);
        gain += g.gain;
        value += g.value;
        td += g.td;
        magnitude += fabs(g.td);
        advantage += loss_had_choice(&u.row[i]) ? g.advantage : 0;
    }
    gain = block_sum(gain, scratch) / count;
    value = block_sum(value, scratch) / count;
    td = block_sum(td, scratch) / count;
    magnitude = block_sum(magnitude, scratch) / count;
    advantage = block_sum(advantage, scratch) / choices; /* NAN without any */

    double gain2 = 0, value2 = 0, td2 = 0, advantage2 = 0, both = 0, residual2 = 0;
    for (int i = threadIdx.x; i < u.rows; i += blockDim.x) {
        if (!is_valid(&u, i))
            continue;
        const struct gains g = gains_of(&u, i);
        const double off = (g.gain - g.value) - (gain - value);
        gain2 += (g.gain - gain) * (g.gain - gain);
        value2 += (g.value - value) * (g.value - value);
        td2 += (g.td - td) * (g.td - td);
        advantage2 += loss_had_choice(&u.row[i]) ? (g.advantage - advantage) * (g.advantage - advantage) : 0;
        both += (g.gain - gain) * (g.value - value);
        residual2 += off * off;
    }
    const struct moments returns = {count, gain, block_sum(gain2, scratch)};
    const struct moments values = {count, value, block_sum(value2, scratch)};
    const struct moments errors = {count, td, block_sum(td2, scratch)};
    const struct moments advantages = {choices, advantage, block_sum(advantage2, scratch)};
    both = block_sum(both, scratch);
    const struct moments residual = {count, gain - value, block_sum(residual2, scratch)};

    const double deviation = sqrt(moments_variance(returns)), value_deviation = sqrt(moments_variance(values));
    double skewness = 0;
    for (int i = threadIdx.x; deviation > DIAGNOSTICS_CONSTANT && i < u.rows; i += blockDim.x)
        if (is_valid(&u, i))
            skewness += pow(((double)u.rollout.returns[i] - gain) / deviation, 3.0);
    skewness = block_sum(skewness, scratch) / count;
    const double p10 = return_percentile(&u, 0.1, (uint32_t *)scratch);
    const double p50 = return_percentile(&u, 0.5, (uint32_t *)scratch);
    const double p90 = return_percentile(&u, 0.9, (uint32_t *)scratch);

    const bool finite = is_finite(gain);
    if (threadIdx.x == 0) {
        struct update_report *record = &u.report->record;
        const struct critic_fit fit = diagnostics_fit(returns, residual);
        const bool constant = deviation <= DIAGNOSTICS_CONSTANT || value_deviation <= DIAGNOSTICS_CONSTANT;
        record->explained_variance = fit.explained_variance;
        record->value_nrmse = fit.nrmse;
        record->value_correlation = constant ? 0 : fmin(fmax(both / count / (deviation * value_deviation), -1.0), 1.0);
        record->td_error_mean = td;
        record->td_error_std = sqrt(moments_variance(errors));
        record->bellman_error = magnitude;
        record->return_mean = gain;
        record->return_std = sqrt(moments_sample_variance(returns));
        record->return_skewness = deviation <= DIAGNOSTICS_CONSTANT ? 0 : skewness;
        record->return_p10 = p10;
        record->return_p50 = p50;
        record->return_p90 = p90;
        record->advantage_mean = advantage;
        record->advantage_std = choices > 0 ? sqrt(moments_variance(advantages)) : (double)NAN;
        if (!finite) { /* a reward or value was not */
            record->nonfinite = u.ppo.epochs * u.ppo.minibatches;
            s->stop = s->skip = 1;
        }
    }
    if (finite)
        units_learn(&u, returns);
}

/* A thread per row. */
KERNEL void update_targets(const struct update_work u)
{
    device_wait();
    const int i = blockIdx.x * ROW_THREADS + threadIdx.x;
    bool positive = false;
    if (u.count->valid > 0 && i < u.rows && u.row[i].valid) {
        const struct update_report *record = &u.report->record;
        const struct value_units *units = &u.state->after;
        if (loss_had_choice(&u.row[i]))
            u.row[i].advantage = (float)advantage_normalise((double)u.rollout.advantage[i], record->advantage_mean,
                                                            record->advantage_std);
        u.row[i].target = (float)(((double)u.rollout.returns[i] - units->shift) / units->scale);
        positive = u.row[i].advantage > 0;
    }
    count_lanes(positive, &u.state->positive);
}

#endif
