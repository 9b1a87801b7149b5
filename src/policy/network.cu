/* The policy network on the device: the order of the kernels. */
#include "policy/network.cuh"

#include "policy/network_rows.cuh"
#include "policy/product.cuh"
#include "policy/recurrence.cuh"

template <bool EXACT> static void kernels_allow(struct network_device *net)
{
    runtime_allow_shared(net->rt, product_kernel<tiling_wide, BY_K, BY_K, EXACT>,
                         product_tiles<tiling_wide, BY_K, BY_K>::BYTES);
    runtime_allow_shared(net->rt, product_kernel<tiling_wide, BY_K, BY_ROW, EXACT>,
                         product_tiles<tiling_wide, BY_K, BY_ROW>::BYTES);
    runtime_allow_shared(net->rt, product_kernel<tiling_wide, BY_ROW, BY_ROW, EXACT>,
                         product_tiles<tiling_wide, BY_ROW, BY_ROW>::BYTES);
    runtime_allow_shared(net->rt, product_kernel<tiling_flat, BY_K, BY_K, EXACT>,
                         product_tiles<tiling_flat, BY_K, BY_K>::BYTES);
    runtime_allow_shared(net->rt, recurrence_forward<EXACT>, forward_shared(EXACT));
    runtime_allow_shared(net->rt, recurrence_back<EXACT>, back_shared(EXACT));
}

void network_kernels_allow(struct network_device *net)
{
    if (net->at.exact)
        kernels_allow<true>(net);
    else
        kernels_allow<false>(net);
}

static struct launch launch_of(int blocks, int threads, size_t shared)
{
    struct launch launch = {};
    launch.grid = dim3((unsigned)blocks);
    launch.block = dim3((unsigned)threads);
    launch.shared = shared;
    launch.overlap = true;
    return launch;
}

template <class T, enum operand A, enum operand B>
static void products_run(struct network_device *net, const struct product_list *list, const uint32_t *stop)
{
    const struct launch launch = launch_of(list->tiles, T::THREADS, product_tiles<T, A, B>::BYTES);
    if (list->host.empty())
        return;
    if (net->at.exact)
        runtime_launch(net->rt, product_kernel<T, A, B, true>, launch, list->device, (int)list->host.size(), stop);
    else
        runtime_launch(net->rt, product_kernel<T, A, B, false>, launch, list->device, (int)list->host.size(), stop);
}

static struct launch row_launch(int rows)
{
    return launch_of((rows + ROW_WARPS - 1) / ROW_WARPS, 32 * ROW_WARPS, 0);
}

static void inputs_run(struct network_device *net, const struct trace *t, int rows, const uint32_t *step,
                       const uint32_t *stop)
{
    const struct input_rows p = {rows,
                                 net->shape.obs,
                                 net->shape.slots,
                                 net->in_stride,
                                 step,
                                 (size_t)net->at.envs,
                                 (size_t)net->at.acting.first,
                                 net->at.state,
                                 net->at.w + net->shape.tensor[0].offset,
                                 net->at.bp,
                                 t->in};
    runtime_launch(net->rt, input_kernel, row_launch(rows), p, stop);
}

static void norm_run(struct network_device *net, int norm, const struct trace *t, int rows, const float *x,
                     int x_stride, const float *add, float *y, int y_stride, const uint32_t *stop)
{
    const struct norm_rows p = {rows,
                                norm_width(net, norm),
                                x,
                                x_stride,
                                t->hat[norm],
                                t->rstd[norm],
                                net->at.w + offset_of(net, norm_name(norm), "gamma"),
                                net->at.w + offset_of(net, norm_name(norm), "beta"),
                                add,
                                y,
                                y_stride,
                                !add};
    runtime_launch(net->rt, norm_forward, row_launch(rows), p, stop);
}

/* From the inputs to x. */
template <class T>
static void before_recurrence(struct network_device *net, const struct trace *t, int rows, const uint32_t *step,
                              const struct forward_lists *lists, const uint32_t *stop)
{
    const int feature = net->shape.feature;
    inputs_run(net, t, rows, step, stop);
    products_run<T, BY_K, BY_K>(net, &lists->feature, stop);
    norm_run(net, NORM_FEATURE, t, rows, t->feature, feature, nullptr, t->feature, feature, stop);
    products_run<T, BY_K, BY_K>(net, &lists->project, stop);
    products_run<T, BY_K, BY_K>(net, &lists->gates, stop);
}

/* From h, which is stored where its norm goes, to logits and values. */
template <class T>
static void after_recurrence(struct network_device *net, const struct trace *t, int rows,
                             const struct forward_lists *lists, const uint32_t *stop)
{
    const int hidden = net->shape.hidden, wide = wide_columns(net);
    float *value1 = t->wide + wide_column(net, HEAD_COUNT);
    norm_run(net, NORM_LSTM, t, rows, t->hat[NORM_LSTM], hidden, t->x, t->z, hidden, stop);
    products_run<T, BY_K, BY_K>(net, &lists->wide, stop);
    norm_run(net, NORM_VALUE1, t, rows, value1, wide, nullptr, value1, wide, stop);
    products_run<T, BY_K, BY_K>(net, &lists->second, stop);
    norm_run(net, NORM_VALUE2, t, rows, t->value2, hidden / 4, nullptr, t->value2, hidden / 4, stop);
    products_run<T, BY_K, BY_K>(net, &lists->third, stop);
    products_run<T, BY_K, BY_K>(net, &lists->fourth, stop);
}

