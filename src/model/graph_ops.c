#include "model/graph_ops.h"

#include <math.h>
#include <string.h>

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

static const char *set_shape(struct graph_tensor *out, int dims, const int64_t *shape)
{
    int64_t size = 1;
    out->dims = dims;
    for (int d = 0; d < dims; d++) {
        if (shape[d] < 1 || shape[d] > GRAPH_TENSOR_MAX / size)
            return "its result is too large, or empty";
        size *= shape[d];
        out->shape[d] = shape[d];
    }
    return NULL;
}

/* The extent that dimension d has when shapes are aligned at their ends and padded with ones to four. */
static int64_t extent(const struct graph_tensor *tensor, int d)
{
    int own = d - (GRAPH_DIMS - tensor->dims);
    return own < 0 ? 1 : tensor->shape[own];
}

static const char *plan_binary(const struct graph_tensor *const *in, struct graph_tensor *out)
{
    int64_t shape[GRAPH_DIMS];
    int dims = in[0]->dims > in[1]->dims ? in[0]->dims : in[1]->dims;
    for (int d = 0; d < GRAPH_DIMS; d++) {
        int64_t a = extent(in[0], d), b = extent(in[1], d);
        if (a != b && a != 1 && b != 1)
            return "its inputs have shapes that do not go together";
        shape[d] = a > b ? a : b;
    }
    return set_shape(out, dims, shape + GRAPH_DIMS - dims);
}

/* Extents of a window that moves over [H][W]; NULL and the output's extents when they are valid. */
static const char *plan_window(const struct graph_node *node, const int64_t kernel[2], const struct graph_tensor *x,
                               int64_t out[2])
{
    for (int i = 0; i < 2; i++) {
        int64_t before = node->pads[i], after = node->pads[i + 2], stride = node->strides[i];
        if (kernel[i] < 1 || kernel[i] > 16 || stride < 1 || stride > 16 || before < 0 || before >= kernel[i] ||
            after < 0 || after >= kernel[i])
            return "its kernel, strides or pads are out of range";
        int64_t room = x->shape[i + 2] + before + after - kernel[i];
        if (room < 0)
            return "its kernel is larger than its input";
        out[i] = room / stride + 1;
    }
    return NULL;
}

static const char *plan_conv(const struct graph_node *node, const struct graph_tensor *const *in,
                             struct graph_tensor *out, double *work)
{
    const struct graph_tensor *x = in[0], *w = in[1], *bias = node->input_count > 2 ? in[2] : NULL;
    int64_t shape[4], group = node->group;
    if (x->dims != 4 || w->dims != 4 || group < 1 || w->shape[0] % group != 0)
        return "its inputs are no images, no kernels, or in no groups";
    if (x->shape[1] % group != 0 || x->shape[1] / group != w->shape[1])
        return "its kernels are made for another number of channels";
    if ((node->given & GRAPH_KERNEL) && (node->kernel[0] != w->shape[2] || node->kernel[1] != w->shape[3]))
        return "its kernel_shape is not that of its kernels";
    if (bias && (bias->dims != 1 || bias->shape[0] != w->shape[0]))
        return "its bias is not one number per channel";
    const char *problem = plan_window(node, w->shape + 2, x, shape + 2);
    if (problem)
        return problem;
    shape[0] = x->shape[0];
    shape[1] = w->shape[0];
    problem = set_shape(out, 4, shape);
    if (!problem)
        *work += (double)graph_tensor_size(out) * (double)(w->shape[1] * w->shape[2] * w->shape[3]);
    return problem;
}

static const char *plan_norm(const struct graph_node *node, const struct graph_tensor *const *in,
                             struct graph_tensor *out)
{
    const struct graph_tensor *x = in[0];
    if (x->dims < 3)
        return "its input has no channels with something in them";
    for (int i = 1; i < node->input_count; i++)
        if (in[i]->dims != 1 || in[i]->shape[0] != x->shape[1])
            return "a coefficient is not one number per channel";
    if (!(node->epsilon >= 0 && node->epsilon < 1))
        return "its epsilon is out of range";
    return set_shape(out, x->dims, x->shape);
}

