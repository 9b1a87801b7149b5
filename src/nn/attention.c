#include "nn/attention.h"

#include <math.h>

#include "nn/linear.h"
#include "nn/tokens.h"

/* One head: where its numbers begin in rows of queries, keys, values and outputs, and how far apart rows are. */
struct head {
    int length, size;
    ptrdiff_t row; /* of qkv; rows of scores are `wide` apart, whole panels */
    int wide;
};

static int wide_of(int length)
{
    return panel_count(length) * PANEL;
}

size_t attention_kept(const struct attention *a)
{
    return (size_t)a->heads * (size_t)a->length * (size_t)wide_of(a->length);
}

/* A packed matrix [head][length] or [length][head], and the gradients of a head's scores. */
static size_t packed_part(const struct attention *a)
{
    size_t turned = packed_size(a->head, a->length), straight = packed_size(a->length, a->head);
    return turned > straight ? turned : straight;
}

size_t attention_workspace(const struct attention *a)
{
    return packed_part(a) + (size_t)a->length * (size_t)wide_of(a->length);
}

/* Rows [from, to) of a block on the diagonal. */
#define EACH_BLOCK(length)                                                                                             \
    for (int from = 0, to; to = from + PANEL < (length) ? from + PANEL : (length), from < (length); from = to)

/* scores[i][j] = x[i] . y[j] for j in the blocks up to i's; x and y are rows of a head. */
static void scores_of(const struct head *h, const real *x, ptrdiff_t x_row, const real *y, real *packed, real *scores)
{
    linear_pack(h->size, h->length, y, 1, h->row, 0, panel_count(h->length), packed);
    EACH_BLOCK(h->length)
    {
        const struct product product = {.rows = to - from,
                                        .k = h->size,
                                        .columns = h->wide,
                                        .a = x + from * x_row,
                                        .a_stride = x_row,
                                        .b = packed,
                                        .c = scores + (size_t)from * (size_t)h->wide,
                                        .c_stride = h->wide};
        linear_product(&product, 0, panel_count(to));
    }
}

/* The panels of a head one by one, over a range of k: packed panels hold all of it. */
static void each_panel(const struct head *h, struct product product, int first_k, const real *packed)
{
    real *c = product.c;
    for (int column = 0; column < h->size; column += PANEL) {
        product.columns = h->size - column < PANEL ? h->size - column : PANEL;
        product.b = packed + ((size_t)column * (size_t)h->length + (size_t)first_k * PANEL);
        product.c = c + column;
        linear_product(&product, 0, 1);
    }
}

/* out[i] = sum over j of weights[i][j] * y[j], j in the blocks up to i's. */
static void mix_back(const struct head *h, const real *weights, const real *y, ptrdiff_t y_row, real *packed, real *out,
                     ptrdiff_t out_row)
{
    linear_pack(h->length, h->size, y, y_row, 1, 0, panel_count(h->size), packed);
    EACH_BLOCK(h->length)
    {
        const struct product product = {.rows = to - from,
                                        .k = to,
                                        .a = weights + (size_t)from * (size_t)h->wide,
                                        .a_stride = h->wide,
                                        .c = out + from * out_row,
                                        .c_stride = out_row};
        each_panel(h, product, 0, packed);
    }
}

/* out[j] = sum over i of weights[i][j] * x[i], i in the blocks from j's on. */
static void mix_forth(const struct head *h, const real *weights, const real *x, ptrdiff_t x_row, real *packed,
                      real *out)
{
    linear_pack(h->length, h->size, x, x_row, 1, 0, panel_count(h->size), packed);
    EACH_BLOCK(h->length)
    {
        const struct product product = {.rows = to - from,
                                        .k = h->length - from,
                                        .a = weights + (size_t)from * (size_t)h->wide + from,
                                        .a_stride = h->wide,
                                        .across = true,
                                        .c = out + from * h->row,
                                        .c_stride = h->row};
        each_panel(h, product, from, packed);
    }
}

/* As far as products read row i: to the end of its block. */
static int room_of(int i)
{
    return (i / PANEL + 1) * PANEL;
}

void attend_forward(const struct attention *a, const real *qkv, real *kept, real *out, real *workspace)
{
    const int width = a->heads * a->head, wide = wide_of(a->length);
    const struct head h = {a->length, a->head, 3 * width, wide};
    const real scale = (real)(1 / sqrt((double)a->head));
    for (int k = 0; k < a->heads; k++, kept += (size_t)a->length * (size_t)wide) {
        const real *q = qkv + k * a->head;
        scores_of(&h, q, h.row, q + width, workspace, kept);
        for (int i = 0; i < a->length; i++)
            softmax_row(i + 1, room_of(i), scale, kept + (size_t)i * (size_t)wide);
        mix_back(&h, kept, q + 2 * width, h.row, workspace, out + k * a->head, width);
    }
}

void attend_backward(const struct attention *a, const real *qkv, const real *kept, const real *dout, real *dqkv,
                     real *workspace)
{
    const int width = a->heads * a->head, wide = wide_of(a->length);
    const struct head h = {a->length, a->head, 3 * width, wide};
    const real scale = (real)(1 / sqrt((double)a->head));
    real *packed = workspace, *scores = workspace + packed_part(a);
    for (int k = 0; k < a->heads; k++, kept += (size_t)a->length * (size_t)wide) {
        const real *q = qkv + k * a->head, *d = dout + k * a->head;
        real *dq = dqkv + k * a->head;
        mix_forth(&h, kept, d, width, packed, dq + 2 * width);
        scores_of(&h, d, width, q + 2 * width, packed, scores);
        for (int i = 0; i < a->length; i++)
            softmax_row_backward(i + 1, room_of(i), scale, kept + (size_t)i * (size_t)wide,
                                 scores + (size_t)i * (size_t)wide);
        mix_back(&h, scores, q + width, h.row, packed, dq, h.row);
        mix_forth(&h, scores, q, h.row, packed, dq + width);
    }
}
