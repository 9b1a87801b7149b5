/*
 * The backward pass. Gradients of activations are computed in chunks of rows, before and after backpropagation through
 * time; those of a layer's output are also stored transposed, and once all rows are there, the gradients of the weights
 * are products over them: each number is one sum in the order of the rows.
 */
#include <string.h>

#include "nn/rows.h"
#include "policy/network_work.h"

struct back_work {
    const struct policy_net *net;
    const struct policy_sequence *sequence;
    const real *dlogits, *dvalue;
    real *grad;
    struct chunks chunks;
    int all; /* rows */
    int step, shares;
};

/* ---- stages ----------------------------------------------------------------------------------------------------- */

/* Rows of gradients, `stride` apart. */
struct rows {
    int first, count;
};

static real *at_row(real *x, int row, ptrdiff_t stride)
{
    return x + row * stride;
}

/* Keep dy of a layer for its weights' gradients. */
static void layer_keep(const struct policy_net *net, int layer, struct rows rows, const real *dy, ptrdiff_t stride)
{
    linear_transpose(rows.count, net->layer[layer].out, dy + rows.first * stride, stride,
                     net->layer[layer].dy + rows.first, net->rows_stride);
}

/* dx = dy W, or dx += dy W; panels first .. last-1 of dx. */
static void layer_backward_panels(const struct policy_net *net, int layer, struct rows rows, const real *dy,
                                  ptrdiff_t dy_stride, real *dx, ptrdiff_t dx_stride, bool add, int first, int last)
{
    const struct layer *l = &net->layer[layer];
    real *c = dx + rows.first * dx_stride;
    const struct product product = {.rows = rows.count,
                                    .k = l->out,
                                    .columns = l->in,
                                    .a = dy + rows.first * dy_stride,
                                    .a_stride = dy_stride,
                                    .b = l->backward,
                                    .start = add ? c : NULL,
                                    .start_stride = add ? dx_stride : 0,
                                    .c = c,
                                    .c_stride = dx_stride};
    linear_product(&product, first, last);
}

static void layer_backward(const struct policy_net *net, int layer, struct rows rows, const real *dy,
                           ptrdiff_t dy_stride, real *dx, ptrdiff_t dx_stride, bool add)
{
    layer_backward_panels(net, layer, rows, dy, dy_stride, dx, dx_stride, add, 0, panel_count(net->layer[layer].in));
}

static void relu_rows_backward(struct rows rows, int width, const real *y, ptrdiff_t y_stride, real *d,
                               ptrdiff_t d_stride)
{
    for (int r = rows.first; r < rows.first + rows.count; r++)
        relu_row_backward(width, y + r * y_stride, d + r * d_stride);
}

/* Through a LayerNorm, in place; keeps what the gradients of gamma and beta need. */
static void norm_rows_backward(const struct policy_net *net, enum norm_index index, struct rows rows, real *d,
                               ptrdiff_t stride)
{
    const struct layer_norm *norm = &net->norm[index];
    for (int r = rows.first; r < rows.first + rows.count; r++) {
        real *row = d + r * stride, *kept = at_row(net->back.affine[index], r, norm->width);
        memcpy(kept, row, sizeof(real) * (size_t)norm->width);
        layer_norm_row_backward(norm->width, at_row(net->unroll.hat[index], r, norm->width), net->unroll.rstd[index][r],
                                norm->gamma_values, kept, row);
    }
}

static void value_backward(const struct back_work *work, struct rows rows)
{
    const struct policy_net *net = work->net;
    const struct trace *trace = &net->unroll;
    const struct gradient_trace *back = &net->back;
    int hidden = net->shape.hidden, wide = wide_columns(&net->shape), column = wide_column(&net->shape, HEAD_COUNT);
    int width2 = hidden / 4, width3 = hidden / 8;
    layer_keep(net, LAYER_VALUE4, rows, work->dvalue, 1);
    layer_backward(net, LAYER_VALUE4, rows, work->dvalue, 1, back->value3, width3, false);
    relu_rows_backward(rows, width3, trace->value3, width3, back->value3, width3);
    layer_keep(net, LAYER_VALUE3, rows, back->value3, width3);
    layer_backward(net, LAYER_VALUE3, rows, back->value3, width3, back->value2, width2, false);
    relu_rows_backward(rows, width2, trace->value2, width2, back->value2, width2);
    norm_rows_backward(net, NORM_VALUE2, rows, back->value2, width2);
    layer_keep(net, LAYER_VALUE2, rows, back->value2, width2);
    layer_backward(net, LAYER_VALUE2, rows, back->value2, width2, back->wide + column, wide, false);
    relu_rows_backward(rows, hidden / 2, trace->wide + column, wide, back->wide + column, wide);
    norm_rows_backward(net, NORM_VALUE1, rows, back->wide + column, wide);
    layer_keep(net, LAYER_VALUE1, rows, back->wide + column, wide);
}

