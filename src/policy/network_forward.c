/*
 * The forward pass, as stages over a range of rows and - where products are divided among threads - a range of panels.
 * Acting and unrolling run the same stages, so that they agree bit for bit.
 */
#include <string.h>

#include "nn/rows.h"
#include "policy/network_work.h"

/* ---- stages ----------------------------------------------------------------------------------------------------- */

/* A range of rows of a trace, and of a layer's panels: share `item` of `shares`. */
struct part {
    int row, rows;
    int item, shares;
};

static struct part all_panels(int row, int rows)
{
    return (struct part){row, rows, 0, 1};
}

static int share_first(const struct part *part, int panels)
{
    return (int)((int64_t)panels * part->item / part->shares);
}

static int share_last(const struct part *part, int panels)
{
    return (int)((int64_t)panels * (part->item + 1) / part->shares);
}

/* y = x W' + b; returns the range of columns this part has computed. */
struct columns {
    int first, count;
};

static struct columns layer_forward(const struct layer *layer, const struct part *part, const real *x, ptrdiff_t stride,
                                    real *y, ptrdiff_t y_stride)
{
    const struct product product = {.rows = part->rows,
                                    .k = layer->in,
                                    .columns = layer->out,
                                    .a = x + part->row * stride,
                                    .a_stride = stride,
                                    .b = layer->forward,
                                    .start = layer->bias_values,
                                    .start_stride = 0,
                                    .c = y + part->row * y_stride,
                                    .c_stride = y_stride};
    int panels = layer_panels(layer), first = share_first(part, panels), last = share_last(part, panels);
    linear_product(&product, first, last);
    int begin = first * PANEL, end = last * PANEL < layer->out ? last * PANEL : layer->out;
    return (struct columns){begin, end > begin ? end - begin : 0};
}

static void relu_rows(const struct part *part, struct columns columns, real *y, ptrdiff_t stride)
{
    for (int r = part->row; r < part->row + part->rows; r++)
        relu_row(columns.count, y + r * stride + columns.first);
}

static void norm_forward(const struct policy_net *net, const struct trace *trace, enum norm_index index, int row,
                         const real *x, real *y)
{
    const struct layer_norm *norm = &net->norm[index];
    real *hat = trace->hat[index] + (ptrdiff_t)row * norm->width;
    trace->rstd[index][row] = layer_norm_row(norm->width, x, hat);
    affine_row(norm->width, hat, norm->gamma_values, norm->beta_values, y);
}

/* Observation and the embeddings of the slots' blueprints, slot by slot. */
static void input_rows(const struct policy_net *net, const struct trace *trace, const real *obs, const int8_t *bp,
                       int row, int rows)
{
    const struct policy_shape *shape = &net->shape;
    for (int r = row; r < row + rows; r++) {
        real *in = trace->in + (ptrdiff_t)r * shape->inputs;
        memcpy(in, obs + (ptrdiff_t)r * shape->obs, sizeof(real) * (size_t)shape->obs);
        in += shape->obs;
        for (int s = 0; s < shape->slots; s++, in += POLICY_EMBED)
            memcpy(in, net->embed + POLICY_EMBED * policy_embed_row(bp[(ptrdiff_t)r * shape->slots + s]),
                   sizeof(real) * POLICY_EMBED);
    }
}

static void feature_sums(const struct policy_net *net, const struct trace *trace, const struct part *part)
{
    layer_forward(&net->layer[LAYER_FEATURE], part, trace->in, net->shape.inputs, trace->feature, net->shape.feature);
}

static void feature_rows(const struct policy_net *net, const struct trace *trace, int row, int rows)
{
    int width = net->shape.feature;
    for (int r = row; r < row + rows; r++) {
        real *feature = trace->feature + (ptrdiff_t)r * width;
        norm_forward(net, trace, NORM_FEATURE, r, feature, feature);
        relu_row(width, feature);
    }
}

static void projection(const struct policy_net *net, const struct trace *trace, const struct part *part)
{
    if (trace->x != trace->feature)
        layer_forward(&net->layer[LAYER_PROJECT], part, trace->feature, net->shape.feature, trace->x,
                      net->shape.hidden);
}

static void gate_inputs(const struct policy_net *net, const struct trace *trace, const struct part *part)
{
    int hidden = net->shape.hidden;
    for (int gate = 0; gate < GATES; gate++)
        layer_forward(&net->layer[LAYER_INPUT + gate], part, trace->x, hidden, trace->gate + gate * hidden,
                      GATES * hidden);
}

