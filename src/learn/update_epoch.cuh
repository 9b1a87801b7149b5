/* The kernels of the epochs: dealing out mini-batches, a look at what the policy does now, the KL test, derivatives,
 * and Adam's step. */
#ifndef LEARN_UPDATE_EPOCH_CUH
#define LEARN_UPDATE_EPOCH_CUH

#include "learn/update_returns.cuh"

#define KL_STOP 1.5 /* times the target */

/* ---- mini-batches ------------------------------------------------------------------------------------------------ */

KERNEL void epoch_deal(const struct update_work u, int epoch)
{
    device_wait();
    deal_envs(u.seed, *u.updates, epoch, u.envs, u.order);
}

KERNEL void part_begin(const struct update_work part)
{
    device_wait();
    part.state->broken = 0;
    count_nothing(part.count);
}

/* A thread per row of the mini-batch, which is the `number`-th of the deal. */
KERNEL void part_take(const struct update_work u, const struct update_work part, int number)
{
    device_wait();
    const int i = blockIdx.x * ROW_THREADS + threadIdx.x;
    struct loss_row row = no_row();
    if (i < part.rows) {
        const int env = u.order[number * part.envs + i % part.envs];
        const size_t to = (size_t)i, from = (size_t)(i / part.envs * u.envs + env);
        row = part.row[to] = u.row[from];
        part.reset[to] = u.reset[from];
        for (int k = 0; k < HEAD_COUNT; k++)
            part.ref[to * HEAD_COUNT + k] = u.ref[from * HEAD_COUNT + k];
        for (int k = 0; k < u.obs; k++)
            part.rollout.state[to * u.obs + k] = u.rollout.state[from * u.obs + k];
        for (int k = 0; k < u.slots; k++)
            part.rollout.bp[to * u.slots + k] = u.rollout.bp[from * u.slots + k];
    }
    count_row(&row, u.slots, part.count);
}

KERNEL void part_count(const struct update_work part)
{
    device_wait();
    count_losses(part.count);
}

/* ---- the look ---------------------------------------------------------------------------------------------------- */

DEVICE double look_join(int field, double a, double b)
{
    return field < LOOK_SUMS ? a + b : field < LOOK_MAXIMA ? fmax(a, b) : fmin(a, b);
}

DEVICE double look_nothing(int field)
{
    return field < LOOK_SUMS ? 0 : field < LOOK_MAXIMA ? -(double)INFINITY : (double)INFINITY;
}

/* One head of one valid row. */
DEVICE void look_head(const struct update_work *u, const struct loss_row *row, int head, const struct loss_view *view,
                      const float *ref, double field[LOOK_FIELDS])
{
    const struct loss_rules *rules = &u->state->rules;
    field[LOOK_SHOWN] = (double)view->shown[head];
    field[LOOK_SHOWN_LEARNABLE] = loss_learns_head(row, u->slots, head) ? (double)view->shown[head] : 0;
    if (!loss_counts_head(row, head))
        return;
    const double log_ratio = loss_log_ratio(view->logp[head], ref[head]);
    field[LOOK_DIVERGENCE] = loss_moved(row, log_ratio);
    field[LOOK_CLIPPED] = fabs(exp(log_ratio) - 1) > rules->clip;
    field[LOOK_LOG_RATIO_MAX] = field[LOOK_LOG_RATIO_MIN] = log_ratio;
    field[LOOK_LOG_PROB_MIN] = (double)view->logp[head];
    field[LOOK_SURROGATE] = loss_gain(row, view->logp[head], log_ratio, rules->clip);
    field[LOOK_ENTROPY] = (double)view->entropy[head];
}

/* What belongs to the row as a whole. */
DEVICE void look_row(const struct update_work *u, const struct loss_row *row, const float logp[HEAD_COUNT],
                     const float ref[HEAD_COUNT], float value, double field[LOOK_FIELDS])
{
    const double joint = loss_joint_ratio(logp, ref);
    field[LOOK_VALUE] = loss_value_term(row, value);
    field[LOOK_JOINT] = field[LOOK_JOINT_MAX] = field[LOOK_JOINT_MIN] = joint;
    field[LOOK_JOINT_CLIPPED] = fabs(joint - 1) > u->state->rules.clip;
}