static void head_backward(const struct back_work *work, int head, struct rows rows)
{
    const struct policy_net *net = work->net;
    const struct trace *trace = &net->unroll;
    const struct gradient_trace *back = &net->back;
    int wide = wide_columns(&net->shape), column = wide_column(&net->shape, head), half = net->shape.hidden / 2;
    const real *dy = work->dlogits + head_offset(net->shape.slots, head);
    ptrdiff_t stride = net->shape.logits;
    if (head == HEAD_BLUEPRINT) {
        layer_keep(net, LAYER_BLUEPRINT3, rows, dy, stride);
        layer_backward(net, LAYER_BLUEPRINT3, rows, dy, stride, back->blueprint2, half, false);
        relu_rows_backward(rows, half, trace->blueprint2, half, back->blueprint2, half);
        dy = back->blueprint2;
        stride = half;
    }
    layer_keep(net, LAYER_HEAD2 + head, rows, dy, stride);
    layer_backward(net, LAYER_HEAD2 + head, rows, dy, stride, back->wide + column, wide, false);
    relu_rows_backward(rows, net->layer[LAYER_HEAD1 + head].out, trace->wide + column, wide, back->wide + column, wide);
    layer_keep(net, LAYER_HEAD1 + head, rows, back->wide + column, wide);
}

/* ---- before and after time -------------------------------------------------------------------------------------- */

static struct rows chunk_rows(const struct back_work *work, int item)
{
    int first = item * work->chunks.rows, left = work->all - first;
    return (struct rows){first, left < work->chunks.rows ? left : work->chunks.rows};
}

/* From logits and values to z, and to h through z. */
static void back_heads(void *context, int item, int thread)
{
    const struct back_work *work = context;
    const struct policy_net *net = work->net;
    const struct gradient_trace *back = &net->back;
    struct rows rows = chunk_rows(work, item);
    int hidden = net->shape.hidden, wide = wide_columns(&net->shape);
    (void)thread;
    value_backward(work, rows);
    layer_backward(net, LAYER_VALUE1, rows, back->wide + wide_column(&net->shape, HEAD_COUNT), wide, back->z, hidden,
                   false);
    for (int head = 0; head < HEAD_COUNT; head++) {
        head_backward(work, head, rows);
        layer_backward(net, LAYER_HEAD1 + head, rows, back->wide + wide_column(&net->shape, head), wide, back->z,
                       hidden, true);
    }
    for (int r = rows.first; r < rows.first + rows.count; r++)
        layer_norm_row_backward(hidden, at_row(net->unroll.hat[NORM_LSTM], r, hidden), net->unroll.rstd[NORM_LSTM][r],
                                net->norm[NORM_LSTM].gamma_values, at_row(back->z, r, hidden),
                                at_row(back->h, r, hidden));
}

/* From the gates' sums, and from z bypassing the LSTM, to the inputs. */
static void back_inputs(void *context, int item, int thread)
{
    const struct back_work *work = context;
    const struct policy_net *net = work->net;
    const struct gradient_trace *back = &net->back;
    const struct policy_shape *shape = &net->shape;
    struct rows rows = chunk_rows(work, item);
    int hidden = shape->hidden;
    (void)thread;
    memcpy(at_row(back->x, rows.first, hidden), at_row(back->z, rows.first, hidden),
           sizeof(real) * (size_t)rows.count * (size_t)hidden);
    for (int gate = 0; gate < GATES; gate++) {
        layer_keep(net, LAYER_INPUT + gate, rows, back->gate + gate * hidden, GATES * hidden);
        layer_backward(net, LAYER_INPUT + gate, rows, back->gate + gate * hidden, GATES * hidden, back->x, hidden,
                       true);
    }
    if (back->feature != back->x) {
        layer_keep(net, LAYER_PROJECT, rows, back->x, hidden);
        layer_backward(net, LAYER_PROJECT, rows, back->x, hidden, back->feature, shape->feature, false);
    }
    relu_rows_backward(rows, shape->feature, net->unroll.feature, shape->feature, back->feature, shape->feature);
    norm_rows_backward(net, NORM_FEATURE, rows, back->feature, shape->feature);
    layer_keep(net, LAYER_FEATURE, rows, back->feature, shape->feature);
    /* The only inputs that learn are the embeddings: the panels that hold them are enough. */
    layer_backward_panels(net, LAYER_FEATURE, rows, back->feature, shape->feature, back->in, shape->inputs, false,
                          shape->obs / PANEL, panel_count(shape->inputs));
}