/* One step of the part's units: the state's contribution to the gates, then the cell. The raw h is left where its norm
 * goes, the new state in h_next and c_next, [rows][hidden] - zero where `reset` says that another episode begins. */
static void cell_step(const struct policy_net *net, const struct trace *trace, const struct part *part, real *h_next,
                      real *c_next, const uint8_t *reset)
{
    int hidden = net->shape.hidden, panels = panel_count(hidden);
    int first = share_first(part, panels), last = share_last(part, panels);
    int unit = first * PANEL, units = (last * PANEL < hidden ? last * PANEL : hidden) - unit;
    if (units <= 0)
        return;
    for (int gate = 0; gate < GATES; gate++) {
        real *sums = trace->gate + (ptrdiff_t)part->row * GATES * hidden + gate * hidden;
        const struct product product = {.rows = part->rows,
                                        .k = hidden,
                                        .columns = hidden,
                                        .a = trace->h_in + (ptrdiff_t)part->row * hidden,
                                        .a_stride = hidden,
                                        .b = net->layer[LAYER_STATE + gate].forward,
                                        .start = sums,
                                        .start_stride = GATES * hidden,
                                        .c = sums,
                                        .c_stride = GATES * hidden};
        linear_product(&product, first, last);
    }
    for (int n = 0; n < part->rows; n++) {
        ptrdiff_t at = (ptrdiff_t)(part->row + n) * hidden + unit, next = (ptrdiff_t)n * hidden + unit;
        real *h = trace->hat[NORM_LSTM] + at;
        lstm_cell(units, hidden, trace->gate + GATES * (at - unit) + unit, trace->c_in + at, c_next + next,
                  trace->tanh_c + at, h);
        memcpy(h_next + next, h, sizeof(real) * (size_t)units);
        if (reset && reset[n]) {
            memset(h_next + next, 0, sizeof(real) * (size_t)units);
            memset(c_next + next, 0, sizeof(real) * (size_t)units);
        }
    }
}

/* z = x + LayerNorm(h) */
static void trunk_rows(const struct policy_net *net, const struct trace *trace, int row, int rows)
{
    int hidden = net->shape.hidden;
    for (int r = row; r < row + rows; r++) {
        ptrdiff_t at = (ptrdiff_t)r * hidden;
        norm_forward(net, trace, NORM_LSTM, r, trace->hat[NORM_LSTM] + at, trace->z + at);
        for (int u = 0; u < hidden; u++)
            trace->z[at + u] += trace->x[at + u];
    }
}

/* First layers of all heads and of V. */
static void wide_layers(const struct policy_net *net, const struct trace *trace, const struct part *part)
{
    int hidden = net->shape.hidden, wide = wide_columns(&net->shape);
    for (int head = 0; head < HEAD_COUNT; head++) {
        real *y = trace->wide + wide_column(&net->shape, head);
        struct columns columns = layer_forward(&net->layer[LAYER_HEAD1 + head], part, trace->z, hidden, y, wide);
        relu_rows(part, columns, y, wide);
    }
    layer_forward(&net->layer[LAYER_VALUE1], part, trace->z, hidden, trace->wide + wide_column(&net->shape, HEAD_COUNT),
                  wide);
}

static void value_rows(const struct policy_net *net, const struct trace *trace, const struct part *part, real *value)
{
    int hidden = net->shape.hidden, wide = wide_columns(&net->shape);
    int width1 = hidden / 2, width2 = hidden / 4, width3 = hidden / 8;
    real *value1 = trace->wide + wide_column(&net->shape, HEAD_COUNT);
    for (int r = part->row; r < part->row + part->rows; r++) {
        real *y = value1 + (ptrdiff_t)r * wide;
        norm_forward(net, trace, NORM_VALUE1, r, y, y);
        relu_row(width1, y);
    }
    layer_forward(&net->layer[LAYER_VALUE2], part, value1, wide, trace->value2, width2);
    for (int r = part->row; r < part->row + part->rows; r++) {
        real *y = trace->value2 + (ptrdiff_t)r * width2;
        norm_forward(net, trace, NORM_VALUE2, r, y, y);
        relu_row(width2, y);
    }
    layer_forward(&net->layer[LAYER_VALUE3], part, trace->value2, width2, trace->value3, width3);
    relu_rows(part, (struct columns){0, width3}, trace->value3, width3);
    layer_forward(&net->layer[LAYER_VALUE4], part, trace->value3, width3, value, 1);
}