/* 0 keeps an extent, one -1 takes what is left (ONNX, allowzero = 0). */
static const char *plan_reshape(const struct graph_tensor *const *in, struct graph_tensor *out)
{
    int64_t shape[GRAPH_DIMS], size = (int64_t)graph_tensor_size(in[0]), known = 1;
    int dims = (int)in[1]->shape[0], open = -1;
    for (int d = 0; d < dims; d++) {
        shape[d] = in[1]->integers[d];
        if (d < in[0]->dims && shape[d] == 0)
            shape[d] = in[0]->shape[d];
        if (shape[d] == -1 && open < 0) {
            open = d;
            continue;
        }
        if (shape[d] < 1 || shape[d] > size / known)
            return "its shape does not hold as many numbers as its input";
        known *= shape[d];
    }
    if (open >= 0)
        shape[open] = size / known;
    if (size % known != 0 || (open < 0 && known != size))
        return "its shape does not hold as many numbers as its input";
    return set_shape(out, dims, shape);
}

static const char *plan_gemm(const struct graph_node *node, const struct graph_tensor *const *in,
                             struct graph_tensor *out, double *work)
{
    if (node->trans_b != 1)
        return "only transB = 1 is known";
    if (in[0]->dims != 2 || in[1]->dims != 2 || in[0]->shape[1] != in[1]->shape[1])
        return "its matrices do not go together";
    if (in[2]->dims != 1 || in[2]->shape[0] != in[1]->shape[0])
        return "its bias is not one number per output";
    *work += (double)graph_tensor_size(in[0]) * (double)in[1]->shape[0];
    return set_shape(out, 2, (const int64_t[]){in[0]->shape[0], in[1]->shape[0]});
}

static const char *plan_pool(const struct graph_node *node, const struct graph_tensor *x, struct graph_tensor *out)
{
    int64_t shape[4];
    if (x->dims != 4 || !(node->given & GRAPH_KERNEL))
        return "its input is no images, or it has no kernel_shape";
    const char *problem = plan_window(node, node->kernel, x, shape + 2);
    shape[0] = x->shape[0];
    shape[1] = x->shape[1];
    return problem ? problem : set_shape(out, 4, shape);
}

static const char *plan_flatten(const struct graph_node *node, const struct graph_tensor *x, struct graph_tensor *out)
{
    if (node->axis != 1 || x->dims < 2)
        return "only axis = 1 is known";
    return set_shape(out, 2, (const int64_t[]){x->shape[0], (int64_t)graph_tensor_size(x) / x->shape[0]});
}

/* [..][m][k] times [k][n], or times [..][k][n]. */
static const char *plan_matmul(const struct graph_tensor *const *in, struct graph_tensor *out, double *work)
{
    const struct graph_tensor *a = in[0], *b = in[1];
    int64_t shape[GRAPH_DIMS];
    if (a->dims < 2 || b->dims < 2 || (b->dims > 2 && b->dims != a->dims) ||
        a->shape[a->dims - 1] != b->shape[b->dims - 2])
        return "its matrices do not go together";
    for (int d = 0; d + 1 < a->dims; d++) {
        if (d + 2 < b->dims && a->shape[d] != b->shape[d])
            return "its matrices do not go together";
        shape[d] = a->shape[d];
    }
    shape[a->dims - 1] = b->shape[b->dims - 1];
    const char *problem = set_shape(out, a->dims, shape);
    if (!problem)
        *work += (double)graph_tensor_size(out) * (double)a->shape[a->dims - 1];
    return problem;
}

static const char *plan_transpose(const struct graph_node *node, const struct graph_tensor *x, struct graph_tensor *out)
{
    int64_t shape[GRAPH_DIMS];
    unsigned seen = 0;
    if (!(node->given & GRAPH_PERM) || node->perm_count != x->dims)
        return "its perm does not name the dimensions of its input";
    for (int d = 0; d < x->dims; d++) {
        if (node->perm[d] < 0 || node->perm[d] >= x->dims || (seen & 1u << node->perm[d]))
            return "its perm does not name the dimensions of its input";
        seen |= 1u << node->perm[d];
        shape[d] = x->shape[node->perm[d]];
    }
    return set_shape(out, x->dims, shape);
}