void network_device_act(struct network_device *net)
{
    const int envs = net->at.acting.count, units = envs * net->shape.hidden;
    before_recurrence<tiling_flat>(net, &net->act, envs, net->at.step, &net->act_lists, nullptr);
    runtime_launch(net->rt, cell_kernel, launch_of((units + 127) / 128, 128, 0), units, net->shape.hidden,
                   net->act.gate, net->at.hidden, net->at.cell, net->act.hat[NORM_LSTM]);
    after_recurrence<tiling_flat>(net, &net->act, envs, &net->act_lists, nullptr);
}

static void recurrence_run(struct network_device *net, bool back)
{
    struct recurrence r = net->recurrence;
    struct launch launch = launch_of(r.groups * r.blocks, RECURRENT_THREADS,
                                     back ? back_shared(net->at.exact) : forward_shared(net->at.exact));
    launch.overlap = false;
    r.off = back ? net->at.skip : net->at.stop;
    runtime_launch(net->rt, clear_arrivals, launch_of(1, 1024, 0), r.arrived, r.groups);
    if (back)
        runtime_launch_together(net->rt, net->at.exact ? recurrence_back<true> : recurrence_back<false>, launch, r);
    else
        runtime_launch_together(net->rt, net->at.exact ? recurrence_forward<true> : recurrence_forward<false>, launch,
                                r);
}

void network_device_unroll(struct network_device *net)
{
    before_recurrence<tiling_wide>(net, &net->unroll, net->rows, nullptr, &net->unroll_lists, net->at.stop);
    recurrence_run(net, false);
    after_recurrence<tiling_wide>(net, &net->unroll, net->rows, &net->unroll_lists, net->at.stop);
}

static void norm_back_run(struct network_device *net, int norm, const float *dy, int dy_stride, float *dx,
                          int dx_stride)
{
    const struct norm_rows_back p = {net->rows,
                                     norm_width(net, norm),
                                     net->unroll.hat[norm],
                                     net->unroll.rstd[norm],
                                     net->at.w + offset_of(net, norm_name(norm), "gamma"),
                                     dy,
                                     net->back.kept[norm] == dy ? nullptr : net->back.kept[norm],
                                     dx,
                                     dy_stride,
                                     dx_stride};
    runtime_launch(net->rt, norm_back, row_launch(net->rows), p, net->at.skip);
}

static void gradients_run(struct network_device *net)
{
    const uint32_t *skip = net->at.skip;
    const int count = (int)net->sums.size();
    products_run<tiling_wide, BY_ROW, BY_ROW>(net, &net->weights, skip);
    struct launch sums = launch_of(net->sum_tiles, SUM_COLUMNS * SUM_LANES, SUM_COLUMNS * SUM_LANES * sizeof(double));
    sums.grid = dim3((unsigned)net->sum_tiles, SUM_CHUNKS);
    runtime_launch(net->rt, column_sums, sums, net->sums_device, count, net->rows, net->sum_partial, skip);
    runtime_launch(net->rt, embed_sums, launch_of(SUM_CHUNKS, POLICY_EMBED_ROWS * POLICY_EMBED, 0), net->rows,
                   net->shape.slots, net->back.embed, net->at.bp, net->embed_partial, skip);
    runtime_launch(net->rt, vector_gradients, launch_of(net->sum_tiles + 1, SUM_COLUMNS, 0), net->sums_device, count,
                   net->sum_partial, net->embed_partial, net->shape.tensor[0].offset, net->at.grad, skip);
}

void network_device_backward(struct network_device *net)
{
    const struct back *b = &net->back;
    const uint32_t *skip = net->at.skip;
    const int hidden = net->shape.hidden, wide = wide_columns(net), feature = net->shape.feature;
    float *value1 = b->wide + wide_column(net, HEAD_COUNT);
    products_run<tiling_wide, BY_K, BY_ROW>(net, &net->back_first, skip);
    products_run<tiling_wide, BY_K, BY_ROW>(net, &net->back_second, skip);
    norm_back_run(net, NORM_VALUE2, b->value2, hidden / 4, b->value2, hidden / 4);
    products_run<tiling_wide, BY_K, BY_ROW>(net, &net->back_value, skip);
    norm_back_run(net, NORM_VALUE1, value1, wide, value1, wide);
    products_run<tiling_wide, BY_K, BY_ROW>(net, &net->back_wide, skip);
    norm_back_run(net, NORM_LSTM, b->z, hidden, b->h, hidden);
    recurrence_run(net, true);
    products_run<tiling_wide, BY_K, BY_ROW>(net, &net->back_gates, skip);
    products_run<tiling_wide, BY_K, BY_ROW>(net, &net->back_project, skip);
    norm_back_run(net, NORM_FEATURE, b->feature, feature, b->feature, feature);
    products_run<tiling_wide, BY_K, BY_ROW>(net, &net->back_embed, skip);
    gradients_run(net);
}
