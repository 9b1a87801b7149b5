/* The parameters of the policy network: their layout, and their orthogonal initialisation (P-10). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/philox.h"
#include "policy/network.h"

/* ---- layout ----------------------------------------------------------------------------------------------------- */

enum { TENSOR_ALIGN = 16 }; /* reals: 64 bytes of float */

static void add_tensor(struct policy_shape *shape, int part, const char *owner, const char *name, int rows, int columns)
{
    struct policy_tensor *tensor = &shape->tensor[shape->count];
    size_t size = (size_t)rows * (size_t)columns;
    snprintf(tensor->name, sizeof tensor->name, "%s%s%s", owner, *owner ? "." : "", name);
    tensor->rows = rows;
    tensor->columns = columns;
    tensor->offset = shape->storage;
    shape->part[shape->count++] = (uint8_t)part;
    shape->params += size;
    shape->storage += (size + TENSOR_ALIGN - 1) / TENSOR_ALIGN * TENSOR_ALIGN;
}

static void add_linear(struct policy_shape *shape, int part, const char *name, int in, int out)
{
    add_tensor(shape, part, name, "weight", out, in);
    add_tensor(shape, part, name, "bias", out, 1);
}

static void add_norm(struct policy_shape *shape, int part, const char *name, int width)
{
    add_tensor(shape, part, name, "gamma", width, 1);
    add_tensor(shape, part, name, "beta", width, 1);
}

static void add_lstm(struct policy_shape *shape, int hidden)
{
    add_tensor(shape, POLICY_PART_TRUNK, "lstm0", "w_ih", 4 * hidden, hidden);
    add_tensor(shape, POLICY_PART_TRUNK, "lstm0", "w_hh", 4 * hidden, hidden);
    add_tensor(shape, POLICY_PART_TRUNK, "lstm0", "b_ih", 4 * hidden, 1);
    add_tensor(shape, POLICY_PART_TRUNK, "lstm0", "b_hh", 4 * hidden, 1);
    add_norm(shape, POLICY_PART_TRUNK, "lstm0.ln", hidden);
}

/* Linear layers of these widths, named head.<name>.l1 and so on. */
static void add_head(struct policy_shape *shape, int head, const int *width, int layers)
{
    for (int layer = 1; layer <= layers; layer++) {
        char name[POLICY_TENSOR_NAME - 8];
        snprintf(name, sizeof name, "head.%s.l%d", head_name(head), layer);
        add_linear(shape, head, name, width[layer - 1], width[layer]);
    }
}

static void add_value(struct policy_shape *shape, int hidden)
{
    add_linear(shape, POLICY_PART_VALUE, "v.l1", hidden, hidden / 2);
    add_norm(shape, POLICY_PART_VALUE, "v.ln1", hidden / 2);
    add_linear(shape, POLICY_PART_VALUE, "v.l2", hidden / 2, hidden / 4);
    add_norm(shape, POLICY_PART_VALUE, "v.ln2", hidden / 4);
    add_linear(shape, POLICY_PART_VALUE, "v.l3", hidden / 4, hidden / 8);
    add_linear(shape, POLICY_PART_VALUE, "v.l4", hidden / 8, 1);
}

void policy_shape_init(struct policy_shape *shape, int obs, int slots, int feature, int hidden)
{
    *shape = (struct policy_shape){.slots = slots,
                                   .obs = obs,
                                   .feature = feature,
                                   .hidden = hidden,
                                   .inputs = obs + POLICY_EMBED * slots,
                                   .logits = head_offset(slots, HEAD_COUNT)};
    add_tensor(shape, POLICY_PART_TRUNK, "", "emb", POLICY_EMBED_ROWS, POLICY_EMBED);
    add_linear(shape, POLICY_PART_TRUNK, "feat", shape->inputs, feature);
    add_norm(shape, POLICY_PART_TRUNK, "feat_ln", feature);
    if (feature != hidden)
        add_linear(shape, POLICY_PART_TRUNK, "proj", feature, hidden);
    add_lstm(shape, hidden);
    for (int head = 0; head < HEAD_COUNT; head++) {
        int size = head_size(slots, head);
        if (head == HEAD_BLUEPRINT)
            add_head(shape, head, (const int[]){hidden, hidden, hidden / 2, size}, 3);
        else
            add_head(shape, head, (const int[]){hidden, hidden / 2, size}, 2);
    }
    add_value(shape, hidden);
}

int policy_shape_find(const struct policy_shape *shape, const char *name)
{
    for (int i = 0; i < shape->count; i++)
        if (strcmp(shape->tensor[i].name, name) == 0)
            return i;
    return -1;
}

/* ---- orthogonal initialisation ---------------------------------------------------------------------------------- */

/*
 * Gram-Schmidt on `count` vectors of `length`, in place: element i of vector j is at[j * next + i * along]. Vectors are
 * orthogonalised BLOCK at a time with respect to the blocks before them, in slices small enough for the L1 cache, so
 * that both storage orders run at the speed of a matrix product. Everything is done twice, which makes the result
 * orthogonal to within rounding. The norms are the diagonal of R, positive as a unique factorisation requires.
 */