/* Softmax and LayerNormalization: along the last dimension alone. */
static const char *plan_rows(const struct graph_node *node, const struct graph_tensor *const *in,
                             struct graph_tensor *out)
{
    const struct graph_tensor *x = in[0];
    if (x->dims < 1 || ((node->given & GRAPH_AXIS) && node->axis != -1))
        return "only axis = -1 is known";
    for (int i = 1; i < node->input_count; i++)
        if (in[i]->dims != 1 || in[i]->shape[0] != x->shape[x->dims - 1])
            return "a coefficient is not one number per feature";
    if (!(node->epsilon >= 0 && node->epsilon < 1))
        return "its epsilon is out of range";
    return set_shape(out, x->dims, x->shape);
}

/* Rows of a table by the input's bytes: every byte must have one. */
static const char *plan_gather(const struct graph_tensor *const *in, struct graph_tensor *out)
{
    if (in[0]->dims != 2 || in[0]->shape[0] != UINT8_MAX + 1)
        return "it is not a table of one row per byte, read by the input";
    return set_shape(out, 3, (const int64_t[]){in[1]->shape[0], in[1]->shape[1], in[0]->shape[1]});
}

/* What input i of a node must be. */
static bool right_type(const struct graph_node *node, int i, const struct graph_tensor *in)
{
    if (node->op == GRAPH_GATHER && i == 1)
        return in->tokens;
    return !in->tokens && (in->integers != NULL) == (node->op == GRAPH_RESHAPE && i == 1);
}