/* ---- backpropagation through time ------------------------------------------------------------------------------- */

/* dh += dgates of the next step times w_hh, but not across the start of an episode: envs in runs between resets. */
static void state_backward(const struct back_work *work, int step, struct rows envs, int first, int last)
{
    const struct policy_net *net = work->net;
    int hidden = net->shape.hidden, all = work->sequence->envs, end = envs.first + envs.count;
    const real *dgate = net->back.gate + (ptrdiff_t)(step + 1) * all * GATES * hidden;
    real *dh = at_row(net->back.h, step * all, hidden);
    for (int env = envs.first; env < end; env++) {
        struct rows run = {env, 0};
        while (env < end && !is_reset(work->sequence, step + 1, env))
            env++;
        run.count = env - run.first;
        for (int gate = 0; run.count > 0 && gate < GATES; gate++)
            layer_backward_panels(net, LAYER_STATE + gate, run, dgate + gate * hidden, GATES * hidden, dh, hidden, true,
                                  first, last);
    }
}

/* One step of some envs, and the units of panels first .. last-1. */
static void step_backward(const struct back_work *work, int step, struct rows envs, int first, int last)
{
    const struct policy_net *net = work->net;
    const struct policy_sequence *sequence = work->sequence;
    int hidden = net->shape.hidden, unit = first * PANEL;
    int units = (last * PANEL < hidden ? last * PANEL : hidden) - unit;
    bool final = step + 1 == sequence->steps;
    if (units <= 0)
        return;
    if (!final)
        state_backward(work, step, envs, first, last);
    for (int env = envs.first; env < envs.first + envs.count; env++) {
        ptrdiff_t row = (ptrdiff_t)step * sequence->envs + env, at = row * hidden + unit;
        ptrdiff_t gates = row * GATES * hidden + unit;
        real *dc = net->back.c + (ptrdiff_t)env * hidden + unit;
        if (final || is_reset(sequence, step + 1, env))
            memset(dc, 0, sizeof(real) * (size_t)units);
        lstm_cell_backward(units, hidden, net->unroll.gate + gates, net->unroll.c_in + at, net->unroll.tanh_c + at,
                           net->back.h + at, dc, net->back.gate + gates);
    }
}

static void back_units(void *context, int item, int thread)
{
    const struct back_work *work = context;
    int panels = panel_count(work->net->shape.hidden);
    (void)thread;
    step_backward(work, work->step, (struct rows){0, work->sequence->envs}, panels * item / work->shares,
                  panels * (item + 1) / work->shares);
}

static void back_envs(void *context, int item, int thread)
{
    const struct back_work *work = context;
    int envs = work->sequence->envs, first = envs * item / work->shares, last = envs * (item + 1) / work->shares;
    (void)thread;
    for (int step = work->sequence->steps - 1; step >= 0; step--)
        step_backward(work, step, (struct rows){first, last - first}, 0, panel_count(work->net->shape.hidden));
}

/* ---- weights ---------------------------------------------------------------------------------------------------- */

/* One panel of a layer's weight gradients. Rows are processed in blocks, packing the input's panel for each. */
static void weight_panel(const struct back_work *work, const struct layer *layer, int panel)
{
    _Alignas(64) real x[PANEL_DEPTH * PANEL];
    int column = panel * PANEL, columns = layer->in - column < PANEL ? layer->in - column : PANEL;
    real *grad = work->grad + layer->weight + column;
    for (int row = 0; row < work->all; row += PANEL_DEPTH) {
        int rows = work->all - row < PANEL_DEPTH ? work->all - row : PANEL_DEPTH;
        linear_pack(rows, columns, layer->x + row * layer->x_stride + column, layer->x_stride, 1, 0, 1, x);
        const struct product product = {.rows = layer->out,
                                        .k = rows,
                                        .columns = columns,
                                        .a = layer->dy + row,
                                        .a_stride = work->net->rows_stride,
                                        .b = x,
                                        .start = row > 0 ? grad : NULL,
                                        .start_stride = layer->in,
                                        .c = grad,
                                        .c_stride = layer->in};
        linear_product(&product, 0, 1);
    }
}