struct vectors {
    float *at;
    ptrdiff_t next, along;
    int count, length;
};

enum { BLOCK = 16, SLICE = 128 };

typedef float slice[SLICE][BLOCK]; /* elements of a block of vectors; columns past the last vector are zero */

static int block_width(const struct vectors *v, int block)
{
    return v->count - block < BLOCK ? v->count - block : BLOCK;
}

static int slice_length(const struct vectors *v, int first)
{
    return v->length - first < SLICE ? v->length - first : SLICE;
}

static void slice_read(const struct vectors *v, int block, int first, slice out)
{
    int width = block_width(v, block), length = slice_length(v, first);
    if (width < BLOCK || length < SLICE)
        memset(out, 0, sizeof(slice));
    const float *at = v->at + block * v->next + first * v->along;
    if (v->next == 1 && width == BLOCK) {
        for (int i = 0; i < length; i++)
            memcpy(out[i], at + i * v->along, sizeof out[i]);
    } else {
        for (int j = 0; j < width; j++)
            for (int i = 0; i < length; i++)
                out[i][j] = at[j * v->next + i * v->along];
    }
}

static void slice_write(const struct vectors *v, int block, int first, slice in)
{
    int width = block_width(v, block), length = slice_length(v, first);
    float *at = v->at + block * v->next + first * v->along;
    if (v->next == 1 && width == BLOCK) {
        for (int i = 0; i < length; i++)
            memcpy(at + i * v->along, in[i], sizeof in[i]);
    } else {
        for (int j = 0; j < width; j++)
            for (int i = 0; i < length; i++)
                at[j * v->next + i * v->along] = in[i][j];
    }
}

enum { TILE = 4, VECTORS = BLOCK / 4 }; /* a tile of sums that fits in registers: TILE x BLOCK */

/* dot[a][b] += sum over i of q[i][a] * x[i][b] */
static void slice_dot(slice q, slice x, float dot[BLOCK][BLOCK])
{
    for (int a = 0; a < BLOCK; a += TILE) {
        vec4 sum[TILE][VECTORS] = {{{0}}};
        for (int i = 0; i < SLICE; i++) {
            const vec4 *row = (const vec4 *)x[i];
            UNROLL for (int k = 0; k < TILE; k++) UNROLL for (int j = 0; j < VECTORS; j++)
                sum[k][j] += row[j] * q[i][a + k];
        }
        UNROLL for (int k = 0; k < TILE; k++)
            UNROLL for (int j = 0; j < VECTORS; j++)((vec4 *)dot[a + k])[j] += sum[k][j];
    }
}

/* x[i] -= sum over a of q[i][a] * dot[a] */
static void slice_subtract(slice q, float dot[BLOCK][BLOCK], slice x)
{
    for (int i = 0; i < SLICE; i += TILE) {
        vec4 sum[TILE][VECTORS];
        UNROLL for (int k = 0; k < TILE; k++) UNROLL for (int j = 0; j < VECTORS; j++)
            sum[k][j] = ((const vec4 *)x[i + k])[j];
        for (int a = 0; a < BLOCK; a++) {
            const vec4 *row = (const vec4 *)dot[a];
            UNROLL for (int k = 0; k < TILE; k++) UNROLL for (int j = 0; j < VECTORS; j++)
                sum[k][j] -= row[j] * q[i + k][a];
        }
        UNROLL for (int k = 0; k < TILE; k++) UNROLL for (int j = 0; j < VECTORS; j++)((vec4 *)x[i + k])[j] = sum[k][j];
    }
}

/* Subtract from block `b` its projection onto block `a`. */
static void block_project(const struct vectors *v, int a, int b)
{
    slice q, x;
    float dot[BLOCK][BLOCK] = {{0}};
    for (int first = 0; first < v->length; first += SLICE) {
        slice_read(v, a, first, q);
        slice_read(v, b, first, x);
        slice_dot(q, x, dot);
    }
    for (int first = 0; first < v->length; first += SLICE) {
        slice_read(v, a, first, q);
        slice_read(v, b, first, x);
        slice_subtract(q, dot, x);
        slice_write(v, b, first, x);
    }
}

/* The same inside a block, vector by vector: column j with respect to the columns before it. */
static void block_project_column(const struct vectors *v, int block, int j)
{
    float *at = v->at + block * v->next;
    double dot[BLOCK] = {0};
    for (int i = 0; i < v->length; i++)
        for (int a = 0; a < j; a++)
            dot[a] += (double)at[a * v->next + i * v->along] * (double)at[j * v->next + i * v->along];
    for (int i = 0; i < v->length; i++) {
        double sum = (double)at[j * v->next + i * v->along];
        for (int a = 0; a < j; a++)
            sum -= dot[a] * (double)at[a * v->next + i * v->along];
        at[j * v->next + i * v->along] = (float)sum;
    }
}