/* Reduces over the block's threads: fields over rows, the moments of values from the threads of head 0. */
DEVICE void look_reduce(double field[LOOK_FIELDS], struct moments values, struct look_part *part, double *scratch)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, head = threadIdx.x % HEAD_COUNT;
    enum { WARPS = LOOK_THREADS / 32 };
    struct moments *moments = (struct moments *)(scratch + WARPS * LOOK_NUMBERS);
    for (int mask = HEAD_COUNT; mask < 32; mask *= 2) {
        for (int f = 0; f < LOOK_FIELDS; f++)
            field[f] = look_join(f, field[f], __shfl_xor_sync(~0u, field[f], mask));
        struct moments other = {__shfl_xor_sync(~0u, values.count, mask), __shfl_xor_sync(~0u, values.mean, mask),
                                __shfl_xor_sync(~0u, values.m2, mask)};
        values = lane & mask ? moments_merge(other, values) : moments_merge(values, other);
    }
    for (int f = 0; lane < HEAD_COUNT && f < LOOK_FIELDS; f++)
        scratch[warp * LOOK_NUMBERS + head * LOOK_FIELDS + f] = field[f];
    if (lane == 0)
        moments[warp] = values;
    __syncthreads();
    for (int i = threadIdx.x; i < LOOK_NUMBERS; i += LOOK_THREADS) {
        double sum = scratch[i];
        for (int w = 1; w < WARPS; w++)
            sum = look_join(i % LOOK_FIELDS, sum, scratch[w * LOOK_NUMBERS + i]);
        part->field[i / LOOK_FIELDS][i % LOOK_FIELDS] = sum;
    }
    if (threadIdx.x == 0) {
        for (int w = 1; w < WARPS; w++)
            values = moments_merge(values, moments[w]);
        part->values = values;
    }
}
static constexpr size_t LOOK_SHARED = LOOK_THREADS / 32 * (LOOK_NUMBERS * sizeof(double) + sizeof(struct moments));

/* Evaluates the current policy on the rows. Eight threads per row. The log-probabilities of the first look are the
 * reference of all (L-07). */
KERNEL void __launch_bounds__(LOOK_THREADS) epoch_look(const struct update_work u, bool first)
{
    SHARED_BYTES(shared);
    device_wait();
    struct update_state *s = u.state;
    if (s->stop)
        return;
    const int i = blockIdx.x * LOOK_ROWS + threadIdx.x / HEAD_COUNT, head = threadIdx.x % HEAD_COUNT;
    const bool valid = i < u.rows && u.row[i].valid;
    double field[LOOK_FIELDS];
    struct moments values = {0, 0, 0};
    struct loss_view view;
    float logp = 0, reference = 0, all[HEAD_COUNT], refs[HEAD_COUNT];
    for (int f = 0; f < LOOK_FIELDS; f++)
        field[f] = look_nothing(f);
    if (valid) {
        loss_look_head(&s->rules, &u.row[i], head, u.logits + (size_t)i * u.logits_count, &view);
        logp = view.logp[head];
    }
    if (i < u.rows && first)
        u.ref[(size_t)i * HEAD_COUNT + head] = logp;
    if (valid)
        reference = first ? logp : u.ref[(size_t)i * HEAD_COUNT + head];
    for (int h = 0; h < HEAD_COUNT; h++) {
        all[h] = __shfl_sync(~0u, logp, h, HEAD_COUNT);
        refs[h] = __shfl_sync(~0u, reference, h, HEAD_COUNT);
    }
    if (valid) {
        const float value = u.values[i];
        look_head(&u, &u.row[i], head, &view, refs, field);
        if (first && !u.row[i].shown) {
            const double drift = fabs((double)u.rollout.logp[(size_t)i * HEAD_COUNT + head] - (double)logp);
            field[LOOK_DRIFT] = drift;
            if (drift != drift)
                atomicAdd(&s->drift_broken, 1u);
        }
        if (head == 0) {
            look_row(&u, &u.row[i], all, refs, value, field);
            values.count = 1;
            values.mean = (double)value;
        }
        if (!is_finite((double)logp) || !is_finite((double)value))
            atomicAdd(&s->broken, 1u);
    }
    look_reduce(field, values, &u.parts[blockIdx.x], (double *)shared);
}