static void bias_gradient(const struct back_work *work, const struct layer *layer)
{
    enum { STREAMS = 8 };
    for (int o = 0; o < layer->out; o++) {
        const real *dy = layer->dy + o * work->net->rows_stride;
        double part[STREAMS] = {0}, total = 0;
        int r = 0;
        for (; r + STREAMS <= work->all; r += STREAMS)
            for (int k = 0; k < STREAMS; k++)
                part[k] += (double)dy[r + k];
        for (; r < work->all; r++)
            total += (double)dy[r];
        for (int k = 0; k < STREAMS; k++)
            total += part[k];
        work->grad[layer->bias + (size_t)o] = (real)total;
    }
}

static void norm_gradient(const struct back_work *work, enum norm_index index)
{
    enum { COLUMNS = 64 };
    const struct layer_norm *norm = &work->net->norm[index];
    for (int column = 0; column < norm->width; column += COLUMNS) {
        int columns = norm->width - column < COLUMNS ? norm->width - column : COLUMNS;
        double gamma[COLUMNS] = {0}, beta[COLUMNS] = {0};
        for (int r = 0; r < work->all; r++) {
            const real *dy = at_row(work->net->back.affine[index], r, norm->width) + column;
            const real *hat = at_row(work->net->unroll.hat[index], r, norm->width) + column;
            for (int j = 0; j < columns; j++) {
                gamma[j] += (double)dy[j] * (double)hat[j];
                beta[j] += (double)dy[j];
            }
        }
        for (int j = 0; j < columns; j++) {
            work->grad[norm->gamma + (size_t)(column + j)] = (real)gamma[j];
            work->grad[norm->beta + (size_t)(column + j)] = (real)beta[j];
        }
    }
}

static void embed_gradient(const struct back_work *work)
{
    const struct policy_shape *shape = &work->net->shape;
    double sum[POLICY_EMBED_ROWS][POLICY_EMBED] = {{0}};
    for (int r = 0; r < work->all; r++) {
        const real *d = at_row(work->net->back.in, r, shape->inputs) + shape->obs;
        for (int s = 0; s < shape->slots; s++, d += POLICY_EMBED) {
            int row = policy_embed_row(work->sequence->bp[r * shape->slots + s]);
            for (int k = 0; k < POLICY_EMBED; k++)
                sum[row][k] += (double)d[k];
        }
    }
    for (int i = 0; i < POLICY_EMBED_ROWS * POLICY_EMBED; i++)
        work->grad[shape->tensor[0].offset + (size_t)i] = (real)sum[i / POLICY_EMBED][i % POLICY_EMBED];
}

/* The vectors first, then the matrices panel by panel. */
static void back_weights(void *context, int item, int thread)
{
    const struct back_work *work = context;
    const struct policy_net *net = work->net;
    (void)thread;
    if (item == 0)
        embed_gradient(work);
    else if (item <= NORM_COUNT)
        norm_gradient(work, (enum norm_index)(item - 1));
    else if (item <= NORM_COUNT + LAYER_COUNT)
        bias_gradient(work, &net->layer[item - NORM_COUNT - 1]);
    else {
        const struct weight_item *panel = &net->items[item - NORM_COUNT - LAYER_COUNT - 1];
        weight_panel(work, &net->layer[panel->layer], panel->panel);
    }
}

void policy_net_backward(struct policy_net *net, const struct policy_sequence *sequence, const real *dlogits,
                         const real *dvalue, real *grad)
{
    int all = sequence->steps * sequence->envs, envs = sequence->envs, hidden = net->shape.hidden;
    struct back_work work = {.net = net,
                             .sequence = sequence,
                             .dlogits = dlogits,
                             .dvalue = dvalue,
                             .grad = grad,
                             .chunks = policy_chunks(net, all),
                             .all = all};
    pool_run(net->pool, back_heads, &work, work.chunks.count);
    if (policy_by_envs(net)) {
        work.shares = envs < pool_threads(net->pool) ? envs : pool_threads(net->pool);
        pool_run(net->pool, back_envs, &work, work.shares);
    } else {
        work.shares = policy_shares(net, (double)envs * hidden * GATES * hidden);
        for (work.step = sequence->steps - 1; work.step >= 0; work.step--)
            pool_run(net->pool, back_units, &work, work.shares);
    }
    pool_run(net->pool, back_inputs, &work, work.chunks.count);
    memset(grad, 0, sizeof(real) * net->shape.storage); /* including the gaps between tensors */
    pool_run(net->pool, back_weights, &work, 1 + NORM_COUNT + LAYER_COUNT + net->item_count);
}