static void scale_vector(const struct vectors *v, int j)
{
    float *at = v->at + j * v->next;
    double square = 0;
    for (int i = 0; i < v->length; i++)
        square += (double)at[i * v->along] * (double)at[i * v->along];
    double scale = 1 / sqrt(square);
    for (int i = 0; i < v->length; i++)
        at[i * v->along] = (float)((double)at[i * v->along] * scale);
}

static void orthonormalise(const struct vectors *v)
{
    for (int block = 0; block < v->count; block += BLOCK) {
        for (int pass = 0; pass < 2; pass++) {
            for (int before = 0; before < block; before += BLOCK)
                block_project(v, before, block);
            for (int j = 0; j < block_width(v, block); j++) {
                block_project_column(v, block, j);
                scale_vector(v, block + j);
            }
        }
    }
}

/* Standard normals by Box-Muller: elements 2k and 2k + 1 come from the words of both. Element i of vector j is number
 * i * count + j, row-major in the max x min matrix. */
static void draw_normals(const struct vectors *v, struct random_site site)
{
    struct philox_block block = {{0}};
    double normal[4] = {0};
    for (int i = 0, element = 0; i < v->length; i++) {
        for (int j = 0; j < v->count; j++, element++) {
            if (element % 4 == 0) {
                block = random_block(site, (uint32_t)element / 4);
                for (int k = 0; k < 4; k += 2) {
                    double radius = sqrt(-2 * log(1 - (double)random_unit(block.word[k])));
                    double angle = 6.283185307179586 * (double)random_unit(block.word[k + 1]);
                    normal[k] = radius * cos(angle);
                    normal[k + 1] = radius * sin(angle);
                }
            }
            v->at[j * v->next + i * v->along] = (float)normal[element % 4];
        }
    }
}

static bool ends_with(const char *name, const char *ending)
{
    size_t length = strlen(name), tail = strlen(ending);
    return length >= tail && strcmp(name + length - tail, ending) == 0;
}

/* The gain of a matrix: the last layers start small, so that a fresh policy is nearly uniform and a fresh V near 0. */
static double matrix_gain(const struct policy_shape *shape, int tensor)
{
    const char *name = shape->tensor[tensor].name;
    int part = shape->part[tensor];
    if (part == POLICY_PART_VALUE)
        return ends_with(name, "l4.weight") ? 0.1 : sqrt(2);
    if (part < HEAD_COUNT)
        return ends_with(name, part == HEAD_BLUEPRINT ? "l3.weight" : "l2.weight") ? 0.01 : sqrt(2);
    return strncmp(name, "lstm0", 5) == 0 ? 1 : sqrt(2);
}

struct init_work {
    const struct policy_shape *shape;
    uint64_t seed;
    float *w;
};

static void init_vector(const struct policy_tensor *tensor, int hidden, float *w)
{
    bool gamma = ends_with(tensor->name, "gamma"), lstm = strncmp(tensor->name, "lstm0.b_", 8) == 0;
    for (int i = 0; i < tensor->rows; i++) /* forget biases 1 + ln(layers), in both vectors (P-10) */
        w[i] = gamma || (lstm && i / hidden == 1) ? 1.0f : 0.0f;
}

static void init_tensor(void *context, int item, int thread)
{
    const struct init_work *work = context;
    const struct policy_tensor *tensor = &work->shape->tensor[item];
    struct random_site site = random_at(work->seed, STREAM_POLICY_INIT, 0, 0, (uint32_t)item);
    float *w = work->w + tensor->offset;
    int rows = tensor->rows, columns = tensor->columns;
    size_t size = (size_t)rows * (size_t)columns;
    double gain = 0.02;
    (void)thread;
    if (columns == 1 && !ends_with(tensor->name, "weight")) {
        init_vector(tensor, work->shape->hidden, w);
        return;
    }
    struct vectors tall = {w, 1, columns, columns, rows}, wide = {w, columns, 1, rows, columns};
    const struct vectors *v = rows >= columns ? &tall : &wide;
    draw_normals(v, site);
    if (item != 0) { /* tensor 0 is the embedding, N(0, 0.02^2) */
        gain = matrix_gain(work->shape, item);
        orthonormalise(v);
    }
    for (size_t i = 0; i < size; i++)
        w[i] = (float)(gain * (double)w[i]);
}

void policy_init_weights(const struct policy_shape *shape, uint64_t seed, struct pool *pool, float *w)
{
    struct init_work work = {shape, seed, w};
    memset(w, 0, sizeof(float) * shape->storage);
    pool_run(pool, init_tensor, &work, shape->count);
}

void policy_add_prior(const struct policy_shape *shape, const double prior[OP_COUNT], float *w)
{
    float *bias = w + shape->tensor[policy_shape_find(shape, "head.op.l2.bias")].offset;
    for (int op = 0; op < OP_COUNT; op++)
        bias[op] += (float)prior[op];
}