DEVICE void describe_policy(const struct update_work *u, const struct look_part *all, double h2, double c2)
{
    const struct update_state *s = u->state;
    struct update_report *record = &u->report->record;
    const double units = (double)u->envs * u->hidden;
    double drift = 0;
    for (int head = 0; head < HEAD_COUNT; head++) {
        struct head_report *of = &u->report->heads[head];
        drift = fmax(drift, all->field[head][LOOK_DRIFT]);
        of->entropy = u->count->learnable[head]
                          ? all->field[head][LOOK_SHOWN_LEARNABLE] / (double)u->count->learnable[head]
                          : (double)NAN;
        of->entropy_all = all->field[head][LOOK_SHOWN] / (double)u->count->valid;
    }
    record->anchor_drift = s->drift_broken ? (double)NAN : drift;
    record->op_entropy = u->report->heads[HEAD_OP].entropy;
    record->hidden_rms = sqrt(h2 / units);
    record->cell_rms = sqrt(c2 / units);
}

DEVICE void tally_look(const struct update_work *u, const struct look_part *all)
{
    const struct update_state *s = u->state;
    struct report_tally *tally = &u->report->tally;
    const double valid = (double)u->count->valid, *row = all->field[0];
    tally->looks++;
    tally->kl += loss_kl(&s->sums);
    tally->clipped += row[LOOK_JOINT_CLIPPED] / valid;
    tally->ratio += row[LOOK_JOINT] / valid;
    tally->ratio_max = fmax(tally->ratio_max, row[LOOK_JOINT_MAX]);
    tally->ratio_min = fmin(tally->ratio_min, row[LOOK_JOINT_MIN]);
    tally->value_mean += all->values.mean;
    tally->value_std += sqrt(moments_sample_variance(all->values));
    for (int head = 0; head < HEAD_COUNT; head++) {
        struct report_head *of = &tally->head[head];
        const double count = (double)u->count->decisions[head], *field = all->field[head];
        if (count == 0)
            continue;
        of->looks++;
        of->kl += field[LOOK_DIVERGENCE] / count;
        of->clipped += field[LOOK_CLIPPED] / count;
        of->log_ratio_max = fmax(of->log_ratio_max, field[LOOK_LOG_RATIO_MAX]);
        of->log_ratio_min = fmin(of->log_ratio_min, field[LOOK_LOG_RATIO_MIN]);
        of->log_prob_min = fmin(of->log_prob_min, field[LOOK_LOG_PROB_MIN]);
    }
}

DEVICE void sums_of(const struct update_work *u, const struct look_part *all)
{
    struct update_state *s = u->state;
    s->sums.value = all->field[0][LOOK_VALUE];
    s->sums.choices = (double)(u->count->valid - u->count->forced);
    s->sums.divergence = 0;
    for (int head = 0; head < HEAD_COUNT; head++) {
        s->sums.surrogate[head] = all->field[head][LOOK_SURROGATE];
        s->sums.entropy[head] = all->field[head][LOOK_ENTROPY];
        s->sums.divergence += all->field[head][LOOK_DIVERGENCE];
    }
}

enum { DECIDE_SLICES = 8, DECIDE_COLUMNS = WIDE_THREADS / DECIDE_SLICES }; /* parts are added in this many slices */
static constexpr size_t DECIDE_SHARED = WIDE_THREADS * sizeof(double) + sizeof(struct look_part) +
                                        (DECIDE_SLICES + 1) * sizeof(struct moments);