const char *graph_op_plan(const struct graph_node *node, const struct graph_tensor *const *in, struct graph_tensor *out,
                          double *work)
{
    for (int i = 0; i < node->input_count; i++)
        if (!right_type(node, i, in[i]))
            return "an input is of another type";
    switch (node->op) {
    case GRAPH_ADD:
    case GRAPH_SUB:
    case GRAPH_MUL:
    case GRAPH_DIV:
        return plan_binary(in, out);
    case GRAPH_RELU:
    case GRAPH_SIGMOID:
    case GRAPH_TANH:
    case GRAPH_ERF:
        return set_shape(out, in[0]->dims, in[0]->shape);
    case GRAPH_CONV:
        return plan_conv(node, in, out, work);
    case GRAPH_BATCH_NORM:
    case GRAPH_INSTANCE_NORM:
        return plan_norm(node, in, out);
    case GRAPH_MAX_POOL:
        return plan_pool(node, in[0], out);
    case GRAPH_MEAN:
        if (in[0]->dims != 4)
            return "its input is no images";
        return set_shape(out, 4, (const int64_t[]){in[0]->shape[0], in[0]->shape[1], 1, 1});
    case GRAPH_RESHAPE:
        return plan_reshape(in, out);
    case GRAPH_FLATTEN:
        return plan_flatten(node, in[0], out);
    case GRAPH_GEMM:
        return plan_gemm(node, in, out, work);
    case GRAPH_MATMUL:
        return plan_matmul(in, out, work);
    case GRAPH_TRANSPOSE:
        return plan_transpose(node, in[0], out);
    case GRAPH_SOFTMAX:
    case GRAPH_LAYER_NORM:
        return plan_rows(node, in, out);
    case GRAPH_GATHER:
        return plan_gather(in, out);
    case GRAPH_OP_COUNT:
        break;
    }
    return "no such operator";
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

static float combine(enum graph_op op, float a, float b)
{
    return op == GRAPH_ADD ? a + b : op == GRAPH_SUB ? a - b : op == GRAPH_MUL ? a * b : a / b;
}

/* Steps through a tensor while the result's extents are walked: 0 where it is broadcast. */
static void broadcast_steps(const struct graph_tensor *tensor, int64_t steps[GRAPH_DIMS])
{
    int64_t step = 1;
    for (int d = GRAPH_DIMS - 1; d >= 0; d--) {
        steps[d] = extent(tensor, d) == 1 ? 0 : step;
        step *= extent(tensor, d);
    }
}

static void run_binary(enum graph_op op, const struct graph_tensor *const *in, struct graph_tensor *out)
{
    int64_t a[GRAPH_DIMS], b[GRAPH_DIMS];
    float *result = out->data;
    broadcast_steps(in[0], a);
    broadcast_steps(in[1], b);
    for (int64_t i = 0; i < extent(out, 0); i++)
        for (int64_t j = 0; j < extent(out, 1); j++)
            for (int64_t k = 0; k < extent(out, 2); k++) {
                const float *x = in[0]->data + i * a[0] + j * a[1] + k * a[2];
                const float *y = in[1]->data + i * b[0] + j * b[1] + k * b[2];
                for (int64_t l = 0; l < extent(out, 3); l++)
                    *result++ = combine(op, x[l * a[3]], y[l * b[3]]);
            }
}

static float unary_of(enum graph_op op, float x)
{
    switch (op) {
    case GRAPH_RELU:
        return x <= 0 ? 0 : x;
    case GRAPH_TANH:
        return tanhf(x);
    case GRAPH_ERF:
        return erff(x);
    default:
        return 1 / (1 + expf(-x));
    }
}

static void run_unary(enum graph_op op, const struct graph_tensor *in, struct graph_tensor *out)
{
    size_t size = graph_tensor_size(out);
    for (size_t i = 0; i < size; i++)
        out->data[i] = unary_of(op, in->data[i]);
}

/* One image and output channel: a tap of the kernel at a time, over all rows at once. */
static void conv_map(const struct graph_node *node, const struct graph_tensor *x, const struct graph_tensor *w,
                     const float *from, const float *kernel, struct graph_tensor *out, float *to)
{
    int64_t height = x->shape[2], width = x->shape[3], rows = out->shape[2], columns = out->shape[3];
    for (int64_t i = 0; i < w->shape[1]; i++)
        for (int64_t t = 0; t < w->shape[2] * w->shape[3]; t++) {
            int64_t dy = t / w->shape[3] - node->pads[0], dx = t % w->shape[3] - node->pads[1];
            float tap = kernel[i * w->shape[2] * w->shape[3] + t];
            for (int64_t r = 0; r < rows; r++) {
                int64_t y = r * node->strides[0] + dy;
                const float *row = from + (i * height + y) * width;
                for (int64_t c = 0; y >= 0 && y < height && c < columns; c++) {
                    int64_t at = c * node->strides[1] + dx;
                    if (at >= 0 && at < width)
                        to[r * columns + c] += tap * row[at];
                }
            }
        }
}

static void run_conv(const struct graph_node *node, const struct graph_tensor *const *in, struct graph_tensor *out)
{
    const struct graph_tensor *x = in[0], *w = in[1];
    int64_t outputs = w->shape[0], per_group = outputs / node->group, map = out->shape[2] * out->shape[3];
    int64_t taps = w->shape[1] * w->shape[2] * w->shape[3];
    for (int64_t n = 0; n < x->shape[0]; n++)
        for (int64_t o = 0; o < outputs; o++) {
            float *to = out->data + (n * outputs + o) * map;
            int64_t first = n * x->shape[1] + o / per_group * w->shape[1]; /* channel of the group's first input */
            for (int64_t i = 0; i < map; i++)
                to[i] = node->input_count > 2 ? in[2]->data[o] : 0;
            conv_map(node, x, w, x->data + first * x->shape[2] * x->shape[3], w->data + o * taps, out, to);
        }
}

static void run_batch_norm(const struct graph_node *node, const struct graph_tensor *const *in,
                           struct graph_tensor *out)
{
    int64_t channels = out->shape[1], maps = out->shape[0] * channels;
    int64_t size = (int64_t)graph_tensor_size(out) / maps;
    for (int64_t m = 0; m < maps; m++) {
        int64_t c = m % channels;
        double scale = (double)in[1]->data[c] / sqrt((double)in[4]->data[c] + (double)node->epsilon);
        double shift = (double)in[2]->data[c] - (double)in[3]->data[c] * scale;
        for (int64_t i = m * size; i < (m + 1) * size; i++)
            out->data[i] = (float)((double)in[0]->data[i] * scale + shift);
    }
}

struct moments {
    double mean, variance;
};

static struct moments moments_of(const float *x, int64_t count)
{
    struct moments m = {0, 0};
    for (int64_t i = 0; i < count; i++)
        m.mean += (double)x[i];
    m.mean /= (double)count;
    for (int64_t i = 0; i < count; i++)
        m.variance += ((double)x[i] - m.mean) * ((double)x[i] - m.mean);
    m.variance /= (double)count;
    return m;
}

static void run_instance_norm(const struct graph_node *node, const struct graph_tensor *const *in,
                              struct graph_tensor *out)
{
    int64_t channels = out->shape[1], maps = out->shape[0] * channels;
    int64_t size = (int64_t)graph_tensor_size(out) / maps;
    for (int64_t m = 0; m < maps; m++) {
        const float *x = in[0]->data + m * size;
        const struct moments of = moments_of(x, size);
        double scale = (double)in[1]->data[m % channels] / sqrt(of.variance + (double)node->epsilon);
        for (int64_t i = 0; i < size; i++)
            out->data[m * size + i] = (float)(((double)x[i] - of.mean) * scale + (double)in[2]->data[m % channels]);
    }
}

static void run_pool(const struct graph_node *node, const struct graph_tensor *x, struct graph_tensor *out)
{
    int64_t height = x->shape[2], width = x->shape[3], rows = out->shape[2], columns = out->shape[3];
    for (int64_t m = 0; m < out->shape[0] * out->shape[1]; m++)
        for (int64_t i = 0; i < rows * columns; i++) {
            int64_t top = i / columns * node->strides[0] - node->pads[0];
            int64_t left = i % columns * node->strides[1] - node->pads[1];
            float best = -INFINITY;
            for (int64_t t = 0; t < node->kernel[0] * node->kernel[1]; t++) {
                int64_t y = top + t / node->kernel[1], c = left + t % node->kernel[1];
                if (y >= 0 && y < height && c >= 0 && c < width && !(x->data[(m * height + y) * width + c] <= best))
                    best = x->data[(m * height + y) * width + c];
            }
            out->data[m * rows * columns + i] = best;
        }
}

static void run_mean(const struct graph_tensor *x, struct graph_tensor *out)
{
    int64_t size = x->shape[2] * x->shape[3];
    for (int64_t m = 0; m < out->shape[0] * out->shape[1]; m++) {
        double sum = 0;
        for (int64_t i = 0; i < size; i++)
            sum += (double)x->data[m * size + i];
        out->data[m] = (float)(sum / (double)size);
    }
}

static void run_gemm(const struct graph_tensor *const *in, struct graph_tensor *out)
{
    int64_t inputs = in[0]->shape[1], outputs = out->shape[1];
    for (int64_t n = 0; n < out->shape[0]; n++)
        for (int64_t o = 0; o < outputs; o++) {
            double sum = (double)in[2]->data[o];
            for (int64_t i = 0; i < inputs; i++)
                sum += (double)in[0]->data[n * inputs + i] * (double)in[1]->data[o * inputs + i];
            out->data[n * outputs + o] = (float)sum;
        }
}

/* A row of [m][k] times [k][n], some columns at a time, summed in double. */
static void multiply_row(const float *a, const float *b, int64_t k, int64_t n, float *out)
{
    enum { COLUMNS = 64 };
    for (int64_t first = 0; first < n; first += COLUMNS) {
        double sum[COLUMNS] = {0};
        const int64_t columns = n - first < COLUMNS ? n - first : COLUMNS;
        for (int64_t i = 0; i < k; i++)
            for (int64_t c = 0; c < columns; c++)
                sum[c] += (double)a[i] * (double)b[i * n + first + c];
        for (int64_t c = 0; c < columns; c++)
            out[first + c] = (float)sum[c];
    }
}

static void run_matmul(const struct graph_tensor *const *in, struct graph_tensor *out)
{
    const struct graph_tensor *a = in[0], *b = in[1];
    const int64_t rows = (int64_t)graph_tensor_size(a) / a->shape[a->dims - 1], m = a->shape[a->dims - 2];
    const int64_t k = a->shape[a->dims - 1], n = out->shape[out->dims - 1];
    for (int64_t r = 0; r < rows; r++)
        multiply_row(a->data + r * k, b->data + (b->dims > 2 ? r / m * k * n : 0), k, n, out->data + r * n);
}

static void run_transpose(const struct graph_node *node, const struct graph_tensor *x, struct graph_tensor *out)
{
    const int64_t size = (int64_t)graph_tensor_size(out);
    int64_t step[GRAPH_DIMS] = {0}, own = 1, at[GRAPH_DIMS] = {0}, from = 0;
    for (int d = x->dims - 1; d >= 0; d--) {
        for (int o = 0; o < x->dims; o++)
            if (node->perm[o] == d)
                step[o] = own;
        own *= x->shape[d];
    }
    for (int64_t i = 0; i < size; i++) {
        out->data[i] = x->data[from];
        for (int d = out->dims - 1; d >= 0; d--) { /* the next place: count up, and carry */
            from += step[d];
            if (++at[d] < out->shape[d])
                break;
            from -= step[d] * at[d];
            at[d] = 0;
        }
    }
}

static void run_softmax(const struct graph_tensor *x, struct graph_tensor *out)
{
    const int64_t columns = x->shape[x->dims - 1], size = (int64_t)graph_tensor_size(x);
    for (int64_t first = 0; first < size; first += columns) {
        const float *from = x->data + first;
        float largest = from[0], *to = out->data + first;
        double sum = 0;
        for (int64_t i = 1; i < columns; i++)
            largest = from[i] > largest ? from[i] : largest;
        for (int64_t i = 0; i < columns; i++)
            sum += (double)(to[i] = expf(from[i] - largest));
        for (int64_t i = 0; i < columns; i++)
            to[i] = (float)((double)to[i] / sum);
    }
}

static void run_layer_norm(const struct graph_node *node, const struct graph_tensor *const *in,
                           struct graph_tensor *out)
{
    const int64_t columns = out->shape[out->dims - 1], size = (int64_t)graph_tensor_size(out);
    for (int64_t first = 0; first < size; first += columns) {
        const struct moments m = moments_of(in[0]->data + first, columns);
        const double scale = 1 / sqrt(m.variance + (double)node->epsilon);
        for (int64_t i = 0; i < columns; i++)
            out->data[first + i] = (float)(((double)in[0]->data[first + i] - m.mean) * scale * (double)in[1]->data[i] +
                                           (double)in[2]->data[i]);
    }
}

static void run_gather(const struct graph_tensor *const *in, struct graph_tensor *out)
{
    const int64_t width = in[0]->shape[1], rows = (int64_t)graph_tensor_size(in[1]);
    for (int64_t r = 0; r < rows; r++)
        memcpy(out->data + r * width, in[0]->data + in[1]->integers[r] * width, sizeof(float) * (size_t)width);
}

void graph_op_run(const struct graph_node *node, const struct graph_tensor *const *in, struct graph_tensor *out)
{
    switch (node->op) {
    case GRAPH_ADD:
    case GRAPH_SUB:
    case GRAPH_MUL:
    case GRAPH_DIV:
        run_binary(node->op, in, out);
        break;
    case GRAPH_RELU:
    case GRAPH_SIGMOID:
    case GRAPH_TANH:
    case GRAPH_ERF:
        run_unary(node->op, in[0], out);
        break;
    case GRAPH_CONV:
        run_conv(node, in, out);
        break;
    case GRAPH_BATCH_NORM:
        run_batch_norm(node, in, out);
        break;
    case GRAPH_INSTANCE_NORM:
        run_instance_norm(node, in, out);
        break;
    case GRAPH_MAX_POOL:
        run_pool(node, in[0], out);
        break;
    case GRAPH_MEAN:
        run_mean(in[0], out);
        break;
    case GRAPH_GEMM:
        run_gemm(in, out);
        break;
    case GRAPH_MATMUL:
        run_matmul(in, out);
        break;
    case GRAPH_TRANSPOSE:
        run_transpose(node, in[0], out);
        break;
    case GRAPH_SOFTMAX:
        run_softmax(in[0], out);
        break;
    case GRAPH_LAYER_NORM:
        run_layer_norm(node, in, out);
        break;
    case GRAPH_GATHER:
        run_gather(in, out);
        break;
    case GRAPH_RESHAPE:
    case GRAPH_FLATTEN:
        memcpy(out->data, in[0]->data, sizeof(float) * graph_tensor_size(out));
        break;
    case GRAPH_OP_COUNT:
        break;
    }
}