/* The layers after the first. Small: divided by rows only. */
static void head_rows(const struct policy_net *net, const struct trace *trace, int row, int rows, real *logits,
                      real *value)
{
    const struct policy_shape *shape = &net->shape;
    const struct part part = all_panels(row, rows);
    int wide = wide_columns(shape), half = shape->hidden / 2;
    for (int head = 0; head < HEAD_COUNT; head++) {
        const real *x = trace->wide + wide_column(shape, head);
        real *y = logits + head_offset(shape->slots, head);
        if (head == HEAD_BLUEPRINT) {
            layer_forward(&net->layer[LAYER_HEAD2 + head], &part, x, wide, trace->blueprint2, half);
            relu_rows(&part, (struct columns){0, half}, trace->blueprint2, half);
            layer_forward(&net->layer[LAYER_BLUEPRINT3], &part, trace->blueprint2, half, y, shape->logits);
        } else {
            layer_forward(&net->layer[LAYER_HEAD2 + head], &part, x, wide, y, shape->logits);
        }
    }
    value_rows(net, trace, &part, value);
}

/* ---- acting ----------------------------------------------------------------------------------------------------- */

struct act_work {
    const struct policy_net *net;
    const struct policy_step *step;
    int shares;
};

static struct part act_part(const struct act_work *work, int item)
{
    return (struct part){0, work->step->rows, item, work->shares};
}

static void act_feature(void *context, int item, int thread)
{
    const struct act_work *work = context;
    struct part part = act_part(work, item);
    (void)thread;
    feature_sums(work->net, &work->net->act, &part);
}

static void act_projection(void *context, int item, int thread)
{
    const struct act_work *work = context;
    struct part part = act_part(work, item);
    (void)thread;
    projection(work->net, &work->net->act, &part);
}

static void act_cell(void *context, int item, int thread)
{
    const struct act_work *work = context;
    struct part part = act_part(work, item);
    (void)thread;
    gate_inputs(work->net, &work->net->act, &part);
    cell_step(work->net, &work->net->act, &part, work->step->h, work->step->c, NULL);
}

static void act_wide(void *context, int item, int thread)
{
    const struct act_work *work = context;
    struct part part = act_part(work, item);
    (void)thread;
    wide_layers(work->net, &work->net->act, &part);
}

enum { ACT_ROWS = 4 }; /* processed by the last layers at a time */

static void act_heads(void *context, int item, int thread)
{
    const struct act_work *work = context;
    const struct policy_step *step = work->step;
    int row = item * ACT_ROWS, rows = step->rows - row < ACT_ROWS ? step->rows - row : ACT_ROWS;
    (void)thread;
    head_rows(work->net, &work->net->act, row, rows, step->logits, step->value);
}

static void act_shared(struct act_work *work, void (*stage)(void *context, int item, int thread), int in, int out)
{
    work->shares = policy_shares(work->net, (double)work->step->rows * in * out);
    pool_run(work->net->pool, stage, work, work->shares);
}

void policy_net_act(struct policy_net *net, const struct policy_step *step)
{
    const struct policy_shape *shape = &net->shape;
    const struct trace *trace = &net->act;
    struct act_work work = {net, step, 1};
    int rows = step->rows, hidden = shape->hidden;
    size_t state = sizeof(real) * (size_t)rows * (size_t)hidden;
    memcpy(trace->h_in, step->h, state); /* threads write their units' new state while others read the old one */
    memcpy(trace->c_in, step->c, state);
    input_rows(net, trace, step->obs, step->bp, 0, rows);
    act_shared(&work, act_feature, shape->inputs, shape->feature);
    feature_rows(net, trace, 0, rows);
    if (trace->x != trace->feature)
        act_shared(&work, act_projection, shape->feature, hidden);
    act_shared(&work, act_cell, 2 * hidden, GATES * hidden);
    trunk_rows(net, trace, 0, rows);
    act_shared(&work, act_wide, hidden, wide_columns(shape));
    pool_run(net->pool, act_heads, &work, (rows + ACT_ROWS - 1) / ACT_ROWS);
}

/* ---- unrolling -------------------------------------------------------------------------------------------------- */

struct unroll_work {
    const struct policy_net *net;
    const struct policy_sequence *sequence;
    real *logits, *value;
    struct chunks chunks;
    int step, shares;
};