/* Adds up the parts in order, in slices of neighbours. */
DEVICE void parts_join(const struct update_work *u, int parts, double *scratch, struct look_part *all)
{
    const int column = threadIdx.x % DECIDE_COLUMNS, slice = threadIdx.x / DECIDE_COLUMNS;
    const int size = (parts + DECIDE_SLICES - 1) / DECIDE_SLICES, first = min(slice * size, parts);
    const int last = min(first + size, parts), field = column % LOOK_FIELDS;
    struct moments *moments = (struct moments *)(all + 1);
    if (column < LOOK_NUMBERS) {
        double sum = look_nothing(field);
        for (int p = first; p < last; p++)
            sum = look_join(field, sum, u->parts[p].field[column / LOOK_FIELDS][field]);
        scratch[threadIdx.x] = sum;
    } else if (column == LOOK_NUMBERS) {
        struct moments values = {0, 0, 0};
        for (int p = first; p < last; p++)
            values = moments_merge(values, u->parts[p].values);
        moments[slice] = values;
    }
    __syncthreads();
    if (slice == 0 && column < LOOK_NUMBERS) {
        double sum = scratch[column];
        for (int k = 1; k < DECIDE_SLICES; k++)
            sum = look_join(field, sum, scratch[k * DECIDE_COLUMNS + column]);
        all->field[column / LOOK_FIELDS][field] = sum;
    } else if (slice == 0 && column == LOOK_NUMBERS) {
        all->values = moments[0];
        for (int k = 1; k < DECIDE_SLICES; k++)
            all->values = moments_merge(all->values, moments[k]);
    }
    __syncthreads();
}

/* One block, after the first look: the policy that acted. */
KERNEL void __launch_bounds__(WIDE_THREADS) policy_describe(const struct update_work u, int parts)
{
    SHARED_BYTES(shared);
    double *scratch = (double *)shared;
    struct look_part *all = (struct look_part *)(scratch + WIDE_THREADS);
    device_wait();
    if (u.state->stop)
        return;
    parts_join(&u, parts, scratch, all);
    double h2 = 0, c2 = 0;
    for (int i = threadIdx.x; i < u.envs * u.hidden; i += WIDE_THREADS) {
        h2 += (double)u.last_h[i] * (double)u.last_h[i];
        c2 += (double)u.last_c[i] * (double)u.last_c[i];
    }
    h2 = block_sum(h2, scratch);
    c2 = block_sum(c2, scratch);
    if (threadIdx.x == 0)
        describe_policy(&u, all, h2, c2);
}

/* One block: is everything finite, has the policy moved far enough, or does this pass make a step? */
KERNEL void __launch_bounds__(WIDE_THREADS) epoch_decide(const struct update_work u, int epoch, int parts)
{
    SHARED_BYTES(shared);
    double *scratch = (double *)shared;
    struct look_part *all = (struct look_part *)(scratch + WIDE_THREADS);
    device_wait();
    struct update_state *s = u.state;
    if (s->stop)
        return;
    parts_join(&u, parts, scratch, all);
    if (threadIdx.x > 0)
        return;
    s->skip = s->broken != 0 || u.count->valid == 0;
    if (s->skip) {
        u.report->record.nonfinite += s->broken != 0;
        s->broken = 0;
        return;
    }
    sums_of(&u, all);
    tally_look(&u, all);
    if (u.ppo.target_kl > 0 && loss_kl(&s->sums) > KL_STOP * u.ppo.target_kl) {
        u.report->record.early_stop = epoch; /* the steps so far have moved the policy far enough */
        s->stop = s->skip = 1;
    }
}

/* A thread per head of a row. */
KERNEL void epoch_derive(const struct update_work u)
{
    device_wait();
    const int i = blockIdx.x * LOOK_ROWS + threadIdx.x / HEAD_COUNT, head = threadIdx.x % HEAD_COUNT;
    const struct update_state *s = u.state;
    if (s->skip || i >= u.rows)
        return;
    const size_t at = (size_t)i * u.logits_count;
    loss_backward_head(&s->rules, &u.count->counts, &u.row[i], head, u.logits + at, u.ref + (size_t)i * HEAD_COUNT,
                       u.dlogits + at);
    if (head == 0)
        u.dvalues[i] = loss_backward_value(&s->rules, &u.count->counts, &u.row[i], u.values[i]);
}

