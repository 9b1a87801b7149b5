/*
 * What the policy network on the device consists of: its arrays, and the tables that say which products each of its
 * kernels computes. network_tables.cu makes them, network.cu runs them.
 */
#ifndef POLICY_NETWORK_TABLES_CUH
#define POLICY_NETWORK_TABLES_CUH

#include <cstdio>
#include <vector>

#include "policy/network.cuh"
#include "policy/product.cuh"
#include "policy/recurrence.cuh"

enum { SUM_CHUNKS = 32, SUM_COLUMNS = 32, SUM_LANES = 8 };

/* Gradients of vectors: sums over all rows of d, or of d * hat, by column. */
struct column_sum {
    const float *d, *hat;
    int d_stride, hat_stride, width;
    size_t grad, grad2; /* where the sums go, in the flat array; grad2 may be the same */
    int first_tile;
};

enum norm_place { NORM_FEATURE, NORM_LSTM, NORM_VALUE1, NORM_VALUE2, NORM_COUNT };

/* What the forward pass keeps of a row, [row][width]. */
struct trace {
    float *in;          /* [in_stride]: observation, embeddings, and zeros up to a multiple of 4 */
    float *feature, *x; /* the same array without projection */
    float *gate, *h_in, *c_in, *tanh_c, *z;
    float *wide; /* first layers of the heads, then V's */
    float *blueprint2, *value2, *value3;
    float *hat[NORM_COUNT], *rstd[NORM_COUNT];
};

/* Gradients in the backward pass. */
struct back {
    float *wide, *blueprint2, *value2, *value3, *z, *h, *gate, *c, *x, *feature;
    float *embed;            /* [row][4 * slots] */
    float *kept[NORM_COUNT]; /* of gamma * hat + beta */
};

struct product_list {
    std::vector<struct product> host; /* kept: the copy to the device may still read it */
    struct product *device;
    int tiles;
};

/* The products of a forward pass, in their order. */
struct forward_lists {
    struct product_list feature, project, gates, wide, second, third, fourth;
};

struct network_device {
    struct runtime *rt;
    struct network_places at;
    struct policy_shape shape;
    int rows, in_stride;
    struct trace act, unroll;
    struct back back;
    struct forward_lists act_lists, unroll_lists;
    struct product_list back_first, back_second, back_value, back_wide, back_gates, back_project, back_embed, weights;
    struct recurrence recurrence;
    std::vector<struct column_sum> sums;
    struct column_sum *sums_device;
    int sum_tiles;
    double *sum_partial;   /* [chunk][tile][SUM_COLUMNS] */
    double *embed_partial; /* [chunk][14 * 4] */
};

/* ---- places ------------------------------------------------------------------------------------------------------ */

static inline size_t offset_of(const struct network_device *net, const char *owner, const char *name)
{
    char full[POLICY_TENSOR_NAME];
    snprintf(full, sizeof full, "%s.%s", owner, name);
    return net->shape.tensor[policy_shape_find(&net->shape, full)].offset;
}

/* Column of a head's first layer in trace.wide. */
static inline int wide_column(const struct network_device *net, int head)
{
    return (head + (head > HEAD_BLUEPRINT)) * (net->shape.hidden / 2);
}

static inline int wide_columns(const struct network_device *net)
{
    return 5 * net->shape.hidden;
}

static inline const char *norm_name(int norm)
{
    static const char *const name[NORM_COUNT] = {"feat_ln", "lstm0.ln", "v.ln1", "v.ln2"};
    return name[norm];
}

static inline int norm_width(const struct network_device *net, int norm)
{
    const int hidden = net->shape.hidden, width[NORM_COUNT] = {net->shape.feature, hidden, hidden / 2, hidden / 4};
    return width[norm];
}

/* Allows the kernels the shared memory they need. */
void network_kernels_allow(struct network_device *net);

#endif