/* The part of the network before the recurrence, for a chunk of rows. */
static void unroll_before(void *context, int item, int thread)
{
    const struct unroll_work *work = context;
    const struct policy_net *net = work->net;
    int all = work->sequence->steps * work->sequence->envs, row = item * work->chunks.rows;
    int rows = all - row < work->chunks.rows ? all - row : work->chunks.rows;
    struct part part = all_panels(row, rows);
    (void)thread;
    input_rows(net, &net->unroll, work->sequence->obs, work->sequence->bp, row, rows);
    feature_sums(net, &net->unroll, &part);
    feature_rows(net, &net->unroll, row, rows);
    projection(net, &net->unroll, &part);
    gate_inputs(net, &net->unroll, &part);
}

/* The part after it. */
static void unroll_after(void *context, int item, int thread)
{
    const struct unroll_work *work = context;
    const struct policy_net *net = work->net;
    int all = work->sequence->steps * work->sequence->envs, row = item * work->chunks.rows;
    int rows = all - row < work->chunks.rows ? all - row : work->chunks.rows;
    struct part part = all_panels(row, rows);
    (void)thread;
    trunk_rows(net, &net->unroll, row, rows);
    wide_layers(net, &net->unroll, &part);
    head_rows(net, &net->unroll, row, rows, work->logits, work->value);
}

/* Envs first .. first + part->rows - 1 of one step, and the units of the part. */
static void unroll_step(const struct unroll_work *work, int step, int first, struct part part)
{
    const struct policy_net *net = work->net;
    const struct policy_sequence *sequence = work->sequence;
    int envs = sequence->envs;
    ptrdiff_t next = (ptrdiff_t)((step + 1) * envs + first) * net->shape.hidden;
    bool look_ahead = sequence->reset && step + 1 < sequence->steps;
    part.row = step * envs + first;
    cell_step(net, &net->unroll, &part, net->unroll.h_in + next, net->unroll.c_in + next,
              look_ahead ? sequence->reset + (step + 1) * envs + first : NULL);
}

static void unroll_units(void *context, int item, int thread)
{
    const struct unroll_work *work = context;
    (void)thread;
    unroll_step(work, work->step, 0, (struct part){0, work->sequence->envs, item, work->shares});
}

static void unroll_envs(void *context, int item, int thread)
{
    const struct unroll_work *work = context;
    int envs = work->sequence->envs, first = envs * item / work->shares, last = envs * (item + 1) / work->shares;
    (void)thread;
    for (int step = 0; step < work->sequence->steps; step++)
        unroll_step(work, step, first, all_panels(0, last - first));
}

static void unroll_start(const struct policy_net *net, const struct policy_sequence *sequence)
{
    size_t row = sizeof(real) * (size_t)net->shape.hidden;
    for (int env = 0; env < sequence->envs; env++) {
        ptrdiff_t at = (ptrdiff_t)env * net->shape.hidden;
        bool zero = is_reset(sequence, 0, env);
        memset(net->unroll.h_in + at, 0, row);
        memset(net->unroll.c_in + at, 0, row);
        if (sequence->h0 && !zero)
            memcpy(net->unroll.h_in + at, sequence->h0 + at, row);
        if (sequence->c0 && !zero)
            memcpy(net->unroll.c_in + at, sequence->c0 + at, row);
    }
}

void policy_net_unroll(struct policy_net *net, const struct policy_sequence *sequence, real *logits, real *value)
{
    int envs = sequence->envs, hidden = net->shape.hidden;
    struct unroll_work work = {net, sequence, logits, value, policy_chunks(net, sequence->steps * envs), 0, 1};
    net->last_steps = sequence->steps;
    net->last_envs = envs;
    unroll_start(net, sequence);
    pool_run(net->pool, unroll_before, &work, work.chunks.count);
    if (policy_by_envs(net)) {
        work.shares = envs < pool_threads(net->pool) ? envs : pool_threads(net->pool);
        pool_run(net->pool, unroll_envs, &work, work.shares);
    } else {
        work.shares = policy_shares(net, (double)envs * hidden * GATES * hidden);
        for (; work.step < sequence->steps; work.step++)
            pool_run(net->pool, unroll_units, &work, work.shares);
    }
    pool_run(net->pool, unroll_after, &work, work.chunks.count);
}

const real *policy_net_trunk(const struct policy_net *net)
{
    return net->unroll.z;
}

void policy_net_state(const struct policy_net *net, const real **h, const real **c)
{
    ptrdiff_t last = (ptrdiff_t)net->last_steps * net->last_envs * net->shape.hidden;
    *h = net->unroll.h_in + last;
    *c = net->unroll.c_in + last;
}