/* A block per piece of the gradient. */
KERNEL void epoch_squares(const struct update_work u)
{
    SHARED_BYTES(shared);
    device_wait();
    if (u.state->skip)
        return;
    const struct norm_piece piece = u.pieces[blockIdx.x];
    double sum = 0;
    for (uint32_t i = threadIdx.x; i < piece.count; i += NORM_THREADS) {
        const double g = (double)u.grad[piece.first + i];
        sum += g * g;
    }
    sum = block_sum(sum, (double *)shared);
    if (threadIdx.x == 0)
        u.squares[blockIdx.x] = sum;
}

/* One block: the norm decides whether there is a step, and how far it goes (L-08). */
KERNEL void epoch_norm(const struct update_work u)
{
    SHARED_BYTES(shared);
    device_wait();
    struct update_state *s = u.state;
    if (s->skip)
        return;
    double part[POLICY_PART_COUNT], square = 0;
    for (int p = 0; p < POLICY_PART_COUNT; p++) {
        double sum = 0;
        for (int i = threadIdx.x; i < u.piece_count; i += NORM_THREADS)
            sum += (int)u.pieces[i].part == p ? u.squares[i] : 0;
        part[p] = block_sum(sum, (double *)shared);
        square += part[p];
    }
    if (threadIdx.x > 0)
        return;
    struct update_report *record = &u.report->record;
    struct report_tally *tally = &u.report->tally;
    if (!is_finite(square)) {
        record->nonfinite++;
        s->skip = 1;
        return;
    }
    const double norm = sqrt(square), step = (double)++*u.adam_steps;
    s->factor = (float)fmin(1.0, u.ppo.max_grad_norm / (norm + 1e-6));
    s->rate = (float)(s->lr / (1 - pow(u.ppo.beta1, step)));
    s->root_scale = (float)(1 / sqrt(1 - pow(u.ppo.beta2, step)));
    for (int head = 0; head < HEAD_COUNT; head++)
        tally->head[head].square_norm = fmax(tally->head[head].square_norm, part[head]);
    record->value_grad_norm = sqrt(part[POLICY_PART_VALUE]);
    record->epochs++;
    tally->grad_norm = fmax(tally->grad_norm, norm);
    tally->losses++;
    tally->policy += loss_policy(&s->sums, &u.count->counts);
    tally->value += loss_value(&s->sums, &u.count->counts);
    tally->entropy += loss_entropy(&s->sums, &u.count->counts, u.ppo.entropy_weight);
}

/* nn/adam.c, a thread per four numbers. */
KERNEL void epoch_adam(const struct update_work u)
{
    device_wait();
    const struct update_state *s = u.state;
    const size_t at = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (s->skip || at >= u.storage)
        return;
    const float keep1 = (float)u.ppo.beta1, add1 = (float)(1 - u.ppo.beta1);
    const float keep2 = (float)u.ppo.beta2, add2 = (float)(1 - u.ppo.beta2), epsilon = (float)u.ppo.epsilon;
    float4 g4 = *(const float4 *)(u.grad + at), w4 = *(const float4 *)(u.w + at);
    float4 m4 = *(const float4 *)(u.m + at), v4 = *(const float4 *)(u.v + at);
    const float g[4] = {g4.x, g4.y, g4.z, g4.w};
    float w[4] = {w4.x, w4.y, w4.z, w4.w}, m[4] = {m4.x, m4.y, m4.z, m4.w}, v[4] = {v4.x, v4.y, v4.z, v4.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float d = s->factor * g[i];
        m[i] = keep1 * m[i] + add1 * d;
        v[i] = keep2 * v[i] + add2 * (d * d);
        w[i] -= s->rate * m[i] / (sqrtf(v[i]) * s->root_scale + epsilon);
    }
    *(float4 *)(u.w + at) = make_float4(w[0], w[1], w[2], w[3]);
    *(float4 *)(u.m + at) = make_float4(m[0], m[1], m[2], m[3]);
    *(float4 *)(u.v + at) = make_float4(v[0], v[1], v[2], v[3]);
}

#endif
